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

#include <stdint.h>

/* ==== where.c: what flags and environment say ==== */

typedef struct hub_where {
    char *endpoint;       /* without a slash at its end */
    char *token;          /* NULL: none */
    char token_from[512]; /* "--hf-token", "HF_TOKEN", ...; for messages */
    char *cache;          /* the folder with models--USER--REPO in it; may not exist yet */
    char *revision;       /* "main" */
    int offline;
    double stall_s, head_s; /* seconds without a byte: of a file, of a question */
} hub_where;

/* CLI_USAGE names an endpoint that is none, or a plain http: one that is not on this machine. Of
 * `models` only the cache. */
int hub_where_of(hub_where *w, const cli_flags *f);
void hub_where_free(hub_where *w);
/* An http: address of this machine? */
int hub_is_local(const char *url);

/* "USER/REPO[:QUANT]" taken apart. CLI_USAGE says what it cannot be; spelled opens the message. */
typedef struct hub_name {
    char *repo;  /* "USER/REPO" */
    char *quant; /* NULL: not said */
} hub_name;
int hub_name_parse(hub_name *n, const char *text, const char *spelled);
void hub_name_free(hub_name *n);
/* Could this be USER/REPO; a branch, tag or commit? */
int hub_is_repo(const char *s);
int hub_is_revision(const char *s);

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
    int n, cap;
} hub_listing;

/* Adds the files of one page of `tree/COMMIT?recursive=true`. CLI_IO names what is wrong with it:
 * not JSON, a path that leads out, a size or an oid that is none, more than 100,000 files. */
int hub_listing_read(hub_listing *l, const char *json, size_t n, const char *repo);
/* A new entry, zeroed. */
hub_file *hub_listing_add(hub_listing *l);
void hub_listing_free(hub_listing *l);
/* A path of a file in a repository that cannot lead out of it; a commit of 40 hex digits. */
int hub_is_path(const char *s);
int hub_is_commit(const char *s);
/* The commit of a branch or tag in the answer to `refs`; CLI_IO. */
int hub_commit_read(char commit[41], const char *json, size_t n, const char *revision,
                    const char *repo);
/* Repositories in the answer to a search, at most `most` of them. A new list of *n. */
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
/* The part that a split model lacks, appended; 0: every one is whole. */
int hub_pick_lacking(const hub_listing *l, cli_buf *b);
/* "Q4_K_M, Q8_0": what a person could ask for. Appended. */
void hub_pick_list(const hub_listing *l, cli_buf *b);
/* The quant in a model's name, appended; 0: it shows none, or is no model. */
int hub_quant_of(const char *path, cli_buf *b);
/* The path without its ending and the number of its part, appended. */
void hub_stem_of(const char *path, cli_buf *b);
/* Every model of a list, by name: indices of the parts that are there, `of` of them in all. */
typedef struct hub_model_parts {
    int *at, n, of;
} hub_model_parts;
hub_model_parts *hub_models_of(const hub_listing *l, int *n);
void hub_models_free(hub_model_parts *v, int n);

/* ==== net.c: one try of a question or of a file over HTTP ==== */

typedef enum hub_verdict {
    HUB_DONE,
    HUB_AGAIN,   /* another try may do: a connection that broke, a status 408, 429 or 5xx */
    HUB_ANEW,    /* another try, from the first byte: the Range was not understood */
    HUB_REFUSED, /* another status */
    HUB_WRONG,   /* what no further try mends */
    HUB_STOPPED  /* by Ctrl-C, or by `begin` or `take` */
} hub_verdict;

typedef struct hub_net hub_net;
int hub_net_open(hub_net **out, const hub_where *w); /* w must stay */
void hub_net_close(hub_net *n);                      /* accepts NULL */

typedef struct hub_question {
    const char *path; /* behind the endpoint */
    size_t max;       /* bytes of the answer */
    /* set by it */
    int status;         /* HTTP's; 0: no answer */
    cli_buf body;       /* to be freed */
    char *next;         /* path of the next page, to be freed; NULL: none */
    double retry_after; /* seconds; < 0: not said */
    char why[256];      /* of a failure, in words */
} hub_question;
hub_verdict hub_net_ask(hub_net *n, hub_question *q);

/* The bytes of a file from `from` on, given in order. begin and take return 0 to end it. */
typedef struct hub_transfer {
    const char *path;
    int64_t from, size;                   /* Range, when from > 0; what the whole must have */
    const char *etag;                     /* for If-Range, when from > 0 */
    int (*begin)(void *ud, int64_t from); /* before the first byte: 0 when a Range was not heeded */
    int (*take)(void *ud, const void *bytes, size_t n);
    void (*tick)(void *ud); /* now and then; may be NULL */
    void *ud;
    /* set by it */
    int64_t at; /* how far it came */
    int status;
    char new_etag[160]; /* "": none */
    double retry_after;
    char why[256];
} hub_transfer;
hub_verdict hub_net_fetch(hub_net *n, hub_transfer *t);

/* ==== ask.c: questions until they are answered ==== */

/* Waits before try number `tries` + 1; 0: there is no further one, or Ctrl-C ended the wait. */
int hub_wait(int tries, double retry_after, const char *why);
/* GET of endpoint + path; the pages that follow go to `page` too. what: "repository", what a status
 * 404 means that there is not. The exit code after the message. */
typedef int hub_page(void *ud, const char *body, size_t n);
int hub_ask(hub_net *n, const hub_where *w, const char *repo, const char *path, const char *what,
            hub_page *page, void *ud);
/* The message of a status that is no success. */
int hub_refused(const hub_where *w, const char *repo, int status, const char *what);

/* ==== hash.c: what a file's oid says ==== */

typedef struct hub_hash hub_hash;
hub_hash *hub_hash_new(const hub_file *file); /* file must stay */
void hub_hash_begin(hub_hash *h);             /* anew */
void hub_hash_add(hub_hash *h, const void *bytes, size_t n);
int hub_hash_right(hub_hash *h);               /* of all that was added */
void hub_hash_hex(hub_hash *h, char hex[129]); /* of all that was added; "": it failed */
void hub_hash_free(hub_hash *h);               /* accepts NULL */
/* The SHA-256 of a file on the disk; CLI_IO. */
int hub_sha256(const char *path, char hex[129]);
/* *right: is the file what its oid says? CLI_IO when it cannot be read. */
int hub_verify(const char *path, const hub_file *file, int *right);

/* ==== part.c: a file that grows, and its hash ==== */

typedef struct hub_part hub_part;
/* Takes the file up where it stands. CLI_IO. */
int hub_part_open(hub_part **out, const char *path, const hub_file *file);
int64_t hub_part_size(const hub_part *p);
/* 0 when the disk refuses; hub_part_fail tells. Pieces may wait until a block is full. */
int hub_part_put(hub_part *p, const void *bytes, size_t n);
/* Writes what waits; a failure shows at the next put. */
void hub_part_settle(hub_part *p);
int hub_part_anew(hub_part *p); /* back to 0 bytes */
int hub_part_fail(const hub_part *p);
/* Of all bytes. 1: it is what the file's oid says; 0: it is not; -1: it cannot be read back. */
int hub_part_check(hub_part *p);
int hub_part_sync(hub_part *p);   /* to the disk; CLI_IO */
void hub_part_close(hub_part *p); /* accepts NULL */

/* ==== bar.c: how far it is ==== */

typedef struct hub_bar {
    const char *verb, *name;
    int64_t from, size, at;
    double began, drawn;
    int tenth;
} hub_bar;
void hub_bar_begin(hub_bar *b, const char *verb, const char *name, int64_t from, int64_t size);
void hub_bar_at(hub_bar *b, int64_t at);
void hub_bar_end(hub_bar *b);
/* "4.2 GB", appended. */
void hub_bytes(cli_buf *b, int64_t n);

/* ==== lock.c: one program at a time ==== */

typedef struct hub_lock {
    int fd; /* -1: the file system has no locks */
} hub_lock;
/* Waits for .locks/models--USER--REPO/<oid>.lock, and says so. */
int hub_lock_take(hub_lock *l, const hub_where *w, const char *repo, const hub_file *file);
void hub_lock_leave(hub_lock *l);
/* .locks/models--USER--REPO/<oid>.ending, appended. */
void hub_lock_name(const hub_where *w, const char *repo, const hub_file *file, const char *ending,
                   cli_buf *b);

/* ==== fetch.c: one file, whole and checked ==== */

/* Makes blobs/<oid> of the file; *had: it was there already. verify: what is there is hashed. */
int hub_fetch(hub_net *n, const hub_where *w, const char *repo, const char *commit,
              const hub_file *file, int verify, int *had);

/* ==== store.c: the cache ==== */

/* The folder of a repository, appended. */
void hub_store_repo(const hub_where *w, const char *repo, cli_buf *b);
/* Makes the folders of a path that ends in "/", each of them on the disk before it is used. */
int hub_store_folders(const char *path);
int hub_store_sync(const char *folder); /* what was renamed in it; errno's value or 0 */
/* snapshots/<commit>/<path>, appended. */
void hub_store_file(const hub_where *w, const char *repo, const char *commit, const char *path,
                    cli_buf *b);
/* Links snapshots/<commit>/<path> to its blob, relatively; a rename, so it is there or not. */
int hub_store_link(const hub_where *w, const char *repo, const char *commit, const hub_file *file);
int hub_store_ref(const hub_where *w, const char *repo, const char *revision, const char *commit);
/* The commit that refs/<revision> (or the revision itself) names; 0: none. */
int hub_store_commit(const hub_where *w, const char *repo, const char *revision, char commit[41]);
/* The files of a snapshot with their sizes and, where they are links, the oid. */
void hub_store_list(const hub_where *w, const char *repo, const char *commit, hub_listing *l);
/* The first file of the model as the cache has it, whole; NULL: it has none. To be freed. */
char *hub_store_find(const hub_where *w, const char *repo, const char *quant, const char *file);

/* ==== twins.c: a repository without GGUF files ==== */

/* What to do instead: exit 4 after the message, or CLI_OK with the repository that a person has
 * chosen at the terminal, to be freed. */
int hub_twins(hub_net *n, const char *repo, char **chosen);

/* ==== pull.c and models.c: the commands, and -hf ==== */

/* hub_model, hub_is_name, cli_pull and cli_models are in cli.h. */

#endif
