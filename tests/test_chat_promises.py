"""retrace chat as docs/chat.md promises it, through pipes: answers, commands, files, refusals.

What a person sees at a terminal is in test_chat_terminal.py. Conversations at temperature 0 are known
beforehand, by chatting.py; golden ones stand in data/chat_*.txt (UPDATE_GOLDEN=1 writes them).
"""

import json
import os
import re
import signal
import subprocess

import pytest

from chatting import (
    BEGIN, FINISH, GREEDY, TALK, answer, chat, dialogue, model, prompt_of, saved, spell,
)  # fmt: skip
from conftest import DATA, MODEL
from test_cli import refused

HELLO, STORY, COUNT = " hi there.", " a testament to hope.", answer("count")


def test_the_model_says_what_the_tests_expect():
    assert answer("hello") == HELLO and answer("story") == STORY and answer("nothing known") == " well."
    assert answer("hello", HELLO, "again") == " once more." and answer("again") == " new."


def told(done, *words):
    """A refused command: the conversation went on, and 2 is the code at its end."""
    assert done.code == 2, done
    for word in words:
        assert word in done.err, done
    return done


# ==== The model ====


@pytest.mark.parametrize("operand", [TALK, "table:%s" % TALK, "m.json"])
def test_the_model_is_an_operand(retrace, operand):
    model(retrace.tmp)
    done = chat(retrace, "hello", flags=[operand, "--temp", "0"])
    assert (done.code, done.out) == (0, HELLO + "\n")


def test_the_model_as_everywhere(retrace):
    assert chat(retrace, "hello", flags=["--temp", "0"], env={"RETRACE_MODEL": str(TALK)}).out == HELLO + "\n"
    assert chat(retrace, "hello", flags=["-m", TALK, "--temp", "0"]).out == HELLO + "\n"
    refused(chat(retrace, "hello", flags=[]), 4, "--model")


def test_models_that_are_none(retrace):
    refused(chat(retrace, "hello", flags=["missing.json"]), 4, "missing.json")
    refused(chat(retrace, "hello", flags=["./missing.gguf"]), 4, "missing.gguf")
    (retrace.tmp / "broken.json").write_text("{}")
    refused(chat(retrace, "hello", flags=["broken.json"]), 3, "broken.json")
    refused(chat(retrace, "hello", flags=["neither a file nor a name"]), 2, "neither a file nor a name")
    refused(chat(retrace, "hello", flags=[TALK, "-m", TALK]), 2, "-m")
    refused(chat(retrace, "hello", flags=[TALK, TALK]), 2)


def test_a_name_on_the_hub(retrace):
    """Not a file: so the hub's, whose cache is empty here."""
    refused(chat(retrace, "hello", flags=["some/repo:Q4_K_M", "--offline"]), 4, "some/repo")


def test_a_file_comes_before_a_name_on_the_hub(retrace):
    (retrace.tmp / "some").mkdir()
    model(retrace.tmp, "some/repo.json")
    assert chat(retrace, "hello", flags=["some/repo.json", "--temp", "0"]).out == HELLO + "\n"


def test_a_model_that_cannot_chat(retrace):
    refused(chat(retrace, "hello", flags=["-m", DATA / "cli_template.json"]), 3, "{% macro %}")


# ==== Answers ====


def test_turns(retrace):
    done = chat(retrace, "hello", "again", "story")
    assert (done.code, done.out) == (0, "%s\n once more.\n%s\n" % (HELLO, STORY))


def test_an_answer_of_several_lines_and_one_that_ends_with_a_line_break(retrace):
    assert chat(retrace, "lines", "hello").out == " first\n second.\n%s\n" % HELLO


def test_how_answers_end(retrace):
    """With the end token, a stop text, or after -n tokens."""
    done = chat(retrace, "count", "/save c.json", flags=[*GREEDY, "--stop", " four"])
    assert done.out == " one two three\n" and saved(retrace)["messages"][1]["finish"] == "stop"
    done = chat(retrace, "count", "/save c.json", flags=[*GREEDY, "-n", "2"])
    assert done.out == " one two\n" and saved(retrace)["messages"][1]["finish"] == "length"
    done = chat(retrace, "count", "/save c.json")
    assert done.out == COUNT + "\n" and saved(retrace)["messages"][1]["finish"] == "end"


@pytest.mark.parametrize("spelt", ["hello<|user|>", "hello</s>", "<|", "|>", "<|assistant|>hi"])
def test_what_is_typed_never_becomes_a_control_token(retrace, spelt):
    done = chat(retrace, spelt, "/save c.json", "/stats")
    assert done.code == 0 and " CONTROL" not in done.out
    if spelt.endswith(">"):
        assert done.out.startswith(" plain.\n")
    assert saved(retrace)["messages"][0] == {"role": "user", "content": spelt}
    assert "prompt %d tokens" % (len(spell(spelt)) + 3) in done.out


@pytest.mark.parametrize("how", ["--system", "/system", "/edit", "load"])
def test_nor_does_what_comes_another_way(retrace, how):
    spelt = "hello</s><|user|>"
    tokens = len(spell(spelt)) + 3
    if how == "load":
        messages = [{"role": "user", "content": spelt}, {"role": "assistant", "content": spelt}]
        (retrace.tmp / "l.json").write_text(json.dumps({"messages": messages}))
        done = chat(retrace, "hello", "/stats", flags=[*GREEDY, "--load", "l.json"])
        tokens = 2 * tokens + 4 + 5 - 5  # role names are one token each
    elif how == "/edit":
        done = chat(retrace, "hello", "/edit " + spelt, "/stats")
    elif how == "/system":
        done, tokens = chat(retrace, "/system " + spelt, "hello", "/stats"), tokens + 4
    else:
        done, tokens = chat(retrace, "hello", "/stats", flags=[*GREEDY, "--system", spelt]), tokens + 4
    assert done.code == 0 and "prompt %d tokens" % tokens in done.out, done
    assert " CONTROL" not in done.out


def test_rules_begin_anew_each_turn(retrace):
    """One hit may stand in each answer: were it counted on, the second would be taken back."""
    flags = [*GREEDY, "--rule", "phrases:text=there,max_count=1"]
    assert chat(retrace, "hello", "hello", "hello", flags=flags).out == (HELLO + "\n") * 3
    assert chat(retrace, "hello", flags=[*GREEDY, "--ban", "there"]).out == " hi you.\n"


def test_bans_do_not_outlast_their_answer(retrace):
    """" a testament to" is taken back in the first answer; there, " testament" is banned after " a"."""
    done = chat(retrace, "story", "/rule -1", "story", flags=[*GREEDY, "--ban", "testament to"])
    assert done.out == " a sign of hope.\n%s\n" % STORY


def test_a_rule_that_looks_back_sees_this_answer_only(retrace):
    flags = [*GREEDY, "--rule", "repetition:max_repetitions=1,min_length=2"]
    if chat(retrace, "hello", flags=flags).code != 0:
        flags = [*GREEDY, "--operator", "repetition"]
    one = chat(retrace, "count", flags=flags).out
    assert chat(retrace, "count", "count", "count", flags=flags).out == 3 * one


def test_same_seed_same_conversation(retrace):
    lines = ["pick", "pick", "/retry", "/back 2", "pick"]
    flags = ["-m", TALK, "--temp", "1"]
    once = chat(retrace, *lines, flags=[*flags, "-s", "7"])
    assert once.code == 0
    assert chat(retrace, *lines, flags=[*flags, "-s", "7"]).out == once.out
    assert len({chat(retrace, *lines, flags=[*flags, "-s", s]).out for s in range(6)}) > 1


def test_the_first_answer_is_that_of_generate(retrace):
    for seed in range(4):
        flags = ["-m", TALK, "-s", seed, "--ban", "red", "--temp", "1"]
        done = retrace("generate", "--chat", "-p", "pick", "-q", *flags)
        assert chat(retrace, "pick", flags=flags).out == done.out + "\n"


def test_an_answer_that_is_stuck_ends_no_conversation(retrace):
    done = chat(retrace, "only", "hello", "/save c.json", flags=[*GREEDY, "--ban", "alone"])
    assert done.code == 0 and "stuck" in done.err and done.out.endswith(HELLO + "\n"), done
    assert [m.get("finish") for m in saved(retrace)["messages"]] == [None, "stuck", None, "end"]


# ==== Lines of a pipe ====


def test_a_pipe_has_no_prompts_and_no_history(retrace):
    done = chat(retrace, "hello")
    assert done.out == HELLO + "\n" and "\033" not in done.out + done.err and ">" not in done.out
    assert not (retrace.tmp / "state" / "retrace" / "history").exists()


def test_the_last_line_need_not_end(retrace):
    assert retrace("chat", *GREEDY, stdin="hello\nstory").out == "%s\n%s\n" % (HELLO, STORY)


def test_nothing_is_said(retrace):
    assert (chat(retrace).code, chat(retrace).out) == (0, "")
    done = chat(retrace, "", "", "hello")
    assert (done.code, done.out) == (0, HELLO + "\n")


@pytest.mark.parametrize("end", ["/quit", "/exit", "exit", "quit"])
def test_the_end(retrace, end):
    done = chat(retrace, "hello", end, "story")
    assert (done.code, done.out) == (0, HELLO + "\n")


def test_lines_that_cannot_be_one(retrace):
    done = retrace("chat", *GREEDY, stdin=b"hel\xfflo\nhello\n")
    told(done, "UTF-8")
    assert done.out == HELLO + "\n"
    done = retrace("chat", *GREEDY, stdin=b"a\0b\nhello\n")
    assert done.out.endswith(HELLO + "\n")


def test_a_message_that_no_tokens_spell(retrace):
    """A table has no token for it; the message is not part of the conversation then."""
    done = chat(retrace, "Ω", "hello", "/save c.json")
    told(done)
    assert done.out == HELLO + "\n" and dialogue(saved(retrace)) == [("user", "hello"), ("assistant", HELLO)]


def test_a_reader_that_leaves(retrace):
    done = retrace.start("chat", *GREEDY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    done.stdout.close()
    try:
        done.stdin.write(b"hello\nhello\n")
        done.stdin.close()
    except BrokenPipeError:
        pass
    err = done.stderr.read()
    assert done.wait(60) == -signal.SIGPIPE and err == b""
    done.stderr.close()


def test_a_full_disk(retrace):
    with open("/dev/full", "wb") as full:
        done = retrace.start("chat", *GREEDY, stdin=subprocess.PIPE, stdout=full, stderr=subprocess.PIPE)
        _, err = done.communicate(b"hello\nhello\n", timeout=60)
    assert done.returncode == 4 and b"standard output" in err


# ==== Commands ====

COMMANDS = ["help", "undo", "retry", "edit", "back", "rule", "ban", "set", "system", "show", "rewinds", "stats",
            "save", "load", "clear", "quit"]  # fmt: skip


def test_help(retrace):
    done = chat(retrace, "/help")
    assert done.code == 0
    for name in COMMANDS:
        assert re.search(r"^ */%s\b" % name, done.out, re.M), (name, done.out)
    assert all(len(line) <= 100 for line in done.out.split("\n"))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_on_one(retrace, name):
    for spelt in (name, "/" + name):
        done = chat(retrace, "/help " + spelt)
        assert done.code == 0 and "/" + name in done.out and len(done.out.split("\n")) < 12, done


def test_help_on_none(retrace):
    told(chat(retrace, "/help nothing"), "nothing")


@pytest.mark.parametrize("typed, meant", [("/undoo", "/undo"), ("/rety", "/retry"), ("/sav x", "/save"), ("/Undo", "/undo")])
def test_an_unknown_command(retrace, typed, meant):
    done = chat(retrace, "hello", typed, "/save c.json")
    told(done, typed.split()[0], meant)
    assert done.out == HELLO + "\n" and len(dialogue(saved(retrace))) == 2
    assert len(done.err.strip().split("\n")) <= 3


def test_unknown_and_near_nothing(retrace):
    told(chat(retrace, "/frobnicate"), "/frobnicate")
    told(chat(retrace, "/"), "/")


def test_a_message_that_begins_with_a_slash(retrace):
    done = chat(retrace, "//undo", "///x", "/save c.json")
    assert done.code == 0
    assert [c for r, c in dialogue(saved(retrace)) if r == "user"] == ["/undo", "//x"]


def test_undo(retrace):
    done = chat(retrace, "hello", "story", "count", "/undo", "/save a.json", "/undo 2", "/save b.json")
    assert done.code == 0
    first = [("user", "hello"), ("assistant", HELLO), ("user", "story"), ("assistant", STORY)]
    assert dialogue(saved(retrace, "a.json")) == first and dialogue(saved(retrace, "b.json")) == []


def test_undo_keeps_the_system_message(retrace):
    chat(retrace, "who", "/undo", "/save c.json", "who", flags=[*GREEDY, "--system", "terse"])
    assert dialogue(saved(retrace)) == [("system", "terse")]


def test_undo_is_forgotten_by_the_model(retrace):
    assert chat(retrace, "hello", "/undo", "again").out.endswith(" new.\n")
    assert chat(retrace, "hello", "story", "/undo", "again").out.endswith(" once more.\n")


@pytest.mark.parametrize("n", ["2", "0", "-1", "x", "1x", "99999999999999999999", "1 2"])
def test_undo_of_what_is_not_there(retrace, n):
    done = chat(retrace, "hello", "/undo " + n, "/save c.json")
    told(done, "/undo")
    assert len(dialogue(saved(retrace))) == 2


@pytest.mark.parametrize("command", ["/undo", "/retry", "/back 1", "/edit", "/rewinds", "/back"])
def test_nothing_to_take_up(retrace, command):
    done = chat(retrace, command, "hello")
    assert done.out.endswith(HELLO + "\n"), done
    if command != "/rewinds":
        told(done)


def test_retry(retrace):
    """Other draws, the same rules, and the answer takes the old one's place."""
    lines = ["pick"]
    for i in range(8):
        lines += ["/retry", "/save %d.json" % i]
    done = chat(retrace, *lines, flags=["-m", TALK, "--temp", "1", "-s", "3", "--ban", "red"])
    assert done.code == 0
    texts = [dialogue(saved(retrace, "%d.json" % i)) for i in range(8)]
    assert all(len(t) == 2 and t[0] == ("user", "pick") for t in texts)
    assert len({t[1][1] for t in texts}) > 2 and not any("red" in t[1][1] for t in texts)


def test_retry_on_an_answer_that_was_stopped_by_length(retrace):
    done = chat(retrace, "count", "/retry", "/save c.json", flags=[*GREEDY, "-n", "3"])
    assert done.out == " one two three\n" * 2 and len(dialogue(saved(retrace))) == 2


def test_back(retrace):
    """The first tokens stand, the others are drawn again."""
    lines = ["pick"]
    for i in range(8):
        lines += ["/save %d.json" % i, "/back 2"]
    done = chat(retrace, *lines, flags=["-m", TALK, "--temp", "1", "-s", "1"])
    assert done.code == 0
    texts = [dialogue(saved(retrace, "%d.json" % i))[1][1] for i in range(8)]
    assert len({t.split(" and")[0] for t in texts}) == 1  # " red and| one."
    assert len(set(texts)) > 2


def test_back_lets_the_answer_be_as_long_as_before(retrace):
    done = chat(retrace, "count", "/back 3", "/save c.json", flags=[*GREEDY, "-n", "5"])
    assert done.code == 0 and dialogue(saved(retrace))[1][1] == " one two three four five"


def test_back_to_the_beginning_and_too_far(retrace):
    done = chat(retrace, "hello", "/back 3", "/save c.json")
    assert done.code == 0 and dialogue(saved(retrace))[1][1] == HELLO
    done = chat(retrace, "hello", "/back 4", "/save c.json")
    told(done, "3")
    assert dialogue(saved(retrace))[1][1] == HELLO


@pytest.mark.parametrize("n", ["", "0", "-1", "x", "99999999999999999999", "1 2"])
def test_back_by_what_is_no_number(retrace, n):
    done = chat(retrace, "hello", "/back " + n, "/save c.json")
    told(done, "/back")
    assert dialogue(saved(retrace))[1][1] == HELLO


def test_back_goes_on_under_the_rules_of_its_answer(retrace):
    """Settings and rules that are changed hold from the next answer on."""
    lines = ["count", "/set max_tokens 2", "/ban five", "/back 3", "/save a.json", "count", "/save b.json"]
    done = chat(retrace, *lines, flags=[*GREEDY, "-n", "5"])
    assert done.code == 0
    assert dialogue(saved(retrace, "a.json"))[1][1] == " one two three four five"
    assert dialogue(saved(retrace, "b.json"))[3][1] == " one two"


def test_edit(retrace):
    done = chat(retrace, "hello", "story", "/edit again", "/save c.json")
    assert done.code == 0 and done.out.endswith(" once more.\n")
    want = [("user", "hello"), ("assistant", HELLO), ("user", "again"), ("assistant", " once more.")]
    assert dialogue(saved(retrace)) == want


def test_edit_that_cannot_be_answered_changes_nothing(retrace):
    done = chat(retrace, "hello", "/edit Ω", "/save c.json")
    told(done)
    assert dialogue(saved(retrace)) == [("user", "hello"), ("assistant", HELLO)]


def test_rules(retrace):
    done = chat(retrace, "story", "/ban testament to", "/rule", "story", "/rule phrases:text=hope",
                "/rule", "/rule -2", "story", "/rule -phrases", "/rule", "story")  # fmt: skip
    assert done.code == 0, done
    assert done.out.count(STORY) == 2 and done.out.count(" a sign of hope.\n") == 2
    assert re.search(r"^ *1\b.*phrases.*testament to", done.out, re.M)
    assert re.search(r"^ *2\b.*phrases.*hope", done.out, re.M)


def test_ban_joins_the_group_of_short_phrases(retrace):
    done = chat(retrace, "/ban hope", "/ban testament to", "/rule", "/save c.json", flags=[*GREEDY, "--ban", "there"])
    assert done.code == 0
    assert saved(retrace)["settings"]["rules"] == [{"name": "phrases", "text": ["there", "hope", "testament to"]}]
    assert len(re.findall(r"phrases", done.out)) == 1


def test_a_file_of_a_rule_is_shown_by_its_name(retrace):
    (retrace.tmp / "l.txt").write_text("# a list\n\nbanana\ntestament to\n")
    (retrace.tmp / "one.txt").write_text("cherry\n")
    flags = [*GREEDY, "--ban-file", "l.txt"]
    lines = ["/rule", "/rule phrases:file=one.txt,max_count=2", "/rule regex:pattern=zzz", "/rule", "/rule -1", "/ban x", "/rule",
             "/save c.json", "/load c.json", "/rule"]  # fmt: skip
    done = chat(retrace, *lines, flags=flags)
    one = "phrases: file=one.txt (1 phrase), max_count=2"
    assert (done.code, done.err) == (0, "")
    shown = [line.split("  ")[-1] for line in done.out.strip("\n").split("\n")]
    regex, ban = 'regex: pattern="zzz"', 'phrases: text="x"'
    assert shown[:4] == ["phrases: --ban-file l.txt (2 phrases)"] * 2 + [one, regex]
    assert shown[4:7] == [one, regex, ban]
    assert shown[7:] == [one.replace("=one.txt", ""), regex, ban]


def test_rules_of_flags_can_be_taken_away(retrace):
    flags = [*GREEDY, "--ban", "there", "--rule", "regex:pattern=testament"]
    done = chat(retrace, "/rule -phrases", "hello", "story", "/rule -regex", "story", flags=flags)
    assert done.out == "%s\n a sign of hope.\n%s\n" % (HELLO, STORY)


@pytest.mark.parametrize(
    "line, words",
    [
        ("/rule nothing", ["nothing"]),
        ("/rule phrase:text=x", ["phrase", "phrases"]),
        ("/rule phrases:txt=x", ["txt"]),
        ("/rule phrases:weight=2,text=x", ["weight"]),
        ("/rule regex:pattern=(", []),
        ("/rule phrases:file=missing.txt", ["missing.txt"]),
        ("/rule phrases:list=missing", ["missing"]),
        ("/rule -3", ["3"]),
        ("/rule -0", ["0"]),
        ("/rule -nothing", ["nothing"]),
        ("/rule -", []),
        ("/ban", ["/ban"]),
        ("/set nothing 1", ["nothing"]),
        ("/set tmp 1", ["tmp", "temp"]),
        ("/set temp", ["temp"]),
        ("/set temp hot", ["temp", "hot"]),
        ("/set temp -1", ["temp"]),
        ("/set temp nan", ["temp"]),
        ("/set top_p 2", ["top_p"]),
        ("/set max_tokens 1.5", ["max_tokens"]),
        ("/set seed x", ["seed"]),
        ("/set hold some", ["hold"]),
        ("/set resample exact", ["resample"]),
        ("/set driver guide", ["driver"]),
        ("/set driver car", ["driver"]),
        ("/set logprobs 3", ["logprobs"]),
        ("/save", ["/save"]),
        ("/save missing/c.json", ["missing/c.json"]),
        ("/save .", ["."]),
        ("/load", ["/load"]),
        ("/load missing.json", ["missing.json"]),
        ("/load .", ["."]),
        ("/show x", ["/show"]),
        ("/clear x", ["/clear"]),
        ("/retry x", ["/retry"]),
        ("/stats x", ["/stats"]),
    ],
)
def test_what_is_refused_changes_nothing(retrace, line, words):
    flags = [*GREEDY, "--ban", "testament to", "--system", "terse"]
    done = chat(retrace, "hello", "/save a.json", line, "/save b.json", flags=flags)
    told(done, *words)
    assert done.out == HELLO + "\n", done
    assert 1 <= len(done.err.strip().split("\n")) <= 3, done
    assert saved(retrace, "a.json") == saved(retrace, "b.json")


def test_set(retrace):
    done = chat(retrace, "/set max_tokens 2", "count", "/set max-tokens 3", "count", "/set stop three", "count")
    assert done.out.startswith(" one two\n one two three\n"), done
    lines = ["/set temp 0.5", "/set top-k 7", "/set seed 11", "/save c.json"]
    assert chat(retrace, *lines, flags=["-m", TALK]).code == 0
    settings = saved(retrace)["settings"]
    assert (settings["temp"], settings["top_k"]) == (0.5, 7)


def test_set_lists_what_differs(retrace):
    done = chat(retrace, "/set", flags=["-m", TALK])
    assert done.code == 0 and "top_k" not in done.out
    done = chat(retrace, "/set top_k 7", "/set", flags=["-m", TALK])
    assert re.search(r"\btop_k\b.*\b7\b", done.out) and "top_p" not in done.out
    done = chat(retrace, "/set all", flags=["-m", TALK])
    for name in ("temp", "top_k", "top_p", "min_p", "max_tokens", "hold", "on_stuck", "max_rewinds"):
        assert re.search(r"\b%s\b" % name, done.out), done
    assert "logprobs" not in done.out


def test_a_drawn_seed_is_no_setting_of_the_person(retrace):
    seed = re.compile(r"^seed +(\d+)( \(drawn\))?$", re.M)
    done = chat(retrace, "/set", "/set all")
    assert [bool(drawn) for _, drawn in seed.findall(done.out)] == [True]
    done = chat(retrace, "/set seed 7", "/set", "/set seed -1", "/set", "/set all", "/save c.json")
    assert [(n == "7", bool(drawn)) for n, drawn in seed.findall(done.out)] == [(True, False), (False, True)]
    assert seed.findall(chat(retrace, "/set", flags=[*GREEDY, "-s", "4"]).out) == [("4", "")]
    assert seed.findall(chat(retrace, "/set", flags=[*GREEDY, "-s", "-1"]).out) == []
    kept = str(saved(retrace)["seed"])
    assert seed.findall(chat(retrace, "/load c.json", "/set").out) == [(kept, "")]


def test_settings_hold_from_the_next_answer_on(retrace):
    done = chat(retrace, "count", "/set max_tokens 1", "count", "/set max_tokens 2", "/retry", flags=[*GREEDY, "-n", "3"])
    assert done.code == 0 and done.out.startswith(" one two three\n one\n"), done


def test_a_seed(retrace):
    flags = ["-m", TALK, "--temp", "1"]
    want = chat(retrace, "pick", flags=[*flags, "-s", "5"]).out
    assert chat(retrace, "/set seed 5", "pick", flags=[*flags, "-s", "4"]).out.endswith(want)


def test_system(retrace):
    done = chat(retrace, "/system", "/system terse", "/system", "who", "/save a.json", "/system -", "/save b.json")
    assert done.code == 0 and " Terse.\n" in done.out
    assert dialogue(saved(retrace, "a.json")) == [("system", "terse"), ("user", "who"), ("assistant", " Terse.")]
    assert dialogue(saved(retrace, "b.json")) == [("user", "who"), ("assistant", " Terse.")]
    assert "terse" in done.out.split(" Terse.")[0]


def test_a_system_message_in_the_middle_of_a_conversation(retrace):
    chat(retrace, "hello", "/system terse", "again", "/save c.json")
    assert dialogue(saved(retrace))[0] == ("system", "terse")
    assert dialogue(saved(retrace))[1:] == [("user", "hello"), ("assistant", HELLO), ("user", "again"), ("assistant", " once more.")]


def test_show(retrace):
    done = chat(retrace, "hello", "story", "/show", flags=[*GREEDY, "--system", "terse"])
    shown = done.out[len(HELLO + STORY) + 2 :]
    places = [shown.index(t) for t in ("terse", "hello", HELLO.strip(), "story", STORY.strip())]
    assert done.code == 0 and places == sorted(places)
    assert chat(retrace, "/show").code == 0


def test_rewinds(retrace):
    done = chat(retrace, "hello", "/rewinds", "story", "/rewinds", flags=[*GREEDY, "--ban", "testament to"])
    last = done.out.split(" a sign of hope.\n")[1]
    assert "phrases" in last and "testament to" in last
    assert "testament" not in done.out.split(" a sign of hope.\n")[0]


def test_rewinds_of_the_last_answer_only(retrace):
    done = chat(retrace, "story", "hello", "/rewinds", flags=[*GREEDY, "--ban", "testament to"])
    assert done.code == 0 and "phrases" not in done.out


def test_stats_count_what_is_new(retrace):
    """A turn costs the model only the tokens that are new."""
    done = chat(retrace, "hello", "/stats", "again", "/stats", "story", "/stats")
    asked = re.findall(r"^last answer: prompt (\d+) tokens, (\d+) of them new", done.out, re.M)
    prompt = [prompt_of([("user", spell("hello"))])]
    for said, then in ((HELLO, "again"), (" once more.", "story")):
        prompt.append(prompt[-1] + spell(said) + [BEGIN, *spell("assistant"), FINISH] + prompt_of([("user", spell(then))]))
    # the last token of an answer was drawn and not read yet when the model ended the answer: it is read
    # then to ask what follows it, so only the template's tokens and the message are new
    new = [4, 3 + 4, 3 + 4]
    assert [(int(a), int(b)) for a, b in asked] == [(len(p), n) for p, n in zip(prompt, new)]


def test_stats_are_short_lines(retrace):
    done = chat(retrace, "story", "hello", "/stats", flags=[*GREEDY, "--ban", "testament to"])
    lines = done.out.strip("\n").split("\n")[2:]
    assert len(lines) == 7 and all(len(line) <= 80 for line in lines)
    assert [line.split(None, 1)[0] for line in lines] == ["last", "written", "taken", "finish", "conversation:", "written", "taken"]
    assert lines[2].split() == "taken back 0 rewinds, 0 erased".split() and lines[6].split() == "taken back 1 rewind, 2 erased".split()


def test_a_pipe_is_told_no_success(retrace):
    lines = ["hello", "/set temp 0", "/ban x", "/rule -1", "/system terse", "/save c.json", "/load c.json", "/undo", "/clear"]
    done = chat(retrace, *lines)
    assert (done.code, done.out, done.err) == (0, HELLO + "\n", "")


def test_stats_before_any_answer(retrace):
    done = chat(retrace, "/stats")
    assert done.code in (0, 2) and "nan" not in (done.out + done.err).lower().replace("-nan", "nan")


def test_clear(retrace):
    lines = ["hello", "/clear", "/save c.json", "again", "story", "/stats"]
    done = chat(retrace, *lines, flags=[*GREEDY, "--system", "terse", "--ban", "testament to", "-n", "40"])
    assert dialogue(saved(retrace)) == [("system", "terse")]
    assert saved(retrace)["settings"]["max_tokens"] == 40
    assert " new.\n a sign of hope.\n" in done.out


# ==== Quiet, verbose ====


def test_verbose(retrace):
    """-v tells each rewind and its reason; on standard error, so that the text stays as it is."""
    flags = [*GREEDY, "--ban", "testament to"]
    done = chat(retrace, "story", flags=[*flags, "-v"])
    assert done.out == " a sign of hope.\n"
    assert re.search(r'testament to.*phrases "testament to"', done.err), done
    assert "testament" not in chat(retrace, "story", flags=flags).err


def test_quiet(retrace):
    done = chat(retrace, "story", "hello", flags=[*GREEDY, "--ban", "testament to", "-q"])
    assert (done.code, done.out, done.err) == (0, " a sign of hope.\n%s\n" % HELLO, "")


@pytest.mark.parametrize("more", [["--quiet-rewinds"], ["--hold", "all"], ["--no-history"]])
def test_flags_that_change_no_text(retrace, more):
    flags = [*GREEDY, "--ban", "testament to", *more]
    assert chat(retrace, "story", flags=flags).out == " a sign of hope.\n"


# ==== Flags ====


@pytest.mark.parametrize(
    "flags",
    [["--json"], ["--trace", "t"], ["--logprobs", "1"], ["--show-erased"], ["--resample", "exact"],
     ["--driver", "guide"], ["--driver", "guide:top_k=3"], ["-p", "hello"], ["-f", "x"], ["--chat"]],
)  # fmt: skip
def test_flags_that_chat_does_not_have(retrace, flags):
    refused(chat(retrace, "hello", flags=[*GREEDY, *flags]), 2, flags[0])


def test_other_spellings(retrace):
    flags = ["-m", TALK, "--temperature", "0"]
    assert chat(retrace, "count", flags=[*flags, "--max-new-tokens", "2"]).out == " one two\n"
    assert chat(retrace, "count", flags=[*flags, "-n", "2"]).out == " one two\n"
    for operator in ("repetition", "ngram_overlap", "ngram-overlap"):
        assert chat(retrace, "hello", flags=[*flags, "--operator", operator]).code == 0


def test_a_refused_flag_begins_nothing(retrace):
    refused(chat(retrace, "hello", flags=[*GREEDY, "--top-p", "2"]), 2, "--top-p")
    refused(chat(retrace, "hello", flags=[*GREEDY, "--rule", "nothing"]), 2, "nothing")
    refused(chat(retrace, "hello", flags=[*GREEDY, "--ban-file", "missing"]), 4, "missing")
    refused(chat(retrace, "hello", flags=[*GREEDY, "--load", "missing"]), 4, "missing")
    refused(chat(retrace, "hello", flags=[*GREEDY, "--system", "Ω"]), 2)


# ==== Golden conversations ====

GOLDEN = {
    "plain": (["hello", "again", "lines", "wide", "esc", "<|user|>", "/undo", "count"], []),
    "rules": (
        ["story", "/rewinds", "/rule", "/ban you", "hello", "/rule", "/rule -1", "story", "/rule", "/show"],
        ["--ban", "testament to"],
    ),
    "commands": (
        ["/system", "/system terse", "/system", "who", "/set", "/set max_tokens 3", "/set", "count", "/back 2", "/retry",
         "/edit hello", "/show", "/undo", "/show", "/clear", "/show", "/help", "/help back"],
        ["-s", "1"],
    ),
    "draws": (["pick", "/retry", "/back 2", "pick", "/show"], ["--temp", "1", "-s", "5"]),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(retrace, name):
    lines, flags = GOLDEN[name]
    done = chat(retrace, *lines, flags=[*GREEDY, *flags])
    path = DATA / ("chat_%s.txt" % name)
    assert done.code == 0, done
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_bytes(done.raw)
    assert done.raw == path.read_bytes()


# ==== The real model ====


@pytest.mark.model
def test_a_real_conversation(retrace):
    flags = ["-m", MODEL, "-n", "20", "-s", "1", "--temp", "0.7"]
    lines = ["What is a cat?", "/stats", "And a dog?", "/stats", "/save c.json", "Which is larger?", "/save whole.json"]
    whole = chat(retrace, *lines, flags=flags)
    assert whole.code == 0, whole
    (p1, n1), (p2, n2) = [map(int, m) for m in re.findall(r"last answer: prompt (\d+) tokens, (\d+) of them new", whole.out)]
    answered = len(saved(retrace)["messages"][1]["tokens"])
    assert n1 == p1 and 0 < n2 <= p2 - p1 - answered + 1
    done = chat(retrace, "Which is larger?", "/save loaded.json", flags=["-m", MODEL, "--load", "c.json"])
    assert done.code == 0 and saved(retrace, "loaded.json") == saved(retrace, "whole.json")
