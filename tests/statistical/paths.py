"""Simulated paths of many runs at once, to count how often a stopping rule alone is wrong.

Notation: P paths, K arms, d features; X (K, d) arms in coordinates where the plain average of x x' is the
identity; theta (P, d), A and A_inv (P, d, d), counts (P, K) the state of every path; noise has standard
deviation 1. The formulas under test are the package's; only sampling and bookkeeping are written here.

The samplers are as nasty as a rule that sees the past may be. "challenger" follows the estimates: it pulls
what tells most about the leader and its closest rival, and so dwells where luck has made a difference.
"spite" knows the truth and does the same for the luckiest of the wrong arms.

An error is counted as soon as a wrong leader's pair with the best arm passes its threshold, although other
pairs may still keep the rule from stopping: this is the event whose probability the proofs bound.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.stats import binom

from surepick.core.betting import log_bet
from surepick.core.evidence import Mixture, glr, log_evidence, log_pairwise_evidence
from surepick.core.linalg import Array, BoolArray, IntArray
from surepick.core.thresholds import Threshold
from tests.statistical.bets import bet_parameters, block_statistics

N_PATHS = 4000
DELTA = 0.3
FALSE_ALARM = 1e-6

Sampler = Literal["challenger", "spite"]


def error_limit(n_paths: int = N_PATHS, delta: float = DELTA) -> int:
    """Largest count that a rule with error probability `delta` exceeds with probability at most 1e-6."""
    return int(binom.isf(FALSE_ALARM, n_paths, delta))


@dataclass(frozen=True)
class Instance:
    """Arms, and means theta'x that nearly tie at the top."""

    X: Array
    theta: Array

    @classmethod
    def basis(cls, means: list[float]) -> "Instance":
        """As many arms as features: the classical bandit."""
        root = np.sqrt(len(means))
        return cls(root * np.eye(len(means)), np.array(means) / root)

    @classmethod
    def arc(cls, *, lead: float, n_sides: int = 1) -> "Instance":
        """The best arm (1, 0, ..) between pairs (1 - lead, .., +-1, ..): luck on either side misleads.

        theta = (1, 0, ..): every other arm loses `lead`, and nearly all evidence is on n_sides directions.
        """
        raw = np.zeros((1 + 2 * n_sides, 1 + n_sides))
        raw[:, 0] = 1 - lead
        raw[0, 0] = 1.0
        for side in range(n_sides):
            raw[1 + 2 * side : 3 + 2 * side, 1 + side] = 1, -1
        scale = np.sqrt((raw**2).mean(axis=0))  # the columns are orthogonal
        return cls(raw / scale, np.eye(1 + n_sides)[0] * scale)

    @property
    def means(self) -> Array:
        """True mean reward (K,) of every arm."""
        means: Array = self.X @ self.theta
        return means

    @property
    def best(self) -> int:
        """The arm with the largest mean."""
        return int(np.argmax(self.means))

    def is_wrong(self, epsilon: float) -> BoolArray:
        """Which arms (K,) are not epsilon-optimal; with epsilon = 0, not best."""
        loss = self.means.max() - self.means
        wrong: BoolArray = loss > epsilon
        return wrong


@dataclass(frozen=True)
class Snapshot:
    """The state of all paths after n_pulls pulls, with the pairs (leader, arm) every rule looks at."""

    n_pulls: int
    eigenvalues: Array
    """Of A, increasing, (P, d)."""
    leader: IntArray
    counts: Array
    gap: Array
    """theta'(leader - arm), (P, K)."""
    q1: Array
    q2: Array
    is_leader: BoolArray


Rule = Callable[[Snapshot], Array]
"""Maps a snapshot to margins (P, K) of the pairs (leader, arm): the rule stops when all are at least 0."""


def _inverse(A: Array) -> Array:
    return np.asarray(np.linalg.inv(A), dtype=np.float64)


def _pairs(instance: Instance, theta: Array, A_inv: Array) -> tuple[IntArray, BoolArray, Array, Array, Array]:
    leader = np.argmax(theta @ instance.X.T, axis=1)
    Y = instance.X[leader][:, None, :] - instance.X
    is_leader = leader[:, None] == np.arange(len(instance.X))
    U = Y @ A_inv
    gap = (Y @ theta[:, :, None])[:, :, 0]
    return leader, is_leader, Y, U, gap


def _next_arm(instance: Instance, sampler: Sampler, theta: Array, A_inv: Array) -> IntArray:
    X = instance.X
    values = theta @ X.T
    if sampler == "spite":
        values[:, instance.best] = -np.inf
    front = np.argmax(values, axis=1)
    is_front = front[:, None] == np.arange(len(X))
    Y = X[front][:, None, :] - X
    U = Y @ A_inv
    q1 = np.where(is_front, 1.0, (U * Y).sum(axis=2))
    score = (Y @ theta[:, :, None])[:, :, 0] / np.sqrt(q1)
    rival = np.argmin(np.where(is_front, np.inf, score), axis=1)
    return np.argmax(np.abs(U[np.arange(len(front)), rival] @ X.T), axis=1)


def snapshots(
    instance: Instance, sampler: Sampler, *, horizon: int, seed: int, n_paths: int = N_PATHS
) -> Iterator[Snapshot]:
    """Run all paths together; yield every round up to 100, then whenever the number of pulls grew by 2 %."""
    rng = np.random.default_rng(seed)
    X, means = instance.X, instance.means
    K = len(X)
    counts = np.ones((n_paths, K))
    A = np.broadcast_to(X.T @ X, (n_paths, *(X.shape[1],) * 2)).copy()
    A_inv = _inverse(A)
    b = (means + rng.standard_normal((n_paths, K))) @ X
    rows = np.arange(n_paths)
    due = K
    for n_pulls in range(K, horizon + 1):
        theta = (A_inv @ b[:, :, None])[:, :, 0]
        if n_pulls >= due:
            due = n_pulls + 1 if n_pulls < 100 else int(np.ceil(1.02 * n_pulls))
            leader, is_leader, Y, U, gap = _pairs(instance, theta, A_inv)
            q1 = np.where(is_leader, 1.0, (U * Y).sum(axis=2))
            q2 = np.where(is_leader, 1.0, (U * U).sum(axis=2))
            yield Snapshot(
                n_pulls, np.asarray(np.linalg.eigvalsh(A), dtype=np.float64), leader, counts, gap, q1, q2, is_leader
            )
        arm = _next_arm(instance, sampler, theta, A_inv)
        x = X[arm]
        counts[rows, arm] += 1
        b += (means[arm] + rng.standard_normal(n_paths))[:, None] * x
        A += x[:, :, None] * x[:, None, :]
        u = (A_inv @ x[:, :, None])[:, :, 0]
        A_inv -= u[:, :, None] * (u / (1.0 + (u * x).sum(axis=1))[:, None])[:, None, :]


def one_look(at: Snapshot) -> Array:
    """The mistake every gate must see: log(1/delta), as if one looked once."""
    return glr(at.gap, at.q1) + np.log(DELTA)


def evidence_rule(mixture: Mixture, *, epsilon: float = 0.0) -> Rule:
    """The evidence rule with V = I."""

    def margin(at: Snapshot) -> Array:
        logdets = np.log1p(at.eigenvalues[:, None, :] / mixture.scales[:, None]).sum(axis=2)
        pairs = log_evidence(at.gap, at.q1, at.q2, logdets[:, None, :], mixture=mixture, noise_std=1.0, epsilon=epsilon)
        return pairs + np.log(DELTA)

    return margin


def pairwise_rule(*, kappa: float) -> Rule:
    """The pairwise rule, for as many arms as features."""

    def margin(at: Snapshot) -> Array:
        own = (at.counts * at.is_leader).sum(axis=1, keepdims=True)
        pairs = log_pairwise_evidence(at.gap, own, at.counts, kappa=kappa, noise_std=1.0)
        return pairs - np.log((at.counts.shape[1] - 1) / DELTA)

    return margin


def paper_rule(threshold: Threshold, instance: Instance) -> Rule:
    """A rule of the paper, with the c its preset asks for."""
    X = instance.X
    # One pull of every arm is the initial set here; without a u the proof wants c = max |x|^2.
    c = float((X**2).sum(axis=1).max() if threshold.u is None else np.linalg.eigvalsh(X.T @ X)[0])

    def margin(at: Snapshot) -> Array:
        logdet = np.log1p(at.eigenvalues / ((threshold.u or 1.0) * c)).sum(axis=1)
        level = threshold(n_pulls=at.n_pulls, dim=X.shape[1], logdet=logdet, delta=DELTA, noise_std=1.0)
        is_ready = at.eigenvalues[:, :1] >= c * (1 - 1e-9)
        return np.where(is_ready, glr(at.gap, at.q1) - level.reshape(-1, 1), -np.inf)

    return margin


@dataclass
class Tally:
    """How the paths of one rule went."""

    instance: Instance
    epsilon: float = 0.0
    has_stopped: BoolArray = field(default_factory=lambda: np.zeros(N_PATHS, dtype=bool))
    stopped_wrong: BoolArray = field(default_factory=lambda: np.zeros(N_PATHS, dtype=bool))
    has_lied: BoolArray = field(default_factory=lambda: np.zeros(N_PATHS, dtype=bool))
    """Whether a wrong leader ever passed its threshold against the best arm."""

    def add(self, margin: Array, at: Snapshot) -> None:
        """Take in one snapshot."""
        is_wrong = self.instance.is_wrong(self.epsilon)[at.leader]
        fires = ((margin >= 0) | at.is_leader).all(axis=1)
        self.stopped_wrong |= fires & is_wrong & ~self.has_stopped
        self.has_stopped |= fires
        self.has_lied |= is_wrong & (margin[:, self.instance.best] >= 0)


def tally(
    instance: Instance,
    sampler: Sampler,
    rules: dict[str, Rule],
    *,
    horizon: int,
    seed: int,
    epsilon: float = 0.0,
) -> dict[str, Tally]:
    """Count, on the same paths, the errors of several rules."""
    tallies = {name: Tally(instance, epsilon) for name in rules}
    for at in snapshots(instance, sampler, horizon=horizon, seed=seed):
        for name, rule in rules.items():
            tallies[name].add(rule(at), at)
    return tallies


@dataclass
class Blocks:
    """All paths of the betting rule, block by block.

    Args:
        instance: arms and truth.
        sampler: "challenger" lets the best estimate among the survivors lead and divides the block between it
            and its closest rival; "spite" always lets a wrong arm lead, and bets against the best one.
        epsilon: slack; wealth is then kept per leader.
        is_peeking: bets (and leaders) are placed with the block's own results, which the proof forbids.
        delta: what the price is made of; another than DELTA is the mistake that the gate must see.
    """

    instance: Instance
    sampler: Sampler
    seed: int
    epsilon: float = 0.0
    is_peeking: bool = False
    delta: float = DELTA
    n_paths: int = N_PATHS
    ratio: float = 1.15
    log: list[tuple[IntArray, Array, Array, Array, Array]] = field(default_factory=list)
    """Per block: leader, theta, A_inv when the bets were placed, then A and b of the block."""

    def __post_init__(self) -> None:
        P, K = self.n_paths, len(self.instance.X)
        self.rows = np.arange(P)
        self.rng = np.random.default_rng(self.seed)
        # With slack one book per leader, opened in turn; without, all leaders share book 0.
        self.log_wealth = np.zeros((P, K if self.epsilon > 0 else 1, K))
        self.share = np.zeros((P, K), dtype=np.int64)
        self.n_leaders = np.zeros(P, dtype=np.int64)
        self.is_rejected = np.zeros(self.log_wealth.shape, dtype=bool)
        self.answer = np.full(P, -1)
        self.has_lied = np.zeros(P, dtype=bool)
        """Whether a true null, (a wrong leader against) the best arm, was ever rejected."""

    def run(self, *, n_blocks: int) -> None:
        """Play the first pulls (two of every arm, not bet on) and then n_blocks blocks."""
        X = self.instance.X
        counts = np.full((self.n_paths, len(X)), 2.0)
        A, b = self._pull(counts)
        for _ in range(n_blocks):
            A_inv = _inverse(A)
            theta = (A_inv @ b[:, :, None])[:, :, 0]
            leader = self._leader(theta)
            block = self._design(leader, theta, A_inv, np.ceil((self.ratio - 1) * counts.sum(axis=1)))
            A_block, b_block = self._pull(block)
            counts, A, b = counts + block, A + A_block, b + b_block
            if self.is_peeking:
                A_inv = _inverse(A)
                theta = (A_inv @ b[:, :, None])[:, :, 0]
                leader = self._leader(theta)
            self._settle(leader, theta, A_inv, A_block, b_block)
            self.log.append((leader, theta, A_inv, A_block, b_block))

    def _pull(self, counts: Array) -> tuple[Array, Array]:
        """Information and moments of `counts` (P, K) pulls; the sum of n rewards is drawn at once."""
        X = self.instance.X
        sums = counts * self.instance.means + np.sqrt(counts) * self.rng.standard_normal(counts.shape)
        return np.einsum("pk,ki,kj->pij", counts, X, X), sums @ X

    def _leader(self, theta: Array) -> IntArray:
        values = theta @ self.instance.X.T
        if self.epsilon == 0:
            values = np.where(self.is_rejected[:, 0], -np.inf, values)
        if self.sampler == "spite":
            # Any survivor may lead. The best arm gets its turn only when nobody else is left.
            values[:, self.instance.best] = np.where(np.isfinite(values[:, self.instance.best]), -1e300, -np.inf)
        return np.argmax(values, axis=1)

    def _design(self, leader: IntArray, theta: Array, A_inv: Array, length: Array) -> Array:
        """Counts (P, K): a tenth spread evenly, the rest on the leader and its closest rival."""
        X = self.instance.X
        K = len(X)
        Y = X[leader][:, None, :] - X
        is_leader = leader[:, None] == np.arange(K)
        q1 = np.where(is_leader, 1.0, ((Y @ A_inv) * Y).sum(axis=2))
        closeness = np.where(is_leader, np.inf, glr((Y @ theta[:, :, None])[:, :, 0], q1))
        rival = np.argmin(closeness, axis=1)
        if self.sampler == "spite":
            rival = np.where(leader == self.instance.best, rival, self.instance.best)
        counts = np.zeros((len(leader), K)) + np.floor(0.1 * length / K)[:, None]
        half = np.maximum(np.ceil(0.45 * length), 1.0)
        counts[self.rows, leader] += half
        counts[self.rows, rival] += half
        return counts

    def _settle(self, leader: IntArray, theta: Array, A_inv: Array, A_block: Array, b_block: Array) -> None:
        X, best = self.instance.X, self.instance.best
        Y = X[leader][:, None, :] - X
        m, s2 = bet_parameters(Y, theta, A_inv, noise_std=1.0, epsilon=self.epsilon)
        z, v, inside = block_statistics(Y, A_block, b_block, noise_std=1.0)
        played = inside & (s2 > 0)
        gain = np.zeros(z.shape)
        gain[played] = log_bet(z[played] + self.epsilon, v[played], m[played], s2[played])
        if self.epsilon > 0:
            is_new = self.share[self.rows, leader] == 0
            self.n_leaders += is_new
            self.share[self.rows, leader] = np.where(is_new, self.n_leaders, self.share[self.rows, leader])
            j = self.share[self.rows, leader]
            book, price = leader, np.log(j * (j + 1) / self.delta)
        else:
            book, price = np.zeros_like(leader), np.full(leader.shape, -np.log(self.delta))
        running = (self.answer < 0)[:, None] & ~self.is_rejected[self.rows, book]
        self.log_wealth[self.rows, book] += gain * running
        is_rejected = self.log_wealth[self.rows, book] >= price[:, None]
        self.is_rejected[self.rows, book] |= is_rejected
        is_lie = self.instance.is_wrong(self.epsilon)[leader] if self.epsilon > 0 else leader != best
        self.has_lied |= is_lie & is_rejected[:, best]
        is_rejected[self.rows, leader] = True
        done = is_rejected.all(axis=1) & (self.answer < 0)
        self.answer[done] = leader[done]
