#!/usr/bin/env python3
"""torch.compile(backend="tessera") beside eager PyTorch, inductor, and a Tessera session on the exported file.

    scripts/ort_programs.sh --setup        # once: .venv-programs with the pinned torch, torchvision and transformers
    PYTHONPATH=build/release/python .venv-programs/bin/python bench/torch_compile.py [--threads N] [MODEL …]

Models have random weights of a fixed seed and batch 1. Runs of the four are interleaved; the times are medians, and
the ratios are medians of the ratios within a round, so that others on the machine disturb all alike. Exit code 1 where
an output differs from eager's by more than one part in a thousand of the largest, or where a graph runs in PyTorch.
Inductor needs g++.
"""
import argparse
import json
import logging
import statistics
import sys
import time

import tessera
import tessera._torch
import torch


def vision(name, **options):
    def make():
        import torchvision

        return getattr(torchvision.models, name)(weights=None, **options), (torch.randn(1, 3, 224, 224),)

    return make


def bert_base():
    import transformers

    config = transformers.BertConfig()
    ids = torch.randint(0, config.vocab_size, (1, 128))
    return transformers.BertModel(config), (ids, torch.ones_like(ids))


MODELS = {"resnet50": vision("resnet50"), "mobilenet_v2": vision("mobilenet_v2"), "bert-base": bert_base,
          "vit_b_16": vision("vit_b_16")}


def settle(net):
    """Numbers that a trained net could have where a fresh one has zeros and ones, which hide mistakes."""
    for module in net.modules():
        if isinstance(module, torch.nn.Linear) and not module.weight.any():
            module.weight.normal_(0, 0.02)
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)


def flat(result):
    """The tensors of a result, whatever holds them."""
    if isinstance(result, torch.Tensor):
        return [result]
    values = result.values() if hasattr(result, "values") else result
    return [tensor for each in values if each is not None for tensor in flat(each)]


def difference(found, expected):
    """The largest, as a part of the largest expected number."""
    pairs = list(zip(flat(found), flat(expected), strict=True))
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


class Warnings(logging.Handler):
    """Counts what the backend says about graphs that run in PyTorch."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def own_session(net, arguments, threads):
    session = tessera.from_torch(net, arguments, threads=threads)
    feeds = {info.name: each.numpy() for info, each in zip(session.inputs, arguments, strict=True)}
    return lambda: session._core.run(feeds)


def contestants(net, arguments, threads, with_inductor):
    torch._dynamo.reset()
    calls = {
        "eager": lambda: net(*arguments),
        "session": own_session(net, arguments, threads),
    }
    backends = {"tessera": tessera._torch.compile_backend}
    if with_inductor:
        backends["inductor"] = "inductor"
    for name, backend in backends.items():
        torch._dynamo.reset()
        compiled = torch.compile(net, backend=backend)
        begin = time.perf_counter()
        compiled(*arguments)
        print(f"  {name} compiled in {time.perf_counter() - begin:.1f} s", file=sys.stderr)
        calls[name] = lambda compiled=compiled: compiled(*arguments)
    return calls


def measure(calls, rounds):
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    for turn in range(rounds):
        order = list(calls.items())
        for name, call in order[turn % len(order):] + order[:turn % len(order)]:
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return times


def compare(name, options):
    torch.manual_seed(0)
    net, arguments = MODELS[name]()
    net.eval()
    settle(net)
    heard = Warnings()
    logging.getLogger("tessera").addHandler(heard)
    calls = contestants(net, arguments, options.threads, not options.without_inductor)
    expected = calls["eager"]()
    error = difference(calls["tessera"](), expected)
    times = measure(calls, options.rounds)
    logging.getLogger("tessera").removeHandler(heard)
    ratio = {other: statistics.median(a / b for a, b in zip(times[other], times["tessera"], strict=True))
             for other in calls if other != "tessera"}
    milliseconds = {each: statistics.median(values) * 1e3 for each, values in times.items()}
    return {"model": name, "difference": error, "in_pytorch": heard.texts, "ms": milliseconds, "ratio": ratio}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; all without any")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--without-inductor", action="store_true", help="which takes a minute a model to compile")
    parser.add_argument("--json", action="store_true", help="print one JSON object a model")
    options = parser.parse_args()
    unknown = set(options.models) - set(MODELS)
    if unknown:
        parser.error(f"unknown {', '.join(sorted(unknown))}; known: {', '.join(MODELS)}")
    torch.set_num_threads(options.threads)
    failed = False
    with torch.no_grad():
        for name in options.models or MODELS:
            found = compare(name, options)
            failed = failed or found["difference"] > 1e-3 or bool(found["in_pytorch"])
            if options.json:
                print(json.dumps(found), flush=True)
                continue
            figures = "  ".join(f"{each} {value:8.2f} ms" for each, value in found["ms"].items())
            ratios = ", ".join(f"{value:.2f} of {each}'s" for each, value in found["ratio"].items())
            print(f"{name:<14} {figures}  speed: {ratios}  difference {found['difference']:.1e}", flush=True)
            for text in found["in_pytorch"]:
                print(f"  {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
