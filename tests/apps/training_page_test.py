#!/usr/bin/env python3
"""The page that `tessera train` writes, in headless Chromium: its figures are those of the log, plots are drawn, and it
fits wide, narrow and dark screens.

    training_page_test.py TESSERA CHROMIUM
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import browser
from training_data import pictures, write_npz

TESSERA = CHROMIUM = ""

PROBE = """
  const plots = [...document.querySelectorAll("svg.plot")].filter(plot => plot.getBoundingClientRect().width > 0);
  const facts = Object.fromEntries([...document.querySelectorAll("dl.facts div")].map(
    each => [each.querySelector("dt").textContent, each.querySelector("dd").firstChild.textContent]));
  return { facts, drawn: plots.map(plot => plot.querySelector(".curve").getBBox().width),
    heading: document.querySelector("h1").textContent, curves: plots[0].querySelectorAll(".curve").length,
    legend: [...document.querySelectorAll(".legend")[0].children].map(each => each.textContent),
    ticks: plots.map(plot => [...plot.querySelectorAll(".grid")].filter(
      line => line.getAttribute("x1") === line.getAttribute("x2")).length),
    over: plots.filter(plot => { const name = plot.querySelector(".axisname").getBBox();
      return plot.querySelector(".curve").getBBox().y < name.y + name.height; }).length,
    settings: document.querySelector("pre.settings").textContent,
    titles: [...document.querySelectorAll("h2")].map(title => title.textContent),
    operators: [...document.querySelectorAll("tbody tr")].map(row => row.cells[0].textContent),
    overflow: document.documentElement.scrollWidth - innerWidth,
    ground: getComputedStyle(document.body).backgroundColor };"""


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        write_npz(cls.folder / "data.npz", *pictures(160))
        config = cls.folder / "two.toml"
        config.write_text(f"""output = "{cls.folder / 'out'}"
[model]
builder = "lenet5"
[data]
train = "{cls.folder / 'data.npz'}"
hold_out = 0.2
[optimiser]
learning_rate = 0.01
schedule = {{ name = "cosine", warmup_steps = 5 }}
[train]
epochs = 6
log_every = 1
""")
        subprocess.run([TESSERA, "train", config], check=True, capture_output=True)
        cls.page = (cls.folder / "out/report.html").read_text()
        cls.last = json.loads((cls.folder / "out/log.jsonl").read_text().splitlines()[-1])

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def check_page(self, found):
        self.assertEqual(found["facts"]["steps"], str(self.last["step"]))
        self.assertEqual(found["facts"]["test accuracy"], f"{self.last['test_accuracy']:.4f}")
        self.assertEqual(found["heading"], "Training of lenet5")
        self.assertEqual(found["titles"][:3], ["Loss", "test accuracy", "Classes"])
        self.assertEqual(found["curves"], 2)
        self.assertEqual(found["legend"], ["training", "test data"])
        self.assertGreater(min(found["ticks"]), 1)
        self.assertEqual(found["over"], 0, "a name of an axis lies on a curve")
        self.assertIn("learning_rate = 0.01", found["settings"])
        self.assertIn("Learning rate", found["titles"])
        self.assertEqual(len(found["drawn"]), 4)
        self.assertGreater(min(found["drawn"]), 100)
        self.assertTrue(any("Conv" in operator for operator in found["operators"]), found["operators"])
        self.assertLessEqual(found["overflow"], 0, "the page is wider than the screen")

    def test_wide(self):
        found = browser.probe(CHROMIUM, self.folder, self.page, PROBE, 1100)
        self.check_page(found)
        self.assertEqual(found["ground"], "rgb(251, 251, 249)")

    def test_narrow_and_dark(self):
        found = browser.probe(CHROMIUM, self.folder, self.page, PROBE, 390, "--blink-settings=preferredColorScheme=0")
        self.check_page(found)
        self.assertEqual(found["ground"], "rgb(20, 23, 26)")

    def test_grows_while_training(self):
        config = self.folder / "long.toml"
        config.write_text((self.folder / "two.toml").read_text().replace("epochs = 6", "steps = 1000000")
                          .replace("'out'", "'long'").replace("/out", "/long"))
        page = self.folder / "long/report.html"
        child = subprocess.Popen([TESSERA, "train", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not page.exists() and child.poll() is None:
                time.sleep(0.1)
            grown = page.read_text()
        finally:
            child.send_signal(signal.SIGINT)
            child.wait(60)
        self.assertIn('<meta http-equiv="refresh" content="5">', grown)
        self.assertIn("of 1000000; this page grows", grown)
        self.assertNotIn('http-equiv="refresh"', page.read_text())

    def test_fits_screens(self):
        for width in (360, 768, 1280, 1920):
            with self.subTest(width=width):
                browser.check_layout(self, CHROMIUM, self.folder, self.page, width)


if __name__ == "__main__":
    TESSERA, CHROMIUM = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
