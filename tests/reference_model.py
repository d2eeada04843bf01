"""A table model and the sampling chain, for the reference: what the next token is drawn from."""

import math
import struct


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
        self.known, self.own = {}, {}

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
        """A prompt: what spells a control token is that token."""
        return self.split(text.encode(), self.names)

    def spell(self, text):
        """Tokens whose pieces are this text, or None."""
        return self.split(text, self.pieces)

    def split(self, text, names):
        out = []
        while text:
            fits = [i for i, name in enumerate(names) if name and text.startswith(name)]
            if not fits:
                return None
            best = max(fits, key=lambda i: len(names[i]))
            out.append(best)
            text = text[len(names[best]) :]
        return out


# ==== The sampling chain ====

DEFAULTS = {
    "max_tokens": 512, "temp": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "typical": 1.0,
    "repeat_penalty": 1.0, "repeat_last_n": 64, "presence_penalty": 0.0, "frequency_penalty": 0.0,
    "ignore_eos": False, "hold": "minimal", "on_stuck": "fail", "stuck_mass": 0.001,
    "max_rewinds": -1, "max_evaluated": -1, "resample": "local",
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
        entropy = -math.fsum(x * math.log(x) for x in p.values() if x > 0)
        order = sorted(by_p(c), key=lambda i: abs(-math.log(p[i]) - entropy) if p[i] > 0 else math.inf)
        c = {i: c[i] for i in leading(order, p, lambda total: total > o["typical"])}
    if o["top_p"] < 1:
        p = softmax(c)
        c = {i: c[i] for i in leading(by_p(c), p, lambda total: total >= o["top_p"])}
    if o["min_p"] > 0:
        floor = max(c.values()) + math.log(o["min_p"])
        c = {i: x for i, x in c.items() if x >= floor}
    return c


def next_weights(o, logits, bans):
    """What the next token is drawn from: {id: probability}; empty when nothing is left. Bans and masks
    act before any truncation."""
    logits = {i: x for i, x in logits.items() if i not in bans and x > -math.inf}
    if not logits:
        return {}
    if o["temp"] == 0:
        return {min(logits, key=lambda i: (-logits[i], i)): 1.0}
    return softmax({i: x / o["temp"] for i, x in truncated(logits, o).items()})
