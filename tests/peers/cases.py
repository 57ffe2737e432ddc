"""Which models are compared, and on which inputs. A case is (label, {input name: array})."""

import json
import pathlib

import numpy as np
import onnx

import inputs as make

# Made by `tessera new`. The heavy ones run with batch 1 only unless --full.
OWN = [
    "lenet5", "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "vgg16", "unet2d",
    "unet3d", "ssd", "bert_base", "bert_mini", "vit_b_16", "gpt2", "lstm", "dlrm",
]
HEAVY = {"resnet50", "vgg16", "unet2d", "unet3d", "ssd", "bert_base", "vit_b_16", "gpt2"}

# Fetched by scripts/fetch_models.py: name -> file below the models' folder.
REAL = {
    "PP-OCRv6_det_small": "rapidocr/PP-OCRv6_det_small.onnx",
    "PP-OCRv6_rec_small": "rapidocr/PP-OCRv6_rec_small.onnx",
    "ch_ppocr_mobile_v2.0_cls": "rapidocr/ch_ppocr_mobile_v2.0_cls.onnx",
    "silero_vad": "silero_vad/silero_vad.onnx",
    "silero_vad_16k_op15": "silero_vad/silero_vad_16k_op15.onnx",
    "silero_vad_16k_sequence": "silero_vad/silero_vad_16k_sequence.onnx",
    "silero_vad_half": "silero_vad/silero_vad_half.onnx",
    "silero_vad_op18_ifless": "silero_vad/silero_vad_op18_ifless.onnx",
    "magika": "magika/model.onnx",
    "minilm_int8": "minilm_int8/model.onnx",
}


def real_cases(name, path, session, full):
    generator = np.random.default_rng(7)
    if name == "PP-OCRv6_det_small":
        sizes = [(1, 416, 352), (1, 64, 96)] + ([(3, 160, 224), (1, 640, 640)] if full else [(3, 64, 96)])
        return [(f"{b}x3x{h}x{w}", {"x": make.ocr_page(generator, b, h, w)}) for b, h, w in sizes]
    if name == "PP-OCRv6_rec_small":
        sizes = [(1, 320), (1, 197), (3, 197)] + ([(3, 640), (1, 33)] if full else [])
        return [(f"{b}x3x48x{w}", {"x": make.ocr_lines(generator, b, 48, w)}) for b, w in sizes]
    if name == "ch_ppocr_mobile_v2.0_cls":
        return [(f"{b}x3x48x{w}", {"x": make.ocr_lines(generator, b, 48, w)})
                for b, w in [(1, 192), (3, 192), (1, 157)]]
    if name.startswith("silero"):
        return silero_cases(name, session, generator)
    if name == "magika":
        config = json.loads((pathlib.Path(path).parent / "config.min.json").read_text())
        return [(f"{b} files", {"bytes": make.file_features(b, config)}) for b in (1, 3, 5)]
    sizes = [(1, 37), (3, 16)] + ([(3, 128)] if full else [])
    return [(f"{b}x{n} tokens", text_inputs(session, generator, b, n, 30522)) for b, n in sizes]


def silero_cases(name, session, generator):
    """Chunks of speech with 64 (8 kHz: 32) samples of context before them; the state of the second case comes from the
    first."""
    if name == "silero_vad_16k_sequence":
        chunks = make.speech(generator, 1, 9 * 576, 16000).reshape(9, 576)
        return [(f"{n} chunks", {"input": chunks[:n], **{key: np.zeros((1, 1, 128), np.float32) for key in "hc"}})
                for n in (1, 9)]
    wanted = {entry.name for entry in session.get_inputs()}
    cases = []
    for batch, samples, rate in [(1, 576, 16000), (3, 576, 16000), (1, 288, 8000)]:
        if rate == 8000 and name != "silero_vad":
            continue
        state = np.zeros((2, batch, 128), np.float32)
        for step in range(2):
            feed = {
                "input": make.speech(generator, batch, samples, rate), "state": state, "sr": np.array(rate, np.int64)
            }
            feed = {key: value for key, value in feed.items() if key in wanted}
            cases.append((f"{batch} at {rate} Hz, step {step}", feed))
            state = session.run(["stateN"], feed)[0]
    return cases


def text_inputs(session, generator, batch, length, limit):
    feed = {}
    for entry in session.get_inputs():
        if "mask" in entry.name:
            feed[entry.name] = make.attention_mask(batch, length)
        elif "type" in entry.name:
            feed[entry.name] = np.zeros((batch, length), np.int64)
        else:
            feed[entry.name] = make.token_ids(generator, batch, length, limit)
    return feed


def own_cases(name, path, session, full):
    """Inputs by the declared types, names and sizes; a free first dimension takes the batch, other free ones odd
    sizes."""
    graph = onnx.load(path, load_external_data=False).graph
    free = any(isinstance(dim, str) or dim is None for entry in session.get_inputs() for dim in entry.shape)
    batches = [1, 3] if free and (full or name not in HEAVY) else [1]
    lengths = [37, 64] if full else [37]
    cases, seen = [], set()
    for batch in batches:
        for length in lengths:
            generator = np.random.default_rng(11)
            feed = {entry.name: own_input(entry, generator, batch, length, graph) for entry in session.get_inputs()}
            label = ", ".join("x".join(map(str, value.shape)) for value in feed.values())
            if label not in seen:
                cases.append((label if len(label) < 40 else f"batch {batch}, length {length}", feed))
            seen.add(label)
    return cases


def own_input(entry, generator, batch, length, graph):
    shape = []
    for axis, dim in enumerate(entry.shape):
        is_free = isinstance(dim, str) or dim is None
        shape.append(dim if not is_free else batch if axis == 0 else length if len(entry.shape) < 4 else 96)
    if entry.type in ("tensor(int64)", "tensor(int32)"):
        kind = np.int64 if "64" in entry.type else np.int32
        if "mask" in entry.name:
            return make.attention_mask(*shape).astype(kind)
        return make.token_ids(generator, int(np.prod(shape[:-1])), shape[-1],
                              index_limit(graph, entry.name)).reshape(shape).astype(kind)
    if entry.type == "tensor(bool)":
        return generator.random(shape) < 0.7
    if len(shape) >= 4:
        return make.normalised_pictures(generator, *shape)
    return generator.normal(0, 1, shape).astype(np.float32)


def index_limit(graph, name):
    """How many rows the tables have that this input selects from, followed through operators that keep the values."""
    tables = {tensor.name: tensor.dims[0] for tensor in graph.initializer if tensor.dims}
    names, limit = {name}, None
    for node in graph.node:
        if node.op_type == "Gather" and node.input[1] in names and node.input[0] in tables:
            rows = tables[node.input[0]]
            limit = rows if limit is None else min(limit, rows)
        elif node.op_type in {
                "Cast", "Reshape", "Squeeze", "Unsqueeze", "Split", "Slice", "Gather", "Transpose", "Identity"
        } and node.input[0] in names:
            names.update(node.output)
    return 2 if limit is None else limit
