#!/usr/bin/env python3
"""The command line as a person meets it: what it prints, its exit codes, and what it says of bad files. Standard
library only.

    command_line_test.py TESSERA
"""
import json
import os
import pathlib
import struct
import subprocess
import time
import zipfile
import zlib

import hostile_files_test as files
import program
from program import OVER_BUDGET, WRONG_CALL, run


def npy(shape, values, descr="<f4", code="f"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(
        f"<{len(values)}{code}", *values)


def png(rows):
    """Of rows of grey levels."""
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(
        b"IDAT", zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))) + chunk(b"IEND", b"")


class CommandLine(program.WithModel):
    def test_help_teaches(self):
        self.assertEqual(run("--help").returncode, 0)
        for verb in ("run", "bench", "info", "check", "new", "calibrate", "explain", "optimize", "diff"):
            done = run(verb, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Example", done.stdout)
        self.assertEqual(run().returncode, 2)
        self.assertEqual(run("fly").returncode, 2)

    def test_explain_says_what_bounds_a_model(self):
        done = run("explain", self.model, "--device", "t4", "--device", "a100-40-sxm", "--precision", "f16", "--all")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(
            done.stdout,
            r"^assuming batch=1; change with --dim NAME=N\nlenet5 is predicted to take .* on NVIDIA T4 in f16: \d+% "
            r"of it "
        )
        self.assertRegex(
            run("explain", self.model, "--device", "t4", "--dim", "batch=1").stdout, r"^lenet5 is predicted to take ")
        self.assertIn("NVIDIA A100 SXM4 40 GB", done.stdout)
        done = run("explain", self.model, "--device", "a100", "--device", "v100", "--dim", "batch=1")
        self.assertRegex(
            done.stdout,
            r"^a100 means a100-80-sxm\nv100 means v100-16\nlenet5 is predicted to take .* on NVIDIA A100 SXM4 80 GB "
            r"in f32"
        )
        page = json.loads(run("explain", self.model, "--device", "t4", "--training", "--json").stdout)
        self.assertTrue(page["training"])
        self.assertGreater(len(page["devices"][0]["layers"]), 10)
        self.fails(2, "there is no device 'abacus'", "explain", self.model, "--device", "abacus")
        self.fails(2, "--measure runs on this CPU", "explain", self.model, "--device", "t4", "--measure")

    def test_explain_scales_a_profile_to_fewer_threads(self):
        profile = self.folder / "cores.toml"
        profile.write_text(
            "name = 'four'\ntitle = 'Four cores'\nkind = 'cpu'\nsources = ['a test']\n[vector]\nf32 = "
            "0.001\n[memory]\nsize_gb = 8\n"
            "bandwidth_gb_s = 1000\n[launch]\noverhead_us = 0.001\n[units]\nmultiprocessors = 4\n")
        seconds = {}
        for threads in ("0", "1", "2", "8"):
            done = run("explain", self.model, "--dim", "batch=1", "--device", profile, "--threads", threads, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            seconds[threads] = json.loads(done.stdout)["devices"][0]["seconds"]
            warned = {"0": "",
                      "8": "has 4 cores: predictions are for those"}.get(threads,
                                                                         f"was not measured with {threads} threads")
            self.assertIn(warned, done.stderr)
        self.assertAlmostEqual(seconds["1"] / seconds["0"], 4, delta=0.5)
        self.assertAlmostEqual(seconds["2"] / seconds["0"], 2, delta=0.25)
        self.assertEqual(seconds["8"], seconds["0"])

    def test_explain_without_calibration_says_so(self):
        done = subprocess.run([program.path, "explain", self.model], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "XDG_CACHE_HOME": str(self.folder / "empty")})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rough: run `tessera calibrate`", done.stdout)
        done = subprocess.run([program.path, "explain", self.model, "--learn"], capture_output=True, text=True,
                              timeout=120, env={**os.environ, "XDG_CACHE_HOME": str(self.folder / "empty")})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no calibration to add to", done.stderr)

    def test_version_names_the_machine(self):
        done = run("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^tessera \d+\.\d+\.\d+\nmachine: .+cores?\n"
                                      r"devices: cpu, cuda:N, reference, null, simulated:PROFILE\n")

    def test_new_is_repeatable(self):
        again = self.folder / "again.onnx"
        run("new", "lenet5", "-o", again)
        self.assertEqual(self.model.read_bytes(), again.read_bytes())
        run("new", "lenet5", "-o", again, "--seed", "2")
        self.assertNotEqual(self.model.read_bytes(), again.read_bytes())
        self.fails(2, "there is no net 'lenet'; nets: lenet5, ", "new", "lenet")

    def test_new_refuses_nets_that_take_all_memory(self):
        for dim in ("layers=999999999", "width=99999999999"):
            self.fails(OVER_BUDGET, "more than the ", "new", "mlp", "-o", self.folder / "much.onnx", "--dim", dim)

    def test_tokenize_names_what_is_wrong(self):
        tokenizer = self.folder / "tokenizer.json"
        tokenizer.write_text('{"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}}}')
        self.assertEqual(run("tokenize", tokenizer, "--decode", "1,0").stdout, "b a\n")
        for token in (-1, 2, 999999999):
            self.fails(WRONG_CALL, f"--decode: there is no token {token}, expected numbers from 0 to 1", "tokenize",
                       tokenizer, "--decode", token)
        tokenizer.write_text('{"model":\n x}')
        self.fails(WRONG_CALL, "this is no tokenizer.json: parse error at line 2, column 2: syntax error", "tokenize",
                   tokenizer, "a")
        done = run("tokenize", tokenizer, "a")
        self.assertIn(str(tokenizer), done.stderr)
        self.assertNotIn("json.exception", done.stderr)

    def test_run_prints_and_saves(self):
        out = self.folder / "out.npz"
        trace = self.folder / "trace.json"
        done = run("run", self.model, "--dim", "batch=2", "--outputs", out, "--profile", trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"output: f32\[2, 10\]  min ")
        with zipfile.ZipFile(out) as archive:
            self.assertEqual(archive.namelist(), ["output.npy"])
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertTrue(any("Conv" in event["name"] and event["ph"] == "X" for event in events))
        summary = json.loads(run("run", self.model, "--json").stdout)
        self.assertEqual(summary["outputs"][0]["shape"], [1, 10])

    def test_random_operators_draw_anew_unless_a_seed_is_given(self):
        shape = files.message(5, files.message(1, "shape"), files.number(8, 4), files.number(20, 7))
        path = self.folder / "noise.onnx"
        path.write_bytes(files.model(files.node("RandomNormal", [], ["y"], shape),
                                     files.message(12, files.value_info("y", 1, [4]))))
        draw = lambda *more: run("run", path, "--outputs", "-", *more).stdout
        self.assertEqual(len({draw() for _ in range(3)}), 3)
        self.assertEqual(draw("--seed", 3), draw("--seed", 3))
        self.assertNotEqual(draw("--seed", 3), draw("--seed", 4))
        self.assertEqual(run("diff", path, path).returncode, 0)
        self.assertEqual(run("optimize", path, "-o", self.folder / "noise.tsr", "--verify").returncode, 0)
        self.assertEqual(run("run", self.folder / "noise.tsr", "--outputs", "-", "--seed", 3).stdout, draw("--seed", 3))

    def test_devices_agree(self):
        values = [
            json.loads(run("run", self.model, "--json", "--device", device).stdout)["outputs"][0]["max"]
            for device in ("cpu", "reference")
        ]
        self.assertAlmostEqual(values[0], values[1], places=4)
        self.fails(2, "no device 'tpu'; devices: cpu, cuda:N, reference, null", "run", self.model, "--device", "tpu")
        self.fails(2, "did you mean 'h100-sxm'?", "run", self.model, "--device", "simulated:h100-smx")

    def test_passes_can_be_left_out(self):
        self.assertEqual(
            run("run", self.model, "--without", "fuse_attention", "--without", "channels_last").returncode, 0)
        self.fails(2, "there is no pass 'fuse'", "run", self.model, "--without", "fuse")

    def test_tuned_choices_are_kept(self):
        cache = self.folder / "cache"
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        tune = lambda: subprocess.run([program.path, "run", self.model, "--tune"], capture_output=True, text=True,
                                      timeout=120, env=environment)
        first = tune()
        self.assertEqual((first.returncode, first.stderr), (0, ""))  # progress is for terminals
        [file] = cache.glob("tessera/tuning-*.json")
        choices = json.loads(file.read_text())["choices"]
        self.assertTrue(choices)
        written = file.stat().st_mtime_ns
        self.assertEqual(tune().stdout.split("  min")[0], first.stdout.split("  min")[0])
        self.assertEqual(file.stat().st_mtime_ns, written)
        file.write_text("{")
        damaged = tune()
        self.assertEqual(damaged.returncode, 0, damaged.stderr)
        self.assertIn("is no table of measured kernels", damaged.stderr)
        self.assertEqual(len(damaged.stderr.splitlines()), 1, damaged.stderr)

    def test_sizes_that_are_made_up_are_named_when_they_do_not_fit(self):
        model = pathlib.Path(__file__).resolve().parents[2] / ".models" / "silero_vad" / "silero_vad.onnx"
        if not model.exists():
            self.skipTest("scripts/fetch_models.py fetches silero_vad")
        # The branches of its If, which are looked at when they run, take windows of one length.
        for verb in (["run"], ["bench", "--runs", "1"]):
            done = run(*verb, model, "--dim", "input.1=77")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("sizes of the inputs are made up, assuming ", done.stderr)
            self.assertIn("change with --dim NAME=N", done.stderr)
        self.assertEqual(run("run", model, "--dim", "input.1=256").returncode, 0)

    def test_tuned_choices_are_kept_where_asked(self):
        file = self.folder / "deeper" / "tuned.json"
        self.assertEqual(run("run", self.model, "--tune", "--tuning-file", file).returncode, 0)
        self.assertTrue(json.loads(file.read_text())["choices"])
        file.write_text("{")
        self.fails(2, "is no table of measured kernels", "run", self.model, "--tune", "--tuning-file", file)
        self.fails(2, "--tuning-file is for --tune", "run", self.model, "--tuning-file", file)

    def test_bench_has_the_promised_keys(self):
        figures = json.loads(run("bench", self.model, "--runs", "3", "--json").stdout)
        self.assertEqual(
            set(figures),
            set("model precision threads shapes load_ms first_ms median_ms min_ms p90_ms p99_ms runs interrupted "
                "peak_rss_bytes arena_bytes weights_bytes device_arena_bytes device_weights_bytes"
                .split()))
        self.assertEqual(figures["runs"], 3)
        self.assertLessEqual(figures["min_ms"], figures["median_ms"])

    def test_bench_goes_on_for_the_time_asked(self):
        start = time.monotonic()
        figures = json.loads(run("bench", self.model, "--runs", "2", "--seconds", "0.5", "--json").stdout)
        self.assertGreater(time.monotonic() - start, 0.5)
        self.assertGreater(figures["runs"], 2)
        self.assertEqual(run("bench", self.model, "--seconds", "-1").returncode, 2)

    def test_bench_does_not_count_the_memory_of_its_parent(self):
        ours = bytearray(b"x") * (200 << 20)
        figures = json.loads(run("bench", self.model, "--runs", "1", "--json").stdout)
        self.assertLess(figures["peak_rss_bytes"], len(ours) // 2)

    def test_info_describes(self):
        info = json.loads(run("info", self.model, "--json").stdout)
        self.assertEqual(info["symbols"], ["batch"])
        self.assertEqual(info["parameters"], 61706)
        self.assertIn("passed over", run("info", self.model, "--plan").stdout)

    def test_a_model_comes_from_standard_input(self):
        read = {"input": self.model.read_bytes(), "text": False}
        described = run("info", "-", "--json", **read)
        self.assertEqual(json.loads(described.stdout)["parameters"], 61706)
        self.assertIn(b"standard input is predicted", run("explain", "-", **read).stdout)
        empty = run("info", "-", input="")
        self.assertEqual(empty.returncode, program.INVALID)
        self.assertIn("standard input, which '-' stands for, is empty", empty.stderr)

    def test_a_package_of_bf16_is_explained(self):
        package = self.folder / "rounded.tsr"
        self.assertEqual(run("optimize", self.model, "-o", package, "--precision", "bf16").returncode, 0)
        here = run("explain", package)
        self.assertRegex(here.stdout, r"predicted to take .* a run on .* in bf16")
        elsewhere = run("explain", package, "--device", "t4")
        self.assertEqual(elsewhere.returncode, 0, elsewhere.stderr)
        self.assertIn("NVIDIA T4 in f32", elsewhere.stdout)
        self.assertIn("the .onnx file that it was made from is predicted better", elsewhere.stderr)

    def test_info_shows_the_graph(self):
        info = json.loads(run("info", self.model, "--json").stdout)
        self.assertEqual(info["graph"]["nodes"][0]["op"], "Conv")
        self.assertEqual(info["graph"]["nodes"][0]["attributes"]["kernel_shape"], [5, 5])
        self.assertEqual(sum(1 for weight in info["graph"]["weights"] if weight["statistics"]["std"] > 0), 10)
        self.assertEqual(info["metadata"]["producer_name"], "tessera")
        name = info["graph"]["nodes"][0]["name"]
        text = run("info", self.model, "--nodes", "--weights").stdout
        self.assertRegex(text, r"(?m)^opsets +ai.onnx \d+; IR version \d+$")
        self.assertIn(f"   #1 Conv  '{name}'\n", text)
        self.assertRegex(text, r"(?m)^f32\[6, 1, 5, 5\] +600 B ")
        node = run("info", self.model, "--node", name)
        self.assertIn("  input      input: f32[batch, 1, 28, 28]  from input\n", node.stdout)
        self.assertNotIn("operators", node.stdout)
        self.assertEqual(json.loads(run("info", self.model, "--node", "#1", "--json").stdout)["nodes"][0]["name"], name)
        self.fails(5, f"no node has the name or an output '{name}x'; the nearest: '{name}'", "info", self.model,
                   "--node", name + "x")
        package = self.folder / "shown.tsr"
        self.assertEqual(run("optimize", self.model, "-o", package).returncode, 0)
        self.assertIn("tessera::", run("info", package, "--nodes").stdout)

    def test_pictures_are_inputs(self):
        picture = self.folder / "digit.png"
        picture.write_bytes(png([[0, 50, 100, 150]] * 2))
        done = run("run", self.model, "--input", f"input={picture}", "--json", "--top", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            done.stderr,
            f"input 'input': {picture} of 4 x 2, resized to 28 x 28, grey as f32[1, 1, 28, 28], values 0 to 1 "
            f"(--normalise)\n"
        )
        output = json.loads(done.stdout)["outputs"][0]
        self.assertEqual([each["index"] for each in output["top"]][0], output["argmax"])
        self.assertEqual(len(output["top"]), 3)
        same = self.folder / "same.npy"
        row = [max(0.0, min(3.0, (x + 0.5) / 7 - 0.5)) * 50 / 255 for x in range(28)]
        same.write_bytes(npy([1, 1, 28, 28], row * 28))
        expected = json.loads(run("run", self.model, "--input", f"input={same}", "--json").stdout)["outputs"][0]
        self.assertAlmostEqual(output["max"], expected["max"], places=5)
        self.assertNotEqual(
            json.loads(run("run", self.model, "--input", f"input={picture}", "--json", "--normalise",
                           "none").stdout)["outputs"][0]["max"], output["max"])
        self.fails(2, "the model has no input 'image' that", "run", self.model, "--input", f"image={picture}")
        picture.write_bytes(b"no picture")
        self.fails(4, "none of the picture formats that are read", "run", self.model, "--input", f"input={picture}")

    def test_diff_says_where_models_part(self):
        optimised = self.folder / "optimised.onnx"
        self.assertEqual(run("optimize", self.model, "-o", optimised, "--dim", "batch=1").returncode, 0)
        done = run("diff", self.model, optimised, "--dim", "batch=1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("the same: 1 outputs and ", done.stdout)
        done = run("diff", self.model, "--device-a", "reference", "--without-a", "all", "--without-b", "fuse_epilogues",
                   "--chunk", "1", "--json")
        report = json.loads(done.stdout)
        self.assertEqual((done.returncode, report["same"], report["first"]), (0, True, None))
        self.assertEqual(len(report["values"]), 11)
        self.assertTrue(all(each["same"] and not each["mismatch"] for each in report["values"]))

        done = run("diff", self.model, "--precision-b", "bf16", "--rtol", "1e-6", "--json")
        report = json.loads(done.stdout)
        self.assertEqual((done.returncode, report["same"]), (1, False))
        first = next(each for each in report["values"] if each["name"] == report["first"])
        self.assertEqual(first["op"], "Conv")
        self.assertEqual(len(first["first"]["index"]), 4)
        done = run("diff", self.model, "--precision-b", "bf16", "--rtol", "1e-6", "--outputs-only")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(
            done.stdout,
            r"1 of 1 outputs differ:\n  SNR, dB .*\n.* 'output' \(Gemm\)\nthe first value that differs: 'output', "
            r"made by node '.*' \(Gemm\)"
        )
        self.assertEqual(run("diff", self.model, "--precision-b", "bf16", "--rtol", "0.1").returncode, 0)
        self.fails(2, "no input of either model has a dimension 'depth'", "diff", self.model, "--dim", "depth=1")
        self.fails(2, "there is no pass 'fly'", "diff", self.model, "--without-b", "fly")
        self.fails(5, "does not exist", "diff", self.model, self.folder / "missing.onnx")

    def test_bad_files(self):
        self.fails(5, "does not exist", "run", self.folder / "missing.onnx")
        truncated = self.folder / "truncated.onnx"
        truncated.write_bytes(self.model.read_bytes()[:5000])
        self.fails(3, "truncated.onnx", "info", truncated)
        text = self.folder / "text.onnx"
        text.write_text("this is no model\n")
        self.fails(3, "text.onnx", "run", text)
        empty = self.folder / "empty.onnx"
        empty.write_bytes(b"")
        self.fails(3, "empty.onnx", "run", empty)
        self.fails(6, "", "run", self.folder)

    def test_memory_limit(self):
        self.fails(7, "of the limit of 1.0 MiB are in use", "run", self.model, "--dim", "batch=50", "--memory-limit",
                   "1")

    def test_limit_of_device_memory(self):
        device = "simulated:t4,compute=none"
        self.fails(7, f"do not fit in the memory of device '{device}'", "run", self.model, "--dim", "batch=200",
                   "--device", device, "--device-memory-limit", "1")

    def test_bench_shows_memory_of_the_device(self):
        device = ("bench", self.model, "--device", "simulated:t4,compute=none", "--runs", "1")
        self.assertIn("\ndevice  arena ", run(*device).stdout)
        measured = json.loads(run(*device, "--json").stdout)
        self.assertGreater(measured["device_weights_bytes"], 61706 * 4 - 4096)
        on_cpu = json.loads(run("bench", self.model, "--runs", "1", "--json").stdout)
        self.assertEqual(on_cpu["device_weights_bytes"], 0)

    def test_lists_devices(self):
        listed = json.loads(run("info", "--devices", "--json", "--device", "simulated:h100").stdout)
        self.assertIn("simulated:PROFILE", listed["names"])
        by_name = {device["name"]: device for device in listed["devices"]}
        self.assertTrue(by_name["cpu"]["computes_in_host_memory"])
        h100 = by_name["simulated:h100-sxm"]
        self.assertFalse(h100["computes_in_host_memory"])
        self.assertEqual([h100["compute_capability"], h100["multiprocessors"], h100["profile"]],
                         ["9.0", 132, "h100-sxm"])
        text = run("info", "--devices").stdout
        self.assertIn("cpu\n  product", text)
        self.assertNotIn("simulated:h100-sxm\n", text)
        self.fails(2, "there is no device 'tpu'", "info", "--devices", "--device", "tpu")
        self.fails(2, "MODEL is required", "info")

    def test_a_device_that_only_plans(self):
        self.assertIn("f32[1, 10]  not computed", run("run", self.model, "--device", "null").stdout)
        self.assertNotIn("mean", run("run", self.model, "--device", "null", "--json").stdout)
        self.fails(2, "device 'null' computes nothing", "run", self.model, "--device", "null", "--outputs",
                   self.folder / "out.npz")

    def test_bad_inputs(self):
        wrong = self.folder / "wrong.npy"
        wrong.write_bytes(npy([1, 1, 28, 27], [0.0] * 28 * 27))
        self.fails(2, "input 'input' has shape [1, 1, 28, 27]: dimension 3 is 27, expected 28", "run", self.model,
                   "--input", f"input={wrong}")
        self.fails(2, "the model has no input 'image'", "run", self.model, "--input", f"image={wrong}", "--input",
                   f"input={wrong}")
        wrong.write_bytes(npy([1, 1, 28, 28], [0] * 784, "<i8", "q"))
        self.fails(2, "input 'input' has element type i64, expected f32", "run", self.model, "--input",
                   f"input={wrong}")
        self.fails(2, "no input has a dimension 'batches'; symbolic dimensions are 'batch'", "run", self.model, "--dim",
                   "batches=2")
        self.fails(2, "--dim expects NAME=N", "run", self.model, "--dim", "batch")


if __name__ == "__main__":
    program.main()
