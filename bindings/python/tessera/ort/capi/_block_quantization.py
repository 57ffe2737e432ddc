"""Rounding of matrices in blocks, as onnxruntime.quantization.matmul_nbits_quantizer asks its extension module for.

A weight of `rows` by `columns` is cut into blocks of `block` rows of one column. A block of the symmetric kind has the
scale m / -2^(bits - 1), m being its element of the largest magnitude, and the zero point 2^(bits - 1); one of the other
kind has the range of its elements and of 0. Results are written to the arrays that the caller gives.
"""

from __future__ import annotations

from typing import Any

import numpy


def _packed(values: Any, bits: int) -> Any:
    """Elements of the last axis in bytes, the first one lowest."""
    per_byte = 8 // bits
    missing = -values.shape[-1] % per_byte
    padded = numpy.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])
    parts = padded.reshape(*values.shape[:-1], -1, per_byte).astype(numpy.uint8)
    result = numpy.zeros(parts.shape[:-1], numpy.uint8)
    for i in range(per_byte):
        result |= parts[..., i] << (bits * i)
    return result


def _rounded(bits: int, weight: Any, block: int, columns: int, rows: int, symmetric: bool) -> tuple[Any, Any, Any]:
    """Elements by column, block and place, scales and zero points by column and block."""
    most, half = (1 << bits) - 1, 1 << (bits - 1)
    blocks = -(-rows // block)
    lines = numpy.zeros((columns, blocks * block), numpy.float32)
    lines[:, :rows] = numpy.asarray(weight, numpy.float32).reshape(-1, columns)[:rows].T
    elements = lines.reshape(columns, blocks, block)
    least, largest = elements.min(2), elements.max(2)
    if symmetric:
        scale = numpy.where(abs(largest) > abs(least), largest, least) / numpy.float32(-half)
        zero = numpy.full(scale.shape, half, numpy.uint8)
    else:
        least, largest = numpy.minimum(least, 0), numpy.maximum(largest, 0)
        scale = (largest - least) / numpy.float32(most)
        with numpy.errstate(divide="ignore", invalid="ignore"):
            exact = numpy.where(scale != 0, -least / scale, 0)
        zero = numpy.floor(numpy.clip(exact, 0, most) + numpy.float32(0.5)).astype(numpy.uint8)
    with numpy.errstate(divide="ignore"):
        inverse = numpy.where(scale != 0, 1 / scale, 0).astype(numpy.float32)
    shifted = elements * inverse[..., None] + zero[..., None].astype(numpy.float32)
    rounded = numpy.clip(numpy.floor(shifted + numpy.float32(0.5)), 0, most).astype(numpy.uint8)
    return rounded, scale, zero


def _quantize(bits: int, packed: Any, weight: Any, scales: Any, zero_points: Any, *sizes: Any) -> None:
    rounded, scale, zero = _rounded(bits, weight, *sizes)
    packed[...] = _packed(rounded, bits).reshape(packed.shape)
    scales[...] = scale.reshape(scales.shape)
    if not sizes[-1]:
        zero_points[...] = _packed(zero, bits).reshape(zero_points.shape)


def quantize_matmul_2bits(
    packed: Any, weight: Any, scales: Any, zero_points: Any, block: int, columns: int, rows: int, symmetric: bool
) -> None:
    """Packed elements by column, block and byte; scales and packed zero points by column and block."""
    _quantize(2, packed, weight, scales, zero_points, block, columns, rows, symmetric)


def quantize_matmul_4bits(
    packed: Any, weight: Any, scales: Any, zero_points: Any, block: int, columns: int, rows: int, symmetric: bool
) -> None:
    """The same with 4 bits."""
    _quantize(4, packed, weight, scales, zero_points, block, columns, rows, symmetric)


def quantize_matmul_8bits(
    packed: Any, weight: Any, scales: Any, zero_points: Any, block: int, columns: int, rows: int, symmetric: bool
) -> None:
    """The same with 8 bits."""
    _quantize(8, packed, weight, scales, zero_points, block, columns, rows, symmetric)


def quantize_qdq_matmul_4bits(
    packed: Any, weight: Any, scales: Any, zero_points: Any, block: int, columns: int, rows: int, symmetric: bool
) -> bool:
    """Elements in the weight's own order, and scales and zero points by block and column, for DequantizeLinear.

    Elements are int4 where symmetric, else uint4. Returns whether they are signed.
    """
    rounded, scale, zero = _rounded(4, weight, block, columns, rows, symmetric)
    elements = rounded.reshape(columns, -1)[:, :rows].T.reshape(-1)
    if symmetric:
        elements = elements.astype(numpy.int16) - 8 & 15
    packed[...] = _packed(elements, 4).reshape(packed.shape)
    scales[...] = scale.T.reshape(scales.shape)
    if not symmetric:
        zero_points[...] = _packed(zero.T.reshape(-1), 4).reshape(zero_points.shape)
    return bool(symmetric)
