"""Sets of vectors: how often the rules are wrong, and how long they take, over many runs at once.

Notation: as in `surepick.arms.base`; P runs, d features, t pulls. A fixed design does not depend on rewards, so all
runs have the same information A after the same round, and whole arrays (P, d) of estimates share one factor F. The
thresholds, mixtures and set formulas are the package's; sampling and bookkeeping are written here, and compared run by
run with learners.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from surepick.arms.base import VectorSet
from surepick.arms.ellipsoid import Ellipsoid
from surepick.arms.hypercube import Hypercube, coordinate_threshold
from surepick.arms.numbered import NumberedVectors
from surepick.arms.sphere import Sphere
from surepick.arms.top_k import TopK
from surepick.core.evidence import Mixture, glr, log_sum_exp
from surepick.core.thresholds import MIX_GRID, mix_grid_threshold
from surepick.learning.learner import create_learner
from surepick.types import Array, BoolArray, IntArray
from tests.statistical.paths import DELTA, error_limit, is_settled

pytestmark = pytest.mark.statistical

N_RUNS = 2000


@dataclass(frozen=True)
class Instance:
    """A set, the truth, and the slack."""

    vectors: VectorSet
    theta: Array
    epsilon: float = 0.0
    growth: float = 1.02
    """Rounds are looked at whenever their number has grown by this factor; 1: after every round."""
    arms: NumberedVectors = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arms", NumberedVectors(self.vectors, seed=0))

    def statistics(self, theta: Array, F: Array) -> Array:
        """Z' (P,) of estimates (P, d), both in whitened coordinates; formulas for whole arrays where there are some."""
        theta, F, vectors = theta @ self.arms.map.T, self.arms.map @ F, self.vectors
        if isinstance(vectors, Hypercube) and self.epsilon == 0.0:
            return np.asarray(glr(np.abs(theta), np.square(F).sum(axis=1)).min(axis=1))
        if isinstance(vectors, TopK) and self.epsilon == 0.0:
            ranked = np.argsort(-theta, axis=1, kind="stable")
            i, j = ranked[:, : vectors.k, None], ranked[:, None, vectors.k :]
            rows = np.arange(len(theta))[:, None, None]
            squares = np.square(F[:, None] - F[None]).sum(axis=2)
            values = glr(theta[rows, i] - theta[rows, j], squares[i, j])
            return np.asarray(values.min(axis=(1, 2)))
        if isinstance(vectors, Sphere):  # whole rounds: F is a multiple of I
            information, R = F[0, 0] ** -2.0, np.linalg.norm(theta, axis=1)
            return information * np.where(
                self.epsilon <= 2.0 * R, R * self.epsilon, (2.0 * R + self.epsilon) ** 2 / 8.0
            )
        return np.array([vectors.confusion(row, F, self.epsilon).value for row in theta])

    def losses(self, theta: Array) -> Array:
        """What the best arm under each estimate (P, d) really loses."""
        theta = theta @ self.arms.map.T
        best = np.array([self.vectors.best(row) for row in theta]).reshape(theta.shape)
        return (self.vectors.best(self.theta) - best) @ self.theta


@dataclass(frozen=True)
class Look:
    """All runs that are still going, after some rounds."""

    instance: Instance
    n_pulls: int
    A: Array
    theta: Array

    @cached_property
    def statistics(self) -> Array:
        """Z' (P,)."""
        values, axes = np.linalg.eigh(self.A)
        return self.instance.statistics(self.theta, (axes / np.sqrt(values)) @ axes.T)

    @property
    def is_even(self) -> bool:
        """Whether all directions are known alike, so that one statistic gives those of all multiples of F."""
        return bool(np.allclose(self.A, self.A[0, 0] * np.eye(len(self.A)), rtol=1e-9, atol=1e-9 * self.A[0, 0]))

    def evidence(self) -> Array:
        """Log e-values (P,) less log(1/delta)."""
        mixture = Mixture.default()
        values, axes = np.linalg.eigh(self.A)
        logdets = np.log1p(values / mixture.scales[:, None]).sum(axis=1)
        if self.is_even:
            terms = [self.statistics / (1.0 + kappa / self.n_pulls) for kappa in mixture.kappas]
        else:
            factors = [(axes * np.sqrt((1.0 + kappa / values) / values)) @ axes.T for kappa in mixture.kappas]
            terms = [self.instance.statistics(self.theta, F) for F in factors]
        return log_sum_exp((mixture.log_weights - 0.5 * logdets)[:, None] + np.array(terms)) + math.log(DELTA)

    def mix_grid(self, delta: float = DELTA) -> Array:
        """Statistics (P,) less the threshold."""
        values = np.linalg.eigvalsh(self.A)
        grid = Mixture.uniform(self.instance.arms.round_length * MIX_GRID.scales)
        logdets = np.log1p(values / grid.scales[:, None]).sum(axis=1)
        return self._beyond(float(mix_grid_threshold(logdets, values[0], delta=delta, noise_std=1.0, mixture=grid)))

    def per_coordinate(self) -> Array:
        """The same for the test of every coordinate by itself."""
        return self._beyond(coordinate_threshold(self.n_pulls, len(self.A), DELTA))

    def no_determinant(self) -> Array:
        """The mistake the gates must see: log(1/delta), as if one looked once."""
        return self._beyond(math.log(1.0 / DELTA))

    def _beyond(self, threshold: float) -> Array:
        return self.statistics - threshold


Rule = Callable[[Look], Array]


@dataclass
class Outcome:
    """How the runs of one rule ended."""

    epsilon: float
    pulls: IntArray
    losses: Array
    """What the answers really lose."""
    is_going: BoolArray

    @property
    def n_wrong(self) -> int:
        """How many have stopped with an answer that loses more than epsilon."""
        return int((~self.is_going & (self.losses > self.epsilon)).sum())


def noise(seed: int, number: int, n_runs: int, length: int) -> Array:
    """The noise (P, m) of one round of all runs."""
    return np.random.default_rng([seed, number]).standard_normal((n_runs, length))


def run(
    instance: Instance, rules: dict[str, Rule], *, horizon: int, seed: int, n_runs: int = N_RUNS
) -> dict[str, Outcome]:
    """Let several rules look at the same runs, up to a number of pulls."""
    arms = instance.arms
    truth = np.linalg.solve(arms.map, instance.theta)
    A, b = np.zeros((arms.dim, arms.dim)), np.zeros((n_runs, arms.dim))
    outcomes = {
        name: Outcome(instance.epsilon, np.zeros(n_runs, dtype=np.int64), np.zeros(n_runs), np.ones(n_runs, dtype=bool))
        for name in rules
    }
    n_pulls, due = 0, 1.0
    for number in range(horizon // arms.round_length):
        rows = arms.gather(arms.round(number))
        A += rows.T @ rows
        b += (rows @ truth + noise(seed, number, n_runs, len(rows))) @ rows
        n_pulls += len(rows)
        if number + 1 < due:
            continue
        due = max(number + 2.0, instance.growth * (number + 1.0))
        going = np.flatnonzero(np.logical_or.reduce([outcome.is_going for outcome in outcomes.values()]))
        if not len(going):
            break
        look = Look(instance, n_pulls, A, np.asarray(np.linalg.solve(A, b[going].T).T, dtype=np.float64))
        for name, rule in rules.items():
            outcome = outcomes[name]
            fires = (rule(look) >= 0.0) & outcome.is_going[going]
            done = going[fires]
            outcome.pulls[done], outcome.losses[done] = n_pulls, instance.losses(look.theta[fires])
            outcome.is_going[done] = False
    return outcomes


TIE = 0.005
PROVED: dict[str, Rule] = {"evidence": Look.evidence, "mix-grid": Look.mix_grid}
CONTROL: dict[str, Rule] = {"no determinant": Look.no_determinant}


@pytest.mark.parametrize(
    ("instance", "horizon", "rules", "n_runs"),
    [
        pytest.param(Instance(Sphere(5), 0.2 * np.eye(5)[0], 0.15), 6000, PROVED, 2000, id="sphere"),
        pytest.param(
            Instance(Hypercube(4), np.array([TIE, 1.0, 1.0, 1.0])),
            8000,
            PROVED | {"per-coordinate": Look.per_coordinate},
            2000,
            id="hypercube",
        ),
        pytest.param(Instance(TopK(4, 2), np.array([1.0, TIE, 0.0, -1.0])), 8000, PROVED, 2000, id="top-k"),
        pytest.param(
            Instance(
                Ellipsoid(0.3 * np.eye(9)[0], np.diag(np.linspace(0.8, 1.2, 9))), 0.2 * np.eye(9)[1], 0.1, growth=2.0
            ),
            20000,
            PROVED,
            800,
            id="ellipsoid",
        ),
    ],
)
def test_rules_keep_delta_and_the_gate_sees_a_missing_determinant(
    instance: Instance, horizon: int, rules: dict[str, Rule], n_runs: int
) -> None:
    """Where wrong answers are likely the proved rules pass, and log(1/delta) alone does not, on the same runs."""
    outcomes = run(instance, rules | CONTROL, horizon=horizon, seed=1, n_runs=n_runs)
    wrong = {name: outcome.n_wrong for name, outcome in outcomes.items()}
    assert all(wrong[name] <= error_limit(n_runs) for name in rules), wrong
    assert wrong["no determinant"] > error_limit(n_runs), wrong


def told(instance: Instance, *, run: int, seed: int, n_runs: int, stopping: str) -> tuple[int, float]:
    """Pulls and loss of a learner that gets the rewards of one of the runs above."""
    learner = create_learner(
        "lazy-track-and-stop", instance.vectors, delta=DELTA, epsilon=instance.epsilon, stopping=stopping, noise_std=1.0
    )
    for number in range(10_000):
        arms = learner.next_arms(instance.arms.round_length)
        for arm, error in zip(arms, noise(seed, number, n_runs, len(arms))[run], strict=True):
            learner.tell(arm, float(arm @ instance.theta + error))
        if learner.stopped:
            break
    decision = learner.decision
    assert decision.stopped
    assert decision.best is not None
    return decision.n_pulls, float((instance.vectors.best(instance.theta) - decision.best) @ instance.theta)


CIRCLE = Instance(Sphere(2), np.array([0.3, 0.0]), 0.25, growth=1.0)
CUBE = Instance(Hypercube(3), np.array([0.4, -0.2, 1.0]), growth=1.0)
PAIRS = Instance(TopK(4, 2), np.array([1.0, 0.7, 0.0, -1.0]), growth=1.0)
ELLIPSE = Instance(Ellipsoid([1.0, 0.5], [[1.0, 0.0], [0.5, 0.5]]), np.array([0.3, -0.2]), 0.3, growth=1.0)


@pytest.mark.parametrize(
    ("instance", "stopping"),
    [
        *((instance, stopping) for instance in (CIRCLE, CUBE, PAIRS, ELLIPSE) for stopping in ("evidence", "mix-grid")),
        (CUBE, "per-coordinate"),
    ],
)
def test_counted_runs_are_those_of_learners(instance: Instance, stopping: str) -> None:
    """Run by run, learners stop at the same pull with the same answer, although they rarely look at the whole set."""
    n_runs = 8
    rule = {**PROVED, "per-coordinate": Look.per_coordinate}[stopping]
    counted = run(instance, {stopping: rule}, horizon=20_000, seed=2, n_runs=n_runs)[stopping]
    for number in range(n_runs):
        pulls, loss = told(instance, run=number, seed=2, n_runs=n_runs, stopping=stopping)
        assert pulls == counted.pulls[number]
        assert loss == pytest.approx(counted.losses[number], abs=1e-9)


# Mean pulls and their standard error over 1000 runs: (d, |theta|, epsilon, delta) -> (mean, standard error), computed
# by other code: theta = |theta| 1/sqrt(d), noise 1, basis vectors in turn, the mix-grid rule looking after each turn.
REFERENCE = {
    (2, 1, 0.5, 0.1): (28.1, 0.2),
    (2, 1, 0.5, 0.05): (31.7, 0.2),
    (2, 1, 0.5, 0.01): (39.4, 0.3),
    (2, 1, 0.1, 0.1): (132.6, 0.5),
    (2, 1, 0.1, 0.05): (150.0, 0.5),
    (2, 1, 0.1, 0.01): (187.9, 0.6),
    (5, 1, 0.5, 0.1): (94.4, 0.6),
    (5, 1, 0.5, 0.05): (104.5, 0.7),
    (5, 1, 0.5, 0.01): (126.0, 0.7),
    (5, 1, 0.1, 0.1): (495.0, 1.6),
    (5, 1, 0.1, 0.05): (545.1, 1.7),
    (5, 1, 0.1, 0.01): (652.1, 1.8),
    (10, 1, 0.5, 0.1): (258.2, 1.4),
    (10, 1, 0.5, 0.05): (281.4, 1.6),
    (10, 1, 0.5, 0.01): (329.4, 1.7),
    (10, 1, 0.1, 0.1): (1418.8, 3.8),
    (10, 1, 0.1, 0.05): (1534.4, 4.0),
    (10, 1, 0.1, 0.01): (1775.4, 4.3),
    (20, 1, 0.5, 0.1): (751.5, 3.5),
    (20, 1, 0.5, 0.05): (808.4, 3.7),
    (20, 1, 0.5, 0.01): (919.4, 4.0),
    (20, 1, 0.1, 0.1): (4360.3, 9.5),
    (20, 1, 0.1, 0.05): (4639.2, 9.8),
    (20, 1, 0.1, 0.01): (5215.8, 10.5),
    (5, 1, 0.2, 0.05): (268.9, 1.1),
    (2, 1, 0.2, 0.05): (76.1, 0.4),
    (5, 2, 0.1, 0.05): (274.9, 0.6),
    (5, 0.2, 0.1, 0.05): (2523.1, 17.7),
}


@pytest.mark.parametrize("row", REFERENCE, ids=str)
def test_pulls_on_the_sphere(row: tuple[int, float, float, float]) -> None:
    """The mean agrees within four standard errors: for a right rule, all 28 rows miss with probability 0.002."""
    dim, norm, epsilon, delta = row
    instance = Instance(Sphere(dim), np.full(dim, norm / math.sqrt(dim)), epsilon, growth=1.0)
    rule: dict[str, Rule] = {"mix-grid": lambda look: look.mix_grid(delta)}
    outcome = run(instance, rule, horizon=30_000, seed=3, n_runs=1000)["mix-grid"]
    mean, error = REFERENCE[row]
    own_error = float(outcome.pulls.std(ddof=1)) / math.sqrt(1000)
    assert not outcome.is_going.any()
    assert abs(outcome.pulls.mean() - mean) <= 4.0 * math.hypot(error, own_error) + 0.05  # the table is rounded
    assert outcome.n_wrong <= error_limit(1000, delta)


def learn(instance: Instance, *, seed: int, **options: Any) -> tuple[int, float]:
    """Pulls and loss of a learner with noise of its own."""
    learner = create_learner(
        "lazy-track-and-stop", instance.vectors, epsilon=instance.epsilon, **{"noise_std": 1.0} | options
    )
    rng = np.random.default_rng(seed)
    while not learner.stopped:
        for arm in learner.next_arms(1):
            learner.tell(arm, float(arm @ instance.theta + rng.standard_normal()))
    best = learner.decision.best
    assert best is not None
    return learner.decision.n_pulls, float((instance.vectors.best(instance.theta) - best) @ instance.theta)


def test_pulls_of_learners_on_the_sphere() -> None:
    """Two hundred learners with rewards of their own reproduce a row of the table: false alarm 6e-5."""
    instance = Instance(Sphere(2), np.full(2, math.sqrt(0.5)), 0.5)
    pulls = np.array([learn(instance, seed=1000 + i, delta=0.05, stopping="mix-grid")[0] for i in range(200)])
    mean, error = REFERENCE[2, 1, 0.5, 0.05]
    assert abs(pulls.mean() - mean) <= 4.0 * math.hypot(error, pulls.std(ddof=1) / math.sqrt(200)) + 0.05


def test_the_tangent_design_keeps_delta_and_the_gate_sees_noise_that_is_understated() -> None:
    """Arms that follow the estimate: learners pass, and do not if they believe the noise a tenth of what it is."""
    instance, n_runs, delta = Instance(Sphere(2), np.array([0.5, 0.0]), 0.2), 30, 0.1
    limit, wrong = error_limit(n_runs, delta), list[int]()
    for noise_std in (1.0, 0.1):
        options = {"delta": delta, "noise_std": noise_std, "stopping": "mix-grid", "design": "tangent"}
        wrong.append(0)
        for i in range(n_runs):
            wrong[-1] += learn(instance, seed=i, **options)[1] > instance.epsilon
            if is_settled(wrong[-1], i + 1, n_runs, limit):
                break
    assert wrong[0] <= limit < wrong[1], wrong
