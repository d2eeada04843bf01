"""retrace backward: flags, JSON, streams, messages; exact on table models."""
import json
import math
import os
import signal
import subprocess

import pytest

from test_cli import has_llama, refused

# A chain of order 1; a character of three bytes in three tokens.
TOKENS = [" Paris", " is", " the", " capital", " of", " France", ".", "\n",
          {"bytes": [230]}, {"bytes": [173]}, {"bytes": [165]}, " you",
          {"text": "</s>", "end": True}, {"text": "<|x|>", "control": True}]
NEXT = {
    None: {" Paris": 0.3, " you": 0.3, "8": 0.2, "</s>": 0.2},
    " Paris": {" is": 0.6, ".": 0.2, " of": 0.1, "</s>": 0.1},
    " you": {" is": 0.3, ".": 0.5, "</s>": 0.2},
    ".": {"\n": 0.4, " Paris": 0.3, "</s>": 0.3},
    "\n": {" Paris": 0.7, " you": 0.3},
    " is": {" the": 0.8, " Paris": 0.2},
    " the": {" capital": 0.9, " Paris": 0.1},
    " capital": {" of": 1},
    " of": {" France": 0.7, " Paris": 0.3},
    " France": {".": 0.7, " is": 0.3},
    8: {"9": 1},
    9: {"10": 1},
    10: {" is": 0.5, ".": 0.5},
}
CAPITAL = " is the capital of France"
START = -1

# As typed by users of the project where this began, but for the model's name.
ORIGINAL = ["--suffix", CAPITAL, "--model-name", "chain.json", "--batch-size", "512"]
DEVICE = ["--device", "cuda:0"]  # a setting of libllama


def model_file(retrace, name="chain.json", tokens=TOKENS, rows=NEXT, **more):
    made = [{"context": [] if c is None else [c] if not isinstance(c, tuple) else list(c), "next": n}
            for c, n in rows.items()]
    (retrace.tmp / name).write_text(json.dumps({"tokens": tokens, "rows": made, **more}))
    return name


@pytest.fixture
def backward(retrace):
    """backward(*args): on the chain, quietly unless asked otherwise."""
    model_file(retrace)

    def run(*args, **more):
        return retrace("backward", "-m", "chain.json", *args, **more)

    run.retrace, run.tmp = retrace, retrace.tmp
    run.start = lambda *args, **more: retrace.start("backward", "-m", "chain.json", *args, **more)
    return run


def text_of(token):
    return token if isinstance(token, str) else token.get("text", "")


def law():
    """The chain's rows and its long-run frequencies, by plain iteration."""
    ids = {text_of(t): i for i, t in enumerate(TOKENS) if text_of(t)}
    index = lambda name: ids[name] if name in ids else int(name)
    rows = []
    for i, token in enumerate(TOKENS):
        name = text_of(token) or i
        nexts = NEXT[name if name in NEXT else None]
        rows.append([0.0] * len(TOKENS))
        for to, p in nexts.items():
            rows[i][index(to)] = p
    pi = rows[-1][:]
    for _ in range(4000):
        new = [sum(p * row[w] for p, row in zip(pi, rows)) for w in range(len(pi))]
        pi = [(a + b) / 2 for a, b in zip(pi, new)]
    return rows, pi


END = 12
ROWS, PI = law()


def posterior(suffix):
    """Every candidate before the suffix: score, normalised; the end token's is the start's."""
    scores = {}
    for v in range(len(TOKENS)):
        likelihood, at = 1.0, v
        for w in suffix:
            likelihood *= ROWS[at][w]
            at = w
        if PI[v] * likelihood:
            scores[START if v == END else v] = PI[v] * likelihood
    z = sum(scores.values())
    return {v: s / z for v, s in scores.items()}, z


# ==== The object ====

SAMPLE = {"text", "prefix", "tokens", "finish", "canonical", "weight", "log_f", "log_q", "log_w", "steps"}
STEP = {"id", "text", "posterior", "prior", "log_likelihood", "coverage", "se", "evaluated", "exact",
        "shared", "reliable", "log_q", "log_z", "log_z_low", "log_z_high", "top"}
TOP = {"id", "text", "posterior", "prior", "log_likelihood"}
ODD = {"bytes", "start"}


def test_json_has_the_documented_fields(backward):
    done = backward("--suffix", CAPITAL, "--num-samples", "20", "-s", "1", "--json")
    assert done.code == 0
    told = done.json
    assert set(told) == {"suffix", "suffix_tokens", "log_f", "seed", "samples", "texts", "ess", "stats"}
    assert told["texts"] == len({s["text"] for s in told["samples"]}) < 20
    assert (told["suffix"], told["suffix_tokens"], told["seed"]) == (CAPITAL, [1, 2, 3, 4, 5], 1)
    assert set(told["stats"]) == {"evaluated_candidates", "shared_candidates", "evaluated_tokens",
                                  "seconds"}
    assert len(told["samples"]) == 20
    finishes = set()
    for s in told["samples"]:
        assert set(s) == SAMPLE
        assert s["text"] == s["prefix"] + CAPITAL and s["tokens"][-5:] == [1, 2, 3, 4, 5]
        assert s["weight"] == "proper"
        finishes.add(s["finish"])
        for step in s["steps"]:
            assert set(step) - ODD == STEP
            assert all(set(c) - ODD == TOP for c in step["top"])
            assert ("start" in step) == (step["id"] == START) and (step["id"] == START) == (
                step is s["steps"][-1] and s["finish"] == "start")
        drawn = [step["id"] for step in s["steps"] if step["id"] != START]
        assert s["tokens"] == drawn[::-1] + [1, 2, 3, 4, 5]
    assert finishes == {"start", "length"}


def test_numbers_are_those_of_the_chain(backward):
    told = backward("--suffix", CAPITAL, "--num-samples", "5", "-s", "2", "--top", "100",
                    "--mode", "exhaustive", "--json").json
    suffix = [1, 2, 3, 4, 5]
    assert told["log_f"] == pytest.approx(
        math.log(PI[1]) + sum(math.log(ROWS[a][b]) for a, b in zip(suffix, suffix[1:])), abs=1e-6)
    for s in told["samples"]:
        at = suffix
        for step in s["steps"]:
            want, z = posterior(at)
            assert {c["id"]: c["posterior"] for c in step["top"]} == pytest.approx(want, rel=1e-5)
            assert step["log_z"] == pytest.approx(math.log(z), abs=1e-5)
            assert step["log_q"] == pytest.approx(math.log(step["posterior"]), abs=1e-9)
            assert step["exact"] and step["se"] == 0 and step["coverage"] == 1
            assert step["prior"] == pytest.approx(PI[END if step["id"] == START else step["id"]],
                                                  rel=1e-5)
            at = ([] if step["id"] == START else [step["id"]]) + at
        assert s["log_q"] == pytest.approx(sum(step["log_q"] for step in s["steps"]), abs=1e-9)
        assert s["log_w"] == pytest.approx(s["log_f"] - s["log_q"], abs=1e-9)
    # in a chain of order 1 all weights are equal
    assert told["ess"] == pytest.approx(5, rel=1e-5)


def test_the_start_of_the_text(backward):
    told = backward("--suffix", CAPITAL, "--num-samples", "30", "-s", "1", "-n", "40", "--json").json
    ended = [s for s in told["samples"] if s["finish"] == "start"]
    assert ended
    last = ended[0]["steps"][-1]
    assert (last["id"], last["text"], last["start"]) == (START, "", True)
    told = backward("--suffix", CAPITAL, "--num-samples", "30", "-s", "1", "--json",
                    "--start=false").json
    assert {s["finish"] for s in told["samples"]} == {"length", "blocked"}
    for s in told["samples"]:
        if s["finish"] == "blocked":  # only the start can precede the first byte of this one
            assert s["text"].startswith("\u6b65") and s["log_w"] == -9999


def test_control_tokens_are_no_candidates(backward):
    told = backward("--suffix", CAPITAL, "-n", "30", "--top", "1000", "--json", "-s", "3").json
    ids = {c["id"] for s in told["samples"][0]["steps"] for c in s["top"]}
    assert ids and not ids & {12, 13}


def test_no_steps(backward):
    told = backward("--suffix", CAPITAL, "-n", "0", "--json").json
    (s,) = told["samples"]
    assert (s["text"], s["prefix"], s["steps"], s["finish"]) == (CAPITAL, "", [], "length")
    assert s["log_f"] == pytest.approx(told["log_f"]) and s["log_q"] == 0


def test_a_step_of_bytes(backward):
    told = backward("--suffix", CAPITAL, "--num-samples", "60", "-s", "1", "--json").json
    steps = [step for s in told["samples"] for step in s["steps"]]
    assert {"id": 10, "text": "\ufffd", "bytes": [165]}.items() <= next(
        step for step in steps if step["id"] == 10).items()
    assert any("\u6b65" in s["prefix"] for s in told["samples"])


def test_special_tokens_in_the_suffix(backward):
    told = backward("--suffix", "<|x|> is", "-n", "1", "--json", "--start=false")
    assert told.code == 1 and told.json["suffix_tokens"] == [13, 1]
    refused(backward("--suffix", "<|x|> is", "-n", "1", "--no-special"), 2, "--suffix")


def test_canonical(retrace):
    rows = {None: {"a": 0.4, "b": 0.4, "ab": 0.2}}
    model_file(retrace, tokens=["a", "b", "ab"], rows=rows)
    told = retrace("backward", "-m", "chain.json", "--suffix", "b", "-n", "2", "--num-samples", "40",
                   "-s", "1", "--start=false", "--json").json
    for s in told["samples"]:
        names = ["a", "b", "ab"]
        spelt = [names[i] for i in s["tokens"]]
        assert s["canonical"] == all(x + y != "ab" for x, y in zip(spelt, spelt[1:]))
    assert {s["canonical"] for s in told["samples"]} == {True, False}


# ==== Draws ====


def stripped(told):
    del told["stats"]["seconds"]
    return told


def test_the_batch_size_changes_nothing(backward):
    args = ["--suffix", CAPITAL, "--num-samples", "8", "-s", "7", "--budget", "3", "--json"]
    want = stripped(backward(*args).json)
    for size in ("1", "2", "5", "512"):
        assert stripped(backward(*args, "--batch-size", size).json) == want


def test_the_seed_is_reported(backward):
    one = backward("--suffix", CAPITAL, "--num-samples", "3", "--json").json
    again = backward("--suffix", CAPITAL, "--num-samples", "3", "--json", "-s", one["seed"]).json
    assert stripped(one) == stripped(again)
    told = backward("--suffix", CAPITAL)
    seed = told.err.strip().split("seed ")[1]
    assert backward("--suffix", CAPITAL, "--seed", seed).out == told.out


def test_equal_suffixes_are_evaluated_once(backward):
    told = backward("--suffix", CAPITAL, "--num-samples", "20", "-s", "1", "--mode", "exhaustive",
                    "--json").json
    at_first = [s["steps"][0]["shared"] for s in told["samples"]]
    assert at_first == [False] + [True] * 19
    count = lambda shared: sum(step["evaluated"] for s in told["samples"] for step in s["steps"]
                               if step["shared"] == shared)
    assert told["stats"]["evaluated_candidates"] == count(False)
    assert told["stats"]["shared_candidates"] == count(True)


@pytest.mark.parametrize("mode", "priority exact exhaustive topk compat".split())
def test_modes(backward, mode):
    done = backward("--suffix", CAPITAL, "--mode", mode, "--num-samples", "3", "-s", "1", "--json",
                    *(["--threshold", "0.9"] if mode == "compat" else []))
    assert done.code == 0 and len(done.json["samples"]) == 3, done


def test_what_is_not_known(backward):
    told = backward("--suffix", CAPITAL, "--mode", "topk", "--budget", "1", "-s", "1", "-n", "3",
                    "--json").json
    (s,) = told["samples"]
    step = s["steps"][0]
    assert step["se"] is None and step["log_z_low"] == step["log_z"] <= step["log_z_high"]
    assert step["coverage"] <= 1 and not step["exact"] and s["weight"] == "improper"


def test_improper_weights(backward):
    for args in (["--top-p", "0.5"], ["--temp", "0"]):
        told = backward("--suffix", CAPITAL, "-s", "1", "--json", *args).json
        assert told["samples"][0]["weight"] == "improper" and told["ess"] is None
        err = backward("--suffix", CAPITAL, "-s", "1", "--num-samples", "2", *args).err
        assert "weights improper: no effective size;" in err and "weights: " not in err


@pytest.mark.parametrize(
    "args",
    [
        ["--temperature", "0.5", "--num-samples", "5", "--max-tokens", "5", "--stream"],
        ["--threshold", "0.9", "--temperature", "0.5", "--num-samples", "3", "--max-tokens", "5",
         "--heuristic", "forward-prompt"],
        ["--threshold", "0.9", "--temperature", "0.5", "--num-samples", "3", "--max-tokens", "5",
         "--heuristic", "reversed"],
    ],
)
def test_the_original_commands(retrace, args):
    # letters, so that the heuristics' questions in English have tokens
    letters = [chr(c) for c in range(32, 127) if chr(c) != "."]
    model_file(retrace, tokens=TOKENS + letters, n_ctx=4096)
    done = retrace("backward", *ORIGINAL, *(DEVICE if has_llama(retrace) else []), *args)
    assert done.code == 0, done
    lines = done.out.splitlines()
    assert all(line.startswith("[") and line.endswith(CAPITAL) for line in lines)
    assert lines[-1].startswith("[%s]" % args[args.index("--num-samples") + 1])
    assert ("--device" in done.err) == has_llama(retrace)  # it means nothing to a table model


def test_other_spellings(backward):
    want = backward("--suffix", CAPITAL, "--temp", "0.5", "-n", "3", "-s", "1", "--json").json
    other = backward("--suffix", CAPITAL, "--temperature", "0.5", "--tokens", "3", "--seed", "1",
                     "--json", "--output-dir", "nowhere").json
    assert stripped(want) == stripped(other)


def test_environment(backward):
    env = {"RETRACE_SUFFIX": CAPITAL, "RETRACE_NUM_SAMPLES": "2", "RETRACE_SEED": "1"}
    assert backward(env=env).out == backward("--suffix", CAPITAL, "--num-samples", "2", "-s", "1").out


# ==== The suffix ====


def test_suffix_from_elsewhere(backward):
    want = backward("--suffix", CAPITAL, "-s", "1").out
    (backward.tmp / "s.txt").write_text(CAPITAL + "\n")
    assert backward("-f", "s.txt", "-s", "1").out == want
    assert backward("-s", "1", stdin=CAPITAL + "\n").out == want
    assert backward("-f", "-", "-s", "1", stdin=CAPITAL).out == want
    refused(backward("-f", "s.txt", "--suffix", CAPITAL), 2, "--suffix and --file")
    refused(backward("-f", "none.txt"), 4, "none.txt")


# ==== Human output ====


def test_lines(backward):
    done = backward("--suffix", CAPITAL, "--num-samples", "4", "-s", "3")
    told = backward("--suffix", CAPITAL, "--num-samples", "4", "-s", "3", "--json").json
    want = ["[%d] %s" % (i + 1, s["text"].replace("\n", "\\n")) for i, s in enumerate(told["samples"])]
    assert done.out.splitlines() == want
    notes = done.err.splitlines()
    for s, note in zip(told["samples"], notes):
        n = len(s["tokens"]) - 5
        assert note.startswith("    (%d tokens" % n) and note.endswith(")")
        assert ("the text starts here" in note) == (s["finish"] == "start")
    assert {s["finish"] for s in told["samples"]} == {"start", "length"}
    assert notes[4] == "weights: [1] 25 %, [2] 25 %, [3] 25 %, [4] 25 %"
    assert notes[5].startswith("4 samples, 4 texts, effective size 4.00; ")
    assert notes[5].endswith("seed 3") and len(notes) == 6
    assert backward("--suffix", CAPITAL, "-s", "3", "-q").err == ""


def test_weights_in_percent(backward):
    # budgets that leave candidates out make weights differ
    args = ["--suffix", CAPITAL, "--num-samples", "30", "-s", "3", "--budget", "2", "-n", "2"]
    told = backward(*args, "--json")
    assert "weights" not in told.err
    w = [math.exp(s["log_w"]) if s["finish"] != "blocked" else 0 for s in told.json["samples"]]
    (line,) = [x for x in backward(*args).err.splitlines() if x.startswith("weights: ")]
    parts = line[len("weights: "):].split(", ")
    assert len(parts) == 13 and parts[12].startswith("18 others ")
    shares = [float(p.split()[-2]) for p in parts[:12]]
    assert shares == sorted(shares, reverse=True)
    for p, share in zip(parts, shares):
        i = int(p[1:p.index("]")]) - 1
        assert share == pytest.approx(100 * w[i] / sum(w), abs=0.51)


def test_texts_are_counted(backward):
    told = backward("--suffix", CAPITAL, "--num-samples", "5", "-n", "0")
    assert told.err.splitlines()[-1].startswith("5 samples, 1 text, effective size 5.00; ")
    assert backward("--suffix", CAPITAL, "--num-samples", "5", "-n", "0", "--json").json["texts"] == 1
    err = backward("--suffix", CAPITAL, "-n", "1", "--budget", "1", "--mode", "topk").err
    assert "1 sample, 1 text, weights improper: no effective size; 1 candidate and " in err


def test_a_sample_that_is_blocked(backward):
    args = ["--suffix", CAPITAL, "--num-samples", "30", "-s", "1", "--start=false"]
    told = backward(*args, "--json").json
    notes = backward(*args).err.splitlines()
    blocked = [i for i, s in enumerate(told["samples"]) if s["finish"] == "blocked"]
    assert blocked
    for i in range(30):
        assert ("nothing that was tried can precede this: weight 0" in notes[i]) == (i in blocked)


def test_a_threshold_that_is_not_reached(backward):
    args = ["--suffix", CAPITAL, "-s", "3", "--num-samples", "2", "-n", "3", "--threshold", "0.9"]
    told = backward(*args, "--budget", "2", "--json").json
    steps = [step for s in told["samples"] for step in s["steps"]]
    short = [step["coverage"] for step in steps if step["coverage"] < 0.9]
    assert short
    err = backward(*args, "--budget", "2").err
    want = "asked for 90 %%, reached %g %% in %d of %d steps; " % (
        math.floor(1000 * min(short)) / 10, len(short), len(steps))
    assert want in err and "(a larger --threshold helps)" in err
    assert "asked for" not in backward(*args[:-2], "--budget", "2").err
    assert "(a larger --budget helps)" in backward(*args[:-2], "--budget", "2").err
    assert "asked for" not in backward(*args[:-1], "1").err  # everything is evaluated


def test_verbose(backward):
    done = backward("--suffix", CAPITAL, "-s", "3", "-n", "2", "-v", "--top", "2")
    lines = done.err.splitlines()
    assert lines[0].startswith("[1] step 1: ") and "coverage 100 %, " in lines[0]
    assert lines[0].endswith("evaluated, exact")
    assert lines[1].split() == ["posterior", "prior", "log-likelihood"]
    assert sum("  > " in line for line in lines) == 2
    assert lines[2].endswith('"' + " Paris" + '"') and "69.68 %" in lines[2]
    s = backward("--suffix", CAPITAL, "-s", "3", "-n", "2", "--json").json["samples"][0]
    assert lines[-2] == "    (2 tokens) log f %.4f, log q %.4f, log weight %.4f" % (
        s["log_f"], s["log_q"], s["log_w"])


@pytest.mark.parametrize("more", [["--temp", "0.5"], ["--top-p", "0.9"]])
def test_the_list_is_untempered(backward, more):
    args = ["--suffix", CAPITAL, "-s", "3", "-n", "1", "-v", "--top", "2"]
    plain = backward(*args).err.splitlines()
    lines = backward(*args, *more).err.splitlines()
    assert lines[1].split() == ["posterior", "(untempered)", "prior", "log-likelihood"]
    assert "69.68 %" in lines[2] and len(lines[1]) == len(lines[2].split("  \"")[0])
    assert len(plain[1]) == len(plain[2].split("  \"")[0])


def test_coverage_of_an_estimate(backward):
    seen = ""
    for seed in range(12):
        args = ["--suffix", CAPITAL, "-s", seed, "-n", "4", "--budget", "3"]
        steps = backward(*args, "--json").json["samples"][0]["steps"]
        lines = [x for x in backward(*args, "-v").err.splitlines() if x.startswith("[1] step ")]
        down = lambda x: math.floor(1000 * x) / 10
        assert len(lines) == len(steps)
        for step, line in zip(steps, lines):
            c, error = step["coverage"], step["coverage"] * step["se"]
            if step["se"] == 0:
                want = "coverage 100 %"
            elif c + error > 1:
                want = "coverage %.1f to 100 %%" % max(down(c - error), 0)
            else:
                want = "coverage %.1f \u00b1 %.1f %%" % (down(c), 100 * error)
            assert want in line
            assert ("too few candidates to know the error" in line) != step["reliable"]
        assert sum("1 se)" in line for line in lines) <= 1
        seen += "".join(lines)
    assert "\u00b1 1 se)" in seen and " to 100 %" in seen


def test_a_draw_that_is_not_listed(backward):
    for seed in range(20):
        done = backward("--suffix", CAPITAL, "-s", seed, "-n", "1", "-v", "--top", "1")
        assert sum("  > " in line for line in done.err.splitlines()) == 1


# ==== Streams ====


def test_stream_in_a_pipe(backward):
    args = ["--suffix", CAPITAL, "--num-samples", "30", "-s", "3", "-n", "8"]
    told = backward(*args, "--json").json
    lines = backward(*args, "--stream").out.splitlines()
    by_sample = [[] for _ in told["samples"]]
    for line in lines:
        label, text = line.split("] ", 1)
        by_sample[int(label[1:]) - 1].append(text)
    for s, texts in zip(told["samples"], by_sample):
        assert texts == stream_of(s)
    shown = "".join(text for texts in by_sample for text in texts)
    assert "\u2026" in shown and "\u6b65" in shown


def stream_of(sample):
    """The lines of a sample: each step that shows something new, then what it is in the end."""
    prefix, lines = b"", []
    for step in sample["steps"]:
        prefix = bytes(step.get("bytes", step["text"].encode())) + prefix
        rest = prefix
        while len(prefix) - len(rest) < 3 and rest and rest[0] & 0xc0 == 0x80:
            rest = rest[1:]
        text = ("\u2026" if rest != prefix else "") + rest.decode("utf-8", "replace")
        if step["id"] != START:
            lines.append(text + CAPITAL)
    lines.append(sample["text"])
    lines = [line.replace("\n", "\\n") for line in lines]
    return [line for i, line in enumerate(lines) if i == 0 or line != lines[i - 1]]


def test_stream_of_json(backward):
    args = ["--suffix", CAPITAL, "--num-samples", "5", "-s", "3", "-n", "8", "--json"]
    lines = backward(*args, "--stream").out.splitlines()
    told = backward(*args).json
    whole = json.loads(lines[-1])
    assert stripped(whole) == stripped(told)
    steps = [json.loads(line) for line in lines[:-1]]
    assert [s["step"] for s in steps] == [step for s in told["samples"] for step in s["steps"]]
    assert all(set(s) == {"sample", "text", "step"} for s in steps)
    assert [s["sample"] for s in steps] == sorted(s["sample"] for s in steps)
    assert not any(s["text"].startswith("\ufffd") for s in steps)


def test_a_reader_that_leaves(backward):
    done = backward.start("--suffix", CAPITAL, "--num-samples", "100000", "--stream", "-q",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.stdout.readline().endswith(CAPITAL.encode() + b"\n")
    done.stdout.close()
    assert done.stderr.read() == b"" and done.wait(60) == -signal.SIGPIPE


def test_a_full_disk(backward):
    for args in ([], ["--json"], ["--stream"], ["--stream", "--json"]):
        with open("/dev/full", "wb") as full:
            done = backward.start("--suffix", CAPITAL, "-q", *args, stdout=full, stderr=subprocess.PIPE)
            err = done.communicate(timeout=60)[1]
        assert done.returncode == 4 and err.count(b"\n") == 1 and b"standard output" in err


# ==== Ctrl-C ====


def test_interrupted(backward):
    done = backward.start("--suffix", CAPITAL, "--num-samples", "1000000", "--json", "--stream",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(50):
        done.stdout.readline()
    done.send_signal(signal.SIGINT)
    out, err = done.communicate(timeout=60)
    assert done.returncode == 130, err
    told = json.loads(out.splitlines()[-1])
    assert 5 <= len(told["samples"]) < 1000000
    assert {s["finish"] for s in told["samples"][:-1]} <= {"start", "length"}
    assert told["samples"][-1]["finish"] in ("start", "length", "cancelled")
    done = sum(s["finish"] != "cancelled" for s in told["samples"])
    assert err.decode().startswith("interrupted: %d complete samples, %d unfinished, %d texts" % (
        done, len(told["samples"]) - done, told["texts"]))


def test_interrupted_lines(backward):
    done = backward.start("--suffix", CAPITAL, "--num-samples", "1000000",
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for _ in range(10):
        done.stdout.readline()
    done.send_signal(signal.SIGINT)
    out, _ = done.communicate(timeout=60)
    assert done.returncode == 130
    assert all(line.endswith(CAPITAL.encode()) for line in out.splitlines())


# ==== Bad input ====


def test_empty_suffix(backward):
    refused(backward("--suffix", ""), 2, "--suffix", "empty")
    refused(backward(stdin="\n"), 2, "no text: give --suffix TEXT")
    refused(backward(), 2, "no text: give --suffix TEXT")


def test_suffix_without_its_flag(backward):
    refused(backward(CAPITAL), 2, "'%s'" % CAPITAL, "--suffix")
    for flag in ("-p", "--prompt"):
        refused(backward(flag, CAPITAL), 2, flag, "the suffix is given with --suffix")


def test_a_suffix_that_begins_inside_a_word(retrace):
    model_file(retrace, tokens=TOKENS + ["is", "P", "\u00e9", " \u00e9"])
    note = "note: the suffix begins inside a word; '"
    run = lambda suffix: retrace("backward", "-m", "chain.json", "--suffix", suffix, "-n", "0")
    done = run("is the capital of France")
    assert done.code == 0 and done.err.startswith(note + " is the capital ...' (with a space) is ")
    assert run("is").err.startswith(note + " is' (with")
    assert run("\u00e9").err.startswith(note + " \u00e9' (with")
    for other in (" is the capital", ".", "P"):  # " P" has no tokens
        assert run(other).code == 0 and "note" not in run(other).err
    assert retrace("backward", "-m", "chain.json", "--suffix", "is", "-n", "0", "-q").err == ""


def test_a_suffix_that_lacks_its_space(backward):
    refused(backward("--suffix", CAPITAL[1:]), 2, "--suffix: ", "' is the capital ...' (with a space)")
    assert "with a space" not in backward("--suffix", "xyz").err


def test_suffix_that_does_not_fit(retrace):
    model_file(retrace, n_ctx=8)
    fits = " is the capital of France."
    assert retrace("backward", "-m", "chain.json", "--suffix", fits, "-n", "1").code == 0
    refused(retrace("backward", "-m", "chain.json", "--suffix", fits + "\n Paris is"), 2, "suffix",
            "9 tokens")


def test_the_context_ends_a_sample(retrace):
    model_file(retrace, n_ctx=8)
    told = retrace("backward", "-m", "chain.json", "--suffix", CAPITAL, "-n", "100", "--json",
                   "--start=false").json
    assert told["samples"][0]["finish"] == "length" and len(told["samples"][0]["tokens"]) <= 8


def test_text_that_has_no_tokens(backward):
    refused(backward("--suffix", "xyz"), 2, "--suffix", "byte 0")
    refused(backward("--suffix", b"\xff".decode("utf-8", "surrogateescape")), 2, "--suffix", "UTF-8")


def test_nothing_can_precede(retrace):
    model_file(retrace, tokens=["a", "b"], rows={None: {"a": 1}})
    args = ["-m", "chain.json", "--suffix", "b"]
    refused(retrace("backward", *args), 1, "the model gives this suffix no probability after any token")
    done = retrace("backward", *args, "--json")
    assert done.code == 1 and done.json["samples"] == [] and "nothing can" in done.json["error"]
    assert done.json["log_f"] == -9999


def test_nothing_that_was_tried_can_precede(retrace):
    # after "ac" there is no d, but a is what mostly precedes c
    rows = {None: {"a": 0.8, "b": 0.2}, "a": {"c": 1}, "b": {"c": 0.1, "a": 0.9}, "c": {"d": 0.5, "a": 0.5},
            ("a", "c"): {"a": 1}, ("b", "c"): {"d": 1}}
    model_file(retrace, tokens=["a", "b", "c", "d"], rows=rows)
    args = ["backward", "-m", "chain.json", "--suffix", "cd", "-n", "1", "--start=false", "--mode", "topk"]
    done = retrace(*args, "--budget", "1")
    assert done.code == 1 and done.out == "[1] cd\n", done
    assert "no probability after any token that was tried; a larger --budget tries more" in done.err
    assert retrace(*args, "--budget", "4").out == "[1] bcd\n"


@pytest.mark.parametrize(
    "args, words",
    [
        (["--mode", "some"], ["--mode", "priority|exact"]),
        (["--heuristic", "none"], ["--heuristic"]),
        (["--threshold", "1.5"], ["--threshold", "range"]),
        (["--top-p", "-1"], ["--top-p"]),
        (["--num-samples", "0"], ["--num-samples"]),
        (["--max-tokens", "-1"], ["--max-tokens"]),
        (["--batch-size", "0"], ["--batch-size"]),
        (["--mode", "exact", "--top-p", "0.5"], ["exact", "top_p"]),
        (["--mode", "exact", "--shared-table"], ["mode exact", "shared"]),
        (["--top-k", "3"], ["--top-k", "backward"]),
        (["--anchor", ""], ["--anchor"]),
        (["--anchor", "xyz"], ["--anchor"]),
    ],
)
def test_refused_settings(backward, args, words):
    refused(backward("--suffix", CAPITAL, *args), 2, *words)


def test_a_model_that_needs_a_table(retrace):
    if has_llama(retrace):
        args = ["backward", "-m", "model.gguf", "--suffix", CAPITAL]
        refused(retrace(*args), 4, "model.gguf")  # first of all there must be a model
        refused(retrace(*args, "--table", "none.bigram"), 4, "model.gguf")
        (retrace.tmp / "model.gguf").write_text("x")
        done = retrace(*args)
        refused(done, 2, "--table", "retrace bigram build -m model.gguf")
        assert "there is one" not in done.err
        refused(retrace(*args, "--output-dir", "made"), 2, "--table", "'made/model.bigram'")
        (retrace.tmp / "made").mkdir()
        (retrace.tmp / "made" / "model.bigram").write_text("no table")
        refused(retrace(*args, "--output-dir", "made"), 3, "made/model.bigram")
        (retrace.tmp / "model.bigram").write_text("x")
        refused(retrace(*args), 2, "there is one of that name: --table model.bigram")
        (retrace.tmp / "made" / "model.gguf").write_text("x")
        refused(retrace(*args[:2], "made/model.gguf", *args[3:]), 2, "--table made/model.bigram")
        refused(retrace(*args[:2], "openai-community/gpt2", *args[3:]), 4,
                "'openai-community/gpt2'", "Hugging Face", "GGUF")
        assert "Hugging" not in retrace(*args[:2], "no/model.gguf", *args[3:]).err
    refused(retrace("backward", "-m", "none.json", "--suffix", CAPITAL), 4, "none.json")
    refused(retrace("backward", "-m", "none.json", "--suffix", CAPITAL, "--table", "none.bigram"), 4,
            "none.json")
    model_file(retrace)
    refused(retrace("backward", "-m", "chain.json", "--suffix", CAPITAL, "--table", "none.bigram"), 4,
            "none.bigram")


def test_anchor(backward):
    args = ["--suffix", CAPITAL, "-s", "1", "--json"]
    none = stripped(backward(*args, "--anchor", "none").json)
    assert none == stripped(backward(*args).json)  # this model has no document start
    # of order 1, so what stands before the anchored token is no matter; the context is shorter
    text = stripped(backward(*args, "--anchor", ".\n").json)
    assert [s["text"] for s in text["samples"]] == [s["text"] for s in none["samples"]]
