/* guide.c - the terminal side of the driver `guide`: a question, keys, an answer.
 *
 * The run asks (NEED_CHOICE); the person moves among the candidates, takes one, goes back, types a
 * text, lets it run. The answer goes back to the run, whose rules judge it like anything else; what
 * they object to is told in the line below the candidates when the question comes again. */
#define _POSIX_C_SOURCE 200809L
#include "screen.h"

#include <stdlib.h>
#include <string.h>

enum { FRAME_MS = 30 }; /* between two pictures while it runs by itself */

/* From long to short. Two blanks part the keys; the first word of each is the key itself. */
static const char *const help_asked[] = {
    "↑↓ choose  Enter take  ← back  Space run  Tab draw  a–z type a text  ^D end  ^C quit",
    "↑↓ choose  Enter take  ← back  Space run  a–z type a text  ^C quit",
    "↑↓  Enter take  ← back  Space run  a–z type  ^C quit",
    "↑↓  Enter  ← back  Space run  a–z type",
    "↑↓  Enter  ←  Space  a–z",
    "↑↓  ↵  ←  a–z",
    NULL};
static const char *const help_running[] = {"any key stops it", NULL};
static const char *const help_edited[] = {
    "Enter put this text there  Esc leave it  Ctrl-J line break  Ctrl-U clear",
    "Enter put it there  Esc leave it  Ctrl-J line break", "Enter put  Esc leave", "↵  Esc", NULL};

struct cli_guide {
    const retrace_model *model;
    retrace_run *run;
    cli_buf prompt;
    int64_t most; /* tokens; -1: what the context holds */
    int colour;
    cli_keys keys;

    /* The question. */
    retrace_candidate *candidates;
    int n_candidates, selected, pos;
    int list; /* the most that there have been */

    int running;  /* draw by itself until a key */
    double drawn; /* clock of the last picture */
    cli_buf note; /* what a rule did, or why something cannot be */
    cli_buf text; /* that is typed, or was */
    int editing;
    int putting; /* the newest answer was that text */
    int stepped; /* it was a step back */
    int ending;  /* it was the end, asked for by name */
    int again;   /* it was not taken: typing begins with it */
    size_t caret;
};

/* ==== Showing ==== */

static const char *const *help_of(const cli_guide *g) {
    if (g->editing) return help_edited;
    return g->running ? help_running : help_asked;
}

static void put_status(const cli_guide *g, cli_buf *b, int question, int columns) {
    if (g->note.n)
        cli_put(b, g->note.s, g->note.n);
    else if (!question)
        cli_puts(b, "reading the prompt ...");
    else if (g->most < 0)
        cli_printf(b, "token %d", g->pos + 1);
    else
        cli_printf(b, columns < 30 ? "%d of %lld" : "token %d of at most %lld", g->pos + 1,
                   (long long)g->most);
}

static void show(cli_guide *g, int question) {
    int rows, columns;
    cli_buf text = {0}, status = {0}, out = {0};
    retrace_text answer = retrace_run_text(g->run), edited = cli_buf_text(&g->text);
    cli_screen_size(&rows, &columns);
    cli_put(&text, g->prompt.s, g->prompt.n);
    cli_put(&text, answer.s, answer.n);
    put_status(g, &status, question, columns);
    cli_frame f = {.text = cli_buf_text(&text),
                   .n_prompt = g->prompt.n,
                   .model = g->model,
                   .candidates = g->candidates,
                   .n_candidates = question ? g->n_candidates : 0,
                   .selected = g->selected,
                   .list = g->list,
                   .status = status.s,
                   .help = help_of(g),
                   .edited = g->editing ? &edited : NULL,
                   .caret = g->caret,
                   .colour = g->colour};
    cli_frame_draw(&out, &f, rows, columns);
    cli_screen_write(&out); /* a terminal that is gone is noticed by the next read */
    g->drawn = cli_clock();
    cli_buf_free(&text);
    cli_buf_free(&status);
    cli_buf_free(&out);
}

static void note(cli_guide *g, const char *s) {
    g->note.n = 0;
    cli_puts(&g->note, s);
}

static const char no_end[] = "the answer cannot end here";

void cli_guide_refused(cli_guide *g, const char *why) {
    note(g, g->ending ? no_end : why);
    g->running = 0;
    g->again = g->putting;
}

/* What rules do is told; the person's own steps are seen anyway. */
void cli_guide_event(cli_guide *g, const retrace_event *e, const cli_taken *taken) {
    const char *rule = e->rule ? e->rule : "", *why = e->why ? e->why : "";
    int own = strcmp(rule, "guide") == 0;
    if ((e->kind != RETRACE_NOTE && e->kind != RETRACE_ERASE) || (own && g->stepped)) return;
    g->again = g->putting;
    g->note.n = 0;
    if (own)
        cli_puts(&g->note, g->ending ? no_end : why);
    else if (e->kind == RETRACE_NOTE)
        cli_printf(&g->note, "%s: %s", rule, why);
    else {
        cli_printf(&g->note, "%s took back ", rule);
        cli_taken_text(taken, e->to, &g->note);
        cli_printf(&g->note, "%s%s%s", *why ? ": \"" : "", why, *why ? "\"" : "");
    }
}

/* ==== Typing a text ==== */

static void begin_text(cli_guide *g, const char *s, size_t n) {
    if (!g->again || n) g->text.n = 0;
    cli_put(&g->text, s, n);
    g->editing = 1;
    g->again = 0;
    g->caret = g->text.n;
}

static void insert(cli_guide *g, const char *s, size_t n) {
    cli_buf b = {0};
    cli_put(&b, g->text.s, g->caret);
    cli_put(&b, s, n);
    cli_put(&b, g->text.s + g->caret, g->text.n - g->caret);
    cli_buf_free(&g->text);
    g->text = b;
    g->caret += n;
}

static size_t before(const cli_guide *g, size_t at) {
    if (at > 0) at--;
    while (at > 0 && ((unsigned char)g->text.s[at] & 0xc0) == 0x80) at--;
    return at;
}

static size_t behind(const cli_guide *g, size_t at) {
    uint32_t cp;
    return at < g->text.n ? at + cli_utf8(g->text.s + at, g->text.n - at, &cp) : at;
}

static void cut_text(cli_guide *g, size_t from, size_t to) {
    memmove(g->text.s + from, g->text.s + to, g->text.n - to);
    g->text.n -= to - from;
    g->caret = from;
}

static size_t word_before(const cli_guide *g) {
    size_t at = g->caret;
    while (at > 0 && g->text.s[at - 1] == ' ') at--;
    while (at > 0 && g->text.s[at - 1] != ' ') at--;
    return at;
}

static void edit_control(cli_guide *g, char c) {
    switch (c) {
    case 'a': g->caret = 0; break;
    case 'e': g->caret = g->text.n; break;
    case 'b': g->caret = before(g, g->caret); break;
    case 'f': g->caret = behind(g, g->caret); break;
    case 'd': cut_text(g, g->caret, behind(g, g->caret)); break;
    case 'i': insert(g, "\t", 1); break;
    case 'j': insert(g, "\n", 1); break;
    case 'k': cut_text(g, g->caret, g->text.n); break;
    case 'u': cut_text(g, 0, g->caret); break;
    case 'w': cut_text(g, word_before(g), g->caret); break;
    default: break;
    }
}

/* 1 when the text is to be put there. */
static int edit(cli_guide *g) {
    switch (g->keys.kind) {
    case CLI_KEY_TEXT: insert(g, g->keys.text.s, g->keys.text.n); break;
    case CLI_KEY_ENTER: g->editing = 0; return g->text.n > 0;
    case CLI_KEY_ESCAPE: g->editing = 0; break;
    case CLI_KEY_BACKSPACE:
        if (g->text.n == 0) g->editing = 0;
        cut_text(g, before(g, g->caret), g->caret);
        break;
    case CLI_KEY_DELETE: edit_control(g, 'd'); break;
    case CLI_KEY_LEFT: edit_control(g, 'b'); break;
    case CLI_KEY_RIGHT: edit_control(g, 'f'); break;
    case CLI_KEY_HOME: edit_control(g, 'a'); break;
    case CLI_KEY_END: edit_control(g, 'e'); break;
    case CLI_KEY_CONTROL: edit_control(g, g->keys.control); break;
    default: break;
    }
    return 0;
}

/* ==== Keys of a question ==== */

typedef enum verdict { STAY, ANSWER, QUIT } verdict;

static void select_at(cli_guide *g, int i) {
    if (i >= g->n_candidates) i = g->n_candidates - 1;
    g->selected = i < 0 ? 0 : i;
}

static verdict take(cli_guide *g, retrace_choice *out) {
    if (g->n_candidates == 0) return note(g, "nothing may come here: go back"), STAY;
    *out = (retrace_choice){.kind = RETRACE_CHOOSE_TOKEN, .token = g->candidates[g->selected].id};
    return ANSWER;
}

static verdict go_back(cli_guide *g, retrace_choice *out) {
    if (g->pos == 0) return note(g, "this is the beginning"), STAY;
    *out = (retrace_choice){.kind = RETRACE_CHOOSE_BACK, .to = g->pos - 1};
    return ANSWER;
}

/* The end token, as if it had been among the candidates. */
static verdict end_here(cli_guide *g, retrace_choice *out) {
    retrace_model_info facts;
    retrace_model_facts(g->model, &facts);
    g->ending = 1;
    for (int i = 0; i < g->n_candidates; i++) /* a model may have several: rather one it likes */
        if (retrace_token_ends(g->model, g->candidates[i].id)) return select_at(g, i), take(g, out);
    for (int i = 0; i < facts.vocab; i++) {
        if (!retrace_token_ends(g->model, i)) continue;
        *out = (retrace_choice){.kind = RETRACE_CHOOSE_TOKEN, .token = i};
        return ANSWER;
    }
    return note(g, "this model has no end token"), STAY;
}

static verdict draw(retrace_choice *out) {
    *out = (retrace_choice){.kind = RETRACE_CHOOSE_DRAW};
    return ANSWER;
}

/* Whatever is typed begins a text, but for a blank and digits; / begins an empty one, or goes on
 * with the one that was refused. */
static verdict press_text(cli_guide *g, retrace_choice *out) {
    const char *s = g->keys.text.s;
    size_t n = g->keys.text.n;
    int key = n == 1 && !g->keys.pasted ? s[0] : 0;
    if (key >= '1' && key <= '9') return select_at(g, key - '1'), STAY;
    if (key == ' ') return g->running = 1, draw(out);
    if (key != '/') g->text.n = 0;
    begin_text(g, key == '/' ? "" : s, key == '/' ? 0 : n);
    return STAY;
}

static verdict press(cli_guide *g, retrace_choice *out) {
    switch (g->keys.kind) {
    case CLI_KEY_UP: select_at(g, g->selected - 1); break;
    case CLI_KEY_DOWN: select_at(g, g->selected + 1); break;
    case CLI_KEY_PAGE_UP: select_at(g, g->selected - 5); break;
    case CLI_KEY_PAGE_DOWN: select_at(g, g->selected + 5); break;
    case CLI_KEY_HOME: select_at(g, 0); break;
    case CLI_KEY_END: select_at(g, g->n_candidates - 1); break;
    case CLI_KEY_ENTER:
    case CLI_KEY_RIGHT: return take(g, out);
    case CLI_KEY_BACKSPACE:
    case CLI_KEY_LEFT: return go_back(g, out);
    case CLI_KEY_TEXT: return press_text(g, out);
    case CLI_KEY_CONTROL:
        if (g->keys.control == 'd') return end_here(g, out);
        if (g->keys.control == 'i') return draw(out);
        if (g->keys.control == 'j') return take(g, out); /* Enter of a terminal that maps it */
        break;
    default: break;
    }
    return STAY;
}

/* ==== A question ==== */

void cli_guide_question(cli_guide *g, const retrace_need *need) {
    size_t n = (size_t)need->n_candidates;
    g->candidates = cli_realloc(g->candidates, n * sizeof *g->candidates);
    if (n) memcpy(g->candidates, need->candidates, n * sizeof *g->candidates);
    g->n_candidates = need->n_candidates;
    if (g->list < g->n_candidates) g->list = g->n_candidates;
    g->selected = 0;
    g->pos = need->pos;
}

/* While it runs by itself the key that stops it means nothing else. */
static verdict run_on(cli_guide *g, retrace_choice *out) {
    if (cli_key_waits(&g->keys)) {
        g->running = 0;
        return cli_key_next(&g->keys) == CLI_KEY_GONE ? QUIT : STAY;
    }
    if (cli_clock() - g->drawn > FRAME_MS * 1e-3) show(g, 1);
    return draw(out);
}

static verdict ask(cli_guide *g, retrace_choice *out) {
    show(g, 1);
    cli_key_kind key = cli_key_next(&g->keys);
    if (key == CLI_KEY_GONE) return QUIT;
    if (key == CLI_KEY_NONE) return STAY;
    g->note.n = 0;
    if (!g->editing) return press(g, out);
    if (!edit(g)) return STAY;
    *out = (retrace_choice){.kind = RETRACE_CHOOSE_TEXT, .text = cli_buf_text(&g->text)};
    return ANSWER;
}

int cli_guide_answer(cli_guide *g, retrace_choice *out) {
    verdict v = STAY;
    g->putting = g->ending = 0;
    while (v == STAY) {
        if (cli_interrupted()) return 0;
        v = g->running ? run_on(g, out) : ask(g, out);
    }
    g->putting = v == ANSWER && out->kind == RETRACE_CHOOSE_TEXT;
    g->stepped = v == ANSWER && out->kind == RETRACE_CHOOSE_BACK;
    return v == ANSWER;
}

/* ==== Beginning and end ==== */

int cli_guide_check(void) {
    if (cli_screen_usable()) return CLI_OK;
    return cli_fail(CLI_USAGE, "--driver guide needs a terminal on which text can be placed");
}

int cli_guide_open(cli_guide **out, const retrace_model *m, retrace_run *run, retrace_text prompt,
                   int64_t most) {
    cli_guide *g = *out = cli_alloc(sizeof *g);
    *g = (cli_guide){.model = m, .run = run, .most = most, .colour = cli_colour(NULL)};
    cli_put(&g->prompt, prompt.s, prompt.n);
    int code = cli_screen_enter();
    if (!code) show(g, 0);
    return code;
}

void cli_guide_close(cli_guide *g) {
    cli_screen_leave();
    if (!g) return;
    cli_keys_free(&g->keys);
    cli_buf_free(&g->prompt);
    cli_buf_free(&g->note);
    cli_buf_free(&g->text);
    free(g->candidates);
    free(g);
}
