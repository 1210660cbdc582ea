"""An engineer's story: 24 pass/fail configurations, 32 async workers, a kernel that is killed, processes.

She has the README and docstrings alone, forgets `rewards="binary"` at first, and must lose nothing on the way.
"""

import asyncio
import logging
import os
import random
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import surepick as sp
from surepick.study.certificate import verify
from tests.study.storages import PROCESSES
from tests.waiting import LIMIT

LEVELS: dict[str, list[Any]] = {
    "cache": ["off", "small", "large"],
    "codec": ["lz4", "zstd"],
    "threads": [1, 4, 8],
    "retry": ["no", "yes"],
    "tls": ["1.2", "1.3"],
}
GAINS = {"large": 0.2, "small": 0.05, "zstd": 0.02, "yes": 0.2, "1.3": 0.03}


def configurations() -> pd.DataFrame:
    """24 of the 72 settings of two or three levels."""
    rows = random.Random(3).sample(list(product(*LEVELS.values())), 24)
    return pd.DataFrame(rows, columns=list(LEVELS), index=[f"cfg-{row:02d}" for row in range(24)])


RATES = [0.5 + sum(GAINS.get(str(level), 0.0) for level in row) for row in configurations().itertuples(index=False)]


class Bench:
    """Runs the tests of a configuration: takes some turns of the event loop, sometimes fails, says pass or fail."""

    def __init__(self, seed: int, *, dies_after: float = float("inf")) -> None:
        self._rng, self._dies_after = random.Random(seed), dies_after
        self.n_calls, self.n_passed_or_failed = 0, 0

    async def run(self, arm: int) -> bool:
        """Measure once."""
        self.n_calls += 1
        if self.n_calls > self._dies_after:
            os.kill(os.getpid(), 9)
        for _ in range(self._rng.randrange(5)):
            await asyncio.sleep(0)
        if self._rng.random() < 0.05:
            raise ConnectionError("node gone")
        self.n_passed_or_failed += 1
        return self._rng.random() < RATES[arm]


def die(address: str) -> None:
    """Measure in a process that is killed in the middle of it."""
    sp.load_study("ci", address).optimize(Bench(4, dies_after=45).run, n_jobs=32, catch=ConnectionError)


def measure_in_process(study: sp.Study, seed: int) -> int:
    """Measure ten times in a process of a pool; return how often it passed."""
    rng, passed = random.Random(seed), list[float]()

    def run(arm: int) -> Any:
        return np.bool_(rng.random() < RATES[arm])

    with study:
        study.optimize(run, max_pulls=10, callbacks=lambda _study, _ask, value: passed.append(value))
    return sum(map(bool, passed))


def test_a_call_of_identify_by_a_function_that_returns_bools() -> None:
    """It says at the first value what to add; then it runs, and says what it knows when it ends early."""
    rng, table = random.Random(0), configurations()

    def passes(arm: int) -> bool:
        return rng.random() < RATES[arm]

    with pytest.raises(sp.PullFailed, match='looks like pass/fail: use rewards="binary"'):
        sp.identify(table, passes)
    result = sp.identify(table, passes, rewards="binary", max_pulls=80)
    assert repr(result) == f"Result(best={result.best_name!r}, stopped=False, n_pulls=80)"
    for words in ("Not decided (80 pulls).", "Estimate, not a guarantee:", "Proved so far: 0 %; needed 95 %."):
        assert words in result.explain()


def test_the_way_to_the_verdict(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong option, budget, killed kernel, process pool; the last claim is false in at most one run in 10,000."""
    caplog.set_level(logging.INFO, "surepick")
    address, table = str(tmp_path / "lab.db"), configurations()
    with sp.create_study("ci", arms=table, storage=address, delta=1e-4, epsilon=0.3) as study:
        _begin_without_the_option(study)
        _spend_the_budget(study, capsys)
        _go_on_after_a_kill(study, address)
        _share_with_processes(study)
        again: dict[str, Any] = {"arms": table, "storage": address, "delta": 1e-4, "epsilon": 0.3, "rewards": "binary"}
        with pytest.raises(sp.StudyExists, match=r"\(budget=20000.* instead of budget=100\)"):
            sp.create_study("ci", **again, budget=100, load_if_exists=True)
        with sp.create_study("ci", **again, budget=20_000, load_if_exists=True) as reloaded:
            reloaded.optimize(Bench(6).run, n_jobs=32, catch=ConnectionError)
        assert study.stopped
        assert RATES[study.best] >= max(RATES) - 0.3
        result = study.result()
        assert repr(result).endswith("guarantee='proved')")
        assert study.best_name in result._repr_html_()
        assert verify(study.certificate(), study.rows()).ok
    said = [record.getMessage() for record in caplog.records]
    assert said[1:4] == [
        "study ci: reopened, pass/fail",
        "study ci: the budget has ended",
        "study ci: reopened, machines",
    ]
    assert said[-1] == f"study ci: decided after {study.state.verdicts[-1].n_pulls} pulls, best {study.best_name}"


def _begin_without_the_option(study: sp.Study) -> None:
    """True and False are kept as 1 and 0, and the error says how to go on; earlier results guide the new era."""
    bench = Bench(1)
    with pytest.raises(sp.InvalidInput, match=r'study.reopen\(rewards="binary", reason="pass/fail"\)'):
        study.optimize(bench.run, n_jobs=32, catch=ConnectionError)
    assert len(study.measurements) == bench.n_passed_or_failed > 10
    assert {one.told for one in study.measurements} == {0.0, 1.0}
    assert study.pending == []
    assert "results as guidance" in str(study.preview_reopen(rewards="binary", budget=60))
    study.reopen(rewards="binary", budget=60, reason="pass/fail")


def _spend_the_budget(study: sp.Study, capsys: pytest.CaptureFixture[str]) -> None:
    """She looks while it runs; the budget ends before the verdict, and the result says what is known."""
    n_before, looks = len(study.measurements), list[tuple[int, str]]()

    async def look(given: sp.Study, _ask: sp.StudyAsk, value: float) -> None:
        assert isinstance(value, bool)
        looks.append((given.status.n_pulls, given.status.state))

    study.optimize(Bench(2).run, n_jobs=32, catch=ConnectionError, callbacks=look, progress=True)
    assert len(looks) == 60
    assert {state for _, state in looks[:20]} == {"measuring"}
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1].startswith(f"ci: {n_before + 60} pulls, leader ")
    assert printed.err.endswith("\n")
    assert (study.status.state, study.stopped, study.pending) == ("spent", False, [])
    assert study.status.outlook is not None
    for words in ("Estimate, not a guarantee:", "Proved so far: ", "needed 99.99 %.", "With more measurements"):
        assert words in study.result().explain()
    frame = study.measurements.to_frame()
    assert len(frame) == n_before + 60
    assert frame.groupby("name")["value"].mean().between(0.0, 1.0).all()
    assert "spent" in study._repr_html_()


def _go_on_after_a_kill(study: sp.Study, address: str) -> None:
    """A larger budget keeps the evidence; asks of a process that was killed are made again at once."""
    preview = study.preview_reopen(budget=20_000)
    assert preview.n_evidence == 60
    study.reopen(budget=20_000, reason="machines")
    command = [sys.executable, "-c", f"from tests.stories.test_engineer import die; die({address!r})"]
    ended = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert (ended.returncode, ended.stderr) == (-9, "")
    lost = {ask.id for ask in study.pending}
    assert lost
    study.optimize(Bench(5).run, n_jobs=32, catch=ConnectionError, max_pulls=64)
    assert study.pending == []
    given_up = {one["ask"] for one in study.log if one.get("reason") == "its process has ended"}
    assert given_up == lost


def _share_with_processes(study: sp.Study) -> None:
    """The study is pickled by its address, and every process tells what it measured."""
    before = len(study.measurements)
    with ProcessPoolExecutor(2, mp_context=PROCESSES) as pool:
        passed = list(pool.map(measure_in_process, [study, study], [1, 2]))
    assert study.stopped or len(study.measurements) == before + 20
    assert sum(one.told for one in study.measurements[before:]) == sum(passed)
