"""Progress of many runs: a bar on a terminal, a line per quarter elsewhere, or whatever the caller does with it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OnProgress = Callable[[int, int], None]
"""Called with (runs done, runs in all)."""


@contextmanager
def reporting(progress: bool | OnProgress, label: str) -> Iterator[OnProgress]:  # noqa: FBT001 (the public argument)
    """Yield what to call after each batch of runs; it writes to standard error, never to standard output."""
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda _done, _total: None
    elif sys.stderr.isatty() and (bar := _bar(label)) is not None:
        with bar as on_progress:
            yield on_progress
    else:
        yield _lines(label)


def _bar(label: str) -> "_Bar | None":
    try:
        return _Bar(label)
    except ImportError:  # rich is optional: fall back to lines
        return None


class _Bar:
    """A bar of rich as a context manager that yields an `OnProgress`."""

    def __init__(self, label: str) -> None:
        from rich.console import Console  # noqa: PLC0415 (optional)
        from rich.progress import Progress  # noqa: PLC0415

        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(label, total=None)

    def __enter__(self) -> OnProgress:
        self._progress.start()
        return lambda done, total: self._progress.update(self._task, completed=done, total=total)

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()


def _lines(label: str) -> OnProgress:
    shown = 0

    def on_progress(done: int, total: int) -> None:
        nonlocal shown
        quarter = 4 * done // total
        if quarter > shown:
            shown = quarter
            sys.stderr.write(f"{label}: {done} of {total} runs\n")

    return on_progress
