"""The estimate of every arm, with intervals that hold for all arms and all times together.

Notation: x (d,) an arm; theta (d,) least squares; A (d, d) information; kappa_j and p_j the default mixture of
`core.evidence`, with V the identity of whitened coordinates; q1 = x'A^-1 x; q2 = |A^-1 x|^2.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from surepick.arms.alike import Groups
from surepick.arms.view import ArmView, as_rows
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture
from surepick.core.linalg import Array, IntArray, one_blas_thread
from surepick.core.noise import noise_to_assume
from surepick.core.rows import square_norms


@final
@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Estimated mean reward of every row of a set, or of some arms of it, with an interval around each; arrays."""

    names: tuple[str, ...] | None
    estimate: Array
    """NaN until the pulled arms span the space."""
    low: Array
    high: Array
    listed: tuple[Any, ...] | None = None
    """Which arms these are, row numbers or vectors as tuples; None: all rows, in order."""
    alike: Groups = ()
    """Groups of rows with the same features; not known of arms on a cluster."""

    def __post_init__(self) -> None:
        for array in (self.estimate, self.low, self.high):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.estimate)

    @property
    def keys(self) -> Sequence[Any]:
        """Which arms these are: row numbers, or vectors as tuples."""
        return range(len(self)) if self.listed is None else self.listed

    def group_of(self, row: int) -> tuple[int, ...]:
        """Return the rows with the features of this one, itself included."""
        return next((group for group in self.alike if row in group), (row,))

    def rank(self) -> IntArray:
        """Return the place of every row by its estimate, 1 for the largest; of equals the lower row first."""
        return 1 + np.argsort(np.argsort(-self.estimate, kind="stable"))


@one_blas_thread
def estimates_of(
    view: ArmView, estimate: LeastSquares, *, delta: float, noise_std: float | None, only: Sequence[int] | None = None
) -> Estimates:
    """Return the estimate of every row with intervals that hold for all rows and all times together.

    With probability 1 - delta, at every time and for every x,

        |theta'x - true theta'x| <= min over j of sqrt(2 noise_std^2 beta_j (q1 + kappa_j q2)),
        beta_j = log(1/delta) - log p_j + log det(I + A/kappa_j) / 2.

    Proof: with S = A(theta - true theta), Ville's inequality keeps the mixture of `core.evidence` below 1/delta for
    ever, so each of its terms says S'(A + kappa_j)^-1 S <= 2 noise_std^2 beta_j; and by Cauchy-Schwarz
    (x'A^-1 S)^2 <= S'(A + kappa_j)^-1 S * x'A^-1 (A + kappa_j) A^-1 x, where the last factor is q1 + kappa_j q2.

    Args:
        view: arms or candidates, in the whitened coordinates of `estimate`.
        estimate: least squares in whitened coordinates.
        delta: risk that some interval, at some time, misses.
        noise_std: sub-Gaussian scale of one reward's noise; None: what half of delta allows it to be.
        only: list these arms alone, by number; needed where the arms of a set cannot all be listed.

    Cost: one pass over the rows, O(K d^2).
    """
    names = view.names
    if only is None:
        rows = as_rows(view)
        n_rows, listed, onto = rows.n_arms, None, rows.map
        chunks: Iterable[tuple[int, Array]] = rows.arms.chunks()
    else:
        names = None if names is None else tuple(names[number] for number in only)
        n_rows, listed = len(only), tuple(view.key_of(number) for number in only)
        chunks, onto = [(0, view.gather(only))], np.eye(view.dim)
    if not estimate.has_theta:
        return Estimates(names, np.full(n_rows, np.nan), np.full(n_rows, -np.inf), np.full(n_rows, np.inf), listed)
    mixture = Mixture.default()
    noise_std, delta = noise_to_assume(estimate, noise_std, delta)
    betas = (math.log(1.0 / delta) - mixture.log_weights + 0.5 * mixture.logdets(estimate.A))[:, np.newaxis]
    kappas = np.array(mixture.kappas)[:, np.newaxis]
    theta, factor = onto @ estimate.theta, onto @ estimate.factor()
    inverse = factor @ estimate.factor().T
    means, widths = np.empty(n_rows), np.empty(n_rows)
    for start, chunk in chunks:
        here = slice(start, start + len(chunk))
        # Not BLAS, which may round equal rows differently: copies of an arm must have one estimate.
        means[here] = np.einsum("ij,j->i", chunk, theta)
        q1, q2 = square_norms(chunk @ factor), square_norms(chunk @ inverse)
        best = (betas * (q1 + kappas * q2)).min(axis=0)
        widths[here] = noise_std * np.sqrt(2.0 * best)
    low = means - widths
    return Estimates(names, means, low, np.add(means, widths, out=widths), listed)
