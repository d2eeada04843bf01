"""retrace chat with models of random weights: a prompt that is read in pieces, and gone on with.

RETRACE_TINY is the folder of the models that tests/tiny_gguf.py writes. A prompt longer than one batch is
read in pieces; the answer must be the one of `generate`, which reads it in one go, bit for bit: at
temperature 1 another bit is soon another token.
"""

import json
import os
import re

import pytest

from chatting import CTRL_C, CTRL_D, Person, chat, saved

TINY = os.environ.get("RETRACE_TINY", "")
pytestmark = pytest.mark.skipif(not TINY, reason="RETRACE_TINY is not set")
LONG = " ".join(str(i) for i in range(40))


def flags(name, batch):
    more = ["--chat-template", "chatml"] if name == "recurrent.gguf" else []
    return ["-m", os.path.join(TINY, name), "--batch-size", batch, "--temp", "1", "-s", "3", "-n", "20", *more]


@pytest.mark.parametrize("name", ["dense.gguf", "recurrent.gguf", "swa.gguf"])
@pytest.mark.parametrize("batch", [7, 16, 512])
def test_a_prompt_in_pieces_is_that_of_one_go(retrace, name, batch):
    done = chat(retrace, LONG, "/stats", "/save c.json", flags=flags(name, batch))
    assert done.code == 0, done
    n, new = map(int, re.search(r"prompt (\d+) tokens, (\d+) of them new", done.out).groups())
    assert n == new > 100
    one = retrace("generate", "--chat", "-p", LONG, "--json", *flags(name, batch))
    assert one.code == 0, one
    said, one = saved(retrace)["messages"][1], json.loads(one.out)
    assert said["content"] == one["text"]
    # a control token has no text, so it is no part of a message
    assert len(said["tokens"]) <= len(one["tokens"]) and set(said["tokens"]) <= set(one["tokens"])


@pytest.mark.parametrize("batch", [7, 512])
def test_back_after_load_is_back(retrace, batch):
    """The tokens are put one by one; what is drawn behind them has other draws, and is the same each time."""
    begin = flags("dense.gguf", batch)
    assert chat(retrace, LONG, "/save a.json", flags=begin).code == 0
    first = saved(retrace, "a.json")["messages"][1]["tokens"]
    texts = []
    for i in range(2):
        done = chat(retrace, "/load a.json", "/back 5", "/save b%d.json" % i, flags=begin)
        assert done.code == 0, done
        texts.append(saved(retrace, "b%d.json" % i)["messages"][1]["tokens"])
    assert texts[0] == texts[1] and texts[0][: len(first) - 5] == first[:-5]


@pytest.mark.parametrize("batch", [7, 512])
def test_a_loaded_conversation_goes_on_as_it_would_have(retrace, batch):
    begin = flags("dense.gguf", batch)
    chat(retrace, LONG, "/save a.json", "and then", "/save whole.json", flags=begin)
    chat(retrace, "/load a.json", "and then", "/save parts.json", flags=begin)
    assert saved(retrace, "parts.json") == saved(retrace, "whole.json")


def test_control_c_between_pieces(retrace):
    """A batch of one token: the status line tells how far it is; what was said stays and can be answered."""
    p = Person(retrace.tmp, *flags("dense.gguf", 1), rows=12)
    try:
        p.ready().type(" ".join([LONG] * 8), b"\r").until(lambda p: b"reading " in p.raw)
        p.type(CTRL_C).until("stopped").ready()
        assert "reading" not in p.text()
        p.say("/save c.json")
        assert [m["role"] for m in saved(retrace)["messages"]] == ["user"]
        p.type("/undo\r").until("1 turn taken back, 0 left").ready()
        assert p.type(CTRL_D).end() == 0
    finally:
        p.stop()
