/* view.c - what a rule may ask about the place it looks at, and say. */
#include "run.h"

#include <math.h>
#include <string.h>

/* Which token of a text that the rule forced there the one at place n is, from 1; 0: of none. */
static int forced_by(const retrace_run *run, int n, int rule) {
    const rt_node *node = rt_trace_node(&run->trace, run->path[n]);
    return n > 0 && rule >= 0 && node->span >= 0 && node->span_rule == rule ? n - node->span : 0;
}

void rt_view(retrace_run *run, int n, int rule, retrace_ending ending, retrace_view *out) {
    *out = (retrace_view){
        .model = run->model,
        .prompt = run->tokens,
        .n_prompt = run->n_prompt,
        .tokens = run->tokens + run->n_prompt,
        .n = n,
        .text = run->text.s ? run->text.s : "",
        .ends = run->ends,
        .before = {run->before.s, run->before.n},
        .ending = ending,
        .limit = SIZE_MAX,
        .drawn = n > 0 ? rt_trace_node(&run->trace, run->path[n - 1])->dist : NULL,
        .run = run,
        .rule = rule,
        .forced = forced_by(run, n, rule),
    };
}

const void *retrace_view_mark(const retrace_view *v, int n) {
    const rt_node *node = rt_trace_node(&v->run->trace, v->run->path[n]);
    return node->mark + v->run->watch[v->rule].mark_at;
}

int retrace_view_choose(const retrace_view *v, const double *p, int n) {
    rt_watch *w = &v->run->watch[v->rule];
    int i = rt_choose(v->run, &w->attempts, w->purpose, v->n, p, NULL, n, NULL);
    if (i >= 0) return i;
    v->run->starved = 1; /* the engine fails the run when the rule returns */
    return n;
}

int retrace_view_note(const retrace_view *v, const char *text, retrace_error *err) {
    retrace_event *e = rt_event(v->run, RETRACE_NOTE, text);
    if (!e) return rt_nomem(err);
    e->node = v->run->path[v->n];
    e->rule = v->run->watch[v->rule].rule->type->name;
    return RETRACE_OK;
}

/* ==== What was drawn from ==== */

/* The weights of the newest draw still lie in the sampler. */
static void measure(const rt_sampler *s, const rt_drawn *drawn, retrace_sampled *out) {
    double total = 0, log_sum = 0;
    *out = (retrace_sampled){.logit = drawn->logit};
    for (int i = 0; i < drawn->n; i++) {
        double w = s->weights[i];
        if (!(w > 0)) continue;
        out->n++;
        total += w;
        log_sum += w * log(w);
        if (w > out->first) {
            out->second = out->first;
            out->first = w;
        } else if (w > out->second) {
            out->second = w;
        }
    }
    out->p = s->weights[drawn->at] / total;
    out->first /= total;
    out->second /= total;
    out->entropy = log(total) - log_sum / total;
    if (out->entropy < 0) out->entropy = 0; /* one token, and rounding */
}

/* A draw without truncation asks constraints about the token drawn only. */
static int mask_dense(retrace_run *run, int n) {
    if (run->drawn.n != run->model->facts.vocab || !rt_constrained(run)) return RETRACE_OK;
    return rt_mask_weights(run, n, run->sampler.weights, run->drawn.n, NULL);
}

int retrace_view_sampled(const retrace_view *v, retrace_sampled *out) {
    retrace_run *run = v->run;
    if (v->n == 0) return 0;
    rt_node *node = rt_trace_node(&run->trace, run->path[v->n]);
    if (!node->sampled && run->drawn.node == node->id) {
        node->sampled = retrace_alloc(sizeof *node->sampled);
        if (!node->sampled) return run->starved = 1, 0;
        if (mask_dense(run, v->n - 1)) return run->starved = 1, 0;
        measure(&run->sampler, &run->drawn, node->sampled);
    }
    if (node->sampled) *out = *node->sampled;
    return node->sampled != NULL;
}

/* ==== Text to tokens ==== */

static int spells(const retrace_model *m, const retrace_token *tokens, int n, retrace_text text) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        retrace_text piece = retrace_piece(m, tokens[i]);
        if (piece.n == 0 || piece.n > text.n - at) return 0;
        if (memcmp(text.s + at, piece.s, piece.n) != 0) return 0;
        at += piece.n;
    }
    return at == text.n;
}

/* The longest piece that the text goes on with; -1: none. */
static retrace_token longest(const retrace_model *m, const char *s, size_t n) {
    retrace_token best = -1;
    size_t most = 0;
    for (int i = 0; i < m->facts.vocab; i++) {
        retrace_text piece = retrace_piece(m, i);
        if (piece.n <= most || piece.n > n || memcmp(piece.s, s, piece.n) != 0) continue;
        best = i;
        most = piece.n;
    }
    return best;
}

static int greedily(const retrace_model *m, retrace_text text, retrace_token **out, int *n,
                    retrace_error *err) {
    retrace_token *tokens = retrace_alloc((text.n + 1) * sizeof *tokens);
    if (!tokens) return rt_nomem(err);
    *n = 0;
    for (size_t at = 0; at < text.n;) {
        retrace_token id = longest(m, text.s + at, text.n - at);
        if (id < 0) {
            retrace_free(tokens);
            return RETRACE_DONE;
        }
        tokens[(*n)++] = id;
        at += retrace_piece(m, id).n;
    }
    *out = tokens;
    return RETRACE_OK;
}

/* The model's own splitting may add a space in front, or refuse the text altogether. */
int rt_spell(const retrace_model *m, retrace_text text, retrace_token **out, int *n,
             retrace_error *err) {
    retrace_error ignored;
    *out = NULL;
    *n = 0;
    if (text.n == 0) return RETRACE_OK;
    int rc = retrace_tokenize(m, text, 0, out, n, &ignored);
    if (rc == RETRACE_ENOMEM) return rt_nomem(err);
    if (rc == RETRACE_OK && spells(m, *out, *n, text)) return RETRACE_OK;
    if (rc == RETRACE_OK) retrace_free(*out);
    *out = NULL;
    return greedily(m, text, out, n, err);
}

int retrace_view_tokenize(const retrace_view *v, retrace_text text, retrace_token **out, int *n,
                          retrace_error *err) {
    return rt_spell(v->model, text, out, n, err);
}
