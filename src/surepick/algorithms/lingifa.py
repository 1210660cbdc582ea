"""LinGIFA (Reda, Kaufmann and Delahaye-Duriez 2021): gap indices of all arms choose the m best and their rivals.

Notation: B_ij the upper confidence bound on theta'(x_i - x_j), for every pair of candidates.

    index           I_j = the m-th largest of B_ij over i != j: below 0, all but m - 1 arms are worse than j
    team            J = the m smallest indices
    pair            b in J: the largest index; c outside: the largest B_ib
    arm             greedy: the pull that shrinks the uncertainty of x_b - x_c most; or "largest-variance": of b and c,
                    the one whose own mean is less certain
    stopping        when no index of J is above epsilon

Stopping is right if all bounds hold: with epsilon = 0 each member of J is better than K - m other arms, so it is one of
the m best. It asks for less than m-LinGapE, for which every member must beat every outsider in the estimates; ties
apart, J is then the m best estimates.

Practical: bounds of the evidence mixture and a spanning set first. For one arm the evidence rule decides, for several
betting by accounts of sets, or evidence beside an `epsilon`. J is then the sampler's alone.

`variant="paper"`: the ridge estimate with ridge (noise_std / 20)^2 and the width of the paper that belongs to it, which
needs `norm_bound`, at least the norm of theta. Departures from the public code: a spanning set comes first (with this
ridge its first pulls span as well), and the rule reads the indices after a pull, where the code reads those before it.

All pairs are compared before every pull: O(K^2 d) time, so more than `MOST_PAIRS` pairs are refused.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal, final

import numpy as np
import scipy

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.estimate import LeastSquares, RidgeEstimate
from surepick.core.evidence import Mixture, glr, loss_bound
from surepick.core.linalg import inverse_factor
from surepick.core.thresholds import RidgeThreshold
from surepick.sampling.alternatives import GreedyChoice
from surepick.sampling.choosers import Chooser, StartThenChoose
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.stopping.glr import check_ridge, ridge_threshold
from surepick.types import Array, Guarantee, IntArray

# Pairs of candidates up to which a pull takes some ten milliseconds: 300 candidates.
MOST_PAIRS = 90_000
# As in `algorithms.m_lingape`: share of the G-optimal design under rules that read blocks.
BLOCK_G_MIX = 0.1
MIXTURE = Mixture.default()


@final
@dataclass(frozen=True, kw_only=True)
class LinGIFA(Options):
    """LinGIFA: the m arms with the smallest gap indices, against the rival that may be ahead of them by most.

    Args:
        selection: how to choose the arm: "greedy", or "largest-variance".
        ridge: of the paper's estimate; default (noise_std / 20)^2.
        norm_bound: a bound on the norm of theta that you know; only for the paper's own rule.
        g_mix: share of the pulls that follow the G-optimal design; default 0, a tenth under the betting rule, which
            reads blocks and not the index.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "lingifa", m=2, n_runs=5, seed=0).mean
        69.0

    References:
        Reda, Kaufmann and Delahaye-Duriez (2021), "Top-m identification for linear bandits".
    """

    plans_with_noise: ClassVar[bool] = True
    supports_top_m: ClassVar[bool] = True
    selection: Literal["greedy", "largest-variance"] = "greedy"
    ridge: float | None = None
    norm_bound: float | None = None
    g_mix: float | None = None

    def unsupported(self, task: Task) -> str | None:
        """Refuse very many candidates, and an arm of a pair that cannot be pulled."""
        n = task.candidates.n_arms if task.candidates.is_enumerable else 0
        if n * n > MOST_PAIRS:
            most = f"{MOST_PAIRS} (300 candidates)"
            return f"lingifa compares all pairs of candidates, at most {most}, got {n}; use m-lingape."
        if self.selection == "largest-variance" and task.candidates is not task.arms:
            return (
                'selection="largest-variance" pulls one of the two candidates it compares and cannot be used with '
                '`candidates` or with noise_std for each arm; use "greedy".'
            )
        return None

    def compose(self, task: Task) -> tuple[StartThenChoose, Rule]:
        """Return the sampler and the stopping rule."""
        threshold: RidgeThreshold | None = None
        if self.is_own_rule:
            ridge = (task.noise_std / 20.0) ** 2 if self.ridge is None else check_ridge(self.ridge)
            threshold = ridge_threshold("lingifa", task, ridge, self.norm_bound)
        rule = self.rule_for_several(task) if threshold is None else IndexRule(threshold=threshold)
        g_mix = (BLOCK_G_MIX if rule.needs_fixed_blocks else 0.0) if self.g_mix is None else self.g_mix
        chooser = LinGIFAChooser(task, self.selection, threshold, g_mix)
        return StartThenChoose(
            task.spanning, chooser, rule=rule, schedule=self.schedule, least=rule.min_block(task)
        ), rule


@final
class Pairs:
    """Gaps and uncertainties of all pairs of candidates."""

    def __init__(self, task: Task) -> None:
        rivals = task.rivals
        self.rows = rivals.gather(np.arange(rivals.n_arms))
        self.is_copy = np.array([~rivals.is_rival([j]) for j in range(len(self.rows))])
        """Whether i is j or a copy of it (K, K)."""

    def gaps(self, theta: Array) -> Array:
        """Return theta'(x_j - x_i), j first (K, K)."""
        values = self.rows @ theta
        return values[:, None] - values[None, :]

    def squares(self, F: Array) -> Array:
        """Return |F'(x_j - x_i)|^2 (K, K), from the differences; 1 for copies, which are no pair."""
        points = self.rows @ F
        squares = scipy.spatial.distance.cdist(points, points, "sqeuclidean")
        found: Array = np.where(self.is_copy, 1.0, squares)
        return found

    def mth(self, values: Array, m: int) -> Array:
        """Return for every j the m-th smallest of values (K, K) over i that are no copies of j (K,)."""
        among = np.where(self.is_copy, np.inf, values)
        found: Array = np.partition(among, m - 1, axis=1)[:, m - 1]
        return found


@final
class LinGIFAChooser(Chooser):
    """The pair by gap indices, arm by arm."""

    def __init__(self, task: Task, selection: str, threshold: RidgeThreshold | None, g_mix: float) -> None:
        ridge = None if threshold is None else threshold.ridge * task.rows.metric()
        super().__init__(task, g_mix=g_mix, ridge=ridge, reads_ridge=ridge is not None)
        self._selection, self._threshold, self._pairs = selection, threshold, Pairs(task)
        self._separator = GreedyChoice(task.rows)

    def pick(self) -> int:
        """Return the arm for the pair."""
        pair = self.pair()
        rows = self._pairs.rows[list(pair)]
        if self._selection == "greedy":
            return self._separator.arm(self._asked, rows[0] - rows[1], pair)
        variances = np.einsum("ij,jk,ik->i", rows, self._asked.A_inv, rows)
        return pair[int(np.argmax(variances))]

    def pair(self) -> tuple[int, int]:
        """Return the member of J with the largest index, and the outsider with the largest bound on its lead."""
        bounds = self.bounds()
        index = -self._pairs.mth(-bounds, self._task.m)
        team = np.argsort(index, kind="stable")[: self._task.m]
        member = int(team[-1])
        lead = np.where(self._pairs.is_copy[member], -np.inf, bounds[member])
        lead[team] = -np.inf
        return member, int(np.argmax(lead))

    def bounds(self) -> Array:
        """Return the upper confidence bounds on theta'(x_i - x_j), j first (K, K)."""
        task, pairs, asked = self._task, self._pairs, self._asked
        gaps, squares = pairs.gaps(self._theta), pairs.squares(inverse_factor(asked.A))
        risk = {"delta": task.delta, "noise_std": task.noise_std}
        if self._threshold is None:
            q2, logdets = pairs.squares(asked.A_inv), MIXTURE.logdets(asked.A)
            bounds = loss_bound(gaps, squares, q2, logdets, mixture=MIXTURE, **risk)
        else:
            limit = self._threshold(n_pulls=asked.n, dim=len(asked.A), logdet=0.0, **risk)
            bounds = np.sqrt(2.0 * limit * squares) - gaps
        if self._alive is not None and task.m == 1:
            bounds[self._leader, ~self._alive] = -np.inf  # refuted for the leader of the rule
        return bounds


@final
@dataclass(frozen=True, kw_only=True)
class IndexRule(Rule):
    """Stop when the gap indices of m arms are at most epsilon, by the published width.

    Guarantee: published, if the norm of theta is at most that of the threshold.

    Args:
        threshold: half the squared width, in units of a pair's squared uncertainty.
    """

    threshold: RidgeThreshold
    supports_top_m: ClassVar[bool] = True
    name: str = field(default="lingifa", init=False)
    guarantee: Guarantee = field(default="published", init=False)

    def start(self, task: Task) -> "IndexState":
        """Return a fresh state."""
        return IndexState(task, self.threshold)


@final
class IndexState(RuleState):
    """The gap indices on one task; every check looks at all pairs, O(K^2 d)."""

    decides_after_pulls = True

    def __init__(self, task: Task, threshold: RidgeThreshold) -> None:
        super().__init__(task)
        self.regularizers = threshold.ridge * task.rows.metric()[None]
        self._threshold, self._pairs = threshold, Pairs(task)

    def leader(self, estimate: LeastSquares) -> int:
        """Return the first of the team."""
        return self.leaders(estimate)[0]

    def leaders(self, estimate: LeastSquares) -> tuple[int, ...]:
        """Return the m arms with the smallest indices, the best estimate first."""
        read = RidgeEstimate(estimate)
        return tuple(self._team(read, self._limit(read)).tolist())

    def _limit(self, read: RidgeEstimate) -> float:
        risk = {"delta": self.task.delta, "noise_std": self.task.noise_std}
        return float(self._threshold(n_pulls=read.n_pulls, dim=read.dim, logdet=0.0, **risk))

    def _team(self, read: RidgeEstimate, limit: float) -> IntArray:
        pairs = self._pairs
        bounds = np.sqrt(2.0 * limit * pairs.squares(read.factor())) - pairs.gaps(read.theta)
        index = -pairs.mth(-bounds, self.task.m)
        team = np.argsort(index, kind="stable")[: self.task.m]
        found: IntArray = team[np.argsort(-(pairs.rows[team] @ read.theta), kind="stable")]
        return found

    def after_pull(self, estimate: LeastSquares) -> Verdict:
        """Check the rule."""
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict; the statistic is (gap + epsilon)^2 / (2 |y|^2) at the index that is largest."""
        task, noise = self.task, self.task.noise_std
        if not estimate.has_theta:
            return Verdict(threshold=math.inf)
        read = RidgeEstimate(estimate)
        limit = self._limit(read)
        team = self._team(read, limit)
        statistics = glr(self._pairs.gaps(read.theta), self._pairs.squares(read.factor()), task.epsilon)
        of_team = np.asarray(self._pairs.mth(statistics, task.m)[team], dtype=np.float64)
        worst = int(team[np.argmin(of_team)])
        against = np.where(self._pairs.is_copy[worst], np.inf, statistics[worst])
        against[team] = np.inf
        value = float(of_team.min())
        first, *others = team.tolist()
        return Verdict(
            stopped=value >= limit,
            leader=first,
            others=tuple(others),
            rival=int(np.argmin(against)),
            statistic=value / noise**2,
            threshold=limit / noise**2,
        )
