/* retrace.h - generation that can take tokens back, for programs.
 *
 * A *model* answers questions about token sequences. A *run* writes one answer: it draws tokens,
 * lets *rules* look at what was drawn, erases what they reject and chooses again. Everything a run
 * does is visible as *events*. The library prints nothing, reads no clock and starts no thread; a
 * run never calls the model either: retrace_run_next() says what must be asked, the caller asks,
 * and calls again. (A server gathers the questions of many runs into one call; a program with one
 * run uses retrace_run_finish(), which is that loop.)
 *
 * The three words used everywhere below: a *token* is an id of the model's vocabulary, a *piece* is
 * the bytes it stands for, *text* is bytes (UTF-8 where whole; a piece may hold part of a
 * character).
 *
 * Conventions. A function that can fail returns an int: RETRACE_OK (0), RETRACE_DONE (1) or a
 * negative retrace_status, and takes a `retrace_error *err` last, which may be NULL. A `T **out`
 * that succeeds is the caller's to free or close; a `const T *` that is returned is borrowed, until
 * when is said there. free and close functions accept NULL. Wrong input is an error naming the
 * thing; wrong use by the programmer (a NULL model, say) is an assert.
 *
 * Threads: a model and all of its runs belong to one thread at a time. There are no globals but the
 * allocator. Only the vocabulary never changes: retrace_model_facts, retrace_tokenize,
 * retrace_chat, retrace_piece, retrace_token_name and retrace_token_ends may be called from any
 * thread at any time. Rules may be made in one thread and used in another, by one at a time. */
#ifndef RETRACE_H
#define RETRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RETRACE_VERSION_MAJOR 0
#define RETRACE_VERSION_MINOR 1
#define RETRACE_VERSION_PATCH 0

#if defined(__GNUC__)
#define RETRACE_API __attribute__((visibility("default")))
#define RETRACE_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define RETRACE_API
#define RETRACE_PRINTF(f, a)
#endif

/* "0.1.0". Static. */
RETRACE_API const char *retrace_version(void);

/* ==== Errors and memory ==== */

typedef enum retrace_status {
    RETRACE_OK = 0,
    RETRACE_DONE = 1, /* nothing more to do */
    RETRACE_EUSAGE =
        -1, /* wrong input or setting; the message names it          (program: exit 2) */
    RETRACE_EMODEL = -2, /* the model is broken, refused or cannot do this        (exit 3) */
    RETRACE_EIO = -3,    /* a file or the network                                 (exit 4) */
    RETRACE_ENOMEM = -4, /* out of memory                                         (exit 4) */
    RETRACE_ECANCEL = -5 /* stopped by retrace_run_cancel or a model's abort hook (exit 130) */
} retrace_status;

/* What went wrong: one line, lower case, no trailing stop, naming the thing. */
typedef struct retrace_error {
    int code;      /* a negative retrace_status, or 0 */
    char msg[512]; /* always ended with NUL; longer messages are cut at a whole character */
} retrace_error;

/* A realloc with its sizes: new_size 0 frees and returns NULL; ptr NULL allocates; NULL on failure
 * for anything else, the old block then stays. Must return memory aligned as malloc's is. */
typedef void *retrace_alloc_fn(void *ud, void *ptr, size_t old_size, size_t new_size);

/* Replaces the process's allocator. Call before anything else, or never: blocks are freed by the
 * allocator in force when they are freed. NULL restores realloc/free. */
RETRACE_API void retrace_set_alloc(retrace_alloc_fn *fn, void *ud);

/* ==== Settings ==== */

/* Bytes with a length; not ended with NUL unless said so. */
typedef struct retrace_text {
    const char *s;
    size_t n;
} retrace_text;

/* One setting as given by a person: its name and the value as text. */
typedef struct retrace_setting {
    const char *name;
    retrace_text value;
} retrace_setting;

typedef enum retrace_type {
    RETRACE_BOOL,   /* true|false|1|0|on|off|yes|no; field: int */
    RETRACE_INT,    /* decimal, optional sign; field: int64_t */
    RETRACE_REAL,   /* decimal or exponent, finite; field: double */
    RETRACE_CHOICE, /* one of `choices`; field: int, its index */
    RETRACE_TEXT,   /* any bytes; field: retrace_text, owned by the object */
    RETRACE_TEXTS,  /* repeatable; field: retrace_texts, owned by the object */
    RETRACE_FILE, /* as RETRACE_TEXTS, but a program that takes this from a person reads the file of
                     that name and passes its bytes as the value; over HTTP it is not offered */
    RETRACE_LIST  /* the same, but the person names one of the lists that the program knows */
} retrace_type;

typedef struct retrace_texts {
    retrace_text *v;
    int n;
} retrace_texts;

/* One row of a settings table. The table makes the command-line flag (`top_k` -> `--top-k`), the
 * JSON field, the range check and the documentation. */
typedef struct retrace_setting_info {
    const char *name; /* lower case, words joined by '_'; NULL ends a table */
    retrace_type type;
    size_t offset;       /* of the field in the struct that the table describes */
    const char *preset;  /* default, as a person would write it; NULL = empty */
    double min, max;     /* inclusive range of INT and REAL; of TEXTS and FILE: bytes of one text */
    const char *choices; /* CHOICE: "local|exact"; else NULL */
    const char *help;    /* one line */
} retrace_setting_info;

/* ==== Catalogues ==== */

/* The settings table of a rule, driver or back end and what it is for. All static. */
typedef struct retrace_plugin_info {
    const char *name;
    const char *kind; /* "rule", "driver" or "backend" */
    const char *help;
    const retrace_setting_info *settings; /* ended by name == NULL; may be NULL: none */
} retrace_plugin_info;

/* The i-th rule / driver / back end built in; 0 when there are no more. */
RETRACE_API int retrace_rule_at(int i, retrace_plugin_info *out);
RETRACE_API int retrace_driver_at(int i, retrace_plugin_info *out);
RETRACE_API int retrace_backend_at(int i, retrace_plugin_info *out);

/* ==== Models ==== */

typedef int32_t retrace_token;
typedef struct retrace_model retrace_model;

/* Settings that models of every kind take beside those of their back end (`keep_mib`). Static. */
RETRACE_API const retrace_setting_info *retrace_model_infos(void);

/* Opens "llama:FILE.gguf", "table:FILE" or a plain FILE (by its content's kind: `.gguf` or
 * `.json`). Settings are the back end's (ctx_size, threads, ...; see retrace_backend_at) and
 * `keep_mib`, the budget for kept distributions (default 256). EUSAGE: unknown scheme or setting;
 * EIO: a missing or unreadable file; EMODEL: not a model, truncated, without a vocabulary. */
RETRACE_API int retrace_model_open(retrace_model **out, const char *uri,
                                   const retrace_setting *settings, int n_settings,
                                   retrace_error *err);

/* All runs of the model must have been freed. */
RETRACE_API void retrace_model_close(retrace_model *m);

/* Facts about a model. Strings are borrowed from the model. */
typedef struct retrace_model_info {
    const char *name;    /* what the file calls it, else the file's name */
    const char *backend; /* "llama", "table" */
    const char
        *rewind;      /* "exact": tokens are cut off; "snapshot": recurrent or windowed state is put
                         back from a copy and replayed; "replay": evaluated again from the start */
    int vocab;        /* number of tokens */
    int n_ctx;        /* tokens that fit, prompt included */
    int64_t n_params; /* 0 when unknown */
    int64_t size_bytes;  /* 0 when unknown */
    int chat_template;   /* 1 when the model carries a chat template */
    int add_bos;         /* 1 when a prompt begins with BOS */
    retrace_token bos;   /* -1: none */
    retrace_token start; /* what stands before a document: BOS where prompts begin with it, else the
                            token that ends documents; -1: none is needed, or known */
    const char *weights; /* "file": as the file has them; "f32": expanded for batched work */
    uint64_t hash;       /* of what the model is: its file's header and samples of its data */
    uint64_t vocab_hash; /* of every token's bytes and flags */
} retrace_model_info;
RETRACE_API void retrace_model_facts(const retrace_model *m, retrace_model_info *out);

enum {
    RETRACE_TOKENIZE_BOS = 1,     /* begin with BOS as the model wants it, never twice */
    RETRACE_TOKENIZE_SPECIAL = 2, /* text that spells a control token becomes that token */
    RETRACE_TOKENIZE_INSIDE = 4 /* the text goes on from another one: vocabularies that put a space
                                   before a text do not */
};

/* Text to tokens. *out is the caller's, freed with retrace_free. EUSAGE when the text is not valid
 * UTF-8 (the byte's offset is named), or, on a table, when no token fits. */
RETRACE_API int retrace_tokenize(const retrace_model *m, retrace_text text, int flags,
                                 retrace_token **out, int *n, retrace_error *err);

/* The bytes of a token in an answer; empty for control and end tokens. Borrowed from the model. */
RETRACE_API retrace_text retrace_piece(const retrace_model *m, retrace_token id);

/* The bytes of a token as a reader of the vocabulary wants them: control tokens spelt out. */
RETRACE_API retrace_text retrace_token_name(const retrace_model *m, retrace_token id);

/* 1 when the token ends an answer. */
RETRACE_API int retrace_token_ends(const retrace_model *m, retrace_token id);

typedef struct retrace_message {
    const char *role; /* "system", "user", "assistant" */
    retrace_text content;
    /* Of an assistant's: the n_tokens tokens in which content was written, which then stand in the
     * prompt as they are, so that a conversation that goes on begins with exactly what the model
     * holds already. NULL: content is tokenised. Checked by retrace_chat: ids of the vocabulary,
     * none of them a control or end token, together the bytes of content, which then may end inside
     * a character. */
    const retrace_token *tokens;
    int n_tokens;
} retrace_message;

/* Messages to the tokens of a prompt that asks for the assistant's next turn, by the model's chat
 * template. What a content spells is never parsed as a control token. Exactly one BOS where the
 * model wants one. *out as in retrace_tokenize. EMODEL: a template that is not known (its first
 * line is named) or none at all.
 * The law of tokens: what the template puts before, between and behind answers with tokens is
 * tokenised by itself, so where the template writes an answered turn as it asked for it (ChatML,
 * Llama 3, Gemma, ...), the prompt of the next turn is that of this one, the answer's tokens and
 * what is new: answering it is continuing the very sequence. A template that writes the history in
 * another way makes another prompt, as right as without tokens. */
RETRACE_API int retrace_chat(const retrace_model *m, const retrace_message *messages,
                             int n_messages, retrace_token **out, int *n, retrace_error *err);

/* As retrace_chat, for a conversation that may not fit: the oldest turns are left out of the prompt
 * until it and `room` more tokens fit the context. A turn is a user's message and what follows it;
 * the system messages at the beginning and the last turn always stay. Once something must be left
 * out, as much is as leaves a quarter of the context free besides (or all that may be), so that it
 * does not happen at every turn. *dropped (may be NULL): how many messages were left out, those
 * behind the system messages. EUSAGE: what must stay does not fit; both lengths are named. */
RETRACE_API int retrace_chat_fit(const retrace_model *m, const retrace_message *messages,
                                 int n_messages, int room, retrace_token **out, int *n,
                                 int *dropped, retrace_error *err);

/* Where in the prompt that retrace_chat_fit has made of these messages, `dropped` of them left out,
 * answers with tokens stand: n_pairs pairs of places, in order, for options.singles. A model that
 * is `deterministic` feeds them one by one then, as when they were written, and so can take them
 * over: without this it evaluates a prompt that goes on from another one anew. *out is freed with
 * retrace_free. */
RETRACE_API int retrace_chat_singles(const retrace_model *m, const retrace_message *messages,
                                     int n_messages, int dropped, int **out, int *n_pairs,
                                     retrace_error *err);

/* The i-th name that the setting `chat_template` of "llama:" models takes, as "chatml"; NULL when
 * there are no more. Static. */
RETRACE_API const char *retrace_chat_template_at(int i);

/* Releases memory that this library handed out with "freed with retrace_free". Accepts NULL. */
RETRACE_API void retrace_free(void *p);

enum { RETRACE_PASSING = -1 };

/* A token and the model's own log-probability of it: natural, temperature 1, before bans. */
typedef struct retrace_candidate {
    retrace_token id;
    double logp;
} retrace_candidate;

/* One question to a model. The caller always hands over the whole sequence; what a back end can
 * reuse of an earlier one is its own business and never changes the answer. `next`, when not NULL,
 * receives `vocab` logits after the last token. `logp`, when not NULL, receives log-probabilities
 * (natural, temperature 1) of tokens[from] .. tokens[n-1], NAN for a first token that has nothing
 * before it. `top`, when not NULL, receives the n_top most probable tokens of each of these places,
 * falling, and behind them those after the last token when `next` is asked for too; unfilled ones
 * (a first token that has nothing before it, a smaller vocabulary) have the id -1. The buffers
 * belong to the one who asks. With neither next nor logp the tokens are only fed, so that a later
 * question that begins with them is cheap. */
typedef struct retrace_query {
    const retrace_token *tokens;
    int n;
    int n_prompt; /* the batch plan: tokens before this one are fed in batches, the rest one by one.
                     The same plan gives the same bits, so a repeated question has the same answer
                   */
    int from;
    double *logp;
    float *next;
    int slot;  /* a hint: questions with the same slot have similar sequences. RETRACE_PASSING:
                  nothing of it is worth keeping. Passing questions of one call that begin alike
                  share that beginning and are decoded together, whatever the plan; so the last
                  digits of an answer may depend on what is asked beside it */
    int alone; /* 1: decoded by itself in the fixed batches of the plan, and what is reused was
                  too, so the answer does not depend on what is asked beside it or was before */
    int n_top;
    retrace_candidate *top;
    const int *singles; /* n_singles pairs of places, none before the one before it: the tokens from
                           the first up to the second of a pair are fed one by one too, and a batch
                           ends there. Counts where the question is decoded alone */
    int n_singles;
    int answered;  /* set by retrace_model_eval */
    int evaluated; /* set by it too: token rows fed to the model for this question */
} retrace_query;

/* Answers n questions, in one go where the back end can. EMODEL when the model fails or gives NaN;
 * EUSAGE for a token outside the vocabulary or a sequence longer than n_ctx. On an error no
 * question counts as answered and the model may be used again. */
RETRACE_API int retrace_model_eval(retrace_model *m, retrace_query *q, int n, retrace_error *err);

/* ==== Rules ==== */

typedef struct retrace_rule retrace_rule;

/* A rule with its settings, checked and compiled; unchangeable from then on, so any number of runs,
 * one after the other or side by side in a thread, may share it. EUSAGE names an unknown rule or
 * setting. */
RETRACE_API int retrace_rule_new(retrace_rule **out, const char *name,
                                 const retrace_setting *settings, int n_settings,
                                 retrace_error *err);
RETRACE_API void retrace_rule_free(retrace_rule *rule);

/* "name:key=value,key="a,b"" as typed by a person, taken apart. */
typedef struct retrace_rule_spec {
    const char *name;
    retrace_setting *settings;
    int n_settings;
} retrace_rule_spec;

/* A value in double quotes may hold commas; \" and \\ stand for " and \ in it. The result is one
 * block, freed with retrace_free. EUSAGE shows what cannot be read. */
RETRACE_API int retrace_rule_parse(retrace_rule_spec **out, const char *spec, retrace_error *err);

/* ==== Runs ==== */

typedef enum retrace_hold { RETRACE_HOLD_MINIMAL, RETRACE_HOLD_ALL } retrace_hold;
typedef enum retrace_resample {
    RETRACE_RESAMPLE_LOCAL, /* what is rejected is banned where it began, and drawn again there */
    /* Rejected texts count as mass that is gone and every rejection starts again from the prompt,
     * so that answers follow the model's own law (after penalties, bias, temperature and
     * truncation) given that no rule objects. Only rules that are certain, the driver sample,
     * on_stuck fail; all text is held to the end, and stuck_mass is 0. */
    RETRACE_RESAMPLE_EXACT
} retrace_resample;
typedef enum retrace_on_stuck {
    RETRACE_STUCK_FAIL, /* end the run; the text is what had settled */
    RETRACE_STUCK_STOP, /* end the run; the text is what stood where it first got stuck */
    RETRACE_STUCK_ALLOW /* go on from there, let that one hit through, count it as accepted */
} retrace_on_stuck;

/* A source of chance in place of the seeded generator: returns an index below n, n when p has no
 * mass, or a negative number to leave this one draw to the generator. p: n non-negative weights,
 * not all zero, not necessarily normalised. ids: the token behind each weight, in rising order, or
 * NULL when weight i is token i; not given (NULL) for purposes other than 0. purpose: 0 for the
 * next token. pos: counted in generated tokens. attempt: draws made before this one in this run at
 * this position for this purpose. */
typedef int retrace_choose_fn(void *ud, const double *p, const retrace_token *ids, int n,
                              uint64_t purpose, int pos, int attempt);

typedef struct retrace_bias {
    retrace_token id;
    double bias; /* added to the logit; -INFINITY bans */
} retrace_bias;

/* What a run needs to know. Fill it with retrace_options_default() first. Numbers are checked by
 * retrace_run_new; ranges and meanings are in the table (retrace_options_infos). */
typedef struct retrace_options {
    int64_t max_tokens;
    int64_t seed;
    double temp;
    int64_t top_k;
    double top_p;
    double min_p;
    double typical;
    double repeat_penalty;
    int64_t repeat_last_n;
    double presence_penalty;
    double frequency_penalty;
    int ignore_eos;
    int hold;     /* retrace_hold */
    int resample; /* retrace_resample */
    int on_stuck; /* retrace_on_stuck */
    double stuck_mass;
    int64_t max_rewinds;   /* -1: 4 max_tokens + 1024; with resample exact: no limit */
    int64_t max_evaluated; /* -1: 16 max_tokens + 1024 */
    int64_t logprobs;      /* -1: none; k: the chosen token's and the k most probable ones' */
    /* The following are not in the table. Arrays are read by retrace_run_new only, but the rules
     * must outlive the run. */
    const char *driver; /* NULL: "sample"; settings as in "guide:top_k=5" */
    retrace_rule *const *rules;
    int n_rules;
    const retrace_text *stops; /* texts that end the answer; not part of it */
    int n_stops;
    const retrace_bias *bias;
    int n_bias;
    const int *singles; /* of the prompt, see retrace_query and retrace_chat_singles */
    int n_singles;
    int head; /* choices of one request draw independently by this number */
    int slot; /* passed on to the model, see retrace_query; so the next */
    int alone;
    retrace_choose_fn
        *choose; /* NULL: the generator keyed by (seed, head, purpose, pos, attempt) */
    void *choose_ud;
} retrace_options;

/* The program's defaults (llama-cli's sampling): temp 0.8, top_k 40, top_p 0.95, min_p 0.05. */
RETRACE_API void retrace_options_default(retrace_options *o);
/* The settings table of retrace_options. Static. */
RETRACE_API const retrace_setting_info *retrace_options_infos(void);
/* Sets one field by its name in the table, with its range check. */
RETRACE_API int retrace_options_set(retrace_options *o, retrace_setting s, retrace_error *err);

typedef struct retrace_run retrace_run;

typedef enum retrace_finish {
    RETRACE_FINISH_NONE, /* still running */
    RETRACE_FINISH_END,  /* the model ended it */
    RETRACE_FINISH_LENGTH,
    RETRACE_FINISH_STOP,
    RETRACE_FINISH_STUCK,
    RETRACE_FINISH_BUDGET,
    RETRACE_FINISH_CANCELLED,
    RETRACE_FINISH_ERROR
} retrace_finish;

/* "end", "length", ...; "" for NONE. Static. */
RETRACE_API const char *retrace_finish_name(retrace_finish f);

typedef enum retrace_event_kind {
    RETRACE_PUSH,   /* a token was put after `parent` */
    RETRACE_ERASE,  /* the tokens from position `to` on were taken back */
    RETRACE_SETTLE, /* the tokens before position `to` will stay */
    RETRACE_NOTE,   /* a rule or the engine says something */
    RETRACE_END     /* the run has ended; `finish` says how */
} retrace_event_kind;

/* One thing that happened. Pointers are valid until the next call on the run. Positions count
 * generated tokens. Nodes number the places of the run's tree in order of birth; 0 is the place
 * after the prompt. */
typedef struct retrace_event {
    retrace_event_kind kind;
    int node;         /* PUSH: the place pushed to; ERASE: the place gone back to */
    int parent;       /* PUSH */
    int pos;          /* PUSH: the token's position */
    int to;           /* ERASE, SETTLE */
    retrace_token id; /* PUSH */
    int drawn; /* PUSH: 1 when options.choose or the generator drew it; 0 when it was forced, chosen
                  by a person, or put back */
    retrace_text text; /* PUSH: the piece; SETTLE: the bytes that settled now; END: the answer */
    double logprob;    /* PUSH: NAN unless options.logprobs >= 0 */
    const retrace_candidate
        *top; /* PUSH: the most probable tokens, falling; options.logprobs of them */
    int n_top;
    const char *rule; /* ERASE, NOTE: the rule's name, or "stuck", "stop", "guide", "force" */
    const char *why;  /* ERASE, NOTE: the phrase, say */
    const retrace_token *ban; /* ERASE: tokens banned at `node` by this */
    int n_ban;
    retrace_finish finish; /* END */
} retrace_event;

/* Makes a run that continues the prompt. The prompt is copied. EUSAGE: an option out of range
 * (named), an empty prompt on a model that needs one (no BOS and not a table), a prompt that leaves
 * no room in the context, an id outside the vocabulary. */
RETRACE_API int retrace_run_new(retrace_run **out, retrace_model *m, const retrace_options *o,
                                const retrace_token *prompt, int n_prompt, retrace_error *err);
RETRACE_API void retrace_run_free(retrace_run *run);

typedef enum retrace_need_kind {
    RETRACE_NEED_MODEL,  /* answer `queries` with retrace_model_eval, then call again */
    RETRACE_NEED_CHOICE, /* a person's move: answer with retrace_run_choose, then call again */
    RETRACE_EVENT,       /* `event` happened; call again */
    RETRACE_NEED_NOTHING /* done: the END event has been handed out */
} retrace_need_kind;

typedef struct retrace_need {
    retrace_need_kind kind;
    retrace_query *queries; /* valid until the next call on the run */
    int n_queries;
    const retrace_event *event;
    /* NEED_CHOICE: the most probable tokens that may come next, falling; where: counted in
     * generated tokens, and as a node. */
    const retrace_candidate *candidates;
    int n_candidates;
    int pos, node;
} retrace_need;

typedef enum retrace_choice_kind {
    RETRACE_CHOOSE_DRAW,  /* let the generator draw one token */
    RETRACE_CHOOSE_TOKEN, /* put `token` there, however improbable */
    RETRACE_CHOOSE_TEXT,  /* put `text` there */
    RETRACE_CHOOSE_BACK   /* go back to the place after `to` tokens */
} retrace_choice_kind;

typedef struct retrace_choice {
    retrace_choice_kind kind;
    retrace_token token;
    retrace_text text;
    int to;
} retrace_choice;

/* Answers NEED_CHOICE. What is put there is judged by the rules like any other token; if one
 * objects to any of it, all of it is taken back and the question is asked again. EUSAGE, and the
 * question stays: no question is open, the token is banned there or outside the vocabulary, no
 * tokens spell the text, `to` lies behind the head or before what has settled. */
RETRACE_API int retrace_run_choose(retrace_run *run, const retrace_choice *choice,
                                   retrace_error *err);

/* Goes on as far as possible without the model. RETRACE_OK with *need filled, RETRACE_DONE at the
 * end (need->kind NEED_NOTHING), or a negative status: the run is then over with finish ERROR and
 * what had settled stays readable. Calling it again without having answered is EUSAGE and changes
 * nothing. */
RETRACE_API int retrace_run_next(retrace_run *run, retrace_need *need, retrace_error *err);

/* The loop over retrace_run_next and the model, until done. A choice is left to the generator.
 * each, when not NULL, sees every event; when it returns non-zero the run is cancelled. Returns
 * RETRACE_OK however the run finished, or an error. */
typedef int retrace_event_fn(void *ud, const retrace_event *event);
RETRACE_API int retrace_run_finish(retrace_run *run, retrace_event_fn *each, void *ud,
                                   retrace_error *err);

/* Takes up a run that has ended, however (but not by an error): goes back to the place after `to`
 * tokens of its answer, settled or not, and goes on from there under the same rules, with all that
 * it has learned: bans stay, and a draw at that place is a new one. `then`, when not NULL, puts a
 * token or a text there as a person's answer would be put; a draw is the same as NULL. max_tokens:
 * how many may follow the first `to`; negative: as many as the answer had in all.
 * The events go on: an ERASE with the rule "rewind" tells of what was taken back (none when nothing
 * was), SETTLE begins again at `to`, and a second END follows. Budgets and statistics begin anew,
 * except that `prompt` and `kept` count the whole. EUSAGE, and nothing is changed: the run goes on
 * still, failed, or resamples exactly; `to` is not between 0 and its number of tokens; the token is
 * banned there, not admitted by a constraint or outside the vocabulary; no tokens spell the text;
 * what is put does not fit max_tokens or the context; max_tokens is beyond that of options. */
RETRACE_API int retrace_run_reopen(retrace_run *run, int to, int64_t max_tokens,
                                   const retrace_choice *then, retrace_error *err);

/* From when the run is next taken up on: takes the place of options.hold. Runs whose driver or
 * whose resample exact holds all text do so all the same. EUSAGE: hold is no retrace_hold. */
RETRACE_API int retrace_run_set_hold(retrace_run *run, int hold, retrace_error *err);

/* The tokens that are banned at the place after `pos` tokens of the answer; *n of them, borrowed
 * until the next call on the run. NULL when there are none or no such place. */
RETRACE_API const retrace_token *retrace_run_bans(const retrace_run *run, int pos, int *n);

/* Asks the run to end at its next step, finish CANCELLED; what had settled is its text. */
RETRACE_API void retrace_run_cancel(retrace_run *run);

/* Gives up because of an outside failure (the model could not answer): finish ERROR. */
RETRACE_API void retrace_run_abort(retrace_run *run);

RETRACE_API retrace_finish retrace_run_finished(const retrace_run *run);

/* The answer as it stands at the head; after the end, the final answer. The text may differ from
 * the joined pieces only where a stop text began inside a token. Borrowed until the next call on
 * the run. */
RETRACE_API retrace_text retrace_run_text(const retrace_run *run);
RETRACE_API const retrace_token *retrace_run_tokens(const retrace_run *run, int *n);

/* How many tokens, and bytes of text, will stay whatever happens. Whole characters. */
RETRACE_API int retrace_run_settled(const retrace_run *run, size_t *n_bytes);

/* The kept token's log-probability and the most probable ones beside it, by position. NULL when
 * options.logprobs was -1. Borrowed until the next call on the run. */
RETRACE_API const retrace_candidate *retrace_run_logprobs(const retrace_run *run, int pos,
                                                          double *logp, int *n_top);

typedef struct retrace_stats {
    int64_t prompt;           /* tokens */
    int64_t prompt_evaluated; /* those of them that the model was given for the first question; it
                                 held the others. Taken up again: given once more for that */
    int64_t kept;             /* tokens of the answer */
    int64_t evaluated;        /* token rows given to the model after the prompt, repeats included */
    int64_t reevaluated;      /* the repeats among them */
    int64_t erased;           /* tokens taken back; kept + erased = all that were drawn */
    int64_t accepted;         /* hits let through after giving up: by soft rules, and by `allow` */
    int64_t rewinds;
    int64_t held_max_bytes; /* most text that was ever waiting to settle */
} retrace_stats;
RETRACE_API void retrace_run_stats(const retrace_run *run, retrace_stats *out);

typedef struct retrace_rule_stats {
    const char *name;
    int64_t hits;     /* proposals that were carried out or, for soft rules, let through */
    int64_t erased;   /* tokens */
    int64_t accepted; /* hits that stand, after giving up */
} retrace_rule_stats;
/* Of the i-th rule in options.rules; 0 when there are no more. */
RETRACE_API int retrace_run_rule_stats(const retrace_run *run, int i, retrace_rule_stats *out);

/* ==== Conversations ==== */

/* What retrace_answer hands out: one block, freed with retrace_free. */
typedef struct retrace_reply {
    retrace_message *messages; /* those given, and behind them the assistant's answer with its
                                  tokens: what the next call is given, with the next message */
    int n_messages;
    int dropped; /* messages that retrace_chat_fit left out of the prompt; they are in `messages` */
    retrace_finish finish;
    retrace_stats stats;
} retrace_reply;

/* The answer of a run that has ended as the assistant's message, with the tokens that spell it:
 * what retrace_chat takes. They are those of retrace_run_tokens, but for control tokens, which have
 * no text, and for one that a stop text has cut: the rest of it is spelt anew. *out is one block,
 * freed with retrace_free. */
RETRACE_API int retrace_run_message(const retrace_run *run, retrace_message **out,
                                    retrace_error *err);

/* One turn of a conversation, without state: makes the prompt of the messages (as retrace_chat_fit
 * does, with room for max_tokens, at most a quarter of the context), writes an answer under the
 * options and returns the conversation with it. The messages, whose last one is usually the user's,
 * are copied. When turns must be left out, they go in steps of about a quarter of the context,
 * counted from the first turn: a conversation that grows keeps its cut until the next step. Called
 * with what it returned before, on the same model and options.slot, the model is given only what is
 * new (stats.prompt_evaluated). `each` as in retrace_run_finish. Errors are those of
 * retrace_chat_fit, retrace_run_new and retrace_run_finish; the answer of a run that was cancelled,
 * stuck or out of budget is what had settled, and `finish` says so. */
RETRACE_API int retrace_answer(retrace_reply **out, retrace_model *m, const retrace_options *o,
                               const retrace_message *messages, int n_messages,
                               retrace_event_fn *each, void *ud, retrace_error *err);

/* ==== Files of models ==== */

/* The i-th type that retrace_convert writes, as "q8_0"; NULL when there are no more. Static. */
RETRACE_API const char *retrace_convert_type_at(int i);

/* The type that most of the weights in a GGUF file have, as "q4_1" (static). *quantised: 1 when it
 * is one in which numbers have been rounded together, block by block. EIO, EMODEL as for
 * retrace_model_open. */
RETRACE_API int retrace_gguf_type(const char *file, const char **type, int *quantised,
                                  retrace_error *err);

/* How far it is, 0 to 1. Not 0 stops the work. */
typedef int retrace_progress_fn(void *ud, double done);

/* Writes the GGUF model in file `in` (of a split one: the first part) to file `out`, tensors in
 * another type, by libllama's quantiser; pure: all of them in that one, else in the mixture that
 * usually goes by its name. A tensor whose rows do not fit the type takes one near it. threads 0:
 * one a core. `out` appears when it is whole, replacing a file of that name, and may be `in`; until
 * then the work is in a file beside it, which is gone after an error. EUSAGE: an unknown type, or
 * one that needs an importance matrix; EIO: a file that cannot be read or written; EMODEL: not a
 * model; ECANCEL: `progress` (which may be NULL) has stopped it. */
RETRACE_API int retrace_convert(const char *in, const char *out, const char *type, int pure,
                                int threads, retrace_progress_fn *progress, void *ud,
                                retrace_error *err);

#ifdef __cplusplus
}
#endif

/* Bigram chains and backward sampling. */
#include "retrace_backward.h"

#endif
