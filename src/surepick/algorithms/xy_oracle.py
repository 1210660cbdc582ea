"""XY-oracle (the "Oracle" of published comparisons): the best fixed design for a theta that is known. A yardstick.

    sampling        the design w* of the characteristic time T* at the true theta, for ever
    stopping        practical: betting, as if nothing were known; paper: see below
    recommendation  practical: the leader; paper: the known best candidate

Nobody has this theta; the algorithm shows what planning costs the others. Compare it with them under one stopping rule,
as the practical variant does: a spanning set, then w* is tracked.

`variant="paper"` is the public code behind the Oracle columns of Fiez et al. (2019) and of Jedra and Proutiere (2020),
Tables 1 and 2: arms drawn independently from w*, in batches of ceil(1.1^k) pulls with k = 1, 3, 5, ... (the counter is
raised twice per batch); after each batch it stops if, for all candidates z other than the best z*,

    theta'(z* - z) >= noise_std |z* - z|_{A^-1} sqrt(2 log(1/delta_k)),   delta_k = delta / (2 k^2 K),

theta the estimate and A the information of all pulls so far. Only the correct answer is ever tested, so it cannot err
and its number of pulls is not that of a delta-correct rule: its guarantee is "none".
"""

import math
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.checks import check_rewards, check_vector
from surepick.core.design.directions import GapDirections
from surepick.core.design.generation import PreparedArms
from surepick.core.design.solve import separating_design
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import glr
from surepick.errors import InvalidInput
from surepick.sampling.fixed import Drawn, FixedSampler, Source
from surepick.sampling.tracking import Tracker
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Guarantee

# The design is computed once, so it may as well be accurate.
TOL = 1e-3
# Below this smallest eigenvalue of A(w*), in whitened coordinates, draws from w* may never span.
SINGULAR = 1e-4
# The batches of the published version; the last of them ends beyond 10^10 pulls.
BATCHES = tuple(math.ceil(1.1**k) for k in range(1, 240, 2))


@final
@dataclass(frozen=True, kw_only=True)
class XYOracle(Options):
    """Options of the algorithm, beside those that all share; None stands for the variant's own choice.

    Args:
        theta: the true parameter (d,) in the user's coordinates; required.
    """

    theta: Any = None

    def compose(self, task: Task) -> tuple[FixedSampler, Rule]:
        """Return the sampling rule and the stopping rule."""
        arms = task.rows
        if self.theta is None:
            raise InvalidInput(
                f"xy-oracle needs `theta`, the true parameter of {arms.dim} numbers, and got none; if it is not known, "
                "use an algorithm that learns it, such as lazy-track-and-stop."
            )
        given = check_vector("theta", self.theta, arms.dim)
        for table in (arms.arms, task.rivals.arms):
            check_rewards(table.triangle(), given)
        theta = arms.theta_from_user(given)
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


@final
@dataclass(frozen=True, kw_only=True)
class OracleRule(Rule):
    """Test the known answer after each interval; the j-th test has k = 2 j - 1 and risk delta / (2 k^2 K).

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
    """Such a rule at work."""

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
        """Say where the next test would stand now."""
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
            stopped=statistic >= threshold,
            leader=self._answer,
            rival=rival,
            statistic=statistic,
            threshold=threshold,
        )
