/* load.c - /load: a conversation from a file, which may be a stranger's.
 *
 * Everything is read and checked into a conversation of its own first, and takes the place of the
 * one that there was only as a whole. No field is passed over: what is not known is named. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20 };

typedef struct source {
    chat_talk *t;
    const char *path;
    json_t *json;
    int known; /* the vocabulary is the model's: tokens count */
} source;

static int wrong(const source *s, const char *field, const char *what) {
    return cli_fail(CLI_USAGE, "%s: %s: %s", s->path, field, what);
}

static int wrong_message(const source *s, size_t i, const char *field, const char *what) {
    return cli_fail(CLI_USAGE, "%s: message %zu: %s: %s", s->path, i + 1, field, what);
}

/* ==== The whole ==== */

static int check_head(source *s) {
    static const char *const fields[] = {"retrace",  "version",  "model",    "vocab_hash", "seed",
                                         "settings", "left_out", "messages", NULL};
    const char *key;
    json_t *v;
    if (!json_is_object(s->json)) return cli_fail(CLI_USAGE, "%s: not a JSON object", s->path);
    json_object_foreach(s->json, key, v) {
        if (!cli_is_one_of(key, fields)) return wrong(s, key, "no such field");
    }
    v = json_object_get(s->json, "retrace");
    if (v && (!json_is_string(v) || strcmp(json_string_value(v), "chat") != 0))
        return wrong(s, "retrace", json_is_string(v) ? json_string_value(v) : "not \"chat\"");
    v = json_object_get(s->json, "version");
    if (v && (!json_is_integer(v) || json_integer_value(v) != 1))
        return json_is_integer(v) ? cli_fail(CLI_USAGE, "%s: version %lld is not known, only 1",
                                             s->path, (long long)json_integer_value(v))
                                  : wrong(s, "version", "not 1");
    v = json_object_get(s->json, "model");
    if (v && !json_is_string(v)) return wrong(s, "model", "no text");
    v = json_object_get(s->json, "vocab_hash");
    if (v && !json_is_string(v)) return wrong(s, "vocab_hash", "no text");
    if (!json_is_array(json_object_get(s->json, "messages")))
        return wrong(s, "messages", "not a list");
    return CLI_OK;
}

static void find_vocabulary(source *s) {
    retrace_model_info info;
    char hash[20];
    const char *theirs = json_string_value(json_object_get(s->json, "vocab_hash"));
    retrace_model_facts(s->t->model, &info);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)info.vocab_hash);
    s->known = theirs && strcmp(hash, theirs) == 0;
}

/* ==== Messages ==== */

static int check_role(const source *s, size_t i, json_t *m) {
    static const char *const roles[] = {"system", "user", "assistant", NULL};
    const char *role = json_string_value(json_object_get(m, "role"));
    if (!role) return wrong_message(s, i, "role", "missing, or no text");
    if (!cli_is_one_of(role, roles)) return wrong_message(s, i, "role", role);
    if (i > 0 && strcmp(role, "system") == 0)
        return wrong_message(s, i, "role", "system is not the first");
    if (!json_is_string(json_object_get(m, "content")))
        return wrong_message(s, i, "content", "missing, or no text");
    return CLI_OK;
}

static int check_fields(const source *s, size_t i, json_t *m) {
    static const char *const all[] = {"role", "content", NULL};
    static const char *const answers[] = {"role", "content", "tokens", "finish", NULL};
    const char *key;
    json_t *v;
    if (!json_is_object(m)) return wrong(s, "messages", "one is not an object");
    int code = check_role(s, i, m);
    if (code) return code;
    int answer = strcmp(json_string_value(json_object_get(m, "role")), "assistant") == 0;
    json_object_foreach(m, key, v) {
        if (!cli_is_one_of(key, answer ? answers : all))
            return wrong_message(s, i, key, "no such field here");
    }
    return CLI_OK;
}

static int take_finish(const source *s, size_t i, json_t *v, chat_turn *u) {
    if (!v) return CLI_OK;
    if (!json_is_string(v)) return wrong_message(s, i, "finish", "no text");
    for (int f = RETRACE_FINISH_END; f <= RETRACE_FINISH_ERROR; f++)
        if (strcmp(retrace_finish_name((retrace_finish)f), json_string_value(v)) == 0)
            return u->finish = (retrace_finish)f, CLI_OK;
    return wrong_message(s, i, "finish", json_string_value(v));
}

/* A stopped answer may end inside a character: then content has U+FFFD there. */
static int same_text(const cli_buf *spelt, const cli_buf *content) {
    cli_buf clean = {0};
    cli_clean(&clean, cli_buf_text(spelt));
    int same = clean.n == content->n && (clean.n == 0 || memcmp(clean.s, content->s, clean.n) == 0);
    cli_buf_free(&clean);
    return same;
}

static int take_tokens(const source *s, size_t i, json_t *list, chat_turn *u) {
    retrace_model_info info;
    size_t k, n = json_array_size(list);
    json_t *id;
    cli_buf spelt = {0};
    retrace_model_facts(s->t->model, &info);
    retrace_token *ids = cli_alloc((n + 1) * sizeof *ids);
    const char *what = NULL;
    json_array_foreach(list, k, id) {
        json_int_t v = json_integer_value(id);
        if (!json_is_integer(id) || v < 0 || v > INT32_MAX) what = "not a list of tokens";
        if (what || !s->known) continue;
        if (v >= info.vocab) {
            what = "one is outside the vocabulary";
            continue;
        }
        ids[k] = (retrace_token)v;
        retrace_text piece = retrace_piece(s->t->model, ids[k]);
        if (piece.n == 0 || retrace_token_ends(s->t->model, ids[k])) what = "a control token";
        cli_put(&spelt, piece.s, piece.n);
    }
    if (!what && s->known && !same_text(&spelt, &u->content)) what = "they do not spell content";
    if (what || !s->known) {
        free(ids);
        cli_buf_free(&spelt);
        return what ? wrong_message(s, i, "tokens", what) : CLI_OK;
    }
    u->ids = ids;
    u->n_ids = (int)n;
    cli_buf_free(&u->content);
    u->content = spelt;
    return CLI_OK;
}

static int check_text(const source *s, size_t i, const chat_turn *u) {
    retrace_error err;
    retrace_token *ids;
    int n;
    cli_buf about = {0};
    if (u->ids) return CLI_OK;
    cli_printf(&about, "%s: message %zu", s->path, i + 1);
    int rc = retrace_tokenize(s->t->model, cli_buf_text(&u->content), 0, &ids, &n, &err);
    int code = rc ? cli_report(&err, about.s) : CLI_OK;
    if (!rc) retrace_free(ids);
    cli_buf_free(&about);
    return code;
}

static int take_message(const source *s, size_t i, json_t *m, chat_talk *to) {
    int code = check_fields(s, i, m);
    if (code) return code;
    json_t *content = json_object_get(m, "content"), *tokens = json_object_get(m, "tokens");
    chat_turn_add(to, json_string_value(json_object_get(m, "role")),
                  (retrace_text){json_string_value(content), json_string_length(content)});
    chat_turn *u = &to->v[to->n - 1];
    code = take_finish(s, i, json_object_get(m, "finish"), u);
    if (!code && tokens && !json_is_array(tokens))
        code = wrong_message(s, i, "tokens", "not a list of tokens");
    if (!code && tokens) code = take_tokens(s, i, tokens, u);
    if (!code) code = check_text(s, i, u);
    if (!code && to->n > 1 && strcmp(u->role, "assistant") == 0) to->v[to->n - 2].tries = 1;
    return code;
}

static int take_messages(const source *s, chat_talk *to) {
    size_t i;
    json_t *m, *left_out = json_object_get(s->json, "left_out");
    json_array_foreach(json_object_get(s->json, "messages"), i, m) {
        int code = take_message(s, i, m, to);
        if (code) return code;
    }
    if (!left_out) return CLI_OK;
    json_int_t n = json_integer_value(left_out);
    if (!json_is_integer(left_out) || n < 0 || (n > 0 && n >= chat_turns_count(to)))
        return wrong(s, "left_out", "not a number of turns");
    to->left_out = (int)n;
    return CLI_OK;
}

/* ==== Settings ==== */

static int check_settings(const source *s, json_t *settings) {
    static const char *const not_ours[] = {"engine",   "chat",     "system",
                                           "logprobs", "resample", NULL};
    const char *key;
    json_t *v;
    if (!json_is_object(settings)) return wrong(s, "settings", "not an object");
    json_object_foreach(settings, key, v) {
        if (cli_is_one_of(key, not_ours)) return wrong(s, key, "no setting of a conversation");
    }
    v = json_object_get(settings, "driver");
    if (json_is_string(v) && strncmp(json_string_value(v), "guide", 5) == 0)
        return wrong(s, "driver", "guide is for generate");
    json_t *start = json_pack("{s:O}", "settings", settings);
    int code = cli_start_check(start, s->path);
    json_decref(start);
    return code;
}

/* What is given takes the place of what holds now. */
static int take_settings(const source *s, cli_plan **plan) {
    json_t *settings = json_object_get(s->json, "settings"), *value;
    json_t *seed = json_object_get(s->json, "seed");
    const char *key;
    int code = settings ? check_settings(s, settings) : CLI_OK;
    if (!code && seed && !json_is_integer(seed)) code = wrong(s, "seed", "not a whole number");
    if (code) return code;
    json_t *json = json_deep_copy(s->t->plan->json), *to = json_object_get(json, "settings");
    json_object_foreach(settings, key, value) json_object_set_new(to, key, json_deep_copy(value));
    if (seed) json_object_set(json, "seed", seed);
    *plan = chat_plan_of(s->t, json, s->path, &code);
    return code;
}

/* ==== Loading ==== */

static void take_over(const source *s, chat_talk *from, cli_plan *plan) {
    chat_talk *t = s->t;
    chat_talk_clear(t);
    chat_turns_cut(t, 0);
    free(t->v);
    t->v = from->v;
    t->n = from->n;
    t->left_out = from->left_out;
    chat_plan_take(t, plan);
    if (json_object_get(s->json, "seed")) t->seed_given = 1;
}

static int parse(source *s) {
    cli_buf b = {0};
    json_error_t err;
    int code = cli_read_file(s->path, MOST_BYTES, &b);
    if (code) return cli_buf_free(&b), code;
    s->json = json_loadb(b.s ? b.s : "", b.n, JSON_REJECT_DUPLICATES, &err);
    if (!s->json) code = cli_fail(CLI_USAGE, "%s: line %d: %s", s->path, err.line, err.text);
    cli_buf_free(&b);
    return code;
}

int chat_file_load(chat_talk *t, const char *path) {
    source s = {.t = t, .path = path};
    chat_talk made = {0};
    cli_plan *plan = NULL;
    if (strcmp(path, "-") == 0) return cli_fail(CLI_USAGE, "'-' is no file to load");
    int code = parse(&s);
    if (!code) code = check_head(&s);
    if (!code) find_vocabulary(&s);
    if (!code) code = take_messages(&s, &made);
    if (!code) code = take_settings(&s, &plan);
    if (code) {
        chat_turns_cut(&made, 0);
        free(made.v);
    } else {
        take_over(&s, &made, plan);
    }
    json_decref(s.json);
    return code;
}
