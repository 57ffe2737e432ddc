"""The program under test, as the tests of the command line call it. Standard library only."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

path = ""  # of the program; set by main
# How many times longer everything may take than with an optimised build: scripts/sanitize.sh sets it.
PATIENCE = float(os.environ.get("TESSERA_PATIENCE", "1"))

# Exit codes.
WRONG_CALL, INVALID, UNSUPPORTED, NOT_FOUND, IO, OVER_BUDGET = 2, 3, 4, 5, 6, 7


def run(*arguments, **options):
    """The finished call, with its text on both streams unless the options of subprocess.run say otherwise."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 120 * PATIENCE}
    return subprocess.run([path, *map(str, arguments)], **{**streams, **options})


class WithModel(unittest.TestCase):
    """Tests that share a folder and a model in it."""
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        cls.model = cls.folder / "lenet5.onnx"
        assert run("new", "lenet5", "-o", cls.model).returncode == 0

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def fails(self, code, text, *arguments):
        """The call ends with this exit code and one line of error that holds the text."""
        done = run(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)


def main():
    """Runs the tests of the calling file; the first argument is the program."""
    global path
    path = sys.argv.pop(1)
    unittest.main(module="__main__")
