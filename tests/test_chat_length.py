"""retrace chat where the context is full, and conversations by chance beside a list of messages.

Both are compared with what a few lines of Python make of docs/chat.md.
"""

import random
import re

import pytest

from chatting import GREEDY, chat, dialogue, greedy, model, prompt_of, saved, spell, text_of
from test_chat_promises import HELLO, told


# ==== A full context ====


class Fit:
    """Which turns are in the prompt, by the document: (role, tokens) of messages, the system's first."""

    def __init__(self, n_ctx, room):
        self.n_ctx, self.room = n_ctx, min(room, n_ctx // 4)
        self.system, self.turns, self.out = [], [], 0

    def say(self, text):
        self.turns.append([("user", spell(text))])
        size = lambda: len(prompt_of(self.system + [m for t in self.turns[self.out :] for m in t]))
        left = 0
        if size() + self.room > self.n_ctx:
            while size() + self.room + self.n_ctx // 4 > self.n_ctx and self.out + 1 < len(self.turns):
                self.out += 1
                left += 1
        used = size()
        prompt = prompt_of(self.system + [m for t in self.turns[self.out :] for m in t])
        ids, finish = greedy(prompt, self.n_ctx)
        self.turns[-1].append(("assistant", ids))
        return text_of(ids), left, used


def test_a_full_context(retrace):
    small = model(retrace.tmp, n_ctx=64)
    fit = Fit(64, 512)
    said = [fit.say(["hello", "again"][i % 2]) for i in range(20)]
    lines = [["hello", "again"][i % 2] for i in range(20)]
    done = chat(retrace, *lines, "/show", "/save c.json", flags=["-m", small, "--temp", "0"])
    assert done.code == 0
    assert done.out.startswith("".join(t + "\n" for t, _, _ in said))
    notes = re.findall(r"context: (\d+) turns? left out, (\d+) of 64 tokens used", done.err)
    assert [int(used) for _, used in notes] == [used for _, left, used in said if left], (notes, said)
    assert len(notes) >= 2
    assert len(dialogue(saved(retrace))) == 40  # they stay
    assert done.out.count("hello") == 10


def test_the_system_message_is_never_left_out(retrace):
    small = model(retrace.tmp, n_ctx=64)
    fit = Fit(64, 512)
    fit.system = [("system", spell("terse"))]
    used = [fit.say("hello") for _ in range(12)]
    done = chat(retrace, *["hello"] * 12, flags=["-m", small, "--temp", "0", "--system", "terse"])
    notes = re.findall(r"context: \d+ turns? left out, (\d+) of 64", done.err)
    assert notes == [str(u) for _, left, u in used if left] and notes


def test_a_message_that_does_not_fit(retrace):
    small = model(retrace.tmp, n_ctx=64)
    done = chat(retrace, "hello", "x" * 60, "hello", "/save c.json", flags=["-m", small, "--temp", "0"])
    told(done, "63", "64")
    assert done.out == (HELLO + "\n") * 2
    assert [c for _, c in dialogue(saved(retrace))] == ["hello", HELLO] * 2


def test_an_answer_that_runs_into_the_end_of_the_context(retrace):
    small = model(retrace.tmp, n_ctx=64)
    done = chat(retrace, "loop", "/save c.json", "hello", flags=["-m", small, "--temp", "0", "-n", "-1"])
    assert saved(retrace)["messages"][1]["finish"] == "length"
    assert done.code == 0 and "length" in done.out + done.err and done.out.endswith(HELLO + "\n")


# ==== Conversations by chance, beside a list of messages ====


class Conversation:
    """What docs/chat.md says a conversation is: a list of messages, settings and rules."""

    def __init__(self):
        self.turns, self.most, self.rules, self.last = [], 512, [], None

    def answer(self, text):
        prompt = [m for t in self.turns for m in (("user", spell(t[0])), ("assistant", t[1]))]
        ids, finish = greedy(prompt_of(prompt + [("user", spell(text))]), self.most)
        if "five" in self.rules and " five" in text_of(ids):
            return None
        self.turns.append((text, ids, finish))
        self.last = self.most
        return text_of(ids)

    def messages(self):
        return [m for t in self.turns for m in (("user", t[0]), ("assistant", text_of(t[1])))]


WORDS = ["hello", "bye", "story", "count", "again", "split", "wide", "who", "x y", "//slash", "only"]


def steps(rng, n):
    """Lines, and for each the texts that standard output must then show, or None: it is refused."""
    c, out, fresh = Conversation(), [], False
    for i in range(n):
        kind = rng.choice(["say"] * 4 + ["undo", "retry", "back", "edit", "set", "rule", "clear", "unknown"])
        line, shows = None, ""
        if kind == "say":
            line = rng.choice(WORDS)
            shows, fresh = c.answer(line.replace("//", "/", 1)) + "\n", True
        elif kind == "undo":
            k = rng.randint(1, 3)
            line = "/undo" if k == 1 and rng.random() < 0.5 else "/undo %d" % k
            if k > len(c.turns):
                shows = None
            else:
                del c.turns[len(c.turns) - k :]
                fresh = False
        elif kind == "retry" and fresh:
            line = "/retry"
            text = c.turns.pop()[0]
            shows = c.answer(text) + "\n"
        elif kind == "back" and fresh:
            ids = c.turns[-1][1]
            k = rng.randint(1, len(ids) + 1)
            line = "/back %d" % k
            shows = None if k > len(ids) else "*"
        elif kind == "edit" and c.turns:
            line = "/edit " + rng.choice(WORDS[:8])
            c.turns.pop()
            shows, fresh = c.answer(line[6:]) + "\n", True
        elif kind == "set":
            c.most = rng.choice([2, 5, 40])
            line, shows = "/set max_tokens %d" % c.most, "*"
        elif kind == "rule":
            line, shows = rng.choice(["/rule phrases:text=zebra", "/ban zebra", "/rule nothing", "/rule -99"]), "*"
            if line in ("/rule nothing", "/rule -99"):
                shows = None
        elif kind == "clear" and rng.random() < 0.3:
            line, c.turns, fresh, shows = "/clear", [], False, "*"
        elif kind == "unknown":
            line, shows = "/nonsense", None
        if line:
            out.append((line, shows, c.messages()))
    return out


@pytest.mark.parametrize("seed", range(6))
def test_conversations_by_chance(retrace, seed):
    script = steps(random.Random(seed), 60)
    lines = []
    for i, (line, _, _) in enumerate(script):
        lines += [line, "/save %d.json" % i, "/show"]
    done = chat(retrace, *lines, flags=GREEDY)
    assert done.code == (2 if any(s is None for _, s, _ in script) else 0), done
    at = 0
    for i, (line, shows, messages) in enumerate(script):
        assert dialogue(saved(retrace, "%d.json" % i)) == messages, (i, line, script[: i + 1])
        for want in ([shows] if shows and shows != "*" else []) + [m.strip() for _, m in messages]:
            found = done.out.find(want, at)
            assert found >= 0, (i, line, want, done.out[at : at + 500])
            at = found + len(want)
