"""docs/adding.md is true: its code, added by its steps to a copy of the sources, compiles and works."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = "-std=c11 -Wall -Wextra -Werror -Wconversion -Wshadow -g -Iinclude -Isrc".split()


# Without libcurl and libedit; with the server.
OTHERWISE = ("none.c", "edit.c")

RULES = ["stutter", "climb", "put"]


def blocks():
    text = (ROOT / "docs/adding.md").read_text()
    return dict(re.findall(r"```c (\S+)\n(.*?)```", text, re.S))


def edit(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    for part in ("include", "src", "cli", "server", "chat", "hub"):
        shutil.copytree(ROOT / part, tree / part)
    for name, code in blocks().items():
        (tree / name).write_text(code)
    rules, models = tree / "src/strategies/strategies.h", tree / "src/models/models.h"
    for name in RULES:
        edit(rules, "extern const retrace_rule_type rt_rule_phrases;",
             f"extern const retrace_rule_type rt_rule_phrases;\nextern const retrace_rule_type rt_rule_{name};")
        edit(tree / "src/strategy.c", "&rt_rule_phrases,", f"&rt_rule_phrases, &rt_rule_{name},")
    edit(models, "extern const retrace_backend_type rt_backend_table;",
         "extern const retrace_backend_type rt_backend_table;\n"
         "extern const retrace_backend_type rt_backend_uniform;")
    edit(tree / "src/model.c", "&rt_backend_table", "&rt_backend_table, &rt_backend_uniform")
    sources = [str(p.relative_to(tree)) for pattern in ("src/*.c", "src/*/*.c", "cli/*.c", "server/*.c", "chat/*.c")
               for p in sorted(tree.glob(pattern))
               if not p.name.startswith("llama") and p.name not in OTHERWISE]
    sources.append("hub/none.c")
    libraries = ["-lutf8proc", "-lpcre2-8", "-ljansson", "-lmicrohttpd", "-lm"]
    built = subprocess.run(["cc", *FLAGS, "-pthread", *sources, "-o", "retrace", *libraries],
                           cwd=tree, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return tree / "retrace"


def run(program, *args):
    return subprocess.run([program, *args], capture_output=True, text=True, timeout=60)


def test_the_page_has_its_files():
    assert set(blocks()) == {f"src/strategies/{name}.c" for name in RULES} | {"src/models/uniform.c"}


@pytest.mark.parametrize("name, setting", [("stutter", "most"), ("climb", "max_retries"), ("put", "at")])
def test_rule_is_in_the_catalogue(program, name, setting):
    out = run(program, "rules", name)
    assert out.returncode == 0 and setting in out.stdout


def test_rule_and_back_end_work(program):
    common = ["generate", "-m", "uniform:2", "-p", "ab", "-n", "60", "--seed", "1", "--temp", "1", "-q"]
    free = run(program, *common)
    assert free.returncode == 0, free.stderr
    assert "aaa" in free.stdout or "bbb" in free.stdout
    ruled = run(program, *common, "--rule", "stutter:most=1")
    assert ruled.returncode == 0, ruled.stderr
    assert len(ruled.stdout.strip()) == 60
    assert "aa" not in ruled.stdout and "bb" not in ruled.stdout


def answer(program, *args):
    out = run(program, "generate", "-p", "a", "--seed", "1", "--temp", "1", "--json", *args)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def test_a_soft_rule_gives_in(program):
    free = answer(program, "-m", "uniform:9", "-n", "60")["text"]
    ruled = answer(program, "-m", "uniform:9", "-n", "60", "--rule", "climb")
    falls = [sum(max(0, ord(a) - ord(b)) for a, b in zip(t, t[1:])) for t in (free, ruled["text"])]
    assert falls[1] < falls[0] / 2
    assert ruled["finish"] == "length" and ruled["stats"]["accepted"] >= 1
    loud = ["-m", "uniform:2", "-p", "a", "-n", "9", "--seed", "1", "--temp", "1", "--rule", "climb", "-vv"]
    told = run(program, "generate", *loud).stderr
    assert "falls by 1" in told and "a probable one" in told


def test_forced_text(program):
    put = ["-m", "uniform:9", "-n", "8", "--rule", "put:at=2,text=face"]
    assert answer(program, *put)["text"][2:6] == "face"
    assert answer(program, *put, "--ban", "ce")["text"][2:6] != "face"
    out = run(program, "generate", "-m", "uniform:2", "-p", "a", "--rule", "put")
    assert out.returncode == 2 and "text" in out.stderr


def test_bad_settings_are_named(program):
    out = run(program, "generate", "-m", "uniform:2", "-p", "a", "--rule", "stutter:most=0")
    assert out.returncode == 2 and "most" in out.stderr
    out = run(program, "generate", "-m", "uniform:99", "-p", "a")
    assert out.returncode == 2 and "99" in out.stderr
