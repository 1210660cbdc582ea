"""The example of a whole paper: a new algorithm, rows as problems, a sweep that is killed, a table and a figure."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import surepick as sp
from examples import new_paper
from surepick.cli.reproduce import bench_report
from surepick.simulation.experiment import read_experiment
from surepick.simulation.jobs import job_of
from surepick.simulation.run import run_once
from surepick.testing import check_algorithm
from tests.waiting import until

EXPERIMENT = Path(new_paper.__file__).with_suffix(".toml")
N_CELLS, N_RUNS = 12, 2


def sweep(file: Path, out: Path) -> list[str]:
    """The command of the example, in small."""
    surepick = [sys.executable, "-m", "surepick", "bench", "run", str(file)]
    return [*surepick, "--runs", str(N_RUNS), "--jobs", "1", "--out", str(out)]


def in_small(folder: Path) -> Path:
    """Copy the example, with short runs."""
    text = EXPERIMENT.read_text("utf-8")
    assert "max_pulls = 100000" in text
    shutil.copy(new_paper.__file__, folder)
    file = folder / EXPERIMENT.name
    file.write_text(text.replace("max_pulls = 100000", "max_pulls = 60"), "utf-8")
    return file


def test_a_killed_sweep_goes_on_and_ends_in_a_table_and_a_figure(tmp_path: Path) -> None:
    """Killed after some runs, it keeps them, does the others, and every run is the one that its number says."""
    file, log, sizes = in_small(tmp_path), tmp_path / "new-paper" / "runs.sqlite-wal", set[int]()

    def has_runs() -> bool:
        """Each run that is saved lengthens the log of the database, and so do the cells before the first run."""
        sizes.add(log.stat().st_size if log.exists() else 0)
        return len(sizes) >= 5

    with subprocess.Popen(sweep(file, tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        try:
            until(has_runs)
        finally:
            killed.kill()
    assert killed.returncode == -signal.SIGKILL
    done = subprocess.run(sweep(file, tmp_path), capture_output=True, text=True, check=True)
    found = re.search(r"new-paper: (\d+) runs in .* s, (\d+) were there", done.stdout + done.stderr)
    assert found is not None
    n_done, n_before = map(int, found.groups())
    assert n_done + n_before == N_CELLS * N_RUNS
    assert min(n_done, n_before) > 0
    runs = pd.read_parquet(tmp_path / "new-paper" / "runs.parquet")
    assert len(runs) == N_CELLS * N_RUNS
    cells = {cell.key: cell for cell in read_experiment(file).cells()}
    for row in runs[runs["problem"].str.startswith("soare")].itertuples():
        assert run_once(job_of(cells[row.key]), row.run).n_pulls == row.n_pulls
    bench_report(tmp_path, latex=True)
    assert "PEPS & evidence & $" in (tmp_path / "report.tex").read_text("utf-8")
    assert (tmp_path / "new-paper-paths-1col.pdf").read_bytes().startswith(b"%PDF")
    table = new_paper.main(tmp_path).read_text("utf-8")
    assert all(name in table for name in ("diabetes", "wine", "Soare", "PEPS", "LinGame"))
    assert (tmp_path / "new-paper.pdf").read_bytes().startswith(b"%PDF")


def test_the_algorithm_keeps_its_contract() -> None:
    """Equal seeds, batches, delays and replay."""
    check_algorithm(new_paper.Peps(n_draws=5, most_draws=100))


def test_nature_answers_with_parameters_under_which_another_arm_is_best() -> None:
    """Drawn while they are common; the closest one when draws do not find any."""
    problem = sp.problems.soare(2, angle=0.3)
    learner = sp.create_learner(new_paper.Peps(), problem.X, noise_std=0.3, seed=3)
    rng, sizes = np.random.default_rng(0), []
    sampler = learner.state.plans._sampler
    assert isinstance(sampler, new_paper.PepsSampler)
    original = sampler._alternatives

    def watched(estimate: object, theta: np.ndarray, leader: int) -> np.ndarray:
        found = original(estimate, theta, leader)  # type: ignore[arg-type]
        values = found @ sampler._X.T
        assert (values[:, leader] <= np.delete(values, leader, axis=1).max(axis=1) + 1e-9).all()
        sizes.append(len(found))
        return found

    sampler._alternatives = watched  # type: ignore[method-assign]
    while not learner.stopped:
        for arm in learner.next_arms():
            learner.tell(arm, problem.X[arm] @ problem.theta + 0.3 * rng.standard_normal())
    assert {1, 20} <= set(sizes)
    assert learner.decision.best == problem.best


@pytest.mark.parametrize(("make", "shape"), [(new_paper.diabetes, (30, 11)), (new_paper.wine, (60, 13))])
def test_problems_are_rows_with_a_fit(make: Callable[[], sp.problems.Problem], shape: tuple[int, int]) -> None:
    """A constant and the features; the noise is what the fit leaves."""
    problem = make()
    assert problem.X.shape == shape
    assert (problem.X[:, 0] == 1.0).all()
    assert problem.min_gap > 0.0


def test_peps_compares_candidates() -> None:
    """The arms as candidates in another order are the same problem, so the same arms are pulled."""
    problem = sp.problems.soare(2, angle=0.5)
    asked = []
    for candidates in (None, problem.X[::-1]):
        learner = sp.create_learner(new_paper.Peps(), problem.X, candidates=candidates, noise_std=1.0, delta=1e-9)
        rng = np.random.default_rng(0)
        for _ in range(60):
            (arm,) = learner.next_arms(1)
            learner.tell(arm, problem.X[arm] @ problem.theta + rng.standard_normal())
        asked.append([arm for arm, _ in learner.history])
    assert asked[0] == asked[1]
