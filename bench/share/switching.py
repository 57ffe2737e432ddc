#!/usr/bin/env python3
"""Measures the time to the first answer of models that were not in memory, beside its bounds and onnxruntime.

    bench/share/switching.py --json                        # resnet50, bert_base and PP-OCR; all rates
    bench/share/switching.py --models resnet50 --rates 0   # one of them, at the disk's own speed
    bench/share/switching.py --no-peer                     # without onnxruntime

Every measurement is a fresh process, before which the pages of the file are dropped from the page cache
(posix_fadvise). In turn, for each round: reading the same bytes by pread, a cold start of the package, and
onnxruntime's load and first run of the .onnx. Medians count:

    first      from the begin of Model::load to the first answer
    process    the same from the start of the process
    read       the bytes that the first run needs, by pread; with --rates throttled as the package's reader is
    compute    a steady run in the same process
    ratio      first / max(read, compute): 1 is the bound, the sum of both the slowest
    more_cpu   processor time of the whole process until the first answer, beyond that of a steady run
    peer       onnxruntime: creation of the session and first run; from the start of its Python process with `process`

What is missing in build/release is built. Needs scripts/fetch_models.py for PP-OCR; onnxruntime in .venv or the running
Python. Wants a quiet machine: the load average at the begin and the end is part of the figures.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from built import ensure_built  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build/release"
MODELS = {  # name -> (net of `tessera new` or file, dimensions)
    "resnet50": ("resnet50", "batch=1"),
    "bert_base": ("bert_base", "batch=1,seq=128"),
    "ocr_det": (".models/rapidocr/PP-OCRv6_det_small.onnx",
                "DynamicDimension.0=1,DynamicDimension.1=640,DynamicDimension.2=640"),
    "ocr_rec": (".models/rapidocr/PP-OCRv6_rec_small.onnx", "DynamicDimension.0=1,DynamicDimension.1=320"),
}
PEER = """
import sys, time
begin = time.monotonic()
import numpy, onnxruntime
imported = time.monotonic()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[2])
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
sizes = [int(word.split("=")[1]) for word in sys.argv[3].split(",")]
symbols = {}
for word in sys.argv[3].split(","):
    symbols[word.split("=")[0]] = int(word.split("=")[1])
feeds = {}
for each in session.get_inputs():
    shape = [size if isinstance(size, int) else symbols[size] for size in each.shape]
    feeds[each.name] = (numpy.zeros(shape, numpy.int64) if "int64" in each.type
                        else numpy.random.default_rng(1).random(shape, numpy.float32))
session.run(None, feeds)
end = time.monotonic()
print((end - imported) * 1e3, (end - float(sys.argv[4])) * 1e3)
"""


def drop(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def start(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"switching.py: {' '.join(map(str, command[:3]))} failed: {done.stderr.strip()}")
    return done.stdout


def prepare(name, folder, tessera):
    source, dims = MODELS[name]
    onnx = ROOT / source
    if not source.endswith(".onnx"):
        onnx = folder / f"{name}.onnx"
        start([tessera, "new", source, "-o", onnx])
    package = folder / f"{name}.tsr"
    start([tessera, "optimize", onnx, "-o", package, "--dim", dims])
    return onnx, package, dims


def bench(arguments, package, *words):
    drop(package)
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return json.loads(start([BUILD / "bench/bench_switching", package, "--threads", arguments.threads, "--since", now,
                             *words]))


def peer(arguments, python, onnx, dims):
    drop(onnx)
    words = start([python, "-c", PEER, onnx, arguments.threads, dims, time.monotonic()]).split()
    return float(words[0]), float(words[1])


def measure(arguments, name, folder, python):
    onnx, package, dims = prepare(name, folder, arguments.tessera)
    rows = {rate: {"first": [], "process": [], "read": [], "compute": [], "more_cpu": []} for rate in arguments.rates}
    peers = []
    for _ in range(arguments.rounds):
        for rate in arguments.rates:
            throttle = ["--rate", rate * 1e9] if rate > 0 else []
            rows[rate]["read"].append(bench(arguments, package, "--read", *throttle)["read_ms"])
            cold = bench(arguments, package, *throttle)
            rows[rate]["first"].append(cold["first_ms"])
            rows[rate]["process"].append(cold["first_ms"] + cold["process_ms"])
            rows[rate]["compute"].append(cold["compute_ms"])
            rows[rate]["more_cpu"].append(cold["first_cpu_ms"] - cold["compute_cpu_ms"])
        if python is not None:
            peers.append(peer(arguments, python, onnx, dims))
    figures = []
    for rate, row in rows.items():
        figure = {key + "_ms": round(statistics.median(values), 2) for key, values in row.items()}
        figure["ratio"] = round(statistics.median(
            first / max(read, compute)
            for first, read, compute in zip(row["first"], row["read"], row["compute"])), 3)
        figure.update(model=name, gigabytes_per_second=rate)
        if peers and rate == 0:
            figure["peer_ms"] = round(statistics.median(each[0] for each in peers), 2)
            figure["peer_process_ms"] = round(statistics.median(each[1] for each in peers), 2)
            figure["times_faster"] = round(figure["peer_ms"] / figure["first_ms"], 2)
            figure["times_faster_with_process"] = round(figure["peer_process_ms"] / figure["process_ms"], 2)
        figures.append(figure)
        print(f"{name:10} {rate or 'disk':>5} first {figure['first_ms']:8.1f} ms  read {figure['read_ms']:8.1f}  "
              f"compute {figure['compute_ms']:7.1f}  ratio {figure['ratio']:.2f}"
              + (f"  onnxruntime {figure['peer_ms']:.0f}" if "peer_ms" in figure else ""), file=sys.stderr, flush=True)
    return figures


def python_with_peer():
    for candidate in [ROOT / ".venv/bin/python", ROOT / ".venv-peers/bin/python", pathlib.Path(sys.executable)]:
        found = candidate.exists() and subprocess.run([candidate, "-c", "import onnxruntime"], capture_output=True,
                                                      check=False).returncode == 0
        if found:
            return candidate
    sys.exit("switching.py: no Python with onnxruntime: run scripts/setup.sh --tests, or give --no-peer")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--rates", type=lambda text: [float(word) for word in text.split(",")], default=[0, 0.5, 2],
                        metavar="GB/S,…", help="limits on reading; 0: none (default: 0,0.5,2)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--tessera", type=pathlib.Path, default=BUILD / "apps/tessera/tessera")
    parser.add_argument("--folder", type=pathlib.Path, help="where the models are written (default: a temporary one)")
    arguments = parser.parse_args()
    ensure_built(arguments.tessera, BUILD / "bench/bench_switching")
    python = None if arguments.no_peer else python_with_peer()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        figures = [row for name in arguments.models
                   for row in measure(arguments, name, pathlib.Path(folder), python)]
    if arguments.json:
        print(json.dumps({"threads": arguments.threads, "rounds": arguments.rounds,
                          "load_average": [load, os.getloadavg()[0]], "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
