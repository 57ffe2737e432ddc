#!/usr/bin/env python3
"""Compares time and memory of a training step with PyTorch's on this CPU: the same nets, from `tessera new`, in turn.

    bench/train_parity.py --setup      # once: .venv-parity with the pinned torch
    bench/train_speed.py               # a table: torch's median over Tessera's, so above 1 Tessera is faster
    bench/train_speed.py --nets mlp,unet2d --rounds 3 --precision bf16

Every program runs in a process of its own with as many threads; torch in each of its ways (eager, eager with the
channels last, torch.compile), of which the best one counts. A step is forward, loss, backward and update.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from built import ensure_built

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-parity"

# name: net of `tessera new`, its sizes, batch, inputs (name: shape, and the limit of integers or None), target (shape
# and classes, or None for floats), the output that is compared, optimiser
NETS = {
    "mlp": ("mlp", {"width": 1024}, 128, {"input": ((784, ), None)}, ((), 10), "output", "sgd"),
    "resnet18_32": ("resnet18_cifar", {}, 64, {"input": ((3, 32, 32), None)}, ((), 10), "output", "sgd"),
    "resnet50": ("resnet50", {}, 8, {"input": ((3, 224, 224), None)}, ((), 1000), "output", "sgd"),
    "unet2d": ("unet2d", {}, 2, {"input": ((3, 256, 256), None)}, ((256, 256), 2), "output", "sgd"),
    "unet3d": ("unet3d", {}, 1, {"input": ((1, 64, 64, 64), None)}, ((64, 64, 64), 2), "output", "sgd"),
    "lstm": ("lstm", {}, 8, {"features": ((200, 80), None)}, ((200, ), 29), "log_probabilities", "adam"),
    "dlrm": ("dlrm", {}, 256, {"dense": ((13, ), None), "categories": ((26, ), 10000)}, ((1, ), None), "probability",
             "sgd"),
    "bert_mini": ("bert_mini", {"seq": 128}, 8,
                  {"input_ids": ((128, ), 1000), "attention_mask": ((128, ), 2), "token_type_ids": ((128, ), 2)},
                  ((256, ), None), "pooler_output", "adamw"),
}
WAYS = ("eager", "channels_last", "compile")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "build/release/apps/tessera/tessera")
    parser.add_argument("--nets", type=lambda text: text.split(","), default=list(NETS), help="default: all")
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS),
                        help=f"of {','.join(WAYS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="of all programs in turn (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=12, help="timed in each round (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)  # net, way, folder
    return parser.parse_args()


def arrays(net, batches):
    import numpy as np
    _, _, batch, inputs, (target, classes), _, _ = NETS[net]
    random = np.random.default_rng(1)
    made = {}
    for name, (shape, limit) in inputs.items():
        size = (batch * batches, *shape)
        made[name] = random.integers(0, limit, size) if limit else random.normal(0, 1, size).astype(np.float32)
    size = (batch * batches, *target)
    made["y"] = random.integers(0, classes, size) if classes else random.random(size).astype(np.float32)
    return made


def torch_child(arguments):
    import time

    import torch
    import torch.nn.functional as F
    net, way, folder = arguments.child
    sys.path.insert(0, str(ROOT / "bench/peer_tools"))
    import torch_graph
    torch.set_num_threads(arguments.threads)
    _, _, batch, inputs, (_, classes), _, optimiser = NETS[net]
    graph = torch_graph.TorchGraph(pathlib.Path(folder) / "net.onnx")
    data = {name: torch.from_numpy(array[:batch]) for name, array in arrays(net, 1).items()}
    if way == "channels_last":
        for store in (graph.parameters, data):
            for name, tensor in store.items():
                forms = {4: torch.channels_last, 5: torch.channels_last_3d}
                if tensor.dim() in forms:
                    moved = tensor.detach().to(memory_format=forms[tensor.dim()])
                    store[name] = moved.requires_grad_(tensor.requires_grad)
    parameters = list(graph.parameters.values())
    method = {"sgd": lambda: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
              "adam": lambda: torch.optim.Adam(parameters, lr=1e-4),
              "adamw": lambda: torch.optim.AdamW(parameters, lr=1e-4)}[optimiser]()
    graph.outputs = [NETS[net][5]]

    def loss_of(values):
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16"):
            y = graph({name: values[name] for name in inputs}).float()
        if not classes:
            return F.mse_loss(y, values["y"])
        return F.cross_entropy(y.transpose(1, -1) if net == "lstm" else y, values["y"])

    run = torch.compile(loss_of) if way == "compile" else loss_of
    times = []
    for step in range(3 + arguments.steps):
        begin = time.perf_counter()
        method.zero_grad()
        run(data).backward()
        method.step()
        if step >= 3:
            times.append(time.perf_counter() - begin)
    peak = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(json.dumps({"seconds": statistics.median(times), "peak": peak}))


def tessera_step(arguments, net, folder):
    batch, output, optimiser = NETS[net][2], NETS[net][5], NETS[net][6]
    rate = "learning_rate = 0.001\nmomentum = 0.9" if optimiser == "sgd" else "learning_rate = 0.0001"
    (folder / "config.toml").write_text(f"""output = "{folder}/run"
[model]
file = "{folder}/net.onnx"
[data]
train = "{folder}/train.npz"
batch = {batch}
[loss]
name = "{'cross_entropy' if NETS[net][4][1] else 'mse'}"
logits = "{output}"
[optimiser]
name = "{optimiser}"
{rate}
[train]
steps = {3 + arguments.steps}
log_every = 1
checkpoint_every = 1000000
threads = {arguments.threads}
precision = "{arguments.precision}"
""")
    command = [arguments.tessera, "train", folder / "config.toml", "--json", "--overwrite"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    lines = [json.loads(line) for line in (folder / "run/log.jsonl").read_text().splitlines()]
    times = [batch / line["samples_per_s"] for line in lines if "learning_rate" in line][3:]
    return {"seconds": statistics.median(times), "peak": json.loads(done.stdout)["peak_rss_bytes"]}


def torch_step(arguments, net, way, folder):
    command = [VENV / "bin/python", __file__, "--child", net, way, folder, "--steps", str(arguments.steps), "--threads",
               str(arguments.threads), "--precision", arguments.precision]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def compare(arguments, net, folder):
    import numpy as np
    builder, sizes, *_ = NETS[net]
    sizes = [word for name, size in sizes.items() for word in ("--dim", f"{name}={size}")]
    subprocess.run([arguments.tessera, "new", builder, "-o", folder / "net.onnx", *sizes], check=True,
                   capture_output=True)
    np.savez(folder / "train.npz", **arrays(net, 4))
    runs, ways = {}, list(arguments.ways)
    for _ in range(arguments.rounds):
        runs.setdefault("tessera", []).append(tessera_step(arguments, net, folder))
        for way in list(ways):
            try:
                runs.setdefault(way, []).append(torch_step(arguments, net, way, folder))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{net}: torch {way} fails: {str(error)[:120]}", flush=True)
                ways.remove(way)
    figures = {name: {key: statistics.median(run[key] for run in of_one) for key in ("seconds", "peak")}
               for name, of_one in runs.items() if of_one}
    best = min((figures[way] for way in arguments.ways if way in figures), key=lambda each: each["seconds"])
    least = min(figures[way]["peak"] for way in arguments.ways if way in figures)
    return {"net": net, "figures": figures, "ratio": best["seconds"] / figures["tessera"]["seconds"],
            "memory": figures["tessera"]["peak"] / least}


def main():
    arguments = parse()
    if pathlib.Path(sys.prefix) != VENV and (VENV / "bin/python").exists():
        os.execv(VENV / "bin/python", [str(VENV / "bin/python"), *sys.argv])
    if arguments.child:
        return torch_child(arguments)
    ensure_built(arguments.tessera)
    results = []
    print(f"{'net':12} {'tessera ms':>10} " + " ".join(f"{way:>13}" for way in arguments.ways) +
          f" {'ratio':>6} {'memory':>7}")
    for net in arguments.nets:
        with tempfile.TemporaryDirectory() as folder:
            try:
                result = compare(arguments, net, pathlib.Path(folder))
            except (RuntimeError, ValueError) as error:
                print(f"{net:12} fails: {str(error).splitlines()[0][:150]}", flush=True)
                continue
        results.append(result)
        figures = result["figures"]
        times = " ".join(f"{1e3 * figures[way]['seconds']:13.1f}" if way in figures else f"{'-':>13}"
                         for way in arguments.ways)
        print(f"{net:12} {1e3 * figures['tessera']['seconds']:10.1f} {times} {result['ratio']:6.2f} "
              f"{result['memory']:7.2f}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results) + "\n")
    if results:
        print(f"geometric mean of the ratios: {statistics.geometric_mean(r['ratio'] for r in results):.2f}")


if __name__ == "__main__":
    main()
