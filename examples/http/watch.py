#!/usr/bin/env python3
"""Watches a completion being written: what is taken back is struck out where it stood.

    python3 examples/http/watch.py --chat --ban "once upon a time" "Tell me a story."

The answer comes from `retrace serve`, as a stream with {"retrace": {"events": true}}: each chunk has beside
its text, which is never taken back, the operations of the run. "push" puts a token at a place, "erase" takes
all from a place on back, "settle" says up to where the tokens stay. Nothing but Python is needed.
"""

import argparse
import json
import os
import sys
import urllib.error
import urllib.request


class Terminal:
    """Writes in lines of its own, so that it can go back to where a token stood."""

    def __init__(self, width):
        self.width, self.row, self.column, self.tokens = width, 0, 0, []

    def put(self, text):
        for c in text:
            if c == "\n" or self.column >= self.width - 1:
                self.row, self.column = self.row + 1, 0
                sys.stdout.write("\n")
            if c != "\n":
                self.column += 1
                # What a model writes must not steer the terminal.
                sys.stdout.write(c if c.isprintable() else "?")

    def push(self, text):
        self.tokens.append((text, self.row, self.column))
        self.put(text)

    def erase(self, to):
        gone, self.tokens = self.tokens[to:], self.tokens[:to]
        if gone:
            up, self.row, self.column = self.row - gone[0][1], gone[0][1], gone[0][2]
            # Up, to the left edge, to the column; then the same text again, struck out.
            sys.stdout.write("\x1b[%dA" % up if up else "")
            sys.stdout.write("\r" + ("\x1b[%dC" % self.column if self.column else "") + "\x1b[9;2m")
            self.put("".join(text for text, _, _ in gone))
            sys.stdout.write("\x1b[0m")

    def settle(self, to):
        pass

    def end(self):
        print()


class Plain:
    """For a pipe or a file: each part once, when it is settled, as [-erased-] or as it is."""

    def __init__(self):
        self.tokens, self.parts, self.shown = [], [], 0

    def push(self, text):
        self.tokens.append(text)

    def erase(self, to):
        self.settle(to)
        if self.tokens[to:]:
            sys.stdout.write("[-%s-]" % "".join(self.tokens[to:]))
        del self.tokens[to:]

    def settle(self, to):
        sys.stdout.write("".join(self.tokens[self.shown : to]))
        self.shown = max(self.shown, to)

    def end(self):
        self.settle(len(self.tokens))
        print()


def chunks(answer):
    """The objects of a stream of server-sent events."""
    for line in answer:
        if line.startswith(b"data: ") and line[6:].strip() != b"[DONE]":
            yield json.loads(line[6:])


def watch(answer, screen):
    """Shows the stream. The last chunk's `retrace`, and the completion's id."""
    last, name = {}, None
    for chunk in chunks(answer):
        if "error" in chunk:
            raise SystemExit("\nwatch.py: %s" % chunk["error"]["message"])
        last, name = chunk.get("retrace", last), chunk["id"]
        for op in last.get("ops", []):
            if op["op"] == "push":
                screen.push(op["text"])
            elif op["op"] == "erase":
                screen.erase(op["to"])
            elif op["op"] == "settle":
                screen.settle(op["to"])
        sys.stdout.flush()
    screen.end()
    return last, name


def request(args):
    body = {"stream": True, "retrace": {"events": True}, "max_tokens": args.max_tokens}
    body.update({"seed": args.seed, "banned_strings": args.ban, **json.loads(args.fields)})
    if args.chat:
        body["messages"] = [{"role": "user", "content": args.prompt}]
    else:
        body["prompt"] = args.prompt
    path = "/v1/chat/completions" if args.chat else "/v1/completions"
    headers = {"Content-Type": "application/json"}
    if args.key:
        headers["Authorization"] = "Bearer " + args.key
    return urllib.request.Request(args.url + path, json.dumps(body).encode(), headers)


def main():
    p = argparse.ArgumentParser(description="Watch a completion of `retrace serve` being written.")
    p.add_argument("prompt")
    p.add_argument("--chat", action="store_true", help="the prompt is a user's message")
    p.add_argument("--ban", action="append", default=[], metavar="TEXT", help="what must not be there; may be repeated")
    p.add_argument("--max-tokens", type=int, default=200, metavar="N")
    p.add_argument("--seed", type=int, default=-1, metavar="N")
    p.add_argument("--fields", default="{}", metavar="JSON", help="more fields of the request")
    p.add_argument("--url", default="http://127.0.0.1:7077")
    p.add_argument("--key", default=os.environ.get("RETRACE_API_KEY"), help="API key (RETRACE_API_KEY)")
    args = p.parse_args()
    screen = Terminal(os.get_terminal_size().columns or 80) if sys.stdout.isatty() else Plain()
    try:
        with urllib.request.urlopen(request(args)) as answer:
            last, name = watch(answer, screen)
    except urllib.error.HTTPError as e:
        sys.exit("watch.py: %s" % json.load(e)["error"]["message"])
    except urllib.error.URLError as e:
        sys.exit("watch.py: no server at %s (%s); start one with: retrace serve" % (args.url, e.reason))
    stats = last["stats"]
    print(
        "%s: %d tokens, %d taken back, rewinds: %d, finish: %s"
        % (name, stats["kept"], stats["erased"], stats["rewinds"], last["finish"]),
        file=sys.stderr,
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
