/* talk.c - what can be done to a conversation: say, retry, back, edit, undo, clear.
 *
 * Whatever changes messages that stand already ends the life of the last answer's run: it belongs
 * to another prompt. What the model holds it keeps, and finds again by itself. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

/* ==== Opening ==== */

/* The settings of generate, without those that mean nothing in a conversation. */
static int open_plan(chat_talk *t, const cli_flags *f) {
    static const char *const not_ours[] = {"resample", "logprobs", "chat", "system"};
    cli_plan p = {0};
    int code = cli_plan_flags(&p, f);
    json_t *settings = json_object_get(p.json, "settings");
    for (int i = 0; i < 4; i++) json_object_del(settings, not_ours[i]);
    json_object_set_new(p.json, "prompt_tokens", json_array());
    const char *driver = json_string_value(json_object_get(settings, "driver"));
    if (!code && driver && strncmp(driver, "guide", 5) == 0 && (!driver[5] || driver[5] == ':'))
        code = cli_fail(CLI_USAGE, "--driver: guide is for generate");
    if (!code) code = cli_plan_rules(&p, NULL);
    if (!code) code = cli_plan_options(&p, NULL);
    if (code) return cli_plan_free(&p), code;
    t->plan = cli_alloc(sizeof *t->plan);
    *t->plan = p;
    const cli_option *seed = cli_option_of(f, "seed");
    t->seed_given = seed->n && strcmp(seed->given[seed->n - 1].s, "-1") != 0;
    return CLI_OK;
}

static int batch_of(const char *uri, json_t *engine) {
    retrace_plugin_info p;
    int64_t size = json_integer_value(json_object_get(engine, "batch_size"));
    if (size > 0 && size < 1 << 20) return (int)size;
    if (cli_model_backend(uri, &p))
        for (const retrace_setting_info *s = p.settings; s && s->name; s++)
            if (strcmp(s->name, "batch_size") == 0 && cli_parse_int(s->preset, &size))
                return (int)size;
    return 512;
}

static int uri_of(chat_talk *t, const cli_flags *f) {
    static const char *const others[] = {"model", "hf-repo"};
    if (!f->operand) return cli_model_uri(f, &t->uri);
    for (int i = 0; i < 2; i++) {
        const cli_option *o = cli_option_of(f, others[i]);
        if (o->n && !o->from_env)
            return cli_fail(CLI_USAGE, "the model '%s' and %s exclude each other", f->operand,
                            i ? "-hf (--hf-repo)" : "-m (--model)");
    }
    if (cli_model_is_file(f->operand))
        return t->uri = cli_copy(f->operand, strlen(f->operand)), CLI_OK;
    if (hub_is_name(f->operand)) return hub_model(f, f->operand, &t->uri);
    return cli_fail(CLI_USAGE, "'%s' is neither a file nor a name on the hub (USER/REPO[:QUANT])",
                    f->operand);
}

static int open_model(chat_talk *t, const cli_flags *f) {
    int code = uri_of(t, f);
    if (code) return code;
    json_t *engine = cli_model_settings(f, t->uri);
    t->batch = batch_of(t->uri, engine);
    code = cli_model_open(&t->model, t->uri, engine);
    json_decref(engine);
    return code;
}

/* A model without a template that is known is none to talk to. */
static int check_template(const chat_talk *t) {
    retrace_error err;
    retrace_token *ids;
    int n;
    retrace_message hello = {.role = "user", .content = {"", 0}};
    int rc = retrace_chat(t->model, &hello, 1, &ids, &n, &err);
    if (rc == RETRACE_OK) retrace_free(ids);
    return rc == RETRACE_EMODEL ? cli_report_chat(t->model, &err, NULL) : CLI_OK;
}

int chat_talk_open(chat_talk *t, const cli_flags *f) {
    const char *system = cli_value(f, "system");
    t->flags = f;
    int code = open_plan(t, f);
    if (!code) code = open_model(t, f);
    if (!code) code = check_template(t);
    if (!code && system && *system)
        code = chat_talk_set_system(t, (retrace_text){system, strlen(system)});
    return code;
}

void chat_talk_drop_taken(chat_talk *t) {
    for (int i = 0; i < t->n_taken; i++) {
        free(t->taken[i].text);
        free(t->taken[i].rule);
        free(t->taken[i].why);
    }
    t->n_taken = 0;
}

void chat_talk_forget(chat_talk *t) {
    retrace_run_free(t->run);
    t->run = NULL;
    if (t->run_plan != t->plan) chat_plan_free(t->run_plan);
    t->run_plan = NULL;
    cli_taken_free(&t->head);
}

void chat_talk_free(chat_talk *t) {
    chat_talk_forget(t);
    chat_turns_cut(t, 0);
    chat_talk_drop_taken(t);
    free(t->v);
    free(t->taken);
    free(t->held);
    free(t->uri);
    chat_plan_free(t->plan);
    retrace_model_close(t->model);
    *t = (chat_talk){0};
}

/* ==== Turns ==== */

int chat_talk_say(chat_talk *t, chat_view *v, retrace_text message) {
    int at = t->n;
    chat_turn_add(t, "user", message);
    int code = chat_answer_new(t, v, at);
    if (t->v[at].tries == 0) chat_turns_cut(t, at);
    return code;
}

static int nothing(const char *command) {
    return cli_fail(CLI_USAGE, "%s: nothing has been said yet", command);
}

int chat_talk_retry(chat_talk *t, chat_view *v) {
    int at = chat_turns_last(t);
    if (at < 0) return nothing("/retry");
    if (t->run && t->run_plan == t->plan) return chat_answer_again(t, v, at, 0);
    return chat_answer_new(t, v, at);
}

int chat_talk_back(chat_talk *t, chat_view *v, int64_t tokens) {
    int at = chat_turns_last(t), n;
    if (at < 0 || at + 1 >= t->n) return cli_fail(CLI_USAGE, "/back: there is no answer");
    const chat_turn *answer = &t->v[at + 1];
    if (t->run)
        retrace_run_tokens(t->run, &n);
    else if (answer->ids)
        n = answer->n_ids;
    else
        return cli_fail(CLI_USAGE, "/back: the tokens of the last answer are not known");
    if (tokens > n)
        return cli_fail(CLI_USAGE, "/back: the last answer has %d token%s", n, n == 1 ? "" : "s");
    int to = n - (int)tokens;
    if (t->run) return chat_answer_again(t, v, at, to);
    return chat_answer_behind(t, v, at, to);
}

/* The old message and its answer come back when no prompt can be made of the new one. */
int chat_talk_edit(chat_talk *t, chat_view *v, retrace_text message) {
    int at = chat_turns_last(t), n = t->n;
    if (at < 0) return nothing("/edit");
    size_t kept_size = (size_t)(n - at) * sizeof *t->v;
    chat_turn *kept = cli_alloc(kept_size);
    memcpy(kept, t->v + at, kept_size);
    t->n = at;
    chat_turn_add(t, "user", message);
    t->v[at].tries = kept->tries;
    int code = chat_answer_new(t, v, at);
    if (t->v[at].tries == kept->tries) {
        chat_turns_cut(t, at);
        t->v = cli_realloc(t->v, (size_t)n * sizeof *t->v);
        memcpy(t->v + at, kept, kept_size);
        t->n = n;
    } else {
        for (int i = 0; i < n - at; i++) chat_turn_clear(&kept[i]);
    }
    free(kept);
    return code;
}

int chat_talk_undo(chat_talk *t, int64_t turns) {
    int count = chat_turns_count(t);
    if (turns > count)
        return cli_fail(CLI_USAGE, "/undo: there %s %d turn%s", count == 1 ? "is" : "are", count,
                        count == 1 ? "" : "s");
    for (int64_t i = 0; i < turns; i++) chat_turns_cut(t, chat_turns_last(t));
    t->left_out = 0;
    chat_talk_forget(t);
    chat_tell_done(t, "%lld turn%s taken back, %d left", (long long)turns, turns == 1 ? "" : "s",
                   chat_turns_count(t));
    return CLI_OK;
}

void chat_talk_clear(chat_talk *t) {
    chat_turns_cut(t, chat_turns_system(t));
    t->left_out = 0;
    chat_talk_forget(t);
    chat_talk_drop_taken(t);
    t->answers = t->sum_kept = t->sum_evaluated = t->sum_prompt = t->sum_prompt_new = 0;
    t->sum_erased = t->sum_rewinds = 0;
    t->sum_seconds = 0;
}

retrace_text chat_talk_last(const chat_talk *t) {
    int at = chat_turns_last(t);
    return at < 0 ? (retrace_text){"", 0} : cli_buf_text(&t->v[at].content);
}

static int check_text(const chat_talk *t, retrace_text text, const char *about) {
    retrace_error err;
    retrace_token *ids;
    int n;
    if (retrace_tokenize(t->model, text, 0, &ids, &n, &err)) return cli_report(&err, about);
    retrace_free(ids);
    return CLI_OK;
}

int chat_talk_set_system(chat_talk *t, retrace_text text) {
    int code = text.n ? check_text(t, text, "the system message") : CLI_OK;
    if (code) return code;
    if (chat_turns_system(t)) {
        chat_turn_clear(&t->v[0]);
        memmove(t->v, t->v + 1, (size_t)--t->n * sizeof *t->v);
    }
    if (text.n) {
        chat_turn_add(t, "system", text);
        chat_turn system = t->v[t->n - 1];
        memmove(t->v + 1, t->v, (size_t)(t->n - 1) * sizeof *t->v);
        t->v[0] = system;
    }
    t->left_out = 0;
    chat_talk_forget(t);
    return CLI_OK;
}
