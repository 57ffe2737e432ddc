"""PyTorch modules: from_torch, and torch.compile(backend="tessera"). PyTorch is imported when these are called."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tessera import _core
from tessera._core import Model
from tessera._errors import Unsupported
from tessera._session import Session
from tessera._torch_graph import CapturedGraph, Sizes, plain

_log = logging.getLogger("tessera")

# If dimensions that PyTorch left open must be fixed, the most sets of sizes that get a session; others run in PyTorch.
_MOST_SESSIONS = 8
# So many calls with new shapes are compared with PyTorch's results; after that, fewer and fewer are.
_CALLS_CHECKED = 64
# The most different shapes of calls that are looked up quickly.
_MOST_KEYS = 512


def _capture(torch: Any, module: Any, example: tuple[Any, ...], dynamic_shapes: Any) -> Any:
    """The module as torch.export captures it. Raises Unsupported where a call would change its inputs."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Exporting a model while it is in training mode")
        captured = torch.export.export(module, example, dynamic_shapes=dynamic_shapes)
        signature = captured.run_decompositions({}).graph_signature  # names the values that are written in place
    changed = [*signature.user_inputs_to_mutate.values(), *signature.buffers_to_mutate.values()]
    if changed:
        raise Unsupported(f"it writes to its inputs or buffers in place: {', '.join(changed)}")
    return captured


def _written(torch: Any, captured: Any) -> bytes:
    file = io.BytesIO()
    with torch.no_grad():
        torch.onnx.export(captured, dynamo=True, verbose=False).save(file)
    return file.getvalue()


def exported(module: Any, example: tuple[Any, ...], dynamic_shapes: Any = None) -> bytes:
    """The module as an ONNX file, by PyTorch's exporter. Raises Unsupported where a call would change its inputs."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    return _written(torch, _capture(torch, module, example, dynamic_shapes))


def _tell_of_complex_results(captured: Any) -> None:
    """ONNX has no complex tensors."""
    results = next(node for node in captured.graph.nodes if node.op == "output").args[0]
    for i, node in enumerate(results):
        example: Any = getattr(node, "meta", {}).get("val")
        dtype = getattr(example, "dtype", None)
        if dtype is not None and dtype.is_complex:
            _log.warning("from_torch: result %d is complex; the session gives its parts in a last dimension of 2", i)


def from_torch(module: Any, example: Any, *, dynamic_shapes: Any = None, **options: Any) -> Session:
    """A session of a torch.nn.Module, exported with these example inputs (a tensor, or a tuple of them).

    Needs torch and onnxscript. The keywords are those of Session; `dynamic_shapes` is torch.export's. Complex results
    come as their real and imaginary parts in a last dimension of 2. Raises Unsupported for complex inputs.
    """
    import torch

    arguments = example if isinstance(example, tuple) else (example,)
    if any(isinstance(each, torch.Tensor) and each.is_complex() for each in arguments):
        raise Unsupported("it takes complex tensors, which ONNX has no operators for; give it torch.view_as_real(z)")
    was_training = bool(module.training)
    module.eval()
    try:
        captured = _capture(torch, module, arguments, dynamic_shapes)
        _tell_of_complex_results(captured)
        return Session(Model.from_bytes(_written(torch, captured)), **options)
    finally:
        module.train(was_training)


def _reason(error: BaseException) -> str:
    """The first line of what lies at the bottom of an exporter's error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class _Prepared:
    """A session of the graph, and what it was made of: the constants, numbers, and the sizes that it takes."""

    def __init__(self, session: Session, constants: Any, fixed: tuple[Any, ...]) -> None:
        self.core = session._core
        self.constants = constants
        self.fixed = fixed
        self.calls = 0  # with new shapes
        self.input_names = session._input_names
        self.shapes = [each.shape for each in session.inputs]
        self.draws = session._core.draws_random_numbers

    def takes(self, fixed: tuple[Any, ...], shapes: Sequence[Sequence[int]]) -> bool:
        """Whether the session is for these numbers and tensors of these shapes: sizes of one name are equal."""
        if fixed != self.fixed:
            return False
        named: dict[str, int] = {}
        for declared, given in zip(self.shapes, shapes):
            if declared is None:
                continue
            if len(declared) != len(given):
                return False
            for size, number in zip(declared, given):
                if isinstance(size, int) and size >= 0 and size != number:
                    return False
                if isinstance(size, str) and named.setdefault(size, number) != number:
                    return False
        return True


class _Way:
    """How calls with one key are answered: by a session, with what PyTorch expects of its outputs."""

    def __init__(self, prepared: _Prepared, sizes: Sizes, expected: list[tuple[Any, list[int] | None]]) -> None:
        self.prepared = prepared
        self.sizes = sizes
        self.expected = expected


class _Compiled:
    """A captured graph, and the sessions that compute it.

    Parameters and buffers become constants of a session, which is made anew when PyTorch has counted a change. Sizes
    that PyTorch left open are open in the session too, so that one session takes them all.
    """

    def __init__(self, torch: Any, graph: Any, options: dict[str, Any]) -> None:
        self._torch = torch
        self._graph = graph
        self._options = options
        self._captured: CapturedGraph | None = None
        self._constant: list[bool] = []
        self._ways: dict[Any, _Way | None] = {}  # None: runs in PyTorch
        self._prepared: list[_Prepared] = []
        self._runs_in_pytorch = False
        self._keeps_sizes_open = True
        self._has_told_of_sizes = False
        self._without_numpy = (torch.bfloat16,)  # element types that are passed by DLPack
        try:
            self._captured = CapturedGraph(torch, graph)
            self._constant = self._captured.constant
            self._is_complex = self._captured.has_complex()
            self._runs_in_pytorch = not self._captured.computes  # it only returns views of its arguments
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        self._runs_in_pytorch = True
        self._ways.clear()
        self._prepared.clear()
        _log.warning("torch.compile: a graph runs in PyTorch, because %s", _reason(error))

    def _needs_gradients(self, arguments: Sequence[Any]) -> bool:
        return self._torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in arguments)

    def _export(self, captured: CapturedGraph, arguments: Sequence[Any], constants: Any, shapes: Any) -> _Prepared:
        tensors = captured.inputs(arguments)
        example = tuple(plain(each) for each in tensors)
        data = exported(captured.module(arguments), example, shapes)
        session = Session(Model.from_bytes(data), **self._options)
        made = [output for output in captured.outputs if output.kind == "tensor"]
        if len(session.inputs) != len(tensors) or len(session.outputs) != len(made):
            raise Unsupported("the exporter changed the number of its inputs or outputs")
        return _Prepared(session, constants, captured.fixed(arguments))

    def _new_way(
        self, captured: CapturedGraph, arguments: Sequence[Any], constants: Any, sizes: Sizes, expected: Any
    ) -> _Way:
        """A new session, whose results are those of PyTorch."""
        shapes = captured.dynamic_shapes(arguments)
        self._keeps_sizes_open = self._keeps_sizes_open and any(each is not None for each in shapes)
        while True:
            try:
                given = {"given": tuple(shapes)} if self._keeps_sizes_open else None
                way = _Way(self._export(captured, arguments, constants, given), sizes, expected)
                results = self._run(captured, way, arguments)
                if not way.prepared.draws:
                    _check_numbers(self._torch, results, self._graph(*arguments), self._options)
                return way
            except Exception as error:
                if not self._keeps_sizes_open:
                    raise
                _log.info("torch.compile: each size gets a session, because %s", _reason(error))
                self._keeps_sizes_open = False

    def _checked(self, captured: CapturedGraph, way: _Way, arguments: Sequence[Any]) -> _Way | None:
        """The way, or nothing where a session with open sizes computes something else for these than PyTorch: its
        exporter may have taken sizes of its example for granted."""
        way.prepared.calls += 1
        calls = way.prepared.calls
        if way.prepared.draws or (calls > _CALLS_CHECKED and calls & (calls - 1) != 0):
            return way
        try:
            _check_numbers(self._torch, self._run(captured, way, arguments), self._graph(*arguments), self._options)
        except Unsupported as error:
            _log.info("torch.compile: each size gets a session, because %s", _reason(error))
            self._keeps_sizes_open = False
            self._prepared.remove(way.prepared)
            self._ways.clear()
            return None
        return way

    def _prepare(self, captured: CapturedGraph, key: Any, arguments: Sequence[Any], constants: Any) -> _Way | None:
        torch = self._torch
        everything = [each for each in arguments if isinstance(each, torch.Tensor)]
        if self._needs_gradients(arguments):
            raise Unsupported("it needs gradients; call it under torch.no_grad()")
        if any(each.device.type != "cpu" for each in everything):
            raise Unsupported("an input is not on the CPU")
        if any(each.layout != torch.strided for each in everything):
            raise Unsupported("an input is not dense")
        if any(prepared.constants != constants for prepared in self._prepared):
            self._prepared.clear()
            self._ways.clear()
        shapes, fixed = [each.shape for each in captured.inputs(arguments)], captured.fixed(arguments)
        found = next((each for each in self._prepared if each.takes(fixed, shapes)), None)
        sizes = captured.sizes(arguments)
        expected = [
            (output.example.dtype, sizes.all(output.example.shape))
            for output in captured.outputs
            if output.kind == "tensor"
        ]
        way: _Way | None = None
        if found is not None:
            way = self._checked(captured, _Way(found, sizes, expected), arguments)
        if way is None and len(self._prepared) < _MOST_SESSIONS:
            way = self._new_way(captured, arguments, constants, sizes, expected)
            self._prepared.append(way.prepared)
        elif way is None and not self._has_told_of_sizes:
            self._has_told_of_sizes = True
            _log.warning(
                "torch.compile: a graph runs in PyTorch for further sizes, because its sizes cannot stay open and %d "
                "sets of them have a session",
                _MOST_SESSIONS,
            )
        if len(self._ways) >= _MOST_KEYS:
            self._ways.clear()
        self._ways[key] = way
        return way

    def __call__(self, *arguments: Any) -> Any:
        captured = self._captured
        if self._runs_in_pytorch or captured is None:
            return self._graph(*arguments)
        constants = [(each.data_ptr(), each._version) for each, is_c in zip(arguments, self._constant) if is_c]
        try:
            key = captured.key(arguments)
            way = self._ways.get(key)
            if (way is None and key not in self._ways) or (way is not None and way.prepared.constants != constants):
                # Trial runs and comparisons must not advance PyTorch's random generator.
                with self._torch.random.fork_rng(devices=[]):
                    way = self._prepare(captured, key, arguments, constants)
            if way is None or self._needs_gradients(arguments):
                return self._graph(*arguments)
            return self._run(captured, way, arguments)
        except Exception as error:  # the exporter raises many kinds
            self._give_up(error)
            return self._graph(*arguments)

    def _array(self, tensor: Any) -> Any:
        found = plain(tensor)
        return found if tensor.dtype in self._without_numpy else found.numpy()

    def _run(self, captured: CapturedGraph, way: _Way, arguments: Sequence[Any]) -> tuple[Any, ...]:
        torch = self._torch
        prepared = way.prepared
        arrays = [self._array(each) for each in captured.inputs(arguments)]
        options = None
        if prepared.draws:
            options = _core.RunOptions()
            options.seed = int(torch.empty((), dtype=torch.int64).random_())
        made = iter(prepared.core.run(dict(zip(prepared.input_names, arrays)), None, options))
        expected = iter(way.expected)
        results = []
        for output in captured.outputs:
            if output.kind == "tensor":
                results.append(self._tensor(next(made), *next(expected)))
            elif output.kind == "argument":
                results.append(arguments[output.argument])
            elif output.kind == "view":
                results.append(captured.view(output, arguments, way.sizes))
            elif output.kind == "number":
                number = way.sizes.of(output.example)
                if number is None:
                    raise Unsupported("an output is a number that depends on the data")
                results.append(number)
            else:
                results.append(output.example)
        return tuple(results)

    def _tensor(self, array: Any, dtype: Any, shape: list[int] | None) -> Any:
        """The tensor of a result. Raises Unsupported where it is not of the type and shape that PyTorch expects."""
        torch = self._torch
        if array.dtype.kind in "biufc":
            tensor = torch.as_tensor(array)
        else:
            tensor = torch.from_numpy(array.view("u2")).view(torch.bfloat16)  # from a type of the package ml_dtypes
        if dtype.is_complex and not tensor.is_complex() and tensor.dim() > 0 and tensor.shape[-1] == 2:
            tensor = torch.view_as_complex(tensor)  # in ONNX, real and imaginary parts are a dimension of their own
        if tensor.dtype != dtype or (shape is not None and list(tensor.shape) != shape):
            raise Unsupported(
                f"the exported graph gives {tensor.dtype} {list(tensor.shape)}, but PyTorch gives {dtype} {shape}"
            )
        return tensor


def _check_numbers(torch: Any, results: Sequence[Any], expected: Sequence[Any], options: dict[str, Any]) -> None:
    """Raises Unsupported where the exported graph computes something else than the captured one."""
    for found, wanted in zip(results, expected):
        if not isinstance(wanted, torch.Tensor) or wanted.numel() == 0:
            continue
        if found.shape != wanted.shape:
            raise Unsupported(f"the exported graph gives the shape {list(found.shape)}, not {list(wanted.shape)}")
        if not (wanted.is_floating_point() or wanted.is_complex()):
            agrees = bool((found != wanted).float().mean() <= 0.05)  # a few rounded or ranked values may differ
        else:
            narrow = wanted.dtype in (torch.float16, torch.bfloat16) or bool(options.get("precision"))
            double = torch.complex128 if wanted.is_complex() else torch.float64
            a, b = found.to(double), wanted.to(double)
            finite = torch.isfinite(b)
            scale = b[finite].abs().max() if bool(finite.any()) else torch.ones(())
            far = (a - b).abs() > (0.2 if narrow else 0.02) * scale
            agrees = not bool((far & finite).any()) and bool((torch.isfinite(a) == finite).all())
        if not agrees:
            raise Unsupported("the exported graph computes other numbers than PyTorch")


def compile_backend(
    graph: Any, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The backend of torch.compile: the captured graph runs in a session, for inference.

    What cannot be exported or is not supported runs as PyTorch would run it; the logger "tessera" says why. The first
    call compares the session's results with PyTorch's. Sizes that PyTorch leaves open (dynamic=True) stay open in the
    session. The module's parameters and buffers are constants of the session: where one is replaced, or changed in a
    way that PyTorch counts (assignments to parts of `parameter.data` are not), the next call makes a session anew.
    Random operators draw by a seed that each call takes from PyTorch's generator.
    `options` of torch.compile are the keywords of Session: options={"precision": "bf16"}.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]

    run: Callable[..., Any] = torch.compiler.disable(_Compiled(torch, graph, options or {}))
    return run


def _trace_recurrent_layers() -> None:
    """PyTorch leaves LSTM, GRU and RNN out of all graphs unless its configuration says otherwise. It calls this when a
    program asks for the backend (since PyTorch 2.13; before, such layers run in PyTorch)."""
    import torch._dynamo  # type: ignore[import-not-found, unused-ignore]

    config = torch._dynamo.config
    if hasattr(config, "allow_rnn") and not config.allow_rnn:
        config.allow_rnn = True


compile_backend._dynamo_backend_init = _trace_recurrent_layers  # type: ignore[attr-defined]
