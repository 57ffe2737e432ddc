"""Sharing the machine among jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tessera import _core
from tessera._errors import InvalidArgument
from tessera._session import Session

_PRIORITIES = ("background", "standard", "realtime")


class Job:
    """A stream of runs with a class and promises; made by Arbiter.job. Threads may share it."""

    def __init__(self, made: _core.Job) -> None:
        self._core = made

    def run(self, session: Session, inputs: dict[str, Any], outputs: list[str] | None = None) -> dict[str, Any]:
        """Session.run whose steps the arbiter allows one by one; always returns a dict by output name."""
        names = session._output_names if outputs is None else outputs
        return dict(zip(names, self._core.run(session._core, inputs, outputs)))

    def call(self, name: str, work: Callable[[], object]) -> None:
        """A function of the caller's as one step of the job."""
        self._core.call(name, work)

    def report(self) -> dict[str, Any]:
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
