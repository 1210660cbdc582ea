"""The learner: the only owner of mutable state; asks for arms, takes results, decides.

A learner is a fold over its log: the same log gives the same state bit for bit. It knows no clock, no file and no
global random state. Time runs in *intervals*: when one opens, the sampler plans from all results so far, and from then
on its arms depend on no reward. When all its asks are told, and all intervals before it are settled, the rule judges
it by its own results and by what was known before: the results of earlier intervals, and unsolicited ones told before
it opened. So a batch within an interval is exact, and workers that never wait cost no more than old news.
"""

import math
import reprlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, final

import numpy as np

from surepick import stopping
from surepick.algorithms import as_algorithm
from surepick.arms.finite import as_arms
from surepick.arms.numbered import NumberedVectors
from surepick.arms.vectors import VectorSet
from surepick.arms.view import ArmView, Task
from surepick.arms.whitening import whiten
from surepick.core.block import LARGEST_REWARD, Block
from surepick.core.checks import check_count, check_delta, check_epsilon, check_noise_std, check_number, check_seed
from surepick.core.design.solve import as_candidates
from surepick.core.estimate import LeastSquares
from surepick.core.identity import written
from surepick.core.linalg import Array, one_blas_thread
from surepick.core.thresholds import Guarantee
from surepick.errors import InvalidInput
from surepick.learning.history import Event, History
from surepick.learning.ledger import Interval, Ledger
from surepick.learning.result import Result, result_of
from surepick.sampling.protocol import Sampler, Situation
from surepick.stopping.protocol import Rule, Verdict

Arm = Any
"""What users call an arm: a row number or a name, or a vector (d,) of a set of vectors."""

MOST_ASKS = 10_000_000
"""Arms in one batch; more do not fit into memory, and nobody measures so many before looking."""


class Algorithm(Protocol):
    """A composition of rules: what a file of `surepick.algorithms` provides.

    One that can do without a list of arms says so by `takes_vectors = True`, one that can do without a list of
    candidates beside listed arms by `takes_vector_candidates = True`.
    """

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the parts, ready to run."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a learner says now."""

    best: Arm | None
    """The leading candidate, a row number or a vector; the answer once stopped. None before the pulled arms span."""
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
        noise_std: sub-Gaussian scale of the noise.
        epsilon: slack.
        candidates: what is compared, if not the arms.
        seed: of whatever the algorithm draws.
        options: of the algorithm, if it is named.
    """

    _composition: Algorithm

    @one_blas_thread
    def __init__(
        self,
        algorithm: str | Algorithm,
        arms: Any,
        *,
        delta: float = 0.05,
        noise_std: float = 1.0,
        epsilon: float = 0.0,
        candidates: Any = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self._composition, self.algorithm = as_algorithm(algorithm, options)
        self.delta, self.noise_std = check_delta(delta), check_noise_std(noise_std)
        self.epsilon, self.seed = check_epsilon(epsilon), check_seed(seed)
        self.arms = arms if isinstance(arms, VectorSet) else as_arms(arms)
        self.white, self.candidates = _views(self.arms, candidates, self.seed)
        self.task = Task(
            arms=self.white,
            candidates=self.candidates,
            delta=self.delta,
            noise_std=self.noise_std,
            epsilon=self.epsilon,
            seed=self.seed,
        )
        if not self.white.is_listed and not getattr(self._composition, "takes_vectors", False):
            raise InvalidInput(
                f'{self.algorithm} needs a list of arms, got {self.white.description}; use "lazy-track-and-stop".'
            )
        is_apart = self.candidates is not self.white
        if is_apart and not (self.candidates.is_listed or getattr(self._composition, "takes_vector_candidates", False)):
            raise InvalidInput(
                f"{self.algorithm} needs a list of candidates, got {self.candidates.description}; use "
                '"g-static" or "uniform", with stopping="evidence".'
            )
        self._begin()

    def _begin(self) -> None:
        self._sampler, self._rule = self._composition.compose(self.task)
        if not (self.candidates.is_listed or self._rule.takes_vectors):
            suited = ", ".join(map(repr, stopping.names(vectors=True)))
            raise InvalidInput(
                f"`stopping` must be one of {suited} on {self.candidates.description}, got {self._rule.name!r}."
            )
        self._state = self._rule.start(self.task)
        self.estimate = LeastSquares(self.white.dim, self._state.regularizers)
        self._ledger = Ledger(opens_ahead=self._rule.opens_ahead and not self._rule.is_fixed_design)
        # What is known before the oldest interval not settled, and unsolicited results that it may not know yet, each
        # with the number of intervals opened before it was told.
        self._past = LeastSquares(self.white.dim)
        self._unsolicited: deque[tuple[int, Array, float]] = deque()
        self._rows: dict[int, Array] = {}
        self._verdict: Verdict | None = None
        self._looked: Verdict | None = None
        self._log: list[Event] = []
        self._is_own = True  # no unsolicited result so far

    @cached_property
    def identity(self) -> str:
        """What the learner's state depends on besides the events: algorithm, options, and the content of the arms."""
        own = "" if self.candidates is self.white else f" for candidates {self.candidates.identity()}"
        return (
            f"{self.algorithm} {written(self._composition)} on arms {self.white.identity()}{own}, "
            f"delta={self.delta!r}, noise_std={self.noise_std!r}, epsilon={self.epsilon!r}, seed={self.seed}"
        )

    @property
    def log(self) -> Sequence[Event]:
        """Everything that happened, in order; the first event says whose log it is."""
        return (("start", self.identity), *self._log)

    @property
    def history(self) -> History:
        """The same, read as (arm, reward) pairs."""
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
        """Return the next n arms to pull, in order: row numbers, or vectors (d,) of a set of vectors. Always n.

        Asks beyond the interval open the next one, planned from the results so far: many workers need not wait.
        """
        return [ask.arm for ask in self.next_asks(n)]

    def next_asks(self, n: int = 1) -> list[Ask]:
        """Return the same with the numbers by which `tell` and `fail` may name them."""
        if not (type(n) is int and n >= 1):
            n = check_count("n", n, least=1)
        if n > MOST_ASKS:
            raise InvalidInput(f"`n` must be at most {MOST_ASKS:,}, got {n:,}; ask for further arms when needed.")
        asks = []
        for _ in range(n):
            if self._ledger.needs_interval and not self.stopped:
                self._open()
            asks.append(self._ledger.ask(self._sampler.next))
        self._log.append(("ask", tuple(self.white.key_of(arm) for _, arm in asks)))
        return [Ask(number, self.white.arm_of(arm)) for number, arm in asks]

    @one_blas_thread
    def _open(self) -> None:
        estimate = self.estimate
        theta = estimate.theta if estimate.has_theta else None
        leader = alive = None
        if theta is not None and self.candidates.is_listed:  # a fixed design asks nobody who leads
            leader = self._state.leader(estimate)
            alive = self._state.alive(leader)
        outstanding = self._ledger.outstanding
        length = self._sampler.open(
            Situation(
                n_pulls=estimate.n_pulls,
                n_asked=estimate.n_pulls + outstanding.total(),
                theta=theta,
                leader=leader,
                alive=None if alive is None else alive.copy(),  # a plan must not see what is refuted later
                estimate=estimate,
                pending=outstanding,
            )
        )
        self._ledger.open(length)

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
        if not (type(reward) is float and math.isfinite(reward)):
            reward = check_number("reward", reward, needed="one measured number")
        if abs(reward) > LARGEST_REWARD * self.noise_std:
            raise InvalidInput(
                f"`reward` must be at most {LARGEST_REWARD:g} times noise_std = {self.noise_std:g} in size, got "
                f"{reward:g}; beyond that the noise is lost in rounding. If it stands for a missing value, call `fail`."
            )
        answered = self._ledger.find(number, ask)
        if answered is None and self._rule.is_fixed_design and not self.white.is_listed:
            raise InvalidInput(
                f"stopping={self._rule.name!r} rests on its own fixed design and cannot use an unsolicited result, "
                f'got one of arm {self.white.key_of(number)}; use stopping="evidence" for such results.'
            )
        event = ("tell", self.white.key_of(number), reward)
        self._log.append(event if ask is None else (*event, ask))
        x = self._row(number)
        self.estimate.update(x, reward, number)
        self._is_own = self._is_own and (self.stopped or answered is not None)
        if answered is None or not self._ledger.tell(answered, reward, is_named=ask is not None):
            self._unsolicited.append((self._ledger.n_opened, x, reward))
        if self.stopped:
            return
        # A proof for arms fixed in advance covers the first n asks as a whole, not those that came in first.
        if self._state.decides_after_pulls and (self._ledger.is_settled or not self._rule.is_fixed_design):
            self._decide(self._state.after_pull(self.estimate))
        for interval in self._ledger.settled():
            if not self.stopped:
                self._close(interval)

    def _row(self, number: int) -> Array:
        x = self._rows.get(number)
        if x is None:
            x = self._rows[number] = self.white.gather([number])[0]
        return x

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

    @one_blas_thread
    def _close(self, interval: Interval) -> None:
        """Let the rule judge an interval by its own results and by what was known before."""
        if self._state.decides_after_pulls:
            return
        past, unsolicited = self._past, self._unsolicited
        while unsolicited and unsolicited[0][0] < interval.number:
            past.update(*unsolicited.popleft()[1:])
        known = (past.theta, past.A_inv.copy()) if past.has_theta else (np.zeros(self.white.dim), None)
        X, rewards = np.stack([self._row(arm) for arm in interval.arms]), np.array(interval.in_order)
        self._decide(self._state.after_interval(self.estimate, Block.of(X, rewards, *known)))
        past.update_many(X, rewards)

    def _decide(self, verdict: Verdict | None) -> None:
        if verdict is not None:
            self._verdict, self._looked = verdict, None

    @property
    def rule(self) -> Rule:
        """The stopping rule."""
        return self._rule

    @property
    def stopped(self) -> bool:
        """Whether the rule has stopped; for good."""
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
        leader = verdict.leader
        if leader is None and self.estimate.has_theta:
            leader = self._state.leader(self.estimate)
        return Decision(
            best=None if leader is None else self.candidates.arm_of(leader),
            stopped=verdict.stopped,
            evidence=verdict.statistic if verdict.leader is not None else 0.0,
            target=verdict.threshold,
            unit=verdict.unit,
            rule=self._rule.name,
            # A proof for pulls that depend on no reward does not cover results whose arms somebody else chose.
            guarantee="none" if self._rule.is_fixed_design and not self._is_own else self._rule.guarantee,
            n_pulls=self.estimate.n_pulls,
            exact=not verdict.is_bound,
        )

    def expected_remaining(self) -> float:
        """Estimate the pulls still needed: missing evidence times what a unit of it costs by the current plan.

        Never enters the stopping rule. Rough early on; inf while nothing can be said.
        """
        decision = self.decision
        if decision.stopped:
            return 0.0
        missing = max(decision.target - decision.evidence, 0.0)
        per_nat = self._sampler.pulls_per_nat() if decision.unit == "nats" else math.inf
        if math.isinf(per_nat) and decision.evidence > 0.0:
            return missing * decision.n_pulls / decision.evidence  # no plan to go by: as fast as so far
        return missing * per_nat * self.noise_std**2

    @one_blas_thread
    def epsilon_bound(self) -> float:
        """Return how much the leader can be losing at most, with probability 1 - delta for all times together.

        From the evidence mixture with V the identity of whitened coordinates, whatever rule decides; one scan.
        inf before the pulled arms span.
        """
        if not self.estimate.has_theta:
            return math.inf
        leader = self.candidates.number_of(self.decision.best)
        return self.candidates.largest_loss(leader, self.estimate, delta=self.delta, noise_std=self.noise_std)

    def result(self, *, interrupted: bool = False) -> Result:
        """Return what is known now, in the form that `identify` gives."""
        return result_of(self, interrupted=interrupted)

    def replay(self, log: Sequence[Event]) -> None:
        """Start afresh and go through a log; ends in the state the log was written in, bit for bit.

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
            case ("ask", arms):
                asked = self.next_arms(len(arms))
                if self._log[-1] != event:
                    raise InvalidInput(
                        f"event {place} of `log` asked for {reprlib.repr(arms)} where this learner asks for "
                        f"{reprlib.repr(asked)}; the log was changed, or written by another version."
                    )
            case ("tell", arm, reward, *ask):
                self.tell(arm, reward, ask=ask[0] if ask else None)
            case ("fail", arm, *ask):
                self.fail(arm, ask=ask[0] if ask else None)
            case _:
                raise InvalidInput(
                    f"event {place} of `log` must be ('ask', arms), ('tell', arm, reward) or ('fail', arm), got "
                    f"{reprlib.repr(event)}; pass a log as `Learner.log` has it."
                )


create_learner = Learner
"""`create_learner("rage", arms, delta=0.05, ...)` is a `Learner` with these arguments."""


def _views(arms: Any, candidates: Any, seed: int) -> tuple[ArmView, ArmView]:
    """Return what a learner sees of arms and candidates."""
    if isinstance(arms, VectorSet):
        if candidates is not None:
            raise InvalidInput(
                f"`candidates` go with a list of arms, got them with {arms.description}; leave them out."
            )
        vectors = NumberedVectors(arms, seed)
        return vectors, vectors
    white = whiten(arms)
    if isinstance(candidates, VectorSet):
        return white, NumberedVectors(candidates, seed, back=white.back)
    rows = white if candidates is None else white.view_of(as_candidates("candidates", candidates, arms))
    if len(rows.copies(0)) == rows.n_arms:
        raise InvalidInput("`candidates` must have at least two different rows, got one; add rows, one is no choice.")
    return white, rows
