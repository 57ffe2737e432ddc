#!/usr/bin/env python3
"""Optimises models with `tessera optimize` and runs what it wrote: OUT.onnx in onnxruntime, which must agree with the
original there, and OUT.tsr here, which must give the bits that the original gives.

Exit status: 0 all agree, 1 something differs, 77 a model is not there (fetch_models.py).
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

import cases
import compare_onnxruntime as peers

OWN = ["lenet5", "mobilenet_v3_small", "bert_mini", "lstm", "ssd"]


def check_file(tessera, source, label, feed, folder):
    """Raises Problem; returns the largest difference of the .onnx output, in itself and in units of the tolerance."""
    written, package = folder / "out.onnx", folder / "out.tsr"
    session, optimised = peers.session_for(source), peers.session_for(written)
    names = [output.name for output in session.get_outputs()]
    if [output.name for output in optimised.get_outputs()] != names:
        raise peers.Problem("the outputs have other names")
    wanted = {entry.name for entry in optimised.get_inputs()}
    if wanted != set(feed):
        raise peers.Problem(f"the inputs are {sorted(wanted)}, expected {sorted(feed)}")
    if written.stat().st_size > 1.1 * source.stat().st_size + 65536:
        raise peers.Problem(f"the file grew from {source.stat().st_size} to {written.stat().st_size} bytes")
    actual = dict(zip(names, optimised.run(names, feed)))
    peers.check_in_full(written, actual)
    worst, ratio = peers.compare(dict(zip(names, session.run(names, feed))), actual)
    if ratio > 1:
        raise peers.Problem(f"largest difference {worst:.3g} is {ratio:.3g} times the tolerance")
    if not peers.identical(*(peers.outputs_of(tessera, model, feed, 2, folder) for model in (source, package))):
        raise peers.Problem("the package gives other bits")
    return worst, ratio


def check_model(name, arguments, folder):
    """Prints a row a case; returns the number of failures, or nothing when the model is not there."""
    real = name in cases.REAL
    source = arguments.models / cases.REAL[name] if real else folder / f"{name}.onnx"
    if real and not source.exists():
        print(f"{name:26} {source} is not there: run scripts/fetch_models.py")
        return None
    if not real:
        peers.run_tessera(arguments.tessera, ["new", name, "-o", source])
    failures = 0
    try:
        for output in ("out.onnx", "out.tsr"):
            peers.run_tessera(arguments.tessera, ["optimize", source, "-o", folder / output])
        nodes = [len(onnx.load(path, load_external_data=False).graph.node) for path in (source, folder / "out.onnx")]
        feeds = (cases.real_cases if real else cases.own_cases)(name, source, peers.session_for(source), False)
    except peers.Problem as problem:
        print(f"{name:26} FAILED   {problem}", flush=True)
        return 1
    for label, feed in feeds[:arguments.cases]:
        try:
            worst, ratio = check_file(arguments.tessera, source, label, feed, folder)
            verdict = f"agrees   {worst:9.2e}  {ratio:8.1e}"
        except (peers.Problem, onnxruntime.capi.onnxruntime_pybind11_state.Fail) as problem:
            failures += 1
            verdict = f"FAILED   {problem}"
        print(f"{name:26} {label:30} {nodes[0]:5} -> {nodes[1]:5} nodes  {verdict}", flush=True)
    if not real:
        source.unlink()
    return failures


def main():
    known = OWN + list(cases.REAL)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models_to_check", nargs="*", metavar="MODEL", help=f"default: {', '.join(known)}")
    parser.add_argument("--tessera", type=pathlib.Path, default=peers.ROOT / "build/release/apps/tessera/tessera",
                        help="the program")
    parser.add_argument("--models", type=pathlib.Path, default=peers.ROOT / ".models",
                        help="folder of the fetched models")
    parser.add_argument("--cases", type=int, default=1, help="inputs a model, at most")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.models_to_check if name not in known]:
        parser.error(f"unknown model {', '.join(unknown)}")
    onnxruntime.set_default_logger_severity(3)
    np.seterr(all="ignore")
    failures = missing = 0
    with tempfile.TemporaryDirectory(prefix="tessera-peers-") as folder:
        for name in arguments.models_to_check or known:
            result = check_model(name, arguments, pathlib.Path(folder))
            missing += result is None
            failures += result or 0
    print(
        f"optimised models in onnxruntime {onnxruntime.__version__}: {failures} cases failed, {missing} models missing")
    return 1 if failures else peers.MISSING if missing else 0


if __name__ == "__main__":
    sys.exit(main())
