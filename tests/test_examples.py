"""The programs in examples/, built with the tests, do what README says."""
import os
import pathlib
import re
import subprocess

BUILD = pathlib.Path(os.environ.get("RETRACE_BUILD", "build"))
STORY = pathlib.Path(__file__).resolve().parent / "data" / "cli_story.json"
TALE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "story.json"


def run(name, *args):
    return subprocess.run([BUILD / "examples" / name, *map(str, args)], capture_output=True, text=True, timeout=60)


def simple(*args):
    return run("simple", *args)


def test_erased_text_is_shown_and_not_in_the_answer():
    free = simple(STORY, "go")
    assert free.returncode == 0, free.stderr
    assert free.stdout.splitlines()[0] in (" a testament to hope.", " a sign of hope.")
    for banned, left in (("TESTAMENT to", " a sign of hope."), ("sign of", " a testament to hope.")):
        ruled = simple(STORY, "go", banned).stdout.splitlines()[0]
        assert re.sub(r"\[-.*?-\]", "", ruled) == left, ruled


def test_a_missing_model_is_named():
    done = simple("nothing.gguf", "a")
    assert done.returncode == 1 and "nothing.gguf" in done.stderr
    assert simple().returncode == 2


def test_texts_end_in_the_suffix():
    done = run("backward", TALE, "-", " house", 4)
    assert done.returncode == 0, done.stderr
    samples = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(samples) == 4
    for line in samples:
        assert re.match(r"\[\d\] .* house   \(log f -", line), line
    assert run("backward", TALE, "-", "", 1).returncode == 1
    assert run("backward").returncode == 2
