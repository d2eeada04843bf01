"""Grammars in GBNF, JSON schemas, and the same as the list of their texts, as long as the cases need them; bytes are
written as the code points of the same number."""


def upto(n, *pieces):
    """All joins of the pieces of at most n bytes."""
    out, last = {""}, {""}
    while last:
        last = {t + p for t in last for p in pieces if len(t + p) <= n}
        out |= last
    return out


LANGUAGES = {
    'root ::= "a" ("b" | "c")': ["ab", "ac"],
    'root ::= "a"* "b"': ["a" * n + "b" for n in range(12)],
    'root ::= "abc" | "ab" "ba"? | "cc" | ""': ["abc", "ab", "abba", "cc", ""],
    'root ::= "a" root "b" | "c" | ""': [t for n in range(12) for t in ("a" * n + "c" + "b" * n, "a" * n + "b" * n)],
    'root ::= [ab]+ " c"?': [t + e for t in upto(8, "a", "b") - {""} for e in ("", " c")],
    'root ::= "\xc3\xa9"+ "e"?': ["\xc3\xa9" * n + e for n in range(1, 8) for e in ("", "e")],
    'root ::= "ba"': ["ba"],
    'root ::= [^a]*': sorted(upto(4, "b", "c", " ")),
    '{"enum": ["a", "ab", ""]}': ['"a"', '"ab"', '""'],
    '{"const": "b"}': ['"b"'],
}  # fmt: skip
