"""What the tests of `retrace chat` share: a model that converses, conversations, a person's terminal.

The model (data/chat_talk.json) answers by the last message: "hello", "count", "story", ... It is read
here a second time, by Python, so that every answer at temperature 0 is known beforehand.
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

import pyte

from conftest import DATA, PROGRAM, environment
from reference_model import Table
from screens import SHELL, Paper

TALK = DATA / "chat_talk.json"
SPEC = json.loads(TALK.read_text())
GREEDY = ["-m", TALK, "--temp", "0"]
PATIENCE = float(os.environ.get("CHAT_TIMEOUT", 30))
ROOM = 512


def model(tmp, name="m.json", **changes):
    """The same model with other facts: a context of 64 tokens, say."""
    path = tmp / name
    path.write_text(json.dumps({**SPEC, **changes}))
    return path


def chat(retrace, *lines, flags=GREEDY, **how):
    """A conversation through a pipe."""
    return retrace("chat", *flags, stdin="".join(line + "\n" for line in lines), **how)


def saved(retrace, name="c.json"):
    return json.loads((retrace.tmp / name).read_text())


def dialogue(file):
    """[(role, content)] of a saved conversation."""
    return [(m["role"], m["content"]) for m in file["messages"]]


# ==== What the model says ====

TABLE = Table(SPEC)
BEGIN, FINISH = TABLE.text("<|"), TABLE.text("|>")


def spell(text):
    """Tokens of a text that a person wrote: none of them a control token."""
    return TABLE.spell(text.encode()) if text else []


def prompt_of(messages):
    """messages: (role, tokens)."""
    out = []
    for role, ids in messages:
        out += [*ids, BEGIN, *spell(role), FINISH]
    return out


def greedy(prompt, most=ROOM):
    """The answer's tokens and its finish, at temperature 0 and without rules."""
    out = []
    while len(out) < most:
        logits = TABLE.logits(prompt + out)
        best = max(range(len(logits)), key=lambda i: logits[i])
        if TABLE.end[best]:
            return out, "end"
        out.append(best)
    return out, "length"


def text_of(ids):
    return b"".join(TABLE.pieces[i] for i in ids).decode()


def answer(*messages):
    """The answer at temperature 0 to [system,] user, assistant, user, ... given as texts."""
    roles = ["user", "assistant"] * len(messages)
    return text_of(greedy(prompt_of([(r, spell(m)) for r, m in zip(roles, messages)]))[0])


# ==== A terminal ====

UP, DOWN, RIGHT, LEFT = b"\033[A", b"\033[B", b"\033[C", b"\033[D"
ENTER, BACK, TAB, ALT_ENTER = b"\r", b"\x7f", b"\t", b"\033\r"
CTRL_C, CTRL_D, CTRL_U, CTRL_R, CTRL_Z = b"\x03", b"\x04", b"\x15", b"\x12", b"\x1a"
MARK = "⟲"


class Person:
    """`retrace chat` on a terminal of `rows` times `columns`, typed at and looked at."""

    def __init__(self, tmp, *args, rows=24, columns=80, env=None, shell=False, **streams):
        self.master, self.slave = pty.openpty()
        self.tell_size(rows, columns)
        self.found = termios.tcgetattr(self.slave)
        self.screen = Paper(rows, columns)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""

        def own_terminal():
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

        through = [sys.executable, "-c", SHELL] if shell else []
        self.process = subprocess.Popen(
            [*through, PROGRAM, "chat", *map(str, args)], cwd=tmp, env=environment(tmp, env or {}),
            stdin=streams.get("stdin", self.slave), stdout=streams.get("stdout", self.slave),
            stderr=streams.get("stderr", self.slave), preexec_fn=own_terminal,
        )  # fmt: skip

    def tell_size(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        """Until the program has taken notice: nothing more comes for a while."""
        self.screen.resize(rows, columns)
        self.tell_size(rows, columns)
        while self.read(0.3):
            pass
        return self

    def read(self, timeout):
        if not select.select([self.master], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data
        self.stream.feed(data)
        return bool(data)

    # What is seen

    def line(self, row):
        """A row of the buffer as text; the second half of a wide character is nothing."""
        return "".join(row[x].data for x in range(self.screen.columns)).rstrip()

    def rows(self):
        return [self.line(self.screen.buffer[y]) for y in range(self.screen.lines)]

    def paper(self):
        """Everything since the beginning, what scrolled away too, without empty rows at the end."""
        lines = [self.line(row) for row in self.screen.history.top] + self.rows()
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def text(self):
        return "\n".join(self.paper())

    def cells(self, what):
        """The characters on the screen that have an attribute: "blink" is dim."""
        s = self.screen
        return "".join(
            s.buffer[y][x].data for y in range(s.lines) for x in range(s.columns) if getattr(s.buffer[y][x], what)
        )

    def at_prompt(self):
        """An empty prompt, and the cursor behind it."""
        c = self.screen.cursor
        row = self.line(self.screen.buffer[c.y])
        return row.rstrip() == ">" and c.x == 2 and not c.hidden

    # What is done

    def until(self, wanted, timeout=PATIENCE):
        """Reads until the text is seen, or the function says yes."""
        end = time.monotonic() + timeout
        ok = wanted if callable(wanted) else lambda p: wanted in p.text()
        while not ok(self):
            left = end - time.monotonic()
            assert left > 0, "waited for %r, saw\n%s" % (wanted, self.text())
            if not self.read(min(left, 0.5)):
                assert self.process.poll() is None or ok(self), "ended; saw\n%s" % self.text()
        return self

    def until_full(self):
        """Reads nothing until the terminal takes no more: the program sleeps, and does not work."""
        before, since, end = None, time.monotonic(), time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < end
            with open("/proc/%d/stat" % self.process.pid) as f:
                state = f.read().rsplit(")")[1].split()
            now = (state[11], state[12])
            if now != before or state[0] != "S":
                before, since = now, time.monotonic()
            elif time.monotonic() - since > 0.5:
                return self
            time.sleep(0.02)

    def type(self, *keys):
        for key in keys:
            os.write(self.master, key if isinstance(key, bytes) else key.encode())
        return self

    def ready(self):
        return self.until(Person.at_prompt)

    def say(self, line):
        """A whole line, and what it leads to: the next prompt. What came between is returned."""
        before = len(self.paper()) - 1  # the empty prompt becomes the line
        self.type(line).until(lambda p: p.line(p.screen.buffer[p.screen.cursor.y]).endswith(line.split("\n")[-1]))
        self.type(ENTER)
        self.until(lambda p: p.at_prompt() and len(p.paper()) > before + 1)
        return self.paper()[before:-1]

    def end(self, timeout=PATIENCE):
        """The exit code; the terminal must be as it was found."""
        code = self.wait(timeout)
        self.check_restored()
        self.close()
        return code

    def wait(self, timeout=PATIENCE):
        end = time.monotonic() + timeout
        while self.process.poll() is None:
            assert time.monotonic() < end, self.text()
            self.read(0.05)
        while self.read(0):
            pass
        return self.process.returncode

    def check_restored(self):
        assert termios.tcgetattr(self.slave) == self.found
        assert not self.screen.cursor.hidden
        for on, off in ((b"\033[?2004h", b"\033[?2004l"), (b"\033[?25l", b"\033[?25h"), (b"\033[?7l", b"\033[?7h")):
            assert self.raw.rfind(off) >= self.raw.rfind(on), on
        assert not self.screen.cursor.attrs.blink and not self.screen.cursor.attrs.strikethrough
        assert self.screen.cursor.attrs.fg == "default"

    def close(self):
        for fd in (self.master, self.slave):
            if fd >= 0:
                os.close(fd)
        self.master = self.slave = -1

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.close()
