/* rows.h - the rows of the table of flags, for flags.c. */
#ifndef CLI_ROWS_H
#define CLI_ROWS_H

#include "cli.h"

/* Commands that have flags in common. */
enum {
    CLI_WITH_CHAIN = CLI_BIGRAM_BUILD | CLI_BACKWARD,
    CLI_BIGRAM = CLI_BIGRAM_BUILD | CLI_BIGRAM_INFO | CLI_BIGRAM_LOOK,
    CLI_WITH_MODEL = CLI_GENERATE | CLI_TOKENIZE | CLI_INFO | CLI_SCORE | CLI_REPLAY | CLI_BENCH |
                     CLI_BIGRAM | CLI_BACKWARD | CLI_SERVE | CLI_CHAT,
    CLI_ANSWERS = CLI_GENERATE | CLI_CHAT,
    CLI_HUB = CLI_PULL | CLI_MODELS,
    CLI_WITH_TEXT = CLI_GENERATE | CLI_TOKENIZE | CLI_SCORE,
    CLI_WITH_JSON = CLI_GENERATE | CLI_RULES | CLI_TOKENIZE | CLI_INFO | CLI_SCORE | CLI_BENCH |
                    CLI_BIGRAM | CLI_BACKWARD | CLI_HUB | CLI_CONVERT,
    CLI_EVERY = CLI_WITH_MODEL | CLI_RULES | CLI_PAIRS | CLI_HUB | CLI_CONVERT
};

/* The program's own rows: before and behind those that settings tables make. Ended by a row
 * without a section. */
extern const cli_option cli_rows_first[], cli_rows_last[];

/* Short form, other spelling, heading and value of a row that a settings table makes; NULL: none,
 * or as the table has it. */
typedef struct cli_extra {
    const char *setting, *brief, *other, *section, *metavar;
} cli_extra;
const cli_extra *cli_extra_of(const char *setting, cli_part part);
/* The commands and the heading of such rows. */
unsigned cli_commands_of(cli_part part);
const char *cli_section_of(cli_part part);

#endif
