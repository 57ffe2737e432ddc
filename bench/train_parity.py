#!/usr/bin/env python3
"""Compares the losses of small nets trained here and in PyTorch from the same weights and in the same order of data.

    scripts/setup.sh --tests && bench/train_parity.py --setup   # once: .venv-parity with the pinned torch
    bench/train_parity.py                                      # a table; exit status 1 if any pair differs too much
    bench/train_parity.py --nets lenet,gru --optimisers adam --steps 50

Each net comes twice: from `tessera new`, which torch runs operator by operator, and from a torch module that torch
exports to ONNX. SGD with momentum, Adam and AdamW are torch's; LAMB is its formula (arXiv:1904.00962) in float64. The
bounds are a median relative difference of 1e-3 over all steps and at most 2e-3 in the first 50.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import venv

from built import ensure_built

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-parity"
MEDIAN_BOUND, FIRST_BOUND, FIRST_STEPS = 1e-3, 2e-3, 50

# Nets of `tessera new`: name -> (builder, sizes, data), with the data as in torch_nets.NETS.
BUILT = {
    "mlp": ("mlp", {"features": 64, "width": 96}, ("image", (64, ))),
    "lenet": ("lenet5", {}, ("image", (1, 28, 28))),
    "resnet8": ("resnet8", {}, ("image", (3, 32, 32))),
    "transformer": ("transformer_small", {"vocabulary": 40, "seq": 24, "width": 32}, ("tokens", 24, 40)),
    "lstm": ("lstm_classifier", {"time": 20, "channels": 3, "width": 16}, ("image", (3, 20))),
    "gru": ("gru_classifier", {"time": 20, "channels": 3, "width": 16}, ("image", (3, 20))),
    "unet": ("unet_small", {"size": 16, "classes": 3}, ("mask", (1, 16, 16), 3)),
}
# Rates at which rounding alone does not part two runs: with larger ones, torch in float32 leaves torch in float64 too,
# where a rectifier or a maximum takes the other side.
OPTIMISERS = {
    "sgd": {"learning_rate": 0.005, "momentum": 0.9, "weight_decay": 1e-4},
    "adam": {"learning_rate": 2e-4},
    "adamw": {"learning_rate": 2e-4, "weight_decay": 0.05},
    "lamb": {"learning_rate": 1e-3, "weight_decay": 0.01},
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def words(text):
        return text.split(",")

    parser.add_argument("--setup", action="store_true", help="make .venv-parity, then stop")
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "build/release/apps/tessera/tessera",
                        help="the program (default: %(default)s)")
    parser.add_argument("--nets", type=words, default=list(BUILT), help=f"of {','.join(BUILT)} (default: all)")
    parser.add_argument("--optimisers", type=words, default=list(OPTIMISERS),
                        help=f"of {','.join(OPTIMISERS)} (default: all)")
    parser.add_argument("--sources", type=words, default=["built", "exported"], help="default: built,exported")
    parser.add_argument("--steps", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--batch", type=int, default=32, help="default: %(default)s")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the losses of all runs")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep models, data and logs there")
    return parser.parse_args()


def set_up():
    venv.create(VENV, with_pip=True)
    subprocess.run([VENV / "bin/pip", "install", "--no-deps", "--require-hashes", "--disable-pip-version-check", "-r",
                    ROOT / "scripts/requirements-train-peers.txt"], check=True)


def make_data(data, samples):
    """Samples that can be learnt but not all guessed: a fifth of the labels is random, so that no loss vanishes."""
    import numpy as np
    random = np.random.default_rng(5)
    kind, shape, *rest = data
    if kind == "tokens":
        y = random.integers(0, 10, samples)
        x = np.where(random.random((samples, shape)) < 0.2, y[:, None], random.integers(0, rest[0], (samples, shape)))
    elif kind == "mask":
        y = random.integers(0, rest[0], (samples, *[size // 4 for size in shape[1:]]))
        y = y.repeat(4, -1).repeat(4, -2)
        x = (y[:, None] - 1 + random.normal(0, 1, (samples, *shape))).astype(np.float32)
    else:
        y = random.integers(0, 10, samples)
        x = (0.5 * random.normal(0, 1, (10, *shape))[y] + random.normal(0, 1, (samples, *shape))).astype(np.float32)
    noise = random.random(y.shape) < 0.2
    y = np.where(noise, random.integers(0, y.max() + 1, y.shape), y)
    return x, y.astype(np.int64)


class Lamb:
    """u = m̂ / (√v̂ + ε) + wd p; p −= rate ‖p‖ / ‖u‖ u where both norms are above 0, else rate u."""

    def __init__(self, parameters, lr, weight_decay, betas=(0.9, 0.999), eps=1e-6):
        self.parameters, self.rate, self.decay, self.betas, self.epsilon = parameters, lr, weight_decay, betas, eps
        self.moments, self.step_number = [(0, 0)] * len(parameters), 0

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        import torch
        self.step_number += 1
        with torch.no_grad():
            for i, p in enumerate(self.parameters):
                m, v = (beta * moment + (1 - beta) * power
                        for beta, moment, power in zip(self.betas, self.moments[i], (p.grad, p.grad**2)))
                self.moments[i] = (m, v)
                m_hat, v_hat = (moment / (1 - beta**self.step_number) for beta, moment in zip(self.betas, (m, v)))
                u = m_hat / (v_hat.sqrt() + self.epsilon) + self.decay * p
                norm, update_norm = p.norm(), u.norm()
                p -= self.rate * (norm / update_norm if norm > 0 and update_norm > 0 else 1) * u


def torch_losses(run, parameters, optimiser, x, y, batch, dtype):
    """Of batches in order; x is an array, or a tuple of those of several inputs."""
    import torch
    import torch.nn.functional as F
    given = dict(OPTIMISERS[optimiser])
    given["lr"] = given.pop("learning_rate")
    make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "lamb": Lamb}[optimiser]
    method = make(parameters, **given)
    arrays = x if isinstance(x, tuple) else (x, )
    losses = []
    for begin in range(0, len(y), batch):
        inputs = [torch.from_numpy(array[begin:begin + batch]) for array in arrays]
        loss = F.cross_entropy(run(*(each.to(dtype) if each.is_floating_point() else each for each in inputs)),
                               torch.from_numpy(y[begin:begin + batch]))
        method.zero_grad()
        loss.backward()
        method.step()
        losses.append(loss.item())
    return losses


def make_net(arguments, source, net, dtype, folder):
    """Writes model.onnx; returns the net as a function of torch tensors, its parameters and its data's description."""
    import torch
    import torch_graph
    import torch_nets
    path = folder / "model.onnx"
    if source == "built":
        builder, sizes, data = BUILT[net]
        sizes = [word for name, size in sizes.items() for word in ("--dim", f"{name}={size}")]
        subprocess.run([arguments.tessera, "new", builder, "-o", path, *sizes, "--seed", "3"], check=True,
                       capture_output=True)
        graph = torch_graph.TorchGraph(path, dtype)
        name = "tokens" if data[0] == "tokens" else "input"
        return lambda x: graph({name: x}), list(graph.parameters.values()), data
    torch.manual_seed(3)
    make, data = torch_nets.NETS[net]
    module = make()
    x, _ = make_data(data, 2)
    # Normalisations stay nodes of their own, in the form for inference.
    torch.onnx.export(module.eval(), (torch.from_numpy(x), ), path, dynamo=False, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.PRESERVE, input_names=["input"], output_names=["output"],
                      dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}}, opset_version=17)
    module.train().to(dtype)
    return module, list(module.parameters()), data


def tessera_losses(arguments, optimiser, folder, model=""):
    """Of the same batches; `model` are further lines of the table [model]."""
    options = "\n".join(f"{name} = {value}" for name, value in OPTIMISERS[optimiser].items())
    (folder / "config.toml").write_text(f"""output = "{folder}/run"
[model]
file = "{folder}/model.onnx"
batch_norm = "train"
{model}
[data]
train = "{folder}/train.npz"
batch = {arguments.batch}
shuffle = false
[loss]
name = "cross_entropy"
[optimiser]
name = "{optimiser}"
{options}
[train]
steps = {arguments.steps}
log_every = 1
""")
    done = subprocess.run([arguments.tessera, "train", folder / "config.toml", "--overwrite"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or done.stdout.strip())
    lines = [json.loads(line) for line in (folder / "run/log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "learning_rate" in line]


def compare(arguments, source, net, optimiser, folder):
    import numpy as np
    import torch
    folder.mkdir(parents=True, exist_ok=True)
    dtype = torch.float64 if optimiser == "lamb" else torch.float32
    run, parameters, data = make_net(arguments, source, net, dtype, folder)
    x, y = make_data(data, arguments.steps * arguments.batch)
    np.savez(folder / "train.npz", x=x, y=y)
    theirs = torch_losses(run, parameters, optimiser, x, y, arguments.batch, dtype)
    ours = tessera_losses(arguments, optimiser, folder)
    return {"net": net, "source": source, "optimiser": optimiser, **judged(ours, theirs)}


def judged(ours, theirs):
    import numpy as np
    if len(ours) != len(theirs):
        raise RuntimeError(f"the log has {len(ours)} steps, expected {len(theirs)}")
    differences = np.abs(np.array(ours) - theirs) / np.abs(theirs)
    return {
        "tessera": ours, "torch": theirs,
        "median": float(np.median(differences)), "first": float(differences[:FIRST_STEPS].max()),
        "ok": bool(np.median(differences) <= MEDIAN_BOUND and differences[:FIRST_STEPS].max() <= FIRST_BOUND)
    }


def enter_venv(program):
    """Goes on in .venv-parity where that is, and with this Python where it has torch itself."""
    if pathlib.Path(sys.prefix) != VENV and (VENV / "bin/python").exists():
        os.execv(VENV / "bin/python", [str(VENV / "bin/python"), *sys.argv])
    try:
        import torch  # noqa: F401
    except ImportError:
        sys.exit(f"{program}: error: there is no torch: run bench/train_parity.py --setup")


def main():
    arguments = parse()
    if arguments.setup:
        return set_up()
    enter_venv("train_parity")
    sys.path.insert(0, str(ROOT / "bench/peer_tools"))
    import torch
    ensure_built(arguments.tessera)
    torch.set_num_threads(min(2, os.cpu_count()))
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        base = (arguments.keep or pathlib.Path(temporary)).resolve()
        print(f"{'net':12} {'source':9} {'optimiser':9} {'first loss':>10} {'last loss':>10} {'median':>9} "
              f"{'first ' + str(FIRST_STEPS):>9}")
        for source in arguments.sources:
            for net in arguments.nets:
                for optimiser in arguments.optimisers:
                    try:
                        result = compare(arguments, source, net, optimiser, base / f"{source}_{net}_{optimiser}")
                    except (RuntimeError, NotImplementedError) as error:
                        result = {"net": net, "source": source, "optimiser": optimiser, "ok": False,
                                  "error": str(error)}
                        print(f"{net:12} {source:9} {optimiser:9} fails: {str(error).splitlines()[0]}", flush=True)
                    else:
                        print(f"{net:12} {source:9} {optimiser:9} {result['torch'][0]:10.4f} "
                              f"{result['torch'][-1]:10.4f} {result['median']:9.1e} {result['first']:9.1e}"
                              f"{'' if result['ok'] else '  too much'}", flush=True)
                    results.append(result)
                    if arguments.json:
                        arguments.json.write_text(json.dumps(results) + "\n")
    bad = sum(not result["ok"] for result in results)
    print(f"{len(results) - bad} of {len(results)} follow torch")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
