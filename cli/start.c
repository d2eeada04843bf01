/* start.c - whether the first line of a trace can be what generate wrote.
 *
 * Reading a plan passes over what it does not know; from a file that a person may have edited, a
 * field that would mean nothing is an error that names it. Ranges are checked where values are
 * used. */
#include "cli.h"

#include <string.h>

static int wrong(const char *where, const char *field, const char *what) {
    return cli_fail(CLI_USAGE, "%s: %s%s%s", where, field, *field ? ": " : "", what);
}

int cli_is_one_of(const char *key, const char *const *names) {
    for (; *names; names++)
        if (strcmp(key, *names) == 0) return 1;
    return 0;
}

static int is_plain(const json_t *v) {
    return json_is_string(v) || json_is_number(v) || json_is_boolean(v);
}

static int all_texts(const json_t *list) {
    size_t i;
    json_t *item;
    if (!json_is_array(list)) return 0;
    json_array_foreach(list, i, item) if (!json_is_string(item)) return 0;
    return 1;
}

/* Values that repeat are a list; whether the rule knows the setting is said by the library. */
static int check_rule(json_t *rule, const char *where) {
    const char *key;
    json_t *value;
    if (!json_is_object(rule)) return wrong(where, "rules", "not an object");
    if (!json_is_string(json_object_get(rule, "name")))
        return wrong(where, "rules", "a rule has no name");
    json_object_foreach(rule, key, value) {
        if (!is_plain(value) && !all_texts(value))
            return wrong(where, key, "neither a value nor a list of texts");
    }
    return CLI_OK;
}

static int check_rules(const json_t *rules, const char *where) {
    size_t i;
    json_t *rule;
    if (!json_is_array(rules)) return wrong(where, "rules", "not a list");
    json_array_foreach(rules, i, rule) {
        int code = check_rule(rule, where);
        if (code) return code;
    }
    return CLI_OK;
}

static int check_engine(json_t *engine, const char *where) {
    const char *key;
    json_t *value;
    if (!json_is_object(engine)) return wrong(where, "engine", "not an object");
    json_object_foreach(engine, key, value) {
        if (!is_plain(value)) return wrong(where, key, "neither a text nor a number");
    }
    return CLI_OK;
}

static int is_option(const char *key) {
    for (const retrace_setting_info *s = retrace_options_infos(); s->name; s++)
        if (strcmp(s->name, key) == 0) return strcmp(key, "seed") != 0;
    return 0;
}

static int check_setting(const char *key, json_t *value, const char *where) {
    static const char *const texts[] = {"driver", "system", NULL};
    if (strcmp(key, "rules") == 0) return check_rules(value, where);
    if (strcmp(key, "engine") == 0) return check_engine(value, where);
    if (strcmp(key, "stop") == 0)
        return all_texts(value) ? CLI_OK : wrong(where, key, "not a list of texts");
    if (strcmp(key, "logit_bias") == 0)
        return json_is_object(value) ? CLI_OK : wrong(where, key, "not an object");
    if (strcmp(key, "chat") == 0)
        return json_is_boolean(value) ? CLI_OK : wrong(where, key, "not true or false");
    if (cli_is_one_of(key, texts))
        return json_is_string(value) ? CLI_OK : wrong(where, key, "no text");
    if (!is_option(key)) return wrong(where, key, "no such setting");
    return is_plain(value) ? CLI_OK : wrong(where, key, "neither a text nor a number");
}

int cli_start_check(const json_t *start, const char *where) {
    static const char *const texts[] = {"model", "prompt", "prompt_text", NULL};
    static const char *const others[] = {"seq",      "op", "prompt_tokens", "seed", "head",
                                         "settings", NULL};
    const char *key;
    json_t *value;
    int code = CLI_OK;
    json_object_foreach((json_t *)(uintptr_t)start, key, value) {
        if (cli_is_one_of(key, texts) && !json_is_string(value))
            return wrong(where, key, "no text");
        if (!cli_is_one_of(key, texts) && !cli_is_one_of(key, others))
            return wrong(where, key, "no such field");
    }
    json_object_foreach(json_object_get(start, "settings"), key, value) {
        code = check_setting(key, value, where);
        if (code) return code;
    }
    return CLI_OK;
}

/* ==== The prompt ==== */

static int tokens_of(const json_t *start, const retrace_model *m, int special, retrace_token **ids,
                     int *n, retrace_error *err) {
    json_t *prompt = json_object_get(start, "prompt"), *settings, *system;
    retrace_text text = {json_string_value(prompt), json_string_length(prompt)};
    settings = json_object_get(start, "settings");
    if (!json_is_true(json_object_get(settings, "chat")))
        return retrace_tokenize(
            m, text, RETRACE_TOKENIZE_BOS | (special ? RETRACE_TOKENIZE_SPECIAL : 0), ids, n, err);
    retrace_message turns[2];
    int n_turns = 0;
    system = json_object_get(settings, "system");
    if (system)
        turns[n_turns++] = (retrace_message){
            .role = "system", .content = {json_string_value(system), json_string_length(system)}};
    turns[n_turns++] = (retrace_message){.role = "user", .content = text};
    return retrace_chat(m, turns, n_turns, ids, n, err);
}

int cli_start_prompt(const json_t *start, const retrace_model *m, const char *where) {
    retrace_error err;
    retrace_token *ids;
    int n, same = 0;
    if (!json_object_get(start, "prompt")) return CLI_OK;
    for (int special = 1; special >= 0 && !same; special--) { /* --no-special is not recorded */
        if (tokens_of(start, m, special, &ids, &n, &err)) return cli_report_chat(m, &err, where);
        json_t *now = cli_json_ints(ids, n);
        same = json_equal(now, json_object_get(start, "prompt_tokens"));
        json_decref(now);
        retrace_free(ids);
    }
    if (same) return CLI_OK;
    return cli_fail(CLI_INVALID, "%s: prompt_tokens are not the tokens of the prompt", where);
}
