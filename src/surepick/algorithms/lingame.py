"""LinGame (Degenne, Menard, Shang and Valko 2020): the optimal design as a game, one round of it per pull.

Notation: i the leader; w (K,) proportions; A(w) = sum_k w_k a_k a_k'; V the information so far, eta a ridge,
L >= norms of the arms, M >= norm of theta.

    leader          i = the best estimate
    proportions     w from the AdaHedge learner of answer i (one per answer that ever leads)
    nature          lambda = the closest parameter in the norm of A(w) under which i is not best
    gains           U_k = optimistic value of ((theta - lambda)'a_k)^2, fed to learner i; see `rules.optimism`
    arm             the one furthest behind the sum of all proportions, argmin N_k - W_k (C-tracking)
    stopping        likelihood ratio against beta(t, delta) =
                    (noise_std sqrt(log(1/delta) + (d/2) log(1 + t L^2/(eta d))) + sqrt(eta/2) M)^2

`variant="paper"`: every arm once, ridge estimate, optimistic gains with h(t) = beta(t, t^-3) limited to 4 L^2 M^2, and
the threshold above on the ridge norm (valid, and never later than on the norm of V); needs `norm_bound`, the M. Proved
delta-correct; asymptotically optimal for eta >= 2 (1 + log K) K L^2 + M^2, while eta = 1 is what experiments use. With
optimism="log-t" and stopping="heuristic" it is the version of published comparisons.

Practical: optimism costs about half of all pulls at usual risks, so none; instead pulls are forced when the smallest
eigenvalue of the information falls below a floor, as in Lazy Track-and-Stop, because without either an arm may be
neglected for good (`g_mix` is another way). Least squares without ridge, a spanning set first, the evidence rule.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.core.linalg import Array, BoolArray, cholesky, solve_cholesky
from surepick.core.thresholds import RidgeThreshold
from surepick.rules.adahedge import AdaHedge
from surepick.rules.alternatives import Alternatives, Rows
from surepick.rules.asked import Asked
from surepick.rules.choice import (
    ScheduleOption,
    Stopping,
    Variant,
    check_variant,
    spanning_start,
    start_then_choose,
    stopping_rule,
)
from surepick.rules.exploration import Exploration, check_share
from surepick.rules.intervals import StartThenChoose
from surepick.rules.optimism import Optimism, OptimismKind, check_ridge, ridge_rule, ridge_threshold
from surepick.rules.parts import Ground, Rule, Situation
from surepick.rules.ridge import RidgeEstimate

# Share of the G-optimal design in A(w): learned proportions saturate, and A(w) must stay invertible.
JITTER = 1e-6


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LinGame:
    """Options of the algorithm; None stands for the variant's own choice.

    Args:
        variant: "practical", or "paper" for the published constants.
        stopping: the rule that decides; None in the paper variant is the paper's own.
        optimism: bonus in the gains: "paper", "log-t" or "none".
        schedule: when to look at results; default after every pull, by blocks under the betting rule.
        elimination: an alternative once refuted stays refuted and is no longer open to nature.
        ridge: the paper's eta; used by optimism and by its own rule.
        norm_bound: the paper's M, a bound on the norm of theta that you know; for its rule and its optimism.
        exploration: factor of the floor on the smallest eigenvalue; 0 switches it off.
        g_mix: share of the G-optimal design mixed into the proportions; default 0, in the practical
            variant a tenth under the betting rule.
    """

    variant: Variant = "practical"
    stopping: Stopping | None = None
    optimism: OptimismKind | None = None
    schedule: ScheduleOption = None
    elimination: bool = False
    ridge: float = 1.0
    norm_bound: float | None = None
    exploration: float | None = None
    g_mix: float | None = None

    def compose(self, ground: Ground) -> tuple[StartThenChoose, Rule]:
        """Return the sampling rule and the stopping rule."""
        is_paper = check_variant(self.variant)
        arms, ridge = ground.arms, check_ridge(self.ridge)
        spanning = spanning_start(ground)
        kind = self.optimism or ("paper" if is_paper else "none")
        is_own_rule = is_paper and self.stopping is None
        threshold: RidgeThreshold | None = None
        if is_own_rule or kind == "paper":
            threshold = ridge_threshold("lingame", ground, ridge=ridge, norm_bound=self.norm_bound)
        stopping = self.stopping or "evidence"
        if is_own_rule:
            assert threshold is not None
            rule: Rule = ridge_rule(threshold, ground, elimination=self.elimination)
        else:
            rule = stopping_rule(stopping, ground, start=spanning, elimination=self.elimination)
        floor = 0.0 if is_paper else 0.3
        usual = 0.1 if stopping == "betting" and not is_paper else 0.0
        g_mix = usual if self.g_mix is None else self.g_mix
        chooser = LinGameChooser(
            ground,
            optimism=Optimism(kind=kind, noise_std=ground.noise_std, threshold=threshold),
            ridge=ridge,
            is_ridge=is_own_rule,
            exploration=Exploration(
                arms, spanning, floor=floor if self.exploration is None else self.exploration, g_mix=0.0
            ),
            g_mix=check_share(g_mix),
        )
        start = np.arange(arms.n_arms) if is_paper else spanning
        sampler = start_then_choose(start, chooser, stopping=self.stopping or "", schedule=self.schedule, dim=arms.dim)
        return sampler, rule


@final
class LinGameChooser:
    """Rounds of the game; in a batch the estimate stays and the learners move on.

    Args:
        ground: what the algorithm is composed for.
        optimism: what is added to the gains.
        ridge: the paper's eta.
        is_ridge: whether to read the ridge estimate, as the paper's rule does.
        exploration: forced pulls.
        g_mix: share of the G-optimal design in the proportions.
    """

    def __init__(
        self,
        ground: Ground,
        *,
        optimism: Optimism,
        ridge: float,
        is_ridge: bool,
        exploration: Exploration,
        g_mix: float,
    ) -> None:
        self._ground, self._optimism, self._is_ridge = ground, optimism, is_ridge
        self._rows, self._alternatives = Rows(ground.arms), Alternatives(ground.candidates)
        self._exploration = exploration
        self._g_mix = g_mix
        self._asked = Asked(ground.arms, None if optimism.kind == "none" else ridge * ground.arms.metric())
        self._learners: dict[int, AdaHedge] = {}
        self._counts = np.zeros(ground.arms.n_arms)
        self._wanted: Array | None = None  # W: what all proportions so far add up to
        self._leader: int | None = None
        self._theta: Array | None = None
        self._alive: BoolArray | None = None

    def look(self, situation: Situation) -> None:
        """Take in the results so far."""
        self._theta = RidgeEstimate(situation.estimate).theta if self._is_ridge else situation.theta
        self._leader, self._alive = situation.leader, situation.alive
        self._asked.renew(situation)
        self._counts = self._asked.counts(self._ground.arms.n_arms)
        if self._wanted is None:
            self._wanted = self._counts.copy()  # what was pulled first was wanted, or tracking would catch up with it

    def choose(self) -> int:
        """Play a round and return the arm furthest behind."""
        assert self._leader is not None
        assert self._wanted is not None
        learner = self._learners.get(self._leader)
        if learner is None:
            learner = self._learners[self._leader] = AdaHedge(self._ground.arms.n_arms)
        w = learner.weights
        learner.feed(-0.5 * self._gains(w))
        self._wanted += (1.0 - self._g_mix) * w
        if self._g_mix > 0.0:
            design = self._ground.arms.design
            self._wanted[design.support] += self._g_mix * design.weights
        arm = self._exploration.due(self._asked)
        if arm is None:
            behind = np.where(self._wanted > 0.0, self._counts - self._wanted, np.inf)
            arm = int(np.argmin(behind))
        self._counts[arm] += 1.0
        self._asked.add(arm)
        return arm

    def _gains(self, w: Array) -> Array:
        """Return what a pull of each arm (K,) is worth against nature's answer to w."""
        assert self._leader is not None
        assert self._theta is not None
        asked, dim = self._asked, self._ground.arms.dim
        # In whitened coordinates the G-optimal design has information I.
        A = (1.0 - JITTER) * self._rows.information(w) + JITTER * np.eye(dim)
        A_inv = solve_cholesky(cholesky(A), np.eye(dim))
        along = np.zeros(len(w))
        found = self._alternatives.closest(self._leader, self._theta, A_inv, self._alive)
        if found is not None and found.gap > 0.0:
            # theta - lambda = (gap / q) A^-1 y, and gap / q = 2 cost / gap.
            along = self._rows.times(A_inv.dot(found.y) * (2.0 * found.cost / found.gap))
        if self._optimism.kind == "none":
            return along * along
        width = np.sqrt(np.maximum(self._rows.squares(asked.A_inv), 0.0))
        return self._optimism.gains(along, width, asked.n, dim)
