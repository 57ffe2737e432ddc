#!/usr/bin/env python3
"""Writes seeds/secret_shared, for the target of that name: make_shared_seeds.py TESSERA

Needs the Python package onnx. Each file begins with the byte that tests/fuzz/secret_shared.cpp reads.
"""
import pathlib
import subprocess
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

SEEDS = pathlib.Path(__file__).resolve().parent / "seeds" / "secret_shared"


def small_net():
    """One of each step."""
    def weights(name, *shape):
        count = 1
        for size in shape:
            count *= size
        return helper.make_tensor(name, TensorProto.FLOAT, shape, [0.25 * (i % 7) - 0.5 for i in range(count)])

    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("Add", ["r", "c"], ["s"]),
             helper.make_node("MaxPool", ["s"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("GlobalAveragePool", ["m"], ["g"]),
             helper.make_node("Flatten", ["g"], ["f"]),
             helper.make_node("Gemm", ["f", "v"], ["y"])]
    graph = helper.make_graph(nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
                              [weights("w", 2, 1, 3, 3), weights("b", 2), weights("v", 2, 2)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    SEEDS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as holder:
        folder = pathlib.Path(holder)
        onnx.save(small_net(), folder / "m.onnx")
        subprocess.run([sys.argv[1], "protect", folder / "m.onnx", "--secret-shares", folder / "first",
                        folder / "second", "--runs", "1"], check=True)
        for name in ("first", "second"):
            (SEEDS / name).write_bytes(b"\0" + (folder / name).read_bytes())
    (SEEDS / "greeting").write_bytes(b"\2TSRPEER1" + b"\1" + bytes(111) + bytes(80))


if __name__ == "__main__":
    main()
