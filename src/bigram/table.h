/* table.h - a table to a file and back. */
#ifndef RT_BIGRAM_TABLE_H
#define RT_BIGRAM_TABLE_H

#include "format.h"

/* Reads and checks all of the file. What it leaves in *t when it fails is freed. */
int rt_table_read(rt_table *t, const char *path, retrace_error *err);

/* Writes the table beside `path`, makes sure that it lasts and renames it. When it fails, what was
 * at `path` is untouched. One process at a time may do this for a path. */
int rt_table_write(const rt_table *t, const char *path, retrace_error *err);

#endif
