"""The cases of tests/data/laws.json that concern the rules beside `phrases`."""

from law_cases import ban, case
from reference_languages import LANGUAGES


# Settings by which an operator fires now and then on the models "skewed" and "memory".
FIRES = {
    "probability-threshold": {"min_probability": "0.21"},
    "logit-threshold": {"min_logit": "-1.55"},
    "entropy-threshold": {"max_entropy": "1.15"},
    "probability-margin": {"min_margin": "0.15"},
    "probability-drop": {"max_drop": "0.4"},
    "probability-trend": {"window_size": "2", "drop_threshold": "0.7"},
    "repetition": {"max_repetitions": "1"},
    "ngram-overlap": {"ngram_size": "2"},
}


def rule(name, **settings):
    return {"name": name, "settings": [[k, str(v)] for k, v in settings.items()]}


def operator(name, **settings):
    return rule(name, **{**FIRES[name], **settings})


def operators():
    for name in FIRES:
        place = name in ("entropy-threshold", "probability-margin")
        n = 3 if not place else 2

        def one(what, model="memory", *others, _name=name, _n=n, settings=None, **options):
            o = {"max_tokens": _n + (model == "two"), **options}
            rules = [operator(_name, **(settings or {})), *others]
            return case(f"{_name}: {what}", model, rules=rules, **o)

        yield one("defaults but for the threshold", max_tokens=3)
        yield one("another model", "letters" if place else "skewed", settings={"max_retries": 1}, max_tokens=2)
        yield one("two tokens only", "two", max_tokens=3)
        yield one("one retry", settings={"max_retries": 1}, max_tokens=3)
        yield one("drawn again", settings={"retry": "resample", "max_retries": 2})
        yield one("drawn again, once", "ties", settings={"retry": "resample", "max_retries": 1})
        yield one("on what was drawn from", settings={"on": "sampled"}, top_k=2)
        yield one("on what was drawn from, hot", "skewed", settings={"on": "sampled", "max_retries": 1},
                  temp="1.5", max_tokens=2)  # fmt: skip
        yield one("every second token", settings={"every_n": 2, "max_retries": 2}, max_tokens=4)
        yield one("three tokens back", settings={"backtrack_count": 3, "max_retries": 1}, max_tokens=3)
        yield one("two tokens back", settings={"backtrack_count": 2, "max_retries": 1}, max_tokens=3)
        yield one("temperature 0", "skewed", temp=0, max_tokens=6)
        yield one("temperature 0, on what was drawn from", "skewed", settings={"on": "sampled"}, temp=0)
        yield one("temperature 0, ties", "ties", temp=0, max_tokens=5)
        yield one("and a phrase", "memory", ban("ab"), max_tokens=n)
        yield one("and a letter", "two", ban("b"))
        yield one("and a weight", "two", ban("ab", weight="0.5"), settings={"max_retries": 1}, max_tokens=2)
        yield one("and a stop text", "two", stops=["ba"])
        yield one("much mass is too little", stuck_mass="0.5", max_tokens=3)
        yield one("few rewinds", max_rewinds=4, max_tokens=3)
        for policy in ("fail", "stop", "allow"):
            yield one(f"stuck with bans, {policy}", "narrow", ban("bc", "bd"), on_stuck=policy, max_tokens=4)
    for count in (True, False):
        s = {"prompt": "true"} if count else {}
        yield case(f"repetition: {'with' if count else 'without'} the prompt", "two", prompt="ba",
                   rules=[operator("repetition", **s)])  # fmt: skip
        yield case(f"ngram-overlap: {'with' if count else 'without'} the prompt", "two", prompt="aba",
                   rules=[operator("ngram-overlap", **s)])  # fmt: skip
    yield case("repetition: the default", "two", rules=[rule("repetition")], max_tokens=6)
    yield case("repetition: every third", "two", rules=[operator("repetition", every_n=3)], max_tokens=6)
    two = [operator("repetition"), operator("ngram-overlap")]
    yield case("repetition: and another operator", "two", rules=two, max_tokens=4)
    two = [operator("probability-threshold", max_retries=1), operator("entropy-threshold", max_retries=1)]
    yield case("probability-threshold: and a place", "memory", rules=two)
    two = [operator("probability-drop", max_retries=2), ban("c")]
    yield case("probability-drop: and a letter, ", "skewed", rules=two, max_tokens=2)
    three = [operator("probability-margin", max_retries=1), operator("repetition", max_retries=1), ban("cc")]
    yield case("probability-margin: three in a row", "ties", rules=three)


def shapers():
    def creative(what, model, *others, settings=None, **options):
        rules = [rule("creative", **(settings or {})), *others]
        return case(f"creative: {what}", model, rules=rules, **options)

    flat = {"top_k_threshold_flat": 2}
    yield creative("never flat", "skewed")
    yield creative("never flat, no penalty", "letters", settings={"eos_penalty": 1})
    yield creative("the end is out", "letters", settings={"eos_penalty": 0}, max_tokens=2)
    yield creative("the end is all there is", "ties", settings={"eos_penalty": 0})
    yield creative("flat", "memory", settings=flat, max_tokens=4)
    yield creative("flat, skewed", "skewed", settings=flat)
    yield creative("flat, two", "two", settings=flat, max_tokens=5)
    yield creative("flat everywhere", "letters", settings=dict(flat, top_p_flat="0.9"), max_tokens=4)
    yield creative("flat, forced", "narrow", settings=dict(flat, forced="0.8"), max_tokens=5)
    yield creative("forced above 0.65", "corner", settings=dict(flat, forced="0.65"), max_tokens=5)
    for n in (1, 2):
        yield creative(f"reach {n}", "narrow", settings=dict(flat, reach=n, top_p_flat="0.7"), max_tokens=5)
        yield creative(f"reach {n}, memory", "memory", settings=dict(flat, reach=n), max_tokens=5)
    yield creative("bytes", "bytes", settings=flat, max_tokens=4)
    yield creative("temperature 0", "skewed", settings=flat, temp=0, max_tokens=6)
    yield creative("temperature 0, memory", "memory", settings=flat, temp=0, max_tokens=6)
    yield creative("hot", "skewed", settings=dict(flat, eos_penalty=1), temp="1.5", top_k=3)
    yield creative("truncated to one", "skewed", settings=flat, top_k=1)
    for word in "abc":
        yield creative(f"and the letter {word}", "memory", ban(word), settings=flat, max_tokens=4)
    yield creative("and phrases", "memory", ban("ab", "ca"), settings=flat, max_tokens=4)
    yield creative("and phrases behind it", "skewed", ban("ac", "bb", "ad"), settings=flat, max_tokens=2)
    yield creative("and stop texts", "memory", stops=["bc", "ca"], settings=flat, max_tokens=4)
    two = operator("repetition", max_retries=1)
    yield creative("and an operator", "two", two, settings=flat, max_tokens=4)
    two = operator("probability-threshold", max_retries=1)
    yield creative("and another operator", "memory", two, settings=flat, max_tokens=3)
    for policy in ("fail", "stop"):
        more = {"on_stuck": policy, "hold": "all", "max_tokens": 4}
        yield creative(f"stuck with bans, {policy}", "narrow", ban("bc", "bd"), settings=flat, **more)
    adaptive = rule("adaptive-temperature")
    for model in ("skewed", "letters", "two", "memory"):
        yield case(f"adaptive-temperature: {model}", model, rules=[adaptive])
    yield case("adaptive-temperature: hot", "skewed", rules=[adaptive], temp="1.7", max_tokens=2)
    yield case("adaptive-temperature: temperature 0", "ties", rules=[adaptive], temp=0)
    yield case("adaptive-temperature: top-p after it", "skewed", rules=[adaptive], top_p="0.8")
    high = rule("adaptive-temperature", threshold="1.3")
    yield case("adaptive-temperature: threshold", "skewed", rules=[high])
    line = rule("adaptive-temperature", c4=0, c3=0, c2=0, c1=1, c0="0.5", threshold=0)
    yield case("adaptive-temperature: a line", "memory", rules=[line])
    yield case("adaptive-temperature: and a phrase", "letters", rules=[adaptive, ban("ab")])
    both = [adaptive, rule("creative", **flat)]
    yield case("adaptive-temperature: then creative", "memory", rules=both)
    yield case("adaptive-temperature: after creative", "memory", rules=both[::-1])
    for model in ("two", "letters", "memory"):
        yield case(f"dry: {model}", model, rules=[rule("dry", allowed_length=1)], max_tokens=4)
    yield case("dry: the published settings", "two", rules=[rule("dry")], max_tokens=6)
    strong = rule("dry", multiplier=3, allowed_length=1, base="2.5")
    yield case("dry: strong", "two", rules=[strong], max_tokens=6)
    yield case("dry: of the prompt", "letters", prompt="abcab", rules=[strong], max_tokens=2)
    own = rule("dry", multiplier=3, prompt="false", allowed_length=1)
    yield case("dry: not of the prompt", "letters", prompt="abcab", rules=[own], max_tokens=3)
    near = rule("dry", multiplier=3, allowed_length=1, last=3)
    yield case("dry: the last three", "two", prompt="abab", rules=[near], max_tokens=4)
    yield case("dry: breakers", "fences", prompt="x\nx", rules=[strong], max_tokens=3)
    yield case("dry: a breaker of one's own", "two", prompt="aba",
               rules=[rule("dry", multiplier=3, allowed_length=1, breaker="b")], max_tokens=4)  # fmt: skip
    yield case("dry: temperature 0", "skewed", rules=[strong], temp=0, max_tokens=12)
    yield case("dry: pieces", "pieces", rules=[strong], max_tokens=4)
    yield case("dry: and a phrase", "two", rules=[strong, ban("aab")], max_tokens=4)
    yield case("dry: and adaptive-temperature", "skewed", rules=[strong, adaptive], max_tokens=3)
    yield case("debug", "letters", rules=[rule("debug")], max_tokens=2)
    yield case("debug: and a phrase", "letters", rules=[rule("debug", top=3), ban("ab")])


# ==== Places and counts ====


def scopes():
    for n in (1, 2):
        yield case(f"at most {n}", "two", rules=[ban("ab", max_count=n)], max_tokens=5)
        yield case(f"at most {n} letters", "letters", rules=[ban("b", max_count=n)], max_tokens=4)
    yield case("at most 1 of two", "two", rules=[ban("a", "bb", max_count=1)], max_tokens=4)
    yield case("at most 1, overlapping", "two", rules=[ban("aa", max_count=1)], max_tokens=4)
    yield case("at most 1, ending together", "two", rules=[ban("ab", "b", max_count=1)], max_tokens=4)
    yield case("at most 1, in one token", "pieces", rules=[ban("b", "c", max_count=1)], max_tokens=3)
    yield case("at most 2, in one token", "pieces", rules=[ban("a", "bc", max_count=2)], max_tokens=3)
    yield case("at most 1, the prompt's is none", "two", prompt="ab", rules=[ban("ab", max_count=1)], max_tokens=4)
    yield case("at most 1, begun in the prompt", "two", prompt="a", rules=[ban("ab", max_count=1)], max_tokens=4)
    yield case("at most 1, word", "words", rules=[ban("cat", max_count=1, word="true")], max_tokens=4)
    yield case("at most 1, folded", "words", rules=[ban("CAT", max_count=1)], max_tokens=4)
    yield case("at most 1, weight", "two", rules=[ban("a", max_count=1, weight="0.4")], max_tokens=3)
    yield case("at most 1, greedy", "skewed", rules=[ban("ac", max_count=1)], temp=0, max_tokens=8)
    yield case("at most 1, and a stop", "two", rules=[ban("a", max_count=1)], stops=["bab"], max_tokens=5)
    yield case("at most 1, and a letter", "letters", rules=[ban("ab", max_count=1), ban("c")], max_tokens=4)
    for policy in ("fail", "stop", "allow"):
        more = {"on_stuck": policy, "hold": "all", "max_tokens": 5}
        yield case(f"at most 1, stuck, {policy}", "narrow", rules=[ban("b", max_count=1)], **more)
    for text in ("a", "B", "ab", ". b", '"a'):
        found = ban(text, scope="sentence-start")
        yield case(f"sentence start: {text}", "prose", rules=[found], max_tokens=2 + (len(text) > 1))
        yield case(f"sentence start after a prompt: {text}", "prose", prompt="a.", rules=[found], max_tokens=3)
    yield case("sentence start, word", "prose", rules=[ban("a", scope="sentence-start", word="true")], max_tokens=2)
    yield case("sentence start, at most 1", "prose", rules=[ban("a", scope="sentence-start", max_count=1)], max_tokens=3)
    for text in ("x", "y", "xy", "x`", "``"):
        found = ban(text, scope="outside-code")
        yield case(f"outside code: {text}", "fences", rules=[found], max_tokens=5)
        yield case(f"outside code after a prompt: {text}", "fences", prompt="```\n", rules=[found], max_tokens=4)
    yield case("outside code, at most 1", "fences", rules=[ban("x", scope="outside-code", max_count=1)], max_tokens=5)
    yield case("outside code, weight", "fences", rules=[ban("x", scope="outside-code", weight="0.5")], max_tokens=4)


# ==== Forced text ====


def forces():
    def replace(what, model, find, text, *others, settings=None, **options):
        rules = [rule("replace", find=find, replace=text, **(settings or {})), *others]
        return case(f"replace: {what}", model, rules=rules, **{"max_tokens": 4, "hold": "all", **options})

    yield replace("a letter", "letters", "a", "b", max_tokens=3)
    yield replace("a longer text", "letters", "ab", "cc")
    yield replace("by more", "letters", "ab", "ccc", max_tokens=3)
    yield replace("by itself", "letters", "ab", "ab")
    yield replace("by a text with it", "letters", "a", "cac")
    yield replace("by nothing", "two", "ab", "")
    yield replace("by what no tokens spell", "letters", "ab", "x", max_tokens=3)
    yield replace("within a token", "pieces", "bc", "a", max_tokens=3)
    yield replace("over tokens", "pieces", "bab", "b", max_tokens=4)
    yield replace("from within a token", "pieces", "ba", " c", max_tokens=3)
    yield replace("two at once", "pieces", "a", "ba", max_tokens=3)
    yield replace("begun in the prompt", "two", "ab", "bb", prompt="a")
    yield replace("the prompt's is none", "two", "ab", "bb", prompt="ab")
    yield replace("folded", "words", "CAT", "con", settings={"case": "fold"}, max_tokens=3)
    yield replace("a word", "words", "cat", "con", settings={"word": "true"}, max_tokens=3)
    yield replace("a word at the end", "words", "cat", "con", settings={"word": "true"}, max_tokens=2)
    yield replace("bytes", "bytes", "é", "e", max_tokens=3)
    yield replace("by bytes", "bytes", "e", "é", max_tokens=3)
    for n in (0, 1, 2):
        yield replace(f"at most {n}", "two", "ab", "ba", settings={"max_replacements": n}, max_tokens=5)
    for n in (1, 2):
        yield replace(f"not the first {n}", "two", "a", "b", settings={"skip_tokens": n})
        yield replace(f"in the first {n}", "two", "a", "b", settings={"max_new_tokens_for_replace": n})
        yield replace(f"not the first {n}, prompt", "two", "ab", "bb", prompt="a", settings={"skip_tokens": n})
    for p in ("0.45", "0.4", "0.5"):
        yield replace(f"up to {p}", "two", "ab", "bb", settings={"max_prob": p}, max_tokens=3)
    yield replace("temperature 0", "skewed", "ac", "ba", temp=0, max_tokens=8)
    yield replace("temperature 0, by itself", "skewed", "a", "a", temp=0, max_tokens=8)
    yield replace("cut by the end", "letters", "c", "abab", max_tokens=2)
    yield replace("cut by a stop text", "letters", "c", "abab", stops=["ba"])
    yield replace("a stop text in what is found", "letters", "ab", "cc", stops=["b"])
    yield replace("a stop text over the border", "letters", "b", "ac", stops=["cb", "ca"])
    yield replace("and its last letter", "letters", "ab", "cb", ban("b"), max_tokens=3)
    yield replace("and its first letter", "two", "ab", "ba", ban("b"), max_tokens=3)
    yield replace("and a phrase over the border", "letters", "ab", "cb", ban("bb"), max_tokens=3)
    yield replace("and a phrase with what precedes", "two", "ab", "bb", ban("bbb"), max_tokens=4)
    yield replace("and a phrase behind it", "two", "ab", "bb", ban("bba"))
    yield replace("and a phrase, stuck", "narrow", "bc", "bd", ban("da"), max_tokens=5)
    yield replace("and a phrase, stop", "narrow", "bc", "bd", ban("da"), max_tokens=5, on_stuck="stop")
    yield replace("two of them", "letters", "a", "b", rule("replace", find="b", replace="c"), max_tokens=3)
    yield replace("in a circle", "letters", "a", "b", rule("replace", find="b", replace="a"), max_tokens=3)
    yield replace("of the same", "letters", "a", "b", rule("replace", find="a", replace="c"), max_tokens=3)
    yield replace("one within the other", "two", "ab", "bb", rule("replace", find="b", replace="aa"), max_tokens=4)
    yield replace("streamed", "letters", "ab", "cc", ban("cb"), hold="minimal", max_tokens=3)
    yield replace("streamed, stuck", "narrow", "bc", "bd", ban("da"), max_tokens=5, hold="minimal")
    for name in ("repetition", "ngram-overlap", "probability-threshold"):
        yield replace(f"and {name}", "two", "ab", "bb", operator(name, max_retries=1), max_tokens=4)
    yield replace("and probability-drop on what was drawn", "two", "ab", "ba",
                  operator("probability-drop", on="sampled", max_retries=1), max_tokens=3)  # fmt: skip
    yield replace("and probability-trend on what was drawn", "two", "ab", "ba",
                  operator("probability-trend", on="sampled", max_retries=1), max_tokens=3)  # fmt: skip
    yield replace("and repetition behind it", "two", "ab", "bb", operator("repetition"), max_tokens=5)
    flat = rule("creative", top_k_threshold_flat=2)
    yield replace("and creative", "memory", "ab", "cb", flat, max_tokens=4)
    yield replace("and creative, two", "two", "ba", "bb", flat, max_tokens=4)


# ==== Patterns ====


def regexes():
    def one(what, model, patterns, *others, settings=None, **options):
        pairs = [["pattern", p] for p in patterns] + [[k, v] for k, v in (settings or {}).items()]
        rules = [{"name": "regex", "settings": pairs}, *others]
        return case(f"regex: {what}", model, rules=rules, **{"max_tokens": 3, **options})

    for p in ("ab", "a.", "[ab]b", "a+b", "(a|c)c", "a?bc", "b{2,}", "ab*c", "(?<=a)b", "(?<!a)b", "a(?=b)",
              "a(?!b)", "^ab", "^b", "ab$", "[^ab]$", "^a.*c$", "(ab)+", "a|bb", "c.?a"):  # fmt: skip
        yield one(p, "letters", [p])
    for p in ("aba", "b.*c", "ba|bc", "b[a ]", "a$", "^ab", "[abc]{4}"):
        yield one(f"{p} over tokens", "pieces", [p], max_tokens=3, hold="all")
        yield one(f"{p} after a prompt", "pieces", [p], prompt="ab", max_tokens=2, hold="all")
    for p in (r"\bcat", r"cat\b", r"\bcats?\b", r"\w+cat", r"s\b", r"cat\s"):
        yield one(f"{p} in words", "words", [p], max_tokens=3)
        yield one(f"{p} after a word", "words", [p], prompt="con", max_tokens=2)
    yield one("folded", "words", ["CAT"], settings={"case": "fold"})
    yield one("two patterns", "two", ["ab", "b."])
    yield one("two rules", "two", ["ab"], rule("regex", pattern="bb|ba"))
    yield one("and a phrase", "two", ["a.b"], ban("bb"), max_tokens=4)
    yield one("and a stop text", "letters", ["a.b"], stops=["ab"], max_tokens=4)
    yield one("and a stop text within", "pieces", ["b.*c"], stops=["ab"])
    yield one("and a stop text at its end", "letters", ["abc"], stops=["bc"])
    yield one("and a stop text before its end", "letters", ["ab$"], stops=["c"])
    yield one("and an operator", "two", ["ab"], operator("repetition"), max_tokens=4)
    yield one("and replace", "two", ["bb"], rule("replace", find="a", replace="bb"), hold="all")
    yield one("and a grammar", "letters", ["ab"], grammar('root ::= [ab]+ " c"?'))
    yield one("temperature 0", "skewed", ["a[cd]"], temp=0, max_tokens=6)
    for policy in ("fail", "stop", "allow"):
        more = {"on_stuck": policy, "hold": "all", "max_tokens": 5}
        yield one(f"stuck, {policy}", "narrow", ["b[cd]"], **more)
        yield one(f"stuck at the start, {policy}", "narrow", ["^[ad]"], **more)


# ==== Constraints ====


def grammar(text):
    gbnf = text.encode("latin-1").decode() if "\xc3" in text else text
    return dict(rule("grammar", text=gbnf), language=text)


def json_of(schema):
    return dict(rule("json", schema=schema), language=schema)


def grammars():
    texts = [t for t in LANGUAGES if t.startswith("root")]

    def one(what, model, text, *others, first=(), **options):
        rules = [*first, grammar(texts[text]), *others]
        return case(f"grammar: {what}", model, rules=rules, **{"max_tokens": 4, **options})

    for i, text in enumerate(texts):
        for model in ("letters", "pieces", "bytes", "ties")[: 1 if "^" in text else 4]:
            yield one(f"{text} on {model}", model, i)
    yield one("an ending that cannot come", "memory", 1, max_tokens=6)
    yield one("both ways out banned", "letters", 0, ban("ab"), ban("ac"))
    for policy in ("fail", "stop", "allow"):
        for hold in ("minimal", "all"):
            more = {"on_stuck": policy, "hold": hold, "max_tokens": 3}
            yield one(f"stuck, {policy}, {hold}", "two", 6, ban("ba"), **more)
    yield one("and a phrase", "letters", 3, ban("aa"), max_tokens=6)
    yield one("and its end", "two", 1, ban("ab"), max_tokens=3)
    yield one("temperature 0", "skewed", 1, temp=0, max_tokens=8)
    yield one("temperature 0, ends", "letters", 3, temp=0, max_tokens=8)
    yield one("top-k before it", "skewed", 4, top_k=1)
    yield one("top-p before it", "skewed", 0, top_p="0.5")
    yield one("min-p before it", "letters", 2, min_p="0.5")
    yield one("the improbable only", "corner", 3, bias=[[0, "-3"]])
    yield one("stuck mass is of what is admitted", "two", 1, ban("ab"), stuck_mass="0.3", max_tokens=3)
    yield one("stuck mass is too much", "letters", 0, ban("ab"), stuck_mass="0.5")
    yield one("a stop text", "letters", 3, stops=["ab", "ca"])
    yield one("a prompt", "letters", 0, prompt="cab")
    yield one("the end ignored", "letters", 2, ignore_eos="true")
    yield one("two of them", "letters", 1, grammar(texts[2]))
    yield one("two that agree on nothing", "letters", 0, grammar(texts[6]))
    yield one("a control token", "special", 4)
    yield one("and replace", "letters", 4, rule("replace", find="ab", replace="bb"), hold="all")
    yield one("and replace that is not admitted", "letters", 1, rule("replace", find="aa", replace="c"), hold="all")
    yield one("and replace at its end", "letters", 2, rule("replace", find="c", replace="ba"), hold="all")
    yield one("and an operator", "letters", 4, operator("repetition"), max_tokens=3)
    yield one("and an operator that would leave it", "letters", 1, operator("probability-threshold"))
    yield one("and creative", "letters", 4, rule("creative", top_k_threshold_flat=2))
    yield one("and creative on a narrow way", "letters", 3, first=[rule("creative", top_k_threshold_flat=2)])
    yield one("penalties", "letters", 1, repeat_penalty="1.5", frequency_penalty="0.4")


def jsons():
    def one(what, schema, *others, **options):
        rules = [json_of([t for t in LANGUAGES if t.startswith("{")][schema]), *others]
        return case(f"json: {what}", "quoted", rules=rules, **{"max_tokens": 4, **options})

    for i in (0, 1):
        yield one(f"schema {i}", i)
        yield one(f"schema {i}, temperature 0", i, temp=0)
        yield one(f"schema {i} and a phrase", i, ban("a"))
        yield one(f"schema {i} and the end of a text", i, ban('a"'))
        yield one(f"schema {i}, exact", i, ban("ab"), resample="exact", max_tokens=3)


# ==== Exact ====


def exact():
    def one(what, model, *rules, **options):
        more = {"resample": "exact", "max_tokens": 3, **options}
        return case(f"exact: {what}", model, rules=rules, **more)

    yield one("without rules", "letters")
    yield one("a phrase", "letters", ban("ab"))
    yield one("two phrases", "two", ban("ab", "bb"))
    yield one("a letter", "two", ban("b"), max_tokens=4)
    yield one("the last token", "two", ban("aba"))
    yield one("pieces", "pieces", ban("bab"), max_tokens=2)
    yield one("words", "words", ban("cat", word="true"), max_tokens=2)
    yield one("a prompt", "two", ban("aba"), prompt="ab", max_tokens=3)
    yield one("a stop text", "two", ban("bab"), stops=["ba"], max_tokens=4)
    yield one("order 2", "memory", ban("abc"), max_tokens=4)
    yield one("narrow", "narrow", ban("bc"), max_tokens=5)
    yield one("nothing is left", "narrow", ban("b", "d"), max_tokens=3)
    yield one("nothing is left, two", "two", ban("a", "b"), bias=[[2, "-inf"]])
    yield one("truncated", "skewed", ban("ac", "a"), top_k=2)
    yield one("truncated to nothing", "ties", ban("b"), top_k=1)
    yield one("top-p", "letters", ban("ab"), top_p="0.7")
    yield one("hot", "two", ban("ab"), temp="1.6")
    yield one("penalties", "two", ban("ab"), repeat_penalty="1.4", frequency_penalty="0.3")
    yield one("bias", "letters", ban("ab"), bias=[[1, "1.2"], [2, "-inf"]])
    yield one("end ignored", "two", ban("ab"), ignore_eos="true")
    yield one("two rules", "two", ban("ab"), ban("bb"))
    yield one("at most 1", "two", ban("a", max_count=1), max_tokens=3)
    yield one("sentence start", "prose", ban("a", scope="sentence-start"), max_tokens=2)
    for temp_model in ("skewed", "ties", "narrow", "memory"):
        yield one(f"temperature 0, {temp_model}", temp_model, ban("ab", "bc"), temp=0, max_tokens=5)
        yield one(f"temperature 0, {temp_model}, more", temp_model, ban("b", "cc", "ac"), temp=0, max_tokens=4)
    yield one("temperature 0, nothing is left", "narrow", ban("a", "d"), temp=0)
    for i, text in enumerate(t for t in LANGUAGES if t.startswith("root")):
        model = ["letters", "two", "letters", "two", "two", "bytes", "two", "two"][i]
        yield one(f"grammar {text}", model, grammar(text), max_tokens=2)
        yield one(f"grammar {text}, temperature 0", model, grammar(text), max_tokens=4, temp=0)
    yield one("grammar and a phrase", "two", grammar('root ::= [ab]+ " c"?'), ban("ab"), max_tokens=3)
    for p in ("a.b", "^a", "b$", "a+b", r"(?<=a)b"):
        yield one(f"regex {p}", "two", {"name": "regex", "settings": [["pattern", p]]}, max_tokens=2 + (p != "b$"))
        yield one(f"regex {p}, temperature 0", "two", {"name": "regex", "settings": [["pattern", p]]}, temp=0)
    yield one("regex, phrase and grammar", "two", {"name": "regex", "settings": [["pattern", "bb"]]},
              ban("ab"), grammar('root ::= [ab]+ " c"?'))  # fmt: skip
    yield one("context full", "short", ban("ab"), prompt="a", max_tokens=20)


def guided():
    """Where nobody is asked, the driver `guide` draws as `sample` does."""
    yield case("guide: alone", "memory", driver="guide")
    yield case("guide: temperature 0", "skewed", driver="guide", temp=0)
    yield case("guide: and a phrase", "letters", driver="guide", rules=[ban("ab")])
    yield case("guide: and an operator", "two", driver="guide", rules=[operator("repetition")])
    yield case("guide: and replace", "two", driver="guide", hold="all",
               rules=[rule("replace", find="ab", replace="ba")])  # fmt: skip


# ==== Random rules ====


def random_operator(rng):
    s = {"min_probability": ["0.15", "0.33"], "min_logit": ["-1.1", "-1.9"], "max_entropy": ["0.55", "1.05"],
         "min_margin": ["0.07", "0.27"], "max_drop": ["0.25", "0.65"], "max_repetitions": ["1", "2"],
         "drop_threshold": ["0.45", "0.85"], "window_size": ["2", "3"], "ngram_size": ["2", "3"]}  # fmt: skip
    common = {"max_retries": ["1", "2", "16"], "retry": ["resample"], "on": ["sampled"], "every_n": ["2", "3"],
              "backtrack_count": ["1", "2", "3"]}  # fmt: skip
    name = rng.choice(sorted(FIRES))
    settings = {k: rng.choice(s[k]) for k in FIRES[name]}
    for key, values in common.items():
        if rng.random() < (0.6 if key == "max_retries" else 0.25):
            settings[key] = rng.choice(values)
    return rule(name, **settings)


def random_rule(rng, model, text):
    """A rule other than `phrases`; text() is a text that may occur."""
    kind = rng.choice(["operator", "operator", "operator", "creative", "replace", "regex", "grammar", "count"])
    if kind == "operator":
        return random_operator(rng)
    if kind == "creative":
        s = {"top_k_threshold_flat": rng.choice(["2", "3"]), "top_p_flat": rng.choice(["0.5", "0.77"])}
        if rng.random() < 0.3:
            s["reach"] = rng.choice(["1", "2", "3"])
        if rng.random() < 0.3:
            s["max_retries"] = "2"
        return rule("creative", **s)
    if kind == "replace":
        s = {"find": text(), "replace": text()}
        if rng.random() < 0.3:
            s[rng.choice(["max_replacements", "skip_tokens", "max_new_tokens_for_replace"])] = rng.choice("12")
        return rule("replace", **s)
    if kind == "grammar":
        texts = [t for t in LANGUAGES if t.startswith("root") and "^" not in t and "xc3" not in t]
        return grammar(rng.choice([t for t in texts if "\xc3" not in t]))
    if kind == "count" or model in ("bytes", "sharp"):
        return ban(text(), max_count=rng.choice("12"))
    return rule("regex", pattern=rng.choice([f"[{text()}]{text()}", f"{text()}.", f".{text()}", f"{text()}+"]))


sources = (operators, shapers, scopes, forces, regexes, grammars, jsons, exact, guided)
