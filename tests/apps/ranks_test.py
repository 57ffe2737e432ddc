#!/usr/bin/env python3
"""`tessera train --ranks N` as a user calls it: the bits of one process, going on with another number of ranks, a rank
that is killed, a configuration that does not fit. Standard library only.

    ranks_test.py TESSERA
"""
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest
import zipfile

import program
from program import run
from train_test import log_of
from training_data import pictures, write_npz

CONFIG = """output = "{output}"
[model]
builder = "lenet5"
[data]
train = "{data}"
hold_out = 0.2
batch = 8
[optimiser]
name = "adamw"
learning_rate = 0.001
[train]
steps = {steps}
accumulate = 4
log_every = 1
checkpoint_every = 3
evaluate_every = 4
seed = 4
rank_timeout = {timeout}
"""


def arrays(path):
    """The arrays of an .npz file by name, without what differs from run to run."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.startswith("training.json")}


class RanksBase(unittest.TestCase):
    """What tests of several ranks share: data, configurations, and what equal trainings are."""
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        write_npz(cls.folder / "data.npz", *pictures(160))

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def config(self, name, steps=6, timeout=60):
        path = self.folder / f"{name}.toml"
        path.write_text(
            CONFIG.format(output=self.folder / name, data=self.folder / "data.npz", steps=steps, timeout=timeout))
        return path

    def trained(self, name, ranks, *arguments, steps=6):
        done = run("train", self.config(name, steps), "--ranks", ranks, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / name

    def assert_same(self, folder, expected, step=6):
        for file in ("model.onnx", "best.onnx"):
            self.assertEqual((folder / file).read_bytes(), (expected / file).read_bytes(), file)
        checkpoint = f"checkpoint-{step:09}.npz"
        self.assertEqual(arrays(folder / checkpoint), arrays(expected / checkpoint))
        self.assertEqual(log_of(folder), log_of(expected))


class Ranks(RanksBase):
    def test_ranks_have_the_bits_of_one_process(self):
        alone = self.trained("alone", 1)
        for ranks in (2, 3, 4):
            self.assert_same(self.trained(f"ranks{ranks}", ranks), alone)

    def test_goes_on_with_another_number_of_ranks(self):
        alone = self.trained("whole", 1)
        for ranks in (1, 4):
            name = f"then{ranks}"
            stopped = self.trained(name, 2, steps=3)
            done = run("train", "--resume", stopped, "--set", "train.steps=6", "--ranks", ranks)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_same(stopped, alone)

    def test_a_rank_that_is_killed_ends_all_with_one_message(self):
        for victim in (0, 2):
            name = f"killed{victim}"
            started = subprocess.Popen(
                [program.path, "train", self.config(name, steps=100000), "--ranks", "3"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            log = self.folder / name / "log.jsonl"
            end = time.monotonic() + 60 * program.PATIENCE
            while not (log.exists() and log.stat().st_size > 0):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)
            children = pathlib.Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
            self.assertEqual(len(children), 3)
            ranks = {}
            for child in children:
                variables = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
                rank = next(each for each in variables if each.startswith(b"TESSERA_RANK="))
                ranks[int(rank.split(b"=")[1])] = int(child)
            os.kill(ranks[victim], signal.SIGKILL)
            _, errors = started.communicate(timeout=60 * program.PATIENCE)
            self.assertNotEqual(started.returncode, 0)
            lines = [line for line in errors.splitlines() if "failed:" in line]
            self.assertEqual(len(lines), 1, errors)
            self.assertIn(f"rank {victim} ", lines[0])
            self.assertIn(f"process {ranks[victim]}", lines[0])
            for child in children:
                self.assertFalse(pathlib.Path(f"/proc/{child}").exists(), child)

    def test_refuses_more_ranks_than_batches(self):
        done = run("train", self.config("many"), "--ranks", "5")
        self.assertEqual(done.returncode, program.WRONG_CALL, done.stderr)
        self.assertIn("5 ranks share the 4 batches of a step (train.accumulate)", done.stderr)

    def test_refuses_ranks_that_differ(self):
        folder = self.folder / "meeting"
        paths = [self.config("first"), self.config("second")]
        paths[1].write_text(paths[1].read_text().replace("seed = 4", "seed = 5"))
        started = []
        for rank, path in enumerate(paths):
            variables = {"TESSERA_RANK": str(rank), "TESSERA_RANKS": "2", "TESSERA_RENDEZVOUS": str(folder)}
            started.append(
                subprocess.Popen([program.path, "train", path], env={**os.environ, **variables},
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        for each in started:
            _, errors = each.communicate(timeout=60 * program.PATIENCE)
            self.assertNotEqual(each.returncode, 0)
            self.assertIn("rank 1 differs from rank 0 in ", errors)


if __name__ == "__main__":
    program.main()
