"""The programs in examples/, built with the tests, do what README says."""
import json
import os
import pathlib
import re
import subprocess

BUILD = pathlib.Path(os.environ.get("RETRACE_BUILD", "build"))
STORY = pathlib.Path(__file__).resolve().parent / "data" / "cli_story.json"
TALE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "story.json"


def run(name, *args):
    return subprocess.run([BUILD / "examples" / name, *map(str, args)], capture_output=True, text=True, timeout=60)


def simple(*args):
    return run("simple", *args)


def test_erased_text_is_shown_and_not_in_the_answer():
    free = simple(STORY, "go")
    assert free.returncode == 0, free.stderr
    assert free.stdout.splitlines()[0] in (" a testament to hope.", " a sign of hope.")
    for banned, left in (("TESTAMENT to", " a sign of hope."), ("sign of", " a testament to hope.")):
        ruled = simple(STORY, "go", banned).stdout.splitlines()[0]
        assert re.sub(r"\[-.*?-\]", "", ruled) == left, ruled


def test_a_missing_model_is_named():
    done = simple("nothing.gguf", "a")
    assert done.returncode == 1 and "nothing.gguf" in done.stderr
    assert simple().returncode == 2


def test_texts_end_in_the_suffix():
    done = run("backward", TALE, "-", " house", 4)
    assert done.returncode == 0, done.stderr
    samples = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(samples) == 4
    for line in samples:
        assert re.match(r"\[\d\] .* house   \(log f -", line), line
    assert run("backward", TALE, "-", "", 1).returncode == 1
    assert run("backward").returncode == 2


def talk(lines, *args):
    given = "".join(line + "\n" for line in lines)
    return subprocess.run(
        [BUILD / "examples" / "chat", *map(str, args)], input=given, capture_output=True, text=True, timeout=60
    )


def test_a_conversation_evaluates_what_is_new(tmp_path):
    table = json.loads(STORY.read_text())
    del table["chat_template"]  # it writes a history in another way than it asked for it
    (tmp_path / "plain.json").write_text(json.dumps(table))
    done = talk(["go", "go", "go"], tmp_path / "plain.json", "testament to")
    assert done.returncode == 0, done.stderr
    answers, notes = done.stdout.splitlines()[::2], done.stdout.splitlines()[1::2]
    assert answers == [" a sign of hope."] * 3
    # the prompt grows by the answer of five tokens and the next question of one
    assert notes == [f"(end; 1 of {n} tokens of the prompt were new)" for n in (1, 7, 13)]


def test_a_conversation_that_cannot_go_on_says_why():
    done = talk(["go", "\u00e9"], STORY)
    assert done.returncode == 1 and done.stderr.startswith("chat: no token of the table fits")
    assert talk([]).returncode == 2
    assert talk(["go"], "nothing.gguf").returncode == 1
