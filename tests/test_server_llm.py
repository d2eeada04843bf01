"""The command `llm` with its list of OpenAI-compatible models pointing here.

Needs tests/requirements-clients.txt.
"""

import os
import pathlib
import subprocess
import sys

import pytest
from serving import Server, words_model

LLM = pathlib.Path(sys.executable).parent / "llm"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llm")
    server = Server(folder, words_model(), "--api-key", "sesame")
    (folder / "extra-openai-models.yaml").write_text(
        "- model_id: here\n  model_name: here\n  api_base: %s/v1\n  api_key_name: here\n"
        "- model_id: here-text\n  model_name: here\n  api_base: %s/v1\n  api_key_name: here\n"
        "  completion: true\n" % (server.url, server.url)
    )
    (folder / "keys.json").write_text('{"here": "sesame"}')
    yield folder, server
    server.stop()


def run(home, *args, stdin=""):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI", "LLM"))}
    env.update(LLM_USER_PATH=str(home[0]), HOME=str(home[0]))
    done = subprocess.run(
        [LLM, *args], input=stdin, env=env, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_chat(home):
    args = ["-m", "here", "-o", "seed", "4", "-o", "max_tokens", "12", "go"]
    header = {"Authorization": "Bearer sesame"}
    want = home[1].chat("go", header, seed=4, max_tokens=12)
    text = want["choices"][0]["message"]["content"].rstrip("\n")
    assert run(home, *args, "--no-stream").rstrip("\n") == text
    assert run(home, *args).rstrip("\n") == text
    usage = run(home, "logs", "list", "-n", "1", "--usage", "--json")
    assert '"input_tokens": %d' % want["usage"]["prompt_tokens"] in usage
    assert '"output_tokens": %d' % want["usage"]["completion_tokens"] in usage


def test_completion(home):
    said = run(home, "-m", "here-text", "-o", "seed", "4", "-o", "max_tokens", "12", "go")
    want = home[1].complete("go", {"Authorization": "Bearer sesame"}, seed=4, max_tokens=12)
    assert said.rstrip("\n") == want["choices"][0]["text"].rstrip("\n")


def test_a_conversation_goes_on(home):
    run(home, "-m", "here", "-o", "max_tokens", "5", "go")
    assert run(home, "-m", "here", "-c", "-o", "max_tokens", "5", "on").endswith("\n")
