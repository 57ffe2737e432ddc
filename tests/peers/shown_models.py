#!/usr/bin/env python3
"""What `tessera info --json` shows of a model against the onnx package, which reads the same file."""

import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

MODELS = pathlib.Path(__file__).resolve().parents[2] / ".models"


def attribute_value(attribute):
    """As info shows it; None for what is compared elsewhere or not at all."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(each, (int, float)) for each in value):
        return list(value)
    return None


def full_name(node):
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def check_tensor(shown, tensor, where):
    values = numpy_helper.to_array(tensor)
    assert shown["shape"] == list(values.shape), where
    if values.dtype.kind not in "fiub" or values.size == 0:
        return 0
    values = values.astype(np.float64)
    if not np.isfinite(values).any():
        assert shown["statistics"] is None, where
        return 1
    expected = {
        "min": values.min(), "max": values.max(), "mean": values.mean(), "std": values.std(),
        "zeros": np.mean(values == 0)
    }
    for figure, value in expected.items():
        scale = max(abs(values.min()), abs(values.max()), 1e-30)
        assert abs(shown["statistics"][figure] - value) <= 1e-9 * scale + 1e-12, (where, figure,
                                                                                  shown["statistics"][figure], value)
    return 1


def check_graph(shown, graph):
    """Returns how many nodes and weights were compared."""
    assert len(shown["nodes"]) == len(graph.node), (len(shown["nodes"]), len(graph.node))
    nodes, weights = 0, 0
    for mine, node in zip(shown["nodes"], graph.node):
        assert mine["op"] == full_name(node) and mine["name"] == node.name, (mine, node)
        assert [each["name"] for each in mine["inputs"]] == list(node.input), node.name
        assert [each["name"] for each in mine["outputs"]] == list(node.output), node.name
        assert set(mine["attributes"]) == {attribute.name for attribute in node.attribute}, node.name
        nodes += 1
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                inner = check_graph(mine["attributes"][attribute.name]["graph"], attribute.g)
                nodes, weights = nodes + inner[0], weights + inner[1]
            elif attribute.type == onnx.AttributeProto.TENSOR:
                weights += check_tensor(mine["attributes"][attribute.name], attribute.t, (node.name, attribute.name))
            elif (value := attribute_value(attribute)) is not None:
                assert mine["attributes"][attribute.name] == value, (node.name, attribute.name, value)
    assert [each["name"] for each in shown["weights"]] == [each.name for each in graph.initializer]
    for mine, tensor in zip(shown["weights"], graph.initializer):
        weights += check_tensor(mine, tensor, tensor.name)
    return nodes, weights


def check_metadata(shown, model):
    assert shown["opsets"] == {each.domain or "ai.onnx": each.version for each in model.opset_import}
    assert shown["properties"] == {each.key: each.value for each in model.metadata_props}
    for field in ("producer_name", "producer_version", "domain", "model_version", "doc_string", "ir_version"):
        assert shown[field] == getattr(model, field), (field, shown[field])
    assert shown["graph_name"] == model.graph.name


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True)
    tessera = parser.parse_args().tessera
    found = sorted(MODELS.glob("*/*.onnx"))
    if not found:
        print("no model has been fetched: scripts/fetch_models.py fetches them")
        return 77
    for path in found:
        done = subprocess.run([tessera, "info", str(path), "--json"], capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr.decode()
        shown, model = json.loads(done.stdout), onnx.load(path)
        nodes, weights = check_graph(shown["graph"], model.graph)
        check_metadata(shown["metadata"], model)
        print(
            f"{path.name}: {nodes} nodes, {weights} weights and constants, {len(model.metadata_props)} properties agree"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
