"""Errors under onnxruntime's names. Each is also the class of Tessera's own error of that kind."""

from __future__ import annotations

import tessera._errors as own


class Fail(own.Failed):
    """FAIL"""


class InvalidArgument(own.InvalidArgument):
    """INVALID_ARGUMENT"""


class NoSuchFile(own.NotFound):
    """NO_SUCHFILE"""


class NoModel(own.Error):
    """NO_MODEL"""


class EngineError(own.Error):
    """ENGINE_ERROR"""


class RuntimeException(own.OverBudget):
    """RUNTIME_EXCEPTION"""


class InvalidProtobuf(own.InvalidModel):
    """INVALID_PROTOBUF"""


class ModelLoaded(own.Error):
    """MODEL_LOADED"""


class NotImplemented(own.Unsupported):  # noqa: A001 (onnxruntime's name)
    """NOT_IMPLEMENTED"""


class InvalidGraph(own.InvalidModel):
    """INVALID_GRAPH"""


class EPFail(own.Error):
    """EP_FAIL"""


class ModelLoadCanceled(own.Cancelled):
    """MODEL_LOAD_CANCELED"""


class ModelRequiresCompilation(own.Error):
    """MODEL_REQUIRES_COMPILATION"""


class NotFound(own.NotFound):
    """NOT_FOUND"""


class DeviceReset(own.Error):
    """DEVICE_RESET"""


# Number, name and class for each kind of Tessera's errors; the first entry that matches is used.
_WHILE_RUNNING: list[tuple[type[own.Error], int, str, type[own.Error]]] = [
    (own.InvalidArgument, 2, "INVALID_ARGUMENT", InvalidArgument),
    (own.NotFound, 3, "NO_SUCHFILE", NoSuchFile),
    (own.Unsupported, 9, "NOT_IMPLEMENTED", NotImplemented),
    (own.InvalidModel, 10, "INVALID_GRAPH", InvalidGraph),
    (own.OverBudget, 6, "RUNTIME_EXCEPTION", RuntimeException),
    (own.Error, 1, "FAIL", Fail),
]


def translated(error: own.Error, *, loading: bool = False) -> Exception:
    """The error as onnxruntime would raise it, with Tessera's sentence."""
    number, name, made = next((n, text, cls) for kind, n, text, cls in _WHILE_RUNNING if isinstance(error, kind))
    if loading and isinstance(error, own.InvalidModel) and "node" not in str(error):
        number, name, made = 7, "INVALID_PROTOBUF", InvalidProtobuf
    result = made(f"[ONNXRuntimeError] : {number} : {name} : {error}")
    result.message, result.context = error.message, error.context
    return result
