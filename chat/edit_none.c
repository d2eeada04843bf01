/* edit_none.c - stands in for edit.c where the program is built without libedit
 * (-DRETRACE_EDIT=OFF): no terminal can be edited on, and lines come as its driver hands them over.
 */
#define _XOPEN_SOURCE 700
#include "edit.h"

chat_edit *chat_edit_open(int history, chat_complete_fn *complete, void *ud) {
    (void)history, (void)complete, (void)ud;
    return NULL;
}

chat_typed chat_edit_read(chat_edit *e, const char *prompt, const char *preset, cli_buf *out) {
    (void)e, (void)prompt, (void)preset, (void)out;
    return CHAT_END;
}

void chat_edit_keep(chat_edit *e, retrace_text t) {
    (void)e, (void)t;
}

void chat_edit_close(chat_edit *e) {
    (void)e;
}
