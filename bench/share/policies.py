#!/usr/bin/env python3
"""All policies on the same loads of this machine, as the table of docs/sharing.md.

  bench/share/policies.py [--write docs/sharing.md] [--json] [--policy LIST] [--requests N] [--steps N]

For each policy a daemon shares the machine between processes: a realtime model with Poisson arrivals beside a training
(bench/share/colocate.py), and two trainings that wait for their data most of the time (bench/share/two_trainings.py).
Prints the table, or the figures as one JSON object with --json; --write puts the table between the marks
`<!-- policies -->` and `<!-- /policies -->` of a file."""
import argparse
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import colocate  # noqa: E402
import two_trainings  # noqa: E402

MARK, END = "<!-- policies -->\n", "<!-- /policies -->\n"
HEAD = """| policy | realtime p50, ms | p99, ms (of alone) | training, of what is left | two trainings, of their sum | \
each, of alone | queued a step, ms |
|---|---|---|---|---|---|---|
"""


def measure(policy, options):
    pair_options = argparse.Namespace(model=options.model, train="resnet18_cifar", policy=policy, load=0.3, rounds=1,
                                      requests=options.requests, only="two", peers=False, budget_s=540)
    dims = ["--dim", "sequence=32", "--dim", "batch=1"] if "minilm" in options.model else []
    beside = colocate.two_processes(pair_options, dims)
    with tempfile.TemporaryDirectory() as folder:
        pair = two_trainings.Pair(policy, pathlib.Path(folder),
                                  argparse.Namespace(net="resnet18_cifar", batch=4))
        try:
            trainings = pair.measure(argparse.Namespace(steps=options.steps, busy=0.42))
        finally:
            pair.close()
    return {"beside_training": beside, "two_trainings": trainings}


def row(policy, figures):
    beside, pair = figures["beside_training"], figures["two_trainings"]
    queued = sum(pair["queueing_ms_a_step"]["together"]) / 2
    return (f"| `{policy}` | {beside['p50_colocated_ms']:.2f} | {beside['p99_colocated_ms']:.1f} "
            f"({beside['p99_ratio']:.2f}) | {beside['background_share_of_leftover']:.2f} | {pair['part_of_sum']:.2f} | "
            f"{max(pair['each_over_alone']):.2f} | {queued:.1f} |\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--policy", default="fifo,fair,iteration,headroom,fill,predictive", help="with commas between")
    parser.add_argument("--model", default=str(colocate.ROOT / ".models/minilm_int8/model.onnx"))
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    colocate.ensure_built(colocate.WORKER, colocate.TESSERA)
    figures = {policy: measure(policy, options) for policy in options.policy.split(",")}
    table = HEAD + "".join(row(policy, each) for policy, each in figures.items())
    print(json.dumps({"load_of_machine": os.getloadavg()[0], "policies": figures}, indent=2) if options.json else table)
    if options.write:
        before, rest = options.write.read_text(encoding="utf-8").split(MARK)
        options.write.write_text(before + MARK + table + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
