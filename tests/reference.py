"""The semantics of a run, written a second time: small, slow and independent of the C code.

The tree of places with its bans, soft rules and forced text, stop texts, the settled mark, the ladder out
of dead ends, policies and budgets, each as docs/architecture.md states it. The model and the draw are in
reference_model.py, the rules in reference_rules.py.
Everything is recomputed from whole texts at every step; nothing is incremental, so that it can be
checked by reading. `law` walks every outcome of chance and adds up probabilities.

Where the rules leave something open, `Unclear` is raised instead of guessing: no case with such a
situation is written to tests/data/laws.json (see tests/test_reference.py, which makes that file).
"""

import json
import math

from reference_model import DEFAULTS, Table, next_weights, penalised, softmax
from reference_rules import make_rule
from reference_text import Unclear, unfinished


class TooBig(Exception):
    """More outcomes than the caller wants to walk."""


# ==== Runs ====


class Node:
    """A place: what is banned there, and what soft rules and forces have come to there."""

    def __init__(self, parent=None, token=None):
        self.parent, self.token = parent, token
        self.children, self.bans, self.draws, self.exempt = {}, set(), 0, False
        self.soft = {}  # token: the soft rules that banned it
        self.tries, self.best = {}, {}  # by rule: how many; (measure, tokens from here on)
        self.spent, self.forced = set(), set()  # rules
        self.sampled = None  # what led here was drawn from this: (weights, logits)

    def path(self):
        node, out = self, []
        while node.parent:
            out.append(node)
            node = node.parent
        return out[::-1]

    def child(self, token):
        return self.children.setdefault(token, Node(self, token))

    def banned(self):
        return self.bans | set(self.soft)


class Span:
    """Forced text in the answer: its first position and what had led on from there."""

    def __init__(self, start, rule, token, soft):
        self.start, self.rule, self.token, self.soft, self.length = start, rule, token, soft, 0

    def holds(self, position):
        return self.start <= position < self.start + self.length


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
        self.asked, self.reviewed = set(), False
        self.stuck_at, self.episode = -1, None
        self.queue, self.forcing, self.spans = [], None, []
        n = options["max_tokens"]
        self.max_rewinds = 4 * n + 1024 if options["max_rewinds"] < 0 else options["max_rewinds"]
        self.max_evaluated = (
            16 * n + 1024 if options["max_evaluated"] < 0 else options["max_evaluated"]
        )

    # What stands at the head.

    def tokens(self, node=None):
        return [x.token for x in (node or self.head).path()]

    def places(self):
        return [self.root] + self.head.path()

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

    def model(self, tokens):
        """The model's own law after these tokens."""
        key = tuple(tokens)
        if key not in self.table.own:
            self.table.own[key] = softmax(dict(enumerate(self.table.logits(self.prompt + tokens))))
        return self.table.own[key]

    def admitted(self, tokens):
        """What all constraints allow next."""
        every = set(range(len(self.table.names)))
        for rule in self.rules:
            if rule.constrains:
                every = {i for i in every if rule.admits(self, tokens, i)}
        return every

    def gone_on(self, tokens):
        """Is this a place before the head?"""
        return len(tokens) < len(self.tokens())

    # Settling.

    def horizon(self, tokens):
        text = self.text(tokens)
        starts = []
        for stop in self.stops:
            starts += [i for i in range(len(text)) if stop.startswith(text[i:])][:1]
        starts += [i for i in range(len(text)) if unfinished(text[i:])][:1]
        places = [self.holder(tokens, s) for s in starts]
        places += [r.horizon(self, tokens) for r in self.rules]
        least = min(places, default=len(tokens))
        # A force is taken back as a whole.
        while any(s.start < least and s.holds(least) for s in self.spans):
            least = min(s.start for s in self.spans if s.holds(least))
        return min(least, len(tokens))

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

    def stop_cut(self, tokens, start):
        """The tokens of an answer that ends before byte `start`."""
        n = 0
        while n < len(tokens) - 1 and len(self.text(tokens[: n + 1])) <= start:
            n += 1
        return tokens[: n + (len(self.text(tokens[:n])) < start)]

    def judge(self, tokens, limit, ended, skip=None):
        """After a push: what each rule but `skip` says, hits complete before `limit` only."""
        length = len(self.text(tokens))
        out = []
        for i, rule in enumerate(self.rules):
            p = None if i == skip else rule.judge(self, tokens, limit, ended)
            if p and (p.end or length) < limit:
                p.rule = i
                out.append(p)
        return out

    def judge_end(self, tokens, kept, text, skip=None):
        """The answer would end with `text`, of `kept` tokens: what only its end decides."""
        out = []
        for i, rule in enumerate(self.rules):
            p = None if i == skip else rule.judge_end(self, tokens, kept, text)
            if p:
                p.rule = i
                out.append(p)
        return out

    def counting(self, proposals):
        """Without those that are ignored or let through."""
        nodes, out = self.places(), []
        for p in proposals:
            if p.soft and p.rule in nodes[p.to].spent:
                continue
            if nodes[p.to].exempt:
                if any(not nodes[q].exempt for q in p.others):
                    raise Unclear("an exempt hit hides another one of the same rule")
                self.accepted += 1
                continue
            out.append(p)
        return out

    def decide(self, proposals):
        """"back" when the head has moved, "budget" when it must not, else None."""
        left = self.counting(proposals)
        hard = any(not p.soft for p in left)
        nodes, tokens = self.places(), self.tokens()
        while left:
            p = min(left, key=lambda q: (q.to, q.rule))
            if not p.soft:
                return self.go_back(p, [q for q in left if q.to == p.to])
            node = nodes[p.to]
            best = node.best.get(p.rule)
            if not hard and (best is None or p.measure > best[0]):
                best = node.best[p.rule] = p.measure, tokens[p.to :]
            if self.may_retry(p, node, tokens):
                return self.go_back(p, [q for q in left if q.to == p.to])
            node.spent.add(p.rule)
            self.accepted += 1
            other = best and best[1] != tokens[p.to :]
            if other and (hard or best[0] > p.measure):
                return self.put_back(p.to, best[1])
            left.remove(p)
        return None

    def bans_of(self, p, tokens):
        if p.force and p.rule not in self.places()[p.to].forced:
            return set(p.bans or ())
        return {tokens[p.to]} if p.bans is None else set(p.bans)

    def may_retry(self, p, node, tokens):
        bans = self.bans_of(p, tokens)
        if node.tries.get(p.rule, 0) >= p.soft:
            return False
        if bans:
            kept = self.free_mass(tokens[: p.to], node.banned() | bans)
            if kept <= 0 or kept < self.o["stuck_mass"]:
                return False
        share = 0.75 * (p.to + 1) / (self.o["max_tokens"] + 1)
        return (
            self.rewinds < self.max_rewinds * share and len(self.asked) < self.max_evaluated * share
        )

    # Moving.

    def go_back(self, best, united):
        if self.rewinds >= self.max_rewinds:
            return "budget"
        tokens, nodes = self.tokens(), self.places()
        node = nodes[best.to]
        force = best.force if best.rule not in node.forced else None
        for p in united:
            bans = self.bans_of(p, tokens)
            if p.soft:
                node.tries[p.rule] = node.tries.get(p.rule, 0) + 1
                for t in bans:
                    node.soft.setdefault(t, set()).add(p.rule)
            else:
                node.bans |= bans
        if best.soft:
            for x in nodes[best.to : -1]:
                x.draws = max(0, x.draws - 1)
        self.rewinds += 1
        self.erase(best.to)
        if force and self.head is node:
            node.forced.add(best.rule)
            self.queue = list(force)
            self.forcing = Span(best.to, best.rule, tokens[best.to], best.soft)
            self.spans.append(self.forcing)
        return "back"

    def put_back(self, to, tokens):
        if self.rewinds >= self.max_rewinds:
            raise Unclear("no rewind is left to put the best try back")
        self.rewinds += 1
        self.erase(to)
        if to == len(self.tokens()):
            self.queue = list(tokens)
        return "back"

    def erase(self, to):
        """Moves the head back; a force whose token is the first to go is taken back as a whole."""
        self.queue, self.forcing = [], None
        nodes = self.places()
        for span in reversed(self.spans):
            if span.holds(to):
                self.withdraw(span, nodes[span.start])
                to = span.start
        self.spans = [s for s in self.spans if s.start < to]
        self.head, self.reviewed = nodes[to], False

    def withdraw(self, span, node):
        if span.soft:
            node.soft.setdefault(span.token, set()).add(span.rule)
        else:
            node.bans.add(span.token)

    def give_up_force(self):
        """The next forced token may not stand where it should."""
        span = self.forcing
        nodes = self.places()
        self.withdraw(span, nodes[span.start])
        self.spans.remove(span)
        if len(nodes) > span.start + 1:
            self.rewinds += 1
        self.erase(span.start)

    def free_mass(self, tokens, bans):
        """The model's own probability of what is not banned, over what constraints admit."""
        p, admitted = self.model(tokens), self.admitted(tokens)
        total = math.fsum(p[i] for i in admitted)
        free = math.fsum(p[i] for i in admitted if i not in bans)
        return free / total if total else 0.0

    def too_little(self, tokens, bans, weights):
        """Is the place exhausted: too little of the model's own mass unbanned, or nothing to draw?"""
        free = self.free_mass(tokens, bans)
        never = {i for i, x in self.o["bias"] if x == -math.inf}
        if self.o["ignore_eos"]:
            never |= {i for i, end in enumerate(self.table.end) if end}
        rest = self.free_mass(tokens, bans | never)
        if weights and (free < self.o["stuck_mass"]) != (rest < self.o["stuck_mass"]):
            raise Unclear("does the mass of tokens that no ban keeps away count?")
        return free < self.o["stuck_mass"] or not weights

    def ladder(self):
        """Out of a dead end. Returns how the run ends, or None when it goes on."""
        if self.o["hold"] != "all" and any(r.vague for r in self.rules):
            raise Unclear("how far back may the ladder go?")
        d = len(self.tokens())
        if d > self.stuck_at:
            self.step, self.episode, self.stuck_at = 1, self.head, d
        else:
            self.step *= 2
        back = min(self.step, d - self.settled)
        if back > 0:
            if self.rewinds >= self.max_rewinds:
                return self.done("budget", self.settled_text())
            self.rewinds += 1
            nodes = self.places()
            nodes[d - back].bans.add(nodes[d - back + 1].token)
            return self.erase(d - back)
        if self.o["on_stuck"] == "fail":
            return self.done("stuck", self.settled_text())
        tokens = self.tokens(self.episode)
        if self.o["on_stuck"] == "stop":
            if self.judge_end(tokens, tokens, self.text(tokens)):
                raise Unclear("a stuck answer that ends with a banned word")
            return self.done("stuck", self.text(tokens))
        if self.episode.exempt:
            raise Unclear("stuck again where everything was allowed")
        if self.spans or any(r.forces for r in self.rules):
            raise Unclear("a force and `allow`")
        self.head, self.stuck_at, self.reviewed = self.episode, -1, False
        self.head.bans, self.head.exempt, self.head.draws = set(), True, 0
        return None

    def settled_text(self):
        if self.o["hold"] != "all" and any(r.vague for r in self.rules):
            raise Unclear("what has settled?")
        return self.text(self.tokens()[: self.settled])

    def done(self, finish, text):
        return text, finish, self.accepted > 0

    def review(self):
        out, tokens = [], self.tokens()
        for i, rule in enumerate(self.rules):
            own = any(s.rule == i and s.holds(len(tokens) - 1) for s in self.spans)
            p = None if own else rule.review(self, tokens)
            if p:
                p.rule = i
                out.append(p)
        return self.decide(out)

    def turn(self):
        """Puts one more token there and judges it. Returns how the run ends, or None."""
        tokens = self.tokens()
        if self.head not in self.asked and tokens:
            if len(self.asked) >= self.max_evaluated:
                return self.done("budget", self.settled_text())
            self.asked.add(self.head)
        if not self.reviewed:
            self.reviewed = True
            moved = self.review()
            if moved:
                return self.done("budget", self.settled_text()) if moved == "budget" else None
        if self.queue:
            return self.put_next(tokens)
        drawn = self.draw(tokens)
        if drawn is None:
            return self.ladder()
        weights, logits, token = drawn
        self.head.draws += 1
        self.head = self.head.child(token)
        self.head.sampled = weights, logits
        return self.verdict(tokens + [token])

    def put_next(self, tokens):
        """A token that is forced or put back: no chance."""
        token, span = self.queue[0], self.forcing
        if span and (token in self.head.banned() or token not in self.admitted(tokens)):
            return self.give_up_force()
        if not span and token in self.head.bans:
            self.queue = []
            return None
        self.queue = self.queue[1:]
        self.head = self.head.child(token)
        if span:
            span.length += 1
            self.head.sampled = None
            self.forcing = span if self.queue else None
        return self.verdict(tokens + [token], span.rule if span else None)

    def draw(self, tokens):
        """(weights, edited logits, token), or None at a dead end. Soft bans give way."""
        while True:
            weights, logits, little = self.next(tokens)
            if not little and self.head.draws < 256:
                break
            if not self.head.soft:
                return None
            for rules in self.head.soft.values():
                self.head.spent |= rules
            self.head.soft = {}
        ids = sorted(weights)
        token = ids[0] if self.o["temp"] == 0 else ids[self.choose([weights[i] for i in ids])]
        return weights, logits, token

    def next(self, tokens):
        """(weights, edited logits, is there too little?), with the bans of the head."""
        bans = frozenset(self.head.banned())
        key = tuple(tokens), bans
        if key not in self.table.known:
            out = bans | (set(range(len(self.table.names))) - self.admitted(tokens))
            logits = penalised(self.table, self.table.logits(self.prompt + tokens), self.o,
                               self.prompt, tokens)  # fmt: skip
            for rule in self.rules:
                logits = rule.shape(self, tokens, logits)
            for rule in self.rules:
                logits = {i: x * rule.scale(self, tokens) for i, x in logits.items()}
            weights = next_weights(self.o, logits, out)
            self.table.known[key] = weights, logits, self.too_little(tokens, bans, weights)
        return self.table.known[key]

    def ending(self, tokens, stop):
        """(finish, tokens, text) when the answer would end here, else None."""
        text = self.text(tokens)
        if stop and not self.table.end[tokens[-1]]:
            if stop[0] == stop[1]:
                return "stop", tokens[:-1], text
            return "stop", self.stop_cut(tokens, stop[0]), text[: stop[0]]
        if self.table.end[tokens[-1]]:
            return "end", tokens, text
        full = len(self.prompt) + len(tokens) >= self.table.n_ctx
        if full or len(tokens) >= self.o["max_tokens"]:
            return "length", tokens, text
        return None

    def verdict(self, tokens, skip=None):
        stop = self.found_stop(tokens)
        self.reviewed = False
        ended = self.table.end[tokens[-1]]
        moved = self.decide(self.judge(tokens, stop[1] if stop else math.inf, ended, skip))
        end = None if moved else self.ending(tokens, stop)
        if end and not ended:
            moved = self.decide(self.judge_end(tokens, end[1], end[2], skip))
        if moved:
            return self.done("budget", self.settled_text()) if moved == "budget" else None
        if end:
            return self.done(end[0], end[2])
        self.settle()
        return None

    def finish(self):
        while (result := self.turn()) is None:
            pass
        return result


# ==== Exact ====


class Exact(Run):
    """resample=exact, from its definition: the base law, given that no rule objects."""

    def base(self, tokens):
        """Tokens with their weights; at temperature 0 the most probable first."""
        logits = penalised(self.table, self.table.logits(self.prompt + tokens), self.o,
                           self.prompt, tokens)  # fmt: skip
        if self.o["temp"] > 0:
            return sorted(next_weights(self.o, logits, set()).items())
        live = [i for i in logits if logits[i] > -math.inf]
        return [(i, 1.0) for i in sorted(live, key=lambda i: (-logits[i], i))]

    def rejected(self, tokens):
        """Does a rule object, here or because the answer ends here? And the answer, if it does."""
        stop = self.found_stop(tokens)
        if self.judge(tokens, stop[1] if stop else math.inf, self.table.end[tokens[-1]]):
            return True, None
        end = self.ending(tokens, stop)
        if end and not self.table.end[tokens[-1]] and self.judge_end(tokens, end[1], end[2]):
            return True, None
        return False, end and (end[2], end[0], False)

    def leaves(self, tokens, p):
        """The accepted answers after these tokens with their share of the base law."""
        for token, w in self.base(tokens):
            dead, answer = self.rejected(tokens + [token])
            if answer:
                yield answer, p * w
            elif not dead:
                yield from self.leaves(tokens + [token], p * w)

    def law(self):
        if self.o["temp"] == 0:
            first = next(self.leaves([], 1.0), None)
            return {first[0]: 1.0} if first else {(b"", "stuck", False): 1.0}
        total = {}
        for answer, p in self.leaves([], 1.0):
            total.setdefault(answer, []).append(p)
        mass = math.fsum(p for ps in total.values() for p in ps)
        if mass == 0:
            return {(b"", "stuck", False): 1.0}
        return {k: math.fsum(ps) / mass for k, ps in total.items()}


# ==== Laws ====


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
    if options["resample"] == "exact":
        return Exact(table, options, prompt, rules, case.get("stops", []), None).law()
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
