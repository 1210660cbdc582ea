"""What the checks of rows and of vectors share: seeded parameters and factors, rewards, refusals."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from surepick.core.linalg import Array
from surepick.errors import InvalidInput


class Truth(Protocol):
    """A set with a parameter, from which rewards can be drawn."""

    @property
    def theta(self) -> Array:
        """The parameter (d,)."""
        ...

    @property
    def noise_std(self) -> float:
        """Noise of one reward."""
        ...

    def row_of(self, arm: Any) -> Array:
        """Return the features (d,) of an arm, as learners name it."""
        ...


def make_pull(truth: Truth, *, seed: int) -> Callable[[Any], float]:
    """Return a function that measures arms with seeded Gaussian noise."""
    rng = np.random.default_rng(seed)
    return lambda arm: float(truth.theta @ truth.row_of(arm) + truth.noise_std * rng.standard_normal())


def factor_of(dim: int, *, condition: float, rng: np.random.Generator) -> Array:
    """Return F (d, d) with singular values from 1 down to 1/condition, in random directions."""
    left, right = (np.linalg.qr(rng.standard_normal((dim, dim)))[0] for _ in range(2))
    spread = np.geomspace(1.0, 1.0 / condition, dim)
    made: Array = (left * spread) @ right.T
    return made


def must_refuse(call: Callable[[], object], what: str) -> None:
    """Assert that a call raises `InvalidInput`."""
    try:
        call()
    except InvalidInput:
        return
    except Exception as error:
        raise AssertionError(f"{what} must raise InvalidInput, raised {type(error).__name__}: {error}") from error
    raise AssertionError(f"{what} must raise InvalidInput, but was accepted")


def as_numbers(arm: Any) -> tuple[float, ...]:
    """Return an arm, a row number or a vector, as a tuple."""
    return tuple(np.atleast_1d(np.asarray(arm, dtype=np.float64)).tolist())
