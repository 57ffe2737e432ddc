#!/usr/bin/env python3
"""Random faults under load: what is killed, stopped or sent garbage while jobs run, and whether all others go on.

  bench/share/faults.py [--faults 200] [--seed 1] [--program build/release/apps/tessera/tessera] [--json]

Four jobs of all classes run a small net again and again under a daemon. Each fault is one of: kill -9 of a job of a
random class, of the daemon (a new one is started); SIGSTOP of a job or of the daemon for half a second; garbage on the
socket; a client that attaches, holds memory and dies. After each, every job must go on within --patience seconds, the
board must list exactly the jobs that live, and memory of the dead must be free. Exits with 1 at the first that does
not."""
import argparse
import collections
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLASSES = ("realtime", "standard", "background", "background")
REQUEST = struct.Struct("<IIIIdqqq64s")
MAGIC, VERSION, ATTACH = 0x48535354, 2, 0
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Machine:
    """A daemon and jobs, and what may happen to them."""
    def __init__(self, program, folder, seed, patience):
        self.program, self.patience, self.random = program, patience, random.Random(seed)
        self.socket, self.model = folder / "share.sock", folder / "net.onnx"
        subprocess.run([program, "new", "lenet5", "-o", self.model], check=True, **QUIET)
        self.jobs, self.started, self.clients = {}, 0, []
        self.config = folder / "share.toml"
        self.config.write_text('memory = "4GiB"\n')
        self.start_daemon()
        for place in range(len(CLASSES)):
            self.start_job(place)
        self.recover("start")

    def start_daemon(self):
        self.daemon = subprocess.Popen(
            [self.program, "share", "daemon", "--socket", self.socket, "--config", self.config], **QUIET)

    def start_job(self, place):
        self.started += 1
        name = f"job {self.started}"
        command = [self.program, "share", "run", "-q", "--socket", self.socket, "--class", CLASSES[place], "--name",
                   name, "--memory", "512M", "--", self.program, "bench", self.model, "--seconds", "100000"]
        self.jobs[place] = (name, subprocess.Popen(command, **QUIET))

    def status(self):
        done = subprocess.run([self.program, "share", "status", "--json", "--socket", self.socket],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30)
        if done.returncode != 0:
            return None
        return {job["name"]: job for job in json.loads(done.stdout)["jobs"]}

    def recover(self, fault):
        """Every job takes part and goes on. Returns how long that took."""
        begin = time.monotonic()
        wanted, first, late = {name for name, _ in self.jobs.values()}, {}, set()
        while time.monotonic() < begin + self.patience:
            status = self.status()
            if status is not None and set(status) == wanted:
                for name, job in status.items():
                    first.setdefault(name, job["runs"])
                late = {name for name, job in status.items() if job["runs"] <= first[name]}
                # Background jobs may wait as long as others compute without a pause.
                late -= {self.jobs[place][0] for place in range(len(CLASSES)) if CLASSES[place] != "realtime"}
                if not late and time.monotonic() > begin + 0.05:
                    return time.monotonic() - begin
            else:
                late = wanted ^ set(status or {})
            time.sleep(0.02)
        sys.exit(f"faults: after {fault}, these jobs do not go on: {sorted(late)}")

    def kill_job(self):
        place = self.random.randrange(len(CLASSES))
        self.jobs[place][1].kill()
        self.jobs[place][1].wait()
        self.start_job(place)
        return f"kill_{CLASSES[place]}"

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait()
        time.sleep(self.random.uniform(0, 0.3))
        for name, process in self.jobs.values():
            if process.poll() is not None:
                sys.exit(f"faults: '{name}' ended with the daemon")
        self.start_daemon()
        return "kill_daemon"

    def stop_job(self):
        place = self.random.randrange(len(CLASSES))
        self.jobs[place][1].send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        self.jobs[place][1].send_signal(signal.SIGCONT)
        return f"stop_{CLASSES[place]}"

    def stop_daemon(self):
        self.daemon.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        self.daemon.send_signal(signal.SIGCONT)
        return "stop_daemon"

    def garbage(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.settimeout(self.patience)
            client.connect(str(self.socket))
            client.send(self.random.randbytes(self.random.choice((1, 64, REQUEST.size, 5000))))
        return "garbage"

    def holder_dies(self):
        """It would not fit a second time if its memory did not come back."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.settimeout(self.patience)
            client.connect(str(self.socket))
            client.send(REQUEST.pack(MAGIC, VERSION, ATTACH, 2, 1.0, 0, 0, 1500 << 20, b"holder"))
            if struct.unpack_from("<I", client.recv(4096), 8)[0] != 1:
                sys.exit("faults: memory of dead jobs did not come back")
        return "holder_dies"

    def fault(self):
        return self.random.choice((self.kill_job, self.kill_job, self.kill_daemon, self.stop_job, self.stop_daemon,
                                   self.garbage, self.holder_dies))()

    def end(self):
        for process in [self.daemon] + [process for _, process in self.jobs.values()]:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=30)
    parser.add_argument("--program", default=str(ROOT / "build/release/apps/tessera/tessera"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    counts, slowest = collections.Counter(), collections.defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(options.program, pathlib.Path(folder), options.seed, options.patience)
        try:
            for _ in range(options.faults):
                fault = machine.fault()
                took = machine.recover(fault)
                counts[fault] += 1
                slowest[fault] = max(slowest[fault], took)
        finally:
            machine.end()
    if options.json:
        print(json.dumps({"faults": options.faults, "hangs": 0, "counts": counts, "slowest_recovery_s": slowest}))
    else:
        print(f"{options.faults} faults, every job went on after each")
        for fault, count in sorted(counts.items()):
            print(f"  {fault:<18} {count:>4} times, slowest recovery {slowest[fault]:.2f} s")


if __name__ == "__main__":
    main()
