/* answer.c - from the events of runs to what a client reads.
 *
 * Streamed and whole answers come from the same pieces, so a stream's chunks, joined, are the whole
 * answer. Only what has settled becomes text, and only whole characters do: the bytes of one that
 * is not whole wait for the next token, and become U+FFFD if none comes. With log-probabilities
 * each token is a chunk of its own, since clients read only the first entry of a chunk; otherwise a
 * chunk has what settled at once. A stream begins with the first event (or, where that takes long,
 * with the first ping): whatever goes wrong before is a plain answer. */
#include "shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const srv_form *form_of(const srv_request *q) {
    if (q->shape == SRV_CHAT) return &srv_form_chat;
    return q->shape == SRV_LLAMA ? &srv_form_llama : &srv_form_completions;
}

static int wants_logprobs(const srv_answer *a) {
    return a->q->shape == SRV_LLAMA ? a->q->n_probs > 0 : a->q->logprobs >= 0;
}

static void write_head(srv_answer *a) {
    json_t *o = json_pack("{s:s}", "id", a->q->id);
    if (a->form->chunk_object)
        json_object_update_new(o, json_pack("{s:s, s:I, s:s, s:s}", "object", a->form->chunk_object,
                                            "created", (json_int_t)a->q->created, "model",
                                            a->q->model, "system_fingerprint", a->fingerprint));
    cli_puts(&a->head, "data: {");
    srv_put_json(&a->head, o, 1);
    cli_puts(&a->head, ",");
    json_decref(o);
}

srv_answer *srv_answer_new(srv *s, const srv_request *q, srv_reply *r) {
    srv_answer *a = cli_alloc(sizeof *a);
    *a = (srv_answer){.s = s, .q = q, .reply = srv_reply_hold(r), .form = form_of(q)};
    a->n_parts = q->n * q->n_prompts;
    a->parts = cli_alloc((size_t)a->n_parts * sizeof *a->parts);
    for (int i = 0; i < a->n_parts; i++)
        a->parts[i] = (srv_part){.index = i, .told = q->keep, .cached = -1};
    snprintf(a->fingerprint, sizeof a->fingerprint, "retrace-%s-%016llx", retrace_version(),
             (unsigned long long)s->facts.hash);
    write_head(a);
    return a;
}

static void free_part(srv_part *p) {
    cli_buf_free(&p->tail);
    cli_buf_free(&p->now);
    cli_buf_free(&p->text);
    cli_buf_free(&p->prefix);
    cli_buf_free(&p->stop_word);
    json_decref(p->logprobs);
    json_decref(p->ids);
    json_decref(p->ops);
    json_decref(p->rules);
    json_decref(p->choice);
    free(p->prompt_logp);
    free(p->prompt_top);
}

void srv_answer_free(srv_answer *a) {
    static const srv_error lost = {.status = 500, .msg = "the answer was given up"};
    if (!a) return;
    srv_answer_fail(a, &lost); /* unless it has ended, as it should */
    for (int i = 0; i < a->n_parts; i++) free_part(&a->parts[i]);
    free(a->parts);
    cli_buf_free(&a->head);
    cli_buf_free(&a->out);
    srv_reply_drop(a->reply);
    free(a);
}

/* ==== Pieces ==== */

/* Sends what has gathered: text, log-probabilities, ids, operations. */
static void flush(srv_answer *a, srv_part *p) {
    if (!a->q->stream) return;
    if (!p->text.n && !p->logprobs && !p->ids && !json_array_size(p->ops)) return;
    srv_chunk c = {.text = cli_buf_text(&p->text), .logprobs = p->logprobs, .ids = p->ids};
    p->logprobs = p->ids = NULL;
    srv_stream_chunk(a, p, &c);
    p->text.n = 0;
}

/* Takes whole characters out of the tail, into `now`; at the end all of it is. */
static void complete(srv_part *p, int end) {
    retrace_text t = cli_buf_text(&p->tail);
    size_t whole = end ? t.n : cli_utf8_whole(t);
    p->now.n = 0;
    cli_clean(&p->now, (retrace_text){t.s, whole});
    if (whole) memmove(p->tail.s, p->tail.s + whole, t.n - whole);
    p->tail.n -= whole;
}

/* Makes them part of the answer. */
static void gather(srv_part *p) {
    retrace_text t = cli_buf_text(&p->now);
    if (t.n == 0) return;
    for (size_t i = 0; i < t.n; i++) p->chars += ((unsigned char)t.s[i] & 0xc0) != 0x80;
    p->breaks |= memchr(t.s, '\n', t.n) != NULL;
    cli_put(&p->text, t.s, t.n);
}

static void add_logprob(srv_answer *a, srv_part *p, const srv_piece *piece) {
    if (!wants_logprobs(a)) return;
    if (!p->logprobs) p->logprobs = a->form->logprobs();
    a->form->add(a, p->logprobs, piece);
}

/* The bytes of one token; piece lacks only what follows from them. */
static void put_piece(srv_answer *a, srv_part *p, srv_piece *piece, retrace_text bytes) {
    piece->offset = p->chars;
    cli_put(&p->tail, bytes.s, bytes.n);
    complete(p, 0);
    gather(p);
    add_logprob(a, p, piece);
}

/* Whether this token is a chunk by itself. */
static void end_piece(srv_answer *a, srv_part *p) {
    if (wants_logprobs(a)) flush(a, p);
}

/* ==== A choice begins ==== */

static void echo_prompt(srv_answer *a, srv_part *p) {
    const srv_prompt *prompt = srv_part_prompt(a, p);
    cli_buf b = {0};
    for (int i = 0; i < prompt->n; i++) {
        srv_piece piece = {.id = prompt->tokens[i], .logp = NAN, .n_top = p->n_prompt_top};
        if (p->prompt_logp) piece.logp = p->prompt_logp[i];
        if (p->prompt_top) piece.top = p->prompt_top + (size_t)i * (size_t)p->n_prompt_top;
        b.n = 0;
        srv_prompt_piece(a->s, prompt, i, &b);
        put_piece(a, p, &piece, cli_buf_text(&b));
        end_piece(a, p);
    }
    cli_buf_free(&b);
    flush(a, p);
}

/* What stands before the tokens that are sent; a character cut there comes with them. */
static void take_prefix(srv_answer *a, srv_part *p, const retrace_run *run) {
    int n;
    const retrace_token *ids = retrace_run_tokens(run, &n);
    srv_put_pieces(a->s->model, ids, n < a->q->keep ? n : a->q->keep, &p->prefix);
    size_t whole = cli_utf8_whole(cli_buf_text(&p->prefix));
    cli_put(&p->tail, p->prefix.s + whole, p->prefix.n - whole);
    p->prefix.n = whole;
}

static void add_op(srv_part *p, json_t *op) {
    if (!p->ops) p->ops = json_array();
    json_array_append_new(p->ops, op);
    p->seq++;
}

static void send_role(srv_answer *a, srv_part *p) {
    srv_chunk c = {.text = {"", 0}};
    if (a->q->stream && a->form->role) srv_stream_chunk(a, p, &c);
}

/* run: NULL when there is none yet, or none at all. */
static void begin(srv_answer *a, srv_part *p, const retrace_run *run) {
    if (p->begun) return;
    p->begun = 1;
    if (a->q->stream) srv_stream_begin(a);
    if (a->q->events && !srv_rewound(a)) add_op(p, srv_trace_start(a, p));
    if (a->q->keep > 0 && run) take_prefix(a, p, run);
    send_role(a, p);
    if (a->q->echo) echo_prompt(a, p);
    flush(a, p);
}

void srv_answer_scored(srv_answer *a, int choice, const double *logp, const retrace_candidate *top,
                       int n_top) {
    srv_part *p = &a->parts[choice];
    size_t n = (size_t)srv_part_prompt(a, p)->n, n_all = n * (size_t)n_top;
    if (a->ended || p->begun) return;
    p->prompt_logp = cli_alloc(n * sizeof *logp);
    if (n) memcpy(p->prompt_logp, logp, n * sizeof *logp);
    if (n_all == 0) return;
    p->prompt_top = cli_alloc(n_all * sizeof *top);
    memcpy(p->prompt_top, top, n_all * sizeof *top);
    p->n_prompt_top = n_top;
}

/* ==== A choice goes on ==== */

/* The stop text that begins where the last token was cut: the one that completes first. */
static void note_stop(srv_answer *a, srv_part *p, retrace_text rest) {
    const retrace_options *o = &a->q->options;
    const retrace_text *best = NULL;
    for (int i = 0; i < o->n_stops; i++) {
        const retrace_text *s = &o->stops[i];
        if (s->n > rest.n || memcmp(s->s, rest.s, s->n) != 0) continue;
        if (!best || s->n < best->n) best = s;
    }
    if (best && !p->stop_word.n) cli_put(&p->stop_word, best->s, best->n);
}

static void settle_one(srv_answer *a, srv_part *p, const retrace_run *run, retrace_token id,
                       retrace_text bytes) {
    srv_piece piece = {.id = id, .logp = NAN};
    piece.top = retrace_run_logprobs(run, p->told, &piece.logp, &piece.n_top);
    if (!piece.top) piece.n_top = 0;
    if (a->q->return_tokens) {
        if (!p->ids) p->ids = json_array();
        json_array_append_new(p->ids, json_integer(id));
    }
    p->told++;
    put_piece(a, p, &piece, bytes);
    end_piece(a, p);
}

/* The bytes that settled belong to the tokens up to e->to; a stop text may have cut the last. */
static void settle(srv_answer *a, srv_part *p, const retrace_run *run, const retrace_event *e) {
    int n;
    const retrace_token *ids = retrace_run_tokens(run, &n);
    retrace_text left = e->text;
    while (p->told < e->to && p->told < n) {
        retrace_text piece = retrace_piece(a->s->model, ids[p->told]);
        size_t take = piece.n < left.n ? piece.n : left.n;
        if (take < piece.n) note_stop(a, p, (retrace_text){piece.s + take, piece.n - take});
        settle_one(a, p, run, ids[p->told], (retrace_text){left.s, take});
        left = (retrace_text){left.s + take, left.n - take};
    }
    if (p->text_at == 0 && e->text.n) p->text_at = cli_clock();
}

void srv_answer_event(srv_answer *a, int choice, retrace_run *run, const retrace_event *e) {
    srv_part *p = &a->parts[choice];
    if (a->ended || p->over) return;
    begin(a, p, run);
    if (p->began == 0) p->began = cli_clock();
    if (a->q->events) add_op(p, cli_trace_object(a->s->model, e, p->seq));
    if (e->kind == RETRACE_SETTLE) settle(a, p, run, e);
    if (e->kind == RETRACE_ERASE && strcmp(e->rule, "stop") == 0) cli_puts(&p->stop_word, e->why);
    if (e->kind == RETRACE_SETTLE) flush(a, p);
}

void srv_answer_turn(srv_answer *a, int choice) {
    srv_part *p = &a->parts[choice];
    if (!a->ended && !p->over && p->begun) flush(a, p);
}

/* ==== A choice ends ==== */

static void take_stock(srv_answer *a, srv_part *p, const retrace_run *run) {
    p->over = 1;
    p->ended = cli_clock();
    p->rules = run ? cli_json_rule_stats(run) : json_array();
    p->finish = run ? retrace_run_finished(run) : RETRACE_FINISH_LENGTH;
    p->stats = (retrace_stats){.prompt = srv_part_prompt(a, p)->n};
    if (run) retrace_run_stats(run, &p->stats);
    if (p->finish != RETRACE_FINISH_STOP) p->stop_word.n = 0;
    complete(p, 1);
    gather(p);
}

static void send_last(srv_answer *a, srv_part *p) {
    srv_chunk c = {.text = cli_buf_text(&p->text), .over = 1};
    srv_stream_chunk(a, p, &c);
}

/* Lists that were asked for are there, empty or not. */
static void keep_choice(srv_answer *a, srv_part *p) {
    if (wants_logprobs(a) && !p->logprobs) p->logprobs = a->form->logprobs();
    if (a->q->return_tokens && !p->ids) p->ids = json_array();
    p->choice = a->form->choice(a, p);
    if (a->n_parts == 1) return;
    json_t *report = srv_report_part(a, p);
    if (a->q->events) json_object_set(report, "trace", p->ops);
    json_object_set_new(p->choice, "retrace", report);
}

/* Numbers have as many digits as in a stream. */
static void send_whole(srv_answer *a) {
    json_t *j = a->form->whole(a);
    a->out.n = 0;
    srv_put_json(&a->out, j, 0);
    cli_puts(&a->out, "\n");
    json_decref(j);
    srv_reply_start(a->reply, 200, "application/json; charset=utf-8", 0);
    srv_reply_put(a->reply, a->out.s, a->out.n);
    srv_reply_end(a->reply);
}

static void end(srv_answer *a) {
    a->ended = 1;
    if (a->q->stream)
        srv_stream_end(a);
    else
        send_whole(a);
}

/* A run tells its end itself; a prompt that is only scored has none, and ends at once. */
static void end_of_no_run(srv_answer *a, srv_part *p) {
    static const retrace_event end = {
        .kind = RETRACE_END, .finish = RETRACE_FINISH_LENGTH, .text = {"", 0}};
    if (a->q->events) add_op(p, cli_trace_object(a->s->model, &end, p->seq));
}

void srv_answer_done(srv_answer *a, int choice, retrace_run *run) {
    srv_part *p = &a->parts[choice];
    if (a->ended || p->over) return;
    begin(a, p, run);
    if (!run) end_of_no_run(a, p);
    take_stock(a, p, run);
    if (a->q->stream)
        send_last(a, p);
    else
        keep_choice(a, p);
    if (++a->n_over == a->n_parts) end(a);
}

void srv_answer_fail(srv_answer *a, const srv_error *e) {
    if (a->ended) return;
    a->ended = 1;
    if (a->begun)
        srv_stream_fail(a, e);
    else
        srv_reply_error(a->reply, e);
}

void srv_answer_cached(srv_answer *a, int choice, int n_tokens) {
    a->parts[choice].cached = n_tokens;
}
