#!/usr/bin/env python3
"""Forests, linear models and support-vector machines whose scores tie exactly, against onnxruntime: labels and scores.

Labels at ties show the precision and the order of every sum, and which class wins: onnxruntime on one thread is the
reference, because what converters write is checked with it. All nodes of a case read one input and stand in one model.
Left out: two classes that both have votes, where onnxruntime returns the number 1 whenever the second score is
positive, whatever the first is and the labels are.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FEATURES = 4
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
ELEMENT_TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}
POST_TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]


class Trees:
    """Random trees in the lists of TreeEnsembleClassifier and -Regressor; leaf(generator) -> [(id, weight)] are
    votes."""

    def __init__(self, generator, count, depth, leaf, modes):
        self.generator, self.leaf, self.modes = generator, leaf, modes
        self.nodes, self.votes = [], []
        for self.tree in range(count):
            self.next = 0
            self.grow(depth)

    def grow(self, depth):
        number, at = self.next, len(self.nodes)
        self.next += 1
        self.nodes.append(None)
        if depth == 0:
            self.votes += [(self.tree, number, identity, weight) for identity, weight in self.leaf(self.generator)]
            self.nodes[at] = (self.tree, number, 0, 0.0, "LEAF", 0, 0)
            return number
        split, feature = float(self.generator.integers(-4, 5)), int(self.generator.integers(FEATURES))
        mode = str(self.generator.choice(self.modes))
        yes, no = self.grow(depth - 1), self.grow(depth - 1)
        self.nodes[at] = (self.tree, number, feature, split, mode, yes, no)
        return number

    def attributes(self, vote):
        names = ["treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids"]
        result = {f"nodes_{name}": list(column) for name, column in zip(names, zip(*self.nodes))}
        for name, column in zip(["treeids", "nodeids", "ids", "weights"], zip(*self.votes)):
            result[f"{vote}_{name}"] = list(column)
        return result


def voting(classes, weight):
    """Leaves of fully grown trees: one class takes the whole weight of the tree."""
    return lambda generator: [(int(generator.integers(classes)), weight)]


def one_class(weight):
    """Leaves of a binary forest as converters write it: the weight of the second class alone, under number 0."""
    return lambda generator: [(0, weight if generator.integers(2) else 0.0)]


def signed(classes):
    return lambda generator: [(int(generator.integers(classes)), float(generator.integers(-2, 3)) / 10)]


def forest_nodes(generator):
    """(operator, attributes, outputs) of forests with many ties."""
    labels = {2: [3, 7], 3: [5, 1, 9], 5: [4, 3, 2, 1, 0]}
    for count in (1, 3, 7, 10, 20, 50, 100):
        for post in POST_TRANSFORMS:
            for leaf in (one_class(1 / count), signed(1)):
                for base in ([], [0.25]):
                    trees = Trees(generator, count, 3, leaf, MODES[:1])
                    yield "TreeEnsembleClassifier", trees.attributes("class") | {
                        "classlabels_int64s": labels[2], "post_transform": post, "base_values": base}, 2
            for classes in (3, 5):
                for leaf in (voting(classes, 1 / count), signed(classes)):
                    for base in ([], [0.1 * i for i in range(classes)]):
                        trees = Trees(generator, count, 2, leaf, MODES)
                        yield "TreeEnsembleClassifier", trees.attributes("class") | {
                            "classlabels_int64s": labels[classes], "post_transform": post, "base_values": base}, 2
        for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
            for targets in (1, 3):
                for base in ([], [0.1 * (i + 1) for i in range(targets)]):
                    # Of several targets each leaf speaks about all, as converters write it.
                    every = lambda g: [(i, float(g.integers(-3, 4)) / 10) for i in range(3)]
                    leaf = signed(1) if targets == 1 else every
                    trees = Trees(generator, count, 3, leaf, MODES)
                    yield "TreeEnsembleRegressor", trees.attributes("target") | {
                        "n_targets": targets, "aggregate_function": aggregate, "base_values": base}, 1


def ten_votes(voters):
    """Ten trees of one leaf, of weight 0.1 where the tree votes."""
    generator = iter(range(10))
    trees = Trees(np.random.default_rng(0), 10, 0, lambda _: [(0, 0.1 if next(generator) < voters else 0.0)], MODES)
    return "TreeEnsembleClassifier", trees.attributes("class") | {"classlabels_int64s": [0, 1]}, 2


def new_forest_nodes(generator, dtype):
    """TreeEnsemble of ai.onnx.ml 5: leaves in a list of their own, aggregation and modes as numbers."""
    for aggregate in range(4):
        for targets in (1, 3):
            for count in (1, 3, 10, 20):
                splits, features, modes, children = [], [], [], []
                weights = (generator.integers(-3, 4, 4 * count) / 10).astype(dtype)
                for tree in range(count):
                    for yes, no, leaf in ((1, 2, 0), (0, 1, 1), (2, 3, 1)):
                        splits.append(float(generator.integers(-4, 5)))
                        features.append(int(generator.integers(FEATURES)))
                        modes.append(int(generator.integers(6)))
                        start = 4 * tree if leaf else 3 * tree
                        children.append((start + yes, start + no, leaf))
                yes, no, leaves = (list(column) for column in zip(*children))
                yield "TreeEnsemble", {
                    "aggregate_function": aggregate, "n_targets": targets, "post_transform": 0,
                    "tree_roots": [3 * tree for tree in range(count)], "nodes_featureids": features,
                    "nodes_splits": numpy_helper.from_array(np.array(splits, dtype)),
                    "nodes_modes": numpy_helper.from_array(np.array(modes, np.uint8)),
                    "nodes_truenodeids": yes, "nodes_trueleafs": leaves,
                    "nodes_falsenodeids": no, "nodes_falseleafs": leaves,
                    "leaf_targetids": [int(target) for target in generator.integers(targets, size=4 * count)],
                    "leaf_weights": numpy_helper.from_array(weights)}, 1


def linear_nodes(generator):
    for post in ("NONE", "SOFTMAX", "LOGISTIC"):
        for classes in (2, 3):
            coefficients = generator.integers(-1, 2, (classes, FEATURES)).astype(float)
            if classes == 2:
                coefficients[0] = -coefficients[1]
            yield "LinearClassifier", {
                "coefficients": coefficients.ravel().tolist(), "intercepts": [0.0] * classes, "post_transform": post,
                "classlabels_ints": [3, 7, 5][:classes], "multi_class": 1}, 2
        yield "LinearClassifier", {
            "coefficients": generator.integers(-1, 2, FEATURES).astype(float).tolist(), "intercepts": [0.0],
            "post_transform": post, "classlabels_ints": [3, 7]}, 2
        for kernel in ("LINEAR", "POLY", "RBF"):
            for classes in (2, 3):
                vectors = generator.integers(-2, 3, (2 * classes, FEATURES)).astype(float)
                yield "SVMClassifier", {
                    "coefficients": generator.choice([-0.5, 0.5], 2 * classes * (classes - 1)).tolist(),
                    "support_vectors": vectors.ravel().tolist(), "vectors_per_class": [2] * classes,
                    "kernel_type": kernel, "kernel_params": [0.5, 0.0,
                                                             2.0], "rho": [0.0] * (classes * (classes - 1) // 2),
                    "classlabels_ints": [3, 7, 5][:classes], "post_transform": post
                }, 2


def model_of(nodes, dtype, version):
    protos, outputs = [], []
    for i, (operator, attributes, count) in enumerate(nodes):
        names = [f"{operator}_{i}_{j}" for j in range(count)]
        attributes = {name: value for name, value in attributes.items() if value != []}
        protos.append(helper.make_node(operator, ["x"], names, domain="ai.onnx.ml", **attributes))
        score = ELEMENT_TYPES[dtype] if operator == "TreeEnsemble" else TensorProto.FLOAT
        types = [TensorProto.INT64, TensorProto.FLOAT] if count == 2 else [score]
        outputs += [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, types)]
    inputs = [helper.make_tensor_value_info("x", ELEMENT_TYPES[dtype], ["rows", FEATURES])]
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(helper.make_graph(protos, "ties", inputs, outputs), opset_imports=opsets, ir_version=9)


def onnxruntime_of(path, x):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # with more, sums depend on how trees are shared out
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"x": x})))


def differences(expected, found):
    for name, want in expected.items():
        got = found[name]
        # SOFTMAX_ZERO of scores that are all (nearly) 0 divides by 0 in onnxruntime.
        alike = np.isclose(got, want, 1e-5, 1e-6) | ~np.isfinite(want) if want.dtype.kind == "f" else got == want
        rows = np.nonzero(~alike.reshape(len(want), -1).all(1))[0]
        if len(rows) > 0:
            row = rows[0]
            yield f"{name}: {len(rows)} of {len(want)} rows differ, row {row}: {got[row]}, expected {want[row]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True)
    parser.add_argument("--seed", type=int, default=24)
    arguments = parser.parse_args()
    generator = np.random.default_rng(arguments.seed)
    cases = [(f"forests of {dtype}", list(forest_nodes(generator)), dtype, 3) for dtype in ELEMENT_TYPES]
    # onnxruntime has no regressors of integers.
    cases[-1] = (cases[-1][0], [node for node in cases[-1][1] if node[0] != "TreeEnsembleRegressor"], *cases[-1][2:])
    cases.append(("ten votes", [ten_votes(voters) for voters in range(11)], "float32", 3))
    for dtype in ("float32", "float64"):
        cases.append((f"TreeEnsemble of {dtype}", list(new_forest_nodes(generator, dtype)), dtype, 5))
    cases.append(("linear models", list(linear_nodes(generator)), "float32", 3))
    wrong = []
    with tempfile.TemporaryDirectory(prefix="tessera-ties-") as folder:
        path, given, made = (pathlib.Path(folder) / name for name in ("ties.onnx", "in.npz", "out.npz"))
        for title, nodes, dtype, version in cases:
            onnx.save(model_of(nodes, dtype, version), path)
            x = generator.integers(-5, 6, (101, FEATURES)).astype(dtype)
            np.savez(given, x=x)
            expected = onnxruntime_of(path, x)
            for device in ("cpu", "reference"):
                subprocess.run(
                    [arguments.tessera, "run", path, "--inputs", given, "--outputs", made, "--device", device],
                    check=True, stdout=subprocess.DEVNULL)
                with np.load(made) as found:
                    wrong += [f"{title} on {device}: {line}" for line in differences(expected, found)]
            print(f"{title}: {len(nodes)} nodes")
    print(*wrong, sep="\n")
    print(f"seed {arguments.seed}: {len(wrong)} outputs differ from onnxruntime {onnxruntime.__version__}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
