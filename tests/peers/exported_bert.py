"""BERT (arXiv:1810.04805) as PyTorch exported it with operator set 11: normalisation, Gelu, heads and mask spelled out,
positions computed from the shape of the ids. onnxruntime's optimiser fuses these patterns."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """Appends nodes with one output and seeded weights."""

    def __init__(self, seed):
        self.nodes, self.initializers = [], []
        self.generator = np.random.default_rng(seed)

    def __call__(self, op, *inputs, **attributes):
        output = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def constant(self, values):
        name = f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weight(self, *shape, deviation=None, mean=0):
        deviation = deviation or 1 / np.sqrt(shape[0])
        return self.constant((mean + deviation * self.generator.normal(0, 1, shape)).astype(np.float32))

    def number(self, value):
        return self.constant(np.float32(value))

    def linear(self, x, inputs, outputs):
        return self("Add", self("MatMul", x, self.weight(inputs, outputs)), self.weight(outputs, deviation=0.1))

    def normalise(self, x, width):
        centred = self("Sub", x, self("ReduceMean", x, axes=[-1]))
        variance = self("ReduceMean", self("Pow", centred, self.number(2)), axes=[-1])
        normal = self("Div", centred, self("Sqrt", self("Add", variance, self.number(1e-12))))
        return self("Add", self("Mul", normal, self.weight(width, deviation=0.1, mean=1)),
                    self.weight(width, deviation=0.1))

    def gelu(self, x):
        erf = self("Erf", self("Div", x, self.number(np.sqrt(2))))
        return self("Mul", self("Mul", x, self("Add", erf, self.number(1))), self.number(0.5))


def embeddings(build, width, vocabulary, longest):
    shape = build("Shape", "input_ids")
    length = build("Unsqueeze", build("Gather", shape, build.constant(np.int64(1)), axis=0), axes=[0])
    ones = build("ConstantOfShape", length, value=numpy_helper.from_array(np.array([1], np.int64)))
    positions = build("Squeeze", build("Transpose", build("NonZero", ones), perm=[1, 0]), axes=[1])
    positions = build("Unsqueeze", build("Cast", positions, to=TensorProto.INT64), axes=[0])
    positions = build("Expand", positions, build("Shape", "input_ids"))
    words, places, segments = (build("Gather", build.weight(rows, width, deviation=1), ids, axis=0)
                               for rows, ids in [(vocabulary, "input_ids"), (longest, positions), (2,
                                                                                                   "token_type_ids")])
    return build.normalise(build("Add", build("Add", words, places), segments), width)


def layer(build, x, mask, width, heads):
    def heads_of(permutation):
        shape = build.constant(np.array([0, 0, heads, width // heads]))
        return build("Transpose", build("Reshape", build.linear(x, width, width), shape), perm=permutation)

    query, key, value = heads_of([0, 2, 1, 3]), heads_of([0, 2, 3, 1]), heads_of([0, 2, 1, 3])
    scores = build("Div", build("MatMul", query, key), build.number(np.sqrt(width // heads)))
    weights = build("Softmax", build("Add", scores, mask), axis=3)
    seen = build("Transpose", build("MatMul", weights, value), perm=[0, 2, 1, 3])
    seen = build("Reshape", seen, build.constant(np.array([0, 0, width])))
    x = build.normalise(build("Add", build.linear(seen, width, width), x), width)
    wide = build.gelu(build.linear(x, width, 4 * width))
    return build.normalise(build("Add", build.linear(wide, 4 * width, width), x), width)


def model(layers=2, width=32, heads=4, vocabulary=100, longest=64):
    """Inputs input_ids, attention_mask and token_type_ids, i64 [batch, seq]; one output [batch, seq, width]."""
    build = Builder(seed=3)
    mask = build("Unsqueeze", build("Unsqueeze", "attention_mask", axes=[1]), axes=[2])
    mask = build("Sub", build.number(1), build("Cast", mask, to=TensorProto.FLOAT))
    mask = build("Mul", mask, build.number(-10000))
    x = embeddings(build, width, vocabulary, longest)
    for _ in range(layers):
        x = layer(build, x, mask, width, heads)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "seq"])
              for name in ("input_ids", "attention_mask", "token_type_ids")]
    outputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)]
    graph = helper.make_graph(build.nodes, "exported_bert", inputs, outputs, build.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
