#!/usr/bin/env python3
"""Exports many kinds of PyTorch modules with both exporters and compares Tessera with onnxruntime on them.

    torch_exports.py TESSERA [--kinds lstm gru] [--opsets 11 17] [--exporters torchscript dynamo]

Each module is exported with a dynamic first axis at the operator sets that the exporter supports (others it refuses,
which says nothing about us), run with three sizes, and once more as `tessera optimize -o out.onnx` writes it.
"""

import argparse
import contextlib
import io
import logging
import sys
import warnings

import numpy as np
import torch

from common import Reference, Tries, check_model
from torch_modules import MODULES

SIZES = [2, 1, 5]


def export(module, inputs, path, opset, exporter):
    dynamic = {"x": {0: "n"}}
    quiet = io.StringIO()  # exporters talk much
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "torchscript":
            torch.onnx.export(
                module, inputs, path, input_names=["x"], dynamic_axes=dynamic, opset_version=opset, dynamo=False
            )
            return
        program = None
        with contextlib.suppress(Exception):  # what specialises the axis is exported with its size fixed
            program = torch.onnx.export(
                module,
                inputs,
                dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
                input_names=["x"],
                opset_version=opset,
                dynamo=True,
                verbose=False,
            )
        if program is None:
            program = torch.onnx.export(
                module, inputs, input_names=["x"], opset_version=opset, dynamo=True, verbose=False
            )
        program.save(path)


def feeds_of(inputs_of, session_sizes):
    feeds = []
    for size in session_sizes:
        torch.manual_seed(size)
        feeds.append({"x": inputs_of(size)[0].numpy()})
    return feeds


def check(tries, reference, arguments, kind, opset, exporter):
    make, inputs_of = MODULES[kind]
    torch.manual_seed(7)
    module = make().eval()
    path = tries.path("model.onnx")
    try:
        export(module, inputs_of(SIZES[0]), path, opset, exporter)
    except Exception as error:
        tries.skipped += 1
        if arguments.verbose:
            print(f"no export of {kind} at {opset} by {exporter}: {str(error)[:150]}", flush=True)
        return
    fixed = not torch_axis_is_free(path)
    feeds = feeds_of(inputs_of, SIZES[:1] if fixed else SIZES)
    check_model(
        tries,
        reference,
        arguments.tessera,
        f"{kind} opset {opset} {exporter}",
        path,
        feeds,
        written=not arguments.no_written,
    )


def torch_axis_is_free(path):
    import onnx

    dims = onnx.load(path, load_external_data=False).graph.input[0].type.tensor_type.shape.dim
    return bool(dims) and not dims[0].HasField("dim_value")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    parser.add_argument("--kinds", nargs="*", default=list(MODULES))
    parser.add_argument("--opsets", nargs="*", type=int, default=list(range(9, 24)))
    parser.add_argument("--exporters", nargs="*", default=["torchscript", "dynamo"])
    parser.add_argument("--no-written", action="store_true", help="do not check what optimize writes")
    parser.add_argument("--verbose", action="store_true", help="say which exports PyTorch refuses")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    np.random.seed(3)
    tries, reference = Tries("torch"), Reference()
    for exporter in arguments.exporters:
        for opset in arguments.opsets:
            # The dynamo exporter builds for 18 and later; older ones come out of a converter that mostly refuses.
            if exporter == "torchscript" and opset > 20 or exporter == "dynamo" and opset < 18:
                continue
            for kind in arguments.kinds:
                check(tries, reference, arguments, kind, opset, exporter)
    reference.close()
    return tries.finish()


if __name__ == "__main__":
    sys.exit(main())
