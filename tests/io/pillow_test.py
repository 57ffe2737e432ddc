#!/usr/bin/env python3
"""Images of every kind, decoded by `tessera run --input` and by Pillow (https://pillow.readthedocs.io): both see the
same pixels, turned the same way, or Tessera refuses the file by name. Needs Pillow, numpy and onnx.

    pillow_test.py TESSERA
"""
import io
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image, ImageOps

program = ""
ORIENTATION = 0x0112


def pattern(height, width, channels, seed=0):
    """A soft gradient with some noise, which lossy formats keep nearly."""
    y, x, c = np.mgrid[:height, :width, :channels]
    noise = np.random.default_rng(seed).integers(0, 6, (height, width, channels))
    return ((40 + 3 * x + 2 * y + 25 * c + noise) % 250).astype(np.uint8).squeeze()


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, color, rows, *chunks):
    """A PNG file of packed rows, with chunks before the data."""
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + b"".join([chunk(b"IHDR", header), *chunks, chunk(b"IDAT", data), chunk(b"IEND", b"")])


def exif(orientation, order=">"):
    mark = b"MM" if order == ">" else b"II"
    return b"Exif\0\0" + mark + struct.pack(order + "HIHHHIHHI", 42, 8, 1, ORIENTATION, 3, 1, orientation, 0, 0)


class Pillow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        for channels in (1, 3, 4):
            info = lambda name: helper.make_tensor_value_info(name, TensorProto.UINT8, ["h", "w", channels])
            graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [info("x")], [info("y")])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
            model.ir_version = 8
            onnx.save(model, cls.folder / f"{channels}.onnx")

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def run_tessera(self, data, channels):
        picture, out = self.folder / "image.img", self.folder / "out.npz"
        picture.write_bytes(data)
        done = subprocess.run([program, "run", self.folder / f"{channels}.onnx", "--input", f"x={picture}", "--outputs",
                               out], capture_output=True, text=True, timeout=120)
        return done, (np.load(out)["y"] if done.returncode == 0 else None)

    def same(self, data, mode="RGB", tolerance=0, expected=None):
        if expected is None:
            expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert(mode))
        done, found = self.run_tessera(data, {"L": 1, "RGB": 3, "RGBA": 4}[mode])
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = expected.reshape(expected.shape[0], expected.shape[1], -1)
        self.assertEqual(found.shape, expected.shape)
        difference = np.abs(found.astype(int) - expected.astype(int))
        self.assertLessEqual(difference.max(), tolerance, f"mean {difference.mean()}")

    def refused(self, text, data):
        done, _ = self.run_tessera(data, 3)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(text, done.stderr)

    def test_png(self):
        for image in (Image.fromarray(pattern(19, 23, 1)), Image.fromarray(pattern(19, 23, 3)),
                      Image.fromarray(pattern(19, 23, 4), "RGBA"), Image.fromarray(pattern(19, 23, 1)).convert("1"),
                      Image.fromarray(pattern(19, 23, 1)).convert("LA"),
                      Image.fromarray(pattern(19, 23, 3)).quantize(7)):
            with self.subTest(mode=image.mode):
                self.same(encoded(image, "PNG"))
                self.same(encoded(image, "PNG"), "RGBA")
        palette = Image.fromarray(pattern(19, 23, 3)).quantize(9)
        self.same(encoded(palette, "PNG", transparency=3), "RGBA")
        self.same(encoded(palette, "PNG", transparency=bytes(range(0, 225, 25))), "RGBA")
        self.same(encoded(palette, "PNG", transparency=3), "RGB")
        self.same(encoded(Image.fromarray(pattern(9, 9, 1)), "PNG", transparency=70), "RGBA")

    def test_png_of_other_depths_and_with_gamma(self):
        pixels = pattern(5, 8, 3)
        rows = [row.tobytes() for row in pixels]
        for gamma in (100000, 45455, 22000):
            self.same(png(8, 5, 8, 2, rows, chunk(b"gAMA", struct.pack(">I", gamma))))
        for bits in (1, 2, 4):
            packed = [bytes((17 * x + 40 * y) % 256 for x in range(bits)) for y in range(5)]
            self.same(png(8, 5, bits, 0, packed), "L")
            colors = bytes(range(3 * (1 << bits)))
            self.same(png(8, 5, bits, 3, packed, chunk(b"PLTE", colors)))
        deep = np.arange(5 * 8 * 3, dtype=np.uint16).reshape(5, 8, 3) * 521
        rows = [row.astype(">u2").tobytes() for row in deep]
        self.same(png(8, 5, 16, 2, rows), tolerance=1)  # rounded here, cut off there
        grey = [row[:, 0].astype(">u2").tobytes() for row in deep]
        # Pillow clips 16 bits of grey at 255 instead of scaling them.
        self.same(png(8, 5, 16, 0, grey), "L", tolerance=1, expected=deep[:, :, 0] >> 8)

    def test_interlaced_png(self):
        pixels = pattern(8, 8, 1)
        passes = []
        for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
                               (0, 1, 1, 2)):
            passes += [b"\0" + row.tobytes() for row in pixels[y0::dy, x0::dx]]
        header = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 1)
        file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(passes)))
        self.same(file + chunk(b"IEND", b""), "L", expected=pixels)

    def test_jpeg(self):
        color = Image.fromarray(pattern(37, 51, 3))
        for options in ({}, {"progressive": True}, {"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2},
                        {"quality": 30}, {"restart_marker_blocks": 2}, {"optimize": True}, {"keep_rgb": True}):
            with self.subTest(**options):
                self.same(encoded(color, "JPEG", **options), tolerance=2)
        self.same(encoded(color.convert("L"), "JPEG"), "L", tolerance=1)
        self.same(encoded(color.convert("L"), "JPEG", progressive=True), tolerance=1)

    def test_jpeg_of_inks(self):
        inks = Image.fromarray(pattern(37, 51, 4), "CMYK")
        for options in ({}, {"progressive": True}, {"subsampling": 0}):
            file = encoded(inks, "JPEG", **options)
            self.assertIn(b"Adobe", file[:64])
            self.same(file, tolerance=3)
            at = file.index(b"\xff\xee")  # Adobe's marker: the values stay inverted without it
            self.same(file[:at] + file[at + 16:], tolerance=3)
            # YCCK: the same samples under the other transform.
            self.same(file[:at + 15] + b"\2" + file[at + 16:], tolerance=3)

    def test_gif(self):
        color = Image.fromarray(pattern(37, 51, 3))
        palette = color.quantize(200)
        for options in ({}, {"interlace": 0}, {"interlace": 1}, {"transparency": 5}):
            with self.subTest(**options):
                self.same(encoded(palette, "GIF", **options))
                self.same(encoded(palette, "GIF", **options), "RGBA")
        frames = [Image.fromarray(pattern(20, 20, 3, seed)).quantize(16) for seed in range(3)]
        self.same(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]))

    def test_webp_tiff_and_bmp(self):
        color = Image.fromarray(pattern(37, 51, 3))
        self.same(encoded(color, "WEBP", lossless=True))
        self.same(encoded(color, "WEBP", quality=80), tolerance=3)
        self.same(encoded(Image.fromarray(pattern(37, 51, 4), "RGBA"), "WEBP", lossless=True, exact=True), "RGBA")
        for compression in (None, "tiff_lzw", "tiff_deflate", "packbits"):
            self.same(encoded(color, "TIFF", compression=compression))
        for image in (color, color.convert("L"), color.convert("1"), color.quantize(16)):
            self.same(encoded(image, "BMP"))
            self.same(encoded(image, "TIFF"))

    def test_orientation(self):
        color = Image.fromarray(pattern(24, 40, 3))
        for value in range(1, 9):
            for order in "<>":
                note = exif(value, order)
                self.same(encoded(color, "JPEG", exif=note), tolerance=2)
                self.same(encoded(color, "PNG", exif=note))
                self.same(encoded(color, "WEBP", exif=note, lossless=True))
            self.same(encoded(color, "TIFF", tiffinfo={ORIENTATION: value}))
        inks = Image.fromarray(pattern(24, 40, 4), "CMYK")
        self.same(encoded(inks, "JPEG", exif=exif(6)), tolerance=3)
        for note in (exif(0), exif(9), exif(6)[:-9], b"Exif\0\0", b"Exif\0\0MM\0\x2a\xff\xff\xff\xff", exif(6)[:8]):
            file = encoded(color, "JPEG", exif=note)
            self.same(file, tolerance=2, expected=np.asarray(Image.open(io.BytesIO(file)).convert("RGB")))

    def test_tall_and_narrow(self):
        for width, height in ((48, 560), (5, 3000), (3000, 5), (1, 1), (1, 9000)):
            color = Image.fromarray(pattern(height, width, 3).reshape(height, width, 3))
            for kind in ("JPEG", "PNG", "GIF"):
                self.same(encoded(color.quantize(50) if kind == "GIF" else color, kind), tolerance=2)

    def test_what_is_refused_is_named(self):
        frames = [Image.fromarray(pattern(20, 20, 3, seed)) for seed in range(2)]
        self.refused("animated WebP is not supported", encoded(frames[0], "WEBP", save_all=True,
                                                               append_images=frames[1:]))
        self.refused("the first bytes are 66 74 79 70", b"ftypheic")
        self.refused("cannot read GIF", encoded(frames[0].quantize(9), "GIF")[:-200])
        jpeg = encoded(frames[0], "JPEG")
        at = jpeg.index(b"\xff\xc0")
        self.refused("precision 12", jpeg[:at + 4] + b"\x0c" + jpeg[at + 5:])
        self.refused("0xc3", jpeg[:at + 1] + b"\xc3" + jpeg[at + 2:])
        self.refused("65000 x 65000 pixels, more than the limit",
                     jpeg[:at + 5] + struct.pack(">HH", 65000, 65000) + jpeg[at + 9:])


if __name__ == "__main__":
    program = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
