#!/usr/bin/env python3
"""Full int8 by `tessera quantize` beside onnxruntime.quantization (static, best of its settings), NNCF and OpenVINO.

compress_peers.py --setup        # once: .venv-compress-peers with the pinned NNCF and OpenVINO
compress_peers.py [--tessera PROGRAM] [--work FOLDER] [--nncf PYTHON] [--tasks NAME,…] [--json FILE]

Each quantises the same model with the same calibration data and its default settings, onnxruntime with all of
SETTINGS, of which the best on held-out data counts. Metrics are computed by onnxruntime from each file, times by both
programs from Tessera's file, in interleaved runs with two threads. Nets are trained in the work folder when they are
not there.

--nncf names a Python with nncf, openvino and onnx; without it that of .venv-compress-peers is taken, and where there is
none these columns are left out. The column nncf is the ONNX file that NNCF writes, in onnxruntime; openvino is the
model that NNCF makes for OpenVINO, run there; ours/ov is Tessera's file, run in OpenVINO. What is not in integers
OpenVINO computes in float32, as the others do: its default on processors with bfloat16 is that, in which magika as it
is names another type for 11% of the files. Needs numpy, onnx and onnxruntime.
"""

import argparse
import contextlib
import io
import json
import logging
import pathlib
import pickle
import subprocess
import sys
import time
import venv

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization import shape_inference

import compress_tasks

VENV = compress_tasks.ROOT / ".venv-compress-peers"

SETTINGS = [{"calibrate_method": method, "per_channel": per_channel}
            for method in (quantization.CalibrationMethod.MinMax, quantization.CalibrationMethod.Percentile,
                           quantization.CalibrationMethod.Entropy) for per_channel in (False, True)]

NNCF = """
import pickle, sys, onnx, nncf
model, data, out = sys.argv[1:]
batches = pickle.load(open(data, "rb"))
onnx.save(nncf.quantize(onnx.load(model), nncf.Dataset(batches), subset_size=len(batches)), out)
"""

OPENVINO = """
import pickle, sys, nncf, openvino
model, own, data, out = sys.argv[1:]
calibration, held_out = pickle.load(open(data, "rb"))
core = openvino.Core()
def run(model):
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return [compiled(batch)[0] for batch in held_out]
quantised = nncf.quantize(core.read_model(model), nncf.Dataset(calibration), subset_size=len(calibration))
pickle.dump((run(quantised), run(core.read_model(own))), open(out, "wb"))
"""


class Reader(quantization.CalibrationDataReader):
    def __init__(self, batches):
        self._batches = iter(batches)

    def get_next(self):
        return next(self._batches, None)


def session(path, threads=2):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def score(task, path):
    run = session(path)
    return task.score([run.run(None, batch)[0] for batch in task.held_out])


def by_tessera(tessera, task, work):
    data = work / "calibration"
    data.mkdir(exist_ok=True)
    for old in data.glob("*.npz"):
        old.unlink()
    for i, batch in enumerate(task.calibration):
        np.savez(data / f"{i:04}.npz", **batch)
    out = work / "tessera.onnx"
    text = subprocess.run([tessera, "quantize", task.model, "-o", out, "--full", "--data", data, "--json"], check=True,
                          capture_output=True, text=True).stdout
    report = json.loads(text)
    return out, {"estimator": report["estimator"], "layers": len(report["layers"]),
                 "float_layers": [layer["name"] for layer in report["layers"] if not layer["quantised"]]}


def by_onnxruntime(task, work):
    """(score, file, settings) of the best, or None where nothing can be written."""
    prepared, best = work / "prepared.onnx", None
    try:
        shape_inference.quant_pre_process(str(task.model), str(prepared))
    except Exception:  # its symbolic inference does not take every model
        onnx.save(onnx.load(task.model), prepared)
    for i, settings in enumerate(SETTINGS):
        out = work / f"onnxruntime{i}.onnx"
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                quantization.quantize_static(str(prepared), str(out), Reader(task.calibration), **settings)
            found = score(task, out)
        except Exception as error:
            print(f"  onnxruntime {settings}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
            continue
        if best is None or found > best[0]:
            best = (found, out, {key: getattr(value, "name", value) for key, value in settings.items()})
    return best


def by_script(name, python, script, arguments, out):
    """The path `out`, which the script writes, or None where it fails."""
    done = subprocess.run([python, "-c", script, *arguments, out], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"  {name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return out


def by_nncf(python, task, work):
    (work / "calibration.pickle").write_bytes(pickle.dumps(task.calibration))
    return by_script("nncf", python, NNCF, [task.model, work / "calibration.pickle"], work / "nncf.onnx")


def by_openvino(python, task, own, work):
    """The scores of OpenVINO's own int8 model and of Tessera's file in OpenVINO, or None."""
    (work / "openvino.pickle").write_bytes(pickle.dumps((task.calibration, task.held_out)))
    out = by_script("openvino", python, OPENVINO, [task.model, own, work / "openvino.pickle"], work / "outputs.pickle")
    return out and [task.score(outputs) for outputs in pickle.loads(out.read_bytes())]


def times(tessera, path, batch, work):
    """Median ms of one run of both programs on the same file: five rounds, of which each runs both."""
    inputs = work / "one.npz"
    np.savez(inputs, **batch)
    ours, theirs, run = [], [], session(path)
    for _ in range(3):
        run.run(None, batch)
    for _ in range(5):
        text = subprocess.run([tessera, "bench", path, "--inputs", inputs, "--threads", "2", "--json", "--runs", "20"],
                              check=True, capture_output=True, text=True).stdout
        ours.append(json.loads(text)["median_ms"])
        took = []
        for _ in range(20):
            start = time.perf_counter()
            run.run(None, batch)
            took.append((time.perf_counter() - start) * 1e3)
        theirs.append(float(np.median(took)))
    return float(np.median(ours)), float(np.median(theirs))


def measure(name, make, options):
    work = options.work / name.replace(" ", "_")
    work.mkdir(parents=True, exist_ok=True)
    task = make()
    file, how = by_tessera(options.tessera, task, work)
    result = {"task": name, "metric": task.metric, "float": score(task, task.model), "tessera": score(task, file),
              "how": how, "smaller": task.model.stat().st_size / file.stat().st_size}
    peer = by_onnxruntime(task, work)
    if peer:
        result |= {"onnxruntime": peer[0], "onnxruntime_settings": peer[2]}
    if options.nncf and (out := by_nncf(options.nncf, task, work)):
        result["nncf"] = score(task, out)
    if options.nncf and (scores := by_openvino(options.nncf, task, file, work)):
        result["openvino"], result["tessera_in_openvino"] = scores
    one = {key: value[:1] for key, value in task.held_out[0].items()}
    result["float_ms"], _ = times(options.tessera, task.model, one, work)
    result["tessera_ms"], result["onnxruntime_ms"] = times(options.tessera, file, one, work)
    return result


def set_up():
    venv.create(VENV, with_pip=True)
    subprocess.run([VENV / "bin/pip", "install", "--no-deps", "--require-hashes", "--disable-pip-version-check", "-r",
                    compress_tasks.ROOT / "bench/compress-peers-requirements.txt"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", default=compress_tasks.ROOT / "build/release/apps/tessera/tessera",
                        type=pathlib.Path)
    parser.add_argument("--work", default=pathlib.Path("build/compress_peers"), type=pathlib.Path)
    parser.add_argument("--setup", action="store_true", help="make .venv-compress-peers, then stop")
    parser.add_argument("--nncf", help="a Python that has nncf and openvino (default: that of --setup, if made)")
    parser.add_argument("--tasks", help="names, with commas between")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if options.setup:
        return set_up()
    if options.nncf is None and (VENV / "bin/python").exists():
        options.nncf = str(VENV / "bin/python")
    options.work = options.work.resolve()
    logging.disable(logging.WARNING)
    results = []
    print(f"{'task':<14} {'metric':<19} {'float':>7} {'tessera':>8} {'ort':>7} {'nncf':>7} {'openvino':>8} "
          f"{'ours/ov':>7} {'smaller':>8} "
          f"{'f32 ms':>8} {'int8 ms':>8} {'ort ms':>8}")
    for name, make in compress_tasks.tasks(options.tessera, options.work):
        if options.tasks and name not in options.tasks.split(","):
            continue
        r = measure(name, make, options)
        results.append(r)
        value = lambda key: f"{r[key]:.4f}" if key in r else "-"
        print(f"{name:<14} {r['metric']:<19} {value('float'):>7} {value('tessera'):>8} {value('onnxruntime'):>7} "
              f"{value('nncf'):>7} {value('openvino'):>8} {value('tessera_in_openvino'):>7} {r['smaller']:>7.2f}x "
              f"{r['float_ms']:>8.3f} {r['tessera_ms']:>8.3f} "
              f"{r['onnxruntime_ms']:>8.3f}   {r['how']['estimator']}, float: {r['how']['float_layers']}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
