/* test_bigram_file.c - table files: what is written comes back bit for bit, and what is not whole,
 * not ours or makes no sense is refused with the reason. */
#include "helper.h"

#include "backward/dense.h"
#include "backward/half.h"
#include "bigram/table.h"
#include "factors.h"

#include <math.h>

/* ==== Tables ==== */

enum { VOCAB = 37, DIM = 6 };

static uint64_t dice = 1;

static double fraction(void) {
    return (roll_from(&dice, 1 << 20) + 1) / (double)((1 << 20) + 1);
}

static char *copy_text(const char *s) {
    char *out = retrace_alloc(strlen(s) + 1);
    assert_non_null(out);
    memcpy(out, s, strlen(s) + 1);
    return out;
}

static void fill_facts(rt_table *t, const char *kind, int n_anchor) {
    double entropy = 0;
    t->model = copy_text("a mod\xC3\xA9l");
    t->weights = copy_text("f32");
    t->anchor = n_anchor ? retrace_alloc((size_t)n_anchor * sizeof *t->anchor) : NULL;
    for (int i = 0; i < n_anchor; i++) t->anchor[i] = i * 5;
    t->parts.pi = retrace_alloc(VOCAB * sizeof(double));
    double sum = 0;
    for (int i = 0; i < VOCAB; i++) sum += t->parts.pi[i] = i == 3 ? 0 : fraction();
    for (int i = 0; i < VOCAB; i++) {
        t->parts.pi[i] /= sum;
        if (t->parts.pi[i] > 0) entropy -= t->parts.pi[i] * log(t->parts.pi[i]);
    }
    t->facts = (retrace_bigram_info){.kind = kind,
                                     .model = t->model,
                                     .weights = t->weights,
                                     .model_hash = 0x123456789abcdef0u,
                                     .vocab_hash = 0xfedcba9876543210u,
                                     .vocab = VOCAB,
                                     .anchor = t->anchor,
                                     .n_anchor = n_anchor,
                                     .start = 2,
                                     .iterations = 11,
                                     .residual = 3e-7,
                                     .rate = .4,
                                     .entropy = entropy,
                                     .start_pi = t->parts.pi[2]};
}

static rt_table dense_table(int n_anchor) {
    rt_table t = {0};
    fill_facts(&t, "dense", n_anchor);
    t.rows = retrace_alloc((size_t)VOCAB * VOCAB * sizeof(double));
    for (int v = 0; v < VOCAB; v++) {
        double *row = t.rows + (size_t)v * VOCAB, sum = 0;
        for (int w = 0; w < VOCAB; w++) sum += row[w] = (v + w) % 7 ? fraction() : 0;
        for (int w = 0; w < VOCAB; w++) row[w] = log(row[w] / sum);
    }
    return t;
}

static rt_table factored_table(int n_anchor) {
    rt_table t = {0};
    float x[DIM];
    fill_facts(&t, "factored", n_anchor);
    t.facts.dim = DIM;
    t.parts.states = retrace_alloc((VOCAB + 1) * DIM * sizeof(uint16_t));
    t.parts.output = retrace_alloc(VOCAB * DIM * sizeof(uint16_t));
    t.parts.log_norm = retrace_alloc((VOCAB + 1) * sizeof(double));
    t.parts.starts = retrace_alloc(VOCAB);
    for (int v = 0; v <= VOCAB; v++) {
        for (int k = 0; k < DIM; k++) x[k] = (float)(fraction() - .5) * 4;
        rt_half_pack(x, DIM, t.parts.states + v * DIM);
        for (int k = 0; k < DIM; k++) x[k] = (float)(fraction() - .5);
        if (v < VOCAB) rt_half_pack(x, DIM, t.parts.output + v * DIM);
        t.parts.log_norm[v] = 3 + fraction();
        if (v < VOCAB) t.parts.starts[v] = v == 2 || v == 9;
    }
    return t;
}

static const char *write_table(const rt_table *t, const char *name) {
    retrace_error err = {0};
    const char *path = in_folder(name);
    if (rt_table_write(t, path, &err)) fail_msg("%s", err.msg);
    return path;
}

/* ==== There and back ==== */

static void same_facts(const retrace_bigram_info *x, const retrace_bigram_info *y) {
    assert_string_equal(x->kind, y->kind);
    assert_string_equal(x->model, y->model);
    assert_string_equal(x->weights, y->weights);
    assert_true(x->model_hash == y->model_hash && x->vocab_hash == y->vocab_hash);
    assert_int_equal(x->vocab, y->vocab);
    assert_int_equal(x->dim, y->dim);
    assert_int_equal(x->n_anchor, y->n_anchor);
    for (int i = 0; i < x->n_anchor; i++) assert_int_equal(x->anchor[i], y->anchor[i]);
    assert_int_equal(x->start, y->start);
    assert_int_equal(x->iterations, y->iterations);
    assert_true(x->residual == y->residual && x->rate == y->rate && x->entropy == y->entropy &&
                x->start_pi == y->start_pi);
}

/* Rows and columns of the file are those of the chain made of the same arrays in memory. */
static void same_numbers(const retrace_bigram *x, const retrace_bigram *y) {
    double a[VOCAB], b[VOCAB];
    assert_memory_equal(retrace_bigram_pi(x), retrace_bigram_pi(y), sizeof a);
    for (int v = 0; v < VOCAB; v++) {
        assert_int_equal(retrace_bigram_row(x, v, a, NULL), RETRACE_OK);
        assert_int_equal(retrace_bigram_row(y, v, b, NULL), RETRACE_OK);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(retrace_bigram_column(x, v, a, NULL), RETRACE_OK);
        assert_int_equal(retrace_bigram_column(y, v, b, NULL), RETRACE_OK);
        assert_memory_equal(a, b, sizeof a);
    }
}

static void there_and_back(rt_table t) {
    retrace_bigram *read = NULL, *made = NULL;
    retrace_bigram_info facts;
    retrace_error err = {0};
    const char *path = write_table(&t, "back");
    bytes file = read_bytes(path);
    if (retrace_bigram_open(&read, path, &err)) fail_msg("%s", err.msg);
    retrace_bigram_facts(read, &facts);
    same_facts(&facts, &t.facts);
    assert_int_equal(facts.size_bytes, file.n);
    int rc = t.rows ? rt_dense_new(&made, &t.facts, t.rows, t.parts.pi, &err)
                    : rt_factored_new(&made, &t.facts, t.parts, &err);
    assert_int_equal(rc, RETRACE_OK);
    t.rows = NULL;
    t.parts = (rt_factored){0};
    same_numbers(read, made);
    retrace_bigram_close(read);
    retrace_bigram_close(made);
    rt_table_free(&t);
    free(file.s);
}

static void what_is_written_comes_back(void **unused) {
    (void)unused;
    for (int n = 0; n < 4; n++) {
        there_and_back(dense_table(n));
        there_and_back(factored_table(n));
    }
    assert_false(is_there(in_folder("back.tmp")));
}

/* ==== Refused ==== */

/* What opening says about these bytes; they must not be a table. */
static const char *refusal(const void *s, size_t n, int code) {
    static retrace_error err;
    retrace_bigram *b = NULL;
    const char *path = in_folder("bad");
    write_bytes(path, s, n);
    int rc = retrace_bigram_open(&b, path, &err);
    if (rc != code) fail_msg("%d instead of %d: %s", rc, code, rc ? err.msg : "was read");
    assert_null(b);
    assert_int_equal(err.code, code);
    assert_null(strchr(err.msg, '\n'));
    assert_non_null(strstr(err.msg, path));
    return err.msg;
}

static void says(const char *message, const char *want) {
    if (!strstr(message, want)) fail_msg("'%s' does not say '%s'", message, want);
}

static void every_length_is_refused(void **unused) {
    (void)unused;
    rt_table t[2] = {dense_table(1), factored_table(2)};
    for (int k = 0; k < 2; k++) {
        bytes file = read_bytes(write_table(&t[k], "long"));
        char want[80];
        for (size_t n = 0; n < file.n; n++) {
            const char *said = refusal(file.s, n, RETRACE_EMODEL);
            says(said, n < 8 ? "is not a table" : "is truncated");
            snprintf(want, sizeof want, "takes %zu bytes, there are %zu", file.n, n);
            if (n >= RT_TABLE_HEADER) says(said, want);
        }
        unsigned char *longer = calloc(1, file.n + 1);
        assert_non_null(longer);
        memcpy(longer, file.s, file.n);
        says(refusal(longer, file.n + 1, RETRACE_EMODEL), "is damaged: it takes");
        free(longer);
        free(file.s);
        rt_table_free(&t[k]);
    }
}

/* One of several ways in which bytes go wrong. Returns 0 when nothing has changed. */
static int damage(unsigned char *s, size_t *n, const unsigned char *whole) {
    size_t at = (size_t)roll_from(&dice, (int)*n), len = (size_t)roll_from(&dice, 64) + 1;
    size_t from = (size_t)roll_from(&dice, (int)*n);
    if (len > *n - at) len = *n - at;
    if (from > *n - len) from = *n - len;
    switch (roll_from(&dice, 6)) {
    case 0: s[at] ^= (unsigned char)(1 << roll_from(&dice, 8)); break;
    case 1: memset(s + at, 0, len); break;
    case 2: memset(s + at, 0xff, len); break;
    case 3: memmove(s + at, whole + from, len); break;
    case 4: *n = at; return 1;
    default:
        for (size_t i = 0; i < len; i++) s[at + i] = (unsigned char)roll_from(&dice, 256);
    }
    return memcmp(s, whole, *n) != 0;
}

static void a_thousand_damages_are_refused(void **unused) {
    (void)unused;
    rt_table t[2] = {dense_table(3), factored_table(1)};
    for (int k = 0; k < 2; k++) {
        bytes file = read_bytes(write_table(&t[k], "whole"));
        unsigned char *s = malloc(file.n);
        assert_non_null(s);
        for (int done = 0; done < 1000;) {
            size_t n = file.n;
            memcpy(s, file.s, n);
            if (!damage(s, &n, file.s)) continue;
            refusal(s, n, RETRACE_EMODEL);
            done++;
        }
        free(s);
        free(file.s);
        rt_table_free(&t[k]);
    }
}

static void every_bit_is_covered(void **unused) {
    (void)unused;
    rt_table t[2] = {dense_table(1), factored_table(1)};
    for (int k = 0; k < 2; k++) {
        bytes file = read_bytes(write_table(&t[k], "whole"));
        for (size_t i = 0; i < file.n; i++) {
            unsigned char bit = (unsigned char)(1 << (i % 8));
            file.s[i] ^= bit;
            refusal(file.s, file.n, RETRACE_EMODEL);
            file.s[i] ^= bit;
        }
        free(file.s);
        rt_table_free(&t[k]);
    }
}

/* ==== Hostile headers ==== */

static void put(bytes file, size_t at, int n, uint64_t x) {
    rt_put(file.s + at, n, x);
    rt_put(file.s + RT_TABLE_HEADER - 8, 8,
           rt_checksum_of(RT_N_SECTIONS, file.s, RT_TABLE_HEADER - 8));
}

static uint64_t bits_of(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* A field of the header with the checksum set right again. */
static void field(bytes file, size_t at, int n, uint64_t x, const char *want) {
    unsigned char kept[RT_TABLE_HEADER];
    memcpy(kept, file.s, sizeof kept);
    put(file, at, n, x);
    says(refusal(file.s, file.n, RETRACE_EMODEL), want);
    memcpy(file.s, kept, sizeof kept);
}

static void bounds_of(bytes file, int dense) {
    static const uint64_t wild[] = {0x7fffffff, 0x80000000, 0xffffffff, 0x10000000, 0x01000001};
    static const size_t numbers[] = {16, 20, 48, 52, 56, 60, 64, 68, 72, 76};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        for (size_t k = 0; k < sizeof wild / sizeof *wild; k++) {
            int legal = (numbers[i] == 60 && wild[k] == 0xffffffff) || /* no start */
                        (numbers[i] == 64 && wild[k] < 0x80000000);    /* iterations */
            if (!legal) field(file, numbers[i], 4, wild[k], "makes no sense");
        }
    }
    field(file, 8, 4, 0x04030201, "other byte order");
    field(file, 8, 4, 0x01020305, "byte order mark");
    field(file, 12, 4, 3, "was made by a later version (3); this one reads 1");
    field(file, 12, 4, 0, "its version");
    field(file, 16, 4, 3, "its kind");
    field(file, 16, 4, dense ? RT_TABLE_FACTORED : RT_TABLE_DENSE, "makes no sense");
    field(file, 48, 4, 0, "out of range");
    field(file, 48, 4, VOCAB + 1, "sizes do not agree");
    field(file, 48, 4, 1 << 24, dense ? "too many tokens" : "sizes do not agree");
    field(file, 52, 4, dense ? 1 : 0, "length of its states");
    field(file, 56, 4, 1 << 20, "sizes do not agree");
    field(file, 60, 4, VOCAB, "document start");
    field(file, 68, 4, 4096, "sizes do not agree");
    field(file, 24, 8, UINT64_MAX, "sizes do not agree");
    field(file, 400, 1, 1, "out of range");
}

static void places_of(bytes file) {
    for (size_t i = 0; i < RT_N_SECTIONS; i++) {
        for (size_t k = 0; k < 2; k++) {
            size_t at = 112 + 24 * i + 8 * k;
            uint64_t x = rt_get(file.s + at, 8);
            field(file, at, 8, x + 64, "sizes do not agree");
            field(file, at, 8, UINT64_MAX - 63, "sizes do not agree");
            field(file, at, 8, x ^ (UINT64_C(1) << 63), "sizes do not agree");
        }
        char want[32];
        snprintf(want, sizeof want, "is damaged (%s)", rt_section_name((int)i));
        field(file, 112 + 24 * i + 16, 8, 77, want);
    }
}

static void values_of(bytes file) {
    static const size_t reals[] = {80, 88, 96, 104};
    static const double wild[] = {NAN, INFINITY, -INFINITY, -1e-9, 1e10};
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < sizeof wild / sizeof *wild; k++)
            field(file, reals[i], 8, bits_of(wild[k]), "residual, rate, entropy or start's share");
    field(file, 104, 8, bits_of(1.1), "residual, rate, entropy or start's share");
    field(file, 96, 8, bits_of(1.5), "entropy of its prior");
}

static void headers_are_not_believed(void **unused) {
    (void)unused;
    rt_table t[2] = {dense_table(1), factored_table(1)};
    for (int k = 0; k < 2; k++) {
        bytes file = read_bytes(write_table(&t[k], "header"));
        bounds_of(file, k == 0);
        places_of(file);
        values_of(file);
        free(file.s);
        rt_table_free(&t[k]);
    }
}

/* ==== Hostile sections ==== */

/* n bytes in a section, all checksums set right again. */
static void inside(bytes file, int section, size_t at, const void *x, size_t n, const char *want) {
    size_t place = 112 + 24 * (size_t)section;
    size_t offset = rt_get(file.s + place, 8), size = rt_padded(rt_get(file.s + place + 8, 8));
    unsigned char *copy = malloc(file.n);
    assert_non_null(copy);
    memcpy(copy, file.s, file.n);
    memcpy(copy + offset + at, x, n);
    bytes changed = {copy, file.n};
    put(changed, place + 16, 8, rt_checksum_of((uint64_t)section, copy + offset, size));
    says(refusal(copy, file.n, RETRACE_EMODEL), want);
    free(copy);
}

static void real_inside(bytes file, int section, size_t i, double x, const char *want) {
    inside(file, section, 8 * i, &x, sizeof x, want);
}

static void common_values(bytes file) {
    const int32_t ids[] = {-1, VOCAB, INT32_MAX, INT32_MIN};
    const double laws[] = {NAN, INFINITY, -.1, 2, .9};
    for (size_t i = 0; i < 4; i++)
        inside(file, RT_SECTION_ANCHOR, 4, &ids[i], 4, "anchor is outside the vocabulary");
    for (size_t i = 0; i < 5; i++)
        real_inside(file, RT_SECTION_PI, VOCAB - 1, laws[i], "prior is no law");
    inside(file, RT_SECTION_NAMES, 2, "\0", 1, "names are no text");
    inside(file, RT_SECTION_NAMES, 2, "\xff", 1, "names are no text");
    inside(file, RT_SECTION_NAMES, 63, "x", 1, "something behind a section");
    inside(file, RT_SECTION_PI, VOCAB * 8, "x", 1, "something behind a section");
}

static void values_are_not_believed(void **unused) {
    (void)unused;
    const uint16_t bad[] = {0x7C00, 0xFC00, 0x7E00, 0xFFFF, 0x7C01};
    rt_table dense = dense_table(2), factored = factored_table(2);
    bytes file = read_bytes(write_table(&dense, "dense"));
    common_values(file);
    real_inside(file, RT_SECTION_ROWS, VOCAB * VOCAB - 1, NAN, "a row is no law");
    real_inside(file, RT_SECTION_ROWS, 4, INFINITY, "a row is no law");
    real_inside(file, RT_SECTION_ROWS, 0, 0, "a row is no law");
    free(file.s);
    file = read_bytes(write_table(&factored, "factored"));
    common_values(file);
    for (size_t i = 0; i < 5; i++) {
        size_t last = (VOCAB + 1) * DIM - 1;
        inside(file, RT_SECTION_STATES, 2 * i, &bad[i], 2, "a state is not finite");
        inside(file, RT_SECTION_STATES, 2 * last, &bad[i], 2, "a state is not finite");
        inside(file, RT_SECTION_OUTPUT, 2 * (VOCAB * DIM - 1 - i), &bad[i], 2, "output matrix");
    }
    real_inside(file, RT_SECTION_LOG_NORM, VOCAB, NAN, "a normaliser");
    real_inside(file, RT_SECTION_LOG_NORM, 0, -INFINITY, "a normaliser");
    inside(file, RT_SECTION_STARTS, 5, "\2", 1, "document start's row");
    free(file.s);
    rt_table_free(&dense);
    rt_table_free(&factored);
}

/* ==== Other things ==== */

static void not_opened(const char *path, int code, const char *want) {
    retrace_error err = {0};
    retrace_bigram *b = NULL;
    assert_int_equal(retrace_bigram_open(&b, path, &err), code);
    says(err.msg, want);
    assert_null(b);
}

static void turn_round(bytes file, size_t width, const char *path) {
    unsigned char *s = malloc(file.n);
    assert_non_null(s);
    for (size_t i = 0; i < file.n; i++) s[i] = file.s[i ^ (width - 1)];
    write_bytes(path, s, file.n);
    not_opened(path, RETRACE_EMODEL, "other byte order");
    free(s);
}

static void other_things_are_no_tables(void **unused) {
    (void)unused;
    rt_table t = factored_table(1);
    bytes file = read_bytes(write_table(&t, "ours"));
    const char *path = in_folder("other");
    for (size_t width = 2; width <= 8; width *= 2) turn_round(file, width, path);
    write_bytes(path, "{\"tokens\": []}", 14);
    not_opened(path, RETRACE_EMODEL, "is not a table");
    unlink(path);
    not_opened(path, RETRACE_EIO, "No such file");
    not_opened("", RETRACE_EIO, "No such file");
    not_opened(folder(), RETRACE_EIO, "is a folder");
    assert_int_equal(mkfifo(path, 0600), 0);
    not_opened(path, RETRACE_EIO, "is no plain file");
    unlink(path);
    not_opened("/dev/zero", RETRACE_EIO, "is no plain file");
    free(file.s);
    rt_table_free(&t);
}

/* Opens with every allocation failing once; none is larger than the file. */
static long n_calls, fail_at, n_blocks;
static size_t largest;

static void *short_of_memory(void *ud, void *ptr, size_t old_size, size_t new_size) {
    (void)ud, (void)old_size;
    if (new_size == 0) {
        n_blocks -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (new_size > largest) largest = new_size;
    if (++n_calls == fail_at) return NULL;
    n_blocks += !ptr;
    return realloc(ptr, new_size);
}

static void memory_may_run_out(void **unused) {
    (void)unused;
    rt_table t[2] = {dense_table(1), factored_table(1)};
    for (int k = 0; k < 2; k++) {
        const char *path = write_table(&t[k], "memory");
        bytes file = read_bytes(path);
        int rc = RETRACE_ENOMEM;
        rt_table_free(&t[k]);
        largest = 0;
        retrace_set_alloc(short_of_memory, NULL);
        for (fail_at = 1; rc; fail_at++) {
            retrace_bigram *b = NULL;
            n_calls = 0;
            rc = retrace_bigram_open(&b, path, NULL);
            assert_true(rc == RETRACE_OK || rc == RETRACE_ENOMEM);
            retrace_bigram_close(b);
            assert_int_equal(n_blocks, 0);
        }
        assert_true(fail_at > 8);
        assert_true(largest <= file.n);
        retrace_set_alloc(NULL, NULL);
        free(file.s);
    }
}

/* Checksums in pieces are those of the whole, and depend on length and seed. */
static void checksums(void **unused) {
    (void)unused;
    unsigned char s[333];
    for (size_t i = 0; i < sizeof s; i++) s[i] = (unsigned char)roll_from(&dice, 256);
    for (size_t n = 0; n < sizeof s; n++) {
        rt_checksum c;
        size_t first = n / 2 / 32 * 32;
        rt_checksum_begin(&c, 5);
        rt_checksum_add(&c, s, first);
        rt_checksum_add(&c, s + first, n - first);
        assert_true(rt_checksum_end(&c) == rt_checksum_of(5, s, n));
        assert_true(rt_checksum_of(6, s, n) != rt_checksum_of(5, s, n));
        unsigned char zero[sizeof s] = {0};
        assert_true(rt_checksum_of(0, zero, n) != rt_checksum_of(0, zero, n + 1));
    }
}

static int clean_up(void **unused) {
    (void)unused;
    static const char *const names[] = {"back",  "bad",      "long",  "whole", "header",
                                        "dense", "factored", "other", "ours",  "memory"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in_folder(names[i]));
    return rmdir(folder());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(every_length_is_refused),
        cmocka_unit_test(a_thousand_damages_are_refused),
        cmocka_unit_test(every_bit_is_covered),
        cmocka_unit_test(headers_are_not_believed),
        cmocka_unit_test(values_are_not_believed),
        cmocka_unit_test(other_things_are_no_tables),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(checksums),
    };
    return cmocka_run_group_tests_name("bigram file", tests, NULL, clean_up);
}
