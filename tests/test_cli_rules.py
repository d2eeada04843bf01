"""Every rule that is built in, through the program: its trace replays, whatever it does."""
import itertools
import json
import subprocess

import pytest

from conftest import MODEL, PROGRAM
from test_cli import GREEDY, refused
from test_cli_trace import apply, record

CATALOGUE = json.loads(subprocess.run([PROGRAM, "rules", "--json"], capture_output=True).stdout or "{}")
RULES = [r["name"] for r in CATALOGUE.get("rules", [])]

LETTERS = {
    "tokens": ["go", "a", "b", "c", " ", "{", "}", '"', ":", "1", "ab", {"text": "</s>", "end": True}],
    "rows": [
        {"context": [], "next": {"a": 0.3, "b": 0.2, "c": 0.1, " ": 0.1, "{": 0.05, "}": 0.05, '"': 0.05,
                                 ":": 0.04, "9": 0.04, "ab": 0.05, "</s>": 0.02}},
        {"context": ["a"], "next": {"a": 0.6, "b": 0.3, "c": 0.1}},
        {"context": ["b"], "next": {"c": 0.97, " ": 0.02, "</s>": 0.01}},
        {"context": ["c"], "next": {"a": 0.25, "b": 0.25, " ": 0.25, "c": 0.25}},
    ],
}

# What makes a rule have something to do on these letters; a rule that is not named runs as it is.
SETTINGS = {
    "phrases": ["text=aab,text=bc", "text=cc,weight=0.5"],
    "regex": ["pattern=a+b"],
    "replace": ["find=ca,replace=b a", "find=c,replace=ab,max_replacements=2"],
    "grammar": ['text="root ::= [ab]+ (\\" \\" [abc]+)*"'],
    "json": [""],
    "probability-threshold": ["min_probability=0.28"],
    "entropy-threshold": ["max_entropy=1"],
    "probability-margin": ["min_margin=0.2"],
    "probability-drop": ["max_drop=0.5"],
    "probability-trend": ["window_size=3,drop_threshold=0.8"],
    "repetition": ["max_repetitions=1"],
    "ngram-overlap": ["ngram_size=2"],
    "logit-threshold": ["min_logit=-1.5"],
    "creative": ["", "top_p_flat=0.3,top_k_threshold_flat=2"],
}
SPECS = [name + (":" + s if s else "") for name in RULES for s in SETTINGS.get(name, [""])]
HOW = [["-s", "1"], ["-s", "2", "--hold", "all"], ["--temp", "0"], ["-s", "3", "--on-stuck", "allow", "--logprobs", "2"]]


@pytest.fixture
def letters(retrace):
    (retrace.tmp / "letters.json").write_text(json.dumps(LETTERS))
    return ["-m", "letters.json", "-p", "go", "-n", "40"]


def check(retrace, done, ops):
    """The trace is whole, gives the answer, and is the same when run again."""
    assert done.code in (0, 1) and ops[-1]["op"] == "done", done
    tokens, text = apply(ops)
    assert text.decode("utf-8", "replace") == done.out == ops[-1]["text"]
    again = retrace("replay", "t.jsonl")
    assert again.code == 0, again
    assert again.out == "ok: %d operations, %d tokens\n" % (len(ops) - 1, len(tokens))
    assert retrace("pairs", "t.jsonl").code == 0


def test_the_catalogue_is_there():
    assert "phrases" in RULES and [d["name"] for d in CATALOGUE["drivers"]] == ["sample", "guide"]


@pytest.mark.parametrize("spec", SPECS)
def test_replay(retrace, letters, spec):
    name, said = spec.split(":")[0], set()
    for how in HOW:
        done, ops = record(retrace, *letters, *how, "--rule", spec)
        check(retrace, done, ops)
        said |= {o.get("rule") for o in ops if o["op"] in ("erase", "note")}
    masks = name in ("grammar", "json", "adaptive-temperature")  # these may have nothing to take back
    assert masks or name in said or ":" not in spec


@pytest.mark.parametrize("spec", SPECS)
def test_replay_of_exact(retrace, letters, spec):
    done, ops = None, None
    run = ["generate", *letters, "-s", "4", "-n", "12", "--resample", "exact", "--rule", spec]
    if retrace(*run).code == 2:
        refused(retrace(*run), 2)  # a rule that is not certain
        return
    for seed in range(4):
        done, ops = record(retrace, *letters, "-n", "12", "-s", seed, "--resample", "exact", "--rule", spec)
        check(retrace, done, ops)


@pytest.mark.parametrize("seed", range(6))
def test_replay_of_chains(retrace, letters, seed):
    """Four rules at a time, in turn."""
    chain = list(itertools.islice(itertools.cycle(SPECS), 4 * seed, 4 * seed + 4))
    rules = [x for spec in dict.fromkeys(chain) for x in ("--rule", spec)]
    check(retrace, *record(retrace, *letters, "-s", seed, *rules))


@pytest.mark.model
@pytest.mark.parametrize("name", RULES)
def test_replay_on_the_real_model(retrace, name):
    """By its defaults, where it has some; the others with a setting that means something here."""
    given = {"phrases": ":text=the,word=true", "regex": ':pattern="\\\\bth"', "replace": ":find= the,replace= a",
             "grammar": ':text="root ::= [a-z ]+"'}.get(name, "")
    for how in (["--temp", "1", "-s", "1"], ["--temp", "0", "--hold", "all"]):
        run = ["-m", MODEL, "-p", "The old house by the river was", "-n", "12", *how, "--rule", name + given]
        done, ops = record(retrace, *run)
        assert done.code == 0, done
        check(retrace, done, ops)


def test_what_was_accepted_is_told(retrace, letters):
    if "probability-threshold" not in RULES:
        pytest.skip("needs a rule that gives up")
    run = ["generate", *letters, "--temp", "0", "--rule", "probability-threshold:min_probability=0.99"]
    told = retrace(*run, "--json").json
    rule = told["rules"][0]
    assert rule["accepted"] > 0 and told["stats"]["accepted"] == rule["accepted"] <= rule["hits"]
    done = retrace(*run, "-v")
    assert "probability-threshold: %d hits, " % rule["hits"] in done.err
    assert "%d accepted" % rule["accepted"] in done.err


# ==== resample exact ====


def test_exact_is_reported(retrace):
    run = ["generate", *GREEDY[:2], "-p", "go", "-s", "1", "--ban", "testament to", "--resample", "exact"]
    stats = retrace(*run, "--json").json["stats"]
    assert stats["restarts"] == stats["rewinds"] > 0
    assert stats["evaluated_per_token"] == round(stats["evaluated"] / stats["kept"], 3) > 1
    done = retrace(*run)
    assert "%d restart, %.2f evaluated per token" % (stats["restarts"], stats["evaluated_per_token"]) in done.err
    local = retrace(*run[:-2], "--json").json["stats"]
    assert "restarts" not in local and "evaluated_per_token" not in local
    refused(retrace(*run, "--on-stuck", "allow"), 2, "on_stuck")
    refused(retrace(*run, "--rule", "phrases:text=a,weight=0.5"), 2, "phrases")


# ==== Constraints ====


def test_constraints_exclude_each_other(retrace, letters):
    flags = [["--grammar", "x"], ["--grammar-file", "x"], ["--json-schema", "x"], ["--json-schema-file", "x"],
             ["--json-mode"]]
    for a, b in itertools.combinations(flags, 2):
        refused(retrace("generate", *letters, *a, *b), 2, a[0], b[0], "exclude")
    refused(retrace("generate", *letters, env={"RETRACE_GRAMMAR": "x", "RETRACE_JSON_MODE": "1"}), 2, "exclude")


def test_operator_is_rule(retrace, letters):
    run = ["generate", *letters, "-s", "1", "--json"]
    a, b = retrace(*run, "--operator", "phrases:text=ab").json, retrace(*run, "--rule", "phrases:text=ab").json
    assert a["text"] == b["text"] and a["rules"] == b["rules"] and a["rules"][0]["hits"] > 0


@pytest.mark.parametrize("rule, flag", [("grammar", "--grammar"), ("json", "--json-mode")])
def test_constraint_that_is_not_built_in(retrace, letters, rule, flag):
    if rule in RULES:
        assert flag in retrace("generate", "--help").out
    else:
        assert flag not in retrace("generate", "--help").out
        given = [flag] if rule == "json" else [flag, "x"]
        refused(retrace("generate", *letters, *given), 2, flag + ": unknown rule '%s'" % rule)


needs_grammar = pytest.mark.skipif("grammar" not in RULES, reason="no rule grammar is built in")
needs_json = pytest.mark.skipif("json" not in RULES, reason="no rule json is built in")


def rules_of(retrace, *args):
    done, ops = record(retrace, *args)
    check(retrace, done, ops)
    return ops[0]["settings"]["rules"], done.out


@needs_grammar
def test_grammar(retrace, letters):
    text = 'root ::= "ab" "c"+ " "'
    (retrace.tmp / "g.gbnf").write_text(text)
    rules, out = rules_of(retrace, *letters, "-s", "1", "--grammar", text)
    assert rules == [{"name": "grammar", "text": text}] and out.startswith("abc") and out.endswith("c ")
    rules, same = rules_of(retrace, *letters, "-s", "1", "--grammar-file", "g.gbnf")
    assert rules == [{"name": "grammar", "file": [text]}] and same == out
    rules, _ = rules_of(retrace, *letters, "-s", "1", "--ban", "q", "--grammar", text)
    assert [r["name"] for r in rules] == ["phrases", "grammar"]
    env = {"RETRACE_JSON_MODE": "1"}
    assert retrace("generate", *letters, "-s", "1", "--grammar", text, env=env).out == out
    refused(retrace("generate", *letters, "--grammar", "root ::= ("), 2, "--grammar")
    (retrace.tmp / "bad.gbnf").write_text("root ::= (")
    refused(retrace("generate", *letters, "--grammar-file", "bad.gbnf"), 2, "--grammar-file")
    refused(retrace("generate", *letters, "--grammar-file", "none.gbnf"), 4, "none.gbnf")


@needs_json
def test_json(retrace, letters):
    schema = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
    (retrace.tmp / "s.json").write_text(schema)
    rules, _ = rules_of(retrace, *letters, "-s", "1", "--json-mode")
    assert rules == [{"name": "json"}]
    rules, out = rules_of(retrace, *letters, "-s", "1", "-j", schema)
    assert rules == [{"name": "json", "schema": schema}] and out.lstrip().startswith("{")
    rules, same = rules_of(retrace, *letters, "-s", "1", "--json-schema-file", "s.json")
    assert rules == [{"name": "json", "schema_file": [schema]}] and same == out
    refused(retrace("generate", *letters, "--json-schema", "{"), 2, "--json-schema")
    refused(retrace("generate", *letters, "--json-schema-file", "none.json"), 4, "none.json")
