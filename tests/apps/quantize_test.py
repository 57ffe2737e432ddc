#!/usr/bin/env python3
"""`tessera quantize` as a user calls it: what it writes and says, and what it refuses. Standard library only.

    quantize_test.py TESSERA
"""
import json

import program
from program import NOT_FOUND, WRONG_CALL, run
from training_data import pictures, write_npz


class Quantize(program.WithModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.folder / "data.npz"
        cls.write(cls.data)

    @classmethod
    def write(cls, path, samples=24, change=None, shape=None):
        """An .npz file with the model's input, in which one number may be changed, and labels."""
        x, y = pictures(samples)
        if change is not None:
            x[7][3] = change
        write_npz(path, x, y, ("input", "labels"), shape)

    def quantize(self, *arguments):
        return run("quantize", self.model, "-o", self.folder / "out.onnx", *arguments)

    def test_full_int8(self):
        report = self.folder / "report.json"
        done = self.quantize("--full", "--data", self.data, "--metric", "agreement", "--json", "--report", report)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found, json.loads(report.read_text()))
        self.assertGreater(found["bytes_before"], 3 * found["bytes_after"])
        self.assertEqual(found["file_bytes"], (self.folder / "out.onnx").stat().st_size)
        self.assertGreater(found["snr_db"], 20)
        self.assertEqual(found["metric_before"], 1)
        for key in ("measured_ms_before", "measured_ms_after", "memory_bytes_before", "memory_bytes_after"):
            self.assertGreater(found[key], 0, key)
        self.assertEqual(len(found["layers"]), 5)
        snr = [layer["snr_db"] for layer in found["layers"]]
        self.assertEqual(snr, sorted(snr))
        self.assertEqual(run("run", self.folder / "out.onnx", "--dim", "batch=1").returncode, 0)

    def test_labels_give_an_accuracy_and_names_are_metrics(self):
        found = json.loads(self.quantize("--full", "--data", self.data, "--fast", "--json").stdout)
        self.assertEqual(found["metric"], "accuracy")
        self.assertIsNotNone(found["metric_after"])
        self.assertEqual(found["snr_samples"], 24)
        found = json.loads(self.quantize("--data", self.data, "--fast", "--metric", "f1", "--json").stdout)
        self.assertEqual(found["metric"], "f1")
        self.fails(WRONG_CALL, "there is no metric 'true'; expected one of agreement, cosine, snr, accuracy",
                   "quantize", self.model, "-o", self.folder / "out.onnx", "--data", self.data, "--metric", "true")

    def test_a_file_that_grows_is_said(self):
        layers = json.loads(self.quantize("--fast", "--json").stdout)["layers"]
        names = [layer["name"] for layer in layers]
        done = self.quantize("--fast", *[word for name in names[1:] for word in ("--exclude", name)])
        self.assertEqual(done.returncode, 0, done.stderr)
        if (self.folder / "out.onnx").stat().st_size > self.model.stat().st_size:
            self.assertIn("times larger", done.stdout)
        self.assertRegex(self.quantize("--fast").stdout, r"file .* -> .*, [23]\.\d\d times smaller")

    def test_weights_alone_and_adaptively(self):
        nearest = self.quantize("--weights", "int4", "--data", self.data, "--fast", "--json")
        adaptive = self.quantize("--weights", "int4", "--data", self.data, "--fast", "--json", "--adaptive-rounding",
                                 "--rounding-steps", "60")
        self.assertEqual(adaptive.returncode, 0, adaptive.stderr)
        nearest, adaptive = json.loads(nearest.stdout), json.loads(adaptive.stdout)
        self.assertFalse(nearest["adaptively_rounded"])
        self.assertGreaterEqual(adaptive["snr_db"], nearest["snr_db"])
        self.assertGreater(max(layer["rounding_gain_db"] for layer in adaptive["layers"]), 0.5)

    def test_a_budget_with_a_command(self):
        done = self.quantize("--full", "--data", self.data, "--max-drop", "0.1", "--metric", "command:echo 0.75 #",
                             "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual((found["metric_before"], found["metric_after"]), (0.75, 0.75))
        self.assertEqual([layer["quantised"] for layer in found["layers"]], [True] * 5)
        # A command that is worse with every quantised model leaves everything in float, and says why.
        counter = self.folder / "count"
        script = f"echo x >> {counter}; [ $(wc -l < {counter}) = 1 ] && echo 1 || echo 0 #"
        found = json.loads(self.quantize("--full", "--data", self.data, "--max-drop", "0.1", "--metric", script,
                                         "--json").stdout)
        self.assertEqual([layer["quantised"] for layer in found["layers"]], [False] * 5)
        self.assertTrue(all("needs it in float" in layer["reason"] for layer in found["layers"]))

    def test_excluded_layers_stay(self):
        names = [layer["name"] for layer in json.loads(self.quantize("--full", "--data", self.data, "--json",
                                                                     "--fast").stdout)["layers"]]
        done = self.quantize("--full", "--data", self.data, "--fast", "--exclude", names[0])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4 of 5 layers quantised", done.stdout)
        self.assertIn("excluded by a pattern", done.stdout)

    def test_refuses_hostile_data(self):
        out, bad = self.folder / "bad.onnx", self.folder / "bad.npz"
        refused = lambda code, text: self.fails(code, text, "quantize", self.model, "-o", out, "--full", "--data", bad)
        refused(NOT_FOUND, "bad.npz")
        self.write(bad, change=float("nan"))
        refused(WRONG_CALL, "NaN in sample 7")
        self.write(bad, change=float("inf"))
        refused(WRONG_CALL, "an infinity in sample 7")
        self.write(bad, samples=0)
        refused(WRONG_CALL, "no samples")
        self.write(bad, shape=(24, 1, 14, 56))
        refused(WRONG_CALL, "f32[8, 1, 14, 56], expected f32[batch, 1, 28, 28]")
        bad.write_bytes(b"PK\x03\x04 no archive")
        refused(WRONG_CALL, "bad.npz")
        self.assertFalse(out.exists())

    def test_refuses_options_that_do_not_fit(self):
        out = self.folder / "bad.onnx"
        refused = lambda text, *arguments: self.fails(WRONG_CALL, text, "quantize", self.model, "-o", out, *arguments)
        refused("--data", "--full")
        refused("--data", "--adaptive-rounding")
        refused("--data", "--max-drop", "0.1")
        refused("no layer has a name like 'none*'", "--full", "--data", self.data, "--exclude", "none*")
        refused("int8", "--full", "--weights", "int4", "--data", self.data)
        refused("there is no array 'foo' for the labels; the file has input, labels", "--full", "--data", self.data,
                "--labels", "foo")
        refused("the array 'input' is an input of the model, expected labels", "--full", "--data", self.data,
                "--labels", "input")
        self.fails(WRONG_CALL, "out.bin", "quantize", self.model, "-o", self.folder / "out.bin")
        self.assertFalse(out.exists())


if __name__ == "__main__":
    program.main()
