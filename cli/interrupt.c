/* interrupt.c - Ctrl-C, and the clock.
 *
 * While a run is in progress the first Ctrl-C is only counted, for the run to end by itself; any
 * other one ends the program at once, the terminal put back first. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t running, interrupts;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    if (!running || interrupts) {
        cli_screen_restore();
        chat_tty_restore();
        _exit(CLI_INTERRUPTED);
    }
    interrupts = 1;
    chat_tty_throw();
    cli_screen_wake();
}

void cli_run_begins(void) {
    running = 1;
}

void cli_run_ends(void) {
    running = 0;
}

int cli_interrupted(void) {
    return interrupts != 0;
}

void cli_interrupt_forget(void) {
    interrupts = 0;
}

/* A program started with SIGINT ignored, in the background say, keeps it so. */
void cli_catch_interrupts(void) {
    struct sigaction was, now = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&now.sa_mask);
    if (sigaction(SIGINT, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
        sigaction(SIGINT, &now, NULL);
}

double cli_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
