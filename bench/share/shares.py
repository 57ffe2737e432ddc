#!/usr/bin/env python3
"""Whether shares are kept: two jobs with 30 and 70 percent of the machine, and jobs with a hard bound.

  bench/share/shares.py [--json] [--seconds 6] [--program build/release/apps/tessera/tessera]

Soft shares: device time (of Tessera programs under a daemon with the policy fair) or processor time (of programs that
know nothing of Tessera) of the job with 30, in percent of both, measured while both want all cores. Hard shares: the
most processor time in any second, in percent of all cores. Uses the system's python3 and prints one JSON object:

  soft    for each pair: {"share_percent", "expected_percent", "error_points"}
  hard    for each program: {"bound_percent", "most_percent_in_a_second", "over_points"}
  how     how this system bounds programs without Tessera, as `tessera share run` says it"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORES = len(os.sched_getaffinity(0))
# Fills as many cores as it is told to, by as many processes, and says their numbers.
BUSY = "import os, sys\nfor _ in range(int(sys.argv[1]) - 1):\n  if os.fork() == 0: break\n" \
       "os.write(1, b'%d\\n' % os.getpid())\nwhile True: sum(range(1000))"


def processor_s(process):
    """Of all threads of a process so far (clock_getcpuclockid)."""
    return time.clock_gettime((~process << 3) | 2)


class Jobs:
    """Programs under `tessera share run` and the daemon that they attach to."""
    def __init__(self, program, folder, policy):
        self.program, self.socket, self.running = program, folder / "share.sock", []
        self.daemon = subprocess.Popen([program, "share", "daemon", "--socket", self.socket, "--policy", policy],
                                       stderr=subprocess.DEVNULL)
        self.running.append(self.daemon)
        while self.status() is None:
            time.sleep(0.02)

    def status(self):
        done = subprocess.run([self.program, "share", "status", "--json", "--socket", self.socket],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        return {job["name"]: job for job in json.loads(done.stdout)["jobs"]} if done.returncode == 0 else None

    def start(self, name, options, *command):
        process = subprocess.Popen([self.program, "share", "run", "--socket", self.socket, "--name", name, *options,
                                    "--", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.running.append(process)
        return process

    def close(self):
        for process in reversed(self.running):
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()


def soft(options, folder, models):
    """`models`: of the jobs with 30 and 70."""
    jobs = Jobs(options.program, folder, "fair")
    try:
        for share, model in zip((30, 70), models):
            jobs.start(str(share), ("-q", "--share", str(share)), options.program, "bench", model, "--seconds", 1000)
        while any(jobs.status().get(name, {}).get("runs", 0) < 3 for name in ("30", "70")):
            time.sleep(0.05)
        before = jobs.status()
        time.sleep(options.seconds)
        after = jobs.status()
        had = {name: after[name]["device_s"] - before[name]["device_s"] for name in after}
        errors = {name: after[name]["prediction_error"] for name in after}
        return {**portion(had["30"], had["70"]), "prediction_error": errors}
    finally:
        jobs.close()


def portion(small, large):
    share = 100 * small / (small + large)
    return {"share_percent": share, "expected_percent": 30, "error_points": abs(share - 30)}


def start_busy(jobs, name, options):
    """A program without Tessera, and its processes."""
    program = jobs.start(name, options, sys.executable, "-c", BUSY, CORES)
    return program, [int(program.stdout.readline()) for _ in range(CORES)]


def soft_foreign(options, folder):
    jobs = Jobs(options.program, folder, "fair")
    processes = []
    try:
        for share in ("30", "70"):
            processes.append(start_busy(jobs, share, ("-q", "--share", share))[1])
        time.sleep(0.5)
        before = [sum(map(processor_s, each)) for each in processes]
        time.sleep(options.seconds)
        return portion(*(sum(map(processor_s, each)) - first for each, first in zip(processes, before)))
    finally:
        end(processes)
        jobs.close()


def end(processes):
    for process in sum(processes, []):
        try:
            os.kill(process, 9)
        except ProcessLookupError:
            pass


def most_in_a_second(processes, seconds):
    """In percent of all cores, from samples of which each window of a second has its first and last."""
    samples, end_s = [], time.monotonic() + seconds
    while time.monotonic() < end_s:
        at = time.monotonic()
        used = sum(map(processor_s, processes))
        if time.monotonic() < at + 0.002:  # nothing came between the readings
            samples.append((at, used))
        time.sleep(0.01)
    most, first = 0, 0
    for at, used in samples:
        while samples[first][0] < at - 1:
            first += 1
        if first > 0:
            begin, had = samples[first - 1]  # a little more than a second before
            most = max(most, (used - had) / (at - begin))
    return 100 * most / CORES


def hard(options, folder, model, percent):
    jobs = Jobs(options.program, folder, "fill")
    processes = []
    try:
        bound = ("--share", str(percent), "--hard")
        if model:
            program = jobs.start("bound", bound, options.program, "bench", model, "--seconds", 1000)
            watched = [program.pid]
        else:
            program, watched = start_busy(jobs, "bound", bound)
            processes.append(watched)
        most = most_in_a_second(watched, options.seconds)
        return {"bound_percent": percent, "most_percent_in_a_second": most, "over_points": most - percent,
                "how": program.stderr.readline().strip()}
    finally:
        end(processes)
        jobs.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="accepted; the output is JSON in any case")
    parser.add_argument("--seconds", type=float, default=6, help="of each measurement")
    parser.add_argument("--program", default=str(ROOT / "build/release/apps/tessera/tessera"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        short, long = folder / "short.onnx", folder / "long.onnx"
        for net, batch, path in (("mobilenet_v3_small", 1, short), ("resnet50", 4, long)):
            subprocess.run([options.program, "new", net, "-o", path, "--dim", f"batch={batch}"], check=True,
                           stdout=subprocess.DEVNULL)
        result = {"cores": CORES, "load_of_machine": os.getloadavg()[0], "soft": {
            "short_30_long_70": soft(options, folder, (short, long)),
            "long_30_short_70": soft(options, folder, (long, short)),
            "programs_without_tessera": soft_foreign(options, folder)}, "hard": {
            "tessera_30": hard(options, folder, short, 30),
            "tessera_60": hard(options, folder, long, 60),
            "program_without_tessera_30": hard(options, folder, None, 30)}}
    result["how"] = result["hard"]["program_without_tessera_30"].pop("how")
    for name in ("tessera_30", "tessera_60"):
        del result["hard"][name]["how"]
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
