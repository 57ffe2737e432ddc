#!/usr/bin/env python3
"""Compares the losses of nets as PyTorch's users write them, exported by both exporters, with PyTorch's own.

    scripts/setup.sh --tests && bench/train_parity.py --setup   # once: .venv-parity with the pinned torch
    bench/train_parity_nets.py                    # a table; exit status 1 if any pair differs too much
    bench/train_parity_nets.py --nets lstm,swin --exporters dynamo --steps 50

The nets (bench/peer_tools/torch_habits.py) are torchvision's small ones, recurrent nets with lengths, transformers,
normalisations without parameters, tied weights, frozen parts, buffers and tables of positions. The bounds are those of
bench/train_parity.py, whose code trains both sides; nets of torchvision are left out where that is not installed.
"""
import argparse
import os
import pathlib
import sys
import tempfile
import warnings

import train_parity
from built import ensure_built


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def words(text):
        return text.split(",")

    parser.add_argument("--tessera", type=pathlib.Path,
                        default=train_parity.ROOT / "build/release/apps/tessera/tessera",
                        help="the program (default: %(default)s)")
    parser.add_argument("--nets", type=words, help="names (default: all)")
    parser.add_argument("--exporters", type=words, default=["torchscript", "dynamo"], help="default: both")
    parser.add_argument("--optimiser", default="sgd", choices=list(train_parity.OPTIMISERS))
    parser.add_argument("--steps", type=int, default=50, help="default: %(default)s")
    parser.add_argument("--fixed-batch", action="store_true", help="export for one size of batches")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep models, data and logs there")
    return parser.parse_args()


def export(module, inputs, exporter, path, fixed):
    """In training mode by the older exporter, so that normalisations stay nodes of their own."""
    import torch
    import torch_habits
    names = ["x", "lengths"][:len(inputs)]
    dynamic = not fixed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "torchscript":
            torch.onnx.export(module.train(), inputs, path, dynamo=False, do_constant_folding=False,
                              training=torch.onnx.TrainingMode.TRAINING, input_names=names, output_names=["output"],
                              dynamic_axes={name: {0: "batch"} for name in [*names, "output"]} if dynamic else None)
        else:
            batch = torch.export.Dim("batch")
            shapes = tuple({0: batch} for _ in inputs)
            if isinstance(module, torch_habits.Function):  # whose forward takes any number of inputs
                shapes = (shapes, )
            torch.onnx.export(module.eval(), inputs, path, dynamo=True, optimize=False, input_names=names,
                              output_names=["output"], external_data=False, verbose=False,
                              dynamic_shapes=shapes if dynamic else None)


def make_samples(net, samples):
    import numpy as np
    x, y = train_parity.make_data(net.data[:2] if net.data[-1] == "lengths" else net.data, samples)
    if net.data[-1] != "lengths":
        return (x, ), y
    return (x, np.random.default_rng(3).integers(3, x.shape[1] + 1, samples)), y


def compare(arguments, name, net, exporter, folder):
    import numpy as np
    import torch
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(3)
    module = net.make()
    arrays, y = make_samples(net, arguments.steps * net.batch)
    inputs = tuple(torch.from_numpy(array[:net.batch if arguments.fixed_batch else 3]) for array in arrays)
    state = {key: value.clone() for key, value in module.state_dict().items()}
    export(module, inputs, exporter, folder / "model.onnx", arguments.fixed_batch)
    module.load_state_dict(state)  # exporting in training mode moves statistics
    module.train()
    np.savez(folder / "train.npz", y=y, **dict(zip(["x", "lengths"], arrays)))
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    theirs = train_parity.torch_losses(module, parameters, arguments.optimiser, arrays, y, net.batch, torch.float32)
    settings = argparse.Namespace(tessera=arguments.tessera, batch=net.batch, steps=arguments.steps)
    frozen = net.frozen.get(exporter, [])
    ours = train_parity.tessera_losses(settings, arguments.optimiser, folder, f"frozen = {frozen}" if frozen else "")
    return train_parity.judged(ours, theirs)


def main():
    arguments = parse()
    train_parity.enter_venv("train_parity_nets")
    sys.path.insert(0, str(train_parity.ROOT / "bench/peer_tools"))
    import torch
    import torch_habits
    ensure_built(arguments.tessera)
    torch.set_num_threads(min(2, os.cpu_count()))
    names = arguments.nets or list(torch_habits.NETS)
    bad = count = 0
    with tempfile.TemporaryDirectory() as temporary:
        base = (arguments.keep or pathlib.Path(temporary)).resolve()
        print(f"{'net':15} {'exporter':11} {'first loss':>10} {'last loss':>10} {'median':>9} {'largest':>9}")
        for name in names:
            net = torch_habits.NETS[name]
            for exporter in arguments.exporters:
                if exporter not in net.exporters:
                    continue
                count += 1
                try:
                    result = compare(arguments, name, net, exporter, base / f"{name}_{exporter}")
                except ModuleNotFoundError as error:
                    count -= 1
                    print(f"{name:15} {exporter:11} left out: {error}", flush=True)
                    continue
                except Exception as error:
                    bad += 1
                    lines = str(error).strip().splitlines() or [type(error).__name__]
                    told = next((line for line in lines if "error:" in line), lines[0])
                    print(f"{name:15} {exporter:11} fails: {told[:300]}", flush=True)
                    continue
                bad += not result["ok"]
                verdict = "" if result["ok"] else "  too much"
                print(f"{name:15} {exporter:11} {result['torch'][0]:10.4f} {result['torch'][-1]:10.4f} "
                      f"{result['median']:9.1e} {result['first']:9.1e}{verdict}", flush=True)
    print(f"{count - bad} of {count} follow torch")
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main())
