#!/usr/bin/env python3
"""The table that bench/serve/peers.py prints, and what bench/serve/soak.py calls growth. Standard library only."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "serve"
sys.path.insert(0, str(BENCH))
import soak  # noqa: E402  pylint: disable=wrong-import-position


def measured(per_second):
    return {"per_second": per_second, "p50_us": 250.0, "p99_us": 123456.0}


class PeersTable(unittest.TestCase):
    def test_a_report_becomes_a_table(self):
        report = {"machine": "m, 2 cores", "memory_mib": {"Tessera": 40, "Triton": 90, "MLServer": 140}, "results": [
            {"model": "lenet5", "request": "binary", "load": "1 connection",
             "servers": {"Tessera": measured(4000.4), "Triton": measured(1500)}}]}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "report.json"
            path.write_text(json.dumps(report))
            done = subprocess.run([sys.executable, "-B", BENCH / "peers.py", "--render", path], capture_output=True,
                                  text=True, check=True, timeout=60)
        self.assertEqual(done.stdout.splitlines(), [
            "| p50 ms, p99 ms, requests a second | Tessera | Triton | MLServer |", "|---|---|---|---|",
            "| lenet5, binary, 1 connection | 0.25, 123, 4000 | 0.25, 123, 1500 |  |",
            "| memory after it, MiB | 40 | 90 | 140 |"])


class Growth(unittest.TestCase):
    def test_it_is_the_slope_after_the_first_quarter(self):
        flat = [{"second": 5 * i, "bytes": 100 if i > 3 else i} for i in range(16)]
        self.assertAlmostEqual(soak.growth_per_hour(flat, "bytes"), 0)
        growing = [{"second": 5 * i, "bytes": i} for i in range(16)]
        self.assertAlmostEqual(soak.growth_per_hour(growing, "bytes"), 720)
        self.assertEqual(soak.growth_per_hour(flat[:2], "bytes"), 0)


if __name__ == "__main__":
    unittest.main()
