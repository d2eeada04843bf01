"""What a request may say: every field's wrong and right values, the errors that name them, /tokenize and
its kin, the OpenAPI document, and the tables of docs/http.md, which are made from it (UPDATE_DOCS=1 in the
environment writes them; read the difference)."""

import json
import os
import re

import jsonschema
import pytest

from conftest import DATA, ROOT
from serving import Server, words_model

STORY = "table:%s" % (DATA / "cli_story.json")
CHAT = [{"role": "user", "content": "go"}]
DOC = ROOT / "docs" / "http.md"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fields")
    (folder / "base.txt").write_text("testament to\nElara\n")
    (folder / "noir.txt").write_text("# a comment\n\"neon \"\n")
    s = Server(folder, STORY, "--ban-list", "base=base.txt", "--ban-list", "noir=noir.txt")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def document(server):
    return server.get("/openapi.json").json


def body(**fields):
    return dict({"prompt": "go"}, **fields)


def chat(**fields):
    return dict({"messages": CHAT}, **fields)


def nested(n):
    return b'{"prompt":"go","x":' + b"[" * n + b"]" * n + b"}"


# ==== Bodies ====

RAW = [
    (b"", None),
    (b"   ", None),
    (b"null", None),
    (b"[]", None),
    (b'"text"', None),
    (b"{", None),
    (b'{"prompt":"go"', None),
    (b'{"prompt":"go"} x', None),
    (b'{"prompt":"go"}{"prompt":"go"}', None),
    (b'{"prompt":"go",}', None),
    (b"{'prompt':'go'}", None),
    (b'{"prompt":"go","prompt":"go"}', None),
    (b'{"prompt":"go","x":{"a":1,"a":1}}', None),
    (b'{"prompt":"\\ud800"}', None),
    (b'{"prompt":"\\udc00\\ud800"}', None),
    (b'{"prompt":"\xff"}', None),
    (b'{"prompt":"\xc0\xaf"}', None),
    (b'{"prompt":"\xed\xa0\x80"}', None),
    (b'{"prompt":"a\nb"}', None),
    (b'\xef\xbb\xbf{"prompt":"go"}', None),
    (b'{"prompt":"go","temperature":NaN}', None),
    (b'{"prompt":"go","temperature":Infinity}', None),
    (b'{"prompt":"go","temperature":1e999}', None),
    (b'{"prompt":"go","seed":9223372036854775808}', None),
    (b'{"prompt":"go","seed":-9223372036854775809}', None),
    (b'{"prompt":"go","n":01}', None),
    (b'{"prompt":"go","n":+1}', None),
    (b'{"prompt":"go","n":0x1}', None),
    (b'{"a\\u0000b":1,"prompt":"go"}', None),
    (nested(64), None),
    (nested(100000), None),
    (b"[" * 1000000, None),
    (b'{"prompt":"go","x":[' + b"1," * 1000000 + b"1]}", None),
    (b'{"prompt":"go","n":-0}', "n"),
    (b'{"prompt":"go","n":1e0}', "n"),
]


@pytest.mark.parametrize("data, param", RAW, ids=range(len(RAW)))
def test_a_body_that_is_no_request(server, data, param):
    answer = server.post("/v1/completions", data)
    assert answer.status == 400, answer
    assert answer.error["param"] == param and answer.error["type"] == "invalid_request_error"
    assert answer.error["message"]


def test_where_the_json_is_broken(server):
    answer = server.post("/v1/completions", b'{\n  "prompt": "go",\n  "n": }\n')
    assert "line 3" in answer.error["message"] and "column" in answer.error["message"]


def test_as_deep_as_may_be(server):
    assert server.post("/v1/completions", nested(63)).status == 200


def test_a_nul_is_never_a_cut(tmp_path):
    """A NUL in a prompt is a character like any other; where it cannot be, it is an error."""
    s = Server(tmp_path, words_model())
    tokens = s.post("/tokenize", {"content": "a\0b"}).json["tokens"]
    assert tokens == [97, 0, 98]
    answer = s.post("/v1/completions", {"prompt": "a\0b", "echo": True, "max_tokens": 0})
    assert answer.status == 200 and answer.text == "a\0b"
    for wrong in ({"model": "a\0b"}, {"banned_strings": ["a\0b"]}, {"hold": "all\0"}):
        answer = s.post("/v1/completions", dict(wrong, prompt="go"))
        assert answer.status == 400 and answer.error["param"].startswith(list(wrong)[0]), answer
    s.stop()


# ==== Fields: (path, body, param) for 400 ====

C, H, L = "/v1/completions", "/v1/chat/completions", "/completion"

WRONG = [
    # numbers
    (C, body(n=0), "n"),
    (C, body(n=17), "n"),
    (C, body(n=-1), "n"),
    (C, body(n=1.5), "n"),
    (C, body(n=5.0), "n"),
    (C, body(n=True), "n"),
    (C, body(n="2"), "n"),
    (C, body(n=[1]), "n"),
    (C, body(n=10**12), "n"),
    (C, body(max_tokens=-2), "max_tokens"),
    (C, body(max_tokens=1.0), "max_tokens"),
    (C, body(max_tokens="5"), "max_tokens"),
    (C, body(max_tokens=2 * 10**9), "max_tokens"),
    (C, body(max_completion_tokens=-2), "max_completion_tokens"),
    (C, body(n_predict=-2), "n_predict"),
    (C, body(max_new_tokens=False), "max_new_tokens"),
    (C, body(max_length={}), "max_length"),
    (C, body(num_predict="x"), "num_predict"),
    (C, body(seed=-2), "seed"),
    (C, body(seed=1.5), "seed"),
    (C, body(seed="1"), "seed"),
    (C, body(seed=2**63), None),
    (C, body(sampler_seed=True), "sampler_seed"),
    (C, body(temperature=-0.1), "temperature"),
    (C, body(temperature=1001), "temperature"),
    (C, body(temperature="1"), "temperature"),
    (C, body(temperature=True), "temperature"),
    (C, body(temp=-1), "temp"),
    (C, body(top_p=1.1), "top_p"),
    (C, body(top_p=-0.1), "top_p"),
    (C, body(min_p=2), "min_p"),
    (C, body(typical_p=2), "typical_p"),
    (C, body(typical=-1), "typical"),
    (C, body(top_k=-2), "top_k"),
    (C, body(top_k=0.5), "top_k"),
    (C, body(repeat_penalty=-1), "repeat_penalty"),
    (C, body(repetition_penalty=101), "repetition_penalty"),
    (C, body(rep_pen="1"), "rep_pen"),
    (C, body(repeat_penalty=0.001), "repeat_penalty"),
    (C, body(repeat_last_n=-2), "repeat_last_n"),
    (C, body(rep_pen_range=1.5), "rep_pen_range"),
    (C, body(presence_penalty=101), "presence_penalty"),
    (C, body(frequency_penalty=-101), "frequency_penalty"),
    (C, body(stuck_mass=1.5), "stuck_mass"),
    (C, body(max_rewinds=-2), "max_rewinds"),
    (C, body(max_evaluated=1.5), "max_evaluated"),
    # switches and words
    (C, body(stream=1), "stream"),
    (C, body(stream="true"), "stream"),
    (C, body(echo=1), "echo"),
    (C, body(ignore_eos="yes"), "ignore_eos"),
    (C, body(ban_eos_token=0), "ban_eos_token"),
    (C, body(deterministic=1), "deterministic"),
    (C, body(return_tokens="x"), "return_tokens"),
    (C, body(hold="some"), "hold"),
    (C, body(hold=1), "hold"),
    (C, body(resample="x"), "resample"),
    (C, body(on_stuck="x"), "on_stuck"),
    (C, body(resample="exact", on_stuck="allow"), "on_stuck"),
    (C, body(driver="guide"), "driver"),
    (C, body(driver="guide:top_k=5"), "driver"),
    (C, body(driver="x"), "driver"),
    (C, body(model=1), "model"),
    (C, body(model="m" * 257), "model"),
    (C, body(stream_options=True), "stream_options"),
    (C, body(stream_options={"include_usage": 1}), "stream_options.include_usage"),
    (C, body(retrace=True), "retrace"),
    (C, body(retrace={"events": "x"}), "retrace.events"),
    # stop
    (C, body(stop=1), "stop"),
    (C, body(stop={"a": 1}), "stop"),
    (C, body(stop=[1]), "stop[0]"),
    (C, body(stop=["a", None]), "stop[1]"),
    (C, body(stop="x" * 257), "stop"),
    (C, body(stop=["a", "x" * 257]), "stop[1]"),
    (C, body(stop=["%d" % i for i in range(65)]), "stop[64]"),
    (C, body(stopping_strings=[[]]), "stopping_strings[0]"),
    # logit_bias
    (C, body(logit_bias=5), "logit_bias"),
    (C, body(logit_bias="1"), "logit_bias"),
    (C, body(logit_bias={"1": 101}), "logit_bias.1"),
    (C, body(logit_bias={"1": True}), "logit_bias.1"),
    (C, body(logit_bias={"1": "x"}), "logit_bias.1"),
    (C, body(logit_bias={"1": None}), "logit_bias.1"),
    (C, body(logit_bias={"27": 1}), "logit_bias.27"),
    (C, body(logit_bias={"-1": 1}), "logit_bias.-1"),
    (C, body(logit_bias={"zzz": 1}), "logit_bias.zzz"),
    (C, body(logit_bias=[1]), "logit_bias[0]"),
    (C, body(logit_bias=[[1]]), "logit_bias[0]"),
    (C, body(logit_bias=[[1, 2, 3]]), "logit_bias[0]"),
    (C, body(logit_bias=[[1, 2], [27, 1]]), "logit_bias[1]"),
    (C, body(logit_bias=[[1.0, 2]]), "logit_bias[0]"),
    (C, body(logit_bias=[{"bias": 1}]), "logit_bias[0]"),
    (C, body(logit_bias={str(i): 1 for i in range(1025)}), "logit_bias"),
    # the prompt
    (C, {}, "prompt"),
    (C, {"prompt": None}, "prompt"),
    (C, {"prompt": 1}, "prompt"),
    (C, {"prompt": True}, "prompt"),
    (C, {"prompt": {}}, "prompt"),
    (C, {"prompt": []}, "prompt"),
    (C, {"prompt": [None]}, "prompt[0]"),
    (C, {"prompt": [1.0]}, "prompt[0]"),
    (C, {"prompt": [0, 27]}, "prompt[1]"),
    (C, {"prompt": [-1]}, "prompt[0]"),
    (C, {"prompt": [0, "go"]}, "prompt[1]"),
    (C, {"prompt": ["go", 0]}, "prompt[1]"),
    (C, {"prompt": [[0], [27]]}, "prompt[1][0]"),
    (C, {"prompt": [[[0]]]}, "prompt[0][0]"),
    (C, {"prompt": ["go"] * 17}, "prompt[16]"),
    (C, {"prompt": ["go"] * 5, "n": 13}, "n"),
    (C, {"prompt": "zz"}, "prompt"),
    (C, {"prompt": "go" * 64}, "prompt"),
    (C, {"prompt": "go" * 100000}, "prompt"),
    (C, {"prompt": [0] * 64}, "prompt"),
    (C, body(suffix="x"), "suffix"),
    (C, body(best_of=2), "best_of"),
    (C, body(best_of=3, n=2), "best_of"),
    (C, body(logprobs=21), "logprobs"),
    (C, body(logprobs=-1), "logprobs"),
    (C, body(logprobs="1"), "logprobs"),
    # rules
    (C, body(rules={"name": "dry"}), "rules"),
    (C, body(rules="dry"), "rules"),
    (C, body(rules=["dry"]), "rules[0]"),
    (C, body(rules=[{}]), "rules[0].name"),
    (C, body(rules=[{"name": 1}]), "rules[0].name"),
    (C, body(rules=[{"name": "nope"}]), "rules[0].name"),
    (C, body(rules=[{"name": "dry"}, {"name": "dry", "x": 1}]), "rules[1].x"),
    (C, body(rules=[{"name": "dry", "multiplier": -1}]), "rules[0].multiplier"),
    (C, body(rules=[{"name": "dry", "multiplier": "x"}]), "rules[0].multiplier"),
    (C, body(rules=[{"name": "dry", "multiplier": [1]}]), "rules[0].multiplier"),
    (C, body(rules=[{"name": "dry", "last": 1.5}]), "rules[0].last"),
    (C, body(rules=[{"name": "dry", "prompt": 1}]), "rules[0].prompt"),
    (C, body(rules=[{"name": "dry", "breaker": [1]}]), "rules[0].breaker[0]"),
    (C, body(rules=[{"name": "repetition"}, {"name": "probability-threshold", "min_probability": 2}]),
     "rules[1].min_probability"),
    (C, body(rules=[{"name": "phrases", "file": "/etc/hostname"}]), "rules[0].file"),
    (C, body(rules=[{"name": "grammar", "file": "x"}]), "rules[0].file"),
    (C, body(rules=[{"name": "json", "schema_file": ["x"]}]), "rules[0].schema_file"),
    (C, body(rules=[{"name": "phrases", "list": "nope"}]), "rules[0].list"),
    (C, body(rules=[{"name": "phrases", "list": ["base", "nope"]}]), "rules[0].list[1]"),
    (C, body(rules=[{"name": "phrases", "list": ["base"] * 65}]), "rules[0].list[64]"),
    (C, body(rules=[{"name": "phrases", "text": ["a", ""]}]), "rules[0].text"),
    (C, body(rules=[{"name": "phrases", "case": "x"}]), "rules[0].case"),
    (C, body(rules=[{"name": "regex", "pattern": "("}]), "rules[0].pattern"),
    (C, body(rules=[{"name": "grammar", "text": "root :"}]), "rules[0]"),
    (C, body(rules=[{"name": "dry"}] * 65), "rules"),
    # bans
    (C, body(banned_strings=1), "banned_strings"),
    (C, body(banned_strings=[1]), "banned_strings[0]"),
    (C, body(banned_strings=["a", ["b"]]), "banned_strings[1]"),
    (C, body(banned_strings=["a", "x" * 4097]), "banned_strings[1]"),
    (C, body(banned_strings=["%d" % i for i in range(10001)]), "banned_strings"),
    (C, body(banned_strings=["x%04d" % i * 200 for i in range(1049)]), "banned_strings[1048]"),
    (C, body(bad_words={}, banned_strings={"a": 1}), "banned_strings"),
    (C, body(bad_words=[[1]]), "bad_words[0]"),
    (C, body(banned_tokens=[27]), "banned_tokens[0]"),
    (C, body(banned_tokens=[-1]), "banned_tokens[0]"),
    (C, body(banned_tokens=["a", 1.5]), "banned_tokens[1]"),
    (C, body(banned_tokens=[True]), "banned_tokens[0]"),
    (C, body(banned_tokens="1,x"), "banned_tokens"),
    (C, body(banned_tokens="1,99"), "banned_tokens"),
    (C, body(banned_tokens=3), "banned_tokens"),
    (C, body(custom_token_bans="a"), "custom_token_bans"),
    (C, body(custom_token_bans=["1"]), "custom_token_bans[0]"),
    (C, body(custom_token_bans=[1, 27]), "custom_token_bans[1]"),
    (C, body(banned_regex=["a", "(b"]), "banned_regex[1]"),
    (C, body(banned_regex="(b"), "banned_regex"),
    (C, body(banned_regex=["x" * 1025]), "banned_regex[0]"),
    (C, body(banned_regex=["a%d" % i for i in range(65)]), "banned_regex"),
    (C, body(banned_regex=["a"] * 40, banned_regex_case_insensitive=["b"] * 40),
     "banned_regex_case_insensitive[24]"),
    (C, body(banned_regex_case_insensitive=[5]), "banned_regex_case_insensitive[0]"),
    (C, body(ban_lists="nope"), "ban_lists"),
    (C, body(ban_lists=["base", "nope"]), "ban_lists[1]"),
    (C, body(ban_lists=["../base"]), "ban_lists[0]"),
    (C, body(ban_lists=[1]), "ban_lists[0]"),
    (C, body(bans_enabled="no"), "bans_enabled"),
    (C, body(bans_enabled=False, banned_strings=[1]), "banned_strings[0]"),
    (C, body(bans_enabled=False, ban_lists=["nope"]), "ban_lists[0]"),
    # constraints
    (C, body(grammar=1), "grammar"),
    (C, body(grammar="root :"), "grammar"),
    (C, body(grammar="root ::= " + "(" * 5000 + '"a"' + ")" * 5000), "grammar"),
    (C, body(grammar_string="root ::= a"), "grammar_string"),
    (C, body(grammar="x" * 65537), "grammar"),
    (C, body(json_schema=1), "json_schema"),
    (C, body(json_schema="{"), "json_schema"),
    (C, body(json_schema={"type": "nope"}), "json_schema"),
    (C, body(response_format="json"), "response_format"),
    (C, body(response_format={"a": 1}), "response_format.type"),
    (C, body(response_format={"type": "xml"}), "response_format.type"),
    (C, body(response_format={"type": "json_schema"}), "response_format.json_schema"),
    (C, body(response_format={"type": "json_schema", "json_schema": {"name": "x"}}),
     "response_format.json_schema.schema"),
    (C, body(response_format={"type": "json_object"}, grammar='root ::= "a"'), "response_format"),
    (C, body(rules=[{"name": "json"}], json_schema={"type": "object"}), "rules[0]"),
    (C, body(structured_outputs={"regex": "a"}), "structured_outputs"),
    (C, body(guided_json={"type": "object"}), "guided_json"),
    (C, body(regex_pattern="a"), "regex_pattern"),
    (C, body(allowed_token_ids=[1]), "allowed_token_ids"),
    # dry
    (C, body(dry_multiplier=-1), "dry_multiplier"),
    (C, body(dry_multiplier=1, dry_base=0.5), "dry_base"),
    (C, body(dry_multiplier=1, dry_allowed_length=0), "dry_allowed_length"),
    (C, body(dry_multiplier=1, dry_penalty_last_n=-2), "dry_penalty_last_n"),
    (C, body(dry_multiplier=1, dry_sequence_breakers="a,b"), "dry_sequence_breakers"),
    (C, body(dry_multiplier=1, dry_sequence_breakers="{}"), "dry_sequence_breakers"),
    (C, body(dry_multiplier=1, dry_sequence_breakers=[1]), "dry_sequence_breakers"),
    # chat
    (H, {}, "messages"),
    (H, {"messages": []}, "messages"),
    (H, {"messages": "go"}, "messages"),
    (H, {"messages": ["go"]}, "messages[0]"),
    (H, {"messages": [{}]}, "messages[0].role"),
    (H, {"messages": [{"role": "user"}]}, "messages[0].content"),
    (H, {"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    (H, {"messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
    (H, {"messages": [{"role": "x", "content": "go"}]}, "messages[0].role"),
    (H, {"messages": [{"role": 1, "content": "go"}]}, "messages[0].role"),
    (H, {"messages": CHAT + [{"role": "tool", "content": "go"}]}, "messages[1].role"),
    (H, {"messages": [{"role": "user", "content": ["go"]}]}, "messages[0].content[0]"),
    (H, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
    (H, {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0]"),
    (H, {"messages": CHAT * 4097}, "messages"),
    (H, {"messages": CHAT * 60}, "messages"),
    (H, chat(tools=[{"type": "function"}]), "tools"),
    (H, chat(functions=[{"name": "f"}]), "functions"),
    (H, chat(tool_choice="required"), "tool_choice"),
    (H, chat(logprobs=1), "logprobs"),
    (H, chat(top_logprobs=2), "top_logprobs"),
    (H, chat(logprobs=True, top_logprobs=21), "top_logprobs"),
    (H, chat(logprobs=True, top_logprobs=1.0), "top_logprobs"),
    (H, chat(continue_final_message=True), "continue_final_message"),
    (H, chat(continue_final_message=1), "continue_final_message"),
    (H, chat(add_generation_prompt=False), "add_generation_prompt"),
    (H, chat(chat_template="x"), "chat_template"),
    (H, chat(chat_template_kwargs=[1]), "chat_template_kwargs"),
    (H, chat(chat_template_kwargs={"a": {}}), "chat_template_kwargs"),
    (H, chat(banned_strings=[1]), "banned_strings[0]"),
    (H, chat(max_completion_tokens=0.5), "max_completion_tokens"),
    # /completion
    (L, {}, "prompt"),
    (L, {"prompt": []}, "prompt"),
    (L, {"prompt": [["go", []]]}, "prompt[0][1]"),
    (L, {"prompt": [["go", 27]]}, "prompt[0][1]"),
    (L, {"prompt": ["go", None]}, "prompt[1]"),
    (L, {"prompt": ["go", ["go"], 1]}, "prompt[1]"),
    (L, {"prompt": ["go", 27]}, "prompt[1]"),
    (L, {"prompt": ["go"] * 17}, "prompt[16]"),
    (L, body(n=17), "n"),
    (L, body(n_probs=21), "n_probs"),
    (L, body(n_predict=1.5), "n_predict"),
]  # fmt: skip


@pytest.mark.parametrize("path, fields, param", WRONG, ids=lambda v: v if isinstance(v, str) else "")
def test_a_wrong_field_is_named(server, path, fields, param):
    answer = server.post(path, fields)
    assert answer.status == 400, answer
    assert answer.error["param"] == param, answer
    assert answer.error["type"] == "invalid_request_error" and answer.error["code"], answer
    assert answer.error["message"].isprintable() and len(answer.error["message"]) < 640


def test_there_are_many():
    assert len(WRONG) + len(RAW) >= 150


def test_the_message_names_the_limit(server):
    for fields, limit in [
        (body(n=17), "16"),
        (body(stop=["x" * 257]), "256"),
        (body(logprobs=21), "20"),
        (body(logit_bias={"1": 101}), "100"),
        (body(banned_strings=["%d" % i for i in range(10001)]), "10000"),
        (body(banned_regex=["x" * 1025]), "1024"),
        ({"prompt": ["go"] * 5, "n": 13}, "64"),
    ]:
        answer = server.post(C, fields)
        assert answer.status == 400 and limit in answer.error["message"], answer


def test_too_long_a_prompt_says_how_long(server):
    answer = server.post(C, {"prompt": "go" * 70})
    assert answer.error["code"] == "context_length_exceeded"
    assert "70" in answer.error["message"] and "64" in answer.error["message"]


def test_a_prompt_as_long_as_the_context_can_be_scored(server):
    """Nothing is written behind it, so it needs no room."""
    score = {"echo": True, "max_tokens": 0, "logprobs": 1}
    for n, more, status in ((64, score, 200), (65, score, 400), (64, {"max_tokens": 0}, 400), (63, {}, 200)):
        answer = server.post(C, dict(more, prompt=[0] * n))
        assert answer.status == status, (n, more, answer)
        if status == 400:
            assert answer.error["code"] == "context_length_exceeded" and answer.error["param"] == "prompt"
    told = server.post(C, dict(score, prompt=[0] * 64)).json
    assert len(told["choices"][0]["logprobs"]["tokens"]) == told["usage"]["prompt_tokens"] == 64


def test_unknown_lists_name_those_there_are(server):
    message = server.post(C, body(ban_lists=["nope"])).error["message"]
    assert "base" in message and "noir" in message and "nope" in message


def test_a_near_miss_is_guessed(server):
    assert "'repetition'" in server.post(C, body(rules=[{"name": "repetitio"}])).error["message"]
    fields = body(rules=[{"name": "dry", "multiplyer": 1}])
    assert "'multiplier'" in server.post(C, fields).error["message"]


# ==== Fields that are right ====

# What SillyTavern sends with everything at its neutral setting.
NEUTRAL = {
    "model": "", "user": "x", "max_new_tokens": 8, "max_tokens": 8, "n": 1, "logprobs": None,
    "temperature": 1, "temperature_last": True, "top_p": 1, "typical_p": 1, "typical": 1,
    "min_p": 0, "top_k": 0, "top_a": 0, "tfs": 1, "epsilon_cutoff": 0, "eta_cutoff": 0,
    "repetition_penalty": 1, "rep_pen": 1, "rep_pen_range": 0, "repetition_penalty_range": 0,
    "rep_pen_slope": 0, "encoder_repetition_penalty": 1, "no_repeat_ngram_size": 0,
    "frequency_penalty": 0, "presence_penalty": 0, "skew": 0, "min_tokens": 0, "length_penalty": 1,
    "early_stopping": False, "add_bos_token": True, "dynamic_temperature": False,
    "dynatemp_low": 1, "dynatemp_high": 1, "dynatemp_range": 0, "dynatemp_exponent": 1,
    "smoothing_factor": 0, "smoothing_curve": 1, "dry_multiplier": 0, "dry_base": 1.75,
    "dry_allowed_length": 2, "dry_penalty_last_n": 0, "dry_sequence_breakers": '["\\n", ":", "\\"", "*"]',
    "xtc_probability": 0, "xtc_threshold": 0.1, "mirostat_mode": 0, "mirostat_tau": 5,
    "mirostat_eta": 0.1, "guidance_scale": 1, "negative_prompt": "", "grammar": "", "grammar_string": "",
    "json_schema": {}, "banned_strings": [], "banned_tokens": "", "custom_token_bans": "",
    "logit_bias": [], "ban_eos_token": False, "ignore_eos": False, "skip_special_tokens": True,
    "spaces_between_special_tokens": True, "stop": [], "stopping_strings": [], "seed": -1,
    "sampler_seed": -1, "sampler_priority": ["a"], "samplers": ["a"], "n_probs": 0, "speculative_ngram": False,
    "truncation_length": 4096, "guided_json": None, "regex_pattern": "", "xyz": [{"unknown": None}],
    "response_format": {}, "cache_prompt": True, "n_sigma": 0, "include_reasoning": False,
}  # fmt: skip

RIGHT = [
    (C, body()),
    (C, dict(NEUTRAL, prompt="go")),
    (H, dict(NEUTRAL, messages=CHAT, logprobs=None)),
    (L, dict(NEUTRAL, prompt="go")),
    (C, dict({k: None for k in NEUTRAL}, prompt="go")),
    (C, body(unknown={"a": [1, None, {"b": 2}]})),
    (C, body(temperature=0)),
    (C, body(temperature=-0.0)),
    (C, body(temperature=0, top_k=-1, n=2, best_of=2)),
    (C, body(max_tokens=-1)),
    (C, body(max_tokens=0, echo=True)),
    (C, body(repeat_penalty=0)),
    (C, body(suffix="")),
    (C, body(logprobs=0)),
    (C, body(logprobs=True)),
    (C, body(logprobs=False)),
    (C, body(stop="x")),
    (C, body(stop=["", "x"] * 8)),
    (C, body(logit_bias={"1": -100, "2": -1e9, " a": 1})),
    (C, body(logit_bias=[[1, False], [" a to", 1], ["go", -2.5]])),
    (C, body(logit_bias=[{"id": 1, "bias": 5}])),
    (C, body(logit_bias={})),
    (C, {"prompt": ["go", "go a"]}),
    (C, {"prompt": [0, 1]}),
    (C, {"prompt": [[0], [0, 1]]}),
    (C, {"prompt": ["go"] * 16, "n": 4, "max_tokens": 1}),
    (C, {"prompt": "go" * 63, "max_tokens": 1}),
    (C, {"prompt": ""}),
    (C, body(banned_strings="testament to")),
    (C, body(banned_strings=["testament", "", "x"])),
    (C, body(banned_tokens="")),
    (C, body(banned_tokens="3, 4,")),
    (C, body(banned_tokens=[3, "testament to"])),
    (C, body(custom_token_bans="3")),
    (C, body(bad_words=["x"])),
    (C, body(banned_regex="a+b")),
    (C, body(banned_regex_case_insensitive=["TESTAMENT"])),
    (C, body(ban_lists="base")),
    (C, body(ban_lists=["base", "noir"])),
    (C, body(bans_enabled=False, ban_lists=["base"])),
    (C, body(banned_strings=["<|u|>", "</s>"])),
    (C, body(banned_strings=["%d phrase" % i for i in range(10000)])),
    (C, body(rules=[])),
    (C, body(rules=[{"name": "phrases", "text": "x", "word": True, "case": "exact"}])),
    (C, body(rules=[{"name": "phrases", "list": "base", "weight": 0.5, "max_count": None}])),
    (C, body(rules=[{"name": "repetition", "max_repetitions": 2}, {"name": "dry", "multiplier": 1}])),
    (C, body(dry_multiplier=0.8, dry_sequence_breakers=["\n"])),
    (C, body(dry_multiplier=0.8, dry_sequence_breakers='["a"]', dry_range=-1)),
    (C, body(driver="sample", hold="minimal", on_stuck="stop", max_rewinds=5)),
    (C, body(resample="exact")),
    (C, body(deterministic=True, return_token_ids=True)),
    (C, body(response_format={"type": "text"})),
    (C, body(grammar='root ::= " a" .*')),
    (H, chat(tools=[], tool_choice="auto", functions=None)),
    (H, chat(chat_template_kwargs={"enable_thinking": False})),
    (H, chat(logprobs=True, top_logprobs=20)),
    (H, {"messages": [{"role": "developer", "content": "go"}] + CHAT}),
    (H, {"messages": [{"role": "user", "content": [{"type": "text", "text": "g"}, {"type": "text", "text": "o"}]}]}),
    (H, {"messages": CHAT + [{"role": "assistant", "content": " a"}]}),
    (H, {"messages": CHAT + [{"role": "assistant", "content": ""}]}),
    (H, {"messages": CHAT + [{"role": "assistant", "content": None}] + CHAT}),
    (H, {"messages": CHAT + [{"role": "assistant", "content": " a"}], "continue_final_message": True,
         "add_generation_prompt": False}),
    (L, {"prompt": ["go", 1, " to"]}),
    (L, {"prompt": [0, 1], "n_predict": 3, "n_probs": 2}),
    (L, body(logprobs=2)),
]  # fmt: skip


@pytest.mark.parametrize("path, fields", RIGHT, ids=range(len(RIGHT)))
def test_a_right_field_is_taken(server, document, path, fields):
    """And the document says so, of the request and of the answer."""
    answer = server.post(path, fields)
    assert answer.status == 200, answer
    operation = document["paths"][path]["post"]
    said = operation["requestBody"]["content"]["application/json"]["schema"]
    conforms(document, said, fields)
    said = operation["responses"]["200"]["content"]["application/json"]["schema"]
    conforms(document, said, answer.json)


def conforms(document, schema, value):
    whole = dict(schema, components=document["components"])
    jsonschema.Draft202012Validator(whole).validate(json.loads(json.dumps(value)))


# ==== What the fields do ====


def settings(server, path="/v1/completions", **fields):
    """The start line of the trace: what the request was read as."""
    answer = server.post(path, dict({"retrace": {"events": True}}, **fields))
    assert answer.status == 200, answer
    retrace = answer.json["retrace"]
    start = (retrace.get("trace") or answer.json["choices"][0]["retrace"]["trace"])[0]
    return dict(start["settings"], seed=start["seed"], prompt=start["prompt_tokens"])


def test_presets_are_openais(server):
    s = settings(server, prompt="go")
    assert (s["temp"], s["top_p"], s["top_k"], s["min_p"], s["typical"]) == (1, 1, 0, 0, 1)
    assert s["repeat_penalty"] == 1 and s["presence_penalty"] == s["frequency_penalty"] == 0
    assert s["max_tokens"] == 16 and s["hold"] == "all"
    assert settings(server, "/v1/chat/completions", messages=CHAT)["max_tokens"] == 1024
    assert settings(server, "/completion", prompt="go")["max_tokens"] == 1024


@pytest.mark.parametrize("alias", ["max_completion_tokens", "n_predict", "max_new_tokens", "max_length", "num_predict"])
def test_aliases_of_max_tokens(server, alias):
    assert settings(server, prompt="go", **{alias: 3})["max_tokens"] == 3
    assert settings(server, prompt="go", max_tokens=None, **{alias: 3})["max_tokens"] == 3
    assert settings(server, prompt="go", max_tokens=2, **{alias: 3})["max_tokens"] == 2


def test_other_aliases(server):
    s = settings(server, prompt="go", temp=0.5, rep_pen=1.1, rep_pen_range=7, typical=0.9, sampler_seed=11,
                 stopping_strings=["zz"], ban_eos_token=True, max_tokens=2)  # fmt: skip
    assert (s["temp"], s["repeat_penalty"], s["repeat_last_n"], s["typical"]) == (0.5, 1.1, 7, 0.9)
    assert s["seed"] == 11 and s["stop"] == ["zz"] and s["ignore_eos"] is True


def test_off_is_off(server):
    s = settings(server, prompt="go", top_k=-1, repeat_penalty=0, stop=[""], banned_tokens="", dry_multiplier=0)
    assert s["top_k"] == 0 and s["repeat_penalty"] == 1 and s["stop"] == [] and s["rules"] == []


def test_a_seed_is_drawn_and_told(server):
    seeds = {settings(server, prompt="go", seed=-1)["seed"] for _ in range(4)}
    seeds |= {settings(server, prompt="go")["seed"], settings(server, prompt="go", seed=None)["seed"]}
    assert len(seeds) == 6 and all(0 <= s < 2**63 for s in seeds)
    for seed in (2**53 + 1, 9 * 10**17 + 1, 2**63 - 1):  # all 64 bits, none of them rounded
        assert settings(server, prompt="go", seed=seed)["seed"] == seed


def test_phrases_of_all_fields_are_one_rule(server):
    s = settings(server, prompt="go", banned_strings=["a1", ""], bad_words="b1", banned_tokens=["c1", 3],
                 ban_lists=["base"], custom_token_bans="4,5", banned_regex=["d+"])  # fmt: skip
    rules = {r["name"]: r for r in s["rules"]}
    assert len(s["rules"]) == 2 and rules["phrases"]["text"] == ["a1", "b1", "c1"]
    assert rules["phrases"]["list"] == ["testament to\nElara\n"] and rules["regex"]["pattern"] == ["d+"]
    assert s["logit_bias"] == {"3": "-inf", "4": "-inf", "5": "-inf"}


def test_logit_bias_of_texts_and_ids(server):
    s = settings(server, prompt="go", logit_bias={"4": 2, " a to": 1, "3": False})
    assert s["logit_bias"] == {"1": 1.0, "3": "-inf", "4": 2.0}
    s = settings(server, prompt="go", logit_bias=[[4, 2], [4, 3], [5, -100], [5, 50]])
    assert s["logit_bias"] == {"4": 5.0, "5": "-inf"}


def test_a_control_tokens_name_bans_the_token(server):
    """But an end token's does not keep the answer from ending."""
    assert settings(server, prompt="go", banned_strings=["<|u|>"])["logit_bias"] == {"9": "-inf"}
    assert settings(server, prompt="go", banned_strings=["</s>"])["logit_bias"] == {}


def test_bans_off_keeps_rules(server):
    s = settings(server, prompt="go", bans_enabled=False, banned_strings=["a"], banned_tokens=[3], ban_lists=["base"],
                 banned_regex="x", rules=[{"name": "repetition"}], logit_bias={"4": 1})  # fmt: skip
    assert [r["name"] for r in s["rules"]] == ["repetition"] and s["logit_bias"] == {"4": 1.0}


def test_constraints_are_rules(server):
    schema = {"type": "object"}
    forms = [
        {"json_schema": schema},
        {"json_schema": json.dumps(schema)},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}},
        {"response_format": {"type": "json_object", "schema": schema}},
        {"response_format": {"type": "json_schema", "schema": schema}},
        {"rules": [{"name": "json", "schema": schema}]},
    ]
    for form in forms:
        answer = server.post("/v1/completions", body(retrace={"events": True}, **form))
        start = answer.json["retrace"]["trace"][0]
        assert [json.loads(r["schema"]) for r in start["settings"]["rules"]] == [schema], form


def test_exact_holds_all(server):
    assert settings(server, prompt="go", resample="exact", hold="minimal")["hold"] == "all"


def test_dry_of_other_servers(server):
    s = settings(server, prompt="go", dry_multiplier=0.5, dry_base=2, dry_allowed_length=3, dry_range=-1,
                 dry_sequence_breakers='["x", ""]')  # fmt: skip
    want = {"name": "dry", "multiplier": 0.5, "base": 2.0, "allowed_length": 3, "last": 0, "breaker": ["x"]}
    assert s["rules"] == [want]


def test_prompts_as_they_stand(server):
    assert settings(server, prompt=[0, 1])["prompt"] == [0, 1]
    assert settings(server, prompt="go<|u|>")["prompt"] == [0, 9]
    assert settings(server, "/completion", prompt=["go", 1, " to"])["prompt"] == [0, 1, 3]


def test_a_last_assistant_message_is_gone_on_from(server):
    turns = CHAT + [{"role": "assistant", "content": " a"}]
    assert settings(server, "/v1/chat/completions", messages=turns)["prompt"] == [9, 0, 10, 1]
    s = settings(server, "/v1/chat/completions", messages=turns, continue_final_message=False)
    assert s["prompt"] == [9, 0, 10, 9, 1, 10]
    # What a message says is never a control token.
    answer = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "<|u|>"}]})
    assert answer.status == 400 and answer.error["param"] == "messages"


def test_5000_phrases_and_the_last_one_holds(server):
    phrases = ["phrase number %d" % i for i in range(4999)] + ["testament to"]
    for seed in range(8):
        answer = server.complete("go", banned_strings=phrases, seed=seed)
        assert answer["choices"][0]["text"] == " a sign of hope."


def test_bans_hold_in_every_choice_and_in_both_apis(server):
    """Whatever field they come in; without them the banned words are seen."""
    forms = [
        {"banned_strings": ["Testament"]},
        {"banned_tokens": ["testament"]},
        {"bad_words": "testament to"},
        {"banned_tokens": [2]},
        {"custom_token_bans": "2"},
        {"ban_lists": ["base"]},
        {"banned_regex": ["testa"]},
        {"banned_regex_case_insensitive": ["TESTA"]},
        {"logit_bias": [[2, False]]},
        {"rules": [{"name": "phrases", "list": "base"}]},
    ]

    def texts(**fields):
        plain = server.complete("go", n=8, seed=3, **fields)["choices"]
        talk = server.chat("go", n=8, seed=3, **fields)["choices"]
        return [c["text"] for c in plain] + [c["message"]["content"] for c in talk]

    assert any("testament" in t for t in texts())
    assert texts(bans_enabled=False, **forms[0]) == texts()
    for form in forms:
        assert texts(**form) == [" a sign of hope."] * 16, form


# ==== /tokenize, /detokenize, /apply-template ====


def test_tokenize_in_both_ways(server):
    assert server.post("/tokenize", {"content": "go a"}).json == {"tokens": [0, 1], "count": 2, "max_model_len": 64}
    answer = server.post("/tokenize", {"prompt": "go a", "return_token_strs": True}).json
    assert answer["tokens"] == [0, 1] and answer["token_strs"] == ["go", " a"]
    answer = server.post("/tokenize", {"content": "go<|u|>", "with_pieces": True}).json
    assert answer["tokens"] == [{"id": 0, "piece": "go"}, {"id": 9, "piece": "<|u|>"}]
    assert server.post("/tokenize", {"messages": CHAT}).json["tokens"] == [9, 0, 10]
    assert server.post("/tokenize", {"content": ""}).json["tokens"] == []
    answer = server.post("/tokenize", {"content": "go<|u|>", "parse_special": False})
    assert answer.status == 400 and answer.error["param"] == "content"


def test_pieces_that_are_no_characters(tmp_path):
    s = Server(tmp_path, words_model())
    answer = s.post("/tokenize", {"content": "é", "with_pieces": True}).json
    assert answer["tokens"] == [{"id": 195, "piece": [195]}, {"id": 169, "piece": [169]}]
    assert s.post("/detokenize", {"tokens": [195, 169]}).json == {"content": "é", "prompt": "é"}
    assert s.post("/detokenize", {"tokens": [195]}).json["content"] == "\ufffd"
    s.stop()


def test_detokenize(server):
    assert server.post("/detokenize", {"tokens": [0, 1, 9]}).json == {"content": "go a<|u|>", "prompt": "go a<|u|>"}
    assert server.post("/detokenize", {"tokens": []}).json["content"] == ""


def test_apply_template(server):
    assert server.post("/apply-template", {"messages": CHAT}).json == {"prompt": "<|u|>go<|a|>"}
    turns = CHAT + [{"role": "assistant", "content": " a"}]
    assert server.post("/apply-template", {"messages": turns}).json == {"prompt": "<|u|>go<|a|> a"}


@pytest.mark.parametrize(
    "path, fields, param",
    [
        ("/tokenize", {}, "content"),
        ("/tokenize", {"content": 1}, "content"),
        ("/tokenize", {"prompt": ["go"]}, "prompt"),
        ("/tokenize", {"content": "go", "add_special": 1}, "add_special"),
        ("/tokenize", {"content": "go", "with_pieces": "x"}, "with_pieces"),
        ("/tokenize", {"content": "go" * 600000}, "content"),
        ("/tokenize", {"messages": [1]}, "messages[0]"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "1"}, "tokens"),
        ("/detokenize", {"tokens": [27]}, "tokens[0]"),
        ("/detokenize", {"tokens": [0, -1]}, "tokens[1]"),
        ("/detokenize", {"tokens": [True]}, "tokens[0]"),
        ("/apply-template", {}, "messages"),
        ("/apply-template", {"messages": [{"role": "user"}]}, "messages[0].content"),
    ],
)  # fmt: skip
def test_texts_that_are_wrong(server, path, fields, param):
    answer = server.post(path, fields)
    assert answer.status == 400 and answer.error["param"] == param, answer


# ==== The document, and docs/http.md ====


def test_the_document_is_whole(document):
    assert document["openapi"].startswith("3.1")
    text = json.dumps(document)
    for name in set(re.findall(r'"#/components/(\w+/\w+)"', text)):
        kind, key = name.split("/")
        assert key in document["components"][kind], name
    for path, operations in document["paths"].items():
        if "requestBody" in operations.get("post", {}):
            for name, p in properties(document, path).items():
                assert "type" in p or "anyOf" in p or p["x-kind"] == "any", name
                assert p["description"], name
    assert all(document["components"]["schemas"].values())
    ids = [o["operationId"] for p in document["paths"].values() for o in p.values()]
    assert len(set(ids)) == len(ids)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert "200" in operation["responses"] and operation["summary"], path


def test_the_documents_errors_are_the_servers(server, document):
    for path, fields, _ in WRONG[::20]:
        answer = server.post(path, fields)
        said = document["paths"][path]["post"]["responses"]["400"]["$ref"].split("/")[-1]
        schema = document["components"]["responses"][said]["content"]["application/json"]["schema"]
        conforms(document, schema, answer.json)


def properties(document, path):
    content = document["paths"][path]["post"]["requestBody"]["content"]
    return content["application/json"]["schema"]["properties"]


def test_the_documents_ranges_are_the_readers(server, document):
    """Each number is taken at its bounds and refused beyond them."""
    tried = 0
    for path, start in (("/v1/completions", body()), ("/v1/chat/completions", chat())):
        for name, p in properties(document, path).items():
            if p.get("x-kind") not in ("int", "number") or "minimum" not in p:
                continue
            given = dict(start, **{"dry_multiplier": 1, "logprobs": 1 if path == C else True, "max_tokens": 1})
            # Many choices of a table model cost nothing, but best_of goes with n.
            given.update({"n": p["minimum"]} if name == "best_of" else {})
            given.pop(p.get("x-alias-of"), None)  # the field's own name counts first
            low, high = p["minimum"], p["maximum"]
            for bad in (low - 1, high + (1 if high < 1e15 else high)):
                bad = int(bad) if p["x-kind"] == "int" else bad
                answer = server.post(path, dict(given, **{name: bad}))
                given_name = answer.status == 400 and answer.error["param"] or "taken"
                if bad >= 2**63:  # no number of the body's may be so large
                    given_name = name if answer.error["code"] == "invalid_json" else given_name
                assert given_name == name, (name, bad, answer)
            if "x-alias-of" not in p:
                value = int(low) if p["x-kind"] == "int" else low
                assert server.post(path, dict(given, **{name: value})).status == 200, (name, low)
            tried += 1
    assert tried > 40


WORDS = {
    "int": "whole number", "int or bool": "true, false or whole number", "number": "number", "bool": "true or false", "string": "text",
    "strings": "text or list of texts",
    "object": "object", "any": "any", "list": "list", "bias": "object or list", "rules": "list of rules",
    "bans": "text or list", "ids": "list of ids, or text", "schema": "object or text", "breakers": "list or text",
    "prompt": "text or list", "messages": "list of messages",
}  # fmt: skip


def plain(x):
    return "%.15g" % x if abs(x) < 1e6 else "%g" % x


def value_of(p):
    if "enum" in p:
        return " or ".join("`%s`" % v for v in p["enum"] if v is not None)
    words = WORDS[p["x-kind"]]
    if "minimum" in p:
        words += " from %s to %s" % (plain(p["minimum"]), plain(p["maximum"]))
    if "x-most" in p:
        words += ", at most %d" % p["x-most"]
    if "x-most-bytes" in p:
        words += ", at most %d bytes" % p["x-most-bytes"] + (" each" if "x-most" in p else "")
    return words


def rows(found):
    out = ["| field | value | preset | |", "| --- | --- | --- | --- |"]
    for name, p in found:
        note = p["description"]
        if "enum" in p:
            note = re.sub(r"^[a-z|-]+(: )?", "", note)
        if p.get("x-aliases"):
            note += ". Other names: " + ", ".join("`%s`" % a for a in p["x-aliases"].split("|"))
        cells = ["`%s`" % name, value_of(p), p.get("x-default", ""), note.strip()]
        cells = [re.sub(r"(?<!\\)\|", "\\|", c) for c in cells]
        out.append("| " + " | ".join(cells).replace("|  |", "| |") + " |")
    return "\n".join(out) + "\n"


def table(document, what):
    if what == "limits":
        out = ["| what | most |", "| --- | ---: |"]
        return "\n".join(out + ["| %s | %d |" % (x["what"], x["most"]) for x in document["x-limits"]]) + "\n"
    if what == "routes":
        out = ["| | path | |", "| --- | --- | --- |"]
        for path, operations in document["paths"].items():
            for method, o in operations.items():
                out.append("| %s | `%s` | %s |" % (method.upper(), path, o["summary"]))
        return "\n".join(out) + "\n"
    path, kind = (what, "own") if what.startswith("/") else ("/v1/completions", what)
    found = properties(document, path).items()
    return rows([(n, p) for n, p in found if p.get("x-table") == kind and "x-alias-of" not in p])


MARK = re.compile(r"<!-- table: (\S+) -->\n(.*?)<!-- end -->", re.S)


def test_the_tables_of_the_page_are_the_servers(document):
    page = DOC.read_text()
    made = MARK.sub(lambda m: "<!-- table: %s -->\n%s<!-- end -->" % (m[1], table(document, m[1])), page)
    if os.environ.get("UPDATE_DOCS") and made != page:
        DOC.write_text(made)
    assert made == DOC.read_text(), "docs/http.md is not up to date: UPDATE_DOCS=1 writes it"


def test_the_page_has_every_table(document):
    page = {m[1] for m in MARK.finditer(DOC.read_text())}
    paths = {p for p, o in document["paths"].items() if "requestBody" in o.get("post", {})}
    assert {"common", "rules", "limits", "routes"} <= page
    assert paths - {"/chat/completions", "/completions"} <= page
