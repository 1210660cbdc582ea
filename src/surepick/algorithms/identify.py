"""Identify: measure, learn and stop in one call, losing nothing when a measurement fails or the user interrupts.

The noise check. With t rewards and residual sum of squares RSS around the least-squares fit, `noise_std` is called
contradicted when

    log E = logsumexp_k [ -log 7 - (t/2) log r_k + (1 - 1/r_k) RSS / (2 noise_std^2) ] >= log(1e6),

r_k the seven `VARIANCE_RATIOS`. False alarms: at most one in a million runs, however long and however often one looks.
Proof: for noise eta that is noise_std-sub-Gaussian given the past and 0 <= c < 1/2,
E exp(c eta^2/noise_std^2) <= (1 - 2c)^(-1/2), so with 1 - 2c = 1/r_k each term, with the sum of eta^2 in the place of
RSS, is a supermartingale started at 1/7. RSS is not larger than that sum, because least squares minimises it. Ville's
inequality does the rest.
"""

import math
import reprlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from surepick.algorithms import create_learner
from surepick.algorithms.estimates import Estimates, estimates_of
from surepick.algorithms.history import History
from surepick.algorithms.learner import Arm, Decision, Learner
from surepick.algorithms.result import Result
from surepick.arms.finite import as_arms
from surepick.arms.numbered import NumberedVectors
from surepick.arms.protocol import ArmSet
from surepick.arms.vectors import VectorSet
from surepick.arms.whitening import WhitenedArms
from surepick.core.checks import check_count, check_number, check_seed
from surepick.errors import InvalidInput, NoiseWarning, PullFailed, Skipped

# What the true noise variance might be instead, as a multiple of noise_std^2.
VARIANCE_RATIOS = (1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 16.0)
FALSE_ALARM = 1e-6
# So many failures in a row are no accident; without an end somebody would wait for ever.
SKIPPED_IN_A_ROW = 1000


@final
@dataclass(frozen=True, slots=True)
class Progress:
    """What `on_pull` is told after each pull."""

    arm: Arm
    """Its row number, or the vector where arms are vectors."""
    reward: float
    n_pulls: int
    """Rewards known, those of `history` included."""
    decision: Decision
    """Who leads, with how much evidence of what the rule asks for, and whether it has stopped."""


def identify(  # noqa: PLR0913 - every argument is an option of its own
    arms: Any,
    pull: Callable[[Any], float],
    *,
    delta: float = 0.05,
    noise_std: float = 1.0,
    epsilon: float = 0.0,
    candidates: Any = None,
    algorithm: str = "lazy-track-and-stop",
    seed: int = 0,
    max_pulls: int | None = None,
    history: Iterable[tuple[Any, float]] | None = None,
    on_pull: Callable[[Progress], object] | None = None,
    **options: Any,
) -> Result:
    """Pull arms until it is clear which one is best, and return the result.

    Args:
        arms: what may be measured: `FiniteArms`, or whatever it accepts (array, data frame); arms in files
            (`MappedArms`) or on a cluster (`DaskArms`); or a set of vectors (`Sphere`, `Ellipsoid`, `Hypercube`,
            `TopK`).
        pull: measures an arm, given by its row number (by the vector itself where arms are vectors), and returns the
            reward. It may raise `Skipped` if the measurement was lost, for any reason but its value; the arm is asked
            for again later.
        delta: largest accepted probability of a wrong answer.
        noise_std: sub-Gaussian scale of the noise of one measurement, or an upper bound. For Gaussian noise that is its
            standard deviation; for rewards that lie between lo and hi it is (hi - lo)/2. The standard deviation alone
            is not enough where noise is skewed: for rare failures among successes take the range.
        epsilon: an answer that loses at most this to the best is right.
        candidates: what is compared, if not the arms: rows with the same features, never measured.
        algorithm: its name, see `surepick.algorithms`.
        seed: of whatever the algorithm draws.
        max_pulls: measure at most this often; rewards from `history` do not count. Then the result says what is known,
            with `stopped` False.
        history: what was measured before. The `result.history` of an earlier call with the same arms, seed and options:
            goes on exactly where that call was, failures and bets included; with others it is refused. Or plain
            (arm, reward) pairs, the arm by row number or by name: unsolicited results. These are valid if each arm was
            chosen before its reward was known and no reward is left out; they inform the estimate, but the betting rule
            starts its bets anew, so answers from several such calls share no delta, each has its own.
        on_pull: called with a `Progress` after each pull. To stop early, return False; any other value goes on.
        options: options of the algorithm.

    Ctrl-C returns the result so far, with `interrupted` True.

    Raises:
        InvalidInput: an argument cannot be used. Nothing has been measured then.
        PullFailed: `pull` raised or returned something other than a finite number, or `on_pull` raised. The error
            carries the `arm` and, as `result`, all that was learnt before.

    Warns:
        NoiseWarning: the rewards scatter more than `noise_std` allows. If `noise_std` is right, that happens in at most
            one run in a million. The converse is no proof: a run that ends after hardly more pulls than features has
            no scatter to look at.

    Examples:
        >>> import numpy as np
        >>> mixtures = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])
        >>> rng = np.random.default_rng(0)
        >>> result = identify(mixtures, lambda arm: mixtures[arm] @ [1.0, 0.9] + 0.1 * rng.normal(), noise_std=0.1)
        >>> result.best, result.stopped
        (2, True)
    """
    if not callable(pull):
        raise InvalidInput(f"`pull` must be a function of a row number, got {reprlib.repr(pull)}; pass one.")
    if on_pull is not None and not callable(on_pull):
        raise InvalidInput(f"`on_pull` must be a function or None, got {reprlib.repr(on_pull)}; pass one.")
    limit = math.inf if max_pulls is None else check_count("max_pulls", max_pulls, least=0)
    seed = check_seed(seed)
    arm_set = arms if isinstance(arms, VectorSet) else as_arms(arms)
    earlier = history if isinstance(history, History) else _checked_history(history, arm_set)
    learner = create_learner(
        algorithm,
        arm_set,
        delta=delta,
        noise_std=noise_std,
        epsilon=epsilon,
        candidates=candidates,
        seed=seed,
        **options,
    )
    if isinstance(earlier, History):
        _replay(learner, earlier)
        earlier = []
    return _Session(learner, seed, pull, on_pull).run(earlier, limit)


def _replay(learner: Learner, history: History) -> None:
    try:
        learner.replay(history.log)
    except InvalidInput as error:
        raise InvalidInput(
            f"`history` must be of the same arms, algorithm and options: {error} To use its rewards all the same, as "
            "unsolicited results with new bets, pass list(history)."
        ) from error
    for arm, n in learner.pending.items():  # whoever asked is gone; we ask again
        for _ in range(n):
            learner.fail(arm)


@final
class _Session:
    """One call of `identify`: the learner, and what to do when something goes wrong."""

    def __init__(
        self,
        learner: Learner,
        seed: int,
        pull: Callable[[Any], float],
        on_pull: Callable[[Progress], object] | None,
    ) -> None:
        self._learner, self._seed = learner, seed
        self._pull, self._on_pull = pull, on_pull
        self._untold: tuple[Arm, float] | None = None
        """A reward on its way to the learner."""
        self._is_outside = False
        """Whether the user's code is running, so that the learner is in a sound state."""
        self._contradicted = False

    def run(self, earlier: list[tuple[Any, float]], limit: float) -> Result:
        """Go through history, then pull until the rule stops, the limit is reached or the user has enough."""
        interrupted = False
        try:
            self._go(earlier, limit)
        except KeyboardInterrupt:
            interrupted = True
            if not self._is_outside:
                self._recover()
        except PullFailed:
            raise
        except Exception as error:
            raise self._failed(f"judging the results failed: {_said(error)}", None) from error
        try:
            self._watch_noise(depth=4)
            return self._result(interrupted=interrupted)
        except KeyboardInterrupt:
            if interrupted:  # the second time, the user means it
                raise
            return self._result(interrupted=True)
        except PullFailed:
            raise
        except Exception as error:
            raise self._failed(f"summing up failed: {_said(error)}", None) from error

    def _go(self, earlier: list[tuple[Any, float]], limit: float) -> None:
        for arm, reward in earlier:
            self._tell(arm, reward)
        self._watch_noise()
        n_pulled = n_skipped = 0
        while not self._learner.stopped and n_pulled < limit:
            arm = self._next_arm()
            measured = self._measure(arm)
            n_pulled += 1
            n_skipped = n_skipped + 1 if measured is None else 0
            if measured is None:
                self._learner.fail(arm)
                if n_skipped == SKIPPED_IN_A_ROW:
                    raise self._failed(
                        f"{n_skipped:,} measurements in a row were skipped, the last of {self._label(arm)}; an arm "
                        "that cannot be measured may be one of the `candidates`, not of the arms",
                        arm,
                    )
                continue
            self._tell(arm, measured)
            # At powers of two: the cost of all checks together stays O(d) per pull.
            n_told = self._learner.estimate.n_pulls
            if n_told & (n_told - 1) == 0:
                self._watch_noise(arm)
            if not self._reports(arm, measured):
                break

    def _next_arm(self) -> Arm:
        try:
            return self._learner.next_arms(1)[0]
        except Exception as error:
            raise self._failed(f"planning the next pull failed: {_said(error)}", None) from error

    def _tell(self, arm: Arm, reward: float) -> None:
        self._untold = arm, reward
        try:
            self._learner.tell(arm, reward)
        except Exception as error:
            raise self._failed(f"taking in the reward {reward!r} failed: {_said(error)}", arm) from error
        self._untold = None

    def _measure(self, arm: Arm) -> float | None:
        self._is_outside = True
        try:
            value = self._pull(arm)
        except Skipped:
            self._is_outside = False
            return None
        except Exception as error:
            raise self._failed(
                f"`pull` must return a number but raised {_said(error)} for {self._label(arm)}", arm
            ) from error
        try:
            reward = check_number("reward", value, needed="one finite number")
        except InvalidInput as error:
            raise self._failed(
                f"`pull` must return one finite number but returned {reprlib.repr(value)} for {self._label(arm)}", arm
            ) from error
        self._is_outside = False
        return reward

    def _reports(self, arm: Arm, reward: float) -> bool:
        """Tell the user about a pull; return whether to go on."""
        if self._on_pull is None:
            return True
        progress = Progress(arm, reward, self._learner.estimate.n_pulls, self._learner.decision)
        self._is_outside = True
        try:
            answer = self._on_pull(progress)
        except Exception as error:
            raise self._failed(
                f"`on_pull` must not raise but raised {_said(error)} after {self._label(arm)}", arm
            ) from error
        self._is_outside = False
        return not (isinstance(answer, bool | np.bool_) and not answer)

    def _failed(self, what: str, arm: Arm | None) -> PullFailed:
        try:
            result = self._result(interrupted=False)
        except Exception:  # noqa: BLE001 - whatever it is, the rewards were paid for and must not be lost with it
            result = self._bare_result()
        return PullFailed(
            f"{what}. Rewards kept: {result.n_pulls}. Look at `error.result`, or remove the cause and go on with "
            "`identify(..., history=error.result.history)`.",
            arm,
            result,
        )

    def _label(self, arm: Arm) -> str:
        names = getattr(self._learner.arms, "names", None)
        return f"arm {_key(arm)}" if names is None else f"arm {arm} ({names[arm]})"

    def _recover(self) -> None:
        """Bring a learner that was cut off in the middle of a step back to where its log says it is."""
        log = self._learner.log
        self._learner.replay(log)
        if self._untold is not None and log[-1] != ("tell", _key(self._untold[0]), self._untold[1]):
            self._learner.tell(*self._untold)

    def _residual_sum(self) -> float:
        """Return the sum of squared residuals, from the residuals themselves: nothing cancels."""
        white, history = self._learner.white, History(self._learner.log)
        pulled, place = np.unique([white.number_of(arm) for arm, _ in history], return_inverse=True)
        fits = white.gather(pulled) @ self._learner.estimate.theta
        with np.errstate(over="ignore"):
            return float(np.square(np.array([reward for _, reward in history]) - fits[place]).sum())

    def _noise_estimate(self) -> float:
        spare = self._learner.estimate.n_pulls - self._learner.white.dim
        if spare < 1 or not self._learner.estimate.has_theta:
            return math.nan
        return math.sqrt(self._residual_sum() / spare)

    def _watch_noise(self, arm: Arm | None = None, *, depth: int = 5) -> None:
        """Warn, once, if the rewards scatter too much for `noise_std`; the user's call is `depth` frames up."""
        if self._contradicted or not self._learner.estimate.has_theta:
            return
        noise_std, n_pulls = self._learner.noise_std, self._learner.estimate.n_pulls
        evidence = noise_evidence(self._residual_sum() / noise_std**2, n_pulls)
        if evidence < math.log(1.0 / FALSE_ALARM):
            return
        self._contradicted = True
        text = (
            f"the rewards scatter around the fit by {self._noise_estimate():.3g} (from {n_pulls} pulls) but "
            f"noise_std = {noise_std:g} was given: either the noise is larger, or the mean reward is not linear in the "
            f"features. The risk delta = {self._learner.delta:g} is not guaranteed then. Start again with a larger "
            "noise_std, or with features that describe the rewards better."
        )
        try:
            warnings.warn(text, NoiseWarning, stacklevel=depth)
        except NoiseWarning as warning:  # the user has made warnings errors
            raise self._failed(str(warning).rstrip("."), arm) from warning

    def _listed(self, rows: WhitenedArms | NumberedVectors) -> list[int] | None:
        """Return the arms the result can list: None for all, else those pulled and the best."""
        learner = self._learner
        if isinstance(rows, WhitenedArms) and not getattr(rows.arms, "is_distributed", False):
            return None
        best = learner.decision.best
        numbers = {*learner.estimate.counts} if rows is learner.white else set()
        if best is not None and rows is learner.candidates:
            numbers.add(rows.number_of(best))
        return sorted(numbers)

    def _given(self) -> dict[str, Any]:
        """Return what a result repeats: the settings and every reward."""
        learner = self._learner
        return {
            "noise_contradicted": self._contradicted,
            "delta": learner.delta,
            "epsilon": learner.epsilon,
            "noise_std": learner.noise_std,
            "algorithm": learner.algorithm,
            "seed": self._seed,
            "history": History(learner.log),
        }

    def _bare_result(self) -> Result:
        """Return the rewards and nothing made of them: for arms or estimates that can no longer be read."""
        learner, history = self._learner, History(self._learner.log)
        return Result(
            best=None,
            best_name=None,
            n_pulls=len(history),
            counts=Counter(arm for arm, _ in history),
            stopped=False,
            interrupted=False,
            evidence=0.0,
            target=math.log(1.0 / learner.delta),
            epsilon_bound=math.inf,
            expected_remaining=math.inf,
            theta=None,
            guarantee="none",
            stopping=learner.rule_name,
            noise_estimate=math.nan,
            **self._given(),
            arms=Estimates(None, np.empty(0), np.empty(0), np.empty(0), listed=()),
            candidates=None,
        )

    def _result(self, *, interrupted: bool) -> Result:
        learner = self._learner
        decision = learner.decision
        has_own = learner.candidates is not learner.white
        tables = [
            estimates_of(
                rows, learner.estimate, delta=learner.delta, noise_std=learner.noise_std, only=self._listed(rows)
            )
            for rows in (learner.white, learner.candidates)[: 2 if has_own else 1]
        ]
        names = tables[-1].names
        return Result(
            best=decision.best,
            best_name=None if names is None or decision.best is None else names[decision.best],
            arm_set=learner.arms.description if isinstance(learner.arms, VectorSet) else "",
            exact=decision.exact,
            n_pulls=decision.n_pulls,
            counts=dict(learner.counts),
            stopped=decision.stopped,
            interrupted=interrupted,
            evidence=decision.evidence,
            target=decision.target,
            epsilon_bound=learner.epsilon_bound(),
            expected_remaining=learner.expected_remaining(),
            theta=learner.theta.copy() if learner.estimate.has_theta else None,
            guarantee=decision.guarantee,
            stopping=decision.rule,
            noise_estimate=self._noise_estimate(),
            **self._given(),
            arms=tables[0],
            candidates=tables[1] if has_own else None,
        )


def _key(arm: Arm) -> Any:
    """Return an arm in a form that can be compared and written down: a row number, or a tuple of numbers."""
    return arm if isinstance(arm, int | tuple) else tuple(arm.tolist())


def noise_evidence(residual_sum: float, n_pulls: int) -> float:
    """Return the log e-value that the noise is larger than assumed.

    Args:
        residual_sum: sum of squared residuals over noise_std^2.
        n_pulls: number of rewards.
    """
    terms = [
        -0.5 * n_pulls * math.log(ratio) + 0.5 * (1.0 - 1.0 / ratio) * residual_sum - math.log(len(VARIANCE_RATIOS))
        for ratio in VARIANCE_RATIOS
    ]
    return float(np.logaddexp.reduce(terms))


def _said(error: Exception) -> str:
    text = str(error).rstrip(".")
    return f"{type(error).__name__} ({text})" if text else type(error).__name__


def _checked_history(history: Any, arms: ArmSet | VectorSet) -> list[tuple[Any, float]]:
    """Return the pairs with row numbers in place of names, and vectors as tuples."""
    if history is None:
        return []
    needed = '`history` must hold (arm, reward) pairs such as [("B7", 0.83), (4, 0.7)]'
    if isinstance(history, str | bytes) or hasattr(history, "columns") or not isinstance(history, Iterable):
        raise InvalidInput(f"{needed}, got a {type(history).__name__}; pass a list of pairs.")
    names = getattr(arms, "names", None)
    rows = {} if names is None else {name: row for row, name in enumerate(names)}
    pairs = []
    for place, entry in enumerate(history):
        try:
            arm, reward = entry
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{needed}, got {reprlib.repr(entry)} at position {place}; pass a pair.") from error
        where = f"`history` at position {place}"
        row = (
            _checked_vector(arm, arms, where)
            if isinstance(arms, VectorSet)
            else _checked_arm(arm, rows, arms.n_arms, where)
        )
        pairs.append((row, check_number(f"history[{place}][1]", reward, needed="a finite reward")))
    return pairs


def _checked_vector(arm: object, vectors: VectorSet, where: str) -> tuple[float, ...]:
    try:
        vectors.checked(arm)
    except InvalidInput as error:
        raise InvalidInput(f"{where} must be an arm of {vectors.description}: {error}") from error
    return tuple(float(entry) for entry in arm)  # type: ignore[attr-defined]  # as given: our own come back bit for bit


def _checked_arm(arm: object, rows: dict[str, int], n_arms: int, where: str) -> int:
    if isinstance(arm, str):
        if arm not in rows:
            known = f"such as {next(iter(rows))!r}" if rows else "but the arms have no names: give the row number"
            raise InvalidInput(f"{where} must name an arm, got {arm!r}; use one of the arms' names, {known}.")
        return rows[arm]
    if isinstance(arm, bool) or not isinstance(arm, int | np.integer) or not 0 <= arm < n_arms:
        raise InvalidInput(
            f"{where} must name an arm or give its row number between 0 and {n_arms - 1}, got {reprlib.repr(arm)}; "
            "correct it."
        )
    return int(arm)
