/* model.c - the table of back ends, and the checks that all of them share.
 *
 * A back end is chosen by the URI's scheme, or by the ending of a plain file name. It sees only
 * questions that have been checked; its answers are checked for NaN before anyone reads them.
 * Adding one: a file in src/models/, a line in models/models.h, a row here. */
#include "model.h"
#include "base.h"
#include "expv.h"
#include "models/models.h"
#include "settings.h"
#include "text/vocab.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const retrace_backend_type *const backends[] = {
#ifdef RETRACE_HAVE_LLAMA
    &rt_backend_llama,
#endif
    &rt_backend_table,
};

enum { N_BACKENDS = sizeof backends / sizeof *backends };

int retrace_backend_at(int i, retrace_plugin_info *out) {
    if (i < 0 || i >= N_BACKENDS) return 0;
    *out = (retrace_plugin_info){backends[i]->scheme, "backend", backends[i]->help,
                                 backends[i]->settings};
    return 1;
}

const char *retrace_chat_template_at(int i) {
    for (int b = 0; b < N_BACKENDS; b++)
        if (backends[b]->chat_template_at) return backends[b]->chat_template_at(i);
    return NULL;
}

/* ==== Opening ==== */

/* What the library itself wants to know about a model. */
typedef struct common {
    int64_t keep_mib;
} common;

static const retrace_setting_info common_settings[] = {
    {"keep_mib", RETRACE_INT, offsetof(common, keep_mib), "256", 0, 1 << 20, NULL,
     "MiB of distributions kept for retries; past it the oldest are evaluated again when needed"},
    {0},
};

const retrace_setting_info *retrace_model_infos(void) {
    return common_settings;
}

static int ends_with(const char *s, const char *suffix) {
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

/* "scheme:where", else by the file's ending, else the first back end. *where points into uri. */
static const retrace_backend_type *find(const char *uri, const char **where, retrace_error *err) {
    for (int i = 0; i < N_BACKENDS; i++) {
        size_t n = strlen(backends[i]->scheme);
        if (strncmp(uri, backends[i]->scheme, n) == 0 && uri[n] == ':') {
            *where = uri + n + 1;
            return backends[i];
        }
    }
    size_t n = strspn(uri, "abcdefghijklmnopqrstuvwxyz");
    if (n > 1 && uri[n] == ':') {
        retrace_fail(err, RETRACE_EUSAGE, "model '%s': unknown kind '%.*s'", uri, (int)n, uri);
        return NULL;
    }
    *where = uri;
    for (int i = 0; i < N_BACKENDS; i++) {
        if (backends[i]->suffix && ends_with(uri, backends[i]->suffix)) return backends[i];
    }
    return backends[0];
}

/* Settings of the library go to *c, the others to the back end's struct. */
static int take_settings(const retrace_backend_type *type, const retrace_setting *settings, int n,
                         common *c, void *own, retrace_error *err) {
    int rc = rt_settings_preset(c, common_settings, err);
    if (rc == RETRACE_OK) rc = rt_settings_preset(own, type->settings, err);
    for (int i = 0; rc == RETRACE_OK && i < n; i++) {
        const retrace_setting_info *row = rt_setting_find(common_settings, settings[i].name);
        void *self = row ? (void *)c : own;
        if (!row) row = rt_setting_find(type->settings, settings[i].name);
        if (!row)
            return retrace_fail(err, RETRACE_EUSAGE, "a %s model has no setting '%s'", type->scheme,
                                settings[i].name);
        rc = rt_setting_put(self, row, settings[i].value, "", err);
    }
    return rc;
}

/* Of what a tokenizer is made of; two models with the same one may share a bigram chain. */
static uint64_t hash_vocab(const retrace_model *m) {
    uint64_t h = 0;
    for (int i = 0; i < m->facts.vocab; i++) {
        char flags = (char)m->vocab[i].flags;
        h = rt_digest(h, m->vocab[i].bytes, (size_t)m->vocab[i].n);
        h = rt_digest(h, &flags, 1);
    }
    return h;
}

int retrace_model_open(retrace_model **out, const char *uri, const retrace_setting *settings,
                       int n_settings, retrace_error *err) {
    rt_clear(err);
    const char *where;
    const retrace_backend_type *type = find(uri, &where, err);
    if (!type) return RETRACE_EUSAGE;
    void *own = retrace_calloc(1, type->settings_size ? type->settings_size : 1);
    if (!own) return rt_nomem(err);
    common c = {0};
    retrace_model *m = NULL;
    int rc = take_settings(type, settings, n_settings, &c, own, err);
    if (rc == RETRACE_OK) rc = type->open(&m, where, own, err);
    retrace_settings_free(own, type->settings);
    retrace_free(own);
    if (rc) return rc;
    m->type = type;
    m->facts.vocab_hash = hash_vocab(m);
    m->keep = rt_keep_new(m->facts.vocab, (size_t)c.keep_mib << 20);
    m->pieces = rt_vocab_new(m);
    if (!m->keep || !m->pieces) {
        retrace_model_close(m);
        return rt_nomem(err);
    }
    *out = m;
    return RETRACE_OK;
}

void retrace_model_close(retrace_model *m) {
    if (!m) return;
    rt_keep_free(m->keep);
    rt_vocab_free(m->pieces);
    m->type->close(m);
}

/* ==== Facts ==== */

void retrace_model_facts(const retrace_model *m, retrace_model_info *out) {
    *out = m->facts;
}

retrace_text retrace_token_name(const retrace_model *m, retrace_token id) {
    if (id < 0 || id >= m->facts.vocab) return (retrace_text){"", 0};
    return (retrace_text){m->vocab[id].bytes, (size_t)m->vocab[id].n};
}

retrace_text retrace_piece(const retrace_model *m, retrace_token id) {
    retrace_text t = retrace_token_name(m, id);
    if (t.n && (m->vocab[id].flags & (RETRACE_TOKEN_END | RETRACE_TOKEN_CONTROL))) t.n = 0;
    return t;
}

int retrace_token_ends(const retrace_model *m, retrace_token id) {
    return id >= 0 && id < m->facts.vocab && (m->vocab[id].flags & RETRACE_TOKEN_END) != 0;
}

/* ==== Text to tokens ==== */

int rt_check_text(retrace_text t, const char *what, retrace_error *err) {
    if (t.n > INT32_MAX / 2) return retrace_fail(err, RETRACE_EUSAGE, "%s is too long", what);
    size_t at = rt_utf8_check(t.s, t.n);
    if (at == t.n) return RETRACE_OK;
    return retrace_fail(err, RETRACE_EUSAGE, "%s is not valid UTF-8 at byte %zu", what, at);
}

int retrace_tokenize(const retrace_model *m, retrace_text text, int flags, retrace_token **out,
                     int *n, retrace_error *err) {
    rt_clear(err);
    int rc = rt_check_text(text, "the text", err);
    return rc ? rc : m->type->tokenize(m, text, flags, out, n, err);
}

/* Do the tokens of an answer spell its text, and is none of them a control token? */
static int check_said(const retrace_model *m, const retrace_message *said, int number,
                      retrace_error *err) {
    size_t at = 0;
    if (!said->role || strcmp(said->role, "assistant") != 0)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "message %d: only a message of the assistant has tokens", number);
    for (int i = 0; i < said->n_tokens; i++) {
        retrace_token id = said->tokens[i];
        if (id < 0 || id >= m->facts.vocab)
            return retrace_fail(err, RETRACE_EUSAGE,
                                "message %d: token %d is outside the vocabulary of %d", number,
                                (int)id, m->facts.vocab);
        const retrace_token_info *v = &m->vocab[id];
        if (v->flags & (RETRACE_TOKEN_CONTROL | RETRACE_TOKEN_END))
            return retrace_fail(err, RETRACE_EUSAGE,
                                "message %d: token %d is a control token and stands in no text",
                                number, (int)id);
        size_t n = (size_t)v->n;
        if (n > said->content.n - at || (n && memcmp(said->content.s + at, v->bytes, n) != 0))
            at = SIZE_MAX;
        if (at == SIZE_MAX) break;
        at += n;
    }
    if (said->n_tokens >= 0 && at == said->content.n) return RETRACE_OK;
    return retrace_fail(err, RETRACE_EUSAGE, "message %d: its tokens do not spell its content",
                        number);
}

static int check_message(const retrace_model *m, const retrace_message *message, int number,
                         retrace_error *err) {
    char what[48];
    if (!message->role) return retrace_fail(err, RETRACE_EUSAGE, "message %d has no role", number);
    if (message->tokens) return check_said(m, message, number, err);
    snprintf(what, sizeof what, "message %d", number);
    return rt_check_text(message->content, what, err);
}

int rt_chat(const retrace_model *m, const retrace_message *messages, int n_messages, int *at,
            retrace_token **out, int *n, retrace_error *err) {
    rt_clear(err);
    if (!m->type->chat)
        return retrace_fail(err, RETRACE_EMODEL, "a %s model has no chat template",
                            m->type->scheme);
    for (int i = 0; i < n_messages; i++) {
        int rc = check_message(m, &messages[i], i + 1, err);
        if (rc) return rc;
    }
    return m->type->chat(m, messages, n_messages, at, out, n, err);
}

int retrace_chat(const retrace_model *m, const retrace_message *messages, int n_messages,
                 retrace_token **out, int *n, retrace_error *err) {
    return rt_chat(m, messages, n_messages, NULL, out, n, err);
}

/* ==== Questions ==== */

static int check_query(const retrace_model *m, const retrace_query *q, retrace_error *err) {
    if (q->n > m->facts.n_ctx)
        return retrace_fail(err, RETRACE_EUSAGE, "%d tokens do not fit a context of %d", q->n,
                            m->facts.n_ctx);
    if (q->n < 0 || (q->n == 0 && !m->empty_prompt))
        return retrace_fail(err, RETRACE_EUSAGE, "this model needs at least one token");
    if (q->logp && (q->from < 0 || q->from > q->n))
        return retrace_fail(err, RETRACE_EUSAGE, "cannot score from token %d of %d", q->from, q->n);
    if (q->top && q->n_top < 0)
        return retrace_fail(err, RETRACE_EUSAGE, "cannot name the %d most probable tokens",
                            q->n_top);
    for (int i = 0; i < q->n; i++) {
        if (q->tokens[i] < 0 || q->tokens[i] >= m->facts.vocab)
            return retrace_fail(err, RETRACE_EUSAGE,
                                "token %d at %d is outside the vocabulary of %d", (int)q->tokens[i],
                                i, m->facts.vocab);
    }
    return RETRACE_OK;
}

/* What an answer does not fill says so. */
static void empty_top(const retrace_query *q) {
    size_t places = (size_t)(q->logp ? q->n - q->from : 0) + (q->next != NULL);
    for (size_t i = 0; q->top && i < places * (size_t)q->n_top; i++)
        q->top[i] = (retrace_candidate){-1, NAN};
}

static int check_answer(const retrace_model *m, const retrace_query *q, retrace_error *err) {
    int bad = q->next &&
              (rt_any_bad(q->next, m->facts.vocab) || rt_max(q->next, m->facts.vocab) == -INFINITY);
    if (q->next && bad)
        return retrace_fail(err, RETRACE_EMODEL, "the model gave no distribution after token %d",
                            q->n);
    int scored = q->logp ? q->n - q->from : 0;
    for (int i = 0; i < scored; i++) {
        if (isnan(q->logp[i]) && q->from + i > 0)
            return retrace_fail(err, RETRACE_EMODEL, "the model gave no probability for token %d",
                                q->from + i);
    }
    return RETRACE_OK;
}

int retrace_model_eval(retrace_model *m, retrace_query *q, int n, retrace_error *err) {
    rt_clear(err);
    for (int i = 0; i < n; i++) {
        q[i].answered = q[i].evaluated = 0;
        int rc = check_query(m, &q[i], err);
        if (rc) return rc;
    }
    for (int i = 0; i < n; i++) empty_top(&q[i]);
    int rc = m->type->eval(m, q, n, err);
    for (int i = 0; rc == RETRACE_OK && i < n; i++) rc = check_answer(m, &q[i], err);
    for (int i = 0; i < n; i++) q[i].answered = rc == RETRACE_OK;
    return rc;
}
