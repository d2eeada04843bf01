/* test_reopen.c - runs that are taken up again: from every place of an answer, however it ended,
 * over and over. The stream of events must go on as one; what follows has the law of a run that was
 * begun behind the tokens that were kept. */
#include "helper.h"

#include <math.h>

static answer a;

static const char letters[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", \"ab\", {\"bytes\": [195]}, {\"bytes\": [169]},"
    " {\"text\": \"</s>\", \"end\": true}], \"n_ctx\": 40,"
    " \"rows\": [{\"context\": [], \"next\": {\"a\": 5, \"b\": 3, \"c\": 2, \"ab\": 1, \"4\": 1,"
    " \"</s>\": 0.5}}, {\"context\": [4], \"next\": {\"5\": 1}},"
    " {\"context\": [\"c\"], \"next\": {\"a\": 1, \"c\": 1, \"</s>\": 1}}]}";

enum { A, B, C, AB, LEAD, TAIL, END };

/* ==== Going on with the same answer ==== */

static int drawn_from, notes;

static int watch_notes(void *ud, const retrace_event *e) {
    notes += e->kind == RETRACE_NOTE && e->rule && strcmp(e->rule, "rewind") == 0;
    return see_event(ud, e);
}

static void finish(retrace_run *run) {
    retrace_error err = {0};
    if (retrace_run_finish(run, watch_notes, &a, &err)) fail_msg("%s", err.msg);
    answer_end(&a, run);
}

/* As `broken`, of a run that was taken up at drawn_from. */
static void assert_whole(const retrace_model *m) {
    int pushes = a.pushes;
    a.pushes += drawn_from;
    const char *why = broken(m, &a);
    a.pushes = pushes;
    if (why) fail_msg("%s (text '%s', finish %s)", why, a.text, retrace_finish_name(a.finish));
}

static int reopen(retrace_run *run, int to, int64_t max_tokens, const retrace_choice *then) {
    retrace_error err = {0};
    int rc = retrace_run_reopen(run, to, max_tokens, then, &err);
    assert_int_equal(rc < 0, err.msg[0] != 0);
    if (rc) return rc;
    /* What was there before `to` stays with the reader; the rest comes again. */
    retrace_text now = retrace_run_text(run);
    memcpy(a.streamed, now.n ? now.s : "", now.n);
    a.n_streamed = now.n;
    a.pushes = a.erases = a.ends = a.settles = 0;
    a.settled = to;
    drawn_from = to;
    assert_int_equal(retrace_run_finished(run), RETRACE_FINISH_NONE);
    return RETRACE_OK;
}

static retrace_run *start(retrace_model *m, const retrace_options *o) {
    retrace_run *run = run_start(m, o, &a);
    drawn_from = 0;
    finish(run);
    assert_whole(m);
    return run;
}

static retrace_choice put(retrace_token id) {
    return (retrace_choice){.kind = RETRACE_CHOOSE_TOKEN, .token = id};
}

static retrace_choice put_text(const char *s) {
    return (retrace_choice){.kind = RETRACE_CHOOSE_TEXT, .text = text_of(s)};
}

/* ==== Everywhere ==== */

static retrace_options any_options(uint64_t *dice, retrace_rule **rules, retrace_text *stops) {
    retrace_options o = plain_options(1 + roll_from(dice, 14));
    o.seed = roll_from(dice, 1000);
    o.hold = roll_from(dice, 2);
    o.on_stuck = roll_from(dice, 3);
    o.logprobs = roll_from(dice, 3) - 1;
    o.temp = roll_from(dice, 4) ? 1 : 0;
    o.rules = rules;
    o.n_rules = roll_from(dice, 5);
    o.stops = stops;
    o.n_stops = roll_from(dice, 3);
    if (roll_from(dice, 4) == 0) o.max_rewinds = 2;
    if (roll_from(dice, 4) == 0) o.max_evaluated = 6;
    if (roll_from(dice, 3) == 0) o.stuck_mass = 0.8;
    return o;
}

/* Goes back somewhere and puts something or nothing. */
static void take_up(retrace_model *m, retrace_run *run, uint64_t *dice, int banned) {
    static const char *const texts[] = {"ab", "abc", "bb", "c", "\xc3\xa9", "aba"};
    retrace_token kept[64];
    int n, most = roll_from(dice, 12) - 1, to, id = roll_from(dice, 7);
    const retrace_token *v = retrace_run_tokens(run, &n);
    to = roll_from(dice, n + 1);
    memcpy(kept, v, (size_t)n * sizeof *v);
    retrace_choice token = put(id), text = put_text(texts[roll_from(dice, COUNT(texts))]);
    const retrace_choice *then = NULL;
    int what = roll_from(dice, 4);
    if (what == 1) then = &token;
    if (what == 2) then = &text;
    if (reopen(run, to, most, then)) {
        assert_true(then != NULL);
        assert_int_equal(retrace_run_finished(run), a.finish);
        assert_memory_equal(retrace_run_tokens(run, &n), kept, (size_t)n * sizeof *kept);
        return;
    }
    if (roll_from(dice, 8) == 0) retrace_run_cancel(run);
    finish(run);
    assert_whole(m);
    v = retrace_run_tokens(run, &n);
    assert_true(n >= to); /* what was kept is kept */
    assert_memory_equal(v, kept, (size_t)to * sizeof *v);
    if (most >= 0) assert_true(n <= to + most);
    assert_true(n <= 40);
    if (banned && a.stats.accepted == 0) assert_null(strstr(a.text, "bc"));
}

static void anywhere_over_and_over(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_rule *rules[] = {
        ban_rule("bc", NULL), make_rule("regex", (const char *const[]){"pattern", "ca+b", NULL}),
        make_rule("repetition", (const char *const[]){"max_repetitions", "1", NULL}),
        make_rule("replace", (const char *const[]){"find", "cc", "replace", "ab", NULL})};
    int ends[8] = {0};
    retrace_text stops[] = {text_of("ba"), text_of("aac")};
    uint64_t dice = 5;
    for (int i = 0; i < 3000; i++) {
        retrace_options o = any_options(&dice, rules, stops);
        retrace_run *run = start(m, &o);
        int allowed = a.stats.accepted > 0;
        for (int k = 0; k < 5; k++) {
            ends[a.finish]++;
            take_up(m, run, &dice, o.n_rules > 0 && !allowed);
            allowed |= a.stats.accepted > 0;
        }
        retrace_run_free(run);
    }
    for (int f = RETRACE_FINISH_END; f <= RETRACE_FINISH_CANCELLED; f++)
        if (!ends[f]) fail_msg("none finished by %s", retrace_finish_name((retrace_finish)f));
    for (int i = 0; i < COUNT(rules); i++) retrace_rule_free(rules[i]);
    retrace_model_close(m);
}

/* ==== Laws ==== */

enum { MOST_DRAWS = 64, MOST_TEXTS = 4096, ROOM = 64 };

/* Chance: first what was wanted, then every way, one after the other. */
typedef struct walk {
    const retrace_token *want;
    int n_want, used;
    int at, n, index[MOST_DRAWS], last[MOST_DRAWS];
    double p;
} walk;

static int choose_walk(void *ud, const double *p, const retrace_token *ids, int n, uint64_t purpose,
                       int pos, int attempt) {
    walk *w = ud;
    double total = 0;
    int last = n, i = 0;
    (void)pos, (void)attempt, (void)purpose;
    for (int k = 0; k < n; k++) {
        total += p[k];
        if (p[k] > 0) last = k;
    }
    if (last == n) return n;
    if (w->used < w->n_want) {
        for (i = 0; i < n; i++)
            if ((ids ? ids[i] : i) == w->want[w->used] && p[i] > 0) break;
        assert_true(i < n);
        w->used++;
        return i;
    }
    assert_true(w->at < MOST_DRAWS);
    if (w->at == w->n) w->index[w->n++] = 0;
    i = w->index[w->at];
    while (!(p[i] > 0)) i++;
    w->index[w->at] = i;
    w->last[w->at++] = last;
    w->p *= p[i] / total;
    return i;
}

/* To the next way; 0 when all were walked. */
static int walk_on(walk *w) {
    while (w->n > 0 && w->index[w->n - 1] == w->last[w->n - 1]) w->n--;
    if (w->n > 0) w->index[w->n - 1]++;
    w->at = w->used = 0;
    w->p = 1;
    return w->n > 0;
}

typedef struct law {
    char text[MOST_TEXTS][ROOM];
    double p[MOST_TEXTS], sum;
    int n;
} law;

static double *law_at(law *l, const char *text, retrace_finish how) {
    char key[ROOM];
    assert_true(strlen(text) + 4 < ROOM);
    snprintf(key, sizeof key, "%d %s", (int)how, text);
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->text[i], key) == 0) return &l->p[i];
    assert_true(l->n < MOST_TEXTS);
    memcpy(l->text[l->n], key, sizeof key);
    l->p[l->n] = 0;
    return &l->p[l->n++];
}

static void law_add(law *l, const char *text, retrace_finish how, double p) {
    *law_at(l, text, how) += p;
    l->sum += p;
}

static void assert_same_law(law *x, law *y) {
    assert_true(x->n > 1 && fabs(x->sum - 1) < 1e-9 && y->sum > 0);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < x->n; i++) {
            double q = *law_at(y, x->text[i] + 2, (retrace_finish)(x->text[i][0] - '0'));
            if (fabs(x->p[i] / x->sum - q / y->sum) > 1e-9)
                fail_msg("'%s': %g, and %g", x->text[i], x->p[i] / x->sum, q / y->sum);
        }
        law *t = x;
        x = y;
        y = t;
    }
}

/* How a run is made whose law is looked at: its first tokens, taken up again after `to` of them. */
typedef struct lot {
    retrace_options o;
    retrace_token first[8];
    int n_first, to, follow;
} lot;

/* Taken up again `times` times, at `to` each time. What stands behind `to`. */
static void law_reopened(retrace_model *m, const lot *c, int times, law *out) {
    walk w = {.want = c->first, .n_want = c->n_first, .p = 1};
    retrace_options o = c->o;
    *out = (law){.n = 0};
    o.choose = choose_walk;
    o.choose_ud = &w;
    o.max_tokens = c->n_first;
    do {
        retrace_run *run = start(m, &o);
        assert_int_equal(w.used, c->n_first);
        for (int k = 1; k < times; k++) { /* the same again */
            w.used = c->to;
            assert_int_equal(reopen(run, c->to, c->n_first - c->to, NULL), RETRACE_OK);
            finish(run);
        }
        assert_int_equal(reopen(run, c->to, c->follow, NULL), RETRACE_OK);
        size_t kept = retrace_run_text(run).n;
        finish(run);
        assert_whole(m);
        law_add(out, a.text + kept, a.finish, w.p);
        retrace_run_free(run);
    } while (walk_on(&w));
}

/* The kept tokens in the prompt of a run of its own. */
static void law_prompted(retrace_model *m, const lot *c, law *out) {
    walk w = {.p = 1};
    retrace_options o = c->o;
    *out = (law){.n = 0};
    o.choose = choose_walk;
    o.choose_ud = &w;
    o.max_tokens = c->follow;
    do {
        finish_tokens(&a, m, &o, c->first, c->to);
        law_add(out, a.text, a.finish, w.p);
    } while (walk_on(&w));
}

/* Of one whole run those answers that begin with the kept tokens. */
static void law_given(retrace_model *m, const lot *c, law *out) {
    walk w = {.want = c->first, .n_want = c->to, .p = 1};
    retrace_options o = c->o;
    *out = (law){.n = 0};
    o.choose = choose_walk;
    o.choose_ud = &w;
    o.max_tokens = c->to + c->follow;
    do {
        size_t kept = 0;
        finish_tokens(&a, m, &o, NULL, 0);
        if (a.n_tokens < c->to) { /* by a stop text that began in there: none of it goes */
            assert_int_equal(a.finish, RETRACE_FINISH_STOP);
            law_add(out, "", a.finish, w.p);
            continue;
        }
        for (int i = 0; i < c->to; i++) {
            assert_int_equal(a.tokens[i], c->first[i]);
            kept += retrace_piece(m, c->first[i]).n;
        }
        law_add(out, a.text + kept, a.finish, w.p);
    } while (walk_on(&w));
}

static const char three[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", {\"text\": \"</s>\", \"end\": true}], \"rows\": ["
    "{\"context\": [], \"next\": {\"a\": 5, \"b\": 3, \"c\": 2, \"</s>\": 1}},"
    "{\"context\": [\"a\"], \"next\": {\"a\": 1, \"b\": 3, \"c\": 1, \"</s>\": 1}},"
    "{\"context\": [\"b\", \"c\"], \"next\": {\"a\": 1, \"b\": 1, \"c\": 2}}]}";

static void check_law(lot c, void (*reference)(retrace_model *, const lot *, law *)) {
    static law got, again, want;
    retrace_model *m = open_table(three);
    for (c.to = 0; c.to <= c.n_first; c.to++) {
        law_reopened(m, &c, 1, &got);
        law_reopened(m, &c, 3, &again);
        reference(m, &c, &want);
        assert_same_law(&got, &want);
        assert_same_law(&again, &want);
    }
    retrace_model_close(m);
}

/* Phrases that begin in what was kept are judged as those that begin in a prompt. */
static void the_law_of_a_longer_prompt(void **unused) {
    (void)unused;
    retrace_rule *r = ban_rule("cab", "bb");
    lot c = {.o = plain_options(0), .first = {A, B, C, A}, .n_first = 4, .follow = 3};
    check_law(c, law_prompted);
    c.o.rules = &r;
    c.o.n_rules = 1;
    for (int hold = 0; hold < 2; hold++) {
        c.o.hold = hold;
        check_law(c, law_prompted);
        c.o.on_stuck = RETRACE_STUCK_STOP;
        c.o.stuck_mass = 0.7;
    }
    c.o.top_k = 3;
    c.o.repeat_penalty = 1.3;
    c.o.repeat_last_n = 3;
    check_law(c, law_prompted);
    retrace_rule_free(r);
}

/* Constraints, penalties, stops: as of the whole run, given its beginning. */
static void the_law_of_the_whole(void **unused) {
    (void)unused;
    retrace_text stop = text_of("cc");
    lot c = {.o = plain_options(0), .first = {A, B, C, A}, .n_first = 4, .follow = 3};
    retrace_rule *r = make_rule(
        "grammar",
        (const char *const[]){"text", "root ::= \"ab\" (\"c\" | \"ca\" [abc]* | \"b\")", NULL});
    c.o.stops = &stop;
    c.o.n_stops = 1;
    c.o.presence_penalty = 0.5;
    c.o.frequency_penalty = 0.3;
    check_law(c, law_given);
    c.o.rules = &r;
    c.o.n_rules = 1;
    check_law(c, law_given);
    retrace_rule_free(r);
    r = ban_rule("bb", NULL); /* none of it begins in what was kept */
    lot d = {.o = plain_options(0), .first = {A, C, C, A}, .n_first = 4, .follow = 3};
    d.o.rules = &r;
    d.o.n_rules = 1;
    check_law(d, law_given);
    retrace_rule_free(r);
}

/* ==== One by one ==== */

static void what_cannot_be_is_refused(retrace_run *run) {
    static const struct {
        int to, max;
        retrace_choice then;
    } bad[] = {
        {-1, -1, {.kind = RETRACE_CHOOSE_DRAW}},
        {7, -1, {.kind = RETRACE_CHOOSE_DRAW}},
        {1, -1, {.kind = RETRACE_CHOOSE_BACK, .to = 0}},
        {1, -1, {.kind = RETRACE_CHOOSE_TOKEN, .token = -1}},
        {1, -1, {.kind = RETRACE_CHOOSE_TOKEN, .token = 7}},
        {1, -1, {.kind = RETRACE_CHOOSE_TOKEN, .token = LEAD}}, /* not admitted */
        {1, 0, {.kind = RETRACE_CHOOSE_TOKEN, .token = C}},     /* does not fit */
        {1, 2, {.kind = RETRACE_CHOOSE_TEXT, .text = {"ccc", 3}}},
        {1,
         100,
         {.kind = RETRACE_CHOOSE_TEXT,
          .text = {"ccccccccccccccccccccccccccccccccccccccc"
                   "cccc",
                   43}}},
        {1, -1, {.kind = RETRACE_CHOOSE_TEXT, .text = {"", 0}}},
        {1, -1, {.kind = RETRACE_CHOOSE_TEXT, .text = {"x", 1}}},
        {1, -1, {.kind = RETRACE_CHOOSE_TEXT, .text = {"\xff", 1}}},
    };
    for (int i = 0; i < COUNT(bad); i++) {
        assert_int_equal(reopen(run, bad[i].to, bad[i].max, &bad[i].then), RETRACE_EUSAGE);
        retrace_text t = retrace_run_text(run);
        assert_true(t.n == 6 && retrace_run_finished(run) == RETRACE_FINISH_LENGTH);
    }
}

static void nothing_is_banned_where_nothing_was_taken_back(retrace_run *run) {
    int n = -1;
    assert_null(retrace_run_bans(run, 1, &n));
    assert_int_equal(n, 0);
    assert_null(retrace_run_bans(run, -1, &n));
    assert_null(retrace_run_bans(run, 7, &n));
}

static void what_is_taken_back_is_banned_from_then_on(retrace_model *m, retrace_run *run) {
    retrace_choice b = put(B);
    int n = -1;
    notes = 0;
    assert_int_equal(reopen(run, 2, 3, &b), RETRACE_OK);
    finish(run);
    assert_whole(m);
    assert_string_equal(a.text, "aaaaa");
    assert_int_equal(notes, 1);
    const retrace_token *bans = retrace_run_bans(run, 2, &n);
    assert_true(n == 1 && bans[0] == B);
    assert_int_equal(reopen(run, 2, 3, &b), RETRACE_EUSAGE);
    retrace_choice text = put_text("cabc");
    assert_int_equal(reopen(run, 1, 5, &text), RETRACE_OK);
    finish(run);
    assert_whole(m);
    assert_string_equal(a.text, "aaaaaa"); /* all of the text went */
    assert_int_equal(notes, 2);
    text = put_text("cb");
    assert_int_equal(reopen(run, 1, 5, &text), RETRACE_OK);
    finish(run);
    assert_whole(m);
    assert_int_equal(a.text[1] == 'c' && a.text[2] == 'b', 1);
    retrace_choice end = put(END);
    assert_int_equal(reopen(run, 2, 5, &end), RETRACE_OK);
    finish(run);
    assert_whole(m);
    assert_string_equal(a.text, "ac");
    assert_int_equal(a.finish, RETRACE_FINISH_END);
}

static void one_by_one(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_rule *rules[] = {
        ban_rule("ab", NULL),
        make_rule("grammar", (const char *const[]){"text", "root ::= [abc]*", NULL})};
    retrace_options o = greedy_options(6);
    o.rules = rules;
    o.n_rules = 2;
    retrace_run *run = run_start(m, &o, &a);
    assert_int_equal(reopen(run, 0, -1, NULL), RETRACE_EUSAGE); /* it goes on still */
    finish(run);
    assert_string_equal(a.text, "aaaaaa");
    what_cannot_be_is_refused(run);
    nothing_is_banned_where_nothing_was_taken_back(run);
    what_is_taken_back_is_banned_from_then_on(m, run);
    retrace_run_free(run);
    for (int i = 0; i < 2; i++) retrace_rule_free(rules[i]);
    retrace_model_close(m);
}

/* A stop text that began within the last token cut its text; taken up, the token is whole. */
static void a_cut_token_is_whole_again(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_text stop = text_of("bc");
    retrace_token want[] = {A, AB, C, C, C};
    script s = {want, 5, 0, 0};
    retrace_options o = plain_options(5);
    o.stops = &stop;
    o.n_stops = 1;
    o.choose = choose_script;
    o.choose_ud = &s;
    retrace_run *run = start(m, &o);
    assert_string_equal(a.text, "aa");
    assert_int_equal(a.n_tokens, 2);
    retrace_choice text = put_text("ac");
    assert_int_equal(reopen(run, 2, 2, &text), RETRACE_OK);
    finish(run);
    assert_whole(m);
    assert_string_equal(a.text, "aabac");
    /* A stop text that began in what was kept takes none of it. */
    text = put_text("c");
    assert_int_equal(reopen(run, 2, 2, &text), RETRACE_OK);
    finish(run);
    assert_whole(m);
    assert_string_equal(a.text, "aab");
    assert_int_equal(a.finish, RETRACE_FINISH_STOP);
    /* Nothing may follow: it ends at once. */
    assert_int_equal(reopen(run, 1, 0, NULL), RETRACE_OK);
    finish(run);
    assert_whole(m);
    assert_string_equal(a.text, "a");
    assert_int_equal(a.finish, RETRACE_FINISH_LENGTH);
    retrace_run_free(run);
    retrace_model_close(m);
}

/* As many may follow as the whole answer could have had at first; and the context ends all. */
static void how_many_follow(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_options o = greedy_options(3);
    retrace_run *run = start(m, &o);
    for (int to = 3; to < 9; to += 3) {
        assert_int_equal(reopen(run, to, -1, NULL), RETRACE_OK);
        finish(run);
        assert_whole(m);
        assert_int_equal(a.n_tokens, to + 3);
        assert_int_equal(a.stats.kept, to + 3);
        assert_true(a.stats.evaluated <= 3);
    }
    assert_int_equal(reopen(run, 9, 1000, NULL), RETRACE_OK);
    finish(run);
    assert_whole(m);
    assert_int_equal(a.n_tokens, 40);
    assert_int_equal(a.finish, RETRACE_FINISH_LENGTH);
    assert_int_equal(reopen(run, 40, 5, NULL), RETRACE_OK);
    finish(run);
    assert_whole(m);
    assert_int_equal(a.n_tokens, 40);
    retrace_run_free(run);
    retrace_model_close(m);
}

/* A run of resample exact is never taken up, nor one that has failed. */
static void runs_that_are_not_taken_up(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_options o = plain_options(3);
    o.resample = RETRACE_RESAMPLE_EXACT;
    retrace_run *run = start(m, &o);
    assert_int_equal(reopen(run, 0, -1, NULL), RETRACE_EUSAGE);
    retrace_run_free(run);
    o.resample = RETRACE_RESAMPLE_LOCAL;
    run = run_start(m, &o, &a);
    while (turn(m, run, &a) != RETRACE_NEED_MODEL) {
    }
    retrace_run_abort(run);
    assert_int_equal(reopen(run, 0, -1, NULL), RETRACE_EUSAGE);
    retrace_run_free(run);
    retrace_model_close(m);
}

static int settles_of(retrace_run *run, int hold) {
    retrace_error err = {0};
    assert_int_equal(retrace_run_set_hold(run, hold, &err), RETRACE_OK);
    assert_int_equal(reopen(run, 1, 8, NULL), RETRACE_OK);
    finish(run);
    return a.settles;
}

/* Whoever takes it up says how it is shown; the text is the same. */
static void another_hold(void **unused) {
    (void)unused;
    retrace_error err = {0};
    retrace_model *m = open_table(letters);
    retrace_options o = plain_options(9);
    o.temp = 0;
    o.hold = RETRACE_HOLD_ALL;
    retrace_run *run = start(m, &o);
    assert_int_equal(settles_of(run, RETRACE_HOLD_ALL), 1);
    assert_true(settles_of(run, RETRACE_HOLD_MINIMAL) > 4);
    assert_int_equal(settles_of(run, RETRACE_HOLD_ALL), 1);
    assert_int_equal(retrace_run_set_hold(run, 2, &err), RETRACE_EUSAGE);
    assert_int_equal(reopen(run, 1, INT64_MAX, NULL), RETRACE_EUSAGE);
    retrace_run_free(run);
    retrace_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anywhere_over_and_over),     cmocka_unit_test(the_law_of_a_longer_prompt),
        cmocka_unit_test(the_law_of_the_whole),       cmocka_unit_test(one_by_one),
        cmocka_unit_test(a_cut_token_is_whole_again), cmocka_unit_test(how_many_follow),
        cmocka_unit_test(runs_that_are_not_taken_up), cmocka_unit_test(another_hold),
    };
    return cmocka_run_group_tests_name("reopen", tests, NULL, NULL);
}
