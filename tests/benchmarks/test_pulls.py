from pathlib import Path

import numpy as np
import pytest

from benchmarks import pulls
from surepick.simulation import problems
from surepick.simulation.parallel import simulate


def test_one_worker_is_a_plain_run() -> None:
    """A laboratory with one worker pulls what a simulation with the same seeds pulls."""
    pulls_told, makespan, is_wrong = pulls.worked(pulls.RunSettings("many arms K=1000", "exponential", 1), 0)
    plain = simulate(pulls.many_arms, n_runs=1, seed=pulls.SEED)
    assert (pulls_told, is_wrong) == (plain.n_pulls[0], not plain.correct[0])
    assert makespan > 0.0


def test_uniform_sampling_stops_at_once_without_noise_and_errs_rarely_with_it() -> None:
    """One pull of each arm is enough if nothing hides the gaps; on a near tie wrong answers stay below delta."""
    clear = problems.unit_basis([0.0, 100.0, 0.0])
    assert pulls.uniform(clear, 0.0, np.random.default_rng(0)) == (3, 1)
    close = problems.unit_basis([0.5, 0.0])
    answers = [pulls.uniform(close, 0.0, np.random.default_rng(run))[1] for run in range(200)]
    assert sum(answers) <= 27  # an error probability of 0.05 exceeds that in 200 runs once in a million


def test_tables_have_a_line_for_every_case(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Workers and slack print what they count; without the runs of the sweeps bets say so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pulls, "N_JOBS", 1)
    monkeypatch.setattr(pulls, "INSTANCES", {"many": pulls.many_arms})
    monkeypatch.setattr(pulls, "ROWS", {"tooth": pulls.ROWS["tooth-like 6 x 3, 2"]})
    pulls.bets()
    pulls.workers(2)
    pulls.slack(2)
    printed = capsys.readouterr().out
    assert printed.count("no runs yet") == len(pulls.AIMS)
    assert printed.count("\nmany ") == 1 + len(pulls.SERVICES) * len(pulls.WORKERS)
    assert printed.count("\ntooth ") == 1
