"""Writes small model files with random weights, for tests:  python tiny_gguf.py FOLDER

Three layers, a vocabulary of some 330 tokens, F32 unless said, the same bytes on every run:

    dense.gguf      llama: everything can be cut; SentencePiece with bytes, BOS, a chat template
    swa.gguf        gemma3: every other layer looks back 16 tokens; SentencePiece without space prefix
    softcap.gguf    the same, with logits that are bounded by a soft cap
    recurrent.gguf  mamba: a running state that cannot be cut; byte-level BPE, no BOS, no template
    quant.gguf      dense with matrices of 8 and 16 bits
    hybrid.gguf     lfm2: running state, attention, running state; a template nobody knows
    marks.gguf      dense, with the marks of all chat templates as control tokens, and no template
    marks_bpe.gguf  the same in byte-level BPE, without BOS

and files that must be refused: novocab.gguf (weights only), vocabonly.gguf (no weights),
truncated.gguf (dense, cut at three quarters), encoder.gguf (t5encoder), diffusion.gguf (llada).

The weights are large enough that a wrong token anywhere in the history moves every logit.
"""

import sys
from pathlib import Path

import gguf
import numpy as np

EMBD, HEADS, KV_HEADS, HEAD, FF, LAYERS = 64, 4, 2, 16, 128, 3
NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content']"
    " + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% endif %}"
)
GEMMA = "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m['content'] | trim }}{% endfor %}"
STRANGE = "{# a template of no known family #}\n{{ messages[0]['content'] }}"


# What the templates that libllama knows put around the contents of messages, and what others do.
MARKS = (
    "<|im_start|> <|im_end|> <|im_sep|> <|im_user|> <|im_assistant|> <|im_system|> <|im_middle|> [INST] [/INST] "
    "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] <|system|> <|user|> <|assistant|> <|end|> <|endoftext|> [gMASK] <sop> "
    "<start_of_turn> <end_of_turn> <|end_of_turn|> <|EOT|> <|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|> "
    "<|SYSTEM_TOKEN|> <|USER_TOKEN|> <|CHATBOT_TOKEN|> <|begin_of_text|> <|start_header_id|> <|end_header_id|> "
    "<|eot_id|> <|header_start|> <|header_end|> <|eot|> <\uff5cUser\uff5c> <\uff5cAssistant\uff5c> "
    "<\uff5cend\u2581of\u2581sentence\uff5c> [|system|] [|user|] [|assistant|] [|endofturn|] <|endofturn|> "
    "<|start_of_role|> <|end_of_role|> <|end_of_text|> <|message_sep|> <|role_sep|> <|role_start|> <|role_end|> "
    "<|turn_end|> <role> </role> <|startoftext|> <|extra_0|> <|extra_4|> <|eos|> <|start|> <|message|> "
    "<|return|> <|channel|> <seed:bos> <seed:eos> <|separator|> [unused9] [unused10] <|begin|> <|content|> "
    "<end_of_utterance> [SEP] <\u7528\u6237> <AI> <think> </think>"
).split()


# ---- Vocabularies ----

SYLLABLES = ["th", "he", "in", "er", "an", "on", "or", "es", "st", "the", "ing", "and"]


def sentencepiece(w, bos, controls, space_prefix):
    """Scores fall with the index, so longer pieces that come first are merged first."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = ["\u2581the", "\u2581and", "the", "ing", "and", "\u2581th", "\u2581in", "\u2581a"]
    pieces += [s for s in SYLLABLES if s not in pieces] + ["\u2581"] + letters
    tokens = ["<unk>", bos, "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + controls + pieces
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [CONTROL] * len(controls)
    types += [NORMAL] * len(pieces) + [UNUSED]
    tokens += ["<unused0>"]
    scores = [0.0] * (259 + len(controls)) + [-float(i) for i in range(len(pieces))] + [0.0]
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores(scores)
    w.add_token_types(types)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_space_prefix(space_prefix)
    return len(tokens)


def byte_level():
    """Bytes as printable characters, the way byte-level BPE spells them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelt, n = {}, 0
    for b in range(256):
        spelt[b] = chr(b) if b in plain else chr(256 + n)
        n += b not in plain
    return [spelt[b] for b in range(256)]


def bpe(w, controls):
    merges = ["t h", "h e", "i n", "a n", "o n", "e r", "th e", "in g", "an d", "\u0120 th", "\u0120th e",
              "\u0120 a", "\u0120a nd", "\u0120 in"]
    tokens = byte_level() + [m.replace(" ", "") for m in merges] + controls
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([NORMAL] * (len(tokens) - len(controls)) + [CONTROL] * len(controls))
    w.add_token_merges(merges)
    w.add_eos_token_id(tokens.index(controls[0]))
    w.add_add_bos_token(False)
    return len(tokens)


# ---- Weights ----


class Weights:
    def __init__(self, w, seed):
        self.w, self.rng = w, np.random.default_rng(seed)
        self.types = []  # of the matrices, in turn; empty: F32

    def matrix(self, name, rows, cols, scale=1.5):
        x = self.rng.standard_normal((rows, cols)) * scale / np.sqrt(cols)
        if self.types:
            self.types.append(kind := self.types.pop(0))
            self.w.add_tensor(name, gguf.quantize(x.astype(np.float32), kind), raw_dtype=kind)
        else:
            self.w.add_tensor(name, x.astype(np.float32))

    def around(self, name, value, *shape, spread=0.1):
        x = value + spread * self.rng.standard_normal(shape)
        self.w.add_tensor(name, x.astype(np.float32))

    def attention(self, blk, q_norm=False, out="attn_output"):
        self.matrix(f"{blk}.attn_q.weight", HEADS * HEAD, EMBD)
        self.matrix(f"{blk}.attn_k.weight", KV_HEADS * HEAD, EMBD)
        self.matrix(f"{blk}.attn_v.weight", KV_HEADS * HEAD, EMBD)
        self.matrix(f"{blk}.{out}.weight", EMBD, HEADS * HEAD)
        if q_norm:
            self.around(f"{blk}.attn_q_norm.weight", 1.5, HEAD)
            self.around(f"{blk}.attn_k_norm.weight", 1.5, HEAD)

    def feed_forward(self, blk):
        self.around(f"{blk}.ffn_norm.weight", 1, EMBD)
        self.matrix(f"{blk}.ffn_gate.weight", FF, EMBD)
        self.matrix(f"{blk}.ffn_up.weight", FF, EMBD)
        self.matrix(f"{blk}.ffn_down.weight", EMBD, FF)

    def ends(self, n_vocab, norm="output_norm"):
        self.matrix("token_embd.weight", n_vocab, EMBD, scale=8)
        self.around(f"{norm}.weight", 1, EMBD)
        self.matrix("output.weight", n_vocab, EMBD)


def start(folder, name, arch):
    w = gguf.GGUFWriter(folder / name, arch)
    w.add_name(f"tiny {name.split('.')[0]}")
    w.add_context_length(4096)
    w.add_embedding_length(EMBD)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(FF)
    w.add_head_count(HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    return w


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


# ---- Models ----


def llama_like(folder, name, arch, vocabulary, types=()):
    w = start(folder, name, arch)
    w.add_head_count_kv(KV_HEADS)
    w.add_rope_dimension_count(HEAD)
    n = 330
    if vocabulary:
        n = sentencepiece(w, "<s>", ["<|im_start|>", "<|im_end|>"], True)
        w.add_chat_template(CHATML)
    x = Weights(w, 1)
    x.types = list(types)
    x.ends(n)
    for i in range(LAYERS):
        x.around(f"blk.{i}.attn_norm.weight", 1, EMBD)
        x.attention(f"blk.{i}")
        x.feed_forward(f"blk.{i}")
    finish(w)


def marks(folder, name, vocabulary):
    w = start(folder, name, "llama")
    w.add_head_count_kv(KV_HEADS)
    w.add_rope_dimension_count(HEAD)
    x = Weights(w, 6)
    x.ends(vocabulary(w))
    for i in range(LAYERS):
        x.around(f"blk.{i}.attn_norm.weight", 1, EMBD)
        x.attention(f"blk.{i}")
        x.feed_forward(f"blk.{i}")
    finish(w)


def sliding(folder, name, softcap=None):
    w = start(folder, name, "gemma3")
    if softcap:
        w.add_final_logit_softcapping(softcap)
    w.add_head_count_kv(KV_HEADS)
    w.add_key_length(HEAD)
    w.add_value_length(HEAD)
    w.add_sliding_window(16)
    w.add_sliding_window_pattern(2)
    n = sentencepiece(w, "<bos>", ["<start_of_turn>", "<end_of_turn>"], False)
    w.add_chat_template(GEMMA)
    x = Weights(w, 2)
    x.matrix("token_embd.weight", n, EMBD, scale=1)
    x.matrix("output.weight", n, EMBD)
    x.around("output_norm.weight", 1, EMBD)
    for i in range(LAYERS):
        x.around(f"blk.{i}.attn_norm.weight", 1, EMBD)
        x.attention(f"blk.{i}", q_norm=True)
        x.around(f"blk.{i}.post_attention_norm.weight", 1, EMBD)
        x.feed_forward(f"blk.{i}")
        x.around(f"blk.{i}.post_ffw_norm.weight", 1, EMBD)
    finish(w)


def recurrent(folder):
    w = start(folder, "recurrent.gguf", "mamba")
    inner, state, conv, rank = 2 * EMBD, 8, 4, 4
    w.add_ssm_conv_kernel(conv)
    w.add_ssm_inner_size(inner)
    w.add_ssm_state_size(state)
    w.add_ssm_time_step_rank(rank)
    x = Weights(w, 3)
    x.ends(bpe(w, ["<|endoftext|>", "<|user|>"]))
    for i in range(LAYERS):
        blk = f"blk.{i}"
        x.around(f"{blk}.attn_norm.weight", 1, EMBD)
        x.matrix(f"{blk}.ssm_in.weight", 2 * inner, EMBD)
        x.around(f"{blk}.ssm_conv1d.weight", 0, inner, conv, spread=0.6)
        x.around(f"{blk}.ssm_conv1d.bias", 0, inner)
        x.matrix(f"{blk}.ssm_x.weight", rank + 2 * state, inner)
        x.matrix(f"{blk}.ssm_dt.weight", inner, rank)
        x.around(f"{blk}.ssm_dt.bias", -1, inner)
        x.w.add_tensor(f"{blk}.ssm_a", np.tile(-np.arange(1, state + 1, dtype=np.float32) / 8, (inner, 1)))
        x.around(f"{blk}.ssm_d", 1, inner)
        x.matrix(f"{blk}.ssm_out.weight", EMBD, inner)
    finish(w)


def hybrid(folder):
    w = start(folder, "hybrid.gguf", "lfm2")
    w.add_head_count_kv([0, KV_HEADS, 0])
    w.add_shortconv_l_cache(4)
    x = Weights(w, 4)
    n = bpe(w, ["<|endoftext|>", "<|user|>"])
    w.add_chat_template(STRANGE)
    x.matrix("token_embd.weight", n, EMBD, scale=8)
    x.matrix("output.weight", n, EMBD)
    x.around("token_embd_norm.weight", 1, EMBD)
    for i in range(LAYERS):
        blk = f"blk.{i}"
        x.around(f"{blk}.attn_norm.weight", 1, EMBD)
        if i == 1:
            x.attention(blk, q_norm=True)
        else:
            x.around(f"{blk}.shortconv.conv.weight", 0, EMBD, 4, spread=0.6)
            x.matrix(f"{blk}.shortconv.in_proj.weight", 3 * EMBD, EMBD)
            x.matrix(f"{blk}.shortconv.out_proj.weight", EMBD, EMBD)
        x.feed_forward(blk)
    finish(w)


# ---- Files to refuse ----


def encoder(folder):
    w = start(folder, "encoder.gguf", "t5encoder")
    w.add_head_count_kv(HEADS)
    w.add_key_length(HEAD)
    w.add_value_length(HEAD)
    w.add_relative_attn_buckets_count(8)
    x = Weights(w, 5)
    x.matrix("token_embd.weight", sentencepiece(w, "<s>", [], True), EMBD)
    x.around("enc.output_norm.weight", 1, EMBD)
    for i in range(LAYERS):
        blk = f"enc.blk.{i}"
        x.around(f"{blk}.attn_norm.weight", 1, EMBD)
        x.around(f"{blk}.attn_rel_b.weight", 0, 8, HEADS)
        for part in "qkvo":
            x.matrix(f"{blk}.attn_{part}.weight", EMBD, EMBD)
        x.feed_forward(blk)
    finish(w)


def vocabulary_only(folder):
    w = start(folder, "vocabonly.gguf", "llama")
    sentencepiece(w, "<s>", [], True)
    finish(w)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    llama_like(folder, "dense.gguf", "llama", True)
    llama_like(folder, "novocab.gguf", "llama", False)
    llama_like(folder, "diffusion.gguf", "llada", True)
    kinds = gguf.GGMLQuantizationType
    llama_like(folder, "quant.gguf", "llama", True, [kinds.Q8_0, kinds.F16, kinds.BF16])
    sliding(folder, "swa.gguf")
    sliding(folder, "softcap.gguf", 5.0)
    recurrent(folder)
    hybrid(folder)
    marks(folder, "marks.gguf", lambda w: sentencepiece(w, "<s>", MARKS, True))
    marks(folder, "marks_bpe.gguf", lambda w: bpe(w, ["<|endoftext|>"] + [m for m in MARKS if "endoftext" not in m]))
    encoder(folder)
    vocabulary_only(folder)
    whole = (folder / "dense.gguf").read_bytes()
    (folder / "truncated.gguf").write_bytes(whole[: len(whole) * 3 // 4])


if __name__ == "__main__":
    main()
