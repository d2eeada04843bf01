"""The scoring of the original backward sampler, with PyTorch and transformers in F32, written anew.

For candidates v and a suffix s1..sT it feeds batches of [v, s1..sT], takes the full log-softmax of all T + 1
positions, and adds up pi(v) P(s1..sT | v). Like `backward_speed work` it does what standard input says, a
line at a time, and answers each by one JSON object; IDS are the suffix's tokens, joined by commas:
    score N IDS      N candidates scored
    check IDS        log-likelihoods of [v, suffix] for v = 1000, 2000 .. 8000
    best IDS         tries batch sizes and goes on with the fastest
Usage: backward_original_run.py MODEL.gguf THREADS PRIOR      PRIOR: doubles by token, or `-`
transformers expands the file's weights to F32.
"""

import json
import pathlib
import sys
import time

import numpy
import torch
from transformers import AutoModelForCausalLM

BATCHES = (32, 128, 512)


class Original:
    def __init__(self, path, threads, prior):
        torch.set_num_threads(threads)
        where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
        self.model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
        self.vocab = self.model.config.vocab_size
        pi = numpy.full(self.vocab, 1 / self.vocab) if prior == "-" else numpy.fromfile(prior)
        self.log_pi = torch.from_numpy(numpy.log(numpy.maximum(pi, 1e-30)))
        self.batch, self.next = BATCHES[-1], 0

    def likelihoods(self, candidates, suffix):
        """ln P(suffix | v) of a batch, as the original has it."""
        tail = suffix.unsqueeze(0).expand(len(candidates), -1)
        logp = torch.log_softmax(self.model(torch.cat([candidates.unsqueeze(1), tail], dim=1)).logits, dim=-1)
        return logp[:, :-1].gather(2, tail.unsqueeze(2)).squeeze(2).sum(dim=1)

    def candidates(self, n):
        ids = [(self.next + 7919 * (i + 1)) % self.vocab for i in range(n)]
        self.next = ids[-1]
        return torch.tensor(ids)

    def score(self, n, suffix):
        start = time.monotonic()
        total = []
        for ids in self.candidates(n).split(self.batch):
            total.append(torch.logsumexp(self.log_pi[ids] + self.likelihoods(ids, suffix).double(), dim=0))
        found = float(torch.logsumexp(torch.stack(total), dim=0))
        return {"seconds": time.monotonic() - start, "candidates": n, "tokens": n * (len(suffix) + 1),
                "log_sum": found}

    def check(self, suffix):
        ids = torch.tensor([1000 * i % self.vocab for i in range(1, 9)])
        return {"logp": self.likelihoods(ids, suffix).tolist()}

    def best(self, suffix):
        rates = {}
        for self.batch in BATCHES:
            self.score(self.batch, suffix)
            rates[self.batch] = 512 / self.score(512, suffix)["seconds"]
        self.batch = max(rates, key=rates.get)
        return {"batch": self.batch, "rates": rates}


def tokens(ids):
    return torch.tensor([int(i) for i in ids.split(",")])


@torch.no_grad()
def main():
    worker = Original(pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    print(json.dumps({"weights": "f32", "vocab": worker.vocab}), flush=True)
    for line in sys.stdin:
        command, _, rest = line.rstrip("\n").partition(" ")
        if command == "score":
            count, _, rest = rest.partition(" ")
            said = worker.score(int(count), tokens(rest))
        elif command == "check":
            said = worker.check(tokens(rest))
        elif command == "best":
            said = worker.best(tokens(rest))
        else:
            raise SystemExit("a line is none of score, check, best")
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
