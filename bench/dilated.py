#!/usr/bin/env python3
"""Times dilated convolutions on small maps in Tessera, ONNX Runtime and OpenVINO in turn, as a table.

    bench/peers.py --setup                         # once: .venv-peers with the pinned programs
    bench/dilated.py --json figures.json           # float32, one and two threads
    bench/dilated.py --render figures.json         # writes docs/performance_dilated.md from the figures

A case is one convolution of 3 x 3 with as many outputs as inputs and padding that keeps the map's size. Ratio = the
peer's time / Tessera's; above 1 Tessera is faster. In every round each program runs for a while on the same cores with
the same threads, weights and input, and its shortest run counts; the median of the rounds' ratios is printed.
"""

import argparse
import datetime
import importlib.util
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import peers

ROOT = peers.ROOT
TITLES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def parse():
    def numbers(text):
        return [int(word) for word in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tessera",
        type=pathlib.Path,
        default=ROOT / "build/release/apps/tessera/tessera",
        help="the program (default: %(default)s)",
    )
    for name, default in [
        ("channels", [64, 256, 512]),
        ("maps", [10, 20, 33, 64]),
        ("dilations", [2, 4, 6, 12, 18, 24, 36]),
        ("threads", [1, 2]),
    ]:
        shown = ",".join(map(str, default))
        parser.add_argument(f"--{name}", type=numbers, default=default, metavar="N,…", help=f"default: {shown}")
    parser.add_argument(
        "--peers", type=lambda text: text.split(","), default=list(TITLES), help="default: " + ",".join(TITLES)
    )
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=0.1, help="a program and round (default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures, after every case")
    parser.add_argument(
        "--render", type=pathlib.Path, metavar="FILE", help="write the page of these figures, then stop"
    )
    parser.add_argument("--markdown", type=pathlib.Path, default=ROOT / "docs/performance_dilated.md", metavar="FILE")
    arguments = parser.parse_args()
    arguments.tessera = arguments.tessera.resolve()
    unknown = [peer for peer in arguments.peers if peer not in TITLES]
    if unknown:
        parser.error(f"unknown {', '.join(unknown)}; known: {', '.join(TITLES)}")
    if max(arguments.threads) > len(os.sched_getaffinity(0)):
        parser.error(f"{max(arguments.threads)} threads on {len(os.sched_getaffinity(0))} cores")
    return arguments


def write_model(path, channels, size, dilation):
    import models

    shape, kernel = [1, channels, size, size], models.normal(channels, channels, 3, 3)
    models.one_node(path, "Conv", shape, kernel, pads=[dilation] * 4, dilations=[dilation, dilation])


def tessera_ms(arguments, path, inputs, threads):
    words = ["bench", path, "--inputs", inputs, "--threads", threads, "--precision", arguments.precision]
    words += ["--runs", 5, "--seconds", arguments.seconds, "--json"]
    command = [str(word) for word in [arguments.tessera, *words]]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["min_ms"]


def tessera_output(arguments, path, inputs, folder):
    import numpy as np

    target = folder / "outputs.npz"
    command = [arguments.tessera, "run", path, "--inputs", inputs, "--outputs", target]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    with np.load(target) as file:
        return file["y"]


def engine_of(name, path, feeds, threads, precision):
    """A peer that is ready to run; its first runs settle what it allocates."""
    import engines

    kind = {"onnxruntime": engines.OnnxRuntime, "openvino": engines.OpenVino}[name]
    job = {"model": str(path), "threads": threads, "precision": precision, "fixed_outputs": True}
    engine = kind(job)
    engine.load()
    engine.bind(feeds)
    engine.run()
    engine.settle()
    engine.run()
    return engine


def peer_ms(engine, seconds):
    best, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        engine.run()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def measure(arguments, case, folder):
    """One case: the best time of each program in each round, and how far the peers' outputs are from Tessera's."""
    import numpy as np

    channels, size, dilation, threads = case
    path, inputs = folder / "model.onnx", folder / "inputs.npz"
    write_model(path, channels, size, dilation)
    feeds = {"x": np.random.default_rng(11).normal(0, 1, (1, channels, size, size)).astype(np.float32)}
    np.savez(inputs, **feeds)
    expected = tessera_output(arguments, path, inputs, folder)
    names = ("channels", "size", "dilation", "threads")
    cell = {**dict(zip(names, case)), "tessera_ms": [], "peers": {}}
    running = {}
    for peer in arguments.peers:
        try:
            running[peer] = engine_of(peer, path, feeds, threads, arguments.precision)
        except Exception as problem:  # a peer without the mode, or that is not there
            cell["peers"][peer] = {"problem": str(problem)}
            continue
        difference = np.linalg.norm(running[peer].outputs()[0] - expected) / np.linalg.norm(expected)
        cell["peers"][peer] = {"ms": [], "difference": float(difference)}
    for _ in range(arguments.rounds):
        cell["tessera_ms"].append(tessera_ms(arguments, path, inputs, threads))
        for peer, engine in running.items():
            cell["peers"][peer]["ms"].append(peer_ms(engine, arguments.seconds))
    for found in cell["peers"].values():
        if "ms" in found:
            found["ratio"] = statistics.median(theirs / ours for theirs, ours in zip(found["ms"], cell["tessera_ms"]))
    return cell


def ratio_of(cell, peer):
    return cell["peers"].get(peer, {}).get("ratio")


def mean(cells, peer):
    ratios = [ratio_of(cell, peer) for cell in cells if ratio_of(cell, peer)]
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None


def row(cell, names):
    ratios = " ".join(f"{ratio_of(cell, peer):>12.2f}" if ratio_of(cell, peer) else f"{'-':>12}" for peer in names)
    start = f"{cell['channels']:>8} {cell['size']:>5} {cell['dilation']:>8} {cell['threads']:>7}"
    return f"{start} {min(cell['tessera_ms']):>11.3f} {ratios}"


def markdown(figures):
    cells, names = figures["cells"], figures["peers"]
    lines = [
        "# Dilated convolutions on small maps",
        "",
        "Written by `bench/dilated.py --render`; do not edit. `bench/dilated.py --help` says how to measure it again.",
        "",
        f"{figures['machine']}; {figures['date']}; {figures['precision']}; " +
        ", ".join(f"{name} {version}" for name, version in figures["versions"].items()) +
        f"; load average at the start {figures['load']:.1f}.",
        "",
        "A convolution of 3 × 3 with as many outputs as inputs. Ratio = the peer's time / Tessera's: above 1 Tessera "
        "is",
        f"faster. Shortest runs of {figures['rounds']} interleaved rounds; the median of the rounds' ratios.",
        "",
        *[
            f"- {TITLES[peer]}: geometric mean {mean(cells, peer) or math.nan:.2f}, least "
            f"{min((ratio_of(cell, peer) for cell in cells if ratio_of(cell, peer)), default=math.nan):.2f}"
            for peer in names
        ],
        "",
    ]
    dilations = sorted({cell["dilation"] for cell in cells})
    for threads in sorted({cell["threads"] for cell in cells}):
        lines += [
            f"## {threads} thread{'s' * (threads > 1)}",
            "",
            "Tessera's time in ms (" + ", ".join(f"ratio to {TITLES[peer]}" for peer in names) + "), by dilation.",
            "",
        ]
        lines += ["| channels | map | " + " | ".join(map(str, dilations)) + " |", "|---|---|" + "---|" * len(dilations)]
        of_threads = [cell for cell in cells if cell["threads"] == threads]
        for channels, size in sorted({(cell["channels"], cell["size"]) for cell in of_threads}):
            entries = []
            for dilation in dilations:
                found = [
                    cell
                    for cell in of_threads
                    if (cell["channels"], cell["size"], cell["dilation"]) == (channels, size, dilation)
                ]
                ratios = ", ".join(f"{ratio_of(cell, peer) or math.nan:.2f}" for cell in found for peer in names)
                entries.append(f"{min(found[0]['tessera_ms']):.3f} ({ratios})" if found else "")
            lines.append(f"| {channels} | {size}×{size} | " + " | ".join(entries) + " |")
        lines.append("")
    return "\n".join(lines)


def main():
    arguments = parse()
    if arguments.render:
        arguments.markdown.write_text(markdown(json.loads(arguments.render.read_text())))
        return 0
    if all(importlib.util.find_spec(name) for name in ["onnx", *arguments.peers]):
        sys.path.insert(0, str(ROOT / "bench" / "peer_tools"))
    else:
        peers.enter_venv()
    from importlib import metadata

    shown = subprocess.run([arguments.tessera, "--version"], check=True, capture_output=True, text=True).stdout
    shown = shown.splitlines()
    versions = {"Tessera": shown[0].removeprefix("tessera ")}
    versions.update((TITLES[peer], metadata.version(peer)) for peer in arguments.peers)
    figures = {
        "machine": shown[1].removeprefix("machine: "),
        "date": datetime.date.today().isoformat(),
        "precision": arguments.precision,
        "versions": versions,
        "load": os.getloadavg()[0],
        "rounds": arguments.rounds,
        "peers": arguments.peers,
        "cells": [],
    }
    if figures["load"] > 0.3:
        print(f"dilated: the machine is not quiet: load average {figures['load']:.2f}", file=sys.stderr)
    print("channels   map dilation threads  tessera ms " + " ".join(f"{peer:>12}" for peer in arguments.peers))
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="tessera-dilated-") as folder:
        for threads in arguments.threads:
            os.sched_setaffinity(0, cores[:threads])
            for channels in arguments.channels:
                for size in arguments.maps:
                    for dilation in arguments.dilations:
                        cell = measure(arguments, (channels, size, dilation, threads), pathlib.Path(folder))
                        figures["cells"].append(cell)
                        print(row(cell, arguments.peers), flush=True)
                        if arguments.json:
                            arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    for peer in arguments.peers:
        print(f"{peer}: geometric mean of the ratios {mean(figures['cells'], peer) or math.nan:.2f}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
