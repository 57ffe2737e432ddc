"""Standing in for onnxruntime: in a running interpreter, and in the worker processes that multiprocessing starts.

Worker processes run this file by itself before anything else (see _in_workers), so it imports nothing of Tessera's
until onnxruntime is imported.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

# The modules that Tessera replaces. Other Python modules of onnxruntime (quantization, transformers, tools ...) use
# these if onnxruntime is installed.
_MODULES = (
    "",
    ".capi",
    ".capi.onnxruntime_pybind11_state",
    ".capi._pybind_state",
    ".capi.onnxruntime_inference_collection",
    ".capi.onnxruntime_validation",
)
_NAME = "onnxruntime"


def _folders_of_onnxruntime() -> list[str]:
    """Where the package onnxruntime is installed, if it is."""
    spec = importlib.machinery.PathFinder.find_spec(_NAME)
    return list(spec.submodule_search_locations or []) if spec is not None else []


class _TesseraLoader(importlib.abc.Loader):
    """Gives tessera.ort under onnxruntime's name."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        try:
            module = importlib.import_module("tessera.ort")
        except ModuleNotFoundError:
            sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
            module = importlib.import_module("tessera.ort")
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec
        module.install()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds onnxruntime, and below it the modules of the installed onnxruntime that Tessera does not replace."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == _NAME:
            return importlib.machinery.ModuleSpec(fullname, _TesseraLoader(), is_package=True)
        parent, _, _ = fullname.rpartition(".")
        if parent not in (_NAME, _NAME + ".capi"):
            return None
        inner = parent.split(".")[1:]
        folders = [os.path.join(folder, *inner) for folder in _folders_of_onnxruntime()]
        spec = importlib.machinery.PathFinder.find_spec(fullname, folders)
        # An extension module would load onnxruntime itself.
        is_python = spec is not None and not isinstance(spec.loader, importlib.machinery.ExtensionFileLoader)
        return spec if is_python else None


class _Distribution(importlib.metadata.Distribution):
    """What a program is told that asks for the version of the package onnxruntime where that is not installed."""

    def read_text(self, filename: str) -> str | None:
        version = importlib.import_module("tessera.ort").__version__
        return f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {version}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return os.path.join(os.path.dirname(os.path.abspath(__file__)), path)


class _DistributionFinder(importlib.metadata.DistributionFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return None

    def find_distributions(self, context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        return [_Distribution()] if getattr(context, "name", None) == _NAME else []


def _in_workers() -> None:
    """Lets worker processes of the start methods spawn and forkserver begin with the same stand-in."""
    import multiprocessing.util as util

    start: Any = util.spawnv_passfds
    if getattr(start, "stands_in", False):
        return
    first = f"import runpy; runpy.run_path({os.path.abspath(__file__)!r})['install_finder'](); "

    def start_with_stand_in(path: Any, args: Sequence[Any], passfds: Any) -> Any:
        begun = [
            first + each if isinstance(each, str) and each.startswith(_COMMANDS) else each for each in args
        ]
        return start(path, begun, passfds)

    start_with_stand_in.stands_in = True  # type: ignore[attr-defined]
    util.spawnv_passfds = start_with_stand_in


# The commands that multiprocessing passes to the interpreter of a worker with -c.
_COMMANDS = ("from multiprocessing.spawn import", "from multiprocessing.forkserver import")


def install_finder() -> None:
    """From here on `import onnxruntime` gives tessera.ort, which is imported then."""
    if any(type(each).__name__ == _Finder.__name__ and hasattr(each, "stands_in") for each in sys.meta_path):
        return
    finder = _Finder()
    finder.stands_in = True  # type: ignore[attr-defined]
    sys.meta_path.insert(0, finder)
    sys.meta_path.append(_DistributionFinder())
    _in_workers()


def install() -> None:
    """From here on `import onnxruntime` gives tessera.ort, in worker processes of multiprocessing too.

    Modules of onnxruntime's own that are Python alone, such as onnxruntime.quantization, are found where onnxruntime is
    installed, and use Tessera. Raises RuntimeError where onnxruntime is imported already.
    """
    present = sys.modules.get(_NAME)
    if present is not None and present.__name__ != "tessera.ort":
        raise RuntimeError("onnxruntime is imported already: call tessera.ort.install() before that")
    install_finder()
    for name in _MODULES:
        sys.modules[_NAME + name] = importlib.import_module("tessera.ort" + name)
