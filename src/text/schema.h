/* schema.h - JSON schemas as grammars.
 *
 * What a grammar from a schema admits is valid by the schema; the reverse need not hold (properties
 * come in the schema's order, no white space but a little, no properties that are not named unless
 * additionalProperties allows them, bounded numbers without exponents). A keyword that is not
 * supported is refused by name and place, never passed over.
 *
 * Supported: type (one or several), properties, required, additionalProperties; items, prefixItems,
 * minItems, maxItems; enum, const; anyOf, oneOf of alternatives that exclude each other, allOf that
 * can be merged; $ref within the schema, recursive too; minLength, maxLength, pattern (pattern.h),
 * format date, time, date-time, uuid, ipv4, email; minimum, maximum and the exclusive ones, for
 * numbers that are not integers with whole bounds. */
#ifndef RT_SCHEMA_H
#define RT_SCHEMA_H

#include "gbnf_write.h"

enum { RT_SCHEMA_MAX_TEXT = 1 << 20, RT_SCHEMA_MAX_DEPTH = 100 };

/* Writes a grammar in GBNF whose rule `root` is the JSON texts of the schema. `what` begins
 * messages. */
int rt_schema_write(rt_writer *w, retrace_text schema, const char *what, retrace_error *err);

/* The same for any JSON: an object, or any value. */
int rt_schema_write_any(rt_writer *w, int object_only, retrace_error *err);

#endif
