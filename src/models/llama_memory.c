/* llama_memory.c - what libllama's memory holds, and the questions that are answered from it.
 *
 * The caller always hands over whole sequences. What can be reused of an earlier one is decided
 * here and nowhere else. A *slot* is one sequence in libllama's memory with the tokens it was fed
 * and how they were batched. A question first cuts its slot back to a prefix that is fit for reuse,
 * or makes it a copy of another slot that holds a longer one, then feeds the rest.
 *
 * Cutting is checked, not assumed. Models with a running state refuse it, and a sliding window may
 * have dropped what the earlier position needs; then the newest *snapshot* at or before the cut is
 * put back and the tokens behind it are fed again, or all of them. After any failure everything is
 * forgotten. */
#include "llama_memory.h"

#include "base.h"
#include "llama_question.h"

#include <string.h>

enum { LEAST_GAIN = 32 /* tokens that a copy of another slot must save */ };

/* A copy of what cannot be cut, taken when the first `pos` tokens had been fed. */
typedef struct snapshot {
    unsigned char *data;
    size_t size;
    int pos;
    int at_prompt; /* the end of the current prompt, which is kept longest */
} snapshot;

typedef struct slot {
    retrace_token *tokens; /* what the sequence holds */
    int *ends;             /* ends[i]: end of the batch that began at i; 0: none began there */
    int n;
    snapshot *snaps; /* by rising pos */
    int n_snaps, cap_snaps;
    size_t snap_bytes;
    struct job *user; /* the question being answered on it */
    int lent;         /* a copy of it is to be made when the next batch is fed */
} slot;

/* A question on its way. */
typedef struct job {
    retrace_query *q;
    slot *s;
    int seq;
    int first;          /* first row whose logits are asked for */
    int until;          /* tokens to feed */
    int prompt;         /* end of the batched part */
    const int *singles; /* pairs: what in it is fed one by one all the same */
    int n_singles;
    int pos; /* tokens in the slot */
    int end; /* after the batch in preparation; pos when it has no part in it */
    int row; /* of the token at pos in that batch */
    int done;
} job;

struct rt_memory {
    rt_llama *l;
    slot *slots;
    int n_slots;
    int n_vocab;
    int n_batch, n_logits; /* most rows in a batch, and most of them with logits */
    int stretch;           /* tokens of a prompt fed at once: batch_size */
    int deterministic;
    int recurrent, window;
    int every;          /* tokens between snapshots; 0: none are taken */
    size_t snap_budget; /* bytes of snapshots of one slot */
};

/* ==== Snapshots ==== */

static void drop_snapshot(slot *s, int i) {
    s->snap_bytes -= s->snaps[i].size;
    retrace_free(s->snaps[i].data);
    s->n_snaps--;
    memmove(s->snaps + i, s->snaps + i + 1, (size_t)(s->n_snaps - i) * sizeof *s->snaps);
}

static void drop_behind(slot *s, int pos) {
    while (s->n_snaps > 0 && s->snaps[s->n_snaps - 1].pos > pos) drop_snapshot(s, s->n_snaps - 1);
}

/* Drops the oldest, the prompt's last, until `size` more bytes fit. */
static int make_room(const rt_memory *m, slot *s, size_t size) {
    while (s->snap_bytes + size > m->snap_budget && s->n_snaps > 0) {
        int victim = s->snaps[0].at_prompt && s->n_snaps > 1 ? 1 : 0;
        drop_snapshot(s, victim);
    }
    return s->snap_bytes + size <= m->snap_budget;
}

/* Snapshots only save work, so one that cannot be had is left out. */
static void take_snapshot(rt_memory *m, job *j) {
    slot *s = j->s;
    int last = s->n_snaps ? s->snaps[s->n_snaps - 1].pos : 0;
    int at_prompt = j->pos == j->prompt;
    if (!m->every || j->pos == last || (!at_prompt && j->pos - last < m->every)) return;
    for (int i = 0; at_prompt && i < s->n_snaps; i++) s->snaps[i].at_prompt = 0;
    size_t size = rt_llama_state_size(m->l, j->seq);
    if (size == 0 || !make_room(m, s, size)) return;
    if (rt_grow(&s->snaps, &s->cap_snaps, s->n_snaps + 1, sizeof *s->snaps) < 0) return;
    unsigned char *data = retrace_alloc(size);
    if (!data) return;
    if (!rt_llama_state_save(m->l, j->seq, data, size)) {
        retrace_free(data);
        return;
    }
    s->snaps[s->n_snaps++] = (snapshot){data, size, j->pos, at_prompt};
    s->snap_bytes += size;
}

/* ==== Cutting ==== */

static void forget(slot *s) {
    while (s->n_snaps > 0) drop_snapshot(s, s->n_snaps - 1);
    s->n = 0;
}

static void forget_all(rt_memory *m) {
    rt_llama_clear(m->l);
    for (int i = 0; i < m->n_slots; i++) {
        forget(&m->slots[i]);
        m->slots[i].user = NULL;
        m->slots[i].lent = 0;
    }
}

/* 1 when the memory holds all that the token at `pos` looks back at, and nothing behind it. */
static int is_whole(const rt_memory *m, int seq, int pos) {
    int from, last;
    rt_llama_span(m->l, seq, &from, &last);
    if (last != pos - 1) return 0;
    if (m->window == 0 || m->recurrent) return 1;
    return from >= 0 && from <= (pos > m->window ? pos - m->window : 0);
}

static int cut_to(const rt_memory *m, int seq, int pos) {
    return rt_llama_cut(m->l, seq, pos) && is_whole(m, seq, pos);
}

/* The slot holds its first `pos` tokens only. A batch that went beyond is no whole one any more. */
static void hold(slot *s, int pos) {
    int at = pos - 1;
    while (at >= 0 && s->ends[at] == 0) at--;
    if (at >= 0 && s->ends[at] > pos) s->ends[at] = 0;
    s->n = pos;
}

/* Takes the slot back to `pos` tokens, or fewer. */
static void rewind_slot(rt_memory *m, slot *s, int seq, int pos) {
    if (pos == s->n) return;
    drop_behind(s, pos);
    if (pos > 0 && cut_to(m, seq, pos)) {
        hold(s, pos);
        return;
    }
    while (s->n_snaps > 0) {
        const snapshot *snap = &s->snaps[s->n_snaps - 1];
        int at = snap->pos;
        if (at <= pos && rt_llama_state_load(m->l, seq, snap->data, snap->size) &&
            cut_to(m, seq, at)) {
            hold(s, at);
            return;
        }
        drop_snapshot(s, s->n_snaps - 1);
    }
    rt_llama_cut(m->l, seq, 0);
    forget(s);
}

/* ==== Plans ====
 *
 *     prompt, in batches of batch_size      then one by one
 *     |----------|----------|----------|-----|-|-|-|-|-|-|-|
 *
 * and so within a prompt, where it holds answers that were fed so when they were written. For
 * questions that are not alone this only costs: they feed all of a prompt in batches.
 *
 * The same tokens in the same batches give the same bits; other batches round otherwise. A question
 * that is `alone` is decoded by itself, and of a prefix it reuses only as much as was fed by the
 * very batches it would use itself. The others of a call share batches, and reuse any common
 * prefix; what they were fed together counts as no batch of a plan. */

static int least(int a, int b) {
    return a < b ? a : b;
}

static int most(int a, int b) {
    return a > b ? a : b;
}

/* A batch from `pos` to `end`, or one token, where these are fed one by one. */
static int until_single(const job *j, int pos, int end) {
    int low = 0, high = j->n_singles;
    while (low < high) { /* the first pair that ends behind pos */
        int middle = low + (high - low) / 2;
        if (j->singles[2 * middle + 1] > pos)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == j->n_singles) return end;
    int from = j->singles[2 * low];
    return from <= pos ? pos + 1 : least(end, from);
}

/* Where the batch that begins at `pos` ends when the question is decoded alone. */
static int plan_end(const rt_memory *m, const job *j, int pos) {
    if (pos >= j->prompt) return pos + 1;
    int end = least(j->prompt, (pos / m->stretch + 1) * m->stretch);
    end = least(end, most(j->first, pos) + m->n_logits);
    return until_single(j, pos, end);
}

static int is_alone(const rt_memory *m, const retrace_query *q) {
    return m->deterministic || q->alone;
}

/* Behind a copy at least one token is fed: that is when the copy is made. */
static int common_prefix(const job *j, const slot *s) {
    int limit = least(s->n, least(j->until - (s != j->s), j->first)), i = 0;
    while (i < limit && s->tokens[i] == j->q->tokens[i]) i++;
    return i;
}

/* How many of a slot's tokens the question may take over. */
static int reusable(const rt_memory *m, const job *j, const slot *s) {
    int common = common_prefix(j, s), pos = 0;
    if (!is_alone(m, j->q)) return common;
    while (pos < common) {
        int end = plan_end(m, j, pos);
        if (end > common || s->ends[pos] != end) break;
        pos = end;
    }
    return pos;
}

/* ==== Copies between slots ====
 *
 * libllama copies a whole sequence and at once only its list of cells; the cells' contents follow
 * when the next batch is fed, before that batch. Until then nothing may be written to them: a slot
 * that has been lent begins no other question, which might put a snapshot back there. Cutting
 * changes the list alone. A running state is not cut, so its copy needs a snapshot at the cut,
 * which is put back into the running state's own cells. */

/* To how many tokens, at most `pos`, the slot can be taken back without feeding. */
static int nearest(const rt_memory *m, const slot *s, int seq, int pos, int borrowed) {
    int first, last, whole = 1, snap = 0;
    if (pos == s->n || pos == 0) return pos;
    rt_llama_span(m->l, seq, &first, &last);
    if (m->window > 0) whole = first >= 0 && first <= most(0, pos - m->window);
    if (whole && !m->recurrent) return pos;
    for (int i = 0; i < s->n_snaps && s->snaps[i].pos <= pos; i++) snap = s->snaps[i].pos;
    return borrowed && !m->recurrent ? 0 : snap;
}

/* The slot that saves most beyond what the question's own one does; NULL: none is worth a copy. */
static slot *lender(const rt_memory *m, const job *j, int *pos) {
    slot *best = NULL;
    int own = nearest(m, j->s, j->seq, reusable(m, j, j->s), 0), gain = LEAST_GAIN - 1;
    if (m->recurrent && m->window > 0) return NULL;
    if (least(j->until - 1, j->first) < own + LEAST_GAIN) return NULL; /* as it mostly is */
    for (int i = 0; i < m->n_slots; i++) {
        slot *s = &m->slots[i];
        if (s == j->s || s->n < own + LEAST_GAIN) continue;
        int at = nearest(m, s, i, reusable(m, j, s), 1);
        if (at - own <= gain) continue;
        gain = at - own;
        best = s;
        *pos = at;
    }
    return best;
}

/* The snapshot of a slot that a copy of its first `pos` tokens needs: 1 when none, or it is there.
 */
static int copy_snapshot(slot *to, const slot *from, int pos) {
    const snapshot *snap = NULL;
    for (int i = 0; i < from->n_snaps && !snap; i++) {
        if (from->snaps[i].pos == pos) snap = &from->snaps[i];
    }
    if (!snap) return pos == from->n;
    if (rt_grow(&to->snaps, &to->cap_snaps, 1, sizeof *to->snaps) < 0) return 0;
    unsigned char *data = retrace_alloc(snap->size);
    if (!data) return 0;
    memcpy(data, snap->data, snap->size);
    to->snaps[to->n_snaps++] = (snapshot){data, snap->size, pos, snap->at_prompt};
    to->snap_bytes += snap->size;
    return 1;
}

/* Makes the question's slot a copy of the first `pos` tokens of another one. Failing leaves it
 * empty. */
static void borrow(rt_memory *m, job *j, slot *from, int pos) {
    slot *to = j->s;
    forget(to);
    if ((m->recurrent && !copy_snapshot(to, from, pos)) ||
        !rt_llama_copy(m->l, (int)(from - m->slots), j->seq)) {
        forget(to);
        rt_llama_cut(m->l, j->seq, 0);
        return;
    }
    from->lent = to->lent = 1;
    memcpy(to->tokens, from->tokens, (size_t)from->n * sizeof *to->tokens);
    memcpy(to->ends, from->ends, (size_t)from->n * sizeof *to->ends);
    to->n = from->n;
    rewind_slot(m, to, j->seq, pos);
}

static void begin(rt_memory *m, job *j) {
    rt_need need = rt_question_begin(j->q);
    int pos = 0;
    j->until = need.until;
    j->first = need.first;
    j->prompt = least(most(j->q->n_prompt, 0), j->until);
    j->singles = j->q->singles;
    j->n_singles = is_alone(m, j->q) ? j->q->n_singles : 0;
    j->s->user = j;
    slot *from = j->until > 0 ? lender(m, j, &pos) : NULL;
    if (from)
        borrow(m, j, from, pos);
    else if (j->until > 0)
        rewind_slot(m, j->s, j->seq, reusable(m, j, j->s));
    j->pos = j->end = j->until > 0 ? j->s->n : 0;
}

/* ==== Decoding ==== */

typedef struct batch {
    int n, n_wanted, n_jobs;
} batch;

/* Gives the job its share of the batch: all of its next stretch, or what fits. */
static void add_stretch(rt_memory *m, job *j, batch *b) {
    int end = least(plan_end(m, j, j->pos), j->pos + m->n_batch - b->n);
    end = least(end, most(j->first, j->pos) + m->n_logits - b->n_wanted);
    if (end <= j->pos) return;
    for (int i = j->pos; i < end; i++) {
        int want = i >= j->first;
        int row = rt_llama_put(m->l, j->q->tokens[i], i, j->seq, want);
        if (i == j->pos) j->row = row;
        b->n_wanted += want;
    }
    b->n += end - j->pos;
    b->n_jobs++;
    j->end = end;
}

static int read_rows(rt_memory *m, job *j, retrace_error *err) {
    int rc = RETRACE_OK;
    for (int i = most(j->first, j->pos); i < j->end && rc == RETRACE_OK; i++) {
        const float *logits = rt_llama_row(m->l, j->row + i - j->pos);
        rc = rt_question_row(j->q, i, logits, m->n_vocab, err);
    }
    return rc;
}

/* Records what the slot holds now, fed by a batch that was its own or shared. */
static void advance(rt_memory *m, job *j, int shared) {
    slot *s = j->s;
    int n = j->end - j->pos;
    memcpy(s->tokens + j->pos, j->q->tokens + j->pos, (size_t)n * sizeof *s->tokens);
    memset(s->ends + j->pos, 0, (size_t)n * sizeof *s->ends);
    s->ends[j->pos] = shared ? 0 : j->end;
    s->n = j->pos = j->end;
    j->q->evaluated += n;
    take_snapshot(m, j);
    j->done = j->pos == j->until;
    if (j->done) s->user = NULL;
}

/* 1 when the job holds its slot and has something to feed; takes a slot that is free. */
static int is_live(rt_memory *m, job *j) {
    if (j->done || (j->s->user && j->s->user != j)) return 0;
    if (!j->s->user && j->s->lent) return 0;
    if (!j->s->user) begin(m, j);
    j->done = j->pos >= j->until;
    if (j->done) j->s->user = NULL;
    return !j->done;
}

/* One call of llama_decode: single tokens first, then prompts. *n_left counts the jobs not done. */
static int run_round(rt_memory *m, job *jobs, int n, int *n_left, retrace_error *err) {
    batch b = {0};
    int rc = RETRACE_OK;
    for (int i = 0; i < n; i++) {
        job *j = &jobs[i];
        j->end = j->pos;
        if (is_live(m, j) && plan_end(m, j, j->pos) == j->pos + 1) add_stretch(m, j, &b);
    }
    for (int i = 0; i < n; i++) {
        job *j = &jobs[i];
        if (j->s->user == j && j->end == j->pos) add_stretch(m, j, &b);
    }
    if (b.n > 0) rc = rt_llama_decode(m->l, err);
    for (int i = 0; i < m->n_slots; i++) m->slots[i].lent = 0;
    *n_left = 0;
    for (int i = 0; i < n && rc == RETRACE_OK; i++) {
        job *j = &jobs[i];
        if (j->s->user == j && j->end > j->pos) {
            rc = read_rows(m, j, err);
            if (rc == RETRACE_OK) advance(m, j, b.n_jobs > 1);
        }
        *n_left += !j->done;
    }
    return rc;
}

/* Answers n questions side by side. */
static int answer(rt_memory *m, job *jobs, int n, retrace_error *err) {
    int left = n, rc = RETRACE_OK;
    while (left > 0 && rc == RETRACE_OK) rc = run_round(m, jobs, n, &left, err);
    return rc;
}

int rt_memory_eval(rt_memory *m, retrace_query *q, int n, retrace_error *err) {
    int shared = 0, all = 0, rc = RETRACE_OK;
    job *jobs = retrace_calloc((size_t)n, sizeof *jobs);
    if (!jobs) return rt_nomem(err);
    for (int alone = 0; alone < 2; alone++) {
        for (int i = 0; i < n; i++) {
            if (q[i].slot == RETRACE_PASSING || is_alone(m, &q[i]) != alone) continue;
            int seq = (q[i].slot % m->n_slots + m->n_slots) % m->n_slots;
            jobs[all++] = (job){.q = &q[i], .s = &m->slots[seq], .seq = seq};
            q[i].evaluated = 0;
        }
        if (!alone) shared = all;
    }
    if (shared > 0) rc = answer(m, jobs, shared, err);
    for (int i = shared; i < all && rc == RETRACE_OK; i++) rc = answer(m, &jobs[i], 1, err);
    if (rc < 0) forget_all(m);
    retrace_free(jobs);
    return rc;
}

/* ==== Making it ==== */

void rt_memory_free(rt_memory *m) {
    if (!m) return;
    for (int i = 0; m->slots && i < m->n_slots; i++) {
        forget(&m->slots[i]);
        retrace_free(m->slots[i].snaps);
        retrace_free(m->slots[i].tokens);
        retrace_free(m->slots[i].ends);
    }
    retrace_free(m->slots);
    retrace_free(m);
}

static int make_slots(rt_memory *m, int n_ctx, retrace_error *err) {
    m->slots = retrace_calloc((size_t)m->n_slots, sizeof *m->slots);
    if (!m->slots) return rt_nomem(err);
    for (int i = 0; i < m->n_slots; i++) {
        m->slots[i].tokens = retrace_alloc((size_t)n_ctx * sizeof(retrace_token));
        m->slots[i].ends = retrace_calloc((size_t)n_ctx, sizeof(int));
        if (!m->slots[i].tokens || !m->slots[i].ends) return rt_nomem(err);
    }
    return RETRACE_OK;
}

int rt_memory_new(rt_memory **out, rt_llama *l, const rt_memory_params *p, retrace_error *err) {
    rt_llama_facts f;
    rt_llama_facts_of(l, &f);
    rt_memory *m = retrace_alloc(sizeof *m);
    if (!m) return rt_nomem(err);
    *m = (rt_memory){
        .l = l,
        .n_slots = p->n_slots,
        .n_vocab = f.vocab,
        .n_batch = f.n_batch,
        .n_logits = f.n_logits,
        .stretch = least(p->batch_size, f.n_batch),
        .deterministic = p->deterministic,
        .recurrent = f.recurrent,
        .window = f.window,
        .every = p->every,
        .snap_budget = p->snap_budget,
    };
    int rc = make_slots(m, f.n_ctx, err);
    if (rc < 0) {
        rt_memory_free(m);
        return rc;
    }
    *out = m;
    return RETRACE_OK;
}
