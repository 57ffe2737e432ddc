#!/usr/bin/env python3
"""The page of `tessera share simulate --html` in headless Chromium: the figures of --json stand in it, timelines are
drawn, wide, narrow and dark.

    share_page_test.py TESSERA CHROMIUM
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import browser

TESSERA = CHROMIUM = ""

TRACE = """seed = 1
[job.search]
steps_us = [500, 1500]
class = "realtime"
goal_ms = 8
arrivals = "poisson"
rate = 60
requests = 300

[job.a_training_with_quite_a_long_name_for_a_table]
steps_us = [2000, 3000]
class = "background"
requests = 600

[job.reports]
steps_us = [700]
arrivals = "bursts"
burst = 5
rate = 50
requests = 100
"""

PROBE = """
  const cells = row => [...row.cells].map(cell => cell.textContent);
  const rows = table => [...table.querySelectorAll("tbody tr")].map(cells);
  const tables = [...document.querySelectorAll("table")].map(rows);
  const shown = [...document.querySelectorAll("svg.plot")].filter(plot => plot.getBoundingClientRect().width > 0);
  const plots = shown.map(plot => { const box = plot.getBoundingClientRect();
    const marks = [...plot.querySelectorAll(".mark, .mark *, [class*=mark]")];
    const colours = new Set(marks.map(mark => getComputedStyle(mark).fill).filter(fill => fill !== "none"));
    return { right: box.right, marks: marks.length, colours: colours.size }; });
  return { headline: document.querySelector("h1").textContent, tables, plots, width: innerWidth,
    legend: [...document.querySelectorAll(".legend, .key")].map(each => each.textContent).join(" "),
    overflow: document.documentElement.scrollWidth - innerWidth,
    ground: getComputedStyle(document.body).backgroundColor };"""


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        trace, page = cls.folder / "office.toml", cls.folder / "page.html"
        trace.write_text(TRACE)
        command = [TESSERA, "share", "simulate", trace, "--device", "a100-80-sxm", "--json", "--html", page]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        cls.figures, cls.page = json.loads(done.stdout), page.read_text()

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def check_page(self, found):
        self.assertIn("office", found["headline"])
        policies = self.figures["policies"]
        self.assertEqual([row[0] for row in found["tables"][0]], [each["policy"] for each in policies])
        self.assertEqual(len(policies), 6)
        for row, figures in zip(found["tables"][0], policies):
            self.assertEqual(row[2], f"{100 * figures['busy_share']:.1f}%")
            self.assertEqual(row[5], str(sum(job["goal_misses"] for job in figures["jobs"])))
        for rows, figures in zip(found["tables"][1:], policies):
            self.assertEqual([(row[0], row[1], row[2]) for row in rows],
                             [(job["name"], job["class"], str(job["runs"])) for job in figures["jobs"]])
        self.assertEqual(len(found["plots"]), len(policies), "one timeline of each policy is shown")
        for plot in found["plots"]:
            self.assertGreater(plot["marks"], 100)
            self.assertEqual(plot["colours"], 3, "a colour for each class")
            self.assertLessEqual(plot["right"], found["width"])
        for name in ("realtime", "standard", "background"):
            self.assertIn(name, found["legend"], "the colours are explained")
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
