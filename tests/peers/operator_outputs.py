#!/usr/bin/env python3
"""Compares which outputs of an operator may be left out, as Tessera's operator table says, with the schemas of onnx
and, for com.microsoft, of onnxruntime.

Exit status: 0 all agree, 1 something differs.
"""

import argparse
import pathlib
import subprocess
import sys

import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state

OPTIONS = {"Single": "required", "Optional": "optional", "Variadic": "variadic"}


def newest_schemas():
    """(domain, operator) -> options of its outputs, in the newest version that has the operator."""
    schemas = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.deprecated:
            schemas.setdefault((schema.domain, schema.name), []).append(schema)
    for schema in onnxruntime_pybind11_state.get_all_operator_schema():
        if schema.domain == "com.microsoft":
            schemas.setdefault((schema.domain, schema.name), []).append(schema)
    newest = {key: max(versions, key=lambda schema: schema.since_version) for key, versions in schemas.items()}
    return {key: [OPTIONS[output.option.name] for output in schema.outputs] for key, schema in newest.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--emit", type=pathlib.Path, required=True, help="the program emit_graphs")
    listed = subprocess.run([parser.parse_args().emit, "--operators"], capture_output=True, text=True,
                            check=True).stdout
    schemas, compared, failures = newest_schemas(), 0, 0
    for line in listed.splitlines():
        name, *outputs = line.split(" ")
        domain, _, op = name.rpartition("::")
        wanted = schemas.get((domain, op))
        if wanted is None:
            continue
        have = [output.rpartition("=")[2] for output in outputs]
        compared += 1
        if have != wanted:
            failures += 1
            print(f"{name}: outputs are {', '.join(have)}; the schema says {', '.join(wanted)}")
    print(
        f"{compared} operators compared with onnx {onnx.__version__} and onnxruntime {onnxruntime.__version__}: "
        f"{failures} differ"
    )
    return 1 if failures or compared < 250 else 0


if __name__ == "__main__":
    sys.exit(main())
