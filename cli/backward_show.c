/* backward_show.c - samples as they are written from right to left.
 *
 * Standard output has one line a sample, "[2]  is the capital", control characters spelt out. With
 * --stream a terminal shows the newest sample on one line that is drawn anew at each step, the end
 * of a long text left out; when the sample is complete, its whole line takes that place. Elsewhere
 * --stream writes a line at each step: the text so far, so that the last line of a sample is the
 * sample. A character whose first byte is not there yet is shown as an ellipsis.
 *
 * Everything else - the steps of -v, progress, the summary - goes to standard error. Progress
 * stands below the line that grows, where both are on the terminal. */
#define _DEFAULT_SOURCE
#include "backward.h"
#include "screen.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char ellipsis[] = "\xe2\x80\xa6";

struct cli_back_show {
    const cli_back *k;
    int stream, redraw, colour;
    int live;         /* a line is shown that is to be drawn anew */
    cli_buf last;     /* the last line that --stream wrote */
    int *told;        /* of each sample: its line has been written */
    int sample, step; /* at work */
    int candidates;   /* evaluated since the last step */
    int below;        /* progress stands below the live line */
    int asked;        /* a question has been answered */
    int said_se;      /* what the sign of an error means has been said */
};

cli_back_show *cli_back_show_new(const cli_back *k) {
    cli_back_show *s = cli_alloc(sizeof *s);
    const char *term = getenv("TERM");
    s->k = k;
    s->stream = cli_on(k->f, "stream");
    s->redraw = s->stream && isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
    s->colour = cli_colour(stdout);
    s->told = cli_alloc((size_t)k->options.num_samples * sizeof *s->told);
    return s;
}

void cli_back_show_free(cli_back_show *s) {
    if (!s) return;
    cli_buf_free(&s->last);
    free(s->told);
    free(s);
}

/* ==== Lines ==== */

/* The bytes before the suffix for a reader: an open character is an ellipsis while the sample goes
 * on. */
static void visible(const cli_back_show *s, const retrace_backward_sample *a, cli_buf *out) {
    cli_buf raw = {0};
    cli_back_prefix(s->k, a, &raw);
    size_t open = a->done ? 0 : cli_back_open(cli_buf_text(&raw));
    if (open) cli_puts(out, ellipsis);
    if (raw.n) cli_clean(out, (retrace_text){raw.s + open, raw.n - open});
    cli_buf_free(&raw);
}

static void bold(const cli_back_show *s, cli_buf *line, int on) {
    if (s->colour) cli_puts(line, on ? "\033[1m" : "\033[0m");
}

static void whole_line(const cli_back_show *s, int i, cli_buf *line) {
    retrace_backward_sample a;
    cli_buf prefix = {0};
    retrace_backward_at(s->k->b, i, &a);
    visible(s, &a, &prefix);
    cli_printf(line, "[%d] ", i + 1);
    bold(s, line, 1);
    cli_escape(line, cli_buf_text(&prefix), 0);
    bold(s, line, 0);
    cli_escape(line, cli_buf_text(&s->k->suffix), 0);
    cli_buf_free(&prefix);
}

static int terminal_columns(void) {
    struct winsize w;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0) return w.ws_col;
    return 80;
}

/* As much of the line as fits, so that it can be drawn anew in its place. */
static void live_line(const cli_back_show *s, int i, cli_buf *line) {
    retrace_backward_sample a = {0}; /* before its first step there is none */
    cli_buf prefix = {0};
    retrace_text rest = cli_buf_text(&s->k->suffix);
    retrace_backward_at(s->k->b, i, &a);
    visible(s, &a, &prefix);
    size_t label = line->n;
    cli_printf(line, "[%d] ", i + 1);
    int room = terminal_columns() - 1 - (int)(line->n - label);
    int before = cli_columns(cli_buf_text(&prefix)), cut = before + cli_columns(rest) > room;
    room = room > cut ? room - cut : 0;
    bold(s, line, 1);
    int filled = cli_put_cells(line, cli_buf_text(&prefix), room);
    bold(s, line, 0);
    if (filled == before) cli_put_cells(line, rest, room - filled);
    if (cut) cli_puts(line, ellipsis);
    cli_buf_free(&prefix);
}

/* ==== Writing ==== */

static void clear_live(cli_back_show *s) {
    if (s->live) fputs("\r\033[K", stdout);
    if (s->live) fflush(stdout);
    s->live = 0;
}

static void draw_live(cli_back_show *s, int i) {
    cli_buf line = {0};
    cli_puts(&line, "\r\033[K");
    live_line(s, i, &line);
    fwrite(line.s, 1, line.n, stdout);
    cli_buf_free(&line);
    s->live = 1;
}

/* A line that --stream has written already is not written again. */
static void write_line(cli_back_show *s, int i) {
    cli_buf line = {0};
    whole_line(s, i, &line);
    cli_puts(&line, "\n");
    clear_live(s);
    if (line.n != s->last.n || memcmp(line.s, s->last.s, line.n) != 0 || !s->stream)
        fwrite(line.s, 1, line.n, stdout);
    cli_buf_free(&s->last);
    s->last = line;
}

/* ==== -v ==== */

/* Posteriors are listed as they are, whatever --temp and --top-p make of them. */
static int is_changed(const cli_back_show *s) {
    return s->k->options.temp != 1 || s->k->options.top_p < 1;
}

static const char *posterior_name(const cli_back_show *s) {
    return is_changed(s) ? "posterior (untempered)" : "  posterior";
}

static void put_share(const cli_back_show *s, cli_buf *b, double log_x) {
    double percent = 100 * exp(log_x);
    int width = (int)strlen(posterior_name(s)) - 2;
    if (percent < 0.01 && percent > 0)
        cli_printf(b, "%*.1e %%", width, percent);
    else
        cli_printf(b, "%*.2f %%", width, percent);
}

static void put_token(const cli_back_show *s, cli_buf *b, retrace_token id) {
    if (id == RETRACE_START) {
        cli_puts(b, "(the text starts here)");
        return;
    }
    cli_puts(b, "\"");
    cli_put_cells(b, retrace_piece(s->k->model, id), INT_MAX); /* odd bytes as \xe6 */
    cli_puts(b, "\"");
}

/* In percent with one decimal, rounded down: 100 is what was evaluated in full. */
static double percent(double share) {
    return floor(1000 * share) / 10;
}

/* An estimate with its standard error; where that reaches beyond all there is, from where to where.
 */
static void put_estimate(cli_back_show *s, cli_buf *b, const retrace_backward_step *t) {
    double error = t->coverage * t->se;
    if (t->coverage + error > 1)
        cli_printf(b, ", coverage %.1f to 100 %%", fmax(percent(t->coverage - error), 0));
    else
        cli_printf(b, ", coverage %.1f \xc2\xb1 %.1f %%", percent(t->coverage), 100 * error);
    if (!s->said_se) cli_puts(b, " (\xc2\xb1 1 se)");
    s->said_se = 1;
}

static void put_knowledge(cli_back_show *s, cli_buf *b, const retrace_backward_step *t) {
    if (isnan(t->coverage))
        cli_puts(b, ", coverage unknown");
    else if (isnan(t->se))
        cli_printf(b, ", coverage unknown, at least %.1f %%", percent(t->coverage));
    else if (t->se == 0)
        cli_puts(b, ", coverage 100 %");
    else
        put_estimate(s, b, t);
    cli_printf(b, ", %d evaluated", t->evaluated);
    if (t->shared) cli_puts(b, " for another sample");
    if (t->exact) cli_puts(b, ", exact");
    if (!t->reliable && !isnan(t->se)) cli_puts(b, ", too few candidates to know the error");
}

static void tell_candidate(const cli_back_show *s, const retrace_preceding *c, int drawn) {
    cli_buf b = {0};
    cli_puts(&b, drawn ? "  > " : "    ");
    put_share(s, &b, c->log_posterior);
    cli_printf(&b, " %11.3g %16.4f  ", exp(c->log_prior), c->log_likelihood);
    put_token(s, &b, c->id);
    cli_say("%s", b.s);
    cli_buf_free(&b);
}

static void tell_step(cli_back_show *s, const retrace_backward_event *e) {
    const retrace_backward_step *t = e->step;
    retrace_backward_sample a;
    cli_buf b = {0};
    retrace_backward_at(s->k->b, e->sample, &a);
    cli_printf(&b, "[%d] step %d: ", e->sample + 1, a.n_steps);
    put_token(s, &b, t->drawn.id);
    put_knowledge(s, &b, t);
    cli_say("%s", b.s);
    if (t->n_top) cli_say("    %s       prior   log-likelihood", posterior_name(s));
    int listed = t->n_top == 0;
    for (int i = 0; i < t->n_top; i++) {
        int drawn = t->top[i].id == t->drawn.id;
        listed |= drawn;
        tell_candidate(s, &t->top[i], drawn);
    }
    if (!listed) tell_candidate(s, &t->drawn, 1);
    cli_buf_free(&b);
}

static const char *ending(const retrace_backward_sample *a) {
    if (a->blocked) return ", nothing that was tried can precede this: weight 0";
    if (!a->done) return ", unfinished";
    return a->started ? ", the text starts here" : "";
}

static void tell_sample(const cli_back_show *s, int i) {
    retrace_backward_sample a;
    cli_buf b = {0};
    retrace_backward_at(s->k->b, i, &a);
    int n = a.n - s->k->n;
    cli_printf(&b, "    (%d token%s%s%s)", n, n == 1 ? "" : "s", ending(&a),
               cli_back_canonical(s->k, &a) ? "" : ", not as the model splits this text");
    if (cli_verbose)
        cli_printf(&b, " log f %.4f, log q %.4f, log weight %.4f%s", a.log_f, a.log_q, a.log_w,
                   a.improper ? " (improper)" : "");
    cli_say("%s", b.s);
    cli_buf_free(&b);
}

/* ==== Events ==== */

/* The line below the live one, and back up. */
static void end_progress(cli_back_show *s) {
    cli_progress_end();
    if (s->below) fputs("\n\033[K\033[A\r", stderr);
    s->below = 0;
}

void cli_back_show_begin(cli_back_show *s) {
    if (s->redraw) draw_live(s, 0);
    if (s->redraw) fflush(stdout);
}

static void stepped(cli_back_show *s, const retrace_backward_event *e) {
    s->candidates = 0;
    s->sample = e->sample;
    s->step++;
    if (cli_verbose) {
        if (isatty(STDERR_FILENO)) clear_live(s);
        tell_step(s, e);
    }
    if (s->redraw)
        draw_live(s, e->sample);
    else if (s->stream && e->step->drawn.id != RETRACE_START)
        write_line(s, e->sample);
}

static void sampled(cli_back_show *s, int i) {
    s->sample = i + 1;
    s->step = 0;
    write_line(s, i);
    s->told[i] = 1;
    fflush(stdout);
    tell_sample(s, i);
}

int cli_back_show_event(cli_back_show *s, const retrace_backward_event *e) {
    end_progress(s);
    if (e->kind == RETRACE_STEPPED)
        stepped(s, e);
    else
        sampled(s, e->sample);
    return cli_flush();
}

int cli_back_show_rest(cli_back_show *s) {
    retrace_backward_sample a;
    end_progress(s);
    clear_live(s);
    for (int i = 0; retrace_backward_at(s->k->b, i, &a); i++)
        if (!s->told[i] && a.n_steps) sampled(s, i);
    return cli_flush();
}

/* How many candidates a step will evaluate; 0: not known before. */
static int64_t expected(const cli_back *k) {
    const retrace_backward_options *o = &k->options;
    retrace_model_info m;
    retrace_model_facts(k->model, &m);
    if (o->mode == RETRACE_EXHAUSTIVE) return m.vocab;
    if ((o->mode != RETRACE_PRIORITY && o->mode != RETRACE_TOPK) || o->threshold > 0) return 0;
    int64_t budget = o->budget ? o->budget : 512;
    return budget < m.vocab ? budget : m.vocab;
}

static void put_progress(const cli_back_show *s, cli_buf *b) {
    const retrace_backward_options *o = &s->k->options;
    int64_t all = expected(s->k), n = s->candidates;
    if (!s->redraw) /* the line above says which */
        cli_printf(b, "sample %d of %lld, ", s->sample + 1, (long long)o->num_samples);
    cli_printf(b, "token %d of %lld, ", s->step + 1, (long long)o->max_tokens);
    if (all)
        cli_printf(b, "%lld of %lld candidates ...", (long long)(n < all ? n : all),
                   (long long)all);
    else
        cli_printf(b, "%lld candidate%s ...", (long long)n, n == 1 ? "" : "s");
}

static void show_below(cli_back_show *s, const cli_buf *text) {
    cli_buf cut = {0};
    if (cli_quiet || !isatty(STDERR_FILENO)) return;
    cli_put_cells(&cut, cli_buf_text(text), terminal_columns() - 1);
    fprintf(stderr, "\n\033[K%.*s\033[A\r", (int)cut.n, cut.n ? cut.s : "");
    s->below = 1;
    cli_buf_free(&cut);
}

void cli_back_show_progress(cli_back_show *s) {
    cli_buf b = {0};
    put_progress(s, &b);
    if (s->redraw)
        show_below(s, &b);
    else
        cli_progress("%s", b.s);
    cli_buf_free(&b);
}

/* Before the first step a longer suffix is asked about by itself. */
static int is_suffix_alone(cli_back_show *s, int n) {
    int first = !s->asked;
    s->asked = 1;
    return first && n == 1 && s->k->n > (s->k->options.shared_table ? 1 : 2);
}

/* A question for a distribution is a guess at the order, none about a candidate. */
void cli_back_show_answers(cli_back_show *s, const retrace_query *q, int n) {
    if (is_suffix_alone(s, n)) return;
    for (int i = 0; i < n; i++) s->candidates += q[i].logp != NULL;
}
