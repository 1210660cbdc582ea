"""Progress of many runs: a bar on a terminal, a line now and then elsewhere; always on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import NamedTuple

LINE_SECONDS = 30.0
"""How often a line says how far it is, where there is no terminal."""


class State(NamedTuple):
    """How far it is."""

    done: int
    total: int
    """Runs to do; those that were there before are in neither."""
    seconds_left: float | None
    """An estimate from what the runs of each job took so far; None at first."""

    def __str__(self) -> str:
        if self.seconds_left is None or self.done == self.total:
            return f"{self.done} of {self.total} runs"
        minutes, seconds = divmod(round(self.seconds_left), 60)
        return f"{self.done} of {self.total} runs, about {minutes // 60}:{minutes % 60:02d}:{seconds:02d} left"


Show = Callable[[State], None]


@contextmanager
def shown(label: str, *, each_quarter: bool = False) -> Iterator[Show]:
    """Yield what to call after each batch; without a terminal also at every quarter if asked for."""
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield _lines(label, each_quarter=each_quarter)
        return
    from rich.console import Console  # noqa: PLC0415 (optional)
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[state]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, state="")
        yield lambda state: bar.update(task, completed=state.done, total=state.total, state=str(state))


def _lines(label: str, *, each_quarter: bool) -> Show:
    said, quarter = time.monotonic(), 0

    def show(state: State) -> None:
        nonlocal said, quarter
        reached = 4 * state.done // max(state.total, 1)
        if time.monotonic() - said > LINE_SECONDS or (each_quarter and reached > quarter):
            said, quarter = time.monotonic(), reached
            sys.stderr.write(f"{label}: {state}\n")

    return show
