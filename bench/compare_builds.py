#!/usr/bin/env python3
"""Times two builds of Tessera on the same models in turn, and prints how many times as long the old one takes.

    bench/compare_builds.py OLD NEW              # two `tessera` programs; about 8 minutes
    bench/compare_builds.py OLD --noise-check    # the old one against itself: what the machine's noise alone gives
    bench/compare_builds.py OLD NEW --models resnet50,bert_base --rounds 15 --json figures.json

Ratio = the old build's median time / the new one's; above 1 the new one is faster. In every round both run in fresh
processes, one right after the other, on the same cores with the same model, inputs and warm-up; the median of the
rounds' ratios counts, so a drift of the machine's speed does not. Models are made by the old build, the real ones come
from scripts/fetch_models.py; a model that is not there or that a build cannot run is reported, and the others are
measured.

Exit code: 0 where the geometric mean of the ratios is at least --least-mean and every ratio at least --least; 1 where
that is not so, or where only the new build fails; 2 where nothing was measured.
"""

import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The dimensions that each model is timed with. Those with a file come from scripts/fetch_models.py, the others from
# `tessera new`.
MODELS = {
    "resnet50": {"batch": 1},
    "mobilenet_v2": {"batch": 1},
    "efficientnet_b0": {"batch": 1},
    "unet2d": {"batch": 1},
    "bert_base": {"batch": 1, "seq": 128},
    "lstm": {"batch": 1, "time": 200},
    "PP-OCRv6_rec_small": {"DynamicDimension.0": 1, "DynamicDimension.1": 320},
    "minilm_int8": {"batch": 1, "sequence": 128},
}
FILES = {"PP-OCRv6_rec_small": "rapidocr/PP-OCRv6_rec_small.onnx", "minilm_int8": "minilm_int8/model.onnx"}
# Of a quiet machine: the load average before, and the share of a core that other programs take meanwhile.
BUSY_LOAD, BUSY_SHARE = 0.3, 0.05


class Problem(Exception):
    """A model cannot be made or run; the text says why."""


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path, metavar="OLD", help="the `tessera` program to compare with")
    parser.add_argument(
        "new", type=pathlib.Path, metavar="NEW", nargs="?", help="the `tessera` program that should be no slower"
    )
    parser.add_argument(
        "--models",
        type=lambda text: text.split(","),
        default=list(MODELS),
        metavar="NAME,…",
        help=f"of {', '.join(MODELS)} (default: all); other names of `tessera new`; or .onnx files",
    )
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N",
        help="size of a free dimension of .onnx files and other names; may be repeated",
    )
    parser.add_argument(
        "--fetched",
        type=pathlib.Path,
        default=ROOT / ".models",
        help="folder of the fetched models (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=lambda text: [int(word) for word in text.split(",")],
        default=[1, 2],
        metavar="N,…",
        help="default: 1,2",
    )
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=0.6, help="of timed runs a process, at least three runs (default: %(default)s)"
    )
    parser.add_argument("--limit", type=float, default=120, help="most seconds for one process (default: %(default)s)")
    parser.add_argument(
        "--least-mean",
        type=float,
        default=0.98,
        metavar="RATIO",
        help="least geometric mean of the ratios (default: %(default)s)",
    )
    parser.add_argument(
        "--least", type=float, default=0.95, metavar="RATIO", help="least ratio of a model (default: %(default)s)"
    )
    parser.add_argument("--noise-check", action="store_true", help="compare OLD with itself, without NEW")
    parser.add_argument(
        "--json",
        type=pathlib.Path,
        metavar="FILE",
        help="write the figures; after every round, so that what is measured is kept",
    )
    arguments = parser.parse_args(words)
    if arguments.noise_check == (arguments.new is not None):
        parser.error("give NEW, or --noise-check without it")
    arguments.new = arguments.new or arguments.old
    for program in (arguments.old, arguments.new):
        if not (program.is_file() and os.access(program, os.X_OK)):
            parser.error(f"{program} is no program")
    arguments.old, arguments.new = arguments.old.resolve(), arguments.new.resolve()
    if min(arguments.threads) < 1 or arguments.rounds < 1:
        parser.error("threads and rounds are at least 1")
    if max(arguments.threads) > len(os.sched_getaffinity(0)):
        parser.error(f"{max(arguments.threads)} threads on {len(os.sched_getaffinity(0))} cores")
    return arguments


def last_line(text):
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def run(command, limit):
    try:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, errors="replace", timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise Problem(f"not done after {limit:.0f} s") from None
    except OSError as problem:
        raise Problem(str(problem)) from None
    if done.returncode < 0:
        raise Problem(f"killed by signal {-done.returncode}")
    if done.returncode != 0:
        raise Problem(last_line(done.stderr or done.stdout))
    return done.stdout


def dim_words(dims):
    return [word for name, size in dims.items() for word in ("--dim", f"{name}={size}")]


def given_dims(arguments):
    return dict(entry.rpartition("=")[::2] for entry in arguments.dim)


def prepare(name, arguments, folder):
    """The model's file and the dimensions that are still free in it."""
    if name.endswith(".onnx"):
        if not pathlib.Path(name).exists():
            raise Problem("there is no such file")
        return name, given_dims(arguments)
    if name in FILES:
        path = arguments.fetched / FILES[name]
        if not path.exists():
            raise Problem(f"{path} is not there: run scripts/fetch_models.py")
        return path, MODELS[name]
    path = folder / f"{name}.onnx"
    run(
        [arguments.old, "new", name, "-o", path, *dim_words(MODELS.get(name) or given_dims(arguments))], arguments.limit
    )
    return path, {}


def median_ms(program, model, threads, arguments):
    path, dims = model
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    words = [
        program,
        "bench",
        path,
        "--threads",
        threads,
        "--precision",
        arguments.precision,
        "--runs",
        3,
        "--warmup",
        3,
        "--seconds",
        arguments.seconds,
        "--json",
    ]
    text = run(["taskset", "-c", cores, *words, *dim_words(dims)], arguments.limit)
    try:
        return float(json.loads(text)["median_ms"])
    except (ValueError, KeyError, TypeError):
        raise Problem(f"printed no figures but: {last_line(text)}") from None


def measure_pair(cell, model, in_turn, arguments):
    """Adds a round to the cell; a build that fails is not asked again."""
    found = {}
    for side in in_turn:
        try:
            found[side] = median_ms(getattr(arguments, side), model, cell["threads"], arguments)
        except Problem as problem:
            cell[side + "_problem"] = str(problem)
    if len(found) == 2 and min(found.values()) > 0:
        for side in found:
            cell[side + "_medians_ms"].append(found[side])
        cell["ratios"].append(found["old"] / found["new"])


def has_problem(cell):
    return "old_problem" in cell or "new_problem" in cell


def summarise(cell):
    if has_problem(cell) or not cell["ratios"]:
        return
    cell["ratio"] = statistics.median(cell["ratios"])
    for side in ("old", "new"):
        cell[side + "_ms"] = statistics.median(cell[side + "_medians_ms"])


class OtherLoad:
    """What else the machine's cores did meanwhile, as a share of one core; None where the system does not tell."""

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        try:
            numbers = [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        except (OSError, ValueError, IndexError):
            return None
        busy = (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK")
        used = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
        return busy - sum(each.ru_utime + each.ru_stime for each in used), time.monotonic()

    def share(self):
        now = self.now()
        if now is None or self.start is None or now[1] - self.start[1] < 1:
            return None
        return max(0.0, (now[0] - self.start[0]) / (now[1] - self.start[1]))


def write(figures, path):
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(figures, indent=1) + "\n")
    partial.replace(path)


def row(cell):
    start = f"{cell['model']:<22} {cell['threads'] or '-':>7}"
    if "ratio" not in cell:
        said = [f"{side}: {cell[side + '_problem']}" for side in ("old", "new") if side + "_problem" in cell]
        return f"{start}  not measured: {'; '.join(said) or 'no round was finished'}"
    times = f"{cell['old_ms']:>10.3f} {cell['new_ms']:>10.3f} {cell['ratio']:>8.3f}"
    return f"{start} {times}   {min(cell['ratios']):.3f} to {max(cell['ratios']):.3f}"


def verdict(cells, arguments):
    """The lines to print at the end, and the exit code."""
    measured = [cell for cell in cells if "ratio" in cell]
    if not measured:
        return ["compare_builds: error: nothing was measured"], 2
    mean = math.exp(statistics.fmean(math.log(cell["ratio"]) for cell in measured))
    lines = [
        f"geometric mean of old / new: {mean:.3f} of {len(measured)} cells "
        f"(least allowed: {arguments.least_mean} in the mean, {arguments.least} each)"
    ]
    slow = [cell for cell in measured if cell["ratio"] < arguments.least]
    broken = [cell for cell in cells if "new_problem" in cell and "old_problem" not in cell]
    lines += [
        f"slower: {cell['model']}, {cell['threads']} thread{'s' * (cell['threads'] > 1)}: {cell['ratio']:.3f}"
        for cell in slow
    ]
    lines += [
        f"only the new build fails: {cell['model']}, {cell['threads']} thread{'s' * (cell['threads'] > 1)}"
        for cell in broken
    ]
    return lines, 1 if mean < arguments.least_mean or slow or broken else 0


def version(program, arguments):
    try:
        return run([program, "--version"], arguments.limit).splitlines()
    except Problem as problem:
        return [f"unknown version: {problem}"]


def measure(figures, arguments, folder):
    models, cells = {}, figures["cells"]
    for name in dict.fromkeys(arguments.models):
        try:
            models[name] = prepare(name, arguments, folder)
            cells += [
                {"model": name, "threads": threads, "ratios": [], "old_medians_ms": [], "new_medians_ms": []}
                for threads in arguments.threads
            ]
        except Problem as problem:
            cells.append({"model": name, "threads": None, "old_problem": str(problem), "new_problem": str(problem)})
    for number in range(arguments.rounds):
        # Who comes first changes from round to round.
        in_turn = ("old", "new") if number % 2 == 0 else ("new", "old")
        for cell in cells:
            if not has_problem(cell):
                measure_pair(cell, models[cell["model"]], in_turn, arguments)
            summarise(cell)
        if arguments.json:
            write(figures, arguments.json)
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)


def main(words=None):
    arguments = parse(words)
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        print(
            f"compare_builds: warning: the machine is not quiet: load average {load:.2f}; the ratios may not hold",
            file=sys.stderr,
        )
    old, new = (version(program, arguments) for program in (arguments.old, arguments.new))
    settings = {
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "precision": arguments.precision,
        "noise_check": arguments.noise_check,
    }
    figures = {
        "old": str(arguments.old),
        "new": str(arguments.new),
        "old_version": old,
        "new_version": new,
        "load_average_at_start": load,
        "settings": settings,
        "cells": [],
    }
    others = OtherLoad()
    with tempfile.TemporaryDirectory(prefix="tessera-builds-") as folder:
        measure(figures, arguments, pathlib.Path(folder))
    share = figures["other_load"] = others.share()
    print("\n".join(old[1:2]))
    print(f"{'model':<22} {'threads':>7} {'old ms':>10} {'new ms':>10} {'old/new':>8}   rounds")
    for cell in figures["cells"]:
        print(row(cell))
    lines, code = verdict(figures["cells"], arguments)
    figures["verdict"], figures["exit_code"] = lines, code
    print("\n".join(lines))
    if share is not None and share > BUSY_SHARE:
        print(
            f"compare_builds: warning: other programs used {share:.2f} of a core meanwhile; the ratios may not hold",
            file=sys.stderr,
        )
    if arguments.json:
        write(figures, arguments.json)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
