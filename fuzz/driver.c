/* driver.c - a fuzz target as a plain program: runs it over the files and folders given.
 *
 * What libFuzzer finds is kept in corpus/ and run again by this on every check, with any compiler.
 */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LARGEST = 1 << 20 };

/* 1 when it could be read. */
static int run_file(const char *path) {
    static uint8_t store[LARGEST];
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "cannot read '%s'\n", path);
        return 0;
    }
    size_t n = fread(store, 1, sizeof store, f);
    fclose(f);
    uint8_t *exact = malloc(n ? n : 1); /* so that reading past the end is found */
    if (!exact) return 0;
    for (size_t i = 0; i < n; i++) exact[i] = store[i];
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return 1;
}

/* How many inputs were run; -1 when something could not be read. */
static int run_path(const char *path) {
    struct stat st;
    if (stat(path, &st) || !S_ISDIR(st.st_mode)) return run_file(path) ? 1 : -1;
    DIR *d = opendir(path);
    int n = 0, unread = !d;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char inner[4096];
        if (e->d_name[0] == '.') continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        unread |= !run_file(inner);
        n++;
    }
    if (d) closedir(d);
    return unread ? -1 : n;
}

int main(int argc, char **argv) {
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int n = run_path(argv[i]);
        if (n < 0) return 1;
        total += n;
    }
    if (total == 0) {
        fprintf(stderr, "no input\n");
        return 1;
    }
    printf("%d inputs\n", total);
    return 0;
}
