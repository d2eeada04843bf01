"""The answer as it grows on a terminal, and what is taken back of it: chat/view.c, chat/paint.c.

tests/drive_chat.c plays events; pyte keeps the screen. What is there in the end must be what the
terminal makes of the settled text alone.
"""
import json
import os
import pathlib
import random
import signal
import time

import pyte
import pytest

from conftest import ROOT, environment
from screens import Paper, Screen

DRIVE = pathlib.Path(os.environ.get("RETRACE_BUILD", ROOT / "build")) / "asan" / "tests" / "drive_chat"
MARK, SEEN = "⟲", 300  # ms for which struck text is seen at least


@pytest.fixture
def view(tmp_path):
    """view(events, ...) shows them on a terminal."""
    running = []

    def start(events, env=None, **how):
        path = tmp_path / ("events%d.json" % len(running))
        path.write_text(json.dumps(events))
        running.append(Screen([DRIVE, "view", path], tmp_path, environment(tmp_path, env or {}), **how))
        return running[-1]

    start.tmp = tmp_path
    yield start
    for s in running:
        s.close()


BEGIN, END, HOLD = {"begin": 1}, {"end": 1}, {"sleep": 1000}


def push(pos, text):
    return {"push": pos, "text": text}


def erase(to, rule="phrases"):
    return {"erase": to, "rule": rule}


def settle(text):
    return {"settle": 1, "text": text}


def sleep(ms):
    return {"sleep": ms}


def told(*tokens):
    """Tokens that settle at once."""
    out = []
    for i, t in enumerate(tokens):
        out += [push(i, t), settle(t)]
    return out


def shown(s, cut=0):
    """The rows from the top of all that was ever written, without empty ones at the end."""
    rows = s.all_rows()
    while rows and not rows[-1]:
        rows.pop()
    return rows


def as_terminal(text, rows, columns):
    """What a terminal makes of a text."""
    screen = Paper(rows, columns)
    pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
    lines = [screen.buffer[y] for y in range(rows)]
    out = ["".join(line[x].data for x in range(columns)).rstrip() for line in [*screen.history.top, *lines]]
    while out and not out[-1]:
        out.pop()
    return out


# ==== What is seen ====


def test_settled_text(view):
    s = view([BEGIN, *told("Hello", ", wor", "ld.\nNext"), END])
    assert s.end() == 0
    assert s.rows()[:3] == ["Hello, world.", "Next", ""]
    assert s.cursor() == (2, 0)


def test_an_unsettled_tail_is_dim(view):
    s = view([BEGIN, push(0, "one"), settle("one"), push(1, " two"), HOLD, settle(" two"), END])
    s.until("two").settle()
    assert s.rows()[0] == "one two" and s.cells(lambda c: c.blink) == " two"
    s.end()
    assert s.rows()[0] == "one two" and s.cells(lambda c: c.blink) == ""


def test_erased_text_is_struck_and_then_folded(view):
    s = view([BEGIN, *told("The"), push(1, " cat"), push(2, " sat"), erase(1), push(1, " dog"), sleep(600),
              settle(" dog"), push(2, " ran"), HOLD, settle(" ran"), END])
    s.until(" dog")
    assert s.rows()[0] == "The cat sat dog"
    assert s.cells(lambda c: c.strikethrough and c.fg == "red") == " cat sat"
    s.until("The" + MARK + " dog ran")
    assert s.cells(lambda c: c.strikethrough) == ""
    assert s.cells(lambda c: c.blink) == MARK + " ran"
    s.until("ran").end()
    assert s.rows()[0] == "The" + MARK + " dog ran"


def test_it_is_seen_for_a_moment(view):
    begun = time.monotonic()
    s = view([BEGIN, *told("a"), push(1, "b"), erase(1), push(1, "c"), settle("c"), END])
    s.until("abc")
    assert s.cells(lambda c: c.strikethrough) == "b"
    s.until("a" + MARK + "c")
    assert time.monotonic() - begun > SEEN / 1000
    s.end()


def test_a_key_ends_the_waiting(view):
    s = view([BEGIN, *told("a"), *[x for i in range(1, 9) for x in (push(i, "b"), erase(i), push(i, "c"), settle("c"))],
              END, {"sleep": 500}]).until("abc")
    begun = time.monotonic()
    s.type("x").until(("a" + (MARK + "c") * 8))
    s.end()
    assert "x" not in s.text()


def test_several_rewinds_at_one_place_leave_one_mark(view):
    events = [BEGIN, *told("a")]
    for word in "bcd":
        events += [push(1, word), push(2, word), erase(2), push(2, "."), erase(1)]
    s = view([*events, push(1, "e"), HOLD, settle("e"), END]).until("e").settle(0.3)
    assert s.rows()[0] == "abb.cc.dd.e"
    s.end()
    assert s.rows()[0] == "a" + MARK + "e"


def test_rewinds_at_several_places(view):
    s = view([BEGIN, *told("a"), push(1, "b"), erase(1), push(1, "c"), push(2, "d"), erase(2), push(2, "e"), HOLD,
              settle("c"), sleep(400), settle("e"), END]).until("abcde")
    s.until("a" + MARK + "c" + "de").end()
    assert s.rows()[0] == "a" + MARK + "c" + MARK + "e"


def test_nothing_in_its_place(view):
    s = view([BEGIN, *told("a"), push(1, "b"), erase(1), push(1, "c"), sleep(50), END])
    s.end()
    assert s.rows()[0] == "a" + MARK


def test_a_stop_text_is_no_rewind(view):
    s = view([BEGIN, *told("a"), push(1, "STO"), push(2, "P"), erase(1, "stop"), sleep(50), END])
    s.end()
    assert s.rows()[0] == "a" and MARK.encode() not in s.raw


@pytest.mark.parametrize("rule", ["cancelled", "budget"])
def test_what_had_not_settled_at_the_end_is_no_rewind(view, rule):
    s = view([BEGIN, *told("a"), push(1, " b"), push(2, " c"), sleep(50), erase(1, rule), sleep(50), END])
    s.end()
    assert s.rows()[0] == "a" and MARK.encode() not in s.raw


@pytest.mark.parametrize("rule", ["cancelled", "budget", "stop"])
def test_nor_are_rewinds_behind_the_place_where_it_ends(view, rule):
    s = view([BEGIN, *told("a"), push(1, " b"), push(2, " c"), erase(2), push(2, " d"), sleep(50), erase(1, rule),
              sleep(50), END])
    s.end()
    assert s.rows()[0] == "a" and MARK.encode() not in s.raw.split(b"d")[-1]

    s = view([BEGIN, *told("a"), push(1, " b"), erase(1), push(1, " c"), push(2, " e"), erase(2), erase(1, rule), END])
    s.end()
    assert s.rows()[0] == "a" + MARK


def test_less_settles_than_was_pushed(view):
    s = view([BEGIN, push(0, "ab STOP"), settle("ab"), END])
    s.end()
    assert s.rows()[0] == "ab"


def test_going_on_from_a_place(view):
    s = view([{"begin": 1, "text": "so far"}, erase(2, "rewind"), push(2, " and"), settle(" and"), push(3, " x"),
              erase(3), push(3, " on"), settle(" on"), END])
    s.end()
    assert s.rows()[0] == "so far and" + MARK + " on"


def test_several_answers(view):
    s = view([BEGIN, *told("one"), END, BEGIN, *told("two", "\n"), END, BEGIN, END, BEGIN, *told("three"), END])
    s.end()
    assert s.rows()[:4] == ["one", "two", "three", ""]


def test_status(view):
    s = view([BEGIN, {"status": 1, "text": "reading 12 of 80 tokens"}, sleep(400), {"status": 1, "text": "x" * 200},
              sleep(400), *told("a"), END]).until("reading 12")
    s.until("xxx").settle()
    assert s.rows()[0] == "x" * 79 and s.rows()[1] == ""
    s.end()
    assert s.rows()[0] == "a" and b"12" in s.raw


def test_control_characters(view):
    s = view([BEGIN, *told("a\033[31mb\r\u202ec\x07", "\tx"), push(2, "\033[5m"), erase(2), push(2, "."), sleep(50),
              settle("."), END])
    s.until(MARK).end()
    assert s.rows()[0] == "a\\x1b[31mb\\r\\u{202e}c\\x07".ljust(-(-25 // 8) * 8) + "x" + MARK + "."
    assert b"\033[31m" not in s.raw and b"\033[5m" not in s.raw and b"\x07" not in s.raw


def test_characters_that_come_in_pieces(view):
    s = view([BEGIN, {"push": 0, "bytes": [0xE6, 0xBC]}, sleep(300), {"push": 1, "bytes": [0xA2, 0x21]}, HOLD,
              settle("漢!"), {"push": 2, "bytes": [0xE6]}, {"settle": 1, "bytes": [0xE6]}, END])
    s.settle(0.1)
    assert "\ufffd" not in s.text()
    s.until("!").settle()
    s.end()
    assert s.rows()[0].replace(" ", "") == "漢!\ufffd"


def test_without_colour(view):
    s = view([BEGIN, *told("a"), push(1, "b"), erase(1), push(1, "c"), sleep(600), settle("c"), END],
             env={"NO_COLOR": "1"}).until("a[-b-]c")
    s.end()
    assert s.rows()[0] == "a" + MARK + "c"
    assert b"m" not in s.raw.replace(b"\033[0m", b"", 2)


@pytest.mark.parametrize("env", [{"NOT_LIVE": "1"}, {"QUIET_REWINDS": "1"}])
def test_settled_text_only(view, env):
    s = view([{"begin": 1, "text": "so "}, {"status": 1, "text": "reading"}, *told("far"), push(1, "x"), erase(1),
              push(1, "c"), settle("c"), END], env=env)
    s.end()
    assert s.raw.replace(b"\033[?2026l\033[?2004l\033[0m\033[?25h", b"") == b"so farc\r\n"


# ==== Wherever it ends ====


def play(seed, columns, pieces):
    """Random events; the settled text with its marks."""
    r = random.Random(seed)
    events, text, head, settled, places = [BEGIN], "", [], 0, set()
    expected = []  # of pieces and marks
    marks = set()  # numbers of settled tokens before which one stands
    done = []
    for _ in range(r.randint(5, 120)):
        what = r.random()
        if what < 0.6 or len(head) == settled:
            t = r.choice(pieces)
            events.append(push(len(head), t))
            head.append(t)
        elif what < 0.8:
            to = r.randint(settled, len(head) - 1)
            if any(head[to:]):
                places = {p for p in places if p < to} | {to}
            events.append(erase(to))
            del head[to:]
        else:
            n = r.randint(settled + 1, len(head))
            events.append(settle("".join(head[settled:n])))
            settled = n
        if r.random() < 0.05:
            events.append(sleep(r.choice([5, 20, 320])))
    out = ""
    for i in range(settled + 1):
        if i in places:
            out += MARK
        if i < settled:
            out += head[i]
    return [*events, END], out


PIECES = ["a", "bc", " def", "漢", "字漢字", "e\u0301", "\n", "\n\n", "x" * 7, " word", "😀", "é", "."]


@pytest.mark.parametrize("seed", range(40))
def test_random(view, seed):
    r = random.Random(seed)
    rows, columns = r.choice([3, 4, 6, 12, 24]), r.choice([2, 5, 8, 9, 20, 40, 80])
    events, text = play(seed, columns, PIECES)
    s = view(events, rows=rows, columns=columns)
    assert s.end() == 0
    assert shown(s) == as_terminal(text, rows, columns)


@pytest.mark.parametrize("tail", [1, 79, 80, 81, 159, 160, 161, 2000])
def test_the_right_edge(view, tail):
    for settled in (1, 79, 80, 81, 160):
        s = view([BEGIN, *told("s" * settled), push(1, "x" * tail), sleep(30), erase(1), push(1, "y" * tail), sleep(330),
                  settle("y" * tail), END], rows=10)
        s.end()
        assert shown(s) == as_terminal("s" * settled + MARK + "y" * tail, 10, 80)


def test_a_tail_higher_than_the_window(view):
    lines = ["line %d\n" % i for i in range(30)]
    s = view([BEGIN, *told("begin "), *[x for i, t in enumerate(lines) for x in (push(i + 1, t), sleep(20))], HOLD,
              settle("".join(lines)), END], rows=8, columns=30)
    s.until("line 29").settle()
    assert s.rows()[0].startswith("begin") and s.rows()[-2].startswith("line 29")
    s.end()
    assert shown(s) == as_terminal("begin " + "".join(lines), 8, 30)


def test_below_other_text(view):
    """The answer begins at the last row of the window."""
    s = view([BEGIN, *told("\n" * 30), END, BEGIN, *told("a"), *[push(i, "word ") for i in range(1, 40)], sleep(100),
              erase(3), push(3, "z"), settle("word word z"), END], rows=6, columns=20)
    s.end()
    assert [row for row in shown(s) if row] == as_terminal("aword word " + MARK + "z", 6, 20)


# ==== Another window ====


@pytest.mark.parametrize("before, after", [((10, 40), (10, 20)), ((10, 40), (10, 70)), ((10, 40), (4, 40)),
                                           ((10, 40), (20, 13))])
def test_resize(view, before, after):
    first, second = "some settled text of more than one row, " * 2, "and more of it behind that. " * 2
    s = view([BEGIN, *told("paragraph\n", first), push(2, "unsettled " * 5), HOLD, erase(2), push(2, second), HOLD,
              settle(second), END], rows=before[0], columns=before[1]).until("unsettled").settle()
    s.resize(*after)
    s.end()
    row = "".join(row.ljust(after[1]) for row in shown(s))
    wanted = first + MARK + second
    assert wanted.strip() in row


# ==== Whatever happens ====


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_ended_by_a_signal(view, number):
    s = view([BEGIN, *told("a"), push(1, "bcd"), erase(1), push(1, "x"), HOLD, HOLD, HOLD]).until("abcdx")
    s.signal(number)
    assert s.end() in (-number, 130)


def test_nothing_is_echoed(view):
    s = view([BEGIN, *told("a"), HOLD, *told("b"), END]).until("a")
    s.type("typed").settle().end()
    assert "typed" not in s.text()


def test_many_events_are_cheap(view):
    """Ten thousand tokens, one in ten of them taken back, four unsettled at a time."""
    r = random.Random(1)
    events, head, settled = [BEGIN], [], 0
    for i in range(10000):
        events.append(push(len(head), r.choice([" word", " a", " other", ".\n"])))
        head.append(events[-1]["text"])
        if i % 10 == 9:
            events.append(erase(len(head) - 2))
            del head[-2:]
        elif len(head) - settled > 4:
            events.append(settle(head[settled]))
            settled += 1
    err = open(view.tmp / "err", "w+b")
    s = view([*events, END], env={"TIMED": "1"}, stderr=err)
    s.end()
    err.seek(0)
    assert float(err.read().split()[0]) < 200  # us an event, under the sanitizers
    assert s.raw.count(b"\033[?2026h") < 400
