"""The program on the real model, RETRACE_MODEL."""
import json
import time

import pytest

from conftest import MODEL
from test_cli import refused
from test_cli_trace import apply

pytestmark = pytest.mark.model
PROMPT = "The old house by the river was"
SHORT = ["-m", MODEL, "-p", PROMPT, "-n", "24", "-s", "1", "-q"]


def test_same_seed_same_text(retrace):
    one = retrace("generate", *SHORT)
    assert one.code == 0 and one.out
    whole = retrace("generate", *SHORT, "--json").json
    assert whole["text"] == one.out and whole["stats"]["kept"] == 24
    never = retrace("generate", *SHORT, "--ban", "this never comes", "--ban", "qqqzzz").out
    assert never == one.out


def test_rewind_costs_no_evaluation(retrace):
    text = retrace("generate", *SHORT).out
    word = [w for w in text.split() if w.isalpha() and len(w) > 3][-1]
    done = retrace("generate", *SHORT, "--ban", word, "--json").json
    stats = done["stats"]
    assert word.lower() not in done["text"].lower()
    assert stats["rewinds"] > 0 and stats["reevaluated"] == 0
    assert stats["evaluated"] <= stats["kept"] + stats["erased"]


def test_trace_replays(retrace):
    rule = ["--rule", "phrases:text=the,word=true"]
    done = retrace("generate", *SHORT, *rule, "--trace", "t.jsonl", "--logprobs", "2")
    assert done.code == 0, done
    ops = [json.loads(line) for line in (retrace.tmp / "t.jsonl").read_text().split("\n")[:-1]]
    tokens, text = apply(ops)
    assert text.decode() == done.out and len(tokens) == 24
    again = retrace("replay", "t.jsonl")
    assert again.out == "ok: %d operations, 24 tokens\n" % (len(ops) - 1), again
    assert retrace("replay", "t.jsonl", "--tolerance", "1e-12").code == 0


def test_facts(retrace):
    facts = retrace("info", "-m", MODEL, "--json").json
    assert facts["backend"] == "llama" and facts["rewind"] == "exact" and facts["chat_template"]
    assert (facts["vocab"], facts["n_ctx"], facts["n_params"]) == (49152, 4096, 134515008)
    small = retrace("info", "-m", MODEL, "-c", "512", "--json").json
    assert small["n_ctx"] == 512


def test_tokens_join_to_the_text(retrace):
    text = "Zażółć gęślą jaźń \U0001f600 <|im_start|> x\n\ty"
    done = retrace("tokenize", "-m", MODEL, "-p", text, "--json").json
    assert b"".join(bytes(t["bytes"]) for t in done["tokens"]).decode() == text
    assert done["count"] == len(done["tokens"])
    assert "<|im_start|>" in [t["text"] for t in done["tokens"]]
    plain = retrace("tokenize", "-m", MODEL, "-p", text, "--json", "--no-special").json
    assert "<|im_start|>" not in [t["text"] for t in plain["tokens"]]


def test_score(retrace):
    done = retrace("score", "-m", MODEL, "-p", "The capital of France is Paris", "--json").json
    assert done["tokens"][0]["logprob"] is None
    rest = [t["logprob"] for t in done["tokens"][1:]]
    assert done["logprob"] == pytest.approx(sum(rest), abs=1e-6) and max(rest) < 0
    assert rest[-1] > -1.5  # Paris


def test_score_is_what_generate_reports(retrace):
    run = retrace("generate", *SHORT, "--json", "--logprobs", "0").json
    scored = retrace("score", "-m", MODEL, "-p", PROMPT + run["text"], "--json").json
    n = len(run["tokens"])
    if [t["id"] for t in scored["tokens"]][-n:] != run["tokens"]:
        pytest.skip("the text is cut into other tokens when read back")
    for a, b in zip(run["logprobs"], scored["tokens"][-n:]):
        assert a["logprob"] == pytest.approx(b["logprob"], abs=0.3)


def test_chat(retrace):
    run = ["generate", "-m", MODEL, "--chat", "-n", "12", "--temp", "0", "-q"]
    done = retrace(*run, "-p", "What is the capital of France?")
    assert "Paris" in done.out
    other = retrace(*run, "--system", "You speak only of cheese.", "-p", "Who are you?", "--trace", "t")
    start = json.loads((retrace.tmp / "t").read_text().split("\n")[0])
    assert other.code == 0 and start["prompt"] == "Who are you?" and len(start["prompt_tokens"]) > 10


def test_empty_prompt(retrace):
    refused(retrace("generate", "-m", MODEL, "-p", ""), 2, "prompt")


def test_prompt_too_long(retrace):
    refused(retrace("generate", "-m", MODEL, "-c", "256", "-p", "word " * 300), 2, "256")


def test_truncated_model(retrace):
    with open(MODEL, "rb") as whole:
        (retrace.tmp / "cut.gguf").write_bytes(whole.read(1 << 20))
    refused(retrace("info", "-m", "cut.gguf"), 3, "cut.gguf")


def test_bench_quick(retrace):
    start = time.monotonic()
    done = retrace("bench", "--quick", "--json", "-m", MODEL)
    assert done.code == 0, done
    figures = done.json
    for case in ("none", "phrases500", "phrases50000"):
        low, high = figures["intervals"][case]
        assert 0 < low <= figures["ratios"][case] <= high
    assert figures["bare_tokens_per_s"] > 0 and figures["pairs"] >= 1
    assert figures["rewinds"] > 0 and figures["reevaluated"] == 0 and figures["rewind_us"] > 0
    assert time.monotonic() - start < 120  # 45 s on two cores that have nothing else to do
