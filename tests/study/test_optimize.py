"""Measurements that are Python functions: how they end, and what becomes of their asks."""

import asyncio
import io
import math
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput, Skipped, SurepickError
from tests.study.kinds import ROWS
from tests.study.tree_study import means, new
from tests.waiting import LIMIT


def test_a_function_is_measured_until_the_study_stops() -> None:
    """By several threads, with measurements that are skipped now and then; each pull is announced."""
    study, seen = new(), list[float]()
    rng, lock, calls = np.random.default_rng(0), threading.Lock(), [0]

    def measure(arm: int) -> float:
        with lock:
            calls[0] += 1
            if calls[0] % 5 == 0:
                raise Skipped("bubbles")
            return means(arm) + 0.2 * float(rng.standard_normal())

    study.optimize(measure, n_jobs=3, on_pull=lambda _study, _ask, value: seen.append(value))
    assert study.stopped
    assert sorted(seen) == sorted(one.told for one in study.measurements)
    assert {event["reason"] for event in study.log if event["kind"] == "failed"} == {"bubbles"}


def test_a_function_that_raises_ends_all_and_what_was_measured_is_kept() -> None:
    """The ask is given up with the error as its reason."""
    study = new()
    study.optimize(means, max_pulls=3)
    assert len(study.measurements) == 3

    def broken(_arm: int) -> float:
        raise RuntimeError("no power")

    with pytest.raises(RuntimeError, match="no power"):
        study.optimize(broken, n_jobs=2)
    assert len(study.measurements) == 3
    assert study.pending == []
    assert study.log[-1]["reason"] == "RuntimeError: no power"
    with pytest.raises(InvalidInput, match="value"):
        study.optimize(lambda _arm: math.nan, max_pulls=1)
    assert study.pending == []


def test_ctrl_c_ends_optimize(tmp_path: Path) -> None:
    """At once, with what was measured told, however many threads there are."""
    script = """
import signal, sys, threading, surepick as sp
from tests.study.kinds import ROWS
study = sp.create_study("long", arms=ROWS, noise_std=1.0, delta=1e-9, storage=sys.argv[1])
calls, interrupted = [], threading.Event()
def interrupt(*_):
    interrupted.set()
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupt)
def measure(arm):
    calls.append(arm)
    if len(calls) == 20:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    if len(calls) >= 20:
        interrupted.wait()  # however long the main thread has to wait for its turn
    return float(len(calls) % 2)
try:
    study.optimize(measure, n_jobs=2)
except KeyboardInterrupt:
    print(len(calls), len(study.measurements), len(study.pending))
"""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", script, str(tmp_path / "lab.db")]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=LIMIT).stdout
    n_calls, n_told, n_open = map(int, said.split())
    assert (n_calls, n_open) == (n_told, 0)
    assert n_calls < 100


def test_functions_that_never_have_a_result_end() -> None:
    """And what they say, in however many lines, is the reason of the ask that was given up."""

    def skips(_arm: Any) -> float:
        raise sp.Skipped("no\n light")

    study = new()
    with pytest.raises(SurepickError, match="no result in 1000 measurements in a row"):
        study.optimize(skips)
    assert study.pending == []
    assert study.log[-1]["reason"] == "no light"


def test_optimize_warns_of_an_answer_that_cannot_be_defended() -> None:
    """The rewards scatter far more than they were said to."""
    values = iter([3.0, -3.0] * 200)
    study = new(noise_std=0.01)
    with pytest.warns(sp.NoiseWarning, match="No answer can be defended"):
        study.optimize(lambda _arm: next(values), max_pulls=60)


class _Noisy:
    """Trees with noise, by one generator that threads share."""

    def __init__(self) -> None:
        self._rng, self._lock = np.random.default_rng(0), threading.Lock()

    def __call__(self, arm: int) -> float:
        with self._lock:
            return means(arm) + 0.2 * float(self._rng.standard_normal())


def test_exceptions_to_catch_give_up_their_ask_and_the_rest_goes_on() -> None:
    """One class or several; any other ends all; and a thousand in a row are no accident."""
    measure, calls = _Noisy(), [0]

    def flaky(arm: int) -> float:
        calls[0] += 1
        if calls[0] == 2:
            raise TimeoutError("no answer")
        return measure(arm)

    study = new()
    study.optimize(flaky, catch=(OSError, KeyError))
    assert study.stopped
    assert [event["reason"] for event in study.log if event["kind"] == "failed"] == ["TimeoutError: no answer"]
    calls[0] = 0
    with pytest.raises(TimeoutError):
        new().optimize(flaky, catch=KeyError)

    def never(_arm: int) -> float:
        raise OSError

    with pytest.raises(SurepickError, match="no result in 1000 measurements in a row") as caught:
        new().optimize(never, catch=OSError)
    assert isinstance(caught.value.__cause__, OSError)
    for wrong in (BaseException, "OSError", 3):
        with pytest.raises(InvalidInput, match="classes of exceptions"):
            study.optimize(measure, catch=wrong)  # type: ignore[arg-type]


def test_a_timeout_ends_asking_and_what_is_under_way_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that the measurements move on."""
    now = [0.0]
    monkeypatch.setattr("surepick.study.optimize.monotonic", lambda: now[0])

    def slow(arm: int) -> float:
        now[0] += 10.0
        return means(arm)

    study = new(delta=1e-9)
    study.optimize(slow, timeout=25)
    assert len(study.measurements) == 3
    assert study.pending == []
    study.optimize(slow, timeout=0)
    assert len(study.measurements) == 3
    with pytest.raises(InvalidInput, match="timeout"):
        study.optimize(slow, timeout=-1)


def test_callbacks_see_each_pull_and_may_end_the_call() -> None:
    """All of them, `on_pull` last; False ends, None does not."""
    study, seen = new(delta=1e-9), list[tuple[str, int]]()

    def first(_study: sp.Study, ask: sp.StudyAsk, _value: float) -> None:
        seen.append(("first", ask.id))

    def enough(given: sp.Study, ask: sp.StudyAsk, _value: float) -> bool:
        assert given is study
        seen.append(("enough", ask.id))
        return ask.id < 3

    study.optimize(means, callbacks=[first], on_pull=enough)
    assert seen == [(name, ask) for ask in (1, 2, 3) for name in ("first", "enough")]
    with pytest.raises(InvalidInput, match="callbacks"):
        study.optimize(means, callbacks=[3])  # type: ignore[list-item]


def test_all_cores_measure_with_minus_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many measurements are under way as there are cores; 0 and -2 are refused."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    barrier = threading.Barrier(3, timeout=LIMIT)

    def together(arm: int) -> float:
        barrier.wait()
        return means(arm)

    study = new(delta=1e-9)
    study.optimize(together, n_jobs=-1, max_pulls=3)
    assert len(study.measurements) == 3
    for wrong in (0, -2):
        with pytest.raises(InvalidInput, match="n_jobs"):
            study.optimize(means, n_jobs=wrong)


@pytest.mark.parametrize("is_rich", [True, False])
def test_progress_is_one_line_on_standard_error(
    is_rich: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With rich and without it; and by default nothing is printed."""
    if not is_rich:
        monkeypatch.setattr("surepick.study.optimize.find_spec", lambda _: None)
    monkeypatch.setenv("COLUMNS", "200")
    study = new()
    study.optimize(_Noisy(), max_pulls=5, progress=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line[:14] for line in printed.err.splitlines() if line.strip()] == ["trees: 5 pulls"]
    study.optimize(_Noisy(), max_pulls=1)
    assert capsys.readouterr().err == ""


def test_progress_without_rich_replaces_a_line_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is never wider than the terminal, where it could not be replaced."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("surepick.study.optimize.find_spec", lambda _: None)
    monkeypatch.setattr("surepick.study.optimize.LOOK_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "30")
    new().optimize(_Noisy(), max_pulls=5, progress=True)
    looks = terminal.getvalue().split("\r")
    assert [look[:15].rstrip() for look in looks[1:]] == [
        f"trees: {n} pull{'s' * (n > 1)}, "[:15].rstrip() for n in (1, 2, 3, 4, 5, 5)
    ]
    assert max(map(len, looks)) <= 30
    assert looks[-1].endswith("\n")


# ---- async functions


class _Gate:
    """Lets measurements go on once a number of them is under way at the same time."""

    def __init__(self, n: int) -> None:
        self._n, self._under_way, self._open = n, 0, asyncio.Event()

    async def wait(self) -> None:
        """Wait for the others, the first time."""
        self._under_way += 1
        if self._under_way >= self._n:
            self._open.set()
        await asyncio.wait_for(self._open.wait(), LIMIT)


def test_32_async_workers_share_one_study(tmp_path: Path) -> None:
    """All 32 measure at the same time, in a file; every value is told once, callbacks may be async."""
    study = sp.create_study("trees", arms=ROWS, noise_std=0.2, storage=tmp_path / "lab.db", author="ann", delta=1e-6)
    measure, seen = _Noisy(), list[int]()

    async def main() -> None:
        gate, loop_thread = _Gate(32), threading.get_ident()

        async def pull(arm: int) -> float:
            await gate.wait()
            return measure(arm)

        async def note(_study: sp.Study, ask: sp.StudyAsk, _value: float) -> None:
            assert threading.get_ident() == loop_thread
            seen.append(ask.id)

        await study.optimize_async(pull, n_jobs=32, callbacks=[note])

    with study:
        asyncio.run(main())
        assert study.stopped
        assert study.pending == []
        assert sorted(seen) == sorted(one.ask or 0 for one in study.measurements)
        assert len({one.by for one in study.measurements}) == 32


def test_optimize_takes_async_functions() -> None:
    """As functions, as objects, with failures; in a running loop it says what to write instead."""
    measure = _Noisy()

    async def pull(arm: int) -> float:
        return measure(arm)

    class Instrument:
        async def __call__(self, arm: int) -> float:
            return measure(arm)

    for function in (pull, Instrument()):
        study = new()
        study.optimize(function, n_jobs=4)
        assert study.stopped

    async def inside() -> None:
        new().optimize(pull)

    with pytest.raises(InvalidInput, match=r"await study.optimize_async\(...\)"):
        asyncio.run(inside())
    study = new()
    with pytest.raises(InvalidInput, match=r"await study.optimize_async\(...\)"):
        study.optimize(lambda arm: pull(arm + 0))
    assert study.pending == []
    with pytest.raises(InvalidInput, match="pass a plain function to `optimize`"):
        asyncio.run(new().optimize_async(measure))  # type: ignore[arg-type]


def test_an_async_failure_ends_all_and_the_others_tell_what_they_measure() -> None:
    """The first call fails while the others are under way."""
    study, calls = new(delta=1e-9), [0]

    async def main() -> None:
        gate = _Gate(4)

        async def pull(arm: int) -> float:
            calls[0] += 1
            is_first = calls[0] == 1
            await gate.wait()
            if is_first:
                raise RuntimeError("no power")
            return means(arm)

        await study.optimize_async(pull, n_jobs=4, max_pulls=4)

    with pytest.raises(RuntimeError, match="no power"):
        asyncio.run(main())
    assert len(study.measurements) == 3
    assert study.pending == []


def test_a_call_that_is_cancelled_gives_up_its_asks() -> None:
    """While measurements are under way, and while an ask is on its way."""
    study = new(delta=1e-9)

    async def main() -> None:
        under_way, never = asyncio.Event(), asyncio.Event()

        async def pull(_arm: int) -> float:
            under_way.set()
            await never.wait()
            return 0.0

        task = asyncio.create_task(study.optimize_async(pull, n_jobs=8))
        await under_way.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert study.pending == []
    assert study.measurements == []
