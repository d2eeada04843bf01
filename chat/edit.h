/* edit.h - what line.c, edit.c and history.c share. */
#ifndef CHAT_EDIT_H
#define CHAT_EDIT_H

#include "chat.h"

/* ==== history.c ==== */

enum {
    CHAT_HISTORY_LINES = 1000,
    CHAT_HISTORY_ENTRY = 1 << 16 /* bytes; a longer message is not kept */
};
typedef struct chat_history chat_history;
typedef void chat_history_fn(void *ud, retrace_text entry);
/* Hands out what was kept, the oldest first. disk: whether a file keeps it. */
chat_history *chat_history_open(int disk, chat_history_fn *each, void *ud);
/* Whether it was kept: not when it begins with a blank, nor the same twice in a row. */
int chat_history_add(chat_history *h, retrace_text t);
void chat_history_close(chat_history *h); /* accepts NULL */

/* ==== edit.c: a line on a terminal ==== */

enum { CHAT_LINE_MAX = 1 << 20 }; /* bytes of a line, a paste and a message */

typedef struct chat_edit chat_edit;
/* NULL: this terminal cannot be edited on. */
chat_edit *chat_edit_open(int history, chat_complete_fn *complete, void *ud);
/* One line, which may have line breaks in it. */
chat_typed chat_edit_read(chat_edit *e, const char *prompt, const char *preset, cli_buf *out);
void chat_edit_keep(chat_edit *e, retrace_text t); /* in the history */
void chat_edit_close(chat_edit *e);                /* accepts NULL */

/* Waits for input: 1 when there is some (or it has ended), 0 when a signal came. Signals that the
 * caller wants to see are blocked outside of it. */
int chat_wait_input(const sigset_t *unblocked);
/* Blocks those; what was blocked before goes to *before. */
void chat_block_signals(sigset_t *before);

#endif
