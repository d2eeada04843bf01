/* convert.c - not written yet. */
#include "cli.h"

int cli_convert(const cli_flags *f) {
    (void)f;
    return cli_fail(CLI_USAGE, "not written yet");
}
