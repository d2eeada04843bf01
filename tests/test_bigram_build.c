/* test_bigram_build.c - building tables: what is built is right, and whatever interrupts a build,
 * the old file or the new one is there, and going on gives the same file. */
#include "building.h"

#include "backward/stationary.h"
#include "tiny.h"

static uint64_t dice = 1;

/* ==== What is built ==== */

static double *law_of(const retrace_bigram *b, int vocab, retrace_token start) {
    size_t n = (size_t)vocab;
    double *p = malloc(n * n * sizeof *p), *first = malloc(n * sizeof *first),
           *pi = malloc(n * sizeof *pi);
    assert_true(p && first && pi);
    for (int v = 0; v < vocab; v++) {
        double *row = p + (size_t)v * n, sum = 0;
        assert_int_equal(retrace_bigram_row(b, v, row, NULL), RETRACE_OK);
        for (size_t w = 0; w < n; w++) sum += row[w] = exp(row[w]);
        assert_true(fabs(sum - 1) < 1e-5);
        for (size_t w = 0; w < n; w++) row[w] /= sum;
    }
    memcpy(first, p + (size_t)start * n, n * sizeof *first);
    assert_int_equal(rt_stationary(p, vocab, first, pi, NULL), RETRACE_OK);
    free(p);
    free(first);
    return pi;
}

/* The row of a state, from the made-up model's own numbers. */
static void check_row(made_up *u, const retrace_bigram *b, retrace_token v, int n_anchor,
                      const retrace_token *anchor) {
    float *states = malloc((size_t)u->dim * sizeof *states), *x = malloc(VOCAB * sizeof *x);
    double *row = malloc(VOCAB * sizeof *row), sum = 0;
    retrace_token start = 1;
    assert_true(states && x && row);
    int starts = v == 1 || v == VOCAB - 1;
    if (starts)
        u->factors.states(&u->base, &start, 1, NULL, 1, states, x, NULL);
    else
        u->factors.states(&u->base, anchor, n_anchor, &v, 1, states, x, NULL);
    for (int w = 0; w < VOCAB; w++) sum += exp((double)x[w]);
    assert_int_equal(retrace_bigram_row(b, v, row, NULL), RETRACE_OK);
    for (int w = 0; w < VOCAB; w++)
        if (!(fabs(row[w] - ((double)x[w] - log(sum))) < .02))
            fail_msg("row %d, column %d: %g instead of %g", (int)v, w, row[w],
                     (double)x[w] - log(sum));
    free(states);
    free(x);
    free(row);
}

static void a_table_is_the_models(void **unused) {
    (void)unused;
    const retrace_token anchors[] = {1, 5, 7};
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 3);
    for (int n = -1; n < 4; n++) {
        retrace_anchor anchor = {anchors, n};
        retrace_bigram *b = NULL;
        retrace_bigram_info f;
        retrace_error err = {0};
        watcher w = {0};
        int n_anchor = n < 0 ? 1 : n;
        if (retrace_bigram_build(path, &u->base, anchor, 0, watch, &w, &err))
            fail_msg("%s", err.msg);
        assert_true(w.share == 1 && w.stage == RETRACE_BUILD_WRITE);
        if (retrace_bigram_open(&b, path, &err)) fail_msg("%s", err.msg);
        retrace_bigram_facts(b, &f);
        assert_string_equal(f.kind, "factored");
        assert_int_equal(f.n_anchor, n_anchor);
        assert_int_equal(f.dim, DIM);
        assert_int_equal(f.start, 1);
        assert_true(f.residual < 1e-6 && f.iterations > 1);
        assert_int_equal(retrace_bigram_fits(b, &u->base, 0, &err), RETRACE_OK);
        for (retrace_token v = 0; v < VOCAB; v += v < 3 || v > VOCAB - 4 ? 1 : 37)
            check_row(u, b, v, n_anchor, anchors);
        double *pi = law_of(b, VOCAB, 1), off = 0;
        for (int v = 0; v < VOCAB; v++) off += fabs(pi[v] - retrace_bigram_pi(b)[v]);
        if (!(off < 1e-5)) fail_msg("pi is off by %g", off);
        assert_true(fabs(f.start_pi - pi[1] - pi[VOCAB - 1]) < 1e-5);
        free(pi);
        retrace_bigram_close(b);
    }
    unlink(path);
    made_up_free(u);
}

/* ==== Interrupted ==== */

static void stopping_anywhere_changes_nothing(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 4);
    bytes clean = clean_build(u);
    const bytes old = {(unsigned char *)"old", 3};
    for (int stop = 1;; stop++) {
        watcher w = {.stop_at = stop};
        retrace_error err = {0};
        write_bytes(path, old.s, old.n);
        int rc = try_build(u, path, &w, &err);
        if (rc == RETRACE_OK) { /* the last call comes too late to stop anything */
            assert_int_equal(w.calls, stop);
            assert_holds(path, clean);
            assert_true(stop > 20);
            break;
        }
        fails_with(rc, &err, RETRACE_ECANCEL, "cancelled");
        assert_holds(path, old);
        build(u, path);
        assert_holds(path, clean);
    }
    free(clean.s);
    unlink(path);
    made_up_free(u);
}

static void many_stops_come_to_an_end(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 5);
    bytes clean = clean_build(u);
    int rc = RETRACE_ECANCEL, tries = 0;
    while (rc == RETRACE_ECANCEL && tries++ < 1000) {
        watcher w = {.stop_at = 1 + roll_from(&dice, 9)};
        retrace_error err = {0};
        rc = try_build(u, path, &w, &err);
    }
    assert_int_equal(rc, RETRACE_OK);
    assert_true(tries > 3);
    assert_holds(path, clean);
    free(clean.s);
    unlink(path);
    made_up_free(u);
}

static void killed_anywhere_old_or_new_is_there(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 6);
    bytes clean = clean_build(u);
    const bytes old = {(unsigned char *)"old", 3};
    int end = -1, new = 0;
    for (int k = 1; end < 0; k++) {
        write_bytes(path, old.s, old.n);
        fault.at = k;
        fault.kill = 1;
        fault.count = 0;
        end = build_apart(u, path, (watcher){0}, 0);
        no_faults();
        bytes there = read_bytes(path);
        new += there.n == clean.n;
        if (there.n != old.n) assert_holds(path, clean);
        free(there.s);
        build(u, path);
        assert_holds(path, clean);
        if (end == 0) assert_true(k > 10 && new > 1);
    }
    free(clean.s);
    unlink(path);
    made_up_free(u);
}

static void killed_while_working_it_goes_on(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 7);
    bytes clean = clean_build(u);
    int end = -1;
    for (int k = 3; end < 0; k += 5) {
        end = build_apart(u, path, (watcher){.kill_at = k}, 0);
        if (end < 0) assert_false(is_there(path));
    }
    assert_holds(path, clean);
    free(clean.s);
    unlink(path);
    made_up_free(u);
}

static void work_is_not_done_twice(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 8);
    watcher w = {0};
    retrace_error err = {0};
    assert_int_equal(try_build(u, path, &w, &err), RETRACE_OK);
    int rows = u->rows, n_product = u->n_product;
    w = (watcher){.stop_at = w.calls - 2}; /* within the last pass */
    assert_int_equal(try_build(u, path, &w, &err), RETRACE_ECANCEL);
    w = (watcher){.stop_at = 1}; /* before anything of it was read */
    assert_int_equal(try_build(u, path, &w, &err), RETRACE_ECANCEL);
    u->rows = u->n_product = 0;
    w = (watcher){0};
    assert_int_equal(try_build(u, path, &w, &err), RETRACE_OK);
    assert_true(u->rows < 20 && rows >= VOCAB);
    assert_true(u->n_product < VOCAB + 50 && n_product > 2 * VOCAB + 50);
    /* restart: all of it once more */
    w = (watcher){.stop_at = 20};
    assert_int_equal(try_build(u, path, &w, &err), RETRACE_ECANCEL);
    u->rows = 0;
    assert_int_equal(retrace_bigram_build(path, &u->base, anchor_auto, 1, NULL, NULL, &err),
                     RETRACE_OK);
    assert_int_equal(u->rows, rows);
    unlink(path);
    made_up_free(u);
}

/* ==== Parts ==== */

static void a_part_of_another_build_is_begun_anew(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    for (int k = 0; k < 8; k++) {
        made_up *u = made_up_new(VOCAB, DIM, 9), *other = made_up_new(VOCAB, DIM, 9);
        other->base.facts.n_params = 1; /* of no account */
        if (k == 0) other->base.facts.hash++;
        if (k == 1) other->base.facts.vocab_hash++;
        if (k == 2) other->base.facts.weights = "file";
        if (k == 3) other->base.facts.start = 2;
        if (k == 4) other->base.facts.name = "another";
        if (k == 5) other->factors.states_batch = 64;
        if (k == 6) other->dim = DIM - 1;
        other->seed += k != 7; /* what it would leave behind shows */
        stop_late(other, path);
        other->seed = u->seed;
        bytes part = read_bytes(in_folder("t.part"));
        u->rows = 0;
        build(u, path);
        if (k < 7) assert_in_range(u->rows, VOCAB, VOCAB + 20);
        if (k == 7) assert_in_range(u->rows, 0, 20); /* the very same */
        bytes file = read_bytes(path), clean = clean_build(u);
        assert_int_equal(file.n, clean.n);
        assert_memory_equal(file.s, clean.s, file.n);
        free(part.s);
        free(file.s);
        free(clean.s);
        made_up_free(u);
        made_up_free(other);
    }
}

static void a_torn_part_is_gone_on_from(void **unused) {
    (void)unused;
    const char *path = in_folder("t"), *part_path = in_folder("t.part");
    made_up *u = made_up_new(VOCAB, DIM, 10);
    bytes clean = clean_build(u);
    stop_late(u, path);
    bytes part = read_bytes(part_path);
    assert_true(part.n > VOCAB * DIM * 2 + VOCAB * 8);
    for (int k = 0; k < 60; k++) {
        bytes torn = {malloc(part.n), part.n};
        assert_non_null(torn.s);
        memcpy(torn.s, part.s, part.n);
        size_t at = (size_t)roll_from(&dice, (int)part.n);
        if (k % 3 == 0) torn.n = at;
        if (k % 3 == 1 && at >= 8) torn.s[at] ^= (unsigned char)(1 << roll_from(&dice, 8));
        if (k % 3 == 2 && at >= 8) memset(torn.s + at, 0, part.n - at);
        write_bytes(part_path, torn.s, torn.n);
        build(u, path);
        assert_holds(path, clean);
        unlink(path);
        free(torn.s);
    }
    free(part.s);
    free(clean.s);
    made_up_free(u);
}

/* The law before the newest one is there as well: a torn one costs one pass more, not all. */
static void a_torn_law_costs_one_pass(void **unused) {
    (void)unused;
    const char *path = in_folder("t"), *part_path = in_folder("t.part");
    made_up *u = made_up_new(VOCAB, DIM, 23);
    bytes clean = clean_build(u);
    int compared = 16, passes[3]; /* eight rows, made in either way */
    stop_late(u, path);
    bytes part = read_bytes(part_path);
    size_t laws = 512 + 2 * (200 * DIM * 2 + 8), one = (part.n - laws) / 2;
    for (int k = 0; k < 3; k++) { /* the first law, the second, neither */
        if (k < 2) part.s[laws + (size_t)k * one + 100] ^= 1;
        write_bytes(part_path, part.s, part.n);
        if (k < 2) part.s[laws + (size_t)k * one + 100] ^= 1;
        u->n_product = 0;
        build(u, path);
        assert_holds(path, clean);
        assert_int_equal((u->n_product - compared) % VOCAB, 0);
        passes[k] = (u->n_product - compared) / VOCAB;
    }
    assert_int_equal(passes[2], 1);
    assert_int_equal(passes[0] + passes[1], 3);
    free(part.s);
    free(clean.s);
    unlink(path);
    made_up_free(u);
}

/* ==== Refused ==== */

static void no_litter(void) {
    assert_false(is_there(in_folder("t")));
    assert_false(is_there(in_folder("t.part")));
    assert_false(is_there(in_folder("t.tmp")));
}

static void models_that_cannot_are_refused(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 19);
    retrace_error err = {0};
    u->bias = .2f;
    fails_with(try_build(u, path, NULL, &err), &err, RETRACE_EMODEL,
               "its logits are not W h: row of token 0 is off by 0.0");
    no_litter();
    u->bias = NAN;
    fails_with(try_build(u, path, NULL, &err), &err, RETRACE_EMODEL, "is off by");
    no_litter();
    u->bias = 0;
    u->scale = 1e6f;
    fails_with(try_build(u, path, NULL, &err), &err, RETRACE_EMODEL, "beyond half precision");
    no_litter();
    u->scale = 2;
    u->dim = 0;
    fails_with(try_build(u, path, NULL, &err), &err, RETRACE_EMODEL, "its logits are capped");
    no_litter();
    u->dim = DIM;
    u->fail_at = 6;
    fails_with(try_build(u, path, NULL, &err), &err, RETRACE_EMODEL, "the model fails");
    u->fail_at = 0;
    build(u, path);
    unlink(path);
    retrace_token outside = VOCAB;
    int rc =
        retrace_bigram_build(path, &u->base, (retrace_anchor){&outside, 1}, 0, NULL, NULL, &err);
    fails_with(rc, &err, RETRACE_EUSAGE, "outside the vocabulary");
    no_litter();
    u->type.factors = NULL;
    u->base.facts.vocab = 5000;
    fails_with(try_build(u, path, NULL, &err), &err, RETRACE_EMODEL, "tells no hidden states");
    no_litter();
    made_up_free(u);
}

/* Activations of quantised weights are rounded: rows may be further off. */
static void quantised_rows_may_be_further_off(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 20);
    retrace_error err = {0};
    u->bias = .1f; /* of every second token: a total variation of .025 */
    fails_with(try_build(u, path, NULL, &err), &err, RETRACE_EMODEL, "off by 0.02");
    u->base.facts.weights = "file";
    build(u, path);
    u->bias = 1;
    fails_with(try_build(u, path, NULL, &err), &err, RETRACE_EMODEL, "off by 0.2");
    unlink(path);
    made_up_free(u);
}

/* ==== Through libllama ==== */

/* Total variation of a row of the chain and the law after [anchor, v] of the model itself. */
static double off_by(retrace_model *m, const retrace_bigram *b, retrace_token v) {
    retrace_bigram_info f;
    retrace_error err = {0};
    retrace_bigram_facts(b, &f);
    float *next = malloc((size_t)f.vocab * sizeof *next);
    double *row = malloc((size_t)f.vocab * sizeof *row), sum = 0, off = 0;
    assert_true(next && row && f.n_anchor == 1);
    int starts = v == f.start || retrace_token_ends(m, v);
    const retrace_token tokens[] = {starts ? f.start : f.anchor[0], v};
    retrace_query q = {.tokens = tokens, .n = 2 - starts, .next = next, .slot = RETRACE_PASSING};
    if (retrace_model_eval(m, &q, 1, &err)) fail_msg("%s", err.msg);
    assert_int_equal(retrace_bigram_row(b, v, row, NULL), RETRACE_OK);
    for (int w = 0; w < f.vocab; w++) sum += exp((double)next[w]);
    for (int w = 0; w < f.vocab; w++) off += fabs(exp(row[w]) - exp((double)next[w]) / sum) / 2;
    free(next);
    free(row);
    return off;
}

static void build_tiny(const char *file, const char *settings, double most) {
    const char *path = in_folder("t");
    retrace_error err = {0};
    retrace_bigram *b = NULL;
    retrace_bigram_info f;
    retrace_model *m = tiny_open(tiny_path(file), settings);
    int rc = RETRACE_ECANCEL;
    if (retrace_bigram_build(path, m, anchor_auto, 0, NULL, NULL, &err)) fail_msg("%s", err.msg);
    bytes clean = read_bytes(path);
    unlink(path);
    for (int stop = 3; rc == RETRACE_ECANCEL; stop += 2) {
        watcher w = {.stop_at = stop};
        rc = retrace_bigram_build(path, m, anchor_auto, 0, watch, &w, &err);
    }
    if (rc) fail_msg("%s", err.msg);
    assert_holds(path, clean);
    if (retrace_bigram_open(&b, path, &err)) fail_msg("%s", err.msg);
    retrace_bigram_facts(b, &f);
    assert_int_equal(retrace_bigram_fits(b, m, 0, &err), RETRACE_OK);
    for (retrace_token v = 0; v < f.vocab; v++) {
        double off = off_by(m, b, v);
        if (!(off < most)) fail_msg("%s: row %d is off by %g", file, (int)v, off);
    }
    retrace_bigram_close(b);
    retrace_model_close(m);
    free(clean.s);
    unlink(path);
}

/* The tiny files in RETRACE_TINY. */
static void tables_of_tiny_models(void **unused) {
    (void)unused;
    if (!tiny_path("dense.gguf")) skip();
    build_tiny("dense.gguf", "ctx_size=256 threads=2", .002);
    build_tiny("recurrent.gguf", "ctx_size=256 threads=1", .002);
    build_tiny("quant.gguf", "ctx_size=256 threads=2 weights=f32", .002);
    build_tiny("quant.gguf", "ctx_size=256 threads=1", .1);
}

/* ==== Tables of few tokens ==== */

static const char chain[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", {\"text\": \"</s>\", \"end\": true}],"
    " \"rows\": [{\"context\": [], \"next\": {\"a\": 5, \"b\": 4, \"c\": 1}},"
    " {\"context\": [\"a\"], \"next\": {\"b\": 8, \"c\": 1}},"
    " {\"context\": [\"b\"], \"next\": {\"a\": 1, \"b\": 2, \"c\": 3, \"</s>\": 4}}]}";

static void few_tokens_get_all_rows(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    retrace_model *m = open_table(chain);
    retrace_bigram *made = NULL, *read = NULL;
    retrace_error err = {0};
    watcher w = {.stop_at = 1};
    int rc = retrace_bigram_build(path, m, anchor_auto, 0, watch, &w, &err);
    fails_with(rc, &err, RETRACE_ECANCEL, "cancelled");
    no_litter();
    w = (watcher){0};
    if (retrace_bigram_build(path, m, anchor_auto, 0, watch, &w, &err)) fail_msg("%s", err.msg);
    assert_true(w.share == 1);
    assert_false(is_there(in_folder("t.part")));
    assert_int_equal(retrace_bigram_of(&made, m, anchor_auto, &err), RETRACE_OK);
    if (retrace_bigram_open(&read, path, &err)) fail_msg("%s", err.msg);
    assert_int_equal(retrace_bigram_fits(read, m, 0, &err), RETRACE_OK);
    assert_memory_equal(retrace_bigram_pi(made), retrace_bigram_pi(read), 4 * sizeof(double));
    for (retrace_token v = 0; v < 4; v++) {
        double x[4], y[4];
        assert_int_equal(retrace_bigram_row(made, v, x, NULL), RETRACE_OK);
        assert_int_equal(retrace_bigram_row(read, v, y, NULL), RETRACE_OK);
        assert_memory_equal(x, y, sizeof x);
        assert_int_equal(retrace_bigram_column(made, v, x, NULL), RETRACE_OK);
        assert_int_equal(retrace_bigram_column(read, v, y, NULL), RETRACE_OK);
        assert_memory_equal(x, y, sizeof x);
    }
    retrace_bigram_close(made);
    retrace_bigram_close(read);
    retrace_model_close(m);
    unlink(path);
}

/* ==== Memory ==== */

static long n_calls, fail_at, n_blocks;

static void *short_of_memory(void *ud, void *ptr, size_t old_size, size_t new_size) {
    (void)ud, (void)old_size;
    if (new_size == 0) {
        n_blocks -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (++n_calls == fail_at) return NULL;
    n_blocks += !ptr;
    return realloc(ptr, new_size);
}

static void memory_may_run_out(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(60, DIM, 21);
    bytes clean = clean_build(u);
    int rc = RETRACE_ENOMEM;
    retrace_set_alloc(short_of_memory, NULL);
    for (fail_at = 1; rc; fail_at++) {
        n_calls = 0;
        unlink(path);
        rc = try_build(u, path, NULL, NULL);
        if (rc) assert_int_equal(rc, RETRACE_ENOMEM);
        assert_int_equal(n_blocks, 0);
    }
    assert_true(fail_at > 20);
    retrace_set_alloc(NULL, NULL);
    build(u, path);
    assert_holds(path, clean);
    free(clean.s);
    unlink(path);
    made_up_free(u);
}

static int clean_up(void **unused) {
    (void)unused;
    return rmdir(folder());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_the_models),
        cmocka_unit_test(stopping_anywhere_changes_nothing),
        cmocka_unit_test(many_stops_come_to_an_end),
        cmocka_unit_test(killed_anywhere_old_or_new_is_there),
        cmocka_unit_test(killed_while_working_it_goes_on),
        cmocka_unit_test(work_is_not_done_twice),
        cmocka_unit_test(a_part_of_another_build_is_begun_anew),
        cmocka_unit_test(a_torn_part_is_gone_on_from),
        cmocka_unit_test(a_torn_law_costs_one_pass),
        cmocka_unit_test(models_that_cannot_are_refused),
        cmocka_unit_test(quantised_rows_may_be_further_off),
        cmocka_unit_test(tables_of_tiny_models),
        cmocka_unit_test(few_tokens_get_all_rows),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests_name("bigram build", tests, NULL, clean_up);
}
