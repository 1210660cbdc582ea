"""Blocks made of plain sums, for tests that know A and b rather than pulls."""

from typing import Any

import numpy as np

from surepick.core.betting.block import Block


def block_of(A: Any, b: Any, theta0: Any = None, A0_inv: Any = None) -> Block:
    """Return the block with information A and moments b = sum r x; before it theta was known as well as by A0_inv."""
    A, b = np.asarray(A, dtype=float), np.asarray(b, dtype=float)
    theta0 = np.zeros(len(b)) if theta0 is None else np.asarray(theta0, dtype=float)
    A0_inv = np.eye(len(b)) if A0_inv is None else np.asarray(A0_inv, dtype=float)
    return Block(A, b - A @ theta0, theta0, A0_inv)
