/* retrace_ext.h - for authors of rules, drivers and back ends. docs/adding.md walks through it.
 *
 * A plug-in is one file: a private struct, static functions, one const table at the bottom, one row
 * in src/strategy.c (rules, drivers) or src/model.c (back ends).
 *
 * A *rule* composes: any number of them watch one run. It reads a *view* of the answer and may
 * *propose* to go back; the engine decides, erases, bans and retries. A rule holds no memory of a
 * run except its *mark*: a block of plain memory that hangs on each place of the run's tree, is
 * copied from a place to its child, and is therefore right again after any erase without a line of
 * code in the rule.
 *
 * This header is stable for a minor version; retrace.h for a major one. */
#ifndef RETRACE_EXT_H
#define RETRACE_EXT_H

#include "retrace.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RETRACE_ABI 1

/* ==== Errors, memory ==== */

/* Writes err (when not NULL) and returns code: `return retrace_fail(err, RETRACE_EIO, "cannot read
 * '%s'", path);` */
RETRACE_API int retrace_fail(retrace_error *err, int code, const char *fmt, ...)
    RETRACE_PRINTF(3, 4);

/* The library's allocator. Contents are undefined after retrace_alloc and zero after
 * retrace_calloc; NULL when out of memory (and for size 0). retrace_realloc(NULL, n) allocates. All
 * are freed with retrace_free. */
RETRACE_API void *retrace_alloc(size_t size);
RETRACE_API void *retrace_calloc(size_t n, size_t size);
RETRACE_API void *retrace_realloc(void *p, size_t size);

/* ==== Settings ==== */

/* Fills the fields of `self`, zeroed by the caller, with the presets of the table and then the
 * given values. Texts are copied; retrace_settings_free releases them. */
RETRACE_API int retrace_settings_fill(void *self, const retrace_setting_info *table,
                                      const retrace_setting *settings, int n, const char *owner,
                                      retrace_error *err);
RETRACE_API void retrace_settings_free(void *self, const retrace_setting_info *table);

/* ==== Distributions ==== */

/* The next-token distribution at a place, as the model gave it: temperature 1, whole vocabulary, no
 * bans. What is asked for is computed once and kept (hence no const). */
typedef struct retrace_dist retrace_dist;

RETRACE_API int retrace_dist_size(const retrace_dist *d);            /* the vocabulary */
RETRACE_API const float *retrace_dist_logits(const retrace_dist *d); /* by token id */
RETRACE_API double retrace_dist_logp(retrace_dist *d, retrace_token id);
RETRACE_API double retrace_dist_entropy(retrace_dist *d); /* nats */
/* The k most probable tokens, falling (ties: lower id first). Returns how many: min(k, size). */
RETRACE_API int retrace_dist_top(retrace_dist *d, int k, retrace_candidate *out);

/* ==== What a rule sees ==== */

typedef enum retrace_ending {
    RETRACE_GOING,         /* the answer goes on */
    RETRACE_ENDING_END,    /* the newest token ends the answer */
    RETRACE_ENDING_LENGTH, /* max_tokens is reached */
    RETRACE_ENDING_STOP,   /* a stop text was found; the view shows the answer without it */
    RETRACE_ENDING_CONTEXT /* the context is full */
} retrace_ending;

/* A place of the run and all that led to it. Borrowed for the duration of the call. */
typedef struct retrace_view {
    const retrace_model *model;
    const retrace_token *prompt;
    int n_prompt;
    const retrace_token *tokens; /* generated, the newest last */
    int n;
    const char *text;   /* of those tokens; bytes, whole characters or not */
    const size_t *ends; /* ends[i]: bytes of text after tokens[i]; the newest token's text begins at
                           n > 1 ? ends[n - 2] : 0 and ends at ends[n - 1] */
    retrace_text before; /* the prompt as text, from the last control token in it */
    retrace_ending ending;
    size_t limit; /* a hit that completes at this byte of the text or after it does not count:
                     a stop text completes there. SIZE_MAX: no limit */
    retrace_dist *drawn; /* the distribution the newest token was drawn from; NULL when n is 0, or
                            when it has been dropped */
    retrace_dist *next;  /* the distribution after the newest token; NULL in judge, and in horizon
                            unless it is asked about a place that the run has gone on from */
    struct retrace_run *run; /* for the functions below */
    int rule;                /* index of the rule in its run */
    int forced; /* k: the newest token is the k-th of a text that this rule forced there, and a
                   proposal is ignored; 0: it is none */
} retrace_view;

/* Where the newest token's text begins, and how long the text is. */
static inline size_t retrace_view_start(const retrace_view *v) {
    return v->n > 1 ? v->ends[v->n - 2] : 0;
}
static inline size_t retrace_view_length(const retrace_view *v) {
    return v->n > 0 ? v->ends[v->n - 1] : 0;
}

/* This rule's mark at the place n generated tokens into the answer (0: after the prompt; at most
 * v->n - 1: the newest place's mark is the one being judged). */
RETRACE_API const void *retrace_view_mark(const retrace_view *v, int n);

/* Draws an index from n non-negative weights on behalf of this rule: the only source of chance. The
 * draw is keyed by the rule's name and settings and by v->n, so it disturbs no other draw, nor do
 * other rules disturb it.
 * Returns n when the weights are all zero, or when memory ran out: the run then fails by itself. */
RETRACE_API int retrace_view_choose(const retrace_view *v, const double *p, int n);

/* What the newest token was drawn from: after penalties, bias, bans, rules' shaping, truncation and
 * temperature. Probabilities sum to 1 over what could be drawn. */
typedef struct retrace_sampled {
    double p;     /* of the newest token */
    double logit; /* its logit as edited, divided by the temperature; at temperature 0 undivided */
    double entropy;       /* nats */
    double first, second; /* the two largest probabilities; second is 0 when there is one token */
    int n;                /* tokens that could be drawn */
} retrace_sampled;

/* 1 with *out filled, 0 when the newest token was not drawn (it was forced, or chosen by hand) or
 * there is none. Computed when it is asked for and kept with the place: the same again after a
 * rewind. */
RETRACE_API int retrace_view_sampled(const retrace_view *v, retrace_sampled *out);

/* Tells people something: a NOTE event in the rule's name, at the newest place. The text is copied;
 * more than 255 bytes are cut at a whole character. */
RETRACE_API int retrace_view_note(const retrace_view *v, const char *text, retrace_error *err);

/* Tokens whose pieces, joined, are exactly `text`: as the model would split it, or else by the
 * longest piece that fits. *out is the caller's (retrace_free). RETRACE_DONE: there are none. */
RETRACE_API int retrace_view_tokenize(const retrace_view *v, retrace_text text, retrace_token **out,
                                      int *n, retrace_error *err);

/* ==== Proposals ==== */

enum { RETRACE_MAX_BAN = 8 };

/* What a rule wants done. Zeroed by the engine; `to` is the number of tokens to keep.
 *
 * Hard (max_retries 0): what the rule rejects never appears.
 *
 * Soft (max_retries > 0): it may be refused. The rule goes back to one place at most max_retries
 * times; then the try with the largest `measure` is put back and stands (counted as
 * accepted), and the rule is *spent* at that place: further proposals to go back to it are ignored,
 * in any order of events. So it is too when its bans would leave too little to draw from, or when
 * soft rules have used their share of the run's budgets. A soft rule never makes a run stuck.
 *
 * Forced text (`force`): tokens that are to stand from `to` on, instead of drawing. Each is judged
 * by every rule but this one. When one of them is erased by anybody, or is banned where it should
 * go, all of them are taken back, the force is not tried again at that place, and the token that
 * had led on from there is banned instead. A second proposal with a force for the same place is
 * taken as one without it. */
typedef struct retrace_proposal {
    int to;                             /* at least the rule's own horizon, below v->n */
    retrace_token ban[RETRACE_MAX_BAN]; /* never again at that very place. None: the token that led
                                           on from there is banned (the common case), unless there
                                           is a force or no_ban */
    int n_ban;
    int no_ban;           /* 1: nothing is banned, just drawn again */
    int max_retries;      /* 0: hard */
    double measure;       /* soft: how good the try is that is to be erased; more is better */
    retrace_token *force; /* memory of retrace_alloc, the engine's from here on; NULL: none */
    int n_force;
    size_t end;    /* byte of v->text at which the hit is complete; 0: that of the
                      newest token's end. Decides between this and a stop text */
    char why[128]; /* for people: the phrase. NUL-ended */
} retrace_proposal;

/* ==== Shaping ==== */

/* The draw that is being prepared. */
typedef struct retrace_shape retrace_shape;

/* All logits times factor > 0: as edited, whatever the order in which rules scale and add. */
RETRACE_API void retrace_shape_scale(retrace_shape *s, double factor);
/* Adds x to one logit, before any scaling. */
RETRACE_API int retrace_shape_add(retrace_shape *s, retrace_token id, double x, retrace_error *err);
/* Takes a token out of this draw. */
RETRACE_API int retrace_shape_ban(retrace_shape *s, retrace_token id, retrace_error *err);

/* ==== Rules ==== */

/* The table of a rule. `self` is `size` bytes, zeroed and then filled from `settings`; it is shared
 * by runs and must not change after init. `mark` is `mark_size` bytes, aligned as malloc's memory.
 */
typedef struct retrace_rule_type {
    int abi; /* RETRACE_ABI */
    const char *name;
    const char *help;                     /* one line */
    const retrace_setting_info *settings; /* may be NULL */
    size_t size;
    size_t mark_size;
    /* 1: with these settings a hit depends on the text alone, a text that has been hit stays hit
     * whatever follows, and what is rejected never appears. Such a rule may be used with resample
     * exact. (optional: 0) */
    int (*certain)(const void *self);

    /* Checks and compiles. (optional) */
    int (*init)(void *self, retrace_error *err);
    /* Releases what init made; also after a failed init. Texts are the library's. (optional) */
    void (*fini)(void *self);

    /* Sets up the mark of the place after the prompt, zeroed by the engine; v->n is 0. (optional)
     */
    int (*start)(const void *self, const retrace_view *v, void *mark, retrace_error *err);
    /* For a mark that owns memory: makes `to`, a plain copy of `from`, independent; releases.
     * (optional, both or none) */
    int (*mark_copy)(const void *self, void *to, const void *from, retrace_error *err);
    void (*mark_free)(const void *self, void *mark);

    /* Changes the next draw; v->next is its distribution. (optional) */
    int (*shape)(const void *self, const retrace_view *v, const void *mark, retrace_shape *s,
                 retrace_error *err);

    /* A constraint says beforehand what may come next. Masks are no bans: the draw is made over
     * what is admitted, however improbable, and only a place where nothing is admitted is
     * exhausted. What they refuse, judge must refuse too (a token may come from a person or another
     * rule), and what they admit it must not. (optional, both or none)
     *
     * admits: 1 when the token may come next, else 0. Asked for a few tokens.
     * mask: *bits, one per token, lowest bit first, set for those that may come; the rule's memory,
     * valid until the next call on it. */
    int (*admits)(const void *self, const retrace_view *v, const void *mark, retrace_token id);
    int (*mask)(const void *self, const retrace_view *v, const void *mark, const uint64_t **bits,
                retrace_error *err);

    /* Called after every push, before the model is asked, with the parent's mark copied into
     * `mark`; what is left there is this place's mark. Called again, again from the parent's mark,
     * when the answer is about to end at this place (v->ending), with the text cut as the answer
     * is. An empty answer is judged with n 0 and a copy of the start's mark. Returns RETRACE_OK to
     * keep, RETRACE_DONE with *p filled to go back, or a negative status, which fails the run.
     * (optional) */
    int (*judge)(const void *self, const retrace_view *v, void *mark, retrace_proposal *p,
                 retrace_error *err);

    /* Called once the distribution after the newest place is known (v->next). As judge, but the
     * mark stays as it is. (optional) */
    int (*review)(const void *self, const retrace_view *v, const void *mark, retrace_proposal *p,
                  retrace_error *err);

    /* The least `to` this rule may still propose from a later place, whatever follows, or from this
     * one when the answer ends here. At most v->n. Absent: v->n, a rule that erases the newest
     * token only: that one has been judged already. (optional) */
    int (*horizon)(const void *self, const retrace_view *v, const void *mark);
} retrace_rule_type;

/* ==== Drivers ==== */

/* Asks a person for the next move: the `k` most probable tokens that are not banned at the head are
 * shown. Instead of a push; return RETRACE_OK from step. The answer comes by retrace_run_choose. */
RETRACE_API int retrace_run_ask(retrace_run *run, int k, retrace_error *err);
/* The distribution at the head. */
RETRACE_API retrace_dist *retrace_run_dist(retrace_run *run);
/* Draws the next token at the head from the shaped, banned, truncated distribution: RETRACE_OK with
 * *id, or RETRACE_DONE when nothing acceptable is left there (return that from step). */
RETRACE_API int retrace_run_draw(retrace_run *run, retrace_token *id, retrace_error *err);
/* Puts a token after the head; once per step. The rules judge it when step has returned. */
RETRACE_API int retrace_run_push(retrace_run *run, retrace_token id, retrace_error *err);

/* The table of a driver: it owns the loop. */
typedef struct retrace_driver_type {
    int abi;
    const char *name;
    const char *help;
    const retrace_setting_info *settings; /* of `self`, `size` bytes; may be NULL */
    size_t size;
    /* One move, with the head's distribution at hand: draw or decide, and push one token, or ask.
     * RETRACE_OK, or RETRACE_DONE when the place is exhausted: the engine then steps back. */
    int (*step)(const void *self, retrace_run *run, retrace_error *err);
    int holds; /* 1: all text is held to the end, as with hold all */
} retrace_driver_type;

/* ==== Back ends ==== */

enum {
    RETRACE_TOKEN_END = 1,     /* ends an answer; no text */
    RETRACE_TOKEN_CONTROL = 2, /* no text in an answer */
    RETRACE_TOKEN_UNUSED = 4   /* a hole in the vocabulary; never drawn on purpose */
};

/* One token of the vocabulary. */
typedef struct retrace_token_info {
    const char *bytes; /* as a reader of the vocabulary wants them; control tokens spelt out */
    int n;
    int flags;
} retrace_token_info;

/* Models whose logits are W h, a hidden state times an output matrix, can be tabulated by these
 * factors instead of by vocab x vocab numbers. All arrays are float, row by row. */
typedef struct retrace_factors {
    /* The length of h. EMODEL says why the logits of this model are no such product (a soft cap, a
     * scale, a bias). */
    int (*dim)(retrace_model *m, int *dim, retrace_error *err);
    /* The state after [anchor, tokens[i]] for each of n tokens, at most `states_batch` of them, n x
     * dim. tokens NULL: after the anchor alone (n_anchor > 0, n 1). logits, when not NULL: the
     * model's own, n x vocab. The same call gives the same bits. */
    int (*states)(retrace_model *m, const retrace_token *anchor, int n_anchor,
                  const retrace_token *tokens, int n, float *states, float *logits,
                  retrace_error *err);
    int states_batch;
    /* W, vocab x dim. */
    int (*output)(retrace_model *m, float *w, retrace_error *err);
    /* x = the logits of n states, n x vocab: states times the transpose of w, on the model's
     * threads. w must stay where it is between calls (a back end may keep a copy where it works).
     */
    int (*multiply)(retrace_model *m, const float *w, const float *states, int n, float *x,
                    retrace_error *err);
    /* Calls fn for the parts 0 .. n - 1, several at once, on the model's threads, and returns when
     * all are done: what is to be made of many rows need not be made by one thread. fn must not ask
     * the model. */
    int (*together)(retrace_model *m, int n, void (*fn)(void *ud, int part), void *ud,
                    retrace_error *err);
} retrace_factors;

typedef struct retrace_backend_type retrace_backend_type;

/* What every model has; a back end's own struct begins with it. Filled by open; the strings and the
 * vocabulary live until close. */
struct retrace_model {
    const retrace_backend_type *type;
    retrace_model_info facts;
    const retrace_token_info *vocab; /* facts.vocab of them */
    int empty_prompt;                /* 1: an empty sequence may be asked about */
    struct retrace_keep *keep;       /* the library's store of kept distributions */
    struct retrace_vocab *pieces;    /* the library's index of the vocabulary by text */
};

struct retrace_backend_type {
    int abi;
    const char *scheme; /* "llama" of "llama:FILE" */
    const char
        *suffix; /* ".gguf": a plain file of that ending is opened by this back end; or NULL */
    const char *help;
    const retrace_setting_info *settings; /* offsets into a struct of settings_size bytes */
    size_t settings_size;
    /* Opens `where` (the URI after the scheme). settings: filled from the table. */
    int (*open)(retrace_model **out, const char *where, const void *settings, retrace_error *err);
    void (*close)(retrace_model *m);
    /* As retrace_tokenize, on text already known to be valid UTF-8. */
    int (*tokenize)(const retrace_model *m, retrace_text text, int flags, retrace_token **out,
                    int *n, retrace_error *err);
    /* As retrace_chat, on messages already checked. at, when not NULL: n_messages numbers; of each
     * message with tokens, where in *out these begin. (optional: no chat) */
    int (*chat)(const retrace_model *m, const retrace_message *messages, int n_messages, int *at,
                retrace_token **out, int *n, retrace_error *err);
    /* As retrace_model_eval, on queries already checked (ids in range, n <= n_ctx, from in 0..n).
     * Sets `evaluated`; the library sets `answered` and checks for NaN. */
    int (*eval)(retrace_model *m, retrace_query *q, int n, retrace_error *err);
    const retrace_factors *factors; /* (optional) */
    /* As retrace_chat_template_at. (optional: no names) */
    const char *(*chat_template_at)(int i);
};

#ifdef __cplusplus
}
#endif
#endif
