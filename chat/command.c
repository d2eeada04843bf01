/* command.c - what a line that begins with '/' does.
 *
 * A table of commands: name, what may follow, help, and the function. What a command shows goes to
 * standard output, what is wrong with it to standard error. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

typedef struct asked {
    chat_talk *t;
    chat_view *v;
    const char *arg; /* what follows the name, without blanks around it */
    chat_next next;
} asked;

typedef struct command {
    const char *name, *takes, *help;
    int (*run)(asked *a);
} command;

static int help(asked *a);

/* A count from 1; `preset` when there is none (0: it must be there). */
static int count_of(const asked *a, const char *name, int64_t preset, int64_t *n) {
    *n = preset;
    if (!*a->arg && preset) return CLI_OK;
    if (cli_parse_int(a->arg, n) && *n >= 1) return CLI_OK;
    return cli_fail(CLI_USAGE, "/%s: '%s' is not a number from 1", name, a->arg);
}

static int undo(asked *a) {
    int64_t n;
    int code = count_of(a, "undo", 1, &n);
    return code ? code : chat_talk_undo(a->t, n);
}

static int retry(asked *a) {
    return chat_talk_retry(a->t, a->v);
}

static int edit(asked *a) {
    if (*a->arg) {
        const char *text = a->arg + (strncmp(a->arg, "//", 2) == 0);
        return chat_talk_edit(a->t, a->v, (retrace_text){text, strlen(text)});
    }
    if (chat_turns_last(a->t) < 0) return cli_fail(CLI_USAGE, "/edit: nothing has been said yet");
    if (!a->t->person)
        return cli_fail(CLI_USAGE, "/edit: TEXT is missing: no line can be edited here");
    a->next = CHAT_EDIT;
    return CLI_OK;
}

static int back(asked *a) {
    int64_t n;
    int code = count_of(a, "back", 0, &n);
    return code ? code : chat_talk_back(a->t, a->v, n);
}

static int rule(asked *a) {
    if (*a->arg) return chat_change_rule(a->t, a->arg);
    chat_tell_rules(a->t);
    return CLI_OK;
}

static int ban(asked *a) {
    if (!*a->arg) return cli_fail(CLI_USAGE, "/ban: TEXT is missing");
    return chat_change_ban(a->t, (retrace_text){a->arg, strlen(a->arg)});
}

static int set(asked *a) {
    if (!*a->arg || strcmp(a->arg, "all") == 0) {
        chat_tell_settings(a->t, *a->arg != '\0');
        return CLI_OK;
    }
    size_t n = strcspn(a->arg, " \t\n=");
    char *name = cli_copy(a->arg, n);
    int code = chat_change_set(a->t, name, a->arg + n + strspn(a->arg + n, " \t\n="));
    free(name);
    return code;
}

static int system_of(asked *a) {
    if (*a->arg) {
        int none = strcmp(a->arg, "-") == 0;
        int code = chat_talk_set_system(a->t, (retrace_text){a->arg, none ? 0 : strlen(a->arg)});
        if (!code)
            chat_tell_done(a->t, none ? "no system message now" : "the system message is set");
        return code;
    }
    if (!chat_turns_system(a->t)) return printf("no system message\n"), CLI_OK;
    chat_talk only = {.v = a->t->v, .n = 1};
    chat_tell_talk(&only);
    return CLI_OK;
}

static int show(asked *a) {
    chat_tell_talk(a->t);
    return CLI_OK;
}

static int rewinds(asked *a) {
    chat_tell_taken(a->t);
    return CLI_OK;
}

static int stats(asked *a) {
    chat_tell_stats(a->t);
    return CLI_OK;
}

static int save(asked *a) {
    if (!*a->arg) return cli_fail(CLI_USAGE, "/save: FILE is missing");
    int code = chat_file_save(a->t, a->arg);
    if (!code) chat_tell_done(a->t, "saved in %s; messages: %d", a->arg, a->t->n);
    return code;
}

static int load(asked *a) {
    if (!*a->arg) return cli_fail(CLI_USAGE, "/load: FILE is missing");
    int code = chat_file_load(a->t, a->arg);
    if (!code) chat_tell_done(a->t, "loaded from %s; messages: %d", a->arg, a->t->n);
    return code;
}

static int clear(asked *a) {
    chat_talk_clear(a->t);
    chat_tell_done(a->t, "a new conversation");
    return CLI_OK;
}

static int quit(asked *a) {
    a->next = CHAT_QUIT;
    return CLI_OK;
}

static const command commands[] = {
    {"help", "[COMMAND]", "the commands, or what one of them does", help},
    {"undo", "[N]", "take the last N (1) turns back", undo},
    {"retry", NULL, "answer the last message again, with other draws", retry},
    {"edit", "[TEXT]", "change the last message, and answer it anew", edit},
    {"back", "N", "rewind the last N tokens of the last answer, and go on from there", back},
    {"rule", "[NAME[:key=value,...]]", "list the rules; add one; -N or -NAME takes one away", rule},
    {"ban", "TEXT", "ban a phrase, as --ban does", ban},
    {"set", "[NAME VALUE]", "list the settings that are not the defaults ('all': all); set one",
     set},
    {"system", "[TEXT]", "show the system message, or set it; '-': none", system_of},
    {"show", NULL, "the conversation so far", show},
    {"rewinds", NULL, "what was taken back in the last answer, and why", rewinds},
    {"stats", NULL, "figures of the last answer and of the conversation", stats},
    {"save", "FILE", "write the conversation, its settings and its rules", save},
    {"load", "FILE", "go on with a conversation that was saved", load},
    {"clear", NULL, "begin a new conversation; system message, settings and rules stay", clear},
    {"quit", NULL, "the end; /exit too", quit},
    {"exit", NULL, "the end", quit},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

const char *chat_command_at(int i) {
    return i < N_COMMANDS ? commands[i].name : NULL;
}

static const command *find(const char *name) {
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static int unknown(const char *name) {
    const char *names[N_COMMANDS], *near;
    for (int i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    near = *name && strlen(name) < 40 ? cli_nearest(name, names, N_COMMANDS) : NULL;
    if (near) return cli_fail(CLI_USAGE, "unknown command '/%s' (did you mean '/%s'?)", name, near);
    return cli_fail(CLI_USAGE, "unknown command '/%s'; /help lists them", name);
}

static void tell_command(const command *c) {
    cli_buf b = {0};
    cli_printf(&b, "/%s%s%s", c->name, c->takes ? " " : "", c->takes ? c->takes : "");
    printf("%-30s %s\n", b.s, c->help);
    cli_buf_free(&b);
}

static int help(asked *a) {
    const char *name = a->arg + (*a->arg == '/');
    const command *one = *name ? find(name) : NULL;
    if (*name && !one) return unknown(name);
    if (one) return tell_command(one), CLI_OK;
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, "exit") != 0) tell_command(&commands[i]);
    return CLI_OK;
}

/* Without blanks around it; to be freed. */
static char *trimmed(const char *s, size_t n) {
    static const char blanks[] = " \t\r\n";
    while (n && strchr(blanks, s[n - 1])) n--;
    while (n && strchr(blanks, *s)) s++, n--;
    return cli_copy(s, n);
}

chat_next chat_command(chat_talk *t, chat_view *v, retrace_text line, int *code) {
    size_t n = 1;
    while (n < line.n && !strchr(" \t\r\n", line.s[n])) n++;
    char *name = cli_copy(line.s + 1, n - 1), *arg = trimmed(line.s + n, line.n - n);
    const command *c = find(name);
    asked a = {.t = t, .v = v, .arg = arg, .next = CHAT_GO_ON};
    if (!c)
        *code = unknown(name);
    else if (*arg && !c->takes)
        *code = cli_fail(CLI_USAGE, "/%s takes nothing, not '%s'", name, arg);
    else
        *code = c->run(&a);
    int flushed = t->failed ? 0 : cli_flush();
    if (flushed) t->failed = flushed;
    free(name);
    free(arg);
    return a.next;
}
