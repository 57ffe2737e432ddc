#!/usr/bin/env python3
"""A realtime model beside a training that fills the machine: what the one loses of its latency, and the other of what
the first leaves.

  bench/share/colocate.py [--json] [--model FILE|NET] [--train NET] [--policy NAME] [--requests N] [--rounds N]
                          [--peers]

Requests arrive as a Poisson process at --load (0.3) of what the model could answer, whether or not those before are
answered; latency counts from the moment at which a request was due. Phases (realtime alone, training alone, both) take
turns, with the same arrivals. Measured in one process (an Arbiter) and in two (tessera share daemon, share run). Needs
bench_colocate and tessera in build/release. One JSON object on standard output:

  p99_alone_ms, p99_colocated_ms, p99_ratio, p50_ratio   of the realtime model
  background_alone, background_colocated                 steps of training a second
  background_share_of_leftover                           colocated / (alone * (1 - u)), where u is the part of the cores
                                                         that the realtime model keeps busy alone

for two processes at the top, the same keys for one under "one_process". With --peers, the same pair of onnxruntime and
PyTorch (bench/peers.py --setup installs them) under "peers": plain, nice 19, SCHED_IDLE, and cgroup weights where the
system has them. Figures of a machine that does other work beside say little."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
WORKER = BUILD / "bench/bench_colocate"
TESSERA = BUILD / "apps/tessera/tessera"
PEER_PYTHON = ROOT / ".venv-peers/bin/python"
CORES = len(os.sched_getaffinity(0))


class Worker:
    """A process that answers each line with a line of JSON."""
    def __init__(self, *command, prepare=None):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, preexec_fn=prepare)

    def ask(self, line):
        self.say(line)
        return self.answer()

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"colocate: {self.process.args} ended with {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def percentile(values, part):
    return sorted(values)[int(part * (len(values) - 1))]


def measure(service, training, options, run_ms):
    rate = 1e3 * options.load / run_ms
    alone, beside = [], []
    busy_s = alone_s = steps_alone = training_s = steps_beside = beside_s = 0
    for number in range(options.rounds):
        serve = f"serve poisson {options.requests} {rate} {11 + number}"
        training.ask("pause")
        time.sleep(0.2)
        quiet = service.ask(serve)
        alone += quiet["latencies_ms"]
        alone_s += quiet["seconds"]
        busy_s += quiet["processor_s"]
        first = training.ask("go")["steps"]
        time.sleep(0.2)
        first, begin = training.ask("steps")["steps"], time.monotonic()
        time.sleep(max(2.0, quiet["seconds"]))
        steps_alone += training.ask("steps")["steps"] - first
        training_s += time.monotonic() - begin
        first, begin = training.ask("steps")["steps"], time.monotonic()
        loaded = service.ask(serve)
        steps_beside += training.ask("steps")["steps"] - first
        beside_s += time.monotonic() - begin
        beside += loaded["latencies_ms"]
    utilisation = busy_s / alone_s / CORES
    background_alone, background_beside = steps_alone / training_s, steps_beside / beside_s
    return {
        "run_ms": run_ms,
        "requests": len(alone),
        "p50_alone_ms": percentile(alone, 0.5),
        "p50_colocated_ms": percentile(beside, 0.5),
        "p99_alone_ms": percentile(alone, 0.99),
        "p99_colocated_ms": percentile(beside, 0.99),
        "p99_ratio": percentile(beside, 0.99) / percentile(alone, 0.99),
        "p50_ratio": percentile(beside, 0.5) / percentile(alone, 0.5),
        "utilisation": utilisation,
        "background_alone": background_alone,
        "background_colocated": background_beside,
        "background_share_of_leftover": background_beside / (background_alone * (1 - utilisation)),
    }


def one_process(options, dims):
    worker = Worker(WORKER, "both", options.model, options.train, "--policy", options.policy, *dims)
    run_ms = worker.ask("time")["run_ms"]
    result = measure(worker, worker, options, run_ms)
    worker.close()
    return result


def two_processes(options, dims):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "share.sock"
        lone = Worker(WORKER, "serve", options.model, *dims)
        run_ms = statistics.median(lone.ask("time")["run_ms"] for _ in range(3))
        lone.close()
        workers = []
        daemon = subprocess.Popen([TESSERA, "share", "daemon", "--socket", path, "--policy", options.policy],
                                  stderr=subprocess.DEVNULL)
        try:
            while not path.exists():
                time.sleep(0.01)
            run = (TESSERA, "share", "run", "-q", "--socket", path, "--class")
            training = Worker(*run, "background", "--", WORKER, "train", options.train)
            service = Worker(*run, "realtime", "--goal", 2 * run_ms, "--", WORKER, "serve", options.model, *dims)
            workers += [training, service]
            service.ask("time")
            result = measure(service, training, options, run_ms)
            status = subprocess.run([TESSERA, "share", "status", "--json", "--socket", path], stdout=subprocess.PIPE,
                                    check=True).stdout
            result["prediction_error"] = {job["name"] + " " + job["class"]: job["prediction_error"]
                                          for job in json.loads(status)["jobs"]}
            return result
        finally:
            for worker in workers:
                worker.close()
            daemon.terminate()
            daemon.wait()


def peers(options, dims):
    """onnxruntime serves while PyTorch trains, by what the operating system offers."""
    if not PEER_PYTHON.exists():
        sys.exit("colocate: --peers needs onnxruntime and PyTorch; bench/peers.py --setup installs them")
    idle = getattr(os, "SCHED_IDLE", None)
    settings = {"plain": None, "nice_19": lambda: os.nice(19)}
    if idle is not None:
        settings["sched_idle"] = lambda: os.sched_setscheduler(0, idle, os.sched_param(0))
    settings["cgroup_weight_1"] = lambda: join_group(1)
    results = {}
    script = pathlib.Path(__file__).with_name("peer_worker.py")
    for name, prepare in settings.items():
        if name.startswith("cgroup") and group_parent() is None:
            results[name] = "this system lets nobody make control groups with cpu weights"
            continue
        training = Worker(PEER_PYTHON, script, "train", prepare=prepare)
        service = Worker(PEER_PYTHON, script, "serve", options.model, *dims)
        run_ms = service.ask("time")["run_ms"]
        results[name] = measure(service, training, options, run_ms)
        service.close()
        training.close()
    return results


def group_parent():
    """The folder below which a control group with a cpu weight can be made, or None."""
    for line in open("/proc/self/mounts", encoding="utf-8"):
        _, place, kind = line.split()[:3]
        control = pathlib.Path(place) / "cgroup.subtree_control"
        writable = kind == "cgroup2" and control.exists() and os.access(place, os.W_OK)
        if writable and "cpu" in control.read_text().split():
            return pathlib.Path(place)
    return None


def join_group(weight):
    group = group_parent() / f"tessera-peer-{os.getpid()}"
    group.mkdir()
    (group / "cpu.weight").write_text(str(weight))
    (group / "cgroup.procs").write_text(str(os.getpid()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="accepted; the output is JSON in any case")
    parser.add_argument("--model", default=str(ROOT / ".models/minilm_int8/model.onnx"))
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--train", default="resnet18_cifar")
    parser.add_argument("--policy", default="fill")
    parser.add_argument("--load", type=float, default=0.3)
    parser.add_argument("--requests", type=int, default=1000, help="of each phase")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=("one", "two"), help="measure in one process or in two only")
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    if "." in options.model and not pathlib.Path(options.model).exists():
        sys.exit(f"colocate: there is no {options.model}; scripts/fetch_models.py fetches it, or name another --model")
    names = options.dim or (["sequence=32", "batch=1"] if "minilm" in options.model else [])
    dims = [word for name in names for word in ("--dim", name)]
    result = {"model": options.model, "train": options.train, "policy": options.policy, "cores": CORES,
              "load_of_machine": os.getloadavg()[0]}
    if options.only != "one":
        result.update(two_processes(options, dims))
    if options.only != "two":
        result["one_process"] = one_process(options, dims)
    if options.peers:
        result["peers"] = peers(options, dims)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
