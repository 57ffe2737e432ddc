"""What explain, optimize and diff return: texts, data, and pages in notebooks."""

from __future__ import annotations

import contextlib
import html
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from tessera import _core


def framed(page: str) -> str:
    """A whole page inside of a cell's output."""
    return f'<iframe srcdoc="{html.escape(page, quote=True)}" width="100%" height="800" style="border:0"></iframe>'


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Callable[[str, float], None] | None]:
    """A bar of tqdm's if that is imported or can be, else nothing."""
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        yield None
        return
    with tqdm(total=100, desc=title, leave=False, delay=1) as bar:

        def show(what: str, done: float) -> None:
            bar.set_postfix_str(what, refresh=False)
            bar.update(round(100 * done) - bar.n)

        yield show


class Explanation:
    """Where a model's time goes. `text`, `data` and `html` are the same; print it, or show it in a notebook."""

    def __init__(self, found: _core.Explanation) -> None:
        self._found = found

    @property
    def headline(self) -> str:
        return self._found.headline

    @property
    def text(self) -> str:
        return self._found.text()

    @property
    def html(self) -> str:
        """A page that needs nothing else."""
        return self._found.html()

    @property
    def data(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self._found.json())
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<tessera.Explanation: {self.headline}>"

    def _repr_html_(self) -> str:
        return framed(self.html)


class Optimisation:
    """What the passes did to a model, and what that bought."""

    def __init__(self, report: str, text: str, page: str) -> None:
        self.data: dict[str, Any] = json.loads(report)
        self.text = text
        self.html = page

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<tessera.Optimisation: {self.text.splitlines()[0] if self.text else ''}>"

    def _repr_html_(self) -> str:
        return framed(self.html)


class Differences:
    """Where two models differ. True where they do not."""

    def __init__(self, found: _core.Differences) -> None:
        self._found = found
        self.same: bool = found.same()
        self.text: str = found.text()

    @property
    def data(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self._found.json())
        return result

    def __bool__(self) -> bool:
        return self.same

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<tessera.Differences: {'the same' if self.same else 'different'}>"
