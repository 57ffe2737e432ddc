#!/usr/bin/env python3
"""Times Tessera and ONNX Runtime on the same models in turn and prints the ratio of their medians.

    .venv/bin/python bench/compare_onnxruntime.py build/release/apps/tessera/tessera MODEL.onnx [MODEL.onnx …] [--dim NAME=N …]

Ratio = Tessera's median time / ONNX Runtime's; below 1 Tessera is faster. Both sides run in fresh processes, in turn, with the
same inputs, threads and number of runs; the median of the rounds' ratios counts, so a drift of the machine's speed does not.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

WORKER = """
import json, sys, time
import numpy, onnxruntime
model, inputs, threads, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
options.log_severity_level = 3
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
feeds = dict(numpy.load(inputs))
for _ in range(3):
    session.run(None, feeds)
times = []
for _ in range(runs):
    start = time.perf_counter()
    session.run(None, feeds)
    times.append((time.perf_counter() - start) * 1000)
print(json.dumps(sorted(times)[len(times) // 2]))
"""

NUMPY_TYPES = {
    "tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16", "tensor(int64)": "int64",
    "tensor(int32)": "int32", "tensor(uint8)": "uint8", "tensor(int8)": "int8", "tensor(bool)": "bool",
}


def make_inputs(model, dims, shapes, path):
    import numpy
    import onnxruntime
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    random = numpy.random.default_rng(1)
    feeds = {}
    for value in session.get_inputs():
        shape = shapes.get(value.name) or [d if isinstance(d, int) else dims.get(d, 1) for d in value.shape]
        dtype = NUMPY_TYPES[value.type]
        if dtype.startswith("float"):
            feeds[value.name] = random.random(shape).astype(dtype)
        elif value.name == "sr":
            feeds[value.name] = numpy.full(shape, 16000, dtype)
        else:
            feeds[value.name] = random.integers(0, 2, shape).astype(dtype)
    numpy.savez(path, **feeds)


def tessera_median(tessera, model, inputs, threads, runs):
    command = [tessera, "bench", model, "--inputs", inputs, "--threads", str(threads), "--runs", str(runs), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["median_ms"]


def onnxruntime_median(model, inputs, threads, runs):
    command = [sys.executable, "-c", WORKER, model, inputs, str(threads), str(runs)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--dim", action="append", default=[], help="NAME=N for symbolic dimensions of any of the models (default 1)")
    parser.add_argument("--shape", action="append", default=[], help="INPUT=1x3x48x320: the whole shape of an input")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    dims = {name: int(number) for name, number in (entry.split("=") for entry in arguments.dim)}
    shapes = {name: [int(size) for size in text.split("x")] for name, text in (entry.split("=") for entry in arguments.shape)}
    worst = 0.0
    print(f"{'model':<32} {'tessera ms':>11} {'onnxruntime ms':>15} {'ratio':>7}   ({arguments.threads} threads, {arguments.rounds} rounds)")
    for model in arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            inputs = os.path.join(folder, "inputs.npz")
            make_inputs(model, dims, shapes, inputs)
            ours, theirs = [], []
            for _ in range(arguments.rounds):
                ours.append(tessera_median(arguments.tessera, model, inputs, arguments.threads, arguments.runs))
                theirs.append(onnxruntime_median(model, inputs, arguments.threads, arguments.runs))
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        worst = max(worst, ratio)
        print(f"{pathlib.Path(model).name:<32} {statistics.median(ours):>11.3f} {statistics.median(theirs):>15.3f} {ratio:>7.2f}", flush=True)
    print(f"worst ratio {worst:.2f}")


if __name__ == "__main__":
    main()
