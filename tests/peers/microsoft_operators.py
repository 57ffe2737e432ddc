#!/usr/bin/env python3
"""Compares the quantised and fused operators of domain com.microsoft with onnxruntime, over random shapes, attributes and optional inputs."""

import numpy as np

import one_node
from one_node import Case


def random_floats(generator, *shape):
    return generator.normal(0, 1, shape).astype(np.float32)


def range_cases(generator):
    for start, limit, step in [(1, 20, 3), (9, -2, -4), (0, 5, None)]:
        for dtype in [np.float32, np.int64, np.int32]:
            yield Case("com.microsoft::Range", [None if value is None else np.array(value, dtype) for value in (start, limit, step)], outputs=[dtype])


def trilu_cases(generator):
    for shape, k, upper in [((4, 5), None, 1), ((2, 4, 3), 1, 0), ((3, 3), -2, 1)]:
        for dtype in [np.float32, np.float64, np.int64]:
            x = random_floats(generator, *shape).astype(dtype)
            yield Case("com.microsoft::Trilu", [x, None if k is None else np.array(k)], {"upper": upper}, outputs=[dtype])


def cases(generator):
    for make in [range_cases, trilu_cases]:
        yield from make(generator)


if __name__ == "__main__":
    one_node.main(cases, __doc__)
