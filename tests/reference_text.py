"""Characters of a text that may hold bytes of none, for the reference and its rules."""

import functools
import unicodedata


class Unclear(Exception):
    """The written semantics do not decide this situation."""


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
