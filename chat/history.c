/* history.c - lines of a chat, kept for the next one.
 *
 * A line of the file is an entry, with \n for a line break in it and \\ for a backslash. Every
 * entry is added at once, under a lock, so that chats beside each other lose nothing; once there
 * are more than a thousand, the last of them are written to a new file that takes the old one's
 * place. Who waited for the lock of a file that was replaced sees that and opens the new one. No
 * trouble with the file ends the chat: what cannot be read or written is left out. */
#define _DEFAULT_SOURCE
#include "edit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 26 };

struct chat_history {
    char *path;
    cli_buf last; /* as it was added */
};

/* ==== The file ==== */

/* Every folder of the path, for its owner only where it is new. */
static void make_folders(char *path) {
    for (char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
        *s = '\0';
        mkdir(path, 0700);
        *s = '/';
    }
}

static char *find_path(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    cli_buf b = {0};
    if (state && *state == '/')
        cli_printf(&b, "%s/retrace/history", state);
    else if (home && *home == '/')
        cli_printf(&b, "%s/.local/state/retrace/history", home);
    return b.s;
}

static int is_at(int fd, const char *path) {
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
           open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}

/* The file, locked; -1: there is none to be had. */
static int open_locked(const char *path) {
    struct stat st;
    for (int tries = 0; tries < 100; tries++) {
        int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0600);
        if (fd < 0) return -1;
        if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX) {
            close(fd);
            return -1;
        }
        if (flock(fd, LOCK_EX) == 0 && is_at(fd, path)) {
            fchmod(fd, 0600);
            return fd;
        }
        close(fd);
    }
    return -1;
}

static void read_all(int fd, cli_buf *to) {
    char part[65536];
    off_t at = 0;
    for (;;) {
        ssize_t n = pread(fd, part, sizeof part, at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || to->n > FILE_MAX) return;
        cli_put(to, part, (size_t)n);
        at += n;
    }
}

/* ==== Entries ==== */

static void spell(cli_buf *b, retrace_text t) {
    for (size_t i = 0; i < t.n; i++) {
        if (t.s[i] == '\n')
            cli_puts(b, "\\n");
        else if (t.s[i] == '\\')
            cli_puts(b, "\\\\");
        else
            cli_put(b, t.s + i, 1);
    }
}

static void unspell(cli_buf *b, retrace_text t) {
    for (size_t i = 0; i < t.n; i++) {
        int spelt = t.s[i] == '\\' && i + 1 < t.n && (t.s[i + 1] == 'n' || t.s[i + 1] == '\\');
        if (!spelt)
            cli_put(b, t.s + i, 1);
        else
            cli_puts(b, t.s[++i] == 'n' ? "\n" : "\\");
    }
}

/* Where the last `most` lines begin. */
static size_t last_lines(const cli_buf *b, int most) {
    int seen = 0;
    for (size_t i = b->n; i > 0; i--)
        if (b->s[i - 1] == '\n' && i < b->n && ++seen == most) return i;
    return 0;
}

static void hand_out(const cli_buf *all, chat_history_fn *each, void *ud) {
    size_t from = last_lines(all, CHAT_HISTORY_LINES);
    while (from < all->n) {
        const char *end = memchr(all->s + from, '\n', all->n - from);
        size_t to = end ? (size_t)(end - all->s) : all->n;
        retrace_text raw = {all->s + from, to - from};
        cli_buf b = {0};
        unspell(&b, raw);
        if (b.n && cli_utf8_check(raw) == raw.n && !memchr(raw.s, '\0', raw.n))
            each(ud, cli_buf_text(&b));
        cli_buf_free(&b);
        from = to + 1;
    }
}

/* ==== From outside ==== */

chat_history *chat_history_open(int disk, chat_history_fn *each, void *ud) {
    chat_history *h = cli_alloc(sizeof *h);
    h->path = disk ? find_path() : NULL;
    if (!h->path) return h;
    make_folders(h->path);
    cli_buf all = {0};
    int fd = open_locked(h->path);
    if (fd >= 0) {
        read_all(fd, &all);
        close(fd);
    } else if (cli_verbose) {
        cli_say("history: '%s' is of no use", h->path);
    }
    hand_out(&all, each, ud);
    cli_buf_free(&all);
    return h;
}

/* The last lines of it and this one, in a file that takes the other's place. */
static void replace(const char *path, const cli_buf *all) {
    cli_buf name = {0};
    size_t from = last_lines(all, CHAT_HISTORY_LINES);
    cli_printf(&name, "%s.XXXXXX", path);
    int fd = mkstemp(name.s); /* for its owner only */
    if (fd >= 0) {
        int failed = cli_write_all(fd, all->s + from, all->n - from);
        if (close(fd) || failed || rename(name.s, path)) unlink(name.s);
    }
    cli_buf_free(&name);
}

/* What a full disk has cut off is taken away again; what was cut before gets its end. */
static void append(int fd, const cli_buf *all, size_t had) {
    if (!cli_write_all(fd, all->s + had, all->n - had)) return;
    if (ftruncate(fd, (off_t)had) && cli_verbose) cli_say("history: %s", strerror(errno));
}

static void add_line(const char *path, const cli_buf *line) {
    cli_buf all = {0};
    int fd = open_locked(path);
    if (fd < 0) return;
    read_all(fd, &all);
    size_t had = all.n;
    if (had && all.s[had - 1] != '\n') cli_puts(&all, "\n");
    cli_put(&all, line->s, line->n);
    if (last_lines(&all, CHAT_HISTORY_LINES) > 0)
        replace(path, &all);
    else
        append(fd, &all, had);
    close(fd);
    cli_buf_free(&all);
}

int chat_history_add(chat_history *h, retrace_text t) {
    cli_buf line = {0};
    if (!t.n || t.n > CHAT_HISTORY_ENTRY || t.s[0] == ' ' || t.s[0] == '\t') return 0;
    if (h->last.n == t.n && memcmp(h->last.s, t.s, t.n) == 0) return 0;
    h->last.n = 0;
    cli_put(&h->last, t.s, t.n);
    spell(&line, t);
    cli_puts(&line, "\n");
    if (h->path) add_line(h->path, &line);
    cli_buf_free(&line);
    return 1;
}

void chat_history_close(chat_history *h) {
    if (!h) return;
    cli_buf_free(&h->last);
    free(h->path);
    free(h);
}
