/* llama_gguf.c - a look at a model file before libllama sees it; see llama_gguf.h.
 *
 * The file: magic, version, two counts; that many keys with typed values; that many tensors with
 * name, shape, type and offset; padding; the data. All numbers are little-endian. Strings and
 * arrays are stepped over; each length is compared with what is left of the file before it is used,
 * in 64 bits and without a sum that could wrap.
 *
 * A few values are looked at because libllama ends the process over them instead of refusing the
 * file: the number of layers, the epsilons, a sliding window without layers, a token that occurs
 * twice. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include "llama_gguf.h"

#include "base.h"
#include "llama_shim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { U32 = 4, F32 = 6, STRING = 8, ARRAY = 9 }; /* types of values */
enum { SAMPLES = 4, SAMPLE = 256 };               /* of a tensor's data, bytes of one */
enum { BLOCK = 1 << 16, MAX_NAME = 63, MAX_DIMS = 4, MAX_KEY = 65535, MAX_LAYERS = 512 };

/* Where a tensor's data lies, from the beginning of all data. */
typedef struct span {
    uint64_t at, bytes;
} span;

typedef struct reader {
    FILE *f;
    const char *path;
    retrace_error *err;
    uint64_t at, size; /* of the file */
    size_t used, n;    /* of buf */
    char arch[32];     /* "llama", "" before it is known */
    uint64_t alignment;
    uint64_t n_vocab;                  /* tokens in the vocabulary */
    int no_vocab;                      /* the file says that it has none */
    uint64_t parts;                    /* files the model is split into */
    int later;                         /* not the first of them: it has no vocabulary */
    uint64_t n_layers, n_draft_layers; /* UINT64_MAX and 0: not said */
    uint64_t window, window_every;
    uint64_t data; /* where the tensors' data begins */
    span *spans;
    int n_spans, cap_spans;
    unsigned char buf[BLOCK];
} reader;

static int broken(reader *r, const char *what) {
    return retrace_fail(r->err, RETRACE_EMODEL, "'%s' is broken: %s at byte %llu", r->path, what,
                        (unsigned long long)r->at);
}

static int cut_header(reader *r) {
    return retrace_fail(
        r->err, RETRACE_EMODEL,
        "'%s' is truncated or broken: its header does not end within its %llu bytes", r->path,
        (unsigned long long)r->size);
}

/* ==== Reading ==== */

static int take(reader *r, void *out, size_t n) {
    unsigned char *to = out;
    if (n > r->size - r->at) return cut_header(r);
    while (n > 0) {
        if (r->used == r->n) {
            r->n = fread(r->buf, 1, sizeof r->buf, r->f);
            r->used = 0;
            if (r->n == 0) {
                return retrace_fail(r->err, RETRACE_EIO, "cannot read '%s': %s", r->path,
                                    ferror(r->f) ? strerror(errno) : "it became shorter");
            }
        }
        size_t part = r->n - r->used < n ? r->n - r->used : n;
        memcpy(to, r->buf + r->used, part);
        r->used += part;
        r->at += part;
        to += part;
        n -= part;
    }
    return RETRACE_OK;
}

static int skip(reader *r, uint64_t n) {
    if (n > r->size - r->at) return cut_header(r);
    r->at += n;
    if (n <= r->n - r->used) {
        r->used += (size_t)n;
        return RETRACE_OK;
    }
    r->used = r->n = 0;
    if (fseeko(r->f, (off_t)r->at, SEEK_SET) == 0) return RETRACE_OK;
    return retrace_fail(r->err, RETRACE_EIO, "cannot read '%s': %s", r->path, strerror(errno));
}

static int take_number(reader *r, int bytes, uint64_t *out) {
    unsigned char raw[8];
    int rc = take(r, raw, (size_t)bytes);
    *out = 0;
    for (int i = 0; rc == RETRACE_OK && i < bytes; i++) *out |= (uint64_t)raw[i] << (8 * i);
    return rc;
}

/* A string of at most `max` bytes; what does not fit in `room` is left out. */
static int take_string(reader *r, char *out, size_t room, uint64_t max, const char *what) {
    uint64_t n;
    int rc = take_number(r, 8, &n);
    if (rc < 0) return rc;
    if (n > max) return broken(r, what);
    size_t part = n < room ? (size_t)n : room - 1;
    if (n > r->size - r->at) return cut_header(r);
    rc = take(r, out, part);
    out[rc == RETRACE_OK ? part : 0] = '\0';
    return rc == RETRACE_OK ? skip(r, n - part) : rc;
}

/* ==== Keys ==== */

static int type_size(uint64_t type) {
    static const unsigned char sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof sizes ? sizes[type] : 0;
}

static int skip_strings(reader *r, uint64_t n) {
    if (n > (r->size - r->at) / 8) return cut_header(r);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t len = 0;
        int rc = take_number(r, 8, &len);
        if (rc == RETRACE_OK) rc = skip(r, len);
        if (rc < 0) return rc;
    }
    return RETRACE_OK;
}

/* A token's length and bytes as one number; 0 for the empty one, which may occur often. */
static int hash_token(reader *r, uint64_t *out) {
    uint64_t len = 0, h = 0xcbf29ce484222325u;
    unsigned char part[256];
    int rc = take_number(r, 8, &len);
    if (rc == RETRACE_OK && len > r->size - r->at) rc = cut_header(r);
    *out = 0;
    if (rc < 0 || len == 0) return rc;
    while (rc == RETRACE_OK && len > 0) {
        size_t n = len < sizeof part ? (size_t)len : sizeof part;
        rc = take(r, part, n);
        for (size_t i = 0; rc == RETRACE_OK && i < n; i++) h = (h ^ part[i]) * 0x100000001b3u;
        len -= n;
    }
    *out = h | 1;
    return rc;
}

static int by_number(const void *a, const void *b) {
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* The vocabulary: no token may occur twice. */
static int read_tokens(reader *r, uint64_t n) {
    r->n_vocab = n;
    if (n == 0) return RETRACE_OK;
    if (n > (r->size - r->at) / 8) return cut_header(r);
    uint64_t *hashes = retrace_alloc((size_t)n * sizeof *hashes);
    if (!hashes) return retrace_fail(r->err, RETRACE_ENOMEM, "out of memory");
    int rc = RETRACE_OK;
    for (uint64_t i = 0; i < n && rc == RETRACE_OK; i++) rc = hash_token(r, &hashes[i]);
    if (rc == RETRACE_OK) {
        qsort(hashes, (size_t)n, sizeof *hashes, by_number);
        for (uint64_t i = 1; i < n && rc == RETRACE_OK; i++) {
            if (hashes[i] && hashes[i] == hashes[i - 1])
                rc = broken(r, "a token occurs twice, before");
        }
    }
    retrace_free(hashes);
    return rc;
}

static int read_array(reader *r, const char *key) {
    uint64_t type = 0, n = 0;
    int rc = take_number(r, 4, &type);
    if (rc == RETRACE_OK) rc = take_number(r, 8, &n);
    if (rc < 0) return rc;
    if (type == STRING && strcmp(key, "tokenizer.ggml.tokens") == 0) return read_tokens(r, n);
    if (type == STRING) return skip_strings(r, n);
    int size = type_size(type);
    if (size == 0) return broken(r, "an array of unknown type");
    if (n > (r->size - r->at) / (uint64_t)size) return cut_header(r);
    return skip(r, n * (uint64_t)size);
}

static int is_arch_key(const reader *r, const char *key, const char *rest) {
    size_t n = strlen(r->arch);
    return n > 0 && strncmp(key, r->arch, n) == 0 && key[n] == '.' &&
           strcmp(key + n + 1, rest) == 0;
}

static int read_text(reader *r, const char *key) {
    char text[sizeof r->arch];
    int rc = take_string(r, text, sizeof text, r->size, "a string too long");
    if (strcmp(key, "general.architecture") == 0) memcpy(r->arch, text, sizeof text);
    if (strcmp(key, "tokenizer.ggml.model") == 0) {
        r->no_vocab = strcmp(text, "none") == 0 || strcmp(text, "no_vocab") == 0;
    }
    return rc;
}

static int is_negative(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float x;
    memcpy(&x, &low, sizeof x);
    return !(x >= 0);
}

static int read_value(reader *r, const char *key, uint64_t type) {
    uint64_t x = 0;
    if (type == ARRAY) return read_array(r, key);
    if (type == STRING) return read_text(r, key);
    int size = type_size(type);
    if (size == 0) return broken(r, "a value of unknown type");
    int rc = take_number(r, size, &x);
    if (rc < 0) return rc;
    if (strcmp(key, "general.alignment") == 0) r->alignment = type == U32 ? x : 0;
    if (strcmp(key, "split.count") == 0) r->parts = x;
    if (is_arch_key(r, key, "block_count")) r->n_layers = x;
    if (is_arch_key(r, key, "nextn_predict_layers")) r->n_draft_layers = x;
    if (is_arch_key(r, key, "attention.sliding_window")) r->window = x;
    if (is_arch_key(r, key, "attention.sliding_window_pattern")) r->window_every = x;
    if (type == F32 && strstr(key, "_epsilon") && is_negative(x)) return broken(r, "a bad epsilon");
    return RETRACE_OK;
}

static int check_values(reader *r) {
    if (r->alignment == 0 || (r->alignment & (r->alignment - 1)) || r->alignment > BLOCK) {
        return broken(r, "an alignment that is no power of two");
    }
    if (r->n_layers != UINT64_MAX && (r->n_layers == 0 || r->n_layers > MAX_LAYERS)) {
        return retrace_fail(r->err, RETRACE_EMODEL, "'%s' has %llu layers; 1 to %d are possible",
                            r->path, (unsigned long long)r->n_layers, MAX_LAYERS);
    }
    if (r->n_draft_layers > r->n_layers) return broken(r, "more draft layers than layers");
    if (r->window > 0 && r->window_every == 1) return broken(r, "a sliding window without layers");
    return RETRACE_OK;
}

static int read_keys(reader *r, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        char key[64];
        uint64_t type = 0;
        int rc = take_string(r, key, sizeof key, MAX_KEY, "a key too long");
        if (rc == RETRACE_OK && key[0] == '\0') rc = broken(r, "an empty key");
        if (rc == RETRACE_OK) rc = take_number(r, 4, &type);
        if (rc == RETRACE_OK) rc = read_value(r, key, type);
        if (rc < 0) return rc;
    }
    return check_values(r);
}

/* ==== Tensors ==== */

/* Reads one tensor's entry; *bytes is what its data takes. */
static int read_tensor(reader *r, uint64_t *offset, uint64_t *bytes) {
    char name[MAX_NAME + 1];
    uint64_t n_dims = 0, dim = 0, type = 0, block, block_bytes, n = 1, row = 1;
    int rc = take_string(r, name, sizeof name, MAX_NAME, "a tensor's name too long");
    if (rc == RETRACE_OK) rc = take_number(r, 4, &n_dims);
    if (rc == RETRACE_OK && n_dims > MAX_DIMS) rc = broken(r, "a tensor of too many dimensions");
    for (uint64_t i = 0; rc == RETRACE_OK && i < n_dims; i++) {
        rc = take_number(r, 8, &dim);
        if (rc < 0) break;
        if (i == 0) row = dim;
        if (dim > INT64_MAX || (dim > 0 && n > INT64_MAX / dim))
            rc = broken(r, "a tensor too large");
        n *= dim;
    }
    if (rc == RETRACE_OK) rc = take_number(r, 4, &type);
    if (rc == RETRACE_OK) rc = take_number(r, 8, offset);
    if (rc < 0) return rc;
    if (type > UINT32_MAX || !rt_llama_type((uint32_t)type, &block, &block_bytes) || row % block) {
        return retrace_fail(r->err, RETRACE_EMODEL,
                            "'%s' is broken: tensor '%s' has an unknown type (%llu)", r->path, name,
                            (unsigned long long)type);
    }
    if (n / block > UINT64_MAX / 4 / block_bytes) return broken(r, "a tensor too large");
    *bytes = n / block * block_bytes;
    return RETRACE_OK;
}

static int read_tensors(reader *r, uint64_t n) {
    uint64_t end = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t offset = 0, bytes = 0;
        int rc = read_tensor(r, &offset, &bytes);
        if (rc < 0) return rc;
        if (offset > UINT64_MAX / 4) return broken(r, "a tensor's offset too large");
        if (rt_grow(&r->spans, &r->cap_spans, r->n_spans + 1, sizeof *r->spans) < 0)
            return rt_nomem(r->err);
        r->spans[r->n_spans++] = (span){offset, bytes};
        if (offset + bytes > end) end = offset + bytes;
    }
    uint64_t data = (r->at + r->alignment - 1) / r->alignment * r->alignment;
    if (end > UINT64_MAX / 2) return broken(r, "tensors too large");
    r->data = data < r->size ? data : r->size;
    if (data + end <= r->size) return RETRACE_OK;
    return retrace_fail(r->err, RETRACE_EMODEL,
                        "'%s' is truncated: tensor data ends at byte %llu, the file has %llu",
                        r->path, (unsigned long long)(data + end), (unsigned long long)r->size);
}

/* ==== The hash ==== */

static int hash_bytes(reader *r, uint64_t at, uint64_t n, uint64_t *h) {
    char block[4096];
    int ok = fseeko(r->f, (off_t)at, SEEK_SET) == 0;
    while (ok && n > 0) {
        size_t part = n < sizeof block ? (size_t)n : sizeof block;
        ok = fread(block, 1, part, r->f) == part;
        if (ok) *h = rt_digest(*h, block, part);
        n -= part;
    }
    if (ok) return RETRACE_OK;
    return retrace_fail(r->err, RETRACE_EIO, "cannot read '%s': %s", r->path,
                        ferror(r->f) ? strerror(errno) : "it became shorter");
}

/* The header whole; of each tensor its beginning, its end and two places
 * between. */
static int hash_file(reader *r, uint64_t *hash) {
    uint64_t h = rt_digest(r->size, "", 0);
    int rc = hash_bytes(r, 0, r->data, &h);
    for (int i = 0; i < r->n_spans && rc == RETRACE_OK; i++) {
        uint64_t n = r->spans[i].bytes < SAMPLE ? r->spans[i].bytes : SAMPLE;
        for (uint64_t k = 0; k < SAMPLES && rc == RETRACE_OK; k++) {
            uint64_t last = r->spans[i].bytes - n;
            uint64_t at = k == SAMPLES - 1 ? last : last / (SAMPLES - 1) * k;
            rc = hash_bytes(r, r->data + r->spans[i].at + at, n, &h);
        }
    }
    *hash = h;
    return rc;
}

/* ==== The file ==== */

static int read_start(reader *r, uint64_t *n_tensors, uint64_t *n_keys) {
    char magic[4] = {0};
    uint64_t version = 0;
    if (r->size >= 4 && take(r, magic, 4) < 0) return RETRACE_EIO;
    if (memcmp(magic, "GGUF", 4) != 0) {
        return retrace_fail(r->err, RETRACE_EMODEL, "'%s' is not a GGUF file", r->path);
    }
    int rc = take_number(r, 4, &version);
    if (rc < 0) return rc;
    if (version != 2 && version != 3) {
        const char *hint = version && (version & 0xffff) == 0 ? ", or of the other byte order" : "";
        return retrace_fail(r->err, RETRACE_EMODEL,
                            "'%s' is of GGUF version %llu%s; 2 and 3 are known", r->path,
                            (unsigned long long)version, hint);
    }
    rc = take_number(r, 8, n_tensors);
    if (rc == RETRACE_OK) rc = take_number(r, 8, n_keys);
    if (rc < 0) return rc;
    if (*n_keys > r->size / 13 || *n_tensors > r->size / 24) return cut_header(r);
    return RETRACE_OK;
}

static int check(reader *r) {
    uint64_t n_tensors = 0, n_keys = 0;
    int rc = read_start(r, &n_tensors, &n_keys);
    if (rc == RETRACE_OK) rc = read_keys(r, n_keys);
    if (rc == RETRACE_OK) rc = read_tensors(r, n_tensors);
    if (rc < 0 || r->later) return rc;
    if (r->n_vocab == 0 || r->no_vocab) {
        return retrace_fail(r->err, RETRACE_EMODEL, "'%s' has no vocabulary", r->path);
    }
    if (r->n_vocab > INT32_MAX) return broken(r, "a vocabulary too large");
    if (n_tensors == 0 && r->parts < 2) {
        return retrace_fail(r->err, RETRACE_EMODEL, "'%s' has a vocabulary but no weights",
                            r->path);
    }
    return RETRACE_OK;
}

static int check_file(const char *path, int later, uint64_t *hash, uint64_t *parts,
                      retrace_error *err) {
    struct stat st;
    reader *r = retrace_calloc(1, sizeof *r);
    if (!r) return retrace_fail(err, RETRACE_ENOMEM, "out of memory");
    r->path = path;
    r->err = err;
    r->alignment = 32;
    r->later = later;
    r->n_layers = UINT64_MAX;
    int rc = RETRACE_EIO;
    if (stat(path, &st) != 0) {
        retrace_fail(err, rc, "cannot read '%s': %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        retrace_fail(err, rc, "'%s' is %s", path,
                     S_ISDIR(st.st_mode) ? "a directory" : "no plain file");
    } else if (!(r->f = fopen(path, "rb"))) {
        retrace_fail(err, rc, "cannot read '%s': %s", path, strerror(errno));
    } else {
        r->size = (uint64_t)st.st_size;
        rc = check(r);
        if (rc == RETRACE_OK && hash) rc = hash_file(r, hash);
        fclose(r->f);
    }
    *parts = r->parts;
    retrace_free(r->spans);
    retrace_free(r);
    return rc;
}

/* The other files of a split model, whose names libllama makes of the first one's in this way. One
 * that is not named so is refused there. */
static int check_later(const char *path, uint64_t parts, retrace_error *err) {
    char end[32], number[8];
    size_t n = strlen(path);
    if (parts > 99999) return RETRACE_OK;
    size_t m = (size_t)snprintf(end, sizeof end, "-00001-of-%05d.gguf", (int)parts);
    if (n < m || strcmp(path + n - m, end) != 0) return RETRACE_OK;
    char *name = retrace_alloc(n + 1);
    int rc = name ? RETRACE_OK : retrace_fail(err, RETRACE_ENOMEM, "out of memory");
    if (name) memcpy(name, path, n + 1);
    for (int i = 2; rc == RETRACE_OK && i <= (int)parts; i++) {
        uint64_t unused;
        snprintf(number, sizeof number, "%05d", i);
        memcpy(name + n - m + 1, number, 5);
        rc = check_file(name, 1, NULL, &unused, err);
    }
    retrace_free(name);
    return rc;
}

int rt_gguf_check(const char *path, uint64_t *hash, retrace_error *err) {
    uint64_t parts = 0;
    int rc = check_file(path, 0, hash, &parts, err);
    return rc < 0 || parts < 2 ? rc : check_later(path, parts, err);
}
