"""LinGame-C (Degenne, Menard, Shang and Valko 2020): the game of LinGame with one learner over pairs (answer, arm).

Notation: i an answer, k an arm; w (I, K) proportions over all pairs, sum 1; w^i its row of answer i; lambda^i nature's
reply to that row; V the information so far, eta a ridge, L >= norms of the arms, M >= norm of theta.

    proportions     w from one AdaHedge learner over all I K pairs
    nature          for the leader i: lambda^i = the closest parameter in the norm of A(w^i) under which i is not best;
                    for any other answer lambda^i = theta, so that its pairs gain their bonus alone
    gains           U_ik = optimistic value of ((theta - lambda^i)'a_k)^2; see `rules.optimism`
    pair            the one furthest behind the sum of all proportions, argmin N_ik - W_ik; its arm is pulled
    stopping        likelihood ratio against beta(t, delta) =
                    (noise_std sqrt(log(1/delta) + (d/2) log(1 + t L^2/(eta d))) + sqrt(eta/2) M)^2

A learner over pairs is convex in the answer too, which the analysis uses; its price is O(I K) time and memory per
round, so it is refused for more than `MOST_PAIRS` pairs.

`variant="paper"` and the practical variant differ as for LinGame: every arm once, ridge, optimism and the threshold
above with `norm_bound` for M; or a spanning set, no optimism, forced exploration, the evidence rule. Pulls before the
game count for no pair (public code starts from one made-up pull of every pair).
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.core.linalg import Array, BoolArray, cholesky, solve_cholesky
from surepick.core.thresholds import RidgeThreshold
from surepick.errors import InvalidInput
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
from surepick.rules.exploration import Exploration
from surepick.rules.intervals import StartThenChoose
from surepick.rules.optimism import Optimism, OptimismKind, check_ridge, ridge_rule, ridge_threshold
from surepick.rules.parts import Ground, Rule, Situation
from surepick.rules.ridge import RidgeEstimate

# Share of the G-optimal design in A(w^i): learned proportions saturate, and A(w^i) must stay invertible.
JITTER = 1e-6
# Pairs of answer and arm up to which a round takes a few milliseconds: 300 arms that are the answers too.
MOST_PAIRS = 90_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LinGameC:
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
        g_mix: share of the pulls that follow the G-optimal design; default 0, in the practical
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
        n_pairs = arms.n_arms * ground.candidates.n_arms
        if n_pairs > MOST_PAIRS:
            raise InvalidInput(
                f"lingame-c keeps a weight for every pair of an answer and an arm, at most {MOST_PAIRS} "
                f"(300 arms), got {n_pairs}; use lingame, which keeps one per arm."
            )
        spanning = spanning_start(ground)
        kind = self.optimism or ("paper" if is_paper else "none")
        is_own_rule = is_paper and self.stopping is None
        threshold: RidgeThreshold | None = None
        if is_own_rule or kind == "paper":
            threshold = ridge_threshold("lingame-c", ground, ridge=ridge, norm_bound=self.norm_bound)
        if is_own_rule:
            assert threshold is not None
            rule: Rule = ridge_rule(threshold, ground, elimination=self.elimination)
        else:
            rule = stopping_rule(self.stopping or "evidence", ground, start=spanning, elimination=self.elimination)
        floor = 0.0 if is_paper else 0.3
        usual = 0.1 if self.stopping == "betting" and not is_paper else 0.0
        g_mix = usual if self.g_mix is None else self.g_mix
        chooser = LinGameCChooser(
            ground,
            optimism=Optimism(kind=kind, noise_std=ground.noise_std, threshold=threshold),
            ridge=ridge,
            is_ridge=is_own_rule,
            exploration=Exploration(
                arms, spanning, floor=floor if self.exploration is None else self.exploration, g_mix=g_mix
            ),
        )
        start = np.arange(arms.n_arms) if is_paper else spanning
        sampler = start_then_choose(start, chooser, stopping=self.stopping or "", schedule=self.schedule, dim=arms.dim)
        return sampler, rule


@final
class LinGameCChooser:
    """Rounds of the game over pairs; in a batch the estimate stays and the learner moves on.

    Args:
        ground: what the algorithm is composed for.
        optimism: what is added to the gains.
        ridge: the paper's eta.
        is_ridge: whether to read the ridge estimate, as the paper's rule does.
        exploration: forced pulls, outside the game.
    """

    def __init__(
        self, ground: Ground, *, optimism: Optimism, ridge: float, is_ridge: bool, exploration: Exploration
    ) -> None:
        self._ground, self._optimism, self._is_ridge = ground, optimism, is_ridge
        self._rows, self._alternatives = Rows(ground.arms), Alternatives(ground.candidates)
        self._exploration = exploration
        self._asked = Asked(ground.arms, None if optimism.kind == "none" else ridge * ground.arms.metric())
        self._shape = ground.candidates.n_arms, ground.arms.n_arms
        self._learner = AdaHedge(self._shape[0] * self._shape[1])
        self._behind = np.zeros(self._shape)  # N - W over pairs
        self._leader: int | None = None
        self._theta: Array | None = None
        self._alive: BoolArray | None = None

    def look(self, situation: Situation) -> None:
        """Take in the results so far."""
        self._theta = RidgeEstimate(situation.estimate).theta if self._is_ridge else situation.theta
        self._leader, self._alive = situation.leader, situation.alive
        self._asked.renew(situation)

    def choose(self) -> int:
        """Play a round and return the arm of the pair furthest behind."""
        arm = self._exploration.due(self._asked)
        if arm is None:
            w = self._learner.weights.reshape(self._shape)
            self._learner.feed(-0.5 * self._gains(w).ravel())
            self._behind -= w
            answer, arm = divmod(int(np.argmin(self._behind)), self._shape[1])
            self._behind[answer, arm] += 1.0
        self._asked.add(arm)
        return arm

    def _gains(self, w: Array) -> Array:
        """Return the gains (I, K) of all pairs against nature's replies to w."""
        assert self._leader is not None
        assert self._theta is not None
        asked, dim = self._asked, self._ground.arms.dim
        row, total = w[self._leader], float(w[self._leader].sum())
        A = JITTER * np.eye(dim)  # in whitened coordinates the G-optimal design has information I
        if total > 0.0:
            A += (1.0 - JITTER) * self._rows.information(row / total)
        A_inv = solve_cholesky(cholesky(A), np.eye(dim))
        along = np.zeros(len(row))
        found = self._alternatives.closest(self._leader, self._theta, A_inv, self._alive)
        if found is not None and found.gap > 0.0:
            # theta - lambda = (gap / q) A^-1 y, and gap / q = 2 cost / gap.
            along = self._rows.times(A_inv.dot(found.y) * (2.0 * found.cost / found.gap))
        width = np.zeros(len(row))
        if self._optimism.kind != "none":
            width = np.sqrt(np.maximum(self._rows.squares(asked.A_inv), 0.0))
        gains = np.tile(self._optimism.gains(np.zeros(len(row)), width, asked.n, dim), (self._shape[0], 1))
        gains[self._leader] = self._optimism.gains(along, width, asked.n, dim)
        return gains
