/* screen.h - the terminal that --driver guide takes over: its state, its keys, its rows. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include "cli.h"

/* ==== screen.c: taking a terminal and giving it back ==== */

/* Takes the terminal; until cli_screen_leave (cli.h) it belongs to the guide. */
int cli_screen_enter(void);
void cli_screen_size(int *rows, int *columns);
/* 0 when the terminal is gone. */
int cli_screen_write(const cli_buf *b);
/* Waits for a key at most ms milliseconds (-1: for ever). CLI_SCREEN_WOKEN: a signal came, or the
 * size changed. */
enum { CLI_SCREEN_QUIET, CLI_SCREEN_KEY, CLI_SCREEN_WOKEN, CLI_SCREEN_GONE };
int cli_screen_wait(int ms);
/* What is there of what was typed; 0: the terminal is gone. After CLI_SCREEN_KEY. */
size_t cli_screen_read(char *to, size_t room);

/* ==== keys.c: bytes to keys ==== */

typedef enum cli_key_kind {
    CLI_KEY_NONE, /* woken, nothing typed */
    CLI_KEY_GONE, /* the terminal */
    CLI_KEY_TEXT, /* a character, or a paste */
    CLI_KEY_ENTER,
    CLI_KEY_BACKSPACE,
    CLI_KEY_DELETE,
    CLI_KEY_ESCAPE,
    CLI_KEY_UP,
    CLI_KEY_DOWN,
    CLI_KEY_LEFT,
    CLI_KEY_RIGHT,
    CLI_KEY_HOME,
    CLI_KEY_END,
    CLI_KEY_PAGE_UP,
    CLI_KEY_PAGE_DOWN,
    CLI_KEY_CONTROL, /* with `control` */
    CLI_KEY_OTHER    /* one that means nothing here */
} cli_key_kind;

typedef struct cli_keys {
    cli_buf typed; /* bytes not yet taken */
    cli_key_kind kind;
    cli_buf text; /* of CLI_KEY_TEXT */
    int pasted;
    char control; /* 'a' for Ctrl-A */
} cli_keys;

/* The next key into k->kind; waits for it. */
cli_key_kind cli_key_next(cli_keys *k);
/* 1 when something has been typed that was not taken, or the terminal is gone. */
int cli_key_waits(const cli_keys *k);
void cli_keys_free(cli_keys *k);

/* ==== cells.c: text in columns ==== */

/* The character at s with the marks that follow it, spelt for a terminal into b (which may be
 * NULL): bytes taken, and *width, the columns it fills. Nothing that would drive the terminal is
 * let through: a line break reads \n, a broken byte \xe6. */
size_t cli_cell(cli_buf *b, const char *s, size_t n, int *width);
/* Columns of a text on one line. */
int cli_columns(retrace_text t);
/* As much of the text as fits into `columns`; returns what it fills. */
int cli_put_cells(cli_buf *b, retrace_text t, int columns);

/* A text broken into lines, at blanks where there are some. */
typedef struct cli_lines {
    size_t *from, *to;
    int n;
} cli_lines;
void cli_wrap(cli_lines *lines, retrace_text t, int columns);
void cli_lines_free(cli_lines *lines);

/* ==== frame.c: one picture of a question ==== */

typedef struct cli_frame {
    retrace_text text; /* prompt and answer */
    size_t n_prompt;   /* bytes of it that are the prompt */
    const retrace_model *model;
    const retrace_candidate *candidates;
    int n_candidates, selected;
    int list; /* rows for them, if there is room: so that nothing jumps when there are fewer */
    const char *status;
    const char *const *help;    /* from long to short; ended with NULL */
    const retrace_text *edited; /* the text that is being typed; NULL: none */
    size_t caret;               /* in bytes of it */
    int colour;
} cli_frame;

/* Everything that is to be written to show it on a screen of that size. */
void cli_frame_draw(cli_buf *out, const cli_frame *f, int rows, int columns);

#endif
