/* constraint.c - an answer that follows a grammar, wherever it is taken back to.
 *
 * The mark is one counted pointer, so a place costs nothing and any erase finds the right state.
 * What the model likes is drawn first and checked; the mask is computed only when that fails.
 *
 * Promise: with finish `end` the answer is a text of the grammar; otherwise it is the beginning of
 * one. What is admitted is what judge keeps. */
#include "constraint.h"
#include "text/mask.h"
#include "base.h"

#include <stdio.h>

enum { MEMORY = 64 << 20 }; /* bytes of states and masks before old ones are forgotten */

int rt_constraint_init(rt_constraint *c, rt_grammar *g, const char *name, retrace_error *err) {
    return rt_earley_new(&c->matcher, g, MEMORY, name, err);
}

void rt_constraint_fini(void *self) {
    rt_earley_free(((rt_constraint *)self)->matcher);
}

static rt_earley *matcher(const void *self) {
    return ((const rt_constraint *)self)->matcher;
}

int rt_constraint_certain(const void *self) {
    (void)self;
    return 1;
}

int rt_constraint_source(retrace_text text, const retrace_texts *file, const char *rule,
                         const char *text_name, const char *file_name, int *given,
                         retrace_text *out, retrace_error *err) {
    *given = text.s != NULL || file->n > 0;
    *out = text.s ? text : file->n ? file->v[0] : (retrace_text){"", 0};
    if (file->n + (text.s != NULL) < 2) return RETRACE_OK;
    return retrace_fail(err, RETRACE_EUSAGE, "%s: one of %s and %s can be given, once", rule,
                        text_name, file_name);
}

/* ==== The mark ==== */

int rt_constraint_start(const void *self, const retrace_view *v, void *mark, retrace_error *err) {
    rt_constraint_mark *m = mark;
    (void)v, (void)err;
    m->at = rt_earley_start(matcher(self));
    rt_earley_keep(m->at);
    return RETRACE_OK;
}

int rt_constraint_copy(const void *self, void *to, const void *from, retrace_error *err) {
    (void)self, (void)from, (void)err;
    rt_earley_keep(((rt_constraint_mark *)to)->at);
    return RETRACE_OK;
}

void rt_constraint_free(const void *self, void *mark) {
    (void)self;
    rt_earley_drop(((rt_constraint_mark *)mark)->at);
}

/* ==== What may follow ==== */

int rt_constraint_admits(const void *self, const retrace_view *v, const void *mark,
                         retrace_token id) {
    const rt_constraint_mark *m = mark;
    /* A failure lets the token pass: judging it fails in the same way, and fails the run. */
    return rt_mask_admits(matcher(self), m->at, v->model, id, NULL) != 0;
}

int rt_constraint_mask(const void *self, const retrace_view *v, const void *mark,
                       const uint64_t **bits, retrace_error *err) {
    const rt_constraint_mark *m = mark;
    return rt_mask(matcher(self), m->at, v->model->pieces, bits, err);
}

/* ==== Judging ==== */

/* Writes the bytes of a piece for people. */
static void show(retrace_text t, char *out, size_t room) {
    size_t n = 0;
    for (size_t i = 0; i < t.n && n + 5 < room; i++) {
        unsigned char c = (unsigned char)t.s[i];
        if (c >= ' ' && c != '\\' && c < 0x7f)
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, room - n, "\\x%02x", c);
    }
    out[n] = '\0';
}

static int refuse(const retrace_view *v, retrace_text piece, const char *why, retrace_proposal *p) {
    char shown[64];
    p->to = v->n - 1;
    show(piece, shown, sizeof shown);
    snprintf(p->why, sizeof p->why, "%s%s%s", why, piece.n ? ": " : "", shown);
    return RETRACE_DONE;
}

/* The newest token's text from the parent's state on. */
static int judge_text(rt_earley *matcher, const retrace_view *v, rt_constraint_mark *m,
                      retrace_proposal *p, retrace_error *err) {
    size_t from = retrace_view_start(v), end = retrace_view_length(v);
    rt_earley_state *to = m->at;
    for (size_t i = from; i < end; i++) {
        int rc = rt_earley_step(matcher, to, (unsigned char)v->text[i], &to, err);
        if (rc) return rc;
        if (to) continue;
        p->end = i + 1;
        return refuse(v, (retrace_text){v->text + from, end - from}, "does not fit", p);
    }
    rt_earley_keep(to);
    rt_earley_drop(m->at);
    m->at = to;
    return RETRACE_OK;
}

int rt_constraint_judge(const void *self, const retrace_view *v, void *mark, retrace_proposal *p,
                        retrace_error *err) {
    rt_constraint_mark *m = mark;
    if (v->n == 0) return RETRACE_OK;
    retrace_token newest = v->tokens[v->n - 1];
    if (v->ending == RETRACE_ENDING_END)
        return rt_earley_can_end(m->at) ? RETRACE_OK
                                        : refuse(v, (retrace_text){"", 0}, "not complete", p);
    if (rt_vocab_text(v->model, newest).n == 0)
        return refuse(v, retrace_token_name(v->model, newest), "a token without text", p);
    return judge_text(matcher(self), v, m, p, err);
}
