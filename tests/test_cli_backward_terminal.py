"""retrace backward on a terminal: what a person sees while a text grows from right to left."""
import re

import pyte
import pytest

from test_cli_backward import CAPITAL, START, backward, model_file  # noqa: F401 (a fixture)

ANEW = "\r\033[K"
WIDE = {
    "tokens": ["漢", "字", "e\u0301", "\u202e", "\033[31m", "\n", "x", {"text": "</s>", "end": True}],
    "rows": {None: {"漢": 0.3, "字": 0.2, "e\u0301": 0.15, "\u202e": 0.1, "\033[31m": 0.1, "\n": 0.1,
                    "x": 0.05}},
}


def shown(retrace, *args, columns=40, env=None):
    """The raw text, the exit code, and the screen as it stands at the end."""
    term = retrace.terminal("backward", "-m", retrace.tmp / "chain.json", *args, env=env)
    raw, code = term.end()
    screen = pyte.Screen(columns, 200)
    pyte.Stream(screen).feed(raw.replace("\n", "\r\n"))
    return raw, code, [line.rstrip() for line in screen.display if line.strip()]


def live(raw):
    """What the line read each time it was drawn anew, without colours."""
    parts = [re.sub("\033\\[\\d*m", "", p) for p in raw.split(ANEW)]
    return [p for p in parts if p.startswith("[") and "\n" not in p]


def columns_of(line):
    screen = pyte.Screen(300, 1)
    pyte.Stream(screen).feed(line)
    return screen.cursor.x


def test_stream(backward):
    args = ["--suffix", " is the", "-s", "3", "-n", "4", "-q", "--stream"]
    told = backward("--suffix", " is the", "-s", "3", "-n", "4", "--json").json["samples"][0]
    raw, code, screen = shown(backward.retrace, *args)
    assert code == 0
    ids = [step["text"] for step in told["steps"] if step["id"] != START]
    want = ["[1] " + "".join(ids[:i][::-1]) + " is the" for i in range(len(ids) + 1)]
    want = [w.replace("\n", "\\n") for w in want]
    assert list(dict.fromkeys(live(raw))) == want  # from the suffix alone on
    assert screen == [want[-1]]


def test_prefix_is_bold(backward):
    args = ["--suffix", " is the", "-s", "3", "-n", "1", "-q", "--start=false"]
    raw, _, _ = shown(backward.retrace, *args)
    told = backward(*args, "--json").json["samples"][0]["prefix"]
    assert raw.endswith("[1] \033[1m%s\033[0m is the\n" % told)
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        raw, _, _ = shown(backward.retrace, *args, env=env)
        assert raw.split(ANEW)[-1] == "[1] %s is the\n" % told


def test_long_texts_stay_on_their_line(backward):
    raw, code, screen = shown(backward.retrace, "--suffix", CAPITAL, "-s", "5", "-n", "20", "--stream",
                              "--num-samples", "3", "-q")
    lines = live(raw)
    assert code == 0 and all(columns_of(line) <= 39 for line in lines)
    cut = [line for line in lines if line.endswith("\u2026")]
    assert cut and all(columns_of(line) == 39 for line in cut)
    # every whole line, broken by the terminal, and nothing left over from those drawn before
    told = backward("--suffix", CAPITAL, "-s", "5", "-n", "20", "--num-samples", "3", "--json").json
    want = ["[%d] %s" % (i + 1, s["text"].replace("\n", "\\n")) for i, s in enumerate(told["samples"])]
    broken = [w[i : i + 40].rstrip() for w in want for i in range(0, len(w), 40)]
    assert screen == broken


def test_wide_characters_and_those_that_drive(retrace):
    model_file(retrace, **WIDE)
    for seed in range(6):
        raw, code, _ = shown(retrace, "--suffix", "x", "-s", seed, "-n", "40", "--stream", "-q",
                             "--start=false")
        assert code == 0
        assert all(columns_of(line) <= 39 for line in live(raw))
        assert "\u202e" not in raw and "\033[31m" not in raw
        assert raw.count("\n") == 1


def test_open_characters_are_an_ellipsis(backward):
    seen = ""
    for seed in range(30):
        raw, _, screen = shown(backward.retrace, "--suffix", CAPITAL, "-s", seed, "--stream", "-q",
                               columns=200)
        lines = live(raw)
        assert not any(line.startswith("[1] \ufffd") for line in lines)
        seen += "".join(lines)
    assert "[1] \u2026" in seen and "\u6b65" in seen


def test_dumb_terminals_get_lines(backward):
    args = ["--suffix", CAPITAL, "-s", "3", "-n", "4", "-q", "--stream"]
    raw, code, _ = shown(backward.retrace, *args, env={"TERM": "dumb"})
    assert (raw, code) == (backward(*args).out, 0)


def test_notes_stand_between_the_lines(backward):
    raw, code, screen = shown(backward.retrace, "--suffix", CAPITAL, "-s", "3", "-n", "2", "-v", "--top",
                              "1", "--stream", columns=200)
    assert code == 0
    kinds = ["[1] step 1:", "posterior", ">", "[1] step 2:", "posterior"]
    for line, kind in zip(screen, kinds):
        assert line.strip().startswith(kind), screen
    assert screen[-3].startswith("[1] ") and screen[-3].endswith(CAPITAL)
    assert screen[-2].strip().startswith("(2 tokens) log f") and screen[-1].startswith("1 sample, ")


def test_progress_leaves_nothing_behind(backward):
    raw, code, screen = shown(backward.retrace, "--suffix", CAPITAL, "-s", "3", "-n", "2", columns=200)
    assert code == 0 and "candidates ..." in raw
    assert not any("candidates ..." in line for line in screen)
    assert screen[0].startswith("[1] ")


def test_control_c(backward):
    term = backward.retrace.terminal("backward", "-m", backward.tmp / "chain.json", "--suffix", CAPITAL,
                                     "--num-samples", "1000000", "--stream")
    raw, code = term.until(b"[3] ").type(b"\x03").end()
    assert code == 130
    last = [line for line in raw.split("\n") if line][-1].split(ANEW)[-1]
    assert re.match(r"interrupted: \d+ complete samples, [01] unfinished, \d+ texts, effective", last)


def test_progress_stands_below_the_line_that_grows(backward):
    args = ["--suffix", CAPITAL, "-s", "3", "-n", "3", "--budget", "4", "--batch-size", "2", "--stream"]
    # a longer count is cut off
    raw, _, _ = shown(backward.retrace, *args[:4], *args[6:], "-n", "1" + 5 * "0", "--num-samples", "1")
    counts = re.findall("\n\033\\[K([^\n\033]+)\033\\[A\r", raw)
    assert counts and max(map(len, counts)) == 39
    raw, code, screen = shown(backward.retrace, *args, columns=200)
    below = re.findall("\n\033\\[K([^\n\033]+)\033\\[A\r", raw)
    assert code == 0 and below
    assert "token 1 of 3, 2 of 4 candidates ..." in below
    assert all(len(b) <= 39 for b in below)  # so that the way back up is one line
    # at any moment: the text, and below it at most the progress
    term = pyte.Screen(200, 20)
    stream = pyte.Stream(term)
    for part in re.split("(?<=\033\\[A\r)", raw):
        stream.feed(part.replace("\n", "\r\n"))
        if part.endswith("\033[A\r"):
            assert term.display[0].startswith("[1] ") and term.cursor.y == 0
            assert not term.display[2].strip()
    assert not any("candidates ..." in line for line in screen)
    assert screen[0].startswith("[1] ") and screen[1].startswith("    (3 tokens")


@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_an_unfinished_sample_stays(retrace, more):
    # every step of so long a text takes a moment
    n = 400
    names = ["<%d>" % i for i in range(n)]
    rows = {None: {name: 1 / n for name in names}}
    model_file(retrace, tokens=names, rows=rows, n_ctx=100000)
    term = retrace.terminal("backward", "-m", retrace.tmp / "chain.json", "--suffix", "<1><2>", "-n",
                            "90000", "--start=false", *more)
    raw, code = term.until(b"token 5 of 90000").type(b"\x03").end()
    assert code == 130
    lines = raw.split("\n")
    (at,) = [i for i, line in enumerate(lines) if line.endswith(" tokens, unfinished)")
             or ", unfinished, " in line]
    text = re.sub("\033\\[\\d*[mK]", "", lines[at - 1]).split("\r")[-1]
    assert text.startswith("[1] <") and text.endswith("<1><2>") and text.count("<") >= 6
    assert "interrupted: 0 complete samples, 1 unfinished; " in raw
