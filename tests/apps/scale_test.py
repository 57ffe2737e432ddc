#!/usr/bin/env python3
"""tessera scale: what it prints of profiles and of models, and how it refuses. Standard library only.

    scale_test.py TESSERA EXAMPLES
"""
import json
import os
import pathlib
import sys
import tempfile
import unittest

import program
from program import WRONG_CALL, run

EXAMPLES = pathlib.Path(sys.argv.pop(2)) / "scaling"
SSD, TABLE = EXAMPLES / "ssd.toml", EXAMPLES / "ssd.txt"


class Scale(unittest.TestCase):
    def points(self, *arguments):
        done = run("scale", *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["points"]

    def refused(self, text, *arguments, code=WRONG_CALL):
        done = run("scale", *arguments)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_every_example_runs_and_reproduces_its_measurement(self):
        profiles = sorted(EXAMPLES.glob("*.toml"))
        self.assertEqual(len(profiles), 6)
        for profile in profiles:
            self.points(profile, "--gpus", "8..64", "--convergence", profile.with_suffix(".txt"))
        (point,) = self.points(SSD, "--gpus", "8", "--convergence", "912:50")
        self.assertAlmostEqual(point["minutes"], 8.52, places=6)

    def test_more_gpus_take_less_time_and_choose_larger_batches(self):
        points = self.points(SSD, "--gpus", "8..1024", "--convergence", TABLE)
        self.assertEqual([point["gpus"] for point in points], [8, 16, 32, 64, 128, 256, 512, 1024])
        minutes = [point["minutes"] for point in points]
        self.assertEqual(minutes, sorted(minutes, reverse=True))
        self.assertEqual(points[0]["batch"], 912)
        self.assertGreaterEqual(points[-1]["batch"], 1024)
        text = run("scale", SSD, "--gpus", "8..8192", "--convergence", TABLE).stdout
        self.assertIn("calibrated by a training on 8 GPUs", text)
        self.assertRegex(text, r"8192 every batch of the table has fewer samples than GPUs")

    def test_switches_change_what_they_should(self):
        arguments = (SSD, "--gpus", "1024", "--convergence", "3072:75")
        (usual,), (eager,), (ring,) = (self.points(*arguments, *more) for more in
                                       ((), ("--no-capture",), ("--all-reduce", "ring")))
        self.assertEqual((usual["all_reduce"], ring["all_reduce"]), ("in-network", "ring"))
        self.assertGreater(eager["compute_ms"], usual["compute_ms"])
        self.assertGreater(ring["all_reduce_ms"], usual["all_reduce_ms"])
        unet = (EXAMPLES / "unet3d.toml", "--convergence", "80:2016")
        (split,) = self.points(*unet, "--gpus", "800", "--evaluators", "160")
        self.assertEqual((split["gpus_per_sample"], split["gpu_batch"]), (8, 1))

    def test_a_model_file(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "lenet5.onnx")
            self.assertEqual(run("new", "lenet5", "-o", model).returncode, 0)
            points = self.points(model, "--samples", "60000", "--gpus", "1..64", "--convergence", "64:10,1024:14")
            self.assertEqual(points[-1]["gpus"], 64)
            self.assertLess(points[-1]["minutes"], points[0]["minutes"])
            self.assertIn("predicted by the cost model alone",
                          run("scale", model, "--samples", "60000", "--gpus", "8", "--convergence", "64:10").stdout)
            self.refused("give --samples", model, "--convergence", "64:10")
            fixed = os.path.join(folder, "fixed.onnx")
            self.assertEqual(run("new", "lenet5", "-o", fixed, "--dim", "batch=4").returncode, 0)
            self.refused("symbolic first dimension", fixed, "--samples", "9", "--convergence", "64:10", code=4)

    def test_faults(self):
        self.refused("there is no cluster 'dgxa10'", SSD, "--convergence", TABLE, "--cluster", "dgxa10")
        self.refused("did you mean 'dgxa100'?", SSD, "--convergence", TABLE, "--cluster", "dgxa10")
        for gpus in ("0", "4..1", "x", "", "1..99999999"):
            self.refused("GPUs", SSD, "--convergence", TABLE, "--gpus", gpus)
        self.refused("12 GPUs do not fill nodes of 8", SSD, "--convergence", TABLE, "--gpus", "12")
        self.refused("leave no GPU that trains", SSD, "--convergence", TABLE, "--gpus", "8", "--evaluators", "8")
        self.refused("a convergence table has entries BATCH:EPOCHS", SSD, "--convergence", "912:nan")
        self.refused("nowhere.txt", SSD, "--convergence", "nowhere.txt", code=5)
        self.refused("--convergence is required", SSD)
        self.refused("are for model files", SSD, "--convergence", TABLE, "--samples", "5")
        self.refused("--all-reduce", SSD, "--convergence", TABLE, "--all-reduce", "magic")
        with tempfile.TemporaryDirectory() as folder:
            def profile(text):
                path = os.path.join(folder, "net.toml")
                with open(path, "wb") as file:
                    file.write(text)
                return path
            good = SSD.read_bytes()
            for text, code in ((b"", 2), (b"\0\xff" * 50, 2), (b"[" * 100_000, 2), (b"#" * (2 << 20), 7),
                               (good.replace(b"20e6", b"1e999"), 2), (good.replace(b"minutes = 8.52", b""), 2),
                               (good.replace(b"8.52", b"0.0001"), 2), (good.replace(b"gpus = 8", b"gpus = 12"), 2)):
                done = run("scale", profile(text), "--convergence", TABLE)
                self.assertEqual(done.returncode, code, (text[:50], done.stderr))
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            table = os.path.join(folder, "table.txt")
            with open(table, "w", encoding="ascii") as file:
                file.write("\n".join(f"{batch}:5" for batch in range(1, 5000)))
            self.refused("has 4999 batches, expected at most 1000", SSD, "--convergence", table)


if __name__ == "__main__":
    program.main()
