/* tty.c - the terminal is left as it was found, however the program ends.
 *
 * Between two lines of a person nothing that is typed is echoed, or it would stand in the middle of
 * an answer; it waits in the terminal's queue for the next prompt, as it does in a shell. While a
 * line is edited pastes come marked as such. A signal that ends or stops the program, a crash and
 * exit() put back what was found, by calls that a signal handler may make; so does Ctrl-C
 * (cli/main.c). Continued after a stop, the program finds its own settings again. SIGKILL alone
 * leaves the terminal quiet. */
#define _XOPEN_SOURCE 700
#include "chat.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";
/* An update that was begun, pastes, colours, the cursor. */
static const char leave_codes[] = "\033[?2026l\033[?2004l\033[0m\033[?25h";

static const int handled[] = {SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS,
                              SIGFPE,  SIGILL, SIGTSTP, SIGCONT, SIGWINCH};
enum { N_HANDLED = sizeof handled / sizeof *handled };

static struct {
    struct termios found, quiet, stopped; /* stopped: as it was when a stop came */
    struct sigaction before[N_HANDLED];
    volatile sig_atomic_t known;  /* found is filled in */
    volatile sig_atomic_t active; /* the terminal is in the program's hands */
    volatile sig_atomic_t codes;  /* escape sequences mean something to it */
    volatile sig_atomic_t editing;
} tty;

volatile sig_atomic_t chat_tty_resized, chat_tty_continued;

/* ==== What a signal handler may do ==== */

static void put(const char *s, size_t n) {
    while (tty.codes && n > 0) {
        ssize_t done = write(STDOUT_FILENO, s, n);
        if (done < 0 && errno != EINTR) return;
        if (done <= 0) continue;
        s += done;
        n -= (size_t)done;
    }
}

static void put_back(void) {
    put(leave_codes, sizeof leave_codes - 1);
    tcsetattr(STDIN_FILENO, TCSANOW, &tty.found);
}

void chat_tty_restore(void) {
    if (!tty.active) return;
    tty.active = 0;
    put_back();
}

/* Of Ctrl-C. The terminal would do so itself, and throw away what it was about to show as well:
 * then nobody knows where the cursor stands. */
void chat_tty_throw(void) {
    int was = errno;
    if (tty.active) tcflush(STDIN_FILENO, TCIFLUSH);
    errno = was;
}

static void set_handler(int signal_number, void (*handler)(int)) {
    struct sigaction now = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigemptyset(&now.sa_mask);
    sigaction(signal_number, &now, NULL);
}

/* Whoever handled it before, the system as a rule, does so after the terminal is put back. */
static void on_end(int signal_number) {
    chat_tty_restore();
    for (int i = 0; i < N_HANDLED; i++)
        if (handled[i] == signal_number) sigaction(signal_number, &tty.before[i], NULL);
    raise(signal_number); /* delivered when this handler returns */
}

static void on_continue(int signal_number) {
    (void)signal_number;
    chat_tty_continued = 1;
}

static void on_stop(int signal_number) {
    int was = errno, active = tty.active;
    sigset_t stop, old;
    tcgetattr(STDIN_FILENO, &tty.stopped);
    if (active) put_back();
    set_handler(signal_number, SIG_DFL);
    raise(signal_number);
    sigemptyset(&stop);
    sigaddset(&stop, signal_number);
    sigprocmask(SIG_UNBLOCK, &stop, &old); /* the program stands here until it is continued */
    sigprocmask(SIG_SETMASK, &old, NULL);
    set_handler(signal_number, on_stop);
    if (active) tcsetattr(STDIN_FILENO, TCSANOW, &tty.stopped);
    if (tty.editing) put(paste_on, sizeof paste_on - 1);
    chat_tty_continued = 1;
    chat_view_resized();
    errno = was;
}

static void on_resize(int signal_number) {
    (void)signal_number;
    chat_tty_resized = 1;
    chat_view_resized();
}

/* ==== Taking it and giving it back ==== */

static void (*handler_of(int signal_number))(int) {
    switch (signal_number) {
    case SIGTSTP: return on_stop;
    case SIGCONT: return on_continue;
    case SIGWINCH: return on_resize;
    default: return on_end;
    }
}

/* A stack that has overflowed has no room for a handler. */
static void own_stack(void) {
    static char room[65536];
    stack_t now = {.ss_sp = room, .ss_size = sizeof room}, was;
    if (sigaltstack(NULL, &was) == 0 && (was.ss_flags & SS_DISABLE)) sigaltstack(&now, NULL);
}

/* What was ignored when the program started stays so. */
static void catch_signals(void) {
    own_stack();
    for (int i = 0; i < N_HANDLED; i++) {
        sigaction(handled[i], NULL, &tty.before[i]);
        if (tty.before[i].sa_handler != SIG_IGN) set_handler(handled[i], handler_of(handled[i]));
    }
}

int chat_tty_find(void) {
    const char *term = getenv("TERM");
    if (tty.known) return 1;
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &tty.found)) return 0;
    tty.codes = isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
    tty.quiet = tty.found;
    tty.quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    tty.quiet.c_lflag |= NOFLSH; /* see chat_tty_throw */
    if (tty.codes) {             /* as while a line is edited; else a Ctrl-D that waits stays one */
        tty.quiet.c_lflag &= ~(tcflag_t)ICANON;
        tty.quiet.c_iflag &= ~(tcflag_t)(ICRNL | INLCR);
    }
    tty.quiet.c_cc[VMIN] = 1;
    tty.quiet.c_cc[VTIME] = 0;
    tty.known = 1;
    return 1;
}

void chat_tty_guard(void) {
    static int told;
    if (tty.active || !chat_tty_find()) return;
    catch_signals();
    if (!told) atexit(chat_tty_release);
    told = 1;
    tty.active = 1;
    chat_tty_quiet();
}

void chat_tty_release(void) {
    if (!tty.active) return;
    chat_tty_restore();
    for (int i = 0; i < N_HANDLED; i++) sigaction(handled[i], &tty.before[i], NULL);
}

/* ==== Around a line ==== */

void chat_tty_quiet(void) {
    if (!tty.known) return;
    if (tty.editing) put(paste_off, sizeof paste_off - 1);
    tty.editing = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, tty.active ? &tty.quiet : &tty.found);
}

/* Keys that are signals elsewhere are keys, so that a paste may hold them. */
void chat_tty_edit(void) {
    struct termios keys = tty.quiet;
    tty.editing = tty.known && tty.codes;
    if (!tty.editing) return;
    keys.c_lflag &= ~(tcflag_t)ISIG;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
    put(paste_on, sizeof paste_on - 1);
}

void chat_tty_lines(void) {
    if (tty.known) tcsetattr(STDIN_FILENO, TCSADRAIN, &tty.found);
}

void chat_tty_size(int *rows, int *columns) {
    struct winsize size = {0};
    int known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;
    *rows = known ? size.ws_row : 24;
    *columns = known ? size.ws_col : 80;
}
