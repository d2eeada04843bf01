/* pick.c - which file of a repository is the model that is meant.
 *
 * A model is a .gguf file, or all parts of one that was split (-00001-of-00003.gguf); projectors,
 * importance matrices and draft models are none. A split model counts only when the list has every
 * part of it, so that of a cache nothing half-fetched is picked. No I/O. */
#include "hub.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int is_edge(char c) {
    return c == '\0' || c == '-' || c == '.' || c == '/';
}

/* Where `what` stands in s, in capitals or not; exact: only between edges. NULL: nowhere. */
static const char *spot(const char *s, const char *what, int exact) {
    size_t n = strlen(what);
    for (const char *at = s; *at; at++) {
        if (strncasecmp(at, what, n) != 0) continue;
        if (!exact || ((at == s || is_edge(at[-1])) && is_edge(at[n]))) return at;
    }
    return NULL;
}

/* ==== Parts ==== */

enum { SPLIT_TAIL = 20 /* "-00001-of-00003.gguf" */ };

typedef struct split {
    int part, of; /* 1, 1 when it is not split */
    size_t stem;  /* bytes of the path before "-00001-of-..." or ".gguf" */
} split;

static int five_digits(const char *s) {
    int n = 0;
    for (int i = 0; i < 5; i++) {
        if (!isdigit((unsigned char)s[i])) return 0;
        n = n * 10 + (s[i] - '0');
    }
    return n;
}

/* 0: no .gguf file. */
static int split_of(const char *path, split *s) {
    size_t n = strlen(path);
    if (n < 6 || strcasecmp(path + n - 5, ".gguf") != 0) return 0;
    *s = (split){1, 1, n - 5};
    const char *tail = n > SPLIT_TAIL ? path + n - SPLIT_TAIL : "";
    if (tail[0] != '-' || strncmp(tail + 6, "-of-", 4) != 0) return 1;
    int part = five_digits(tail + 1), of = five_digits(tail + 10);
    if (part > 0 && of > 0 && part <= of) *s = (split){part, of, n - SPLIT_TAIL};
    return 1;
}

static int is_model(const char *path, split *s) {
    static const char *const never[] = {"mmproj", "imatrix"};
    static const char *const drafts[] = {"mtp-", "eagle3-", "dflash-"};
    const char *base = base_of(path);
    if (!split_of(path, s)) return 0;
    for (int i = 0; i < 2; i++)
        if (spot(base, never[i], 0)) return 0;
    for (int i = 0; i < 3; i++) {
        const char *at = spot(base, drafts[i], 0);
        if (at && (at == base || is_edge(at[-1]))) return 0;
    }
    return 1;
}

/* ==== The list by name ==== */

typedef struct named {
    const char *path;
    int at; /* index into the listing */
} named;

typedef struct sorted {
    named *v;
    int n;
} sorted;

static int by_path(const void *a, const void *b) {
    return strcmp(((const named *)a)->path, ((const named *)b)->path);
}

static sorted sort(const hub_listing *l) {
    sorted s = {cli_alloc((size_t)l->n * sizeof *s.v), l->n};
    for (int i = 0; i < l->n; i++) s.v[i] = (named){l->v[i].path, i};
    qsort(s.v, (size_t)s.n, sizeof *s.v, by_path);
    return s;
}

static int index_of(const sorted *s, const char *path) {
    named key = {path, 0};
    const named *found = bsearch(&key, s->v, (size_t)s->n, sizeof key, by_path);
    return found ? found->at : -1;
}

/* The name of part number k of the model that a path is a part of. */
static void put_part(cli_buf *b, const char *path, const split *p, int k) {
    if (p->of == 1)
        cli_puts(b, path);
    else
        cli_printf(b, "%.*s-%05d-of-%05d%s", (int)p->stem, path, k, p->of, path + strlen(path) - 5);
}

/* Indices of all parts into *out; 0: some are missing. */
static int parts_of(const sorted *s, const char *path, int **out) {
    split p = {1, 1, 0};
    split_of(path, &p);
    *out = NULL;
    if (p.of > s->n) return 0;
    int *v = cli_alloc((size_t)p.of * sizeof *v);
    for (int i = 0; i < p.of; i++) {
        cli_buf name = {0};
        put_part(&name, path, &p, i + 1);
        v[i] = index_of(s, name.s);
        cli_buf_free(&name);
        if (v[i] < 0) return free(v), 0;
    }
    return *out = v, p.of;
}

/* ==== Choosing ==== */

/* Does the file's name have that quant? 2: exactly; 1: it contains it. */
static int has_quant(const char *path, const char *quant) {
    split s;
    if (!is_model(path, &s)) return 0;
    char *stem = cli_copy(path, s.stem);
    int fits = spot(stem, quant, 1) ? 2 : spot(stem, quant, 0) ? 1 : 0;
    free(stem);
    return fits;
}

/* The first whole model by name that has the quant as well as `fits` says; quant NULL: any. */
static int first(const sorted *s, const char *quant, int fits, int **out) {
    for (int i = 0; i < s->n; i++) {
        split p;
        if (!is_model(s->v[i].path, &p) || p.part != 1) continue;
        if (quant && has_quant(s->v[i].path, quant) != fits) continue;
        int n = parts_of(s, s->v[i].path, out);
        if (n) return n;
    }
    return 0;
}

static int by_quant(const sorted *s, const char *quant, int **out) {
    int n = first(s, quant, 2, out);
    return n ? n : first(s, quant, 1, out);
}

static int by_file(const sorted *s, const char *file, int **out) {
    int n = index_of(s, file) >= 0 ? parts_of(s, file, out) : 0;
    return n ? n : -1;
}

int hub_pick(const hub_listing *l, const char *quant, const char *file, int **out) {
    sorted s = sort(l);
    int n = 0, models = 0;
    split p;
    *out = NULL;
    if (file) {
        n = by_file(&s, file, out);
    } else if (quant) {
        n = by_quant(&s, quant, out);
    } else {
        n = by_quant(&s, "Q4_K_M", out);
        if (!n) n = by_quant(&s, "Q8_0", out);
        if (!n) n = first(&s, NULL, 0, out);
    }
    for (int i = 0; i < l->n && !n; i++) models += is_model(l->v[i].path, &p);
    free(s.v);
    return n ? n : models ? -1 : 0;
}

int hub_pick_lacking(const hub_listing *l, cli_buf *b) {
    sorted s = sort(l);
    int found = 0;
    for (int i = 0; i < s.n && !found; i++) {
        split p;
        if (!is_model(s.v[i].path, &p) || p.of == 1) continue;
        for (int k = 1; k <= p.of && !found; k++) {
            cli_buf name = {0};
            put_part(&name, s.v[i].path, &p, k);
            found = index_of(&s, name.s) < 0;
            if (found) cli_puts(b, name.s);
            cli_buf_free(&name);
        }
        i += found ? 0 : p.of - p.part; /* what follows are its other parts */
    }
    free(s.v);
    return found;
}

/* ==== What there is ==== */

/* Q4_K_M, IQ2_XS, TQ1_0, F16, BF16, MXFP4, ... */
static int looks_like_quant(const char *s, size_t n) {
    static const char *const starts[] = {"q", "iq", "tq", "f", "bf", "fp", "mxfp", "nvfp"};
    for (int i = 0; i < 8; i++) {
        size_t m = strlen(starts[i]);
        if (n > m && strncasecmp(s, starts[i], m) == 0 && isdigit((unsigned char)s[m])) return 1;
    }
    return 0;
}

int hub_quant_of(const char *path, cli_buf *b) {
    split s;
    if (!is_model(path, &s)) return 0;
    const char *base = base_of(path), *end = path + s.stem, *found = NULL;
    size_t len = 0;
    for (const char *at = base; at < end;) {
        size_t n = strcspn(at, "-.");
        if (n > (size_t)(end - at)) n = (size_t)(end - at);
        if (looks_like_quant(at, n)) {
            found = at;
            len = n;
        }
        at += n + 1;
    }
    if (found) cli_put(b, found, len);
    return found != NULL;
}

static int listed(const cli_buf *b, const char *name) {
    size_t n = strlen(name);
    for (const char *at = b->s; at && (at = strstr(at, name)); at++)
        if ((at == b->s || at[-1] == ' ') && (!at[n] || at[n] == ',')) return 1;
    return 0;
}

void hub_pick_list(const hub_listing *l, cli_buf *b) {
    enum { LISTED_MOST = 1500 };
    sorted s = sort(l);
    cli_buf all = {0};
    for (int i = 0; i < s.n && all.n < LISTED_MOST; i++) {
        split p;
        cli_buf name = {0};
        if (!is_model(s.v[i].path, &p) || p.part != 1) continue;
        if (!hub_quant_of(s.v[i].path, &name)) cli_puts(&name, base_of(s.v[i].path));
        if (!listed(&all, name.s)) cli_printf(&all, "%s%s", all.n ? ", " : "", name.s);
        cli_buf_free(&name);
    }
    if (all.n) cli_puts(b, all.s);
    cli_buf_free(&all);
    free(s.v);
}

void hub_stem_of(const char *path, cli_buf *b) {
    split s;
    cli_put(b, path, split_of(path, &s) ? s.stem : strlen(path));
}

static int same_model(const char *a, const split *x, const char *b, const split *y) {
    return x->of == y->of && x->stem == y->stem && memcmp(a, b, x->stem) == 0;
}

/* The entry of the model that a part belongs to: the last ones, as parts stand together. */
static hub_model_parts *belongs(hub_model_parts *v, int n, const hub_listing *l, const char *path,
                                const split *s) {
    for (int i = n - 1; i >= 0 && i > n - 8 && s->of > 1; i--) {
        const char *other = l->v[v[i].at[0]].path;
        split t;
        if (split_of(other, &t) && same_model(path, s, other, &t)) return &v[i];
    }
    return NULL;
}

hub_model_parts *hub_models_of(const hub_listing *l, int *n) {
    sorted s = sort(l);
    hub_model_parts *v = cli_alloc((size_t)l->n * sizeof *v);
    *n = 0;
    for (int i = 0; i < s.n; i++) {
        split p;
        if (!is_model(s.v[i].path, &p)) continue;
        hub_model_parts *m = belongs(v, *n, l, s.v[i].path, &p);
        if (!m) {
            m = &v[(*n)++];
            m->of = p.of;
        }
        m->at = cli_realloc(m->at, (size_t)(m->n + 1) * sizeof *m->at);
        m->at[m->n++] = s.v[i].at;
    }
    free(s.v);
    return v;
}

void hub_models_free(hub_model_parts *v, int n) {
    for (int i = 0; i < n; i++) free(v[i].at);
    free(v);
}
