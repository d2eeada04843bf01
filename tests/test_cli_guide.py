"""--driver guide: a person at a terminal, and the terminal afterwards.

The program runs on a pseudo-terminal of its own; pyte, a terminal emulator, keeps the screen that a
person would see.
"""
import json
import os
import re
import signal
import sys
import termios
import time

import pytest

from conftest import PROGRAM, environment
from screens import SHELL, TIMEOUT, Screen
from test_cli import refused
from test_cli_trace import apply, rewrite

COLOURS = {
    "tokens": ["go", " red", " green", " blue", " grey", "!", {"text": "</s>", "end": True}],
    "rows": [
        {"context": [], "next": {" red": 0.5, " green": 0.3, " blue": 0.15, "</s>": 0.05}},
        {"context": [" grey"], "next": {"!": 1}},
    ],
}
ODD = {
    "tokens": ["go", " 漢字", "\u0301", "\n", "\033[31m", {"bytes": [230]}, "\u202e", "\t", "\u200b",
               {"text": "</s>", "end": True}, {"text": "<|x|>", "control": True}],
    "rows": [{"context": [], "next": {" 漢字": 0.2, "2": 0.15, "\n": 0.14, "4": 0.13, "5": 0.12, "6": 0.1,
                                      "\t": 0.08, "\u200b": 0.04, "</s>": 0.03, "10": 0.01}}],
}

UP, DOWN, RIGHT, LEFT = b"\033[A", b"\033[B", b"\033[C", b"\033[D"
ENTER, BACK, ESCAPE, SPACE = b"\r", b"\x7f", b"\033", b" "
ENTERED, LEFT_AGAIN = b"\033[?1049h", b"\033[?1049l"


class Guide(Screen):
    """The program, a terminal of `rows` times `columns`, and what that shows."""

    def __init__(self, tmp, args, env=None, through=(), **how):
        super().__init__([*through, PROGRAM, *args], tmp, environment(tmp, env or {}), **how)

    def candidates(self):
        return re.findall(r"^[> ] +\d+ +([\d.]+) % +[█▏▎▍▌▋▊▉]* +(.*)$", self.text(), re.M)

    def names(self):
        return [name for _, name in self.candidates()]

    def chosen(self):
        return re.search(r"^> +\d+ .*? (\"[^\"]*\"|<.*)$", self.text(), re.M).group(1)

    def status(self):
        return self.rows()[-2]

    def until(self, wanted, timeout=TIMEOUT):
        """Reads until the text is on a whole picture, or the function says yes of it."""
        end = time.monotonic() + timeout
        ok = wanted if callable(wanted) else lambda g: wanted in g.text()
        whole = lambda: self.raw.endswith(b"\033[?25h") or self.raw.rfind(LEFT_AGAIN) > self.raw.rfind(ENTERED)
        while not (whole() and ok(self)):
            left = end - time.monotonic()
            assert left > 0 and (self.read(left) or self.process.poll() is None), (wanted, self.text())
        return self

    def press(self, key, wanted):
        return self.type(key).until(wanted)

    def end(self, timeout=TIMEOUT):
        """The exit code, with the terminal as it was found."""
        end = time.monotonic() + timeout
        while self.process.poll() is None:
            assert time.monotonic() < end, self.text()
            self.read(0.05)
        while self.read(0):
            pass
        self.check_restored()
        os.close(self.slave)
        os.close(self.master)
        return self.process.returncode

    def check_restored(self):
        assert termios.tcgetattr(self.slave) == self.found
        assert self.raw.count(ENTERED) == self.raw.count(LEFT_AGAIN) > 0
        for on, off in ((b"\033[?2004h", b"\033[?2004l"), (b"\033[?7l", b"\033[?7h"),
                        (b"\033[?25l", b"\033[?25h"), (ENTERED, LEFT_AGAIN)):
            assert self.raw.rindex(off) > self.raw.rindex(on)

    def after(self):
        """What was written when the screen had been given back."""
        return self.raw.rsplit(LEFT_AGAIN, 1)[1].replace(b"\r\n", b"\n").decode()


@pytest.fixture
def guide(retrace):
    """guide(*flags) asks about "go" with the colours."""
    running = []
    (retrace.tmp / "colours.json").write_text(json.dumps(COLOURS))
    (retrace.tmp / "long.json").write_text(json.dumps({**COLOURS, "n_ctx": 4000000}))  # for many seconds
    (retrace.tmp / "odd.json").write_text(json.dumps(ODD))

    def start(*args, model="colours.json", driver="guide:top_k=9", prompt=("-p", "go"), **how):
        flags = ["generate", "-m", model, *prompt, "--driver", driver, "-s", "1", "-n", "12", *args]
        running.append(Guide(retrace.tmp, flags, **how))
        return running[-1]

    yield start
    for g in running:
        if g.process.poll() is None:
            g.process.kill()
            g.process.wait()


def trace_of(retrace, name="t.jsonl"):
    return [json.loads(line) for line in (retrace.tmp / name).read_text().splitlines()]


def replayed(retrace):
    done = retrace("replay", "t.jsonl")
    assert done.code == 0, done
    return trace_of(retrace)


# ==== What is shown ====


def test_the_first_question(guide):
    g = guide().until("token 1 of at most 12")
    rows = g.rows()
    assert len(rows) == 24 and rows[-1].startswith("↑↓ choose  Enter take")
    assert g.candidates() == [("50.0", '" red"'), ("30.0", '" green"'), ("15.0", '" blue"'),
                              ("5.0", "</s>  (ends the answer)")]
    assert rows[-7] == "─" * 80 and rows[-8] == "go" and not any(rows[:-8])
    assert g.chosen() == '" red"'
    assert (g.screen.cursor.y, g.screen.cursor.x) == (16, 2) and not g.screen.cursor.hidden
    assert g.type(b"\x03").end() == 130


def test_no_limit_but_the_context(guide):
    g = guide("-n", "-1").until(lambda g: g.status() == "token 1")
    assert g.type(b"\x03").end() == 130


def test_only_so_many_candidates(guide):
    g = guide(driver="guide").until("token 1 of")
    assert g.names() == ['" red"', '" green"', '" blue"']
    g.type(b"\x03").end()


@pytest.mark.parametrize(
    "keys, chosen",
    [
        ([DOWN], '" green"'),
        ([DOWN, DOWN, UP], '" green"'),
        ([b"\033OB"], '" green"'),
        ([b"3"], '" blue"'),
        ([b"9"], "</s>  (ends the answer)"),
        ([UP], '" red"'),
        ([DOWN] * 9, "</s>  (ends the answer)"),
        ([b"\033[F"], "</s>  (ends the answer)"),
        ([b"\033[4~", b"\033[1~", DOWN], '" green"'),
        ([b"\033[6~", b"\033[5~", b"2"], '" green"'),
        ([b"\033x", b"\033[20~", b"\033[1;5P", b"\xff", b"2"], '" green"'),
    ],
)
def test_choosing(guide, keys, chosen):
    g = guide().until("token 1 of").type(*keys).until(lambda g: g.chosen() == chosen)
    assert g.type(b"\x03").end() == 130


def test_taking_and_going_back(retrace, guide):
    g = guide("--trace", "t.jsonl").until("token 1 of")
    g.press(ENTER, "go red").press(b"2", lambda g: g.chosen() == '" green"').press(RIGHT, "go red green")
    g.until("token 3 of").press(b"\n", "go red green red").until("token 4 of")
    g.press(BACK, "token 3 of").press(LEFT, "token 2 of").press(BACK, "token 1 of")
    assert "go red" not in g.text() and len(g.names()) == 4  # nothing is banned
    g.press(BACK, "this is the beginning").press(b"3", lambda g: g.chosen() == '" blue"')
    g.press(ENTER, "go blue").press(b"\x04", lambda g: LEFT_AGAIN in g.raw)
    assert g.end() == 0 and g.after().startswith(" blue\n\n1 kept, 4 evaluated, 3 erased, 0 rewinds")
    ops = replayed(retrace)
    assert apply(ops)[1] == b" blue"
    kinds = [o["kind"] for o in ops if o["op"] == "choice"]
    assert kinds == ["token"] * 3 + ["back"] * 3 + ["token"] * 2
    assert all(o["drawn"] is False for o in ops if o["op"] == "push")
    assert [o["rule"] for o in ops if o["op"] == "erase"] == ["guide"] * 3


def test_end_token_among_the_candidates(guide):
    g = guide().until("token 1 of").press(ENTER, "token 2 of").press(b"4", lambda g: "</s>" in g.chosen())
    assert g.type(ENTER).end() == 0 and g.after().startswith(" red\n")


def test_end_here(guide):
    """Also where the end token is not shown."""
    g = guide(driver="guide:top_k=1").until("token 1 of").press(ENTER, "token 2 of")
    assert g.type(b"\x04").end() == 0 and g.after().startswith(" red\n")


def test_whatever_is_typed_begins_a_text(guide):
    g = guide().until("token 1 of").type(b"quick").until("text> quick").type(ESCAPE).until("token 1 of")
    g.type("é".encode()).until("text> é").type(ESCAPE).until("token 1 of")
    g.press(b"/", lambda g: g.status() == "text>").type(b" 1").until("text>  1").type(ESCAPE)
    assert g.until("token 1 of").type(b"\x03").end() == 130


def test_no_end_token(retrace, guide):
    model = {"tokens": ["go", " a", " b"], "rows": [{"context": [], "next": {" a": 1, " b": 1}}]}
    (retrace.tmp / "m.json").write_text(json.dumps(model))
    g = guide(model="m.json").until("token 1 of").press(b"\x04", "this model has no end token")
    assert g.type(b"\x03").end() == 130


# ==== Forced text ====


def test_a_text(retrace, guide):
    g = guide("--trace", "t.jsonl").until("token 1 of").press(b"/", "text>")
    assert g.rows()[-1].startswith("Enter put this text there")
    g.press(b" grey", "text>  grey")
    assert (g.screen.cursor.y, g.screen.cursor.x) == (22, 11)
    g.press(ENTER, "go grey!").until("token 3 of")  # the sure one behind it is not asked about
    assert g.type(b"\x04").end() == 0
    ops = replayed(retrace)
    assert ops[1] == {"seq": 1, "op": "choice", "pos": 0, "node": 0, "kind": "text", "text": " grey"}
    assert [o.get("drawn") for o in ops if o["op"] == "push"] == [False, None]


def test_a_text_that_is_banned(retrace, guide):
    g = guide("--ban", "green blue", "--trace", "t.jsonl").until("token 1 of")
    g.type(b"/", b" red green blue", ENTER).until('phrases took back " red green blue": "green blue"')
    assert "go red" not in g.text() and '" red"' in g.names()
    g.press(b"/", "text>  red green blue").press(BACK * 5, lambda g: g.status() == "text>  red green").type(ENTER)
    g.until("the forced text cannot stand here")  # " green" is banned behind " red" now
    g.press(b"/", "text>  red green").press(BACK * 6, lambda g: g.status() == "text>  red").type(ENTER)
    g.until("go red").until("token 2 of")
    assert g.names() == ['" red"', '" blue"', "</s>  (ends the answer)"]
    assert g.type(b"\x04").end() == 0 and g.after().startswith(" red\n")
    replayed(retrace)


def test_a_banned_candidate(retrace, guide):
    g = guide("--ban", " green", "--trace", "t.jsonl").until("token 1 of").press(b"2", lambda g: "green" in g.chosen())
    g.press(ENTER, 'phrases took back " green": " green"')
    assert g.names() == ['" red"', '" blue"', "</s>  (ends the answer)"]
    g.press(b"2", lambda g: g.chosen() == '" blue"')
    assert "phrases" not in g.text()
    g.press(ENTER, "go blue")
    assert g.type(b"\x04").end() == 0
    replayed(retrace)


def test_a_text_that_no_tokens_spell(guide):
    g = guide().until("token 1 of").type(b"/", b"purple", ENTER).until("no tokens of the model spell this text")
    g.press(b"/", "text> purple")
    g.press(b"\x15 blue", "text>  blue").press(ENTER, "go blue")
    assert g.type(b"\x03").end() == 130


@pytest.mark.parametrize(
    "keys, shown",
    [
        ([b"abc", LEFT, LEFT, b"X"], "aXbc"),
        ([b"abc", BACK], "ab"),
        ([b"abc", b"\033[H", b"\033[3~"], "bc"),
        ([b"abc", b"\x01", b"X", b"\x05", b"Y"], "XabcY"),
        ([b"ab cd", b"\x17"], "ab "),
        ([b"ab cd", b"\x02\x02", b"\x0b"], "ab "),
        ([b"abc", LEFT, b"\x15"], "c"),
        ([b"a", b"\n", b"b"], "a\\nb"),
        ([b"a", b"\t", b"b"], "a\\tb"),
        (["é漢".encode(), BACK], "é"),
        (["é漢".encode(), LEFT, LEFT, RIGHT, b"x"], "éx漢"),
        (["漢".encode()[:2], "漢".encode()[2:]], "漢"),
        ([b"\033[200~ab\rcd\033[201~"], "ab\\ncd"),
        ([b"x", b"\033[200~y\033[201~"], "xy"),
    ],
)
def test_editing(guide, keys, shown):
    g = guide().until("token 1 of").press(b"/", "text>").type(*keys)
    g.until(lambda g: g.status() == ("text> " + shown).rstrip())
    g.press(ESCAPE, "token 1 of")
    assert g.type(b"\x03").end() == 130


def test_editing_ends(guide):
    g = guide().until("token 1 of").press(b"/", "text>").press(BACK, "token 1 of")
    g.press(b"/", "text>").press(ENTER, "token 1 of")
    assert g.type(b"\x03").end() == 130


def test_a_long_text_moves(guide):
    long = "abcdefghij" * 12
    g = guide().until("token 1 of").press(b"/", "text>").type(long.encode())
    g.until(lambda g: g.status() == "text> " + long[-73:])
    assert g.screen.cursor.x == 79
    g.press(b"\x01", lambda g: g.status() == "text> " + long[:73])
    assert g.screen.cursor.x == 6 and g.type(ESCAPE).until("token 1 of").type(b"\x03").end() == 130


def test_a_paste_is_a_text(guide):
    """Its letters are no keys."""
    g = guide().until("token 1 of").press(b"\033[200~ red green\033[201~", "text>  red green")
    g.press(ENTER, "go red green").until("token 3 of")
    assert g.type(b"\x03").end() == 130


# ==== Draws ====


def sampled(retrace, *args):
    return retrace("generate", "-m", "colours.json", "-p", "go", "-s", "1", "-n", "12", *args).out


def test_drawing_follows_the_law_of_sample(retrace, guide):
    """Where every answer is `draw` the text is that of the other driver, at the same seed."""
    for ignore in ([], ["--ignore-eos", "--ban", "red red"]):
        want = sampled(retrace, *ignore)
        with open(retrace.tmp / "out", "wb") as out:
            g = guide(*ignore, stdout=out, driver="guide:top_k=2").until("token 1 of")
            assert g.type(SPACE).end() == 0
        assert (retrace.tmp / "out").read_text() == want


def test_drawing_one(retrace, guide):
    want = sampled(retrace, "--ignore-eos")
    g = guide("--ignore-eos", "--trace", "t.jsonl").until("token 1 of").press(b"\t", "token 2 of").press(b"\t", "token 3 of")
    assert g.rows()[-8] == "go" + " ".join(want.split(" ")[:3])
    assert g.type(b"\x03").end() == 130
    ops = replayed(retrace)
    assert [o["kind"] for o in ops if o["op"] == "choice"] == ["draw", "draw"]
    assert not any("drawn" in o for o in ops)


def test_any_key_stops_the_run(guide):
    g = guide("--ignore-eos", "-n", "100000000", model="long.json").until("token 1 of").press(SPACE, "any key stops it")
    g.press(b"q", lambda g: "Enter take" in g.rows()[-1])  # that key means nothing else
    at = int(re.search(r"token (\d+) of", g.status()).group(1))
    assert at > 1 and g.press(BACK, "token %d of" % (at - 1)).type(b"\x03").end() == 130


def test_passing_without_asking(retrace, guide):
    assert guide(driver="guide:min_autopass=0.4").end() == 0
    done = retrace("generate", "-m", "colours.json", "-p", "go", "--temp", "0", "-n", "3", "-q")
    with open(retrace.tmp / "out", "wb") as out:
        g = guide("--temp", "0", "-n", "3", driver="guide:min_autopass=0", stdout=out)
        assert g.end() == 0
    assert (retrace.tmp / "out").read_text() == done.out == " red red red"


def test_a_place_that_was_passed_is_asked_about_after_a_step_back(guide):
    g = guide().until("token 1 of").type(b"/", b" grey", ENTER).until("token 3 of").press(BACK, "token 2 of")
    assert g.candidates() == [("100.0", '"!"')]
    g.press(BACK, "token 1 of")
    assert g.type(b"\x03").end() == 130


# ==== The end of it ====


def test_what_stands_when_the_person_stops(retrace, guide):
    for key in (b"\x03",):
        with open(retrace.tmp / "out", "wb") as out:
            g = guide("--trace", "t.jsonl", stdout=out).until("token 1 of").press(ENTER, "token 2 of")
            assert g.type(key).end() == 130
        assert (retrace.tmp / "out").read_text() == " red"
        assert trace_of(retrace)[-1]["finish"] == "cancelled"
        replayed(retrace)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT])
def test_ended_by_a_signal(guide, number):
    g = guide().until("token 1 of").press(ENTER, "token 2 of")
    assert termios.tcgetattr(g.slave) != g.found
    g.process.send_signal(number)
    assert g.end() == -number


def test_interrupted(guide):
    g = guide().until("token 1 of")
    g.process.send_signal(signal.SIGINT)
    assert g.end() == 130


def test_interrupted_while_typing(guide):
    g = guide().until("token 1 of").press(b"/", "text>")
    assert g.type(b"\x03").end() == 130


def test_interrupted_while_it_runs(guide):
    g = guide("--ignore-eos", "-n", "100000000", model="long.json").until("token 1 of").press(SPACE, "any key stops it")
    assert g.type(b"\x03").end() == 130


def test_a_terminal_that_goes_away(guide):
    g = guide().until("token 1 of")
    os.close(g.master)
    assert g.process.wait(60) in (-signal.SIGHUP, 130)
    os.close(g.slave)


def test_an_error_before_the_first_question(guide):
    g = guide("--trace", "/dev/full")
    assert g.process.wait(60) == 4
    g.read(1)
    assert ENTERED not in g.raw and b"/dev/full" in g.raw and termios.tcgetattr(g.slave) == g.found


def test_an_error_in_the_middle(guide):
    g = guide("--trace", "t.jsonl", "-n", "2000", "--ignore-eos",
              through=["bash", "-c", 'ulimit -f 4; exec "$@"', "-"]).until("token 1 of")
    assert g.type(SPACE).end() == 4
    assert g.after().count("retrace: ") == 1 and "'t.jsonl'" in g.after()


def test_reader_that_left(guide):
    reader, writer = os.pipe()
    g = guide(stdout=writer).until("token 1 of")
    os.close(writer)
    os.close(reader)
    assert g.press(ENTER, "token 2 of").type(b"\x04").end() == -signal.SIGPIPE


def test_stopped_and_continued(guide):
    g = guide(through=[sys.executable, "-c", SHELL]).until("token 1 of").press(ENTER, "token 2 of")
    for _ in range(2):
        g.press(b"\x1a", "stopped restored")
        assert g.raw.rindex(LEFT_AGAIN) > g.raw.rindex(ENTERED)
        g.screen.reset()
        g.press(b"\n", "token 2 of")
        assert "go red" in g.text() and termios.tcgetattr(g.slave) != g.found
    g.press(ENTER, "go red red")
    assert g.type(b"\x04").end() == 0


# ==== The window ====


@pytest.mark.parametrize("rows, columns", [(3, 10), (1, 1), (2, 2), (1, 40), (4, 20), (5, 8), (8, 200), (60, 12)])
def test_small_and_large_windows(guide, rows, columns):
    g = guide(rows=rows, columns=columns, model="odd.json").until(lambda g: b"%" in g.raw or rows * columns < 5)
    for key in (DOWN, DOWN, ENTER, UP, b"/", b"abc", LEFT, BACK, ESCAPE, b"\t"):
        g.type(key)
        time.sleep(0.2 if key == ESCAPE else 0.02)
    if (rows, columns) == (3, 10):
        g.until(lambda g: g.rows()[1].startswith(">"))
    assert g.type(b"\x03").end() in (130, 0)


def test_a_small_window_shows_what_matters(guide):
    g = guide(rows=3, columns=10).until(lambda g: g.rows() == ["go", '> 50% " re', "1 of 12"])
    assert g.type(b"\x03").end() == 130


def test_resized(guide):
    g = guide().until("token 1 of").press(ENTER, "token 2 of")
    for rows, columns in ((10, 30), (3, 10), (1, 1), (40, 100), (24, 80)):
        g.resize(rows, columns)
        if rows > 8:
            g.until(lambda g: g.rows()[-1].startswith("↑↓") and "─" * columns in g.rows() and "go red" in g.text())
    assert g.names()[0] == '" red"'
    assert g.type(b"\x03").end() == 130


def test_long_text_shows_its_end(guide):
    g = guide("-n", "50").until("token 1 of").type(b"/" + b" red green blue" * 10 + ENTER).until("token 31 of")
    lines = [row for row in g.rows()[:-7] if row]
    assert "".join(row + " " for row in lines).split() == ["go"] + ["red", "green", "blue"] * 10
    assert all(len(row) <= 80 for row in lines)
    g.resize(9, 30).until(lambda g: g.rows()[0].endswith(("red", "green", "blue")))
    assert g.rows()[1].endswith((" red", " green", " blue")) and g.rows()[3] == "─" * 30
    assert g.type(b"\x03").end() == 130


# ==== What may not drive a terminal ====


def test_odd_tokens(retrace, guide):
    g = guide(model="odd.json", driver="guide:top_k=20").until("token 1 of")
    assert g.names() == ['" 漢字"', '"◌\u0301"', '"\\n"', '"\\x1b[31m"', '"\\xe6"', '"\\u{202e}"', '"\\t"',
                         '"\\u{200b}"', "</s>  (ends the answer)", "<|x|>  (no text)"]
    for i, shown in enumerate(["go 漢字", "go 漢字\u0301", "go 漢字\u0301", "\\x1b[31m", "\\xe6", "\\u{202e}", "\\t"]):
        g.press(b"%d" % (i + 1), lambda g: ">%3d" % (i + 1) in g.text()).press(ENTER, "token %d of" % (i + 2))
        assert shown in g.text()
    assert g.type(b"\x03").end() == 130
    shown = g.raw.rsplit(LEFT_AGAIN, 1)[0]
    assert b"\033[31m" not in shown and "\u202e".encode() not in shown


def test_no_colour(guide):
    g = guide(env={"NO_COLOR": "1"}).until("token 1 of")
    assert set(re.findall(rb"\033\[[\d;]*m", g.raw)) == set() and g.chosen() == '" red"'
    assert g.type(b"\x03").end() == 130
    g = guide().until("token 1 of")
    assert b"\033[7m" in g.raw
    g.type(b"\x03").end()


# ==== Streams ====


def test_no_terminal(retrace, guide):
    run = ["generate", "-m", "colours.json", "-p", "go", "--driver", "guide"]
    refused(retrace(*run), 2, "--driver guide", "terminal")
    refused(retrace(*run, "--json"), 2, "--driver guide", "terminal")


def test_a_terminal_that_cannot_place_text(retrace, guide):
    g = guide(env={"TERM": "dumb"})
    assert g.process.wait(60) == 2
    g.read(1)
    assert b"terminal" in g.raw and b"\033" not in g.raw


def test_shows_no_erased(retrace, guide):
    g = guide("--show-erased")
    assert g.process.wait(60) == 2
    g.read(1)
    assert b"--show-erased" in g.raw and ENTERED not in g.raw


def test_bad_settings(retrace, guide):
    for driver, word in (("guide:top_k=0", "top_k"), ("guide:min_autopass=2", "min_autopass"),
                         ("guide:x=1", "x"), ("guid", "guid")):
        g = guide(driver=driver)
        assert g.process.wait(60) == 2
        g.read(1)
        assert word in g.raw.decode() and ENTERED not in g.raw


def test_prompt_from_a_pipe_and_answer_to_a_file(retrace, guide):
    reader, writer = os.pipe()
    with open(retrace.tmp / "out", "wb") as out:
        g = guide(prompt=(), stdin=reader, stdout=out)
        os.write(writer, b"go")
        os.close(writer)
        os.close(reader)
        g.until("token 1 of").press(ENTER, "token 2 of")
        assert g.type(b"\x04").end() == 0
    assert (retrace.tmp / "out").read_bytes() == b" red"


def test_json(retrace, guide):
    with open(retrace.tmp / "out", "wb") as out:
        g = guide("--json", "--ban", "green", stdout=out).until("token 1 of").press(ENTER, "token 2 of")
        g.press(b"2", lambda g: "green" in g.chosen()).press(ENTER, "phrases took")
        assert g.type(b"\x04").end() == 0
    told = json.loads((retrace.tmp / "out").read_text())
    assert told["text"] == " red" and told["finish"] == "end"
    assert told["rules"] == [{"name": "phrases", "hits": 1, "erased": 1, "accepted": 0}]


def test_verbose_goes_to_another_standard_error(guide):
    g = guide("-vv").until("token 1 of").press(ENTER, "token 2 of")
    assert g.type(b"\x04").end() == 0 and b"settled" not in g.raw


def test_the_end_that_a_rule_does_not_admit(guide):
    g = guide("--grammar", 'root ::= " red" " blue"').until("token 1 of")
    g.press(b"\x04", "the answer cannot end here").press(ENTER, "token 2 of").press(ENTER, "token 3 of")
    assert g.type(b"\x04").end() == 0 and g.after().startswith(" red blue\n")


def test_fewer_candidates_move_nothing(guide):
    def rules(g):
        return [i for i, row in enumerate(g.rows()) if row.startswith("───")]
    g = guide("--ban", " green").until("token 1 of").press(b"2", lambda g: "green" in g.chosen())
    line = rules(g)
    assert len(line) == 1 and len(g.names()) == 4
    g.press(ENTER, "phrases took back")
    assert len(g.names()) == 3 and rules(g) == line
    assert g.type(b"\x03").end() == 130


def test_a_candidate_that_is_hardly_possible(retrace, guide):
    table = {**COLOURS, "rows": [{"context": [], "next": {" red": 1, " green": 1e-6}}]}
    (retrace.tmp / "rare.json").write_text(json.dumps(table))
    g = guide(model="rare.json").until("token 1 of")
    assert [row for row in g.rows() if "%" in row] == ['>  1  100.0 %  ██████████  " red"',
                                                       '   2   <0.1 %              " green"']
    assert g.type(b"\x03").end() == 130


# ==== Replay ====


def recorded(retrace, guide):
    g = guide("--ban", " green", "--trace", "t.jsonl").until("token 1 of").press(ENTER, "token 2 of")
    g.press(b"2", lambda g: "green" in g.chosen()).press(ENTER, "phrases took").press(BACK, "token 1 of")
    g.type(b"/ blue blue", ENTER).until("token 3 of")
    g.press(b"\t", 'phrases took back " green": " green"').press(b"\t", "token 4 of")
    assert g.type(b"\x04").end() == 0
    return replayed(retrace)


def test_replay_of_other_answers(retrace, guide):
    ops = recorded(retrace, guide)
    choices = [i for i, o in enumerate(ops) if o["op"] == "choice"]
    by_kind = {ops[i]["kind"]: i for i in choices}
    for kind, key, value in (("token", "id", 3), ("token", "pos", 7), ("token", "node", 99), ("back", "to", 5),
                             ("text", "text", " blue red"), ("token", "id", 99), ("token", "id", 1 << 32)):
        i = by_kind[kind]
        was, ops[i][key] = ops[i][key], value
        rewrite(retrace, ops)
        done = retrace("replay", "t.jsonl")
        assert done.code == 1 and "t.jsonl:" in done.err, (kind, key, done)
        ops[i][key] = was
    del ops[choices[0]]
    for i, op in enumerate(ops):
        op["seq"] = i
    rewrite(retrace, ops)
    refused(retrace("replay", "t.jsonl"), 1, "t.jsonl:%d" % (choices[0] + 1), "choice")


def test_replay_of_broken_answers(retrace, guide):
    ops = recorded(retrace, guide)
    i = [i for i, o in enumerate(ops) if o["op"] == "choice"][0]
    for change in ({"kind": "leap"}, {"kind": None}, {"id": "1"}, {"pos": None}, {"kind": "text", "text": 1}):
        changed = [dict(o) for o in ops]
        changed[i].update(change)
        rewrite(retrace, changed)
        refused(retrace("replay", "t.jsonl"), 2, "t.jsonl:%d" % (i + 1))
