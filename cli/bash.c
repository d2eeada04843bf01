/* bash.c - completion for bash.
 *
 * The script has three tables (commands, the flags of each, what stands behind a flag) and one
 * function that looks things up in them. It needs nothing beside bash. Words are taken from the
 * line itself, because bash splits "--rule phrases:case=fold" at ':' and '='; of a candidate the
 * part that bash takes to be in earlier words is cut off at the end. */
#include "pages.h"

#include <string.h>

static void flag_names(const cli_pages *p, unsigned command) {
    for (int i = 0; i < p->flags.n; i++) {
        const cli_option *o = cli_pages_row(p, i);
        if (!o || !(o->commands & command)) continue;
        if (o->brief) printf(" -%s", o->brief);
        printf(" --%s", o->flag);
    }
}

static void flags_table(const cli_pages *p) {
    puts("_retrace_flags() {\n    case $1 in");
    for (int i = 0; i < p->n; i++) {
        const cli_command *c = &p->commands[i];
        printf("    '%s') echo '-h --help", c->name);
        flag_names(p, c->bit);
        puts("' ;;");
    }
    puts("    esac\n}\n");
}

/* *:--top-k, or generate:--top-k|chat:--top-k where commands differ. */
static void pattern(const cli_pages *p, const cli_option *o) {
    const char *bar = "";
    const char *names[] = {o->flag, o->other, o->brief};
    for (int c = 0; c < p->n; c++) {
        int any = cli_pages_alone(p, o);
        if (!any && !(p->commands[c].bit & o->commands)) continue;
        for (int k = 0; k < 3; k++) {
            if (!names[k]) continue;
            printf("%s%s%s%s:-%s%s", bar, any ? "" : "'", any ? "*" : p->commands[c].name,
                   any ? "" : "'", k < 2 ? "-" : "", names[k]);
            bar = "|";
        }
        if (any) return;
    }
}

static void choices(const char *list) {
    static const char *const blank[] = {" "};
    cli_print_quoted(list, "|", blank);
}

static void value(const cli_option *o) {
    switch (cli_kind_of(o)) {
    case CLI_SWITCH: fputs("switch", stdout); break;
    case CLI_A_TEXT: fputs("text", stdout); break;
    case CLI_A_FILE: fputs("file", stdout); break;
    case CLI_A_FOLDER: fputs("folder", stdout); break;
    case CLI_A_RULE: fputs("rule", stdout); break;
    case CLI_A_DRIVER: fputs("driver", stdout); break;
    case CLI_A_WORD: fputs("words ", stdout), choices(o->choices); break;
    }
}

/* What stands behind a flag: switch, text, file, folder, rule, driver, or words and the words. */
static void values_table(const cli_pages *p) {
    puts("_retrace_value() {\n    case $1:$2 in");
    for (int i = 0; i < p->flags.n; i++) {
        const cli_option *o = cli_pages_row(p, i);
        if (!o) continue;
        fputs("    ", stdout);
        pattern(p, o);
        fputs(") echo '", stdout);
        value(o);
        puts("' ;;");
    }
    puts("    esac\n}\n");
}

static void operands_table(const cli_pages *p) {
    puts("_retrace_operand() {\n    case $1 in");
    for (int i = 0; i < p->n; i++) {
        const cli_command *c = &p->commands[i];
        if (!c->operand || strncmp(c->operand, "USER", 4) == 0) continue;
        printf("    '%s') echo %s ;;\n", c->name,
               strcmp(c->operand, "[NAME]") == 0 ? "name" : "file");
    }
    puts("    esac\n}\n");
}

/* Names of rules; behind a name and ':', its settings, with their choices. */
static void rules_table(const char *function, const char *(*at)(int i, retrace_plugin_info *info)) {
    retrace_plugin_info info;
    printf("%s() {\n    case $1 in\n    '') echo '", function);
    for (int i = 0; at(i, &info); i++) printf("%s%s", i ? " " : "", info.name);
    puts("' ;;");
    for (int i = 0; at(i, &info); i++) {
        printf("    %s) echo '", info.name);
        for (const retrace_setting_info *s = info.settings; s && s->name; s++) {
            const char *list = s->type == RETRACE_BOOL ? "true|false" : s->choices;
            if (s->type != RETRACE_BOOL && s->type != RETRACE_CHOICE) list = NULL;
            printf("%s= ", s->name);
            for (size_t n; list; list = list[n] ? list + n + 1 : NULL) {
                n = strcspn(list, "|");
                printf("%s=%.*s ", s->name, (int)n, list);
            }
        }
        puts("' ;;");
    }
    puts("    esac\n}\n");
}

static void commands_table(const cli_pages *p) {
    fputs("_retrace_commands='", stdout);
    for (int i = 0; i < p->n; i++) {
        const char *name = p->commands[i].name;
        size_t n = strcspn(name, " ");
        int again = i && strncmp(p->commands[i - 1].name, name, n + (name[n] != 0)) == 0;
        if (!again) printf("%s%.*s", i ? " " : "", (int)n, name);
    }
    puts("'\n\n_retrace_second() {\n    case $1 in");
    for (int i = 0; i < p->n; i++) {
        const char *blank = strchr(p->commands[i].name, ' ');
        if (blank)
            printf("    %.*s) echo '%s' ;;&\n", (int)(blank - p->commands[i].name),
                   p->commands[i].name, blank + 1);
    }
    puts("    esac\n}\n");
}

static const char *const script[] = {
    "# Candidates for what is behind a flag or in the place of an operand, one a line.",
    "_retrace_candidates() {",
    "    local kind=$1 typed=$2 name last",
    "    case $kind in",
    "    words\\ *) compgen -W \"${kind#words }\" -- \"$typed\" ;;",
    "    switch) compgen -W 'true false' -- \"$typed\" ;;",
    "    file) compgen -f -- \"$typed\" ;;",
    "    folder) compgen -d -- \"$typed\" ;;",
    "    name) compgen -W \"$(_retrace_rule '') $(_retrace_driver '')\" -- \"$typed\" ;;",
    "    rule | driver)",
    "        name=${typed%%:*}",
    "        if [ \"$name\" = \"$typed\" ]; then",
    "            compgen -W \"$(\"_retrace_$kind\" '')\" -- \"$typed\"",
    "        else",
    "            last=${typed#*:}",
    "            last=${last##*,}",
    "            compgen -P \"${typed%\"$last\"}\" -W \"$(\"_retrace_$kind\" \"$name\")\" -- "
    "\"$last\"",
    "        fi",
    "        ;;",
    "    esac",
    "}",
    "",
    "_retrace() {",
    "    local line=${COMP_LINE:0:COMP_POINT} words word previous command kind= head= cut i",
    "    COMPREPLY=()",
    "    read -r -a words <<<\"$line\"",
    "    case $line in *[[:space:]]) words+=('') ;; esac",
    "    word=${words[${#words[@]} - 1]}",
    "    previous=${words[${#words[@]} - 2]}",
    "    command=${words[1]}",
    "    if [ ${#words[@]} = 2 ]; then",
    "        COMPREPLY=($(compgen -W \"$_retrace_commands --help --version\" -- \"$word\"))",
    "        return",
    "    fi",
    "    if [ -n \"$(_retrace_second \"$command\")\" ]; then",
    "        if [ ${#words[@]} = 3 ]; then",
    "            COMPREPLY=($(compgen -W \"$(_retrace_second \"$command\") --help\" -- "
    "\"$word\"))",
    "            return",
    "        fi",
    "        command+=\" ${words[2]}\"",
    "    fi",
    "    case $word in",
    "    -*=*)",
    "        head=${word%%=*}=",
    "        kind=$(_retrace_value \"$command\" \"${word%%=*}\")",
    "        ;;",
    "    *)",
    "        case $previous in",
    "        -*) kind=$(_retrace_value \"$command\" \"$previous\") ;;",
    "        esac",
    "        if [ -z \"$kind\" ] || [ \"$kind\" = switch ]; then",
    "            kind=$(_retrace_operand \"$command\")",
    "            case $word in -*) kind=\"words $(_retrace_flags \"$command\")\" ;; esac",
    "        fi",
    "        ;;",
    "    esac",
    "    while IFS= read -r i; do",
    "        COMPREPLY+=(\"$head$i\")",
    "    done < <(_retrace_candidates \"$kind\" \"${word#\"$head\"}\")",
    "    case $kind in",
    "    file | folder) compopt -o filenames 2>/dev/null ;;",
    "    rule | driver) compopt -o nospace 2>/dev/null ;;",
    "    esac",
    "    for i in = :; do",
    "        case $COMP_WORDBREAKS in *\"$i\"*) ;; *) continue ;; esac",
    "        case $word in *\"$i\"*) ;; *) continue ;; esac",
    "        cut=${word%\"$i\"*}$i",
    "        COMPREPLY=(\"${COMPREPLY[@]#\"$cut\"}\")",
    "        word=${word#\"$cut\"}",
    "    done",
    "}",
    "complete -F _retrace retrace",
    NULL};

void cli_page_bash(const cli_pages *p) {
    puts("# bash completion for retrace, made by retrace --help=bash.\n");
    commands_table(p);
    flags_table(p);
    values_table(p);
    operands_table(p);
    rules_table("_retrace_rule", cli_pages_rule);
    rules_table("_retrace_driver", cli_pages_driver);
    for (const char *const *s = script; *s; s++) puts(*s);
}
