#!/usr/bin/env python3
"""Whether `tessera diff` finds the layers of a net that onnxruntime.quantization has quantised, and how much each
loses, against numpy."""

import argparse
import json
import logging
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime import quantization

LAYERS = 4


def make_net():
    generator = np.random.default_rng(0)
    nodes, weights, value, channels = [], [], "input", 3
    for i in range(LAYERS):
        weight = generator.standard_normal((16, channels, 3, 3)) / np.sqrt(channels * 9)
        weights += [
            numpy_helper.from_array(weight.astype(np.float32), f"w{i}"),
            numpy_helper.from_array(generator.standard_normal(16).astype(np.float32) / 10, f"b{i}")
        ]
        nodes.append(
            helper.make_node("Conv", [value, f"w{i}", f"b{i}"], [f"conv{i}_out"], name=f"conv{i}", pads=[1, 1, 1, 1],
                             kernel_shape=[3, 3]))
        nodes.append(helper.make_node("Relu", [f"conv{i}_out"], [f"relu{i}_out"], name=f"relu{i}"))
        value, channels = f"relu{i}_out", 16
    nodes += [
        helper.make_node("GlobalAveragePool", [value], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Gemm", ["flat", "fc"], ["output"])
    ]
    weights.append(numpy_helper.from_array(generator.standard_normal((16, 10)).astype(np.float32), "fc"))
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("input", 1, [1, 3, 32, 32])],
                              [helper.make_tensor_value_info("output", 1, [1, 10])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Samples(quantization.CalibrationDataReader):
    def __init__(self):
        generator = np.random.default_rng(1)
        self.samples = iter([{"input": generator.random((1, 3, 32, 32), dtype=np.float32)} for _ in range(4)])

    def get_next(self):
        return next(self.samples, None)


def values_of(path, names, inputs):
    """What onnxruntime computes for these names, with as little fused as it can be told to."""
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)


def check(tessera, folder, name, inputs, **options):
    plain, quantised = folder / "float.onnx", folder / f"{name}.onnx"
    quantization.quantize_static(str(plain), str(quantised), Samples(), weight_type=quantization.QuantType.QInt8,
                                 **options)
    done = subprocess.run([tessera, "diff", plain, quantised, "--inputs", folder / "in.npz", "--json"],
                          capture_output=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr.decode()
    report = json.loads(done.stdout)
    assert report["quantised"]
    values = {each["name"]: each for each in report["values"]}
    layers = [f"relu{i}_out" for i in range(LAYERS)] + ["pool", "flat"]
    assert set(layers) <= set(values), (name, sorted(values))
    for layer in layers:
        assert not values[layer]["mismatch"] and values[layer]["snr_db"] > 25, (name, values[layer])
    if name == "integers":
        return
    # Where both programs compute the same values, the figures are those of numpy.
    theirs = [values[layer]["name_b"] for layer in layers]
    for layer, signal, other in zip(layers, values_of(plain, layers, inputs), values_of(quantised, theirs, inputs)):
        a, b = signal.astype(np.float64).ravel(), other.astype(np.float64).ravel()
        snr, cosine = 10 * np.log10(np.sum(a * a) / np.sum((a - b) ** 2)), a @ b / np.sqrt((a @ a) * (b @ b))
        assert abs(values[layer]["snr_db"] - snr) < 0.5 and abs(values[layer]["cosine"] - cosine) < 1e-4, (
            name, values[layer], snr, cosine)
    worst = subprocess.run([tessera, "diff", plain, quantised, "--inputs", folder / "in.npz", "--all"],
                           capture_output=True, text=True, timeout=300, check=False).stdout
    listed = [
        line for line in worst.split("values between differ:")[1].splitlines()
        if "'" in line and " dB" not in line and "in B" not in line and "made by" not in line
    ]
    ratios = [float(line.split()[0]) for line in listed]
    assert ratios == sorted(ratios), worst
    assert max(len(line) for line in worst.splitlines()) <= 120, worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True)
    tessera = parser.parse_args().tessera
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as holder:
        folder = pathlib.Path(holder)
        onnx.save(make_net(), folder / "float.onnx")
        inputs = {"input": np.random.default_rng(2).random((1, 3, 32, 32), dtype=np.float32)}
        np.savez(folder / "in.npz", **inputs)
        unsigned, signed = quantization.QuantType.QUInt8, quantization.QuantType.QInt8
        check(tessera, folder, "pairs", inputs, quant_format=quantization.QuantFormat.QDQ, activation_type=unsigned)
        check(tessera, folder, "signed", inputs, quant_format=quantization.QuantFormat.QDQ, activation_type=signed)
        check(tessera, folder, "channels", inputs, quant_format=quantization.QuantFormat.QDQ, activation_type=unsigned,
              per_channel=True)
        check(tessera, folder, "integers", inputs, quant_format=quantization.QuantFormat.QOperator,
              activation_type=unsigned)
    print("the layers of quantised nets are found, and what they lose is what numpy says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
