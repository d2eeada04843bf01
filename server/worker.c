/* worker.c - the thread that owns the model.
 *
 *     given -> waiting -> live -> over
 *
 * A turn: what was given is taken over; who left or ran out of time goes; every live unit does what
 * it can and asks; waiting ones begin while slots are free, in the order they came; then all
 * questions go to the model in one call. With nothing to ask the thread sleeps.
 *
 * A call that fails is asked again question by question: only the units whose own questions fail
 * are told, the others never notice. */
#define _POSIX_C_SOURCE 200809L
#include "worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct question {
    srv_unit *unit; /* NULL: nobody's any more */
    retrace_query *to;
    srv_ask_kind kind;
    int failed;
} question;

typedef struct list {
    srv_unit *first, **end;
    int n;
} list;

struct srv_worker {
    srv *s;
    pthread_t thread;
    int started;
    pthread_mutex_t lock;
    pthread_cond_t given_more;
    list given;       /* under the lock, with the next three */
    int n_slot_units; /* of those given or waiting that need slots */
    int n_others;     /* that need none, until they are over */
    int stopping;
    atomic_int n_free;     /* slots, as of the last turn */
    atomic_llong round_us; /* when the last turn began; 0: asleep */
    atomic_llong usual_us; /* of a unit that needs slots, from its beginning to its end */
    /* the rest is the thread's own */
    list waiting, live;
    srv_slots *slots;
    srv_pace pace;
    srv_kept *kept;
    question *asked;
    retrace_query *queries; /* as many */
    int n_asked, cap_asked;
    int again;
    double now, next_due; /* when something kept gets too old; 0: never */
};

/* ==== Lists ==== */

static void list_init(list *l) {
    *l = (list){.end = &l->first};
}

static void push(list *l, srv_unit *u) {
    u->next = NULL;
    *l->end = u;
    l->end = &u->next;
    l->n++;
}

/* Takes the unit at *at out. */
static srv_unit *take_out(list *l, srv_unit **at) {
    srv_unit *u = *at;
    *at = u->next;
    if (!*at) l->end = at;
    l->n--;
    return u;
}

/* ==== For units ==== */

srv_slots *srv_worker_slots(srv_worker *w) {
    return w->slots;
}

srv_pace *srv_worker_pace(srv_worker *w) {
    return &w->pace;
}

srv_kept *srv_worker_kept(srv_worker *w) {
    return w->kept;
}

int srv_worker_full(const srv_unit *u) {
    double since;
    return srv_reply_waiting(u->reply, &since) > SRV_FULL;
}

double srv_worker_now(const srv_worker *w) {
    return w->now;
}

void srv_worker_again(srv_worker *w) {
    w->again = 1;
}

void srv_worker_ask(srv_worker *w, srv_unit *u, retrace_query *q, int slot, srv_ask_kind kind) {
    if (w->n_asked == w->cap_asked) {
        w->cap_asked = w->cap_asked ? 2 * w->cap_asked : 64;
        w->asked = cli_realloc(w->asked, (size_t)w->cap_asked * sizeof *w->asked);
        w->queries = cli_realloc(w->queries, (size_t)w->cap_asked * sizeof *w->queries);
    }
    w->asked[w->n_asked] = (question){.unit = u, .to = q, .kind = kind};
    w->queries[w->n_asked] = *q;
    w->queries[w->n_asked++].slot = slot;
}

/* ==== The ends of units ==== */

static void forget_questions(srv_worker *w, const srv_unit *u) {
    for (int i = 0; i < w->n_asked; i++)
        if (w->asked[i].unit == u) w->asked[i].unit = NULL;
}

/* The usual time is for Retry-After, so roughly will do. */
static void note_time(srv_worker *w, const srv_unit *u) {
    if (!u->type->needs_slots || u->begun <= 0) return;
    long long us = (long long)((cli_clock() - u->begun) * 1e6), mean = atomic_load(&w->usual_us);
    atomic_store(&w->usual_us, mean ? (3 * mean + us) / 4 : us);
}

/* u is in no list. */
static void end_unit(srv_worker *w, srv_unit *u) {
    forget_questions(w, u);
    note_time(w, u);
    if (!u->type->needs_slots) {
        pthread_mutex_lock(&w->lock);
        w->n_others--;
        pthread_mutex_unlock(&w->lock);
    }
    u->type->free(u);
}

static void fail_unit(srv_worker *w, list *l, srv_unit **at, const srv_error *e) {
    srv_unit *u = take_out(l, at);
    u->type->fail(u, e);
    end_unit(w, u);
}

/* One that waits is counted until it no longer does. */
static void leave_queue(srv_worker *w, const srv_unit *u) {
    if (!u->type->needs_slots) return;
    pthread_mutex_lock(&w->lock);
    w->n_slot_units--;
    pthread_mutex_unlock(&w->lock);
}

/* ==== Time and clients ==== */

/* The client has left, or does not read what it is sent. */
static int is_lost(const srv_worker *w, const srv_unit *u) {
    double since = 0;
    if (srv_reply_gone(u->reply)) return 1;
    return srv_reply_waiting(u->reply, &since) > SRV_FULL && w->now - since > SRV_STALL_S;
}

static int is_late(const srv_worker *w, const srv_unit *u, srv_error *e) {
    if (w->now - u->begun < w->s->config.request_s) return 0;
    srv_fail(e, 503, "request_timeout", NULL,
             "the request took longer than the %g s of --request-timeout", w->s->config.request_s);
    return 1;
}

static int seconds_to_wait(srv_worker *w, int n_before) {
    double each = (double)atomic_load(&w->usual_us) / 1e6;
    double s = each * (n_before + 1) / w->s->config.parallel;
    return s < 1 ? 1 : s > 60 ? 60 : (int)s;
}

static int is_overdue(srv_worker *w, const srv_unit *u, srv_error *e) {
    if (w->now - u->arrived < w->s->config.queue_s) return 0;
    srv_fail(e, 503, "queue_timeout", NULL,
             "no slot became free within the %g s of --queue-timeout", w->s->config.queue_s);
    e->retry_after = seconds_to_wait(w, w->waiting.n);
    return 1;
}

static void look_after_waiting(srv_worker *w) {
    for (srv_unit **at = &w->waiting.first; *at;) {
        srv_unit *u = *at;
        srv_error e = {0};
        if (is_lost(w, u)) {
            leave_queue(w, u);
            srv_count_up(w->s->metrics, SRV_C_CANCELLED, 1);
            end_unit(w, take_out(&w->waiting, at));
        } else if (is_overdue(w, u, &e)) {
            leave_queue(w, u);
            fail_unit(w, &w->waiting, at, &e);
        } else {
            at = &u->next;
        }
    }
}

static void look_after_live(srv_worker *w) {
    for (srv_unit **at = &w->live.first; *at;) {
        srv_unit *u = *at;
        srv_error e = {0};
        if (is_lost(w, u)) {
            srv_count_up(w->s->metrics, SRV_C_CANCELLED, 1);
            end_unit(w, take_out(&w->live, at));
        } else if (is_late(w, u, &e)) {
            fail_unit(w, &w->live, at, &e);
        } else {
            at = &u->next;
        }
    }
}

/* ==== Steps ==== */

static int arrive(srv_worker *w, srv_unit *u) {
    return u->type->arrive ? u->type->arrive(u, w) : 0;
}

static void take_given(srv_worker *w) {
    pthread_mutex_lock(&w->lock);
    srv_unit *u = w->given.first;
    list_init(&w->given);
    pthread_mutex_unlock(&w->lock);
    for (srv_unit *next; u; u = next) {
        next = u->next;
        if (arrive(w, u) == 0) {
            push(&w->waiting, u);
            continue;
        }
        leave_queue(w, u);
        end_unit(w, u);
    }
}

/* Those that need slots keep their order. Of the others, who asked something this time comes last
 * the next time: there may be room for the questions of one only. */
static void step_live(srv_worker *w) {
    list last;
    list_init(&last);
    for (srv_unit **at = &w->live.first; *at;) {
        srv_unit *u = *at;
        int before = w->n_asked;
        if (u->type->step(u, w))
            end_unit(w, take_out(&w->live, at));
        else if (!u->type->needs_slots && w->n_asked > before)
            push(&last, take_out(&w->live, at));
        else
            at = &u->next;
    }
    for (srv_unit *u = last.first, *next; u; u = next) {
        next = u->next;
        push(&w->live, u);
    }
}

static void begin_unit(srv_worker *w, srv_unit *u) {
    leave_queue(w, u);
    u->begun = w->now;
    if (u->type->begin(u, w) || u->type->step(u, w))
        end_unit(w, u);
    else
        push(&w->live, u);
}

/* Those that need a slot begin in the order they came, behind the choices of live units that have
 * none yet; the others at once. */
static void begin_waiting(srv_worker *w) {
    int blocked = srv_slots_refused(w->slots);
    for (srv_unit **at = &w->waiting.first; *at;) {
        srv_unit *u = *at;
        if (u->type->needs_slots && (blocked |= srv_slots_n_free(w->slots) == 0))
            at = &u->next;
        else
            begin_unit(w, take_out(&w->waiting, at));
    }
}

/* ==== The model ==== */

static void count_turn(srv_worker *w, double seconds) {
    srv_turn t = {.seconds = seconds};
    int64_t rows = 0;
    for (int i = 0; i < w->n_asked; i++) {
        const question *k = &w->asked[i];
        rows += w->queries[i].evaluated;
        t.n_live += k->kind == SRV_ASK_LIVE;
        t.n_passing += k->kind == SRV_ASK_PASSING;
        if (k->kind == SRV_ASK_PROMPT) t.rows += w->queries[i].evaluated;
    }
    if (seconds > 0) srv_pace_learn(&w->pace, &t);
    srv_count_up(w->s->metrics, SRV_C_EVALUATED, rows);
}

static void hand_back(srv_worker *w) {
    for (int i = 0; i < w->n_asked; i++) {
        if (!w->asked[i].unit || w->asked[i].failed) continue;
        w->asked[i].to->answered = w->queries[i].answered;
        w->asked[i].to->evaluated = w->queries[i].evaluated;
    }
}

static srv_unit **place_of(list *l, const srv_unit *u) {
    srv_unit **at = &l->first;
    while (*at && *at != u) at = &(*at)->next;
    return at;
}

/* A question was checked before it was asked, so whatever is wrong is not the client's fault. */
static void fail_asker(srv_worker *w, srv_unit *u, retrace_error *err) {
    srv_error e = {0};
    if (err->code == RETRACE_EUSAGE) err->code = RETRACE_EMODEL;
    srv_fail_with(&e, err, NULL);
    srv_unit **at = place_of(&w->live, u);
    if (*at) fail_unit(w, &w->live, at, &e);
}

static void ask_singly(srv_worker *w) {
    retrace_error *errs = cli_alloc((size_t)w->n_asked * sizeof *errs);
    srv_slots_forget(w->slots);
    for (int i = 0; i < w->n_asked; i++) {
        w->asked[i].failed = retrace_model_eval(w->s->model, &w->queries[i], 1, &errs[i]) < 0;
        srv_count_up(w->s->metrics, SRV_C_STEPS, 1);
    }
    hand_back(w);
    count_turn(w, 0);
    for (int i = 0; i < w->n_asked; i++)
        if (w->asked[i].failed && w->asked[i].unit) fail_asker(w, w->asked[i].unit, &errs[i]);
    free(errs);
}

/* Questions of units that have ended meanwhile are left out. */
static void drop_orphans(srv_worker *w) {
    int n = 0;
    for (int i = 0; i < w->n_asked; i++) {
        if (!w->asked[i].unit) continue;
        w->asked[n] = w->asked[i];
        w->queries[n++] = w->queries[i];
    }
    w->n_asked = n;
}

static void answer(srv_worker *w) {
    retrace_error err;
    drop_orphans(w);
    if (w->n_asked == 0) return;
    double start = cli_clock();
    int rc = retrace_model_eval(w->s->model, w->queries, w->n_asked, &err);
    srv_count_up(w->s->metrics, SRV_C_STEPS, 1);
    if (rc < 0) {
        ask_singly(w);
    } else {
        hand_back(w);
        count_turn(w, cli_clock() - start);
    }
    w->n_asked = 0;
}

/* ==== The thread ==== */

static void sleep_until(srv_worker *w, double seconds) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    long ns = (long)((seconds - (double)(long)seconds) * 1e9) + t.tv_nsec;
    t.tv_sec += (time_t)seconds + ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&w->given_more, &w->lock, &t);
}

/* Nothing to ask: until something is given. Units that wait for their client, or for a slot of one
 * that does, are looked at again soon. */
static void rest(srv_worker *w) {
    static const double SOON_S = 0.02, LONG_S = 3600;
    double most = LONG_S;
    if (w->next_due > 0) most = w->next_due - w->now + 0.01;
    if (most < SOON_S || w->live.n + w->waiting.n > 0) most = SOON_S;
    atomic_store(&w->round_us, 0);
    w->pace.n_live = 0;
    pthread_mutex_lock(&w->lock);
    if (!w->given.first && !w->stopping) sleep_until(w, most > LONG_S ? LONG_S : most);
    pthread_mutex_unlock(&w->lock);
}

static void tell_gauges(srv_worker *w) {
    int n = 0;
    for (const srv_unit *u = w->live.first; u; u = u->next) n += u->type->needs_slots;
    srv_gauge_set(w->s->metrics, SRV_G_RUNNING, n);
    srv_gauge_set(w->s->metrics, SRV_G_WAITING, w->waiting.n);
    atomic_store(&w->n_free, srv_slots_n_free(w->slots));
}

static void turn(srv_worker *w) {
    w->now = cli_clock();
    atomic_store(&w->round_us, (long long)(w->now * 1e6) + 1);
    w->again = 0;
    srv_slots_begin_turn(w->slots);
    take_given(w);
    srv_pace_begin(&w->pace);
    look_after_live(w);
    look_after_waiting(w);
    step_live(w);
    begin_waiting(w);
    tell_gauges(w);
    w->next_due = srv_kept_sweep(w->kept, w->now);
    if (w->n_asked)
        answer(w);
    else if (!w->again && !(srv_slots_refused(w->slots) && srv_slots_n_free(w->slots)))
        rest(w);
}

static int is_stopping(srv_worker *w) {
    pthread_mutex_lock(&w->lock);
    int stopping = w->stopping;
    pthread_mutex_unlock(&w->lock);
    return stopping;
}

static void fail_all(srv_worker *w, list *l) {
    srv_error e = {0};
    srv_fail(&e, 503, "shutting_down", NULL, "the server is shutting down");
    while (l->first) fail_unit(w, l, &l->first, &e);
}

static void *work(void *ud) {
    srv_worker *w = ud;
    while (!is_stopping(w)) turn(w);
    take_given(w);
    fail_all(w, &w->live);
    fail_all(w, &w->waiting);
    return NULL;
}

/* ==== From other threads ==== */

static int batch_size(const cli_flags *f) {
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->v[i].flag, "batch-size") == 0 && f->v[i].part == CLI_ENGINE)
            return (int)cli_real(f, "batch-size");
    return 512;
}

int srv_worker_new(srv_worker **out, srv *s) {
    srv_worker *w = cli_alloc(sizeof *w);
    pthread_condattr_t attr;
    w->s = s;
    list_init(&w->given);
    list_init(&w->waiting);
    list_init(&w->live);
    w->slots = srv_slots_new(s->config.parallel);
    w->kept = srv_kept_new(&s->config, s->metrics);
    w->pace.batch = batch_size(s->config.flags);
    w->pace.instant = strcmp(s->facts.backend, "table") == 0;
    atomic_init(&w->n_free, s->config.parallel);
    atomic_init(&w->round_us, 0);
    atomic_init(&w->usual_us, 0);
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->given_more, &attr);
    pthread_condattr_destroy(&attr);
    *out = w;
    w->started = pthread_create(&w->thread, NULL, work, w) == 0;
    return w->started ? CLI_OK : cli_fail(CLI_IO, "cannot start a thread");
}

void srv_worker_free(srv_worker *w) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stopping = 1;
    pthread_cond_signal(&w->given_more);
    pthread_mutex_unlock(&w->lock);
    if (w->started) pthread_join(w->thread, NULL);
    srv_kept_free(w->kept);
    srv_slots_free(w->slots);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->given_more);
    free(w->asked);
    free(w->queries);
    free(w);
}

/* Slots that are free do not make a unit wait. Units without slots are all live, each with its
 * memory, so they have a limit too. */
static int admit(srv_worker *w, const srv_unit *u, srv_error *e) {
    int64_t queue = w->s->config.queue;
    if (w->stopping) return srv_fail(e, 503, "shutting_down", NULL, "the server is shutting down");
    if (u->type->needs_slots && w->n_slot_units < queue + atomic_load(&w->n_free)) return 0;
    if (!u->type->needs_slots && w->n_others < queue + w->s->config.parallel) return 0;
    srv_fail(e, 429, "queue_full", NULL, "%lld requests are waiting, as many as --queue allows",
             (long long)queue);
    e->retry_after = seconds_to_wait(w, w->n_slot_units);
    return -1;
}

int srv_worker_give(srv_worker *w, srv_unit *u, srv_error *e) {
    pthread_mutex_lock(&w->lock);
    int rc = admit(w, u, e);
    if (rc == 0) {
        w->n_slot_units += u->type->needs_slots != 0;
        w->n_others += !u->type->needs_slots;
        push(&w->given, u);
        pthread_cond_signal(&w->given_more);
    }
    pthread_mutex_unlock(&w->lock);
    return rc;
}

double srv_worker_idle_s(srv_worker *w) {
    long long at = atomic_load(&w->round_us);
    return at ? cli_clock() - (double)at / 1e6 : 0;
}
