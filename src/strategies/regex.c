/* regex.c - the rule that bans what matches a pattern.
 *
 * Text that completes a match is erased from the token that holds the match's first byte, and that
 * token is banned there. A match begun in the prompt goes back to the first generated token; one
 * that lies wholly in the prompt is nothing. Of several hits the one that begins first counts.
 *
 * Promise: no answer contains a match of at most RT_REGEX_WINDOW bytes (4096), of the beginnings in
 * the prompt those whose shortest match lies in the prompt left aside. A beginning that is still
 * undecided after so many bytes is given up, and a note says so, once for each pattern and place.
 * A pattern that takes more than its share of steps fails the run.
 *
 * What patterns mean. They are PCRE2's, in Unicode: \w, \d, \b and (?i) know all letters. At each
 * place the shortest match counts, at the byte where it is complete; what depends on what follows
 * (lookahead, \b, $) is decided when that has come, or by the end of the answer. ^ without (?m) and
 * \A match at the beginning of the answer alone, and a pattern that has one of them sees nothing of
 * the prompt; any other sees it, with lookbehind and \b. $, \Z: the end of the answer, with or
 * without a final newline; \z: the very end. Newline is \n. A pattern that can match the empty text
 * is refused. What else is refused, and why, is in text/regex.h. */
#include "reading.h"
#include "strategies.h"
#include "text/regex_window.h"
#include "text/utf8.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PATTERNS = 1024, MAX_PATTERN = 65536, MAX_FILE = 1 << 26, MAX_TOTAL = 1 << 20 };

typedef struct regex {
    retrace_texts pattern, file;
    int fold;
    retrace_text *all; /* the patterns, then the files' */
    int *lines;        /* of the files' patterns, beside their file in `files` */
    int *files;
    int n, cap_all, cap_lines, cap_files;
    rt_regexes *set;
} regex;

typedef struct mark {
    rt_regex_live *live;
} mark;

/* ==== Settings ==== */

/* What a person knows pattern i by, with its beginning. */
static void name_pattern(const regex *self, int i, char *out, size_t room) {
    retrace_text t = self->all[i];
    size_t n = rt_utf8_cut(t.s, t.n, 80);
    const char *dots = n < t.n ? "..." : "";
    if (self->files[i])
        snprintf(out, room, "file %d, line %d, '%.*s%s'", self->files[i], self->lines[i], (int)n,
                 t.s, dots);
    else
        snprintf(out, room, "pattern %d, '%.*s%s'", i + 1, (int)n, t.s, dots);
}

static int blame(const regex *self, int bad, int rc, retrace_error *err) {
    char name[160], why[256];
    if (bad < 0 || !err) return rc;
    name_pattern(self, bad, name, sizeof name);
    snprintf(why, sizeof why, "%.255s", err->msg);
    return retrace_fail(err, rc, "regex: %s: %s", name, why);
}

static int add_pattern(regex *self, retrace_text t, int file, int line, retrace_error *err) {
    if (self->n == MAX_PATTERNS)
        return retrace_fail(err, RETRACE_EUSAGE, "regex: more than %d patterns", MAX_PATTERNS);
    int need = self->n + 1;
    if (rt_grow(&self->all, &self->cap_all, need, sizeof *self->all) ||
        rt_grow(&self->files, &self->cap_files, need, sizeof *self->files) ||
        rt_grow(&self->lines, &self->cap_lines, need, sizeof *self->lines))
        return rt_nomem(err);
    self->all[self->n] = t;
    self->files[self->n] = file;
    self->lines[self->n] = line;
    self->n++;
    char name[160];
    size_t bad = rt_utf8_check(t.s, t.n);
    int empty = t.n == 0, long_one = t.n > MAX_PATTERN;
    if (!empty && !long_one && bad == t.n) return RETRACE_OK;
    if (bad < t.n) self->all[self->n - 1].n = bad;
    name_pattern(self, self->n - 1, name, sizeof name);
    if (empty) return retrace_fail(err, RETRACE_EUSAGE, "regex: %s: it is empty", name);
    if (long_one)
        return retrace_fail(err, RETRACE_EUSAGE, "regex: %s: it has more than %d bytes", name,
                            MAX_PATTERN);
    return retrace_fail(err, RETRACE_EUSAGE, "regex: %s: it is not valid UTF-8 at byte %lu", name,
                        (unsigned long)bad);
}

static int is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* One pattern a line, white space around it cut off; # begins a comment. */
static int read_file(regex *self, retrace_text file, int number, retrace_error *err) {
    const char *s = file.s, *end = file.s + file.n;
    if (file.n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0) s += 3;
    for (int line = 1; s < end; line++) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        retrace_text t = {s, (size_t)((stop ? stop : end) - s)};
        s = stop ? stop + 1 : end;
        while (t.n && is_blank(t.s[0])) t = (retrace_text){t.s + 1, t.n - 1};
        while (t.n && is_blank(t.s[t.n - 1])) t.n--;
        if (t.n == 0 || t.s[0] == '#') continue;
        int rc = add_pattern(self, t, number, line, err);
        if (rc) return rc;
    }
    return RETRACE_OK;
}

static int init(void *memory, retrace_error *err) {
    regex *self = memory;
    int rc = RETRACE_OK, bad = -1;
    size_t total = 0;
    for (int i = 0; i < self->pattern.n && rc == RETRACE_OK; i++)
        rc = add_pattern(self, self->pattern.v[i], 0, 0, err);
    for (int f = 0; f < self->file.n && rc == RETRACE_OK; f++)
        rc = read_file(self, self->file.v[f], f + 1, err);
    if (rc) return rc;
    for (int i = 0; i < self->n; i++) total += self->all[i].n;
    if (total > MAX_TOTAL)
        return retrace_fail(err, RETRACE_EUSAGE, "regex: the patterns have more than %d bytes",
                            MAX_TOTAL);
    rc = rt_regexes_new(&self->set, self->all, self->n, self->fold, &bad, err);
    return rc ? blame(self, bad, rc, err) : RETRACE_OK;
}

static void fini(void *memory) {
    regex *self = memory;
    rt_regexes_free(self->set);
    retrace_free(self->all);
    retrace_free(self->files);
    retrace_free(self->lines);
}

/* ==== A run ==== */

static rt_regex_text text_of(const retrace_view *v) {
    return (rt_regex_text){v->before, v->text, retrace_view_length(v)};
}

static int start(const void *memory, const retrace_view *v, void *mark_, retrace_error *err) {
    const regex *self = memory;
    rt_regex_text t = {v->before, "", 0};
    rt_regex_news news;
    int rc = rt_regexes_start(self->set, &t, &((mark *)mark_)->live, &news, err);
    return rc ? blame(self, news.bad, rc, err) : RETRACE_OK;
}

static int mark_copy(const void *self, void *to, const void *from, retrace_error *err) {
    (void)self, (void)err;
    ((mark *)to)->live = rt_regex_live_take(((const mark *)from)->live);
    return RETRACE_OK;
}

static void mark_free(const void *self, void *m) {
    (void)self;
    rt_regex_live_drop(((mark *)m)->live);
}

static int note(const regex *self, const retrace_view *v, int pattern, retrace_error *err) {
    char name[160], words[256];
    name_pattern(self, pattern, name, sizeof name);
    snprintf(words, sizeof words, "%s: what began more than %d bytes ago is given up", name,
             RT_REGEX_WINDOW);
    return retrace_view_note(v, words, err);
}

static int judge(const void *memory, const retrace_view *v, void *mark_, retrace_proposal *p,
                 retrace_error *err) {
    const regex *self = memory;
    if (v->n == 0) return RETRACE_OK;
    rt_regex_live **live = &((mark *)mark_)->live;
    rt_regex_text t = text_of(v);
    rt_regex_news news;
    size_t from = retrace_view_start(v);
    int rc = v->ending == RETRACE_GOING
                 ? rt_regexes_read(self->set, &t, from, v->limit, live, &news, err)
                 : rt_regexes_end(self->set, &t, from, live, &news, err);
    if (rc) return blame(self, news.bad, rc, err);
    if (news.outgrown >= 0) rc = note(self, v, news.outgrown, err);
    if (rc || !news.found) return rc;
    rt_reading_propose(v, news.first.start, news.first.end, self->all[news.first.pattern], p);
    return RETRACE_DONE;
}

static int horizon(const void *memory, const retrace_view *v, const void *mark_) {
    (void)memory;
    if (v->n == 0) return 0;
    rt_regex_text t = text_of(v);
    ptrdiff_t first = rt_regexes_hold(((const mark *)mark_)->live, &t);
    return first == (ptrdiff_t)t.n ? v->n : rt_reading_token(v, first);
}

static int certain(const void *memory) {
    (void)memory;
    return 1;
}

/* ==== The table ==== */

static const retrace_setting_info settings[] = {
    {"pattern", RETRACE_TEXTS, offsetof(regex, pattern), NULL, 1, MAX_PATTERN, NULL,
     "a regular expression (PCRE2) that the answer must not match"},
    {"file", RETRACE_FILE, offsetof(regex, file), NULL, 0, MAX_FILE, NULL,
     "a file of patterns, one a line; # begins a comment"},
    {"case", RETRACE_CHOICE, offsetof(regex, fold), "exact", 0, 0, "exact|fold",
     "fold: capitals and small letters are the same, as (?i) has it"},
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_regex = {
    .abi = RETRACE_ABI,
    .name = "regex",
    .help = "bans what matches a regular expression",
    .settings = settings,
    .size = sizeof(regex),
    .mark_size = sizeof(mark),
    .certain = certain,
    .init = init,
    .fini = fini,
    .start = start,
    .mark_copy = mark_copy,
    .mark_free = mark_free,
    .judge = judge,
    .horizon = horizon,
};
