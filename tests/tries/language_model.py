#!/usr/bin/env python3
"""A GGUF file of the architecture llama beside a float32 oracle, and the bits of its logits.

    language_model.py PROBE MODEL.gguf [--text FILE] [--tokens N]

PROBE is build/*/tests/peers/language_probe. Prints the mean Kullback-Leibler divergence from the oracle and how often
the likeliest token is the same, with rounded and with exact products, and whether logits have the same bits in chunks
of other sizes, with other numbers of threads and among 63 other sequences. Needs numpy, gguf and tokenizers.
"""
import argparse
import pathlib
import subprocess
import sys

import gguf
import numpy as np
import tokenizers

MOST_DIVERGENCE, LEAST_AGREEMENT, MOST_EXACT_DIVERGENCE = 0.0038, 0.96, 1e-6
FEW = 48  # tokens of the run among others


class Oracle:
    """Plain float32 arithmetic on dequantised weights, the whole text at once."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.keys = {name: field.contents() for name, field in reader.fields.items()}
        self.weights = {}
        for tensor in reader.tensors:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            self.weights[tensor.name] = values.reshape([int(size) for size in tensor.shape[::-1]])

    def key(self, name):
        return self.keys["llama." + name]

    def tokens_of(self, text):
        words = self.keys["tokenizer.ggml.tokens"]
        merges = [tuple(merge.split(" ")) for merge in self.keys["tokenizer.ggml.merges"]]
        bytes_of_text = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        single_digits = tokenizers.pre_tokenizers.Digits(individual_digits=True)
        pairs = tokenizers.models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=merges)
        tokenizer = tokenizers.Tokenizer(pairs)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([single_digits, bytes_of_text])
        return np.array(tokenizer.encode(text).ids)

    def linear(self, name, x):
        return x @ self.weights[name + ".weight"].T

    def norm(self, name, x):
        epsilon = np.float32(self.key("attention.layer_norm_rms_epsilon"))
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * self.weights[name + ".weight"]

    def heads(self, name, x, count, turned):
        """The projection as [heads, tokens, size]; queries and keys are turned by their positions."""
        parts = self.linear(name, x).reshape(len(x), count, -1).transpose(1, 0, 2)
        if not turned:
            return parts
        pairs = parts.shape[2] // 2
        frequencies = self.key("rope.freq_base") ** (-np.arange(pairs) / pairs)
        turns = np.exp(1j * np.outer(np.arange(len(x)), frequencies)).astype(np.complex64)
        numbers = np.ascontiguousarray(parts).view(np.complex64)  # neighbours are one complex number
        return (numbers * turns).view(np.float32)

    def layer(self, block, x):
        heads, kv_heads = self.key("attention.head_count"), self.key("attention.head_count_kv")
        normed = self.norm(block + "attn_norm", x)
        q = self.heads(block + "attn_q", normed, heads, True)
        k = self.heads(block + "attn_k", normed, kv_heads, True).repeat(heads // kv_heads, axis=0)
        v = self.heads(block + "attn_v", normed, kv_heads, False).repeat(heads // kv_heads, axis=0)
        scores = q @ k.transpose(0, 2, 1) / np.float32(np.sqrt(q.shape[2]))
        scores[:, ~np.tri(len(x), dtype=bool)] = -np.inf
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        seen = (weights / weights.sum(axis=2, keepdims=True)) @ v
        x = x + self.linear(block + "attn_output", seen.transpose(1, 0, 2).reshape(len(x), -1))
        normed = self.norm(block + "ffn_norm", x)
        gate = self.linear(block + "ffn_gate", normed)
        return x + self.linear(block + "ffn_down", gate / (1 + np.exp(-gate)) * self.linear(block + "ffn_up", normed))

    def logits(self, tokens):
        x = self.weights["token_embd.weight"][tokens]
        for i in range(self.key("block_count")):
            x = self.layer(f"blk.{i}.", x)
        return self.linear("output" if "output.weight" in self.weights else "token_embd", self.norm("output_norm", x))


def logarithms(logits):
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def beside(name, oracle, found, most, least):
    expected, had = logarithms(oracle), logarithms(found)
    divergence = np.mean(np.sum(np.exp(expected) * (expected - had), axis=1))
    agreement = np.mean(oracle.argmax(axis=1) == found.argmax(axis=1))
    fits = divergence <= most and agreement >= least
    print(f"{name:8} mean divergence {divergence:.3g} (at most {most}), likeliest token {agreement:.4f} "
          f"(at least {least}): {'met' if fits else 'MISSED'}", flush=True)
    return fits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "README.md")
    parser.add_argument("--tokens", type=int, default=384)
    options = parser.parse_args()
    oracle = Oracle(options.model)
    tokens = oracle.tokens_of(options.text.read_text()[:20 * options.tokens])[:options.tokens]

    def probe(given, *arguments):
        command = [options.probe, options.model, f"context={options.tokens}", *arguments]
        done = subprocess.run(command, input=" ".join(map(str, given)).encode(), capture_output=True)
        if done.returncode != 0:
            sys.exit(done.stderr.decode())
        return np.frombuffer(done.stdout, np.float32).reshape(len(given), -1)

    expected = oracle.logits(tokens)
    first = probe(tokens, "chunk=512", "threads=2")
    good = [beside("rounded", expected, first, MOST_DIVERGENCE, LEAST_AGREEMENT)]
    good.append(beside("exact", expected, probe(tokens, "exact", "chunk=512"), MOST_EXACT_DIVERGENCE, 0.99))
    for count, arguments in [(None, ("chunk=7", "threads=1")), (None, ("chunk=1", "threads=2")),
                             (None, ("chunk=512", "threads=3")), (FEW, ("chunk=1", "others=63")),
                             (FEW, ("chunk=5", "others=63", "threads=1"))]:
        same = np.array_equal(first[:count], probe(tokens[:count], *arguments))
        print(f"{' '.join(arguments)}: bits {'equal' if same else 'DIFFERENT'}", flush=True)
        good.append(same)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
