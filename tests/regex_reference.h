/* regex_reference.h - what a pattern matches in a whole text, by PCRE2's other matcher.
 *
 * pcre2_match, which backtracks, is asked for every beginning and every end: is there a match from
 * here to there? A callout behind the pattern refuses all other ends. */
#ifndef RT_REGEX_REFERENCE_H
#define RT_REGEX_REFERENCE_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

typedef struct reference {
    pcre2_code *code;
    pcre2_match_context *context;
    pcre2_match_data *data;
    size_t end;
} reference;

static int only_end(pcre2_callout_block *at, void *ud) {
    const reference *r = ud;
    return at->current_position != r->end;
}

UNUSED_OK static void reference_open(reference *r, const char *pattern, int fold) {
    char whole[512];
    int error;
    size_t where;
    snprintf(whole, sizeof whole, "(?:%s)(?C1)", pattern);
    r->code =
        pcre2_compile((PCRE2_SPTR)whole, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_POSSESS | PCRE2_NO_START_OPTIMIZE |
                          PCRE2_NO_DOTSTAR_ANCHOR | (fold ? PCRE2_CASELESS : 0),
                      &error, &where, NULL);
    assert_non_null(r->code);
    r->context = pcre2_match_context_create(NULL);
    r->data = pcre2_match_data_create(1, NULL);
    pcre2_set_callout(r->context, only_end, r);
}

UNUSED_OK static void reference_close(reference *r) {
    pcre2_code_free(r->code);
    pcre2_match_context_free(r->context);
    pcre2_match_data_free(r->data);
}

/* The shortest end of a match of the text that begins at s; 0: none. */
UNUSED_OK static size_t shortest(reference *r, const char *text, size_t n, size_t s) {
    for (size_t e = s + 1; e <= n; e++) {
        r->end = e;
        int rc = pcre2_match(r->code, (PCRE2_SPTR)text, n, s, PCRE2_ANCHORED, r->data, r->context);
        if (rc >= 0) return e;
        assert_int_equal(rc, PCRE2_ERROR_NOMATCH);
    }
    return 0;
}

#endif
