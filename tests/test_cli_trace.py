"""--trace and replay: the log tells everything, and a run made from it says the same."""
import json
import resource
import subprocess

import pytest

from conftest import DATA
from test_cli import GREEDY, STORY, refused

BANNED = ["--ban", "testament to"]


def record(retrace, *args, name="t.jsonl"):
    done = retrace("generate", *args, "--trace", name)
    lines = (retrace.tmp / name).read_text().split("\n")
    assert lines.pop() == ""
    return done, [json.loads(line) for line in lines]


def rewrite(retrace, lines, name="t.jsonl"):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (retrace.tmp / name).write_text(text)


def apply(ops):
    """The final tokens, and the text of what settled."""
    stack, settled = [], 0
    for op in ops:
        if op["op"] == "push":
            assert op["pos"] == len(stack)
            stack.append(op)
        elif op["op"] == "erase":
            assert settled <= op["to"] <= len(stack)
            del stack[op["to"] :]
        elif op["op"] == "settle":
            assert settled <= op["to"] <= len(stack)
            settled = op["to"]
    text = b"".join(bytes(p.get("bytes", p["text"].encode())) for p in stack[:settled])
    return [p["id"] for p in stack], text


def test_lines(retrace):
    done, ops = record(retrace, *GREEDY, "-p", "go", "-s", "7", *BANNED)
    assert [o["seq"] for o in ops] == list(range(len(ops)))
    assert (ops[0]["op"], ops[-1]["op"]) == ("start", "done")
    start = ops[0]
    assert start["model"] == str(STORY) and start["prompt"] == "go" and start["prompt_tokens"] == [0]
    assert start["seed"] == 7
    settings = start["settings"]
    assert (settings["temp"], settings["top_k"], settings["hold"]) == (0.0, 40, "minimal")
    assert settings["rules"] == [{"name": "phrases", "text": ["testament to"]}]
    assert settings["driver"] == "sample" and settings["stop"] == [] and settings["engine"] == {}
    assert ops[1] == {
        "seq": 1, "op": "push", "node": 1, "parent": 0, "pos": 0, "id": 1, "text": " a", "logprob": 0.0,
    }
    erase = [o for o in ops if o["op"] == "erase"][0]
    assert {k: erase[k] for k in ("to", "node", "rule", "why", "ban")} == {
        "to": 1, "node": 1, "rule": "phrases", "why": "testament to", "ban": [2],
    }
    assert ops[-1] == {"seq": len(ops) - 1, "op": "done", "finish": "end", "text": " a sign of hope."}


@pytest.mark.parametrize("seed", range(8))
def test_applied_it_gives_the_answer(retrace, seed):
    args = ["-m", STORY, "-p", "go", "-s", seed, *BANNED]
    done, ops = record(retrace, *args)
    whole = retrace("generate", *args, "--json").json
    tokens, text = apply(ops)
    assert tokens == whole["tokens"] and text.decode() == whole["text"] == done.out
    drawn = sum(o["op"] == "push" for o in ops)
    assert whole["stats"]["kept"] + whole["stats"]["erased"] == drawn


def test_bytes_beside_a_part_of_a_character(retrace):
    _, ops = record(retrace, *GREEDY, "-p", "utf")
    assert ops[1]["text"] == "\ufffd" and ops[1]["bytes"] == [230]
    assert apply(ops)[1] == "\u6b65".encode()
    assert ops[-1]["text"] == "\u6b65" and "bytes" not in ops[-1]
    _, ops = record(retrace, *GREEDY, "-p", "cut")
    assert ops[-1]["text"] == "\ufffd" and ops[-1]["bytes"] == [230]
    assert retrace("replay", "t.jsonl").code == 0


def test_top(retrace):
    _, ops = record(retrace, *GREEDY, "-p", "go", "--logprobs", "2")
    push = [o for o in ops if o["op"] == "push"][1]
    assert [t["id"] for t in push["top"]] == [2, 4] and push["top"][0]["logprob"] == push["logprob"]


def test_nothing_is_written_for_bad_input(retrace):
    name = retrace.tmp / "t.jsonl"
    for bad in (["--temp", "x"], ["-m", "none.json"], ["--logit-bias", "99=1"], ["-p", "%"]):
        assert retrace("generate", "-p", "go", *GREEDY, *bad, "--trace", name).code in (2, 4)
        assert not name.exists()


def test_trace_that_cannot_be_written(retrace):
    run = ["generate", *GREEDY, "-p", "go", "--trace"]
    refused(retrace(*run, "no/such/folder/t.jsonl"), 4, "no/such/folder/t.jsonl")
    full = retrace(*run, "/dev/full")
    refused(full, 4, "/dev/full")
    assert full.err.count("\n") == 1
    refused(retrace(*run, "."), 4, "'.'")


def test_trace_that_cannot_grow(retrace):
    """A write that fails in the middle of the run ends it with one message, and the file has no end."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
    done = retrace.start(
        "generate", "-m", DATA / "cli_endless.json", "-p", "a", "-n", "1000", "-q", "--trace", "t.jsonl",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit,
    )
    out, err = done.communicate(timeout=60)
    assert done.returncode == 4 and err.count(b"\n") == 1 and b"'t.jsonl'" in err
    assert 0 < len(out) < 100
    refused(retrace("replay", "t.jsonl"), 2, "t.jsonl:")


# ==== replay ====

RUNS = {
    "plain": ["-m", STORY, "-p", "pick", "-n", "20", "-s", "3"],
    "ban": [*GREEDY, "-p", "go", *BANNED],
    "ban drawn": ["-m", STORY, "-p", "go", "-s", "2", *BANNED, "--logprobs", "3"],
    "stop": [*GREEDY, "-p", "go", "--stop", "ent t"],
    "stuck": [*GREEDY, "-p", "stuck", "--ban", "only"],
    "stuck stop": [*GREEDY, "-p", "stuck", "--ban", "only", "--on-stuck", "stop"],
    "allow": [*GREEDY, "-p", "stuck", "--ban", "only", "--on-stuck", "allow"],
    "budget": [*GREEDY, "-p", "go", "--ban", "testament", "--max-rewinds", "0"],
    "bias": [*GREEDY, "-p", "go", "--logit-bias", "2=-inf", "--logit-bias", "4=0.125"],
    "bytes": [*GREEDY, "-p", "utf"],
    "empty": [*GREEDY, "-p", ""],
    "chat": [*GREEDY, "--chat", "-p", "go"],
    "weight": ["-m", STORY, "-p", "pick", "-n", "30", "-s", "4", "--rule", "phrases:text=1,weight=0.5"],
    "penalties": ["-m", STORY, "-p", "pick", "-n", "30", "-s", "4", "--repeat-penalty", "1.3",
                  "--presence-penalty", "0.123456789012", "--temp", "1.1"],
}


@pytest.mark.parametrize("name", RUNS)
def test_replay_agrees(retrace, name):
    _, ops = record(retrace, *RUNS[name])
    done = retrace("replay", "t.jsonl")
    assert done.code == 0, done
    assert done.out == "ok: %d operations, %d tokens\n" % (len(ops) - 1, len(apply(ops)[0]))


def test_replay_does_not_draw(retrace):
    """What counts is the recorded choice: another seed in the first line changes nothing."""
    _, ops = record(retrace, *RUNS["plain"])
    ops[0]["seed"] += 1
    rewrite(retrace, ops)
    assert retrace("replay", "t.jsonl").code == 0


def test_replay_with_another_model(retrace):
    _, ops = record(retrace, *RUNS["ban"])
    ops[0]["model"] = "gone.json"
    rewrite(retrace, ops)
    refused(retrace("replay", "t.jsonl"), 4, "gone.json")
    assert retrace("replay", "t.jsonl", "-m", STORY).code == 0
    changed = json.loads(STORY.read_text())
    changed["rows"][3]["next"] = {" testament": 0.7, " sign": 0.3}
    (retrace.tmp / "changed.json").write_text(json.dumps(changed))
    done = retrace("replay", "t.jsonl", "-m", "changed.json")
    refused(done, 1, "logprob", "t.jsonl:%d" % (1 + first(ops, "push", 1)))
    assert retrace("replay", "t.jsonl", "-m", "changed.json", "--tolerance", "0.5").code == 0


def first(ops, op, skip=0):
    return [o["seq"] for o in ops if o["op"] == op][skip]


@pytest.mark.parametrize(
    "op, key, value",
    [
        ("push", "node", 9),
        ("push", "parent", 9),
        ("push", "pos", 9),
        ("push", "text", "?"),
        ("push", "logprob", -1.5),
        ("push", "logprob", None),
        ("erase", "to", 0),
        ("erase", "node", 0),
        ("erase", "rule", "other"),
        ("erase", "why", "other"),
        ("erase", "ban", [3]),
        ("settle", "to", 2),
        ("done", "finish", "length"),
        ("done", "text", "another"),
    ],
)
def test_replay_names_the_first_difference(retrace, op, key, value):
    _, ops = record(retrace, *RUNS["ban"])
    at = first(ops, op)
    assert ops[at][key] != value
    ops[at][key] = value
    rewrite(retrace, ops)
    refused(retrace("replay", "t.jsonl"), 1, "t.jsonl:%d: %s was" % (at + 1, key))


def test_replay_of_a_token_that_cannot_be_drawn(retrace):
    _, ops = record(retrace, *RUNS["ban"])
    ops[first(ops, "push", 1)]["id"] = 6
    rewrite(retrace, ops)
    refused(retrace("replay", "t.jsonl"), 1, "t.jsonl:", "id was 6")


def test_replay_of_other_settings(retrace):
    _, ops = record(retrace, *RUNS["ban"])
    ops[0]["settings"]["rules"][0]["text"] = ["testament"]
    rewrite(retrace, ops)
    assert retrace("replay", "t.jsonl").code == 1
    ops[0]["settings"]["rules"] = []
    rewrite(retrace, ops)
    assert retrace("replay", "t.jsonl").code == 1


def test_replay_of_a_line_too_few(retrace):
    _, ops = record(retrace, *RUNS["ban"])
    del ops[first(ops, "erase")]
    for i, op in enumerate(ops):
        op["seq"] = i
    rewrite(retrace, ops)
    assert retrace("replay", "t.jsonl").code == 1


def broken(retrace, change, line):
    _, ops = record(retrace, *RUNS["ban"])
    lines = [json.dumps(o) for o in ops]
    (retrace.tmp / "t.jsonl").write_text("\n".join(change(lines)) + "\n")
    refused(retrace("replay", "t.jsonl"), 2, "t.jsonl:%d" % line(len(lines)))


@pytest.mark.parametrize(
    "change, line",
    [
        (lambda l: l[:2] + ["{"] + l[3:], lambda n: 3),
        (lambda l: l[:2] + ["[]"] + l[3:], lambda n: 3),
        (lambda l: l[:2] + ["{}"] + l[3:], lambda n: 3),
        (lambda l: l[:2] + l[3:], lambda n: 3),
        (lambda l: l[1:], lambda n: 1),
        (lambda l: l[:-1], lambda n: n - 1),
        (lambda l: l[:1], lambda n: 1),
        (lambda l: l + ['{"seq": %d, "op": "settle", "to": 1}' % len(l)], lambda n: n + 1),
        (lambda l: l[:1] + ['{"seq": 1, "op": "leap"}'] + l[2:], lambda n: 2),
        (lambda l: l[:1] + ['{"seq": 1, "op": "push", "node": 1}'] + l[2:], lambda n: 2),
        (lambda l: ['{"seq": 0, "op": "start"}'] + l[1:], lambda n: 1),
        (lambda l: [l[0].replace('"prompt_tokens"', '"nothing"')] + l[1:], lambda n: 1),
        (lambda l: [l[0].replace('[0]', '["a"]')] + l[1:], lambda n: 1),
        (lambda l: [l[0].replace('[0]', '[999]')] + l[1:], lambda n: 1),
        (lambda l: [l[0].replace('"phrases"', '"prases"')] + l[1:], lambda n: 1),
        (lambda l: [l[0].replace('"temp": 0.0', '"temp": -3')] + l[1:], lambda n: 1),
    ],
)
def test_broken_trace(retrace, change, line):
    broken(retrace, change, line)


def test_no_trace_at_all(retrace):
    refused(retrace("replay", "none.jsonl"), 4, "none.jsonl")
    (retrace.tmp / "empty.jsonl").write_text("")
    refused(retrace("replay", "empty.jsonl"), 2, "empty.jsonl:1")
    refused(retrace("replay", DATA / "cli_story.json"), 2, "cli_story.json:1")


# ==== What a start line may say ====


@pytest.mark.parametrize(
    "key, value",
    [
        ("stop", "x"),
        ("stop", [1]),
        ("logit_bias", [1]),
        ("logit_bias", {"1": 0.5, "01": 0.5}),
        ("driver", 3),
        ("engine", [1]),
        ("engine", {"keep_mib": [1]}),
        ("chat", "maybe"),
        ("system", 1),
        ("rules", "x"),
        ("rules", [1]),
        ("rules", [{"name": "phrases", "text": [["a"]]}]),
        ("tempp", 1),
        ("seed", 1),
        ("temp", None),
        ("hold", ["all"]),
    ],
)
def test_start_with_a_wrong_setting(retrace, key, value):
    _, ops = record(retrace, *RUNS["ban"])
    ops[0]["settings"][key] = value
    rewrite(retrace, ops)
    name = {("engine", str({"keep_mib": [1]})): "keep_mib"}.get((key, str(value)), key)
    if "[['a']]" in str(value):
        name = "text"
    refused(retrace("replay", "t.jsonl"), 2, "t.jsonl:1: %s: " % name)


@pytest.mark.parametrize("key, value", [("sed", 1), ("prompt", 1), ("model", 1)])
def test_start_with_a_wrong_field(retrace, key, value):
    _, ops = record(retrace, *RUNS["ban"])
    ops[0][key] = value
    rewrite(retrace, ops)
    refused(retrace("replay", "t.jsonl"), 2, "t.jsonl:1: %s: " % key)


@pytest.mark.parametrize("run", ["ban", "chat"])
def test_prompt_is_compared_with_its_tokens(retrace, run):
    _, ops = record(retrace, *RUNS[run])
    ops[0]["prompt"] = "stuck"
    rewrite(retrace, ops)
    refused(retrace("replay", "t.jsonl"), 1, "t.jsonl:1: prompt_tokens")
    del ops[0]["prompt"]
    rewrite(retrace, ops)
    assert retrace("replay", "t.jsonl").code == 0


def test_replay_of_a_prompt_without_special_tokens(retrace):
    model = json.loads(STORY.read_text())
    model["tokens"] += ["<", "|", "u", ">"]
    (retrace.tmp / "m.json").write_text(json.dumps(model))
    _, ops = record(retrace, "-m", "m.json", "-p", "<|u|>go", "--no-special", "-n", "3")
    assert len(ops[0]["prompt_tokens"]) > 2
    assert retrace("replay", "t.jsonl").code == 0


@pytest.mark.parametrize("logprobs", [1, 2, 30, 1000])
def test_top_is_compared(retrace, logprobs):
    _, ops = record(retrace, *RUNS["plain"], "--logprobs", logprobs)
    assert retrace("replay", "t.jsonl").code == 0
    push = ops[first(ops, "push", 1)]
    for key, value in (("id", 5), ("text", "?"), ("logprob", -1.5)):
        was, push["top"][0][key] = push["top"][0][key], value
        rewrite(retrace, ops)
        refused(retrace("replay", "t.jsonl"), 1, "top was")
        push["top"][0][key] = was
    push["top"].pop()
    rewrite(retrace, ops)
    refused(retrace("replay", "t.jsonl"), 1, "top was")


def test_close_candidates_may_change_places(retrace):
    """Two equal ones, of which the trace names the other one."""
    _, ops = record(retrace, *RUNS["plain"], "--logprobs", "1")
    for op in ops:
        if "top" in op:
            op["top"][0].update(id=23, text=STORY_TOKENS[23])
    rewrite(retrace, ops)
    assert retrace("replay", "t.jsonl").code == 0


STORY_TOKENS = json.loads(STORY.read_text())["tokens"]


def test_fields_that_the_run_does_not_have(retrace):
    _, ops = record(retrace, *RUNS["ban"])
    ops[first(ops, "push")]["top"] = []
    rewrite(retrace, ops)
    refused(retrace("replay", "t.jsonl"), 1, "top was")


def test_finish_that_is_missing(retrace):
    _, ops = record(retrace, *RUNS["ban"])
    del ops[-1]["finish"]
    rewrite(retrace, ops)
    refused(retrace("replay", "t.jsonl"), 2, "finish")


def test_replay_of_draws_that_were_refused(retrace):
    """Where a grammar leaves nothing, tokens were drawn and refused without a trace of them."""
    model = retrace.tmp / "m.json"
    table = {"tokens": ["x", "a"], "rows": [{"context": [], "next": {"x": 1}},
                                            {"context": ["x"], "next": {"x": 1, "a": 1}}]}
    model.write_text(json.dumps(table))
    args = ["-m", f"table:{model}", "-p", "x", "-n", "3", "-s", "1", "--top-k", "0", "--top-p", "1"]
    done, ops = record(retrace, *args, "--min-p", "0", "--grammar", 'root ::= "a" "b"')
    assert (done.code, ops[-1]["finish"]) == (1, "stuck")
    assert retrace("replay", "t.jsonl").code == 0
