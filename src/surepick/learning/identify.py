"""Identify: measure, learn and stop in one call, losing nothing when a measurement fails or the user interrupts."""

import inspect
import math
import reprlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Unpack, final

import numpy as np

from surepick.algorithms import check_options
from surepick.core.checks import check_count, check_number
from surepick.core.noise import noise_estimate
from surepick.errors import InvalidInput, ModelWarning, NoiseWarning, PullFailed, Skipped
from surepick.learning.assumptions import REPEATS_ADVICE, coarse
from surepick.learning.events import History
from surepick.learning.groups import GroupLabel, group_label
from surepick.learning.learner import Learner, create_learner
from surepick.learning.model import DRIFTS, check_audit
from surepick.learning.noise_models import looks_binary
from surepick.learning.questions import binary_words, learns_noise
from surepick.learning.result import Result, bare_result_of
from surepick.learning.snapshot import Algorithm, Arm, Decision, Snapshot
from surepick.learning.spec import TaskOptions, takes_options

ENOUGH_TO_DOUBT = 256
"""From this many results on, the shape of the noise is checked before the end too."""
# This many failures in a row are no accident: without a limit the loop would never end.
SKIPPED_IN_A_ROW = 1000
# Fewer readings may be equal by chance, or because few arms have been measured.
FEWEST_READINGS = 16
BETTER = "features that describe the rewards better."
# Readings that repeat each other never decide: after this many, further pulls are of no use.
ENOUGH_REPEATS = 256


@final
@dataclass(frozen=True, slots=True)
class Progress:
    """The argument of `on_pull`: the last pull and the decision after it."""

    arm: Arm
    """Its row number, or the vector where arms are vectors."""
    reward: float
    n_pulls: int
    """Rewards known, those of `history` included."""
    decision: Decision
    """The leader, its evidence and the target of the rule, and whether the rule has stopped."""
    _learner: Learner = field(repr=False, compare=False)

    @property
    def snapshot(self) -> Snapshot:
        """Everything that is shown: leader, rival, what stopping now would cost, the pulls still needed.

        Of the learner as it is now: read it inside `on_pull`. Costs two passes over all candidates.
        """
        return self._learner.snapshot

    def correct(self, n: int, value: float, *, reason: str = "") -> Decision:
        """Correct an earlier result as `Learner.correct` does, on the same condition; also later, inside `pull`.

        Return the decision then. If it has stopped, `pull` may raise `Skipped`, and nothing more is measured.
        """
        self._learner.correct(n, value, reason=reason)
        return self._learner.decision


@takes_options
def identify(
    arms: Any,
    pull: Callable[[Any], float | tuple[float, Any]],
    *,
    algorithm: str | Algorithm = "lazy-track-and-stop",
    candidates: Any = None,
    audit: int | Literal["auto"] = 0,
    max_pulls: int | None = None,
    history: Iterable[tuple[Any, float]] | None = None,
    on_pull: Callable[[Progress], object] | None = None,
    **options: Unpack[TaskOptions],
) -> Result:
    """Pull arms until it is clear which one is best, and return the result.

    Args:
        arms: what may be measured: `FiniteArms`, or whatever it accepts (array, data frame); arms in files
            (`MappedArms`) or on a cluster (`DaskArms`); or a set of vectors (`Sphere`, `Ellipsoid`, `Hypercube`,
            `TopK`).
        pull: measures an arm, given by its row number (by the vector itself where arms are vectors), and returns the
            reward, or a pair of the reward and where or when it was measured, such as (0.7, "day 3"). It may raise
            `Skipped` if the measurement was lost, for any reason but its value; the arm is asked for again later.
            With a `pool`, it is called with the arm and the item.
        algorithm: its name, see `surepick.algorithms.names()`, or an object such as `surepick.algorithms.Rage()`.
        candidates: what is compared, if not the arms: rows with the same features, never measured.
        audit: check pulls after the verdict, spread over all arms: a number, or "auto". "auto" makes enough to detect a
            misfit of half the lead, within limits (`Learner.audit`). If they contradict the model, the answer is
            withdrawn. They do not count in `max_pulls`.
        max_pulls: measure at most this often; rewards from `history` do not count. Then the result says what is known,
            with `stopped` False.
        history: what was measured before. The `result.history` of an earlier call with the same arms, seed and options:
            goes on exactly where that call was, failures and bets included; with others it is refused. Or plain
            (arm, reward) pairs, the arm by row number or by name: they guide plans and bets, and `earlier` says whether
            they are evidence too. Answers from several such calls share no delta, each has its own.
        on_pull: called with a `Progress` after each pull. To stop early, return False; any other value goes on.
        options: see `Spec`.

    Ctrl-C returns the result so far, with `interrupted` True.

    Raises:
        InvalidInput: an argument cannot be used. Nothing has been measured then.
        PullFailed: `pull` raised or returned something other than a finite number, or `on_pull` raised. The error
            carries the `arm` and, as `result`, all that was learnt before.

    Warns:
        NoiseWarning: the rewards scatter more than `noise_std` allows. If `noise_std` is right, that happens in at most
            one run in a million. The converse is no proof: a run that ends after hardly more pulls than features has
            no scatter to look at. Or `noise_std` is left out and the readings are too coarse: their steps are larger
            than the noise, or an arm gives the same reading every time, which is no evidence (after 256 such pulls the
            call ends without a verdict). Or all rewards are 0 or 1, and rewards="binary" is not given.
        ModelWarning: the rewards contradict a mean that is linear in the features, which happens in at most one run in
            a hundred if it is. `result.guarantee` is "withdrawn" then, in both cases.
        NoiseWarning: without `noise_std` and `reward_range`, residuals do not look like normal noise of one level.
            `result.guarantee` is "doubtful" then, and `result.noise_doubt` says why and what to do.

    Examples:
        >>> import numpy as np
        >>> mixtures = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])
        >>> rng = np.random.default_rng(0)
        >>> result = identify(mixtures, lambda arm: mixtures[arm] @ [1.0, 0.9] + 0.1 * rng.normal())
        >>> result.best, result.stopped
        (2, True)
    """
    check_options(options, algorithm, identify)
    if not callable(pull):
        raise InvalidInput(f"`pull` must be a function of a row number, got {reprlib.repr(pull)}; pass one.")
    if inspect.iscoroutinefunction(pull):
        raise InvalidInput(
            "`pull` must return a number, got an async function; `create_study(...)` and `study.optimize(pull, "
            "n_jobs=8)` take one."
        )
    if on_pull is not None and not callable(on_pull):
        raise InvalidInput(f"`on_pull` must be a function or None, got {reprlib.repr(on_pull)}; pass one.")
    if audit != "auto":
        audit = check_count("audit", audit, least=0)
    limit = math.inf if max_pulls is None else check_count("max_pulls", max_pulls, least=0)
    learner = create_learner(algorithm, arms, candidates=candidates, **options)
    if audit:
        check_audit(learner.noise_model, learner.arms, learner.task.pool)
        if learner.spec.goal == "fixed-budget":
            raise InvalidInput(f'`audit` must be 0 with goal="fixed-budget", which spends all pulls, got {audit!r}.')
    if isinstance(history, History):
        _replay(learner, history)
        history = None
    if pairs := _checked_history(history, learner):
        learner.state.check_earlier()
    return _Session(learner, pull, on_pull, audit).run(pairs, limit)


def _replay(learner: Learner, history: History) -> None:
    try:
        learner.replay(history.log)
    except InvalidInput as error:
        raise InvalidInput(
            f"`history` must be of the same arms, algorithm and options: {error} To let its rewards guide new bets, "
            "with a delta of their own, pass list(history)."
        ) from error
    for arm in Counter(learner.pending).elements():  # the caller that asked is gone; these arms are asked for again
        learner.fail(arm)


@final
class _Session:
    """One call of `identify`: the learner, and what to do when something goes wrong."""

    def __init__(
        self,
        learner: Learner,
        pull: Callable[[Any], float | tuple[float, Any]],
        on_pull: Callable[[Progress], object] | None,
        audit: int | Literal["auto"] = 0,
    ) -> None:
        self._learner, self._identity = learner, learner.identity
        """Read now: arms that can no longer be read later must not take the rewards with them."""
        self._pull: Callable[..., float | tuple[float, Any]] = pull
        self._on_pull, self._audit, self._has_items = on_pull, audit, bool(learner.spec.items)
        self._untold: tuple[Arm, Any] | None = None
        """An arm, and its reward on the way to the learner, alone or with a group."""
        self._n_pulled = 0
        """Measurements of this call, check pulls apart."""
        self._is_outside = False
        """Whether the user's code is running, so that the learner is in a sound state."""
        self._warned: set[type[Warning]] = set()

    def run(self, before: list[tuple[Any, float]], limit: float) -> Result:
        """Go through history, then pull until the rule stops, the limit is reached or the user has enough."""
        interrupted = False
        try:
            self._go(before, limit)
        except PullFailed:
            raise
        except Exception as error:
            raise self._blamed(error, "judging the results failed:") from error
        except KeyboardInterrupt:
            interrupted = True
            self._recover()
        try:
            return self._sum_up(interrupted=interrupted)
        except PullFailed:
            raise
        except Exception as error:
            raise self._blamed(error, "summing up failed:") from error
        except KeyboardInterrupt:
            if interrupted:  # the second time, the user means it
                raise
            return self._learner.result(interrupted=True)

    def _blamed(self, error: Exception, what: str, arm: Arm | None = None, link: str = "") -> PullFailed:
        """Return an exception that says what failed, "for" or "after" which arm, and carries what was learnt."""
        text = str(error).rstrip(".")
        said = f"{type(error).__name__} ({text})" if text else type(error).__name__
        return self._failed(f"{what} {said}{f' {link} {self._label(arm)}' if link else ''}", arm)

    def _go(self, before: list[tuple[Any, float]], limit: float) -> None:
        for arm, reward in before:
            self._tell(arm, reward)
        self._watch()
        # Again and again: a verdict may come in the middle of a block, whose rest is measured before check pulls,
        # and a correction may withdraw it.
        while self._goes_on(limit) and self._learner.stopped and self._audit and not self._learner.reader.n_checks:
            if not self._learner.n_planned:
                self._learner.audit(self._audit)
            if not self._goes_on(math.inf, is_check=True):
                break

    def _goes_on(self, limit: float, *, is_check: bool = False) -> bool:
        """Pull until the rule stops, or check pulls are made, or the limit is reached; whether the user goes on."""
        n_skipped = 0
        while (self._learner.n_planned if is_check else not self._learner.stopped) and self._n_pulled < limit:
            try:
                asked = self._next_item() if self._has_items else self._learner.next_arms()
            except Exception as error:
                raise self._blamed(error, "planning the next pull failed:") from error
            # By what `history` had to say, once it was clear that no more of it comes; or the budget is spent.
            if not asked or (self._learner.stopped and not is_check):
                break
            arm = asked[0]
            self._n_pulled += not is_check
            try:
                reward, group = self._measure(*asked)
            except Skipped:
                self._is_outside = False
                self._learner.fail(arm)
                n_skipped += 1
                if n_skipped == SKIPPED_IN_A_ROW:
                    raise self._failed(
                        f"{n_skipped:,} measurements in a row were skipped, the last of {self._label(arm)}; if "
                        "this arm cannot be measured, leave it out of the arms, and name it in `candidates`",
                        arm,
                    ) from None
                continue
            n_skipped = 0
            self._tell(arm, reward, group)
            # At powers of two: the cost of all checks together stays O(d) per pull.
            n_told = len(self._learner.state.results)
            if n_told & (n_told - 1) == 0:
                self._watch(arm)
                if n_told >= ENOUGH_REPEATS and self._learner.reader.repeats:
                    return False
            if not self._reports(arm, reward):
                return False
        return True

    def _next_item(self) -> list[Any]:
        """Return the next arm of a pool and its item; nothing if the budget is spent."""
        return [part for ask in self._learner.next_asks() for part in (ask.arm, ask.item)]

    def _measure(self, arm: Arm, *item: int | str) -> tuple[float, GroupLabel]:
        self._is_outside = True
        try:
            # In one step: an interrupt right after it must not lose the reward.
            self._untold = arm, self._pull(arm, *item)
        except Skipped:
            raise
        except Exception as error:
            raise self._blamed(error, "`pull` must return a number but raised", arm, "for") from error
        value = self._untold[1]
        label: GroupLabel = ()
        if not isinstance(value, float):  # nearly always it is
            value, group = with_group(value)
            try:
                label = group_label(group)
            except InvalidInput as error:
                said = "`pull` must return a group that is a label but raised"
                raise self._blamed(error, said, arm, "for") from error
        try:
            reward = check_number("reward", value, needed="one finite number", takes_booleans=self._learner.is_binary)
        except InvalidInput as error:
            said = f"`pull` must return one finite number but returned {reprlib.repr(value)} for {self._label(arm)}"
            if isinstance(value, bool | np.bool_):
                said += '; this looks like pass/fail: use rewards="binary"'
            raise self._failed(said, arm) from error
        self._is_outside = False
        return reward, label

    def _tell(self, arm: Arm, reward: float, group: GroupLabel = ()) -> None:
        self._untold = arm, (reward, group)
        try:
            self._learner.tell(arm, reward, group=group or None)
        except Exception as error:
            raise self._blamed(error, f"taking in the reward {reward!r} failed:", arm) from error
        self._untold = None

    def _reports(self, arm: Arm, reward: float) -> bool:
        """Tell the user about a pull; return whether to go on."""
        if self._on_pull is None:
            return True
        progress = Progress(arm, reward, self._learner.estimate.n_pulls, self._learner.decision, self._learner)
        self._is_outside = True
        try:
            answer = self._on_pull(progress)
        except Exception as error:
            raise self._blamed(error, "`on_pull` must not raise but raised", arm, "after") from error
        self._is_outside = False
        return not (isinstance(answer, bool | np.bool_) and not answer)

    def _sum_up(self, *, interrupted: bool) -> Result:
        self._watch()
        return self._learner.result(interrupted=interrupted)

    def _failed(self, what: str, arm: Arm | None) -> PullFailed:
        try:
            result = self._learner.result()
        except Exception:  # noqa: BLE001 - whatever it is, the rewards were paid for and must not be lost with it
            result = bare_result_of(self._learner)
        kept = f"Rewards kept: {result.n_pulls}. Look at `error.result`, or remove the cause and go on with "
        kept += "`identify(..., history=error.result.history)`."
        return PullFailed(f"{what}. {kept if result.n_pulls else 'There are no rewards to keep yet.'}", arm, result)

    def _label(self, arm: Arm) -> str:
        names = self._learner.measured_arms.names
        return f"arm {_key(arm)}" if names is None else f"arm {arm} ({names[arm]})"

    def _recover(self) -> None:
        """Bring a learner that was cut off in the middle of a step back to where its log says it is."""
        log = self._learner.log
        if not self._is_outside:
            self._learner.replay(log)
        if self._untold is not None:
            arm, (value, group) = self._untold[0], with_group(self._untold[1])
            if log[-1][:3] != ("tell", _key(arm), value):
                with suppress(InvalidInput):  # what `pull` returned was no reward
                    self._learner.tell(arm, value, group=group)

    def _watch(self, arm: Arm | None = None) -> None:
        """Warn of each assumption that the rewards contradict, once."""
        found = contradiction(self._learner, is_end=arm is None)
        is_binary = learns_noise(self._learner) and looks_binary([reward for _, reward in self._learner.history])
        if is_binary:  # a better reason than that readings are coarse, or that the model is wrong
            found = NoiseWarning, binary_words('rewards="binary"')
        if found is not None:
            self._warn(*found, arm)

    def _warn(self, kind: type[Warning], text: str, arm: Arm | None) -> None:
        """Warn once, in the line of the user's call."""
        if kind in self._warned:
            return
        self._warned.add(kind)
        level, frame = 1, inspect.currentframe()
        while frame is not None and frame.f_globals["__name__"] == __name__:
            level, frame = level + 1, frame.f_back
        try:
            warnings.warn(text, kind, stacklevel=level)
        except kind as warning:  # the user has made warnings errors
            raise self._failed(str(warning).rstrip("."), arm) from warning


def contradiction(learner: Learner, *, is_end: bool) -> tuple[type[Warning], str] | None:
    """Return the warning that the rewards give rise to: they contradict the noise given, the model, or normal noise.

    Args:
        learner: with all rewards so far.
        is_end: whether no pull follows. Few residuals say little before the end, and looking at them takes longer than
            most pulls.
    """
    seen = learner.reader
    void = f"The risk delta = {learner.delta:g} is not guaranteed then."
    if seen.noise_contradicted:
        cause, cure = "either the noise is larger, or the", "without noise_std, or "
        given, unit = f" but noise_std = {learner.noise_std:g} was given", ""
        if learner.reward_range is not None:
            cause, cure, given = "the", "", f" but their range allows {learner.noise_std:g} around their means"
        elif learner.measured_arms.stds is not None:
            cure, given, unit = "with larger noise_std, or ", "", " times the noise_std given"
        known = seen.estimate
        return NoiseWarning, (
            f"the rewards scatter around the fit by {noise_estimate(known):.3g}{unit} (from "
            f"{known.n_pulls} pulls){given}: {cause} mean reward is not linear in the features. "
            f"{void} {seen.misfit if seen.misfit == DRIFTS else f'Start again {cure}with {BETTER}'}"
        )
    if seen.repeats:
        return NoiseWarning, f"the rewards are no evidence. {seen.misfit} {void} {REPEATS_ADVICE}"
    if seen.model_check == "contradicted" and learner.misfit == 0.0:
        return (
            ModelWarning,
            f"the rewards contradict a mean that is linear in the features. {seen.misfit} {void}",
        )
    if seen.coarseness and learner.estimate.n_pulls >= FEWEST_READINGS:
        return NoiseWarning, coarse(seen.coarseness, noise_estimate(learner.estimate))
    if (is_end or learner.estimate.n_pulls >= ENOUGH_TO_DOUBT) and (doubt := seen.noise_doubt):
        return NoiseWarning, f"{doubt} {void}"
    return None


def with_group(answer: Any) -> tuple[Any, Any]:
    """Return what a function measured: the reward, and the group, None if it returned the reward alone."""
    return answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)


def _key(arm: Arm) -> Any:
    """Return an arm in a form that can be compared and written down: a row number, or a tuple of numbers."""
    return arm if isinstance(arm, int | tuple) else tuple(arm.tolist())


def _checked_history(history: Any, learner: Learner) -> list[tuple[Any, float]]:
    """Return the pairs with row numbers in place of names, and vectors as tuples."""
    if history is None:
        return []
    needed = '`history` must hold (arm, reward) pairs such as [("B7", 0.83), (4, 0.7)]'
    if isinstance(history, str | bytes) or hasattr(history, "columns") or not isinstance(history, Iterable):
        raise InvalidInput(f"{needed}, got a {type(history).__name__}; pass a list of pairs.")
    pairs = []
    for place, entry in enumerate(history):
        try:
            arm, reward = entry
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{needed}, got {reprlib.repr(entry)} at position {place}; pass a pair.") from error
        try:
            key = learner.measured_arms.key_of(learner.measured_arms.number_of(arm))
        except InvalidInput as error:
            is_one = "name one of" if learner.measured_arms.is_enumerable else "be an arm of"
            raise InvalidInput(
                f"`history` at position {place} must {is_one} {learner.measured_arms.description}: {error}"
            ) from error
        value = check_number(f"history[{place}][1]", reward, needed="a finite reward", takes_booleans=learner.is_binary)
        pairs.append((key, value))
    return pairs
