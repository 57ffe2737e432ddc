#!/usr/bin/env python3
"""The page of `tessera explain --html` in headless Chromium: marks are drawn, arrow keys walk, nothing complains.

    explain_page_test.py TESSERA CHROMIUM
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TESSERA = CHROMIUM = ""

# Walks one mark on and notes what the page shows, where --dump-dom finds it.
PROBE = """<script>
addEventListener("load", () => {
  const plot = [...document.querySelectorAll("svg.plot")].find(p => p.getBoundingClientRect().width > 0);
  const marks = [...plot.querySelectorAll(".mark")], readout = plot.parentElement.querySelector(".readout");
  const drawn = marks.filter(m => m.getBBox().width > 0).length;
  marks[0].focus();
  const first = readout.textContent;
  marks[0].dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  const probe = document.createElement("pre");
  probe.id = "probe";
  probe.textContent = JSON.stringify({ drawn, first, second: readout.textContent, focused: document.activeElement === marks[1],
    tabbable: marks.filter(m => m.tabIndex === 0).length, overflow: document.documentElement.scrollWidth - innerWidth,
    ground: getComputedStyle(document.body).backgroundColor });
  document.body.append(probe);
});
</script>"""


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        model = cls.folder / "resnet18.onnx"
        subprocess.run([TESSERA, "new", "resnet18", "-o", model, "--dim", "batch=8"], check=True, capture_output=True)
        explain = [TESSERA, "explain", model, "--device", "a100-40-sxm", "--device", "l4", "--precision", "f16", "--json", "--html", cls.folder / "page.html"]
        cls.figures = json.loads(subprocess.run(explain, check=True, capture_output=True, text=True).stdout)
        page = (cls.folder / "page.html").read_text()
        (cls.folder / "probed.html").write_text(page.replace("</body>", PROBE + "</body>"))

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def probe(self, width, *flags):
        # A window has at least 500 pixels: a frame has as few as a phone.
        frame = f'<iframe src="probed.html" width="{width}" height="3000"></iframe>'
        (self.folder / "frame.html").write_text(f'<body>{frame}<script>const f=document.querySelector("iframe");'
                                                'f.addEventListener("load",()=>setTimeout(()=>document.body.append(f.contentDocument.getElementById("probe").cloneNode(true)),100));</script>')
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--enable-logging=stderr",
                   f"--user-data-dir={self.folder / 'profile'}", "--virtual-time-budget=4000", *flags, "--dump-dom", (self.folder / "frame.html").as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual([line for line in done.stderr.splitlines() if "CONSOLE" in line], [])
        found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
        self.assertTrue(found, done.stdout[-2000:] + done.stderr[-2000:])
        return json.loads(found.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))

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
