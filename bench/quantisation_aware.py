#!/usr/bin/env python3
"""Measures how much of what rounding to 4 bits loses comes back by quantisation-aware training, with several seeds.

    bench/quantisation_aware.py                                    # five seeds
    bench/quantisation_aware.py --seeds 3 --set compress.ranges=averaged --json results.json

For each seed it trains the float net of examples/mnist1d_cnn.toml with 8 channels, and from its weights
    rounded   weights to the nearest of 15 levels for each channel, data to 8 bits with ranges of one batch: no training
    longer    float for as many steps as the next one: what training alone would bring
    aware     examples/mnist1d_qat.toml
Each net is tested after its last step. Recovered is (aware − rounded) / (float − rounded) of the means.
Needs the built tessera program and the data of scripts/fetch_data.py mnist1d.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ("float", "rounded", "longer", "aware")


def train(program, config, settings):
    changes = [part for each in settings for part in ("--set", each)]
    command = [program, "train", config, "--json", "--overwrite", *changes]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)["test_accuracy"]


def measure(program, seed, folder, settings):
    aware = ROOT / "examples/mnist1d_qat.toml"
    without = folder / "float.toml"
    without.write_text(re.sub(r"^\[compress\]\n(?:(?!\[).*\n)*", "", aware.read_text(), flags=re.M))
    net = [f"output={folder}/net", "model.options.width=8", f"model.seed={seed}", f"train.seed={seed}"]
    row = {"seed": seed, "float": train(program, ROOT / "examples/mnist1d_cnn.toml", net)}
    tuned = [f"output={folder}/tuned", f"model.file={folder}/net/model.onnx", f"train.seed={seed}"]
    still = ["model.batch_norm=frozen", "train.epochs=0", "train.steps=1", "optimiser.learning_rate=0"]
    row["rounded"] = train(program, aware, tuned + still + ["compress.ranges=averaged"])
    row["longer"] = train(program, without, tuned)
    row["aware"] = train(program, aware, tuned + settings)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--program", default=ROOT / "build/release/apps/tessera/tessera")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for the aware training")
    parser.add_argument("--json", metavar="FILE", help="write the results")
    arguments = parser.parse_args()
    rows = []
    print(f"{'seed':>5}" + "".join(f"{name:>10}" for name in COLUMNS))
    for seed in range(arguments.seeds):
        with tempfile.TemporaryDirectory(prefix="quantisation.") as folder:
            rows.append(measure(arguments.program, seed, pathlib.Path(folder), arguments.set))
        print(f"{seed:>5}" + "".join(f"{rows[-1][name]:>10.4f}" for name in COLUMNS), flush=True)
    mean = {name: statistics.mean(row[name] for row in rows) for name in COLUMNS}
    print(" mean" + "".join(f"{mean[name]:>10.4f}" for name in COLUMNS))
    lost, back = mean["float"] - mean["rounded"], mean["aware"] - mean["rounded"]
    print(f"lost {100 * lost:.2f} points, recovered {back / lost:.0%}" if lost > 0 else "rounding lost nothing")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"rows": rows, "mean": mean}))


if __name__ == "__main__":
    main()
