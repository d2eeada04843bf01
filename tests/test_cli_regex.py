"""--ban-regex and --rule regex in the program, on table models."""
import json

from conftest import DATA

STORY = DATA / "cli_story.json"
GREEDY = ["-m", STORY, "--temp", "0"]


def refused(result, *words):
    assert result.code == 2 and result.out == "", result
    assert len(result.err.strip().split("\n")) <= 3, result
    for word in words:
        assert word in result.err, result


def test_bans_what_matches(retrace):
    plain = retrace("generate", *GREEDY, "-p", "go")
    assert plain.out == " a testament to hope.", plain
    banned = retrace("generate", *GREEDY, "-p", "go", "--ban-regex", r"\btest\w+ (to|of)", "--json")
    assert banned.code == 0 and banned.json["text"] == " a sign of hope.", banned
    assert banned.json["rules"] == [{"name": "regex", "hits": 1, "erased": 2, "accepted": 0}]


def test_all_short_flags_are_one_group(retrace):
    result = retrace("generate", *GREEDY, "-p", "go", "--ban-regex", "testam", "--ban-regex", "(?i)HOPE!", "--json")
    assert [r["name"] for r in result.json["rules"]] == ["regex"], result
    assert result.json["text"] == " a sign of hope."


def test_a_file_of_patterns(retrace):
    patterns = retrace.tmp / "patterns.txt"
    patterns.write_text("# what we do not want\r\n\r\n  TESTA.ENT\r\n")
    args = ["generate", *GREEDY, "-p", "go", "--rule"]
    assert retrace(*args, "regex:file=%s,case=fold" % patterns).out == " a sign of hope."
    assert retrace(*args, "regex:file=%s" % patterns).out == " a testament to hope."
    patterns.write_text("ok\n(a)\\1\n")
    refused(retrace(*args, "regex:file=%s" % patterns), "line 2", "back references")


def test_what_is_refused_is_named(retrace):
    run = ["generate", *GREEDY, "-p", "go", "--ban-regex", "ok", "--ban-regex"]
    refused(retrace(*run, "a("), "--ban-regex", "pattern 2", "'a('")
    refused(retrace(*run, r"(a)\1"), "--ban-regex", "back references")
    refused(retrace(*run, "a*"), "--ban-regex", "empty text")
    refused(retrace(*run, ""), "--ban-regex")


def test_help_and_catalogue(retrace):
    assert "--ban-regex RE" in retrace("generate", "--help").out
    rules = {r["name"]: r for r in retrace("rules", "--json").json["rules"]}
    assert [s["name"] for s in rules["regex"]["settings"]] == ["pattern", "file", "case"]


def test_too_many_steps_fail_the_run_and_name_the_pattern(retrace):
    table = retrace.tmp / "a.json"
    table.write_text(json.dumps({"tokens": ["a", "a" * 64], "n_ctx": 400,
                                 "rows": [{"context": [], "next": {"1": 1}}]}))
    result = retrace("generate", "-m", table, "-p", "a", "-n", "200", "--ban-regex", "a(?=.*b)", "--json")
    assert result.code == 2, result
    assert "a(?=.*b)" in result.err and "too many steps" in result.err
    assert result.out == "", result


def test_a_pattern_that_is_outgrown_is_told(retrace):
    table = retrace.tmp / "a.json"
    table.write_text(json.dumps({"tokens": ["a", "a" * 64], "n_ctx": 400,
                                 "rows": [{"context": [], "next": {"1": 1}}]}))
    result = retrace("generate", "-m", table, "-p", "a", "-n", "100", "--ban-regex", "a.*b", "-v")
    assert result.code == 0, result
    assert "4096 bytes" in result.err, result
