/* run.c - one answer, without I/O: what must be asked, what happened, what stands.
 *
 * retrace_run_next() moves on until the model is needed or something has happened. One move is: get
 * the head's distribution, let rules review it, let the driver push a token, judge that. Everything
 * that a rewind must put right hangs on the trace (bans, distributions, marks) or is computed from
 * it (penalties, stop texts), so there is no undo anywhere. */
#include "run.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const char *retrace_finish_name(retrace_finish f) {
    static const char *const names[] = {"",      "end",    "length",    "stop",
                                        "stuck", "budget", "cancelled", "error"};
    return names[f];
}

/* ==== Making one ==== */

/* Text and array in one block. */
static retrace_text *copy_texts(const retrace_text *from, int n) {
    size_t bytes = (size_t)n * sizeof *from;
    for (int i = 0; i < n; i++) bytes += from[i].n + 1;
    retrace_text *out = retrace_calloc(1, bytes);
    char *to = out ? (char *)(out + n) : NULL;
    for (int i = 0; out && i < n; i++) {
        memcpy(to, from[i].s, from[i].n);
        out[i] = (retrace_text){to, from[i].n};
        to += from[i].n + 1;
    }
    return out;
}

static int list_ends(retrace_run *run, retrace_error *err) {
    for (int i = 0; i < run->model->facts.vocab; i++) {
        int n = run->n_end_tokens;
        if (!retrace_token_ends(run->model, i)) continue;
        if (rt_grow(&run->end_tokens, &run->cap_end_tokens, n + 1, sizeof *run->end_tokens))
            return rt_nomem(err);
        run->end_tokens[run->n_end_tokens++] = i;
    }
    return RETRACE_OK;
}

void rt_set_budgets(retrace_run *run) {
    int64_t n = run->o.max_tokens;
    run->o.max_rewinds = run->given_rewinds;
    run->o.max_evaluated = run->given_evaluated;
    if (run->given_rewinds < 0) run->o.max_rewinds = rt_exact(run) ? INT64_MAX : 4 * n + 1024;
    if (run->given_evaluated < 0) run->o.max_evaluated = 16 * n + 1024;
}

static int take_options(retrace_run *run, const retrace_options *o, retrace_error *err) {
    int rc = rt_options_check(o, run->model->facts.vocab, err);
    if (rc) return rc;
    run->o = *o;
    int64_t most = run->model->facts.n_ctx;
    if (o->max_tokens < 0) run->o.max_tokens = most;
    run->given_tokens = run->o.max_tokens;
    run->given_rewinds = o->max_rewinds;
    run->given_evaluated = o->max_evaluated;
    rt_set_budgets(run);
    int made = rt_driver_make(&run->driver, &run->driver_self, o->driver, err);
    if (made) return made;
    if (run->driver->holds || rt_exact(run)) run->o.hold = RETRACE_HOLD_ALL;
    run->given_hold = run->o.hold;
    if (o->n_stops) {
        run->stops = copy_texts(o->stops, o->n_stops);
        if (!run->stops) return rt_nomem(err);
        run->n_stops = o->n_stops;
    }
    if (o->n_bias) {
        run->bias = retrace_alloc((size_t)o->n_bias * sizeof *run->bias);
        if (!run->bias) return rt_nomem(err);
        memcpy(run->bias, o->bias, (size_t)o->n_bias * sizeof *run->bias);
    }
    return o->ignore_eos ? list_ends(run, err) : RETRACE_OK;
}

/* A rule's number among those before it that are its equals: its draws then depend on itself alone,
 * and adding another rule disturbs none of them. */
static int number_of(const retrace_run *run, int i) {
    int n = 0;
    for (int k = 0; k < i; k++) n += run->watch[k].rule->digest == run->watch[i].rule->digest;
    return n;
}

/* Lays the rules' marks out one behind the other. */
static int take_rules(retrace_run *run, const retrace_options *o, size_t *mark_size,
                      retrace_error *err) {
    *mark_size = 0;
    if (o->n_rules == 0) return RETRACE_OK;
    run->watch = retrace_calloc((size_t)o->n_rules, sizeof *run->watch);
    if (!run->watch) return rt_nomem(err);
    run->n_watch = o->n_rules;
    for (int i = 0; i < o->n_rules; i++) {
        rt_watch *w = &run->watch[i];
        w->rule = o->rules[i];
        w->mark_at = *mark_size;
        w->purpose = rt_purpose(w->rule->digest, number_of(run, i));
        *mark_size += (w->rule->type->mark_size + 15) / 16 * 16;
    }
    if (*mark_size == 0) *mark_size = 16; /* so that a mark's address exists */
    run->scratch = retrace_alloc(*mark_size);
    return run->scratch ? RETRACE_OK : rt_nomem(err);
}

static int check_prompt(const retrace_model *m, const retrace_token *prompt, int n,
                        retrace_error *err) {
    if (n == 0 && !m->empty_prompt)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "the prompt is empty and this model has no BOS to begin with");
    if (n >= m->facts.n_ctx)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "a prompt of %d tokens leaves no room in a context of %d", n,
                            m->facts.n_ctx);
    for (int i = 0; i < n; i++) {
        if (prompt[i] < 0 || prompt[i] >= m->facts.vocab)
            return retrace_fail(err, RETRACE_EUSAGE,
                                "prompt token %d is outside the vocabulary of %d", (int)prompt[i],
                                m->facts.vocab);
    }
    return RETRACE_OK;
}

/* The prompt's text from its last control token on: what a phrase may have begun in. */
static int read_prompt(retrace_run *run, retrace_error *err) {
    int from = run->n_prompt;
    while (from > 0 && retrace_piece(run->model, run->tokens[from - 1]).n > 0) from--;
    for (int i = from; i < run->n_prompt; i++) {
        retrace_text piece = retrace_piece(run->model, run->tokens[i]);
        if (rt_buf_add(&run->before, piece.s, piece.n)) return rt_nomem(err);
    }
    return RETRACE_OK;
}

static int take_singles(retrace_run *run, const retrace_options *o, retrace_error *err) {
    int last = 0;
    for (int i = 0; i < 2 * o->n_singles; i++) {
        if (o->singles[i] < last || o->singles[i] > run->n_prompt)
            return retrace_fail(err, RETRACE_EUSAGE,
                                "singles: %d is no place of the prompt from %d on", o->singles[i],
                                last);
        last = o->singles[i];
    }
    if (o->n_singles < 1) return RETRACE_OK;
    run->singles = retrace_alloc((size_t)o->n_singles * 2 * sizeof *run->singles);
    if (!run->singles) return rt_nomem(err);
    memcpy(run->singles, o->singles, (size_t)o->n_singles * 2 * sizeof *run->singles);
    run->n_singles = o->n_singles;
    return RETRACE_OK;
}

static int take_prompt(retrace_run *run, const retrace_token *prompt, int n, retrace_error *err) {
    int rc = check_prompt(run->model, prompt, n, err);
    if (rc) return rc;
    rc = rt_grow(&run->tokens, &run->cap_tokens, n + 1, sizeof *run->tokens);
    if (rc == RETRACE_OK) rc = rt_grow(&run->path, &run->cap_path, 1, sizeof *run->path);
    if (rc) return rt_nomem(err);
    if (n) memcpy(run->tokens, prompt, (size_t)n * sizeof *prompt);
    run->n_prompt = n;
    run->stats.prompt = n;
    run->path[0] = 0;
    return read_prompt(run, err);
}

int retrace_run_new(retrace_run **out, retrace_model *m, const retrace_options *o,
                    const retrace_token *prompt, int n_prompt, retrace_error *err) {
    rt_clear(err);
    retrace_run *run = retrace_calloc(1, sizeof *run);
    if (!run) return rt_nomem(err);
    run->model = m;
    run->stuck_depth = -1;
    run->drawn.id = run->drawn.node = -1;
    run->force.by = RT_FORCE_NONE;
    run->masked_node = -1;
    size_t mark_size = 0;
    int rc = take_options(run, o, err);
    if (rc == RETRACE_OK) rc = take_prompt(run, prompt, n_prompt, err);
    if (rc == RETRACE_OK) rc = take_singles(run, o, err);
    if (rc == RETRACE_OK) rc = take_rules(run, o, &mark_size, err);
    if (rc == RETRACE_OK && rt_exact(run)) rc = rt_exact_check(run, err);
    if (rc == RETRACE_OK && rt_trace_init(&run->trace, mark_size)) rc = rt_nomem(err);
    if (rc == RETRACE_OK) rc = rt_start_marks(run, err);
    if (rc) {
        retrace_run_free(run);
        return rc;
    }
    *out = run;
    return RETRACE_OK;
}

void retrace_run_free(retrace_run *run) {
    if (!run) return;
    rt_free_marks(run);
    rt_trace_free(&run->trace);
    rt_sampler_free(&run->sampler);
    rt_buf_free(&run->before);
    rt_buf_free(&run->text);
    for (int i = 0; i < run->n_watch; i++) {
        retrace_free(run->watch[i].attempts.v);
        rt_proposal_clear(&run->watch[i].proposal);
    }
    retrace_free(run->force.v);
    retrace_free(run->masked.logits);
    retrace_free(run->banned);
    retrace_free(run->menu);
    retrace_free(run->attempts.v);
    retrace_free(run->watch);
    retrace_free(run->scratch);
    rt_driver_free(run->driver, run->driver_self);
    retrace_free(run->stops);
    retrace_free(run->bias);
    retrace_free(run->singles);
    retrace_free(run->end_tokens);
    retrace_free(run->tokens);
    retrace_free(run->path);
    retrace_free(run->ends);
    retrace_free(run->events);
    retrace_free(run);
}

/* ==== Going on ==== */

/* About the place n tokens in. */
static int ask_about(retrace_run *run, int n, retrace_error *err) {
    rt_node *node = rt_trace_node(&run->trace, run->path[n]);
    if (!rt_keep_take(run->model->keep, &node->dist)) return rt_nomem(err);
    run->query = (retrace_query){.tokens = run->tokens,
                                 .n = run->n_prompt + n,
                                 .n_prompt = run->n_prompt,
                                 .singles = run->singles,
                                 .n_singles = run->n_singles,
                                 .next = node->dist->logits,
                                 .slot = run->o.slot,
                                 .alone = run->o.alone};
    run->asked = 1;
    run->asked_at = n;
    return RETRACE_OK;
}

static int ask(retrace_run *run, retrace_error *err) {
    if (run->stats.evaluated >= run->o.max_evaluated)
        return rt_give_up(run, RETRACE_FINISH_BUDGET, "max_evaluated", err);
    return ask_about(run, run->n, err);
}

/* A distribution that was never filled is none. */
static void forget_question(retrace_run *run) {
    rt_keep_drop(rt_trace_node(&run->trace, run->path[run->asked_at])->dist);
    run->asked = 0;
}

/* Rows beyond those of places that the model had never seen are repeats. A place that it has seen,
 * it has seen after all places before it. What a run that is taken up again needs of its prompt is
 * no row of the answer. */
static void take_answer(retrace_run *run) {
    int first = !rt_trace_node(&run->trace, 0)->evaluated;
    int fresh = first ? run->n_prompt : 0;
    for (int i = run->asked_at; i >= 0; i--) {
        rt_node *node = rt_trace_node(&run->trace, run->path[i]);
        if (node->evaluated) break;
        node->evaluated = 1;
        fresh += i > 0;
    }
    int rows = run->query.evaluated;
    /* They are the last ones of the sequence that was asked about. */
    if ((first || run->resumed) && rows > run->asked_at)
        run->stats.prompt_evaluated = rows - run->asked_at;
    if (run->resumed && rows > 1) rows -= rows > run->n_prompt ? run->n_prompt : rows - 1;
    run->resumed = 0;
    int repeats = rows > fresh ? rows - fresh : 0;
    int prompt = first ? run->n_prompt : 0;
    run->stats.evaluated += rows > prompt ? rows - prompt : 0;
    run->stats.reevaluated += repeats;
    run->asked = 0;
}

/* An answer has been paid for, also when the run is cancelled. */
static void close_question(retrace_run *run) {
    if (run->query.answered)
        take_answer(run);
    else
        forget_question(run);
}

/* One move: ends with an event, a question, or something done. */
static int move(retrace_run *run, retrace_error *err) {
    int asked = run->asked;
    if (asked) close_question(run);
    /* Cancelled, what waits is decided without an answer if need be. */
    if (run->waits && (asked || run->cancelled)) return rt_resume(run, err);
    if (run->cancelled) {
        /* What cannot be erased is kept even if it was held; an unfinished text of resample exact
         * is of no law. */
        if (!rt_exact(run)) run->o.hold = RETRACE_HOLD_MINIMAL;
        int rc = rt_settle(run, err);
        return rc ? rc : rt_give_up(run, RETRACE_FINISH_CANCELLED, "cancelled", err);
    }
    if (run->waits) return ask_about(run, run->asked_at, err);
    if (run->resumed == 1) {
        run->resumed = 2;
        return rt_stands(run, err);
    }
    if (run->n == 0 && run->o.max_tokens == 0) return rt_judge(run, err);
    if (!rt_head(run)->dist) return ask(run, err);
    if (!run->reviewed) {
        run->reviewed = 1;
        run->pushed = 0;
        return rt_review(run, err);
    }
    run->pushed = 0;
    if (run->force.n) return rt_force_push(run, err);
    int rc = rt_choice_step(run, err);
    if (rc == RETRACE_DONE) return rt_stuck(run, err);
    if (rc || run->choosing) return rc;
    assert(run->pushed);
    return rt_judge(run, err);
}

static void hand_event(retrace_run *run, retrace_need *need) {
    need->kind = RETRACE_EVENT;
    rt_said *said = &run->events[run->next_event++];
    if (said->event.rule) said->event.why = said->why;
    need->event = &said->event;
}

int retrace_run_next(retrace_run *run, retrace_need *need, retrace_error *err) {
    rt_clear(err);
    *need = (retrace_need){.kind = RETRACE_NEED_NOTHING};
    if (run->next_event < run->n_events) return hand_event(run, need), RETRACE_OK;
    run->next_event = run->n_events = 0;
    if (run->finish) return RETRACE_DONE;
    if (run->asked && !run->query.answered && !run->cancelled)
        return retrace_fail(err, RETRACE_EUSAGE, "the questions have not been answered");
    for (;;) {
        if (run->choosing && !run->cancelled) return rt_choice_hand(run, need), RETRACE_OK;
        int rc = move(run, err);
        if (rc) {
            run->next_event = run->n_events = 0;
            run->finish = RETRACE_FINISH_ERROR;
            return rc;
        }
        if (run->n_events) return hand_event(run, need), RETRACE_OK;
        if (run->asked) break;
    }
    need->kind = RETRACE_NEED_MODEL;
    need->queries = &run->query;
    need->n_queries = 1;
    return RETRACE_OK;
}

int retrace_run_finish(retrace_run *run, retrace_event_fn *each, void *ud, retrace_error *err) {
    retrace_need need;
    int rc;
    while ((rc = retrace_run_next(run, &need, err)) == RETRACE_OK) {
        if (need.kind == RETRACE_EVENT) {
            if (each && each(ud, need.event)) retrace_run_cancel(run);
            continue;
        }
        if (need.kind == RETRACE_NEED_CHOICE) {
            rc = retrace_run_choose(run, &(retrace_choice){.kind = RETRACE_CHOOSE_DRAW}, err);
            if (rc) return rc;
            continue;
        }
        rc = retrace_model_eval(run->model, need.queries, need.n_queries, err);
        if (rc) {
            retrace_run_abort(run);
            return rc;
        }
    }
    return rc == RETRACE_DONE ? RETRACE_OK : rc;
}

void retrace_run_cancel(retrace_run *run) {
    run->cancelled = 1;
}

void retrace_run_abort(retrace_run *run) {
    if (run->finish) return;
    if (run->asked) forget_question(run);
    run->next_event = run->n_events = 0;
    run->finish = RETRACE_FINISH_ERROR;
}

/* ==== What stands ==== */

retrace_finish retrace_run_finished(const retrace_run *run) {
    return run->finish;
}

/* After an error only what had settled counts. */
static int failed(const retrace_run *run) {
    return run->finish == RETRACE_FINISH_ERROR;
}

retrace_text retrace_run_text(const retrace_run *run) {
    size_t n = failed(run) ? run->settled_bytes : run->text.n;
    return (retrace_text){n ? run->text.s : "", n};
}

const retrace_token *retrace_run_tokens(const retrace_run *run, int *n) {
    *n = failed(run) ? run->settled : run->n;
    return run->tokens + run->n_prompt;
}

int retrace_run_settled(const retrace_run *run, size_t *n_bytes) {
    if (n_bytes) *n_bytes = run->settled_bytes;
    return run->settled;
}

const retrace_candidate *retrace_run_logprobs(const retrace_run *run, int pos, double *logp,
                                              int *n_top) {
    int n;
    retrace_run_tokens(run, &n);
    if (run->o.logprobs < 0 || pos < 0 || pos >= n) return NULL;
    const rt_node *node = rt_trace_node(&run->trace, run->path[pos + 1]);
    *logp = node->logp;
    *n_top = node->n_top;
    static const retrace_candidate none;
    return node->top ? node->top : &none;
}

void retrace_run_stats(const retrace_run *run, retrace_stats *out) {
    int n;
    *out = run->stats;
    retrace_run_tokens(run, &n);
    out->kept = n;
    if (failed(run)) out->erased += run->n - n - run->untold;
}

int retrace_run_rule_stats(const retrace_run *run, int i, retrace_rule_stats *out) {
    if (i < 0 || i >= run->n_watch) return 0;
    const rt_watch *w = &run->watch[i];
    *out = (retrace_rule_stats){w->rule->type->name, w->hits, w->erased, w->accepted};
    return 1;
}
