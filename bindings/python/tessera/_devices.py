"""The devices of this machine."""

from __future__ import annotations

import json
from typing import Any

from tessera import _core


def devices() -> list[dict[str, Any]]:
    """The devices that a session can run on, with their hardware's properties.

    Names for `device=`: the name of a device, the name of its kind with its number (`KIND:1`), or its UUID. Of
    simulated devices, those are listed that this process has used.

    >>> import tessera
    >>> [device["name"] for device in tessera.devices()][:3]
    ['cpu', 'reference', 'null']
    """
    result: list[dict[str, Any]] = json.loads(_core.devices_json())["devices"]
    return result
