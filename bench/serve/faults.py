#!/usr/bin/env python3
"""Random faults under load: what becomes of requests while models are exchanged, the disk fills, clients misbehave, and
the server and the programs beside it are killed.

  bench/serve/faults.py [--faults 200] [--seed 1] [--program build/release/apps/tessera/tessera] [--each-once] [--json]

Four clients (HTTP; two of them gRPC where tritonclient can be imported) ask two models in closed loops and check every
number. A server is attached to a daemon of `tessera share` beside a trainer and a worker. After each fault every client
must be answered within --patience seconds. A request counts as lost when its connection ended without an answer while
the server lived; as stale when it was computed by a version older than the current one at the time it was sent. The
audit log, which records every inference, lies on a small file system of its own where this program may mount one (as
root); elsewhere a full disk is a limit on the size of files. Exits with 1 if anything was lost, stale, wrong or hung,
if the server needed more than --ready seconds after kill -9, or if the audit log's chain broke.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

from neighbours import QUIET, Neighbours
from traffic import serving
from trial import Trial

ROOT = pathlib.Path(__file__).resolve().parents[2]
DISK_BYTES = 256 << 20


def mount(folder):
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder], check=False, **QUIET)
    return done.returncode == 0


class Machine(Trial):
    """A server beside other programs; the disk of its audit log may fill, and all processes may be killed."""
    def __init__(self, options, folder, disk, is_mounted):
        self.options, self.is_mounted, self.ready_s = options, is_mounted, []
        self.neighbours = Neighbours(options.program, folder)
        os.environ.update(self.neighbours.environment)
        super().__init__(options.program, folder, disk, options.seed)

    @contextlib.contextmanager
    def no_space(self):
        if self.is_mounted:
            filling = self.records / "filling"
            with open(filling, "wb", buffering=0) as file:
                for size in (1 << 20, 4096, 1):
                    with contextlib.suppress(OSError):
                        while file.write(b"\0" * size) > 0:
                            pass
            try:
                yield
            finally:
                filling.unlink()
        else:
            process = self.server.process.pid
            _, most = resource.prlimit(process, resource.RLIMIT_FSIZE)
            resource.prlimit(process, resource.RLIMIT_FSIZE, (1, most))
            try:
                yield
            finally:
                resource.prlimit(process, resource.RLIMIT_FSIZE, (most, most))

    def full_disk(self):
        with self.traffic.allow("full"), self.no_space():
            until = time.monotonic() + 5 * serving.PATIENCE
            before = self.traffic.counts["refused"]
            while self.traffic.counts["refused"] == before:  # requests are refused, as they cannot be recorded …
                if time.monotonic() > until:
                    self.failures.append("nothing was refused while the disk was full")
                    return
                time.sleep(0.01)
            if self.server.ask("GET", "/v2/health/live")[0] != 200:  # … and what records nothing is answered
                self.failures.append("not alive while the disk was full")
            self.manage("load", self.repository.names[0], (503,))

    def kill_neighbour(self):
        name = self.random.choice(list(self.neighbours.processes))
        self.neighbours.processes[name].kill()
        self.neighbours.processes[name].wait()
        self.neighbours.start(name)

    def stop_neighbour(self):
        process = self.neighbours.processes[self.random.choice(list(self.neighbours.processes))]
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)

    def kill_daemon(self):
        self.neighbours.daemon.kill()
        self.neighbours.daemon.wait()
        time.sleep(self.random.uniform(0, 0.3))
        self.neighbours.start_daemon()

    def stop_server(self):
        self.server.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        self.server.process.send_signal(signal.SIGCONT)

    def kill_server(self):
        with self.traffic.allow("reset"):
            self.server.process.kill()
            begin = time.monotonic()
            self.server.stop()
            self.server.log.close()
            self.server.folder.cleanup()
            self.start_server()
            while self.server.ask("GET", "/v2/health/ready")[0] != 200:
                time.sleep(0.005)
            self.ready_s.append(time.monotonic() - begin)
        most = self.options.ready * serving.PATIENCE
        if self.ready_s[-1] > most:
            self.failures.append(f"ready {self.ready_s[-1]:.2f} s after kill -9, expected {most} s")
        self.check_audit("kill -9")

    FAULTS = (Trial.exchange, Trial.reload, Trial.hang_up_signal, Trial.broken_version, Trial.unload, full_disk,
              Trial.slow_clients, Trial.vanishing_clients, Trial.vanishing_grpc_clients, Trial.deaf_client,
              Trial.garbage, kill_neighbour, stop_neighbour, kill_daemon, stop_server, kill_server)

    def kill(self):
        super().kill()
        self.neighbours.end()


def run(options, folder):
    disk = folder / "disk"
    disk.mkdir()
    is_mounted = mount(disk)
    try:
        result = run_faults(options, Machine(options, folder, disk, is_mounted))
    finally:
        if is_mounted:
            subprocess.run(["umount", disk], check=False, **QUIET)
    return {**result, "full_disk_by": "tmpfs" if is_mounted else "limit on the size of files"}


def run_faults(options, trial):
    counts, slowest, most_resident = collections.Counter(), collections.defaultdict(float), 0
    faults = list(Machine.FAULTS) if options.each_once else [
        trial.random.choice(Machine.FAULTS) for _ in range(options.faults)]
    try:
        trial.traffic.wait_for_all()
        for fault in faults:
            fault(trial)
            trial.feed_slow()
            took = trial.traffic.wait_for_all(options.patience * serving.PATIENCE)
            if took is None:
                trial.failures.append(f"after {fault.__name__}, clients wait for more than {options.patience} s")
                break
            trial.failures += [f"after {fault.__name__}, the {name} has ended" for name in trial.neighbours.dead()]
            counts[fault.__name__] += 1
            slowest[fault.__name__] = max(slowest[fault.__name__], took)
            most_resident = max(most_resident, trial.server.resident_bytes())
            if trial.failures or trial.traffic.wrong:
                break
        trial.end()
    finally:
        trial.kill()
    trial.failures += trial.traffic.wrong[:20]
    return {"faults": sum(counts.values()), "requests": dict(trial.traffic.counts), "counts": counts,
            "slowest_recovery_s": slowest, "slowest_answer_s": trial.traffic.slowest_s,
            "ready_after_kill_s": trial.ready_s, "most_resident_mib": most_resident >> 20,
            "failures": trial.failures}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--each-once", action="store_true", help="each kind of fault once, instead of random ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=30)
    parser.add_argument("--ready", type=float, default=2, help="seconds that the server may need after kill -9")
    parser.add_argument("--program", default=str(ROOT / "build/release/apps/tessera/tessera"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    serving.program = options.program = os.path.abspath(options.program)
    with tempfile.TemporaryDirectory() as folder:
        result = run(options, pathlib.Path(folder))
    if options.json:
        print(json.dumps(result))
    else:
        print(f"{result['faults']} faults; requests: {result['requests']}; slowest answer "
              f"{result['slowest_answer_s']:.2f} s; at most {result['most_resident_mib']} MiB resident")
        for fault, count in sorted(result["counts"].items()):
            print(f"  {fault:<24} {count:>4} times, slowest recovery {result['slowest_recovery_s'][fault]:.2f} s")
        if result["ready_after_kill_s"]:
            print(f"  ready after kill -9: {min(result['ready_after_kill_s']):.2f} to "
                  f"{max(result['ready_after_kill_s']):.2f} s")
    for failure in result["failures"]:
        print("faults: " + failure, file=sys.stderr)
    sys.exit(1 if result["failures"] else 0)


if __name__ == "__main__":
    main()
