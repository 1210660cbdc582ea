"""Measurements that are Python functions: how they end, and what becomes of their asks."""

import asyncio
import io
import math
import os
import socket
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput, Skipped, SurepickError
from surepick.study.optimize import HOST_PROCESSES, _machine
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


def test_check_pulls_of_an_audit_are_made() -> None:
    """After the verdict a call measures what the audit planned, and a further call measures nothing."""
    study, rng = new(), np.random.default_rng(0)

    def measure(arm: int) -> float:
        return means(arm) + 0.2 * float(rng.standard_normal())

    study.optimize(measure)
    n = len(study.measurements)
    checks = study.audit(5)
    study.optimize(measure)
    study.optimize(measure)
    assert len(study.measurements) == n + checks == n + 5


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


@pytest.mark.parametrize("kind", ["threads", "coroutines"])
def test_ctrl_c_ends_optimize(kind: str, tmp_path: Path) -> None:
    """At once, with what was measured told, however many measure; coroutines give up what they are waiting for."""
    script = """
import asyncio, signal, sys, threading, surepick as sp
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
async def wait(arm):
    calls.append(arm)
    if len(calls) == 20:
        signal.raise_signal(signal.SIGINT)
    if len(calls) >= 20:
        await asyncio.Event().wait()
    return float(len(calls) % 2)
is_async = sys.argv[2] == "coroutines"
if is_async:
    signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    study.optimize(wait if is_async else measure, n_jobs=8)
except KeyboardInterrupt:
    print(len(calls), len(study.measurements), len(study.pending))
"""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", script, str(tmp_path / "lab.db"), kind]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=LIMIT).stdout
    n_calls, n_told, n_open = map(int, said.split())
    assert n_open == 0
    assert n_calls == n_told if kind == "threads" else n_told >= 19 - 7
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


def test_true_and_false_where_numbers_are_due_are_kept_and_end_all() -> None:
    """Their eight measurements are not lost; beside other numbers, True is a mistake of the function."""
    together, study = threading.Barrier(8, timeout=LIMIT), new(noise_std=None)

    def passes(arm: int) -> Any:
        together.wait()
        return np.bool_(arm % 2)

    with pytest.raises(
        InvalidInput, match=r'recorded as [01]; this looks like pass/fail: .*study.reopen\(rewards="bin'
    ):
        study.optimize(passes, n_jobs=8)
    assert [one.told for one in study.measurements] == [float(one.arm % 2) for one in study.measurements]
    assert len(study.measurements) == 8
    assert study.pending == []
    study.reopen(rewards="binary", reason="pass/fail")
    study.optimize(lambda arm: arm % 2 == 0, max_pulls=3)
    assert len(study.measurements) == 11
    for other in (new(), new(noise_std=None)):
        other.tell(arm="elm", value=0.5)
        with pytest.raises(InvalidInput, match="got True; this looks like pass/fail"):
            other.optimize(lambda _arm: True)
        assert len(other.measurements) == 1
        assert other.pending == []


def test_asks_of_a_process_that_has_ended_are_made_again() -> None:
    """Of this machine, and of no worker that may still be there."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(LIMIT)
    study, here = new(delta=1e-9), _machine()
    alive = [f"{here}:{os.getpid()}:ab:0", f"elsewhere:{ended.pid}:ab:0", "bench-1", f"{here}:{ended.pid}"]
    alive += [f"{here}:bench:2:0", f"{here}:{10**20}:ab:0"]
    for worker in (*alive, f"{here}:{ended.pid}:ab:0"):
        study.ask(1, worker=worker)
    study.optimize(means, max_pulls=1)
    assert [one.id for one in study.pending] == [1, 2, 3, 4, 5, 6]
    assert [one["ask"] for one in study.log if one["kind"] == "failed"] == [7]


def test_a_container_is_no_part_of_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of processes mean others there, even if it has the name of the host."""
    monkeypatch.setattr(Path, "readlink", lambda _: Path(HOST_PROCESSES))
    assert _machine() == socket.gethostname()
    monkeypatch.setattr(Path, "readlink", lambda _: Path("pid:[4026532]"))
    assert _machine().startswith(f"{socket.gethostname()}-")


def test_an_error_says_where_it_came_up_and_how_to_go_on() -> None:
    """In a note, so that the error itself stays what it is."""

    def broken(_arm: int) -> float:
        raise OSError("no light")

    with pytest.raises(OSError, match="no light") as caught:
        new().optimize(broken)
    assert caught.value.__notes__ == [
        "raised for elm (ask 1, given up); 0 results are kept. To go on after such errors: `catch=OSError`."
    ]


@pytest.mark.parametrize("is_async", [True, False])
def test_warnings_name_the_line_of_the_call(is_async: bool) -> None:
    """Not one inside a job, where there is nothing to read."""
    study, values = new(noise_std=None), iter([0.0, 1.0] * 5)

    async def awaited(_arm: int) -> float:
        return next(values)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study.optimize(awaited if is_async else lambda _arm: next(values), max_pulls=10)
    assert [(one.category, one.filename) for one in caught] == [
        (sp.EntryWarning, __file__),
        (sp.ModelWarning, __file__),
    ]


def test_what_is_left_to_others_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A call that ends before the budget does says why."""
    caplog.set_level("INFO", "surepick")
    study = new(budget=4)
    study.ask(3, worker="bench-1")
    study.optimize(means)
    assert len(study.measurements) == 1
    assert caplog.records[-1].getMessage() == (
        "study trees: nothing to ask for before 3 open asks of others are answered"
    )


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
    study.optimize(means, callbacks=enough)
    assert seen[6:] == [("enough", 4)]
    for wrong in (3, [3]):
        with pytest.raises(InvalidInput, match="callbacks"):
            study.optimize(means, callbacks=wrong)  # type: ignore[arg-type]


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
    assert [line[:14] for line in printed.err.splitlines()] == ["trees: 5 pulls"]
    assert printed.err.endswith("\n")
    study.optimize(_Noisy(), max_pulls=1)
    assert capsys.readouterr().err == ""


def test_progress_in_a_file_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the last one, also when all ends by an error."""
    monkeypatch.setattr("surepick.study.optimize.LOOK_SECONDS", 0.0)
    study = new(delta=1e-9)

    def fails(_arm: int) -> float:
        raise RuntimeError("no power")

    study.optimize(means, max_pulls=1)
    with pytest.raises(RuntimeError, match="no power"):
        study.optimize(fails, progress=True)
    assert [line[:13] for line in capsys.readouterr().err.splitlines()] == ["trees: 1 pull"]
    monkeypatch.setattr("surepick.study.optimize.LINE_SECONDS", 0.0)
    study.optimize(means, max_pulls=2, progress=True)
    said = ["trees: 2 pulls", "trees: 3 pulls", "trees: 3 pulls"]
    assert [line[:14] for line in capsys.readouterr().err.splitlines()] == said


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


def test_an_unknown_option_is_named_with_the_known_ones() -> None:
    """A limit under another name: the error has the right one, and nothing was asked."""
    study: Any = new()
    for call in (study.optimize, lambda *given, **options: asyncio.run(study.optimize_async(*given, **options))):
        with pytest.raises(InvalidInput, match="no option 'n_pulls'; optimize takes max_pulls"):
            call(means, n_pulls=5)
    assert study.head[0] == 1


def _noisy(seed: int, most: int) -> Any:
    """Return a function of an arm that measures it, at most so many times."""
    rng, n = np.random.default_rng(seed), [0]

    def measure(arm: int) -> float:
        n[0] += 1
        assert n[0] <= most, "measures without end"
        return means(arm) + 0.2 * float(rng.standard_normal())

    return measure


def test_asks_that_an_ended_process_left_open_are_measured_first(tmp_path: Path) -> None:
    """A process asked for eight, told six and ended; the next one of the same author decides the study."""
    first, measure = new(storage=tmp_path / "lab.db"), _noisy(0, 1_000)
    for ask in first.ask(8)[2:]:
        first.tell(ask.id, measure(ask.arm))
    again = sp.load_study(first.name, tmp_path / "lab.db", author=first.author)
    left = [ask.arm for ask in again.pending]
    again.optimize(measure)
    assert again.stopped
    assert len(left) == 2
    assert again.pending == []
    assert [again.measurements[n].arm for n in (6, 7)] == left


def test_a_call_ends_if_the_proof_waits_for_an_ask_of_another_bench() -> None:
    """It asks for a bounded number more, says which ask it waits for, and goes on once that is given up."""
    study, measure = new(), _noisy(0, 1_000)
    (waited,) = study.ask(1, worker="bench-9")
    for kind in ("threads", "coroutines"):

        async def wait(arm: int) -> float:
            return float(measure(arm))

        with pytest.raises(SurepickError, match=rf"waits for ask 1 .* of bench-9.*study\.fail\({waited.id}\)"):
            study.optimize(measure if kind == "threads" else wait, n_jobs=2)
        assert 100 <= len(study.measurements) <= 110
    study.fail(waited.id, reason="the bench is off")
    study.optimize(measure)
    assert study.stopped
