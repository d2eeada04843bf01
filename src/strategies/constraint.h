/* constraint.h - what the rules `grammar` and `json` share: a matcher, and its state as the mark.
 *
 * A rule's struct begins with an rt_constraint, so that its table can name these functions. */
#ifndef RT_CONSTRAINT_H
#define RT_CONSTRAINT_H

#include "text/earley.h"

typedef struct rt_constraint {
    rt_earley *matcher;
} rt_constraint;

/* The mark: the state after the text of the answer, counted. */
typedef struct rt_constraint_mark {
    rt_earley_state *at;
} rt_constraint_mark;

/* A matcher for a grammar, which is its own from here on. `name` is the rule's. */
int rt_constraint_init(rt_constraint *c, rt_grammar *g, const char *name, retrace_error *err);
void rt_constraint_fini(void *self);

int rt_constraint_certain(const void *self);
int rt_constraint_start(const void *self, const retrace_view *v, void *mark, retrace_error *err);
int rt_constraint_copy(const void *self, void *to, const void *from, retrace_error *err);
void rt_constraint_free(const void *self, void *mark);
int rt_constraint_admits(const void *self, const retrace_view *v, const void *mark,
                         retrace_token id);
int rt_constraint_mask(const void *self, const retrace_view *v, const void *mark,
                       const uint64_t **bits, retrace_error *err);
int rt_constraint_judge(const void *self, const retrace_view *v, void *mark, retrace_proposal *p,
                        retrace_error *err);

/* The one text among `text` and `file`; *out empty with given 0 when there is none. EUSAGE when
 * there are several. */
int rt_constraint_source(retrace_text text, const retrace_texts *file, const char *rule,
                         const char *text_name, const char *file_name, int *given,
                         retrace_text *out, retrace_error *err);

#endif
