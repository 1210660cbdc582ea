"""The learner: the only owner of mutable state; asks for arms, takes results, decides.

A learner is a fold over its log: the same log gives the same state bit for bit. A learner knows no clock, no file and
no global random state. Time runs in *blocks*. When a block opens, the sampler plans from all results so far, and from
then on the arms of the block depend on no reward. The rule judges a block when all its asks are told and all blocks
before it are settled: by its own results and by what was known before. So a batch within a block is exact, and workers
that never wait only plan from older data.

A result that was told can be corrected or declared void. The state is then what the log gives with the corrected
values, where arms and blocks stay as they happened (docs/guarantee.md, "Corrections").
"""

import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Unpack, final

import numpy as np

from surepick.algorithms import as_algorithm
from surepick.algorithms.options import unsupported
from surepick.arms.views import Task, WhitenedArms, arms_given, costs_given, views
from surepick.core.betting.block import Block
from surepick.core.checks import check_count, written
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import one_blas_thread
from surepick.errors import InvalidInput
from surepick.learning.blocks import Plans
from surepick.learning.events import (
    Asked,
    Audited,
    Corrected,
    Entry,
    Event,
    Failed,
    History,
    Restored,
    Told,
    Voided,
    entry_of,
    event_of,
    n_earlier,
)
from surepick.learning.model import check_arms, enough_checks
from surepick.learning.result import Recorder, Result, result_of
from surepick.learning.snapshot import Algorithm, Arm, Ask, Decision, Reader, Snapshot
from surepick.learning.spec import Spec, TaskOptions, takes_options
from surepick.learning.state import LearnerState, Setting, Settlement
from surepick.stopping.base import Rule
from surepick.types import Array

MOST_ASKS = 10_000_000
"""Arms in one batch; more do not fit into memory, and nobody measures so many before looking."""

GUIDED = ", earlier=guidance"
"""What the identity of a learner says if results told before the first ask are guidance, and there are some."""


@final
class Learner:
    """One algorithm at work on one set of arms.

    Args:
        algorithm: by name, or as an object.
        arms: what may be pulled.
        candidates: what is compared, if not the arms.
        options: see `Spec`.
    """

    _composition: Algorithm

    @one_blas_thread
    @takes_options
    def __init__(
        self, algorithm: str | Algorithm, arms: Any, *, candidates: Any = None, **options: Unpack[TaskOptions]
    ) -> None:
        self.called: Callable[[int], int] = int
        """From the number of a measurement to what users call it by; a study has numbers of its own."""
        self.spec = spec = Spec.of(algorithm, options)
        self._composition, self.algorithm = as_algorithm(algorithm, dict(spec.own))
        self.noise_model = noise = spec.noise_model
        self.noise, self.noise_std, self.reward_range, self.is_binary = (
            noise.name, noise.std, noise.reward_range, noise.is_binary,
        )  # fmt: skip
        self.delta, self.epsilon, self.misfit, self.seed = spec.delta, spec.epsilon, spec.misfit, spec.seed
        self.m, self.budget, self.model, self.earlier = spec.m, spec.budget, spec.model, spec.earlier
        self.arms = arms_given(arms, spec.model, candidates)
        self.costs = costs_given(spec.costs, self.arms)
        self.measured_arms, self.unscaled, self.candidates = views(self.arms, candidates, spec.seed, noise.stds)
        self.task = Task(
            arms=self.measured_arms,
            candidates=self.candidates,
            delta=spec.delta,
            given_noise_std=noise.std,
            epsilon=spec.epsilon,
            seed=spec.seed,
            reward_range=noise.reward_range,
            misfit=spec.misfit,
            m=spec.m,
            costs=None if self.costs is None or np.ptp(self.costs) == 0.0 else self.costs,
            noise=noise.name,
            needs_bets=noise.needs_bets,
            model=spec.model,
        )
        self._begin()

    def _begin(self) -> None:
        if why := unsupported(self._composition, self.algorithm, self.task):
            raise InvalidInput(why)
        sampler, self._rule = self._composition.compose(self.task)
        if why := self._rule.unsupported(self.task):
            raise InvalidInput(why)
        sampler = self.noise_model.sampler(sampler, self.measured_arms.dim)
        setting = Setting(self.task, self._rule, self.noise_model, self.earlier)
        self.state = LearnerState(setting, Plans(sampler, self.task, self._rule, self.costs, self.budget))
        """What the events add up to; studies propose and apply events by it."""
        self._read_at: tuple[LearnerState, int, int] | None = None
        """State, events and plans that `_reader` is of."""

    @property
    def _plans(self) -> Plans:
        return self.state.plans

    @property
    def _known(self) -> Settlement:
        """What follows from the values of all results so far."""
        return self.state.settled

    @property
    def estimate(self) -> LeastSquares:
        """Least squares of all results that count, in whitened coordinates; to be looked at."""
        return self._known.estimate

    @property
    def identity(self) -> str:
        """What the learner's state depends on besides the events: algorithm, options, and the content of the arms.

        That results told before the first ask are guidance is said once there are some. Without a word they are
        evidence: so it was in logs of before, where that was the default.
        """
        return self._identity(is_guided=self.earlier == "guidance" and n_earlier(map(entry_of, self.state.log)) > 0)

    def _identity(self, *, is_guided: bool) -> str:
        return f"{self._description}{GUIDED if is_guided else ''}, seed={self.seed}"

    @cached_property
    def _description(self) -> str:
        """All of it but what results told before the first ask are, and the seed."""
        own = "" if self.candidates is self.unscaled else f" for candidates {self.candidates.identity()}"
        return (
            f"{self.algorithm} {written(self._composition)} on arms {self.unscaled.identity()}{own}, "
            f"{self.spec.identity(self.costs)}"
        )

    @property
    def given_noise_std(self) -> float | Array | None:
        """What was given: one number, one for each arm (K,), or None. `noise_std` is 1, in units of these, if many."""
        return self.noise_std if self.noise_model.stds is None else self.noise_model.stds

    @property
    def is_guided(self) -> bool:
        """Whether there are results that guide plans and bets and are no evidence: arms may be chosen after them."""
        return self.earlier == "guidance" and self.state.n_earlier > 0

    @property
    def log(self) -> Sequence[Entry]:
        """Everything that happened, in order; the first event says whose log it is."""
        return (("start", self.identity), *map(entry_of, self.state.log))

    @property
    def history(self) -> History:
        """The same, read as the (arm, reward) pairs that count, with corrected values."""
        return History(self.log)

    @property
    def pending(self) -> Mapping[Any, int]:
        """Asks that are neither told nor failed, per arm (by the numbers of the vector where arms are vectors)."""
        return self._by_arm(self.state.ledger.pending)

    @property
    def n_pending(self) -> int:
        """Their number."""
        return self.state.ledger.pending.total()

    @property
    def n_asked(self) -> int:
        """Asks so far, those made again counted once: the number of the next one."""
        return self.state.ledger.n_asked

    @property
    def n_told(self) -> int:
        """Results so far, those void included: the number of the next one."""
        return len(self.state.results)

    @property
    def n_planned(self) -> int:
        """Asks left in the newest block, with failed ones: a batch of this size loses nothing. 0: the next plans."""
        return self.state.ledger.n_planned

    @property
    def counts(self) -> Mapping[Any, int]:
        """Results per arm, by row number; by the numbers of the vector where arms are vectors."""
        return self._by_arm(self.estimate.counts)

    def _by_arm(self, counts: Mapping[int, int]) -> dict[Any, int]:
        return {self.measured_arms.key_of(number): n for number, n in counts.items()}

    @property
    def theta(self) -> Array:
        """Estimate in the user's coordinates; raises `NotEnoughData` before the pulled arms span."""
        return self.measured_arms.theta_to_user(self.estimate.theta)

    def next_arms(self, n: int = 1) -> list[Arm]:
        """Return the next n arms to pull, in order: row numbers, or vectors (d,) of a set of vectors.

        Always n, unless a `budget` ends: then fewer, and none once it is spent. Asks beyond the block open the next
        one, planned from the results so far: many workers need not wait.
        """
        return [self.measured_arms.arm_of(arm) for _, arm in self.state.ask(_n_asks(n))]

    def next_asks(self, n: int = 1) -> list[Ask]:
        """Return the same with the numbers by which `tell` and `fail` may name them."""
        return [Ask(number, self.measured_arms.arm_of(arm)) for number, arm in self.state.ask(_n_asks(n))]

    def cost_of(self, number: int) -> float:
        """Return what a pull of the arm with this number costs."""
        return self._plans.cost_of(number)

    @property
    def cost(self) -> float:
        """What all results so far have cost; their number, if no costs are given."""
        return sum(n * self.cost_of(number) for number, n in self.estimate.counts.items())

    @property
    def is_spent(self) -> bool:
        """Whether the budget allows no further ask; those planned and those that failed are still made."""
        return self.state.is_spent

    def tell(self, arm: Arm, reward: float, *, ask: int | Literal["none"] | None = None) -> None:
        """Take in a result, asked for or not.

        Args:
            arm: what was measured.
            reward: what came out.
            ask: number of the ask it answers. Without it, the oldest ask of the arm that has no result: that is
                right if which of them is answered first does not depend on the values, as with one worker, or
                with workers that are as slow for small values as for large ones. "none": it answers no ask.
        """
        number = self.measured_arms.number_of(arm)
        reward = self.noise_model.checked("reward", reward, number)
        answered = self.state.ledger.find(number, ask)
        if answered is None and self._rule.is_fixed_design and not self.measured_arms.is_enumerable:
            raise InvalidInput(
                f"stopping={self._rule.name!r} rests on its own fixed design and cannot use an unsolicited result, "
                f'got one of arm {self.measured_arms.key_of(number)}; use stopping="evidence" for such results.'
            )
        if answered is None:
            self.check_earlier()
        self.state.tell(number, reward, ask, answered)

    def check_earlier(self) -> None:
        """Refuse a result before the first ask where it may not count, if the rule could only count it."""
        if self.earlier == "guidance" and not (self.n_asked or self.state.ledger.n_opened):
            self.refuse_guidance()

    def refuse_guidance(self) -> None:
        """Refuse results that arms or options may have been chosen after, if the rule could only count them."""
        if self.state.counts_every_result:
            other = '; else with stopping="betting", which they guide' if self.candidates.is_enumerable else ""
            raise InvalidInput(
                f"stopping={self._rule.name!r} counts every result, and has no proof if arms or options were chosen "
                "after a look at some, got earlier results. If arms, candidates and every option "
                "were fixed before the first of these results was seen, each arm was chosen from results before it, "
                f'and none is left out, begin with earlier="evidence"{other}.'
            )

    def fail(self, arm: Arm, *, ask: int | None = None) -> None:
        """Give up a pending ask of an arm, the oldest unless its number is named; it will be asked for again.

        Any reason will do but the value itself: a broken plate, a time limit, even what other measurements said. A
        value that was seen must be told. An arm that cannot be measured at all does not belong among the arms.
        """
        self.state.fail(self.measured_arms.number_of(arm), ask)

    def void(self, n: int, *, reason: str = "") -> None:
        """Take a result back: the sample was mislabelled, the instrument was out of order.

        Everything is worked out again as if the measurement had not counted, while arms and blocks stay as they
        happened. A verdict that no longer holds is withdrawn: `stopped` is False again, and sampling goes on.

        Valid if which results are void or corrected has nothing to do with the noise of their own block or of later
        ones. So never because of the value, of another value of the same block, or of what came later: dropping
        outliers makes wrong answers, more of them than delta. (docs/guarantee.md, Theorem 23.)

        Args:
            n: number of the measurement, 0 for the first that was told: its place in `history` as long as nothing is
                void, and `history.numbers` has it always. Those void keep their numbers.
            reason: for the log.

        Raises:
            InvalidInput: there is no such measurement, it is void already, or the rule cannot do without it. Nothing
                has changed then.
        """
        self.state.change(Voided(n, reason))

    def correct(self, n: int, value: float, *, reason: str = "") -> None:
        """Replace the value of a result that was told wrong, as `void` does and on the same condition.

        The wrong value may have come about in any way: it has only steered what was measured next.

        Args:
            n: number of the measurement, as for `void`.
            value: what was measured in truth. A result may be corrected again; then the last value counts.
            reason: for the log.
        """
        self.state.change(Corrected(n, value, reason))

    def restore(self, n: int, *, reason: str = "") -> None:
        """Let a result count again that was declared void, as `void` does and on the same condition.

        Args:
            n: number of the measurement, as for `void`. It has the value that it had before it was void.
            reason: for the log.
        """
        self.state.change(Restored(n, reason))

    @property
    def planned(self) -> dict[Any, float]:
        """Share of the pulls before the newest interval that the designs wanted for each arm, if there are any."""
        wanted = self._plans.wanted_before(self.estimate.n_pulls)
        total = sum(wanted.values())
        return {self.measured_arms.key_of(arm): n / total for arm, n in wanted.items() if n > 0.0}

    @property
    def rule(self) -> Rule:
        """The stopping rule."""
        return self._rule

    @property
    def stopped(self) -> bool:
        """Whether the rule has stopped; for good, unless a correction withdraws the verdict."""
        return self.state.stopped

    @property
    def reader(self) -> Reader:
        """Everything that can be read off this learner now; kept until the next event."""
        at = self.state, len(self.state.log), self.state.ledger.n_opened
        if self._read_at != at:
            self._reader, self._read_at = Reader(self, self._known, self._plans), at
        return self._reader

    @property
    def decision(self) -> Decision:
        """What the rule says now; a pass over the candidates if its last check could do without one.

        Loops that only need to know whether to go on should ask `stopped`, which costs nothing.
        """
        return self.reader.decision

    @property
    def snapshot(self) -> Snapshot:
        """Everything that is shown of this learner now; two passes over the candidates."""
        return self.reader.snapshot

    def expected_remaining(self) -> float:
        """Estimate the pulls still needed: missing evidence times what a unit of it costs by the current plan.

        Never enters the stopping rule. Rough early on; inf while nothing can be said.
        """
        return self.reader.remaining

    def epsilon_bound(self) -> float:
        """Return how much the leader can be losing at most, with probability 1 - delta for all times together.

        Of several leaders: how much any of them can be losing to a candidate that is not among them.

        From the evidence mixture with V the identity of whitened coordinates, whatever rule decides; one scan.
        inf before the pulled arms span, while nothing is known of the noise, and where a `misfit` is allowed for.
        Rests on the results before the first open ask (`Reader.estimate`), while all results decide which arm leads.
        """
        return self.reader.epsilon_bound

    def result(self, *, interrupted: bool = False) -> Result:
        """Return what is known now, in the form that `identify` gives."""
        return result_of(self, self.reader, interrupted=interrupted)

    def audit(self, n: int | Literal["auto"] = "auto", *, follows: bool = False) -> int:
        """Plan check pulls of the model after the verdict: the next asks are spread over all arms alike.

        They test what a good design hides: arms that it need not measure. If they contradict the model, the verdict is
        withdrawn (`model_check`, `decision.guarantee`).

        Args:
            n: how many, or "auto": enough to show a misfit of half the lead of the answer, which is what could make it
                wrong; at most twice as many as there were pulls, or twenty of every arm that is checked.
            follows: whether a log says so, of a machine whose sums are rounded differently: it had its verdict.

        Returns:
            How many are planned.
        """
        n = len(self.propose_audit(n, follows=follows))
        self.state.audit(n)
        return n

    def propose_audit(self, n: int | Literal["auto"], *, follows: bool = False) -> list[int]:
        """Return the arms of the check pulls that `audit` would plan, by number."""
        if not (follows or self.stopped):
            raise InvalidInput("an audit comes after the verdict, and there is none yet; go on until `stopped`.")
        if self.noise_model.needs_bets:
            raise InvalidInput(f'an audit has no proof yet beside noise="{self.noise}"; give noise_std for each arm.')
        if not isinstance(self.measured_arms, WhitenedArms):
            raise InvalidInput(f"an audit needs a list of arms, got {self.measured_arms.description}; leave it out.")
        if self.state.checks:
            raise InvalidInput(f"{len(self.state.checks)} check pulls are planned already; measure them first.")
        if n == "auto":
            stds = self.noise_model.stds
            noise_std = self._known.noise * (1.0 if stds is None else math.sqrt(float(np.mean(stds**2))))
            n = enough_checks(self.measured_arms, noise_std, self.reader.lead, 2 * self.estimate.n_pulls)
        return check_arms(self.measured_arms, check_count("n", n, least=1), self.seed)

    def later_blocks(self) -> Callable[[], list[Block]]:
        """Return a function that works out all blocks so far, check pulls after the verdict included, in order.

        The function goes through the results as they are now: later results and corrections do not change its answer.
        """
        recorder = Recorder(self.task)
        settle = self.state.settled_by(recorder)

        def blocks() -> list[Block]:
            settle()
            return recorder.blocks

        return blocks

    def replay(self, log: Sequence[Entry]) -> None:
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
        n_before = n_earlier(log[1:])
        expected = self._identity(is_guided=self.earlier == "guidance" and n_before > 0)
        if not log or log[0] != ("start", expected):
            other = self._identity(is_guided=self.earlier == "evidence")
            hint = ""
            if n_before and log[0] == ("start", other):
                kind = "guidance" if self.earlier == "evidence" else "evidence"
                hint = f' Its {n_before} results from before the first ask are {kind}: give earlier="{kind}".'
            raise InvalidInput(
                f"`log` must begin with ('start', identity) of this learner, {expected!r}, got "
                f"{log[0] if log else 'nothing'!r}; replay it on a learner with the same arms and options.{hint}"
            )
        before = self._rule, self.state
        try:
            self._begin()
            for place, event in enumerate(log[1:], start=1):
                self._follow(event_of(event, place), place)
        except BaseException:
            self._rule, self.state = before
            raise

    def _follow(self, event: Event, place: int) -> None:
        """Let an event of a log happen again."""
        match event:
            case Asked(arms):
                asked = self.next_arms(len(arms))
                if self.state.log[-1] != event:
                    raise InvalidInput(
                        f"event {place} of `log` asked for {reprlib.repr(arms)} where this learner asks for "
                        f"{reprlib.repr(asked)}; the log was changed before that event, or written by another version. "
                        "Replay the log as it was, and change results by `correct` and `void`."
                    )
            case Told(arm, reward, ask):
                self.tell(arm, reward, ask=ask)
            case Failed(arm, ask):
                self.fail(arm, ask=ask)
            case Audited(n):
                self.audit(n)
            case Voided() | Corrected() | Restored():
                self.state.change(event)


def _n_asks(n: int) -> int:
    if not (type(n) is int and n >= 1):
        n = check_count("n", n, least=1)
    if n > MOST_ASKS:
        raise InvalidInput(f"`n` must be at most {MOST_ASKS:,}, got {n:,}; ask for further arms when needed.")
    return n


create_learner = Learner
"""`create_learner("rage", arms, delta=0.05, ...)` is a `Learner` with these arguments."""
