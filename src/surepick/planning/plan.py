"""Plan an experiment before the first measurement: expected pulls, their range, and a lower bound for any method."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, final

import numpy as np
from numpy.typing import ArrayLike

from surepick._texts import html_table
from surepick.algorithms import check_options
from surepick.arms.base import ArmSet
from surepick.arms.finite import as_arms
from surepick.arms.views import costs_given, divided
from surepick.core.betting.sets import has_room
from surepick.core.checks import check_count, check_delta, check_epsilon, check_seed
from surepick.core.design import Design, optimal_design
from surepick.core.design.targets import Target
from surepick.core.design.times import characteristic_time
from surepick.errors import InvalidInput, TiedArms
from surepick.learning.learner import Learner
from surepick.learning.noise_models import NoiseModel, noise_model, takes_scale
from surepick.learning.spec import IN_PLAN, Spec, TaskOptions, takes_options
from surepick.planning.forecast import (
    LEARNING,
    TIED,
    Difficulty,
    Law,
    difficulty,
    expected_pulls,
    quantile,
    smallest_gap,
)
from surepick.planning.scenarios import Scenario, from_gap, from_pilot, from_thetas, noise_to_run
from surepick.simulation.parallel import collect
from surepick.simulation.run import Instance, Job, Outcome, Seeds, run_with
from surepick.simulation.runs import Runs
from surepick.types import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST_PULLS = 10**6
"""Most pulls of an experiment that counts as possible."""
START_TOL = 1e-2
"""Relative gap of the G-optimal design."""
RISKS = (0.1, 0.05, 0.01, 1e-3)
OF_NOISE = ("noise_std", "noise", "reward_range", "rewards")
"""Options that say a guess of the noise, or the noise model of runs."""
OF_JOB = ("delta", "epsilon", "seed")
"""Options that differ between plans of one setting, or between runs."""
EXTRA_BATCHES = 1.5
"""Batches that an experiment in batches takes beyond one that plans in the blocks of the default schedule: measured on
four problems with 3, 5 and 10 batches (benchmarks/rounds.py), an estimate."""
ROUNDS_RUNS = 40
"""Simulated runs that say what a number of batches decides."""
SLACKS = (0.0, 0.5, 1.0, 2.0)
"""Slacks of `Plan.by_slack`, in units of the lead of the best arm."""


class _Setting(NamedTuple):
    """The part of a plan that does not depend on risk and slack."""

    arms: ArmSet
    noise: NoiseModel
    """Noise model of simulated runs."""
    scenarios: tuple[Scenario, ...]
    costs: Array | None
    m: int
    start: Design
    """The G-optimal design, with which every run begins."""
    spec: Spec
    """Options of simulated runs, the noise apart."""
    target: Target | None = None
    """What arms are held against, instead of the best that is sought."""
    noisiest: float | None = None
    """The standard deviation that is assumed of bounded rewards of which no level is known."""

    def difficulties(self, epsilon: float) -> tuple[Difficulty, ...]:
        return tuple(self._difficulty(scenario, epsilon) for scenario in self.scenarios)

    def _difficulty(self, scenario: Scenario, epsilon: float) -> Difficulty:
        try:
            found = difficulty(
                self.arms,
                scenario.theta,
                scenario.stds,
                start=self.start,
                epsilon=epsilon,
                costs=self.costs,
                m=self.m,
                target=self.target,
            )
        except TiedArms:
            if len(self.scenarios) == 1:
                raise
            return TIED  # one draw of many may tie
        times, spread = self._offset_times(scenario, epsilon), self.spread
        return replace(
            found,
            time=found.time * times,
            least=found.least * times / spread,
            least_cost=found.least_cost * times / spread,
            curve=replace(found.curve, nats=found.curve.nats / times),
        )

    @property
    def spread(self) -> float:
        """How many times as large a drift makes the variance of a pull; no bound says that a method must pay for it."""
        std = self.noise.std
        return 1.0 if not self.spec.drift or std is None else 1.0 + 0.5 * (self.spec.drift / std) ** 2

    def _offset_times(self, scenario: Scenario, epsilon: float) -> float:
        """Return T* of pulls in one large group with an unknown offset, in units of T* without groups."""
        if not self.spec.has_offsets:
            return 1.0
        target: Any = {} if self.target is None else {"control": self.target.control, "margin": -self.target.value}
        given: Any = {"noise_std": scenario.stds, "costs": self.costs, "m": self.m, "epsilon": epsilon}
        time = partial(characteristic_time, self.arms, scenario.theta, **given, **target)
        return float(time(groups="offset").value / time().value)

    def instance(self, scenario: Scenario, epsilon: float) -> Instance:
        """Return a scenario prepared for runs of the default algorithm."""
        truth = Truth(self.arms, scenario.theta, self.m)
        mean = truth.means.tolist().__getitem__
        return Instance(truth, self.arms, mean, scenario.stds, self.of_runs, epsilon, math.nan, clips=True)

    @property
    def of_runs(self) -> dict[str, Any]:
        """Options of simulated runs, those of a job apart."""
        known = {name: getattr(self.spec, name) for name in IN_PLAN if name not in (*OF_NOISE, *OF_JOB)}
        return known | {"noise": self.noise, "costs": self.costs}


@final
class Truth:
    """The answer of a scenario, which the runs do not know."""

    name = "a scenario of the plan"

    def __init__(self, arms: ArmSet, theta: Array, m: int) -> None:
        self.means: Array = np.concatenate([rows @ theta for _, rows in arms.chunks()])
        self._worst = float(np.sort(self.means)[-m])

    def loss(self, answer: int | list[int]) -> float:
        """Return how far the worst arm of the answer is behind the m-th best."""
        return self._worst - float(self.means[answer].min())


@final
@dataclass(frozen=True, kw_only=True)
class RoundsForecast:
    """What some batches decide, by simulated runs: an estimate, no guarantee."""

    n_runs: int
    decided: float
    """Share of runs that prove their answer within the rounds."""
    right: float
    """Share of runs whose answer at the end is right, proved or not."""
    rounds: float
    """Batches measured on average."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """A forecast of the pulls of an experiment, by a formula that is not proved (`planning.forecast`).

    The lower bounds are proved. With several scenarios, numbers are those of the median scenario, and the range covers
    all scenarios together.
    """

    delta: float
    epsilon: float
    m: int
    """Number of best arms sought."""
    pulls: float
    """Expected pulls; infinite if arms are tied in half of the scenarios."""
    low: float
    """10 % quantile of the pulls."""
    high: float
    """90 % quantile of the pulls."""
    lower_bound: float
    """Lower bound on the mean pulls of any method that errs with probability at most delta; NaN with epsilon > 0, for
    which `surepick.lower_bound` has one."""
    cost: float | None
    """Expected cost, if costs were given."""
    cost_lower_bound: float | None
    """Lower bound on the mean cost of any method."""
    per_scenario: Array = field(repr=False)
    """Expected pulls in each scenario (n,)."""
    _setting: _Setting = field(repr=False)
    _difficulties: tuple[Difficulty, ...] = field(repr=False)

    @property
    def is_possible(self) -> bool:
        """Whether a million pulls suffice."""
        return self.pulls <= MOST_PULLS

    @property
    def far_share(self) -> float:
        """Share of the lead that rests on arms far below the best, if costs make it an extrapolation; else 0."""
        return _middle(np.array([each.far_share for each in self._difficulties]))

    @cached_property
    def gap(self) -> float:
        """Lead of the best arm over the next, or distance of the nearest arm from the target: the median scenario."""
        setting = self._setting
        if (target := setting.target) is not None:
            return float(np.median([target.least_distance(setting.arms, each.theta) for each in setting.scenarios]))
        return float(np.median([smallest_gap(setting.arms, each.theta, setting.m) for each in setting.scenarios]))

    def at(self, *, delta: float | None = None, epsilon: float | None = None) -> "Plan":
        """Return the plan for another risk or another slack."""
        setting, same = self._setting, epsilon is None or epsilon == self.epsilon
        slack = self.epsilon if epsilon is None else _checked_slack(epsilon, setting.m)
        known = self._difficulties if same else setting.difficulties(slack)
        return _forecast(setting, known, self.delta if delta is None else check_delta(delta), slack)

    @cached_property
    def by_risk(self) -> tuple["Plan", ...]:
        """The plans for other risks, largest risk first."""
        return tuple(self.at(delta=delta) for delta in sorted({*RISKS, self.delta}, reverse=True))

    @cached_property
    def by_slack(self) -> tuple["Plan", ...]:
        """The plans for other slacks, up to twice the lead of the best arm; with m > 1, this plan alone."""
        slacks = {self.epsilon, *(share * self.gap for share in SLACKS)} if self.m == 1 else {self.epsilon}
        return tuple(self.at(epsilon=epsilon) for epsilon in sorted(slacks))

    def simulate(self, n_runs: int = 100, *, seed: int = 0, max_pulls: int = MOST_PULLS) -> Runs:
        """Simulate runs of `identify`, over the scenarios in turn.

        Noise is drawn from the `noise` of the plan: normal unless said, and runs learn its level unless you gave one
        for each arm. Rewards with bounds are lo or hi.
        Run i depends on the seed and i only.
        """
        job, outcomes = self._runs(n_runs, seed, max_pulls)
        return collect(job, str(job.algorithm), dict(enumerate(outcomes)))

    def _runs(
        self, n_runs: int, seed: int, max_pulls: int, watch: Callable[[Learner, Any], object] | None = None
    ) -> tuple[Job, list[Outcome]]:
        """Simulate runs; `watch` gets the learner and the arm after every pull."""
        setting, seed = self._setting, check_seed(seed)
        if setting.noisiest is not None:
            raise InvalidInput("runs need the level of the rewards, which `gap` does not say; give `theta` or `pilot`.")
        instances = [setting.instance(scenario, self.epsilon) for scenario in setting.scenarios]
        job = Job(instances[0], delta=self.delta, seed=seed, max_pulls=check_count("max_pulls", max_pulls, least=1))
        outcomes = []
        for run in range(check_count("n_runs", n_runs, least=1)):
            noise, learner = np.random.SeedSequence(seed, spawn_key=(run,)).spawn(2)
            seeds = Seeds(0, noise, int(learner.generate_state(1)[0]))
            outcomes.append(run_with(job, instances[run % len(instances)], seeds, watch))
        return job, outcomes

    def in_rounds(self, n_runs: int = ROUNDS_RUNS, *, seed: int = 0) -> RoundsForecast:
        """Simulate experiments of `rounds` batches, over the scenarios in turn, as `simulate` does.

        Raises:
            InvalidInput: the plan has no `rounds`, or runs need the level of the rewards.
        """
        setting = self._setting
        if setting.spec.rounds is None:
            raise InvalidInput("`batch` and `rounds` must be given to the plan, got no `rounds`; give both.")
        learners: dict[Learner, None] = {}
        _, outcomes = self._runs(n_runs, seed, MOST_PULLS, lambda learner, _: learners.setdefault(learner))
        truths = [Truth(setting.arms, scenario.theta, setting.m) for scenario in setting.scenarios]
        picks: list[Any] = [learner.decision.best for learner in learners]
        right = [truths[run % len(truths)].loss(pick) <= self.epsilon for run, pick in enumerate(picks)]
        pulls, batch = np.array([one.n_pulls for one in outcomes]), setting.spec.batch or 1
        return RoundsForecast(
            n_runs=len(outcomes),
            decided=float(np.mean([one.stopped for one in outcomes])),
            right=float(np.mean(right)),
            rounds=float(np.ceil(pulls / batch).mean()),
        )

    @cached_property
    def by_rounds(self) -> RoundsForecast | None:
        """What the batches of the plan decide, by simulated runs; None without `rounds`, or if nothing can be drawn."""
        has_runs = self._setting.spec.rounds is not None and self._setting.noisiest is None
        return self.in_rounds() if has_runs else None

    def explain(self) -> str:
        """Return the plan as text."""
        setting, lines = self._setting, []
        goal = f"to know {self._sought()} with a risk of {self.delta:g}"
        span = f"in 8 of 10 runs {two_digits(self.low)} to {two_digits(self.high)}"
        if self.is_possible:
            lines.append(f"About {two_digits(self.pulls)} pulls {goal} ({span}).")
        elif math.isfinite(self.pulls):
            lines.append(
                f"Not possible within {MOST_PULLS:,} pulls: about {two_digits(self.pulls)} are needed {goal} ({span})."
            )
        else:
            lines.append(f"Not possible: arms are too close to each other, no number of pulls suffices {goal}.")
        if len(setting.scenarios) > 1:
            least, most = self.per_scenario.min(), self.per_scenario.max()
            lines.append(
                f"The plan is for {len(setting.scenarios)} scenarios: they take {two_digits(least)} to "
                f"{two_digits(most)} pulls on average, and the number above is their median."
            )
        if setting.noisiest is not None:
            lines.append(
                "A gap does not say at which level the rewards are, so the plan takes the worst case for the noise: "
                f"half of them at each bound, a standard deviation of {setting.noisiest:g}. Rarer successes or "
                "failures are less noisy; `pilot` or `theta` says how rare they are."
            )
        if self.cost is not None:
            lines.append(f"They cost about {two_digits(self.cost)}.")
        if 1.0 <= self.lower_bound < math.inf:
            at_cost = ""
            if self.cost_lower_bound is not None:
                at_cost = f", nor with less than {two_digits(self.cost_lower_bound)} of cost"
            lines.append(f"No method can do with fewer than {two_digits(self.lower_bound)} on average{at_cost}.")
        if self.far_share:
            lines.append(
                f"With these costs {100 * self.far_share:.0f} % of the estimated lead will rest on arms far below the "
                "best. If means bend near the top, these arms do not show it: keep some pulls for the best two."
            )
        if setting.noise.needs_bets:
            lines.append(
                f'The forecast is for normal noise; with noise="{setting.noise.name}" runs may take several times as '
                "many pulls, and simulated runs show how many."
            )
        lines.extend(self._in_groups())
        lines.extend(self._in_batches())
        lines.extend(self._alternatives())
        return " ".join(lines)

    def _sought(self) -> str:
        """Say what the experiment is to find."""
        setting, n = self._setting, f"{self._setting.arms.n_arms:,}"
        if (target := setting.target) is None:
            sought = "the best" if setting.m == 1 else f"the {setting.m} best"
            return f"{sought} of {n} arms" + (f", up to a loss of {self.epsilon:g}," if self.epsilon else "")
        against = f"meet {target.value:g}"
        if target.control is not None:
            names = getattr(setting.arms, "names", None)
            control = f"arm {target.control}" if names is None else names[target.control]
            against = f"are at most {-target.value:g} below {control}" if target.value else f"are better than {control}"
        return f"which of {n} arms {against}" + (f", up to {self.epsilon:g}," if self.epsilon else "")

    def _in_groups(self) -> Iterable[str]:
        """Yield sentences on a drift, and on offsets of groups."""
        spec = self._setting.spec
        if spec.drift:
            more = 100.0 * (self._setting.spread - 1.0)
            yield f"A drift of {spec.drift:g} within a block takes {more:.2g} % more pulls."
        if spec.has_offsets:
            yield (
                "Groups may read high or low, and the plan is for large ones: groups of s pulls may take up to "
                "s/(s - 1) times as many."
            )

    def _in_batches(self) -> Iterable[str]:
        """Yield sentences on batches and rounds."""
        batch, rounds = self._setting.spec.batch, self._setting.spec.rounds
        if batch is None:
            return
        if math.isfinite(self.pulls):
            n = two_digits(math.ceil(self.pulls / batch + EXTRA_BATCHES))
            yield f"In batches of {batch:,}, planned one after the other, expect about {n} batches."
        if rounds is None:
            return
        if (known := self.by_rounds) is None:
            yield f"How often {rounds} batches decide needs the level of the rewards: give `theta` or `pilot`."
            return
        yield (
            f"With {rounds} of them ({batch * rounds:,} pulls) {100 * known.decided:.0f} % of {known.n_runs} simulated "
            f"runs prove their answer, and the answer at the end is right in {100 * known.right:.0f} % (estimates)."
        )

    def _alternatives(self) -> Iterable[str]:
        """Yield sentences on the pulls for another slack or risk."""
        gap = float(f"{self.gap:.1g}")
        if self._setting.m == 1 and not self.epsilon and gap > 0.0:
            easier = self.at(epsilon=gap)
            yield f"If the answer may lose {gap:g} (epsilon), about {two_digits(easier.pulls)}."
        if self.is_possible:
            yield f"For a risk of {self.delta / 10:g}, about {two_digits(self.at(delta=0.1 * self.delta).pulls)}."

    __str__ = explain

    def __repr__(self) -> str:
        slack = f", epsilon={self.epsilon:g}" if self.epsilon else ""
        several = f", m={self.m}" if self.m > 1 else ""
        span = f"pulls={self.pulls:.0f}, low={self.low:.0f}, high={self.high:.0f}"
        return f"Plan({span}, delta={self.delta:g}{slack}{several})"

    def _repr_html_(self) -> str:
        """Return the plan as a table for a notebook."""
        known = {
            "pulls to expect": two_digits(self.pulls),
            "in 8 of 10 runs": f"{two_digits(self.low)} to {two_digits(self.high)}",
            "lower bound for any method": two_digits(self.lower_bound) if self.lower_bound >= 1.0 else "-",
            "risk (delta)": f"{self.delta:g}",
            "tolerance (epsilon)": f"{self.epsilon:g}",
        }
        if self.cost is not None:
            known["cost to expect"] = two_digits(self.cost)
        return html_table(self.explain(), known.items())

    def plot(self) -> "Figure":
        """Return a matplotlib figure of the pulls, with their range, against risk and slack."""
        from surepick.reporting import figures  # noqa: PLC0415 (matplotlib is optional, and slow to import)

        by_risk = [(each.delta, each) for each in self.by_risk]
        by_slack = [(each.epsilon, each) for each in self.by_slack]
        panels = [("risk of a wrong answer, delta", self.delta, by_risk)]
        if self.m == 1:
            panels.append(("loss that the answer may have, epsilon", self.epsilon, by_slack))
        figure: Figure = figures.plan(panels)
        return figure


@partial(takes_options, names=IN_PLAN)
def plan(
    arms: Any,
    *,
    theta: ArrayLike | None = None,
    scenarios: Iterable[ArrayLike] | None = None,
    pilot: Iterable[tuple[Any, float]] | None = None,
    gap: float | None = None,
    **options: Unpack[TaskOptions],
) -> Plan:
    """Forecast the pulls that `identify` will take, from a guess of its result.

    Give exactly one of `theta`, `scenarios`, `pilot` and `gap`. If the guessed gaps are wrong by a factor of two, the
    pulls are wrong by a factor of four.

    Args:
        arms: the arms, as for `identify`.
        theta: a guess of the parameter (d,): the mean reward of arm x is theta'x.
        scenarios: several guesses of theta, each as likely as the others.
        pilot: results of a pilot experiment, `result.history` or (arm, reward) pairs. The plan uses 25 draws of theta,
            and of the noise unless it is given, that agree with them.
        gap: lead of the best arm over the next, if nothing else is known. The plan uses 25 thetas in random directions,
            scaled to this lead. Rewards with bounds are then taken to be as noisy as the bounds allow.
        noise_std: approximate standard deviation of one measurement, or a list with one for each arm. Not needed with a
            pilot. Runs learn a single level, and know one for each arm.
        noise: assumption of `identify` on the noise. `simulate` draws from it. The forecast is for normal noise with
            these levels, and the plan says so where the assumption is another.
        reward_range: bounds (lo, hi) of every reward, instead of `noise_std`. The plan assumes rewards as noisy as
            their means allow.
        drift: how far readings may drift apart within a block, beside `noise_std`, which runs know then. They draw its
            part of the noise as noise.
        groups: "offset" if days, benches or plates may read high or low. The plan is for large groups; runs measure
            every block as a group of its own.
        rounds: how many batches there may be. `explain` then says, by simulated runs, how often they decide.
        options: see `Spec`

    Raises:
        InvalidInput: an argument cannot be used.
        NotEnoughData: the pilot is too small.
        TiedArms: the best arms are equally good under theta.

    Examples:
        >>> planned = plan([[1, 0], [0, 1], [0.6, 0.6]], theta=[1.0, 0.7], noise_std=0.5)
        >>> planned.is_possible, planned.lower_bound < planned.low < planned.pulls < planned.high
        (True, True)
    """
    if "pool" in options:
        raise InvalidInput(
            "`pool` has no plan, because the number of items depends on the correlation of the scores; to estimate it, "
            "`simulate` a `surepick.problems.PoolProblem`, a table such as `surepick.problems.pool` draws."
        )
    check_options(options, None, plan)
    given = {"theta": theta, "scenarios": scenarios, "pilot": pilot, "gap": gap}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        came = " and ".join(named) or "none"
        raise InvalidInput(f"exactly one of `theta`, `scenarios`, `pilot` and `gap` is needed, got {came}.")
    rows, said = as_arms(arms), dict(options)
    guess, assumed = _noise(**{name: said.pop(name) for name in OF_NOISE if name in said})
    spec = Spec.of(options={**said, "noise": guess})
    if spec.drift:  # it costs as much as more noise
        guess, assumed = spec.noise_model, assumed if "noise" in options else guess
    m = _checked_m(spec.m, rows)
    epsilon = _checked_slack(spec.epsilon, m)
    if guess.stds is not None and len(guess.stds) != rows.n_arms:
        raise InvalidInput(
            f"`noise_std` must be one number, or one for each of {rows.n_arms} arms, got {len(guess.stds)} of them."
        )
    target = _target(spec, rows)
    if target is not None:
        _check_target(spec, m, gap)
    if gap is not None:
        found = from_gap(gap, rows, guess, m, spec.seed)
    elif pilot is not None:
        found = from_pilot(pilot, rows, guess, spec.seed)
    else:
        found = from_thetas([theta] if scenarios is None else scenarios, rows, guess)
    start = optimal_design(rows if guess.stds is None else divided(rows, guess.stds), tol=START_TOL)
    noisiest = None if gap is None or guess.reward_range is None else float(found[0].stds[0])
    setting = _Setting(rows, assumed, tuple(found), costs_given(spec.costs, rows), m, start, spec, target, noisiest)
    if spec.drift or spec.has_offsets:
        Learner("lazy-track-and-stop", rows, epsilon=epsilon, **setting.of_runs)  # refuses what has no proof
    return _forecast(setting, setting.difficulties(epsilon), spec.delta, epsilon)


def _target(spec: Spec, arms: ArmSet) -> Target | None:
    """Return what arms are held against; a control is a name or a row number."""
    if spec.threshold is not None:
        return Target(spec.threshold, None, spec.calls)
    if (control := spec.control) is None:
        return None
    names = getattr(arms, "names", None)
    if isinstance(control, str):
        known = list(names) if names is not None else [str(row) for row in range(arms.n_arms)]
        control = known.index(control) if control in known else -1
    if not 0 <= control < arms.n_arms:
        raise InvalidInput(f"`control` must be the name or the row number of an arm, got {spec.control!r}.")
    return Target(0.0 - spec.margin, control, spec.calls)


def _check_target(spec: Spec, m: int, gap: float | None) -> None:
    """Refuse what a plan beside a target does not know."""
    named = "threshold" if spec.control is None else "control"
    if gap is not None:
        raise InvalidInput(
            f"`gap` says how far the best arm is ahead, which says nothing of `{named}`; give `theta`, `scenarios` or "
            "`pilot`."
        )
    for option, is_given in {"m": m > 1, "rounds": spec.rounds is not None}.items():
        if is_given:
            raise InvalidInput(f"`{option}` must be left out of a plan beside `{named}`.")


def _noise(noise: Any = "same", noise_std: Any = None, **bounds: Any) -> tuple[NoiseModel, NoiseModel]:
    """Return a guess of the noise, and the noise model of runs, from the options of a plan."""
    if noise == "same" or (noise_std is None and not isinstance(noise, str)):
        guess = noise_model(noise, noise_std, **bounds)
        return guess, noise_to_run(guess)
    assumed = noise_model(noise, noise_std if takes_scale(noise) else None)
    return noise_model("same", noise_std, **bounds), assumed


def _forecast(setting: _Setting, known: tuple[Difficulty, ...], delta: float, epsilon: float) -> Plan:
    laws = [
        _law(setting, each, scenario.rarity, delta) for each, scenario in zip(known, setting.scenarios, strict=True)
    ]
    pulls = np.array([law.mean for law in laws])
    # kl(delta, 1 - delta): for a risk of one half or more the bound is 0.
    nats = (1.0 - 2.0 * delta) * math.log((1.0 - delta) / delta) if delta < 0.5 else 0.0
    has_costs = setting.costs is not None
    return Plan(
        delta=delta,
        epsilon=epsilon,
        m=setting.m,
        pulls=_middle(pulls),
        low=quantile(laws, 0.1),
        high=quantile(laws, 0.9),
        lower_bound=nats * _middle(np.array([each.least for each in known])) if nats else 0.0,
        cost=_middle(pulls * [each.price for each in known]) if has_costs else None,
        cost_lower_bound=nats * _middle(np.array([each.least_cost for each in known])) if has_costs else None,
        per_scenario=pulls,
        _setting=setting,
        _difficulties=known,
    )


def _law(setting: _Setting, known: Difficulty, rarity: float, delta: float) -> Law:
    if not math.isfinite(known.time):
        return Law(math.inf, 1.0)
    dim, m = setting.arms.dim * rarity, setting.m
    if setting.target is not None:
        price = delta if setting.target.calls == "fdr" else delta / setting.arms.n_arms
        pulls = expected_pulls(known.time, price, first=2.0 * dim, learning=LEARNING * dim, curve=known.curve)
        return Law(pulls, math.sqrt(2.0 * known.time / pulls))
    # One hypothesis is true with accounts of sets. Else any of m may be rejected by mistake, or of K - m if these are
    # fewer.
    price = delta if has_room(setting.arms.n_arms, m) else delta / min(m, setting.arms.n_arms - m)
    pulls = expected_pulls(
        known.time, price, first=2.0 * dim, n_rivals=known.n_rivals, learning=LEARNING * dim, curve=known.curve
    )
    return Law(pulls, math.sqrt(2.0 * known.time / pulls))


def _middle(values: Array) -> float:
    """Return the median; of two middle values the upper one, so that infinite values do no harm."""
    return float(np.sort(values)[len(values) // 2]) if not np.isnan(values).any() else math.nan


def two_digits(value: float) -> str:
    """Return a number as text, to two digits."""
    if not math.isfinite(value):
        return "infinitely many"
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def _checked_slack(epsilon: object, m: int) -> float:
    slack = check_epsilon(epsilon)
    if slack and m > 1:
        raise InvalidInput(f"`epsilon` must be 0 beside m > 1, for which the betting rule has no proof, got {slack:g}.")
    return slack


def _checked_m(m: object, arms: ArmSet) -> int:
    count = check_count("m", m, least=1)
    if count >= arms.n_arms:
        raise InvalidInput(f"`m` must be below the number of arms, {arms.n_arms}, got {count}; choose fewer.")
    return count
