"""LangChain's classes for OpenAI's interfaces: they fail without a right `usage`.

Needs tests/requirements-clients.txt.
"""

import pytest
from langchain_openai import ChatOpenAI, OpenAI
from serving import Server, words_model


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("langchain"), words_model())
    yield s
    s.stop()


def common(server):
    about = {"api_key": "none", "model": "m", "max_tokens": 10, "temperature": 1}
    return dict(about, base_url=server.url + "/v1")


def test_text(server):
    model = OpenAI(**common(server), seed=6, n=2, best_of=2)
    result = model.generate(["go", " the"])
    usage = result.llm_output["token_usage"]
    want = server.complete(["go", " the"], seed=6, n=2, max_tokens=10)
    assert [g.text for gs in result.generations for g in gs] == [c["text"] for c in want["choices"]]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens"] == want["usage"]["completion_tokens"]


def test_text_streamed(server):
    model = OpenAI(**common(server), seed=6)
    assert "".join(model.stream("go")) == model.invoke("go")


def test_chat(server):
    model = ChatOpenAI(**common(server), seed=6, extra_body={"banned_strings": ["cat"]})
    message = model.invoke("go")
    assert "cat" not in message.content
    usage = message.usage_metadata
    assert usage["input_tokens"] == 4 and usage["output_tokens"] <= 10
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert message.response_metadata["finish_reason"] in ("stop", "length")


def test_chat_streamed(server):
    model = ChatOpenAI(**common(server), seed=6, stream_usage=True)
    whole = model.invoke("go")
    total = None
    for chunk in model.stream("go"):
        total = chunk if total is None else total + chunk
    assert total.content == whole.content
    assert total.usage_metadata["total_tokens"] == whole.usage_metadata["total_tokens"]


def test_logprobs(server):
    model = ChatOpenAI(**common(server), seed=6).bind(logprobs=True, top_logprobs=2)
    message = model.invoke("go")
    content = message.response_metadata["logprobs"]["content"]
    assert "".join(t["token"] for t in content) == message.content
