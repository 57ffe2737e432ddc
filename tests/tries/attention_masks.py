#!/usr/bin/env python3
"""Spelled-out attention with the masks that exporters write, against onnxruntime.

Usage: attention_masks.py [TESSERA]. The Python package is what is tried: PYTHONPATH names it. Every combination of
rank, mask, causality and place of the scale is run on five sizes, some with rows in which nothing may be seen. Prints a
line for each difference and a summary; exit code 1 when anything differs.
"""
import itertools
import sys

import numpy as np
import onnx
import onnxruntime
import tessera
from onnx import TensorProto, helper, numpy_helper

DEPTH, HEADS = 8, 2
LOWEST = np.finfo(np.float32).min
# mask: (element type of the input, its value where a position may be seen and where it may not)
MASKS = {
    "where -1e9": (TensorProto.BOOL, True, False),
    "where lowest": (TensorProto.BOOL, True, False),
    "where -inf": (TensorProto.BOOL, True, False),
    "where hidden": (TensorProto.BOOL, False, True),
    "where not": (TensorProto.BOOL, True, False),
    "where then add": (TensorProto.BOOL, True, False),
    "where then add, NaN guarded": (TensorProto.BOOL, True, False),
    "cast, one minus, times lowest": (TensorProto.INT64, 1, 0),
    "add -inf": (TensorProto.FLOAT, 0.0, -np.inf),
    "add lowest": (TensorProto.FLOAT, 0.0, LOWEST),
    "add -1e9": (TensorProto.FLOAT, 0.0, -1e9),
    "multiply": (TensorProto.BOOL, True, False),
}
SIZES = [(2, 5, False), (2, 17, True), (1, 1, False), (3, 64, True), (1, 130, True)]  # batch, length, rows of nothing


class Net:
    """An attention graph under construction."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def add(self, op, *inputs, **attributes):
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [result], **attributes))
        return result

    def number(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.float32(value).reshape(()), name))
        return name


def masked(net, mask, scores):
    """The scores after the mask `m`."""
    if mask in ("where -1e9", "where lowest", "where -inf"):
        hidden = {"where -1e9": -1e9, "where lowest": LOWEST, "where -inf": -np.inf}[mask]
        return net.add("Where", "m", scores, net.number(hidden))
    if mask == "where hidden":
        return net.add("Where", "m", net.number(-np.inf), scores)
    if mask == "where not":
        return net.add("Where", net.add("Not", "m"), net.number(-np.inf), scores)
    if mask.startswith("where then add"):
        return net.add("Add", scores, net.add("Where", "m", net.number(0), net.number(-np.inf)))
    if mask.startswith("cast"):
        seen = net.add("Cast", "m", to=TensorProto.FLOAT)
        return net.add("Add", scores, net.add("Mul", net.add("Sub", net.number(1), seen), net.number(LOWEST)))
    if mask == "multiply":
        return net.add("Mul", scores, net.add("Cast", "m", to=TensorProto.FLOAT))
    return net.add("Add", "m", scores)


def attention(rank, mask, causal, scales_query):
    net = Net()
    shape = ["B", "S", DEPTH] if rank == 3 else ["B", HEADS, "S", DEPTH]
    ones = [1] if rank == 4 else []
    mask_shape = ["B", *ones, "S" if causal else 1, "S"]
    keys = net.add("Transpose", "k", perm=[0, 2, 1] if rank == 3 else [0, 1, 3, 2])
    scale = net.number(DEPTH**-0.5)
    if scales_query:
        scores = net.add("MatMul", net.add("Mul", "q", scale), keys)
    else:
        scores = net.add("Mul", net.add("MatMul", "q", keys), scale)
    weights = net.add("Softmax", masked(net, mask, scores), axis=-1)
    if mask.endswith("NaN guarded"):
        weights = net.add("Where", net.add("IsNaN", weights), net.number(0), weights)
    net.nodes.append(helper.make_node("MatMul", [weights, "v"], ["y"]))
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "qkv"]
    inputs.append(helper.make_tensor_value_info("m", MASKS[mask][0], mask_shape))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(net.nodes, "attention", inputs, outputs, net.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def feeds_of(random, rank, mask, causal, batch, length, empty_rows):
    ones = [1] if rank == 4 else []
    shape = (batch, length, DEPTH) if rank == 3 else (batch, HEADS, length, DEPTH)
    seen = random.random((batch, *ones, length if causal else 1, length)) > 0.4
    if empty_rows:
        seen[0, ..., 0, :] = False
    else:
        seen[..., 0] = True
    kind, visible, hidden = MASKS[mask]
    feeds = {name: (random.standard_normal(shape) * 3).astype(np.float32) for name in "qkv"}
    feeds["m"] = np.where(seen, visible, hidden).astype(helper.tensor_dtype_to_np_dtype(kind))
    return feeds


def main():
    random = np.random.default_rng(0)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    compared, failed = 0, 0
    for case in itertools.product([3, 4], MASKS, [False, True], [False, True]):
        rank, mask, causal, _ = case
        model = attention(*case)
        reference = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        session = tessera.Session(model)
        for size in SIZES:
            feeds = feeds_of(random, rank, mask, causal, *size)
            expected, result = reference.run(None, feeds)[0], np.asarray(session.run(feeds))
            compared += 1
            if not np.allclose(expected, result, rtol=1e-3, atol=1e-4, equal_nan=True):
                failed += 1
                nans = f"{np.isnan(expected).sum()} NaN expected, {np.isnan(result).sum()} found"
                print(f"rank {rank}, {mask}, causal {causal}, query scaled {case[3]}, {size}: differs, {nans}")
    print(f"attention_masks: {compared - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
