#!/usr/bin/env python3
"""Holds the signature of each operator against ONNX's own schemas: ours must take at least what the newest version
takes.

    signatures.py build/release/tests/conformance/print_signatures

Covers every domain that ONNX defines: inputs and outputs by position, their element types, what may be left out and
what may differ in type; attributes with kinds and defaults. Exit status 0 when nothing is missing.
"""
import math
import subprocess
import sys

import onnx.defs
import onnx.helper

NAMES = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128",
    "bool": "bool", "string": "string", "float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz",
    "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz", "float8e8m0": "f8e8m0", "float4e2m1": "f4e2m1",
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)}
}
KINDS = {
    "INT": "integer", "FLOAT": "float", "STRING": "string", "TENSOR": "tensor", "GRAPH": "graph", "TYPE_PROTO": "type",
    "INTS": "integers", "FLOATS": "floats", "STRINGS": "strings"
}
# The kernels know these defaults: there is one entry a direction.
DEFAULTS_ELSEWHERE = {("RNN", "activations")}
# Optional in the schema, but ONNX's own inference refuses a node without them.
REQUIRED_ALL_THE_SAME = {("ai.onnx.ml::CategoryMapper", "cats_int64s"), ("ai.onnx.ml::CategoryMapper", "cats_strings")}
# Read from files, but turned into something else by the reader.
REWRITTEN = {"Constant": "a constant of the graph"}


def schemas():
    """The newest schema of each operator."""
    newest = {}
    for schema in onnx.defs.get_all_schemas():
        if not schema.deprecated:
            newest[schema.name if schema.domain == "" else f"{schema.domain}::{schema.name}"] = schema
    return newest


def own_signatures(program):
    """Operator -> {"input" | "output" | "attribute": [the other columns of print_signatures]}; types are a set, or None
    where other kinds flow."""
    operators = {}
    for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines():
        operator, side, *columns = line.split("\t")
        if side != "attribute":
            columns[-1] = None if columns[-1] == "any" else set(columns[-1].split())
        operators.setdefault(operator, {"input": [], "output": [], "attribute": []})[side].append(columns)
    return operators


def parameter_faults(schema, own):
    """What our inputs and outputs lack of the schema's."""
    for side, parameters in (("input", schema.inputs), ("output", schema.outputs)):
        if len(own[side]) < len(parameters):
            yield f"has {len(own[side])} {side}s, expected {len(parameters)}"
            continue
        for parameter, (name, option, variable, allowed) in zip(parameters, own[side]):
            if option == "required" and parameter.option.name != "Single":
                yield f"{side} '{name}' is required, but the schema has it {parameter.option.name.lower()}"
            tied = [
                other.name for other, (_, _, same, _) in zip(parameters, own[side])
                if variable == same != "-" and other.type_str != parameter.type_str
            ]
            if tied:
                yield f"{side} '{name}' has the type of {' and '.join(tied)}, but the schema leaves it free"
            if allowed is None:
                continue
            other_kinds = sorted(text for text in parameter.types if not text.startswith("tensor("))
            missing = sorted({NAMES[text[len("tensor("):-1]]
                              for text in parameter.types if text.startswith("tensor(")} - allowed)
            if missing:
                yield f"{side} '{name}' lacks {' '.join(missing)}"
            if other_kinds:
                yield f"{side} '{name}' is a tensor only, but the schema has {' '.join(other_kinds)}"


def same_default(attribute, own):
    value = onnx.helper.get_attribute_value(attribute.default_value)
    if isinstance(value, bytes):
        return value.decode() == own
    wanted, found = (value if isinstance(value, list) else [value]), ([] if own == "-" else own.split())
    return len(wanted) == len(found) and all(math.isclose(a, float(b), rel_tol=1e-6) for a, b in zip(wanted, found))


def attribute_faults(name, schema, own):
    """What our attributes lack of the schema's."""
    attributes = {columns[0]: columns[1:] for columns in own["attribute"]}
    for attribute in schema.attributes.values():
        if attribute.name not in attributes:
            yield f"has no attribute '{attribute.name}'"
            continue
        option, kind, default = attributes[attribute.name]
        if KINDS[attribute.type.name] != kind:
            yield f"attribute '{attribute.name}' is of kind {kind}, expected {KINDS[attribute.type.name]}"
        if option == "required" and not attribute.required and (name, attribute.name) not in REQUIRED_ALL_THE_SAME:
            yield f"attribute '{attribute.name}' is required, but the schema has it optional"
        if attribute.default_value.type and (name, attribute.name) not in DEFAULTS_ELSEWHERE and not same_default(
                attribute, default):
            expected = onnx.helper.get_attribute_value(attribute.default_value)
            yield f"attribute '{attribute.name}' has the default {default}, expected {expected}"


def main():
    own = own_signatures(sys.argv[1])
    count = 0
    known = schemas()
    for name, schema in sorted(known.items()):
        if name not in own:
            found = [] if name in REWRITTEN else ["is not in the table of operators"]
        else:
            found = [*parameter_faults(schema, own[name]), *attribute_faults(name, schema, own[name])]
        for fault in found:
            print(f"{name} (version {schema.since_version}): {fault}")
        count += len(found)
    for name in sorted(set(REWRITTEN) & set(own) | set(REWRITTEN) - set(known)):
        print(f"{name}: is listed as rewritten by the reader, but is no longer")
        count += 1
    print(f"{len(known)} operators of ONNX {onnx.__version__}, {count} faults")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
