/* shape.h - inside the files that write answers.
 *
 * answer.c follows the runs: it splits what settles into *pieces* (one token each, with the whole
 * characters that it completes) and knows when a choice is over. A *form* is one of the three
 * shapes that clients know; it says how a piece's log-probability, a chunk of a stream and a whole
 * answer are written. stream.c sends chunks; report.c makes what is the same in all shapes: usage,
 * the object `retrace`, the trace. */
#ifndef SERVER_SHAPE_H
#define SERVER_SHAPE_H

#include "server.h"

/* One token on its way out. Borrowed until the next one. */
typedef struct srv_piece {
    retrace_token id;
    retrace_text text; /* whole characters that it completes: UTF-8 */
    int64_t offset;    /* code points before it in the answer's text */
    double logp;       /* NAN: none */
    const retrace_candidate *top;
    int n_top;
} srv_piece;

/* One choice. */
typedef struct srv_part {
    int index;
    int told;  /* tokens of the run that are out, or in `text` */
    int begun; /* what comes before its own tokens is out too */
    int sent;  /* a chunk was */
    int over;
    cli_buf tail;   /* bytes of a character that is not whole yet */
    cli_buf now;    /* whole characters that were completed just now */
    cli_buf text;   /* not streamed: all of it */
    cli_buf prefix; /* /v1/rewind: the text before `keep` */
    int64_t chars;  /* code points so far */
    int breaks;     /* there was a line break */
    json_t *logprobs,
        *ids;    /* by the form; not streamed: of all tokens, else since the last chunk */
    json_t *ops; /* the same of the trace */
    int64_t seq;
    double *prompt_logp; /* echo: of each token of the prompt, and the most probable ones */
    retrace_candidate *prompt_top;
    int n_prompt_top;
    int cached;                   /* tokens; -1: nobody said */
    double began, text_at, ended; /* cli_clock: first event, first text, end; 0: not yet */
    retrace_finish finish;
    retrace_stats stats;
    json_t *rules;
    cli_buf stop_word; /* what the answer stopped at */
    json_t *choice;    /* not streamed: as it will stand in the answer */
} srv_part;

/* A chunk of a stream, or (over) the last one of a choice. */
typedef struct srv_chunk {
    retrace_text text;
    int first;        /* the choice begins */
    json_t *logprobs; /* or NULL */
    json_t *ids;      /* or NULL */
    int over;         /* the choice ends */
} srv_chunk;

typedef struct srv_form {
    const char *object, *chunk_object; /* NULL: the shape has no such field */
    const char *done;                  /* what ends a stream, behind its last chunk */
    int role;                          /* a choice's first chunk has no text of its own */
    /* Log-probabilities: an empty set, and one more. */
    json_t *(*logprobs)(void);
    void (*add)(const srv_answer *a, json_t *set, const srv_piece *p);
    /* Appends the members of a chunk that come behind the head; no braces around them. */
    void (*chunk)(cli_buf *b, const srv_answer *a, const srv_part *p, const srv_chunk *c);
    /* A choice of a whole answer, and all of them. */
    json_t *(*choice)(const srv_answer *a, const srv_part *p);
    json_t *(*whole)(const srv_answer *a);
} srv_form;

extern const srv_form srv_form_completions, srv_form_chat, srv_form_llama;

struct srv_answer {
    srv *s;
    const srv_request *q;
    srv_reply *reply;
    const srv_form *form;
    srv_part *parts;
    int n_parts, n_over;
    char fingerprint[64];
    cli_buf head; /* what each chunk begins with */
    cli_buf out;  /* the chunk being written */
    int begun;    /* the stream's headers are out */
    int ended;
};

/* ==== report.c ==== */

/* "stop", "length", "content_filter". */
const char *srv_finish_reason(retrace_finish f);
const srv_prompt *srv_part_prompt(const srv_answer *a, const srv_part *p);
/* Whether the answer goes on from a place in an earlier one. */
int srv_rewound(const srv_answer *a);
/* Tokens of the answer, without those before `keep`. */
int64_t srv_part_tokens(const srv_answer *a, const srv_part *p);
/* {"finish","seed","stats","rules"} of a choice, with keep and prefix after a rewind. */
json_t *srv_report_part(const srv_answer *a, const srv_part *p);
/* The same of the whole answer, with the trace where it was asked for. */
json_t *srv_report_all(const srv_answer *a);
json_t *srv_usage(const srv_answer *a);
/* The first line of a choice's trace; one that goes on from an earlier one has none. */
json_t *srv_trace_start(const srv_answer *a, const srv_part *p);
/* Behind the text of a choice in a chunk: ,"logprobs":...,"finish_reason":...}] */
void srv_put_choice_rest(cli_buf *b, const srv_answer *a, const srv_part *p, const srv_chunk *c);
/* token_ids and prompt_token_ids, where they were asked for. */
void srv_add_ids(json_t *choice, const srv_answer *a, const srv_part *p);
/* {"id","object","created","model","system_fingerprint","choices","usage","retrace"} */
json_t *srv_whole_openai(const srv_answer *a);

/* ==== spell.c: text and JSON as bytes ==== */

/* Appends UTF-8 as a JSON string. */
void srv_put_string(cli_buf *b, retrace_text t);
/* Appends a value as JSON; of an object with `inside` only the members. */
void srv_put_json(cli_buf *b, const json_t *j, int inside);
/* A token as clients see it alone: "bytes:\xe6\xad" where it is not whole characters, its name when
 * it has no text. */
json_t *srv_token_text(const retrace_model *m, retrace_token id);
/* Its bytes as a list of numbers. */
json_t *srv_token_bytes(const retrace_model *m, retrace_token id);
/* The text of a prompt: control tokens are spelt out, a BOS put before it is not. */
void srv_prompt_piece(const srv *s, const srv_prompt *prompt, int i, cli_buf *b);
/* A token with its log-probability as a shape writes it; and that of a piece, with the most
 * probable ones beside it as "top_logprobs". */
typedef json_t *srv_entry_fn(const retrace_model *m, retrace_token id, double logp);
json_t *srv_with_top(const srv_answer *a, const srv_piece *p, srv_entry_fn *entry);
/* Most candidates of a place that the request asked for and that are there. */
int srv_top_count(const srv_answer *a, const srv_piece *p);

/* ==== stream.c ==== */

/* The headers, once. */
void srv_stream_begin(srv_answer *a);
/* One chunk; p's operations go with it, and c's JSON is freed. */
void srv_stream_chunk(srv_answer *a, srv_part *p, srv_chunk *c);
/* Behind all choices. */
void srv_stream_end(srv_answer *a);
/* In the middle of it: an error object, and the end. */
void srv_stream_fail(srv_answer *a, const srv_error *e);

#endif
