"""The worker: many requests at once, slots, cancelling, limits, going back, /v1/backward.

On table models everything is exact, so each answer must equal what the same request gets by itself,
and what `retrace generate` prints.
"""

import concurrent.futures
import json
import threading
import time

import pytest

import conftest
from serving import serving, words_model

# So that runs are long enough to be met while they go on.
ENDLESS = dict(words_model(n_ctx=1 << 20))
ENDLESS["rows"] = [{"context": [], "next": {str(256 + i): 1.0 for i in range(10)}}]

RULES = [
    {"banned_strings": ["cat sat"]},
    {"banned_strings": ["the dog", "MAT."]},
    {"banned_regex": ["on( a)? mat"]},
    {"rules": [{"name": "repetition", "max_repetitions": 1}]},
    {"rules": [{"name": "ngram-overlap", "ngram_size": 3}]},
    {"custom_token_bans": [258, 260]},
    {"stop": [" and dog"]},
    {"resample": "exact", "banned_strings": ["cat cat"]},
]
# The same on the command line.
FLAGS = [
    ["--ban", "cat sat"],
    ["--ban", "the dog", "--ban", "MAT."],
    ["--ban-regex", "on( a)? mat"],
    ["--rule", "repetition:max_repetitions=1"],
    ["--rule", "ngram-overlap:ngram_size=3"],
    ["--logit-bias", "258=-inf", "--logit-bias", "260=-inf"],
    ["--stop", " and dog"],
    ["--resample", "exact", "--ban", "cat cat"],
]


def wanted(i):
    """The i-th of many different requests."""
    prompt = ["the cat", "a dog sat on", "testament to"][i % 3] + " go" * (i % 5)
    return dict(RULES[i % len(RULES)], prompt=prompt, seed=i, max_tokens=20 + i % 17, logprobs=2)


def essence(answer):
    """What must not depend on what runs beside it."""
    report = answer["retrace"]
    stats = {k: report["stats"][k] for k in ("kept", "erased", "rewinds", "accepted")}
    return answer["choices"], report["finish"], stats, report["rules"]


def program(retrace, request, *flags):
    sampling = ["--temp", 1, "--top-k", 0, "--top-p", 1, "--min-p", 0]
    asked = ["-p", request["prompt"], "-n", request["max_tokens"], "--seed", request["seed"]]
    result = retrace("generate", "-m", "table:model.json", "--json", *asked, *sampling, *flags)
    assert result.code in (0, 1), result
    return result.json


def together(calls, n=None):
    with concurrent.futures.ThreadPoolExecutor(n or len(calls)) as pool:
        return list(pool.map(lambda call: call(), calls))


def test_64_at_once_equal_their_solo_runs_and_the_program(tmp_path, retrace):
    with serving(tmp_path, words_model(), "--parallel", 5) as s:
        requests = [wanted(i) for i in range(64)]
        solo = [essence(s.complete(**r)) for r in requests]
        for _ in range(2):
            calls = [lambda r=r: essence(s.complete(**r)) for r in requests]
            assert together(calls) == solo
    assert len({json.dumps(x) for x in solo}) > 40
    assert any(x[2]["erased"] for x in solo)
    for i in range(0, 64, 5):
        said = program(retrace, requests[i], *FLAGS[i % len(FLAGS)])
        (choice,), finish, stats, _ = solo[i]
        assert (choice["text"], finish) == (said["text"], said["finish"]), i
        assert stats == {k: said["stats"][k] for k in stats}, i


def test_streams_beside_whole_answers(tmp_path):
    with serving(tmp_path, words_model(), "--parallel", 3) as s:
        requests = [dict(wanted(i), logprobs=None) for i in range(24)]
        solo = [s.complete(**r)["choices"][0]["text"] for r in requests]

        def streamed(r):
            events = s.stream("/v1/completions", dict(r, hold="all"))
            return "".join(e["choices"][0]["text"] for e in events)

        assert together([lambda r=r: streamed(r) for r in requests]) == solo


def test_choices_draw_by_themselves_and_share_slots(tmp_path):
    with serving(tmp_path, words_model(), "--parallel", 2) as s:
        one = s.complete("the cat", n=5, seed=3, max_tokens=12)
        again = s.complete(["the cat", "a dog"], n=5, seed=3, max_tokens=12)
        texts = [c["text"] for c in one["choices"]]
        assert len(set(texts)) > 1
        assert [c["text"] for c in again["choices"][:5]] == texts
        assert [c["index"] for c in again["choices"]] == list(range(10))
        assert s.complete("the cat", seed=3, max_tokens=12)["choices"][0]["text"] == texts[0]


def test_a_prompt_is_scored_once_for_all_its_choices(tmp_path, retrace):
    with serving(tmp_path, words_model(), "--parallel", 2) as s:
        none = s.complete("the cat sat", echo=True, logprobs=1, max_tokens=0, n=3)["choices"]
        some = s.complete("the cat sat", echo=True, logprobs=1, max_tokens=4, n=3)["choices"]
        assert s.complete("the cat", echo=True, max_tokens=0)["choices"][0]["text"] == "the cat"
    said = retrace("score", "-m", "table:model.json", "-p", "the cat sat", "--json").json["tokens"]
    logp = [t["logprob"] for t in said]
    assert len(none) == len(some) == 3
    for choice in none + some:
        ours = choice["logprobs"]["token_logprobs"][: len(logp)]
        assert ours[0] is None
        assert ours[1:] == pytest.approx([x if x is None else max(x, -9999) for x in logp[1:]])
    assert all(c["text"] == "the cat sat" and c["finish_reason"] == "length" for c in none)


# ==== Leaving ====


def endless(s, **fields):
    ask = {"prompt": "the", "max_tokens": 900000, "hold": "minimal"}
    return s.stream("/v1/completions", dict(ask, **fields))


def leave_after(s, n_events, **fields):
    """Leaves a stream when so many events have come."""
    events = endless(s, **fields)
    it = iter(events)
    for _ in range(n_events):
        next(it)
    events.leave()


def test_leaving_at_every_stage_harms_nobody(tmp_path):
    with serving(tmp_path, ENDLESS, "--parallel", 2) as s:
        ask = dict(prompt="the cat", max_tokens=40, seed=9)
        solo = essence(s.complete(**ask))
        for n in (1, 2, 50):
            leave_after(s, n)
            assert essence(s.complete(**ask)) == solo
        # several choices, some of which have no slot yet; and one that waits for a slot
        leave_after(s, 3, n=7)
        busy = [endless(s) for _ in range(2)]
        iters = [iter(b) for b in busy]
        for it in iters:
            next(it)
        waiting = s.connect()
        waiting.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 5}),
                        {"Content-Type": "application/json"})
        until(lambda: s.metrics()["requests_waiting"] == 1)
        waiting.close()
        until(lambda: s.metrics()["requests_waiting"] == 0)
        for b in busy:
            b.leave()
        assert s.quiet() < 5
        assert essence(s.complete(**ask)) == solo
        assert s.metrics()["cancelled_total"] >= 7


def until(is_so, timeout=30):
    end = time.monotonic() + timeout
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_slot_is_free_soon_after_its_client_left(tmp_path):
    with serving(tmp_path, ENDLESS, "--parallel", 1) as s:
        took = []
        for _ in range(30):
            leave_after(s, 1)
            begun = time.monotonic()
            s.complete("a", max_tokens=1)
            took.append(time.monotonic() - begun)
        assert sorted(took)[15] < 0.25, took


# ==== Limits ====


def test_a_full_queue_and_a_long_wait(tmp_path):
    flags = ["--parallel", 1, "--queue", 1, "--queue-timeout", 0.5]
    with serving(tmp_path, ENDLESS, *flags) as s:
        busy = endless(s)
        it = iter(busy)
        next(it)
        answers = []

        def wait():
            answers.append(s.post("/v1/completions", {"prompt": "a", "max_tokens": 1}))

        waiter = threading.Thread(target=wait)
        waiter.start()
        until(lambda: s.metrics()["requests_waiting"] == 1)
        full = s.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
        assert full.status == 429 and "--queue" in full.error["message"], full
        assert int(full.headers["Retry-After"]) >= 1
        waiter.join(30)
        late = answers[0]
        assert late.status == 503 and "--queue-timeout" in late.error["message"], late
        assert int(late.headers["Retry-After"]) >= 1
        busy.leave()


def test_those_who_wait_are_served_in_order(tmp_path):
    with serving(tmp_path, ENDLESS, "--parallel", 1, "--queue", 40) as s:
        busy = endless(s)
        next(iter(busy))
        order, threads = [], []

        def one(i):
            s.complete("a", max_tokens=2000)  # long enough to tell apart who was first
            order.append(i)

        for i in range(12):
            threads.append(threading.Thread(target=one, args=(i,)))
            threads[-1].start()
            until(lambda: s.metrics()["requests_waiting"] == i + 1)
        busy.leave()
        for t in threads:
            t.join(30)
        # the clients' own threads may overtake each other by one
        assert all(abs(x - i) <= 2 for i, x in enumerate(order)), order


def test_a_client_that_does_not_read_waits_alone(tmp_path):
    with serving(tmp_path, ENDLESS, "--parallel", 2) as s:
        events = endless(s, max_tokens=30000)
        it = iter(events)
        next(it)

        def written():
            # one that is served beside it
            s.complete("a", max_tokens=1)
            return s.metrics()["evaluated_total"]

        was = -1
        end = time.monotonic() + 30
        while written() - was > 5:
            was = written()
            time.sleep(0.3)
            assert time.monotonic() < end, "the run never paused"
        assert s.metrics()["requests_running"] == 1 and was < 30000
        assert sum(1 for _ in it) == 30000 - 1 + 1  # all of it, and the last one
        assert events.done


def test_a_prompt_that_was_begun_is_read_though_its_client_does_not(tmp_path):
    """Others wait for it, and not until the client that does not read is given up."""
    shared = "x" * 12000
    with serving(tmp_path, ENDLESS, "--parallel", 3, "-b", 1) as s:
        events = endless(s, prompt=["go", shared], logprobs=20)
        next(iter(events))
        s.complete(shared + "y", max_tokens=1)
        assert s.metrics()["cancelled_total"] == 0
        events.leave()


def test_too_long_a_request(tmp_path):
    with serving(tmp_path, ENDLESS, "--parallel", 2, "--request-timeout", 1) as s:
        ask = {"prompt": "the", "max_tokens": 1000000}
        whole = s.post("/v1/completions", ask)
        assert whole.status == 503 and "--request-timeout" in whole.error["message"], whole
        events = list(s.stream("/v1/completions", dict(ask, hold="minimal")))
        assert len(events) > 5 and "--request-timeout" in events[-1]["error"]["message"]
        back = rewind(s, id=events[0]["id"], keep=2, max_tokens=2)  # it is kept all the same
        assert back["retrace"]["finish"] == "length"
        assert len(s.complete("a", max_tokens=4)["choices"]) == 1


# ==== Going back ====


def rewind(s, **body):
    answer = s.post("/v1/rewind", body)
    assert answer.status == 200, answer
    return answer.json


def test_rewinding_goes_on_from_there(tmp_path):
    with serving(tmp_path, words_model()) as s:
        fields = dict(seed=5, max_tokens=12, logprobs=1, return_token_ids=True, ignore_eos=True)
        first = s.complete("the cat", **fields)
        ids, text = first["choices"][0]["token_ids"], first["choices"][0]["text"]
        pieces = first["choices"][0]["logprobs"]["tokens"]
        back = rewind(s, id=first["id"], keep=4, token=" testament", return_token_ids=True)
        assert back["id"] == first["id"] and back["object"] == first["object"]
        assert back["retrace"]["keep"] == 4
        choice = back["choices"][0]
        assert choice["token_ids"][0] == 265 and choice["text"].startswith(" testament to")
        assert len(choice["token_ids"]) == 12  # as many as the first time may follow
        assert "".join(pieces) == text
        # a text, whole; and nothing at all: another draw
        more = rewind(s, id=first["id"], keep=2, text=" dog sat")
        assert more["choices"][0]["text"].startswith(" dog sat")
        rewind(s, id=first["id"], keep=0)
        again = {"id": first["id"], "keep": 3, "token": 256, "max_tokens": 2}
        chunks = list(s.stream("/v1/rewind", again))
        assert "".join(c["choices"][0]["text"] for c in chunks).startswith(" the")
        assert ids


def test_bans_hold_after_going_back(tmp_path):
    """Also across the place, where what was put may have to go again."""
    with serving(tmp_path, words_model()) as s:

        def texts(**fields):
            found = []
            for seed in range(25):
                ask = dict(fields, seed=seed, max_tokens=9, ignore_eos=True)
                first = s.complete("the cat", **ask)
                back = rewind(s, id=first["id"], keep=5, text=" cat", max_tokens=3)
                found += [first["choices"][0]["text"], back["choices"][0]["text"]]
            return found

        free = texts()[1::2]
        assert any("cat sat" in t for t in free) and all(t.startswith(" cat") for t in free)
        assert not any("cat sat" in t for t in texts(banned_strings=["cat sat"]))


def test_wrong_rewinds(tmp_path):
    with serving(tmp_path, ENDLESS, "--parallel", 2) as s:
        done = s.complete("the", max_tokens=5, seed=1)

        def refused(status, name, **body):
            answer = s.post("/v1/rewind", body)
            assert answer.status == status, answer
            assert name in answer.error["message"], answer

        refused(404, "completion", id="cmpl-none", keep=1)
        refused(400, "id", keep=1)
        refused(400, "keep", id=done["id"])
        refused(400, "keep", id=done["id"], keep=6)
        refused(400, "keep", id=done["id"], keep=-1)
        refused(400, "choice", id=done["id"], keep=0, choice=1)
        refused(400, "token", id=done["id"], keep=0, token=10**6)
        refused(400, "token", id=done["id"], keep=0, token="two words")
        refused(400, "text", id=done["id"], keep=0, token=1, text="x")
        assert rewind(s, id=done["id"], keep=5)["choices"][0]["finish_reason"] == "length"
        events = endless(s)
        it = iter(events)
        running = next(it)["id"]
        refused(409, "written", id=running, keep=0)
        events.leave()
        s.quiet()
        back = rewind(s, id=running, keep=1, max_tokens=3)
        assert back["retrace"]["finish"] == "length"
        exact = s.complete("the", max_tokens=5, resample="exact")
        refused(400, "exact", id=exact["id"], keep=1)


def texts_of(events):
    return [c["text"] for e in events for c in e["choices"] if c["text"]]


def test_what_is_rewound_streams_as_asked(tmp_path):
    """Not as the first answer did; unless `hold` says so."""
    with serving(tmp_path, ENDLESS) as s:
        ask = dict(prompt="the", max_tokens=100, seed=1)
        for stream in (False, True):
            for hold, least, most in ((None, 60, 100), ("all", 1, 1), ("minimal", 60, 100)):
                fields = dict(ask, hold=hold)
                if stream:
                    made = list(s.stream("/v1/completions", fields))[0]
                else:
                    made = s.complete(**fields)
                back = {"id": made["id"], "keep": 3, "max_tokens": 100}
                pieces = texts_of(s.stream("/v1/rewind", back))
                assert least <= len(pieces) <= most, (stream, hold, len(pieces))


def rewinding(s, **body):
    """In a thread of its own; the list gets the answer."""
    got = []
    thread = threading.Thread(target=lambda: got.append(s.post("/v1/rewind", body)))
    thread.start()
    return thread, got


def test_what_cannot_be_rewound_is_told_at_once(tmp_path):
    """Also while no slot is free; and what waits for one stays until its turn."""
    with serving(tmp_path, ENDLESS, "--parallel", 1, "--keep-runs", 1) as s:
        made = s.complete("the", max_tokens=5)
        busy = endless(s)
        running = next(iter(busy))["id"]
        begun = time.monotonic()
        for status, name in ((404, "cmpl-none"), (409, running)):
            assert s.post("/v1/rewind", {"id": name, "keep": 0}).status == status
            path = "/v1/completions/%s/alternatives?pos=0" % name
            assert s.get(path).status == status
        assert s.post("/v1/rewind", {"id": made["id"], "keep": 9}).status == 400
        thread, got = rewinding(s, id=made["id"], keep=2, max_tokens=3)
        until(lambda: s.metrics()["requests_waiting"] == 1)
        assert s.post("/v1/rewind", {"id": made["id"], "keep": 2}).status == 409
        assert time.monotonic() - begun < 30
        busy.leave()
        thread.join(30)
        assert got[0].status == 200, got
        until(lambda: s.metrics()["runs_kept"] == 1)
        # one that leaves while it waits gives it back
        busy = endless(s)
        next(iter(busy))
        left = s.connect()
        left.request("POST", "/v1/rewind", json.dumps({"id": made["id"], "keep": 2}),
                     {"Content-Type": "application/json"})
        until(lambda: s.metrics()["requests_waiting"] == 1)
        left.close()
        until(lambda: s.metrics()["requests_waiting"] == 0)
        assert s.post("/v1/rewind", {"id": made["id"], "keep": 9}).status == 400
        busy.leave()


def test_wrong_rewinds_name_their_field(tmp_path):
    with serving(tmp_path, words_model()) as s:
        made = s.complete("the", max_tokens=5, seed=1, ignore_eos=True)
        for field, value in (("token", 258), ("text", " cat")):
            body = {"id": made["id"], "keep": 1, "max_tokens": 0, field: value}
            answer = s.post("/v1/rewind", body)
            assert answer.status == 400 and answer.error["param"] == field, answer


def test_another_key_sees_nothing(tmp_path):
    with serving(tmp_path, words_model(), "--api-key", "one", "--api-key", "two") as s:
        one, two = ({"Authorization": "Bearer " + k} for k in ("one", "two"))
        made = s.complete("the", headers=one, max_tokens=3, ignore_eos=True)
        body = {"id": made["id"], "keep": 1}
        assert s.post("/v1/rewind", body, two).status == 404
        assert s.get("/v1/completions/%s/alternatives?pos=0" % made["id"], two).status == 404
        assert s.post("/v1/rewind", body, one).status == 200


def test_only_so_many_are_kept(tmp_path):
    with serving(tmp_path, words_model(), "--keep-runs", 2) as s:
        ids = [s.complete("the", max_tokens=3)["id"] for _ in range(3)]
        found = [s.post("/v1/rewind", {"id": i, "keep": 0, "max_tokens": 1}).status for i in ids]
        assert found == [404, 200, 200]


def test_alternatives_at_each_place(tmp_path):
    with serving(tmp_path, words_model()) as s:
        ask = dict(seed=2, max_tokens=6, logprobs=5, ignore_eos=True, return_token_ids=True)
        made = s.complete("the cat", banned_strings=["the", "sat"], **ask)
        choice = made["choices"][0]
        pieces = choice["logprobs"]["tokens"]
        for pos in range(7):
            got = s.get("/v1/completions/%s/alternatives?pos=%d&k=30" % (made["id"], pos)).json
            assert got["prefix"] == "".join(pieces[:pos]) and got["pos"] == pos
            logps = [a["logprob"] for a in got["alternatives"]]
            assert logps == sorted(logps, reverse=True) and len(logps) in (2, 12)
            if pos == 6:
                assert got["kept"] is None
                continue
            assert got["kept"]["id"] == choice["token_ids"][pos]
            logp = choice["logprobs"]["token_logprobs"][pos]
            assert got["kept"]["logprob"] == pytest.approx(logp, abs=1e-5)
        assert s.get("/v1/completions/%s/alternatives?pos=7" % made["id"]).status == 400
        assert s.get("/v1/completions/%s/alternatives" % made["id"]).status == 400
        assert s.get("/v1/completions/%s/alternatives?pos=x" % made["id"]).status == 400


def test_bans_are_marked(tmp_path):
    with serving(tmp_path, words_model()) as s:
        for seed in range(20):
            ask = dict(seed=seed, max_tokens=12, ignore_eos=True)
            made = s.complete("x", banned_strings=[" mat"], **ask)
            n = made["retrace"]["stats"]["kept"]
            if made["retrace"]["stats"]["erased"]:
                break
        marked = []
        for pos in range(n):
            got = s.get("/v1/completions/%s/alternatives?pos=%d&k=40" % (made["id"], pos)).json
            marked += [a["text"] for a in got["alternatives"] if a["banned"]]
        assert marked and set(marked) == {" mat"}


# ==== Backward ====


def test_backward_is_the_programs(tmp_path, retrace):
    with serving(tmp_path, words_model()) as s:
        body = {"suffix": " on a mat", "num_samples": 3, "max_tokens": 4, "seed": 7, "top": 3}
        ours = s.post("/v1/backward", body).json
        flags = "--num-samples 3 --max-tokens 4 --seed 7 --top 3 --json".split()
        said = retrace("backward", "-m", "table:model.json", "--suffix", " on a mat", *flags).json
        for o in (ours, said):
            del o["stats"]["seconds"]
        assert ours == said
        events = list(s.stream("/v1/backward", body))
        steps, last = events[:-1], events[-1]
        del last["stats"]["seconds"]
        assert last == said
        assert len(steps) == sum(len(x["steps"]) for x in said["samples"])
        calls = [lambda i=i: s.complete(**wanted(i)) for i in range(8)]
        beside = together([lambda: s.post("/v1/backward", body).json] + calls)
        del beside[0]["stats"]["seconds"]
        assert beside[0] == said
        assert s.post("/v1/backward", {"suffix": ""}).status == 400
        assert s.post("/v1/backward", dict(body, num_samples=65)).status == 400
        assert s.post("/v1/backward", dict(body, mode="fast")).status == 400
        assert s.post("/v1/backward", dict(body, temperature="1")).status == 400


# ==== The real model ====

LONG = " ".join("This is sentence number %d of a long report about nothing." % i for i in range(80))


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    with serving(folder, conftest.MODEL, "--parallel", 4, "-c", 2048, "-b", 128) as s:
        yield s


def evaluated(s):
    return s.metrics()["evaluated_total"]


@pytest.mark.model
def test_equal_prompts_are_computed_once(real):
    prompt = "Shared: " + LONG[:900]
    before = evaluated(real)
    first = real.complete(prompt, n=4, max_tokens=2, temperature=0)
    n = first["usage"]["prompt_tokens"]
    spent = evaluated(real) - before
    assert n <= spent <= n + 4 * 3
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] < n
    again = real.complete(prompt, max_tokens=2, temperature=0)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= n - 1
    assert [c["text"] for c in again["choices"]] == [first["choices"][0]["text"]]


@pytest.mark.model
def test_rewinding_computes_nothing_twice(real):
    """But for the last token that is kept: what may follow it is asked anew."""
    ask = dict(max_tokens=24, seed=4, temperature=0.7, ignore_eos=True)
    first = real.complete("Once upon a time", **ask)
    for beside, text in ((0, " suddenly"), (2, " later")):
        calls = [lambda i=i: real.complete("Another %d" % i, **ask) for i in range(beside)]
        before = evaluated(real)
        together(calls + [lambda: None])
        others = evaluated(real) - before
        before = evaluated(real)
        back = rewind(real, id=first["id"], keep=10, text=text, max_tokens=8)
        stats = back["retrace"]["stats"]
        new = stats["kept"] - 10
        assert new == 8 and stats["reevaluated"] <= 1
        assert evaluated(real) - before == stats["evaluated"] <= new + 1
        assert others == 0 or others > 2 * 23


@pytest.mark.model
def test_deterministic_answers_depend_on_nobody(real):
    ask = dict(prompt="The weather today is", max_tokens=16, seed=3, deterministic=True)
    solo = real.complete(**ask)["choices"]
    calls = [lambda: real.complete(**ask)["choices"]]
    calls += [lambda i=i: real.complete("Story %d:" % i, max_tokens=24) for i in range(3)]
    assert together(calls)[0] == solo


@pytest.mark.model
def test_deterministic_runs_can_be_rewound(real):
    ask = dict(prompt=LONG[:400], max_tokens=12, seed=3, deterministic=True, ignore_eos=True)
    first = real.complete(**ask)
    back = rewind(real, id=first["id"], keep=5, text=" nothing", max_tokens=4)
    assert back["retrace"]["stats"]["kept"] == 9
    assert real.complete(**ask)["choices"] == first["choices"]


@pytest.mark.model
def test_echo_tells_what_score_tells(real, retrace):
    prompt = LONG[:900]  # more than a batch
    choice = real.complete(prompt, echo=True, logprobs=1, max_tokens=0)["choices"][0]
    said = retrace("score", "-m", conftest.MODEL, "-p", prompt, "-b", 128, "--json").json["tokens"]
    logp, top = choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]
    assert len(logp) == len(said) > 128
    assert logp[0] is None and top[0] is None
    assert logp[1:] == pytest.approx([t["logprob"] for t in said[1:]], abs=0.05)
    assert all(max(t.values()) >= x - 1e-6 for t, x in zip(top[1:], logp[1:]))


@pytest.mark.model
def test_a_long_prompt_is_read_in_pieces_beside_streams(real):
    """Only counts: the prompt takes many steps, in which the streams go on."""
    ask = {"max_tokens": 1000, "ignore_eos": True, "hold": "minimal"}
    bodies = [dict(ask, prompt="Tale %d:" % i) for i in range(3)]
    streams = [real.stream("/v1/completions", body, timeout=300) for body in bodies]
    counts, stop = [0] * 3, threading.Event()

    def read(i):
        for e in streams[i]:
            counts[i] += e["choices"][0]["text"] != ""
            if stop.is_set():
                break

    threads = [threading.Thread(target=read, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    until(lambda: min(counts) > 5)
    before, steps = list(counts), real.metrics()["steps_total"]
    body = {"prompt": "New: " + LONG[:1200], "max_tokens": 1}
    assert real.post("/v1/completions", body, timeout=300).status == 200
    during = [b - a for a, b in zip(before, counts)]
    steps = real.metrics()["steps_total"] - steps
    stop.set()
    for t in threads:
        t.join(30)
    for x in streams:
        x.leave()
    real.quiet()
    assert steps > 10 and min(during) > 5, (steps, during)
