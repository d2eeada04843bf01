"""What a person types to `retrace chat`, or a pipe brings: chat/line.c, edit.c, history.c, tty.c.

tests/drive_chat.c reads lines and tells of each; pyte keeps the screen.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from conftest import ROOT, environment
from screens import SHELL, Screen

DRIVE = pathlib.Path(os.environ.get("RETRACE_BUILD", ROOT / "build")) / "asan" / "tests" / "drive_chat"
UP, DOWN, LEFT, HOME = "\033[A", "\033[B", "\033[D", "\033[H"
ENTER, ALT_ENTER, TAB = "\r", "\033\r", "\t"
PASTE, PASTED = "\033[200~", "\033[201~"


@pytest.fixture
def chat(tmp_path):
    """chat(*args) plays the driver on a terminal; the prompt stands."""
    running = []

    def start(*args, env=None, what="line", wait=True, through=(), **how):
        running.append(Screen([*through, DRIVE, what, *args], tmp_path, environment(tmp_path, env or {}), **how))
        return running[-1].until(">") if wait else running[-1]

    start.tmp = tmp_path
    start.history = tmp_path / "state" / "retrace" / "history"
    yield start
    for s in running:
        s.close()


def told(s):
    """What the driver told, in order."""
    out = []
    for line in re.sub(rb"\033\[[?\d;]*[A-Za-z]|\r", b"", s.raw).decode("utf-8", "replace").split("\n"):
        if line.startswith("got "):
            out.append(json.loads(line[4:]))
        elif line.startswith(("long ", "<")):
            out.append(line.strip("<>"))
    return out


def got(s, text):
    return s.until(lambda s: text in told(s))


def finish(s):
    assert s.type("\004").end() == 0
    return told(s)


# ==== Lines ====


def test_a_line(chat):
    s = chat()
    assert s.rows()[0] == ">"
    got(s.type("hello", ENTER), "hello")
    assert finish(s) == ["hello", "end"]
    assert "0.5" in s.text()


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX"])
def test_utf8_in_every_locale(chat, locale):
    s = chat(env={"LC_ALL": locale})
    s.type("größe 漢字x", LEFT, "!").until("> größe 漢字!x")
    got(s.type(ENTER), "größe 漢字!x")
    assert finish(s) == ["größe 漢字!x", "end"]


def test_bytes_that_are_no_text(chat):
    s = chat()
    got(s.type(b"a\xffb", ENTER), "a\ufffdb")
    finish(s)


def test_editing(chat):
    s = chat()
    s.type("one three", "\033[1;5D", "two ").until("> one two three")
    s.type("\001", "zero ").until("> zero one two three")
    s.type("\005", "\027").until(lambda s: s.rows()[0] == "> zero one two")
    got(s.type("\177", ENTER), "zero one two")
    finish(s)


def test_a_line_longer_than_the_window(chat):
    s = chat(columns=20, rows=6)
    text = "".join(chr(97 + i % 26) for i in range(70))
    s.type(text).until(lambda s: "".join(s.rows()).endswith(text))  # its last letters stand in the first row, too
    assert "".join(s.rows()).startswith("> " + text)
    got(s.type(HOME, "X", ENTER), "X" + text)
    finish(s)


def test_preset(chat):
    s = chat("what was said").until("> what was said")
    got(s.type(" before", ENTER), "what was said before")
    assert finish(s)[0] == "what was said before"


def test_preset_of_many_lines(chat):
    s = chat("one\ntwo").until("two")
    assert s.rows()[:2] == ["> one", "two"]
    got(s.type("!", ENTER), "one\ntwo!")
    finish(s)


# ==== Messages of many lines ====


def test_alt_enter(chat):
    s = chat().type("one", ALT_ENTER, "two", ALT_ENTER, "three").until("three")
    assert s.rows()[:3] == ["> one", "two", "three"]
    s.type(UP, UP, "X").until("> oneX")
    s.type(DOWN, "Y").until("twoY")
    s.type("\177\177").until(lambda s: s.rows()[:3] == ["> oneX", "tw", "three"])
    got(s.type(ENTER), "oneX\ntw\nthree")
    assert finish(s) == ["oneX\ntw\nthree", "end"]


def test_a_backslash_at_the_end(chat):
    s = chat().type("one\\", ENTER).until("\n.")
    assert s.rows()[:2] == ["> one\\", "."]
    got(s.type("two\\", ENTER, "three", ENTER), "one\ntwo\nthree")
    finish(s)


def test_a_fence(chat):
    s = chat().type('"""', ENTER, "/quit", ENTER, "", ENTER, " a\\", ENTER, '"""', ENTER)
    got(s, "//quit\n\n a\\")
    assert finish(s) == ["//quit\n\n a\\", "end"]


def test_a_paste(chat):
    s = chat().type(PASTE + "one\rtwo\r\n/quit\rend\r" + PASTED).until("end")
    s.settle()
    assert told(s) == []
    got(s.type(ENTER), "one\ntwo\n/quit\nend")
    finish(s)


def test_a_paste_holds_no_keys(chat):
    s = chat().type(PASTE + "a\003b\004\033[A\t" + PASTED).settle()
    got(s.type("c", ENTER), "ab[A\tc")
    finish(s)


@pytest.mark.parametrize("n, what", [(1 << 18, "long 262144"), (1 << 20, "long 1048576")])
def test_a_huge_paste(chat, n, what):
    s = chat().type(PASTE + "x" * n + PASTED)
    got(s.type(ENTER), what)
    finish(s)


def test_a_paste_that_is_too_long(chat):
    s = chat().type("a", PASTE + "x" * ((1 << 20) + 5000) + PASTED).until("longer than 1 MiB")
    got(s.type("b", ENTER), "ab")
    finish(s)


# ==== Ctrl-C, Ctrl-D, Ctrl-Z ====


def test_ctrl_c_throws_away(chat):
    s = chat().type("half", "\003").until("<thrown>")
    got(s.type("whole", ENTER), "whole")
    s.type('"""', ENTER, "x", ENTER, "\003").until(lambda s: told(s).count("thrown") == 2)
    s.type("\003").until(lambda s: told(s).count("thrown") == 3)
    assert finish(s) == ["thrown", "whole", "thrown", "thrown", "end"]


def test_ctrl_c_by_a_signal(chat):
    s = chat().type("half").until("half").signal(signal.SIGINT)
    s.until("<thrown>")
    assert finish(s) == ["thrown", "end"]


def test_ctrl_d_on_a_line_deletes(chat):
    s = chat().type("abc", LEFT, LEFT, "\004").until(lambda s: s.rows()[0] == "> ac")
    got(s.type(ENTER), "ac")
    finish(s)


def test_hang_up_ends(chat):
    s = chat().type("x")
    os.close(s.slave)
    os.close(s.master)
    s.slave = s.master = None
    assert s.process.wait(10) in (0, -signal.SIGHUP)


def test_stop_and_continue(chat):
    s = chat(through=(sys.executable, "-c", SHELL))
    for i in range(2):
        s.type("ab").until("ab" * (i + 1)).type("\032").until(lambda s: s.text().count("stopped restored") == i + 1)
        s.settle()
        assert s.raw.rfind(b"\033[?2004l") > s.raw.rfind(b"\033[?2004h")
        s.type("\n").until(lambda s: s.raw.count(b"\033[?2004h") == i + 2).settle()
        assert s.raw.rfind(b"\033[?2004h") > s.raw.rfind(b"\033[?2004l")
        assert s.rows()[s.cursor()[0]] == "> " + "ab" * (i + 1)
    got(s.type(" after", ENTER), "abab after")
    finish(s)


# ==== What is found is put back ====


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_ended_by_a_signal(chat, number):
    s = chat().type("x").until("x").signal(number)
    assert s.end() == -number


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL])
def test_a_crash(chat, number):
    s = chat(str(int(number)), what="crash", env={"ASAN_OPTIONS": "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:"
                                                  "handle_sigill=0:handle_abort=0"})
    assert s.type("x", ENTER).end() == -number


def test_exit_from_within(chat):
    assert chat("exit", what="crash").type(ENTER).end() == 7


# ==== While the program is busy ====


def test_nothing_is_echoed_meanwhile_and_nothing_is_lost(chat):
    s = chat()
    got(s.type("busy", ENTER), "busy")
    s.type("ahead").settle(0.3)
    assert "ahead" not in s.text()
    s.until("idle").until("> ahead")
    got(s.type("!", ENTER), "ahead!")
    finish(s)


def test_ctrl_c_while_busy_is_counted(chat):
    s = chat()
    got(s.type("busy", ENTER), "busy")
    s.type("\003").settle(0.2)
    s.type("\003")
    assert s.end() == 130


# ==== Another window ====


@pytest.mark.parametrize("rows, columns", [(24, 30), (24, 120), (5, 18), (3, 80)])
def test_resize(chat, rows, columns):
    s = chat(columns=60)
    text = "a line of some words that is longer than one row of the window"
    s.type(text).until("ndow").settle()
    s.resize(rows, columns).settle(0.3)
    s.type("!").until("!")
    shown = "".join(row.ljust(columns) for row in s.all_rows())
    assert " ".join(("> " + text + "!").split()) in " ".join(shown.split()) or rows < 5
    got(s.type(ENTER), text + "!")
    finish(s)


# ==== Completion ====


def test_tab(chat):
    s = chat().type("/h", TAB).until("> /help")
    got(s.type("x", ENTER), "/help x")
    s.type("/re", TAB).settle()
    s.until("/retry").until("/rewinds")
    s.type("t", TAB).until("> /retry")
    got(s.type(ENTER), "/retry ")
    s.type("/g", TAB).until("> /größe")
    got(s.type(ENTER), "/größe ")
    got(s.type("/zzz", TAB, ENTER), "/zzz")
    finish(s)


# ==== History ====


def test_history_goes_on(chat):
    s = chat()
    got(s.type("one", ENTER), "one")
    got(s.type("two", ALT_ENTER, "zw\\ei", ENTER), "two\nzw\\ei")
    got(s.type(" hidden", ENTER), " hidden")
    got(s.type("three", ENTER, "three", ENTER), "three")
    finish(s)
    assert chat.history.read_text() == "one\ntwo\\nzw\\\\ei\nthree\n"
    assert chat.history.stat().st_mode & 0o777 == 0o600
    assert chat.history.parent.stat().st_mode & 0o777 == 0o700
    s = chat().type(UP).until("> three")
    s.type(UP).until("zw\\ei")
    got(s.type(ENTER), "two\nzw\\ei")
    s.type("\022", "on").until("one")
    got(s.type(ENTER), "one")
    finish(s)


def test_a_thousand_lines(chat):
    chat.history.parent.mkdir(parents=True)
    chat.history.write_text("".join("line %d\n" % i for i in range(1500)))
    s = chat()
    got(s.type(UP, ENTER), "line 1499")
    got(s.type("new", ENTER), "new")
    finish(s)
    lines = chat.history.read_text().splitlines()
    assert len(lines) == 1000 and lines[-1] == "new" and lines[0] == "line 502"
    assert [p.name for p in chat.history.parent.iterdir()] == ["history"]


@pytest.mark.parametrize("damage", [b"\xff\xfe\x00\n\\\n\nok", b"\x00" * 5000 + b"\nok\n", b"x" * 300000 + b"\nok\n"])
def test_a_damaged_history(chat, damage):
    chat.history.parent.mkdir(parents=True)
    chat.history.write_bytes(damage)
    s = chat().type(UP).until("> ok")
    got(s.type("!", ENTER), "ok!")
    assert finish(s) == ["ok!", "end"]
    assert chat.history.read_bytes().endswith(b"ok\nok!\n")


@pytest.mark.parametrize("obstacle", ["folder", "fifo", "file instead of a folder"])
def test_no_history_to_be_had(chat, obstacle):
    if obstacle == "file instead of a folder":
        (chat.tmp / "state").write_text("")
    else:
        chat.history.parent.mkdir(parents=True)
        chat.history.mkdir() if obstacle == "folder" else os.mkfifo(chat.history)
    s = chat()
    got(s.type("one", ENTER), "one")
    got(s.type(UP, ENTER), "one")
    finish(s)


def test_no_history_wanted(chat):
    s = chat(env={"NO_HISTORY": "1"})
    got(s.type("one", ENTER), "one")
    finish(s)
    assert not chat.history.exists()


def test_home_without_xdg(chat):
    s = chat(env={"XDG_STATE_HOME": "", "HOME": str(chat.tmp / "home")})
    got(s.type("one", ENTER), "one")
    finish(s)
    assert (chat.tmp / "home/.local/state/retrace/history").read_text() == "one\n"


def test_chats_beside_each_other(chat):
    chat.history.parent.mkdir(parents=True)
    chat.history.write_text("".join("old %d\n" % i for i in range(995)))
    both = [chat(), chat()]
    for i in range(20):
        for k, s in enumerate(both):
            s.type("chat %d line %d" % (k, i), ENTER)
    for s in both:
        finish(s)
    lines = chat.history.read_text().splitlines()
    assert len(lines) == 1000
    for k in range(2):
        assert [line for line in lines if line.startswith("chat %d" % k)] == [
            "chat %d line %d" % (k, i) for i in range(20)]


def test_the_users_editrc_is_not_read(chat):
    home = chat.tmp / "home"
    home.mkdir()
    for where in (home, chat.tmp):
        (where / ".editrc").write_text("bind -v\nbind a ed-kill-line\n")
    s = chat(env={"HOME": str(home)})
    got(s.type("banana", ENTER), "banana")
    finish(s)


# ==== No terminal ====


def piped(tmp_path, data, env=None):
    done = subprocess.run([DRIVE, "line"], input=data, capture_output=True, cwd=tmp_path, timeout=60,
                          env=environment(tmp_path, env or {}))
    out = done.stdout.decode().splitlines()
    assert done.returncode == 0 and out.pop() == "0.5" and out.pop() == "<end>"
    return [json.loads(line[4:]) if line.startswith("got ") else line.strip("<>") for line in out], done.stderr.decode()


@pytest.mark.parametrize("data, lines", [
    (b"", []),
    (b"one\ntwo", ["one", "two"]),
    (b"one\r\n\r\ntwo\r\n", ["one", "", "two"]),
    (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", ["one", "\ufefftwo"]),
    (b"a\\\nb\\\r\nc\nd\\", ["a\nb\nc", "d"]),
    (b'"""\na\n\nb\\\n"""\nc\n', ["a\n\nb\\", "c"]),
    (b'"""  \r\n/quit\r\n"""\r\n', ["//quit"]),
    (b'""""\n', ['""""']),
    (b"x" * (1 << 20) + b"\ny\n", ["long 1048576", "y"]),
])
def test_pipe(tmp_path, data, lines):
    assert piped(tmp_path, data) == (lines, "")


@pytest.mark.parametrize("data, lines, where", [
    (b"one\n\xff\ntwo\n", ["one", "broken", "two"], "line 2: not UTF-8"),
    (b"one\n\xe6\xbc", ["one", "broken"], "line 2: not UTF-8"),
    (b"a\0b\nc\n", ["broken", "c"], "line 1: has a NUL"),
    (b"x" * ((1 << 20) + 1) + b"\ny\n", ["broken", "y"], "line 1: longer than 1 MiB"),
    (b'a\n"""\nb\n', ["a", "broken"], "line 2: "),
    (b'"""\nb\xff\n"""\nc\n', ["broken", "c"], "line 2: not UTF-8"),
    (b"a\\\n\xff\\\nb\nc\n", ["broken", "c"], "line 2: not UTF-8"),
    ((b"x" * (1 << 19) + b"\\\n") * 3 + b"\ny\n", ["broken", "y"], "line 4: "),
])
def test_pipe_refused(tmp_path, data, lines, where):
    out, err = piped(tmp_path, data)
    assert out == lines
    assert err.count("\n") == 1 and "standard input, " + where in err


def test_pipe_keeps_no_history(tmp_path):
    piped(tmp_path, b"one\n")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("how", ["dumb", "output elsewhere"])
def test_a_terminal_without_editing(chat, how):
    out = open(chat.tmp / "out", "w+b")
    if how == "dumb":
        s = chat(env={"TERM": "dumb"})
    else:
        s = chat(stdout=out)
    s.type("hello", ENTER).until("hello").settle(0.5)
    s.type("half", "\003").settle()
    s.type("wörld\\", ENTER, "!", ENTER).settle()
    assert s.type("\004").end() == 0
    assert b"\033" not in s.raw
    seen = s.raw.replace(b"\r", b"") if how == "dumb" else (chat.tmp / "out").read_bytes()
    for wanted in (b'got "hello"', b"<thrown>", b'got "w\\u00F6rld\\n!"', b"<end>"):
        assert wanted in seen
    assert b"> " in s.raw and b". " in s.raw
