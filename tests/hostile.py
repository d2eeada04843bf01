"""Requests that no good client sends, as tables: what is sent, and the statuses that may come back.

0 in a set stands for a connection that is closed without an answer, which is all that can be done
where a request has no end. HOST is put in for the server's own address.
"""

import json

CLOSED = 0
HOST = b"@HOST@"
GOOD = b'{"prompt":"go","max_tokens":2}'


def post(body=GOOD, path=b"/v1/completions", extra=b"", length=None, kind=b"application/json"):
    head = b"POST " + path + b" HTTP/1.1\r\nHost: " + HOST + b"\r\n"
    if kind is not None:
        head += b"Content-Type: " + kind + b"\r\n"
    if length is None:
        length = b"%d" % len(body)
    if length != b"":
        head += b"Content-Length: " + length + b"\r\n"
    return head + extra + b"\r\n" + body


def chunked(body, extra=b"", te=b"Transfer-Encoding: chunked\r\n"):
    return post(body, extra=te + extra, length=b"")


def get(path=b"/v1/models", extra=b"", version=b"HTTP/1.1", host=b"Host: " + HOST + b"\r\n"):
    return b"GET " + path + b" " + version + b"\r\n" + host + extra + b"\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST = b"0\r\n\r\n"
BAD = {400}
BAD_OR_CLOSED = {400, CLOSED}
SNEAK = b"GET /sneaked HTTP/1.1\r\nHost: " + HOST + b"\r\n\r\n"

# ==== Where does a request end? A second answer, or one to /sneaked, is a defect. ====

SMUGGLING = [
    ("cl-and-te", chunked(chunk(GOOD) + LAST, b"Content-Length: 5\r\n"), BAD),
    ("te-and-cl-zero", chunked(LAST + SNEAK, b"Content-Length: 0\r\n"), BAD),
    ("cl-first-then-te", post(LAST + SNEAK, extra=b"Transfer-Encoding: chunked\r\n"), BAD),
    ("two-lengths", post(extra=b"Content-Length: 3\r\n"), BAD),
    ("two-equal-lengths", post(extra=b"Content-Length: %d\r\n" % len(GOOD)), {200, 400}),
    ("length-list", post(length=b"30, 30"), BAD_OR_CLOSED),
    ("length-list-2", post(length=b"30,4"), BAD_OR_CLOSED),
    ("length-minus", post(length=b"-1"), BAD_OR_CLOSED),
    ("length-minus-0", post(length=b"-0"), BAD_OR_CLOSED),
    ("length-plus", post(length=b"+30"), BAD_OR_CLOSED),
    ("length-hex", post(length=b"0x1e"), BAD_OR_CLOSED),
    ("length-exponent", post(length=b"3e1"), BAD_OR_CLOSED),
    ("length-fraction", post(length=b"30.0"), BAD_OR_CLOSED),
    ("length-words", post(length=b"thirty"), BAD_OR_CLOSED),
    ("length-two-numbers", post(length=b"30 30"), BAD_OR_CLOSED),
    ("length-nothing", post(length=b" "), BAD_OR_CLOSED),
    ("length-underscore", post(length=b"3_0"), BAD_OR_CLOSED),
    ("length-2^31", post(length=b"2147483648"), {413}),
    ("length-2^32", post(length=b"4294967296"), {413}),
    ("length-2^63", post(length=b"9223372036854775808"), {400, 413, CLOSED}),
    ("length-2^64", post(length=b"18446744073709551616"), {400, 413, CLOSED}),
    ("length-2^64+30", post(length=b"18446744073709551646"), {400, 413, CLOSED}),
    ("length-90-digits", post(length=b"9" * 90), {400, 413, CLOSED}),
    ("length-space-before-colon", post(extra=b"Content-Length : 3\r\n"), BAD_OR_CLOSED),
    ("te-space-before-colon", post(extra=b"Transfer-Encoding : chunked\r\n"), BAD_OR_CLOSED),
    ("te-tab-before-colon", post(extra=b"Transfer-Encoding\t: chunked\r\n"), BAD_OR_CLOSED),
    ("te-xchunked", chunked(GOOD, te=b"Transfer-Encoding: xchunked\r\n"), {400, 501, CLOSED}),
    ("te-gzip", chunked(GOOD, te=b"Transfer-Encoding: gzip\r\n"), {400, 501, CLOSED}),
    ("te-gzip-chunked", chunked(LAST, te=b"Transfer-Encoding: gzip, chunked\r\n"), {400, 501, 0}),
    ("te-chunked-gzip", chunked(LAST, te=b"Transfer-Encoding: chunked, gzip\r\n"), {400, 501, 0}),
    ("te-identity", chunked(LAST, te=b"Transfer-Encoding: identity\r\n"), {400, 501, CLOSED}),
    ("te-empty", chunked(LAST, te=b"Transfer-Encoding:\r\n"), {400, 501, CLOSED}),
    ("te-quoted", chunked(LAST, te=b'Transfer-Encoding: "chunked"\r\n'), {400, 501, CLOSED}),
    ("te-twice", chunked(LAST, te=2 * b"Transfer-Encoding: chunked\r\n"), {400, 501, CLOSED}),
    ("te-vertical-tab", chunked(LAST, te=b"Transfer-Encoding: \x0bchunked\r\n"), {400, 501, 0}),
    ("te-nul", chunked(LAST, te=b"Transfer-Encoding: chunked\0\r\n"), {400, 501, CLOSED}),
    ("te-folded", chunked(LAST, te=b"Transfer-Encoding:\r\n chunked\r\n"), {400, 501, CLOSED}),
    ("te-on-1.0", chunked(chunk(GOOD) + LAST).replace(b"1.1", b"1.0", 1), {400, 501, CLOSED}),
    ("no-length", post(b"", length=b""), {400, 411, CLOSED}),
    ("fold", post(extra=b"X-A: b\r\n c\r\n"), BAD_OR_CLOSED),
    ("fold-tab", post(extra=b"X-A: b\r\n\tc\r\n"), BAD_OR_CLOSED),
    ("fold-of-length", post(length=b"3\r\n 0"), BAD_OR_CLOSED),
    ("fold-first", get(host=b" Host: " + HOST + b"\r\n"), BAD_OR_CLOSED),
    ("bare-lf", post().replace(b"\r\n", b"\n"), {200, 400, CLOSED}),
    ("bare-cr-in-value", get(extra=b"X-A: b\rX-B: c\r\n"), BAD_OR_CLOSED),
    ("nul-in-value", get(extra=b"X-A: b\0c\r\n"), BAD_OR_CLOSED),
    ("nul-in-name", get(extra=b"X-\0A: b\r\n"), BAD_OR_CLOSED),
    ("no-colon", get(extra=b"no colon here\r\n"), BAD_OR_CLOSED),
    ("empty-name", get(extra=b": value\r\n"), BAD_OR_CLOSED),
    ("get-with-body", get(extra=b"Content-Length: 4\r\n") + b"abcd", {200, 400, CLOSED}),
    ("get-chunked", get(extra=b"Transfer-Encoding: chunked\r\n") + LAST, {200, 400, CLOSED}),
    ("body-without-length", post(GOOD, length=b""), {400, 411, CLOSED}),
    ("longer-body-closed", post(GOOD + SNEAK, length=b"%d" % len(GOOD)), {200}),
]
# Names of those behind which a second request legitimately stands.
TWO_ANSWERS = {"longer-body-closed"}

# ==== Chunks ====

CHUNKS = [
    ("one", chunk(GOOD) + LAST, {200}),
    ("bytes", b"".join(chunk(GOOD[i : i + 1]) for i in range(len(GOOD))) + LAST, {200}),
    ("upper-case-size", b"1E\r\n" + GOOD + b"\r\n" + LAST, {200}),
    ("zeros", b"000000000000001e\r\n" + GOOD + b"\r\n" + LAST, {200, 400, 413, CLOSED}),
    ("extension", b"1e;a=b\r\n" + GOOD + b"\r\n" + LAST, {200, 400, CLOSED}),
    ("long-extension", b"1e;" + b"a" * 70000 + b"\r\n" + GOOD + b"\r\n" + LAST, {400, 413, CLOSED}),
    ("trailer", chunk(GOOD) + b"0\r\nX-A: b\r\n\r\n", {200, 400, CLOSED}),
    ("trailer-length", chunk(GOOD) + b"0\r\nContent-Length: 3\r\n\r\n", {200, 400, CLOSED}),
    ("minus", b"-2\r\n" + GOOD, {400, 413, CLOSED}),
    ("plus", b"+1e\r\n" + GOOD + b"\r\n" + LAST, {400, 413, CLOSED}),
    ("0x", b"0x1e\r\n" + GOOD + b"\r\n" + LAST, {400, 413, CLOSED}),
    ("space-before", b" 1e\r\n" + GOOD + b"\r\n" + LAST, {400, 413, CLOSED}),
    ("words", b"zz\r\n" + GOOD, {400, 413, CLOSED}),
    ("nothing", b"\r\n" + GOOD, {400, 413, CLOSED}),
    ("nul", b"1e\0\r\n" + GOOD + b"\r\n" + LAST, {400, 413, CLOSED}),
    ("ffffffff", b"ffffffff\r\n" + GOOD, {400, 413, CLOSED}),
    ("7fff...", b"7fffffffffffffff\r\n" + GOOD, {400, 413, CLOSED}),
    ("ffff...", b"ffffffffffffffff\r\n" + GOOD, {400, 413, CLOSED}),
    ("wraps", b"1000000000000001e\r\n" + GOOD + b"\r\n" + LAST, {400, 413, CLOSED}),
    ("no-end-of-chunk", b"1e\r\n" + GOOD + b"XX" + LAST, {400, 413, CLOSED}),
    ("too-short", b"5\r\n" + GOOD + b"\r\n" + LAST, {400, 413, CLOSED}),
    ("empty-body", LAST, {400}),
]

# ==== The request line and headers ====

LINES = [
    ("empty-lines-first", b"\r\n\r\n" + get(), {200, 400, CLOSED}),
    ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)), {400, CLOSED}),
    ("nuls", b"\0" * 200 + b"\r\n\r\n", {400, CLOSED}),
    ("http-0.9", b"GET /health\r\n\r\n", {400, 505, CLOSED}),
    ("http-1.0", b"GET /health HTTP/1.0\r\n\r\n", {200, 400}),
    ("http-1.2", get(b"/health", version=b"HTTP/1.2"), {200, 400, 505, CLOSED}),
    ("http-2.0", get(version=b"HTTP/2.0"), {400, 505, CLOSED}),
    ("http-9.9", get(version=b"HTTP/9.9"), {400, 505, CLOSED}),
    ("http-2-preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 403, 404, 405, 505, CLOSED}),
    ("lower-case-version", get(version=b"http/1.1"), {400, 505, CLOSED}),
    ("other-protocol", get(version=b"RTSP/1.0"), {400, 505, CLOSED}),
    ("no-path", b"GET HTTP/1.1\r\nHost: " + HOST + b"\r\n\r\n", {400, 404, 505, CLOSED}),
    ("two-spaces", b"GET  /v1/models HTTP/1.1\r\nHost: " + HOST + b"\r\n\r\n", {200, 400, 404, 0}),
    ("space-in-path", get(b"/v1/mo dels"), {400, 404, CLOSED}),
    ("tabs", b"GET\t/v1/models\tHTTP/1.1\r\nHost: " + HOST + b"\r\n\r\n", {200, 400, 404, CLOSED}),
    ("long-path", get(b"/" + b"a" * 9000), {400, 404, 414, 431, CLOSED}),
    ("longer-path", get(b"/" + b"a" * 200000), {400, 414, 431, CLOSED}),
    ("long-query", get(b"/v1/models?" + b"a" * 9000), {400, 414, 431, CLOSED}),
    ("many-arguments", get(b"/v1/models?" + b"a&" * 3000), {200, 400, 414, 431, CLOSED}),
    ("long-method", b"G" * 9000 + b" / HTTP/1.1\r\nHost: " + HOST + b"\r\n\r\n", {400, 405, 414, 431,
                                                                                501, 404, CLOSED}),
    ("long-value", get(extra=b"X-A: " + b"a" * 20000 + b"\r\n"), {400, 431, CLOSED}),
    ("long-name", get(extra=b"A" * 20000 + b": b\r\n"), {400, 431, CLOSED}),
    ("60-headers", get(extra=b"".join(b"X-%d: y\r\n" % i for i in range(60))), {200}),
    ("65-headers", get(extra=b"".join(b"X-%d: y\r\n" % i for i in range(65))), {400, 431}),
    ("1000-headers", get(extra=b"".join(b"X-%d: y\r\n" % i for i in range(1000))), {400, 431, 0}),
    ("20000-headers", get(extra=b"X: y\r\n" * 20000), {400, 431, CLOSED}),
    ("no-host", get(host=b""), {400, 403}),
    ("two-hosts", get(extra=b"Host: " + HOST + b"\r\n"), {400}),
    ("good-and-bad-host", get(extra=b"Host: evil.test\r\n"), {400, 403}),
    ("bad-and-good-host", get(host=b"Host: evil.test\r\nHost: " + HOST + b"\r\n"), {400, 403}),
    ("absolute-own", get(b"http://" + HOST + b"/v1/models"), {200, 400, 404}),
    ("absolute-other", get(b"http://evil.test/v1/models"), {400, 403, 404}),
    ("authority", b"CONNECT evil.test:80 HTTP/1.1\r\nHost: " + HOST + b"\r\n\r\n", {400, 403, 404, 405,
                                                                                   501, CLOSED}),
    ("star", b"OPTIONS * HTTP/1.1\r\nHost: " + HOST + b"\r\n\r\n", {200, 204, 400, 404}),
    ("upgrade", get(extra=b"Connection: Upgrade\r\nUpgrade: websocket\r\n"), {200, 400}),
    ("h2c", get(extra=b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"), {200, 400}),
    ("expect-other", post(extra=b"Expect: 200-ok\r\n"), {200, 400, 417}),
    ("gzip-body", post(extra=b"Content-Encoding: gzip\r\n"), {400, 415}),
    ("range", get(extra=b"Range: bytes=0-1\r\n"), {200}),
    ("accept-nothing", get(extra=b"Accept: image/png\r\n"), {200, 406}),
    ("cookie", get(extra=b"Cookie: a=b\r\n"), {200}),
    ("latin-1-value", get(extra=b"X-A: \xe9\xff\r\n"), {200, 400}),
    ("pipelined-garbage", get() + b"\0\0\0\0\r\n\r\n", {200}),
]

PATHS = [
    (b"/", {200}),
    (b"/v1", {404}),
    (b"/v1/", {404}),
    (b"/v1/models/", {404}),
    (b"//v1/models", {404}),
    (b"/v1//models", {404}),
    (b"/V1/MODELS", {404}),
    (b"/v1/models/../models", {400, 404}),
    (b"/../../etc/passwd", {400, 404}),
    (b"/..%2f..%2fetc/passwd", {400, 404}),
    (b"/%2e%2e/%2e%2e/etc/passwd", {400, 404}),
    (b"/v1/models%00", {400, 404}),
    (b"/v1/models%00.png", {400, 404}),
    (b"/v1/models%", {400, 404}),
    (b"/v1/models%zz", {400, 404}),
    (b"/v1/models%c0%af", {400, 404}),
    (b"/v1/models\\", {400, 404}),
    (b"/v1/models;a=b", {400, 404}),
    (b"/v1/models\xff", {400, 404}),
    (b"/v1/models?a=%00&b=%ff&c", {200, 400}),
    (b"/v1/completions/none/alternatives?pos=0", {404}),
    (b"/v1/completions/none/alternatives?pos=-1", {400, 404}),
    (b"/v1/completions/none/alternatives?pos=x", {400, 404}),
    (b"/v1/completions/none/alternatives?pos=99999999999999999999", {400, 404}),
    (b"/v1/completions/none/alternatives", {400, 404}),
    (b"/v1/completions//alternatives?pos=0", {404}),
    (b"/v1/completions/" + b"a" * 300 + b"/alternatives?pos=0", {400, 404}),
    (b"/v1/completions/%2e%2e/alternatives?pos=0", {400, 404}),
    (b"/v1/completions/%00/alternatives?pos=0", {400, 404}),
    (b"/metrics/../health", {400, 404}),
    (b"/proc/self/environ", {404}),
    (b"/.env", {404}),
    (b"/v1/files", {404}),
    (b"/slots", {404}),
    (b"/api/v1/generate", {404}),
]

METHODS = [
    (method, path)
    for path in (b"/v1/completions", b"/v1/chat/completions", b"/completion", b"/tokenize")
    for method in (b"GET", b"PUT", b"DELETE", b"PATCH", b"TRACE", b"PROPFIND", b"post", b"A")
] + [(b"POST", b"/v1/models"), (b"DELETE", b"/v1/models"), (b"POST", b"/health"), (b"PUT", b"/metrics")]

KINDS = [
    (b"application/json", {200}),
    (b"application/json; charset=utf-8", {200}),
    (b"Application/JSON", {200}),
    (b"application/json ;charset=UTF-8", {200}),
    (None, {415}),
    (b"text/plain", {415}),
    (b"text/plain; application/json", {415}),
    (b"application/x-www-form-urlencoded", {415}),
    (b"multipart/form-data; boundary=x", {415}),
    (b"application/jsonp", {415}),
    (b"application/json2", {415}),
    (b"x", {415}),
]

# ==== Bodies that are not JSON, or not such as it should be ====

DEEP = b'{"prompt":"go","max_tokens":1,"x":' + b"[" * 62 + b"]" * 62 + b"}"
BODIES = [
    ("empty", b"", BAD),
    ("space", b"   \n", BAD),
    ("open", b"{", BAD),
    ("list", b"[]", BAD),
    ("list-of-one", b'[{"prompt":"go"}]', BAD),
    ("null", b"null", BAD),
    ("number", b"1", BAD),
    ("text", b'"go"', BAD),
    ("nothing-in-it", b"{}", BAD),
    ("behind", b'{"prompt":"go"} x', BAD),
    ("two", b'{"prompt":"go"}{"prompt":"go"}', BAD),
    ("comma", b'{"prompt":"go",}', BAD),
    ("single-quotes", b"{'prompt':'go'}", BAD),
    ("bare-key", b'{prompt:"go"}', BAD),
    ("comment", b'{"prompt":"go"/*x*/}', BAD),
    ("bom", b'\xef\xbb\xbf{"prompt":"go","max_tokens":1}', {200, 400}),
    ("utf-16", '{"prompt":"go"}'.encode("utf-16"), BAD),
    ("utf-32", '{"prompt":"go"}'.encode("utf-32"), BAD),
    ("nul-inside", b'{"prompt":"g\0o"}', BAD),
    ("nul-behind", b'{"prompt":"go"}\0', BAD),
    ("control-inside", b'{"prompt":"g\x01o"}', BAD),
    ("newline-inside", b'{"prompt":"g\no"}', BAD),
    ("bad-utf-8", b'{"prompt":"\xff"}', BAD),
    ("cut-utf-8", b'{"prompt":"\xe2\x82"}', BAD),
    ("overlong", b'{"prompt":"\xc0\xaf"}', BAD),
    ("surrogate-bytes", b'{"prompt":"\xed\xa0\x80"}', BAD),
    ("above-unicode", b'{"prompt":"\xf4\x90\x80\x80"}', BAD),
    ("bad-utf-8-in-key", b'{"prompt":"go","\xff":1}', BAD),
    ("lone-high", b'{"prompt":"\\ud800"}', BAD),
    ("lone-low", b'{"prompt":"\\udc00"}', BAD),
    ("low-high", b'{"prompt":"\\udc00\\ud800"}', BAD),
    ("high-high", b'{"prompt":"\\ud800\\ud800"}', BAD),
    ("lone-in-key", b'{"prompt":"go","\\ud800":1}', BAD),
    ("lone-in-unknown", b'{"prompt":"go","x":"\\ud800"}', BAD),
    ("pair", b'{"prompt":"\\ud83d\\ude00","max_tokens":1}', {200}),
    ("bad-escape", b'{"prompt":"\\x41"}', BAD),
    ("short-escape", b'{"prompt":"\\u12"}', BAD),
    ("nul-escape", b'{"prompt":"g\\u0000o","max_tokens":1}', {200, 400}),
    ("nul-in-key", b'{"prompt":"go","a\\u0000b":1}', BAD),
    ("twice", b'{"prompt":"go","prompt":"no"}', BAD),
    ("twice-inside", b'{"prompt":"go","x":{"a":1,"a":2}}', BAD),
    ("twice-by-escape", b'{"prompt":"go","p\\u0072ompt":"no"}', BAD),
    ("nan", b'{"prompt":"go","temperature":NaN}', BAD),
    ("infinity", b'{"prompt":"go","temperature":Infinity}', BAD),
    ("minus-infinity", b'{"prompt":"go","temperature":-Infinity}', BAD),
    ("1e999", b'{"prompt":"go","temperature":1e999}', BAD),
    ("1e999-unknown", b'{"prompt":"go","x":1e999}', {200, 400}),
    ("hex", b'{"prompt":"go","temperature":0x1}', BAD),
    ("leading-zero", b'{"prompt":"go","temperature":01}', BAD),
    ("plus", b'{"prompt":"go","temperature":+1}', BAD),
    ("dot", b'{"prompt":"go","temperature":1.}', BAD),
    ("dot-first", b'{"prompt":"go","temperature":.5}', BAD),
    ("huge-number", b'{"prompt":"go","seed":' + b"9" * 400 + b"}", BAD),
    ("long-fraction", b'{"prompt":"go","temperature":0.' + b"3" * 100000 + b',"max_tokens":1}', {200,
                                                                                               400}),
    ("True", b'{"prompt":"go","echo":True}', BAD),
    ("undefined", b'{"prompt":"go","echo":undefined}', BAD),
    ("depth-64", DEEP, {200, 400}),
    ("depth-70", b'{"x":' + b"[" * 70 + b"]" * 70 + b"}", BAD),
    ("depth-100000", b'{"x":' + b"[" * 100000 + b"]" * 100000 + b"}", BAD),
    ("depth-objects", b'{"a":' * 100000, BAD),
    ("7-mib-of-open", b"[" * (7 << 20), BAD),
    ("2-million-values", b'{"prompt":"go","x":[' + b"1," * 2000000 + b"1]}", BAD),
    ("many-keys", json.dumps(dict({str(i): i for i in range(50000)}, prompt="go", max_tokens=1))
     .encode(), {200}),
    ("long-key", b'{"prompt":"go","max_tokens":1,"' + b"k" * 100000 + b'":1}', {200}),
    ("quotes-only", b'"' * 100000, BAD),
    ("backslashes", b'{"prompt":"' + b"\\" * 100001 + b'"}', BAD),
]

# ==== Fields: {field: value} beside a good prompt, and the statuses ====

NUMBERS = (
    "temperature top_p top_k min_p typical_p presence_penalty frequency_penalty repeat_penalty n "
    "max_tokens max_completion_tokens n_predict seed max_rewinds max_evaluated stuck_mass "
    "repeat_last_n best_of"
).split()
SWITCHES = "stream echo ignore_eos bans_enabled deterministic".split()
WRONG = [(f, v) for f in NUMBERS for v in ("warm", [1], {"a": 1})]
WRONG += [(f, v) for f in SWITCHES for v in ("yes", 2, [1])]
WRONG += [
    ("temperature", -0.1), ("temperature", 1e9), ("top_p", 1.1), ("top_p", -0.1), ("top_k", -2),
    ("top_k", 1.5), ("min_p", 2), ("min_p", -1), ("typical_p", 1.5), ("presence_penalty", 1e6),
    ("frequency_penalty", -1e6), ("repeat_penalty", -1), ("n", 0), ("n", -1), ("n", 17), ("n", 1.5),
    ("n", 1e9), ("n", 10**18), ("max_tokens", -2), ("max_tokens", 1.5), ("max_tokens", 10**17),
    ("max_tokens", 1e300), ("seed", 1.5), ("seed", -2), ("seed", 10**30), ("seed", 1e30),
    ("best_of", 3), ("best_of", 0), ("suffix", "x"), ("logprobs", 21), ("logprobs", -1),
    ("logprobs", 1.5), ("logprobs", "five"), ("stuck_mass", 2), ("max_rewinds", -2),
    ("stop", 5), ("stop", {"a": 1}), ("stop", [5]), ("stop", ["x"] * 65), ("stop", "x" * 257),
    ("stop", [["x"]]),
    ("logit_bias", {"999999": 1}), ("logit_bias", {"-1": 1}), ("logit_bias", {"256": 101}),
    ("logit_bias", {"256": "x"}), ("logit_bias", {"256": {}}), ("logit_bias", 5),
    ("logit_bias", [[256]]), ("logit_bias", [[256, 1, 1]]), ("logit_bias", [5]),
    ("logit_bias", {str(i % 256) + " " * (i // 256): 1 for i in range(1025)}),
    ("stream_options", 5), ("retrace", 5), ("rules", 5), ("rules", "phrases"), ("rules", [5]),
    ("rules", [{}]), ("rules", [{"name": 5}]), ("rules", [{"name": "nonsense"}]),
    ("rules", [{"name": "phrases", "text": ["a"], "nonsense": 1}]),
    ("rules", [{"name": "phrases", "text": 5}]),
    ("rules", [{"name": "phrases", "file": "/etc/passwd"}]),
    ("rules", [{"name": "repetition", "max_repetitions": -5}]),
    ("rules", [{"name": "repetition", "max_repetitions": "many"}]),
    ("rules", [{"name": "phrases", "text": ["a"]}] * 65),
    ("banned_strings", 5), ("banned_strings", [5]), ("banned_strings", {"a": 1}),
    ("banned_strings", [["a"]]), ("banned_strings", ["x"] * 10001),
    ("banned_strings", ["x" * 1000 + str(i) for i in range(1200)]),
    ("bad_words", 5), ("bad_words", [None]), ("bad_words", [[1, 2]]),
    ("banned_tokens", 5.5), ("banned_tokens", [1.5]), ("banned_tokens", [999999]),
    ("banned_tokens", [-1]), ("banned_tokens", "1,x"), ("banned_tokens", [{}]),
    ("custom_token_bans", "1;2"), ("custom_token_bans", "999999"), ("custom_token_bans", [[1]]),
    ("banned_regex", 5), ("banned_regex", ["("]), ("banned_regex", ["[a"]), ("banned_regex", [5]),
    ("banned_regex", ["a"] * 65), ("banned_regex", ["a" * 1025]), ("banned_regex", ["(a" * 5000]),
    ("banned_regex", ["a{99999999}"]), ("banned_regex_case_insensitive", ["*"]),
    ("ban_lists", ["none"]), ("ban_lists", 5), ("ban_lists", ["../../etc/passwd"]),
    ("grammar", "root ::= ("), ("grammar", "x"), ("grammar", 5), ("grammar", "(" * 60000),
    ("grammar", "root ::= root"), ("grammar", "root ::= nothing"), ("grammar", "a" * 70000),
    ("grammar", 'root ::= "a"{1,99999999}'),
    ("json_schema", "{"), ("json_schema", 5), ("json_schema", {"type": "nonsense"}),
    ("json_schema", {"$ref": "#/nowhere"}), ("json_schema", {"$ref": "http://evil.test/x"}),
    ("response_format", "json"), ("response_format", {"type": "nonsense"}), ("response_format", 5),
    ("response_format", {"type": "json_schema"}),
    ("hold", "nonsense"), ("hold", 5), ("resample", "nonsense"), ("on_stuck", "nonsense"),
    ("driver", "guide"), ("driver", "nonsense"),
]
PROMPTS = [
    None, 5, True, {}, {"a": 1}, [], [[]], [1.5], [-1], [999999], [True], [None], [["a"]], [1, "a"],
    ["a", 1], [[1], "a"], [[[1]]], ["a"] * 17, [[256]] * 17, [10**30], "a" * 5000, [256] * 5000,
]
MESSAGES = [
    None, 5, "go", [], {}, [5], ["go"], [None], [{}], [{"role": "user"}], [{"content": "go"}],
    [{"role": 5, "content": "go"}], [{"role": "user", "content": 5}],
    [{"role": "user", "content": {"a": 1}}], [{"role": "user", "content": ["go"]}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://evil.test"}}]}],
    [{"role": "user", "content": [{"type": "text"}]}],
    [{"role": "user", "content": [{"type": "text", "text": 5}]}],
    [{"role": "user", "content": [{"text": "go"}]}],
    [{"role": "nonsense", "content": "go"}],
    [{"role": "user", "content": "a" * 5000}], [{"role": "user", "content": "a"}] * 4097,
]
CHAT = [
    ("tools", [{"type": "function", "function": {"name": "f"}}]), ("tools", 5),
    ("logprobs", 5), ("logprobs", "yes"), ("top_logprobs", 3), ("top_logprobs", 21),
    ("top_logprobs", -1), ("chat_template", "{{ x }}"), ("chat_template_kwargs", 5),
    ("n", 17), ("max_completion_tokens", "x"), ("response_format", {"type": "nonsense"}),
    ("stream", "yes"), ("temperature", -1), ("stop", [5]), ("banned_strings", [5]),
]
OTHERS = [
    ("/tokenize", {}), ("/tokenize", {"content": 5}), ("/tokenize", {"content": ["a"]}),
    ("/tokenize", {"messages": 5}), ("/tokenize", {"content": "a", "add_special": "x"}),
    ("/detokenize", {}), ("/detokenize", {"tokens": 5}), ("/detokenize", {"tokens": ["a"]}),
    ("/detokenize", {"tokens": [999999]}), ("/detokenize", {"tokens": [-1]}),
    ("/detokenize", {"tokens": [1.5]}), ("/detokenize", {"tokens": [10**30]}),
    ("/apply-template", {}), ("/apply-template", {"messages": 5}),
    ("/apply-template", {"messages": [{"role": "user"}]}),
    ("/v1/rewind", {}), ("/v1/rewind", {"id": 5}), ("/v1/rewind", {"id": "none"}),
    ("/v1/rewind", {"id": "", "keep": 0}), ("/v1/rewind", {"id": "none", "keep": "x"}),
    ("/v1/rewind", {"id": "x" * 100000, "keep": 0}),
    ("/v1/backward", {}), ("/v1/backward", {"suffix": "a", "mode": "x"}), ("/v1/backward", {"suffix": 5}),
    ("/completion", {}), ("/completion", {"prompt": 5}), ("/completion", {"prompt": {"a": 1}}),
    ("/completion", {"prompt": "go", "n_predict": "x"}),
    ("/completion", {"prompt": "go", "n_probs": -1}),
    ("/completion", {"prompt": ["go", 999999]}),
]

# ==== Who asks: extra headers, the statuses of a GET and of a POST ====

ASKERS = [
    (b"Host: 127.0.0.1:@PORT@\r\n", {200}),
    (b"Host: localhost:@PORT@\r\n", {200}),
    (b"Host: LocalHost:@PORT@\r\n", {200}),
    (b"Host: [::1]:@PORT@\r\n", {200}),
    (b"Host: evil.test\r\n", {403}),
    (b"Host: evil.test:@PORT@\r\n", {403}),
    (b"Host: 127.0.0.1:1\r\n", {403}),
    (b"Host: 127.0.0.1.evil.test:@PORT@\r\n", {403}),
    (b"Host: localhost.evil.test:@PORT@\r\n", {403}),
    (b"Host: xlocalhost:@PORT@\r\n", {403}),
    (b"Host: 127.0.0.1:@PORT@@evil.test\r\n", {400, 403}),
    (b"Host: evil.test@127.0.0.1:@PORT@\r\n", {400, 403}),
    (b"Host: 0.0.0.0:@PORT@\r\n", {403}),
    (b"Host: 2130706433:@PORT@\r\n", {403}),
    (b"Host: [::ffff:127.0.0.1]:@PORT@\r\n", {403}),
    (b"Host: \r\n", {400, 403}),
    (b"Host: /\r\n", {400, 403}),
    (b"Host: 127.0.0.1:@PORT@\r\nOrigin: http://127.0.0.1:@PORT@\r\n", {200}),
    (b"Host: localhost:@PORT@\r\nOrigin: http://localhost:@PORT@\r\n", {200}),
    (b"Host: 127.0.0.1:@PORT@\r\nOrigin: http://evil.test\r\n", {403}),
    (b"Host: 127.0.0.1:@PORT@\r\nOrigin: http://127.0.0.1:1\r\n", {403}),
    (b"Host: 127.0.0.1:@PORT@\r\nOrigin: http://127.0.0.1:@PORT@.evil.test\r\n", {403}),
    (b"Host: 127.0.0.1:@PORT@\r\nOrigin: null\r\n", {403}),
    (b"Host: 127.0.0.1:@PORT@\r\nOrigin: \r\n", {400, 403}),
    (b"Host: 127.0.0.1:@PORT@\r\nOrigin: x\r\n", {403}),
    (b"Host: 127.0.0.1:@PORT@\r\nOrigin: file://\r\n", {403}),
    (b"Host: 127.0.0.1:@PORT@\r\nSec-Fetch-Site: cross-site\r\n", {403}),
    (b"Host: 127.0.0.1:@PORT@\r\nSec-Fetch-Site: same-origin\r\n", {200}),
    (b"Host: 127.0.0.1:@PORT@\r\nSec-Fetch-Site: none\r\n", {200}),
    (b"Host: evil.test\r\nOrigin: http://evil.test\r\n", {403}),
    (b"Host: evil.test\r\nX-Forwarded-Host: 127.0.0.1:@PORT@\r\n", {403}),
]
KEYS = [
    (b"", {401}),
    (b"Authorization: Bearer sesame\r\n", {200}),
    (b"authorization: bearer sesame\r\n", {200}),
    (b"X-Api-Key: sesame\r\n", {200}),
    (b"Authorization: Bearer wrong\r\n", {401}),
    (b"Authorization: Bearer sesam\r\n", {401}),
    (b"Authorization: Bearer sesamee\r\n", {401}),
    (b"Authorization: Bearer \r\n", {401}),
    (b"Authorization: Bearer\r\n", {401}),
    (b"Authorization: sesame\r\n", {401}),
    (b"Authorization: Basic c2VzYW1l\r\n", {401}),
    (b"Authorization: Bearer sesame, Bearer wrong\r\n", {401}),
    (b"Authorization: Bearer " + b"a" * 5000 + b"\r\n", {400, 401}),
    (b"X-Api-Key: \r\n", {401}),
    (b"X-Api-Key: Sesame\r\n", {401}),
    (b"Authorization: Bearer wrong\r\nX-Api-Key: sesame\r\n", {200, 401}),
    (b"Cookie: key=sesame\r\n", {401}),
]
