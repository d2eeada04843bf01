"""The program's flags, commands, output and exit codes, exact on table models."""
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time

import pytest

from conftest import DATA, PROGRAM, ROOT

STORY = DATA / "cli_story.json"
GREEDY = ["-m", STORY, "--temp", "0"]
COMMANDS = ["generate", "chat", "rules", "tokenize", "info", "score", "replay", "pairs", "backward",
            "bigram build", "bigram info", "bigram row", "bigram column", "serve", "pull", "models",
            "convert", "bench"]


def has_llama(retrace):
    return "--n-gpu-layers" in retrace("info", "--help").out


def refused(result, code, *words):
    """The message: on stderr, short, naming the thing; nothing on stdout."""
    assert result.code == code, result
    assert result.out == "", result
    lines = result.err.strip().split("\n")
    assert 1 <= len(lines) <= 3 and lines[0].startswith("retrace: "), result
    for word in words:
        assert word in result.err, result


# ==== Commands and help ====


def test_version(retrace):
    header = (ROOT / "include" / "retrace.h").read_text()
    version = ".".join(re.findall(r"#define RETRACE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    assert retrace("--version").out == "retrace %s\n" % version


def test_help_lists_the_commands(retrace):
    done = retrace("--help")
    assert done.code == 0 and done.err == ""
    assert re.findall(r"^  (\w+(?: \w+)?)  +[A-Z]", done.out, re.M) == COMMANDS


def test_no_command(retrace):
    done = retrace()
    assert (done.code, done.out) == (2, "") and "usage" in done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(retrace, command):
    for flag in ("--help", "-h"):
        done = retrace(*command.split(), flag)
        assert done.code == 0 and done.err == ""
        assert done.out.startswith("usage: retrace " + command)
        assert all(len(line) <= 100 for line in done.out.split("\n"))


def test_unknown_command(retrace):
    refused(retrace("genrate"), 2, "genrate", "'generate'")
    refused(retrace("chta"), 2, "unknown command 'chta'", "'chat'")
    refused(retrace("--nothing"), 2, "--nothing")


def test_docs_are_up_to_date(retrace):
    """docs/cli.md ends with what --help=markdown prints; UPDATE_DOCS=1 in the environment writes it."""
    page = ROOT / "docs" / "cli.md"
    if not has_llama(retrace):
        pytest.skip("the page describes a program with libllama")
    mark = "<!-- From here on made by the program: see tests/test_cli.py -->\n"
    head = page.read_text().split(mark)[0]
    tables = "\n".join(retrace(*c.split(), "--help=markdown").out for c in COMMANDS)
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(head + mark + "\n" + tables)
    assert page.read_text() == head + mark + "\n" + tables


# ==== Flags ====


def test_unknown_flag_names_the_nearest(retrace):
    refused(retrace("generate", "--topk", "3"), 2, "--topk", "--top-k")
    refused(retrace("generate", "--completely-else"), 2, "--completely-else")
    refused(retrace("generate", "-z"), 2, "-z")


def test_flag_of_another_command(retrace):
    refused(retrace("tokenize", "--temp", "1"), 2, "--temp", "tokenize")
    refused(retrace("generate", "--tolerance", "1"), 2, "--tolerance")


def test_missing_value(retrace):
    refused(retrace("generate", "-m", STORY, "--temp"), 2, "--temp", "missing")
    refused(retrace("generate", "-p"), 2, "-p", "missing")


@pytest.mark.parametrize(
    "flag, value",
    [
        ("--temp", "hot"),
        ("--temp", "nan"),
        ("--temp", "inf"),
        ("--temp", "-1"),
        ("--temp", "0x1"),
        ("--temp", ""),
        ("--temp", "1e999"),
        ("--top-p", "1.5"),
        ("--top-k", "2.5"),
        ("--top-k", "-3"),
        ("--top-k", "99999999999999999999"),
        ("--max-tokens", "many"),
        ("--seed", "-2"),
        ("--stuck-mass", "2"),
        ("--hold", "some"),
        ("--on-stuck", "despair"),
        ("--ignore-eos=maybe", None),
        ("--logit-bias", "5"),
        ("--logit-bias", "a=1"),
        ("--logit-bias", "1=nan"),
        ("--logit-bias", "1=inf"),
        ("--logit-bias", "-1=2"),
        ("--logit-bias", ""),
        ("--stop", ""),
        ("--ban", ""),
        ("--driver", "car"),
        ("--keep-mib", "-1"),
        ("--logprobs", "x"),
    ],
)
def test_bad_value_names_the_flag(retrace, flag, value):
    given = [flag] if value is None else [flag, value]
    refused(retrace("generate", *GREEDY, "-p", "go", *given), 2, flag.split("=")[0])


def test_number_too_large_to_hold(retrace):
    run = ["generate", *GREEDY, "-p", "go", "--top-k"]
    refused(retrace(*run, "99999999999999999999"), 2, "--top-k", "out of range")
    refused(retrace(*run, "2."), 2, "--top-k", "not a whole number")


def test_short_flag_in_the_message(retrace):
    refused(retrace("generate", *GREEDY, "-p", "go", "-n", "x"), 2, "-n (--max-tokens)", "'x'")


def test_spellings_of_a_value(retrace):
    for given in (["-n", "3"], ["-n=3"], ["--max-tokens", "3"], ["--max-tokens=3"], ["--n-predict=3"]):
        assert retrace("generate", *GREEDY, "-p", "go", *given).out == " a testament to"


def test_last_value_wins(retrace):
    assert retrace("generate", *GREEDY, "-p", "go", "-n", "9", "-n", "1").out == " a"


def test_switch_can_be_turned_off(retrace):
    assert retrace("generate", *GREEDY, "-p", "go", "-n", "1", "--json", "--json=false").out == " a"


def test_stray_argument(retrace):
    refused(retrace("generate", *GREEDY, "go"), 2, "'go'", "-p")
    refused(retrace("rules", "phrases", "sample"), 2, "'sample'")
    refused(retrace("replay"), 2, "FILE")


def test_environment_twins(retrace):
    env = {"RETRACE_MODEL": str(STORY), "RETRACE_TEMP": "0", "RETRACE_MAX_TOKENS": "2"}
    assert retrace("generate", "-p", "go", env=env).out == " a testament"
    assert retrace("generate", "-p", "go", "-n", "1", env=env).out == " a"
    env["RETRACE_BAN"] = "testament to"
    env["RETRACE_JSON"] = "1"
    done = retrace("generate", "-p", "go", env=env).json
    assert done["text"] == " a testament" and done["rules"][0]["hits"] == 0
    done = retrace("generate", "-p", "go", "-n", "3", env=env).json
    assert done["text"] == " a sign of" and done["rules"][0]["hits"] == 1
    refused(retrace("generate", env={**env, "RETRACE_TEMP": "hot"}), 2, "RETRACE_TEMP", "hot")
    refused(retrace("generate", env={**env, "RETRACE_JSON": "maybe"}), 2, "RETRACE_JSON")


def test_environment_empty_means_unset(retrace):
    env = {"RETRACE_TEMP": "", "RETRACE_JSON": "", "RETRACE_BAN": ""}
    assert retrace("generate", *GREEDY, "-p", "go", "-n", "1", env=env).out == " a"


def test_every_flag_has_a_twin(retrace):
    """Each flag of the help is read from the environment: a value that it refuses is refused there."""
    text = retrace("generate", "--help").out
    flags = re.findall(r"^  (?:-\w+, )?--([a-z-]+) (?:N|X|\w+\|[a-z|]+)\b", text, re.M)
    assert len(flags) > 15
    for flag in flags:
        name = "RETRACE_" + flag.upper().replace("-", "_")
        refused(retrace("generate", *GREEDY[:2], "-p", "go", env={name: "?"}), 2, name)


def test_quiet(retrace):
    done = retrace("generate", *GREEDY, "-p", "go", "-q")
    assert (done.code, done.out, done.err) == (0, " a testament to hope.", "")


def test_a_rewind_says_what_it_took_back(retrace):
    """The two ends of a long text, line breaks spelt out."""
    words = {"tokens": ["go", *"abcdefghijkl\n"],
             "rows": [{"context": [], "next": {"a": 1}},
                      *({"context": [a], "next": {b: 1}} for a, b in zip("abcdefghijkl", "bcdefghijkl\n"))]}
    (retrace.tmp / "words.json").write_text(json.dumps(words))
    text = "abcdefghijkl\n" * 7
    done = retrace("generate", "-m", "words.json", "-p", "go", "-n", "100", "-v", "--ban", text, "--on-stuck", "stop")
    head, tail = (s.replace("\n", "\\n") for s in (text[:36], text[-36:]))
    assert 'rewind: "%s ... %s" taken back, 91 tokens, to 0: phrases "' % (head, tail) in done.err
    assert done.code == 0 and "stuck: nothing acceptable is left; the answer ends here" in done.err


def test_verbose(retrace):
    args = ["generate", *GREEDY, "-p", "go", "--ban", "testament to"]
    told = 'rewind: " testament to" taken back, 2 tokens, to 1: phrases "testament to"'
    assert told not in retrace(*args).err
    once, twice = retrace(*args, "-v"), retrace(*args, "-vv")
    assert told in once.err and 'token 1: 2 " testament"' not in once.err
    assert told in twice.err and 'token 1: 2 " testament"' in twice.err
    assert once.out == twice.out == " a sign of hope."
    assert retrace(*args, "-v", "-v").err.count("\n") == twice.err.count("\n")


# ==== generate ====


def test_text_and_summary(retrace):
    done = retrace("generate", *GREEDY, "-p", "go", "-s", "5", "--ban", "testament to")
    assert (done.code, done.out) == (0, " a sign of hope.")
    assert re.fullmatch(
        r"5 kept, \d+ evaluated, 2 erased, 1 rewind, [\d.]+ tokens/s, first text after [\d.]+ s, "
        r"seed 5; phrases: 1 hit\n",
        done.err,
    ), done.err


def test_json(retrace):
    done = retrace("generate", *GREEDY, "-p", "go", "-s", "5", "--ban", "testament to", "--json")
    answer = done.json
    assert done.out.endswith("}\n") and done.code == 0
    for key in ("first_text_s", "seconds", "tokens_per_s"):
        assert answer["stats"].pop(key) > 0
    evaluated = answer["stats"].pop("evaluated")
    assert evaluated <= 7
    assert answer == {
        "text": " a sign of hope.",
        "tokens": [1, 4, 5, 6, 7],
        "finish": "end",
        "seed": 5,
        "stats": {
            "prompt": 1,
            "prompt_evaluated": 1,
            "kept": 5,
            "reevaluated": 0,
            "erased": 2,
            "accepted": 0,
            "rewinds": 1,
            "held_max_bytes": len(" a sign of hope."),
        },
        "rules": [{"name": "phrases", "hits": 1, "erased": 2, "accepted": 0}],
    }


def test_logprobs(retrace):
    done = retrace("generate", *GREEDY, "-p", "go", "-n", "2", "--json", "--logprobs", "2").json
    first, second = done["logprobs"]
    only = {"id": 1, "text": " a", "logprob": 0.0}
    assert first == {**only, "top": [only]}  # nothing else is possible there
    assert [t["text"] for t in second["top"]] == [" testament", " sign"]
    assert second["logprob"] == pytest.approx(-0.2876820724517809, abs=1e-7)
    assert second["top"][1]["logprob"] == pytest.approx(-1.3862943611198906, abs=1e-7)
    assert retrace(
        "generate", *GREEDY, "-p", "go", "-n", "1", "--json", "--logprobs", "0"
    ).json["logprobs"][0]["top"] == []
    assert "logprobs" not in retrace("generate", *GREEDY, "-p", "go", "--json").json


def test_streamed_and_whole_are_equal(retrace):
    for seed in range(10):
        args = ["generate", "-m", STORY, "-p", "go", "-s", seed, "--ban", "testament to"]
        assert retrace(*args).out == retrace(*args, "--json").json["text"]
        assert retrace(*args).out == retrace(*args, "--hold", "all").out


def test_seed(retrace):
    def text(*args):
        return retrace("generate", "-m", STORY, "-p", "pick", "-n", "40", *args).out

    assert text("-s", "1") == text("-s", "1") != text("-s", "2")
    drawn = [
        retrace("generate", "-m", STORY, "-p", "pick", "-n", "40", "--json").json for _ in range(2)
    ]
    assert drawn[0]["seed"] != drawn[1]["seed"] and min(d["seed"] for d in drawn) >= 0
    assert text("-s", drawn[0]["seed"]) == drawn[0]["text"]


def test_stop(retrace):
    done = retrace("generate", *GREEDY, "-p", "go", "--stop", "no", "--stop", "ent t", "--json").json
    assert (done["text"], done["finish"]) == (" a testam", "stop")
    assert done["tokens"] == [1, 2] and done["stats"]["kept"] == 2
    assert retrace("generate", *GREEDY, "-p", "go", "--stop", "ent t").out == " a testam"


def test_logit_bias(retrace):
    run = ["generate", *GREEDY, "-p", "go", "-n", "2"]
    assert retrace(*run, "--logit-bias", "2=-inf").out == " a sign"
    assert retrace(*run, "-l", "4=2").out == " a sign"
    assert retrace(*run, "--logit-bias", "4=0.5").out == " a testament"
    refused(retrace(*run, "--logit-bias", "99=1"), 2, "logit_bias", "99")


def test_length_and_whole_characters(retrace):
    assert retrace("generate", *GREEDY, "-p", "utf", "--json").json["text"] == "\u6b65"
    assert retrace("generate", *GREEDY, "-p", "utf").out == "\u6b65"
    done = retrace("generate", *GREEDY, "-p", "cut", "--json")
    assert done.json["text"] == "\ufffd" and done.json["tokens"] == [14]
    assert retrace("generate", *GREEDY, "-p", "cut").out == "\ufffd"
    loop = retrace("generate", *GREEDY, "-p", "loop", "--json").json
    assert loop["finish"] == "length" and loop["stats"]["kept"] == 63


def test_control_characters_reach_a_pipe_unchanged(retrace):
    assert retrace("generate", *GREEDY, "-p", "esc").out == "\033[31mred\a"


def test_stuck(retrace):
    run = ["generate", *GREEDY, "-p", "stuck", "--ban", "only"]
    done = retrace(*run)
    assert (done.code, done.out) == (1, "") and "stuck" in done.err and "--on-stuck" in done.err
    answer = retrace(*run, "--json")
    assert answer.code == 1 and answer.json["finish"] == "stuck" and answer.json["text"] == ""
    stop = retrace(*run, "--on-stuck", "stop", "--json")
    assert stop.code == 0 and stop.json["finish"] == "stuck"
    allow = retrace(*run, "--on-stuck", "allow", "--json")
    assert (allow.code, allow.json["text"], allow.json["finish"]) == (0, " only", "end")
    assert allow.json["stats"]["accepted"] == 1


def test_budget(retrace):
    run = ["generate", *GREEDY, "-p", "go", "--ban", "testament", "--max-rewinds", "0"]
    done = retrace(*run)
    assert done.code == 1 and "--max-rewinds" in done.err
    assert retrace(*run, "--json").json["finish"] == "budget"


# ==== The prompt ====


def test_where_the_prompt_comes_from(retrace):
    (retrace.tmp / "p.txt").write_text("go\n")
    (retrace.tmp / "crlf.txt").write_bytes(b"go\r\n")
    want = " a testament to hope."
    assert retrace("generate", *GREEDY, "-f", "p.txt").out == want
    assert retrace("generate", *GREEDY, "-f", "crlf.txt").out == want
    assert retrace("generate", *GREEDY, stdin="go").out == want
    assert retrace("generate", *GREEDY, stdin="go\n").out == want
    assert retrace("generate", *GREEDY, "-f", "-", stdin="go\n").out == want
    assert retrace("generate", *GREEDY, "-p", "go", stdin="loop").out == want
    assert retrace("generate", *GREEDY, env={"RETRACE_PROMPT": "go"}, stdin="loop").out == want
    env = {"RETRACE_FILE": "p.txt"}
    assert retrace("generate", *GREEDY, "-p", "loop", "-n", "1", env=env).out == " x"
    refused(retrace("generate", *GREEDY, "-p", "go", "-f", "p.txt"), 2, "--prompt", "--file")


def test_one_line_break_is_dropped_not_two(retrace):
    count = lambda text: retrace("tokenize", "-m", STORY, "--json", stdin=text).json["count"]
    assert (count("go\n"), count("go\n\n")) == (1, 2)


def test_prompt_that_cannot_be_read(retrace):
    refused(retrace("generate", *GREEDY, "-f", "none.txt"), 4, "none.txt", "No such file")
    refused(retrace("generate", *GREEDY, "-f", "."), 4, "'.'")
    (retrace.tmp / "bad.txt").write_bytes(b"go\xff")
    refused(retrace("generate", *GREEDY, "-f", "bad.txt"), 2, "bad.txt", "UTF-8", "byte 2")
    refused(retrace("generate", *GREEDY, stdin=b"\xc0\xaf"), 2, "standard input", "UTF-8")
    refused(retrace("generate", *GREEDY, stdin=b"go\xed\xa0\x80"), 2, "UTF-8", "byte 2")
    refused(retrace("generate", *GREEDY, "-p", b"go\xe6\xad".decode("utf-8", "surrogateescape")), 2,
            "-p", "UTF-8")


def test_empty_prompt_on_a_table(retrace):
    done = retrace("generate", *GREEDY, "-p", "", "--json").json
    assert (done["text"], done["finish"], done["stats"]["prompt"]) == ("", "end", 0)


def test_prompt_that_no_token_fits(retrace):
    refused(retrace("generate", *GREEDY, "-p", "go%"), 2, "byte 2")


def test_prompt_longer_than_the_context(retrace):
    refused(retrace("generate", *GREEDY, "-p", "go" * 64), 2, "64")


def test_special_tokens(retrace):
    def ids(*args):
        out = retrace("tokenize", "-m", STORY, *args, "--json")
        return [t["id"] for t in out.json["tokens"]]

    assert ids("-p", "<|u|>go") == [9, 0]
    refused(retrace("tokenize", "-m", STORY, "-p", "<|u|>go", "--no-special"), 2, "byte 0")


def test_chat(retrace):
    trace = retrace.tmp / "t.jsonl"
    done = retrace("generate", *GREEDY, "--chat", "-p", "go", "--trace", trace)
    assert done.out == " a testament to hope."
    start = json.loads(trace.read_text().split("\n")[0])
    assert start["prompt_tokens"] == [9, 0, 10] and start["prompt"] == "go"
    retrace("generate", *GREEDY, "--chat", "--system", "loop", "-p", "go", "--trace", trace)
    start = json.loads(trace.read_text().split("\n")[0])
    assert start["prompt_tokens"] == [9, 17, 10, 9, 0, 10]
    assert start["settings"]["system"] == "loop" and start["settings"]["chat"] is True
    refused(retrace("generate", *GREEDY, "--chat", "-p", "<|u|>"), 2)
    refused(retrace("generate", *GREEDY, "--system", "x", "-p", "go"), 2, "--system", "--chat")


def test_chat_template_that_is_not_known(retrace):
    model = DATA / "cli_template.json"
    done = retrace("generate", "-m", model, "--chat", "-p", "a")
    refused(done, 3, "{% macro %}")
    assert "second line" not in done.err


# ==== Rules ====


def test_ban_file(retrace):
    run = ["generate", *GREEDY, "-p", "go"]
    (retrace.tmp / "b.txt").write_bytes(b"\xef\xbb\xbf# a comment\r\nTESTAMENT to\r\n\r\n")
    assert retrace(*run, "--ban-file", "b.txt").out == " a sign of hope."
    assert retrace(*run, "--ban-file", "b.txt", "--ban", "sign of").code == 1
    (retrace.tmp / "quoted.txt").write_text('" testament"\n')
    assert retrace(*run, "--ban-file", "quoted.txt").out == " a sign of hope."
    refused(retrace(*run, "--ban-file", "none.txt"), 4, "none.txt")
    (retrace.tmp / "bad.txt").write_bytes(b"fine\nnot \xff fine\n")
    refused(retrace(*run, "--ban-file", "bad.txt"), 2, "bad.txt:2", "UTF-8")


def test_error_in_a_ban_file_names_the_file(retrace):
    run = ["generate", *GREEDY, "-p", "go"]
    (retrace.tmp / "good").write_text("fine\n")
    (retrace.tmp / "long").write_text("fine\n" + "x" * 4097 + "\n")
    for given in (["--ban-file", "long"], ["--ban", "a", "--ban-file", "good", "--ban-file", "long"]):
        refused(retrace(*run, *given), 2, "retrace: --ban-file long: line 2: more than 4096 bytes")
    rule = "phrases:file=good,file=long"
    refused(retrace(*run, "--rule", "phrases", "-q", "--rule", rule), 2, "--rule phrases:file=long: line 2: ")
    refused(retrace(*run, "--ban", "x" * 4097, "--ban-file", "good"), 2, "retrace: --ban: phrases: text 1")


def test_warning_of_a_ban_that_bans_nothing(retrace):
    run = ["generate", *GREEDY, "-p", "go"]
    (retrace.tmp / "bare").write_bytes(b"\xef\xbb\xbf# nothing\r\n \t\n  # more")
    (retrace.tmp / "good").write_bytes(b"# nothing\n \t\n  x # more")
    for given, name in (
        (["--ban-file", "bare"], "--ban-file bare"),
        (["--rule", "phrases:file=bare"], "--rule phrases:file=bare"),
        (["--rule", "phrases"], "--rule phrases"),
        (["--rule", "phrases:word=true"], "--rule phrases"),
    ):
        done = retrace(*run, *given)
        assert done.code == 0 and done.err.startswith("retrace: warning: " + name), done
        assert done.err.split("\n")[0].endswith(" bans nothing") and done.err.count("warning") == 1
        assert retrace(*run, *given, "-q").err == ""
    for given in (["--ban-file", "good"], ["--rule", "phrases:file=good"], ["--ban", "x"]):
        assert "warning" not in retrace(*run, *given).err


def test_bias_given_twice(retrace):
    run = ["generate", *GREEDY, "-p", "go", "--logit-bias", "1=5", "--logit-bias"]
    for again in ("1=-5", "01=5", "+1=-inf", "1=5"):
        refused(retrace(*run, again), 2, "--logit-bias: token 1 comes twice")
    assert retrace(*run, "11=5").code == 0


def test_help_takes_no_value(retrace):
    refused(retrace("generate", "--help=foo"), 2, "--help takes no value")
    refused(retrace("generate", "-h=foo"), 2, "--help takes no value")


def test_big_ban_file(retrace):
    lines = ["phrase number %d of many" % i for i in range(50000)] + ["testament to"]
    (retrace.tmp / "big.txt").write_text("\n".join(lines))
    run = ["generate", *GREEDY, "-p", "go", "--ban-file", "big.txt"]
    assert retrace(*run).out == " a sign of hope."
    assert retrace(*run, "--json").json["rules"] == [{"name": "phrases", "hits": 1, "erased": 2, "accepted": 0}]


def test_short_flags_are_one_group_and_each_rule_its_own(retrace):
    (retrace.tmp / "b.txt").write_text("sign of\n")
    done = retrace(
        "generate", *GREEDY, "-p", "go", "--json", "--ban", "testament to", "--ban", "nothing",
        "--ban-file", "b.txt", "--rule", "phrases:text=xyz", "--operator", 'phrases:text="a,b"',
    )
    assert [r["name"] for r in done.json["rules"]] == ["phrases"] * 3
    assert [r["hits"] for r in done.json["rules"]] == [2, 0, 0]
    assert done.json["finish"] == "stuck"


def test_rule_settings(retrace):
    run = ["generate", *GREEDY, "-p", "go", "--rule"]
    assert retrace(*run, "phrases:text=TESTAMENT").out == " a sign of hope."
    assert retrace(*run, "phrases:text=TESTAMENT,case=exact").out == " a testament to hope."
    assert retrace(*run, 'phrases:text="testament",case=exact').out == " a sign of hope."
    (retrace.tmp / "b.txt").write_text("testament\n")
    assert retrace(*run, "phrases:file=b.txt").out == " a sign of hope."
    refused(retrace(*run, "phrases:file=none.txt"), 4, "none.txt")


def test_lists_by_name(retrace):
    run = ["generate", *GREEDY, "-p", "go"]
    folder = retrace.tmp / "lists"
    folder.mkdir()
    (folder / "my-list_1.txt").write_text("# a list\ntestament to\n")
    (retrace.tmp / "b.txt").write_text("sign of\n")
    rule = ["--rule", "phrases:list=my-list_1"]
    by_folder = {"RETRACE_LISTS": str(folder)}
    done = retrace(*run, *rule, "--json", "--trace", "t.jsonl", env=by_folder)
    assert done.json["text"] == " a sign of hope." and done.json["rules"][0]["hits"] == 1
    assert "testament to" in json.loads((retrace.tmp / "t.jsonl").read_text().split("\n")[0])["settings"]["rules"][0]["list"][0]
    assert retrace("replay", "t.jsonl").code == 0  # needs no folder
    # ~/.config/retrace/lists, or in XDG_CONFIG_HOME
    for variable, path in (("HOME", ".config/retrace/lists"), ("XDG_CONFIG_HOME", "retrace/lists")):
        (retrace.tmp / variable / path).mkdir(parents=True)
        (retrace.tmp / variable / path / "my-list_1.txt").write_text("testament\n")
        env = {"HOME": "", "XDG_CONFIG_HOME": "", variable: str(retrace.tmp / variable)}
        assert retrace(*run, *rule, env=env).out == " a sign of hope."
    # A name given by --ban-list wins; of two the last one.
    named = ["--ban-list", "my-list_1=none.txt", "--ban-list", "my-list_1=b.txt"]
    assert retrace(*run, *rule, *named, env=by_folder).out == " a testament to hope."
    assert retrace(*run, *rule, env={"RETRACE_BAN_LIST": "my-list_1=b.txt"}).out == " a testament to hope."
    done = retrace(*run, "--ban-list", "my-list_1=b.txt")
    assert done.code == 0 and "warning: --ban-list my-list_1=b.txt" in done.err


def test_wrong_lists(retrace):
    run = ["generate", *GREEDY, "-p", "go"]
    nowhere = {"HOME": "", "XDG_CONFIG_HOME": "", "RETRACE_LISTS": ""}
    refused(retrace(*run, "--rule", "phrases:list=a", env=nowhere), 4, "phrases:list=a", "RETRACE_LISTS")
    here = {"RETRACE_LISTS": str(retrace.tmp)}
    refused(retrace(*run, "--rule", "phrases:list=a", env=here), 4, "a.txt", "No such file")
    for name in ("../a", "a/b", "", "ä", "a b"):
        refused(retrace(*run, "--rule", "phrases:list=" + name, env=here), 2, "phrases:list=" + name)
    (retrace.tmp / "long.txt").write_text("fine\n" + "x" * 4097 + "\n")
    refused(retrace(*run, "--rule", "phrases:list=long", env=here), 2, "--rule phrases:list=long: line 2: ")
    for given in ("a", "a=", "=b", "a/b=c"):
        refused(retrace(*run, "--ban-list", given), 2, "--ban-list")


def test_scope_and_count(retrace):
    run = ["generate", *GREEDY, "-p", "go", "--rule"]
    assert retrace(*run, "phrases:text=testament,max_count=1").out == " a testament to hope."
    assert retrace(*run, "phrases:text=testament,scope=sentence-start").out == " a testament to hope."
    assert retrace(*run, "phrases:text=testament,scope=outside-code").out == " a sign of hope."
    refused(retrace(*run, "phrases:text=a,scope=code"), 2, "scope", "outside-code")
    refused(retrace(*run, "phrases:text=a,max_count=-1"), 2, "max_count")


def test_replace(retrace):
    run = ["generate", *GREEDY, "-p", "go", "--rule"]
    assert retrace(*run, "replace:find=testament to,replace=sign of").out == " a sign of hope."
    refused(retrace(*run, "replace:replace=a"), 2, "replace: find is empty")


def test_wrong_rules(retrace):
    run = ["generate", *GREEDY, "-p", "go", "--rule"]
    refused(retrace(*run, "prases:text=a"), 2, "--rule", "prases")
    refused(retrace(*run, "phrases:txt=a"), 2, "--rule", "txt")
    refused(retrace(*run, "phrases:text"), 2, "--rule", "phrases:text")
    refused(retrace(*run, "phrases:weight=2"), 2, "--rule", "weight")
    refused(retrace(*run, "phrases:case=upper"), 2, "--rule", "case")
    refused(retrace(*run, ":text=a"), 2, "--rule")
    refused(retrace(*run, ""), 2, "--rule")


def test_short_flag_of_a_rule_that_does_not_exist(retrace):
    if "regex" in [r["name"] for r in retrace("rules", "--json").json["rules"]]:
        pytest.skip("it does")
    refused(retrace("generate", *GREEDY, "-p", "go", "--ban-regex", "a+"), 2, "--ban-regex", "regex")
    assert "--ban-regex" not in retrace("generate", "--help").out


def test_rules_lists(retrace):
    done = retrace("rules")
    assert done.code == 0 and "phrases" in done.out and "sample" in done.out
    one = retrace("rules", "phrases").out
    assert one.startswith("phrases (rule): ") and "weight" in one and "0 to 1" in one
    refused(retrace("rules", "prases"), 2, "prases", "'phrases'")
    refused(retrace("rules", "xyz"), 2, "'xyz'; see 'retrace rules'")
    assert max(len(line) for line in (done.out + retrace("generate", "--help").out).splitlines()) <= 80


def test_names_that_are_nearly_right(retrace):
    run = ["generate", *GREEDY, "-p", "go"]
    refused(retrace(*run, "--rule", "phrase:text=a"), 2, "--rule: unknown rule 'phrase' (did you mean 'phrases'?)")
    refused(retrace(*run, "--rule", "phrases:txt=a"), 2, "phrases has no setting 'txt' (did you mean 'text'?)")
    refused(retrace(*run, "--rule", "phrases:x=a"), 2, "see 'retrace rules phrases'")
    refused(retrace(*run, "--driver", "sampel"), 2, "--driver: there is no driver 'sampel' (did you mean 'sample'?)")


def test_rules_json(retrace):
    listed = retrace("rules", "--json").json
    assert set(listed) == {"rules", "drivers"}
    assert "sample" in [d["name"] for d in listed["drivers"]]
    phrases = [r for r in listed["rules"] if r["name"] == "phrases"][0]
    assert set(phrases) == {"name", "kind", "help", "settings"} and phrases["kind"] == "rule"
    settings = {s["name"]: s for s in phrases["settings"]}
    assert settings["text"]["type"] == "texts" and settings["text"]["default"] == []
    assert settings["case"]["choices"] == ["fold", "exact"]
    assert settings["case"]["default"] == "fold"
    weight = settings["weight"]
    assert (weight["type"], weight["default"], weight["min"], weight["max"]) == ("real", 0.0, 0.0, 1.0)
    for s in phrases["settings"]:
        assert set(s) == {"name", "type", "default", "min", "max", "choices", "help"} and s["help"]
    only = retrace("rules", "phrases", "--json").json
    assert only == {"rules": [phrases], "drivers": []}


# ==== tokenize, info, score ====


def test_tokenize(retrace):
    done = retrace("tokenize", "-m", STORY, "-p", "go a sign\n")
    assert done.out == '     0  "go"\n     1  " a"\n     4  " sign"\n    24  "\\n"\n'
    assert retrace("tokenize", "-m", STORY, "-p", "go a", "--json").json == {
        "tokens": [
            {"id": 0, "text": "go", "bytes": [103, 111]},
            {"id": 1, "text": " a", "bytes": [32, 97]},
        ],
        "count": 2,
    }
    assert retrace("tokenize", "-m", STORY, "-p", "", "--json").json == {"tokens": [], "count": 0}
    split = retrace("tokenize", "-m", STORY, "-p", "\u6b65", "--json").json["tokens"]
    assert split[0] == {"id": 14, "text": "\ufffd", "bytes": [230]}


def test_info(retrace):
    assert retrace("info", "-m", "table:%s" % STORY, "--json").json == {
        "model": "cli_story.json",
        "backend": "table",
        "vocab": 27,
        "n_ctx": 64,
        "n_params": 0,
        "size_bytes": 0,
        "chat_template": True,
        "rewind": "exact",
        "add_bos": False,
        "bos": None,
    }
    assert "27 tokens" in retrace("info", "-m", STORY).out


def test_score(retrace):
    done = retrace("score", "-m", STORY, "-p", "go a sign of", "--json").json
    assert [t["id"] for t in done["tokens"]] == [0, 1, 4, 5]
    assert set(done["tokens"][0]) == {"id", "text", "logprob"}
    logprobs = [t["logprob"] for t in done["tokens"]]
    assert logprobs[0] is None  # nothing precedes it
    assert logprobs[1:] == pytest.approx([0, -1.3862943611198906, 0], abs=1e-7)
    assert done["logprob"] == pytest.approx(-1.3862943611198906, abs=1e-7)
    assert done["perplexity"] == pytest.approx(4 ** (1 / 3), abs=1e-6)
    never = retrace("score", "-m", STORY, "-p", "gogo", "--json").json
    assert never["tokens"][1]["logprob"] == never["logprob"] == -9999.0
    assert never["perplexity"] is None
    human = retrace("score", "-m", STORY, "-p", "go a sign")
    assert '  -1.3863  25.00%  " sign"' in human.out and human.code == 0
    refused(retrace("score", "-m", STORY, "-p", ""), 2, "empty")


def test_score_sums(retrace):
    (retrace.tmp / "t.json").write_text(
        '{"tokens": ["a", "b"], "rows": [{"context": [], "next": {"a": 0.5, "b": 0.5}}]}'
    )
    done = retrace("score", "-m", "t.json", "-p", "abba", "--json").json
    assert done["logprob"] == pytest.approx(3 * -0.6931471805599453, abs=1e-7)
    assert done["perplexity"] == pytest.approx(2, abs=1e-7)


# ==== Models that are none ====


def test_missing_model(retrace):
    refused(retrace("info", "-m", "none.json"), 4, "none.json")
    refused(retrace("info", "-m", "none.gguf"), 4, "none.gguf")
    done = retrace("generate", "-p", "go")
    refused(done, 4, "SmolLM2-135M-Instruct.Q4_1.gguf", "make demo", "--model", "RETRACE_MODEL")
    refused(retrace("info", "-m", ""), 2, "-m")


def test_unknown_kind_of_model(retrace):
    refused(retrace("info", "-m", "http://127.0.0.1:9/v1#x"), 2, "http")


@pytest.mark.parametrize(
    "text, word",
    [
        ("", "line 1"),
        ("[]", "no JSON object"),
        ('{"tokens": ["a"]', "line 1"),
        ('{"rows": []}', "tokens"),
        ('{"tokens": ["a"], "rows": []}', "empty context"),
        ('{"tokens": ["a"], "rows": [{"context": [], "next": {"b": 1}}]}', "names no token"),
        ('{"tokens": ["a"], "rows": [{"context": ["b"], "next": {"a": 1}}]}', "names no token"),
        ('{"tokens": ["a"], "rows": [{"context": [], "next": {"a": -1}}]}', "weight"),
        ('{"tokens": ["a"], "rows": [{"context": [], "next": {"a": NaN}}]}', "line 1"),
    ],
)
def test_broken_table(retrace, text, word):
    (retrace.tmp / "t.json").write_text(text)
    for command in ("info", "generate"):
        given = ["-p", "a"] if command == "generate" else []
        refused(retrace(command, "-m", "t.json", *given), 3, "t.json", word)


def test_broken_gguf(retrace):
    if not has_llama(retrace):
        pytest.skip("built without libllama")
    (retrace.tmp / "text.gguf").write_text("this is no model")
    refused(retrace("info", "-m", "text.gguf"), 3, "text.gguf")
    (retrace.tmp / "empty.gguf").write_bytes(b"")
    refused(retrace("info", "-m", "empty.gguf"), 3, "empty.gguf")
    (retrace.tmp / "cut.gguf").write_bytes(b"GGUF\x03\0\0\0" + b"\1" + b"\0" * 7)
    refused(retrace("info", "-m", "cut.gguf"), 3, "cut.gguf")


def test_engine_flag_that_means_nothing(retrace):
    if not has_llama(retrace):
        pytest.skip("built without libllama")
    done = retrace("info", "-m", STORY, "-ngl", "0")
    assert done.code == 0 and "--n-gpu-layers" in done.err and "table" in done.err
    assert retrace("info", "-m", STORY, "-ngl", "0", "-q").err == ""
    assert retrace("info", "-m", STORY, env={"RETRACE_THREADS": "2"}).err == ""
    refused(retrace("info", "-m", STORY, "-ngl", "many"), 2, "-ngl")


# ==== Writing ====


def test_full_disk(retrace):
    with open("/dev/full", "wb") as full:
        for args in (["generate", *GREEDY, "-p", "go"], ["rules"], ["info", "-m", STORY, "--json"]):
            done = retrace.start(*args, stdout=full, stderr=subprocess.PIPE)
            assert "cannot write to standard output" in done.communicate()[1].decode()
            assert done.returncode == 4


def test_reader_that_left(retrace):
    """As any filter: ended by SIGPIPE, without a word."""
    done = retrace.start(
        "generate", "-m", DATA / "cli_endless.json", "-p", "a", "-n", "100000000",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    assert done.stdout.read(1) in (b"a", b"b")
    done.stdout.close()
    assert done.stderr.read() == b"" and done.wait(60) == -signal.SIGPIPE


# ==== Interrupts ====

ENDLESS = ["-m", DATA / "cli_endless.json", "-p", "a", "-n", "100000000", "-s", "1"]


def endless(retrace, *args):
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return retrace.start("generate", *ENDLESS, *args, **pipes)


def test_interrupt(retrace):
    done = endless(retrace, "--trace", "t.jsonl")
    first = os.read(done.stdout.fileno(), 50)
    done.send_signal(signal.SIGINT)
    rest, err = done.communicate(timeout=60)
    assert done.returncode == 130 and b"kept" in err
    last = json.loads((retrace.tmp / "t.jsonl").read_text().split("\n")[-2])
    assert (last["op"], last["finish"]) == ("done", "cancelled")
    assert last["text"] == (first + rest).decode()
    assert retrace("replay", "t.jsonl").code == 0


def test_interrupt_with_json(retrace):
    done = endless(retrace, "--json", "-vv")
    assert b"token" in done.stderr.readline()
    done.send_signal(signal.SIGINT)
    out, _ = done.communicate(timeout=60)
    assert done.returncode == 130 and json.loads(out)["finish"] == "cancelled"


def test_second_interrupt_ends_at_once(retrace):
    """A run that cannot end by itself, because nobody reads its trace, ends at the second one."""
    fifo = retrace.tmp / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    done = endless(retrace, "--trace", fifo, "-q", "--hold", "all")
    while not select.select([reader], [], [], 60)[0]:
        assert done.poll() is None
    time.sleep(1)  # by now the pipe is full
    done.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert done.poll() is None
    done.send_signal(signal.SIGINT)
    assert done.wait(60) == 130
    os.close(reader)


# ==== bench ====


def test_bench_needs_libllama(retrace):
    code = 2 if has_llama(retrace) else 3
    refused(retrace("bench", "--quick", "-m", STORY), code, "libllama")


def test_threads_wait_calmly_unless_told_otherwise():
    """The program starts itself again with a short spin count; the caller's own choice stands."""
    for name, value in (("", ""), ("GOMP_SPINCOUNT", "77"), ("OMP_WAIT_POLICY", "active")):
        env = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
        if name:
            env[name] = value
        command = [PROGRAM, "generate", "-m", str(DATA / "cli_endless.json"), "-p", "a", "-n", "-1"]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
            assert p.stdout.read(1)
            now = dict(v.split("=", 1) for v in pathlib.Path(f"/proc/{p.pid}/environ").read_text().split("\0") if "=" in v)
            p.kill()
        if name:
            assert now[name] == value and ("GOMP_SPINCOUNT" in now) == (name == "GOMP_SPINCOUNT")
        else:
            assert now.get("GOMP_SPINCOUNT", "1000") == "1000"  # absent only without libllama
