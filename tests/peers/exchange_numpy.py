#!/usr/bin/env python3
"""Passes arrays of every type and order that NumPy writes through `tessera run` of an identity model, and back into NumPy."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

TYPES = {
    "bool": TensorProto.BOOL, "int8": TensorProto.INT8, "int16": TensorProto.INT16, "int32": TensorProto.INT32,
    "int64": TensorProto.INT64, "uint8": TensorProto.UINT8, "uint16": TensorProto.UINT16, "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64, "float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE,
    "complex64": TensorProto.COMPLEX64, "complex128": TensorProto.COMPLEX128, "str": TensorProto.STRING,
}


def array_of(generator, kind):
    if kind == "str":
        return np.array([["", "a", "größer"], ["字", "😀 x", "end"]])
    values = generator.normal(0, 50, (3, 4, 5))
    if kind.startswith("complex"):
        values = values + 1j * generator.normal(0, 50, values.shape)
    if kind.startswith("u"):
        values = np.abs(values)
    return values.astype(kind)


def variants(array):
    """The array as it may stand in a file: C and Fortran order, either byte order, and without elements."""
    yield "c", array
    yield "fortran", np.asfortranarray(array)
    yield "big_endian", array.astype(array.dtype.newbyteorder(">"))
    yield "empty", array[:0]


def identity_model(arrays, types):
    inputs = [helper.make_tensor_value_info(name, types[name], [f"{name}_{i}" for i in range(array.ndim)]) for name, array in arrays.items()]
    outputs = [helper.make_tensor_value_info(f"{name}_out", types[name], None) for name in arrays]
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in arrays]
    graph = helper.make_graph(nodes, "identity", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True)
    arguments = parser.parse_args()
    generator = np.random.default_rng(3)
    arrays, types = {}, {}
    for kind, element_type in TYPES.items():
        for label, array in variants(array_of(generator, kind)):
            arrays[f"{kind}_{label}"], types[f"{kind}_{label}"] = array, element_type
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="tessera-numpy-") as folder:
        model, given, made = (pathlib.Path(folder) / name for name in ("identity.onnx", "in.npz", "out.npz"))
        onnx.save(identity_model(arrays, types), model)
        for save in (np.savez, np.savez_compressed):
            save(given, **arrays)
            subprocess.run([arguments.tessera, "run", model, "--inputs", given, "--outputs", made], check=True, stdout=subprocess.DEVNULL)
            with np.load(made) as result:
                for name, array in arrays.items():
                    if not np.array_equal(result[f"{name}_out"], array) or result[f"{name}_out"].dtype.kind != array.dtype.kind:
                        print(f"{name} differs ({save.__name__})")
                        wrong += 1
    print(f"{len(arrays)} arrays exchanged with NumPy {np.__version__}, stored and compressed: {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
