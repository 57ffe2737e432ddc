#!/usr/bin/env python3
"""Compares com.microsoft::Tokenizer with onnxruntime, over random texts, separators and expressions."""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

CASES = 300
PIECES = ["a", "ab", "é", "日本", "X", "XX", " ", "  ", "\t", "\n", "1", "22", "-", ".", "", "ba", "😀"]
EXPRESSIONS = [" ", "X", "XX", "a", "ab|a", "[0-9]+", "[0-9]*", "\\s+", "b$", "^a", ".", "[.-]", "(a)(b)", "é|日", "x*",
               "\\bab", "\\w+", "(?i)x", "[^ ]+", "[^\\x00-\\x7F]"]


def make_case(random, number):
    """A node and its input."""
    shape = tuple(random.integers(1, 4, random.integers(1, 3)))
    texts = ["".join(random.choice(PIECES, random.integers(0, 8))) for _ in range(int(np.prod(shape)))]
    attributes = {"mark": int(random.integers(2)), "pad_value": str(random.choice(["", "#", "pad"])),
                  "mincharnum": int(random.choice([1, 1, 2, 3]))}
    kind = random.integers(5)
    if kind == 0:
        attributes |= {"separators": [""], "mincharnum": 1}
    elif kind < 3:
        attributes["tokenexp"] = str(random.choice(EXPRESSIONS))
        if attributes["tokenexp"] == ".":  # every character a token
            attributes["mincharnum"] = 1
    if kind in (2, 3, 4):
        attributes["separators"] = [str(each) for each in random.choice(EXPRESSIONS, random.integers(1, 4))]
    node = helper.make_node("Tokenizer", [f"x{number}"], [f"y{number}"], domain="com.microsoft", **attributes)
    return node, np.array(texts, dtype=object).reshape(shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", type=pathlib.Path, required=True, help="the program")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    nodes, arrays = zip(*[make_case(random, number) for number in range(CASES)])
    names = [f"x{number}" for number in range(CASES)]
    graph = helper.make_graph(
        nodes, "tokenizers",
        [helper.make_tensor_value_info(name, onnx.TensorProto.STRING, array.shape)
         for name, array in zip(names, arrays)],
        [helper.make_tensor_value_info(f"y{number}", onnx.TensorProto.STRING, None) for number in range(CASES)])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18),
                                                                   helper.make_opsetid("com.microsoft", 1)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, dict(zip(names, arrays)))
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "test_data_set_0"
        data.mkdir()
        onnx.save(model, pathlib.Path(folder) / "model.onnx")
        for kind, tensors in (("input", arrays), ("output", expected)):
            for number, tensor in enumerate(tensors):
                name = f"{'x' if kind == 'input' else 'y'}{number}"
                proto = numpy_helper.from_array(np.asarray(tensor, dtype=object), name)
                (data / f"{kind}_{number}.pb").write_bytes(proto.SerializeToString())
        done = subprocess.run([arguments.tessera, "check", folder], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout[-2000:], done.stderr[-2000:], f"seed {arguments.seed}")
        return 1
    tokens = sum(int((tensor != "").sum()) for tensor in expected)
    print(f"{CASES} nodes give the {tokens} tokens that onnxruntime gives")
    return 0


if __name__ == "__main__":
    sys.exit(main())
