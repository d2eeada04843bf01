"""A program on a pseudo-terminal of its own, and the screen that a person would see: pyte keeps it."""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata

import pyte
from wcwidth import wcwidth

TIMEOUT = float(os.environ.get("GUIDE_TIMEOUT", 60))

# Runs a program as a shell does, in a process group of its own, and tells when it has stopped.
SHELL = r"""
import os, signal, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
found = termios.tcgetattr(0)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(child, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        break
    os.tcsetpgrp(0, os.getpid())
    print("stopped", "restored" if termios.tcgetattr(0) == found else "taken", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, child)
    os.kill(child, signal.SIGCONT)
os.tcsetpgrp(0, os.getpid())
sys.exit(os.waitstatus_to_exitcode(status))
"""


class Paper(pyte.HistoryScreen):
    """A screen that remembers what scrolled away. Three things that terminals do and pyte does not: a wide
    character that does not fit goes to the next row, a mark belongs to the character in the last column
    before that wraps, and text can be dim (here: blinking)."""

    def __init__(self, rows, columns):
        super().__init__(columns, rows, history=100000, ratio=1)

    def draw(self, data):
        for c in data:
            width = wcwidth(c)
            if width == 2 and self.cursor.x == self.columns - 1 and self.columns > 1:
                self.cursor.x = self.columns
            if width == 0 and self.cursor.x == self.columns:
                cell = self.buffer[self.cursor.y][self.columns - 1]
                at = self.columns - 1 if cell.data else self.columns - 2
                cell = self.buffer[self.cursor.y][at]
                self.buffer[self.cursor.y][at] = cell._replace(data=unicodedata.normalize("NFC", cell.data + c))
                self.dirty.add(self.cursor.y)
                continue
            super().draw(c)

    def select_graphic_rendition(self, *attrs, **more):
        seen = []
        for a in attrs or (0,):
            seen += [5] if a == 2 else [22, 25] if a == 22 else [a]
        super().select_graphic_rendition(*seen, **more)


class Screen:
    """command on a terminal of `rows` times `columns`."""

    def __init__(self, command, cwd, env, rows=24, columns=80, stdin=None, stdout=None, stderr=None):
        self.master, self.slave = pty.openpty()
        self.screen = Paper(rows, columns)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.found = termios.tcgetattr(self.slave)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
                signal.signal(number, signal.SIG_DFL)

        streams = [self.slave if s is None else s for s in (stdin, stdout, stderr)]
        self.process = subprocess.Popen(
            list(map(str, command)), cwd=cwd, env=env, stdin=streams[0], stdout=streams[1],
            stderr=streams[2], preexec_fn=own_terminal,
        )

    def resize(self, rows, columns):
        """The kernel tells the program."""
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        return self

    def read(self, timeout):
        if not select.select([self.master], [], [], timeout)[0]:
            return False
        data = os.read(self.master, 65536)
        self.raw += data
        self.stream.feed(data)
        return True

    def settle(self, quiet=0.15):
        """Reads until nothing comes any more."""
        while self.read(quiet):
            pass
        return self

    def row(self, line):
        return "".join(line[x].data for x in range(self.screen.columns)).rstrip()

    def rows(self):
        return [self.row(self.screen.buffer[y]) for y in range(self.screen.lines)]

    def all_rows(self):
        """Those too that have scrolled off the top."""
        return [self.row(line) for line in self.screen.history.top] + self.rows()

    def text(self):
        return "\n".join(self.rows())

    def cursor(self):
        return self.screen.cursor.y, self.screen.cursor.x

    def cells(self, wanted):
        """The characters of the screen that have a property: cells(lambda c: c.strikethrough). Dim ones: c.blink."""
        buffer, width = self.screen.buffer, self.screen.columns
        return "".join(buffer[y][x].data for y in range(self.screen.lines) for x in range(width)
                       if wanted(buffer[y][x]))

    def until(self, wanted, timeout=TIMEOUT):
        """Reads until the text is on the screen, the bytes have come, or the function says yes."""
        end = time.monotonic() + timeout
        if callable(wanted):
            ok = wanted
        elif isinstance(wanted, bytes):
            ok = lambda s: wanted in s.raw
        else:
            ok = lambda s: wanted in s.text()
        while not ok(self):
            left = end - time.monotonic()
            assert left > 0 and (self.read(min(left, 0.5)) or self.process.poll() is None), (wanted, self.text())
        return self

    def type(self, *keys):
        for key in keys:
            data = key if isinstance(key, bytes) else key.encode()
            while data:
                ready = select.select([self.master], [self.master], [], TIMEOUT)
                if ready[0]:
                    self.read(0)
                if ready[1]:
                    data = data[os.write(self.master, data[:2048]):]
        return self

    def signal(self, number):
        self.process.send_signal(number)
        return self

    def end(self, timeout=TIMEOUT):
        """The exit code; the terminal is as it was found."""
        end = time.monotonic() + timeout
        while self.process.poll() is None:
            assert time.monotonic() < end, self.text()
            self.read(0.05)
        self.settle(0)
        self.check_restored()
        self.close()
        return self.process.returncode

    def check_restored(self):
        assert termios.tcgetattr(self.slave) == self.found
        for on, off in ((b"\033[?2004h", b"\033[?2004l"), (b"\033[?25l", b"\033[?25h"),
                        (b"\033[?2026h", b"\033[?2026l")):
            assert self.raw.rfind(off) >= self.raw.rfind(on), (on, self.raw[-300:])
        if b"\033[2m" in self.raw or b"\033[2;9;31m" in self.raw:
            assert self.raw.rfind(b"\033[0m") > max(self.raw.rfind(b"\033[2m"), self.raw.rfind(b"\033[2;9;31m"))

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for fd in (self.slave, self.master):
            if fd is not None:
                os.close(fd)
        self.slave = self.master = None
