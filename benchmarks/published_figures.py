"""Figures that others published for the algorithms of this package, beside ours.

z is the difference in units of the combined standard error (the published one where it is known). Sources: the RAGE and
Oracle columns of Jedra and Proutiere (2020), Tables 1 and 2; Wang, Tzeng and Proutiere (2021), submission version,
Table 1; Tirinzoni and Degenne (2022), Table 1; the public result files of Reda, Kaufmann and Delahaye-Duriez (2021).
"""

import math
from typing import Any

import surepick as sp
from benchmarks._instances import KNOWLEDGE, many, quieter, true_norm
from surepick.simulation import problems
from surepick.simulation.published import ORACLE, RAGE

N_RUNS = 40
N_JOBS = 2

# Soare d=6, angle .1, theta = 2 e1, noise_std 1, 1000 runs, by delta.
WANG: dict[str, dict[float, float]] = {
    "frank-wolfe": {0.1: 1030, 0.01: 1614, 0.001: 2229, 0.0001: 2839},
    "lingame-c": {0.1: 2498, 0.01: 3501, 0.001: 4324, 0.0001: 5118},
    "lingame": {0.1: 2319, 0.01: 3431, 0.001: 4326, 0.0001: 5120},
    "xy-adaptive": {0.1: 7016, 0.01: 7779, 0.001: 9090, 0.0001: 9723},
    "uniform": {0.1: 5451, 0.01: 8814, 0.001: 12101, 0.0001: 15314},
}
WANG_OPTIONS: dict[str, dict[str, Any]] = {
    "frank-wolfe": {"variant": "paper"},
    # The published runs used gains clipped at log t and the rule log((1 + log t)/delta).
    "lingame": {"variant": "paper", "optimism": "log-t", "stopping": "heuristic"},
    "lingame-c": {"variant": "paper", "optimism": "log-t", "stopping": "heuristic"},
    "xy-adaptive": {"variant": "paper"},
    "uniform": {"variant": "paper"},
}

# K=50, d=20, delta = .01, rule log((t+1)/delta): thousands of pulls with the rule as it is, and with elimination in
# rule and sampling.
TIRINZONI: dict[str, tuple[float, float | None]] = {
    "lingape": (33.19, 29.89),
    "lingame": (45.34, 32.49),
    "frank-wolfe": (42.26, 32.62),
    "lazy-track-and-stop": (76.33, 64.48),
    "xy-oracle": (56.36, None),
}

REDA_LINGAPE = "3263 (2119), 95.6 %"
REDA_LINGIFA = "3848 (1357), 100 %"
"""Soare d=2, angle .1, theta = e1, noise_std .5, delta = .05, 500 runs: mean (sd) of the pulls, right answers."""


def many_arms_columns() -> None:
    """RAGE and the Oracle on the many-arms problem."""
    print(f"\nmany arms, public-code constants, {N_RUNS} runs, seed 200, 201, ..; published: 20 runs")
    print(f"{'algorithm':12s} {'K':>6s} {'ours':>14s} {'median':>7s} {'published':>14s} {'z':>6s} {'wrong':>6s}")
    seed = 200
    for name, published in (("rage", RAGE), ("xy-oracle", ORACLE)):
        for n_arms, figure in published.items():
            runs = sp.simulate(
                many(n_arms), name, n_runs=N_RUNS, seed=seed, n_jobs=N_JOBS, variant="paper", **KNOWLEDGE.get(name, {})
            )
            seed += 1
            z = (runs.mean - figure.mean) / math.hypot(runs.se, figure.se)
            print(
                f"{name:12s} {n_arms:6d} {runs.mean:8.0f} +-{runs.se:4.0f} {runs.median:7.0f} "
                f"{figure.mean:8.0f} +-{figure.se:4.0f} {z:6.1f} {runs.n_errors:6d}",
                flush=True,
            )


def wang_table() -> None:
    """Frank-Wolfe sampling and its comparators on Soare's instance."""
    problem = problems.soare(6, angle=0.1, scale=2.0)
    print(f"\nSoare d=6, angle .1, theta = 2 e1, {N_RUNS} runs, seed 220; published: 1000 runs, s.e. not given")
    print(f"{'delta':>7s} {'bound':>6s} " + " ".join(f"{name:>26s}" for name in WANG))
    for delta in (0.1, 0.01, 0.001, 0.0001):
        cells = []
        for name, published in WANG.items():
            options = dict(WANG_OPTIONS[name])
            if name.startswith("lingame"):
                options["norm_bound"] = true_norm
            # Six times the runs where forty happened to be lucky in all rows, which share their noise.
            n_runs = 6 * N_RUNS if name == "frank-wolfe" else N_RUNS
            runs = sp.simulate(problem, name, delta=delta, n_runs=n_runs, seed=220, n_jobs=N_JOBS, **options)
            cells.append(f"{runs.mean:6.0f} +-{runs.se:4.0f} ({published[delta]:5.0f})")
        bound = sp.lower_bound(problem.X, problem.theta, delta)
        print(f"{delta:7g} {bound:6.0f} " + " ".join(f"{cell:>26s}" for cell in cells), flush=True)


def tirinzoni_table() -> None:
    """Elimination on the random linear instance."""
    problem, n_runs = problems.random_linear(50, 20, seed=0), 3
    print(
        f"\nrandom linear K=50 d=20, delta = .01, rule log((t+1)/delta), {n_runs} runs, seed 230: thousands of pulls\n"
        "(published: 100 runs on another draw of the same kind, so compare ranks and savings)"
    )
    print(f"{'algorithm':20s} {'plain':>14s} {'(published)':>12s} {'elimination':>14s} {'(published)':>12s}")
    for name, figures in TIRINZONI.items():
        cells = []
        for elimination, figure in zip((False, True), figures, strict=True):
            runs = sp.simulate(
                problem,
                name,
                delta=0.01,
                n_runs=n_runs,
                seed=230,
                n_jobs=N_JOBS,
                stopping="log-t",
                elimination=elimination,
                **KNOWLEDGE.get(name, {}),
            )
            cells.append(f"{runs.mean / 1000:7.2f} +-{runs.se / 1000:5.2f} {figure or math.nan:12.2f}")
        print(f"{name:20s} " + " ".join(cells), flush=True)


def reda_table() -> None:
    """LinGapE with the width of Reda et al. on their only instance that asks for one arm.

    Their code looks after a pull only at the pair it was chosen for, and so ends some runs before the other rival is
    ruled out; ours looks at all rivals. LinGIFA, for one arm, is nearly LinGapE and has no such short cut.
    """
    problem, n_runs = quieter(problems.soare(2, angle=0.1, scale=1.0)), 100
    print(
        f"\nSoare d=2, angle .1, theta = e1, noise_std .5, delta = .05, {n_runs} runs, seed 240: lingape\n"
        f"(published, 500 runs, mean (sd), right answers: m-LinGapE {REDA_LINGAPE}; LinGIFA {REDA_LINGIFA})"
    )
    runs = sp.simulate(
        problem,
        "lingape",
        n_runs=n_runs,
        seed=240,
        n_jobs=N_JOBS,
        max_pulls=20_000,
        variant="paper",
        width="largest-norm",
        ridge=(problem.noise_std / 20) ** 2,
        norm_bound=true_norm,
    )
    print(
        f"{runs.mean:6.0f} +-{runs.se:4.0f} (sd {runs.n_pulls.std(ddof=1):.0f}), median {runs.median:.0f}, "
        f"{runs.correct.mean():.1%} right, {int((~runs.stopped).sum())} given up",
        flush=True,
    )


def main() -> None:
    """Print all tables; about an hour on two cores."""
    many_arms_columns()
    wang_table()
    tirinzoni_table()
    reda_table()


if __name__ == "__main__":
    main()
