"""The semantics of a run, written a second time: small, slow and independent of the C code.

A table model, the sampling chain, the tree of places with its bans, banned phrases, stop texts, the
settled mark, the ladder out of dead ends, policies and budgets, each as docs/architecture.md states it.
Everything is recomputed from whole texts at every step; nothing is incremental, so that it can be
checked by reading. `law` walks every outcome of chance and adds up probabilities.

Where the rules leave something open, `Unclear` is raised instead of guessing: no case with such a
situation is written to tests/data/laws.json (see tests/test_reference.py, which makes that file).
"""

import functools
import json
import math
import struct
import unicodedata


class Unclear(Exception):
    """The written semantics do not decide this situation."""


class TooBig(Exception):
    """More outcomes than the caller wants to walk."""


def float32(x):
    return struct.unpack("f", struct.pack("f", x))[0] if math.isfinite(x) else x


# ==== Table model ====


class Table:
    def __init__(self, spec):
        self.names, self.pieces, self.end, self.control = [], [], [], []
        for t in spec["tokens"]:
            t = {"text": t} if isinstance(t, str) else t
            name = bytes(t["bytes"]) if "bytes" in t else t["text"].encode()
            special = bool(t.get("end") or t.get("control"))
            self.names.append(name)
            self.pieces.append(b"" if special else name)
            self.end.append(bool(t.get("end")))
            self.control.append(bool(t.get("control")))
        self.n_ctx = spec.get("n_ctx", 1 << 30)
        self.rows = {}
        for row in spec["rows"]:
            context = tuple(c if isinstance(c, int) else self.text(c) for c in row["context"])
            total = math.fsum(row["next"].values())
            logits = [-math.inf] * len(self.names)
            for key, weight in row["next"].items():
                if weight > 0:
                    logits[self.index(key)] = float32(math.log(weight / total))
            self.rows[context] = logits
        self.longest = max(len(c) for c in self.rows)
        self.known = {}

    def text(self, name):
        return self.names.index(name.encode())

    def index(self, key):
        """Digits that number a token are its index; anything else is its text."""
        if key.isdigit() and int(key) < len(self.names):
            return int(key)
        return self.text(key)

    def logits(self, sequence):
        for k in range(min(self.longest, len(sequence)), -1, -1):
            row = self.rows.get(tuple(sequence[len(sequence) - k :]))
            if row is not None:
                return row
        raise ValueError("no default row")

    def tokenize(self, text):
        text, out = text.encode(), []
        while text:
            fits = [i for i, name in enumerate(self.names) if text.startswith(name)]
            best = max(fits, key=lambda i: len(self.names[i]))
            out.append(best)
            text = text[len(self.names[best]) :]
        return out


# ==== The sampling chain ====

DEFAULTS = {
    "max_tokens": 512, "temp": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "typical": 1.0,
    "repeat_penalty": 1.0, "repeat_last_n": 64, "presence_penalty": 0.0, "frequency_penalty": 0.0,
    "ignore_eos": False, "hold": "minimal", "on_stuck": "fail", "stuck_mass": 0.001,
    "max_rewinds": -1, "max_evaluated": -1,
}  # fmt: skip


def softmax(logits):
    top = max(logits.values())
    e = {i: math.exp(l - top) for i, l in logits.items()}
    total = math.fsum(e.values())
    return {i: x / total for i, x in e.items()}


def penalised(table, logits, o, prompt, kept):
    """Repeat looks at the last n tokens of prompt and answer, presence and frequency at the answer."""
    out = dict(enumerate(logits))
    sequence = prompt + kept
    n = o["repeat_last_n"]
    for i in set(sequence if n < 0 else sequence[max(0, len(sequence) - n) :]):
        out[i] = out[i] / o["repeat_penalty"] if out[i] > 0 else out[i] * o["repeat_penalty"]
    for i in set(kept):
        out[i] -= kept.count(i) * o["frequency_penalty"] + o["presence_penalty"]
    for i, x in o["bias"]:
        out[i] += x
    if o["ignore_eos"]:
        for i in range(len(logits)):
            if table.end[i]:
                out[i] = -math.inf
    return out


def leading(order, p, enough):
    """The shortest beginning of `order` whose probability reaches what `enough` asks for."""
    total, out = 0.0, []
    for i in order:
        out.append(i)
        total += p[i]
        if enough(total):
            break
    return out


def truncated(logits, o):
    """top-k, typical, top-p, min-p, each on what the one before left, all at temperature 1."""

    def by_p(c):
        return sorted(c, key=lambda i: (-c[i], i))

    c = logits
    if o["top_k"] > 0:
        c = {i: c[i] for i in by_p(c)[: o["top_k"]]}
    if o["typical"] < 1:
        p = softmax(c)
        entropy = -math.fsum(x * math.log(x) for x in p.values())
        order = sorted(by_p(c), key=lambda i: abs(-math.log(p[i]) - entropy))
        c = {i: c[i] for i in leading(order, p, lambda total: total > o["typical"])}
    if o["top_p"] < 1:
        p = softmax(c)
        c = {i: c[i] for i in leading(by_p(c), p, lambda total: total >= o["top_p"])}
    if o["min_p"] > 0:
        floor = max(c.values()) + math.log(o["min_p"])
        c = {i: x for i, x in c.items() if x >= floor}
    return c


def next_weights(table, o, prompt, kept, bans):
    """What the next token is drawn from: {id: probability}; empty when nothing is left. Bans act
    before any truncation."""
    logits = penalised(table, table.logits(prompt + kept), o, prompt, kept)
    logits = {i: x for i, x in logits.items() if i not in bans and x > -math.inf}
    if not logits:
        return {}
    if o["temp"] == 0:
        return {min(logits, key=lambda i: (-logits[i], i)): 1.0}
    return softmax({i: x / o["temp"] for i, x in truncated(logits, o).items()})


def free_mass(table, prompt, kept, bans):
    """The model's own probability of what is not banned at a place."""
    p = softmax(dict(enumerate(table.logits(prompt + kept))))
    return math.fsum(x for i, x in p.items() if i not in bans)


# ==== Text ====


@functools.lru_cache(maxsize=100000)
def characters(data, ended):
    """(code point, first byte, byte after) of each character. A byte that belongs to none stands for
    itself, above Unicode. An unfinished character at the very end is left out unless the text has
    ended there."""
    out, i = [], 0
    while i < len(data):
        for n in range(1, 5):
            try:
                out.append((ord(data[i : i + n].decode()), i, i + n))
                break
            except (UnicodeDecodeError, TypeError):
                continue
        else:
            n = 1
            if not ended and unfinished(data[i:]):
                return out
            out.append((0x110000 + data[i], i, i + 1))
        i += n
    return out


def unfinished(tail):
    """Can more bytes make this one character?"""
    try:
        tail.decode()
        return False
    except UnicodeDecodeError as e:
        return e.start == 0 and e.reason == "unexpected end of data"


def is_word(point):
    return point < 0x110000 and unicodedata.category(chr(point))[0] in "LNM"


class Phrases:
    """The rule `phrases`: texts that must not appear."""

    def __init__(self, texts, case="fold", word="false", weight=0.0):
        self.fold, self.word, self.weight = case == "fold", word, weight
        self.units = functools.lru_cache(maxsize=100000)(self.all_units)
        self.hits = functools.lru_cache(maxsize=100000)(self.all_hits)
        self.live = functools.lru_cache(maxsize=100000)(self.first_live)
        spelt = [[u[0] for u in self.units(t.encode(), True)] for t in texts]
        self.texts = [t for i, t in enumerate(spelt) if t not in spelt[:i]]

    def all_units(self, data, ended):
        out = []
        for point, a, b in characters(data, ended):
            folded = chr(point).casefold() if self.fold and point < 0x110000 else None
            out += [(ord(f), a, b) for f in folded] if folded else [(point, a, b)]
        return out

    def all_hits(self, before, text, ended):
        """(first byte, byte after, place in the folded text, length) of every match in before + text
        that is decided; bytes count from the beginning of `text`. Matches within `before` are none."""
        units = self.units(before + text, ended)
        out = set()
        for phrase in self.texts:
            for i in range(len(units) - len(phrase) + 1):
                end = units[i + len(phrase) - 1][2] - len(before)
                if end <= 0 or [u[0] for u in units[i : i + len(phrase)]] != phrase:
                    continue
                if self.edges(units, i, i + len(phrase), ended):
                    out.add((units[i][1] - len(before), end, i, len(phrase)))
        return out

    def edges(self, units, a, b, ended):
        """A letter, digit or mark at an edge of the phrase must not touch another one."""
        if self.word == "false":
            return True
        if a > 0 and is_word(units[a - 1][0]) and is_word(units[a][0]):
            return False
        if self.word == "start" or not is_word(units[b - 1][0]):
            return True
        return not is_word(units[b][0]) if b < len(units) else ended

    def first_live(self, before, text):
        """The first byte of the longest tail that may still become a match, or None."""
        units = self.units(before + text, False)
        for i in range(len(units)):
            for phrase in self.texts:
                rest = [u[0] for u in units[i:]]
                if len(rest) > len(phrase) or rest != phrase[: len(rest)]:
                    continue
                whole = len(rest) == len(phrase)
                if whole and (units[-1][2] <= len(before) or self.edges(units, i, len(units), False)):
                    continue
                if self.edges(units + [(0, 0, 0)], i, len(units), False):
                    return units[i][1] - len(before)
        return None


# ==== Runs ====


class Node:
    def __init__(self, parent=None, token=None):
        self.parent, self.token = parent, token
        self.children, self.bans, self.draws, self.exempt = {}, set(), 0, False

    def path(self):
        node, out = self, []
        while node.parent:
            out.append(node)
            node = node.parent
        return out[::-1]


class Run:
    """One answer. `choose(weights)` returns an index."""

    def __init__(self, table, options, prompt, rules, stops, choose):
        self.table, self.o, self.prompt = table, options, prompt
        self.rules, self.stops, self.choose = rules, [s.encode() for s in stops], choose
        special = [i for i, t in enumerate(prompt) if table.end[t] or table.control[t]]
        tail = prompt[special[-1] + 1 :] if special else prompt
        self.before = b"".join(table.pieces[t] for t in tail)
        self.root = self.head = Node()
        self.accepted = self.settled = self.rewinds = self.step = 0
        self.asked = set()
        self.stuck_at, self.episode = -1, None
        n = options["max_tokens"]
        self.max_rewinds = 4 * n + 1024 if options["max_rewinds"] < 0 else options["max_rewinds"]
        self.max_evaluated = (
            16 * n + 1024 if options["max_evaluated"] < 0 else options["max_evaluated"]
        )

    # What stands at the head.

    def tokens(self, node=None):
        return [x.token for x in (node or self.head).path()]

    def text(self, tokens):
        return b"".join(self.table.pieces[t] for t in tokens)

    def holder(self, tokens, byte):
        """The token that holds a byte of the text; one in the prompt counts as the first token's."""
        end = 0
        if byte < 0:
            return 0
        for i, t in enumerate(tokens):
            end += len(self.table.pieces[t])
            if byte < end:
                return i
        raise AssertionError("byte behind the text")

    # Settling.

    def horizon(self, tokens):
        text = self.text(tokens)
        starts = [r.live(self.before, text) for r in self.rules]
        for stop in self.stops:
            starts += [i for i in range(len(text)) if stop.startswith(text[i:])][:1]
        starts += [i for i in range(len(text)) if unfinished(text[i:])][:1]
        places = [self.holder(tokens, s) for s in starts if s is not None]
        return min(places, default=len(tokens))

    def settle(self):
        if self.o["hold"] == "all":
            return
        s = len(self.tokens())
        while (least := self.horizon(self.tokens()[:s])) < s:
            s = least
        self.settled = max(self.settled, s)
        # A place on another branch than what has settled cannot be returned to.
        if self.episode and self.episode.path()[: self.settled] != self.head.path()[: self.settled]:
            self.stuck_at = -1

    # Judging.

    def found_stop(self, tokens):
        """(first byte, byte after) of the stop text that ends first; of those the longest."""
        old, text = self.text(tokens[:-1]), self.text(tokens)
        if self.table.control[tokens[-1]] and self.table.names[tokens[-1]] in self.stops:
            return len(text), len(text)
        found = []
        for stop in self.stops:
            for i in range(len(text)):
                if text.startswith(stop, i) and i + len(stop) > len(old):
                    found.append((i + len(stop), i))
        return min(found)[::-1] if found else None

    def proposals(self, tokens, fresh):
        """One place to go back to for each rule that objects; fresh(rule) are its new hits."""
        out, nodes = [], [self.root] + self.head.path()
        for rule in self.rules:
            places = [self.holder(tokens, h[0]) for h in self.rejected(rule, sorted(fresh(rule)))]
            if places and nodes[places[0]].exempt:
                if any(not nodes[p].exempt for p in places):
                    raise Unclear("an exempt hit hides another one of the same rule")
                self.accepted += 1
            else:
                out += places[:1]
        return out

    def rejected(self, rule, hits):
        """Each hit of a weighted rule is let through by a draw of its own."""
        if rule.weight == 0:
            return hits
        if len({h[:2] for h in hits}) < len(hits):
            raise Unclear("two hits of the same bytes")
        return [h for h in hits if self.choose([rule.weight, 1 - rule.weight]) == 1]

    def judge(self, tokens, limit):
        """After a push: the hits that it decided and that are complete before `limit`."""
        old, new = self.text(tokens[:-1]), self.text(tokens)

        def fresh(rule):
            known = rule.hits(self.before, old, False)
            return {h for h in rule.hits(self.before, new, False) - known if h[1] < limit}

        return self.proposals(tokens, fresh)

    def judge_end(self, tokens, text):
        """The answer would end with `text`: what only its end decides."""

        def fresh(rule):
            known = rule.hits(self.before, self.text(tokens), False)
            return rule.hits(self.before, text, True) - known

        return self.proposals(tokens, fresh)

    # Moving.

    def erase(self, to):
        """False when the budget forbids it."""
        if self.rewinds >= self.max_rewinds:
            return False
        self.rewinds += 1
        nodes = [self.root] + self.head.path()
        nodes[to].bans.add(nodes[to + 1].token)
        self.head = nodes[to]
        return True

    def too_little(self, tokens, weights):
        """Is the place exhausted: too little of the model's own mass unbanned, or nothing to draw?"""
        bans = self.head.bans
        free = free_mass(self.table, self.prompt, tokens, bans)
        never = {i for i, x in self.o["bias"] if x == -math.inf}
        if self.o["ignore_eos"]:
            never |= {i for i, end in enumerate(self.table.end) if end}
        rest = free_mass(self.table, self.prompt, tokens, bans | never)
        if weights and (free < self.o["stuck_mass"]) != (rest < self.o["stuck_mass"]):
            raise Unclear("does the mass of tokens that no ban keeps away count?")
        return free < self.o["stuck_mass"] or not weights

    def ladder(self):
        """Out of a dead end. Returns how the run ends, or None when it goes on."""
        d = len(self.tokens())
        if d > self.stuck_at:
            self.step, self.episode, self.stuck_at = 1, self.head, d
        else:
            self.step *= 2
        back = min(self.step, d - self.settled)
        if back > 0:
            return None if self.erase(d - back) else self.done("budget", self.settled_text())
        if self.o["on_stuck"] == "fail":
            return self.done("stuck", self.settled_text())
        tokens = self.tokens(self.episode)
        if self.o["on_stuck"] == "stop":
            for rule in self.rules:
                text = self.text(tokens)
                if rule.hits(self.before, text, True) - rule.hits(self.before, text, False):
                    raise Unclear("a stuck answer that ends with a banned word")
            return self.done("stuck", self.text(tokens))
        if self.episode.exempt:
            raise Unclear("stuck again where everything was allowed")
        self.head, self.stuck_at = self.episode, -1
        self.head.bans, self.head.exempt, self.head.draws = set(), True, 0
        return None

    def settled_text(self):
        return self.text(self.tokens()[: self.settled])

    def done(self, finish, text):
        return text, finish, self.accepted > 0

    def turn(self):
        """Draws, pushes and judges one token. Returns how the run ends, or None."""
        tokens = self.tokens()
        if self.head not in self.asked and tokens:
            if len(self.asked) >= self.max_evaluated:
                return self.done("budget", self.settled_text())
            self.asked.add(self.head)
        key = tuple(tokens), frozenset(self.head.bans)
        if key not in self.table.known:
            weights = next_weights(self.table, self.o, self.prompt, tokens, self.head.bans)
            self.table.known[key] = weights, self.too_little(tokens, weights)
        weights, little = self.table.known[key]
        if little or self.head.draws >= 256:
            return self.ladder()
        ids = sorted(weights)
        token = ids[0] if self.o["temp"] == 0 else ids[self.choose([weights[i] for i in ids])]
        self.head.draws += 1
        self.head = self.head.children.setdefault(token, Node(self.head, token))
        return self.verdict(tokens + [token])

    def verdict(self, tokens):
        stop = self.found_stop(tokens)
        text, finish = self.text(tokens), None
        places = self.judge(tokens, stop[1] if stop else math.inf)
        if not places:
            if stop:
                text, finish = text[: stop[0]], "stop"
            elif self.table.end[tokens[-1]]:
                finish = "end"
            elif len(tokens) >= self.o["max_tokens"]:
                finish = "length"
            elif len(self.prompt) + len(tokens) >= self.table.n_ctx:
                finish = "length"
            places = self.judge_end(tokens, text) if finish else []
        if places:
            return None if self.erase(min(places)) else self.done("budget", self.settled_text())
        if finish:
            return self.done(finish, text)
        self.settle()
        return None

    def finish(self):
        while (result := self.turn()) is None:
            pass
        return result


# ==== Laws ====


def make_rule(rule):
    s = {}
    for name, value in rule["settings"]:
        s.setdefault(name, []).append(value)
    one = {k: s[k][-1] for k in ("case", "word") if k in s}
    return Phrases(s["text"], weight=float(s.get("weight", ["0"])[-1]), **one)


def make_options(case):
    o = dict(DEFAULTS)
    for name, value in case.get("options", {}).items():
        kind = type(o[name])
        o[name] = value == "true" if kind is bool else kind(value)
    o["bias"] = [(i, float(x)) for i, x in case.get("bias", [])]
    return o


def law(model, case, most=100000):
    """{(text, finish, was a hit let through?): probability}, over every outcome of chance."""
    table, options = Table(model), make_options(case)
    prompt = table.tokenize(case["prompt"])
    rules = [make_rule(r) for r in case.get("rules", [])]
    total, path, leaves = {}, [], 0
    while path is not None:
        p, at = 1.0, 0

        def choose(weights):
            nonlocal p, at
            if at == len(path):
                path.append([0, [i for i, w in enumerate(weights) if w > 0]])
            k, live = path[at]
            at += 1
            p *= weights[live[k]] / math.fsum(weights)
            return live[k]

        result = Run(table, options, prompt, rules, case.get("stops", []), choose).finish()
        total.setdefault(result, []).append(p)
        leaves += 1
        if leaves > most:
            raise TooBig
        while path and path[-1][0] + 1 == len(path[-1][1]):
            path.pop()
        if path:
            path[-1][0] += 1
        else:
            path = None
    return {k: math.fsum(v) for k, v in total.items()}


def rows(result):
    """A law as JSON: bytes are written as the code points of the same number."""
    out = [[t.decode("latin-1"), f, a, p] for (t, f, a), p in result.items()]
    return sorted(out, key=lambda r: json.dumps(r[:3]))
