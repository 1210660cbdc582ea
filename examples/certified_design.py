"""Where to measure: a certified design for the many-arms problem, and the pulls nobody can do without.

A thousand arms, two features. Nearly all arms are almost equal; the design says which few are worth pulling,
and proves that no other choice could be better by more than the printed gap.
"""

import numpy as np

import surepick as sp
from surepick.simulation import problems

N_PULLS = 1000
DELTA = 0.05


def main() -> None:
    """Print the design, its certificate, and the lower bound on the number of pulls."""
    problem = problems.many_arms(1000, seed=0)
    arms = sp.FiniteArms(problem.X)
    design = sp.characteristic_time(arms, problem.theta)

    print(f"problem              {problem.name}: {problem.n_arms} arms, {problem.dim} features")
    print(f"best arm             {problem.best}, ahead of the next by {problem.min_gap:.4f}")
    print(f"characteristic time  between {design.lower_bound:.6f} and {design.value:.6f}")
    print(f"certified gap        {design.gap:.1e}, verified: {design.verify(arms)}")
    print(f"pulls needed         at least {sp.lower_bound(arms, problem.theta, delta=DELTA):.1f} on average")
    print(f"                     for any method that errs with probability <= {DELTA}\n")

    uniform = np.full(problem.n_arms, 1 / problem.n_arms)
    factor = _time(problem, uniform) / design.value
    print(f"uniform pulling      needs {factor:.1f} times as many as the design\n")

    print(f"{'arm':>6} {'angle':>8} {'weight':>8} {'of ' + str(N_PULLS):>8}")
    for arm, weight, count in zip(design.support, design.weights, design.round(N_PULLS), strict=True):
        angle = np.degrees(np.arctan2(problem.X[arm, 1], problem.X[arm, 0]))
        print(f"{arm:>6} {angle:>7.1f}\N{DEGREE SIGN} {weight:>8.4f} {count:>8}")


def _time(problem: problems.Problem, w: np.ndarray) -> float:
    """The factor of the pulls needed when arms are pulled in the proportions w."""
    rivals = np.delete(problem.X, problem.best, axis=0)
    Y = (problem.X[problem.best] - rivals) / np.delete(problem.gaps, problem.best)[:, None]
    A = problem.X.T @ (w[:, None] * problem.X)
    return float(2 * np.max(np.sum(Y * np.linalg.solve(A, Y.T).T, axis=1)))


if __name__ == "__main__":
    main()
