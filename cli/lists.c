/* lists.c - ban lists by name: which file `list=NAME` means.
 *
 * A name that --ban-list NAME=FILE has given wins. Any other is NAME.txt in the folder of lists:
 * $RETRACE_LISTS, else retrace/lists in $XDG_CONFIG_HOME, else in ~/.config. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

int cli_list_is_name(const char *s, size_t n) {
    static const char more[] = "-_.";
    for (size_t i = 0; i < n; i++) {
        int letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z');
        int digit = s[i] >= '0' && s[i] <= '9';
        if (!letter && !digit && !(s[i] && strchr(more, s[i]))) return 0;
    }
    return n > 0;
}

int cli_lists_check(const cli_flags *f) {
    const cli_option *o = cli_option_of(f, "ban-list");
    for (int i = 0; i < o->n; i++) {
        const char *given = o->given[i].s, *eq = strchr(given, '=');
        if (!eq || !eq[1]) return cli_fail(CLI_USAGE, "--ban-list: '%s' is not NAME=FILE", given);
        if (!cli_list_is_name(given, (size_t)(eq - given)))
            return cli_fail(CLI_USAGE, "--ban-list: '%.*s' is no name (letters, digits, - _ .)",
                            (int)(eq - given), given);
    }
    return CLI_OK;
}

/* The last file that was given this name, or NULL. */
static const char *given_file(const cli_flags *f, const char *name) {
    const cli_option *o = cli_option_of(f, "ban-list");
    size_t n = strlen(name);
    for (int i = o->n - 1; i >= 0; i--) {
        const char *s = o->given[i].s;
        if (strncmp(s, name, n) == 0 && s[n] == '=') return s + n + 1;
    }
    return NULL;
}

static const char *set(const char *variable) {
    const char *v = getenv(variable);
    return v && *v ? v : NULL;
}

void cli_lists_folder(cli_buf *b) {
    const char *own = set("RETRACE_LISTS"), *config = set("XDG_CONFIG_HOME"), *home = set("HOME");
    if (own)
        cli_puts(b, own);
    else if (config)
        cli_printf(b, "%s/retrace/lists", config);
    else if (home)
        cli_printf(b, "%s/.config/retrace/lists", home);
}

int cli_list_file(const cli_flags *f, const char *name, const char *spelled, cli_buf *path) {
    if (!cli_list_is_name(name, strlen(name)))
        return cli_fail(CLI_USAGE, "%s: '%s' is no name of a list (letters, digits, - _ .)",
                        spelled, name);
    const char *file = given_file(f, name);
    if (file) {
        cli_puts(path, file);
        return CLI_OK;
    }
    cli_lists_folder(path);
    if (path->n == 0)
        return cli_fail(CLI_IO,
                        "%s: no folder of lists: set RETRACE_LISTS, or give --ban-list %s=FILE",
                        spelled, name);
    cli_printf(path, "/%s.txt", name);
    return CLI_OK;
}

/* Has a rule been given the list of --ban-list `given`? The files say "--rule phrases:list=NAME".
 */
static int is_used(json_t *files, const char *given) {
    size_t n = strcspn(given, "="), i, k;
    json_t *file, *name;
    json_array_foreach(files, i, file) {
        json_array_foreach(json_object_get(file, "list"), k, name) {
            const char *used = strchr(json_string_value(name), '=') + 1;
            if (strlen(used) == n && memcmp(used, given, n) == 0) return 1;
        }
    }
    return 0;
}

void cli_lists_warn(const cli_flags *f, json_t *files) {
    const cli_option *o = cli_option_of(f, "ban-list");
    for (int i = 0; i < o->n && !o->from_env; i++)
        if (!is_used(files, o->given[i].s))
            cli_say("retrace: warning: --ban-list %s: no rule has list=%.*s", o->given[i].s,
                    (int)strcspn(o->given[i].s, "="), o->given[i].s);
}
