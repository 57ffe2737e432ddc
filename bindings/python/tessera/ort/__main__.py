"""python -m tessera.ort PROGRAM [ARGUMENT …]: runs a Python program in which onnxruntime is Tessera.

python -m tessera.ort -m MODULE [ARGUMENT …] does the same with a module.
"""

from __future__ import annotations

import os
import runpy
import sys

from tessera.ort import install


def main() -> int:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help") or (arguments[0] == "-m" and len(arguments) < 2):
        print((__doc__ or "").strip(), file=sys.stderr)
        return 0 if arguments and arguments[0] in ("-h", "--help") else 2
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
