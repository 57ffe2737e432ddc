#!/usr/bin/env python3
"""The page of `tessera explain --html` in headless Chromium: marks are drawn, arrow keys walk, nothing complains.

    explain_page_test.py TESSERA CHROMIUM
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import browser

TESSERA = CHROMIUM = ""

# Walks one mark on and says what the page shows.
PROBE = """
  const plot = [...document.querySelectorAll("svg.plot")].find(p => p.getBoundingClientRect().width > 0);
  const marks = [...plot.querySelectorAll(".mark")], readout = plot.parentElement.querySelector(".readout");
  const drawn = marks.filter(m => m.getBBox().width > 0).length;
  marks[0].focus();
  const first = readout.textContent;
  marks[0].dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  return { drawn, first, second: readout.textContent, focused: document.activeElement === marks[1],
    tabbable: marks.filter(m => m.tabIndex === 0).length, overflow: document.documentElement.scrollWidth - innerWidth,
    ground: getComputedStyle(document.body).backgroundColor };"""


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        model = cls.folder / "resnet18.onnx"
        subprocess.run([TESSERA, "new", "resnet18", "-o", model, "--dim", "batch=8"], check=True, capture_output=True)
        explain = [TESSERA, "explain", model, "--device", "a100-40-sxm", "--device", "l4", "--precision", "f16", "--json", "--html", cls.folder / "page.html"]
        cls.figures = json.loads(subprocess.run(explain, check=True, capture_output=True, text=True).stdout)
        cls.page = (cls.folder / "page.html").read_text()

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def probe(self, width, *flags):
        return browser.probe(CHROMIUM, self.folder, self.page, PROBE, width, *flags)

    def check_plot(self, found):
        layers = [layer for layer in self.figures["devices"][0]["layers"] if layer["operations"] > 0]
        self.assertEqual(found["drawn"], len(layers))
        slowest = max(layers, key=lambda layer: layer["seconds"])
        self.assertIn(slowest["op"], found["first"])
        self.assertIn("bound by", found["first"])
        self.assertNotEqual(found["first"], found["second"])
        self.assertTrue(found["focused"])
        self.assertEqual(found["tabbable"], 1)
        self.assertLessEqual(found["overflow"], 0, "the page is wider than the screen")

    def test_wide(self):
        found = self.probe(1100)
        self.check_plot(found)
        self.assertEqual(found["ground"], "rgb(251, 251, 249)")

    def test_narrow_and_dark(self):
        found = self.probe(390, "--blink-settings=preferredColorScheme=0")
        self.check_plot(found)
        self.assertEqual(found["ground"], "rgb(20, 23, 26)")


if __name__ == "__main__":
    TESSERA, CHROMIUM = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
