/* where.c - what flags and environment say of the hub: its address, the token, the cache, the
 * revision; and names like USER/REPO:QUANT.
 *
 * The order of the variables is llama.cpp's and huggingface_hub's, so that one cache serves all
 * three. A variable that is empty counts as not set. The token is a secret: no message holds it. */
#define _POSIX_C_SOURCE 200809L
#include "hub.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKEN_MOST = 4096, NAME_MOST = 96, REVISION_MOST = 255, ENDPOINT_MOST = 1024 };

static const char *variable(const char *name) {
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static char *joined(const char *folder, const char *rest) {
    cli_buf b = {0};
    cli_printf(&b, "%s%s", folder, rest);
    return b.s;
}

/* $HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface; `rest` behind it. */
static char *in_home(const char *rest) {
    const char *home = variable("HF_HOME"), *xdg = variable("XDG_CACHE_HOME");
    if (home) return joined(home, rest);
    cli_buf b = {0};
    if (xdg)
        cli_printf(&b, "%s/huggingface%s", xdg, rest);
    else
        cli_printf(&b, "%s/.cache/huggingface%s", variable("HOME") ? variable("HOME") : "", rest);
    return b.s;
}

/* ==== The cache ==== */

static char *cache_of(const cli_flags *f) {
    static const char *const names[] = {"LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"};
    const char *given = cli_value(f, "hf-cache");
    for (int i = 0; i < 3 && !given; i++) given = variable(names[i]);
    if (!given) return in_home("/hub");
    size_t n = strlen(given);
    while (n > 1 && given[n - 1] == '/') n--;
    return cli_copy(given, n);
}

/* ==== The address ==== */

/* Is the host at s this machine? Behind it come a port and a path at most: what stands before an
 * "@" would be no host. */
static int is_local(const char *s) {
    static const char *const names[] = {"127.0.0.1", "[::1]", "localhost"};
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(s, names[i], n) != 0) continue;
        if (s[n] == ':') n += 1 + strspn(s + n + 1, "0123456789");
        if (!s[n] || strchr("/?#", s[n])) return 1;
    }
    return 0;
}

int hub_is_local(const char *url) {
    return strncasecmp(url, "http://", 7) == 0 && is_local(url + 7);
}

static int is_plain(const char *url) {
    for (const char *c = url; *c; c++)
        if (*c <= ' ' || *c > '~' || strchr("@?#\\\"<>^`{|}", *c)) return 0;
    return 1;
}

/* Behind the host stands no port, or one that there can be. */
static int has_good_port(const char *host) {
    const char *end = host + strcspn(host, "/"), *colon = end;
    while (colon > host && *colon != ':' && *colon != ']') colon--;
    if (*host == '[' && !memchr(host, ']', (size_t)(end - host))) return 0;
    if (*colon != ':') return *colon != ']' || colon + 1 == end;
    size_t digits = strspn(colon + 1, "0123456789");
    long port = digits && digits <= 5 ? strtol(colon + 1, NULL, 10) : 0;
    return colon + 1 + digits == end && port > 0 && port <= 65535;
}

static int endpoint_of(hub_where *w) {
    const char *name = variable("MODEL_ENDPOINT") ? "MODEL_ENDPOINT" : "HF_ENDPOINT";
    const char *v = variable(name);
    if (!v) v = "https://huggingface.co";
    size_t n = strlen(v);
    while (n && v[n - 1] == '/') n--;
    int secure = strncasecmp(v, "https://", 8) == 0, plain = strncasecmp(v, "http://", 7) == 0;
    const char *host = v + (secure ? 8 : plain ? 7 : 0);
    if (n > ENDPOINT_MOST || strchr(v, '@') || !is_plain(v))
        return cli_fail(CLI_USAGE, "%s: what is there is no address of a hub (https://HOST)", name);
    if (host == v || (!isalnum((unsigned char)*host) && *host != '[') || !has_good_port(host))
        return cli_fail(CLI_USAGE, "%s: '%.200s' is no address of a hub (https://HOST)", name, v);
    if (plain && !hub_is_local(v))
        return cli_fail(CLI_USAGE,
                        "%s: '%.200s': a plain http: address is taken for this machine only", name,
                        v);
    w->endpoint = cli_copy(v, n);
    return CLI_OK;
}

/* ==== The token ==== */

static int is_token(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] <= ' ' || s[i] > '~') return 0;
    return n <= TOKEN_MOST;
}

/* Takes it without the blanks around it; nothing but blanks is no token. */
static int take_token(hub_where *w, const char *s, const char *from) {
    size_t n = strlen(s);
    while (n && isspace((unsigned char)*s)) s++, n--;
    while (n && isspace((unsigned char)s[n - 1])) n--;
    if (!is_token(s, n))
        return cli_fail(CLI_USAGE,
                        "%s: what is there cannot be a token (printable ASCII, at most "
                        "%d characters)",
                        from, TOKEN_MOST);
    if (n == 0) return CLI_OK;
    w->token = cli_copy(s, n);
    snprintf(w->token_from, sizeof w->token_from, "%s", from);
    return CLI_OK;
}

/* A file that cannot be opened is none: the hub's own programs leave it out when nobody has logged
 * in. */
static int token_file(hub_where *w, const char *path) {
    char text[TOKEN_MOST + 64];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return CLI_OK;
    ssize_t n = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, text, sizeof text - 1) : -1;
    close(fd);
    if (n < 0) return CLI_OK;
    text[n] = '\0';
    cli_buf from = {0};
    cli_printf(&from, "the file %s", path);
    int code = take_token(w, text, from.s);
    cli_buf_free(&from);
    memset(text, 0, sizeof text);
    return code;
}

static int token_of(hub_where *w, const cli_flags *f) {
    const cli_option *o = cli_option_of(f, "hf-token");
    if (o->n) return take_token(w, cli_value(f, "hf-token"), o->from_env ? o->env : "--hf-token");
    if (variable("HF_TOKEN")) return take_token(w, variable("HF_TOKEN"), "HF_TOKEN");
    if (variable("HF_TOKEN_PATH")) return token_file(w, variable("HF_TOKEN_PATH"));
    char *path = in_home("/token");
    int code = token_file(w, path);
    free(path);
    return code;
}

/* ==== The rest ==== */

/* A branch, tag or commit that can also be a file's name under refs/. */
int hub_is_revision(const char *s) {
    size_t n = strlen(s);
    int part = 0; /* characters of the part between slashes */
    if (n == 0 || n > REVISION_MOST) return 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '/') {
            if (part == 0) return 0;
            part = 0;
        } else if (isalnum((unsigned char)s[i]) || strchr("_-+@=", s[i]) ||
                   (s[i] == '.' && part > 0 && s[i + 1] != '.')) {
            part++;
        } else {
            return 0;
        }
    }
    return part > 0;
}

static int revision_of(hub_where *w, const cli_flags *f) {
    const char *v = cli_value(f, "hf-revision");
    if (!v) v = "main";
    if (!hub_is_revision(v))
        return cli_fail(CLI_USAGE, "--hf-revision: '%s' cannot be a branch, tag or commit", v);
    w->revision = cli_copy(v, strlen(v));
    return CLI_OK;
}

/* As huggingface_hub reads it. */
static int says_yes(const char *v) {
    static const char *const words[] = {"1", "on", "yes", "true"};
    for (int i = 0; v && i < 4; i++)
        if (strcasecmp(v, words[i]) == 0) return 1;
    return 0;
}

static int seconds_of(const char *name, double *out) {
    const char *v = variable(name);
    *out = 10;
    if (!v) return CLI_OK;
    if (cli_parse_real(v, out) && *out > 0 && *out <= 86400) return CLI_OK;
    return cli_fail(CLI_USAGE, "%s: '%s' is no number of seconds", name, v);
}

int hub_where_of(hub_where *w, const cli_flags *f) {
    *w = (hub_where){.cache = cache_of(f)};
    if (f->command & CLI_MODELS) return CLI_OK;
    w->offline = cli_on(f, "offline") ||
                 (cli_option_of(f, "offline")->n == 0 && says_yes(variable("HF_HUB_OFFLINE")));
    int code = endpoint_of(w);
    if (!code) code = revision_of(w, f);
    if (!code) code = token_of(w, f);
    if (!code) code = seconds_of("HF_HUB_DOWNLOAD_TIMEOUT", &w->stall_s);
    if (!code) code = seconds_of("HF_HUB_ETAG_TIMEOUT", &w->head_s);
    if (code) hub_where_free(w);
    return code;
}

void hub_where_free(hub_where *w) {
    if (w->token) memset(w->token, 0, strlen(w->token));
    free(w->endpoint);
    free(w->token);
    free(w->cache);
    free(w->revision);
    *w = (hub_where){0};
}

/* ==== Names ==== */

/* USER or REPO: letters, digits and "_", with "." and "-" between them, but no ".." and no "--",
 * which is what separates the two in names of folders. */
static size_t part_of(const char *s) {
    size_t n = 0;
    for (; isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '.' || s[n] == '-'; n++) {
        int mark = s[n] == '.' || s[n] == '-';
        if (mark && (n == 0 || s[n] == s[n - 1])) return 0;
        if (n >= NAME_MOST) return 0;
    }
    if (n && (s[n - 1] == '.' || s[n - 1] == '-')) return 0;
    return n;
}

/* The length of USER/REPO at the start of s; 0: there is none. */
static size_t repo_of(const char *s) {
    size_t user = part_of(s);
    if (user == 0 || s[user] != '/') return 0;
    size_t repo = part_of(s + user + 1);
    return repo ? user + 1 + repo : 0;
}

int hub_is_repo(const char *s) {
    size_t n = repo_of(s);
    return n && !s[n];
}

static int is_quant(const char *s) {
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    return n > 0 && n <= 200 && !s[n] && isalnum((unsigned char)s[0]);
}

int hub_is_name(const char *text) {
    size_t n = repo_of(text);
    return n && (!text[n] || (text[n] == ':' && is_quant(text + n + 1)));
}

int hub_name_parse(hub_name *n, const char *text, const char *spelled) {
    *n = (hub_name){0};
    if (!hub_is_name(text))
        return cli_fail(CLI_USAGE, "%s: '%.300s' is not USER/REPO[:QUANT]", spelled, text);
    size_t repo = repo_of(text);
    n->repo = cli_copy(text, repo);
    if (text[repo]) n->quant = cli_copy(text + repo + 1, strlen(text + repo + 1));
    return CLI_OK;
}

void hub_name_free(hub_name *n) {
    free(n->repo);
    free(n->quant);
    *n = (hub_name){0};
}
