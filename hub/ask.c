/* ask.c - questions to the hub until they are answered, and what to say when it refuses.
 *
 * A try that fails in a way that another one may mend is repeated 5 times, after 1, 2, 4, 8 and 8
 * seconds or what Retry-After says. The pages of an answer have a limit, in number and in size. */
#define _POSIX_C_SOURCE 200809L
#include "hub.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TRIES_MOST = 6, PAGES_MOST = 100, PAGE_MOST = 32 << 20 };
static const double longest_wait = 60;

/* 0: Ctrl-C came. */
static int slept(double s) {
    double until = cli_clock() + s;
    for (double left = s; left > 0 && !cli_interrupted(); left = until - cli_clock()) {
        double step = fmin(left, 0.2);
        struct timespec t = {0, (long)(step * 1e9)};
        nanosleep(&t, NULL);
    }
    return !cli_interrupted();
}

int hub_wait(int tries, double retry_after, const char *why) {
    static const double waits[] = {1, 2, 4, 8, 8};
    if (tries >= TRIES_MOST) return 0;
    double s = retry_after >= 0 ? fmin(retry_after, longest_wait) : waits[tries - 1];
    cli_progress_end();
    cli_say("retrace: %s; trying again in %g s", why, s);
    return slept(s);
}

static int denied(const hub_where *w, const char *repo, int status) {
    cli_fail(CLI_IO, "%s: the hub refuses access (%d): it is private, gated or misspelt", repo,
             status);
    if (w->token) return cli_fail(CLI_IO, "the token that was sent came from %s", w->token_from);
    return cli_fail(CLI_IO, "no token was sent: give --hf-token, set HF_TOKEN, or log in with 'hf "
                            "auth login'");
}

int hub_refused(const hub_where *w, const char *repo, int status, const char *what) {
    if (status == 401 || status == 403) return denied(w, repo, status);
    if (status == 404) return cli_fail(CLI_IO, "%s: the hub has no such %s (404)", repo, what);
    return cli_fail(CLI_IO, "%s: the hub answers with status %d", repo, status);
}

static int failed(const hub_where *w, const char *repo, const char *what, const hub_question *q,
                  hub_verdict v) {
    if (v == HUB_STOPPED) return cli_fail(CLI_INTERRUPTED, "interrupted");
    if (v == HUB_REFUSED) return hub_refused(w, repo, q->status, what);
    return cli_fail(CLI_IO, "%s: %s: %s", w->endpoint, repo, q->why);
}

/* One page, by as many tries as it takes. */
static int one_page(hub_net *n, const hub_where *w, const char *repo, const char *what,
                    hub_question *q) {
    for (int tries = 1;; tries++) {
        hub_verdict v = hub_net_ask(n, q);
        if (cli_verbose) cli_say("hub: GET %s: status %d", q->path, q->status);
        if (v == HUB_DONE) return CLI_OK;
        if (v != HUB_AGAIN || !hub_wait(tries, q->retry_after, q->why))
            return failed(w, repo, what, q, cli_interrupted() ? HUB_STOPPED : v);
        free(q->next);
        q->next = NULL;
    }
}

int hub_ask(hub_net *n, const hub_where *w, const char *repo, const char *path, const char *what,
            hub_page *page, void *ud) {
    char *at = cli_copy(path, strlen(path));
    int code = CLI_OK;
    for (int i = 0; at && !code; i++) {
        hub_question q = {.path = at, .max = PAGE_MOST};
        if (i >= PAGES_MOST)
            code = cli_fail(CLI_IO, "%s: the answer has more than %d pages", repo, PAGES_MOST);
        else
            code = one_page(n, w, repo, what, &q);
        if (!code) code = page(ud, q.body.s ? q.body.s : "", q.body.n);
        cli_buf_free(&q.body);
        free(at);
        at = q.next;
    }
    free(at);
    return code;
}
