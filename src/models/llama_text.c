/* llama_text.c - text and chat messages to tokens; see llama_text.h.
 *
 * What a message spells must never become a control token. The template is therefore rendered a
 * second time with placeholders for the contents: when both texts give the same control tokens, no
 * content (and no seam between a content and the template) made one, and the plain rendering is
 * right, tokenised in one piece as every engine does it. Otherwise the template's parts are
 * tokenised with control tokens and the contents without, piece by piece. The placeholders also
 * show when a template leaves a message out, which is an error rather than a silently shorter
 * prompt.
 *
 * An answer that comes with its tokens stays a placeholder in every rendering, and its tokens stand
 * in the prompt in its place. What lies before, between and behind such answers is a *part* each,
 * and all of the above is done with each part by itself: a conversation that goes on then begins
 * with the tokens that it had, whatever is said later.
 *
 * SentencePiece vocabularies put a space before a text, and before what follows a control token,
 * but not before what continues a text; a piece that continues one is tokenised behind a guard that
 * is removed. */
#include "llama_text.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

typedef struct list {
    retrace_token *v;
    int n, cap;
} list;

static int add(list *to, const retrace_token *ids, int n, retrace_error *err) {
    if (n == 0) return RETRACE_OK;
    if (rt_grow(&to->v, &to->cap, to->n + n, sizeof *to->v) < 0) return rt_nomem(err);
    memcpy(to->v + to->n, ids, (size_t)n * sizeof *ids);
    to->n += n;
    return RETRACE_OK;
}

/* Puts one BOS in front where the model wants it; drops a second one. */
static int settle_bos(const retrace_model *m, list *to, retrace_error *err) {
    retrace_token bos = m->facts.bos;
    if (!m->facts.add_bos || bos < 0) return RETRACE_OK;
    if (to->n > 0 && to->v[0] == bos) {
        int more = 1;
        while (more < to->n && to->v[more] == bos) more++;
        memmove(to->v + 1, to->v + more, (size_t)(to->n - more) * sizeof *to->v);
        to->n -= more - 1;
        return RETRACE_OK;
    }
    if (rt_grow(&to->v, &to->cap, to->n + 1, sizeof *to->v) < 0) return rt_nomem(err);
    memmove(to->v + 1, to->v, (size_t)to->n * sizeof *to->v);
    to->v[0] = bos;
    to->n++;
    return RETRACE_OK;
}

/* Hands the list over; an empty one becomes a block that can be freed. */
static int hand_over(list *from, retrace_token **out, int *n, retrace_error *err) {
    if (!from->v) from->v = retrace_alloc(sizeof *from->v);
    if (!from->v) return rt_nomem(err);
    *out = from->v;
    *n = from->n;
    return RETRACE_OK;
}

/* ==== Pieces ==== */

static int is_control(const retrace_model *m, retrace_token id) {
    return (m->vocab[id].flags & (RETRACE_TOKEN_CONTROL | RETRACE_TOKEN_END)) != 0;
}

/* *yes: the vocabulary puts a space before a text. */
static int puts_space(const retrace_model *m, const rt_llama *l, int *yes, retrace_error *err) {
    retrace_token *ids = NULL;
    int n = 0, rc = rt_llama_tokenize(l, (retrace_text){"a", 1}, 0, &ids, &n, err);
    *yes = rc == RETRACE_OK && n > 0 && m->vocab[ids[0]].n > 0 && m->vocab[ids[0]].bytes[0] == ' ';
    if (rc == RETRACE_OK) retrace_free(ids);
    return rc;
}

/* Appends the tokens of a text that continues another one, without the space. *done says whether
 * the guard could be removed. */
static int add_behind_guard(const rt_llama *l, list *to, retrace_text text, int special, int *done,
                            retrace_error *err) {
    retrace_token *guard = NULL, *ids = NULL;
    rt_buf both = {0};
    int n_guard = 0, n = 0;
    *done = 0;
    int rc = rt_buf_add(&both, "\n", 1);
    if (rc == RETRACE_OK) rc = rt_buf_add(&both, text.s, text.n);
    if (rc < 0) rt_nomem(err);
    if (rc == RETRACE_OK) {
        rc = rt_llama_tokenize(l, (retrace_text){"\n", 1}, 0, &guard, &n_guard, err);
    }
    if (rc == RETRACE_OK) {
        rc = rt_llama_tokenize(l, (retrace_text){both.s, both.n}, special, &ids, &n, err);
    }
    if (rc == RETRACE_OK && n >= n_guard &&
        memcmp(ids, guard, (size_t)n_guard * sizeof *ids) == 0) {
        *done = 1;
        rc = add(to, ids + n_guard, n - n_guard, err);
    }
    rt_buf_free(&both);
    retrace_free(guard);
    retrace_free(ids);
    return rc;
}

static int add_piece(const retrace_model *m, const rt_llama *l, list *to, retrace_text text,
                     int special, int spaced, retrace_error *err) {
    retrace_token *ids = NULL;
    int n = 0, done = 0, rc = RETRACE_OK;
    if (text.n == 0) return RETRACE_OK;
    if (spaced && to->n > 0 && !is_control(m, to->v[to->n - 1])) {
        rc = add_behind_guard(l, to, text, special, &done, err);
    }
    if (rc < 0 || done) return rc;
    rc = rt_llama_tokenize(l, text, special, &ids, &n, err);
    if (rc == RETRACE_OK) rc = add(to, ids, n, err);
    retrace_free(ids);
    return rc;
}

/* ==== A text ==== */

/* One that goes on from another text has no space put before it. */
static int split(const retrace_model *m, const rt_llama *l, retrace_text text, int flags, list *to,
                 retrace_error *err) {
    int special = flags & RETRACE_TOKENIZE_SPECIAL, spaced = 0, done = 0, rc = RETRACE_OK;
    if ((flags & RETRACE_TOKENIZE_INSIDE) && text.n > 0) rc = puts_space(m, l, &spaced, err);
    if (rc == RETRACE_OK && spaced) rc = add_behind_guard(l, to, text, special, &done, err);
    if (rc < 0 || done) return rc;
    return add_piece(m, l, to, text, special, 0, err);
}

int rt_llama_tokens(const retrace_model *m, const rt_llama *l, retrace_text text, int flags,
                    retrace_token **out, int *n, retrace_error *err) {
    list ids = {0};
    int rc = split(m, l, text, flags, &ids, err);
    if (rc == RETRACE_OK && (flags & RETRACE_TOKENIZE_BOS)) rc = settle_bos(m, &ids, err);
    if (rc == RETRACE_OK) rc = hand_over(&ids, out, n, err);
    if (rc < 0) retrace_free(ids.v);
    return rc;
}

/* ==== Chat ==== */

enum {
    REAL,
    FRAME,
    FENCED
}; /* contents as they are, as placeholders, as placeholders with \v around */

typedef struct chat {
    const retrace_model *m;
    const rt_llama *l;
    const retrace_message *messages;
    int n;
    rt_buf tag; /* opens a placeholder; occurs in no message and not in the template */
    const char **roles;
    char **contents;
    int n_parts; /* the answers with tokens, and one */
    int *said;   /* said[k]: the message whose tokens stand behind part k */
    int *at;     /* where they begin; NULL: nobody asks */
} chat;

/* Does the message stand in the prompt by its tokens? */
static int has_tokens(const chat *c, int i) {
    return c->messages[i].tokens != NULL;
}

static int holds(retrace_text t, const char *s, size_t n) {
    const char *end = t.n ? t.s + t.n : t.s;
    for (const char *at = t.s; at && (size_t)(end - at) >= n; at++) {
        at = memchr(at, s[0], (size_t)(end - at) - n + 1);
        if (!at) return 0;
        if (memcmp(at, s, n) == 0) return 1;
    }
    return 0;
}

static int tag_occurs(const chat *c) {
    const char *form = rt_llama_template(c->l);
    retrace_text t = {form ? form : "", form ? strlen(form) : 0};
    int found = holds(t, c->tag.s, c->tag.n);
    for (int i = 0; i < c->n && !found; i++) {
        retrace_text role = {c->messages[i].role, strlen(c->messages[i].role)};
        found =
            holds(c->messages[i].content, c->tag.s, c->tag.n) || holds(role, c->tag.s, c->tag.n);
    }
    return found;
}

static int make_tag(chat *c, retrace_error *err) {
    int rc = rt_buf_add(&c->tag, "Qcontent", 8);
    while (rc == RETRACE_OK && tag_occurs(c)) rc = rt_buf_add(&c->tag, "Q", 1);
    return rc < 0 ? rt_nomem(err) : RETRACE_OK;
}

static char *placeholder(const chat *c, int i, int kind) {
    const char *fence = kind == FENCED && !has_tokens(c, i) ? "\v" : "";
    size_t room = c->tag.n + 32;
    char *s = retrace_alloc(room);
    if (s) snprintf(s, room, "%s%.*s%dE%s", fence, (int)c->tag.n, c->tag.s, i, fence);
    return s;
}

static int render(chat *c, int kind, char **out, size_t *len, retrace_error *err) {
    int rc = RETRACE_OK;
    for (int i = 0; i < c->n; i++) {
        retrace_text t = c->messages[i].content;
        c->roles[i] = c->messages[i].role;
        retrace_free(c->contents[i]);
        c->contents[i] =
            kind == REAL && !has_tokens(c, i) ? rt_copy(t.s, t.n) : placeholder(c, i, kind);
        if (!c->contents[i]) rc = rt_nomem(err);
    }
    if (rc < 0) return rc;
    return rt_llama_render(c->l, c->roles, (const char *const *)c->contents, c->n, out, len, err);
}

/* The next placeholder in s[at..]: its message, and where it begins and ends. -1: none is left. */
static int next_place(const chat *c, const char *s, size_t n, size_t at, size_t *begin,
                      size_t *end) {
    for (size_t i = at; i + c->tag.n < n; i++) {
        if (s[i] != c->tag.s[0] || memcmp(s + i, c->tag.s, c->tag.n) != 0) continue;
        size_t k = i + c->tag.n;
        int which = 0;
        while (k < n && s[k] >= '0' && s[k] <= '9' && which < c->n)
            which = which * 10 + (s[k++] - '0');
        if (k >= n || s[k] != 'E' || which >= c->n) continue;
        *begin = i;
        *end = k + 1;
        return which;
    }
    return -1;
}

/* Every message must stand in the rendered text exactly once. */
static int check_places(const chat *c, const char *frame, size_t n, retrace_error *err) {
    int rc = RETRACE_OK;
    unsigned char *seen = retrace_calloc((size_t)c->n, 1);
    if (!seen) return rt_nomem(err);
    size_t at = 0, begin, end;
    for (int i; (i = next_place(c, frame, n, at, &begin, &end)) >= 0; at = end) {
        if (seen[i] < 2) seen[i]++;
    }
    for (int i = 0; i < c->n && rc == RETRACE_OK; i++) {
        if (seen[i] == 1) continue;
        rc = retrace_fail(err, RETRACE_EMODEL,
                          "the chat template has no place for message %d, of role '%s'", i + 1,
                          c->messages[i].role);
    }
    retrace_free(seen);
    return rc;
}

/* Cuts a rendered text at the answers with tokens: into n_parts of them, or *n says how many. */
static void cut_parts(const chat *c, retrace_text text, retrace_text *parts, int *n) {
    size_t from = 0, at = 0, begin, end;
    *n = 0;
    for (int i; (i = next_place(c, text.s, text.n, at, &begin, &end)) >= 0; at = end) {
        if (!has_tokens(c, i)) continue;
        if (*n + 1 < c->n_parts) {
            c->said[*n] = i;
            parts[*n] = (retrace_text){text.s + from, begin - from};
        }
        from = end;
        ++*n;
    }
    if (*n < c->n_parts) parts[*n] = (retrace_text){text.s + from, text.n - from};
    ++*n;
}

static int same_controls(const retrace_model *m, const retrace_token *a, int n_a,
                         const retrace_token *b, int n_b) {
    int i = 0, j = 0;
    for (;;) {
        while (i < n_a && !is_control(m, a[i])) i++;
        while (j < n_b && !is_control(m, b[j])) j++;
        if (i == n_a || j == n_b) return i == n_a && j == n_b;
        if (a[i++] != b[j++]) return 0;
    }
}

/* A part of the plain rendering in one piece, unless a content makes a control token; *done says
 * which. */
static int whole(const chat *c, retrace_text text, retrace_text frame, int spaced, list *to,
                 int *done, retrace_error *err) {
    list bare = {0};
    int before = to->n;
    /* What stands before a part decides about the space in front of it. */
    int rc = before ? add(&bare, &to->v[before - 1], 1, err) : RETRACE_OK;
    if (rc == RETRACE_OK) rc = add_piece(c->m, c->l, to, text, 1, spaced, err);
    if (rc == RETRACE_OK) rc = add_piece(c->m, c->l, &bare, frame, 1, spaced, err);
    *done = rc == RETRACE_OK && same_controls(c->m, to->v + before, to->n - before,
                                              bare.v + (before > 0), bare.n - (before > 0));
    if (!*done) to->n = before;
    retrace_free(bare.v);
    return rc;
}

static int is_blank(char ch) {
    return ch == ' ' || (ch >= '\t' && ch <= '\r');
}

/* The content as the template would show it: some trim it, which the fences tell. */
static retrace_text shown(const chat *c, int i, int left, int right) {
    retrace_text t = c->messages[i].content;
    while (left && t.n && is_blank(t.s[0])) t.s++, t.n--;
    while (right && t.n && is_blank(t.s[t.n - 1])) t.n--;
    return t;
}

static int in_pieces(const chat *c, retrace_text text, int spaced, list *to, retrace_error *err) {
    size_t at = 0, begin, end;
    int rc = RETRACE_OK;
    while (rc == RETRACE_OK) {
        int i = next_place(c, text.s, text.n, at, &begin, &end);
        size_t stop = i < 0 ? text.n : begin;
        int left = i >= 0 && !(begin > at && text.s[begin - 1] == '\v');
        int right = i >= 0 && !(end < text.n && text.s[end] == '\v');
        if (i >= 0 && !left) stop--;
        rc = add_piece(c->m, c->l, to, (retrace_text){text.s + at, stop - at}, 1, spaced, err);
        if (rc < 0 || i < 0) break;
        rc = add_piece(c->m, c->l, to, shown(c, i, left, right), 0, spaced, err);
        at = right ? end : end + 1;
    }
    return rc;
}

/* A rendering and its parts. */
typedef struct rendered {
    char *s;
    size_t n;
    retrace_text *parts;
    int n_parts;
} rendered;

static void drop(rendered *r) {
    retrace_free(r->s);
    retrace_free(r->parts);
}

static int render_parts(chat *c, int kind, rendered *r, retrace_error *err) {
    r->parts = retrace_calloc((size_t)c->n_parts, sizeof *r->parts);
    int rc = r->parts ? render(c, kind, &r->s, &r->n, err) : rt_nomem(err);
    if (rc == RETRACE_OK) cut_parts(c, (retrace_text){r->s, r->n}, r->parts, &r->n_parts);
    return rc;
}

static int spells_control(const retrace_model *m, retrace_text t) {
    for (retrace_token id = 0; t.n && id < m->facts.vocab; id++) {
        const retrace_token_info *v = &m->vocab[id];
        if (v->n > 0 && is_control(m, id) && holds(t, v->bytes, (size_t)v->n)) return 1;
    }
    return 0;
}

/* Contents that have no plain rendering: libllama would stop at a NUL, and where one spells a whole
 * control token the rendering is known to be wrong. (To split one with many of these takes libllama
 * time that grows with the square of their number.) */
static int must_be_in_pieces(const chat *c) {
    for (int i = 0; i < c->n; i++) {
        retrace_text t = c->messages[i].content;
        if (has_tokens(c, i) || t.n == 0) continue;
        if (memchr(t.s, '\0', t.n) || spells_control(c->m, t)) return 1;
    }
    return 0;
}

/* The parts, and the tokens of the answers between them. */
static int join(chat *c, const rendered *frame, list *to, retrace_error *err) {
    rendered real = {0}, fenced = {0};
    int spaced = 0, rc = puts_space(c->m, c->l, &spaced, err);
    if (rc == RETRACE_OK && !must_be_in_pieces(c)) rc = render_parts(c, REAL, &real, err);
    int plain = real.n_parts == c->n_parts;
    for (int k = 0; k < c->n_parts && rc == RETRACE_OK; k++) {
        int done = 0;
        if (plain) rc = whole(c, real.parts[k], frame->parts[k], spaced, to, &done, err);
        if (rc == RETRACE_OK && !done && !fenced.s) rc = render_parts(c, FENCED, &fenced, err);
        if (rc == RETRACE_OK && !done) rc = in_pieces(c, fenced.parts[k], spaced, to, err);
        const retrace_message *said = k + 1 < c->n_parts ? &c->messages[c->said[k]] : NULL;
        if (said && c->at) c->at[c->said[k]] = to->n;
        if (rc == RETRACE_OK && said) rc = add(to, said->tokens, said->n_tokens, err);
    }
    drop(&real);
    drop(&fenced);
    return rc;
}

static int check_roles(const retrace_message *messages, int n, retrace_error *err) {
    if (n < 1) return retrace_fail(err, RETRACE_EUSAGE, "there are no messages");
    for (int i = 0; i < n; i++) {
        const char *role = messages[i].role;
        if (role && role[0] && role[strspn(role, "abcdefghijklmnopqrstuvwxyz_")] == '\0') continue;
        return retrace_fail(err, RETRACE_EUSAGE, "message %d: '%.40s' is no role", i + 1,
                            role ? role : "");
    }
    return RETRACE_OK;
}

/* BOS in front has moved them. */
static void move_places(const chat *c, int by) {
    for (int k = 0; c->at && k + 1 < c->n_parts; k++) c->at[c->said[k]] += by;
}

static int make_chat(chat *c, retrace_error *err) {
    c->n_parts = 1;
    for (int i = 0; i < c->n; i++) c->n_parts += has_tokens(c, i);
    c->roles = retrace_calloc((size_t)c->n, sizeof *c->roles);
    c->contents = retrace_calloc((size_t)c->n, sizeof *c->contents);
    c->said = retrace_calloc((size_t)c->n_parts, sizeof *c->said);
    return c->roles && c->contents && c->said ? make_tag(c, err) : rt_nomem(err);
}

static void free_chat(chat *c) {
    for (int i = 0; c->contents && i < c->n; i++) retrace_free(c->contents[i]);
    retrace_free(c->contents);
    retrace_free(c->roles);
    retrace_free(c->said);
    rt_buf_free(&c->tag);
}

int rt_llama_chat(const retrace_model *m, const rt_llama *l, const retrace_message *messages,
                  int n_messages, int *at, retrace_token **out, int *n, retrace_error *err) {
    int rc = check_roles(messages, n_messages, err);
    if (rc < 0) return rc;
    chat c = {.m = m, .l = l, .messages = messages, .n = n_messages, .at = at};
    list ids = {0};
    rendered frame = {0};
    rc = make_chat(&c, err);
    if (rc == RETRACE_OK) rc = render_parts(&c, FRAME, &frame, err);
    if (rc == RETRACE_OK) rc = check_places(&c, frame.s, frame.n, err);
    if (rc == RETRACE_OK) rc = join(&c, &frame, &ids, err);
    int joined = ids.n;
    if (rc == RETRACE_OK) rc = settle_bos(m, &ids, err);
    if (rc == RETRACE_OK) move_places(&c, ids.n - joined);
    if (rc == RETRACE_OK) rc = hand_over(&ids, out, n, err);
    if (rc < 0) retrace_free(ids.v);
    drop(&frame);
    free_chat(&c);
    return rc;
}
