/* front_head.c - the head of a request as bytes, before libmicrohttpd sees it.
 *
 * What two readers could understand differently is refused here: folded lines, bare line feeds,
 * blanks before a colon, control characters, both Content-Length and Transfer-Encoding, headers
 * twice that may be there once. It is also what answers, in JSON, requests that libmicrohttpd would
 * refuse in its own words. Only the first request of a connection comes by; front_call.c looks at
 * the headers of all. */
#include "front.h"

#include <string.h>
#include <strings.h>

static const char *const methods[] = {"GET",   "HEAD",    "POST",    "PUT",  "DELETE",
                                      "PATCH", "OPTIONS", "CONNECT", "TRACE"};

int head_method_known(const char *s, size_t n) {
    for (int i = 0; i < 9; i++)
        if (strlen(methods[i]) == n && memcmp(methods[i], s, n) == 0) return 1;
    return 0;
}

static int is_token(char ch) {
    if ((ch >= '0' && ch <= '9') || (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z')) return 1;
    return ch && strchr("!#$%&'*+-.^_`|~", ch) != NULL;
}

static int all_tokens(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!is_token(s[i])) return 0;
    return n > 0;
}

static head_state broken(srv_error *e, int status, const char *code, const char *why) {
    srv_fail(e, status, code, NULL, "%s", why);
    return HEAD_BROKEN;
}

/* ==== The request line ==== */

static head_state check_target(const char *method, size_t n_method, const char *s, size_t n,
                               srv_error *e) {
    int star = n == 1 && s[0] == '*' && n_method == 7 && memcmp(method, "OPTIONS", 7) == 0;
    int absolute = n > 7 && strncasecmp(s, "http://", 7) == 0;
    if (n_method == 7 && memcmp(method, "CONNECT", 7) == 0)
        return broken(e, 405, "method_not_allowed", "CONNECT: this is no proxy");
    if (!star && !absolute && (n == 0 || s[0] != '/'))
        return broken(e, 400, "bad_request", "the request's target is no path");
    for (size_t i = 0; i < n; i++) {
        if (s[i] <= ' ' || s[i] > '~')
            return broken(e, 400, "bad_request",
                          "the request's target has a character that is not "
                          "allowed");
        if (n - i >= 3 && memcmp(s + i, "%00", 3) == 0)
            return broken(e, 400, "bad_request", "the request's target has a %00");
    }
    return HEAD_WHOLE;
}

static head_state check_version(const char *s, size_t n, srv_error *e) {
    if (n == 8 && (memcmp(s, "HTTP/1.1", 8) == 0 || memcmp(s, "HTTP/1.0", 8) == 0))
        return HEAD_WHOLE;
    if (n > 5 && memcmp(s, "HTTP/", 5) == 0)
        return broken(e, 400, "bad_request", "only HTTP/1.1 and HTTP/1.0 are spoken here");
    return broken(e, 400, "bad_request", "the request line is none of HTTP's");
}

static head_state check_line(const char *s, size_t n, srv_error *e) {
    const char *one = memchr(s, ' ', n);
    if (!one || !all_tokens(s, (size_t)(one - s)))
        return broken(e, 400, "bad_request", "the request line is none of HTTP's");
    size_t rest = n - (size_t)(one + 1 - s);
    const char *two = memchr(one + 1, ' ', rest);
    if (!two) return broken(e, 400, "bad_request", "the request line is none of HTTP's");
    head_state state = check_version(two + 1, n - (size_t)(two + 1 - s), e);
    if (state == HEAD_WHOLE)
        state = check_target(s, (size_t)(one - s), one + 1, (size_t)(two - one - 1), e);
    if (state == HEAD_WHOLE && !head_method_known(s, (size_t)(one - s)))
        return broken(e, 405, "method_not_allowed", "a method that is not known here");
    return state;
}

/* ==== Header lines ==== */

/* Headers that may be there once, as bits by their place. */
static const char *const once[] = {"Host",          "Content-Length", "Transfer-Encoding",
                                   "Authorization", "X-Api-Key",      "Origin",
                                   "Content-Type",  "Sec-Fetch-Site"};

/* Lengths are digits and nothing else; the only coding is chunked. */
static int check_value(unsigned i, const char *v, size_t n, srv_error *e) {
    if (i == 1) {
        size_t digits = 0;
        while (digits < n && v[digits] >= '0' && v[digits] <= '9') digits++;
        if (digits != n || n == 0 || n > 15)
            return srv_fail(e, 400, "bad_request", once[i], "Content-Length is no length");
    }
    if (i == 2 && (n != 7 || strncasecmp(v, "chunked", 7) != 0))
        return srv_fail(e, 400, "bad_request", once[i], "Transfer-Encoding is not chunked");
    return 0;
}

int head_field(head_seen *had, const char *name, size_t n, const char *value, size_t n_value,
               srv_error *e) {
    if (++had->n > HEAD_MAX_FIELDS)
        return srv_fail(e, 431, "headers_too_large", NULL, "more than %d headers", HEAD_MAX_FIELDS);
    for (unsigned i = 0; i < 8; i++) {
        if (strlen(once[i]) != n || strncasecmp(once[i], name, n) != 0) continue;
        if (had->bits & 1u << i)
            return srv_fail(e, 400, "bad_request", once[i], "%s: there twice", once[i]);
        had->bits |= 1u << i;
        return check_value(i, value, n_value, e);
    }
    return 0;
}

int head_fields_end(const head_seen *had, int version, srv_error *e) {
    if ((had->bits & 2) && (had->bits & 4))
        return srv_fail(e, 400, "bad_request", NULL,
                        "both Content-Length and Transfer-Encoding are given");
    if (version == 0 && (had->bits & 4))
        return srv_fail(e, 400, "bad_request", NULL, "Transfer-Encoding in HTTP/1.0");
    if (version == 1 && !(had->bits & 1))
        return srv_fail(e, 400, "bad_request", "Host", "the Host header is missing");
    return 0;
}

static int is_blank(char ch) {
    return ch == ' ' || ch == '\t';
}

static head_state check_field(const char *s, size_t n, head_seen *had, srv_error *e) {
    const char *colon = memchr(s, ':', n);
    if (s[0] == ' ' || s[0] == '\t')
        return broken(e, 400, "bad_request", "a header line is folded");
    if (!colon || !all_tokens(s, (size_t)(colon - s)))
        return broken(e, 400, "bad_request", "a header line has no name");
    for (const char *p = colon; p < s + n; p++)
        if ((unsigned char)*p < ' ' ? *p != '\t' : *p == 127)
            return broken(e, 400, "bad_request", "a header has a control character");
    const char *v = colon + 1, *end = s + n;
    while (v < end && is_blank(*v)) v++;
    while (end > v && is_blank(end[-1])) end--;
    int rc = head_field(had, s, (size_t)(colon - s), v, (size_t)(end - v), e);
    return rc ? HEAD_BROKEN : HEAD_WHOLE;
}

static head_state too_long(srv_error *e, int line) {
    if (line)
        srv_fail(e, 414, "request_line_too_long", NULL, "the request line is longer than %d bytes",
                 LINE_MAX_BYTES);
    else
        srv_fail(e, 431, "headers_too_large", NULL, "the headers are longer than %d bytes",
                 HEAD_MAX_BYTES);
    return HEAD_BROKEN;
}

/* The length of the line at s without its CR LF; *next behind it. 0 when it has no end yet or is
 * broken. */
static int line_at(const char *s, size_t n, size_t *length, size_t *next, srv_error *e) {
    const char *end = memchr(s, '\n', n);
    if (!end) return 0;
    if (end == s || end[-1] != '\r') {
        srv_fail(e, 400, "bad_request", NULL, "a line of the head does not end in CR LF");
        return 0;
    }
    *length = (size_t)(end - s) - 1;
    *next = (size_t)(end - s) + 1;
    return 1;
}

head_state head_check(const char *s, size_t n, srv_error *e) {
    size_t length, next, n_line, at;
    head_seen had = {0, 0};
    int whole = line_at(s, n, &n_line, &at, e);
    if (!whole && e->status) return HEAD_BROKEN;
    if ((whole ? n_line : n) > LINE_MAX_BYTES) return too_long(e, 1);
    if (n >= 14 && memcmp(s, "PRI * HTTP/2.0", 14) == 0)
        return broken(e, 400, "bad_request", "HTTP/2 is not spoken here");
    if (!whole) return HEAD_PART;
    if (check_line(s, n_line, e) == HEAD_BROKEN) return HEAD_BROKEN;
    for (size_t from = at;; at += next) {
        whole = line_at(s + at, n - at, &length, &next, e);
        if (e->status) return HEAD_BROKEN;
        if ((whole ? at + length : n) - from > HEAD_MAX_BYTES) return too_long(e, 0);
        if (!whole) return HEAD_PART;
        if (length == 0)
            return head_fields_end(&had, s[n_line - 1] - '0', e) ? HEAD_BROKEN : HEAD_WHOLE;
        if (check_field(s + at, length, &had, e) == HEAD_BROKEN) return HEAD_BROKEN;
    }
}
