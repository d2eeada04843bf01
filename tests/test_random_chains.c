/* test_random_chains.c - random chains of up to four rules over random table models.
 *
 * Whatever the rules, their settings, the policies and the budgets: a run ends within its budgets,
 * keeps every promise of the event stream (watch.h: the tree, the figures, settled text that is
 * only added to), evaluates no more than it pushed, nothing twice unless it went back to a branch
 * that it had left, and the same seed gives the same answer. RETRACE_LONG runs more of them. */
#include "helper.h"

enum { CHAINS = 10000, MAX_RULES = 4, MAX_SETTINGS = 12, LETTERS = 4 };

static uint64_t state;
static char told[4096]; /* the chain as a person would write it, for failures */

static void tell(const char *what, const char *value) {
    size_t n = strlen(told);
    snprintf(told + n, sizeof told - n, "%s%s", what, value);
}

static int roll(int n) {
    return roll_from(&state, n);
}

/* One of `of` times. */
static int once_in(int of) {
    return roll(of) == 0;
}

/* ==== Models ==== */

static const char *const pieces[] = {"\"a\"",  "\"b\"",  "\"c\"", "\"d\"",
                                     "\"ab\"", "\"c \"", "\"é\""};

static void add(char *out, size_t room, const char *text) {
    size_t n = strlen(out);
    assert_true(n + strlen(text) < room);
    memcpy(out + n, text, strlen(text) + 1);
}

/* Weights of all tokens after a context; some are 0, one is not. */
static void add_row(char *out, size_t room, const char *context, int n) {
    char text[64];
    snprintf(text, sizeof text, "{\"context\": [%s], \"next\": {", context);
    add(out, room, text);
    int sure = roll(n);
    for (int i = 0; i < n; i++) {
        int weight = roll(3) ? 1 + roll(100) : 0;
        if (i == sure) weight += 40;
        snprintf(text, sizeof text, "%s\"%d\": %d", i ? ", " : "", i, weight);
        add(out, room, text);
    }
    add(out, room, "}}");
}

/* A model of the four letters, up to three longer pieces and an end, of order 1 or so. */
static retrace_model *random_model(void) {
    char json[8192] = "{\"tokens\": [", context[8];
    int n = LETTERS + roll(COUNT(pieces) - LETTERS + 1);
    for (int i = 0; i < n; i++) {
        add(json, sizeof json, pieces[i]);
        add(json, sizeof json, ", ");
    }
    add(json, sizeof json, "{\"text\": \"</s>\", \"end\": true}], \"rows\": [");
    add_row(json, sizeof json, "", n + 1);
    for (int i = 0; i < n; i++) {
        if (once_in(3)) continue;
        snprintf(context, sizeof context, "%d", i);
        add(json, sizeof json, ", ");
        add_row(json, sizeof json, context, n + 1);
    }
    add(json, sizeof json, "]}");
    return open_table(json);
}

/* ==== Rules ==== */

/* Texts that a rule's settings may sensibly have here, by the setting's name. */
static const struct {
    const char *rule, *name, *values[8];
} known[] = {
    {"phrases", "text", {"ab", "c", "bd", "aa", "ca", "abc", "é", "dd"}},
    {"regex", "pattern", {"ab|cd", "a.b", "d+c", "^b", "c$", "[ab]{3}", "\\bc", "a(?!d)"}},
    {"replace", "find", {"ab", "c", "a", "dd", "bc", "ca", "é", "b"}},
    {"replace", "replace", {"", "c", "abc", "dd", "a", "cab", "b c ", "é"}},
    {"grammar",
     "text",
     {"root ::= [abcdé ]*", "root ::= \"a\" root \"b\" | \"c\"", "root ::= (\"ab\" | \"cd\")+",
      "root ::= [ab]+ [cd]*", "root ::= \"a\"? \"b\"", "root ::= [^d]+", "root ::= [a-d] root?",
      "root ::= \"abcd\""}},
    {"json", "schema", {NULL}},
};

/* Names that are never given: files, and the second of two that exclude each other. */
static int leave_out(const char *rule, const retrace_setting_info *s) {
    if (s->type > RETRACE_TEXTS || strcmp(s->name, "root") == 0) return 1;
    if (strcmp(s->name, "prompt") == 0) return 1; /* refused by most operators */
    if (strcmp(s->name, "backtrack_every_n") == 0) return 1;
    return strcmp(rule, "replace") == 0 && strcmp(s->name, "max_replacements") == 0;
}

static const char *known_text(const char *rule, const char *name) {
    for (int i = 0; i < COUNT(known); i++)
        if (strcmp(known[i].rule, rule) == 0 && strcmp(known[i].name, name) == 0)
            return known[i].values[roll(8)];
    return NULL;
}

/* Mostly numbers near the small end of the range, where something happens. */
static void random_number(const retrace_setting_info *s, char *out, size_t room) {
    double top = s->max < s->min + 6 ? s->max : s->min + 6;
    if (s->type == RETRACE_INT)
        snprintf(out, room, "%ld", (long)s->min + roll((int)(top - s->min) + 1));
    else if (s->min < -1000)
        snprintf(out, room, "%.3f", -0.01 * roll(400));
    else
        snprintf(out, room, "%.3f", s->min + (top - s->min) * 0.01 * roll(101));
}

static void random_choice(const retrace_setting_info *s, char *out, size_t room) {
    int n = 1;
    for (const char *p = s->choices; *p; p++) n += *p == '|';
    const char *p = s->choices;
    for (int skip = roll(n); skip > 0; skip--) p = strchr(p, '|') + 1;
    snprintf(out, room, "%.*s", (int)strcspn(p, "|"), p);
}

/* A value for the setting, or NULL: its default. */
static const char *random_value(const char *rule, const retrace_setting_info *s, char *out,
                                size_t room) {
    const char *text = known_text(rule, s->name);
    if (text) return text;
    if (leave_out(rule, s) || once_in(2)) return NULL;
    switch (s->type) {
    case RETRACE_INT:
    case RETRACE_REAL: random_number(s, out, room); return out;
    case RETRACE_BOOL: return once_in(2) ? "true" : "false";
    case RETRACE_CHOICE: random_choice(s, out, room); return out;
    default: return NULL;
    }
}

static int only_bans(const char *name) {
    static const char *const names[] = {
        "phrases", "regex", "grammar", "json", "debug", "adaptive-temperature", "dry"};
    for (int i = 0; i < COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) return 1;
    return 0;
}

/* A rule of the catalogue with random settings; NULL when it refuses them. */
static retrace_rule *random_rule(int *returns) {
    retrace_plugin_info info;
    int n = 0, k = 0;
    while (retrace_rule_at(n, &info)) n++;
    retrace_rule_at(roll(n), &info);
    tell(" --rule ", info.name);
    *returns |= !only_bans(info.name);
    char room[MAX_SETTINGS][32];
    const char *pairs[2 * MAX_SETTINGS + 1] = {0};
    for (const retrace_setting_info *s = info.settings; s && s->name && k < MAX_SETTINGS; s++) {
        const char *value = random_value(info.name, s, room[k], sizeof room[k]);
        if (!value) continue;
        tell(k ? "," : ":", s->name);
        tell("=", value);
        pairs[2 * k] = s->name;
        pairs[2 * k++ + 1] = value;
    }
    retrace_rule *rule = NULL;
    retrace_error err = {0};
    int rc = try_rule(&rule, info.name, pairs, &err);
    if (rc && rc != RETRACE_EUSAGE) fail_msg("%s: %s", info.name, err.msg);
    if (rc) tell(" refused: ", err.msg);
    return rc ? NULL : rule;
}

/* ==== Runs ==== */

static retrace_options random_options(void) {
    static const double temps[] = {0, 0.5, 1, 1, 1, 1.7};
    retrace_options o = plain_options(1 + roll(16));
    o.temp = temps[roll(COUNT(temps))];
    o.seed = roll(1 << 30);
    if (once_in(4)) o.top_k = 1 + roll(3);
    if (once_in(6)) o.top_p = 0.2 + 0.1 * roll(8);
    if (once_in(6)) o.min_p = 0.1 * roll(5);
    if (once_in(8)) o.repeat_penalty = 1.3;
    o.on_stuck = roll(3);
    o.hold = roll(2);
    if (once_in(4)) o.stuck_mass = 0.05 * roll(6);
    if (once_in(4)) o.max_rewinds = roll(8);
    if (once_in(4)) o.max_evaluated = 1 + roll(30);
    if (once_in(8)) o.ignore_eos = 1;
    if (once_in(6)) o.resample = RETRACE_RESAMPLE_EXACT;
    if (o.resample) {
        o.on_stuck = RETRACE_STUCK_FAIL;
        o.hold = RETRACE_HOLD_ALL;
        if (o.max_tokens > 6) o.max_tokens = 6;
    }
    return o;
}

typedef struct chain {
    retrace_model *model;
    retrace_rule *rules[MAX_RULES];
    int n;
    int returns; /* a rule may lead to a branch that was left: a soft one, or one that forces */
    retrace_options o;
    retrace_text stop;
} chain;

static void tell_options(const chain *c) {
    char text[256];
    const retrace_options *o = &c->o;
    snprintf(text, sizeof text,
             " n=%d temp=%g top_k=%d top_p=%g on_stuck=%d hold=%d resample=%d stuck_mass=%g"
             " max_rewinds=%d max_evaluated=%d stop=%s",
             (int)o->max_tokens, o->temp, (int)o->top_k, o->top_p, o->on_stuck, o->hold,
             o->resample, o->stuck_mass, (int)o->max_rewinds, (int)o->max_evaluated,
             o->n_stops ? c->stop.s : "");
    tell(text, "");
}

static void chain_open(chain *c) {
    static const char *const stops[] = {"ac", "dd", "bab", "c", "é"};
    told[0] = '\0';
    c->model = random_model();
    c->n = c->returns = 0;
    for (int left = 1 + roll(MAX_RULES); left > 0; left--)
        if ((c->rules[c->n] = random_rule(&c->returns))) c->n++;
    c->o = random_options();
    c->o.rules = c->rules;
    c->o.n_rules = c->n;
    c->stop = text_of(stops[roll(COUNT(stops))]);
    c->o.stops = &c->stop;
    c->o.n_stops = once_in(3);
    tell_options(c);
}

static void chain_close(chain *c) {
    for (int i = 0; i < c->n; i++) retrace_rule_free(c->rules[i]);
    retrace_model_close(c->model);
}

static int64_t budget(int64_t given, int64_t preset) {
    return given < 0 ? preset : given;
}

/* What holds beside watch.h's promises, or NULL. */
static const char *out_of_bounds(const chain *c, const answer *a) {
    int64_t n = c->o.max_tokens;
    const retrace_stats *s = &a->stats;
    if (s->kept > n) return "more than max_tokens";
    if (s->evaluated > s->kept + s->erased) return "evaluated more than was pushed";
    /* Bans alone never lead to a branch that was left. */
    int back = c->returns || c->o.resample || c->o.on_stuck == RETRACE_STUCK_ALLOW;
    if (s->reevaluated && !back) return "evaluated twice";
    if (s->evaluated > budget(c->o.max_evaluated, 16 * n + 1024)) return "over max_evaluated";
    if (!c->o.resample && s->rewinds > budget(c->o.max_rewinds, 4 * n + 1024) + 1)
        return "over max_rewinds";
    if (c->o.resample && a->finish >= RETRACE_FINISH_STUCK && a->n_text)
        return "a text of another law";
    return NULL;
}

static int refused; /* chains that no run takes: exact with a rule that is not certain */

static void check_chain(int number) {
    static answer a, b;
    chain c;
    chain_open(&c);
    retrace_run *run = NULL;
    retrace_error err = {0};
    int rc = retrace_run_new(&run, c.model, &c.o, NULL, 0, &err);
    retrace_run_free(run);
    if (rc && (rc != RETRACE_EUSAGE || !c.o.resample)) fail_msg("chain %d: %s", number, err.msg);
    if (rc) {
        refused++;
        chain_close(&c);
        return;
    }
    const char *why = try_finish(&a, c.model, &c.o, NULL, 0);
    if (!why) why = out_of_bounds(&c, &a);
    if (why)
        fail_msg("chain %d: %s (finish %s, '%s')%s", number, why, retrace_finish_name(a.finish),
                 a.text, told);
    if (number % 8 == 0) {
        why = try_finish(&b, c.model, &c.o, NULL, 0);
        if (why) fail_msg("chain %d, again: %s", number, why);
        assert_same_answer(&a, &b);
    }
    chain_close(&c);
}

static void random_chains_keep_every_promise(void **unused) {
    (void)unused;
    int n = getenv("RETRACE_LONG") ? 20 * CHAINS : CHAINS;
    const char *first = getenv("RETRACE_CHAIN"); /* one alone, when something has gone wrong */
    for (int i = first ? (int)strtol(first, NULL, 10) : 0; i < n; i++) {
        state = 88172645463325252u + (uint64_t)i * 2685821657736338717u;
        check_chain(i);
        if (first) break;
    }
    assert_true(first || refused < n / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_chains_keep_every_promise)};
    return cmocka_run_group_tests_name("chains", tests, NULL, NULL);
}
