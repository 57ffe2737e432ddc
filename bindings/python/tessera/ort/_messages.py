"""Messages of Tessera as onnxruntime's levels of severity let them through."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

# Indexed by onnxruntime's number: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal.
LEVELS = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL]


class _Threshold(logging.Filter, threading.local):
    """Of the logger "tessera": the least level of this thread's messages."""

    least = logging.NOTSET

    def __init__(self) -> None:
        logging.Filter.__init__(self)

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= self.least


_threshold = _Threshold()
logging.getLogger("tessera").addFilter(_threshold)


@contextlib.contextmanager
def quieted(severity: int) -> Iterator[None]:
    """While it lasts, this thread's messages below the severity are dropped; a negative severity drops none."""
    former = _threshold.least
    if severity >= 0:
        _threshold.least = LEVELS[min(severity, len(LEVELS) - 1)]
    try:
        yield
    finally:
        _threshold.least = former
