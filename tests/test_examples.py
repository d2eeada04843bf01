"""examples/simple.c, built with the tests, does what README says."""
import os
import pathlib
import re
import subprocess

BUILD = pathlib.Path(os.environ.get("RETRACE_BUILD", "build"))
STORY = pathlib.Path(__file__).resolve().parent / "data" / "cli_story.json"


def simple(*args):
    return subprocess.run([BUILD / "examples" / "simple", *map(str, args)], capture_output=True, text=True, timeout=60)


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
