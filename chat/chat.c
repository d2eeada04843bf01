/* chat.c - not written yet. */
#include "chat.h"

int cli_chat(const cli_flags *f) {
    (void)f;
    return cli_fail(CLI_USAGE, "not written yet");
}
