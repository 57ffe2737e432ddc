#!/usr/bin/env python3
"""Asks Magika's model, through `tessera run`, what type this repository's own files have.

file_types.py TESSERA MODELS WORK [FILE …]: exit 1 when an answer differs from the file's known type.
Features as in the model's README: the first and the last bytes of the file, white space stripped, padded.
"""

import array
import json
import pathlib
import subprocess
import sys

import npz

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Files here and the labels that are right for them.
KNOWN = {
    "CMakeLists.txt": {"cmake"},
    "CMakePresets.json": {"json"},
    "README.md": {"markdown"},
    "docs/architecture.md": {"markdown"},
    "LICENSE": {"txt"},
    ".gitignore": {"ignorefile"},
    "include/tessera/error.h": {"cpp", "c"},
    "src/base/threads/thread_pool.h": {"cpp", "c"},
    "src/base/threads/thread_pool.cpp": {"cpp"},
    "src/ir/graph.cpp": {"cpp"},
    "scripts/fetch_models.py": {"python"},
    "scripts/setup.sh": {"shell"},
    "src/io/onnx/onnx.proto": {"proto"},
    "tests/install/softmax.onnx": {"onnx"},
    # Made by read_line.py.
    "build/demo/line0.png": {"png"},
    "build/demo/line0_in.npz": {"npz"},
}


def features(path, config):
    """The model's input for one file: beg_size bytes from the start, end_size bytes from the end."""
    data = path.read_bytes()
    block, padding = config["block_size"], config["padding_token"]
    begin = list(data[:block].lstrip()[:config["beg_size"]])
    end = list(data[-block:].rstrip()[-config["end_size"]:])
    return begin + [padding] * (config["beg_size"] - len(begin)) + [padding] * (config["end_size"] - len(end)) + end


def classify(tessera, folder, work, paths):
    """(label, probability) for each file, all in one batch."""
    config = json.loads((folder / "config.min.json").read_text())
    values = array.array("i", (value for path in paths for value in features(path, config)))
    inputs, outputs = work / "file_types_in.npz", work / "file_types_out.npz"
    npz.write_npz(inputs, {"bytes": ((len(paths), config["beg_size"] + config["end_size"]), values)})
    subprocess.run([tessera, "run", folder / "model.onnx", "--inputs", inputs, "--outputs", outputs], check=True,
                   stdout=subprocess.DEVNULL)
    (_, classes), scores = npz.read_npz(outputs)["target_label"]
    answers = []
    for i in range(len(paths)):
        row = scores[i * classes:(i + 1) * classes]
        label = config["target_labels_space"][row.index(max(row))]
        answers.append((config["overwrite_map"].get(label, label), max(row)))
    return answers


def main():
    tessera, models, work = (pathlib.Path(argument) for argument in sys.argv[1:4])
    work.mkdir(parents=True, exist_ok=True)
    given = [pathlib.Path(argument) for argument in sys.argv[4:]]
    paths = given or [ROOT / name for name in KNOWN if (ROOT / name).exists()]
    wrong = 0
    print(f"  {'file':28} {'model says':12} {'probability':>11}")
    for path, (label, probability) in zip(paths, classify(tessera, models / "magika", work, paths)):
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
        expected = KNOWN.get(name)
        verdict = ("" if expected is None else "right" if label in expected else
                   f"WRONG, expected {' or '.join(sorted(expected))}")
        wrong += verdict.startswith("WRONG")
        print(f"  {name:28} {label:12} {probability:11.3f}  {verdict}")
    if not given:
        print(f"  {len(paths) - wrong} of {len(paths)} files named right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
