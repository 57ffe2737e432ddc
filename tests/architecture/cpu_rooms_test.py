#!/usr/bin/env python3
"""Rooms of the CPU backend that cpu_rooms.py must accept or refuse."""
import pathlib
import tempfile
import unittest

from cpu_rooms import check_cpu_rooms, name_fault

CPU = "src/backends/cpu"
ROOMS = "tessera_cpu_room(machine)\ntessera_cpu_room(rows)\ntessera_cpu_room(products USES rows)\n"


class CpuRooms(unittest.TestCase):
    def violations(self, files, rooms=ROOMS):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            tree = {"CMakeLists.txt": rooms, "machine/simd.h": "", "rows/rows.h": "",
                    "products/gemm_f32.cpp": '#include "backends/cpu/rows/rows.h"\n'} | files
            for name, text in tree.items():
                (root / CPU / name).parent.mkdir(parents=True, exist_ok=True)
                (root / CPU / name).write_text(text)
            return check_cpu_rooms(root)

    def test_accepts_the_machine_and_the_rooms_that_are_named(self):
        self.assertEqual(self.violations({
            "rows/softmax.cpp": '#include "backends/cpu/machine/simd.h"\n#include "backends/cpu/rows/rows.h"\n',
            "kernel_table.cpp": '#include "backends/cpu/products/kernel_table.h"\n',
        }), [])

    def test_refuses_a_room_that_is_not_named(self):
        self.assertEqual(self.violations({"rows/a.cpp": '\n#include "backends/cpu/products/gemm_f32.h"\n'}),
                         [f"{CPU}/rows/a.cpp:2: room 'rows' does not name 'products' among the rooms that it uses"])

    def test_refuses_the_device_above_the_rooms(self):
        self.assertEqual(self.violations({"rows/a.cpp": '#include "backends/cpu/kernel_table.h"\n'}),
                         [f"{CPU}/rows/a.cpp:1: a room may not use the table and the device above it"])

    def test_refuses_names_of_rooms_that_are_not_used(self):
        self.assertEqual(self.violations({"products/gemm_f32.cpp": ""}),
                         [f"{CPU}/CMakeLists.txt: room 'products' names 'rows', which it does not use"])

    def test_refuses_rooms_that_use_each_other(self):
        rooms = ROOMS.replace("tessera_cpu_room(rows)", "tessera_cpu_room(rows USES products)")
        files = {"rows/rows.h": '#include "backends/cpu/products/gemm_f32.h"\n'}
        self.assertEqual(self.violations(files, rooms),
                         [f"{CPU}/CMakeLists.txt: 'rows' uses 'products', which is not declared before it"])

    def test_refuses_folders_that_are_no_rooms_and_rooms_without_a_folder(self):
        self.assertEqual(self.violations({"pooling/pool_f32.cpp": ""}, ROOMS + "tessera_cpu_room(movement)\n"),
                         [f"{CPU}/pooling: is no room; declare it in {CPU}/CMakeLists.txt",
                          f"{CPU}/CMakeLists.txt: room 'movement' has no folder"])

    def test_refuses_names_in_another_order(self):
        for name in ("depthwise_bf16_avx512", "depthwise_bf16", "depthwise", "tile_product_amx", "gemm_f32_isa"):
            self.assertIsNone(name_fault(name), name)
        self.assertEqual(name_fault("depthwise_avx512_bf16"), "the instruction set comes last in a name")
        self.assertEqual(name_fault("bf16_depthwise"), "the type comes last in a name, but for the instruction set")
        self.assertEqual(self.violations({"rows/s8_add.cpp": ""}),
                         [f"{CPU}/rows/s8_add.cpp:1: the type comes last in a name, but for the instruction set"])


if __name__ == "__main__":
    unittest.main()
