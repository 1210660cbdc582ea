"""How many pulls: new bets against old ones, workers that never wait, and slack; each beside what it aims at.

Run `make bench ARGS=pulls`, or a part again: `python -m benchmarks.pulls {bets,workers,slack} [runs]`. The bets are the
sweeps `pulls-*.toml`, whose runs are read from out/pulls. All comparisons are paired: run i of every rule and of every
number of workers has the same instance, and as far as pulls correspond the same noise.
"""

import heapq
import itertools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

import surepick as sp
from benchmarks.bet_variants import PlainBetting
from surepick.reporting.experiment_summary import estimated
from surepick.simulation import problems
from surepick.simulation.experiment import read_experiment
from surepick.simulation.parallel import dispatch
from surepick.simulation.problems import Problem
from surepick.simulation.run import Job, prepared, run_once, run_seeds
from surepick.simulation.store import TABLE, read_cells
from surepick.types import Array

OUT = Path("out") / "pulls"
N_JOBS = 2
SEED = 4200
DELTA = 0.05

AIMS: Mapping[str, Sequence[tuple[str, float]]] = {
    "bets": (
        ("many arms K=1000", 1.95),
        ("unit basis d=5", 2.2),
        ("Soare d=2", 1.95),
        ("Soare d=6", 2.2),
        ("sphere 5 x 50", 2.5),
        ("sphere 10 x 100", 2.9),
        ("sphere 20 x 100", 3.0),
        ("random linear d=20", 3.4),
    ),
    "small-risk": (("many arms K=1000", 1.25),),
    "capped": tuple(
        (name, math.nan)
        for name in (
            *("many arms K=1000", "unit basis d=5", "Soare d=2", "Soare d=6"),
            *("sphere 5 x 50", "sphere 10 x 100"),
        )
    ),
}
"""Of each sweep `pulls-*.toml`: its problems in order, and the multiple of the lower bound that mean - 2 s.e. is not to
exceed."""

WORKERS = {16: 1.15, 64: 1.6}
"""At most so many times the pulls of one worker."""
SLACK_AIM = 1.05
"""At most so many times the pulls of uniform sampling, on tables like those of real data."""


def times(ours: Array, theirs: Array) -> tuple[float, float]:
    """Return the ratio of the means of paired runs, and its standard error (NaN for one run)."""
    ratio = float(ours.mean() / theirs.mean())
    return ratio, estimated(ours - ratio * theirs).se / float(theirs.mean())


def within(mean: float, se: float, aim: float) -> str:
    """Whether an aim is met, as far as chance can tell."""
    return "" if math.isnan(aim) else f"{aim:.2f} {'met' if mean - 2.0 * se <= aim else 'MISSED'}"


def cell(values: Array, digits: int = 0) -> str:
    """Return mean and standard error as text."""
    mean, se = estimated(values)
    return f"{mean:.{digits}f} +-{se:.{digits}f}"


def bets() -> None:
    """Print what the sweeps found: every rule beside its baseline, as multiples of the lower bound."""
    for name, rows in AIMS.items():
        experiment = read_experiment(Path(__file__).parent / f"pulls-{name}.toml")
        table = OUT / experiment.name / TABLE
        if not table.exists():
            print(f"\n{experiment.title}: no runs yet; `make bench ARGS=pulls` makes them")
            continue
        cells = experiment.cells()
        runs = dict(read_cells(table, ["run", "n_pulls", "lower_bound", "seconds", "correct", "stopped"]))
        pairs = [
            (one, other)
            for one, other in itertools.product(cells, cells)
            if one.algorithm.baseline == other.algorithm.label
            and (one.problem, one.arguments, one.delta) == (other.problem, other.arguments, other.delta)
        ]
        ours, theirs = pairs[0][0].algorithm.label, pairs[0][1].algorithm.label
        print(f"\n{experiment.title}; multiples of the lower bound, delta = {experiment.delta[0]:g}")
        head = f"{'':20s}{'runs':>5s}{theirs:>15s}{ours:>15s}{'change %':>14s}{'CPU':>6s}{'wrong':>8s}"
        print(head + f"{'aim':>13s}")
        for (label, aim), (one, other) in zip(rows, pairs, strict=True):
            if one.key not in runs or other.key not in runs:
                continue
            new, old = runs[one.key], runs[other.key]
            _, mine, others = np.intersect1d(new["run"], old["run"], return_indices=True)
            after, before = (new["n_pulls"] / new["lower_bound"])[mine], (old["n_pulls"] / old["lower_bound"])[others]
            ratio, se = times(after, before)
            change = f"{100.0 * (ratio - 1.0):+.1f} +-{100.0 * se:.1f}"
            cpu = float(new["seconds"][mine].mean() / old["seconds"][others].mean())
            wrong = ", ".join(str(int((of["stopped"] & ~of["correct"]).sum())) for of in (old, new))
            print(
                f"{label:20s}{len(mine):5d}{cell(before, 2):>15s}{cell(after, 2):>15s}{change:>14s}{cpu:6.2f}"
                f"{wrong:>8s}{within(*estimated(after), aim):>13s}"
            )


Draw = Callable[[int], Problem]
"""An instance from the run's seed; those of one instance alone do without."""


def _always(problem: Problem, _: int) -> Problem:
    return problem


def many_arms(seed: int) -> Problem:
    """A thousand arms, drawn anew in every run."""
    return problems.many_arms(1000, seed=seed)


def sphere(seed: int) -> Problem:
    """Fifty arms on the sphere, neither trivial nor hopeless, drawn anew in every run."""
    return problems.sphere(5, 50, seed=seed, times=(30.0, 400.0))


class RunSettings(NamedTuple):
    """A laboratory with several workers, none of whom ever waits."""

    instance: str
    service: str
    n_workers: int


INSTANCES: Mapping[str, Draw] = {
    "many arms K=1000": many_arms,
    "basis d=5": partial(_always, problems.unit_basis([0.5, 0.2, 0.1, 0.0, -0.1])),
    "Soare d=6": partial(_always, problems.soare(6)),
    "sphere 5 x 50": sphere,
}


class Service(NamedTuple):
    """How long a measurement takes, mean 1, and when a worker gives it up, to be asked for it again later."""

    draw: Callable[[np.random.Generator], float]
    limit: float = math.inf


def _pareto(rng: np.random.Generator) -> float:
    """Draw from the Pareto law with index 1.5 and mean 1; it has no variance."""
    return (1.0 + float(rng.pareto(1.5))) / 3.0


SERVICES: Mapping[str, Service] = {
    "exponential": Service(lambda rng: float(rng.exponential())),
    "Pareto 1.5": Service(_pareto),
    "Pareto, limit 10": Service(_pareto, 10.0),
}


def worked(lab: RunSettings, run: int) -> tuple[int, float, bool]:
    """Return the results told until the rule stops, when that is, and whether the answer is wrong."""
    seeds = run_seeds(SEED, run)
    problem, service = INSTANCES[lab.instance](seeds.instance), SERVICES[lab.service]
    place = [*INSTANCES].index(lab.instance), [*SERVICES].index(lab.service), lab.n_workers
    noise, delays = np.random.default_rng(seeds.noise), np.random.default_rng([SEED, run, *place])
    means = problem.X @ problem.theta
    learner = sp.create_learner("lazy-track-and-stop", problem.X, delta=DELTA, seed=seeds.learner, noise_std=1.0)
    clock, n_idle = 0.0, lab.n_workers
    running: list[tuple[float, int, int, bool]] = []
    while not learner.stopped:
        for ask in learner.next_asks(n_idle):
            delay = service.draw(delays)
            end = clock + min(delay, service.limit)
            heapq.heappush(running, (end, ask.number, ask.arm, delay > service.limit))
        clock, number, arm, is_given_up = heapq.heappop(running)
        if is_given_up:
            learner.fail(arm, ask=number)
        else:
            learner.tell(arm, float(means[arm] + noise.standard_normal()), ask=number)
        n_idle = 1
    return learner.estimate.n_pulls, clock, learner.decision.best != problem.best


def workers(n_runs: int = 100) -> None:
    """Print pulls and makespan by the number of workers."""
    one_each = {
        name: RunSettings(name, "exponential", 1) for name in INSTANCES
    }  # how long it takes does not matter to one
    labs = [*one_each.values(), *itertools.starmap(RunSettings, itertools.product(INSTANCES, SERVICES, WORKERS))]
    found = in_parallel(worked, labs, n_runs)
    print(f"\nworkers that never wait; results told until the stop, delta = {DELTA:g}, {n_runs} runs")
    columns = f"{'pulls':>16s}{'times one':>18s}{'aim':>13s}{'medians':>9s}{'makespan':>18s}{'wrong':>7s}"
    print(f"{'':18s}{'service':18s}{'W':>3s}{columns}")
    for lab, (pulls, makespan, wrong) in found.items():
        one, *_ = found[one_each[lab.instance]]
        ratio, se = times(pulls, one)
        aim = within(ratio, se, WORKERS.get(lab.n_workers, math.nan))
        medians = float(np.median(pulls) / np.median(one))
        print(
            f"{lab.instance:18s}{lab.service:18s}{lab.n_workers:3d}{cell(pulls):>16s}{f'{ratio:.2f} +-{se:.2f}':>18s}"
            f"{aim:>13s}{medians:9.2f}{cell(makespan, 1):>18s}{wrong.sum():7.0f}"
        )


class Slack(NamedTuple):
    """An instance with the loss that an answer may have."""

    draw: Draw
    epsilon: float
    is_relative: bool = False
    """Whether epsilon is in units of the smallest gap."""
    is_like_data: bool = False


def factor_levels(*counts: int) -> Array:
    """Return all combinations of factor levels as rows: 1, then for every factor an indicator of each level but one."""
    rows = itertools.product(*(np.eye(n)[:, 1:] for n in counts))
    return np.array([np.concatenate([[1.0], *row]) for row in rows])


def tooth() -> Problem:
    """Two ways to give a vitamin, in three doses on which the effect is linear: 6 arms, d = 3.

    About the effects and the noise of the known data set on the growth of teeth.
    """
    X = np.array([[1.0, way, dose] for way in (0.0, 1.0) for dose in (0.5, 1.0, 2.0)])
    return Problem(X=X, theta=np.array([9.0, -4.0, 10.0]), noise_std=4.0, name="tooth-like")


def cake() -> Problem:
    """Three recipes at six temperatures on which the effect is linear: 18 arms, d = 4.

    About the effects and the noise of the known data set on the breakage of cakes.
    """
    recipes, warmth = factor_levels(3), np.linspace(0.0, 1.0, 6)
    X = np.array([[*recipe, warm] for recipe in recipes for warm in warmth])
    return Problem(X=X, theta=np.array([30.0, -1.5, -1.5, 8.0]), noise_std=8.0, name="cake-like")


def additive() -> Problem:
    """Three factors with 2, 2 and 3 levels and additive effects: 12 arms, d = 5."""
    return Problem(X=factor_levels(2, 2, 3), theta=np.array([0.0, 0.15, -0.4, 0.1, 0.5]), name="2x2x3")


ROWS: Mapping[str, Slack] = {
    "many arms K=1000, .05": Slack(many_arms, 0.05),
    "sphere 5 x 50, .5 gap": Slack(sphere, 0.5, is_relative=True),
    "sphere 5 x 50, 1 gap": Slack(sphere, 1.0, is_relative=True),
    "tooth-like 6 x 3, 2": Slack(partial(_always, tooth()), 2.0, is_like_data=True),
    "cake-like 18 x 4, 3": Slack(partial(_always, cake()), 3.0, is_like_data=True),
    "2x2x3 d=5, .1": Slack(partial(_always, additive()), 0.1, is_like_data=True),
    "2x2x3 d=5, .2": Slack(partial(_always, additive()), 0.2, is_like_data=True),
}
RULES = ("uniform", "betting", "betting-plain", "evidence")

LOOKS = 1.1
"""Uniform sampling looks when its pulls have grown by this factor."""


def uniform(problem: Problem, epsilon: float, rng: np.random.Generator) -> tuple[int, int]:
    """Pull all arms in turn until least squares separate one from the rest; returns pulls and answer.

    Looks at K, 1.1 K, 1.21 K, ... pulls. Look j may err with probability delta/(j (j + 1)), each wrong answer against
    the best arm with a (K-1)-th of that: then P(wrong) <= delta for Gaussian noise of known variance.
    """
    X, K = problem.X, problem.n_arms
    means, b, counts, t = X @ problem.theta, np.zeros(problem.dim), np.zeros(K), float(K)
    for look in itertools.count(1):
        n_pulls = math.ceil(t)
        due = n_pulls // K + (np.arange(K) < n_pulls % K) - counts
        b += X.T @ (due * means + np.sqrt(due) * problem.noise_std * rng.standard_normal(K))
        counts += due
        A_inv = np.linalg.inv(X.T @ (counts[:, None] * X))
        leader = int(np.argmax(X @ A_inv @ b))
        Y = X[leader] - np.delete(X, leader, axis=0)
        quantile = -float(ndtri(DELTA / (look * (look + 1) * (K - 1))))
        width = problem.noise_std * np.sqrt(np.einsum("ij,jk,ik->i", Y, A_inv, Y)) * quantile
        if (Y @ A_inv @ b + epsilon >= width).all():
            return n_pulls, leader
        t = max(LOOKS * t, n_pulls + 1.0)
    raise AssertionError


def slackened(case: tuple[str, str], run: int) -> tuple[int, bool]:
    """Return the pulls of a run, and whether its answer loses more than it may."""
    row, rule = ROWS[case[0]], case[1]
    seeds = run_seeds(SEED, run)
    problem = row.draw(seeds.instance)
    epsilon = row.epsilon * (problem.min_gap if row.is_relative else 1.0)
    if rule == "uniform":
        n_pulls, answer = uniform(problem, epsilon, np.random.default_rng(seeds.noise))
        return n_pulls, bool(problem.gaps[answer] > epsilon)
    job = Job(
        problem=prepared(problem, delta=DELTA, epsilon=epsilon, bounds=False),
        algorithm="lazy-track-and-stop",
        delta=DELTA,
        epsilon=epsilon,
        seed=SEED,
        max_pulls=10**6,
        bounds=False,
        options={"stopping": PlainBetting() if rule == "betting-plain" else rule},
    )
    outcome = run_once(job, run)
    return outcome.n_pulls, not outcome.correct


def slack(n_runs: int = 200) -> None:
    """Print pulls by rule where the answer may lose epsilon."""
    cases = list(itertools.product(ROWS, RULES))
    found = in_parallel(slackened, cases, n_runs)
    print(f"\nslack; pulls until the stop, delta = {DELTA:g}, {n_runs} runs")
    columns = "".join(f"{rule:>16s}" for rule in RULES)
    print(f"{'':24s}{columns}{'betting/uniform':>17s}{'aim':>13s}{'wrong':>14s}")
    for name, row in ROWS.items():
        pulls, wrong = zip(*(found[name, rule] for rule in RULES), strict=True)
        ratio, se = times(pulls[RULES.index("betting")], pulls[RULES.index("uniform")])
        aim = within(ratio, se, SLACK_AIM if row.is_like_data else math.nan)
        print(
            f"{name:24s}{''.join(f'{cell(values):>16s}' for values in pulls)}{f'{ratio:.3f} +-{se:.3f}':>17s}{aim:>13s}"
            f"{', '.join(f'{values.sum():.0f}' for values in wrong):>14s}"
        )


def _batch(work: Callable[[Any, int], Any], job: Any, runs: list[int]) -> dict[int, Any]:
    return {run: work(job, run) for run in runs}


def in_parallel(work: Callable[[Any, int], Any], jobs: Sequence[Any], n_runs: int) -> dict[Any, Array]:
    """Return by job what `work(job, run)` gives, one row for each quantity and one column for each run."""
    outcomes: list[dict[int, Any]] = [{} for _ in jobs]
    batches = dispatch(partial(_batch, work), jobs, [range(n_runs)] * len(jobs), lambda _: None, n_jobs=N_JOBS)
    with closing(batches):
        for done in batches:
            outcomes[done.number] |= done.result
    ordered = ([found[run] for run in range(n_runs)] for found in outcomes)
    return {job: np.array(rows, dtype=float).T for job, rows in zip(jobs, ordered, strict=True)}


PARTS: Mapping[str, Callable[..., None]] = {"bets": bets, "workers": workers, "slack": slack}


def main() -> None:
    """Print everything."""
    for part in PARTS.values():
        part()


if __name__ == "__main__":
    if sys.argv[1:2]:
        PARTS[sys.argv[1]](*map(int, sys.argv[2:3]))
    else:
        main()
