"""Learners under a badly organised lab, and books kept beside them from their log.

A lab asks for batches of any size, tells results late and in any order, loses some, gives up others because of what it
saw, measures arms on its own initiative, looks at any time, and goes on from the log in a new process. It keeps to the
assumptions of docs/guarantee.md: no decision depends on a reward that is not yet told.

`Books` is the second opinion: intervals, wealth and evidence from a log, in exact fractions, in the user's
coordinates, by the formulas of docs/guarantee.md. It shares no code with the package. What a log does not say, how long
the sampler planned each interval, it is told by `Watched`.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.stats import binom, norm

import surepick as sp
from surepick.algorithms import as_algorithm
from surepick.arms.views import Task
from surepick.core.betting.block import Block as CoreBlock
from surepick.core.estimate import LeastSquares
from surepick.errors import Skipped
from surepick.learning.events import History
from surepick.learning.learner import Learner
from surepick.learning.snapshot import Algorithm
from surepick.sampling.base import Sampler, SamplerContext
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array
from tests.algorithm_needs import knowledge

FALSE_ALARM = 1e-6
DELTA = 0.3

# The best arm e1 between two that lose a fiftieth: luck on either side misleads.
ARC = Problem(X=np.array([[1.0, 0.0], [0.98, 0.6], [0.98, -0.6]]), theta=np.array([1.0, 0.0]), name="arc")
NEAR_TIE = problems.unit_basis([0.02, 0.0])
APART = replace(problems.unit_basis([0.6, 0.0]), noise_std=0.5)
# Entries are sums of few powers of two, so that fractions stay short; blocks of few arms leave directions unmeasured.
THREE = Problem(
    X=np.array([[1.0, 0.0, 0.0], [0.75, 0.5, 0.0], [0.75, 0.0, 0.5], [0.5, -0.5, 0.25], [-0.25, 0.5, 0.5]]),
    theta=np.array([1.0, 0.25, 0.375]),
    name="five arms in space",
)


def error_limit(n_runs: int, delta: float = DELTA) -> int:
    """Return the count that n_runs with error probability delta each exceed with probability at most 1e-6.

    Runs of different algorithms may be added up: a sum of independent errors, each of probability delta or less, is
    no larger than a binomial count.
    """
    return int(binom.isf(FALSE_ALARM, n_runs, delta))


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is on trial: an algorithm with its options on a problem."""

    algorithm: str
    problem: Problem
    options: Mapping[str, Any] = field(default_factory=dict)
    delta: float = DELTA
    epsilon: float = 0.0
    horizon: int = 100
    """Results after which a run is given up; that can only hide errors."""

    @property
    def settings(self) -> dict[str, Any]:
        """All keyword arguments of the learner besides its seed."""
        variant = self.options.get("variant", "practical")
        return {
            "delta": self.delta,
            "noise_std": self.problem.noise_std,
            "epsilon": self.epsilon,
            "candidates": self.problem.candidates,
            **knowledge(self.algorithm, self.problem, variant=variant),
            **self.options,
        }

    def learner(self, seed: int = 0) -> Learner:
        """Return a fresh learner."""
        return sp.create_learner(self.algorithm, self.problem.X, seed=seed, **self.settings)

    def is_wrong(self, learner: Learner) -> bool:
        """Return whether it has answered, and loses more than epsilon by it."""
        values = self.problem.answers @ self.problem.theta
        return learner.stopped and bool(values[learner.decision.best] < values.max() - self.epsilon)


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How a lab works; probabilities are per round of asking and telling, unless said otherwise."""

    name: str
    flood: float = 0.05
    """A batch far larger than the interval."""
    late: float = 0.5
    """Some results of the round come later."""
    lost: float = 0.08
    """Per ask: it fails, whatever it would have said."""
    quits: float = 0.0
    """The rest of a batch is given up when the first arm of it does not serve a wrong answer."""
    own: float = 0.3
    """A measurement of the best or second best by estimate that nobody asked for."""
    replays: float = 0.03
    """A new learner takes over from the log."""
    identifies: float = 0.02
    """`identify` takes over for a while."""
    looks: float = 0.3
    """Everything a user can look at is looked at."""


STORM = Habits(name="storm")
QUITTER = Habits(name="quitter", quits=1.0, late=0.0, lost=0.0, own=0.0, flood=0.0, replays=0.02)
MEDDLER = Habits(name="meddler", own=0.9, lost=0.0, replays=0.0)
CALM = Habits(name="calm", flood=0.0, late=0.0, lost=0.0, own=0.0, replays=0.0, identifies=0.0, looks=0.0)


class RunSettings:
    """Measures arms and drives a learner by its habits.

    Args:
        setting: what is on trial.
        habits: how the lab works.
        run: number of the run; determines noise and habits.
        fresh: returns a learner without results, for the start and for taking over.
        watch: called after every tell and every failure.
    """

    def __init__(
        self,
        setting: Setting,
        habits: Habits,
        run: int,
        *,
        fresh: Callable[[], Learner] | None = None,
        watch: Callable[[Learner], None] | None = None,
    ) -> None:
        self.setting, self.habits, self.problem = setting, habits, setting.problem
        self.seed = run
        self.noise = np.random.default_rng([run, 1])
        self.rng = np.random.default_rng([run, 2])
        self.eyes = np.random.default_rng([run, 3])  # so that looking leaves the other decisions as they are
        self.means = self.problem.X @ self.problem.theta
        self.best = int(np.argmax(self.problem.answers @ self.problem.theta))
        self.is_plain = fresh is None
        self.fresh = fresh or (lambda: setting.learner(run))
        self.watch = watch
        self.learner = self.fresh()

    def measure(self, arm: int) -> float:
        """Return a reward."""
        return float(self.means[arm] + self.problem.noise_std * self.noise.standard_normal())

    def chance(self, probability: float) -> bool:
        """Return True as often as that; no draw is spent on what never happens."""
        return probability > 0.0 and bool(self.rng.random() < probability)

    def goes_on(self) -> bool:
        """Return whether the learner has not stopped and the horizon is not reached."""
        return not self.learner.stopped and self.learner.estimate.n_pulls < self.setting.horizon

    def run(self) -> Learner:
        """Work until the rule stops or the horizon is reached; return the learner."""
        habits = self.habits
        while self.goes_on():
            if self.chance(habits.quits):
                self.quit_round()
            else:
                self.ordinary_round()
            if self.goes_on() and self.learner.estimate.has_theta and self.chance(habits.own):
                self.own_pull()
            if self.eyes.random() < habits.looks:
                self.learner.decision, self.learner.epsilon_bound(), self.learner.expected_remaining()
            if self.goes_on() and self.chance(habits.replays):
                self.take_over(self.learner.log)
            if self.goes_on() and self.chance(habits.identifies):
                self.identify_for_a_while()
        return self.learner

    def tell(self, arm: int) -> None:
        """Measure an arm and report it."""
        self.learner.tell(arm, self.measure(arm))
        if self.watch is not None:
            self.watch(self.learner)

    def fail(self, arm: int) -> None:
        """Give up an ask."""
        self.learner.fail(arm)
        if self.watch is not None:
            self.watch(self.learner)

    def ordinary_round(self) -> None:
        """Ask for a batch; tell, in any order, some of what is pending."""
        dim = self.problem.dim
        most = 3 * dim
        n = int(self.rng.integers(1, most + 1)) * (8 if self.chance(self.habits.flood) else 1)
        self.learner.next_arms(n)
        waiting = list(Counter(self.learner.pending).elements())
        self.rng.shuffle(waiting)
        if self.chance(self.habits.late):
            waiting = waiting[: int(self.rng.integers(1, len(waiting) + 1))]
        for arm in waiting:
            if not self.goes_on():
                return
            if self.chance(self.habits.lost):
                self.fail(arm)
            else:
                self.tell(arm)

    def quit_round(self) -> None:
        """Ask for a block; measure its most frequent arm first, and give up the rest if that serves no wrong one.

        Whoever knows the best arm and wishes it to lose keeps the blocks that begin well for that and drops the others.
        """
        learner = self.learner
        learner.next_arms(2 * self.problem.dim)
        pending = Counter(learner.pending)
        first, n_first = pending.most_common(1)[0]
        known = (learner.theta, np.linalg.inv(self.information())) if learner.estimate.has_theta else None
        total = 0.0
        for _ in range(n_first):
            reward = self.measure(first)
            learner.tell(first, reward)
            if self.watch is not None:
                self.watch(learner)
            if not self.goes_on():
                return
            if known is not None:
                total += reward - float(self.problem.X[first] @ known[0])
        is_bad = False
        if known is not None:
            theta, A_inv = known
            values = self.problem.answers @ theta
            values[self.best] = -np.inf
            y = self.problem.answers[int(np.argmax(values))] - self.problem.answers[self.best]
            is_bad = total * float(y @ A_inv @ self.problem.X[first]) < 0.0
        rest = [arm for arm in pending.elements() if arm != first]
        self.rng.shuffle(rest)
        for arm in rest:
            if not self.goes_on():
                return
            if is_bad:
                self.fail(arm)
            else:
                self.tell(arm)

    def information(self) -> Array:
        """Return sum x x' over all results, in the user's coordinates."""
        total = np.zeros((self.problem.dim,) * 2)
        for arm, n in self.learner.counts.items():
            total += n * np.outer(self.problem.X[arm], self.problem.X[arm])
        return total

    def own_pull(self) -> None:
        """Measure the best or the second best by estimate once more, asked for or not."""
        order = np.argsort(-(self.problem.X @ self.learner.theta))
        self.tell(int(order[int(self.rng.integers(2))]))

    def take_over(self, log: Sequence[Any]) -> None:
        """Go on with a fresh learner from a log, whoever wrote it."""
        fresh = self.fresh()
        fresh.replay((("start", fresh.identity), *log[1:]))
        self.learner = fresh

    def identify_for_a_while(self) -> None:
        """Let `identify` go on, with measurements that get lost, and take over from its history."""

        def pull(arm: int) -> float:
            if self.chance(self.habits.lost):
                raise Skipped
            return self.measure(arm)

        setting = self.setting
        # A watched learner has another name than the one that `identify` makes.
        own = self.learner if self.is_plain else setting.learner(self.seed)
        history = History((("start", own.identity), *self.learner.log[1:]))
        n = int(self.rng.integers(1, 3 * self.problem.dim + 1))
        result = sp.identify(
            self.problem.X,
            pull,
            algorithm=setting.algorithm,
            seed=self.seed,
            max_pulls=n,
            history=history,
            **setting.settings,
        )
        self.take_over(result.history.log)


@dataclass(frozen=True)
class Tally:
    """Runs, those with an answer, and those with a wrong one."""

    wrong: int = 0
    stopped: int = 0
    runs: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.wrong + other.wrong, self.stopped + other.stopped, self.runs + other.runs)


def count(setting: Setting, habits: Habits, runs: Iterable[int], errors: list[float] | None = None) -> Tally:
    """Count answers and wrong answers of these runs; `errors` takes up what `Spied` says of their blocks."""
    total = Tally()
    for run in runs:
        fresh, found = None, list[float]()
        if errors is not None:
            fresh = partial(spied_learner, setting, run, found)
        learner = RunSettings(setting, habits, run, fresh=fresh).run()
        total += Tally(setting.is_wrong(learner), learner.stopped, 1)
        if errors is not None:
            errors += found
    return total


def trials(rule: str, *, horizon: int) -> list[tuple[Setting, Habits]]:
    """Return what the gate runs: every algorithm, in every kind of lab that its guarantee covers.

    Args:
        rule: "betting" or "evidence" on a near-tie; or "published", every published rule whose label is a proof, on two
            arms apart enough that it stops (near-ties take these thousands of pulls).
        horizon: of the runs.
    """
    is_published = rule == "published"
    settings = [
        Setting(
            algorithm=name,
            problem=APART if is_published else NEAR_TIE if name == "track-and-stop" else ARC,
            options={"variant": "paper"} if is_published else {"stopping": rule},
            horizon=horizon,
        )
        for name in sp.algorithms.names()
    ]
    proved = [setting for setting in settings if setting.learner().decision.guarantee in ("proved", "published")]
    return [_fitted(setting, habits) for setting in proved for habits in (STORM, QUITTER, MEDDLER)]


def _fitted(setting: Setting, habits: Habits) -> tuple[Setting, Habits]:
    if setting.options.get("variant") == "paper":
        # A proof for a fixed design does not cover results that nobody asked for, and the label says so then.
        is_static = setting.algorithm in ("g-static", "xy-static")
        return setting, replace(habits, own=0.0) if is_static else habits
    if habits is QUITTER:  # short blocks are the easiest to spoil
        setting = replace(setting, options={**setting.options, "schedule": f"periodic:{2 * setting.problem.dim}"})
    return setting, habits


# ---- the second opinion -------------------------------------------------------------------------------------------


class Watched:
    """An algorithm whose sampler says, for everyone to read, how long each interval was planned.

    Args:
        setting: names the algorithm and its options.
        rule: puts another rule in the place of the algorithm's own.
    """

    def __init__(self, setting: Setting, rule: Callable[[Task, Rule], Rule] | None = None) -> None:
        known = {"delta", "noise_std", "epsilon", "candidates"}
        options = {key: value for key, value in setting.settings.items() if key not in known}
        self.inner: Algorithm = as_algorithm(setting.algorithm, options)[0]
        self.rule = rule
        self.lengths: list[int] = []

    def __repr__(self) -> str:
        return f"Watched({self.inner!r})"

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the parts; the lengths begin anew, as a replay does."""
        sampler, rule = self.inner.compose(task)
        self.lengths.clear()
        return _WatchedSampler(sampler, self), rule if self.rule is None else self.rule(task, rule)


class _WatchedSampler:
    def __init__(self, inner: Sampler, watched: Watched) -> None:
        self.inner, self.watched = inner, watched
        self.next, self.pulls_per_nat = inner.next, inner.pulls_per_nat

    def open(self, context: SamplerContext) -> int:
        length = self.inner.open(context)
        self.watched.lengths.append(length)
        return length


def watched_learner(setting: Setting, watched: Watched, seed: int = 0) -> Learner:
    """Return a fresh learner of the watched algorithm."""
    return Learner(
        watched,
        setting.problem.X,
        delta=setting.delta,
        noise_std=setting.problem.noise_std,
        epsilon=setting.epsilon,
        candidates=setting.problem.candidates,
        seed=seed,
    )


class Spied(Rule):
    """A rule that compares, block by block, what the block says about (best estimate so far) - best with the truth.

    Gaussian noise and arms fixed when the block opens make these errors, divided by their standard deviations,
    independent standard normal numbers, whatever happened before. `errors` collects them.
    """

    def __init__(self, inner: Rule, problem: Problem, errors: list[float]) -> None:
        self.inner, self.problem, self.errors = inner, problem, errors
        self.name, self.guarantee = inner.name, inner.guarantee
        self.opens_ahead, self.needs_fixed_blocks = inner.opens_ahead, inner.needs_fixed_blocks  # type: ignore[misc]

    @property
    def is_fixed_design(self) -> bool:
        """Return what the rule itself says."""
        return self.inner.is_fixed_design

    @property
    def counts_every_result(self) -> bool:  # type: ignore[override]
        """Return what the rule itself says."""
        return self.inner.counts_every_result

    def start(self, task: Task) -> "_SpiedState":
        """Return a fresh state."""
        return _SpiedState(task, self)


class _SpiedState(RuleState):
    def __init__(self, task: Task, rule: Spied) -> None:
        super().__init__(task)
        self.inner, self.errors, problem = rule.inner.start(task), rule.errors, rule.problem
        self.regularizers, self.decides_after_pulls = self.inner.regularizers, self.inner.decides_after_pulls
        self.leader, self.alive = self.inner.leader, self.inner.alive  # type: ignore[method-assign]
        self.after_pull = self.inner.after_pull  # type: ignore[method-assign]
        self.theta = task.rows.theta_from_user(problem.theta)
        self.best = int(np.argmax(problem.answers @ problem.theta))
        self.errors.clear()

    def exact(self, estimate: LeastSquares) -> Verdict:
        return self.inner.exact(estimate)

    def after_block(self, estimate: LeastSquares, block: CoreBlock) -> Verdict | None:
        leads = self.best if block.A0_inv is None else self.task.candidates.best(block.theta0)
        if leads != self.best:
            rows = self.task.candidates.gather([leads, self.best])
            y = rows[0] - rows[1]
            inverse = np.linalg.pinv(block.A, rcond=1e-9, hermitian=True)
            spread = float(y @ inverse @ y)
            if np.allclose(block.A @ inverse @ y, y, rtol=0.0, atol=1e-9) and spread > 0.0:
                said = float(y @ inverse @ block.moments)
                self.errors.append((said - float(y @ self.theta)) / (self.task.noise_std * spread**0.5))
        return self.inner.after_block(estimate, block)


def spied_learner(setting: Setting, seed: int, errors: list[float]) -> Learner:
    """Return a fresh learner; `errors` begins anew with it and takes up those of its blocks."""
    spied = Watched(setting, lambda _, rule: Spied(rule, setting.problem, errors))
    return watched_learner(setting, spied, seed)


def normal_limit(n: int) -> float:
    """Return what the sum of n independent standard normal numbers exceeds in size with probability 1e-6."""
    return float(norm.isf(FALSE_ALARM / 2)) * math.sqrt(n)


Exact = Any
"""An array of fractions."""


def exact(values: Any) -> Exact:
    """Return an array of floats as fractions."""
    array = np.asarray(values, dtype=object)
    return np.array([Fraction(value) for value in array.ravel()], dtype=object).reshape(array.shape)


def solved(A: Exact, B: Exact) -> Exact | None:
    """Return A^-1 B by Gauss-Jordan elimination, None if A is singular; B is a matrix."""
    n = len(A)
    table = np.hstack([A, B])
    for column in range(n):
        pivots = [row for row in range(column, n) if table[row, column] != 0]
        if not pivots:
            return None
        table[[column, pivots[0]]] = table[[pivots[0], column]]
        table[column] = table[column] / table[column, column]
        for row in range(n):
            if row != column:
                table[row] = table[row] - table[row, column] * table[column]
    return table[:, n:]


def determinant(A: Exact) -> Fraction:
    """Return det A by expansion along the first row; for few dimensions."""
    if len(A) == 1:
        return Fraction(A[0, 0])
    minors = (np.delete(A[1:], column, axis=1) for column in range(len(A)))
    return sum(((-1) ** k * A[0, k] * determinant(minor) for k, minor in enumerate(minors)), Fraction(0))


@dataclass
class Sums:
    """Arms and rewards of some pulls, and what they add up to."""

    A: Exact
    b: Exact
    rows: list[Exact] = field(default_factory=list)

    def add(self, x: Exact, reward: float) -> None:
        """Take in a pull."""
        self.A = self.A + np.outer(x, x)
        self.b = self.b + Fraction(reward) * x
        self.rows.append(x)


@dataclass
class Block:
    """An interval as the books see it: its own results by their place, and who is still awaited."""

    number: int
    left: int
    awaited: int
    arms: list[Exact] = field(default_factory=list)
    rewards: dict[int, float] = field(default_factory=dict)

    def into(self, sums: Sums) -> Sums:
        """Add its pulls to others."""
        for place, x in enumerate(self.arms):
            sums.add(x, self.rewards[place])
        return sums


@dataclass
class Ask:
    """An ask without a result: its arm, and the block and the place in it that it belongs to."""

    arm: int
    block: Block | None
    place: int = 0


def reads(own: Sums, y: Exact) -> tuple[Fraction, Fraction] | None:
    """Return what their least squares says about theta'y, and the variance for noise_std 1; None outside their range.

    In coordinates of a basis of their arms, where the information is regular: no tolerance, no pseudo-inverse.
    """
    basis: list[Exact] = []
    for x in own.rows:
        longer = np.array([*basis, x])
        if solved(longer @ longer.T, longer) is not None:
            basis.append(x)
        if len(basis) == len(y):
            break
    B = np.array(basis)
    inside = solved(B @ B.T, B)  # u = B'c for c = (B B')^-1 B u, if u is in the range at all
    assert inside is not None
    c = inside @ y
    if (B.T @ c != y).any():
        return None
    G = inside @ own.A @ inside.T
    answer = solved(G, np.stack([inside @ own.b, c], axis=1))
    assert answer is not None
    return c @ answer[:, 0], c @ answer[:, 1]


def own_belief(theta: Array, noise: Array, V: Array, level: Array) -> tuple[Exact, Exact]:
    """Return mean and covariance of the shrunk belief, by dense matrices in the user's coordinates.

    Args:
        theta: estimate (d,).
        noise: its covariance (d, d).
        V: information of the G-optimal design: the identity of whitened coordinates.
        level: u (d,).
    """
    size = theta @ V @ theta / len(theta)
    if size == 0.0:
        return exact(theta), exact(noise)
    u = np.linalg.solve(noise, level)
    best: tuple[float, Array, Array] = -math.inf, theta, noise
    for t1 in (0.0, (u @ theta / (u @ level)) ** 2):
        for j in range(-1, 11):
            P = size * 2.0**-j * np.linalg.inv(V) + t1 * np.outer(level, level)
            S_inv = np.linalg.inv(P + noise)
            score = float(np.linalg.slogdet(S_inv)[1] - theta @ S_inv @ theta)
            best = max(best, (score, P @ S_inv @ theta, P - P @ S_inv @ P), key=lambda found: found[0])
    return exact(best[1]), exact(best[2])


def own_points(mu: Array, tau: Array) -> tuple[Array, Array]:
    """Return the two points of a stake: mean plus and minus deviation of N(mu, tau^2) cut at 0, phi/Phi by a series."""
    a, mills = mu / tau, [math.sqrt(math.pi / 2.0), 1.0]
    for k in range(2, 5):
        mills.append(mills[k - 2] / k)  # M = Phi/phi solves M' = 1 + a M
    cut = 1.0 / np.polynomial.polynomial.polyval(a, mills)
    mean, deviation = mu + tau * cut, tau * np.sqrt(1.0 - cut * cut - a * cut)
    return mean + deviation, mean - deviation


def own_log_returns(z: Fraction, v: Fraction, m: Fraction, s2: Fraction, rest: float) -> float:
    """Return the increment of three stakes, half on m, which is no more than the goal, a quarter on .6 m and .3 m."""
    goal = math.sqrt(2.0 * float(v) * rest)
    logs = []
    for part, share in ((2, 1.0), (4, 0.6), (4, 0.3)):
        for point in own_points(np.array(share * min(float(m), goal)), np.array(min(math.sqrt(s2), goal))):
            D = Fraction(float(point))
            logs.append(float(D * z / v - D * D / (2 * v)) - math.log(2 * part))
    return max(logs) + math.log(math.fsum(math.exp(value - max(logs)) for value in logs))


class Books:
    """Intervals, and either wealth or evidence, from the events of a log.

    Args:
        setting: whose log it is; its rule is "betting" or "evidence".
        watched: how long each interval was planned.
        V: the regulariser of the evidence rule (d, d) and the scale of the prior, in the user's coordinates.
        level: the direction of a common level (d,).
        followed: keep books on these candidates alone, none of which is rejected; for very many candidates.
    """

    def __init__(
        self, setting: Setting, watched: Watched, V: Array, level: Array, followed: Sequence[int] | None = None
    ) -> None:
        self.is_betting = setting.options["stopping"] == "betting"
        self.problem = problem = setting.problem
        self.x: Callable[[int], Exact] = cache(lambda arm: exact(problem.X[arm]))
        self.z: Callable[[int], Exact] = cache(lambda b: exact(problem.answers[b]))
        self.followed = range(len(problem.answers)) if followed is None else followed
        self.is_partial = followed is not None
        self.variance = Fraction(problem.noise_std) ** 2
        self.log_price, self.epsilon = -math.log(setting.delta), Fraction(setting.epsilon)
        self.V, self.level, self.watched = exact(V), level, watched
        self.all, self.past = self._nothing(), self._nothing()
        self.blocks: deque[Block] = deque()
        self.newest: Block | None = None
        self.n_opened = self.n_bets = 0
        self.asks: dict[int, Ask] = {}
        self.owed: deque[int] = deque()
        self.n_asked = 0
        self.extra: deque[tuple[int, int, float]] = deque()
        """Unsolicited results: intervals opened before, arm, reward."""
        self.wealth = dict.fromkeys(self.followed, 0.0)
        """Log wealth against each candidate without slack."""
        self.seats: list[tuple[int, dict[int, float]]] = []
        """With slack: answers in order, each with its log wealth against each candidate."""
        self.answer: int | None = None
        self.evidence = 0.0
        """Of the betting rule after the last block: the least log wealth against another than the leader. Of the
        evidence rule now."""
        self.highest: dict[int, dict[int, float]] = {}
        """Per leader: the largest evidence it ever had against each candidate while it led."""

    def _nothing(self) -> Sums:
        zero, dim = Fraction(0), self.problem.dim
        return Sums(np.full((dim, dim), zero, dtype=object), np.full(dim, zero, dtype=object))

    def take(self, event: Any) -> None:
        """Take in one event of the log."""
        match event:
            case ("ask", arms):
                for arm in arms:
                    self._ask(arm)
            case ("tell", arm, reward, *ask):
                self._tell(arm, reward, *ask)
            case ("fail", arm, *ask):
                pending = [number for number in self._asks_of(arm) if number not in self.owed]
                self.owed.append(ask[0] if ask else pending[0])

    def _asks_of(self, arm: int) -> list[int]:
        """Return the asks of an arm without a result, failed or not: those of blocks first, the oldest first."""
        asks = [number for number, ask in self.asks.items() if ask.arm == arm]
        return sorted(asks, key=lambda number: (self.asks[number].block is None, number))

    def _ask(self, arm: int) -> None:
        newest = self.newest
        if self.owed and (newest is None or newest.left == 0):
            number = self.owed.popleft()
            assert self.asks[number].arm == arm, "an ask that failed is made again with the same arm"
            return
        if (newest is None or newest.left == 0) and self.answer is None:
            length = self.watched.lengths[self.n_opened]
            self.n_opened += 1
            newest = self.newest = Block(self.n_opened, length, length)
            self.blocks.append(newest)
        ask = Ask(arm, None)
        if newest is not None and newest.left > 0:
            ask = Ask(arm, newest, len(newest.arms))
            newest.arms.append(self.x(arm))
            newest.left -= 1
        self.asks[self.n_asked] = ask
        self.n_asked += 1

    def _tell(self, arm: int, reward: float, *named: int) -> None:
        self.all.add(self.x(arm), reward)
        number = next(iter([*named, *self._asks_of(arm)]), None)
        ask = Ask(arm, None) if number is None else self.asks.pop(number)
        if number is not None and number in self.owed:
            # The attempt that gave the result is over, so its own ask is the one owed now.
            others = [] if named else [other for other in self._asks_of(arm) if other not in self.owed]
            place = self.owed.index(number)
            self.owed.remove(number)
            if others:
                self.owed.insert(place, others[0])
        if ask.block is None:
            self.extra.append((self.n_opened, arm, reward))
        else:
            ask.block.rewards[ask.place] = reward
            ask.block.awaited -= 1
        if not self.is_betting:
            self._weigh()
        while self.is_betting and self.blocks and self.blocks[0].awaited == 0 and self.answer is None:
            self._settle(self.blocks.popleft())

    def _estimate(self, sums: Sums) -> tuple[Exact, Exact] | None:
        A_inv = solved(sums.A, exact(np.eye(self.problem.dim)))
        return None if A_inv is None else (A_inv @ sums.b, A_inv)

    def _leading(self, theta: Exact, left: Iterable[int]) -> int:
        """Return the best estimate of those left, the first of equals."""
        if self.is_partial:
            return int(np.argmax(self.problem.answers @ theta.astype(float)))
        return max(left, key=lambda b: (self.z(b) @ theta, -b))

    def _alive(self) -> list[int]:
        """Return who may lead: without slack, who is not rejected."""
        return [b for b in self.followed if self.epsilon or self.wealth[b] < self.log_price]

    def _settle(self, block: Block) -> None:
        while self.extra and self.extra[0][0] < block.number:
            _, arm, reward = self.extra.popleft()
            self.past.add(self.x(arm), reward)
        known = self._estimate(self.past)
        if known is not None:
            leader = self._leading(known[0], self._alive())
            theta, noise = known[0].astype(float), (self.variance * known[1]).astype(float)
            belief = own_belief(theta, noise, self.V.astype(float), self.level)
            self._bet(leader, known[0], belief, block.into(self._nothing()))
        block.into(self.past)
        now = self._estimate(self.all)
        if now is not None and not self.is_partial:
            leader = self._leading(now[0], self._alive()) if self.answer is None else self.answer
            wealth = self._up_to(leader) if self.epsilon else self.wealth
            self.evidence = min(wealth[b] for b in self.followed if b != leader)

    def _bet(self, leader: int, theta: Exact, belief: tuple[Exact, Exact], own: Sums) -> None:
        self.n_bets += 1
        if not self.epsilon:
            self._pay(leader, self.wealth, belief, own)
            if not self.is_partial and all(b == leader for b in self._alive()):
                self.answer = leader
            return
        if not self.seats:
            order = sorted(self.followed, key=lambda b: (-(self.z(b) @ theta), b))
            # Nobody has an account against itself, so its own column never is the smallest.
            self.seats = [(u, dict.fromkeys(self.followed, 0.0) | {u: math.inf}) for u in order[:16]]
        front = leader, self._up_to(leader)
        self.seats = [front, *(seat for seat in self.seats if seat[0] != leader)]
        assert len(self.seats) <= 16, "books do without the rule for dropping seats"
        for u, wealth in self.seats:
            self._pay(u, wealth, belief, own)
        passed = (u for u, _ in self.seats if all(value >= self.log_price for value in self._up_to(u).values()))
        self.answer = next(passed, None)

    def _up_to(self, leader: int) -> dict[int, float]:
        """Return the least wealth of all seats up to the leader's; of all and of a new one if it has none."""
        order = [u for u, _ in self.seats]
        place = order.index(leader) + 1 if leader in order else len(order)
        columns = [V for _, V in self.seats[:place]] + ([] if leader in order else [dict.fromkeys(self.followed, 0.0)])
        return {b: math.inf if b == leader else min(V[b] for V in columns) for b in self.followed}

    def _pay(self, leader: int, wealth: dict[int, float], belief: tuple[Exact, Exact], own: Sums) -> None:
        for b in self.followed:
            y = self.z(leader) - self.z(b)
            if b == leader or wealth[b] >= self.log_price:
                continue
            said = reads(own, y)
            if said is not None and (y != 0).any():
                m = max(y @ belief[0] + self.epsilon, Fraction(0))
                z, v, s2 = said[0] + self.epsilon, self.variance * said[1], y @ belief[1] @ y
                wealth[b] += own_log_returns(z, v, m, s2, self.log_price - wealth[b])

    def _weigh(self) -> None:
        """Compute the evidence of Theorem 1 with kappa = 4, ..., 4^6 and weights like 1/2, ..., 1/64."""
        known = self._estimate(self.all)
        if known is None:
            return
        theta, A_inv = known
        leader = max(self.followed, key=lambda b: (self.z(b) @ theta, -b))
        pushed = A_inv @ self.V @ A_inv
        prices = []
        for j in range(1, 7):
            ratio = determinant(4**j * self.V + self.all.A) / determinant(4**j * self.V)
            prices.append(math.log(2.0**-j / (1.0 - 2.0**-6)) - 0.5 * math.log(ratio))
        highest = self.highest.setdefault(leader, dict.fromkeys(self.followed, -math.inf))
        now = []
        for b in self.followed:
            if b == leader:
                continue
            y = self.z(leader) - self.z(b)
            top = (y @ theta + self.epsilon) ** 2 / (2 * self.variance)
            q1, q2 = y @ A_inv @ y, y @ pushed @ y
            terms = [price + float(top / (q1 + 4**j * q2)) for j, price in enumerate(prices, start=1)]
            now.append(max(terms) + math.log(math.fsum(math.exp(term - max(terms)) for term in terms)))
            highest[b] = max(highest[b], now[-1])
        if self.answer is None:
            self.evidence = min(now)
            self.answer = leader if self.evidence >= self.log_price else None

    def most_evidence(self, leader: int) -> float:
        """Return the evidence with elimination: what each rival was refuted by at its weakest moment at most."""
        return min(value for b, value in self.highest[leader].items() if b != leader)


def of_design(learner: Learner) -> tuple[Array, Array]:
    """Return, in the user's coordinates, the information V (d, d) of the learner's G-optimal design and its level."""
    view = learner.task.rows
    rows, weights = view.arms.gather(view.design.support), view.design.weights
    V: Array = rows.T @ (weights[:, None] * rows)
    level: Array = np.linalg.solve(V, weights @ rows).astype(np.float64)
    return V, level
