#!/usr/bin/env python3
"""Makes the fuzzer's starting inputs from ONNX's own test data: make_corpus.py FOLDER

Needs the packages of .venv (scripts/setup.sh --tests). Writes FOLDER/models (small models, each also with its integer,
bool and string inputs as initializers, so that shapes that depend on them are known), FOLDER/value_proto, FOLDER/image
and FOLDER/npy. The first byte of the last three chooses what tests/fuzz/{value_proto,image,npy}.cpp do with the rest.
"""
import io
import os
import pathlib
import sys

import numpy
import onnx

MOST_BYTES = 4096
MODEL_FOLDERS = ("node", "simple")
KINDS = ["tensor_type", "sequence_type", "optional_type", "map_type"]  # by tag
EXACT = {
    onnx.TensorProto.BOOL,
    onnx.TensorProto.STRING,
    onnx.TensorProto.INT8,
    onnx.TensorProto.INT16,
    onnx.TensorProto.INT32,
    onnx.TensorProto.INT64,
    onnx.TensorProto.UINT8,
    onnx.TensorProto.UINT16,
    onnx.TensorProto.UINT32,
    onnx.TensorProto.UINT64,
}


def write(folder, name, data):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def with_initializers(model, values):
    """The model with the given tensors as initializers in place of inputs; None when there are none."""
    kept = [value for value in model.graph.input if value.name not in values]
    if len(kept) == len(model.graph.input):
        return None
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for name, tensor in values.items():
        tensor.name = name
        model.graph.initializer.append(tensor)
    return model


def add_case(folder, out):
    model_bytes = (folder / "model.onnx").read_bytes()
    if len(model_bytes) > MOST_BYTES:
        return
    write(out / "models", folder.name, model_bytes)
    model = onnx.load_from_string(model_bytes)
    values = {}
    for index, description in enumerate(model.graph.input):
        path = folder / "test_data_set_0" / f"input_{index}.pb"
        data = path.read_bytes() if path.exists() else b""
        kind = description.type.WhichOneof("value")
        if not data or len(data) > MOST_BYTES or kind not in KINDS:
            continue
        write(out / "value_proto", f"{folder.name}_{index}", bytes([KINDS.index(kind)]) + data)
        if kind == "tensor_type":
            tensor = onnx.TensorProto.FromString(data)
            if tensor.data_type in EXACT:
                values[description.name] = tensor
            if folder.name.startswith("test_image_decoder"):
                write(out / "image", folder.name, b"\0" + bytes(tensor.raw_data))
    fixed = with_initializers(model, values)
    if fixed is not None and fixed.ByteSize() <= MOST_BYTES:
        write(out / "models", f"{folder.name}_fixed", fixed.SerializeToString())


def npy_arrays():
    numbers = numpy.arange(6)
    for code in ("?", "i1", "u1", "<i2", ">i4", "<u8", "<f2", ">f4", "<f8", "<c8", ">c16"):
        yield code.strip("<>?") or "bool", numbers.reshape(2, 3).astype(code)
    yield "fortran", numpy.asfortranarray(numbers.reshape(2, 3).astype("f4"))
    yield "text", numpy.array(["a", "bc", "漢"])
    yield "bytes", numpy.array([b"a", b"bc"])
    yield "scalar", numpy.array(2.5, "f4")
    yield "empty", numpy.zeros((0, 3), "i8")


def add_npy(out):
    for name, array in npy_arrays():
        file = io.BytesIO()
        numpy.save(file, array)
        write(out / "npy", name, b"\0" + file.getvalue())
    for name, save in (("stored", numpy.savez), ("deflated", numpy.savez_compressed)):
        file = io.BytesIO()
        save(file, **{name: array for name, array in list(npy_arrays())[:3]})
        write(out / "npy", name, b"\1" + file.getvalue())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    data = pathlib.Path(os.path.dirname(onnx.__file__)) / "backend" / "test" / "data"
    for suite in MODEL_FOLDERS:
        for folder in sorted((data / suite).iterdir()):
            if (folder / "model.onnx").exists():
                add_case(folder, out)
    add_npy(out)
    for folder in sorted(out.iterdir()):
        files = list(folder.iterdir())
        print(f"{folder}: {len(files)} files, {sum(file.stat().st_size for file in files) >> 10} KiB")


if __name__ == "__main__":
    main()
