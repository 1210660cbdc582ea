"""Rehearsals: runs of the default algorithm in scenarios where the answer is known, to see how long they take.

Run i depends on (seed, i) only: `SeedSequence(seed, spawn_key=(i,))` is split into the noise and the learner's seed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.core.linalg import one_blas_thread
from surepick.learning.learner import Learner
from surepick.learning.validation import Rewards
from surepick.planning.scenarios import Scenario, as_options
from surepick.types import Array, BoolArray, IntArray


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRuns:
    """Simulated runs."""

    pulls: IntArray
    """Of every run (n,); those given up have as many as they were allowed."""
    stopped: BoolArray
    """Whether a run came to an answer (n,)."""
    correct: BoolArray
    """Whether that was right (n,)."""
    costs: Array
    """What every run cost (n,); its pulls, if they all cost the same."""

    @property
    def mean(self) -> float:
        """Mean pulls."""
        return float(self.pulls.mean())

    @property
    def standard_error(self) -> float:
        """Of the mean; NaN for a single run."""
        n = len(self.pulls)
        return float(self.pulls.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan

    @property
    def low(self) -> float:
        """A tenth of the runs take at most so many."""
        return float(np.quantile(self.pulls, 0.1))

    @property
    def high(self) -> float:
        """Nine tenths of the runs take at most so many."""
        return float(np.quantile(self.pulls, 0.9))


class RunSettings(NamedTuple):
    """What runs share."""

    arms: ArmSet
    rewards: Rewards
    delta: float
    epsilon: float
    max_pulls: int
    m: int = 1
    costs: Array | None = None


@one_blas_thread
def rehearse(lab: RunSettings, scenarios: Sequence[Scenario], n_runs: int, seed: int) -> SimulatedRuns:
    """Do `n_runs` runs, the scenarios in turn."""
    outcomes = [_run(lab, scenarios[i % len(scenarios)], seed, i) for i in range(n_runs)]
    pulls, stopped, correct, costs = (np.array(column) for column in zip(*outcomes, strict=True))
    return SimulatedRuns(pulls=pulls, stopped=stopped, correct=correct, costs=costs)


def _run(lab: RunSettings, scenario: Scenario, seed: int, run: int) -> tuple[int, bool, bool, float]:
    noise, own = np.random.SeedSequence(seed, spawn_key=(run,)).spawn(2)
    means = np.concatenate([rows @ scenario.theta for _, rows in lab.arms.chunks()])
    measure = _measurement(means, scenario.stds, lab.rewards, np.random.default_rng(noise))
    options = as_options(lab.rewards)
    learner = Learner(
        "lazy-track-and-stop",
        lab.arms,
        delta=lab.delta,
        epsilon=lab.epsilon,
        m=lab.m,
        costs=lab.costs,
        seed=int(own.generate_state(1)[0]),
        **options,
    )
    n_pulls = 0
    while not learner.stopped and n_pulls < lab.max_pulls:
        for arm in learner.next_arms():
            learner.tell(arm, measure(arm))
            n_pulls += 1
    is_right = learner.stopped and bool(
        means[list(learner.reader.leaders)].min() >= np.sort(means)[-lab.m] - lab.epsilon
    )  # none of them is worse than the m-th best
    return n_pulls, learner.stopped, is_right, learner.cost


def _measurement(means: Array, stds: Array, rewards: Rewards, rng: np.random.Generator) -> Callable[[int], float]:
    """Return what a pull pays: its mean and normal noise; between bounds lo or hi, the noisiest rewards there are."""
    if rewards.reward_range is None:
        return lambda arm: float(means[arm] + stds[arm] * rng.standard_normal())
    lo, hi = rewards.reward_range
    return lambda arm: hi if lo + (hi - lo) * rng.random() < means[arm] else lo
