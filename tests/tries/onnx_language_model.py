#!/usr/bin/env python3
"""A language model as onnxruntime-genai exports it, beside onnxruntime: GroupQueryAttention over a cache in one buffer,
and MatMulNBits.

    onnx_language_model.py TESSERA MODEL.gguf [--prompt N] [--accuracy-level 0|4] [--folder DIR] [--repetitions N]

The ONNX file is built of a GGUF file of the architecture llama in Q4_0 with a head in Q8_0. A prompt and the step of
one token behind it run in both programs, in turn: compared are the logits, the cache, and the least times with one
thread. Where activations may be rounded (accuracy level 4), both are compared with onnxruntime's results of a file that
does not allow it. Needs numpy, onnx, onnxruntime and gguf.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import gguf
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

MOST_ERROR = 5e-4  # of the largest number of each output, without rounding
MOST_TIMES = 1.25  # of onnxruntime's error, with rounding


class Builder:
    def __init__(self, path, accuracy):
        reader = gguf.GGUFReader(path)
        self.keys = {name: field.contents() for name, field in reader.fields.items()}
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.accuracy = accuracy
        self.nodes, self.constants = [], []

    def key(self, name):
        return self.keys["llama." + name]

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, op, inputs, name, domain="", outputs=None, **attributes):
        outputs = outputs or [name]
        self.nodes.append(helper.make_node(op, inputs, outputs, name, domain=domain, **attributes))
        return outputs[0]

    def reals(self, name):
        tensor = self.tensors[name + ".weight"]
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)

    def linear(self, name, x, bits):
        """MatMulNBits on the blocks as they are: Q4_0 is d · (q − 8), Q8_0 is d · q."""
        tensor = self.tensors[name + ".weight"]
        k, n = (int(size) for size in tensor.shape)
        expected = gguf.GGMLQuantizationType.Q4_0 if bits == 4 else gguf.GGMLQuantizationType.Q8_0
        assert tensor.tensor_type == expected, (name, tensor.tensor_type)
        blocks = tensor.data.reshape(n, k // 32, -1)
        scales = blocks[:, :, :2].copy().view(np.float16).astype(np.float32).reshape(n, -1)
        if bits == 4:
            halves = blocks[:, :, 2:]
            numbers = np.concatenate([halves & 15, halves >> 4], axis=2)
            packed = numbers[:, :, 0::2] | numbers[:, :, 1::2] << 4
        else:
            packed = (blocks[:, :, 2:].view(np.int8).astype(np.int16) + 128).astype(np.uint8)
        inputs = [x, self.constant(name + ".numbers", packed), self.constant(name + ".scales", scales)]
        return self.node("MatMulNBits", inputs, name, "com.microsoft", N=n, K=k, bits=bits, block_size=32,
                         accuracy_level=self.accuracy)

    def norm(self, name, x):
        weight = self.constant(name + ".weight", self.reals(name))
        return self.node("SimplifiedLayerNormalization", [x, weight], name, axis=-1,
                         epsilon=float(self.key("attention.layer_norm_rms_epsilon")))

    def layer(self, i, x):
        name = f"blk.{i}."
        heads, kv_heads = self.key("attention.head_count"), self.key("attention.head_count_kv")
        normed = self.norm(name + "attn_norm", x)
        q, k, v = (self.linear(name + part, normed, 4) for part in ("attn_q", "attn_k", "attn_v"))
        past = [f"past_key_values.{i}.{part}" for part in ("key", "value")]
        present = [f"present.{i}.{part}" for part in ("key", "value")]
        seen = self.node("GroupQueryAttention", [q, k, v, *past, "seqlens_k", "total", "cosines", "sines"],
                         name + "attention", "com.microsoft", [name + "attention", *present], num_heads=heads,
                         kv_num_heads=kv_heads, do_rotary=1, rotary_interleaved=1)
        x = self.node("Add", [x, self.linear(name + "attn_output", seen, 4)], name + "attended")
        normed = self.norm(name + "ffn_norm", x)
        gate, up = (self.linear(name + part, normed, 4) for part in ("ffn_gate", "ffn_up"))
        active = self.node("Mul", [gate, self.node("Sigmoid", [gate], name + "sigmoid")], name + "active")
        wide = self.node("Mul", [active, up], name + "wide")
        return self.node("Add", [x, self.linear(name + "ffn_down", wide, 4)], name + "output")

    def model(self):
        layers, hidden = self.key("block_count"), self.key("embedding_length")
        kv_heads, size = self.key("attention.head_count_kv"), hidden // self.key("attention.head_count")
        positions = min(4096, self.key("context_length"))
        angles = np.outer(np.arange(positions), self.key("rope.freq_base") ** (-np.arange(size // 2) / (size // 2)))
        self.constant("cosines", np.cos(angles).astype(np.float32))
        self.constant("sines", np.sin(angles).astype(np.float32))
        self.constant("one", np.array([1], np.int64))
        counts = self.node("ReduceSum", ["attention_mask", "one"], "counts", keepdims=0)
        self.node("Cast", [self.node("Sub", [counts, "one"], "less_one")], "seqlens_k", to=TensorProto.INT32)
        shape = self.node("Shape", ["attention_mask"], "mask_shape")
        self.constant("first", np.array(1, np.int64))
        self.node("Cast", [self.node("Gather", [shape, "first"], "total_wide")], "total", to=TensorProto.INT32)
        x = self.node("Gather", [self.constant("embedding", self.reals("token_embd")), "input_ids"], "embedded")
        for i in range(layers):
            x = self.layer(i, x)
        logits = self.linear("output" if "output.weight" in self.tensors else "token_embd",
                             self.norm("output_norm", x), 8)
        self.node("Identity", [logits], "logits")
        integers = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.INT64, dims)
        reals = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        caches = [f"{i}.{part}" for i in range(layers) for part in ("key", "value")]
        inputs = [integers("input_ids", ["batch", "rows"]), integers("attention_mask", ["batch", "total"])]
        inputs += [reals("past_key_values." + name, ["batch", kv_heads, "past", size]) for name in caches]
        outputs = [reals("logits", ["batch", "rows", None])]
        outputs += [reals("present." + name, ["batch", kv_heads, "total", size]) for name in caches]
        graph = helper.make_graph(self.nodes, "language model", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10), layers, kv_heads, size


def inputs_of(ids, past):
    """Those of a step with the cache that a run before it gave; of the first step, one without positions."""
    held = next(iter(past.values())).shape[2]
    given = {"input_ids": ids, "attention_mask": np.ones((1, held + ids.shape[1]), np.int64)}
    return given | {name.replace("present", "past_key_values"): cache for name, cache in past.items()}


def error_of(found, expected, of_cache):
    """The largest difference of the outputs, as a part of the largest number of each."""
    return max(float(np.abs(found[name] - expected[name]).max() / np.abs(expected[name]).max())
               for name in expected if name.startswith("present") == of_cache)


class Peer:
    def __init__(self, path):
        how = onnxruntime.SessionOptions()
        how.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(path), how, providers=["CPUExecutionProvider"])
        self.names = [output.name for output in self.session.get_outputs()]

    def run(self, given):
        return dict(zip(self.names, self.session.run(self.names, given)))

    def least_ms(self, given, runs):
        times = []
        for _ in range(runs):
            begin = time.perf_counter()
            self.session.run(self.names, given)
            times.append((time.perf_counter() - begin) * 1e3)
        return min(times)


class Tessera:
    def __init__(self, program, path, folder):
        self.program, self.path, self.folder = program, path, folder

    def call(self, verb, given, *arguments):
        np.savez(self.folder / "inputs.npz", **given)
        command = [self.program, verb, self.path, "--inputs", self.folder / "inputs.npz", "--threads", "1", *arguments]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def run(self, given):
        self.call("run", given, "--outputs", self.folder / "outputs.npz")
        return dict(np.load(self.folder / "outputs.npz"))

    def least_ms(self, given, runs):
        return json.loads(self.call("bench", given, "--runs", str(runs), "--json"))["min_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--prompt", type=int, default=128, help="tokens")
    parser.add_argument("--accuracy-level", type=int, choices=(0, 4), default=4)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--folder", type=pathlib.Path, help="where to leave the ONNX file; default: nowhere")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as holder:
        folder = options.folder or pathlib.Path(holder)
        folder.mkdir(exist_ok=True)
        for name, accuracy in (("exact.onnx", 0), ("model.onnx", options.accuracy_level)):
            model, layers, kv_heads, size = Builder(options.model, accuracy).model()
            onnx.save(model, folder / name)
        oracle, peer = Peer(folder / "exact.onnx"), Peer(folder / "model.onnx")
        tessera = Tessera(options.tessera, folder / "model.onnx", folder)
        empty = np.zeros((1, kv_heads, 0, size), np.float32)
        past = {f"present.{i}.{part}": empty for i in range(layers) for part in ("key", "value")}
        ids = np.random.default_rng(1).integers(0, 40000, (1, options.prompt + 1))
        good = True
        for title, rows in (("prompt", ids[:, :-1]), ("step", ids[:, -1:])):
            given = inputs_of(rows, past)
            expected, theirs, ours = oracle.run(given), peer.run(given), tessera.run(given)
            fits = True
            errors = []
            for of_cache in (False, True):
                error, other = error_of(ours, expected, of_cache), error_of(theirs, expected, of_cache)
                fits = fits and error <= max(MOST_ERROR, MOST_TIMES * other)
                errors.append(f"{'cache' if of_cache else 'logits'} {error:.2g} (onnxruntime {other:.2g})")
            good = good and fits
            runs = 10 if rows.shape[1] == 1 else 2
            times = [(tessera.least_ms(given, runs), peer.least_ms(given, runs)) for _ in range(options.repetitions)]
            mine, other = (min(column) for column in zip(*times))
            held = past["present.0.key"].shape[2]
            print(f"{title}, {rows.shape[1]} rows after {held}: errors of {', '.join(errors)}: "
                  f"{'met' if fits else 'MISSED'}; tessera {mine:.2f} ms, onnxruntime {other:.2f} ms, "
                  f"ratio {other / mine:.2f}", flush=True)
            past = {name: value for name, value in expected.items() if name != "logits"}
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
