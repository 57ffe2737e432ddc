"""A small ONNX graph under construction, with inputs that suit it: what the patterns of the net fuzzer are made with.

Shapes are numbers here, whatever the model declares: inputs may be declared with names for their dimensions.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 18
TYPES = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.int8): TensorProto.INT8,
    np.dtype(np.uint8): TensorProto.UINT8,
    np.dtype(np.bool_): TensorProto.BOOL,
}
LOWEST = float(np.finfo(np.float32).min)
# Finite ones are far from overflow: where that happens depends on the order of operations.
ODD_NUMBERS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 3e4, -3e4, 1e-42)


class Value:
    """A tensor of the graph: its name, its shape, and its element type."""

    def __init__(self, name, shape, dtype=np.float32):
        self.name, self.shape, self.dtype = name, tuple(int(size) for size in shape), np.dtype(dtype)

    @property
    def rank(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))


class Net:
    """`random` decides everything; `odd`: whether inputs may hold NaN, infinities and the like."""

    def __init__(self, random, odd=False):
        self.random, self.odd = random, odd
        self.nodes, self.initializers, self.inputs, self.feeds = [], [], [], {}
        self.outputs = []
        self.count = 0

    def name(self, prefix="t"):
        self.count += 1
        return f"{prefix}{self.count}"

    # --- chance
    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, *choices):
        return choices[int(self.random.integers(len(choices)))]

    def size(self, most=6):
        """A dimension: often 1, seldom 0."""
        if self.chance(0.04):
            return 0
        return 1 if self.chance(0.25) else int(self.random.integers(2, most + 1))

    def numbers(self, shape, scale=1.0):
        """Multiples of 1/8, so that sums of few are exact; odd ones among them where they are allowed."""
        array = np.round(self.random.normal(size=shape) * scale * 8) / 8
        array = np.asarray(array, np.float32)
        if self.odd and array.size and self.chance(0.5):
            for _ in range(int(self.random.integers(1, 3))):
                array.flat[int(self.random.integers(array.size))] = self.pick(*ODD_NUMBERS)
        return array

    def plain(self, shape, scale=1.0):
        """The same without odd numbers: weights."""
        return np.asarray(np.round(self.random.normal(size=shape) * scale * 8) / 8, np.float32)

    # --- values
    def constant(self, array, dtype=np.float32):
        """As an initializer, or as the output of a Constant node."""
        array = np.asarray(array, dtype)
        name = self.name("c")
        tensor = numpy_helper.from_array(array, name)
        if self.chance(0.3):
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        return Value(name, array.shape, array.dtype)

    def integers(self, values):
        return self.constant(values, np.int64)

    def input(self, array):
        """Declared with its shape, or with names for some dimensions."""
        array = np.asarray(array)
        name = self.name("x")
        names = [self.name("n") if self.chance(0.5) else size for size in array.shape]
        shape = names if self.chance(0.5) else list(array.shape)
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[array.dtype], shape))
        self.feeds[name] = array
        return Value(name, array.shape, array.dtype)

    def operand(self, shape, scale=1.0):
        """An input, or a constant."""
        return self.constant(self.plain(shape, scale)) if self.chance(0.4) else self.input(self.numbers(shape, scale))

    # --- nodes
    def add(self, op, inputs, shape, dtype=None, **attributes):
        """A node with one output of that shape; its type is that of the first input unless another one is given."""
        dtype = dtype if dtype is not None else inputs[0].dtype
        return self.add_multi(op, inputs, [(shape, dtype)], **attributes)[0]

    def add_multi(self, op, inputs, outputs, domain="", **attributes):
        names = [self.name() for _ in outputs]
        node = helper.make_node(op, [each.name if each else "" for each in inputs], names, domain=domain, **attributes)
        self.nodes.append(node)
        return [Value(name, shape, dtype) for name, (shape, dtype) in zip(names, outputs)]

    def unary(self, op, x, **attributes):
        return self.add(op, [x], x.shape, **attributes)

    def binary(self, op, a, b, swap=False, dtype=None):
        """Element by element, with broadcasting; `swap`: operands may change places."""
        if swap and self.chance(0.5):
            a, b = b, a
        return self.add(op, [a, b], np.broadcast_shapes(a.shape, b.shape), dtype=dtype)

    def scalar(self, number, rank=0):
        """A number as a constant: a scalar, or with dimensions of 1."""
        rank = int(self.random.integers(0, rank + 1))
        return self.constant(np.full((1,) * rank, number))

    def with_number(self, op, x, number, swap=False):
        return self.binary(op, x, self.scalar(number, x.rank), swap)

    def where(self, condition, yes, no):
        shape = np.broadcast_shapes(condition.shape, yes.shape, no.shape)
        return self.add("Where", [condition, yes, no], shape, dtype=yes.dtype)

    def reduce(self, op, x, axes, keepdims=1):
        axes = [axis % x.rank for axis in axes]
        shape = [1 if i in axes else size for i, size in enumerate(x.shape) if keepdims or i not in axes]
        return self.add(op, [x, self.integers(axes)], shape, keepdims=keepdims)

    def transpose(self, x, order):
        return self.add("Transpose", [x], [x.shape[i] for i in order], perm=list(order))

    def matmul(self, a, b):
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return self.add("MatMul", [a, b], (*batch, a.shape[-2], b.shape[-1]))

    def concat(self, values, axis):
        shape = list(values[0].shape)
        shape[axis] = sum(each.shape[axis] for each in values)
        return self.add("Concat", values, shape, axis=axis)

    def slice(self, x, axis, begin, end):
        shape = list(x.shape)
        shape[axis] = max(0, min(end, shape[axis]) - min(begin, shape[axis]))
        return self.add("Slice", [x, self.integers([begin]), self.integers([end]), self.integers([axis])], shape)

    def reshape(self, x, shape):
        """By a constant, by one that copies dimensions (0) or leaves one open (-1), or by a shape that is computed."""
        shape = [int(size) for size in shape]
        kind = self.pick("plain", "plain", "copied", "open", "computed")
        if kind == "plain" or x.size == 0 or not shape:
            return self.add("Reshape", [x, self.integers(shape)], shape, allowzero=1 if x.size == 0 else 0)
        written = list(shape)
        if kind == "copied":
            for i in range(min(len(shape), x.rank)):
                if shape[i] == x.shape[i] and self.chance(0.5):
                    written[i] = 0
        elif kind == "open":
            written[int(self.random.integers(len(shape)))] = -1
        else:
            parts = []
            for i, size in enumerate(shape):
                same = [k for k, own in enumerate(x.shape) if own == size]
                parts.append(self.dimension(x, same[0]) if same and self.chance(0.7) else self.integers([size]))
            computed = self.add("Concat", parts, [len(shape)], axis=0)
            return self.add("Reshape", [x, computed], shape)
        return self.add("Reshape", [x, self.integers(written)], shape)

    def dimension(self, x, axis):
        """One dimension of a value as i64[1], computed."""
        shape = self.add("Shape", [x], [x.rank], dtype=np.int64)
        if self.chance(0.5):
            index = self.constant(axis, np.int64)
            scalar = self.add("Gather", [shape, index], [], axis=0)
            return self.add("Unsqueeze", [scalar, self.integers([0])], [1])
        return self.add(
            "Slice", [shape, self.integers([axis]), self.integers([axis + 1]), self.integers([0])], [1]
        )

    def with_rank(self, x, rank):
        """The same elements in `rank` dimensions: ones in front, or the first ones joined."""
        if x.rank == rank:
            return x
        if x.rank < rank:
            return self.reshape(x, (1,) * (rank - x.rank) + x.shape)
        joined = int(np.prod(x.shape[: x.rank - rank + 1], dtype=np.int64))
        return self.reshape(x, (joined, *x.shape[x.rank - rank + 1 :]))

    # --- the model
    def model(self):
        types = [helper.make_tensor_value_info(each.name, TYPES[each.dtype], None) for each in self.outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, types, initializer=self.initializers)
        opsets = [helper.make_opsetid("", OPSET)]
        if any(node.domain == "com.microsoft" for node in self.nodes):
            opsets.append(helper.make_opsetid("com.microsoft", 1))
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
