#!/usr/bin/env python3
"""Trains the examples on several seeds and says whether each reaches what its file promises.

    scripts/fetch_data.py                              # once: their data
    bench/train_bars.py                                # six examples, three seeds each: some minutes
    bench/train_bars.py --examples digits --seeds 0 --precision bf16

A run passes when its last evaluation reaches the bar; bfloat16 may miss it by 0.3 points. Exit status 1 if one does
not.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from built import ensure_built

ROOT = pathlib.Path(__file__).resolve().parent.parent
BF16_SLACK = 0.003


def about(name):
    return json.loads((ROOT / f".data/{name}/about.json").read_text())


# example: (figure of the last line, bar, whether larger is better)
BARS = {
    "digits": lambda: ("test_accuracy", 0.985, True),
    "mnist1d_cnn": lambda: ("test_accuracy", 0.94, True),
    "mnist1d_gru": lambda: ("test_accuracy", 0.91, True),
    "mnist5k": lambda: ("test_accuracy", 0.97, True),
    # Guessing by frequency alone, and clearly better than that.
    "masked_text": lambda: ("test_loss", 0.85 * about("masked_text")["unigram_test_loss"], False),
    "dlrm_teacher": lambda: ("test_auc", about("dlrm_teacher")["teacher_test_auc"] - 0.01, True),
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "build/release/apps/tessera/tessera",
                        help="the program (default: %(default)s)")
    parser.add_argument("--examples", type=lambda text: text.split(","), default=list(BARS), help="default: all")
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[0, 1, 2],
                        help="default: 0,1,2")
    parser.add_argument("--precision", choices=("f32", "bf16", "f16"), default="f32")
    return parser.parse_args()


def train(arguments, example, seed):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [arguments.tessera, "train", ROOT / f"examples/{example}.toml", "--json", "--set", f"output={folder}/run",
             "--set", f"train.seed={seed}", "--set", f"train.precision={arguments.precision}"],
            capture_output=True, text=True, cwd=ROOT)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return json.loads((pathlib.Path(folder) / "run/log.jsonl").read_text().splitlines()[-1])


def main():
    arguments = parse()
    ensure_built(arguments.tessera)
    failures = 0
    print(f"{'example':14} {'seed':>4} {'figure':>13} {'reached':>8} {'bar':>8} {'seconds':>8}")
    for example in arguments.examples:
        figure, bar, larger = BARS[example]()
        if arguments.precision == "bf16":
            bar += -BF16_SLACK if larger else BF16_SLACK
        for seed in arguments.seeds:
            last = train(arguments, example, seed)
            passes = last[figure] >= bar if larger else last[figure] <= bar
            failures += not passes
            print(f"{example:14} {seed:4} {figure:>13} {last[figure]:8.4f} {bar:8.4f} {last['seconds']:8.1f}"
                  f"{'' if passes else '   missed'}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
