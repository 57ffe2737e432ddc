#!/usr/bin/env python3
"""Gives the command line bad files, arguments and arrays: each must end with the exit code of its kind and one clear
line that begins "tessera:", within 20 seconds and 1 GiB, and never by a signal.

    bad_input.py TESSERA
"""

import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

from common import Failure, Tries

SECONDS, MEBIBYTES, ADDRESS_SPACE = 20, 1024, 8 << 30
CALL, INVALID, UNSUPPORTED, NOT_FOUND, IO, OVER_BUDGET, FAILED = 2, 3, 4, 5, 6, 7, 9


def run(program, arguments):
    """Exit code, standard error, seconds and peak MiB."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            [program, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            preexec_fn=lambda: (
                resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE)),
                resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS)),
            ),
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return (
            child.returncode,
            errors.read().decode(errors="replace"),
            time.monotonic() - start,
            usage.ru_maxrss / 1024,
        )


def check(program, codes, words, arguments):
    code, errors, seconds, mebibytes = run(program, arguments)
    codes = codes if isinstance(codes, tuple) else (codes,)
    if code not in codes:
        raise Failure(f"exit code {code}, expected {codes}: {errors.strip()[:300]}")
    lines = errors.strip().splitlines()
    if len(lines) != 1 or not lines[0].startswith("tessera:") or len(lines[0]) > 700:
        raise Failure(f"standard error is not one clear line that begins 'tessera:': {errors[:300]!r}")
    if words not in errors:
        raise Failure(f"the message does not say '{words}': {errors.strip()[:300]}")
    if seconds > SECONDS or mebibytes > MEBIBYTES:
        raise Failure(f"takes {seconds:.1f} s and {mebibytes:.0f} MiB")


def model_of(nodes, inputs=None, outputs=None, initializers=(), opset=18, ir_version=10, value_info=()):
    inputs = inputs or [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])]
    outputs = outputs or [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=list(initializers), value_info=list(value_info))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


def broken_models():
    """name -> (model, exit codes, words of the message)."""
    huge = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**40, 2**40])
    large = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**33])
    short = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], raw_data=b"1234")
    negative = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[-4])
    strange = TensorProto(name="w", data_type=99, dims=[1], raw_data=b"1234")
    relu = node("Relu", ["x"], ["y"])

    def external(location):
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=location)
        return model_of([node("Add", ["x", "w"], ["y"])], initializers=[tensor])

    def with_weight(tensor):
        return model_of([node("Add", ["x", "w"], ["y"])], initializers=[tensor])

    text = helper.make_tensor_value_info("y", TensorProto.STRING, None)
    sequence = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    shape = helper.make_tensor("s", TensorProto.INT64, [2], [7, 5])
    size = helper.make_tensor("s", TensorProto.INT64, [2], [2**40, 2**20])
    return {
        "huge initializer": (with_weight(huge), (INVALID, OVER_BUDGET), ""),
        "large initializer without data": (with_weight(large), INVALID, ""),
        "initializer too short": (with_weight(short), INVALID, "'w'"),
        "negative dimension": (with_weight(negative), INVALID, "'w'"),
        "unknown element type": (with_weight(strange), (INVALID, UNSUPPORTED), ""),
        "external data missing": (external("nowhere.data"), NOT_FOUND, "nowhere.data"),
        "external data outside": (external("../../etc/passwd"), INVALID, ""),
        "external data absolute": (external("/etc/passwd"), INVALID, ""),
        "unknown operator": (model_of([node("Frobnicate", ["x"], ["y"])]), UNSUPPORTED, "Frobnicate"),
        "unknown domain": (model_of([node("Relu", ["x"], ["y"], domain="my.own")]), UNSUPPORTED, "my.own"),
        "opset 99": (model_of([relu], opset=99), UNSUPPORTED, "99"),
        "ir version 99": (model_of([relu], ir_version=99), UNSUPPORTED, "99"),
        "cycle": (
            model_of([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Neg", ["b"], ["y"])]),
            INVALID,
            "",
        ),
        "value defined twice": (model_of([relu, node("Neg", ["x"], ["y"])]), INVALID, "'y'"),
        "nothing makes the output": (model_of([node("Relu", ["x"], ["z"])]), INVALID, "'y'"),
        "nothing makes an input": (model_of([node("Add", ["x", "q"], ["y"])]), INVALID, "'q'"),
        "unknown attribute": (model_of([node("Relu", ["x"], ["y"], slope=1.0)]), INVALID, "slope"),
        "too many inputs": (model_of([node("Relu", ["x", "x"], ["y"])]), INVALID, "inputs"),
        "shapes do not fit": (
            model_of([node("MatMul", ["x", "x"], ["y"])], inputs=[helper.make_tensor_value_info("x", 1, [4, 3])]),
            INVALID,
            "MatMul",
        ),
        "reshape does not fit": (
            model_of(
                [node("Reshape", ["x", "s"], ["y"])],
                inputs=[helper.make_tensor_value_info("x", 1, [4, 3])],
                initializers=[shape],
            ),
            INVALID,
            "Reshape",
        ),
        "output of another type": (model_of([relu], outputs=[text]), INVALID, "declared as"),
        "output of another kind": (model_of([relu], outputs=[sequence]), INVALID, "declared as"),
        "expands to exabytes": (
            model_of([node("ConstantOfShape", ["s"], ["y"])], initializers=[size]),
            (OVER_BUDGET, INVALID),
            "",
        ),
        "no graph": (onnx.ModelProto(ir_version=10), INVALID, ""),
    }


def broken_files(folder, good):
    """Files that are no models: path -> (exit codes, words)."""
    files = {}

    def put(name, data, codes, words=""):
        path = folder / name
        path.write_bytes(data)
        files[path] = (codes, words)

    put("empty.onnx", b"", INVALID, "empty")
    put("text.onnx", b"this is a text, and no model at all\n" * 20, INVALID)
    put("zeros.onnx", bytes(5000), INVALID)
    put("random.onnx", np.random.default_rng(1).bytes(5000), INVALID)
    put("array.onnx", (lambda p: (np.save(p, np.zeros(3)), p.read_bytes())[1])(folder / "array.npy"), INVALID)
    put("picture.onnx", b"\x89PNG\r\n\x1a\n" + bytes(100), INVALID)
    for part in (0.02, 0.3, 0.7, 0.99):
        put(f"cut_{part}.onnx", good[: int(len(good) * part)], INVALID)
    put("package.tsr", b"TESSERA" + bytes(200), INVALID)
    files[folder] = (IO, "regular file")
    files[folder / "nowhere.onnx"] = (NOT_FOUND, "nowhere.onnx")
    return files


def bad_arguments(model, folder):
    """name -> (exit codes, words, arguments)."""
    return {
        "unknown verb": (CALL, "fly", ["fly"]),
        "unknown option": (CALL, "--wings", ["run", model, "--wings"]),
        "no model": (CALL, "MODEL", ["run"]),
        "unknown device": ((CALL, NOT_FOUND, UNSUPPORTED), "moon", ["run", model, "--device", "moon"]),
        "unknown precision": (CALL, "f3", ["run", model, "--precision", "f3"]),
        "dim without number": (CALL, "--dim", ["run", model, "--dim", "batch"]),
        "dim of text": (CALL, "--dim", ["run", model, "--dim", "batch=many"]),
        "negative dim": (CALL, "--dim", ["run", model, "--dim", "batch=-2"]),
        "unknown dim": (CALL, "depth", ["run", model, "--dim", "depth=2"]),
        "threads -1": (CALL, "--threads", ["run", model, "--threads", "-1"]),
        "threads of text": (CALL, "--threads", ["run", model, "--threads", "two"]),
        "seed -1": (CALL, "--seed", ["run", model, "--seed", "-1"]),
        "time limit of text": (CALL, "--time-limit", ["run", model, "--time-limit", "soon"]),
        "memory limit -1": (CALL, "--memory-limit", ["run", model, "--memory-limit", "-1"]),
        "memory limit 1": (OVER_BUDGET, "", ["run", model, "--memory-limit", "1", "--dim", "batch=4000"]),
        "batch of 2^50": ((OVER_BUDGET, INVALID), "", ["run", model, "--dim", f"batch={2**50}"]),
        "outputs in no folder": (
            (IO, NOT_FOUND),
            "nofolder",
            ["run", model, "--outputs", folder / "nofolder" / "o.npz"],
        ),
        "outputs is a folder": ((CALL, IO), "", ["run", model, "--outputs", folder]),
        "optimize into no folder": (
            (IO, NOT_FOUND),
            "nofolder",
            ["optimize", model, "-o", folder / "nofolder" / "o.onnx"],
        ),
        "unknown net": ((CALL, NOT_FOUND), "resnet9000", ["new", "resnet9000", "-o", folder / "o.onnx"]),
    }


def bad_arrays(folder):
    """name -> (exit codes, words, path of inputs for an input "x" of f32[n, 3])."""
    good = np.zeros((2, 3), np.float32)
    cases = {}

    def save(name, codes, words, **arrays):
        np.savez(folder / f"{name}.npz", **arrays)
        cases[name] = (codes, words, folder / f"{name}.npz")

    def put(name, codes, words, data, suffix=".npz"):
        (folder / (name + suffix)).write_bytes(data)
        cases[name] = (codes, words, folder / (name + suffix))

    save("missing input", CALL, "'x'", y=good)
    save("extra input", CALL, "'z'", x=good, z=good)
    save("wrong element type", CALL, "f32", x=good.astype(np.int64))
    save("wrong rank", CALL, "rank", x=good[0])
    save("wrong size", CALL, "dimension 1", x=np.zeros((2, 4), np.float32))
    save("python objects", (UNSUPPORTED, INVALID), "object", x=np.array([{}, []], dtype=object))
    whole = (folder / "extra input.npz").read_bytes()
    put("cut npz", CALL, "", whole[: len(whole) // 2])
    put("text as npz", CALL, "", b"no archive\n" * 9)
    put("empty npz", CALL, "", b"")
    put("text as json", CALL, "", b"{ no json", ".json")
    put("json of words", CALL, "", b'{"x": "words"}', ".json")
    put("ragged json", CALL, "", b'{"x": [[1, 2, 3], [4]]}', ".json")
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    (folder / "huge.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    (folder / "cut.npy").write_bytes(b"\x93NUMPY\x01\x00")
    (folder / "text.npy").write_bytes(b"no array")
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    program = parser.parse_args().tessera
    tries = Tries("bad input")
    folder = pathlib.Path(tries.folder.name)
    lenet = tries.path("lenet5.onnx")
    subprocess.run([program, "new", "lenet5", "-o", lenet], check=True, stdout=subprocess.DEVNULL)
    for name, (model, codes, words) in broken_models().items():
        tries.path("model.onnx").write_bytes(model.SerializeToString())
        for verb in ("run", "info") if codes in (INVALID, UNSUPPORTED) and "expand" not in name else ("run",):
            tries.attempt(f"{verb}: {name}", lambda: check(program, codes, words, [verb, tries.path("model.onnx")]))
    for path, (codes, words) in broken_files(folder, lenet.read_bytes()).items():
        for verb in ("run", "info", "optimize"):
            more = ["-o", folder / "o.onnx"] if verb == "optimize" else []
            tries.attempt(f"{verb}: {path.name}", lambda: check(program, codes, words, [verb, path, *more]))
    for name, (codes, words, arguments) in bad_arguments(lenet, folder).items():
        tries.attempt(name, lambda: check(program, codes, words, arguments))
    model = tries.path("relu.onnx")
    model.write_bytes(model_of([node("Relu", ["x"], ["y"])]).SerializeToString())
    for name, (codes, words, path) in bad_arrays(folder).items():
        tries.attempt(name, lambda: check(program, codes, words, ["run", model, "--inputs", path]))
    for name in ("huge", "cut", "text", "nowhere"):
        codes = NOT_FOUND if name == "nowhere" else (CALL, OVER_BUDGET)
        tries.attempt(
            f"{name}.npy", lambda: check(program, codes, name, ["run", model, "--input", f"x={folder / name}.npy"])
        )
    return tries.finish()


if __name__ == "__main__":
    sys.exit(main())
