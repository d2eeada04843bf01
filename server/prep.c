/* prep.c - the thread between the sockets and the model: it takes bodies apart.
 *
 * Reading JSON, compiling rules and splitting text into tokens can take a while; it must hold up
 * neither the sockets nor the model. Calls wait in a queue of bounded length; those whose client
 * has left meanwhile are dropped. */
#include "server.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST = 256 }; /* calls that wait here */

struct srv_prep {
    srv *s;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    srv_call *first, **last;
    int n, reload, ends;
};

/* The next call, or NULL: look at what else is asked. Waits. */
static srv_call *next_call(srv_prep *p, int *reload, int *ends) {
    pthread_mutex_lock(&p->lock);
    while (!p->first && !p->reload && !p->ends) pthread_cond_wait(&p->more, &p->lock);
    srv_call *c = p->first;
    if (c) {
        p->first = c->next;
        if (!p->first) p->last = &p->first;
        p->n--;
    }
    *reload = p->reload;
    *ends = p->ends;
    p->reload = 0;
    pthread_mutex_unlock(&p->lock);
    return c;
}

static void *work(void *ud) {
    srv_prep *p = ud;
    int reload = 0, ends = 0;
    while (!ends) {
        srv_call *c = next_call(p, &reload, &ends);
        if (reload) srv_lists_reload(p->s->lists);
        if (!c) continue;
        int gone = srv_reply_gone(c->reply);
        if (gone) srv_count_up(p->s->metrics, SRV_C_CANCELLED, 1);
        if (ends || gone)
            srv_call_done(c);
        else
            c->route->prepare(p->s, c);
    }
    return NULL;
}

int srv_prep_new(srv_prep **out, srv *s) {
    srv_prep *p = cli_alloc(sizeof *p);
    p->s = s;
    p->last = &p->first;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    if (pthread_create(&p->thread, NULL, work, p) != 0) {
        free(p);
        return cli_fail(CLI_IO, "cannot start a thread");
    }
    *out = p;
    return CLI_OK;
}

int srv_prep_give(srv_prep *p, srv_call *c, srv_error *e) {
    pthread_mutex_lock(&p->lock);
    int full = p->n >= MOST;
    if (!full) {
        c->next = NULL;
        *p->last = c;
        p->last = &c->next;
        p->n++;
        pthread_cond_signal(&p->more);
    }
    pthread_mutex_unlock(&p->lock);
    if (!full) return 0;
    return srv_fail(e, 429, "queue_full", NULL, "%d requests wait already", MOST);
}

void srv_prep_reload(srv_prep *p) {
    pthread_mutex_lock(&p->lock);
    p->reload = 1;
    pthread_cond_signal(&p->more);
    pthread_mutex_unlock(&p->lock);
}

void srv_call_done(srv_call *c) {
    if (c->held) atomic_fetch_sub(c->held, c->body.n);
    srv_reply_drop(c->reply);
    json_decref(c->query);
    cli_buf_free(&c->body);
    free(c->path);
    free(c);
}

void srv_prep_free(srv_prep *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->ends = 1;
    pthread_cond_signal(&p->more);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    for (srv_call *c = p->first, *next; c; c = next) {
        next = c->next;
        srv_call_done(c);
    }
    pthread_cond_destroy(&p->more);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
