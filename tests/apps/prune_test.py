#!/usr/bin/env python3
"""`tessera prune` as a user calls it. Standard library only.

    prune_test.py TESSERA
"""
import json

import program
from program import NOT_FOUND, WRONG_CALL, run
from training_data import pictures, write_npz


class Prune(program.WithModel):
    def test_takes_out_channels(self):
        small = self.folder / "small.onnx"
        done = run("prune", self.model, "-o", small, "--structure", "channels", "--sparsity", "0.5", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertLess(report["parameters_after"], 0.4 * report["parameters_before"])
        self.assertEqual(report["file_bytes"], small.stat().st_size)
        self.assertEqual([layer["removed_outputs"] for layer in report["layers"]], [3, 8, 60, 42, 0])
        self.assertEqual(run("run", small, "--dim", "batch=1").returncode, 0)

    def test_sets_weights_to_zero(self):
        for arguments, zeros in [(["--sparsity", "0.8"], 0.8), (["--structure", "2:4", "--exclude", "conv*"], 0.5)]:
            package = self.folder / "pruned.tsr"
            done = run("prune", self.model, "-o", package, *arguments, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            for layer in json.loads(done.stdout)["layers"]:
                self.assertAlmostEqual(1 - layer["nonzero_after"] / layer["weights_before"], zeros, delta=0.02)
            self.assertEqual(run("check", package).returncode, 0)
        self.assertRegex(run("prune", self.model, "-o", package).stdout, r"fc1\.weight +48000 +48000 +4800 +10\.0%")

    def test_says_which_layers_do_not_fit_the_structure(self):
        # Of LeNet-5's layers the first two convolutions have 1 and 6 inputs.
        text = "conv{}.weight stays as it is: its inputs are no multiple of the M of N:M"
        out = self.folder / "pruned.onnx"
        done = run("prune", self.model, "-o", out, "--structure", "2:4")
        self.assertEqual(done.returncode, 0, done.stderr)
        for layer in (1, 2):
            self.assertIn(text.format(layer), done.stdout)
        done = run("prune", self.model, "-o", out, "--structure", "2:4", "--json")
        self.assertEqual(json.loads(done.stdout)["left_out"], ["conv1.weight", "conv2.weight"])

    def test_says_what_each_layer_costs(self):
        data = self.folder / "data.npz"
        write_npz(data, *pictures(24), names=("input", "labels"))
        done = run("prune", self.model, "--sensitivity", "--data", data, "--sparsities", "0.5,0.95", "--metric",
                   "cosine", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(json.loads(done.stdout)), ["sensitivity"])  # nobody asked for a pruning
        found = json.loads(done.stdout)["sensitivity"]
        self.assertEqual(found["metric"], "cosine")
        self.assertEqual(found["snr_samples"], 24)
        self.assertEqual(len(found["layers"]), 5)
        for layer in found["layers"]:
            few, many = layer["points"]
            self.assertEqual((few["sparsity"], many["sparsity"]), (0.5, 0.95))
            self.assertGreaterEqual(few["snr_db"], many["snr_db"])
        self.assertRegex(run("prune", self.model, "--sensitivity", "--data", data, "--sparsities", "0.5").stdout,
                         r"fc1\.weight +48000 +-?0\.\d{4}")
        pruned = self.folder / "pruned.onnx"
        found = json.loads(run("prune", self.model, "-o", pruned, "--data", data, "--json").stdout)
        self.assertEqual(found["metric"], "accuracy")
        self.assertTrue(all(layer["snr_db"] > found["snr_db"] for layer in found["layers"]))
        self.assertGreater(found["memory_bytes_after"], 0)

    def test_refuses_what_does_not_fit(self):
        out = self.folder / "out.onnx"
        self.fails(WRONG_CALL, "the structure is 'foo', expected none, N:M such as 2:4, channels or heads", "prune",
                   self.model, "-o", out, "--structure", "foo")
        self.fails(WRONG_CALL, "--sparsity does not go with --structure 2:4", "prune", self.model, "-o", out,
                   "--structure", "2:4", "--sparsity", "0.8")
        self.fails(WRONG_CALL, "the structure is '4:2'", "prune", self.model, "-o", out, "--structure", "4:2")
        self.fails(WRONG_CALL, "the sparsity is 1.5, expected a number in [0, 1)", "prune", self.model, "-o", out,
                   "--sparsity", "1.5")
        self.fails(WRONG_CALL, "exclude: no weight of a layer has a name like 'x*'", "prune", self.model, "-o", out,
                   "--exclude", "x*")
        self.fails(WRONG_CALL, "--output is required", "prune", self.model)
        self.fails(WRONG_CALL, "--data", "prune", self.model, "--sensitivity")
        self.fails(WRONG_CALL, "out.bin", "prune", self.model, "-o", self.folder / "out.bin")
        write_npz(self.folder / "few.npz", *pictures(8), names=("input", "labels"))
        self.fails(WRONG_CALL, "there is no array 'foo' for the labels; the file has input, labels", "prune",
                   self.model, "-o", out, "--data", self.folder / "few.npz", "--labels", "foo")
        self.fails(NOT_FOUND, "does not exist", "prune", self.folder / "none.onnx", "-o", out)


if __name__ == "__main__":
    program.main()
