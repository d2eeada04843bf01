"""What the tests of the program share: the program itself, a clean environment, terminals.

RETRACE names the program; RETRACE_MODEL, when set, the real model, and the tests marked `model` run.
With RETRACE_LONG the tests marked `long` run.
"""
import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
PROGRAM = os.environ.get("RETRACE", str(ROOT / "build" / "retrace"))
MODEL = os.environ.get("RETRACE_MODEL", "")


def pytest_configure(config):
    config.addinivalue_line("markers", "model: needs the real model (RETRACE_MODEL)")
    config.addinivalue_line("markers", "long: takes minutes (RETRACE_LONG)")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("model") and not MODEL:
            item.add_marker(pytest.mark.skip(reason="RETRACE_MODEL is not set"))
        if item.get_closest_marker("long") and not os.environ.get("RETRACE_LONG"):
            item.add_marker(pytest.mark.skip(reason="RETRACE_LONG is not set"))


class Result:
    def __init__(self, code, out, err):
        self.code, self.raw = code, out
        self.out = out.decode("utf-8", "surrogateescape")
        self.err = err.decode("utf-8", "surrogateescape")

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return "exit %d\nstdout: %r\nstderr: %s" % (self.code, self.out, self.err)


def environment(tmp, extra):
    """Nothing of the caller's settings, and an empty cache, so that no model is installed."""
    theirs = ("RETRACE", "NO_COLOR", "HF_", "HUGGINGFACE_", "LLAMA_", "MODEL_ENDPOINT", "XDG_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(theirs)}
    env.update(XDG_CACHE_HOME=str(tmp / "cache"), XDG_STATE_HOME=str(tmp / "state"), TERM="xterm")
    # Waiting threads that spin make everything crawl where other programs run too.
    env.setdefault("OMP_WAIT_POLICY", "passive")
    env.update(extra)
    return env


class Terminal:
    """The program on a terminal of its own. Standard output is that terminal, the rest as asked."""

    def __init__(self, args, env, stderr):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if stderr is not None:
                os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT, 0o644), 2)
            os.execve(args[0], args, env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        self.seen = b""

    def _read(self, timeout):
        ready, _, _ = select.select([self.fd], [], [], timeout)
        if not ready:
            return None
        try:
            return os.read(self.fd, 65536)
        except OSError:
            return b""

    def until(self, wanted, timeout=60):
        end = time.monotonic() + timeout
        while wanted not in self.seen:
            more = self._read(max(0, end - time.monotonic()))
            assert more, "waited for %r, saw %r" % (wanted, self.seen)
            self.seen += more
        return self

    def type(self, data):
        os.write(self.fd, data)
        return self

    def end(self, timeout=60):
        """What was shown, line ends as the program wrote them, and the exit code."""
        deadline = time.monotonic() + timeout
        while True:
            more = self._read(max(0, deadline - time.monotonic()))
            if more is None:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError("the program did not end; saw %r" % self.seen)
            if more == b"":
                break
            self.seen += more
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        shown = self.seen.replace(b"\r\n", b"\n").decode("utf-8")
        return shown, os.waitstatus_to_exitcode(status)


@pytest.fixture
def retrace(tmp_path):
    """retrace(*args, stdin=..., env=...) runs the program; .terminal(...) on a terminal."""

    def run(*args, stdin=b"", env=None, timeout=300):
        done = subprocess.run(
            [PROGRAM, *map(str, args)],
            input=stdin if isinstance(stdin, bytes) else stdin.encode(),
            capture_output=True,
            env=environment(tmp_path, env or {}),
            cwd=tmp_path,
            timeout=timeout,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def start(*args, env=None, **pipes):
        return subprocess.Popen(
            [PROGRAM, *map(str, args)], env=environment(tmp_path, env or {}), cwd=tmp_path, **pipes
        )

    def terminal(*args, env=None, stderr=None):
        return Terminal([PROGRAM, *map(str, args)], environment(tmp_path, env or {}), stderr)

    run.start, run.terminal, run.tmp = start, terminal, tmp_path
    return run
