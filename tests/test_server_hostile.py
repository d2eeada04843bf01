"""Hostile HTTP: every request of hostile.py is answered as it should be, and harms nobody.

After each one the server must be alive and a good request must get its usual answer.
"""

import contextlib
import json
import socket
import threading
import time

import hostile
import pytest
from serving import Answer, Server, answers_in, read_raw, words_model

GOOD = {"prompt": "go", "max_tokens": 3, "seed": 7}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("hostile"), words_model(), "--parallel", 4)
    s.usual = s.complete(**GOOD)["choices"]
    yield s
    s.stop()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    s = Server(
        folder, words_model(), "--api-key", "sesame", "--cors-origin", "http://good.test"
    )
    yield s
    s.stop()


def unharmed(server):
    assert server.running(), server.stderr
    assert server.complete(**GOOD)["choices"] == server.usual


def check_error(answer):
    """An error is an object that clients can read, and says why."""
    if answer.status in (400, 413, 414, 431, 501, 505) and not answer.body.startswith(b"{"):
        # The HTTP library itself refuses what is no HTTP, before anybody looks at it.
        assert "json" not in answer.headers.get("content-type", ""), answer
        return
    error = answer.error
    assert set(error) >= {"message", "type", "code", "param"}, answer
    assert error["message"] and isinstance(error["message"], str)
    assert "\n" not in error["message"] and len(error["message"]) < 700
    assert isinstance(error["type"], str)


def send(server, data, allowed, most=1):
    own = b"127.0.0.1:%d" % server.port
    data = data.replace(hostile.HOST, own).replace(b"@PORT@", b"%d" % server.port)
    # The end of a request that has none is not waited for.
    timeout = 0.7 if hostile.CLOSED in allowed else 20
    got = answers_in(server.raw(data, timeout))
    statuses = [a.status for a in got if a.status != 100]
    assert all(s in allowed for s in statuses[:1] or [hostile.CLOSED]), (statuses, got[:1])
    assert len(statuses) <= most, "one request, several answers: %s" % got
    for answer in got:
        if answer.status >= 400:
            check_error(answer)
    return got


def named(cases):
    return [pytest.param(*c[1:], id=c[0]) for c in cases]


@pytest.mark.parametrize("data,allowed", named(hostile.SMUGGLING))
def test_smuggling(server, data, allowed, request):
    name = request.node.callspec.id
    got = send(server, data, allowed, 2 if name in hostile.TWO_ANSWERS else 1)
    if name not in hostile.TWO_ANSWERS:
        assert not any(b"sneaked" in a.body for a in got)
    unharmed(server)


@pytest.mark.parametrize("body,allowed", named(hostile.CHUNKS))
def test_chunks(server, body, allowed):
    got = send(server, hostile.chunked(body), allowed)
    if got and got[0].status == 200:
        assert got[0].json["choices"][0]["finish_reason"]
    unharmed(server)


@pytest.mark.parametrize("data,allowed", named(hostile.LINES))
def test_lines(server, data, allowed, request):
    # Behind what is no request at all there may be more of the same.
    send(server, data, allowed, 2 if request.node.callspec.id == "pipelined-garbage" else 1)
    unharmed(server)


@pytest.mark.parametrize("path,allowed", hostile.PATHS, ids=lambda x: repr(x)[:40])
def test_paths(server, path, allowed):
    for data in (hostile.get(path), hostile.post(path=path)):
        got = send(server, data, allowed | {405, 415} if data.startswith(b"POST") else allowed)
        assert not any(b"root:" in a.body or b"PATH=" in a.body for a in got)
    unharmed(server)


@pytest.mark.parametrize("method,path", hostile.METHODS)
def test_methods(server, method, path):
    data = hostile.post(path=path).replace(b"POST", method, 1)
    allowed = {405} if method in (b"GET", b"PUT", b"DELETE", b"PATCH", b"POST") else {400, 405, 501, 0}
    got = send(server, data, allowed)
    if got and got[0].status == 405:
        allow = got[0].headers["allow"]
        assert "OPTIONS" in allow and method.decode() not in allow.split(", ")
    unharmed(server)


@pytest.mark.parametrize("kind,allowed", hostile.KINDS)
def test_content_types(server, kind, allowed):
    send(server, hostile.post(kind=kind), allowed)


@pytest.mark.parametrize("body,allowed", named(hostile.BODIES))
def test_bodies(server, body, allowed):
    paths = ("/v1/completions", "/v1/chat/completions", "/tokenize")
    for path in paths if 200 not in allowed and len(body) < 1 << 20 else paths[:1]:
        answer = server.post(path, body)
        assert answer.status in allowed, answer
        if answer.status != 200:
            check_error(answer)
    unharmed(server)


def refused(server, path, body, field=None):
    answer = server.post(path, body)
    assert answer.status == 400, answer
    check_error(answer)
    if field and answer.error["code"] != "invalid_json":  # a number that no integer can hold
        told = "%s %s" % (answer.error["param"], answer.error["message"])
        assert field in told, answer
    unharmed(server)


@pytest.mark.parametrize("field,value", hostile.WRONG, ids=lambda x: repr(x)[:40])
def test_fields(server, field, value):
    refused(server, "/v1/completions", {"prompt": "go", field: value}, field)


@pytest.mark.parametrize("prompt", hostile.PROMPTS, ids=lambda x: repr(x)[:40])
def test_prompts(server, prompt):
    if prompt in ([], [[]], [[1], "a"]):  # odd, and may have a meaning
        answer = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})
        assert answer.status in (200, 400), answer
        return
    refused(server, "/v1/completions", {"prompt": prompt, "max_tokens": 2}, "prompt")


@pytest.mark.parametrize("messages", hostile.MESSAGES, ids=lambda x: repr(x)[:40])
def test_messages(server, messages):
    body = {"messages": messages, "max_tokens": 2}
    refused(server, "/v1/chat/completions", body, "messages")
    if not isinstance(messages, list) or "a" * 5000 not in str(messages):  # long is no error there
        refused(server, "/apply-template", {"messages": messages}, "messages")


@pytest.mark.parametrize("field,value", hostile.CHAT, ids=lambda x: repr(x)[:40])
def test_chat_fields(server, field, value):
    body = {"messages": [{"role": "user", "content": "go"}], field: value}
    refused(server, "/v1/chat/completions", body, field)


@pytest.mark.parametrize("path,body", hostile.OTHERS, ids=lambda x: repr(x)[:40])
def test_other_endpoints(server, path, body):
    answer = server.post(path, body)
    assert answer.status in (400, 404, 501), answer
    check_error(answer)
    unharmed(server)


@pytest.mark.parametrize("headers,allowed", hostile.ASKERS, ids=lambda x: repr(x)[:70])
def test_askers(server, headers, allowed):
    got = send(server, hostile.get(host=headers), allowed)
    got += send(server, hostile.post().replace(b"Host: " + hostile.HOST + b"\r\n", headers), allowed)
    for answer in got:
        assert "access-control-allow-origin" not in answer.headers  # off by default


@pytest.mark.parametrize("headers,allowed", hostile.KEYS, ids=lambda x: repr(x)[:70])
def test_keys(guarded, headers, allowed):
    send(guarded, hostile.get(extra=headers), allowed)
    send(guarded, hostile.post(extra=headers), allowed)
    send(guarded, hostile.get(b"/metrics", extra=headers), allowed)
    send(guarded, hostile.get(b"/health", extra=headers), {200, 400})
    query = hostile.get(b"/v1/models?api_key=sesame&key=sesame", extra=headers)
    send(guarded, query, allowed)


def test_cors(guarded):
    key = {"Authorization": "Bearer sesame"}
    good = guarded.get("/v1/models", dict(key, Origin="http://good.test"))
    assert good.status == 200 and good.headers["Access-Control-Allow-Origin"] == "http://good.test"
    assert "Access-Control-Allow-Credentials" not in good.headers
    for origin in ("http://evil.test", "null", "http://good.test.evil.test", "https://good.test"):
        bad = guarded.get("/v1/models", dict(key, Origin=origin))
        assert bad.status == 403 and "Access-Control-Allow-Origin" not in bad.headers
    asks = {
        "Origin": "http://good.test",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    before = guarded.request("OPTIONS", "/v1/completions", headers=asks)
    assert before.status in (200, 204)
    assert before.headers["Access-Control-Allow-Origin"] == "http://good.test"
    assert "POST" in before.headers["Access-Control-Allow-Methods"]
    allowed = before.headers["Access-Control-Allow-Headers"].lower()
    assert "authorization" in allowed and "content-type" in allowed
    # A page across sites that was allowed says cross-site, and may.
    far = dict(key, Origin="http://good.test")
    far["Sec-Fetch-Site"] = "cross-site"
    assert guarded.get("/v1/models", far).status == 200
    # An error tells a page that may ask why.
    wrong = guarded.get("/v1/models", {"Origin": "http://good.test"})
    assert wrong.status == 401
    assert wrong.headers["Access-Control-Allow-Origin"] == "http://good.test"


def test_headers_of_answers(server):
    for answer in (server.get("/v1/models"), server.post("/v1/completions", GOOD)):
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Type"].startswith("application/json")


# ==== Sizes ====


def test_large_bodies_are_refused_at_once(server):
    for size in (9 << 20, 100 << 20):
        begun = time.monotonic()
        got = send(server, hostile.post(b"", length=b"%d" % size), {413})
        assert "8" in got[0].error["message"] and time.monotonic() - begun < 5
    unharmed(server)


def test_a_hundred_megabytes_of_brackets(server):
    """No length is told. The server stops reading at its limit."""
    before, sent = server.rss(), 0
    head = hostile.chunked(b"").replace(hostile.HOST, b"127.0.0.1:%d" % server.port)
    piece = hostile.chunk(b"[" * 65536)
    with socket.create_connection(("127.0.0.1", server.port), 10) as s:
        with contextlib.suppress(OSError):
            s.sendall(head)
            while sent < 100 << 20:
                s.sendall(piece)
                sent += 65536
        got = answers_in(read_raw(s, 10, 0.02))
    assert sent < 100 << 20, "all of it was read"
    assert [a.status for a in got] in ([413], [])
    assert server.rss() - before < 200 << 10
    unharmed(server)


def test_the_largest_body_is_read(server):
    body = b'{"max_tokens":2,"prompt":"go","x":"'
    body += b"x" * ((8 << 20) - len(body) - 2) + b'"}'
    assert server.post("/v1/completions", body).status == 200
    assert server.post("/v1/completions", body[:-2] + b'x"}').status == 413
    unharmed(server)


def test_a_prompt_too_long(server):
    answer = server.post("/v1/completions", {"prompt": "a" * 4096, "max_tokens": 1})
    assert answer.status == 400 and answer.error["code"] == "context_length_exceeded"
    answer = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 5000}]})
    assert answer.status == 400 and answer.error["code"] == "context_length_exceeded"


# ==== Slow and silent clients ====


def test_slow_clients_cost_nobody(server):
    """Half a request each, and then nothing. Others are served meanwhile."""
    stages = [b"", b"P", b"POST /v1/comp", hostile.post()[:60], hostile.post()[:-5], b"\r\n"]
    own = b"127.0.0.1:%d" % server.port
    threads = threads_of(server)
    with contextlib.ExitStack() as stack:
        sockets = []
        for i in range(120):
            s = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 10))
            s.sendall(stages[i % len(stages)].replace(hostile.HOST, own))
            sockets.append(s)
        begun = time.monotonic()
        for _ in range(20):
            unharmed(server)
        assert time.monotonic() - begun < 20
        assert threads_of(server) == threads
        for s in sockets:  # a byte more, and still no end
            with contextlib.suppress(OSError):
                s.sendall(b"X")
        unharmed(server)
    unharmed(server)


def threads_of(server):
    with open("/proc/%d/status" % server.process.pid) as f:
        return [line for line in f if line.startswith("Threads:")]


def test_a_header_that_does_not_end_is_cut_off(server):
    with socket.create_connection(("127.0.0.1", server.port), 10) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\n")
        begun, closed = time.monotonic(), False
        while time.monotonic() - begun < 30 and not closed:
            s.settimeout(0.5)
            try:
                closed = s.recv(4096) == b"" or closed
            except socket.timeout:
                pass
            except OSError:
                closed = True
        assert closed and time.monotonic() - begun < 30
    unharmed(server)


def test_what_is_sent_ahead_is_not_read(server):
    """Nobody has looked at it, so the connection ends with the answer, and says so."""
    own = b"127.0.0.1:%d" % server.port
    data = b"".join(
        hostile.post(b'{"prompt":"go","max_tokens":%d,"ignore_eos":true}' % n) for n in (1, 2, 3)
    )
    (got,) = answers_in(server.raw(data.replace(hostile.HOST, own), settle=1))
    assert got.json["usage"]["completion_tokens"] == 1
    assert got.headers["connection"] == "close"


def second(server, data, pause=0.0):
    """The answer to data as the second request of a connection, and what comes behind it."""
    own = b"127.0.0.1:%d" % server.port
    with socket.create_connection(("127.0.0.1", server.port), 20) as s:
        s.sendall(hostile.get(b"/health").replace(hostile.HOST, own))
        assert answers_in(read_raw(s, 20, 0.02))[0].status == 200
        data = data.replace(hostile.HOST, own).replace(b"@PORT@", b"%d" % server.port)
        with contextlib.suppress(OSError):
            for i in range(0, len(data), 7 if pause else len(data)):
                s.sendall(data[i : i + 7] if pause else data)
                time.sleep(pause)
        return read_raw(s, 0.7, 0.05)


@pytest.mark.parametrize("pause", [0, 0.001])
@pytest.mark.parametrize(
    "data,allowed", named(c for c in hostile.SMUGGLING + hostile.LINES if len(c[1]) < 4000)
)
def test_the_second_head_is_looked_at_like_the_first(server, data, allowed, pause):
    if not data:
        return
    got = [a for a in answers_in(second(server, data, pause)) if a.status != 100]
    assert not any(b"sneaked" in a.body for a in got)
    assert all(a.status in allowed for a in got[:1] or [Answer(hostile.CLOSED, {}, b"")]), got
    assert len(got) <= 1, got
    for a in got:
        if a.status >= 400:
            assert a.body.startswith(b"{"), a


def test_a_connection_serves_many_requests(server):
    connection = server.connect()
    for i in range(50):
        body = json.dumps(GOOD if i % 3 else {"prompt": 5}).encode()
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        got = Answer(answer.status, answer.headers, answer.read())
        assert got.status == (200 if i % 3 else 400), got
        if i % 3:
            assert got.json["choices"] == server.usual
    connection.close()


def test_half_closed_clients(server):
    """A client that has said everything and closes its side counts as gone; nothing is harmed."""
    own = b"127.0.0.1:%d" % server.port
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", server.port), 10) as s:
            s.sendall(hostile.post(b'{"prompt":"go","max_tokens":500}').replace(hostile.HOST, own))
            s.shutdown(socket.SHUT_WR)
            read_raw(s, 5, 0.01)
    server.quiet()
    unharmed(server)


# ==== What clients send that is strange and right ====


def test_nulls_and_unknown_fields_are_ignored(server):
    names = set(hostile.NUMBERS + hostile.SWITCHES) - {"n", "max_tokens", "seed"}
    names |= {f for f, _ in hostile.WRONG} - {"n", "max_tokens", "seed"}
    names |= {"tools", "user", "metadata", "store", "x_unknown", "model", "n"}
    body = dict.fromkeys(sorted(names), None)
    answer = server.post("/v1/completions", dict(body, **GOOD))
    assert answer.status == 200, answer
    assert answer.json["choices"] == server.usual
    odd = {"x": {"y": [1, "z"]}, "user": "me", "model": "any", "metadata": {"a": 1}, "store": True}
    assert server.post("/v1/completions", dict(odd, **GOOD)).json["choices"] == server.usual


def test_everything_switched_off(server):
    """Some clients send all of their settings always, and mean none."""
    off = {
        "banned_strings": [], "banned_tokens": "", "custom_token_bans": "", "bad_words": [],
        "banned_regex": [], "grammar": "", "grammar_string": "", "json_schema": {}, "logit_bias": [],
        "negative_prompt": "", "guidance_scale": 1, "min_p": 0, "top_k": 0, "typical_p": 1,
        "typical": 1, "tfs": 1, "epsilon_cutoff": 0, "eta_cutoff": 0, "rep_pen": 1,
        "repetition_penalty": 1, "rep_pen_range": 0, "repetition_penalty_range": 0,
        "no_repeat_ngram_size": 0, "penalty_alpha": 0, "num_beams": 1, "length_penalty": 1,
        "min_length": 0, "encoder_repetition_penalty": 1, "mirostat_mode": 0, "mirostat_tau": 5,
        "mirostat_eta": 0.1, "dynatemp_low": 1, "dynatemp_high": 1, "dynatemp_range": 0,
        "dynatemp_exponent": 1, "smoothing_factor": 0, "smoothing_curve": 1, "dry_multiplier": 0,
        "dry_base": 1.75, "dry_allowed_length": 2, "dry_sequence_breakers": '["\\n", ":"]',
        "xtc_probability": 0, "xtc_threshold": 0.1, "nsigma": 0, "top_n_sigma": 0, "top_a": 0,
        "sampler_order": [6, 0, 1], "sampler_priority": ["top_k"], "samplers": ["top_k"],
        "add_bos_token": True, "skip_special_tokens": True, "ban_eos_token": False,
        "truncation_length": 2048, "early_stopping": False, "speculative_ngram": False,
        "include_reasoning": True, "sampler_seed": 7, "seed": 7, "stop": [], "stopping_strings": [],
        "rules": [], "ban_lists": [], "n": 1, "best_of": 1, "suffix": "", "logprobs": None,
        "temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "stream": False,
    }
    answer = server.post("/v1/completions", dict(off, prompt="go", max_tokens=3))
    assert answer.status == 200, answer
    assert answer.json["choices"] == server.usual


def test_many_at_once(server):
    """Good and bad requests beside each other."""
    failures = []

    def work(k):
        try:
            for i in range(10):
                if (i + k) % 2:
                    unharmed(server)
                else:
                    assert server.post("/v1/completions", {"prompt": k}).status == 400
        except BaseException as e:  # told below
            failures.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]
