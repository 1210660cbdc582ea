"""A noise model of your own in one file: Laplace noise of known scale b, with bets that are proved.

Inequality: Laplace noise e of scale b has E exp(s e) = 1/(1 - s^2 b^2) for |s| b < 1. A block measures a difference
D = theta'y by z = sum c_i r_i, where the weights c_i of its results are fixed before the first of them. For every
stake lam >= 0 with lam b max|c_i| < 1, which the past fixes too,

    E exp(lam z) prod_i (1 - lam^2 b^2 c_i^2) = exp(lam D) <= 1        if D <= 0,

so the product is a fair bet against "D <= 0". The model bets the average of three such products.
"""

from typing import Any, final

import numpy as np

import surepick as sp
from surepick.core.betting.block import Block, BlockFit
from surepick.learning.noise_models import NoiseModel
from surepick.stopping import Rule
from surepick.testing import check_noise_model
from surepick.types import Array, IntArray


@final
class Laplace(NoiseModel):
    """Laplace noise of scale b, of standard deviation sqrt(2) b."""

    name = "laplace"
    needs_bets = True  # its tails are too heavy for rules and intervals that are made for sub-Gaussian noise
    is_normal = False
    takes_scale = True  # noise="laplace", noise_std=scale would spell it

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def options(self) -> dict[str, Any]:
        """Spelled by its name and its scale."""
        return {"noise": self.name, "noise_std": self.scale}

    def draw(self, rng: np.random.Generator, means: Array, arms: IntArray, level: float | Array = 1.0) -> Array:
        """Draw rewards, for simulations."""
        return rng.laplace(means, self.scale)

    def law(self, rule: Rule) -> str:
        """Return what is assumed, after "the noise of one measurement"."""
        return f"follows a Laplace law of scale {self.scale:g}"

    def bet(self, block: Block, fit: BlockFit) -> "LaplaceBets":
        """Return the bets on a block."""
        return LaplaceBets(block, fit, self.scale)


class LaplaceBets:
    """The bets on one block."""

    def __init__(self, block: Block, fit: BlockFit, scale: float) -> None:
        assert block.pulls is not None
        rows, self.counts = np.unique(block.pulls[0], axis=0, return_counts=True)
        weights = fit.root @ fit.root.T @ rows.T  # (d, S): a result of arm a has the weight c_a = weights[:, a]'y
        self.vectors, self.scale, self.noise_std = [fit.theta, *weights.T], scale, 2.0**0.5 * scale

    def log_returns(self, products: Array, q: Array, m: Array, s2: Array, rest: Array) -> Array:
        """Return the log of what a unit returns (n,), from z and b c_a for every candidate."""
        z, c, variance = products[0], self.scale * products[1:], self.noise_std**2 * q
        believed = np.maximum(m + np.sqrt(s2) * np.array([[-1.0], [0.0], [1.0]]), 0.0)
        most = 0.9 / np.maximum(np.abs(c).max(axis=0), 1e-300)
        stakes = np.minimum(np.minimum(believed, np.sqrt(2.0 * variance * rest)) / variance, most)
        price = np.tensordot(np.log1p(-((stakes[:, None] * c) ** 2)), self.counts, axes=(1, 0))
        return np.asarray(np.logaddexp.reduce(stakes * z + price) - np.log(len(stakes)))


if __name__ == "__main__":
    check_noise_model(Laplace(0.3))
    arms, rng = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]]), np.random.default_rng(1)
    found = sp.identify(arms, lambda arm: arms[arm] @ [0.6, 0.5] + rng.laplace(scale=0.3), noise=Laplace(0.3))
    print(found.explain())
