#!/usr/bin/env python3
"""Quantises small nets, with onnxruntime.quantization in every format that it has and in blocks, and compares what both
programs make of them."""

import argparse
import collections
import logging
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime import quantization

import one_node
from saturation import peers_saturate

# At most this part of the range of an output may lie between the programs: both round float32 sums that were made in
# another order, and a value that falls on the other side of a tie is carried on by the layers after it.
SHARE_OF_RANGE = 0.02


class Net:
    """Builds a net node by node, with random weights."""

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def weight(self, *dims, scale=0.3):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(self.generator.normal(0, scale, dims).astype(np.float32), name))
        return name

    def add(self, op, *inputs, **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{op}_{len(self.nodes)}", **attributes))
        return output

    def model(self, dims, output):
        self.nodes[-1].output[0] = "y"
        assert output == f"v{len(self.nodes) - 1}"
        inputs, outputs = [helper.make_tensor_value_info("x", 1, dims)], [helper.make_tensor_value_info("y", 1, None)]
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def picture_net():
    """Convolutions with a residual, a gate, branches that are joined, pools, and a classifier."""
    net = Net(1)
    x = net.add("Conv", "x", net.weight(8, 3, 3, 3), net.weight(8), pads=[1, 1, 1, 1])
    x = net.add("Relu", x)
    branch = net.add("LeakyRelu", net.add("Conv", x, net.weight(8, 1, 3, 3), net.weight(8), pads=[1, 1, 1, 1], group=8),
                     alpha=0.1)
    x = net.add("Add", x, branch)
    gate = net.add("Sigmoid", net.add("Conv", net.add("GlobalAveragePool", x), net.weight(8, 8, 1, 1), net.weight(8)))
    x = net.add("Mul", x, gate)
    x = net.add("Concat", x, net.add("Conv", x, net.weight(4, 8, 1, 1)), axis=1)
    x = net.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return net.model(["batch", 3, 16, 16],
                     net.add("Softmax", net.add("Gemm", x, net.weight(12, 10, scale=4), net.weight(10))))


def text_net():
    """A feed-forward block, and attention without heads."""
    net = Net(2)
    q, k, v = (net.add("MatMul", "x", net.weight(32, 32)) for _ in range(3))
    scores = net.add("Softmax", net.add("MatMul", q, net.add("Transpose", k, perm=[0, 2, 1])), axis=-1)
    x = net.add("Add", "x", net.add("MatMul", scores, v))
    h = net.add("Relu", net.add("Add", net.add("MatMul", x, net.weight(32, 64)), net.weight(64)))
    return net.model(["batch", "length", 32], net.add("Add", x, net.add("MatMul", h, net.weight(64, 32))))


def recurrent_net():
    net = Net(3)
    x = net.add("LSTM", "x", net.weight(2, 64, 8), net.weight(2, 64, 16), net.weight(2, 128), hidden_size=16,
                direction="bidirectional")
    return net.model(["length", "batch", 8], net.add("Tanh", x))




class Calibration(quantization.CalibrationDataReader):
    def __init__(self, dims):
        generator = np.random.default_rng(7)
        self.feeds = iter([{"x": generator.normal(0, 1, dims).astype(np.float32)} for _ in range(8)])

    def get_next(self):
        return next(self.feeds, None)


def static(model, dims, folder, **options):
    quantization.quantize_static(model, folder / "quantised.onnx", Calibration(dims), reduce_range=peers_saturate(),
                                 **options)
    return onnx.load(folder / "quantised.onnx")


def dynamic(model, dims, folder, **options):
    quantization.quantize_dynamic(model, folder / "quantised.onnx", reduce_range=peers_saturate(), **options)
    return onnx.load(folder / "quantised.onnx")


def in_blocks(model, dims, folder, bits, block):
    """Every MatMul by a weight becomes a MatMulNBits; the last quantised number of a row stands in the highest bits."""
    model = onnx.load(model)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "MatMul" or node.input[1] not in weights:
            continue
        columns = weights[node.input[1]].T
        n, k = columns.shape
        blocks = columns.reshape(n, k // block, block)
        low, high = blocks.min(2, keepdims=True), blocks.max(2, keepdims=True)
        scale = (high - low) / (2 ** bits - 1)
        zero = np.rint(-low / scale).clip(0, 2 ** bits - 1)
        numbers = (np.rint(blocks / scale) + zero).clip(0, 2 ** bits - 1).astype(np.uint8)
        packed = sum(numbers[..., i::8 // bits] << (bits * i) for i in range(8 // bits)).astype(np.uint8)
        zeros = zero[..., 0].astype(np.uint8)
        zeros = np.pad(zeros, ((0, 0), (0, -zeros.shape[1] % (8 // bits))))
        zeros = sum(zeros[:, i::8 // bits] << (bits * i) for i in range(8 // bits)).astype(np.uint8)
        for suffix, array in [("packed", packed), ("scales", scale[..., 0]), ("zeros", zeros)]:
            model.graph.initializer.append(numpy_helper.from_array(array, f"{node.input[1]}_{suffix}"))
        name = node.input[1]
        node.op_type, node.domain = "MatMulNBits", "com.microsoft"
        node.input[1:] = [f"{name}_packed", f"{name}_scales", f"{name}_zeros"]
        node.attribute.extend(
            helper.make_attribute(key, value)
            for key, value in [("N", n), ("K", k), ("bits", bits), ("block_size", block)])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


QType, QFormat = quantization.QuantType, quantization.QuantFormat
FORMATS = {
    "QOperator u8": (static,
                     {"quant_format": QFormat.QOperator, "activation_type": QType.QUInt8, "weight_type": QType.QUInt8}),
    "QOperator u8 x i8, by channel": (static, {
        "quant_format": QFormat.QOperator, "activation_type": QType.QUInt8, "weight_type": QType.QInt8,
        "per_channel": True
    }),
    "QOperator i8": (static,
                     {"quant_format": QFormat.QOperator, "activation_type": QType.QInt8, "weight_type": QType.QInt8}),
    "QDQ i8": (static, {
        "quant_format": QFormat.QDQ, "activation_type": QType.QInt8, "weight_type": QType.QInt8, "per_channel": True
    }),
    "QDQ i16 of com.microsoft": (static, {
        "quant_format": QFormat.QDQ, "activation_type": QType.QInt16, "weight_type": QType.QInt8,
        "extra_options": {"UseQDQContribOps": True}
    }),
    "dynamic u8": (dynamic, {"weight_type": QType.QUInt8}),
    "dynamic i8, by channel": (dynamic, {"weight_type": QType.QInt8, "per_channel": True}),
    "4 bits in blocks of 32": (in_blocks, {"bits": 4, "block": 32}),
    "8 bits in blocks of 16": (in_blocks, {"bits": 8, "block": 16}),
}

STATIC = [label for label, (quantise, _) in FORMATS.items() if quantise is static]
DYNAMIC = [label for label, (quantise, _) in FORMATS.items() if quantise is dynamic]
BLOCKS = [label for label, (quantise, _) in FORMATS.items() if quantise is in_blocks]
# How a net is made, the shapes that it runs on, and the formats that have operators for it.
NETS = {
    "picture": (picture_net, [(1, 3, 16, 16), (3, 3, 16, 16)], STATIC + DYNAMIC[:1]),
    "text": (text_net, [(1, 5, 32), (2, 9, 32)], STATIC + DYNAMIC + BLOCKS),
    "recurrent": (recurrent_net, [(6, 1, 8), (9, 3, 8)], DYNAMIC),
}


def needs_microsoft(net, label):
    return label.startswith("QOperator") or label in BLOCKS or "com.microsoft" in label or net == "recurrent"


def check(tessera, model, shapes, folder):
    """The largest difference, in parts of the range of the output."""
    worst = 0
    for dims in shapes:
        feed = {"x": np.random.default_rng(11).normal(0, 1, dims).astype(np.float32)}
        want = one_node.run_onnxruntime(model, feed)["y"]
        for device in ("reference", "cpu"):
            have = one_node.run_tessera(tessera, model, feed, device, folder)["y"]
            if have.shape != want.shape or have.dtype != want.dtype:
                raise one_node.Problem(
                    f"{device}: {have.dtype}{list(have.shape)}, expected {want.dtype}{list(want.shape)}")
            worst = max(worst, float(np.abs(have - want).max() / (want.max() - want.min())))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", type=pathlib.Path, default=one_node.ROOT / "build/release/apps/tessera/tessera",
                        help="the program")
    arguments = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)  # it advises to optimise the nets first
    onnxruntime.set_default_logger_severity(3)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="tessera-peers-") as name:
        folder = pathlib.Path(name)
        for net, (make, shapes, labels) in NETS.items():
            onnx.save(make(), folder / "net.onnx")
            for label in labels:
                quantise, options = FORMATS[label]
                model = quantise(folder / "net.onnx", shapes[0], folder, **options)
                ops = collections.Counter(f"{node.domain}::{node.op_type}".removeprefix("::")
                                          for node in model.graph.node)
                try:
                    worst = check(arguments.tessera, model, shapes, folder)
                    verdict = "agrees" if worst <= SHARE_OF_RANGE else "FAILED"
                except one_node.Problem as problem:
                    worst, verdict = float("nan"), f"FAILED {problem}"
                if needs_microsoft(net, label) and not any(node.domain == "com.microsoft" for node in model.graph.node):
                    verdict = "FAILED none of the operators that this test is about"
                failures += verdict != "agrees"
                print(
                    f"{net:10} {label:30} {verdict} {worst:8.1e}  "
                    f"{', '.join(f'{count} {op}' for op, count in ops.items())}",
                    flush=True)
    print(
        f"{sum(len(labels) for *_, labels in NETS.values())} quantised nets compared with onnxruntime: {failures} "
        f"differ"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
