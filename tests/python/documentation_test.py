#!/usr/bin/env python3
"""Runs the Python examples of a page, in order, in one folder: documentation_test.py PAGE.md

An example that begins with a line "# not run" is compiled only.
"""
import os
import re
import sys
import tempfile

import models

page = sys.argv[1]
with open(page, encoding="utf-8") as file:
    text = file.read()
examples = [(text.count("\n", 0, each.start()) + 2, each.group(1))
            for each in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
assert len(examples) >= 5, f"{page} has {len(examples)} examples"
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with open("model.onnx", "wb") as file:
        file.write(models.mlp())
    names = {}
    for line, example in examples:
        code = compile("\n" * (line - 1) + example, page, "exec")
        if not example.startswith("# not run"):
            exec(code, names)
    os.chdir("/")
print(f"{len(examples)} examples of {page} ran")
