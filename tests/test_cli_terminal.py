"""What a person sees: the program on a terminal."""
import re
import time

from conftest import DATA
from test_cli import ENDLESS, GREEDY, refused

STRUCK = "\033[2;9;31m%s\033[0m"
ERASED = ["generate", *GREEDY, "-p", "go", "--ban", "testament to", "--show-erased", "-q"]


def test_show_erased(retrace):
    shown, code = retrace.terminal(*ERASED).end()
    assert code == 0
    assert shown == " a" + STRUCK % " testament to" + " sign of hope.\n"


def test_no_color(retrace):
    want = " a[- testament to-] sign of hope.\n"
    assert retrace.terminal(*ERASED, env={"NO_COLOR": "1"}).end() == (want, 0)
    assert retrace.terminal(*ERASED, env={"TERM": "dumb"}).end() == (want, 0)


def test_erased_twice(retrace):
    shown, code = retrace.terminal(*ERASED, "--ban", "sign of", "--on-stuck", "allow",
                                   env={"NO_COLOR": "1"}).end()
    assert code == 0 and shown.startswith(" a[- testament to") and "[-" in shown
    plain = retrace("generate", *GREEDY, "-p", "go", "--ban", "testament to", "--ban", "sign of",
                    "--on-stuck", "allow").out
    assert without_marks(shown) == plain + "\n"


def without_marks(shown):
    """The terminal's text less what is marked as erased."""
    return re.sub(r"\[-.*?-\]", "", shown)


def test_erased_text_does_not_change_the_answer(retrace):
    for seed in range(12):
        args = ["-m", DATA / "cli_story.json", "-p", "pick", "-n", "30", "-s", seed, "-q",
                "--ban", "112"]
        plain = retrace("generate", *args).out
        shown, _ = retrace.terminal("generate", *args, "--show-erased", env={"NO_COLOR": "1"}).end()
        assert without_marks(shown) == plain + "\n" and "[-" in shown


def test_show_erased_without_a_terminal(retrace):
    refused(retrace(*ERASED), 2, "--show-erased", "terminal")
    shown, code = retrace.terminal(*ERASED, "--json").end()
    assert code == 2 and "--json" in shown


def test_control_characters_do_not_drive_the_terminal(retrace):
    shown, code = retrace.terminal("generate", *GREEDY, "-p", "esc", "-q").end()
    assert (shown, code) == ("\\x1b[31mred\\x07\n", 0)
    shown, _ = retrace.terminal("generate", *GREEDY, "-p", "esc", "-q", "--show-erased", "--ban", "red",
                                "--on-stuck", "stop", env={"NO_COLOR": "1"}).end()
    assert shown == "[-\\x1b[31mred\\x07-]\n"
    shown, _ = retrace.terminal("generate", *GREEDY, "-p", "esc", "-vv").end()
    assert "\033[31m" not in shown and "\a" not in shown


def test_line_breaks_stay_and_none_is_added(retrace):
    shown, _ = retrace.terminal("generate", *GREEDY, "-p", "s", "-q").end()
    assert shown == "yes\n"


def test_characters_are_whole(retrace):
    for args in ([], ["--show-erased"]):
        shown, _ = retrace.terminal("generate", *GREEDY, "-p", "utf", "-q", *args).end()
        assert shown == "\u6b65\n"
        shown, _ = retrace.terminal("generate", *GREEDY, "-p", "cut", "-q", *args).end()
        assert shown == "\ufffd\n"


def test_summary_stands_below_the_answer(retrace):
    shown, _ = retrace.terminal("generate", *GREEDY, "-p", "go").end()
    answer, blank, summary, rest = shown.split("\n")
    assert answer.endswith(" a testament to hope.") and summary.startswith("5 kept, ")
    assert blank == rest == ""


def test_rewinds_are_told_on_lines_of_their_own(retrace):
    shown, _ = retrace.terminal("generate", *GREEDY, "-p", "go", "--ban", "testament to", "-v").end()
    told = 'rewind: " testament to" taken back, 2 tokens, to 1: phrases "testament to"'
    assert told in shown.split("\n")


def test_prompt_is_not_awaited_on_a_terminal(retrace):
    shown, code = retrace.terminal("generate", *GREEDY).end()
    assert code == 2 and "-p TEXT" in shown


def test_prompt_typed_on_purpose(retrace):
    term = retrace.terminal("generate", *GREEDY, "-f", "-", "-q")
    time.sleep(0.2)
    shown, code = term.type(b"go\n\x04").end()
    assert code == 0 and " a testament to hope.\n" in shown


def test_control_c(retrace):
    term = retrace.terminal("generate", *ENDLESS)
    shown, code = term.until(b"ab").type(b"\x03").end()
    assert code == 130
    assert shown.rstrip("\n").split("\n")[-1].split(",")[0].endswith(" kept")


def test_no_progress_where_nobody_looks(retrace):
    done = retrace("generate", *GREEDY, "-p", "go", "-q")
    assert done.err == ""
    shown, _ = retrace.terminal("info", "-m", DATA / "cli_story.json", stderr="/dev/null").end()
    assert "loading" not in shown and "\033" not in shown
