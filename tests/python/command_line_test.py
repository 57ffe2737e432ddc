#!/usr/bin/env python3
"""python -m tessera runs the program that the package carries: command_line_test.py TESSERA"""
import os
import shutil
import subprocess
import sys
import tempfile

import tessera
from serve_model import serve


def run(folder, *arguments):
    return subprocess.run([sys.executable, "-B", "-m", "tessera", *arguments], capture_output=True, text=True,
                          timeout=60, env={**os.environ, "PYTHONPATH": folder}, cwd=folder)


with tempfile.TemporaryDirectory() as folder:
    package = os.path.join(folder, "tessera")
    shutil.copytree(os.path.dirname(tessera.__file__), package, symlinks=True)
    without = run(folder, "--version")
    assert without.returncode == 70 and "lacks the command line" in without.stderr, without
    os.mkdir(os.path.join(package, "_bin"))
    os.symlink(sys.argv[1], os.path.join(package, "_bin", "tessera"))
    version = run(folder, "--version")
    assert version.returncode == 0 and tessera.__version__ in version.stdout, version
    made = run(folder, "new", "mlp", "-o", "mlp.onnx")
    assert made.returncode == 0, made
    missing = run(folder, "info", "missing.onnx")
    assert missing.returncode == 5 and "missing.onnx" in missing.stderr, missing
    if tessera.build_info()["server"]:  # without a program tessera-serve, the extension module serves
        serve("mlp.onnx", cwd=folder, env={**os.environ, "PYTHONPATH": folder})
        wrong = run(folder, "serve", "missing.onnx")
        assert wrong.returncode == 5 and "missing.onnx" in wrong.stderr, wrong
