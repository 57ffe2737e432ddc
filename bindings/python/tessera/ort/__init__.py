"""The interface of onnxruntime over Tessera: `import tessera.ort as ort`, or `python -m tessera.ort PROGRAM …`.

docs/python.md says what is the same and what is not.
"""

from __future__ import annotations

import logging
from typing import Any

from tessera import _core
from tessera.ort._alias import install
from tessera.ort._options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtMemType,
    OrtSparseFormat,
    RunOptions,
    SessionOptions,
    set_seed,
)
from tessera.ort._session import PROVIDERS, InferenceSession, IOBinding
from tessera.ort._types import ModelMetadata, NodeArg
from tessera.ort._values import OrtDevice, OrtMemoryInfo, OrtValue, SparseTensor, copy_tensors

# The version of onnxruntime whose interface this follows; programs compare it.
__version__ = "1.31.1"

_LEVELS = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL]


def get_available_providers() -> list[str]:
    return list(PROVIDERS)


def get_all_providers() -> list[str]:
    return list(PROVIDERS)


def get_device() -> str:
    return "CPU"


def get_version_string() -> str:
    return __version__


def get_build_info() -> str:
    info: dict[str, Any] = _core.build_info()
    return f"tessera {info['version']}, {info['compiler']}, build type={info['build_type']}"


def set_default_logger_severity(severity: int) -> None:
    """0: verbose, 1: info, 2: warning, 3: error, 4: fatal; of Python's logger "tessera"."""
    if not 0 <= severity < len(_LEVELS):
        raise ValueError(f"a severity is from 0 to {len(_LEVELS) - 1}, not {severity}")
    logging.getLogger("tessera").setLevel(_LEVELS[severity])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Nothing to do: there is one level of details."""


def enable_telemetry_events() -> None:
    """Nothing to do: Tessera sends nothing anywhere."""


def disable_telemetry_events() -> None:
    """Nothing to do: Tessera sends nothing anywhere."""


def preload_dlls(*_: Any, **__: Any) -> None:
    """Nothing to do: there are no libraries of devices to load."""


__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtDevice",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtSparseFormat",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "SparseTensor",
    "copy_tensors",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "install",
    "preload_dlls",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]
