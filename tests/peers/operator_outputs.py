#!/usr/bin/env python3
"""Compares which outputs of an operator may be left out, as Tessera's operator table says, with the schemas of the onnx package.

Exit status: 0 all agree, 1 something differs.
"""

import argparse
import pathlib
import subprocess
import sys

import onnx

Option = onnx.defs.OpSchema.FormalParameterOption
NAMES = {Option.Single: "required", Option.Optional: "optional", Option.Variadic: "variadic"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--emit", type=pathlib.Path, required=True, help="the program emit_graphs")
    listed = subprocess.run([parser.parse_args().emit, "--operators"], capture_output=True, text=True, check=True).stdout
    compared = failures = 0
    for line in listed.splitlines():
        name, *outputs = line.split(" ")
        domain, _, op = name.rpartition("::")
        if domain not in ("", "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview") or not onnx.defs.has(op, domain=domain):
            continue
        schema = max((each for each in onnx.defs.get_all_schemas_with_history() if (each.name, each.domain) == (op, domain) and not each.deprecated), key=lambda each: each.since_version)
        wanted = [NAMES[output.option] for output in schema.outputs]
        have = [output.rpartition("=")[2] for output in outputs]
        compared += 1
        if have != wanted:
            failures += 1
            print(f"{name}: outputs are {', '.join(have)}; the schema says {', '.join(wanted)}")
    print(f"{compared} operators compared with onnx {onnx.__version__}: {failures} differ")
    return 1 if failures or compared < 200 else 0


if __name__ == "__main__":
    sys.exit(main())
