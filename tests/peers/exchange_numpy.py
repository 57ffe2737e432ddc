#!/usr/bin/env python3
"""Passes arrays of every type and order that NumPy writes through `tessera run` of an identity model, and back into
NumPy.

Types of ml_dtypes stand as raw bytes in files; what comes out is fed in again and viewed as its type. An array of
float32 for such an input is refused with how to save it.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

TYPES = {
    "bool": TensorProto.BOOL,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "complex64": TensorProto.COMPLEX64,
    "complex128": TensorProto.COMPLEX128,
    "str": TensorProto.STRING,
}

RAW_TYPES = {
    "bfloat16": TensorProto.BFLOAT16, "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ, "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ, "float8_e8m0fnu": TensorProto.FLOAT8E8M0,
    "float4_e2m1fn": TensorProto.FLOAT4E2M1, "int4": TensorProto.INT4, "uint4": TensorProto.UINT4,
    "int2": TensorProto.INT2, "uint2": TensorProto.UINT2,
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
    inputs = [
        helper.make_tensor_value_info(name, types[name], [f"{name}_{i}" for i in range(array.ndim)])
        for name, array in arrays.items()
    ]
    outputs = [helper.make_tensor_value_info(f"{name}_out", types[name], None) for name in arrays]
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in arrays]
    graph = helper.make_graph(nodes, "identity", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def run_model(tessera, *arguments):
    return subprocess.run([tessera, "run", *arguments], text=True, capture_output=True)


def exchange_raw(tessera, folder):
    """How many arrays of ml_dtypes' types are not what they were after two runs, or are refused wrongly."""
    generator = np.random.default_rng(4)
    arrays, types = {}, {}
    for kind, element_type in RAW_TYPES.items():
        values = generator.integers(0, 2, (3, 7)) if "int2" in kind else generator.integers(0, 8, (3, 7))
        signs = generator.choice([-1, 1], values.shape) if not kind.startswith("u") and "e8m0" not in kind else 1
        values = np.minimum(values * signs, 1 if kind == "int2" else 7)
        array = (values if kind != "float8_e8m0fnu" else 2.0**values).astype(getattr(ml_dtypes, kind))
        for label, variant in (("c", array), ("fortran", np.asfortranarray(array)), ("empty", array[:0])):
            arrays[f"{kind}_{label}"], types[f"{kind}_{label}"] = variant, element_type
    model, given, made, again, single = (folder / name
                                         for name in ("raw.onnx", "in.npz", "out.npz", "again.npz", "x.npy"))
    onnx.save(identity_model(arrays, types), model)
    np.savez(given, **arrays)
    wrong = 0
    for source, target in ((given, made), (made, again)):
        if source == made:
            with np.load(made) as result:
                np.savez(given, **{name: result[f"{name}_out"] for name in arrays})
        done = run_model(tessera, model, "--inputs", given, "--outputs", target)
        if done.returncode != 0:
            print(done.stderr)
            return wrong + 1
        with np.load(target) as result:
            for name, array in arrays.items():
                if not np.array_equal(result[f"{name}_out"].view(array.dtype).view(f"V{array.itemsize}"),
                                      np.ascontiguousarray(array).view(f"V{array.itemsize}")):
                    print(f"{name} differs")
                    wrong += 1
    model_of_one = folder / "one.onnx"
    onnx.save(identity_model({"x": arrays["bfloat16_c"]}, {"x": TensorProto.BFLOAT16}), model_of_one)
    np.save(single, arrays["bfloat16_c"])
    np.savez(given, x=arrays["bfloat16_c"].astype(np.float32))
    taken = run_model(tessera, model_of_one, "--input", f"x={single}")
    refused = run_model(tessera, model_of_one, "--inputs", given)
    if taken.returncode != 0 or refused.returncode == 0 or "x.astype(ml_dtypes.bfloat16)" not in refused.stderr:
        print(taken.stderr, refused.stderr)
        wrong += 1
    print(f"{len(arrays)} arrays of ml_dtypes {ml_dtypes.__version__} exchanged twice: {wrong} differ")
    return wrong


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
            subprocess.run([arguments.tessera, "run", model, "--inputs", given, "--outputs", made], check=True,
                           stdout=subprocess.DEVNULL)
            with np.load(made) as result:
                for name, array in arrays.items():
                    if not np.array_equal(result[f"{name}_out"],
                                          array) or result[f"{name}_out"].dtype.kind != array.dtype.kind:
                        print(f"{name} differs ({save.__name__})")
                        wrong += 1
        print(f"{len(arrays)} arrays exchanged with NumPy {np.__version__}, stored and compressed: {wrong} differ")
        wrong += exchange_raw(arguments.tessera, pathlib.Path(folder))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
