/* cli.h - what the files of the program share.
 *
 * The program stands on include/retrace.h alone. Its functions return an exit code: CLI_OK to go
 * on, anything else after the message has been printed. Memory that runs out ends the program with
 * a message (exit 4), so nothing here hands out NULL. */
#ifndef CLI_H
#define CLI_H

#include "retrace.h"

#include <jansson.h>
#include <stdio.h>

enum {
    CLI_OK = 0,
    CLI_INVALID = 1,      /* the run ended without a valid result, or a replay differs */
    CLI_USAGE = 2,        /* bad input */
    CLI_MODEL = 3,        /* the model is broken or refused */
    CLI_IO = 4,           /* a file or memory */
    CLI_INTERRUPTED = 130 /* by Ctrl-C */
};

/* ==== out.c: memory, messages, JSON ==== */

void *cli_alloc(size_t n); /* zeroed */
void *cli_realloc(void *p, size_t n);
char *cli_copy(const char *s, size_t n); /* ended with NUL */

/* Bytes that grow; zero-initialised is empty. s is ended with NUL once something was put. */
typedef struct cli_buf {
    char *s;
    size_t n, cap;
} cli_buf;
void cli_put(cli_buf *b, const char *s, size_t n);
void cli_puts(cli_buf *b, const char *s);
void cli_printf(cli_buf *b, const char *fmt, ...) RETRACE_PRINTF(2, 3);
void cli_buf_free(cli_buf *b);
retrace_text cli_buf_text(const cli_buf *b);

extern int cli_quiet;   /* -q */
extern int cli_verbose; /* -v: 1, -vv: 2 */

/* "retrace: ..." on stderr; returns code. */
int cli_fail(int code, const char *fmt, ...) RETRACE_PRINTF(2, 3);
/* The library's error, opened by `about` ("--rule", a file; NULL: nothing); returns its exit code.
 */
int cli_report(const retrace_error *err, const char *about);
/* A line on stderr for information; not under -q. */
void cli_say(const char *fmt, ...) RETRACE_PRINTF(1, 2);
int cli_exit_code(int status); /* of a negative retrace_status */

/* "Loading ..." on a terminal's stderr, and its removal. */
void cli_progress(const char *fmt, ...) RETRACE_PRINTF(1, 2);
void cli_progress_end(void);

/* Text as JSON; what is not UTF-8 becomes U+FFFD. */
json_t *cli_json_text(retrace_text t);
/* A finite number, else null. */
json_t *cli_json_real(double x);
/* A log-probability: -9999 stands for minus infinity, which JSON cannot write; NAN is null. */
json_t *cli_json_logprob(double x);
json_t *cli_json_ints(const retrace_token *v, int n);
/* Adds "text" and, where the bytes are not whole characters or always is set, "bytes". */
void cli_json_bytes(json_t *to, retrace_text text, int always);
/* Its bytes as a list of numbers. */
json_t *cli_json_octets(retrace_text t);
/* The object `stats` of an answer; first_s: NAN when there was no text. */
json_t *cli_json_stats(const retrace_stats *s, double first_s, double seconds);
/* {"name","hits","erased","accepted"} of each rule of a run. */
json_t *cli_json_rule_stats(const retrace_run *run);
/* x to a multiple of unit. */
double cli_rounded(double x, double unit);
/* {"id","text","logprob"} of n candidates. */
json_t *cli_json_candidates(const retrace_model *m, const retrace_candidate *v, int n);
/* One line on f. Frees j. CLI_IO when it cannot be written. */
int cli_json_line(json_t *j, FILE *f, const char *name);
/* Flushes standard output and tells whether all of it could be written. */
int cli_flush(void);
/* All n bytes to a file: 0, or errno's value. */
int cli_write_all(int fd, const char *s, size_t n);
/* After a failed write to standard output: a reader that left ends the program as it ends any
 * filter (SIGPIPE), anything else is CLI_IO with a message. */
int cli_write_failed(void);

/* ==== text.c: UTF-8 ==== */

/* The character at s: its length in bytes (at least 1) and *cp. Bytes that are no character: the
 * length of what is to be replaced by one U+FFFD, and *cp is CLI_BROKEN, or CLI_CUT when s only
 * ends too early. */
enum { CLI_BROKEN = 0x110000, CLI_CUT = 0x110001 };
size_t cli_utf8(const char *s, size_t n, uint32_t *cp);
/* Offset of the first byte that is no valid UTF-8; t.n when all is. */
size_t cli_utf8_check(retrace_text t);
/* How much of t is left when an incomplete character at its end is cut off. */
size_t cli_utf8_whole(retrace_text t);
/* Appends t with U+FFFD for what is not UTF-8. */
void cli_clean(cli_buf *b, retrace_text t);
/* The same, and what would drive a terminal is written as \x1b or \u{202e}; a line break stays when
 * `lines` is set and is \n otherwise. */
void cli_escape(cli_buf *b, retrace_text t, int lines);

/* ==== flags.c: one table of all flags ==== */

enum {
    CLI_GENERATE = 1,
    CLI_RULES = 2,
    CLI_TOKENIZE = 4,
    CLI_INFO = 8,
    CLI_SCORE = 16,
    CLI_REPLAY = 32,
    CLI_BENCH = 64,
    CLI_PAIRS = 128,
    CLI_BIGRAM_BUILD = 256,
    CLI_BIGRAM_INFO = 512,
    CLI_BIGRAM_LOOK = 1024, /* row and column */
    CLI_BACKWARD = 2048,
    CLI_SERVE = 4096,
    CLI_CHAT = 8192,
    CLI_PULL = 16384,
    CLI_MODELS = 32768,
    CLI_CONVERT = 65536
};

typedef enum cli_part {
    CLI_PROGRAM, /* read by the program itself */
    CLI_RUN,     /* a row of retrace_options_infos */
    CLI_ENGINE,  /* a setting of a back end */
    CLI_BACK     /* a row of retrace_backward_infos */
} cli_part;

typedef struct cli_option {
    char flag[40]; /* "top-k" */
    char env[48];  /* "RETRACE_TOP_K" */
    const char *brief, *brief2,
        *other;          /* "n" of -n; a second short one; another spelling; or NULL */
    const char *setting; /* name in the settings table */
    const char *section; /* heading in the help */
    const char *metavar, *help, *preset, *choices;
    retrace_type type;
    double min, max;
    unsigned commands;
    cli_part part;
    int counted;         /* -v -v means more */
    retrace_text *given; /* values, n of them; borrowed from argv or the environment */
    int n;
    int from_env, hidden; /* hidden: copies of a secret, to be freed */
} cli_option;

typedef struct cli_flags {
    cli_option *v;
    int n;
    unsigned command;
    const char *operand; /* NAME of rules, FILE of replay: the first of the operands */
    const char **operands;
    int n_operands;
    char *chat_template; /* the text that --chat-template named a file of; or NULL */
    int help;            /* 1: --help, 2: --help=markdown */
} cli_flags;

typedef struct cli_command {
    const char *name; /* of one word or two */
    unsigned bit;
    const char *operand; /* "FILE", "[NAME]", "TRACE..." or NULL */
    const char *help;
    int (*run)(const cli_flags *f);
} cli_command;

void cli_flags_init(cli_flags *f, unsigned command);
void cli_flags_free(cli_flags *f);
/* Reads the arguments behind the command, then the environment for what they left open. */
int cli_flags_read(cli_flags *f, int argc, char **argv, const cli_command *c);
/* By flag name, which must exist. */
const cli_option *cli_option_of(const cli_flags *f, const char *flag);
int cli_on(const cli_flags *f, const char *flag);
const char *cli_value(const cli_flags *f, const char *flag); /* the last one given, or NULL */
double cli_real(const cli_flags *f, const char *flag);       /* that, or the preset */
/* Whether the flag, if the command has it, was given the value "list": print what it takes. */
int cli_lists(const cli_flags *f, const char *flag);
/* Strict forms of the settings tables: 1 when v is one. */
int cli_parse_bool(const char *v, int *out);
int cli_parse_int(const char *v, int64_t *out);
int cli_parse_real(const char *v, double *out);
/* The most similar of n names, or NULL when none is near. */
const char *cli_nearest(const char *to, const char *const *names, int n);

/* ==== help.c ==== */

void cli_help(const cli_command *c, const cli_flags *f, FILE *to);
void cli_help_markdown(const cli_command *c, const cli_flags *f);
/* Appends " (default 0.8; 0 to 5)", or nothing. */
void cli_help_remark(cli_buf *b, const cli_option *o);
/* The headings of the help in their order; NULL: there are no more. */
const char *cli_help_section(int i);

/* ==== pages.c: what is installed beside the program ==== */

/* Prints a page about all commands: "man", "bash", "zsh" or "fish". */
int cli_page(const char *kind, const cli_command *commands, int n);

/* ==== input.c: files and standard input ==== */

/* A whole file ("-": standard input) of at most max bytes into *out, which the caller frees. */
int cli_read_file(const char *path, size_t max, cli_buf *out);
/* The text of -p (--suffix), -f or standard input, checked to be UTF-8. */
int cli_read_prompt(const cli_flags *f, cli_buf *out);
/* A file for a setting of type FILE: read and checked to be UTF-8. */
int cli_read_list(const char *path, cli_buf *out);

/* ==== lists.c: ban lists by name ==== */

/* CLI_USAGE names a --ban-list that is not NAME=FILE. */
int cli_lists_check(const cli_flags *f);
/* Appends the folder of lists; nothing: there is none. */
void cli_lists_folder(cli_buf *b);
/* Is this a name that a list can have? */
int cli_list_is_name(const char *s, size_t n);
/* The file of a list, appended to *path; `spelled` opens messages. CLI_USAGE: no name; CLI_IO:
 * nowhere to look. */
int cli_list_file(const cli_flags *f, const char *name, const char *spelled, cli_buf *path);
/* Warns of a --ban-list that no rule has used, by the plan's `files`. */
void cli_lists_warn(const cli_flags *f, json_t *files);

/* ==== plan.c: a run written down as JSON, and built from that ==== */

/* What a run was made of. `plan` is the start line of a trace without seq and op:
 * {"model","prompt","prompt_tokens","seed","settings":{...,"engine":{},"rules":[...]}}. */
typedef struct cli_plan {
    json_t *json;
    json_t *files;          /* of each rule: {"setting": ["--ban-file NAME", ...]}, for messages */
    const cli_flags *flags; /* while the rules are being written down */
    const char *spelled;    /* how a rule is asked for, in messages; NULL: "--rule" */
    retrace_options options;
    retrace_rule **rules;
    int n_rules;
    int n_short; /* how many of them short flags made */
    retrace_text *stops;
    retrace_bias *bias;
    retrace_token *prompt;
    int n_prompt;
} cli_plan;

/* Begins p->json from flags: "seed" and "settings". The random seed (-1) is drawn here. */
int cli_plan_flags(cli_plan *p, const cli_flags *f);
/* Adds a rule "name:key=value,..." behind those of p->json. */
int cli_plan_add_rule(cli_plan *p, const char *spec);
/* Compiles the rules of p->json; `where` (or NULL) opens messages. */
int cli_plan_rules(cli_plan *p, const char *where);
/* Fills options, stops, bias and prompt from p->json. The rules must have been compiled. */
int cli_plan_options(cli_plan *p, const char *where);
void cli_plan_free(cli_plan *p);
/* For --seed -1. */
uint32_t cli_random_seed(void);

/* The settings in a JSON object, spelt for the library; "name" is left out. */
typedef struct cli_settings {
    retrace_setting *v;
    int n;
} cli_settings;
cli_settings cli_settings_of(json_t *object);
void cli_settings_free(cli_settings *l);
/* A value as JSON of its type; text when it is not of that type. */
json_t *cli_typed(retrace_type type, retrace_text v);

/* ==== start.c: the first line of a trace ==== */

/* Is the key among the names, of which the last is NULL? */
int cli_is_one_of(const char *key, const char *const *names);
/* CLI_USAGE names a field that generate does not write so; `where` opens the message. */
int cli_start_check(const json_t *start, const char *where);
/* CLI_INVALID when a prompt that is written out has other tokens in this model. */
int cli_start_prompt(const json_t *start, const retrace_model *m, const char *where);

/* ==== engine.c: the model that the flags ask for ==== */

/* The model that setup installed, to be freed; NULL: none. */
char *cli_model_installed(void);
/* Its URI, to be freed. */
int cli_model_uri(const cli_flags *f, char **uri);
/* The back end of a URI: by its scheme, or by the ending of a plain file name. 0: nobody's. */
int cli_model_backend(const char *uri, retrace_plugin_info *p);
/* Is there a file of that name, or does it look like a file's or like a URI? */
int cli_model_is_file(const char *s);
/* The engine's settings that were given and that a model of this URI has. */
json_t *cli_model_settings(const cli_flags *f, const char *uri);
/* Adds a setting that the command chooses, unless it was given or means nothing to this model. */
void cli_model_prefer(json_t *settings, const char *uri, const char *name, const char *value);
int cli_model_open(retrace_model **m, const char *uri, json_t *settings);
/* All three, for commands that only need a model. */
int cli_model_of(const cli_flags *f, retrace_model **m);
/* The prompt's tokens as generate makes them, to be freed with retrace_free. */
int cli_model_tokens(const cli_flags *f, const retrace_model *m, retrace_text text,
                     retrace_token **out, int *n);

/* ==== template.c: the flag --chat-template ==== */

/* Its names, on standard output. */
int cli_template_list(void);
/* Puts a file's text in the place of its name. */
int cli_template_read(cli_flags *f);
/* cli_report for retrace_model_open, and for retrace_chat and its relatives: where another template
 * would help, the message says how to give one. */
int cli_report_open(const retrace_error *err);
int cli_report_chat(const retrace_model *m, const retrace_error *err, const char *about);

/* ==== trace.c: JSON lines ==== */

typedef struct cli_trace cli_trace;
int cli_trace_open(cli_trace **out, const char *path, const retrace_model *m, json_t *plan);
int cli_trace_event(cli_trace *t, const retrace_event *e);
/* A person's answer to the question at a place. */
int cli_trace_choice(cli_trace *t, const retrace_choice *c, int pos, int node);
/* The last line when no END event came: done, finish error. */
int cli_trace_error(cli_trace *t, retrace_text text, const char *msg);
int cli_trace_close(cli_trace *t); /* accepts NULL */
/* One event as the object of its line. */
json_t *cli_trace_object(const retrace_model *m, const retrace_event *e, int64_t seq);

/* ==== log.c: reading a trace ==== */

typedef struct cli_log {
    const char *path;
    json_t **line; /* one object a line */
    int n;
} cli_log;
/* CLI_USAGE names the line that is none. */
int cli_log_read(cli_log *l, const char *path);
void cli_log_free(cli_log *l);
int cli_log_is(json_t *line, const char *op);
/* The retrace_choice_kind of a choice; -1: none. */
int cli_log_kind(json_t *line);
/* "FILE:7: ..."; CLI_USAGE. */
int cli_log_broken(const cli_log *l, int line, const char *what);

/* ==== show.c: the answer as it is drawn ==== */

typedef struct cli_show cli_show;
/* erased: show what was taken back, struck out. */
cli_show *cli_show_new(FILE *out, int terminal, int erased, int colour);
/* CLI_OK, or what cli_write_failed said. */
int cli_show_event(cli_show *s, const retrace_event *e);
/* A line about the run on stderr, beginning at a fresh line of the terminal. */
void cli_show_note(cli_show *s, const char *fmt, ...) RETRACE_PRINTF(2, 3);
int cli_show_end(cli_show *s);
void cli_show_free(cli_show *s);
/* Whether escape sequences may be written to f (NULL: to a terminal that is known to be one). */
int cli_colour(FILE *f);

/* ==== taken.c: what a rewind takes back ==== */

/* The text of the tokens at the head; zero-initialised before the first event. */
typedef struct cli_taken {
    cli_buf text;
    size_t *from; /* where each token begins in it */
    int n, cap;
} cli_taken;
void cli_taken_event(cli_taken *t, const retrace_model *m, const retrace_event *e);
/* Appends, in quotes and for a terminal, what an erase to `to` takes: before that event is told. */
void cli_taken_text(const cli_taken *t, int to, cli_buf *b);
void cli_taken_free(cli_taken *t);

/* ==== screen.c: the terminal of the guide ==== */

/* Whether there is one on which text can be placed. */
int cli_screen_usable(void);
/* Gives it back, whether or not it was taken. */
void cli_screen_leave(void);
/* For signal handlers: its settings put back; the wait for a key ended. */
void cli_screen_restore(void);
void cli_screen_wake(void);

/* ==== guide.c: a person's answers ==== */

typedef struct cli_guide cli_guide;
int cli_guide_check(void); /* CLI_USAGE: no terminal */
/* Takes the terminal. most: tokens of the answer. */
int cli_guide_open(cli_guide **out, const retrace_model *m, retrace_run *run, retrace_text prompt,
                   int64_t most);
void cli_guide_question(cli_guide *g, const retrace_need *need);
/* 1 with the answer, whose text is valid until the next call; 0: the person ends the run. */
int cli_guide_answer(cli_guide *g, retrace_choice *out);
/* The run has not taken the answer. */
void cli_guide_refused(cli_guide *g, const char *why);
/* taken: the tokens at the head before the event. */
void cli_guide_event(cli_guide *g, const retrace_event *e, const cli_taken *taken);
void cli_guide_close(cli_guide *g); /* accepts NULL */

/* ==== interrupt.c: Ctrl-C, and the clock ==== */

/* Ctrl-C: while a run is in progress the first one is only counted here, for the run to end by
 * itself; otherwise, and the second time, the program ends at once. */
void cli_catch_interrupts(void);
void cli_run_begins(void);
void cli_run_ends(void);
int cli_interrupted(void);
/* The one that was counted is done with: a program that goes on after it. */
void cli_interrupt_forget(void);

double cli_clock(void); /* seconds, monotonic */

/* ==== The commands ==== */

int cli_generate(const cli_flags *f);
int cli_rules(const cli_flags *f);
/* What `rules --json` prints, of one rule or driver or (NULL) of all. */
json_t *cli_rules_json(const char *only);
/* CLI_USAGE names a rule (or driver), or a setting of it, that does not exist, and one that may be
 * meant. */
int cli_spec_check(const retrace_rule_spec *spec, const char *about, int driver);
/* The name of a rule that is spelt so, '_' for '-' too; NULL: there is none. Static. */
const char *cli_rule_name(const char *spelt);
int cli_tokenize(const cli_flags *f);
int cli_info(const cli_flags *f);
int cli_score(const cli_flags *f);
int cli_replay(const cli_flags *f);
int cli_bench(const cli_flags *f);
int cli_pairs(const cli_flags *f);
int cli_bigram_build(const cli_flags *f);
int cli_bigram_info(const cli_flags *f);
int cli_bigram_row(const cli_flags *f);
int cli_bigram_column(const cli_flags *f);
int cli_backward(const cli_flags *f);
int cli_serve(const cli_flags *f); /* in server/serve.c */
int cli_chat(const cli_flags *f);  /* in chat/chat.c */
void chat_tty_restore(void);       /* for signal handlers: the terminal of a chat put back */
void chat_tty_throw(void);         /* and what was typed at it thrown away */
int cli_pull(const cli_flags *f);  /* in hub/ */
int cli_models(const cli_flags *f);
int cli_convert(const cli_flags *f); /* convert.c */
/* The file of a model by its name on the hub, to be freed: from the cache, else fetched. */
int hub_model(const cli_flags *f, const char *name, char **path);
/* Could this be such a name, USER/REPO[:QUANT]? */
int hub_is_name(const char *text);

#endif
