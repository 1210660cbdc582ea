"""The challenger: the candidate to which the leader may be losing most.

Notation: theta, A (d, d) estimate and information in whitened coordinates, where the evidence mixture has V = I.
"""

import numpy as np

from surepick.core.arms import ArmSet, Rivals
from surepick.core.evidence import Mixture, loss_bound
from surepick.core.linalg import Array, BoolArray, cholesky, solve_lower


def largest_loss_bound(
    candidates: ArmSet,
    leader: int,
    theta: Array,
    A: Array,
    *,
    delta: float,
    noise_std: float,
    among: BoolArray | None = None,
) -> tuple[int, float]:
    """Return the rival with the largest upper confidence bound on what the leader loses to it, and the bound.

    All bounds hold together, at all times, with probability 1 - delta, if theta and A are those of the results so far;
    they are below 0 for every rival exactly when the evidence rule stops. One pass over the candidates. The rival is
    -1 and the bound -inf if the leader has no rivals left.
    """
    mixture = Mixture.default()
    spread = np.linalg.eigvalsh(A)
    logdets = np.log1p(np.maximum(spread, 0.0)[None, :] / mixture.scales[:, None]).sum(axis=1)

    def least_certain(gap: Array, q1: Array, q2: Array) -> Array:
        return -loss_bound(gap, q1, q2, logdets, mixture=mixture, noise_std=noise_std, delta=delta)

    factor = solve_lower(cholesky(A), np.eye(len(A))).T
    found: Rivals = candidates.rivals(leader, theta, [factor, factor @ factor.T], least_certain, 1, among)
    return (int(found.index[0]), -float(found.score[0])) if len(found.index) else (-1, -np.inf)
