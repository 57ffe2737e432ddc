#!/usr/bin/env python3
"""bench/compare_builds.py compares what it says: real processes of one build, and programs that are slower or fail."""

import argparse
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import compare_builds  # noqa: E402

TESSERA = ""


def compared(*words):
    """(exit code, what was printed, what was said) of a comparison."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = compare_builds.main([*map(str, words), "--rounds", "2", "--seconds", "0.01"])
    return code, out.getvalue(), err.getvalue()


class CompareBuilds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, bench):
        """A build that makes models as the real one does, and whose bench is this line of a shell."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\n[ "$1" = bench ] || exec {TESSERA} "$@"\n{bench}\n')
        path.chmod(0o755)
        return path

    def timed(self, name, median_ms):
        return self.program(name, f"echo '{{\"median_ms\": {median_ms}}}'")

    def test_real_builds_are_measured(self):
        figures = self.folder / "figures.json"
        code, text, _ = compared(
            TESSERA,
            "--noise-check",
            "--models",
            "lenet5",
            "--threads",
            "1",
            "--json",
            figures,
            "--least-mean",
            "0.01",
            "--least",
            "0.01",
        )
        self.assertEqual(code, 0, text)
        (cell,) = json.loads(figures.read_text())["cells"]
        self.assertEqual((cell["model"], cell["threads"], len(cell["ratios"])), ("lenet5", 1, 2))
        self.assertTrue(min(cell["old_ms"], cell["new_ms"], *cell["ratios"]) > 0)

    def test_slower_build_is_found(self):
        old = self.timed("old", 1.0)
        code, text, _ = compared(old, self.timed("same", 1.0), "--models", "lenet5", "--threads", "1")
        self.assertEqual(code, 0, text)
        self.assertIn("geometric mean of old / new: 1.000 of 1 cells", text)
        code, text, _ = compared(old, self.timed("slow", 1.06), "--models", "lenet5", "--threads", "1")
        self.assertEqual(code, 1, text)
        self.assertIn("slower: lenet5, 1 thread: 0.943", text)
        # Each within its bound, but not their mean.
        code, text, _ = compared(old, self.timed("slower", 1.03), "--models", "lenet5", "--threads", "1")
        self.assertEqual(code, 1, text)
        self.assertNotIn("slower: ", text)

    def test_what_fails_is_reported(self):
        old, failing = self.timed("old", 1.0), self.program("failing", "echo 'error: no such kernel' >&2; exit 3")
        code, text, _ = compared(old, failing, "--models", "lenet5", "--threads", "1")
        self.assertEqual(code, 2, text)
        self.assertIn("not measured: new: error: no such kernel", text)
        picky = self.program("picky", 'case "$2" in *lenet5*) exit 3;; esac; echo \'{"median_ms": 1.0}\'')
        code, text, _ = compared(old, picky, "--models", "lenet5,resnet18", "--dim", "batch=1", "--threads", "1")
        self.assertEqual(code, 1, text)
        self.assertIn("only the new build fails: lenet5, 1 thread", text)
        code, text, _ = compared(picky, old, "--models", "/nowhere/none.onnx,no_such_net,resnet18", "--threads", "1")
        self.assertEqual(code, 0, text)
        self.assertIn("/nowhere/none.onnx           -  not measured: old: there is no such file", text)
        self.assertRegex(text, "no_such_net .*not measured: old: .*no_such_net")

    def test_programs_that_print_something_else(self):
        odd = self.program("odd", "echo 'no figures'")
        code, text, _ = compared(odd, "--noise-check", "--models", "lenet5", "--threads", "1")
        self.assertEqual(code, 2)
        self.assertIn("printed no figures but: no figures", text)

    def test_bad_options_are_refused(self):
        for words, said in [
            (["/nowhere/tessera", "--noise-check"], "is no program"),
            ([TESSERA], "give NEW"),
            ([TESSERA, TESSERA, "--threads", "4096"], "4096 threads on"),
            ([TESSERA, TESSERA, "--noise-check"], "--noise-check without it"),
        ]:
            with (
                self.subTest(words=words),
                contextlib.redirect_stderr(io.StringIO()) as err,
                self.assertRaises(SystemExit),
            ):
                compare_builds.main(words)
            self.assertIn(said, err.getvalue())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True, help="the program")
    TESSERA = str(pathlib.Path(parser.parse_args().tessera).resolve())
    unittest.main(argv=sys.argv[:1])
