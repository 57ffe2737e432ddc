#!/usr/bin/env python3
"""The pages of `tessera quantize`, `prune` and `compress` in headless Chromium: the figures of --json stand in them,
wide, narrow and dark.

    compression_page_test.py TESSERA CHROMIUM
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import browser
from compress_test import RECIPE
from training_data import pictures, write_npz

TESSERA = CHROMIUM = ""

PROBE = """
  const titles = [...document.querySelectorAll("h2")].map(title => title.textContent);
  const plots = [...document.querySelectorAll("svg.plot")].filter(plot => plot.getBoundingClientRect().width > 0);
  const plot = plots[0], marks = [...plot.querySelectorAll(".mark")];
  marks[0].focus();
  return { titles, headline: document.querySelector("h1").textContent, plots: plots.length,
    marks: plots.map(each => each.querySelectorAll(".mark").length),
    readout: plot.parentElement.querySelector(".readout").textContent,
    bars: [...document.querySelectorAll(".bar")].map(bar => bar.getBoundingClientRect().width),
    text: document.body.innerText, overflow: document.documentElement.scrollWidth - innerWidth,
    ground: getComputedStyle(document.body).backgroundColor };"""


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        cls.model, cls.data = cls.folder / "lenet5.onnx", cls.folder / "data.npz"
        cls.call("new", "lenet5", "-o", cls.model)
        write_npz(cls.folder / "training.npz", *pictures(64))
        write_npz(cls.data, *pictures(24), names=("input", "labels"))

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    @classmethod
    def call(cls, *arguments):
        done = subprocess.run([TESSERA, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def made(self, *arguments):
        page = self.folder / "page.html"
        figures = json.loads(self.call(*arguments, "--json", "--report", page))
        return figures, page.read_text()

    def check(self, page, titles, headline):
        wide = browser.probe(CHROMIUM, self.folder, page, PROBE, 1100)
        narrow = browser.probe(CHROMIUM, self.folder, page, PROBE, 390, "--blink-settings=preferredColorScheme=0")
        self.assertEqual(wide["ground"], "rgb(251, 251, 249)")
        self.assertEqual(narrow["ground"], "rgb(20, 23, 26)")
        for found in (wide, narrow):
            self.assertIn(headline, found["headline"])
            self.assertEqual(found["titles"], titles)
            self.assertLessEqual(found["overflow"], 0, "the page is wider than the screen")
            self.assertIn(":", found["readout"])
            self.assertGreater(max(found["bars"]), 50)
        for width in (360, 768, 1280, 1920):
            layout = browser.probe(CHROMIUM, self.folder, page, browser.LAYOUT, width)
            self.assertLessEqual(layout["overflow"], 0)
            self.assertEqual(layout["outside"], [])
        return wide

    def test_quantisation(self):
        figures, page = self.made("quantize", self.model, "-o", self.folder / "out.onnx", "--full", "--data", self.data,
                                  "--exclude", "Conv_0")
        found = self.check(page, [
            "What each layer costs", "Error against bits", "Layers that stay in float", "Where the bytes are",
            "Ranges of activations", "Layers"
        ], "Quantisation of")
        self.assertEqual(found["marks"][0], 4)
        self.assertIn("excluded by a pattern", found["text"])
        self.assertIn(f"{figures['snr_db']:.1f} dB", found["text"])

    def test_pruning(self):
        figures, page = self.made("prune", self.model, "-o", self.folder / "out.onnx", "--sparsity", "0.8", "--data",
                                  self.data, "--sensitivity", "--sparsities", "0.5,0.9")
        found = self.check(page, ["Sensitivity", "Error against bits", "Where the bytes are", "Layers"], "Pruning of")
        self.assertEqual(found["marks"], [10, 5])
        self.assertIn(f"{figures['metric_after']:.4f}", found["text"])

    def test_deep_compression(self):
        recipe = self.folder / "recipe.toml"
        recipe.write_text(RECIPE.format(output=self.folder / "out", data=self.folder / "training.npz"))
        figures, page = self.made("compress", recipe, "--set", "train.epochs=2")
        found = self.check(page, ["Stages", "Error against bits", "Where the bytes are", "Layers"], "Deep Compression")
        self.assertEqual(found["marks"], [3])
        self.assertIn(str(figures["folds"][1]["file_bytes"]), found["text"])


if __name__ == "__main__":
    CHROMIUM = sys.argv.pop(2)
    TESSERA = sys.argv.pop(1)
    unittest.main()
