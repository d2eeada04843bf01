/* turns.c - the messages of a conversation.
 *
 * The system's, if there is one, is the first; each of the user's begins a turn, and what follows
 * it belongs to that. Nothing here knows of models or runs. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

void chat_turn_clear(chat_turn *u) {
    free(u->role);
    cli_buf_free(&u->content);
    free(u->ids);
    *u = (chat_turn){0};
}

void chat_turn_add(chat_talk *t, const char *role, retrace_text content) {
    t->v = cli_realloc(t->v, (size_t)(t->n + 1) * sizeof *t->v);
    chat_turn *u = &t->v[t->n++];
    *u = (chat_turn){.role = cli_copy(role, strlen(role))};
    cli_put(&u->content, content.s, content.n);
}

void chat_turns_cut(chat_talk *t, int n) {
    while (t->n > n) chat_turn_clear(&t->v[--t->n]);
}

static int is_users(const chat_turn *u) {
    return strcmp(u->role, "user") == 0;
}

int chat_turns_last(const chat_talk *t) {
    int i = t->n - 1;
    while (i >= 0 && !is_users(&t->v[i])) i--;
    return i;
}

int chat_turns_system(const chat_talk *t) {
    return t->n > 0 && strcmp(t->v[0].role, "system") == 0;
}

int chat_turns_count(const chat_talk *t) {
    int count = 0;
    for (int i = 0; i < t->n; i++) count += is_users(&t->v[i]);
    return count;
}
