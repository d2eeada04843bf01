"""What a server keeps: nothing of the requests that are over, and no slot of a client that has left."""

import itertools
import socket
import statistics
import time

import hostile
import pytest
from serving import says_model, serving, words_model


def request_of(i):
    body = {"prompt": "go" * (1 + i % 7), "max_tokens": 5 + i % 20, "seed": i}
    if i % 3 == 0:
        body["banned_strings"] = ["cat", "to the", "x%d" % i]
    if i % 5 == 0:
        body.update(n=2, logprobs=3)
    if i % 7 == 0:
        body["banned_regex"] = ["c.t %d" % i]
    return body


def send(server, i):
    kind = i % 10
    if kind < 6:
        server.complete(**request_of(i))
    elif kind == 6:
        list(server.stream("/v1/completions", request_of(i)))
    elif kind == 7:
        events = server.stream("/v1/completions", dict(request_of(i), max_tokens=2000))
        for _ in zip(range(i % 3), events):
            pass
        events.leave()
    elif kind == 8:
        assert server.post("/v1/completions", {"prompt": "go", "temperature": -i}).status in (200, 400)
        server.raw(hostile.post(b"{").replace(hostile.HOST, b"127.0.0.1:%d" % server.port), settle=0)
    else:
        server.get("/metrics")
        server.chat("go", max_tokens=3, seed=i)


def grown(server, warm, more):
    for i in range(warm):
        send(server, i)
    server.quiet()
    before, handles = server.rss(), server.handles()
    for i in range(warm, warm + more):
        send(server, i)
    server.quiet()
    assert server.handles() <= handles + 2
    after = server.rss()
    print("RSS after warm-up %d KiB, after %d more requests %d KiB" % (before, more, after))
    return before, after


def test_handles_and_threads_come_back(tmp_path):
    """A short one; the allocators of sanitizers keep what was freed, so memory is not looked at."""
    with serving(tmp_path, words_model(), "--keep-runs", 8) as s:
        grown(s, 20, 100)


@pytest.mark.long
def test_memory_is_flat_over_ten_thousand_requests(tmp_path):
    with serving(tmp_path, words_model(), "--keep-runs", 16) as s:
        before, after = grown(s, 4000, 10000)  # the allocator has settled by then
        assert after <= before * 1.01, (before, after)


# ==== Clients that leave ====

BODY = b'{"prompt":"go","max_tokens":100000,"stream":%s,"ignore_eos":true,"n":%d}'


def leave_at(server, stage):
    """Sends a request, and goes away at a place of its life."""
    own = b"127.0.0.1:%d" % server.port
    stream = b"true" if stage % 2 else b"false"
    data = hostile.post(BODY % (stream, 1 + stage % 3)).replace(hostile.HOST, own)
    cut = len(data) if stage % 5 else stage * 7 % len(data)
    with socket.create_connection(("127.0.0.1", server.port), 30) as s:
        if stage % 7 == 0:  # with a reset
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        s.sendall(data[:cut])
        if cut == len(data) and stage % 3 and stream == b"true":
            s.recv(1 + stage * 13 % 4000)
        else:
            time.sleep(stage % 11 * 0.002)


def leaving(tmp_path, times):
    endless = says_model(" x", " y", ends=False, n_ctx=200000)
    took = []
    with serving(tmp_path, endless, "--parallel", 4) as s:
        for stage in range(times):
            leave_at(s, stage)
            took.append(s.quiet(30))
            if stage % 50 == 0:
                a = s.complete("go", max_tokens=4)
                assert a["choices"][0]["text"] == " x y x y"
        left = s.metrics()["cancelled_total"]
        assert left > times / 3, "most of these requests never ran: %d of %d did" % (left, times)
    took.sort()
    print(
        "slots free after: median %.1f ms, 99.9 %% %.1f ms, worst %.1f ms, of %d"
        % (1e3 * statistics.median(took), 1e3 * took[int(0.999 * (times - 1))], 1e3 * took[-1], times)
    )
    return took


def test_who_leaves_frees_the_slot(tmp_path):
    assert leaving(tmp_path, 40)[-1] < 10  # a busy machine, and a sanitizer


@pytest.mark.long
def test_who_leaves_frees_the_slot_a_thousand_times(tmp_path):
    took = leaving(tmp_path, 1000)
    # A step of a table model takes no time to speak of.
    assert took[int(0.999 * 999)] < 2, took[-3:]


def test_who_waits_in_the_queue_may_leave(tmp_path):
    endless = says_model(" x", ends=False, n_ctx=100000)
    with serving(tmp_path, endless, "--parallel", 1, "--queue", 20) as s:
        body = {"prompt": "go", "max_tokens": 90000}
        first = s.stream("/v1/completions", body)
        next(iter(first))
        waiting = []
        for _ in range(10):
            c = s.connect()
            c.request(
                "POST", "/v1/completions", b'{"prompt":"go","max_tokens":90000}',
                {"Content-Type": "application/json"},
            )
            waiting.append(c)
        for c in waiting:
            c.close()
        first.leave()
        s.quiet(30)
        assert s.complete("go", max_tokens=2)["choices"][0]["text"] == " x x"


def test_a_client_that_does_not_read_costs_no_memory(tmp_path):
    """The run pauses when nobody takes what it writes."""
    endless = says_model(" x" * 50, ends=False, n_ctx=400000)
    with serving(tmp_path, endless) as s:
        before = s.rss()
        own = b"127.0.0.1:%d" % s.port
        body = b'{"prompt":"go","max_tokens":300000,"stream":true}'
        with socket.create_connection(("127.0.0.1", s.port), 30) as c:
            c.sendall(hostile.post(body).replace(hostile.HOST, own))
            time.sleep(3)
            tokens = s.metrics()["tokens_total"]
            for _ in itertools.repeat(None, 5):
                s.complete("go", max_tokens=3)
            assert s.running() and tokens < 290000
        assert s.rss() - before < 300 << 10
        s.quiet(30)

