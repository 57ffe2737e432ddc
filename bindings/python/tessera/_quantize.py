"""Making a trained model smaller and faster by integers."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

import numpy

from tessera import _core
from tessera._errors import InvalidArgument
from tessera._reports import framed, progress_bar
from tessera._session import Loadable, Session, SessionKeywords, loaded_model, names_of

Path = str | os.PathLike[str]


class Quantisation:
    """A quantised model and what the quantisation cost: `data`, `text` and `html` are the same report.

    `model` is the quantised model; `path` is the file that holds it.
    """

    def __init__(self, model: _core.Model, path: str, report: str, text: str, page: str) -> None:
        self.model = model
        self.path = path
        self.data: dict[str, Any] = json.loads(report)
        self.text = text
        self.html = page

    def session(self, **options: Unpack[SessionKeywords]) -> Session:
        """The file, ready to run; the keywords are those of Session."""
        return Session(self.path, **options)

    def save_report(self, path: Path) -> None:
        """Writes the report as a page that needs nothing else."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<tessera.Quantisation: {self.data['scheme']} -> {self.path}>"

    def _repr_html_(self) -> str:
        return framed(self.html)


def _check_names(data: Mapping[str, Any], model: _core.Model) -> None:
    """Arrays are for inputs of the model by their names."""
    missing = [each.name for each in model.inputs if each.name not in data]
    if missing:
        raise InvalidArgument(
            f"the calibration data have no array for input '{missing[0]}' of the model; they have "
            + (", ".join(f"'{name}'" for name in data) or "none")
        )


def _file_bytes(model: Any) -> int:
    """The size of the file that the model is read from; 0 for a model in memory."""
    if isinstance(model, bytes):
        return len(model)
    return os.path.getsize(model) if isinstance(model, str | os.PathLike) else 0


@contextlib.contextmanager
def _data_path(data: Path | Mapping[str, Any] | None, model: _core.Model) -> Iterator[str]:
    """The path of the calibration data; arrays are written to a temporary file."""
    if data is None:
        yield ""
    elif isinstance(data, Mapping):
        _check_names(data, model)
        with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
            path = os.path.join(folder, "calibration.npz")
            numpy.savez(path, **{name: numpy.asarray(array) for name, array in data.items()})  # type: ignore[arg-type]
            yield path
    else:
        yield os.fspath(data)


def quantize(
    model: Loadable | Session,
    output: Path,
    *,
    weights: str = "int8",
    full: bool = False,
    group: int | None = None,
    data: Path | Mapping[str, Any] | None = None,
    labels: str = "",
    normalise: str = "",
    batch: int = 8,
    samples: int = 0,
    estimator: str = "auto",
    percentile: float = 99.99,
    bias_correction: bool = True,
    equalisation: bool = True,
    adaptive_rounding: bool = False,
    rounding_steps: int | None = None,
    exclude: str | Sequence[str] = (),
    max_drop: float | None = None,
    metric: str = "",
    fast: bool = False,
    dims: Mapping[str, int] | None = None,
    threads: int = 0,
) -> Quantisation:
    """Writes a model with its weights, or everything, in 8 or 4 bits to `output` (.onnx, or .tsr for this machine).

    The keywords are the options of `tessera quantize`. Without `full` only weights are rounded (int8 or int4, in groups
    of `group` where these pay: without it of 128 and 32), and no data are needed. With `full` layers compute in
    integers; `data` are inputs to calibrate and measure on: a path (.npz, a folder, or .toml), or a dict of arrays by
    the inputs' names, whose first dimension counts the samples, with `labels` among them if there are labels.
    `adaptive_rounding` rounds weights up or down as their layers' outputs on the data demand. `max_drop` keeps the
    worst layers in float until `metric` (accuracy, f1 and the like, agreement, cosine, snr, or "command:…") is at most
    this much worse than the float model's. `fast` leaves out the diagnosis of single layers and the measurement of
    times.
    Raises InvalidArgument (options, or data that do not fit the model), NotFound, IOFailure, Unsupported;
    KeyboardInterrupt at the next step after Ctrl-C, when nothing has been written.

    >>> made = tessera.quantize("model.onnx", "small.onnx", full=True, data={"x": numpy.tile(x, (8, 1))})
    >>> made.session().run(x).shape
    (1, 4)
    """
    if isinstance(model, Session):
        name, loaded, session = model.name, model.model, model.options
    else:
        loaded, name = loaded_model(model)
        session = _core.SessionOptions()
        session.threads = threads
    how = _core.QuantiseOptions()
    how.weights, how.full, how.group = weights, full, 0 if group is None else group
    how.labels, how.normalise, how.batch, how.samples = labels, normalise, batch, samples
    how.estimator, how.percentile = estimator, percentile
    how.correct_bias, how.equalise = bias_correction, equalisation
    how.adaptive_rounding = adaptive_rounding
    if rounding_steps is not None:
        how.rounding_steps = rounding_steps
    how.exclude, how.max_drop, how.metric, how.diagnose = names_of(exclude), max_drop, metric, not fast
    how.session = session
    loaded = loaded.with_dims(dict(dims)) if dims else loaded
    with _data_path(data, loaded) as path, progress_bar("quantize") as progress:
        how.data = path
        made, report, text, page = _core.quantise(loaded, name, how, output, not fast, progress, _file_bytes(model))
    return Quantisation(made, os.fspath(output), report, text, page)
