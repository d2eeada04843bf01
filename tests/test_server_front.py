"""The sockets' side of the server: heads, keys, origins, slow clients, signals, ban lists, its log."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import stat
import struct
import threading
import time

import pytest
from serving import Server, answers_in, says_model, serving, words_model

# An answer that takes long, so that there is time to leave.
ENDLESS = dict(says_model(" a", ends=False), n_ctx=1 << 20)
LONG = {"prompt": "go", "max_tokens": 900000, "ignore_eos": True, "max_evaluated": 1000000}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("front"), words_model())
    yield s
    s.stop()


def head(server, line, *lines, host=True):
    own = ["Host: 127.0.0.1:%d" % server.port, "Connection: close"] if host else []
    return ("\r\n".join([line, *own, *lines]) + "\r\n\r\n").encode()


def status(server, line, *lines, host=True):
    """Of the one answer; an error must be JSON of the usual shape."""
    (answer,) = answers_in(server.raw(head(server, line, *lines, host=host)))
    if answer.status >= 400 and not line.startswith("HEAD"):
        assert set(answer.error) == {"message", "type", "code", "param"}, answer
        assert answer.headers["content-type"].startswith("application/json"), answer
    return answer.status


def test_heads(server):
    get = "GET /health HTTP/1.1"
    cases = [
        (200, get), (200, "GET /health HTTP/1.0"), (200, "HEAD /health HTTP/1.1"),
        (204, "OPTIONS * HTTP/1.1"), (204, "OPTIONS /v1/models HTTP/1.1"),
        (200, "GET http://127.0.0.1:%d/health HTTP/1.1" % server.port),
        (400, "GET http://elsewhere/health HTTP/1.1"), (400, "GET health HTTP/1.1"),
        (400, "GET /health HTTP/2.0"), (400, "GET /health"), (400, "PRI * HTTP/2.0"),
        (400, "GET /a b HTTP/1.1"), (400, "GET /health%00 HTTP/1.1"),
        (400, get, "A: b", " c"), (400, get, "A : b"), (400, get, "A"), (400, get, "A: \x01"),
        (400, get, "Host: 127.0.0.1"), (405, "CONNECT a:1 HTTP/1.1"), (405, "FROB / HTTP/1.1"),
        (405, "DELETE /health HTTP/1.1"), (404, "GET /nothing HTTP/1.1"),
        (404, "GET /" + "a" * (8192 - 14) + " HTTP/1.1"),
        (414, "GET /" + "a" * (8193 - 14) + " HTTP/1.1"),
        (200, get, *["X: 1"] * 62), (431, get, *["X: 1"] * 63), (431, get, "X: " + "a" * 16384),
        (400, "GET /health?a=1&a=2 HTTP/1.1"), (400, "GET /health?a=%ff HTTP/1.1"),
    ]  # fmt: skip
    for wanted, *lines in cases:
        assert status(server, *lines) == wanted, (wanted, lines)
    assert status(server, get, host=False) == 400
    assert status(server, "GET /health HTTP/1.0", host=False) == 200


def test_lengths(server):
    line = ["POST /v1/completions HTTP/1.1", "Content-Type: application/json"]
    for value in ("-1", "+2", "0x2", "2, 2", "", "2 2", "99999999999999999999"):
        assert status(server, *line, "Content-Length: " + value) == 400, value
    assert status(server, *line, "Content-Length: 2", "Content-Length: 2") == 400
    assert status(server, *line, "Content-Length: 2", "Transfer-Encoding: chunked") == 400
    assert status(server, *line, "Transfer-Encoding: gzip, chunked") == 400
    assert status(server, *line, "Content-Encoding: gzip", "Content-Length: 2") == 415
    assert status(server, line[0], "Content-Length: 2") == 415
    assert status(server, *line, "Content-Length: 8388609") == 413


def test_the_answer_to_a_large_body_arrives(server):
    """Though the client goes on sending for a while."""
    body = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    lines = ["POST /v1/completions HTTP/1.1", "Content-Type: application/json"]
    data = head(server, *lines, "Transfer-Encoding: chunked") + body * 12
    (answer,) = answers_in(server.raw(data))
    assert answer.status == 413 and "8388608" in answer.error["message"]


def test_expect(server):
    lines = ["POST /v1/completions HTTP/1.1", "Content-Type: application/json"]
    with socket.create_connection(("127.0.0.1", server.port), 20) as s:
        s.sendall(head(server, *lines, "Expect: 100-continue", "Content-Length: 30"))
        assert s.recv(4096).startswith(b"HTTP/1.1 100")
        s.sendall(b'{"prompt":"go","max_tokens":1}')
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
    (answer,) = answers_in(
        server.raw(head(server, *lines, "Expect: 100-continue", "Content-Length: 8388609"))
    )
    assert answer.status == 413


# ==== Keys ====


def test_digests_of_keys(tmp_path):
    """The log tells the last four digits of a key's SHA-256; lengths around those of its blocks."""
    keys = ["k" * n for n in (1, 3, 54, 55, 56, 57, 63, 64, 65, 118, 119, 120, 127, 128, 200)]
    keys += ["abc", "sk-%s" % os.urandom(8).hex(), "!~" * 20]
    flags = [x for k in keys for x in ("--api-key", k)]
    log = tmp_path / "log"
    with serving(tmp_path, words_model(), *flags, "--access-log", log) as s:
        for i, k in enumerate(keys):
            name = ("Authorization", "Bearer " + k) if i % 2 else ("X-Api-Key", k)
            assert s.get("/v1/models", dict([name])).status == 200, k
            assert s.get("/v1/models", {"X-Api-Key": k + "x"}).status == 401 or k + "x" in keys
    said = [json.loads(line) for line in log.read_text().splitlines()]
    told = [x["key"] for x in said if x["status"] == 200]
    assert told == [hashlib.sha256(k.encode()).hexdigest()[-4:] for k in keys]
    assert all(x["key"] is None for x in said if x["status"] == 401)
    assert not any(k in log.read_text() for k in keys if len(k) > 3)


def test_key_file(tmp_path, retrace):
    path = tmp_path / "keys"
    path.write_text("one\r\n\ntwo\n")
    path.chmod(0o644)
    done = retrace("serve", "-m", "x.json", "--api-key-file", path)
    assert done.code == 2 and "chmod" in done.err and done.out == ""
    path.chmod(stat.S_IRUSR)
    with serving(tmp_path, words_model(), "--api-key-file", path) as s:
        codes = [s.get("/v1/models", {"X-Api-Key": k}).status for k in ("one", "two", "three", "")]
        got = s.raw(head(s, "GET /v1/models HTTP/1.1", "Authorization: Bearer one \t"))
        assert got.startswith(b"HTTP/1.1 200")
    assert codes == [200, 200, 401, 401]
    path.chmod(0o600)
    path.write_bytes(b"one\0two\n")
    done = retrace("serve", "-m", "x.json", "--api-key-file", path)
    assert done.code == 2 and "character" in done.err


@pytest.mark.parametrize(
    "flags,code,word",
    [
        (["--host", "0.0.0.0"], 2, "--api-key"),
        (["--host", "::"], 2, "--api-key"),
        (["--api-key", "a b"], 2, "--api-key"),
        (["--api-key", ""], 2, "--api-key"),
        (["--cors-origin", "good.test"], 2, "--cors-origin"),
        (["--allow-host", "http://good.test"], 2, "--allow-host: 'http://good.test'"),
        (["--allow-host", ""], 2, "--allow-host"),
        (["--ban-list", "x"], 2, "NAME=FILE"),
        (["--ban-list", "x=/nowhere"], 4, "/nowhere"),
        (["--table", "/nowhere"], 4, "/nowhere"),
        (["--access-log", "/nowhere/log"], 4, "--access-log"),
        (["--port", "65536"], 2, "--port"),
        (["-n", "5"], 2, "-n"),
    ],
)
def test_wrong_flags(tmp_path, retrace, flags, code, word):
    (tmp_path / "m.json").write_text(json.dumps(words_model()))
    done = retrace("serve", "-m", tmp_path / "m.json", *flags)
    assert done.code == code and word in done.err and done.out == "", done


def test_a_port_in_use(server, tmp_path, retrace):
    (tmp_path / "m.json").write_text(json.dumps(words_model()))
    done = retrace("serve", "-m", tmp_path / "m.json", "--port", server.port)
    assert done.code == 4 and str(server.port) in done.err and done.out == ""


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_six(tmp_path, host):
    if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("no IPv6 here")
    with serving(tmp_path, words_model(), "--host", host) as s:
        with socket.create_connection(("::1", s.port), 20) as c:
            c.sendall(b"GET /health HTTP/1.1\r\nHost: [::1]:%d\r\n\r\n" % s.port)
            assert c.recv(4096).startswith(b"HTTP/1.1 200")
        assert "http://[::1]:%d" % s.port in s.stderr


# ==== Clients that are slow, or leave ====


def cut(server, data, every=None, more=b"", most=30):
    """Seconds until the server closes, and what it said."""
    begun, said = time.monotonic(), b""
    with socket.create_connection(("127.0.0.1", server.port), most) as s:
        s.sendall(data)
        while time.monotonic() - begun < most:
            s.settimeout(every or most)
            with contextlib.suppress(socket.timeout):
                got = s.recv(4096)
                if not got:
                    break
                said += got
                continue
            with contextlib.suppress(OSError):
                s.sendall(more)
    return time.monotonic() - begun, said


def test_slow_clients_are_cut_off(server):
    """All at the same time: each takes its limit of seconds."""
    done = "GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.port
    lines = ["POST /v1/completions HTTP/1.1", "Content-Type: application/json"]
    cases = {
        "head": (b"GET /health HTTP/1.1\r\nA: ", 0.5, b"b", 9, 13, b"HTTP/1.1 408"),
        "body": (head(server, *lines, "Content-Length: 999"), 0.5, b" ", 10, 14, b"HTTP/1.1 408"),
        "idle": (done.encode(), None, b"", 14, 19, b"HTTP/1.1 200"),
        "next": (done.encode(), 0.5, b"G", 9, 13, b"HTTP/1.1 200"),
        "silent": (b"", None, b"", 14, 19, b""),
    }
    got = {}
    threads = [
        threading.Thread(target=lambda k=k, v=v: got.update({k: cut(server, *v[:3])}))
        for k, v in cases.items()
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for name, (_, _, _, least, most, said) in cases.items():
        assert least < got[name][0] < most, (name, got)
        assert got[name][1].startswith(said), (name, got)


def seconds_of(server):
    """Of processor time, so far."""
    with open("/proc/%d/stat" % server.process.pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_chunk_without_an_end(server):
    """A line that fits into no buffer: it is refused, and until then nobody turns in circles."""
    lines = ["POST /v1/completions HTTP/1.1", "Content-Type: application/json"]
    data = head(server, *lines, "Transfer-Encoding: chunked") + b"5;" + b"a" * 60000
    before, begun = seconds_of(server), time.monotonic()
    (answer,) = answers_in(server.raw(data, 20))
    assert answer.status == 400 and "chunk" in answer.error["message"]
    assert time.monotonic() - begun < 5 and seconds_of(server) - before < 2
    assert server.get("/health").status == 200


def test_requests_that_were_given_up(server):
    """Parts of requests with the end of the connection right behind them."""
    lines = ["POST /tokenize HTTP/1.1", "Content-Type: application/json"]
    whole = head(server, *lines, "Content-Length: 20") + b'{"content":"abcdef"}'
    whole = whole.replace(b"Connection: close\r\n", b"")
    for i in range(1, len(whole), 2):
        with socket.create_connection(("127.0.0.1", server.port), 20) as s:
            s.sendall(whole[:i])
            s.shutdown(socket.SHUT_WR)
    begun = time.monotonic()
    while server.metrics()["connections"] > 1:
        assert time.monotonic() - begun < 5, server.metrics()
        time.sleep(0.1)


def test_a_head_that_was_given_up(server):
    """Half a head, and no more will come: that is known at once."""
    with socket.create_connection(("127.0.0.1", server.port), 20) as s:
        begun = time.monotonic()
        s.sendall(b"GET /health HT")
        s.shutdown(socket.SHUT_WR)
        assert s.recv(100).startswith(b"HTTP/1.1 400") and time.monotonic() - begun < 5


@pytest.mark.parametrize("how", ["close", "reset", "half"])
@pytest.mark.parametrize("stream", [False, True])
def test_leaving(tmp_path_factory, how, stream):
    with serving(tmp_path_factory.mktemp("leave"), ENDLESS, "--parallel", 1) as s:
        body = json.dumps(dict(LONG, stream=stream))
        lines = ["POST /v1/completions HTTP/1.1", "Content-Type: application/json"]
        data = head(s, *lines, "Content-Length: %d" % len(body)) + body.encode()
        for i in range(5):
            c = socket.create_connection(("127.0.0.1", s.port), 20)
            c.sendall(data)
            while s.metrics()["requests_running"] == 0:
                time.sleep(0.002)
            if how == "reset":
                c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if how == "half":
                c.shutdown(socket.SHUT_WR)
            else:
                c.close()
            assert s.quiet(20) < 5
            c.close()
        assert s.metrics()["cancelled_total"] == 5


def test_a_thousand_idle_connections(server):
    threads = len(os.listdir("/proc/%d/task" % server.process.pid))
    with contextlib.ExitStack() as stack:
        for _ in range(900):
            s = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 20))
            s.sendall(b"G")
        assert server.complete(max_tokens=2)["choices"]
        assert len(os.listdir("/proc/%d/task" % server.process.pid)) == threads
        assert server.metrics()["connections"] > 900


# ==== Signals, lists ====


def test_draining(tmp_path):
    s = Server(tmp_path, ENDLESS)
    events = iter(s.stream("/v1/completions", dict(LONG, max_tokens=3000)))
    next(events)
    s.process.send_signal(signal.SIGTERM)
    refused = False
    with contextlib.suppress(OSError):  # it may be over by then
        refused = s.get("/v1/models")
        assert refused.status == 503 and refused.headers["Retry-After"]
    last = None
    for last in events:
        pass
    assert last["choices"][0]["finish_reason"] == "length"
    s.process.wait(30)
    assert s.process.returncode == 0, s.stderr


def test_the_second_signal(tmp_path):
    s = Server(tmp_path, ENDLESS)
    events = s.stream("/v1/completions", LONG)
    next(iter(events))
    s.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert s.running()
    s.process.send_signal(signal.SIGINT)
    assert s.process.wait(10) == 130


def read_all(events):
    with contextlib.suppress(Exception):
        for _ in events:
            pass


def test_who_comes_while_it_ends_is_answered(tmp_path):
    """A connection is not closed before its request has had time to come."""
    s = Server(tmp_path, ENDLESS)
    events = s.stream("/v1/completions", LONG)
    next(iter(events))
    s.process.send_signal(signal.SIGTERM)
    for i in range(12):
        with socket.create_connection(("127.0.0.1", s.port), 10) as late:
            time.sleep(0.05 * i)
            late.sendall(head(s, "GET /health HTTP/1.1"))
            assert late.recv(64).startswith(b"HTTP/1.1 200 "), i
    s.process.send_signal(signal.SIGTERM)
    s.ends(codes=(0, 130, 143, -signal.SIGTERM))


@pytest.mark.long
def test_ending_with_everything_in_hand(tmp_path):
    """The time to end runs out while an answer is written, a body arrives and lists are read again;
    nothing of it may meet a part of the server that has been put away."""
    s = Server(tmp_path, ENDLESS)
    events = s.stream("/v1/completions", LONG)
    threading.Thread(target=read_all, args=(events,), daemon=True).start()
    with socket.create_connection(("127.0.0.1", s.port), 60) as late:
        lines = ["POST /v1/completions HTTP/1.1", "Content-Type: application/json"]
        late.sendall(head(s, *lines, "Transfer-Encoding: chunked"))
        time.sleep(0.3)
        s.process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        while s.running() and time.monotonic() - begun < 60:
            left = begun + 29.5 - time.monotonic()
            with contextlib.suppress(OSError):
                late.sendall(b"800\r\n" + b" " * 0x800 + b"\r\n")
                if left < -0.6:
                    late.sendall(b"1e\r\n{\"prompt\":\"go\",\"max_tokens\":1}\r\n0\r\n\r\n")
            if left < 0:
                s.process.send_signal(signal.SIGHUP)
            time.sleep(min(0.5, max(0.002, left)))
    s.ends((0,))


def test_interrupted(tmp_path):
    s = Server(tmp_path, words_model())
    s.stop(signal.SIGINT, (130,))


def names(server):
    return sorted(server.get("/v1/models").json["data"][0]["retrace"]["ban_lists"])


def test_ban_lists_are_read_again(tmp_path):
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "a.txt").write_text(" cat\n")
    given = tmp_path / "given"
    given.write_text(" dog\n")
    flags = ["--ban-list", "b=%s" % given]
    with serving(tmp_path, words_model(), *flags, env={"RETRACE_LISTS": str(folder)}) as s:
        assert names(s) == ["a", "b"]
        given.write_bytes(b"\xff\n")
        (folder / "c.txt").write_text(" mat\n")
        s.process.send_signal(signal.SIGHUP)
        begun = time.monotonic()
        while names(s) != ["a", "b", "c"] and time.monotonic() - begun < 20:
            time.sleep(0.01)
        text = s.complete(ban_lists=["b", "c"], max_tokens=200, ignore_eos=True)["choices"][0]["text"]
        assert names(s) == ["a", "b", "c"]
        assert " dog" not in text and " mat" not in text and " cat" in text
        assert "stays as it was" in s.stderr


# ==== Its log ====


def test_the_log_stays_small(tmp_path):
    """Refused requests fill no disk; what was left out is counted."""
    log = tmp_path / "log"
    with serving(tmp_path, words_model(), "--access-log", log) as s:
        for _ in range(5):
            c = s.connect()
            for _ in range(800):
                c.request("GET", "/" + "x" * 100)
                answer = c.getresponse()
                assert answer.status == 404 and answer.read()
            c.close()
        s.complete(prompt="the secret of it", max_tokens=1)
        begun = time.monotonic()
    size = log.stat().st_size
    assert size < 256 * 1024 + (time.monotonic() - begun + 60) * 1024 + 2000
    last = json.loads(log.read_text().splitlines()[-1])
    assert last["path"] == "/v1/completions" and last["status"] == 200
    assert sum(json.loads(x).get("unlogged", 0) for x in log.read_text().splitlines()) > 1000
    assert "secret" not in log.read_text()


def test_the_log_of_requests_that_cost_nothing(tmp_path):
    """Whoever may ask for /health only can not fill the disk with its lines."""
    log = tmp_path / "log"
    with serving(tmp_path, words_model(), "--access-log", log) as s:
        begun = time.monotonic()
        for _ in range(4):
            c = s.connect()
            for _ in range(900):
                c.request("GET", "/health")
                assert c.getresponse().read()
            c.close()
        s.complete(max_tokens=1)
        size = log.stat().st_size
    assert size < 256 * 1024 + (time.monotonic() - begun + 1) * 1024 + 2000
    lines = [json.loads(x) for x in log.read_text().splitlines()]
    assert lines[-1]["path"] == "/v1/completions"
    assert sum(x.get("unlogged", 0) for x in lines) > 1000


def test_a_log_that_nobody_reads(tmp_path):
    """A pipe that is full stops its log, and not the server."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with serving(tmp_path, words_model(), "--access-log", path) as s:
            c = s.connect(20)
            for _ in range(900):
                c.request("GET", "/health")
                assert c.getresponse().read()
            assert os.read(end, 1 << 20).count(b"\n") > 100
            s.complete(max_tokens=1)
            late = b""  # the last line of /health may be written after the pipe was emptied
            until = time.monotonic() + 20
            while b"/v1/completions" not in late and time.monotonic() < until:
                try:
                    late += os.read(end, 1 << 20)
                except BlockingIOError:
                    time.sleep(0.01)
            assert sum(json.loads(x).get("unlogged", 0) for x in late.splitlines()) > 100
    finally:
        os.close(end)
