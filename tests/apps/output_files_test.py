#!/usr/bin/env python3
"""What the command line does with the files that it is told to write, when they are none, cannot be written, or it is
stopped. Standard library only.

    output_files_test.py TESSERA
"""
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

import program
from program import IO, run


class OutputFiles(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.model = self.folder / "m.onnx"
        self.assertEqual(run("new", "lenet5", "-o", self.model, "--dim", "batch=1").returncode, 0)
        self.before = sorted(os.listdir(self.folder))

    def writers(self, path):
        """Every command line that writes a file of any name."""
        return [["new", "lenet5", "-o", path], ["run", self.model, "--outputs", path],
                ["run", self.model, "--profile", path], ["explain", self.model, "--html", path],
                ["optimize", self.model, "-o", path],
                ["optimize", self.model, "-o", self.folder / "never.tsr", "--report", path], ["calibrate", "-o", path]]

    def writers_of(self, path):
        """The same for files that can be written, by names that say what they are."""
        endings = {"new": ".onnx", "--outputs": ".npz", "--report": ".html", "optimize": ".tsr"}
        ending = lambda arguments: endings.get(arguments[-2], endings.get(arguments[0], ""))
        return [[path.with_suffix(ending(arguments)) if each == path else each for each in arguments]
                for arguments in self.writers(path)]

    def refused(self, path, text):
        for arguments in self.writers(path):
            start = time.monotonic()
            done = run(*arguments)
            self.assertEqual(done.returncode, IO, f"{arguments}: {done.stderr}")
            self.assertIn(f"tessera: input/output error: cannot write '{path}': {text}", done.stderr, arguments)
            self.assertEqual((done.stdout, len(done.stderr.splitlines())), ("", 1), arguments)
            self.assertLess(time.monotonic() - start, 10)  # before anything is measured

    def test_what_is_no_file_stays_what_it_is(self):
        (self.folder / "folder").mkdir()
        os.mkfifo(self.folder / "pipe")
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(self.folder / "socket"))
        (self.folder / "dangling").symlink_to("nowhere")
        (self.folder / "to_pipe").symlink_to("pipe")
        cases = [("folder", "it is a directory"), ("pipe", "it is not a regular file"),
                 ("socket", "it is not a regular file"),
                 ("dangling", "it is a symbolic link to something that does not exist"),
                 ("to_pipe", "it is not a regular file")]
        if os.geteuid() == 0:
            os.mknod(self.folder / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            cases.append(("null", "it is not a regular file"))
        before = {each: os.lstat(self.folder / each).st_mode for each in os.listdir(self.folder)}
        for name, text in cases:
            self.refused(self.folder / name, text)
        self.assertEqual({each: os.lstat(self.folder / each).st_mode for each in os.listdir(self.folder)}, before)

    def test_folders_are_checked_before_the_work(self):
        self.refused(self.folder / "nodir" / "x", f"the folder '{self.folder / 'nodir'}' does not exist")
        self.refused(self.model / "x", f"'{self.model}' is not a folder")
        self.assertEqual(sorted(os.listdir(self.folder)), self.before)

    @unittest.skipIf(os.geteuid() == 0 and shutil.which("setpriv") is None, "nothing stops root from writing")
    def test_folders_without_permission(self):
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        closed = self.folder / "closed"
        closed.mkdir(mode=0o555)
        self.folder.chmod(0o755)
        if drop and subprocess.run([*drop, program.path, "--version"], capture_output=True).returncode != 0:
            self.skipTest("nobody may run the program where it lies")
        done = subprocess.run([*drop, program.path, "run", self.model, "--outputs", closed / "x.npz"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, IO, done.stderr)
        self.assertIn(f"the folder '{closed}' is not writable: Permission denied", done.stderr)

    def test_links_are_followed_and_stay(self):
        (self.folder / "real").mkdir()
        (self.folder / "real" / "out.npz").write_text("old")
        (self.folder / "out.npz").symlink_to("real/out.npz")
        self.assertEqual(run("run", self.model, "--outputs", self.folder / "out.npz").returncode, 0)
        self.assertTrue((self.folder / "out.npz").is_symlink())
        self.assertEqual((self.folder / "real" / "out.npz").read_bytes()[:2], b"PK")
        self.assertEqual(os.listdir(self.folder / "real"), ["out.npz"])

    def test_modes_stay(self):
        for path in (self.folder / "x.onnx", self.folder / "x.tsr"):
            path.write_text("old")
            path.chmod(0o640)
            self.assertEqual(run("optimize", self.model, "-o", path).returncode, 0)
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o640)

    def test_one_file_is_not_written_twice(self):
        done = run("optimize", self.model, "-o", self.folder / "x", "--report", self.folder / "." / "x")
        self.assertEqual(done.returncode, 2)
        self.assertIn("two different things would be written to", done.stderr)

    def test_names_say_what_is_written(self):
        packages, onnx, reports = self.folder / "z.tsr", "an ONNX model", ".html for a page, or in .json for JSON"
        cases = [(["new", "lenet5", "-o"], packages, f".onnx for {onnx}"), (["new", "lenet5", "-o"], "-", ".onnx for"),
                 (["eval", self.folder, "--export"], packages, f".onnx for {onnx}"),
                 (["run", self.model, "--outputs"], self.folder / "out.txt", ".npz for arrays, or in .json for JSON"),
                 (["optimize", self.model, "-o", self.folder / "out.txt"], None, ".onnx for")]
        for arguments in (["quantize", self.model, "-o", self.folder / "q.onnx"],
                          ["prune", self.model, "-o", self.folder / "p.onnx"], ["compress", self.folder / "r.toml"],
                          ["optimize", self.model, "-o", self.folder / "o.onnx"]):
            cases.append(([*arguments, "--report"], self.folder / "x.pdf", reports))
        for arguments, path, text in cases:
            done = run(*arguments, *([] if path is None else [path]))
            self.assertEqual(done.returncode, 2, f"{arguments}: {done.stderr}")
            name = arguments[-1] if path is None else path
            self.assertIn(f"cannot tell what to write to '{name}': give it a name that ends in {text}", done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), self.before)
        self.assertFalse(pathlib.Path("-").exists())

    def test_the_limit_of_files_is_an_error(self):
        small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        for arguments in self.writers_of(self.folder / "x")[:6]:
            done = run(*arguments, preexec_fn=small)
            if done.returncode == 0 and arguments[0] == "run" and "--outputs" in arguments:
                continue  # ten numbers are fewer than 1000 bytes
            self.assertEqual(done.returncode, IO, f"{arguments}: {done.stderr}")
            self.assertIn("it needs more than the 1000 bytes that this process may write to a file", done.stderr)
        self.assertEqual(sorted(set(os.listdir(self.folder)) - {"x.npz"}), self.before)

    def test_full_disks_are_errors(self):
        script = ('mount -t tmpfs -o size=16k none "$1" && : > "$1/fill" && '
                  '(head -c 100000 /dev/zero > "$1/fill"; shift; exec "$@")')
        disk = self.folder / "disk"
        disk.mkdir()
        unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
        if shutil.which("unshare") is None or subprocess.run([*unshare, "sh", "-c", script, "sh", disk, "true"],
                                                             capture_output=True).returncode != 0:
            self.skipTest("no small disk can be mounted here")
        for arguments in self.writers_of(disk / "x")[:5] + [["run", self.model, "--outputs", disk / "x.npz"],
                                                            ["run", self.model, "--outputs", disk / "x.json"],
                                                            ["optimize", self.model, "-o", disk / "x.onnx"]]:
            done = subprocess.run([*unshare, "sh", "-c", script, "sh", disk, program.path, *arguments],
                                  capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, IO, f"{arguments}: {done.stderr}")
            self.assertIn("No space left on device", done.stderr, arguments)

    def test_outputs_go_to_standard_output(self):
        done = run("run", self.model, "--outputs", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["output"][0]), 10)
        self.assertEqual(run("run", self.model, "--outputs", "-", "--json").returncode, 2)
        self.assertFalse(pathlib.Path("-").exists())

    def test_nothing_is_left_when_stopped(self):
        big = self.folder / "big.onnx"
        self.assertEqual(run("new", "resnet50", "-o", big, "--dim", "batch=1").returncode, 0)
        before = sorted(os.listdir(self.folder))
        numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]
        for number in numbers:
            for delay in (0.1, 0.4, 0.8, 1.2):
                child = subprocess.Popen([program.path, "optimize", big, "-o", self.folder / "big.tsr"],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(delay)
                child.send_signal(number)
                child.wait(timeout=60)
                self.assertLessEqual(set(os.listdir(self.folder)) - {"big.tsr"}, set(before), (number, delay))


if __name__ == "__main__":
    program.main()
