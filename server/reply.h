/* reply.h - the inside of a reply, for reply.c and the front. */
#ifndef SRV_REPLY_H
#define SRV_REPLY_H

#include "server.h"

#include <pthread.h>

typedef struct srv_header {
    char *name, *value;
} srv_header;

struct srv_reply {
    atomic_int refs, gone;
    pthread_mutex_t lock; /* of all that follows up to `front` */
    srv_header *headers;
    int n_headers;
    int status; /* 0: not started */
    const char *type;
    int streaming, ended;
    cli_buf out;
    size_t taken;    /* of out, by the socket's side */
    double since;    /* when something was taken last, or when it began to wait */
    int listed;      /* in the front's list of those that woke it; under that list's lock */
    srv_reply *next; /* in it */
    srv_front *front;
    void *conn; /* the front's own: whom it is for; NULL when it is no one's any more */
};

/* What a streaming reply has next: at most max bytes into buf. *ended: and that was all. */
size_t srv_reply_take(srv_reply *r, char *buf, size_t max, int *ended);
/* 1 when the answer can be begun: it has ended, or it streams and has started. */
int srv_reply_ready(srv_reply *r);
/* The client has left. */
void srv_reply_leave(srv_reply *r);

#endif
