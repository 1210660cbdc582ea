"""A reference value for every algorithm: a published figure, or that of another implementation, beside ours.

`python -m benchmarks.reference_values [algorithm ...]` measures all of them (ten minutes of CPU time), or the named
ones, and writes benchmarks/results/reference_values.json. Shares of the phased methods come from the 1,000 runs of
`benchmarks.fixed_budget`, which draws the sums of phases. `python -m benchmarks.reference_values table` prints the
table of docs/algorithms.md, with which a test compares the page. `NONE` says why an algorithm has no reference.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import surepick as sp
from benchmarks.peps import is_wrong
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.simulation.problems_published import reda_a
from surepick.types import Array

FOLDER = Path(__file__).parent / "results"
RESULTS, BUDGETS = FOLDER / "reference_values.json", FOLDER / "fixed_budget.json"
PHASED = {"od-linbai": "OD-LinBAI", "gse": "GSE", "lin-halving": "halving", "peace": "Peace", "p1-rage": "P1-RAGE"}
"""Their names in fixed_budget.json."""
SEED = 7700
LIMIT = 3.0
"""Combined standard errors within which a value must be."""


class Reference(NamedTuple):
    """A value to come near to."""

    where: str
    """The instance and what is counted, for the table."""
    problem: Problem | Callable[[int], Problem]
    options: Mapping[str, Any]
    value: float
    """Mean pulls, or the share of wrong answers if the options have a budget."""
    se: float
    """Its standard error; NaN if none was given, and the scatter of our runs stands for theirs."""
    n_theirs: int
    source: str
    n_runs: int
    """Our runs."""
    n_few: int
    """Runs of the test."""


def _many(seed: int) -> Problem:
    return problems.many_arms(1000, seed=seed)


def _soare_halves() -> Problem:
    arms = problems.soare(2, angle=0.1, scale=1.0)
    return Problem(X=arms.X, theta=arms.theta, name=arms.name, noise_std=0.5)


def _share(p: float, n: int) -> float:
    return math.sqrt(p * (1.0 - p) / n)


_SOARE2, _SOARE6, _SOARE10 = problems.soare(2, scale=1.0), problems.soare(6), problems.soare(10)
_BASIS = problems.unit_basis([1.0, 0.75, 0.5, 0.25, 0.0])
_PAPER: Mapping[str, Any] = {"variant": "paper"}
_BUDGET: Mapping[str, Any] = {"goal": "fixed-budget", "budget": 1010}
_LATE: Mapping[str, Any] = {"goal": "fixed-budget", "delta": 1e-9}
_JEDRA, _WANG = "Jedra and Proutiere (2020), Tables 1 and 2", "Wang, Tzeng and Proutiere (2021), Table 1"
_REDA, _OTHER = "result files of Reda et al. (2021)", "another implementation"
_MANY, _S6, _S10 = "many arms, K = 1000", "Soare d = 6, delta = 0.1", "Soare d = 10, wrong after 1,010 pulls"
_B5 = "basis 1, 0.75, .., 0, wrong after 190 pulls"

REFERENCES: Mapping[str, Reference] = {
    "lazy-track-and-stop": Reference(
        _MANY, _many, {**_PAPER, "stopping": "paper-appendix"}, 424.5, 29.1, 20, _JEDRA, 60, 4
    ),
    "rage": Reference(_MANY, _many, _PAPER, 1148.45, 49.82, 20, _JEDRA, 40, 4),
    "xy-oracle": Reference(_MANY, _many, {**_PAPER, "theta": [1.0, 0.0]}, 476.45, 40.74, 20, _JEDRA, 60, 8),
    "frank-wolfe": Reference(_S6, _SOARE6, {**_PAPER, "delta": 0.1}, 854.0, 36.0, 300, _OTHER, 60, 2),
    "lingame": Reference(
        _S6 + ", rule `heuristic`", _SOARE6, {**_PAPER, "stopping": "heuristic", "optimism": "log-t", "delta": 0.1},
        2319.0, math.nan, 1000, _WANG, 12, 1,
    ),
    "lingame-c": Reference(
        _S6 + ", rule `heuristic`", _SOARE6, {**_PAPER, "stopping": "heuristic", "optimism": "log-t", "delta": 0.1},
        2498.0, math.nan, 1000, _WANG, 12, 1,
    ),
    "uniform": Reference(_S6, _SOARE6, {**_PAPER, "delta": 0.1}, 5451.0, math.nan, 1000, _WANG, 30, 1),
    "lingape": Reference(
        _S6 + ", rule `heuristic`", _SOARE6, {**_PAPER, "stopping": "heuristic", "norm_bound": 2.0, "delta": 0.1},
        875.0, 84.0, 60, _OTHER, 20, 1,
    ),
    "lingifa": Reference(
        "Soare d = 2, theta = e1, noise 0.5", _soare_halves(), {**_PAPER, "norm_bound": 1.0},
        3848.0, 60.7, 500, _REDA, 5, 1,
    ),
    "m-lingape": Reference("A, c = 0, the 3 best", reda_a(), {**_PAPER, "m": 3}, 577.0, 15.6, 500, _REDA, 40, 1),
    "mislid": Reference(
        "A, c = 0, the 3 best", reda_a(), {**_PAPER, "m": 3, "reward_bound": 1.419}, 890.0, 24.4, 500, _REDA, 20, 1
    ),
    "peps": Reference(
        "Soare d = 2, theta = e1, wrong after 250 pulls", _SOARE2,
        {**_PAPER, "budget": 250, "most_draws": 20}, 0.276, _share(0.276, 2000), 2000, _OTHER, 100, 4,
    ),
    "top-two": Reference(
        _B5 + ", Thompson leader", _BASIS,
        {**_LATE, "budget": 190, "leader": "thompson", "exploration": 0.0, "g_mix": 0.0},
        0.075, _share(0.075, 5000), 5000, _OTHER, 300, 20,
    ),
    "g-static": Reference(_S10, _SOARE10, _BUDGET, 0.1615, _share(0.1615, 4000), 4000, _OTHER, 300, 20),
    "od-linbai": Reference(_S10, _SOARE10, {**_PAPER, **_BUDGET}, 0.469, _share(0.469, 4000), 4000, _OTHER, 300, 20),
    "gse": Reference(_S10, _SOARE10, {**_PAPER, **_BUDGET}, 0.472, _share(0.472, 4000), 4000, _OTHER, 300, 20),
    "lin-halving": Reference(
        _S10, _SOARE10, {**_PAPER, **_BUDGET}, 0.0735, _share(0.0735, 4000), 4000, _OTHER, 300, 20
    ),
    "peace": Reference(_S10, _SOARE10, {**_PAPER, **_BUDGET}, 0.0835, _share(0.0835, 4000), 4000, _OTHER, 300, 20),
    "p1-rage": Reference(
        _S10, _SOARE10, {**_PAPER, **_BUDGET}, 0.0533, 0.0039, 21_000, "Xiong et al. (2024), published with the code",
        300, 20,
    ),
    "bayes-gap": Reference(
        _B5, _BASIS, {**_PAPER, "goal": "fixed-budget", "budget": 190}, 0.077, _share(0.077, 2000), 2000, _OTHER,
        300, 10,
    ),
}  # fmt: skip
"""By algorithm. Another implementation was written from the paper's text, without a look at this one."""
NONE: Mapping[str, str] = {
    "alba": "the paper shows its results as a chart. The tests compare phases, estimates and widths with the formulas.",
    "explore-verify": "the paper has no experiment. The tests compare every step with the formulas.",
    "h-rage": "no instance of the paper is known in full. The tests compare its pulls with those of a short version.",
    "rounds": (
        "section 4 of Jedra and Proutiere (2020) prints no figure. We compare its pulls with a proved lower bound."
    ),
    "track-and-stop": (
        "the published figures are for yes-or-no rewards and their divergence. The tests compare weights, tracking "
        "and threshold with the formulas."
    ),
    "xy-adaptive": (
        "the published figures (Wang, Tzeng and Proutiere 2021) come from phases that are shorter than the "
        "paper's, since the public code divides by the pulls twice. Ours needs 1.6 to 2.7 times as many pulls."
    ),
    "xy-static": "the paper shows its results as a chart. The tests compare the design with a brute-force search.",
}
"""Why an algorithm has no reference value."""


def values_of(name: str, n_runs: int, **changes: Any) -> Array:
    """Return what is compared, for the first runs of the algorithm: pulls, or whether the answer is wrong (0 or 1)."""
    reference = REFERENCES[name]
    if name == "peps":  # it has no answer to a budget, and none is counted that is not proved
        return np.array([is_wrong(seed, 20, times=(250,))[0] for seed in range(n_runs)], dtype=np.float64)
    options = {**reference.options, **changes}
    runs = sp.simulate(reference.problem, name, n_runs=n_runs, seed=SEED, n_jobs=1, **options)
    return np.asarray(~runs.correct if "budget" in options else runs.n_pulls, dtype=np.float64)


def apart(name: str, mean: float, scatter: float, n_runs: int) -> float:
    """Return how many combined standard errors a mean of n runs is from the reference.

    Few runs estimate no scatter: that of the reference stands for it, or `scatter` where theirs is not known.
    """
    reference = REFERENCES[name]
    if "budget" in reference.options:
        scatter = _share(reference.value, 1)
    elif not math.isnan(reference.se):
        scatter = reference.se * math.sqrt(reference.n_theirs)
    theirs = scatter / math.sqrt(reference.n_theirs) if math.isnan(reference.se) else reference.se
    return (mean - reference.value) / math.hypot(theirs, scatter / math.sqrt(n_runs))


def measured(name: str, n_runs: int) -> dict[str, Any]:
    """Return the record of an algorithm."""
    values = values_of(name, n_runs)
    return {
        "mean": float(values.mean()), "scatter": float(values.std(ddof=1)), "n_runs": n_runs, "seed": SEED
    }  # fmt: skip


def kept() -> dict[str, Any]:
    """Return the records by algorithm."""
    found: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    soare = json.loads(BUDGETS.read_text("utf-8"))["soare10"]
    for name, label in PHASED.items():
        share, n = (soare[label]["1010"][key] for key in ("wrong", "runs"))
        found[name] = {"mean": share, "scatter": _share(share, 1), "n_runs": n}
    return found


def apart_now(name: str) -> float:
    """Return how many combined standard errors what is kept is from the reference."""
    one = kept()[name]
    return apart(name, one["mean"], one["scatter"], one["n_runs"])


def table() -> str:
    """Return the table of docs/algorithms.md."""
    lines = ["| algorithm | where | ours | reference | from | standard errors apart |", "|---|---|---|---|---|---|"]
    for name in sorted(REFERENCES):
        one, reference = kept()[name], REFERENCES[name]
        is_share, n = "budget" in reference.options, one["n_runs"]
        ours = _said(one["mean"], one["scatter"] / math.sqrt(n), is_share=is_share)
        theirs = _said(reference.value, reference.se, is_share=is_share)
        lines.append(
            f"| `{name}` | {reference.where} | {ours} ({n} runs) | {theirs} ({reference.n_theirs:,} runs) "
            f"| {reference.source} | {apart_now(name):.1f} |"
        )
    return "\n".join(lines)


def _said(value: float, se: float, *, is_share: bool) -> str:
    shown = f"{100 * value:.1f} %" if is_share else f"{value:,.0f}"
    if math.isnan(se):
        return shown
    return f"{shown} ± {100 * se:.1f}" if is_share else f"{shown} ± {se:,.0f}"


def main(*names: str) -> None:
    """Measure the named algorithms, or all; each is written as soon as it is measured."""
    if names == ("table",):
        print(table())
        return
    for name in names or REFERENCES.keys() - PHASED.keys():
        found = measured(name, REFERENCES[name].n_runs)
        records = json.loads(RESULTS.read_text("utf-8")) | {name: found}
        RESULTS.write_text(json.dumps(dict(sorted(records.items())), indent=1) + "\n", "utf-8")
        print(name, records[name], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
