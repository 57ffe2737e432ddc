#!/usr/bin/env python3
"""Files, pipes, devices and links that are made to hurt, given to the command line: each must end with an exit code of
its kind and one clear line, within 5 seconds and 512 MiB. Standard library only.

    hostile_files_test.py TESSERA
"""
import os
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import zipfile

import program
from program import INVALID, IO, NOT_FOUND, OVER_BUDGET, UNSUPPORTED, WRONG_CALL

SECONDS, MEBIBYTES = 5, 512


def run(*arguments):
    """Exit status, standard error, seconds and peak MiB of one call."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen([program.path, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - start
        out.seek(0)
        err.seek(0)
        return child.returncode, err.read().decode(), out.read().decode(), seconds, usage.ru_maxrss / 1024


# --- protobuf by hand: https://protobuf.dev/programming-guides/encoding/
# -----------------------------------------------------------

def varint(value):
    value &= (1 << 64) - 1
    text = b""
    while value >= 0x80:
        text += bytes([value & 0x7F | 0x80])
        value >>= 7
    return text + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, *parts):
    payload = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def tensor(name, dtype, dims, *rest):
    return b"".join(number(1, dim) for dim in dims) + number(2, dtype) + message(8, name) + b"".join(rest)


def value_info(name, dtype=1, dims=()):
    shape = message(2, *[message(1, number(1, dim)) for dim in dims])
    return message(1, name) + message(2, message(1, number(1, dtype), shape))


def node(op, inputs, outputs, *attributes):
    return message(1, *[message(1, name) for name in inputs], *[message(2, name) for name in outputs], message(4, op),
                   *attributes)


def model(*graph, opset=21):
    return number(1, 10) + message(8, number(2, opset)) + message(7, *graph)


def external(location, *entries):
    pairs = [("location", location), *entries]
    return number(14, 1) + b"".join(message(13, message(1, key), message(2, value)) for key, value in pairs)


def weight_model(*data):
    """y = w, u8[4]"""
    return model(message(5, tensor("w", 2, [4], *data)), node("Identity", ["w"], ["y"]), message(12, message(1, "y")))


def npy(header, data=b""):
    header = header.encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


class HostileFiles(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.holder.name)
        (self.folder / "inner").mkdir()
        (self.folder / "secret").write_bytes(b"abcd")
        (self.folder / "inner" / "data").write_bytes(b"abcd")

    def tearDown(self):
        self.holder.cleanup()

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def refused(self, code, text, *arguments):
        status, errors, _, seconds, mebibytes = run(*arguments)
        self.assertEqual(status, code, errors)
        self.assertIn(text, errors)
        self.assertEqual(len(errors.strip().splitlines()), 1, errors)
        self.assertLess(len(errors), 20_000)
        self.assertTrue(all(character.isprintable() or character == "\n" for character in errors), repr(errors))
        self.assertLess(seconds, SECONDS, arguments)
        self.assertLess(mebibytes, MEBIBYTES, arguments)

    def accepted(self, *arguments):
        status, errors, out, seconds, mebibytes = run(*arguments)
        self.assertEqual(status, 0, errors)
        self.assertLess(seconds, SECONDS, arguments)
        self.assertLess(mebibytes, MEBIBYTES, arguments)
        return out

    # --- what stands at a path

    def places(self):
        os.mkfifo(self.folder / "pipe")
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(self.folder / "socket"))
        (self.folder / "loop").symlink_to(self.folder / "loop")
        (self.folder / "dangling").symlink_to(self.folder / "nothing")
        return [
            ("pipe", IO, "is not a regular file"),
            ("socket", IO, "is not a regular file"),
            ("inner", IO, "is not a regular file"),
            ("/dev/zero", IO, "is not a regular file"),
            ("/dev/null", IO, "is not a regular file"),
            ("/dev/stdin", IO, "is not a regular file"),
            ("loop", IO, "symbolic link"),
            ("dangling", NOT_FOUND, "does not exist"),
            ("nothing", NOT_FOUND, "does not exist"),
            ("inner/data/below", NOT_FOUND, "does not exist"),
            ("x" * 300, IO, "cannot open"),
        ]

    def test_models_and_inputs_are_regular_files(self):
        fine = self.write(
            "fine.onnx",
            model(node("Relu", ["x"], ["y"]), message(11, value_info("x", 1, [2])), message(12, message(1, "y"))))
        for name, code, text in self.places():
            path = self.folder / name
            if name == "inner":  # a folder may hold a language model
                self.refused(NOT_FOUND, "has 0 .safetensors files", "info", path)
            else:
                self.refused(code, text, "info", path)
            self.refused(code, text, "run", fine, "--inputs", path)
            self.refused(code, text, "run", fine, "--input", f"x={path}")
        self.accepted("run", fine)

    def test_external_data_lies_in_the_folder_of_the_model(self):
        (self.folder / "link").symlink_to(self.folder / "secret")
        (self.folder / "up").symlink_to("/")
        os.link(self.folder / "secret", self.folder / "hard")
        for place, code, text in [
            ("/etc/hostname", INVALID, "is not a relative path"),
            ("../" + self.folder.name + "/data", INVALID, "leads out of the folder"),
            ("inner/../../x", INVALID, "leads out of the folder"),
            ("link", INVALID, "passes the symbolic link 'link'"),
            ("up/etc/hostname", INVALID, "passes the symbolic link 'up'"),
            ("hard", IO, "has 2 hard links"),
            ("", INVALID, "is not a relative path"),
            ("inner", IO, "is not a regular file"),
            ("inner/", INVALID, "names no file"),
            (".", INVALID, "names no file"),
            ("a" * (1 << 20), INVALID, "is not a relative path"),
            ("inner/data\x00.bin", INVALID, "is not a relative path"),
            ("\x1b[31mred", NOT_FOUND, "\\x1B[31mred"),
            ("absent", NOT_FOUND, "does not exist"),
        ]:
            self.refused(code, text, "info", self.write("m.onnx", weight_model(external(place))))
        for name, code, text in self.places():
            if not name.startswith("/") and name not in ("loop", "dangling"):
                self.refused(code, text, "info", self.write("m.onnx", weight_model(external(name))))
        self.refused(INVALID, "passes the symbolic link", "info", self.write("m.onnx", weight_model(external("loop"))))
        self.assertIn("u8[4]", self.accepted("info", self.write("m.onnx", weight_model(external("inner/data")))))

    def test_external_data_states_what_is_there(self):
        largest = str((1 << 63) - 1)
        for entries, code, text in [
            ([("offset", "1")], INVALID, "4 bytes at offset 1 of 'inner/data', which has 4 bytes"),
            ([("offset", largest)], INVALID, "which has 4 bytes"),
            ([("offset", "1"), ("length", largest)], INVALID, "which has 4 bytes"),
            ([("offset", "-1")], INVALID, "offset '-1' is not a number of bytes"),
            ([("length", "-1")], INVALID, "length '-1' is not a number of bytes"),
            ([("length", "99999999999999999999")], INVALID, "is not a number of bytes"),
            ([("length", "3")], INVALID, "the tensor has 3 bytes of raw data, but u8[4] needs 4"),
            ([("length", "0x4")], INVALID, "is not a number of bytes"),
            ([("offset", "")], INVALID, "is not a number of bytes"),
            ([("location", "inner/data")], INVALID, "'location' is given twice"),
            ([("compression", "zstd")], INVALID, "unknown key 'compression'"),
        ]:
            self.refused(code, text, "info", self.write("m.onnx", weight_model(external("inner/data", *entries))))
        huge = model(message(5, tensor("w", 1, [1 << 50], external("inner/data"))), message(12, message(1, "w")))
        self.refused(INVALID, "which has 4 bytes", "info", self.write("m.onnx", huge))

    # --- models that ask for much

    def test_a_file_of_150_bytes_that_asks_for_petabytes(self):
        petabytes = struct.pack("<q", 1 << 50)
        value = message(5, message(1, "value"), number(20, 4),
                        message(5, number(1, 1), number(2, 1), message(4, struct.pack("<f", 1))))
        data = model(message(5, tensor("k", 7, [1], message(9, petabytes))), node("ConstantOfShape", ["k"], ["y"],
                                                                                  value), message(12, message(1, "y")))
        self.assertLess(len(data), 150)
        path = self.write("m.onnx", data)
        self.refused(OVER_BUDGET, "more than the limit of", "run", path)
        self.refused(OVER_BUDGET, "more than the limit of", "run", path, "--device", "reference")
        self.accepted("info", path)
        wide = model(node("Relu", ["x"], ["y"]), message(11, value_info("x", 1, [1 << 50])),
                     message(12, message(1, "y")))
        self.refused(OVER_BUDGET, "more than there is to make it up", "run", self.write("m.onnx", wide))
        nothing = model(message(5, tensor("w", 1, [1 << 40, 1 << 10])), message(12, message(1, "w")))
        self.refused(INVALID, "the tensor has 0 values, but f32[1099511627776, 1024] needs 1125899906842624", "info",
                     self.write("m.onnx", nothing))

    def test_sparse_files_are_as_large_as_they_say(self):
        data = self.folder / "inner" / "holes"
        with open(data, "wb") as file:
            file.truncate(1 << 40)
        holes = model(message(5, tensor("w", 2, [1 << 40], external("inner/holes"))), node("Identity", ["w"], ["y"]),
                      message(12, message(1, "y")))
        self.refused(OVER_BUDGET, "1.0 TiB for weights do not fit", "run", self.write("m.onnx", holes))
        with open(self.folder / "zeros.onnx", "wb") as file:
            file.truncate(1 << 34)
        self.refused(INVALID, "not an ONNX model: no valid field at byte 0", "info", self.folder / "zeros.onnx")

    def test_endless_loops_end_when_told(self):
        # What it carries does not grow: no budget ends it.
        body = message(
            5, message(1, "body"), number(20, 5),
            message(6, node("Identity", ["c"], ["d"]), node("Identity", ["v"], ["w"]),
                    *(message(11, message(1, name)) for name in "icv"),
                    *(message(12, message(1, name)) for name in "dw")))
        path = self.write(
            "m.onnx",
            model(node("Loop", ["", "", "start"], ["y"], body),
                  message(5, tensor("start", 1, [1], message(9, b"\0" * 4))), message(12, message(1, "y"))))
        self.refused(OVER_BUDGET, "the run takes longer than its limit of 500.00 ms", "run", path, "--time-limit",
                     "500ms", "--memory-limit", "256")
        self.refused(OVER_BUDGET, "the run takes longer than its limit of 1.00 s", "run", path, "--time-limit", "1",
                     "--memory-limit", "256")
        child = subprocess.Popen([program.path, "run", path, "--memory-limit", "256"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE)
        time.sleep(0.7)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=SECONDS)
        self.assertLess(time.monotonic() - start, 1)
        self.assertEqual(child.returncode, 128 + signal.SIGINT)

    def test_names_do_not_reach_the_terminal_as_they_are(self):
        name = "\x1b[2J\x00\n\u202e" + "n" * (1 << 20)
        data = model(node("Relu", ["x"], [name]), message(11, value_info("x", 1, [2])), message(12, message(1, name)))
        path = self.write("m.onnx", data)
        for arguments in (["run", path], ["info", path], ["info", path, "--plan"], ["info", path, "--json"],
                          ["run", path, "--json"], ["run", path, "--profile", self.folder / "t.json"]):
            out = self.accepted(*arguments)
            self.assertNotIn("\x1b", out)
            if "--json" not in arguments:
                self.assertLess(len(out), 20_000)
        raw = data.replace("\u202e".encode(), b"\xff\xfe\xfd")
        for arguments in (["info", "--json"], ["run", "--json"]):
            self.accepted(arguments[0], self.write("m.onnx", raw), *arguments[1:])

    # --- arrays and pictures

    def test_arrays_that_lie(self):
        fine = self.write(
            "fine.onnx",
            model(node("Relu", ["x"], ["y"]), message(11, value_info("x", 1, [2])), message(12, message(1, "y"))))
        for header, data, code, text in [
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1125899906842624,), }", b"", WRONG_CALL,
             "needs 4503599627370496 bytes of data, found 0"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", b"", WRONG_CALL, "negative dimension -1"),
            ("{'descr': '<f8', 'fortran_order': True, 'shape': (4611686018427387904, 4), }", b"", OVER_BUDGET,
             "too many elements"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,), }", b"", OVER_BUDGET,
             "size overflow"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"c__main__\n", UNSUPPORTED,
             "object arrays are refused"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", b"", UNSUPPORTED,
             "structured .npy arrays"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': " + "(" * 1000 + ")" * 1000 + ", }", b"", WRONG_CALL,
             "malformed .npy header"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 100 + "), }", b"abcd", WRONG_CALL,
             "more than 64 dimensions"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", b"", WRONG_CALL,
             "not a 64-bit integer"),
            ("{'descr': '<U1073741823', 'fortran_order': False, 'shape': (1,), }", b"", WRONG_CALL,
             "needs 4294967292 bytes"),
            ("{'descr': '|S1', 'fortran_order': False, 'shape': (16777216,), }", b"a" * (1 << 24), OVER_BUDGET,
             ".npy array of 16777216 strings"),
        ]:
            self.refused(code, text, "run", fine, "--input", f"x={self.write('x.npy', npy(header, data))}")
        long_header = b"\x93NUMPY\x02\x00" + struct.pack("<I", (1 << 32) - 1)
        self.refused(OVER_BUDGET, ".npy header of 4294967295 bytes", "run", fine, "--input",
                     f"x={self.write('x.npy', long_header)}")
        past = b"\x93NUMPY\x01\x00" + struct.pack("<H", 60000)
        self.refused(WRONG_CALL, "truncated .npy header", "run", fine, "--input", f"x={self.write('x.npy', past)}")

    def test_archives_that_swell(self):
        fine = self.write(
            "fine.onnx",
            model(node("Relu", ["x"], ["y"]), message(11, value_info("x", 1, [2])), message(12, message(1, "y"))))
        zeros = npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({300 << 20},), }}", bytes(300 << 20))
        bomb = self.folder / "bomb.npz"
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.npy", zeros)
        self.refused(OVER_BUDGET, "more than the limits of 268435456 and 20 : 1", "run", fine, "--inputs", bomb)
        # One entry's data stand for a thousand: the directory lists it again and again.
        small = self.folder / "overlap.npz"
        with zipfile.ZipFile(small, "w") as archive:
            archive.writestr("x.npy",
                             npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1000000,), }", bytes(1000000)))
        data = small.read_bytes()
        start = data.index(b"PK\x01\x02")
        entry, end = data[start:data.index(b"PK\x05\x06")], data[data.index(b"PK\x05\x06"):]
        count = 1000
        renamed = b"".join(entry.replace(b"x.npy", b"%c.npy" % (0x41 + i % 26), 1) for i in range(count))
        end = end[:8] + struct.pack("<HHII", count, count, len(renamed), start) + end[20:]
        small.write_bytes(data[:start] + renamed + end)
        self.refused(WRONG_CALL, "packed bytes in a file of", "run", fine, "--inputs", small)
        lying = bytearray(bomb.read_bytes())
        at = lying.index(b"PK\x01\x02")
        lying[at + 24:at + 28] = struct.pack("<I", 1 << 31)
        self.refused(OVER_BUDGET, "compressed arrays of", "run", fine, "--inputs",
                     self.write("lying.npz", bytes(lying)))
        for name in ("../x.npy", "/etc/passwd.npy", "x\x1b[31m.npy"):
            path = self.folder / "names.npz"
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(name, npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", bytes(8)))
            self.refused(WRONG_CALL, "the model has no input", "run", fine, "--inputs", path)

    def test_lists_in_lists(self):
        fine = self.write(
            "fine.onnx",
            model(node("Relu", ["x"], ["y"]), message(11, value_info("x", 1, [2])), message(12, message(1, "y"))))
        deep = self.write("deep.json", b'{"x": ' + b"[" * 500_000 + b"]" * 500_000 + b"}")
        self.refused(WRONG_CALL, "lists are nested deeper than", "run", fine, "--inputs", deep)
        self.refused(WRONG_CALL, "not a JSON object", "run", fine, "--inputs", self.write("open.json", b"[" * 500_000))


if __name__ == "__main__":
    program.main()
