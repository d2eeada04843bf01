/* fuzz_banlist.c - a file of phrases as a stranger might write it.
 *
 * The first two bytes are the limits (0: large ones). Whatever the file is: an error that names its
 * line, or phrases that keep to the limits; written down again in quotes, they are read as the same
 * phrases; and the rule takes them, as a file and as a list (bytes 0 and 255, and a sum of 64:
 * making a rule takes milliseconds). */
#include "must.h"
#include "text/banlist.h"
#include "text/utf8.h"

enum { LARGEST = 4096 };

static void check(const rt_banlist *list, size_t size, size_t most_bytes, uint32_t most) {
    size_t sum = 0;
    must(list->n <= most, "more phrases than may be");
    for (uint32_t i = 0; i < list->n; i++) {
        retrace_text t = list->phrases[i];
        must(t.n > 0 && t.n <= most_bytes, "a phrase of a length that may not be");
        must(memchr(t.s, 0, t.n) == NULL, "a phrase with a NUL");
        must(list->lines[i] > (i ? list->lines[i - 1] : 0), "lines that do not rise");
        must(list->lines[i] <= size, "a line that there is not");
        sum += t.n;
    }
    must(sum <= size, "more text than the file has");
}

/* The phrases, each in quotes. */
static size_t written(const rt_banlist *list, char *to) {
    size_t n = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        retrace_text t = list->phrases[i];
        to[n++] = '"';
        for (size_t k = 0; k < t.n; k++) {
            char c = t.s[k];
            if (c == '"' || c == '\\' || c == '\n') to[n++] = '\\';
            to[n++] = c == '\n' ? 'n' : c;
        }
        to[n++] = '"';
        to[n++] = '\n';
    }
    return n;
}

static void read_again(const rt_banlist *list) {
    static char text[2 * LARGEST * 4];
    retrace_error err = {0};
    rt_banlist again;
    size_t n = written(list, text);
    int rc = rt_banlist_parse(&again, (retrace_text){text, n}, "again", LARGEST, LARGEST, &err);
    must(rc == RETRACE_OK, err.msg);
    must(again.n == list->n, "another number of phrases");
    for (uint32_t i = 0; i < list->n; i++) {
        retrace_text a = list->phrases[i], b = again.phrases[i];
        must(a.n == b.n && memcmp(a.s, b.s, a.n) == 0, "another phrase");
    }
    rt_banlist_free(&again);
}

static unsigned sum_of(retrace_text t) {
    unsigned sum = 0;
    for (size_t i = 0; i < t.n; i++) sum += (unsigned char)t.s[i];
    return sum;
}

/* What a rule says of them must not depend on how they came. */
static void make_rules(retrace_text file, int readable) {
    static const char *const ways[] = {"file", "list"};
    retrace_rule *r = NULL;
    for (int i = 0; i < 2; i++) {
        retrace_setting s = {ways[i], file};
        retrace_error err = {0};
        if (!failed(retrace_rule_new(&r, "phrases", &s, 1, &err), &err)) {
            must(readable, "a rule of a file that cannot be read");
            retrace_rule_free(r);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2 || size > LARGEST) return 0;
    size_t most_bytes = data[0] ? data[0] : LARGEST;
    uint32_t most = data[1] && data[1] < 255 ? data[1] : LARGEST;
    retrace_text file = {(const char *)data + 2, size - 2};
    retrace_error err = {0};
    rt_banlist list;
    int rc = rt_banlist_parse(&list, file, "the file", most_bytes, most, &err);
    if (failed(rc, &err)) {
        must(strstr(err.msg, "the file, line ") == err.msg, "an error without its line");
    } else {
        check(&list, file.n, most_bytes, most);
        read_again(&list);
    }
    if (data[0] == 0 && data[1] == 255 && sum_of(file) % 64 == 0)
        make_rules(file, rc == RETRACE_OK);
    rt_banlist_free(&list);
    return 0;
}
