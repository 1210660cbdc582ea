"""Compare two tables of runs: the change of each cell, and whether noise explains the change.

Cells are the same if problem, arguments, label and delta agree, and the name of the problem in reports where two
problems of a table agree in all of these, such as two tables of arms. If their seeds agree too, run i met the same
instance and the same noise in both tables. Such runs are compared in pairs: mean pulls by the paired t test, wrong
answers by the exact sign test on the runs in which exactly one table is wrong. Other cells are compared by Welch's t
test and Fisher's exact test. Every p-value is multiplied by the number of tests (Bonferroni). So if nothing changed
and means of runs are close to normal, the probability that any cell is called changed is at most the level.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np
import scipy

from surepick.errors import InvalidInput
from surepick.simulation.experiment import call_of
from surepick.simulation.store import LABEL, read_cells

LEVEL = 0.05

Verdict = Literal["identical", "noise", "changed", "too few runs"]
Identity = tuple[str, str, str, float, str]
"""Problem, arguments, algorithm, delta, and the name of the problem in reports; "" where the others suffice."""
COLUMNS = (
    "problem",
    "arguments",
    "algorithm",
    "delta",
    LABEL,
    "run",
    "seed",
    "n_pulls",
    "stopped",
    "correct",
    "seconds",
)


class Side(NamedTuple):
    """A cell in one of the tables."""

    n_runs: int
    mean: float
    n_errors: int
    n_unfinished: int
    seconds: float
    """Mean CPU time of a run; depends on the machine, so it is not tested."""


@final
@dataclass(frozen=True, slots=True)
class CellChange:
    """The change of a cell that both tables have."""

    problem: str
    arguments: str
    algorithm: str
    delta: float
    label: str
    """Name of the problem in reports, where problem and arguments do not tell it; else ""."""
    first: Side
    second: Side
    is_paired: bool
    """Whether the seeds agree, so that the runs in both tables are compared in pairs."""
    p_pulls: float
    """Probability of a difference of this size by chance, times the number of tests; NaN if not tested."""
    p_errors: float
    verdict: Verdict


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of two tables, cell by cell."""

    cells: tuple[CellChange, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    n_tests: int
    level: float

    @property
    def n_changed(self) -> int:
        """Number of cells with a difference that noise does not explain."""
        return sum(cell.verdict == "changed" for cell in self.cells)


_Cell = Mapping[str, Any]
"""The columns of a cell, and `wrong`."""


def compare(first: Path, second: Path) -> Comparison:
    """Compare two tables of runs.

    Raises:
        InvalidInput: the tables have no cell in common.
        SurepickError: a file is missing, damaged or not a table of runs.
    """
    tables = _unlabelled(_cells(first), _cells(second))
    common = [identity for identity in tables[0] if identity in tables[1]]
    if not common:
        raise InvalidInput(f"{first} and {second} have no cell in common; compare tables of the same experiment.")
    cells = [_change(identity, tables[0][identity], tables[1][identity]) for identity in common]
    n_tests = sum(not math.isnan(p) for cell in cells for p in (cell.p_pulls, cell.p_errors))
    for number, cell in enumerate(cells):
        p_pulls, p_errors = np.minimum(1.0, n_tests * np.array([cell.p_pulls, cell.p_errors])).tolist()  # NaN stays
        verdict: Verdict = "changed" if min(p_pulls, p_errors) < LEVEL else cell.verdict
        cells[number] = replace(cell, p_pulls=p_pulls, p_errors=p_errors, verdict=verdict)
    return Comparison(
        cells=tuple(cells),
        only_first=tuple(_name(cell) for cell in tables[0] if cell not in tables[1]),
        only_second=tuple(_name(cell) for cell in tables[1] if cell not in tables[0]),
        n_tests=n_tests,
        level=LEVEL,
    )


def _cells(path: Path) -> dict[Identity, _Cell]:
    """Return the cells of a table, in its order."""
    cells: dict[Identity, _Cell] = {}
    for _, columns in read_cells(path, COLUMNS):
        problem, arguments, algorithm, delta, label = (columns[name][0] for name in COLUMNS[:5])
        identity = (str(problem), str(arguments), str(algorithm), float(delta), str(label))
        if identity in cells:
            raise InvalidInput(f"{path} has two kinds of runs of {_name(identity)}; make it again in a new folder.")
        cells[identity] = {**columns, "wrong": columns["stopped"] & ~columns["correct"]}
    return cells


def _unlabelled(*tables: dict[Identity, _Cell]) -> list[dict[Identity, _Cell]]:
    """Return the tables without the names of problems, unless two cells would then be the same."""
    bare = [{(*identity[:4], ""): cell for identity, cell in table.items()} for table in tables]
    return bare if all(len(a) == len(b) for a, b in zip(bare, tables, strict=True)) else list(tables)


def _change(identity: Identity, a: _Cell, b: _Cell) -> CellChange:
    """Return the change of a cell, with p-values not yet multiplied by the number of tests."""
    _, in_a, in_b = np.intersect1d(a["run"], b["run"], return_indices=True)
    is_paired = bool(a["seed"][0] == b["seed"][0] and len(in_a))
    if is_paired:
        a, b = ({name: cell[name][rows] for name in cell} for cell, rows in ((a, in_a), (b, in_b)))
    p_pulls = p_errors = math.nan
    if is_paired and all(np.array_equal(a[name], b[name]) for name in ("n_pulls", "wrong", "stopped")):
        verdict: Verdict = "identical"
    elif min(len(a["run"]), len(b["run"])) < 2:
        verdict = "too few runs"
    else:
        verdict = "noise"
        p_pulls, p_errors = (_test_pairs if is_paired else _test_samples)(a, b)
    return CellChange(*identity, _side(a), _side(b), is_paired, p_pulls, p_errors, verdict)


def _test_pairs(a: _Cell, b: _Cell) -> tuple[float, float]:
    """p-values of pulls and of wrong answers."""
    difference = b["n_pulls"] - a["n_pulls"]
    only_a, only_b = int((a["wrong"] & ~b["wrong"]).sum()), int((b["wrong"] & ~a["wrong"]).sum())
    p_errors = float(scipy.stats.binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    if np.ptp(difference) > 0.0:
        return float(scipy.stats.ttest_1samp(difference, 0.0).pvalue), p_errors
    # All differences are equal: the probability that random signs all agree.
    return 2.0 ** (1 - len(difference)) if difference[0] else 1.0, p_errors


def _test_samples(a: _Cell, b: _Cell) -> tuple[float, float]:
    """p-values of pulls and of wrong answers."""
    n, m, wrong_a, wrong_b = len(a["run"]), len(b["run"]), int(a["wrong"].sum()), int(b["wrong"].sum())
    p_errors = float(scipy.stats.fisher_exact(np.array([[wrong_a, n - wrong_a], [wrong_b, m - wrong_b]])).pvalue)
    if np.ptp(a["n_pulls"]) > 0.0 or np.ptp(b["n_pulls"]) > 0.0:
        return float(scipy.stats.ttest_ind(a["n_pulls"], b["n_pulls"], equal_var=False).pvalue), p_errors
    # Both constant: 2 of the comb(n + m, n) ways to deal the runs to the tables separate them.
    return 1.0 if a["n_pulls"][0] == b["n_pulls"][0] else 2.0 / math.comb(n + m, n), p_errors


def _side(cell: _Cell) -> Side:
    return Side(
        n_runs=len(cell["run"]),
        mean=float(cell["n_pulls"].mean()),
        n_errors=int(cell["wrong"].sum()),
        n_unfinished=int((~cell["stopped"]).sum()),
        seconds=float(cell["seconds"].mean()),
    )


def _name(identity: Identity) -> str:
    problem, arguments, algorithm, delta, label = identity
    return f"{algorithm} on {label or call_of(problem, json.loads(arguments))} at delta {delta:g}"
