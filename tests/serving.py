"""What the tests of the server share: starting and ending one, table models, plain and raw requests.

A server is ended by its process id, with SIGTERM, and must then end with code 0 and with no report of
a sanitizer. RETRACE names the program, as elsewhere; SERVE_ENV are settings of the sanitizers.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import conftest

READY = re.compile(r"listening on http://(\S+):(\d+)")
REPORT = re.compile(r"Sanitizer|runtime error:|WARNING: Thread|DEADLYSIGNAL|Assertion .* failed")
# Real parts of the model: a crash of the server must not hang a test.
PATIENCE = 60

END = {"text": "</s>", "end": True}
# Every byte is a token of its own (its index is its value), so every text can be a prompt.
BYTES = [{"bytes": [b]} for b in range(256)]
WORDS = [" the", " cat", " sat", " on", " a", " mat", ".", " and", " dog", " testament", " to"]


def words_model(**more):
    """Writes words in a drawn order, and ends now and then. Ids: bytes, then WORDS, then the end."""
    weights = {str(256 + i): 1.0 + i % 3 for i in range(len(WORDS))}
    rows = [{"context": [], "next": dict(weights, **{str(256 + len(WORDS)): 0.4})}]
    rows.append({"context": [" testament"], "next": {" to": 3, " the": 1}})
    control = [{"text": t, "control": True} for t in ("<|user|>", "<|bot|>")]
    return dict(
        {
            "tokens": BYTES + WORDS + [END] + control,
            "rows": rows,
            "n_ctx": 4096,
            "chat_template": "<|user|>{content}<|bot|>",
        },
        **more,
    )


def says_model(*pieces, n_ctx=4096, ends=True):
    """Answers every prompt with these tokens, whatever they are: texts or lists of bytes."""
    own = [{"bytes": list(p)} if isinstance(p, (list, bytes)) else p for p in pieces]
    first = 256
    rows = [{"context": [], "next": {str(first): 1}}]
    for i in range(len(own)):
        last = i + 1 == len(own)
        after = str(first + len(own)) if last and ends else str(first + (i + 1) % len(own))
        rows.append({"context": [first + i], "next": {after: 1}})
    return {"tokens": BYTES + own + [END], "rows": rows, "n_ctx": n_ctx}


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.json["choices"][0]["text"]

    @property
    def error(self):
        return self.json["error"]

    def __repr__(self):
        return "%d %r %r" % (self.status, dict(self.headers), self.body[:2000])


def strictly(text):
    """JSON as it stands in the standard: no NaN, no key twice."""

    def once(pairs):
        assert len({k for k, _ in pairs}) == len(pairs), "a key stands twice in %r" % text[:200]
        return dict(pairs)

    def never(name):
        raise AssertionError("%s is not JSON" % name)

    return json.loads(text, object_pairs_hook=once, parse_constant=never)


class Events:
    """Server-sent events, one by one as they come. `lines` keeps all that was read."""

    def __init__(self, answer, connection):
        self.status, self.headers = answer.status, answer.headers
        self._answer, self.connection = answer, connection
        self.comments, self.done = 0, False

    def __iter__(self):
        data = None
        for line in self._answer:
            text = line.decode("utf-8")  # each line is whole characters
            assert text.endswith("\n"), "the stream ended in the middle of a line: %r" % text
            text = text[:-1]
            if text == "":
                if data == "[DONE]":
                    self.done = True
                elif data is not None:
                    yield strictly(data)
                data = None
            elif text.startswith(":"):
                self.comments += 1
            else:
                assert text.startswith("data: ") and data is None and not self.done, text
                data = text[6:]
        assert data is None, "the stream ended in the middle of an event"

    def leave(self):
        """Goes away without a word."""
        self._answer.close()
        self.connection.close()


def write_model(folder, model, name="model.json"):
    path = folder / name
    path.write_text(json.dumps(model))
    return path


class Server:
    """`retrace serve` on a free port of 127.0.0.1."""

    def __init__(self, folder, model, *flags, env=None, program=None):
        if isinstance(model, dict):
            model = "table:%s" % write_model(folder, model)
        # A request that waits for nothing may still take long under a sanitizer on a busy machine.
        self.command = [program or conftest.PROGRAM, "serve", "-m", str(model), "--port", "0"]
        self.command += [str(f) for f in flags]
        self.errors, self._ready, self._over = [], threading.Event(), False
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=conftest.environment(folder, env or {}),
        )
        self.port = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(300) or not self.port:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server did not start:\n%s" % self.stderr)

    def _read(self):
        for line in self.process.stderr:
            text = line.decode("utf-8", "replace")
            self.errors.append(text)
            found = READY.search(text)
            if found and not self.port:
                self.port = int(found.group(2))
                self._ready.set()
        self._ready.set()

    @property
    def stderr(self):
        return "".join(self.errors)

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.port

    def running(self):
        return self.process.poll() is None

    def stop(self, how=signal.SIGTERM, codes=(0,)):
        """Ends it and says how it ended; a report of a sanitizer fails."""
        if self._over:
            return
        died = self.process.poll()
        assert died is None, "the server had died with %s:\n%s" % (died, self.stderr)
        self.process.send_signal(how)
        self.ends(codes)

    def ends(self, codes=(0,), seconds=90):
        """Waits for the end that was asked for."""
        self._over = True
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server did not end:\n%s" % self.stderr)
        self._reader.join(10)
        assert not REPORT.search(self.stderr), self.stderr
        assert self.process.returncode in codes, (self.process.returncode, self.stderr)

    # ==== Requests ====

    def connect(self, timeout=PATIENCE):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=PATIENCE):
        connection = self.connect(timeout)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path, headers=None, timeout=PATIENCE):
        return self.request("GET", path, None, headers, timeout)

    def post(self, path, body, headers=None, timeout=PATIENCE):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        return self.request("POST", path, data, sent, timeout)

    def complete(self, prompt="go", headers=None, **fields):
        """/v1/completions, which must succeed."""
        answer = self.post("/v1/completions", dict(fields, prompt=prompt), headers)
        assert answer.status == 200, answer
        return answer.json

    def chat(self, content="go", headers=None, **fields):
        messages = [{"role": "user", "content": content}]
        answer = self.post("/v1/chat/completions", dict(fields, messages=messages), headers)
        assert answer.status == 200, answer
        return answer.json

    def stream(self, path, body, headers=None, timeout=PATIENCE):
        """An Events, when the answer is 200; else an Answer."""
        connection = self.connect(timeout)
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request("POST", path, json.dumps(dict(body, stream=True)).encode(), sent)
        answer = connection.getresponse()
        if answer.status != 200:
            with contextlib.closing(connection):
                return Answer(answer.status, answer.headers, answer.read())
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        return Events(answer, connection)

    def raw(self, data, timeout=10, settle=0.02):
        """Sends these bytes. All that comes back until the answer is whole, nothing comes any more,
        or the server closes; with `settle` seconds for what might come behind the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as s:
            with contextlib.suppress(OSError):
                s.sendall(data)
            return read_raw(s, timeout, settle)

    # ==== How it is ====

    def metrics(self):
        values = {}
        for line in self.get("/metrics").body.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name.split(":", 1)[-1]] = float(value)
        return values

    def quiet(self, timeout=30):
        """Waits until no request runs or waits; the seconds that took."""
        begun = time.monotonic()
        while True:
            now = self.metrics()
            if now["requests_running"] == 0 and now["requests_waiting"] == 0:
                return time.monotonic() - begun
            assert time.monotonic() - begun < timeout, now
            time.sleep(0.002)

    def rss(self):
        """KiB of memory in use."""
        with open("/proc/%d/status" % self.process.pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    def handles(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))


def whole_answer(data):
    """Where the first answer in data ends; None: it does not yet."""
    head, mark, rest = data.partition(b"\r\n\r\n")
    if not mark:
        return None
    low = head.lower()
    length = re.search(rb"\r\ncontent-length: *(\d+)", low)
    if re.match(rb"http/1\.[01] (1\d\d|204|304)", low):
        return len(head) + 4
    if length:
        end = len(head) + 4 + int(length.group(1))
        return end if len(data) >= end else None
    if b"\r\ntransfer-encoding: chunked" in low:
        at = data.find(b"0\r\n\r\n", len(head))
        return None if at < 0 else at + 5
    return None


def read_raw(s, timeout, settle):
    data, deadline = b"", time.monotonic() + timeout
    while time.monotonic() < deadline:
        s.settimeout(settle if whole_answer(data) else max(0.01, deadline - time.monotonic()))
        try:
            more = s.recv(65536)
        except socket.timeout:
            break
        except OSError:
            break
        if not more:
            break
        data += more
    return data


def answers_in(data):
    """All answers in what `raw` brought, as Answer; leftovers fail."""
    found = []
    while data:
        end = whole_answer(data)
        head = data.split(b"\r\n\r\n", 1)[0].decode("latin-1").split("\r\n")
        first = re.match(r"HTTP/1\.[01] (\d{3})", head[0])
        assert first, "not an answer: %r" % data[:200]
        headers = {k.strip().lower(): v.strip() for k, v in (h.split(":", 1) for h in head[1:])}
        start = data.index(b"\r\n\r\n") + 4 if b"\r\n\r\n" in data else len(data)
        end = len(data) if end is None else end
        found.append(Answer(int(first.group(1)), headers, data[start:end]))
        data = data[end:]
    return found


@contextlib.contextmanager
def serving(folder, model, *flags, **more):
    """with serving(tmp_path, words_model(), "--parallel", 2) as s: ..."""
    server = Server(folder, model, *flags, **more)
    try:
        yield server
    except BaseException:
        # The test's own failure is what is told; why the server died may explain it.
        with contextlib.suppress(Exception):
            if not server.running():
                print(server.stderr)
            server.process.kill()
            server.process.wait()
        raise
    server.stop()
