"""retrace bigram: tables on disk, what they hold, and backward sampling with them."""
import math
import re
import resource
import subprocess

import pytest

from conftest import MODEL
from test_cli import refused
from test_cli_backward import (CAPITAL, NEXT, PI, ROWS, TOKENS, model_file, stripped)

FACTS = {"kind", "model", "weights", "model_hash", "vocab_hash", "vocab", "dim", "anchor", "anchor_text",
         "start", "iterations", "residual", "rate", "entropy", "start_pi", "size_bytes"}


@pytest.fixture
def table(retrace):
    model_file(retrace)
    done = retrace("bigram", "build", "-m", "chain.json", "-o", "t.bigram")
    assert done.code == 0 and done.out == "", done
    return retrace


def other_model(retrace, name="other.json"):
    """The same tokenizer, other numbers."""
    return model_file(retrace, name, rows={**NEXT, " is": {" the": 0.5, " Paris": 0.5}})


# ==== Commands ====


def test_actions(retrace):
    refused(retrace("bigram"), 2, "build, info, row, column")
    refused(retrace("bigram", "make"), 2, "'make'", "build, info, row, column")
    refused(retrace("bigram", "--json"), 2, "--json")
    shown = retrace("bigram", "--help")
    assert shown.code == 0 and "bigram column" in shown.out and "generate" not in shown.out
    assert sum(line.startswith("  bigram ") for line in shown.out.splitlines()) == 4
    refused(retrace("bigram", "built"), 2, "'built'", "did you mean 'build'?")
    assert "did you mean" not in retrace("bigram", "make").err
    for command in ("backward", "bigram info"):
        assert retrace(*command.split(), "--help").out.endswith(
            "docs/backward.md says what the figures mean.\n")
    for action in ("info", "row", "column"):
        refused(retrace("bigram", action), 2, "FILE")
    refused(retrace("bigram", "info", "a", "b"), 2, "'b'")
    refused(retrace("bigram", "info", "t", "--token", "1"), 2, "--token", "bigram info")


# ==== Building ====


def test_build_says_what_it_made(retrace):
    model_file(retrace)
    done = retrace("bigram", "build", "-m", "chain.json", "-o", "t.bigram")
    assert done.code == 0 and done.out == ""
    assert done.err.startswith("'t.bigram': ") and done.err.count("\n") == 1
    assert retrace("bigram", "build", "-m", "chain.json", "-o", "t.bigram", "-q").err == ""
    told = retrace("bigram", "build", "-m", "chain.json", "-o", "t.bigram", "--json", "-q").json
    assert set(told) == FACTS
    assert not (retrace.tmp / "t.bigram.part").exists()


def test_build_twice_gives_the_same_file(table):
    was = (table.tmp / "t.bigram").read_bytes()
    assert table("bigram", "build", "-m", "chain.json", "-o", "u.bigram", "--restart").code == 0
    assert (table.tmp / "u.bigram").read_bytes() == was


def test_output_dir(retrace):
    model_file(retrace)
    done = retrace("bigram", "build", "--model-name", "table:chain.json", "--output-dir", "made")
    assert done.code == 0 and (retrace.tmp / "made" / "chain.bigram").exists()
    done = retrace("bigram", "build", "-m", "chain.json", "--output-dir", "made", "-o", "here.bigram")
    assert done.code == 0 and (retrace.tmp / "here.bigram").exists()
    refused(retrace("bigram", "build", "-m", "chain.json", "--output-dir", "no/such"), 4, "no/such")


def test_backward_finds_what_output_dir_made(table):
    other_model(table)
    assert table("bigram", "build", "-m", "other.json", "--output-dir", "made").code == 0
    args = ["backward", "-m", "other.json", "--suffix", CAPITAL, "-s", "1", "--output-dir"]
    assert table(*args, "made").code == 0
    (table.tmp / "made" / "chain.bigram").write_bytes((table.tmp / "made" / "other.bigram").read_bytes())
    refused(table("backward", "-m", "chain.json", *args[3:], "made"), 2, "'other.json'")  # it is read
    assert table("backward", "-m", "chain.json", *args[3:], "made", "--table", "t.bigram").code == 0


def test_build_needs_to_know_where(retrace):
    model_file(retrace)
    refused(retrace("bigram", "build", "-m", "chain.json"), 2, "--output")
    refused(retrace("bigram", "build", "-m", "chain.json", "-o", "no/such/t"), 4, "no/such/t")
    refused(retrace("bigram", "build", "-m", "none.json", "-o", "t"), 4, "none.json")
    refused(retrace("bigram", "build", "-o", "t"), 4, "no model is installed")


def test_a_full_disk_leaves_the_old_table(table):
    was = (table.tmp / "t.bigram").read_bytes()
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
    done = table.start("bigram", "build", "-m", "chain.json", "-o", "t.bigram", stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, preexec_fn=limit)
    out, err = done.communicate(timeout=60)
    assert (done.returncode, out) == (4, b"") and b"t.bigram" in err and err.count(b"\n") == 1
    assert (table.tmp / "t.bigram").read_bytes() == was


def large(retrace):
    """Takes a moment to solve."""
    n = 2000
    names = ["<%d>" % i for i in range(n)]
    rows = {i: {str(i * 7 % n): 0.5, str(i * 3 % n): 0.3, str((i + 1) % n): 0.2} for i in range(n)}
    return model_file(retrace, tokens=names, rows={None: {"0": 1}, **rows})


def test_control_c_leaves_the_old_table(retrace):
    large(retrace)
    (retrace.tmp / "t.bigram").write_bytes(b"old")
    term = retrace.terminal("bigram", "build", "-m", retrace.tmp / "chain.json", "-o",
                            retrace.tmp / "t.bigram")
    shown, code = term.until(b"evaluating all tokens").type(b"\x03").end()
    assert code == 130 and "retrace: stopped" in shown
    assert (retrace.tmp / "t.bigram").read_bytes() == b"old"


def test_progress_is_for_terminals(retrace):
    large(retrace)
    path = retrace.tmp / "chain.json"
    shown, code = retrace.terminal("bigram", "build", "-m", path, "-o", retrace.tmp / "t").end()
    assert code == 0 and "[#" in shown and " %" in shown
    last = shown.split("\r\x1b[K")[-1]
    assert re.search(r"/t': 32\.0 MB in \d+\.\d s; dense, residual", last)  # the bar is gone
    assert re.search(r"\] +\d\.\d %  evaluating", shown) and re.search(r"\] +\d\d+ %  ", shown)
    shown, _ = retrace.terminal("bigram", "build", "-m", path, "-o", retrace.tmp / "t", "-q").end()
    assert shown == ""


@pytest.mark.model
def test_the_build_of_a_model_goes_on(retrace):
    args = ["bigram", "build", "-m", MODEL, "-o", retrace.tmp / "t.bigram"]
    shown, code = retrace.terminal(*args).until(b" left").type(b"\x03").end()
    assert code == 130 and "the same command goes on from" in shown
    assert [p.name for p in retrace.tmp.iterdir()] == ["t.bigram.part"]
    shown, code = retrace.terminal(*args).until(b" left").type(b"\x03").end()
    assert code == 130 and "going on from" in shown


# ==== Looking ====


def test_info(table):
    told = table("bigram", "info", "t.bigram", "-m", "chain.json", "--json").json
    assert set(told) == FACTS | {"entries"}
    assert (told["kind"], told["vocab"], told["dim"], told["anchor"]) == ("dense", len(TOKENS), 0, [])
    assert told["start_pi"] == pytest.approx(PI[12]) and told["residual"] < 1e-12
    assert told["size_bytes"] == (table.tmp / "t.bigram").stat().st_size
    entries = told["entries"]
    assert [set(e) - {"bytes"} for e in entries] == [{"id", "text", "p", "pi"}] * 10
    assert [e["pi"] for e in entries] == sorted((e["pi"] for e in entries), reverse=True)
    for e in entries:
        assert e["pi"] == pytest.approx(PI[e["id"]], rel=1e-6)
        assert e["p"] == pytest.approx(ROWS[e["id"]][e["id"]], abs=1e-6)
    assert entries[0]["text"] == " Paris"


def test_row(table):
    told = table("bigram", "row", "t.bigram", "--token", " is", "-m", "chain.json", "--json").json
    assert told["token"] == {"id": 1, "text": " is", "pi": pytest.approx(PI[1])}
    assert [(e["text"], e["p"]) for e in told["entries"]] == [
        (" the", pytest.approx(0.8)), (" Paris", pytest.approx(0.2))]


def test_column(table):
    told = table("bigram", "column", "t.bigram", "--token", "1", "-m", "chain.json", "--json").json
    want = {v: PI[v] * ROWS[v][1] / PI[1] for v in range(len(TOKENS)) if ROWS[v][1]}
    assert {e["id"]: e["reverse"] for e in told["entries"]} == pytest.approx(want, rel=1e-6)
    assert sum(e["reverse"] for e in told["entries"]) == pytest.approx(1)
    assert {e["id"]: e["p"] for e in told["entries"]} == pytest.approx(
        {v: ROWS[v][1] for v in want}, rel=1e-6)
    shares = [e["reverse"] for e in told["entries"]]
    assert shares == sorted(shares, reverse=True)


def test_top(table):
    for n in (0, 1, 3):
        told = table("bigram", "info", "t.bigram", "--json", "--top", n).json
        assert len(told["entries"]) == n
    assert len(table("bigram", "info", "t.bigram", "--json", "--top", "1000").json["entries"]) == 13


def test_flags_stand_anywhere(table):
    want = table("bigram", "row", "t.bigram", "--token", "1", "--json").out
    assert table("bigram", "row", "--token", "1", "t.bigram", "--json").out == want
    assert table("bigram", "row", "--json", "--token=1", "--", "t.bigram").out == want
    assert table("bigram", "row", "t.bigram", "--json", env={"RETRACE_TOKEN": "1"}).out == want


def test_text_output(table):
    shown = table("bigram", "info", "t.bigram", "-m", "chain.json")
    assert shown.err == "" and "kind           dense\n" in shown.out
    lines = shown.out.splitlines()
    for fact, gloss in (("residual", "one more step"), ("entropy", "how evenly"),
                        ("document       %.1f tokens" % (1 / PI[12]), "mean length")):
        assert any(line.startswith(fact) and gloss in line for line in lines), fact
    assert "repeats: how probable it is after itself" in shown.out
    assert lines[-11].split() == ["id", "pi", "repeats", "text"]
    assert lines[-10].split()[:2] == ["0", "15.844"] and lines[-10].endswith('" Paris"')
    shown = table("bigram", "column", "t.bigram", "-m", "chain.json", "--token", " is").out
    assert shown.startswith('what precedes " is" (1)\n\n') and '"\\xa5"' in shown


def test_without_a_model_there_are_ids(table):
    done = table("bigram", "row", "t.bigram", "--token", "1")
    assert done.code == 0 and "-m" in done.err and '"' not in done.out
    told = table("bigram", "row", "t.bigram", "--token", "1", "--json").json
    assert [e["text"] for e in told["entries"]] == [None, None]
    assert told["anchor_text"] is None
    refused(table("bigram", "row", "t.bigram", "--token", " is"), 2, "--token", "-m")


def test_a_model_with_another_tokenizer(table):
    model_file(table, "small.json", tokens=["a"], rows={None: {"a": 1}})
    refused(table("bigram", "info", "t.bigram", "-m", "small.json"), 2, "--model")
    done = table("bigram", "info", "t.bigram", env={"RETRACE_MODEL": "small.json"})
    assert done.code == 0 and "texts are left out" in done.err
    other_model(table)
    assert '" Paris"' in table("bigram", "info", "t.bigram", "-m", "other.json").out


@pytest.mark.parametrize(
    "token, words",
    [("14", ["14", "vocabulary"]), ("-1", ["-1"]), ("", ["empty"]), (" is the", ["' is the'", "no token"])],
)
def test_bad_tokens(table, token, words):
    refused(table("bigram", "row", "t.bigram", "-m", "chain.json", "--token", token), 2, "--token", *words)


def test_token_is_needed(table):
    refused(table("bigram", "row", "t.bigram"), 2, "--token")
    refused(table("bigram", "column", "t.bigram"), 2, "--token")


# ==== Broken files ====


def test_broken_tables(table):
    good = (table.tmp / "t.bigram").read_bytes()
    cases = {"empty": b"", "cut": good[: len(good) // 2], "text": b"hello " * 100,
             "flipped": good[:-9] + bytes([good[-9] ^ 1]) + good[-8:]}
    for name, data in cases.items():
        (table.tmp / name).write_bytes(data)
        refused(table("bigram", "info", name), 3, name)
        refused(table("backward", "-m", "chain.json", "--table", name, "--suffix", CAPITAL), 3, name)
    refused(table("bigram", "info", "missing"), 4, "missing")
    refused(table("bigram", "column", "chain.json", "--token", "1"), 3, "'chain.json' is a model",
            "retrace bigram build -m chain.json")


# ==== Backward sampling with a table ====


def test_the_same_samples_as_in_memory(table):
    args = ["-m", "chain.json", "--suffix", CAPITAL, "--num-samples", "10", "-s", "4", "--json"]
    assert stripped(table("backward", *args, "--table", "t.bigram").json) == stripped(
        table("backward", *args).json)


def test_table_of_another_model(table):
    other_model(table)
    args = ["backward", "-m", "other.json", "--table", "t.bigram", "--suffix", CAPITAL, "-s", "1"]
    refused(table(*args), 2, "--table: the table was made from 'chain.json'",
            "this model is 'other.json': build one with 'retrace bigram build -m other.json -o FILE'")
    done = table(*args, "--shared-table")
    assert done.code == 0 and "warning: the table is of another model" in done.err
    told = table(*args, "--shared-table", "--json", "--mode", "exhaustive", "--top", "100").json
    top = told["samples"][0]["steps"][0]["top"]
    # the likelihood is the model's: P(the | is) is .5; the prior is the table's
    for c in top:
        v = 12 if c["id"] < 0 else c["id"]
        likelihood = ROWS[v][1] * 0.5 * 0.9 * 0.7
        assert c["log_likelihood"] == pytest.approx(math.log(likelihood), abs=1e-5)
        assert c["prior"] == pytest.approx(PI[v], rel=1e-6)
    refused(table(*args, "--shared-table", "--mode", "exact"), 2, "exact")
    same = table("backward", "-m", "chain.json", "--table", "t.bigram", "--suffix", CAPITAL,
                 "--shared-table")
    assert "another model" not in same.err


def test_table_of_another_tokenizer(table):
    model_file(table, "small.json", tokens=["a"], rows={None: {"a": 1}})
    for more in ([], ["--shared-table"]):
        refused(table("backward", "-m", "small.json", "--table", "t.bigram", "--suffix", "a", *more), 2,
                "--table")


def test_anchor_of_the_table(table):
    args = ["backward", "-m", "chain.json", "--suffix", CAPITAL, "-s", "1"]
    want = table(*args, "--table", "t.bigram").out
    for same in ("auto", "none"):
        assert table(*args, "--table", "t.bigram", "--anchor", same).out == want
    refused(table(*args, "--table", "t.bigram", "--anchor", "."), 2, "--anchor", "none")
    done = table("bigram", "build", "-m", "chain.json", "-o", "dot.bigram", "--anchor", ".\n")
    assert done.code == 0
    told = table("bigram", "info", "dot.bigram", "-m", "chain.json", "--json").json
    assert (told["anchor"], told["anchor_text"]) == ([6, 7], ".\n")
    assert table(*args, "--table", "dot.bigram").code == 0
    assert table(*args, "--table", "dot.bigram", "--anchor", ".\n").code == 0
    refused(table(*args, "--table", "dot.bigram", "--anchor", "none"), 2, "--anchor", '".\\n" (6 7)')
    refused(table("bigram", "build", "-m", "chain.json", "-o", "x", "--anchor", "xyz"), 2, "--anchor")


def test_the_table_does_not_replace_its_model(retrace):
    model_file(retrace)
    was = (retrace.tmp / "chain.json").read_bytes()
    refused(retrace("bigram", "build", "-m", "chain.json", "-o", "chain.json"), 2, "is the model itself")
    assert (retrace.tmp / "chain.json").read_bytes() == was
