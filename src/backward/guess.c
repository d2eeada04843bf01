/* guess.c - what the model itself says should come before a suffix.
 *
 * Two questions, in English as most texts are. The first asks in words: a gap is to be filled, with
 * five examples. The second shows a passage with its tokens in reverse order, so that the model
 * goes on in that manner and the reversed suffix is followed by what stood before it. As orders by
 * themselves they are poor; multiplied into b they stand for the factors that b lacks. Nobody
 * relies on them: a wrong guess costs accuracy, never correctness. */
#include "../base.h"
#include "backward.h"

#include <string.h>

enum { NEAR = 48 }; /* tokens of the suffix that are shown */

static const char examples[] = "Write the word that is missing at the gap.\n"
                               "___ is a town in Italy => Pisa\n"
                               "___ upon a time => Once\n"
                               "in the ___ of the night => middle\n"
                               "___ you very much for coming => Thank\n"
                               "___ years old. => five\n"
                               "___";

static const char end_of_question[] = " =>";

static const char passage[] =
    "The old man walked slowly down the road to the village. It was a cold day in the middle of "
    "winter, and there was nobody else outside. He stopped at the door of the first house and "
    "waited. \"Who is there?\" asked a woman. \"It is only me,\" he said. She was happy to see him "
    "again after such a long time, and made some tea.";

static int split(const rt_setup *s, const char *text, int flags, retrace_token **out, int *n,
                 retrace_error *err) {
    return retrace_tokenize(s->model, (retrace_text){text, strlen(text)}, flags, out, n, err);
}

static void reverse(retrace_token *t, int n) {
    for (int i = 0; i < n / 2; i++) {
        retrace_token x = t[i];
        t[i] = t[n - 1 - i];
        t[n - 1 - i] = x;
    }
}

int rt_guess_new(rt_guess *g, const rt_setup *s, retrace_error *err) {
    int bos = RETRACE_TOKENIZE_BOS;
    int rc = split(s, examples, bos, &g->words, &g->n_words, err);
    if (rc == RETRACE_OK)
        rc = split(s, end_of_question, RETRACE_TOKENIZE_INSIDE, &g->last, &g->n_last, err);
    if (rc == RETRACE_OK) rc = split(s, passage, 0, &g->passage, &g->n_passage, err);
    if (rc == RETRACE_EUSAGE) {
        rt_clear(err); /* not a word of English fits this vocabulary */
        return RETRACE_OK;
    }
    if (rc) return rc;
    reverse(g->passage, g->n_passage);
    int room[2] = {g->n_words + NEAR + g->n_last, g->n_passage + NEAR};
    g->usable = room[0] <= s->model->facts.n_ctx && room[1] <= s->model->facts.n_ctx;
    for (int k = 0; k < 2; k++) {
        g->tokens[k] = retrace_alloc((size_t)room[k] * sizeof(retrace_token));
        g->next[k] = retrace_alloc((size_t)s->vocab * sizeof(float));
        if (!g->tokens[k] || !g->next[k]) return rt_nomem(err);
    }
    return RETRACE_OK;
}

void rt_guess_free(rt_guess *g) {
    retrace_free(g->words);
    retrace_free(g->passage);
    retrace_free(g->last);
    for (int k = 0; k < 2; k++) {
        retrace_free(g->tokens[k]);
        retrace_free(g->next[k]);
    }
}

static int append(retrace_token *to, int at, const retrace_token *t, int n) {
    memcpy(to + at, t, (size_t)n * sizeof *t);
    return at + n;
}

void rt_guess_ask(rt_guess *g, const rt_setup *s, const retrace_token *suffix, int n) {
    int near = n < NEAR ? n : NEAR, h = s->o.heuristic;
    int use[2] = {h != RETRACE_REVERSED, h != RETRACE_FORWARD_PROMPT};
    int len[2];
    len[0] = append(g->tokens[0], 0, g->words, g->n_words);
    len[0] = append(g->tokens[0], len[0], suffix, near);
    len[0] = append(g->tokens[0], len[0], g->last, g->n_last);
    len[1] = append(g->tokens[1], 0, g->passage, g->n_passage);
    len[1] = append(g->tokens[1], len[1], suffix, near);
    reverse(g->tokens[1] + g->n_passage, near);
    g->n = 0;
    for (int k = 0; k < 2; k++) {
        if (!use[k]) continue;
        g->q[g->n++] = (retrace_query){.tokens = g->tokens[k],
                                       .n = len[k],
                                       .n_prompt = len[k],
                                       .next = g->next[k],
                                       .slot = RETRACE_PASSING};
    }
}
