"""Jobs of several processes under 'tessera share daemon': who may attach, who waits, and what a death costs."""
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import pathlib

import program

ATTACH, CHARGE, RELEASE, STATUS, BORROW, GIVE_BACK = range(6)
REQUEST = struct.Struct("<IIIIdqqq64s")
MAGIC, VERSION = 0x48535354, 2


def request(kind, magic=MAGIC, version=VERSION, priority=1, weight=1.0, size=0, text=b"test"):
    return REQUEST.pack(magic, version, kind, priority, weight, 0, 0, size, text)


def starves(pid, had):
    """Whether a thread of the process wants a processor while the process has had no time since it was last looked at.
    `had` keeps what it had, by process. Background jobs are under SCHED_IDLE: other programs can take all time."""
    ticks, wants = 0, False
    try:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            fields = (task / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
            wants |= fields[0] == "R"
    except OSError:  # it has just ended
        return False
    same = had.get(pid) == ticks
    had[pid] = ticks
    return wants and same


class ShareProcesses(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.socket = self.folder / "share.sock"
        self.model = self.folder / "net.onnx"
        self.assertEqual(program.run("new", "mobilenet_v3_small", "-o", self.model, "--dim", "batch=1").returncode, 0)
        self.running = []
        self.addCleanup(self.end_all)

    def until(self, holds, seconds=60):
        """Waits for it; whether it came true in time. Time in which a process of the test got no processor although it
        wanted one does not count, within bounds: a job that hangs, or spins, is noticed as soon as on an idle machine.
        """
        left, at, had = seconds * program.PATIENCE, time.monotonic(), {}
        end = at + 10 * left
        while left > 0 and at < end:
            if holds():
                return True
            time.sleep(0.02)
            starved = [starves(process.pid, had) for process in self.running if process.poll() is None]
            before, at = at, time.monotonic()
            if not any(starved):
                left -= at - before
        return holds()

    def code_of(self, process, seconds=30):
        """The exit code of a process that is to end in time."""
        self.assertTrue(self.until(lambda: process.poll() is not None, seconds), f"{process.args} does not end")
        return process.returncode

    def end_all(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()

    def start(self, *arguments, **options):
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "text": True}
        process = subprocess.Popen([program.path, *map(str, arguments)], **{**streams, **options})
        self.running.append(process)
        return process

    def daemon(self, *arguments):
        process = self.start("share", "daemon", "--socket", self.socket, *arguments)
        self.assertTrue(self.until(lambda: self.answers()), "the daemon does not listen")
        return process

    def answers(self):
        return program.run("share", "status", "--socket", self.socket, "--json").returncode == 0

    def job(self, name, *options, seconds=600, **streams):
        """A program that runs the model again and again, longer than any test takes unless it says so."""
        return self.start("share", "run", "--socket", self.socket, "--name", name, *options, "--", program.path,
                          "bench", self.model, "--seconds", seconds, **streams)

    def status(self):
        done = program.run("share", "status", "--socket", self.socket, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {job["name"]: job for job in json.loads(done.stdout)["jobs"]}

    def runs_of(self, name):
        return self.status().get(name, {}).get("runs", 0)

    def goes_on(self, name, runs=3):
        before = self.runs_of(name)
        return self.until(lambda: self.runs_of(name) >= before + runs)

    @contextlib.contextmanager
    def connection(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.settimeout(5 * program.PATIENCE)
            client.connect(str(self.socket))
            yield client

    def test_two_jobs_share_and_leave(self):
        self.daemon()
        self.job("slow", "--class", "background")
        # Beside the other one it might never load its model.
        self.assertTrue(self.until(lambda: self.runs_of("slow") > 0))
        fast = self.job("fast", "--class", "realtime", "--goal", "100")
        self.assertTrue(self.until(lambda: self.runs_of("fast") > 0))
        status = self.status()
        self.assertEqual((status["slow"]["class"], status["fast"]["class"]), ("background", "realtime"))
        self.assertGreater(status["fast"]["memory_bytes"], 0)
        fast.terminate()
        self.assertEqual(self.code_of(fast), 128 + signal.SIGTERM)
        self.assertTrue(self.until(lambda: set(self.status()) == {"slow"}))
        self.assertTrue(self.goes_on("slow"))
        table = program.run("share", "status", "--socket", self.socket).stdout
        self.assertIn("slow", table)

    def test_a_killed_job_disturbs_no_other_and_frees_its_memory(self):
        self.daemon()
        for killed in ("realtime", "background"):
            jobs = {}
            # The background job first: beside the other one it might never load its model.
            for name in ("background", "realtime"):
                jobs[name] = self.job(name, "--class", name, "--memory", "256M")
                self.assertTrue(self.until(lambda: self.runs_of(name) > 0))
            jobs[killed].kill()
            left = "background" if killed == "realtime" else "realtime"
            self.assertTrue(self.until(lambda: set(self.status()) == {left}))
            self.assertTrue(self.goes_on(left))
            jobs[left].terminate()
            self.assertEqual(self.code_of(jobs[left]), 128 + signal.SIGTERM)
            self.assertTrue(self.until(lambda: not self.status()))

    def test_jobs_outlive_the_daemon_and_attach_to_the_next(self):
        daemon = self.daemon()
        job = self.job("job")
        self.assertTrue(self.until(lambda: self.runs_of("job") > 0))
        daemon.kill()
        daemon.wait()
        time.sleep(0.3)
        self.assertIsNone(job.poll())
        self.daemon()
        self.assertTrue(self.until(lambda: self.runs_of("job") > 0))
        self.assertIsNone(job.poll())

    def test_a_daemon_that_stands_still_is_left(self):
        daemon = self.daemon()
        self.job("one", "--class", "background", seconds=5)
        job = self.job("two", "--class", "background", seconds=5)
        self.assertTrue(self.until(lambda: self.runs_of("two") > 0))
        daemon.send_signal(signal.SIGSTOP)
        self.assertEqual(self.code_of(job), 0)
        daemon.send_signal(signal.SIGCONT)

    def test_a_job_that_stands_still_loses_its_turn(self):
        self.daemon()
        for other in ("background", "realtime"):
            stopped = self.job("stopped", "--class", "realtime")
            self.assertTrue(self.until(lambda: self.runs_of("stopped") > 0))
            stopped.send_signal(signal.SIGSTOP)
            neighbour = self.job("neighbour", "--class", other, seconds=0.5)
            self.assertEqual(self.code_of(neighbour), 0)
            stopped.send_signal(signal.SIGCONT)
            self.assertTrue(self.goes_on("stopped"))
            stopped.kill()
            self.assertTrue(self.until(lambda: not self.status()))

    def test_fair_shares_follow_the_weights(self):
        self.daemon("--policy", "fair")
        self.job("small", "--weight", "30")
        self.job("large", "--weight", "70")
        self.assertTrue(self.until(lambda: self.runs_of("small") > 0 and self.runs_of("large") > 0))
        # On a busy machine a job has gaps, in which the other one computes; lease_keeper_test is exact.
        for _ in range(5):
            before = self.status()
            time.sleep(1.5)
            after = self.status()
            had = {name: after[name]["device_s"] - before[name]["device_s"] for name in ("small", "large")}
            part = had["small"] / sum(had.values())
            if abs(part - 0.3) < 0.12:
                break
        self.assertAlmostEqual(part, 0.3, delta=0.12)

    def test_memory_is_bounded_and_guaranteed(self):
        config = self.folder / "share.toml"
        config.write_text('memory = "100MiB"\n')
        self.daemon("--config", config)
        small = self.job("small", "--memory", "8MiB", stderr=subprocess.PIPE)
        text = small.communicate(timeout=120 * program.PATIENCE)[1]
        self.assertEqual(small.returncode, program.OVER_BUDGET, text)
        self.assertIn("job 'small' asked for", text)
        with self.connection() as holder:
            holder.send(request(ATTACH, size=60 << 20))
            self.assertEqual(struct.unpack_from("<I", holder.recv(4096), 8)[0], 1)
            refused = self.job("refused", "--memory", "60MiB", seconds=0.1, stderr=subprocess.PIPE)
            text = refused.communicate(timeout=120 * program.PATIENCE)[1]
            self.assertIn("runs alone: job 'refused' is to be guaranteed 60.0 MiB", text)
            self.assertEqual(refused.returncode, 0)
        granted = self.job("granted", "--memory", "60MiB", seconds=0.1, stderr=subprocess.PIPE)
        self.assertNotIn("runs alone: ", granted.communicate(timeout=120 * program.PATIENCE)[1])

    def test_a_background_process_spills_for_a_guarantee_and_gets_its_memory_back(self):
        config = self.folder / "share.toml"
        config.write_text('memory = "240MiB"\n')
        self.daemon("--config", config)
        large = self.folder / "large.onnx"  # its arena takes more than what the guarantee leaves
        self.assertEqual(program.run("new", "mobilenet_v3_small", "-o", large, "--dim", "batch=32").returncode, 0)
        background = self.start("share", "run", "--socket", self.socket, "--name", "training", "--class", "background",
                                "--", program.path, "bench", large, "--seconds", 600, stderr=subprocess.PIPE)
        with self.connection() as holder:
            holder.send(request(ATTACH, priority=2, size=200 << 20))
            self.assertEqual(struct.unpack_from("<I", holder.recv(4096), 8)[0], 1)
            for _ in range(20):
                self.assertTrue(self.goes_on("training"), "it borrows what is guaranteed to another")
                holder.send(request(CHARGE, size=200 << 20))
                self.assertEqual(struct.unpack_from("<I", holder.recv(4096), 8)[0], 1, "the guarantee is not refused")
                self.assertTrue(self.until(lambda: self.status()["training"]["memory_bytes"] < 40 << 20))
                runs = self.runs_of("training")
                time.sleep(0.1)
                self.assertLessEqual(self.runs_of("training"), runs, "its memory is with another")
                holder.send(request(RELEASE, size=200 << 20))
                if self.status()["training"]["spills"] > 1:
                    break
            self.assertTrue(self.goes_on("training"))
            self.assertGreater(self.status()["training"]["spills"], 1)
        self.assertIsNone(background.poll(), "it goes on")

    def test_garbage_is_refused_and_disturbs_nobody(self):
        self.daemon()
        self.job("job")
        self.assertTrue(self.until(lambda: self.runs_of("job") > 0))
        for packet in (b"", b"x", os.urandom(REQUEST.size), b"y" * 100_000, request(9), request(ATTACH, magic=1),
                       request(ATTACH, version=7), request(ATTACH, priority=3), request(CHARGE, size=-1),
                       request(CHARGE, size=1 << 40), request(RELEASE, size=1), request(BORROW, size=1),
                       request(GIVE_BACK, size=1)):
            with self.connection() as client:
                client.send(packet)
                if packet:
                    self.assertEqual(client.recv(4096), b"", packet[:40])
        for options in ({"weight": float("nan")}, {"weight": -1.0}, {"size": -5}, {"size": 1 << 62}, {"text": b""}):
            with self.connection() as client:
                client.send(request(ATTACH, **options))
                self.assertEqual(struct.unpack_from("<I", client.recv(4096), 8)[0], 0, options)
        with self.connection() as client:
            client.send(request(ATTACH))
            self.assertEqual(struct.unpack_from("<I", client.recv(4096), 8)[0], 1)
            client.send(request(ATTACH))
            self.assertEqual(client.recv(4096), b"")
        self.assertTrue(self.goes_on("job"))
        self.assertTrue(self.until(lambda: set(self.status()) == {"job"}))

    @unittest.skipUnless(os.geteuid() == 0, "only root may act as another user")
    def test_other_users_attach_only_where_they_are_named(self):
        config = self.folder / "share.toml"
        config.write_text("users = ['1']\n")
        self.folder.chmod(0o711)
        self.daemon("--config", config)

        def answer_to(user):
            script = ("import os, socket, sys; os.setuid(int(sys.argv[2])); "
                      "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1]); "
                      "s.send(bytes.fromhex(sys.argv[3])); print(len(s.recv(100000)))")
            done = subprocess.run([sys.executable, "-c", script, self.socket, str(user), request(STATUS).hex()],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)
            return int(done.stdout) if done.returncode == 0 else 0

        self.assertGreater(answer_to(1), 0)
        self.assertEqual(answer_to(65534), 0)

    @unittest.skipUnless(os.geteuid() == 0, "only root may act as another user")
    def test_a_strangers_daemon_is_not_attached_to(self):
        folder = self.folder / "strange"
        folder.mkdir()
        os.chown(folder, 65534, 65534)
        self.folder.chmod(0o711)
        self.socket = folder / "share.sock"
        daemon = self.start("share", "daemon", "--socket", self.socket, user=65534, group=65534, extra_groups=[])
        self.assertTrue(self.until(self.socket.exists))
        run = ("share", "run", "--socket", self.socket)
        done = program.run(*run, "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("it runs alone: the folder", done.stderr)
        self.assertIn("--trust", done.stderr)
        self.assertNotEqual(program.run("share", "status", "--socket", self.socket).returncode, 0)
        self.assertIn("a daemon listens", program.run(*run, "--trust", "65534", "--", "true").stderr)
        # A process that finds the socket in its environment says so too, and computes alone.
        job = program.run(*run, "--", program.path, "bench", self.model, "--seconds", 0.1)
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertIn("this process runs alone", job.stderr)
        daemon.terminate()

    @unittest.skipUnless(os.geteuid() == 0, "only root may act as another user")
    def test_permission_is_told_apart_from_no_daemon(self):
        self.folder.chmod(0o711)
        self.daemon()
        done = subprocess.run([program.path, "share", "run", "--socket", self.socket, "--", "true"], user=1, group=1,
                              extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertIn("the permission to connect", done.stderr)
        self.assertNotIn("no daemon listens", done.stderr)

    def test_a_program_keeps_its_exit_code_and_signals(self):
        run = ("share", "run", "--socket", self.socket, "--class", "background", "--")
        done = program.run(*run, "sh", "-c", "exit 7")
        self.assertEqual(done.returncode, 7)
        self.assertIn("is background, scheduled by", done.stderr)
        self.assertIn("no daemon listens", done.stderr)
        sleeps = self.start(*run, "sleep", "60")
        comm = pathlib.Path(f"/proc/{sleeps.pid}/comm")
        self.assertTrue(self.until(lambda: comm.read_text() == "sleep\n"))
        sleeps.terminate()
        self.assertEqual(self.code_of(sleeps), -signal.SIGTERM)
        missing = program.run(*run, "no-such-program")
        self.assertEqual(missing.returncode, program.NOT_FOUND)
        # What looks like a verb or an option of this program is the command's.
        done = program.run(*run, "echo", "run", "status", "--json", "-h")
        self.assertEqual(done.stdout, "run status --json -h\n")

    def most_in_a_window(self, process, seconds, window=0.5):
        """The most processor time of a process in any such window, as a part of all cores."""
        clock, samples, end = (~process.pid << 3) | 2, [], time.monotonic() + seconds  # clock_getcpuclockid(3)
        while time.monotonic() < end:
            at = time.monotonic()
            used = time.clock_gettime(clock)
            if time.monotonic() < at + 0.002:  # nothing came between the two readings
                samples.append((at, used))
            time.sleep(0.01)
        most = max((used - had) / (at - begin) for begin, had in samples for at, used in samples
                   if window <= at - begin < window + 0.2)
        return most / len(os.sched_getaffinity(0))

    def test_a_hard_share_is_never_exceeded(self):
        self.daemon()
        job = self.job("bound", "--share", "25", "--hard")
        self.assertTrue(self.until(lambda: self.runs_of("bound") > 0))
        # In half a second a burst weighs twice as much as in the second for which the share is promised.
        self.assertLess(self.most_in_a_window(job, 1.5), 0.25 + 0.04)

    def test_a_hard_share_binds_programs_without_tessera(self):
        job = self.start("share", "run", "--socket", self.socket, "--share", "20", "--hard", "--", sys.executable,
                         "-c", "while True: pass", stderr=subprocess.PIPE)
        how = job.stderr.readline()
        if "by a control group" not in how:
            self.assertIn("only a Tessera program keeps to the hard share", how)
            self.skipTest(how)
        self.assertIn("at most", how)
        most = self.most_in_a_window(job, 1.5)
        self.assertLess(most, 0.20 + 0.04)
        self.assertGreater(most, 0)

    def test_recorded_runs_can_be_simulated(self):
        trace = self.folder / "trace.toml"
        done = program.run("share", "record", self.model, "--name", "fast", "--class", "realtime", "--goal", "9",
                           "--rate", "20", "--requests", "50", "-o", trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = program.run("share", "record", self.model, "--name", "slow", "--runs", "3")
        trace.write_text(trace.read_text() + done.stdout)
        done = program.run("share", "simulate", trace, "--policy", "fifo", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        jobs = {job["name"]: job for job in json.loads(done.stdout)["policies"][0]["jobs"]}
        self.assertEqual((jobs["fast"]["runs"], jobs["slow"]["runs"]), (50, 100))
        self.assertGreater(jobs["fast"]["device_ms"], 0)
        refused = program.run("share", "record", self.model, "--name", "a.b")
        self.assertEqual(refused.returncode, program.WRONG_CALL)
        self.assertIn("'a.b' is no name for a job", refused.stderr)

    def test_one_daemon_a_socket(self):
        daemon = self.daemon()
        second = program.run("share", "daemon", "--socket", self.socket)
        self.assertEqual(second.returncode, 9)
        self.assertIn("another sharing daemon listens", second.stderr)
        daemon.terminate()
        self.assertEqual(self.code_of(daemon), 128 + signal.SIGTERM)
        self.assertFalse(self.socket.exists())
        none = program.run("share", "status", "--socket", self.socket)
        self.assertEqual(none.returncode, program.NOT_FOUND)
        self.assertIn("tessera share daemon", none.stderr)


if __name__ == "__main__":
    program.main()
