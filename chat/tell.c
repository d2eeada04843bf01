/* tell.c - what commands show, on standard output.
 *
 * On a terminal nothing of it drives the terminal; in a pipe texts are as they are. */
#define _POSIX_C_SOURCE 200809L
#include "chat.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *chat_number(char to[32], int64_t n) {
    char digits[24];
    int size = snprintf(digits, sizeof digits, "%lld", (long long)n), at = 0;
    for (int i = 0; i < size; i++) {
        int left = size - i;
        if (i && left % 3 == 0 && digits[i - 1] != '-') to[at++] = ',';
        to[at++] = digits[i];
    }
    to[at] = '\0';
    return to;
}

static void put_text(retrace_text t, int lines) {
    cli_buf b = {0};
    if (isatty(STDOUT_FILENO))
        cli_escape(&b, t, lines);
    else
        cli_put(&b, t.s, t.n);
    if (b.n) fwrite(b.s, 1, b.n, stdout);
    cli_buf_free(&b);
}

/* A value of JSON as a person would write it; long ones by their beginning. */
static void put_value(cli_buf *b, json_t *v) {
    enum { SHOWN = 60 };
    if (json_is_string(v)) {
        retrace_text t = {json_string_value(v), json_string_length(v)};
        size_t whole = t.n > SHOWN ? cli_utf8_whole((retrace_text){t.s, SHOWN}) : t.n;
        cli_puts(b, "\"");
        cli_escape(b, (retrace_text){t.s, whole}, 0);
        cli_puts(b, whole < t.n ? "...\"" : "\"");
    } else if (json_is_boolean(v)) {
        cli_puts(b, json_is_true(v) ? "true" : "false");
    } else if (json_is_integer(v)) {
        cli_printf(b, "%lld", (long long)json_integer_value(v));
    } else if (json_is_real(v)) {
        cli_printf(b, "%g", json_real_value(v));
    }
}

static int phrases_in(const char *s) {
    int n = 0;
    for (; *s; s += strcspn(s, "\n"), s += *s == '\n') {
        size_t blank = strspn(s, " \t\r");
        if (*s != '#' && s[blank] && s[blank] != '\n') n++;
    }
    return n;
}

/* A file is shown by its name, as it was asked for; one that a conversation was loaded with has
 * none any more. */
static void put_file(cli_buf *b, const char *key, json_t *text, json_t *spelled, int phrases) {
    const char *asked = json_string_value(spelled), *name = asked ? strchr(asked, '=') : NULL;
    cli_puts(b, ", ");
    if (asked && strncmp(asked, "--ban-file ", 11) == 0) {
        cli_escape(b, (retrace_text){asked, strlen(asked)}, 0);
    } else {
        cli_puts(b, key);
        if (name) cli_escape(b, (retrace_text){name, strlen(name)}, 0);
    }
    if (!phrases) return;
    int n = phrases_in(json_string_value(text));
    cli_printf(b, " (%d phrase%s)", n, n == 1 ? "" : "s");
}

static int put_files(cli_buf *b, const char *key, json_t *value, json_t *names, int phrases) {
    size_t i;
    json_t *item;
    if (!names && !(phrases && (strcmp(key, "file") == 0 || strcmp(key, "list") == 0))) return 0;
    if (!json_is_array(value)) return put_file(b, key, value, json_array_get(names, 0), phrases), 1;
    json_array_foreach(value, i, item) {
        put_file(b, key, item, json_array_get(names, i), phrases);
    }
    return 1;
}

static void put_setting(cli_buf *b, const char *key, json_t *value) {
    enum { MOST = 5 };
    size_t i;
    json_t *item;
    if (!json_is_array(value)) {
        cli_printf(b, ", %s=", key);
        put_value(b, value);
        return;
    }
    json_array_foreach(value, i, item) {
        if (i == MOST) break;
        cli_printf(b, ", %s=", key);
        put_value(b, item);
    }
    if (json_array_size(value) > MOST)
        cli_printf(b, ", and %zu more", json_array_size(value) - MOST);
}

void chat_tell_rules(const chat_talk *t) {
    json_t *rules = json_object_get(chat_plan_settings(t), "rules"), *rule, *value;
    const char *key;
    size_t i;
    if (json_array_size(rules) == 0) printf("no rules\n");
    json_array_foreach(rules, i, rule) {
        cli_buf b = {0};
        json_t *files = json_array_get(t->plan->files, i);
        const char *name = json_string_value(json_object_get(rule, "name"));
        int phrases = strcmp(name, "phrases") == 0;
        json_object_foreach(rule, key, value) {
            if (strcmp(key, "name") == 0) continue;
            if (!put_files(&b, key, value, json_object_get(files, key), phrases))
                put_setting(&b, key, value);
        }
        printf("%3zu  %s%s%s\n", i + 1, name, b.n ? ": " : "", b.n ? b.s + 2 : "");
        cli_buf_free(&b);
    }
}

static int is_preset(const retrace_setting_info *s, json_t *v) {
    json_t *preset = cli_typed(
        s->type, (retrace_text){s->preset ? s->preset : "", s->preset ? strlen(s->preset) : 0});
    int same = json_equal(preset, v) || (json_is_number(preset) && json_is_number(v) &&
                                         json_number_value(preset) == json_number_value(v));
    json_decref(preset);
    return same;
}

void chat_tell_settings(const chat_talk *t, int all) {
    for (const retrace_setting_info *s = retrace_options_infos(); s->name; s++) {
        int is_seed = strcmp(s->name, "seed") == 0;
        json_t *v = json_object_get(is_seed ? t->plan->json : chat_plan_settings(t), s->name);
        if (!v || !chat_is_setting(s->name) || (!all && is_preset(s, v))) continue;
        int drawn = is_seed && !t->seed_given;
        if (drawn && !all) continue;
        cli_buf b = {0};
        if (json_is_string(v))
            cli_puts(&b, json_string_value(v));
        else
            put_value(&b, v);
        printf("%-18s %s%s\n", s->name, b.s, drawn ? " (drawn)" : "");
        cli_buf_free(&b);
    }
}

void chat_tell_talk(const chat_talk *t) {
    for (int i = 0; i < t->n; i++) {
        const chat_turn *u = &t->v[i];
        printf("%s: ", u->role);
        put_text(cli_buf_text(&u->content), 1);
        putchar('\n');
    }
}

void chat_tell_rewind(const chat_taken *k, cli_buf *b) {
    cli_printf(b, "%s taken back, %d token%s, to %d: %s", k->text, k->tokens,
               k->tokens == 1 ? "" : "s", k->pos, k->rule);
    if (!*k->why) return;
    cli_puts(b, " \"");
    cli_escape(b, (retrace_text){k->why, strlen(k->why)}, 0);
    cli_puts(b, "\"");
}

void chat_tell_taken(const chat_talk *t) {
    if (t->n_taken == 0) printf("nothing was taken back\n");
    for (int i = 0; i < t->n_taken; i++) {
        cli_buf b = {0};
        chat_tell_rewind(&t->taken[i], &b);
        printf("%3d  %s\n", i + 1, b.s);
        cli_buf_free(&b);
    }
}

static void tell_prompts(const char *what, int64_t tokens, int64_t new_ones) {
    char a[32], b[32];
    printf("%s %s tokens, %s of them new\n", what, chat_number(a, tokens),
           chat_number(b, new_ones));
}

static void tell_work(int64_t kept, int64_t evaluated, double seconds, double first_s) {
    char a[32], b[32];
    printf("  written      %s kept, %s evaluated, %.1f tokens/s", chat_number(a, kept),
           chat_number(b, evaluated), seconds > 0 ? (double)kept / seconds : 0);
    if (!isnan(first_s)) printf(", first after %.2f s", first_s);
    putchar('\n');
}

static void tell_rewinds(int64_t rewinds, int64_t erased) {
    char a[32], b[32];
    printf("  taken back   %s rewind%s, %s erased\n", chat_number(a, rewinds),
           rewinds == 1 ? "" : "s", chat_number(b, erased));
}

void chat_tell_stats(const chat_talk *t) {
    const retrace_stats *s = &t->last;
    char a[32];
    if (t->answers == 0) {
        printf("no answer yet\n");
        return;
    }
    tell_prompts("last answer: prompt", s->prompt, s->prompt_evaluated);
    tell_work(s->kept, s->evaluated, t->seconds, t->first_s);
    tell_rewinds(s->rewinds, s->erased);
    printf("  finish       %s\n", retrace_finish_name(t->finish));
    printf("conversation: %s answer%s", chat_number(a, t->answers), t->answers == 1 ? "" : "s");
    tell_prompts(", prompts", t->sum_prompt, t->sum_prompt_new);
    tell_work(t->sum_kept, t->sum_evaluated, t->sum_seconds, NAN);
    tell_rewinds(t->sum_rewinds, t->sum_erased);
}

/* ==== What a person at a terminal is told besides ==== */

static void put_dim(const cli_buf *text) {
    int colour = cli_colour(stdout);
    cli_buf b = {0};
    if (colour) cli_puts(&b, "\033[2m");
    cli_escape(&b, cli_buf_text(text), 0);
    if (colour) cli_puts(&b, "\033[0m");
    printf("%s\n", b.s);
    cli_buf_free(&b);
}

void chat_tell_done(const chat_talk *t, const char *fmt, ...) {
    cli_buf b = {0};
    va_list args;
    if (!t->person || cli_quiet || !isatty(STDOUT_FILENO)) return;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *line = cli_alloc((size_t)n + 1);
    va_start(args, fmt);
    vsnprintf(line, (size_t)n + 1, fmt, args);
    va_end(args);
    cli_puts(&b, line);
    put_dim(&b);
    cli_buf_free(&b);
    free(line);
}

void chat_tell_greeting(const chat_talk *t, int marks) {
    char n[32];
    retrace_model_info info;
    const char *name = strrchr(t->uri, '/');
    retrace_model_facts(t->model, &info);
    chat_tell_done(t, "%s, a context of %s tokens", name ? name + 1 : t->uri,
                   chat_number(n, info.n_ctx));
    chat_tell_done(t, "/help lists the commands, Ctrl-D ends");
    if (marks && json_array_size(json_object_get(chat_plan_settings(t), "rules")) > 0)
        chat_tell_done(t, "⟲ stands where a rule took text back; /rewinds tells what and why");
}
