"""Trust: what not knowing the noise costs, and whether a wrong model is noticed.

Run `make bench ARGS=trust`, or a part: `python -m benchmarks.trust {noise,per-arm,h-rage,symmetric,models,misfit,
history} [runs]`. Run i has the same noise with and without `noise_std`, and for every misfit, as far as pulls
correspond, and so where noise differs between arms. The accuracies of support-vector machines were measured once with
scikit-learn's own copy of the breast-cancer data (20 splits, 30 % held out, features standardised): eight values
log10 C = -2, .., 4 by five log10 gamma = -5, .., 1; one measurement has a standard deviation of .008.
"""

import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import surepick as sp
from benchmarks.pulls import cell, in_parallel, many_arms, sphere, times
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.simulation.run import run_seeds
from surepick.types import Array

SEED = 4300
RESULTS = Path(__file__).parent / "results"

INSTANCES: Mapping[str, Callable[[int], Problem]] = {
    "many arms K=1000": many_arms,
    "basis d=5": lambda _: problems.unit_basis([1.0, 0.75, 0.5, 0.25, 0.0]),
    "Soare d=6": lambda _: problems.soare(6),
    "sphere 5 x 50": sphere,
}


class Known(NamedTuple):
    """An instance, and whether its noise is told."""

    instance: str
    is_told: bool


def learnt(job: Known, run: int) -> tuple[int, float, bool]:
    """Return pulls, CPU seconds, and whether the answer is wrong."""
    seeds = run_seeds(SEED, run)
    problem, noise = INSTANCES[job.instance](seeds.instance), np.random.default_rng(seeds.noise)
    means, start = problem.X @ problem.theta, time.process_time()
    result = sp.identify(
        problem.X,
        lambda arm: float(means[arm] + noise.standard_normal()),
        noise_std=1.0 if job.is_told else None,
        seed=seeds.learner,
    )
    return result.n_pulls, time.process_time() - start, result.best != problem.best


def noise(n_runs: int = 200) -> None:
    """Print pulls with and without knowing the noise."""
    found = in_parallel(learnt, [*map(Known._make, itertools.product(INSTANCES, (True, False)))], n_runs)
    print(f"\nnoise that is learnt; pulls until the stop, delta = .05, {n_runs} runs; aim: at most 1.1 times")
    print(f"{'':20s}{'known':>14s}{'unknown':>14s}{'ratio':>16s}{'CPU':>6s}{'wrong':>8s}")
    for instance in INSTANCES:
        told, untold = found[Known(instance, True)], found[Known(instance, False)]  # noqa: FBT003
        ratio, se = times(untold[0], told[0])
        cpu, wrong = untold[1].mean() / told[1].mean(), f"{told[2].sum():.0f}, {untold[2].sum():.0f}"
        pulls = f"{cell(told[0]):>14s}{cell(untold[0]):>14s}"
        print(f"{instance:20s}{pulls}{f'{ratio:.2f} +-{se:.2f}':>16s}{cpu:6.2f}{wrong:>8s}")


def _unequal_basis(_: int) -> tuple[Array, Array, Array]:
    return np.eye(5), np.array([1.0, 0.75, 0.5, 0.25, 0.0]), np.array([1.0, 1.0, 2.0, 0.5, 0.3])


def _unequal_sphere(seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    while True:
        X = rng.standard_normal((30, 4))
        X /= np.linalg.norm(X, axis=1)[:, None]
        means = np.sort(X[:, 0])
        if means[-1] - means[-2] >= 0.1:
            return X, np.eye(4)[0], 0.3 * 10.0 ** rng.uniform(0.0, 1.0, 30)


UNEQUAL: Mapping[str, Callable[[int], tuple[Array, Array, Array]]] = {
    "basis d=5": _unequal_basis,
    "sphere 4 x 30": _unequal_sphere,
}
"""Arms, parameter, and the standard deviation of each arm's noise."""
TOLD = ("each", "largest", "nothing")


class Unequal(NamedTuple):
    """An instance whose arms differ in noise, and what is told of it."""

    instance: str
    told: str


def unequal(job: Unequal, run: int) -> tuple[int, bool]:
    """Return pulls, and whether the answer is wrong."""
    seeds = run_seeds(SEED, run)
    (X, theta, stds), noise = UNEQUAL[job.instance](seeds.instance), np.random.default_rng(seeds.noise)
    means = X @ theta
    told: dict[str, Any] = {"noise": "per-arm"}
    if job.told != "nothing":
        told = {"noise_std": stds if job.told == "each" else float(stds.max())}
    result = sp.identify(
        X, lambda arm: float(means[arm] + stds[arm] * noise.standard_normal()), seed=seeds.learner, **told
    )
    return result.n_pulls, result.best != int(np.argmax(means))


def per_arm(n_runs: int = 40) -> None:
    """Print pulls where arms differ in noise, by what is told of it."""
    found = in_parallel(unequal, [*map(Unequal._make, itertools.product(UNEQUAL, TOLD))], n_runs)
    print(f"\narms that differ in noise, by what is told of it; pulls until the stop, delta = .05, {n_runs} runs")
    print(f"{'':16s}{'each sd':>14s}{'largest sd':>14s}{'per-arm':>14s}{'wrong':>10s}")
    for instance in UNEQUAL:
        runs = [found[Unequal(instance, told)] for told in TOLD]
        wrong = ", ".join(f"{is_wrong.sum():.0f}" for _, is_wrong in runs)
        print(f"{instance:16s}{''.join(f'{cell(pulls):>14s}' for pulls, _ in runs)}{wrong:>10s}")


def greatest(problem: Problem) -> float:
    """Return the greatest standard deviation of a pull."""
    return float(np.max(problem.noise_std))


def least(problem: Problem) -> float:
    """Return the smallest standard deviation of a pull."""
    return float(np.min(problem.noise_std))


ONE_BOUND: Mapping[str, Any] = {"noise_std": greatest}
PUBLISHED: Mapping[str, Any] = {"variant": "paper", **ONE_BOUND}
OF_UNEQUAL: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "H-RAGE as published, told both bounds": ("h-rage", {**PUBLISHED, "least_noise_std": least}),
    "RAGE as published, told the greatest": ("rage", PUBLISHED),
    "RAGE as printed, told the greatest": ("rage", {**PUBLISHED, "constants": "printed"}),
    "RAGE, told the greatest": ("rage", ONE_BOUND),
    "H-RAGE, told nothing": ("h-rage", {"noise": "per-arm"}),
    "default, told the greatest": ("lazy-track-and-stop", ONE_BOUND),
    "default, told nothing": ("lazy-track-and-stop", {"noise": "per-arm"}),
    "default, told each": ("lazy-track-and-stop", {}),
}
"""What is run where the noise of x has variance x'Sigma x, and what it is told of the standard deviations."""


def h_rage(n_runs: int = 100) -> None:
    """Print pulls where the noise of x has variance x'Sigma x; they are written to results/h_rage.json, too."""
    instances = (problems.soare_unequal(3), problems.soare_unequal(5, angle=0.3, quiet=0.5))
    print(f"\nnoise of variance x'Sigma x; pulls until the stop, delta = .05, {n_runs} runs")
    rows = []
    for problem, (label, (name, options)) in itertools.product(instances, OF_UNEQUAL.items()):
        runs = sp.simulate(problem, name, n_runs=n_runs, seed=SEED, n_jobs=2, **options)
        rows.append(
            {"problem": runs.problem, "told": label, "pulls": runs.mean, "s.e.": runs.se, "wrong": runs.n_errors}
        )
        print(f"{runs.problem:52s}{label:40s}{f'{runs.mean:.0f} +-{runs.se:.0f}':>14s}{runs.n_errors:>4d}", flush=True)
    text = json.dumps({"command": f"python -m benchmarks.trust h-rage {n_runs}", "seed": SEED, "rows": rows}, indent=1)
    (RESULTS / "h_rage.json").write_text(f"{text}\n", encoding="utf-8")


LAWS: Mapping[str, Callable[[np.random.Generator], float]] = {
    "normal": lambda rng: rng.standard_normal(),
    "t_3": lambda rng: rng.standard_t(3) / 3.0**0.5,
}
"""Noise of standard deviation 1."""


class Assumed(NamedTuple):
    """An instance, the law of its noise, and what is assumed of that."""

    instance: str
    law: str
    noise: str


def assumed(job: Assumed, run: int) -> tuple[int, bool, bool]:
    """Return pulls, whether the answer is wrong, and whether it is withdrawn."""
    seeds = run_seeds(SEED, run)
    problem, rng = INSTANCES[job.instance](seeds.instance), np.random.default_rng(seeds.noise)
    means = problem.X @ problem.theta
    options: dict[str, Any] = {"noise": job.noise, "seed": seeds.learner}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.ModelWarning)
        result = sp.identify(problem.X, lambda arm: float(means[arm] + LAWS[job.law](rng)), **options)
    return result.n_pulls, result.best != problem.best, result.guarantee == "withdrawn"


def symmetric(n_runs: int = 200) -> None:
    """Print pulls by what is assumed of the noise."""
    cases, kinds = [*itertools.product(("basis d=5", "many arms K=1000"), LAWS)], ("same", "per-arm", "symmetric")
    found = in_parallel(assumed, [Assumed(*case, kind) for case in cases for kind in kinds], n_runs)
    print(f"\nby what is assumed of the noise; pulls until the stop, delta = 0.05, {n_runs} runs")
    print(f"{'':26s}{''.join(f'{kind:>14s}' for kind in kinds)}{'wrong':>10s}{'withdrawn':>12s}")
    for case in cases:
        runs = [found[Assumed(*case, kind)] for kind in kinds]
        wrong, withdrawn = (", ".join(f"{run[i].sum():.0f}" for run in runs) for i in (1, 2))
        pulls = "".join(f"{cell(run[0]):>14s}" for run in runs)
        print(f"{', '.join(case):26s}{pulls}{wrong:>10s}{withdrawn:>12s}")


class Case(NamedTuple):
    """A table of means that features may or may not describe."""

    X: Array
    means: Array
    noise_std: float
    slip: float = 1.0
    """What the twentieth value is multiplied with."""


def _cases() -> dict[str, Case]:
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    factors = np.column_stack([np.ones(16), signs])
    main = factors @ [0.0, 0.5, 0.4, 0.3, 0.15]
    table = np.random.default_rng(SEED).standard_normal((40, 4))
    grid = np.array(list(itertools.product(np.linspace(-2.0, 4.0, 8), np.linspace(-5.0, 1.0, 5))))
    return {
        "SVM settings": Case(np.column_stack([np.ones(40), grid]), np.array(ACCURACIES).ravel(), 0.008),
        "2^4, an interaction": Case(factors, main - 0.35 * signs[:, 2] * signs[:, 3], 1.0),
        "array with an offset": Case(table, 5.0 + table @ [1.0, 0.5, -0.5, 0.2], 1.0),
        "ten times, once": Case(factors, 20.0 + 3.0 * main, 0.5, slip=10.0),
        "2^4, all well": Case(factors, main, 1.0),
        "SVM, fitted": Case(np.column_stack([np.ones(40), grid]), _fitted(grid), 0.008),
    }


def _fitted(grid: Array) -> Array:
    X = np.column_stack([np.ones(len(grid)), grid])
    fitted: Array = X @ np.linalg.lstsq(X, np.array(ACCURACIES).ravel(), rcond=None)[0]
    return fitted


ACCURACIES = [
    [0.6257, 0.6257, 0.6257, 0.6257, 0.6257],
    [0.6257, 0.6257, 0.9360, 0.6257, 0.6257],
    [0.6257, 0.8582, 0.9617, 0.8295, 0.6257],
    [0.6289, 0.9450, 0.9737, 0.9263, 0.6257],
    [0.9102, 0.9690, 0.9713, 0.9263, 0.6257],
    [0.9480, 0.9754, 0.9611, 0.9263, 0.6257],
    [0.9711, 0.9673, 0.9623, 0.9263, 0.6257],
    [0.9751, 0.9649, 0.9623, 0.9263, 0.6257],
]
CASES = _cases()


class Audited(NamedTuple):
    """A case, and whether check pulls are made."""

    case: str
    is_audited: bool


def judged(job: Audited, run: int) -> tuple[int, int, bool, bool, bool]:
    """Return pulls, check pulls, and whether the answer is wrong, withdrawn, called tested."""
    case, rng, n_pulled = CASES[job.case], np.random.default_rng([SEED, run]), itertools.count(1)

    def pull(arm: int) -> float:
        value = float(case.means[arm] + case.noise_std * rng.standard_normal())
        return value * case.slip if next(n_pulled) == 20 else value

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.ModelWarning)
        result = sp.identify(case.X, pull, audit="auto" if job.is_audited else 0, seed=run, max_pulls=20_000)
    is_wrong = result.best != int(np.argmax(case.means))
    n_own = result.n_pulls - result.n_checks
    return n_own, result.n_checks, is_wrong, result.guarantee == "withdrawn", result.model_check == "tested"


def models(n_runs: int = 100) -> None:
    """Print what becomes of answers by a wrong model."""
    found = in_parallel(judged, [*map(Audited._make, itertools.product(CASES, (False, True)))], n_runs)
    print(f"\nwrong models, delta = .05, noise unknown, {n_runs} runs; aim: withdrawn in 95 % with an audit")
    print(f"{'':22s}{'audit':>6s}{'pulls':>14s}{'check pulls':>13s}{'wrong':>7s}{'withdrawn':>11s}{'tested':>8s}")
    for job, (pulls, checks, wrong, withdrawn, tested) in found.items():
        said = f"{wrong.sum():7.0f}{withdrawn.sum():11.0f}{tested.sum():8.0f}"
        print(f"{job.case:22s}{'yes' if job.is_audited else '':>6s}{cell(pulls):>14s}{cell(checks):>13s}{said}")


SHARES = (0.0, 0.02, 0.05, 0.1, 0.15)
"""Misfits in units of the smallest gap of the linear part."""


def bent(share: float, run: int) -> tuple[int, bool, bool, float]:
    """Return pulls, whether it stopped, whether the answer is wrong, and its margin in units of the gap."""
    seeds = run_seeds(SEED, run)
    problem, rng = sphere(seeds.instance), np.random.default_rng(seeds.noise)
    means = problem.X @ problem.theta
    gap = float(means[problem.best] - np.delete(means, problem.best).max())
    means = means + share * gap * rng.choice([-1.0, 1.0], len(means))
    result = sp.identify(
        problem.X,
        lambda arm: float(means[arm] + rng.standard_normal()),
        noise_std=1.0,
        misfit=share * gap,
        seed=seeds.learner,
        max_pulls=100_000,
    )
    margin = np.nan if result.misfit_margin is None else result.misfit_margin / gap
    return result.n_pulls, result.stopped, result.stopped and result.best != int(np.argmax(means)), margin


def misfit(n_runs: int = 20) -> None:
    """Print what allowing for misfit costs."""
    found = in_parallel(bent, SHARES, n_runs)
    print(
        f"\nmisfit of known size, sphere 5 x 50, delta = .05, noise known, {n_runs} runs; means off by +-eta at random"
    )
    print(f"{'eta/gap':>8s}{'pulls':>16s}{'median':>8s}{'times':>14s}{'stopped':>9s}{'wrong':>7s}{'margin/gap':>12s}")
    for share, (pulls, stopped, wrong, margin) in found.items():
        ratio, se = times(pulls, found[0.0][0])
        said = f"{stopped.sum():9.0f}{wrong.sum():7.0f}{np.nanmedian(margin):12.3f}"
        print(f"{share:8.2f}{cell(pulls):>16s}{np.median(pulls):8.0f}{f'{ratio:.2f} +-{se:.2f}':>14s}{said}")


def _instances_of_150() -> dict[str, tuple[Array, Array]]:
    """Features and means that take about 150 pulls with noise of standard deviation 1."""
    levels = np.array(list(itertools.product([0, 1], [0, 1], [0, 1, 2])))
    factors = np.column_stack([np.ones(12), levels[:, 0], levels[:, 1], levels[:, 2] == 1, levels[:, 2] == 2])
    directions = np.random.default_rng(5).standard_normal((50, 5))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    return {
        "2 arms": (np.eye(2), np.array([0.54, 0.0])),
        "basis d=3": (np.eye(3), np.array([0.64, 0.0, -0.11])),
        "basis d=5": (np.eye(5), np.array([1.02, 0.23, 0.11, 0.0, -0.11])),
        "2 x 2 x 3, d=5": (factors, factors @ [0.0, 1.05, 0.84, 0.63, -0.31]),
        "sphere 50 x 5": (directions, directions @ directions[0] * 2.8),
    }


INSTANCES_OF_150 = _instances_of_150()


class Earlier(NamedTuple):
    """An instance, whether its noise is told, and how many balanced measurements there were before."""

    instance: str
    is_told: bool
    n: int


def resumed(job: Earlier, run: int) -> tuple[int, bool]:
    """Return pulls beside the earlier ones, and whether the answer is wrong."""
    (X, means), noise = INSTANCES_OF_150[job.instance], np.random.default_rng([SEED, run])

    def pull(arm: int) -> float:
        return float(means[arm] + noise.standard_normal())

    history = [(i % len(X), pull(i % len(X))) for i in range(job.n)]
    result = sp.identify(X, pull, noise_std=1.0 if job.is_told else None, history=history, earlier="evidence", seed=run)
    return result.n_pulls - job.n, result.best != int(np.argmax(means))


def history(n_runs: int = 100) -> None:
    """Print pulls with and without earlier measurements."""
    jobs = [*map(Earlier._make, itertools.product(INSTANCES_OF_150, (True, False), (0, 300)))]
    found = in_parallel(resumed, jobs, n_runs)
    print(f"\n300 balanced earlier measurements, delta = .05, {n_runs} runs; aim: at most half the pulls")
    print(f"{'':16s}{'noise':>8s}{'without':>14s}{'with':>14s}{'ratio':>16s}{'wrong':>8s}")
    for instance, is_told in itertools.product(INSTANCES_OF_150, (True, False)):
        fresh, later = (found[Earlier(instance, is_told, n)] for n in (0, 300))
        ratio, se = times(later[0], fresh[0])
        pulls, wrong = f"{cell(fresh[0]):>14s}{cell(later[0]):>14s}", f"{fresh[1].sum():.0f}, {later[1].sum():.0f}"
        told = "known" if is_told else "unknown"
        print(f"{instance:16s}{told:>8s}{pulls}{f'{ratio:.2f} +-{se:.2f}':>16s}{wrong:>8s}")


PARTS: Mapping[str, Callable[..., None]] = {
    "noise": noise,
    "per-arm": per_arm,
    "h-rage": h_rage,
    "symmetric": symmetric,
    "models": models,
    "misfit": misfit,
    "history": history,
}


def main() -> None:
    """Print everything."""
    for part in PARTS.values():
        part()


if __name__ == "__main__":
    PARTS[sys.argv[1]](*map(int, sys.argv[2:3])) if sys.argv[1:2] else main()
