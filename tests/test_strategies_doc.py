"""docs/strategies.md is true: a section for every rule and driver, tables of settings as the program has
them, and examples that print what is printed there. UPDATE_DOCS=1 in the environment writes tables and
outputs; read the difference."""

import json
import os
import re
import subprocess

import pytest

from conftest import PROGRAM, ROOT, environment

PAGE = ROOT / "docs" / "strategies.md"
TABLE = re.compile(r"<!-- settings: (\S+) -->\n(.*?)<!-- end -->", re.S)
EXAMPLE = re.compile(r"```console\n\$ ([^\n]*)\n(.*?)```\n", re.S)
SPEEDS = re.compile(r", [\d.]+ tokens/s|, first text after [\d.]+ s")

CATALOGUE = json.loads(subprocess.run([PROGRAM, "rules", "--json"], capture_output=True).stdout or "{}")
PLUGINS = {p["name"]: p for kind in ("rules", "drivers") for p in CATALOGUE.get(kind, [])}


# ==== Tables ====


def kind_of(s):
    words = {"bool": "true or false", "int": "whole number", "real": "number", "text": "text",
             "texts": "text, repeatable", "file": "file, repeatable", "list": "list, repeatable"}  # fmt: skip
    if s["type"] == "choice":
        return " or ".join(f"`{c}`" for c in s["choices"])
    least = "" if s["min"] is None else " from %.12g to %.12g" % (s["min"], s["max"])
    return words[s["type"]] + least


def preset_of(s):
    if s["default"] in (None, [], ""):
        return ""
    if isinstance(s["default"], bool):
        return "`true`" if s["default"] else "`false`"
    return "`%.12g`" % s["default"] if isinstance(s["default"], (int, float)) else f"`{s['default']}`"


def shared():
    """The settings that all operators have alike; they stand in one table."""
    every = [p["settings"] for p in PLUGINS.values() if any(s["name"] == "backtrack_every_n" for s in p["settings"])]
    return [s for s in every[0] if all(s in other for other in every)]


def table(name):
    rows = shared() if name == "operators" else PLUGINS[name]["settings"]
    if name != "operators" and all(s in rows for s in shared()):
        rows = [s for s in rows if s not in shared()]
    if not rows:
        return "It has no settings.\n"
    out = ["| setting | value | preset | |", "| --- | --- | --- | --- |"]
    for s in rows:
        cells = (f"`{s['name']}`", kind_of(s), preset_of(s), s["help"].replace("|", "\\|"))
        out.append("| " + " | ".join(cells).replace("|  |", "| |") + " |")
    return "\n".join(out) + "\n"


# ==== Examples ====


def output_of(command, tmp):
    """What the command prints: its text, then what it says, without speeds."""
    assert command.startswith("retrace "), command
    env = environment(tmp, {})
    env["PATH"] = f"{os.path.dirname(PROGRAM)}:{env['PATH']}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, env=env, timeout=60)
    parts = [p.rstrip("\n") + "\n" for p in (done.stdout, SPEEDS.sub("", done.stderr)) if p]
    return "".join(parts)


def examples():
    return EXAMPLE.findall(PAGE.read_text())


# ==== Tests ====


@pytest.fixture(scope="module", autouse=True)
def rewritten(tmp_path_factory):
    if not os.environ.get("UPDATE_DOCS"):
        return
    tmp = tmp_path_factory.mktemp("docs")
    text = TABLE.sub(lambda m: f"<!-- settings: {m[1]} -->\n{table(m[1])}<!-- end -->", PAGE.read_text())
    text = EXAMPLE.sub(lambda m: f"```console\n$ {m[1]}\n{output_of(m[1], tmp)}```\n", text)
    PAGE.write_text(text)


def test_every_strategy_has_a_section():
    assert PLUGINS
    sections = re.findall(r"^### (\S+)$", PAGE.read_text(), re.M)
    assert sorted(sections) == sorted(PLUGINS)


@pytest.mark.parametrize("name", PLUGINS)
def test_section(name):
    section = re.search(rf"^### {name}\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.M | re.S)[1]
    tables = TABLE.findall(section)
    assert [t[0] for t in tables] == [name]
    assert tables[0][1] == table(name)
    commands = [c for c, _ in EXAMPLE.findall(section)]
    assert any(name in c for c in commands), "no example"
    assert "Law" in section


def test_settings_of_the_operators():
    assert len(shared()) > 4
    assert [t[1] for t in TABLE.findall(PAGE.read_text()) if t[0] == "operators"] == [table("operators")]


@pytest.mark.parametrize("number", range(len(examples())))
def test_example(number, tmp_path):
    command, shown = examples()[number]
    assert "examples/story.json" in command, "an example that cannot be checked"
    assert output_of(command, tmp_path) == shown


def test_length():
    text = PAGE.read_text()
    assert text.count("\n") < 600
    assert text.count("```console") == len(examples()) > len(PLUGINS)
