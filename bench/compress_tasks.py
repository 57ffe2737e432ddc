"""Models with calibration data, held-out data and a metric, for compress_peers.py.

Each task is a Task; `score(outputs)` takes a list of the first output's arrays, one for each batch of `held_out`, and
gives a number from 0 to 1, higher is better.
"""

import dataclasses
import json
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "demo"))


@dataclasses.dataclass
class Task:
    name: str
    model: pathlib.Path
    calibration: list  # of {input: array}
    held_out: list
    metric: str
    score: object


def trained(tessera, config, work):
    """A net of examples/, trained once; calibrated on training data, tested on all test data."""
    folder = work / config
    model = folder / "best.onnx"
    if not model.exists():
        subprocess.run([tessera, "train", f"examples/{config}.toml", "--set", f"output={folder}"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    data = ROOT / ".data" / config
    train, test = np.load(data / "train.npz"), np.load(data / "test.npz")
    import onnx
    name = onnx.load(model).graph.input[0].name
    field = next(key for key in train if key != "y")
    labels = test["y"]

    def score(outputs):
        return float((np.concatenate(outputs).argmax(-1) == labels).mean())

    batches = lambda array, most: [{name: array[i:i + 32]} for i in range(0, min(len(array), most), 32)]
    return Task(config, model, batches(train[field], 256), batches(test[field], len(labels)), "accuracy", score)


def magika(work):
    """Types of this machine's files, as the float model names them: the share that stays the same."""
    import file_types
    folder = ROOT / ".models" / "magika"
    config = json.loads((folder / "config.min.json").read_text())
    suffixes = {}
    for top in ("/usr/lib/python3", "/usr/share", "/usr/include", "/etc", str(ROOT / "src")):
        for path in sorted(pathlib.Path(top).rglob("*")):
            try:
                if path.is_file() and path.stat().st_size > 64:
                    suffixes.setdefault(path.suffix, []).append(path)
            except OSError:
                continue
    paths = [path for group in suffixes.values() for path in group[:12]][:800]
    rows = np.array([file_types.features(path, config) for path in paths], np.int32)
    rows = rows[np.random.default_rng(1).permutation(len(rows))]
    expected = reference(folder / "model.onnx", [{"bytes": rows[128:]}])[0].argmax(-1)

    def score(outputs):
        return float((np.concatenate(outputs).argmax(-1) == expected).mean())

    batches = lambda array: [{"bytes": array[i:i + 16]} for i in range(0, len(array), 16)]
    return Task("magika", folder / "model.onnx", batches(rows[:128]), batches(rows[128:]), "same type as float", score)


def reference(model, inputs):
    import onnxruntime
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return [session.run(None, each)[0] for each in inputs]


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, last = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y)))
    return row[-1]


def drawn_line(text, font, width):
    """[1, 3, 48, width] of black text on white, cut or padded with white."""
    import read_line
    import truetype
    _, _, rows = truetype.draw_text(truetype.Font(read_line.FONT_FOLDER / font), text, read_line.HEIGHT)
    shape, values = read_line.model_input(rows)
    picture = np.array(values, np.float32).reshape(shape)
    line = np.ones((1, 3, shape[2], width), np.float32)
    used = min(width, shape[3])
    line[..., :used] = picture[..., :used]
    return line


def reading(work):
    """PP-OCRv6's recognition of lines from this repository's pages, drawn: 1 - character errors / characters."""
    import read_line
    model = ROOT / ".models" / "rapidocr" / "PP-OCRv6_rec_small.onnx"
    characters = read_line.characters_of(model)
    words = [word for page in sorted((ROOT / "docs").glob("*.md")) for word in page.read_text().split()
             if word.isascii() and 1 < len(word) < 12]
    random = np.random.default_rng(2)
    fonts = ["DejaVuSans.ttf", "DejaVuSerif.ttf", "DejaVuSansMono.ttf", "DejaVuSans-Bold.ttf"]
    stored = work / "lines.npz"
    texts = [" ".join(random.choice(words, 3)) for _ in range(120)]
    if not stored.exists():
        lines = [drawn_line(text, fonts[i % len(fonts)], 480) for i, text in enumerate(texts)]
        noise = random.normal(0, 0.15, (len(lines), *lines[0].shape[1:])).astype(np.float32)
        np.savez(stored, lines=np.clip(np.concatenate(lines) + noise, -1, 1))
    lines = np.load(stored)["lines"]
    expected = texts[24:]

    def score(outputs):
        errors = 0
        for array, text in zip(np.concatenate(outputs), expected):
            best = array.argmax(-1)
            read = "".join(characters[c] for i, c in enumerate(best) if c and (i == 0 or c != best[i - 1]))
            errors += edit_distance(read, text)
        return 1 - errors / sum(map(len, expected))

    batches = lambda array: [{"x": array[i:i + 1]} for i in range(len(array))]
    return Task("PP-OCRv6 rec", model, batches(lines[:24]), batches(lines[24:]), "characters right", score)


def tasks(tessera, work):
    """(name, function that makes the task) of all."""
    return [("digits", lambda: trained(tessera, "digits", work)),
            ("mnist5k", lambda: trained(tessera, "mnist5k", work)),
            ("magika", lambda: magika(work)),
            ("PP-OCRv6 rec", lambda: reading(work))]
