"""Static allocations: pulls that depend on no reward. They are here to compare other algorithms with.

    uniform     arm 0, 1, ..., K - 1, 0, 1, ...
    g-static    a fixed design that makes the largest x'A^-1 x over the arms small: every arm is known equally well
    xy-static   a fixed design that makes the largest y'A^-1 y over all differences small: every difference is known
                equally well, also those that do not matter
    xy-oracle   the design w* of the characteristic time T* at the true theta: the best fixed design there is

Practical: a spanning set first, then arms in turn, or the certified design is tracked (for xy-static the solver
generates the differences that matter, never all K^2 of them). Betting decides.

`variant="paper"`: g-static and xy-static choose arm by arm the pull after which the largest form is smallest, and stop
by `union_rule`, both from Soare, Lazaric and Munos (2014). Above 200,000 pairs (arm, direction), i.e. 447 arms for
g-static and 74 for xy-static, they track the certified design, as the authors allow. uniform is the column of published
comparisons (Wang, Tzeng and Proutiere 2021): no spanning start, and the rule log((1 + log t)/delta) of Garivier and
Kaufmann (2016), which is not proved. xy-oracle is the public code behind the Oracle columns of Fiez et al. (2019) and
of Jedra and Proutiere (2020), Tables 1 and 2: independent draws from w* in batches of ceil(1.1^k) pulls, k = 1, 3, 5,
... (the counter is raised twice per batch), and the rule `OracleRule`.

Elimination serves the stopping rule alone.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import accumulate, combinations
from typing import Any, ClassVar, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.base import ArmSet
from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.checks import check_rewards, check_vector
from surepick.core.design.directions import GapDirections
from surepick.core.design.generation import PreparedArms
from surepick.core.design.solve import pairwise_design, separating_design
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import glr
from surepick.core.thresholds import UnionThreshold
from surepick.errors import InvalidInput
from surepick.sampling.fixed import LARGEST_TABLE, Drawn, FixedSampler, GreedyAllocation, Source
from surepick.sampling.tracking import Tracker
from surepick.stopping import Stopping
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.stopping.glr import GLR
from surepick.stopping.targets import Targets
from surepick.types import Array, Guarantee

# Gap of the oracle's design. It is computed once, so accuracy costs little.
TOL = 1e-3
# Below this smallest eigenvalue of A(w*), in whitened coordinates, draws from w* may never span.
SINGULAR = 1e-4
# The batches of the published oracle; the last of them ends beyond 10^10 pulls.
BATCHES = tuple(math.ceil(1.1**k) for k in range(1, 240, 2))


@final
@dataclass(frozen=True, kw_only=True)
class Uniform(Options):
    """Uniform sampling: every arm in turn.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "uniform", n_runs=5, seed=0).mean
        90.4
    """

    takes_vector_candidates: ClassVar[bool] = True
    supports_top_m: ClassVar[bool] = True
    takes_target: ClassVar[bool] = True
    takes_batch: ClassVar[bool] = True

    def compose(self, task: Task) -> tuple[FixedSampler, Rule]:
        """Return the sampler and the stopping rule."""
        usual: Stopping = "heuristic" if self.is_paper else "betting"
        rule = self.rule(usual if task.target is None else Targets())
        n_arms = task.rows.n_arms
        start = range(n_arms) if self.is_paper else task.spanning.tolist()
        return FixedSampler(start, InTurn(n_arms), rule=rule, least=rule.min_block(task), schedule=self.schedule), rule


@final
class InTurn(Source):
    """Every arm in turn, in the order of row numbers."""

    def __init__(self, n_arms: int) -> None:
        self._n_arms, self._turn = n_arms, -1

    def next(self) -> int:
        """Return the next arm."""
        self._turn = (self._turn + 1) % self._n_arms
        return self._turn


@dataclass(frozen=True, kw_only=True)
class _Static(Options, ABC):
    """A fixed design after a spanning set."""

    def compose(self, task: Task) -> tuple[FixedSampler, Rule]:
        """Return the sampler and the stopping rule."""
        own = union_rule(task, elimination=bool(self.elimination))
        rule = own if self.is_own_rule else self.rule("betting" if task.target is None else Targets())
        source = self.source(task)
        return FixedSampler(task.spanning, source, rule=rule, least=rule.min_block(task), schedule=self.schedule), rule

    @abstractmethod
    def source(self, task: Task) -> Source:
        """Return the sequence of arms after the start."""


@final
@dataclass(frozen=True, kw_only=True)
class GStatic(_Static):
    """G-static: a fixed design that resolves every arm.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "g-static", n_runs=5, seed=0).mean
        72.2

    References:
        Soare, Lazaric and Munos (2014), "Best-arm identification in linear bandits".
    """

    takes_vector_candidates: ClassVar[bool] = True
    supports_top_m: ClassVar[bool] = True
    takes_target: ClassVar[bool] = True
    takes_batch: ClassVar[bool] = True

    def source(self, task: Task) -> Source:
        """Return the sequence of arms after the start."""
        arms = task.rows
        if self.is_paper and arms.n_arms**2 <= LARGEST_TABLE:
            rows = arms.gather(np.arange(arms.n_arms))
            return GreedyAllocation(rows, rows)
        return Tracker.of(arms.design)


@final
@dataclass(frozen=True, kw_only=True)
class XYStatic(_Static):
    """XY-static: a fixed design that resolves every difference.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "xy-static", n_runs=5, seed=0).mean
        123.8

    References:
        Soare, Lazaric and Munos (2014), "Best-arm identification in linear bandits".
    """

    def source(self, task: Task) -> Source:
        """Return the sequence of arms after the start."""
        arms, candidates = task.rows, task.rivals
        n = candidates.n_arms
        if self.is_paper and arms.n_arms * n * (n - 1) // 2 <= LARGEST_TABLE:
            return GreedyAllocation(arms.gather(np.arange(arms.n_arms)), differences(candidates))
        return Tracker.of(pairwise_design(arms, candidates.gather(np.arange(n))))


@final
@dataclass(frozen=True, kw_only=True)
class XYOracle(Options):
    """XY-oracle: the best fixed design for a theta that is known. A yardstick, not a way to learn.

    The true theta is unknown outside simulations; the oracle shows what learning the design costs the others. Compare
    them under one stopping rule, as the practical variant does.

    Args:
        theta: the true parameter (d,) in the user's coordinates; required.

    Examples:
        >>> import surepick as sp
        >>> truth = lambda problem: problem.theta
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "xy-oracle", n_runs=5, seed=0, theta=truth).mean
        96.8

    References:
        Soare, Lazaric and Munos (2014), "Best-arm identification in linear bandits".
    """

    theta: Any = None

    def compose(self, task: Task) -> tuple[FixedSampler, Rule]:
        """Return the sampler and the stopping rule."""
        arms = task.rows
        theta = self._checked_theta(task)
        directions = GapDirections(task.rivals, theta)
        design = separating_design(PreparedArms(arms), directions, tol=TOL)
        if self.is_own_rule and self.elimination:
            raise InvalidInput(
                'xy-oracle with variant="paper" tests one known answer and cannot use `elimination`; leave it out, '
                'or name a rule such as stopping="evidence".'
            )
        rule = OracleRule(answer=int(directions.leaders[0])) if self.is_own_rule else self.rule("betting")
        source: Source = Tracker.of(design)
        start, schedule = task.spanning, self.schedule
        if self.is_paper:
            rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(0,)))
            source = Drawn(design.support, design.weights, rng)
            rows = np.sqrt(design.weights)[:, None] * arms.gather(design.support)
            # The published version has no starting set; one is pulled only if w* alone would not give an estimate.
            is_enough = np.linalg.eigvalsh(rows.T @ rows)[0] >= SINGULAR
            start = start[:0] if is_enough else start
            schedule = tuple(accumulate(BATCHES)) if schedule is None else schedule
        least, per_nat = rule.min_block(task), design.value
        return FixedSampler(start, source, rule=rule, least=least, schedule=schedule, pulls_per_nat=per_nat), rule

    def _checked_theta(self, task: Task) -> Array:
        """Return the true parameter in whitened coordinates."""
        arms = task.rows
        if self.theta is None:
            raise InvalidInput(
                f"xy-oracle needs `theta`, the true parameter of {arms.dim} numbers, and got none; if it is not known, "
                "use an algorithm that learns it, such as lazy-track-and-stop."
            )
        given = check_vector("theta", self.theta, arms.dim)
        for table in (arms.arms, task.rivals.arms):
            check_rewards(table.triangle(), given)
        return arms.theta_from_user(given)


@final
@dataclass(frozen=True, kw_only=True)
class OracleRule(Rule):
    """The oracle's published rule: test the known answer z* after each block. Guarantee: none.

    With theta the estimate and A the information of all pulls so far, test k = 1, 3, 5, ... stops if for all other
    candidates z

        theta'(z* - z) >= noise_std |z* - z|_{A^-1} sqrt(2 log(1/delta_k)),   delta_k = delta / (2 k^2 K).

    The rule tests the correct answer alone and cannot err, so its number of pulls is not that of a delta-correct rule.

    Args:
        answer: the candidate known to be the best.
    """

    answer: int
    opens_ahead: ClassVar[bool] = False
    name: str = field(default="oracle", init=False)
    guarantee: Guarantee = field(default="none", init=False)

    def start(self, task: Task) -> "OracleState":
        """Return a fresh state."""
        return OracleState(task, self.answer)


@final
class OracleState(RuleState):
    """The oracle's published rule on one task."""

    def __init__(self, task: Task, answer: int) -> None:
        super().__init__(task)
        self._answer, self._k = answer, 1

    def leader(self, estimate: LeastSquares) -> int:
        """Return the known answer."""
        return self._answer

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Test the answer with the next k."""
        verdict = self.exact(estimate)
        self._k += 2
        return verdict

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict that the next test would give now."""
        task, candidates = self.task, self.task.rivals
        # gap >= noise_std |y| sqrt(2 log(1/delta_k)) says that gap^2 / (2 noise_std^2 |y|^2) is at least this.
        threshold = math.log(2.0 * self._k**2 * candidates.n_arms) - math.log(task.delta)
        statistic, rival = 0.0, None
        if estimate.has_theta:
            found = candidates.most_confusing(
                self._answer, estimate.theta, [estimate.factor()], lambda gap, q: glr(gap, q, task.epsilon)
            )
            statistic, rival = found.score / task.noise_std**2, found.index
        return Verdict(
            stopped=statistic >= threshold, leader=self._answer, rival=rival, statistic=statistic, threshold=threshold
        )


def union_rule(task: Task, *, elimination: bool) -> GLR:
    """Return the stopping rule of Soare, Lazaric and Munos (2014): c = 2 sqrt(2) noise_std, c' = 6/pi^2.

    Stop at n when theta'y >= c |y|_{A^-1} sqrt(log(c' n^2 K^2 / delta)) for all y = leader - z, K the number of
    candidates. Since the statistic is (theta'y)^2 / (2 |y|^2), the threshold is c^2/2 = 4 noise_std^2 times the log.

    The union bound asks for c' = pi^2/6, not 6/pi^2; the rule is valid as printed because c is twice what a
    sub-Gaussian tail needs. A pair at time n fails with probability (delta / (c' n^2 K^2))^4, a wrong answer needs one
    of the K - 1 pairs with the best candidate to fail, and these sum to less than 0.03 delta^4.

    Proved for pulls that depend on no reward, hence for static allocations. Unsolicited results, as in a `history`
    of other origin, may have arms chosen from rewards: from the first of them on the learner's guarantee is "none".
    """
    n_tests, factor = task.candidates.n_arms**2, 6.0 / math.pi**2
    threshold = UnionThreshold(name="static-union", n_tests=n_tests, scale=4.0, factor=factor)
    return GLR(threshold=threshold, elimination=elimination, for_fixed_design=True)


def differences(candidates: ArmSet) -> Array:
    """Return all differences of two candidates (m, d), one of y and -y; copies give none. For moderate sets only."""
    rows = candidates.gather([i for i in range(candidates.n_arms) if candidates.copies(i)[0] == i])
    pairs = np.array(list(combinations(range(len(rows)), 2)))
    found: Array = rows[pairs[:, 0]] - rows[pairs[:, 1]]
    return found
