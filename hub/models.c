/* models.c - not written yet. */
#include "hub.h"

int cli_models(const cli_flags *f) {
    (void)f;
    return cli_fail(CLI_USAGE, "not written yet");
}
