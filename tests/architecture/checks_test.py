#!/usr/bin/env python3
"""Trees and lines that families.py, pointers.py, prose.py and device_names.py must accept or refuse."""
import pathlib
import tempfile
import unittest

import device_names
import families
import pointers
import prose


class Tree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def write(self, files):
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")


class DeviceNames(unittest.TestCase):
    def test_reads_the_table(self):
        names = device_names.device_names('{{.name = "cpu", .form = "cpu"},\n {.name = "null"}}')
        self.assertEqual(names[:2], ["cpu", "null"])
        self.assertIn("cuda", names)

    def test_finds_comparisons(self):
        for line in ('if (device == "cpu") {', 'if ("cuda" != name) {', 'return device.name() == std::string("cpu");',
                     'if (name.starts_with("simulated:")) {', 'if (name == "cuda:1") {'):
            self.assertEqual(device_names.faults_in("\n" + line, ["cpu", "cuda", "simulated"]), [2], line)
        for line in ('std::string device = "cpu";', '// device == "cpu"', 'if (text == "cpus") {', 'return "cuda";'):
            self.assertEqual(device_names.faults_in(line, ["cpu", "cuda", "simulated"]), [], line)


class Families(Tree):
    def test_refuses_a_large_flat_folder(self):
        self.write({f"src/ops/f{i}.cpp": "" for i in range(families.MOST_FILES)})
        self.assertEqual(families.check(self.root), [])
        self.write({"src/ops/one_more.cpp": ""})
        self.assertEqual(families.check(self.root), ["src/ops: 46 files, over 45; divide it into families"])

    def test_refuses_tests_of_no_folder(self):
        self.write({"src/ops/rows/a.cpp": "", "tests/ops/rows/a_test.cpp": "", "tests/support/b_test.cpp": ""})
        self.assertEqual(families.check(self.root), [])
        self.write({"tests/ops/columns/a_test.cpp": ""})
        self.assertEqual(families.check(self.root), ["tests/ops/columns: there is no src/ops/columns"])

    def test_refuses_two_types_of_a_name(self):
        self.write({"src/ops/a.h": "struct Slot {\n  struct Inner {};\n};\n", "src/ir/a.h": "struct Inner {\n};\n"})
        self.assertEqual(families.check(self.root), [])
        self.write({"src/plan/b.h": "\nclass Slot final : public Base {\n};\n"})
        self.assertEqual(families.check(self.root),
                         ["src/ops/a.h:1: 'Slot' is a type in src/plan/b.h:2 as well; give one another name"])


class Pointers(Tree):
    def faults(self, files):
        return list(pointers.faults(self.root, list(files), lambda path: files[path].split("\n")))

    def test_finds_files_from_the_root_from_src_and_beside(self):
        self.assertEqual(self.faults({"src/ops/a.h": "// see ops/b.h, src/ops/b.h and b.h\n", "src/ops/b.h": "",
                                      "docs/a.md": "[b](b.md) `tests/ops/b_test.cpp`", "docs/b.md": "",
                                      "tests/ops/b_test.cpp": ""}), [])

    def test_refuses_files_that_do_not_exist(self):
        self.assertEqual(self.faults({"src/ops/a.h": "// see ops/gone.h\nint x;  // and lost.h\n",
                                      "docs/a.md": "`src/ops/c.h` and `src/ops/a.h`"}),
                         ["src/ops/a.h:1: names 'ops/gone.h', which does not exist",
                          "src/ops/a.h:2: names 'lost.h', which does not exist",
                          "docs/a.md:1: names 'src/ops/c.h', which does not exist"])

    def test_folders_and_rows_are_the_same(self):
        self.write({"src/ops/a.h": "", "src/ir/a.h": ""})
        self.assertEqual(list(pointers.folder_faults(self.root, ["| `ops` | … |", "| `gone` | … |"])),
                         ["docs/architecture.md: no row for src/ir", "docs/architecture.md: 'gone' is no folder"])


class Prose(Tree):
    def test_counts_turns_in_comments_alone(self):
        self.write({"src/ops/a.cpp": "// Of the outputs. What lies behind\nconst char* s = \"What\";\n"
                                     "int x;  // for the way back; one an output.\n// Returns what is left of it.\n"})
        counts, places = prose.count(self.root)
        self.assertEqual(dict(counts), {"src/ops: Of": 1, "src/ops: What": 1, "src/ops: way back": 1,
                                        "src/ops: one a": 1})
        self.assertEqual(places["src/ops: one a"], ["src/ops/a.cpp:3"])


if __name__ == "__main__":
    unittest.main()
