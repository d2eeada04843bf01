/* net.c - questions and files over HTTP. The only file that knows libcurl.
 *
 * Redirects are followed here and not by libcurl, so that it is plain to see where the token goes:
 * to the scheme, host and port of the endpoint and nowhere else. Never from https to http, and
 * http only on this machine. Everything has an end: how long nothing may come, how much a header,
 * an answer, the body of a redirect may hold, how many redirects there are. */
#define _POSIX_C_SOURCE 200809L
#include "hub.h"

#include <curl/curl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    REDIRECTS_MOST = 5,
    HEADS_MOST = 512 << 10, /* bytes of headers of one answer */
    IGNORED_MOST = 1 << 20, /* of a body that nobody wants */
    BUFFER = 512 << 10,     /* libcurl's most */
    QUESTION_SECONDS = 300  /* a whole answer to a question */
};

struct hub_net {
    const hub_where *where;
    CURL *easy;
    int reached; /* something has answered */
    char error[CURL_ERROR_SIZE];
};

/* One request and its answer. */
typedef struct exchange {
    hub_net *net;
    size_t heads, ignored;
    int began, whole_head; /* the headers came to their end */
    double retry;          /* Retry-After; < 0: not said */
    char etag[160], range[160];
    cli_buf link;
    hub_transfer *transfer; /* one of these two */
    hub_question *question;
    double last, patience; /* when the last byte came; seconds without one */
    char *why;             /* set by the callbacks; 256 bytes */
    hub_verdict verdict;
} exchange;

enum { WHY = 256 };

/* ==== Addresses ==== */

static char *url_part(CURLU *u, CURLUPart part) {
    char *s = NULL;
    return curl_url_get(u, part, &s, CURLU_DEFAULT_PORT) == CURLUE_OK ? s : NULL;
}

static int same_part(CURLU *a, CURLU *b, CURLUPart part) {
    char *x = url_part(a, part), *y = url_part(b, part);
    int same = x && y && strcasecmp(x, y) == 0;
    curl_free(x);
    curl_free(y);
    return same;
}

/* Are both at one scheme, host and port? */
static int same_origin(const char *a, const char *b) {
    CURLU *u = curl_url(), *v = curl_url();
    int same = u && v && curl_url_set(u, CURLUPART_URL, a, 0) == CURLUE_OK &&
               curl_url_set(v, CURLUPART_URL, b, 0) == CURLUE_OK &&
               same_part(u, v, CURLUPART_SCHEME) && same_part(u, v, CURLUPART_HOST) &&
               same_part(u, v, CURLUPART_PORT);
    curl_url_cleanup(u);
    curl_url_cleanup(v);
    return same;
}

/* The address without its query, which may be a signature. */
static void shown(char *to, size_t size, const char *url) {
    snprintf(to, size, "%.*s", (int)(strcspn(url, "?#") < 120 ? strcspn(url, "?#") : 120), url);
}

/* ==== What comes ==== */

static int is_redirect(long status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static long status_of(const exchange *x) {
    long status = 0;
    curl_easy_getinfo(x->net->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/* The value of a header of that name in a line of n bytes, without blanks; NULL: another one. */
static const char *header(const char *line, size_t n, const char *name, size_t *len) {
    size_t m = strlen(name);
    if (n <= m || strncasecmp(line, name, m) != 0 || line[m] != ':') return NULL;
    const char *s = line + m + 1, *end = line + n;
    while (s < end && (*s == ' ' || *s == '\t')) s++;
    while (end > s && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' ')) end--;
    *len = (size_t)(end - s);
    return s;
}

static void keep(char *to, size_t size, const char *s, size_t n) {
    to[0] = '\0';
    if (n < size && !memchr(s, '\0', n)) snprintf(to, size, "%.*s", (int)n, s);
}

/* 0: what ends a transfer. */
static int bad(exchange *x, hub_verdict verdict, const char *what) {
    x->verdict = verdict;
    snprintf(x->why, WHY, "%s", what);
    return 0;
}

/* Seconds, else what libcurl makes of a date: that is asked when the answer is there. */
static double retry_of(const char *s, size_t n) {
    double x = 0;
    size_t i = 0;
    for (; i < n && i < 300 && s[i] >= '0' && s[i] <= '9'; i++) x = 10 * x + (s[i] - '0');
    return n && i == n ? x : NAN;
}

static size_t on_header(char *line, size_t one, size_t n, void *ud) {
    exchange *x = ud;
    size_t len;
    const char *s;
    (void)one;
    x->heads += n;
    x->last = cli_clock();
    if (x->heads > HEADS_MOST) {
        bad(x, HUB_WRONG, "the headers of the answer are too long");
        return 0;
    }
    if (n > 5 && memcmp(line, "HTTP/", 5) == 0) { /* after 100 Continue, or a proxy's answer */
        x->etag[0] = x->range[0] = '\0';
        x->retry = -1;
        x->whole_head = 0;
        cli_buf_free(&x->link);
    }
    if ((s = header(line, n, "ETag", &len))) keep(x->etag, sizeof x->etag, s, len);
    if ((s = header(line, n, "Content-Range", &len))) keep(x->range, sizeof x->range, s, len);
    if ((s = header(line, n, "Retry-After", &len))) x->retry = retry_of(s, len);
    if (n <= 2 && (line[0] == '\r' || line[0] == '\n')) x->whole_head = 1;
    if ((s = header(line, n, "Link", &len)) && x->link.n < HEADS_MOST) {
        cli_put(&x->link, s, len);
        cli_puts(&x->link, ",");
    }
    return n;
}

static int ignore(exchange *x, size_t n) {
    x->ignored += n;
    return x->ignored <= IGNORED_MOST || bad(x, HUB_WRONG, "an answer does not end");
}

static int take_answer(exchange *x, const char *bytes, size_t n) {
    hub_question *q = x->question;
    if (n > q->max - q->body.n) {
        x->verdict = HUB_WRONG;
        snprintf(x->why, WHY, "the answer is larger than %zu MiB", q->max >> 20);
        return 0;
    }
    cli_put(&q->body, bytes, n);
    return 1;
}

/* Does the answer to a Range say that it is what was asked for? */
static int right_range(const exchange *x, const hub_transfer *t) {
    char want[160];
    long long from = t->from, last = t->size - 1;
    snprintf(want, sizeof want, "bytes %lld-%lld/", from, last);
    size_t n = strlen(want);
    if (strncasecmp(x->range, want, n) != 0) return 0;
    snprintf(want, sizeof want, "%lld", (long long)t->size);
    return strcmp(x->range + n, want) == 0 || strcmp(x->range + n, "*") == 0;
}

/* Before the first byte of a file: is this the file, and from where on? */
static int begin(exchange *x) {
    hub_transfer *t = x->transfer;
    curl_off_t length = -1;
    int ranged = status_of(x) == 206;
    x->began = 1;
    if (ranged && (t->from == 0 || !right_range(x, t)))
        return bad(x, HUB_ANEW, "the answer holds another range than was asked for");
    t->at = ranged ? t->from : 0;
    curl_easy_getinfo(x->net->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (length >= 0 && length != t->size - t->at) {
        snprintf(x->why, WHY, "the answer states %lld bytes where %lld are missing",
                 (long long)length, (long long)(t->size - t->at));
        x->verdict = length > t->size - t->at ? HUB_WRONG : HUB_AGAIN;
        return 0;
    }
    snprintf(t->new_etag, sizeof t->new_etag, "%s", x->etag);
    return t->begin(t->ud, t->at) ? 1 : bad(x, HUB_STOPPED, "");
}

static int take_file(exchange *x, const char *bytes, size_t n) {
    hub_transfer *t = x->transfer;
    if (!x->began && !begin(x)) return 0;
    if ((int64_t)n > t->size - t->at)
        return bad(x, HUB_WRONG, "more bytes come than the hub's list states");
    if (!t->take(t->ud, bytes, n)) return bad(x, HUB_STOPPED, "");
    t->at += (int64_t)n;
    return 1;
}

static size_t on_body(char *bytes, size_t one, size_t n, void *ud) {
    exchange *x = ud;
    long status = status_of(x);
    int good = status == 200 || (status == 206 && x->transfer);
    int ok = !good ? ignore(x, n) : x->question ? take_answer(x, bytes, n) : take_file(x, bytes, n);
    (void)one;
    x->last = cli_clock();
    return ok ? n : 0;
}

static int on_tick(void *ud, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    exchange *x = ud;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    if (x->transfer && x->transfer->tick) x->transfer->tick(x->transfer->ud);
    if (cli_interrupted()) return 1;
    if (cli_clock() - x->last <= x->patience) return 0;
    snprintf(x->why, WHY, "nothing has come for %g s", x->patience);
    return 1;
}

/* ==== One request ==== */

static long whole_seconds(double s) {
    return s < 1 ? 1 : (long)ceil(s);
}

static struct curl_slist *headers_of(const exchange *x, const char *url) {
    const hub_where *w = x->net->where;
    struct curl_slist *list = NULL;
    cli_buf b = {0};
    if (w->token && same_origin(url, w->endpoint)) {
        cli_printf(&b, "Authorization: Bearer %s", w->token);
        list = curl_slist_append(list, b.s);
        memset(b.s, 0, b.n);
        b.n = 0;
    }
    if (x->transfer && x->transfer->from > 0) {
        cli_printf(&b, "If-Range: %s", x->transfer->etag);
        list = curl_slist_append(list, b.s);
    }
    cli_buf_free(&b);
    return list;
}

/* Proxies are the variables' that libcurl reads by itself; where certificates are, only the program
 * curl reads. */
static void set_certificates(CURL *e) {
    const char *file = getenv("SSL_CERT_FILE"), *folder = getenv("SSL_CERT_DIR");
    if (!file || !*file) file = getenv("CURL_CA_BUNDLE");
    if (file && *file) curl_easy_setopt(e, CURLOPT_CAINFO, file);
    if (folder && *folder) curl_easy_setopt(e, CURLOPT_CAPATH, folder);
}

static void set_up(exchange *x, const char *url, const char *range, struct curl_slist *headers) {
    const hub_where *w = x->net->where;
    CURL *e = x->net->easy;
    cli_buf agent = {0};
    cli_printf(&agent, "retrace/%s", retrace_version());
    curl_easy_reset(e); /* connections stay open */
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, hub_is_local(url) ? "http" : "https");
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(e, CURLOPT_USERAGENT, agent.s);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, x->net->error);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, whole_seconds(w->head_s));
    if (x->question) curl_easy_setopt(e, CURLOPT_TIMEOUT, (long)QUESTION_SECONDS);
    if (range) curl_easy_setopt(e, CURLOPT_RANGE, range);
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)BUFFER);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, on_tick);
    curl_easy_setopt(e, CURLOPT_XFERINFODATA, x);
    curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
    set_certificates(e);
    cli_buf_free(&agent);
}

static CURLcode perform(exchange *x, const char *url) {
    char range[32];
    int64_t from = x->transfer ? x->transfer->from : 0;
    snprintf(range, sizeof range, "%lld-", (long long)from);
    struct curl_slist *headers = headers_of(x, url);
    x->net->error[0] = '\0';
    x->heads = x->ignored = 0;
    x->began = x->whole_head = 0;
    x->retry = -1;
    set_up(x, url, from > 0 ? range : NULL, headers);
    x->patience = x->transfer ? x->net->where->stall_s : x->net->where->head_s;
    x->last = cli_clock();
    CURLcode code = curl_easy_perform(x->net->easy);
    for (struct curl_slist *h = headers; h; h = h->next) memset(h->data, 0, strlen(h->data));
    curl_slist_free_all(headers);
    if (status_of(x)) x->net->reached = 1;
    return code;
}

/* ==== Redirects ==== */

static int may_follow(exchange *x, const char *from, const char *to) {
    char where[128];
    shown(where, sizeof where, to);
    int secure = strncasecmp(to, "https://", 8) == 0;
    if (secure || (hub_is_local(from) && hub_is_local(to))) return 1;
    snprintf(x->why, WHY, "a redirect to %s is not followed", where);
    x->verdict = HUB_WRONG;
    return 0;
}

/* The request and where it is redirected to; CURLE_OK with the status of the last answer. */
static CURLcode follow(exchange *x, const char *path) {
    cli_buf url = {0};
    CURLcode code = CURLE_OK;
    cli_printf(&url, "%s%s", x->net->where->endpoint, path);
    for (int i = 0;; i++) {
        char *next = NULL;
        code = perform(x, url.s);
        if (code != CURLE_OK || !is_redirect(status_of(x))) break;
        curl_easy_getinfo(x->net->easy, CURLINFO_REDIRECT_URL, &next);
        if (!next) break;
        if (i == REDIRECTS_MOST) {
            bad(x, HUB_WRONG, "more than 5 redirects");
            break;
        }
        if (!may_follow(x, url.s, next)) break;
        char *copy = cli_copy(next, strlen(next));
        url.n = 0;
        cli_puts(&url, copy);
        free(copy);
    }
    cli_buf_free(&url);
    return code;
}

/* Failures that another try will not mend. */
static int is_final(const hub_net *n, CURLcode code) {
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT: return !n->reached;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT: return 1;
    default: return 0;
    }
}

/* libcurl calls a header line that is longer than it takes a lack of memory. */
static const char *words_of(const hub_net *n, CURLcode code) {
    if (code == CURLE_OUT_OF_MEMORY) return "a header line is too long, or there is no memory";
    return n->error[0] ? n->error : curl_easy_strerror(code);
}

/* The verdict when libcurl has ended with `code`; good: the status of success. */
static hub_verdict judge(exchange *x, CURLcode code, int good) {
    long status = status_of(x);
    if (cli_interrupted()) return HUB_STOPPED;
    if (x->verdict != HUB_DONE) return x->verdict;
    if (code == CURLE_OK && !x->whole_head) {
        snprintf(x->why, WHY, "the answer ended within its headers");
        return HUB_AGAIN;
    }
    if (code != CURLE_OK) {
        if (!x->why[0]) snprintf(x->why, WHY, "%.200s", words_of(x->net, code));
        return is_final(x->net, code) ? HUB_WRONG : HUB_AGAIN;
    }
    if (good) return HUB_DONE;
    snprintf(x->why, WHY, "the hub answers with status %ld", status);
    if (status == 416 && x->transfer) return HUB_ANEW;
    return status == 408 || status == 429 || status / 100 == 5 ? HUB_AGAIN : HUB_REFUSED;
}

static double wait_of(const exchange *x) {
    curl_off_t s = 0;
    if (!isnan(x->retry)) return x->retry;
    curl_easy_getinfo(x->net->easy, CURLINFO_RETRY_AFTER, &s);
    return s >= 0 ? (double)s : -1;
}

/* ==== Questions ==== */

/* The address behind the endpoint in `<...>; rel="next"`; NULL: there is none. */
static char *next_of(exchange *x) {
    for (char *at = x->link.s; at && (at = strchr(at, '<'));) {
        char *end = strchr(at, '>'), *stop = end ? strchr(end, ',') : NULL;
        if (!stop) return NULL;
        *stop = '\0';
        int is_next = strstr(end, "rel=\"next\"") || strstr(end, "rel=next");
        if (is_next) return cli_copy(at + 1, (size_t)(end - at - 1));
        at = stop + 1;
    }
    return NULL;
}

/* A page that follows is one of the same hub, or none. */
static void take_next(exchange *x, hub_question *q) {
    const char *base = x->net->where->endpoint;
    char where[128], *url = next_of(x);
    if (!url) return;
    if (url[0] == '/' && url[1] != '/') {
        q->next = url;
        return;
    }
    size_t n = strlen(base);
    if (strncasecmp(url, base, n) == 0 && url[n] == '/' && same_origin(url, base)) {
        q->next = cli_copy(url + n, strlen(url + n));
    } else {
        shown(where, sizeof where, url);
        snprintf(x->why, WHY, "the next page is at %s, which is not the hub", where);
        x->verdict = HUB_WRONG;
    }
    free(url);
}

hub_verdict hub_net_ask(hub_net *n, hub_question *q) {
    exchange x = {.net = n, .question = q, .why = q->why};
    q->why[0] = '\0';
    q->body.n = 0;
    q->next = NULL;
    CURLcode code = follow(&x, q->path);
    q->status = (int)status_of(&x);
    q->retry_after = wait_of(&x);
    if (code == CURLE_OK && q->status == 200 && x.verdict == HUB_DONE) take_next(&x, q);
    cli_buf_free(&x.link);
    return judge(&x, code, q->status == 200);
}

/* ==== Files ==== */

hub_verdict hub_net_fetch(hub_net *n, hub_transfer *t) {
    exchange x = {.net = n, .transfer = t, .why = t->why};
    t->why[0] = t->new_etag[0] = '\0';
    t->at = t->from;
    CURLcode code = follow(&x, t->path);
    t->status = (int)status_of(&x);
    t->retry_after = wait_of(&x);
    int good = t->status == 200 || t->status == 206;
    good = good && x.whole_head;
    if (code == CURLE_OK && good && !x.began && x.verdict == HUB_DONE) begin(&x); /* no body */
    if (code == CURLE_OK && good && x.verdict == HUB_DONE && t->at < t->size)
        bad(&x, HUB_AGAIN, "the answer ended too early");
    cli_buf_free(&x.link);
    return judge(&x, code, good);
}

/* ==== The whole ==== */

int hub_net_open(hub_net **out, const hub_where *w) {
    static int ready;
    *out = NULL;
    if (!ready && curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        return cli_fail(CLI_IO, "libcurl does not start");
    ready = 1;
    hub_net *n = cli_alloc(sizeof *n);
    n->where = w;
    n->easy = curl_easy_init();
    if (!n->easy) return free(n), cli_fail(CLI_IO, "libcurl does not start");
    *out = n;
    return CLI_OK;
}

void hub_net_close(hub_net *n) {
    if (!n) return;
    curl_easy_cleanup(n->easy);
    free(n);
}
