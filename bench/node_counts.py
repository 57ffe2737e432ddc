#!/usr/bin/env python3
"""Counts the nodes that optimising leaves: Tessera's, for its own device and as .onnx, and onnxruntime's with all of
its optimisations.

    bench/peers.py --setup                     # once: .venv-peers with the pinned onnxruntime
    bench/node_counts.py --json counts.json    # a table, and the share of models where ours are at most theirs
    bench/node_counts.py --time --models magika,silero_vad

Models are those that `tessera new` makes and the real ones of scripts/fetch_models.py, at batch 1 with fixed shapes. A
node counts wherever it stands, in subgraphs too; Constant nodes do not, since onnxruntime turns them into initializers.
--time also runs each model and its optimised .onnx in onnxruntime in turn and prints the median ratio of their times:
below 1 the optimised one is faster there. That wants a quiet machine.
"""
import argparse
import collections
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import peers

ROOT = peers.ROOT


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "build/release/apps/tessera/tessera",
                        help="the program (default: %(default)s)")
    parser.add_argument("--models", type=lambda text: text.split(","), default=[], metavar="NAME,…",
                        help="default: all")
    parser.add_argument("--fetched", type=pathlib.Path, default=ROOT / ".models",
                        help="folder of the fetched models (default: %(default)s)")
    parser.add_argument("--time", action="store_true",
                        help="also time the original and the optimised .onnx in onnxruntime")
    parser.add_argument("--pairs", type=int, default=21, help="timed pairs a model (default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures")
    arguments = parser.parse_args()
    arguments.tessera = arguments.tessera.resolve()
    return arguments


def tessera(arguments, *words):
    done = subprocess.run([arguments.tessera, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def operators(graph):
    """How often each operator stands in an ONNX graph."""
    counts = collections.Counter()
    for node in graph.node:
        if node.op_type != "Constant":
            counts[node.op_type] += 1
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                counts += operators(inner)
    return counts


def onnx_operators(path):
    import onnx
    return operators(onnx.load(path, load_external_data=False).graph)


def session(path, optimised=None):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    if optimised is not None:
        options.optimized_model_filepath = str(optimised)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def onnxruntime_operators(source, folder):
    written = folder / "theirs.onnx"
    session(source, written)
    return onnx_operators(written)


def device_operators(arguments, source, folder):
    """Of the graph that a session runs; subgraphs count as `tessera info` counts them."""
    written = folder / "ours.tsr"
    tessera(arguments, "optimize", source, "-o", written)
    return collections.Counter(json.loads(tessera(arguments, "info", written, "--json"))["operators"])


def time_ratio(source, optimised, feed, pairs):
    """The median of optimised / original, run after run in turn."""
    sessions = [session(source), session(optimised)]
    for each in sessions:
        each.run(None, feed)
    ratios = []
    for _ in range(pairs):
        seconds = []
        for each in sessions:
            start = time.perf_counter()
            each.run(None, feed)
            seconds.append(time.perf_counter() - start)
        ratios.append(seconds[1] / seconds[0])
    return statistics.median(ratios)


def count(name, source, feed, arguments, folder):
    ours = folder / "ours.onnx"
    tessera(arguments, "optimize", source, "-o", ours)
    theirs = onnxruntime_operators(source, folder)
    cell = {
        "model": name, "file": sum(onnx_operators(source).values()),
        "device_operators": device_operators(arguments, source, folder), "onnx_operators": onnx_operators(ours),
        "onnxruntime_operators": theirs
    }
    for key in ("device", "onnx", "onnxruntime"):
        cell[key] = sum(cell[key + "_operators"].values())
    if arguments.time:
        cell["time_ratio"] = time_ratio(source, ours, feed(), arguments.pairs)
    return cell


def more_of(cell):
    """Operators of which the graph for our device has more than onnxruntime's: "12 Transpose (theirs 3)"."""
    ours, theirs = cell["device_operators"], cell["onnxruntime_operators"]
    extra = {op: number - theirs[op] for op, number in ours.items() if number > theirs[op] and "::" not in op}
    return ", ".join(f"{ours[op]} {op} (theirs {theirs[op]})" for op in sorted(extra, key=lambda op: -extra[op])[:5])


def all_models(arguments):
    """(name, write(path), feed(path)) of each; the path is where the model lies."""
    import models
    # Beside the peer tests, whose folder models knows.
    import cases
    import compare_onnxruntime
    for model in models.tessera_models(arguments.tessera):
        batch = (model.batches or (1,))[0]
        yield model.name, lambda path, model=model, batch=batch: model.write(
            path, batch) or path, lambda path, model=model, batch=batch: model.feeds(path, batch)
    for name, file in cases.REAL.items():
        def real_feed(path, name=name, file=file):
            source = arguments.fetched / file
            return cases.real_cases(name, source, compare_onnxruntime.session_for(source), False)[0][1]

        def write(path, file=file, feed=real_feed, name=name):
            source = arguments.fetched / file
            # onnxruntime refuses it with fixed shapes: a branch that then is not taken does not fit them
            if name == "silero_vad":
                return source
            models.write_fixed(source, feed(source), path)
            return path

        yield name, write, real_feed


def print_row(cell):
    verdict = "at most" if cell["device"] <= cell["onnxruntime"] else "MORE   "
    print(
        f"{cell['model']:26} {cell['file']:6} {cell['device']:7} {cell['onnx']:6} {cell['onnxruntime']:12}  {verdict}" +
        (f"  {cell['time_ratio']:5.2f}" if "time_ratio" in cell else "") +
        (f"  {more_of(cell)}" if cell["device"] > cell["onnxruntime"] else ""), flush=True)


def main():
    arguments = parse()
    peers.enter_venv()
    import onnxruntime
    cells, failures = [], []
    print(f"{'model':26} {'file':>6} {'device':>7} {'.onnx':>6} {'onnxruntime':>12}  ours" +
          ("  time ratio" if arguments.time else ""))
    for name, write, feed in all_models(arguments):
        if arguments.models and name not in arguments.models:
            continue
        with tempfile.TemporaryDirectory(prefix="tessera-counts-") as folder:
            folder = pathlib.Path(folder)
            try:
                source = write(folder / f"{name}.onnx")
                cells.append(count(name, source, lambda: feed(source), arguments, folder))
                print_row(cells[-1])
            except Exception as problem:  # one model's trouble is not the others'
                failures.append({"model": name, "problem": str(problem)})
                print(f"{name:26} not counted: {str(problem).splitlines()[0]}", flush=True)
    if not cells:
        sys.exit("node_counts: error: no model was counted")
    shares = {key: sum(cell[key] <= cell["onnxruntime"] for cell in cells) / len(cells) for key in ("device", "onnx")}
    print(
        f"at most as many nodes as onnxruntime {onnxruntime.__version__}: {shares['device']:.0%} of {len(cells)} "
        f"models on our device, {shares['onnx']:.0%} as .onnx"
    )
    if arguments.json:
        arguments.json.write_text(
            json.dumps(
                {"onnxruntime": onnxruntime.__version__, "shares": shares, "models": cells, "not_counted": failures},
                indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
