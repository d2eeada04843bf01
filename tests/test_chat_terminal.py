"""retrace chat at a terminal: what a person sees at each step, and the terminal afterwards.

The program runs on a pseudo-terminal of its own; pyte, a terminal emulator, keeps the paper that a
person would see (chatting.Person).
"""

import os
import re
import signal
import stat
import time

import pytest

from chatting import (
    ALT_ENTER, BACK, CTRL_C, CTRL_D, CTRL_R, CTRL_U, CTRL_Z, DOWN, ENTER, GREEDY, MARK, TAB, TALK, UP, Person, answer,
    dialogue, model, saved,
)  # fmt: skip

HELLO, COUNT = " hi there.", answer("count")
PASTE = b"\033[200~%s\033[201~"


@pytest.fixture
def person(retrace):
    """person(*flags) sits down; the model is at temperature 0 unless told otherwise."""
    sitting = []

    def sit(*args, flags=GREEDY, **how):
        sitting.append(Person(retrace.tmp, *flags, *args, **how))
        return sitting[-1]

    yield sit
    for p in sitting:
        p.stop()


def said(p, line):
    """What stands below a line that was sent, without empty rows."""
    rows = p.say(line)
    at = max(i for i, row in enumerate(rows) if row.endswith(line))
    return [row for row in rows[at + 1 :] if row]


# ==== A conversation ====


def test_ten_turns(retrace, person):
    model(retrace.tmp, "endless.json", n_ctx=1000000000)
    p = person("-n", "-1", "--ban", "testament to", "--ban", "仮名", flags=["-m", "endless.json", "--temp", "0"], columns=40)
    p.ready()
    assert said(p, "hello") == [HELLO]  # 1
    assert said(p, "story") == [" a%s sign of hope." % MARK]  # 2
    assert said(p, "again") == [" once more."]  # 3
    assert said(p, "count") == [COUNT[:40], COUNT[40:]]  # 4
    p.say("/undo")
    assert said(p, "again") == [" once more."]
    assert said(p, "wide") == ["漢字%s👍é." % MARK]  # 5
    assert said(p, "count") == [COUNT[:40], COUNT[40:]]  # 6
    assert said(p, "/retry") == [COUNT[:40], COUNT[40:]]
    assert said(p, "/back 3") == [COUNT[:40], COUNT[40:]]
    p.type("loop").until("> loop").type(ENTER).until(" x x x x")  # 7
    p.type(CTRL_C).ready()
    assert said(p, "hello") == [HELLO]  # 8
    p.resize(12, 60).screen.reset()  # pyte does not lay lines out anew, so nothing above counts
    p.type(ENTER).ready()
    assert said(p, "count") == [COUNT[:60], COUNT[60:]] if len(COUNT) > 60 else [COUNT]  # 9
    p.resize(30, 20).screen.reset()
    p.type(ENTER).ready()
    assert said(p, "lines") == [" first", " second."]  # 10
    p.say("/save c.json")
    users = [c for r, c in dialogue(saved(retrace)) if r == "user"]
    assert users == ["hello", "story", "again", "again", "wide", "count", "loop", "hello", "count", "lines"]
    stopped = saved(retrace)["messages"][13]
    assert stopped["finish"] == "cancelled" and re.fullmatch("( x)+", stopped["content"])
    assert p.type("/quit", ENTER).end() == 0


def test_the_answer_begins_on_a_line_of_its_own(person):
    p = person().ready()
    p.say("hello")
    rows = [row for row in p.paper() if row]
    assert rows[rows.index("> hello") + 1] == HELLO and rows[-1].rstrip() == ">"
    assert p.type(CTRL_D).end() == 0


def test_no_second_answer_is_drawn_over_the_first(person):
    p = person(rows=6, columns=30).ready()
    for i in range(8):
        p.say("count")
    rows = [row for row in p.paper() if row]
    at = [i for i, row in enumerate(rows) if row == "> count"]
    assert len(at) == 8
    for i in at:
        assert "".join(row.ljust(30) if len(row) < 30 else row for row in rows[i + 1 : i + 4]).rstrip().replace("  ", " ") == COUNT
    assert p.type(CTRL_D).end() == 0


def test_a_greeting(person):
    p = person("--ban", "testament to").ready()
    rows = [row for row in p.paper() if row]
    assert len(rows) == 4 and "chat_talk.json" in rows[0] and "context of" in rows[0], rows
    assert "/help lists the commands" in rows[1] and MARK in rows[2]
    assert p.type(CTRL_D).end() == 0
    p = person().ready()
    assert MARK not in p.text() and len([row for row in p.paper() if row]) == 3
    assert p.type(CTRL_D).end() == 0
    for flags in (["-q"], ["--ban", "x", "--quiet-rewinds"]):
        p = person(*flags).ready()
        assert MARK not in p.text() and ("/help" in p.text()) == (flags[0] != "-q")
        assert p.type(CTRL_D).end() == 0


def test_what_was_done_is_told_in_a_dim_line(retrace, person):
    p = person().ready()
    p.say("hello")
    for line, words in [
        ("/set temp 0", "temp is 0"), ("/ban testament to", "testament to"), ("/rule -1", "rules"), ("/system terse", "system message"),
        ("/system -", "no system message"), ("/save c.json", "c.json"), ("/undo", "taken back"), ("/load c.json", "messages: 2"),
        ("/clear", "new conversation"),
    ]:  # fmt: skip
        rows = said(p, line)
        assert len(rows) == 1 and words in rows[0], (line, rows)
        assert rows[0] in p.cells("blink"), line
    assert p.type(CTRL_D).end() == 0


# ==== What is taken back ====


def drawn(p):
    """The raw output since the last message was sent."""
    return p.raw[p.raw.rindex(b"story") :].decode()


def test_erased_text_is_struck_out_where_it_stood_and_then_folded(person):
    p = person("--ban", "testament to").ready()
    p.type("story", ENTER).until(lambda p: " testament to" in p.cells("strikethrough"))
    row = next(r for r in p.rows() if "testament" in r)
    assert row.startswith(" a testament to")
    p.ready()
    assert " a%s sign of hope." % MARK in p.rows() and "testament" not in p.text()
    assert p.cells("blink").strip().endswith("why" + MARK) and not p.cells("strikethrough").strip()
    assert p.type(CTRL_D).end() == 0


def test_text_that_may_be_taken_back_is_dim(retrace, person):
    """The words may be the beginning of a banned phrase, and there is no other way on."""
    model(retrace.tmp, "endless.json", n_ctx=1000000000)
    p = person("-n", "-1", "--ban", " x" * 30 + " y", flags=["-m", "endless.json", "--temp", "0"]).ready()
    p.type("loop", ENTER).until(lambda p: " x x x" in p.cells("blink"))
    p.type(CTRL_C).ready()
    assert " x" not in p.cells("blink")  # what may still be taken back is gone
    shown = "".join(row.ljust(80) for row in p.paper()).split("> loop")[1].split(">")[0].replace("stopped", "")
    p.say("/save c.json")
    assert shown.split() == "".join(m["content"] for m in saved(retrace)["messages"][1:]).split()
    assert p.type(CTRL_D).end() == 0


def test_quiet_rewinds(person):
    p = person("--ban", "testament to", "--quiet-rewinds").ready()
    assert said(p, "story") == [" a sign of hope."]
    assert MARK.encode() not in p.raw and b"testament" not in p.raw.split(b"story")[-1]
    assert p.type(CTRL_D).end() == 0


def test_no_color(person):
    p = person("--ban", "testament to", env={"NO_COLOR": "1"}).ready()
    p.type("story", ENTER).until("[- testament to-]")
    p.ready()
    assert " a%s sign of hope." % MARK in p.rows() and "testament" not in p.text()
    assert not re.search(rb"\033\[[0-9;]*[1-9][0-9;]*m", p.raw)
    assert p.type(CTRL_D).end() == 0


def test_a_dumb_terminal(person):
    p = person("--ban", "testament to", env={"TERM": "dumb"})
    p.until(">").type("story\n").until(" a sign of hope.")
    p.type("hello\n").until(HELLO).type("/quit\n")
    assert p.end() == 0
    assert b"\033" not in p.raw and MARK.encode() not in p.raw and b"testament" not in p.raw


@pytest.mark.parametrize("rows, columns", [(24, 3), (2, 40), (1, 1), (3, 5)])
def test_a_tiny_window(person, rows, columns):
    p = person("--ban", "testament to", rows=rows, columns=columns)
    p.type("story\r").until(lambda p: re.search(r"hope", re.sub(r"[\s\b\x1b]|\[[0-9;?]*[A-Za-z]", "", p.raw.decode("utf-8", "replace"))))
    p.type(b"\r/quit\r")
    assert p.end() == 0


def test_output_that_is_no_terminal(retrace, person):
    with open(retrace.tmp / "out", "wb") as out:
        p = person("--ban", "testament to", stdout=out)
        p.type("story\n/quit\n")
        assert p.end() == 0
    assert (retrace.tmp / "out").read_bytes() == b" a sign of hope.\n"


def test_the_end_typed_beforehand_where_lines_are_not_edited(retrace, person):
    with open(retrace.tmp / "out", "wb") as out:
        p = person(stdout=out)
        p.type("hello\n", CTRL_D)
        assert p.end() == 0
    assert (retrace.tmp / "out").read_bytes() == HELLO.encode() + b"\n"


def test_verbose(person):
    p = person("--ban", "testament to", "-v").ready()
    rows = said(p, "story")
    assert rows[0] == " a%s sign of hope." % MARK
    assert any("testament to" in row and "phrases" in row for row in rows[1:])
    assert p.type(CTRL_D).end() == 0


def test_a_model_does_not_drive_the_terminal(person):
    p = person().ready()
    assert said(p, "esc") == ["\\x1b[31mred\\x07."]
    assert said(p, "/show")[-1].endswith("\\x1b[31mred\\x07.")
    assert p.type(CTRL_D).end() == 0


def test_settled_text_never_moves(person):
    """Each picture of the answer keeps what the one before it showed as settled."""
    p = person("--ban", "testament to", columns=12).ready()
    p.type("story", ENTER)
    seen, end = "", time.monotonic() + 20
    while not (p.at_prompt() and "hope." in p.text()) and time.monotonic() < end:
        p.read(0.01)
        s = p.screen
        y = next((y for y in range(s.lines) if p.line(s.buffer[y]) == "> story"), None)
        if y is None:
            continue
        now = ""
        for row in range(y + 1, s.lines):
            for x in range(s.columns):
                c = s.buffer[row][x]
                if c.blink or c.strikethrough or c.data == MARK:
                    break
                now += c.data
            else:
                continue
            break
        now = now.rstrip()
        assert now.startswith(seen.rstrip(" >")) or seen.startswith(now), (seen, now)
        seen = now if len(now) > len(seen) else seen
    assert p.type(CTRL_D).end() == 0


def test_a_narrow_window_and_wide_characters(person):
    for columns in (20, 7, 6, 5):
        p = person("--ban", "仮名", columns=columns).ready()
        p.type("wide", ENTER).until(lambda p: "é." in p.text().replace("\n", "")).ready()
        text = "".join(p.paper())
        assert "漢字%s👍é." % MARK in text, (columns, p.paper())
        assert p.type(CTRL_D).end() == 0


# ==== Keys ====


def users(retrace, p):
    p.say("/save k.json")
    return [c for r, c in dialogue(saved(retrace, "k.json")) if r == "user"]


@pytest.mark.parametrize(
    "keys, message",
    [
        ([b"a", ALT_ENTER, b"b"], "a\nb"),
        ([b"a\\", ENTER, b"b"], "a\nb"),
        ([b"a\\", ENTER, b"b\\", ENTER, b"c"], "a\nb\nc"),
        ([b'"""', ENTER, b"a", ENTER, ENTER, b"b", ENTER, b'"""'], "a\n\nb"),
        ([PASTE % b"a\rb"], "a\nb"),
        ([PASTE % b"a\r\nb\nc"], "a\nb\nc"),
        ([b"x", PASTE % b"a\rb", b"y"], "xa\nby"),
        ([b"ab", BACK, b"c"], "ac"),
        ([b"abc", b"\033[D\033[D", b"X"], "aXbc"),
        ([b"abc", b"\x01", b"X", b"\x05", b"Y"], "XabcY"),
        ([b"zz", CTRL_U, b"abc"], "abc"),
        (["é漢".encode(), BACK, b"x"], "éx"),
        ([b"//undo"], "/undo"),
        ([b"quit it"], "quit it"),
    ],
)
def test_typing(retrace, person, keys, message):
    p = person().ready()
    for key in keys:
        p.type(key)
        time.sleep(0.02)
    p.type(ENTER).until(" well.").ready()
    assert users(retrace, p) == [message]
    assert p.type(CTRL_D).end() == 0


def test_a_paste_is_not_sent_by_itself(retrace, person):
    p = person().ready()
    p.type(PASTE % b"hello\r/quit\r").until("/quit")
    time.sleep(0.3)
    p.read(0)
    assert p.process.poll() is None and HELLO not in p.text()
    p.type(ENTER).until(" well.").ready()
    assert users(retrace, p)[0].startswith("hello\n/quit")
    assert p.type(CTRL_D).end() == 0


def test_up_and_down(person):
    p = person().ready()
    p.say("hello")
    p.say("count")
    p.type(UP).until(lambda p: p.rows()[p.screen.cursor.y] == "> count")
    p.type(UP).until(lambda p: p.rows()[p.screen.cursor.y] == "> hello")
    p.type(DOWN).until(lambda p: p.rows()[p.screen.cursor.y] == "> count")
    p.type(CTRL_U).ready()
    p.type(CTRL_R, b"hel").until("hello")
    p.type(ENTER).until(lambda p: p.text().count(HELLO) == 2).ready()
    assert p.type(CTRL_D).end() == 0


def test_edit_puts_the_message_into_the_line(retrace, person):
    p = person().ready()
    p.say("helo")
    p.type("/edit", ENTER).until(lambda p: p.rows()[p.screen.cursor.y] == "> helo")
    p.type(BACK, b"lo", ENTER).until(HELLO).ready()
    assert users(retrace, p) == ["hello"]
    p.type("/edit", ENTER).until(lambda p: p.rows()[p.screen.cursor.y] == "> hello")
    p.type(CTRL_C).ready()
    assert users(retrace, p) == ["hello"]
    assert p.type(CTRL_D).end() == 0


@pytest.mark.parametrize(
    "typed, line",
    [("/ret", "> /retry"), ("/sho", "> /show"), ("/rule phr", "> /rule phrases"), ("/set max_t", "> /set max_tokens"),
     ("/set min", "> /set min_p"), ("/he", "> /help")],
)  # fmt: skip
def test_tab(person, typed, line):
    p = person().ready()
    p.type(typed, TAB).until(lambda p: p.rows()[p.screen.cursor.y].startswith(line))
    p.type(CTRL_U).ready()
    assert p.type(CTRL_D).end() == 0


def test_tab_among_several(person):
    p = person().ready()
    p.type("/s", TAB, TAB).until(lambda p: all(n in p.text() for n in ("/save", "/set", "/show", "/stats", "/system")))
    p.until(lambda p: p.rows()[p.screen.cursor.y] == "> /s").type(CTRL_U).ready()
    assert p.type(CTRL_D).end() == 0


# ==== Ctrl-C, Ctrl-D ====


@pytest.fixture
def endless(retrace, person):
    def start(*args, **how):
        model(retrace.tmp, "endless.json", n_ctx=1000000000)
        return person("-n", "-1", *args, flags=["-m", "endless.json", "--temp", "0"], **how).ready()

    return start


def test_control_c_stops_the_answer_and_keeps_the_chat(retrace, endless):
    p = endless()
    for _ in range(3):
        p.type("loop", ENTER).until(" x x x").type(CTRL_C).ready()
        p.screen.reset()
        p.type(ENTER).ready()
    p.say("/save c.json")
    messages = saved(retrace)["messages"]
    assert [m.get("finish") for m in messages] == [None, "cancelled"] * 3
    assert p.type("/quit", ENTER).end() == 0


def test_control_c_loses_nothing_that_was_shown(endless):
    """However much the terminal has not shown yet: what is drawn anew finds its place."""
    p = endless("--ban", " x" * 30 + " y")
    p.type("loop", ENTER).until(" x x x").until_full()
    p.type(CTRL_C).ready()
    rows = p.paper()
    at = rows.index("> loop")
    assert rows[at - 1].startswith("⟲ stands") and rows[-2:] == ["stopped", ">"], rows[:at]
    assert all(re.fullmatch("( x)+", row) for row in rows[at + 1 : -2])
    assert p.type("/quit", ENTER).end() == 0


def test_control_c_at_the_prompt_throws_the_line_away(retrace, person):
    p = person().ready()
    p.type("hello").until("> hello").type(CTRL_C).ready()
    p.type("count", ENTER).until(COUNT).ready()
    assert HELLO not in p.text() and users(retrace, p) == ["count"]
    p.type(CTRL_C).ready()
    p.type(b'"""', ENTER, b"hello", ENTER, CTRL_C).ready()
    assert users(retrace, p) == ["count"]
    assert p.type(CTRL_D).end() == 0


def test_control_c_twice_in_one_answer(endless):
    """The terminal takes no more, so the answer cannot end by itself."""
    p = endless()
    p.type("loop", ENTER).until(" x x x").until_full()
    for _ in range(2):
        os.kill(p.process.pid, signal.SIGINT)
        time.sleep(0.2)
    assert p.end() == 130


@pytest.mark.parametrize("end", [CTRL_D, b"/quit\r", b"/exit\r", b"exit\r", b"quit\r"])
def test_the_end(person, end):
    p = person().ready()
    p.say("hello")
    assert p.type(end).end() == 0
    assert p.rows()[p.screen.cursor.y] == ""  # a shell's prompt begins a line


def test_control_d_in_a_line_is_no_end(person):
    p = person().ready()
    p.type("hello", CTRL_D)
    time.sleep(0.2)
    assert p.process.poll() is None
    p.type(ENTER).until(HELLO).ready()
    assert p.type(CTRL_D).end() == 0


def test_what_is_typed_during_an_answer_is_not_lost_nor_echoed(endless):
    p = endless()
    p.type("loop", ENTER).until(" x x x").type("hello")
    time.sleep(0.2)
    p.type(CTRL_C)
    p.until(lambda p: p.rows()[p.screen.cursor.y].startswith(">"))
    time.sleep(0.2)
    p.read(0)
    body = p.text().split("loop")[1]
    assert "hello" not in body.split("\n>")[0]
    p.type(CTRL_C).ready()
    assert p.type(CTRL_D).end() == 0


def test_refusals_do_not_change_the_exit_code_of_a_person(person):
    p = person().ready()
    assert any("/undo" in row for row in said(p, "/undoo"))
    assert p.type("/quit", ENTER).end() == 0


# ==== The terminal is left as it was found ====

ENDS = [signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT]


@pytest.mark.parametrize("number", ENDS)
@pytest.mark.parametrize("where", ["prompt", "answer", "line"])
def test_the_terminal_after_a_signal(endless, number, where):
    p = endless("--ban", "x y")
    if where == "answer":
        p.type("loop", ENTER).until(" x x x")
    elif where == "line":
        p.type("hel").until("> hel")
    os.kill(p.process.pid, number)
    code = p.end()
    assert code == -number or (code > 0 and number in (signal.SIGSEGV, signal.SIGABRT))  # a sanitizer's word


def test_a_terminal_that_goes_away(person):
    p = person().ready()
    os.close(p.master)
    p.master = -1
    assert p.process.wait(60) in (0, -signal.SIGHUP)


def test_the_terminal_is_in_use_meanwhile(person):
    """Else the tests above would prove nothing."""
    import termios

    p = person().ready()
    assert termios.tcgetattr(p.slave) != p.found and b"\033[?2004h" in p.raw
    assert p.type(CTRL_D).end() == 0


def test_stopped_and_continued(person):
    import termios

    p = person(shell=True).ready()
    p.say("hello")
    for _ in range(2):
        p.type("cou").until("> cou")
        p.type(CTRL_Z).until("stopped restored")
        assert p.raw.rfind(b"\033[?2004l") > p.raw.rfind(b"\033[?2004h")
        p.screen.reset()
        p.type("\n").until("> cou")
        assert termios.tcgetattr(p.slave) != p.found
        p.type(b"nt", ENTER).until(COUNT).ready()
    assert p.type(CTRL_D).end() == 0


def test_stopped_in_an_answer(retrace, person):
    model(retrace.tmp, "endless.json", n_ctx=1000000000)
    p = person("-n", "-1", flags=["-m", "endless.json", "--temp", "0"], shell=True).ready()
    p.type("loop", ENTER).until(" x x x")
    p.type(CTRL_Z).until(lambda p: b"stopped restored" in p.raw)  # on the screen it may be broken at the edge
    p.screen.reset()
    p.type("\n").until(" x x x").type(CTRL_C).ready()
    assert p.type(CTRL_D).end() == 0


def test_an_error_at_the_beginning_leaves_the_terminal(person):
    p = person(flags=["-m", "missing.json"])
    assert p.wait() == 4
    p.check_restored()
    assert b"\033[?2004h" not in p.raw and "missing.json" in p.text()


# ==== History ====


def history(retrace):
    return retrace.tmp / "state" / "retrace" / "history"


def test_history(retrace, person):
    p = person().ready()
    for line in ("hello", " count", "/set"):
        p.say(line)
    assert p.type(CTRL_D).end() == 0
    text = history(retrace).read_text()
    assert "hello" in text and "/set" in text and "count" not in text
    assert stat.S_IMODE(history(retrace).stat().st_mode) == 0o600
    p = person().ready()
    p.type(UP).until("> /set").type(UP).until("> hello").type(ENTER).until(HELLO).ready()
    assert p.type(CTRL_D).end() == 0


def test_history_of_lines_with_line_breaks(retrace, person):
    p = person().ready()
    p.type(b"hello\\", ENTER, b"x", ENTER).until(" well.").ready()
    assert p.type(CTRL_D).end() == 0
    p = person().ready()
    p.type(UP).until(lambda p: "hello" in p.text() and "x" in p.text())
    p.type(ENTER).until(" well.").ready()
    assert users(retrace, p) == ["hello\nx"]
    assert p.type(CTRL_D).end() == 0


def test_no_history(retrace, person):
    p = person("--no-history").ready()
    p.say("hello")
    p.type(UP).until("> hello").type(CTRL_U).ready()
    assert p.type(CTRL_D).end() == 0
    assert not history(retrace).exists()


def test_history_is_bounded(retrace, person):
    history(retrace).parent.mkdir(parents=True)
    history(retrace).write_text("".join("old %d\n" % i for i in range(1500)))
    p = person().ready()
    p.say("hello")
    assert p.type(CTRL_D).end() == 0
    lines = history(retrace).read_text().splitlines()
    assert len(lines) <= 1001 and lines[-1] == "hello" and "old 1499" in lines and "old 100" not in lines


def test_history_without_a_state_folder_set(retrace, person):
    home = retrace.tmp / "home"
    home.mkdir()
    p = person(env={"XDG_STATE_HOME": "", "HOME": str(home)}).ready()
    p.say("hello")
    assert p.type(CTRL_D).end() == 0
    assert "hello" in (home / ".local" / "state" / "retrace" / "history").read_text()


@pytest.mark.parametrize("how", ["folder", "read-only", "junk"])
def test_history_that_cannot_be_kept(retrace, person, how):
    history(retrace).parent.mkdir(parents=True)
    if how == "folder":
        history(retrace).mkdir()
    elif how == "junk":
        history(retrace).write_bytes(b"\xff\xfe\0\n\033[31mred\n" + b"x" * 100000)
    else:
        history(retrace).parent.chmod(0o500)
    p = person().ready()
    p.type(UP, UP, "x").until("x").type(CTRL_C).ready()
    p.say("hello")
    assert p.type(CTRL_D).end() == 0
    history(retrace).parent.chmod(0o700)
