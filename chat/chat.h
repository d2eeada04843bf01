/* chat.h - what the files of `retrace chat` share.
 *
 *     line.c       what a person types: libedit, history, lines of a pipe
 *     command.c    /undo, /rule, ...
 *     talk.c       the conversation: messages, settings, the run of the last answer
 *     view.c       the answer on the screen, with what was taken back
 *     file.c       /save and /load
 *     chat.c       the loop over all of these
 *
 * docs/chat.md is what they promise. A conversation is a list of messages and nothing else is
 * state: a turn makes a prompt of them and a run of that, so /undo and /edit need only shorten the
 * list; what the model holds of an earlier prompt it finds again by itself. The run of the last
 * answer is kept, for /retry and /back, which take it up (retrace_run_reopen). */
#ifndef CHAT_H
#define CHAT_H

#include "../cli/cli.h"

/* ==== line.c: what a person types ==== */

typedef struct chat_line chat_line;
typedef enum chat_typed {
    CHAT_TEXT,   /* a message or a command */
    CHAT_THROWN, /* Ctrl-C: what was typed is thrown away */
    CHAT_END,    /* Ctrl-D on an empty line, the end of a pipe, a terminal that is gone */
    CHAT_BROKEN  /* a line that cannot be one (not UTF-8, too long): it was told, go on */
} chat_typed;

/* Candidates for completing `line` (which ends where the cursor stands): appended to *out, one a
 * line, each the whole word that stands for the last one. */
typedef void chat_complete_fn(void *ud, const char *line, cli_buf *out);

/* history: whether lines are kept on the disk. complete may be NULL. */
int chat_line_open(chat_line **out, int history, chat_complete_fn *complete, void *ud);
/* Waits for the next text into *text, valid until the next call; several lines are joined by \n,
 * the last line break is not part of it. preset: what stands in the line already; NULL: nothing.
 * Prompts only on a terminal. */
chat_typed chat_line_read(chat_line *l, const char *prompt, const char *preset, retrace_text *text);
int chat_line_is_terminal(const chat_line *l);
void chat_line_close(chat_line *l); /* accepts NULL */

/* ==== tty.c: the terminal is left as it was found ==== */

/* From now on SIGTERM, SIGHUP, SIGQUIT and crashes put the terminal back before they end the
 * program; SIGTSTP before it stops. Does nothing when there is no terminal. */
void chat_tty_guard(void);
/* Puts it back and ends that. */
void chat_tty_release(void);

/* ==== view.c: the answer as it is written ==== */

typedef struct chat_view chat_view;
typedef struct chat_view_how {
    int live;    /* a terminal on which text can be moved: unsettled text is shown, and rewinds */
    int rewinds; /* 0: --quiet-rewinds */
    int colour;
} chat_view_how;

chat_view *chat_view_new(FILE *out, chat_view_how how);
/* An answer begins; `so_far` (of /back) stands already and is shown first. */
void chat_view_begin(chat_view *v, retrace_text so_far);
/* CLI_OK, or what cli_write_failed said. */
int chat_view_event(chat_view *v, const retrace_event *e);
/* A line that goes away again by itself ("reading 512 of 1,830 tokens"); on terminals only. */
void chat_view_status(chat_view *v, const char *fmt, ...) RETRACE_PRINTF(2, 3);
/* The answer has ended, however: what had settled stays, the rest is folded, a fresh line begins.
 */
int chat_view_end(chat_view *v);
/* The window has another size (SIGWINCH); may be called from a signal handler. */
void chat_view_resized(void);
void chat_view_free(chat_view *v); /* accepts NULL */

/* ==== talk.c: the conversation ==== */

typedef struct chat_turn {
    char *role; /* "system", "user", "assistant" */
    cli_buf content;
    retrace_token *ids; /* of the assistant's: as it was written; NULL: not known */
    int n_ids;
    retrace_finish finish; /* of the assistant's */
} chat_turn;

/* What a rewind of the last answer took back, for /rewinds. */
typedef struct chat_taken {
    char *text, *rule, *why;
    int pos, tokens;
} chat_taken;

typedef struct chat_talk {
    retrace_model *model;
    const char *uri;
    chat_turn *v;
    int n;
    int left_out;      /* turns behind the system message that are in no prompt any more */
    cli_plan plan;     /* settings and rules of the next answer */
    cli_plan run_plan; /* those of the last one, which its run holds */
    retrace_run *run;  /* of the last answer; NULL: there is none to go on with */
    chat_taken *taken;
    int n_taken;
    retrace_stats last; /* of the last answer */
    double first_s, seconds;
    int64_t sum_kept, sum_evaluated, sum_prompt, sum_prompt_new, sum_rewinds, answers;
} chat_talk;

/* What the functions of talk.c need and do is theirs to say; the other files call these. */
int chat_talk_open(chat_talk *t, const cli_flags *f);
void chat_talk_free(chat_talk *t);
/* Adds the user's message and has it answered; on an error, or when it does not fit, the message is
 * not part of the conversation. CLI_OK also when Ctrl-C stopped the answer. */
int chat_talk_say(chat_talk *t, chat_view *v, retrace_text message);
int chat_talk_retry(chat_talk *t, chat_view *v);
int chat_talk_back(chat_talk *t, chat_view *v, int64_t tokens);
int chat_talk_undo(chat_talk *t, int64_t turns);
/* The user's last message; n 0: there is none. */
retrace_text chat_talk_last(const chat_talk *t);
int chat_talk_set_system(chat_talk *t, retrace_text text); /* n 0: none */

/* ==== command.c ==== */

typedef enum chat_next {
    CHAT_GO_ON,
    CHAT_QUIT,
    CHAT_EDIT /* the line begins with the last message; what comes back replaces it */
} chat_next;
/* A line that begins with '/'. *code is CLI_OK, or what was refused (told already). */
chat_next chat_command(chat_talk *t, chat_view *v, retrace_text line, int *code);
/* For chat_line_open; ud is the chat_talk. */
void chat_command_complete(void *ud, const char *line, cli_buf *out);

/* ==== file.c ==== */

int chat_file_save(const chat_talk *t, const char *path);
/* On an error nothing is changed. */
int chat_file_load(chat_talk *t, const char *path);

#endif
