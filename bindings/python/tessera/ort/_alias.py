"""Standing in for onnxruntime in a running interpreter."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys

_MODULES = (
    "",
    ".capi",
    ".capi.onnxruntime_pybind11_state",
    ".capi._pybind_state",
    ".capi.onnxruntime_inference_collection",
)


def install() -> None:
    """From here on `import onnxruntime` gives tessera.ort. Raises RuntimeError where it is imported already."""
    present = sys.modules.get("onnxruntime")
    if present is not None and present.__name__ != "tessera.ort":
        raise RuntimeError("onnxruntime is imported already: call tessera.ort.install() before that")
    for name in _MODULES:
        sys.modules["onnxruntime" + name] = importlib.import_module("tessera.ort" + name)
