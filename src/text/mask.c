/* mask.c - a mask: one walk over the tree of token texts and the states together.
 *
 * A beginning that cannot follow cuts off all tokens that begin with it. Within a JSON string
 * nearly every beginning leads back to the same state, so that the walk is a look into one table
 * per node of the tree. */
#include "mask.h"
#include "base.h"

static void set_bit(uint64_t *bits, retrace_token id) {
    bits[id >> 6] |= (uint64_t)1 << (id & 63);
}

/* path[d]: the state after d bytes of the beginning that is walked; counted, as steps may forget.
 */
static int walk(rt_earley *m, const rt_vocab *v, rt_earley_state **path, uint64_t *bits,
                retrace_error *err) {
    const rt_vocab_node *nodes = v->nodes;
    for (uint32_t i = 0; i < v->n_nodes;) {
        rt_earley_state *to;
        int rc = rt_earley_step(m, path[nodes[i].depth - 1], nodes[i].byte, &to, err);
        if (rc) return rc;
        if (!to) {
            i = nodes[i].next;
            continue;
        }
        rt_earley_keep(to);
        rt_earley_drop(path[nodes[i].depth]);
        path[nodes[i].depth] = to;
        for (uint32_t k = nodes[i].first; k < nodes[i + 1].first; k++) set_bit(bits, v->ids[k]);
        i++;
    }
    return RETRACE_OK;
}

int rt_mask(rt_earley *m, rt_earley_state *at, rt_vocab *v, const uint64_t **bits,
            retrace_error *err) {
    int rc = rt_vocab_build(v, err);
    if (rc) return rc;
    *bits = rt_earley_note(at, v->digest);
    if (*bits) return RETRACE_OK;
    size_t size = ((size_t)v->model->facts.vocab + 63) / 64 * sizeof **bits;
    rt_earley_state **path = retrace_calloc((size_t)v->depth + 1, sizeof(void *));
    uint64_t *found = retrace_calloc(1, size);
    rc = path && found ? RETRACE_OK : rt_nomem(err);
    if (rc == RETRACE_OK) {
        path[0] = at;
        rt_earley_keep(at);
        rc = walk(m, v, path, found, err);
        for (int d = 0; d <= v->depth; d++) rt_earley_drop(path[d]);
    }
    for (int i = 0; rc == RETRACE_OK && rt_earley_can_end(at) && i < v->n_ends; i++)
        set_bit(found, v->ends[i]);
    retrace_free(path);
    if (rc) {
        retrace_free(found);
        return rc;
    }
    rt_earley_note_put(m, at, v->digest, found, size);
    *bits = found;
    return RETRACE_OK;
}

int rt_mask_admits(rt_earley *m, rt_earley_state *at, const retrace_model *model, retrace_token id,
                   retrace_error *err) {
    if (retrace_token_ends(model, id)) return rt_earley_can_end(at);
    retrace_text t = rt_vocab_text(model, id);
    rt_earley_state *to;
    int rc = t.n ? rt_earley_feed(m, at, t.s, t.n, &to, err) : RETRACE_OK;
    return rc ? rc : t.n && to;
}
