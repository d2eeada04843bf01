"""Many clients at once, with everything they do, under the address and under the thread sanitizer.

RETRACE_TSAN names the program that was compiled for the latter; without it that part is left out.
"""

import concurrent.futures
import os
import random
import signal
import time

import conftest
import pytest
from serving import Events, Server, words_model

PROGRAMS = [
    pytest.param(conftest.PROGRAM, id="asan"),
    pytest.param(
        os.environ.get("RETRACE_TSAN", ""),
        id="tsan",
        marks=pytest.mark.skipif(not os.environ.get("RETRACE_TSAN"), reason="RETRACE_TSAN is not set"),
    ),
]


@pytest.fixture(params=PROGRAMS)
def server(request, tmp_path):
    (tmp_path / "list.txt").write_text("cat sat\n")
    flags = ["--parallel", 6, "--queue", 200, "--ban-list", "list=list.txt", "--access-log", "log"]
    env = {"TSAN_OPTIONS": "halt_on_error=0:exitcode=66"}
    s = Server(tmp_path, words_model(), *flags, env=env, program=request.param)
    yield s
    s.stop()


def body_of(i):
    body = {"prompt": "go" * (1 + i % 5), "max_tokens": 10 + i % 40, "seed": i}
    if i % 3 == 0:
        body["banned_strings"] = ["cat", "to the"]
    if i % 4 == 0:
        body["n"] = 3
    if i % 7 == 0:
        body["ban_lists"] = ["list"]
    if i % 5 == 0:
        body.update(logprobs=2, echo=True)
    return body


def outcome(server, i):
    return [(c["text"], c["finish_reason"]) for c in server.complete(**body_of(i))["choices"]]


def one(server, i):
    """Something that a client might do; what it got, or None where it left."""
    kind = i % 8
    if kind in (0, 1, 2, 3):
        return outcome(server, i)
    if kind == 4:
        events = server.stream("/v1/completions", dict(body_of(i), stream_options={"include_usage": True}))
        assert isinstance(events, Events), events
        list(events)
        assert events.done
    elif kind == 5:
        events = server.stream("/v1/completions", dict(body_of(i), max_tokens=3000, ignore_eos=True))
        assert isinstance(events, Events), events
        for _ in zip(range(i % 4), events):
            pass
        events.leave()
    elif kind == 6:
        a = server.complete("go", max_tokens=20, seed=i, ignore_eos=True)
        body = {"id": a["id"], "keep": 5, "token": " mat"}
        assert server.post("/v1/rewind", body).status == 200
        path = "/v1/completions/%s/alternatives?pos=3" % a["id"]
        assert server.get(path).status == 200
    else:
        for path in ("/health", "/metrics", "/v1/models", "/props", "/v1/rules", "/openapi.json"):
            assert server.get(path).status == 200
        assert server.post("/tokenize", {"content": "go on"}).status == 200
        assert server.post("/v1/completions", {"prompt": 5}).status == 400
        server.process.send_signal(signal.SIGHUP)
    return None


def test_everything_at_once(server):
    jobs = list(range(240))
    random.Random(1).shuffle(jobs)
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        got = dict(zip(jobs, pool.map(lambda i: one(server, i), jobs)))
    server.quiet()
    for i in range(0, 240, 12):
        if got[i] is not None:
            assert got[i] == outcome(server, i)


def test_it_ends_while_it_works(server):
    """SIGTERM: what runs comes to its end, what comes after is refused, and then it is over."""
    running = [
        server.stream("/v1/completions", {"prompt": "go", "max_tokens": 300, "seed": i, "ignore_eos": True})
        for i in range(6)
    ]
    iterators = [iter(e) for e in running]
    for it in iterators:
        next(it)
    server.process.send_signal(signal.SIGTERM)
    for it, events in zip(iterators, running):
        last = None
        for last in it:
            pass
        assert events.done and last["choices"][0]["finish_reason"] == "length"
        events.leave()
    server.ends(seconds=40)


def test_a_second_signal_ends_it_at_once(server):
    events = server.stream(
        "/v1/completions", {"prompt": "go", "max_tokens": 4000, "ignore_eos": True, "n": 16}
    )
    next(iter(events))
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    server.process.send_signal(signal.SIGTERM)
    server.ends((0, 130), seconds=20)
    events.leave()


def test_each_time_it_starts_and_ends(tmp_path, server):
    for i in range(3):
        other = Server(tmp_path, words_model(), program=server.command[0])
        if i:
            other.complete("go", max_tokens=3)
        other.stop(signal.SIGINT if i == 2 else signal.SIGTERM, (0, 130) if i == 2 else (0,))
