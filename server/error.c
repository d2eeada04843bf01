/* error.c - what a client is told when it cannot be served.
 *
 * Errors have the shape that OpenAI's clients read, and a status by which they decide whether to
 * try again: those clients repeat every 5xx twice, so what is permanent says that it is. */
#include "server.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int srv_fail(srv_error *e, int status, const char *code, const char *param, const char *fmt, ...) {
    if (!e || e->status) return -1;
    va_list args;
    e->status = status;
    e->code = code;
    snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    va_start(args, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, args);
    va_end(args);
    if (status == 429 || status == 503) e->retry_after = 1;
    return -1;
}

int srv_fail_with(srv_error *e, const retrace_error *err, const char *param) {
    int usage = err->code == RETRACE_EUSAGE;
    return srv_fail(e, usage ? 400 : 500, usage ? "invalid_value" : "model_error", param, "%s",
                    err->msg);
}

const char *srv_error_type(int status) {
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

static json_t *text_of(const char *s) {
    return cli_json_text((retrace_text){s, strlen(s)});
}

json_t *srv_error_json(const srv_error *e) {
    json_t *in = json_object(), *out = json_object();
    json_object_set_new(in, "message", text_of(e->msg));
    json_object_set_new(in, "type", json_string(srv_error_type(e->status)));
    json_object_set_new(in, "code", e->code ? json_string(e->code) : json_null());
    json_object_set_new(in, "param", e->param[0] ? text_of(e->param) : json_null());
    json_object_set_new(out, "error", in);
    return out;
}

void srv_reply_error(srv_reply *r, const srv_error *e) {
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", e->retry_after);
    if (e->retry_after > 0) srv_reply_header(r, "Retry-After", seconds);
    if (e->status == 500 || e->status == 501) srv_reply_header(r, "x-should-retry", "false");
    if (e->status == 401) srv_reply_header(r, "WWW-Authenticate", "Bearer");
    srv_reply_json(r, e->status, srv_error_json(e));
}
