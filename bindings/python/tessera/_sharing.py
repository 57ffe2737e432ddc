"""Sharing the machine among jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tessera import _core
from tessera._errors import InvalidArgument
from tessera._session import Session, names_of

T = TypeVar("T")
_PRIORITIES = ("background", "standard", "realtime")


def _are_names(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and all(isinstance(each, str) for each in given)


class Job:
    """A stream of runs with a class and promises; made by Arbiter.job. Threads may share it."""

    def __init__(self, made: _core.Job) -> None:
        self._core = made

    def run(
        self,
        session: Session,
        inputs: Any = None,
        *arrays: Any,
        outputs: str | Sequence[str] | None = None,
        **named: Any,
    ) -> dict[str, Any]:
        """Session.run whose steps the arbiter allows one by one; always returns a dict by output name.

        Inputs go as in Session.run: arrays in the model's order, or by name, or one dict.
        """
        if isinstance(inputs, dict) and len(arrays) == 1 and outputs is None and _are_names(arrays[0]):
            outputs, arrays = arrays[0], ()
        names = session._output_names if outputs is None else names_of(outputs)
        feeds = session._feeds(inputs, arrays, named)
        return dict(zip(names, self._core.run(session._core, feeds, None if outputs is None else names)))

    def call(self, name: str, work: Callable[[], T]) -> T:
        """A function of the caller's as one step of the job; returns what it returns."""
        result: T = self._core.call(name, work)
        return result

    def __repr__(self) -> str:
        return f"<tessera.Job {self.report()['name']}>"

    def report(self) -> dict[str, Any]:
        """Counts of runs, time on the device and waiting, and latencies, in nanoseconds."""
        return self._core.report()


class Arbiter:
    """Says whose step is next, by a policy (build_info()["policies"] lists them).

    >>> job = tessera.Arbiter("fill").job("urgent", priority="realtime")
    >>> job.run(model, {"x": x})["y"].shape
    (1, 4)
    """

    def __init__(self, policy: str = "fill", *, memory_bytes: int = 0, device: str = "cpu") -> None:
        self._core = _core.Arbiter(policy, memory_bytes, device)

    @property
    def policy(self) -> str:
        return self._core.policy

    def __repr__(self) -> str:
        return f"<tessera.Arbiter {self.policy}>"

    def job(
        self,
        name: str,
        *,
        priority: str = "standard",
        weight: float = 1.0,
        goal_s: float = 0.0,
        guarantee_bytes: int = 0,
        limit_bytes: int = 0,
    ) -> Job:
        """`goal_s`: the latency that a run of a realtime job should have at most."""
        if priority not in _PRIORITIES:
            raise InvalidArgument(f"there is no priority '{priority}'; use one of {', '.join(_PRIORITIES)}")
        number = _PRIORITIES.index(priority)
        return Job(self._core.add_job(name, number, weight, goal_s, guarantee_bytes, limit_bytes))
