"""Layers with weights for the net fuzzer: products, convolutions, pooling, quantized layers, tables, control flow."""

import math

import numpy as np
from onnx import TensorProto, helper

from net_builder import Value


# --- products and convolutions
def product(net, x):
    x = net.with_rank(x, max(x.rank, 2))
    width = net.size(5)
    weights = net.constant(net.plain((x.shape[-1], width)))
    if x.rank == 2 and net.chance(0.5):
        if net.chance(0.5):
            weights = net.constant(net.plain((width, x.shape[-1])))
            y = net.add("Gemm", [x, weights, net.operand((width,))], (x.shape[0], width), transB=1)
        else:
            y = net.add("Gemm", [x, weights], (x.shape[0], width), alpha=0.5)
    else:
        y = net.matmul(x, weights)
        y = net.binary("Add", y, net.operand((width,)), True) if net.chance(0.7) else y
    return after(net, y)


def after(net, y):
    """What epilogues take: a residual, a scale per channel, an activation."""
    if net.chance(0.3):
        y = net.binary("Add", y, net.operand(y.shape), True)
    if net.chance(0.3):
        y = net.with_number("Mul", y, 0.5, True)
    if net.chance(0.5):
        y = net.unary(net.pick("Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu"), y)
    if net.chance(0.15):
        y = net.binary("Mul", y, net.unary("Sigmoid", y), True)
    return y


def image(net, x):
    """[N, C, H, W] with sizes for windows."""
    if x.rank == 4 and 0 not in x.shape and net.chance(0.7):
        return x
    return net.input(net.numbers((net.pick(1, 2), net.pick(1, 2, 3, 4), net.size(7) or 1, net.size(7) or 2)))


def window(net, x, kernel):
    """Strides, dilations and padding under which no window is larger than the padded input; the sizes of the result."""
    strides, dilations = [net.pick(1, 1, 2) for _ in kernel], [net.pick(1, 1, 1, 2) for _ in kernel]
    pads = [int(net.random.integers(0, 2)) for _ in range(4)]
    sizes = []
    for i, size in enumerate(x.shape[2:]):
        extent = (kernel[i] - 1) * dilations[i] + 1
        pads[i] += max(0, extent - size - pads[i] - pads[i + 2])
        sizes.append((size + pads[i] + pads[i + 2] - extent) // strides[i] + 1)
    return {"strides": strides, "dilations": dilations, "pads": pads, "kernel_shape": kernel}, sizes


def convolution(net, x):
    x = image(net, x)
    channels = x.shape[1]
    kernel = [net.pick(1, 3), net.pick(1, 3, 2)]
    group = net.pick(1, 1, channels)
    width = group * net.pick(1, 2, 3)
    attributes, sizes = window(net, x, kernel)
    if net.chance(0.15):
        pads = attributes["pads"]
        padding = net.integers([0, 0, *pads[:2], 0, 0, *pads[2:]])
        padded = [x.shape[i + 2] + pads[i] + pads[i + 2] for i in range(2)]
        x = net.add("Pad", [x, padding], (*x.shape[:2], *padded))
        attributes["pads"] = [0] * 4
    operands = [x, net.constant(net.plain((width, channels // group, *kernel)))]
    if net.chance(0.6):
        operands.append(net.constant(net.plain((width,))))
    y = net.add("Conv", operands, (x.shape[0], width, *sizes), group=group, **attributes)
    if net.chance(0.4):
        numbers = [net.constant(net.plain((width,))) for _ in range(3)]
        numbers.append(net.constant(np.abs(net.plain((width,))) + 0.5))
        y = net.add("BatchNormalization", [y, *numbers], y.shape, epsilon=1e-3)
    return after(net, y)


def pooling(net, x):
    x = image(net, x)
    if net.chance(0.3):
        return net.add(net.pick("GlobalAveragePool", "GlobalMaxPool"), [x], (*x.shape[:2], 1, 1))
    attributes, _ = window(net, x, [net.pick(1, 2, 3), net.pick(1, 2, 3)])
    kernel, pads, strides = attributes["kernel_shape"], attributes["pads"], attributes["strides"]
    attributes["pads"] = pads = [min(pad, kernel[i % 2] - 1) for i, pad in enumerate(pads)]
    attributes["dilations"] = [1, 1]
    sizes = []
    for i, size in enumerate(x.shape[2:]):
        steps = size + pads[i] + pads[i + 2] - kernel[i]
        sizes.append(int(steps / strides[i]) + 1)  # integers are divided towards zero
        if sizes[-1] < 0:
            return x
    op = net.pick("MaxPool", "AveragePool")
    if op == "AveragePool":
        del attributes["dilations"]
        attributes["count_include_pad"] = net.pick(0, 1) if min(sizes) > 0 else 0
    return net.add(op, [x], (*x.shape[:2], *sizes), **attributes)


def resized(net, x):
    x = image(net, x)
    scales = net.constant([1.0, 1.0, 2.0, 2.0])
    shape = (*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3])
    # Whether a NaN counts that lies beside a position is open.
    is_nearest = net.odd or net.chance(0.6)
    mode = {"mode": "nearest", "nearest_mode": "floor"} if is_nearest else {"mode": "linear"}
    y = net.add_multi(
        "Resize", [x, None, scales], [(shape, np.float32)], coordinate_transformation_mode="asymmetric", **mode
    )[0]
    return net.slice(y, 2, 0, x.shape[2]) if net.chance(0.4) else y


# --- quantized layers. Scales are powers of two, and so small that rounding is not on the edge.
def quantized(net, x, scale, zero, dtype):
    operands = [x, net.constant(scale), net.constant(zero, dtype)]
    y = net.add("QuantizeLinear", operands, x.shape, dtype=dtype)
    return net.add("DequantizeLinear", [y, *operands[1:]], x.shape, dtype=np.float32)


def quantized_layer(net, x):
    dtype, zero = net.pick((np.uint8, 128), (np.uint8, 0), (np.int8, 0), (np.int8, -3))
    is_conv = net.chance(0.4)
    x = image(net, x) if is_conv else net.with_rank(x, max(x.rank, 2))
    x = quantized(net, x, net.pick(0.0625, 0.125), zero, dtype)
    width = net.pick(1, 2, 3, 8)
    shape = (width, x.shape[1], 1, net.pick(1, min(2, x.shape[3]))) if is_conv else (x.shape[-1], width)
    integers = net.constant(net.random.integers(-127, 128, shape), np.int8)
    scales, axis = net.constant(0.0078125), {}
    if net.chance(0.5):
        scales = net.constant(2.0 ** net.random.integers(-8, -5, width))
        axis = {"axis": 0 if is_conv else 1}
    operands = [integers, scales]
    if net.chance(0.5):
        operands.append(net.constant(np.zeros(scales.shape), np.int8))
    weights = net.add("DequantizeLinear", operands, shape, dtype=np.float32, **axis)
    if is_conv:
        sizes = (x.shape[0], width, x.shape[2], x.shape[3] - shape[3] + 1)
        y = net.add("Conv", [x, weights], sizes, kernel_shape=list(shape[2:]))
    else:
        y = net.matmul(x, weights)
        y = net.binary("Add", y, net.constant(net.plain((width,))), True) if net.chance(0.5) else y
    y = net.unary("Relu", y) if net.chance(0.5) else y
    return quantized(net, y, 0.25, zero, dtype) if net.chance(0.7) else y


def dynamic_layer(net, x):
    """DynamicQuantizeLinear and MatMulInteger, as onnxruntime's tools write them."""
    x = net.with_rank(x, max(x.rank, 2))
    if not x.size:  # nothing has no range
        return x
    types = [(x.shape, np.uint8), ((), np.float32), ((), np.uint8)]
    data, scale, zero = net.add_multi("DynamicQuantizeLinear", [x], types)
    width = net.pick(1, 3, 8)
    weights = net.constant(net.random.integers(-127, 128, (x.shape[-1], width)), np.int8)
    operands = [data, weights, zero, net.constant(np.zeros(()), np.int8)]
    sums = net.add("MatMulInteger", operands, (*x.shape[:-1], width), dtype=np.int32)
    y = net.add("Cast", [sums], sums.shape, dtype=np.float32, to=1)
    y = net.binary("Mul", y, net.binary("Mul", scale, net.scalar(0.0078125)))
    return net.binary("Add", y, net.constant(net.plain((width,))), True) if net.chance(0.5) else y


# --- tables and control flow
def embedding(net, x):
    """Rows of tables, their sum, and its normalization; x is added where it fits."""
    width, rows = net.pick(2, 4, 8), net.pick(1, 5)
    length = x.shape[0] if x.rank else 2
    tables = [net.constant(net.plain((rows, width))) for _ in range(net.pick(1, 2, 3))]
    y = None
    for table in tables:
        indices = np.asarray(net.random.integers(0, rows, (2, length)), np.int64)
        found = net.input(indices) if net.chance(0.7) else net.constant(indices, np.int64)
        if net.chance(0.2):
            depth, values = net.constant(rows, np.int64), net.constant([0.0, 1.0])
            hot = net.add("OneHot", [found, depth, values], (2, length, rows), dtype=np.float32, axis=-1)
            part = net.matmul(hot, table)
        else:
            part = net.add("Gather", [table, found], (2, length, width))
        y = part if y is None else net.binary("Add", y, part)
    if net.chance(0.6):
        scale, shift = net.constant(net.plain((width,))), net.constant(net.plain((width,)))
        y = net.add("LayerNormalization", [y, scale, shift], y.shape, axis=-1, epsilon=1e-5)
    # The mean of nothing is not defined.
    return net.binary("Mul", y, net.reduce("ReduceMean", x, range(x.rank), 0), True) if x.rank and x.size else y


def branch(net, x):
    """If with a condition that is known, or computed."""
    known = net.chance(0.5)
    condition = net.constant(net.chance(0.5), np.bool_) if known else net.input(np.array(net.chance(0.5)))
    graphs = []
    for op in ("Neg", "Relu"):
        name = net.name("b")
        output = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        graphs.append(helper.make_graph([helper.make_node(op, [x.name], [name])], op, [], [output]))
    y = net.name()
    net.nodes.append(helper.make_node("If", [condition.name], [y], then_branch=graphs[0], else_branch=graphs[1]))
    return Value(y, x.shape)


def loop(net, x):
    """A few trips, each of which adds a captured constant to a carried value."""
    step = net.operand(x.shape[-1:])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["more"]),
            helper.make_node("Add", ["carried", step.name], ["sum"]),
            helper.make_node("Relu", ["kept"], ["kept_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("kept", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("kept_on", TensorProto.FLOAT, None),
        ],
    )
    trips, go = net.constant(net.pick(0, 1, 3), np.int64), net.constant(True, np.bool_)
    first, second = net.name(), net.name()
    net.nodes.append(helper.make_node("Loop", [trips.name, go.name, x.name, x.name], [first, second], body=body))
    return net.binary("Add", Value(first, x.shape), Value(second, x.shape))


def distances(net, x):
    """Of every row from every other: differences, squares and sums."""
    x = net.with_rank(x, 2)
    a = net.add("Unsqueeze", [x, net.integers([1])], (x.shape[0], 1, x.shape[1]))
    b = net.add("Unsqueeze", [x, net.integers([0])], (1, *x.shape))
    difference = net.binary("Sub", a, b)
    total = net.reduce("ReduceSum", net.binary("Mul", difference, difference), [-1], 0)
    return net.unary("Sqrt", total) if net.chance(0.5) else net.with_number("Div", total, math.pi)


LAYERS = {
    "product": (product, 3),
    "convolution": (convolution, 3),
    "pooling": (pooling, 2),
    "resized": (resized, 1),
    "quantized layer": (quantized_layer, 3),
    "dynamic layer": (dynamic_layer, 2),
    "embedding": (embedding, 2),
    "branch": (branch, 1),
    "loop": (loop, 1),
    "distances": (distances, 1),
}
