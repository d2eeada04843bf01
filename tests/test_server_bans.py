"""Bans over HTTP: every field in every form, in both interfaces, in every choice, streamed, together.

The names of tests tell what users of other servers missed: thousands of phrases, bans in all of `n`,
in chats, beside other clients, named lists, a switch. The last part is about the model's own text:
whatever it is, the stream stays a stream.
"""

import concurrent.futures
import json
import random
import signal
import time

import pytest
from serving import WORDS, Server, says_model, serving, words_model

CAT = 256 + WORDS.index(" cat")
MAT = 256 + WORDS.index(" mat")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bans")
    (folder / "base.txt").write_text("# a comment\ncat sat\n\n")
    (folder / "noir.txt").write_bytes(b"\xef\xbb\xbf on a\r\n\"testament to\"\r\n")
    flags = ["--ban-list", "base=base.txt", "--ban-list", "noir=noir.txt", "--parallel", 8]
    s = Server(folder, words_model(), *flags)
    yield s
    s.stop()


# What is sent, and what must not be there. Without the ban each comes in most answers.
FORMS = [
    ({"banned_strings": ["cat"]}, "cat"),
    ({"banned_strings": "cat"}, "cat"),
    ({"banned_strings": ["CAT", "Mat"]}, "cat"),
    ({"banned_strings": ["t sat"]}, "t sat"),  # over the borders of tokens
    ({"banned_strings": ["at a"]}, "at a"),
    ({"banned_strings": ["testament to"]}, "testament to"),
    ({"banned_tokens": ["cat"]}, "cat"),
    ({"banned_tokens": [CAT]}, "cat"),
    ({"banned_tokens": ["mat", CAT]}, "cat"),
    ({"banned_tokens": "%d,%d" % (CAT, MAT)}, "cat"),
    ({"banned_tokens": "%d, %d" % (MAT, CAT)}, "cat"),
    ({"custom_token_bans": "%d" % CAT}, "cat"),
    ({"custom_token_bans": "%d,%d" % (MAT, CAT)}, "cat"),
    ({"custom_token_bans": [CAT]}, "cat"),
    ({"bad_words": ["cat"]}, "cat"),
    ({"bad_words": "cat"}, "cat"),
    ({"banned_regex": ["c.t"]}, "cat"),
    ({"banned_regex": "c[a-z]t"}, "cat"),
    ({"banned_regex": [r"(on|and)\s+the", "x"]}, "on the"),
    ({"banned_regex_case_insensitive": ["C.T"]}, "cat"),
    ({"banned_regex_case_insensitive": "CAT"}, "cat"),
    ({"ban_lists": ["base"]}, "cat sat"),
    ({"ban_lists": "base"}, "cat sat"),
    ({"ban_lists": ["noir", "base"]}, " on a"),
    ({"ban_lists": ["noir"], "banned_strings": ["cat"]}, "cat"),
    ({"logit_bias": {str(CAT): -100}}, "cat"),
    ({"logit_bias": {str(CAT): False}}, "cat"),
    ({"logit_bias": [[CAT, False]]}, "cat"),
    ({"logit_bias": [[" cat", False]]}, "cat"),
    ({"logit_bias": [[CAT, -100]]}, "cat"),
    ({"logit_bias": {" cat": -100}}, "cat"),
    ({"rules": [{"name": "phrases", "text": ["cat"]}]}, "cat"),
    ({"rules": [{"name": "phrases", "text": ["cat"], "case": "exact"}]}, "cat"),
    ({"rules": [{"name": "regex", "pattern": ["c.t"]}]}, "cat"),
]
IDS = [json.dumps(f)[:50] for f, _ in FORMS]
SHAPES = ["completions", "chat", "llama"]


def texts(server, shape, body, stream=False):
    """The texts of all choices."""
    if shape == "completions":
        path, sent = "/v1/completions", dict(body, prompt="go")
    elif shape == "chat":
        path, sent = "/v1/chat/completions", dict(body, messages=[{"role": "user", "content": "go"}])
    else:
        path, sent = "/completion", dict(body, prompt="go")
    if not stream:
        answer = server.post(path, sent)
        assert answer.status == 200, answer
        if shape == "llama":
            return [answer.json["content"]]
        choices = sorted(answer.json["choices"], key=lambda c: c["index"])
        return [c["text"] if shape == "completions" else c["message"]["content"] for c in choices]
    events = server.stream(path, sent)
    assert events.status == 200, events
    got = {}
    for event in events:
        assert "error" not in event, event
        if shape == "llama":
            got[0] = got.get(0, "") + event["content"]
            continue
        for c in event["choices"]:
            piece = c["text"] if shape == "completions" else c["delta"].get("content") or ""
            got[c["index"]] = got.get(c["index"], "") + piece
    assert shape == "llama" or events.done
    return [got[i] for i in range(len(got))]


def test_without_a_ban_it_is_there(server):
    """Else the tests below could not fail."""
    for word in {word for _, word in FORMS}:
        seen = [texts(server, "completions", {"max_tokens": 60, "seed": s, "ignore_eos": True})[0]
                for s in range(40)]
        assert any(word in text for text in seen), word


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fields,word", FORMS, ids=IDS)
def test_every_form(server, fields, word, shape):
    for seed in range(3):
        more = {"max_tokens": 60, "seed": seed, "ignore_eos": True}
        if shape != "llama":
            more["n"] = 3
        whole = texts(server, shape, dict(fields, **more))
        assert not any(word in text.lower() for text in whole), whole
        assert all(len(text) > 60 for text in whole)
        if shape != "llama":
            assert len(set(whole)) > 1
    # "hold" is another when streamed, so only what is written matters, not that it is the same.
    streamed = texts(server, shape, dict(fields, **more), stream=True)
    assert not any(word in text.lower() for text in streamed), streamed
    same = texts(server, shape, dict(fields, hold="minimal", **more))
    assert streamed == same


def test_a_switch_keeps_the_list_and_does_not_use_it(server):
    body = {"max_tokens": 60, "seed": 1, "ignore_eos": True}
    off = dict(body, banned_strings=["cat"], banned_regex=["mat"], bans_enabled=False)
    assert texts(server, "completions", off) == texts(server, "completions", body)
    on = dict(off, bans_enabled=True)
    assert "cat" not in texts(server, "completions", on)[0]


def test_five_thousand_phrases(server):
    phrases = ["never %d" % i for i in range(4999)] + ["cat sat"]
    for seed in range(4):
        text = texts(server, "chat", {"banned_strings": phrases, "seed": seed, "max_tokens": 80})[0]
        assert "cat sat" not in text
    answer = server.post("/v1/completions", {"prompt": "go", "banned_strings": ["x"] * 10001})
    assert answer.status == 400 and "10000" in answer.error["message"]


def test_two_hundred_seeds(server):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        body = {"banned_strings": ["testament to", "the cat"], "max_tokens": 40}
        jobs = [pool.submit(texts, server, "completions", dict(body, seed=s)) for s in range(200)]
        for job in jobs:
            text = job.result()[0]
            assert "testament to" not in text and "the cat" not in text


def test_what_cannot_be_is_told(server):
    every = [str(i) for i in range(256, 256 + len(WORDS) + 1)]
    body = {"prompt": "go", "max_tokens": 5, "banned_tokens": ",".join(every)}
    answer = server.post("/v1/completions", body)
    assert answer.status == 200, answer
    assert answer.json["choices"][0]["finish_reason"] == "content_filter"
    assert answer.json["retrace"]["finish"] == "stuck"
    assert answer.json["choices"][0]["text"] == ""


def test_hits_are_counted(server):
    a = server.complete("go", banned_strings=["cat"], max_tokens=60, seed=1, ignore_eos=True)
    told = a["retrace"]
    assert told["stats"]["rewinds"] > 0 and told["stats"]["kept"] == 60
    assert a["usage"]["completion_tokens"] == 60
    hits = sum(r["hits"] for r in told["rules"] if r["name"] == "phrases")
    assert hits >= told["stats"]["rewinds"] > 0


# ==== Together ====


def rules_of(i):
    """Something of its own for each of many clients."""
    chance = random.Random(i)
    words = [w.strip() for w in WORDS if w.strip(" .")]
    return [
        {},
        {"banned_strings": chance.sample(words, 3)},
        {"banned_regex": ["%s.*%s" % tuple(chance.sample(words, 2))]},
        {"rules": [{"name": "repetition", "max_repetitions": 1}]},
        {"banned_tokens": [256 + chance.randrange(len(WORDS))], "temperature": 0.7},
        {"ban_lists": ["base", "noir"], "top_k": 5},
        {"banned_strings": ["the " + chance.choice(words)], "resample": "exact"},
    ][i % 7]


def test_sixty_four_together_are_what_each_is_alone(server):
    bodies = []
    for i in range(64):
        more = {"max_tokens": 40, "seed": i, "n": 1 + i % 3}
        bodies.append((SHAPES[i % 2], dict(rules_of(i), **more), i % 5 == 0))
    alone = [texts(server, *b) for b in bodies]
    for _ in range(2):
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            together = list(pool.map(lambda b: texts(server, *b), bodies))
        assert together == alone


def test_a_long_list_is_compiled_once(tmp_path):
    """Finished answers are kept; each with a list of its own would be 17 MiB."""
    lines = "".join("word%d other%d\n" % (i, i * 7 % 9973) for i in range(50000))
    (tmp_path / "long.txt").write_text(lines + "cat sat\n")
    with serving(tmp_path, words_model(), "--ban-list", "long=long.txt") as s:
        fields = {"max_tokens": 60, "ban_lists": ["long"], "ignore_eos": True}
        s.complete(seed=0, **fields)
        before = s.rss()
        hits = 0
        for seed in range(24):
            a = s.complete(seed=seed, **fields)
            assert "cat sat" not in a["choices"][0]["text"]
            hits += a["retrace"]["rules"][0]["hits"]
        assert hits > 0
        assert s.rss() - before < 24 * 8 * 1024
        # Another rule, though most of it is the same.
        for seed in range(4):
            text = s.complete(seed=seed, banned_strings=["mat"], **fields)["choices"][0]["text"]
            assert "mat" not in text and "cat sat" not in text


@pytest.mark.parametrize("seconds", [0, 0.001, 0.005, 0.02, 0.1])
def test_who_leaves_harms_nobody(server, seconds):
    body = {"max_tokens": 1500, "seed": 3, "ignore_eos": True, "banned_strings": ["cat"]}
    short = dict(body, max_tokens=50)
    want = texts(server, "completions", short)
    for stage in range(4):
        events = server.stream("/v1/completions", dict(body, prompt="go"))
        for _ in zip(range(stage), events):
            pass
        time.sleep(seconds)
        events.leave()
        assert texts(server, "completions", short) == want
    assert server.quiet(10) < 10


def test_lists_are_read_again(server):
    body = {"ban_lists": ["base"], "max_tokens": 60, "seed": 2, "ignore_eos": True}
    assert "cat sat" not in texts(server, "completions", body)[0]
    path = "/proc/%d/cwd/base.txt" % server.process.pid
    with open(path, "w") as f:
        f.write("dog\n")
    server.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 10
    while "dog" in texts(server, "completions", body)[0]:
        assert time.monotonic() < end, "the list was not read again"
        time.sleep(0.02)
    with open(path, "w") as f:
        f.write("cat sat\n")
    server.process.send_signal(signal.SIGHUP)
    answer = server.post("/v1/completions", {"prompt": "go", "ban_lists": ["nothing"]})
    assert answer.status == 400 and "base" in answer.error["message"]


# ==== Rewinding by hand ====


def test_another_token_at_a_place(server):
    a = server.complete("go", max_tokens=30, seed=5, ignore_eos=True, return_token_ids=True)
    tokens = a["choices"][0]["text"]
    for keep in (0, 7, 29):
        answer = server.post("/v1/rewind", {"id": a["id"], "keep": keep, "token": " mat"})
        assert answer.status == 200, answer
        again = answer.json
        text = again["choices"][0]["text"]
        assert again["id"] == a["id"] and text.startswith(" mat")
        assert again["retrace"]["keep"] == keep
        a = again if keep == 29 else server.complete(
            "go", max_tokens=30, seed=5, ignore_eos=True, return_token_ids=True
        )
        if keep != 29:
            assert a["choices"][0]["text"] == tokens


def test_alternatives(server):
    a = server.complete("go", max_tokens=12, seed=5, ignore_eos=True, banned_tokens=[CAT])
    answer = server.get("/v1/completions/%s/alternatives?pos=0&k=20" % a["id"])
    assert answer.status == 200, answer
    got = answer.json
    assert got["pos"] == 0 and a["choices"][0]["text"].startswith(got["prefix"])
    rest = a["choices"][0]["text"][len(got["prefix"]):]
    assert rest.startswith(got["kept"]["text"])
    listed = {x["id"]: x for x in got["alternatives"]}
    assert listed[CAT]["banned"] and not listed[MAT]["banned"]
    logps = [x["logprob"] for x in got["alternatives"]]
    assert logps == sorted(logps, reverse=True)
    # A phrase is banned where it was found, and nowhere else.
    for seed in range(100):
        a = server.complete("go", max_tokens=1, seed=seed, banned_strings=["cat"])
        listed = server.get("/v1/completions/%s/alternatives?pos=0&k=20" % a["id"]).json
        banned = [x["id"] for x in listed["alternatives"] if x["banned"]]
        assert banned == ([CAT] if a["retrace"]["stats"]["erased"] else [])
        if banned:
            return
    raise AssertionError("the phrase was never drawn")


def test_another_keys_completion_is_not_there(tmp_path):
    with serving(tmp_path, words_model(), "--api-key", "one", "--api-key", "two") as s:
        one, two = ({"X-Api-Key": k} for k in ("one", "two"))
        a = s.complete("go", one, max_tokens=5, ignore_eos=True)
        body = {"id": a["id"], "keep": 2, "token": " mat"}
        assert s.post("/v1/rewind", body, two).status == 404
        path = "/v1/completions/%s/alternatives?pos=1" % a["id"]
        assert s.get(path, two).status == 404 and s.get(path, one).status == 200
        assert s.post("/v1/rewind", body, one).status == 200


# ==== The model's own text never breaks the stream ====

NASTY = [
    b'"', b"\\", b"\n\n", b"data: [DONE]\n\n", b"\r\n", b"\0", b"\x1b[31m", b"\x7f",
    bytes(range(1, 32)), "\u2028\u2029".encode(), "\ufeff".encode(), b'"}]}\n\ndata: {"x":1}\n\n',
    b"</script><script>alert(1)</script>", b"event: rewind\n", b": comment\n", b"id: 1\nretry: 1\n",
    "\U0001f600\u00e9\u6b65".encode(), "\ud7ff\ue000\uffff\U0010ffff".encode(),
]
BROKEN = [
    b"\xff", b"\xfe\xff", b"\xc3", b"\xa9", b"\xe6\xad", b"\xa5", b"\xf0\x9f", b"\x98\x80",
    b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\xffb", b"\xe6", b"\n\n\xff\n\n",
]


def as_text(pieces):
    return b"".join(pieces).decode("utf-8", "replace")


@pytest.mark.parametrize("logprobs", [False, True], ids=["plain", "logprobs"])
@pytest.mark.parametrize("pieces", [NASTY, BROKEN, NASTY + BROKEN], ids=["nasty", "broken", "both"])
def test_no_text_breaks_the_stream(tmp_path, pieces, logprobs):
    want = as_text(pieces)
    more = {"max_tokens": 100, "temperature": 0}
    with serving(tmp_path, says_model(*pieces)) as s:
        for shape in SHAPES:
            logs = {"logprobs": 2} if shape == "completions" else {"logprobs": True, "top_logprobs": 2}
            body = dict(more, **(logs if logprobs and shape != "llama" else {}))
            whole = texts(s, shape, body)
            streamed = texts(s, shape, body, stream=True)
            events = texts(s, shape, dict(body, retrace={"events": True}), stream=True)
            assert whole == streamed == events
            if pieces is NASTY:
                assert whole == [want]
            else:  # how many U+FFFD stand for broken bytes is a matter of taste
                assert whole[0].replace("\ufffd", "") == want.replace("\ufffd", "")
                assert "\ufffd" in whole[0]


def test_the_bytes_of_tokens_are_told(tmp_path):
    with serving(tmp_path, says_model(*BROKEN)) as s:
        a = s.chat("go", max_tokens=100, temperature=0, logprobs=True, top_logprobs=1)
        entries = a["choices"][0]["logprobs"]["content"]
        assert [bytes(e["bytes"]) for e in entries] == BROKEN


def test_control_tokens_of_a_user_are_text(tmp_path):
    """A user who writes the name of a control token has not said it."""
    with serving(tmp_path, words_model()) as s:
        as_is = s.chat("<|bot|>", max_tokens=1)["usage"]["prompt_tokens"]
        assert as_is == 2 + len("<|bot|>")
        raw = s.complete("<|bot|>", max_tokens=1)["usage"]["prompt_tokens"]
        assert raw == 1


def test_small_pieces_of_a_character_wait(tmp_path):
    pieces = [bytes([b]) for b in "h\u00e9\u6b65\U0001f600!".encode()]
    with serving(tmp_path, says_model(*pieces)) as s:
        events = list(s.stream("/v1/completions", {"prompt": "go", "max_tokens": 50}))
        parts = [c["text"] for e in events for c in e["choices"] if c["text"]]
        assert "".join(parts) == "h\u00e9\u6b65\U0001f600!" and len(parts) == 5
        assert "\ufffd" not in json.dumps(events)


def test_ids_are_never_the_same(server):
    assert len({server.complete("go", max_tokens=1)["id"] for _ in range(50)}) == 50
