"""PyTorch modules: from_torch, and torch.compile(backend="tessera"). PyTorch is imported when these are called."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Sequence
from typing import Any

from tessera._core import Model
from tessera._session import Session

_log = logging.getLogger("tessera")


def exported(module: Any, example: tuple[Any, ...], dynamic_shapes: Any = None) -> bytes:
    """The module as an ONNX file, by PyTorch's exporter."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    file = io.BytesIO()
    with torch.no_grad():
        program = torch.onnx.export(module, example, dynamo=True, dynamic_shapes=dynamic_shapes, verbose=False)
        program.save(file)
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


def _result(torch: Any, array: Any) -> Any:
    return torch.from_dlpack(array) if array.ndim else torch.from_numpy(array.copy())


def compile_backend(graph: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The backend of torch.compile: the captured graph runs in a session, for inference.

    What cannot be exported or is not supported runs as PyTorch would run it; the logger "tessera" says why.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]

    def eager(reason: object) -> Callable[..., Any]:
        text = str(reason).strip() or type(reason).__name__
        _log.warning("torch.compile: a graph runs in PyTorch, because %s", text.splitlines()[0])
        forward: Callable[..., Any] = graph.forward
        return forward

    if torch.is_grad_enabled() and any(getattr(each, "requires_grad", False) for each in example_inputs):
        return eager("it needs gradients; call it under torch.no_grad()")
    if any(isinstance(each, torch.Tensor) and each.device.type != "cpu" for each in example_inputs):
        return eager("an input is not on the CPU")
    try:
        session = Session(Model.from_bytes(exported(graph, tuple(example_inputs))))
    except Exception as error:  # the exporter raises many kinds
        return eager(error)
    names = [each.name for each in session.inputs]
    tensors = [i for i, each in enumerate(example_inputs) if isinstance(each, torch.Tensor)]
    if len(names) != len(tensors):
        return eager(f"the exporter kept {len(names)} of {len(tensors)} inputs")

    def run(*arguments: Any) -> Any:
        feeds = {name: arguments[i].detach() for name, i in zip(names, tensors)}
        return tuple(_result(torch, each) for each in session._core.run(feeds))

    return run
