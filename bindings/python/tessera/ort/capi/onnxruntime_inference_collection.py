"""The names that programs take from onnxruntime.capi.onnxruntime_inference_collection."""

from tessera.ort import InferenceSession, IOBinding, OrtDevice, OrtValue, SparseTensor

Session = InferenceSession

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue", "Session", "SparseTensor"]
