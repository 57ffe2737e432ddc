"""Small ONNX files for tests of the server, written field by field: the environment of Triton's clients has no onnx."""
import numpy as np
from clients_test import field

FLOAT, INT64, STRING = 1, 7, 8


def value(name, kind, dims):
    """A value of an ONNX graph; see onnx.proto for the numbers."""
    shape = b"".join(field(1, field(2, dim) if isinstance(dim, str) else field(1, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def onnx_model(nodes, inputs, outputs, weights=()):
    """An ONNX file of (operator, inputs, outputs, whole numbers as attributes) and named float arrays."""
    graph = b""
    for operator, takes, makes, *attributes in nodes:
        node = b"".join(field(1, name) for name in takes) + b"".join(field(2, name) for name in makes)
        node += field(4, operator)
        for name, number in (attributes[0] if attributes else {}).items():
            node += field(5, field(1, name) + field(3, number) + field(20, 2))
        graph += field(1, node)
    graph += field(2, "g")
    for name, array in weights:
        dims = b"".join(field(1, size) for size in array.shape)
        graph += field(5, dims + field(2, FLOAT) + field(8, name) + field(9, array.astype(np.float32).tobytes()))
    graph += b"".join(field(11, value(*each)) for each in inputs)
    graph += b"".join(field(12, value(*each)) for each in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))
