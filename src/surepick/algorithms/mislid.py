"""MisLid (Reda, Tirinzoni and Degenne 2021): the m best arms when means are only nearly linear, as a game.

Notation: that of `core.near_linear`; mu^_k mean reward of arm k, N (K,) pulls, mu~ the fitted means, J their m largest;
D(w) the smallest distance D(w; i, j) over i in J and j outside, lambda the means where it is reached.

    weights         w from AdaHedge over the arms: one learner, or one for each J
    nature          lambda for w
    gains           of arm k from d_k = |mu~_k - lambda_k|:
                    "empirical"     min(d_k^2 / 2, log t)
                    "optimistic"    min((d_k + sqrt(c_k))^2 / 2, log t)
                    "aggressive"    min(d_k^2 + c_k, log t)
                    c_k = min(2 B / N_k, 4 M^2, 8 misfit^2 + 2 log(t) x_k'A^-1 x_k), M = `reward_bound` at least every
                    |mu_k|, B = 2 K W(log(5 e t^3) / (2 K) + log(8 e K log t) / 2), W(y) = -W_{-1}(-exp(-y))
    arm             drawn from w
    stopping        when D(N) exceeds a threshold

noise_std = 1 here; otherwise rewards, misfit and M are divided by it. A spanning set comes first.

Thresholds of the published rule. "heuristic" is log((1 + log t) / delta), which the paper's experiments used; it is not
proved. "published" is the smaller of two bounds that the paper proves: beta_uns = 2 K W(log(2 e / delta) / (2 K)
+ log(8 e K log t) / 2), which ignores the features, and beta_lin = (4 sqrt(t) misfit + sqrt(2 (1 + L + (1 + 1 / L)
(d / 2) log(1 + t L / (2 d)))))^2 / 2, L = log(2 / delta), which counts once A >= 2 max |x|^2 I. Their public code adds
2 misfit^2 t where the paper squares a sum; that is not the theorem.

Practical: empirical gains, and betting decides: on linear means for any m by accounts of sets; for m = 1 with `misfit`
too (docs/guarantee.md, Theorem 37). There is no such proof for m above 1 with a misfit: then the published threshold
decides. `model="unstructured"` needs no misfit at all. Features pay only if the misfit is much smaller than the gap:
on instance A of the paper, three best arms and gap 0.279, a misfit of 0.05 makes them worthless.

`variant="paper"`: optimistic gains, which need `reward_bound`, and the heuristic threshold, as in their experiments.

Cost: two programs for each of up to m (K - m) pairs and pull, which is milliseconds; at most `MOST_ARMS` arms.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal, final

import numpy as np
import scipy

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.checks import LATER, check_number
from surepick.core.estimate import LeastSquares
from surepick.core.near_linear import Nearest, NearLinear
from surepick.errors import InvalidInput
from surepick.sampling.adahedge import AdaHedge
from surepick.sampling.base import SamplerContext
from surepick.sampling.choosers import Chooser, StartThenChoose
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array, Guarantee, IntArray

Gains = Literal["empirical", "optimistic", "aggressive"]

MOST_ARMS = 1_000
# Share of the weights that all arms share equally: a distance needs a positive weight of every arm.
JITTER = 1e-6
# As in `algorithms.m_lingape`: share of the G-optimal design under rules that read blocks.
BLOCK_G_MIX = 0.1


@final
@dataclass(frozen=True, kw_only=True)
class MisLid(Options):
    """MisLid: a game for the m best arms, whose means may be off their linear values by `misfit`.

    Args:
        gains: what the learner of the weights is fed: "empirical", "optimistic" or "aggressive"; default "empirical",
            in the paper variant "optimistic".
        learners: "one" learner of the weights, the default, or one "per-answer".
        reward_bound: a bound on the size of every mean that you know; only for gains other than "empirical".
        price: the threshold of the published rule: "heuristic" or "published"; default "published", in the paper
            variant "heuristic".
        exploration: factor of the floor on the smallest eigenvalue; 0 switches it off.
        g_mix: share of the pulls that follow the G-optimal design; default 0, a tenth under the betting rule.

    Examples:
        >>> import surepick as sp
        >>> problem = sp.problems.soare(3, angle=0.5)
        >>> sp.simulate(problem, "mislid", misfit=0.01, n_runs=5, seed=0).mean
        104.2

    References:
        Reda, Tirinzoni and Degenne (2021), "Dealing with misspecification in fixed-confidence linear top-m
        identification".
    """

    plans_with_noise: ClassVar[bool] = True
    supports_top_m: ClassVar[bool] = True
    gains: Gains | None = None
    learners: Literal["one", "per-answer"] | None = field(default=None, metadata={LATER: True})
    reward_bound: float | None = None
    price: Literal["heuristic", "published"] | None = None
    exploration: float | None = None
    g_mix: float | None = None

    def unsupported(self, task: Task) -> str | None:
        """Refuse candidates that have no mean of their own, and very many arms."""
        if task.candidates is not task.arms:
            return "mislid fits a mean for each arm: no `candidates`, and one noise_std for all arms; or use m-lingape."
        n = task.arms.n_arms if task.arms.is_enumerable else 0
        if n > MOST_ARMS:
            return f"mislid solves a program for each pair of arms, for at most {MOST_ARMS} arms, got {n}; use lingame."
        return None

    def compose(self, task: Task) -> tuple[StartThenChoose, Rule]:
        """Return the sampler and the stopping rule."""
        gains: Gains = self.own(self.gains, practical="empirical", paper="optimistic")
        if gains != "empirical" and self.reward_bound is None:
            raise InvalidInput(
                f'mislid needs `reward_bound`, at least the size of every mean, for gains="{gains}", got None; if none '
                'is known, use gains="empirical".'
            )
        bound = math.inf
        if self.reward_bound is not None:
            needed = "a bound on the size of every mean, at least 0"
            bound = check_number("reward_bound", self.reward_bound, needed=needed, allowed=lambda bound: bound >= 0.0)
        is_own = self.is_own_rule or (self.stopping is None and task.m > 1 and task.misfit > 0.0)
        rule = self._own_rule() if is_own else self.rule(self._usual(task))
        g_mix = (BLOCK_G_MIX if rule.needs_fixed_blocks else 0.0) if self.g_mix is None else self.g_mix
        floor = self.own(self.exploration, practical=0.3, paper=0.0)
        chooser = MisLidChooser(task, gains, bound, per_answer=self.learners == "per-answer", floor=floor, g_mix=g_mix)
        least = rule.min_block(task)
        return StartThenChoose(task.spanning, chooser, rule=rule, schedule=self.schedule, least=least), rule

    def _own_rule(self) -> "DistanceRule":
        return DistanceRule(price=self.own(self.price, practical="published", paper="heuristic"))

    @staticmethod
    def _usual(task: Task) -> str:
        return "evidence" if task.m > 1 and task.epsilon > 0.0 else "betting"


@final
class Fit:
    """The fit of the results so far, in units of the noise; of equal rows the first stands for all."""

    def __init__(self, task: Task) -> None:
        rows = task.rows.gather(np.arange(task.rows.n_arms))
        self.arms = np.array([arm for arm in range(len(rows)) if task.rows.copies(arm)[0] == arm])
        """Arms (K,) with different rows."""
        self._task, self._places = task, dict[bytes, int]()
        self.model = NearLinear(rows[self.arms], task.misfit / task.noise_std)
        self.counts, self.means = np.zeros(len(self.arms)), np.zeros(len(self.arms))
        self.members = np.arange(0)

    @property
    def rows(self) -> Array:
        """Their features (K, d)."""
        return self.model.X

    def read(self, estimate: LeastSquares) -> None:
        """Fit mu~ (K,) and J (m,), largest first, to the results of this estimate."""
        self.counts, told = np.zeros(len(self.arms)), np.zeros(len(self.arms))
        for row, n, mean in zip(*estimate.means(), strict=True):
            key = row.tobytes()
            place = self._places.get(key)
            if place is None:
                place = self._places[key] = int(np.argmin(np.square(self.rows - row).sum(axis=1)))
            told[place] = (told[place] * self.counts[place] + mean * n) / (self.counts[place] + n)
            self.counts[place] += n
        self.means = self.model.fit(self.counts, told / self._task.noise_std)
        self.members = np.argsort(-self.means, kind="stable")[: self._task.m]

    def nearest(self, w: Array) -> Nearest:
        """Return the pair with the smallest distance for these weights (K,)."""
        slack = self._task.epsilon / self._task.noise_std
        return self.model.nearest(w, self.means, self.members, slack)


@final
class MisLidChooser(Chooser):
    """Rounds of the game; in a batch the fit stays and the learner moves on."""

    def __init__(self, task: Task, gains: Gains, bound: float, *, per_answer: bool, floor: float, g_mix: float) -> None:
        super().__init__(task, floor=floor, g_mix=g_mix)
        self._gains, self._bound = gains, bound / task.noise_std
        self._fit = Fit(task)
        self._per_answer, self._learners = per_answer, dict[tuple[int, ...], AdaHedge]()
        self._rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(1,)))

    def look(self, context: SamplerContext) -> None:
        """Take in the results so far."""
        super().look(context)
        self._fit.read(context.estimate)

    def choose(self) -> int:
        """Play a round and return an arm drawn from the weights, unless another must be explored."""
        fit = self._fit
        answer = tuple(sorted(fit.members.tolist())) if self._per_answer else ()
        learner = self._learners.setdefault(answer, AdaHedge(len(fit.arms)))
        weights = learner.weights
        w = (1.0 - JITTER) * weights + JITTER / len(weights)
        self._drawn = int(fit.arms[np.searchsorted(np.cumsum(w), self._rng.random() * w.sum(), side="right")])
        learner.feed(-self.gains(np.abs(fit.means - fit.nearest(w).means)))
        return super().choose()

    def pick(self) -> int:
        """Return the arm drawn."""
        return self._drawn

    def gains(self, apart: Array) -> Array:
        """Return the gains (K,) of arms whose mean nature moved so far."""
        log_t = math.log(max(self._asked.n, 2))
        if self._gains == "empirical":
            gains = 0.5 * apart * apart
        else:
            unsure = self.unsure(log_t)
            optimistic = self._gains == "optimistic"
            gains = 0.5 * np.square(apart + np.sqrt(unsure)) if optimistic else apart * apart + unsure
        capped: Array = np.minimum(gains, log_t)
        return capped

    def unsure(self, log_t: float) -> Array:
        """Return c (K,)."""
        fit, asked, misfit = self._fit, self._asked, self._task.misfit / self._task.noise_std
        counts = np.maximum(asked.counts[fit.arms], 1e-10)
        n_arms = len(counts)
        B = unstructured_price(n_arms, math.log(5.0 * math.e) + 3.0 * log_t, log_t)
        leverage = np.einsum("ij,jk,ik->i", fit.rows, asked.A_inv, fit.rows)
        of_fit = 8.0 * misfit**2 + 2.0 * log_t * leverage
        unsure: Array = np.minimum(np.minimum(2.0 * B / counts, 4.0 * self._bound**2), of_fit)
        return unsure


def unstructured_price(n_arms: int, log_risk: float, log_t: float) -> float:
    """Return 2 K W(log_risk / (2 K) + log(8 e K log t) / 2), W(y) = -W_{-1}(-exp(-y)) for y >= 1, about y + log y."""
    y = log_risk / (2.0 * n_arms) + 0.5 * math.log(8.0 * math.e * n_arms * max(log_t, 1e-300))
    y = max(y, 1.0)
    return -2.0 * n_arms * float(scipy.special.lambertw(-math.exp(-y), k=-1).real)


@final
@dataclass(frozen=True, kw_only=True)
class DistanceRule(Rule):
    """Stop when the distance to means with another answer exceeds a threshold.

    Guarantee: "published" with that price, else heuristic.

    Args:
        price: the threshold, "heuristic" or "published".
    """

    price: Literal["heuristic", "published"]
    supports_top_m: ClassVar[bool] = True
    takes_misfit: ClassVar[bool] = True
    name: str = "mislid"

    @property
    def guarantee(self) -> Guarantee:  # type: ignore[override]
        """Guarantee of the threshold."""
        return self.price

    def start(self, task: Task) -> "DistanceState":
        """Return a fresh state."""
        return DistanceState(task, self)


@final
class DistanceState(RuleState):
    """The distance on one task; statistic and threshold are in nats."""

    decides_after_pulls = True

    def __init__(self, task: Task, rule: DistanceRule) -> None:
        super().__init__(task)
        self._rule, self._fit, self._seen = rule, Fit(task), -1
        arms = task.rows.arms
        largest = float(arms.top_quadratic(np.eye(arms.dim), 1)[1][0])
        self._floor = 2.0 * largest * task.rows.metric()

    def _team(self, estimate: LeastSquares) -> IntArray:
        self._fit.read(estimate)
        team: IntArray = self._fit.arms[self._fit.members]
        return team

    def leader(self, estimate: LeastSquares) -> int:
        """Return the arm with the largest fitted mean."""
        return int(self._team(estimate)[0])

    def leaders(self, estimate: LeastSquares) -> tuple[int, ...]:
        """Return the arms with the m largest fitted means."""
        return tuple(self._team(estimate).tolist())

    def after_pull(self, estimate: LeastSquares) -> Verdict:
        """Check the rule."""
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict."""
        threshold = self.price(estimate)
        if not estimate.has_theta:
            return Verdict(threshold=threshold)
        first, *others = self._team(estimate).tolist()
        nearest = self._fit.nearest(self._fit.counts)
        return Verdict(
            stopped=nearest.distance > threshold,
            leader=first,
            others=tuple(others),
            rival=int(self._fit.arms[nearest.pair[1]]),
            statistic=nearest.distance,
            threshold=threshold,
        )

    def price(self, estimate: LeastSquares) -> float:
        """Return the threshold now."""
        t, dim, delta = max(estimate.n_pulls, 2), estimate.dim, self.task.delta
        if self._rule.price == "heuristic":
            return math.log((1.0 + math.log(t)) / delta)
        n_arms, misfit = len(self._fit.arms), self.task.misfit / self.task.noise_std
        price = unstructured_price(n_arms, math.log(2.0 * math.e / delta), math.log(t))
        L = math.log(2.0 / delta)
        noise = 1.0 + L + (1.0 + 1.0 / L) * 0.5 * dim * math.log1p(0.5 * t * L / dim)
        linear = 0.5 * (4.0 * math.sqrt(t) * misfit + math.sqrt(2.0 * noise)) ** 2
        if linear < price and np.linalg.eigvalsh(estimate.A - self._floor)[0] >= 0.0:
            return linear
        return price
