"""Outcomes of many runs: pulls, correct answers and time, with their statistics."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy

from surepick.core.checks import check_count
from surepick.errors import InvalidInput
from surepick.types import Array, BoolArray, IntArray, data_frame

LONGEST_LIST = 8
"""Numbers of a list that texts show."""
MEASURED = {"n_pulls": np.int64, "stopped": np.bool_, "correct": np.bool_, "support": np.int64, "seconds": np.float64}
"""Columns of every run."""


@final
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Runs:
    """Outcomes of all runs, including runs that did not stop; arrays have one entry per run, in order.

    A run that reached `max_pulls`, or the end of its `budget`, counts with the pulls that it made, and as neither right
    nor wrong. The mean is then too small, and the summary says so. With `goal="fixed-budget"` the end of the budget is
    the answer.
    """

    problem: str
    """Name of the problem; that of the first run if every run drew its own."""
    is_redrawn: bool
    """Whether every run drew its own problem."""
    algorithm: str
    options: Mapping[str, object]
    delta: float
    epsilon: float
    seed: int
    max_pulls: int
    index: IntArray
    """Numbers of the runs; `seed` and the number determine a run."""
    n_pulls: IntArray
    correct: BoolArray
    """Whether the run stopped with the best answer, or with an answer that loses at most epsilon."""
    stopped: BoolArray
    seconds: Array
    """CPU time of the algorithm, without the generation of the problem."""
    support: IntArray
    """Number of different arms that were pulled."""
    lower_bound: Array | None = None
    """Lower bound on the expected pulls of any method, or with costs on its expected cost, for the instance of each
    run; None unless requested."""
    cost: Array | None = None
    """Cost of each run; the number of pulls if all arms cost the same. None if not recorded."""
    traces: Sequence[Any] = ()
    """One for each run with `simulate(..., trace=True)`: `times` (T,), `evidence` (T,), `counts` (T, K), `shares`
    (T, K), `support` (T,), the `weights` (T, K) of the design in force, and its `design_support` (T,)."""

    def plot_shares(self, weights: Any = None, *, run: int = 0) -> Any:
        """Return a figure of the share of every arm among the pulls of a run, beside the weights of a design.

        Args:
            weights: a design such as that of `characteristic_time`, the weights of all arms (K,), or a dict with the
                weights of some: dashed lines.
            run: place of the run in `traces`.
        """
        if not self.traces:
            raise InvalidInput("a figure of the way of a run needs traces; pass `trace=True` to simulate.")
        run = check_count("run", run, least=0)
        if run >= len(self.traces):
            raise InvalidInput(f"`run` must be below the number of traces, {len(self.traces)}, got {run}.")
        from surepick.reporting.figures import shares  # noqa: PLC0415 (optional matplotlib)

        trace = self.traces[run]
        return shares(trace.times, trace.shares, _weights_of(weights, trace.shares.shape[1]))

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return len(self.n_pulls)

    @property
    def mean(self) -> float:
        """Mean number of pulls."""
        return float(self.n_pulls.mean())

    @property
    def se(self) -> float:
        """Standard error of the mean; NaN for a single run."""
        return float(self.n_pulls.std(ddof=1) / math.sqrt(self.n_runs)) if self.n_runs > 1 else math.nan

    @property
    def median(self) -> float:
        """Median number of pulls."""
        return float(np.median(self.n_pulls))

    def quantiles(self, levels: Sequence[float] = (0.1, 0.5, 0.9)) -> Array:
        """Quantiles of the number of pulls."""
        return np.asarray(np.quantile(self.n_pulls, levels), dtype=np.float64)

    @property
    def n_unfinished(self) -> int:
        """Runs that reached `max_pulls` or the end of their `budget` without stopping."""
        return int((~self.stopped).sum())

    @property
    def n_errors(self) -> int:
        """Runs that stopped with a wrong answer: the event whose probability delta bounds."""
        return int((self.stopped & ~self.correct).sum())

    @property
    def error_rate(self) -> float:
        """Share of all runs that stopped with a wrong answer."""
        return self.n_errors / self.n_runs

    def error_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the exact (Clopper-Pearson) confidence interval for the probability of a wrong answer."""
        return error_interval(self.n_errors, self.n_runs, level)

    @property
    def ratio(self) -> Array:
        """Pulls, or with costs the cost, divided by the lower bound for the instance of the run.

        Needs `simulate(..., bounds=True)`.
        """
        if self.lower_bound is None:
            raise InvalidInput("`ratio` needs the lower bounds, which were not asked for; pass `bounds=True`.")
        return (self.n_pulls if self.cost is None else self.cost) / self.lower_bound  # equal without costs

    @property
    def has_costs(self) -> bool:
        """Whether pulls had costs of their own."""
        return self.options.get("costs") is not None

    def to_columns(self) -> dict[str, Any]:
        """Return one array per column, with one entry per run."""
        columns: dict[str, Any] = {"run": self.index, **{name: getattr(self, name) for name in MEASURED}}
        if self.has_costs:
            columns["cost"] = self.cost
        if self.lower_bound is not None:
            columns |= {"lower_bound": self.lower_bound, "ratio": self.ratio}
        return columns

    def to_frame(self) -> Any:
        """Return the columns as a pandas `DataFrame`, one row per run; without pandas, as in `to_columns`."""
        return data_frame(self.to_columns())

    def to_latex(self, *others: "Runs") -> str:
        """Return a LaTeX table (booktabs) with a row for these runs and one for each of the others."""
        head = ["algorithm", "problem", r"$\delta$", "runs", "pulls", "s.e.", "wrong", "unfinished"]
        rows = [
            [
                runs.algorithm,
                runs.problem,
                f"{runs.delta:g}",
                str(runs.n_runs),
                f"{runs.mean:.1f}",
                "--" if math.isnan(runs.se) else f"{runs.se:.1f}",
                str(runs.n_errors),
                str(runs.n_unfinished),
            ]
            for runs in (self, *others)
        ]
        return latex_table(head, [[latex_text(name), latex_text(problem), *rest] for name, problem, *rest in rows])

    def summary(self) -> str:
        """Return a summary in a few lines."""
        low, high = self.error_interval()
        tenth, _, ninth = self.quantiles()
        spread = f" +- {self.se:.1f}" if self.n_runs > 1 else ""
        options = "".join(f", {name}={brief(value)}" for name, value in self.options.items())
        slack = f", epsilon {self.epsilon:g}" if self.epsilon else ""
        redrawn = " (redrawn in every run)" if self.is_redrawn else ""
        what = f"{self.algorithm}{options} on {self.problem}{redrawn}"
        most = f"80 % of the runs between {tenth:.0f} and {ninth:.0f}"
        lines = [
            f"{what}: {self.n_runs} runs, delta {self.delta:g}{slack}, seed {self.seed}",
            f"  pulls   {self.mean:.1f}{spread} (mean, s.e.), median {self.median:g}, {most}",
            f"  wrong   {self.n_errors} of {self.n_runs}, error probability in [{low:.4f}, {high:.4f}] (95 %)",
            f"  arms    {self.support.mean():.1f} different ones pulled",
            f"  time    {1e3 * self.seconds.mean():.1f} ms CPU a run",
        ]
        if self.has_costs and self.cost is not None:
            lines.insert(2, f"  cost    {self.cost.mean():.4g} (mean)")
        if self.lower_bound is not None:
            bound, ratio = self.lower_bound.mean(), self.ratio.mean()
            unit = "in cost" if self.has_costs else "pulls"
            lines.append(f"  bound   {bound:.1f} {unit}; runs need {ratio:.2f} times theirs")
        if self.n_unfinished:
            share, is_cut = f"{self.n_unfinished} of {self.n_runs}", ~self.stopped & (self.n_pulls < self.max_pulls)
            limit = f"the budget of {self.options['budget']}" if is_cut.any() and "budget" in self.options else ""
            limit = limit or f"{self.max_pulls} pulls"
            why = "the mean counts the pulls until then, so it is too small"
            lines.append(f"  open    {share} did not stop within {limit} and have no answer; {why}")
        return "\n".join(lines)

    def __len__(self) -> int:
        return self.n_runs

    def __repr__(self) -> str:
        return self.summary()


def _weights_of(weights: Any, n_arms: int) -> Mapping[int, float]:
    """Return the weight of each arm from a design, an array or a dict."""
    if weights is None or isinstance(weights, Mapping):
        return weights or {}
    if hasattr(weights, "support") and hasattr(weights, "weights"):
        return dict(zip(weights.support.tolist(), weights.weights.tolist(), strict=True))
    try:
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (n_arms,):
        raise InvalidInput(
            f"`weights` must be a design, a dict, or a weight for each of the {n_arms} arms, got a "
            f"{type(weights).__name__}."
        )
    return dict(enumerate(found.tolist()))


def brief(value: object) -> str:
    """Return a value as text; a table or a long list of numbers by its size, which is what fits a table or a title."""
    try:
        shape = np.shape(value) if isinstance(value, list | tuple | np.ndarray) else ()
    except ValueError:  # rows of different lengths
        return f"{len(value)} rows"  # type: ignore[arg-type]
    if len(shape) > 1 or (shape and shape[0] > LONGEST_LIST):
        return f"{' x '.join(map(str, shape))} numbers" if len(shape) > 1 else f"{shape[0]} values"
    return str(value)


_LATEX = str.maketrans(
    {**{sign: f"\\{sign}" for sign in "&%$#_{}"}, "\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
    | {"^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}"}
)


def latex_text(text: str) -> str:
    """Return a text with the signs escaped that LaTeX gives a meaning."""
    return text.translate(_LATEX)


def latex_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, n_left: int = 2) -> str:
    """Return a table for the LaTeX package booktabs; the first `n_left` columns are texts, the others numbers."""
    columns = "l" * n_left + "r" * (len(head) - n_left)
    lines = [" & ".join(row) + r" \\" for row in (head, *rows)]
    body = ["\\toprule", lines[0], "\\midrule", *lines[1:], "\\bottomrule"]
    return "\n".join([f"\\begin{{tabular}}{{{columns}}}", *body, r"\end{tabular}"]) + "\n"


def error_interval(n_errors: int, n_runs: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) confidence interval for the error probability: n_errors in n_runs runs."""
    if not 0.0 < level < 1.0:
        raise InvalidInput(f"`level` must be strictly between 0 and 1, got {level!r}; 0.95 is the usual choice.")
    n_right, tail = n_runs - n_errors, (1.0 - level) / 2.0
    low = float(scipy.stats.beta.ppf(tail, n_errors, n_right + 1)) if n_errors else 0.0
    high = float(scipy.stats.beta.ppf(1.0 - tail, n_errors + 1, n_right)) if n_right else 1.0
    return low, high
