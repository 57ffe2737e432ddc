#!/usr/bin/env python3
"""Runs models that onnxruntime's optimiser has rewritten, its own operators included, and compares with onnxruntime.

Exit status: 0 all agree, 1 something differs.
"""

import argparse
import collections
import pathlib
import sys
import tempfile
import time

import onnx
import onnxruntime

import cases
import compare_onnxruntime as peers
import exported_bert

# name -> com.microsoft operators that the optimiser must have put in, so that the test is about them
MODELS = {
    "exported_bert": {"Attention", "BiasGelu", "EmbedLayerNormalization", "SkipLayerNormalization"},
    "bert_mini": {"BiasGelu", "FusedGemm", "FusedMatMul"},
    "gpt2": {"FastGelu", "FusedMatMul", "SkipLayerNormalization"},
    "mobilenet_v3_small": {"FusedConv"},
    "efficientnet_b0": {"FusedConv", "QuickGelu"},
}


def write_optimised(source, target):
    """Writes what onnxruntime makes of the model below hardware-specific layouts; returns how often it uses each of its
    operators."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(target, load_external_data=False).graph.node
    return collections.Counter(node.op_type for node in nodes if node.domain == "com.microsoft")


def check_model(name, tessera, folder):
    """Prints a row a case; returns the number of failures."""
    source, optimised = folder / f"{name}.onnx", folder / f"{name}.optimised.onnx"
    if name == "exported_bert":
        onnx.save(exported_bert.model(), source)
    else:
        peers.run_tessera(tessera, ["new", name, "-o", source])
    operators = write_optimised(source, optimised)
    print(f"{name}: {', '.join(f'{count} {op}' for op, count in sorted(operators.items()))}")
    if missing := MODELS[name] - set(operators):
        print(f"{name:26} FAILED   onnxruntime put in no {', '.join(sorted(missing))}")
        return 1
    session, failures = peers.session_for(optimised), 0
    for label, feed in cases.own_cases(name, optimised, session, full=False):
        start = time.monotonic()
        try:
            worst, ratio = peers.check_case(tessera, optimised, session, feed, [1, 2], folder)
            verdict = f"agrees   {worst:9.2e}  {ratio:8.1e}"
        except peers.Problem as problem:
            failures += 1
            verdict = f"FAILED   {problem}"
        print(f"{name:26} {label:30} {verdict}  {time.monotonic() - start:5.1f} s", flush=True)
    for path in (source, optimised):
        path.unlink()
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"default: {', '.join(MODELS)}")
    parser.add_argument("--tessera", type=pathlib.Path, default=peers.ROOT / "build/release/apps/tessera/tessera",
                        help="the program")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.models if name not in MODELS]:
        parser.error(f"unknown model {', '.join(unknown)}")
    with tempfile.TemporaryDirectory(prefix="tessera-peers-") as folder:
        failures = sum(
            check_model(name, arguments.tessera, pathlib.Path(folder)) for name in arguments.models or MODELS)
    print(f"models optimised by onnxruntime {onnxruntime.__version__}: {failures} cases failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
