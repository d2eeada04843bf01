"""Backward sampling in whole fractions: the identities of docs/backward.md hold exactly, and the program
prints what they say."""

import json
import math
import pathlib
import random
import sys
from fractions import Fraction

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from reference_backward import START, Chain, log  # noqa: E402

END = {"text": "</s>", "end": True}
CONTROL = {"text": "<|x|>", "control": True}
UNUSED = {"text": "hole", "unused": True}


def rows(seed, n, order, zeros=0.0, period=1):
    """Random rows: all contexts up to `order` tokens, the longer ones in part."""
    chance = random.Random(seed)

    def row(last):
        allowed = [v for v in range(n) if last is None or (v - last - 1) % period == 0]
        keep = [v for v in allowed if chance.random() >= zeros] or [chance.choice(allowed)]
        return {str(v): chance.randint(1, 1000) for v in keep}

    contexts = [()]
    for k in range(order):
        contexts += [(v, *c) for c in contexts if len(c) == k for v in range(n)
                     if k < 2 or chance.random() < 0.4]  # fmt: skip
    return [{"context": list(c), "next": row(c[-1] if c else None)} for c in contexts]


def model(seed, letters, order, special=(END,), **more):
    tokens = list("abcdefgh"[:letters]) + list(special)
    return {"tokens": tokens, "rows": rows(seed, len(tokens), order, **more)}


MODELS = {
    "bigram": (model(1, 4, 1), ""),
    "anchored": (model(2, 4, 2), "b"),
    "order three": (model(3, 3, 3), "a"),
    "specials": (model(4, 4, 2, special=(END, CONTROL, UNUSED)), "<|x|>"),
    "two ends": (model(5, 3, 2, special=(END, {"text": "</d>", "end": True})), ""),
    "periodic": (model(6, 4, 1, special=(), period=2), ""),
    "sparse": (model(7, 5, 1, zeros=0.4), ""),
    "no end": (model(8, 5, 2, special=()), "c"),
}


def chain_of(name, **more):
    spec, anchor = MODELS[name]
    return Chain(spec, Chain(spec).table.tokenize(anchor), **more)


# ==== The reference by itself ====


def test_pi_is_stationary():
    for name in MODELS:
        c = chain_of(name)
        assert sum(c.pi) == 1
        for w in range(c.n):
            assert c.pi[w] == sum(c.pi[v] * c.rows[v][w] for v in range(c.n)), name


def test_pi_of_chains_solved_by_hand():
    one = {"tokens": ["a", "b", END]}
    fixed = [{"context": [], "next": {"a": 1}}, {"context": ["a"], "next": {"b": 1}},
             {"context": ["b"], "next": {"</s>": 1}}]  # fmt: skip
    assert Chain({**one, "rows": fixed}).pi == [Fraction(1, 3)] * 3  # period three
    keeps = [{"context": [], "next": {"a": 1, "b": 1}}, {"context": ["a"], "next": {"a": 1}},
             {"context": ["b"], "next": {"b": 1}}]  # fmt: skip
    assert Chain({**one, "rows": keeps}).pi == [Fraction(1, 2), Fraction(1, 2), 0]


@pytest.mark.parametrize("name", ["bigram", "anchored", "order three", "two ends", "periodic"])
def test_one_token_reverses_the_chain(name):
    c = chain_of(name)
    for w in range(c.n):
        assert c.z((w,)) == c.pi[w]


@pytest.mark.parametrize("name", MODELS)
def test_weights_telescope(name):
    c, suffix = chain_of(name), (1, 0)
    total = Fraction(0)
    for text, started, q in c.leaves(suffix, 2):
        product = c.f(suffix)
        for k in range(len(text) - len(suffix) + started):
            product *= c.rho(text[len(text) - len(suffix) - k :])
        assert q == c.f(text, started) / product
        total += q
    assert total == 1


@pytest.mark.parametrize("name", ["bigram", "periodic", "sparse"])
def test_the_order_does_not_matter_to_a_bigram_model(name):
    c, suffix = chain_of(name), (1, 0)
    assert c.rho(suffix) == 1
    for text, started, q in c.leaves(suffix, 3):
        assert q == c.f(text, started) / c.f(suffix)


def test_it_does_to_others():
    c = chain_of("order three")
    leaves = c.leaves((1, 0), 3)
    total = sum(c.f(text, started) for text, started, _ in leaves)
    distance = sum(abs(c.f(text, started) / total - q) for text, started, q in leaves) / 2
    assert distance > 0.05


# ==== The program ====


def written(retrace, name):
    spec, anchor = MODELS[name]
    (retrace.tmp / "model.json").write_text(json.dumps(spec))
    return ["-m", "model.json", "--anchor", anchor or "none"]


def near(value, expected):
    """A probability of the program's."""
    return value == pytest.approx(float(expected), rel=1e-11, abs=1e-300)


def near_log(value, expected):
    return value == pytest.approx(log(expected), abs=1e-11) or (expected == 0 and value == -9999.0)


def check_candidate(c, shown, suffix, z):
    v = shown["id"]
    assert near(shown["posterior"], c.scores(suffix)[v] / z)
    assert near(shown["prior"], c.prior(v))
    assert near_log(shown["log_likelihood"], c.likelihood(v, suffix))


def check_sample(c, sample, suffix):
    text, started = tuple(sample["tokens"]), sample["finish"] == "start"
    q = Fraction(1)
    for k, step in enumerate(sample["steps"]):
        after = text[len(text) - len(suffix) - k :]
        z, scores = c.z(after), c.scores(after)
        v = text[len(text) - len(after) - 1] if len(after) < len(text) else START
        assert step["id"] == v and step["exact"] and step["se"] == 0 and step["coverage"] == 1
        assert near_log(step["log_z"], z) and near_log(step["log_q"], scores[v] / z)
        assert {t["id"] for t in step["top"]} == set(scores)
        assert [t["posterior"] for t in step["top"]] == sorted(
            (t["posterior"] for t in step["top"]), reverse=True
        )
        for shown in [step, *step["top"]]:
            check_candidate(c, shown, after, z)
        q *= scores[v] / z
    f = c.f(text, started)
    assert near_log(sample["log_f"], f)
    assert near_log(sample["log_q"], q)
    assert near_log(sample["log_w"], f / q)


@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_exhaustive_sampling(retrace, name, start):
    c, suffix = chain_of(name, start=start), (1, 0, 2)
    args = ["--mode", "exhaustive", "--suffix", "bac", "--max-tokens", 2, "--num-samples", 8, "--seed", 3,
            "--top", 99, "--json", f"--start={'true' if start else 'false'}"]  # fmt: skip
    out = retrace("backward", *written(retrace, name), *args)
    if c.z(suffix) == 0:
        assert out.code == 1
        return
    assert out.code == 0, out.err
    assert out.json["suffix_tokens"] == list(suffix)
    assert near_log(out.json["log_f"], c.f(suffix))
    samples = [s for s in out.json["samples"] if s["finish"] != "blocked"]
    assert len(out.json["samples"]) == 8 and samples
    for sample in samples:
        check_sample(c, sample, suffix)
    weights = [math.exp(s["log_w"]) for s in samples]
    ess = sum(weights) ** 2 / sum(w * w for w in weights)
    assert out.json["ess"] == pytest.approx(ess, rel=1e-9)


@pytest.mark.parametrize("name", ["anchored", "specials", "periodic", "sparse"])
def test_tables(retrace, name):
    c = chain_of(name)
    built = retrace("bigram", "build", *written(retrace, name), "-o", "model.bigram", "--json")
    assert built.code == 0, built.err
    info = retrace("bigram", "info", "model.bigram", "-m", "model.json", "--top", 99, "--json").json
    assert info["kind"] == "dense" and info["vocab"] == c.n and info["anchor"] == list(c.anchor)
    assert near(info["start_pi"], c.pi_start)
    for v in range(c.n):
        more = ["model.bigram", "-m", "model.json", "--token", v, "--top", 99, "--json"]
        row = retrace("bigram", "row", *more).json["entries"]
        assert {e["id"] for e in row} == {w for w in range(c.n) if c.rows[v][w] > 0}
        for e in row:
            assert near(e["p"], c.rows[v][e["id"]]) and near(e["pi"], c.pi[e["id"]])
        for e in retrace("bigram", "column", *more).json["entries"]:
            assert near(e["p"], c.rows[e["id"]][v])
