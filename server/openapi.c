/* openapi.c - the interface as an OpenAPI 3.1 document, made from the tables of routes and fields.
 *
 * Properties carry beside their schema what docs/http.md shows: x-default in words, x-aliases, and
 * x-most-bytes where a limit counts bytes (maxLength counts characters). The document is made once,
 * at start. */
#include "read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A document part written down as JSON; it is ours, so it can be read. */
static json_t *part(const char *text) {
    json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);
    return j ? j : json_object();
}

/* ==== Fields ==== */

/* The schema of a type of field; numbers, texts and limits are put in behind. */
static const struct kind {
    const char *type, *schema;
} kinds[] = {
    {"int", "{\"type\":[\"integer\",\"null\"]}"},
    {"int or bool", "{\"type\":[\"integer\",\"boolean\",\"null\"]}"},
    {"number", "{\"type\":[\"number\",\"null\"]}"},
    {"bool", "{\"type\":[\"boolean\",\"null\"]}"},
    {"string", "{\"type\":[\"string\",\"null\"]}"},
    {"object", "{\"type\":[\"object\",\"null\"]}"},
    {"any", "{}"},
    {"list", "{\"type\":[\"array\",\"null\"],\"maxItems\":0}"},
    {"strings", "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":"
                "\"string\"}},{\"type\":\"null\"}]}"},
    {"bias", "{\"anyOf\":[{\"type\":\"object\",\"additionalProperties\":{\"$ref\":"
             "\"#/components/schemas/Bias\"}},{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":"
             "\"array\",\"minItems\":2,\"maxItems\":2,\"prefixItems\":[{\"type\":[\"integer\","
             "\"string\"]},{\"$ref\":\"#/components/schemas/Bias\"}]},{\"type\":\"object\","
             "\"required\":[\"id\",\"bias\"],\"properties\":{\"id\":{\"type\":[\"integer\","
             "\"string\"]},\"bias\":{\"$ref\":\"#/components/schemas/Bias\"}}}]}},{\"type\":"
             "\"null\"}]}"},
    {"rules", "{\"type\":[\"array\",\"null\"],\"items\":{\"$ref\":\"#/components/schemas/Rule\"}}"},
    {"bans", "{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^[0-9, ]*$\"},{\"type\":\"array\","
             "\"items\":{\"type\":[\"string\",\"integer\"]}},{\"type\":\"null\"}]}"},
    {"ids", "{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^[0-9, ]*$\"},{\"type\":\"array\","
            "\"items\":{\"type\":\"integer\",\"minimum\":0}},{\"type\":\"null\"}]}"},
    {"schema", "{\"type\":[\"object\",\"boolean\",\"string\",\"null\"]}"},
    {"breakers", "{\"anyOf\":[{\"type\":\"array\",\"items\":{\"type\":\"string\"}},{\"type\":"
                 "\"string\",\"contentMediaType\":\"application/json\"},{\"type\":\"null\"}]}"},
    {"prompt", "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"minItems\":1,\"items\":{"
               "\"type\":[\"string\",\"integer\",\"array\"]}}]}"},
    {"messages", "{\"type\":\"array\",\"minItems\":1,\"items\":{\"$ref\":"
                 "\"#/components/schemas/Message\"}}"},
};

/* A bound of a number; whole ones are written as such. The largest is that of 64 bits. */
static void put_number(json_t *o, const char *key, double x) {
    int is_whole = x == floor(x) && fabs(x) < 9e15;
    json_t *j = is_whole ? json_integer((json_int_t)x) : json_real(x);
    if (x >= (double)INT64_MAX) {
        json_decref(j);
        j = json_integer(INT64_MAX);
    }
    json_object_set_new(o, key, j);
}

static void put_limits(json_t *o, const srv_field *f) {
    int is_number = strncmp(f->type, "int", 3) == 0 || strcmp(f->type, "number") == 0;
    if (f->most > 0) json_object_set_new(o, "x-most", json_integer(f->most));
    if (f->min == f->max) return;
    if (is_number) put_number(o, "minimum", f->min);
    if (is_number) put_number(o, "maximum", f->max);
    if (is_number || strcmp(f->type, "bias") == 0) return;
    put_number(o, "x-most-bytes", f->max);
    if (strcmp(f->type, "string") == 0) put_number(o, "maxLength", f->max);
}

/* "a|b|c" at the beginning of the help are the values of a choice. */
static void put_choices(json_t *o, const srv_field *f) {
    size_t n = strspn(f->help, "abcdefghijklmnopqrstuvwxyz-|");
    if (strcmp(f->type, "string") != 0 || !memchr(f->help, '|', n)) return;
    json_t *list = json_array();
    for (size_t i = 0, len; i < n; i += len + 1) {
        len = strcspn(f->help + i, "|: ");
        json_array_append_new(list, json_stringn(f->help + i, len));
    }
    json_array_append_new(list, json_null());
    json_object_set_new(o, "enum", list);
}

/* Tables that several routes share are described once in docs/http.md. */
static const char *table_of(const srv_field *table) {
    if (table == srv_fields_common) return "common";
    return table == srv_fields_rules ? "rules" : "own";
}

static json_t *field_json(const srv_field *f) {
    const char *schema = "{}";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].type, f->type) == 0) schema = kinds[i].schema;
    json_t *o = part(schema);
    json_object_set_new(o, "description", json_string(f->help));
    json_object_set_new(o, "x-kind", json_string(f->type));
    if (f->preset) json_object_set_new(o, "x-default", json_string(f->preset));
    if (f->aliases) json_object_set_new(o, "x-aliases", json_string(f->aliases));
    put_limits(o, f);
    put_choices(o, f);
    return o;
}

/* The other names, each with what it stands for. */
static void put_aliases(json_t *properties, const srv_field *f) {
    for (const char *a = f->aliases; a && *a;) {
        size_t n = strcspn(a, "|");
        json_t *o = field_json(f);
        json_object_del(o, "x-aliases");
        json_object_set_new(o, "x-alias-of", json_string(f->name));
        char *name = cli_copy(a, n);
        json_object_set_new(properties, name, o);
        free(name);
        a += n + (a[n] == '|');
    }
}

static json_t *body_json(const srv_field *const *tables) {
    json_t *properties = json_object(), *required = json_array();
    for (; *tables; tables++) {
        for (const srv_field *f = *tables; f->name; f++) {
            json_t *o = field_json(f);
            json_object_set_new(o, "x-table", json_string(table_of(*tables)));
            json_object_set_new(properties, f->name, o);
            if (f->preset && strcmp(f->preset, "required") == 0)
                json_array_append_new(required, json_string(f->name));
        }
    }
    json_t *o = json_pack("{s:s, s:o, s:b}", "type", "object", "properties", properties,
                          "additionalProperties", 1);
    if (json_array_size(required))
        json_object_set_new(o, "required", required);
    else
        json_decref(required);
    return o;
}

static void add_aliases(json_t *body, const srv_field *const *tables) {
    json_t *properties = json_object_get(body, "properties");
    for (; *tables; tables++)
        for (const srv_field *f = *tables; f->name; f++) put_aliases(properties, f);
}

/* ==== Answers ==== */

/* What a route answers with: the schema's name, and whether it can be a stream. */
static const struct answer {
    const char *path, *schema;
    int stream;
} answers[] = {
    {"/v1/completions", "Completion", 1},
    {"/v1/chat/completions", "ChatCompletion", 1},
    {"/completion", "Llama", 1},
    {"/v1/rewind", "Anything", 1},
    {"/v1/backward", "Backward", 1},
    {"/v1/models", "Models", 0},
    {"/v1/models/{id}", "Model", 0},
    {"/tokenize", "Tokens", 0},
    {"/detokenize", "Text", 0},
    {"/apply-template", "Prompt", 0},
    {"/v1/rules", "Rules", 0},
    {"/v1/completions/{id}/alternatives", "Alternatives", 0},
};

static const struct answer *answer_of(const char *path) {
    static const struct answer other = {"", "Anything", 0};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (strcmp(answers[i].path, path) == 0) return &answers[i];
    return &other;
}

static json_t *ref(const char *kind, const char *name) {
    cli_buf b = {0};
    cli_printf(&b, "#/components/%s/%s", kind, name);
    json_t *o = json_pack("{s:s}", "$ref", b.s);
    cli_buf_free(&b);
    return o;
}

static json_t *ok_json(const srv_route *r) {
    const struct answer *a = answer_of(r->path);
    json_t *content = json_object();
    if (strcmp(r->path, "/metrics") == 0)
        json_object_set_new(content, "text/plain", part("{\"schema\":{\"type\":\"string\"}}"));
    else
        json_object_set_new(content, "application/json",
                            json_pack("{s:o}", "schema", ref("schemas", a->schema)));
    if (a->stream) json_object_set_new(content, "text/event-stream", json_object());
    return json_pack("{s:s, s:o}", "description", "The answer", "content", content);
}

static void put_error(json_t *responses, const char *status) {
    json_object_set_new(responses, status, ref("responses", status));
}

/* Whether the path names a completion. */
static int is_of_kept(const srv_route *r) {
    return strstr(r->path, "/completions/{id}") != NULL;
}

static json_t *responses_json(const srv_route *r) {
    json_t *o = json_object();
    json_object_set_new(o, "200", ok_json(r));
    if (!r->open) put_error(o, "401");
    int of_kept = is_of_kept(r) || strcmp(r->path, "/v1/rewind") == 0;
    if (strcmp(r->method, "POST") == 0 || of_kept) put_error(o, "400");
    put_error(o, "403");
    if (of_kept || strstr(r->path, "{id}")) put_error(o, "404");
    if (of_kept) put_error(o, "409");
    static const char *const always[] = {"405", "408", "414", "429", "431", "500", "501", "503"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) put_error(o, always[i]);
    if (strcmp(r->method, "POST") == 0) {
        put_error(o, "413");
        put_error(o, "415");
    }
    return o;
}

/* ==== Routes ==== */

static json_t *parameters_of(const srv_route *r) {
    if (!strstr(r->path, "{id}")) return json_array();
    if (!is_of_kept(r))
        return part("[{\"name\":\"id\",\"in\":\"path\",\"required\":true,\"schema\":{\"type\":"
                    "\"string\"},\"description\":\"the model's name\"}]");
    return part(
        "[{\"name\":\"id\",\"in\":\"path\",\"required\":true,\"schema\":{\"type\":\"string\","
        "\"pattern\":\"^(cmpl|chatcmpl)-[0-9a-f]{32}$\"},\"description\":\"of the "
        "completion\"},"
        "{\"name\":\"pos\",\"in\":\"query\",\"required\":true,\"schema\":{\"type\":"
        "\"integer\",\"minimum\":0},\"description\":\"the place: before the token of this "
        "number\"},"
        "{\"name\":\"k\",\"in\":\"query\",\"schema\":{\"type\":\"integer\",\"minimum\":1},"
        "\"description\":\"how many; 10\"},"
        "{\"name\":\"choice\",\"in\":\"query\",\"schema\":{\"type\":\"integer\","
        "\"minimum\":0},\"description\":\"the index of the choice; 0\"}]");
}

/* "/v1/chat/completions" and POST: "post_v1_chat_completions". */
static json_t *operation_id(const char *method, const char *path) {
    cli_buf b = {0};
    for (; *method; method++) cli_printf(&b, "%c", *method | 0x20);
    for (; *path; path++) {
        int plain = strchr("abcdefghijklmnopqrstuvwxyz0123456789", *path) != NULL;
        if (*path != '{' && *path != '}') cli_put(&b, plain ? path : "_", 1);
    }
    json_t *j = json_string(b.s);
    cli_buf_free(&b);
    return j;
}

static json_t *route_json(const srv_route *r, const char *path) {
    json_t *o =
        json_pack("{s:s, s:o}", "summary", r->help, "operationId", operation_id(r->method, path));
    json_t *parameters = parameters_of(r);
    if (json_array_size(parameters)) json_object_set(o, "parameters", parameters);
    json_decref(parameters);
    if (r->open) json_object_set_new(o, "security", json_array());
    if (r->fields) {
        json_t *body = body_json(r->fields);
        add_aliases(body, r->fields);
        json_object_set_new(o, "requestBody",
                            json_pack("{s:b, s:{s:{s:o}}}", "required", 1, "content",
                                      "application/json", "schema", body));
    }
    json_object_set_new(o, "responses", responses_json(r));
    return o;
}

static void put_route(json_t *paths, const srv_route *r, const char *path) {
    json_t *at = json_object_get(paths, path);
    cli_buf method = {0};
    if (!at) json_object_set_new(paths, path, at = json_object());
    for (const char *m = r->method; *m; m++) cli_printf(&method, "%c", *m | 0x20);
    json_object_set_new(at, method.s, route_json(r, path));
    cli_buf_free(&method);
}

static json_t *paths_json(void) {
    json_t *paths = json_object();
    const srv_route *r;
    for (int i = 0; (r = srv_route_at(i)); i++) {
        put_route(paths, r, r->path);
        if (r->other) put_route(paths, r, r->other);
    }
    return paths;
}

/* ==== Components ==== */

static const struct named {
    const char *name, *text;
} schemas[] = {
    {"Anything", "{\"type\":\"object\"}"},
    {"Bias", "{\"anyOf\":[{\"type\":\"number\",\"maximum\":100},{\"const\":false}]}"},
    {"Message",
     "{\"type\":\"object\",\"required\":[\"role\",\"content\"],\"properties\":{\"role\":{\"enum\":["
     "\"system\",\"developer\",\"user\",\"assistant\"]},\"content\":{\"anyOf\":[{\"type\":"
     "\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"type\","
     "\"text\"],\"properties\":{\"type\":{\"const\":\"text\"},\"text\":{\"type\":\"string\"}}}},{"
     "\"type\":\"null\"}]}}}"},
    {"Usage",
     "{\"type\":\"object\",\"required\":[\"prompt_tokens\",\"completion_tokens\","
     "\"total_tokens\"],\"properties\":{\"prompt_tokens\":{\"type\":\"integer\"},"
     "\"completion_tokens\":{\"type\":\"integer\"},\"total_tokens\":{\"type\":\"integer\"}}}"},
    {"Completion",
     "{\"type\":\"object\",\"required\":[\"id\",\"object\",\"created\",\"model\",\"choices\","
     "\"usage\"],\"properties\":{\"id\":{\"type\":\"string\"},\"object\":{\"const\":"
     "\"text_completion\"},\"created\":{\"type\":\"integer\"},\"model\":{\"type\":\"string\"},"
     "\"choices\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\",\"required\":["
     "\"index\",\"text\",\"finish_reason\"],\"properties\":{\"index\":{\"type\":\"integer\"},"
     "\"text\":{\"type\":\"string\"},\"finish_reason\":{\"enum\":[\"stop\",\"length\","
     "\"content_filter\",null]}}}},\"usage\":{\"$ref\":\"#/components/schemas/"
     "Usage\"},\"retrace\":{"
     "\"type\":\"object\"}}}"},
    {"ChatCompletion",
     "{\"type\":\"object\",\"required\":[\"id\",\"object\",\"created\",\"model\",\"choices\","
     "\"usage\"],\"properties\":{\"id\":{\"type\":\"string\"},\"object\":{\"const\":"
     "\"chat.completion\"},\"created\":{\"type\":\"integer\"},\"model\":{\"type\":\"string\"},"
     "\"choices\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\",\"required\":["
     "\"index\",\"message\",\"finish_reason\"],\"properties\":{\"index\":{\"type\":\"integer\"},"
     "\"message\":{\"type\":\"object\",\"required\":[\"role\",\"content\"]},\"finish_reason\":{"
     "\"enum\":[\"stop\",\"length\",\"content_filter\",null]}}}},\"usage\":{\"$ref\":"
     "\"#/components/schemas/Usage\"},\"retrace\":{\"type\":\"object\"}}}"},
    {"LlamaChoice", "{\"type\":\"object\",\"required\":[\"index\",\"content\",\"stop\"],"
                    "\"properties\":{\"index\":{\"type\":\"integer\"},\"content\":{\"type\":"
                    "\"string\"},\"stop\":{\"type\":\"boolean\"}}}"},
    {"Llama", "{\"anyOf\":[{\"$ref\":\"#/components/schemas/LlamaChoice\"},{\"type\":\"array\","
              "\"items\":{\"$ref\":\"#/components/schemas/LlamaChoice\"}}]}"},
    {"Backward", "{\"type\":\"object\",\"required\":[\"suffix\",\"samples\"],\"properties\":{"
                 "\"suffix\":{\"type\":\"string\"},\"samples\":{\"type\":\"array\"}}}"},
    {"Model", "{\"type\":\"object\",\"required\":[\"id\",\"object\",\"created\",\"owned_by\"],"
              "\"properties\":{\"id\":{\"type\":\"string\"},\"object\":{\"const\":\"model\"},"
              "\"created\":{\"type\":\"integer\"},\"owned_by\":{\"type\":\"string\"}}}"},
    {"Models",
     "{\"type\":\"object\",\"required\":[\"object\",\"data\"],\"properties\":{\"object\":{"
     "\"const\":\"list\"},\"data\":{\"type\":\"array\",\"items\":{\"$ref\":"
     "\"#/components/schemas/Model\"}}}}"},
    {"Tokens", "{\"type\":\"object\",\"required\":[\"tokens\",\"count\",\"max_model_len\"],"
               "\"properties\":{\"tokens\":{\"type\":\"array\"},\"count\":{\"type\":\"integer\"},"
               "\"max_model_len\":{\"type\":\"integer\"}}}"},
    {"Text",
     "{\"type\":\"object\",\"required\":[\"content\",\"prompt\"],\"properties\":{\"content\":"
     "{\"type\":\"string\"},\"prompt\":{\"type\":\"string\"}}}"},
    {"Prompt",
     "{\"type\":\"object\",\"required\":[\"prompt\"],\"properties\":{\"prompt\":{\"type\":"
     "\"string\"}}}"},
    {"Rules", "{\"type\":\"object\",\"required\":[\"rules\",\"drivers\"]}"},
    {"Alternatives", "{\"type\":\"object\",\"required\":[\"id\",\"choice\",\"pos\",\"prefix\","
                     "\"alternatives\"]}"},
    {"Error",
     "{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":\"object\","
     "\"required\":[\"message\",\"type\",\"code\",\"param\"],\"properties\":{\"message\":{\"type\":"
     "\"string\"},\"type\":{\"type\":\"string\"},\"code\":{\"type\":[\"string\",\"null\"]},"
     "\"param\":{\"type\":[\"string\",\"null\"]}}}}}"},
};

static const struct named errors[] = {
    {"400", "The request is wrong; param names the field"},
    {"401", "The API key is missing or wrong"},
    {"403", "This Host or Origin is not allowed"},
    {"404", "There is no such thing, or it is another key's"},
    {"405", "The path has no such method"},
    {"408", "The request came too slowly"},
    {"409", "The completion is still being written"},
    {"413", "The body is larger than the server takes"},
    {"414", "The request line is too long"},
    {"415", "The body is not application/json"},
    {"429", "Too many requests wait; Retry-After says when to come back"},
    {"431", "The headers are too long, or too many"},
    {"500", "The model failed"},
    {"501", "Not offered"},
    {"503", "The request waited or ran too long, or the server ends"},
};

/* Rules by name; their settings are in GET /v1/rules. */
static json_t *rule_schema(void) {
    retrace_plugin_info p;
    json_t *names = json_array();
    for (int i = 0; retrace_rule_at(i, &p); i++) json_array_append_new(names, json_string(p.name));
    return json_pack("{s:s, s:[s], s:{s:{s:o}}}", "type", "object", "required", "name",
                     "properties", "name", "enum", names);
}

static json_t *schemas_json(void) {
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        json_object_set_new(o, schemas[i].name, part(schemas[i].text));
    json_object_set_new(o, "Rule", rule_schema());
    return o;
}

static json_t *errors_json(void) {
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        json_object_set_new(o, errors[i].name,
                            json_pack("{s:s, s:{s:{s:o}}}", "description", errors[i].text,
                                      "content", "application/json", "schema",
                                      ref("schemas", "Error")));
    return o;
}

/* Limits that are no field's, for docs/http.md. */
static const struct limit {
    const char *what;
    int value;
} limits[] = {
    {"levels of JSON in a body", SRV_MAX_DEPTH},
    {"values of JSON in a body", SRV_MAX_VALUES},
    {"choices of a prompt (n)", SRV_MAX_CHOICES},
    {"prompts of a request", SRV_MAX_PROMPTS},
    {"choices of a request in all", SRV_MAX_SEQUENCES},
    {"messages of a chat", SRV_MAX_MESSAGES},
    {"stop texts", SRV_MAX_STOPS},
    {"bytes of a stop text", SRV_MAX_STOP},
    {"entries of logit_bias", SRV_MAX_BIAS},
    {"log-probabilities beside the chosen one", SRV_MAX_TOP},
    {"rules", SRV_MAX_RULES},
    {"banned phrases, lists not counted", SRV_MAX_PHRASES},
    {"bytes of a banned phrase", SRV_MAX_PHRASE},
    {"bytes of all banned phrases", SRV_MAX_PHRASE_BYTES},
    {"banned regular expressions", SRV_MAX_PATTERNS},
    {"bytes of a regular expression", SRV_MAX_PATTERN},
    {"entries of a list of token ids that are banned", SRV_MAX_TOKEN_BANS},
    {"ban lists named", SRV_MAX_LISTS},
    {"bytes of the lists named", SRV_MAX_LIST_BYTES},
    {"bytes of a grammar or schema", SRV_MAX_GRAMMAR},
};

static json_t *limits_json(void) {
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:i}", "what", limits[i].what, "most", limits[i].value));
    return list;
}

json_t *srv_openapi(const srv *s) {
    json_t *o = json_pack("{s:s, s:{s:s, s:s, s:s}}", "openapi", "3.1.0", "info", "title",
                          "retrace", "version", retrace_version(), "description",
                          "Generation that can take tokens back, over HTTP.");
    json_object_set_new(o, "paths", paths_json());
    json_object_set_new(
        o, "components",
        json_pack("{s:o, s:o}", "schemas", schemas_json(), "responses", errors_json()));
    json_object_set_new(json_object_get(o, "components"), "securitySchemes",
                        part("{\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\"},\"key\":{"
                             "\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"X-Api-Key\"}}"));
    json_object_set_new(o, "x-limits", limits_json());
    json_object_set_new(o, "security",
                        s->config.n_keys ? part("[{\"bearer\":[]},{\"key\":[]}]") : json_array());
    return o;
}
