"""SessionOptions, RunOptions and the enumerations around them."""

from __future__ import annotations

import enum
import operator
import threading
import warnings
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from tessera import _core

T = TypeVar("T")


class _Named(enum.IntEnum):
    """An enumeration that prints as pybind11's do: "GraphOptimizationLevel.ORT_ENABLE_ALL"."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __format__ = enum.Enum.__format__


class GraphOptimizationLevel(_Named):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Named):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Named):
    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(_Named):
    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(_Named):
    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtSparseFormat(_Named):
    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class Field(Generic[T]):
    """An attribute of a class of options. It has a type, and a value where none was set."""

    def __init__(self, default: T) -> None:
        self.default = default
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        # On the class itself, the default is returned, because programs check hasattr(SessionOptions, name).
        value: T = self.default if instance is None else instance.__dict__.get(self.name, self.default)
        return value

    def __set__(self, instance: Any, value: T) -> None:
        instance.__dict__[self.name] = self._checked(instance, value)

    def _checked(self, instance: Any, value: Any) -> T:
        kind: Any = type(self.default)
        taken: Any = value
        if kind is bool and not isinstance(value, (str, bytes)):
            taken = bool(value)
        elif kind is int and hasattr(value, "__index__"):
            taken = operator.index(value)
        if not isinstance(taken, kind):
            raise TypeError(f"{type(instance).__name__}.{self.name} expects a {kind.__name__}, not {value!r}")
        return taken  # type: ignore[no-any-return]


class Options:
    """Options are its fields; assigning to another name is an error."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and not hasattr(type(self), name):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        object.__setattr__(self, name, value)


# Options without a counterpart: setting one changes nothing, and the session warns once. All others are fulfilled, or
# have no meaning here whatever their value.
_IGNORED = (
    "inter_op_num_threads",
    "execution_mode",
    "execution_order",
    "enable_cpu_mem_arena",
    "enable_mem_pattern",
    "enable_mem_reuse",
)
_warned: set[str] = set()
_warned_lock = threading.Lock()


def warn_once(what: str) -> None:
    """Warns of what is ignored, once a process for each text."""
    with _warned_lock:
        if what in _warned:
            return
        _warned.add(what)
    warnings.warn(f"tessera.ort ignores {what}", stacklevel=4)


class SessionOptions(Options):
    """How a session is made. Fields without a counterpart are kept, and named in one warning where they are set."""

    intra_op_num_threads = Field(0)
    inter_op_num_threads = Field(0)
    graph_optimization_level = Field(GraphOptimizationLevel.ORT_ENABLE_ALL)
    optimized_model_filepath = Field("")
    enable_profiling = Field(False)
    profile_file_prefix = Field("onnxruntime_profile_")
    execution_mode = Field(ExecutionMode.ORT_SEQUENTIAL)
    execution_order = Field(ExecutionOrder.DEFAULT)
    enable_cpu_mem_arena = Field(True)
    enable_mem_pattern = Field(True)
    enable_mem_reuse = Field(True)
    use_per_session_threads = Field(True)
    use_deterministic_compute = Field(False)
    logid = Field("")
    log_severity_level = Field(-1)
    log_verbosity_level = Field(0)

    def __init__(self) -> None:
        self._config: dict[str, str] = {}
        self._dims: dict[str, int] = {}
        self._initializers: dict[str, Any] = {}
        self._other: list[str] = []

    def __repr__(self) -> str:
        set_ones = [f"{name}={value!s}" for name, value in vars(self).items() if not name.startswith("_")]
        return f"<SessionOptions: {', '.join(set_ones) or 'as usual'}>"

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

    def add_initializer(self, name: str, ort_value: Any) -> None:
        """The value of the model's initializer of this name, in place of that in its file."""
        self._initializers[name] = ort_value

    def add_external_initializers(self, names: Sequence[str], ort_values: Sequence[Any]) -> None:
        """Values of initializers that the file says lie in another file."""
        if len(names) != len(ort_values):
            raise RuntimeError(f"{len(names)} names of initializers, but {len(ort_values)} values")
        for name, value in zip(names, ort_values):
            self.add_initializer(name, value)

    def add_provider(self, name: str, options: Any) -> None:
        if name != "CPUExecutionProvider":
            self._other.append(f"the provider {name}")

    def has_providers(self) -> bool:
        return False

    def _warn(self) -> None:
        ignored = [name for name in _IGNORED if getattr(self, name) != getattr(SessionOptions, name)]
        ignored += self._other
        ignored += [key for key in self._config if key not in _CONFIG_MET]
        if ignored:
            warn_once("these settings of SessionOptions: " + ", ".join(ignored))

    def _made(self) -> _core.SessionOptions:
        self._warn()
        options = _core.SessionOptions()
        threads = self.intra_op_num_threads if self.use_per_session_threads else _global_threads
        options.threads = max(0, threads)
        if self.graph_optimization_level == GraphOptimizationLevel.ORT_DISABLE_ALL:
            options.without_passes = _core.optional_passes()
        return options


# Entries that request what Tessera does anyway: it treats denormal numbers as zeros, and idle threads sleep.
_CONFIG_MET = {
    "session.set_denormal_as_zero",
    "session.intra_op.allow_spinning",
    "session.inter_op.allow_spinning",
    "session.load_model_format",
    "session.use_env_allocators",
    "session.disable_prepacking",
    "session.use_device_allocator_for_initializers",
}


class RunOptions(Options):
    """How one run is made. `terminate = True`, from any thread, stops the runs that have these options."""

    log_severity_level = Field(-1)
    log_verbosity_level = Field(0)
    logid = Field("")
    only_execute_path_to_fetches = Field(False)

    def __init__(self) -> None:
        self._config: dict[str, str] = {}
        self._cancellation = _core.Cancellation()
        self._terminate = False

    @property
    def terminate(self) -> bool:
        return self._terminate

    @terminate.setter
    def terminate(self, value: bool) -> None:
        if isinstance(value, str):
            raise TypeError(f"RunOptions.terminate expects a bool, not {value!r}")
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
        return options


class Seed:
    """A seed that set_seed was given, distinct from an equal one of an earlier call."""

    def __init__(self, value: int) -> None:
        self.value = value


_seed: Seed | None = None


def set_seed(seed: int) -> None:
    """Makes what random operators draw repeatable: the runs of each session, from its next one on, draw the sequence of
    this seed. Operators with a `seed` attribute draw by that. Without a call, each run draws other numbers."""
    global _seed
    _seed = Seed(int(seed) & (2**64 - 1))


def current_seed() -> Seed | None:
    return _seed


_global_threads = 0


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int) -> None:
    """The most threads of runs in sessions whose options have use_per_session_threads = False."""
    global _global_threads
    _global_threads = max(0, int(intra_op_num_threads))
