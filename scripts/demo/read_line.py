#!/usr/bin/env python3
"""Draws lines of text, lets PP-OCR's recognition model read them through `tessera run`, and compares.

read_line.py TESSERA MODELS WORK [TEXT …]: exit 1 when a line is read otherwise than it was drawn.
"""

import array
import pathlib
import subprocess
import sys

import npz
import truetype

FONT_FOLDER = pathlib.Path("/usr/share/fonts/truetype/dejavu")
LINES = [
    ("DejaVuSans.ttf", "Tessera reads this line in 48 pixels"),
    ("DejaVuSerif.ttf", "Invoice 2026-11: 3,149.50 EUR (paid)"),
]
HEIGHT = 48  # the model's own height of a line, in pixels


def characters_of(model):
    """The dictionary that the model carries: metadata_props (field 14 of ModelProto), key 'character', one a line.

    Class 0 is the blank of CTC, the last class is a space.
    """
    data = model.read_bytes()
    for field, value in _fields(data):
        if field == 14:
            entry = dict(_fields(value))
            if entry[1] == b"character":
                return [""] + entry[2].decode().splitlines() + [" "]
    raise ValueError(f"{model} carries no dictionary")


def _fields(data):
    """(number, value) of each field of a protobuf message; length-delimited values as bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = varint() if kind == 2 else {1: 8, 5: 4}[kind]
            value = data[at:at + size]
            at += size
        yield key >> 3, value


def model_input(rows):
    """[1, 3, height, width], three equal channels, (x / 255 - 0.5) / 0.5."""
    plane = array.array("f", ((value / 255 - 0.5) / 0.5 for row in rows for value in row))
    return (1, 3, len(rows), len(rows[0])), plane * 3


def decode(shape, values, characters):
    """Greedy CTC: the best class a position, repeats merged, blanks dropped. Returns text and mean probability."""
    _, steps, classes = shape
    if classes != len(characters):
        raise ValueError(f"{classes} classes, but {len(characters)} characters")
    text, probabilities, before = "", [], 0
    for step in range(steps):
        row = values[step * classes:(step + 1) * classes]
        probability = max(row)
        best = row.index(probability)
        if best not in (0, before):
            text += characters[best]
            probabilities.append(probability)
        before = best
    return text, sum(probabilities) / len(probabilities) if probabilities else 0.0


def read_line(tessera, model, characters, work, font, text, name):
    width, height, rows = truetype.draw_text(truetype.Font(FONT_FOLDER / font), text, HEIGHT)
    picture, inputs, outputs = work / f"{name}.png", work / f"{name}_in.npz", work / f"{name}_out.npz"
    truetype.write_png(picture, width, height, rows)
    npz.write_npz(inputs, {"x": model_input(rows)})
    subprocess.run([tessera, "run", model, "--inputs", inputs, "--outputs", outputs], check=True,
                   stdout=subprocess.DEVNULL)
    (result,) = npz.read_npz(outputs).values()
    read, probability = decode(*result, characters)
    print(f"  picture  {picture} ({width}x{height}, {font})")
    print(f"  drawn    {text}")
    print(f"  read     {read}    (mean probability {probability:.3f}) {'right' if read == text else 'WRONG'}")
    return read == text


def main():
    tessera, models, work = (pathlib.Path(argument) for argument in sys.argv[1:4])
    model = models / "rapidocr" / "PP-OCRv6_rec_small.onnx"
    lines = [("DejaVuSans.ttf", text) for text in sys.argv[4:]] or LINES
    work.mkdir(parents=True, exist_ok=True)
    characters = characters_of(model)
    right = [read_line(tessera, model, characters, work, *line, f"line{i}") for i, line in enumerate(lines)]
    print(f"  {sum(right)} of {len(right)} lines read right")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
