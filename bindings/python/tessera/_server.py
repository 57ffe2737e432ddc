"""Serving models from this process."""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from tessera import _core
from tessera._errors import InvalidArgument, InvalidModel, Unsupported
from tessera._session import Session
from tessera._training import toml_of

Path = str | os.PathLike[str]
Served = Path | Session | _core.Model


def _lay_out(folder: str, name: str, model: Served, settings: Mapping[str, Any]) -> None:
    """A model as the repository in `folder` has it: NAME/config.toml, and NAME/1 with the model's file."""
    if not name or "/" in name or name.startswith("."):
        raise InvalidArgument(f"'{name}' cannot be the name of a model: use letters, digits, '_', '-' and '.'")
    config = dict(settings)
    place = os.path.join(folder, name)
    os.mkdir(place)
    if isinstance(model, (Session, _core.Model)):
        os.mkdir(os.path.join(place, "1"))
        net = model.model if isinstance(model, Session) else model
        net.save(os.path.join(place, "1", "model.onnx"))
    else:
        # Links the folder rather than the file, because the weights may be in other files beside it.
        path = os.path.abspath(model)
        os.symlink(os.path.dirname(path), os.path.join(place, "1"))
        config["file"] = os.path.basename(path)
    with open(os.path.join(place, "config.toml"), "w", encoding="utf-8") as file:
        file.write(toml_of(config))


class Server:
    """Answers requests over HTTP and gRPC (the Open Inference Protocol v2) from threads of this process.

    `models`: the path of a model file or of a folder of models (docs/serving.md), or a dict of models by name: paths,
    Sessions or Models. `settings` are those of config.toml by model, for a dict of models. `http`, `grpc` and
    `metrics` are addresses (port 0: a free one) or "off"; `config` is a TOML file with keys, TLS, limits and an audit
    log, over which the other keywords go. Serves until stop(), the end of a `with` block, or the end of the process.
    Raises Unsupported where this build is without the server, NotFound and InvalidModel for models, IOFailure for
    addresses that cannot be had, InvalidArgument.

    >>> with tessera.Server({"net": "model.onnx"}, http="127.0.0.1:0", grpc="off", metrics="off") as server:
    ...     server.ready, [each["name"] for each in server.models]
    (True, ['net'])
    """

    def __init__(
        self,
        models: Path | Mapping[str, Served],
        *,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        http: str | None = None,
        grpc: str | None = None,
        metrics: str | None = None,
        policy: str | None = None,
        drain_s: float | None = None,
        threads: int | None = None,
        log_level: str | None = None,
        config: Path | None = None,
    ) -> None:
        if not _core.build_info()["server"]:
            raise Unsupported(
                "this build of Tessera is without the server; scripts/setup.sh --serve installs the libraries that "
                "building it needs"
            )
        given: dict[str, Any] = {
            "http": http,
            "grpc": grpc,
            "metrics": metrics,
            "policy": policy,
            "drain_s": None if drain_s is None else float(drain_s),
            "threads": threads,
            "log_level": log_level if log_level is not None or config is not None else "warning",
        }
        options = {key: value for key, value in given.items() if value is not None}
        self._stopped = threading.Event()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if isinstance(models, Mapping):
            unknown = set(settings or {}) - set(models)
            if unknown:
                raise InvalidArgument(f"settings are given for '{min(unknown)}', which is none of the models")
            self._folder = tempfile.TemporaryDirectory(prefix="tessera-")
        elif settings:
            raise InvalidArgument("settings are for a dict of models; a folder's stand in its config.toml files")
        try:
            if isinstance(models, Mapping) and self._folder is not None:
                for name, model in models.items():
                    _lay_out(self._folder.name, name, model, (settings or {}).get(name, {}))
            options["repository"] = self._folder.name if self._folder is not None else models
            self._core = _core.Server(config, options)
        except BaseException:
            if self._folder is not None:
                self._folder.cleanup()
            raise
        # The threads of the server must have ended before the interpreter does.
        self._end = weakref.finalize(self, self._core.stop)
        if isinstance(models, Mapping) or not os.path.isdir(models):
            self._check_loaded(models if isinstance(models, Mapping) else {"": models})

    def _check_loaded(self, given: Mapping[str, Served]) -> None:
        for model in self.models:
            if model["state"] == "READY":
                continue
            self.stop()
            source = given.get(model["name"], given.get(""))
            if isinstance(source, (str, os.PathLike)):
                _core.Model.load(source)  # raises an error that describes the fault of the file
            raise InvalidModel(f"model '{model['name']}' cannot be served: {model['reason']}")

    @property
    def ports(self) -> dict[str, int]:
        """Where it listens: "http", "grpc" and "metrics"; 0 for what is off."""
        return self._core.ports

    @property
    def ready(self) -> bool:
        """Whether all models are loaded and requests are taken."""
        return self._core.ready

    @property
    def models(self) -> list[dict[str, str]]:
        """The index: name, version, state ("READY", "UNAVAILABLE") and the reason of each model."""
        return self._core.models

    def reload(self) -> None:
        """Loads what has changed on disk and unloads what is gone; requests in flight end on the old versions."""
        self._core.reload()

    def stop(self) -> None:
        """Takes no new requests, answers those that it has, and ends. Safe to repeat."""
        self._end()
        if self._folder is not None:
            self._folder.cleanup()
        self._stopped.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until stop() is called in another thread, or Ctrl-C. Returns whether the server has stopped."""
        return self._stopped.wait(timeout_s)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._stopped.is_set() else ", ".join(f"{k} {v}" for k, v in self.ports.items() if v)
        return f"<tessera.Server {state}>"
