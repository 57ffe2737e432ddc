#!/usr/bin/env python3
"""Compares the transformer operators of domain com.microsoft with onnxruntime, over random shapes, attributes and
optional inputs."""
# Length: one short generator of cases an operator, in the order of the list of operators.

import itertools

import numpy as np

import one_node
from one_node import Case, Constant
from saturation import peers_saturate

F32 = np.float32
# A row that is masked throughout, as causality may leave it, keeps few digits in float32 with the default of -10000.
SMALL_FILTER = {"mask_filter_value": -3.5}


def floats(generator, *shape, dtype=F32):
    return generator.normal(0, 1, shape).astype(dtype)


def integers(*values):
    return np.array(values, np.int32)


def mask_of(generator, *shape):
    """Zeros and ones; every row counts one key at least."""
    mask = generator.integers(0, 2, shape).astype(np.int32)
    mask[..., generator.integers(shape[-1])] = 1
    return mask


def half(case):
    """The case in float16, with what that type can tell apart."""
    case.inputs = [
        value.astype(np.float16) if value is not None and value.dtype == F32 else value for value in case.inputs
    ]
    case.outputs = [np.float16 if dtype == F32 else dtype for dtype in case.outputs]
    case.relative, case.absolute, case.label = 2e-2, 1e-2, "half"
    return case


def activation_cases(generator):
    for shape in [(3,), (2, 5), (2, 3, 7), (1, 4, 2, 8)]:
        x, bias = floats(generator, *shape) * 3, floats(generator, shape[-1])
        yield Case("com.microsoft::Gelu", [x])
        yield Case("com.microsoft::BiasGelu", [x, bias])
        yield Case("com.microsoft::FastGelu", [x])
        yield Case("com.microsoft::FastGelu", [x, bias])
        yield Case("com.microsoft::QuickGelu", [x])
        yield Case("com.microsoft::QuickGelu", [x], {"alpha": 0.5})


def gate_cases(generator):
    for shape in [(8,), (2, 8), (2, 3, 8)]:
        x, y, gate = floats(generator, *shape), floats(generator, *shape), floats(generator, *shape[:-1], 1)
        yield Case("com.microsoft::GatedAdd", [x, y, gate])
        yield half(Case("com.microsoft::GatedAdd", [x, y, gate]))
        for attributes, scale in itertools.product([{}, {"alpha": 1.7}], [None, np.array(2.5, F32)]):
            yield Case("com.microsoft::ScaledSiLU", [x, scale], attributes)
        for activation, size in itertools.product(["silu", "swish", "sigmoid"], [2, 4, 8]):
            attributes = {"activation": activation, "epsilon": float(generator.uniform(1e-6, 0.1))}
            yield Case("com.microsoft::GatedRMSNorm", [x, floats(generator, size), y], attributes)
        for scale in [None, (8,), (2, 4), (4,)]:
            scale = None if scale is None else floats(generator, *scale)
            yield Case("com.microsoft::BranchwiseRMSNorm", [x, scale], {"num_branches": 2})
            yield Case("com.microsoft::BranchwiseRMSNorm", [x.reshape(*shape[:-1], 2, 4), scale], {"epsilon": 0.1})


def simplified_cases(generator):
    for shape, axis in [((2, 3, 8), None), ((2, 3, 8), 1), ((2, 3, 5), -2), ((4, 7), -1)]:
        attributes = {} if axis is None else {"axis": axis}
        scale_shape = shape[axis if axis is not None else -1:]
        x, scale = floats(generator, *shape), floats(generator, *scale_shape)
        yield Case("SimplifiedLayerNormalization", [x, scale], attributes)
        yield Case("SimplifiedLayerNormalization", [x, scale], {**attributes, "epsilon": 0.1}, [F32, F32])
    x, scale = floats(generator, 2, 3, 8), floats(generator, 8)
    yield Case("SimplifiedLayerNormalization", [x.astype(np.float64), scale.astype(np.float64)], outputs=[np.float64])
    yield half(Case("SimplifiedLayerNormalization", [x, scale]))


def skip_cases(generator):
    for shape, skip_shape in [((2, 3, 8), (2, 3, 8)), ((2, 3, 8), (1, 3, 8)), ((2, 3, 8), (3, 8)), ((5, 7), (5, 7)),
                              ((1, 1, 33), (1, 1, 33))]:
        asked = [[F32], [F32, None, None, F32], [F32, F32, F32, F32], [F32, None, F32]]
        for has_beta, has_bias, outputs in itertools.product([0, 1], [0, 1], asked):
            size = shape[-1]
            x, skip, gamma = floats(generator, *shape), floats(generator, *skip_shape), floats(generator, size)
            beta, bias = (floats(generator, size) if given else None for given in (has_beta, has_bias))
            yield Case("com.microsoft::SkipLayerNormalization", [x, skip, gamma, beta, bias], {"epsilon": 1e-5},
                       outputs)
            if not has_beta:
                yield Case("com.microsoft::SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], {"epsilon": 1e-5},
                           outputs)
    inputs, outputs = [floats(generator, *shape)
                       for shape in [(2, 3, 16), (2, 3, 16), (16, ), (16, ), (16, )]], [F32, None, None, F32]
    yield half(Case("com.microsoft::SkipLayerNormalization", inputs, {"epsilon": 1e-3}, outputs))
    yield half(Case("com.microsoft::SkipSimplifiedLayerNormalization", inputs[:4], {"epsilon": 1e-3}, outputs))


def embed_cases(generator):
    for batch, length, hidden in [(1, 1, 8), (2, 5, 6), (3, 4, 17)]:
        ids = generator.integers(0, 11, (batch, length)).astype(np.int32)
        segments = generator.integers(0, 2, (batch, length)).astype(np.int32)
        words, positions, kinds = floats(generator, 11, hidden), floats(generator, 9,
                                                                        hidden), floats(generator, 2, hidden)
        gamma, beta = floats(generator, hidden), floats(generator, hidden)
        mask = generator.integers(0, 3, (batch, length)).astype(np.int32)
        chosen = [
            None,
            generator.integers(0, 9, (1, length)).astype(np.int32),
            generator.integers(0, 9, (batch, length)).astype(np.int32)
        ]
        for has_segments, has_mask, position_ids, has_sum in itertools.product([0, 1], [0, 1], chosen, [0, 1]):
            inputs = [
                ids, segments if has_segments else None, words, positions, kinds if has_segments else None, gamma, beta,
                mask if has_mask else None, position_ids
            ]
            outputs = [F32, np.int32] + [F32] * has_sum
            yield Case("com.microsoft::EmbedLayerNormalization", inputs, {"epsilon": 1e-5}, outputs)


def quantised_embed_cases(generator):
    def table(*shape):
        return generator.integers(0, 256, shape).astype(np.uint8)

    def scale():
        return np.array(generator.uniform(0.01, 0.05), F32)

    for batch, length, hidden in [(1, 3, 8), (2, 5, 6)]:
        ids = generator.integers(0, 11, (batch, length)).astype(np.int32)
        segments = generator.integers(0, 2, (batch, length)).astype(np.int32)
        for has_segments, has_mask in itertools.product([0, 1], [0, 1]):
            mask = mask_of(generator, batch, length) if has_mask else None
            zeros = [np.array(zero, np.uint8) for zero in (120, 130, 110, 3, 128)]
            inputs = [
                ids, segments,
                table(11, hidden),
                table(9, hidden),
                table(2, hidden),
                table(hidden),
                table(hidden), mask, *[scale() for _ in range(5)], *zeros
            ]
            if not has_segments:
                inputs = [None if i in (1, 4, 10, 15) else value for i, value in enumerate(inputs)]
            yield Case("com.microsoft::QEmbedLayerNormalization", inputs, {"epsilon": 1e-5}, [F32, np.int32])


def rotary_cases(generator):
    for batch, length, heads, size, rotated in [(2, 3, 2, 8, 0), (1, 1, 3, 4, 0), (2, 5, 2, 16, 8), (3, 4, 1, 6, 0)]:
        columns = (rotated or size) // 2
        cosines, sines = floats(generator, 12, columns), floats(generator, 12, columns)
        positions = [generator.integers(0, 12, (batch, length)), np.array([12 - length]), np.array(2, np.int64)]
        for ids, interleaved, transposed, named in itertools.product(positions, [0, 1], [0, 1], [0, 1]):
            if rotated and not named:
                continue
            attributes = {"interleaved": interleaved}
            attributes |= ({"num_heads": heads} if named else {}) | ({"rotary_embedding_dim": rotated}
                                                                     if rotated else {})
            x = floats(generator, batch, heads, length, size) if transposed else floats(
                generator, batch, length, heads * size)
            yield Case("com.microsoft::RotaryEmbedding", [x, ids, cosines, sines], attributes)
    yield Case("com.microsoft::RotaryEmbedding", [x, positions[0], cosines, sines],
               {"scale": 2.0, "is_packed_batching": 0})
    yield half(Case("com.microsoft::RotaryEmbedding", [x, np.array([1]), cosines, sines]))


def streams_rotary_cases(generator):
    for sections, layout, interleaved, transposed in itertools.product([[2, 3, 3], [4, 2, 2], [8, 0, 0]], [0, 1],
                                                                       [0, 1], [0, 1]):
        batch, length, heads, columns = 2, 3, 2, 8
        for size, rotated in [(16, 0), (20, 16)]:
            x = floats(generator, batch, heads, length, size) if transposed else floats(
                generator, batch, length, heads * size)
            ids = generator.integers(0, 12, (3, batch, length))
            attributes = {
                "mrope_section": sections, "mrope_layout": layout, "interleaved": interleaved, "num_heads": heads
            }
            caches = [floats(generator, 12, columns) for _ in range(2)]
            yield Case("com.microsoft::MRotaryEmbedding", [x, ids, *caches],
                       {**attributes, "rotary_embedding_dim": rotated})


def masks_of(generator, batch, queries, past, fresh):
    """(label, mask) in every form that means something for self-attention."""
    total = past + fresh
    ends = generator.integers(1, total + 1, batch)
    starts = generator.integers(0, ends)
    yield "none", None
    yield "ends", ends.astype(np.int32)
    yield "ends and starts", np.concatenate([ends, starts]).astype(np.int32)
    yield "cumulated", np.concatenate([ends, generator.integers(0, 9, 2 * batch + 2)]).astype(np.int32)
    yield "keys", mask_of(generator, batch, total)
    yield "dummy", np.ones((1, 1), np.int32)
    yield "queries and keys", mask_of(generator, batch, queries, total)


def attention_cases(generator):
    for batch, length, hidden, heads, size in [(2, 3, 5, 2, 4), (1, 1, 8, 1, 3), (3, 4, 6, 3, 7)]:
        columns = heads * size
        x, weights, bias = floats(generator, batch, length,
                                  hidden), floats(generator, hidden, 3 * columns), floats(generator, 3 * columns)
        for (label, mask), unidirectional in itertools.product(masks_of(generator, batch, length, 0, length), [0, 1]):
            attributes = {
                "num_heads": heads, "unidirectional": unidirectional, **(SMALL_FILTER if unidirectional else {})
            }
            yield Case("com.microsoft::Attention", [x, weights, bias, mask], attributes, label=label)
            for shape in [(1, 1), (batch, 1), (1, heads), (batch, heads)]:
                inputs = [x, weights, bias, mask, None, floats(generator, *shape, length, length)]
                yield Case("com.microsoft::Attention", inputs, {**attributes, "scale": 0.3}, label=label)
        for past, unidirectional in itertools.product([0, 1, 6], [0, 1]):
            state = floats(generator, 2, batch, heads, past, size)
            for label, mask in masks_of(generator, batch, length, past, length):
                attributes = {"num_heads": heads, "unidirectional": unidirectional, **SMALL_FILTER}
                yield Case("com.microsoft::Attention", [x, Constant(weights), bias, mask, state], attributes,
                           [F32, F32], label=label)
        yield Case("com.microsoft::Attention", [x, weights, bias], {"num_heads": heads}, [F32, F32],
                   label="present without past")
        wide = floats(generator, hidden, 2 * columns + 2 * heads), floats(generator, 2 * columns + 2 * heads)
        sizes = [columns, columns, 2 * heads]
        yield Case("com.microsoft::Attention", [x, *wide], {"num_heads": heads, "qkv_hidden_sizes": sizes},
                   label="other values")
        nothing = np.zeros((batch, length), np.int32)
        yield Case("com.microsoft::Attention", [x, weights, bias, nothing], {"num_heads": heads, **SMALL_FILTER},
                   label="all masked")


def quantised_attention_cases(generator):
    for batch, length, hidden, heads, size in [(2, 3, 5, 2, 4), (1, 4, 8, 1, 3)]:
        columns = 3 * heads * size
        bias = floats(generator, columns)
        for signed, a_column, zeros, past, unidirectional in itertools.product([0, 1], [0, 1], [0, 1], [None, 0, 2],
                                                                               [0, 1]):
            dtype = np.int8 if signed else np.uint8
            x = generator.integers(0, 256, (batch, length, hidden)).astype(np.uint8)
            limit = 64 if peers_saturate() else 128
            weights = generator.integers(-limit if signed else 0, limit if signed else 256,
                                         (hidden, columns)).astype(dtype)
            scale = generator.uniform(0.01, 0.02, columns if a_column else ()).astype(F32)
            zero = generator.integers(-3 if signed else 120, 3 if signed else 130, columns if a_column else
                                      ()).astype(dtype)
            state = None if past is None else floats(generator, 2, batch, heads, past, size)
            mask = integers(*generator.integers(1, length + (past or 0) + 1, batch))
            inputs = [
                x, weights, bias,
                np.array(0.01, F32), scale, mask if unidirectional else None,
                np.array(127, np.uint8) if zeros else None, zero if zeros else None, state
            ]
            yield Case("com.microsoft::QAttention", inputs,
                       {"num_heads": heads, "unidirectional": unidirectional, **SMALL_FILTER},
                       [F32] if past is None else [F32, F32], relative=2e-3, absolute=1e-3)


def multi_head_cases(generator):
    op = "com.microsoft::MultiHeadAttention"
    all_outputs = [F32, F32, F32, F32]
    for batch, queries, fresh, heads, size, value_size in [(2, 3, 5, 2, 4, 4), (1, 1, 6, 3, 5, 5), (2, 4, 4, 1, 3, 7),
                                                           (3, 5, 2, 2, 9, 9)]:
        query, key = floats(generator, batch, queries, heads * size), floats(generator, batch, fresh, heads * size)
        value, bias = floats(generator, batch, fresh, heads * value_size), floats(generator,
                                                                                  heads * (2 * size + value_size))
        masks = [(label, mask) for label, mask in masks_of(generator, batch, queries, 0, fresh)
                 if label not in ("dummy", "ends and starts")]
        for (label, mask), unidirectional, has_bias in itertools.product(masks, [0, 1], [0, 1]):
            attributes = {
                "num_heads": heads, "unidirectional": unidirectional, **(SMALL_FILTER if unidirectional else {})
            }
            yield Case(op, [query, key, value, bias if has_bias else None, mask], attributes, label=label)
        for shape in [(1, 1), (batch, 1), (1, heads), (batch, heads)]:
            scores = floats(generator, *shape, queries, fresh)
            inputs = [query, key, value, None, mask_of(generator, batch, fresh), scores]
            yield Case(op, inputs, {"num_heads": heads, "scale": 0.3, **SMALL_FILTER}, all_outputs)
        yield Case(op, [query, key, value], {"num_heads": heads, "unidirectional": 1}, [F32, None, None, F32],
                   label="causal scores")
        if size == value_size:
            yield from past_cases(generator, op, batch, queries, fresh, heads, size, all_outputs)
            keys, values = floats(generator, batch, heads, fresh, size), floats(generator, batch, heads, fresh, size)
            for (label, mask), unidirectional, has_bias in itertools.product(masks, [0, 1], [0, 1]):
                inputs = [query, keys, values, bias if has_bias else None, mask]
                attributes = {"num_heads": heads, "unidirectional": unidirectional, **SMALL_FILTER}
                yield Case(op, inputs, attributes, all_outputs, label="cross, " + label)
    yield half(Case(op, [floats(generator, 2, length, 8) for length in (3, 4, 4)], {"num_heads": 2}))


def past_cases(generator, op, batch, queries, fresh, heads, size, all_outputs):
    hidden = heads * size
    for past, unidirectional in itertools.product([0, 1, 4], [0, 1]):
        total = past + fresh
        query, key, value = (floats(generator, batch, length, hidden) for length in (queries, fresh, fresh))
        past_key, past_value = floats(generator, batch, heads, past, size), floats(generator, batch, heads, past, size)
        scores = floats(generator, batch, 1, queries, total)
        for label, mask in masks_of(generator, batch, queries, past, fresh):
            if label in ("dummy", "ends and starts"):
                continue
            inputs = [query, key, value, None, mask, scores if unidirectional else None, past_key, past_value]
            yield Case(op, inputs, {"num_heads": heads, "unidirectional": unidirectional, **SMALL_FILTER}, all_outputs,
                       label="past, " + label)


def shared_buffer_cases(generator):
    for op, batch, heads, size, longest, held in itertools.product(
        ["com.microsoft::MultiHeadAttention", "com.microsoft::DecoderMaskedMultiHeadAttention"], [1, 4], [2], [4], [9],
        [0, 3, 8]):
        decoder = "Decoder" in op
        hidden, outputs = heads * size, [F32, F32, F32, F32]
        cache = [floats(generator, batch, heads, longest, size) for _ in range(2)]
        new = [floats(generator, batch, 1, hidden) for _ in range(3)]
        for has_mask, has_scores, has_bias, beams in itertools.product([0, 1], [0, 1], [0, 1], [0, 1, 2]):
            if beams == 2 and batch == 1:
                continue
            mask = mask_of(generator, batch, held + 1) if has_mask else None
            scores = floats(generator, 1, heads, 1, held + 1) if has_scores else None
            bias = floats(generator, 3 * hidden) if has_bias else None
            indirection = generator.integers(0, beams,
                                             (batch // beams, beams, longest)).astype(np.int32) if beams else None
            if decoder:
                inputs = [*new, mask, scores, *cache, integers(held), integers(beams or 1), indirection, bias]
                attributes = {"num_heads": heads, "past_present_share_buffer": 1, "output_qk": 1, **SMALL_FILTER}
            else:
                inputs = [*new, bias, mask, scores, *cache, integers(held), indirection]
                attributes = {"num_heads": heads, **SMALL_FILTER}
            yield Case(op, inputs, attributes, outputs, label=f"{held} held, {beams} beams")
    for held in (0, 4):
        new, cache = [floats(generator, 2, 3, 8) for _ in range(3)], [floats(generator, 2, 2, 7, 4) for _ in range(2)]
        inputs = [*new, None, None, None, *cache, integers(held)]
        yield Case("com.microsoft::MultiHeadAttention", inputs, {"num_heads": 2}, [F32] * 4, label="three at once")
    for has_mask, has_bias in itertools.product([0, 1], [0, 1]):
        query, keys, values = floats(generator, 2, 1, 8), floats(generator, 2, 2, 5, 4), floats(generator, 2, 2, 5, 4)
        inputs = [
            query, keys, values,
            mask_of(generator, 2, 5) if has_mask else None, *[None] * 6,
            floats(generator, 24) if has_bias else None
        ]
        attributes, outputs = {"num_heads": 2, "output_qk": 1}, [F32, None, None, F32]
        yield Case("com.microsoft::DecoderMaskedMultiHeadAttention", inputs, attributes, outputs, label="cross")


def grouped_case(generator, batch, queries, past, total, lengths, heads=4, kv_heads=2, size=16, packed=False,
                 fresh=None, rotate=0, has_positions=False, bias=None, sink=False, label="", **attributes):
    """One GroupQueryAttention; `lengths`: positions of each row in all."""
    fresh = queries if fresh is None else fresh
    hidden, kv_hidden = heads * size, kv_heads * size
    query = floats(generator, batch, queries, hidden + (2 * kv_hidden if packed else 0))
    key, value = (None, None) if packed else (floats(generator, batch, fresh, kv_hidden) for _ in range(2))
    states = [None, None] if past is None else [floats(generator, batch, kv_heads, past, size) for _ in range(2)]
    angles = generator.uniform(0, 6, (40, rotate // 2))
    caches = [np.cos(angles).astype(F32), np.sin(angles).astype(F32)] if rotate else [None, None]
    positions = generator.integers(0, 30, (batch, queries)) if has_positions else None
    inputs = [
        query, key, value, *states,
        integers(*lengths) - 1,
        np.array(total, np.int32), *caches, positions,
        None if bias is None else floats(generator, *bias, queries, total),
        floats(generator, heads) if sink else None
    ]
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads, **({"do_rotary": 1} if rotate else {}), **attributes}
    outputs = [F32, F32, F32] + [F32] * ("qk_output" in attributes)
    return Case("com.microsoft::GroupQueryAttention", inputs, attributes, outputs, label=label)


def grouped_cases(generator):
    # (queries, past, total, lengths): prompts with and without padding and in a longer buffer; single steps; several
    # positions at once
    situations = [(5, None, 5, [5, 5]), (5, 0, 5, [5, 3]), (5, 9, 5, [4, 5]), (1, 6, 7, [7, 4]), (1, 9, 7, [7, 2]),
                  (1, 12, 12, [12, 11]), (3, 5, 8, [8]), (3, 9, 8, [8])]
    for queries, past, total, lengths in situations:
        where = {"batch": len(lengths), "queries": queries, "past": past, "total": total, "lengths": lengths}
        batch = len(lengths)
        for packed in (False, True):
            yield grouped_case(generator, **where, packed=packed)
            for interleaved, has_positions in itertools.product([0, 1], [False, True]):
                yield grouped_case(generator, **where, packed=packed, rotate=16, has_positions=has_positions,
                                   rotary_interleaved=interleaved)
        yield grouped_case(generator, **where, rotate=16, size=32, label="partly rotated")
        yield grouped_case(generator, **where, heads=3, kv_heads=3, size=8, scale=0.3)
        yield grouped_case(generator, **where, heads=6, kv_heads=1, size=24)
        yield grouped_case(generator, **where, softcap=1.5)
        yield grouped_case(generator, **where, smooth_softmax=1)
        yield grouped_case(generator, **where, sink=True)
        yield grouped_case(generator, **where, causal=0)
        for window in (1, 2, 5, 100):
            yield grouped_case(generator, **where, local_window_size=window)
        for shape in [(1, 1), (batch, 1), (1, 4), (batch, 4)]:
            yield grouped_case(generator, **where, bias=shape)
        yield grouped_case(generator, **where, bias=(1, 4), softcap=2.0, sink=True)
        if len(set(lengths)) == 1:  # onnxruntime leaves what lies behind shorter rows as it is
            for shown, sink in itertools.product([1, 2], [False, True]):
                yield grouped_case(generator, **where, qk_output=shown, sink=sink, local_window_size=3, bias=(1, 1),
                                   softcap=2.0)
        yield half(grouped_case(generator, **where, rotate=16, bias=(1, 1)))
    for queries, past, total, lengths in [(2, 9, 7, [7]), (1, 9, 7, [7, 5]), (5, 9, 5, [4, 2])]:
        yield grouped_case(generator, len(lengths), queries, past, total, lengths, fresh=0, label="no new keys")
        yield grouped_case(generator, len(lengths), queries, past, total, lengths, fresh=0, rotate=16,
                           label="no new keys")


def coded_cache_cases(generator):
    """Caches of 8 and 4 bits. Where new keys lie at a tie their codes may be a step apart, which the seeded data
    avoids."""
    situations = [(5, 0, 5, [5, 5]), (5, 0, 5, [5, 3]), (1, 6, 7, [7, 4]), (1, 9, 7, [7, 2]), (3, 5, 8, [8])]
    for (queries, past, total, lengths), bits, kind in itertools.product(situations, [8, 4],
                                                                         ["PER_TENSOR", "PER_CHANNEL"]):
        case = grouped_case(generator, len(lengths), queries, past, total, lengths, k_quant_type=kind,
                            v_quant_type=kind, kv_cache_bit_width=bits, softcap=float(generator.integers(2)) * 3)
        batch, kv_heads, _, size = case.inputs[3].shape
        dtype = np.int8 if bits == 8 else np.uint8
        for i in (3, 4):
            case.inputs[i] = generator.integers(0, 256,
                                                (batch, kv_heads, past, size * bits // 8)).astype(np.uint8).view(dtype)
        shape = (1,) if kind == "PER_TENSOR" else (1, kv_heads, 1, size)
        case.inputs += [generator.uniform(0.01, 0.03, shape).astype(F32) * (256 >> bits) for _ in range(2)]
        case.outputs = [F32, dtype, dtype]
        yield case


def sliding_cache_cases(generator):
    """Steps that leave the buffer full, since onnxruntime leaves what lies behind the positions in use as it is."""
    steps = [(6, 4, 0, 6), (6, 4, 6, 3), (6, 4, 8, 1), (6, 4, 5, 4), (6, 4, 9, 3), (6, 6, 11, 1), (8, 3, 2, 6),
             (8, 3, 8, 6), (8, 3, 13, 1), (5, 5, 5, 3)]
    for (capacity, window, before, queries), rotate, has_bias in itertools.product(steps, [0, 16], [False, True]):
        total = before + queries
        yield grouped_case(generator, 1, queries, capacity, total, [total], rotate=rotate,
                           bias=(1, 4) if has_bias else None, local_window_size=window, sliding_window_cache=1,
                           label=f"{before} before")


def cases(generator):
    for make in [
            activation_cases, gate_cases, simplified_cases, skip_cases, embed_cases, quantised_embed_cases,
            rotary_cases, streams_rotary_cases, attention_cases, quantised_attention_cases, multi_head_cases,
            shared_buffer_cases, grouped_cases, coded_cache_cases, sliding_cache_cases
    ]:
        yield from make(generator)


if __name__ == "__main__":
    one_node.main(cases, __doc__)
