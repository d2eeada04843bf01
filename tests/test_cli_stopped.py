"""Runs that something outside ended: Ctrl-C, a model that fails, a full disk, a missing stream."""
import json
import os
import resource
import signal
import subprocess

import pytest

from conftest import DATA
from test_cli import GREEDY, STORY, refused
from test_cli_trace import apply, record, rewrite

ENDLESS = ["-m", DATA / "cli_endless.json", "-p", "a", "-n", "100000000", "-s", "1"]


def interrupt(retrace, *args):
    """A run with a trace, interrupted when some operations have been written."""
    fifo, name = retrace.tmp / "fifo", retrace.tmp / "t.jsonl"
    os.mkfifo(fifo)
    done = retrace.start(
        "generate", *ENDLESS, *args, "-q", "--trace", fifo, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with open(fifo, "rb") as pipe, open(name, "wb") as out:
        for _ in range(20):
            out.write(pipe.readline())
        done.send_signal(signal.SIGINT)
        out.write(pipe.read())
    out, err = done.communicate(timeout=60)
    assert done.returncode == 130, err
    return out, [json.loads(line) for line in name.read_text().splitlines()]


# ==== Replay of them ====


@pytest.mark.parametrize(
    "args",
    [
        ["--json"],
        ["--hold", "all"],
        ["--hold", "all", "--ban", "abba"],
        ["--ban", "abba"],
        ["--ban", "ab" * 200],
        ["--ban", "ab" * 200, "--json"],
        ["--stop", "ab" * 200],
    ],
)
def test_replay_of_an_interrupted_run(retrace, args):
    _, ops = interrupt(retrace, *args)
    assert ops[-1]["finish"] == "cancelled"
    done = retrace("replay", "t.jsonl")
    assert done.code == 0 and done.out.startswith("ok: %d operations" % (len(ops) - 1)), done


def test_what_an_interrupt_does_is_compared(retrace):
    _, ops = interrupt(retrace, "--json")
    assert ops[-2]["op"] == "settle"
    ops[-2]["to"] -= 1
    rewrite(retrace, ops)
    refused(retrace("replay", "t.jsonl"), 1, "t.jsonl:%d: to was" % (len(ops) - 1))
    ops[-2]["to"] += 1
    ops[-1]["text"] += "a"
    rewrite(retrace, ops)
    refused(retrace("replay", "t.jsonl"), 1, "t.jsonl:%d: text was" % len(ops))



@pytest.mark.parametrize("args", [[], ["--hold", "all"], ["--ban", "aab"]])
def test_replay_of_a_run_that_broke_off(retrace, args):
    """The model has no answer after some tokens; what had settled is the text of the trace."""
    _, ops = record(retrace, "-m", DATA / "cli_endless.json", "-p", "a", "-n", "20", *args)
    kept = ops[: next(i for i in range(10, len(ops)) if ops[i]["op"] == "push")]
    text = apply(kept)[1].decode()
    end = {"seq": len(kept), "op": "done", "finish": "error", "text": text, "error": "no answer"}
    rewrite(retrace, kept + [end])
    done = retrace("replay", "t.jsonl")
    assert done.code == 0 and done.out.startswith("ok: %d operations" % len(kept)), done
    end["text"] += "a"
    rewrite(retrace, kept + [end])
    refused(retrace("replay", "t.jsonl"), 1, "t.jsonl:%d: text was" % (len(kept) + 1))


# ==== A trace that cannot grow ====


def full_disk(retrace, *args):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
    done = retrace.start(
        "generate", *ENDLESS, "-n", "100", "-q", "--json", "--trace", "t.jsonl", *args,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit,
    )
    out, err = done.communicate(timeout=60)
    assert done.returncode == 4 and err.count(b"\n") == 1 and b"'t.jsonl'" in err
    return out


def test_full_disk_before_text_has_settled(retrace):
    assert full_disk(retrace) == b""


def test_full_disk_after_text_has_settled(retrace):
    told = json.loads(full_disk(retrace, "--hold", "minimal"))
    assert told["finish"] == "error" and "'t.jsonl'" in told["error"]
    assert told["text"] and len(told["text"]) == len(told["tokens"]) == told["stats"]["kept"] < 100


# ==== Missing streams ====


def without(retrace, *fds):
    close = lambda: [os.close(fd) for fd in fds]
    done = retrace.start(
        "generate", *GREEDY, "-p", "go", "--trace", "t.jsonl",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=close,
    )
    out, err = done.communicate(timeout=60)
    return done.returncode, out, err, (retrace.tmp / "t.jsonl").read_text().splitlines()


def test_no_standard_output(retrace):
    for fds in ([1], [0, 1]):
        code, _, err, lines = without(retrace, *fds)
        assert code == 4 and b"standard output" in err
        assert all("op" in json.loads(line) for line in lines)


def test_no_standard_error(retrace):
    for fds in ([2], [0, 2], [0]):
        code, out, _, lines = without(retrace, *fds)
        assert (code, out) == (0, b" a testament to hope.")
        assert json.loads(lines[-1])["op"] == "done"
        assert retrace("replay", "t.jsonl").code == 0
