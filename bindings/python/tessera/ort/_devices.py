"""Devices, allocators and providers as onnxruntime describes them: here there is the CPU, and one allocator."""

from __future__ import annotations

import enum
from typing import Any

from tessera import _core
from tessera.ort._errors import NotImplemented as Unsupported
from tessera.ort._options import OrtAllocatorType, OrtMemType, warn_once
from tessera.ort._values import OrtMemoryInfo


class OrtDeviceVendorId(enum.IntEnum):
    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtHardwareDeviceType(enum.IntEnum):
    CPU = 0
    GPU = 1
    NPU = 2


class OrtMemoryInfoDeviceType(enum.IntEnum):
    CPU = 0
    GPU = 1
    NPU = 2
    FPGA = 3


class OrtDeviceMemoryType(enum.IntEnum):
    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtExecutionProviderDevicePolicy(enum.IntEnum):
    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class OrtHardwareDevice:
    """The CPU."""

    type = OrtHardwareDeviceType.CPU
    vendor_id = 0
    device_id = 0

    @property
    def vendor(self) -> str:
        return str(_core.build_info()["machine"])

    @property
    def metadata(self) -> dict[str, str]:
        return {}


class OrtEpDevice:
    """Tessera on the CPU, under the name of onnxruntime's provider for it."""

    ep_name = "CPUExecutionProvider"
    ep_vendor = "Tessera"

    @property
    def ep_metadata(self) -> dict[str, str]:
        return {"version": str(_core.__version__)}

    @property
    def ep_options(self) -> dict[str, str]:
        return {}

    @property
    def device(self) -> OrtHardwareDevice:
        return OrtHardwareDevice()

    def memory_info(self, memory_type: Any = OrtDeviceMemoryType.DEFAULT) -> OrtMemoryInfo:
        return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, OrtMemType.DEFAULT)


def get_ep_devices() -> list[OrtEpDevice]:
    return [OrtEpDevice()]


class OrtArenaCfg:
    """Sizes of an arena: kept, and without meaning here, where plans say how much memory there has to be."""

    def __init__(self, *sizes: Any, **named: Any) -> None:
        fields = ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk")
        given = dict(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], dict) else dict(zip(fields, sizes))
        given.update(named)
        self.max_mem = int(given.get("max_mem", 0))
        self.arena_extend_strategy = int(given.get("arena_extend_strategy", -1))
        self.initial_chunk_size_bytes = int(given.get("initial_chunk_size_bytes", -1))
        self.max_dead_bytes_per_chunk = int(given.get("max_dead_bytes_per_chunk", -1))
        self.initial_growth_chunk_size_bytes = int(given.get("initial_growth_chunk_size_bytes", -1))
        self.max_power_of_two_extend_bytes = int(given.get("max_power_of_two_extend_bytes", -1))


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None = None) -> None:
    """Changes nothing: all sessions of a process share memory between runs anyway. Warns once."""
    warn_once("create_and_register_allocator: all sessions share one allocator")


def create_and_register_allocator_v2(
    provider_type: str, mem_info: OrtMemoryInfo, options: dict[str, str], arena_cfg: OrtArenaCfg | None = None
) -> None:
    """The same."""
    create_and_register_allocator(mem_info, arena_cfg)


def has_collective_ops() -> bool:
    return False


def register_execution_provider_library(registration_name: str, library_path: str) -> None:
    raise Unsupported(f"tessera.ort cannot load the provider '{registration_name}' ({library_path})")


def unregister_execution_provider_library(registration_name: str) -> None:
    raise Unsupported(f"tessera.ort has no provider '{registration_name}' from a library")


class LoraAdapter:
    """Not supported: loading one says so."""

    def Load(self, path: Any) -> None:  # noqa: N802 (onnxruntime's name)
        raise Unsupported(f"tessera.ort has no LoRA adapters ({path})")


class AdapterFormat:
    """Not supported: making one says so."""

    def __init__(self, adapter: Any = None) -> None:
        raise Unsupported("tessera.ort has no LoRA adapters")


class ModelCompiler:
    """Not supported: making one says so."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise Unsupported("tessera.ort compiles no models ahead; InferenceSession prepares them when they are loaded")
