#!/usr/bin/env python3
"""Writes src/io/onnx/downgrade/operator_history.inc from the schemas of the onnx package: what of an operator's newest
form older operator set versions lack.

operator_history.py          writes the table anew
operator_history.py --check  compares it with the schemas; exit status: 0 equal, 1 not
"""

import argparse
import pathlib
import re
import sys
import textwrap

import onnx

TABLE = pathlib.Path(__file__).resolve().parent.parent.parent / "src/io/onnx/downgrade/operator_history.inc"
OLDEST = {"": 7, "ai.onnx.ml": 1}  # versions before these are not told apart
DTYPES = {
    "float": "f32",
    "uint8": "u8",
    "int8": "i8",
    "uint16": "u16",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "string": "string",
    "bool": "boolean",
    "float16": "f16",
    "double": "f64",
    "uint32": "u32",
    "uint64": "u64",
    "complex64": "c64",
    "complex128": "c128",
    "bfloat16": "bf16",
    "float8e4m3fn": "f8e4m3fn",
    "float8e4m3fnuz": "f8e4m3fnuz",
    "float8e5m2": "f8e5m2",
    "float8e5m2fnuz": "f8e5m2fnuz",
    "uint4": "u4",
    "int4": "i4",
    "float4e2m1": "f4e2m1",
    "float8e8m0": "f8e8m0",
    "uint2": "u2",
    "int2": "i2",
}
Option = onnx.defs.OpSchema.FormalParameterOption


def kind_and_dtype(text):
    """("tensor", "f32") of "tensor(float)"; the innermost element type of sequences and optionals, none of maps."""
    kind = {"seq": "sequence", "optional": "optional", "map": "map", "tensor": "tensor"}[text.split("(")[0]]
    return kind, DTYPES[re.search(r"tensor\((\w+)\)",
                                  text).group(1)] if kind != "map" and "tensor" in text else "undefined"


def types_of(schema, parameter):
    for constraint in schema.type_constraints:
        if constraint.type_param_str == parameter.type_str:
            return {kind_and_dtype(text) for text in constraint.allowed_type_strs}
    return {kind_and_dtype(parameter.type_str)}


def since(versions, has):
    """The first version from which on all have it; 0 for the first one."""
    lacking = [version for version, schema in versions if not has(schema)]
    later = [version for version, _ in versions if not lacking or version > lacking[-1]]
    return 0 if not lacking else later[0]


def rows_of(name, versions):
    """(version, field, ...) of everything that versions after the first brought to the newest form."""
    newest = versions[-1][1]
    for attribute in sorted(newest.attributes):
        if version := since(versions, lambda schema: attribute in schema.attributes):
            yield version, f'.attribute = "{attribute}"'
    for i, parameter in enumerate(newest.inputs):
        if version := since(versions, lambda schema: i < len(schema.inputs)):
            yield version, f".input = {i}"
        elif parameter.option == Option.Optional:
            if version := since(versions, lambda schema: schema.inputs[i].option == Option.Optional):
                yield version, f".absent_input = {i}"
    for i in range(len(newest.outputs)):
        if version := since(versions, lambda schema: i < len(schema.outputs)):
            yield version, f".output = {i}"
    yield from type_rows(newest, versions)


def type_rows(newest, versions):
    found = {}  # (version, kind) -> {dtype -> positions}
    for letter, parameters in (("inputs", newest.inputs), ("outputs", newest.outputs)):
        for i, parameter in enumerate(parameters):
            having = [(version, schema) for version, schema in versions if i < len(getattr(schema, letter))]
            for kind, dtype in types_of(newest, parameter):
                if version := since(having, lambda schema:
                                    (kind, dtype) in types_of(schema,
                                                              getattr(schema, letter)[i])):
                    found.setdefault((version, kind), {}).setdefault(dtype, []).append((letter, i))
    order = list(DTYPES.values()) + ["undefined"]
    for (version, kind), dtypes in sorted(found.items()):
        groups = {}
        for dtype, positions in dtypes.items():
            groups.setdefault(tuple(positions), []).append(dtype)
        for positions, names in sorted(groups.items()):
            masks = {letter: sum(1 << i for each, i in positions if each == letter) for letter in ("inputs", "outputs")}
            fields = [f".{letter} = {mask:#x}" for letter, mask in masks.items() if mask]
            fields.append(f".types = {{{', '.join(sorted(names, key=order.index))}}}")
            if kind != "tensor":
                fields.append(f".kind = Kind::{kind}")
            yield version, ", ".join(fields)


def table():
    history = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in OLDEST and not schema.support_level == onnx.defs.OpSchema.SupportType.EXPERIMENTAL:
            history.setdefault((schema.domain, schema.name), []).append(schema)
    lines = [
        "// Written by tests/peers/operator_history.py from the operator schemas of the onnx package; not to be edited."
    ]
    for (domain, op), schemas in sorted(history.items(), key=lambda item: (item[0][0] + "::"
                                                                           if item[0][0] else "") + item[0][1]):
        oldest, schemas = OLDEST[domain], sorted(schemas, key=lambda schema: schema.since_version)
        name = f"{domain}::{op}" if domain else op
        gone = schemas[-1].since_version if schemas[-1].deprecated else 0
        schemas = [schema for schema in schemas if not schema.deprecated]
        known = [(schema.since_version, schema) for i, schema in enumerate(schemas)
                 if i + 1 == len(schemas) or schemas[i + 1].since_version > oldest]
        rows = [(known[0][0], ".whole = true")] if known[0][0] > oldest else []
        rows += sorted(rows_of(name, known))
        rows += [(gone, ".gone = true")] if gone else []
        for version, fields in rows:
            lines += textwrap.wrap(f'{{.op = "{name}", .version = {version}, {fields}}},', 118,
                                   subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def words(text):
    """The text without comments and white space, which clang-format arranges."""
    return "".join("".join(line.split()) for line in text.splitlines() if not line.lstrip().startswith("//"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        TABLE.write_text(table())
        return 0
    if words(TABLE.read_text()) == words(table()):
        return 0
    print(f"{TABLE} is not what the schemas of onnx {onnx.__version__} say: run {__file__}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
