"""The flag --chat-template: names, files, refusals, traces, and the server.

RETRACE_TINY is the folder of the models that tests/tiny_gguf.py writes. hybrid.gguf has a template that
nobody knows, recurrent.gguf and marks.gguf have none.
"""

import json
import os

import pytest

import serving

TINY = os.environ.get("RETRACE_TINY", "")
HINT = "--chat-template NAME|FILE"
CHATML = "{% for m in messages %}<|im_start|>{{ m['role'] }}{% endfor %}\n"

pytestmark = pytest.mark.skipif(not TINY, reason="RETRACE_TINY is not set")


def model(name):
    return os.path.join(TINY, name + ".gguf")


def refused(done, code, *words):
    assert done.code == code and not done.out, done
    assert done.err.startswith("retrace: ") and 1 <= done.err.count("\n") <= 3
    for word in words:
        assert word in done.err, done.err


def chat(retrace, name, *flags, env=None):
    run = ["generate", "-m", model(name), "--chat", "-p", "the end", "-n", "2", "-s", "1", "-q"]
    return retrace(*run, *flags, env=env)


def rendered(retrace, name, *flags, env=None):
    trace = retrace.tmp / "t.jsonl"
    done = chat(retrace, name, "--trace", trace, *flags, env=env)
    assert done.code == 0, done
    return json.loads(trace.read_text().split("\n")[0])


@pytest.mark.parametrize("command", ["generate", "chat", "info", "replay", "bench", "serve"])
def test_list(retrace, command):
    done = retrace(command, "--chat-template", "list")
    names = done.out.split("\n")
    assert done.code == 0 and done.err == "" and names[-1] == ""
    assert len(names) > 50 and {"chatml", "llama3", "gemma"} <= set(names)


def test_a_name_or_a_file(retrace):
    (retrace.tmp / "form.jinja").write_text(CHATML)
    by_name = rendered(retrace, "marks", "--chat-template", "chatml")
    by_file = rendered(retrace, "marks", "--chat-template", "form.jinja")
    by_env = rendered(retrace, "marks", env={"RETRACE_CHAT_TEMPLATE": "chatml"})
    assert by_name["prompt_text"].count("<|im_start|>") == 2
    assert by_name["prompt_text"].startswith("<s><|im_start|>")
    assert by_name["prompt_tokens"] == by_file["prompt_tokens"] == by_env["prompt_tokens"]
    assert by_name["settings"]["engine"]["chat_template"] == "chatml"
    assert by_file["settings"]["engine"]["chat_template"] == CHATML
    zephyr = rendered(retrace, "hybrid", "--chat-template", "zephyr")
    assert zephyr["prompt_text"] == "<|user|>\nthe end<|endoftext|>\n<|assistant|>\n"


def test_a_name_comes_before_a_file(retrace):
    (retrace.tmp / "chatml").write_text("{{ '<|user|>' }}{{ '<|endoftext|>' }}")
    by_name = rendered(retrace, "marks", "--chat-template", "chatml")
    by_file = rendered(retrace, "marks", "--chat-template", "./chatml")
    assert "<|im_start|>" in by_name["prompt_text"] and "<|im_start|>" not in by_file["prompt_text"]


def test_replay_needs_no_file(retrace):
    (retrace.tmp / "form.jinja").write_text(CHATML)
    rendered(retrace, "hybrid", "--chat-template", "form.jinja")
    (retrace.tmp / "form.jinja").unlink()
    done = retrace("replay", "t.jsonl")
    assert done.code == 0, done
    refused(retrace("replay", "t.jsonl", "--chat-template", "zephyr"), 1, "prompt_tokens")


def test_refusals(retrace):
    refused(chat(retrace, "hybrid"), 3, "'{# a template of no known family #}'", HINT)
    refused(chat(retrace, "recurrent"), 3, "the model has no chat template", HINT)
    refused(chat(retrace, "marks", "--chat-template", "chatml2"), 2, "'chatml2'", "list")
    refused(chat(retrace, "marks", "--chat-template", "mistral-v99"), 2, "'mistral-v99'")
    refused(chat(retrace, "marks", "--chat-template", "."), 4, "'.'")
    (retrace.tmp / "odd").write_bytes(b"\n{{ x }}\x1b[31m\nsecond line\n")
    done = chat(retrace, "marks", "--chat-template", "odd")
    refused(done, 3, "'{{ x }} [31m'", HINT)
    assert "\x1b" not in done.err and "second line" not in done.err
    (retrace.tmp / "bytes").write_bytes(b"<|im_start|>\xff{{ x }}")
    refused(chat(retrace, "marks", "--chat-template", "bytes"), 2, "UTF-8")
    (retrace.tmp / "empty").write_bytes(b"")
    refused(chat(retrace, "marks", "--chat-template", "empty"), 2, "empty")
    (retrace.tmp / "nul").write_bytes(b"<|im_start|>\0{{ x }}")
    refused(chat(retrace, "marks", "--chat-template", "nul"), 2, "no text")
    long = "{{ x }}" + "y" * 5000
    (retrace.tmp / "long").write_text(long)
    done = chat(retrace, "marks", "--chat-template", "long")
    refused(done, 3, "{{ x }}yyyy", HINT)
    assert len(done.err) < 500


def test_a_table_has_no_templates_of_that_kind(retrace):
    done = chat(retrace, "marks", "--chat-template", "yandex", "--system", "be in")
    refused(done, 3, "no place for message 1, of role 'system'", HINT)


def test_info_says_whether_there_is_one(retrace):
    assert retrace("info", "-m", model("marks"), "--json").json["chat_template"] is False
    done = retrace("info", "-m", model("marks"), "--json", "--chat-template", "chatml")
    assert done.json["chat_template"] is True


def test_the_server_uses_it(tmp_path):
    hello = {"messages": [{"role": "user", "content": "the <|im_end|> end"}]}
    with serving.serving(tmp_path, model("marks"), "--chat-template", "chatml") as s:
        done = s.post("/apply-template", hello)
        assert done.status == 200
        assert done.json["prompt"].count("<|im_start|>") == 2
        assert s.get("/props").json["retrace"]["chat"] is True
        done = s.post("/v1/chat/completions", dict(hello, max_tokens=2))
        assert done.status == 200
    with serving.serving(tmp_path, model("marks")) as s:
        assert s.get("/props").json["retrace"]["chat"] is False
        for path in ("/apply-template", "/v1/chat/completions"):
            done = s.post(path, hello)
            assert done.status == 400 and "chat template" in str(done.error), done
