"""The learner: the only owner of mutable state; asks for arms, takes results, decides.

A learner is a fold over its log: the same log gives the same state bit for bit. It knows no clock, no file and no
global random state. Time runs in *intervals*: when one opens, the sampler plans from all results so far, and from then
on its arms depend on no reward. When all its asks are told, and all intervals before it are settled, the rule judges
it by its own results and by what was known before: the results of earlier intervals, and unsolicited ones told before
it opened. So a batch within an interval is exact, and workers that never wait cost no more than old news.

A result that was told can be corrected or declared void. The state is then what the log gives with the corrected
values, where arms and intervals stay as they happened (docs/guarantee.md, "Corrections").
"""

import math
import reprlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, Literal, Protocol, final

import numpy as np
from numpy.typing import ArrayLike

from surepick import stopping
from surepick.algorithms import as_algorithm
from surepick.arms.view import Task, as_rows
from surepick.arms.whitening import WhitenedArms
from surepick.core.block import Block
from surepick.core.checks import (
    check_count,
    check_delta,
    check_epsilon,
    check_misfit,
    check_number,
    check_seed,
)
from surepick.core.estimate import LeastSquares
from surepick.core.identity import written
from surepick.core.levels import ArmLevels
from surepick.core.linalg import Array, BoolArray, IntArray, one_blas_thread
from surepick.core.noise import is_contradicted, noise_estimate, noise_to_assume, residuals
from surepick.core.rows import row_digest
from surepick.core.thresholds import Guarantee
from surepick.errors import InvalidInput
from surepick.learning.given import Rewards, arms_given, check_several, check_suited, costs_given, views
from surepick.learning.history import Event, History
from surepick.learning.ledger import Interval, Ledger
from surepick.learning.margin import Recorder
from surepick.learning.model import Model, ModelCheck, Pulls, check_allowed, check_arms, enough_checks
from surepick.learning.result import Result, result_of
from surepick.sampling.protocol import Apportions, Sampler, Situation
from surepick.sampling.sub_blocks import SubBlocks
from surepick.stopping.protocol import Rule, Verdict

Arm = Any
"""What users call an arm: a row number or a name, or a vector (d,) of a set of vectors."""

MOST_ASKS = 10_000_000
"""Arms in one batch; more do not fit into memory, and nobody measures so many before looking."""

PATH_STEP = 1.05
"""Evidence is noted when the pulls have grown by this factor: a result has its path in a few dozen steps."""


class Algorithm(Protocol):
    """A composition of rules: what a file of `surepick.algorithms` provides.

    One that can do without a list of arms says so by `takes_vectors = True`, one that can do without a list of
    candidates beside listed arms by `takes_vector_candidates = True`; one whose sampling needs `noise_std` by
    `plans_with_noise = True`; one that can plan for the m best by `takes_several = True`, for prices by
    `takes_costs = True`.
    """

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the parts, ready to run."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a learner says now."""

    best: Arm | None
    """The leading candidate, a row number or a vector; the answer once stopped. None before the pulled arms span. The
    list of the m best, the best first, if more than one is sought."""
    stopped: bool
    evidence: float
    """What the rule has against the alternatives, to be compared with `target`; in the unit of `unit`."""
    target: float
    rule: str
    guarantee: Guarantee
    n_pulls: int
    unit: str = "nats"
    exact: bool = True
    """Whether the evidence is the set's own; else a lower bound on it, so that a stop comes later at worst."""


@final
@dataclass(frozen=True, slots=True)
class Ask:
    """One measurement asked for."""

    number: int
    """What `tell` and `fail` may name it by; one that failed keeps its number when it is made again."""
    arm: Arm


@final
class Learner:
    """One algorithm at work on one set of arms.

    Args:
        algorithm: by name, or as an object.
        arms: what may be pulled.
        delta: risk.
        noise_std: sub-Gaussian scale of the noise, or a list of one for each arm; None: Gaussian noise of a level that
            is learnt on the way.
        noise: if it is learnt, whether its level is the "same" for all arms, or differs: "per-arm". Betting alone can
            do with that.
        reward_range: (lo, hi) between which every reward lies, in the place of `noise_std`: all that is then assumed of
            the noise. `noise_std` becomes (hi - lo)/2, for rules other than betting.
        rewards: "binary" for rewards that are 0 or 1, False or True: `reward_range` (0, 1).
        epsilon: slack.
        misfit: how far the mean of every arm may be off its linear fit; for the betting rule.
        m: how many of the best are sought.
        costs: what a pull of each arm costs (K,); None: all the same, 1.
        budget: what may be spent in all on asks, in the unit of `costs`; then there are no further asks.
        candidates: what is compared, if not the arms.
        model: "linear" in the features, or "unstructured": one mean per arm.
        seed: of whatever the algorithm draws.
        options: of the algorithm, if it is named.
    """

    _composition: Algorithm

    @one_blas_thread
    def __init__(  # noqa: PLR0913 - every argument is an option of its own
        self,
        algorithm: str | Algorithm,
        arms: Any,
        *,
        delta: float = 0.05,
        noise_std: float | ArrayLike | None = None,
        noise: Literal["same", "per-arm"] = "same",
        reward_range: tuple[float, float] | None = None,
        rewards: Literal["binary"] | None = None,
        epsilon: float = 0.0,
        misfit: float = 0.0,
        m: int = 1,
        costs: ArrayLike | None = None,
        budget: float | None = None,
        candidates: Any = None,
        model: Literal["linear", "unstructured"] = "linear",
        seed: int = 0,
        **options: Any,
    ) -> None:
        self._composition, self.algorithm = as_algorithm(algorithm, options)
        self._rewards, self.noise = Rewards.of(noise_std, reward_range, rewards, noise), noise
        self.noise_std, self.reward_range = self._rewards.noise_std, self._rewards.reward_range
        self.is_binary = self._rewards.is_binary
        self.delta, self.epsilon, self.seed = check_delta(delta), check_epsilon(epsilon), check_seed(seed)
        self.misfit = check_misfit(misfit)
        self.arms, self.model = arms_given(arms, model, candidates), model
        self.m, self.costs, self.budget = check_count("m", m, least=1), costs_given(costs, self.arms), budget
        if budget is not None:
            self.budget = check_number("budget", budget, needed="a positive number", allowed=lambda x: x > 0.0)
        seen = views(self.arms, candidates, self.seed, self._rewards.stds)
        self.white, self.unscaled, self.candidates = seen.measured, seen.arms, seen.candidates
        self.task = Task(
            arms=self.white,
            candidates=self.candidates,
            delta=self.delta,
            given_noise_std=self.noise_std,
            epsilon=self.epsilon,
            seed=self.seed,
            reward_range=self.reward_range,
            misfit=self.misfit,
            m=self.m,
            costs=None if self.costs is None or np.ptp(self.costs) == 0.0 else self.costs,
        )
        check_suited(self.algorithm, self._composition, self.task)
        self._begin()

    def _begin(self) -> None:
        self._sampler, self._rule = self._composition.compose(self.task)
        if not (self.candidates.is_listed or self._rule.takes_vectors):
            suited = ", ".join(map(repr, stopping.names(vectors=True)))
            raise InvalidInput(
                f"`stopping` must be one of {suited} on {self.candidates.description}, got {self._rule.name!r}."
            )
        if self.noise_std is None and not self._rule.takes_unknown_noise:
            raise InvalidInput(
                f"`noise_std` must be given for stopping={self._rule.name!r}, which has no proof without it; or use "
                '"betting" or "evidence", which learn it.'
            )
        check_allowed(self.task, self._rule, self.model, self.noise)
        check_several(self.task, self._rule)
        if self.budget is not None and self.noise == "per-arm":
            raise InvalidInput('`budget` cannot end a plan that is repeated; leave it out beside noise="per-arm".')
        if self.noise == "per-arm":
            if not self._rule.takes_unequal_noise:
                raise InvalidInput(
                    f'noise="per-arm" has no proof for stopping={self._rule.name!r}; use "betting", or give noise_std '
                    "for each arm."
                )
            self._sampler = SubBlocks(self._sampler, self.white.dim)
        self._log: list[Event] = []
        # What a replay with corrected values needs beside the log: how long the interval is that opened before the ask
        # of this number, and how many repetitions of a plan it has; and by the number of a measurement its corrected
        # value, None if it is void.
        self._plans: dict[int, tuple[int, int]] = {}
        self._corrected: dict[int, float | None] = {}
        self._rows: dict[int, Array] = {}
        self._drawn: deque[int] = deque()  # arms of the newest interval, if it had to be priced in advance
        self._spent, self._has_ended = 0.0, False  # what all asks so far cost, and whether the last is planned
        # Pulls when the last two intervals opened, and how the designs before wanted them apportioned.
        self._plans_so_far: deque[tuple[int, Mapping[int, float]]] = deque(maxlen=2)
        self._start()

    def _start(self) -> None:
        """Know nothing; the sampler keeps its plans."""
        self._state = self._rule.start(self.task)
        self.estimate = LeastSquares(self.white.dim, self._state.regularizers)
        self._ledger = Ledger(opens_ahead=self._rule.opens_ahead and not self._rule.is_fixed_design)
        # What is known before the oldest interval not settled, and unsolicited results that it may not know yet, each
        # with the number of intervals opened before it was told.
        self._past = LeastSquares(self.white.dim)
        self._levels = ArmLevels(self.white.dim) if self.noise == "per-arm" else None
        self._unsolicited: deque[tuple[int, int, float]] = deque()
        self._verdict: Verdict | None = None
        self._looked: Verdict | None = None
        self._is_own = True  # no unsolicited result so far
        self._n_told = 0
        self._told: list[tuple[int, int, float]] = []  # number, arm and reward of results that count
        self._model = Model(self.white, self.noise_std, is_watched=self._levels is None)
        self._checks: deque[int] = deque()  # arms of check pulls, not yet asked for
        self._path: list[tuple[int, float, float]] = []

    @cached_property
    def identity(self) -> str:
        """What the learner's state depends on besides the events: algorithm, options, and the content of the arms."""
        own = "" if self.candidates is self.unscaled else f" for candidates {self.candidates.identity()}"
        stds = self._rewards.stds
        unequal = "" if self.noise == "same" else f"noise={self.noise}, "
        noise = repr(self.noise_std) if stds is None else f"sha256 {row_digest([stds]).hex()}"
        bounds = "" if self.reward_range is None else f"reward_range={self.reward_range!r}, "
        epsilon = f"{self.epsilon!r}, misfit={self.misfit!r}" if self.misfit > 0.0 else f"{self.epsilon!r}"
        epsilon += f", m={self.m}" if self.m > 1 else ""
        epsilon += "" if self.costs is None else f", costs=sha256 {row_digest([self.costs]).hex()}"
        epsilon += "" if self.budget is None else f", budget={self.budget!r}"
        return (
            f"{self.algorithm} {written(self._composition)} on arms {self.unscaled.identity()}{own}, "
            f"delta={self.delta!r}, {bounds}{unequal}noise_std={noise}, epsilon={epsilon}, seed={self.seed}"
        )

    @property
    def given_noise_std(self) -> float | Array | None:
        """What was given: one number, one for each arm (K,), or None. `noise_std` is 1, in units of these, if many."""
        return self.noise_std if self._rewards.stds is None else self._rewards.stds

    @property
    def bounding_noise_std(self) -> float | None:
        """The scale for intervals: what was given; None if it is one level that is learnt.

        Infinite where nothing is proved: levels are many, or means are allowed to be off their linear fit.
        """
        return math.inf if self.noise == "per-arm" or self.misfit > 0.0 else self.noise_std

    @property
    def log(self) -> Sequence[Event]:
        """Everything that happened, in order; the first event says whose log it is."""
        return (("start", self.identity), *self._log)

    @property
    def history(self) -> History:
        """The same, read as the (arm, reward) pairs that count, with corrected values."""
        return History(self.log)

    @property
    def pending(self) -> Mapping[Any, int]:
        """Asks that are neither told nor failed, per arm (by the numbers of the vector where arms are vectors)."""
        return self._by_arm(self._ledger.pending)

    @property
    def n_pending(self) -> int:
        """Their number."""
        return self._ledger.pending.total()

    @property
    def n_planned(self) -> int:
        """Asks left in the newest interval, failed ones included: so large a batch loses nothing. 0: the next plans."""
        return self._ledger.n_planned

    @property
    def counts(self) -> Mapping[Any, int]:
        """Results per arm, by row number; by the numbers of the vector where arms are vectors."""
        return self._by_arm(self.estimate.counts)

    def _by_arm(self, counts: Mapping[int, int]) -> dict[Any, int]:
        return {self.white.key_of(number): n for number, n in counts.items()}

    @property
    def theta(self) -> Array:
        """Estimate in the user's coordinates; raises `NotEnoughData` before the pulled arms span."""
        return self.white.theta_to_user(self.estimate.theta)

    def next_arms(self, n: int = 1) -> list[Arm]:
        """Return the next n arms to pull, in order: row numbers, or vectors (d,) of a set of vectors.

        Always n, unless a `budget` ends: then fewer, and none once it is spent. Asks beyond the interval open the next
        one, planned from the results so far: many workers need not wait.
        """
        return [self.white.arm_of(arm) for _, arm in self._ask(n)]

    def next_asks(self, n: int = 1) -> list[Ask]:
        """Return the same with the numbers by which `tell` and `fail` may name them."""
        return [Ask(number, self.white.arm_of(arm)) for number, arm in self._ask(n)]

    def _ask(self, n: int) -> list[tuple[int, int]]:
        """Return the numbers of the next n asks and of their arms."""
        if not (type(n) is int and n >= 1):
            n = check_count("n", n, least=1)
        if n > MOST_ASKS:
            raise InvalidInput(f"`n` must be at most {MOST_ASKS:,}, got {n:,}; ask for further arms when needed.")
        asks: list[tuple[int, int]] = []
        ledger = self._ledger
        while len(asks) < n:
            if ledger.needs_interval and not (self.stopped or self._has_ended):
                self._open()
            if self.is_spent and not self._checks:
                break
            n_before = ledger.n_asked
            asks.append(ledger.ask(self._draw))
            if ledger.n_asked > n_before:
                self._spent += self.cost_of(asks[-1][1])
        if not asks:
            return []
        self._log.append(("ask", tuple([self.white.key_of(arm) for _, arm in asks])))
        return asks

    def _draw(self) -> int:
        """Return the next arm: a check pull, one that was priced in advance, or what the sampler says."""
        planned = self._checks or self._drawn
        return planned.popleft() if planned else self._sampler.next()

    def cost_of(self, number: int) -> float:
        """Return what a pull of the arm with this number costs."""
        return 1.0 if self.costs is None else float(self.costs[number])

    @property
    def cost(self) -> float:
        """What all results so far have cost; their number, if no costs are given."""
        return sum(n * self.cost_of(number) for number, n in self.estimate.counts.items())

    @property
    def is_spent(self) -> bool:
        """Whether the budget allows no further ask; those planned and those that failed are still made."""
        return self._has_ended and not self._ledger.n_planned

    def _within_budget(self, length: int) -> int:
        """Draw the arms of an interval, as many as the budget allows; to its end if little would be left after them."""
        assert self.budget is not None
        left, least, drawn = self.budget - self._spent, self._rule.min_block(self.task), self._drawn
        while (price := self.cost_of(arm := self._sampler.next())) <= left:
            drawn.append(arm)
            left -= price
            # What would be too little for an interval of its own is spent in this one: bets are on whole intervals.
            if len(drawn) >= length and left >= least * (self.budget - self._spent - left) / len(drawn):
                return len(drawn)
        self._has_ended = True
        return len(drawn)

    @one_blas_thread
    def _open(self) -> None:
        self._look_back()
        estimate = self.estimate
        theta = estimate.theta if estimate.has_theta else None
        leaders: tuple[int, ...] = ()
        alive = None
        if theta is not None and self.candidates.is_listed:  # a fixed design asks nobody who leads
            leaders = self._state.leaders(estimate)
            alive = None if self.stopped else self._state.alive(leaders[0])
        outstanding = self._ledger.outstanding
        if isinstance(self._sampler, Apportions):
            self._plans_so_far.append((estimate.n_pulls, self._sampler.planned()))
        length = self._sampler.open(
            Situation(
                n_pulls=estimate.n_pulls,
                n_asked=estimate.n_pulls + outstanding.total(),
                theta=theta,
                leaders=leaders,
                alive=None if alive is None else alive.copy(),  # a plan must not see what is refuted later
                estimate=estimate,
                pending=outstanding,
                stds=self._relative_stds(),
            )
        )
        n_parts = self._sampler.n_parts if isinstance(self._sampler, SubBlocks) else 1
        if self.budget is not None and not (length := self._within_budget(length)):
            return
        self._plans[self._ledger.n_asked] = length, n_parts
        self._ledger.open(length, n_parts=n_parts)

    def _relative_stds(self) -> Array | None:
        """Return how noisy each arm (K,) seems beside the level of all results; None if arms are alike, or unknown."""
        known = None if self._levels is None else self._levels.now
        if known is None or not self._noise() > 0.0:
            return None
        return known.of(np.arange(self.white.n_arms)) / self._noise()

    def _look_back(self) -> None:
        """Before the first interval opens, let the rule take in what was told: nobody had asked for it."""
        # Where arms differ in noise by nobody knows how much, that has no proof.
        if self._ledger.n_opened == 0 and self.estimate.n_pulls > 0 and self.noise == "same":
            pulls = self._pulls()
            self._decide(self._state.begin(self.estimate, pulls.X, pulls.rewards))

    def tell(self, arm: Arm, reward: float, *, ask: int | None = None) -> None:
        """Take in a result, asked for or not.

        Args:
            arm: what was measured.
            reward: what came out.
            ask: number of the ask it answers. Without it, the oldest ask of the arm that has no result: that is
                right if which of them is answered first does not depend on the values, as with one worker, or
                with workers that are as slow for small values as for large ones.
        """
        number = self.white.number_of(arm)
        reward = self._rewards.checked("reward", reward, number)
        answered = self._ledger.find(number, ask)
        if answered is None and self._rule.is_fixed_design and not self.white.is_listed:
            raise InvalidInput(
                f"stopping={self._rule.name!r} rests on its own fixed design and cannot use an unsolicited result, "
                f'got one of arm {self.white.key_of(number)}; use stopping="evidence" for such results.'
            )
        event = ("tell", self.white.key_of(number), reward)
        self._log.append(event if ask is None else (*event, ask))
        self._take_in(number, reward, answered, is_named=ask is not None)

    def _take_in(self, number: int, reward: float | None, answered: int | None, *, is_named: bool) -> None:
        """Learn from a result, None if it is void, and decide."""
        n = self._n_told = self._n_told + 1
        if reward is not None:
            reward = self._rewards.scaled(number, reward)
            self._told.append((n - 1, number, reward))
            self.estimate.update(self._row(number), reward, number)
            self._is_own = self._is_own and (self.stopped or answered is not None)
        has_place = answered is not None and self._ledger.tell(answered, reward, is_named=is_named)
        if reward is not None and not has_place:
            self._unsolicited.append((self._ledger.n_opened, number, reward))
        # A proof for arms fixed in advance covers the first n asks as a whole, not those that came in first.
        is_due = self._state.decides_after_pulls and (self._ledger.is_settled or not self._rule.is_fixed_design)
        if is_due and not self.stopped:
            self._decide(self._state.after_pull(self.estimate))
        for interval in self._ledger.settled():
            self._close(interval)

    def _row(self, number: int) -> Array:
        x = self._rows.get(number)
        if x is None:
            x = self._rows[number] = self.white.gather([number])[0]
        return x

    def _features(self, numbers: Sequence[int]) -> Array:
        return np.array([self._row(number) for number in numbers])

    def fail(self, arm: Arm, *, ask: int | None = None) -> None:
        """Give up a pending ask of an arm, the oldest unless its number is named; it will be asked for again.

        Any reason will do but the value itself: a broken plate, a time limit, even what other measurements said. A
        value that was seen must be told. An arm that cannot be measured at all does not belong among the arms.
        """
        number = self.white.number_of(arm)
        name = self.white.key_of(number)
        if not self._ledger.fail(number, ask):
            named = "" if ask is None else f" with the number {ask}"
            raise InvalidInput(
                f"arm {name} has no pending ask{named} that could fail; pending are {sorted(self.pending)}."
            )
        self._log.append(("fail", name) if ask is None else ("fail", name, ask))

    def void(self, n: int, *, reason: str = "") -> None:
        """Take a result back: the sample was mislabelled, the instrument was out of order.

        Everything is worked out again as if the measurement had not counted, while arms and intervals stay as they
        happened. A verdict that no longer holds is withdrawn: `stopped` is False again, and sampling goes on.

        Valid if which results are void or corrected has nothing to do with the noise of their own interval or of later
        ones. So never because of the value, of another value of the same interval, or of what came later: dropping
        outliers makes wrong answers, more of them than delta. (docs/guarantee.md, Theorem 23.)

        Args:
            n: number of the measurement, 0 for the first that was told: its place in `history` as long as nothing is
                void, and `history.numbers` has it always. Those void keep their numbers.
            reason: for the log.

        Raises:
            InvalidInput: there is no such measurement, it is void already, or the rule cannot do without it. Nothing
                has changed then.
        """
        self._correct("void", n, None, reason)

    def correct(self, n: int, value: float, *, reason: str = "") -> None:
        """Replace the value of a result that was told wrong, as `void` does and on the same condition.

        The wrong value may have come about in any way: it has only steered what was measured next.

        Args:
            n: number of the measurement, as for `void`.
            value: what was measured in truth. A result may be corrected again; then the last value counts.
            reason: for the log.
        """
        self._correct("correct", n, value, reason)

    def _correct(self, kind: Literal["void", "correct"], n: int, value: float | None, reason: str) -> None:
        n, told = check_count("n", n, least=0), [event[1] for event in self._log if event[0] == "tell"]
        if n >= len(told):
            raise InvalidInput(
                f"`n` must be the number of a measurement that was told, below {len(told)}, got {n}; they are numbered "
                "from 0 in the order of `history`."
            )
        said: tuple[float, ...] = ()
        if kind == "correct":
            value = self._rewards.checked("value", value, self.white.number_of(told[n]))
            said = (value,)
        if self._corrected.get(n, math.nan) is None:
            raise InvalidInput(f"measurement {n} is void already; tell what was measured instead as a new result.")
        if not isinstance(reason, str):
            raise InvalidInput(f"`reason` must be a text, got {reprlib.repr(reason)}.")
        if not self._rule.takes_corrections:
            raise InvalidInput(
                f"stopping={self._rule.name!r} judges every result by the plan it was asked for, all of them together, "
                'and has no proof after a correction; use another rule, such as "evidence", with list(history).'
            )
        before = dict(self.__dict__)
        self._corrected = {**self._corrected, n: value}
        self._log = [*self._log, (kind, n, *said, *([reason] if reason else ()))]
        try:
            self._start()
            self._relive()
        except BaseException:  # interrupted: all of it or nothing
            self.__dict__.update(before)
            raise

    def _relive(self) -> None:
        """Go through the own log, from the start."""
        numbers = count()
        for event in self._log:
            self._happen_again(event, numbers)

    def _happen_again(self, event: Event, numbers: Iterator[int]) -> None:
        """Go through an event of the own log with corrected values; what the sampler said then is not asked again."""
        ledger = self._ledger
        match event:
            case ("ask", arms):
                for number in map(self.white.number_of, arms):
                    if ledger.needs_interval and ledger.n_asked in self._plans:
                        self._look_back()
                        length, n_parts = self._plans[ledger.n_asked]
                        ledger.open(length, n_parts=n_parts)
                    ledger.ask(self._checks.popleft if self._checks else lambda drawn=number: drawn)  # type: ignore[misc]
            case ("tell", arm, reward, *ask):
                number = self.white.number_of(arm)
                answered = ledger.find(number, ask[0] if ask else None)
                self._take_in(number, self._corrected.get(next(numbers), reward), answered, is_named=bool(ask))
            case ("fail", arm, *ask):
                ledger.fail(self.white.number_of(arm), ask[0] if ask else None)
            case ("audit", n):
                self._plan_checks(n)

    @one_blas_thread
    def _close(self, interval: Interval) -> None:
        """Let the rule judge an interval, and the model be watched."""
        arms, results = interval.pulls
        if not arms:
            return  # all of it is void
        numbers, X, rewards = np.array(arms), self._features(arms), np.array(results)
        self._learn_before(interval)
        self._model.settle(numbers, X, rewards)
        self._model.n_checks += len(arms) if interval.is_check else 0
        if not (self.stopped or self._state.decides_after_pulls):
            self._judge(interval, numbers, X, rewards)
        self._model.look_for_slips(self.estimate, self._pulls, now=self.stopped)

    def _learn_before(self, interval: Interval) -> None:
        """Know the unsolicited results that were told before the interval opened; its bets may."""
        unsolicited, told = self._unsolicited, []
        while unsolicited and unsolicited[0][0] < interval.number:
            told.append(unsolicited.popleft()[1:])
        if told:
            arms, rewards = np.array([arm for arm, _ in told]), np.array([reward for _, reward in told])
            X = self._features(arms.tolist())
            self._past.update_many(X, rewards)
            self._model.learn(arms, X, rewards)
            if self._levels is not None:
                self._levels.learn(arms, X, rewards)

    def _pulls(self) -> Pulls:
        """Return all results that count, in the order in which they were told."""
        numbers, arms, rewards = zip(*self._told, strict=True)
        return Pulls(numbers, arms, self._features(arms), np.array(rewards))

    def _judge(self, interval: Interval, arms: IntArray, X: Array, rewards: Array) -> None:
        """Let the rule decide by an interval's own results and by what was known before."""
        past, levels = self._past, self._levels
        if levels is not None:
            block = self._repeated(interval, levels)
            levels.learn(arms, X, rewards)
        elif past.has_theta:
            left = residuals(past) if self.noise_std is None else None
            block = Block.of(X, rewards, past.theta, past.A_inv.copy(), left, arms)
        else:
            block = Block.of(X, rewards, np.zeros(self.white.dim), arms=arms)
        if block is not None:
            self._decide(self._state.after_interval(self.estimate, block))
        past.update_many(X, rewards)

    def _repeated(self, interval: Interval, levels: ArmLevels) -> Block | None:
        """Return the repetitions of an interval's plan that are whole; None if there are none."""
        arms, parts = interval.repetitions
        if not parts:
            return None
        return levels.block(np.array(arms), self._features(arms), np.array(parts))

    def _decide(self, verdict: Verdict | None) -> None:
        if verdict is not None:
            self._verdict, self._looked = verdict, None
            n, last = self.estimate.n_pulls, self._path[-1][0] if self._path else 0
            if verdict.is_exact and verdict.leader is not None and (verdict.stopped or n >= PATH_STEP * last):
                self._path.append((n, verdict.statistic, verdict.threshold))

    @property
    def path(self) -> tuple[tuple[int, float, float], ...]:
        """How evidence grew: pulls, evidence and target when the rule looked, a few dozen times in all."""
        return tuple(self._path)

    @property
    def planned(self) -> dict[Any, float]:
        """Share of the pulls before the newest interval that the designs wanted for each arm, if there are any."""
        # An interval of which nothing is told has not begun: a log ends with what was told.
        begun = [wanted for n, wanted in self._plans_so_far if n < self.estimate.n_pulls]
        wanted = begun[-1] if begun else {}
        total = sum(wanted.values())
        return {self.white.key_of(arm): n / total for arm, n in wanted.items() if n > 0.0}

    def survivors(self) -> IntArray | None:
        """Return the candidates not excluded, by row number: a 1 - delta confidence set for the best.

        With slack it is one for a candidate that loses at most epsilon. Until they decide, rules other than betting
        exclude nobody, and neither does a claim that is withdrawn. None where candidates cannot be listed.
        """
        if not self.candidates.keeps_numbers:
            return None
        rows, decision = as_rows(self.candidates), self.decision
        if decision.best is None or decision.guarantee in ("withdrawn", "none"):
            return np.arange(rows.n_arms)
        if decision.stopped:
            return np.sort(np.concatenate([rows.copies(leader) for leader in self.leaders()]))
        left = self._state.survivors(self.leaders()[0])
        return np.arange(rows.n_arms) if left is None else np.flatnonzero(left)

    @property
    def rule(self) -> Rule:
        """The stopping rule."""
        return self._rule

    @property
    def stopped(self) -> bool:
        """Whether the rule has stopped; for good, unless a correction withdraws the verdict."""
        return self._verdict is not None and self._verdict.stopped

    @property
    def decision(self) -> Decision:
        """What the rule says now; a pass over the candidates if its last check could do without one.

        Loops that only need to know whether to go on should ask `stopped`, which costs nothing.
        """
        verdict = self._verdict
        if verdict is not None and not verdict.is_exact:
            if self._looked is None:
                # Looking decides nothing: a log holds no looks, and has to lead to the same state.
                self._looked = replace(self._state.exact(self.estimate), stopped=False)
            verdict = self._looked
        if verdict is None:
            verdict = Verdict(threshold=math.log(1.0 / self.delta))
        leaders = () if verdict.leader is None else (verdict.leader, *verdict.others)
        if not leaders and self.estimate.has_theta:
            leaders = self._state.leaders(self.estimate)
        arms = [self.candidates.arm_of(leader) for leader in leaders]
        return Decision(
            best=(arms if self.m > 1 else arms[0]) if arms else None,
            stopped=verdict.stopped,
            evidence=verdict.statistic if verdict.leader is not None else 0.0,
            target=verdict.threshold,
            unit=verdict.unit,
            rule=self._rule.name,
            guarantee=self._guarantee(),
            n_pulls=self.estimate.n_pulls,
            exact=not verdict.is_bound,
        )

    def _guarantee(self) -> Guarantee:
        # Whoever allows for misfit knows that means are not exactly linear, and more is not tested.
        if (self.model_check == "contradicted" and self.misfit == 0.0) or self.noise_contradicted:
            return "withdrawn"
        # A proof for pulls that depend on no reward does not cover results whose arms somebody else chose.
        return "none" if self._rule.is_fixed_design and not self._is_own else self._rule.guarantee

    @property
    def noise_contradicted(self) -> bool:
        """Whether the rewards scatter more than the `noise_std` given allows."""
        return self.noise_std is not None and is_contradicted(self.estimate, self.noise_std, self.misfit)

    @property
    def model_check(self) -> ModelCheck:
        """Whether rewards follow the features: "contradicted" although they do at most once in a hundred learners."""
        return self._model.check

    @property
    def n_checks(self) -> int:
        """Check pulls of the model told after the verdict."""
        return self._model.n_checks

    def explain_misfit(self) -> str:
        """Say in plain words which constant, measurement or arms do not fit; "" if nothing was measured."""
        return self._model.explain(self._noise())

    def _noise(self) -> float:
        """Return the level of the noise as far as it is known; NaN if it is not."""
        return noise_estimate(self.estimate) if self.noise_std is None else self.noise_std

    def audit(self, n: int | Literal["auto"] = "auto") -> int:
        """Plan check pulls of the model after the verdict: the next asks are spread over all arms alike.

        They test what a good design hides: arms that it need not measure. If they contradict the model, the verdict is
        withdrawn (`model_check`, `decision.guarantee`).

        Args:
            n: how many, or "auto": enough to show a misfit of half the lead of the answer, which is what could make it
                wrong; at most twice as many as there were pulls, or twenty of every arm that is checked.

        Returns:
            How many are planned.
        """
        if not self.stopped:
            raise InvalidInput("an audit comes after the verdict, and there is none yet; go on until `stopped`.")
        if self._levels is not None:
            raise InvalidInput('an audit has no proof yet beside noise="per-arm"; give noise_std for each arm.')
        if not isinstance(self.white, WhitenedArms):
            raise InvalidInput(f"an audit needs a list of arms, got {self.white.description}; leave it out.")
        if self._checks or self.n_planned:
            raise InvalidInput(f"{self.n_planned} check pulls are planned already; measure them first.")
        if n == "auto":
            stds = self._rewards.stds
            noise_std = self._noise() * (1.0 if stds is None else math.sqrt(float(np.mean(stds**2))))
            n = enough_checks(self.white, noise_std, self.lead(), 2 * self.estimate.n_pulls)
        n = check_count("n", n, least=1)
        self._plan_checks(n)
        self._log.append(("audit", n))
        return n

    def _plan_checks(self, n: int) -> None:
        self._checks.extend(check_arms(as_rows(self.white), n, self.seed))
        self._ledger.open(n, is_check=True)

    def leaders(self) -> list[int]:
        """Return the numbers of the candidates that would be the answer now, the best first; there is an estimate."""
        best = self.decision.best
        return [self.candidates.number_of(arm) for arm in (best if isinstance(best, list) else [best])]

    def _outside(self) -> BoolArray | None:
        """Return which candidates (K,) the leaders are compared with; None: all others."""
        if self.m == 1:
            return None
        outside = np.ones(as_rows(self.candidates).n_arms, dtype=bool)
        outside[self.leaders()] = False
        return outside

    def lead(self) -> float:
        """Return by how much the answer is ahead of the next candidate, as it seems, and at least epsilon."""
        last = self.leaders()[-1]
        found = as_rows(self.candidates).rivals(last, self.estimate.theta, [], np.copy, 1, self._outside())
        return max(float(found.score[0]), self.epsilon)

    def expected_remaining(self) -> float:
        """Estimate the pulls still needed: missing evidence times what a unit of it costs by the current plan.

        Never enters the stopping rule. Rough early on; inf while nothing can be said.
        """
        decision = self.decision
        if decision.stopped:
            return 0.0
        if self.n_hidden():
            return math.inf
        missing = max(decision.target - decision.evidence, 0.0)
        per_nat = self._sampler.pulls_per_nat() if decision.unit == "nats" else math.inf
        if math.isinf(per_nat) and decision.evidence > 0.0:
            return missing * decision.n_pulls / decision.evidence  # no plan to go by: as fast as so far
        return missing * per_nat * self._noise() ** 2

    def n_hidden(self) -> int:
        """Return how many candidates cannot be rejected by pulls like the last ones, however many.

        The leader is ahead of them by no more than what `misfit` allows a plan like the present one to be off.
        """
        return self._state.n_hidden(self.estimate) if self.misfit > 0.0 and not self.stopped else 0

    @one_blas_thread
    def epsilon_bound(self) -> float:
        """Return how much the leader can be losing at most, with probability 1 - delta for all times together.

        Of several leaders: how much any of them can be losing to one that is not among them.

        From the evidence mixture with V the identity of whitened coordinates, whatever rule decides; one scan.
        inf before the pulled arms span, while nothing is known of the noise, and where a `misfit` is allowed for.
        """
        noise_std, delta = noise_to_assume(self.estimate, self.bounding_noise_std, self.delta)
        if not (self.estimate.has_theta and math.isfinite(noise_std)):
            return math.inf
        if self.m == 1:
            return self.candidates.largest_loss(self.leaders()[0], self.estimate, delta=delta, noise_std=noise_std)
        rows, outside = as_rows(self.candidates), self._outside()
        return max(
            rows.largest_loss(leader, self.estimate, delta=delta, noise_std=noise_std, among=outside)
            for leader in self.leaders()
        )

    def result(self, *, interrupted: bool = False) -> Result:
        """Return what is known now, in the form that `identify` gives."""
        return result_of(self, interrupted=interrupted)

    def frozen(self) -> "Learner":
        """Return a copy whose log does not grow when this one learns on."""
        twin = copy(self)
        own = {"_log": list(self._log), "_plans": dict(self._plans), "_corrected": dict(self._corrected)}
        twin.__dict__.update(own)
        return twin

    def settled_blocks(self) -> list[Block]:
        """Return all blocks so far, check pulls after the verdict included, in order; goes through the log again."""
        before = dict(self.__dict__)
        try:
            self._start()
            recorder = self._state = Recorder(self.task)
            self._relive()
            return recorder.blocks
        finally:
            self.__dict__.update(before)

    def replay(self, log: Sequence[Event]) -> None:
        """Start afresh and go through a log; ends in the state the log was written in, bit for bit.

        To change what is in a log call `correct` and `void`. One that was edited is refused where this learner, having
        been told the edited results, asks for other arms. An edit that changes no later ask cannot be noticed.

        Raises:
            InvalidInput: the log is of a learner with other arms or options, or holds what is no event or cannot have
                happened. The learner is then as it was.
        """
        given: object = log
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            raise InvalidInput(f"`log` must be a list of events as in `Learner.log`, got {reprlib.repr(given)}.")
        if not log or log[0] != ("start", self.identity):
            raise InvalidInput(
                f"`log` must begin with ('start', identity) of this learner, {self.identity!r}, got "
                f"{log[0] if log else 'nothing'!r}; replay it on a learner with the same arms and options."
            )
        before = dict(self.__dict__)
        try:
            self._begin()
            for place, event in enumerate(log[1:], start=1):
                self._go_through(event, place)
        except BaseException:
            self.__dict__.update(before)
            raise

    def _go_through(self, event: Event, place: int) -> None:
        match event:
            case ("ask", tuple(arms)) if arms:
                asked = self.next_arms(len(arms))
                if self._log[-1] != event:
                    raise InvalidInput(
                        f"event {place} of `log` asked for {reprlib.repr(arms)} where this learner asks for "
                        f"{reprlib.repr(asked)}; the log was changed before that event, or written by another version. "
                        "Replay the log as it was, and change results by `correct` and `void`."
                    )
            case ("tell", arm, reward, *ask):
                self.tell(arm, reward, ask=ask[0] if ask else None)
            case ("fail", arm, *ask):
                self.fail(arm, ask=ask[0] if ask else None)
            case ("audit", n):
                self.audit(n)
            case ("void", n, *reason) if len(reason) <= 1:
                self.void(n, reason=reason[0] if reason else "")
            case ("correct", n, value, *reason) if len(reason) <= 1:
                self.correct(n, value, reason=reason[0] if reason else "")
            case _:
                raise InvalidInput(
                    f"event {place} of `log` must be ('ask', arms), ('tell', arm, reward), ('fail', arm), "
                    f"('audit', n), ('void', n) or ('correct', n, value), got {reprlib.repr(event)}; pass a log as "
                    "`Learner.log` has it."
                )


create_learner = Learner
"""`create_learner("rage", arms, delta=0.05, ...)` is a `Learner` with these arguments."""
