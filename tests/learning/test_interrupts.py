"""Ctrl-C at any line of `identify`: what was measured is kept, once, and a resumed run is the one never interrupted.

A real signal comes between two instructions of the interpreter. Here a trace function raises it before a line of the
package, any line that is run after the first measurement has begun.
"""

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.learning.result import Result
from tests.learning.lab import THETA, X

PACKAGE = str(Path(sp.__file__).parent)
NOISE = 0.5 * np.random.default_rng(7).standard_normal(1000)
N_PULLS = 8

WAYS: dict[str, dict[str, Any]] = {
    "short": {"algorithm": "uniform", "stopping": "betting"},
    "callback": {"algorithm": "uniform", "stopping": "evidence", "on_pull": lambda _: None},
    "phases": {"algorithm": "rage", "variant": "paper"},
    "default": {},
}
N_SPREAD = 40

Place = tuple[str, int]


class Tracer:
    """Takes note of the lines of the package as they are run; raises KeyboardInterrupt before one of them."""

    def __init__(self, place: Place | None = None, turn: int = 1) -> None:
        self.place, self.turn = place, turn
        self.places: list[Place] = []
        self.has_raised = False

    def __call__(self, frame: FrameType, _event: str, _arg: object) -> Any:
        """Follow a new frame if it is ours."""
        return self.line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def line(self, frame: FrameType, event: str, _arg: object) -> Any:
        """Note the line, and interrupt when it is time."""
        # Nothing is done at a `try:` at which the interpreter would look for signals.
        path, number = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and linecache.getline(path, number).strip() != "try:":
            self.places.append((path[len(PACKAGE) + 1 :], number))
            if self.places[-1] == self.place:
                self.turn -= 1
                if self.turn == 0:
                    self.has_raised = True
                    raise KeyboardInterrupt
        return self.line

    def start(self) -> None:
        """Follow what is run from now on, in frames that exist as well."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if frame.f_code.co_filename.startswith(PACKAGE):
                frame.f_trace = self.line
            frame = frame.f_back
        sys.settrace(self)


class Bench:
    """Measures with noise that depends on how many rewards came before, so that a resumed run meets the same noise."""

    def __init__(self, n_before: int = 0, tracer: Tracer | None = None) -> None:
        self.n_before, self.tracer = n_before, tracer
        self.measured: list[tuple[int, float]] = []

    def __call__(self, arm: int) -> float:
        """Measure."""
        reward = float(X[arm] @ THETA + NOISE[self.n_before + len(self.measured)])
        self.measured.append((arm, reward))
        if self.tracer is not None and len(self.measured) == 1:
            self.tracer.start()
        return reward


@contextmanager
def trace_restored() -> Iterator[None]:
    """Leave the debugger or coverage tool that was at work as it was."""
    before = sys.gettrace()
    try:
        yield
    finally:
        sys.settrace(before)


def run(name: str, bench: Bench, **more: Any) -> Result | None:
    """Identify in one of the `WAYS`; None if the interrupt comes through."""
    settings = {"noise_std": 0.5, "delta": 1e-4, "max_pulls": N_PULLS - bench.n_before, **WAYS[name], **more}
    with trace_restored():
        try:
            return sp.identify(X, bench, **settings)
        except KeyboardInterrupt:
            return None


@dataclass(frozen=True)
class Cut:
    """An interrupted run: before which line, what had been measured, and what came back."""

    where: Place
    measured: list[tuple[int, float]]
    result: Result | None


@cache
def cuts(name: str) -> list[Cut]:
    """Return interrupted runs: at equal distances, and in short runs at every line of identify.py that is ever run."""
    tracer = Tracer()
    run(name, Bench(tracer=tracer))
    own = {place for place in tracer.places if place[0] == "learning/identify.py" and name in ("short", "callback")}
    rng = np.random.default_rng(8)
    points = {(place, int(rng.integers(tracer.places.count(place))) + 1) for place in sorted(own)}
    for at in np.linspace(0, len(tracer.places) - 1, N_SPREAD, dtype=int).tolist():
        points.add((tracer.places[at], tracer.places[: at + 1].count(tracer.places[at])))
    found = []
    for place, turn in sorted(points):
        tracer = Tracer(place, turn)
        bench = Bench(tracer=tracer)
        result = run(name, bench)
        if tracer.has_raised:  # what is computed once is not met again
            found.append(Cut(place, bench.measured, result))
    return found


@pytest.mark.parametrize("name", WAYS)
def test_an_interrupt_at_any_line_returns_a_result_that_goes_on_exactly(name: str) -> None:
    """It says that it was interrupted, holds rewards as they were measured, and leads to the run never interrupted."""
    whole = run(name, Bench())
    assert whole is not None
    assert len(cuts(name)) >= N_SPREAD - 5
    trouble = []
    for cut in cuts(name):
        if cut.result is None or not cut.result.interrupted:
            trouble.append((cut.where, "no result that says so"))
            continue
        n = len(cut.result.history)
        if list(cut.result.history) != cut.measured[:n]:
            trouble.append((cut.where, "other rewards than measured"))
        resumed = run(name, Bench(n), history=cut.result.history)
        if resumed is None or resumed.to_dict() != whole.to_dict():
            trouble.append((cut.where, "goes on differently"))
    assert trouble == []


def test_an_interrupt_at_any_line_loses_no_reward() -> None:
    """Whatever `pull` has returned is in the history."""
    lost = [cut.where for cut in cuts("short") if cut.result and len(cut.result.history) < len(cut.measured)]
    assert lost == []


def test_an_interrupt_before_anything_is_measured_loses_no_history() -> None:
    """It comes through, the caller having the history still, or comes back as a result with all of it."""
    half = run("short", Bench(), max_pulls=5)
    assert half is not None
    tracer = Tracer()
    with trace_restored():
        sys.settrace(tracer)
        run("short", Bench(5), history=half.history, max_pulls=0)
    n_returned = 0
    for at in np.linspace(0, len(tracer.places) - 1, 25, dtype=int).tolist():
        place = tracer.places[at]
        with trace_restored():
            sys.settrace(Tracer(place, tracer.places[: at + 1].count(place)))
            result = run("short", Bench(5), history=half.history, max_pulls=0)
        n_returned += result is not None
        assert result is None or result.history == half.history
    assert 0 < n_returned < 25
