"""Attention as models spell it out, for the net fuzzer: masks of every spelling, scales in every place, heads of every
layout."""

import numpy as np

from net_builder import LOWEST

NUMBERS = (-1e4, -65504.0, -1e9, LOWEST, -np.inf, -1.0, 0.0)


def masked_keys(net, shape):
    """Bool, true where a key is masked: rows with none, one, some and all of their keys."""
    mask = net.random.random(shape) < 0.4
    for row in mask.reshape(-1, shape[-1]) if mask.size else ():
        kind = net.pick("none", "one", "some", "all")
        if kind != "some":
            row[:] = kind == "all"
        if kind == "one":
            row[int(net.random.integers(len(row)))] = True
    return mask


def mask_shape(net, scores):
    """Broadcasts to the scores; mostly with an element for each key."""
    shape = [size if net.chance(0.5) else 1 for size in scores[:-1]] + [scores[-1]]
    return shape[int(net.random.integers(len(shape) - 1)) :] if net.chance(0.3) else shape


def condition(net, scores, causal=False):
    """True where a key is masked."""
    if causal:
        queries, keys = scores[-2:]
        triangle = np.arange(keys)[None, :] > np.arange(queries)[:, None] + int(net.random.integers(0, 2))
        return net.constant(triangle, np.bool_) if net.chance(0.7) else net.input(triangle)
    mask = masked_keys(net, mask_shape(net, scores))
    kind = net.pick("bool", "float", "integer", "comparison")
    if kind == "bool":
        return net.input(mask)
    if kind == "float":
        return net.add("Cast", [net.input(mask.astype(np.float32))], mask.shape, dtype=np.bool_, to=9)
    if kind == "integer":
        return net.add("Cast", [net.input(mask.astype(np.int64))], mask.shape, dtype=np.bool_, to=9)
    lengths = net.input(np.asarray(net.random.integers(0, scores[-1] + 1, (scores[0],) + (1,) * (len(scores) - 1))))
    positions = net.integers(np.arange(scores[-1]))
    return net.binary("GreaterOrEqual", positions, lengths, dtype=np.bool_)


def additive(net, scores, number):
    """Floats to add: 0 where a key counts, else the number."""
    kind = net.pick("input", "choice", "product", "difference", "bias")
    if kind == "bias":
        return net.operand(mask_shape(net, scores))
    if kind == "input":
        mask = masked_keys(net, mask_shape(net, scores))
        array = np.where(mask, np.float32(number), np.float32(0))
        return net.constant(array) if net.chance(0.3) else net.input(array)
    masked = condition(net, scores, net.chance(0.3))
    if kind == "choice":
        return net.where(masked, net.scalar(number), net.scalar(0.0))
    if kind == "product":
        return net.with_number("Mul", net.add("Cast", [masked], masked.shape, dtype=np.float32, to=1), number, True)
    kept = net.add("Not", [masked], masked.shape)
    kept = net.add("Cast", [kept], kept.shape, dtype=np.float32, to=1)
    return net.with_number("Mul", net.binary("Sub", net.scalar(1.0), kept), number, True)


def replaced(net, scores, number):
    """Where of the scores and a number, on either side."""
    masked = condition(net, scores.shape, net.chance(0.5))
    other = net.scalar(number, 1)
    if net.chance(0.5):
        return net.where(masked, other, scores)
    return net.where(net.add("Not", [masked], masked.shape), scores, other)


def mask_scores(net, scores):
    for _ in range(net.pick(0, 1, 1, 1, 2, 2, 3)):
        number = net.pick(*NUMBERS)
        if net.chance(0.5):
            scores = replaced(net, scores, number)
        else:
            scores = net.binary("Add", scores, additive(net, scores.shape, number), True)
    return scores


def scaled(net, x):
    """Times a power of two, which moves through products without rounding."""
    factor = net.pick(0.25, 0.5, 2.0, 16.0)
    if net.chance(0.5):
        return net.with_number("Mul", x, factor, True)
    return net.with_number("Div", x, 1 / factor)


def weights(net, scores):
    axis = -1 if net.chance(0.9) else scores.rank - 1
    result = net.add("Softmax", [scores], scores.shape, axis=axis)
    # Without odd numbers: 0 times a value that is NaN is NaN behind such a guard, and 0 in the operator.
    if not net.odd and net.chance(0.15):
        broken = net.add("IsNaN", [result], result.shape, dtype=np.bool_)
        result = net.where(broken, net.scalar(0.0), result)
    return result


def heads_of(net, x, heads):
    """[batch, length, heads * size] as [batch, heads, length, size]."""
    batch, length, width = x.shape
    return net.transpose(net.reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def repeated(net, x, times):
    """[batch, heads, length, size] with each head several times, as grouped queries have it."""
    batch, heads, length, size = x.shape
    apart = net.add("Unsqueeze", [x, net.integers([2])], (batch, heads, 1, length, size))
    shape = (batch, heads, times, length, size)
    wide = net.add("Expand", [apart, net.integers(shape)], shape)
    return net.reshape(wide, (batch, heads * times, length, size))


def operands(net, x):
    """Queries, keys and values of rank 2, 3 or 4, of which x is a part; and whether heads were taken apart."""
    kind = net.pick("plain", "plain", "packed", "packed", "grouped")
    scale = net.pick(1.0, 1.0, 6.0)
    keys = int(net.random.integers(33, 70)) if net.chance(0.05) else net.size(7)
    if kind == "plain":
        x = net.with_rank(x, net.pick(2, 3, 4))
        k = net.operand((*x.shape[:-2], keys, x.shape[-1]), scale)
        return x, k, net.operand((*k.shape[:-1], net.size())), False
    x = net.with_rank(x, 3)
    batch, length, _ = x.shape
    heads, size = net.pick(1, 2, 3), net.pick(1, 2, 4)
    wide = net.matmul(x, net.constant(net.plain((x.shape[-1], heads * size))))
    if kind == "packed":
        k, v = (heads_of(net, net.operand((batch, keys, heads * size), scale), heads) for _ in range(2))
        return heads_of(net, wide, heads), k, v, True
    times = net.pick(1, 2)
    q = heads_of(net, net.concat([wide] * times, 2), heads * times)
    k, v = (repeated(net, net.operand((batch, heads, keys, size), scale), times) for _ in range(2))
    return q, k, v, True


def attention(net, x):
    q, k, v, packed = operands(net, x)
    if net.chance(0.4):
        q = scaled(net, q)
    order = list(range(k.rank))
    order[-2:] = order[-1], order[-2]
    turned = net.transpose(k, order)
    if net.chance(0.2):
        turned = scaled(net, turned)
    scores = net.matmul(q, turned)
    if net.chance(0.5):
        scores = scaled(net, scores)
    if net.chance(0.08):
        scores = net.with_number("Mul", net.unary("Tanh", net.with_number("Div", scores, 4.0)), 4.0, True)
    scores = mask_scores(net, scores)
    probabilities = weights(net, scores)
    if net.chance(0.08):
        net.outputs.append(probabilities)
    y = net.matmul(probabilities, v)
    if packed and y.rank == 4 and net.chance(0.8):
        batch, heads, length, size = y.shape
        y = net.reshape(net.transpose(y, (0, 2, 1, 3)), (batch, length, heads * size))
    return y
