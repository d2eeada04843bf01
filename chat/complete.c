/* complete.c - what Tab offers: commands, rules and their settings, settings. */
#include "chat.h"

#include <string.h>

static void offer(cli_buf *out, const char *before, const char *name, const char *behind,
                  const char *typed) {
    size_t n = strlen(typed);
    cli_buf word = {0};
    cli_printf(&word, "%s%s%s", before, name, behind);
    if (strncmp(word.s, typed, n) == 0) cli_printf(out, "%s\n", word.s);
    cli_buf_free(&word);
}

static void offer_commands(cli_buf *out, const char *before, const char *typed) {
    const char *name;
    for (int i = 0; (name = chat_command_at(i)) != NULL; i++) offer(out, before, name, "", typed);
}

/* The settings of the rule that `typed` names, "phrases:text=a,mi". */
static void offer_rule_settings(cli_buf *out, const char *typed, size_t name) {
    retrace_plugin_info p;
    size_t last = strlen(typed);
    while (typed[last - 1] != ':' && typed[last - 1] != ',') last--;
    cli_buf before = {0};
    cli_put(&before, typed, last);
    for (int i = 0; retrace_rule_at(i, &p); i++) {
        if (strlen(p.name) != name || memcmp(p.name, typed, name) != 0) continue;
        for (const retrace_setting_info *s = p.settings; s && s->name; s++)
            offer(out, before.s, s->name, "=", typed);
    }
    cli_buf_free(&before);
}

static void offer_rules(const chat_talk *t, cli_buf *out, const char *typed) {
    retrace_plugin_info p;
    size_t name = strcspn(typed, ":"), i;
    json_t *rule;
    if (typed[name]) {
        offer_rule_settings(out, typed, name);
        return;
    }
    if (*typed == '-') {
        json_array_foreach(json_object_get(chat_plan_settings(t), "rules"), i, rule)
            offer(out, "-", json_string_value(json_object_get(rule, "name")), "", typed);
        return;
    }
    for (int k = 0; retrace_rule_at(k, &p); k++) offer(out, "", p.name, "", typed);
}

static void offer_settings(cli_buf *out, const char *typed) {
    offer(out, "", "all", "", typed);
    for (const retrace_setting_info *s = retrace_options_infos(); s->name; s++)
        if (chat_is_setting(s->name)) offer(out, "", s->name, "", typed);
}

void chat_command_complete(void *ud, const char *line, cli_buf *out) {
    if (*line != '/') return;
    size_t n = strcspn(line, " ");
    if (!line[n]) {
        offer_commands(out, "/", line);
        return;
    }
    const char *typed = line + n + strspn(line + n, " ");
    if (n == 5 && memcmp(line, "/rule", 5) == 0) offer_rules(ud, out, typed);
    if (strchr(typed, ' ')) return;
    if (n == 4 && memcmp(line, "/set", 4) == 0) offer_settings(out, typed);
    if (n == 5 && memcmp(line, "/help", 5) == 0) offer_commands(out, "", typed);
}
