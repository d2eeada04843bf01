"""`retrace pull` against a hub that does everything wrong. Whatever comes: a file has its name only when it is the
file that the listing states, failures are exit 4 with a reason, and nothing outlasts its limit.

Answers that are to be repeated say `Retry-After: 0`, so that nothing here waits long.
"""
import gzip
import json
import os
import re
import shutil
import ssl
import subprocess
import threading
import time

import pytest

from hub import (Answer, Hub, body, claims, cut, cut_all, drip, endless, flip, git_sha1, no_range, of_json,
                 other_range, raw, redirect, sha256, stall, status)
from pulling import DATA, NAME, REPO, Pulls, fails, hub, hub_of, pulls  # two of them are fixtures

SECRET = "hf_secretSECRETsecret"


def succeeds(pulls, **more):
    done = pulls("-q", **more)
    assert done.code == 0 and done.err == "", done
    assert done.out == str(pulls.snapshot()) + "\n"
    assert pulls.is_whole()
    return done


def refuses(pulls, *words, **more):
    said = fails(pulls("-q", **more), *words)
    assert not pulls.names(), said
    assert not list(pulls.cache.rglob("refs/*")), "a ref without its files"
    return said


# ==== Cut ====


def test_cut_after_any_byte_and_taken_up_there(retrace):
    """A model in 60 parts of 300 bytes: each is cut five times, and together after every byte."""
    names = ["m-Q8_0-%05d-of-00060.gguf" % (i + 1) for i in range(60)]
    files = {n: (b"GGUF %5d " % i + DATA * 2)[:300] for i, n in enumerate(names)}
    with hub_of(files, page=1000) as hub:
        pulls, places = Pulls(retrace, hub), []
        for i, name in enumerate(names):
            sent = 0
            for place in range(i, 300, 60):
                hub.fault("cdn", cut(place - sent, Retry_After=0), path=sha256(files[name]))
                places.append((name, place))
                sent = place
        assert len({place for _, place in places}) == 300
        done = pulls("-q")
        assert done.code == 0 and done.err == "", done
        assert all(pulls.is_whole(n) for n in names)
        asked = [(r.path[-64:], r.headers.get("range"), r.headers.get("if-range")) for r in hub.of("cdn")]
        for name, place in places:
            oid = sha256(files[name])
            assert (oid, "bytes=%d-" % place if place else None, '"%s"' % oid if place else None) in asked
        assert len(asked) == 360


def test_six_cuts_end_it_and_the_next_pull_goes_on_there(pulls, hub):
    hub.fault("cdn", cut(10, Retry_After=0), times=6)
    refuses(pulls, NAME)
    assert len(hub.of("cdn")) == 6, "a try and five repeats"
    assert pulls.part().read_bytes() == DATA[:60]
    hub.forget()
    succeeds(pulls)
    assert [r.headers["range"] for r in hub.of("cdn")] == ["bytes=60-"]


def test_a_connection_that_breaks_before_the_answer(pulls, hub):
    start = time.monotonic()
    hub.fault("cdn", cut_all(0)).fault("refs", cut_all(40))
    succeeds(pulls)
    assert 2 <= time.monotonic() - start < 20, "one second before each first repeat"


@pytest.mark.parametrize("where", ["refs", "tree"])
def test_a_listing_that_is_cut(pulls, hub, where):
    hub.fault(where, cut(30, Retry_After=0), times=3)
    succeeds(pulls)


# ==== Other bytes ====


def test_wrong_bytes_are_fetched_anew(pulls, hub):
    hub.fault("cdn", flip(7))
    succeeds(pulls)
    assert len(hub.of("cdn")) == 2 and "range" not in hub.of("cdn")[1].headers


def test_bytes_that_stay_wrong(pulls, hub):
    hub.fault("cdn", flip(200), times=99)
    refuses(pulls, NAME)
    assert len(hub.of("cdn")) <= 3
    hub.forget()
    succeeds(pulls)


def test_a_damaged_part_is_noticed(pulls, hub):
    begun(pulls, hub)
    part = pulls.part()
    was = part.read_bytes()
    part.write_bytes(was[:50] + b"\0" + was[51:])
    succeeds(pulls)


@pytest.mark.parametrize("more", [1, 5000])
def test_too_many_bytes(pulls, hub, more):
    hub.fault("cdn", body(lambda b: b + b"x" * more), times=99)
    refuses(pulls, NAME)


def test_too_many_bytes_of_no_stated_length(pulls, hub):
    hub.fault("cdn", endless(b"x" * 1000), times=99)
    start = time.monotonic()
    refuses(pulls, NAME)
    assert time.monotonic() - start < 30
    assert not pulls.part().exists() or pulls.part().stat().st_size <= len(DATA)


def test_no_stated_length(pulls, hub):
    hub.fault("cdn", claims(""))
    succeeds(pulls)


def test_too_few_bytes(pulls, hub):
    hub.fault("cdn", body(lambda b: b[:-1], Retry_After=0))
    succeeds(pulls)


@pytest.mark.parametrize("size", [1, len(DATA) - 1, len(DATA) + 1, 10**6])
def test_a_listing_with_another_size(pulls, hub, size):
    entries = hub.tree(REPO)
    entries[0]["size"] = entries[0]["lfs"]["size"] = size
    hub.fault("tree", lambda r, a: of_json(entries, Retry_After=0), times=99)
    hub.fault("cdn", lambda r, a: Answer(a().code, a().body, Retry_After=0, **{}), times=99)
    refuses(pulls, NAME)


def test_a_listing_with_another_hash(pulls, hub):
    entries = hub.tree(REPO)
    entries[0]["lfs"]["oid"] = "0" * 64
    hub.fault("tree", lambda r, a: of_json(entries), times=99)
    refuses(pulls, NAME)
    assert not (pulls.blob().parent / ("0" * 64)).exists()


def test_a_git_file_of_another_hash(retrace):
    with hub_of({"git/small.gguf": DATA}) as hub:
        hub.fault("resolve", lambda r, a: Answer(200, b"x" * len(DATA)), times=99, method="GET")
        pulls = Pulls(retrace, hub)
        refuses(pulls, "small.gguf")


# ==== Statuses ====


@pytest.mark.parametrize("where, code", [("refs", 429), ("tree", 500), ("resolve", 502), ("cdn", 503), ("cdn", 504), ("cdn", 408)])
def test_busy_five_times_and_then_fine(pulls, hub, where, code):
    hub.fault(where, status(code, Retry_After=0), times=5)
    succeeds(pulls)


def test_a_try_that_brought_much_is_followed_by_five_more(retrace):
    data = b"GGUF" + os.urandom(9 << 20)
    with hub_of({NAME: data}) as hub:
        hub.fault("cdn", cut((1 << 20) + 5, Retry_After=0), times=8)
        pulls = Pulls(retrace, hub)
        done = pulls("-q")
        assert done.code == 0 and pulls.is_whole(), done
        assert len(hub.of("cdn")) == 9


@pytest.mark.parametrize("where", ["refs", "tree", "resolve", "cdn"])
def test_busy_six_times(pulls, hub, where):
    hub.fault(where, status(503, Retry_After=0), times=99)
    said = refuses(pulls, "503", REPO)
    assert len(hub.of(where)) == 6, said


def test_retry_after_is_waited_for(pulls, hub):
    hub.fault("cdn", status(429, Retry_After=2))
    start = time.monotonic()
    succeeds(pulls)
    assert time.monotonic() - start >= 2


@pytest.mark.parametrize("after", ["3600", "Fri, 31 Dec 2199 23:59:59 GMT"])
def test_retry_after_has_a_limit(pulls, hub, after):
    hub.fault("cdn", status(503, Retry_After=after))
    p = pulls.start(REPO, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        seen = b""
        while b"again in" not in seen:
            more = os.read(p.stderr.fileno(), 4096)
            assert more, seen
            seen += more
        assert b"again in 60 s" in seen, seen
    finally:
        p.terminate()
        p.wait(10)
        p.stderr.close()


@pytest.mark.parametrize("code", [204, 300, 304, 400, 402, 405, 410, 418, 451, 600, 999])
def test_a_status_of_no_use(pulls, hub, code):
    hub.fault("cdn", status(code, b""), times=99)
    refuses(pulls, REPO)
    assert len(hub.of("cdn")) <= 6


@pytest.mark.parametrize("answer", [b"nonsense\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/9.9 200 OK\r\n\r\n", b"\0" * 200,
                                    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nx",
                                    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nx",
                                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx",
                                    b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 700000 + b"\r\n\r\n",
                                    b"HTTP/1.1 200 OK\r\n" + b"X-Many: x\r\n" * 70000 + b"\r\n"])
def test_an_answer_that_is_none(pulls, hub, answer):
    hub.fault("refs", raw(answer))
    hub.fault("refs", status(404), times=99)
    refuses(pulls, REPO)


@pytest.mark.parametrize("where", ["refs", "cdn"])
def test_a_header_line_that_is_too_long_is_called_that(pulls, hub, where):
    hub.fault(where, raw(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * (1 << 20) + b"\r\n\r\n"))
    done = pulls()
    assert done.code == 0 and "header line is too long" in done.err, done


# ==== Redirects ====


def chain(hub, n):
    """The file is behind n redirects within the hub."""
    for i in range(n - 1):
        hub.fault("resolve" if i == 0 else "other", redirect("/again/%d" % i))
    if n > 1:
        hub.fault("other", redirect(lambda r: "%s/blob/%s" % (hub.cdn, sha256(DATA))))


def test_five_redirects_are_followed(pulls, hub):
    chain(hub, 5)
    succeeds(pulls)
    assert len(hub.of("other")) == 4


def test_six_are_not(pulls, hub):
    chain(hub, 6)
    refuses(pulls, "redirect")
    assert not hub.of("cdn")


def test_redirects_to_and_fro_between_two_hosts(pulls, hub):
    hub.fault("resolve", redirect(hub.cdn + "/blob/x"), times=99)
    hub.fault("cdn", redirect(lambda r: "%s/%s/resolve/main/%s" % (hub.url, REPO, NAME)), times=99)
    fails(pulls("-q"), "redirects")
    assert len(hub.of("resolve", "cdn")) == 6


@pytest.mark.parametrize("where", ["refs", "resolve", "cdn"])
def test_a_redirect_to_itself(pulls, hub, where):
    hub.fault(where, redirect(lambda r: r.target), times=99)
    refuses(pulls, "redirect")
    assert len(hub.of("refs" if where == "refs" else "resolve", "cdn")) == 6


@pytest.mark.parametrize("where", ["resolve", "refs"])
@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://127.0.0.2:9/x", "gopher://127.0.0.1/x",
                                "dict://127.0.0.1/x", "http:///x", "http://[::ffff:127.0.0.1]:1/", "scp://127.0.0.1/x",
                                "HTTP://127.0.0.1.example.invalid/", "http://127.0.0.1:1@example.invalid/"])
def test_a_redirect_that_is_not_followed(pulls, hub, where, to):
    hub.fault(where, redirect(to), times=99)
    refuses(pulls)
    assert len(hub.of(where)) == 1, "not tried again"


@pytest.mark.parametrize("headers", [{}, {"Location": ""}, {"Location": "x" * 100000}, {"Location": "\x01\x02"}])
def test_a_redirect_to_nowhere(pulls, hub, headers):
    hub.fault("resolve", status(302, b"", **headers), times=99)
    refuses(pulls)


def test_the_token_is_not_sent_after_a_redirect_elsewhere(retrace):
    """Another port is another host; so is another name for the same machine."""
    with hub_of() as other, hub_of(tokens={REPO: SECRET}) as hub:
        here = hub.url.replace("127.0.0.1", "localhost")
        for where, to in (("refs", other.url), ("tree", other.url), ("resolve", other.url), ("refs", other.cdn)):
            hub.forget(), other.forget()
            hub.fault(where, redirect(lambda r: to + r.target), times=9)
            pulls = Pulls(retrace, hub, retrace.tmp / (where + to[-5:]))
            pulls("-q", env={"HF_TOKEN": SECRET})
            assert other.requests
            assert all("authorization" not in r.headers for r in other.requests)
        hub.forget()
        hub.fault("refs", redirect(lambda r: here + r.target), times=1)
        pulls("-q", env={"HF_TOKEN": SECRET})
        named = [r for r in hub.requests if r.headers["host"].startswith("localhost") and r.server == "hub"]
        assert named and all("authorization" not in r.headers for r in named)


def test_a_redirect_back_has_the_token_again_or_not_but_never_there(retrace):
    with hub_of(tokens={REPO: SECRET}) as hub:
        hub.fault("resolve", redirect(lambda r: hub.cdn + "/bounce"))
        hub.fault("cdn", redirect(lambda r: hub.url + "/%s/resolve/main/%s" % (REPO, NAME)), path="/bounce")
        Pulls(retrace, hub)("-q", env={"HF_TOKEN": SECRET})
        assert hub.of("cdn") and all("authorization" not in r.headers for r in hub.of("cdn"))


def test_a_page_elsewhere_is_not_asked_for(retrace):
    with hub_of() as other, hub_of(tokens={REPO: SECRET}) as hub:
        pulls = Pulls(retrace, hub)
        for to in (other.url, "https://127.0.0.1:1", "file:///etc", "//" + other.url[7:]):
            link = '<%s/api/models/x>; rel="next"' % to
            hub.fault("tree", lambda r, a: of_json(hub.tree(REPO), Link=link), times=1)
            done = pulls("-q", env={"HF_TOKEN": SECRET})
            assert done.code in (0, 4), done
            assert not other.requests


# ==== Parts of a file ====


def begun(pulls, hub, at=100):
    """A pull that got as far as this."""
    hub.fault("cdn", cut(at, Retry_After=0)).fault("cdn", status(404))
    pulls("-q")
    assert pulls.part().stat().st_size == at and not pulls.names()
    hub.forget()


def test_200_for_a_range(pulls, hub):
    begun(pulls, hub)
    hub.fault("cdn", no_range)
    succeeds(pulls)
    assert hub.of("cdn")[0].headers["range"] == "bytes=100-"


def test_200_for_a_range_and_cut_before_what_there_was(pulls, hub):
    begun(pulls, hub)

    def short(request, answer):
        a = no_range(request, answer)
        a.cut = 50
        a.headers["Retry-After"] = "0"
        return a

    hub.fault("cdn", short)
    succeeds(pulls)
    assert hub.of("cdn")[1].headers["range"] == "bytes=50-"


@pytest.mark.parametrize("shift", [-1, 1, -100, 7])
def test_206_with_another_range(pulls, hub, shift):
    begun(pulls, hub)
    hub.fault("cdn", other_range(shift))
    hub.fault("cdn", lambda r, a: a())
    done = pulls("-q")
    assert done.code == 0 and pulls.is_whole(), done


@pytest.mark.parametrize("said", [None, "", "bytes", "bytes */*", "bytes 100-", "items 100-299/300", "bytes 100-999/1000",
                                  "bytes 99999999999999999999-1/2", "bytes 100-%d/%d" % (len(DATA) - 1, len(DATA) + 1)])
def test_206_with_a_content_range_that_is_none(pulls, hub, said):
    begun(pulls, hub)

    def odd(request, answer):
        a = answer()
        a.headers.pop("Content-Range")
        if said is not None:
            a.headers["Content-Range"] = said
        return a

    hub.fault("cdn", odd)
    done = pulls("-q")
    assert done.code == 0 and pulls.is_whole(), done


def test_206_that_was_not_asked_for(pulls, hub):
    def odd(request, answer):
        a = answer()
        a.code, a.headers["Content-Range"] = 206, "bytes 5-9/%d" % len(DATA)
        a.body = a.body[5:10]
        return a

    hub.fault("cdn", odd)
    done = pulls("-q")
    assert done.code == 0 and pulls.is_whole(), done


def test_416(pulls, hub):
    begun(pulls, hub)
    hub.fault("cdn", status(416, b"", Content_Range="bytes */%d" % len(DATA)))
    done = pulls("-q")
    assert done.code == 0 and pulls.is_whole(), done


def test_416_for_ever(pulls, hub):
    begun(pulls, hub)
    hub.fault("cdn", status(416, b"", Retry_After=0), times=99)
    refuses(pulls, REPO)
    assert len(hub.of("cdn")) <= 12


def test_an_etag_that_changed_between_tries(pulls, hub):
    """The part of the old file is dropped because the server sees that If-Range is not its ETag."""
    hub.fault("cdn", body(lambda b: b"y" * len(b), ETag='"old"'))

    def old_and_cut(request, answer):
        a = Answer(200, b"y" * len(DATA), ETag='"old"', Accept_Ranges="bytes", Retry_After=0)
        a.cut = 120
        return a

    hub.faults.clear()
    hub.fault("cdn", old_and_cut)
    succeeds(pulls)
    assert hub.of("cdn")[1].headers["if-range"] == '"old"'
    assert hub.of("cdn")[1].headers["range"] == "bytes=120-"
    assert len(hub.of("cdn")) == 2


def test_a_server_that_does_not_know_if_range(pulls, hub):
    begun(pulls, hub)
    part = pulls.part()
    part.write_bytes(b"z" * 100)

    def ignoring(request, answer):
        request.headers.pop("if-range", None)
        return answer()

    hub.fault("cdn", ignoring, times=99)
    succeeds(pulls)
    assert len(hub.of("cdn")) == 2 and "range" not in hub.of("cdn")[1].headers


@pytest.mark.parametrize("etag", ['W/"weak"', "", '"a\\"b"', "x" * 5000, '"' + "e" * 300 + '"', "\t"])
def test_an_etag_that_cannot_be_used(pulls, hub, etag):
    hub.fault("cdn", cut(100, Retry_After=0, ETag=etag), times=1)
    done = pulls("-q")
    assert done.code == 0 and pulls.is_whole(), done
    sent = hub.of("cdn")[1].headers.get("if-range", '"%s"' % sha256(DATA))
    assert sent == '"%s"' % sha256(DATA) or sent == etag.strip()
    assert not sent.startswith("W/")


# ==== Other things than were asked for ====

HTML = b"<!DOCTYPE html><html><title>Sign in to this network</title></html>"


@pytest.mark.parametrize("where", ["refs", "tree"])
@pytest.mark.parametrize("what", [HTML, b"", b"null", b"[", b"{}", b"5", b'"x"', b"\xff\xfe", b"[" * 100000 + b"]" * 100000,
                                  b'{"branches": [{"name": "main", "targetCommit": "../../../../x"}]}',
                                  b'{"branches": [{"name": "main", "targetCommit": 5}]}'])
def test_no_listing_and_no_refs(pulls, hub, where, what):
    hub.fault(where, body(what, Retry_After=0), times=99)
    refuses(pulls)


def test_a_page_of_html_in_place_of_the_file(pulls, hub):
    hub.fault("cdn", status(200, HTML, Content_Type="text/html", Retry_After=0), times=99)
    refuses(pulls, NAME)


@pytest.mark.parametrize("where", ["refs", "tree"])
def test_a_listing_without_end(pulls, hub, where):
    hub.fault(where, endless(b"[" + b" " * 65535), times=99)
    start = time.monotonic()
    refuses(pulls, "MiB")
    assert time.monotonic() - start < 60


def test_pages_without_end(pulls, hub):
    def again(request, answer):
        return of_json([], Link='<%s%s>; rel="next"' % (hub.url, request.target))

    hub.fault("tree", again, times=10**6)
    refuses(pulls, "pages")
    assert len(hub.of("tree")) <= 1000


@pytest.mark.parametrize("where", ["refs", "tree", "cdn"])
def test_an_encoding_that_was_not_asked_for(pulls, hub, where):
    hub.fault(where, body(gzip.compress, Content_Encoding="gzip", Retry_After=0), times=99)
    refuses(pulls)
    assert all("accept-encoding" not in r.headers for r in hub.of("cdn"))


def entry(path, size=10, **more):
    return dict({"type": "file", "path": path, "size": size, "oid": "1" * 40, "lfs": {"oid": "2" * 64, "size": size}}, **more)


HOSTILE = {
    "up": [entry("../x-Q4_K_M.gguf")],
    "up inside": [entry("a/../../../x-Q4_K_M.gguf")],
    "absolute": [entry("/tmp/x-Q4_K_M.gguf")],
    "backslash": [entry("..\\x-Q4_K_M.gguf")],
    "nul": [entry("x\0-Q4_K_M.gguf")],
    "dots": [entry("..")],
    "dot": [entry("./x-Q4_K_M.gguf")],
    "empty": [entry("")],
    "two slashes": [entry("a//x-Q4_K_M.gguf")],
    "control": [entry("x\x1b[2J\n-Q4_K_M.gguf")],
    "long": [entry("x" * 5000 + "-Q4_K_M.gguf")],
    "negative": [entry("x-Q4_K_M.gguf", -1)],
    "fraction": [entry("x-Q4_K_M.gguf", 1.5)],
    "text": [entry("x-Q4_K_M.gguf", "10")],
    "not hex": [entry("x-Q4_K_M.gguf", lfs={"oid": "g" * 64, "size": 10})],
    "short": [entry("x-Q4_K_M.gguf", lfs={"oid": "2" * 63, "size": 10})],
    "oid leads out": [entry("x-Q4_K_M.gguf", lfs={"oid": "../../" + "2" * 58, "size": 10})],
    "no oid": [{"type": "file", "path": "x-Q4_K_M.gguf", "size": 10}],
    "no list": {"files": []},
    "numbers": [1, 2, 3],
    "too many": [{"type": "file", "path": "%d" % i, "size": 1, "oid": "1" * 40} for i in range(100001)],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_listing(pulls, hub, name):
    hub.fault("tree", lambda r, a: of_json(HOSTILE[name]), times=99)
    before = set(pulls.retrace.tmp.parent.rglob("x*"))
    said = refuses(pulls, REPO)
    assert set(pulls.retrace.tmp.parent.rglob("x*")) == before
    assert "\x1b" not in said
    assert not hub.of("cdn", "resolve")


@pytest.mark.parametrize("text", [
    '[{"type":"file","path":"ok-Q8_0.gguf","path":"../x-Q8_0.gguf","size":10,"oid":"%s","lfs":{"oid":"%s","size":10}}]' % ("1" * 40, "2" * 64),
    '[{"type":"file","path":"x-Q8_0.gguf","size":99999999999999999999999,"oid":"%s"}]' % ("1" * 40),
    '[{"type":"file","path":"x-Q8_0.gguf","size":1e999,"oid":"%s"}]' % ("1" * 40),
    '[{"type":"file","path":"\\ud800-Q8_0.gguf","size":1,"oid":"%s"}]' % ("1" * 40),
])
def test_hostile_json(pulls, hub, text):
    hub.fault("tree", body(text.encode()), times=99)
    refuses(pulls)
    assert not list(pulls.retrace.tmp.rglob("x-*"))


def test_more_than_any_disk_has(pulls, hub):
    hub.fault("tree", lambda r, a: of_json([entry("x-Q8_0.gguf", 2**62)]), times=99)
    refuses(pulls, "room")
    assert not hub.of("cdn")


# ==== Slow ====


def test_slow_but_steady(pulls, hub):
    hub.fault("cdn", drip(16, 0.1))
    succeeds(pulls, env={"HF_HUB_DOWNLOAD_TIMEOUT": "1"})
    assert len(hub.of("cdn")) == 1


def test_a_file_that_stalls_is_taken_up(pulls, hub):
    hub.fault("cdn", stall(150, 60))
    start = time.monotonic()
    succeeds(pulls, env={"HF_HUB_DOWNLOAD_TIMEOUT": "1"})
    assert time.monotonic() - start < 15
    assert hub.of("cdn")[1].headers["range"] == "bytes=150-"


def test_a_question_that_stalls(pulls, hub):
    hub.fault("refs", stall(0, 60))
    start = time.monotonic()
    succeeds(pulls, env={"HF_HUB_ETAG_TIMEOUT": "1"})
    assert time.monotonic() - start < 15


@pytest.mark.parametrize("value", ["0", "-1", "x", "1e9", "nan"])
def test_a_timeout_that_is_none(pulls, hub, value):
    for name in ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"):
        done = pulls("-q", env={name: value})
        assert done.code in (0, 2), done
        assert done.code == 0 or (name in done.err and done.out == "")


def test_nobody_listens(pulls, hub):
    done = pulls("-q", env={"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert done.code == 4 and done.out == "" and "127.0.0.1" in done.err, done


# ==== TLS, and proxies ====


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", folder / "key", "-out", folder / "crt"],
        check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    return context, str(folder / "crt")


@pytest.fixture
def secure(retrace, certificate):
    with hub_of(tls=certificate[0]) as hub:
        pulls = Pulls(retrace, hub)
        pulls.env["SSL_CERT_FILE"] = certificate[1]
        yield pulls


def test_https(secure):
    succeeds(secure)


def test_the_order_of_certificates(secure):
    succeeds(secure, env={"CURL_CA_BUNDLE": "/nowhere/at/all"})
    done = secure("-q", env={"SSL_CERT_FILE": "", "CURL_CA_BUNDLE": secure.env["SSL_CERT_FILE"]})
    assert done.code == 0, done


def test_a_certificate_that_nobody_knows(secure):
    refuses(secure, "certificate", env={"SSL_CERT_FILE": ""})
    assert not secure.hub.requests


@pytest.mark.parametrize("where", ["refs", "resolve"])
def test_from_https_never_to_http(secure, where):
    with hub_of() as plain:
        secure.hub.fault(where, redirect(lambda r: plain.url + r.target), times=9)
        refuses(secure, "redirect")
        assert not plain.requests


class Proxy(threading.Thread):
    """Connects where it is told to, and remembers."""

    def __init__(self):
        import socket

        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        self.asked = []

    def run(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        import socket

        head = b""
        while b"\r\n\r\n" not in head:
            more = client.recv(4096)
            if not more:
                return
            head += more
        self.asked.append(head)
        m = re.match(rb"CONNECT ([^:]+):(\d+)", head)
        if not m:
            client.close()
            return
        there = socket.create_connection((m[1].decode(), int(m[2])))
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        threading.Thread(target=self.copy, args=(there, client), daemon=True).start()
        self.copy(client, there)

    @staticmethod
    def copy(a, b):
        try:
            while True:
                data = a.recv(65536)
                if not data:
                    break
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            s.close()


def test_a_proxy_and_its_exceptions(secure):
    proxy = Proxy()
    proxy.start()
    try:
        done = secure("-q", env={"HTTPS_PROXY": proxy.url, "HF_TOKEN": SECRET})
        assert done.code == 0 and secure.is_whole(), done
        assert proxy.asked and all(SECRET.encode() not in head for head in proxy.asked)
        proxy.asked.clear()
        done = secure("-q", env={"HTTPS_PROXY": proxy.url, "NO_PROXY": "127.0.0.1,localhost"})
        assert done.code == 0 and not proxy.asked, done
    finally:
        proxy.socket.close()
