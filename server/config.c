/* config.c - the flags of `serve`, and what they must not be. */
#define _POSIX_C_SOURCE 200809L
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEY_FILE_MAX = 1 << 20 };

/* ==== Keys ==== */

static int add_key(srv_config *c, const char *key, size_t n, const char *where) {
    for (size_t i = 0; i < n; i++)
        if (key[i] <= ' ' || key[i] > '~')
            return cli_fail(CLI_USAGE, "%s: a key has a character that no header can carry", where);
    c->keys = cli_realloc(c->keys, (size_t)(c->n_keys + 1) * sizeof *c->keys);
    srv_digest(key, n, c->keys[c->n_keys++]);
    return CLI_OK;
}

/* A file of secrets that every user of the machine may read is none. */
static int check_private(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0)
        return cli_fail(CLI_IO, "--api-key-file: %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH)) return CLI_OK;
    return cli_fail(CLI_USAGE, "--api-key-file: every user can read %s: chmod o-r it", path);
}

static int read_keys(srv_config *c, const char *path) {
    cli_buf text = {0};
    int code = check_private(path), before = c->n_keys;
    if (!code) code = cli_read_file(path, KEY_FILE_MAX, &text);
    for (size_t at = 0; !code && at < text.n;) {
        const char *s = text.s + at;
        size_t n = 0;
        while (at + n < text.n && s[n] != '\r' && s[n] != '\n') n++;
        if (n) code = add_key(c, s, n, "--api-key-file");
        at += n + 1;
    }
    if (!code && c->n_keys == before)
        code = cli_fail(CLI_USAGE, "--api-key-file: %s holds no key", path);
    cli_buf_free(&text);
    return code;
}

static int all_keys(srv_config *c) {
    const cli_option *o = cli_option_of(c->flags, "api-key");
    const char *file = cli_value(c->flags, "api-key-file");
    int code = CLI_OK;
    for (int i = 0; i < o->n && !code; i++)
        code = add_key(c, o->given[i].s, o->given[i].n, "--api-key");
    return code || !file ? code : read_keys(c, file);
}

/* ==== Where to listen ==== */

static int is_loopback(const char *host) {
    struct in_addr four;
    struct in6_addr six;
    if (strcmp(host, "localhost") == 0) return 1;
    if (inet_pton(AF_INET, host, &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

/* "[::1]" is "::1": so it is written in a URL. */
static const char *bare_host(srv_config *c, const char *host) {
    size_t n = strlen(host);
    if (n < 3 || n > sizeof c->bare || host[0] != '[' || host[n - 1] != ']') return host;
    snprintf(c->bare, sizeof c->bare, "%.*s", (int)n - 2, host + 1);
    return strchr(c->bare, ':') ? c->bare : host;
}

static int check_access(const srv_config *c) {
    if (c->n_keys || is_loopback(c->host)) return CLI_OK;
    return cli_fail(CLI_USAGE, "--host %s: others can reach it, so --api-key is needed", c->host);
}

/* "*", "null" or SCHEME://HOST[:PORT]. */
static int check_origins(const srv_config *c) {
    for (int i = 0; i < c->n_origins; i++) {
        const char *s = c->origins[i].s, *rest = strstr(s, "://");
        if (strcmp(s, "*") == 0 || strcmp(s, "null") == 0) continue;
        if (!rest || rest == s || !rest[3] || rest[3 + strcspn(rest + 3, "/ ,")])
            return cli_fail(CLI_USAGE, "--cors-origin: '%s' is not SCHEME://HOST[:PORT], null or *",
                            s);
    }
    return CLI_OK;
}

/* What a Host header can have: neither a URL nor nothing. */
static int check_hosts(const srv_config *c) {
    for (int i = 0; i < c->n_hosts; i++) {
        const char *s = c->hosts[i].s;
        if (!*s || s[strcspn(s, "/@?#, \t")])
            return cli_fail(CLI_USAGE, "--allow-host: '%s' is not NAME or NAME:PORT", s);
    }
    return CLI_OK;
}

/* ==== The sampling of requests that say nothing ==== */

static int read_preset(srv_config *c) {
    retrace_error err;
    retrace_options_default(&c->preset);
    for (int i = 0; i < c->flags->n; i++) {
        const cli_option *o = &c->flags->v[i];
        if (o->part != CLI_RUN || !(o->commands & CLI_SERVE)) continue;
        const char *v = o->n ? o->given[o->n - 1].s : o->preset;
        if (!v) continue;
        retrace_setting s = {o->setting, {v, strlen(v)}};
        if (retrace_options_set(&c->preset, s, &err)) return cli_report(&err, NULL);
    }
    return CLI_OK;
}

static void take_texts(const cli_flags *f, const char *flag, const retrace_text **v, int *n) {
    const cli_option *o = cli_option_of(f, flag);
    *v = o->given;
    *n = o->n;
}

int srv_config_read(srv_config *c, const cli_flags *f) {
    const char *host = cli_value(f, "host");
    *c = (srv_config){.flags = f};
    c->host = host ? bare_host(c, host) : "127.0.0.1";
    c->port = (int)cli_real(f, "port");
    c->parallel = (int)cli_real(f, "parallel");
    c->queue = (int64_t)cli_real(f, "queue");
    c->queue_s = cli_real(f, "queue-timeout");
    c->request_s = cli_real(f, "request-timeout");
    c->max_body = (int64_t)cli_real(f, "max-body-mib") * 1024 * 1024;
    c->keep_runs = (int64_t)cli_real(f, "keep-runs");
    c->keep_s = cli_real(f, "keep-seconds");
    c->table = cli_value(f, "table");
    c->access_log = cli_value(f, "access-log");
    take_texts(f, "cors-origin", &c->origins, &c->n_origins);
    take_texts(f, "allow-host", &c->hosts, &c->n_hosts);
    if (!*c->host) return cli_fail(CLI_USAGE, "--host: empty");
    int code = all_keys(c);
    if (!code) code = check_access(c);
    if (!code) code = check_origins(c);
    if (!code) code = check_hosts(c);
    return code ? code : read_preset(c);
}

void srv_config_free(srv_config *c) {
    free(c->keys);
    *c = (srv_config){0};
}
