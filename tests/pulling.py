"""What the tests of `pull` share: the program beside a hub of tests/hub.py, and what must be on the disk."""

import os
import pathlib

import pytest

from hub import Hub, commit_of, oid_of

REPO = "acme/tiny-GGUF"
NAME = "tiny-Q8_0.gguf"
DATA = b"GGUF" + bytes(range(256)) + b"the end of a small file, not a model"


class Pulls:
    """pulls(*args) runs `retrace pull REPO`; a temporary cache, and the hub's address in the environment."""

    def __init__(self, retrace, hub, home=None):
        self.retrace, self.hub = retrace, hub
        self.home = home or retrace.tmp / "hf"
        self.cache = self.home / "hub"
        self.env = {"HF_ENDPOINT": hub.url, "HF_HOME": str(self.home), "HOME": str(retrace.tmp)}
        for name in ("CURL_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy", "http_proxy",
                     "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
            self.env[name] = ""

    def __call__(self, *args, env=None, **more):
        args = args if args and not str(args[0]).startswith("-") else (REPO,) + args
        return self.retrace("pull", *args, env=dict(self.env, **(env or {})), **more)

    def run(self, *args, env=None, **more):
        return self.retrace(*args, env=dict(self.env, **(env or {})), **more)

    def start(self, *args, env=None, **pipes):
        return self.retrace.start("pull", *args, env=dict(self.env, **(env or {})), **pipes)

    def folder(self, repo=REPO):
        return self.cache / ("models--" + repo.replace("/", "--"))

    def blob(self, data=DATA, path=NAME, repo=REPO):
        return self.folder(repo) / "blobs" / oid_of(path, data)

    def part(self, data=DATA, path=NAME, repo=REPO):
        return pathlib.Path(str(self.blob(data, path, repo)) + ".incomplete")

    def snapshot(self, path=NAME, repo=REPO, revision="main", commit=None):
        commit = commit or commit_of(revision, self.hub.repos[repo][revision])
        return self.folder(repo) / "snapshots" / commit / path

    def names(self):
        """Every blob that has its name, and every link."""
        return [p for p in self.cache.rglob("*") if p.is_symlink() or "/blobs/" in str(p)
                if not str(p).endswith(".incomplete")]

    def is_whole(self, path=NAME, repo=REPO, revision="main"):
        """The file is in the cache as the hub has it, and nothing half is beside it."""
        data = self.hub.repos[repo][revision][path]
        link, blob = self.snapshot(path, repo, revision), self.blob(data, path, repo)
        up = "../" * (2 + path.count("/"))
        assert os.readlink(link) == up + "blobs/" + blob.name
        assert not blob.is_symlink() and blob.read_bytes() == data and link.read_bytes() == data
        assert not self.part(data, path, repo).exists()
        return True


def fails(done, *words, code=4):
    """It failed as promised: this code, nothing on standard output, at most three lines that say why."""
    assert done.code == code, done
    assert done.out == "", done
    lines = done.err.splitlines()
    assert 1 <= len(lines) <= 3 and lines[0].startswith("retrace: "), done
    for word in words:
        assert word.lower() in done.err.lower(), (word, done)
    return done.err


def hub_of(files=None, **more):
    """A hub with one repository."""
    return Hub({REPO: {"main": files if files is not None else {NAME: DATA}}}, **more)


@pytest.fixture
def hub():
    with hub_of() as h:
        yield h


@pytest.fixture
def pulls(retrace, hub):
    return Pulls(retrace, hub)
