/* fold.c - see fold.h. The tables of Unicode are utf8proc's.
 *
 * With RT_FOLD_NFC a character is decomposed first and folded then, which is the order that the
 * Unicode standard asks for (definition D145). Nothing that folding yields decomposes further, and
 * the one mark that folds to a letter, U+0345, has the highest class, so the marks need no second
 * sorting. */
#include "fold.h"
#include "utf8.h"

#include <utf8proc.h>

static uint32_t fold_quote(uint32_t cp) {
    switch (cp) {
    case 0x2018:
    case 0x2019:
    case 0x201A:
    case 0x201B: /* curly, low, reversed */
    case 0x2032:
    case 0x2035: /* primes */
    case 0x02B9:
    case 0x02BC: /* modifier letters prime and apostrophe */
    case 0xFF07: /* fullwidth */ return '\'';
    case 0x201C:
    case 0x201D:
    case 0x201E:
    case 0x201F:
    case 0x2033:
    case 0x2036:
    case 0x02BA:
    case 0x301D:
    case 0x301E:
    case 0x301F:
    case 0xFF02: return '"';
    default: return cp;
    }
}

int rt_is_white(uint32_t cp) {
    if (cp < 0x80) return cp == ' ' || (cp >= '\t' && cp <= '\r');
    if (cp < 0x2000) return cp == 0x85 || cp == 0xA0 || cp == 0x1680;
    return cp <= 0x200A || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
           cp == 0x3000;
}

static int is_selector(uint32_t cp) {
    return (cp >= 0xFE00 && cp <= 0xFE0F) || (cp >= 0xE0100 && cp <= 0xE01EF);
}

static int is_mark(utf8proc_category_t c) {
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

static int is_word(utf8proc_category_t c) {
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NO;
}

static int extends(uint32_t cp) {
    if (cp < 0x300) return 0;
    if ((cp >= 0x1160 && cp <= 0x11FF) || (cp >= 0xD7B0 && cp <= 0xD7FF)) return 1;
    return is_mark(utf8proc_category((utf8proc_int32_t)cp)) && !is_selector(cp);
}

static int decompose(uint32_t cp, int options, uint32_t out[RT_FOLD_MAX]) {
    utf8proc_int32_t parts[RT_FOLD_MAX];
    int last = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, parts, RT_FOLD_MAX,
                                                 (utf8proc_option_t)options, &last);
    if (n < 1 || n > RT_FOLD_MAX) { /* Unicode has no such character */
        out[0] = cp;
        return 1;
    }
    for (int i = 0; i < n; i++) out[i] = (uint32_t)parts[i];
    return (int)n;
}

/* Adds the units of one character that is decomposed already. */
static int add(int how, uint32_t cp, rt_unit *out, int n) {
    uint32_t folded[RT_FOLD_MAX] = {cp};
    int k = how & RT_FOLD_CASE ? decompose(cp, UTF8PROC_CASEFOLD, folded) : 1;
    for (int i = 0; i < k && n < RT_FOLD_MAX; i++) {
        rt_unit u = {folded[i], 0, 0};
        if (how & RT_FOLD_QUOTES) u.cp = fold_quote(u.cp);
        if (how & RT_FOLD_SPACE && rt_is_white(u.cp)) {
            u.cp = ' ';
            u.flags |= RT_UNIT_WHITE;
        }
        if (how & RT_FOLD_NFC && i == 0) {
            if (extends(cp)) u.flags |= RT_UNIT_EXTENDS;
            u.order = (uint8_t)utf8proc_get_property((utf8proc_int32_t)cp)->combining_class;
        }
        if (is_word(utf8proc_category((utf8proc_int32_t)u.cp))) u.flags |= RT_UNIT_WORD;
        out[n++] = u;
    }
    return n;
}

int rt_fold(int how, uint32_t cp, rt_unit out[RT_FOLD_MAX]) {
    if (cp >= RT_UTF8_BAD) {
        out[0] = (rt_unit){RT_UTF8_BAD, 0, 0};
        return 1;
    }
    uint32_t parts[RT_FOLD_MAX] = {cp};
    int k = how & RT_FOLD_NFC ? decompose(cp, UTF8PROC_DECOMPOSE, parts) : 1, n = 0;
    for (int i = 0; i < k; i++) n = add(how, parts[i], out, n);
    return n;
}

int rt_fold_keeps(int how, uint32_t cp) {
    if (how & RT_FOLD_QUOTES && fold_quote(cp) != cp) return 0;
    if (how & RT_FOLD_SPACE && rt_is_white(cp)) return 0;
    if (!(how & (RT_FOLD_CASE | RT_FOLD_NFC))) return 1;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    if (how & RT_FOLD_CASE && p->casefold_seqindex != UINT16_MAX) return 0;
    int syllable = cp >= 0xAC00 && cp <= 0xD7A3;
    return !(how & RT_FOLD_NFC) || (p->decomp_seqindex == UINT16_MAX && !syllable);
}
