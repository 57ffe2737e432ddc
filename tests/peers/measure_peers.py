#!/usr/bin/env python3
"""bench/peers.py measures what it says: a cell of real processes, and what it prints of failures and of outputs that
differ."""

import json
import argparse
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench" / "peer_tools"))
import measure  # noqa: E402
import models  # noqa: E402
import report  # noqa: E402

TESSERA = ""


def settings(**changes):
    return argparse.Namespace(
        **{
            "tessera": pathlib.Path(TESSERA), "peers": ["onnxruntime"], "precision": ["f32"], "batch": [2],
            "threads": [1], "rounds": 2, "seconds": 0.01, "limit": 120.0, "torch_compile": False, "roof": pathlib.Path(
                "/nowhere"), **changes
        })


def lenet():
    return next(model for model in models.tessera_models(pathlib.Path(TESSERA)) if model.name == "lenet5")


def page(cells):
    return report.markdown({
        "date": "2026-01-01T00:00+00:00", "machine": "a machine", "memory_gib": 1, "system": "a system",
        "load_average_at_start": 0.0, "versions": {"tessera": "0", "onnxruntime": "1", "openvino": "2"},
        "settings": {"rounds": 1, "seconds": 1, "torch": "eager"}, "cells": cells
    })


class MeasurePeers(unittest.TestCase):
    def test_cell_has_both_sides(self):
        cell, = measure.cells([lenet()], settings())
        peer = cell["peers"]["onnxruntime"]
        self.assertIsNone(peer["remark"])
        self.assertLess(peer["relative_difference"], 1e-4)
        self.assertEqual((peer["how"], len(peer["ratios"]), cell["batch"]), ("IO binding", 2, 2))
        self.assertLessEqual(min(peer["ratios"]), peer["ratio"])
        for side in (peer, cell["tessera"]):
            self.assertTrue(all(side[key] > 0 for key in ("median_ms", "load_ms", "first_ms", "peak_rss_bytes")), side)
        self.assertGreater(peer["peak_rss_bytes"], peer["imported_rss_bytes"])

    def test_quantised_model_agrees(self):
        cell, = measure.cells([lenet()], settings(precision=["int8"], rounds=1))
        self.assertIsNone(cell["peers"]["onnxruntime"]["remark"])

    def test_failures_stand_in_the_cell(self):
        cell, = measure.cells([lenet()], settings(peers=["onnxruntime", "openvino"], precision=["bf16"], rounds=1))
        self.assertIn("no bf16 mode", cell["peers"]["onnxruntime"]["skipped"])
        self.assertIn("No module named 'openvino'", cell["peers"]["openvino"]["failure"])
        text = page([cell])
        self.assertRegex(text, r"\| lenet5 \| 2 \| 1 \| .* \| skipped \[\d\] \| fails \[\d\] \|")
        self.assertIn("ONNX Runtime: has no bf16 mode for float32 models on x86", text)
        self.assertIn("onnxruntime: has no bf16 mode", report.terminal_row(cell, ["onnxruntime"]))

    def test_cells_that_are_done_are_left_out(self):
        done = {("lenet5", 2, "f32", 1)}
        self.assertEqual(list(measure.cells([lenet()], settings(), done)), [])
        cell, = measure.cells([lenet()], settings(batch=[1, 2], rounds=1), done)
        self.assertEqual(cell["batch"], 1)

    def test_model_that_cannot_be_made_is_a_cell(self):
        cell, = measure.cells([models.file_model("/nowhere/none.onnx", {})], settings())
        self.assertIn("there is no file /nowhere/none.onnx", page([cell]))

    def test_outputs_that_differ_are_flagged(self):
        def other_outputs(case):
            find_reference(case)
            case.reference = [value * 1.002 for value in case.reference]

        find_reference = measure.Case.find_reference
        with mock.patch.object(measure.Case, "find_reference", other_outputs):
            cell, = measure.cells([lenet()], settings(rounds=1))
        self.assertIn("outputs differ by 2.0e-03", cell["peers"]["onnxruntime"]["remark"])
        self.assertIn("outputs differ by 2.0e-03", page([cell]))

    def test_layers_have_their_share_of_the_peak(self):
        layer = next(model for model in models.deep_bench_models() if model.name == "gemm_35x700x2048")
        with tempfile.TemporaryDirectory() as folder:
            roof = pathlib.Path(folder) / "roof"
            peaks = [{"what": "float32 multiply-add", "threads": 1, "giga_operations_per_second": 1000},
                     {"what": "bf16 dot", "threads": 1, "giga_operations_per_second": 9}]
            roof.write_text(f"#!/bin/sh\necho '{json.dumps({'compute': peaks})}'\n")
            roof.chmod(0o755)
            cell, = measure.cells([layer], settings(rounds=1, roof=roof))
        self.assertAlmostEqual(cell["share_of_peak"],
                               2 * 35 * 700 * 2048 / (cell["tessera"]["median_ms"] * 1e-3) / 1e12)
        ours, theirs = (f"{100 * share:.0f}"
                        for share in (cell["share_of_peak"],
                                      cell["share_of_peak"] / cell["peers"]["onnxruntime"]["ratio"]))
        self.assertIn(f"| gemm_35x700x2048 | 1 | 1 | **{ours}** | {theirs} | – |", page([cell]))
        self.assertNotIn("share of the machine", page([]))

    def test_page_counts_and_averages(self):
        def cell(ratio):
            return {
                "model": "m", "batch": 1, "precision": "f32", "threads": 1,
                "tessera": {"median_ms": 2.0, "load_ms": 1.0, "first_ms": 1.0, "peak_rss_bytes": 2**20}, "peers": {
                    "onnxruntime": {
                        "median_ms": 2 * ratio, "ratio": ratio, "ratios": [ratio], "remark": None, "load_ms": 1.0,
                        "first_ms": 1.0, "peak_rss_bytes": 3 * 2**20, "imported_rss_bytes": 2**20
                    }, "openvino": {"failure": "no | such\nthing"}
                }
            }

        text = page([cell(0.5), cell(8.0)])
        self.assertIn(
            "ONNX Runtime: geometric mean of the ratios 2.00; Tessera is faster in 1 of 2 cells; ONNX Runtime fails 0 "
            "more",
            text)
        self.assertIn("| m | 1 | 1 | 2.00 | 1.00 (0.50) | fails [1] |", text)
        self.assertIn("| m | 1 | 1 | 2.00 | 16.00 (**8.00**) | fails [1] |", text)
        self.assertIn("1. OpenVINO: no \\| such thing", text)
        self.assertIn("1.00 + 1.00, 3 (2)", text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True, help="the program")
    TESSERA = str(pathlib.Path(parser.parse_args().tessera).resolve())
    unittest.main(argv=sys.argv[:1])
