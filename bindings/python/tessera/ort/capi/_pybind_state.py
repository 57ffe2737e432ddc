"""Another place of the same names."""

from tessera.ort.capi.onnxruntime_pybind11_state import *  # noqa: F403
from tessera.ort.capi.onnxruntime_pybind11_state import __all__

__all__ = list(__all__)
