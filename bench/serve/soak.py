#!/usr/bin/env python3
"""A server under overload for a long time: do its promises hold, and does anything grow?

  bench/serve/soak.py [--minutes 60] [--seed 1] [--goal-ms 200] [--overload 3] [--json FILE]

A client sends requests for one model (resnet18_cifar, which has a goal for its latency) at three times the rate that
the server answered in a closed loop, whether or not answers come (bench/serve/load.cpp). Beside it, four clients ask
two small models and check every number, and about once a second something happens to the models (exchange, reload,
unload, damaged version) or a client misbehaves (slow, vanishing, deaf, or sending garbage). Every five seconds the
server's resident memory, threads and open files are noted.

Exits with 1 if an answer was lost, stale or wrong, if anything but 200, 503 or 504 was answered to the overload, and,
except with --without-bounds, if 504 (the deadline passed in the queue) was the answer to more than 2% of the accepted
requests, if the median of the 99th percentiles of accepted requests is over the goal, if the resident memory of the
run's last three quarters grows by more than --slope MiB an hour, or if threads or open files do.
"""
import argparse
import json
import pathlib
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

from programs import add_program_options, prepare
from traffic import serving
from trial import Trial

MODEL = "resnet18_cifar"
SIZES = [1, 3, 32, 32]
SAMPLE_S = 5
BURST_FIGURES = ("p50_us", "p99_us", "max_us", "per_second", "statuses", "lateness")


class Overload:
    """Runs the client of the overload again and again, in a thread of its own."""
    def __init__(self, load, port, folder, burst_s):
        pixels = b"".join(struct.pack("<f", i % 17 / 17) for i in range(3 * 32 * 32))
        head = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": SIZES,
                                       "parameters": {"binary_data_size": len(pixels)}}],
                           "parameters": {"binary_data_output": True}}).encode()
        (folder / "request").write_bytes(head + pixels)
        self.command = [load, "127.0.0.1", str(port), f"/v2/models/{MODEL}/infer", folder / "request", "--json-bytes",
                        str(len(head))]
        self.burst_s = burst_s  # of one run of the client
        self.rate, self.bursts, self.stops, self.failure = 0, [], threading.Event(), None
        self.is_paused = False  # since the current run of the client began
        self.thread = threading.Thread(target=self.repeat)

    def run(self, *arguments):
        done = subprocess.run([*self.command, *arguments], capture_output=True, text=True, check=True, timeout=600)
        return json.loads(done.stdout)

    def start(self, times):
        """Measures what the server can answer, and sends `times` as many requests from here on."""
        self.rate = times * self.run("--loops", "16", "--seconds", str(self.burst_s))["per_second"]
        self.thread.start()

    def repeat(self):
        try:
            while not self.stops.is_set():
                self.is_paused = False
                begin = time.monotonic()
                burst = self.run("--rate", f"{self.rate:.1f}", "--seconds", str(self.burst_s))
                # Of a run that was stopped for a while, latencies and requests without an answer say nothing.
                if not self.is_paused:
                    self.bursts.append({"begin_s": begin, **burst})
        except (subprocess.SubprocessError, ValueError) as error:
            self.failure = f"the client of the overload: {error}"

    def end(self):
        self.stops.set()
        if self.thread.ident is not None:
            self.thread.join()


class Soak(Trial):
    EVENTS = (Trial.exchange, Trial.reload, Trial.hang_up_signal, Trial.broken_version, Trial.unload,
              Trial.slow_clients, Trial.vanishing_clients, Trial.vanishing_grpc_clients, Trial.deaf_client,
              Trial.garbage)

    def __init__(self, options, folder):
        version = folder / "models" / MODEL / "1"
        version.mkdir(parents=True)
        subprocess.run([options.program, "new", MODEL, "-o", version / "model.onnx"], check=True,
                       stdout=subprocess.DEVNULL)
        (version.parent / "config.toml").write_text(f"max_batch_size = 8\ngoal_ms = {options.goal_ms}\n")
        super().__init__(options.program, folder, folder, options.seed)
        self.overload = Overload(options.load, self.ports["http"], folder, min(10, 10 * options.minutes))
        self.samples, self.events, self.pauses, self.history, self.began_s = [], 0, 0, [], 0
        # Who stops all processes for a while, and has them go on, must not be told that requests were lost by it.
        signal.signal(signal.SIGCONT, lambda *_: self.note_pause())

    def note_pause(self):
        self.pauses += 1
        with self.traffic.allow("paused"):
            pass
        self.overload.is_paused = True

    def sample(self, begin):
        process = pathlib.Path(f"/proc/{self.server.process.pid}")
        self.samples.append({"second": time.monotonic() - begin, "resident_bytes": self.server.resident_bytes(),
                             "threads": len(list((process / "task").iterdir())),
                             "files": len(list((process / "fd").iterdir()))})

    def run(self, seconds, overload):
        self.traffic.wait_for_all()
        self.overload.start(overload)
        begin = self.began_s = time.monotonic()
        while time.monotonic() - begin < seconds and not (self.failures or self.traffic.wrong or self.overload.failure):
            if time.monotonic() - begin >= SAMPLE_S * len(self.samples):
                self.sample(begin)
            event = self.random.choice(self.EVENTS)
            self.history.append((time.monotonic(), event.__name__))
            event(self)
            self.feed_slow()
            self.events += 1
            time.sleep(self.random.uniform(0, 1))
        self.overload.end()
        if self.traffic.wait_for_all() is None:
            self.failures.append("a client waits for an answer at the end")
        self.end()


def growth_per_hour(samples, key):
    """The slope of the straight line through the last three quarters of the samples, by least squares."""
    kept = samples[len(samples) // 4:]
    if len(kept) < 3:
        return 0.0
    return statistics.linear_regression([one["second"] / 3600 for one in kept], [one[key] for one in kept]).slope


def out_of_bounds(options, trial, statuses, p99_ms, slope):
    failures = []
    if statuses.get("504", 0) > statuses.get("200", 0) / 50:
        failures.append(f"{statuses['504']} requests were accepted and then too late, of {statuses.get('200', 0)}")
    if statistics.median(p99_ms) > options.goal_ms:
        failures.append(f"the 99th percentile of accepted requests is {statistics.median(p99_ms):.0f} ms, expected "
                        f"{options.goal_ms} ms at most")
    if slope > options.slope:
        failures.append(f"resident memory grows by {slope:.1f} MiB an hour, expected {options.slope} at most")
    for key in ("threads", "files"):
        kept = [one[key] for one in trial.samples[len(trial.samples) // 4:]]
        half = len(kept) // 2
        if half and max(kept[half:]) > 1.2 * max(kept[:half]) + 10:  # slow clients come and go by the dozen
            failures.append(f"the number of {key} grows: {kept}")
    return failures


def summary(options, trial):
    statuses, failures = {}, trial.failures + trial.traffic.wrong[:20]
    for burst in trial.overload.bursts:
        for status, count in burst["statuses"].items():
            statuses[status] = statuses.get(status, 0) + count
    if trial.overload.failure:
        failures.append(trial.overload.failure)
    if set(statuses) - {"200", "503", "504"}:
        failures.append(f"the overload was answered with {statuses}, expected 200, 503 and a few 504 alone")
    p99_ms = [burst["p99_us"] / 1000 for burst in trial.overload.bursts] or [0]
    resident = [one["resident_bytes"] >> 20 for one in trial.samples]
    slope = growth_per_hour(trial.samples, "resident_bytes") / (1 << 20)
    if not options.without_bounds:
        failures += out_of_bounds(options, trial, statuses, p99_ms, slope)
    return {"minutes": trial.samples[-1]["second"] / 60, "events": trial.events, "pauses": trial.pauses,
            "requests": dict(trial.traffic.counts), "slowest_answer_s": trial.traffic.slowest_s,
            "overload_per_second": trial.overload.rate, "overload_statuses": statuses,
            "accepted_per_second": statistics.median([burst["per_second"] for burst in trial.overload.bursts] or [0]),
            "accepted_p99_ms": {"median": statistics.median(p99_ms), "most": max(p99_ms)},
            "resident_mib": {"first": resident[0], "quarter": resident[len(resident) // 4], "last": resident[-1],
                             "most": max(resident), "an_hour": slope},
            "threads": trial.samples[-1]["threads"], "files": max(one["files"] for one in trial.samples),
            "samples": trial.samples, "failures": failures,
            # Latency counts from when a request was due: what its client sent it late by is in it.
            "sent_late_p99_ms": statistics.median([burst["lateness"]["p99_us"] / 1000
                                                   for burst in trial.overload.bursts] or [0]),
            "bursts": [{"second": burst["begin_s"] - trial.began_s, **{key: burst[key] for key in BURST_FIGURES}}
                       for burst in trial.overload.bursts],
            "history": [(at - trial.began_s, name) for at, name in trial.history]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--goal-ms", type=int, default=200)
    parser.add_argument("--overload", type=float, default=3, help="times the rate that the server can answer")
    parser.add_argument("--slope", type=float, default=8, help="MiB an hour that resident memory may grow by")
    parser.add_argument("--without-bounds", action="store_true", help="for a run of seconds: judge answers alone")
    add_program_options(parser)
    options = parser.parse_args()
    prepare(options)
    serving.program = options.program
    with tempfile.TemporaryDirectory() as name:
        trial = Soak(options, pathlib.Path(name))
        try:
            trial.run(60 * options.minutes, options.overload)
        finally:
            trial.kill()
            trial.overload.end()
        found = summary(options, trial)
    if options.json:
        options.json.write_text(json.dumps(found))
    for key, value in found.items():
        if key not in ("samples", "failures", "bursts", "history"):
            print(f"{key}: {value}")
    for failure in found["failures"]:
        print("soak: " + failure, file=sys.stderr)
    sys.exit(1 if found["failures"] else 0)


if __name__ == "__main__":
    main()
