"""PyTorch modules: from_torch, and torch.compile(backend="tessera"). PyTorch is imported when these are called."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tessera._core import Model
from tessera._errors import Unsupported
from tessera._session import Session

_log = logging.getLogger("tessera")


def exported(module: Any, example: tuple[Any, ...], dynamic_shapes: Any = None) -> bytes:
    """The module as an ONNX file, by PyTorch's exporter. Raises Unsupported where a call would change its inputs."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    file = io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Exporting a model while it is in training mode")
        captured = torch.export.export(module, example, dynamic_shapes=dynamic_shapes)
        signature = captured.run_decompositions({}).graph_signature  # which names what is written in place
        changed = [*signature.user_inputs_to_mutate.values(), *signature.buffers_to_mutate.values()]
        if changed:
            raise Unsupported(f"it writes to its inputs or buffers in place: {', '.join(changed)}")
        torch.onnx.export(captured, dynamo=True, verbose=False).save(file)
    return file.getvalue()


def from_torch(module: Any, example: Any, *, dynamic_shapes: Any = None, **options: Any) -> Session:
    """A session of a torch.nn.Module, exported with these example inputs (a tensor, or a tuple of them).

    Needs torch and onnxscript. The keywords are those of Session; `dynamic_shapes` is torch.export's.
    """
    arguments = example if isinstance(example, tuple) else (example,)
    was_training = bool(module.training)
    module.eval()
    try:
        return Session(Model.from_bytes(exported(module, arguments, dynamic_shapes)), **options)
    finally:
        module.train(was_training)


def _reason(error: BaseException) -> str:
    """The first line of what lies at the bottom of an exporter's error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _constant_positions(graph: Any) -> list[bool]:
    """Which inputs of a captured graph are parameters and buffers of modules, which change rarely."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    kinds = [node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") for node in placeholders]
    return [kind is not None for kind in kinds]


def _with_constants(torch: Any, graph: Any, arguments: Sequence[Any], constant: Sequence[bool]) -> Any:
    """The graph as a module that owns its constant inputs and is called with the others alone."""

    class WithConstants(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.graph = graph
            for i, each in enumerate(arguments):
                if constant[i]:
                    self.register_buffer(f"constant_{i}", each.detach())

        def forward(self, *given: Any) -> Any:
            left = iter(given)
            return self.graph(*[getattr(self, f"constant_{i}") if c else next(left) for i, c in enumerate(constant)])

    return WithConstants().eval()


class _Prepared:
    """A session for inputs of some types and shapes, or None where they run in PyTorch, and what it was made of."""

    def __init__(self, session: Session | None, constants: Any) -> None:
        self.session = session
        self.constants = constants
        self.input_names = session._input_names if session is not None else []


class _Compiled:
    """A captured graph; it has a session for each combination of its inputs' types and shapes.

    Parameters and buffers become constants of the sessions, which are made anew when PyTorch has counted a change.
    """

    def __init__(self, torch: Any, graph: Any, options: dict[str, Any]) -> None:
        self._torch = torch
        self._graph = graph
        self._options = options
        self._constant = _constant_positions(graph)
        self._prepared: dict[Any, _Prepared] = {}
        self._without_numpy = (torch.bfloat16,)  # element types that go by DLPack

    def _parts(self, arguments: Sequence[Any]) -> tuple[list[Any], Any]:
        """The inputs that are no constants, and what tells whether the constants are those of an earlier call."""
        varying = [each for each, constant in zip(arguments, self._constant) if not constant]
        known = [(each.data_ptr(), each._version) for each, constant in zip(arguments, self._constant) if constant]
        return varying, known

    def _key(self, varying: Sequence[Any]) -> Any:
        tensor = self._torch.Tensor
        return tuple((each.dtype, each.shape) if isinstance(each, tensor) else each for each in varying)

    def _make(self, arguments: Sequence[Any], varying: list[Any]) -> Session:
        torch = self._torch
        tensors = [each for each in varying if isinstance(each, torch.Tensor)]
        everything = [each for each in arguments if isinstance(each, torch.Tensor)]
        if torch.is_grad_enabled() and any(each.requires_grad for each in everything):
            raise Unsupported("it needs gradients; call it under torch.no_grad()")
        if any(each.device.type != "cpu" for each in everything):
            raise Unsupported("an input is not on the CPU")
        module = _with_constants(torch, self._graph, arguments, self._constant)
        session = Session(Model.from_bytes(exported(module, tuple(varying))), **self._options)
        results = next(node for node in self._graph.graph.nodes if node.op == "output").args[0]
        if len(session.inputs) != len(tensors) or len(session.outputs) != len(results):
            raise Unsupported("the exporter changed the number of its inputs or outputs")
        return session

    def prepare(self, arguments: Sequence[Any]) -> _Prepared:
        varying, constants = self._parts(arguments)
        session = None
        try:
            session = self._make(arguments, varying)
        except Exception as error:  # the exporter raises many kinds
            _log.warning("torch.compile: a graph runs in PyTorch, because %s", _reason(error))
        found = self._prepared[self._key(varying)] = _Prepared(session, constants)
        return found

    def _array(self, tensor: Any) -> Any:
        detached = tensor.detach()
        return detached if tensor.dtype in self._without_numpy else detached.numpy()

    def __call__(self, *arguments: Any) -> Any:
        varying, constants = self._parts(arguments)
        found = self._prepared.get(self._key(varying))
        if found is None or found.constants != constants:
            found = self.prepare(arguments)
        torch = self._torch
        needs_gradients = torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in arguments)
        if found.session is None or needs_gradients:
            return self._graph(*arguments)
        arrays = [self._array(each) for each in varying if isinstance(each, torch.Tensor)]
        results = found.session._core.run(dict(zip(found.input_names, arrays)))
        return tuple(self._tensor(each) for each in results)

    def _tensor(self, array: Any) -> Any:
        if array.dtype.kind in "biufc":
            return self._torch.from_numpy(array)
        return self._torch.from_numpy(array.view("u2")).view(self._torch.bfloat16)  # of the package ml_dtypes


def compile_backend(
    graph: Any, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The backend of torch.compile: the captured graph runs in a session, for inference.

    What cannot be exported or is not supported runs as PyTorch would run it; the logger "tessera" says why. Where
    shapes are dynamic, each combination of shapes gets a session when it comes. The module's parameters and buffers
    are constants of the session: where one is replaced, or changed in a way that PyTorch counts (assignments to parts
    of `parameter.data` are not), the next call makes a session anew.
    `options` of torch.compile are the keywords of Session: options={"precision": "bf16"}.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]

    compiled = _Compiled(torch, graph, options or {})
    if all(isinstance(each, torch.Tensor) for each in example_inputs):
        compiled.prepare(example_inputs)
    run: Callable[..., Any] = torch.compiler.disable(compiled)
    return run
