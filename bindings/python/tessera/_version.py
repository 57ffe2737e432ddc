"""What this installation is."""

from __future__ import annotations

from typing import Any

from tessera import _core

__version__: str = _core.__version__


def build_info() -> dict[str, Any]:
    """Version, compiler, Python ABI, and the machine as Tessera sees it.

    >>> import tessera
    >>> tessera.build_info()["version"] == tessera.__version__
    True
    """
    return _core.build_info()
