"""The cases of tests/data/laws.json: table models, settings, and the law that reference.py finds.

`python3 tests/law_cases.py` writes the file. Hand-made cases come first, one for each promise, then
random ones from a fixed seed. `python3 tests/law_cases.py --random N SEED FILE` writes N other random
cases somewhere else, for a longer comparison: laws FILE.
"""

import json
import pathlib
import random
import sys

import reference
from reference_languages import LANGUAGES

FILE = pathlib.Path(__file__).parent / "data" / "laws.json"
EOS = {"text": "</s>", "end": True}


def table(tokens, rows, **more):
    """rows: {context as a tuple of texts: {text: weight}}"""
    listed = [{"context": list(c), "next": n} for c, n in rows.items()]
    return dict({"tokens": tokens, "rows": listed}, **more)


MODELS = {
    "letters": table(["a", "b", "c", EOS], {(): {"a": 0.41, "b": 0.31, "c": 0.17, "</s>": 0.11}}),
    "skewed": table(
        ["a", "b", "c", "d", "e", EOS],
        {
            (): {"a": 0.47, "b": 0.23, "c": 0.13, "d": 0.08, "e": 0.05, "</s>": 0.04},
            ("a",): {"a": 0.05, "b": 0.06, "c": 0.38, "d": 0.27, "e": 0.21, "</s>": 0.03},
            ("b",): {"a": 0.33, "c": 0.3, "</s>": 0.37},
        },
    ),
    "ties": table(
        ["a", "b", "c", EOS],
        {(): {"b": 3, "c": 3, "</s>": 1}, ("b",): {"a": 2, "b": 2, "c": 2}, ("c",): {"</s>": 1}},
    ),
    "two": table(["a", "b", EOS], {(): {"a": 0.5, "b": 0.38, "</s>": 0.12}}),
    "pieces": table(
        ["a", "b", "ab", "ba", "abc", " c", EOS],
        {
            (): {"a": 0.3, "ab": 0.45, "ba": 0.25},
            ("a",): {"b": 0.6, "ba": 0.4},
            ("b",): {"ab": 0.55, " c": 0.25, "</s>": 0.2},
            ("ab",): {"a": 0.2, "abc": 0.5, " c": 0.3},
            ("ba",): {"b": 0.7, "</s>": 0.3},
            ("abc",): {"ba": 0.35, "</s>": 0.65},
            (" c",): {"abc": 0.4, "</s>": 0.6},
        },
    ),
    "bytes": table(
        ["e", {"bytes": [195]}, {"bytes": [169]}, "é", {"bytes": [195, 137]}, EOS],
        {
            (): {"e": 0.4, "1": 0.35, "é": 0.25},
            (1,): {"2": 0.7, "e": 0.2, "</s>": 0.1},
            (2,): {"1": 0.6, "4": 0.4},
            ("e",): {"é": 0.3, "1": 0.5, "</s>": 0.2},
            (4,): {"e": 0.3, "1": 0.2, "</s>": 0.5},
        },
    ),
    "special": table(
        ["x", "y", {"text": "<|c|>", "control": True}, EOS, {"text": "<|end|>", "end": True}],
        {
            (): {"x": 0.35, "y": 0.25, "<|c|>": 0.2, "</s>": 0.12, "<|end|>": 0.08},
            ("<|c|>",): {"y": 0.7, "x": 0.2, "<|end|>": 0.1},
        },
    ),
    "memory": table(
        ["a", "b", "c", EOS],
        {
            (): {"a": 0.5, "b": 0.3, "c": 0.2},
            ("a",): {"a": 0.1, "b": 0.7, "c": 0.2},
            ("a", "b"): {"c": 0.6, "a": 0.3, "</s>": 0.1},
            ("b", "c"): {"a": 0.2, "</s>": 0.8},
            ("c", "c"): {"</s>": 1},
        },
    ),
    "words": table(
        ["cat", "s", " ", "Cat", "con", EOS],
        {
            (): {"cat": 0.5, "con": 0.3, "Cat": 0.2},
            ("cat",): {"s": 0.45, " ": 0.3, "</s>": 0.25},
            ("Cat",): {"s": 0.4, "</s>": 0.6},
            ("con",): {"cat": 0.75, " ": 0.25},
            ("s",): {" ": 0.6, "</s>": 0.4},
        },
    ),
    "sharp": table(
        ["ß", "s", "S", "t", EOS],
        {
            (): {"s": 0.45, "ß": 0.3, "t": 0.25},
            ("s",): {"S": 0.5, "t": 0.3, "</s>": 0.2},
            ("t",): {"ß": 0.4, "s": 0.6},
        },
    ),
    "corner": table(
        ["u", "v", "w", "x", EOS],
        {
            (): {"u": 0.6, "v": 0.4},
            ("u",): {"w": 0.9993, "x": 0.0007},
            ("v",): {"w": 0.7, "x": 0.3},
            ("w",): {"x": 0.6, "</s>": 0.4},
            ("x",): {"u": 0.2, "</s>": 0.8},
        },
    ),
    "narrow": table(
        ["a", "b", "c", "d", EOS],
        {
            (): {"a": 0.7, "d": 0.3},
            ("a",): {"b": 1},
            ("b",): {"c": 0.99, "d": 0.01},
            ("c",): {"a": 0.5, "</s>": 0.5},
            ("d",): {"a": 0.6, "</s>": 0.4},
        },
    ),
    "chain": table(
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "x", EOS],
        {
            (): {"a": 0.7, "x": 0.3},
            **{(x,): {y: 0.9, "x": 0.1} for x, y in ("ab", "bc")},
            **{(x,): {y: 1} for x, y in ("cd", "de", "ef", "fg", "gh", "hi", "ij")},
            ("x",): {"</s>": 1},
            ("j",): {"</s>": 1},
        },
    ),
    "prose": table(
        ["a", "B", ". ", ".", " ", '"', EOS],
        {
            (): {"a": 0.3, "B": 0.2, ". ": 0.15, ".": 0.12, " ": 0.1, '"': 0.08, "</s>": 0.05},
            ("a",): {". ": 0.5, "a": 0.3, "</s>": 0.2},
            (" ",): {"a": 0.6, "B": 0.4},
            (". ",): {"a": 0.5, "B": 0.2, '"': 0.3},
        },
    ),
    "fences": table(
        ["x", "```", "\n", "y", "`", EOS],
        {
            (): {"x": 0.3, "```": 0.3, "y": 0.2, "</s>": 0.2},
            ("x",): {"\n": 0.5, "y": 0.3, "`": 0.2},
            ("y",): {"\n": 0.6, "</s>": 0.4},
            ("```",): {"\n": 0.6, "x": 0.2, "`": 0.2},
            ("\n",): {"```": 0.5, "x": 0.5},
            ("`",): {"\n": 1},
        },
    ),
    "quoted": table(
        ['"', "a", "b", 'b"', EOS],
        {
            (): {'"': 0.6, "a": 0.3, "b": 0.1},
            ('"',): {"a": 0.4, "b": 0.3, '"': 0.2, 'b"': 0.1},
            ("a",): {'"': 0.3, "b": 0.3, 'b"': 0.2, "</s>": 0.2},
            ("b",): {'"': 0.7, "</s>": 0.3},
        },
    ),
    "short": table(["a", "b", EOS], {(): {"a": 0.6, "b": 0.3, "</s>": 0.1}}, n_ctx=4),
}

PLAIN = {"temp": "1", "top_k": "0", "top_p": "1", "min_p": "0", "max_tokens": "3"}


def case(name, model, prompt="", rules=(), stops=(), bias=(), driver=None, **options):
    names = [r["name"] for r in rules]
    strategy = ([driver] * bool(driver) + [n for n in names if n != "phrases"] + names + ["sample"])[0]
    o = dict(PLAIN, **{k: str(v) for k, v in options.items()})
    out = {"name": name, "strategy": strategy, "model": model, "prompt": prompt, "options": o}
    for key, value in (("rules", rules), ("stops", stops), ("bias", bias)):
        if value:
            out[key] = list(value)
    if driver:
        out["driver"] = driver
    return out


def ban(*texts, **settings):
    pairs = [["text", t] for t in texts] + [[k, str(v)] for k, v in settings.items()]
    return {"name": "phrases", "settings": pairs}


def sampling():
    """Settings of the draw alone."""
    yield case("the model's own law", "letters")
    yield case("the model's own law, order 2", "memory", max_tokens=5)
    yield case("several ends and a control token", "special", max_tokens=3)
    yield case("a prompt", "memory", prompt="ab")
    yield case("bytes of characters", "bytes")
    yield case("one token", "skewed", max_tokens=1)
    yield case("context full", "short", prompt="ab", max_tokens=20)
    for t in ("0.3", "0.8", "1.7"):
        yield case(f"temperature {t}", "skewed", temp=t, max_tokens=2)
    yield case("temperature 0", "skewed", temp=0)
    yield case("temperature 0, ties", "ties", temp=0)
    yield case("temperature 0 with truncation", "skewed", temp=0, top_k=2, top_p="0.5", min_p="0.3")
    yield case("the program's defaults", "skewed", temp="0.8", top_k=40, top_p="0.95", min_p="0.05")
    for k in (1, 2, 3, 100):
        yield case(f"top-k {k}", "skewed", top_k=k, max_tokens=3)
    yield case("top-k, ties", "ties", top_k=1)
    for p in ("0.1", "0.5", "0.72", "0.9"):
        yield case(f"top-p {p}", "skewed", top_p=p, max_tokens=3)
    for p in ("0.07", "0.3", "0.65", "1"):
        yield case(f"min-p {p}", "skewed", min_p=p, max_tokens=3)
    for p in ("0.2", "0.5", "0.9"):
        yield case(f"typical {p}", "skewed", typical=p, max_tokens=3)
    many = {"top_k": 5, "typical": "0.93", "top_p": "0.85", "min_p": "0.1"}
    yield case("the whole chain", "skewed", temp="0.7", **many)
    yield case("the whole chain, hot", "skewed", temp="2.5", max_tokens=3, **many)
    yield case("truncation before temperature", "skewed", temp=4, top_p="0.6", max_tokens=3)
    yield case("repeat penalty", "skewed", repeat_penalty="1.3", max_tokens=3)
    yield case("repeat penalty sees the prompt", "skewed", prompt="ba", repeat_penalty="1.9")
    for n in (0, 1, 2, -1):
        more = {"repeat_last_n": n, "repeat_penalty": "1.6", "max_tokens": 3}
        yield case(f"repeat penalty, last {n}", "skewed", prompt="cb", **more)
    yield case("presence penalty", "skewed", presence_penalty="0.7")
    yield case("presence does not see the prompt", "skewed", prompt="ca", presence_penalty="0.7")
    yield case("frequency penalty", "skewed", frequency_penalty="0.4")
    yield case("frequency does not see the prompt", "skewed", prompt="aa", frequency_penalty="0.4")
    yield case("negative penalties", "letters", presence_penalty="-0.5", frequency_penalty="-0.25")
    yield case("repeat penalty below 1", "letters", repeat_penalty="0.8")
    three = {"repeat_penalty": "1.2", "presence_penalty": "0.3", "frequency_penalty": "0.2"}
    yield case("three penalties and top-p", "skewed", top_p="0.8", **three)
    yield case("bias", "letters", bias=[[1, "1.5"], [0, "-2"]])
    yield case("bias that bans", "letters", bias=[[0, "-inf"]])
    yield case("bias acts before truncation", "skewed", bias=[[0, "-inf"], [4, "3"]], top_k=2)
    yield case("bias and a penalty", "letters", bias=[[1, "1.5"]], repeat_penalty="1.5")
    yield case("end ignored", "letters", ignore_eos="true", max_tokens=3)
    yield case("end ignored, several ends", "special", ignore_eos="true", max_tokens=3)
    yield case("end ignored before truncation", "ties", ignore_eos="true", top_k=1, stuck_mass=0)
    yield case("stop text", "letters", stops=["ab"])
    yield case("stop text at once", "letters", stops=["a"])
    yield case("stop text over tokens", "pieces", stops=["bab"])
    yield case("stop text within a token", "pieces", stops=["bc"])
    yield case("two stop texts, the earliest end", "pieces", stops=["abc", "b"])
    yield case("two stop texts, the same end", "letters", stops=["b", "ab"])
    yield case("two stop texts, the same end, one token", "pieces", stops=[" c", "c", "b c"])
    yield case("two stop texts", "pieces", stops=["ba", "a c"])
    yield case("stop text at the last token", "letters", stops=["cc"], max_tokens=2)
    yield case("stop text of a character in bytes", "bytes", stops=["é"])
    yield case("stop text after a control token", "special", stops=["x"])
    yield case("everything held", "letters", stops=["ab"], hold="all")


def bans():
    """Hard bans."""
    yield case("one phrase", "letters", rules=[ban("ab")])
    yield case("a letter", "letters", rules=[ban("b")])
    yield case("phrases that overlap", "letters", rules=[ban("abc", "bca", "cc")])
    yield case("a phrase within a phrase", "letters", rules=[ban("abcb", "bc")])
    yield case("a phrase that begins again", "two", rules=[ban("aab")], max_tokens=4)
    yield case("bans cde and ff", "two", rules=[ban("aba", "bb")], max_tokens=4)
    yield case("never fires", "letters", rules=[ban("xyz", "q")])
    yield case("any split", "pieces", rules=[ban("abab")])
    yield case("starts within a token", "pieces", rules=[ban("ba")])
    yield case("ends within a token", "pieces", rules=[ban("b c")])
    yield case("within one token", "pieces", rules=[ban("bc")], max_tokens=3)
    yield case("the one that starts first", "pieces", rules=[ban("b", "aba")])
    yield case("the one that starts first, groups", "pieces", rules=[ban("b"), ban("aba")])
    yield case("the one that starts first, letters", "pieces", rules=[ban("ab", "bab", "abab")])
    yield case("two groups", "pieces", rules=[ban("ab c"), ban("bab")])
    yield case("two groups, same place", "pieces", rules=[ban("aba"), ban("abab", "ab ")])
    yield case("order 2", "memory", rules=[ban("abc")], max_tokens=4)
    yield case("begun in the prompt", "letters", prompt="ca", rules=[ban("ab")])
    yield case("begun in the prompt, longer", "letters", prompt="ab", rules=[ban("abca")])
    yield case("whole in the prompt", "letters", prompt="ab", rules=[ban("ab")], max_tokens=3)
    yield case("prompt after a control token", "special", prompt="x<|c|>", rules=[ban("xy")])
    yield case("prompt before a control token", "special", prompt="<|c|>x", rules=[ban("xy")])
    yield case("over a control token", "special", rules=[ban("xy", "yyx")])
    yield case("before an end", "special", rules=[ban("x")], max_tokens=3)
    yield case("bytes", "bytes", rules=[ban("é")])
    yield case("bytes, exact", "bytes", rules=[ban("É", case="exact")])
    yield case("bytes, over a border", "bytes", rules=[ban("eé", "ée")])
    yield case("folding", "words", rules=[ban("CAT")], max_tokens=3)
    yield case("exact case", "words", rules=[ban("Cat", case="exact")], max_tokens=3)
    yield case("sharp s", "sharp", rules=[ban("SST")])
    yield case("sharp s, half", "sharp", rules=[ban("tst", "ssss")])
    yield case("sharp s in the list", "sharp", rules=[ban("tß")])
    yield case("word", "words", rules=[ban("cat", word="true")])
    yield case("word, longer", "words", rules=[ban("cat cat", "cats", word="true")])
    yield case("word start", "words", rules=[ban("cat", word="start")])
    yield case("word and the prompt", "words", prompt="con", rules=[ban("cat", word="true")])
    yield case("word begun in the prompt", "words", prompt=" cat", rules=[ban("cats", word="true")])
    yield case("word whole in the prompt", "words", prompt="cat", rules=[ban("cat", word="true")])
    yield case("word at the last token", "words", rules=[ban("cat", word="true")], max_tokens=1)
    yield case("word, exact case", "words", rules=[ban("cat", word="true", case="exact")])
    yield case("word and stop", "words", rules=[ban("cat", word="true")], stops=["s"])
    yield case("word and stop, space", "words", rules=[ban("cat", word="true")], stops=[" "])
    yield case("at the last token", "letters", rules=[ban("abc")], max_tokens=3)
    yield case("ban before stop", "letters", rules=[ban("ab")], stops=["abc"])
    yield case("stop before ban", "letters", rules=[ban("abc")], stops=["ab"])
    yield case("stop and ban end together", "letters", rules=[ban("abc")], stops=["bc"])
    yield case("stop inside a token before the ban", "pieces", rules=[ban("bc")], stops=["ab"])
    yield case("ban inside a token before the stop", "pieces", rules=[ban("ab")], stops=["abc"])
    yield case("stop partly held", "letters", rules=[ban("ca")], stops=["bca", "cc"])
    yield case("context full", "short", prompt="a", rules=[ban("ab")], max_tokens=20)
    yield case("greedy", "skewed", rules=[ban("ac", "ad")], temp=0)
    yield case("greedy, no way on", "ties", rules=[ban("b", "c")], temp=0)
    yield case("retry keeps temperature", "skewed", rules=[ban("ac")], temp="0.6", max_tokens=3)
    more = {"repeat_penalty": "1.4", "frequency_penalty": "0.3"}
    yield case("penalties after an erase", "letters", rules=[ban("ab")], **more)
    cut = {"top_k": 2, "top_p": "0.7", "min_p": "0.2", "max_tokens": 3}
    yield case("bans before truncation", "skewed", rules=[ban("ac", "a", "ba")], **cut)
    yield case("bans and bias", "letters", rules=[ban("ab")], bias=[[1, "1.2"], [2, "-inf"]])
    yield case("bans and end ignored", "letters", rules=[ban("ab")], ignore_eos="true")


def soft():
    """Weights."""
    yield case("weight", "letters", rules=[ban("ab", weight="0.3")], max_tokens=3)
    yield case("weight at the last token", "letters", rules=[ban("ab", weight="0.3")], max_tokens=2)
    yield case("weight at an end", "pieces", rules=[ban("ab c", weight="0.6")], max_tokens=3)
    yield case("weight, word", "words", rules=[ban("cat", weight="0.25", word="true")], max_tokens=3)
    two = [ban("ab", weight="0.5"), ban("abc")]
    yield case("weight and a ban", "letters", rules=two)
    two = [ban("ab", weight="0.5"), ban("ab", weight="0.2")]
    yield case("two weights", "letters", rules=two, max_tokens=3)
    yield case("weight and stop", "letters", rules=[ban("a", weight="0.4")], stops=["ab"])


def stuck():
    """Dead ends."""
    for policy in ("fail", "stop", "allow"):
        for hold in ("minimal", "all"):
            more = {"on_stuck": policy, "hold": hold}
            name = f"{policy}, {hold}"
            yield case(f"all continuations, {name}", "narrow", rules=[ban("bc", "bd")], **more)
            end = [[2, "-inf"]]
            two = dict(more, max_tokens=2)
            yield case(f"at the start, {name}", "two", rules=[ban("a", "b")], bias=end, **two)
            yield case(f"two steps, {name}", "narrow", rules=[ban("abc", "abd")], max_tokens=6, **more)
            yield case(f"deep, {name}", "narrow", rules=[ban("ca", "da", "bd")], max_tokens=6, **more)
            yield case(f"little mass, {name}", "corner", rules=[ban("uw")], **more)
            yield case(f"nothing settles, {name}", "corner", rules=[ban("uwx", "vw", "ux")], **more)
            yield case(f"end banned, {name}", "ties", rules=[ban("cb", "bc", "bb", "ba")], **more)
    yield case("little mass is enough", "corner", rules=[ban("uw")], stuck_mass="0.0005")
    yield case("nothing is too little", "corner", rules=[ban("uw")], stuck_mass=0)
    yield case("enough mass", "letters", rules=[ban("a")], stuck_mass="0.58")
    yield case("not enough mass", "letters", rules=[ban("a")], stuck_mass="0.6")
    for policy in ("fail", "stop", "allow"):
        more = {"max_tokens": 12, "hold": "all", "on_stuck": policy}
        yield case(f"steps of 1, 2, 4, {policy}", "chain", rules=[ban("ij")], **more)
        yield case(f"steps to the start, {policy}", "chain", rules=[ban("ij", "ax", "x")], **more)
    yield case("much mass is too little", "letters", rules=[ban("ab")], stuck_mass="0.7")
    yield case("let through, then a stop", "corner", rules=[ban("w")], stops=["x"], on_stuck="allow")
    yield case("two ladders", "narrow", rules=[ban("bc", "bd"), ban("da")], on_stuck="allow", hold="all")


def budgets():
    for n in (0, 1, 2):
        yield case(f"{n} rewinds", "letters", rules=[ban("ab", "c")], max_rewinds=n, max_tokens=3)
    for n in (1, 2, 4):
        yield case(f"{n} evaluated", "letters", rules=[ban("bc")], max_evaluated=n, max_tokens=3)
    yield case("rewinds of the ladder", "narrow", rules=[ban("abc", "abd")], max_rewinds=3)


# ==== Random cases ====

WORDS = {
    "two": "ab",
    "letters": "abc", "pieces": "abc ", "bytes": "eéÉ", "special": "xy", "memory": "abc",
    "words": ["cat", "s", " ", "con", "CAT"], "sharp": ["ß", "s", "SS", "t"], "narrow": "abcd",
    "corner": "uvwx", "short": "ab",
}  # fmt: skip

PROMPTS = {
    "two": ["", "ab"], "letters": ["", "", "a", "cab"], "pieces": ["", "ab", "ba c"],
    "bytes": ["", "é", "eé"], "special": ["", "x<|c|>", "<|c|>yx"], "memory": ["", "ab"],
    "words": ["", "cat", "con ", "s cat"], "sharp": ["", "s", "tß"], "short": ["", "a", "ab"],
}  # fmt: skip


def text_of(rng, model, longest=3):
    return "".join(rng.choice(WORDS[model]) for _ in range(rng.randint(1, longest)))


def phrases_of(rng, model):
    s = {}
    if rng.random() < 0.3:
        s["case"] = rng.choice(["exact", "fold"])
    if rng.random() < 0.3:
        s["word"] = rng.choice(["true", "start"])
    if rng.random() < 0.2:
        s["weight"] = rng.choice(["0.2", "0.5", "0.75"])
    return ban(*[text_of(rng, model) for _ in range(rng.randint(1, 4))], **s)


def random_case(rng, number, others):
    import law_cases_rules  # which needs this file itself

    model = rng.choice(sorted(WORDS))
    o = {"max_tokens": rng.randint(1, 5), "on_stuck": rng.choice(["fail", "stop", "allow"])}
    o["hold"] = rng.choice(["minimal", "minimal", "all"])
    spice = {
        "temp": ["0", "0.5", "1.5"], "top_k": ["1", "2", "3"], "top_p": ["0.33", "0.77"],
        "min_p": ["0.21"], "typical": ["0.61"], "repeat_penalty": ["1.37"],
        "presence_penalty": ["0.45"], "frequency_penalty": ["0.35"], "ignore_eos": ["true"],
        "stuck_mass": ["0", "0.05", "0.35"], "max_rewinds": ["0", "1", "3"],
        "max_evaluated": ["1", "3"],
    }  # fmt: skip
    for key in spice:
        if rng.random() < 0.12:
            o[key] = rng.choice(spice[key])
    prompt = rng.choice(PROMPTS.get(model, [""]))
    stops = [text_of(rng, model) for _ in range(rng.choice([0, 0, 0, 1, 2]))]
    rules = [phrases_of(rng, model) for _ in range(rng.choice([0, 1, 1, 2] if others else [1, 1, 1, 2]))]
    for _ in range(rng.choice([1, 1, 2, 3]) if others else 0):
        at = rng.randint(0, len(rules))
        rules.insert(at, law_cases_rules.random_rule(rng, model, lambda: text_of(rng, model, 2)))
    return case(f"random {number}", model, prompt=prompt, rules=rules, stops=stops, **o)


def random_cases(seed, wanted, leaves):
    """Cases that are decided, small, and not all alike."""
    rng, number, out = random.Random(seed), 0, []
    while len(out) < wanted:
        number += 1
        c = random_case(rng, number, number % 4 != 0)
        try:
            law = reference.law(MODELS[c["model"]], c, leaves)
        except (reference.Unclear, reference.TooBig):
            continue
        c["law"] = reference.rows(law)
        out.append(c)
    return out


def document(seed=1, wanted=160, hand=True, leaves=150):
    cases = []
    import law_cases_rules  # which needs this file itself

    for source in (sampling, bans, soft, stuck, budgets, *law_cases_rules.sources) if hand else ():
        most = 700 if source in law_cases_rules.sources else 1500
        for c in source():
            try:
                c["law"] = reference.rows(reference.law(MODELS[c["model"]], c, most))
            except (reference.Unclear, reference.TooBig) as e:
                print(f"left out: {c['name']}: {e!r}", file=sys.stderr)
                continue
            cases.append(c)
    cases += random_cases(seed, wanted, leaves)
    used = {c["model"] for c in cases}
    models = {k: v for k, v in MODELS.items() if k in used}
    languages = {k: sorted(v) for k, v in LANGUAGES.items()}
    return {"models": models, "languages": languages, "cases": cases}


def written(doc):
    lines = [json.dumps(c, ensure_ascii=False) for c in doc["cases"]]
    models, languages = (json.dumps(doc[k], ensure_ascii=False) for k in ("models", "languages"))
    text = '{"models": %s,\n "languages": %s,\n "cases": [\n%s\n]}\n'
    return text % (models, languages, ",\n".join(lines))


def main(argv):
    if argv[:1] == ["--random"]:
        doc = document(int(argv[2]), int(argv[1]), hand=False, leaves=2000)
        pathlib.Path(argv[3]).write_text(written(doc))
    else:
        FILE.write_text(written(document()))


if __name__ == "__main__":
    main(sys.argv[1:])
