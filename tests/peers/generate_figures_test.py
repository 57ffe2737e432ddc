#!/usr/bin/env python3
"""bench/generate.py converts models to the formats that it names, times what it says in turn, and writes its page from
the medians of the ratios."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import gguf
import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "bench" / "peer_tools"))
import generate  # noqa: E402
import requantise_gguf  # noqa: E402

TESSERA = ""
Q4_1, Q8_0, F32 = (gguf.GGMLQuantizationType[name] for name in ("Q4_1", "Q8_0", "F32"))


def write_model(path, random):
    """A file with matrices in two formats, a vector, and keys of several types."""
    writer = gguf.GGUFWriter(path, arch="llama")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    writer.add_context_length(64)
    writer.add_token_list(["a", "b"])
    tensors = {}
    for name, kind, shape in (("blk.0.attn_q.weight", Q4_1, (8, 64)), ("token_embd.weight", Q8_0, (6, 64)),
                              ("output_norm.weight", F32, (64,))):
        tensors[name] = random.normal(size=shape).astype(numpy.float32)
        writer.add_tensor(name, gguf.quants.quantize(tensors[name], kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


class Converted(unittest.TestCase):
    def test_matrices_change_their_format_and_all_else_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder) / "source.gguf", pathlib.Path(folder) / "target.gguf"
            tensors = write_model(source, numpy.random.default_rng(46))
            for name, kind, bound in (("q4_0", gguf.GGMLQuantizationType.Q4_0, 0.6), ("q8_0", Q8_0, 0.3)):
                requantise_gguf.requantise(source, target, name)
                reader = gguf.GGUFReader(target)
                kinds = {tensor.name: tensor.tensor_type for tensor in reader.tensors}
                self.assertEqual(kinds, {
                    "blk.0.attn_q.weight": kind, "token_embd.weight": Q8_0, "output_norm.weight": F32
                })
                for tensor in reader.tensors:
                    given = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(tensors[tensor.name].shape)
                    self.assertLess(numpy.abs(given - tensors[tensor.name]).max(), bound, tensor.name)
                self.assertEqual(reader.get_field("tokenizer.ggml.tokens").contents(), ["a", "b"])
                self.assertEqual(reader.get_field("llama.context_length").contents(), 64)
                self.assertEqual(reader.get_field("general.file_type").contents(), requantise_gguf.FILE_TYPES[name])


class Figures(unittest.TestCase):
    def cell(self, test, tessera, llama):
        return {"format": "q4_1", "bytes": 1, "threads": 2, "test": test, "tessera": tessera, "llama": llama}

    def test_ratios_are_medians_of_the_rounds(self):
        cell = self.cell(["tg", 128, 0, 1], [[10, 5], [40, 9], [30, 6]], [[10, 5], [10, 3], [20, 3]])
        self.assertEqual(generate.summary(cell), {"tessera": 30, "llama": 10, "ratio": 1.5, "cpu_ratio": 2})
        self.assertEqual(generate.row(cell), "| Q4_1 | 2 | tg128 | 30.0 | 10.0 | 1.50 | 2.00 | 1.50 |")

    def test_the_page_has_a_section_for_each_file_of_figures(self):
        figures = {
            "date": "2026-01-01", "machine": "a machine", "instructions": "All instruction sets", "tessera": "0",
            "llama": "1", "rounds": 1, "load_average_at_start": 3.0,
            "cells": [self.cell(["pp", 512, 2048, 1], [[2, 2]], [[1, 1]]),
                      self.cell(["tg", 8, 0, 16], [[2, 2]], [[1, 1]])]
        }
        with tempfile.TemporaryDirectory() as folder:
            first, second, page = (pathlib.Path(folder) / name for name in ("a.json", "b.json", "page.md"))
            first.write_text(json.dumps(figures))
            second.write_text(json.dumps({**figures, "instructions": "Tessera with TESSERA_ISA=avx2"}))
            subprocess.run([sys.executable, "-B", ROOT / "bench/generate.py", "--render", first, second, "--markdown",
                            page], check=True)
            text = page.read_text()
        self.assertIn("## All instruction sets", text)
        self.assertIn("## Tessera with TESSERA_ISA=avx2", text)
        self.assertIn("| Q4_1 | 2 | pp512 at depth 2048 | 2.0 | 1.0 | 2.00 | 2.00 | 1.10 |", text)
        self.assertIn("| Q4_1 | 2 | tg8, 16 sequences | 2.0 | 1.0 | 2.00 | 2.00 | 2.50 |", text)
        self.assertIn("load average at the start 3.0", text)


class Timed(unittest.TestCase):
    def test_each_test_is_timed_by_tessera(self):
        if not generate.MODEL.exists():
            self.skipTest("smollm2 has not been fetched (scripts/fetch_models.py smollm2)")
        words = ["generate.py", "--quick", "--tessera", TESSERA]
        with mock.patch.object(sys, "argv", words):
            arguments = generate.parse()
        arguments.prompt_tokens, arguments.answer_tokens, arguments.depth, arguments.sequences = 8, 2, 4, 2
        with mock.patch.object(generate, "time_llama", return_value=[(1.0, 2.0)] * 5):
            cells = generate.measure(arguments, sys.executable)
        self.assertEqual([generate.label(cell["test"]) for cell in cells],
                         ["pp8", "tg2", "pp8 at depth 4", "tg2 at depth 4", "tg2, 2 sequences"])
        for cell in cells:
            self.assertGreater(min(cell["tessera"][0]), 0)
            self.assertEqual(cell["llama"], [(1.0, 2.0)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True, help="the program")
    TESSERA = str(pathlib.Path(parser.parse_args().tessera).resolve())
    unittest.main(argv=sys.argv[:1])
