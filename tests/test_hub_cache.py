"""`retrace pull` and its cache on the disk: killed at any moment, two at once, a lock held elsewhere, a full disk, a
disk that cannot be written, and a cache in which others have been.
"""
import fcntl
import os
import random
import resource
import shutil
import signal
import subprocess
import threading
import time

import pytest

from conftest import PROGRAM, environment
from hub import cut, drip, pause, sha256, status
from pulling import DATA, NAME, REPO, Pulls, fails, hub, hub_of, pulls  # two of them are fixtures

# Large enough to be written in many pieces.
LARGE = b"GGUF" + bytes(random.Random(5).randbytes(3_000_001))


@pytest.fixture
def large(retrace):
    with hub_of({NAME: LARGE}) as hub:
        yield Pulls(retrace, hub)


def wait_until(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def lock_of(pulls, data=DATA):
    folder = pulls.cache / ".locks" / ("models--" + REPO.replace("/", "--"))
    return folder / (sha256(data) + ".lock")


# ==== Killed ====


@pytest.mark.parametrize("at", [0, 1, 4, 100, len(DATA) - 1])
def test_killed_while_bytes_come(pulls, hub, at):
    go = threading.Event()
    hub.fault("cdn", pause(go, at))
    p = pulls.start(REPO, "-q", stdout=subprocess.PIPE)
    wait_until(lambda: hub.of("cdn") and pulls.part().exists() and pulls.part().stat().st_size == at)
    p.kill()
    p.communicate()
    go.set()
    assert not pulls.names()
    hub.forget()
    done = pulls("-q")
    assert done.code == 0 and pulls.is_whole(), done
    assert [r.headers.get("range") for r in hub.of("cdn")] == ["bytes=%d-" % at if at else None]


def test_killed_at_any_moment(large):
    """Twelve times, and each time it goes on; then the file is right, and nothing is left beside it."""
    chance = random.Random(11)
    for _ in range(12):
        large.hub.fault("cdn", drip(100_000, 0.01))
        p = large.start(REPO, "-q", stdout=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, 0.7))
        p.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        p.wait(20)
        for blob in large.names():
            assert blob.read_bytes() == LARGE or blob.name == NAME and blob.resolve().read_bytes() == LARGE
    large.hub.forget()
    assert large("-q").code == 0 and large.is_whole()
    left = [f for f in large.cache.rglob("*") if f.is_file() and not f.is_symlink() and ".locks" not in str(f)]
    assert {f.name for f in left} <= {sha256(LARGE), "main", "CACHEDIR.TAG"}


MUTATING = "write,rename,symlink,symlinkat,mkdir,fsync,unlink,ftruncate,flock"


def traced(pulls, inject, *args):
    """pull under strace, which lets a system call fail or kills the program there."""
    if not shutil.which("strace"):
        pytest.skip("there is no strace")
    log = pulls.retrace.tmp / "strace.log"
    env = environment(pulls.retrace.tmp, dict(pulls.env, ASAN_OPTIONS="detect_leaks=0"))
    command = ["strace", "-f", "-qq", "-o", log, "-e", "trace=" + MUTATING, "-e", "inject=" + inject]
    done = subprocess.run([*command, PROGRAM, "pull", REPO, "-q", *args], env=env, capture_output=True, timeout=60)
    if b"ptrace" in done.stderr.lower():
        pytest.skip("strace may not be used here")
    return done


@pytest.mark.long
def test_killed_at_every_call_that_changes_the_disk(pulls, hub):
    points = 0
    while points < 200:
        shutil.rmtree(pulls.home, ignore_errors=True)
        done = traced(pulls, "%s:signal=SIGKILL:when=%d" % (MUTATING, points + 1))
        for name in pulls.names():
            assert name.name not in (sha256(DATA), NAME) or name.read_bytes() == DATA
        if (pulls.folder() / "refs" / "main").exists():
            assert pulls.snapshot().read_bytes() == DATA, "a ref without its files"
        if done.returncode == 0:
            break
        points += 1
        again = pulls("-q")
        assert again.code == 0 and pulls.is_whole(), (points, again)
    assert 10 < points < 200


def test_where_there_are_no_links_the_file_itself_is_there(pulls, hub):
    done = traced(pulls, "symlink,symlinkat:error=EPERM")
    assert done.returncode == 0 and done.stdout.decode() == str(pulls.snapshot()) + "\n", done
    assert not pulls.snapshot().is_symlink() and pulls.snapshot().read_bytes() == DATA
    hub.forget()
    for flags in ([], ["--offline"]):
        again = pulls("-q", *flags)
        assert again.code == 0 and again.out == str(pulls.snapshot()) + "\n", again
    assert not hub.of("cdn") and pulls.snapshot().read_bytes() == DATA
    models = pulls.run("models", "--json").json["models"]
    assert [m["complete"] for m in models] == [True]


def test_ctrl_c_keeps_what_is_there(large):
    go = threading.Event()
    large.hub.fault("cdn", pause(go, 1_000_000))
    p = large.start(REPO, "-q", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    part = large.part(LARGE)
    wait_until(lambda: part.exists() and part.stat().st_size == 1_000_000)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=20)
    go.set()
    assert p.returncode == 130 and out == b"" and len(err.splitlines()) <= 3
    assert part.read_bytes() == LARGE[:1_000_000] and not large.names()
    large.hub.forget()
    assert large("-q").code == 0 and large.is_whole()
    assert large.hub.of("cdn")[0].headers["range"] == "bytes=1000000-"


# ==== Two at once ====


def test_two_pulls_at_once_fetch_once(large):
    go = threading.Event()
    large.hub.fault("cdn", pause(go, 1000))
    first = large.start(REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: large.hub.of("cdn"))
    second = large.start(REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    seen = b""
    while b"wait" not in seen:
        more = os.read(second.stderr.fileno(), 4096)
        assert more, seen
        seen += more
    assert NAME.encode() in seen
    go.set()
    for p in (first, second):
        out, _ = p.communicate(timeout=30)
        assert p.returncode == 0 and out.decode() == str(large.snapshot()) + "\n"
    assert len(large.hub.of("cdn")) == 1
    assert large.is_whole()


def test_many_pulls_at_once(large):
    running = [large.start(REPO, "-q", stdout=subprocess.PIPE) for _ in range(6)]
    for p in running:
        out, _ = p.communicate(timeout=60)
        assert p.returncode == 0 and out.decode() == str(large.snapshot()) + "\n"
    assert len(large.hub.of("cdn")) == 1 and large.is_whole()


def test_the_first_is_killed_and_the_second_takes_over(large):
    go = threading.Event()
    large.hub.fault("cdn", pause(go, 1_000_000))
    first = large.start(REPO, "-q", stdout=subprocess.DEVNULL)
    part = large.part(LARGE)
    wait_until(lambda: part.exists() and part.stat().st_size == 1_000_000)
    second = large.start(REPO, "-q", stdout=subprocess.PIPE)
    time.sleep(0.5)
    first.kill()
    first.wait()
    out, _ = second.communicate(timeout=30)
    go.set()
    assert second.returncode == 0 and large.is_whole()
    assert large.hub.of("cdn")[1].headers["range"] == "bytes=1000000-"


def test_a_lock_held_elsewhere_is_waited_for(pulls, hub):
    """As huggingface_hub holds it."""
    lock = lock_of(pulls)
    lock.parent.mkdir(parents=True)
    with open(lock, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        p = pulls.start(REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        seen = b""
        while b"wait" not in seen:
            more = os.read(p.stderr.fileno(), 4096)
            assert more, seen
            seen += more
        assert not hub.of("cdn") and p.poll() is None
        # The other one has fetched it meanwhile.
        pulls.blob().parent.mkdir(parents=True, exist_ok=True)
        pulls.blob().write_bytes(DATA)
    out, _ = p.communicate(timeout=20)
    assert p.returncode == 0 and out.decode() == str(pulls.snapshot()) + "\n"
    assert not hub.of("cdn") and pulls.is_whole()


def test_it_holds_that_lock_itself(large):
    go = threading.Event()
    large.hub.fault("cdn", pause(go, 1000))
    p = large.start(REPO, "-q", stdout=subprocess.DEVNULL)
    wait_until(lambda: large.hub.of("cdn"))
    with open(lock_of(large, LARGE), "a") as f:
        with pytest.raises(BlockingIOError):
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        go.set()
        assert p.wait(20) == 0
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_ctrl_c_while_it_waits(pulls, hub):
    lock = lock_of(pulls)
    lock.parent.mkdir(parents=True)
    with open(lock, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        p = pulls.start(REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.read(p.stderr.fileno(), 4096)
        p.send_signal(signal.SIGINT)
        out, _ = p.communicate(timeout=10)
        assert p.returncode == 130 and out == b""


# ==== Disks ====


def test_a_file_that_may_not_grow(large):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    env = environment(large.retrace.tmp, large.env)
    done = subprocess.run([PROGRAM, "pull", REPO, "-q"], env=env, preexec_fn=limited, capture_output=True, timeout=60)
    assert done.returncode == 4 and done.stdout == b"" and 1 <= len(done.stderr.splitlines()) <= 3, done
    assert b"File too large" in done.stderr
    assert not large.names()
    part = large.part(LARGE)
    assert part.read_bytes() == LARGE[:1_000_000]
    large.hub.forget()
    assert large("-q").code == 0 and large.is_whole()
    assert large.hub.of("cdn")[0].headers["range"] == "bytes=1000000-"


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 2 MiB; only root may have it."""
    where = tmp_path / "disk"
    where.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", where], capture_output=True)
    if done.returncode:
        pytest.skip("no disk can be mounted here")
    yield where
    subprocess.run(["umount", "-l", where], check=True)


def test_a_full_disk(large, small_disk):
    env = {"HF_HUB_CACHE": str(small_disk)}
    said = fails(large("-q", env=env), "room", NAME)
    assert "MB" in said or "MiB" in said
    assert not [p for p in small_disk.rglob("*") if p.is_symlink()]


def test_a_disk_that_fills_up_meanwhile(large, small_disk):
    large.hub.repos[REPO]["main"][NAME] = data = LARGE[:1_500_000]
    env = {"HF_HUB_CACHE": str(small_disk)}
    go = threading.Event()
    large.hub.fault("cdn", pause(go, 500_000))
    p = large.start(REPO, "-q", env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: any(f.stat().st_size == 500_000 for f in small_disk.rglob("*.incomplete")))
    filler = small_disk / "filler"
    try:
        filler.write_bytes(b"x" * 2_000_000)
    except OSError:
        pass
    go.set()
    out, err = p.communicate(timeout=30)
    assert p.returncode == 4 and out == b"" and b"No space left" in err and len(err.splitlines()) <= 3, err
    part = next(small_disk.rglob("*.incomplete"))
    size = part.stat().st_size
    assert 500_000 <= size < len(data) and part.read_bytes() == data[:size], "what is there stays"
    filler.unlink()
    large.hub.forget()
    done = large("-q", env=env)
    assert done.code == 0, done
    assert large.hub.of("cdn")[0].headers["range"] == "bytes=%d-" % size
    with open(done.out.strip(), "rb") as f:
        assert f.read() == data


def test_a_disk_that_cannot_be_written(large, small_disk):
    large.hub.repos[REPO]["main"][NAME] = LARGE[:1000]
    env = {"HF_HUB_CACHE": str(small_disk)}
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    fails(large("-q", env=env), "read-only", str(small_disk))
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    first = large("-q", env=env)
    assert first.code == 0, first
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = large("-q", "--offline", env=env)
    assert done.code == 0 and done.out == first.out, "to read it nothing is written"
    assert large.run("models", "--json", env=env).code == 0


@pytest.mark.parametrize("where", ["cache", "folder", "blobs", "snapshots", "refs", "locks"])
def test_a_file_where_a_folder_is_meant_to_be(pulls, where):
    path = {"cache": pulls.cache, "folder": pulls.folder(), "blobs": pulls.folder() / "blobs",
            "snapshots": pulls.folder() / "snapshots", "refs": pulls.folder() / "refs",
            "locks": pulls.cache / ".locks"}[where]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a file")
    fails(pulls("-q"), str(path))
    assert path.read_text() == "a file"


# ==== What others left ====


def test_a_damaged_blob_is_noticed(pulls, hub):
    assert pulls("-q").code == 0
    pulls.blob().write_bytes(DATA[:-1] + b"\0")
    hub.forget()
    done = pulls("--json")
    assert done.code == 0 and pulls.is_whole(), done
    assert done.json["files"][0]["downloaded"] is True


@pytest.mark.parametrize("size", [0, 1, len(DATA) - 1, len(DATA) + 1])
def test_a_blob_of_another_size(pulls, hub, size):
    pulls.blob().parent.mkdir(parents=True)
    pulls.blob().write_bytes((DATA + b"x")[:size])
    done = pulls("-q")
    assert done.code == 0 and pulls.is_whole(), done


@pytest.mark.parametrize("size", [len(DATA), len(DATA) + 1, 10 * len(DATA)])
def test_a_part_that_is_longer_than_the_file(pulls, hub, size):
    pulls.part().parent.mkdir(parents=True)
    pulls.part().write_bytes(b"x" * size)
    done = pulls("-q")
    assert done.code == 0 and pulls.is_whole(), done


def test_a_part_that_is_the_whole_file(pulls, hub):
    pulls.part().parent.mkdir(parents=True)
    pulls.part().write_bytes(DATA)
    done = pulls("-q")
    assert done.code == 0 and pulls.is_whole() and not hub.of("cdn"), done


@pytest.mark.parametrize("kind", ["link", "broken link", "fifo", "folder", "hard link"])
def test_a_part_that_is_something_else_is_not_written_to(pulls, kind):
    outside = pulls.retrace.tmp / "outside"
    outside.write_text("precious")
    part = pulls.part()
    part.parent.mkdir(parents=True)
    if kind == "link":
        os.symlink(outside, part)
    elif kind == "broken link":
        os.symlink(pulls.retrace.tmp / "made", part)
    elif kind == "fifo":
        os.mkfifo(part)
    elif kind == "folder":
        part.mkdir()
    else:
        os.link(outside, part)
    done = pulls("-q", timeout=20)
    assert done.code in (0, 4), done
    assert outside.read_text() == "precious"
    assert not (pulls.retrace.tmp / "made").exists()
    if done.code == 4:
        assert done.out == "" and str(part) in done.err


@pytest.mark.parametrize("target", ["../../blobs/absent", "../../../../outside", "/etc/passwd", "tiny-Q8_0.gguf"])
def test_a_link_that_leads_elsewhere_is_put_right(pulls, target):
    link = pulls.snapshot()
    link.parent.mkdir(parents=True)
    os.symlink(target, link)
    done = pulls("-q")
    assert done.code == 0 and pulls.is_whole(), done


def test_a_file_in_place_of_a_link_that_is_right_is_taken(pulls, hub):
    """Where there are no links, the hub's programs move the file there."""
    pulls.snapshot().parent.mkdir(parents=True)
    pulls.snapshot().write_bytes(DATA)
    done = pulls("-q")
    assert done.code == 0 and pulls.snapshot().read_bytes() == DATA, done


@pytest.mark.parametrize("text", ["", "x", "../../../etc", "0" * 40, "0" * 40 + "\nmore", "\0" * 40])
def test_a_ref_that_is_none(pulls, hub, text):
    assert pulls("-q").code == 0
    (pulls.folder() / "refs" / "main").write_text(text)
    done = pulls("-q", "--offline")
    assert done.code in (0, 4), done
    assert "etc" not in done.out
    done = pulls("-q")
    assert done.code == 0 and (pulls.folder() / "refs" / "main").read_text() == hub.commit(REPO)


def test_the_cache_is_no_folder_of_the_current_one(pulls):
    """A relative cache is below the folder that the program runs in."""
    done = pulls("-q", "--hf-cache", "here")
    assert done.code == 0, done
    assert (pulls.retrace.tmp / done.out.strip()).read_bytes() == DATA


def test_a_pull_that_failed_leaves_no_ref_of_the_new_commit(pulls, hub):
    assert pulls("-q").code == 0
    old = hub.commit(REPO)
    hub.repos[REPO]["main"][NAME] = DATA + b"newer"
    hub.fault("cdn", status(404), times=9)
    fails(pulls("-q"))
    assert (pulls.folder() / "refs" / "main").read_text() == old
    done = pulls("-q", "--offline")
    assert done.code == 0 and old in done.out, done
