/* paint.h - text that stays, and behind it text that is drawn anew: what view.c needs. */
#ifndef CHAT_PAINT_H
#define CHAT_PAINT_H

#include "chat.h"

/* A styled text is what cli_escape makes, with \033[...m in it and no other control characters than
 * line breaks and tabs. */
typedef struct chat_paint {
    FILE *out;
    int rows, columns;
    int column;   /* where the text that stays ends; `columns`: right of the last one */
    cli_buf line; /* of it, from its last line break on */
    cli_buf tail; /* as it was drawn behind it */
    int down;     /* rows between the end of the text that stays and the cursor */
    int cut;      /* only the end of the tail is on the screen */
} chat_paint;

/* stays: is added to the text that stays. tail: all that stands behind it now. */
void chat_paint_draw(chat_paint *p, retrace_text stays, retrace_text tail);
/* The window may have another size. */
void chat_paint_resized(chat_paint *p);
void chat_paint_free(chat_paint *p);

#endif
