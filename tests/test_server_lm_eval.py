"""lm-eval through /v1/completions, on the real model: loglikelihood and generate_until.

Needs tests/requirements-lm-eval.txt. The tokens are the server's own: a task is scored as lm-eval
scores it elsewhere, and must come out as `retrace score` has it.
"""

import json
import os
import subprocess
import sys

import conftest
import pytest
from serving import serving

ITEMS = [
    ("The capital of France is", " Paris", " Berlin"),
    ("Water freezes at zero degrees", " Celsius", " bananas"),
    ("The sun rises in the", " east", " fridge"),
    ("Two plus two is", " four", " purple"),
    ("A dog is an", " animal", " economy"),
    ("The opposite of hot is", " cold", " triangle"),
    ("She opened the door with a", " key", " cloud"),
    ("We breathe", " air", " iron"),
    ("The first month of the year is", " January", " Tuesday"),
    ("Birds can", " fly", " photosynthesize"),
]

CHOICE = """
task: retrace_choice
dataset_path: json
dataset_kwargs:
  data_files:
    test: %(folder)s/choice.jsonl
output_type: multiple_choice
test_split: test
doc_to_text: "{{q}}"
doc_to_choice: "{{choices}}"
doc_to_target: 0
target_delimiter: ""
metric_list:
  - metric: acc
"""
WRITE = """
task: retrace_write
dataset_path: json
dataset_kwargs:
  data_files:
    test: %(folder)s/choice.jsonl
output_type: generate_until
test_split: test
doc_to_text: "{{q}}"
doc_to_target: "{{choices[0]}}"
generation_kwargs:
  until: [".", "\\n"]
  max_gen_toks: 8
  temperature: 0
metric_list:
  - metric: exact_match
"""

RUN = """
import json, sys
import lm_eval
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
folder, url = sys.argv[1:]
results = simple_evaluate(
    model="local-completions",
    model_args=dict(
        model="here", base_url=url + "/v1/completions", tokenizer_backend="remote",
        num_concurrent=4, max_retries=1, max_length=1024,
    ),
    tasks=["retrace_choice", "retrace_write"],
    task_manager=TaskManager(include_path=folder, include_defaults=False),
    log_samples=True, bootstrap_iters=0,
)
out = {k: results[k] for k in ("results", "samples")}
print("RESULT " + json.dumps(out, default=str))
"""


def evaluate(folder, url):
    with open(folder / "choice.jsonl", "w") as f:
        for q, right, wrong in ITEMS:
            f.write(json.dumps({"q": q, "choices": [right, wrong]}) + "\n")
    (folder / "choice.yaml").write_text(CHOICE % {"folder": folder})
    (folder / "write.yaml").write_text(WRITE % {"folder": folder})
    (folder / "run.py").write_text(RUN)
    env = dict(os.environ, HF_HOME=str(folder / "hf"), HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    done = subprocess.run(
        [sys.executable, folder / "run.py", folder, url],
        env=env, cwd=folder, capture_output=True, text=True, timeout=1500,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    (line,) = [x for x in done.stdout.splitlines() if x.startswith("RESULT ")]
    return json.loads(line[7:])


def scored(retrace, prompt, text):
    """What `retrace score` says of text behind prompt."""
    done = retrace("score", "-m", conftest.MODEL, "--json", "-p", prompt + text)
    assert done.code == 0, done
    tokens = done.json["tokens"]
    left, total = len(text), 0.0
    while left > 0:
        token = tokens.pop()
        total += token["logprob"]
        left -= len(token["text"])
    assert left == 0, "the text begins within a token"
    return total


@pytest.mark.long
@pytest.mark.model
def test_twenty_items(retrace, tmp_path):
    with serving(tmp_path, conftest.MODEL, "-c", "1024") as s:
        got = evaluate(tmp_path, s.url)
        samples = {x["doc_id"]: x for x in got["samples"]["retrace_choice"]}
        assert len(samples) == len(ITEMS)
        for i, (q, right, wrong) in enumerate(ITEMS):
            for text, told in zip((right, wrong), samples[i]["filtered_resps"]):
                want = scored(retrace, q, text)
                assert float(told[0]) == pytest.approx(want, abs=0.05 + 0.01 * abs(want)), (q, text)
        written = got["samples"]["retrace_write"]
        assert len(written) == len(ITEMS)
        for sample in written:
            text = sample["resps"][0][0]
            want = s.complete(
                sample["doc"]["q"], temperature=0, max_tokens=8, stop=[".", "\n"], seed=1234
            )
            assert text == want["choices"][0]["text"]
    # A model of this size knows most of them.
    assert float(got["results"]["retrace_choice"]["acc,none"]) >= 0.7
