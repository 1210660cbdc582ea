"""XY-adaptive (Soare, Lazaric and Munos 2014): phases of a static design for the pairs left, each from fresh data.

    phase j         candidates left, differences Y_j; start from d spanning pulls
    arm             greedy: the pull that minimises max over Y_j of y'A^-1 y, A the information of the phase so far
    end of phase    when that maximum has fallen to alpha times its value at the end of the phase before
    elimination     least squares from the pulls of this phase alone; z goes if some z' is ahead by
                    noise_std |z' - z| sqrt(2 log(pi^2 K^2 j^2/(3 delta))), |.| in the norm of A^-1
    stopping        when one candidate is left

The first phase compares with 1/(d (d + 1) + 1). The paper writes the end of a phase with values divided by numbers of
pulls, where the values are those of designs with weights that sum to one; y'A^-1 y has that division in it already, and
public codes that divide again have phases that grow by 1/sqrt(alpha) instead of 1/alpha.

Proved: the tests that can hurt are those of the best candidate against K - 1 others, the risks 3 delta/(pi^2 K^2 j^2)
sum to delta (K - 1)/(2 K^2). The pulls of a phase depend on no reward of it, so a phase is planned as a whole; their
order does not matter to the test and is an even mixture. Departures: the paper starts a phase from A = I, which biases
the estimate; the greedy choice settles, so after `GREEDY_PULLS` pulls the rest of a phase repeats its proportions; with
more than `MOST_FORMS` pairs of arm and difference the certified design for all pairs takes the place of the greedy
choice, which approximates it.

Practical: certified designs, data of all phases kept, betting in blocks by schedule. Who has gone leaves the design at
the end of a phase. Candidates need not be arms.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.view import Task
from surepick.core.checks import check_number
from surepick.core.design import Design
from surepick.core.design.pairs import pairwise_design
from surepick.core.linalg import Array, IntArray
from surepick.errors import InvalidInput
from surepick.sampling.phases import (
    MOST_PULLS,
    EvenlySpread,
    PlannedBlocks,
    Proportions,
    candidates_left,
    proportions_of,
    without_idle_arms,
)
from surepick.sampling.protocol import Sampler, Situation
from surepick.stopping.phases import Phases
from surepick.stopping.protocol import Rule

MOST_FORMS = 200_000
"""Arms times differences up to which the greedy choice is made; each of its pulls visits all of them."""
GREEDY_PULLS = 2000
"""Greedy pulls after which a phase goes on in the proportions reached."""
# Values closer than this, relatively, are a tie: rounding must not decide between arms.
TIE = 1e-9


@final
@dataclass(frozen=True, kw_only=True)
class XYAdaptive(Options):
    """Options of the algorithm, beside those that all share; None stands for the variant's own choice.

    Args:
        alpha: by which factor the uncertainty falls from phase to phase.
    """

    alpha: float = 0.1
    elimination: bool | None = None

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampling rule and the stopping rule."""
        is_paper = self.is_paper
        alpha = check_number("alpha", self.alpha, needed="a factor between 0 and 1")
        if not 0.0 < alpha < 1.0:
            raise InvalidInput(f"`alpha` must be a factor between 0 and 1, got {alpha}; 0.1 is usual.")
        if self.is_own_rule:
            n_candidates, delta = task.rivals.n_arms, task.delta

            def price(j: int) -> float:
                return 2.0 * math.log(math.pi * n_candidates * j) - math.log(3.0 * delta)

            rule: Rule = Phases(price=price, name="xy-adaptive")
        else:
            rule = self.rule("betting")
        if is_paper:
            return XYAdaptiveSampler(task, alpha), rule
        return PlannedBlocks(task.spanning, XYAdaptivePlanner(task, alpha), self.times(rule)), rule


def first_uncertainty(dim: int) -> float:
    """Return the largest y'A^-1 y that the first phase compares itself with."""
    return 1.0 / (dim * (dim + 1) + 1)


@final
class XYAdaptiveSampler:
    """The paper's phases: one interval each."""

    def __init__(self, task: Task, alpha: float) -> None:
        self._task, self._alpha = task, alpha
        self._start = task.spanning
        self._uncertainty = first_uncertainty(task.rows.dim)
        self._design: Design | None = None
        self._pulls: EvenlySpread | None = None

    def open(self, situation: Situation) -> int:
        """Plan pulls until the uncertainty of the pairs left has fallen by alpha."""
        task = self._task
        rows = task.rivals.gather(candidates_left(situation, task.rivals.n_arms))
        target = self._alpha * self._uncertainty
        n_pairs = len(rows) * (len(rows) - 1) // 2
        if n_pairs * task.rows.n_arms <= MOST_FORMS:
            table = np.vstack([chunk for _, chunk in task.rows.chunks()])
            first, second = np.triu_indices(len(rows), 1)
            counts, self._uncertainty = greedy_counts(table, rows[first] - rows[second], self._start, target)
            self._pulls = EvenlySpread(np.arange(len(table)), counts)
        else:
            self._design = pairwise_design(task.rows, rows, warm_start=self._design)
            # Rounding to n whole pulls costs a factor of at most n/(n - size of the support).
            size = len(self._design.support)
            n = math.ceil(self._design.value / target) + size
            self._pulls = EvenlySpread(self._design.support, proportions_of(self._design).round(n))
            self._uncertainty = self._design.value / (n - size)
        return self._pulls.n

    def next(self) -> int:
        """Return the next arm of the phase; beyond its end, in the same proportions."""
        assert self._pulls is not None
        return self._pulls.next()

    def pulls_per_nat(self) -> float:
        """Return inf: a design for all pairs does not tell what the last one costs."""
        return math.inf


def greedy_counts(arms: Array, differences: Array, start: IntArray, target: float) -> tuple[IntArray, float]:
    """Return pulls per arm (K,) of the greedy XY allocation, and the largest y'A^-1 y they leave, at most `target`.

    Args:
        arms: what may be pulled (K, d).
        differences: what is to be resolved (m, d).
        start: row numbers that span, pulled first.
        target: largest y'A^-1 y to end with.

    One choice costs O(K m): C = X A^-1 Y' and the quadratic forms are updated by the Sherman-Morrison formula, and a
    pull of x turns y'A^-1 y into y'A^-1 y - (x'A^-1 y)^2/(1 + x'A^-1 x).

    Ties, which the paper breaks at random, go to the arm pulled least, then to the lowest row number. Row numbers alone
    get stuck: on the unit basis no single pull lowers the maximum, so all arms tie and the first is pulled for ever.
    """
    counts = np.zeros(len(arms), dtype=np.int64)
    np.add.at(counts, start, 1)
    A_inv = np.linalg.inv(arms[start].T @ arms[start])
    cross, leverage = arms @ A_inv @ differences.T, np.einsum("ij,jk,ik->i", arms, A_inv, arms)
    square = np.einsum("ij,jk,ik->i", differences, A_inv, differences)
    for _ in range(GREEDY_PULLS):
        if square.max() <= target:
            break
        left_over = (square - cross * cross / (1.0 + leverage)[:, None]).max(axis=1)
        ties = np.flatnonzero(left_over <= (1.0 + TIE) * left_over.min())
        arm = int(ties[np.argmin(counts[ties])])
        counts[arm] += 1
        u = A_inv @ arms[arm]
        scale = 1.0 + float(leverage[arm])
        along_arms, along = arms @ u, cross[arm].copy()
        A_inv -= u[:, None] * (u / scale)
        cross -= along_arms[:, None] * (along / scale)
        leverage -= along_arms * along_arms / scale
        square -= along * along / scale
    used = np.flatnonzero(counts)
    value = _largest_square(arms[used], counts[used], differences)
    if value > target:
        # Every count is multiplied by at least value/target, so every y'A^-1 y is divided by at least that.
        counts = np.ceil(np.minimum(counts * (value / target), MOST_PULLS / len(counts))).astype(np.int64)
        value = _largest_square(arms[used], counts[used], differences)
    return counts, value


def _largest_square(arms: Array, counts: IntArray, differences: Array) -> float:
    A = arms.T @ (counts[:, None] * arms)
    return float(np.einsum("ij,ji->i", differences, np.linalg.solve(A, differences.T)).max())


@final
class XYAdaptivePlanner:
    """The practical phases: the design for the pairs left when the phase began, as long as the paper's phase."""

    def __init__(self, task: Task, alpha: float) -> None:
        self._task, self._alpha = task, alpha
        self._uncertainty = first_uncertainty(task.rows.dim)
        self._ends = 0.0
        self._design: Design | None = None
        self._proportions: Proportions | None = None

    def plan(self, situation: Situation) -> Proportions:
        """Return the design in force; a new one for the pairs left when a phase begins."""
        task = self._task
        if self._proportions is None or situation.n_pulls >= self._ends:
            rows = task.rivals.gather(candidates_left(situation, task.rivals.n_arms))
            self._design = pairwise_design(task.rows, rows, warm_start=self._design)
            self._proportions = without_idle_arms(self._design, task.rows, rows, is_pairs=True)
            self._uncertainty *= self._alpha
            self._ends = situation.n_pulls + self._proportions.value / self._uncertainty
        return self._proportions

    def pulls_per_nat(self) -> float:
        """Return inf: a design for all pairs does not tell what the last one costs."""
        return math.inf
