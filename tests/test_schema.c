/* test_schema.c - what grammars from JSON schemas admit, what they do not, and what is refused.
 *
 * `test_schema walk SEED FILE` reads schemas from a file (a JSON list) and writes texts that their
 * grammars accept, one JSON object a line: random walks over the grammar, and walks that were
 * changed or belong to another schema and are accepted all the same. tests/test_schema.py has an
 * independent validator judge them. */
#include "helper.h"
#include "matching.h"

#include "text/schema.h"

#include <jansson.h>

static int try_schema(rt_earley **out, const char *schema, retrace_error *err) {
    rt_writer w = {{0}, RETRACE_OK};
    rt_grammar *g = NULL;
    int rc = rt_schema_write(&w, text_of(schema), "json", err);
    if (rc == RETRACE_OK)
        rc = rt_gbnf_parse(&g, (retrace_text){w.buf.s, w.buf.n}, text_of("root"), "json", err);
    rt_buf_free(&w.buf);
    return rc ? rc : rt_earley_new(out, g, 1 << 22, "json", err);
}

static rt_earley *schema_matcher(const char *schema) {
    rt_earley *m = NULL;
    retrace_error err = {0};
    if (try_schema(&m, schema, &err)) fail_msg("%s\n%s", err.msg, schema);
    return m;
}

/* ==== What is admitted ==== */

static const struct {
    const char *schema;
    const char *texts[14]; /* after y, b, n: see fits */
} admitted[] = {
    {"{\"type\":\"null\"}", {"ynull", "y null", "y\n  null", "n  null", "bnul", "n0"}},
    {"{\"type\":\"boolean\"}", {"ytrue", "yfalse", "nTrue"}},
    {"true",
     {"y{\"a\":[1,{}]}", "y-0.5e-3", "y\"\\u00e9\\ud83d\\ude00\"", "n\"\\ud83d\"", "n01", "n\"\t\"",
      "y[]", "y[ 1 , 2 ]", "n[1,]", "n{\"a\"}"}},
    {"{}", {"y0", "y\"\""}},
    {"{\"type\":\"integer\"}", {"y0", "y-12", "n1.5", "n1e3", "n+1", "b-"}},
    {"{\"type\":\"integer\",\"minimum\":-3,\"exclusiveMaximum\":12}",
     {"y-3", "y0", "y9", "y11", "n12", "n-4", "n-0", "n10.", "n00"}},
    {"{\"type\":\"integer\",\"minimum\":95,\"maximum\":1203}",
     {"y95", "y99", "y100", "y999", "y1203", "b9", "n1204", "n13000", "n0", "b1"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":1.5}", {"b1", "y2", "y10", "y99999", "n-"}},
    {"{\"type\":\"integer\",\"maximum\":-7}", {"y-7", "y-10", "b-6", "n7", "n0", "y-123456"}},
    {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
     {"y0", "y0.25", "y1", "y1.00", "n1.01", "n-", "b0.", "n2", "n1e"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":2}",
     {"b0", "y0.001", "b0.000", "y1", "y1.999", "n2", "n-"}},
    {"{\"type\":\"number\",\"minimum\":-1}",
     {"y-1", "y-1.0", "n-1.1", "y-0.5", "y0", "y123.456", "n-2"}},
    {"{\"type\":\"string\"}", {"y\"\"", "y\"a\\n\"", "b\"a", "na", "n\"a\n\"", "b\"\xc3"}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"b\"a", "n\"a\"", "y\"ab\"", "y\"\u00e9\\n\u4e2d\"", "n\"abcd"}},
    {"{\"enum\":[\"a\",1,null,1.5,{\"b\":[true]}]}",
     {"y\"a\"", "y1", "ynull", "y1.5", "y{\"b\":[true]}", "n2", "n{ "}},
    {"{\"enum\":[1,\"a\",2.5],\"type\":\"number\"}", {"y1", "y2.5", "n\"a\""}},
    {"{\"const\":\"\\u00e9\\\"\\\\\\n\"}", {"y\"\u00e9\\\"\\\\\\n\"", "n\"e"}},
    {"{\"type\":[\"string\",\"null\"]}", {"y\"a\"", "ynull", "n1"}},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"const\":\"x\"}]}", {"y5", "y\"x\"", "n\"y"}},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}", {"y5", "y\"y\"", "nnull"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":2}",
     {"n[]", "y[true]", "y[ true, false ]", "n[true,true,", "b[true,"}},
    {"{\"type\":\"array\",\"maxItems\":0}", {"y[]", "y[ ]", "n[1"}},
    {"{\"type\":\"array\",\"minItems\":2,\"items\":{\"const\":1}}",
     {"n[1]", "y[1,1]", "y[1,1,1,1]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false}",
     {"y[]", "y[1]", "y[1,2]", "n[2", "n[1,2,"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3},"
     "\"minItems\":2,\"maxItems\":4}",
     {"n[1]", "y[1,2]", "y[1,2,3]", "y[1,2,3,3]", "n[1,2,3,3,"}},
    {"{\"type\":\"object\"}",
     {"y{}", "y{\"a\":1}", "y{ \"a\": 1, \"b\": {} }", "n{a", "n{\"a\":1,}"}},
    {"{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{\"const\":3}},\"required\":["
     "\"b\"]}",
     {"n{}", "y{\"b\":2}", "y{\"a\":1,\"b\":2}", "y{\"b\":2,\"c\":3}", "y{\"a\":1,\"b\":2,\"c\":3}",
      "n{\"c\"", "n{\"a\":1}", "n{\"b\":2,\"a\"", "n{\"a\":2", "n{\"b\":2,}", "y{\n  \"b\": 2 }"}},
    {"{\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":false}",
     {"y{}", "y{\"a\":1}", "n{\"b", "n{\"a\":1,"}},
    {"{\"properties\":{\"ab\":{\"const\":1},\"a\u00e9\":{\"const\":2}},\"additionalProperties\":"
     "{\"const\":0}}",
     {"y{\"ab\":1,\"x\":0}", "y{\"a\":0}", "y{\"abc\":0}", "n{\"ab\":0", "y{\"\":0}",
      "n{\"ab\":1,\"ab\"", "y{\"ab\":1,\"a\u00e9\":2,\"a\":0,\"q\":0}", "n{\"a\\"}},
    {"{\"type\":\"object\",\"required\":[\"z\"]}", {"n{}", "y{\"z\":[]}", "y{\"z\":1,\"y\":2}"}},
    {"{\"$ref\":\"#/$defs/t\",\"$defs\":{\"t\":{\"properties\":{\"k\":{\"$ref\":\"#/$defs/t\"}}}}}",
     {"y{}", "y{\"k\":{\"k\":{}}}", "n{\"k\":1"}},
    {"{\"$ref\":\"#/definitions/a~1b/0\",\"definitions\":{\"a/b\":[{\"const\":4}]}}", {"y4", "n5"}},
    {"{\"allOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},{\"$ref\":\"#/$defs/"
     "b\"}],"
     "\"$defs\":{\"b\":{\"properties\":{\"b\":{\"const\":2}},\"required\":[\"b\"]}}}",
     {"y{\"a\":1,\"b\":2}", "n{\"b\"", "n{\"a\":1}"}},
    {"{\"pattern\":\"^[a-c]+\\\\d{2,3}$\"}",
     {"y\"ab12\"", "y\"c123\"", "n\"1", "n\"a1\"", "n\"a1234"}},
    {"{\"pattern\":\"x|yy\"}", {"y\"x\"", "y\"aayyb\"", "b\"y", "n\"y\""}},
    {"{\"pattern\":\"^(?:a\\\\.|\\\\\\\\|[^x-z])$\"}",
     {"y\"a.\"", "y\"\\\\\"", "y\"\\\"\"", "n\"x", "n\"ab", "y\"\u00e9\""}},
    {"{\"pattern\":\"^\\\\w\\\\s?\\\\W\\\\S\\\\D\\\\u00e9$\"}",
     {"y\"a -b-\u00e9\"", "n\"-", "n\"ab"}},
    {"{\"format\":\"date\"}",
     {"y\"2024-12-31\"", "n\"2024-13", "n\"2023-02-29", "y\"2023-04-30\"", "n\"2023-04-31"}},
    {"{\"format\":\"date-time\"}",
     {"y\"2024-12-31T23:59:00Z\"", "y\"2024-01-01T00:00:00.5+01:30\"", "n\"2024-01-01 "}},
    {"{\"format\":\"uuid\"}",
     {"y\"01234567-89ab-cdef-0123-456789abcdef\"", "n\"01234567-89ab-cdeg"}},
    {"{\"format\":\"ipv4\"}", {"y\"1.20.199.0\"", "y\"10.0.0.255\"", "n\"1.2.3.256", "n\"01"}},
};

static void texts_are_admitted_or_not(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(admitted); i++) {
        rt_earley *m = schema_matcher(admitted[i].schema);
        for (int k = 0; k < 14 && admitted[i].texts[k]; k++) {
            const char *t = admitted[i].texts[k];
            char is = fits(m, t + 1);
            if (is != t[0]) fail_msg("%s\n'%s' is %c", admitted[i].schema, t, is);
        }
        rt_earley_free(m);
    }
}

/* ==== Numbers, all of them ==== */

static void every_bound_is_exact(void **state) {
    (void)state;
    static const int bounds[] = {-1001, -100, -99, -10, -9, -1,  0,   1,
                                 5,     9,    10,  19,  99, 100, 345, 1000};
    for (int a = 0; a < COUNT(bounds); a++) {
        for (int b = a; b < COUNT(bounds); b++) {
            char schema[120], text[16];
            snprintf(schema, sizeof schema, "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}",
                     bounds[a], bounds[b]);
            rt_earley *m = schema_matcher(schema);
            for (int x = -1205; x <= 1205; x++) {
                snprintf(text, sizeof text, "%d", x);
                int is = x >= bounds[a] && x <= bounds[b];
                if ((fits(m, text) == 'y') != is) fail_msg("%s: %s", schema, text);
            }
            rt_earley_free(m);
        }
    }
}

static void every_fraction_is_within(void **state) {
    (void)state;
    static const int bounds[] = {-20, -3, -1, 0, 1, 2, 10, 12};
    for (int i = 0; i < COUNT(bounds) * COUNT(bounds) * 4; i++) {
        int low = bounds[i / 4 % COUNT(bounds)], high = bounds[i / 4 / COUNT(bounds)];
        int open_low = i & 1, open_high = i >> 1 & 1;
        char schema[160], text[24];
        rt_earley *m = NULL;
        retrace_error err = {0};
        snprintf(schema, sizeof schema, "{\"type\":\"number\",\"%s\":%d,\"%s\":%d}",
                 open_low ? "exclusiveMinimum" : "minimum", low,
                 open_high ? "exclusiveMaximum" : "maximum", high);
        int some = low < high || (low == high && !open_low && !open_high);
        assert_int_equal(try_schema(&m, schema, &err), some ? RETRACE_OK : RETRACE_EUSAGE);
        for (int x = -2200; some && x <= 1300; x++) {
            snprintf(text, sizeof text, "%s%d.%02d", x < 0 ? "-" : "", abs(x) / 100, abs(x) % 100);
            int is = (open_low ? x > 100 * low : x >= 100 * low) &&
                     (open_high ? x < 100 * high : x <= 100 * high);
            if ((fits(m, text) == 'y') != is) fail_msg("%s: %s", schema, text);
        }
        rt_earley_free(m);
    }
}

/* ==== What is refused ==== */

static const struct {
    const char *schema, *message;
} refused[] = {
    {"", "json: schema is no JSON: line 1"},
    {"{\"a\":1,\"a\":2}", "duplicate"},
    {"[]", "json: schema: #: a schema must be an object or a boolean"},
    {"false", "json: schema: #: false: no value is valid"},
    {"{\"type\":\"text\"}", "json: schema: #/type: is none of null"},
    {"{\"type\":[]}", "json: schema: #/type: names no type"},
    {"{\"foo\":1}", "json: schema: #/foo: this keyword is not supported"},
    {"{\"name\":\"a\",\"strict\":true,\"schema\":{\"type\":\"null\"}}",
     "#/name: this keyword is not supported; is what stands in \"schema\" meant?"},
    {"{\"properties\":{\"a\":{\"type\":\"array\",\"uniqueItems\":true}}}",
     "json: schema: #/properties/a/uniqueItems: this keyword is not supported"},
    {"{\"type\":\"integer\",\"multipleOf\":2}", "#/multipleOf: this keyword is not supported"},
    {"{\"patternProperties\":{}}", "#/patternProperties: this keyword is not supported"},
    {"{\"if\":{}}", "#/if: this"},
    {"{\"not\":{}}", "#/not: this"},
    {"{\"items\":[{}]}", "#/items: a list is not supported here; use prefixItems"},
    {"{\"items\":{\"foo\":1}}", "#/items/foo: this"},
    {"{\"additionalProperties\":{\"foo\":1}}", "#/additionalProperties/foo: this"},
    {"{\"prefixItems\":[true,{\"foo\":1}]}", "#/prefixItems/1/foo: this"},
    {"{\"anyOf\":[{\"foo\":1}]}", "#/anyOf/0/foo: this"},
    {"{\"anyOf\":[]}", "#/anyOf: must be a list of schemas"},
    {"{\"anyOf\":[{}],\"type\":\"object\"}", "#/type: is not supported beside enum"},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "#/oneOf: a value may fit two"},
    {"{\"$ref\":\"#/$defs/x\"}", "#/$ref: leads nowhere"},
    {"{\"$ref\":\"other.json\"}", "#/$ref: only references within the schema"},
    {"{\"$ref\":\"#\"}", "can never be finished"},
    {"{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "can never be finished"},
    {"{\"allOf\":[{\"$ref\":\"#/allOf/0\"}]}", "#/$ref: goes round in a circle"},
    {"{\"allOf\":[{\"minimum\":1},{\"minimum\":2}]}", "#/allOf: these schemas cannot be merged"},
    {"{\"allOf\":[{\"additionalProperties\":false},{\"properties\":{}}]}",
     "#/allOf: additionalProperties"},
    {"{\"enum\":[]}", "#/enum: must be a list of values"},
    {"{\"enum\":[1],\"type\":\"string\"}", "#/enum: no value has the type"},
    {"{\"const\":1,\"type\":\"string\"}", "#/const: no value has the type"},
    {"{\"enum\":[1],\"minimum\":0}", "#/minimum: is not supported beside enum"},
    {"{\"required\":\"a\"}", "#/required: must be a list"},
    {"{\"required\":[\"a\"],\"additionalProperties\":false}", "#/required: names a property"},
    {"{\"minLength\":-1}", "#/minLength: must be a whole number"},
    {"{\"maxLength\":100000}", "#/maxLength: must be a whole number from 0 to 10000"},
    {"{\"minLength\":3,\"maxLength\":2}", "#/minLength: is more than maxLength"},
    {"{\"minItems\":3,\"maxItems\":2}", "#/minItems: is more than maxItems"},
    {"{\"minItems\":2,\"prefixItems\":[{}],\"items\":false}",
     "#/minItems: there cannot be so many"},
    {"{\"format\":\"regex\"}", "#/format: only date"},
    {"{\"pattern\":\"a\",\"maxLength\":3}", "#/pattern: is not supported beside"},
    {"{\"pattern\":\"(a\"}", "json: schema: #: pattern: at byte 0: this parenthesis is not closed"},
    {"{\"pattern\":\"a)\"}", "pattern: at byte 1: a parenthesis too many"},
    {"{\"pattern\":\"(?=a)\"}", "pattern: at byte 0: groups that begin with (?"},
    {"{\"pattern\":\"a*?\"}", "pattern: at byte 2: lazy"},
    {"{\"pattern\":\"a\\\\b\"}", "pattern: at byte 2: this escape is not supported"},
    {"{\"pattern\":\"a^b\"}", "pattern: at byte 1: ^ and $"},
    {"{\"pattern\":\"^a|b\"}", "pattern: at byte 0: ^ or $ beside |"},
    {"{\"pattern\":\"[a\"}", "pattern: at byte 0: this class is not closed"},
    {"{\"pattern\":\"[[:alpha:]]\"}", "named classes"},
    {"{\"pattern\":\"\\\\n\"}", "only control characters"},
    {"{\"pattern\":\"{2}\"}", "nothing to repeat"},
    {"{\"pattern\":\"a{3,2}\"}", "bounds cannot be read"},
    {"{\"type\":\"number\",\"minimum\":0.5}", "#/minimum: only whole bounds"},
    {"{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}",
     "json: schema: #: no number lies within"},
    {"{\"minimum\":\"1\"}", "#/minimum: must be a number"},
    {"{\"minimum\":1e300}", "#/minimum: is supported up to 9e15"},
};

static void what_is_not_supported_is_named(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(refused); i++) {
        rt_earley *m = NULL;
        retrace_error err = {0};
        int rc = try_schema(&m, refused[i].schema, &err);
        if (rc != RETRACE_EUSAGE || m) fail_msg("%s: %d", refused[i].schema, rc);
        if (!strstr(err.msg, refused[i].message))
            fail_msg("%s\n'%s'\nnot '%s'", refused[i].schema, err.msg, refused[i].message);
    }
}

static void depth_is_limited(void **state) {
    (void)state;
    char schema[5000] = "";
    size_t n = 0;
    for (int i = 0; i < 150; i++)
        n += (size_t)snprintf(schema + n, sizeof schema - n, "{\"items\":");
    n += (size_t)snprintf(schema + n, sizeof schema - n, "{}");
    for (int i = 0; i < 150; i++) n += (size_t)snprintf(schema + n, sizeof schema - n, "}");
    rt_earley *m = NULL;
    retrace_error err = {0};
    assert_int_equal(try_schema(&m, schema, &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "nested too deeply"));
}

/* ==== Walks, for an independent judge ==== */

enum { MAX_TEXT = 600 };

static uint64_t seed;

/* Likes what brings a text to its end. */
static int weight(int c) {
    if (c == '"' || c == '}' || c == ']') return 60;
    if (c == ',' || c == '{' || c == '[') return 12;
    if (c == '\\') return 6;
    return c >= 0x80 || c == ' ' || c == '\n' || c == '\t' ? 1 : 3;
}

/* Length of a random text; 0: it did not end in time. */
static size_t walk(rt_earley *m, char *text) {
    rt_earley_state *at = rt_earley_start(m);
    retrace_error err = {0};
    for (size_t n = 0; n < MAX_TEXT; n++) {
        int weights[256], sum = 0;
        rt_earley_state *to;
        rt_earley_keep(at);
        for (int c = 0; c < 256; c++) {
            int rc = rt_earley_step(m, at, (unsigned char)c, &to, &err);
            if (rc) fail_msg("%s", err.msg);
            sum += weights[c] = to ? weight(c) : 0;
        }
        if (rt_earley_can_end(at) && (sum == 0 || roll_from(&seed, 3))) return n;
        if (sum == 0) fail_msg("nothing may follow");
        int k = roll_from(&seed, sum), c = 0;
        while (k >= weights[c]) k -= weights[c++];
        text[n] = (char)c;
        rt_earley_step(m, at, (unsigned char)c, &to, &err);
        rt_earley_drop(at);
        at = to;
    }
    return 0;
}

static void print_text(size_t schema, const char *text, size_t n) {
    json_t *line = json_pack("{s:i, s:s%}", "schema", (int)schema, "text", text, n);
    if (!line) fail_msg("not a text");
    json_dumpf(line, stdout, JSON_COMPACT);
    printf("\n");
    json_decref(line);
}

/* One to three small changes; the new length. */
static size_t change(char *text, size_t n) {
    static const char bytes[] = "\"{}[],:0123456789.-eE+ \ntruefalsnabcx\\";
    for (int edits = 1 + roll_from(&seed, 3); edits > 0 && n > 1; edits--) {
        size_t at = (size_t)roll_from(&seed, (int)n);
        char c = bytes[roll_from(&seed, (int)sizeof bytes - 1)];
        int what = roll_from(&seed, 4);
        if (what == 0) {
            memmove(text + at, text + at + 1, n - at - 1);
            n--;
        } else if (what == 1) {
            memmove(text + at + 1, text + at, n - at);
            text[at] = c;
            n++;
        } else if (what == 2) {
            text[at] = c;
        } else if (at + 1 < n) {
            c = text[at];
            text[at] = text[at + 1];
            text[at + 1] = c;
        }
    }
    return n;
}

static int write_walks(const char *from, const char *file) {
    json_error_t at;
    json_t *list = json_load_file(file, 0, &at);
    size_t n = json_array_size(list);
    static rt_earley *m[200];
    if (n == 0 || n > 200) return 1;
    seed = strtoull(from, NULL, 10);
    for (size_t i = 0; i < n; i++) {
        char *schema = json_dumps(json_array_get(list, i), JSON_ENCODE_ANY);
        m[i] = schema_matcher(schema);
        free(schema);
    }
    for (size_t i = 0; i < n; i++) {
        for (int round = 0; round < 30; round++) {
            char text[MAX_TEXT + 8], changed[MAX_TEXT + 8];
            size_t k = walk(m[i], text);
            if (k == 0) continue;
            print_text(i, text, k);
            for (int more = 0; more < 30; more++) {
                memcpy(changed, text, k);
                size_t length = change(changed, k);
                if (fits_bytes(m[i], changed, length) == 'y') print_text(i, changed, length);
            }
            for (size_t other = 0; other < n; other++)
                if (other != i && fits_bytes(m[other], text, k) == 'y') print_text(other, text, k);
        }
    }
    for (size_t i = 0; i < n; i++) rt_earley_free(m[i]);
    json_decref(list);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_admitted_or_not),
        cmocka_unit_test(every_bound_is_exact),
        cmocka_unit_test(every_fraction_is_within),
        cmocka_unit_test(what_is_not_supported_is_named),
        cmocka_unit_test(depth_is_limited),
    };
    if (argc == 4 && strcmp(argv[1], "walk") == 0) return write_walks(argv[2], argv[3]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
