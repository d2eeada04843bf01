/* debug.c - the rule `debug`: says what could have come next. The file to copy for a new rule.
 *
 * Law: none; it changes no draw and goes back over nothing. At each place that the run comes to, it
 * notes the `top` most probable tokens as the model gave them, with their probabilities; fewer
 * where fewer can come. */
#include "base.h"
#include "strategies.h"
#include "text/utf8.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

enum { MOST = 16, ROOM = 256 };

/* Filled from the table of settings below; the same for all runs. */
typedef struct debug {
    int64_t top;
} debug;

/* The name of a token in quotes; 24 bytes of it are enough. Control characters and pieces of
 * characters are spelt out. Returns its length. */
static int quote(char *out, size_t room, retrace_text name) {
    int whole = rt_utf8_check(name.s, name.n) == name.n;
    size_t shown = rt_utf8_cut(name.s, name.n, 24), n = (size_t)snprintf(out, room, "\"");
    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)name.s[i];
        int plain = (c >= ' ' && c < 127) || (c > 127 && whole);
        n += (size_t)snprintf(out + n, room - n, plain ? "%c" : "\\x%02x", c);
    }
    n += (size_t)snprintf(out + n, room - n, shown < name.n ? "...\"" : "\"");
    return (int)n;
}

/* Called once the distribution after the newest token is known. */
static int review(const void *memory, const retrace_view *v, const void *mark, retrace_proposal *p,
                  retrace_error *err) {
    const debug *self = memory;
    retrace_candidate top[MOST];
    char note[ROOM], one[ROOM];
    size_t used = 0;
    (void)mark, (void)p;
    int n = retrace_dist_top(v->next, (int)self->top, top);
    for (int i = 0; i < n; i++) {
        int len = quote(one, sizeof one, retrace_token_name(v->model, top[i].id));
        len += snprintf(one + len, sizeof one - (size_t)len, " %.3f", exp(top[i].logp));
        if (used + (size_t)len + 2 >= sizeof note) break;
        used += (size_t)snprintf(note + used, sizeof note - used, "%s%s", i ? ", " : "", one);
    }
    return n ? retrace_view_note(v, note, err) : rt_nomem(err);
}

/* One row a setting: the program's flag, the check of its range and the documentation come from
 * here. */
static const retrace_setting_info settings[] = {
    {"top", RETRACE_INT, offsetof(debug, top), "2", 1, MOST, NULL, "how many tokens"},
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_debug = {
    .abi = RETRACE_ABI,
    .name = "debug",
    .help = "notes the most probable tokens at every place",
    .settings = settings,
    .size = sizeof(debug),
    .review = review,
};
