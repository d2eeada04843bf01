"""Requests made from the OpenAPI document that the server serves, and answers checked by it.

Needs tests/requirements-clients.txt. No answer is a 5xx but the planned 501 and 503, and each has a
status, a type and a body that the document tells of.
"""

import json
import subprocess
import sys
import time

import hypothesis
import pytest
import schemathesis
from serving import serving, words_model

CASES = 10  # of each operation
SECONDS = 45  # of all; later cases are left out where the machine is slow


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("schemathesis"), words_model()) as s:
        yield s


@pytest.fixture(scope="module")
def document(server):
    return server.get("/openapi.json").json


def test_the_document(document):
    assert document["openapi"].startswith("3.1")
    for path in ("/v1/models", "/v1/completions", "/v1/chat/completions", "/v1/rewind", "/tokenize"):
        assert path in document["paths"]
    fields = json.dumps(document["paths"]["/v1/completions"])
    for name in ("banned_strings", "banned_regex", "logit_bias", "max_tokens", "rules"):
        assert '"%s"' % name in fields or name in json.dumps(document.get("components", {}))


def operations(document):
    """All but those that are another's at a second path."""
    found, seen = [], set()
    for path, item in document["paths"].items():
        for method in ("get", "post"):
            told = {k: v for k, v in item.get(method, {}).items() if k != "operationId"}
            text = json.dumps(told, sort_keys=True)
            if method in item and text not in seen:
                seen.add(text)
                found.append((path, method.upper()))
    return found


def test_answers_are_as_the_document_says(server, document):
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=server.url)
    told, end = [], time.monotonic() + SECONDS
    for path, method in operations(document):
        operation = schema[path][method]

        @hypothesis.settings(
            max_examples=CASES, deadline=None, database=None, derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy())
        def check(case):
            if time.monotonic() > end:
                return
            body = case.body if isinstance(case.body, dict) else {}
            if isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 64:
                case.body = dict(body, max_tokens=64)  # time is for other things
            answer = case.call(timeout=60)
            told.append(answer.status_code)
            if answer.status_code >= 500:
                assert answer.status_code in (501, 503), (case.body, answer.content)
            case.validate_response(
                answer,
                checks=[
                    schemathesis.checks.not_a_server_error
                    if answer.status_code not in (501, 503)
                    else conforms,
                    schemathesis.specs.openapi.checks.response_schema_conformance,
                    schemathesis.specs.openapi.checks.status_code_conformance,
                    schemathesis.specs.openapi.checks.content_type_conformance,
                ],
            )

        check()
    assert server.running()
    assert 200 in told and 400 in told and len(told) >= 40


def conforms(ctx, response, case):
    return None


@pytest.mark.long
def test_its_own_program(server, tmp_path):
    """The same by the tool's command, with all phases and more cases."""
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", server.url + "/openapi.json",
            "--checks", "response_schema_conformance,status_code_conformance,content_type_conformance",
            "--max-examples", "60", "--seed", "1", "--workers", "1", "--no-color",
        ],
        cwd=tmp_path, capture_output=True, text=True, timeout=1500,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert server.running()
