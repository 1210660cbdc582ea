"""A new algorithm against three others on three problems, from the class to the table of the paper.

    surepick bench run examples/new_paper.toml --full --out out/paper      # kill it: the same command goes on
    surepick bench report out/paper --latex                                # report.tex, figures as PDF
    python examples/new_paper.py out/paper                                 # a table and a figure of your own

The algorithm is PEPS (Li, Jamieson and Jain 2024): a game in which nature answers with draws from the posterior under
which another arm is best. Notation: theta the estimate and A the information so far, z the leader, w weights of the
arms, a the rows.

    nature   draws theta_i ~ N(theta, noise_std^2 A^-1) until `n_draws` of them have another best arm than z
    gains    mean over i of (a'(theta_i - theta))^2 for every arm, fed to AdaHedge, which moves w
    pull     an arm drawn from w, with a share of the G-optimal design

If `most_draws` draws do not suffice, nature takes the closest parameter under which z is not best. PEPS has no stopping
rule for a risk delta; the evidence rule is valid for any sampling. surepick has PEPS as "peps": here it is written
anew, as you would write an algorithm that surepick does not have.

Two problems are rows of tables in scikit-learn (surepick[bench] has it): the arms are patients and wines, theta and
the noise are the fit of a measured result. Diabetes: Efron, Hastie, Johnstone and Tibshirani (2004), "Least angle
regression". Wine: Aeberhard and Forina (1991), UCI Machine Learning Repository, CC BY 4.0.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import surepick as sp
from surepick.arms.views import Task
from surepick.core.estimate import LeastSquares
from surepick.sampling.adahedge import AdaHedge
from surepick.sampling.base import Sampler, SamplerContext

AT_ONCE = 100


@dataclass(frozen=True, kw_only=True)
class Peps:
    """Pure exploration by posterior sampling.

    Args:
        n_draws: draws with another best arm, in each round.
        most_draws: draws after which nature takes the closest such parameter.
        share: share of the G-optimal design.
    """

    n_draws: int = 20
    most_draws: int = 400
    share: float = 0.1

    def compose(self, task: Task) -> tuple[Sampler, sp.stopping.Rule]:
        """Return the sampler and the rule."""
        return PepsSampler(self, task), sp.stopping.Evidence()


class PepsSampler(Sampler):
    """One round of the game per pull."""

    def __init__(self, options: Peps, task: Task) -> None:
        self._options, self._noise_std = options, task.noise_std
        self._X = task.arms.gather(range(task.arms.n_arms))  # whitened: the G-optimal design has information I
        self._Z = task.rivals.gather(range(task.rivals.n_arms))  # the candidates: the arms, unless others are given
        self._start, self._design = task.spanning, task.rows.design
        self._rng = np.random.default_rng(task.seed)
        self._learner = AdaHedge(len(self._X))
        self._arm = 0

    def open(self, context: SamplerContext) -> int:
        """Play a round and draw the next arm."""
        if context.theta is None or context.leader is None:  # no estimate yet: pull arms that span
            self._arm = int(self._start[context.n_asked % len(self._start)])
            return 1
        theta = context.theta
        lies = self._alternatives(context.estimate, theta, context.leader)
        p = self._learner.weights * (1.0 - self._options.share)
        p[self._design.support] += self._options.share * self._design.weights
        self._arm = int(self._rng.choice(len(p), p=p / p.sum()))
        self._learner.feed(-np.square(self._X @ (lies - theta).T).mean(axis=1))
        return 1

    def _alternatives(self, estimate: LeastSquares, theta: np.ndarray, leader: int) -> np.ndarray:
        """Return parameters (n, d) under which another arm is best."""
        F, found, n_found = self._noise_std * estimate.factor(), [], 0
        for _ in range(math.ceil(self._options.most_draws / AT_ONCE)):
            drawn = theta + self._rng.standard_normal((AT_ONCE, len(F))) @ F.T
            found.append(drawn[np.argmax(drawn @ self._Z.T, axis=1) != leader])
            n_found += len(found[-1])
            if n_found >= self._options.n_draws:
                return np.concatenate(found)[: self._options.n_draws]
        return self._closest(estimate, theta, leader)

    def _closest(self, estimate: LeastSquares, theta: np.ndarray, leader: int) -> np.ndarray:
        """Return the closest parameter (1, d) under which the leader is not best."""
        Y, A_inv = self._Z[leader] - self._Z, estimate.A_inv
        gaps, squares = np.maximum(Y @ theta, 0.0), np.einsum("ij,jk,ik->i", Y, A_inv, Y)
        costs = np.divide(gaps**2, squares, out=np.full(len(Y), np.inf), where=squares > 0.0)
        rival = int(np.argmin(costs))
        closest: np.ndarray = theta - gaps[rival] / squares[rival] * A_inv @ Y[rival]
        return closest[None]

    def next(self) -> int:
        """Return the arm that was drawn."""
        return self._arm


def diabetes(n_rows: int = 30) -> sp.problems.Problem:
    """Which of the first patients has the disease that progresses most? 10 features and a constant."""
    from sklearn.datasets import load_diabetes  # noqa: PLC0415 (not needed to read the algorithm)

    table = load_diabetes()
    return fitted(table.data, table.target, n_rows, "diabetes")


def wine(n_rows: int = 60) -> sp.problems.Problem:
    """Which of the first wines is the strongest? 12 other properties and a constant."""
    from sklearn.datasets import load_wine  # noqa: PLC0415

    table = load_wine().data
    return fitted(table[:, 1:], table[:, 0], n_rows, "wine")


def fitted(features: np.ndarray, y: np.ndarray, n_rows: int, name: str) -> sp.problems.Problem:
    """Return the problem whose arms are the first rows, theta and noise those of the fit to all rows."""
    X = np.column_stack([np.ones(len(y)), (features - features.mean(axis=0)) / features.std(axis=0)])
    theta = np.linalg.lstsq(X, y, rcond=None)[0]
    noise_std = math.sqrt(np.square(y - X @ theta).sum() / (len(y) - X.shape[1]))
    return sp.problems.Problem(X=X[:n_rows], theta=theta, noise_std=noise_std, name=name)


def main(folder: Path) -> Path:
    """Write a table and a figure of the runs in a folder; return the table."""
    import matplotlib as mpl  # noqa: PLC0415 (reading the runs needs surepick[bench])
    import pandas as pd  # noqa: PLC0415

    mpl.use("Agg")
    runs = pd.read_parquet(folder / "new-paper" / "runs.parquet")
    runs["ratio"] = runs["n_pulls"] / runs["lower_bound"]
    cells = runs.groupby(["algorithm", "label"], sort=False)
    mean, se = cells["ratio"].mean(), cells["ratio"].std() / np.sqrt(cells.size())
    shown = mean.map("{:.2f}".format) + " (" + se.map("{:.2f}".format) + ")"
    table = shown.unstack()
    wrong = runs.assign(wrong=runs["stopped"] & ~runs["correct"]).groupby("algorithm", sort=False)["wrong"].sum()
    table["wrong"] = wrong.astype(str) + " of " + runs.groupby("algorithm", sort=False).size().astype(str)
    path = folder / "new-paper.tex"
    path.write_text(table.to_latex(), "utf-8")
    axes = mean.unstack(0).plot.bar(yerr=se.unstack(0), figsize=(6.75, 2.6), rot=0, xlabel="", capsize=2)
    axes.set_ylabel("pulls / lower bound")
    axes.legend(fontsize=7, frameon=False)
    axes.figure.tight_layout()
    axes.figure.savefig(folder / "new-paper.pdf")
    print(table.to_string())
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/paper"))
