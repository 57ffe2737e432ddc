#!/usr/bin/env python3
"""Two trainings that wait for their data more than half of the time: together they take little longer than one alone.

  bench/share/two_trainings.py [--json] [--policy LIST] [--steps N] [--batch N] [--busy 0.42]

Each training computes for --busy of its time alone and waits for the rest, as one whose data come slowly. For each
policy a daemon shares the machine between two such processes. What is missing in build/release is built.
Uses the system's python3 and prints one JSON object, with for each policy:

  part_of_sum        the time of both together over the sum of their times alone
  each_over_alone    the time of each together over its time alone
  queueing_ms_a_step how long each waited for its turn, in the mean, alone with the daemon and together"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from colocate import TESSERA, WORKER, Worker, ensure_built  # noqa: E402

NAMES = ("first", "second")


class Pair:
    """Two trainings under a daemon."""
    def __init__(self, policy, folder, options):
        self.socket = folder / f"{policy}.sock"
        self.daemon = subprocess.Popen([TESSERA, "share", "daemon", "--socket", self.socket, "--policy", policy],
                                       stderr=subprocess.DEVNULL)
        while not self.socket.exists():
            time.sleep(0.01)
        run = (TESSERA, "share", "run", "-q", "--socket", self.socket, "--class", "background", "--name")
        self.workers = [Worker(*run, name, "--", WORKER, "train", options.net, "--batch", options.batch)
                        for name in NAMES]

    def waited_s(self):
        status = subprocess.run([TESSERA, "share", "status", "--json", "--socket", self.socket],
                                stdout=subprocess.PIPE, check=True).stdout
        waited = {job["name"]: job["waited_s"] for job in json.loads(status)["jobs"]}
        return [waited[name] for name in NAMES]

    def train(self, workers, steps, wait_ms):
        """The seconds of each, and of all."""
        begin = time.monotonic()
        for worker in workers:
            worker.say(f"train {steps} {wait_ms}")
        each = [worker.answer()["seconds"] for worker in workers]
        return each, time.monotonic() - begin

    def measure(self, options):
        step_s = []
        for worker in self.workers:
            self.train([worker], 5, 0)
            step_s.append(self.train([worker], options.steps // 2, 0)[1] / (options.steps // 2))
        wait_ms = 1e3 * max(step_s) * (1 - options.busy) / options.busy
        first = self.waited_s()
        alone = [self.train([worker], options.steps, wait_ms)[1] for worker in self.workers]
        second = self.waited_s()
        each, both = self.train(self.workers, options.steps, wait_ms)
        third = self.waited_s()
        queueing = {name: [1e3 * (b - a) / options.steps for a, b in zip(before, after)]
                    for name, before, after in (("alone", first, second), ("together", second, third))}
        return {"step_ms": [1e3 * seconds for seconds in step_s], "wait_ms": wait_ms, "alone_s": alone,
                "together_s": both, "part_of_sum": both / sum(alone),
                "each_over_alone": [together / seconds for together, seconds in zip(each, alone)],
                "queueing_ms_a_step": queueing}

    def close(self):
        for worker in self.workers:
            worker.close()
        self.daemon.terminate()
        self.daemon.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="accepted; the output is JSON in any case")
    parser.add_argument("--policy", default="fifo,fair,iteration,headroom,fill,predictive", help="with commas between")
    parser.add_argument("--net", default="resnet18_cifar")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--busy", type=float, default=0.42, help="part of the time in which each computes alone")
    options = parser.parse_args()
    ensure_built(WORKER, TESSERA)
    result = {"net": options.net, "batch": options.batch, "steps": options.steps, "busy": options.busy,
              "load_of_machine": os.getloadavg()[0], "policies": {}}
    with tempfile.TemporaryDirectory() as folder:
        for policy in options.policy.split(","):
            pair = Pair(policy, pathlib.Path(folder), options)
            try:
                result["policies"][policy] = pair.measure(options)
            finally:
                pair.close()
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
