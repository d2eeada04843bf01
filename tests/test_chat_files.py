"""/save and /load of retrace chat: the file, and a conversation that goes on from it."""

import json
import re
import subprocess

import pytest

from chatting import GREEDY, TALK, chat, dialogue, saved, spell, text_of
from conftest import PROGRAM, environment
from test_chat_promises import HELLO, told
from test_cli import refused

def test_the_file(retrace):
    flags = [*GREEDY, "--system", "terse", "--ban", "testament to", "--temp", "0.7", "-n", "9"]
    chat(retrace, "hello", "/save c.json", flags=flags)
    file = saved(retrace)
    assert (file["retrace"], file["version"]) == ("chat", 1)
    assert file["model"].endswith("chat_talk.json") and re.fullmatch("[0-9a-f]{16}", file["vocab_hash"])
    s = file["settings"]
    assert (s["temp"], s["max_tokens"], s["rules"]) == (0.7, 9, [{"name": "phrases", "text": ["testament to"]}])
    assert "engine" not in s
    system, user, said = file["messages"]
    assert system == {"role": "system", "content": "terse"} and user == {"role": "user", "content": "hello"}
    assert set(said) == {"role", "content", "tokens", "finish"} and said["role"] == "assistant"
    assert text_of(said["tokens"]) == said["content"]


def test_settings_are_those_of_a_trace(retrace):
    flags = ["-m", TALK, "-s", "3", "--ban", "x", "--stop", "y", "--temp", "0.25", "-l", "3=1"]
    chat(retrace, "/save c.json", flags=flags)
    retrace("generate", "-p", "hello", "--chat", "--trace", "t.jsonl", *flags)
    start = json.loads((retrace.tmp / "t.jsonl").read_text().split("\n")[0])
    theirs = {k: v for k, v in start["settings"].items() if k not in ("engine", "logprobs", "chat", "resample", "system")}
    ours = {k: v for k, v in saved(retrace)["settings"].items() if k in theirs}
    assert ours == theirs


SCRIPTS = [
    (["hello", "split"], ["again", "hello"]),
    (["pick", "pick", "/retry"], ["pick", "/retry", "pick"]),
    (["story", "/set temp 0.5", "/ban there"], ["hello", "story", "pick"]),
    (["pick", "/system terse", "/rule regex:pattern=red"], ["pick", "who", "pick"]),
    (["/set seed 9", "hello", "/undo"], ["pick", "again"]),
]


@pytest.mark.parametrize("first, then", SCRIPTS)
@pytest.mark.parametrize("by", ["/load", "--load"])
def test_a_loaded_conversation_goes_on_as_it_would_have(retrace, first, then, by):
    flags = ["-m", TALK, "--temp", "1", "-s", "4", "--ban", "testament to"]
    whole = chat(retrace, *first, "/save c.json", *then, "/save whole.json", flags=flags)
    assert whole.code == 0, whole
    if by == "/load":
        done = chat(retrace, "/load c.json", *then, "/save loaded.json", flags=["-m", TALK, "-s", "1"])
    else:
        done = chat(retrace, *then, "/save loaded.json", flags=["-m", TALK, "--load", "c.json"])
    assert done.code == 0, done
    assert saved(retrace, "loaded.json") == saved(retrace, "whole.json")


def test_loaded_again_it_is_the_same_file(retrace):
    flags = ["-m", TALK, "--temp", "1", "-s", "4", "--ban", "testament to", "--system", "terse", "--rule", "regex:pattern=red"]
    chat(retrace, "pick", "story", "/save a.json", flags=flags)
    chat(retrace, "/load a.json", "/save b.json", flags=["-m", TALK])
    chat(retrace, "/save c.json", flags=["-m", TALK, "--load", "b.json"])
    assert saved(retrace, "a.json") == saved(retrace, "b.json") == saved(retrace, "c.json")


def test_tokens_count_when_the_vocabulary_is_the_model_s(retrace):
    """ " ab" was written as " a" and "b", and is tokenised as one."""
    chat(retrace, "split", "/save c.json")
    file = saved(retrace)
    assert file["messages"][1]["tokens"] == [*spell(" a"), *spell("b")] and spell(" ab") != spell(" a") + spell("b")
    assert chat(retrace, "again", flags=[*GREEDY, "--load", "c.json"]).out == " kept.\n"
    file["vocab_hash"] = "0123456789abcdef"
    (retrace.tmp / "other.json").write_text(json.dumps(file))
    assert chat(retrace, "again", flags=[*GREEDY, "--load", "other.json"]).out == " new.\n"
    del file["vocab_hash"]
    (retrace.tmp / "none.json").write_text(json.dumps(file))
    assert chat(retrace, "again", flags=[*GREEDY, "--load", "none.json"]).out == " new.\n"


def load(retrace, content, *lines, flags=GREEDY):
    text = content if isinstance(content, (str, bytes)) else json.dumps(content)
    (retrace.tmp / "l.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    return chat(retrace, "hello", "/save a.json", "/load l.json", "/save b.json", *lines, flags=flags)


def test_a_file_made_elsewhere(retrace):
    """Only messages need be there."""
    messages = [{"role": "system", "content": "terse"}, {"role": "user", "content": "hello"},
                {"role": "assistant", "content": HELLO}]  # fmt: skip
    done = load(retrace, {"messages": messages}, "again")
    assert done.code == 0 and done.out.endswith(" once more.\n")
    assert dialogue(saved(retrace, "b.json")) == [(m["role"], m["content"]) for m in messages]
    assert saved(retrace, "b.json")["settings"] == saved(retrace, "a.json")["settings"]


def said(**more):
    return {"role": "assistant", "content": HELLO, "tokens": spell(HELLO), "finish": "end", **more}


ASKED = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    "content, words",
    [
        ("", []),
        ("{", []),
        ("[]", []),
        ("{}", ["messages"]),
        (b"{\"messages\": \"\xff\"}", []),
        ({"messages": {}}, ["messages"]),
        ({"messages": [1]}, ["messages"]),
        ({"messages": [{"role": "user"}]}, ["content"]),
        ({"messages": [{"content": "hello"}]}, ["role"]),
        ({"messages": [{"role": "tool", "content": "x"}]}, ["tool"]),
        ({"messages": [{"role": "user", "content": ["x"]}]}, ["content"]),
        ({"messages": [{"role": "user", "content": "x", "name": "n"}]}, ["name"]),
        ({"messages": [ASKED], "more": 1}, ["more"]),
        ({"messages": [ASKED], "version": 2}, ["version", "2"]),
        ({"messages": [ASKED], "retrace": "trace"}, ["trace"]),
        ({"messages": [ASKED], "settings": {"temp": "hot"}}, ["temp"]),
        ({"messages": [ASKED], "settings": {"temp": -1}}, ["temp"]),
        ({"messages": [ASKED], "settings": {"nothing": 1}}, ["nothing"]),
        ({"messages": [ASKED], "settings": {"rules": [{"name": "nothing"}]}}, ["nothing"]),
        ({"messages": [ASKED], "settings": {"rules": {}}}, ["rules"]),
        ({"messages": [ASKED], "settings": []}, ["settings"]),
        ({"messages": [ASKED, said(finish="never")]}, ["never"]),
        ({"messages": [ASKED, said(tokens="x")]}, ["tokens"]),
        ({"messages": [ASKED, said(tokens=[-1])], "vocab_hash": "OURS"}, ["token"]),
        ({"messages": [ASKED, said(tokens=[100000])], "vocab_hash": "OURS"}, ["token"]),
        ({"messages": [ASKED, said(tokens=[1])], "vocab_hash": "OURS"}, ["token"]),
        ({"messages": [ASKED, said(tokens=spell("bye"))], "vocab_hash": "OURS"}, ["token"]),
        ({"messages": [ASKED], "vocab_hash": 5}, ["vocab_hash"]),
        ({"messages": [{"role": "system", "content": "a"}, ASKED, {"role": "system", "content": "b"}]}, ["system"]),
    ],
)
def test_files_that_are_refused(retrace, content, words):
    if isinstance(content, dict) and content.get("vocab_hash") == "OURS":
        chat(retrace, "/save c.json")
        content["vocab_hash"] = saved(retrace)["vocab_hash"]
    done = load(retrace, content)
    told(done, "l.json", *words)
    assert saved(retrace, "a.json") == saved(retrace, "b.json")
    refused(chat(retrace, "hello", flags=[*GREEDY, "--load", "l.json"]), 2, "l.json", *words)


def test_saving_replaces_the_file_as_a_whole(retrace):
    path = retrace.tmp / "c.json"
    path.write_text("x" * 100000)
    path.chmod(0o640)
    assert chat(retrace, "hello", "/save c.json").code == 0
    assert len(dialogue(saved(retrace))) == 2
    assert [p.name for p in retrace.tmp.iterdir() if p.name.startswith("c.json")] == ["c.json"]


def test_saving_that_fails_leaves_the_file(retrace):
    """A file that may not grow: the old one stays, and nothing is left beside it."""
    path = retrace.tmp / "c.json"
    path.write_text("old")
    before = sorted(p.name for p in retrace.tmp.iterdir())
    shell = 'trap "" XFSZ; ulimit -f 0; exec "$@"'
    done = subprocess.run(
        ["bash", "-c", shell, "-", PROGRAM, "chat", *map(str, GREEDY)], input=b"hello\n/save c.json\n",
        capture_output=True, cwd=retrace.tmp, env=environment(retrace.tmp, {}), timeout=60,
    )  # fmt: skip
    assert done.returncode == 2 and b"c.json" in done.stderr, done
    assert path.read_text() == "old" and sorted(p.name for p in retrace.tmp.iterdir()) == before


def test_a_name_with_blanks(retrace):
    assert chat(retrace, "hello", "/save a b.json", "/load a b.json").code == 0
    assert len(dialogue(saved(retrace, "a b.json"))) == 2
