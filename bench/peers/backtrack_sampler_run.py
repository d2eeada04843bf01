"""One run of backtrack_sampler with its llama.cpp provider and AntiSlop, as its README shows it.

Usage: backtrack_sampler_run.py MODEL THREADS TOKENS SEED PHRASE...   prints the tokens made
(fewer than asked when the model ended its answer) and tokens per second.
The clock runs from the call of generate() to its last token, the prompt included.
"""

import sys
import time

import torch
from backtrack_sampler import AntiSlopStrategy, BacktrackSampler
from backtrack_sampler.provider.llamacpp_provider import LlamacppProvider
from llama_cpp import Llama, LlamaRAMCache

model, threads, tokens, seed, phrases = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]
torch.manual_seed(seed)
torch.set_num_threads(threads)
llm = Llama(model_path=model, n_ctx=1024, n_threads=threads, n_threads_batch=threads, verbose=False)
provider = LlamacppProvider(llm, LlamaRAMCache(capacity_bytes=100_000_000), torch.device("cpu"))
sampler = BacktrackSampler(provider, AntiSlopStrategy(provider, phrases))
prompt = "Once upon a time there was a small village between the river and the"
start, n = time.monotonic(), 0
for _ in sampler.generate(prompt=prompt, max_new_tokens=tokens, temperature=1.0, top_k=50):
    n += 1
print(n, n / (time.monotonic() - start))
