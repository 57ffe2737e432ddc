"""Programs that are not ours find the simulated driver as they find NVIDIA's: by name, with the settings of a variable.

Each check runs in a process of its own, because the settings are read once.
"""

import ctypes
import os
import subprocess
import sys
import unittest

LIBRARY = os.path.abspath(sys.argv.pop(1))

PROGRAM = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)


def out(name, kind, *arguments):
    value = kind()
    call(name, ctypes.byref(value), *arguments)
    return value


call("cuInit", 0)
"""


def run(settings, lines):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(LIBRARY), TESSERA_SIMULATED_CUDA=settings)
    command = [sys.executable, "-c", PROGRAM + lines]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


class Programs(unittest.TestCase):
    def expect(self, settings, lines, expected):
        result = run(settings, lines)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.strip(), expected)

    def test_settings_come_from_the_variable(self):
        lines = """
print(out("cuDeviceGetCount", ctypes.c_int).value,
      out("cuDeviceGetAttribute", ctypes.c_int, 75, 2).value,
      out("cuDeviceTotalMem_v2", ctypes.c_size_t, 2).value)
"""
        self.expect("devices=3,capability=90,memory=1GiB", lines, f"3 9 {1 << 30}")

    def test_copies_through_the_versioned_names(self):
        lines = """
context = out("cuDevicePrimaryCtxRetain", ctypes.c_void_p, 0)
call("cuCtxSetCurrent", context)
memory = out("cuMemAlloc_v2", ctypes.c_uint64, ctypes.c_size_t(16))
call("cuMemcpyHtoD_v2", memory, b"sixteen bytes ..", ctypes.c_size_t(16))
back = ctypes.create_string_buffer(16)
call("cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(16))
call("cuMemFree_v2", memory)
print(back.raw.decode())
"""
        self.expect("devices=1", lines, "sixteen bytes ..")

    # cuMemHostRegister: registered memory is read when the copy runs, as pinned memory is.
    def test_registered_memory_is_pinned(self):
        lines = """
call("cuCtxSetCurrent", out("cuDevicePrimaryCtxRetain", ctypes.c_void_p, 0))
memory = out("cuMemAlloc_v2", ctypes.c_uint64, ctypes.c_size_t(8))
block = ctypes.create_string_buffer(b"before ", 8)
back = ctypes.create_string_buffer(8)
call("cuMemHostRegister_v2", block, ctypes.c_size_t(8), 0)
print(cuda.cuMemHostRegister_v2(block, ctypes.c_size_t(8), 0))
call("cuMemcpyHtoDAsync_v2", memory, block, ctypes.c_size_t(8), None)
block.value = b"behind "
call("cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(8))
call("cuMemHostUnregister", block)
print(back.value.decode(), cuda.cuMemHostUnregister(block))
"""
        self.expect("devices=1", lines, "712\nbehind  713")

    def test_a_fault_from_the_variable(self):
        lines = """
call("cuCtxSetCurrent", out("cuDevicePrimaryCtxRetain", ctypes.c_void_p, 0))
stream = ctypes.c_void_p()
print([cuda.cuStreamCreate(ctypes.byref(stream), 1) for _ in range(3)])
"""
        self.expect("fail=cuStreamCreate:2:999", lines, "[0, 999, 0]")

    def test_a_wrong_setting_ends_the_program(self):
        result = run("device=1", "")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("does not understand 'device=1'", result.stderr)

    # Every function with several versions is exported under both names.
    def test_versions_are_the_same_function(self):
        library = ctypes.CDLL(LIBRARY)
        for name in ("cuMemAlloc", "cuMemFree", "cuMemGetInfo", "cuStreamDestroy", "cuEventDestroy", "cuCtxCreate"):
            both = (getattr(library, text) for text in (name, name + "_v2"))
            self.assertEqual(*(ctypes.cast(function, ctypes.c_void_p).value for function in both))


if __name__ == "__main__":
    unittest.main()
