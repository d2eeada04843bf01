/* front.c - the sockets' thread: the loop, its start and its end.
 *
 * One epoll set holds the port, the wakes of other threads, the signals, every connection's socket,
 * and libmicrohttpd's own set of those sockets that it reads and writes. No thread waits for a
 * client, so a client that is slow, silent or gone costs its memory and nothing else. */
#define _GNU_SOURCE
#include "front.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum { EVENTS = 256, TICK_MS = 250, SPARE_FILES = 64, FLUSH_S = 1, WAKES = 1024 };

/* ==== The port ==== */

static int cannot_listen(const srv_front *f, int why) {
    return cli_fail(CLI_IO, "cannot listen on %s:%d: %s", f->s->config.host, f->s->config.port,
                    strerror(why));
}

static int bind_one(const struct addrinfo *a) {
    int yes = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int open_port(srv_front *f) {
    char port[16];
    const char *host = f->s->config.host;
    struct addrinfo how = {.ai_family = AF_UNSPEC,
                           .ai_socktype = SOCK_STREAM,
                           .ai_flags = AI_NUMERICSERV},
                    *all;
    snprintf(port, sizeof port, "%d", f->s->config.port);
    if (strcmp(host, "localhost") == 0) host = "127.0.0.1";
    int rc = getaddrinfo(host, port, &how, &all);
    if (rc) return cli_fail(CLI_USAGE, "--host %s: %s", host, gai_strerror(rc));
    for (const struct addrinfo *a = all; a && f->listen < 0; a = a->ai_next)
        f->listen = bind_one(a);
    int why = errno;
    freeaddrinfo(all);
    return f->listen < 0 ? cannot_listen(f, why) : CLI_OK;
}

static void read_port(srv_front *f) {
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    getsockname(f->listen, (struct sockaddr *)&a, &n);
    f->port = ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                            : ((struct sockaddr_in *)&a)->sin_port);
}

/* ==== Start ==== */

static void add_event(srv_front *f, int fd, void *tag) {
    struct epoll_event e = {.events = EPOLLIN, .data = {.ptr = tag}};
    epoll_ctl(f->poll, EPOLL_CTL_ADD, fd, &e);
}

static void silent(void *ud, const char *fmt, va_list args) {
    (void)ud;
    (void)fmt;
    (void)args;
}

static int start_mhd(srv_front *f) {
    unsigned flags =
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;
    f->mhd = MHD_start_daemon(
        flags, 0, NULL, NULL, call_handle, f, MHD_OPTION_EXTERNAL_LOGGER, silent, NULL,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)f->most + 16, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_URI_LOG_CALLBACK, call_begins, f, MHD_OPTION_NOTIFY_COMPLETED, call_completed, f,
        MHD_OPTION_NOTIFY_CONNECTION, conn_notify, f, MHD_OPTION_END);
    if (!f->mhd) return cli_fail(CLI_IO, "cannot start libmicrohttpd");
    const union MHD_DaemonInfo *i = MHD_get_daemon_info(f->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    if (!i || i->epoll_fd < 0) return cli_fail(CLI_IO, "libmicrohttpd has no epoll here");
    add_event(f, i->epoll_fd, &f->mhd);
    return CLI_OK;
}

/* As many connections as the system allows files for. */
static int most_connections(void) {
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) != 0 || l.rlim_cur == RLIM_INFINITY) return MOST_CONNECTIONS;
    if (l.rlim_cur >= MOST_CONNECTIONS + SPARE_FILES) return MOST_CONNECTIONS;
    return l.rlim_cur > 2 * SPARE_FILES ? (int)l.rlim_cur - SPARE_FILES : SPARE_FILES;
}

int srv_front_new(srv_front **out, srv *s) {
    srv_front *f = cli_alloc(sizeof *f);
    *out = f;
    f->s = s;
    f->listen = f->poll = f->wake = -1;
    pthread_mutex_init(&f->lock, NULL);
    f->most = most_connections();
    int code = open_port(f);
    if (code) return code;
    read_port(f);
    f->poll = epoll_create1(EPOLL_CLOEXEC);
    f->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (f->poll < 0 || f->wake < 0) return cli_fail(CLI_IO, "no epoll: %s", strerror(errno));
    add_event(f, f->wake, &f->wake);
    if (srv_signals_fd() >= 0) add_event(f, srv_signals_fd(), &f->signal);
    return start_mhd(f);
}

int srv_front_listen(srv_front *f) {
    if (listen(f->listen, 1024) != 0) return cannot_listen(f, errno);
    add_event(f, f->listen, &f->listen);
    return CLI_OK;
}

int srv_front_port(const srv_front *f) {
    return f->port;
}

int srv_front_most(const srv_front *f) {
    return f->most;
}

int srv_front_signal(const srv_front *f) {
    return f->signal;
}

int srv_front_open_calls(const srv_front *f) {
    return atomic_load(&f->n_calls);
}

/* ==== Wakes ==== */

void srv_front_wake(srv_front *f, srv_reply *r) {
    uint64_t one = 1;
    pthread_mutex_lock(&f->lock);
    int first = !f->woken, listed = r->listed;
    if (!listed) {
        r->listed = 1;
        r->next = f->woken;
        f->woken = srv_reply_hold(r);
    }
    pthread_mutex_unlock(&f->lock);
    if (!listed && first && write(f->wake, &one, sizeof one) < 0) { /* it is awake already */
    }
}

/* An answer that has something to send, or has ended, goes on. */
static void wake_one(srv_reply *r) {
    conn *c = r->conn;
    if (!c || c->reply != r || !c->suspended) return;
    if (c->state == CONN_SEND || srv_reply_ready(r)) conn_resume(c);
}

/* The next reply that woke us, held; NULL: none. */
static srv_reply *next_woken(srv_front *f) {
    pthread_mutex_lock(&f->lock);
    srv_reply *r = f->woken;
    if (r) {
        f->woken = r->next;
        r->listed = 0;
    }
    pthread_mutex_unlock(&f->lock);
    return r;
}

/* Others may go on waking meanwhile; after WAKES the rest of the loop has its turn. */
static void take_wakes(srv_front *f) {
    uint64_t one = 1;
    srv_reply *r = NULL;
    if (read(f->wake, &one, sizeof one) < 0) { /* none */
    }
    for (int i = 0; i < WAKES && (r = next_woken(f)) != NULL; i++) {
        wake_one(r);
        srv_reply_drop(r);
    }
    one = 1;
    if (r && write(f->wake, &one, sizeof one) < 0) { /* it is awake already */
    }
}

/* ==== Signals ==== */

static void begin_draining(srv_front *f, int number) {
    f->signal = number;
    f->draining = 1;
    f->drain_until = cli_clock() + DRAIN_S;
    int n = srv_front_open_calls(f);
    if (n) cli_say("retrace: ending; %d requests have %d s", n, DRAIN_S);
}

/* The second time the program ends as it stands. */
static void take_signals(srv_front *f) {
    for (int number; (number = srv_signals_next()) != 0;) {
        if (number == SIGHUP && f->s->prep)
            srv_prep_reload(f->s->prep);
        else if (number == SIGHUP)
            continue;
        else if (f->draining)
            _exit(number == SIGINT ? CLI_INTERRUPTED : 0);
        else
            begin_draining(f, number);
    }
}

/* ==== The loop ==== */

static void take_event(srv_front *f, const struct epoll_event *e) {
    void *tag = e->data.ptr;
    if (tag == &f->mhd) return;
    if (tag == &f->wake)
        take_wakes(f);
    else if (tag == &f->signal)
        take_signals(f);
    else if (tag == &f->listen)
        conn_accept(f);
    else if (((conn *)tag)->state != CONN_DEAD)
        conn_event(tag, e->events);
}

static int wait_ms(const srv_front *f) {
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(f->mhd, &ms) == MHD_YES && ms < TICK_MS) return (int)ms;
    return TICK_MS;
}

/* After a failed accept the port is looked at again a tick later. */
static void pause_port(srv_front *f, int paused) {
    struct epoll_event e = {.events = paused ? 0 : EPOLLIN, .data = {.ptr = &f->listen}};
    epoll_ctl(f->poll, EPOLL_CTL_MOD, f->listen, &e);
}

static void turn(srv_front *f) {
    struct epoll_event events[EVENTS];
    int n = epoll_wait(f->poll, events, EVENTS, wait_ms(f));
    for (int i = 0; i < n; i++) take_event(f, &events[i]);
    if (f->paused == 1) {
        pause_port(f, 1);
        f->paused = 2;
    }
    MHD_run(f->mhd);
    conn_await(f);
    double now = cli_clock();
    if (now - f->ticked >= TICK_MS / 1000.0) {
        f->ticked = now;
        conn_tick(f, now);
        if (f->paused) pause_port(f, 0);
        f->paused = 0;
    }
    conn_bury(f);
}

int srv_front_run(srv_front *f) {
    srv_signals_begin();
    while (!f->draining) turn(f);
    while (srv_front_open_calls(f) > 0 && cli_clock() < f->drain_until) turn(f);
    srv_signals_end();
    return CLI_OK;
}

/* ==== The end ==== */

/* What was told to clients last, that the server ends say, is still sent. */
static void flush(srv_front *f) {
    double until = cli_clock() + FLUSH_S;
    while (srv_front_open_calls(f) > 0 && cli_clock() < until) turn(f);
    for (conn *c = f->first; c; c = c->next) {
        if (c->reply) srv_reply_leave(c->reply);
        conn_resume(c);
    }
}

void srv_front_free(srv_front *f) {
    if (!f) return;
    f->draining = 1;
    if (f->mhd) {
        flush(f);
        conn_close_all(f);
        MHD_stop_daemon(f->mhd);
    }
    take_wakes(f);
    conn_bury(f);
    if (f->listen >= 0) close(f->listen);
    if (f->wake >= 0) close(f->wake);
    if (f->poll >= 0) close(f->poll);
    pthread_mutex_destroy(&f->lock);
    free(f);
}
