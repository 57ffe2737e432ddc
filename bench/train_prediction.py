#!/usr/bin/env python3
"""Says how far `tessera explain CONFIG.toml` is from the time that a training step takes on this CPU.

    scripts/fetch_data.py                         # once: the data of the examples
    bench/train_prediction.py                     # calibrates into a folder of its own, predicts, measures: a table
    bench/train_prediction.py --cache DIR         # keeps the calibration in DIR, and uses the one that is there
    bench/train_prediction.py --nets lstm,digits --operators

Each net is explained and measured several times in processes of their own; of the measured times the least counts,
operator by operator, because whatever else the machine does only adds to them. A net passes when the predicted step
takes between 1 / 1.25 and 1.25 of the measured one; the exit status is 1 if any does not.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import train_speed

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOUND = 1.25
EXAMPLES = ("digits", "mnist1d_cnn", "mnist1d_gru", "mnist5k", "masked_text", "dlrm_teacher")
# Beside the nets of train_speed.py: net of `tessera new`, sizes, batch, inputs, target, output, optimiser.
NETS = {
    **train_speed.NETS,
    "unet_small": ("unet_small", {}, 16, {"input": ((1, 32, 32), None)}, ((32, 32), 2), "output", "sgd"),
}
DEFAULT = [*EXAMPLES, "resnet18_32", "unet_small", "lstm", "bert_mini", "dlrm"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def words(text):
        return text.split(",")

    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "build/release/apps/tessera/tessera",
                        help="the program (default: %(default)s)")
    parser.add_argument("--nets", type=words, default=DEFAULT, help=f"of {','.join([*EXAMPLES, *NETS])} "
                        f"(default: {','.join(DEFAULT)})")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each net (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="default: all cores")
    parser.add_argument("--cache", type=pathlib.Path, help="a folder for the calibration (default: a temporary one)")
    parser.add_argument("--operators", action="store_true", help="for each net the kernels that are most off")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures of all operators")
    return parser.parse_args()


def calibrate(arguments, environment):
    if list(pathlib.Path(environment["XDG_CACHE_HOME"]).glob("tessera/cpu.toml")):
        return
    subprocess.run([arguments.tessera, "calibrate"], check=True, capture_output=True, env=environment)


def write_config(arguments, net, folder):
    """The configuration of an example, or one for a net of `tessera new` with made-up data beside it."""
    if net in EXAMPLES:
        return ROOT / f"examples/{net}.toml"
    builder, sizes, batch, inputs, (target, classes), output, optimiser = NETS[net]
    sizes = [word for name, size in sizes.items() for word in ("--dim", f"{name}={size}")]
    subprocess.run([arguments.tessera, "new", builder, "-o", folder / "net.onnx", *sizes], check=True,
                   capture_output=True)
    random = np.random.default_rng(1)
    arrays = {}
    for name, (shape, limit) in inputs.items():
        size = (2 * batch, *shape)
        arrays[name] = random.integers(0, limit, size) if limit else random.normal(0, 1, size).astype(np.float32)
    size = (2 * batch, *target)
    arrays["y"] = random.integers(0, classes, size) if classes else random.random(size).astype(np.float32)
    np.savez(folder / "train.npz", **arrays)
    rate = "learning_rate = 0.001\nmomentum = 0.9" if optimiser == "sgd" else "learning_rate = 0.0001"
    (folder / "config.toml").write_text(f"""output = "{folder}/run"
[model]
file = "{folder}/net.onnx"
[data]
train = "{folder}/train.npz"
batch = {batch}
[loss]
name = "{'cross_entropy' if classes else 'mse'}"
logits = "{output}"
[optimiser]
name = "{optimiser}"
{rate}
[train]
steps = 1
""")
    return folder / "config.toml"


def explain(arguments, config, environment):
    command = [arguments.tessera, "explain", config, "--measure", "--all", "--json"]
    if arguments.threads:
        command += ["--threads", str(arguments.threads)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    report = json.loads(done.stdout)
    device = report["devices"][0]
    return [(layer["op"], layer["kernel"], layer["shapes"], layer["seconds"], measured)
            for layer, measured in zip(device["layers"], report["measured"]["seconds"])]


def measure(arguments, net, environment):
    """For each operator: its name, kernel, shapes, predicted and least measured seconds."""
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(arguments, net, pathlib.Path(folder))
        runs = [explain(arguments, config, environment) for _ in range(arguments.rounds)]
    return [(*each[0][:4], min(run[4] for run in each)) for each in zip(*runs)]


def print_operators(operators):
    sums = collections.defaultdict(lambda: [0, 0.0, 0.0])
    for op, kernel, _, predicted, measured in operators:
        total = sums[f"{op} ({kernel})"]
        total[0] += 1
        total[1] += predicted
        total[2] += measured
    worst = sorted(sums.items(), key=lambda item: -abs(item[1][1] - item[1][2]))[:12]
    for name, (count, predicted, measured) in worst:
        print(f"    {predicted / max(measured, 1e-12):6.2f} {1e6 * predicted:10.0f} {1e6 * measured:10.0f} us "
              f"{count:4} x {name}")


def main():
    arguments = parse()
    figures = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.cache or pathlib.Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}
        calibrate(arguments, environment)
        print(f"{'net':14} {'predicted':>12} {'measured':>12} {'ratio':>7}")
        for net in arguments.nets:
            operators = measure(arguments, net, environment)
            predicted, measured = (sum(each[i] for each in operators) for i in (3, 4))
            figures[net] = {"predicted": predicted, "measured": measured, "operators": operators}
            ratio = predicted / measured
            verdict = "" if 1 / BOUND <= ratio <= BOUND else "   off"
            print(f"{net:14} {1e3 * predicted:9.3f} ms {1e3 * measured:9.3f} ms {ratio:7.2f}{verdict}", flush=True)
            if arguments.operators:
                print_operators(operators)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures))
    off = [net for net, figure in figures.items()
           if not 1 / BOUND <= figure["predicted"] / figure["measured"] <= BOUND]
    print(f"{len(figures) - len(off)} of {len(figures)} within {BOUND - 1:.0%}")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
