"""`retrace convert`: types, what comes out, what is refused, and that nothing is left behind.

RETRACE_TINY is the folder of the models that tests/tiny_gguf.py writes; the test marked `model` uses the
real one.
"""

import os
import resource
import shutil
import signal
import subprocess
import time

import gguf
import pytest
from gguf.quants import dequantize

import conftest
import tiny_gguf

TINY = os.environ.get("RETRACE_TINY", "")
WANTED = (
    "f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k_s q3_k_m q3_k_l q4_k_s q4_k_m q5_k_s q5_k_m q6_k".split()
)

pytestmark = pytest.mark.skipif(not TINY, reason="RETRACE_TINY is not set")


def model(name):
    return os.path.join(TINY, name + ".gguf")


def refused(done, code, *words):
    assert done.code == code and not done.out, done
    assert done.err.startswith("retrace: ") and 1 <= done.err.count("\n") <= 3
    for word in words:
        assert word in done.err, done.err


def tensors(path):
    return {t.name: t for t in gguf.GGUFReader(path).tensors}


def values(t):
    return dequantize(t.data, t.tensor_type).astype("float64").ravel()


def logps(retrace, path, *flags):
    done = retrace("score", "-m", path, "-p", "the inning and the end", "--json", *flags)
    assert done.code == 0, done
    return [t["logprob"] for t in done.json["tokens"] if t["logprob"] is not None]


def alone(folder, *names):
    """Nothing but these: no temporary file."""
    assert sorted(p.name for p in folder.iterdir() if p.is_file()) == sorted(names)


def test_list(retrace):
    done = retrace("convert", "--type", "list")
    names = done.out.split()
    assert done.code == 0 and done.err == "" and names[: len(WANTED)] == WANTED
    assert not {"iq1_s", "iq2_xs", "q2_k_s"} & set(names)


def test_round_trip(retrace):
    done = retrace("convert", model("dense"), "q.gguf", "--type", "q8_0")
    assert done.code == 0 and not done.out and "q.gguf: q8_0" in done.err
    done = retrace("convert", "q.gguf", "back.gguf", "--type", "F32", "--threads", 1, "--json")
    assert done.code == 0 and "q8_0 already" in done.err, done
    assert done.json == {
        "input": "q.gguf",
        "output": "back.gguf",
        "type": "F32",
        "size_bytes": (retrace.tmp / "back.gguf").stat().st_size,
        "seconds": done.json["seconds"],
    }
    alone(retrace.tmp, "q.gguf", "back.gguf")
    first, last = tensors(model("dense")), tensors(retrace.tmp / "back.gguf")
    assert first.keys() == last.keys()
    for name, t in first.items():
        a, b = values(t), values(last[name])
        assert last[name].tensor_type == gguf.GGMLQuantizationType.F32
        assert abs(a - b).max() <= abs(a).max() / 200, name
    # What is written back in 32 bits is what the eight bits said: the same answers.
    q, back, plain = (logps(retrace, p) for p in ("q.gguf", "back.gguf", model("dense")))
    assert len(q) > 4 and max(abs(x - y) for x, y in zip(q, back)) < 0.1
    assert max(abs(x - y) for x, y in zip(back, plain)) < 0.5


def test_every_type(retrace, monkeypatch):
    """On rows of 256, which all types fit."""
    monkeypatch.setattr(tiny_gguf, "EMBD", 256)
    monkeypatch.setattr(tiny_gguf, "HEAD", 64)
    monkeypatch.setattr(tiny_gguf, "FF", 256)
    tiny_gguf.llama_like(retrace.tmp, "wide.gguf", "llama", True)
    sizes = {}
    for name in retrace("convert", "--type", "list").out.split():
        done = retrace("convert", "wide.gguf", "o.gguf", "--type", name, "--force", "-q")
        assert done.code == 0 and not done.err, (name, done)
        sizes[name] = (retrace.tmp / "o.gguf").stat().st_size
        assert retrace("info", "-m", "o.gguf").code == 0
    assert sizes["f32"] > sizes["f16"] > sizes["q8_0"] > sizes["q5_1"] > sizes["q4_0"] > sizes["q2_k"]
    alone(retrace.tmp, "wide.gguf", "o.gguf")


def test_pure(retrace):
    kinds = {}
    for flags in ([], ["--pure"]):
        done = retrace("convert", model("dense"), "o.gguf", "--type", "q4_0", "--force", *flags)
        assert done.code == 0
        found = tensors(retrace.tmp / "o.gguf").values()
        kinds[bool(flags)] = {t.tensor_type.name for t in found if len(t.shape) > 1}
    assert kinds[True] == {"Q4_0"} and len(kinds[False]) > 1


def test_usage(retrace):
    refused(retrace("convert"), 2, "IN.gguf is missing")
    refused(retrace("convert", "a.gguf"), 2, "OUT.gguf is missing")
    refused(retrace("convert", "a", "b", "c", "--type", "f32"), 2, "'c'")
    refused(retrace("convert", model("dense"), "o.gguf"), 2, "--type is missing")
    refused(retrace("convert", model("dense"), "o.gguf", "--type", "q9"), 2, "'q9'")
    refused(retrace("convert", model("dense"), "o.gguf", "--type", "iq1_s"), 2, "importance matrix")
    alone(retrace.tmp)


def test_bad_input(retrace):
    refused(retrace("convert", "none.gguf", "o.gguf", "--type", "f32"), 4, "none.gguf")
    refused(retrace("convert", ".", "o.gguf", "--type", "f32"), 4, "directory")
    refused(retrace("convert", model("truncated"), "o.gguf", "--type", "f32"), 3, "truncated")
    (retrace.tmp / "text.gguf").write_text("no model")
    refused(retrace("convert", "text.gguf", "o.gguf", "--type", "f32"), 3, "not a GGUF file")
    alone(retrace.tmp, "text.gguf")


def test_what_is_there_stays(retrace):
    (retrace.tmp / "o.gguf").write_text("mine")
    refused(retrace("convert", model("dense"), "o.gguf", "--type", "q8_0"), 2, "--force")
    assert (retrace.tmp / "o.gguf").read_text() == "mine"
    refused(retrace("convert", model("truncated"), "o.gguf", "--type", "q8_0", "--force"), 3)
    assert (retrace.tmp / "o.gguf").read_text() == "mine"
    assert retrace("convert", model("dense"), "o.gguf", "--type", "q8_0", "--force").code == 0
    assert retrace("info", "-m", "o.gguf").code == 0
    alone(retrace.tmp, "o.gguf")


def test_bad_output(retrace):
    refused(retrace("convert", model("dense"), "no/o.gguf", "--type", "f32"), 4, "no/o.gguf")
    refused(retrace("convert", model("dense"), "/dev/null", "--type", "f32", "--force"), 4, "plain file")
    refused(retrace("convert", model("dense"), ".", "--type", "f32", "--force"), 4, "folder")


@pytest.mark.parametrize("target", ["m.gguf", "nowhere", "/proc/self/fd/1"])
def test_a_link_is_not_replaced(retrace, target):
    """/dev/stdout is one, and a snapshot of the cache."""
    shutil.copy(model("dense"), retrace.tmp / "m.gguf")
    (retrace.tmp / "link.gguf").symlink_to(target)
    with open(retrace.tmp / "out", "wb") as out:
        p = retrace.start("convert", "m.gguf", "link.gguf", "--type", "q8_0", "--force", stdout=out, stderr=subprocess.PIPE)
        err = p.communicate()[1]
    assert p.returncode == 4 and b"'link.gguf' is a link; name the file that it leads to" in err, err
    assert os.readlink(retrace.tmp / "link.gguf") == target
    assert (retrace.tmp / "m.gguf").stat().st_size == os.stat(model("dense")).st_size
    assert not (retrace.tmp / "out").stat().st_size


def test_onto_a_hard_link(retrace):
    """Only the one name is the new file's."""
    shutil.copy(model("dense"), retrace.tmp / "m.gguf")
    os.link(retrace.tmp / "m.gguf", retrace.tmp / "other.gguf")
    assert retrace("convert", "m.gguf", "other.gguf", "--type", "q8_0", "--force").code == 0
    assert (retrace.tmp / "m.gguf").read_bytes() == open(model("dense"), "rb").read()
    alone(retrace.tmp, "m.gguf", "other.gguf")


def split(folder):
    """dense.gguf in three files."""
    r = gguf.GGUFReader(model("dense"))
    w = gguf.GGUFWriter(folder / "s.gguf", r.fields["general.architecture"].contents(), split_max_tensors=10)
    for key, f in r.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            inner = f.types[-1] if f.types[0] == gguf.GGUFValueType.ARRAY else None
            w.add_key_value(key, f.contents(), f.types[0], inner)
    for t in r.tensors:
        w.add_tensor(t.name, t.data.copy(), raw_dtype=t.tensor_type)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return ["s-%05d-of-00003.gguf" % i for i in (1, 2, 3)]


def test_a_split_model(retrace):
    first = split(retrace.tmp)[0]
    assert retrace("convert", first, "o.gguf", "--type", "f32").code == 0
    assert logps(retrace, "o.gguf") == logps(retrace, first) == logps(retrace, model("dense"))


@pytest.mark.parametrize("kind", ["none", "fifo", "folder", "cut", "text"])
def test_a_split_model_with_a_bad_part(retrace, kind):
    first, second, _ = split(retrace.tmp)
    path = retrace.tmp / second
    data = path.read_bytes()
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind != "none":
        path.write_bytes(data[: len(data) // 2] if kind == "cut" else b"text" * 99)
    code = 3 if kind in ("cut", "text") else 4
    refused(retrace("convert", first, "o.gguf", "--type", "f32", timeout=20), code, second)
    refused(retrace("info", "-m", first, timeout=20), code, second)


def test_onto_itself(retrace):
    shutil.copy(model("dense"), retrace.tmp / "m.gguf")
    refused(retrace("convert", "m.gguf", "m.gguf", "--type", "q8_0"), 2, "--force")
    assert retrace("convert", "m.gguf", "m.gguf", "--type", "q8_0", "--force").code == 0
    assert logps(retrace, "m.gguf")
    alone(retrace.tmp, "m.gguf")


@pytest.mark.parametrize("limit", [1, 5000, 20000, 100000, 160000])
def test_full_disk(retrace, limit):
    """A file that may not grow, wherever in it: told, and nothing is left."""

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [conftest.PROGRAM, "convert", model("dense"), "o.gguf", "--type", "q8_0"],
        capture_output=True,
        cwd=retrace.tmp,
        env=conftest.environment(retrace.tmp, {}),
        preexec_fn=limited,
    )
    assert done.returncode == 4 and not done.stdout, done
    assert b"cannot write 'o.gguf': File too large" in done.stderr
    alone(retrace.tmp)


@pytest.mark.model
def test_the_real_model_loses_nothing(retrace):
    done = retrace("convert", conftest.MODEL, "f32.gguf", "--type", "f32", "--json")
    assert done.code == 0 and "q4_1 already" in done.err, done
    # The same weights in floats, expanded as the file is opened: what the file says, exactly. Work on the
    # rounded weights themselves rounds its other operand too, which moves the answers a little.
    expanded, own = logps(retrace, conftest.MODEL, "--weights", "f32"), logps(retrace, conftest.MODEL)
    written = logps(retrace, "f32.gguf")
    assert len(own) > 4 and max(abs(x - y) for x, y in zip(expanded, written)) < 1e-4
    assert max(abs(x - y) for x, y in zip(own, written)) < 0.5


@pytest.mark.model
def test_interrupted(retrace):
    """Ctrl-C: exit 130 and no file, at whatever moment."""
    for wait in (0.05, 0.15, 0.3):
        run = ["convert", conftest.MODEL, "o.gguf", "--type", "q4_k_m"]
        p = retrace.start(*run, stderr=subprocess.PIPE)
        while p.poll() is None and not list(retrace.tmp.glob("*.part")):
            time.sleep(0.01)
        time.sleep(wait)
        p.send_signal(signal.SIGINT)
        p.communicate()
        assert p.returncode == 130, p.returncode
        alone(retrace.tmp)
