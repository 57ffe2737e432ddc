"""Training a network."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from tessera import _core
from tessera._session import Session, SessionKeywords

Path = str | os.PathLike[str]


def is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(each, Mapping) for each in value)


def toml_of(config: Mapping[str, Any]) -> str:
    """The configuration as TOML text: tables of strings, numbers, booleans, lists of those and lists of tables."""
    lines: list[str] = []

    def write(table: Mapping[str, Any], prefix: str, *, heading: bool = True) -> None:
        if prefix and heading:
            lines.append(f"[{prefix}]")
        for key, value in table.items():
            if not isinstance(value, Mapping) and not is_list_of_tables(value):
                lines.append(f"{json.dumps(key)} = {json.dumps(value)}")
        for key, value in table.items():
            place = f"{prefix}.{json.dumps(key)}" if prefix else json.dumps(key)
            if isinstance(value, Mapping):
                write(value, place)
            elif is_list_of_tables(value):
                for each in value:
                    lines.append(f"[[{place}]]")
                    write(each, place, heading=False)

    write(config, "")
    return "\n".join(lines) + "\n"


class Trainer:
    """One training: forward, loss, backward and update are one graph.

    `config`: a path of a TOML file, or a dict with the same tables (docs/training.md lists them). `settings` go over
    it, with dotted names: {"optimiser.learning_rate": 0.1}.
    `model`: a Session or Model to train in place of the config's.
    `train`, `test` and `validation`: arrays by field name, in place of files. Not for several threads at once.
    `overwrite`: run() removes what another training wrote to the output folder; else it refuses such a folder.

    >>> config = {"loss": {"name": "mse", "target": "t"}, "data": {"batch": 1}, "train": {"steps": 3}}
    >>> tessera.Trainer(config, model=model, train={"x": x, "t": x[:, :4]}).run()["steps"]
    3
    """

    def __init__(
        self,
        config: Path | Mapping[str, Any],
        *,
        model: Session | _core.Model | None = None,
        train: Mapping[str, Any] | None = None,
        test: Mapping[str, Any] | None = None,
        validation: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        if isinstance(config, Mapping):
            text, where = toml_of(config), "the configuration"
        else:
            where = os.fspath(config)
            with open(config, encoding="utf-8") as file:
                text = file.read()
        given = model.model if isinstance(model, Session) else model
        changes = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]

        def arrays(fields: Mapping[str, Any] | None) -> dict[str, Any] | None:
            return None if fields is None else dict(fields)

        self._core = _core.Trainer(
            given, text, where, changes, arrays(train), arrays(test), arrays(validation), overwrite
        )

    def run(
        self,
        *,
        on_step: Callable[[dict[str, Any]], object] | None = None,
        on_evaluation: Callable[[dict[str, Any]], object] | None = None,
        on_checkpoint: Callable[[str], object] | None = None,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> dict[str, Any]:
        """Trains to the end. Ctrl-C saves a checkpoint (where there is an output folder) and raises KeyboardInterrupt.

        The functions are told the lines of the log, evaluations, checkpoints, and each step. What they raise ends the
        training.
        """
        return self._core.run(on_step, on_evaluation, on_checkpoint, on_progress)

    def resume(self, path: Path) -> None:
        """Goes on from the newest checkpoint in a folder, or from a checkpoint file."""
        self._core.resume(path)

    def evaluate(self, data: str = "test") -> dict[str, Any]:
        """Of the test data with the weights as they are, or of those named: "test", "validation" or "train".

        "metrics" holds all metrics by name; "classes" (with precision, recall, f1 and support) and "confusion" are
        there where the net tells classes apart.
        """
        return self._core.evaluate(data)

    def data(self) -> dict[str, Any]:
        """What the training learns from: samples, and of a table how each column is encoded."""
        return self._core.data()

    def model(self) -> _core.Model:
        """The net with the weights as they are."""
        return self._core.model()

    def notes(self) -> list[str]:
        """What was done to the net before the training: a new last layer, weights of a file."""
        return self._core.notes()

    def session(self, **options: Unpack[SessionKeywords]) -> Session:
        """The same, ready to run."""
        return Session(self.model(), **options)

    def save(self, path: Path) -> None:
        """Writes everything that resume() needs."""
        self._core.save(path)
