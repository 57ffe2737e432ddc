#!/usr/bin/env python3
"""`tessera compress` as a user calls it: the packages, what is said about them, and files that were cut off. Standard
library only.

    compress_test.py TESSERA
"""
import json
import pathlib
import signal
import subprocess
import tempfile
import unittest

import program
from program import INVALID, IO, NOT_FOUND, WRONG_CALL, run
from training_data import pictures, write_npz

RECIPE = """output = "{output}"
folds = 2
[model]
builder = "lenet_300_100"
[data]
train = "{data}"
batch = 16
[optimiser]
name = "adamw"
learning_rate = 0.001
[train]
epochs = 8
[prune]
sparsity = 0.95
[share]
bits = 3
[tune]
epochs = 1
"""


class Compress(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        write_npz(cls.folder / "data.npz", *pictures(96))
        cls.recipe = cls.folder / "recipe.toml"
        cls.recipe.write_text(RECIPE.format(output=cls.folder / "out", data=cls.folder / "data.npz"))

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def test_packages_are_small_and_run(self):
        done = run("compress", self.recipe, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(len(result["folds"]), 2)
        self.assertGreater(result["compressed"], 0.9)
        for fold in result["folds"]:
            path = pathlib.Path(fold["path"])
            self.assertEqual(fold["file_bytes"], path.stat().st_size)
            self.assertAlmostEqual(fold["ratio"], 4 * 266610 / fold["file_bytes"])
            self.assertGreater(fold["ratio"], 30)
            self.assertEqual(run("check", path).returncode, 0)
            self.assertEqual(run("run", path, "--dim", "batch=1").returncode, 0)
        self.assertIn("constants", run("info", path).stdout)
        # What is cut off or changed is an error that says so.
        whole = path.read_bytes()
        broken = self.folder / "broken.tsr"
        broken.write_bytes(whole[:-100])
        done = run("run", broken, "--dim", "batch=1")
        self.assertEqual(done.returncode, INVALID)
        self.assertIn("it was cut off or added to", done.stderr)
        broken.write_bytes(whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:])
        done = run("run", broken, "--dim", "batch=1")
        self.assertEqual(done.returncode, INVALID)
        self.assertIn("is damaged: its checksum differs", done.stderr)

    def test_keeps_the_nets_so_far_when_it_is_stopped(self):
        out = self.folder / "stopped"
        arguments = ["compress", self.recipe, "--set", "train.epochs=2000", "--set", f"output={out}"]
        with subprocess.Popen([program.path, *map(str, arguments)], stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr:
                if "dense: step" in line:
                    break
            process.send_signal(signal.SIGINT)
            errors = process.stderr.read()
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("its nets so far are in", errors)
        self.assertEqual(run("info", out / "fold-1.dense.onnx").returncode, 0)

    def test_prints_a_table(self):
        done = run("compress", self.recipe, "--set", "folds=0", "--set", "data.hold_out=0.25", "--set",
                   f"output={self.folder / 'once'}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"fc1\.weight +235200 +11760 +5\.00% +\d")
        self.assertRegex(done.stdout, r"accuracy of the test data: dense [01]\.\d+, compressed [01]\.\d+ \([+-]")

    def test_asks_for_its_folder_before_the_work(self):
        (self.folder / "file").write_text("mine")
        (self.folder / "taken" / "fold-1.tsr").mkdir(parents=True)
        for path, text in [
            (self.folder / "file", "cannot make the folder '{}': there is a file of that name"),
            ("/proc/y", "cannot make the folder '{}': No such file"),
            (self.folder / "taken", "cannot write '{}/fold-1.tsr': it is a directory"),
        ]:
            done = run("compress", self.recipe, "--set", f"output={path}")
            self.assertEqual(done.returncode, IO, done.stderr)
            self.assertIn(text.format(path), done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)  # no stage of a training
        self.assertEqual((self.folder / "file").read_text(), "mine")

    def test_refuses_what_does_not_fit(self):
        for code, text, arguments in [
            (NOT_FOUND, "does not exist", [self.folder / "none.toml"]),
            (WRONG_CALL, "recipe is required", []),
            (WRONG_CALL, "share.bits is 12, expected 1 to 8 bits", [self.recipe, "--set", "share.bits=12"]),
            (WRONG_CALL, "prune.sparsity is 2, expected a number in [0, 1)",
             [self.recipe, "--set", "prune.sparsity=2"]),
            (WRONG_CALL, "share.bit", [self.recipe, "--set", "share.bit=4"]),
        ]:
            done = run("compress", *arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    program.main()
