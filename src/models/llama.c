/* llama.c - the back end over libllama: `llama:FILE.gguf`.
 *
 * The caller always hands over whole sequences. What can be reused of an earlier one is decided
 * here and nowhere else. A *slot* is one sequence in libllama's memory with the tokens it was fed
 * and how they were batched. A question first cuts its slot back to a prefix that is fit for reuse,
 * then feeds the rest.
 *
 * Cutting is checked, not assumed. Models with a running state refuse it, and a sliding window may
 * have dropped what the earlier position needs; then the newest *snapshot* at or before the cut is
 * put back and the tokens behind it are fed again, or all of them. After any failure everything is
 * forgotten. */
#include "base.h"
#include "llama_cores.h"
#include "llama_expand.h"
#include "llama_factors.h"
#include "llama_gguf.h"
#include "llama_passing.h"
#include "llama_question.h"
#include "llama_shim.h"
#include "llama_text.h"
#include "models.h"

#include <stdio.h>
#include <string.h>

enum {
    CTX_CAP = 4096,    /* of a model that says it can do more, unless asked for */
    EVERY_STATE = 16,  /* tokens between snapshots of a running state */
    EVERY_WINDOW = 256 /* ... of a sliding window, which can be cut by a few hundred tokens */
};

typedef struct settings {
    int64_t ctx_size, threads, batch_size, n_gpu_layers, parallel, snapshots;
    int swa_full, deterministic, weights;
    retrace_text device;
} settings;

static const retrace_setting_info table[] = {
    {"ctx_size", RETRACE_INT, offsetof(settings, ctx_size), "0", 0, 1 << 24, NULL,
     "tokens that fit, prompt included; 0: what the model was trained for, at most 4096"},
    {"threads", RETRACE_INT, offsetof(settings, threads), "0", 0, 512, NULL,
     "CPU threads; 0: one for each physical core that may be used"},
    {"batch_size", RETRACE_INT, offsetof(settings, batch_size), "512", 1, 1 << 16, NULL,
     "most tokens of a prompt that are fed at once"},
    {"n_gpu_layers", RETRACE_INT, offsetof(settings, n_gpu_layers), "-1", -1, 1 << 16, NULL,
     "layers to keep on a GPU where there is one; -1: all, 0: none"},
    {"device", RETRACE_TEXT, offsetof(settings, device), "auto", 0, 0, NULL,
     "auto, cpu, cuda:N or the name of a device"},
    {"parallel", RETRACE_INT, offsetof(settings, parallel), "1", 1, 256, NULL,
     "sequences kept side by side, each with ctx_size tokens"},
    {"swa_full", RETRACE_BOOL, offsetof(settings, swa_full), "false", 0, 0, NULL,
     "keep all tokens of sliding-window layers: exact rewinds of any length, for memory"},
    {"deterministic", RETRACE_BOOL, offsetof(settings, deterministic), "true", 0, 0, NULL,
     "decode each question by itself in fixed batches, so that its answer never depends on others"},
    {"weights", RETRACE_CHOICE, offsetof(settings, weights), "file", 0, 0, "file|f32",
     "file: as the file has them; f32: expanded, for memory, which makes batches of many rows "
     "fast"},
    {"snapshots", RETRACE_INT, offsetof(settings, snapshots), "256", 0, 1 << 20, NULL,
     "MiB for copies of the state of recurrent and sliding-window models, for rewinds"},
    {0},
};

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
} slot;

/* A question on its way. */
typedef struct job {
    retrace_query *q;
    slot *s;
    int seq;
    int first;  /* first row whose logits are asked for */
    int until;  /* tokens to feed */
    int prompt; /* end of the batched part */
    int pos;    /* tokens in the slot */
    int end;    /* after the batch in preparation; pos when it has no part in it */
    int row;    /* of the token at pos in that batch */
    int done;
} job;

typedef struct model {
    struct retrace_model base;
    rt_llama *l;
    rt_passing *passing; /* NULL before the first passing question */
    rt_work *work;       /* NULL before it is needed; so the next */
    rt_factorer *factorer;
    slot *slots;
    retrace_token_info *vocab;
    char *pieces;
    char *name, *path;
    int n_slots;
    int n_threads;
    int n_batch, n_logits; /* most rows in a batch, and most of them with logits */
    int stretch;           /* tokens of a prompt fed at once: batch_size */
    int deterministic;
    int recurrent, window;
    int every;          /* tokens between snapshots; 0: none are taken */
    size_t snap_budget; /* bytes of snapshots of one slot */
} model;

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
static int make_room(const model *m, slot *s, size_t size) {
    while (s->snap_bytes + size > m->snap_budget && s->n_snaps > 0) {
        int victim = s->snaps[0].at_prompt && s->n_snaps > 1 ? 1 : 0;
        drop_snapshot(s, victim);
    }
    return s->snap_bytes + size <= m->snap_budget;
}

/* Snapshots only save work, so one that cannot be had is left out. */
static void take_snapshot(model *m, job *j) {
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

static void forget_all(model *m) {
    rt_llama_clear(m->l);
    for (int i = 0; i < m->n_slots; i++) {
        forget(&m->slots[i]);
        m->slots[i].user = NULL;
    }
}

/* 1 when the memory holds all that the token at `pos` looks back at, and nothing behind it. */
static int is_whole(const model *m, int seq, int pos) {
    int from, last;
    rt_llama_span(m->l, seq, &from, &last);
    if (last != pos - 1) return 0;
    if (m->window == 0 || m->recurrent) return 1;
    return from >= 0 && from <= (pos > m->window ? pos - m->window : 0);
}

static int cut_to(const model *m, int seq, int pos) {
    return rt_llama_cut(m->l, seq, pos) && is_whole(m, seq, pos);
}

/* Takes the slot back to `pos` tokens, or fewer. */
static void rewind_slot(model *m, slot *s, int seq, int pos) {
    if (pos == s->n) return;
    drop_behind(s, pos);
    if (pos > 0 && cut_to(m, seq, pos)) {
        s->n = pos;
        return;
    }
    while (s->n_snaps > 0) {
        const snapshot *snap = &s->snaps[s->n_snaps - 1];
        int at = snap->pos;
        if (at <= pos && rt_llama_state_load(m->l, seq, snap->data, snap->size) &&
            cut_to(m, seq, at)) {
            s->n = at;
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
 * The same tokens in the same batches give the same bits; other batches round otherwise. With
 * `deterministic` each question is decoded alone, and a prefix is reused only as far as it was fed
 * by the very batches the question would use itself. Without it the questions of a call share
 * batches, and any common prefix is reused. */

static int least(int a, int b) {
    return a < b ? a : b;
}

static int most(int a, int b) {
    return a > b ? a : b;
}

/* Where the batch that begins at `pos` ends when the question is decoded alone. */
static int plan_end(const model *m, const job *j, int pos) {
    if (pos >= j->prompt) return pos + 1;
    int end = least(j->prompt, (pos / m->stretch + 1) * m->stretch);
    return least(end, most(j->first, pos) + m->n_logits);
}

static int common_prefix(const job *j) {
    int limit = least(j->s->n, least(j->until, j->first)), i = 0;
    while (i < limit && j->s->tokens[i] == j->q->tokens[i]) i++;
    return i;
}

/* How many of the slot's tokens may stay. */
static int reusable(const model *m, const job *j) {
    int common = common_prefix(j), pos = 0;
    if (!m->deterministic) return common;
    while (pos < common) {
        int end = plan_end(m, j, pos);
        if (end > common || j->s->ends[pos] != end) break;
        pos = end;
    }
    return pos;
}

static void begin(model *m, job *j) {
    rt_need need = rt_question_begin(j->q);
    j->until = need.until;
    j->first = need.first;
    j->prompt = least(most(j->q->n_prompt, 0), j->until);
    j->s->user = j;
    if (j->until > 0) rewind_slot(m, j->s, j->seq, reusable(m, j));
    j->pos = j->end = j->until > 0 ? j->s->n : 0;
}

/* ==== Decoding ==== */

typedef struct batch {
    int n, n_wanted;
} batch;

/* Gives the job its share of the batch: all of its next stretch, or what fits. */
static void add_stretch(model *m, job *j, batch *b) {
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
    j->end = end;
}

static int read_rows(model *m, job *j, retrace_error *err) {
    int rc = RETRACE_OK;
    for (int i = most(j->first, j->pos); i < j->end && rc == RETRACE_OK; i++) {
        const float *logits = rt_llama_row(m->l, j->row + i - j->pos);
        rc = rt_question_row(j->q, i, logits, m->base.facts.vocab, err);
    }
    return rc;
}

/* Records what the slot holds now. */
static void advance(model *m, job *j) {
    slot *s = j->s;
    int n = j->end - j->pos;
    memcpy(s->tokens + j->pos, j->q->tokens + j->pos, (size_t)n * sizeof *s->tokens);
    memset(s->ends + j->pos, 0, (size_t)n * sizeof *s->ends);
    s->ends[j->pos] = j->end;
    s->n = j->pos = j->end;
    j->q->evaluated += n;
    take_snapshot(m, j);
    j->done = j->pos == j->until;
    if (j->done) s->user = NULL;
}

/* 1 when the job holds its slot and has something to feed; takes a slot that is free. */
static int is_live(model *m, job *j) {
    if (j->done || (j->s->user && j->s->user != j)) return 0;
    if (!j->s->user) begin(m, j);
    j->done = j->pos >= j->until;
    if (j->done) j->s->user = NULL;
    return !j->done;
}

/* One call of llama_decode: single tokens first, then prompts. *n_left counts the jobs not done. */
static int run_round(model *m, job *jobs, int n, int *n_left, retrace_error *err) {
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
    *n_left = 0;
    for (int i = 0; i < n && rc == RETRACE_OK; i++) {
        job *j = &jobs[i];
        if (j->s->user == j && j->end > j->pos) {
            rc = read_rows(m, j, err);
            if (rc == RETRACE_OK) advance(m, j);
        }
        *n_left += !j->done;
    }
    return rc;
}

/* Answers the questions that are not passing, in their slots. */
static int eval_slots(model *m, retrace_query *q, int n, retrace_error *err) {
    int k = 0;
    job *jobs = retrace_calloc((size_t)n, sizeof *jobs);
    if (!jobs) return rt_nomem(err);
    for (int i = 0; i < n; i++) {
        if (q[i].slot == RETRACE_PASSING) continue;
        int seq = (q[i].slot % m->n_slots + m->n_slots) % m->n_slots;
        jobs[k++] = (job){.q = &q[i], .s = &m->slots[seq], .seq = seq};
        q[i].evaluated = 0;
    }
    int rc = RETRACE_OK, together = m->deterministic ? 1 : k;
    for (int i = 0; i < k && rc == RETRACE_OK; i += together) {
        int left = 1;
        while (left > 0 && rc == RETRACE_OK) rc = run_round(m, jobs + i, together, &left, err);
    }
    if (rc < 0) forget_all(m);
    retrace_free(jobs);
    return rc;
}

static int want_work(model *m, retrace_error *err) {
    return m->work ? RETRACE_OK : rt_work_new(&m->work, m->n_threads, err);
}

static int eval(retrace_model *base, retrace_query *q, int n, retrace_error *err) {
    model *m = (model *)base;
    int n_passing = 0, rc = RETRACE_OK;
    for (int i = 0; i < n; i++) n_passing += q[i].slot == RETRACE_PASSING;
    if (n_passing < n) rc = eval_slots(m, q, n, err);
    if (n_passing > 0 && rc == RETRACE_OK) rc = want_work(m, err);
    if (n_passing > 0 && rc == RETRACE_OK && !m->passing) {
        m->passing = rt_passing_new(m->l, m->work, m->n_threads);
        if (!m->passing) rc = rt_nomem(err);
    }
    if (n_passing > 0 && rc == RETRACE_OK) rc = rt_passing_eval(m->passing, q, n, err);
    return rc;
}

/* ==== Text ==== */

static int tokenize(const retrace_model *base, retrace_text text, int flags, retrace_token **out,
                    int *n, retrace_error *err) {
    return rt_llama_tokens(base, ((const model *)base)->l, text, flags, out, n, err);
}

static int chat(const retrace_model *base, const retrace_message *messages, int n_messages,
                retrace_token **out, int *n, retrace_error *err) {
    return rt_llama_chat(base, ((const model *)base)->l, messages, n_messages, out, n, err);
}

/* ==== Factors ==== */

static int want_factorer(model *m, retrace_error *err) {
    int rc = m->factorer ? RETRACE_OK : want_work(m, err);
    if (rc == RETRACE_OK && !m->factorer) {
        m->factorer = rt_factorer_new(m->path, m->l, m->work, m->n_threads);
        if (!m->factorer) rc = rt_nomem(err);
    }
    return rc;
}

static int factor_dim(retrace_model *base, int *dim, retrace_error *err) {
    model *m = (model *)base;
    int rc = want_factorer(m, err);
    return rc == RETRACE_OK ? rt_factorer_dim(m->factorer, dim, err) : rc;
}

static int factor_states(retrace_model *base, const retrace_token *anchor, int n_anchor,
                         const retrace_token *tokens, int n, float *states, float *logits,
                         retrace_error *err) {
    model *m = (model *)base;
    int rc = want_factorer(m, err);
    if (rc < 0) return rc;
    return rt_factorer_states(m->factorer, anchor, n_anchor, tokens, n, states, logits, err);
}

static int factor_output(retrace_model *base, float *w, retrace_error *err) {
    model *m = (model *)base;
    int rc = want_factorer(m, err);
    return rc == RETRACE_OK ? rt_factorer_output(m->factorer, w, err) : rc;
}

static int factor_multiply(retrace_model *base, const float *w, const float *states, int n,
                           float *x, retrace_error *err) {
    model *m = (model *)base;
    int rc = want_factorer(m, err);
    return rc == RETRACE_OK ? rt_factorer_multiply(m->factorer, w, states, n, x, err) : rc;
}

static int factor_together(retrace_model *base, int n, void (*fn)(void *ud, int part), void *ud,
                           retrace_error *err) {
    model *m = (model *)base;
    int rc = want_work(m, err);
    return rc == RETRACE_OK ? rt_work_run(m->work, n, fn, ud, err) : rc;
}

static const retrace_factors factors = {
    .dim = factor_dim,
    .states = factor_states,
    .states_batch = RT_STATES_BATCH,
    .output = factor_output,
    .multiply = factor_multiply,
    .together = factor_together,
};

/* ==== Opening ==== */

static void close_model(retrace_model *base) {
    model *m = (model *)base;
    if (!m) return;
    for (int i = 0; m->slots && i < m->n_slots; i++) {
        forget(&m->slots[i]);
        retrace_free(m->slots[i].snaps);
        retrace_free(m->slots[i].tokens);
        retrace_free(m->slots[i].ends);
    }
    rt_passing_free(m->passing);
    rt_factorer_free(m->factorer);
    rt_work_free(m->work);
    rt_llama_close(m->l);
    retrace_free(m->slots);
    retrace_free(m->vocab);
    retrace_free(m->pieces);
    retrace_free(m->name);
    retrace_free(m->path);
    retrace_free(m);
}

static int load_vocab(model *m, int n, retrace_error *err) {
    size_t total = 0, at = 0;
    m->vocab = retrace_calloc((size_t)n, sizeof *m->vocab);
    if (!m->vocab) return rt_nomem(err);
    for (int id = 0; id < n; id++) {
        m->vocab[id].n = rt_llama_piece(m->l, id, NULL, 0);
        m->vocab[id].flags = rt_llama_flags(m->l, id);
        total += (size_t)m->vocab[id].n;
    }
    m->pieces = retrace_alloc(total + 1);
    if (!m->pieces) return rt_nomem(err);
    for (int id = 0; id < n; id++) {
        m->vocab[id].bytes = m->pieces + at;
        rt_llama_piece(m->l, id, m->pieces + at, m->vocab[id].n);
        at += (size_t)m->vocab[id].n;
    }
    m->base.vocab = m->vocab;
    return RETRACE_OK;
}

static int make_slots(model *m, int n_ctx, retrace_error *err) {
    m->slots = retrace_calloc((size_t)m->n_slots, sizeof *m->slots);
    if (!m->slots) return rt_nomem(err);
    for (int i = 0; i < m->n_slots; i++) {
        m->slots[i].tokens = retrace_alloc((size_t)n_ctx * sizeof(retrace_token));
        m->slots[i].ends = retrace_calloc((size_t)n_ctx, sizeof(int));
        if (!m->slots[i].tokens || !m->slots[i].ends) return rt_nomem(err);
    }
    return RETRACE_OK;
}

/* What the file calls the model, if that is a line of text, else the file's own name. */
static int find_name(model *m, const char *path, retrace_error *err) {
    char text[256];
    const char *slash = strrchr(path, '/');
    if (slash) path = slash + 1;
    if (rt_llama_meta(m->l, "general.name", text, sizeof text) > 0) {
        int odd = rt_utf8_check(text, strlen(text)) < strlen(text);
        for (const char *s = text; *s; s++) odd |= (unsigned char)*s < ' ' || *s == 0x7f;
        if (!odd) path = text;
    }
    m->name = rt_copy(path, strlen(path));
    return m->name ? RETRACE_OK : rt_nomem(err);
}

/* libllama rounds a sliding window's cache up to whole blocks of 256 tokens, and keeps all tokens
 * when that reaches the context. */
static int window_forgets(const rt_llama_facts *f, const settings *s) {
    int64_t kept = ((int64_t)f->window + f->n_batch + 255) / 256 * 256;
    return f->window > 0 && !s->swa_full && kept < f->n_ctx;
}

/* What stands before a document. A file tuned for chat may name the end of a turn as its end token,
 * so the name that separates documents in training comes first. */
static retrace_token find_start(const model *m, const rt_llama_facts *f) {
    static const char name[] = "<|endoftext|>";
    if (f->add_bos) return f->bos;
    for (int id = 0; id < f->vocab; id++) {
        const retrace_token_info *v = &m->vocab[id];
        int special = v->flags & (RETRACE_TOKEN_CONTROL | RETRACE_TOKEN_END);
        if (special && v->n == sizeof name - 1 && memcmp(v->bytes, name, sizeof name - 1) == 0)
            return id;
    }
    return f->eos >= 0 ? f->eos : f->bos;
}

static int fill(model *m, const char *path, uint64_t hash, const settings *s, retrace_error *err) {
    rt_llama_facts f;
    rt_llama_facts_of(m->l, &f);
    int cannot_cut = f.recurrent || window_forgets(&f, s);
    m->n_batch = f.n_batch;
    m->n_logits = f.n_logits;
    m->stretch = least((int)s->batch_size, f.n_batch);
    m->recurrent = f.recurrent;
    m->window = f.window;
    m->snap_budget = ((size_t)s->snapshots << 20) / (size_t)m->n_slots;
    if (cannot_cut && s->snapshots > 0) m->every = f.recurrent ? EVERY_STATE : EVERY_WINDOW;
    m->base.facts = (retrace_model_info){
        .backend = "llama",
        .rewind = !cannot_cut ? "exact"
                  : m->every  ? "snapshot"
                              : "replay",
        .vocab = f.vocab,
        .n_ctx = f.n_ctx,
        .n_params = f.n_params,
        .size_bytes = f.size_bytes,
        .chat_template = rt_llama_template(m->l) != NULL,
        .add_bos = f.add_bos,
        .bos = f.bos,
        .weights = s->weights ? "f32" : "file",
        .hash = hash,
    };
    int rc = find_name(m, path, err);
    m->base.facts.name = m->name;
    if (rc == RETRACE_OK) rc = load_vocab(m, f.vocab, err);
    if (rc == RETRACE_OK) m->base.facts.start = find_start(m, &f);
    return rc == RETRACE_OK ? make_slots(m, f.n_ctx, err) : rc;
}

static int open_file(model *m, const char *path, const settings *s, retrace_error *err) {
    char *device = rt_copy(s->device.s, s->device.n);
    m->path = rt_copy(path, strlen(path));
    if (!device || !m->path) {
        retrace_free(device);
        return rt_nomem(err);
    }
    m->n_slots = (int)s->parallel;
    m->deterministic = s->deterministic;
    m->n_threads = s->threads ? (int)s->threads : rt_cores();
    rt_llama_params p = {
        .path = path,
        .device = device,
        .n_gpu_layers = (int)s->n_gpu_layers,
        .n_ctx = (int)s->ctx_size,
        .n_batch = most((int)s->batch_size, m->n_slots),
        .n_seq = m->n_slots,
        .n_threads = m->n_threads,
        .swa_full = s->swa_full,
    };
    uint64_t hash = 0;
    int rc = rt_gguf_check(path, &hash, err);
    if (rc == RETRACE_OK && s->weights) rc = rt_expand(&p.file, path, err);
    if (rc == RETRACE_OK) rc = rt_llama_open(&m->l, &p, CTX_CAP, err);
    if (p.file) fclose(p.file);
    retrace_free(device);
    return rc == RETRACE_OK ? fill(m, path, hash, s, err) : rc;
}

static int open_model(retrace_model **out, const char *where, const void *own, retrace_error *err) {
    model *m = retrace_calloc(1, sizeof *m);
    if (!m) return rt_nomem(err);
    int rc = open_file(m, where, own, err);
    if (rc < 0) {
        close_model(&m->base);
        return rc;
    }
    *out = &m->base;
    return RETRACE_OK;
}

const retrace_backend_type rt_backend_llama = {
    .abi = RETRACE_ABI,
    .scheme = "llama",
    .suffix = ".gguf",
    .help = "a GGUF file, run by libllama on the CPU or a GPU",
    .settings = table,
    .settings_size = sizeof(settings),
    .open = open_model,
    .close = close_model,
    .tokenize = tokenize,
    .chat = chat,
    .eval = eval,
    .factors = &factors,
};
