"""The learner: the only owner of mutable state; asks for arms, takes results, decides.

A learner is a fold over its log: the same log gives the same state bit for bit. It knows no clock, no file and no
global random state. Time runs in *intervals*: when one opens, the sampler plans from the results so far, the
rule fixes its bets, and from then on the sequence of arms depends on no reward until all of the interval's asks are
told. Hence a batch within an interval is exact, and pending asks are accounted for. An ask that failed is made again,
so an interval always consists of the arms it was planned with: whoever gives up measurements because of other results
gains nothing by it (docs/guarantee.md, "Failures").

What belongs to an interval: its planned asks, and further asks made before any of its results is in (a batch larger
than planned). Asks beyond that, and unsolicited results, improve the estimate but carry no bets.
"""

import math
import reprlib
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Protocol, cast, final

import numpy as np

from surepick.arms.finite import as_arms
from surepick.arms.numbered import NumberedVectors
from surepick.arms.protocol import ArmSet
from surepick.arms.vectors import VectorSet
from surepick.arms.whitening import WhitenedArms, whiten
from surepick.core.block import LARGEST_REWARD, Block
from surepick.core.checks import check_count, check_delta, check_epsilon, check_noise_std, check_number, check_seed
from surepick.core.design.solve import as_candidates
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, one_blas_thread
from surepick.core.thresholds import Guarantee
from surepick.errors import InvalidInput
from surepick.rules.challenger import largest_loss_bound
from surepick.rules.parts import Ground, Rule, Sampler, Situation, VectorGround
from surepick.rules.vector_evidence import largest_loss
from surepick.rules.verdict import Verdict

Arm = Any
"""What users call an arm: a row number, or a vector (d,) of a set of vectors."""

MOST_ASKS = 10_000_000
"""Arms in one batch; more do not fit into memory, and nobody measures so many before looking."""

Event = tuple[str, Any] | tuple[str, Any, float]
"""("start", identity), ("ask", arms), ("tell", arm, reward) or ("fail", arm); a vector is written as a tuple."""


class Algorithm(Protocol):
    """A composition of rules: what a file of this package provides."""

    def compose(self, ground: Ground) -> tuple[Sampler, Rule]:
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
    """What the rule has against the alternatives, to be compared with `target`."""
    target: float
    rule: str
    guarantee: Guarantee
    n_pulls: int
    exact: bool = True
    """Whether the evidence is the set's own; else a lower bound on it, so that a stop comes later at worst."""


@final
class _Interval:
    """Asks that belong together, and what their results add up to."""

    def __init__(self, block: Block, length: int) -> None:
        self.block = block
        self.left = length
        """Planned asks not yet made."""
        self.open = 0
        """Asks made and not told; a failed one is to be made again."""
        self.n_told = 0

    @property
    def is_over(self) -> bool:
        return self.left == 0 and self.open == 0


@final
class Learner:
    """One algorithm at work on one set of arms.

    Args:
        algorithm: the composition.
        arms: what may be pulled.
        delta: risk.
        noise_std: sub-Gaussian scale of the noise.
        epsilon: slack.
        candidates: what is compared, if not the arms.
        seed: of whatever the algorithm draws.
        name: of the algorithm.
    """

    @one_blas_thread
    def __init__(
        self,
        algorithm: Algorithm,
        arms: Any,
        *,
        delta: float = 0.05,
        noise_std: float = 1.0,
        epsilon: float = 0.0,
        candidates: Any = None,
        seed: int = 0,
        name: str = "",
    ) -> None:
        self.delta, self.noise_std = check_delta(delta), check_noise_std(noise_std)
        self.epsilon, self.seed = check_epsilon(epsilon), check_seed(seed)
        self.algorithm = name
        if not hasattr(algorithm, "compose"):
            raise InvalidInput(
                f"`algorithm` must be a composition with a `compose` method, got {reprlib.repr(algorithm)}; "
                "`create_learner` takes names."
            )
        self._composition = algorithm
        self.white: WhitenedArms | NumberedVectors
        self.candidates: WhitenedArms | NumberedVectors
        if isinstance(arms, VectorSet):
            self._look_at_vectors(arms, candidates)
        else:
            self._look_at_rows(as_arms(arms), candidates)
        self._begin()

    def _look_at_rows(self, arms: ArmSet, candidates: Any) -> None:
        self.arms: ArmSet | VectorSet = arms
        self.white = self.candidates = white = whiten(arms)
        if candidates is not None:
            self.candidates = white.view_of(as_candidates("candidates", candidates, arms))
        if len(self.candidates.copies(0)) == self.candidates.n_arms:
            raise InvalidInput(
                "`candidates` must have at least two different rows, got one; add rows, one is no choice."
            )

    def _look_at_vectors(self, vectors: VectorSet, candidates: Any) -> None:
        if candidates is not None:
            raise InvalidInput(
                f"`candidates` go with a list of arms, got them with {vectors.description}; leave them out."
            )
        self.arms = vectors
        self.white = self.candidates = NumberedVectors(vectors, self.seed)

    def _compose(self) -> tuple[Sampler, Rule]:
        if isinstance(self.white, NumberedVectors):
            compose = getattr(self._composition, "compose_on_vectors", None)
            if compose is None:
                raise InvalidInput(
                    f"{self.algorithm or 'this algorithm'} needs a list of arms, got {self.white.vectors.description}; "
                    'use "lazy-track-and-stop".'
                )
            parts: tuple[Sampler, Rule] = compose(
                VectorGround(arms=self.white, delta=self.delta, noise_std=self.noise_std, epsilon=self.epsilon)
            )
            return parts
        assert isinstance(self.candidates, WhitenedArms)
        return self._composition.compose(
            Ground(
                arms=self.white,
                candidates=self.candidates,
                delta=self.delta,
                noise_std=self.noise_std,
                epsilon=self.epsilon,
                seed=self.seed,
            )
        )

    def _begin(self) -> None:
        self._sampler, self._rule = self._compose()
        self.estimate = LeastSquares(self.white.dim, self._rule.regularizers(self.white.dim))
        self._at_work = self._rule.work_on(cast(ArmSet, self.candidates))  # a rule on vectors knows its set already
        self._interval: _Interval | None = None
        self._pending: dict[int, deque[_Interval | None]] = {}
        self._owed: deque[tuple[int, _Interval | None]] = deque()  # asks that failed, to be made again
        self._rows: dict[int, Array] = {}
        self._verdict: Verdict | None = None
        self._log: list[Event] = []
        self._is_own = True  # no unsolicited result so far

    @cached_property
    def identity(self) -> str:
        """What the learner's state depends on besides the events: algorithm, options, and the content of the arms."""
        own = "" if self.candidates is self.white else f" for candidates {_content(self.candidates)}"
        return (
            f"{self.algorithm} {_written(self._composition)} on arms {_content(self.white)}{own}, "
            f"delta={self.delta!r}, noise_std={self.noise_std!r}, epsilon={self.epsilon!r}, seed={self.seed}"
        )

    @property
    def log(self) -> Sequence[Event]:
        """Everything that happened, in order; the first event says whose log it is."""
        return (("start", self.identity), *self._log)

    @property
    def n_pending(self) -> int:
        """Asks that are neither told nor failed."""
        return sum(len(asks) for asks in self._pending.values())

    @property
    def pending(self) -> Mapping[Any, int]:
        """The same per arm, by row number; by the numbers of the vector where arms are vectors."""
        return {self.white.key_of(number): len(asks) for number, asks in self._pending.items()}

    @property
    def n_planned(self) -> int:
        """Asks left in this interval, failed ones included: so large a batch loses nothing. 0: the next ask plans one."""
        return len(self._owed) + (0 if self._interval is None else self._interval.left)

    @property
    def counts(self) -> Mapping[Any, int]:
        """Results per arm, by row number; by the numbers of the vector where arms are vectors."""
        return {self.white.key_of(number): n for number, n in self.estimate.counts.items()}

    @property
    def theta(self) -> Array:
        """Estimate in the user's coordinates; raises `NotEnoughData` before the pulled arms span."""
        return self.white.theta_to_user(self.estimate.theta)

    def next_arms(self, n: int = 1) -> list[Arm]:
        """Return the next n arms to pull, in order: row numbers, or vectors (d,) of a set of vectors. Always n.

        Within an interval this is exact. Asks beyond it, while results are pending, follow the same plan and inform the
        estimate, but carry no bets: many workers that never wait cost pulls (see `docs/experiment.md`).
        """
        n = check_count("n", n, least=1)
        if n > MOST_ASKS:
            raise InvalidInput(
                f"`n` must be at most {MOST_ASKS:,}, got {n:,}; ask for the next arms when you need them."
            )
        numbers = [self._next_arm() for _ in range(n)]
        self._log.append(("ask", tuple(self.white.key_of(number) for number in numbers)))
        return [self.white.arm_of(number) for number in numbers]

    def _next_arm(self) -> int:
        interval = self._interval
        belongs: _Interval | None = None
        if self._owed and (interval is None or interval.left == 0):
            arm, belongs = self._owed.popleft()
            self._pending.setdefault(arm, deque()).append(belongs)
            return arm
        if interval is None and not self.stopped:
            interval = self._interval = self._open()
        if interval is not None and interval.left > 0:
            interval.left -= 1
            belongs = interval
        elif interval is not None and interval.n_told == 0:
            belongs = interval  # no result is in yet, so the interval may still grow
        if belongs is not None:
            belongs.open += 1
        arm = self._sampler.next()
        self._pending.setdefault(arm, deque()).append(belongs)
        return arm

    @one_blas_thread
    def _open(self) -> _Interval:
        estimate = self.estimate
        theta = leader = alive = None
        if estimate.has_theta:
            theta = estimate.theta
        if theta is not None and isinstance(self.white, WhitenedArms):  # a fixed design asks nobody who leads
            leader = self._at_work.leader(estimate)
            alive = self._at_work.alive(leader)
            alive = None if alive is None else alive.copy()  # a plan must not see what is refuted later
        situation = Situation(
            n_pulls=estimate.n_pulls,
            theta=theta,
            leader=leader,
            alive=alive,
            estimate=estimate,
            pending=Counter({arm: len(asks) for arm, asks in self._pending.items()})
            + Counter(arm for arm, _ in self._owed),
        )
        length = self._sampler.open(situation)
        if leader is not None:
            self._at_work.open(estimate, leader)
        known = (np.zeros(self.white.dim), None) if theta is None else (theta, estimate.A_inv)
        return _Interval(Block.opened(*known), length)

    def tell(self, arm: Arm, reward: float) -> None:
        """Take in a result, asked for or not. Of several pending asks of an arm the oldest is answered."""
        arm = self.white.number_of(arm)
        if not (type(reward) is float and math.isfinite(reward)):
            reward = check_number("reward", reward, needed="one measured number")
        if abs(reward) > LARGEST_REWARD * self.noise_std:
            raise InvalidInput(
                f"`reward` must be at most {LARGEST_REWARD:g} times noise_std = {self.noise_std:g} in size, got "
                f"{reward:g}; beyond that the noise is lost in rounding. If it stands for a missing value, call `fail`."
            )
        if isinstance(self.white, NumberedVectors) and self._rule.is_fixed_design and arm not in self._pending:
            raise InvalidInput(
                f"stopping={self._rule.name!r} rests on its own fixed design and cannot use an unsolicited result, "
                f'got one of arm {self.white.key_of(arm)}; use stopping="evidence" for such results.'
            )
        self._log.append(("tell", self.white.key_of(arm), reward))
        x = self._rows.get(arm)
        if x is None:
            x = self._rows[arm] = self.white.gather([arm])[0]
        self.estimate.update(x, reward, arm)
        self._is_own = self._is_own and (self.stopped or arm in self._pending)
        interval = self._answered(arm)
        if interval is not None:
            interval.n_told += 1
            interval.open -= 1
            interval.block.add(x, reward)
        if not self.stopped:
            # A proof for arms fixed in advance covers the first n asks as a whole, not those that came in first.
            if not (self._rule.is_fixed_design and (self._pending or self._owed)):
                self._verdict = self._at_work.after_pull(self.estimate) or self._verdict
            self._close_if_over()

    def fail(self, arm: Arm) -> None:
        """Give up the oldest pending ask of an arm; it will be asked for again.

        Any reason will do but the value itself: a broken plate, a time limit, even what other measurements said. A
        value that was seen must be told. An arm that cannot be measured at all does not belong among the arms.
        """
        arm = self.white.number_of(arm)
        name = self.white.key_of(arm)
        if not self._pending.get(arm):
            pending = [self.white.key_of(number) for number in sorted(self._pending)]
            raise InvalidInput(f"arm {name} has no pending ask that could fail; pending are {pending}.")
        self._log.append(("fail", name))
        self._owed.append((arm, self._answered(arm)))

    def _answered(self, arm: int) -> _Interval | None:
        asks = self._pending.get(arm)
        if not asks:
            return None
        interval = asks.popleft()
        if not asks:
            del self._pending[arm]
        return interval

    def _close_if_over(self) -> None:
        if self._interval is not None and self._interval.is_over:
            self._close(self._interval)

    @one_blas_thread
    def _close(self, interval: _Interval) -> None:
        self._interval = None
        verdict = self._at_work.after_interval(self.estimate, interval.block)
        self._verdict = verdict or self._verdict

    @property
    def rule_name(self) -> str:
        """Name of the stopping rule."""
        return self._rule.name

    @property
    def stopped(self) -> bool:
        """Whether the rule has stopped; for good."""
        return self._verdict is not None and self._verdict.stopped

    @property
    def decision(self) -> Decision:
        """What the rule says now; a pass over the candidates if its last check could do without one.

        Loops that only need to know whether to go on should ask `stopped`, which costs nothing.
        """
        if self._verdict is not None and not self._verdict.is_exact:
            # Looking decides nothing: a log holds no looks, and has to lead to the same state.
            self._verdict = replace(self._at_work.exact(self.estimate), stopped=False)
        verdict = self._verdict
        n_pulls = self.estimate.n_pulls
        if verdict is None or verdict.leader is None:
            best = self._at_work.leader(self.estimate) if self.estimate.has_theta else None
            target = math.log(1.0 / self.delta) if verdict is None else verdict.threshold
            return Decision(
                best=None if best is None else self.candidates.arm_of(best),
                stopped=False,
                evidence=0.0,
                target=target,
                rule=self._rule.name,
                guarantee=self._guarantee,
                n_pulls=n_pulls,
            )
        return Decision(
            best=self.candidates.arm_of(verdict.leader),
            stopped=verdict.stopped,
            evidence=verdict.statistic,
            target=verdict.threshold,
            rule=verdict.rule,
            guarantee=self._guarantee,
            n_pulls=n_pulls,
            exact=not verdict.is_bound,
        )

    @property
    def _guarantee(self) -> Guarantee:
        # A proof for pulls that depend on no reward does not cover results whose arms somebody else chose.
        return "none" if self._rule.is_fixed_design and not self._is_own else self._rule.guarantee

    def expected_remaining(self) -> float:
        """Estimate the pulls still needed: missing evidence times what a unit of it costs by the current plan.

        Never enters the stopping rule. Rough early on; inf while nothing can be said.
        """
        decision = self.decision
        if decision.stopped:
            return 0.0
        missing = max(decision.target - decision.evidence, 0.0)
        pulls_per_nat = self._sampler.pulls_per_nat()
        if math.isinf(pulls_per_nat) and decision.evidence > 0.0:
            return missing * decision.n_pulls / decision.evidence  # no plan to go by: as fast as so far
        # A likelihood ratio and its threshold carry noise_std^2 already, a log e-value does not.
        is_evidence = self._verdict is None or self._verdict.evidence is not None
        return missing * pulls_per_nat * (self.noise_std**2 if is_evidence else 1.0)

    @one_blas_thread
    def epsilon_bound(self) -> float:
        """Return how much the leader can be losing at most, with probability 1 - delta for all times together.

        From the evidence mixture with V the identity of whitened coordinates, whatever rule decides; one scan.
        inf before the pulled arms span.
        """
        estimate = self.estimate
        if not estimate.has_theta:
            return math.inf
        if isinstance(self.candidates, NumberedVectors):
            return largest_loss(self.candidates, estimate, delta=self.delta, noise_std=self.noise_std)
        leader = self.decision.best
        assert leader is not None  # there is an estimate
        _, bound = largest_loss_bound(
            self.candidates, leader, estimate.theta, estimate.A, delta=self.delta, noise_std=self.noise_std
        )
        return max(0.0, bound)

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
            case ("tell", arm, reward):
                self.tell(arm, reward)
            case ("fail", arm):
                self.fail(arm)
            case _:
                raise InvalidInput(
                    f"event {place} of `log` must be ('ask', arms), ('tell', arm, reward) or ('fail', arm), got "
                    f"{reprlib.repr(event)}; pass a log as `Learner.log` has it."
                )


def _content(rows: WhitenedArms | NumberedVectors) -> str:
    """Return what tells these arms from others."""
    if isinstance(rows, NumberedVectors):
        return _written(rows.vectors)
    return rows.digest().hex()


def _written(value: Any) -> str:
    """Return a value in words that are the same in every process, with all digits."""
    if is_dataclass(value) and not isinstance(value, type):
        options = ", ".join(f"{field.name}={_written(getattr(value, field.name))}" for field in fields(value))
        return f"{type(value).__name__}({options})"
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    written = repr(value)
    # An object without words of its own is written with its address in memory.
    return type(value).__qualname__ if written == object.__repr__(value) else written
