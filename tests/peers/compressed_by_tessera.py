#!/usr/bin/env python3
"""What `tessera quantize` and `tessera prune` write loads in onnxruntime and gives there what it gives here.

compressed_by_tessera.py --tessera PROGRAM. Integer products are exact in both; a value between two integers may
round to either, which is one step of a scale, so results are compared by their signal-to-noise ratio.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

import saturation

QUANTISED = [  # model, dimensions, options, least dB
    ("cnn_digits", "size=8", ["--full"], 30),
    ("mlp", "features=64", ["--full"], 30),
    ("mlp", "features=64", ["--full", "--adaptive-rounding", "--rounding-steps", "20"], 30),
    ("mlp", "features=64", ["--weights", "int8"], 60),
    ("mlp", "features=64", ["--weights", "int4", "--group", "32"], 60),
]
PRUNED = [
    ("cnn_digits", "size=8", ["--sparsity", "0.8"], 100),
    ("resnet8", "width=16", ["--structure", "channels", "--sparsity", "0.5"], 90),
    ("mlp", "features=64", ["--structure", "2:4"], 100),
    ("transformer_small", "batch=16", ["--structure", "2:4"], 90),
]


def compare(tessera, folder, verb, model, dims, options, least_db):
    file, small, data, out = (folder / name for name in ("float.onnx", "small.onnx", "data.npz", "out.npz"))
    subprocess.run([tessera, "new", model, "-o", file, "--dim", dims], check=True, stdout=subprocess.DEVNULL)
    declared = onnx.load(file).graph.input[0]
    shape = [size.dim_value or 16 for size in declared.type.tensor_type.shape.dim]
    x = np.random.default_rng(3).random((16, *shape[1:]), np.float32)
    if declared.type.tensor_type.elem_type == onnx.TensorProto.INT64:
        x = (x * 100).astype(np.int64)
    np.savez(data, **{declared.name: x})
    given = ["--data", data, "--fast"] if verb == "quantize" else []
    subprocess.run([tessera, verb, file, "-o", small, *given, *options], check=True, stdout=subprocess.DEVNULL)
    onnx.checker.check_model(onnx.load(small))
    subprocess.run([tessera, "run", small, "--inputs", data, "--outputs", out], check=True, stdout=subprocess.DEVNULL)
    ours = next(iter(np.load(out).values()))
    session = onnxruntime.InferenceSession(str(small), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {declared.name: x})[0]
    noise = float(((ours - theirs) ** 2).sum())
    db = np.inf if noise == 0 else 10 * np.log10(float((theirs ** 2).sum()) / noise)
    ratio = file.stat().st_size / small.stat().st_size
    print(f"{verb} {model} {' '.join(options)}: {db:.1f} dB between both programs, {ratio:.2f} times smaller")
    return db >= least_db


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True, type=pathlib.Path)
    options = parser.parse_args()
    cases = [("prune", *case) for case in PRUNED]
    if saturation.peers_saturate():
        print("quantised models are left out: onnxruntime's products of bytes saturate on this machine")
    else:
        cases += [("quantize", *case) for case in QUANTISED]
    with tempfile.TemporaryDirectory() as folder:
        good = [compare(options.tessera, pathlib.Path(folder), *case) for case in cases]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
