"""Element types, inputs and outputs, and metadata as onnxruntime describes them."""

from __future__ import annotations

import re
from typing import Any

from tessera import _core

# Keyed by Tessera's names; the numbers are ONNX's TensorProto.DataType.
NAMES = {
    "f32": "float",
    "u8": "uint8",
    "i8": "int8",
    "u16": "uint16",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "string": "string",
    "bool": "bool",
    "f16": "float16",
    "f64": "double",
    "u32": "uint32",
    "u64": "uint64",
    "c64": "complex64",
    "c128": "complex128",
    "bf16": "bfloat16",
    "f8e4m3fn": "float8e4m3fn",
    "f8e4m3fnuz": "float8e4m3fnuz",
    "f8e5m2": "float8e5m2",
    "f8e5m2fnuz": "float8e5m2fnuz",
    "u4": "uint4",
    "i4": "int4",
    "f4e2m1": "float4e2m1",
    "f8e8m0": "float8e8m0",
    "u2": "uint2",
    "i2": "int2",
}
_BY_NUMBER = {number: name for number, name in enumerate(NAMES, start=1)}


def type_text(text: str) -> str:
    """"tensor(float)" of "f32[n, 3]"; sequences, maps and optionals likewise."""
    for outer in ("seq", "optional"):
        if text.startswith(outer + "("):
            return f"{outer}({type_text(text[len(outer) + 1 : -1])})"
    if text.startswith("map("):
        key, value = text[4:-1].split(", ", 1)
        return f"map({NAMES[key]},{type_text(value)})"
    name = re.split(r"\[", text, maxsplit=1)[0]
    return f"tensor({NAMES.get(name, name)})"


def dtype_name(element_type: Any) -> str:
    """Tessera's name of a numpy type, an ONNX number, or a name."""
    if isinstance(element_type, int):
        if element_type not in _BY_NUMBER:
            raise ValueError(f"there is no ONNX element type {element_type}")
        return _BY_NUMBER[element_type]
    if isinstance(element_type, str) and element_type in NAMES:
        return element_type
    import numpy

    return str(numpy.dtype(element_type).name)


class NodeArg:
    """An input or output of a model."""

    def __init__(self, value: _core.ValueInfo) -> None:
        self._name = value.name
        self._type = type_text(value.type)
        self._shape: list[int | str | None] = value.shape or []

    @property
    def name(self) -> str:
        return self._name

    @property
    def type(self) -> str:
        """As onnxruntime writes it: "tensor(float)"."""
        return self._type

    @property
    def shape(self) -> list[int | str | None]:
        """Numbers, names, and None where nothing is known."""
        return self._shape

    def __repr__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


class ModelMetadata:
    """What a model's file says about itself."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self._metadata = metadata

    @property
    def producer_name(self) -> str:
        return str(self._metadata["producer_name"])

    @property
    def graph_name(self) -> str:
        return str(self._metadata["graph_name"])

    @property
    def domain(self) -> str:
        return str(self._metadata["domain"])

    @property
    def description(self) -> str:
        return str(self._metadata["doc_string"])

    @property
    def graph_description(self) -> str:
        return str(self._metadata["graph_doc_string"])

    @property
    def version(self) -> int:
        return int(self._metadata["model_version"])

    @property
    def custom_metadata_map(self) -> dict[str, str]:
        return dict(self._metadata["properties"])
