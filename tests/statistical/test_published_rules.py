"""Rules that published algorithms bring along, counted on many paths at once like the rules of the core.

Each gate: `N_PATHS` paths at delta = .3 on near-ties. An error is a wrong leader that ever passes its threshold against
the best arm. The count of a rule that keeps delta exceeds `error_limit()` with probability at most 1e-6 (exact
binomial).
"""

import numpy as np
import pytest

from surepick.core.estimate import LeastSquares
from surepick.core.thresholds import RidgeThreshold, Threshold, UnionThreshold
from surepick.stopping.phases import Phases
from surepick.types import Array
from tests.blocks import block_of
from tests.statistical.paths import DELTA, N_PATHS, Instance, error_limit, is_settled
from tests.tasks import task_of

pytestmark = pytest.mark.statistical

BETWEEN_TWO = Instance.arc(lead=0.02)


def errors_in_turn(instance: Instance, threshold: Threshold, *, n_rounds: int, seed: int) -> int:
    """Every arm in turn, whatever comes; the rule is looked at after every round."""
    rng = np.random.default_rng(seed)
    X, K = instance.X, len(instance.X)
    b = np.zeros((N_PATHS, X.shape[1]))
    inverse = np.linalg.inv(X.T @ X)
    Y = X[:, None, :] - X[None, :, :]
    q = np.einsum("abi,ij,abj->ab", Y, inverse, Y)[:, instance.best]
    has_lied = np.zeros(N_PATHS, dtype=bool)
    for n in range(1, n_rounds + 1):
        b += (instance.means + rng.standard_normal((N_PATHS, K))) @ X
        values = (b @ inverse / n) @ X.T
        leader = values.argmax(axis=1)
        gap = values[np.arange(N_PATHS), leader] - values[:, instance.best]
        level = float(threshold(n_pulls=n * K, dim=X.shape[1], logdet=0.0, delta=DELTA, noise_std=1.0))
        is_wrong = leader != instance.best
        has_lied[is_wrong] |= n * gap[is_wrong] ** 2 / (2.0 * q[leader[is_wrong]]) > level
    return int(has_lied.sum())


def test_the_union_rule_keeps_delta_for_fixed_pulls_and_needs_its_union_over_times() -> None:
    """Proved constants and published ones pass; a bound for a single time fails."""
    proved = UnionThreshold(name="union", n_tests=2)
    published = UnionThreshold(name="soare", n_tests=9, scale=4.0, factor=6.0 / np.pi**2)

    class OneTime(Threshold):
        def value(self, t: Array, dim: int, logdet: Array, *, delta: float, noise_std: float) -> Array:
            return np.full_like(t, np.log(1.0 / delta))

    assert errors_in_turn(BETWEEN_TWO, proved, n_rounds=500, seed=71) <= error_limit()
    assert errors_in_turn(BETWEEN_TWO, published, n_rounds=500, seed=71) <= error_limit()
    assert errors_in_turn(BETWEEN_TWO, OneTime(name="one time"), n_rounds=500, seed=71) > error_limit()


@pytest.mark.parametrize("is_bounded", [True, False])
def test_the_ridge_rule_keeps_delta_and_needs_its_growth(is_bounded: bool) -> None:
    """Sampling that follows the estimates, ridge 1, the true norm as bound; without the growth it fails."""
    instance, ridge = BETWEEN_TWO, 1.0
    X, d = instance.X, instance.X.shape[1]
    largest = float(np.linalg.norm(X, axis=1).max()) if is_bounded else None
    threshold = RidgeThreshold(
        name="ridge", ridge=ridge, norm_bound=float(np.linalg.norm(instance.theta)), largest_norm=largest
    )
    rng, rows = np.random.default_rng(72), np.arange(N_PATHS)
    A = np.broadcast_to(ridge * np.eye(d), (N_PATHS, d, d)).copy()
    b = np.zeros((N_PATHS, d))
    lied = {"ridge": np.zeros(N_PATHS, dtype=bool), "no growth": np.zeros(N_PATHS, dtype=bool)}
    for n in range(1, 401):
        inverse = np.linalg.inv(A)
        theta = (inverse @ b[:, :, None])[:, :, 0]
        values = theta @ X.T
        leader = values.argmax(axis=1)
        Y = X[leader][:, None, :] - X
        U = Y @ inverse
        q = np.maximum((U * Y).sum(axis=2), 1e-300)
        gap = (Y @ theta[:, :, None])[:, :, 0]
        level = threshold(n_pulls=n, dim=d, logdet=np.linalg.slogdet(A / ridge)[1], delta=DELTA, noise_std=1.0)
        statistic = gap[:, instance.best] ** 2 / (2.0 * q[:, instance.best])
        is_wrong = leader != instance.best
        lied["ridge"] |= is_wrong & (statistic > level)
        lied["no growth"] |= is_wrong & (statistic > np.log(1.0 / DELTA))
        score = np.where(np.arange(len(X)) == leader[:, None], np.inf, gap / np.sqrt(q))
        arm = np.abs(U[rows, score.argmin(axis=1)] @ X.T).argmax(axis=1)
        x = X[arm]
        b += (instance.means[arm] + rng.standard_normal(N_PATHS))[:, None] * x
        A += x[:, :, None] * x[:, None, :]
    assert lied["ridge"].sum() <= error_limit()
    assert lied["no growth"].sum() > error_limit()


def test_elimination_by_phases_keeps_delta_on_fresh_results() -> None:
    """Three phases of growing length judged by their own results; the best arm is rarely rejected."""
    instance, n_runs = Instance.arc(lead=0.05), 1500
    task, X = task_of(instance.X, delta=DELTA), instance.X
    rng, wrong = np.random.default_rng(73), 0
    # Two arms can beat the best one in each of the phases whose risks are delta/(j (j+1)).
    rule = Phases(price=lambda j: float(np.log(2 * j * (j + 1) / DELTA)))
    # Names the leader between phases and decides nothing, so that one estimate serves all runs.
    estimate = LeastSquares(X.shape[1])
    estimate.update_many(X, instance.means)
    for run in range(n_runs):
        state = rule.start(task)
        for length in (6, 30, 150):
            chosen = np.resize(np.union1d(state.left, [0, 1]), length)
            rewards = instance.means[chosen] + rng.standard_normal(length)
            if state.after_block(estimate, block_of(X[chosen].T @ X[chosen], rewards @ X[chosen])).stopped:
                break
        wrong += instance.best not in state.left
        if is_settled(wrong, run + 1, n_runs, error_limit(n_runs)):
            break
    assert 0 < wrong <= error_limit(n_runs)
