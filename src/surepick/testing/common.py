"""What the checks of rows and of vectors share: seeded factors, and refusals."""

from collections.abc import Callable

import numpy as np

from surepick.core.linalg import Array
from surepick.errors import InvalidInput


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
