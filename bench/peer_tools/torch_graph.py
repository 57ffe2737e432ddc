"""An ONNX graph run by torch, with its float weights as parameters: what training a net of Tessera's is compared with.

Covers the operators of the small nets of `tessera new`. BatchNormalization uses the statistics of the batch.
"""
import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper


class TorchGraph:
    """`parameters`: the float initializers of rank 1 or more by name, but for running statistics."""

    def __init__(self, path, dtype=torch.float32):
        graph = onnx.load(path).graph
        self.nodes = [(node.op_type, list(node.input), list(node.output),
                       {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}) for node in graph.node]
        self.outputs = [value.name for value in graph.output]
        statistics = {name for op, inputs, *_ in self.nodes if op == "BatchNormalization" for name in inputs[3:5]}
        self.constants, self.parameters = {}, {}
        for value in graph.initializer:
            tensor = torch.from_numpy(np.array(numpy_helper.to_array(value)))
            if tensor.dtype == torch.float32:
                tensor = tensor.to(dtype)
            trained = tensor.is_floating_point() and tensor.dim() > 0 and value.name not in statistics
            if trained:
                tensor.requires_grad_(True)
            (self.parameters if trained else self.constants)[value.name] = tensor

    def __call__(self, inputs):
        values = {"": None, **self.constants, **self.parameters, **inputs}
        for op, inputs_of_node, outputs, attributes in self.nodes:
            if op not in OPERATORS:
                raise NotImplementedError(f"torch_graph does not know {op}")
            results = OPERATORS[op](attributes, *[values[name] for name in inputs_of_node])
            values.update(zip(outputs, results if isinstance(results, tuple) else (results, )))
        return values[self.outputs[0]]


def gemm(a, x, w, b=None):
    x, w = x.t() if a.get("transA") else x, w.t() if a.get("transB") else w
    y = a.get("alpha", 1) * (x @ w)
    return y if b is None else y + a.get("beta", 1) * b


def convolution(a, x, w, b=None):
    axes = w.dim() - 2
    pads = a.get("pads", [0] * 2 * axes)
    if pads[:axes] != pads[axes:]:
        raise NotImplementedError("torch_graph: unequal padding")
    ones = [1] * axes
    return getattr(F, f"conv{axes}d")(x, w, b, a.get("strides", ones), pads[:axes], a.get("dilations", ones),
                                     a.get("group", 1))


def transposed_convolution(a, x, w, b=None):
    axes = w.dim() - 2
    return getattr(F, f"conv_transpose{axes}d")(x, w, b, a.get("strides", [1] * axes),
                                               a.get("pads", [0] * 2 * axes)[:axes], 0, a.get("group", 1))


def max_pool(a, x):
    axes = x.dim() - 2
    return getattr(F, f"max_pool{axes}d")(x, a["kernel_shape"], a.get("strides", [1] * axes),
                                         a.get("pads", [0] * 2 * axes)[:axes])


def reshape(a, x, shape):
    return x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape.tolist())])


def unsqueeze(a, x, axes):
    rank = x.dim() + axes.numel()
    for axis in sorted(axis % rank for axis in axes.tolist()):
        x = x.unsqueeze(axis)
    return x


def gather(a, data, indices):
    axis = a.get("axis", 0) % data.dim()
    flat = torch.index_select(data, axis, indices.reshape(-1))
    return flat.reshape(data.shape[:axis] + indices.shape + data.shape[axis + 1:])


def reduce_mean(a, x, axes=None):  # an input since operator set 18
    return x.mean(a["axes"] if axes is None else axes.tolist(), keepdim=bool(a.get("keepdims", 1)))


def recurrent(name, order):
    """ONNX stacks the gates in its own order; `order` says where torch's are."""

    def run(a, x, w, r, b, lengths=None, initial=None, *rest):
        hidden, directions = a["hidden_size"], w.shape[0]

        def gates(tensor):
            return torch.cat([tensor[i * hidden:(i + 1) * hidden] for i in order])

        flat = []
        for d in range(directions):
            half = len(order) * hidden
            flat += [gates(w[d]), gates(r[d]), gates(b[d][:half]), gates(b[d][half:])]
        start = torch.zeros(directions, x.shape[1], hidden, dtype=x.dtype)
        states = (start, start) if name == "lstm" else start
        y = getattr(torch._VF, name)(x, states, flat, True, 1, 0.0, True, directions == 2, False)[0]
        return y.reshape(x.shape[0], x.shape[1], directions, hidden).transpose(1, 2)

    return run


OPERATORS = {
    "Gemm": gemm,
    "MatMul": lambda a, x, y: x @ y,
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y,
    "Relu": lambda a, x: x.relu(),
    "Sigmoid": lambda a, x: x.sigmoid(),
    "Tanh": lambda a, x: x.tanh(),
    "Erf": lambda a, x: x.erf(),
    "Identity": lambda a, x: x,
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "MaxPool": max_pool,
    "GlobalAveragePool": lambda a, x: x.mean(list(range(2, x.dim())), keepdim=True),
    "BatchNormalization":
    lambda a, x, w, b, m, v: F.batch_norm(x, None, None, w, b, training=True, eps=a.get("epsilon", 1e-5)),
    "LayerNormalization": lambda a, x, w, b: F.layer_norm(x, w.shape, w, b, a.get("epsilon", 1e-5)),
    "Flatten": lambda a, x: x.flatten(a.get("axis", 1)),
    "Reshape": reshape,
    "Unsqueeze": unsqueeze,
    "Squeeze": lambda a, x, axes=None: x.squeeze() if axes is None else x.squeeze(tuple(axes.tolist())),
    "Cast": lambda a, x: x.to({1: torch.float32, 7: torch.int64}[a["to"]]),
    "Shape": lambda a, x: torch.tensor(x.shape[a.get("start", 0):a.get("end", x.dim())]),
    "Range": lambda a, start, limit, delta: torch.arange(int(start), int(limit), int(delta)),
    "LogSoftmax": lambda a, x: x.log_softmax(a.get("axis", -1)),
    "Transpose": lambda a, x: x.permute(a["perm"]),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "Gather": gather,
    "Softmax": lambda a, x: x.softmax(a.get("axis", -1)),
    "ReduceMean": reduce_mean,
    "LSTM": recurrent("lstm", [0, 2, 3, 1]),  # ONNX: i o f c; torch: i f g o
    "GRU": recurrent("gru", [1, 0, 2]),  # ONNX: z r h; torch: r z n
}
