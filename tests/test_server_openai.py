"""OpenAI's own Python client against the server: both interfaces, streamed or not, errors, retries.

Needs tests/requirements-clients.txt.
"""

import asyncio
import http.client
import http.server
import json
import math
import re
import subprocess
import sys
import threading
import time

import openai
import pytest
from conftest import ROOT
from serving import Server, says_model, serving, words_model, write_model

KEY = "sesame"
USER = [{"role": "user", "content": "go"}]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("openai"), words_model(), "--api-key", KEY)
    yield s
    s.stop()


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, timeout=60) as c:
        yield c


def test_models(client):
    models = list(client.models.list())
    assert len(models) == 1 and models[0].id and models[0].object == "model"
    assert client.models.retrieve(models[0].id) == models[0]
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("another")


def test_a_models_name_may_have_anything_in_it(tmp_path):
    name = "a b%%2f?x=é#%s.json" % ("long" * 20)
    path = write_model(tmp_path, words_model(), name)
    with serving(tmp_path, "table:%s" % path) as s:
        with openai.OpenAI(base_url=s.url + "/v1", api_key="none", timeout=60) as c:
            assert c.models.retrieve(name).id == name


def test_completion(client):
    a = client.completions.create(model="any", prompt="go", max_tokens=8, seed=3)
    assert a.object == "text_completion" and a.id.startswith("cmpl-") and a.model == "any"
    (choice,) = a.choices
    assert choice.index == 0 and choice.logprobs is None and choice.text
    assert choice.finish_reason in ("stop", "length")
    assert a.usage.prompt_tokens == 2
    assert a.usage.total_tokens == a.usage.prompt_tokens + a.usage.completion_tokens
    assert a.model_extra["retrace"]["seed"] == 3
    again = client.completions.create(model="any", prompt="go", max_tokens=8, seed=3)
    assert again.choices == a.choices and again.id != a.id


def test_default_length(client):
    for seed in range(4):
        a = client.completions.create(
            model="m", prompt="go", seed=seed, extra_body={"ignore_eos": True}
        )
        assert a.usage.completion_tokens == 16 and a.choices[0].finish_reason == "length"


def test_a_seed_that_was_drawn_is_told(client):
    a = client.completions.create(model="m", prompt="go", max_tokens=20)
    seed = a.model_extra["retrace"]["seed"]
    b = client.completions.create(model="m", prompt="go", max_tokens=20, seed=seed)
    assert a.choices == b.choices


@pytest.mark.parametrize("n", [1, 3])
def test_streams_say_what_whole_answers_say(client, n):
    want = client.completions.create(model="m", prompt="go", max_tokens=12, seed=5, n=n)
    got, ends, ids = [""] * n, [None] * n, set()
    for chunk in client.completions.create(
        model="m", prompt="go", max_tokens=12, seed=5, n=n, stream=True
    ):
        ids.add((chunk.id, chunk.created, chunk.model))
        assert len(chunk.choices) >= 1 and chunk.usage is None
        for c in chunk.choices:
            assert ends[c.index] is None
            got[c.index] += c.text
            ends[c.index] = c.finish_reason
    assert got == [c.text for c in want.choices]
    assert ends == [c.finish_reason for c in want.choices]
    assert len(ids) == 1


@pytest.mark.parametrize("n", [1, 4])
def test_chat_streams(client, n):
    want = client.chat.completions.create(
        model="m", messages=USER, max_completion_tokens=9, seed=8, n=n
    )
    assert want.object == "chat.completion" and want.id.startswith("chatcmpl-")
    assert [c.index for c in want.choices] == list(range(n))
    assert all(c.message.role == "assistant" for c in want.choices)
    got, seen = [""] * n, set()
    usage = None
    for chunk in client.chat.completions.create(
        model="m", messages=USER, max_completion_tokens=9, seed=8, n=n, stream=True,
        stream_options={"include_usage": True},
    ):
        assert chunk.object == "chat.completion.chunk" and usage is None
        usage = chunk.usage
        assert (usage is None) == (len(chunk.choices) > 0)
        for c in chunk.choices:
            if c.index not in seen:
                assert c.delta.role == "assistant" and not c.delta.content
                seen.add(c.index)
            got[c.index] += c.delta.content or ""
    assert got == [c.message.content for c in want.choices]
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert getattr(usage, name) == getattr(want.usage, name)
    assert usage.completion_tokens <= 9 * n


def test_the_clients_own_accumulator(client):
    """chat.completions.stream joins the deltas by its own rules; nothing in them may break it."""
    with client.chat.completions.stream(
        model="m", messages=USER, max_tokens=400, stop=[" mat"], seed=8, logprobs=True,
        top_logprobs=2, extra_body={"retrace": {"events": True}},
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    want = client.chat.completions.create(
        model="m", messages=USER, max_tokens=400, stop=[" mat"], seed=8, logprobs=True,
        top_logprobs=2,
    )
    assert want.choices[0].finish_reason == "stop"
    assert "content.done" in kinds
    assert final.choices[0].message.content == want.choices[0].message.content
    assert [t.token for t in final.choices[0].logprobs.content] == [
        t.token for t in want.choices[0].logprobs.content
    ]


def test_content_parts_and_a_prefill(client):
    parts = [{"type": "text", "text": "g"}, {"type": "text", "text": "o"}]
    one = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": parts}], seed=1, max_tokens=6
    )
    two = client.chat.completions.create(model="m", messages=USER, seed=1, max_tokens=6)
    assert one.choices == two.choices and one.usage == two.usage
    more = USER + [{"role": "assistant", "content": " the"}]
    three = client.chat.completions.create(model="m", messages=more, seed=1, max_tokens=6)
    assert three.usage.prompt_tokens == two.usage.prompt_tokens + 1


def test_logprobs_of_completions(client):
    a = client.completions.create(model="m", prompt="go", max_tokens=10, seed=2, logprobs=3)
    logs, text = a.choices[0].logprobs, a.choices[0].text
    assert "".join(logs.tokens) == text
    assert len(logs.tokens) == len(logs.token_logprobs) == len(logs.top_logprobs)
    assert logs.text_offset == [len("".join(logs.tokens[:i])) for i in range(len(logs.tokens))]
    for token, logprob, top in zip(logs.tokens, logs.token_logprobs, logs.top_logprobs):
        assert top[token] == pytest.approx(logprob) and logprob <= 0
        assert 3 <= len(top) <= 4 and max(top.values()) >= logprob


def test_echo_scores_the_prompt(client):
    a = client.completions.create(
        model="m", prompt=" the cat", max_tokens=1, seed=2, logprobs=1, echo=True, temperature=0
    )
    logs = a.choices[0].logprobs
    assert a.choices[0].text.startswith(" the cat")
    assert logs.tokens[:2] == [" the", " cat"] and len(logs.tokens) == 3
    # Weights of WORDS are 1 + i % 3, and 0.4 for the end: nothing before the first is known.
    total = sum(1.0 + i % 3 for i in range(11)) + 0.4
    assert logs.token_logprobs[0] is None and logs.top_logprobs[0] is None
    assert logs.token_logprobs[1] == pytest.approx(math.log(2.0 / total), abs=1e-6)
    assert logs.token_logprobs[2] == pytest.approx(math.log(3.0 / total), abs=1e-6)
    assert max(logs.top_logprobs[1].values()) == pytest.approx(math.log(3.0 / total), abs=1e-6)
    only = client.completions.create(
        model="m", prompt=" the cat", max_tokens=0, logprobs=1, echo=True
    )
    assert only.choices[0].text == " the cat" and only.usage.completion_tokens == 0
    assert only.choices[0].logprobs.token_logprobs == logs.token_logprobs[:2]


def test_logprobs_of_chats(client):
    a = client.chat.completions.create(
        model="m", messages=USER, max_tokens=10, seed=2, logprobs=True, top_logprobs=3
    )
    entries = a.choices[0].logprobs.content
    assert "".join(e.token for e in entries) == a.choices[0].message.content
    for e in entries:
        assert bytes(e.bytes).decode() == e.token and len(e.top_logprobs) == 3
        assert e.top_logprobs == sorted(e.top_logprobs, key=lambda t: -t.logprob)
    chunks = client.chat.completions.create(
        model="m", messages=USER, max_tokens=10, seed=2, logprobs=True, top_logprobs=3, stream=True
    )
    streamed = []
    for chunk in chunks:
        for c in chunk.choices:
            if c.logprobs and c.logprobs.content:
                assert len(c.logprobs.content) == 1  # a chunk for each token
                assert c.delta.content == c.logprobs.content[0].token
                streamed += c.logprobs.content
    assert streamed == entries


def test_several_prompts(client):
    a = client.completions.create(
        model="m", prompt=["go", " the", "x"], max_tokens=5, seed=4, n=2
    )
    assert [c.index for c in a.choices] == list(range(6))
    for p, prompt in enumerate(["go", " the", "x"]):
        one = client.completions.create(model="m", prompt=prompt, max_tokens=5, seed=4, n=2)
        assert [c.text for c in one.choices] == [c.text for c in a.choices[2 * p : 2 * p + 2]]
    ids = client.completions.create(model="m", prompt=[[103, 111]], max_tokens=5, seed=4)
    same = client.completions.create(model="m", prompt="go", max_tokens=5, seed=4)
    flat = client.completions.create(model="m", prompt=[103, 111], max_tokens=5, seed=4)
    assert ids.choices == same.choices == flat.choices


def test_stop(client):
    for stop in (" sat", [" sat", " mat"]):
        for seed in range(5):
            a = client.completions.create(model="m", prompt="go", max_tokens=40, seed=seed, stop=stop)
            assert " sat" not in a.choices[0].text
            if isinstance(stop, list):
                assert " mat" not in a.choices[0].text


def test_logit_bias(client):
    for how in ({"257": -100}, {"257": -100, "256": 3}):
        a = client.completions.create(
            model="m", prompt="go", max_tokens=60, seed=1, logit_bias=how,
            extra_body={"ignore_eos": True},
        )
        assert " cat" not in a.choices[0].text
    only = client.completions.create(
        model="m", prompt="go", max_tokens=6, seed=1, logit_bias={"257": 100}
    )
    assert only.choices[0].text == 6 * " cat"


def test_bans_by_extra_body(client):
    bans = {"banned_strings": ["testament to", "cat sat"], "banned_regex": [r"on\s+a"]}
    for seed in range(10):
        a = client.chat.completions.create(
            model="m", messages=USER, max_tokens=60, seed=seed, n=2, extra_body=bans
        )
        for c in a.choices:
            text = c.message.content
            assert "testament to" not in text and "cat sat" not in text and " on a" not in text


def test_response_format(tmp_path):
    # Single characters, so that every JSON text can be written.
    letters = {str(b): 1 for b in b'{}[]":, abc123'}
    model = {
        "tokens": [{"bytes": [b]} for b in range(256)] + [{"text": "</s>", "end": True}],
        "rows": [{"context": [], "next": dict(letters, **{"256": 3})}],
        "n_ctx": 600,
    }
    schema = {
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": False,
    }
    formats = [
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}},
    ]
    with serving(tmp_path, model) as s:
        client = openai.OpenAI(base_url=s.url + "/v1", api_key="none")
        for i, wanted in enumerate(formats):
            for seed in range(4):
                a = client.chat.completions.create(
                    model="m", messages=USER, seed=seed, max_tokens=400, response_format=wanted,
                    logit_bias={str(b): 4 for b in b'}]"'},
                )
                if a.choices[0].finish_reason == "stop":
                    value = json.loads(a.choices[0].message.content)
                    assert isinstance(value, dict)
                    assert i == 0 or (list(value) == ["a"] and isinstance(value["a"], int))
        text = client.chat.completions.create(
            model="m", messages=USER, max_tokens=4, response_format={"type": "text"}
        )
        assert text.choices[0].message is not None


# ==== Errors ====


def test_errors_are_the_clients_exceptions(server, client):
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model="m", prompt="go", temperature=-1)
    assert e.value.param == "temperature" and "temperature" in e.value.message
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model="m", prompt="x" * 5000)
    assert e.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        client.get("/nothing", cast_to=object)
    with openai.OpenAI(base_url=server.url + "/v1", api_key="wrong") as other:
        with pytest.raises(openai.AuthenticationError):
            other.models.list()
    # Before the first token an error is no event of the stream.
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="m", prompt="go", n=99, stream=True)


class Counter(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the server and counts them."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).arrived += 1
        onward = http.client.HTTPConnection("127.0.0.1", self.target, timeout=60)
        kept = {k: v for k, v in self.headers.items() if k.lower() in ("authorization", "content-type")}
        onward.request("POST", self.path, body, kept)
        answer = onward.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        onward.close()

    def log_message(self, *args):
        pass


@pytest.fixture
def counted():
    """counted(server) is a client whose requests are counted."""
    made = []

    def start(server, key=KEY):
        handler = type("Handler", (Counter,), {"arrived": 0, "target": server.port})
        between = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=between.serve_forever, daemon=True)
        thread.start()
        client = openai.OpenAI(
            base_url="http://127.0.0.1:%d/v1" % between.server_address[1], api_key=key, timeout=60
        )
        made.append((between, thread, client))
        return client, handler

    yield start
    for between, thread, client in made:
        client.close()
        between.shutdown()
        thread.join()
        between.server_close()


def test_what_is_wrong_for_good_is_not_tried_again(server, counted):
    client, handler = counted(server)
    with pytest.raises(openai.InternalServerError) as e:  # the client's name for every 5xx
        client.embeddings.create(model="m", input="go")
    assert e.value.status_code == 501 and handler.arrived == 1
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="m", prompt="go", top_p=7)
    assert handler.arrived == 2


def test_a_full_server_is_tried_again(tmp_path, counted):
    endless = says_model(" x", ends=False, n_ctx=4096)
    with serving(tmp_path, endless, "--parallel", 1, "--queue", 0) as s:
        client, handler = counted(s)
        slow = s.stream(
            "/v1/completions",
            {"prompt": "go", "max_tokens": 4000, "rules": [{"name": "phrases", "text": ["y"]}]},
        )
        first = next(iter(slow))
        assert first["choices"]
        # It may have ended by now: then there is nothing to see, and the request just succeeds.
        full = s.post("/v1/completions", {"prompt": "go", "max_tokens": 1})
        if full.status != 200:
            assert full.status in (429, 503) and int(full.headers["Retry-After"]) >= 1
            assert full.headers.get("x-should-retry") != "false"
        answer = client.completions.create(model="m", prompt="go", max_tokens=1)
        assert answer.choices[0].text == " x" and handler.arrived >= 1
        slow.leave()
        s.quiet()


def test_async_clients_side_by_side(server):
    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key=KEY) as c:
            jobs = [
                c.completions.create(model="m", prompt="go", max_tokens=20, seed=i)
                for i in range(24)
            ]
            return await asyncio.gather(*jobs)

    together = [a.choices[0].text for a in asyncio.run(all_of_them())]
    alone = [
        server.complete("go", {"Authorization": "Bearer " + KEY}, max_tokens=20, seed=i)
        for i in range(24)
    ]
    assert together == [a["choices"][0]["text"] for a in alone]


def test_leaving_a_stream_frees_the_server(server, client):
    stream = client.completions.create(
        model="m", prompt="go", max_tokens=3000, stream=True, extra_body={"ignore_eos": True}
    )
    for _ in zip(range(3), stream):
        pass
    stream.close()
    header = {"Authorization": "Bearer " + KEY}
    end = time.monotonic() + 10
    while b"retrace:requests_running 0" not in server.get("/metrics", header).body:
        assert time.monotonic() < end
        time.sleep(0.02)


# ==== The programs of docs/http.md ====

PROGRAMS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "http.md").read_text(), re.S | re.M)


@pytest.fixture(scope="module")
def open_server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("programs"), words_model())
    yield s
    s.stop()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_page_runs_as_it_stands(open_server, program):
    text = program.replace("http://127.0.0.1:7077", open_server.url)
    assert text != program, "it speaks to the server"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_page_has_programs():
    assert len(PROGRAMS) >= 2
