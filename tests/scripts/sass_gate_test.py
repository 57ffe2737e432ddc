#!/usr/bin/env python3
"""Tests what scripts/sass_gate.py reads out of ptxas' and nvdisasm's text, and which budgets it finds broken."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import sass_gate  # noqa: E402

LOG = """ptxas info    : Compiling entry function 'first' for 'sm_80'
ptxas info    : Function properties for first
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 121 registers, used 1 barriers, 49152 bytes smem, 456 bytes cmem[0]
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, 456 bytes cmem[0]
"""
SASS = """\t.section\t.text.first,"ax",@progbits
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/              @!P0 HMMA.16816.F32 R4, R8, R12, R4 ;
\t.section\t.text.second,"ax",@progbits
        /*0000*/                   EXIT ;
"""


class SassGateTest(unittest.TestCase):
    def test_reads_resources(self):
        self.assertEqual(sass_gate.resources(LOG), {"first": (121, 49152, 16), "second": (40, 0, 0)})

    def test_reads_instructions(self):
        self.assertEqual(sass_gate.instructions(SASS), {"first": {"MOV", "HMMA"}, "second": {"EXIT"}})

    def test_finds_broken_budgets(self):
        gates = sass_gate.GATE.findall("// Gate: first registers 120 shared 49152 instruction IMMA\n")
        self.assertEqual(list(sass_gate.faults_of(gates[0], (121, 49153, 16), {"HMMA"})),
                         ["first: 121 registers, over 120", "first: 49153 bytes of shared memory, over 49152",
                          "first: 16 bytes of spills", "first: no instruction IMMA"])
        self.assertEqual(list(sass_gate.faults_of(gates[0], (120, 49152, 0), {"IMMA"})), [])
        self.assertEqual(len(list(sass_gate.faults_of(gates[0], None, set()))), 1)


if __name__ == "__main__":
    unittest.main()
