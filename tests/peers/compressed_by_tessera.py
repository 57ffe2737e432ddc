#!/usr/bin/env python3
"""What `tessera quantize` writes loads in onnxruntime and gives there what it gives here.

quantised_by_tessera.py --tessera PROGRAM. Integer products are exact in both; a value between two integers may
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

CASES = [  # model, dimensions, options, least dB
    ("cnn_digits", "size=8", ["--full"], 30),
    ("mlp", "features=64", ["--full"], 30),
    ("mlp", "features=64", ["--weights", "int8"], 60),
    ("mlp", "features=64", ["--weights", "int4", "--group", "32"], 60),
]


def compare(tessera, folder, model, dims, options, least_db):
    file, small, data, out = (folder / name for name in ("float.onnx", "small.onnx", "data.npz", "out.npz"))
    subprocess.run([tessera, "new", model, "-o", file, "--dim", dims], check=True, stdout=subprocess.DEVNULL)
    declared = onnx.load(file).graph.input[0]
    shape = [size.dim_value or 16 for size in declared.type.tensor_type.shape.dim]
    x = np.random.default_rng(3).random((16, *shape[1:]), np.float32)
    np.savez(data, **{declared.name: x})
    subprocess.run([tessera, "quantize", file, "-o", small, "--data", data, "--fast", *options], check=True,
                   stdout=subprocess.DEVNULL)
    onnx.checker.check_model(onnx.load(small))
    subprocess.run([tessera, "run", small, "--inputs", data, "--outputs", out], check=True, stdout=subprocess.DEVNULL)
    ours = next(iter(np.load(out).values()))
    session = onnxruntime.InferenceSession(str(small), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {declared.name: x})[0]
    noise = float(((ours - theirs) ** 2).sum())
    db = np.inf if noise == 0 else 10 * np.log10(float((theirs ** 2).sum()) / noise)
    ratio = file.stat().st_size / small.stat().st_size
    print(f"{model} {' '.join(options)}: {db:.1f} dB between both programs, {ratio:.2f} times smaller")
    return db >= least_db


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True, type=pathlib.Path)
    options = parser.parse_args()
    if saturation.peers_saturate():
        print("skipped: onnxruntime's products of bytes saturate on this machine")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        good = [compare(options.tessera, pathlib.Path(folder), *case) for case in CASES]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
