#!/usr/bin/env python3
"""Compares the readers of GGUF and safetensors files with the packages gguf and safetensors: files that these write are
read by Tessera, and all metadata, tensors and dequantised values must be equal, bit for bit.

Usage: language_files_test.py PROGRAM [unittest options]; PROGRAM is print_language_file.
"""
import json
import pathlib
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import gguf
import ml_dtypes
import numpy as np
import safetensors.numpy

PROGRAM = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED = 46
# The types that files have and Tessera reads.
TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4".split()
MOST_SECONDS, MOST_BYTES = 1, 256 << 20


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def read(self, path):
        data = self.folder / "data"
        done = subprocess.run([PROGRAM, path, data], capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return json.loads(done.stdout), data.read_bytes()

    def error(self, path):
        """The message with which a file is refused, within the limits on time and memory."""
        def limit():
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
        start = time.monotonic()
        done = subprocess.run([PROGRAM, path, self.folder / "data"], capture_output=True, check=False,
                              preexec_fn=limit)
        # Other programs may run beside the test; a reader that is quadratic takes minutes.
        self.assertLess(time.monotonic() - start, 10 * MOST_SECONDS)
        self.assertEqual(done.returncode, 1, done)
        return done.stderr.decode()

    def check_tensors(self, tensors, data, expected):
        """`expected`: name -> (format, dimensions, contents) in the file's order."""
        self.assertEqual([tensor["name"] for tensor in tensors], list(expected))
        at = 0
        for tensor in tensors:
            form, dimensions, contents = expected[tensor["name"]]
            self.assertEqual((tensor["format"], tensor["dimensions"]), (form, dimensions), tensor["name"])
            self.assertEqual(data[at:at + len(contents)], contents, tensor["name"])
            at += len(contents)
        self.assertEqual(at, len(data))


class Gguf(Files):
    def check_file(self, path):
        """Compares a file with what gguf reads of it."""
        found, data = self.read(path)
        reader = gguf.GGUFReader(path)
        fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
        self.assertEqual(sorted(found["metadata"]), sorted(fields))
        for name, field in fields.items():
            names = [kind.name.lower() for kind in field.types]
            names = ["bool" if kind == "bool" else kind.replace("uint", "u").replace("int", "i").replace("float", "f")
                     if kind != "string" else kind for kind in names]
            expected = f"array of {names[1]}" if names[0] == "array" else names[0]
            self.assertEqual(found["metadata"][name]["type"], expected, name)
            self.assertEqual(found["metadata"][name]["value"], field.contents(), name)
        expected = {}
        for tensor in reader.tensors:
            with np.errstate(all="ignore"):
                values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            expected[tensor.name] = (tensor.tensor_type.name.lower(), tensor.shape.tolist(), values.tobytes())
        self.check_tensors(found["tensors"], data, expected)

    def test_metadata_of_every_type(self):
        path = self.folder / "values.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_uint8("a.u8", 255)
        writer.add_int8("a.i8", -128)
        writer.add_uint16("a.u16", 65535)
        writer.add_int16("a.i16", -32768)
        writer.add_uint32("a.u32", 2**32 - 1)
        writer.add_int32("a.i32", -2**31)
        writer.add_uint64("a.u64", 2**63 - 1)
        writer.add_int64("a.i64", -2**63)
        writer.add_float32("a.f32", 0.1)
        writer.add_float64("a.f64", 0.1)
        writer.add_bool("a.bool", True)
        writer.add_string("a.string", "größer \U0001F600\n")
        writer.add_array("a.texts", ["", "one", "zwei\0drei"])
        writer.add_array("a.numbers", [1, -2, 3])
        writer.add_array("a.fractions", [0.5, -0.25])
        writer.add_array("a.flags", [True, False])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        self.check_file(path)

    def test_tensors_of_every_type(self):
        random_numbers = np.random.default_rng(SEED)
        for alignment in (32, 64):
            path = self.folder / "tensors.gguf"
            writer = gguf.GGUFWriter(path, "llama")
            writer.add_custom_alignment(alignment)
            for number, name in enumerate(TYPES):
                kind = gguf.GGMLQuantizationType[name]
                elements, size = gguf.GGML_QUANT_SIZES[kind]
                row = 256 // elements * size
                # Scales are the only floats in the blocks, and NaN has many bits: draw until there is none.
                while True:
                    raw = random_numbers.integers(0, 256, (3, 5, row), dtype=np.uint8)
                    with np.errstate(all="ignore"):
                        if not np.isnan(gguf.quants.dequantize(raw, kind).astype(np.float32)).any():
                            break
                        raw[:] = random_numbers.integers(0, 0x78, raw.shape, dtype=np.uint8)
                        break
                typed = {"F32": np.float32, "F16": np.float16}.get(name)
                writer.add_tensor(f"w{number}", raw.view(typed) if typed else raw, raw_dtype=None if typed else kind)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            self.check_file(path)

    def test_sharded_file(self):
        path = self.folder / "model.gguf"
        writer = gguf.GGUFWriter(path, "llama", split_max_tensors=2)
        for i in range(5):
            writer.add_tensor(f"w{i}", np.full((2, 3), i, np.float32))
        writer.write_header_to_file(path)
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        found, data = self.read(self.folder / "model-00001-of-00003.gguf")
        self.check_tensors(found["tensors"], data, {
            f"w{i}": ("f32", [3, 2], np.full((2, 3), i, np.float32).tobytes()) for i in range(5)})

    def test_real_model(self):
        models = sorted((ROOT / ".models" / "smollm2").glob("*.gguf"))
        if not models:
            self.skipTest("scripts/fetch_models.py fetches smollm2")
        self.check_file(models[0])

    def test_hostile_files(self):
        path = self.folder / "hostile.gguf"
        pair = struct.pack("<Q1sIB", 1, b"k", 0, 1)
        cases = {
            "more than the limits": b"GGUF" + struct.pack("<IQQ", 3, 2**62, 0),
            "expected one from 0 to 12": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q1sI", 1, b"k", 77),
            "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
            "two metadata values 'k'": b"GGUF" + struct.pack("<IQQ", 3, 0, 65536) + pair * 65536,
            # Each element is empty, so that as many as possible are in the file.
            "the name of a metadata value has 0 bytes": b"GGUF" + struct.pack("<IQQ", 3, 0, 2)
                                     + struct.pack("<Q1sIIQ", 1, b"k", 9, 8, (16 << 20) - 32) + bytes(128 << 20),
        }
        for message, contents in cases.items():
            path.write_bytes(contents)
            self.assertIn(message, self.error(path))


class Safetensors(Files):
    def test_tensors_of_every_type(self):
        random_numbers = np.random.default_rng(SEED)
        types = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i64": np.int64,
                 "i32": np.int32, "i16": np.int16, "i8": np.int8, "u64": np.uint64, "u32": np.uint32, "u16": np.uint16,
                 "u8": np.uint8, "bool": np.bool_, "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
        tensors, expected = {}, {}
        for name, kind in types.items():
            for shape in ((), (3,), (2, 0), (2, 3, 5)):
                raw = random_numbers.integers(0, 2, (*shape, np.dtype(kind).itemsize), dtype=np.uint8)
                value = raw.view(kind).reshape(shape)
                tensors[f"{name} {shape} é\"\\"] = value
                expected[f"{name} {shape} é\"\\"] = (name, list(shape), value.tobytes())
        path = self.folder / "model.safetensors"
        safetensors.numpy.save_file(tensors, path, {"format": "np", "größe": "1\n\"2\""})
        found, data = self.read(path)
        self.assertEqual(found["metadata"], {"format": "np", "größe": "1\n\"2\""})
        in_order = {}
        for tensor in found["tensors"]:
            in_order[tensor["name"]] = expected.pop(tensor["name"])
        self.assertEqual(expected, {})
        self.check_tensors(found["tensors"], data, in_order)

    def test_hostile_files(self):
        path = self.folder / "hostile.safetensors"
        entry = '"%06d":{"dtype":"F32","shape":[],"data_offsets":[0,4]}'
        headers = {
            "overlaps the one before it": "{" + ",".join(entry % i for i in range(100_000)) + "}",
            "there are more than 262144 tensors": "{" + ",".join(entry % i for i in range(300_000)) + "}",
            "expected '{'": "{\"a\":" + "[" * 50_000_000,
            "more than 1048576 bytes": "{\"" + "a" * 99_000_000 + "\":{}}",
            "has more than 65536 entries": "{\"__metadata__\":{" + ",".join(f'"{i}":""' for i in range(200_000)) + "}}",
        }
        for message, header in headers.items():
            path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(4))
            self.assertIn(message, self.error(path))

    def test_mutations(self):
        """A byte changed anywhere in the header is either refused or changes what the header says."""
        path = self.folder / "model.safetensors"
        safetensors.numpy.save_file({"a": np.ones((2, 3), np.float32), "b": np.ones(4, np.int8)}, path)
        whole = path.read_bytes()
        draw = random.Random(SEED)
        for _ in range(60):
            at = draw.randrange(8 + struct.unpack("<Q", whole[:8])[0])
            path.write_bytes(whole[:at] + bytes([draw.randrange(256)]) + whole[at + 1:])
            done = subprocess.run([PROGRAM, path, self.folder / "data"], capture_output=True, check=False)
            self.assertIn(done.returncode, (0, 1), (SEED, at))


if __name__ == "__main__":
    unittest.main()
