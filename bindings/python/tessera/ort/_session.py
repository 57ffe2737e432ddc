"""InferenceSession and IOBinding."""
# Length: two classes of onnxruntime, whose many small members share the checks of names and values.

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from tessera import _core
from tessera._errors import Error
from tessera.ort._errors import InvalidArgument, NoSuchFile, translated
from tessera.ort._messages import quieted
from tessera.ort._options import (
    OrtAllocatorType,
    OrtMemType,
    RunOptions,
    Seed,
    SessionOptions,
    current_seed,
    warn_once,
)
from tessera.ort._types import ModelMetadata, NodeArg, dtype_name
from tessera.ort._values import OrtMemoryInfo, OrtValue, OrtValueVector, check_device

PROVIDERS = ["CPUExecutionProvider"]


def _check_providers(providers: Any, provider_options: Any) -> None:
    given = [each if isinstance(each, str) else each[0] for each in providers or []]
    if provider_options is not None and len(provider_options) != len(given):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
    missing = [name for name in given if name not in PROVIDERS and name != "AzureExecutionProvider"]
    if missing:
        warnings.warn(
            f"Specified provider '{missing[0]}' is not in available provider names."
            f"Available providers: '{', '.join(PROVIDERS)}'",
            stacklevel=3,
        )


def _load(source: Any, options: SessionOptions) -> _core.Model:
    initializers = {name: _held(value) for name, value in options._initializers.items()}
    if isinstance(source, (bytes, bytearray, memoryview)):
        folder = options._config.get("session.model_external_initializers_file_folder_path")
        return _core.Model.from_bytes(bytes(source), folder, initializers)
    if hasattr(source, "SerializeToString"):
        return _core.Model.from_bytes(source.SerializeToString(), None, initializers)
    if isinstance(source, (str, os.PathLike)):
        return _core.Model.load(source, initializers)
    raise TypeError(f"Unable to load from type '{type(source)}'")


class _Profile:
    """The times of all runs, for end_profiling."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.start_ns = time.monotonic_ns()
        self.events: list[dict[str, Any]] = []

    def add(self, begin_ns: int, end_ns: int, steps: list[dict[str, Any]]) -> None:
        common = {"pid": os.getpid(), "tid": threading.get_native_id(), "ph": "X"}
        offset = (begin_ns - self.start_ns) // 1000
        run = {"cat": "Session", "name": "model_run", "ts": offset, "dur": (end_ns - begin_ns) // 1000, "args": {}}
        self.events.append({**common, **run})
        for step in steps:
            arguments = {"op_name": step["op"], "provider": PROVIDERS[0], "kernel": step["kernel"]}
            event = {
                "cat": "Node",
                "name": f"{step['name'] or step['op']}_kernel_time",
                "ts": offset + step["start_ns"] // 1000,
                "dur": step["duration_ns"] // 1000,
                "args": {**arguments, "shapes": step["shapes"]},
            }
            self.events.append({**common, **event})

    def write(self) -> str:
        path = f"{self.prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        if self.prefix.endswith("_"):
            path = f"{self.prefix[:-1]}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.events, file)
        return path


class InferenceSession:
    """A model that is ready to run, with onnxruntime's interface.

    `path_or_bytes`: a path, the bytes of an .onnx file, or an onnx.ModelProto. Providers other than
    CPUExecutionProvider are warned of and not used.

    >>> import tessera.ort
    >>> session = tessera.ort.InferenceSession("model.onnx")
    >>> [argument.name for argument in session.get_inputs()], session.run(["y"], {"x": x})[0].shape
    (['x'], (1, 4))
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **other: Any,
    ) -> None:
        _check_providers(providers, provider_options)
        if other.get("enable_fallback") is not None:
            other.pop("enable_fallback")
        if other.pop("disabled_optimizers", None):
            warn_once("the argument disabled_optimizers of InferenceSession")
        self._options = SessionOptions() if sess_options is None else sess_options
        core_options = self._options._made()
        is_path = isinstance(path_or_bytes, (str, os.PathLike))
        self._model_path = os.fspath(path_or_bytes) if is_path else None
        self._model_bytes = None if is_path else path_or_bytes
        try:
            with quieted(self._options.log_severity_level):
                model = _load(path_or_bytes, self._options)
            dims = _known_dims(model, self._options._dims)
            self._model = model.with_dims(dims) if dims else model
            with quieted(self._options.log_severity_level):
                self._core = _core.Session(self._model, core_options)
            if self._options.optimized_model_filepath:
                _write_optimised(self._model, core_options, self._options.optimized_model_filepath)
        except Error as error:
            raise translated(error, loading=True) from None
        self._seed: Seed | None = None
        self._inputs = [NodeArg(each) for each in self._model.inputs]
        self._outputs = [NodeArg(each) for each in self._model.outputs]
        self._overridable = [NodeArg(each) for each in self._model.overridable]
        self._texts = {each.name for each in self._inputs + self._overridable if each.type == "tensor(string)"}
        self._required = {each.name for each in self._inputs if not each.type.startswith("optional(")}
        self._output_names = [each.name for each in self._outputs]
        prefix = self._options.profile_file_prefix
        self._profile = _Profile(prefix) if self._options.enable_profiling else None

    def _follow_seed(self) -> None:
        seed = current_seed()
        if seed is not None and seed is not self._seed:
            self._core.set_seed(seed.value)
            self._seed = seed

    def get_session_options(self) -> SessionOptions:
        return self._options

    def get_inputs(self) -> list[NodeArg]:
        return self._inputs

    def get_outputs(self) -> list[NodeArg]:
        return self._outputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs with a default: initializers that are graph inputs too, which a run may give another value."""
        return self._overridable

    def get_modelmeta(self) -> ModelMetadata:
        return ModelMetadata(self._model.metadata)

    @property
    def _sess(self) -> InferenceSession:
        """What onnxruntime's own class wraps: here the same object, with the names that programs use of it."""
        return self

    @property
    def inputs_meta(self) -> list[NodeArg]:
        return self._inputs

    @property
    def outputs_meta(self) -> list[NodeArg]:
        return self._outputs

    @property
    def overridable_initializers(self) -> list[NodeArg]:
        return self._overridable

    @property
    def model_meta(self) -> ModelMetadata:
        return self.get_modelmeta()

    @property
    def session_options(self) -> SessionOptions:
        return self._options

    _inputs_meta, _outputs_meta, _model_meta = inputs_meta, outputs_meta, model_meta
    _overridable_initializers, _sess_options = overridable_initializers, session_options

    def __reduce__(self) -> Any:
        source: Any = self._model_bytes if self._model_path is None else self._model_path
        if hasattr(source, "SerializeToString"):
            source = source.SerializeToString()
        return InferenceSession, (source, self._options, list(PROVIDERS))

    def __repr__(self) -> str:
        names = (", ".join(each.name for each in values) for values in (self._inputs, self._outputs))
        return "<tessera.ort.InferenceSession ({}) -> ({})>".format(*names)

    def get_providers(self) -> list[str]:
        return list(PROVIDERS)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {name: {} for name in PROVIDERS}

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        _check_providers(providers, provider_options)

    def disable_fallback(self) -> None:
        """Nothing to do: there is one provider."""

    def enable_fallback(self) -> None:
        """Nothing to do: there is one provider."""

    def _check_feed(self, feed: Any) -> None:
        if not self._required <= feed.keys():
            missing = [each.name for each in self._inputs if each.name in self._required and each.name not in feed]
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed)}).")

    def run(
        self, output_names: Sequence[str] | None, input_feed: dict[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """The outputs of these names, or all, for a dict of inputs; tensors are numpy arrays.

        Raises ValueError for a missing input, and errors of tessera.ort.capi.onnxruntime_pybind11_state.
        """
        # A run of a small net takes a few microseconds, so the usual case has to be quick.
        feed = input_feed if type(input_feed) is dict else dict(input_feed)
        for value in feed.values():
            if type(value) is OrtValue:
                feed = {name: _held(each) for name, each in feed.items()}
                break
        if self._texts:
            feed = {name: _text(each) if name in self._texts else each for name, each in feed.items()}
        options = _run_options(run_options)
        self._follow_seed()
        try:
            if not output_names and self._profile is None:
                return self._core.run(feed, None, options)
            return self._run_some(feed, output_names, options)
        except Error as error:
            self._check_feed(feed)  # raises a more precise error, which takes precedence
            raise translated(error) from None

    def _run_some(
        self, feed: dict[str, Any], names: Sequence[str] | None, options: _core.RunOptions | None
    ) -> list[Any]:
        if isinstance(names, str):
            raise TypeError("run(): output_names is a list of str or None, not a str")
        names = names or None
        if names is not None and len(set(names)) < len(names):
            unique = list(dict.fromkeys(names))
            found = dict(zip(unique, self._run(feed, unique, options)))
            return [found[name] for name in names]
        return self._run(feed, names, options)

    def _run(self, feed: dict[str, Any], names: Sequence[str] | None, options: _core.RunOptions | None) -> list[Any]:
        if self._profile is None:
            return self._core.run(feed, names, options)
        begin_ns = time.monotonic_ns()
        results, steps = self._core.timed_run(feed, names, options)
        self._profile.add(begin_ns, time.monotonic_ns(), steps)
        return results

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: dict[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """run() in a thread of its own, which calls callback(results, user_data, error text)."""
        self._check_feed(input_feed)

        def work() -> None:
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except Exception as failure:  # any failure is passed to the callback
                results, error = [], str(failure)
            callback(results, user_data, error)

        threading.Thread(target=work, daemon=True).start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: dict[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """The same with OrtValues on both sides, without a copy."""
        self._check_feed(input_dict_ort_values)
        binding = IOBinding(self)
        for name, value in input_dict_ort_values.items():
            binding.bind_ortvalue_input(name, value)
        for name in output_names or self._output_names:
            binding.bind_output(name)
        self.run_with_iobinding(binding, run_options)
        return binding.get_outputs()

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: OrtValueVector,
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Any = None,
    ) -> None:
        """The same with vectors; `fetches` receives the outputs."""
        fetches[:] = self.run_with_ort_values(fetch_names, dict(zip(feed_names, feeds)), run_options)

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        return [_cpu_memory() for _ in self._inputs]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        return [_cpu_memory() for _ in self._outputs]

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs on what is bound; nothing is copied."""
        self._follow_seed()
        try:
            iobinding._core.run(self._core, _run_options(run_options))
        except Error as error:
            raise translated(error) from None

    def end_profiling(self) -> str:
        """Writes the times of all runs as JSON for Perfetto or chrome://tracing; returns the file's name."""
        if self._profile is None:
            print("tessera.ort: profiling is off (SessionOptions.enable_profiling)", file=sys.stderr)
            return ""
        path = self._profile.write()
        self._profile = None
        return path

    def get_profiling_start_time_ns(self) -> int:
        return self._profile.start_ns if self._profile is not None else 0

    def set_ep_dynamic_options(self, options: dict[str, str]) -> None:
        warn_once("set_ep_dynamic_options")

    def get_tuning_results(self) -> list[Any]:
        return []

    def set_tuning_results(self, results: Any, *, error_on_invalid: bool = False) -> None:
        warn_once("set_tuning_results")


def _held(value: Any) -> Any:
    return value._held if type(value) is OrtValue else value


def _text(value: Any) -> Any:
    """An input of strings as onnxruntime takes it: what is no str in a list or an array of objects becomes one."""
    array = numpy.asarray(value, object) if isinstance(value, list) else value
    if not isinstance(array, numpy.ndarray) or array.dtype != object:
        return value
    if all(type(each) is str for each in array.flat):
        return array
    texts = [each if isinstance(each, str) else str(each) for each in array.flat]
    return numpy.array(texts, object).reshape(array.shape)


def _cpu_memory() -> OrtMemoryInfo:
    return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, OrtMemType.DEFAULT)


def _run_options(given: RunOptions | None) -> _core.RunOptions | None:
    return None if given is None else given._made()


def _known_dims(model: _core.Model, dims: dict[str, int]) -> dict[str, int]:
    """Of the overrides those that an input has; onnxruntime passes over the others as well."""
    names = {size for each in model.inputs for size in each.shape or [] if isinstance(size, str)}
    return {name: size for name, size in dims.items() if name in names}


def _write_optimised(model: _core.Model, options: _core.SessionOptions, path: str) -> None:
    if path.endswith((".onnx", ".tsr")):
        _core.optimise(model, "model", options, path)
        return
    # With any other ending, the file is an ONNX file.
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise NoSuchFile(f"[ONNXRuntimeError] : 3 : NO_SUCHFILE : there is no folder '{folder}' to write '{path}' to")
    with tempfile.TemporaryDirectory(dir=folder or ".", prefix=".tessera-") as beside:
        written = os.path.join(beside, "model.onnx")
        _core.optimise(model, "model", options, written)
        os.replace(written, path)


class IOBinding:
    """Inputs and outputs that stay bound from run to run, read and written where they lie."""

    def __init__(self, session: InferenceSession) -> None:
        self._iobinding = self  # the attribute under which onnxruntime's class keeps its binding
        self._core = _core.IoBinding(session._core)
        self._types = {each.name: each.type for each in session._outputs}

    def _call(self, bind: Callable[..., None], *arguments: Any) -> None:
        try:
            bind(*arguments)
        except Error as error:
            raise translated(error) from None

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        self._call(self._core.bind_input, name, arr_on_cpu)

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        check_device(device_type)
        tensor = _core.Tensor.of_address(dtype_name(element_type), tuple(int(each) for each in shape), buffer_ptr)
        self._call(self._core.bind_input, name, tensor)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._call(self._core.bind_input, name, ortvalue._held)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Without a buffer, each run makes memory for the output."""
        check_device(device_type)
        if name not in self._types:
            raise InvalidArgument(f"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : the model has no output '{name}'")
        if buffer_ptr is None:
            self._call(self._core.bind_output, name, None)
            return
        if element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        tensor = _core.Tensor.of_address(dtype_name(element_type), tuple(int(each) for each in shape), buffer_ptr)
        self._call(self._core.bind_output, name, tensor)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        if name not in self._types:
            raise InvalidArgument(f"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : the model has no output '{name}'")
        self._call(self._core.bind_output, name, ortvalue._tensor())

    def synchronize_inputs(self) -> None:
        """Nothing to do on the CPU."""

    def synchronize_outputs(self) -> None:
        """Nothing to do on the CPU."""

    def get_outputs(self) -> list[OrtValue]:
        return [OrtValue(each) for each in self._core.results()]

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        return OrtValueVector(self.get_outputs())

    def copy_outputs_to_cpu(self) -> list[Any]:
        return [each.numpy() for each in self.get_outputs()]

    def clear_binding_inputs(self) -> None:
        self._core.clear_inputs()

    def clear_binding_outputs(self) -> None:
        self._core.clear_outputs()
