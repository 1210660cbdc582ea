"""BayesGap (Hoffman, Shahriari and de Freitas 2014): measure the leader or its rival, for a fixed budget.

Notation: theta has the prior N(0, eta^2 I); mu_k and s_k posterior mean and standard deviation of arm k; T the budget.

    difficulty      H = sum_k max((D_k + epsilon)/2, epsilon)^-2 with D_k = |max over j of U_j - L_k|, U, L = mu +- 3 s
    width           beta^2 = ((T - K)/noise_std^2 + sum_k |x_k|^-2/eta^2)/(4 H); U, L = mu +- beta s from here on
    leader          J, whose B_k = max over j of U_j - L_k is smallest
    arm             of J and its rival, the largest U, the one with the larger s
    answer          the J of the round with the smallest B_J

The arms pulled are always those compared, so a losing arm that is informative is pulled too little, as on Soare's
problem. The published bound K T exp(-beta^2/2) is for a known H; with an H that is learnt nothing is proved. A public
comparison sums H_k for H_k^-2, takes variances for standard deviations and beta^2 for beta: that is not this method.

Practical: no prior (eta = inf) after pulls that span; betting says what is proved, and the answer is the best estimate.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, final

import numpy as np

from surepick.algorithms.budget import needs_budget
from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.checks import check_number
from surepick.core.estimate import LeastSquares
from surepick.errors import InvalidInput
from surepick.sampling.base import Sampler, SamplerContext
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array, Guarantee

WIDE = 3.0
"""Standard deviations of the intervals that the difficulty is read from."""


@final
@dataclass(frozen=True, kw_only=True)
class BayesGap(Options):
    """BayesGap: measure the leader or its rival, the less certain of the two.

    Args:
        prior_std: eta, the prior standard deviation of each coefficient, in the paper variant.

    Examples:
        >>> import surepick as sp
        >>> problem, options = sp.problems.soare(3, angle=0.5), {"budget": 60, "goal": "fixed-budget"}
        >>> sp.simulate(problem, "bayes-gap", n_runs=50, seed=0, **options).error_rate
        0.04

    References:
        Hoffman, Shahriari and de Freitas (2014), "On correlation and budget constraints in model-based bandit
        optimization with application to automatic machine learning".
    """

    plans_with_noise: ClassVar[bool] = True
    plans_budget: ClassVar[bool] = True
    prior_std: float = 1e3
    elimination: bool | None = None

    def unsupported(self, task: Task) -> str | None:
        """Return why the task cannot be done; None if it can."""
        return needs_budget("bayes-gap", task, pulls_candidates=True)

    def compose(self, task: Task) -> tuple["GapSampler", Rule]:
        """Return the sampler and the stopping rule."""
        needed = "a number above 0"
        prior = check_number("prior_std", self.prior_std, needed=needed, allowed=lambda eta: eta > 0.0)
        index = GapIndex(task, prior if self.is_paper else math.inf)
        rule = GapRule(index=index) if self.is_own_rule else self.rule("betting")
        return GapSampler(task, index), rule


class Round(NamedTuple):
    """The indices of one round."""

    leader: int
    least: float
    """B_J of the leader."""
    arm: int
    """The arm to pull."""


@final
class GapIndex:
    """The indices of all arms; keeps no state of a run."""

    def __init__(self, task: Task, prior_std: float) -> None:
        assert task.budget is not None
        arms, noise = task.rows, task.noise_std
        if task.budget <= arms.n_arms:
            raise InvalidInput(
                f"`budget` must be at least {arms.n_arms + 1} for bayes-gap, more than there are arms, got "
                f'{task.budget}; give more, or use "lazy-track-and-stop".'
            )
        self.budget, self._X = task.budget, arms.gather(np.arange(arms.n_arms))
        self._noise, self._epsilon = noise, task.epsilon
        self.has_prior = math.isfinite(prior_std)
        self.ridge = np.zeros((arms.dim, arms.dim))
        more = 0.0
        if self.has_prior:  # in the coordinates of the user
            self.ridge = (noise / prior_std) ** 2 * arms.metric()
            more = float((1.0 / np.square(self._X @ arms.back).sum(axis=1)).sum()) / prior_std**2
        self._strength = (task.budget - arms.n_arms) / noise**2 + more

    def at(self, A: Array, b: Array) -> Round:
        """Return leader, B_J and the arm to pull, for the information A and the sums b of rewards times features."""
        X, inverse = self._X, np.linalg.inv(A + self.ridge)
        mean = X @ (inverse @ b)
        std = self._noise * np.sqrt(np.maximum(np.einsum("ij,ij->i", X @ inverse, X), 0.0))
        D = np.abs(_largest_other(mean + WIDE * std) - (mean - WIDE * std))
        size = np.maximum(0.5 * (D + self._epsilon), max(self._epsilon, 1e-12 * float(D.max()), 1e-300))
        beta = math.sqrt(self._strength / (4.0 * float((size**-2).sum())))
        upper = mean + beta * std
        B = _largest_other(upper) - (mean - beta * std)
        leader = int(np.argmin(B))
        upper[leader] = -math.inf
        rival = int(np.argmax(upper))
        return Round(leader, float(B[leader]), leader if std[leader] >= std[rival] else rival)


def _largest_other(values: Array) -> Array:
    """Return for each of the values the largest of the others."""
    first = int(np.argmax(values))
    largest = np.full(len(values), values[first])
    largest[first] = np.delete(values, first).max()
    return largest


@final
class GapSampler(Sampler):
    """One arm at a time; without a prior, arms that span come first."""

    def __init__(self, task: Task, index: GapIndex) -> None:
        self._rows, self._start, self._index = task.rows, task.spanning, index
        self._arm = 0

    def open(self, context: SamplerContext) -> int:
        """Choose the next arm by all results, and by the information of those to come."""
        if not self._index.has_prior and context.theta is None:
            self._arm = int(self._start[context.n_asked % len(self._start)])
            return 1
        A, estimate = context.estimate.A.copy(), context.estimate
        b = estimate.b.copy()
        numbers = list(context.pending)
        for arm, x in zip(numbers, self._rows.gather(numbers) if numbers else (), strict=True):
            A += context.pending[arm] * np.outer(x, x)
        if context.pending:  # the rewards to come are taken for those that the estimate predicts
            b = (A + self._index.ridge) @ np.linalg.solve(estimate.A + self._index.ridge, b)
        self._arm = self._index.at(A, b).arm
        return 1

    def next(self) -> int:
        """Return the arm."""
        return self._arm


@final
@dataclass(frozen=True, kw_only=True)
class GapRule(Rule):
    """Stop when the budget is spent, with the leader of the round in which B_J was smallest. Guarantee: none.

    Args:
        index: the indices.
    """

    index: GapIndex
    plans_budget: ClassVar[bool] = True
    name: str = field(default="bayes-gap", init=False)
    guarantee: Guarantee = field(default="none", init=False)

    def start(self, task: Task) -> "GapState":
        """Return a fresh state."""
        return GapState(task, self.index)


@final
class GapState(RuleState):
    """The best round so far."""

    decides_after_pulls = True

    def __init__(self, task: Task, index: GapIndex) -> None:
        super().__init__(task)
        self._index, self._best = index, Round(0, math.inf, 0)

    def after_pull(self, estimate: LeastSquares) -> Verdict:
        """Look whether this round is better than all before."""
        now = self._index.at(estimate.A, estimate.b)
        self._best = min(self._best, now, key=lambda one: one.least)
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the leader of the best round; there is no evidence."""
        return Verdict(
            stopped=estimate.n_pulls >= self._index.budget,
            leader=self._best.leader if estimate.has_theta else None,
            threshold=-math.log(self.task.delta),
        )
