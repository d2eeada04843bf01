/* chat.h - what the files of `retrace chat` share.
 *
 *     line.c       what a person types: fences, continued lines, lines of a pipe
 *     edit.c       a line that is edited on a terminal: libedit
 *     history.c    lines kept for the next time
 *     tty.c        the terminal is left as it was found
 *     command.c    /undo, /rule, ...; complete.c: their completion, tell.c: what they show
 *     change.c     /rule, /ban, /set
 *     talk.c       the conversation: messages, settings, the run of the last answer
 *     turns.c      its messages; answer.c: from a prompt of them to an answer
 *     view.c       the answer on the screen, with what was taken back
 *     file.c       /save; load.c: /load
 *     chat.c       the loop over all of these
 *
 * docs/chat.md is what they promise. A conversation is a list of messages and nothing else is
 * state: a turn makes a prompt of them and a run of that, so /undo and /edit need only shorten the
 * list; what the model holds of an earlier prompt it finds again by itself. The run of the last
 * answer is kept, for /retry and /back, which take it up (retrace_run_reopen). */
#ifndef CHAT_H
#define CHAT_H

#include "../cli/cli.h"

#include <signal.h>

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
/* For line.c. Notes how the terminal is found; 0: standard input is none. */
int chat_tty_find(void);
void chat_tty_edit(void);  /* pastes are marked from now on */
void chat_tty_lines(void); /* whole lines with echo, as found: where nothing can be edited */
void chat_tty_quiet(void); /* after either: nothing is echoed, pastes are not marked */
void chat_tty_size(int *rows, int *columns);
/* Set by signal handlers; whoever draws a line resets them. */
extern volatile sig_atomic_t chat_tty_resized, chat_tty_continued;

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
/* Of an ERASE: a stop text is no rewind, neither is the /back that takes an answer up, nor what had
 * not settled when the answer was stopped or gave up. */
int chat_is_rewind(const retrace_event *e);
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
    int tries;             /* of the user's: answers that were begun */
} chat_turn;

/* What a rewind of the last answer took back, for /rewinds. */
typedef struct chat_taken {
    char *text, *rule, *why; /* the text in quotes, for a terminal */
    int pos, tokens;
} chat_taken;

typedef struct chat_talk {
    const cli_flags *flags;
    retrace_model *model;
    char *uri;
    int batch;      /* tokens of a prompt that the model is fed at once */
    int person;     /* there is a terminal to type at */
    int seed_given; /* by the person or a file, not drawn */
    chat_turn *v;
    int n;
    int left_out;         /* turns behind the system message that are in no prompt any more */
    cli_plan *plan;       /* settings and rules of the next answer, compiled */
    cli_plan *run_plan;   /* those of the last one, which its run holds; may be the same */
    retrace_run *run;     /* of the last answer; NULL: there is none to go on with */
    retrace_token *held;  /* what the model has read and written, as far as is known */
    int n_held, n_prompt; /* n_prompt of them are the last answer's prompt */
    cli_taken head;       /* the text at the head of the run */
    chat_taken *taken;
    int n_taken;
    retrace_stats last; /* of the last answer */
    retrace_finish finish;
    double begun, first_s, seconds;
    int64_t sum_kept, sum_evaluated, sum_prompt, sum_prompt_new, sum_erased, sum_rewinds, answers;
    double sum_seconds;
    int failed; /* exit code of a write to standard output that failed: the end */
} chat_talk;

/* Model, settings and rules of the flags. */
int chat_talk_open(chat_talk *t, const cli_flags *f);
void chat_talk_free(chat_talk *t);
/* Adds the user's message and has it answered; when no prompt can be made of it, it is not part of
 * the conversation. CLI_OK also when Ctrl-C stopped the answer. */
int chat_talk_say(chat_talk *t, chat_view *v, retrace_text message);
int chat_talk_retry(chat_talk *t, chat_view *v);
int chat_talk_back(chat_talk *t, chat_view *v, int64_t tokens);
/* In place of the user's last message; what cannot be a prompt changes nothing. */
int chat_talk_edit(chat_talk *t, chat_view *v, retrace_text message);
int chat_talk_undo(chat_talk *t, int64_t turns);
void chat_talk_clear(chat_talk *t);
void chat_talk_drop_taken(chat_talk *t); /* forgets what /rewinds shows */
/* The user's last message; n 0: there is none. */
retrace_text chat_talk_last(const chat_talk *t);
int chat_talk_set_system(chat_talk *t, retrace_text text); /* n 0: none */

/* ==== turns.c: the list of messages ==== */

void chat_turn_add(chat_talk *t, const char *role, retrace_text content);
void chat_turn_clear(chat_turn *u);
void chat_turns_cut(chat_talk *t, int n); /* leaves the first n */
/* The user's last; -1: none. Is the first one the system's? How many the user's there are. */
int chat_turns_last(const chat_talk *t);
int chat_turns_system(const chat_talk *t);
int chat_turns_count(const chat_talk *t);
/* There is no run any more to go on with, and maybe another prompt. */
void chat_talk_forget(chat_talk *t);

/* ==== answer.c: from a prompt to an answer ==== */

/* Has the user's last message, at place `at`, answered. When no prompt can be made of it, nothing
 * is changed: its `tries` tell. */
int chat_answer_new(chat_talk *t, chat_view *v, int at);
/* Takes the run up behind `to` tokens of its answer. */
int chat_answer_again(chat_talk *t, chat_view *v, int at, int to);
/* Makes a run that has the answer's first `to` tokens, and takes that up. */
int chat_answer_behind(chat_talk *t, chat_view *v, int at, int to);

/* ==== change.c: settings and rules of the next answer ==== */

/* Another plan from its JSON, compiled; NULL: told what is wrong. Takes json over. */
cli_plan *chat_plan_of(const chat_talk *t, json_t *json, const char *where, int *code);
/* Makes it that of the next answer. */
void chat_plan_take(chat_talk *t, cli_plan *p);
void chat_plan_free(cli_plan *p); /* accepts NULL */
json_t *chat_plan_settings(const chat_talk *t);
int chat_change_rule(chat_talk *t, const char *arg);
int chat_change_ban(chat_talk *t, retrace_text text);
int chat_change_set(chat_talk *t, const char *name, const char *value);
/* Can a conversation have this setting? */
int chat_is_setting(const char *name);

/* ==== tell.c: what commands show ==== */

void chat_tell_rules(const chat_talk *t);
void chat_tell_settings(const chat_talk *t, int all);
void chat_tell_talk(const chat_talk *t);
void chat_tell_taken(const chat_talk *t);
void chat_tell_stats(const chat_talk *t);
/* One dim line for a person: nothing in a pipe, nor with -q. */
void chat_tell_done(const chat_talk *t, const char *fmt, ...) RETRACE_PRINTF(2, 3);
/* marks: ⟲ can be seen, and is explained where there are rules. */
void chat_tell_greeting(const chat_talk *t, int marks);
/* "1,830" */
const char *chat_number(char to[32], int64_t n);
void chat_tell_rewind(const chat_taken *k, cli_buf *b);

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
/* The i-th command's name without '/'; NULL: no more. */
const char *chat_command_at(int i);

/* ==== file.c, load.c ==== */

int chat_file_save(const chat_talk *t, const char *path);
/* On an error nothing is changed. */
int chat_file_load(chat_talk *t, const char *path);

#endif
