#!/usr/bin/env python3
"""Writes a GGUF file with its matrices in another format: SOURCE.gguf TARGET.gguf q4_0|q8_0.

Matrices are dequantised and rounded again. Those that have 8 bits already stay as they are, as do vectors, so that the
head of a 4-bit model keeps its format.
"""
import pathlib
import sys

import gguf
import numpy

TYPES = {"q4_0": gguf.GGMLQuantizationType.Q4_0, "q8_0": gguf.GGMLQuantizationType.Q8_0}
FILE_TYPES = {"q4_0": gguf.LlamaFileType.MOSTLY_Q4_0, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
KEPT = {
    gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.BF16,
    gguf.GGMLQuantizationType.Q8_0
}


def requantise(source, target, name):
    """The target appears when it is whole."""
    reader = gguf.GGUFReader(source)
    architecture = reader.get_field(gguf.Keys.General.ARCHITECTURE).contents()
    partial = target.with_name(target.name + ".part")
    writer = gguf.GGUFWriter(partial, arch=architecture)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == gguf.Keys.General.ARCHITECTURE:
            continue
        value = FILE_TYPES[name] if field.name == gguf.Keys.General.FILE_TYPE else field.contents()
        of_array = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, value, field.types[0], sub_type=of_array)
    for tensor in reader.tensors:
        data, kind = tensor.data, tensor.tensor_type
        if kind not in KEPT:
            kind = TYPES[name]
            data = gguf.quants.quantize(gguf.quants.dequantize(data, tensor.tensor_type), kind)
        writer.add_tensor(tensor.name, numpy.ascontiguousarray(data), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.replace(target)


if __name__ == "__main__":
    requantise(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
