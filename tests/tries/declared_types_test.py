#!/usr/bin/env python3
"""Models whose files declare false shapes, or no types, as exporters write them: they run, and give what onnxruntime
gives.

declared_types_test.py TESSERA
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

TESSERA = ""
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name, dtype=None, shape=None):
    """A declaration; without an element type one that says nothing."""
    return helper.make_tensor_value_info(name, dtype, shape) if dtype else onnx.ValueInfoProto(name=name)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


def numbers(name, values, dtype=INT64):
    values = np.asarray(values)
    return helper.make_tensor(name, dtype, values.shape, values.ravel().tolist())


def graph(nodes, inputs, outputs, initializers=(), value_info=()):
    return helper.make_graph(nodes, "g", inputs, outputs, initializer=list(initializers), value_info=list(value_info))


class DeclaredTypes(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.holder.name)
        self.addCleanup(self.holder.cleanup)

    def save(self, a_graph, opset=18):
        model = helper.make_model(a_graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        onnx.save(model, self.folder / "model.onnx")

    def run_tessera(self, *options, **feed):
        np.savez(self.folder / "in.npz", **feed)
        return subprocess.run(
            [
                TESSERA,
                "run",
                self.folder / "model.onnx",
                "--inputs",
                self.folder / "in.npz",
                "--outputs",
                self.folder / "out.npz",
                *options,
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )

    def agrees(self, warnings, **feed):
        """Runs both; `warnings`: whether ours says that shapes are false, which it says once."""
        done = self.run_tessera(**feed)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [line for line in done.stderr.splitlines() if line.startswith("tessera: warning:")]
        self.assertEqual(len(said), 1 if warnings else 0, done.stderr)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(self.folder / "model.onnx", options, providers=["CPUExecutionProvider"])
        with np.load(self.folder / "out.npz") as found:
            for output, expected in zip(session.get_outputs(), session.run(None, feed)):
                self.assertEqual(found[output.name].dtype, expected.dtype)
                np.testing.assert_allclose(found[output.name], expected, rtol=1e-6, err_msg=output.name)

    def test_outputs_of_another_size_or_rank(self):
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        self.save(
            graph(
                [node("Relu", ["x"], ["y"]), node("ReduceSum", ["x"], ["z"], keepdims=1)],
                [info("x", FLOAT, ["n", 3])],
                [info("y", FLOAT, [1, 3]), info("z", FLOAT, [])],
            )
        )
        self.agrees(True, x=x)
        self.agrees(True, x=x[:1])

    def test_details_name_each_value(self):
        self.save(
            graph(
                [node("Relu", ["x"], ["h"]), node("Neg", ["h"], ["y"])],
                [info("x", FLOAT, ["n", 3])],
                [info("y", FLOAT, ["n"])],
                value_info=[info("h", FLOAT, [5, 5, 5])],
            )
        )
        done = self.run_tessera("-v", x=np.zeros((2, 3), np.float32))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tessera: value 'h' is declared as f32[5, 5, 5], but f32[n, 3] is computed\n", done.stderr)
        self.assertIn("tessera: value 'y' is declared as f32[n], but f32[n, 3] is computed\n", done.stderr)

    def test_a_label_for_each_row(self):
        """As onnxmltools declares LightGBM's labels: for a batch of one."""
        self.save(
            graph(
                [node("ArgMax", ["x"], ["label"], axis=1, keepdims=0)],
                [info("x", FLOAT, [None, 4])],
                [info("label", INT64, [1])],
            )
        )
        for rows in (1, 7):
            self.agrees(False, x=np.random.default_rng(rows).random((rows, 4), np.float32))

    def test_a_false_size_that_depends_on_data(self):
        self.save(
            graph(
                [node("NonZero", ["x"], ["p"]), node("Cast", ["p"], ["y"], to=FLOAT)],
                [info("x", FLOAT, [6])],
                [info("y", FLOAT, [1, 6])],
                value_info=[info("p", INT64, [1, 6])],
            )
        )
        self.agrees(False, x=np.array([1, 0, 0, 2, 0, 3], np.float32))

    def test_names_of_dimensions_that_are_not_equal(self):
        """Everything is called "n", so that an expansion looks as if it changed nothing."""
        self.save(
            graph(
                [
                    node("Compress", ["x", "keep"], ["a"], axis=0),
                    node("Shape", ["x"], ["s"]),
                    node("Expand", ["a", "s"], ["y"]),
                ],
                [info("x", FLOAT, ["n"]), info("keep", BOOL, [3])],
                [info("y", FLOAT, ["n"])],
                value_info=[info("a", FLOAT, ["n"])],
            )
        )
        self.agrees(False, x=np.array([4, 5, 6], np.float32), keep=np.array([False, True, False]))

    def test_branches_with_false_shapes(self):
        branches = {
            "then_branch": graph([node("Relu", ["x"], ["a"])], [], [info("a", FLOAT, [9, 9])]),
            "else_branch": graph(
                [node("Neg", ["x"], ["b"]), node("Unsqueeze", ["b", "zero"], ["c"])], [], [info("c", FLOAT, [1])]
            ),
        }
        self.save(
            graph(
                [node("If", ["c0"], ["y"], **branches)],
                [info("x", FLOAT, ["n", 2]), info("c0", BOOL, [])],
                [info("y", FLOAT, ["n", 2])],
                [numbers("zero", [0])],
            )
        )
        for condition in (True, False):
            done = self.run_tessera(x=np.ones((3, 2), np.float32), c0=np.array(condition))
            self.assertEqual(done.returncode, 0, done.stderr)
            with np.load(self.folder / "out.npz") as found:
                self.assertEqual(found["y"].shape, (3, 2) if condition else (1, 3, 2))

    def test_a_loop_with_false_shapes_in_its_body(self):
        body = graph(
            [
                node("Concat", ["s", "x"], ["t"], axis=0),
                node("ReduceSum", ["t"], ["sum"], keepdims=0),
                node("Identity", ["c"], ["d"]),
            ],
            [info("i", INT64, []), info("c", BOOL, []), info("s", FLOAT, [2])],
            [info("d", BOOL, []), info("t", FLOAT, [2]), info("sum", FLOAT, [7, 7])],
        )
        self.save(
            graph(
                [node("Loop", ["trips", "", "x"], ["y", "sums"], body=body)],
                [info("x", FLOAT, ["n"])],
                [info("y", FLOAT, [None]), info("sums", FLOAT, [None])],
                [numbers("trips", 3)],
            )
        )
        self.agrees(True, x=np.array([1, 2], np.float32))

    def test_a_loop_that_carries_a_sequence_without_a_type(self):
        """As PyTorch's exporter writes EmbeddingBag: the body's inputs and outputs have no types."""
        body = graph(
            [
                node("Add", ["i", "one"], ["stop"]),
                node("Unsqueeze", ["i", "axis"], ["from"]),
                node("Unsqueeze", ["stop", "axis"], ["to"]),
                node("Slice", ["x", "from", "to"], ["row"]),
                node("SequenceInsert", ["s", "row"], ["t"]),
                node("Identity", ["c"], ["d"]),
            ],
            [info("i", INT64, []), info("c", BOOL, []), info("s")],
            [info("d"), info("t")],
        )
        self.save(
            graph(
                [
                    node("SequenceEmpty", [], ["none"]),
                    node("Loop", ["trips", "", "none"], ["rows"], body=body),
                    node("ConcatFromSequence", ["rows"], ["y"], axis=0),
                ],
                [info("x", FLOAT, ["n", 2])],
                [info("y", FLOAT, ["m", 2])],
                [numbers("trips", 3), numbers("one", 1), numbers("axis", [0])],
            )
        )
        self.agrees(False, x=np.arange(10, dtype=np.float32).reshape(5, 2))

    def test_a_scan_without_types(self):
        body = graph(
            [node("Add", ["s", "e"], ["t"]), node("Mul", ["t", "e"], ["o"])],
            [info("s"), info("e")],
            [info("t"), info("o")],
        )
        self.save(
            graph(
                [node("Scan", ["zero", "x"], ["last", "all"], num_scan_inputs=1, body=body)],
                [info("x", FLOAT, ["n", 2])],
                [info("last", FLOAT, [2]), info("all", FLOAT, ["n", 2])],
                [numbers("zero", [0.0, 0.0], FLOAT)],
            )
        )
        done = self.run_tessera(x=np.arange(6, dtype=np.float32).reshape(3, 2))
        self.assertEqual(done.returncode, 0, done.stderr)
        with np.load(self.folder / "out.npz") as found:
            np.testing.assert_array_equal(found["all"], [[0, 1], [4, 12], [24, 45]])

    def test_what_stays_an_error(self):
        self.save(graph([node("Relu", ["x"], ["y"])], [info("x", FLOAT, ["n"])], [info("y", INT64, ["n"])]))
        done = self.run_tessera(x=np.zeros(2, np.float32))
        self.assertEqual(done.returncode, 3)
        self.assertIn("declared as i64[n], but computes f32[n]", done.stderr)
        self.save(graph([node("Relu", ["x"], ["y"])], [info("x", FLOAT, [3])], [info("y", FLOAT, [3])]))
        done = self.run_tessera(x=np.zeros(2, np.float32))  # inputs are strict
        self.assertEqual(done.returncode, 2)
        self.assertIn("dimension 0 is 2, expected 3", done.stderr)


if __name__ == "__main__":
    TESSERA = sys.argv.pop(1)
    unittest.main()
