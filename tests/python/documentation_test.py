#!/usr/bin/env python3
"""Runs the Python examples of a page, in order, in one folder, and those of the package's docstrings:
documentation_test.py PAGE.md

An example that begins with a line "# not run" is compiled only; one that begins with "# with the server", only where
this build has no server.
"""
import doctest
import importlib
import os
import re
import sys
import tempfile

import models
import numpy
import tessera

page = sys.argv[1]
with open(page, encoding="utf-8") as file:
    text = file.read()
examples = [(text.count("\n", 0, each.start()) + 2, each.group(1))
            for each in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
has_server = tessera.build_info()["server"]
assert len(examples) >= 5, f"{page} has {len(examples)} examples"
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with open("model.onnx", "wb") as file:
        file.write(models.mlp())
    with open("noise.onnx", "wb") as file:
        file.write(models.noise())
    names = {}
    for line, example in examples:
        code = compile("\n" * (line - 1) + example, page, "exec")
        if not example.startswith("# not run") and (has_server or not example.startswith("# with the server")):
            exec(code, names)
    attempted = 0
    modules = ["_session", "_sharing", "_training", "_version", "_quantize", "ort._session"]
    for module in modules + ["_server"] * has_server:
        names = {"tessera": tessera, "numpy": numpy, "model": tessera.load("model.onnx"),
                 "x": numpy.ones((1, 16), numpy.float32)}
        result = doctest.testmod(importlib.import_module("tessera." + module), extraglobs=names)
        assert result.failed == 0 and result.attempted > 0, (module, result)
        attempted += result.attempted
    os.chdir("/")
print(f"{len(examples)} examples of {page} ran, and {attempted} lines of docstrings")
