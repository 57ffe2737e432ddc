#!/usr/bin/env python3
"""The status page in headless Chromium: it shows the models, updates, and fits a phone. Standard library only.

    status_page_test.py TESSERA CHROMIUM
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import server
from server import lenet_request

chromium = ""


class StatusPage(server.WithServer):
    def look(self, width, *flags):
        """The page's document after four seconds of virtual time, in a frame of that width."""
        with tempfile.TemporaryDirectory() as holder:
            done = subprocess.run([
                chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                f"--user-data-dir={holder}", f"--window-size={width},900", "--timeout=8000",
                "--virtual-time-budget=4000", *flags, "--dump-dom", f"http://127.0.0.1:{self.server.port}/"
            ], capture_output=True, text=True, timeout=100 * server.PATIENCE)
        complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        self.assertEqual(complaints, [])
        return done.stdout

    def test_models_and_figures_are_there(self):
        for _ in range(3):
            self.server.json("POST", "/v2/models/lenet/infer", lenet_request())
        page = self.look(1200)
        self.assertRegex(page, r'id="state" class="good"[^>]*>ready<')
        self.assertEqual(re.findall(r"<h2>(.*?)</h2>", page), ["Timeline of the device", "lenet", "picture", "reader"])
        self.assertIn("<dt>answered</dt><dd>3</dd>", re.sub(r' class=""', "", page))
        self.assertGreaterEqual(self.server.json("GET", "/status/data")["http_requests"], 6)  # it asked again

    def test_the_timeline_shows_what_ran(self):
        for _ in range(3):
            self.server.json("POST", "/v2/models/lenet/infer", lenet_request())
        lanes = self.server.json("GET", "/status/data")["timeline"]["lanes"]
        self.assertEqual([(lane["model"], lane["lane"]) for lane in lanes], [("lenet/1", 0)])
        before_ms, length, busy, runs, rows = lanes[0]["bars"][-1]
        self.assertGreaterEqual(before_ms, length)
        self.assertGreaterEqual(length, busy * 0.99)
        self.assertEqual(sum(bar[3] for bar in lanes[0]["bars"]), sum(bar[4] for bar in lanes[0]["bars"]))
        page = self.look(390)
        self.assertRegex(page, r'aria-label="lenet/1, lane 1: busy \d+ %"')
        self.assertRegex(page, r'<rect [^>]*class="standard"')


if __name__ == "__main__":
    chromium = sys.argv.pop(2)
    server.main()
