"""Seeded inputs that look like what the models were made for: pictures, text, speech, token ids."""

import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "demo"))
import file_types  # noqa: E402
import truetype  # noqa: E402

FONT = pathlib.Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
IMAGENET_MEAN, IMAGENET_STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def smooth_field(generator, shape, coarse=6):
    """Values in 0–1 over any number of axes: random values on a coarse grid, linearly interpolated, with a little
    noise."""
    field = generator.random([coarse] * len(shape))
    for axis, size in enumerate(shape):
        at = np.linspace(0, coarse - 1, size)
        low = np.minimum(at.astype(int), coarse - 2)
        weight = (at - low).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        field = np.take(field, low, axis) * (1 - weight) + np.take(field, low + 1, axis) * weight
    return np.clip(field + generator.normal(0, 0.02, shape), 0, 1)


def pictures(generator, batch, channels, *spatial):
    """[batch, channels, *spatial] in 0–1: a smooth field a channel with a few sharp-edged boxes on it."""
    result = np.empty((batch, channels, *spatial))
    for picture in result:
        for channel in picture:
            channel[...] = smooth_field(generator, spatial)
        for _ in range(4):
            begin = [generator.integers(0, max(1, size - size // 3)) for size in spatial]
            box = tuple(slice(b, b + max(1, size // 4)) for b, size in zip(begin, spatial))
            picture[(slice(None), *box)] = generator.random(channels).reshape([-1] + [1] * len(spatial))
    return result


def normalised_pictures(generator, batch, channels, *spatial):
    values = pictures(generator, batch, channels, *spatial)
    if channels == 3:
        per_channel = (1, 3) + (1,) * len(spatial)
        values = (values - IMAGENET_MEAN.reshape(per_channel)) / IMAGENET_STD.reshape(per_channel)
    else:
        values = (values - 0.5) / 0.5
    return values.astype(np.float32)


def text_pictures(generator, batch, height, width, rows=1):
    """[batch, 3, height, width] in 0–1: lines of real text on a tinted ground."""
    words = ("model tensor 2026 batch stride Graph KERNEL plan 3.14 arena shape queue, (depth) value: "
             "north & south").split()
    font = truetype.Font(FONT)
    result = np.empty((batch, 3, height, width))
    for picture in result:
        picture[...] = 0.75 + 0.25 * smooth_field(generator, (height, width))
        for row in range(rows):
            band = height // rows
            drawn = truetype.draw_text(font, " ".join(generator.choice(words, 8)), min(48, band))
            ink = np.frombuffer(b"".join(drawn[2]), np.uint8).reshape(drawn[1], drawn[0])[:, :width] / 255
            picture[:, row * band:row * band + ink.shape[0], :ink.shape[1]] *= ink
    return result


def ocr_lines(generator, batch, height, width):
    return ((text_pictures(generator, batch, height, width) - 0.5) / 0.5).astype(np.float32)


def ocr_page(generator, batch, height, width):
    values = text_pictures(generator, batch, height, width, rows=max(1, height // 64))
    return ((values - IMAGENET_MEAN.reshape(1, 3, 1, 1)) / IMAGENET_STD.reshape(1, 3, 1, 1)).astype(np.float32)


def speech(generator, batch, samples, rate):
    """Voiced sound: harmonics of a gliding pitch under a syllable-like envelope, and breath noise."""
    time = np.arange(samples) / rate
    result = np.empty((batch, samples))
    for row in result:
        pitch = generator.uniform(90, 220) * (1 + 0.1 * np.sin(2 * np.pi * 3 * time))
        phase = 2 * np.pi * np.cumsum(pitch) / rate
        voice = sum(np.sin(k * phase + generator.uniform(0, 6)) / k for k in range(1, 12))
        row[:] = 0.2 * voice * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * time)) + generator.normal(0, 0.01, samples)
    return result.astype(np.float32)


def file_features(batch, config):
    """Magika's features of the first `batch` of this repository's own files."""
    names = ["CMakeLists.txt", "scripts/setup.sh", "scripts/fetch_models.py", "src/ir/graph.cpp", "CMakePresets.json"]
    return np.array([file_types.features(ROOT / name, config) for name in names[:batch]], np.int32)


def token_ids(generator, batch, length, limit):
    """Ids as frequent words come: small ids often, large ones seldom."""
    ids = np.exp(generator.uniform(0, np.log(max(2, limit)), (batch, length))).astype(np.int64)
    return np.minimum(ids, limit - 1)


def attention_mask(batch, length):
    """Ones, but row i ends i * 3 positions early, as padded batches do."""
    mask = np.ones((batch, length), np.int64)
    for row in range(1, batch):
        mask[row, max(1, length - 3 * row):] = 0
    return mask
