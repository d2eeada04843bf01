/* front.h - what the files of the front share. All of it belongs to one thread.
 *
 *     front.c        the loop, the port, the start and the end
 *     front_conn.c   connections: accepting, the time they may take, lingering
 *     front_head.c   the head of a request as bytes, before libmicrohttpd sees it
 *     front_call.c   a request: its checks, its body, to whom it goes
 *     front_answer.c an answer: its headers, its bytes
 *     front_signal.c signals
 */
#ifndef SRV_FRONT_H
#define SRV_FRONT_H

#include "reply.h"

#include <microhttpd.h>
#include <sys/socket.h>

enum {
    LINE_MAX_BYTES = 8 * 1024,  /* of a request line */
    HEAD_MAX_BYTES = 16 * 1024, /* of all header lines */
    HEAD_MAX_FIELDS = 64,
    POOL_BYTES = 32 * 1024, /* of a connection, in libmicrohttpd */
    HEAD_S = 10,            /* for a head to arrive */
    BODY_S = 10,            /* after which a body must come with */
    BODY_RATE = 1024,       /* this many bytes a second */
    IDLE_S = 15,            /* between requests */
    MOST_REQUESTS = 1000,   /* of a connection */
    MOST_CONNECTIONS = 1024,
    MOST_OF_ADDRESS = 64, /* connections from one, which is not this machine */
    LINGER_S = 2,
    EARLY_S = 2, /* for a request to begin on a new connection when the server ends */
    DRAIN_S = 30,
    BODIES = 16 /* times the largest body: what all bodies together may hold */
};

typedef enum conn_state {
    CONN_YOUNG,  /* the first head is awaited; nobody but us knows the socket */
    CONN_IDLE,   /* libmicrohttpd's from here on, and suspended: the next head is awaited */
    CONN_HEAD,   /* a request line is there */
    CONN_BODY,   /* the head is there */
    CONN_WAIT,   /* all of it is there; the answer is to come */
    CONN_SEND,   /* the answer has begun */
    CONN_LINGER, /* answered; what the client still sends is thrown away for a while */
    CONN_DEAD    /* to be freed when the events in hand have been seen to */
} conn_state;

typedef struct conn {
    srv_front *f;
    struct conn *prev, *next;
    int fd;
    conn_state state;
    double since; /* when the state began */
    int requests; /* begun */
    int hung_up;  /* the client has closed its side */
    int left;     /* and for how many ticks its request has not been whole */
    int refused;  /* answered while the client may still be sending: linger */
    size_t seen;  /* CONN_LINGER: bytes thrown away */
    double first; /* when the first byte of an awaited head came; 0: none yet */
    char remote[64];
    int local; /* on this machine */
    struct MHD_Connection *mhd;
    int suspended;
    int barred;        /* nothing of it is a request any more */
    size_t heads;      /* bytes of the heads that were looked at, and of the bodies behind them */
    int ends;          /* in the front's list of those whose request is over */
    struct conn *over; /* the next of them */
    /* The request in work. */
    srv_call *call;   /* until it is handed on */
    srv_reply *reply; /* held */
    const char *cors; /* origin to be named; borrowed from the settings */
    int open;         /* not over yet */
    int counted;      /* in n_calls */
    int last;         /* no request after this one */
    size_t received, sent;
    size_t ticked; /* CONN_BODY: what had been received at the last tick */
    int stuck;     /* and for how many ticks nothing was, though there is more to read */
    char request[40], method[16], path[128];
    unsigned char key[SRV_DIGEST];
    int status;
    double arrived;
} conn;

struct srv_front {
    srv *s;
    struct MHD_Daemon *mhd;
    int listen, poll, wake; /* sockets and such; -1: none */
    int port, most;
    int paused;  /* the port is not looked at until the next tick */
    conn *first; /* all connections */
    conn *dead;
    conn *adding; /* being handed to libmicrohttpd */
    conn *over;   /* those whose request ended in this turn */
    int n_conns;
    atomic_int n_calls;
    atomic_size_t held; /* bytes of bodies */
    int draining, signal;
    double drain_until, ticked;
    pthread_mutex_t lock; /* of woken */
    srv_reply *woken;
};

/* ==== front_conn.c ==== */

void conn_accept(srv_front *f);
void conn_event(conn *c, uint32_t events);
void conn_tick(srv_front *f, double now);
void conn_state_set(conn *c, conn_state state);
/* Answers by hand, where libmicrohttpd cannot, and closes. */
void conn_refuse(conn *c, const srv_error *e);
void conn_close_all(srv_front *f);
void conn_bury(srv_front *f);
void conn_notify(void *ud, struct MHD_Connection *mhd, void **socket_context,
                 enum MHD_ConnectionNotificationCode what);
/* Those whose request is over wait for the next head, which only we look at. */
void conn_await(srv_front *f);
/* Has libmicrohttpd read more than the requests so far? Then nobody has looked at that. */
int conn_read_ahead(const conn *c);
void conn_suspend(conn *c);
void conn_resume(conn *c);

/* ==== front_head.c ==== */

typedef enum head_state { HEAD_PART, HEAD_WHOLE, HEAD_BROKEN } head_state;
/* What the first n bytes of a connection are; HEAD_BROKEN: e says why. */
head_state head_check(const char *s, size_t n, srv_error *e);
int head_method_known(const char *s, size_t n);

/* The header lines of one request, seen so far. */
typedef struct head_seen {
    unsigned bits;
    int n;
} head_seen;
int head_field(head_seen *had, const char *name, size_t n, const char *value, size_t n_value,
               srv_error *e);
/* version: 1 of HTTP/1.1. */
int head_fields_end(const head_seen *had, int version, srv_error *e);

/* ==== front_call.c ==== */

enum MHD_Result call_handle(void *ud, struct MHD_Connection *mhd, const char *url,
                            const char *method, const char *version, const char *data,
                            size_t *n_data, void **req);
void *call_begins(void *ud, const char *uri, struct MHD_Connection *mhd);
void call_completed(void *ud, struct MHD_Connection *mhd, void **req,
                    enum MHD_RequestTerminationCode how);
conn *call_conn(struct MHD_Connection *mhd);

/* ==== front_answer.c ==== */

/* Queues what c->reply has begun. */
enum MHD_Result answer_send(conn *c);

/* ==== front_signal.c ==== */

/* The descriptor that can be read when one has come. */
int srv_signals_fd(void);
/* The next one; 0: none. */
int srv_signals_next(void);
/* From now on they wait to be read; after the end, SIGINT and SIGTERM end the program at once. */
void srv_signals_begin(void);
void srv_signals_end(void);

#endif
