"""The misfit watch: by hand, by dense linear algebra, and the mean of what a block pays under the model."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from surepick.core.linalg import log_chi_mean
from surepick.core.misfit import OFFSET, MisfitWatch, check_pulls, has_slip, log_factors, range_basis
from surepick.core.noise import ArmMeans
from surepick.errors import InvalidInput
from surepick.types import Array, IntArray


def _table(X: Array, counts: Array, means: Array, squares: Array | None = None) -> ArmMeans:
    return ArmMeans(np.arange(len(X)), X, counts, means, np.zeros(len(X)) if squares is None else squares)


def test_a_block_by_hand() -> None:
    """Three arms on a line, one spare direction: u'u = .9, S = 1.6, sigma = 1 or unknown with R = 5, nu = 7."""
    X = np.array([[1.0, -1.0], [1.0, 0.0], [1.0, 1.0]])
    block = _table(X, np.array([4.0, 2.0, 4.0]), np.array([1.0, 0.2, 0.9]), np.array([2.0, 1.0, 2.0]))
    M, D, F = np.zeros((1, 3)), np.full((1, 3), 0.25), np.zeros((1, 3, 1))
    assert log_factors(block, M, D, F, 1.0)[0] == pytest.approx(0.5 * (0.9 - 0.9 / 1.6 - math.log(1.6)), abs=1e-12)
    assert log_factors(block, M, D, F, 1.0)[0] == pytest.approx(-0.066252, abs=1e-6)
    assert log_factors(block, M, D, F, None)[0] == pytest.approx(0.000617, abs=1e-6)


@pytest.mark.parametrize("p", [1, 2, 3, 7, 40, 1000, 100_000])
def test_the_mean_over_lengths(p: int) -> None:
    """Without `be` it is al^(-p/2); with it, what adaptive quadrature finds, for bets that win or lose a lot."""
    al = np.array([1.0, 0.6, 0.05, 1e-3])
    np.testing.assert_allclose(log_chi_mean(p, al, 0.0 * al), -0.5 * p * np.log(al), rtol=1e-9, atol=1e-9)
    if p > 40:
        return
    for a, b in ((1.0, -30.0), (0.5, -2.0), (0.9, 0.3), (0.3, 8.0), (0.02, -1.0), (1.0, 1e-9)):
        mode = (b + math.sqrt(b * b + 4 * a * (p - 1))) / (2 * a)
        top = float(scipy.special.xlogy(p - 1, mode)) - a * mode**2 / 2 + b * mode if mode > 0 else 0.0
        far = max(mode, 0.0) + 12.0 / math.sqrt(a)

        def f(t: float, a: float = a, b: float = b, top: float = top) -> float:
            return math.exp(scipy.special.xlogy(p - 1, t) - a * t * t / 2 + b * t - top)

        points = sorted({min(max(mode, 0.0) + h, far) for h in (0.0, 0.1, 1.0, 5.0)})
        value = scipy.integrate.quad(f, 0.0, far, points=points, limit=500, epsabs=0.0, epsrel=1e-11)[0]
        exact = math.log(value) + top - (p / 2 - 1) * math.log(2.0) - scipy.special.gammaln(p / 2)
        assert log_chi_mean(p, np.array([a]), np.array([b]))[0] == pytest.approx(exact, abs=1e-8)


def test_means_of_blocks_add_up_to_the_means_of_all() -> None:
    """Arms come back, new ones come in between; large rewards do not drown the pure error."""
    rng = np.random.default_rng(1)
    arms, X = rng.integers(0, 9, 60), rng.standard_normal((9, 2))
    rewards = 1e6 + rng.standard_normal(60)
    past = ArmMeans.none(2)
    for part in (slice(0, 7), slice(7, 8), slice(8, 40), slice(40, 60)):
        past = past.merged(ArmMeans.of(arms[part], X[arms[part]], rewards[part]))
    whole = ArmMeans.of(arms, X[arms], rewards)
    for name in ("arms", "X", "counts", "means", "squares"):
        np.testing.assert_allclose(getattr(past, name), getattr(whole, name), rtol=1e-8, err_msg=name)
    assert past.n_repeats == 60 - len(np.unique(arms))
    counts, means = whole.look_up(np.array([3, 99]))
    assert (counts[0], means[0]) == ((arms == 3).sum(), pytest.approx(rewards[arms == 3].mean()))
    assert (counts[1], means[1]) == (0.0, 0.0)


def _dense(block: ArmMeans, past: ArmMeans, prior: Array, scale: float, noise_std: float | None) -> float:
    """Log E with every matrix written out; prior (n, n) of the misfits of arms 0 to n - 1."""
    V = prior[np.ix_(past.arms, past.arms)] + np.diag(1.0 / past.counts)
    K = prior[np.ix_(block.arms, past.arms)]
    V_inv = np.linalg.inv(V)
    P = V_inv - V_inv @ past.X @ np.linalg.pinv(past.X.T @ V_inv @ past.X) @ past.X.T @ V_inv
    M, C = K @ P @ past.means / scale, prior[np.ix_(block.arms, block.arms)] - K @ P @ K.T
    W = np.diag(np.sqrt(block.counts))
    N = scipy.linalg.null_space((W @ block.X).T)
    H = N.T @ W
    u, mu, S = H @ block.means, H @ M, np.eye(N.shape[1]) + H @ C @ H.T
    if not len(u):
        return 0.0
    log_det, S_inv = np.linalg.slogdet(S)[1], np.linalg.inv(S)
    if noise_std is not None:
        u = u / noise_std
        return float(-log_det / 2 - (u - mu) @ S_inv @ (u - mu) / 2 + u @ u / 2)
    R, p = block.squares.sum(), len(u) + block.n_repeats
    al, be = (u @ S_inv @ u + R) / (u @ u + R), u @ S_inv @ mu / math.sqrt(u @ u + R)
    return float(-log_det / 2 - mu @ S_inv @ mu / 2 + log_chi_mean(p, np.array([al]), np.array([be]))[0])


def _blocks(n_arms: int, seed: int) -> Iterator[IntArray]:
    """One arm, few arms, many pulls of few, all arms once."""
    rng = np.random.default_rng(seed)
    yield np.array([2, 2, 2])
    yield rng.integers(0, 5, 6)
    yield rng.integers(0, n_arms, 9)
    yield rng.integers(0, 6, 60)
    yield rng.permutation(n_arms)
    yield rng.integers(0, n_arms, 40)


@pytest.mark.parametrize("has_constant", [True, False])
@pytest.mark.parametrize("noise_std", [0.3, None])
def test_fast_is_dense(noise_std: float | None, has_constant: bool) -> None:
    """Sums instead of all past arms, QR instead of a basis of the complement: the same evidence block by block.

    Arms 0 and 1 have the same row, arm 3 the zero row, the first blocks do not span, and arms are new in late blocks.
    """
    rng = np.random.default_rng(5)
    X = rng.standard_normal((14, 4))
    X[1], X[3] = X[0], 0.0
    taus = MisfitWatch(4, noise_std, has_constant=has_constant).taus
    priors = [tau**2 * np.eye(14) for tau in taus] + ([] if has_constant else [np.full((14, 14), OFFSET**2)])
    n = len(taus)
    shares = np.full(n, 1 / n) if has_constant else np.array([*[0.5 / n] * n, 0.5])
    watch, logs = MisfitWatch(4, noise_std, has_constant=has_constant), np.zeros(len(priors))
    n_bets = 0
    for arms in _blocks(14, seed=6):
        rewards = X[arms] @ [1.0, -2.0, 0.5, 3.0] + 0.2 + 0.1 * np.cos(arms) + 0.3 * rng.standard_normal(len(arms))
        watch._learn()
        block, past = ArmMeans.of(arms, X[arms], rewards), watch.past
        theta = np.linalg.pinv(watch._A[0, :4, :4]) @ watch._b[0, :4]
        scale = watch._noise_scale(theta, np.linalg.matrix_rank(past.X)) if len(past.arms) else math.inf
        added = [_dense(block, past, prior, scale, noise_std) for prior in priors]
        logs += added
        n_bets += any(added)
        watch.settle(arms, X[arms], rewards)
        assert watch.log_evidence == pytest.approx(np.log(shares @ np.exp(logs)), abs=1e-9)
    assert n_bets >= 4


def test_the_noise_of_the_bets_is_that_of_repeats_if_there_are_enough() -> None:
    """Else of all residuals, and before there are any no misfit is expected."""
    rng = np.random.default_rng(7)
    X, sigma = rng.standard_normal((300, 3)), 2.0
    watch = MisfitWatch(3, has_constant=True)
    assert watch._noise_scale(np.zeros(3), 0) == math.inf
    arms = np.arange(300)
    watch.settle(arms, X, X @ np.ones(3) + sigma * rng.standard_normal(300))
    assert watch._noise_scale(np.ones(3), 3) == pytest.approx(sigma, rel=0.15)
    watch = MisfitWatch(3, has_constant=True)
    arms = rng.integers(0, 300, 800)  # misfit is no part of what repeats differ by
    watch.learn(arms, X[arms], X[arms] @ np.ones(3) + 9.0 * np.cos(arms) + sigma * rng.standard_normal(800))
    assert watch._noise_scale(np.ones(3), 3) == pytest.approx(sigma, rel=0.15)


def test_reading_the_past_leaves_no_trace() -> None:
    """Whoever looks after every block gets what blocks measured so far, and the evidence is the same bit for bit."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((14, 4))
    read, unread = MisfitWatch(4, 0.3, has_constant=False), MisfitWatch(4, 0.3, has_constant=False)
    seen: set[int] = set()
    for arms in (*_blocks(14, seed=6), *_blocks(14, seed=7)):
        rewards = rng.standard_normal(len(arms))
        for watch in (read, unread):
            watch.settle(arms, X[arms], rewards)
        seen |= set(arms.tolist())
        assert set(read.past.arms.tolist()) == seen
        assert read.n_arms == len(seen)
    assert read.log_evidence == unread.log_evidence != 0.0
    assert np.array_equal(read.past.means, unread.past.means)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    level=st.sampled_from([0.0, 0.3, 1.0]),
    has_constant=st.booleans(),
    sigma=st.sampled_from([1e-3, 1.0, 1e3]),
    is_known=st.booleans(),
)
def test_under_the_model_a_block_pays_one_on_average(
    seed: int, level: float, has_constant: bool, sigma: float, is_known: bool
) -> None:
    """Whatever the past looked like, misfits of any kind included, and whatever theta is: one spare direction."""
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(1, 4))
    X, theta = rng.standard_normal((dim + 4, dim)), 5.0 * sigma * rng.standard_normal(dim)
    watch = MisfitWatch(dim, sigma if is_known else None, has_constant=has_constant)
    wrong = level * rng.standard_normal(dim + 4)
    for _ in range(int(rng.integers(0, 4))):
        arms = rng.integers(0, dim + 4, int(rng.integers(1, 12)))
        watch.settle(arms, X[arms], X[arms] @ theta + sigma * (wrong[arms] + rng.standard_normal(len(arms))))
    arms = rng.choice(dim + 4, dim + 1, replace=False)
    arms.sort()
    counts = rng.integers(1, 7, dim + 1).astype(float)
    W, nu = np.sqrt(counts), int(counts.sum()) - dim - 1
    n = scipy.linalg.null_space((W[:, None] * X[arms]).T)[:, 0]
    block = ArmMeans(arms, X[arms], counts, X[arms] @ theta, 0.0 * counts)
    beliefs = watch._beliefs(block)

    def log_E(u: float, R: float) -> Array:
        squares = np.r_[R, np.zeros(dim)]
        means = block.means + u * n / W
        return log_factors(ArmMeans(arms, X[arms], counts, means, squares), *beliefs, watch.noise_std)

    # Steps in v with u = sinh(v), or u/sqrt(R) = sinh(v): bets on misfits of forty noise levels pay far out.
    v = np.arange(-9.0, 9.0, 0.05) if is_known else np.arange(-18.0, 18.0, 0.05)
    if is_known:
        log_density = np.log(0.05 * np.cosh(v)) - 0.5 * np.sinh(v) ** 2 - 0.5 * math.log(2 * math.pi)
        log_pays = [log_E(sigma * t, 0.0) for t in np.sinh(v)]
    elif nu == 0:
        log_density, log_pays = np.log([0.5, 0.5]), [log_E(sigma, 0.0), log_E(-sigma, 0.0)]
    else:  # the angle arctan(u/sqrt(R)) has a density proportional to cos^(nu - 1), and cos = 1/cosh(v)
        log_density = -nu * np.log(np.cosh(v))
        log_density -= np.logaddexp.reduce(log_density)
        log_pays = [log_E(sigma * math.tanh(t), (sigma / math.cosh(t)) ** 2) for t in v]
    np.testing.assert_allclose(np.exp(log_density[:, None] + np.array(log_pays)).sum(axis=0), 1.0, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_units_do_not_matter(scale: float) -> None:
    """Of rewards, and of single features."""
    rng = np.random.default_rng(8)
    X, units = rng.standard_normal((12, 3)), np.array([1.0, 1e-6, 1e5])
    for noise_std in (1.0, None):
        watches = [
            MisfitWatch(3, noise_std, has_constant=False),
            MisfitWatch(3, noise_std and scale, has_constant=False),
            MisfitWatch(3, noise_std, has_constant=False),
        ]
        for _ in range(6):
            arms = rng.integers(0, 12, 20)
            rewards = X[arms] @ np.ones(3) + 0.3 * np.sin(arms) + rng.standard_normal(20)
            watches[0].settle(arms, X[arms], rewards)
            watches[1].settle(arms, X[arms], scale * rewards)
            watches[2].settle(arms, X[arms] * units, rewards)
        assert watches[0].log_evidence != 0.0
        for other in watches[1:]:
            assert other.log_evidence == pytest.approx(watches[0].log_evidence, abs=1e-7)


def test_what_cannot_show_misfit_changes_nothing() -> None:
    """As many arms as dimensions, one arm alone, results that belong to no block."""
    rng = np.random.default_rng(9)
    X = np.vstack([np.eye(3), np.ones(3)])
    for noise_std in (1.0, None):
        watch = MisfitWatch(3, noise_std, has_constant=False)
        for arms in (np.zeros(9, dtype=np.int64), np.arange(3), np.array([3, 3, 0, 1])):
            watch.settle(arms, X[arms], 100.0 * rng.standard_normal(len(arms)))
        watch.learn(np.arange(4), X, 100.0 * rng.standard_normal(4))
        assert watch.log_evidence == pytest.approx(0.0, abs=1e-12)
        assert not watch.alarm(0.99)


def test_nearly_parallel_arms_and_a_large_theta_are_no_misfit() -> None:
    """Condition number 1e12: what theta does to a direction that is all but missing does not count as misfit."""
    rng = np.random.default_rng(10)
    X = rng.standard_normal((8, 3))
    X[:, 2] = X[:, 0] + 1e-12 * rng.standard_normal(8)
    assert range_basis(X).shape[1] == 3
    X[:, 2] = 0.1 * X[:, 0] + 0.3 * X[:, 1]  # equal to rounding
    assert range_basis(X).shape[1] == 2
    X[:, 2] = 0.0
    assert range_basis(X).shape[1] == 2
    assert range_basis(0.0 * X).shape == (8, 0)
    X[:, 2] = X[:, 0] + 1e-12 * rng.standard_normal(8)
    for noise_std in (1.0, None):
        watch = MisfitWatch(3, noise_std, has_constant=False)
        for _ in range(30):
            arms = rng.integers(0, 8, 30)
            watch.settle(arms, X[arms], X[arms] @ [1.0, 1e3, 1e13] + rng.standard_normal(30))
        assert watch.log_peak < math.log(1e3)


def test_rewards_without_noise_and_rewards_beyond_all_bounds_raise_no_alarm() -> None:
    """What is left of exactly linear rewards is rounding, and overflow is not evidence."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((9, 3))
    arms = np.tile(np.arange(9), 3)
    for theta in (np.zeros(3), np.array([1e8, 3.0, -1e-3])):
        watch = MisfitWatch(3, has_constant=False)
        for _ in range(5):
            watch.settle(arms, X[arms], X[arms] @ theta)
        assert watch.log_evidence == pytest.approx(0.0, abs=1e-12)
    for noise_std in (1.0, None):
        watch = MisfitWatch(3, noise_std, has_constant=False)
        with np.errstate(over="ignore", invalid="ignore"):
            watch.settle(arms, X[arms], 1e200 * rng.standard_normal(27))
        assert math.isfinite(watch.log_evidence)


def test_an_alarm_stands() -> None:
    """It is a matter of the largest evidence so far: results that fit later do not take it back."""
    watch, arms, X = MisfitWatch(1, 1.0, has_constant=True), np.arange(3), np.ones((3, 1))
    watch.settle(arms, X, np.array([0.0, 0.0, 15.0]))
    watch.settle(arms, X, np.zeros(3))
    assert watch.log_evidence < watch.log_peak - 1.0
    assert watch.alarm(1.001 * math.exp(-watch.log_peak))
    assert not watch.alarm(0.999 * math.exp(-watch.log_peak))
    with pytest.raises(InvalidInput, match="alpha"):
        watch.alarm(1.0)


@pytest.mark.parametrize("noise_std", [1.0, None])
def test_a_missing_constant_is_found_sooner_by_looking_for_it(noise_std: float | None) -> None:
    """Many arms, few pulls of each: single misfits are lost in the noise, the common one is not."""
    rng = np.random.default_rng(12)
    X = rng.standard_normal((200, 4))
    watches = [MisfitWatch(4, noise_std, has_constant=has_constant) for has_constant in (True, False)]
    for _ in range(10):
        arms = rng.integers(0, 200, 40)
        rewards = X[arms] @ np.ones(4) + 0.4 + rng.standard_normal(40)
        for watch in watches:
            watch.settle(arms, X[arms], rewards)
    assert watches[1].log_evidence > 15.0 > watches[0].log_evidence + 5.0


def test_check_pulls() -> None:
    """2 (log(1/alpha) + f) sigma^2/kappa^2, rounded up."""
    assert check_pulls(0.01, 11, 1.0, 0.3) == 347
    assert check_pulls(0.01, 11, 2.0, 0.6) == 347
    with pytest.raises(InvalidInput, match="kappa"):
        check_pulls(0.01, 11, 1.0, 0.0)


BLOCK = np.random.default_rng(8).standard_normal((9, 3))


def test_a_reward_is_judged_by_the_others_of_its_block() -> None:
    """By the error of a regression without it, with Student's law; too few others judge nothing."""
    rewards = BLOCK @ [1.0, 2.0, 3.0] + np.random.default_rng(9).standard_normal(9)
    rewards[4] += 40.0
    others = np.delete(np.arange(9), 4)
    theta, (rss,), *_ = np.linalg.lstsq(BLOCK[others], rewards[others], rcond=None)
    spread = 1.0 + BLOCK[4] @ np.linalg.solve(BLOCK[others].T @ BLOCK[others], BLOCK[4])
    t = (rewards[4] - BLOCK[4] @ theta) / np.sqrt(spread * rss / 5)
    risk = 9 * 2.0 * float(scipy.stats.t.sf(t, 5))
    assert has_slip(range_basis(BLOCK), rewards, 1.001 * risk)
    assert not has_slip(range_basis(BLOCK), rewards, 0.999 * risk)
    assert not has_slip(range_basis(BLOCK[:3]), rewards[2:5], 0.99)
    assert not has_slip(range_basis(BLOCK), BLOCK @ [1.0, 2.0, 3.0], 0.5), "rounding is no slip"
    ones = range_basis(np.ones((5, 1)))
    assert not has_slip(ones, np.array([3.0, 3.0, 3.0, 3.0, 4.0]), 0.01), "nor are readings in whole numbers"
    assert has_slip(ones, np.array([3.0, 3.0, 3.0, 3.0, 30.0]), 0.01)


def test_noise_is_seldom_called_a_slip_by_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 4,000 blocks at most 1,339 at a risk of .3: more once in a million. A normal for Student's law is caught."""
    rewards = np.random.default_rng(10).standard_normal((4000, 9))
    n_slips = sum(has_slip(range_basis(BLOCK), block, 0.3) for block in rewards)
    assert 400 < n_slips <= 1339
    monkeypatch.setattr(scipy.special, "stdtr", lambda _, t: scipy.special.ndtr(t))
    assert sum(has_slip(range_basis(BLOCK), block, 0.3) for block in rewards) > 1339
