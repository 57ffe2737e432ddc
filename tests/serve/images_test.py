#!/usr/bin/env python3
"""Images as inputs of the server: their limit in pixels, sides of any length, turned as EXIF says, and how others fare
beside many large ones. Needs Pillow.

    images_test.py TESSERA
"""
import concurrent.futures
import io
import json
import os
import pathlib
import socket
import statistics
import struct
import tempfile
import threading
import time
import unittest

import numpy
from PIL import Image

import server
from server import Server, lenet_request

MIB = 1 << 20
RAW = {"Inference-Header-Content-Length": "0"}
MOST = 1 << 18  # pixels in these tests


def encoded(image, kind="JPEG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def picture_model(folder, name, **parameters):
    (folder / name).mkdir(parents=True)
    lines = "".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
                    for key, value in parameters.items())
    (folder / name / "config.pbtxt").write_text(f'backend: "tessera_picture"\n{lines}')


def make_repository(folder):
    folder = server.make_repository(folder)
    picture_model(folder, "small", width=24, height=16, scale="none", most_pixels=MOST)
    picture_model(folder, "usual", width=24, height=16)
    for fit in ("stretch", "pad", "width"):
        picture_model(folder, fit, width=640, height=48, fit=fit)
    return folder


class Images(server.WithServer):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = make_repository(pathlib.Path(cls.holder.name) / "models")
        cls.server = Server(cls.folder, config="[limits]\nall_bodies_mib = 64\n")

    def ask(self, model, body):
        status, _, answer = self.server.ask("POST", f"/v2/models/{model}/infer", body, RAW)
        return status, json.loads(answer)

    def outputs(self, model, body):
        status, answer = self.ask(model, body)
        self.assertEqual(status, 200, answer)
        return {output["name"]: numpy.array(output["data"]).reshape(output["shape"]) for output in answer["outputs"]}

    def test_the_limit_in_pixels_is_the_same_for_every_kind(self):
        for kind, mode in (("JPEG", "RGB"), ("JPEG", "L"), ("JPEG", "CMYK"), ("PNG", "RGB"), ("PNG", "L"),
                           ("PNG", "RGBA"), ("PNG", "P"), ("GIF", "P"), ("WEBP", "RGB"), ("BMP", "RGB"),
                           ("TIFF", "RGB"), ("PPM", "RGB")):
            with self.subTest(kind=kind, mode=mode):
                for width, height in ((512, 512), (MOST // 2, 2), (2, MOST // 2)):
                    if max(width, height) > (16383 if kind == "WEBP" else 65000):
                        continue
                    status, answer = self.ask("small", encoded(Image.new(mode, (width, height)), kind))
                    self.assertEqual(status, 200, answer)
                status, answer = self.ask("small", encoded(Image.new(mode, (513, 512)), kind))
                self.assertEqual(status, 413, answer)
                self.assertIn(f"513 x 512 pixels, more than the limit of {MOST} pixels", answer["error"])

    def test_the_header_alone_decides(self):
        """A few bytes that say that they are large take no memory, whatever is behind them."""
        jpeg = encoded(Image.new("RGB", (64, 64)))
        at = jpeg.index(b"\xff\xc0")
        bomb = jpeg[:at + 5] + struct.pack(">HH", 65000, 65000) + jpeg[at + 9:]
        before = self.server.resident_bytes()
        for body in (bomb, server.flat_png(60000, 60000, rows=1), b"P6 65000 65000 255 ", b"GIF89a" + b"\xff" * 400):
            status, answer = self.ask("usual", body)
            self.assertIn(status, (400, 413), answer)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            statuses = set(pool.map(lambda _: self.ask("usual", bomb)[0], range(64)))
        self.assertEqual(statuses, {413})
        self.assertLess(self.server.resident_bytes() - before, 32 * MIB * server.PATIENCE)

    def test_what_is_decoded_counts_with_bodies(self):
        status, answer = self.ask("usual", encoded(Image.new("RGB", (4000, 3000))))
        self.assertEqual(status, 413)
        self.assertIn("all bodies and images together may take 64 MiB", answer["error"])
        body, before, found = encoded(Image.new("RGB", (2000, 1500))), self.server.resident_bytes(), []
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            asked = [pool.submit(self.ask, ("usual", "stretch", "pad", "width")[i % 4], body) for i in range(24)]
            peak = 0
            while any(not each.done() for each in asked):
                peak = max(peak, self.server.resident_bytes())
                time.sleep(0.005)
            found = [each.result()[0] for each in asked]
        self.assertEqual(set(found), {200})
        self.assertLess(peak - before, 120 * MIB * server.PATIENCE)

    def test_tall_and_narrow(self):
        for model in ("small", "stretch", "pad", "width"):
            for width, height in ((48, 560), (5, 3000), (3000, 5), (1, 1), (1, 9000), (9000, 1)):
                for kind in ("JPEG", "PNG"):
                    found = self.outputs(model, encoded(Image.new("RGB", (width, height), "gray"), kind))
                    self.assertEqual(found["size"].tolist(), [height, width])
                    self.assertEqual(found["tensor"].shape[:3], (1, 3, 16 if model == "small" else 48))

    def test_turned_as_a_camera_says(self):
        pixels = numpy.zeros((16, 24, 3), numpy.uint8)
        pixels[:8, :12] = 200
        for orientation, corner in ((1, (0, 0)), (3, (1, 1)), (6, (0, 1)), (8, (1, 0))):
            exif = Image.Exif()
            exif[0x0112] = orientation
            found = self.outputs("small", encoded(Image.fromarray(pixels), "PNG", exif=exif))
            self.assertEqual(found["size"].tolist(), [16, 24] if orientation < 5 else [24, 16])
            halves = found["tensor"][0, 0].reshape(2, 8, 2, 12).mean((1, 3))
            self.assertEqual(numpy.unravel_index(halves.argmax(), (2, 2)), corner, orientation)

    def test_resized_as_by_pillow(self):
        pixels = numpy.random.default_rng(0).integers(0, 256, (100, 130, 3), numpy.uint8)
        image = Image.fromarray(pixels)
        found = self.outputs("small", encoded(image, "PNG"))["tensor"][0].transpose(1, 2, 0)
        expected = numpy.asarray(image.resize((24, 16), Image.Resampling.BILINEAR))
        self.assertLess(numpy.abs(found - expected).max(), 1.1)  # Pillow rounds

    def test_what_is_wrong_is_said(self):
        whole = encoded(Image.new("RGB", (64, 64)))
        for body, text in ((whole[:-200], "cannot read JPEG"), (b"ftypheic", "the first bytes are 66 74"),
                           (encoded(Image.new("P", (9, 9)), "GIF")[:-4], "cannot read GIF")):
            status, answer = self.ask("usual", body)
            self.assertEqual(status, 400)
            self.assertIn("no picture that can be decoded", answer["error"])
            self.assertIn(text, answer["error"])

    def test_clients_that_go_while_their_images_wait(self):
        body = encoded(Image.effect_noise((2300, 2300), 50).convert("RGB"))
        head = f"POST /v2/models/usual/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        head += "Inference-Header-Content-Length: 0\r\n\r\n"
        for _ in range(30):
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=20 * server.PATIENCE) as client:
                client.sendall(head.encode() + body)
        began = time.monotonic()
        self.assertEqual(self.ask("usual", encoded(Image.new("RGB", (64, 64))))[0], 200)
        one = time.monotonic()
        self.assertEqual(self.ask("usual", body)[0], 200)
        # The thirty that nobody waits for are not decoded before it.
        self.assertLess(one - began, 12 * (time.monotonic() - one) + 0.5)


class Beside(unittest.TestCase):
    """Small requests beside many large images and large bodies of JSON."""

    def median_ms(self, running, seconds):
        times, end = [], time.monotonic() + seconds
        body = json.dumps(lenet_request()).encode()
        while time.monotonic() < end:
            began = time.monotonic()
            self.assertEqual(running.ask("POST", "/v2/models/lenet/infer", body)[0], 200)
            self.assertEqual(running.ask("GET", "/v2/health/live")[0], 200)
            times.append((time.monotonic() - began) * 1000)
        return statistics.median(times)

    def test_small_requests_do_not_wait_for_large_images(self):
        image = encoded(Image.linear_gradient("L").resize((4000, 3000)).convert("RGB"))
        rows = json.dumps(lenet_request(0.123456789012345, rows=8)).encode()
        with tempfile.TemporaryDirectory() as folder:
            with Server(make_repository(pathlib.Path(folder) / "models")) as running:
                alone = self.median_ms(running, 2)
                ends, found = threading.Event(), []

                def ask(path, body, headers):
                    os.nice(10)  # what the clients take of the processor is no matter here
                    while not ends.is_set():
                        found.append(running.ask("POST", path, body, headers)[0])

                clients = [threading.Thread(target=ask, args=("/v2/models/usual/infer", image, RAW)) for _ in range(50)]
                clients += [threading.Thread(target=ask, args=("/v2/models/lenet/infer", rows, {})) for _ in range(2)]
                for client in clients:
                    client.start()
                time.sleep(1)
                beside = self.median_ms(running, 4)
                ends.set()
                for client in clients:
                    client.join()
        print(f"median of small requests: {alone:.2f} ms alone, {beside:.2f} ms beside 50 images of 12 megapixels")
        self.assertLessEqual(set(found), {200, 503})
        # The bound is 2 on a machine of its own (see docs/serving.md); a test shares its machine with others.
        self.assertLess(beside, 6 * alone * server.PATIENCE + 5)


if __name__ == "__main__":
    server.main()
