"""retrace chat read twice: the same answers by other ways, and hostile files of /load.

The tiny models have random weights; what they say means nothing, but two ways must say the same.
"""

import json
import os
import pathlib
import random

import pytest

from chatting import GREEDY, TALK, chat, dialogue, saved, spell
from test_chat_promises import HELLO

TINY = pathlib.Path(os.environ.get("RETRACE_TINY", ""))
LONG = "a long message about cats and dogs, told at length. " * 4


@pytest.fixture
def tiny():
    if not (TINY / "dense.gguf").is_file():
        pytest.skip("no tiny models")
    return ["-m", TINY / "dense.gguf", "--chat-template", "chatml", "-c", "2048", "-n", "12"]


@pytest.mark.parametrize("how", [["--temp", "0"], ["--temp", "1", "-s", "5"]])
def test_a_prompt_in_pieces_gives_the_same_answer(retrace, tiny, how):
    texts = set()
    for batch in ("64", "512", "2048"):
        done = chat(retrace, LONG, "and then?", "/retry", flags=[*tiny, *how, "--batch-size", batch])
        assert done.code == 0, done
        texts.add(done.out)
    assert len(texts) == 1


def test_the_first_answer_is_generate_s(retrace, tiny):
    for seed in ("1", "2"):
        flags = [*tiny, "--temp", "1", "-s", seed, "--batch-size", "64"]
        one = retrace("generate", "--chat", "-q", "-p", LONG, *flags)
        text = one.out if one.out.endswith("\n") else one.out + "\n"
        assert chat(retrace, LONG, flags=flags).out == text


def test_back_after_load(retrace):
    lines = ["pick", "/save c.json"]
    flags = ["-m", TALK, "--temp", "1", "-s", "1"]
    chat(retrace, *lines, flags=flags)
    tokens = saved(retrace)["messages"][1]["tokens"]
    done = chat(retrace, "/back 2", "/save d.json", flags=["-m", TALK, "--load", "c.json"])
    assert done.code == 0, done
    assert saved(retrace, "d.json")["messages"][1]["tokens"][: len(tokens) - 2] == tokens[:-2]
    done = chat(retrace, "/back 9", flags=["-m", TALK, "--load", "c.json"])
    assert done.code == 2 and "/back" in done.err


def test_a_message_without_an_answer_is_followed_by_another(retrace):
    """As after Ctrl-C before anything settled."""
    (retrace.tmp / "l.json").write_text(json.dumps({"messages": [{"role": "user", "content": "hello"}]}))
    done = chat(retrace, "again", "/save c.json", flags=[*GREEDY, "--load", "l.json"])
    assert done.code == 0
    assert [r for r, _ in dialogue(saved(retrace))] == ["user", "user", "assistant"]
    assert chat(retrace, "/retry", flags=[*GREEDY, "--load", "l.json"]).out == HELLO + "\n"


# ==== Hostile files ====


def whole(retrace):
    chat(retrace, "hello", "/save c.json", flags=[*GREEDY, "--ban", "testament to"])
    return (retrace.tmp / "c.json").read_bytes()


def refuse_all(retrace, files):
    """Each is refused in at most three lines, and the conversation that was there stays."""
    lines = ["/load %d.json" % i for i in range(len(files))]
    for i, data in enumerate(files):
        (retrace.tmp / ("%d.json" % i)).write_bytes(data)
    done = chat(retrace, "hello", "/save a.json", *lines, "/save b.json")
    assert done.code == 2 and done.out == HELLO + "\n", done.err[-2000:]
    assert saved(retrace, "a.json") == saved(retrace, "b.json")
    for i in range(len(files)):
        assert 1 <= sum(("%d.json:" % i) in w for w in done.err.split("\n")), (i, files[i][:200])
    assert "Sanitizer" not in done.err and len(done.err.split("\n")) <= 3 * len(files) + 1


def test_files_cut_off_anywhere(retrace):
    data = whole(retrace).rstrip()
    refuse_all(retrace, [data[:n] for n in range(len(data))])


VALUES = [None, True, -1, 1.5, 2**62, "", "x", [], [[]], {}, {"x": 1}, [None], "\u0000"]


def places(json_value, path=()):
    yield path
    items = json_value.items() if isinstance(json_value, dict) else enumerate(json_value) if isinstance(json_value, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def put(json_value, path, value):
    if not path:
        return value
    copy = json.loads(json.dumps(json_value))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return copy


def test_values_of_other_kinds_anywhere(retrace):
    """Refused or taken, never a crash; what is taken can be saved and loaded."""
    file, rng = json.loads(whole(retrace)), random.Random(1)
    lines = []
    for i, (path, value) in enumerate((p, rng.choice(VALUES)) for p in places(file) for _ in range(3)):
        (retrace.tmp / ("%d.json" % i)).write_text(json.dumps(put(file, path, value)))
        lines += ["/load %d.json" % i, "/save again.json", "/load again.json"]
    done = chat(retrace, *lines)
    assert done.code in (0, 2) and done.out == "" and "Sanitizer" not in done.err, done.err[-3000:]
    assert "again.json" not in done.err, [w for w in done.err.split("\n") if "again.json" in w]


def test_tokens_that_are_not_the_content_s(retrace):
    file = json.loads(whole(retrace))
    good = file["messages"][1]["tokens"]
    control = [i for i in range(200) if i not in spell(HELLO)]
    bad = [good[:-1], [*good, good[0]], [-1], [2**31], [2**31 - 1], [1.5], ["1"], [None], [[1]], good[::-1]]
    bad += [[*good, i] for i in control[:40]]
    refuse_all(retrace, [json.dumps(put(file, ("messages", 1, "tokens"), t)).encode() for t in bad])


def test_deep_and_large_files(retrace):
    deep = b'{"messages": ' + b"[" * 100000
    wide = json.dumps({"messages": [{"role": "user", "content": "hello"}] * 20000 + [{"role": "x", "content": ""}]}).encode()
    long = json.dumps({"messages": [{"role": "user", "content": "hello", "no": "y" * 3000000}]}).encode()
    refuse_all(retrace, [deep, b"[" * 3000 + b"]" * 3000, wide, long])
    with open(retrace.tmp / "huge.json", "wb") as f:
        f.truncate(65 << 20)
    done = chat(retrace, "/load huge.json", "hello")
    assert done.code == 2 and "huge.json" in done.err and done.out == HELLO + "\n"
