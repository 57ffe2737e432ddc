#!/usr/bin/env python3
"""The page of `tessera optimize --report` in headless Chromium: the figures of --json stand in it, wide, narrow and
dark.

    optimise_page_test.py TESSERA CHROMIUM
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import browser

TESSERA = CHROMIUM = ""

PROBE = """
  const cells = row => [...row.cells].map(cell => cell.textContent);
  const rows = [...document.querySelectorAll("tbody tr, tfoot tr")].map(cells);
  const bars = [...document.querySelectorAll(".bar")].map(bar => bar.getBoundingClientRect().width);
  return { headline: document.querySelector("h1").textContent, rows, bars, overflow:
  document.documentElement.scrollWidth - innerWidth,
    ground: getComputedStyle(document.body).backgroundColor };"""


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        model, page = cls.folder / "resnet18.onnx", cls.folder / "page.html"
        subprocess.run([TESSERA, "new", "resnet18", "-o", model, "--dim", "batch=1"], check=True, capture_output=True)
        done = subprocess.run([TESSERA, "optimize", model, "-o", cls.folder / "out.tsr", "--json", "--report", page],
                              check=True, capture_output=True, text=True)
        cls.figures, cls.page = json.loads(done.stdout), page.read_text()

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def check_page(self, found):
        changed = [each for each in self.figures["passes"] if each["changed"]]
        self.assertIn("fold_channel_arithmetic", [each["pass"] for each in changed])
        self.assertEqual([row[0] for row in found["rows"]], [each["pass"] for each in changed] + ["all passes"])
        self.assertEqual(found["rows"][-1][1], f"{self.figures['nodes_before']} → {self.figures['nodes_after']}")
        for row in found["rows"][:-1]:
            self.assertGreater(len(row[-1].split()), 5, f"no sentence on {row[0]}")
            self.assertNotIn(row[5], ("-0%", "+0%"))
        self.assertIn("resnet18 is predicted to take", found["headline"])
        self.assertIn("instead of", found["headline"])
        # As in the file, and after each pass that changes the time.
        self.assertEqual(len(found["bars"]),
                         1 + sum(each["before"]["seconds"] != each["after"]["seconds"] for each in changed))
        self.assertAlmostEqual(found["bars"][-1] / found["bars"][0],
                               self.figures["after"]["seconds"] / self.figures["before"]["seconds"], delta=0.02)
        self.assertLessEqual(found["overflow"], 0, "the page is wider than the screen")

    def test_wide(self):
        found = browser.probe(CHROMIUM, self.folder, self.page, PROBE, 1100)
        self.check_page(found)
        self.assertEqual(found["ground"], "rgb(251, 251, 249)")

    def test_narrow_and_dark(self):
        found = browser.probe(CHROMIUM, self.folder, self.page, PROBE, 390, "--blink-settings=preferredColorScheme=0")
        self.check_page(found)
        self.assertEqual(found["ground"], "rgb(20, 23, 26)")

    def test_fits_screens(self):
        for width in (360, 768, 1280, 1920):
            with self.subTest(width=width):
                browser.check_layout(self, CHROMIUM, self.folder, self.page, width)


if __name__ == "__main__":
    TESSERA, CHROMIUM = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
