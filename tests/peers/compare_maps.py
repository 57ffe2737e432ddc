#!/usr/bin/env python3
"""Runs classifiers that end in ZipMap, as scikit-learn's exporter writes them, and models that take maps, through
onnxruntime and through `tessera run`, with .npz and .json files, and compares."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

ML = "ai.onnx.ml"


def model_of(nodes, inputs, outputs):
    graph = helper.make_graph(nodes, "maps", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                   helper.make_opsetid(ML, 3)], ir_version=8)


def map_type(key, value=TensorProto.FLOAT):
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))


def classifier(labels):
    """LinearClassifier with softmax, then ZipMap, over 4 features."""
    generator = np.random.default_rng(7)
    kind = "strings" if isinstance(labels[0], str) else "int64s"
    key, label_list = (TensorProto.STRING, "classlabels_strings") if kind == "strings" else (TensorProto.INT64,
                                                                                             "classlabels_ints")
    nodes = [
        helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain=ML,
                         coefficients=generator.normal(size=4 * len(labels)).tolist(),
                         intercepts=generator.normal(size=len(labels)).tolist(), post_transform="SOFTMAX",
                         **{label_list: labels}),
        helper.make_node("ZipMap", ["scores"], ["probabilities"], domain=ML, **{f"classlabels_{kind}": labels}),
    ]
    outputs = [helper.make_tensor_value_info("label", key, [None]),
               helper.make_value_info("probabilities", helper.make_sequence_type_proto(map_type(key)))]
    return model_of(nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4])], outputs)


def vectoriser(vocabulary):
    kind, key = ("string", TensorProto.STRING) if isinstance(vocabulary[0], str) else ("int64", TensorProto.INT64)
    nodes = [
        helper.make_node("DictVectorizer", ["x"], ["row"], domain=ML, **{f"{kind}_vocabulary": vocabulary}),
        helper.make_node("Scaler", ["row"], ["y"], domain=ML, offset=[0.5] * len(vocabulary),
                         scale=[2.0] * len(vocabulary))
    ]
    return model_of(nodes, [helper.make_value_info("x", map_type(key))],
                    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, len(vocabulary)])])


def cast_map(form, to, element_type):
    node = helper.make_node("CastMap", ["x"], ["y"], domain=ML, map_form=form, cast_to=to, max_map=9)
    return model_of([node], [helper.make_value_info("x", map_type(TensorProto.INT64))],
                    [helper.make_tensor_value_info("y", element_type, [1, None])])


class Runner:
    def __init__(self, tessera, folder):
        self.tessera, self.folder = tessera, pathlib.Path(folder)

    def peer(self, model, feed):
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return dict(zip([output.name for output in session.get_outputs()], session.run(None, feed)))

    def run(self, model, given, made):
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        subprocess.run([self.tessera, "run", path, "--inputs", self.folder / given, "--outputs", self.folder / made],
                       check=True, stdout=subprocess.DEVNULL)
        return self.folder / made


def check_classifier(runner, labels):
    model = classifier(labels)
    feed = {"x": np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)}
    wanted = runner.peer(model, feed)
    np.savez(runner.folder / "in.npz", **feed)

    with np.load(runner.run(model, "in.npz", "out.npz")) as made:
        assert list(made["label"]) == list(wanted["label"]), "labels differ"
        assert set(made["probabilities/keys"]) == set(labels)
        for row, probabilities in zip(made["probabilities/values"], wanted["probabilities"], strict=True):
            for key, value in zip(made["probabilities/keys"], row, strict=True):
                np.testing.assert_allclose(value, probabilities[key], rtol=1e-5, atol=1e-6)

    made = json.loads(runner.run(model, "in.npz", "out.json").read_text())
    for row, probabilities in zip(made["probabilities"], wanted["probabilities"], strict=True):
        assert row.keys() == {str(key) for key in probabilities}
        for key, value in probabilities.items():
            np.testing.assert_allclose(row[str(key)], value, rtol=1e-5, atol=1e-6)


def check_map_input(runner, model, given):
    wanted = runner.peer(model, {"x": given})["y"]
    (runner.folder / "in.json").write_text(json.dumps({"x": given}))
    np.savez(runner.folder / "in.npz",
             **{"x/keys": np.array(list(given)), "x/values": np.array(list(given.values()), np.float32)})
    for file in ("in.json", "in.npz"):
        with np.load(runner.run(model, file, "out.npz")) as made:
            assert made["y"].shape == wanted.shape, f"{made['y'].shape} instead of {wanted.shape}"
            np.testing.assert_array_equal(made["y"], wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tessera-maps-") as folder:
        runner = Runner(arguments.tessera, folder)
        check_classifier(runner, ["setosa", "versicolor", "virginica"])
        check_classifier(runner, [3, -1, 12])
        check_map_input(runner, vectoriser(["a", "c", "b", "z"]), {"c": 8.0, "a": 4.0, "other": 1.0})
        check_map_input(runner, vectoriser([5, 1]), {1: 2.5})
        for form in ("DENSE", "SPARSE"):
            check_map_input(runner, cast_map(form, "TO_FLOAT", TensorProto.FLOAT), {5: 4.5, 2: -1.5, 3: 0.1})
            check_map_input(runner, cast_map(form, "TO_INT64", TensorProto.INT64), {5: 4.5, 2: -1.5, 3: 0.1})
    print(f"maps agree with onnxruntime {onnxruntime.__version__}")


if __name__ == "__main__":
    sys.exit(main())
