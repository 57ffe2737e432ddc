"""Tessera: run, explain, optimise and train neural networks.

    import tessera
    model = tessera.load("model.onnx")
    y = model.run(x)

`tessera.ort` has the interface of onnxruntime.
"""

from __future__ import annotations

from tessera._core import Cancellation, Model, RunOptions, Tensor, ValueInfo
from tessera._devices import devices
from tessera._errors import (
    Cancelled,
    Error,
    Failed,
    InvalidArgument,
    InvalidModel,
    IOFailure,
    NotFound,
    OverBudget,
    Unsupported,
)
from tessera._language import Answer, LanguageModel, TextStream
from tessera._quantize import Quantisation, quantize
from tessera._reports import Differences, Explanation, Optimisation
from tessera._server import Server
from tessera._session import Session, load
from tessera._sharing import Arbiter, Job
from tessera._torch import from_torch
from tessera._training import Trainer
from tessera._version import __version__, build_info

__all__ = [
    "Answer",
    "Arbiter",
    "Cancellation",
    "Cancelled",
    "Differences",
    "Error",
    "Explanation",
    "Failed",
    "IOFailure",
    "InvalidArgument",
    "InvalidModel",
    "Job",
    "LanguageModel",
    "Model",
    "NotFound",
    "Optimisation",
    "OverBudget",
    "Quantisation",
    "RunOptions",
    "Server",
    "Session",
    "Tensor",
    "TextStream",
    "Trainer",
    "Unsupported",
    "ValueInfo",
    "__version__",
    "build_info",
    "devices",
    "from_torch",
    "load",
    "quantize",
]
