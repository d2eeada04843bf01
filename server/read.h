/* read.h - what the files that take a request apart share.
 *
 * A reading collects what one body says. The readers below each look at some fields, put what they
 * find into the request and return 0, or -1 with the reading's error set. They run in prep. */
#ifndef SERVER_READ_H
#define SERVER_READ_H

#include "server.h"

/* Limits of one request. Each is named in the error and in docs/http.md. */
enum {
    SRV_MAX_DEPTH = 64,       /* levels of JSON */
    SRV_MAX_VALUES = 1000000, /* values of JSON */
    SRV_MAX_CHOICES = 16,     /* n */
    SRV_MAX_PROMPTS = 16,
    SRV_MAX_SEQUENCES = 64, /* n times prompts */
    SRV_MAX_STOPS = 64,
    SRV_MAX_STOP = 256,  /* bytes of one */
    SRV_MAX_BIAS = 1024, /* entries of logit_bias */
    SRV_MAX_TOP = 20,    /* log-probabilities beside the chosen one */
    SRV_MAX_MESSAGES = 4096,
    SRV_MAX_PHRASES = 10000,
    SRV_MAX_PHRASE = 4096,          /* bytes of one */
    SRV_MAX_PHRASE_BYTES = 1 << 20, /* of all */
    SRV_MAX_PATTERNS = 64,
    SRV_MAX_PATTERN = 1024, /* bytes of one */
    SRV_MAX_TOKEN_BANS = 10000,
    SRV_MAX_LISTS = 64,
    SRV_MAX_LIST_BYTES = 1 << 25, /* of all lists that a request names */
    SRV_MAX_RULES = 64,
    SRV_MAX_GRAMMAR = 1 << 16 /* bytes of a grammar or schema */
};

typedef struct srv_reading {
    srv *s;
    json_t *body;
    srv_request *q;
    srv_error *e;
    retrace_bias *bias; /* as it comes; the same token may come again */
    int n_bias, cap_bias;
    int n_phrases, n_patterns, n_lists;
    size_t phrase_bytes, list_bytes;
    char constraint[96]; /* the field that gave the constraint; empty: none did */
} srv_reading;

/* ==== field.c ==== */

/* The row of a field, by its name; it must exist. */
const srv_field *srv_field_of(const srv_field *table, const char *name);
/* The value, null counting as absent, and *used: the name that the client gave it (the body's). */
json_t *srv_find(json_t *body, const srv_field *table, const char *name, const char **used);
/* What stands there, for a message: a short value itself, else "a list", ... */
const char *srv_shown(json_t *value, char out[64]);
/* 400: wants is "a whole number", ... */
int srv_wrong(srv_error *e, const char *param, json_t *value, const char *wants);
/* "" or [] or {}: what clients send for "none". */
int srv_is_off(const json_t *value);
/* The bytes of a JSON string. */
retrace_text srv_text_of(const json_t *string);

/* ==== json.c ==== */

/* The same for any text that holds JSON; about opens the message. Any value, not only an object. */
json_t *srv_json_text(retrace_text text, const char *about, const char *param, srv_error *e);

/* ==== settings.c: options, stop texts, seed ==== */

int srv_read_settings(srv_reading *r);
/* Whether `serve` was started with this flag. */
int srv_was_given(const srv *s, const char *flag);
/* Writes options, stops and bias into q->start, once all is read. */
void srv_write_start(srv_reading *r);

/* ==== rules.c ==== */

/* Adds a rule, {"name", settings...}, and compiles it. Takes `rule`. 0 or what the library says. */
int srv_rule_add(srv_reading *r, json_t *rule, retrace_error *err);
/* Counts phrases and patterns against the limits of a request; text is one of them. */
int srv_count_phrase(srv_reading *r, retrace_text text, const char *param);
int srv_count_pattern(srv_reading *r, retrace_text text, const char *param);
/* A ban list's text by its name, a new reference, or NULL with 400 that names those there are. */
json_t *srv_list_named(srv_reading *r, const char *name, const char *param);
/* `rules` and the dry_* fields. */
int srv_read_rules(srv_reading *r);

/* ==== constraint.c: grammar, json_schema, response_format ==== */

int srv_read_constraint(srv_reading *r);
/* Notes that a field constrains the answer; -1 when another one did. */
int srv_constrained(srv_reading *r, const char *param);

/* ==== bias.c: logit_bias and banned tokens ==== */

void srv_bias_add(srv_reading *r, retrace_token id, double x);
/* -1 with 400 when the model has no such token. */
int srv_check_token(const srv *s, json_t *id, const char *param, srv_error *e);
int srv_read_bias(srv_reading *r);
/* Sorts and joins what was added into q->bias. */
void srv_join_bias(srv_reading *r);

/* ==== bans.c ==== */

int srv_read_bans(srv_reading *r);

/* ==== prompt.c, chat.c ==== */

/* prompt of /v1/completions; of /completion, where a list may mix texts and ids. */
int srv_read_prompts(srv_reading *r, int mixed);
/* messages, with the answer's beginning where the last of them is the assistant's. */
int srv_read_messages(srv_reading *r);
/* The tokens of `messages` alone, freed with free; also for /tokenize and /apply-template. */
int srv_chat_tokens(srv *s, json_t *body, retrace_token **out, int *n, srv_error *e);
/* Appends a copy as a prompt of q, after the check of its length. */
int srv_add_prompt(srv_reading *r, const retrace_token *tokens, int n, const char *param);
/* A text is so long that it cannot fit, whatever its tokens: 400. */
int srv_check_length(const srv *s, size_t bytes, const char *param, srv_error *e);

#endif
