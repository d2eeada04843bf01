/* test_regex.c - patterns in a text that comes in pieces, against PCRE2's other matcher on the
 * whole text; what is refused; and the rule regex in whole runs.
 */
#include "helper.h"

#include "base.h"
#include "text/regex_window.h"

#include "regex_reference.h"

enum { MOST = 64 };

/* ==== Reading in pieces ==== */

typedef struct reader {
    rt_regexes *set;
    rt_regex_live *live;
    rt_regex_text t;
    rt_regex_news news;
} reader;

/* NULL, or why the pattern is refused. */
static const char *try_open(reader *r, const char *pattern, int fold) {
    static retrace_error err;
    retrace_text text = text_of(pattern);
    int bad = -1;
    *r = (reader){0};
    int rc = rt_regexes_new(&r->set, &text, 1, fold, &bad, &err);
    if (rc == RETRACE_OK) return NULL;
    assert_int_equal(rc, RETRACE_EUSAGE);
    assert_int_equal(bad, 0);
    rt_regexes_free(r->set);
    r->set = NULL;
    return err.msg;
}

static void begin(reader *r, const char *before, size_t n_before) {
    rt_regex_live_drop(r->live);
    r->live = NULL;
    r->t = (rt_regex_text){{before, n_before}, "", 0};
    assert_int_equal(rt_regexes_start(r->set, &r->t, &r->live, &r->news, NULL), RETRACE_OK);
    assert_false(r->news.found);
}

/* Reads on to byte n of the text: 1 when there is a hit. */
static int read_to(reader *r, const char *text, size_t n) {
    size_t from = r->t.n;
    r->t.s = text;
    r->t.n = n;
    assert_int_equal(rt_regexes_read(r->set, &r->t, from, SIZE_MAX, &r->live, &r->news, NULL),
                     RETRACE_OK);
    return r->news.found;
}

/* What the end after the piece from `from` on decides; the state of before it is r->live. */
static int end_from(reader *r, const char *text, size_t from, size_t n) {
    rt_regex_live *live = rt_regex_live_take(r->live);
    rt_regex_text t = {r->t.before, text, n};
    assert_int_equal(rt_regexes_end(r->set, &t, from, &live, &r->news, NULL), RETRACE_OK);
    rt_regex_live_drop(live);
    return r->news.found;
}

static void shut(reader *r) {
    rt_regex_live_drop(r->live);
    rt_regexes_free(r->set);
}

/* ==== Random patterns and texts ==== */

static uint64_t dice;

static int roll(int n) {
    return roll_from(&dice, n);
}

static const char *const letters[] = {"a", "b", "c", " ", "\xc3\xa9", "A", "\n"};
static int n_letters; /* 7: with newlines */

/* right: also what looks to the right. */
static void make_pattern(char *out, size_t room, int depth, int right) {
    static const char *const atoms[] = {"a",   "b",    "c",    " ",   "\xc3\xa9", ".",
                                        "\\w", "[ab]", "[^a]", "\\s", "\\W",      "[a\xc3\xa9]"};
    static const char *const edges[] = {
        "(?<=a)", "(?<! )", "(?<=\\w)", "^",     "\\A",   "(?i)",      "(?<!ab)",  "\\b",
        "\\B",    "$",      "\\z",      "(?=b)", "(?!c)", "(?=\\w+ )", "(?!a|bb)", "(?=.\\b)"};
    static const char *const counts[] = {"",  "",    "",      "",   "*",   "+",
                                         "?", "{2}", "{1,2}", "+?", "{2,}"};
    size_t at = 0;
    out[0] = '\0';
    for (int n = 1 + roll(4); n > 0 && at + 60 < room; n--) {
        char inner[256];
        const char *atom = atoms[roll(COUNT(atoms))];
        int kind = roll(10);
        if (kind == 0) {
            at += (size_t)snprintf(out + at, room - at, "%s", edges[roll(right ? 16 : 7)]);
            continue;
        }
        if (kind < 3 && depth > 0) {
            char one[110], two[110];
            make_pattern(one, sizeof one, depth - 1, right);
            make_pattern(two, sizeof two, depth - 1, right);
            snprintf(inner, sizeof inner, "(%s%s|%s)", roll(2) ? "?:" : "", one, two);
            if (strlen(inner) + at + 20 >= room) continue;
            atom = inner;
        }
        at += (size_t)snprintf(out + at, room - at, "%s%s", atom, counts[roll(COUNT(counts))]);
    }
}

static size_t make_text(char *out, int most) {
    size_t at = 0;
    for (int n = roll(most + 1); n > 0; n--) {
        const char *s = letters[roll(n_letters)];
        memcpy(out + at, s, strlen(s));
        at += strlen(s);
    }
    return at;
}

/* Everything known about one pattern on one text. */
typedef struct problem {
    reader r;
    reference ref;
    char pattern[256], whole[256]; /* the prompt and the text, one behind the other */
    size_t before, n;              /* of the prompt, of the text */
    int alone;                     /* the pattern does not see the prompt */
} problem;

static const char *text_in(const problem *q) {
    return q->whole + q->before;
}

/* The shortest end, in the text, of a match that begins at byte s of it; 0: none. `n`: how much of
 * the text there is. */
static size_t wanted(problem *q, ptrdiff_t s, size_t n) {
    size_t skip = q->alone ? q->before : 0;
    n -= rt_utf8_tail(text_in(q), n); /* the rest of a character is to come */
    size_t e = shortest(&q->ref, q->whole + skip, q->before - skip + n,
                        (size_t)(s + (ptrdiff_t)(q->before - skip)));
    return e > q->before - skip ? e - (q->before - skip) : 0;
}

/* Is there a match at all that begins between these bytes and ends after `after`? */
static int any_wanted(problem *q, ptrdiff_t from, ptrdiff_t to, size_t n, size_t past) {
    for (ptrdiff_t s = from; s < to; s++) {
        if (((unsigned char)text_in(q)[s] & 0xC0) == 0x80) continue;
        if (wanted(q, s, n) > past) return 1;
    }
    return 0;
}

static ptrdiff_t lowest(const problem *q) {
    return q->alone ? 0 : -(ptrdiff_t)q->before;
}

/* A hit that was told must be one on the whole text too, whatever followed. */
static void check_hit(problem *q, size_t upto) {
    rt_regex_hit h = q->r.news.first;
    if (wanted(q, h.start, q->n) != (size_t)h.end || (size_t)h.end > upto)
        fail_msg("'%s' on '%s|%s' up to %lu: told %ld to %ld", q->pattern,
                 (char[2]){(char)('0' + (int)q->before), 0}, q->whole, (unsigned long)upto,
                 (long)h.start, (long)h.end);
}

/* Returns 1 when a hit was told. `exact`: the pattern does not look right, so that the first hit is
 * told where it ends, and is the first one of its piece. */
static int solve(problem *q, const size_t *cuts, int n_cuts, int exact) {
    begin(&q->r, q->whole, q->before);
    for (int i = 0; i < n_cuts; i++) {
        size_t from = i ? cuts[i - 1] : 0;
        if (i == n_cuts - 1) { /* the end is judged from the place before */
            if (end_from(&q->r, text_in(q), from, q->n)) {
                check_hit(q, q->n);
                if (exact) fail_msg("'%s' on '%s' waits for the end", q->pattern, q->whole);
            }
            int by_end = q->r.news.found;
            int hit = read_to(&q->r, text_in(q), cuts[i]);
            if (!hit) return by_end;
        } else if (!read_to(&q->r, text_in(q), cuts[i])) {
            continue;
        }
        check_hit(q, cuts[i]);
        rt_regex_hit h = q->r.news.first;
        if (exact && any_wanted(q, lowest(q), h.start, cuts[i], from))
            fail_msg("'%s' on '%s': not the first beginning", q->pattern, q->whole);
        if (exact && any_wanted(q, lowest(q), (ptrdiff_t)from, from, 0))
            fail_msg("'%s' on '%s': too late", q->pattern, q->whole);
        return 1;
    }
    return 0;
}

static int split(problem *q, size_t *cuts, int most) {
    size_t at = 0;
    int n = 0;
    do {
        at += (size_t)(1 + roll(most));
        if (at > q->n) at = q->n;
        cuts[n++] = at;
    } while (at < q->n);
    return n;
}

/* What begins before the place that is held back from is never told later, whatever follows. */
static void check_hold(problem *q) {
    size_t n = q->n;
    begin(&q->r, q->whole, q->before);
    if (read_to(&q->r, text_in(q), n)) return;
    ptrdiff_t hold = rt_regexes_hold(q->r.live, &q->r.t);
    char *end = q->whole + q->before + n;
    assert_true(hold <= (ptrdiff_t)n);
    for (int k = 0; k < (n_letters + 1) * n_letters + 1; k++) {
        size_t more = 0;
        for (int c = k; c > 0; c = (c - 1) / n_letters) {
            const char *s = letters[(c - 1) % n_letters];
            memcpy(end + more, s, strlen(s));
            more += strlen(s);
        }
        q->n = n + more;
        if (any_wanted(q, lowest(q), hold, q->n, 0))
            fail_msg("'%s' on '%.*s' then '%.*s': held from %ld only", q->pattern, (int)n,
                     text_in(q), (int)more, end, (long)hold);
    }
    q->n = n;
}

static void one_problem(problem *q, int exact, int *hits, int *clean) {
    size_t cuts[MOST];
    q->before = make_text(q->whole, roll(2) ? 3 : 0);
    q->n = make_text(q->whole + q->before, 7);
    q->whole[q->before + q->n] = '\0';
    int truth = any_wanted(q, lowest(q), (ptrdiff_t)q->n, q->n, 0);
    for (int k = 0; k < 3 && q->n; k++) {
        int n = split(q, cuts, k == 0 ? 1 : 5), told = solve(q, cuts, n, exact);
        if (told != truth)
            fail_msg("'%s' on '%.*s|%s': told %d, wanted %d", q->pattern, (int)q->before, q->whole,
                     text_in(q), told, truth);
    }
    if (q->n) check_hold(q);
    *hits += truth;
    *clean += !truth;
}

/* lines: all patterns begin with (?m), and the texts have newlines. Without (?m) what $ means is
 * not PCRE2's: ends_of_the_text. */
static void differential(uint64_t seed, int rounds, int right, int lines) {
    int hits = 0, clean = 0, refused = 0;
    dice = seed;
    n_letters = lines ? 7 : 6;
    for (int i = 0; i < rounds; i++) {
        problem q = {0};
        size_t m = lines ? (size_t)snprintf(q.pattern, 8, "(?m)") : 0;
        make_pattern(q.pattern + m, 120, 2, right);
        if (try_open(&q.r, q.pattern, 0)) {
            refused++;
            continue;
        }
        reference_open(&q.ref, q.pattern, 0);
        q.alone = strstr(q.pattern, "\\A") != NULL;
        for (const char *p = q.pattern; *p; p++)
            q.alone |= *p == '^' && (p == q.pattern || p[-1] != '[');
        for (int k = 0; k < 6; k++) one_problem(&q, !right, &hits, &clean);
        reference_close(&q.ref);
        shut(&q.r);
    }
    print_message("  %d with a hit, %d without, %d patterns refused\n", hits, clean, refused);
    assert_true(hits > rounds / 2 && clean > rounds / 2 && refused < rounds / 2);
}

static void differential_plain(void **state) {
    (void)state;
    differential(1, 1500, 0, 0);
}

static void differential_right(void **state) {
    (void)state;
    differential(2, 1500, 1, 0);
}

static void differential_lines(void **state) {
    (void)state;
    differential(3, 1000, 1, 1);
}

/* ==== Single cases ==== */

enum { AT_END = -1, NONE = -2 };

/* Reads byte by byte. Where the first hit is told: a number of bytes, AT_END or NONE. */
static int told_at(reader *r, const char *before, const char *text) {
    size_t n = strlen(text);
    begin(r, before, strlen(before));
    for (size_t i = 1; i <= n; i++) {
        if (i == n) {
            rt_regex_live *live = rt_regex_live_take(r->live);
            if (read_to(r, text, i)) {
                rt_regex_live_drop(live);
                return (int)i;
            }
            rt_regex_live *after = r->live;
            r->live = live;
            int hit = end_from(r, text, i - 1, n);
            rt_regex_live_drop(r->live);
            r->live = after;
            return hit ? AT_END : NONE;
        }
        if (read_to(r, text, i)) return (int)i;
    }
    return NONE;
}

/* pattern, prompt, text; where it is told and what. */
static void expect(const char *pattern, const char *before, const char *text, int at, int start,
                   int end) {
    reader r;
    const char *why = try_open(&r, pattern, 0);
    if (why) fail_msg("'%s' is refused: %s", pattern, why);
    int got = told_at(&r, before, text);
    rt_regex_hit h = r.news.first;
    if (got != at || (at != NONE && (h.start != start || h.end != end)))
        fail_msg("'%s' on '%s|%s': told at %d, %ld to %ld", pattern, before, text, got,
                 (long)h.start, (long)h.end);
    shut(&r);
}

static void never(const char *pattern, const char *before, const char *text) {
    expect(pattern, before, text, NONE, 0, 0);
}

static void completes_as_read(void **state) {
    (void)state;
    expect("eyes? (glint|gleam|a?glow)", "", "her eye aglow", 13, 4, 13);
    expect("eyes? (glint|gleam|a?glow)", "", "his eyes glow", 13, 4, 13);
    expect("a+", "", "baaa", 2, 1, 2);
    expect("a.*b", "", "xa--b--b", 5, 1, 5);
    expect("a.*?b", "", "xa--b--b", 5, 1, 5);
    expect("(?i)stra\u00dfe", "", "STRA\u00df\u1e9eE STRA\u1e9eE", 19, 11, 19);
    expect("(?i)k", "", "\u212a", 3, 0, 3); /* the sign for kelvin */
    expect("(?s)a.b", "", "a\nb", 3, 0, 3);
    never("a.b", "", "a\nb");
    expect("(?m)^- ", "", "x\n- y", 4, 2, 4);
    expect("\\p{Lu}\\p{Ll}+!", "", "\u00c9t\u00e9!", 6, 0, 6);
    expect("a\\Rb", "", "a\r\nb", 4, 0, 4);
    expect("[\\]^]x", "", "]x", 2, 0, 2);
    expect("\\Qa.b\\E", "", "aab a.b", 7, 4, 7);
    expect("a{3}", "", "aaaa", 3, 0, 3);
    expect("(?<year>\\d{4})-(?'m'\\d\\d)", "", "in 1999-12", 10, 3, 10);
}

static void edges(void **state) {
    (void)state;
    expect("\\bcat\\b", "", "a cat", AT_END, 2, 5);
    expect("\\bcat\\b", "", "a cat.", 6, 2, 5);
    never("\\bcat\\b", "", "a cats");
    never("\\bcat\\b", "", "a cat\u00e9");
    never("\\bcat", "con", "cat");
    expect("\\bcat", "con ", "cat", 3, 0, 3);
    expect("cat\\B", "", "cats", 4, 0, 3);
    expect("\\bfoo\\b|bar", "", "foobar", 6, 3, 6); /* does not wait for an edge of the other */
    expect("cat(?!s)", "", "cat", AT_END, 0, 3);
    expect("cat(?!s)", "", "cat ", 4, 0, 3);
    never("cat(?!s)", "", "cats");
    expect("(?!foo\\b)foo\\w", "", "food", 4, 0, 4);
    expect("foo(?=bar)", "", "foobar", 6, 0, 3);
    expect("(?<=not )very", "not ", "very", 4, 0, 4);
    never("(?<!not )very", "not ", "very");
    expect("(?<!\u00e9)b", "", "\u00e9b b", 5, 4, 5);
}

static void ends_of_the_text(void **state) {
    (void)state;
    expect("foo$", "", "a foo", AT_END, 2, 5);
    expect("foo$", "", "a foo\n", AT_END, 2, 6); /* with the final newline */
    never("foo$", "", "foo\nb");
    expect("foo\\Z", "", "foo\n", AT_END, 0, 4);
    never("foo\\z", "", "foo\n");
    expect("foo\\z", "", "foo", AT_END, 0, 3);
    expect("(?m)foo$", "", "foo\nb", 4, 0, 3);
    expect("(?m:foo$)|bar$", "", "bar\nfoo\n\n", 8, 4, 7);
    never("(?m:x)bar$", "", "xbar\ny");
    never("(?m)(?-m:x)(?^)bar$", "", "xbar\ny");
    expect("((?m)x|bar$)", "", "bar\ny", 4, 0, 3);
    never("((?m)x)bar$", "", "xbar\ny");
    expect("^foo", "", "foo", 3, 0, 3);
    expect("^foo", "foo ", "foo", 3, 0, 3); /* the beginning of the answer */
    never("^foo", "", " foo");
    never("\\Afoo", "", "a\nfoo");
    expect("(?:^|\\s)foo", "x", "foo", 3, 0, 3);
    never("^.{3}$", "", "abcd");
    expect("^.{3}$", "", "abc", AT_END, 0, 3);
}

static void prompts(void **state) {
    (void)state;
    expect("foobar", "a foo", "bar", 3, -3, 3);
    never("foo", "foo", "bar");
    never("foo\\b", "foo", " bar");
    expect("foo +bar", "foo ", " bar", 4, -4, 4);
    expect("\u00e9b", "\xc3",
           "\xa9"
           "b",
           2, -1, 2); /* a character half in the prompt */
    never("^\u00e9b", "\xc3",
          "\xa9"
          "b");
    expect("foo\\w*", "foo", "bar foo", 7, 4, 7); /* the shortest lies in the prompt */
}

static void broken_text(void **state) {
    (void)state;
    expect("\u00e9b", "",
           "\xc3\xa9"
           "b",
           3, 0, 3);
    never("\u00e9", "", "\xc3");
    expect("a.b", "",
           "a\xff"
           "b",
           3, 0, 3); /* each byte is a character that is nothing */
    never("a.b", "",
          "a\xff\xff"
          "b");
    never("a\\wb|a\\sb", "",
          "a\xff"
          "b");
    expect("a..b", "",
           "a\xe2\x82"
           "b",
           4, 0, 4);
    expect("a.$", "", "a\xc3", AT_END, 0, 2); /* a character that will never be whole */
    expect("a..", "", "a\xe2\x82", AT_END, 0, 3);
    never("a..", "", "a\xe2\x82\xac");
    expect("a\\b", "", "a\xc3", AT_END, 0, 1);
}

static void limits_of_hits(void **state) {
    (void)state;
    reader r;
    assert_null(try_open(&r, "ab", 0));
    begin(&r, "", 0);
    r.t = (rt_regex_text){{"", 0}, "xab", 3};
    assert_int_equal(rt_regexes_read(r.set, &r.t, 0, 3, &r.live, &r.news, NULL), RETRACE_OK);
    assert_false(r.news.found);
    begin(&r, "", 0);
    r.t = (rt_regex_text){{"", 0}, "xab", 3};
    assert_int_equal(rt_regexes_read(r.set, &r.t, 0, 4, &r.live, &r.news, NULL), RETRACE_OK);
    assert_true(r.news.found);
    shut(&r);
}

/* ==== What is refused ==== */

static void refuses(const char *pattern, const char *why) {
    reader r;
    const char *got = try_open(&r, pattern, 0);
    if (!got) fail_msg("'%s' is not refused", pattern);
    if (!strstr(got, why)) fail_msg("'%s': %s", pattern, got);
}

static void refusals(void **state) {
    (void)state;
    refuses("(a)\\1", "back references");
    refuses("(?<x>a)\\k<x>", "back references");
    refuses("(?<x>a)(?P=x)", "back references");
    refuses("(a)\\g{1}", "back references");
    refuses("(.{15,})\\1+", "back references");
    refuses("a(?R)?b", "recursion");
    refuses("(a|b(?1))", "recursion");
    refuses("(?<x>a)(?&x)", "recursion");
    refuses("(?<x>a)(?P>x)", "recursion");
    refuses("(a)(?-1)", "recursion");
    refuses("(?+1)(a)", "recursion");
    refuses("a(?C)b", "callouts");
    refuses("a\\Kb", "\\K");
    refuses("a\\Cb", "\\C");
    refuses("\\Ga", "\\G");
    refuses("a\\X", "\\X");
    refuses("a(*COMMIT)b", "(*...)");
    refuses("(*UTF)a", "(*...)");
    refuses("(?>a|ab)c", "atomic");
    refuses("a++b", "possessive");
    refuses("(?:ab){2,3}+", "possessive");
    refuses("a+(?#x)+", "possessive");
    refuses("(?(?=a)ab|c)", "conditions");
    refuses("(?*a)b", "(?*");
    refuses("(?x)a b", "flags");
    refuses("a*", "empty text");
    refuses("foo|", "empty text");
    refuses("^$", "empty text");
    refuses("\\b", "empty text");
    refuses("(?=a)", "empty text");
    refuses("a{5000}", "5000 characters");
    refuses("(?<=a{5000})b", "looks back 5000");
    refuses("(?<=a+)b", "lookbehind");
    refuses("(", "parenthes");
    refuses("[a", "]");
    refuses("a\\", "\\");
    refuses("(((a{90}){90}){90}){90}", "too large");
}

/* What looks like something refused and is not. */
static void no_refusals(void **state) {
    (void)state;
    expect("[(?R)]+x", "", "(?x", 3, 0, 3);
    expect("\\Q(?R)\\1\\E", "", "(?R)\\1", 6, 0, 6);
    expect("\\(?R", "", "(R", 2, 0, 2);
    expect("\\\\1", "", "\\1", 2, 0, 2);
    expect("[\\1a]b", "", "ab", 2, 0, 2);
    expect("a(?#(?R)b", "", "ab", 2, 0, 2);
    expect("[[:alpha:](?>]c", "", ">c", 2, 0, 2);
    expect("a\\++b", "", "a++b", 4, 0, 4);
    expect("a[+]+b", "", "a++b", 4, 0, 4);
    expect("(?i:A)(?-i)b", "", "ab", 2, 0, 2);
    expect("\\x{41}\\N{U+42}", "", "AB", 2, 0, 2);
}

/* ==== Length ==== */

/* n letters, then a word; reads in pieces of 7. Where the first hit begins; NONE. */
static ptrdiff_t after_letters(reader *r, const char *first, int n, const char *word,
                               int *outgrown) {
    static char text[32768];
    size_t at = strlen(first), end;
    memcpy(text, first, at);
    memset(text + at, 'a', (size_t)n);
    memcpy(text + at + (size_t)n, word, strlen(word));
    end = at + (size_t)n + strlen(word);
    *outgrown = 0;
    begin(r, "", 0);
    for (size_t i = 0; i < end;) {
        i = i + 7 < end ? i + 7 : end;
        int hit = read_to(r, text, i);
        *outgrown += r->news.outgrown == 0;
        ptrdiff_t hold = rt_regexes_hold(r->live, &r->t);
        assert_true(hold >= (ptrdiff_t)i - RT_REGEX_WINDOW);
        if (hit) return r->news.first.start;
    }
    return end_from(r, text, end, end) ? r->news.first.start : NONE;
}

static void windows(void **state) {
    (void)state;
    reader r;
    int outgrown;
    assert_null(try_open(&r, "x.*y", 0));
    assert_int_equal(after_letters(&r, "x", RT_REGEX_WINDOW - 2, "y", &outgrown), 0);
    assert_int_equal(outgrown, 0);
    assert_int_equal(after_letters(&r, "x", RT_REGEX_WINDOW - 1, "y", &outgrown), NONE);
    assert_int_equal(outgrown, 1); /* given up, and said so once */
    assert_int_equal(after_letters(&r, "xx", RT_REGEX_WINDOW - 2, "y", &outgrown), 1);
    assert_int_equal(outgrown, 1);
    assert_int_equal(after_letters(&r, "xax-x", RT_REGEX_WINDOW - 2, "y", &outgrown), 4);
    assert_int_equal(after_letters(&r, "x", 10000, "x-y", &outgrown), 10001);
    shut(&r);
    assert_null(try_open(&r, "x.*(?=y)", 0)); /* the same where it is read afresh */
    assert_int_equal(after_letters(&r, "x", RT_REGEX_WINDOW - 3, "y", &outgrown), 0);
    shut(&r);
    assert_null(try_open(&r, "(?s).*foo", 0));
    assert_int_equal(after_letters(&r, "", 10000, "foo", &outgrown), 10003 - RT_REGEX_WINDOW);
    assert_int_equal(outgrown, 1);
    shut(&r);
}

/* peers: patterns on which backtracking takes for ever. The number of entries stays small, so the
 * time of each step does. */
static void catastrophes(void **state) {
    (void)state;
    static const char *const patterns[] = {"(a+)+$", "(a*)*b",       "(a|a)*b",      "(a|aa)+$",
                                           "(.*)*x", "(\\w+\\s?)+!", "(a?){9}a{9}b", "(?i)(A+)+!"};
    for (int i = 0; i < COUNT(patterns); i++) {
        reader r;
        int outgrown;
        assert_null(try_open(&r, patterns[i], 0));
        ptrdiff_t got = after_letters(&r, "", 10000, "", &outgrown);
        assert_int_equal(got, strchr(patterns[i], '$') ? 10000 - RT_REGEX_WINDOW : NONE);
        shut(&r);
    }
}

/* Too many steps is an error, never silence. */
static void too_many_steps(void **state) {
    (void)state;
    static const char *const patterns[] = {"(?=.*x)a", "(a{1,50}){1,50}b", "\\w+(?=.*x)"};
    static char text[6000];
    memset(text, 'a', sizeof text);
    for (int i = 0; i < COUNT(patterns); i++) {
        reader r;
        retrace_error err = {0};
        assert_null(try_open(&r, patterns[i], 0));
        begin(&r, "", 0);
        int rc = RETRACE_OK;
        for (size_t n = 10; n <= sizeof text && rc == RETRACE_OK; n += 10) {
            r.t = (rt_regex_text){{"", 0}, text, n};
            rc = rt_regexes_read(r.set, &r.t, n - 10, SIZE_MAX, &r.live, &r.news, &err);
        }
        assert_int_equal(rc, RETRACE_EUSAGE);
        assert_int_equal(r.news.bad, 0);
        assert_non_null(strstr(err.msg, "too many steps"));
        shut(&r);
    }
}

/* Several in one piece: the one that begins first; of those the one that is complete first. */
static void several_at_once(void **state) {
    (void)state;
    retrace_text patterns[] = {text_of("x"), text_of("abc"), text_of("ab"), text_of("b.*y")};
    reader r = {0};
    int bad;
    assert_int_equal(rt_regexes_new(&r.set, patterns, 4, 0, &bad, NULL), RETRACE_OK);
    begin(&r, "", 0);
    assert_false(read_to(&r, "a", 1));
    assert_true(read_to(&r, "abcxy", 5));
    assert_int_equal(r.news.first.pattern, 2);
    assert_int_equal(r.news.first.end, 2);
    shut(&r);
    assert_int_equal(rt_regexes_new(&r.set, patterns, 0, 0, &bad, NULL), RETRACE_OK);
    r.live = NULL;
    begin(&r, "ab", 2);
    assert_false(read_to(&r, "ab", 2));
    shut(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completes_as_read),
        cmocka_unit_test(edges),
        cmocka_unit_test(ends_of_the_text),
        cmocka_unit_test(prompts),
        cmocka_unit_test(broken_text),
        cmocka_unit_test(limits_of_hits),
        cmocka_unit_test(refusals),
        cmocka_unit_test(no_refusals),
        cmocka_unit_test(windows),
        cmocka_unit_test(catastrophes),
        cmocka_unit_test(too_many_steps),
        cmocka_unit_test(several_at_once),
        cmocka_unit_test(differential_plain),
        cmocka_unit_test(differential_right),
        cmocka_unit_test(differential_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
