"""The exceptions of Tessera, one class for each kind of error."""

from __future__ import annotations


class Error(RuntimeError):
    """Something that Tessera was asked to do is not possible; the class says what kind of reason there is.

    `message` is the sentence alone; `context` lists the places that it passed through, innermost first.
    """

    message: str = ""
    context: tuple[str, ...] = ()


class InvalidArgument(Error, ValueError):
    """A wrong call: an unknown input name; a wrong type, rank or dimension."""


class InvalidModel(Error):
    """The model breaks the rules of its format or of an operator."""


class Unsupported(Error):
    """The model is legal, but Tessera does not have what it asks for."""


class NotFound(Error):
    """A file or a named thing does not exist."""


class IOFailure(Error):
    """Reading or writing a file failed."""


class OverBudget(Error):
    """Memory, time, size or depth beyond the set limit."""


class Cancelled(Error):
    """The caller asked a run to stop."""


class Failed(Error):
    """A run failed on its data: an index out of range, a division by zero, and so on."""
