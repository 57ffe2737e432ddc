#!/usr/bin/env python3
"""The C interface from another language, without a compiler.

Usage: ctypes_test.py LIBTESSERA LIBTESSERA_IMAGES SOFTMAX.onnx
"""
import ctypes
import math
import struct
import sys
import unittest

LIBRARY, IMAGES, SOFTMAX = sys.argv[1:4]
OK, INVALID_ARGUMENT, UNSUPPORTED, F32, U8, WARNING = 0, 2, 4, 1, 2, 1

tessera = ctypes.CDLL(LIBRARY)
for name in ("tessera_version", "tessera_error_message", "tessera_value_info_name", "tessera_value_info_type"):
    getattr(tessera, name).restype = ctypes.c_char_p
for name in ("tessera_model_input", "tessera_value_data"):
    getattr(tessera, name).restype = ctypes.c_void_p
tessera.tessera_value_shape.restype = ctypes.POINTER(ctypes.c_int64)
tessera.tessera_value_bytes.restype = ctypes.c_size_t
tessera.tessera_value_rank.restype = ctypes.c_int64
for name in ("tessera_error_message", "tessera_error_free", "tessera_model_free", "tessera_value_free",
             "tessera_session_free", "tessera_value_info_name", "tessera_value_info_type", "tessera_value_data",
             "tessera_value_shape", "tessera_value_bytes", "tessera_value_rank"):
    getattr(tessera, name).argtypes = [ctypes.c_void_p]
for name in ("tessera_devices_count", "tessera_devices_free"):
    getattr(tessera, name).argtypes = [ctypes.c_void_p]
tessera.tessera_devices_count.restype = ctypes.c_size_t
tessera.tessera_device_name.restype = ctypes.c_char_p
tessera.tessera_device_memory_bytes.restype = ctypes.c_int64
for name in ("tessera_device_name", "tessera_device_memory_bytes", "tessera_device_multiprocessors"):
    getattr(tessera, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t]
tessera.tessera_model_input.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Fault(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def call(function, *arguments):
    """Calls it with an error object and raises what that says."""
    error = ctypes.c_void_p()
    status = getattr(tessera, function)(*arguments, ctypes.byref(error))
    if status != OK:
        message = tessera.tessera_error_message(error).decode()
        tessera.tessera_error_free(error)
        raise Fault(status, message)


def new(function, *arguments):
    handle = ctypes.c_void_p()
    call(function, *arguments, ctypes.byref(handle))
    return handle


def view(dtype, shape, data):
    dims = (ctypes.c_int64 * len(shape))(*shape)
    return new("tessera_value_view", dtype, dims, ctypes.c_size_t(len(shape)), data, ctypes.c_size_t(len(data)))


def run(session, name, value, output):
    outputs = (ctypes.c_void_p * 1)()
    one = ctypes.c_size_t(1)
    call("tessera_session_run", session, (ctypes.c_char_p * 1)(name), (ctypes.c_void_p * 1)(value), one,
         (ctypes.c_char_p * 1)(output), outputs, one, None)
    result = ctypes.c_void_p(outputs[0])
    data = ctypes.string_at(tessera.tessera_value_data(result), tessera.tessera_value_bytes(result))
    shape = tessera.tessera_value_shape(result)[: tessera.tessera_value_rank(result)]
    tessera.tessera_value_free(result)
    return shape, data


def field(number, content):
    """A length-delimited or varint field of a protobuf message (short ones)."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    content = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(content)]) + content


def value_info(name, dtype, dims):
    """Of a tensor; a dimension is a number or the name of an unknown one."""
    shape = b"".join(field(1, field(1 if isinstance(dim, int) else 2, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))


def model_of_one_node(operator, source, target):
    """The bytes of a model of one node; `source` and `target` are (name, type, dimensions) of its input and output."""
    node = field(1, source[0]) + field(2, target[0]) + field(4, operator)
    graph = field(1, node) + field(2, "g") + field(11, value_info(*source)) + field(12, value_info(*target))
    return field(1, 9) + field(7, graph) + field(8, field(1, "") + field(2, 20))


def load(content):
    return new("tessera_model_load_bytes", content, ctypes.c_size_t(len(content)), None, None, None)


class CInterface(unittest.TestCase):
    def test_lists_devices(self):
        devices = new("tessera_devices_new")
        count = tessera.tessera_devices_count(devices)
        names = [tessera.tessera_device_name(devices, i) for i in range(count)]
        self.assertEqual(names[:3], [b"cpu", b"reference", b"null"])
        self.assertGreater(tessera.tessera_device_memory_bytes(devices, 0), 1 << 20)
        self.assertGreater(tessera.tessera_device_multiprocessors(devices, 0), 0)
        self.assertEqual(tessera.tessera_device_name(devices, count), b"")
        self.assertEqual(tessera.tessera_device_name(None, 0), b"")
        tessera.tessera_devices_free(devices)

    def test_runs_a_model(self):
        self.assertRegex(tessera.tessera_version().decode(), r"^\d+\.\d+\.\d+$")
        model = new("tessera_model_load", SOFTMAX.encode())
        self.assertEqual(tessera.tessera_value_info_name(tessera.tessera_model_input(model, 0)), b"x")
        self.assertEqual(tessera.tessera_value_info_type(tessera.tessera_model_input(model, 0)), b"f32[batch, 4]")
        session = new("tessera_session_new", model, None)
        tessera.tessera_model_free(model)
        data = struct.pack("8f", 1, 2, 3, 4, 0, 0, 0, 0)
        value = view(F32, (2, 4), data)
        shape, result = run(session, b"x", value, b"y")
        self.assertEqual(shape, [2, 4])
        total = sum(math.exp(x) for x in (1, 2, 3, 4))
        expected = [math.exp(x) / total for x in (1, 2, 3, 4)] + [0.25] * 4
        for found, expected in zip(struct.unpack("8f", result), expected):
            self.assertAlmostEqual(found, expected, places=6)
        with self.assertRaises(Fault) as raised:
            run(session, b"x", value, b"z")
        self.assertEqual(raised.exception.status, INVALID_ARGUMENT)
        self.assertIn("the model has no output 'z'; its outputs are 'y'", str(raised.exception))
        tessera.tessera_value_free(value)
        tessera.tessera_session_free(session)

    def test_pictures_need_the_other_library(self):
        model = load(model_of_one_node("ImageDecoder", ("file", U8, ["bytes"]), ("pixels", U8, ["h", "w", "c"])))
        session = new("tessera_session_new", model, None)
        picture = b"P3 2 1 255\n255 0 0  1 2 3"
        value = view(U8, (len(picture),), picture)
        with self.assertRaises(Fault) as raised:
            run(session, b"file", value, b"pixels")
        self.assertEqual(raised.exception.status, UNSUPPORTED)
        self.assertIn("tessera_register_image_codecs()", str(raised.exception))
        ctypes.CDLL(IMAGES).tessera_register_image_codecs()
        self.assertEqual(run(session, b"file", value, b"pixels"), ([1, 2, 3], bytes([255, 0, 0, 1, 2, 3])))
        # What a codec throws passes through both libraries: a broken picture is an empty one, as ONNX has it.
        broken = view(U8, (2,), b"P6")
        self.assertEqual(run(session, b"file", broken, b"pixels"), ([0, 0, 3], b""))
        for handle in (value, broken):
            tessera.tessera_value_free(handle)
        tessera.tessera_session_free(session)
        tessera.tessera_model_free(model)

    def test_hears_warnings(self):
        handler_type = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)
        heard = []
        handler = handler_type(lambda level, message, user: heard.append((level, message)))
        call("tessera_set_log_handler", handler, None)
        tessera.tessera_model_free(new("tessera_model_load", SOFTMAX.encode()))
        self.assertEqual(heard, [])  # nothing is wrong with this model
        falsely_declared = model_of_one_node("Relu", ("x", F32, [2, 3]), ("y", F32, [5]))
        tessera.tessera_model_free(load(falsely_declared))
        warnings = [message.decode() for level, message in heard if level == WARNING]
        self.assertEqual(len(warnings), 1, heard)
        self.assertIn("shape", warnings[0])
        call("tessera_set_log_handler", None, None)
        tessera.tessera_model_free(load(falsely_declared))
        self.assertEqual(len([level for level, message in heard if level == WARNING]), 1, "nobody listens any more")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
