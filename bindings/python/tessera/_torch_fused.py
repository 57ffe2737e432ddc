"""Operators that PyTorch has for whole layers, in the form that its exporter writes well: the fast path of transformers
is spelt out, and LSTM and GRU become ONNX's, which PyTorch would unroll step by step."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any


def _attention(
    query: Any,
    key: Any,
    value: Any,
    embed_dim: int,
    num_head: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Any, Any]:
    """torch._native_multi_head_attention: query, key and value are [batch, length, embed_dim].

    `mask` is true where a key is left out: [queries, keys] (type 0), [batch, keys] (1) or [batch, heads, queries,
    keys] (2).
    """
    import torch  # type: ignore[import-not-found, unused-ignore]

    linear = torch.nn.functional.linear
    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)

    def heads(x: Any, i: int) -> Any:
        return linear(x, weights[i], biases[i]).unflatten(2, (num_head, embed_dim // num_head)).transpose(1, 2)

    q, k, v = heads(query, 0), heads(key, 1), heads(value, 2)
    scores = torch.matmul(q * (embed_dim // num_head) ** -0.5, k.transpose(2, 3))
    if mask is not None:
        left_out = mask.to(torch.bool)
        if mask_type == 1 and left_out.dim() == 2:
            left_out = left_out[:, None, None, :]
        scores = scores.masked_fill(left_out, float("-inf"))
    shares = torch.softmax(scores, -1)
    result = linear(torch.matmul(shares, v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return result, None
    return result, shares.mean(1) if average_attn_weights else shares


def _encoder_layer(
    src: Any,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    ffn_weight_1: Any,
    ffn_bias_1: Any,
    ffn_weight_2: Any,
    ffn_bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """torch._transformer_encoder_layer_fwd."""
    import torch

    functional = torch.nn.functional

    def first_norm(x: Any) -> Any:
        return functional.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x: Any) -> Any:
        return functional.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attend(x: Any) -> Any:
        qkv, projection = (qkv_weight, qkv_bias), (proj_weight, proj_bias)
        return _attention(x, x, x, embed_dim, num_heads, *qkv, *projection, mask, False, True, mask_type)[0]

    def feed_forward(x: Any) -> Any:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        active = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(active, ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attend(first_norm(src))
        return x + feed_forward(second_norm(x))
    x = first_norm(src + attend(src))
    return second_norm(x + feed_forward(x))


# The indices of PyTorch's gates (LSTM: i, f, g, o; GRU: r, z, n) in ONNX's order (i, o, f, c; z, r, h).
_LSTM_GATES = (0, 3, 1, 2)
_GRU_GATES = (1, 0, 2)


def _recurrent(
    op: str,
    order: tuple[int, ...],
    x: Any,
    states: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    """torch.lstm or torch.gru as ONNX's operator, one for each layer.

    `states` are [layers · directions, batch, hidden].
    """
    import torch

    directions = 2 if bidirectional else 1
    each = 4 if has_biases else 2  # parameters per direction
    hidden = states[0].shape[-1]

    def in_order(rows: Any) -> Any:
        gates = rows.chunk(len(order))
        return torch.cat([gates[i] for i in order])

    if batch_first:
        x = x.transpose(0, 1)
    length, batch = x.shape[0], x.shape[1]
    last: list[list[Any]] = [[] for _ in states]
    for layer in range(num_layers):
        first = layer * directions
        parts = [params[(first + d) * each : (first + d + 1) * each] for d in range(directions)]
        w, r = (torch.stack([in_order(part[i]) for part in parts]) for i in (0, 1))
        biases = [torch.cat([in_order(part[2]), in_order(part[3])]) for part in parts] if has_biases else []
        attributes: dict[str, Any] = {"hidden_size": hidden}
        if bidirectional:
            attributes["direction"] = "bidirectional"
        if op == "GRU":
            attributes["linear_before_reset"] = 1
        begin = [state[first : first + directions] for state in states]
        made = torch.onnx.ops.symbolic_multi_out(
            op,
            [x, w, r, torch.stack(biases) if biases else None, None, *begin],
            attributes,
            dtypes=[x.dtype] * (1 + len(states)),
            shapes=[(length, directions, batch, hidden), *[(directions, batch, hidden)] * len(states)],
            version=14,
        )
        x = made[0].transpose(1, 2).flatten(2)
        for ends, end in zip(last, made[1:]):
            ends.append(end)
        if train and dropout > 0 and layer + 1 < num_layers:
            x = torch.dropout(x, dropout, True)
    results = [torch.cat(ends) if len(ends) > 1 else ends[0] for ends in last]
    return (x.transpose(0, 1) if batch_first else x), *results


def _lstm(x: Any, hx: Any, params: Any, has_biases: Any, num_layers: Any, *more: Any) -> Any:
    import torch

    plain = isinstance(params, (list, tuple)) and isinstance(has_biases, bool)  # no packed sequences
    directions = 2 if plain and more[2] else 1
    if not plain or len(params) != num_layers * directions * (4 if has_biases else 2):  # differs with projections
        return torch.lstm(x, hx, params, has_biases, num_layers, *more)
    return _recurrent("LSTM", _LSTM_GATES, x, hx, params, has_biases, num_layers, *more)


def _gru(x: Any, hx: Any, params: Any, has_biases: Any, num_layers: Any, *more: Any) -> Any:
    import torch

    if not isinstance(params, (list, tuple)) or not isinstance(has_biases, bool):
        return torch.gru(x, hx, params, has_biases, num_layers, *more)
    return _recurrent("GRU", _GRU_GATES, x, [hx], params, has_biases, num_layers, *more)


def spell_out(torch: Any, graph: Any) -> Any:
    """The graph, or a copy in which operators for whole layers have their exportable form."""
    forms = {
        torch._transformer_encoder_layer_fwd: _encoder_layer,
        torch._native_multi_head_attention: _attention,
    }
    if hasattr(getattr(torch.onnx, "ops", None), "symbolic_multi_out"):  # since PyTorch 2.8
        forms |= {torch.lstm: _lstm, torch._VF.lstm: _lstm, torch.gru: _gru, torch._VF.gru: _gru}
    if not any(node.op == "call_function" and node.target in forms for node in graph.graph.nodes):
        return graph
    changed = copy.copy(graph)
    changed.graph = copy.deepcopy(graph.graph)
    for node in changed.graph.nodes:
        if node.op == "call_function" and node.target in forms:
            node.target = forms[node.target]
    changed.recompile()
    return changed
