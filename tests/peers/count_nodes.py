#!/usr/bin/env python3
"""bench/node_counts.py counts what stands in the files, in subgraphs too, and times both."""

import argparse
import pathlib
import sys
import tempfile
import unittest

from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "peer_tools")]
import models  # noqa: E402
import node_counts  # noqa: E402

TESSERA = ""


class CountNodes(unittest.TestCase):
    def test_subgraphs_count_and_constants_do_not(self):
        value = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])]
        branch = helper.make_graph([helper.make_node("Neg", ["x"], ["t"]),
                                    helper.make_node("Abs", ["t"], ["y"])], "branch", [], value)
        nodes = [
            helper.make_node("Constant", [], ["c"], value_float=1.0),
            helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)
        ]
        self.assertEqual(node_counts.operators(helper.make_graph(nodes, "whole", [], value)),
                         {"If": 1, "Neg": 2, "Abs": 2})

    def test_counts_all_four(self):
        lenet = next(model for model in models.tessera_models(pathlib.Path(TESSERA)) if model.name == "lenet5")
        with tempfile.TemporaryDirectory(prefix="tessera-counts-") as name:
            folder = pathlib.Path(name)
            source = folder / "lenet5.onnx"
            lenet.write(source, 1)
            arguments = argparse.Namespace(tessera=pathlib.Path(TESSERA), time=True, pairs=3)
            cell = node_counts.count("lenet5", source, lambda: lenet.feeds(source, 1), arguments, folder)
        self.assertEqual(cell["file"], 12)
        self.assertEqual(cell["onnx"], sum(cell["onnx_operators"].values()))
        self.assertIn("tessera::ChannelsLastConv", cell["device_operators"])
        self.assertLess(0, cell["onnxruntime"])
        self.assertLessEqual(cell["onnxruntime"], cell["file"])
        self.assertGreater(cell["time_ratio"], 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tessera", required=True)
    arguments, rest = parser.parse_known_args()
    TESSERA = arguments.tessera
    unittest.main(argv=[sys.argv[0], *rest])
