"""One seeded run of an algorithm on a problem.

Run i depends on (seed, i) only: `SeedSequence(seed, spawn_key=(i,))` is split into the seed of the instance, the
noise and the seed of the learner.
"""

import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard

import numpy as np

from surepick.arms.base import ArmSet, VectorSet
from surepick.arms.finite import FiniteArms
from surepick.core.design import lower_bound
from surepick.core.design.targets import Target
from surepick.core.linalg import one_blas_thread
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner
from surepick.learning.noise_models import NAMED, Drifting, NoiseModel, takes_scale
from surepick.learning.snapshot import Algorithm
from surepick.learning.spec import TaskOptions
from surepick.sampling.base import weights_of
from surepick.simulation.pools import PoolProblem
from surepick.simulation.problems import Problem, VectorProblem
from surepick.types import Array, IntArray

AnyProblem = Problem | VectorProblem | PoolProblem
OWN_PROBLEM = ("X", "name", "pull", "loss")
"""Attributes of a problem of your own, which need not be a `Problem`."""
OF_TASK = frozenset(TaskOptions.__annotations__)
"""Options of a learner, those that all algorithms share included."""
OF_GOAL = ("m", "threshold", "control", "margin", "costs")
"""Options of a learner that say what is sought, and what a pull costs: the lower bound depends on them."""
OF_REWARDS = frozenset({"noise", "reward_range", "rewards"})
"""Options of a learner that replace `noise_std`."""
MOST_LISTED = 5
"""Arms that an error names."""
ROUNDING = 1e-12
"""Relative size of rounding errors in means."""
TRACE_RATIO = 1.1
"""Factor between two times at which a run is recorded."""
CHUNK = 256
"""Normal numbers drawn at once."""


class Seeds(NamedTuple):
    """Seeds of one run."""

    instance: int
    noise: np.random.SeedSequence
    learner: int


def run_seeds(seed: int, run: int) -> Seeds:
    """Return the seeds of run number `run`, which depend on the arguments alone."""
    instance, noise, learner = np.random.SeedSequence(seed, spawn_key=(run,)).spawn(3)
    return Seeds(int(instance.generate_state(1)[0]), noise, int(learner.generate_state(1)[0]))


class KnownAnswer(Protocol):
    """The part of a problem that a run reads: a name, and the loss of an answer."""

    @property
    def name(self) -> str:
        """Name of the problem."""

    def loss(self, answer: Any, /) -> float:
        """Return the loss of an answer against the best."""


class Instance(NamedTuple):
    """A problem prepared for runs."""

    problem: KnownAnswer
    arms: ArmSet | VectorSet
    mean: Callable[[Any], float]
    """Mean reward of an arm."""
    noise_std: float | Array
    """Standard deviation of one pull; (K,) if arms differ in noise."""
    known: Mapping[str, Any]
    """Options of the learner that describe the problem."""
    epsilon: float
    bound: float
    """Lower bound on the expected pulls, or with costs on the expected cost; NaN if unknown or not requested."""
    pull: Callable[[Any, np.random.Generator], float] | None = None
    """Draws a reward, for a problem that draws its own; `mean` and `noise_std` are then not used."""
    score: Callable[[Any, Any], float] | None = None
    """The score of an arm on an item, for a pool."""
    clips: bool = False
    """Whether a mean outside the bounds of the rewards counts as the bound: that of an estimate may be outside."""


class Job(NamedTuple):
    """The settings that runs share; sent to the processes once per batch."""

    problem: Instance | AnyProblem | Callable[[int], AnyProblem]
    """A problem, preferably prepared, or a function that draws a problem from a seed."""
    algorithm: str | Algorithm | Callable[..., Algorithm] = "lazy-track-and-stop"
    """A name, an object, or a class with the algorithm's options as arguments."""
    delta: float = 0.05
    epsilon: float = 0.0
    seed: int = 0
    max_pulls: int = 10**6
    bounds: bool = False
    options: Mapping[str, Any] = {}
    audit: int | Literal["auto"] = 0
    """Check pulls after the verdict."""
    trace: bool = False
    refuses_ties: bool = False
    """Whether a problem is refused whose best arms are equally good: no run on it would end."""


class Trace(NamedTuple):
    """The way of one run, at times that grow by a tenth: one row for each."""

    times: IntArray
    """Results so far (T,)."""
    evidence: Array
    """Evidence for the leader (T,)."""
    counts: IntArray
    """Pulls of every arm (T, K)."""
    weights: Array
    """Weights w(t) of the design in force (T, K); NaN where the algorithm follows none."""

    def __repr__(self) -> str:
        """Return the size alone: the tables fill screens."""
        n_times, n_arms = self.counts.shape
        return f"Trace({self.times[-1]} pulls at {n_times} times, {n_arms} arms, evidence {self.evidence[-1]:.3g})"

    @property
    def shares(self) -> Array:
        """Share of every arm among the pulls (T, K), to set beside the weights of `characteristic_time`."""
        return self.counts / self.times[:, None]

    @property
    def support(self) -> IntArray:
        """Number of different arms pulled (T,)."""
        different: IntArray = np.count_nonzero(self.counts, axis=1)
        return different

    @property
    def design_support(self) -> Array:
        """Number of arms in the design in force (T,); NaN where the algorithm follows none."""
        return np.where(np.isnan(self.weights[:, 0]), np.nan, np.count_nonzero(self.weights, axis=1))


class _Recorder:
    """Records a run; called after every pull."""

    def __init__(self, n_arms: int) -> None:
        self._counts, self._due = np.zeros(n_arms, dtype=np.int64), 1
        self._rows: list[tuple[int, float, IntArray, Array]] = []

    def __call__(self, learner: Learner, arm: Any) -> None:
        self._counts[arm] += 1
        n = int(self._counts.sum())
        if n >= self._due or learner.stopped:
            design = _design_of(learner)
            weights = np.full(len(self._counts), 0.0 if design else math.nan)
            weights[list(design)] = list(design.values())
            self._rows.append((n, float(learner.decision.evidence), self._counts.copy(), weights))
            self._due = max(n + 1, math.ceil(TRACE_RATIO * n))

    def trace(self) -> Trace:
        return Trace(*map(np.array, zip(*self._rows, strict=True)))


def _design_of(learner: Learner) -> Mapping[int, float]:
    """Return the weights of the design in force by arm; empty if the algorithm follows none."""
    return weights_of(learner.state.plans.sampler)


class _DesignSizes:
    """Counts the arms of the designs of a run, one for each block that follows a design."""

    def __init__(self) -> None:
        self._n_blocks, self._sizes = 0, list[int]()

    def look(self, learner: Learner) -> None:
        """Take note of the design of a block that has just begun."""
        n_blocks = learner.state.ledger.n_opened
        if n_blocks != self._n_blocks and (design := _design_of(learner)):
            self._sizes.append(len(design))
        self._n_blocks = n_blocks

    @property
    def mean(self) -> float:
        """Mean number of arms; NaN if the run followed no design."""
        return float(np.mean(self._sizes)) if self._sizes else math.nan


class Outcome(NamedTuple):
    """The record of one run."""

    problem: str
    epsilon: float
    n_pulls: int
    correct: bool
    stopped: bool
    seconds: float
    support: int
    evidence: float
    target: float
    lower_bound: float
    cost: float
    design_support: float
    """Number of arms in a design, the mean over the blocks of the run that followed one; NaN if none did."""
    trace: Trace | None = None


def run_once(job: Job, run: int, watch: Callable[[Learner, Any], object] | None = None) -> Outcome:
    """Do one run; its outcome depends on the job and the number of the run alone.

    Args:
        job: the options that all runs share.
        run: number of the run.
        watch: called with the learner and the arm after every pull; neither its effects nor its time count.
    """
    seeds = run_seeds(job.seed, run)
    instance = instance_of(job, seeds)
    if job.refuses_ties and isinstance(instance.problem, Problem):
        _refuse_ties(instance.problem, job.options)
    if not job.trace:
        return run_with(job, instance, seeds, watch)
    if not isinstance(instance.arms, ArmSet):
        raise InvalidInput(f"`trace` needs a list of arms, got {instance.problem.name}; leave it out.")
    recorder = _Recorder(instance.arms.n_arms)
    return run_with(job, instance, seeds, recorder)._replace(trace=recorder.trace())


# One BLAS thread here too, so that every process adds sums in the same order.
@one_blas_thread
def run_with(
    job: Job, instance: Instance, seeds: Seeds, watch: Callable[[Learner, Any], object] | None = None
) -> Outcome:
    """Do the run with these seeds on an instance."""
    start = time.thread_time()
    learner = new_learner(job, instance, seeds.learner)
    if not instance.clips and instance.pull is None and instance.score is None:
        _check_means(learner, instance)
    measure = instance.score or _measurement(learner, instance, np.random.default_rng(seeds.noise))

    def tell(arm: Any, *item: Any) -> None:
        nonlocal start
        learner.tell(arm, measure(arm, *item))
        if watch is not None:
            paused = time.thread_time()
            watch(learner, arm)
            start += time.thread_time() - paused

    # A block that is asked for at once has the same arms, and takes half the time: fixed budgets are simulated by the
    # thousand. Other runs end inside a block, if at all, where their records of before do.
    # With offsets of groups a block is a group.
    is_whole = learner.spec.goal == "fixed-budget" and learner.rule.needs_fixed_blocks
    is_whole = is_whole or learner.task.has_offsets
    n_pulls, designs = 0, _DesignSizes()
    while not learner.stopped and n_pulls < job.max_pulls:
        n_wanted = max(1, min(learner.n_planned, job.max_pulls - n_pulls)) if is_whole else 1
        asked = _asked(learner, instance, n_wanted)
        if not asked:  # the budget is spent
            break
        designs.look(learner)
        for one in asked:
            tell(*one)
            n_pulls += 1
    while job.audit and learner.stopped and not learner.reader.n_checks:
        if not learner.n_planned:  # else the verdict came inside a block, whose rest comes first
            learner.audit(job.audit)
        for one in _asked(learner, instance, learner.n_planned):
            tell(*one)
    seconds = time.thread_time() - start
    decision = learner.decision
    # The answer to a fixed budget comes with its end, proved or not.
    is_spent = learner.spec.goal == "fixed-budget" and learner.state.is_spent and learner.state.ledger.is_settled
    stopped = bool(decision.stopped or is_spent) and not (job.audit and decision.guarantee == "withdrawn")
    return Outcome(
        problem=instance.problem.name,
        epsilon=instance.epsilon,
        n_pulls=decision.n_pulls,
        correct=stopped and _is_right(learner, instance),
        stopped=stopped,
        seconds=seconds,
        support=sum(1 for count in learner.counts.values() if count),
        evidence=float(decision.evidence),
        target=float(decision.target),
        lower_bound=float(instance.bound),
        cost=float(learner.reader.cost),
        design_support=designs.mean,
    )


def _asked(learner: Learner, instance: Instance, n: int) -> list[tuple[Any, ...]]:
    """Return the next n arms, or the next one with its item if there is a pool; none if the budget is spent."""
    if instance.score is None:
        # Runs draw no offsets, since no comparison depends on them.
        label = f"group at {learner.estimate.n_pulls}" if learner.task.has_offsets else None
        return [(arm,) for arm in learner.next_arms(n, group=label)]
    return [(ask.arm, ask.item) for ask in learner.next_asks()]


def _is_right(learner: Learner, instance: Instance) -> bool:
    """Whether the answer loses at most epsilon, or beside a target whether every call is right up to epsilon."""
    target, calls = learner.task.target, learner.reader.calls
    if target is None or calls is None:
        best: Any = learner.decision.best
        return best is not None and bool(instance.problem.loss(best) <= instance.epsilon)
    apart = _apart(instance.problem, target)
    return all(
        # An arm on the target is not above it.
        apart[row] > -instance.epsilon if call == "met" else apart[row] <= 0.0 or apart[row] < instance.epsilon
        for row, call in calls.items()
        if call != "open"
    )


def _apart(problem: Any, target: Target) -> Array:
    """Return how far the mean of each answer is above the target (M,)."""
    means: Array = problem.means
    return means - target.value - (0.0 if target.control is None else means[target.control])


def instance_of(job: Job, seeds: Seeds) -> Instance:
    """Return the prepared problem of a run."""
    if isinstance(job.problem, Instance):
        return job.problem
    given: Any = job.problem
    problem = given if is_problem(given) else given(seeds.instance)
    if not is_problem(problem):
        raise InvalidInput(
            f"`problem` must be a function that returns a problem, got one that returned a "
            f"{type(problem).__name__}; let it return a problem such as those of `surepick.problems`."
        )
    return prepared(problem, delta=job.delta, epsilon=job.epsilon, bounds=job.bounds, goal=goal_of(job.options))


def goal_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that say what is sought, as far as they are given, and whether groups have offsets."""
    sought = {name: options[name] for name in OF_GOAL if options.get(name) is not None}
    return {**sought, "groups": "offset"} if options.get("groups") == "offset" else sought


def has_normal_noise(options: Mapping[str, Any]) -> bool:
    """Return whether rewards are drawn with normal noise, which lower bounds are for, as far as options say."""
    if not (options.get("reward_range") is None and options.get("rewards") is None):
        return False
    noise = options.get("noise")
    kind = NAMED.get(noise) if isinstance(noise, str) else type(noise)
    return not (kind and issubclass(kind, NoiseModel)) or kind.draw in (NoiseModel.draw, Drifting.draw)


def is_problem(value: object) -> TypeGuard[AnyProblem]:
    """Return whether a value is a problem: one of the package, or an object with the attributes of `OWN_PROBLEM`."""
    is_own = not isinstance(value, type) and all(hasattr(value, name) for name in OWN_PROBLEM)
    return isinstance(value, AnyProblem) or is_own


def new_learner(job: Job, instance: Instance, seed: int) -> Learner:
    """Return a fresh learner."""
    options = {name: value(instance.problem) if callable(value) else value for name, value in job.options.items()}
    known = {**instance.known, "delta": job.delta, "epsilon": instance.epsilon, "seed": seed}
    if OF_REWARDS & options.keys():
        if not takes_scale(options.get("noise")):
            known.pop("noise_std", None)
        known |= {name: options.pop(name) for name in OF_REWARDS & options.keys()}
    if "noise_std" in options:
        told = options.pop("noise_std")
        known["noise_std"] = None if isinstance(told, str) and told == "learnt" else told
    algorithm: Any = job.algorithm
    is_object = isinstance(algorithm, str) or (hasattr(algorithm, "compose") and not isinstance(algorithm, type))
    if not is_object:
        parameters = inspect.signature(algorithm).parameters
        known |= {name: options.pop(name) for name in (OF_TASK & options.keys()) - parameters.keys()}
        takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        if not takes_all and (unknown := sorted(options.keys() - parameters.keys())):
            raise InvalidInput(
                f"{algorithm.__name__} has no option {unknown[0]!r}; its options are {', '.join(parameters) or 'none'}."
            )
        algorithm, options = algorithm(**options), {}
    return Learner(algorithm, instance.arms, **known, **options)


@one_blas_thread
def prepared(
    problem: AnyProblem, *, delta: float, epsilon: float, bounds: bool, goal: Mapping[str, Any] | None = None
) -> Instance:
    """Prepare a problem, with its lower bound if requested; `goal` is what `goal_of` returns."""
    known: dict[str, Any] = {"noise_std": getattr(problem, "noise_std", None)}
    sought = {name: value(problem) if callable(value) else value for name, value in (goal or {}).items()}
    if isinstance(problem, VectorProblem):
        if epsilon:
            raise InvalidInput(f"`epsilon` belongs to {problem.name}, which has {problem.epsilon:g}; leave it out.")
        bound = problem.lower_bound(delta) if bounds else math.nan
        return Instance(problem, problem.vectors, problem.mean, problem.noise_std, known, problem.epsilon, bound)
    arms, bound, candidates = FiniteArms(problem.X), math.nan, getattr(problem, "candidates", None)
    if bounds and not isinstance(problem, Problem):
        raise InvalidInput(f"`bounds` needs a `surepick.problems.Problem`, got {problem.name}; leave it out.")
    if isinstance(problem, PoolProblem):
        known = {"pool": problem.n_items, "reward_range": problem.reward_range}
        return Instance(problem, arms, _no_mean, 1.0, known, epsilon, bound, score=problem.score)
    known["candidates"] = candidates
    if named := [name for name in ("threshold", "control") if name in sought and not hasattr(problem, "means")]:
        raise InvalidInput(
            f"`{named[0]}` needs a problem with `means`, the mean reward of each answer, to judge calls; "
            f"{problem.name} has none."
        )
    if not isinstance(problem, Problem):
        return Instance(problem, arms, _no_mean, 1.0, known, epsilon, bound, problem.pull)
    if bounds and type(problem).loss is not Problem.loss:
        raise InvalidInput(f"`bounds` needs means that are linear in the features, got {problem.name}; leave it out.")
    if bounds and not (epsilon and sought.get("m", 1) > 1):  # no bound is known for that
        bound = lower_bound(arms, problem.theta, delta, problem.noise_std, candidates, epsilon=epsilon, **sought)
    mean = (problem.X @ problem.theta).tolist().__getitem__
    pull = None if type(problem).pull is Problem.pull else problem.pull
    return Instance(problem, arms, mean, problem.noise_std, known, epsilon, bound, pull)


def _no_mean(_: Any) -> float:
    return math.nan


def _refuse_ties(problem: Problem, options: Mapping[str, Any]) -> None:
    """Refuse a problem in which another answer is as good as the m-th best, or one is on the target.

    Copies of the best, or of a control, are no other answers.
    """
    values, answers, m = problem.answers @ problem.theta, problem.answers, options.get("m", 1)
    advice = "so a run would never end; give `epsilon` above 0, or `max_pulls` to end runs without an answer."
    if (target := target_of(options)) is not None:
        sizes: Array = np.abs(answers) @ np.abs(problem.theta) + abs(target.value)
        on_target = np.abs(_apart(problem, target)) <= ROUNDING * sizes
        if target.control is not None:
            on_target &= (answers != answers[target.control]).any(axis=1)
        if rows := np.flatnonzero(on_target).tolist():
            are = "is" if len(rows) == 1 else "are"
            raise InvalidInput(f"{_listed(rows)} of {problem.name} {are} on the target, {advice}")
        return
    order = np.argsort(-values, kind="stable")
    last = order[m - 1]
    size = float(np.abs(problem.answers[last]) @ np.abs(problem.theta))  # of the terms that rounding is relative to
    near = [row for row in order[m:].tolist() if values[last] - values[row] <= ROUNDING * size]
    if rivals := [row for row in near if not np.array_equal(answers[row], answers[last])]:
        raise InvalidInput(f"{_listed([int(last), *rivals])} of {problem.name} are equally good, {advice}")


def target_of(options: Mapping[str, Any]) -> Target | None:
    """Return the target that options name; the control of a problem is a row number."""
    if options.get("threshold") is not None:
        return Target(float(options["threshold"]))
    if options.get("control") is None:
        return None
    return Target(0.0 - float(options.get("margin", 0.0)), int(options["control"]))


def _check_means(learner: Learner, instance: Instance) -> None:
    """Refuse arms whose mean reward is outside the bounds of rewards: no reward between them has this mean."""
    bounds = learner.noise_model.reward_range
    if bounds is None or not isinstance(instance.arms, ArmSet):
        return
    (lo, hi), arms = bounds, range(instance.arms.n_arms)
    means = np.array([instance.mean(arm) for arm in arms])
    slack = ROUNDING * (hi - lo)
    outside = np.flatnonzero((means < lo - slack) | (means > hi + slack)).tolist()
    if outside:
        found = sorted({f"{mean:.3g}" for mean in (means[outside].min(), means[outside].max())}, key=float)
        raise InvalidInput(
            f"every mean reward must lie between {lo:g} and {hi:g}, the bounds of the rewards, got "
            f"{' to '.join(found)} for {_listed(outside)} of {instance.problem.name}; change "
            "theta, or give a wider `reward_range`."
        )


def _listed(arms: Sequence[int]) -> str:
    """Name some arms."""
    more = [f"{len(arms) - MOST_LISTED} more"] if len(arms) > MOST_LISTED else []
    *first, last = [*map(str, arms[:MOST_LISTED]), *more]
    return f"arms {', '.join(first)} and {last}" if first else f"arm {last}"


def _measurement(learner: Learner, instance: Instance, rng: np.random.Generator) -> Callable[[Any], float]:
    """Return a function from an arm to a reward: the problem's own, or one that the learner's noise model allows."""
    if (pull := instance.pull) is not None:
        return lambda arm: float(pull(arm, rng))
    model, mean, level = learner.noise_model, instance.mean, instance.noise_std
    number_of = learner.measured_arms.number_of
    if type(model).draw is not NoiseModel.draw:

        def drawn(arm: Any) -> float:
            number = number_of(arm)
            own = level if isinstance(level, float) else level[number]
            return float(model.draw(rng, np.array([mean(arm)]), np.array([number]), own)[0])

        return drawn
    level = level if model.stds is None else model.stds
    normal = _normals(rng)  # the same numbers as single draws, in less time
    if isinstance(level, float):
        return lambda arm: mean(arm) + level * next(normal)
    stds = level.tolist()
    return lambda arm: mean(arm) + stds[arm] * next(normal)


def _normals(rng: np.random.Generator) -> Iterator[float]:
    """Yield standard normal numbers, drawn in chunks; the same numbers as single draws."""
    while True:
        yield from rng.standard_normal(CHUNK).tolist()
