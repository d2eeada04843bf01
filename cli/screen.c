/* screen.c - taking a terminal and giving it back exactly as it was found.
 *
 * The guide draws on /dev/tty, on the alternate screen, so that standard output may go anywhere.
 * Keys come one by one and without echo; Ctrl-C, Ctrl-Z and Ctrl-\ stay signals, so they work while
 * the model computes. On every way out - the end, an error, a signal, a stop - the settings are put
 * back by calls that a signal handler may make; continued after a stop, the terminal is taken
 * again. A signal wakes the wait for a key through a pipe, so none is missed between a look and a
 * wait. */
#define _DEFAULT_SOURCE
#include "screen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Alternate screen, pastes marked as such, no wrapping at the right edge. */
static const char enter_codes[] = "\033[?1049h\033[?2004h\033[?7l\033[H\033[2J";
static const char leave_codes[] = "\033[?2004l\033[?7h\033[0m\033[?25h\033[?1049l";

static const int handled[] = {SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGTSTP, SIGCONT, SIGWINCH};
enum { N_HANDLED = sizeof handled / sizeof *handled };

/* Of the one terminal that a process has; signal handlers need it. */
static struct {
    int fd; /* -1: closed */
    int pipe[2];
    struct termios found, taken;
    struct sigaction before[N_HANDLED];
    volatile sig_atomic_t wanted; /* the guide is at work */
    volatile sig_atomic_t active; /* the terminal is in its hands now */
} screen = {.fd = -1};

/* ==== What a signal handler may do ==== */

static void put(const char *s, size_t n) {
    while (n > 0) {
        ssize_t done = write(screen.fd, s, n);
        if (done < 0 && errno != EINTR) return;
        if (done <= 0) continue;
        s += done;
        n -= (size_t)done;
    }
}

static void take(void) {
    tcsetattr(screen.fd, TCSANOW, &screen.taken);
    if (!screen.active) put(enter_codes, sizeof enter_codes - 1);
    screen.active = 1;
}

void cli_screen_restore(void) {
    if (!screen.active) return;
    screen.active = 0;
    put(leave_codes, sizeof leave_codes - 1);
    tcsetattr(screen.fd, TCSANOW, &screen.found);
}

void cli_screen_wake(void) {
    int was = errno;
    if (screen.wanted && write(screen.pipe[1], "", 1) < 0) errno = was; /* full: awake already */
    errno = was;
}

static void set_handler(int signal_number, void (*handler)(int)) {
    struct sigaction now = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&now.sa_mask);
    sigaction(signal_number, &now, NULL);
}

/* Ended by a signal: as any program, but the terminal first. */
static void on_end(int signal_number) {
    screen.wanted = 0;
    cli_screen_restore();
    set_handler(signal_number, SIG_DFL);
    raise(signal_number); /* delivered when this handler returns */
}

static void on_continue(int signal_number) {
    int was = errno;
    (void)signal_number;
    if (screen.wanted) take();
    cli_screen_wake();
    errno = was;
}

static void on_stop(int signal_number) {
    int was = errno;
    sigset_t stop, old;
    cli_screen_restore();
    set_handler(signal_number, SIG_DFL);
    raise(signal_number);
    sigemptyset(&stop);
    sigaddset(&stop, signal_number);
    sigprocmask(SIG_UNBLOCK, &stop, &old); /* the program stands here until it is continued */
    sigprocmask(SIG_SETMASK, &old, NULL);
    set_handler(signal_number, on_stop);
    on_continue(SIGCONT);
    errno = was;
}

static void on_resize(int signal_number) {
    (void)signal_number;
    cli_screen_wake();
}

/* ==== Taking it ==== */

static void (*handler_of(int signal_number))(int) {
    switch (signal_number) {
    case SIGTSTP: return on_stop;
    case SIGCONT: return on_continue;
    case SIGWINCH: return on_resize;
    default: return on_end;
    }
}

/* What was ignored when the program started stays so. */
static void catch_signals(void) {
    for (int i = 0; i < N_HANDLED; i++) {
        sigaction(handled[i], NULL, &screen.before[i]);
        if (screen.before[i].sa_handler != SIG_IGN) set_handler(handled[i], handler_of(handled[i]));
    }
}

static int open_pipe(void) {
    if (pipe(screen.pipe)) return 0;
    for (int i = 0; i < 2; i++) {
        fcntl(screen.pipe[i], F_SETFL, O_NONBLOCK);
        fcntl(screen.pipe[i], F_SETFD, FD_CLOEXEC);
    }
    return 1;
}

int cli_screen_usable(void) {
    const char *term = getenv("TERM");
    int any = isatty(STDIN_FILENO) || isatty(STDOUT_FILENO) || isatty(STDERR_FILENO);
    return any && term && *term && strcmp(term, "dumb") != 0;
}

int cli_screen_enter(void) {
    screen.fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (screen.fd < 0 || tcgetattr(screen.fd, &screen.found))
        return cli_fail(CLI_USAGE, "--driver guide cannot open the terminal: %s", strerror(errno));
    if (!open_pipe()) return cli_fail(CLI_IO, "cannot make a pipe: %s", strerror(errno));
    screen.taken = screen.found;
    screen.taken.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR | IGNCR | ISTRIP);
    screen.taken.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ECHONL | IEXTEN);
    screen.taken.c_cc[VMIN] = 1;
    screen.taken.c_cc[VTIME] = 0;
    screen.wanted = 1;
    catch_signals();
    take();
    return CLI_OK;
}

void cli_screen_leave(void) {
    if (!screen.wanted) return;
    screen.wanted = 0;
    cli_screen_restore();
    for (int i = 0; i < N_HANDLED; i++) sigaction(handled[i], &screen.before[i], NULL);
    close(screen.fd);
    close(screen.pipe[0]);
    close(screen.pipe[1]);
    screen.fd = -1;
}

/* ==== Using it ==== */

void cli_screen_size(int *rows, int *columns) {
    struct winsize size = {0};
    int known = ioctl(screen.fd, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;
    *rows = known ? size.ws_row : 24;
    *columns = known ? size.ws_col : 80;
}

int cli_screen_write(const cli_buf *b) {
    size_t at = 0;
    while (at < b->n) {
        ssize_t done = write(screen.fd, b->s + at, b->n - at);
        if (done < 0 && errno != EINTR) return 0;
        if (done > 0) at += (size_t)done;
    }
    return 1;
}

static void drain_pipe(void) {
    char bytes[64];
    while (read(screen.pipe[0], bytes, sizeof bytes) > 0) continue;
}

int cli_screen_wait(int ms) {
    struct pollfd fds[2] = {{.fd = screen.fd, .events = POLLIN},
                            {.fd = screen.pipe[0], .events = POLLIN}};
    if (poll(fds, 2, ms) < 0) return errno == EINTR ? CLI_SCREEN_WOKEN : CLI_SCREEN_GONE;
    if (fds[1].revents) {
        drain_pipe();
        return CLI_SCREEN_WOKEN;
    }
    if (fds[0].revents & POLLIN) return CLI_SCREEN_KEY;
    return fds[0].revents ? CLI_SCREEN_GONE : CLI_SCREEN_QUIET;
}

size_t cli_screen_read(char *to, size_t room) {
    ssize_t n;
    do n = read(screen.fd, to, room);
    while (n < 0 && errno == EINTR);
    return n > 0 ? (size_t)n : 0;
}
