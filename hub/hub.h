/* hub.h - models by name: the Hugging Face hub and its cache on the disk.
 *
 *     flags, environment      repository -> files      bytes, checked        names on the disk
 *     +---------+             +--------+               +--------+            +---------+
 *     | where   | ----------> | listing| ------------> | fetch  | ---------> | store   |
 *     +---------+             +--------+               +--------+            +---------+
 *                                 | net (libcurl), the only file that knows it |
 *
 * docs/models.md is what these files promise. What the hub says is a stranger's text: the parts
 * that take it apart (listing, pick) do no I/O, have limits, and are fuzzed. Functions return an
 * exit code as everywhere in the program, after the message has been printed. */
#ifndef HUB_H
#define HUB_H

#include "../cli/cli.h"

/* ==== where.c: what flags and environment say ==== */

typedef struct hub_where {
    char *endpoint;         /* without a slash at its end */
    char *token;            /* NULL: none */
    const char *token_from; /* "--hf-token", "HF_TOKEN", ...; for messages */
    char *cache;            /* the folder with models--USER--REPO in it; may not exist yet */
    char *revision;         /* "main" */
    int offline;
    double stall_s, head_s; /* seconds without a byte: of a file, of a question */
} hub_where;

/* CLI_USAGE names an endpoint that is none, or a plain http: one that is not on this machine. */
int hub_where_of(hub_where *w, const cli_flags *f);
void hub_where_free(hub_where *w);

/* "USER/REPO[:QUANT]" taken apart. CLI_USAGE says what it cannot be; spelled opens the message. */
typedef struct hub_name {
    char *repo;  /* "USER/REPO" */
    char *quant; /* NULL: not said */
} hub_name;
int hub_name_parse(hub_name *n, const char *text, const char *spelled);
void hub_name_free(hub_name *n);

/* ==== listing.c: what the hub says of a repository; no I/O ==== */

enum { HUB_SHA256 = 64, HUB_SHA1 = 40 };

typedef struct hub_file {
    char *path;   /* relative, without "..", "\\" or control characters */
    int64_t size; /* bytes */
    char oid[65]; /* lower-case hex: SHA-256 of its bytes, else git's SHA-1 of it as a blob */
    int is_sha256;
} hub_file;

typedef struct hub_listing {
    hub_file *v;
    int n;
} hub_listing;

/* Adds the files of one page of `tree/COMMIT?recursive=true`. CLI_IO names what is wrong with it:
 * not JSON, a path that leads out, a size or an oid that is none, more than 100,000 files. */
int hub_listing_read(hub_listing *l, const char *json, size_t n, const char *repo);
void hub_listing_free(hub_listing *l);
/* The commit (40 hex digits) of a branch, tag or commit in the answer to `refs`; CLI_IO. */
int hub_commit_read(char commit[41], const char *json, size_t n, const char *revision,
                    const char *repo);
/* Names of repositories in the answer to a search, at most `most` of them. A new list of *n. */
typedef struct hub_twin {
    char *repo;
    int64_t downloads;
} hub_twin;
int hub_twins_read(hub_twin **out, int *n, const char *json, size_t size, int most);
void hub_twins_free(hub_twin *v, int n);

/* ==== pick.c: which file is meant; no I/O ==== */

/* Indices into l of the file (all parts of a split one, in order): by `file` when given, else by
 * quant. A new list. 0 files: there is no GGUF model; -1: there are, but not that one. */
int hub_pick(const hub_listing *l, const char *quant, const char *file, int **out);
/* "Q4_K_M, Q8_0": what a person could ask for. Appended. */
void hub_pick_list(const hub_listing *l, cli_buf *b);

/* ==== net.c: questions over HTTP ==== */

typedef struct hub_net hub_net;
int hub_net_open(hub_net **out, const hub_where *w);
void hub_net_close(hub_net *n);
/* GET of endpoint + path: the whole body, at most max bytes, into *body; *status is HTTP's. Follows
 * pages (`Link: rel="next"`) when `each` is given and calls it with every body. CLI_IO: no answer.
 * */
int hub_net_get(hub_net *n, const char *path, size_t max, int *status, cli_buf *body, char **next);

/* One try to get the bytes of a file from `from` on. `take` gets them in order; what it returns
 * ends the transfer when it is not 0. */
typedef struct hub_transfer {
    const char *path;                     /* behind the endpoint */
    int64_t from, size;                   /* Range, when from > 0; what the whole must have */
    const char *etag;                     /* If-Range; NULL: none known */
    int (*begin)(void *ud, int64_t from); /* before the first byte: 0 when a Range was not heeded */
    int (*take)(void *ud, const void *bytes, size_t n);
    void *ud;
    /* set by it */
    int status; /* HTTP's; 0: no answer */
    char new_etag[160];
    double retry_after; /* seconds; < 0: not said */
    int taken;          /* what `take` or `begin` returned */
    char why[256];      /* of a failure, in words */
} hub_transfer;
/* 1: all bytes came; 0: not, see status and why. */
int hub_net_fetch(hub_net *n, hub_transfer *t);

/* ==== fetch.c: one file, whole and checked ==== */

/* Makes blobs/<oid> of the file; *had: it was there already. */
int hub_fetch(hub_net *n, const hub_where *w, const char *repo, const char *commit,
              const hub_file *file, int *had);

/* ==== store.c: the cache ==== */

/* The folder of a repository, appended. */
void hub_store_repo(const hub_where *w, const char *repo, cli_buf *b);
/* Links snapshots/<commit>/<path> to its blob, relatively; a rename, so it is there or not. */
int hub_store_link(const hub_where *w, const char *repo, const char *commit, const hub_file *file);
int hub_store_ref(const hub_where *w, const char *repo, const char *revision, const char *commit);
/* The first file of the model as the cache has it, whole; NULL: it has none. To be freed. */
char *hub_store_find(const hub_where *w, const char *repo, const char *quant, const char *file);

/* ==== pull.c and models.c: the commands, and -hf ==== */

/* hub_model, hub_is_name, cli_pull and cli_models are in cli.h. */

#endif
