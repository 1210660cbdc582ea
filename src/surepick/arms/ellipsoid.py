"""The solid ellipsoid as a set of arms, by way of the unit sphere.

Notation: as in `surepick.arms.base`; arms m + L u with |u| <= 1, m (d,) the centre, L (d, d) the axes. In the
coordinates of u the parameter is L'theta and A^-1 is L'A^-1 L, that is L'F: the centre cancels in a - b. Both the best
arm and the most confusing one are on the surface, so the sphere answers for the solid body.
"""

import math
import warnings
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from surepick.arms.base import HardestRival, NamedSet
from surepick.arms.sphere import check_slack, tangents
from surepick.arms.sphere_oracle import most_confusing, unit_and_norm
from surepick.arms.tables.sources import refusing
from surepick.core.checks import check_features, check_matrix, check_vector
from surepick.core.linalg import independent_columns, one_blas_thread
from surepick.errors import ArmsDoNotSpan, InvalidInput
from surepick.types import Array


@final
class Ellipsoid(NamedSet):
    """All vectors center + axes @ u with |u| <= 1, in R^d with d >= 2; axes = r I is the ball of radius r.

    Args:
        center: the centre (d,).
        axes: a non-singular matrix (d, d); its columns need not be orthogonal.

    Raises:
        InvalidInput: a shape is wrong, d is below 2, the ellipsoid is flat, or numbers cannot be squared.
        ArmsDoNotSpan: the centre is so far away that all arms are parallel to rounding.

    >>> ball = Ellipsoid([1.0, 0.0], 2.0 * np.eye(2))
    >>> ball.best(np.array([0.0, 5.0]))
    array([1., 2.])
    """

    kind = "ellipsoid"
    parameters = ("center", "axes")
    needs_slack = True
    """Arms can be arbitrarily close to the best one."""

    def __init__(self, center: Any, axes: Any) -> None:
        self.axes = check_matrix("axes", axes)
        self.dim = len(self.axes)
        if self.axes.shape != (self.dim, self.dim) or self.dim < 2:
            raise InvalidInput(
                f"`axes` must be a square table with at least 2 rows, got shape {self.axes.shape}; its columns are the "
                "axes of the ellipsoid. In one dimension only the two ends of the segment matter: list them as arms."
            )
        self.description = f"the ellipsoid in R^{self.dim}"
        check_features(self.axes.T)
        self.center = check_vector("center", center, self.dim)
        rank = len(independent_columns(self.axes.T))
        if rank < self.dim:
            raise InvalidInput(
                f"`axes` must be non-singular, got rank {rank} instead of {self.dim}; the ellipsoid is flat: reduce "
                "the dimension first, to coordinates within its span."
            )
        self._cycle = self._e_optimal()
        if len(independent_columns(self._cycle)) < self.dim:
            raise ArmsDoNotSpan(
                "the arms of the ellipsoid do not span the feature space to rounding: its centre is too far from 0 "
                "compared with its axes; check the units of `center` and `axes`, or use fewer features."
            )

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the ellipsoid of a .csv or .npy file of numbers: the centre first, the axes below."""
        path = Path(text)
        with refusing("cannot read", path), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "loadtxt: input contained no data")  # its shape is refused below
            rows: Any = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",")
        if rows.dtype.kind not in "biuf":
            raise InvalidInput(f"{path} must hold real numbers, got {rows.dtype}; convert them before saving.")
        if rows.ndim != 2 or rows.shape[0] != rows.shape[1] + 1:
            raise InvalidInput(
                f"{path} must have the centre in its first line and the d x d axes below it, one more line than "
                f"columns; got shape {rows.shape}."
            )
        return cls(rows[0], rows[1:])

    def __repr__(self) -> str:
        return f"Ellipsoid({self.center.tolist()}, {self.axes.tolist()})"

    @one_blas_thread
    def best(self, theta: Array) -> Array:
        """Return m + L L'theta/|L'theta|, or m plus the first axis if theta is 0."""
        return self._arm(unit_and_norm(self.axes.T @ theta)[0])

    @one_blas_thread
    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """Return Z', exact unless theta is 0, when it is put at 0.

        L'F is rounded to about 1e-16 times the condition number of L, relatively, and Z' with it.

        Raises:
            InvalidInput: epsilon is not above 0.
        """
        slack = check_slack(epsilon, self.description)
        found = most_confusing(self.axes.T @ theta, self.axes.T @ F, slack)
        return HardestRival(found.value, found.value > 0.0, self._arm(found.rival))

    def cycle(self, number: int, seed: int) -> Array:
        """Return the arms of the E-optimal design, the same in every round: d axes, or 2(d - 1) arms if m is not 0.

        It makes the smallest eigenvalue of A per pull, in the coordinates of u, as large as any design can.
        """
        return self._cycle.copy()

    def checked(self, arm: Any) -> Array:
        """Return the arm as it is.

        Raises:
            InvalidInput: it is outside the ellipsoid by more than 1e-6 of its radius and more than rounding.
        """
        vector = check_vector("arm", arm, self.dim)
        radius = unit_and_norm(self._white(vector - self.center))[1]
        # The entries of an arm are known to rounding, which thin axes magnify.
        size = np.abs(self.center) + np.abs(self.axes).sum(axis=1)
        rounding = unit_and_norm(np.abs(np.linalg.inv(self.axes)) @ size)[1] * 4.0 * self.dim * np.finfo(float).eps
        if radius > 1.0 + 1e-6 + rounding:
            raise InvalidInput(
                f"`arm` must be inside {self.description}, got one at {radius:g} times the distance of its surface "
                "from the centre; move it towards the centre by that factor."
            )
        return vector

    def _arm(self, u: Array) -> Array:
        return self.center + self.axes @ u

    def _white(self, vector: Array) -> Array:
        """Return L^-1 vector; by solving, since an explicit inverse would square the condition number of L."""
        return np.asarray(np.linalg.solve(self.axes, vector), dtype=np.float64)

    def _e_optimal(self) -> Array:
        """Return the arms of one round.

        With l = |L^-1 m| and unit n along L^-1 m, they are u = c n +- sqrt(1 - c^2) v for v in a basis orthogonal to n.
        Per pull A is (l + c)^2 along n and (1 - c^2)/(d - 1) across; c = 0 once the first is large enough, else c makes
        the two equal.
        """
        if not self.center.any():
            return np.ascontiguousarray(self.axes.T)
        n, length = unit_and_norm(self._white(self.center))
        k = self.dim - 1
        lean = 0.0
        if length * length * k < 1.0:
            lean = (math.sqrt(self.dim - k * length * length) - length * k) / self.dim
        across = math.sqrt(1.0 - lean * lean) * tangents(n)
        u = lean * n + np.vstack([across, -across])
        return self.center + u @ self.axes.T
