"""The interface of onnxruntime over Tessera: `import tessera.ort as ort`, or `python -m tessera.ort PROGRAM …`.

docs/python.md says what is the same and what is not.
"""

from __future__ import annotations

import logging
from typing import Any

from tessera import _core
from tessera.ort._alias import install
from tessera.ort._devices import (
    AdapterFormat,
    LoraAdapter,
    ModelCompiler,
    OrtArenaCfg,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtEpDevice,
    OrtExecutionProviderDevicePolicy,
    OrtHardwareDevice,
    OrtHardwareDeviceType,
    OrtMemoryInfoDeviceType,
    create_and_register_allocator,
    create_and_register_allocator_v2,
    get_ep_devices,
    has_collective_ops,
    register_execution_provider_library,
    unregister_execution_provider_library,
)
from tessera.ort._messages import LEVELS
from tessera.ort._options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtMemType,
    OrtSparseFormat,
    RunOptions,
    SessionOptions,
    set_global_thread_pool_sizes,
    set_seed,
)
from tessera.ort._session import PROVIDERS, InferenceSession, IOBinding
from tessera.ort._types import ModelMetadata, NodeArg
from tessera.ort._values import OrtDevice, OrtMemoryInfo, OrtValue, OrtValueVector, SparseTensor, copy_tensors
from tessera.ort.capi import onnxruntime_validation

# The version of onnxruntime whose interface this follows; programs compare it.
__version__ = "1.31.1"
package_name, version, cuda_version = "onnxruntime", __version__, ""


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
    if not 0 <= severity < len(LEVELS):
        raise ValueError(f"a severity is from 0 to {len(LEVELS) - 1}, not {severity}")
    logging.getLogger("tessera").setLevel(LEVELS[severity])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Nothing to do: there is one level of details."""


def enable_telemetry_events() -> None:
    """Nothing to do: Tessera sends nothing anywhere."""


def disable_telemetry_events() -> None:
    """Nothing to do: Tessera sends nothing anywhere."""


def preload_dlls(*_: Any, **__: Any) -> None:
    """Nothing to do: there are no libraries of devices to load."""


def print_debug_info() -> None:
    """Prints which versions run, and on what."""
    print(f"{package_name} version: {__version__} (tessera.ort)")
    print(get_build_info())
    print(_core.build_info()["machine"])


SessionIOBinding = IOBinding

__all__ = [
    "AdapterFormat",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "LoraAdapter",
    "ModelCompiler",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType",
    "OrtSparseFormat",
    "OrtValue",
    "OrtValueVector",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "SparseTensor",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "install",
    "onnxruntime_validation",
    "preload_dlls",
    "print_debug_info",
    "register_execution_provider_library",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "unregister_execution_provider_library",
]
