/* slots.c - which of the model's sequences a run gets, and what each is known to hold.
 *
 * The model reuses by itself what a sequence holds of the next question, and copies a beginning
 * from another sequence. So this is about choosing well: who goes on where it left off finds its
 * tokens; else the sequence that was not used for the longest time is given up. And it is about
 * waiting: a prompt that is being computed in one slot need not be computed in another. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

typedef struct slot {
    int busy;
    retrace_token *held;
    int n, cap;
    int64_t used; /* order of use */
    const retrace_token *promised;
    int n_promised;
    int base; /* tokens of the promise that some slot held when it was made */
} slot;

struct srv_slots {
    slot *v;
    int n, n_free;
    int refused; /* someone got none in this turn */
    int64_t uses;
};

srv_slots *srv_slots_new(int n) {
    srv_slots *l = cli_alloc(sizeof *l);
    l->v = cli_alloc((size_t)n * sizeof *l->v);
    l->n = l->n_free = n;
    return l;
}

void srv_slots_free(srv_slots *l) {
    if (!l) return;
    for (int i = 0; i < l->n; i++) free(l->v[i].held);
    free(l->v);
    free(l);
}

int srv_slots_n_free(const srv_slots *l) {
    return l->n_free;
}

void srv_slots_begin_turn(srv_slots *l) {
    l->refused = 0;
}

int srv_slots_refused(const srv_slots *l) {
    return l->refused;
}

static int common(const retrace_token *a, int n_a, const retrace_token *b, int n_b) {
    int i = 0;
    while (i < n_a && i < n_b && a[i] == b[i]) i++;
    return i;
}

/* 1 when x is to be taken rather than y (NULL: none yet). A slot counts as gone on with when at
 * least half of what it holds is of use, else taking it would cost more than it saves. */
static int better(const slot *x, int same_x, const slot *y, int same_y, int again) {
    int keeps_x = same_x > 0 && (again || 2 * same_x >= x->n);
    if (!y) return 1;
    int keeps_y = same_y > 0 && (again || 2 * same_y >= y->n);
    if (keeps_x != keeps_y) return keeps_x;
    if (keeps_x && same_x != same_y) return same_x > same_y;
    if (!keeps_x && (x->n == 0) != (y->n == 0)) return x->n == 0;
    return x->used < y->used;
}

int srv_slots_take(srv_slots *l, const retrace_token *v, int n, int again) {
    int found = SRV_NO_SLOT, best = 0;
    for (int i = 0; i < l->n; i++) {
        const slot *s = &l->v[i];
        if (s->busy) continue;
        int same = common(s->held, s->n, v, n);
        if (!better(s, same, found < 0 ? NULL : &l->v[found], best, again)) continue;
        found = i;
        best = same;
    }
    if (found < 0) {
        l->refused = 1;
        return SRV_NO_SLOT;
    }
    l->v[found].busy = 1;
    l->n_free--;
    return found;
}

void srv_slots_give_back(srv_slots *l, int i) {
    slot *s = &l->v[i];
    s->busy = 0;
    s->promised = NULL;
    s->used = ++l->uses;
    l->n_free++;
}

void srv_slots_hold(srv_slots *l, int i, const retrace_token *v, int n) {
    slot *s = &l->v[i];
    size_t bytes = (size_t)s->n * sizeof *v;
    int grows = s->n <= n && (s->n == 0 || memcmp(s->held, v, bytes) == 0); /* as nearly always */
    int same = grows ? s->n : common(s->held, s->n, v, n);
    if (n > s->cap) {
        s->cap = 2 * n;
        s->held = cli_realloc(s->held, (size_t)s->cap * sizeof *s->held);
    }
    if (n > same) memcpy(s->held + same, v + same, (size_t)(n - same) * sizeof *v);
    s->n = n;
}

void srv_slots_forget(srv_slots *l) {
    for (int i = 0; i < l->n; i++) l->v[i].n = 0;
}

static int held_elsewhere(const srv_slots *l, int but, const retrace_token *v, int n) {
    int most = 0;
    for (int i = 0; i < l->n; i++) {
        int same = i == but ? 0 : common(l->v[i].held, l->v[i].n, v, n);
        if (same > most) most = same;
    }
    return most;
}

int srv_slots_held(const srv_slots *l, const retrace_token *v, int n) {
    return held_elsewhere(l, SRV_NO_SLOT, v, n);
}

void srv_slots_promise(srv_slots *l, int i, const retrace_token *v, int n) {
    l->v[i].promised = v;
    l->v[i].n_promised = n;
    l->v[i].base = v ? srv_slots_held(l, v, n) : 0;
}

/* What was there before the promise, and what other slots hold, need not be waited for. */
int srv_slots_wait(const srv_slots *l, int mine, const retrace_token *v, int n) {
    for (int i = 0; i < l->n; i++) {
        const slot *s = &l->v[i];
        if (i == mine || !s->promised) continue;
        int share = common(s->promised, s->n_promised, v, n);
        int there = held_elsewhere(l, i, v, n);
        if (s->base > there) there = s->base;
        if (share - there >= SRV_SHARE_LEAST) return 1;
    }
    return 0;
}
