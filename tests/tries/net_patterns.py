"""What passes recognise, as exporters spell it out, for the net fuzzer: each pattern takes a tensor and gives one."""

import math

import numpy as np

from net_attention import attention
from net_builder import Value

EPSILONS = (1e-5, 1e-3)  # smaller ones amplify the rounding of rows that are constant


# --- normalization
def squared(net, x):
    return net.binary("Mul", x, x) if net.chance(0.5) else net.with_number("Pow", x, 2.0)


def affine(net, x, shape):
    """A scale and a shift, or one of them, or none."""
    if net.chance(0.8):
        x = net.binary("Mul", x, net.operand(shape), True)
    return net.binary("Add", x, net.operand(shape), True) if net.chance(0.8) else x


def divided(net, x, root):
    if net.chance(0.3):
        return net.binary("Mul", x, net.unary("Reciprocal", root), True)
    return net.binary("Div", x, root)


def layer_normalization(net, x):
    x = net.with_rank(x, max(x.rank, 2))
    axes = [-1] if net.chance(0.7) or x.rank < 3 else [-2, -1]
    y = x
    if net.chance(0.7):
        y = net.binary("Sub", x, net.reduce("ReduceMean", x, axes))
    variance = net.reduce("ReduceMean", squared(net, y), axes)
    root = net.unary("Sqrt", net.with_number("Add", variance, net.pick(*EPSILONS), True))
    last = x.shape[-1:] if len(axes) == 1 else x.shape[-2:]
    return affine(net, divided(net, y, root), net.pick(last, x.shape[-1:], (1,)))


def written_normalization(net, x):
    """The operators themselves, and BatchNormalization, with statistics that are not ones and zeros."""
    kind = net.pick("layer", "batch", "instance", "group", "skip")
    if not x.size:  # onnxruntime divides by such sizes, and dies
        return net.unary("Relu", x)
    epsilon = net.pick(*EPSILONS)
    if kind in ("layer", "skip"):
        x = net.with_rank(x, max(x.rank, 2))
        if kind == "skip":
            x = net.binary("Add", x, net.operand(x.shape), True)
        scale, shift = net.operand(x.shape[-1:]), net.operand(x.shape[-1:])
        return net.add("LayerNormalization", [x, scale, shift], x.shape, axis=-1, epsilon=epsilon)
    x = net.with_rank(x, max(x.rank, 3))
    channels = x.shape[1]
    scale, shift = net.constant(net.plain((channels,))), net.constant(net.plain((channels,)))
    if kind == "batch":
        mean, variance = net.constant(net.plain((channels,))), net.constant(np.abs(net.plain((channels,))) + 0.5)
        return net.add("BatchNormalization", [x, scale, shift, mean, variance], x.shape, epsilon=epsilon)
    if kind == "instance":
        return net.add("InstanceNormalization", [x, scale, shift], x.shape, epsilon=epsilon)
    groups = next((each for each in (3, 2) if channels % each == 0 and channels), 1)
    apart = net.reshape(x, (x.shape[0], groups, math.prod(x.shape[1:]) // groups))
    ones, zeros = net.constant(np.ones(groups)), net.constant(np.zeros(groups))
    inner = net.add("InstanceNormalization", [apart, ones, zeros], apart.shape, epsilon=epsilon)
    return affine(net, net.reshape(inner, x.shape), (channels,) + (1,) * (x.rank - 2))


# --- softmax and activations
def softmax(net, x):
    x = net.with_rank(x, max(x.rank, 1))
    axis = -1 if net.chance(0.6) else int(net.random.integers(x.rank))
    if net.chance(0.4):
        return net.add(net.pick("Softmax", "LogSoftmax"), [x], x.shape, axis=axis)
    takes_logarithm = net.chance(0.2)
    if takes_logarithm or net.chance(0.2):
        x = net.unary("Tanh", x)  # where an exponential overflows, or is 0, operators that are recognised have numbers
    else:
        x = net.binary("Sub", x, net.reduce("ReduceMax", x, [axis]))
    powers = net.unary("Exp", x)
    total = net.reduce("ReduceSum", powers, [axis])
    if net.chance(0.3):
        return net.binary("Sub", x, net.unary("Log", total))
    y = divided(net, powers, total)
    return net.unary("Log", y) if takes_logarithm else y


def gelu(net, x):
    if net.chance(0.6):
        inner = net.pick(
            lambda: net.with_number("Div", x, math.sqrt(2)), lambda: net.with_number("Mul", x, math.sqrt(0.5), True)
        )()
        bell = net.with_number("Add", net.unary("Erf", inner), 1.0, True)
    else:
        cube = net.with_number("Pow", x, 3.0) if net.chance(0.5) else net.binary("Mul", squared(net, x), x, True)
        inner = net.binary("Add", x, net.with_number("Mul", cube, 0.044715, True), True)
        inner = net.with_number("Mul", inner, math.sqrt(2 / math.pi), True)
        bell = net.with_number("Add", net.unary("Tanh", inner), 1.0, True)
    if net.chance(0.5):
        return net.with_number("Mul", net.binary("Mul", x, bell, True), 0.5, True)
    return net.binary("Mul", net.with_number("Mul", x, 0.5, True), bell, True)


def activation(net, x):
    kind = net.pick("swish", "hard sigmoid", "hard swish", "mish", "clip", "written", "leaky")
    if kind == "swish":
        inner = net.with_number("Mul", x, net.pick(1.702, 0.5, 2.0), True) if net.chance(0.4) else x
        return net.binary("Mul", x, net.unary("Sigmoid", inner), True)
    if kind in ("hard sigmoid", "hard swish"):
        bounded = net.with_number("Add", x, 3.0, True)
        bounded = net.add("Clip", [bounded, net.scalar(0.0), net.scalar(6.0)], x.shape)
        gate = net.with_number("Div", bounded, 6.0)
        return gate if kind == "hard sigmoid" else net.binary("Mul", x, gate, True)
    if kind == "mish":
        return net.binary("Mul", x, net.unary("Tanh", net.unary("Softplus", x)), True)
    if kind == "clip":
        low, high = sorted(net.pick((-1.0, 1.0), (0.0, 6.0), (0.5, 0.25)))
        return net.add("Clip", [x, net.scalar(low), net.scalar(high)], x.shape)
    if kind == "leaky":
        positive = net.binary("Greater", x, net.scalar(0.0), dtype=np.bool_)
        return net.where(positive, x, net.with_number("Mul", x, 0.125))
    names = ("Relu", "Tanh", "Sigmoid", "Elu", "LeakyRelu", "HardSwish", "HardSigmoid", "Abs", "Neg")
    return net.unary(net.pick(*names), x)


def arithmetic(net, x):
    """Sums, products and roots with numbers that change nothing, or little."""
    for _ in range(net.pick(1, 2, 3)):
        kind = net.pick("Add", "Sub", "Mul", "Div", "Pow", "operand", "square root", "minimum", "where")
        if kind == "operand":
            x = net.binary(net.pick("Add", "Mul", "Sub"), x, net.operand([net.pick(1, size) for size in x.shape]))
        elif kind == "square root":
            x = net.unary("Sqrt", net.with_number("Add", squared(net, x), 1.0, True))
        elif kind == "minimum":
            x = net.binary(net.pick("Min", "Max"), x, net.scalar(net.pick(0.0, 1.0), x.rank))
        elif kind == "where":
            bound = net.scalar(net.pick(0.0, 0.5), x.rank)
            x = net.where(net.binary("Less", x, bound, dtype=np.bool_), net.scalar(net.pick(0.0, -1e9), x.rank), x)
        else:
            numbers = {"Div": (1.0, 4.0), "Pow": (0.0, 1.0, 2.0, 3.0)}.get(kind, (0.0, 1.0, 2.0, 0.5, -1.0, 0.25))
            x = net.with_number(kind, x, net.pick(*numbers))
    return x


# --- rotary embedding, einsum
def rotary(net, x):
    x = net.with_rank(x, max(x.rank, 2))
    if x.shape[-1] % 2 or x.shape[-1] == 0:
        x = net.concat([x, x], x.rank - 1)
    half = x.shape[-1] // 2
    if net.chance(0.5):
        a, b = net.slice(x, x.rank - 1, 0, half), net.slice(x, x.rank - 1, half, net.pick(2 * half, 2**62))
    else:
        shape = (*x.shape[:-1], half)
        parts = [x, net.integers([half, half])]
        a, b = net.add_multi("Split", parts, [(shape, np.float32)] * 2, axis=-1)
    turned = net.concat([net.unary("Neg", b), a], x.rank - 1)
    cosine, sine = net.operand(x.shape[-2:]), net.operand(x.shape[-2:])
    return net.binary("Add", net.binary("Mul", x, cosine, True), net.binary("Mul", turned, sine, True), True)


EQUATIONS = ("ij->ji", "ij,jk->ik", "ij,kj->ik", "ij,ij->i", "ij,j->i", "ij->", "ij,kl->ikjl", "ij,ik->jk",
             "ij,ik->ijk", "bij,bjk->bik", "bij,bkj->bik", "bij,jk->bik", "bhqd,bhkd->bhqk", "bhqk,bhkd->bqhd",
             "bqhd,bkhd->bhqk", "bij,bij->b", "...i,ij->...j", "bij->bj", "bij,bik->bjk")  # fmt: skip


def einsum(net, x):
    if not x.size:  # onnxruntime divides by such a size, and dies
        return net.unary("Relu", x)
    equation = net.pick(*EQUATIONS)
    terms, result = equation.split("->")
    terms = terms.split(",")
    has_dots = "..." in equation
    letters = terms[0].replace("...", "")
    x = net.with_rank(x, len(letters) + (net.pick(0, 1, 2) if has_dots else 0))
    dots = x.shape[: x.rank - len(letters)]
    sizes = dict(zip(letters, x.shape[len(dots) :]))
    values = [x]
    for term in terms[1:]:
        values.append(net.operand([sizes.setdefault(letter, net.size(5) or 1) for letter in term]))
    shape = (*(dots if has_dots else ()), *(sizes[letter] for letter in result.replace("...", "")))
    return net.add("Einsum", values, shape, equation=equation)


# --- shapes and movement
def movement(net, x):
    kind = net.pick("transposes", "expand", "slices", "concat", "gather", "pad", "tile", "squeeze", "split", "halves")
    x = net.with_rank(x, max(x.rank, 2))
    if kind == "transposes":
        first, second = net.random.permutation(x.rank), net.random.permutation(x.rank)
        y = net.transpose(x, [int(i) for i in first])
        y = net.unary("Relu", y) if net.chance(0.3) else y
        return net.transpose(y, [int(i) for i in (np.argsort(first) if net.chance(0.5) else second)])
    if kind == "expand":
        shape = (net.size(4), *x.shape)
        wide = net.concat([net.integers([shape[0]]), net.add("Shape", [x], [x.rank], dtype=np.int64)], 0)
        y = net.add("Expand", [x, Value(wide.name, [len(shape)], np.int64)], shape)
        return net.binary("Add", y, net.operand(x.shape), True)
    axis = int(net.random.integers(x.rank))
    size = x.shape[axis]
    if kind == "slices":
        begin, end = (int(i) for i in sorted(net.random.integers(0, size + 1, 2)))
        return net.slice(net.unary(net.pick("Relu", "Neg"), x), axis, begin, net.pick(end, size, 2**62))
    if kind == "concat":
        return net.concat([x, net.operand(x.shape), x][: net.pick(2, 3)], axis)
    if kind == "gather":
        indices = net.random.integers(0, max(size, 1), net.pick((), (1,), (2, 2))) if size else np.zeros((0,))
        indices = net.constant(indices, np.int64) if net.chance(0.5) else net.input(np.asarray(indices, np.int64))
        return net.add("Gather", [x, indices], (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), axis=axis)
    if kind == "pad":
        pads = [int(i) for i in net.random.integers(0, 3, 2 * x.rank)]
        shape = [size + pads[i] + pads[i + x.rank] for i, size in enumerate(x.shape)]
        return net.add("Pad", [x, net.integers(pads), net.scalar(net.pick(0.0, 1.0))], shape)
    if kind == "tile":
        times = [net.pick(1, 1, 2) for _ in x.shape]
        return net.add("Tile", [x, net.integers(times)], [a * b for a, b in zip(x.shape, times)])
    if kind == "squeeze":
        y = net.add("Unsqueeze", [x, net.integers([axis])], (*x.shape[:axis], 1, *x.shape[axis:]))
        return net.add("Squeeze", [net.unary("Tanh", y), net.integers([axis])], x.shape)
    if kind == "split" and size >= 2:
        sizes = [1, size - 1]
        outputs = [((*x.shape[:axis], each, *x.shape[axis + 1 :]), np.float32) for each in sizes]
        a, b = net.add_multi("Split", [x, net.integers(sizes)], outputs, axis=axis)
        return net.concat([b, net.unary("Neg", a)], axis)
    half = net.add("Cast", [net.unary("Tanh", x)], x.shape, dtype=np.float16, to=10)  # what overflows need not
    half = net.binary("Mul", half, half)
    return net.add("Cast", [half], x.shape, dtype=np.float32, to=1)


def shape_arithmetic(net, x):
    """Sizes computed from the shape: a flattened tensor and back, positions, zeros of its shape."""
    x = net.with_rank(x, max(x.rank, 2))
    kind = net.pick("flatten", "positions", "zeros", "halve", "join")
    size = net.dimension(x, 0)
    if kind == "flatten":
        open_shape = net.concat([size, net.integers([-1])], 0)
        flat = net.add("Reshape", [x, open_shape], (x.shape[0], x.size // max(x.shape[0], 1)))
        shape = net.add("Shape", [x], [x.rank], dtype=np.int64)
        return net.add("Reshape", [net.unary("Relu", flat), shape], x.shape) if x.size else net.unary("Relu", x)
    if kind == "positions":
        last = net.add("Squeeze", [net.dimension(x, x.rank - 1), net.integers([0])], [])
        steps = [net.constant(0, np.int64), last, net.constant(1, np.int64)]
        positions = net.add("Range", steps, [x.shape[-1]], dtype=np.int64)
        positions = net.add("Cast", [positions], positions.shape, dtype=np.float32, to=1)
        return net.binary("Add", x, positions, True)
    if kind == "zeros":
        shape = net.add("Shape", [x], [x.rank], dtype=np.int64)
        zeros = net.add("ConstantOfShape", [shape], x.shape, dtype=np.float32)
        return net.binary(net.pick("Add", "Max"), x, zeros)
    if kind == "halve":
        half = net.add("Div", [size, net.integers([2])], [1])
        bounds = [x, net.integers([0]), half, net.integers([0])]
        return net.add("Slice", bounds, (x.shape[0] // 2, *x.shape[1:]))
    product = net.binary("Mul", size, net.dimension(x, 1))
    rest = [net.dimension(x, i) for i in range(2, x.rank)]
    shape = net.concat([product, *rest], 0) if rest else product
    return net.add("Reshape", [x, shape], (x.shape[0] * x.shape[1], *x.shape[2:]), allowzero=1)


PATTERNS = {
    "attention": (attention, 5),
    "layer normalization": (layer_normalization, 3),
    "written normalization": (written_normalization, 2),
    "softmax": (softmax, 3),
    "gelu": (gelu, 2),
    "activation": (activation, 3),
    "arithmetic": (arithmetic, 3),
    "rotary": (rotary, 2),
    "einsum": (einsum, 2),
    "movement": (movement, 3),
    "shape arithmetic": (shape_arithmetic, 3),
}
