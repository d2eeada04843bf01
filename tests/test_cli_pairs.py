"""retrace pairs: training pairs from traces."""
import json

import pytest

from conftest import DATA
from test_cli import GREEDY, STORY, refused
from test_cli_trace import BANNED, apply, record, rewrite


def pairs(retrace, *args, code=0):
    done = retrace("pairs", *args)
    assert done.code == code, done
    return [json.loads(line) for line in done.out.splitlines()], done.err


def trace(*ops, prompt="P", finish="end", text="", name="t.jsonl"):
    """A trace with only what matters here: numbers for pushes and erases are filled in."""
    lines = [{"seq": 0, "op": "start", "prompt": prompt, "prompt_tokens": [], "seed": 1, "settings": {}}]
    path, known, born = [], {}, 0
    for op in ops:
        if isinstance(op, str):
            parent = path[-1] if path else 0
            if (parent, op) not in known:
                born += 1
                known[parent, op] = born
            path.append(known[parent, op])
            line = {"op": "push", "node": path[-1], "parent": parent, "pos": len(path) - 1, "id": 7}
            lines.append({"seq": len(lines), **line, **spelt(op.encode("latin-1") if "\xe6" in op else op.encode())})
        else:
            to, rule = op[:2]
            del path[to:]
            lines.append({"seq": len(lines), "op": "erase", "to": to, "node": path[-1] if path else 0,
                          "rule": rule, "why": op[2] if len(op) > 2 else "because", "ban": []})
    lines.append({"seq": len(lines), "op": "done", "finish": finish, **spelt(text if isinstance(text, bytes) else text.encode())})
    return lines


def spelt(data):
    text = data.decode("utf-8", "replace")
    return {"text": text} if text.encode() == data else {"text": text, "bytes": list(data)}


def made(retrace, *ops, flags=(), **how):
    rewrite(retrace, trace(*ops, **how))
    found, err = pairs(retrace, "t.jsonl", *flags)
    return [(p["prompt"], p["chosen"], p["rejected"]) for p in found], err


def test_a_rewind(retrace):
    _, ops = record(retrace, *GREEDY, "-p", "go", *BANNED)
    found, err = pairs(retrace, "t.jsonl")
    assert found == [{"prompt": "go a", "chosen": " sign of", "rejected": " testament to", "rule": "phrases",
                      "why": "testament to", "pos": 1}]
    assert err == "1 pair\n"
    full, _ = pairs(retrace, "t.jsonl", "--span", "full")
    assert full == [{**found[0], "chosen": " sign of hope."}]
    assert full[0]["prompt"] + full[0]["chosen"] == "go" + apply(ops)[1].decode()
    assert pairs(retrace, "t.jsonl", "-q") == (found, "")


def test_exact_shares_the_beginning(retrace):
    record(retrace, "-m", STORY, "-p", "go", "-s", "1", *BANNED, "--resample", "exact")
    found, _ = pairs(retrace, "t.jsonl")
    assert [(p["prompt"], p["chosen"], p["rejected"], p["pos"]) for p in found] == [
        ("go a", " sign of", " testament to", 1)
    ]


def test_a_chat_is_written_as_the_model_read_it(retrace):
    _, ops = record(retrace, *GREEDY, "--chat", "-p", "go", *BANNED)
    assert ops[0]["prompt_text"] == "<|u|>go<|a|>"
    assert retrace("replay", "t.jsonl").code == 0
    found, _ = pairs(retrace, "t.jsonl")
    assert found[0]["prompt"] == "<|u|>go<|a|> a" and found[0]["rejected"] == " testament to"


def test_nested_rewinds(retrace):
    """Of a place that was left for good there is no pair."""
    ops = ("a", "b", "c", (2, "r"), "d", (1, "r"), "e", "f")
    found, err = made(retrace, *ops, text="aef")
    assert found == [("Pa", "ef", "bd")] and err == "1 pair; left out: 1 on another way\n"


def test_put_back(retrace):
    found, err = made(retrace, "a", "b", (1, "soft"), "c", (1, "soft"), "b", "d", text="abd")
    assert found == [("Pa", "b", "c")] and err == "1 pair; left out: 1 put back\n"


def test_nothing_in_its_place(retrace):
    found, err = made(retrace, "a", "b", (1, "r"), text="a")
    assert found == [] and err == "0 pairs; left out: 1 with no text on one side\n"
    found, err = made(retrace, "a", "", (1, "r"), "b", text="ab")  # an end token, taken back
    assert found == [] and err == "0 pairs; left out: 1 with no text on one side\n"


def test_equal_pairs(retrace):
    found, err = made(retrace, "a", (0, "r"), "a", (0, "r"), "b", text="b")
    assert found == [("P", "b", "a")] and err == "1 pair; left out: 1 equal to another\n"


def test_who_counts(retrace):
    ops = ("a", (0, "r"), "b", (0, "stuck"), "c", (0, "guide"), "d", "x", (1, "stop"))
    found, _ = made(retrace, *ops, text="d")
    assert found == [("P", "d", "a"), ("P", "d", "c")]
    for rule, rejected in (("stuck", "b"), ("guide", "c"), ("r", "a")):
        assert made(retrace, *ops, text="d", flags=["--rule", rule])[0] == [("P", "d", rejected)]
    both = made(retrace, *ops, text="d", flags=["--rule", "r", "--rule", "stuck"])[0]
    assert both == [("P", "d", "a"), ("P", "d", "b")]
    assert made(retrace, *ops, text="d", flags=["--rule", "other"])[0] == []


def test_steps_back_in_a_row_are_one(retrace):
    ops = ("a", "b", "c", (2, "guide"), (1, "guide"), "d", "e", "f")
    assert made(retrace, *ops, text="adef")[0] == [("Pa", "de", "bc")]
    ops = ("a", "b", "c", (2, "guide"), "x", (1, "guide"), "d", text) if (text := "e") else ()
    assert made(retrace, *ops, text="ade")[0] == [("Pa", "de", "bx")]
    ops = ("a", "b", "c", (2, "r"), (1, "r"), "d", "e")
    assert made(retrace, *ops, text="ade")[0] == [("Pa", "d", "b")]


def test_lengths(retrace):
    ops = ("a", "b", "c", (1, "r"), "d", "e", "f", "g")
    assert made(retrace, *ops, text="adefg")[0] == [("Pa", "de", "bc")]
    assert made(retrace, *ops, text="adefg", flags=["--span=full"])[0] == [("Pa", "defg", "bc")]
    assert made(retrace, *ops, text="adefg", flags=["--min-tokens", "2"])[0] == [("Pa", "de", "bc")]
    found, err = made(retrace, *ops, text="adefg", flags=["--min-tokens", "3"])
    assert found == [] and err == "0 pairs; left out: 1 too short\n"


def test_a_stop_text_that_began_inside_a_token(retrace):
    ops = ("a", "b", (1, "r"), "cdSTOP")
    assert made(retrace, *ops, text="acd", finish="stop")[0] == [("Pa", "cd", "b")]


def test_whole_characters(retrace):
    one = "\u6b65".encode()
    ops = ("a", "b", (1, "r"), "\xe6", "\xad\xa5", "c")
    lines = trace(*ops, text=b"a" + one + b"c")
    for line in lines:
        if line.get("text") == "\xad\xa5":
            line.update(spelt(one[1:]))
    rewrite(retrace, lines)
    found, _ = pairs(retrace, "t.jsonl")
    assert found[0]["chosen"] == "\u6b65"  # one token more than rejected
    assert made(retrace, "a", "\xe6", (1, "r"), "c", text="ac")[0] == [("Pa", "c", "\ufffd")]


def test_several_traces_into_a_file(retrace):
    for name in ("t.jsonl", "u.jsonl"):
        record(retrace, *GREEDY, "-p", "go", *BANNED, name=name)
    done = retrace("pairs", "t.jsonl", "u.jsonl", "-o", "pairs.jsonl")
    assert (done.code, done.out, done.err) == (0, "", "2 pairs\n")
    lines = (retrace.tmp / "pairs.jsonl").read_text().splitlines()
    assert len(lines) == 2 and lines[0] == lines[1]
    refused(retrace("pairs", "t.jsonl", "-o", "no/such/folder"), 4, "no/such/folder")
    refused(retrace("pairs", "t.jsonl", "-o", "/dev/full"), 4, "/dev/full")


def test_usage(retrace):
    refused(retrace("pairs"), 2, "TRACE")
    record(retrace, *GREEDY, "-p", "go", *BANNED)
    refused(retrace("pairs", "t.jsonl", "--span", "some"), 2, "--span")
    refused(retrace("pairs", "t.jsonl", "--min-tokens", "0"), 2, "--min-tokens")
    refused(retrace("pairs", "none.jsonl"), 4, "none.jsonl")
    help = retrace("pairs", "--help").out
    assert "--rule NAME" in help and "NAME[:key" not in help


def change(i, **fields):
    return lambda ops: ops[i].update(fields)


@pytest.mark.parametrize(
    "damage, line",
    [
        (change(1, pos=1), 2),
        (change(2, parent=0), 3),
        (change(1, text=5), 2),
        (change(4, to=9), 5),
        (change(4, to=-1), 5),
        (change(4, node=2), 5),
        (change(-1, text="else"), -1),
        (change(-1, text="aexx"), -1),
        (lambda ops: ops[0].pop("prompt"), 1),
        (lambda ops: ops.pop(), -1),
        (lambda ops: ops.insert(2, {"op": "leap"}), 3),
    ],
)
def test_a_bad_trace(retrace, damage, line):
    """Named with its line, and nothing is written, not even for the good one before."""
    ops = trace("a", "b", "c", (1, "r"), "e", text="ae")
    rewrite(retrace, ops, name="good.jsonl")
    damage(ops)
    rewrite(retrace, [{**op, "seq": i} for i, op in enumerate(ops)])
    at = line if line > 0 else len(ops)
    refused(retrace("pairs", "good.jsonl", "t.jsonl"), 2, "t.jsonl:%d: " % at)


def test_no_trace_at_all(retrace):
    refused(retrace("pairs", DATA / "cli_story.json"), 2, "cli_story.json:1")
