"""The rules, written a second time: each looks at whole token lists and whole texts, keeps nothing, and
says what it wants. See reference.py for what becomes of it."""

import functools
import math
import re
import unicodedata

from reference_languages import LANGUAGES
from reference_text import Unclear, characters, is_word, unfinished


class Proposal:
    """Go back to the place after `to` tokens. bans None: the token that led on from there."""

    def __init__(self, to, bans=None, soft=0, measure=0.0, force=None, end=0, others=()):
        self.to, self.bans, self.soft, self.measure = to, bans, soft, measure
        self.force, self.end, self.others = force, end, others
        self.rule = None  # its place in the list; the run fills it in


class Rule:
    """One that does nothing."""

    forces = constrains = False
    vague = False  # horizon says less than it could: no case where settling counts

    def judge(self, run, tokens, limit, ended):
        """After a push. ended: the newest token ends the answer."""
        return None

    def judge_end(self, run, tokens, kept, text):
        """The answer would end with `text`, of the first `kept` of the tokens."""
        return self.judge(run, kept, math.inf, False) if kept else None

    def review(self, run, tokens):
        """The distribution after the tokens is known."""
        return None

    def horizon(self, run, tokens):
        """The first position that may still be erased from here on."""
        return len(tokens)

    def admits(self, run, tokens, token):
        return True

    def shape(self, run, tokens, logits):
        return logits

    def scale(self, run, tokens):
        """A factor of all logits, after what all rules add."""
        return 1.0


# ==== Phrases ====


class Matcher(Rule):
    """What `phrases` and `replace` share: where texts stand in a text."""

    def __init__(self, texts, case, word):
        self.fold, self.word = case == "fold", word
        self.units = functools.lru_cache(maxsize=100000)(self.all_units)
        self.hits = functools.lru_cache(maxsize=100000)(self.all_hits)
        self.live = functools.lru_cache(maxsize=100000)(self.first_live)
        spelt = [[u[0] for u in self.units(t.encode(), True)] for t in texts]
        self.texts = [t for i, t in enumerate(spelt) if t not in spelt[:i]]

    def judge(self, run, tokens, limit, ended):
        """The hits that the newest token decided and that are complete before `limit`."""
        known = self.hits(run.before, run.text(tokens[:-1]), False)
        every = self.hits(run.before, run.text(tokens), ended)
        return self.object(run, tokens, every, {h for h in every - known if h[1] < limit})

    def judge_end(self, run, tokens, kept, text):
        known = self.hits(run.before, run.text(tokens), False)
        every = self.hits(run.before, text, True)
        return self.object(run, tokens, every, every - known)

    def horizon(self, run, tokens):
        start = self.live(run.before, run.text(tokens))
        return len(tokens) if start is None else run.holder(tokens, start)

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


class Phrases(Matcher):
    """The rule `phrases`: texts that must not appear, or not so often, or not everywhere."""

    def __init__(self, texts, s):
        super().__init__(texts, s.get("case", "fold"), s.get("word", "false"))
        self.weight, self.most = float(s.get("weight", 0)), int(s.get("max_count", 0))
        self.scope = {"answer": lambda *_: True, "outside-code": outside_code,
                      "sentence-start": sentence_start}[s.get("scope", "answer")]  # fmt: skip

    def object(self, run, tokens, every, fresh):
        text = run.before + run.text(tokens)
        counts = {h for h in every if self.scope(text, len(run.before) + h[0])}
        ends = sorted({h[1] for h in counts})[: self.most]
        # To max_count, phrases that end together are one hit; each is drawn for by itself.
        left = [h for h in sorted(fresh & counts) if h[1] not in ends]
        if self.weight:
            if len({h[:2] for h in left}) < len(left):
                raise Unclear("two hits of the same bytes")
            left = [h for h in left if run.choose([self.weight, 1 - self.weight]) == 1]
        places = [run.holder(tokens, h[0]) for h in left]
        return Proposal(places[0], end=left[0][1], others=places) if left else None


def lines_of(text):
    """(where a line begins, the line) for all of them."""
    out, at = [], 0
    for line in re.split("[\n\r]", text):
        out.append((at, line))
        at += len(line) + 1
    return out


def outside_code(text, at):
    """Does byte `at` stand outside fenced blocks?"""
    fence, inside = "", False
    for start, line in lines_of(text.decode("latin-1")):
        if start > at:
            break
        inside = bool(fence)
        if fence:
            m = re.fullmatch(r" {0,3}(`+|~+)[ \t]*", line)
            if m and m[1][0] == fence[0] and len(m[1]) >= len(fence):
                fence = ""
        else:
            m = re.match(r" {0,3}(`{3,}|~{3,})(.*)", line)
            if m and not (m[1][0] == "`" and "`" in m[2]):
                fence = m[1]
    return not inside


def sentence_start(text, at):
    """Does the first letter from byte `at` on begin a sentence?"""
    state = "start"
    for point, start, _ in characters(text, True):
        c = chr(point) if point < 0x110000 else "x"
        mark = unicodedata.category(c) in ("Ps", "Pe", "Pi", "Pf", "Pd") or c in "\"'*_~`#>•¡¿"
        if start >= at and not mark and not c.isspace():
            return state == "start"
        if c in "\n\r\x85\u2028\u2029。！？":
            state = "start"
        elif c in ".!?…":
            state = "end"
        elif c.isspace():
            state = "start" if state == "end" else state
        elif not mark:
            state = "inside"
    return False


class Replace(Matcher):
    """The rule `replace`: another text instead of one."""

    forces = True

    def __init__(self, s):
        super().__init__([s["find"]], s.get("case", "exact"), s.get("word", "false"))
        self.text = s.get("replace", "").encode()
        self.most, self.skip = int(s.get("max_replacements", -1)), int(s.get("skip_tokens", 0))
        self.late, self.prob = int(s.get("max_new_tokens_for_replace", -1)), float(s.get("max_prob", 1))

    def object(self, run, tokens, every, fresh):
        mine = [x for x in run.spans if run.rules[x.rule] is self]
        put = max([len(run.text(tokens[: x.start + x.length])) for x in mine], default=-math.inf)
        for start, end in sorted(h[:2] for h in fresh):
            k = run.holder(tokens, start)
            if start < put or (self.most >= 0 and len(mine) >= self.most):
                continue
            if k < self.skip or (start < 0 and self.skip > 0):
                continue
            if 0 <= self.late < len(tokens) or run.model(tokens[:k])[tokens[k]] > self.prob:
                continue
            before = len(run.text(tokens[:k]))
            text = run.text(tokens)[before:start] + self.text if start >= 0 else b""
            return Proposal(k, force=run.table.spell(text), end=end)
        return None


class Regex(Rule):
    """The rule `regex`, for whole ASCII characters and patterns that need to see one character
    behind a match at most."""

    vague = True

    def __init__(self, patterns, case):
        flags = re.ASCII | (re.IGNORECASE if case == "fold" else 0)
        self.patterns = [(p, p.startswith(("^", r"\A"))) for p in patterns]
        self.hits = functools.lru_cache(maxsize=100000)(self.all_hits)
        self.flags = flags

    def shortest(self, pattern, text, start, ended):
        """Where the shortest match from `start` on ends, or None."""
        for end in range(start + 1, len(text) + 1):
            decided = ended or end < len(text) or not pattern.endswith((r"\b", "$", ")"))
            rest = r"(?=[\s\S]{%d}\Z)" % (len(text) - end)
            if decided and re.compile("(?:%s)%s" % (pattern, rest), self.flags).match(text, start):
                return end
        return None

    def all_hits(self, before, text, ended):
        out = set()
        for pattern, anchored in self.patterns:
            if pattern.endswith("$") and not ended:
                continue
            seen = b"" if anchored else before
            whole = (seen + text).decode("ascii")
            for start in range(len(whole)):
                end = self.shortest(pattern, whole, start, ended)
                if end is not None and end > len(seen):
                    out.add((start - len(seen), end - len(seen)))
        return out

    def judge(self, run, tokens, limit, ended):
        fresh = self.hits(run.before, run.text(tokens), ended)
        fresh -= self.hits(run.before, run.text(tokens[:-1]), False)
        return self.object(run, tokens, {h for h in fresh if h[1] < limit})

    def judge_end(self, run, tokens, kept, text):
        known = self.hits(run.before, run.text(tokens), False)
        return self.object(run, tokens, self.hits(run.before, text, True) - known)

    def object(self, run, tokens, hits):
        places = [run.holder(tokens, h[0]) for h in sorted(hits)]
        return Proposal(places[0], end=min(hits)[1], others=places) if hits else None

    def horizon(self, run, tokens):
        return 0


# ==== Constraints ====


class Grammar(Rule):
    """The rules `grammar` and `json`: the answer is one of these texts."""

    constrains = True

    def __init__(self, language):
        self.language = language
        self.beginnings = {t[:i] for t in language for i in range(len(t) + 1)}

    def admits(self, run, tokens, token):
        text, piece = run.text(tokens), run.table.pieces[token]
        if run.table.end[token]:
            return text in self.language
        return bool(piece) and text + piece in self.beginnings

    def judge(self, run, tokens, limit, ended):
        if self.admits(run, tokens[:-1], tokens[-1]):
            return None
        return Proposal(len(tokens) - 1)

    def judge_end(self, run, tokens, kept, text):
        return None


# ==== Operators ====


class Operator(Rule):
    """After every n-th token a test; when it fires, so many tokens are taken back."""

    preset, back = {}, 1

    def __init__(self, s):
        self.s = {k: type(v)(s.get(k, v)) for k, v in self.preset.items()}
        self.back = int(s.get("backtrack_count", self.back))
        self.every = int(s.get("every_n", s.get("backtrack_every_n", 1)))
        self.resample = s.get("retry", "exclude") == "resample"
        self.sampled = s.get("on", "model") == "sampled"
        self.retries = int(s.get("max_retries", 16))
        self.prompt = s.get("prompt", "false") == "true"

    def judge(self, run, tokens, limit, ended):
        if not tokens or len(tokens) % self.every:
            return None
        measure = self.fires(run, tokens)
        if measure is None:
            return None
        to = max(0, len(tokens) - self.count(run, tokens))
        return Proposal(to, () if self.resample else None, self.retries, measure)

    def judge_end(self, run, tokens, kept, text):
        return None  # the token has been judged

    def count(self, run, tokens):
        return self.back

    def horizon(self, run, tokens):
        test = (len(tokens) // self.every + 1) * self.every
        return max(0, min(len(tokens), test - self.back))

    def drawn(self, run, tokens, n):
        """What token n was drawn from: its law and the logits; None when that is not known."""
        if not self.sampled:
            return run.model(tokens[:n]), run.table.logits(run.prompt + tokens[:n])
        node = run.root
        for t in tokens[: n + 1]:
            node = node.children[t]
        temp = run.o["temp"] or 1.0
        return node.sampled and (node.sampled[0], {i: x / temp for i, x in node.sampled[1].items()})

    def p(self, run, tokens, n):
        law = self.drawn(run, tokens, n)
        return law and law[0].get(tokens[n], 0.0)


class ProbabilityThreshold(Operator):
    preset = {"min_probability": 0.05}

    def fires(self, run, tokens):
        p = self.p(run, tokens, len(tokens) - 1)
        return p if p is not None and p < self.s["min_probability"] else None


class LogitThreshold(Operator):
    preset = {"min_logit": -20.0}

    def fires(self, run, tokens):
        law = self.drawn(run, tokens, len(tokens) - 1)
        return law[1][tokens[-1]] if law and law[1][tokens[-1]] < self.s["min_logit"] else None


class Place(Operator):
    """Tests the place the token was drawn at: an earlier choice must be there to change."""

    back = 2

    def fires(self, run, tokens):
        if len(tokens) < max(2, self.back):
            return None
        law = self.drawn(run, tokens, len(tokens) - 1)
        return law and self.test([p for p in law[0].values() if p > 0])

    def horizon(self, run, tokens):
        """A place that has passed passes again, whatever is drawn there."""
        passed = run.gone_on(tokens) and not self.sampled
        passed = passed and self.test([p for p in run.model(tokens).values() if p > 0]) is None
        test = ((len(tokens) + passed) // self.every + 1) * self.every
        return max(0, min(len(tokens), test - self.back))


class EntropyThreshold(Place):
    preset = {"max_entropy": 0.2}

    def test(self, p):
        entropy = -math.fsum(x * math.log(x) for x in p)
        return -entropy if entropy > self.s["max_entropy"] else None


class ProbabilityMargin(Place):
    preset = {"min_margin": 0.05}

    def test(self, p):
        if len(p) < 2:
            return None
        first, second = sorted(p)[-1], sorted(p)[-2]
        return first - second if first - second < self.s["min_margin"] else None


class ProbabilityDrop(Operator):
    preset = {"max_drop": 0.8}

    def fires(self, run, tokens):
        if len(tokens) < 2:
            return None
        last, p = self.p(run, tokens, len(tokens) - 2), self.p(run, tokens, len(tokens) - 1)
        if last is None or p is None:
            return None
        return p / last if p < last * (1 - self.s["max_drop"]) else None


class ProbabilityTrend(Operator):
    preset = {"window_size": 10, "drop_threshold": 0.5}

    def fires(self, run, tokens):
        n, window = len(tokens) - 1, self.s["window_size"]
        known = [self.p(run, tokens, i) for i in range(max(0, n - window), n)]
        known = [p for p in known if p is not None]
        p = self.p(run, tokens, n)
        if p is None or len(known) < window // 2:
            return None
        mean = math.fsum(known) / len(known)
        return p / mean if p < mean * self.s["drop_threshold"] else None


class Repetition(Operator):
    preset = {"max_repetitions": 3}

    def length(self, run, tokens):
        all_of_them = (run.prompt if self.prompt else []) + tokens
        n = 0
        while n < len(all_of_them) and all_of_them[-1 - n] == tokens[-1]:
            n += 1
        return n

    def fires(self, run, tokens):
        n = self.length(run, tokens)
        return -n if n > self.s["max_repetitions"] else None

    def count(self, run, tokens):
        """Back to the first copy too many of those that no test has let stand."""
        extra = self.length(run, tokens) - self.s["max_repetitions"]
        return max(self.back, min(extra, self.every))

    def horizon(self, run, tokens):
        test = (len(tokens) // self.every + 1) * self.every
        return max(0, min(len(tokens), test - max(self.back, self.every)))


class NgramOverlap(Operator):
    preset = {"ngram_size": 4}

    def fires(self, run, tokens):
        s, n = (run.prompt if self.prompt else []) + tokens, self.s["ngram_size"]
        copies = sum(s[i : i + n] == s[-n:] for i in range(len(s) - n))
        return -copies if len(s) > n and copies else None


OPERATORS = {
    "probability-threshold": ProbabilityThreshold, "logit-threshold": LogitThreshold,
    "entropy-threshold": EntropyThreshold, "probability-margin": ProbabilityMargin,
    "probability-drop": ProbabilityDrop, "probability-trend": ProbabilityTrend,
    "repetition": Repetition, "ngram-overlap": NgramOverlap,
}  # fmt: skip


# ==== Shapers ====

FAR = 1e6  # a logit lowered by this is drawn only when nothing else is left


class AdaptiveTemperature(Rule):
    def __init__(self, s):
        preset = {"c4": -0.037, "c3": 0.481, "c2": -2.3, "c1": 4.917, "c0": -1.791}
        self.c = [float(s.get(k, v)) for k, v in preset.items()]
        self.threshold = float(s.get("threshold", 0.5))

    def scale(self, run, tokens):
        h = -math.fsum(p * math.log(p) for p in run.model(tokens).values() if p > 0)
        c4, c3, c2, c1, c0 = self.c
        polynomial = c4 * h**4 + c3 * h**3 + c2 * h**2 + c1 * h + c0
        return max(1.0, polynomial) if h > self.threshold else 1.0


class Dry(Rule):
    """What would go on repeating becomes less probable."""

    def __init__(self, s):
        self.multiplier, self.base = float(s.get("multiplier", 0.8)), float(s.get("base", 1.75))
        self.allowed, self.last = int(s.get("allowed_length", 2)), int(s.get("last", 0))
        self.prompt = s.get("prompt", "true") == "true"
        self.breakers = [s["breaker"]] if "breaker" in s else ["\n", ":", '"', "*"]

    def breaks(self, run, token):
        return any(b.encode() in run.table.names[token] for b in self.breakers)

    def shape(self, run, tokens, logits):
        said = (run.prompt if self.prompt else []) + tokens
        said = said[-self.last :] if self.last else said
        longest = {}
        for at in range(1, len(said)):  # where a token stands that might come again
            n = 0
            while n < at and said[at - 1 - n] == said[-1 - n] and not self.breaks(run, said[-1 - n]):
                n += 1
            longest[said[at]] = max(longest.get(said[at], 0), n)
        out = dict(logits)
        for token, n in longest.items():
            if n >= self.allowed and not self.breaks(run, token):
                out[token] -= self.multiplier * self.base ** (n - self.allowed)
        return out


class Creative(Rule):
    forces = True

    def __init__(self, s):
        self.flat, self.needed = float(s.get("top_p_flat", 0.65)), int(s.get("top_k_threshold_flat", 9))
        self.penalty, self.forced = float(s.get("eos_penalty", 0.8)), float(s.get("forced", 0.99))
        self.reach, self.retries = int(s.get("reach", 32)), int(s.get("max_retries", 1))

    def best(self, run, tokens):
        p = run.model(tokens)
        return min(p, key=lambda i: (-p[i], i))

    def gives_way(self, run, tokens):
        """The most probable token, when it is to give way after these tokens."""
        best, text = self.best(run, tokens), run.text(tokens)
        broken = any(unfinished(text[i:]) for i in range(len(text)))
        end = run.table.end[best]
        return None if end or broken or run.model(tokens)[best] > self.forced else best

    def shape(self, run, tokens, logits):
        out, best = dict(logits), self.gives_way(run, tokens)
        for i, end in enumerate(run.table.end):
            if end:
                out[i] += math.log(self.penalty) if self.penalty else -FAR
        if best is not None:
            out[best] -= FAR
        return out

    def choices(self, run, tokens):
        """The first and the last choice of the stretch: where another token was drawn than the one
        that had given way. None: there is none, or the stretch is over here."""
        first = last = None
        for n in range(len(tokens)):
            best = self.gives_way(run, tokens[:n])
            if best is None or tokens[n] == best:
                continue
            first, last = (n if first is None or n >= first + self.reach else first), n
        return None if first is None or len(tokens) > first + self.reach else (first, last)

    def review(self, run, tokens):
        found = self.choices(run, tokens)
        if found is None or not self.flat:
            return None
        n = found[1]
        # Flat: one token fewer than so many do not reach the bound. The less flat, the better the try.
        few = sorted(run.model(tokens).values(), reverse=True)[: self.needed - 1]
        if math.fsum(few) >= self.flat:
            return None
        return Proposal(n, None, self.retries, math.fsum(few), [self.best(run, tokens[:n])])

    def horizon(self, run, tokens):
        found = self.choices(run, tokens)
        over = found and len(tokens) + run.gone_on(tokens) > found[0] + self.reach
        return len(tokens) if found is None or over else found[0]


OTHERS = {**OPERATORS, "adaptive-temperature": AdaptiveTemperature, "creative": Creative,
          "replace": Replace, "dry": Dry,
          "debug": lambda s: Rule()}  # fmt: skip


def make_rule(rule):
    s = {}
    for name, value in rule["settings"]:
        s.setdefault(name, []).append(value)
    last = {k: v[-1] for k, v in s.items()}
    if rule["name"] == "phrases":
        return Phrases(s["text"], last)
    if rule["name"] in ("grammar", "json"):
        return Grammar({t.encode("latin-1") for t in LANGUAGES[rule["language"]]})
    if rule["name"] == "regex":
        return Regex(s["pattern"], last.get("case", "exact"))
    return OTHERS[rule["name"]](last)
