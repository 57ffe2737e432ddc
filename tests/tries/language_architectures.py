#!/usr/bin/env python3
"""Logits of tiny random language models of every architecture beside transformers, in float32.

    language_architectures.py PROBE [NAME ...]

PROBE is build/*/tests/peers/language_probe. Needs torch and transformers.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
import transformers

MOST_ERROR = 1e-4  # of the largest logit
COMMON = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.2)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
GEMMA = dict(head_dim=16, hidden_activation="gelu_pytorch_tanh", sliding_window=8, query_pre_attn_scalar=24)


def longrope(pairs):
    return dict(type="longrope", short_factor=[1.0 + i / pairs for i in range(pairs)],
                long_factor=[2.0 + i for i in range(pairs)])


CASES = {
    "llama": ("Llama", {}),
    "llama_tied": ("Llama", dict(tie_word_embeddings=True)),
    "llama_head_size": ("Llama", dict(head_dim=32)),
    "llama_biases": ("Llama", dict(attention_bias=True, mlp_bias=True)),
    "llama_all_heads": ("Llama", dict(num_key_value_heads=4)),
    "llama_one_head": ("Llama", dict(num_key_value_heads=1)),
    "llama3_scaling": ("Llama", dict(rope_scaling=LLAMA3, rope_theta=500000.0)),
    "llama_linear": ("Llama", dict(rope_scaling=dict(rope_type="linear", factor=4.0))),
    "mistral": ("Mistral", dict(sliding_window=None)),
    "mistral_window": ("Mistral", dict(sliding_window=9)),
    "qwen2": ("Qwen2", {}),
    "qwen2_window": ("Qwen2", dict(use_sliding_window=True, sliding_window=7, max_window_layers=1)),
    "qwen3": ("Qwen3", dict(head_dim=32)),
    "gemma2": ("Gemma2", dict(GEMMA, attn_logit_softcapping=5.0, final_logit_softcapping=3.0)),
    "gemma2_no_caps": ("Gemma2", dict(GEMMA, attn_logit_softcapping=None, final_logit_softcapping=None)),
    "gemma3": ("Gemma3ForCausalLM", dict(GEMMA, num_hidden_layers=7, sliding_window_pattern=3, rope_theta=1e6,
                                         rope_local_base_freq=10000.0)),
    "gemma3_linear": ("Gemma3ForCausalLM", dict(GEMMA, num_hidden_layers=7,
                                                rope_scaling=dict(rope_type="linear", factor=8.0))),
    "phi3": ("Phi3", dict(pad_token_id=0)),
    "phi3_partial": ("Phi3", dict(pad_token_id=0, partial_rotary_factor=0.5)),
    "phi3_window": ("Phi3", dict(pad_token_id=0, sliding_window=11)),
    "phi3_short": ("Phi3", dict(pad_token_id=0, rope_scaling=longrope(8), original_max_position_embeddings=128)),
    "phi3_long": ("Phi3", dict(pad_token_id=0, rope_scaling=longrope(8), original_max_position_embeddings=32)),
}


def make(kind, changes):
    torch.manual_seed(5)
    if kind == "Gemma3ForCausalLM":
        config, net = transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM
    else:
        config = getattr(transformers, kind + "Config")
        net = getattr(transformers, kind + "ForCausalLM")
    model = net(config(**dict(COMMON, attn_implementation="eager", **changes))).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:  # norms and biases, which begin as ones and zeros
                weight += torch.randn_like(weight) * 0.1
    return model


def probe(program, folder, tokens, *arguments):
    command = [program, str(folder), *arguments]
    found = subprocess.run(command, input=" ".join(map(str, tokens)).encode(), capture_output=True)
    if found.returncode != 0:
        raise AssertionError(found.stderr.decode())
    return np.frombuffer(found.stdout, np.float32).reshape(len(tokens), -1)


def check(program, name):
    kind, changes = CASES[name]
    model = make(kind, dict(changes))
    rows = 60 if "long" in name or "short" in name else 40
    tokens = np.random.default_rng(3).integers(0, COMMON["vocab_size"], rows)
    with torch.no_grad():
        wanted = model(torch.tensor(tokens)[None]).logits[0].numpy()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        context = "context=60" if "long" in name or "short" in name else "context=64"
        found = probe(program, folder, tokens, "exact", "f32", "chunk=16", context)
        again = probe(program, folder, tokens, "exact", "f32", "chunk=5", "others=2", context)
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    same = np.array_equal(found, again)
    print(f"{name:18} relative error {error:.1e}, in other chunks and beside others {'equal' if same else 'DIFFERENT'}")
    return error <= MOST_ERROR and same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe", type=pathlib.Path)
    parser.add_argument("names", nargs="*", choices=[[], *CASES], default=[])
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    wrong = [name for name in options.names or CASES if not check(options.probe, name)]
    print(f"{len(options.names or CASES) - len(wrong)} of {len(options.names or CASES)} agree"
          + (": not " + ", ".join(wrong) if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
