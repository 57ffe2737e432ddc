#!/usr/bin/env python3
"""Random nets (net_fuzzer.py) for many sizes in one session: results are those of a session that has run nothing else.

    net_shapes.py [--count 2000] [--seed 1] [--jobs 2] [--keep FOLDER]

PYTHONPATH names the built package (build/release/python). Dimensions of inputs that have the same size become one name;
some of them take other sizes from run to run, 0, 1 and each other's among them. Every run must give the bits, or the
error, that a new session gives. Nets that do not run with their own sizes are skipped. A failure prints its seed, by
which `--count 1 --seed N` runs it again.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import sys
import tempfile
import time

import numpy as np
import onnx
import tessera
from net_fuzzer import ALL, Case

RUNS = 9


def with_named_sizes(case):
    """The model with names in place of sizes of inputs, and without what it says of other values."""
    model = onnx.ModelProto.FromString(case.bytes)
    for value in model.graph.input:
        shape = value.type.tensor_type.shape
        for dim, size in zip(shape.dim, case.feeds[value.name].shape):
            dim.Clear()
            dim.dim_param = f"size_{size}"
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return model.SerializeToString()


def sequences(case, random):
    """For each run the size that takes the place of each."""
    sizes = sorted({size for array in case.feeds.values() for size in array.shape})
    varied = [size for size in sizes if random.random() < 0.5] or sizes[-1:]
    step = int(random.integers(1, 4))
    for run in range(RUNS):
        moved = {size: size + step * run for size in varied}
        if run >= 6:  # after sizes that go up: odd ones, in any order
            moved = {size: int(random.choice([0, 1, 2, size, *sizes, 7, 33])) for size in varied}
        yield {**{size: size for size in sizes}, **moved}


def told(session, feeds, outputs):
    try:
        results = session.run(feeds)
    except tessera.Error as error:
        return f"{type(error).__name__}: {error}"
    results = [results[name] for name in outputs] if isinstance(results, dict) else [results]
    return [(array.dtype.str, array.shape, array.tobytes()) for array in results]


def one(seed):
    """What became of a net, in one word and in many."""
    case = Case(seed, tuple(ALL))
    data = with_named_sizes(case)
    try:
        swept = tessera.Session(data, threads=1)
        swept.run(case.feeds)
    except tessera.Error as error:
        return "skipped", str(error)[:200]
    random = np.random.default_rng([seed, 1])
    for sizes in sequences(case, random):
        feeds = {
            name: np.resize(array, [sizes[size] for size in array.shape]) if array.size else array
            for name, array in case.feeds.items()
        }
        got = told(swept, feeds, case.outputs)
        wanted = told(tessera.Session(data, threads=1), feeds, case.outputs)
        if got != wanted:
            shown = [each if isinstance(each, str) else "other numbers" for each in (got, wanted)]
            return "failed", f"sizes {sizes}: {shown[0]}, a new session gives {shown[1]}"
    return "passed", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1, help="of the first net")
    parser.add_argument("--jobs", type=int, default=min(4, len(os.sched_getaffinity(0))))
    parser.add_argument("--keep", type=pathlib.Path, help="folder for nets that fail")
    arguments = parser.parse_args()
    keep = arguments.keep or pathlib.Path(tempfile.gettempdir()) / f"net_shapes_{os.getpid()}"
    counts, start = collections.Counter(), time.monotonic()
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        for seed, (outcome, words) in zip(seeds, pool.map(one, seeds, chunksize=10)):
            counts[outcome] += 1
            if outcome == "failed":
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"net_{seed}.onnx").write_bytes(with_named_sizes(Case(seed, tuple(ALL))))
                print(f"FAILED net_shapes seed {seed} ({keep}): {words}", flush=True)
    print(f"{time.monotonic() - start:.0f} s")
    print(f"net_shapes: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or counts["skipped"] * 4 > arguments.count else 0


if __name__ == "__main__":
    sys.exit(main())
