"""Submodules under onnxruntime's names."""
