#!/usr/bin/env python3
"""Random nets of what passes recognise: every pass alone, all and none give the same, on `cpu` and on `reference`, and
what onnxruntime gives.

    net_fuzzer.py [--count 20000] [--seed 1] [--patterns attention …] [--jobs 2] [--keep FOLDER]

PYTHONPATH names the built package (build/release/python). A net is a function of its seed, which a failure prints;
`--count 1 --seed N` runs it again. What fails is made smaller, by leaving out patterns, and saved in FOLDER with its
inputs (default: a temporary folder, kept when anything fails).

How far results may be apart: onnxruntime runs the net on its inputs and, three times, on inputs that are moved by up to
4 float32 epsilons. Results may differ by 8 times what an output moved then, and by 64 epsilons of the output's largest
number, or of 1 (sums of a few hundred terms in another order), or 4 float16 epsilons where the net computes in float16,
whose rounding may be left out, or 2% where data choose the scale by which they are quantized: a step is 0.4% of them.
Where rounding decides (a comparison, a quantized number, a mask of -1e9 on a whole row), outputs move as much and so
are allowed to. NaN and infinities must stand in the same places, except against onnxruntime, where ONNX leaves them
open. Beyond 1e37 a number counts as infinite: whether it overflows depends on the order of operations.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import sys
import tempfile
import time
import traceback
import warnings

import numpy as np
import onnx
import onnxruntime
import tessera
from tessera import _core

from net_builder import Net
from net_layers import LAYERS
from net_patterns import PATTERNS

EPSILON, HALF_EPSILON = float(np.finfo(np.float32).eps), float(np.finfo(np.float16).eps)
ALL = {**PATTERNS, **LAYERS}
# Operators of whose results for NaN ONNX says nothing, and where implementations part.
OPEN_FOR_NAN = {"Max", "Min", "MaxPool", "GlobalMaxPool", "Clip", "Relu", "ReduceMax", "HardSigmoid", "HardSwish",
                "QuantizeLinear", "DynamicQuantizeLinear", "LeakyRelu", "Elu", "Softplus"}  # fmt: skip


class Case:
    """A net of a seed, of patterns with these names; `left_out`: which of those that it has are left out."""

    def __init__(self, seed, names=tuple(ALL), left_out=()):
        self.seed, self.names = seed, names
        random = np.random.default_rng(seed)
        weights = np.array([ALL[name][1] for name in names], float)
        self.patterns = [
            str(name) for name in random.choice(names, int(random.integers(1, 5)), p=weights / weights.sum())
        ]
        net = Net(random, odd=random.random() < 0.2)
        x = net.input(net.numbers([net.size() for _ in range(int(random.integers(2, 5)))], net.pick(1.0, 1.0, 8.0)))
        for i, name in enumerate(self.patterns):
            # Its own numbers, whatever stands before it.
            net.random = np.random.default_rng([seed, i])
            if i in left_out:
                continue
            x = ALL[name][0](net, x)
            if net.chance(0.1):
                net.outputs.append(x)
        net.outputs = list({each.name: each for each in [*net.outputs, x]}.values())
        self.model = net.model()
        self.bytes = self.model.SerializeToString()
        self.feeds = net.feeds
        self.outputs = [each.name for each in net.outputs]
        self.is_odd = any(not np.isfinite(array).all() for array in self.feeds.values() if array.dtype.kind == "f")
        self.half_epsilons = 4 if any(tensor_type(node) == onnx.TensorProto.FLOAT16 for node in net.nodes) else 0
        self.open_for_nan = any(node.op_type in OPEN_FOR_NAN for node in net.nodes)
        quantized = [node for node in net.nodes if node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear")]
        self.quantized = list({node.input[0]: None for node in quantized if node.input[0] not in self.outputs})
        self.is_dynamic = any(node.op_type == "DynamicQuantizeLinear" for node in net.nodes)


def tensor_type(node):
    """What a Cast casts to."""
    return next((attribute.i for attribute in node.attribute if node.op_type == "Cast" and attribute.name == "to"), 0)


class Expected:
    """What onnxruntime gives, and how far apart results may be."""

    def __init__(self, case):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        extended = onnx.ModelProto.FromString(case.bytes)
        extended.graph.output.extend(onnx.ValueInfoProto(name=name) for name in case.quantized)
        session = onnxruntime.InferenceSession(
            extended.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        results = session.run([*case.outputs, *case.quantized], case.feeds)
        self.results = results[: len(case.outputs)]
        # What NaN and infinity are as integers is open.
        self.is_reference = all(np.isfinite(array).all() for array in results[len(case.outputs) :])
        random = np.random.default_rng(case.seed)
        moved = [np.zeros_like(result, np.float64) for result in self.results]
        with np.errstate(all="ignore"):
            for _ in range(3):
                feeds = {name: nudged(random, array) for name, array in case.feeds.items()}
                for move, was, now in zip(moved, self.results, session.run(case.outputs, feeds)):
                    np.fmax(move, np.abs(now.astype(np.float64) - was), out=move)
            self.bounds = []
            for move, result in zip(moved, self.results):
                finite = np.abs(result[np.isfinite(result)].astype(np.float64))
                # Numbers that are not normal may be flushed to zero.
                relative = 64 * EPSILON + case.half_epsilons * HALF_EPSILON + (0.02 if case.is_dynamic else 0)
                by_rounding = 2e-38 + relative * np.max(finite, initial=1)
                self.bounds.append(8 * np.max(move[np.isfinite(move)], initial=0) + by_rounding)


def nudged(random, array):
    if array.dtype != np.float32:
        return array
    move = 1 + 4 * EPSILON * random.uniform(-1, 1, array.shape)
    # Numbers of masks stay what they are: beside them all that rounding moves is small.
    return np.where(np.abs(array) < 1000, array * move, array).astype(np.float32)


def overflown(array):
    array = array.astype(np.float64)
    return np.where(np.abs(array) > 1e37, np.copysign(np.inf, array), array)


def difference(got, wanted, bounds, names, open_for_nan=False):
    """In words; empty where there is none."""
    for found, want, bound, name in zip(got, wanted, bounds, names):
        if found.shape != want.shape or found.dtype != want.dtype:
            return f"output {name} is {found.dtype}{list(found.shape)}, expected {want.dtype}{list(want.shape)}"
        found, want = overflown(found), overflown(want)
        with np.errstate(all="ignore"):
            wrong = ~((found == want) | (np.isnan(found) & np.isnan(want)) | (np.abs(found - want) <= bound))
        if open_for_nan:
            wrong &= np.isfinite(found) & np.isfinite(want)
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            return f"output {name}{list(where)} is {found[where]:.9g}, expected {want[where]:.9g} within {bound:.3g}"
    return ""


def run(case, model, device, without):
    results = tessera.Session(model, device=device, threads=1, without_passes=without).run(case.feeds)
    return [results[name] for name in case.outputs] if isinstance(results, dict) else [results]


def variants(passes, seed, alone):
    """Pairs of a device and passes to leave out; `alone`: how many passes run alone, by turns of the seed."""
    for device in ("reference", "cpu"):
        yield device, "none", passes
        yield device, "all", []
        for i in range(alone):
            name = passes[(seed * alone + i) % len(passes)]
            yield device, name + " alone", [each for each in passes if each != name]


def find_fault(case, passes, alone):
    """What is wrong with a net: nothing, or words that begin with the variant. Raises where there is no reference."""
    expected = Expected(case)
    model = tessera.Model.from_bytes(case.bytes)
    base = None
    for device, name, without in variants(passes, case.seed, alone):
        try:
            got = run(case, model, device, without)
        except tessera.Error as error:
            return f"{device}, {name}: {type(error).__name__}: {error}"
        if base is None:
            base = got
            wanted = expected.results if expected.is_reference else got
            words = difference(got, wanted, expected.bounds, case.outputs, case.is_odd or case.open_for_nan)
        else:
            words = difference(got, base, expected.bounds, case.outputs)
        if words:
            return f"{device}, {name}: {words}"
    return ""


def shrink(case, passes, alone):
    """The net with as few patterns as show a fault."""
    left_out = ()
    for i in range(len(case.patterns)):
        try:
            smaller = Case(case.seed, case.names, (*left_out, i))
            if find_fault(smaller, passes, alone):
                left_out = (*left_out, i)
        except Exception:  # patterns that do not fit together without the one between them
            continue
    return Case(case.seed, case.names, left_out), left_out


def one(seed, names, passes, alone):
    """What became of a net, in one word and in many, and the smaller net if it failed."""
    case = Case(seed, names)
    try:
        fault = find_fault(case, passes, alone)
    except Exception as error:
        if type(error).__module__.startswith("onnxruntime"):
            return "skipped", str(error)[:200], None
        return "failed", traceback.format_exc(limit=-3), case.bytes
    if not fault:
        return "passed", "", None
    smaller, left_out = shrink(case, passes, len(passes))
    words = find_fault(smaller, passes, len(passes)) or fault
    kept = [name for i, name in enumerate(case.patterns) if i not in left_out]
    return "failed", f"{words}\n  patterns: {', '.join(kept)}", smaller


def many(seeds, *how):
    warnings.simplefilter("ignore")
    return [(seed, *one(seed, *how)) for seed in seeds]


def outcomes(chunks, jobs, names, *how):
    """What `many` gives, of all chunks. A net that ends its process is looked for by itself."""
    left = list(chunks)
    while left:
        with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
            futures = [pool.submit(many, chunk, names, *how) for chunk in left]
            try:
                for future in futures:
                    yield from future.result()
                    left.pop(0)
                return
            except concurrent.futures.process.BrokenProcessPool:
                pass
        for seed in left.pop(0):
            with concurrent.futures.ProcessPoolExecutor(1) as pool:
                try:
                    yield from pool.submit(many, [seed], names, *how).result()
                except concurrent.futures.process.BrokenProcessPool:
                    yield seed, "failed", "the process died", Case(seed, names)


def save(folder, seed, net):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"net_{seed}.onnx"
    if isinstance(net, bytes):
        path.write_bytes(net)
        return path
    onnx.save(net.model, path)
    np.savez(path.with_suffix(".npz"), **net.feeds)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1, help="of the first net")
    parser.add_argument("--jobs", type=int, default=min(4, len(os.sched_getaffinity(0))))
    parser.add_argument("--alone", type=int, default=6, help="how many passes run alone on a net, by turns")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for nets that fail")
    parser.add_argument("--patterns", nargs="+", choices=ALL, default=list(ALL), metavar="NAME", help=", ".join(ALL))
    arguments = parser.parse_args()
    passes = list(_core.optional_passes())
    keep = arguments.keep or pathlib.Path(tempfile.gettempdir()) / f"net_fuzzer_{os.getpid()}"
    counts, reasons, start = collections.Counter(), collections.Counter(), time.monotonic()
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    chunks = [seeds[i : i + 25] for i in range(0, len(seeds), 25)]
    alone = min(arguments.alone, len(passes))
    for seed, outcome, words, net in outcomes(chunks, arguments.jobs, tuple(arguments.patterns), passes, alone):
        counts[outcome] += 1
        if outcome == "skipped":
            reasons[words] += 1
        if outcome == "failed":
            path = save(keep, seed, net)
            print(f"FAILED net_fuzzer seed {seed} ({path}): {words}", flush=True)
    for reason, count in reasons.most_common(5):
        print(f"skipped {count}: {reason}")
    print(f"{time.monotonic() - start:.0f} s")
    print(f"net_fuzzer: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    # A fuzzer whose nets onnxruntime refuses tests nothing.
    return 1 if counts["failed"] or counts["skipped"] * 10 > arguments.count else 0


if __name__ == "__main__":
    sys.exit(main())
