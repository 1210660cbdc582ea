"""The betting rule: the bets of an interval are paid out when it closes.

Reference: `core.wealth` has the wealth, its proof, and what the proof asks of whoever uses it; `core.betting` the bets.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from surepick.arms.view import Task
from surepick.core.betting import Sizes
from surepick.core.block import Block
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, BoolArray
from surepick.core.misfit.replay import Replay
from surepick.core.team import Team
from surepick.core.thresholds import Guarantee
from surepick.core.wealth import Seats, Wealth
from surepick.errors import InvalidInput
from surepick.stopping.protocol import Rule, RuleState, Verdict


@final
@dataclass(frozen=True, kw_only=True)
class Betting(Rule):
    """Reject a candidate for good when the wealth bet against it reaches 1/delta; stop when one is left.

    Guarantee: proved, for pulls that come in intervals fixed in advance. Its price has neither the dimension nor the
    number of candidates in it. A block of fewer pulls than dimensions tells it little.

    Args:
        sizes: how large bets are. "shrunk" learns a prior for the gaps and splits its stakes; "plain" stakes all on the
            estimate (with the longer intervals and the larger share of the G-optimal design that suit it); "capped"
            wins no more than is needed, which is proved for exactly Gaussian noise whose standard deviation is
            exactly `noise_std`, and for nothing else.
    """

    sizes: Sizes = "shrunk"
    needs_fixed_intervals: ClassVar[bool] = True
    opens_ahead: ClassVar[bool] = True
    takes_unknown_noise: ClassVar[bool] = True
    takes_misfit: ClassVar[bool] = True
    takes_unequal_noise: ClassVar[bool] = True
    takes_several: ClassVar[bool] = True
    pays_for_determinants: ClassVar[bool] = False
    always_eliminates: ClassVar[bool] = True
    pays_real_variances: ClassVar[bool] = True
    name: str = field(default="betting", init=False)
    guarantee: Guarantee = field(default="proved", init=False)

    def __post_init__(self) -> None:
        if self.sizes not in ("shrunk", "plain", "capped"):
            raise InvalidInput(f"`sizes` must be 'shrunk', 'plain' or 'capped', got {self.sizes!r}.")
        if self.sizes != "shrunk":
            object.__setattr__(self, "name", f"betting-{self.sizes}")

    def noise_law(self, *, is_known: bool) -> str:
        """The cap is paid for by the exact law."""
        return "follows exactly a normal law" if self.sizes == "capped" else super().noise_law(is_known=is_known)

    def has_p_value(self, *, is_noise_known: bool) -> bool:
        """The smallest wealth is an e-value, see `core.wealth.Accounts.log_wealth`."""
        return True

    @property
    def usual_ratio(self) -> float:
        """Smaller bets go with shorter blocks."""
        return 1.15 if self.sizes == "plain" else 1.08

    @property
    def usual_g_mix(self) -> float:
        """A shrunk estimate needs less exploration."""
        return 0.1 if self.sizes == "plain" else 0.05

    def start(self, task: Task) -> "BettingState":
        """Return a fresh state."""
        if task.given_noise_std is None and self.sizes == "capped":
            raise InvalidInput("`noise_std` must be given for capped bets, which its exact value pays for.")
        if task.reward_range is not None and self.sizes == "capped":
            raise InvalidInput('capped bets are for Gaussian noise, got bounded rewards; use stopping="betting".')
        return BettingState(task, self.sizes)


@final
class BettingState(RuleState):
    """The betting rule at work on one set of candidates."""

    counts_every_result = False

    def __init__(self, task: Task, sizes: Sizes) -> None:
        super().__init__(task)
        self._options: dict[str, Any] = {
            "delta": task.delta,
            "noise_std": task.given_noise_std,
            "bounds": task.reward_range,
            "epsilon": task.epsilon,
            "misfit": task.misfit,
            "sizes": sizes,
            "level": task.rows.level,
        }
        self._wealth: Team | Seats | Wealth
        if task.m > 1:
            self._wealth = Team(task.rivals, m=task.m, **self._options)
        else:
            self._wealth = (Seats if task.epsilon > 0.0 else Wealth)(task.rivals, **self._options)

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate that leads now: the best estimate among those not rejected."""
        return self._wealth.leading(estimate.theta)

    def leaders(self, estimate: LeastSquares) -> tuple[int, ...]:
        """Return the leader, or the m best estimates among those not rejected."""
        wealth = self._wealth
        return tuple(wealth.members(estimate.theta)) if isinstance(wealth, Team) else (self.leader(estimate),)

    def alive(self, leader: int) -> BoolArray:
        """Return which candidates (K,) the leader has yet to be separated from."""
        return self._wealth.alternatives(leader)

    def survivors(self, leader: int) -> BoolArray:
        """Return the candidates (K,) that are not rejected."""
        return self._wealth.survivors(leader)

    def begin(self, estimate: LeastSquares, X: Array, rewards: Array) -> Verdict:
        """Start the bets from what was told before."""
        self._wealth.begin(X, rewards)
        return self.exact(estimate)

    def after_interval(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Pay out the bets from the interval's own pulls, and say where things stand."""
        self._wealth.settle(block)
        return self.exact(estimate)

    def n_hidden(self, estimate: LeastSquares) -> int:
        """Return how many candidates blocks like the last one cannot reject."""
        return self._wealth.n_hidden(estimate.theta) if estimate.has_theta else 0

    def replay(self, blocks: Iterable[Block]) -> Replay:
        """Return the bets of a learner with these blocks, to be paid for any misfit; without slack alone."""
        if self.task.epsilon > 0.0 or self.task.m > 1:
            raise InvalidInput("a replay needs epsilon = 0 and m = 1; no proof says what other accounts bear together.")
        return Replay(Wealth(self.task.rivals, weighs_arms=True, **self._options), blocks)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Say where things stand after the last interval."""
        wealth = self._wealth
        if not estimate.has_theta:
            return Verdict(threshold=wealth.log_price)
        leader, *next_best = leaders = self.leaders(estimate)
        # The answer has rejected everyone else; a wealth that was never touched is 0.
        others = wealth.log_wealth_of(leaders)
        rival = int(np.argmin(others))
        return Verdict(
            stopped=wealth.answer is not None,
            leader=leader,
            others=tuple(next_best),
            rival=rival,
            statistic=float(others[rival]),
            threshold=wealth.log_price,
        )
