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
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike

from surepick import stopping
from surepick.algorithms import as_algorithm
from surepick.arms.views import Task, WhitenedArms, as_rows
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
from surepick.core.noise import is_contradicted, noise_to_assume
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
from surepick.learning.margin import Recorder
from surepick.learning.model import ModelCheck, check_allowed, check_arms, enough_checks
from surepick.learning.result import Result, result_of
from surepick.learning.snapshot import Algorithm, Arm, Ask, Decision
from surepick.learning.state import LearnerState, Setting, Settlement
from surepick.learning.validation import Rewards, arms_given, check_several, check_suited, costs_given, views
from surepick.sampling.base import SubBlocks
from surepick.stopping.base import Rule
from surepick.types import Array, BoolArray, Guarantee, IntArray

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
        self.state = LearnerState(setting, Plans(sampler, self.task, self._rule, self.costs, self.budget))
        """What the events add up to; studies propose and apply events by it."""

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
    def bounding_estimate(self) -> LeastSquares:
        """The estimate that intervals are around: of the results before the first ask that is still open.

        Under the betting rule the time of a result may depend on its value, so a result that was asked for after an
        open ask counts here once that ask is answered. Nothing is left out for rules that decide after every pull,
        nor with one worker. As long as these results do not span, the estimate of all, and no intervals.
        """
        prefix = self._known.prefix()
        return prefix if prefix.has_theta else self.estimate

    @property
    def bounding_noise_std(self) -> float | None:
        """The scale for intervals: what was given; None if it is one level that is learnt.

        Infinite where nothing is proved: levels are many or the law is unknown, noise does not look normal, means are
        allowed to be off their linear fit, arms may have been chosen after a look at results that would count here, or
        `bounding_estimate` has too few results.
        """
        has_none = self.noise != "same" or self.misfit > 0.0 or self.is_guided or self.noise_doubt != ""
        return math.inf if has_none or not self._known.prefix().has_theta else self.noise_std

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
        reward = self._rewards.checked("reward", reward, number)
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
    def path(self) -> tuple[tuple[int, float, float], ...]:
        """How evidence grew: pulls, evidence and target when the rule looked, a few dozen times in all."""
        return tuple(self._known.path)

    @property
    def planned(self) -> dict[Any, float]:
        """Share of the pulls before the newest interval that the designs wanted for each arm, if there are any."""
        wanted = self._plans.wanted_before(self.estimate.n_pulls)
        total = sum(wanted.values())
        return {self.measured_arms.key_of(arm): n / total for arm, n in wanted.items() if n > 0.0}

    def survivors(self) -> IntArray | None:
        """Return the candidates not excluded, by row number: a 1 - delta confidence set for the best.

        With slack it is one for a candidate that loses at most epsilon. Until they decide, rules other than betting
        exclude nobody, and neither does a claim that is doubtful or withdrawn. None where candidates cannot be listed.
        """
        if not self.candidates.is_local:
            return None
        rows, decision = as_rows(self.candidates), self.decision
        if decision.best is None or decision.guarantee in ("doubtful", "withdrawn", "none"):
            return np.arange(rows.n_arms)
        if decision.stopped:
            return np.sort(np.concatenate([rows.copies(leader) for leader in self.leaders()]))
        left = self._known.state.survivors(self.leaders()[0])
        return np.arange(rows.n_arms) if left is None else np.flatnonzero(left)

    @property
    def rule(self) -> Rule:
        """The stopping rule."""
        return self._rule

    @property
    def stopped(self) -> bool:
        """Whether the rule has stopped; for good, unless a correction withdraws the verdict."""
        return self._known.stopped

    @property
    def decision(self) -> Decision:
        """What the rule says now; a pass over the candidates if its last check could do without one.

        Loops that only need to know whether to go on should ask `stopped`, which costs nothing.
        """
        verdict = self._known.verdict_to_show()
        leaders, rival = self.rivalry()
        return Decision(
            best=(leaders if self.m > 1 else leaders[0]) if leaders else None,
            stopped=verdict.stopped,
            evidence=verdict.statistic if verdict.leader is not None else 0.0,
            target=verdict.threshold,
            unit=verdict.unit,
            rule=self._rule.name,
            guarantee=self._guarantee(),
            n_pulls=self.estimate.n_pulls,
            rival=rival,
            exact=not verdict.is_bound,
        )

    def rivalry(self) -> tuple[list[Arm], Arm | None]:
        """Return who leads, the best first, and who is hardest to tell from the last of them, if the rule knows.

        The same as in `decision`, which also looks whether anything contradicts what was assumed; that takes longer.
        """
        verdict = self._known.verdict_to_show()
        rival = None if verdict.rival is None or verdict.stopped else self.candidates.arm_of(verdict.rival)
        return [self.candidates.arm_of(leader) for leader in self._known.leading(verdict)], rival

    def _guarantee(self) -> Guarantee:
        # Whoever allows for misfit knows that means are not exactly linear, and more is not tested.
        if (self.model_check == "contradicted" and self.misfit == 0.0) or self.noise_contradicted or self.repeats:
            return "withdrawn"
        # A proof for pulls that depend on no reward does not cover results whose arms somebody else chose.
        if self._rule.is_fixed_design and not self._known.is_own:
            return "none"
        is_claimed = self._rule.guarantee in ("proved", "published")
        return "doubtful" if is_claimed and self.noise_doubt else self._rule.guarantee

    @property
    def noise_contradicted(self) -> bool:
        """Whether the rewards scatter more than the `noise_std` given allows."""
        return self.noise_std is not None and is_contradicted(self._known.prefix(), self.noise_std, self.misfit)

    @property
    def noise_doubt(self) -> str:
        """What speaks against the normal noise of one level that a proof without `noise_std` assumes, in plain words.

        "" if nothing does. Normal noise of one level is doubted in less than one run in a hundred, however often one
        looks.
        """
        return self._known.model.doubt()

    @property
    def n_residuals(self) -> int | None:
        """How many residuals the shape of the noise was looked at by; None where the proof asks for no shape."""
        return self._known.model.n_residuals

    @property
    def model_check(self) -> ModelCheck:
        """Whether rewards follow the features: "contradicted" although they do at most once in a hundred learners."""
        return "contradicted" if self.repeats else self._known.model.check

    @property
    def repeats(self) -> bool:
        """Whether results repeat each other to the last digit, so that they are no measurements of their own."""
        return self._known.repeats

    @property
    def coarseness(self) -> float:
        """Step of the readings, if noise that is learnt is smaller than it; else 0. inf: all readings are equal."""
        return self._known.coarseness

    @property
    def n_checks(self) -> int:
        """Check pulls of the model told after the verdict."""
        return self._known.model.n_checks

    def explain_misfit(self) -> str:
        """Say in plain words which constant, measurement or arms do not fit; "" if nothing was measured."""
        return self._known.explain_misfit(self.called)

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
        if self.noise != "same":
            raise InvalidInput(f'an audit has no proof yet beside noise="{self.noise}"; give noise_std for each arm.')
        if not isinstance(self.measured_arms, WhitenedArms):
            raise InvalidInput(f"an audit needs a list of arms, got {self.measured_arms.description}; leave it out.")
        if self.state.checks:
            raise InvalidInput(f"{len(self.state.checks)} check pulls are planned already; measure them first.")
        if n == "auto":
            stds = self._rewards.stds
            noise_std = self._known.noise * (1.0 if stds is None else math.sqrt(float(np.mean(stds**2))))
            n = enough_checks(self.measured_arms, noise_std, self.lead(), 2 * self.estimate.n_pulls)
        return check_arms(self.measured_arms, check_count("n", n, least=1), self.seed)

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
        if self.n_undecidable():
            return math.inf
        missing = max(decision.target - decision.evidence, 0.0)
        per_nat = self._plans.sampler.pulls_per_nat() if decision.unit == "nats" else math.inf
        if math.isinf(per_nat) and decision.evidence > 0.0:
            return missing * decision.n_pulls / decision.evidence  # no plan to go by: as fast as so far
        return missing * per_nat * self._known.noise**2

    def n_undecidable(self) -> int:
        """Return how many candidates cannot be rejected by pulls like the last ones, however many.

        The leader is ahead of them by no more than what `misfit` allows a plan like the present one to be off.
        """
        return self._known.state.n_undecidable(self.estimate) if self.misfit > 0.0 and not self.stopped else 0

    @one_blas_thread
    def epsilon_bound(self) -> float:
        """Return how much the leader can be losing at most, with probability 1 - delta for all times together.

        Of several leaders: how much any of them can be losing to one that is not among them.

        From the evidence mixture with V the identity of whitened coordinates, whatever rule decides; one scan.
        inf before the pulled arms span, while nothing is known of the noise, and where a `misfit` is allowed for.
        Rests on `bounding_estimate`, whoever leads by all results.
        """
        estimate = self.bounding_estimate
        noise_std, delta = noise_to_assume(estimate, self.bounding_noise_std, self.delta)
        if not (estimate.has_theta and math.isfinite(noise_std)):
            return math.inf
        if self.m == 1:
            return self.candidates.largest_loss(self.leaders()[0], estimate, delta=delta, noise_std=noise_std)
        rows, outside = as_rows(self.candidates), self._outside()
        return max(
            rows.largest_loss(leader, estimate, delta=delta, noise_std=noise_std, among=outside)
            for leader in self.leaders()
        )

    def result(self, *, interrupted: bool = False) -> Result:
        """Return what is known now, in the form that `identify` gives."""
        return result_of(self, interrupted=interrupted)

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
