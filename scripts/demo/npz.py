"""Reads and writes .npz files of plain arrays with the standard library: an array is (shape, array.array)."""

import array
import ast
import struct
import sys
import zipfile

_CODES = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "|u1": "B"}
_DESCRIPTIONS = {code: name for name, code in _CODES.items()}
assert sys.byteorder == "little"


def write_npz(path, arrays):
    """arrays: name -> (shape, array.array with as many elements as the shape says)."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, (shape, values) in arrays.items():
            header = repr({"descr": _DESCRIPTIONS[values.typecode], "fortran_order": False, "shape": tuple(shape)})
            header += " " * (-(10 + len(header) + 1) % 64) + "\n"
            start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            archive.writestr(name + ".npy", start + values.tobytes())


def read_npz(path):
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            data = archive.read(entry)
            size_bytes = 2 if data[6] == 1 else 4
            begin = 8 + size_bytes
            end = begin + int.from_bytes(data[8:begin], "little")
            header = ast.literal_eval(data[begin:end].decode())
            values = array.array(_CODES[header["descr"]])
            values.frombytes(data[end:])
            arrays[entry.removesuffix(".npy")] = (header["shape"], values)
    return arrays
