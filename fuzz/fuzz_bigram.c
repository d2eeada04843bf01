/* fuzz_bigram.c - a table file as a stranger might write it.
 *
 * The first byte of the input says which checksums are set right before the rest is read as a file:
 * '0' none, '1' the header's, '2' the sections' too, so that what stands behind them is reached.
 * Whatever it is: an error that says something, or a chain that answers. */
#define _GNU_SOURCE

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bigram/format.h"
#include "must.h"

/* Where the header keeps what it knows of its sections. */
enum { AT_SECTIONS = 112, EACH = 24 };

static void repair(uint8_t *file, size_t n, int sections) {
    if (n < RT_TABLE_HEADER) return;
    for (size_t i = 0; sections && i < RT_N_SECTIONS; i++) {
        uint8_t *section = file + AT_SECTIONS + EACH * i;
        uint64_t at = rt_get(section, 8), size = rt_padded(rt_get(section + 8, 8));
        if (at <= n && size <= n - at) rt_put(section + 16, 8, rt_checksum_of(i, file + at, size));
    }
    rt_put(file + RT_TABLE_HEADER - 8, 8, rt_checksum_of(RT_N_SECTIONS, file, RT_TABLE_HEADER - 8));
}

static void use(const retrace_bigram *b) {
    retrace_bigram_info facts;
    retrace_error err = {0};
    double sum = 0;
    retrace_bigram_facts(b, &facts);
    must(facts.vocab > 0 && facts.model && facts.weights, "facts");
    double *logp = malloc((size_t)facts.vocab * sizeof *logp);
    must(logp != NULL, "memory");
    for (int v = 0; v < facts.vocab; v++) sum += retrace_bigram_pi(b)[v];
    must(fabs(sum - 1) < 1e-6, "pi");
    for (int v = 0; v<facts.vocab; v += facts.vocab> 8 ? facts.vocab / 8 : 1) {
        must(!failed(retrace_bigram_row(b, v, logp, &err), &err), "row");
        for (int w = 0; w < facts.vocab; w++) must(!isnan(logp[w]), "a number of a row");
        must(!failed(retrace_bigram_column(b, v, logp, &err), &err), "column");
        for (int w = 0; w < facts.vocab; w++) must(!isnan(logp[w]), "a number of a column");
    }
    free(logp);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > 1 << 16) return 0;
    size_t n = size - 1;
    uint8_t *file = malloc(size);
    char path[64];
    int fd = memfd_create("table", 0);
    if (fd < 0 || !file) return 0;
    memcpy(file, data + 1, n);
    if (data[0] == '1' || data[0] == '2') repair(file, n, data[0] == '2');
    must(n == 0 || write(fd, file, n) == (ssize_t)n, "write");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    retrace_bigram *b = NULL;
    retrace_error err = {0};
    if (!failed(retrace_bigram_open(&b, path, &err), &err))
        use(b);
    else
        must(b == NULL && !strchr(err.msg, '\n'), "a failed open");
    retrace_bigram_close(b);
    close(fd);
    free(file);
    return 0;
}
