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


def train_once(tessera, folder, arguments):
    """The trained net of a configuration, which is trained where there is none."""
    model = folder / "best.onnx"
    if not model.exists():
        subprocess.run([tessera, "train", *arguments, "--set", f"output={folder}"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return model


def classifier(name, model, train, test, field):
    """Calibrated on 256 pictures of the training data, tested on all test data."""
    import onnx
    given = onnx.load(model).graph.input[0].name
    labels = test["y"]

    def score(outputs):
        return float((np.concatenate(outputs).argmax(-1) == labels).mean())

    batches = lambda array, most: [{given: array[i:i + 32]} for i in range(0, min(len(array), most), 32)]
    return Task(name, model, batches(train[field], 256), batches(test[field], len(labels)), "accuracy", score)


def trained(tessera, config, work):
    """A net of examples/."""
    model = train_once(tessera, work / config, [f"examples/{config}.toml"])
    data = ROOT / ".data" / config
    train, test = np.load(data / "train.npz"), np.load(data / "test.npz")
    return classifier(config, model, train, test, next(key for key in train if key != "y"))


COLOURED = """
[data]
train = "{work}/coloured/train.npz"
test = "{work}/coloured/test.npz"
batch = 64
[loss]
name = "cross_entropy"
[optimiser]
name = "adamw"
learning_rate = 0.002
schedule = {{ name = "cosine", warmup_steps = 50 }}
[train]
epochs = {epochs}
[model]
"""


def coloured(work):
    """MNIST's digits as pictures of 3 x 32 x 32: each of them in a colour of its own on a dark ground with noise."""
    folder = work / "coloured"
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(4)
    for part in ("train", "test"):
        path = folder / f"{part}.npz"
        if path.exists():
            continue
        given = np.load(ROOT / ".data" / "mnist5k" / path.name)
        x = given[next(key for key in given if key != "y")].reshape(-1, 1, 28, 28)
        x = np.pad(x / max(1e-6, float(x.max())), ((0, 0), (0, 0), (2, 2), (2, 2)))
        colour = random.uniform(0.3, 1, (len(x), 3, 1, 1))
        x = x * colour + random.normal(0, 0.1, (len(x), 3, 32, 32))
        np.savez(path, x=x.astype(np.float32), y=given["y"])
    return np.load(folder / "train.npz"), np.load(folder / "test.npz")


def mobilenet_like(path):
    """Inverted residuals with depthwise convolutions, BatchNormalization and Clip at 6, for pictures of 3 x 32 x 32."""
    from onnx import TensorProto, helper, numpy_helper, save
    random = np.random.default_rng(5)
    nodes, constants = [], []

    def constant(name, array):
        constants.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def conv(name, x, channels, to, kernel, stride=1, group=1, activation=True):
        shape = (to, channels // group, kernel, kernel)
        w = random.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
        nodes.append(helper.make_node("Conv", [x, constant(f"{name}.weight", w)], [f"{name}.conv"], name=name,
                                      strides=[stride] * 2, pads=[kernel // 2] * 4, kernel_shape=[kernel] * 2,
                                      group=group))
        norm = [constant(f"{name}.{part}", np.full(to, value))
                for part, value in (("scale", 1), ("shift", 0), ("mean", 0), ("variance", 1))]
        nodes.append(helper.make_node("BatchNormalization", [f"{name}.conv", *norm], [f"{name}.norm"],
                                      name=f"{name}.norm"))
        if not activation:
            return f"{name}.norm"
        nodes.append(helper.make_node("Clip", [f"{name}.norm", "low", "high"], [f"{name}.out"], name=f"{name}.clip"))
        return f"{name}.out"

    constant("low", np.float32(0))
    constant("high", np.float32(6))
    x, width = conv("stem", "input", 3, 16, 3, 2), 16
    for i, (to, stride) in enumerate([(16, 1), (24, 2), (24, 1), (40, 2), (40, 1), (64, 1)]):
        y = conv(f"block{i}.expand", x, width, 4 * width, 1)
        y = conv(f"block{i}.depthwise", y, 4 * width, 4 * width, 3, stride, 4 * width)
        y = conv(f"block{i}.project", y, 4 * width, to, 1, activation=False)
        if stride == 1 and to == width:
            nodes.append(helper.make_node("Add", [x, y], [f"block{i}.sum"], name=f"block{i}.sum"))
            y = f"block{i}.sum"
        x, width = y, to
    x = conv("head", x, width, 128, 1)
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["pooled"], name="pool"))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten"))
    weight = constant("classes.weight", random.normal(0, 0.1, (10, 128)))
    nodes.append(helper.make_node("Gemm", ["flat", weight, constant("classes.bias", np.zeros(10))], ["output"],
                                  name="classes", transB=1))
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])
    graph = helper.make_graph(nodes, "mobilenet_like", [value("input", [3, 32, 32])], [value("output", [10])],
                              constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def resnet_like(tessera, work):
    train, test = coloured(work)
    config = work / "resnet_like.toml"
    config.write_text('output = ""\n' + COLOURED.format(work=work, epochs=8) +
                      'builder = "resnet8"\noptions = { width = 16 }\n')
    return classifier("resnet-like", train_once(tessera, work / "resnet_like", [config]), train, test, "x")


def inverted_residuals(tessera, work):
    train, test = coloured(work)
    config = work / "mobilenet_like.toml"
    mobilenet_like(work / "untrained.onnx")
    config.write_text('output = ""\n' + COLOURED.format(work=work, epochs=12) + f'file = "{work}/untrained.onnx"\n')
    return classifier("mobilenet-like", train_once(tessera, work / "mobilenet_like", [config]), train, test, "x")


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


def passages():
    """(first sentence, the rest) of the paragraphs of docs/ that are long enough."""
    import re
    found = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for paragraph in text.split("\n\n"):
            paragraph = " ".join(paragraph.split())
            if paragraph.startswith(("|", "#", "-")) or len(paragraph) < 200:
                continue
            first, _, rest = paragraph.partition(". ")
            if len(first) > 40 and len(rest) > 100:
                found.append((first, rest))
    return found


def with_float_weights(source, target):
    """MiniLM's file holds int8 weights that it casts and scales as it runs: the same with float weights."""
    import onnx
    from onnx import numpy_helper
    model = onnx.load(source)
    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    made, kept = {}, []
    for node in model.graph.node:
        if node.op_type in ("Cast", "Mul") and all(name in arrays for name in node.input):
            operands = [arrays[name].astype(np.float32) for name in node.input]
            to = [each.i for each in node.attribute if each.name == "to"]
            if node.op_type == "Mul" or to == [onnx.TensorProto.FLOAT]:
                made[node.output[0]] = arrays[node.output[0]] = operands[0] if len(operands) == 1 else np.prod(
                    np.broadcast_arrays(*operands), axis=0)
                continue
        kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    used = {name for node in kept for name in node.input}
    constants = [each for each in model.graph.initializer if each.name in used]
    constants += [numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name) for name, array in made.items()
                  if name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(constants)
    onnx.save(model, target)


def retrieval(tessera, work):
    """MiniLM finds the rest of a paragraph by its first sentence among all: the mean of 1 / rank."""
    model = work / "minilm.onnx"
    with_float_weights(ROOT / ".models" / "minilm_int8" / "model.onnx", model)
    texts = passages()
    lines = work / "texts.txt"
    lines.write_text("\n".join([first for first, _ in texts] + [rest for _, rest in texts]))
    length = 64
    tokenizer = ROOT / ".models" / "minilm_tokenizer" / "tokenizer.json"
    done = subprocess.run([tessera, "tokenize", tokenizer, "--file", lines, "--max-length", str(length), "--json"],
                          check=True, capture_output=True, text=True)
    encoded = [each["ids"][:length] for each in json.loads(done.stdout)["encodings"]]
    ids = np.array([each + [0] * (length - len(each)) for each in encoded], np.int64)
    mask = np.array([[1] * len(each) + [0] * (length - len(each)) for each in encoded], np.int64)
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    batches = [{name: array[i:i + 8] for name, array in inputs.items()} for i in range(0, len(ids), 8)]

    def score(outputs):
        states = np.concatenate(outputs)
        vectors = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        queries, rest = vectors[:len(texts)], vectors[len(texts):]
        likeness = queries @ rest.T
        ranks = (likeness >= likeness.diagonal()[:, None]).sum(1)
        return float((1 / ranks).mean())

    return Task("MiniLM", model, batches[::8][:16], batches, "mean 1 / rank", score)


def tasks(tessera, work):
    """(name, function that makes the task) of all."""
    return [("digits", lambda: trained(tessera, "digits", work)),
            ("mnist5k", lambda: trained(tessera, "mnist5k", work)),
            ("resnet-like", lambda: resnet_like(tessera, work)),
            ("mobilenet-like", lambda: inverted_residuals(tessera, work)),
            ("magika", lambda: magika(work)),
            ("MiniLM", lambda: retrieval(tessera, work)),
            ("PP-OCRv6 rec", lambda: reading(work))]
