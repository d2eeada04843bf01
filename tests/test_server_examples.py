"""What the pages show is so: the commands of README.md and docs/http.md run as they stand against a server
of a table model, and examples/http/watch.py shows what is taken back, in a pipe and in a terminal."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading

import pytest
from conftest import DATA, ROOT
from serving import Server, serving, words_model

STORY = "table:%s" % (DATA / "cli_story.json")
WATCH = ROOT / "examples" / "http" / "watch.py"
CLICHES = ROOT / "examples" / "cliches.txt"
FENCED = re.compile(r"^```bash\n(.*?)^```$", re.S | re.M)
ID = re.compile(r"cmpl-[0-9a-f]{32}")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("examples"), words_model(), "--ban-list", "cliches=%s" % CLICHES)
    yield s
    s.stop()


def shell_commands(page):
    """The commands behind `$` in an indented block, with the lines that they go on to."""
    found, lines = [], page.split("\n")
    for i, line in enumerate(lines):
        if line.startswith("    $ "):
            command = line[6:]
            for more in lines[i + 1 :]:
                if command.count("'") % 2 == 0:
                    break
                command += "\n" + more
            found.append(command)
    return found


def here(text, server):
    """The same for this server and a completion that it keeps."""
    text = text.replace("http://127.0.0.1:7077", server.url)
    text = re.sub(r"(watch\.py)", r"\1 --url %s" % server.url, text)
    if ID.search(text):
        made = server.complete(" the", max_tokens=20, seed=1, ignore_eos=True)["id"]
        text = ID.sub(made, text)
    return text


def sh(text):
    done = subprocess.run(["bash", "-ec", text], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (text, done.stderr)
    return done.stdout


README = [c for c in shell_commands((ROOT / "README.md").read_text()) if "7077" in c or "watch.py" in c]
PAGE = (ROOT / "docs" / "http.md").read_text()
CURLS = ["curl" + part for block in FENCED.findall(PAGE) for part in re.split(r"^curl", block, flags=re.M)[1:]]
WATCHED = [block for block in FENCED.findall(PAGE) if "watch.py" in block]


@pytest.mark.parametrize("command", README + CURLS + WATCHED)
def test_a_command_does_as_it_stands(server, command):
    out = sh(here(command, server))
    assert out.strip()
    if "watch.py" in command:
        return
    if '"stream": true' in command:
        lines = [line for line in out.split("\n") if line]
        assert lines[-1] == "data: [DONE]"
        answers = [json.loads(line[6:]) for line in lines[:-1]]
    else:
        answers = [json.loads(out)]
    for answer in answers:
        # (A text there is what `backward` says of a suffix that the table model never writes.)
        assert not isinstance(answer.get("error"), dict), (command, answer)


def test_the_pages_have_commands():
    assert len(README) >= 2 and len(CURLS) >= 6 and WATCHED


# ==== watch.py ====


def watch(server, *args, url=None):
    command = [sys.executable, WATCH, "--url", url or server.url, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("story"), STORY)
    yield s
    s.stop()


def seeds(server, ban):
    """The two seeds that are looked for: one whose answer was taken back, one whose was not."""
    back = straight = None
    for seed in range(60):
        stats = server.complete(seed=seed, banned_strings=[ban])["retrace"]["stats"]
        back, straight = (seed, straight) if stats["erased"] else (back, seed)
        if back is not None and straight is not None:
            return back, straight
    raise AssertionError("no seed is taken back, or all are")


def test_what_is_taken_back_stands_in_brackets(story):
    back, straight = seeds(story, "testament to")
    for seed in (back, straight):
        done = watch(story, "--ban", "testament to", "--seed", seed, "go")
        assert done.returncode == 0, done.stderr
        assert re.sub(r"\[-.*?-\]", "", done.stdout) == " a sign of hope.\n"
        assert ("[- testament to-]" in done.stdout) == (seed == back)
        assert ("rewinds: 1," if seed == back else "rewinds: 0,") in done.stderr


def in_terminal(command, width):
    """All that it writes to a terminal of this width."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen(command, stdout=side, stderr=subprocess.DEVNULL)
    os.close(side)
    data = b""
    timer = threading.Timer(60, process.kill)
    timer.start()
    try:
        while True:
            try:
                more = os.read(main, 4096)
            except OSError:
                break
            if not more:
                break
            data += more
    finally:
        os.close(main)
        timer.cancel()
    assert process.wait() == 0
    return data.decode()


def screen_of(data, width):
    """What a terminal then shows: per line, the characters and whether each is struck out."""
    cells, row, column, struck = {}, 0, 0, False
    for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|.", data, re.S):
        if part.startswith("\x1b"):
            number, what = part[2:-1], part[-1]
            if what == "A":
                row -= int(number)
            elif what == "C":
                column += int(number)
            elif what == "m":
                struck = number.startswith("9")
            else:
                raise AssertionError("an unknown sequence: %r" % part)
        elif part == "\r":
            column = 0
        elif part == "\n":
            row += 1
        else:
            assert column < width, "written past the edge"
            cells[row, column] = (part, struck)
            column += 1
    text = [cells[at] for at in sorted(cells)]
    return "".join(c for c, s in text if not s), "".join(c for c, s in text if s)


@pytest.mark.parametrize("width", [80, 12, 5])
def test_what_is_taken_back_is_struck_out_where_it_stood(story, width):
    back, _ = seeds(story, "testament to")
    command = [sys.executable, WATCH, "--url", story.url, "--ban", "testament to", "--seed", str(back), "go"]
    kept, struck = screen_of(in_terminal(command, width), width)
    assert (kept, struck) == (" a sign of hope.", " testament to")


def test_other_fields_and_a_chat(story):
    done = watch(story, "--chat", "--fields", '{"banned_strings": ["sign of"], "temperature": 0}', "go")
    assert done.returncode == 0 and " a testament to hope." in done.stdout, done


def test_control_characters_do_not_reach_the_terminal(story):
    command = [sys.executable, WATCH, "--url", story.url, "esc"]
    assert "\x1b[31m" not in in_terminal(command, 80)


def test_errors_are_told(story, tmp_path):
    done = watch(story, "--max-tokens", "-5", "go")
    assert done.returncode == 1 and done.stderr.startswith("watch.py: max_tokens: -5 "), done
    done = watch(story, "go", url="http://127.0.0.1:1")
    assert done.returncode == 1 and "no server at http://127.0.0.1:1" in done.stderr
    with serving(tmp_path, STORY, "--api-key", "sesame") as s:
        assert "API key is needed" in watch(s, "go").stderr
        assert watch(s, "--key", "sesame", "go").returncode == 0


# ==== The address itself ====


def test_the_address_says_what_it_is(tmp_path):
    with serving(tmp_path, STORY, "--api-key", "sesame") as s:
        answer = s.get("/")
        assert answer.status == 200 and answer.json["name"] == "retrace" and "docs/http.md" in answer.json["docs"]
        assert "story" not in answer.body.decode(), "the model is nobody's business without a key"
        for path in (v for v in answer.json.values() if v.startswith("/")):
            assert s.get(path, {"Authorization": "Bearer sesame"}).status == 200, path
        assert s.post("/", {}, {"X-Api-Key": "sesame"}).status == 405
        assert s.get("/", {"Host": "evil.test"}).status == 403
        assert s.get("/nothing").status == 401
