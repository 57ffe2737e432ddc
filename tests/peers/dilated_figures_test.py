#!/usr/bin/env python3
"""bench/dilated.py times real layers, whose results are ONNX Runtime's, and writes its page from the figures."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TESSERA = ""


def run(*words):
    command = [sys.executable, "-B", str(ROOT / "bench" / "dilated.py"), *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class DilatedFigures(unittest.TestCase):
    def test_cases_are_measured_and_written(self):
        sizes = ["--channels", "24", "--maps", "6,20", "--dilations", "2,8", "--threads", "1"]
        with tempfile.TemporaryDirectory() as folder:
            figures, page = pathlib.Path(folder) / "figures.json", pathlib.Path(folder) / "page.md"
            settings = ["--peers", "onnxruntime", "--rounds", "2", "--seconds", "0.01", "--json", figures]
            text = run("--tessera", TESSERA, *sizes, *settings)
            run("--render", figures, "--markdown", page)
            cells, written = json.loads(figures.read_text())["cells"], page.read_text()
        self.assertIn("onnxruntime: geometric mean of the ratios", text)
        self.assertEqual([(cell["size"], cell["dilation"]) for cell in cells], [(6, 2), (6, 8), (20, 2), (20, 8)])
        for cell in cells:
            peer = cell["peers"]["onnxruntime"]
            self.assertLess(peer["difference"], 1e-5, cell)
            self.assertEqual((len(cell["tessera_ms"]), len(peer["ms"])), (2, 2))
            entry = f"{min(cell['tessera_ms']):.3f} ({peer['ratio']:.2f})"
            self.assertIn(f"| {entry} ", written)
        self.assertIn("| 24 | 20×20 |", written)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True, help="the program")
    TESSERA = str(pathlib.Path(parser.parse_args().tessera).resolve())
    unittest.main(argv=sys.argv[:1])
