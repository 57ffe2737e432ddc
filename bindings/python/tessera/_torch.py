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


class _Compiled:
    """A captured graph; it has a session for each combination of its inputs' types and shapes."""

    def __init__(self, torch: Any, graph: Any) -> None:
        self._torch = torch
        self._graph = graph
        self._sessions: dict[Any, Session | None] = {}  # None: this one runs in PyTorch

    def _key(self, arguments: Sequence[Any]) -> Any:
        tensor = self._torch.Tensor
        return tuple((each.dtype, tuple(each.shape)) if isinstance(each, tensor) else each for each in arguments)

    def prepare(self, arguments: Sequence[Any]) -> Session | None:
        torch = self._torch
        tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
        session = None
        try:
            if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
                raise Unsupported("it needs gradients; call it under torch.no_grad()")
            if any(each.device.type != "cpu" for each in tensors):
                raise Unsupported("an input is not on the CPU")
            found = Session(Model.from_bytes(exported(self._graph, tuple(arguments))))
            results = next(node for node in self._graph.graph.nodes if node.op == "output").args[0]
            if len(found.inputs) != len(tensors) or len(found.outputs) != len(results):
                raise Unsupported("the exporter changed the number of its inputs or outputs")
            session = found
        except Exception as error:  # the exporter raises many kinds
            _log.warning("torch.compile: a graph runs in PyTorch, because %s", _reason(error))
        self._sessions[self._key(arguments)] = session
        return session

    def __call__(self, *arguments: Any) -> Any:
        key = self._key(arguments)
        session = self._sessions[key] if key in self._sessions else self.prepare(arguments)
        torch = self._torch
        if session is None or (torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in arguments)):
            return self._graph(*arguments)
        tensors = [each.detach() for each in arguments if isinstance(each, torch.Tensor)]
        results = session._core.run(dict(zip(session._input_names, tensors)))
        return tuple(torch.from_numpy(each) for each in results)


def compile_backend(graph: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The backend of torch.compile: the captured graph runs in a session, for inference.

    What cannot be exported or is not supported runs as PyTorch would run it; the logger "tessera" says why. Where
    shapes are dynamic, each combination of shapes gets a session when it comes.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]

    compiled = _Compiled(torch, graph)
    if all(isinstance(each, torch.Tensor) for each in example_inputs):
        compiled.prepare(example_inputs)
    run: Callable[..., Any] = torch.compiler.disable(compiled)
    return run
