#!/usr/bin/env python3
"""Functions and modules under torch.compile(backend="tessera"), against PyTorch itself.

Usage: torch_compile.py [TESSERA]. The Python package is what is tried: PYTHONPATH names it. Each case calls a compiled
function with several arguments one after the other: other sizes, types, strides, views, conjugates. Results must agree
in type, shape and value; where PyTorch raises, so must we. Exit code 1 when anything differs.
"""
import logging
import sys
import warnings

import tessera  # noqa: F401  registers the backend
import torch
from torch import nn

warnings.filterwarnings("ignore")
logging.getLogger("torch").setLevel(logging.ERROR)
R = torch.randn
NET = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
Z = torch.complex(R(3, 8), R(3, 8))
SDPA = nn.functional.scaled_dot_product_attention


def twice(x):
    y = x + 1
    return y, y


# name: (function, its arguments call by call, whether sizes are dynamic)
CASES = {
    "batches, dynamic": (NET, [(R(b, 8),) for b in (2, 5, 1, 0, 33)], True),
    "batches, static at first": (NET, [(R(b, 8),) for b in (2, 5, 1, 7)], None),
    "complex to real": (lambda z: (z * z.conj()).real.sum(-1), [(Z,)], None),
    "complex result": (lambda z: z * 2j, [(Z,)], None),
    "conjugated input": (lambda z: torch.view_as_real(z.resolve_conj()).sum(), [(Z.conj(),)], None),
    "negated view": (NET, [(torch.imag(Z.conj()),)], None),
    "views as results": (lambda x: (x.T, x[1:], x.view(-1)), [(R(3, 4),)], None),
    "input as result": (lambda x: x, [(R(3),)], None),
    "a result twice": (twice, [(R(3),)], None),
    "strided inputs": (NET, [(R(8, 5).T,), (R(5, 16)[:, ::2],), (R(1, 8).expand(5, 8),)], None),
    "numbers as arguments": (lambda x, k: x * k + k, [(R(3), 2), (R(3), 3), (R(3), 2.5), (R(3), True)], None),
    "integers": (lambda x: x // 3 + x % 3 - (x >> 1), [(torch.arange(-7, 8),)], None),
    "float64": (lambda x: torch.softmax(x, -1).log(), [(R(3, 5, dtype=torch.double),)], None),
    "bfloat16": (lambda x: torch.relu(x) * 2, [(R(3, 5).bfloat16(),)], None),
    "float16": (lambda x: torch.relu(x) * 2, [(R(3, 5).half(),)], None),
    "written argument": (lambda x: x.add_(1), [(torch.zeros(3),)], None),
    "index_put": (lambda x, i: x.clone().index_put_((i,), torch.ones(())), [(R(5), torch.tensor([1, 3]))], None),
    "sizes that depend on data": (lambda x: x[x > 0], [(R(9),), (R(12),)], None),
    "item": (lambda x: x * x.sum().item(), [(R(3),)], None),
    "sort": (lambda x: torch.sort(x, descending=True), [(R(4, 6),)], None),
    "topk": (lambda x: x.topk(3), [(R(4, 6),)], None),
    "arg max, median": (lambda x: (x.argmax(), x.max(1), x.median(1)), [(R(4, 6),)], None),
    "variance": (lambda x: (x.var(1), x.std(), torch.var_mean(x, 0)[0]), [(R(4, 6),)], None),
    "cumsum, flip, roll": (lambda x: (x.cumsum(1), x.flip(0), x.roll(2, 1)), [(R(4, 6),)], None),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), [(R(n, 3, 4), R(n, n + 3, 4)) for n in (2, 3)], True),
    "concatenated sizes": (lambda a, b: torch.cat([a, b], 1).softmax(1),
                           [(R(s, t), R(s, u)) for s, t, u in ((2, 3, 4), (4, 3, 5), (3, 1, 1))], True),
    "a size as result": (lambda x: (x + x.shape[0], x.shape[0]), [(R(s, 2),) for s in (2, 5, 9)], True),
    "rfft": (lambda x: torch.fft.rfft(x).abs(), [(R(3, 16),)], None),
    "interpolation": (lambda x: nn.functional.interpolate(x, scale_factor=1.7, mode="bilinear"),
                      [(R(1, 2, 5, s),) for s in (5, 7, 9)], True),
    "adaptive pooling": (lambda x: nn.functional.adaptive_avg_pool2d(x, 3),
                         [(R(1, 2, s, s + 1),) for s in (7, 8, 2)], True),
    "convolution": (nn.Conv2d(2, 4, 3, stride=2, padding=1).eval(), [(R(1, 2, s, s + 1),) for s in (7, 8, 2)], True),
    "channels last": (nn.Conv2d(2, 4, 3).eval(), [(R(2, 2, 8, 8).to(memory_format=torch.channels_last),)], None),
    "LSTM": (nn.LSTM(4, 5, batch_first=True).eval(), [(R(b, t, 4),) for b, t in ((2, 3), (3, 5))], None),
    "attention": (lambda q, m: SDPA(q, q, q, m),
                  [(R(2, 4, s, 8), torch.ones(s, s).tril().bool()) for s in (5, 7)], True),
    "rounding and remainders": (lambda x: torch.round(x, decimals=1) + torch.fmod(x, 0.7) + torch.remainder(x, -0.7),
                                [(R(40),)], None),
    "booleans": (lambda x: (x > 0) & ~(x > 1) | (x < -1), [(R(9),)], None),
    "infinity and softmax": (lambda x: torch.where(x > 0, x, float("-inf")).softmax(-1), [(R(3, 4),)], None),
    "uint8 wraps": (lambda x: x + 250, [(torch.arange(10, dtype=torch.uint8),)], None),
    "integer division": (lambda x: (x / 2, torch.div(x, -2, rounding_mode="trunc")), [(torch.arange(-5, 5),)], None),
}


def flat(values):
    return [each for value in values for each in (flat(value) if isinstance(value, (tuple, list)) else [value])]


def outcome(function, arguments):
    """Its results in a list, or the exception."""
    try:
        result = function(*[each.clone() if torch.is_tensor(each) and not each.is_conj() and not each.is_neg() and
                            each.is_contiguous() else each for each in arguments])
    except Exception as error:  # whatever it raises is compared
        return error
    return flat([result])


def difference(expected, found):
    """What differs, or nothing."""
    if isinstance(expected, Exception) or isinstance(found, Exception):
        both = isinstance(expected, Exception) and isinstance(found, Exception)
        return None if both else f"expected {expected!r:.200}, found {found!r:.300}"
    if len(expected) != len(found):
        return f"{len(found)} results, expected {len(expected)}"
    for x, y in zip(expected, found):
        if not torch.is_tensor(x):
            if torch.is_tensor(y) or x != y:
                return f"{y}, expected {x}"
            continue
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return f"{y.dtype} {tuple(y.shape)}, expected {x.dtype} {tuple(x.shape)}"
        x, y = (each.resolve_conj().resolve_neg().to(torch.complex128) for each in (x, y))
        if not torch.allclose(x, y, 1e-4, 1e-4, equal_nan=True):
            return f"{y.flatten()[:4]}, expected {x.flatten()[:4]}"
    return None


def weights_that_change():
    """A compiled module computes with the weights that it has at the call."""
    layer = nn.Linear(3, 3)
    compiled, x = torch.compile(layer, backend="tessera"), R(2, 3)
    compiled(x)
    layer.weight.data.mul_(2)
    yield "weights scaled", compiled(x), layer(x)
    layer.weight = nn.Parameter(R(3, 3))
    yield "weights replaced", compiled(x), layer(x)


def main():
    torch.manual_seed(0)
    passed, failed = 0, 0
    with torch.no_grad():
        for name, (function, calls, dynamic) in CASES.items():
            torch._dynamo.reset()
            compiled = torch.compile(function, backend="tessera", dynamic=dynamic)
            for number, arguments in enumerate(calls):
                fault = difference(outcome(function, arguments), outcome(compiled, arguments))
                passed, failed = passed + (fault is None), failed + (fault is not None)
                if fault:
                    print(f"{name}, call {number}: {fault}", flush=True)
        torch._dynamo.reset()
        for name, found, expected in weights_that_change():
            good = torch.allclose(found, expected, atol=1e-5)
            passed, failed = passed + good, failed + (not good)
            if not good:
                print(f"{name}: {found}, expected {expected}")
    print(f"torch_compile: {passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
