"""The estimate of every arm, with intervals that hold for all arms and all times together.

Notation: x (d,) an arm; theta (d,) least squares; A (d, d) information; kappa_j and p_j the default mixture of
`core.evidence`, with V the identity of whitened coordinates; q1 = x'A^-1 x; q2 = |A^-1 x|^2.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from surepick.arms.base import Groups
from surepick.arms.views import ArmView, as_rows
from surepick.core.betting.bets import root_of
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture, loss_bound
from surepick.core.linalg import one_blas_thread, square_norms
from surepick.core.noise import noise_to_assume
from surepick.core.posterior import t_factor
from surepick.learning.outlook import Fit
from surepick.types import Array, IntArray


@final
@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Estimated mean reward of every row of a set, or of some arms of it, each with a confidence interval."""

    names: tuple[str, ...] | None
    estimate: Array
    """NaN until the pulled arms span the space."""
    low: Array
    high: Array
    listed: tuple[Any, ...] | None = None
    """Which arms these are, row numbers or vectors as tuples; None: all rows, in order."""
    margin: Array | None = None
    """Half the interval of the true distance to the leader (`margins_of`); 0 for the leader and its copies, inf while
    nothing is known; None where the leader is not in the table."""
    alike: Groups = ()
    """Groups of rows with the same features; empty for arms on a cluster."""
    likely_low: Array | None = None
    likely_high: Array | None = None
    """Interval of each mean alone, at this time alone, at about 95 % (`likely_of`): an estimate, not a guarantee; None
    while the noise is unknown."""

    def __post_init__(self) -> None:
        for array in (self.estimate, self.low, self.high, self.margin, self.likely_low, self.likely_high):
            if array is not None:
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
        """Return the rank of every row by its estimate, 1 for the largest; ties go to the lower row."""
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
        noise_std: sub-Gaussian scale of one reward's noise; None: an upper bound at half of delta is used.
        only: list these arms alone, by number; needed where the arms of a set cannot all be listed.

    Cost: one pass over the rows, O(K d^2).
    """
    names = view.names
    if only is not None:
        names = None if names is None else tuple(names[number] for number in only)
    listed = None if only is None else tuple(view.key_of(number) for number in only)
    n_rows, onto, chunks = _pieces(view, only)
    if not estimate.has_theta:
        return Estimates(names, np.full(n_rows, np.nan), np.full(n_rows, -np.inf), np.full(n_rows, np.inf), listed)
    theta = onto @ estimate.theta
    half_widths = _half_widths(estimate, onto, delta=delta, noise_std=noise_std)
    means, widths = np.empty(n_rows), np.empty(n_rows)
    for start, chunk in chunks:
        here = slice(start, start + len(chunk))
        # Not BLAS, which may round equal rows differently: copies of an arm must have one estimate.
        means[here] = np.einsum("ij,j->i", chunk, theta)
        widths[here] = half_widths(chunk)
    low = means - widths
    return Estimates(names, means, low, np.add(means, widths, out=widths), listed)


@one_blas_thread
def likely_of(
    view: ArmView, fit: Fit, *, only: Sequence[int] | None = None, reward_range: tuple[float, float] | None = None
) -> tuple[Array, Array]:
    """Return intervals x'theta -+ t_nu S sqrt(x'A^-1 x) of single means, at one time, at about 95 %, cut to the range.

    Of the arms measured, chosen as the design wants, 93 to 97 % are covered; the leader's own mean less often, 81 to
    97 %, because it leads partly by luck. `docs/before-the-verdict.md`.
    """
    n_rows, onto, chunks = _pieces(view, only)
    theta, root = onto @ fit.theta, onto @ root_of(fit.A_inv)
    means, half = np.empty(n_rows), np.empty(n_rows)
    for start, chunk in chunks:
        here = slice(start, start + len(chunk))
        means[here] = chunk @ theta
        half[here] = np.sqrt(square_norms(chunk @ root))
    half *= t_factor(fit.nu) * math.sqrt(fit.variance)
    least, most = (-math.inf, math.inf) if reward_range is None else reward_range
    return np.clip(means - half, least, most), np.clip(means + half, least, most)


@one_blas_thread
def coefficient_margins(view: ArmView, estimate: LeastSquares, *, delta: float, noise_std: float | None) -> Array:
    """Return how far each true coefficient (d,), in the user's features, can be from its estimate.

    By the event of `estimates_of`, hence together with all intervals there: a coefficient is a linear form of theta.
    """
    return _half_widths(estimate, np.eye(view.dim), delta=delta, noise_std=noise_std)(view.map)


@one_blas_thread
def margins_of(
    view: ArmView,
    estimate: LeastSquares,
    leader: int,
    *,
    delta: float,
    noise_std: float | None,
    only: Sequence[int] | None = None,
) -> Array:
    """Return the largest error of the leader's estimated lead over each candidate, for all candidates and all times.

    From the whole mixture of `core.evidence`, so that the largest of margin - lead is `Learner.epsilon_bound`.
    Arguments and cost as in `estimates_of`.
    """
    n_rows, onto, chunks = _pieces(view, only)
    noise_std, delta = noise_to_assume(estimate, noise_std, delta)
    factor = onto @ estimate.factor()
    inverse = factor @ estimate.factor().T
    own = as_rows(view).arms.gather([leader]) if only is None else view.gather([leader])
    mixture, margins = Mixture.default(), np.full(n_rows, np.inf)
    for start, chunk in chunks:
        y, here = own - chunk, margins[start : start + len(chunk)]
        if math.isfinite(noise_std):
            q1, q2, logdets = square_norms(y @ factor), square_norms(y @ inverse), mixture.logdets(estimate.A)
            no_gap = np.zeros(len(chunk))
            here[:] = loss_bound(no_gap, q1, q2, logdets, mixture=mixture, noise_std=noise_std, delta=delta)
        here[~y.any(axis=1)] = 0.0
    return margins


def _pieces(view: ArmView, only: Sequence[int] | None) -> tuple[int, Array, Iterable[tuple[int, Array]]]:
    """Return how many rows there are, the map (d, d) into whitened coordinates, and the rows piece by piece."""
    if only is not None:
        return len(only), np.eye(view.dim), [(0, view.gather(only))]
    rows = as_rows(view)
    return rows.n_arms, rows.map, rows.arms.chunks()


def _half_widths(
    estimate: LeastSquares, onto: Array, *, delta: float, noise_std: float | None
) -> Callable[[Array], Array]:
    """Return the formula of `estimates_of` as a function of rows (n, d) that `onto` maps into whitened coordinates."""
    mixture = Mixture.default()
    noise_std, delta = noise_to_assume(estimate, noise_std, delta)
    betas = (math.log(1.0 / delta) - mixture.log_weights + 0.5 * mixture.logdets(estimate.A))[:, np.newaxis]
    kappas = np.array(mixture.kappas)[:, np.newaxis]
    factor = onto @ estimate.factor()
    inverse = factor @ estimate.factor().T

    def half_widths(rows: Array) -> Array:
        q1, q2 = square_norms(rows @ factor), square_norms(rows @ inverse)
        roots: Array = np.sqrt(2.0 * (betas * (q1 + kappas * q2)).min(axis=0))
        # Of a row of zeros the mean is known, whatever the noise.
        return np.multiply(noise_std, roots, out=roots, where=roots > 0.0)

    return half_widths
