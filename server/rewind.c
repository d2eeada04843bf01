/* rewind.c - going back in a completion: POST /v1/rewind, GET /v1/completions/{id}/alternatives.
 *
 * The run itself is taken up again, with its tree, its bans and what it knows of the model's
 * distributions, so nothing is computed twice that its slot still holds. What follows is an answer
 * like any other, by the same steps. The alternatives at a place are the model's own, before bans;
 * bans are marked. */
#include "worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { K_MOST = 100, K_PRESET = 10, CHOICE_MOST = 64 };

/* What both find in the kept completion. */
typedef struct place {
    char id[64];
    unsigned char key[SRV_DIGEST];
    int64_t choice, pos;
    srv_entry *entry;
    retrace_run *run;
    const srv_prompt *prompt;
} place;

typedef struct rewinding {
    srv_text text;
    place at;
    srv_request view; /* the answer's request: one choice, from `keep` on */
    retrace_choice then;
    int steered;       /* `then` is given */
    const char *steer; /* by this field */
    char *words;       /* then.text */
    int64_t max_tokens;
    int stream, include_usage, events;
} rewinding;

typedef struct looking {
    srv_unit unit;
    srv *s;
    place at;
    srv_lane lane;
    int k;
    retrace_query q;
    float *next;
    retrace_candidate *top;
} looking;

/* ==== Finding the place ==== */

/* The tokens up to the place, to be freed. */
static retrace_token *sequence(const place *at, int *n) {
    int n_answer;
    const retrace_token *answer = retrace_run_tokens(at->run, &n_answer);
    int n_prompt = at->prompt->n, keep = (int)at->pos;
    retrace_token *v = cli_alloc((size_t)(n_prompt + keep + 1) * sizeof *v);
    if (n_prompt) memcpy(v, at->prompt->tokens, (size_t)n_prompt * sizeof *v);
    if (keep) memcpy(v + n_prompt, answer, (size_t)keep * sizeof *v);
    *n = n_prompt + keep;
    return v;
}

/* `name` is what the client calls the position. */
static int find(place *at, srv_worker *w, const char *name, srv_error *e) {
    int n;
    at->entry = srv_kept_take(srv_worker_kept(w), at->id, at->key, e);
    if (!at->entry) return -1;
    const srv_request *q = at->entry->q;
    if (at->choice >= at->entry->n_runs)
        return srv_fail(e, 400, "invalid_value", "choice", "choice: the completion has %d",
                        at->entry->n_runs);
    at->run = at->entry->runs[at->choice];
    if (!at->run || retrace_run_finished(at->run) == RETRACE_FINISH_ERROR)
        return srv_fail(e, 400, "invalid_value", "choice",
                        "choice: number %d was never begun, or failed", (int)at->choice);
    at->prompt = &q->prompts[at->choice / q->n];
    retrace_run_tokens(at->run, &n);
    if (at->pos <= n) return 0;
    return srv_fail(e, 400, "invalid_value", name, "%s: the completion has %d tokens", name, n);
}

static srv_lane lane_at(const place *at) {
    srv_lane p = {.slot = SRV_NO_SLOT, .again = 1, .alone = at->entry->q->options.alone};
    p.n_prompt = at->prompt->n;
    p.owned = sequence(at, &p.n);
    p.tokens = p.owned;
    return p;
}

/* ==== Rewinding ==== */

static void make_view(rewinding *r) {
    const srv_request *q = r->at.entry->q;
    r->view = *q;
    r->view.prompts = &q->prompts[r->at.choice / q->n];
    r->view.n_prompts = r->view.n = 1;
    r->view.echo = 0;
    r->view.arrived = r->text.unit.arrived;
    r->view.keep = (int)r->at.pos;
    r->view.rewound = 1;
    r->view.stream = r->stream;
    r->view.include_usage = r->include_usage;
    r->view.events = r->events;
    r->text.q = &r->view;
}

/* From here on it is in use: nobody else takes it up, and it stays until this one's turn comes. */
static int arrive_rewinding(srv_unit *u, srv_worker *w) {
    rewinding *r = (rewinding *)u;
    srv_error e = {0};
    int rc = find(&r->at, w, "keep", &e);
    r->text.entry = r->at.entry;
    if (rc < 0) srv_reply_error(u->reply, &e);
    return rc;
}

/* As of any request: `hold`, else `stream`. */
static int reopen(rewinding *r, srv_error *e) {
    retrace_error err;
    const srv_request *q = r->at.entry->q;
    int hold = r->stream ? RETRACE_HOLD_MINIMAL : RETRACE_HOLD_ALL, rc;
    rc = retrace_run_set_hold(r->at.run, q->hold_given ? q->options.hold : hold, &err);
    if (rc == RETRACE_OK)
        rc = retrace_run_reopen(r->at.run, (int)r->at.pos, r->max_tokens,
                                r->steered ? &r->then : NULL, &err);
    return rc < 0 ? srv_fail_with(e, &err, r->steer) : 0;
}

static int begin_rewinding(srv_unit *u, srv_worker *w) {
    rewinding *r = (rewinding *)u;
    srv_text *t = &r->text;
    srv_error e = {0};
    if (reopen(r, &e)) {
        srv_reply_error(u->reply, &e);
        return -1;
    }
    make_view(r);
    t->lanes = cli_alloc(sizeof *t->lanes);
    t->n_lanes = 1;
    t->lanes[0] = lane_at(&r->at);
    t->lanes[0].run = r->at.run;
    t->put_at = srv_worker_now(w);
    t->answer = srv_answer_new(t->s, t->q, u->reply);
    return 0;
}

static void free_rewinding(srv_unit *u) {
    free(((rewinding *)u)->words);
    srv_text_free(u);
}

static const srv_unit_type rewinding_type = {
    "rewind", 1, begin_rewinding, srv_text_step, srv_text_fail, free_rewinding, arrive_rewinding};

/* ==== What a client asks for ==== */

/* A token by what it spells: as the model splits the text, else the first one of these bytes. */
static retrace_token token_of(const srv *s, retrace_text t) {
    retrace_token *v = NULL, found = -1;
    int n = 0;
    if (retrace_tokenize(s->model, t, RETRACE_TOKENIZE_INSIDE, &v, &n, NULL) == RETRACE_OK &&
        n == 1)
        found = v[0];
    retrace_free(v);
    for (int i = 0; i < s->facts.vocab && found < 0; i++) {
        retrace_text name = retrace_token_name(s->model, i);
        if (name.n == t.n && memcmp(name.s, t.s, t.n) == 0) found = i;
    }
    return found;
}

static int read_token(rewinding *r, const srv *s, json_t *v, srv_error *e) {
    r->steered = 1;
    r->steer = "token";
    r->then.kind = RETRACE_CHOOSE_TOKEN;
    if (json_is_integer(v)) {
        json_int_t id = json_integer_value(v);
        if (id < 0 || id >= s->facts.vocab)
            return srv_fail(e, 400, "invalid_value", "token",
                            "token: there is no token %lld in a vocabulary of %d", (long long)id,
                            s->facts.vocab);
        r->then.token = (retrace_token)id;
        return 0;
    }
    if (!json_is_string(v))
        return srv_fail(e, 400, "invalid_type", "token", "token: an id or the text of one token");
    r->then.token = token_of(s, (retrace_text){json_string_value(v), json_string_length(v)});
    if (r->then.token >= 0) return 0;
    return srv_fail(e, 400, "invalid_value", "token",
                    "token: this text is not one token of the model; give it as `text`");
}

static int read_then(rewinding *r, const srv *s, json_t *body, srv_error *e) {
    json_t *token = srv_get(body, srv_fields_rewind, "token"), *text;
    text = srv_get(body, srv_fields_rewind, "text");
    if (token && text)
        return srv_fail(e, 400, "invalid_value", "token", "token and text exclude each other");
    if (token) return read_token(r, s, token, e);
    if (!text) return 0;
    const char *words = NULL;
    if (srv_get_text(body, srv_fields_rewind, "text", &words, e)) return -1;
    r->words = cli_copy(words, strlen(words));
    r->then = (retrace_choice){.kind = RETRACE_CHOOSE_TEXT, .text = {r->words, strlen(words)}};
    r->steered = 1;
    r->steer = "text";
    return 0;
}

static int read_id(place *at, const char *id, srv_error *e) {
    if (!id || !*id) return srv_fail(e, 400, "missing_field", "id", "id: of which completion?");
    if (strlen(id) >= sizeof at->id)
        return srv_fail(e, 404, "completion_not_found", "id", "there is no completion of this id");
    memcpy(at->id, id, strlen(id) + 1);
    return 0;
}

/* {"within": {"name": true}} */
static int read_inner(json_t *body, const char *within, const char *name, int *out, srv_error *e) {
    json_t *o = srv_get(body, srv_fields_rewind, within), *v = json_object_get(o, name);
    if (o && !json_is_object(o))
        return srv_fail(e, 400, "invalid_type", within, "%s: an object", within);
    if (v && !json_is_null(v) && !json_is_boolean(v))
        return srv_fail(e, 400, "invalid_type", within, "%s.%s: true or false", within, name);
    *out = json_is_true(v);
    return 0;
}

static int read_rewinding(rewinding *r, const srv *s, json_t *body, srv_error *e) {
    const srv_field *f = srv_fields_rewind;
    const char *id = NULL;
    r->max_tokens = -1;
    r->at.pos = -1;
    int rc = srv_get_text(body, f, "id", &id, e);
    if (rc == 0) rc = read_id(&r->at, id, e);
    if (rc == 0) rc = srv_get_int(body, f, "choice", &r->at.choice, e);
    if (rc == 0) rc = srv_get_int(body, f, "keep", &r->at.pos, e);
    if (rc == 0 && r->at.pos < 0)
        rc = srv_fail(e, 400, "missing_field", "keep", "keep: how many tokens of the answer stay?");
    if (rc == 0) rc = srv_get_int(body, f, "max_tokens", &r->max_tokens, e);
    if (rc == 0) rc = srv_get_bool(body, f, "stream", &r->stream, e);
    if (rc == 0) rc = read_inner(body, "stream_options", "include_usage", &r->include_usage, e);
    if (rc == 0) rc = read_inner(body, "retrace", "events", &r->events, e);
    return rc ? rc : read_then(r, s, body, e);
}

/* Hands the unit over, or answers with e. */
static void give(srv *s, srv_call *c, srv_unit *u, int rc, srv_error *e) {
    if (rc == 0) rc = srv_worker_give(s->worker, u, e);
    if (rc) {
        srv_reply_error(c->reply, e);
        u->type->free(u);
    }
    srv_call_done(c);
}

void srv_prepare_rewind(srv *s, srv_call *c) {
    srv_error e = {0};
    rewinding *r = cli_alloc(sizeof *r);
    r->text.unit = (srv_unit){
        .type = &rewinding_type, .reply = srv_reply_hold(c->reply), .arrived = cli_clock()};
    r->text.s = s;
    memcpy(r->at.key, c->key, sizeof r->at.key);
    json_t *body = srv_json_read(&c->body, &e);
    int rc = body ? read_rewinding(r, s, body, &e) : -1;
    json_decref(body);
    give(s, c, &r->text.unit, rc, &e);
}

/* ==== Alternatives ==== */

static int arrive_looking(srv_unit *u, srv_worker *w) {
    looking *l = (looking *)u;
    srv_error e = {0};
    int rc = find(&l->at, w, "pos", &e);
    if (rc < 0) srv_reply_error(u->reply, &e);
    return rc;
}

static int begin_looking(srv_unit *u, srv_worker *w) {
    looking *l = (looking *)u;
    (void)w;
    l->lane = lane_at(&l->at);
    l->next = cli_alloc((size_t)l->s->facts.vocab * sizeof *l->next);
    l->top = cli_alloc((size_t)l->k * sizeof *l->top);
    return 0;
}

/* The distance of two logits is that of their log-probabilities, and the best one has both. */
static json_t *kept_json(const looking *l) {
    int n;
    const retrace_token *v = retrace_run_tokens(l->at.run, &n);
    if (l->at.pos >= n) return json_null();
    retrace_token id = v[l->at.pos];
    double logp = l->top[0].logp + ((double)l->next[id] - (double)l->next[l->top[0].id]);
    json_t *list = cli_json_candidates(l->s->model, &(retrace_candidate){id, logp}, 1);
    json_t *o = json_incref(json_array_get(list, 0));
    json_decref(list);
    return o;
}

/* Banned at this place by a rule, or everywhere by the request. */
static int is_banned(const looking *l, retrace_token id) {
    const retrace_options *o = &l->at.entry->q->options;
    int n = 0;
    const retrace_token *bans = retrace_run_bans(l->at.run, (int)l->at.pos, &n);
    for (int i = 0; bans && i < n; i++)
        if (bans[i] == id) return 1;
    for (int i = 0; i < o->n_bias; i++)
        if (o->bias[i].id == id && o->bias[i].bias == -INFINITY) return 1;
    return 0;
}

static json_t *alternatives_json(const looking *l) {
    int n = 0;
    while (n < l->k && l->top[n].id >= 0) n++;
    json_t *list = cli_json_candidates(l->s->model, l->top, n);
    for (int i = 0; i < n; i++)
        json_object_set_new(json_array_get(list, (size_t)i), "banned",
                            json_boolean(is_banned(l, l->top[i].id)));
    return list;
}

static void tell(const looking *l) {
    cli_buf prefix = {0};
    json_t *o = json_object();
    srv_put_pieces(l->s->model, l->lane.tokens + l->lane.n_prompt, l->lane.n - l->lane.n_prompt,
                   &prefix);
    json_object_set_new(o, "id", json_string(l->at.id));
    json_object_set_new(o, "choice", json_integer(l->at.choice));
    json_object_set_new(o, "pos", json_integer(l->at.pos));
    json_object_set_new(o, "prefix", cli_json_text(cli_buf_text(&prefix)));
    json_object_set_new(o, "kept", kept_json(l));
    json_object_set_new(o, "alternatives", alternatives_json(l));
    cli_buf_free(&prefix);
    srv_reply_json(l->unit.reply, 200, o);
}

static void ask_top(looking *l, srv_worker *w) {
    srv_lane *p = &l->lane;
    l->q = (retrace_query){.tokens = p->tokens,
                           .n = p->n,
                           .n_prompt = p->n_prompt,
                           .from = p->n,
                           .next = l->next,
                           .alone = p->alone,
                           .n_top = l->k,
                           .top = l->top};
    p->question = &l->q;
    srv_worker_ask(w, &l->unit, &l->q, p->slot, SRV_ASK_PROMPT);
}

static int step_looking(srv_unit *u, srv_worker *w) {
    looking *l = (looking *)u;
    srv_lane *p = &l->lane;
    if (p->stage == SRV_WAITS) {
        p->slot = srv_slots_take(srv_worker_slots(w), p->tokens, p->n, p->again);
        if (p->slot == SRV_NO_SLOT) return 0;
        p->stage = SRV_SHARES;
    }
    if (p->question) {
        srv_slots_hold(srv_worker_slots(w), p->slot, p->tokens, p->n);
        tell(l);
        return 1;
    }
    srv_prime_step(p, u, w);
    if (p->stage == SRV_FIRST) ask_top(l, w);
    return 0;
}

static void fail_looking(srv_unit *u, const srv_error *e) {
    srv_reply_error(u->reply, e);
}

static void free_looking(srv_unit *u) {
    looking *l = (looking *)u;
    srv_worker *w = l->s->worker;
    if (l->lane.owned) srv_lane_free(&l->lane, w);
    if (l->at.entry) srv_kept_release(srv_worker_kept(w), l->at.entry, cli_clock());
    free(l->next);
    free(l->top);
    srv_reply_drop(u->reply);
    free(l);
}

static const srv_unit_type looking_type = {
    "alternatives", 1, begin_looking, step_looking, fail_looking, free_looking, arrive_looking};

/* A number of the URL's query; it stays as it is when absent. */
static int read_number(json_t *query, const char *name, int64_t least, int64_t most, int64_t *out,
                       srv_error *e) {
    const char *v = json_string_value(json_object_get(query, name));
    if (!v) return 0;
    if (cli_parse_int(v, out) && *out >= least && *out <= most) return 0;
    return srv_fail(e, 400, "invalid_value", name, "%s: a number from %lld to %lld", name,
                    (long long)least, (long long)most);
}

static int read_looking(looking *l, const srv_call *c, srv_error *e) {
    int64_t k = K_PRESET, pos = -1;
    int rc = read_id(&l->at, c->id, e);
    if (rc == 0) rc = read_number(c->query, "k", 1, K_MOST, &k, e);
    if (rc == 0) rc = read_number(c->query, "pos", 0, INT32_MAX, &pos, e);
    if (rc == 0) rc = read_number(c->query, "choice", 0, CHOICE_MOST - 1, &l->at.choice, e);
    if (rc == 0 && pos < 0)
        rc = srv_fail(e, 400, "missing_field", "pos", "pos: before which token of the answer?");
    l->at.pos = pos;
    l->k = (int)k;
    return rc;
}

void srv_prepare_alternatives(srv *s, srv_call *c) {
    srv_error e = {0};
    looking *l = cli_alloc(sizeof *l);
    l->unit = (srv_unit){
        .type = &looking_type, .reply = srv_reply_hold(c->reply), .arrived = cli_clock()};
    l->s = s;
    l->lane.slot = SRV_NO_SLOT;
    memcpy(l->at.key, c->key, sizeof l->at.key);
    int rc = read_looking(l, c, &e);
    give(s, c, &l->unit, rc, &e);
}
