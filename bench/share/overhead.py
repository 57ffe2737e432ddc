#!/usr/bin/env python3
"""What being a job costs a run that nobody disturbs: at most 1% of its time, or 20 µs, is the target.

  bench/share/overhead.py [--models NET,FILE,…] [--rounds N] [--runs N] [--json]

Runs of a session and runs of it as the only job of an arbiter of the same process take turns, one by one. With them a
process takes turns that `tessera share run` has attached to a daemon of which it is the only job, --runs runs at a
time, first or second. The median over --rounds rounds of the difference between the medians of a round counts. What
is missing in build/release is built."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from colocate import TESSERA, Worker, ensure_built

OVERHEAD = TESSERA.parents[2] / "bench/bench_overhead"


def measure(model, options, socket):
    alone = Worker(OVERHEAD, model)
    attached = Worker(TESSERA, "share", "run", "-q", "--socket", socket, "--", OVERHEAD, model)
    ways = {"both": lambda: alone.ask(f"both {options.runs}"),
            "attached": lambda: attached.ask(f"session {options.runs}")}
    for warm_up in ways.values():
        warm_up()
    session, job, process = [], [], []
    for number in range(options.rounds):
        order = list(ways) if number % 2 == 0 else list(reversed(ways))
        answer = {way: ways[way]() for way in order}
        session.append(answer["both"]["us"])
        job.append(answer["both"]["job_us"] - session[-1])
        process.append(answer["attached"]["us"] - session[-1])
    alone.close()
    attached.close()
    run_us = statistics.median(session)
    figures = {"model": str(model), "run_us": run_us}
    for name, differences in (("arbiter", job), ("process", process)):
        more_us = statistics.median(differences)
        figures[name + "_us"], figures[name + "_percent"] = more_us, 100 * more_us / run_us
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="lenet5,mobilenet_v3_small,resnet18_cifar")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ensure_built(OVERHEAD, TESSERA)
    with tempfile.TemporaryDirectory() as folder:
        socket = pathlib.Path(folder) / "share.sock"
        daemon = subprocess.Popen([TESSERA, "share", "daemon", "--socket", socket], stderr=subprocess.DEVNULL)
        try:
            while not socket.exists():
                time.sleep(0.01)
            figures = [measure(model, options, socket) for model in options.models.split(",")]
        finally:
            daemon.terminate()
            daemon.wait()
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    for each in figures:
        print(f"{each['model']:<22} run {each['run_us']:10.1f} µs   as a job {each['arbiter_us']:+7.2f} µs "
              f"({each['arbiter_percent']:+.2f}%)   attached {each['process_us']:+7.2f} µs "
              f"({each['process_percent']:+.2f}%)")


if __name__ == "__main__":
    main()
