#!/usr/bin/env python3
"""Measures what a teacher adds: the student of an example alone and taught, with several seeds each.

    bench/distillation.py                                  # examples/mnist1d_distil.toml, five seeds
    bench/distillation.py --seeds 3 --set teacher.weight=1 --json results.json

Trains the teacher first, unless its net is there. A seed is that of the weights, of the order of the data and of the
augmentation alike. Everything is trained to its last step, and that net is tested; nothing is chosen by test data.
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
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def train(program, config, settings):
    changes = [part for each in settings for part in ("--set", each)]
    command = [program, "train", config, "--json", "--overwrite", *changes]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def without_table(text, name):
    """TOML without the table of this name."""
    return re.sub(rf"^\[{name}\]\n(?:(?!\[).*\n)*", "", text, flags=re.M)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="examples/mnist1d_distil.toml")
    parser.add_argument("--teacher", default="examples/mnist1d_cnn.toml", help="how the teacher is trained")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--program", default=ROOT / "build/release/apps/tessera/tessera")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for the taught student")
    parser.add_argument("--json", metavar="FILE", help="write the results")
    arguments = parser.parse_args()
    taught = ROOT / arguments.config
    if not (ROOT / tomllib.loads(taught.read_text())["teacher"]["file"]).exists():
        result = train(arguments.program, arguments.teacher, [])
        print(f"teacher: test accuracy {result['test_accuracy']:.4f}")
    rows = []
    with tempfile.TemporaryDirectory(prefix="distillation.") as folder:
        alone = pathlib.Path(folder) / "alone.toml"
        alone.write_text(without_table(taught.read_text(), "teacher"))
        print(f"{'seed':>5}{'alone':>10}{'taught':>10}{'lift':>8}")
        for seed in range(arguments.seeds):
            common = [f"output={folder}/run", f"model.seed={seed}", f"train.seed={seed}"]
            own = train(arguments.program, alone, common)["test_accuracy"]
            lifted = train(arguments.program, taught, common + arguments.set)["test_accuracy"]
            rows.append({"seed": seed, "alone": own, "taught": lifted})
            print(f"{seed:>5}{own:>10.4f}{lifted:>10.4f}{100 * (lifted - own):>+8.2f}", flush=True)
    own, lifted = (statistics.mean(row[key] for row in rows) for key in ("alone", "taught"))
    print(f" mean{own:>10.4f}{lifted:>10.4f}{100 * (lifted - own):>+8.2f} points")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"rows": rows, "lift_points": 100 * (lifted - own)}))


if __name__ == "__main__":
    main()
