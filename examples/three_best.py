"""The three best of eight mixtures: an answer is a sum of three arms, and sums may be compared like arms.

Run it: `python examples/three_best.py`. The sum of the three best is the best sum, so the best candidate names them.
"""

from itertools import combinations

import numpy as np

import surepick as sp

M = 3
rng = np.random.default_rng(0)
mixtures = rng.standard_normal((8, 4))
effects = np.array([1.0, -0.5, 0.8, 0.3])


def measure(row: int) -> float:
    """Stand in for an experiment with noise of standard deviation 0.3."""
    return float(mixtures[row] @ effects + 0.3 * rng.standard_normal())


def main() -> tuple[int, ...]:
    """Find the three best, and say how sure that is."""
    triples = list(combinations(range(len(mixtures)), M))
    sums = np.array([mixtures[list(triple)].sum(axis=0) for triple in triples])
    result = sp.identify(mixtures, measure, candidates=sums, noise_std=0.3, delta=0.05)
    best: tuple[int, ...] = triples[result.best]
    found = f"The {M} best of {len(mixtures)} mixtures are {best}"
    print(f"{found}, after {result.n_pulls} measurements ({result.guarantee}).")
    return best


if __name__ == "__main__":
    main()
