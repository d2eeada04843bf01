/* vocab.c - the tree of token texts: tokens sorted by their bytes, then one node for every byte
 * that a token does not share with the one before it. */
#include "vocab.h"
#include "base.h"

#include <stdlib.h>
#include <string.h>

rt_vocab *rt_vocab_new(const retrace_model *m) {
    rt_vocab *v = retrace_calloc(1, sizeof *v);
    if (v) v->model = m;
    return v;
}

static void clear(rt_vocab *v) {
    retrace_free(v->nodes);
    retrace_free(v->ids);
    retrace_free(v->ends);
    *v = (rt_vocab){.model = v->model};
}

void rt_vocab_free(rt_vocab *v) {
    if (v) clear(v);
    retrace_free(v);
}

retrace_text rt_vocab_text(const retrace_model *m, retrace_token id) {
    retrace_text t = retrace_piece(m, id);
    if (t.n > RT_VOCAB_DEPTH || (t.n && (m->vocab[id].flags & RETRACE_TOKEN_UNUSED))) t.n = 0;
    return t;
}

typedef struct entry {
    retrace_text text;
    retrace_token id;
} entry;

static int by_text(const void *a, const void *b) {
    const entry *x = a, *y = b;
    size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
    int order = n ? memcmp(x->text.s, y->text.s, n) : 0;
    if (order) return order;
    if (x->text.n != y->text.n) return x->text.n < y->text.n ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static size_t shared(retrace_text a, retrace_text b) {
    size_t n = 0;
    while (n < a.n && n < b.n && a.s[n] == b.s[n]) n++;
    return n;
}

/* Fills in ids, ends and digest, and *list, sorted. */
static void list_tokens(rt_vocab *v, entry *list) {
    uint64_t h = rt_digest(1, "vocab", 5);
    for (retrace_token id = 0; id < v->model->facts.vocab; id++) {
        retrace_text t = rt_vocab_text(v->model, id);
        int ends = retrace_token_ends(v->model, id);
        h = rt_digest(rt_digest(h, ends ? "e" : "t", 1), t.s, t.n);
        if (ends) {
            v->ends[v->n_ends++] = id;
        } else if (t.n) {
            list[v->n_ids++] = (entry){t, id};
            if ((int)t.n > v->depth) v->depth = (int)t.n;
        }
    }
    v->digest = h;
    qsort(list, (size_t)v->n_ids, sizeof *list, by_text);
    for (int i = 0; i < v->n_ids; i++) v->ids[i] = list[i].id;
}

/* One for every byte that is not shared with the token before. */
static uint32_t count_nodes(const rt_vocab *v, const entry *list) {
    size_t n = 0;
    for (int i = 0; i < v->n_ids; i++)
        n += list[i].text.n - (i ? shared(list[i - 1].text, list[i].text) : 0);
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* `open`: the latest node of each depth. */
static void add_nodes(rt_vocab *v, const entry *list, uint32_t *open) {
    uint32_t n = 0;
    size_t depth = 0;
    for (int i = 0; i < v->n_ids; i++) {
        size_t common = i ? shared(list[i - 1].text, list[i].text) : 0;
        for (; depth > common; depth--) v->nodes[open[depth]].next = n;
        while (depth < list[i].text.n) {
            unsigned char byte = (unsigned char)list[i].text.s[depth];
            open[++depth] = n;
            v->nodes[n++] = (rt_vocab_node){0, (uint32_t)i, (uint16_t)depth, byte};
        }
    }
    for (; depth > 0; depth--) v->nodes[open[depth]].next = n;
    v->nodes[n] = (rt_vocab_node){.first = (uint32_t)v->n_ids};
    v->n_nodes = n;
}

static int build(rt_vocab *v, entry *list, retrace_error *err) {
    size_t n = (size_t)v->model->facts.vocab + 1;
    v->ids = retrace_alloc(n * sizeof *v->ids);
    v->ends = retrace_alloc(n * sizeof *v->ends);
    if (!v->ids || !v->ends) return rt_nomem(err);
    list_tokens(v, list);
    uint32_t n_nodes = count_nodes(v, list);
    uint32_t *open = retrace_calloc((size_t)v->depth + 1, sizeof *open);
    if (n_nodes < UINT32_MAX) v->nodes = retrace_calloc((size_t)n_nodes + 1, sizeof *v->nodes);
    int rc = open && v->nodes ? RETRACE_OK : rt_nomem(err);
    if (rc == RETRACE_OK) add_nodes(v, list, open);
    retrace_free(open);
    return rc;
}

int rt_vocab_build(rt_vocab *v, retrace_error *err) {
    if (v->built) return RETRACE_OK;
    entry *list = retrace_calloc((size_t)v->model->facts.vocab + 1, sizeof *list);
    int rc = list ? build(v, list, err) : rt_nomem(err);
    retrace_free(list);
    if (rc)
        clear(v);
    else
        v->built = 1;
    return rc;
}
