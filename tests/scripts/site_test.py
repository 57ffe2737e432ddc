#!/usr/bin/env python3
"""What builds the documentation site: comments of headers for doxygen, and the check of links. site_test.py ROOT"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()


sys.path.insert(0, str(ROOT / "docs/site"))
import doxygen_filter  # noqa: E402


def filtered(text):
    return doxygen_filter.filtered(text, "thing.h")


def code_of(text):
    """The text without comments and blanks."""
    return re.sub(r"\s+", "", re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL))


class Filter(unittest.TestCase):
    def test_comments_belong_to_what_they_describe(self):
        text = filtered("// A thing.\n#pragma once\n\n// Counts `n` of <all>.\nint f(const char* s = \"//\");\n"
                        "int a;  // first\n        // and more\n// Of b.\nint b;\nnamespace x {}  // namespace x\n")
        self.assertEqual(text.split("\n"), [
            "/// @file thing.h A thing.", "#pragma once", "", "/// Counts <code>n</code> of \\<all\\>.",
            'int f(const char* s = "//");', "int a;  ///< first", "        ///< and more", "/// Of b.", "int b;",
            "namespace x {}  // namespace x", ""])

    def test_comments_of_c(self):
        text = filtered("/*\n * For C.\n */\nint a; /* first */\n/* --- part --- */\n/* Of b. */\nint b;\n")
        self.assertEqual(text, "/** @file thing.h \n * For C.\n */\nint a; /**< first */\n/* --- part --- */\n"
                               "/** Of b. */\nint b;\n")

    def test_public_headers_keep_their_code_and_lines(self):
        headers = sorted(ROOT.glob("include/tessera/*.h"))
        self.assertGreater(len(headers), 20)
        for path in headers:
            before = path.read_text(encoding="utf-8")
            after = filtered(before)
            self.assertEqual(code_of(before), code_of(after), path)
            self.assertEqual(before.count("\n"), after.count("\n"), path)
            self.assertTrue("///" in after or "/**" in after, path)


class Links(unittest.TestCase):
    def check(self, **pages):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in pages.items():
                (pathlib.Path(folder) / f"{name}.html").write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, "-B", ROOT / "docs/site/check_links.py", folder],
                                  capture_output=True, text=True, check=False)
            return done.returncode, done.stdout

    def test_links(self):
        target = '<h1 id="top">x</h1>'
        for link, fault in [("b.html", ""), ("b.html#top", ""), ("#here", ""), ("https://example.org/x", ""),
                            ("c.html", "leads to nothing"), ("b.html#no", "no anchor"), ("#no", "no anchor")]:
            code, text = self.check(a=f'<p id="here"><a href="{link}">y</a>', b=target)
            self.assertEqual((code, fault in text), (1 if fault else 0, True), (link, text))

    def test_nothing_is_loaded_from_elsewhere(self):
        self.assertIn("from elsewhere", self.check(a='<script src="https://example.org/x.js"></script>')[1])
        self.assertEqual(self.check(a='<img src="data:image/png;base64,AA==">')[0], 0)
        self.assertEqual(self.check()[0], 1)


if __name__ == "__main__":
    unittest.main()
