"""The models that are measured, their inputs, and their forms for the peers."""
import dataclasses
import json
import logging
import pathlib
import shutil
import subprocess
import sys
import types

import numpy as np
import onnx
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "peers"))
import cases  # noqa: E402
import inputs as make  # noqa: E402
from saturation import peers_saturate  # noqa: E402


class Problem(Exception):
    """A model cannot be made here; the text says why."""


@dataclasses.dataclass
class Model:
    """`write(path, batch)` writes the float32 model; `feeds(path, batch)` gives its inputs. `batches` is None where any
    batch will do."""
    name: str
    write: object
    feeds: object
    batches: tuple | None = None
    quantised: bool = False  # as it comes
    operations: int = 0  # of a run of batch 1 of a single layer, computed directly; 0 where nobody counts them


def tessera_models(tessera):
    dims = {"bert_base": {"seq": 128}, "bert_mini": {"seq": 128}, "gpt2": {"seq": 64}, "lstm": {"time": 200}}
    batches = {"dlrm": (256,), "ssd": (1,)}

    def write(name):
        def run(path, batch):
            fixed = {"batch": batch, **dims.get(name, {})}
            options = [word for key, value in fixed.items() for word in ("--dim", f"{key}={value}")]
            subprocess.run([tessera, "new", name, "-o", path, *options], check=True, capture_output=True)
        return run

    return [Model(name, write(name), own_feeds, batches.get(name)) for name in cases.OWN]


def own_feeds(path, batch):
    return graph_feeds(onnx.load(path, load_external_data=False).graph, batch)


def graph_feeds(graph, batch):
    initializers = {value.name for value in graph.initializer}
    feeds = {}
    for value in graph.input:
        if value.name in initializers:
            continue
        kind = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        name = {"float32": "float", "float16": "float16", "float64": "double"}.get(dtype.name, dtype.name)
        shape = [dim.dim_value if dim.dim_value > 0 else None for dim in kind.shape.dim]
        feeds[value.name] = cases.own_input(types.SimpleNamespace(name=value.name, type=f"tensor({name})", shape=shape),
                                            np.random.default_rng(11), batch, 64, graph)
    return feeds


def real_models(folder):
    """Those of scripts/fetch_models.py; a file that has not been fetched is a Problem when it is written."""
    generator = np.random.default_rng(7)

    def magika(path, batch):
        config = json.loads((folder / "magika" / "config.min.json").read_text())
        rows = make.file_features(5, config)
        return {"bytes": rows[np.arange(batch) % len(rows)]}

    def silero(path, batch):
        return {
            "input": make.speech(generator, batch, 576, 16000), "state": np.zeros((2, batch, 128), np.float32),
            "sr": np.array(16000, np.int64)
        }

    def minilm(path, batch):
        names = [value.name for value in onnx.load(path).graph.input]
        return {
            name: make.attention_mask(batch, 128) if "mask" in name else np.zeros(
                (batch, 128), np.int64) if "type" in name else make.token_ids(generator, batch, 128, 30522)
            for name in names
        }

    feeds = {
        "PP-OCRv6_det_small": lambda path, batch: {"x": make.ocr_page(generator, batch, 640, 640)},
        "PP-OCRv6_rec_small": lambda path, batch: {"x": make.ocr_lines(generator, batch, 48, 320)},
        "ch_ppocr_mobile_v2.0_cls": lambda path, batch: {"x": make.ocr_lines(generator, batch, 48, 192)},
        "silero_vad": silero, "magika": magika, "minilm_int8": minilm,
    }

    def write(name):
        def run(path, batch):
            source = folder / cases.REAL[name]
            if not source.exists():
                raise Problem(f"{source} is not there: run scripts/fetch_models.py")
            # onnxruntime refuses it with fixed shapes: a branch that then is not taken does not fit them
            if name == "silero_vad":
                shutil.copyfile(source, path)
            else:
                write_fixed(source, feeds[name](source, batch), path)
        return run

    return [Model(name, write(name), make_feeds, quantised=name == "minilm_int8") for name, make_feeds in feeds.items()]


def write_fixed(source, feeds, path):
    """The model with the shapes of these inputs, so that every program may plan for them."""
    model = onnx.load(source)
    graph = model.graph
    for value in graph.input:
        if value.name in feeds:
            del value.type.tensor_type.shape.dim[:]
            for size in feeds[value.name].shape:
                value.type.tensor_type.shape.dim.add().dim_value = size
    del graph.value_info[:]
    for value in graph.output:  # what was symbolic is left to be inferred
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    onnx.save(model, path)


def file_model(path, dims):
    """Any .onnx file: free dimensions take --dim, else the batch for the first and 64 or 96 for others, as
    tests/peers/cases.py has it."""
    source = pathlib.Path(path)

    def feeds(_, batch):
        graph = onnx.load(source, load_external_data=False).graph
        for value in graph.input:
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param in dims:
                    dim.dim_value = dims[dim.dim_param]
        return graph_feeds(graph, batch)

    def write(target, batch):
        if not source.exists():
            raise Problem(f"there is no file {source}")
        write_fixed(source, feeds(source, batch), target)

    return Model(source.stem, write, feeds)


# DeepBench (github.com/baidu-research/DeepBench): products (M, N, K) with the M x K side constant, and convolutions
# (channels, height, width, outputs, kernel height and width, pad, stride, groups) of its inference and training lists.
# Before its products, squares.
PRODUCTS = [(512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (1760, 16, 1760),
            (1760, 128, 1760), (5124, 700, 2048), (35, 700, 2048), (3072, 1500, 1024), (512, 8, 50000)]
CONVOLUTIONS = [
    (1, 161, 700, 32, 5, 20, 0, 2, 1),
    (32, 79, 341, 32, 5, 10, 0, 2, 1),
    (16, 24, 240, 32, 3, 3, 1, 1, 1),
    (3, 108, 108, 64, 3, 3, 1, 2, 1),
    (64, 54, 54, 64, 3, 3, 1, 1, 1),
    (128, 27, 27, 128, 3, 3, 1, 1, 1),
    (128, 14, 14, 256, 3, 3, 1, 1, 1),
    (256, 7, 7, 512, 3, 3, 1, 1, 1),
    (3, 224, 224, 64, 7, 7, 3, 2, 1),
    (64, 112, 112, 128, 3, 3, 1, 1, 1),
    (192, 28, 28, 32, 5, 5, 2, 1, 1),
    (192, 28, 28, 64, 1, 1, 0, 1, 1),
    (512, 14, 14, 192, 1, 1, 0, 1, 1),
    (832, 7, 7, 256, 1, 1, 0, 1, 1),
    (96, 112, 112, 96, 3, 3, 1, 1, 96),
]


def one_node(path, op, x_shape, weight, **attributes):
    graph = helper.make_graph([helper.make_node(op, ["x", "w"], ["y"], name=op, **attributes)], op,
                              [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x_shape)],
                              [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(weight.astype(np.float32), "w")])
    onnx.save(
        onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)), path)


def normal(*shape):
    """Weights that keep the scale of what goes through them."""
    return np.random.default_rng(3).normal(0, np.prod(shape[1:] if len(shape) == 4 else shape[:1]) ** -0.5, shape)


def deep_bench_models():
    def product(m, n, k):
        return Model(f"gemm_{m}x{n}x{k}", lambda path, batch: one_node(path, "MatMul", [n, k], normal(k, m)), own_feeds,
                     (1, ), operations=2 * m * n * k)

    def convolution(c, h, w, k, kh, kw, pad, stride, group):
        name = f"conv_{c}x{h}x{w}_{k}_{kh}x{kw}" + (f"_s{stride}" if stride > 1 else "") + (f"_g{group}"
                                                                                            if group > 1 else "")
        positions = ((h + 2 * pad - kh) // stride + 1) * ((w + 2 * pad - kw) // stride + 1)
        return Model(
            name, lambda path, batch: one_node(path, "Conv", [batch, c, h, w], normal(k, c // group, kh, kw), pads=
                                               [pad] * 4, strides=[stride, stride], group=group), own_feeds,
            operations=2 * positions * k * c // group * kh * kw)

    return [product(*shape) for shape in PRODUCTS] + [convolution(*shape) for shape in CONVOLUTIONS]


def quantise(source, target, make_feeds):
    """Static 8-bit QDQ by onnxruntime.quantization: activations u8, weights i8 by channel (of 7 bits where peers would
    saturate), ranges from four seeded random inputs."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Calibration(quantization.CalibrationDataReader):
        def __init__(self):
            generator = np.random.default_rng(5)
            given = make_feeds()
            self.feeds = iter([{
                name: value +
                generator.normal(0, 0.1, value.shape).astype(value.dtype) if value.dtype == np.float32 else value
                for name, value in given.items()
            } for _ in range(4)])

        def get_next(self):
            return next(self.feeds, None)

    logging.getLogger().setLevel(logging.ERROR)  # it warns of every weight that has no channels
    prepared = pathlib.Path(target).with_suffix(".prepared.onnx")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantization.quantize_static(str(prepared), str(target), Calibration(), quant_format=quantization.QuantFormat.QDQ,
                                 per_channel=True, reduce_range=peers_saturate(),
                                 activation_type=quantization.QuantType.QUInt8,
                                 weight_type=quantization.QuantType.QInt8)
    prepared.unlink()
