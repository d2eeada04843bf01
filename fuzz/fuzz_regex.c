/* fuzz_regex.c - the first line is a pattern, the rest a text.
 *
 * A pattern is refused or matched; what is told is the same however the text is cut; nothing is
 * told that begins before what was held back; and on short texts something is told exactly when
 * PCRE2's other matcher finds something. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/watch.h"
#include "must.h"
#include "base.h"
#include "text/regex_window.h"
#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { MOST_PATTERN = 200, MOST_TEXT = 6000, SHORT = 48 };

typedef struct told {
    int failed, found;
    rt_regex_hit hit;
} told;

static int step(rt_regexes *set, rt_regex_text *t, size_t from, rt_regex_live **live, told *out) {
    rt_regex_news news;
    out->failed = rt_regexes_read(set, t, from, SIZE_MAX, live, &news, NULL) != RETRACE_OK;
    out->found = !out->failed && news.found;
    out->hit = news.first;
    return out->failed || out->found;
}

static void end(rt_regexes *set, rt_regex_text *t, size_t from, rt_regex_live **live, told *out) {
    rt_regex_news news;
    out->failed = rt_regexes_end(set, t, from, live, &news, NULL) != RETRACE_OK;
    out->found = !out->failed && news.found;
    out->hit = news.first;
}

/* Reads in pieces of `size` bytes until something is told. The first third is the prompt. */
static told read_all(rt_regexes *set, retrace_text text, size_t before, size_t size) {
    rt_regex_text t = {{text.s, before}, text.s + before, 0};
    rt_regex_live *live = NULL, *last = NULL;
    rt_regex_news news;
    told out = {0};
    ptrdiff_t hold = -(ptrdiff_t)before;
    size_t n = text.n - before, from = 0;
    out.failed = rt_regexes_start(set, &t, &live, &news, NULL) != RETRACE_OK;
    while (!out.failed && t.n < n) {
        from = t.n;
        t.n = from + size < n ? from + size : n;
        rt_regex_live_drop(last);
        last = rt_regex_live_take(live);
        if (step(set, &t, from, &live, &out)) break;
        hold = t.n < n ? rt_regexes_hold(live, &t) : hold;
        must(hold <= (ptrdiff_t)t.n, "more is held than there is");
    }
    if (!out.failed && !out.found && n) end(set, &t, from, &last, &out);
    if (out.found) {
        must(out.hit.start >= hold, "a hit begins before what was held");
        must(out.hit.end > 0 && (size_t)out.hit.end <= t.n && out.hit.start < out.hit.end,
             "a hit that is none");
    }
    rt_regex_live_drop(last);
    rt_regex_live_drop(live);
    return out;
}

/* ==== The other matcher ==== */

/* -1: it does not know. */
static int finds(const char *pattern, const char *s, size_t n) {
    int error, found = 0;
    size_t where;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NO_DOTSTAR_ANCHOR, &error, &where, NULL);
    if (!code) return -1;
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_set_match_limit(context, 20000);
    int rc = pcre2_match(code, (PCRE2_SPTR)s, n, 0, 0, data, context);
    found = rc >= 0 ? 1 : rc == PCRE2_ERROR_NOMATCH ? 0 : -1;
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    return found;
}

static size_t cleaned(retrace_text text, char *out) {
    for (size_t i = 0; i < text.n;) {
        uint32_t cp;
        int len = rt_utf8_decode(text.s + i, text.n - i, &cp);
        memcpy(out + i, text.s + i, len > 0 ? (size_t)len : 1);
        if (len <= 0) out[i] = 0x1A;
        i += len > 0 ? (size_t)len : 1;
    }
    return text.n;
}

/* What means something else here is left alone: $, \Z, \R. */
static void compare(const char *pattern, retrace_text text, int found) {
    char clean[SHORT];
    if (text.n > SHORT || strchr(pattern, '$') || strstr(pattern, "\\Z") || strstr(pattern, "\\R"))
        return;
    int other = finds(pattern, clean, cleaned(text, clean));
    must(other < 0 || other == found, other ? "a match is missed" : "a match that is none");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
    size_t n = line ? (size_t)(line - data) : size;
    char pattern[MOST_PATTERN + 1];
    if (n > MOST_PATTERN || size - n > MOST_TEXT) return 0;
    if (n) memcpy(pattern, data, n);
    pattern[n] = '\0';
    if (strlen(pattern) != n || rt_utf8_check(pattern, n) < n) return 0;
    retrace_text p = {pattern, n},
                 text = {(const char *)(line ? line + 1 : data), line ? size - n - 1 : 0};
    rt_regexes *set = NULL;
    retrace_error err = {0};
    int bad;
    int rc = rt_regexes_new(&set, &p, 1, 0, &bad, &err);
    must(rc == RETRACE_OK || (rc == RETRACE_EUSAGE && bad == 0 && err.msg[0]), "a refusal");
    if (rc == RETRACE_OK) {
        told one = read_all(set, text, 0, 1), all = read_all(set, text, 0, text.n + 1);
        must(one.failed || all.failed || one.found == all.found, "it matters how the text is cut");
        if (!one.failed) compare(pattern, text, one.found);
        told some = read_all(set, text, text.n / 3, 3), more = read_all(set, text, text.n / 3, 7);
        must(some.failed || more.failed || some.found == more.found,
             "it matters how the text is cut after a prompt");
    }
    rt_regexes_free(set);
    return 0;
}
