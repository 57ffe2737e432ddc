#!/usr/bin/env python3
"""A realtime model beside a training that fills the machine: what the one loses of its latency, and the other of what
the first leaves.

  bench/share/colocate.py [--json] [--model FILE|NET] [--train NET] [--policy NAME] [--requests N] [--rounds N]
                          [--peers]

Requests arrive as a Poisson process at --load (0.3) of what the model could answer, whether or not those before are
answered; latency counts from the moment at which a request was due. Phases (realtime alone, training alone, both) take
turns, with the same arrivals. Measured in one process (an Arbiter) and in two (tessera share daemon, share run). What
is missing in build/release is built. One JSON object on standard output:

  p99_alone_ms, p99_colocated_ms, p99_ratio, p50_ratio   of the realtime model
  background_alone, background_colocated                 steps of training a second
  background_share_of_leftover                           colocated / (alone * (1 - u)), where u is the part of the cores
                                                         that the realtime model keeps busy alone

for two processes at the top, the same keys for one under "one_process". With --peers, the same pair of onnxruntime and
PyTorch (bench/peers.py --setup installs them) under "peers" as they are started plainly, and under "peers.settings"
for each way to tell the operating system which is more important: nice 19, SCHED_IDLE, and control groups with the
least weight and for idle time where the system has them. All in less than ten minutes. Figures of a machine that does
other work beside say little: idle_share_colocated and background_processor_ms_a_step help to see where time goes."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from built import ensure_built  # noqa: E402

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


def rounds_of(options, run_ms):
    """So many rounds, of so many requests each, fit the time: a slow model's phases are cut into shorter ones."""
    phase_s = options.requests * run_ms / options.load / 1e3
    measurements = (options.only is None) + 1 + options.peers * len(PEER_SETTINGS)
    if 3 * phase_s * options.rounds * measurements < options.budget_s:
        return options.rounds, options.requests
    fitting = int(options.budget_s / measurements / 5 * 1e3 * options.load / run_ms)
    return 2, max(100, min(options.requests // 2, fitting))


def machine_idle_s():
    """Of all cores together, since the machine started."""
    with open("/proc/stat", encoding="utf-8") as file:
        fields = file.readline().split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


class Span:
    """What a training does, and how long the machine idles, from here on."""
    def __init__(self, training):
        self.training, self.first, self.idle_s = training, training.ask("steps"), machine_idle_s()
        self.begin = time.monotonic()

    def end(self):
        last = self.training.ask("steps")
        return {"steps": last["steps"] - self.first["steps"], "idle_s": machine_idle_s() - self.idle_s,
                "processor_s": last.get("processor_s", 0) - self.first.get("processor_s", 0),
                "seconds": time.monotonic() - self.begin}


def total(spans, key):
    return sum(span[key] for span in spans)


def measure(service, training, options, run_ms):
    rate = 1e3 * options.load / run_ms
    rounds, requests = rounds_of(options, run_ms)
    latencies_alone, latencies_beside, phases_alone = [], [], []
    training_alone, training_beside = [], []
    for number in range(rounds):
        serve = f"serve poisson {requests} {rate} {11 + number}"
        training.ask("pause")
        time.sleep(0.2)
        quiet = service.ask(serve)
        latencies_alone += quiet["latencies_ms"]
        phases_alone.append(quiet)
        training.ask("go")
        time.sleep(0.2)
        span = Span(training)
        time.sleep(min(max(2.0, quiet["seconds"]), 15.0))
        training_alone.append(span.end())
        span = Span(training)
        loaded = service.ask(serve)
        training_beside.append(span.end())
        latencies_beside += loaded["latencies_ms"]
    utilisation = total(phases_alone, "processor_s") / total(phases_alone, "seconds") / CORES
    background_alone = total(training_alone, "steps") / total(training_alone, "seconds")
    background_beside = total(training_beside, "steps") / total(training_beside, "seconds")
    result = {
        "run_ms": run_ms,
        "requests": len(latencies_alone),
        "p50_alone_ms": percentile(latencies_alone, 0.5),
        "p50_colocated_ms": percentile(latencies_beside, 0.5),
        "p99_alone_ms": percentile(latencies_alone, 0.99),
        "p99_colocated_ms": percentile(latencies_beside, 0.99),
        "p99_ratio": percentile(latencies_beside, 0.99) / percentile(latencies_alone, 0.99),
        "p50_ratio": percentile(latencies_beside, 0.5) / percentile(latencies_alone, 0.5),
        "utilisation": utilisation,
        "background_alone": background_alone,
        "background_colocated": background_beside,
        "background_share_of_leftover": background_beside / (background_alone * (1 - utilisation)),
        "idle_share_colocated": total(training_beside, "idle_s") / total(training_beside, "seconds") / CORES,
    }
    if service is not training and "processor_s" in training.ask("steps"):  # spinning is part of it
        result["background_processor_ms_a_step"] = {
            name: 1e3 * total(spans, "processor_s") / max(1, total(spans, "steps"))
            for name, spans in (("alone", training_alone), ("colocated", training_beside))}
    return result


def one_process(options, dims):
    worker = Worker(WORKER, "both", options.model, options.train, "--policy", options.policy, *dims)
    run_ms = worker.ask("time")["run_ms"]
    result = measure(worker, worker, options, run_ms)
    result["prediction_error"] = {job["name"]: job["prediction_error"] for job in worker.ask("report")["jobs"]}
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


# How the operating system is told that the training is less important.
PEER_SETTINGS = {
    "plain": None,
    "nice_19": lambda: os.nice(19),
    "sched_idle": lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)),
    "cgroup_least_weight": lambda: join_group(least_weight=True),
    "cgroup_idle": lambda: join_group(least_weight=False),
}


def peers(options, dims):
    """onnxruntime serves while PyTorch trains, by what the operating system offers. The keys of the plain pair, and all
    settings by name."""
    if not PEER_PYTHON.exists():
        sys.exit("colocate: --peers needs onnxruntime and PyTorch; bench/peers.py --setup installs them")
    results = {}
    script = pathlib.Path(__file__).with_name("peer_worker.py")
    for name, prepare in PEER_SETTINGS.items():
        if name.startswith("cgroup") and group_parent() is None:
            results[name] = "this system lets nobody make control groups for processors"
            continue
        training = Worker(PEER_PYTHON, script, "train", prepare=prepare)
        service = Worker(PEER_PYTHON, script, "serve", options.model, *dims)
        run_ms = service.ask("time")["run_ms"]
        results[name] = measure(service, training, options, run_ms)
        service.close()
        training.close()
    return {**results["plain"], "settings": results}


def group_parent():
    """The folder below which a control group for processors can be made and the version of its interface, or None."""
    found = None
    for line in open("/proc/self/mounts", encoding="utf-8"):
        _, place, kind, options = line.split()[:4]
        place = pathlib.Path(place)
        control = place / "cgroup.subtree_control"
        if not os.access(place, os.W_OK):
            continue
        if kind == "cgroup2" and control.exists() and "cpu" in control.read_text().split():
            return place, 2
        if kind == "cgroup" and "cpu" in options.split(","):
            found = place, 1
    return found


def join_group(least_weight):
    parent, version = group_parent()
    group = parent / f"tessera-peer-{os.getpid()}"
    group.mkdir()
    if not least_weight:
        (group / "cpu.idle").write_text("1")
    elif version == 2:
        (group / "cpu.weight").write_text("1")
    else:
        (group / "cpu.shares").write_text("2")
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
    parser.add_argument("--rounds", type=int, default=2, help="of phases")
    parser.add_argument("--budget-s", type=float, default=540, help="a slow model's phases are shortened to fit in")
    parser.add_argument("--only", choices=("one", "two"), help="measure in one process or in two only")
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    if "." in options.model and not pathlib.Path(options.model).exists():
        sys.exit(f"colocate: there is no {options.model}; scripts/fetch_models.py fetches it, or name another --model")
    ensure_built(WORKER, TESSERA)
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
