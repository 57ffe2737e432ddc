#!/usr/bin/env python3
"""What the server's fronts add to a model: the p50 of perf_analyzer at concurrency 1, less the p50 in the process.

  bench/serve/front.py ROOT MODEL.onnx [--rounds 5] [--json FILE]

ROOT is a Debian trixie root with perf_analyzer in it (bench/serve/perf_analyzer.sh makes one). The model is run in the
process (`tessera bench`), and asked over HTTP and gRPC, in turn; medians of the rounds count. On a machine whose speed
changes from second to second the difference of two medians says little, so each round also tells, for one and the same
requests, what lies around the model: the client's mean time less the server's mean time in the model. A run that
follows a pause of the client may itself take longer than one that follows a run at once; that part is in the first
figure alone.

What client, sockets and the waking of threads take whatever serves is shown by a server over HTTP that parses nothing
and spins for as long as the model computes (bench/serve/replay.cpp): "bare".
"""
import argparse
import contextlib
import json
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import time

from programs import add_program_options, prepare, RELEASE

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "serve"))
import server as serving  # noqa: E402  pylint: disable=wrong-import-position

FIGURES = {"p50": r"p50 latency: (\d+) usec", "mean": r"Avg (?:HTTP|gRPC) time: (\d+) usec",
           "model": r"compute infer (\d+) usec"}


def perf_analyzer(root, protocol, port, model):
    """One short run: the client's p50 and mean, and the server's mean time in the model, in microseconds."""
    command = ["chroot", root, "/pa/perf_analyzer/bin/perf_analyzer", "-m", model, "-u", f"127.0.0.1:{port}",
               "-i", protocol, "--concurrency-range", "1", "-p", "700", "-r", "5", "-s", "999", "--percentile", "50"]
    for _ in range(5):  # on a busy machine it gives up at times
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        found = {name: re.search(pattern, done.stdout) for name, pattern in FIGURES.items()}
        if all(found.values()):
            return {name: int(match[1]) for name, match in found.items()}
    raise SystemExit(f"perf_analyzer says no p50:\n{done.stdout}{done.stderr}")


def in_process(program, model):
    done = subprocess.run([program, "bench", model, "--seconds", "0.5", "--runs", "50", "--json", "--dim", "batch=1"],
                          capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)["median_ms"] * 1000


@contextlib.contextmanager
def bare_server(program, other_port, compute_us):
    """The port of a server that spins in place of the model."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([program, str(port), str(other_port), f"{compute_us:.0f}"])
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.wait()


def measure(options):
    name, rounds = options.model.stem, []
    with serving.Server(options.model) as server:
        for _ in range(options.rounds):
            alone_us = in_process(options.program, options.model)
            one = {"in process": {"p50": alone_us}}
            for protocol in ("http", "grpc"):
                one[protocol] = perf_analyzer(options.root, protocol, server.ports[protocol], name)
            with bare_server(options.replay, server.port, alone_us) as port:
                one["bare"] = {**perf_analyzer(options.root, "http", port, name), "model": alone_us}
            for found in (one[key] for key in ("http", "grpc", "bare")):
                found["front"], found["around"] = found["p50"] - alone_us, found["mean"] - found["model"]
            rounds.append(one)
    return {key: {figure: statistics.median(one[key][figure] for one in rounds) for figure in rounds[0][key]}
            for key in rounds[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--replay", default=str(RELEASE / "bench/bench_serve_replay"))
    add_program_options(parser)
    options = parser.parse_args()
    prepare(options, options.replay)
    serving.program = options.program
    found = measure(options)
    if options.json:
        options.json.write_text(json.dumps(found))
    print(f"{options.model.stem}: {found['in process']['p50']:.0f} us in the process")
    for key in ("http", "grpc", "bare"):
        one = found[key]
        print(f"  {key}: p50 {one['p50']:.0f} us, {one['front']:.0f} more than in the process; around the model "
              f"{one['around']:.0f} us, in it {one['model']:.0f}")


if __name__ == "__main__":
    main()
