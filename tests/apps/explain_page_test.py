#!/usr/bin/env python3
"""The page of `tessera explain --html` in headless Chromium: marks are drawn, arrow keys walk, tables sort, all of it
fits phones and wide screens, and what was measured comes first.

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
        explain = [
            TESSERA, "explain", model, "--device", "a100-40-sxm", "--device", "l4", "--precision", "f16", "--json",
            "--html", cls.folder / "page.html"
        ]
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


# Sorts the table of all operators by a click on a column, and shows all of its rows.
SORTING = """
  const details = document.querySelector("details.operators");
  details.open = true;
  const table = details.querySelector("table"), heads = [...table.tHead.rows[0].cells];
  const bytes = heads.findIndex(head => head.textContent === "Bytes"), button = heads[bytes].querySelector("button");
  const rows = () => [...table.tBodies[0].rows];
  const state = () => ({ values: rows().map(row => parseFloat(row.cells[bytes].dataset.value)),
    names: rows().map(row => row.cells[0].textContent), shown: rows().filter(row => !row.hidden).length,
    sorted: heads.filter(head => head.getAttribute("aria-sort").endsWith("scending")).map(head => head.textContent),
    direction: heads[bytes].getAttribute("aria-sort") });
  const states = [state()];
  for (let i = 0; i < 3; ++i) { button.click(); states.push(state()); }
  heads[0].querySelector("button").click();
  states.push(state());
  const more = details.querySelector(".more");
  more.click();
  button.focus();
  return { states, all: state().shown, text: more.textContent, count: details.querySelector(".count").textContent,
    focused: document.activeElement === button && button.tabIndex === 0 };"""

MEASURED = """
  const terms = [...document.querySelectorAll("dl.facts dt")].map(term => term.textContent);
  const values = [...document.querySelectorAll("dl.facts dd")].map(value => value.firstChild.textContent);
  const tracks = [...document.querySelectorAll(".bars .track")].slice(0, 25);
  const bars = tracks.map(track => [...track.children].map(bar => bar.className));
  const totals = document.querySelector("table");
  const cells = row => [...row.cells].map(cell => cell.textContent);
  return { headline: document.querySelector("h1").textContent, terms, values, bars,
    heads: cells(totals.tHead.rows[0]), total: cells(totals.tFoot.rows[0]) };"""


class ManyOperators(unittest.TestCase):
    """A net of more operators than a table shows at first, measured on this CPU and explained for a GPU."""

    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        model = cls.folder / "mobilenet_v3_small.onnx"
        new = [TESSERA, "new", "mobilenet_v3_small", "-o", model, "--dim", "batch=1"]
        subprocess.run(new, check=True, capture_output=True)
        cls.figures, cls.pages = {}, {}
        gpu = ["--device", "a100-40-sxm", "--device", "l4", "--precision", "f16"]
        for name, how in (("cpu", ["--measure"]), ("gpu", gpu)):
            explain = [TESSERA, "explain", model, "--json", "--html", cls.folder / f"{name}.html", *how]
            cls.figures[name] = json.loads(subprocess.run(explain, check=True, capture_output=True, text=True).stdout)
            cls.pages[name] = (cls.folder / f"{name}.html").read_text()

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def test_fits_screens(self):
        for name, width in (("cpu", 360), ("gpu", 360), ("gpu", 768), ("cpu", 1280), ("gpu", 1280), ("gpu", 1920)):
            with self.subTest(page=name, width=width):
                found = browser.check_layout(self, CHROMIUM, self.folder, self.pages[name], width)
                wide = [table["label"] for table in found["tables"] if table["wider"]]
                if width == 360:
                    self.assertIn("All operators", wide)
                elif name == "cpu" and width >= 1280:
                    self.assertEqual(wide, [])

    def test_what_was_measured_comes_first(self):
        found = browser.probe(CHROMIUM, self.folder, self.pages["cpu"], MEASURED, 1280)
        measured = self.figures["cpu"]["measured"]
        self.assertEqual(found["terms"][:2], ["Measured", "Predicted"])
        self.assertIn(f" takes {found['values'][0]} a run on ", found["headline"])
        self.assertIn(f", measured with {measured['threads']} thread", found["headline"])
        self.assertIn(f"(predicted: {found['values'][1]})", found["headline"])
        unit = {"µs": 1e-6, "ms": 1e-3, "s": 1}[found["values"][0].split()[1]]
        seconds = measured["total_seconds"]
        self.assertAlmostEqual(float(found["values"][0].split()[0]) * unit, seconds, delta=0.01 * seconds)
        self.assertLess(found["heads"].index("Measured"), found["heads"].index("Predicted"))
        self.assertEqual(found["total"][found["heads"].index("Measured")], found["values"][0])
        for bars in found["bars"]:
            self.assertEqual(bars[1], "bar beside")  # the prediction, in grey below what was measured
            self.assertNotIn("beside", bars[0])
        predicted = browser.probe(CHROMIUM, self.folder, self.pages["gpu"], MEASURED, 1280)
        self.assertIn(" is predicted to take ", predicted["headline"])

    def test_tables_sort(self):
        found = browser.probe(CHROMIUM, self.folder, self.pages["gpu"], SORTING, 1280)
        given, descending, ascending, back, by_name = found["states"]
        self.assertEqual(given["sorted"], ["Predicted"])
        directions = [state["direction"] for state in (descending, ascending, back)]
        self.assertEqual(directions, ["descending", "ascending", "none"])
        self.assertEqual(descending["values"], sorted(given["values"], reverse=True))
        self.assertEqual(ascending["values"], sorted(given["values"]))
        self.assertEqual(back["names"], given["names"])
        self.assertEqual(by_name["sorted"], ["Layer"])
        self.assertNotEqual(by_name["names"], given["names"])
        self.assertEqual(sorted(by_name["names"]), sorted(given["names"]))
        self.assertTrue(found["focused"], "headers cannot be reached by the keyboard")
        self.assertGreater(len(given["values"]), 50)
        for state in found["states"]:
            self.assertEqual(state["shown"], 50)
        self.assertEqual(found["all"], len(given["values"]))
        self.assertEqual((found["text"], found["count"]), ("Show the first 50 rows", ""))


if __name__ == "__main__":
    TESSERA, CHROMIUM = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
