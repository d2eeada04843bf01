/* laws.c - what every strategy promises, proved by walking all outcomes of chance.
 *
 * All chance of a run goes through options.choose. Here it walks a tree: a run is repeated with the
 * choices made so far, branches at the first new one, and multiplies the weights; when all branches
 * are walked, the probabilities of the final texts are the strategy's exact law.
 * tests/data/laws.json holds table models, settings and the law that an independent reference
 * (tests/reference.py) finds; the two must agree to 1e-12, and no outcome may break a promise of
 * the event stream.
 *
 * A strategy of the catalogue without a row below fails. `laws FILE` takes the cases from another
 * file. */
#include "promises.h"

#include <math.h>

typedef enum promise {
    MODEL_LAW,   /* without rules the answers have the model's own law, truncated as the settings
                    say */
    NEVER_SHOWS, /* and what is banned is in no outcome */
    GRAMMAR,     /* every answer is a text of the grammar or, cut, the beginning of one */
    SHAPE,       /* it changes draws and takes nothing back */
    REFERENCE    /* no claim but to equal the reference */
} promise;

/* Beside these: with resample exact the answers have the base law, given that no promise breaks. */
static const struct {
    const char *kind, *name;
    promise promise;
} strategies[] = {
    {"driver", "sample", MODEL_LAW},
    {"driver", "guide", MODEL_LAW},
    {"rule", "phrases", NEVER_SHOWS},
    {"rule", "regex", NEVER_SHOWS},
    {"rule", "grammar", GRAMMAR},
    {"rule", "json", GRAMMAR},
    {"rule", "adaptive-temperature", SHAPE},
    {"rule", "dry", SHAPE},
    {"rule", "debug", SHAPE},
    {"rule", "replace", REFERENCE},
    {"rule", "creative", REFERENCE},
    {"rule", "probability-threshold", REFERENCE},
    {"rule", "entropy-threshold", REFERENCE},
    {"rule", "probability-margin", REFERENCE},
    {"rule", "probability-drop", REFERENCE},
    {"rule", "probability-trend", REFERENCE},
    {"rule", "repetition", REFERENCE},
    {"rule", "ngram-overlap", REFERENCE},
    {"rule", "logit-threshold", REFERENCE},
};

/* What a strategy promises; -1: it has no row. */
static int promised(const char *kind, const char *name) {
    for (int i = 0; i < COUNT(strategies); i++)
        if (strcmp(strategies[i].kind, kind) == 0 && strcmp(strategies[i].name, name) == 0)
            return (int)strategies[i].promise;
    return -1;
}

static const char *file = "tests/data/laws.json";

/* ==== The oracle ==== */

enum { MAX_CHOICES = 512, MAX_LEAVES = 200000 };

typedef struct walk {
    struct {
        int index, last; /* the branch taken and the last one with any weight */
    } path[MAX_CHOICES];
    int n, at;
    double p; /* of the path so far */
    struct {
        uint64_t purpose;
        int pos;
    } drawn[MAX_CHOICES];
    const char *wrong;
} walk;

static int next_live(const double *p, int n, int from) {
    while (from < n && !(p[from] > 0)) from++;
    return from;
}

/* Numbers and ids must be as retrace.h says. */
static void check_question(walk *w, const double *p, const retrace_token *ids, int n,
                           uint64_t purpose, int pos, int attempt) {
    int before = 0;
    for (int i = 0; i < w->at; i++)
        before += w->drawn[i].purpose == purpose && w->drawn[i].pos == pos;
    if (attempt != before) w->wrong = "choose: attempt is not the number of earlier draws";
    if (purpose != 0 && ids) w->wrong = "choose: ids of a draw that is no token";
    for (int i = 0; i < n; i++)
        if (!(p[i] >= 0) || !isfinite(p[i])) w->wrong = "choose: a weight that is none";
    for (int i = 1; ids && i < n; i++)
        if (ids[i] <= ids[i - 1]) w->wrong = "choose: ids do not rise";
    w->drawn[w->at].purpose = purpose;
    w->drawn[w->at].pos = pos;
}

static int choose_walk(void *ud, const double *p, const retrace_token *ids, int n, uint64_t purpose,
                       int pos, int attempt) {
    walk *w = ud;
    assert_true(w->at < MAX_CHOICES);
    check_question(w, p, ids, n, purpose, pos, attempt);
    double total = 0;
    int last = n;
    for (int i = 0; i < n; i++) {
        total += p[i];
        if (p[i] > 0) last = i;
    }
    if (last == n) return n;
    if (w->at == w->n) {
        w->path[w->n].index = next_live(p, n, 0);
        w->path[w->n].last = last;
        w->n++;
    } else if (w->path[w->at].index < 0) { /* the branch to go on to */
        w->path[w->at].index = next_live(p, n, -w->path[w->at].index);
    }
    int i = w->path[w->at++].index;
    w->p *= p[i] / total;
    return i;
}

/* Turns to the next branch; 0 when all are walked. -k marks "the first live index from k on". */
static int walk_on(walk *w) {
    while (w->n > 0 && w->path[w->n - 1].index == w->path[w->n - 1].last) w->n--;
    if (w->n == 0) return 0;
    w->path[w->n - 1].index = -(w->path[w->n - 1].index + 1);
    return 1;
}

/* ==== Cases ==== */

typedef struct testcase {
    const char *name;
    retrace_model *model;
    retrace_options o;
    retrace_rule *rules[8];
    retrace_text stops[8];
    retrace_bias bias[8];
    retrace_token *prompt;
    int n_prompt;
} testcase;

static retrace_rule *case_rule(const json_t *spec) {
    const json_t *settings = json_object_get(spec, "settings");
    const char *pairs[64] = {0};
    int n = 0;
    size_t i;
    json_t *pair;
    json_array_foreach(settings, i, pair) {
        pairs[n++] = json_string_value(json_array_get(pair, 0));
        pairs[n++] = json_string_value(json_array_get(pair, 1));
    }
    return make_rule(member(spec, "name"), pairs);
}

static void case_options(testcase *c, const json_t *spec) {
    retrace_error err = {0};
    retrace_options_default(&c->o);
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(spec, "options"), key, value) {
        retrace_setting s = {key, text_of(json_string_value(value))};
        if (retrace_options_set(&c->o, s, &err)) fail_msg("%s: %s", c->name, err.msg);
    }
    size_t i;
    json_array_foreach(json_object_get(spec, "bias"), i, value) {
        c->bias[i].id = (retrace_token)json_integer_value(json_array_get(value, 0));
        c->bias[i].bias = strtod(json_string_value(json_array_get(value, 1)), NULL);
    }
    c->o.bias = c->bias;
    c->o.n_bias = (int)json_array_size(json_object_get(spec, "bias"));
    json_array_foreach(json_object_get(spec, "stops"), i, value) {
        c->stops[i] = text_of(json_string_value(value));
    }
    c->o.stops = c->stops;
    c->o.n_stops = (int)json_array_size(json_object_get(spec, "stops"));
    json_array_foreach(json_object_get(spec, "rules"), i, value) c->rules[i] = case_rule(value);
    if (*member(spec, "driver")) c->o.driver = member(spec, "driver");
    c->o.rules = c->rules;
    c->o.n_rules = (int)json_array_size(json_object_get(spec, "rules"));
}

static void case_open(testcase *c, const json_t *spec) {
    memset(c, 0, sizeof *c);
    c->name = member(spec, "name");
    const json_t *models = json_object_get(document, "models");
    char *table = json_dumps(json_object_get(models, member(spec, "model")), 0);
    assert_non_null(table);
    c->model = open_table(table);
    free(table);
    case_options(c, spec);
    retrace_error err = {0};
    if (retrace_tokenize(c->model, text_of(member(spec, "prompt")), RETRACE_TOKENIZE_SPECIAL,
                         &c->prompt, &c->n_prompt, &err))
        fail_msg("%s: %s", c->name, err.msg);
}

static void case_close(testcase *c) {
    retrace_free(c->prompt);
    for (int i = 0; i < c->o.n_rules; i++) retrace_rule_free(c->rules[i]);
    retrace_model_close(c->model);
}

/* The law of a case, by walking. NULL, or what went wrong on the way. */
static const char *walk_case(testcase *c, law *l) {
    static walk w;
    static answer a;
    memset(&w, 0, sizeof w);
    c->o.choose = choose_walk;
    c->o.choose_ud = &w;
    int leaves = 0;
    do {
        w.at = 0;
        w.p = 1;
        const char *why = try_finish(&a, c->model, &c->o, c->prompt, c->n_prompt);
        if (why || w.wrong) return why ? why : w.wrong;
        if (w.at != w.n) return "a repeated run made other choices";
        law_add(l, a.text, a.n_text, a.finish, a.stats.accepted > 0, w.p);
        if (a.stats.rewinds > l->rewinds) l->rewinds = (int)a.stats.rewinds;
        if (++leaves > MAX_LEAVES) return "too many outcomes";
    } while (walk_on(&w));
    return NULL;
}

/* ==== Comparing ==== */

static retrace_finish finish_of(const char *name) {
    for (retrace_finish f = RETRACE_FINISH_END; f <= RETRACE_FINISH_ERROR; f++)
        if (strcmp(retrace_finish_name(f), name) == 0) return f;
    fail_msg("no finish '%s'", name);
    return RETRACE_FINISH_NONE;
}

static int report(const char *name, const outcome *o, double expected) {
    print_message("  %s: '%s' %s accepted %d: expected %.17g, got %.17g\n", name, o->text,
                  retrace_finish_name(o->finish), o->accepted, expected, o->p);
    return 1;
}

/* The reference's probability of an outcome; 0 when it does not have it. */
static double expected_of(const json_t *expected, const outcome *o) {
    size_t i;
    json_t *row;
    json_array_foreach(expected, i, row) {
        char text[4096];
        size_t n = bytes_of(json_string_value(json_array_get(row, 0)), text);
        if (n == o->n && memcmp(text, o->text, n) == 0 &&
            finish_of(json_string_value(json_array_get(row, 1))) == o->finish &&
            json_is_true(json_array_get(row, 2)) == o->accepted)
            return json_number_value(json_array_get(row, 3));
    }
    return 0;
}

/* Puts the reference's outcomes into the law, with probability 0 where it lacks them. */
static void law_widen(law *l, const json_t *expected) {
    size_t i;
    json_t *row;
    json_array_foreach(expected, i, row) {
        char text[4096];
        size_t n = bytes_of(json_string_value(json_array_get(row, 0)), text);
        law_add(l, text, n, finish_of(json_string_value(json_array_get(row, 1))),
                json_is_true(json_array_get(row, 2)), 0);
    }
}

/* Prints the outcomes whose probability is not the reference's; returns how many there are. */
static int compare(const char *name, law *l, const json_t *expected) {
    int wrong = 0;
    double total = 0;
    law_widen(l, expected);
    for (int i = 0; i < l->n; i++) {
        double p = expected_of(expected, &l->v[i]);
        total += l->v[i].p;
        if (!(fabs(l->v[i].p - p) <= 1e-12)) wrong += report(name, &l->v[i], p);
    }
    if (fabs(total - 1) <= 1e-12) return wrong;
    print_message("  %s: probabilities sum to %.17g\n", name, total);
    return wrong + 1;
}

/* ==== Promises ==== */

/* What a policy let through is counted and therefore told; in the rest all promises hold. A run
 * that ended stuck or out of budget promises nothing but what it had settled. */
static int check_promises(const json_t *spec, const law *l) {
    size_t i;
    json_t *rule;
    json_array_foreach(json_object_get(spec, "rules"), i, rule) {
        for (int k = 0; k < l->n; k++) {
            const outcome *o = &l->v[k];
            const char *what = breaks(rule, member(spec, "prompt"), o->text, o->n, o->finish);
            if (!what || o->accepted) continue;
            print_message("  %s: '%s' shows '%s'\n", member(spec, "name"), o->text, what);
            return 1;
        }
    }
    return 0;
}

/* Rules that change draws only: alone they take nothing back. */
static int check_shape(const json_t *spec, const law *l) {
    size_t i;
    json_t *rule;
    json_array_foreach(json_object_get(spec, "rules"), i, rule) {
        if (promised("rule", member(rule, "name")) != SHAPE) return 0;
    }
    if (l->rewinds == 0) return 0;
    print_message("  %s: something was taken back\n", member(spec, "name"));
    return 1;
}

/* The law of the case without its rules, drawn from locally. */
static void base_law(const json_t *spec, law *base) {
    testcase c;
    case_open(&c, spec);
    int n = c.o.n_rules;
    c.o.resample = RETRACE_RESAMPLE_LOCAL;
    c.o.n_rules = 0;
    const char *why = walk_case(&c, base);
    if (why) fail_msg("%s: %s", c.name, why);
    c.o.n_rules = n;
    case_close(&c);
}

/* Takes out what breaks a promise; the probability that is left. */
static double condition(const json_t *spec, law *base) {
    double mass = 0;
    for (int k = 0; k < base->n; k++) {
        outcome *o = &base->v[k];
        size_t i;
        json_t *rule;
        json_array_foreach(json_object_get(spec, "rules"), i, rule) {
            if (breaks(rule, member(spec, "prompt"), o->text, o->n, o->finish)) o->p = 0;
        }
        mass += o->p;
    }
    return mass;
}

/* With resample exact: is this the base law, given that no promise is broken? Asked where the text
 * tells. */
static int check_conditioned(const json_t *spec, const law *l) {
    const json_t *options = json_object_get(spec, "options");
    if (strcmp(member(options, "resample"), "exact") != 0) return 0;
    if (strcmp(member(options, "temp"), "0") == 0) return 0;
    size_t i;
    json_t *rule;
    json_array_foreach(json_object_get(spec, "rules"), i, rule) {
        if (!tells(rule)) return 0;
    }
    law base = {0};
    int wrong = 0;
    base_law(spec, &base);
    double mass = condition(spec, &base);
    for (int k = 0; mass > 0 && k < base.n; k++) {
        const outcome *o = &base.v[k], *got = law_find(l, o->text, o->n, o->finish, 0);
        if (fabs((got ? got->p : 0) - o->p / mass) <= 1e-12) continue;
        print_message("  %s: '%s' has not its share\n", member(spec, "name"), o->text);
        wrong = 1;
    }
    law_free(&base);
    return wrong;
}

/* ==== Tests ==== */

static int cases_of(const char *strategy) {
    int n = 0;
    size_t i;
    json_t *spec;
    json_array_foreach(json_object_get(document, "cases"), i, spec) {
        n += strcmp(member(spec, "strategy"), strategy) == 0;
    }
    return n;
}

static void every_strategy_has_a_promise_and_cases(void **state) {
    (void)state;
    retrace_plugin_info info;
    int rules = 0, drivers = 0;
    for (; retrace_rule_at(rules, &info); rules++) {
        if (promised("rule", info.name) < 0) fail_msg("rule '%s' promises nothing here", info.name);
        if (!cases_of(info.name)) fail_msg("rule '%s' has no case", info.name);
    }
    for (; retrace_driver_at(drivers, &info); drivers++) {
        if (promised("driver", info.name) < 0)
            fail_msg("driver '%s' promises nothing here", info.name);
        if (!cases_of(info.name)) fail_msg("driver '%s' has no case", info.name);
    }
    assert_int_equal(rules + drivers, COUNT(strategies));
}

static void laws_are_the_references(void **state) {
    (void)state;
    int wrong = 0;
    size_t i;
    json_t *spec;
    json_array_foreach(json_object_get(document, "cases"), i, spec) {
        testcase c;
        law l = {0};
        case_open(&c, spec);
        const char *why = walk_case(&c, &l);
        if (why) print_message("  %s: %s\n", c.name, why);
        if (why || compare(c.name, &l, json_object_get(spec, "law")) + check_promises(spec, &l) +
                           check_shape(spec, &l) + check_conditioned(spec, &l) >
                       0)
            wrong++;
        law_free(&l);
        case_close(&c);
    }
    if (wrong) fail_msg("%d of %d laws differ", wrong, (int)i);
}

/* The checks above can fail: a law off by 1e-9 and a text with a banned word are told. */
static void the_checks_can_fail(void **state) {
    (void)state;
    law l = {0};
    law_add(&l, "tact", 4, RETRACE_FINISH_END, 0, 1);
    json_t *expected = json_pack("[[s,s,b,f]]", "tact", "end", 0, 1 - 1e-9);
    json_t *spec = json_pack("{s:s,s:[{s:s,s:[[s,s]]}]}", "prompt", "", "rules", "name", "phrases",
                             "settings", "text", "ACT");
    print_message("two complaints follow; they are meant\n");
    assert_true(compare("meant", &l, expected) > 0);
    assert_int_equal(check_promises(spec, &l), 1);
    json_decref(expected);
    json_decref(spec);
    law_free(&l);
}

static int load(void **state) {
    (void)state;
    json_error_t err;
    document = json_load_file(file, 0, &err);
    if (!document) print_error("%s: %s\n", file, err.text);
    return document ? 0 : -1;
}

static int unload(void **state) {
    (void)state;
    json_decref(document);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest other[] = {cmocka_unit_test(laws_are_the_references)};
    if (argc > 1) {
        file = argv[1];
        return cmocka_run_group_tests_name("laws of another file", other, load, unload);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_strategy_has_a_promise_and_cases),
        cmocka_unit_test(the_checks_can_fail),
        cmocka_unit_test(laws_are_the_references),
    };
    return cmocka_run_group_tests_name("laws", tests, load, unload);
}
