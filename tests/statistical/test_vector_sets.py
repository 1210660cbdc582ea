"""Sets of vectors: how often the rules are wrong, and how long they take, over many runs at once.

Notation: as in `surepick.core.vectors`; P runs, d features, t pulls. A fixed design does not depend on rewards, so all
runs have the same information A after the same round, and whole arrays (P, d) of estimates share one factor F. The
thresholds, mixtures and set formulas are the package's; sampling and bookkeeping are written here, and compared run by
run with learners.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pytest
from scipy.stats import binom

from surepick.algorithms import create_learner
from surepick.core.ellipsoid import Ellipsoid
from surepick.core.evidence import Mixture, glr, log_sum_exp
from surepick.core.hypercube import Hypercube, coordinate_threshold
from surepick.core.linalg import Array, BoolArray, IntArray
from surepick.core.mix_grid import GRID_SCALES, mix_grid_threshold
from surepick.core.numbered import NumberedVectors
from surepick.core.sphere import Sphere
from surepick.core.top_k import TopK
from surepick.core.vectors import VectorSet
from surepick.rules import vector_rule

pytestmark = pytest.mark.statistical

DELTA = 0.3
FALSE_ALARM = 1e-6
N_RUNS = 2000


def error_limit(n_runs: int) -> int:
    """Largest count that a rule with error probability DELTA exceeds with probability at most 1e-6."""
    return int(binom.isf(FALSE_ALARM, n_runs, DELTA))


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
            values: Array = glr(np.abs(theta), np.square(F).sum(axis=1)).min(axis=1)
            return values
        if isinstance(vectors, TopK) and self.epsilon == 0.0:
            ranked = np.argsort(-theta, axis=1, kind="stable")
            i, j = ranked[:, : vectors.k, None], ranked[:, None, vectors.k :]
            rows = np.arange(len(theta))[:, None, None]
            squares = np.square(F[:, None] - F[None]).sum(axis=2)
            values = glr(theta[rows, i] - theta[rows, j], squares[i, j]).min(axis=(1, 2))
            return values
        if isinstance(vectors, Sphere):  # whole rounds: F is a multiple of I
            information, R = F[0, 0] ** -2.0, np.linalg.norm(theta, axis=1)
            return information * np.where(self.epsilon <= 2.0 * R, R * self.epsilon, (2.0 * R + self.epsilon) ** 2 / 8.0)
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
        scales = self.instance.arms.round_length * GRID_SCALES
        logdets = np.log1p(values / scales[:, None]).sum(axis=1)
        return self._beyond(mix_grid_threshold(logdets, float(values[0]), scales, delta))

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
        name: Outcome(
            instance.epsilon, np.zeros(n_runs, dtype=np.int64), np.zeros(n_runs), np.ones(n_runs, dtype=bool)
        )
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
        look = Look(instance, n_pulls, A, np.linalg.solve(A, b[going].T).T)
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
                Ellipsoid([0.3, 0.0, 0.0, 0.0, 0.0, 0.0], np.diag([1.0, 0.9, 1.1, 1.0, 1.2, 0.8])),
                0.2 * np.eye(6)[1],
                0.15,
                growth=2.0,
            ),
            9000,
            PROVED,
            500,
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
    assert max(wrong[name] for name in rules) > 0, "the instance has become too easy to say anything"
    assert wrong["no determinant"] > error_limit(n_runs), wrong
