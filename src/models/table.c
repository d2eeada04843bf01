/* table.c - a small exact model from a text file: the reference that everything is tested on.
 *
 *     {"tokens": ["a", "b", {"text": "</s>", "end": true}],
 *      "rows": [{"context": [], "next": {"a": 0.5, "</s>": 0.5}}, {"context": ["a"], "next": {"b":
 * 1}}]}
 *
 * The row whose context is the longest suffix of the sequence answers; the logit of a token is ln p
 * as a float. Contexts lie in a tree that is walked from the newest token backwards. It counts
 * evaluated rows as a dense model with a cache would: per slot, what lies behind the common prefix;
 * of passing questions, what lies behind the beginning that all of a call have in common.
 * docs/adding.md takes this file as the one to copy. */
#define _POSIX_C_SOURCE 200809L
#include "models.h"
#include "top.h"

#include "../base.h"
#include "../model.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A context, reached from the root by its tokens from the last to the first. */
typedef struct context {
    retrace_token token;
    int child, sibling; /* -1: none */
    int row;            /* -1: no row for this context */
} context;

enum { N_SLOTS = 64 };

typedef struct table {
    retrace_model base; /* first: a retrace_model * is a table * */
    retrace_token_info *vocab;
    context *contexts;
    int n_contexts, cap_contexts;
    float **logits; /* by row */
    double *lse;    /* log of the sum of exp(logits): 0 up to the rounding of ln p to a float */
    int n_rows, cap_rows, cap_lse;
    int *first; /* by first byte: tokens of that byte, longest first, linked by `next`; -1 ends */
    int *next;
    char *name, *template;
    struct {
        retrace_token *tokens;
        int n, cap;
    } slot[N_SLOTS];
} table;

/* What is being read, for messages. */
typedef struct reader {
    table *t;
    const char *path;
    retrace_error *err;
} reader;

static int broken(const reader *r, const char *what, int i) {
    return retrace_fail(r->err, RETRACE_EMODEL, "'%s': %s (number %d)", r->path, what, i);
}

/* ==== Tokens ==== */

static int read_bytes(const reader *r, json_t *bytes, int i, rt_buf *out) {
    size_t n = json_array_size(bytes);
    for (size_t k = 0; k < n; k++) {
        json_t *b = json_array_get(bytes, k);
        json_int_t v = json_is_integer(b) ? json_integer_value(b) : -1;
        if (v < 0 || v > 255) return broken(r, "a token's bytes must be numbers from 0 to 255", i);
        char c = (char)v;
        if (rt_buf_add(out, &c, 1)) return rt_nomem(r->err);
    }
    return RETRACE_OK;
}

static int token_text(const reader *r, json_t *token, int i, rt_buf *out) {
    json_t *text = json_is_object(token) ? json_object_get(token, "text") : token;
    json_t *bytes = json_is_object(token) ? json_object_get(token, "bytes") : NULL;
    if (json_is_array(bytes)) return read_bytes(r, bytes, i, out);
    if (!json_is_string(text)) return broken(r, "a token needs a text or bytes", i);
    int rc = rt_buf_add(out, json_string_value(text), json_string_length(text));
    return rc ? rt_nomem(r->err) : RETRACE_OK;
}

static int read_flags(const reader *r, json_t *token, int i, int *flags) {
    static const struct {
        const char *name;
        int flag;
    } known[] = {{"end", RETRACE_TOKEN_END},
                 {"control", RETRACE_TOKEN_CONTROL},
                 {"unused", RETRACE_TOKEN_UNUSED}};
    *flags = 0;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        json_t *v = json_object_get(token, known[k].name);
        if (v && !json_is_boolean(v))
            return broken(r, "a token's end, control or unused is not true or false", i);
        if (json_is_true(v)) *flags |= known[k].flag;
    }
    return RETRACE_OK;
}

static int read_token(const reader *r, json_t *token, int i) {
    rt_buf text = {0};
    int flags, rc = read_flags(r, token, i, &flags);
    if (rc == RETRACE_OK) rc = token_text(r, token, i, &text);
    if (rc == RETRACE_OK && text.n == 0) rc = broken(r, "a token is empty", i);
    if (rc) {
        rt_buf_free(&text);
        return rc;
    }
    r->t->vocab[i] = (retrace_token_info){text.s, (int)text.n, flags};
    return RETRACE_OK;
}

/* Greedy longest match reads these lists. */
static int index_tokens(const reader *r) {
    table *t = r->t;
    int vocab = t->base.facts.vocab;
    t->first = retrace_alloc(256 * sizeof *t->first);
    t->next = retrace_alloc((size_t)vocab * sizeof *t->next);
    if (!t->first || !t->next) return rt_nomem(r->err);
    for (int b = 0; b < 256; b++) t->first[b] = -1;
    for (int i = 0; i < vocab; i++) {
        int *at = &t->first[(unsigned char)t->vocab[i].bytes[0]];
        while (*at >= 0 && t->vocab[*at].n >= t->vocab[i].n) at = &t->next[*at];
        t->next[i] = *at;
        *at = i;
    }
    return RETRACE_OK;
}

static int read_tokens(const reader *r, json_t *tokens) {
    size_t n = json_array_size(tokens);
    if (n == 0 || n > 1 << 22)
        return retrace_fail(r->err, RETRACE_EMODEL,
                            "'%s': \"tokens\" must be a list of 1 to 4194304", r->path);
    r->t->vocab = retrace_calloc(n, sizeof *r->t->vocab);
    if (!r->t->vocab) return rt_nomem(r->err);
    r->t->base.facts.vocab = (int)n;
    r->t->base.vocab = r->t->vocab;
    for (size_t i = 0; i < n; i++) {
        int rc = read_token(r, json_array_get(tokens, i), (int)i);
        if (rc) return rc;
    }
    return index_tokens(r);
}

/* ==== Rows ==== */

static retrace_token by_text(const table *t, const char *s, size_t n) {
    int i = n ? t->first[(unsigned char)s[0]] : -1;
    retrace_token found = -1; /* the lowest id, whatever the order of the list */
    for (; i >= 0; i = t->next[i]) {
        if ((size_t)t->vocab[i].n == n && memcmp(t->vocab[i].bytes, s, n) == 0)
            found = found < 0 || i < found ? i : found;
    }
    return found;
}

/* A token's index as a decimal string, else its text; -1 for neither. */
static retrace_token by_key(const table *t, const char *key, size_t n) {
    size_t digits = strspn(key, "0123456789");
    if (n > 0 && digits == n && n < 9) {
        int index = 0;
        for (size_t i = 0; i < n; i++) index = index * 10 + (key[i] - '0');
        if (index < t->base.facts.vocab) return index;
    }
    return by_text(t, key, n);
}

static retrace_token by_value(const table *t, json_t *v) {
    if (json_is_string(v)) return by_text(t, json_string_value(v), json_string_length(v));
    json_int_t i = json_is_integer(v) ? json_integer_value(v) : -1;
    return i >= 0 && i < t->base.facts.vocab ? (retrace_token)i : -1;
}

static int context_child(const table *t, int at, retrace_token token) {
    int i = t->contexts[at].child;
    while (i >= 0 && t->contexts[i].token != token) i = t->contexts[i].sibling;
    return i;
}

static int add_context(table *t, int parent, retrace_token token) {
    if (rt_grow(&t->contexts, &t->cap_contexts, t->n_contexts + 1, sizeof *t->contexts)) return -1;
    int sibling = parent >= 0 ? t->contexts[parent].child : -1;
    t->contexts[t->n_contexts] = (context){token, -1, sibling, -1};
    if (parent >= 0) t->contexts[parent].child = t->n_contexts;
    return t->n_contexts++;
}

static int read_context(const reader *r, json_t *list, int i, int *out) {
    int at = 0;
    for (size_t k = json_array_size(list); k-- > 0;) {
        retrace_token token = by_value(r->t, json_array_get(list, k));
        if (token < 0) return broken(r, "a row's context names no token", i);
        int child = context_child(r->t, at, token);
        if (child < 0) child = add_context(r->t, at, token);
        if (child < 0) return rt_nomem(r->err);
        at = child;
    }
    *out = at;
    return RETRACE_OK;
}

static int add_row(table *t) {
    if (rt_grow(&t->logits, &t->cap_rows, t->n_rows + 1, sizeof *t->logits)) return RETRACE_ENOMEM;
    if (rt_grow(&t->lse, &t->cap_lse, t->n_rows + 1, sizeof *t->lse)) return RETRACE_ENOMEM;
    float *logits = retrace_alloc((size_t)t->base.facts.vocab * sizeof *logits);
    if (!logits) return RETRACE_ENOMEM;
    for (int v = 0; v < t->base.facts.vocab; v++) logits[v] = -INFINITY;
    t->logits[t->n_rows++] = logits;
    return RETRACE_OK;
}

static double weight_of(json_t *v) {
    double w = json_is_number(v) ? json_number_value(v) : -1;
    return isfinite(w) ? w : -1;
}

/* Weights to float logits ln(w / total). A token that has been named is set apart by NaN or its
 * logit. */
static int put_weights(const reader *r, json_t *next, double total, float *logits, int i) {
    const char *key;
    json_t *v;
    json_object_foreach(next, key, v) {
        retrace_token token = by_key(r->t, key, strlen(key));
        if (token < 0) return broken(r, "a row's next names no token", i);
        if (!isinf(logits[token])) return broken(r, "a row's next names a token twice", i);
        logits[token] = weight_of(v) > 0 ? (float)log(weight_of(v) / total) : NAN;
    }
    return RETRACE_OK;
}

static int read_weights(const reader *r, json_t *next, int i) {
    const char *key;
    json_t *v;
    double total = 0, sum = 0;
    json_object_foreach(next, key, v) {
        if (weight_of(v) < 0) return broken(r, "a row has a weight that is not a number >= 0", i);
        total += weight_of(v);
    }
    if (!isfinite(total)) return broken(r, "a row's weights are too large to add up", i);
    if (!(total > 0)) return broken(r, "a row has no weight above 0", i);
    float *logits = r->t->logits[i];
    int rc = put_weights(r, next, total, logits, i);
    for (int k = 0; k < r->t->base.facts.vocab; k++) {
        if (isnan(logits[k])) logits[k] = -INFINITY;
        sum += exp((double)logits[k]);
    }
    r->t->lse[i] = log(sum);
    return rc;
}

static int read_row(const reader *r, json_t *row, int i) {
    json_t *list = json_object_get(row, "context"), *next = json_object_get(row, "next");
    if (!json_is_array(list)) return broken(r, "a row has no context", i);
    if (!json_is_object(next)) return broken(r, "a row has no next", i);
    int at = 0, rc = read_context(r, list, i, &at);
    if (rc) return rc;
    if (r->t->contexts[at].row >= 0) return broken(r, "a row repeats an earlier one's context", i);
    if (add_row(r->t)) return rt_nomem(r->err);
    r->t->contexts[at].row = i;
    return read_weights(r, next, i);
}

static int read_rows(const reader *r, json_t *rows) {
    if (add_context(r->t, -1, -1) < 0) return rt_nomem(r->err);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        int rc = read_row(r, json_array_get(rows, i), (int)i);
        if (rc) return rc;
    }
    if (r->t->contexts[0].row < 0)
        return retrace_fail(r->err, RETRACE_EMODEL, "'%s': there is no row for the empty context",
                            r->path);
    return RETRACE_OK;
}

/* ==== The file ==== */

static int read_facts(const reader *r, json_t *root) {
    table *t = r->t;
    json_t *n_ctx = json_object_get(root, "n_ctx"),
           *template = json_object_get(root, "chat_template");
    json_int_t n = n_ctx ? json_integer_value(n_ctx) : 4096;
    if ((n_ctx && !json_is_integer(n_ctx)) || n < 1 || n > 1 << 30)
        return retrace_fail(r->err, RETRACE_EMODEL, "'%s': \"n_ctx\" must be a number from 1 on",
                            r->path);
    if (template && !json_is_string(template))
        return retrace_fail(r->err, RETRACE_EMODEL, "'%s': \"chat_template\" must be a text",
                            r->path);
    if (template) t->template = rt_copy(json_string_value(template), json_string_length(template));
    const char *slash = strrchr(r->path, '/'), *name = slash ? slash + 1 : r->path;
    t->name = rt_copy(name, strlen(name));
    if (!t->name || (template && !t->template)) return rt_nomem(r->err);
    t->base.empty_prompt = 1;
    t->base.facts = (retrace_model_info){.name = t->name,
                                         .backend = "table",
                                         .rewind = "exact",
                                         .n_ctx = (int)n,
                                         .chat_template = template != NULL,
                                         .bos = -1,
                                         .start = -1,
                                         .weights = "file"};
    return RETRACE_OK;
}

static int read_root(const reader *r, json_t *root) {
    if (!json_is_object(root))
        return retrace_fail(r->err, RETRACE_EMODEL, "'%s' is not a table: no JSON object", r->path);
    int rc = read_facts(r, root);
    if (rc == RETRACE_OK) rc = read_tokens(r, json_object_get(root, "tokens"));
    if (rc == RETRACE_OK) rc = read_rows(r, json_object_get(root, "rows"));
    return rc;
}

/* Not a pipe, which could keep us waiting for ever, nor a folder. */
static int slurp(const char *path, rt_buf *out, retrace_error *err) {
    struct stat about;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return retrace_fail(err, RETRACE_EIO, "'%s' is no plain file", path);
    FILE *f = fopen(path, "rb");
    if (!f) return retrace_fail(err, RETRACE_EIO, "cannot open '%s': %s", path, strerror(errno));
    char block[16384];
    size_t n;
    int rc = RETRACE_OK;
    while (rc == RETRACE_OK && (n = fread(block, 1, sizeof block, f)) > 0)
        rc = rt_buf_add(out, block, n) ? rt_nomem(err) : RETRACE_OK;
    if (rc == RETRACE_OK && ferror(f))
        rc = retrace_fail(err, RETRACE_EIO, "cannot read '%s': %s", path, strerror(errno));
    fclose(f);
    return rc;
}

static void table_close(retrace_model *m) {
    table *t = (table *)m;
    for (int i = 0; t->vocab && i < m->facts.vocab; i++)
        retrace_free((void *)(uintptr_t)t->vocab[i].bytes);
    for (int i = 0; i < t->n_rows; i++) retrace_free(t->logits[i]);
    for (int i = 0; i < N_SLOTS; i++) retrace_free(t->slot[i].tokens);
    retrace_free(t->vocab);
    retrace_free(t->contexts);
    retrace_free(t->logits);
    retrace_free(t->lse);
    retrace_free(t->first);
    retrace_free(t->next);
    retrace_free(t->name);
    retrace_free(t->template);
    retrace_free(t);
}

static int table_open(retrace_model **out, const char *where, const void *settings,
                      retrace_error *err) {
    (void)settings;
    rt_buf file = {0};
    table *t = NULL;
    json_t *root = NULL;
    json_error_t at;
    int rc = slurp(where, &file, err);
    if (rc) goto out;
    root = json_loadb(file.n ? file.s : "", file.n, JSON_REJECT_DUPLICATES, &at);
    /* Out of memory, jansson often says nothing at all. */
    if (!root && (!at.text[0] || json_error_code(&at) == json_error_out_of_memory)) {
        rc = rt_nomem(err);
        goto out;
    }
    if (!root) {
        rc = retrace_fail(err, RETRACE_EMODEL, "'%s' is not a table: line %d: %s", where, at.line,
                          at.text);
        goto out;
    }
    t = retrace_calloc(1, sizeof *t);
    rc = t ? read_root(&(reader){t, where, err}, root) : rt_nomem(err);
    if (rc == RETRACE_OK) t->base.facts.hash = rt_digest(0, file.s, file.n);
out:
    json_decref(root);
    rt_buf_free(&file);
    if (rc && t) table_close(&t->base);
    if (rc == RETRACE_OK) *out = &t->base;
    return rc;
}

/* ==== Questions ==== */

static int row_for(const table *t, const retrace_token *tokens, int n) {
    int at = 0, row = t->contexts[0].row;
    while (n > 0 && (at = context_child(t, at, tokens[--n])) >= 0) {
        if (t->contexts[at].row >= 0) row = t->contexts[at].row;
    }
    return row;
}

/* Rows that a model with a cache would compute, and what that cache then holds. */
static int count_rows(table *t, const retrace_query *q, int *rows) {
    if (q->slot < 0 || q->slot >= N_SLOTS) return *rows = q->n, RETRACE_OK;
    int same = 0, held = t->slot[q->slot].n;
    retrace_token **cache = &t->slot[q->slot].tokens;
    while (same < q->n && same < held && (*cache)[same] == q->tokens[same]) same++;
    int read = q->logp || q->next;
    if (read && same == q->n && same > 0) same--; /* computed again for its answer */
    if (q->logp && q->from > 0 && same > q->from - 1) same = q->from - 1;
    if (rt_grow(cache, &t->slot[q->slot].cap, q->n, sizeof **cache)) return RETRACE_ENOMEM;
    if (q->n) memcpy(*cache, q->tokens, (size_t)q->n * sizeof **cache);
    t->slot[q->slot].n = q->n;
    *rows = q->n - same;
    return RETRACE_OK;
}

/* A passing question that asks for nothing is not even fed. */
static int passes(const retrace_query *q) {
    return q->slot == RETRACE_PASSING && (q->logp || q->next);
}

/* How many tokens the passing questions of a call have in common at their beginning. */
static int common_beginning(const retrace_query *q, int n) {
    const retrace_query *first = NULL;
    int same = 0;
    for (int i = 0; i < n; i++) {
        if (!passes(&q[i])) continue;
        int limit = first ? same : q[i].n, k = 0;
        if (!first) first = &q[i];
        while (k < limit && k < q[i].n && q[i].tokens[k] == first->tokens[k]) k++;
        same = k;
    }
    return same;
}

/* The first passing question pays for the common beginning, the others for what lies behind it. */
static void count_passing(retrace_query *q, int n) {
    int common = common_beginning(q, n), paid = 0;
    for (int i = 0; i < n; i++) {
        if (!passes(&q[i])) continue;
        int same = common < q[i].n ? common : common - 1; /* the last token gives the answer */
        if (q[i].logp && q[i].from > 0 && same > q[i].from - 1) same = q[i].from - 1;
        q[i].evaluated = paid && same > 0 ? q[i].n - same : q[i].n;
        paid = 1;
    }
}

/* What is asked about the place before token k, or after the last one. */
static void answer_place(const table *t, const retrace_query *q, int k) {
    int row = row_for(t, q->tokens, k), vocab = t->base.facts.vocab;
    const float *logits = t->logits[row];
    if (k < q->n) {
        double logp = k > 0 ? (double)logits[q->tokens[k]] - t->lse[row] : NAN;
        q->logp[k - q->from] = logp;
    } else {
        memcpy(q->next, logits, (size_t)vocab * sizeof *logits);
    }
    if (q->top && (k > 0 || k == q->n))
        rt_top_of(logits, vocab, t->lse[row], q->n_top, rt_top_at(q, k));
}

static int table_eval(retrace_model *m, retrace_query *q, int n, retrace_error *err) {
    table *t = (table *)m;
    count_passing(q, n);
    for (int i = 0; i < n; i++) {
        if (q[i].slot != RETRACE_PASSING && count_rows(t, &q[i], &q[i].evaluated))
            return rt_nomem(err);
        for (int k = q[i].from; q[i].logp && k < q[i].n; k++) answer_place(t, &q[i], k);
        if (q[i].next) answer_place(t, &q[i], q[i].n);
    }
    return RETRACE_OK;
}

/* ==== Text to tokens ==== */

static retrace_token longest(const table *t, retrace_text s, int flags) {
    for (int i = t->first[(unsigned char)s.s[0]]; i >= 0; i = t->next[i]) {
        const retrace_token_info *v = &t->vocab[i];
        int special = v->flags & (RETRACE_TOKEN_CONTROL | RETRACE_TOKEN_END);
        if (special && !(flags & RETRACE_TOKENIZE_SPECIAL)) continue;
        if ((size_t)v->n <= s.n && memcmp(v->bytes, s.s, (size_t)v->n) == 0) return i;
    }
    return -1;
}

typedef struct tokens {
    retrace_token *v;
    int n, cap;
} tokens;

static int add_tokens(const table *t, retrace_text text, int flags, tokens *out,
                      retrace_error *err) {
    for (size_t at = 0; at < text.n;) {
        retrace_token token = longest(t, (retrace_text){text.s + at, text.n - at}, flags);
        if (token < 0)
            return retrace_fail(err, RETRACE_EUSAGE,
                                "no token of the table fits the text at byte %zu", at);
        if (rt_grow(&out->v, &out->cap, out->n + 1, sizeof *out->v)) return rt_nomem(err);
        out->v[out->n++] = token;
        at += (size_t)t->vocab[token].n;
    }
    return RETRACE_OK;
}

static int hand_out(tokens *made, int rc, retrace_token **out, int *n, retrace_error *err) {
    if (rc == RETRACE_OK && !made->v && !(made->v = retrace_alloc(sizeof *made->v)))
        rc = rt_nomem(err);
    if (rc) {
        retrace_free(made->v);
        return rc;
    }
    *out = made->v;
    *n = made->n;
    return RETRACE_OK;
}

static int table_tokenize(const retrace_model *m, retrace_text text, int flags, retrace_token **out,
                          int *n, retrace_error *err) {
    tokens made = {0};
    int rc = add_tokens((const table *)m, text, flags, &made, err);
    return hand_out(&made, rc, out, n, err);
}

/* A content: in its own tokens where it has them. */
static int add_content(const table *t, const retrace_message *m, int *at, tokens *out,
                       retrace_error *err) {
    if (!m->tokens) return add_tokens(t, m->content, 0, out, err);
    if (at) *at = out->n;
    if (m->n_tokens == 0) return RETRACE_OK;
    if (rt_grow(&out->v, &out->cap, out->n + m->n_tokens, sizeof *out->v)) return rt_nomem(err);
    memcpy(out->v + out->n, m->tokens, (size_t)m->n_tokens * sizeof *out->v);
    out->n += m->n_tokens;
    return RETRACE_OK;
}

/* One message through the template: "{role}" and "{content}" are replaced, the rest is template
 * text, in which control tokens count. */
static int add_message(const table *t, const retrace_message *m, int *at, tokens *out,
                       retrace_error *err) {
    const char *s = t->template;
    while (*s) {
        const char *role = strstr(s, "{role}"), *content = strstr(s, "{content}");
        const char *stop = !role || (content && content < role) ? content : role;
        size_t n = stop ? (size_t)(stop - s) : strlen(s);
        int rc = add_tokens(t, (retrace_text){s, n}, RETRACE_TOKENIZE_SPECIAL, out, err);
        if (rc == RETRACE_OK && stop && stop == content) rc = add_content(t, m, at, out, err);
        if (rc == RETRACE_OK && stop && stop == role)
            rc = add_tokens(t, (retrace_text){m->role, strlen(m->role)}, 0, out, err);
        if (rc || !stop) return rc;
        s = stop + strlen(stop == role ? "{role}" : "{content}");
    }
    return RETRACE_OK;
}

static int table_chat(const retrace_model *m, const retrace_message *messages, int n_messages,
                      int *at, retrace_token **out, int *n, retrace_error *err) {
    const table *t = (const table *)m;
    if (t->template && !strstr(t->template, "{content}"))
        return retrace_fail(err, RETRACE_EMODEL, "unknown chat template '%.*s'",
                            (int)strcspn(t->template, "\n"), t->template);
    tokens made = {0};
    int rc = RETRACE_OK;
    for (int i = 0; rc == RETRACE_OK && i < n_messages; i++) {
        int *place = at ? at + i : NULL;
        rc = t->template ? add_message(t, &messages[i], place, &made, err)
                         : add_content(t, &messages[i], place, &made, err);
    }
    return hand_out(&made, rc, out, n, err);
}

const retrace_backend_type rt_backend_table = {
    .abi = RETRACE_ABI,
    .scheme = "table",
    .suffix = ".json",
    .help = "a small exact model from a text file",
    .open = table_open,
    .close = table_close,
    .tokenize = table_tokenize,
    .chat = table_chat,
    .eval = table_eval,
};
