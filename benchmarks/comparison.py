"""All algorithms on the same instances: under one proved rule, under the betting rule, and under their own rules.

Every cell is the mean of pulls / lower bound of the run's instance (its standard error), delta = .05. All algorithms
of a column see the same instances. Runs given up at the cap are counted in brackets; then the mean is a lower estimate
and is printed as "> ".
"""

import math
from collections.abc import Sequence
from typing import Any

from scipy.stats import binom

import surepick as sp
from benchmarks._instances import ARC, COMPARED, KNOWLEDGE, NEAR_TIE, PAPER_KNOWLEDGE, SMALL_ANGLE, Source
from surepick.simulation.problems import Problem
from surepick.simulation.runs import Runs

N_RUNS = 20
N_JOBS = 2
N_GATE = 2000
CAP = 30_000
OWN_RUNS, OWN_CAP = 5, 30_000  # some published rules are very cautious
SMALL_ANGLE_RUNS, SMALL_ANGLE_CAP = 5, 10**6

BASIS_ONLY = {"track-and-stop"}
EVERY_PULL = ("frank-wolfe", "lazy-track-and-stop", "lingame", "lingame-c", "lingape", "top-two")
"""Those that can use what every pull says."""


def knowledge_of(name: str, variant: object) -> dict[str, Any]:
    """Return the options without which this variant does not run."""
    return {**KNOWLEDGE.get(name, {}), **(PAPER_KNOWLEDGE.get(name, {}) if variant == "paper" else {})}


def is_possible(name: str, source: Source, options: dict[str, Any]) -> bool:
    """Whether the algorithm accepts the instance at all."""
    problem = source if isinstance(source, Problem) else source(0)
    known = {key: value(problem) for key, value in knowledge_of(name, options.get("variant")).items()}
    try:
        sp.create_learner(name, problem.X, candidates=problem.candidates, **known, **options)
    except sp.InvalidInput:
        return False
    return True


def _cell(runs: Runs) -> str:
    ratio = runs.ratio
    spread = float(ratio.std(ddof=1)) / math.sqrt(len(ratio))
    n_capped = int((~runs.stopped).sum())
    wrong = f" {runs.n_errors}!" if runs.n_errors else ""
    return f"{'> ' if n_capped else ''}{ratio.mean():.2f} ({spread:.2f}){wrong}"


def table(
    title: str,
    columns: dict[str, Source],
    *,
    n_runs: int,
    cap: int,
    seed: int,
    names: Sequence[str] | None = None,
    **options: Any,
) -> None:
    """Print one row per algorithm, of all there are unless names are given."""
    print(f"\n{title}; {n_runs} runs, seed {seed}, cap {cap} pulls; n! = n wrong answers", flush=True)
    print(f"{'algorithm':20s} " + " ".join(f"{name:>15s}" for name in columns))
    for name in names or sp.algorithms.names():
        cells = []
        for problem in columns.values():
            if not is_possible(name, problem, options):
                cells.append("-")
                continue
            runs = sp.simulate(
                problem,
                name,
                n_runs=n_runs,
                seed=seed,
                n_jobs=N_JOBS,
                bounds=True,
                max_pulls=cap,
                **knowledge_of(name, options.get("variant")),
                **options,
            )
            cells.append(_cell(runs))
        print(f"{name:20s} " + " ".join(f"{cell:>15s}" for cell in cells), flush=True)


def one_rule() -> None:
    """Every algorithm under the evidence rule, which holds for all of them."""
    table("one proved rule (evidence)", COMPARED, n_runs=N_RUNS // 2, cap=CAP, seed=40, stopping="evidence")


def betting() -> None:
    """Every algorithm under the betting rule; those that react to every pull look at results by schedule instead."""
    table("the betting rule, in blocks", COMPARED, n_runs=N_RUNS, cap=CAP, seed=40, stopping="betting")


def closer_look() -> None:
    """The column that few runs leave open, with many: the four best of Soare 6 under the betting rule."""
    print(
        "\nSoare 6 under the betting rule, 200 runs, seed 400, mean pulls / lower bound (s.e.), median pulls",
        flush=True,
    )
    for name in ("lazy-track-and-stop", "frank-wolfe", "top-two", "lingape"):
        runs = sp.simulate(
            COMPARED["Soare 6"],
            name,
            n_runs=200,
            seed=400,
            n_jobs=N_JOBS,
            bounds=True,
            max_pulls=CAP,
            stopping="betting",
        )
        print(f"{name:20s} {_cell(runs):>15s} {runs.median:8.0f}", flush=True)


def own_rules() -> None:
    """Every algorithm as published."""
    table("own published rules", COMPARED, n_runs=OWN_RUNS, cap=OWN_CAP, seed=40, variant="paper")


def small_angle() -> None:
    """Soare's instance at an angle of .01: under betting, and where a check after every pull pays, under evidence."""
    size: dict[str, Any] = {"n_runs": SMALL_ANGLE_RUNS, "cap": SMALL_ANGLE_CAP, "seed": 41}
    table("angle .01, the betting rule", SMALL_ANGLE, **size, stopping="betting")
    table("angle .01, the evidence rule", SMALL_ANGLE, **size, names=EVERY_PULL, stopping="evidence")


def gates() -> None:
    """Count wrong answers of every algorithm whose label is a proof, on a near-tie at a loose delta."""
    delta, horizon = 0.3, 100
    limit = int(binom.isf(1e-6, N_GATE, delta))
    print(
        f"\nwrong answers (answers) in {N_GATE} runs at delta = {delta}, horizon {horizon} pulls, seed 83; "
        f"limit {limit} (exact binomial, false alarm 1e-6)"
    )
    for name in sp.algorithms.names():
        cells = []
        for variant in ("practical", "paper"):
            problem = NEAR_TIE if name in BASIS_ONLY or variant == "paper" else ARC
            known = {key: value(problem) for key, value in knowledge_of(name, variant).items()}
            label = sp.create_learner(name, problem.X, variant=variant, **known).decision.guarantee
            if label not in ("proved", "published"):
                cells.append(f"{variant}: {label}")
                continue
            runs = sp.simulate(
                problem,
                name,
                delta=delta,
                n_runs=N_GATE,
                seed=83,
                n_jobs=N_JOBS,
                max_pulls=horizon,
                variant=variant,
                **known,
            )
            cells.append(f"{variant}: {runs.n_errors} ({int(runs.stopped.sum())}) {label}")
        print(f"{name:20s} " + " ".join(f"{cell:>32s}" for cell in cells), flush=True)


def main() -> None:
    """Print all tables; hours on two cores."""
    gates()
    one_rule()
    betting()
    closer_look()
    own_rules()
    small_angle()


if __name__ == "__main__":
    main()
