"""One run of backtracking-llm with one of its operators by its defaults, as its README shows it.

Usage: backtracking_llm_run.py MODEL.gguf THREADS TOKENS SEED   prints the tokens made (fewer than asked
when the model ended its answer) and tokens per second. transformers expands the file's weights to
F32. The clock runs over generate(), the prompt included.
"""

import pathlib
import sys
import time

import torch
from backtracking_llm.decision import ProbabilityThreshold
from backtracking_llm.generation import GenerationSession
from transformers import AutoModelForCausalLM, AutoTokenizer

path, threads, tokens, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.manual_seed(seed)
torch.set_num_threads(threads)
where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
tokenizer = AutoTokenizer.from_pretrained(**where)
model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
prompt = "Once upon a time there was a small village between the river and the"
start = time.monotonic()
session = GenerationSession(model, tokenizer, prompt, ProbabilityThreshold(), 1, tokens, 1.0, 50)
while not session.done:
    result = session.step()
    if result.backtrack_count > 0:
        session.backtrack(result.backtrack_count)
print(session.generated_token_count, session.generated_token_count / (time.monotonic() - start))
