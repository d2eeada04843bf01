/* engine.c - the model that the flags ask for.
 *
 * Flags of another back end do not stop a command: one that cannot matter to this model is named in
 * a warning, and a variable of the environment is passed over. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char installed[] = "retrace/models/SmolLM2-135M-Instruct.Q4_1.gguf";

static char *installed_path(void) {
    cli_buf b = {0};
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/')
        cli_printf(&b, "%s/%s", cache, installed);
    else
        cli_printf(&b, "%s/.cache/%s", home ? home : "", installed);
    return b.s;
}

char *cli_model_installed(void) {
    char *path = installed_path();
    if (access(path, R_OK) == 0) return path;
    free(path);
    return NULL;
}

/* Of -m and -hf the one that the command line says wins over a variable; both there are too many.
 */
static int model_or_name(const cli_flags *f, const char **model, const char **name) {
    const cli_option *m = cli_option_of(f, "model"), *hf = cli_option_of(f, "hf-repo");
    const cli_option *file = cli_option_of(f, "hf-file");
    int use_m = m->n > 0, use_hf = hf->n > 0;
    if (use_m && use_hf && m->from_env != hf->from_env) {
        use_m = !m->from_env;
        use_hf = !hf->from_env;
    }
    if (use_m && use_hf) return cli_fail(CLI_USAGE, "--model and --hf-repo exclude each other");
    if (!use_hf && file->n && !file->from_env)
        return cli_fail(CLI_USAGE, "--hf-file needs --hf-repo");
    *model = use_m ? cli_value(f, "model") : NULL;
    *name = use_hf ? cli_value(f, "hf-repo") : NULL;
    return CLI_OK;
}

int cli_model_uri(const cli_flags *f, char **uri) {
    const char *given = NULL, *name = NULL;
    *uri = NULL;
    int code = model_or_name(f, &given, &name);
    if (code) return code;
    if (name) return hub_model(f, name, uri);
    if (given) return *uri = cli_copy(given, strlen(given)), CLI_OK;
    *uri = installed_path();
    if (access(*uri, R_OK) == 0) return CLI_OK;
    cli_fail(CLI_IO, "no model is installed: there is no '%s'", *uri);
    cli_fail(CLI_IO, "'make demo' installs it; or give --model FILE.gguf, or set RETRACE_MODEL");
    free(*uri);
    *uri = NULL;
    return CLI_IO;
}

static int ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* The length of a URI's scheme; 0: it has none. */
static size_t scheme_of(const char *uri) {
    size_t n = strspn(uri, "abcdefghijklmnopqrstuvwxyz");
    return n > 1 && uri[n] == ':' ? n : 0;
}

int cli_model_backend(const char *uri, retrace_plugin_info *p) {
    size_t n = scheme_of(uri);
    int scheme = n > 0;
    const char *plain = ends_with(uri, ".json") ? "table" : "llama";
    for (int i = 0; retrace_backend_at(i, p); i++) {
        if (scheme ? strlen(p->name) == n && strncmp(p->name, uri, n) == 0
                   : strcmp(p->name, plain) == 0)
            return 1;
    }
    return 0;
}

int cli_model_is_file(const char *s) {
    retrace_plugin_info p;
    if (scheme_of(s) && cli_model_backend(s, &p)) return 1;
    if ((ends_with(s, ".gguf") || ends_with(s, ".json")) && strlen(s) > 5) return 1;
    if (*s == '/' || *s == '~' || strncmp(s, "./", 2) == 0 || strncmp(s, "../", 3) == 0) return 1;
    return access(s, R_OK) == 0;
}

static int has(const retrace_setting_info *s, const char *name) {
    for (; s && s->name; s++)
        if (strcmp(s->name, name) == 0) return 1;
    return 0;
}

json_t *cli_model_settings(const cli_flags *f, const char *uri) {
    retrace_plugin_info p;
    json_t *settings = json_object();
    int known = cli_model_backend(uri, &p);
    for (int i = 0; i < f->n; i++) {
        const cli_option *o = &f->v[i];
        if (o->part != CLI_ENGINE || o->n == 0) continue;
        if (!known || has(p.settings, o->setting) || has(retrace_model_infos(), o->setting))
            json_object_set_new(settings, o->setting, cli_typed(o->type, o->given[o->n - 1]));
        else if (!o->from_env)
            cli_say("retrace: warning: --%s means nothing to a %s model", o->flag, p.name);
    }
    return settings;
}

void cli_model_prefer(json_t *settings, const char *uri, const char *name, const char *value) {
    retrace_plugin_info p;
    if (!cli_model_backend(uri, &p) || !has(p.settings, name)) return;
    if (!json_object_get(settings, name)) json_object_set_new(settings, name, json_string(value));
}

int cli_model_open(retrace_model **m, const char *uri, json_t *settings) {
    retrace_error err;
    cli_settings l = cli_settings_of(settings);
    const char *slash = strrchr(uri, '/');
    cli_progress("loading %s ...", slash ? slash + 1 : uri);
    int rc = retrace_model_open(m, uri, l.v, l.n, &err);
    cli_progress_end();
    cli_settings_free(&l);
    return rc ? cli_report_open(&err) : CLI_OK;
}

int cli_model_of(const cli_flags *f, retrace_model **m) {
    char *uri;
    int code = cli_model_uri(f, &uri);
    if (code) return code;
    json_t *settings = cli_model_settings(f, uri);
    code = cli_model_open(m, uri, settings);
    json_decref(settings);
    free(uri);
    return code;
}

int cli_model_tokens(const cli_flags *f, const retrace_model *m, retrace_text text,
                     retrace_token **out, int *n) {
    retrace_error err;
    int flags = RETRACE_TOKENIZE_BOS | (cli_on(f, "no-special") ? 0 : RETRACE_TOKENIZE_SPECIAL);
    return retrace_tokenize(m, text, flags, out, n, &err) ? cli_report(&err, NULL) : CLI_OK;
}
