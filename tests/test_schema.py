"""What a grammar from a JSON schema accepts is valid by the schema: judged by the package jsonschema.

The texts come from `test_schema walk`: random walks over the grammars below, the same with small changes,
and each schema's texts read by every other grammar. All that is accepted must be valid.
"""
import datetime
import json
import os
import pathlib
import re
import subprocess

import jsonschema

PROGRAM = pathlib.Path(os.environ["RETRACE_BUILD"]) / "asan/tests/test_schema"

TREE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
        "right": {"$ref": "#/$defs/tree"},
    },
    "required": ["value", "left"],
}

SCHEMAS = [
    True,
    {},
    {"type": "object"},
    {"type": ["integer", "null", "boolean"]},
    {"type": "string"},
    {"type": "string", "minLength": 2, "maxLength": 4},
    {"type": "string", "minLength": 3},
    {"type": "string", "pattern": "^[a-c]{1,3}-?[0-9]+$"},
    {"type": "string", "pattern": "a[^b]?c"},
    {"type": "string", "pattern": "^(x|y(z|[\"\\\\]))*$"},
    {"type": "string", "pattern": "^\\w\\W\\s\\S\\d\\D$"},
    {"type": "string", "pattern": "^.{2}\\u00e9[^\\w ]+$"},
    {"type": "integer"},
    {"type": "integer", "minimum": -105, "maximum": 2047},
    {"type": "integer", "exclusiveMinimum": 7},
    {"type": "integer", "maximum": -3},
    {"type": "integer", "minimum": 0.5, "exclusiveMaximum": 100.5},
    {"type": "number"},
    {"type": "number", "minimum": 0, "maximum": 1},
    {"type": "number", "exclusiveMinimum": -2, "exclusiveMaximum": 100},
    {"type": "number", "exclusiveMaximum": -1},
    {"minimum": 3, "maxLength": 2, "type": ["number", "string"]},
    {"enum": ["a", "b\n", 1, 2.5, None, [1, {"x": []}], {"k": "v"}]},
    {"const": {"a": [1, 2, "\u00e9\"\\"]}},
    {"type": "array"},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "items": {"enum": [1, 2]}, "minItems": 1},
    {"prefixItems": [{"type": "string"}, {"type": "boolean"}], "items": False, "type": "array"},
    {"prefixItems": [{"const": 1}, {"const": 2}, {"const": 3}], "minItems": 2, "type": "array", "maxItems": 5},
    {"type": "array", "maxItems": 0},
    TREE | {"$defs": {"tree": TREE}},
    {
        "properties": {"a": {"const": 1}, "b": {"type": "boolean"}, "c": {"type": "null"}, "d": {}},
        "required": ["b", "d"],
    },
    {"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
    {"properties": {"ab": {"const": 1}, "abc": {"const": 2}}, "additionalProperties": {"const": 3}, "type": "object"},
    {"properties": {"\u00e9": {"const": 1}, "q\"": {"const": 2}}, "additionalProperties": {"const": 3}},
    {"properties": {"a": {"const": 1}}, "additionalProperties": False, "type": "object"},
    {"type": "object", "required": ["x", "y"], "additionalProperties": {"type": "integer"}},
    {"type": "object", "required": ["x"]},
    {"additionalProperties": {"$ref": "#"}, "type": "object"},
    {"anyOf": [{"type": "integer", "minimum": 5}, {"properties": {"n": {"const": 0}}, "required": ["n"]}]},
    {
        "oneOf": [
            {"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"], "type": "object"},
            {"properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["kind"], "type": "object"},
        ]
    },
    {"oneOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]},
    {
        "allOf": [
            {"$ref": "#/definitions/base"},
            {"properties": {"extra": {"type": "boolean"}}, "required": ["extra"]},
        ],
        "definitions": {"base": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
    },
    {
        "title": "a person",
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "the name", "maxLength": 20},
            "born": {"type": "string", "format": "date"},
            "seen": {"type": "string", "format": "date-time"},
            "at": {"type": "string", "format": "time"},
            "id": {"type": "string", "format": "uuid"},
            "host": {"type": "string", "format": "ipv4"},
            "mail": {"type": "string", "format": "email"},
            "tags": {"type": "array", "items": {"type": "string", "pattern": "^#[a-z]+$"}, "maxItems": 3},
            "parent": {"$ref": "#"},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
]

FORMATS = jsonschema.FormatChecker()


@FORMATS.checks("date-time", ValueError)
def is_date_time(text):
    if not isinstance(text, str):
        return True
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    datetime.datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")
    return True


@FORMATS.checks("time", ValueError)
def is_time(text):
    if not isinstance(text, str):
        return True
    assert re.fullmatch(r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    datetime.datetime.strptime(text[:8], "%H:%M:%S")
    return True


def no_constant(name):
    raise AssertionError(f"{name} is no JSON")


def read(text):
    return json.loads(text, parse_constant=no_constant)


def test_what_is_accepted_is_valid(tmp_path):
    path = tmp_path / "schemas.json"
    path.write_text(json.dumps(SCHEMAS))
    validators = [jsonschema.Draft202012Validator(s, format_checker=FORMATS) for s in SCHEMAS]
    checked = [0] * len(SCHEMAS)
    distinct = [set() for _ in SCHEMAS]
    for seed in "1", "2":
        run = subprocess.run([PROGRAM, "walk", seed, path], capture_output=True, check=True)
        for line in run.stdout.decode().splitlines():
            found = json.loads(line)
            i, text = found["schema"], found["text"]
            errors = [e.message for e in validators[i].iter_errors(read(text))]
            assert not errors, (SCHEMAS[i], text, errors)
            checked[i] += 1
            distinct[i].add(text)
    print(sum(checked), "texts")
    assert min(checked) >= 20, list(zip(checked, SCHEMAS))
    # Schemas that leave a choice are walked in many ways.
    assert sum(len(d) for d in distinct) > 30 * len(SCHEMAS)
