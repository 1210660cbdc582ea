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
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike

from surepick import stopping
from surepick.algorithms import as_algorithm
from surepick.arms.views import Task, WhitenedArms
from surepick.core.betting.block import Block
from surepick.core.checks import (
    check_count,
    check_delta,
    check_epsilon,
    check_misfit,
    check_number,
    check_seed,
    written,
)
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import one_blas_thread, row_digest
from surepick.errors import InvalidInput
from surepick.learning.blocks import Plan, Plans
from surepick.learning.events import Correction, Event, History, n_earlier
from surepick.learning.model import check_allowed, check_arms, enough_checks
from surepick.learning.result import Recorder, Result, result_of
from surepick.learning.snapshot import Algorithm, Arm, Ask, Decision, Reader, Snapshot
from surepick.learning.state import LearnerState, Setting, Settlement
from surepick.learning.validation import Rewards, arms_given, check_several, check_suited, costs_given, views
from surepick.sampling.base import SubBlocks
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
        delta: risk.
        noise_std: sub-Gaussian scale of the noise, or a list of one for each arm; None: Gaussian noise of a level that
            is learnt on the way.
        noise: if it is learnt, whether its level is the "same" for all arms, or differs: "per-arm"; or "symmetric" if
            the noise need not be Gaussian either. Betting alone can do with the last two.
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
        earlier: what results are that are told before the first ask. "guidance" (default): plans and bets may rest on
            them, and no claim does, so arms and options may have been chosen after a look at them. Rules that count
            every result, such as evidence, refuse them. "evidence": they count. Say so only if arms, candidates and
            every option were fixed before the first of these results was seen; each arm was chosen from results before
            it; none is left out; in the order of measuring (docs/guarantee.md, Theorem 24).
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
        noise: Literal["same", "per-arm", "symmetric"] = "same",
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
        earlier: Literal["evidence", "guidance"] = "guidance",
        **options: Any,
    ) -> None:
        if earlier not in ("evidence", "guidance"):
            raise InvalidInput(f'`earlier` must be "evidence" or "guidance", got {reprlib.repr(earlier)}.')
        self.earlier = earlier
        self.called: Callable[[int], int] = int
        """From the number of a measurement to what users call it by; a study has numbers of its own."""
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
        self.measured_arms, self.unscaled, self.candidates = seen.measured, seen.arms, seen.candidates
        self.task = Task(
            arms=self.measured_arms,
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
        sampler, self._rule = self._composition.compose(self.task)
        if not (self.candidates.is_enumerable or self._rule.takes_vectors):
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
        if self.noise != "same":
            if self.budget is not None:
                raise InvalidInput(
                    f'`budget` cannot end a plan that is repeated; leave it out beside noise="{self.noise}".'
                )
            if not self._rule.takes_unequal_noise:
                raise InvalidInput(
                    f'noise="{self.noise}" has no proof for stopping={self._rule.name!r}; use "betting", or give '
                    "noise_std for each arm."
                )
            sampler = SubBlocks(sampler, self.measured_arms.dim)
        setting = Setting(self.task, self._rule, self._rewards, self.noise, self.earlier)
        self._state = LearnerState(setting, Plans(sampler, self.task, self._rule, self.costs, self.budget))
        self._read_at: tuple[LearnerState, int, int] | None = None
        """State, events and plans that `_reader` is of."""

    @property
    def _log(self) -> list[Event]:
        return self._state.log

    @property
    def _plans(self) -> Plans:
        return self._state.plans

    @property
    def _known(self) -> Settlement:
        """What follows from the values of all results so far."""
        return self._state.settled

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
        return self._identity(is_guided=self.earlier == "guidance" and n_earlier(self._log) > 0)

    def _identity(self, *, is_guided: bool) -> str:
        return f"{self._description}{GUIDED if is_guided else ''}, seed={self.seed}"

    @cached_property
    def _description(self) -> str:
        """All of it but what results told before the first ask are, and the seed."""
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
            f"delta={self.delta!r}, {bounds}{unequal}noise_std={noise}, epsilon={epsilon}"
        )

    @property
    def given_noise_std(self) -> float | Array | None:
        """What was given: one number, one for each arm (K,), or None. `noise_std` is 1, in units of these, if many."""
        return self.noise_std if self._rewards.stds is None else self._rewards.stds

    @property
    def is_guided(self) -> bool:
        """Whether there are results that guide plans and bets and are no evidence: arms may be chosen after them."""
        return self.earlier == "guidance" and self._state.n_earlier > 0

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
        return self._by_arm(self._state.ledger.pending)

    @property
    def n_pending(self) -> int:
        """Their number."""
        return self._state.ledger.pending.total()

    @property
    def n_asked(self) -> int:
        """Asks so far, those made again counted once: the number of the next one."""
        return self._state.ledger.n_asked

    @property
    def n_told(self) -> int:
        """Results so far, those void included: the number of the next one."""
        return len(self._state.results)

    def arm_asked(self, ask: int) -> int | None:
        """Return the number of the arm that the ask with this number is of; None if it has its result."""
        return self._state.ledger.arm_of(ask)

    def awaits(self, ask: int) -> bool:
        """Whether the ask with this number has no result yet, be it pending or failed."""
        return self._state.ledger.awaits(ask)

    @property
    def checks(self) -> tuple[int, ...]:
        """Arms of check pulls that are planned and not asked for, by number."""
        return tuple(self._state.checks)

    @property
    def is_checking(self) -> bool:
        """Whether the newest interval is one of check pulls."""
        return self._state.ledger.is_checking

    @property
    def n_planned(self) -> int:
        """Asks left in the newest interval, failed ones included: so large a batch loses nothing. 0: the next plans."""
        return self._state.ledger.n_planned

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

        Always n, unless a `budget` ends: then fewer, and none once it is spent. Asks beyond the interval open the next
        one, planned from the results so far: many workers need not wait.
        """
        return [self.measured_arms.arm_of(arm) for _, arm in self._ask(n)]

    def next_asks(self, n: int = 1) -> list[Ask]:
        """Return the same with the numbers by which `tell` and `fail` may name them."""
        return [Ask(number, self.measured_arms.arm_of(arm)) for number, arm in self._ask(n)]

    def next_numbers(self, n: int = 1, arms: Sequence[int] = ()) -> list[int]:
        """Return their numbers alone: for who knows the arms, from a log.

        Those of a block are in its plan. `arms` are followed where asks belong to none, as after the last plan.
        """
        return [number for number, _ in self._ask(n, arms)]

    def peek(self, n: int) -> list[Ask]:
        """Return the next asks, n or as many as the newest block has, without making them."""
        return [Ask(number, self.measured_arms.arm_of(arm)) for number, arm in self._state.next_asks(n)]

    def _ask(self, n: int, arms: Sequence[int] = ()) -> list[tuple[int, int]]:
        """Return the numbers of the next n asks and of their arms, which may be known."""
        if not (type(n) is int and n >= 1):
            n = check_count("n", n, least=1)
        if n > MOST_ASKS:
            raise InvalidInput(f"`n` must be at most {MOST_ASKS:,}, got {n:,}; ask for further arms when needed.")
        asks: list[tuple[int, int]] = []
        state = self._state
        while len(asks) < n:
            if not state.ledger.n_planned:
                if self.needs_plan:
                    self.plan()
                if self.is_spent and not state.checks:
                    break
            asks.append(state.ask(arms[len(asks)] if arms else None))
        if asks:
            state.log.append(("ask", tuple([self.measured_arms.key_of(arm) for _, arm in asks])))
        return asks

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
        return self._plans.has_ended and not self._state.ledger.n_planned

    @property
    def needs_plan(self) -> bool:
        """Whether the next ask opens an interval."""
        return self.can_plan and not self.stopped

    @property
    def can_plan(self) -> bool:
        """Whether an interval can open now, be there a verdict or not."""
        return self._state.ledger.needs_block and not self._plans.has_ended

    @one_blas_thread
    def plan(self, made: Plan | None = None, *, draws: bool = False, checks: bool = False) -> Plan:
        """Open the next interval, which `next_arms` does by itself when it `needs_plan`.

        Args:
            made: a plan from elsewhere that is to be followed: by another process with the same log, or on a machine
                whose sums are rounded differently. Any plan that was made before the interval's first result is valid.
            draws: whether to draw all arms of the interval now, to have them in the plan.
            checks: whether to find out if this learner would have planned the same (`plan_differs`).
        """
        state = self._state
        if made is None:
            made = state.propose_plan(draws=draws)
        elif made.first != state.ledger.n_asked:
            raise InvalidInput(
                f"the next interval begins with ask {state.ledger.n_asked}, got a plan that begins with {made.first}."
            )
        state.open(made, checks=checks)
        return made

    @one_blas_thread
    def propose_plan(self) -> Plan:
        """Return the plan of the next block with all its arms, which `plan` then adopts."""
        return self._state.propose_plan(draws=True)

    @property
    def is_proposing(self) -> bool:
        """Whether a plan was proposed and not adopted; the sampler is ahead of the log."""
        return self._plans.is_proposing

    def catch_up(self) -> None:
        """Let the sampler know plans that were followed, so that the next one is made without delay."""
        self._plans.catch_up()

    @property
    def plan_differs(self) -> bool:
        """Whether the last plan that was followed and checked is another than this learner would have made."""
        return self._plans.differs

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
        reward = self._rewards.checked("reward", reward, number)
        answered = self._state.ledger.find(number, ask)
        if answered is None and self._rule.is_fixed_design and not self.measured_arms.is_enumerable:
            raise InvalidInput(
                f"stopping={self._rule.name!r} rests on its own fixed design and cannot use an unsolicited result, "
                f'got one of arm {self.measured_arms.key_of(number)}; use stopping="evidence" for such results.'
            )
        if answered is None:
            self.check_earlier()
        key = self.measured_arms.key_of(number)
        self._state.log.append(("tell", key, reward) if ask is None else ("tell", key, reward, ask))
        self._state.tell(number, reward, answered, is_named=ask is not None)

    def check_earlier(self) -> None:
        """Refuse a result before the first ask where it may not count, if the rule could only count it."""
        if self.earlier == "guidance" and not (self.n_asked or self._state.ledger.n_opened):
            self.refuse_guidance()

    def refuse_guidance(self) -> None:
        """Refuse results that arms or options may have been chosen after, if the rule could only count them."""
        if self._state.counts_every_result:
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
        number = self.measured_arms.number_of(arm)
        name = self.measured_arms.key_of(number)
        if not self._state.ledger.fail(number, ask):
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
        self.change("void", n, reason=reason)

    def correct(self, n: int, value: float, *, reason: str = "") -> None:
        """Replace the value of a result that was told wrong, as `void` does and on the same condition.

        The wrong value may have come about in any way: it has only steered what was measured next.

        Args:
            n: number of the measurement, as for `void`.
            value: what was measured in truth. A result may be corrected again; then the last value counts.
            reason: for the log.
        """
        self.change("correct", n, value, reason=reason)

    def restore(self, n: int, *, reason: str = "") -> None:
        """Let a result count again that was declared void, as `void` does and on the same condition.

        Args:
            n: number of the measurement, as for `void`. It has the value that it had before it was void.
            reason: for the log.
        """
        self.change("restore", n, reason=reason)

    def change(self, kind: Correction, n: int, value: float | None = None, *, reason: str = "") -> None:
        """Void, correct or restore a result."""
        event, counts = self._correction(kind, n, value, reason)
        self._state.change(event[1], counts)
        self._log.append(event)

    def prepare(self, kind: Correction, n: int, value: float | None = None) -> None:
        """Work out what a correction would lead to, so that making it takes no time."""
        self._state.prepare(n, self._correction(kind, n, value, "")[1])

    def _correction(self, kind: Correction, n: int, value: float | None, reason: str) -> tuple[Event, float | None]:
        """Return a correction as the log has it, and what the result counts with then; None if it is void."""
        n, state = check_count("n", n, least=0), self._state
        if n >= len(state.results):
            raise InvalidInput(
                f"`n` must be the number of a measurement that was told, below {len(state.results)}, got {n}; they are "
                "numbered from 0 in the order of `history`."
            )
        is_void, arm, said, counts = state.values[n] is None, state.results[n].arm, tuple[float, ...](), None
        if kind == "restore":
            if not is_void:
                raise InvalidInput(f"measurement {n} is not void, so there is nothing to restore.")
            counts = state.value_before(n)
        elif kind == "correct":
            value = self._rewards.checked("value", value, arm)
            said, counts = (value,), self._rewards.scaled(arm, value)
        if kind != "restore" and is_void:
            raise InvalidInput(f"measurement {n} is void already; `restore` it, or tell a new result.")
        if not isinstance(reason, str):
            raise InvalidInput(f"`reason` must be a text, got {reprlib.repr(reason)}.")
        if not self._rule.takes_corrections:
            raise InvalidInput(
                f"stopping={self._rule.name!r} judges every result by the plan it was asked for, all of them together, "
                'and has no proof after a correction; use stopping="betting" with list(history), which guides it.'
            )
        return (kind, n, *said, *([reason] if reason else ())), counts

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
        return self._known.stopped

    @property
    def reader(self) -> Reader:
        """Everything that can be read off this learner now; kept until the next event."""
        at = self._state, len(self._log), self._state.ledger.n_opened
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
        self._state.plan_checks(n)
        self._log.append(("audit", n))
        return n

    def propose_audit(self, n: int | Literal["auto"], *, follows: bool = False) -> list[int]:
        """Return the arms of the check pulls that `audit` would plan, by number."""
        if not (follows or self.stopped):
            raise InvalidInput("an audit comes after the verdict, and there is none yet; go on until `stopped`.")
        if self.noise != "same":
            raise InvalidInput(f'an audit has no proof yet beside noise="{self.noise}"; give noise_std for each arm.')
        if not isinstance(self.measured_arms, WhitenedArms):
            raise InvalidInput(f"an audit needs a list of arms, got {self.measured_arms.description}; leave it out.")
        if self._state.checks:
            raise InvalidInput(f"{len(self._state.checks)} check pulls are planned already; measure them first.")
        if n == "auto":
            stds = self._rewards.stds
            noise_std = self._known.noise * (1.0 if stds is None else math.sqrt(float(np.mean(stds**2))))
            n = enough_checks(self.measured_arms, noise_std, self.reader.lead, 2 * self.estimate.n_pulls)
        return check_arms(self.measured_arms, check_count("n", n, least=1), self.seed)

    def later_blocks(self) -> Callable[[], list[Block]]:
        """Return a function that works out all blocks so far, check pulls after the verdict included, in order.

        The function goes through the results as they are now: later results and corrections do not change its answer.
        """
        recorder = Recorder(self.task)
        settle = self._state.settled_by(recorder)

        def blocks() -> list[Block]:
            settle()
            return recorder.blocks

        return blocks

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
        before = self._rule, self._state
        try:
            self._begin()
            for place, event in enumerate(log[1:], start=1):
                self._go_through(event, place)
        except BaseException:
            self._rule, self._state = before
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
            case ("restore", n, *reason) if len(reason) <= 1:
                self.restore(n, reason=reason[0] if reason else "")
            case _:
                raise InvalidInput(
                    f"event {place} of `log` must be ('ask', arms), ('tell', arm, reward), ('fail', arm), "
                    "('audit', n), ('void', n), ('correct', n, value) or ('restore', n), got "
                    f"{reprlib.repr(event)}; pass a log as `Learner.log` has it."
                )


create_learner = Learner
"""`create_learner("rage", arms, delta=0.05, ...)` is a `Learner` with these arguments."""
