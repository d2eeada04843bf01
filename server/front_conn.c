/* front_conn.c - connections: from accepting them to closing them.
 *
 * A new connection is ours alone until its first head has arrived whole; then libmicrohttpd gets
 * it. Between requests it is suspended, and the next head is looked at in the same way before
 * libmicrohttpd may read it. What a client sends ahead of its answers may be in libmicrohttpd's
 * hands before anybody has looked at it; so such a connection ends with the answer.
 *
 * Else we only watch the socket for the client's leaving, which libmicrohttpd does not see while a
 * connection is suspended, and its clock: what a client may take its time for is bounded here,
 * because libmicrohttpd counts silence only, and a byte a second is not silent. */
#define _GNU_SOURCE
#include "front.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { HEAD_ROOM = LINE_MAX_BYTES + HEAD_MAX_BYTES + 4, ACCEPTS = 64, LINGER_BYTES = 64 << 20 };

void conn_state_set(conn *c, conn_state state) {
    c->state = state;
    c->since = cli_clock();
}

static void watch(conn *c, int how, uint32_t events) {
    struct epoll_event e = {.events = events, .data = {.ptr = c}};
    epoll_ctl(c->f->poll, how, c->fd, &e);
}

/* ==== The end of a connection ==== */

/* Out of the list; freed by conn_bury, as events in hand may still name it. */
static void leave(conn *c) {
    srv_front *f = c->f;
    if (c->prev)
        c->prev->next = c->next;
    else
        f->first = c->next;
    if (c->next) c->next->prev = c->prev;
    f->n_conns--;
    c->state = CONN_DEAD;
    c->next = f->dead;
    f->dead = c;
    srv_gauge_set(f->s->metrics, SRV_G_CONNECTIONS, f->n_conns);
}

static void close_own(conn *c) {
    watch(c, EPOLL_CTL_DEL, 0);
    close(c->fd);
    leave(c);
}

void conn_bury(srv_front *f) {
    for (conn *c = f->dead, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    f->dead = NULL;
}

/* The client may still be sending, and to close then would take the answer from it. */
static void linger(conn *c, int how) {
    c->seen = 0;
    conn_state_set(c, CONN_LINGER);
    watch(c, how, EPOLLIN | EPOLLRDHUP);
}

static void throw_away(conn *c) {
    static char waste[65536];
    for (int i = 0; i < 16; i++) {
        ssize_t n = recv(c->fd, waste, sizeof waste, MSG_DONTWAIT);
        if (n > 0 && (c->seen += (size_t)n) < LINGER_BYTES) continue;
        if (n >= 0 || (errno != EAGAIN && errno != EINTR)) close_own(c);
        return;
    }
}

void conn_refuse(conn *c, const srv_error *e) {
    cli_buf b = {0};
    char *body = NULL;
    json_t *j = srv_error_json(e);
    body = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    cli_printf(&b, "HTTP/1.1 %d %s\r\nContent-Type: application/json; charset=utf-8\r\n", e->status,
               MHD_get_reason_phrase_for((unsigned)e->status));
    cli_printf(&b, "Content-Length: %zu\r\nCache-Control: no-store\r\nConnection: close\r\n",
               strlen(body) + 1);
    cli_printf(&b, "X-Content-Type-Options: nosniff\r\nX-Retrace-Version: %s\r\n",
               retrace_version());
    if (c->request[0]) cli_printf(&b, "X-Request-Id: %s\r\n", c->request);
    if (e->status == 405) cli_puts(&b, "Allow: GET, HEAD, POST, OPTIONS\r\n");
    if (e->retry_after) cli_printf(&b, "Retry-After: %d\r\n", e->retry_after);
    cli_printf(&b, "\r\n%s\n", body);
    ssize_t n = send(c->fd, b.s, b.n, MSG_DONTWAIT | MSG_NOSIGNAL);
    c->refused = 1;
    c->status = n > 0 ? e->status : 0;
    free(body);
    cli_buf_free(&b);
    srv_count_up(c->f->s->metrics, SRV_C_REQUESTS, 1);
    srv_count_up(c->f->s->metrics, SRV_C_ERRORS, 1);
    shutdown(c->fd, SHUT_WR);
    if (c->state == CONN_YOUNG) linger(c, EPOLL_CTL_MOD);
}

static head_state head_broken(srv_error *e, const char *why) {
    srv_fail(e, 400, "bad_request", NULL, "%s", why);
    return HEAD_BROKEN;
}

static void log_young(const conn *c, int status) {
    static const unsigned char none[SRV_DIGEST];
    srv_line l = {"", c->remote, "", "", none, status, 0, cli_clock() - c->since};
    srv_log_call(c->f->s->log, &l);
}

static void refuse_young(conn *c, const srv_error *e) {
    log_young(c, e->status);
    conn_refuse(c, e);
}

/* ==== Accepting ==== */

static void name_remote(conn *c, const struct sockaddr_storage *a) {
    const struct sockaddr_in *four = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
    if (a->ss_family == AF_INET) {
        inet_ntop(AF_INET, &four->sin_addr, c->remote, sizeof c->remote);
        c->local = ntohl(four->sin_addr.s_addr) >> 24 == 127;
    } else if (a->ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &six->sin6_addr, c->remote, sizeof c->remote);
        c->local = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    }
}

static int too_many(const conn *c, srv_error *e) {
    const srv_front *f = c->f;
    int same = 0;
    if (f->n_conns > f->most)
        return srv_fail(e, 503, "too_many_connections", NULL, "%d connections are open already",
                        f->most);
    if (c->local) return 0;
    for (const conn *o = f->first; o; o = o->next) same += strcmp(o->remote, c->remote) == 0;
    if (same <= MOST_OF_ADDRESS) return 0;
    return srv_fail(e, 429, "too_many_connections", NULL,
                    "%d connections of this address are open already", MOST_OF_ADDRESS);
}

static void begin(srv_front *f, int fd, const struct sockaddr_storage *from) {
    int yes = 1;
    srv_error e = {0};
    conn *c = cli_alloc(sizeof *c);
    *c = (conn){.f = f, .fd = fd, .next = f->first};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    name_remote(c, from);
    if (f->first) f->first->prev = c;
    f->first = c;
    f->n_conns++;
    srv_gauge_set(f->s->metrics, SRV_G_CONNECTIONS, f->n_conns);
    conn_state_set(c, CONN_YOUNG);
    watch(c, EPOLL_CTL_ADD, EPOLLIN | EPOLLRDHUP | EPOLLET);
    if (too_many(c, &e) == 0) return;
    refuse_young(c, &e);
    close_own(c);
}

void conn_accept(srv_front *f) {
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage from = {0};
        socklen_t n = sizeof from;
        int fd = accept4(f->listen, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            begin(f, fd, &from);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno != EAGAIN) f->paused = 1; /* no more files, say: not to spin on it */
        return;
    }
}

/* ==== To libmicrohttpd, and back ==== */

/* *socket_context is ours for the life of the connection. */
void conn_notify(void *ud, struct MHD_Connection *mhd, void **socket_context,
                 enum MHD_ConnectionNotificationCode what) {
    srv_front *f = ud;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = f->adding;
        if (f->adding) f->adding->mhd = mhd;
        return;
    }
    conn *c = *socket_context;
    if (!c) return;
    watch(c, EPOLL_CTL_DEL, 0);
    int fd = c->refused ? dup(c->fd) : -1;
    c->mhd = NULL;
    if (fd < 0) {
        leave(c);
        return;
    }
    c->fd = fd;
    linger(c, EPOLL_CTL_ADD);
}

static void hand_over(conn *c, size_t n_head) {
    srv_front *f = c->f;
    c->heads = n_head;
    struct sockaddr_storage a = {.ss_family = AF_INET};
    conn_state_set(c, CONN_IDLE);
    watch(c, EPOLL_CTL_MOD, EPOLLRDHUP | EPOLLET);
    f->adding = c;
    MHD_add_connection(f->mhd, c->fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in));
    f->adding = NULL;
    if (c->mhd || c->state == CONN_DEAD) return;
    leave(c); /* libmicrohttpd has closed the socket */
}

void conn_suspend(conn *c) {
    if (c->suspended) return;
    c->suspended = 1;
    MHD_suspend_connection(c->mhd);
}

void conn_resume(conn *c) {
    if (!c->suspended) return;
    c->suspended = 0;
    MHD_resume_connection(c->mhd);
}

/* ==== Between requests ==== */

static size_t received_by_system(const conn *c) {
    struct tcp_info i = {0};
    socklen_t n = sizeof i;
    if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &i, &n) != 0) return SIZE_MAX;
    return (size_t)i.tcpi_bytes_received;
}

/* What comes in between the two questions counts as read: to be on the safe side. */
int conn_read_ahead(const conn *c) {
    int unread = 0;
    if (ioctl(c->fd, FIONREAD, &unread) != 0) return 1;
    return received_by_system(c) - (size_t)unread != c->heads;
}

void conn_await(srv_front *f) {
    for (conn *c; (c = f->over) != NULL;) {
        f->over = c->over;
        c->ends = 0;
        if (c->state != CONN_IDLE || !c->mhd) continue;
        c->first = 0;
        c->request[0] = '\0';
        conn_suspend(c);
        watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLRDHUP | EPOLLET);
    }
}

/* libmicrohttpd closes it. */
static void let_go(conn *c) {
    c->barred = 1;
    shutdown(c->fd, c->refused ? SHUT_RD : SHUT_RDWR);
    conn_resume(c);
}

static void go_on(conn *c, size_t n_head) {
    c->heads += n_head;
    watch(c, EPOLL_CTL_MOD, EPOLLRDHUP | EPOLLET);
    conn_resume(c);
}

/* ==== Events ==== */

static void refuse_head(conn *c, const srv_error *e) {
    refuse_young(c, e);
    if (c->state == CONN_IDLE) let_go(c);
}

static void head_is_whole(conn *c, size_t n_head) {
    if (c->state == CONN_IDLE)
        go_on(c, n_head);
    else
        hand_over(c, n_head);
}

static void look(conn *c) {
    static char head[HEAD_ROOM];
    srv_error e = {0};
    ssize_t n = recv(c->fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        if (c->state == CONN_IDLE)
            let_go(c);
        else
            close_own(c);
        return;
    }
    if (c->first <= 0) c->first = cli_clock();
    head_state state = head_check(head, (size_t)n, &e);
    if (state == HEAD_PART && c->hung_up)
        state = head_broken(&e, "the head of the request is not whole");
    if (state == HEAD_BROKEN) refuse_head(c, &e);
    if (state != HEAD_WHOLE) return;
    const char *end = memmem(head, (size_t)n, "\r\n\r\n", 4);
    head_is_whole(c, (size_t)(end - head) + 4);
}

/* The client has closed its side or all of it; what is being written for it is not wanted any more.
 * An answer that is whole already is left to go out. */
static void hang_up(conn *c) {
    int streams = c->state == CONN_SEND && c->reply && c->reply->streaming;
    c->hung_up = 1;
    if (c->state != CONN_WAIT && !streams) return;
    srv_reply_leave(c->reply);
    conn_resume(c);
}

void conn_event(conn *c, uint32_t events) {
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) hang_up(c);
    if (c->state == CONN_YOUNG || (c->state == CONN_IDLE && c->suspended))
        look(c);
    else if (c->state == CONN_LINGER)
        throw_away(c);
}

/* ==== Time ==== */

static void late(conn *c, const char *what) {
    srv_error e = {0};
    srv_fail(&e, 408, "request_timeout", NULL, "%s", what);
    if (c->state == CONN_YOUNG || c->state == CONN_IDLE) {
        refuse_head(c, &e);
        return;
    }
    conn_refuse(c, &e);
    shutdown(c->fd, SHUT_RD); /* so that libmicrohttpd closes it */
}

static int body_is_late(const conn *c, double now) {
    double over = now - c->since - BODY_S;
    return over > 1 && (double)c->received < over * BODY_RATE;
}

/* The line of a chunk's size that fits into no buffer: libmicrohttpd would look at it for ever. */
static int chunk_is_stuck(conn *c) {
    int more = 0;
    if (c->received != c->ticked || ioctl(c->fd, FIONREAD, &more) != 0 || more == 0) c->stuck = -1;
    c->ticked = c->received;
    return ++c->stuck >= 2;
}

static void tick_body(conn *c, double now) {
    srv_error e = {0};
    if (c->refused) return;
    if (body_is_late(c, now)) {
        late(c, "the body comes with less than 1024 bytes a second");
    } else if (chunk_is_stuck(c)) {
        srv_fail(&e, 400, "bad_request", NULL, "a chunk of the body has a line that is too long");
        conn_refuse(c, &e);
        shutdown(c->fd, SHUT_RD);
    }
}

/* A client that closes its side in the middle of a request. When both come at once libmicrohttpd
 * may have seen the one and not the other. */
static int is_given_up(conn *c) {
    int more = 0, asks = c->state >= CONN_IDLE && c->state <= CONN_BODY && !c->suspended;
    if (!c->hung_up || !asks || ioctl(c->fd, FIONREAD, &more) != 0 || more) return 0;
    return ++c->left > 2;
}

static void tick(conn *c, double now) {
    double age = now - c->since;
    if (is_given_up(c)) {
        shutdown(c->fd, SHUT_RDWR);
        return;
    }
    switch (c->state) {
    case CONN_YOUNG:
        if (c->first > 0 && now - c->first > HEAD_S)
            late(c, "the head of the request took longer than 10 s");
        else if (c->first <= 0 && age > (c->f->draining ? EARLY_S : IDLE_S))
            close_own(c);
        break;
    case CONN_IDLE:
        if (c->barred) break;
        if (c->suspended && c->first > 0 && now - c->first > HEAD_S)
            late(c, "the head of the request took longer than 10 s");
        else if (age > IDLE_S + HEAD_S || (c->first <= 0 && (age > IDLE_S || c->f->draining)))
            let_go(c);
        break;
    case CONN_HEAD:
        if (age > HEAD_S && !c->refused) late(c, "the head of the request took longer than 10 s");
        break;
    case CONN_BODY: tick_body(c, now); break;
    case CONN_LINGER:
        if (age > LINGER_S) close_own(c);
        break;
    case CONN_WAIT:
    case CONN_SEND:
    case CONN_DEAD: break;
    }
}

void conn_tick(srv_front *f, double now) {
    for (conn *c = f->first, *next; c; c = next) {
        next = c->next;
        tick(c, now);
    }
}

/* What is ours; libmicrohttpd closes its own. */
void conn_close_all(srv_front *f) {
    for (conn *c = f->first, *next; c; c = next) {
        next = c->next;
        c->refused = 0;
        if (c->state == CONN_YOUNG || c->state == CONN_LINGER) close_own(c);
    }
}
