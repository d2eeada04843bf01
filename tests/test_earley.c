/* test_earley.c - the matcher against a plain recogniser, for random grammars of every kind; equal
 * states; what is remembered and forgotten; limits. */
#include "helper.h"
#include "matching.h"

static uint64_t seed;

static int roll(int n) {
    return roll_from(&seed, n);
}

/* ==== A plain recogniser ==== */

enum { SYMBOLS = 60, BODIES = 200, LENGTH = 4, LONGEST = 6 };

/* Elements: a letter, or a symbol's number. */
typedef struct rules {
    struct {
        int symbol, n, e[LENGTH];
    } p[BODIES];
    int n, n_symbols;
    char productive[SYMBOLS];
    char spans[SYMBOLS][LONGEST + 1][LONGEST + 1]; /* the symbol is text[i..j) */
    char begins[SYMBOLS][LONGEST + 1];             /* it begins with text[i..] */
} rules;

static int new_symbol(rules *r) {
    assert_true(r->n_symbols < SYMBOLS);
    return r->n_symbols++;
}

static void add(rules *r, int symbol, int n, const int *e) {
    assert_true(r->n < BODIES);
    r->p[r->n].symbol = symbol;
    r->p[r->n].n = n;
    for (int i = 0; i < n; i++) r->p[r->n].e[i] = e[i];
    r->n++;
}

static void find_productive(rules *r) {
    memset(r->productive, 0, sizeof r->productive);
    for (int again = 1; again;) {
        again = 0;
        for (int i = 0; i < r->n; i++) {
            int all = 1;
            for (int k = 0; k < r->p[i].n; k++)
                all &= r->p[i].e[k] >= 'a' || r->productive[r->p[i].e[k]];
            again |= all && !r->productive[r->p[i].symbol];
            if (all) r->productive[r->p[i].symbol] = 1;
        }
    }
}

/* Do the elements from k on make text[i..j)? */
static int makes(const rules *r, int rule, int k, const char *text, int i, int j) {
    if (k == r->p[rule].n) return i == j;
    int e = r->p[rule].e[k];
    if (e >= 'a') return i < j && text[i] == e && makes(r, rule, k + 1, text, i + 1, j);
    for (int m = i; m <= j; m++)
        if (r->spans[e][i][m] && makes(r, rule, k + 1, text, m, j)) return 1;
    return 0;
}

/* Can the elements from k on begin with text[i..n)? All symbols can be finished. */
static int may_begin(const rules *r, int rule, int k, const char *text, int i, int n) {
    if (i == n) return 1;
    if (k == r->p[rule].n) return 0;
    int e = r->p[rule].e[k];
    if (e >= 'a') return text[i] == e && may_begin(r, rule, k + 1, text, i + 1, n);
    if (r->begins[e][i]) return 1;
    for (int m = i; m <= n; m++)
        if (r->spans[e][i][m] && may_begin(r, rule, k + 1, text, m, n)) return 1;
    return 0;
}

static char recognise(rules *r, const char *text, int n) {
    memset(r->spans, 0, sizeof r->spans);
    memset(r->begins, 0, sizeof r->begins);
    for (int again = 1; again;) {
        again = 0;
        for (int p = 0; p < r->n; p++) {
            for (int i = 0; i <= n; i++) {
                char *begins = &r->begins[r->p[p].symbol][i];
                for (int j = i; j <= n; j++) {
                    char *spans = &r->spans[r->p[p].symbol][i][j];
                    if (!*spans && makes(r, p, 0, text, i, j)) *spans = 1, again = 1;
                }
                if (!*begins && may_begin(r, p, 0, text, i, n)) *begins = 1, again = 1;
            }
        }
    }
    return r->spans[0][0][n] ? 'y' : r->begins[0][0] ? 'b' : 'n';
}

/* ==== Random grammars ==== */

/* x as often as the sign says, by recursion on the right. */
static int repeated(rules *r, int x, int min, int max) {
    int s = new_symbol(r);
    if (max < 0) {
        int more[] = {x, s};
        add(r, s, min > 0, &x);
        add(r, s, 2, more);
        return s;
    }
    for (int n = min; n <= max; n++) {
        int all[LENGTH] = {x, x, x, x};
        add(r, s, n, all);
    }
    return s;
}

/* Writes an element and gives it to the recogniser. */
static int random_element(rules *r, int named, char *out, size_t room) {
    static const struct {
        const char *sign;
        int min, max;
    } signs[] = {{"*", 0, -1},    {"+", 1, -1},   {"?", 0, 1},    {"{2}", 2, 2},
                 {"{1,3}", 1, 3}, {"{,2}", 0, 2}, {"{0,}", 0, -1}};
    int e = roll(2) ? 'a' + roll(2) : roll(named);
    char base[16];
    if (e >= 'a')
        snprintf(base, sizeof base, "\"%c\"", e);
    else
        snprintf(base, sizeof base, "%s", e ? (char[]){'r', (char)('0' + e), 0} : "root");
    int k = roll(4) ? -1 : roll(COUNT(signs));
    snprintf(out, room, "%s%s ", base, k < 0 ? "" : signs[k].sign);
    return k < 0 ? e : repeated(r, e, signs[k].min, signs[k].max);
}

static void random_grammar(rules *r, char *out, size_t room) {
    size_t at = 0;
    int named = 1 + roll(4);
    r->n = 0;
    r->n_symbols = named;
    for (int s = 0; s < named; s++) {
        char name[] = {'r', (char)('0' + s), 0};
        at += (size_t)snprintf(out + at, room - at, "%s ::= ", s ? name : "root");
        for (int alternatives = 1 + roll(3); alternatives > 0; alternatives--) {
            int e[LENGTH], n = roll(LENGTH);
            for (int i = 0; i < n; i++) {
                e[i] = random_element(r, named, out + at, room - at);
                at += strlen(out + at);
            }
            add(r, s, n, e);
            if (n == 0) at += (size_t)snprintf(out + at, room - at, "\"\" ");
            at += (size_t)snprintf(out + at, room - at, alternatives > 1 ? "| " : "\n");
        }
    }
    find_productive(r);
}

static void every_text(rules *r, rt_earley *m, rt_earley *forgetful, const char *gbnf) {
    char text[LONGEST + 1] = {0};
    for (int n = 0; n <= LONGEST; n++) {
        for (int bits = 0; bits < 1 << n; bits++) {
            for (int i = 0; i < n; i++) text[i] = (char)('a' + (bits >> i & 1));
            char is = recognise(r, text, n), says = fits_bytes(m, text, (size_t)n);
            char later = fits_bytes(forgetful, text, (size_t)n);
            if (says != is || later != is)
                fail_msg("%s'%.*s' is %c, not %c or %c", gbnf, n, text, is, says, later);
        }
    }
}

static void random_grammars_are_matched_exactly(void **state) {
    (void)state;
    static rules r;
    int tried = 0, refused = 0;
    const int rounds = getenv("RETRACE_LONG") ? 20000 : 600;
    for (int round = 0; tried < rounds; round++) {
        char gbnf[2000];
        retrace_error err = {0};
        rt_earley *m = NULL, *forgetful = NULL;
        seed = (uint64_t)round;
        random_grammar(&r, gbnf, sizeof gbnf);
        int all = 1;
        for (int s = 0; s < r.n_symbols; s++) all &= r.productive[s];
        int rc = try_matcher(&m, gbnf, 1 << 20, &err);
        if (rc != (all ? RETRACE_OK : RETRACE_EUSAGE)) fail_msg("%s%s", gbnf, err.msg);
        refused += !all;
        if (!all) continue;
        forgetful = make_matcher(gbnf, 1);
        every_text(&r, m, forgetful, gbnf);
        rt_earley_free(m);
        rt_earley_free(forgetful);
        tried++;
    }
    assert_true(refused > 0);
}

/* ==== States ==== */

static rt_earley_state *after_text(rt_earley *m, const char *s) {
    rt_earley_state *at;
    retrace_error err = {0};
    if (rt_earley_feed(m, rt_earley_start(m), s, strlen(s), &at, &err)) fail_msg("%s", err.msg);
    return at;
}

/* A repetition of any form comes back to a state that is known. */
static void repetitions_are_few_states(void **state) {
    (void)state;
    static const struct {
        const char *gbnf, *one, *other;
    } same[] = {
        {"root ::= \"'\" [a-z]* \"'\"", "'ab", "'xyzzy"},
        {"root ::= \"'\" ([a-z] | \"\\\\\" .)+ \"'\"", "'a", "'abc\\'"},
        {"root ::= \"'\" .* \"'\"", "'\u00e9", "'abc\U0001F600"},
        {"root ::= \"'\" .* \"'\"", "'\xf0", "'abc\xf0"},
        {"root ::= ([a-z]+ \" \"?)+", "ab", "abcdef ghi jklm"},
        {"root ::= s\ns ::= [a-z] s | \".\"", "a", "abcdef"},
        {"root ::= \"(\" ws \")\"\nws ::= ([ \\t\\n] ws)?", "( ", "(   \t  "},
        {"root ::= x\nx ::= \"a\" y | \".\"\ny ::= \"b\" x | \"!\"", "ab", "abababab"},
        {"root ::= l\nl ::= i \",\" l | i\ni ::= \"<\" [a-z]* \">\"", "<>,<", "<abc>,<>,<q>,<"},
        {"root ::= \"[\" (n (\", \" n)*)? \"]\"\nn ::= [0-9]+", "[1, 2, ", "[10, 20, 3, 4, "},
    };
    for (int i = 0; i < COUNT(same); i++) {
        rt_earley *m = make_matcher(same[i].gbnf, 1 << 20);
        rt_earley_state *a = after_text(m, same[i].one), *b = after_text(m, same[i].other);
        if (!a || a != b) fail_msg("%s: '%s' and '%s'", same[i].gbnf, same[i].one, same[i].other);
        rt_earley_free(m);
    }
}

/* Texts of a hundred thousand bytes leave few states and little memory behind. */
static void long_texts_are_cheap(void **state) {
    (void)state;
    static const char *const grammars[] = {
        "root ::= \"a\"*",
        "root ::= \"a\" root | \"\"",
        "root ::= root \"a\" | \"a\"",
        "root ::= s\ns ::= \"a\" t\nt ::= \"a\" s | \"\"",
        "root ::= (\"a\"+ \"a\"*)+",
        "root ::= (\"a\"* \"b\"*)*",
        "root ::= x y\nx ::= \"a\" x | \"a\"\ny ::= \"b\"?",
    };
    for (int i = 0; i < COUNT(grammars); i++) {
        rt_earley *m = make_matcher(grammars[i], 1 << 20);
        rt_earley_state *at = rt_earley_start(m);
        retrace_error err = {0};
        int states;
        size_t bytes;
        for (int k = 0; k < 100000 && at; k++)
            assert_int_equal(rt_earley_step(m, at, 'a', &at, &err), RETRACE_OK);
        rt_earley_figures(m, &states, &bytes);
        if (!at || states > 10) fail_msg("%s: %d states", grammars[i], states);
        rt_earley_free(m);
    }
}

/* A bound is exact, and counting costs one state a step that hangs on no other. */
static void counted_repetitions(void **state) {
    (void)state;
    rt_earley *m = make_matcher("root ::= \"<\" [a-z]{20,5000} \">\"", 64 << 10);
    char text[6000];
    memset(text, 'q', sizeof text);
    text[0] = '<';
    for (int n = 0; n < 5005; n += n < 30 || n > 4990 ? 1 : 80) {
        text[n + 1] = '>';
        assert_int_equal(fits_bytes(m, text, (size_t)n + 2), n >= 20 && n <= 5000 ? 'y' : 'n');
        text[n + 1] = 'q';
    }
    int states;
    size_t bytes;
    rt_earley_figures(m, &states, &bytes);
    assert_true(bytes < 256 << 10);
    rt_earley_free(m);
}

/* Depth is remembered, and what is kept stays right while all else is forgotten. */
static void kept_states_stay(void **state) {
    (void)state;
    enum { DEPTH = 3000 };
    static rt_earley_state *kept[DEPTH + 1];
    rt_earley *m = make_matcher("root ::= \"[\" root \"]\" | \"x\"", 1);
    retrace_error err = {0};
    kept[0] = rt_earley_start(m);
    rt_earley_keep(kept[0]);
    for (int d = 0; d < DEPTH; d++) {
        assert_int_equal(rt_earley_step(m, kept[d], '[', &kept[d + 1], &err), RETRACE_OK);
        rt_earley_keep(kept[d + 1]);
    }
    for (int d = 0; d <= DEPTH; d += 37) {
        rt_earley_state *at;
        char text[DEPTH + 2];
        memset(text, ']', sizeof text);
        text[0] = 'x';
        assert_int_equal(rt_earley_feed(m, kept[d], text, (size_t)d + 1, &at, &err), RETRACE_OK);
        assert_true(at && rt_earley_can_end(at));
        assert_int_equal(rt_earley_step(m, at, ']', &at, &err), RETRACE_OK);
        assert_null(at);
    }
    for (int d = 0; d <= DEPTH; d++) rt_earley_drop(kept[d]);
    rt_earley_free(m);
}

static void too_ambiguous_is_a_failure(void **state) {
    (void)state;
    rt_earley *m = make_matcher(
        "root ::= root x root x root | x root root x | x root x x root | \"a\"\nx ::= y | \"b\" x\n"
        "y ::= \"a\"? | root",
        1 << 26);
    rt_earley_state *at = rt_earley_start(m);
    retrace_error err = {0};
    int rc = RETRACE_OK, n = 0;
    for (; rc == RETRACE_OK && n < 100000; n++) rc = rt_earley_step(m, at, 'a', &at, &err);
    assert_int_equal(rc, RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "grammar: there are too many ways to read the text"));
    assert_true(n > 20);
    assert_int_equal(fits(m, "aaaa"), 'y'); /* and it goes on working */
    rt_earley_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_grammars_are_matched_exactly),
        cmocka_unit_test(repetitions_are_few_states),
        cmocka_unit_test(long_texts_are_cheap),
        cmocka_unit_test(counted_repetitions),
        cmocka_unit_test(kept_states_stay),
        cmocka_unit_test(too_ambiguous_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
