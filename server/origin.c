/* origin.c - whom a browser may be asking for: the Host, Origin and Sec-Fetch-Site headers.
 *
 * A page of any site can make a browser send requests here, and a name of its owner's can be made
 * to mean 127.0.0.1. So the Host must be a name that is known to mean this server, and an Origin
 * this server itself or one that was allowed. */
#include "server.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int same(const char *a, size_t n, const char *b) {
    return strlen(b) == n && strncasecmp(a, b, n) == 0;
}

/* Where the name in "name:port" or "[::1]:port" ends. */
static size_t name_length(const char *host) {
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    if (end) return (size_t)(end + 1 - host);
    return strcspn(host, ":");
}

/* Nothing, or ":" and our port. */
static int port_fits(const char *s, int port) {
    char ours[16];
    snprintf(ours, sizeof ours, ":%d", port);
    return !*s || strcmp(s, ours) == 0;
}

static int is_address(const char *name, size_t n) {
    char text[64];
    unsigned char address[16];
    int six = n > 2 && name[0] == '[';
    if (n >= sizeof text) return 0;
    snprintf(text, sizeof text, "%.*s", (int)n - 2 * six, name + six);
    return inet_pton(six ? AF_INET6 : AF_INET, text, address) == 1;
}

/* --host as it stands in a Host header. */
static int is_own(const char *name, size_t n, const char *host) {
    if (same(name, n, host)) return 1;
    return n > 2 && name[0] == '[' && same(name + 1, n - 2, host);
}

/* An address in figures can not be made to mean another machine, so where every address is listened
 * on each may stand there. */
static int own_name(const srv_config *c, const char *name, size_t n) {
    static const char *const loopback[] = {"127.0.0.1", "localhost", "[::1]"};
    for (int i = 0; i < 3; i++)
        if (same(name, n, loopback[i])) return 1;
    int all = strcmp(c->host, "0.0.0.0") == 0 || strcmp(c->host, "::") == 0;
    return is_own(name, n, c->host) || (all && is_address(name, n));
}

static int host_allowed(const srv_config *c, int port, const char *host) {
    size_t n = name_length(host);
    for (int i = 0; i < c->n_hosts; i++) {
        if (same(host, strlen(host), c->hosts[i].s)) return 1;
        if (same(host, n, c->hosts[i].s) && port_fits(host + n, port)) return 1;
    }
    return n > 0 && own_name(c, host, n) && port_fits(host + n, port);
}

/* The Host has been allowed by then. */
static int same_origin(const char *origin, const char *host) {
    const char *rest = strstr(origin, "://");
    size_t scheme = rest ? (size_t)(rest - origin) : 0;
    if (!same(origin, scheme, "http") && !same(origin, scheme, "https")) return 0;
    return strcasecmp(rest + 3, host) == 0;
}

static const char *origin_allowed(const srv_config *c, const char *origin) {
    for (int i = 0; i < c->n_origins; i++) {
        if (strcmp(c->origins[i].s, "*") == 0) return "*";
        if (strcasecmp(c->origins[i].s, origin) == 0) return c->origins[i].s;
    }
    return NULL;
}

int srv_origin_check(const srv_config *c, int port, const char *host, const char *origin,
                     const char *fetch_site, const char **cors, srv_error *e) {
    *cors = NULL;
    if (host && !host_allowed(c, port, host))
        return srv_fail(e, 403, "host_not_allowed", "Host",
                        "the Host header names another server; --allow-host allows names");
    if (origin) *cors = origin_allowed(c, origin);
    if (*cors) return 0;
    if (origin && !(host && same_origin(origin, host)))
        return srv_fail(e, 403, "origin_not_allowed", "Origin",
                        "pages of this origin may not ask; --cors-origin allows origins");
    if (fetch_site && strcasecmp(fetch_site, "cross-site") == 0)
        return srv_fail(e, 403, "origin_not_allowed", "Sec-Fetch-Site",
                        "pages of other sites may not ask; --cors-origin allows origins");
    return 0;
}
