#!/usr/bin/env python3
"""Every script that names its interpreter can be run by its path, and no other file pretends to be one."""
import os
import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "bench", "docs", "examples", "scripts", "tests")


class Programs(unittest.TestCase):
    def test_scripts_are_executable(self):
        files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")
                 if path.suffix in (".py", ".sh", "") and path.is_file() and not path.is_symlink()]
        self.assertGreater(len(files), 100)
        for path in files:
            with open(path, "rb") as file:
                named = file.read(2) == b"#!"
            self.assertEqual(named, os.access(path, os.X_OK), path.relative_to(ROOT))


if __name__ == "__main__":
    unittest.main()
