/* fold.h - which characters count as the same.
 *
 * A character of a text becomes one or more *units*; two texts are the same to a matcher when their
 * units are. Folding is done twice nowhere: the units of a unit's character are that unit itself.
 */
#ifndef RT_FOLD_H
#define RT_FOLD_H

#include <stdint.h>

/* What to fold, to be combined. */
enum {
    RT_FOLD_CASE = 1,   /* full Unicode case folding: a sharp s is two s */
    RT_FOLD_QUOTES = 2, /* curly, low, reversed and fullwidth quotes and primes are ' or " */
    RT_FOLD_SPACE =
        4, /* white space is U+0020; that a run of it is one unit is the caller's to do */
    RT_FOLD_NFC =
        8 /* canonical decomposition, character by character; the caller sorts the marks */
};

/* What a unit is. */
enum {
    RT_UNIT_WORD = 1,  /* a letter, digit or mark (general category L, N or M) */
    RT_UNIT_WHITE = 2, /* white space, under RT_FOLD_SPACE */
    RT_UNIT_EXTENDS =
        4 /* belongs to the character before it (under RT_FOLD_NFC): a mark, a Hangul vowel
             or final. Variation selectors do not: they choose a glyph, not a character */
};

typedef struct rt_unit {
    uint32_t cp;
    uint8_t flags;
    uint8_t
        order; /* canonical combining class, under RT_FOLD_NFC; marks of different class commute */
} rt_unit;

enum { RT_FOLD_MAX = 16 }; /* units of one character */

/* The units of a character; returns how many. RT_UTF8_BAD is one unit without flags. Under
 * RT_FOLD_NFC units with an order come last: none is followed by one of order 0. */
int rt_fold(int how, uint32_t cp, rt_unit out[RT_FOLD_MAX]);

/* 1 when the character's only unit is the character itself; quick. */
int rt_fold_keeps(int how, uint32_t cp);

/* The property White_Space. */
int rt_is_white(uint32_t cp);

#endif
