"""The contract of an algorithm and of a stopping rule, as functions that you call on your own class.

A learner asks for arms, takes results in any order, and may be rebuilt from its log. An algorithm that keeps hidden
state, reads rewards too early or stops without evidence breaks one of these promises; the checks say which.
"""

from collections.abc import Callable
from typing import Any, final

import numpy as np
from scipy.stats import binom

from surepick.algorithms import check_algorithm_object
from surepick.algorithms.static import Uniform
from surepick.arms.base import ArmSet, VectorSet
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner, create_learner
from surepick.stopping.base import Rule, Verdict
from surepick.types import Array

DEFAULT_ARMS = np.array([[1.0, 0.2], [0.3, 1.0], [-0.5, 0.5], [0.6, 0.6], [0.1, -1.0]])
"""Five arms in the plane."""
DEFAULT_THETA = np.array([2.0, 0.0])
"""Parameter under which the first of them leads by 0.8."""
FALSE_ALARM = 1e-6
"""Probability at most with which a statistical check fails on an algorithm that keeps its guarantee."""
N_HARD_RUNS, HARD_DELTA, HARD_PULLS = 30, 0.05, 150
"""Runs on an instance with gaps 100 times smaller, their delta, and the pulls after which such a run ends."""


LEAST_BUDGET = 200
"""Fewest pulls of a fixed budget that the checks can do with."""


def check_algorithm(
    algorithm: Any,
    arms: Any = None,
    *,
    theta: Any = None,
    noise_std: float = 1.0,
    epsilon: float = 0.0,
    max_pulls: int = 20_000,
    budget: int | None = None,
) -> None:
    """Check that an algorithm keeps the contract of all algorithms.

    All random numbers are seeded, so an algorithm that passes once passes always. The checks, in this order: every arm
    asked for is an arm, also with candidates that are not the arms, unless these are refused; `exact` of the rule
    changes nothing; equal seeds ask for equal arms; a batch equals single asks; results told inside a block change none
    of its arms; failed asks come again; a replayed log gives the same learner bit for bit; the answer is right with
    late and lost results; and, if the guarantee is "proved", at most 10 of 30 answers at delta = 0.05 are wrong on a
    hard instance, in runs of at most 150 pulls.

    The last two fail with probability at most 1e-6 on an algorithm that keeps its guarantee. That is no proof: the last
    one finds an algorithm that stops within 150 pulls without evidence (with probability 0.95 if half of its answers
    are wrong), and not one that errs in 10 % of the runs.

    With a `budget` the algorithm makes no more pulls than that, and its answer at the end must be right on this easy
    problem. That is a check of its work, not of a guarantee: a method without a proof makes no promise on harder ones.

    Args:
        algorithm: a name, or an object with a method `compose`.
        arms: what to pull, rows (K, d) or a set of vectors; default: five arms in the plane.
        theta: the true parameter (d,); default: of some random ones, the one under
            which the best row leads most; mean rewards then differ by up to ten times `noise_std`.
        noise_std: standard deviation of the Gaussian noise.
        epsilon: loss that the answer may have; above 0 on sets that need slack.
        max_pulls: pulls within which the algorithm must find the best arm.
        budget: pulls that the algorithm is given, all of which it may make, for algorithms that need one; at least 200.

    Raises:
        AssertionError: the contract is broken; the message says how.
        InvalidInput: a value cannot be used: an arm, a length of a block, or a verdict that is none.

    Examples:
        >>> check_algorithm("rage")
        >>> check_algorithm("lin-halving", budget=400)
    """
    check_algorithm_object(algorithm)
    if arms is None:
        arms, theta = DEFAULT_ARMS, DEFAULT_THETA if theta is None else theta
    if budget is not None and budget < LEAST_BUDGET:
        raise InvalidInput(f"`budget` must be at least {LEAST_BUDGET}, which the checks spend, got {budget}.")
    trial = Trial(algorithm, lambda: arms, theta, noise_std, epsilon, budget)
    for check in (
        _asks_arms,
        _knows_candidates,
        _exact_changes_nothing,
        _same_seed,
        _batches,
        _blocks_fixed,
        _failures,
        replays,
    ):
        check(trial)
    right_answer(trial, max_pulls)
    _error_rate(trial)


def check_rule(rule: Rule, arms: Any = None, **options: Any) -> None:
    """Check that a stopping rule keeps the contract of all rules, under uniform sampling.

    It finds a rule that stops without evidence, and proves nothing: see `check_algorithm` for what the checks can see.

    Args:
        rule: the rule.
        arms: as for `check_algorithm`.
        options: `theta`, `noise_std`, `epsilon` and `max_pulls` of `check_algorithm`.

    Raises:
        AssertionError: the contract is broken; the message says how.
        InvalidInput: a verdict cannot be used, or `guarantee` is none of those that a rule can have.

    Examples:
        >>> import surepick as sp
        >>> check_rule(sp.stopping.Evidence())
    """
    check_algorithm(Uniform(stopping=rule), arms, **options)


@final
class Trial:
    """An algorithm on an instance with a known answer; each learner has arms of its own from `make`."""

    def __init__(
        self,
        algorithm: Any,
        make: Callable[[], Any],
        theta: Any,
        noise_std: float,
        epsilon: float,
        budget: int | None = None,
    ) -> None:
        self.algorithm, self.make, self.noise_std, self.epsilon = algorithm, make, noise_std, epsilon
        self.budget = budget
        self.arms: Any = make()
        self.is_vectors = isinstance(self.arms, VectorSet)
        self.rows = np.empty((0, 0)) if self.is_vectors else _rows_of(self.arms)
        if theta is None:
            rng = np.random.default_rng(0)
            theta = rng.standard_normal(self.arms.dim) if self.is_vectors else 10.0 * noise_std * clear(self.rows, rng)
        self.theta = np.asarray(theta, dtype=np.float64)

    def learner(self, *, delta: float, seed: int = 0, candidates: Array | None = None) -> Learner:
        """Return a fresh learner."""
        options: dict[str, Any] = {"noise_std": self.noise_std, "epsilon": self.epsilon, "seed": seed}
        if self.budget is not None:
            options |= {"budget": self.budget, "goal": "fixed-budget"}
        return create_learner(self.algorithm, self.make(), candidates=candidates, delta=delta, **options)

    def mean(self, arm: Any) -> float:
        """Return the mean reward of an arm."""
        return float(np.asarray(arm if self.is_vectors else self.rows[arm], dtype=np.float64) @ self.theta)

    def best_mean(self) -> float:
        """Return the mean reward of the best arm."""
        return self.mean(self.arms.best(self.theta)) if self.is_vectors else float(np.max(self.rows @ self.theta))

    def measurements(self, seed: int, *, scale: float = 1.0) -> Callable[[Any], float]:
        """Return a seeded measurement of arms whose means are multiplied by `scale`."""
        rng = np.random.default_rng(seed)
        return lambda arm: scale * self.mean(arm) + self.noise_std * float(rng.standard_normal())

    def drive(self, learner: Learner, n_pulls: int, *, seed: int, scale: float = 1.0) -> list[Any]:
        """Pull one arm after the other until the learner stops; return the arms."""
        measure, pulled = self.measurements(seed, scale=scale), list[Any]()
        while not learner.stopped and len(pulled) < n_pulls:
            if not (asked := learner.next_arms()):  # the budget is spent
                break
            learner.tell(asked[0], measure(asked[0]))
            pulled += asked
        return pulled


def clear(rows: Array, rng: np.random.Generator) -> Array:
    """Return, of some random parameters, the one whose best row leads most; mean rewards then differ by at most 1."""
    different = np.unique(rows, axis=0)

    def lead(theta: Array) -> float:
        values = np.sort(different @ theta)
        return float((values[-1] - values[-2]) / np.ptp(values))

    theta: Array = max(rng.standard_normal((200, rows.shape[1])), key=lead)
    return theta / np.ptp(rows @ theta)


def _rows_of(arms: Any) -> Array:
    """Return all rows of a table or of a set of rows."""
    rows = arms.gather(np.arange(arms.n_arms)) if isinstance(arms, ArmSet) else arms
    return np.asarray(rows, dtype=np.float64)


def _block(learner: Learner) -> list[Any]:
    """Ask for all arms of the block that opens now."""
    asked = learner.next_arms()  # none if the budget is spent
    return asked + (learner.next_arms(learner.n_planned) if learner.n_planned else [])


def _asks_arms(trial: Trial) -> None:
    learner, measure = trial.learner(delta=1e-9), trial.measurements(1)
    for n in (1, 4, 2, 9) * 4:
        asked = learner.next_arms(n)
        assert len(asked) == n, f"a batch of {n} arms was asked for, {len(asked)} came"
        for arm in asked:
            if trial.is_vectors:
                trial.arms.checked(arm)
            else:
                assert 0 <= arm < len(trial.rows), f"{arm} is not a row number of {len(trial.rows)} arms"
            learner.tell(arm, measure(arm))


def _knows_candidates(trial: Trial) -> None:
    """Check that no number of a candidate is taken for that of an arm."""
    if trial.is_vectors:
        return
    # The best of them, of either sign, comes after as many small ones as there are arms: no arm has its number.
    candidates = np.concatenate([0.1 * trial.rows, trial.rows, -trial.rows])
    try:
        learner = trial.learner(delta=1e-9, candidates=candidates)
    except InvalidInput:  # without candidates it was made: the algorithm or its rule refuses them
        return
    try:
        trial.drive(learner, 40, seed=1)
    except (InvalidInput, IndexError) as error:
        raise AssertionError(
            f"with `candidates` that are not the arms: {error} `context.leader` is the number of a candidate, whose "
            "row is in `task.rivals`; if the sampler needs an arm, refuse such a task by a method `unsupported(task)`"
        ) from error


def _exact_changes_nothing(trial: Trial) -> None:
    learner, measure = trial.learner(delta=1e-9), trial.measurements(1)
    for _ in range(30):
        for arm in learner.next_arms():
            learner.tell(arm, measure(arm))
        known = learner.state.settled
        first, second = (known.state.exact(known.estimate) for _ in range(2))
        assert isinstance(first, Verdict), (
            f"`exact` of {type(known.state).__name__} must return a `Verdict`, got {first!r}; return "
            "Verdict(threshold=...) as long as nothing is decided"
        )
        assert first == second, (
            f"`exact` of {type(known.state).__name__} gives two verdicts after the same {known.estimate.n_pulls} "
            f"results (statistic {first.statistic:g}, then {second.statistic:g}): it must change nothing; count in "
            "`after_pull` or `after_block`"
        )


def _same_seed(trial: Trial) -> None:
    first, second = (trial.drive(trial.learner(delta=1e-9, seed=3), 61, seed=2) for _ in range(2))
    assert as_tuples(first) == as_tuples(second), (
        "two learners with one seed and equal results asked for different arms: draw random numbers from `task.seed`, "
        "and keep changing state in the sampler, not in the algorithm"
    )


def _batches(trial: Trial) -> None:
    whole, single = (trial.learner(delta=1e-9, seed=4) for _ in range(2))
    for learner in (whole, single):
        trial.drive(learner, 30, seed=3)
    one_by_one = [arm for _ in range(12) for arm in single.next_arms()]
    assert as_tuples(whole.next_arms(12)) == as_tuples(one_by_one), (
        "a batch of 12 arms and 12 single asks differ although no result came between them"
    )


def _blocks_fixed(trial: Trial) -> None:
    quiet, loud = (trial.learner(delta=1e-12, seed=5) for _ in range(2))
    pulled, _ = (trial.drive(learner, 14, seed=4) for learner in (quiet, loud))
    planned = _block(quiet)
    rng, asked = np.random.default_rng(6), loud.next_arms()  # the first ask stays open, so the block does too
    held = as_tuples(asked)
    # Some rules for sets of vectors refuse results that answer no ask.
    others = [] if trial.is_vectors else [arm for arm in pulled if as_tuples([arm]) != held]
    while len(asked) < len(planned):
        if others:
            loud.tell(others[int(rng.integers(len(others)))], 10.0 * float(rng.standard_normal()))
        asked += loud.next_arms()
        if as_tuples(asked[-1:]) != held:
            loud.tell(asked[-1], 10.0 * float(rng.standard_normal()))
    assert as_tuples(asked) == as_tuples(planned), (
        "results told inside a block changed its remaining arms: read results in `open` alone, not in `next`"
    )


def _failures(trial: Trial) -> None:
    learner = trial.learner(delta=1e-12, seed=7)
    for _ in range(3):
        if not (asked := _block(learner)):
            break
        kept = len(asked) // 2
        for arm in asked[:kept]:
            learner.tell(arm, trial.mean(arm))
        for arm in asked[kept:]:
            learner.fail(arm)
        again = learner.next_arms(len(asked) - kept)
        assert sorted(as_tuples(again)) == sorted(as_tuples(asked[kept:])), "arms that failed were not asked for again"
        for arm in again:
            learner.tell(arm, trial.mean(arm))


def replays(trial: Trial) -> None:
    """Check that a learner rebuilt from its log, or one that goes through the log, is the same bit for bit."""
    learner, measure = trial.learner(delta=1e-3, seed=8), trial.measurements(9)
    rng = np.random.default_rng(9)
    for step in range(25):
        for arm in reversed(learner.next_arms(1 + step % 3)):
            if rng.random() < 0.1:
                learner.fail(arm)
            else:
                learner.tell(arm, measure(arm))
        _ = learner.decision  # reading must change nothing
    log, fresh = learner.log, trial.learner(delta=1e-3, seed=8)
    later = trial.drive(learner, 40, seed=10)
    for other in (learner, fresh):
        try:
            other.replay(log)
        except InvalidInput as error:
            raise AssertionError(
                f"a learner rebuilt from its log, with single asks, goes another way: `next` must not read results, "
                f"read them in `open`; and random numbers come from `task.seed` alone ({error})"
            ) from error
        again = trial.drive(other, 40, seed=10)
        assert as_tuples(again) == as_tuples(later), "a learner rebuilt from its log asks for other arms"
    assert _state_of(fresh) == _state_of(learner), "a learner rebuilt from its log decides differently"


def right_answer(trial: Trial, max_pulls: int) -> None:
    """Check the answer to results that come late, out of order, and sometimes not at all."""
    learner, rng, measure = trial.learner(delta=FALSE_ALARM, seed=11), np.random.default_rng(12), trial.measurements(13)
    waiting, n_asked = list[Any](), 0
    while not learner.stopped and n_asked < max_pulls:
        asked = learner.next_arms(4)
        if not (asked or waiting):  # the budget is spent
            break
        waiting += asked
        n_asked += len(asked)
        for place in sorted(rng.permutation(len(waiting))[:4].tolist(), reverse=True):
            arm = waiting.pop(place)
            if rng.random() < 0.1:
                learner.fail(arm)
            else:
                learner.tell(arm, measure(arm))
    decision, budget = learner.decision, trial.budget
    if budget is None:
        spans = decision.best is not None
        why = "raise `max_pulls` if that is expected" if spans else "its arms do not span: pull `task.spanning` first"
        results = f"{decision.n_pulls} results of {n_asked} pulls (max_pulls={max_pulls}; some results are lost)"
        assert decision.stopped, f"no answer after {results}; {why}"
    else:
        assert decision.n_pulls <= budget, f"{decision.n_pulls} pulls were made of a budget of {budget}"
        assert decision.best is not None, f"there is no answer after a budget of {budget} pulls"
    loss = trial.best_mean() - trial.mean(decision.best)
    if decision.guarantee == "proved" or budget is not None:
        assert loss <= trial.epsilon + 1e-9, (
            f"the answer of the check with late and lost results is wrong: arm {decision.best} after "
            f"{decision.n_pulls} pulls of {len(trial.rows) or 'the'} arms with theta "
            f"{np.round(trial.theta, 3).tolist()} loses {loss:g}, epsilon is {trial.epsilon:g}"
        )


def _error_rate(trial: Trial) -> None:
    """Count wrong answers where gaps are tiny: a rule that stops without evidence errs in most runs."""
    if trial.epsilon > 0.0 or trial.learner(delta=HARD_DELTA).decision.guarantee != "proved":
        return
    n_wrong = 0
    for seed in range(N_HARD_RUNS):
        learner = trial.learner(delta=HARD_DELTA, seed=seed)
        trial.drive(learner, HARD_PULLS, seed=100 + seed, scale=0.01)
        n_wrong += learner.stopped and trial.mean(learner.decision.best) < trial.best_mean() - 1e-9
    most = int(binom.isf(FALSE_ALARM, N_HARD_RUNS, HARD_DELTA))
    assert n_wrong <= most, (
        f"{n_wrong} of {N_HARD_RUNS} answers at delta = {HARD_DELTA:g} are wrong; more than {most} have probability at "
        f'most {FALSE_ALARM:g} under the guarantee: label the rule "none", or make it stop later'
    )


def as_tuples(arms: list[Any]) -> list[tuple[float, ...]]:
    """Return arms, row numbers or vectors, as tuples."""
    return [tuple(np.atleast_1d(np.asarray(arm, dtype=np.float64)).tolist()) for arm in arms]


def _state_of(learner: Learner) -> tuple[Any, ...]:
    """Return what a learner says, in a form that compares bit for bit."""
    decision = learner.decision
    best = None if decision.best is None else as_tuples([decision.best])
    theta = learner.theta.tobytes() if learner.estimate.has_theta else b""
    counts = sorted(learner.counts.items())
    return best, decision.stopped, decision.evidence, decision.target, decision.n_pulls, decision.exact, theta, counts
