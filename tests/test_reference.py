"""tests/data/laws.json is what the reference says today, and the reference says what can be worked out
by hand."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import law_cases  # noqa: E402
import reference  # noqa: E402

A, B, C, END = 0.41, 0.31, 0.17, 0.11  # of the model "letters"


def law_of(model="letters", **more):
    case = law_cases.case("by hand", model, **more)
    found = reference.law(law_cases.MODELS[model], case)
    return {(t.decode("latin-1"), f): p for (t, f, _), p in found.items()}


def assert_law(found, expected):
    assert set(found) == set(expected)
    for key, p in expected.items():
        assert found[key] == pytest.approx(p, abs=1e-7)  # the model's logits are floats


def test_the_file_is_not_stale():
    written = json.loads(law_cases.FILE.read_text(encoding="utf-8"))
    made = json.loads(law_cases.written(law_cases.document()))
    assert made["models"] == written["models"]
    assert [c["name"] for c in made["cases"]] == [c["name"] for c in written["cases"]]
    for new, old in zip(made["cases"], written["cases"]):
        laws = new.pop("law"), old.pop("law")
        assert new == old
        assert [r[:3] for r in laws[0]] == [r[:3] for r in laws[1]]
        for a, b in zip(*laws):
            assert a[3] == pytest.approx(b[3], abs=1e-14)


def test_every_law_sums_to_one():
    for case in json.loads(law_cases.FILE.read_text(encoding="utf-8"))["cases"]:
        assert sum(row[3] for row in case["law"]) == pytest.approx(1, abs=1e-12), case["name"]


def test_two_tokens_of_a_free_model():
    expected = {("", "end"): END}
    for s, p in (("a", A), ("b", B), ("c", C)):
        expected[s, "end"] = p * END
        for t, q in (("a", A), ("b", B), ("c", C)):
            expected[s + t, "length"] = p * q
    assert_law(law_of(max_tokens=2), expected)


def test_a_phrase_goes_back_to_its_first_token():
    # "a" then "b" (A B): back to the start, where only b, c and the end are left.
    found = law_of(max_tokens=2, rules=[law_cases.ban("ab")])
    again = A * B / (1 - A)
    assert found["", "end"] == pytest.approx(END + END * again, abs=1e-7)
    assert found["aa", "length"] == pytest.approx(A * A, abs=1e-7)
    assert found["bb", "length"] == pytest.approx(B * B * (1 + again), abs=1e-7)
    assert ("ab", "length") not in found


def test_a_weight_lets_through():
    found = law_of(max_tokens=2, rules=[law_cases.ban("ab", weight="0.3")])
    assert found["ab", "length"] == pytest.approx(0.3 * A * B, abs=1e-7)


def test_bans_act_before_truncation():
    # top-k 1 would be "a"; banned, it makes room for "b".
    assert_law(law_of(max_tokens=1, top_k=1, rules=[law_cases.ban("a")]), {("b", "length"): 1})


def test_a_word_is_decided_at_the_end():
    rules = [law_cases.ban("cat", word="true")]
    found = law_of(model="words", max_tokens=2, rules=rules)
    assert not any(text in ("cat", "Cat", "cat ") for text, _ in found)
    assert any(text == "cats" for text, _ in found)


def test_a_dead_end_behind_settled_text_fails():
    # "a" has settled when "b" turns out to be the only way on.
    rules = [law_cases.ban("b")]
    model, options = "narrow", {"max_tokens": "3", "bias": [[3, "-inf"]]}
    assert_law(law_of(model=model, rules=rules, **options), {("a", "stuck"): 1})
    assert_law(law_of(model=model, rules=rules, on_stuck="stop", **options), {("a", "stuck"): 1})


def test_what_is_not_decided_is_said():
    with pytest.raises(reference.Unclear):
        law_of(rules=[law_cases.ban("aa", "a")], on_stuck="allow", ignore_eos="true", stuck_mass="0.9")


def threshold(**settings):
    s = {"min_probability": "0.35", **settings}
    return {"name": "probability-threshold", "settings": [[k, str(v)] for k, v in s.items()]}


def test_a_soft_rule_keeps_the_best_try():
    # Only "a" passes. One retry: b then c puts b back, c then b lets b stand, and so on.
    found = law_of(max_tokens=1, rules=[threshold(max_retries=1)])
    after = {x: x / (1 - x) for x in (B, C, END)}  # the draw, over what is left
    assert found["a", "length"] == pytest.approx(A + sum(after[x] * A for x in (B, C, END)), abs=1e-7)
    best_b = after[B] * (C + END) + after[C] * B + after[END] * B
    assert found["b", "length"] == pytest.approx(best_b, abs=1e-7)
    assert found["c", "length"] == pytest.approx(after[C] * END + after[END] * C, abs=1e-7)
    assert ("", "end") not in found


def test_a_soft_rule_that_draws_again():
    found = law_of(max_tokens=1, rules=[threshold(max_retries=1, retry="resample")])
    assert found["a", "length"] == pytest.approx(A + (1 - A) * A, abs=1e-7)
    assert found["", "end"] == pytest.approx(END * END, abs=1e-7)


def test_forced_text_is_not_drawn():
    rules = [{"name": "replace", "settings": [["find", "a"], ["replace", "bc"]]}]
    found = law_of(max_tokens=2, rules=rules)
    assert found["bc", "length"] == pytest.approx(A + B * C, abs=1e-7)
    assert not any("a" in text for text, finish in found if finish == "end")


def test_a_force_that_is_refused_becomes_a_ban():
    rules = [{"name": "replace", "settings": [["find", "a"], ["replace", "bc"]]}, law_cases.ban("c")]
    found = law_of(max_tokens=1, rules=rules)
    # max_tokens cuts the force before its second token; "b" alone is what stands.
    assert_law(found, {("b", "length"): A + (B + C * B / (1 - C)) + C * A / (1 - C),
                       ("", "end"): END + C * END / (1 - C)})  # fmt: skip


def test_a_constraint_is_a_mask():
    import law_cases_rules

    found = law_of(max_tokens=3, rules=[law_cases_rules.grammar('root ::= "a" ("b" | "c")')])
    assert_law(found, {("ab", "end"): B / (B + C), ("ac", "end"): C / (B + C)})


def test_exact_is_the_base_law_given_that_nobody_objects():
    found = law_of(max_tokens=2, rules=[law_cases.ban("ab")], resample="exact")
    mass = 1 - A * B
    assert found["", "end"] == pytest.approx(END / mass, abs=1e-7)
    assert found["bb", "length"] == pytest.approx(B * B / mass, abs=1e-7)
    assert found["aa", "length"] == pytest.approx(A * A / mass, abs=1e-7)


def test_exact_says_when_nothing_is_accepted():
    rules = [law_cases.ban("b", "d")]
    assert_law(law_of(model="narrow", rules=rules, resample="exact", max_tokens=3), {("", "stuck"): 1})
