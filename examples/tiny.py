"""Lazy Track-and-Stop in one file: find the arm x with the largest theta'x from noisy rewards.

Algorithm 1 of Jedra and Proutiere, "Optimal Best-arm Identification in Linear Bandits" (2020), with the
constants of its appendix A. Written to be read top to bottom; it prefers a plain formula to a fast one.

    X      (K, d)  the arms, one per row, all different, spanning R^d
    theta  (d,)    what we do not know; a pull of arm k pays theta'X[k] + noise
    A      (d, d)  information: sum of x x' over the pulls made, or over arms weighted by a design
    N, w   (K,)    pulls per arm; a design, i.e. the proportions in which to pull the arms
"""

import numpy as np


def identify(X, pull, delta, noise_std=1.0, *, rng):
    """Return (best arm, pulls per arm, estimate of theta); the arm is wrong with probability <= delta.

    `pull(k)` returns a reward of arm k, its noise sub-Gaussian with parameter `noise_std`. `rng` only chooses
    the arms of the forced exploration: the same generator and the same rewards give the same pulls.
    """
    n_arms, d = X.shape
    A0 = spanning_arms(X, rng)
    c = smallest_eigenvalue(information(X[A0], np.ones(d)))
    A, b, N = np.zeros((d, d)), np.zeros(d), np.zeros(n_arms)
    t = turn = 0
    uniform_on_A0 = np.bincount(A0, minlength=n_arms) / d
    w, W = uniform_on_A0, np.zeros(n_arms)  # the design in force, and the sum of the designs so far

    while True:
        # Sampling: while information is short in some direction take the arms of A0 in turn, else track.
        if t < d or smallest_eigenvalue(A) < c * np.sqrt(t / d):
            arm = A0[turn]
            turn = (turn + 1) % d
        else:
            arm = track(N, W)
        reward = pull(int(arm))
        t, A, b = t + 1, A + np.outer(X[arm], X[arm]), b + reward * X[arm]
        N[arm] += 1

        if t >= d:  # A0 has been pulled once, so A is invertible and A >= c I, as the threshold requires
            theta = np.linalg.solve(A, b)
            best, _, Z = closest_rival(X, theta, A)
            if Z > threshold(A, c, delta, noise_std):
                return best, N.astype(int), theta
            # Laziness: the design, the only costly step, is renewed when t is a power of two, else kept.
            if t & (t - 1) == 0:
                w = optimal_design(X, theta, start=(w + uniform_on_A0) / 2)
        W += w


def spanning_arms(X, rng):
    """Rows of d arms that span R^d: go through the arms in random order, keep each that adds a dimension."""
    chosen: list[int] = []
    for k in rng.permutation(len(X)):
        if np.linalg.matrix_rank(X[[*chosen, k]]) > len(chosen):
            chosen.append(k)
        if len(chosen) == X.shape[1]:
            return np.array(chosen)
    raise ValueError(f"the arms must span R^{X.shape[1]}, but they have rank {len(chosen)}.")


def track(N, W):
    """The arm furthest behind the designs so far; only arms that some design used are considered."""
    support = np.flatnonzero(W)
    return support[np.argmin((N - W)[support])]


def optimal_design(X, theta, start, n_steps=1000):
    """Maximise over designs the evidence per pull against the closest rival, by Frank-Wolfe steps.

    `start` must put weight on arms that span R^d; the steps never remove it entirely, so A stays invertible.
    """
    w = start
    for step in range(n_steps):
        A = information(X, w)
        best, rival, _ = closest_rival(X, theta, A)
        # Per unit of weight, arm x reduces the variance of the estimated gap y'theta by (x'A^-1 y)^2.
        gain = (X @ np.linalg.solve(A, X[best] - X[rival])) ** 2
        w = w + (np.eye(1, len(X), int(np.argmax(gain)))[0] - w) / (step + 2)
    return w


def closest_rival(X, theta, A):
    """Best arm for theta, the arm hardest to tell from it under information A, and their likelihood ratio Z.

    Z = min over rivals of gap^2 / (2 y'A^-1 y) with y = best - rival; the noise level sits in the threshold.
    """
    best = int(np.argmax(X @ theta))
    Y = X[best] - X
    variance = np.sum(Y @ np.linalg.inv(A) * Y, axis=1)
    variance[best] = 1.0  # not a rival: any positive number, its Z is set to infinity below
    Z = (Y @ theta) ** 2 / (2 * variance)
    Z[best] = np.inf
    rival = int(np.argmin(Z))
    return best, rival, Z[rival]


def threshold(A, c, delta, noise_std, u=0.1):
    """What Z must exceed to stop; holds at all times at once, for any sampling rule with A >= c I."""
    logdet = np.linalg.slogdet(np.eye(len(A)) + A / (u * c))[1]
    return (1 + u) * noise_std**2 * (logdet / 2 + np.log(1 / delta))


def information(X, w):
    """A(w) = sum over arms of w_k x_k x_k'."""
    return X.T @ (w[:, None] * X)


def smallest_eigenvalue(A):
    """The information in the direction we know least about."""
    return np.linalg.eigvalsh(A)[0]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    angles = np.r_[0.78 + 0.1 * rng.random(98), 0.0, 3 * np.pi / 4]  # a crowd, the best arm, a telling one
    X, theta = np.c_[np.cos(angles), np.sin(angles)], np.array([1.0, 0.0])
    best, N, _ = identify(X, lambda k: X[k] @ theta + rng.standard_normal(), delta=0.05, rng=rng)
    print(f"arm {best} is best (truth: 98), sure at 95 %: {N.sum()} pulls of {np.sum(N > 0)} arms")
