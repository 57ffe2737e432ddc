#!/usr/bin/env python3
"""Compares the quantised and fused operators of domain com.microsoft with onnxruntime, over random shapes, attributes
and optional inputs."""
# Length: one short generator of cases an operator, in the order of the list of operators.

import itertools

import ml_dtypes
import numpy as np

import one_node
from one_node import Case, Constant
from saturation import peers_saturate

BYTES = [np.uint8, np.int8]
STEP = {"steps": 1}


def pick(generator, choices):
    return choices[generator.integers(len(choices))]


def flag(generator):
    return bool(generator.integers(2))


def shape(generator, rank=None, largest=7):
    rank = generator.integers(1, 5) if rank is None else rank
    return [int(size) for size in generator.integers(1, largest + 1, rank)]


def floats(generator, *dims, dtype=np.float32, scale=1.0):
    return generator.normal(0, scale, dims).astype(dtype)


def numbers(generator, dtype, *dims):
    if np.dtype(dtype).name in ("int4", "uint4", "int2", "uint2"):
        info = ml_dtypes.iinfo(dtype)
        return generator.integers(int(info.min), int(info.max) + 1, dims).astype(dtype)
    info = np.iinfo(dtype)
    return generator.integers(info.min, info.max + 1, dims).astype(dtype)


def scale(generator, *dims, low=0.01, high=0.1):
    return generator.uniform(low, high, dims).astype(np.float32)


def zero_point(generator, dtype, *dims):
    """Around the middle, so that results seldom saturate."""
    return (generator.integers(-20, 21, dims) + (128 if dtype == np.uint8 else 0)).astype(dtype)


def byte_weights(generator, dtype, *dims):
    """Signed ones have the range that onnxruntime multiplies exactly."""
    values = numbers(generator, dtype, *dims)
    return values >> 1 if dtype == np.int8 and peers_saturate() else values


def quantised(generator, dtype, *dims, single=(), optional=True, draw=numbers):
    """Tensor, scale and zero point; `single`: the shape of the latter two. The zero point is sometimes absent if it may
    be."""
    zero = None if optional and generator.random() < 0.2 else zero_point(generator, dtype, *single)
    return [draw(generator, dtype, *dims), scale(generator, *single), zero]


def broadcastable(generator, dims):
    """A shape that broadcasts with `dims`, sometimes shorter."""
    kept = dims[generator.integers(0, len(dims) + 1):] if generator.random() < 0.3 else dims
    return [1 if generator.random() < 0.25 else size for size in kept]


# --- element-wise
# -------------------------------------------------------------------------------------------------------


def q_linear_binary_cases(generator):
    for op, _ in itertools.product(["QLinearAdd", "QLinearMul"], range(24)):
        dtype, dims = pick(generator, BYTES), shape(generator)
        a, b = broadcastable(generator, dims), dims
        if flag(generator):
            a, b = b, a
        # onnxruntime's inference refuses an absent zero point that is not at the end.
        inputs = quantised(generator, dtype, *a, optional=False) + quantised(generator, dtype, *b, optional=False)
        inputs += [scale(generator) *
                   (10 if op == "QLinearMul" else 2)] + ([zero_point(generator, dtype)] if flag(generator) else [])
        yield Case(f"com.microsoft::{op}", inputs, outputs=[dtype], **STEP)


def q_linear_unary_cases(generator):
    for op, _ in itertools.product(["QLinearSigmoid", "QLinearLeakyRelu"], range(12)):
        dtype = pick(generator, BYTES)
        attributes = {"alpha": float(generator.uniform(0, 0.5))} if op == "QLinearLeakyRelu" and flag(generator) else {}
        result = np.float32(1 / 256 if op == "QLinearSigmoid" else generator.uniform(0.02, 0.1))
        inputs = quantised(generator, dtype, *shape(generator)) + [result, zero_point(generator, dtype)]
        yield Case(f"com.microsoft::{op}", inputs, attributes, [dtype], **STEP)


def q_linear_softmax_cases(generator):
    for opset, _ in itertools.product([11, 13], range(12)):
        dtype, dims = pick(generator, BYTES), [size + 1 for size in shape(generator)]
        attributes = {"opset": opset} if flag(generator) else {
            "opset": opset, "axis": int(generator.integers(-len(dims), len(dims)))
        }
        # onnxruntime rounds 1 / scale down to a whole number, and a sum of one term overflows.
        zero = np.array(0 if dtype == np.uint8 else -128, dtype)
        inputs = [
            numbers(generator, dtype, *dims),
            scale(generator),
            zero_point(generator, dtype),
            np.float32(1 / 128), zero
        ]
        yield Case("com.microsoft::QLinearSoftmax", inputs, attributes, [dtype], **STEP)


def q_linear_where_cases(generator):
    for _ in range(16):
        dtype, dims = pick(generator, BYTES), shape(generator)
        parts = [broadcastable(generator, dims), broadcastable(generator, dims), dims]
        generator.shuffle(parts)
        condition = generator.random(parts[0]) < 0.5
        inputs = quantised(generator, dtype, *parts[1], optional=False) + quantised(generator, dtype, *parts[2],
                                                                                    optional=False)
        yield Case("com.microsoft::QLinearWhere",
                   [condition] + inputs + [scale(generator), zero_point(generator, dtype)], outputs=[dtype], **STEP)


def q_linear_concat_cases(generator):
    for _ in range(16):
        dtype, dims = pick(generator, BYTES), shape(generator)
        axis = int(generator.integers(len(dims)))
        inputs = [scale(generator), zero_point(generator, dtype)]
        for _ in range(generator.integers(1, 5)):
            dims[axis] = int(generator.integers(1, 5))
            inputs += quantised(generator, dtype, *dims, optional=False)
        yield Case("com.microsoft::QLinearConcat", inputs, {"axis": axis if flag(generator) else axis - len(dims)},
                   [dtype], **STEP)


# --- windows
# --------------------------------------------------------------------------------------------------------------


def window_attributes(generator, spatial, kernel):
    attributes = {"kernel_shape": kernel}
    if flag(generator):
        attributes["strides"] = [int(step) for step in generator.integers(1, 3, spatial)]
    padding = generator.integers(3)
    if padding == 0:
        attributes["auto_pad"] = pick(generator, ["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif padding == 1:
        attributes["pads"] = [int(generator.integers(0, kernel[i % spatial])) for i in range(2 * spatial)]
    return attributes


def channels_at(dims, last):
    return [dims[0], *dims[2:], dims[1]] if last else dims


def q_linear_pool_cases(generator):
    for last, _ in itertools.product([0, 1], range(16)):
        dtype, spatial = pick(generator, BYTES), int(generator.integers(1, 4))
        dims = shape(generator, 2) + [int(size) for size in generator.integers(4, 9, spatial)]
        kernel = [int(size) for size in generator.integers(1, 4, spatial)]
        attributes = window_attributes(generator, spatial,
                                       kernel) | {"channels_last": last, "count_include_pad": int(flag(generator))}
        if "auto_pad" not in attributes:
            attributes["ceil_mode"] = int(flag(generator))
        inputs = quantised(generator, dtype, *channels_at(dims, last),
                           optional=False) + [scale(generator), zero_point(generator, dtype)]
        yield Case("com.microsoft::QLinearAveragePool", inputs, attributes, [dtype], **STEP)
        inputs = quantised(generator, dtype, *channels_at(dims, last),
                           optional=False) + [scale(generator), zero_point(generator, dtype)]
        yield Case("com.microsoft::QLinearGlobalAveragePool", inputs, {"channels_last": last}, [dtype], **STEP)


def convolution(generator, largest=9):
    """Shapes of data and weights, and attributes."""
    spatial, group = int(generator.integers(1, 4)), int(pick(generator, [1, 1, 2, 4]))
    channels, filters = group * int(generator.integers(1, 4)), group * int(generator.integers(1, 4))
    kernel = [int(size) for size in generator.integers(1, 4, spatial)]
    attributes = window_attributes(generator, spatial, kernel) | {"group": group}
    if flag(generator):
        del attributes["kernel_shape"]
    if "auto_pad" not in attributes and flag(generator):
        attributes["dilations"] = [int(step) for step in generator.integers(1, 3, spatial)]
    data = [int(generator.integers(1, 3)), channels] + [int(size) for size in generator.integers(6, largest, spatial)]
    return data, [filters, channels // group, *kernel], attributes


def q_linear_conv_cases(generator):
    for last, _ in itertools.product([0, 1], range(16)):
        data, weights, attributes = convolution(generator)
        x_type, w_type = pick(generator, [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
        x = quantised(generator, x_type, *channels_at(data, last), optional=False)
        per_channel = flag(generator)
        w = [
            Constant(byte_weights(generator, w_type, *weights)),
            Constant(scale(generator, *([weights[0]] if per_channel else []))),
            Constant(
                np.zeros([weights[0]] if per_channel else [], w_type) if w_type ==
                np.int8 else zero_point(generator, w_type))
        ]
        if w_type == np.uint8 and per_channel:
            w[2] = Constant(np.full(weights[0], w[2].value))
        bias = Constant(generator.integers(-5000, 5000, weights[0]).astype(np.int32)) if flag(generator) else None
        result = [scale(generator, low=1, high=3), zero_point(generator, x_type)]
        yield Case("com.microsoft::QLinearConv", x + w + result + [bias], attributes | {"channels_last": last},
                   [x_type], **STEP)


def fused_conv_cases(generator):
    activations = {"Relu": 0, "Tanh": 0, "Sigmoid": 0, "HardSwish": 0, "LeakyRelu": 1, "HardSigmoid": 2, "Clip": 2}
    for activation, has_sum in itertools.product(activations, [False, True]):
        data, weights, attributes = convolution(generator)
        inputs = [
            floats(generator, *data),
            floats(generator, *weights),
            floats(generator, weights[0]) if flag(generator) else None
        ]
        attributes["activation"] = activation
        if activations[activation]:
            attributes["activation_params"] = sorted(
                float(value) for value in generator.uniform(-0.3, 0.5, activations[activation]))
        if has_sum:
            plain = Case("Conv", inputs[:2],
                         {name: value for name, value in attributes.items() if not name.startswith("activation")})
            inputs.append(floats(generator, *one_node.run_onnxruntime(*one_node.build([plain], False))["out0_0"].shape))
        yield Case("com.microsoft::FusedConv", inputs, attributes)


def nhwc_max_pool_cases(generator):
    for _ in range(8):
        dtype, spatial = pick(generator, BYTES), int(generator.integers(1, 4))
        dims = shape(generator, 2) + [int(size) for size in generator.integers(4, 9, spatial)]
        attributes = window_attributes(generator, spatial, [int(size) for size in generator.integers(1, 4, spatial)])
        yield Case("com.microsoft::NhwcMaxPool", [numbers(generator, dtype, *channels_at(dims, True))], attributes,
                   [dtype])


# --- matrix products
# ------------------------------------------------------------------------------------------------------


def fused_matmul_cases(generator):
    for op, _ in itertools.product(["FusedMatMul", "TransposeMatMul"], range(16)):
        batch = shape(generator, generator.integers(0, 3), 3)
        m, k, n = shape(generator, 3)
        attributes = {name: int(flag(generator)) for name in ("transA", "transB")
                      } | ({"alpha": float(generator.normal())} if flag(generator) else {})
        a = batch + ([k, m] if attributes["transA"] else [m, k])
        b = (batch if flag(generator) else []) + ([n, k] if attributes["transB"] else [k, n])
        yield Case(f"com.microsoft::{op}", [floats(generator, *a), floats(generator, *b)], attributes)
    for attributes in [{"transBatchA": 1}, {"transBatchA": 1, "transA": 1}, {"transBatchB": 1},
                       {"transBatchA": 1, "transBatchB": 1, "transB": 1}]:
        a, b = [2, 3, 4, 5], [2, 3, 5, 6]
        for operand, dims in (("A", a), ("B", b)):
            if attributes.get(f"trans{operand}"):
                dims[2], dims[3] = dims[3], dims[2]
            if attributes.get(f"transBatch{operand}"):
                dims.insert(0, dims.pop(2))
        yield Case("com.microsoft::FusedMatMul",
                   [floats(generator, *a, dtype=np.float64),
                    floats(generator, *b, dtype=np.float64)], attributes, [np.float64])
    for a, b, attributes in [((3, ), (3, 4), {"transA": 1}), ((3, ), (4, 3), {"transB": 1}),
                             ((4, 3), (3, ), {"transB": 1}), ((3, ), (3, ), {"transA": 1})]:
        yield Case("com.microsoft::FusedMatMul", [floats(generator, *a), floats(generator, *b)], attributes)


def fused_gemm_cases(generator):
    activations = {
        "Relu": "", "Tanh": "", "Sigmoid": "", "Softplus": "", "Softsign": "", "LeakyRelu": "alpha", "Elu": "alpha",
        "Celu": "alpha", "ThresholdedRelu": "alpha", "HardSigmoid": "alpha beta", "Selu": "alpha gamma",
        "ScaledTanh": "alpha beta", "ParametricSoftplus": "alpha beta"
    }
    for activation, _ in itertools.product(activations, range(2)):
        m, k, n = shape(generator, 3)
        attributes = {
            "activation": activation, "transA": int(flag(generator)), "transB": int(flag(generator)),
            "alpha": float(generator.normal()), "beta": 0.5
        }
        attributes |= {
            f"activation_{name}": float(generator.uniform(0.1, 1)) for name in activations[activation].split()
        }
        a, b = [k, m] if attributes["transA"] else [m, k], [n, k] if attributes["transB"] else [k, n]
        c = floats(generator, *pick(generator, [(m, n), (n,), (m, 1), (1,), ()])) if flag(generator) else None
        yield Case("com.microsoft::FusedGemm", [floats(generator, *a), floats(generator, *b), c], attributes)


def operand_types(generator):
    return pick(generator, [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])


def q_gemm_cases(generator):
    for _ in range(32):
        m, k, n = shape(generator, 3, 40)
        a_type, b_type = operand_types(generator)
        attributes = {"transA": int(flag(generator)), "transB": int(flag(generator))
                      } | ({"alpha": float(generator.uniform(0.5, 2))} if flag(generator) else {})
        a, b = [k, m] if attributes["transA"] else [m, k], [n, k] if attributes["transB"] else [k, n]
        inputs = quantised(generator, a_type, *a, optional=False) + quantised(generator, b_type, *b, single=pick(
            generator, [(), (n, )]), optional=False, draw=byte_weights)
        inputs.append(
            generator.integers(-9999, 9999, pick(generator, [(m, n), (n, ), (m, 1), (
                1, ), ()])).astype(np.int32) if flag(generator) else None)
        if flag(generator):
            yield Case("com.microsoft::QGemm", inputs, attributes)
        else:
            yield Case("com.microsoft::QGemm", inputs +
                       [scale(generator, low=1, high=3), zero_point(generator, a_type)], attributes, [a_type], **STEP)


def matmul_integer_to_float_cases(generator):
    for _ in range(24):
        m, k, n = shape(generator, 3, 40)
        a_type, b_type = operand_types(generator)
        a, batch = pick(generator, [([m, k], []), ([2, 3, m, k], []), ([2, m, k], [2])])
        single = pick(generator, [(), (1,)] + ([(*batch, 1, n)] if batch else [(n,)]))
        inputs = [
            numbers(generator, a_type, *a),
            byte_weights(generator, b_type, *batch, k, n),
            scale(generator),
            scale(generator, *single),
            zero_point(generator, a_type) if flag(generator) else None,
            zero_point(generator, b_type, *single) if flag(generator) else None,
            floats(generator, n) if flag(generator) else None
        ]
        yield Case("com.microsoft::MatMulIntegerToFloat", inputs)


def dynamic_quantize_matmul_cases(generator):
    for _ in range(24):
        m, k, n = shape(generator, 3, 40)
        b_type = pick(generator, BYTES)
        a, batch = pick(generator, [([m, k], []), ([2, 3, m, k], []), ([2, m, k], [2])])
        single = pick(generator, [(), (1,)] + ([(*batch, 1, n)] if batch else [(n,)]))
        inputs = [
            floats(generator, *a),
            byte_weights(generator, b_type, *batch, k, n),
            scale(generator, *single),
            zero_point(generator, b_type, *single) if flag(generator) else None,
            floats(generator, n) if flag(generator) else None
        ]
        yield Case("com.microsoft::DynamicQuantizeMatMul",
                   [inputs[0]] + [None if value is None else Constant(value) for value in inputs[1:]])


def matmul_integer_16_cases(generator):
    for a, b in [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((4,), (4, 5)), ((3, 4), (4,))]:
        operands = [generator.integers(-3000, 3000, dims).astype(np.int16) for dims in (a, b)]
        yield Case("com.microsoft::MatMulInteger16", operands, outputs=[np.int32])


def dynamic_quantize_lstm_cases(generator):
    choices = [{}, {"direction": "reverse"}, {"direction": "bidirectional"}, {"clip": 0.6}, {"input_forget": 1}, {
        "activations": ["HardSigmoid", "Relu", "Softsign"], "activation_alpha": [0.3], "activation_beta": [0.4]
    }]
    for attributes, kind, by_row, lengths in itertools.product(choices, [np.int8, np.uint8], [False, True],
                                                               [False, True]):
        directions = 2 if attributes.get("direction") == "bidirectional" else 1
        length, batch, features, hidden = shape(generator, 4)
        rows = [directions, 4 * hidden] if by_row else [directions]
        # onnxruntime wants unsigned weights with one zero point.
        zeros = np.full(rows, zero_point(generator, kind)) if kind == np.uint8 else np.zeros(rows, kind)
        weights = [byte_weights(generator, kind, directions, size, 4 * hidden) for size in (features, hidden)]
        state = [directions, batch, hidden]
        inputs = [
            floats(generator, length, batch, features), *map(Constant, weights),
            floats(generator, directions, 8 * hidden) if flag(generator) else None,
            generator.integers(1, length + 1, batch).astype(np.int32) if lengths else None,
            *([floats(generator, *state), floats(generator, *state)] if flag(generator) else [None, None]),
            floats(generator, directions, 3 * hidden) if flag(generator) else None,
            *map(Constant, [
                scale(generator, *rows, low=0.002, high=0.01), zeros,
                scale(generator, *rows, low=0.002, high=0.01), zeros
            ])
        ]
        yield Case("com.microsoft::DynamicQuantizeLSTM", inputs, {"hidden_size": hidden} | attributes, [np.float32] * 3)


# --- weights in blocks
# ----------------------------------------------------------------------------------------------------


def packed(generator, *dims):
    return generator.integers(0, 256, dims).astype(np.uint8)


def matmul_n_bits_cases(generator):
    for bits, zeros, as_constant in itertools.product([2, 4, 8], ["none", "packed", "real"], [True, False]):
        for dtype in [np.float32, np.float16]:
            # onnxruntime has no kernel for these.
            if bits == 8 and zeros == "real" or bits == 2 and dtype == np.float16:
                continue
            block = int(pick(generator, [16, 32, 64, 128]))
            n, k = int(generator.integers(
                1, 40)), block * int(generator.integers(0, 4)) + int(pick(generator, [block, 8, block - 3]))
            blocks = -(-k // block)
            weights = [packed(generator, n, blocks, block * bits // 8), scale(generator, n, blocks).astype(dtype)]
            weights.append(None if zeros == "none" else packed(generator, n, -(-blocks * bits // 8)) if zeros ==
                           "packed" else generator.uniform(0, 2**bits, (n, blocks)).astype(dtype))
            # onnxruntime leaves packed zero points out of account where there is a g_idx.
            groups = generator.permutation(np.arange(k) // block).astype(
                np.int32) if bits == 4 and zeros != "packed" and flag(generator) else None
            bias = floats(generator, n, dtype=dtype) if flag(generator) else None
            if flag(generator) and groups is None:
                weights[1:] = [None if value is None else value.reshape(-1) for value in weights[1:]]
            inputs = weights + [groups, bias]
            if as_constant:
                inputs = [None if value is None else Constant(value) for value in inputs]
            a = floats(generator, *pick(generator, [(k,), (1, k), (3, k), (2, 3, k)]), dtype=dtype)
            half = {"relative": 2e-2, "absolute": 2e-2 * np.sqrt(k)} if dtype == np.float16 else {}
            yield Case("com.microsoft::MatMulNBits", [a] + inputs, {"K": k, "N": n, "bits": bits, "block_size": block},
                       [dtype], **half)


def gather_block_quantized_cases(generator):
    indices = [
        np.array(2),
        np.array([1, 0, -1]),
        np.array([[3], [-4]]),
        np.array([1, 9, -9, 0]),
        np.zeros((0, 2), np.int64)
    ]
    for name, with_zeros, dtype in itertools.product(["int4", "uint4"], [False, True], [np.float32, np.float16]):
        kind = getattr(ml_dtypes, name)
        for dims, gather, axis in [((5, 40), 0, 1), ((40, 5), 1, 0), ((40, 5), 0, 0), ((4, 6, 32), -3, 2),
                                   ((4, 6, 32), 1, -1), ((5, 33, 4), 0, 1)]:
            blocks = list(dims)
            blocks[axis] = -(-blocks[axis] // 16)
            inputs = [
                Constant(numbers(generator, kind, *dims)),
                pick(generator, indices),
                Constant(scale(generator, *blocks).astype(dtype)),
                Constant(numbers(generator, kind, *blocks)) if with_zeros else None
            ]
            yield Case("com.microsoft::GatherBlockQuantized", inputs,
                       {"block_size": 16, "gather_axis": gather, "quantize_axis": axis}, [dtype])
    for bits, with_zeros, columns in itertools.product([2, 4, 8], [False, True], [32, 40, 64]):
        blocks = -(-columns // 16)
        inputs = [
            packed(generator, 5, columns * bits // 8),
            pick(generator, indices).astype(np.int32),
            scale(generator, 5, blocks),
            packed(generator, 5, -(-blocks * bits // 8)) if with_zeros else None
        ]
        if flag(generator):
            inputs = [inputs[0], inputs[1]] + [None if value is None else Constant(value) for value in inputs[2:]]
        yield Case("com.microsoft::GatherBlockQuantized", inputs, {"block_size": 16, "bits": bits})
    for name, (blocks, block) in itertools.product(["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"], [((5, 2), 16),
                                                                                                       ((5, 1), 0),
                                                                                                       ((1, 1), 0),
                                                                                                       ((1, 2), 16)]):
        table = Constant(floats(generator, 5, 32).astype(getattr(ml_dtypes, name)))
        yield Case(
            "com.microsoft::GatherBlockQuantized",
            [table, pick(generator, indices), Constant(scale(generator, *blocks))], {"block_size": block})


# --- standard operators under another name
# ---------------------------------------------------------------------------------


def quantize_cases(generator):
    kinds = [np.uint8, np.int8, np.uint16, np.int16, ml_dtypes.int4, ml_dtypes.uint4]
    for kind, by_axis in itertools.product(kinds, [False, True]):
        dims = shape(generator, 3)
        axis = int(generator.integers(-3, 3))
        single = [dims[axis]] if by_axis else []
        attributes = {"axis": axis} if by_axis else {}
        zero = numbers(generator, kind, *single)
        # At most a step apart: the quotient may be rounded the other way.
        yield Case("com.microsoft::QuantizeLinear",
                   [floats(generator, *dims), scale(generator, *single), zero], attributes, [kind], **STEP)
        yield Case("com.microsoft::DequantizeLinear",
                   [numbers(generator, kind, *dims), scale(generator, *single), zero], attributes)
    yield Case("com.microsoft::QuantizeLinear", [floats(generator, 2, 3), scale(generator)], outputs=[np.uint8], **STEP)
    yield Case("com.microsoft::QuantizeLinear",
               [floats(generator, 2, 3, dtype=np.float16),
                np.float16(0.05), np.int8(3)], outputs=[np.int8], **STEP)
    yield Case("com.microsoft::DequantizeLinear",
               [generator.integers(-99, 99, (2, 3)).astype(np.int32),
                scale(generator)])
    yield Case("com.microsoft::DequantizeLinear",
               [numbers(generator, np.int8, 2, 3), np.float16(0.05)], outputs=[np.float16], relative=2e-3)


def range_cases(generator):
    for (start, limit, step), dtype in itertools.product([(1, 20, 3), (9, -2, -4), (0, 5, None)],
                                                         [np.float32, np.float64, np.int64, np.int32, np.int16]):
        yield Case("com.microsoft::Range",
                   [None if value is None else np.array(value, dtype) for value in (start, limit, step)],
                   outputs=[dtype])


def trilu_cases(generator):
    for (dims, k, upper), dtype in itertools.product([((4, 5), None, 1), ((2, 4, 3), 1, 0), ((3, 3), -2, 1)],
                                                     [np.float32, np.float64, np.int64]):
        yield Case("com.microsoft::Trilu", [floats(generator, *dims).astype(dtype), None if k is None else np.array(k)],
                   {"upper": upper}, outputs=[dtype])


def reshaping_cases(generator):
    for axis, wrap in itertools.product([0, 1, -1, 2, -3], [Constant, np.asarray]):
        yield Case("com.microsoft::ExpandDims", [floats(generator, 2, 3), wrap(np.array(axis, np.int32))])
    for mode, pads, value in itertools.product(["constant", "reflect", "edge", "wrap"],
                                               [[1, 0, 0, 2], [[1, 0, 2, 1]], [0, -1, 1, 2]], [None, 3.0, [3.0]]):
        if mode == "constant" or value is None and (min(np.ravel(pads)) >= 0 or mode == "edge"):
            inputs = [
                floats(generator, 4, 4),
                Constant(np.array(pads)), None if value is None else np.array(value, np.float32)
            ]
            yield Case("com.microsoft::Pad", inputs, {"mode": mode})
    for dims, dim, size, step in [((2, 7, 3), 1, 3, 2), ((6,), -1, 2, 1), ((4, 5), 0, 4, 3), ((3, 8), -1, 8, 1)]:
        yield Case("com.microsoft::UnfoldTensor", [floats(generator, *dims)], {"dim": dim, "size": size, "step": step})


def indexing_cases(generator):
    for dims in [(6,), (1,), (30,)]:
        yield Case("com.microsoft::Unique", [generator.integers(0, 7, dims).astype(np.float32)],
                   outputs=[np.float32, np.int64, np.int64])
    for indices, kind in itertools.product([[[1, 2], [0, -1]], [[1], [0]], [1, 2, 3]], [np.int32, np.int64]):
        yield Case("com.microsoft::GatherND", [floats(generator, 2, 3, 4), np.array(indices, kind)])
    for mode, padding, aligned in itertools.product(["bilinear", "nearest", "bicubic"],
                                                    ["zeros", "border", "reflection"], [0, 1]):
        if (mode, padding) == ("bicubic", "border"):
            continue  # onnxruntime departs from ONNX here: it does not clamp the place, only the pixels around it
        grid = generator.uniform(-1.2, 1.2, (2, 3, 4, 2)).astype(np.float32)
        yield Case("com.microsoft::GridSample", [floats(generator, 2, 3, 5, 4), grid],
                   {"mode": mode, "padding_mode": padding, "align_corners": aligned})


def linear_algebra_cases(generator):
    for metric, dtype in itertools.product(["euclidean", "sqeuclidean"], [np.float32, np.float64]):
        yield Case("com.microsoft::CDist", [floats(generator, 4, 6, dtype=dtype),
                                            floats(generator, 3, 6, dtype=dtype)], {"metric": metric}, [dtype])
    for dims, dtype in itertools.product([(3, 3), (2, 4, 4), (1, 1), (2, 3, 7, 7)],
                                         [np.float32, np.float64, np.float16]):
        x = (floats(generator, *dims) + 6 * np.eye(dims[-1])).astype(dtype)
        yield Case("com.microsoft::Inverse", [x], outputs=[dtype],
                   **({"relative": 1e-2, "absolute": 1e-2} if dtype == np.float16 else {}))


def conv_transpose_cases(generator):
    for attributes, pads, wrap in itertools.product(
        [{}, {"strides": [2, 2], "output_padding": [1, 0]}, {"dilations": [2, 1], "group": 2},
         {"auto_pad": "SAME_UPPER", "strides": [2, 3]}], [[1, 0, 1, 0], [0, 2, 1, 1]], [Constant, np.asarray]):
        inputs = [
            floats(generator, 2, 4, 5, 6),
            floats(generator, 4, 3, 3, 3),
            wrap(np.array(pads)),
            floats(generator, 3 * attributes.get("group", 1))
        ]
        yield Case("com.microsoft::ConvTransposeWithDynamicPads", inputs, attributes)


FAMILIES = [
    q_linear_binary_cases,
    q_linear_unary_cases,
    q_linear_softmax_cases,
    q_linear_where_cases,
    q_linear_concat_cases,
    q_linear_pool_cases,
    q_linear_conv_cases,
    fused_conv_cases,
    nhwc_max_pool_cases,
    fused_matmul_cases,
    fused_gemm_cases,
    q_gemm_cases,
    matmul_integer_to_float_cases,
    dynamic_quantize_matmul_cases,
    matmul_integer_16_cases,
    dynamic_quantize_lstm_cases,
    matmul_n_bits_cases,
    gather_block_quantized_cases,
    quantize_cases,
    range_cases,
    trilu_cases,
    reshaping_cases,
    indexing_cases,
    linear_algebra_cases,
    conv_transpose_cases,
]


def cases(generator):
    for make in FAMILIES:
        yield from make(generator)


if __name__ == "__main__":
    one_node.main(cases, __doc__)
