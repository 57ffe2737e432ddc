"""The names that programs take from onnxruntime.capi.onnxruntime_validation."""

from __future__ import annotations


def check_distro_info() -> None:
    """Nothing to check: Tessera runs where its package could be installed."""


def check_training_module() -> tuple[None, bool, str, str, str]:
    """There is no module onnxruntime.training."""
    return (None, False, *get_package_name_and_version_info())


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """The package, its version, and the version of CUDA, which is none."""
    from tessera.ort import __version__

    return "onnxruntime", __version__, ""


__all__ = ["check_distro_info", "check_training_module", "get_package_name_and_version_info"]
