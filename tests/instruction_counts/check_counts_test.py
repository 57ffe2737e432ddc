#!/usr/bin/env python3
"""Counts that check_counts.py must accept or refuse."""
import copy
import pathlib
import tempfile
import unittest

from check_counts import compare, read_counts

RECORD = {
    "compiler": "GNU 12.2.0", "instruction_set": "avx2",
    "cases": {"a": {"kernel": "cpu_a", "instructions": 1000}, "b": {"kernel": "cpu_b", "instructions": 500}}
}


class CheckCounts(unittest.TestCase):
    def faults(self, change):
        now = copy.deepcopy(RECORD)
        change(now)
        return compare(RECORD, now)[1]

    def test_accepts_equal_fewer_and_little_more(self):
        for instructions in (1000, 500, 1029):
            self.assertEqual(self.faults(lambda now: now["cases"]["a"].update(instructions=instructions)), [])

    def test_refuses_growth(self):
        self.assertEqual(self.faults(lambda now: now["cases"]["a"].update(instructions=1031)),
                         ["a takes 3.1% more instructions than on record; at most 3% more may be"])

    def test_refuses_another_kernel_and_other_cases(self):
        self.assertEqual(self.faults(lambda now: now["cases"]["b"].update(kernel="reference_b")),
                         ["b is run by reference_b, on record is cpu_b"])
        self.assertEqual(self.faults(lambda now: now["cases"].pop("b")), ["b is on record but did not run"])
        self.assertEqual(self.faults(lambda now: now["cases"].update(c=now["cases"]["a"])), ["c is not on record"])

    def test_refuses_another_compiler_and_instruction_set(self):
        self.assertEqual(self.faults(lambda now: now.update(compiler="Clang 19.1.0")),
                         ["the record holds for GNU 12.2.0, this is Clang 19.1.0"])
        self.assertEqual(self.faults(lambda now: now.update(instruction_set="scalar")),
                         ["the record holds for avx2, this is scalar"])

    def test_reads_files_in_order_and_leaves_out_what_was_not_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for part, instructions in ((2, 20), (10, 100), (1, 10), (11, 0)):
                (folder / f"counts.{part}").write_text(f"version: 1\nevents: Ir\nsummary: {instructions}\n")
            self.assertEqual(read_counts(folder), [10, 20, 100])


if __name__ == "__main__":
    unittest.main()
