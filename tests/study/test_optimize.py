"""Measurements that are Python functions: how they end, and what becomes of their asks."""

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
