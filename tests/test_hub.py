"""`retrace pull`, `models` and `-hf` against a hub of our own: what docs/models.md promises where all goes well.

Nothing here goes further than loopback. tests/test_hub_faults.py and tests/test_hub_cache.py have the rest.
"""
import os
import re
import subprocess
import threading
import time

import pytest

from hub import Hub, git_sha1, pause, sha256, status
from pulling import DATA, NAME, REPO, Pulls, fails, hub, hub_of, pulls  # two of them are fixtures


# ==== The layout, and what is asked for ====


def test_pull_prints_the_path_of_the_file(pulls, hub):
    done = pulls("-q")
    assert done.code == 0 and done.err == "", done
    assert done.out == str(pulls.snapshot()) + "\n"
    assert pulls.is_whole()
    assert (pulls.folder() / "refs" / "main").read_text() == hub.commit(REPO)
    assert len(hub.of("cdn", method="GET")) == 1


def test_a_second_pull_asks_the_hub_and_fetches_nothing(pulls, hub):
    first = pulls()
    hub.forget()
    again = pulls()
    assert again.code == 0 and again.out == first.out
    assert hub.requests and not hub.of("cdn")


def test_json_tells_every_file(pulls, hub):
    for fetched in (True, False):
        done = pulls("--json")
        assert done.code == 0, done
        assert done.json == {
            "repo": REPO,
            "revision": "main",
            "commit": hub.commit(REPO),
            "files": [{"path": NAME, "size": len(DATA), "sha256": sha256(DATA),
                       "file": str(pulls.snapshot()), "downloaded": fetched}],
            "model": str(pulls.snapshot()),
        }


def test_a_branch_that_moved_brings_only_what_changed(retrace):
    parts = {"m-Q4_0-%05d-of-00002.gguf" % i: b"GGUF part %d" % i for i in (1, 2)}
    with hub_of(dict(parts)) as hub:
        pulls = Pulls(retrace, hub)
        assert pulls("-q").code == 0
        old = hub.commit(REPO)
        second = "m-Q4_0-00002-of-00002.gguf"
        hub.repos[REPO]["main"][second] = b"GGUF part 2, mended"
        hub.forget()
        done = pulls("--json")
        assert done.code == 0 and done.json["commit"] == hub.commit(REPO) != old
        assert [f["downloaded"] for f in done.json["files"]] == [False, True]
        assert len(hub.of("cdn")) == 1
        assert all(pulls.is_whole(p) for p in parts)
        assert (pulls.folder() / "refs" / "main").read_text() == hub.commit(REPO)
        before = pulls.folder() / "snapshots" / old / second
        assert before.read_bytes() == parts[second]


def test_a_pages_listing_is_read_to_its_end(retrace):
    files = {"f%d.txt" % i: b"%d" % i for i in range(9)}
    files["z/deep/er/tiny-Q4_K_M.gguf"] = DATA
    with hub_of(files, page=2) as hub:
        pulls = Pulls(retrace, hub)
        assert pulls("-q").code == 0
        assert len(hub.of("tree")) >= 5
        assert pulls.is_whole("z/deep/er/tiny-Q4_K_M.gguf")


def test_a_file_that_git_has_is_checked_by_the_git_hash(retrace):
    with hub_of({"git/small.gguf": DATA}) as hub:
        pulls = Pulls(retrace, hub)
        done = pulls("--json")
        assert done.code == 0, done
        assert pulls.is_whole("git/small.gguf")
        assert pulls.blob(DATA, "git/small.gguf").name == git_sha1(DATA)
        assert done.json["files"][0]["sha256"] == sha256(DATA)


@pytest.mark.parametrize("name", ["two words-Q8_0.gguf", "per%20cent?#-Q8_0.gguf", "übung-Q8_0.gguf",
                                  "a+b&c=d;-Q8_0.gguf", "-dash-Q8_0.gguf", "q'uo\"te-Q8_0.gguf"])
def test_names_of_files_are_escaped_in_addresses(retrace, name):
    with hub_of({name: DATA}) as hub:
        pulls = Pulls(retrace, hub)
        done = pulls("-q")
        assert done.code == 0, done
        assert pulls.is_whole(name)


# ==== Which file ====

Q = {q: "tiny-%s.gguf" % q for q in ("Q4_K_M", "Q8_0", "Q4_K", "BF16", "IQ4_NL")}
CHOICES = [
    ([Q["Q8_0"], Q["Q4_K_M"], Q["BF16"]], None, Q["Q4_K_M"]),
    ([Q["Q8_0"], Q["BF16"]], None, Q["Q8_0"]),
    ([Q["IQ4_NL"], Q["BF16"]], None, Q["BF16"]),
    ([Q["Q8_0"], Q["BF16"]], "BF16", Q["BF16"]),
    ([Q["Q8_0"], Q["BF16"]], "bf16", Q["BF16"]),
    ([Q["Q8_0"], "tiny.q4_0.gguf"], "Q4_0", "tiny.q4_0.gguf"),
    ([Q["Q4_K_M"], Q["Q4_K"]], "q4_k", Q["Q4_K"]),
    ([Q["Q4_K_M"], Q["Q8_0"]], "Q4_K", Q["Q4_K_M"]),
    (["a-mmproj-Q8_0.gguf", "mmproj-Q4_K_M.gguf", Q["Q8_0"]], None, Q["Q8_0"]),
    (["imatrix.gguf", Q["BF16"]], None, Q["BF16"]),
    (["mtp-tiny-Q4_K_M.gguf", "eagle3-tiny-Q4_K_M.gguf", "dflash-tiny-Q4_K_M.gguf", Q["Q8_0"]], None, Q["Q8_0"]),
    (["sub/tiny-Q4_K_M.gguf", Q["Q8_0"]], None, "sub/tiny-Q4_K_M.gguf"),
    (["Q8_0.gguf", "notes.txt"], "Q8_0", "Q8_0.gguf"),
    (["readme-Q8_0.txt", Q["BF16"]], None, Q["BF16"]),
    (["b.gguf", "a.gguf"], None, "a.gguf"),
    (["tiny-Q8_0.GGUF.txt", "a.gguf"], "a", "a.gguf"),
]


@pytest.mark.parametrize("names, quant, meant", CHOICES)
def test_the_file_that_is_meant(retrace, names, quant, meant):
    with hub_of({n: b"GGUF " + n.encode() for n in names}, page=100) as hub:
        pulls = Pulls(retrace, hub)
        done = pulls(REPO + (":" + quant if quant else ""), "-q")
        assert done.code == 0 and done.out == str(pulls.snapshot(meant)) + "\n", done
        assert pulls.is_whole(meant)
        assert len(hub.of("cdn")) == 1


def test_a_quant_that_there_is_not_lists_those_that_there_are(retrace):
    names = [Q["Q8_0"], Q["BF16"], Q["IQ4_NL"], "mmproj-F16.gguf"]
    with hub_of({n: DATA for n in names}) as hub:
        pulls = Pulls(retrace, hub)
        said = fails(pulls(REPO + ":Q2_K", "-q"), "Q2_K", "Q8_0", "BF16", "IQ4_NL")
        assert "F16" not in said.replace("BF16", "")
        assert not pulls.names() and not hub.of("cdn")


SPLIT = ["big-Q4_K_M-%05d-of-00003.gguf" % i for i in (1, 2, 3)]


def test_all_parts_of_a_split_model_are_fetched(retrace):
    files = {n: b"GGUF " + n.encode() for n in SPLIT}
    files["big-Q8_0.gguf"] = DATA
    with hub_of(files) as hub:
        pulls = Pulls(retrace, hub)
        done = pulls("--json")
        assert done.code == 0, done
        assert [f["path"] for f in done.json["files"]] == SPLIT
        assert done.json["model"] == str(pulls.snapshot(SPLIT[0]))
        assert all(pulls.is_whole(n) for n in SPLIT)
        assert len(hub.of("cdn")) == 3


def test_a_part_that_the_repository_lacks_is_an_error(retrace):
    with hub_of({n: b"GGUF " + n.encode() for n in (SPLIT[0], SPLIT[2])}) as hub:
        pulls = Pulls(retrace, hub)
        fails(pulls("-q"), "00002-of-00003")
        assert not pulls.names()


def test_hf_file_names_the_file_itself(retrace):
    with hub_of({Q["Q4_K_M"]: DATA, "sub/" + Q["BF16"]: DATA + b"2", "mmproj-F16.gguf": DATA + b"3"}) as hub:
        pulls = Pulls(retrace, hub)
        for name in ("sub/" + Q["BF16"], "mmproj-F16.gguf"):
            done = pulls("-q", "-hff", name)
            assert done.code == 0 and done.out == str(pulls.snapshot(name)) + "\n", done
            assert pulls.is_whole(name)
        fails(pulls("-q", "--hf-file", "absent.gguf"), "absent.gguf")


# ==== Revisions ====


def test_a_branch_a_tag_and_a_commit(retrace):
    revisions = {"main": {NAME: DATA}, "v1.0": {NAME: DATA + b"v1"}, "work": {NAME: DATA + b"work"}}
    with Hub({REPO: revisions}, tags=["v1.0"]) as hub:
        pulls = Pulls(retrace, hub)
        for name in revisions:
            done = pulls("-q", "--hf-revision", name)
            assert done.code == 0 and done.out == str(pulls.snapshot(revision=name)) + "\n", done
            assert (pulls.folder() / "refs" / name).read_text() == hub.commit(REPO, name)
            assert pulls.is_whole(revision=name)
        commit = hub.commit(REPO, "v1.0")
        hub.forget()
        done = pulls("-q", "--hf-revision", commit)
        assert done.code == 0 and done.out == str(pulls.snapshot(revision="v1.0")) + "\n", done
        assert not hub.of("cdn")
        assert not (pulls.folder() / "refs" / commit).exists()


def test_a_branch_with_a_slash(retrace):
    with Hub({REPO: {"main": {NAME: DATA + b"main"}, "work/a b": {NAME: DATA}}}) as hub:
        pulls = Pulls(retrace, hub)
        done = pulls("-q", "--hf-revision", "work/a b")
        assert done.code in (0, 2), done
        done = pulls("-q", "--hf-revision", "refs/heads/main")
        assert done.code in (0, 4), done
        hub.repos[REPO]["work/ab"] = {NAME: DATA + b"!"}
        done = pulls("-q", "--hf-revision", "work/ab")
        assert done.code == 0 and pulls.is_whole(revision="work/ab"), done
        assert (pulls.folder() / "refs" / "work" / "ab").read_text() == hub.commit(REPO, "work/ab")
        assert pulls("-q", "--offline", "--hf-revision", "work/ab").out == done.out


@pytest.mark.parametrize("revision", ["no-such", "0" * 40])
def test_a_revision_that_there_is_not(pulls, hub, revision):
    fails(pulls("-q", "--hf-revision", revision), revision)
    assert not pulls.names()


@pytest.mark.parametrize("revision", ["../../../outside", "a/../../b", "/etc/x", "a\\b", "a\nb", ""])
def test_a_revision_leads_nowhere_else(pulls, hub, revision):
    done = pulls("-q", "--hf-revision", revision)
    assert done.code in (2, 4) and done.out == "", done
    assert not list(pulls.retrace.tmp.rglob("outside*"))


# ==== Names ====


@pytest.mark.parametrize("name", ["tiny", "a/b/c", "/b", "a/", "a/b:", "a/..", "../b", "./b", "a b/c", "a/b c",
                                  "a/b?x", "a/b#x", "a/b%2e", "a\\b/c", "a/b\n", "", "a//b", ":Q8_0", "a/b:x/y",
                                  "https://x/y", "a" * 5000 + "/b"])
def test_a_name_that_is_none(pulls, hub, name):
    done = pulls.run("pull", name, "-q")
    assert done.code == 2 and done.out == "" and 1 <= len(done.err.splitlines()) <= 3, done
    assert not hub.requests


def test_pull_without_a_name(pulls, hub):
    assert pulls.run("pull").code == 2
    assert pulls.run("pull", "a/b", "c/d").code == 2


# ==== Offline, and -hf ====


@pytest.mark.parametrize("how", ["--offline", "HF_HUB_OFFLINE"])
def test_offline_there_is_only_the_cache(pulls, hub, how):
    flags, env = ([how], {}) if how[0] == "-" else ([], {how: "1"})
    fails(pulls("-q", *flags, env=env), REPO)
    assert not hub.requests
    assert pulls("-q").code == 0
    hub.forget()
    done = pulls("-q", *flags, env=env)
    assert done.code == 0 and done.out == str(pulls.snapshot()) + "\n", done
    assert not hub.requests
    fails(pulls(REPO + ":Q2_K", "-q", *flags, env=env), "Q2_K")


def test_a_revision_offline(retrace):
    with Hub({REPO: {"main": {NAME: DATA}, "v1": {NAME: DATA + b"1"}}}) as hub:
        pulls = Pulls(retrace, hub)
        assert pulls("-q", "--hf-revision", "v1").code == 0
        hub.forget()
        done = pulls("-q", "--offline", "--hf-revision", "v1")
        assert done.code == 0 and done.out == str(pulls.snapshot(revision="v1")) + "\n"
        fails(pulls("-q", "--offline"), REPO)
        commit = hub.commit(REPO, "v1")
        done = pulls("-q", "--offline", "--hf-revision", commit)
        assert done.code == 0 and done.out == str(pulls.snapshot(revision="v1")) + "\n"
        assert not hub.requests


TINY = os.environ.get("RETRACE_TINY", "")
needs_tiny = pytest.mark.skipif(not TINY, reason="RETRACE_TINY is not set")


@pytest.fixture
def tiny(retrace):
    with open(os.path.join(TINY, "dense.gguf"), "rb") as f:
        data = f.read()
    with hub_of({"dense-F32.gguf": data}) as hub:
        yield Pulls(retrace, hub)


@needs_tiny
def test_hf_fetches_once_and_then_asks_nobody(tiny):
    args = ("-p", "the", "-n", "5", "-s", "1", "--temp", "0", "--json")
    direct = tiny.run("generate", "-m", os.path.join(TINY, "dense.gguf"), *args)
    assert direct.code == 0, direct
    first = tiny.run("generate", "-hf", REPO, *args)
    assert first.code == 0 and first.json["tokens"] == direct.json["tokens"], first
    assert tiny.is_whole("dense-F32.gguf")
    tiny.hub.forget()
    for spelled in ("-hf", "--hf-repo"):
        again = tiny.run("generate", spelled, REPO + ":f32", *args)
        assert again.code == 0 and again.json["tokens"] == direct.json["tokens"], again
    assert not tiny.hub.requests


@needs_tiny
@pytest.mark.parametrize("command", [("info",), ("tokenize", "-p", "the"), ("score", "-p", "the")])
def test_hf_on_other_commands(tiny, command):
    done = tiny.run(*command, "-hf", REPO, "--json")
    assert done.code == 0, done
    assert done.json == tiny.run(*command, "-m", os.path.join(TINY, "dense.gguf"), "--json").json


@needs_tiny
def test_a_chat_with_a_model_by_its_name(tiny):
    """As backtracking-llm's program is called."""
    for more in (["--operator", "repetition"], ["--operator", "ngram_overlap", "--max-new-tokens", "4"]):
        done = tiny.run("chat", REPO, *more, "-n", "4", "-s", "1", "--chat-template", "chatml", stdin="the\n/stats\nquit\n")
        assert done.code == 0, done
        assert "last answer: prompt" in done.out
    assert tiny.is_whole("dense-F32.gguf")


@needs_tiny
def test_hf_does_not_look_for_a_newer_revision_but_pull_does(tiny):
    assert tiny("-q").code == 0
    tiny.hub.repos[REPO]["main"]["dense-F32.gguf"] += b"newer"
    tiny.hub.forget()
    assert tiny.run("info", "-hf", REPO).code == 0
    assert not tiny.hub.requests
    assert tiny("-q").code == 0
    assert tiny.is_whole("dense-F32.gguf")


def test_hf_of_a_file_that_is_no_model(pulls, hub):
    done = pulls.run("generate", "-hf", REPO, "-p", "x", "-q")
    assert done.code == 3 and done.out == "", done
    assert pulls.is_whole()


def test_hf_and_model_together(pulls, hub):
    done = pulls.run("info", "-hf", REPO, "-m", "x.gguf")
    assert done.code == 2 and done.out == "" and not hub.requests, done


@needs_tiny
def test_hf_offline_takes_what_huggingface_hub_laid_out(tiny):
    """By hand, as that package writes it: the blob, the link, the ref, an empty lock."""
    data = tiny.hub.repos[REPO]["main"]["dense-F32.gguf"]
    link, blob = tiny.snapshot("dense-F32.gguf"), tiny.blob(data, "dense-F32.gguf")
    for folder in (link.parent, blob.parent, tiny.folder() / "refs"):
        folder.mkdir(parents=True)
    blob.write_bytes(data)
    os.symlink("../../blobs/" + blob.name, link)
    (tiny.folder() / "refs" / "main").write_text(tiny.hub.commit(REPO))
    done = tiny.run("info", "-hf", REPO, "--offline", "--json")
    assert done.code == 0, done
    done = tiny("-q")
    assert done.code == 0 and done.out == str(link) + "\n" and not tiny.hub.of("cdn"), done


# ==== Where: endpoint and cache ====


def test_the_order_of_endpoints(pulls, hub, retrace):
    with hub_of({NAME: DATA + b"other"}) as other:
        done = pulls("-q", env={"MODEL_ENDPOINT": other.url})
        assert done.code == 0 and other.requests and not hub.requests
        done = pulls("-q", env={"MODEL_ENDPOINT": "", "HF_ENDPOINT": hub.url + "/"})
        assert done.code == 0 and hub.requests
        assert all(not r.target.startswith("//") for r in hub.requests)


@pytest.mark.parametrize("endpoint", ["http://example.invalid", "http://127.0.0.1.example.invalid",
                                      "http://localhost.example.invalid", "http://127.0.0.1@example.invalid",
                                      "http://user:word@example.invalid", "ftp://127.0.0.1", "file:///etc",
                                      "127.0.0.1:80", "http://", "https://", "nonsense", "http:/127.0.0.1",
                                      "http://127.0.0.1:0", "http://127.0.0.1:65536", "http://[::1]:99999/x",
                                      "https://example.invalid:", "https://example.invalid:8a/x",
                                      "http://127.0.0.1:80:80", "https://[::1"])
def test_an_endpoint_that_is_not_taken(pulls, hub, endpoint):
    done = pulls("-q", env={"HF_ENDPOINT": endpoint})
    assert done.code == 2 and done.out == "" and 1 <= len(done.err.splitlines()) <= 3, done
    assert "HF_ENDPOINT" in done.err
    assert "word" not in done.err


def test_localhost_is_this_machine_too(pulls, hub):
    done = pulls("-q", env={"HF_ENDPOINT": hub.url.replace("127.0.0.1", "localhost")})
    assert done.code == 0, done


def test_the_other_address_of_this_machine(retrace):
    try:
        hub = hub_of(address="::1")
    except OSError:
        pytest.skip("no IPv6 here")
    with hub:
        assert "[::1]" in hub.url
        assert Pulls(retrace, hub)("-q").code == 0


CACHES = ["LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"]
BELOW = {"HF_HOME": "hub", "XDG_CACHE_HOME": "huggingface/hub", "HOME": ".cache/huggingface/hub"}


@pytest.mark.parametrize("first", range(-1, len(CACHES)))
def test_the_order_of_caches(pulls, hub, first):
    tmp = pulls.retrace.tmp
    env = {name: str(tmp / name) if i >= first else "" for i, name in enumerate(CACHES)}
    flags = []
    if first < 0:
        flags, where = ["--hf-cache", tmp / "flag"], tmp / "flag"
    else:
        where = tmp / CACHES[first] / BELOW.get(CACHES[first], "")
    done = pulls("-q", *flags, env=env)
    assert done.code == 0, done
    assert done.out.startswith(str(where / "models--acme--tiny-GGUF") + "/snapshots/"), done


# ==== Tokens ====

SECRET = "hf_secretSECRETsecret"


@pytest.fixture
def private(retrace):
    with hub_of(tokens={REPO: SECRET}) as hub:
        yield Pulls(retrace, hub)


def sources(pulls):
    """Ways to give a token, the first one wins: (flags, environment, what a message calls it)."""
    def write(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    return [
        (lambda t: (["-hft", t], {}), "--hf-token"),
        (lambda t: ([], {"HF_TOKEN": t}), "HF_TOKEN"),
        (lambda t: ([], {"HF_TOKEN_PATH": write(pulls.retrace.tmp / "mine", t + "\n")}), str(pulls.retrace.tmp / "mine")),
        (lambda t: ([], {"HF_HOME": str(pulls.home), "?": write(pulls.home / "token", "  " + t + " \n")}), "token"),
    ]


@pytest.mark.parametrize("first", range(4))
def test_the_order_of_tokens(private, first):
    flags, env = [], {}
    for i, (give, _) in reversed(list(enumerate(sources(private)))[first:]):
        more, variables = give(SECRET if i == first else "hf_wrong%d" % i)
        flags += more
        env.update(variables)
    env.pop("?", None)
    done = private("--json", *flags, env=env)
    assert done.code == 0, done
    assert SECRET not in done.out + done.err
    asked = [r for r in private.hub.requests if r.server == "hub"]
    assert asked and all(r.headers.get("authorization") == "Bearer " + SECRET for r in asked)
    got = private.hub.of("cdn")
    assert got and all("authorization" not in r.headers for r in got)
    assert all(SECRET not in r.target + str(r.headers) for r in got)
    kept = [p for p in private.cache.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]
    assert kept == []


@pytest.mark.parametrize("which", range(4))
def test_a_token_that_does_not_do_is_named_by_where_it_came_from(private, which):
    give, called = sources(private)[which]
    flags, env = give("hf_wrongWRONG")
    env.pop("?", None)
    said = fails(private("-q", *flags, env=env), called, "private", "gated")
    assert "wrongWRONG" not in said
    assert len(private.hub.of("refs", "revision", "tree")) <= 1


def test_without_a_token_that_is_said(private):
    fails(private("-q"), "private", "gated", "token", REPO)
    assert len(private.hub.requests) == 1, "401 is not repeated"


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "line\r\nX-Evil: 1", "tab\t", "ümlaut"])
def test_a_token_that_no_header_can_have(pulls, hub, token):
    done = pulls("-q", env={"HF_TOKEN": token})
    assert done.code in (0, 2), done
    assert all("x-evil" not in r.headers for r in hub.requests)
    if done.code == 2:
        assert token not in done.err


def test_the_token_stays_secret_when_all_is_told(private):
    done = private("--hf-token", SECRET, "--json", env={"RETRACE_VERBOSE": "2"})
    assert SECRET not in done.out + done.err, done


def test_a_token_is_not_on_the_command_line_for_others_to_read(private):
    go = threading.Event()
    private.hub.fault("cdn", pause(go, 10))
    p = private.start(REPO, "-q", "--hf-token", SECRET, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while not private.hub.of("cdn"):
            assert time.monotonic() < end
            time.sleep(0.01)
        with open("/proc/%d/cmdline" % p.pid, "rb") as f:
            shown = f.read()
        assert b"--hf-token" in shown and SECRET.encode() not in shown
    finally:
        go.set()
    assert p.wait(20) == 0


def test_redirects_at_the_hub_itself_keep_the_token(retrace):
    with hub_of({"git/small.gguf": DATA}, tokens={REPO: SECRET}) as hub:
        pulls = Pulls(retrace, hub)
        assert pulls("-q", env={"HF_TOKEN": SECRET}).code == 0
        assert hub.of("resolve")[-1].path.startswith("/api/resolve-cache/")
        assert hub.of("resolve")[-1].headers["authorization"] == "Bearer " + SECRET


# ==== Refusals ====


@pytest.mark.parametrize("where", ["refs", "tree", "resolve", "cdn"])
@pytest.mark.parametrize("code", [401, 403, 404])
def test_what_the_hub_refuses_is_not_asked_again(pulls, hub, where, code):
    for kind in (where, "revision") if where == "refs" else (where,):
        hub.fault(kind, status(code), times=9)
    words = (REPO,) if code == 404 else ("private", "gated")
    said = fails(pulls("-q"), *words)
    assert len(hub.of(where)) <= 1
    assert not pulls.names(), said


def test_a_repository_that_there_is_not(pulls, hub):
    fails(pulls("nobody/nothing", "-q"), "nobody/nothing")
    assert not list(pulls.cache.rglob("models--nobody*/snapshots"))


# ==== No GGUF file ====

TWINS = [
    {"id": "ben/tiny-GGUF", "downloads": 9000, "tags": ["gguf", "base_model:quantized:acme/tiny"]},
    {"id": "zed/tiny-i1-GGUF", "downloads": 70, "tags": ["gguf", "base_model:quantized:acme/tiny"]},
    {"id": "other/elephant-GGUF", "downloads": 99999, "tags": ["gguf"]},
]


@pytest.fixture
def plain(retrace):
    repos = {"acme/tiny": {"main": {"config.json": b"{}", "model.safetensors": b"x" * 99}},
             "ben/tiny-GGUF": {"main": {NAME: DATA}}}
    with Hub(repos, search=TWINS) as hub:
        yield Pulls(retrace, hub)


def test_without_gguf_twins_and_commands_are_named(plain):
    done = plain("acme/tiny")
    assert done.code == 4 and done.out == "", done
    assert "ben/tiny-GGUF" in done.err and "zed/tiny-i1-GGUF" in done.err
    assert done.err.index("ben/") < done.err.index("zed/"), "the one that is fetched most comes first"
    assert "elephant" not in done.err
    assert "convert_hf_to_gguf.py" in done.err
    assert len(done.err.splitlines()) <= 3
    assert not plain.hub.of("cdn") and not plain.names()


@pytest.mark.parametrize("found", [[], [{"id": "bad name/../x", "downloads": 1, "tags": ["gguf"]}],
                                   [{"id": "\x1b[31mred/x-GGUF", "downloads": 1, "tags": ["gguf"]}]])
def test_without_twins_there_are_the_commands(plain, found):
    plain.hub.known = found
    done = plain("acme/tiny")
    assert done.code == 4 and done.out == "" and "convert_hf_to_gguf.py" in done.err, done
    assert "\x1b" not in done.err and "../x" not in done.err


def test_a_search_that_fails_leaves_the_commands(plain):
    plain.hub.fault("search", status(404), times=99)
    done = plain("acme/tiny")
    assert done.code == 4 and done.out == "" and "convert_hf_to_gguf.py" in done.err, done


@pytest.mark.parametrize("answer, taken", [(b"1\n", True), (b"y\n", True), (b"3\n", False), (b"n\n", False), (b"\n", False), (b"\x04", False)])
def test_on_a_terminal_it_asks_whether_to_take_one(plain, answer, taken):
    t = plain.retrace.terminal("pull", "acme/tiny", env=plain.env)
    t.until(b"take one? ").type(answer)
    shown, code = t.end()
    assert "ben/tiny-GGUF" in shown
    assert code == (0 if taken else 4), shown
    assert bool(plain.hub.of("cdn")) == taken
    if taken:
        assert plain.is_whole(repo="ben/tiny-GGUF")


def test_hf_of_such_a_repository(plain):
    done = plain.run("generate", "-hf", "acme/tiny", "-p", "x", "-q")
    assert done.code == 4 and done.out == "" and "ben/tiny-GGUF" in done.err, done


# ==== What is told while it lasts ====


def test_elsewhere_than_on_a_terminal_a_line_every_tenth(retrace):
    with hub_of({NAME: b"GGUF" * 1000000}) as hub:
        pulls = Pulls(retrace, hub)
        done = pulls()
        assert done.code == 0 and done.out == str(pulls.snapshot()) + "\n", done
        told = [int(p) for p in re.findall(r"(\d+) ?%", done.err)]
        assert told == sorted(set(told)) and 9 <= len(told) <= 11, done.err
        assert "\r" not in done.err and "\x1b" not in done.err


def test_on_a_terminal_a_bar(retrace):
    with hub_of({NAME: b"GGUF" * 1000000}) as hub:
        pulls = Pulls(retrace, hub)
        t = retrace.terminal("pull", REPO, env=pulls.env)
        shown, code = t.end()
        assert code == 0 and "%" in shown and "\r" in shown, shown
        assert str(pulls.snapshot()) in shown.replace("\n", "")


# ==== models ====


def test_models_of_an_empty_cache(pulls):
    done = pulls.run("models", "--json")
    assert done.code == 0 and done.json == {"models": [], "cache": str(pulls.cache)}, done
    assert pulls.run("models").code == 0


@pytest.mark.parametrize("kind", ["file", "loop"])
def test_models_of_a_cache_that_cannot_be_read(pulls, kind):
    pulls.cache.parent.mkdir(exist_ok=True)
    if kind == "file":
        pulls.cache.write_text("no folder")
    else:
        pulls.cache.symlink_to("hub")
    for flags in ([], ["--json"]):
        fails(pulls.run("models", *flags), str(pulls.cache), "cannot read")
    fails(pulls("--offline"), str(pulls.folder()), "cannot read")


def test_models_says_which_folder_it_cannot_read(pulls):
    """And lists the others."""
    assert pulls("-q").code == 0
    other = pulls.cache / "models--acme--other"
    other.mkdir()
    (other / "snapshots").symlink_to("snapshots")
    done = pulls.run("models", "--json")
    assert done.code == 0 and len(done.json["models"]) == 1
    assert "cannot read '%s'" % (other / "snapshots") in done.err, done


def test_models_lists_the_cache(retrace):
    files = {n: b"GGUF " + n.encode() for n in SPLIT}
    files.update({Q["Q8_0"]: DATA, "README.md": b"read"})
    with hub_of(files, page=100) as hub:
        pulls = Pulls(retrace, hub)
        for quant in ("Q8_0", "Q4_K_M"):
            assert pulls(REPO + ":" + quant, "-q").code == 0
        done = pulls.run("models", "--json")
        assert done.code == 0, done
        assert done.json["cache"] == str(pulls.cache)
        models = {m["name"]: m for m in done.json["models"]}
        assert set(models) == {REPO + ":Q8_0", REPO + ":Q4_K_M"}, done
        one = models[REPO + ":Q8_0"]
        assert one == {"name": REPO + ":Q8_0", "size_bytes": len(DATA), "file": str(pulls.snapshot(Q["Q8_0"])),
                       "commit": hub.commit(REPO), "complete": True}
        big = models[REPO + ":Q4_K_M"]
        assert big["size_bytes"] == sum(len(files[n]) for n in SPLIT) and big["complete"] is True
        assert big["file"] == str(pulls.snapshot(SPLIT[0]))
        shown = pulls.run("models")
        assert shown.code == 0 and all(n in shown.out for n in models), shown
        assert str(pulls.cache) in shown.out and "snapshots" not in shown.out
        assert all(m["file"] in pulls.run("models", "-v").out for m in models.values())
        hub.forget()
        for name in models:
            again = pulls(name, "-q", "--offline")
            assert again.code == 0 and again.out == models[name]["file"] + "\n", again
        pulls.snapshot(SPLIT[1]).unlink()
        left = {m["name"]: m for m in pulls.run("models", "--json").json["models"]}
        assert left[REPO + ":Q4_K_M"]["complete"] is False and left[REPO + ":Q8_0"]["complete"] is True
        fails(pulls(REPO + ":Q4_K_M", "-q", "--offline"), REPO)


def test_models_tells_revisions_apart(retrace):
    """What it prints is what -hf takes."""
    with Hub({REPO: {"main": {NAME: DATA}, "v1": {NAME: DATA + b"old"}, "v2": {NAME: DATA}}}) as hub:
        pulls = Pulls(retrace, hub)
        for revision in ("main", "v1", "v2"):
            assert pulls("-q", "--hf-revision", revision).code == 0
        found = pulls.run("models", "--json").json["models"]
        assert {(m["name"], m["commit"]) for m in found} == {
            (REPO + ":Q8_0", hub.commit(REPO)), (REPO + ":Q8_0", hub.commit(REPO, "v1"))}
        taken = set()
        for line in pulls.run("models").out.splitlines():
            if REPO in line:
                words = re.findall(r"[^ ()]+", line)
                done = pulls(*words[words.index(REPO + ":Q8_0"):], "-q", "--offline")
                assert done.code == 0, (line, done)
                taken.add(done.out.strip())
        assert taken == {m["file"] for m in found}


def test_models_of_thousands_of_files(pulls):
    """Each has a name by which it is found; the time grows with their number, not with its square."""
    commit = "a" * 40
    folder, blobs = pulls.folder() / "snapshots" / commit, pulls.folder() / "blobs"
    for where in (folder, blobs, pulls.folder() / "refs"):
        where.mkdir(parents=True)
    (pulls.folder() / "refs" / "main").write_text(commit)
    for i in range(3000):
        (blobs / ("%064x" % i)).write_bytes(b"GGUF")
        (folder / ("m%d-Q8_0.gguf" % i)).symlink_to("../../blobs/%064x" % i)
    begun = time.process_time() + sum(os.times()[2:4])
    done = pulls.run("models", "--json")
    used = time.process_time() + sum(os.times()[2:4]) - begun
    assert done.code == 0 and len({m["name"] for m in done.json["models"]}) == 3000
    assert used < 10, used
    for m in done.json["models"][::599]:
        assert pulls(*m["name"].split(), "--offline", "-q").out == m["file"] + "\n", m


def test_models_tells_what_waits_to_be_taken_up(pulls):
    assert pulls("-q").code == 0
    waiting = pulls.blob().parent / ("0" * 64 + ".incomplete")
    waiting.write_bytes(b"half")
    done = pulls.run("models", "--json")
    assert done.code == 0, done
    assert sorted(m["complete"] for m in done.json["models"]) == [False, True], done
    half = [m for m in done.json["models"] if not m["complete"]][0]
    assert half["size_bytes"] == 4 and REPO in half["name"]


def test_models_is_not_led_astray(pulls):
    """Links out of the cache, loops, broken links, odd names."""
    assert pulls("-q").code == 0
    folder = pulls.snapshot().parent
    os.symlink("../../blobs/absent", folder / "gone-Q4_0.gguf")
    os.symlink("self.gguf", folder / "self.gguf")
    os.symlink("..", folder / "up")
    (pulls.cache / "models--x").mkdir()
    (pulls.cache / "models--a--b").write_text("a file")
    (pulls.cache / "models--\x1b[31m--b" / "snapshots").mkdir(parents=True)
    (pulls.cache / "datasets--a--b" / "snapshots" / "x").mkdir(parents=True)
    done = pulls.run("models", "--json")
    assert done.code == 0, done
    assert [m["name"] for m in done.json["models"] if m["complete"]] == [REPO + ":Q8_0"]
    assert "\x1b" not in pulls.run("models").out


def test_models_of_the_setup(pulls, retrace):
    """The model that setup installed is listed first; it is no name of the hub."""
    folder = retrace.tmp / "cache" / "retrace" / "models"
    folder.mkdir(parents=True)
    name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    (folder / name).write_bytes(DATA)
    done = pulls.run("models", "--json")
    assert done.code == 0, done
    assert [m["file"] for m in done.json["models"]] == [str(folder / name)], done
    assert done.json["models"][0]["size_bytes"] == len(DATA)
