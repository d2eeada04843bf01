/* front_signal.c - SIGINT, SIGTERM and SIGHUP.
 *
 * The handler writes the number into a pipe that the front's loop reads, so it does not matter
 * which thread a signal comes to: libraries have threads of their own. While the model is being
 * loaded, and while everything is being put away, nobody reads, and the first two end the program
 * at once. */
#define _GNU_SOURCE
#include "front.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static int pipe_of[2] = {-1, -1};
static atomic_int reading; /* a signal may come to any thread */

static void on_signal(int number) {
    int was = errno;
    unsigned char byte = (unsigned char)number;
    if (!reading && number != SIGHUP) _exit(number == SIGINT ? CLI_INTERRUPTED : 0);
    if (reading && write(pipe_of[1], &byte, 1) < 0) { /* full: plenty have come */
    }
    errno = was;
}

/* A program that was started with SIGINT ignored keeps it so. */
static void catch_one(int number) {
    struct sigaction was, now = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&now.sa_mask);
    if (sigaction(number, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
        sigaction(number, &now, NULL);
}

void srv_signals_catch(void) {
    if (pipe2(pipe_of, O_CLOEXEC | O_NONBLOCK) != 0) return;
    catch_one(SIGINT);
    catch_one(SIGTERM);
    catch_one(SIGHUP);
}

void srv_signals_begin(void) {
    reading = 1;
}

void srv_signals_end(void) {
    reading = 0;
}

int srv_signals_fd(void) {
    return pipe_of[0];
}

int srv_signals_next(void) {
    unsigned char byte;
    return read(pipe_of[0], &byte, 1) == 1 ? byte : 0;
}
