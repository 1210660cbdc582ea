"""Simulations of tasks that do not seek the best arm of a list: calls against a target, and pools of items."""

from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.core.betting.targets import FAILED, MET, OPEN, TargetWealth
from surepick.errors import InvalidInput
from surepick.simulation.experiment import read_experiment
from surepick.simulation.jobs import job_of
from surepick.simulation.problems import PoolProblem, Problem, pool
from surepick.simulation.run import instance_of, run_seeds
from surepick.simulation.store import sweep
from tests.simulation.tiny import TINY, content

STEPS = sp.problems.unit_basis([3.0, 2.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        ({"threshold": 1.5}, sp.lower_bound(np.eye(4), STEPS.theta, threshold=1.5)),
        ({"threshold": 1.5, "calls": "fdr"}, sp.lower_bound(np.eye(4), STEPS.theta, threshold=1.5)),
        ({"control": 1}, sp.lower_bound(np.eye(4), STEPS.theta, control=1)),
        ({"control": 1, "margin": 0.5}, sp.lower_bound(np.eye(4), STEPS.theta, control=1, margin=0.5)),
        ({"threshold": 1.5, "epsilon": 0.2}, sp.lower_bound(np.eye(4), STEPS.theta, threshold=1.5, epsilon=0.2)),
    ],
)
def test_calls_are_simulated(options: dict[str, Any], bound: float) -> None:
    """Every call is right, and the runs need more than the bound of their task."""
    runs = sp.simulate(STEPS, n_runs=4, seed=1, bounds=True, **options)
    assert runs.stopped.all()
    assert runs.correct.all()
    assert runs.lower_bound == pytest.approx(np.full(4, bound))
    assert runs.ratio.min() > 0.5


def test_a_wrong_call_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """If every call is turned round, all runs stop, and none is right."""
    settle = TargetWealth.settle

    def turned(self: TargetWealth, block: Any) -> None:
        settle(self, block)
        self.calls = np.where(self.calls == OPEN, OPEN, np.where(np.arange(4) < 2, FAILED, MET))

    monkeypatch.setattr(TargetWealth, "settle", turned)
    runs = sp.simulate(STEPS, n_runs=3, threshold=1.5)
    assert runs.stopped.all()
    assert not runs.correct.any()


def test_an_arm_on_the_target_is_refused() -> None:
    """Its run would never end; a copy of the control is known."""
    with pytest.raises(InvalidInput, match="arm 2 of unit-basis d=4 is on the target, so a run would never end"):
        sp.simulate(STEPS, threshold=1.0)
    with pytest.raises(InvalidInput, match=r"arm 1 .* is on the target"):
        sp.simulate(STEPS, control=0, margin=1.0)
    assert sp.simulate(STEPS, n_runs=2, threshold=1.0, epsilon=0.5).correct.all()
    assert sp.simulate(STEPS, n_runs=2, threshold=1.0, max_pulls=10).n_unfinished == 2
    copies = Problem(X=np.eye(2)[[0, 1, 0]], theta=np.array([1.0, 0.0]), name="copies")
    assert sp.simulate(copies, n_runs=2, control=0).correct.all()


def test_a_target_needs_means() -> None:
    """A problem of your own without them cannot say which calls are right."""

    class Own:
        X, name = np.eye(2), "own"

        def pull(self, arm: int, rng: np.random.Generator) -> float:
            return float(arm)

        def loss(self, answer: int) -> float:
            return 0.0

    with pytest.raises(InvalidInput, match="`threshold` needs a problem with `means`"):
        sp.simulate(Own(), threshold=0.5)  # type: ignore[arg-type]


def test_calls_in_an_experiment(tmp_path: Any) -> None:
    """A target is an option of an algorithm, also in other processes."""
    text = TINY.replace('name = "uniform"\n\n', 'name = "uniform"\noptions = { control = 0 }\n\n')
    assert text != TINY
    path = tmp_path / "tiny.toml"
    path.write_text(text.replace("max_pulls = 8", "max_pulls = 400"))
    experiment = read_experiment(path)
    assert sweep(experiment, tmp_path / "out", n_runs=2, n_jobs=2).n_failed == 0
    found = content(tmp_path / "out")
    assert found["correct"][found["algorithm"] == "uniform"].all()
    job = job_of(experiment.cells()[0])
    assert instance_of(job, run_seeds(0, 0)).epsilon == 0.0


# ---- pools


def test_a_pool_is_simulated_in_random_order() -> None:
    """Every run asks the items in an order of its own, and ends with the best of the table."""
    problem = pool((0.8, 0.5, 0.4), 100, seed=2)
    assert problem.means == pytest.approx([0.8, 0.5, 0.4])
    runs = sp.simulate(problem, n_runs=10, seed=0)
    assert runs.correct.all()
    assert len(set(runs.n_pulls.tolist())) > 3
    assert runs.n_pulls.max() < 300
    again = sp.simulate(problem, n_runs=10, seed=0, n_jobs=2)
    assert again.n_pulls.tolist() == runs.n_pulls.tolist()


def test_the_whole_table_is_asked_where_two_arms_are_nearly_alike() -> None:
    """When all items are asked the answer is exact."""
    scores = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    runs = sp.simulate(PoolProblem(scores=scores, name="five"), n_runs=5)
    assert (runs.n_pulls == 10).all()
    assert runs.correct.all()


def test_a_pool_of_scores_between_other_bounds_that_is_drawn_for_every_run() -> None:
    """A function of a seed draws a table."""

    def drawn(seed: int) -> PoolProblem:
        table = np.random.default_rng(seed).uniform(2.0, 4.0, (60, 3)) + np.array([5.0, 0.0, 0.0])
        return PoolProblem(scores=table, name="drawn", reward_range=(0.0, 10.0))

    runs = sp.simulate(drawn, n_runs=4)
    assert runs.is_redrawn
    assert runs.correct.all()


def test_the_loss_of_an_answer_in_a_pool() -> None:
    """The distance of means; ties lose nothing."""
    problem = PoolProblem(scores=np.array([[1, 0, 1], [1, 0, 1], [0, 1, 0], [1, 1, 1]]), name="ties")
    assert [problem.loss(arm) for arm in range(3)] == [0.0, 0.25, 0.0]
    assert problem.pull(0, np.random.default_rng(0)) in (0.0, 1.0)


@pytest.mark.parametrize(
    ("table", "match"),
    [([[1.0, 2.0], [0.0, 0.0]], "between 0 and 1"), ([[1.0, 0.0]], "2 rows"), ([[1.0], [0.0]], "2 columns")],
)
def test_tables_that_are_no_pool_are_refused(table: list[list[float]], match: str) -> None:
    """Scores beyond their bounds, one item, one arm."""
    with pytest.raises(InvalidInput, match=match):
        PoolProblem(scores=np.array(table), name="wrong")


def test_a_pool_has_no_lower_bound() -> None:
    """None is known."""
    with pytest.raises(InvalidInput, match="`bounds` needs"):
        sp.simulate(pool(seed=1), bounds=True)
