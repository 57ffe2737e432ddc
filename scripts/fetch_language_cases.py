#!/usr/bin/env python3
"""Fetches the vocabularies with expected tokens and the chat templates that tests of language models use, from the
pinned source package of llama-cpp-python on PyPI, into .models/language_cases/ (never committed).

Needs only Python and its pip. Safe to interrupt and to repeat: the package is checked against its pinned SHA-256, and
the folder appears whole or not at all.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

from fetch_models import ROOT, sha256_of

PACKAGE = "llama_cpp_python-0.3.36.tar.gz"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
MODELS = "llama_cpp_python-0.3.36/vendor/llama.cpp/models/"
LICENSE = "llama_cpp_python-0.3.36/vendor/llama.cpp/LICENSE"


def is_complete(folder):
    """True when the folder was taken from this package; it appears only when it is whole."""
    try:
        return (folder / "sha256").read_text().strip() == SHA256
    except OSError:
        return False


def download(folder):
    """Downloads the package with pip, so that mirrors, proxies and certificates are pip's own."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:",
               "--disable-pip-version-check", "--retries", "5", "--timeout", "60", "--quiet", "--dest", str(folder),
               "llama-cpp-python==0.3.36"]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        raise SystemExit(f"fetch_language_cases: 'pip download' could not fetch {PACKAGE}: its message stands above")
    path = folder / PACKAGE
    if not path.exists() or sha256_of(path) != SHA256:
        raise SystemExit(f"fetch_language_cases: what pip fetched is not {PACKAGE} with the SHA-256 {SHA256}")
    return path


def extract(package, folder):
    staging = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(staging, ignore_errors=True)
    (staging / "templates").mkdir(parents=True)
    try:
        with tarfile.open(package) as archive:
            for member in archive:
                name = member.name.removeprefix(MODELS)
                wanted = name != member.name and (name.startswith("ggml-vocab-") or name.endswith(".jinja"))
                if not member.isfile() or not (wanted or member.name == LICENSE):
                    continue
                target = staging / ("LICENSE" if member.name == LICENSE else name)
                with archive.extractfile(member) as reader, open(target, "wb") as writer:
                    shutil.copyfileobj(reader, writer)
        (staging / "sha256").write_text(SHA256 + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / ".models", help="where to (default: .models)")
    folder = parser.parse_args().dir / "language_cases"
    if is_complete(folder):
        print("language_cases: present")
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".downloads.", dir=folder.parent) as downloads:
        extract(download(pathlib.Path(downloads)), folder)
    print(f"language_cases: ready in {folder}")


if __name__ == "__main__":
    main()
