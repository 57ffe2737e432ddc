#!/usr/bin/env python3
"""`tessera optimize` as a person meets it: packages and .onnx files that it writes, and what it says of them. Standard
library only.

    optimize_test.py TESSERA
"""
import json
import os
import subprocess

import program
from program import run


class Optimize(program.WithModel):
    def test_packages_run_like_their_models(self):
        package = self.folder / "lenet5.tsr"
        done = run("optimize", self.model, "-o", package, "--verify", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["file_bytes"], package.stat().st_size)
        self.assertEqual(report["verified_against"], f"{self.model} in float32 without passes, on device reference")
        self.assertEqual([output["identical"] or output["snr_db"] > 100 for output in report["verified"]], [True])
        fused = next(each for each in report["passes"] if each["pass"] == "fuse_epilogues")
        self.assertEqual((fused["nodes_before"], fused["nodes_after"], fused["changed"]), (14, 9, True))
        self.assertLess(fused["after"]["bytes"], fused["before"]["bytes"])
        self.assertLess(fused["after"]["seconds"], fused["before"]["seconds"])
        self.assertEqual(report["before"]["operations"], report["passes"][0]["before"]["operations"])
        self.assertLess(report["after"]["seconds"], report["before"]["seconds"])
        results = []
        for path in (self.model, package, package.rename(self.folder / "any_name.onnx")):
            out = self.folder / "out.json"
            self.assertEqual(
                run("run", path if path.exists() else self.folder / "any_name.onnx", "--dim", "batch=2", "--outputs",
                    out).returncode, 0)
            results.append(out.read_text())
        self.assertEqual(results[0], results[1])
        self.assertEqual(results[0], results[2])

    def test_nothing_is_compared_that_was_not_computed(self):
        written = self.folder / "null.tsr"
        self.fails(2, "--verify: device 'null' computes nothing that could be compared", "optimize", self.model, "-o",
                   written, "--device", "null", "--verify")
        self.assertFalse(written.exists())

    def test_a_damaged_package_is_no_matter_of_made_up_sizes(self):
        package = self.folder / "damaged.tsr"
        self.assertEqual(run("optimize", self.model, "-o", package).returncode, 0)
        data = bytearray(package.read_bytes())
        data[-100] ^= 0xFF
        package.write_bytes(data)
        self.fails(3, "their checksum differs; write the package again from its .onnx", "run", package)

    def test_loss_is_that_against_float32(self):
        done = run("optimize", self.model, "-o", self.folder / "rounded.tsr", "--precision", "bf16", "--verify",
                   "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        output, = json.loads(done.stdout)["verified"]
        self.assertFalse(output["identical"])
        self.assertGreater(output["largest"], 0)
        self.assertTrue(20 < output["snr_db"] < 70, output)
        self.assertTrue(0.99 < output["cosine"] < 1, output)
        text = run("optimize", self.model, "-o", self.folder / "rounded.tsr", "--precision", "bf16", "--verify").stdout
        self.assertRegex(text, r"(?m)^verified against .*lenet5\.onnx in float32 without passes, on device reference:$")
        self.assertRegex(
            text,
            r"(?m)^verified .*: largest difference .* of the largest value; signal-to-noise \d+\.\d dB, cosine "
            r"0\.99\d+$"
        )

    def test_operator_set_version_is_chosen(self):
        written = self.folder / "old.onnx"
        done = run("optimize", self.model, "-o", written, "--opset", "11", "--verify", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["opset"], {"before": 17, "after": 11, "raised_by": []})
        self.assertIn(", ONNX opset 11)", run("optimize", written, "-o", self.folder / "again.onnx").stdout)
        self.fails(2, "operator set version 8 cannot be written; expected one from 9 to 27", "optimize", self.model,
                   "-o", written, "--opset", "8")
        self.fails(2, "an operator set version can be chosen for .onnx files only", "optimize", self.model, "-o",
                   self.folder / "old.tsr", "--opset", "11")

    def test_output_names_say_what_is_written(self):
        self.fails(2, "o.bin': give it a name that ends in .onnx for an ONNX model, or in .tsr for a package",
                   "optimize", "nowhere.onnx", "-o", self.folder / "o.bin")
        self.assertFalse((self.folder / "o.bin").exists())

    def test_packages_for_other_instruction_sets_run_too(self):
        package = self.folder / "scalar.tsr"
        environment = {**os.environ, "TESSERA_ISA": "scalar"}
        made = subprocess.run([program.path, "optimize", self.model, "-o", package], capture_output=True, text=True,
                              timeout=120, env=environment)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn(" with scalar, ", run("info", package).stdout)
        results = []
        for path in (self.model, package):
            self.assertEqual(run("run", path, "--outputs", self.folder / "out.json").returncode, 0)
            results.append((self.folder / "out.json").read_text())
        self.assertEqual(results[0], results[1])

    def test_packages_run_in_the_precision_they_were_made_with(self):
        package = self.folder / "rounded.tsr"
        self.assertEqual(
            run("optimize", self.model, "-o", package, "--precision", "bf16", "--dim", "batch=1").returncode, 0)
        for verb in (["run"], ["bench", "--runs", "1"], ["info", "--plan"]):
            done = run(*verb, package)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("precision bf16", done.stdout)
        self.assertEqual(json.loads(run("run", package, "--json").stdout)["precision"], "bf16")
        self.assertEqual(json.loads(run("bench", package, "--runs", "1", "--json").stdout)["precision"], "bf16")
        self.assertEqual(
            run("diff", package, self.model, "--precision-b", "bf16", "--dim", "batch=1", "--outputs-only").returncode,
            0)
        self.fails(
            2,
            "the package was made with precision bf16 and cannot run in f32: make another from its .onnx with "
            "`tessera optimize MODEL.onnx -o OUT.tsr "
            "--precision f32`", "run", package, "--precision", "f32")

    def test_packages_are_checked(self):
        package = self.folder / "checked.tsr"
        self.assertEqual(run("optimize", self.model, "-o", package, "--dim", "batch=1").returncode, 0)
        done = run("check", package)
        self.assertEqual((done.returncode, done.stdout),
                         (0, f"{package}: all checksums agree\n1 passed, 0 failed, 0 unsupported\n"))
        done = run("info", package)
        self.assertRegex(done.stdout,
                         r"(?m)^package +by Tessera \d+\.\d+\.\d+, for cpu with \w+.*, precision f32, shapes fixed$")
        self.assertRegex(done.stdout, r"(?m)^weights +\d+ packed for kernels, .*; all checksums agree$")
        self.assertTrue(json.loads(run("info", package, "--json").stdout)["package"]["ready"])
        good = package.read_bytes()
        package.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))  # in the last weight
        self.fails(3, "section 'packed' is damaged: its checksum differs", "check", package)
        self.fails(3, "section 'packed' is damaged: its checksum differs", "info", package)
        package.write_bytes(good[:-1])
        self.fails(3, f"the file has {len(good) - 1} bytes, expected {len(good)}: it was cut off or added to", "run",
                   package)
        device = good.index(b"cpu")  # the name of the device, in the section `info`
        package.write_bytes(good[:device] + bytes([good[device] ^ 1]) + good[device + 1:])
        self.fails(3, "section 'info' is damaged: its checksum differs", "run", package)

    def test_optimize_takes_passes_by_name(self):
        out = self.folder / "out.onnx"
        self.assertEqual(
            run("optimize", self.model, "-o", out, "--only", "fold_constants", "--only", "remove_no_ops").returncode, 0)
        done = run("optimize", self.model, "-o", out, "--without", "fold_constants", "--dim", "batch=1")
        self.assertRegex(done.stdout, r"(?m)^pass +nodes +operations +read and written +predicted time +took$")
        self.assertRegex(done.stdout, r"(?m)^all passes +\d+ ")
        self.assertIn("lenet5 is predicted to take", done.stdout)
        self.fails(2, "there is no pass 'fly'", "optimize", self.model, "-o", out, "--without", "fly")
        self.fails(6, "no' does not exist", "optimize", self.model, "-o", self.folder / "no" / "out.onnx")
        self.assertEqual(run("optimize", self.model).returncode, 2)


if __name__ == "__main__":
    program.main()
