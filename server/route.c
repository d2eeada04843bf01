/* route.c - the table of endpoints.
 *
 * A row says who answers: the front at once, or prep, which may hand work on to the worker. The
 * OpenAPI document and docs/http.md are made from the same rows. */
#include "server.h"

#include <string.h>

static const srv_field *const of_completions[] = {srv_fields_completions, srv_fields_common,
                                                  srv_fields_rules, NULL};
static const srv_field *const of_chat[] = {srv_fields_chat, srv_fields_common, srv_fields_rules,
                                           NULL};
static const srv_field *const of_llama[] = {srv_fields_llama, srv_fields_common, srv_fields_rules,
                                            NULL};
static const srv_field *const of_rewind[] = {srv_fields_rewind, NULL};
static const srv_field *const of_backward[] = {srv_fields_backward, NULL};
static const srv_field *const of_tokenize[] = {srv_fields_tokenize, NULL};
static const srv_field *const of_detokenize[] = {srv_fields_detokenize, NULL};
static const srv_field *const of_template[] = {srv_fields_template, NULL};

static const srv_route routes[] = {
    {.method = "GET",
     .path = "/",
     .open = 1,
     .at_once = srv_get_root,
     .help = "What this is, and where to go on."},
    {.method = "GET",
     .path = "/health",
     .other = "/v1/health",
     .open = 1,
     .at_once = srv_get_health,
     .help = "Whether the engine is alive."},
    {.method = "GET",
     .path = "/metrics",
     .at_once = srv_get_metrics,
     .help = "Counters in Prometheus's text format."},
    {.method = "GET",
     .path = "/v1/models",
     .other = "/models",
     .at_once = srv_get_models,
     .help = "The model."},
    {.method = "GET",
     .path = "/v1/models/{id}",
     .other = "/models/{id}",
     .at_once = srv_get_one_model,
     .help = "The model, by its name."},
    {.method = "GET",
     .path = "/props",
     .at_once = srv_get_props,
     .help = "Facts about the model, as llama-server tells them."},
    {.method = "GET",
     .path = "/tokenizer_info",
     .at_once = srv_get_tokenizer_info,
     .help = "The names of special tokens: with /tokenize and /detokenize a client's tokenizer."},
    {.method = "GET",
     .path = "/v1/rules",
     .at_once = srv_get_rules,
     .help = "The rules and drivers with their settings."},
    {.method = "GET",
     .path = "/openapi.json",
     .at_once = srv_get_openapi,
     .help = "This interface as an OpenAPI document."},
    {.method = "POST",
     .path = "/v1/completions",
     .prepare = srv_prepare_completions,
     .fields = of_completions,
     .help = "Continue a text."},
    {.method = "POST",
     .path = "/v1/chat/completions",
     .other = "/chat/completions",
     .prepare = srv_prepare_chat,
     .fields = of_chat,
     .help = "Answer a conversation."},
    {.method = "POST",
     .path = "/completion",
     .other = "/completions",
     .prepare = srv_prepare_llama,
     .fields = of_llama,
     .help = "Continue a text, in llama-server's own form."},
    {.method = "POST",
     .path = "/v1/rewind",
     .prepare = srv_prepare_rewind,
     .fields = of_rewind,
     .help = "Take a completion back to a place and write on from there."},
    {.method = "GET",
     .path = "/v1/completions/{id}/alternatives",
     .prepare = srv_prepare_alternatives,
     .help = "What else could stand at a place of a completion."},
    {.method = "POST",
     .path = "/v1/backward",
     .prepare = srv_prepare_backward,
     .fields = of_backward,
     .help = "Write what comes before a given ending."},
    {.method = "POST",
     .path = "/tokenize",
     .prepare = srv_prepare_tokenize,
     .fields = of_tokenize,
     .help = "A text as the model's tokens."},
    {.method = "POST",
     .path = "/detokenize",
     .prepare = srv_prepare_detokenize,
     .fields = of_detokenize,
     .help = "Tokens as text."},
    {.method = "POST",
     .path = "/apply-template",
     .prepare = srv_prepare_template,
     .fields = of_template,
     .help = "A conversation as the prompt that the model reads."},
    {.method = "POST",
     .path = "/v1/embeddings",
     .at_once = srv_no_embeddings,
     .help = "Not offered."},
};
enum { N_ROUTES = sizeof routes / sizeof *routes };

const srv_route *srv_route_at(int i) {
    return i >= 0 && i < N_ROUTES ? &routes[i] : NULL;
}

/* Is path the pattern, with something in the place of {id}? At its end this may be anything: a
 * model's name has no length that we know, and may have a slash. */
static int fits(const char *pattern, const char *path, const char **id, size_t *n_id) {
    const char *hole = pattern ? strstr(pattern, "{id}") : NULL;
    if (!pattern) return 0;
    if (!hole) return strcmp(pattern, path) == 0;
    size_t before = (size_t)(hole - pattern);
    if (strncmp(pattern, path, before) != 0) return 0;
    size_t n = hole[4] ? strcspn(path + before, "/") : strlen(path + before);
    if (n == 0 || (hole[4] && n > 63) || strcmp(path + before + n, hole + 4) != 0) return 0;
    *id = path + before;
    *n_id = n;
    return 1;
}

const srv_route *srv_route_find(const char *method, const char *path, const char **id, size_t *n_id,
                                const char **allow) {
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    *allow = NULL;
    *id = NULL;
    *n_id = 0;
    for (int i = 0; i < N_ROUTES; i++) {
        const srv_route *r = &routes[i];
        if (!fits(r->path, path, id, n_id) && !fits(r->other, path, id, n_id)) continue;
        if (strcmp(r->method, wanted) == 0) return r;
        *allow = strcmp(r->method, "GET") == 0 ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    }
    return NULL;
}
