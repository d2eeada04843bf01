/* server_load.c - the clients of bench/server_run: many requests from one thread, with the time of
 * everything that comes back.
 *
 * Reads a plan from standard input, carries it out against 127.0.0.1 and prints what happened, both
 * one JSON object. The plan: "port"; "timeout_s"; "idle" connections that are opened first, make
 * one request each and then only stay; "probe_ms": GET /health so often while requests are open;
 * "requests": [{"path", "body" (a text), "at": seconds after the start, "after": N}], the last one:
 * not before each request above it has had N events.
 * The answer: "seconds", "cpu_s" (of this program), "idle_open" (at the end), "probes" (ms; one
 * that comes late stands for all that were due meanwhile), "probe_errors" and "requests":
 * [{"status", "sent", "first" (byte of the body), "done", "events": times at which a blank line
 * ended a server-sent event, "body", "error": null or what went wrong}]. Times are seconds.
 *
 * Written in C because it shares the machine with the server it measures. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 1 << 16, MOST_HEAD = 1 << 14, MOST_PROBES = 1 << 20 };

typedef struct bytes {
    char *s;
    size_t n, cap;
} bytes;

/* What of a chunked body comes next. */
typedef enum part { SIZE, DATA, DATA_END, TRAILER } part;

typedef struct conn {
    int fd; /* -1: none */
    int status, in_body, chunked, over;
    int last; /* the server closes the connection after this answer */
    part part;
    long long left; /* bytes of the body or chunk to come; -1: as many as there are */
    bytes line;     /* the head; then a line between chunks */
    bytes body;
    double sent, first, done;
    double *events;
    size_t n_events, cap_events;
    char newest; /* byte of the body */
    const char *error;
    double at; /* of the plan, so the next */
    int after; /* -1: not asked for */
    const char *path, *text;
} conn;

typedef struct load {
    int port, poll, n, n_idle, n_open, n_unsent;
    conn *conns, *idle, probe;
    double start, timeout, probe_s, probe_due;
    int probe_busy, n_probes, probe_errors;
    double *probes;
} load;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    fprintf(stderr, "server_load: %s\n", what);
    exit(1);
}

static void *more_memory(void *old, size_t n, size_t size) {
    void *p = reallocarray(old, n ? n : 1, size);
    if (!p) die("out of memory");
    return p;
}

static void add(bytes *b, const char *s, size_t n) {
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n);
        b->s = more_memory(b->s, b->cap, 1);
    }
    memcpy(b->s + b->n, s, n);
    b->n += n;
}

/* ==== What comes back ==== */

static void body_bytes(conn *c, const char *s, size_t n, double t) {
    if (n > 0 && c->body.n == 0) c->first = t;
    add(&c->body, s, n);
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\n' && c->newest == '\n') {
            if (c->n_events == c->cap_events) {
                c->cap_events = 2 * c->cap_events + 64;
                c->events = more_memory(c->events, c->cap_events, sizeof *c->events);
            }
            c->events[c->n_events++] = t;
        }
        c->newest = s[i];
    }
}

/* The value of a header in a head that ends with NUL, or NULL. */
static const char *header(const char *head, const char *name) {
    size_t n = strlen(name);
    for (const char *p = strstr(head, "\r\n"); p; p = strstr(p, "\r\n")) {
        p += 2;
        if (strncasecmp(p, name, n) == 0 && p[n] == ':') return p + n + 1 + strspn(p + n + 1, " ");
    }
    return NULL;
}

static void head_done(conn *c) {
    add(&c->line, "", 1);
    const char *length = header(c->line.s, "content-length");
    const char *coding = header(c->line.s, "transfer-encoding");
    const char *after = header(c->line.s, "connection");
    if (sscanf(c->line.s, "HTTP/1.1 %d", &c->status) != 1) c->error = "no HTTP/1.1 answer";
    c->chunked = coding && strncasecmp(coding, "chunked", 7) == 0;
    c->left = c->chunked ? 0 : length ? strtoll(length, NULL, 10) : -1;
    c->last = after && strncasecmp(after, "close", 5) == 0;
    c->in_body = 1;
    c->part = SIZE;
    c->line.n = 0;
    c->over = c->error || (!c->chunked && c->left == 0);
}

/* A whole line between chunks is there: their size, the end of one, or a trailer. */
static void chunk_line(conn *c) {
    char *end = c->line.s;
    int empty = c->line.n <= 2;
    add(&c->line, "", 1);
    if (c->part == SIZE) {
        c->left = strtoll(c->line.s, &end, 16);
        if (end == c->line.s || c->left < 0) c->error = "a chunk without a size";
        c->part = c->left ? DATA : TRAILER;
    } else if (c->part == DATA_END) {
        c->part = SIZE;
    } else if (empty) {
        c->over = 1;
    }
    c->over |= c->error != NULL;
    c->line.n = 0;
}

/* Takes some bytes, at least one, and says how many. */
static size_t take(conn *c, const char *s, size_t n, double t) {
    if (c->in_body && (!c->chunked || c->part == DATA)) {
        if (c->left >= 0 && (size_t)c->left < n) n = (size_t)c->left;
        body_bytes(c, s, n, t);
        if (c->left >= 0) c->left -= (long long)n;
        if (c->left == 0 && c->chunked) c->part = DATA_END;
        c->over = c->left == 0 && !c->chunked;
        return n;
    }
    add(&c->line, s, 1);
    if (c->line.n > MOST_HEAD) {
        c->error = "a head without an end";
        c->over = 1;
    } else if (*s == '\n' && c->in_body) {
        chunk_line(c);
    } else if (c->line.n >= 4 && memcmp(c->line.s + c->line.n - 4, "\r\n\r\n", 4) == 0) {
        head_done(c);
    }
    return 1;
}

/* 1: the answer is complete or will never be. */
static int receive(conn *c) {
    char block[BLOCK];
    ssize_t n = recv(c->fd, block, sizeof block, MSG_DONTWAIT);
    double t = now();
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n <= 0) {
        if (!(n == 0 && c->in_body && c->left < 0)) c->error = "closed before the end";
        c->over = 1;
    }
    for (ssize_t i = 0; i < n && !c->over;) i += (ssize_t)take(c, block + i, (size_t)(n - i), t);
    if (c->over) c->done = t;
    return c->over;
}

/* ==== What is sent ==== */

static int dial(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) die("no socket: too many open files?");
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&a, sizeof a)) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void send_all(conn *c, const char *s, size_t n) {
    while (n > 0) {
        ssize_t m = send(c->fd, s, n, MSG_NOSIGNAL);
        if (m <= 0) {
            c->error = "could not be sent";
            return;
        }
        s += m;
        n -= (size_t)m;
    }
}

/* Makes a connection ready for another answer. */
static void begin(conn *c) {
    c->status = c->in_body = c->over = 0;
    c->line.n = c->body.n = c->n_events = 0;
    c->newest = 0;
    c->error = NULL;
    c->sent = now();
}

static void ask(load *l, conn *c) {
    bytes all = {0};
    char head[512];
    size_t n = c->text ? strlen(c->text) : 0;
    int len = c->text ? snprintf(head, sizeof head,
                                 "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                                 "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                                 c->path, l->port, n)
                      : snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n",
                                 c->path, l->port);
    if (len < 0 || (size_t)len >= sizeof head) die("a path is too long");
    begin(c);
    if (c->fd < 0) c->fd = dial(l->port);
    if (c->fd < 0) {
        c->error = "no connection";
        return;
    }
    add(&all, head, (size_t)len);
    if (n) add(&all, c->text, n);
    send_all(c, all.s, all.n);
    free(all.s);
}

static void watch(load *l, conn *c) {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(l->poll, EPOLL_CTL_ADD, c->fd, &e)) die("a connection cannot be watched");
}

static void hang_up(conn *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

/* One after the other, so that none waits to be accepted. */
static void open_idle(load *l) {
    l->idle = more_memory(NULL, (size_t)l->n_idle, sizeof *l->idle);
    for (int i = 0; i < l->n_idle; i++) {
        l->idle[i] = (conn){.fd = -1, .path = "/health"};
        conn *c = &l->idle[i];
        ask(l, c);
        while (!c->error && !c->over) {
            struct timeval limit = {10, 0};
            char peek;
            setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
            if (recv(c->fd, &peek, 1, MSG_PEEK) <= 0)
                c->error = "no answer";
            else
                receive(c);
        }
        if (c->error || c->status != 200) die("an idle connection got no answer");
    }
}

static int still_open(const load *l) {
    int n = 0;
    char peek;
    for (int i = 0; i < l->n_idle; i++)
        n += recv(l->idle[i].fd, &peek, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
    return n;
}

/* ==== The run ==== */

static int due(const load *l, int i, double t) {
    const conn *c = &l->conns[i];
    if (t < l->start + c->at) return 0;
    for (int k = 0; k < i && c->after >= 0; k++)
        if (!l->conns[k].over && l->conns[k].n_events < (size_t)c->after) return 0;
    return 1;
}

static void finish(load *l, conn *c) {
    if (c->error) c->done = now();
    c->over = 1;
    hang_up(c);
    l->n_open--;
}

static void send_due(load *l, double t) {
    for (int i = 0; i < l->n && l->n_unsent > 0; i++) {
        conn *c = &l->conns[i];
        if (c->sent > 0 || !due(l, i, t)) continue;
        ask(l, c);
        l->n_unsent--;
        l->n_open++;
        if (c->error)
            finish(l, c);
        else
            watch(l, c);
    }
}

/* The answer's delay, and those of the probes that it kept from being sent. */
static void note_probe(load *l) {
    double wait = l->probe.done - l->probe.sent;
    if (l->probe.error || l->probe.status != 200) {
        fprintf(stderr, "server_load: /health: status %d%s%s\n", l->probe.status,
                l->probe.error ? ", " : "", l->probe.error ? l->probe.error : "");
        l->probe_errors++;
    }
    for (; wait > 0 && l->n_probes < MOST_PROBES; wait -= l->probe_s)
        l->probes[l->n_probes++] = 1000 * wait;
    l->probe_busy = 0;
    if (l->probe.error || l->probe.last) hang_up(&l->probe);
}

static void send_probe(load *l, double t) {
    if (l->probe_s <= 0 || l->probe_busy || t < l->probe_due) return;
    int fresh = l->probe.fd < 0;
    ask(l, &l->probe);
    l->probe_due = l->probe.sent + l->probe_s;
    l->probe_busy = 1;
    if (l->probe.error) {
        l->probe.done = now();
        note_probe(l);
    } else if (fresh) {
        watch(l, &l->probe);
    }
}

/* Milliseconds until something has to be sent; while a request waits for events, those come by
 * themselves. */
static int pause_ms(const load *l, double t) {
    double until = t + 1;
    for (int i = 0; i < l->n && l->n_unsent > 0; i++) {
        const conn *c = &l->conns[i];
        double at = l->start + c->at;
        if (c->sent == 0 && at > t && at < until) until = at;
    }
    if (l->probe_s > 0 && !l->probe_busy && l->probe_due < until) until = l->probe_due;
    return until > t ? (int)(1000 * (until - t)) + 1 : 0;
}

static void give_up(load *l) {
    for (int i = 0; i < l->n; i++) {
        if (l->conns[i].over) continue;
        l->conns[i].error = "not done in time";
        l->conns[i].done = now();
        hang_up(&l->conns[i]);
    }
    l->n_open = l->n_unsent = 0;
}

static void go(load *l) {
    struct epoll_event found[256];
    l->start = l->probe_due = now();
    while (l->n_open > 0 || l->n_unsent > 0) {
        double t = now();
        if (t > l->start + l->timeout) give_up(l);
        send_due(l, t);
        send_probe(l, t);
        int n = epoll_wait(l->poll, found, 256, pause_ms(l, now()));
        for (int i = 0; i < n; i++) {
            conn *c = found[i].data.ptr;
            if (c->fd < 0 || !receive(c)) continue;
            if (c == &l->probe)
                note_probe(l);
            else
                finish(l, c);
        }
    }
}

/* ==== In and out ==== */

static void read_requests(load *l, json_t *list) {
    l->n = l->n_unsent = (int)json_array_size(list);
    l->conns = more_memory(NULL, (size_t)l->n, sizeof *l->conns);
    for (int i = 0; i < l->n; i++) {
        json_t *r = json_array_get(list, (size_t)i), *after = json_object_get(r, "after");
        conn c = {.fd = -1, .after = after ? (int)json_integer_value(after) : -1};
        c.path = json_string_value(json_object_get(r, "path"));
        c.text = json_string_value(json_object_get(r, "body"));
        c.at = json_number_value(json_object_get(r, "at"));
        if (!c.path) die("a request without a path");
        l->conns[i] = c;
    }
}

static json_t *times(const load *l, const conn *c) {
    json_t *list = json_array();
    for (size_t i = 0; i < c->n_events; i++)
        json_array_append_new(list, json_real(c->events[i] - l->start));
    return list;
}

static json_t *told(const load *l) {
    json_t *list = json_array();
    for (int i = 0; i < l->n; i++) {
        const conn *c = &l->conns[i];
        json_t *o = json_object(), *body = json_stringn(c->body.n ? c->body.s : "", c->body.n);
        json_object_set_new(o, "status", json_integer(c->status));
        json_object_set_new(o, "sent", json_real(c->sent - l->start));
        json_object_set_new(o, "first", json_real(c->first - l->start));
        json_object_set_new(o, "done", json_real(c->done - l->start));
        json_object_set_new(o, "events", times(l, c));
        json_object_set_new(o, "error",
                            c->error ? json_string(c->error)
                            : body   ? json_null()
                                     : json_string("not UTF-8"));
        json_object_set_new(o, "body", body ? body : json_null());
        json_array_append_new(list, o);
    }
    return list;
}

static double cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void print_all(load *l, double seconds, double cpu_s) {
    json_t *o = json_object(), *probes = json_array();
    for (int i = 0; i < l->n_probes; i++) json_array_append_new(probes, json_real(l->probes[i]));
    json_object_set_new(o, "seconds", json_real(seconds));
    json_object_set_new(o, "cpu_s", json_real(cpu_s));
    json_object_set_new(o, "idle_open", json_integer(still_open(l)));
    json_object_set_new(o, "probes", probes);
    json_object_set_new(o, "probe_errors", json_integer(l->probe_errors));
    json_object_set_new(o, "requests", told(l));
    json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(o);
}

int main(void) {
    json_error_t bad;
    json_t *plan = json_loadf(stdin, 0, &bad);
    load l = {0};
    if (!plan) die(bad.text);
    l.port = (int)json_integer_value(json_object_get(plan, "port"));
    l.timeout = json_number_value(json_object_get(plan, "timeout_s"));
    l.n_idle = (int)json_integer_value(json_object_get(plan, "idle"));
    l.probe_s = json_number_value(json_object_get(plan, "probe_ms")) / 1000;
    l.probe = (conn){.fd = -1, .path = "/health"};
    l.probes = more_memory(NULL, MOST_PROBES, sizeof *l.probes);
    l.poll = epoll_create1(0);
    read_requests(&l, json_object_get(plan, "requests"));
    open_idle(&l);
    double cpu_s = cpu_seconds();
    go(&l);
    print_all(&l, now() - l.start, cpu_seconds() - cpu_s);
    json_decref(plan);
    return 0;
}
