"""What clients read: chunks, joined, are the whole answer, in all three shapes and whatever is
asked for with it; numbers, offsets and traces are right; what a model writes never breaks the JSON.
"""

import itertools
import json
import math
import random
import subprocess

import pytest

import conftest
import serving

# Pieces of characters, line ends of all kinds, quotes, controls, bytes that are no UTF-8.
OWN = [
    {"text": "a"},
    {"text": " b"},
    {"text": "\n"},
    {"text": '"q"'},
    {"bytes": [0xE6, 0xAD]},
    {"bytes": [0xA3]},
    {"bytes": [0xF0, 0x9F]},
    {"bytes": [0x98, 0x80]},
    {"text": "\u2028\u2029\u0085"},
    {"text": "\x01\t\\\x7f\r"},
    {"text": "STOP now"},
    {"text": "xST"},
    {"text": "OP"},
    {"bytes": [0xFF]},
    {"text": "é"},
    {"bytes": [0]},
]
SHAPES = ("/v1/completions", "/v1/chat/completions", "/completion")
TIMES = ("first_text_s", "seconds", "tokens_per_s")


def awkward():
    n = len(OWN)
    weights = {str(256 + i): 1 + i % 4 for i in range(n)}
    weights[str(256 + n)] = 0.5
    rows = [{"context": [], "next": weights}]
    for begin, rest in ((4, 5), (6, 7)):
        rows.append({"context": [256 + begin], "next": {str(256 + rest): 5, "256": 1, "255": 1}})
    tokens = serving.BYTES + OWN + [serving.END]
    return {"tokens": tokens, "rows": rows, "n_ctx": 512}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving.serving(tmp_path_factory.mktemp("answers"), awkward()) as s:
        yield s


# ==== One request, streamed and whole ====


def body_of(path, fields, prompt="go"):
    # Streams hold less back than whole answers do, unless the request says how much.
    body = dict({"max_tokens": 24, "hold": "minimal", "seed": 1}, **fields)
    if path == SHAPES[1]:
        body["messages"] = [{"role": "user", "content": prompt}]
        if "logprobs" in body:
            body["top_logprobs"] = body["logprobs"]
            body["logprobs"] = True
    else:
        body["prompt"] = prompt
    if path == SHAPES[2] and "logprobs" in body:
        body["n_probs"] = body.pop("logprobs")
    return body


def whole(server, path, body):
    answer = server.post(path, body)
    assert answer.status == 200, answer
    return serving.strictly(answer.body.decode())


def chunks(server, path, body, shape=None):
    """All chunks; [DONE] is there where it belongs, and no line ends where none should."""
    answer = server.post(path, dict(body, stream=True))
    assert answer.status == 200, answer
    text = answer.body.decode()
    assert not set("\r\u2028\u2029\u0085") & set(text)
    events = [e for e in text.split("\n\n") if not e.startswith(":")]
    assert events.pop() == ""
    assert all(e.startswith("data: ") and "\n" not in e for e in events)
    data = [e[6:] for e in events]
    assert (data[-1] == "[DONE]") == ((shape or path) != SHAPES[2])
    return [serving.strictly(d) for d in data if d != "[DONE]"]


def comparable(report, again):
    """Without times and what the model held already; a run that is taken up `again` and again knows more each time."""
    report = json.loads(json.dumps(report))
    for name in TIMES + ("prompt_evaluated",) + (("evaluated", "reevaluated", "erased", "rewinds") if again else ()):
        report["stats"].pop(name)
    return report


def choice_of(chunk):
    return chunk["choices"][0] if "choices" in chunk else chunk


def text_of(choice):
    if "delta" in choice:
        return choice["delta"].get("content", "")
    if "message" in choice:
        return choice["message"]["content"]
    return choice.get("text", choice.get("content"))


def entries_of(choice):
    """Of a chunk or a choice, one a token; None: there are none."""
    set_ = choice.get("logprobs", choice.get("completion_probabilities"))
    if set_ is None or isinstance(set_, list):
        return set_
    if "content" in set_:
        return set_["content"]
    names = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    assert set(set_) == set(names)
    return list(zip(*(set_[n] for n in names)))


def compare_choice(body, mine, choice, report):
    """One choice of a stream with the same one of a whole answer."""
    parts = [choice_of(c) for c in mine]
    assert "".join(text_of(p) for p in parts) == text_of(choice)
    each = [entries_of(p) for p in parts if entries_of(p) is not None]
    assert [e for es in each for e in es] == (entries_of(choice) or [])
    assert all(len(e) == 1 for e in each), "one chunk a token"
    if "finish_reason" in choice:
        reasons = [p["finish_reason"] for p in parts]
        assert reasons == [None] * (len(parts) - 1) + [choice["finish_reason"]]
    else:
        assert [p["stop"] for p in parts] == [False] * (len(parts) - 1) + [True]
    last = dict(mine[-1]["retrace"])
    last.pop("choice", None)
    last.pop("ops", None)
    report = dict(report)
    trace = report.pop("trace", None)
    assert comparable(last, "id" in body) == comparable(report, "id" in body)
    if body.get("retrace"):
        ops = [op for c in mine for op in c.get("retrace", {}).get("ops", [])]
        assert ops == trace
        assert [op["seq"] for op in ops] == list(range(len(ops)))
        assert ops[0]["op"] == "start" and ops[-1]["op"] == "done"
    else:
        assert trace is None and not any("retrace" in c for c in mine[:-1])


def compare(server, path, body, target=None):
    """The whole answer, after it was compared with the stream; `target`: what is asked instead of
    path, whose shape the answer has."""
    answer = whole(server, target or path, body)
    stream = chunks(server, target or path, body, path)
    if path == SHAPES[2]:
        choices = answer if isinstance(answer, list) else [answer]
        n = len(choices)
    else:
        choices, n = answer["choices"], len(answer["choices"])
        same = [(c["object"], c["created"], c["model"], c["system_fingerprint"]) for c in stream]
        assert len(set(same)) == 1 and len({c["id"] for c in stream}) == 1
        if "stream_options" in body:
            usage = stream.pop()
            assert usage["choices"] == [] and all(c["usage"] is None for c in stream)
            for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
                assert usage["usage"][name] == answer["usage"][name]
        else:
            assert not any("usage" in c for c in stream)
    assert [c["index"] for c in choices] == list(range(n))
    for i, choice in enumerate(choices):
        mine = [c for c in stream if choice_of(c)["index"] == i]
        compare_choice(body, mine, choice, answer["retrace"] if n == 1 else choice["retrace"])
    return answer


EXTRAS = list(itertools.product((None, 0, 3), (1, 3), (False, True)))


@pytest.mark.parametrize("path", SHAPES)
@pytest.mark.parametrize("logprobs,n,events", EXTRAS)
def test_a_stream_is_the_whole_answer(server, path, logprobs, n, events):
    chance = random.Random("%s %s %s %s" % (path, logprobs, n, events))
    fields = {"n": n}
    if logprobs is not None:
        fields["logprobs"] = logprobs
    if events:
        fields["retrace"] = {"events": True}
    for seed in range(6):
        more = dict(fields, seed=seed, max_tokens=chance.choice((1, 9, 30)))
        if chance.random() < 0.5:
            more["stop"] = chance.choice((["STOP"], ["xSTOP", "q"], [" b"]))
        if chance.random() < 0.5:
            more["banned_strings"] = ["ab", 'a"']
        if chance.random() < 0.5:
            more["stream_options"] = {"include_usage": True}
        more["hold"] = chance.choice(("all", "minimal"))
        if path == SHAPES[0] and chance.random() < 0.5:
            more["echo"] = True
        prompt = chance.choice(("go", "é\n", "x" * 30))
        if path == SHAPES[2]:
            more.pop("n")  # has one choice
        compare(server, path, body_of(path, more, prompt))


# ==== What is in it ====


def test_offsets_and_texts_of_tokens(server):
    for seed in range(20):
        body = body_of(SHAPES[0], {"logprobs": 1, "seed": seed, "echo": seed % 2 == 1}, "né")
        stream, at = chunks(server, SHAPES[0], body), 0
        for choice in map(choice_of, stream):
            if choice["logprobs"]:
                assert choice["logprobs"]["text_offset"] == [at]
                token = choice["logprobs"]["tokens"][0]
                if not token.startswith("bytes:") and "\ufffd" not in choice["text"]:
                    assert choice["text"] == token
            at += len(choice["text"])


def test_bytes_of_tokens_spell_the_text(server):
    for seed in range(20):
        body = body_of(SHAPES[1], {"logprobs": 2, "seed": seed})
        choice = whole(server, SHAPES[1], body)["choices"][0]
        entries = choice["logprobs"]["content"]
        assert choice["logprobs"]["refusal"] is None
        spelt = b"".join(bytes(e["bytes"]) for e in entries).decode("utf-8", "replace")
        assert spelt == choice["message"]["content"]
        for e in entries:
            broken = bytes(e["bytes"]).decode("utf-8", "replace").count("\ufffd")
            if broken:
                assert e["token"].startswith("bytes:\\x")
            else:
                assert e["token"].encode() == bytes(e["bytes"])
            best, second = (t["logprob"] for t in e["top_logprobs"])
            assert best >= max(e["logprob"], second)


def test_echo_has_an_entry_for_each_token(server):
    """What lm-eval reads: the prompt's entries first, the first without a value, and the argmax."""
    weights = awkward()["rows"][0]["next"]
    total = sum(weights.values())
    fields = {"logprobs": 1, "echo": True, "temperature": 0, "max_tokens": 1}
    body = body_of(SHAPES[0], fields, "ab a")
    answer = whole(server, SHAPES[0], body)
    logprobs = answer["choices"][0]["logprobs"]
    n = answer["usage"]["prompt_tokens"]
    assert answer["choices"][0]["text"].startswith("ab a")
    assert len(logprobs["tokens"]) == n + 1 and logprobs["text_offset"][0] == 0
    assert "".join(logprobs["tokens"][:n]) == "ab a"
    for value, top in zip(logprobs["token_logprobs"][1:], logprobs["top_logprobs"][1:]):
        assert value is not None and value <= max(top.values())
        best = max(weights.values()) / total
        assert math.isclose(max(top.values()), math.log(best), abs_tol=1e-5)


def test_echo_alone_draws_nothing(server):
    body = body_of(SHAPES[0], {"logprobs": 1, "echo": True, "max_tokens": 0}, "ab")
    answer = compare(server, SHAPES[0], body)
    assert answer["choices"][0]["text"] == "ab" and answer["usage"]["completion_tokens"] == 0
    assert answer["choices"][0]["finish_reason"] == "length"


def test_a_character_cut_by_the_end(tmp_path):
    model = serving.says_model("x", [0xF0, 0x9F], ends=True)
    with serving.serving(tmp_path, model) as s:
        for path in SHAPES:
            answer = compare(s, path, body_of(path, {}))
            choice = answer if path == SHAPES[2] else answer["choices"][0]
            assert text_of(choice) == "x\ufffd"


def test_usage_counts_prompts_once_and_choices_each(server):
    body = body_of(SHAPES[0], {"n": 2, "seed": 3}, ["x" * 40, "y"])
    answer = compare(server, SHAPES[0], body)
    usage = answer["usage"]
    kept = [c["retrace"]["stats"]["kept"] for c in answer["choices"]]
    assert usage["prompt_tokens"] == 41 and usage["completion_tokens"] == sum(kept)
    assert usage["total_tokens"] == 41 + sum(kept)
    assert answer["retrace"]["finish"] == [c["retrace"]["finish"] for c in answer["choices"]]
    assert answer["retrace"]["stats"]["kept"] == sum(kept)


def test_stopping_word(server):
    found = 0
    for seed in range(40):
        body = body_of(SHAPES[2], {"seed": seed, "stop": ["STOP", "a\n"], "max_tokens": 40})
        answer = whole(server, SHAPES[2], body)
        assert "STOP" not in answer["content"] and "a\n" not in answer["content"]
        assert (answer["stop_type"] == "word") == (answer["stopping_word"] in ("STOP", "a\n"))
        found += answer["stop_type"] == "word"
    assert 0 < found < 40


def test_a_trace_can_be_replayed(server, tmp_path):
    path = tmp_path / "trace.jsonl"
    model = serving.write_model(tmp_path, awkward())
    erased = 0
    for seed in range(8):
        fields = {"seed": seed, "banned_strings": ["ab", "\n"], "logprobs": 1, "max_tokens": 40}
        body = body_of(SHAPES[0], dict(fields, retrace={"events": True}))
        trace = whole(server, SHAPES[0], body)["retrace"]["trace"]
        erased += sum(op["op"] == "erase" for op in trace)
        path.write_text("".join(json.dumps(op) + "\n" for op in trace))
        command = [conftest.PROGRAM, "replay", str(path), "-m", "table:%s" % model]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done
    assert erased > 0


@pytest.mark.parametrize("echo", [False, True])
def test_a_trace_of_nothing_can_be_replayed(server, tmp_path, echo):
    path = tmp_path / "trace.jsonl"
    model = serving.write_model(tmp_path, awkward())
    fields = {"echo": echo, "logprobs": 1, "max_tokens": 0, "retrace": {"events": True}}
    trace = compare(server, SHAPES[0], body_of(SHAPES[0], fields))["retrace"]["trace"]
    assert [op["op"] for op in trace] == ["start", "done"]
    path.write_text("".join(json.dumps(op) + "\n" for op in trace))
    command = [conftest.PROGRAM, "replay", str(path), "-m", "table:%s" % model]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done


def test_every_choice_can_be_replayed(server, tmp_path):
    """A rule that draws for itself shows whether the replay draws as the same choice."""
    path = tmp_path / "trace.jsonl"
    model = serving.write_model(tmp_path, awkward())
    fields = {"n": 4, "seed": 5, "logprobs": 0, "max_tokens": 60, "retrace": {"events": True}}
    fields["rules"] = [{"name": "phrases", "text": ["a", "q", "xST"], "weight": 0.5}]
    answer = whole(server, SHAPES[0], body_of(SHAPES[0], fields, ["go", "so"]))
    for i, choice in enumerate(answer["choices"]):
        trace = choice["retrace"]["trace"]
        assert trace[0].get("head", 0) == i % 4
        path.write_text("".join(json.dumps(op) + "\n" for op in trace))
        command = [conftest.PROGRAM, "replay", str(path), "-m", "table:%s" % model]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, (i, done)


# ==== Several answers of llama-server's form ====


def test_several_prompts_in_llama_servers_form(server):
    """A list without ids has several prompts; a list of ids, or of both, is one."""
    fields = {"seed": 4, "max_tokens": 6, "hold": "minimal"}
    alone = [whole(server, SHAPES[2], dict(fields, prompt=p)) for p in ("go", "x y", "x")]
    answers = whole(server, SHAPES[2], dict(fields, prompt=["go", [120, 32, 121], [120]]))
    assert [a["index"] for a in answers] == [0, 1, 2]
    assert [a["content"] for a in answers] == [a["content"] for a in alone]
    assert [a["tokens_evaluated"] for a in answers] == [2, 3, 1]
    for prompt in ([120, " y"], ["x", 32, 121], [120, 32, 121]):
        one = whole(server, SHAPES[2], dict(fields, prompt=prompt))
        assert one["content"] == alone[1]["content"] and one["tokens_evaluated"] == 3
    assert whole(server, SHAPES[2], dict(fields, prompt=["go"]))["content"] == alone[0]["content"]


@pytest.mark.parametrize("name", ["n", "n_cmpl"])
def test_several_choices_in_llama_servers_form(server, name):
    fields = {"seed": 4, "max_tokens": 12, "prompt": ["go", "x"], "hold": "minimal"}
    plain = whole(server, SHAPES[0], dict(fields, n=3))["choices"]
    answers = whole(server, SHAPES[2], dict(fields, **{name: 3}))
    assert [a["content"] for a in answers] == [c["text"] for c in plain]
    assert len({a["id"] for a in answers}) == 1
    told = [""] * 6
    for chunk in chunks(server, SHAPES[2], dict(fields, **{name: 3})):
        told[chunk["index"]] += chunk["content"]
    assert told == [c["text"] for c in plain]


# ==== After a rewind ====


def one_choice(path, answer):
    return answer if path == SHAPES[2] else answer["choices"][0]


@pytest.mark.parametrize("path", SHAPES)
def test_what_follows_a_rewind_completes_the_text(server, path):
    cut = 0
    for seed, keep in itertools.product(range(5), range(8)):
        first = whole(server, path, body_of(path, {"seed": seed, "logprobs": 1, "stop": ["STOP"]}))
        if first["retrace"]["stats"]["kept"] < keep:
            continue
        # What is put there fills what may follow, so nothing is drawn and nothing left to chance.
        body = {"id": first["id"], "keep": keep, "text": "xyz", "max_tokens": 3}
        again = compare(server, path, body, "/v1/rewind")
        report, choice = again["retrace"], one_choice(path, again)
        assert again["id"] == first["id"] and report["keep"] == keep
        assert text_of(one_choice(path, first)).startswith(report["prefix"])
        assert text_of(choice).lstrip("\ufffd") == "xyz"
        cut += text_of(choice) != "xyz"
        assert len(entries_of(choice)) == 3 and report["stats"]["kept"] == keep + 3
        if path != SHAPES[2]:
            assert again["usage"]["completion_tokens"] == 3
    assert cut > 0  # in the middle of a character


def test_a_rewind_that_draws(server):
    """A draw at that place is a new one, so each time another text may follow the same prefix."""
    first = whole(server, SHAPES[0], body_of(SHAPES[0], {"seed": 2, "banned_strings": ["aa"]}))
    prefixes, texts = set(), set()
    for _ in range(8):
        body = {"id": first["id"], "keep": 5, "max_tokens": 10}
        stream = chunks(server, "/v1/rewind", body)
        report = stream[-1]["retrace"]
        prefixes.add(report["prefix"])
        texts.add("".join(text_of(choice_of(c)) for c in stream))
        assert report["keep"] == 5 and report["stats"]["kept"] <= 15
    assert len(prefixes) == 1 and len(texts) > 1
    assert not any("aa" in prefix + text for prefix in prefixes for text in texts)
