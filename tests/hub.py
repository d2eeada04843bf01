"""A server on loopback that plays the hub, for tests: repositories of a Python dict, and faults to order.

    with Hub({"acme/tiny": {"main": {"tiny-Q8_0.gguf": b"GGUF..."}}}) as hub:
        hub.fault("cdn", cut(100))                 # the next one
        hub.fault("cdn", status(503), times=2)     # and the two after it
        ... HF_ENDPOINT=hub.url ...
        hub.of("cdn")[0].headers["range"]

Two servers: the hub itself at 127.0.0.1, and the one that has the bytes of large files ("cdn") at localhost,
on another port, to which the hub redirects. Every request is kept. A fault is a function of the request and
of what would have been answered: fault(request, answer) -> Answer, where answer() makes the right one.
"""
import hashlib
import http.server
import json
import re
import socket
import threading
import time
import urllib.parse

PAGE = 2  # entries of a page of a listing, unless said otherwise


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def is_large(path):
    """Is it kept outside git? A file below `git/` never is."""
    return path.endswith((".gguf", ".safetensors", ".bin")) and not path.startswith("git/")


def oid_of(path, data):
    return sha256(data) if is_large(path) else git_sha1(data)


def commit_of(name, files):
    text = name + "".join("%s %s\n" % (p, sha256(files[p])) for p in sorted(files))
    return hashlib.sha1(text.encode()).hexdigest()


class Request:
    """where: refs, tree, search, resolve, cdn, other. Names of headers are in small letters."""

    def __init__(self, server, where, method, target, headers):
        self.server, self.where, self.method, self.target = server, where, method, target
        split = urllib.parse.urlsplit(target)
        self.path = urllib.parse.unquote(split.path)
        self.query = urllib.parse.parse_qs(split.query)
        self.headers = {k.lower(): v for k, v in headers.items()}

    def __repr__(self):
        return "%s %s %s" % (self.server, self.method, self.target)


class Answer:
    """length: what Content-Length says (None: what the body has; "": none at all). cut: bytes of the body
    after which the connection ends; cut_all: the same counted from the first byte of the status line.
    drip: (bytes, seconds) sent at a time; stall: (at byte, seconds). A body may be a function that gets
    `write`."""

    def __init__(self, code=200, body=b"", **headers):
        self.code, self.body, self.length = code, body, None
        self.headers = {k.replace("_", "-"): str(v) for k, v in headers.items()}
        self.cut = self.cut_all = self.drip = self.stall = self.raw = None


def of_json(value, code=200, **headers):
    return Answer(code, json.dumps(value).encode(), Content_Type="application/json", **headers)


# ==== Faults ====


def cut(n, **headers):
    """The connection ends after n bytes of the body."""

    def fault(request, answer):
        a = answer()
        a.cut = n
        a.headers.update({k.replace("_", "-"): str(v) for k, v in headers.items()})
        return a

    return fault


def raw(data):
    """These bytes in place of an answer."""

    def fault(request, answer):
        a = answer()
        a.raw = data
        return a

    return fault


def endless(block, most=1 << 30):
    """A body without an end (that is, of `most` bytes)."""

    def fault(request, answer):
        a = answer()
        a.length = ""

        def write_it(write):
            for _ in range(most // len(block)):
                write(block)

        a.body = write_it
        return a

    return fault


def cut_all(n):
    def fault(request, answer):
        a = answer()
        a.cut_all = n
        return a

    return fault


def status(code, body=b'{"error": "as ordered"}', **headers):
    return lambda request, answer: Answer(code, body, **headers)


def redirect(to, code=302):
    """to: an address, or a function of the request."""
    return lambda request, answer: Answer(code, b"", Location=to(request) if callable(to) else to)


def body(data, **headers):
    """Other bytes, of their own length, with the headers that are right otherwise."""

    def fault(request, answer):
        a = answer()
        a.body = data(a.body) if callable(data) else data
        a.headers.update({k.replace("_", "-"): str(v) for k, v in headers.items()})
        return a

    return fault


def flip(at):
    """One byte of the body is another."""
    return body(lambda b: b[:at] + bytes([b[at] ^ 1]) + b[at + 1 :] if len(b) > at else b)


def claims(length):
    """Content-Length says this; the bytes are the right ones."""

    def fault(request, answer):
        a = answer()
        a.length = length
        return a

    return fault


def no_range(request, answer):
    """The whole file with 200, whatever part was asked for."""
    request.headers.pop("range", None)
    return answer()


def other_range(shift):
    """A 206 that says, and has, another part than was asked for."""

    def fault(request, answer):
        a = answer()
        if a.code == 206:
            m = re.match(r"bytes (\d+)-(\d+)/(\d+)", a.headers["Content-Range"])
            first, last, whole = map(int, m.groups())
            a.headers["Content-Range"] = "bytes %d-%d/%d" % (first + shift, last, whole)
        return a

    return fault


def drip(n, seconds):
    def fault(request, answer):
        a = answer()
        a.drip = (n, seconds)
        return a

    return fault


def stall(at, seconds):
    def fault(request, answer):
        a = answer()
        a.stall = (at, seconds)
        return a

    return fault


def pause(event, at=0):
    """Sends `at` bytes of the body and waits for the event before the others."""

    def fault(request, answer):
        a = answer()
        whole = a.body
        a.length = len(whole)

        def write_it(write):
            write(whole[:at])
            event.wait(60)
            write(whole[at:])

        a.body = write_it
        return a

    return fault


# ==== The server ====


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "hub"
    sys_version = ""
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def handle(self):
        try:
            super().handle()
        except OSError:  # the program left
            self.close_connection = True

    def do_GET(self):
        self.server.hub.answer(self)

    do_HEAD = do_GET

    def deliver(self, a, head_only):
        if a.raw is not None:
            self.wfile.write(a.raw)
            self.close_connection = True
            return
        size = len(a.body) if not callable(a.body) else None
        length = a.length if a.length is not None else size
        lines = ["HTTP/1.1 %d %s" % (a.code, self.responses.get(a.code, ("Odd",))[0])]
        lines += ["%s: %s" % pair for pair in a.headers.items()]
        if length not in (None, ""):
            lines.append("Content-Length: %d" % length)
        ends = length in (None, "") or length != size or a.cut is not None or a.cut_all is not None
        if ends or head_only:
            lines.append("Connection: close")
            self.close_connection = True
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if a.cut_all is not None:
            self.wfile.write((head + a.body)[: a.cut_all])
            return
        self.wfile.write(head)
        if head_only:
            return
        if callable(a.body):
            a.body(self.write)
            return
        data = a.body if a.cut is None else a.body[: a.cut]
        if a.stall:
            self.write(data[: a.stall[0]])
            self.server.hub.sleep(a.stall[1])
            self.write(data[a.stall[0] :])
        elif a.drip:
            for i in range(0, len(data), a.drip[0]):
                self.write(data[i : i + a.drip[0]])
                self.server.hub.sleep(a.drip[1])
        else:
            self.write(data)

    def write(self, data):
        self.wfile.write(data)
        self.wfile.flush()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request, address):
        pass


class Server6(Server):
    address_family = socket.AF_INET6


class Hub:
    """repos: {"USER/REPO": {"main": {path: bytes}, other branches and tags likewise}}.

    Also: `tags` names that are tags; `tokens`: {"USER/REPO": token that may read it}; `search`: what the
    search knows, [{"id", "downloads", "tags"}]; `tls`: an ssl.SSLContext for both servers."""

    def __init__(self, repos=None, page=PAGE, tags=(), tokens=None, search=(), tls=None, address=None):
        self.repos, self.page, self.tags = repos or {}, page, set(tags)
        self.tokens, self.known = tokens or {}, list(search)
        self.requests, self.faults, self.lock = [], [], threading.Lock()
        self.over = threading.Event()
        self.servers = {}
        scheme = "https" if tls else "http"
        for name, host in (("hub", address or "127.0.0.1"), ("cdn", "localhost")):
            bind = "127.0.0.1" if host == "localhost" else host
            server = (Server6 if ":" in bind else Server)((bind, 0), Handler)
            if tls:
                server.socket = tls.wrap_socket(server.socket, server_side=True)
            server.hub, server.name = self, name
            shown = "[%s]" % host if ":" in host else host
            server.url = "%s://%s:%d" % (scheme, shown, server.server_address[1])
            self.servers[name] = server
        self.url, self.cdn = self.servers["hub"].url, self.servers["cdn"].url

    def __enter__(self):
        for server in self.servers.values():
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *what):
        self.over.set()
        for server in self.servers.values():
            server.shutdown()
            server.server_close()

    def sleep(self, seconds):
        self.over.wait(seconds)

    def fault(self, where, fault, times=1, method=None, path=None):
        """Orders a fault for the next `times` requests of a kind (and method, and path's end)."""
        self.faults.append([where, fault, times, method, path])
        return self

    def of(self, *where, method=None):
        """The requests of these kinds so far."""
        return [r for r in self.requests if r.where in where and method in (None, r.method)]

    def forget(self):
        self.requests.clear()
        self.faults.clear()

    def commit(self, repo, revision="main"):
        return commit_of(revision, self.repos[repo][revision])

    def tree(self, repo, revision="main"):
        """The whole listing, as a list."""
        files = self.repos[repo][revision]
        folders = {p.rsplit("/", i)[0] for p in files for i in range(1, p.count("/") + 1)}
        entries = [{"type": "directory", "oid": git_sha1(f.encode()), "size": 0, "path": f} for f in folders]
        for path, data in files.items():
            entry = {"type": "file", "oid": oid_of(path, data), "size": len(data), "path": path}
            if is_large(path):
                entry["oid"] = git_sha1(b"pointer " + entry["oid"].encode())
                entry["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": 134}
            entries.append(entry)
        return sorted(entries, key=lambda e: e["path"])

    # ---- what is answered ----

    @staticmethod
    def kind(server, path):
        if server == "cdn":
            return "cdn"
        for kind, shape in (("refs", r"/api/models/.+/refs$"), ("tree", r"/api/models/.+/tree/"),
                            ("revision", r"/api/models/[^/]+/[^/]+(/revision/.+)?$"),
                            ("search", r"/api/models$"),
                            ("resolve", r"/[^/]+/[^/]+/resolve/"), ("resolve", r"/api/resolve-cache/")):
            if re.match(shape, path):
                return kind
        return "other"

    def answer(self, handler):
        server = handler.server.name
        kind = self.kind(server, handler.path.split("?")[0])
        request = Request(server, kind, handler.command, handler.path, handler.headers)
        with self.lock:
            self.requests.append(Request(server, kind, handler.command, handler.path, handler.headers))
            fault = self.next_fault(request)
        right = lambda: self.right(request)
        a = fault(request, right) if fault else right()
        handler.deliver(a, handler.command == "HEAD")

    def next_fault(self, request):
        for order in self.faults:
            where, fault, times, method, path = order
            if where != request.where or times <= 0 or method not in (None, request.method):
                continue
            if path and not request.path.endswith(path):
                continue
            order[2] -= 1
            return fault
        return None

    def right(self, request):
        make = getattr(self, "right_" + request.where, None)
        return make(request) if make else of_json({"error": "Entry not found"}, 404)

    def may(self, request, repo):
        """None, or the refusal that a private repository has."""
        if repo not in self.repos:
            return of_json({"error": "Repository not found"}, 401, X_Error_Code="RepoNotFound")
        token = self.tokens.get(repo)
        if not token or request.headers.get("authorization") == "Bearer " + token:
            return None
        if request.headers.get("authorization"):
            return of_json({"error": "Access to model is restricted"}, 403, X_Error_Code="GatedRepo")
        return of_json({"error": "Invalid username or password."}, 401)

    def revision(self, repo, name):
        """The branch or tag that a name or commit is; None."""
        for branch in self.repos[repo]:
            if name in (branch, self.commit(repo, branch), "refs/heads/" + branch):
                return branch
        return None

    def right_refs(self, request):
        repo = request.path[len("/api/models/") : -len("/refs")]
        refusal = self.may(request, repo)
        if refusal:
            return refusal
        lists = {"branches": [], "tags": [], "converts": []}
        for name in self.repos[repo]:
            tag = name in self.tags
            lists["tags" if tag else "branches"].append(
                {"name": name, "ref": ("refs/tags/" if tag else "refs/heads/") + name,
                 "targetCommit": self.commit(repo, name)})
        return of_json(lists)

    def right_revision(self, request):
        m = re.match(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?$", request.path)
        refusal = self.may(request, m[1])
        if refusal:
            return refusal
        branch = self.revision(m[1], m[2] or "main")
        if branch is None:
            return of_json({"error": "Invalid rev id"}, 404, X_Error_Code="RevisionNotFound")
        files = [{"rfilename": p} for p in sorted(self.repos[m[1]][branch])]
        return of_json({"id": m[1], "modelId": m[1], "sha": self.commit(m[1], branch),
                        "private": False, "downloads": 0, "tags": [], "siblings": files})

    def right_tree(self, request):
        m = re.match(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)$", request.path)
        if not m:
            return of_json({"error": "Entry not found"}, 404)
        refusal = self.may(request, m[1])
        if refusal:
            return refusal
        branch = self.revision(m[1], m[2])
        if branch is None:
            return of_json({"error": "Invalid rev id"}, 404, X_Error_Code="RevisionNotFound")
        entries = self.tree(m[1], branch)
        if request.query.get("recursive", [""])[0] not in ("true", "1", "True"):
            entries = [e for e in entries if "/" not in e["path"]]
        at = int(request.query.get("cursor", ["0"])[0])
        a = of_json(entries[at : at + self.page])
        if at + self.page < len(entries):
            a.headers["Link"] = '<%s/api/models/%s/tree/%s?recursive=true&cursor=%d>; rel="next"' % (
                self.url, m[1], m[2], at + self.page)
        return a

    def right_search(self, request):
        words = " ".join(request.query.get("search", [])).lower()
        wanted = {f for value in request.query.get("filter", []) for f in value.split(",")}
        found = [m for m in self.known
                 if words in m["id"].lower() and wanted <= set(m.get("tags", ["gguf"]))]
        found.sort(key=lambda m: -m.get("downloads", 0))
        limit = int(request.query.get("limit", ["1000"])[0])
        return of_json([dict(m, modelId=m["id"], private=False, likes=0) for m in found[:limit]])

    def right_resolve(self, request):
        m = re.match(r"(?:/api/resolve-cache/models)?/([^/]+/[^/]+)/(?:resolve/)?([^/]+)/(.+)$", request.path)
        refusal = self.may(request, m[1])
        if refusal:
            return refusal
        branch = self.revision(m[1], m[2])
        if branch is None:
            return of_json({"error": "Invalid rev id"}, 404, X_Error_Code="RevisionNotFound")
        data = self.repos[m[1]][branch].get(m[3])
        if data is None:
            return of_json({"error": "Entry not found"}, 404, X_Error_Code="EntryNotFound")
        oid = oid_of(m[3], data)
        common = {"X_Repo_Commit": self.commit(m[1], branch), "Accept_Ranges": "bytes"}
        if is_large(m[3]):
            return Answer(302, b"Found. Redirecting", X_Linked_Etag='"%s"' % oid, X_Linked_Size=len(data),
                          Location="%s/blob/%s?signature=s" % (self.cdn, oid), **common)
        if not request.path.startswith("/api/resolve-cache/"):
            to = "/api/resolve-cache/models/%s/%s/%s" % (m[1], common["X_Repo_Commit"], m[3])
            return Answer(307, b"Temporary Redirect", Location=urllib.parse.quote(to),
                          X_Linked_Etag='"%s"' % oid, X_Linked_Size=len(data), **common)
        return self.part(request, data, '"%s"' % oid, **common)

    def right_cdn(self, request):
        oid = request.path.rsplit("/", 1)[1]
        for branches in self.repos.values():
            for files in branches.values():
                for path, data in files.items():
                    if is_large(path) and sha256(data) == oid:
                        return self.part(request, data, '"%s"' % oid, Content_Type="application/octet-stream")
        return Answer(404, b"no such object")

    @staticmethod
    def part(request, data, etag, **headers):
        """Range and If-Range as RFC 9110 has them, for one range."""
        headers = dict(headers, ETag=etag, Accept_Ranges="bytes")
        m = re.match(r"bytes=(\d+)-(\d*)$", request.headers.get("range", ""))
        wanted = request.headers.get("if-range")
        if not m or (wanted is not None and wanted != etag):
            return Answer(200, data, **headers)
        first, last = int(m[1]), min(int(m[2] or len(data)), len(data) - 1)
        if first >= len(data) or last < first:
            return Answer(416, b"", Content_Range="bytes */%d" % len(data), **headers)
        where = "bytes %d-%d/%d" % (first, last, len(data))
        return Answer(206, data[first : last + 1], Content_Range=where, **headers)
