#!/usr/bin/env python3
"""Runs the .onnx files that `tessera optimize` writes in onnxruntime, which must agree with the original there, and
through onnx.checker in full.

Models: graphs with outputs that nobody reads, scikit-learn-like ones, layers whose form changed from version to
version, models of Tessera's own, real ones and random graphs. onnxruntime runs in a process of its own: a crash there
is a failure. What it cannot run itself is left out and counted.

Exit status: 0 all agree, 1 something differs, 77 a real model is not there (fetch_models.py).
"""

import argparse
import collections
import multiprocessing
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import cases
import compare_onnxruntime as peers
import written_graphs

OWN = ["lenet5", "mobilenet_v3_small", "bert_mini", "lstm", "ssd"]
REAL = ["ch_ppocr_mobile_v2.0_cls", "magika", "silero_vad_16k_op15"]
RANDOM = 40


class Unable(peers.Problem):
    """onnxruntime does not run the model."""


def serve(connection):
    """In the other process: answers (path, feed) with (outputs, "") or (None, what is wrong)."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    plain = onnxruntime.SessionOptions()
    plain.log_severity_level, plain.graph_optimization_level = 4, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    def session_for(path):
        try:
            return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail as problem:
            # onnxruntime 1.31 makes such a node itself, of signed integers with an unsigned zero point, and then
            # refuses it.
            if "gemm_input_reshape_arg" not in str(problem):
                raise
            return onnxruntime.InferenceSession(str(path), plain, providers=["CPUExecutionProvider"])

    while True:
        try:
            path, feed = connection.recv()
        except EOFError:
            return
        try:
            session = session_for(path)
            names = [output.name for output in session.get_outputs()]
            connection.send((dict(zip(names, session.run(names, feed))), ""))
        except Exception as problem:  # whatever it raises is the answer
            connection.send((None, str(problem).splitlines()[0][:300]))


class Runner:
    def __init__(self):
        self.context = multiprocessing.get_context("spawn")
        self.start()

    def start(self):
        self.connection, other = self.context.Pipe()
        self.process = self.context.Process(target=serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def run(self, path, feed):
        """Outputs by name; raises Unable, also when the process ends."""
        try:
            self.connection.send((path, feed))
            if not self.connection.poll(120):
                self.process.kill()
            outputs, problem = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            code = self.process.exitcode
            self.start()
            raise Unable(f"onnxruntime ended with {code}") from None
        if outputs is None:
            raise Unable(problem)
        return outputs


def flat(outputs):
    """Sequences of maps and of tensors as arrays, so that they compare like others."""
    result = {}
    for name, value in outputs.items():
        if isinstance(value, np.ndarray):
            result[name] = value
        elif value and isinstance(value[0], dict):
            for key in value[0]:
                result[f"{name}[{key}]"] = np.array([row[key] for row in value])
        else:
            result.update({f"{name}[{i}]": np.asarray(each) for i, each in enumerate(value)})
    return result


def opset_of(path):
    return max(entry.version for entry in onnx.load(path, load_external_data=False).opset_import
               if entry.domain in ("", "ai.onnx"))


def write(tessera, source, written, opset, may_refuse):
    """Returns the version asked for, or, where Tessera may refuse it, the lowest that it names instead."""
    try:
        peers.run_tessera(tessera, ["optimize", source, "-o", written] + (["--opset", str(opset)] if opset else []))
        return opset
    except peers.Problem as problem:
        lowest = re.search(r"the lowest version that has all is (\d+)", str(problem))
        if not may_refuse or not lowest or int(lowest.group(1)) <= opset:
            raise
        return write(tessera, source, written, int(lowest.group(1)), False)


def check(runner, tessera, source, feed, opset, folder, may_refuse):
    """Raises Problem; Unable if the original does not run."""
    expected = runner.run(source, feed)
    written = folder / "written.onnx"
    written.unlink(missing_ok=True)
    opset = write(tessera, source, written, opset, may_refuse)
    if opset and opset_of(written) != opset:
        raise peers.Problem(f"opset {opset_of(written)}, expected {opset}")
    try:
        actual = runner.run(written, feed)
    except Unable as problem:
        raise peers.Problem(f"the written file: {problem}") from None
    peers.check_in_full(written, actual)
    worst, ratio = peers.compare(flat(expected), flat(actual))
    if ratio > 1:
        raise peers.Problem(f"largest difference {worst:.3g} is {ratio:.3g} times the tolerance")


def hand_made(folder):
    for name, model, feed, opsets in written_graphs.all_cases():
        path = folder / f"{name}.onnx"
        onnx.save(model, path)
        for opset in (None, *opsets):
            yield name, path, feed, opset


def zoo(folder, arguments):
    for name in OWN:
        path = folder / f"{name}.onnx"
        peers.run_tessera(arguments.tessera, ["new", name, "-o", path])
        feed = cases.own_cases(name, path, peers.session_for(path), False)[0][1]
        for opset in (None, 11, 13, 21) if name in ("mobilenet_v3_small", "bert_mini") else (None, 13):
            yield name, path, feed, opset
        path.unlink()
    for name in REAL:
        path = arguments.models / cases.REAL[name]
        if path.exists():
            feed = cases.real_cases(name, path, peers.session_for(path), False)[0][1]
            for opset in (None, 17):
                yield name, path, feed, opset
        else:
            yield name, path, None, None


def random_graphs(folder, arguments):
    subprocess.run([arguments.emit, folder, "1", str(arguments.random)], check=True)
    for seed in range(1, arguments.random + 1):
        with np.load(folder / f"{seed}.npz") as archive:
            feed = dict(archive)
        yield f"random graph {seed}", folder / f"{seed}.onnx", feed, (None, 11, 13, 21)[seed % 4]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="only cases whose name contains one of these")
    parser.add_argument("--tessera", type=pathlib.Path, default=peers.ROOT / "build/release/apps/tessera/tessera",
                        help="the program")
    parser.add_argument("--emit", type=pathlib.Path, default=peers.ROOT / "build/release/tests/peers/emit_graphs",
                        help="the program emit_graphs")
    parser.add_argument("--models", type=pathlib.Path, default=peers.ROOT / ".models",
                        help="folder of the fetched models")
    parser.add_argument("--random", type=int, default=RANDOM, help="how many random graphs")
    arguments = parser.parse_args()
    counts, runner = collections.Counter(), Runner()
    with tempfile.TemporaryDirectory(prefix="tessera-written-") as text:
        folder = pathlib.Path(text)
        for source in (hand_made(folder), zoo(folder, arguments), random_graphs(folder, arguments)):
            for name, path, feed, opset in source:
                if arguments.names and not any(wanted in name for wanted in arguments.names):
                    continue
                label = f"{name:34} {f'opset {opset}' if opset else '':9}"
                if feed is None:
                    counts["missing"] += 1
                    print(f"{label} {path} is not there: run scripts/fetch_models.py")
                    continue
                try:
                    check(runner, arguments.tessera, path, feed, opset, folder, name.startswith("random"))
                    counts["agree"] += 1
                except Unable as problem:
                    counts["not run by onnxruntime"] += 1
                    print(f"{label} left out: {problem}", flush=True)
                except peers.Problem as problem:
                    counts["FAILED"] += 1
                    print(f"{label} FAILED   {problem}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if counts["FAILED"] or not counts["agree"] else peers.MISSING if counts["missing"] else 0


if __name__ == "__main__":
    sys.exit(main())
