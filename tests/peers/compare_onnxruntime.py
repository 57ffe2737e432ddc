#!/usr/bin/env python3
"""Runs models through onnxruntime and through `tessera run` on the same inputs and compares the outputs.

Floats must agree within rtol 1e-3 and atol 1e-4, everything else exactly, and Tessera's outputs must be bit-identical
for every number of threads. Exit status: 0 all agree, 1 something differs, 77 a model is not there (fetch_models.py).
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

import cases

RELATIVE, ABSOLUTE = 1e-3, 1e-4
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MISSING = 77


class Problem(Exception):
    pass


def run_tessera(tessera, arguments, threads=None):
    environment = dict(os.environ)
    if threads:
        environment["TESSERA_NUM_THREADS"] = str(threads)
    done = subprocess.run([tessera, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise Problem(f"exit status {done.returncode}: {lines[0][:400]}")


def session_for(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def outputs_of(tessera, model, feed, threads, folder):
    given, made = folder / "in.npz", folder / "out.npz"
    np.savez(given, **feed)
    made.unlink(missing_ok=True)
    run_tessera(tessera, ["run", model, "--inputs", given, "--outputs", made, "--threads", threads], threads)
    with np.load(made) as archive:
        return {name: archive[name] for name in archive.files}


def compare(expected, actual):
    """Largest absolute difference, and largest difference in units of the tolerance; raises Problem on any other
    difference."""
    if set(expected) != set(actual):
        raise Problem(f"outputs {sorted(actual)}, expected {sorted(expected)}")
    worst, worst_ratio = 0.0, 0.0
    for name, want in expected.items():
        have = actual[name]
        if have.dtype != want.dtype or have.shape != want.shape:
            raise Problem(f"output {name}: {have.dtype}{list(have.shape)}, expected {want.dtype}{list(want.shape)}")
        if not np.issubdtype(want.dtype, np.floating):
            if not np.array_equal(have, want):
                raise Problem(f"output {name}: {np.count_nonzero(have != want)} of {want.size} values differ")
            continue
        have, want = have.astype(np.float64), want.astype(np.float64)
        same = (have == want) | (np.isnan(have) & np.isnan(want))
        with np.errstate(invalid="ignore"):
            difference = np.where(same, 0, np.abs(have - want))
            ratio = np.where(same, 0, difference / (ABSOLUTE + RELATIVE * np.abs(want)))
        if want.size:
            worst = max(worst, np.max(np.nan_to_num(difference, nan=np.inf)))
            worst_ratio = max(worst_ratio, np.max(np.nan_to_num(ratio, nan=np.inf)))
    return worst, worst_ratio


def check_in_full(path, outputs):
    """Runs onnx.checker with inference; raises Problem. It wants outputs to have shapes, so those of unknown rank get
    that of `outputs`, what was computed."""
    model = onnx.load(path)
    for entry in model.graph.output:
        if entry.type.HasField("tensor_type") and not entry.type.tensor_type.HasField("shape"):
            entry.type.tensor_type.shape.dim.extend(onnx.TensorShapeProto.Dimension()
                                                    for _ in np.shape(outputs[entry.name]))
            entry.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as problem:
        raise Problem(f"onnx.checker: {str(problem).splitlines()[0][:300]}") from None


def identical(first, second):
    return first.keys() == second.keys() and all(first[name].tobytes() == second[name].tobytes() for name in first)


def check_case(tessera, model, session, feed, threads, folder):
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, session.run(names, feed)))
    results = [outputs_of(tessera, model, feed, count, folder) for count in threads]
    worst, ratio = compare(expected, results[0])
    if ratio > 1:
        raise Problem(f"largest difference {worst:.3g} is {ratio:.3g} times the tolerance")
    for count, result in zip(threads[1:], results[1:]):
        if not identical(results[0], result):
            raise Problem(f"{count} threads give other bits than {threads[0]}")
    return worst, ratio


def check_model(name, arguments, folder):
    """Prints a row a case; returns the number of failures."""
    if name in cases.REAL:
        path = arguments.models / cases.REAL[name]
        if not path.exists():
            print(f"{name:26} {path} is not there: run scripts/fetch_models.py")
            return None
        make_cases = cases.real_cases
    else:
        path = folder / f"{name}.onnx"
        try:
            run_tessera(arguments.tessera, ["new", name, "-o", path])
        except Problem as problem:
            print(f"{name:26} {'new':30} FAILED {problem}")
            return 1
        make_cases = cases.own_cases
    session, failures = session_for(path), 0
    for label, feed in make_cases(name, path, session, arguments.full):
        start = time.monotonic()
        try:
            worst, ratio = check_case(arguments.tessera, path, session, feed, arguments.threads, folder)
            verdict = f"agrees   {worst:9.2e}  {ratio:8.1e}"
        except (Problem, subprocess.TimeoutExpired) as problem:
            failures += 1
            verdict = f"FAILED   {problem}"
        print(f"{name:26} {label:30} {verdict}  {time.monotonic() - start:5.1f} s", flush=True)
    if path.parent == folder:
        path.unlink()
    return failures


def main():
    known = cases.OWN + list(cases.REAL)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models_to_check", nargs="*", metavar="MODEL", help="default: all; see --list")
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "build/release/apps/tessera/tessera",
                        help="the program")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / ".models", help="folder of the fetched models")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 3], help="numbers of threads (default 1 2 3)")
    parser.add_argument("--full", action="store_true", help="batch 3 and more sizes for the heavy models too")
    parser.add_argument("--list", action="store_true", help="list the models")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(known))
        return 0
    unknown = [name for name in arguments.models_to_check if name not in known]
    if unknown:
        parser.error(f"unknown model {', '.join(unknown)}; see --list")
    print(f"{'model':26} {'inputs':30} {'result':8} {'largest':>9}  {'of tol.':>8}   time")
    failures = missing = checked = 0
    with tempfile.TemporaryDirectory(prefix="tessera-peers-") as folder:
        for name in arguments.models_to_check or known:
            result = check_model(name, arguments, pathlib.Path(folder))
            missing += result is None
            checked += result is not None
            failures += result or 0
    print(
        f"{checked} models compared with onnxruntime {onnxruntime.__version__}: {failures} cases failed; {missing} "
        f"models missing"
    )
    return 1 if failures else MISSING if missing else 0


if __name__ == "__main__":
    sys.exit(main())
