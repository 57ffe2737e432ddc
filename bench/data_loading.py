#!/usr/bin/env python3
"""Compares how fast small picture files load for training: Tessera's loader and torch's DataLoader.

    bench/train_parity.py --setup                    # once: .venv-parity with the pinned torch and pillow
    bench/data_loading.py                            # 100,000 PNG files of 32x32 in 10 folders

Both read, decode and batch every file once in random order, with as many workers (threads here, processes in torch),
from a warm file cache. The torch side is the usual one: a Dataset that opens each file with pillow and makes a float
tensor of it. Ratio = samples per second here / there, the median over rounds in which both run one after the other;
start-up of the workers and the listing of the folder count on both sides. Exit status 1 below --bound.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

import train_parity
from built import ensure_built

ROOT = train_parity.ROOT
CLASSES, SIZE = 10, 32


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--batch", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--bound", type=float, default=1.5, help="least ratio (default: %(default)s)")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bench/bench_data_loading")
    parser.add_argument("--folder", type=pathlib.Path,
                        help="of the files, made there if absent (default: a temporary one)")
    parser.add_argument("--torch-only", type=pathlib.Path, metavar="FOLDER", help=argparse.SUPPRESS)
    return parser.parse_args()


def png(pixels):
    """An RGB picture of SIZE x SIZE as the bytes of a file."""

    def chunk(kind, body):
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    header = SIZE.to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    rows = b"".join(b"\0" + pixels[y * SIZE * 3:(y + 1) * SIZE * 3] for y in range(SIZE))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")


def make_files(folder, count):
    import numpy as np
    random = np.random.default_rng(0)
    for label in range(CLASSES):
        (folder / f"class{label}").mkdir(parents=True, exist_ok=True)
    for i in range(count):
        # Smooth pictures with some noise compress about as photographs do.
        coarse = random.integers(0, 256, (4, 4, 3)).repeat(8, 0).repeat(8, 1)
        pixels = np.clip(coarse + random.integers(-8, 9, (SIZE, SIZE, 3)), 0, 255).astype(np.uint8)
        (folder / f"class{i % CLASSES}" / f"{i:06}.png").write_bytes(png(pixels.tobytes()))


def run_torch(folder, batch, workers):
    """Prints the figures of one pass through torch's DataLoader."""
    import numpy as np
    import torch
    from PIL import Image

    class Pictures(torch.utils.data.Dataset):

        def __init__(self):
            names = sorted(path for path in folder.iterdir() if path.is_dir())
            self.files = [(str(entry), label) for label, name in enumerate(names) for entry in sorted(name.iterdir())]

        def __len__(self):
            return len(self.files)

        def __getitem__(self, index):
            path, label = self.files[index]
            with open(path, "rb") as file:
                picture = np.asarray(Image.open(file).convert("RGB"))
            return torch.from_numpy(picture.copy()).permute(2, 0, 1).contiguous().float().div_(255), label

    torch.set_num_threads(1)
    begin = time.perf_counter()
    samples = 0
    for x, _ in torch.utils.data.DataLoader(Pictures(), batch, shuffle=True, num_workers=workers):
        samples += len(x)
    seconds = time.perf_counter() - begin
    print(json.dumps({"samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


def measured(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"data_loading: error: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main():
    arguments = parse()
    if pathlib.Path(sys.prefix) != train_parity.VENV and (train_parity.VENV / "bin/python").exists():
        os.execv(train_parity.VENV / "bin/python", [str(train_parity.VENV / "bin/python"), *sys.argv])
    if arguments.torch_only:
        return run_torch(arguments.torch_only, arguments.batch, arguments.workers)
    ensure_built(arguments.program)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or pathlib.Path(temporary) / "files"
        if not folder.exists():
            print(f"writing {arguments.files} files", flush=True)
            make_files(folder, arguments.files)
        options = [str(arguments.batch), str(arguments.workers)]
        ratios = []
        for _ in range(arguments.rounds):
            ours = measured([arguments.program, folder, *options])
            theirs = measured([sys.executable, __file__, "--torch-only", folder, "--batch", options[0], "--workers",
                               options[1]])
            if ours["samples"] != theirs["samples"] or ours["skipped"] != 0:
                sys.exit(f"data_loading: error: {ours['samples']} samples here ({ours['skipped']} skipped), "
                         f"{theirs['samples']} there")
            ratios.append(ours["samples_per_s"] / theirs["samples_per_s"])
            print(f"Tessera {ours['samples_per_s']:8.0f} samples/s, torch {theirs['samples_per_s']:8.0f}, "
                  f"ratio {ratios[-1]:.2f}", flush=True)
    ratio = statistics.median(ratios)
    print(f"median ratio {ratio:.2f} with {arguments.workers} workers")
    return 0 if ratio >= arguments.bound else 1


if __name__ == "__main__":
    sys.exit(main())
