"""The program on small models whose state cannot be cut: a rewind is right, and its cost is reported.

RETRACE_TINY is the folder of the models that tests/tiny_gguf.py writes.
"""
import os
import re
import string

import pytest

TINY = os.environ.get("RETRACE_TINY", "")
LONG = ["-n", "60", "-s", "3", "--temp", "1.2", "--ignore-eos", "--json", "--on-stuck", "stop"]

pytestmark = pytest.mark.skipif(not TINY, reason="RETRACE_TINY is not set")


def model(name):
    return os.path.join(TINY, name + ".gguf")


def banned(retrace, name):
    """No two letters in a row. Random weights write them all the time, often as two tokens, so that a
    place which the model has evaluated must be left again."""
    letters = string.ascii_lowercase
    (retrace.tmp / "pairs").write_text("".join(a + b + "\n" for a in letters for b in letters))
    done = retrace("generate", "-m", model(name), "-p", "the sting", *LONG, "--ban-file", "pairs")
    assert done.code == 0, done
    assert not re.search("[a-z][a-z]", done.json["text"].lower())
    return done.json


def test_a_dense_model_evaluates_nothing_again(retrace):
    stats = banned(retrace, "dense")["stats"]
    assert stats["rewinds"] > 0 and stats["reevaluated"] == 0
    assert stats["evaluated"] <= stats["kept"] + stats["erased"]


@pytest.mark.parametrize("name, how", [("recurrent", "snapshot"), ("hybrid", "snapshot")])
def test_a_running_state_is_put_back_and_the_repeats_are_counted(retrace, name, how):
    assert retrace("info", "-m", model(name), "--json").json["rewind"] == how
    stats = banned(retrace, name)["stats"]
    assert stats["rewinds"] > 0 and stats["reevaluated"] > 0


def test_an_unknown_chat_template_is_named(retrace):
    done = retrace("generate", "-m", model("hybrid"), "--chat", "-p", "hi", "-n", "4")
    assert done.code == 3 and not done.out
    assert "a template of no known family" in done.err
