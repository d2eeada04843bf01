"""The programs of examples/ do what their first lines say."""
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIMPLE = pathlib.Path(os.environ.get("RETRACE_BUILD", ROOT / "build")) / "examples" / "simple"
STORY = ROOT / "tests" / "data" / "cli_story.json"


def simple(*args):
    return subprocess.run([SIMPLE, *args], capture_output=True, text=True, timeout=60)


def test_without_a_ban():
    done = simple(STORY, "go")
    assert done.returncode == 0, done
    assert done.stdout in (" a testament to hope.\n(end)\n", " a sign of hope.\n(end)\n")


def test_what_is_banned_is_taken_back():
    done = simple(STORY, "go", "testament to")
    assert done.returncode == 0, done
    assert re.sub(r"\[-.*?-\]", "", done.stdout) == " a sign of hope.\n(end)\n"
    assert re.findall(r"\[-.*?-\]", done.stdout) == ["[- testament to-]"]


def test_a_missing_model_is_named():
    done = simple("nowhere.json", "go")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("simple: ") and "nowhere.json" in done.stderr


def test_usage():
    assert simple().returncode == 2
