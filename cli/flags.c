/* flags.c - one table of all flags: what the program reads itself (rows.c), every row of the run's
 * and of backward sampling's settings, and every setting of the back ends.
 *
 * A setting `top_k` is the flag --top-k and the environment variable RETRACE_TOP_K; short forms and
 * other spellings are llama-cli's. The same table checks values, writes the help and the page
 * docs/cli.md. What the command line says wins over the environment; an empty variable counts as
 * not set. */
#include "rows.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ==== Building the table ==== */

static cli_option *add(cli_flags *f, const cli_option *row) {
    f->v = cli_realloc(f->v, (size_t)(f->n + 1) * sizeof *f->v);
    f->v[f->n] = *row;
    return &f->v[f->n++];
}

static const char *metavar_of(const retrace_setting_info *s) {
    switch (s->type) {
    case RETRACE_INT: return "N";
    case RETRACE_REAL: return "X";
    case RETRACE_CHOICE: return s->choices;
    case RETRACE_FILE: return "FILE";
    case RETRACE_LIST: return "NAME";
    case RETRACE_BOOL: return NULL;
    default: return "TEXT";
    }
}

static void name_flag(char *to, size_t size, const char *setting) {
    snprintf(to, size, "%s", setting);
    for (char *c = to; *c; c++)
        if (*c == '_') *c = '-';
}

/* Two back ends may share a setting: the first row stays and takes the wider range. */
static cli_option *row_of(cli_flags *f, const char *setting, cli_part part) {
    for (int i = 0; i < f->n; i++) {
        cli_option *o = &f->v[i];
        if (o->setting && o->part == part && strcmp(o->setting, setting) == 0) return o;
    }
    return NULL;
}

static void add_setting(cli_flags *f, const retrace_setting_info *s, cli_part part) {
    cli_option *have = row_of(f, s->name, part);
    if (have) {
        have->min = fmin(have->min, s->min);
        have->max = fmax(have->max, s->max);
        return;
    }
    const cli_extra *x = cli_extra_of(s->name, part);
    cli_option row = {.setting = s->name,
                      .part = part,
                      .metavar = x && x->metavar ? x->metavar : metavar_of(s),
                      .help = s->help,
                      .preset = s->preset,
                      .choices = s->choices,
                      .type = s->type,
                      .min = s->min,
                      .max = s->max,
                      .commands = cli_commands_of(part),
                      .section = cli_section_of(part)};
    name_flag(row.flag, sizeof row.flag, s->name);
    if (x) {
        row.brief = x->brief;
        row.other = x->other;
        row.section = x->section;
    }
    add(f, &row);
}

static void name_env(cli_option *o) {
    snprintf(o->env, sizeof o->env, "RETRACE_%s", o->flag);
    for (char *c = o->env; *c; c++) *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

static int rule_exists(const char *name) {
    retrace_plugin_info p;
    for (int i = 0; retrace_rule_at(i, &p); i++)
        if (strcmp(p.name, name) == 0) return 1;
    return 0;
}

/* The rule that a short form stands for. */
static const char *rule_of(const char *flag) {
    if (strcmp(flag, "ban-regex") == 0) return "regex";
    if (strncmp(flag, "grammar", 7) == 0) return "grammar";
    return strncmp(flag, "json-", 5) == 0 ? "json" : NULL;
}

static void add_rows(cli_flags *f, const cli_option *rows) {
    for (; rows->section; rows++) add(f, rows);
}

static void add_settings(cli_flags *f, const retrace_setting_info *s, cli_part part) {
    for (; s && s->name; s++) add_setting(f, s, part);
}

/* Where both have a setting of a name, --batch-size say, `backward` means its own. Batched work is
 * fastest with weights that are expanded, so the commands that do much of it choose by themselves.
 */
static void settle_backward(cli_flags *f) {
    for (const retrace_setting_info *s = retrace_backward_infos(); s->name; s++) {
        cli_option *o = row_of(f, s->name, CLI_ENGINE);
        if (o) o->commands &= ~(unsigned)CLI_BACKWARD;
    }
    cli_option *weights = row_of(f, "weights", CLI_ENGINE);
    if (!weights) return;
    weights->commands &= ~(unsigned)CLI_WITH_CHAIN;
    cli_option row = *weights;
    row.preset = NULL;
    row.commands = CLI_BIGRAM_BUILD;
    row.help = "f32: expanded for batched work, the default for files up to 1 GiB; file: as they "
               "are";
    add(f, &row);
    row.commands = CLI_BACKWARD;
    row.help = "f32: expanded for batched work; file: as they are; default: as for the table";
    add(f, &row);
}

/* `serve` has another default. */
static void prefer_for_serve(cli_flags *f, const char *setting, cli_part part, const char *preset) {
    cli_option *o = row_of(f, setting, part);
    if (!o) return;
    cli_option row = *o;
    o->commands &= ~(unsigned)CLI_SERVE;
    row.commands = CLI_SERVE;
    row.preset = preset;
    add(f, &row);
}

/* Requests say much of this themselves, and what they leave open is as OpenAI has it; how many run
 * side by side is a flag of the server's own. */
static void settle_serve(cli_flags *f) {
    static const char *const theirs[] = {"max_tokens", "logprobs", "hold"};
    cli_option *parallel = row_of(f, "parallel", CLI_ENGINE);
    if (parallel) parallel->commands &= ~(unsigned)CLI_SERVE;
    for (int i = 0; i < 3; i++) row_of(f, theirs[i], CLI_RUN)->commands &= ~(unsigned)CLI_SERVE;
    prefer_for_serve(f, "temp", CLI_RUN, "1");
    prefer_for_serve(f, "top_k", CLI_RUN, "0");
    prefer_for_serve(f, "top_p", CLI_RUN, "1");
    prefer_for_serve(f, "min_p", CLI_RUN, "0");
    prefer_for_serve(f, "deterministic", CLI_ENGINE, "false");
}

/* A conversation shows its text as it settles, and knows two more spellings. */
static void settle_chat(cli_flags *f) {
    static const char *const not_there[] = {"logprobs", "resample"};
    static const char *const spelt[][2] = {{"max_tokens", "max-new-tokens"},
                                           {"temp", "temperature"}};
    for (int i = 0; i < 2; i++) row_of(f, not_there[i], CLI_RUN)->commands &= ~(unsigned)CLI_CHAT;
    for (int i = 0; i < 2; i++) {
        cli_option *o = row_of(f, spelt[i][0], CLI_RUN);
        cli_option row = *o;
        o->commands &= ~(unsigned)CLI_CHAT;
        row.commands = CLI_CHAT;
        row.other = spelt[i][1];
        add(f, &row);
    }
}

void cli_flags_init(cli_flags *f, unsigned command) {
    retrace_plugin_info p;
    *f = (cli_flags){.command = command};
    add_rows(f, cli_rows_first);
    add_settings(f, retrace_options_infos(), CLI_RUN);
    for (int i = 0; retrace_backend_at(i, &p); i++) add_settings(f, p.settings, CLI_ENGINE);
    add_settings(f, retrace_model_infos(), CLI_ENGINE);
    add_settings(f, retrace_backward_infos(), CLI_BACK);
    settle_backward(f);
    settle_serve(f);
    settle_chat(f);
    add_rows(f, cli_rows_last);
    for (int i = 0; i < f->n; i++) {
        cli_option *o = &f->v[i];
        const char *rule = rule_of(o->flag);
        name_env(o);
        /* Typed all the same it is understood, and the library says that it has no such rule. */
        if (rule && !rule_exists(rule)) o->help = NULL;
    }
}

void cli_flags_free(cli_flags *f) {
    for (int i = 0; i < f->n; i++) {
        for (int k = 0; f->v[i].hidden && k < f->v[i].n; k++) free((char *)f->v[i].given[k].s);
        free(f->v[i].given);
    }
    free(f->v);
    free(f->operands);
    free(f->chat_template);
    *f = (cli_flags){0};
}

/* ==== Values ==== */

int cli_parse_bool(const char *v, int *out) {
    static const char *const words[] = {"false", "true", "0", "1", "off", "on", "no", "yes"};
    for (int i = 0; i < 8; i++)
        if (strcmp(v, words[i]) == 0) return *out = i & 1, 1;
    return 0;
}

int cli_parse_int(const char *v, int64_t *out) {
    const char *digits = v + (*v == '-' || *v == '+');
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || digits[n]) return 0;
    errno = 0;
    *out = strtoll(v, NULL, 10);
    return errno == 0;
}

int cli_parse_real(const char *v, double *out) {
    char *end;
    if (!*v || v[strspn(v, "0123456789+-.eE")]) return 0;
    *out = strtod(v, &end);
    return !*end && isfinite(*out);
}

static int check_choice(const char *spelled, const char *choices, const char *v) {
    size_t n = strlen(v);
    for (const char *c = choices; c;) {
        size_t len = strcspn(c, "|");
        if (len == n && memcmp(c, v, n) == 0) return CLI_OK;
        c = c[len] ? c + len + 1 : NULL;
    }
    return cli_fail(CLI_USAGE, "%s: '%s' is none of %s", spelled, v, choices);
}

static int check_number(const cli_option *o, const char *spelled, const char *v) {
    int64_t i = 0;
    double x = 0;
    int whole = o->type == RETRACE_INT, real = cli_parse_real(v, &x);
    const char *digits = v + (*v == '-' || *v == '+');
    if (!real || (whole && digits[strspn(digits, "0123456789")]))
        return cli_fail(CLI_USAGE, "%s: '%s' is not a %snumber", spelled, v, whole ? "whole " : "");
    int fits = !whole || cli_parse_int(v, &i);
    if (fits && x >= o->min && x <= o->max) return CLI_OK;
    return cli_fail(CLI_USAGE, "%s: %s is out of range (%g to %g)", spelled, v, o->min, o->max);
}

static int check_text(const cli_option *o, const char *spelled, const char *v) {
    retrace_text t = {v, strlen(v)};
    size_t at = cli_utf8_check(t);
    if (at < t.n) return cli_fail(CLI_USAGE, "%s: not valid UTF-8 at byte %zu", spelled, at);
    if (t.n == 0 && o->type == RETRACE_TEXTS) return cli_fail(CLI_USAGE, "%s: empty", spelled);
    return CLI_OK;
}

static int check(const cli_option *o, const char *spelled, const char *v) {
    int yes;
    int64_t count;
    switch (o->type) {
    case RETRACE_BOOL:
        if (cli_parse_bool(v, &yes) || (o->counted && cli_parse_int(v, &count))) return CLI_OK;
        return cli_fail(CLI_USAGE, "%s: '%s' is not true or false", spelled, v);
    case RETRACE_INT:
    case RETRACE_REAL: return check_number(o, spelled, v);
    case RETRACE_CHOICE: return check_choice(spelled, o->choices, v);
    case RETRACE_FILE: return *v ? CLI_OK : cli_fail(CLI_USAGE, "%s: empty", spelled);
    default: return check_text(o, spelled, v);
    }
}

static void give(cli_option *o, const char *v) {
    o->given = cli_realloc(o->given, (size_t)(o->n + 1) * sizeof *o->given);
    o->given[o->n++] = (retrace_text){v, strlen(v)};
}

/* A secret on the command line can be read by everybody on the machine (ps): it is moved away. */
static void hide(cli_option *o, char *v) {
    if (strcmp(o->flag, "hf-token") != 0 && strcmp(o->flag, "api-key") != 0) return;
    o->given[o->n - 1].s = cli_copy(v, strlen(v));
    o->hidden = 1;
    memset(v, 'x', strlen(v));
}

/* ==== Reading ==== */

static int named(const char *name, const char *s, size_t n) {
    return name && strlen(name) == n && memcmp(name, s, n) == 0;
}

/* Of flags of one name that of the command, else one of another command. */
static cli_option *find(cli_flags *f, const char *arg, size_t n) {
    int is_long = arg[1] == '-';
    const char *s = arg + 1 + is_long;
    cli_option *found = NULL;
    n -= 1 + (size_t)is_long;
    for (int i = 0; i < f->n; i++) {
        cli_option *o = &f->v[i];
        if (!(is_long ? named(o->flag, s, n) || named(o->other, s, n) : named(o->brief, s, n)))
            continue;
        if (o->commands & f->command) return o;
        if (!found) found = o;
    }
    return found;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Edits that make one name of the other, both shorter than 40. */
static size_t edits(const char *a, const char *b) {
    size_t row[40], n = least(strlen(b), 39);
    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= n; j++) {
            size_t up = row[j];
            row[j] = least(least(up, row[j - 1]) + 1, corner + (a[i] != b[j - 1]));
            corner = up;
        }
    }
    return row[n];
}

const char *cli_nearest(const char *to, const char *const *names, int n) {
    size_t best = strlen(to) / 3 + 2;
    const char *found = NULL;
    for (int i = 0; i < n; i++) {
        size_t d = edits(to, names[i]);
        if (d >= best) continue;
        best = d;
        found = names[i];
    }
    return found;
}

static int unknown(const cli_flags *f, const cli_command *c, const char *arg, size_t len) {
    const char **names = cli_alloc((size_t)f->n * sizeof *names);
    int n = 0;
    for (int i = 0; i < f->n; i++)
        if ((f->v[i].commands & f->command) && f->v[i].help) names[n++] = f->v[i].flag;
    char *name = cli_copy(arg, len);
    const char *near = cli_nearest(name + strspn(name, "-"), names, n);
    if (near)
        cli_fail(CLI_USAGE, "unknown flag %s (did you mean --%s?)", name, near);
    else
        cli_fail(CLI_USAGE, "unknown flag %s; see 'retrace %s --help'", name, c->name);
    free(name);
    free(names);
    return CLI_USAGE;
}

/* One flag at argv[*i] and, where it takes one, its value. */
static int take_flag(cli_flags *f, int argc, char **argv, int *i, const cli_command *c) {
    const char *arg = argv[*i], *eq = strchr(arg, '=');
    size_t n = eq ? (size_t)(eq - arg) : strlen(arg);
    cli_option *o = find(f, arg, n);
    if (!o) return unknown(f, c, arg, n);
    if (!(o->commands & f->command))
        return cli_fail(CLI_USAGE, "%.*s is no flag of 'retrace %s'%s", (int)n, arg, c->name,
                        f->command & CLI_BACKWARD && strcmp(o->flag, "prompt") == 0
                            ? " (the suffix is given with --suffix)"
                            : "");
    char spelled[96];
    if (arg[1] == '-')
        snprintf(spelled, sizeof spelled, "%.*s", (int)least(n, 90), arg);
    else
        snprintf(spelled, sizeof spelled, "%.*s (--%s)", (int)least(n, 40), arg, o->flag);
    const char *v = eq ? eq + 1 : NULL;
    if (!v && o->type == RETRACE_BOOL) v = "true";
    if (!v && *i + 1 < argc) v = argv[++*i];
    if (!v) return cli_fail(CLI_USAGE, "%s: a value is missing", spelled);
    int code = check(o, spelled, v);
    if (code) return code;
    give(o, v);
    hide(o, (char *)v); /* v points into argv, or is the literal of a flag without value */
    return CLI_OK;
}

/* The words of a command's operands: "IN OUT" has two. */
static int n_words(const char *s) {
    int n = 0;
    for (; *s; s += strcspn(s, " "), s += strspn(s, " ")) n++;
    return n;
}

static int take_operand(cli_flags *f, const char *arg, const cli_command *c) {
    if (!c->operand)
        return cli_fail(CLI_USAGE, "unexpected argument '%s'%s", arg,
                        f->command & CLI_WITH_TEXT  ? " (text is given with -p)"
                        : f->command & CLI_BACKWARD ? " (the suffix is given with --suffix)"
                                                    : "");
    if (!strstr(c->operand, "...") && f->n_operands == n_words(c->operand))
        return cli_fail(CLI_USAGE, "unexpected argument '%s'", arg);
    f->operands = cli_realloc(f->operands, (size_t)(f->n_operands + 1) * sizeof *f->operands);
    f->operands[f->n_operands++] = arg;
    f->operand = f->operands[0];
    return CLI_OK;
}

/* -vv is -v -v. */
static int take_verbosity(cli_flags *f, const char *arg) {
    size_t n = strspn(arg + 1, "v");
    if (n < 2 || arg[1 + n]) return 0;
    for (size_t i = 0; i < least(n, 9); i++) give(find(f, "-v", 2), "true");
    return 1;
}

static int take_argument(cli_flags *f, int argc, char **argv, int *i, const cli_command *c) {
    const char *a = argv[*i];
    if (strcmp(a, "-h") == 0 || strcmp(a, "--help") == 0) return f->help = 1, CLI_OK;
    if (strcmp(a, "--help=markdown") == 0) return f->help = 2, CLI_OK;
    if (strncmp(a, "--help=", 7) == 0 || strncmp(a, "-h=", 3) == 0)
        return cli_fail(CLI_USAGE, "--help takes no value");
    if (take_verbosity(f, a)) return CLI_OK;
    return take_flag(f, argc, argv, i, c);
}

static int read_environment(cli_flags *f) {
    for (int i = 0; i < f->n; i++) {
        cli_option *o = &f->v[i];
        const char *v = (o->commands & f->command) && o->n == 0 ? getenv(o->env) : NULL;
        if (!v || !*v) continue;
        int code = check(o, o->env, v);
        if (code) return code;
        give(o, v);
        o->from_env = 1;
    }
    return CLI_OK;
}

/* Names the first operand that is not there, unless it may be left out. */
static int check_operands(const cli_flags *f, const cli_command *c) {
    const char *word = c->operand;
    if (!word || cli_lists(f, "type") || cli_lists(f, "chat-template")) return CLI_OK;
    for (int i = 0; i < f->n_operands && *word; i++) {
        word += strcspn(word, " ");
        word += strspn(word, " ");
    }
    if (!*word || *word == '[' || f->n_operands >= n_words(c->operand)) return CLI_OK;
    return cli_fail(CLI_USAGE, "%.*s is missing; see 'retrace %s --help'", (int)strcspn(word, " "),
                    word, c->name);
}

int cli_flags_read(cli_flags *f, int argc, char **argv, const cli_command *c) {
    int operands = 0, code = CLI_OK;
    for (int i = 0; i < argc && !code && !f->help; i++) {
        if (!operands && strcmp(argv[i], "--") == 0)
            operands = 1;
        else if (!operands && argv[i][0] == '-' && argv[i][1])
            code = take_argument(f, argc, argv, &i, c);
        else
            code = take_operand(f, argv[i], c);
    }
    if (code || f->help) return code;
    code = read_environment(f);
    return code ? code : check_operands(f, c);
}

/* ==== Asking ==== */

const cli_option *cli_option_of(const cli_flags *f, const char *flag) {
    const cli_option *found = NULL;
    for (int i = 0; i < f->n; i++) {
        if (strcmp(f->v[i].flag, flag) != 0) continue;
        if (f->v[i].commands & f->command) return &f->v[i];
        found = &f->v[i];
    }
    if (found) return found;
    cli_fail(CLI_USAGE, "no flag --%s in the table", flag);
    abort();
}

const char *cli_value(const cli_flags *f, const char *flag) {
    const cli_option *o = cli_option_of(f, flag);
    return o->n ? o->given[o->n - 1].s : NULL;
}

int cli_on(const cli_flags *f, const char *flag) {
    const cli_option *o = cli_option_of(f, flag);
    int64_t count = 0;
    int yes = 0, sum = 0;
    for (int i = 0; i < o->n; i++) {
        if (cli_parse_bool(o->given[i].s, &yes))
            sum = yes ? sum + 1 : 0;
        else if (cli_parse_int(o->given[i].s, &count))
            sum = (int)count;
    }
    return o->counted ? sum : sum > 0;
}

int cli_lists(const cli_flags *f, const char *flag) {
    for (int i = 0; i < f->n; i++) {
        const cli_option *o = &f->v[i];
        if (!(o->commands & f->command) || strcmp(o->flag, flag) != 0) continue;
        return o->n && strcmp(o->given[o->n - 1].s, "list") == 0;
    }
    return 0;
}

double cli_real(const cli_flags *f, const char *flag) {
    const cli_option *o = cli_option_of(f, flag);
    const char *v = o->n ? o->given[o->n - 1].s : o->preset;
    double x = 0;
    if (v) cli_parse_real(v, &x);
    return x;
}
