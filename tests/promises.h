/* promises.h - what rules promise about an answer, checked on its text alone.
 *
 * Written without the library's matchers: folding by utf8proc on whole texts, patterns by PCRE2 on
 * whole texts, a grammar as the list of its texts. Included once, by laws.c. */
#ifndef RT_PROMISES_H
#define RT_PROMISES_H

#define PCRE2_CODE_UNIT_WIDTH 8

#include "helper.h"

#include <jansson.h>
#include <pcre2.h>
#include <utf8proc.h>

static json_t *document; /* the file of cases */

/* ==== Laws ==== */

typedef struct outcome {
    char *text;
    size_t n;
    retrace_finish finish;
    int accepted; /* was a hit let through? */
    double p;
} outcome;

typedef struct law {
    outcome *v;
    int n, room;
    int rewinds; /* the most on any way */
} law;

static outcome *law_find(const law *l, const char *text, size_t n, retrace_finish finish,
                         int accepted) {
    for (int i = 0; i < l->n; i++) {
        outcome *o = &l->v[i];
        if (o->n == n && o->finish == finish && o->accepted == accepted &&
            memcmp(o->text, text, n) == 0)
            return o;
    }
    return NULL;
}

static void law_add(law *l, const char *text, size_t n, retrace_finish finish, int accepted,
                    double p) {
    outcome *o = law_find(l, text, n, finish, accepted);
    if (!o) {
        if (l->n == l->room) {
            l->room = 2 * l->room + 16;
            l->v = realloc(l->v, (size_t)l->room * sizeof *l->v);
            assert_non_null(l->v);
        }
        o = &l->v[l->n++];
        *o = (outcome){malloc(n + 1), n, finish, accepted, 0};
        assert_non_null(o->text);
        memcpy(o->text, text, n);
        o->text[n] = 0;
    }
    o->p += p;
}

static void law_free(law *l) {
    for (int i = 0; i < l->n; i++) free(l->v[i].text);
    free(l->v);
    *l = (law){0};
}

/* ==== Cases ==== */

static const char *member(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* Bytes are written as the code points of the same number. */
static size_t bytes_of(const char *s, char *out) {
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
        unsigned c = *p;
        if (c >= 0x80) c = (c & 0x1f) << 6 | (*++p & 0x3fU);
        out[n++] = (char)c;
    }
    return n;
}

/* ==== Phrases ==== */

enum { MAX_POINTS = 8192 };

/* Code points of a text under full case folding; a byte that is none stands for itself above them.
 */
static int points_of(const char *s, size_t n, int fold, int32_t *out) {
    int count = 0;
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)s + i, (utf8proc_ssize_t)(n - i), &c);
        if (k <= 0) {
            out[count++] = 0x110000 + (unsigned char)s[i++];
            continue;
        }
        i += (size_t)k;
        if (!fold) {
            out[count++] = c;
            continue;
        }
        int border = 0;
        count += (int)utf8proc_decompose_char(c, out + count, MAX_POINTS - count, UTF8PROC_CASEFOLD,
                                              &border);
    }
    return count;
}

static int is_word(int32_t c) {
    if (c >= 0x110000) return 0;
    const char *kind = utf8proc_category_string(c);
    return kind[0] == 'L' || kind[0] == 'N' || kind[0] == 'M';
}

/* Does the phrase stand at point i? */
static int stands(const int32_t *text, int n, int i, const int32_t *phrase, int k,
                  const char *word) {
    if (i < 0 || memcmp(text + i, phrase, (size_t)k * sizeof *text) != 0) return 0;
    int left = i > 0 && is_word(text[i - 1]) && is_word(text[i]);
    int right = i + k < n && is_word(text[i + k]) && is_word(text[i + k - 1]);
    return strcmp(word, "false") == 0 || (!left && (strcmp(word, "start") == 0 || !right));
}

static const char *setting(const json_t *rule, const char *name, const char *preset) {
    size_t i;
    json_t *pair;
    json_array_foreach(json_object_get(rule, "settings"), i, pair) {
        if (strcmp(json_string_value(json_array_get(pair, 0)), name) == 0)
            preset = json_string_value(json_array_get(pair, 1));
    }
    return preset;
}

/* A phrase of the rule that ends at point `end`, or NULL. */
static const char *ends_there(const json_t *rule, const int32_t *text, int n, int end, int fold) {
    static int32_t phrase[MAX_POINTS];
    size_t i;
    json_t *pair;
    json_array_foreach(json_object_get(rule, "settings"), i, pair) {
        const char *value = json_string_value(json_array_get(pair, 1));
        if (strcmp(json_string_value(json_array_get(pair, 0)), "text") != 0) continue;
        int k = points_of(value, strlen(value), fold, phrase);
        if (stands(text, n, end - k, phrase, k, setting(rule, "word", "false"))) return value;
    }
    return NULL;
}

/* A phrase that stands in the answer once too often, or NULL. */
static const char *shown(const json_t *rule, const char *prompt, const char *s, size_t n_s) {
    static int32_t text[MAX_POINTS];
    int fold = strcmp(setting(rule, "case", "fold"), "fold") == 0;
    int from = points_of(prompt, strlen(prompt), fold, text);
    int n = from + points_of(s, n_s, fold, text + from);
    int left = (int)strtol(setting(rule, "max_count", "0"), NULL, 10);
    for (int end = from + 1; end <= n; end++) {
        const char *found = ends_there(rule, text, n, end, fold);
        if (found && left-- == 0) return found;
    }
    return NULL;
}

/* ==== Patterns ==== */

/* Does the pattern match from byte `at` of the text on, by at least one byte? */
static int matches(const char *pattern, int fold, const char *text, size_t n, size_t at) {
    int number;
    PCRE2_SIZE where;
    uint32_t flags = PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | (fold ? PCRE2_CASELESS : 0);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, flags, &number, &where, NULL);
    assert_non_null(code);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    assert_non_null(data);
    int rc = pcre2_match(code, (PCRE2_SPTR)text, n, at, 0, data, NULL);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    return rc > 0;
}

/* A pattern that matches within the answer, or NULL. Beginnings in the prompt are not looked at. */
static const char *matched(const json_t *rule, const char *prompt, const char *s, size_t n) {
    static char text[MAX_POINTS];
    size_t from = strlen(prompt), i;
    json_t *pair;
    assert_true(from + n < sizeof text);
    memcpy(text, prompt, from);
    memcpy(text + from, s, n);
    int fold = strcmp(setting(rule, "case", "exact"), "fold") == 0;
    json_array_foreach(json_object_get(rule, "settings"), i, pair) {
        const char *value = json_string_value(json_array_get(pair, 1));
        if (strcmp(json_string_value(json_array_get(pair, 0)), "pattern") != 0) continue;
        int alone = value[0] == '^';
        for (size_t at = from; at < from + n; at++)
            if (alone ? matches(value, fold, text + from, n, at - from)
                      : matches(value, fold, text, from + n, at))
                return value;
    }
    return NULL;
}

/* ==== Grammars ==== */

/* Is the answer a text of the language, or, when it was cut, the beginning of one? */
static int belongs(const json_t *rule, const char *s, size_t n, retrace_finish finish) {
    size_t i;
    json_t *spelt;
    const json_t *languages = json_object_get(document, "languages");
    json_array_foreach(json_object_get(languages, member(rule, "language")), i, spelt) {
        char text[4096];
        size_t k = bytes_of(json_string_value(spelt), text);
        if ((finish == RETRACE_FINISH_END ? k == n : k >= n) && memcmp(text, s, n) == 0) return 1;
    }
    return 0;
}

/* ==== All ==== */

static int plain(const char *s) {
    while (*s && (unsigned char)*s < 0x80) s++;
    return !*s;
}

/* 1 when what the rule promises of an answer can be told from the answer's text. */
static int tells(const json_t *rule) {
    const char *name = member(rule, "name");
    if (strcmp(name, "phrases") == 0)
        return strcmp(setting(rule, "weight", "0"), "0") == 0 &&
               strcmp(setting(rule, "scope", "answer"), "answer") == 0;
    return strcmp(name, "regex") == 0 || strcmp(name, "grammar") == 0 || strcmp(name, "json") == 0;
}

/* What there is in the answer that the rule promises not to be, or NULL. */
static const char *breaks(const json_t *rule, const char *prompt, const char *s, size_t n,
                          retrace_finish finish) {
    const char *name = member(rule, "name");
    const char *special = strrchr(prompt, '>'); /* what precedes a control token does not count */
    if (special) prompt = special + 1;
    if (!tells(rule)) return NULL;
    /* Ends are counted by byte; a character that folds to several letters would count twice. */
    if (strcmp(setting(rule, "max_count", "0"), "0") != 0 && !(plain(prompt) && plain(s)))
        return NULL;
    if (strcmp(name, "phrases") == 0) return shown(rule, prompt, s, n);
    if (strcmp(name, "regex") == 0) return matched(rule, prompt, s, n);
    return belongs(rule, s, n, finish) ? NULL : "what is no text of the grammar";
}

#endif
