"""The learner: asks for arms, takes in results, decides.

A learner is a fold over its log: the same log gives the same state bit for bit. A learner reads no clock, no file and
no global random state. Time runs in *blocks*. When a block opens, the sampler plans it from all results so far; from
then on the arms of the block depend on no reward. The rule judges a block once all its asks are told and all blocks
before it are settled. The rule uses the results of the block and the results known before it. A batch within a block
is therefore exact, and workers that never wait only plan from older data.

You can correct a result or declare it void. The state is then what the log gives with the corrected values. Arms and
blocks stay as they happened (docs/guarantee.md, "Corrections").
"""

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Unpack, final

import numpy as np

from surepick._texts import counted
from surepick.algorithms import as_algorithm, check_options
from surepick.algorithms.options import unsupported
from surepick.arms.views import Task, arms_given, costs_given, views
from surepick.core.checks import check_count, written
from surepick.core.design.targets import Target
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import one_blas_thread
from surepick.errors import InvalidInput
from surepick.learning import events
from surepick.learning.blocks import Plans
from surepick.learning.events import Entry, Event, History, check_start, edition_of, entry_of, event_of, n_earlier
from surepick.learning.groups import group_label, refuse_relabelling
from surepick.learning.reader import Reader
from surepick.learning.result import Result, result_of
from surepick.learning.settlement import Setting, Settlement
from surepick.learning.snapshot import Algorithm, Ask, Decision, Snapshot
from surepick.learning.spec import Spec, TaskOptions, takes_options
from surepick.learning.state import LearnerState
from surepick.sampling.base import Follows, JoinedBlocks, Sampler
from surepick.stopping.base import CLAIMS, Rule
from surepick.stopping.betting import Betting, has_sets
from surepick.types import Arm, Array, ResultNumber

MOST_ASKS = 10_000_000
"""Most asks in one batch; a larger batch does not fit into memory."""

GUIDED = ", earlier=guidance"
"""Part of the identity of a learner that has results from before the first ask and takes them as guidance."""


@final
class Learner:
    """One algorithm at work on one set of arms.

    Args:
        algorithm: a name, or an object.
        arms: the arms that may be pulled.
        candidates: the arms that are compared, if not `arms`.
        options: see `Spec`.
    """

    rule: Rule
    """The stopping rule."""
    _composition: Algorithm

    @one_blas_thread
    @takes_options
    def __init__(
        self, algorithm: str | Algorithm, arms: Any, *, candidates: Any = None, **options: Unpack[TaskOptions]
    ) -> None:
        check_options(options, algorithm, Learner.__init__)
        self.called: Callable[[ResultNumber], int] = int
        """Maps the number of a measurement to the number that users see; a study has its own numbers."""
        self.spec = spec = Spec.of(algorithm, options)
        self._composition, self.algorithm = as_algorithm(algorithm, dict(spec.own))
        self.noise_model = noise = spec.noise_model
        self.noise, self.noise_std, self.reward_range, self.is_binary = (
            noise.name, noise.std, noise.reward_range, noise.is_binary,
        )  # fmt: skip
        self.delta, self.epsilon, self.misfit, self.seed = spec.delta, spec.epsilon, spec.misfit, spec.seed
        self.m, self.budget, self.model, self.earlier = spec.m, spec.most_pulls, spec.model, spec.earlier
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
            needs_order=noise.needs_order,
            model=spec.model,
            batch=spec.batch,
            spends_all=spec.goal == "fixed-budget",
            budget=self._most_pulls(),
            has_offsets=spec.has_offsets,
            drift=spec.drift,
            edition=spec.edition,
            target=self._target(),
            pool=spec.n_items,
        )
        self._begin()

    def _most_pulls(self) -> int | None:
        """Return how many pulls the budget allows; None if there is none, or arms differ in what they cost."""
        most, costs = self.budget, self.costs if self.spec.rounds is None else None
        if most is None or (costs is not None and np.ptp(costs) > 0.0):
            return None
        return int(most if costs is None else most / costs[0])

    def _target(self) -> Target | None:
        """Return what candidates are held against; a control without a name may be a row number as text."""
        spec, control = self.spec, self.spec.control
        if control is None:
            return None if spec.threshold is None else Target(spec.threshold, None, spec.calls)
        if isinstance(control, str) and self.candidates.names is None and control.isdecimal():
            control = int(control)
        try:
            return Target(0.0 - spec.margin, int(self.candidates.number_of(control)), spec.calls)
        except InvalidInput as error:
            raise InvalidInput(str(error).replace("`arm`", "`control`")) from None

    @property
    def has_sets(self) -> bool:
        """Whether accounts of sets decide."""
        return isinstance(self.rule, Betting) and has_sets(self.task)

    def _begin(self) -> None:
        if why := unsupported(self._composition, self.algorithm, self.task):
            raise InvalidInput(why)
        sampler, self.rule = _parts(self._composition.compose(self.task), self.algorithm)
        if why := self.rule.unsupported(self.task):
            raise InvalidInput(why)
        if self.rule.plans_budget:  # it spends the budget by itself, and then stops with its own answer
            self.task = replace(self.task, spends_all=False)
        batch, least = self.task.batch, self.rule.min_block(self.task)
        if batch is not None and batch < least:
            raise InvalidInput(
                f"`batch` must be at least {least}, the fewest pulls that stopping={self.rule.name!r} can judge with "
                f"{counted(self.measured_arms.dim, 'feature')}, got {batch}; take larger batches."
            )
        if self.task.needs_order and not self._shuffles:
            option = "`drift`" if self.task.drift > 0.0 else f'noise="{self.noise}"'
            raise InvalidInput(f'{option} needs blocks in random order: leave out variant="paper" and edition=1.')
        least = self.rule.min_block(self.task)
        # A sampler that follows plans keeps to the length by itself. Logs of earlier releases go on as they began.
        is_paired = self.task.has_offsets  # pairs have their own lengths
        if least > 1 and self.task.edition > 1 and not (is_paired or isinstance(sampler, Follows)):
            sampler = JoinedBlocks(sampler, self.task.rows, least, is_plan=self.noise_model.is_repeated)
        sampler = self.noise_model.sampler(sampler, self.measured_arms.dim)
        setting = Setting(self.task, self.rule, self.noise_model, self.earlier, self.spec.items)
        costs = None if self.spec.rounds is not None else self.costs  # rounds are counted, not priced
        plans = Plans(sampler, self.task, self.rule, costs, self.budget, shuffles=self._shuffles)
        self.state = LearnerState(setting, plans)
        """What the events add up to; a study proposes and applies its events here."""
        self._read_at: tuple[Settlement, int, int] | None = None
        """State, events and plans at which `_reader` was made."""

    @property
    def _shuffles(self) -> bool:
        """Whether the arms of a block are asked in random order: not where a publication says the order."""
        rule, is_paper = self.rule, getattr(self._composition, "variant", "practical") == "paper"
        return self.task.edition > 1 and rule.needs_fixed_blocks and rule.takes_corrections and not is_paper

    @property
    def identity(self) -> str:
        """Everything beside the events that the state depends on: algorithm, options, and the content of the arms.

        `earlier="guidance"` is part of it once there are results from before the first ask. Logs of earlier versions,
        where such results were evidence, do not name `earlier`.
        """
        return self._identity(is_guided=self.earlier == "guidance" and n_earlier(self.state.log) > 0)

    def _identity(self, *, is_guided: bool) -> str:
        edition = f", edition={self.task.edition}" if self.task.edition > 1 else ""
        return f"{self._description}{edition}{GUIDED if is_guided else ''}, seed={self.seed}"

    @cached_property
    def _description(self) -> str:
        """The identity without `edition`, `earlier` and `seed`."""
        own = "" if self.candidates is self.unscaled else f" for candidates {self.candidates.identity()}"
        return (
            f"{self.algorithm} {written(self._composition)} on arms {self.unscaled.identity()}{own}, "
            f"{self.spec.identity(self.costs)}"
        )

    # ---- asks and results so far

    @property
    def log(self) -> Sequence[Entry]:
        """All events in order; the first one holds the identity."""
        return (("start", self.identity), *self.state.log)

    @property
    def history(self) -> History:
        """The (arm, reward) pairs that count, with corrected values."""
        return History(self.log)

    @property
    def pending(self) -> Mapping[Any, int]:
        """Asks that are neither told nor failed, per arm: row number, or vector as a tuple."""
        return self._by_arm(self.state.ledger.pending)

    @property
    def counts(self) -> Mapping[Any, int]:
        """Results that count, per arm: row number, or vector as a tuple."""
        return self._by_arm(self.estimate.counts)

    def _by_arm(self, counts: Mapping[int, int]) -> dict[Any, int]:
        return {self.measured_arms.key_of(number): n for number, n in counts.items()}

    @property
    def n_asked(self) -> int:
        """Asks so far, which is the number of the next new ask; a repeated ask counts once."""
        return self.state.ledger.n_asked

    @property
    def n_planned(self) -> int:
        """Asks left in the newest block, failed ones included: the largest batch that costs no extra pulls.

        0: the next ask opens a block.
        """
        return self.state.ledger.n_planned

    @property
    def estimate(self) -> LeastSquares:
        """Least squares of all results that count, in whitened coordinates; do not change it."""
        return self.state.settled.estimate

    @property
    def theta(self) -> Array:
        """Estimated coefficients in your coordinates; raises `NotEnoughData` before the pulled arms span."""
        return self.measured_arms.theta_to_user(self.estimate.theta)

    # ---- events

    def next_arms(self, n: int = 1, *, group: Any = None) -> list[Any]:
        """Return the next n arms to pull, in order: row numbers, or vectors (d,) of a set of vectors.

        A `budget` may end the list early; once the budget is spent, the list is empty. Asks beyond the block open the
        next block, planned from the results so far: many workers need not wait.

        Args:
            n: number of arms.
            group: where and when they will be measured, a text such as "day 3" or {"day": 3, "bench": "B"}. Their
                results then have this label. An arm whose ask failed is asked for again with the new label.
        """
        label = () if group is None else group_label(group)
        return [self.measured_arms.arm_of(arm) for _, arm in self.state.ask(_batch_size(n), group=label)]

    def next_asks(self, n: int = 1, *, group: Any = None) -> list[Ask]:
        """Return the next n arms as `next_arms` does, each with the number that `tell` and `fail` accept."""
        label = () if group is None else group_label(group)
        asks, ledger = self.state.ask(_batch_size(n), group=label), self.state.ledger
        labels = [ledger.asked_label(number) if self.spec.items else label for number, _ in asks]
        arms = [self.measured_arms.arm_of(arm) for _, arm in asks]
        return [
            Ask(number, arm, own, self.spec.item_of(own))
            for (number, _), arm, own in zip(asks, arms, labels, strict=True)
        ]

    def tell(self, arm: Arm, reward: float, *, ask: int | Literal["none"] | None = None, group: Any = None) -> None:
        """Take in a result, asked for or not.

        Args:
            arm: the arm that was measured.
            reward: the measured value.
            ask: number of the ask that the result answers; "none" if it answers no ask. Default: the oldest ask of the
                arm without a result. The default is valid if the order in which asks of one arm are answered does not
                depend on the values: with one worker, or if small values take as long to measure as large ones.
            group: where and when it was measured, a text such as "day 3" or {"day": 3, "bench": "B"}. An ask that was
                made with a label keeps it; another one is refused. A label never depends on the value.
        """
        label = () if group is None else group_label(group)
        number = self.measured_arms.number_of(arm)
        reward = self.noise_model.checked("reward", reward, number)
        self.state.tell(number, reward, ask, self.state.answered_by(number, ask, label), label)

    def fail(self, arm: Arm, *, ask: int | None = None) -> None:
        """Give up a pending ask of an arm, the oldest unless you name its number; the learner asks for it again.

        Any reason is valid except the value itself: a broken plate, a time limit, even the values of other
        measurements. Tell every value that was seen. Leave out of the arms any arm that cannot be measured at all.
        """
        self.state.fail(self.measured_arms.number_of(arm), ask)

    def void(self, n: int, *, reason: str = "") -> None:
        """Take a result back, for example because the sample was mislabelled or the instrument was out of order.

        surepick works everything out again without the result, while arms and blocks stay as they happened. If the
        verdict no longer holds, it is withdrawn: `stopped` is False again, and sampling goes on.

        Valid if the choice of void and corrected results does not depend on the noise of their own block or of later
        blocks. Never void a result because of its value, of another value of its block, or of later results: dropping
        outliers gives wrong answers more often than delta. (docs/guarantee.md, Theorem 7.)

        Args:
            n: number of the measurement, from 0 in the order of telling (`history.numbers`). Void ones keep theirs.
            reason: for the log.

        Raises:
            InvalidInput: there is no such measurement, it is void already, or the rule does not allow corrections. The
                learner is then unchanged.
        """
        self.state.change(events.Voided(n, reason))

    def correct(self, n: int, value: float, *, reason: str = "", group: None = None) -> None:
        """Replace the value of a result, under the condition of `void`; the last correction counts.

        The wrong value may have any cause: it has only steered which arms were measured next. A label stays as it is:
        `group` is refused.
        """
        refuse_relabelling(group)
        self.state.change(events.Corrected(n, value, reason))

    def restore(self, n: int, *, reason: str = "") -> None:
        """Let a void result count again with its last value, under the condition of `void`."""
        self.state.change(events.Restored(n, reason))

    def audit(self, n: int | Literal["auto"] = "auto", *, follows: bool = False) -> int:
        """Plan check pulls of the model after the verdict, spread evenly over all arms; return their number.

        Check pulls test arms that a good design need not measure. If they contradict the model, the verdict is
        withdrawn (`model_check`, `decision.guarantee`).

        Args:
            n: number of check pulls; "auto": enough to show a misfit of half the lead, which could make the answer
                wrong, but at most twice the pulls so far or twenty of every arm that is checked.
            follows: whether a log that had its verdict is followed; sums may be rounded differently here.
        """
        arms = self.state.propose_audit(n, lambda: self.reader.enough_checks, follows=follows)
        self.state.audit(arms)
        return len(arms)

    def replay(self, log: Sequence[Entry]) -> None:
        """Start afresh and go through a log; the state is then that of the learner that wrote it, bit for bit.

        The learner takes on the edition of the log, see `Spec`: a log of an earlier release goes on as it began.

        To change results in a log, call `correct` and `void`. An edited log is refused where this learner, told the
        edited results, asks for other arms. An edit that changes no later ask goes unnoticed.

        Raises:
            InvalidInput: the log belongs to other arms or options, or holds an entry that is no event or cannot have
                happened. The learner is then unchanged.
        """
        before = self.rule, self.state, self.task, self.spec
        if (edition := edition_of(log)) is not None:
            self.task, self.spec = replace(self.task, edition=edition), replace(self.spec, edition=edition)
        try:
            check_start(log, self._identity, self.earlier)
            self._begin()
            for place, event in enumerate(log[1:], start=1):
                self._follow(event_of(event, place), place)
        except BaseException:
            self.rule, self.state, self.task, self.spec = before
            raise

    def _follow(self, event: Event, place: int) -> None:
        """Apply an event of a log."""
        match event:
            case events.Asked(arms, group):
                asked = self.next_arms(len(arms), group=group)
                if self.state.log[-1] != entry_of(event):
                    raise InvalidInput(
                        f"event {place} of `log` asked for {reprlib.repr(arms)} where this learner asks for "
                        f"{reprlib.repr(asked)}; the log was changed before that event, or written by another version. "
                        "Replay the log as it was, and change results by `correct` and `void`."
                    )
            case events.Told(arm, reward, ask, group):
                self.tell(arm, reward, ask=ask, group=group)
            case events.Failed(arm, ask):
                self.fail(arm, ask=ask)
            case events.Audited(n):
                self.audit(n)
            case events.Voided() | events.Corrected() | events.Restored():
                self.state.change(event)

    # ---- the answer

    @property
    def stopped(self) -> bool:
        """Whether the rule has stopped; for good, unless a correction withdraws the verdict."""
        return self.state.stopped

    @property
    def reader(self) -> Reader:
        """All numbers that describe the present state; kept until the next event."""
        settled = self.state.settled  # another one if the evidence before the first ask is another
        at = settled, len(self.state.log), self.state.ledger.n_opened
        if self._read_at != at:
            self._reader, self._read_at = Reader(self, settled), at
        return self._reader

    @property
    def decision(self) -> Decision:
        """The leader, its evidence and the guarantee; may scan the candidates. In a loop, read `stopped` instead."""
        return self.reader.decision

    @property
    def snapshot(self) -> Snapshot:
        """One frozen record of everything that surepick shows; scans the candidates twice."""
        return self.reader.snapshot

    def expected_remaining(self) -> float:
        """Return an estimate of the pulls still needed: rough early on, and inf while nothing is known.

        By draws of the posterior (docs/before-the-verdict.md); `snapshot` has its range too. Never part of the rule.
        """
        return self.reader.remaining.pulls

    def epsilon_bound(self) -> float:
        """Return the largest possible loss of the leader, valid with probability 1 - delta at all times together.

        With m > 1: the largest loss of any leader to a candidate that is not a leader. From the evidence mixture with V
        the identity of whitened coordinates, for any rule; one scan. inf before the pulled arms span, while the noise
        is unknown, and with an allowed `misfit`. Results before the first open ask enter (`Reader.estimate`), while all
        results decide which arm leads.
        """
        return self.reader.epsilon_bound

    def result(self, *, interrupted: bool = False) -> Result:
        """Return the present state as a `Result`, as `identify` does."""
        return result_of(self, self.reader, interrupted=interrupted)


def _parts(composed: Any, algorithm: str) -> tuple[Sampler, Rule]:
    """Return what `compose` of an algorithm returned, if it is a sampler and a rule."""
    if isinstance(composed, tuple) and len(composed) == 2:
        sampler, rule = composed
        for part, its_place in ((sampler, "sampler"), (rule, "rule")):
            if isinstance(part, type):
                raise InvalidInput(
                    f"`compose` of {algorithm} must return objects, got the class {part.__name__} as the {its_place}; "
                    f"write `{part.__name__}(...)`."
                )
        lacks = [name for name in ("open", "next", "pulls_per_nat") if not callable(getattr(sampler, name, None))]
        if not lacks and callable(getattr(rule, "start", None)):
            if (claim := getattr(rule, "guarantee", None)) not in CLAIMS:
                known = ", ".join(map(repr, CLAIMS))
                raise InvalidInput(f"`guarantee` of {type(rule).__name__} must be one of {known}, got {claim!r}.")
            return sampler, rule
        said = f"a sampler without `{lacks[0]}`" if lacks else f"{type(rule).__name__} in the place of the rule"
    else:
        said = f"a {type(composed).__name__}"
    raise InvalidInput(
        f"`compose` of {algorithm} must return a sampler and a stopping rule, got {said}; subclass "
        "`surepick.sampling.base.Sampler` with methods `open` and `next`, and return it with a rule such as "
        "`surepick.stopping.Betting()`."
    )


def _batch_size(n: int) -> int:
    if n == 1 and type(n) is int:  # nearly always
        return n
    if (n := check_count("n", n, least=1)) > MOST_ASKS:
        raise InvalidInput(f"`n` must be at most {MOST_ASKS:,}, got {n:,}; ask for further arms when needed.")
    return n


create_learner = Learner
"""`create_learner("rage", arms, delta=0.05, ...)` is a `Learner` with these arguments."""
