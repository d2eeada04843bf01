/* none.c - stands in for the other files of hub/ where the program is built without them
 * (-DRETRACE_HUB=OFF): models by name are refused, and nothing else is missing. */
#include "../cli/cli.h"

static int none(const char *what) {
    return cli_fail(CLI_USAGE, "%s: this program was built without the hub (RETRACE_HUB=OFF)",
                    what);
}

int cli_pull(const cli_flags *f) {
    (void)f;
    return none("pull");
}

int cli_models(const cli_flags *f) {
    (void)f;
    return none("models");
}

int hub_model(const cli_flags *f, const char *name, char **path) {
    (void)f;
    *path = NULL;
    return none(name);
}

int hub_is_name(const char *text) {
    (void)text;
    return 0;
}
