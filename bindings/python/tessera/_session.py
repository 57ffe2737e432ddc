"""Running a model."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypedDict, Unpack

from tessera import _core
from tessera._errors import InvalidArgument
from tessera._reports import Differences, Explanation, Optimisation, progress_bar

Path = str | os.PathLike[str]


class ModelProto(Protocol):
    """What onnx.ModelProto has."""

    def SerializeToString(self) -> bytes: ...


Loadable = Path | bytes | bytearray | memoryview | ModelProto | _core.Model


class SessionKeywords(TypedDict, total=False):
    """The keywords of Session but `dims`."""

    device: str
    threads: int
    precision: str
    memory_limit_bytes: int
    device_memory_limit_bytes: int
    without_passes: Sequence[str]
    tune: bool
    tuning_file: str
    seed: int | None
    max_cached_plans: int
    max_plan_bytes: int


class RunKeywords(TypedDict, total=False):
    """The keywords of RunOptions."""

    seed: int | None
    time_limit_s: float
    priority: str
    cancellation: _core.Cancellation | None


def names_of(given: str | Sequence[str]) -> list[str]:
    """A name is a list of one."""
    return [given] if isinstance(given, str) else list(given)


class KeyKeywords(TypedDict, total=False):
    """Where the key of a protected file comes from: one of these."""

    key_file: Path
    key_command: str
    password_file: Path


def loaded_model(model: Loadable, key: KeyKeywords | None = None) -> tuple[_core.Model, str]:
    """The model, and what to call it."""
    if key and not isinstance(model, (str, os.PathLike)):
        raise InvalidArgument("a key opens a protected file, and the model is not the path of one")
    if isinstance(model, _core.Model):
        return model, "model"
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _core.Model.from_bytes(bytes(model)), "model"
    if isinstance(model, (str, os.PathLike)):
        return _core.Model.load(model, **(key or {})), os.path.splitext(os.path.basename(os.fspath(model)))[0]
    if hasattr(model, "SerializeToString"):
        return _core.Model.from_bytes(model.SerializeToString()), "model"
    raise TypeError(f"a model is a path, bytes, a tessera.Model or an onnx.ModelProto, not a {type(model).__name__}")


def _run_options(given: _core.RunOptions | RunKeywords | None) -> _core.RunOptions | None:
    return _core.RunOptions(**given) if isinstance(given, dict) else given


def session_options(
    *,
    device: str = "cpu",
    threads: int = 0,
    precision: str = "",
    memory_limit_bytes: int = 0,
    device_memory_limit_bytes: int = 0,
    without_passes: Sequence[str] = (),
    tune: bool = False,
    tuning_file: str = "",
    seed: int | None = None,
    max_cached_plans: int = 16,
    max_plan_bytes: int = 256 << 20,
) -> _core.SessionOptions:
    if max_cached_plans < 1:
        raise InvalidArgument(f"max_cached_plans is {max_cached_plans}, expected at least 1")
    if max_plan_bytes < 0:
        raise InvalidArgument(f"max_plan_bytes is {max_plan_bytes}, expected at least 0")
    options = _core.SessionOptions()
    options.device = device
    options.threads = threads
    options.precision = precision
    options.memory_limit_bytes = memory_limit_bytes
    options.device_memory_limit_bytes = device_memory_limit_bytes
    options.without_passes = names_of(without_passes)
    options.tune = tune
    options.tuning_file = tuning_file
    options.seed = seed
    options.max_cached_plans = max_cached_plans
    options.max_plan_bytes = max_plan_bytes
    return options


def load(path: Path, *, dims: Mapping[str, int] | None = None, **options: Unpack[SessionKeywords]) -> Session:
    """Reads an .onnx or .tsr file and makes it ready to run.

    `dims` fixes symbolic dimensions of the inputs by name; the other keywords are those of Session.
    Raises NotFound, IOFailure, InvalidModel, Unsupported, OverBudget.

    >>> tessera.load("model.onnx", dims={"batch": 1}).inputs[0].shape
    [1, 16]
    """
    return Session(path, dims=dims, **options)


class Session:
    """A model on a device, ready to run. Threads may share it; runs release Python's lock.

    `model`: a path, the bytes of an .onnx file, an onnx.ModelProto, or a Model. `threads=0` means all cores that this
    process may use. `precision="bf16"` lets layers multiply in bfloat16; nothing else lowers the precision.
    `memory_limit_bytes` bounds weights, arenas and results together, and `device_memory_limit_bytes` those in the
    memory of a device that has its own. `tune` measures kernels at the first run of new shapes. A session keeps a plan
    for each combination of input shapes, at most `max_cached_plans` of them and `max_plan_bytes` together; it forgets
    the one that was used longest ago.
    `inputs`, `outputs` and `overridable` describe what goes in and comes out; the last are inputs with a default, which
    a run may leave out. pickle keeps the path of a session that was loaded from a file, else the model.
    `key` says where the key of a protected file comes from: {"key_file": path}, {"key_command": command} or
    {"password_file": path}; else the environment does (TESSERA_KEY_FILE and others).

    Random operators draw other numbers in each run. `seed` makes the sequence of runs repeatable: two sessions with one
    seed draw the same in their first runs, in their second runs and so on. RunOptions.seed decides for one run.
    """

    def __init__(
        self,
        model: Loadable,
        *,
        dims: Mapping[str, int] | None = None,
        device: str = "cpu",
        threads: int = 0,
        precision: str = "",
        memory_limit_bytes: int = 0,
        device_memory_limit_bytes: int = 0,
        without_passes: Sequence[str] = (),
        tune: bool = False,
        tuning_file: str = "",
        seed: int | None = None,
        max_cached_plans: int = 16,
        max_plan_bytes: int = 256 << 20,
        key: KeyKeywords | None = None,
    ) -> None:
        loaded, self.name = loaded_model(model, key)
        self.model: _core.Model = loaded.with_dims(dict(dims)) if dims else loaded
        keywords: SessionKeywords = {
            "device": device,
            "threads": threads,
            "precision": precision,
            "memory_limit_bytes": memory_limit_bytes,
            "device_memory_limit_bytes": device_memory_limit_bytes,
            "without_passes": without_passes,
            "tune": tune,
            "tuning_file": tuning_file,
            "seed": seed,
            "max_cached_plans": max_cached_plans,
            "max_plan_bytes": max_plan_bytes,
        }
        self.options = session_options(**keywords)
        path = os.path.abspath(os.fspath(model)) if isinstance(model, (str, os.PathLike)) else None
        self._pickled: tuple[str | None, dict[str, int], SessionKeywords] = path, dict(dims or {}), keywords
        self._key = key
        self._core = _core.Session(self.model, self.options)
        self.inputs: list[_core.ValueInfo] = self.model.inputs
        self.outputs: list[_core.ValueInfo] = self.model.outputs
        self.overridable: list[_core.ValueInfo] = self.model.overridable
        self._input_names = [each.name for each in self.inputs]
        self._output_names = [each.name for each in self.outputs]

    def _feeds(self, given: Any, arrays: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        if isinstance(given, dict) and not arrays and not named:
            return given
        arrays = arrays if given is None else (given, *arrays)
        if len(arrays) > len(self._input_names):
            names = ", ".join(self._input_names)
            raise InvalidArgument(f"{len(arrays)} inputs were given; the model has {len(self._input_names)}: {names}")
        feeds = dict(zip(self._input_names, arrays))
        for name, array in named.items():
            if name in feeds:
                raise InvalidArgument(f"input '{name}' was given twice: by its position and by its name")
            feeds[name] = array
        return feeds

    def run(
        self,
        inputs: Any = None,
        *arrays: Any,
        outputs: str | Sequence[str] | None = None,
        out: Mapping[str, Any] | None = None,
        options: _core.RunOptions | RunKeywords | None = None,
        **named: Any,
    ) -> Any:
        """Runs the model once.

        Inputs are arrays in the model's order, or by name, or one dict: numpy arrays, whatever has the buffer protocol
        or DLPack (torch, jax), lists and numbers. Memory that is contiguous, aligned and in native byte order is read
        where it lies. Initialisers that may be overridden (`overridable`) go by name. Returns the array of the only
        output; of several outputs a dict by name. `outputs` asks for one or some of them. `out` gives arrays, by the
        names of outputs, that are written in place of new ones; None is returned. `options` are a RunOptions or a dict
        of its keywords.
        Raises InvalidArgument, OverBudget, Cancelled, Failed. In the main thread, handlers of signals run meanwhile,
        and what they raise ends the run: KeyboardInterrupt soon after Ctrl-C.

        >>> y = model.run(x)
        >>> y.shape, y.dtype.name
        ((1, 4), 'float32')
        """
        feeds = self._feeds(inputs, arrays, named)
        how = options if options is None else _run_options(options)
        if out is not None:
            self._core.run_into(feeds, dict(out), how)
            return None
        names = outputs if outputs is None else names_of(outputs)
        results = self._core.run(feeds, names, how)
        if len(results) == 1:
            return results[0]
        return dict(zip(self._output_names if names is None else names, results))

    __call__ = run

    def explain(
        self,
        *,
        devices: str | Sequence[str] = ("cpu",),
        precision: str = "f32",
        training: bool = False,
        measure: bool = False,
    ) -> Explanation:
        """Where the time goes, what bounds each layer, and what would help; a page in a notebook.

        `devices` names profiles ("cpu" is this machine, "h100-sxm" is not); `measure` runs the model.
        Open dimensions get usual sizes; fix them with `dims` when loading.

        >>> "model" in model.explain().headline
        True
        """
        found = _core.explain(self.model, self.name, self.options, names_of(devices), precision, training, measure)
        return Explanation(found)

    def optimize(self, path: Path, *, opset: int | None = None) -> Optimisation:
        """Writes the model as it is after all passes, as .tsr for this machine or as .onnx for any program.

        >>> "faster.onnx" in model.optimize("faster.onnx").text
        True
        """
        with progress_bar("optimize") as progress:
            report, text, page = _core.optimise(self.model, self.name, self.options, path, opset, progress)
        return Optimisation(report, text, page)

    def diff(
        self,
        other: Session | Loadable,
        inputs: dict[str, Any] | None = None,
        *,
        rtol: float = 1e-3,
        atol: float = 0.0,
        outputs_only: bool = False,
        seed: int = 1,
    ) -> Differences:
        """Runs both on the same inputs (made up without any) and says where they differ, value by value.

        `other` is a session, or a model that becomes one with this session's options.
        Values are close where they are less than atol + rtol * the largest value in this model's apart.

        >>> model.diff(tessera.load("model.onnx")).same
        True
        """
        with_it = other if isinstance(other, Session) else Session(other, **self._pickled[2])
        return Differences(_core.diff(self._core, with_it._core, inputs, rtol, atol, outputs_only, seed))

    def info(self) -> dict[str, Any]:
        """Inputs, outputs, operators, size and work.

        >>> model.info()["operators"]
        {'Add': 2, 'MatMul': 2, 'Relu': 1}
        """
        result: dict[str, Any] = json.loads(_core.info_json(self.model, self.name))
        return result

    def made_up_inputs(self, seed: int = 0) -> dict[str, Any]:
        """Inputs of usual sizes with random contents, to try the model with."""
        return _core.random_feeds(_core.assume_dims(self.model)[0], seed)

    def trace(self, inputs: dict[str, Any]) -> str:
        """Runs once; returns what each step and thread did as JSON that Perfetto opens."""
        return self._core.trace(inputs, self.name)

    def memory(self) -> dict[str, int]:
        """Bytes in use now, by purpose."""
        return self._core.memory()

    def trim(self) -> None:
        """Gives memory between runs back to the system."""
        self._core.trim()

    @property
    def variables(self) -> dict[str, Any]:
        """Copies of the state that persists between runs, by name."""
        return {name: self._core.variable(name) for name in self._core.variable_names()}

    def set_variable(self, name: str, value: Any) -> None:
        self._core.set_variable(name, value)

    def __reduce__(self) -> Any:
        path, dims, keywords = self._pickled
        kept: Loadable = self.model if path is None else path
        return _unpickled, (kept, {} if path is None else dims, keywords, self.name, self._key)

    def __repr__(self) -> str:
        inputs = ", ".join(map(repr, self.inputs))
        outputs = ", ".join(map(repr, self.outputs))
        return f"<tessera.Session {self.name} ({inputs}) -> ({outputs})>"

    def _repr_html_(self) -> str:
        info = self.info()
        rows = [("input", repr(each)) for each in self.inputs] + [("output", repr(each)) for each in self.outputs]
        most = sorted(info["operators"].items(), key=lambda item: (-item[1], item[0]))
        rows.append(("operators", ", ".join(f"{count} × {name}" for name, count in most[:12])))
        rows.append(("parameters", f"{info['parameters']:,}"))
        cells = "".join(f"<tr><th>{html.escape(a)}</th><td>{html.escape(b)}</td></tr>" for a, b in rows)
        largest = max((count for _, count in most), default=1)
        bars = "".join(
            f'<text x="0" y="{15 + 18 * i}">{html.escape(name)}</text>'
            f'<rect x="170" y="{3 + 18 * i}" width="{200 * count / largest:.1f}" height="14" fill="#4c78a8"/>'
            for i, (name, count) in enumerate(most[:8])
        )
        graph = f'<svg width="400" height="{18 * min(len(most), 8) + 4}" font-size="13">{bars}</svg>'
        return f"<b>{html.escape(self.name)}</b><table>{cells}</table>{graph}"


def unpickled_model(data: bytes) -> _core.Model:
    """A model from what its pickle holds."""
    return _core.Model.from_bytes(data)


def _unpickled(
    model: Loadable, dims: dict[str, int], keywords: SessionKeywords, name: str, key: KeyKeywords | None = None
) -> Session:
    session = Session(model, dims=dims, key=key, **keywords)
    session.name = name
    return session
