"""Bigram chains and backward sampling on table models, written a second time in whole fractions.

What include/retrace.h says under "Bigram chains" and "Backward sampling", with nothing rounded but the
model's own logits: so identities of the mathematics are equalities here, and what the program prints can
be held against numbers that no floating point has touched.
"""

import math
from fractions import Fraction

from reference_model import Table

START = -1  # the candidate "the text starts here"


class Chain:
    """A table model with an anchor: P of any text, and pi. A table has nothing that stands before a
    document, so the document start is the empty sequence."""

    def __init__(self, spec, anchor=(), start=True):
        self.table = Table(spec)
        self.unused = [bool(isinstance(t, dict) and t.get("unused")) for t in spec["tokens"]]
        self.n = len(self.table.names)
        self.anchor = tuple(anchor)
        self.start = start
        self.known = {}
        self.rows = [self.row(v) for v in range(self.n)]
        self.pi = long_run(self.rows, self.law(()))
        self.pi_start = sum((self.pi[v] for v in range(self.n) if self.table.end[v]), Fraction(0))

    def law(self, before):
        """The distribution after a sequence."""
        logits = tuple(self.table.logits(list(before)))
        if logits not in self.known:
            weights = [Fraction(math.exp(x)) for x in logits]
            total = sum(weights)
            self.known[logits] = [w / total for w in weights]
        return self.known[logits]

    def row(self, v):
        """P(w | v): what follows a token after the anchor, or what begins a document."""
        return self.law(()) if self.table.end[v] else self.law((*self.anchor, v))

    def text(self, before, text):
        p, before = Fraction(1), tuple(before)
        for token in text:
            p *= self.law(before)[token]
            before += (token,)
        return p

    # ==== One step ====

    def candidates(self):
        special = [a or b or c for a, b, c in zip(self.table.end, self.table.control, self.unused)]
        return [v for v in range(self.n) if not special[v]] + [START] * self.start

    def prior(self, v):
        return self.pi_start if v == START else self.pi[v]

    def likelihood(self, v, suffix):
        return self.text((), suffix) if v == START else self.text((*self.anchor, v), suffix)

    def scores(self, suffix):
        """The score of every candidate that has one."""
        found = {v: self.prior(v) * self.likelihood(v, suffix) for v in self.candidates()}
        return {v: x for v, x in found.items() if x > 0}

    def z(self, suffix):
        return sum(self.scores(suffix).values(), Fraction(0))

    # ==== Whole texts ====

    def f(self, text, started=False):
        if started:
            return self.pi_start * self.text((), text)
        return self.pi[text[0]] * self.text((*self.anchor, text[0]), text[1:])

    def rho(self, text):
        return self.z(text) / self.f(text)

    def leaves(self, suffix, depth):
        """All that sampling up to `depth` tokens can end in: (text, started, q)."""
        out, open_texts = [], [(tuple(suffix), Fraction(1))]
        for _ in range(depth):
            longer = []
            for text, q in open_texts:
                z = self.z(text)
                for v, score in self.scores(text).items():
                    if v == START:
                        out.append((text, True, q * score / z))
                    else:
                        longer.append(((v, *text), q * score / z))
            open_texts = longer
        return out + [(text, False, q) for text, q in open_texts]


# ==== The long-run law ====


def long_run(rows, first):
    """How often each state is met in the long run when the first one is drawn from `first`: each closed
    class by the chance of ending up in it, and its own stationary law."""
    n = len(rows)
    reach = [closure(rows, v) for v in range(n)]
    closed = [all(v in reach[w] for w in reach[v]) for v in range(n)]
    pi = [Fraction(0)] * n
    for v in range(n):
        members = sorted(reach[v])
        if not closed[v] or members[0] != v:
            continue
        share = ending_in(rows, first, closed, set(members))
        for w, p in zip(members, stationary(rows, members)):
            pi[w] = share * p
    return pi


def closure(rows, v):
    found, new = {v}, [v]
    while new:
        row = rows[new.pop()]
        for w, p in enumerate(row):
            if p > 0 and w not in found:
                found.add(w)
                new.append(w)
    return found


def ending_in(rows, first, closed, members):
    """The chance of being absorbed by a closed class: h = P h with h 1 there and 0 in the others."""
    states = [v for v in range(len(rows)) if not closed[v]]
    a = [[Fraction(v == w) - rows[v][w] for w in states] for v in states]
    b = [sum((rows[v][w] for w in members), Fraction(0)) for v in states]
    h = dict(zip(states, solve(a, b)))
    return sum(p * h.get(v, Fraction(v in members)) for v, p in enumerate(first))


def stationary(rows, members):
    k = len(members)
    a = [[rows[w][v] - Fraction(v == w) for w in members] for v in members]
    a[k - 1] = [Fraction(1)] * k
    return solve(a, [Fraction(0)] * (k - 1) + [Fraction(1)])


def solve(a, b):
    n = len(b)
    m = [row[:] + [x] for row, x in zip(a, b)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if m[i][k] != 0)
        m[k], m[pivot] = m[pivot], m[k]
        m[k] = [x / m[k][k] for x in m[k]]
        for i in range(n):
            if i != k and m[i][k] != 0:
                m[i] = [x - m[i][k] * y for x, y in zip(m[i], m[k])]
    return [row[n] for row in m]


def log(x):
    """Of a fraction of any size."""
    if x == 0:
        return -math.inf
    shift = x.numerator.bit_length() - x.denominator.bit_length()
    return math.log(x / Fraction(2) ** shift) + shift * math.log(2)
