"""SessionOptions, RunOptions and the enumerations around them."""

from __future__ import annotations

import enum
import threading
import warnings
from typing import Any

from tessera import _core


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(enum.IntEnum):
    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(enum.IntEnum):
    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtSparseFormat(enum.IntEnum):
    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


# What has no counterpart, with onnxruntime's defaults. Setting one changes nothing; the session warns once.
_IGNORED: dict[str, Any] = {
    "inter_op_num_threads": 0,
    "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
    "execution_order": ExecutionOrder.DEFAULT,
    "enable_cpu_mem_arena": True,
    "enable_mem_pattern": True,
    "enable_mem_reuse": True,
    "use_per_session_threads": True,
}
# Without meaning here whatever the value: results are deterministic, and messages go to Python's logging.
_MET: dict[str, Any] = {
    "use_deterministic_compute": False,
    "logid": "",
    "log_severity_level": -1,
    "log_verbosity_level": 0,
}
_KNOWN: dict[str, Any] = {
    "intra_op_num_threads": 0,
    "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
    "optimized_model_filepath": "",
    "enable_profiling": False,
    "profile_file_prefix": "onnxruntime_profile_",
}
_DEFAULTS: dict[str, Any] = {**_KNOWN, **_IGNORED, **_MET}
_warned: set[str] = set()
_warned_lock = threading.Lock()


def warn_once(what: str) -> None:
    """Warns of what is ignored, once a process for each text."""
    with _warned_lock:
        if what in _warned:
            return
        _warned.add(what)
    warnings.warn(f"tessera.ort ignores {what}", stacklevel=4)


class SessionOptions:
    """How a session is made. Fields without a counterpart are kept, and named in one warning where they are set."""

    intra_op_num_threads: int
    inter_op_num_threads: int
    graph_optimization_level: GraphOptimizationLevel
    optimized_model_filepath: str
    enable_profiling: bool
    profile_file_prefix: str
    execution_mode: ExecutionMode
    execution_order: ExecutionOrder
    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    enable_mem_reuse: bool
    use_per_session_threads: bool
    use_deterministic_compute: bool
    logid: str
    log_severity_level: int
    log_verbosity_level: int

    def __init__(self) -> None:
        self._config: dict[str, str] = {}
        self._dims: dict[str, int] = {}
        self._other: list[str] = []
        for name, value in _DEFAULTS.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            if name not in _DEFAULTS:
                raise AttributeError(f"'SessionOptions' object has no attribute '{name}'")
            wanted: Any = type(_DEFAULTS[name])
            if issubclass(wanted, enum.Enum) and not isinstance(value, wanted):
                raise TypeError(f"SessionOptions.{name} expects a {wanted.__name__}, not {value!r}")
            value = wanted(value)
        object.__setattr__(self, name, value)

    def add_session_config_entry(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError("add_session_config_entry expects two str")
        self._config[key] = value

    def get_session_config_entry(self, key: str) -> str:
        if key not in self._config:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return self._config[key]

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        self._dims[name] = int(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        self._other.append("add_free_dimension_override_by_denotation")

    def register_custom_ops_library(self, path: str) -> None:
        from tessera.ort._errors import NotImplemented as Unsupported

        raise Unsupported(f"tessera.ort cannot load custom operators ({path})")

    def add_initializer(self, name: str, value: Any) -> None:
        from tessera.ort._errors import NotImplemented as Unsupported

        raise Unsupported("tessera.ort takes initializers from the model's file only")

    def add_external_initializers(self, names: Any, values: Any) -> None:
        self.add_initializer("", None)

    def add_provider(self, name: str, options: Any) -> None:
        if name != "CPUExecutionProvider":
            self._other.append(f"the provider {name}")

    def has_providers(self) -> bool:
        return False

    def _warn(self) -> None:
        ignored = [name for name, usual in _IGNORED.items() if getattr(self, name) != usual]
        ignored += self._other
        ignored += [key for key in self._config if key not in _CONFIG_MET]
        if ignored:
            warn_once("these settings of SessionOptions: " + ", ".join(ignored))

    def _made(self) -> _core.SessionOptions:
        self._warn()
        options = _core.SessionOptions()
        options.threads = max(0, self.intra_op_num_threads)
        if self.graph_optimization_level == GraphOptimizationLevel.ORT_DISABLE_ALL:
            options.without_passes = _core.optional_passes()
        return options


# Entries that ask for what Tessera does anyway: denormal numbers are zeros, idle threads sleep.
_CONFIG_MET = {
    "session.set_denormal_as_zero",
    "session.intra_op.allow_spinning",
    "session.inter_op.allow_spinning",
    "session.load_model_format",
    "session.use_env_allocators",
    "session.disable_prepacking",
    "session.use_device_allocator_for_initializers",
}


class RunOptions:
    """How one run is made. `terminate = True`, from any thread, stops the runs that have these options."""

    def __init__(self) -> None:
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self._config: dict[str, str] = {}
        self._cancellation = _core.Cancellation()
        self._terminate = False

    @property
    def terminate(self) -> bool:
        return self._terminate

    @terminate.setter
    def terminate(self, value: bool) -> None:
        self._terminate = bool(value)
        if value:
            self._cancellation.cancel()
        else:
            self._cancellation = _core.Cancellation()

    def add_run_config_entry(self, key: str, value: str) -> None:
        self._config[key] = value

    def get_run_config_entry(self, key: str) -> str:
        if key not in self._config:
            raise RuntimeError(f"RunOptions does not have configuration with key: {key}")
        return self._config[key]

    def add_active_adapter(self, adapter: Any) -> None:
        from tessera.ort._errors import NotImplemented as Unsupported

        raise Unsupported("tessera.ort has no LoRA adapters")

    def _made(self) -> _core.RunOptions:
        options = _core.RunOptions()
        options.cancellation = self._cancellation
        options.seed = seed_of_runs()
        return options


_seed = 0


def set_seed(seed: int) -> None:
    """The seed of random operators that have none of their own."""
    global _seed
    _seed = int(seed) & (2**64 - 1)


def seed_of_runs() -> int:
    return _seed
