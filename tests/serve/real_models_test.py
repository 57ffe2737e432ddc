#!/usr/bin/env python3
"""Real models behind the server: a picture of a line of text comes back as text, texts come back as vectors. The
configurations are those of docs/serving.md. Models that scripts/fetch_models.py has not fetched are left out.

    real_models_test.py TESSERA
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import server

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / ".models"
FONT = pathlib.Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
sys.path.insert(0, str(ROOT / "scripts" / "demo"))


def documented(name):
    """The configuration that docs/serving.md shows under this file name."""
    text = (ROOT / "docs" / "serving.md").read_text()
    _, _, rest = text.partition(f"# {name}\n")
    return rest.partition("```")[0]


def repository(folder, name, model, *files):
    (folder / name / "1").mkdir(parents=True)
    shutil.copy(model, folder / name / "1" / "model.onnx")
    for file in files:
        shutil.copy(file, folder / name)
    (folder / name / "config.toml").write_text(documented(f"models/{name}/config.toml"))
    return folder


class RealModels(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def test_a_picture_sent_with_curl_comes_back_as_text(self):
        import truetype
        model, curl = MODELS / "rapidocr" / "PP-OCRv6_rec_small.onnx", shutil.which("curl")
        if not (model.exists() and FONT.exists() and curl):
            self.skipTest("no model, font or curl")
        text = "Invoice 2026-11: 3,149.50 EUR (paid)"
        picture = self.folder / "line.png"
        truetype.write_png(picture, *truetype.draw_text(truetype.Font(FONT), text, 64))
        with server.Server(repository(self.folder / "models", "read", model)) as running:
            done = subprocess.run([curl, "-sS", "--data-binary", f"@{picture}", "-H",
                                   "Inference-Header-Content-Length: 0",
                                   f"http://127.0.0.1:{running.port}/v2/models/read/infer"],
                                  capture_output=True, text=True, timeout=60 * server.PATIENCE)
            self.assertEqual(json.loads(done.stdout)["outputs"][0]["data"], [text], done.stderr)
            status, _, answer = running.ask("POST", "/v2/models/read/infer", b"no picture",
                                            {"Inference-Header-Content-Length": "0"})
            self.assertEqual(status, 400)
            self.assertIn(b"no picture that can be decoded", answer)

    def test_texts_of_like_meaning_have_like_vectors(self):
        model, tokenizer = MODELS / "minilm_int8" / "model.onnx", MODELS / "minilm_tokenizer" / "tokenizer.json"
        if not (model.exists() and tokenizer.exists()):
            self.skipTest("no model")
        with server.Server(repository(self.folder / "models", "embed", model, tokenizer)) as running:
            texts = ["how fast is a cheetah", "the speed of big cats", "interest rates of banks"]
            answer = running.json("POST", "/v2/models/embed/infer", {"inputs": [
                {"name": "text", "datatype": "BYTES", "shape": [3], "data": texts}]})
            (output,) = answer["outputs"]
            self.assertEqual(output["shape"], [3, 384])
            vectors = [output["data"][384 * i:384 * (i + 1)] for i in range(3)]
            likeness = lambda a, b: sum(x * y for x, y in zip(vectors[a], vectors[b]))
            self.assertAlmostEqual(likeness(0, 0), 1, 5)
            self.assertGreater(likeness(0, 1), likeness(0, 2) + 0.3)


if __name__ == "__main__":
    server.main()
