/* server.h - what the files of the server share.
 *
 *        sockets                 JSON, fields, rules, tokens            the model
 *     +---------+   srv_call    +----------+      srv_unit       +----------+
 *     |  front  | ------------> |   prep   | ------------------> |  worker  |
 *     +---------+               +----------+                     +----------+
 *          ^                         |                                |
 *          +------- srv_reply -------+--------------------------------+
 *
 * Three threads, whatever the number of clients. The *front* owns the sockets (libmicrohttpd, one
 * epoll loop) and answers at once what needs no model; it never waits and never works long, so
 * /health is quick whatever goes on. *Prep* takes the bodies apart. The *worker* owns the model and
 * all runs: what they ask goes into one retrace_model_eval a step.
 *
 * A call belongs to one thread at a time and is handed on. Only srv_reply, the metrics and the
 * queues are shared; each has its lock inside. As elsewhere in the program, memory that runs out
 * ends it; limits keep that from being a client's choice. */
#ifndef SERVER_H
#define SERVER_H

#include "../cli/cli.h"
#include "retrace_backward.h"

#include <stdatomic.h>

typedef struct srv srv;
typedef struct srv_call srv_call;
typedef struct srv_reply srv_reply;
typedef struct srv_request srv_request;
typedef struct srv_answer srv_answer;
typedef struct srv_unit srv_unit;
typedef struct srv_worker srv_worker;
typedef struct srv_front srv_front;
typedef struct srv_prep srv_prep;
typedef struct srv_kept srv_kept;

enum { SRV_DIGEST = 32 };

/* ==== config.c: the flags of `serve` ==== */

typedef struct srv_config {
    const cli_flags *flags;
    const char *host;                  /* an IPv6 address without brackets */
    char bare[64];                     /* may be it */
    int port;                          /* 0: any that is free */
    int parallel;                      /* runs side by side */
    int64_t queue;                     /* most requests that wait */
    double queue_s;                    /* and how long */
    double request_s;                  /* most time of one request, waiting not counted */
    int64_t max_body;                  /* bytes */
    int64_t keep_runs;                 /* finished completions kept for /v1/rewind */
    double keep_s;                     /* and how long */
    unsigned char (*keys)[SRV_DIGEST]; /* SHA-256 of each API key; none: everybody may */
    int n_keys;
    const retrace_text *origins; /* --cors-origin */
    int n_origins;
    const retrace_text *hosts; /* --allow-host: beside the one listened on */
    int n_hosts;
    const char *table;      /* --table FILE, or NULL */
    const char *access_log; /* "-": stderr; NULL: none */
    /* What requests that say nothing get: OpenAI's defaults, or what was given on the command line.
     */
    retrace_options preset;
} srv_config;

int srv_config_read(srv_config *c, const cli_flags *f);
void srv_config_free(srv_config *c);

/* ==== serve.c: the server as a whole ==== */

struct srv {
    srv_config config;
    retrace_model *model;
    retrace_model_info facts;
    char *name;            /* of the model, as clients see it */
    int64_t created;       /* seconds since 1970 */
    json_t *openapi;       /* made once, at start */
    json_t *rules;         /* what `retrace rules --json` prints; so is this */
    retrace_bigram *table; /* NULL: no /v1/backward */
    struct srv_metrics *metrics;
    struct srv_lists *lists;       /* ban lists by name, lists.c */
    struct srv_compiled *compiled; /* rules that took long to compile, compiled.c */
    struct srv_log *log;           /* NULL: none */
    srv_front *front;
    srv_prep *prep;
    srv_worker *worker;
};

/* ==== error.c: what a client is told ==== */

/* An error as OpenAI's clients read it. `code` and `type` are static. */
typedef struct srv_error {
    int status;       /* HTTP; 0: none */
    const char *code; /* "invalid_value", "context_length_exceeded", ... or NULL */
    char param[96];   /* the field, "rules[0].name"; empty: none */
    char msg[640];    /* one line, names the field and the limit */
    int retry_after;  /* seconds; 0: no such header */
} srv_error;

/* Fills e and returns -1. The first error stays: later ones do not replace it. */
int srv_fail(srv_error *e, int status, const char *code, const char *param, const char *fmt, ...)
    RETRACE_PRINTF(5, 6);
/* From the library's: EUSAGE 400, EMODEL and the rest 500; about: opens the message, or NULL. */
int srv_fail_with(srv_error *e, const retrace_error *err, const char *param);
/* "invalid_request_error", ... of a status. Static. */
const char *srv_error_type(int status);
/* {"error":{"message","type","code","param"}} */
json_t *srv_error_json(const srv_error *e);
/* The whole answer: body, Retry-After, `x-should-retry: false` on permanent 5xx (500, 501). */
void srv_reply_error(srv_reply *r, const srv_error *e);

/* ==== reply.c: an answer on its way to a client ==== */

/* Counted: the front and one producer hold it. Any thread may call these at any time. */
srv_reply *srv_reply_new(srv_front *front);
srv_reply *srv_reply_hold(srv_reply *r);
void srv_reply_drop(srv_reply *r);

/* Producer. Headers first, then start, then any number of puts, then end. A reply that is not
 * `streaming` is sent when it has ended, with a Content-Length; a streaming one as it comes. */
void srv_reply_header(srv_reply *r, const char *name, const char *value); /* copied */
void srv_reply_start(srv_reply *r, int status, const char *type, int streaming);
void srv_reply_put(srv_reply *r, const char *s, size_t n);
void srv_reply_end(srv_reply *r);
/* All four for a JSON body; frees j. */
void srv_reply_json(srv_reply *r, int status, json_t *j);
int srv_reply_started(srv_reply *r);
/* The client has left: nothing that is put is sent any more. */
int srv_reply_gone(const srv_reply *r);
/* Bytes put and not yet taken by the socket's side, and since when (cli_clock) none was taken. A
 * producer that sees more than SRV_FULL pauses; see srv_stalled in worker.c. */
enum { SRV_FULL = 256 * 1024, SRV_STALL_S = 30, SRV_PING_S = 15 };
size_t srv_reply_waiting(srv_reply *r, double *since);

/* ==== front.c: sockets ==== */

/* Opens the socket; prints nothing. CLI_IO: the port is in use, ... */
int srv_front_new(srv_front **out, srv *s);
int srv_front_port(const srv_front *f);
/* Serves until SIGINT or SIGTERM; then refuses new requests (503), lets running ones end for at
 * most 30 s and returns. A second signal: at once. SIGHUP: srv_lists_reload. */
int srv_front_run(srv_front *f);
/* From now on connections come in; before that the port is only taken. */
int srv_front_listen(srv_front *f);
/* Most connections at a time. */
int srv_front_most(const srv_front *f);
/* The signal that ended srv_front_run. */
int srv_front_signal(const srv_front *f);
/* Catches SIGINT, SIGTERM and SIGHUP; until srv_front_run they end the program. */
void srv_signals_catch(void);
void srv_front_free(srv_front *f);
/* From any thread: this reply has something to send, or has ended. */
void srv_front_wake(srv_front *f, srv_reply *r);
/* Requests with an answer still to come. */
int srv_front_open_calls(const srv_front *f);

/* ==== keys.c, origin.c: who may ==== */

/* SHA-256. */
void srv_digest(const void *data, size_t n, unsigned char out[SRV_DIGEST]);
/* 0 when one of the server's keys is the bearer's; *digest is the key's, zeros without keys.
 * Takes the same time for every wrong key. authorization, x_api_key: the headers, or NULL. */
int srv_key_check(const srv_config *c, const char *authorization, const char *x_api_key,
                  unsigned char digest[SRV_DIGEST], srv_error *e);
/* 0 when the Host, Origin and Sec-Fetch-Site headers (or NULL) are allowed; *cors: the origin to be
 * named in the answer, or NULL. */
int srv_origin_check(const srv_config *c, int port, const char *host, const char *origin,
                     const char *fetch_site, const char **cors, srv_error *e);

/* ==== route.c: the table of endpoints ==== */

/* A field of a request: one row makes the check, docs/http.md and the OpenAPI document. */
typedef struct srv_field {
    const char *name; /* NULL ends a table */
    const char
        *type; /* "int", "number", "bool", "string", "strings" (one or several), "any", ... */
    const char *preset; /* in words, for people; NULL: none */
    double min, max;    /* inclusive, for numbers; min == max: no limit; for texts: bytes of one */
    int most;           /* entries of a list; 0: no limit */
    const char *help;
    const char *aliases; /* "max_completion_tokens|n_predict": other names; the first that is there
                            counts */
} srv_field;

typedef struct srv_route {
    const char *method, *path;            /* "/v1/completions/{id}/alternatives" */
    const char *other;                    /* the same at another path, or NULL */
    int open;                             /* 1: no key is asked for */
    void (*at_once)(srv *s, srv_call *c); /* in the front: quick, no model; or NULL and then */
    void (*prepare)(srv *s, srv_call *c); /* in prep: answers, or hands a unit to the worker */
    const srv_field *const *fields;       /* of the body: tables, ended by NULL; or NULL */
    const char *help;
} srv_route;

/* NULL with 404 or 405 (*allow: the methods that there are). *id: where {id} begins in path, and
 * its length. */
const srv_route *srv_route_find(const char *method, const char *path, const char **id, size_t *n_id,
                                const char **allow);
/* The i-th route; NULL when there are no more. */
const srv_route *srv_route_at(int i);

/* One request, from its last header to the end of its answer. The front makes and frees it. */
struct srv_call {
    const srv_route *route;
    char *path;    /* without the query */
    char id[64];   /* {id} of the path; or empty */
    json_t *query; /* of the URL: an object of texts */
    cli_buf body;
    unsigned char key[SRV_DIGEST];
    srv_reply *reply;
    double arrived;      /* cli_clock */
    srv_call *next;      /* in prep's queue */
    atomic_size_t *held; /* the bodies of all calls together; this one's bytes are taken off it */
    char request[40];    /* "req_..." for logs and x-request-id */
};

/* ==== prep.c: the thread between ==== */

int srv_prep_new(srv_prep **out, srv *s);
/* From the front: c is prep's until srv_call_done. -1 with 429: too many wait; c stays the front's.
 */
int srv_prep_give(srv_prep *p, srv_call *c, srv_error *e);
/* Reads the ban lists again, in prep's thread. */
void srv_prep_reload(srv_prep *p);
/* Prep or worker: the reply will come (or has) without c; frees c. The reply lives on by itself. */
void srv_call_done(srv_call *c);
void srv_prep_free(srv_prep *p); /* ends the thread */

/* ==== json.c: bodies ==== */

/* A body as JSON: at most 64 levels, 1 M values; no duplicate keys, no lone surrogates, numbers in
 * range, valid UTF-8, an object. NULL with 400 and the place. */
json_t *srv_json_read(const cli_buf *body, srv_error *e);

/* ==== field.c: fields of a request by their tables ==== */

/* Values by a field's name or one of its aliases; null counts as absent. 0 and *out unchanged when
 * it is absent; 0 with the value; -1: wrong type or out of range, and e names it. */
int srv_get_bool(json_t *body, const srv_field *table, const char *name, int *out, srv_error *e);
int srv_get_int(json_t *body, const srv_field *table, const char *name, int64_t *out, srv_error *e);
int srv_get_real(json_t *body, const srv_field *table, const char *name, double *out, srv_error *e);
int srv_get_text(json_t *body, const srv_field *table, const char *name, const char **out,
                 srv_error *e);
/* The value as it is (borrowed), or NULL. */
json_t *srv_get(json_t *body, const srv_field *table, const char *name);

/* ==== request.c: what a client wants written ==== */

typedef enum srv_shape { SRV_COMPLETIONS, SRV_CHAT, SRV_LLAMA } srv_shape;

typedef struct srv_prompt {
    retrace_token *tokens;
    int n;
} srv_prompt;

/* Owned by one unit at a time, and kept with its run for /v1/rewind. Unchangeable but for `stream`
 * and what /v1/rewind sets anew. */
struct srv_request {
    srv_shape shape;
    char id[64]; /* "cmpl-" or "chatcmpl-" and 32 hexadecimal digits of chance */
    char *model; /* what the client called it, else the server's name for it */
    int64_t created;
    unsigned char key[SRV_DIGEST];
    srv_prompt *prompts;
    int n_prompts;
    int n; /* choices of each prompt; choice i of prompt p has the index p * n + i */
    int stream, include_usage;
    int echo;          /* the prompt stands in the answer; with logprobs its own are there too */
    int logprobs;      /* -1: none; k: the chosen token's and the k most probable ones' */
    int n_probs;       /* llama.cpp's form of the same; 0: none */
    int return_tokens; /* ids are in the answer too (`return_token_ids`, llama.cpp's
                          `return_tokens`) */
    int events;     /* retrace.ops and retrace.stats in each chunk, or retrace.trace in the whole */
    int keep;       /* from this token of the answer on the text is sent: /v1/rewind; else 0 */
    int rewound;    /* 1: by /v1/rewind, which may keep 0 */
    int hold_given; /* 0: `stream` decides */
    retrace_options options;    /* head, slot, choose are the worker's; n arrays below are its */
    struct srv_shared **shared; /* its rules, and what the library gets of them */
    retrace_rule **rules;
    int n_rules;
    retrace_text *stops;
    retrace_bias *bias;
    char *driver;
    json_t
        *start; /* the start line of a trace: model, prompt_tokens are left out; seed, settings */
    double arrived;
};

void srv_request_free(srv_request *q);
/* Prepares /v1/completions, /v1/chat/completions, /completion: routes' prepare functions. */
void srv_prepare_completions(srv *s, srv_call *c);
void srv_prepare_chat(srv *s, srv_call *c);
void srv_prepare_llama(srv *s, srv_call *c);
/* The tables of their fields. */
extern const srv_field srv_fields_common[], srv_fields_rules[], srv_fields_completions[],
    srv_fields_chat[], srv_fields_llama[], srv_fields_rewind[], srv_fields_backward[],
    srv_fields_tokenize[], srv_fields_detokenize[], srv_fields_template[];

/* ==== lists.c: ban lists by name ==== */

int srv_lists_new(struct srv_lists **out, const srv_config *c); /* CLI_USAGE, CLI_IO */
/* Reads all files again; one that cannot be read or is broken stays as it was and is told of. */
void srv_lists_reload(struct srv_lists *l);
/* The text of a list as a JSON string, a new reference; NULL: there is none of that name. Any
 * thread. */
json_t *srv_list_text(struct srv_lists *l, const char *name);
/* Their names as a JSON array. */
json_t *srv_lists_names(struct srv_lists *l);
void srv_lists_free(struct srv_lists *l);

/* ==== compiled.c: rules that several requests share ==== */

typedef struct srv_shared {
    retrace_rule *rule;
    json_t *json; /* its name and settings; nobody may change them */
    atomic_int users;
} srv_shared;

struct srv_compiled *srv_compiled_new(void);
void srv_compiled_free(struct srv_compiled *c);
/* The rule {"name", settings...}, compiled now or earlier; the caller has a share in it. Takes
 * `rule`. Prep's thread. 0 or what the library says. */
int srv_compiled_get(struct srv_compiled *c, json_t *rule, srv_shared **out, retrace_error *err);
/* Any thread. */
void srv_shared_drop(srv_shared *s);

/* ==== answer.c, shape_*.c, stream.c: what a client reads ==== */

/* Writes one answer, with all its choices, into a reply. Holds the reply. q must live longer. All
 * calls come from the worker. */
srv_answer *srv_answer_new(srv *s, const srv_request *q, srv_reply *r);
/* The prompt's own log-probabilities, asked for with echo: logp[i] of token i (NAN for none), and
 * top[i * n_top ...], unfilled ones with id -1. Comes before the choice's first event; the arrays
 * are copied. */
void srv_answer_scored(srv_answer *a, int choice, const double *logp, const retrace_candidate *top,
                       int n_top);
/* Something happened in a choice's run. Streams what has settled by it. */
void srv_answer_event(srv_answer *a, int choice, retrace_run *run, const retrace_event *e);
/* The run waits for the model: what was done since the last chunk goes out. */
void srv_answer_turn(srv_answer *a, int choice);
/* The run is over (its END has been told), or there was none (max_tokens 0 with echo: run NULL).
 * With the last choice the answer ends. */
void srv_answer_done(srv_answer *a, int choice, retrace_run *run);
/* It cannot go on: a plain answer where nothing was sent yet, else an error in the stream. */
void srv_answer_fail(srv_answer *a, const srv_error *e);
/* A comment that keeps the connection of a stream alive; begins it where nothing was sent yet. Not
 * while the request waits in the queue: its errors are plain answers. */
void srv_answer_ping(srv_answer *a);
/* Tokens whose model work was saved: for prompt_tokens_details.cached_tokens. */
void srv_answer_cached(srv_answer *a, int choice, int n_tokens);
void srv_answer_free(srv_answer *a);
/* Appends the bytes of tokens in an answer. */
void srv_put_pieces(const retrace_model *m, const retrace_token *ids, int n, cli_buf *b);
/* ==== worker.c: the thread that owns the model ==== */

int srv_worker_new(srv_worker **out, srv *s);
void srv_worker_free(srv_worker *w); /* cancels what runs, ends the thread */
/* Hands over a unit; 0, or -1 with 429 (queue full) or 503 (the server ends), and the unit stays
 * the caller's. Any thread. */
int srv_worker_give(srv_worker *w, srv_unit *u, srv_error *e);
/* Seconds since the worker last went round its loop; while it waits for work, 0. Any thread. */
double srv_worker_idle_s(srv_worker *w);

/* Something the worker does for a client, step by step. A unit has parts that can run side by side
 * (the choices of an answer); each takes one slot. */
typedef struct srv_unit_type {
    const char *name;
    int needs_slots; /* 0: never waits for a free slot, and is not counted in the queue */
    /* Once, in the worker, before anything else. -1: over (it has replied). */
    int (*begin)(srv_unit *u, srv_worker *w);
    /* Does what can be done without the model and adds what must be asked (srv_worker_ask). Called
     * once a step. 0: goes on; 1: over. */
    int (*step)(srv_unit *u, srv_worker *w);
    void (*fail)(srv_unit *u,
                 const srv_error *e); /* the model failed, time ran out, shutting down */
    void (*free)(srv_unit *u);
    /* Once, in the worker, before it waits for a slot; NULL: nothing to do. -1: over (it has
     * replied). */
    int (*arrive)(srv_unit *u, srv_worker *w);
} srv_unit_type;

struct srv_unit {
    const srv_unit_type *type;
    srv_unit *next;   /* in queues */
    srv_reply *reply; /* held */
    double arrived, begun;
};

/* unit_text.c: a completion. Takes q and holds r. */
srv_unit *srv_unit_text(srv *s, srv_request *q, srv_reply *r);
/* rewind.c: routes' prepare functions, and the units behind them. */
void srv_prepare_rewind(srv *s, srv_call *c);
void srv_prepare_alternatives(srv *s, srv_call *c);
/* backward.c */
void srv_prepare_backward(srv *s, srv_call *c);
/* text.c: /tokenize, /detokenize, /apply-template */
void srv_prepare_tokenize(srv *s, srv_call *c);
void srv_prepare_detokenize(srv *s, srv_call *c);
void srv_prepare_template(srv *s, srv_call *c);

/* facts.c: at once */
void srv_get_root(srv *s, srv_call *c);
void srv_get_models(srv *s, srv_call *c);
void srv_get_one_model(srv *s, srv_call *c);
void srv_get_props(srv *s, srv_call *c);
void srv_get_tokenizer_info(srv *s, srv_call *c);
void srv_get_rules(srv *s, srv_call *c);
void srv_get_health(srv *s, srv_call *c);
void srv_get_metrics(srv *s, srv_call *c);
void srv_get_openapi(srv *s, srv_call *c);
void srv_no_embeddings(srv *s, srv_call *c); /* 501 */
/* openapi.c: made from the route and field tables. */
json_t *srv_openapi(const srv *s);

/* ==== metrics.c ==== */

typedef enum srv_count {
    SRV_C_REQUESTS,      /* answered, by any status */
    SRV_C_ERRORS,        /* of these, 4xx and 5xx */
    SRV_C_PROMPT_TOKENS, /* of prompts */
    SRV_C_CACHED_TOKENS, /* of these, not computed again */
    SRV_C_TOKENS,        /* kept */
    SRV_C_EVALUATED,     /* rows given to the model */
    SRV_C_ERASED,
    SRV_C_REWINDS,
    SRV_C_ACCEPTED,
    SRV_C_CANCELLED, /* by clients that left */
    SRV_C_STEPS,     /* calls of the model */
    SRV_N_COUNTS
} srv_count;
typedef enum srv_gauge {
    SRV_G_RUNNING,
    SRV_G_WAITING,
    SRV_G_KEPT,
    SRV_G_CONNECTIONS,
    SRV_N_GAUGES
} srv_gauge;

struct srv_metrics *srv_metrics_new(void);
void srv_metrics_free(struct srv_metrics *m);
void srv_count_up(struct srv_metrics *m, srv_count c, int64_t n);
void srv_gauge_set(struct srv_metrics *m, srv_gauge g, int64_t value);
/* A rule's hits, by its name. */
void srv_count_rule(struct srv_metrics *m, const char *rule, int64_t hits, int64_t erased);
/* Seconds of a finished request, and to its first text (-1: none). */
void srv_observe(struct srv_metrics *m, double seconds, double first_s);
/* Prometheus's text format, version 0.0.4. */
void srv_metrics_text(struct srv_metrics *m, cli_buf *out);

/* ==== log.c: one JSON line a request ==== */

typedef struct srv_line {
    const char *request, *remote, *method, *path;
    const unsigned char *key; /* digest */
    int status;               /* 0: the client left before there was one */
    size_t bytes;
    double seconds;
} srv_line;

int srv_log_open(struct srv_log **out, const char *path); /* CLI_IO; NULL path: no log */
/* {"time","request","remote","method","path","status","ms","bytes","key"}; no prompts, and of a key
 * only the last four digits of its digest. Any thread. */
void srv_log_call(struct srv_log *l, const srv_line *line);
void srv_log_close(struct srv_log *l);

#endif
