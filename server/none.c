/* none.c - stands in for the other files of server/ where the program is built without them
 * (-DRETRACE_SERVER=OFF). */
#include "../cli/cli.h"

int cli_serve(const cli_flags *f) {
    (void)f;
    return cli_fail(CLI_USAGE,
                    "serve: this program was built without a server (RETRACE_SERVER=OFF)");
}
