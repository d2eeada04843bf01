"""Completion for the shells, and that `--help=PAGE` is made from the tables."""
import json
import shutil
import subprocess

import pytest
from conftest import PROGRAM, Terminal, environment

LOOK = """
. ./completion || exit 3
COMP_LINE=$1 COMP_POINT=${#1}
_retrace
printf '%s\\n' "${COMPREPLY[@]}"
"""
BASH = shutil.which("bash")


@pytest.fixture
def look(retrace):
    """look(LINE): the candidates in bash with the cursor at the end of the line."""
    out = retrace("--help=bash")
    assert out.code == 0 and out.err == ""
    (retrace.tmp / "completion").write_text(out.out)

    def complete(line, breaks=" \t\n\"'><=;|&(:"):
        script = "COMP_WORDBREAKS='%s'\n%s" % (breaks.replace("'", "'\\''"), LOOK)
        done = subprocess.run([BASH, "--norc", "-c", script, "bash", line], cwd=retrace.tmp,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stderr == "", done
        return [w.rstrip() for w in done.stdout.splitlines() if w]

    return complete


def flags_of(retrace, *command):
    text = retrace(*command, "--help").out
    return {w.strip(",") for line in text.splitlines() if line.startswith("  -") for w in line.split()[:2]
            if w.startswith("-")}


def test_commands(look, retrace):
    assert look("retrace gen") == ["generate"]
    everything = set(look("retrace "))
    for line in retrace("--help").out.splitlines():
        if line.startswith("  "):
            assert line.split()[0] in everything
    assert sorted(look("retrace bigram ")) == ["--help", "build", "column", "info", "row"]


@pytest.mark.parametrize("command", [["generate"], ["chat"], ["serve"], ["convert"], ["bigram", "build"], ["pairs"]])
def test_flags_are_those_of_the_help(look, retrace, command):
    assert set(look("retrace %s -" % " ".join(command))) - {"-h", "--help"} == flags_of(retrace, *command)


def test_flags_after_a_value_in_quotes(look):
    assert look('retrace generate -p "a b" --ban-f') == ["--ban-file"]


@pytest.mark.parametrize("line, candidates", [
    ("retrace generate --hold ", ["minimal", "all"]),
    ("retrace generate --hold m", ["minimal"]),
    ("retrace generate --hold=a", ["all"]),
    ("retrace pairs --span ", ["same", "full"]),
    ("retrace generate --json=f", ["false"]),
    ("retrace generate --driver g", ["guide"]),
    ("retrace generate -p ", []),
    ("retrace generate --rule phr", ["phrases"]),
    ("retrace generate --operator repe", ["repetition"]),
    ("retrace generate --rule=phr", ["phrases"]),
    ("retrace generate --rule phrases:ma", ["max_count="]),
    ("retrace generate --rule phrases:case", ["case=", "case=fold", "case=exact"]),
    ("retrace generate --rule phrases:word=", ["false", "true", "start"]),
    ("retrace rules repe", ["repetition"]),
    ("retrace nonsense --", []),
])
def test_values(look, line, candidates):
    assert look(line) == candidates


def test_where_colons_do_not_split_words(look):
    assert look("retrace generate --rule phrases:case=e", " \t\n") == ["phrases:case=exact"]
    assert look("retrace generate --hold=a", " \t\n") == ["--hold=all"]


def test_all_rules_are_offered(look, retrace):
    names = [rule["name"] for rule in json.loads(retrace("rules", "--json").out)["rules"]]
    assert look("retrace generate --rule ") == names


def test_files(look, retrace):
    (retrace.tmp / "model.gguf").write_text("")
    (retrace.tmp / "folder").mkdir()
    assert look("retrace generate -m mod") == ["model.gguf"]
    assert look("retrace generate --trace=mod") == ["model.gguf"]
    assert look("retrace replay mod") == ["model.gguf"]
    assert look("retrace generate --hf-cache ") == ["folder"]


def test_in_a_shell(look, retrace):
    shell = Terminal([BASH, "--norc", "--noprofile", "-i"], environment(retrace.tmp, {"PS1": "$ ", "HISTFILE": ""}), None)
    shell.until(b"$ ").type(b"retrace() { printf '<%s>' \"$@\"; echo; }; . " + str(retrace.tmp / "completion").encode() + b"\n")
    shell.until(b"completion").type(b"retrace gen\t--rule phrases:ca\te\t; exit\n")
    text, _ = shell.end()
    assert "<generate><--rule><phrases:case=exact>" in text.replace("\x1b[?2004l", ""), text


def test_an_unknown_page_is_refused(retrace):
    out = retrace("--help=csh")
    assert (out.code, out.out) == (2, "") and "csh" in out.err


@pytest.mark.parametrize("page", ["man", "bash", "zsh", "fish"])
def test_every_flag_is_on_every_page(retrace, page):
    text = retrace("--help=" + page).out.replace("\\-", "-")
    for command in ("generate", "serve", "pull", "convert"):
        for flag in flags_of(retrace, command):
            shown = {"man": flag.lstrip("-"), "fish": " %s " % flag.lstrip("-")}.get(page, flag)
            assert shown in text, (command, flag)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_its_page(retrace, shell):
    if not shutil.which(shell):
        pytest.skip("%s is not installed" % shell)
    (retrace.tmp / "page").write_text(retrace("--help=" + shell).out)
    done = subprocess.run([shell, "-n", "page"], cwd=retrace.tmp, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_is_not_affected_by_the_environment(retrace):
    plain = retrace("--help=man").raw
    assert retrace("--help=man", env={"RETRACE_TEMP": "0.1", "RETRACE_MODEL": "x"}).raw == plain
    assert str(PROGRAM) not in plain.decode()
