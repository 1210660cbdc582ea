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

from surepick.core.betting.bets import log_returns
from surepick.core.evidence import Mixture, glr, log_evidence, log_pairwise_evidence
from surepick.core.thresholds import PAPER_APPENDIX, PAPER_MAIN, PAPER_REMARK, Threshold
from surepick.types import Array, BoolArray, IntArray
from tests.statistical.bets import block_statistics, shrunk_beliefs

N_PATHS = 4000
"""A rule that errs with probability .36 instead of DELTA is found out in 999 of 1000 gates; `benchmarks/rules.py` has
many more paths."""
DELTA = 0.3
FALSE_ALARM = 1e-6

Sampler = Literal["challenger", "spite"]


def error_limit(n_paths: int = N_PATHS, delta: float = DELTA) -> int:
    """Largest count that a rule with error probability `delta` exceeds with probability at most 1e-6."""
    return int(binom.isf(FALSE_ALARM, n_paths, delta))


def is_settled(n_wrong: int, n_done: int, n_runs: int, limit: float) -> bool:
    """Whether the runs that are left no longer matter: the count is beyond the limit, or they cannot take it there."""
    return n_wrong > limit or n_wrong + n_runs - n_done <= limit


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


# The best arm lies between two others and leads by 0.02 (noise 1): luck on either side misleads.
BETWEEN_TWO = Instance.arc(lead=0.02)
BETWEEN_FOUR = Instance.arc(lead=0.02, n_sides=2)
THREE_MEANS = Instance.basis([0.02, 0.0, 0.0])
TIE = Instance.basis([0.0, 0.0, -0.3])
BETTING_CASES = [
    (BETWEEN_TWO, 0.0),
    (BETWEEN_FOUR, 0.0),
    (THREE_MEANS, 0.0),
    (TIE, 0.0),
    (Instance.arc(lead=0.02), 0.02),
    (Instance.basis([0.1, 0.0, 0.0]), 0.1),
]
"""Near and exact ties with their slack, losses of exactly epsilon among them."""
HORIZON, N_BLOCKS = 600, 30


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


def proved_rules(instance: Instance) -> dict[str, Rule]:
    """The evidence rule and those of the paper."""
    return {
        "evidence": evidence_rule(Mixture.default()),
        "evidence, one kappa": evidence_rule(Mixture.uniform(16.0)),
        **{preset.name: paper_rule(preset, instance) for preset in (PAPER_MAIN, PAPER_APPENDIX, PAPER_REMARK)},
    }


def errors_of(
    instance: Instance,
    sampler: Sampler,
    rules: dict[str, Rule],
    *,
    horizon: int,
    seed: int,
    epsilon: float = 0.0,
    n_paths: int = N_PATHS,
) -> dict[str, int]:
    """Count, on the same paths, how often a wrong leader ever passes each rule's threshold against the best arm."""
    has_lied = {name: np.zeros(n_paths, dtype=bool) for name in rules}
    for at in snapshots(instance, sampler, horizon=horizon, seed=seed, n_paths=n_paths):
        is_wrong = instance.is_wrong(epsilon)[at.leader]
        for name, rule in rules.items():
            has_lied[name] |= is_wrong & (rule(at)[:, instance.best] >= 0)
    return {name: int(lied.sum()) for name, lied in has_lied.items()}


Flaw = Literal["own results", "later results", "no minimum"]
"""Mistakes that a gate must catch: bets that know the results of their block, or those of the next one, whose arms know
part of them; seats that are promoted with the wealth they have."""


@dataclass
class Blocks:
    """All paths of the betting rule, block by block; pulls are (2, P, K), numbers and sums of rewards per arm.

    Args:
        instance: arms and truth.
        sampler: "challenger" lets the best estimate among the survivors lead and divides the block between it
            and its closest rival; "spite" always lets a wrong arm lead, with slack the richest, against the best one.
        epsilon: slack; every arm then has a seat.
        is_ahead: blocks are planned when a random part of the one before is in. "spite" then makes a block very long if
            that part is no help, and gives up the other part, which is measured again.
        flaw: a mistake in the rule.
        rivals: arms against which accounts are kept; default all.
    """

    instance: Instance
    sampler: Sampler
    seed: int
    epsilon: float = 0.0
    is_ahead: bool = False
    flaw: Flaw | None = None
    rivals: list[int] | None = None
    n_paths: int = N_PATHS
    ratio: float = 1.15
    log: list[tuple[IntArray, Array, Array, Array, Array]] = field(default_factory=list)
    """Per block: leader, theta, A_inv that the bets came from, then A and b of the block."""

    def __post_init__(self) -> None:
        P, K = self.n_paths, len(self.instance.X)
        self.rows, self.price = np.arange(P), -np.log(DELTA)
        self.rng = np.random.default_rng(self.seed)
        self.against = np.arange(K) if self.rivals is None else np.array(self.rivals)
        self.at_best = self.against.tolist().index(self.instance.best)
        loss = self.instance.means.max() - self.instance.means
        self.is_bad = (loss > self.epsilon - 1e-9) & (np.arange(K) != self.instance.best)
        # Seats in order and their accounts; without slack whoever leads sits on the only one.
        self.seats = np.tile(np.arange(K if self.epsilon > 0 else 1), (P, 1))
        self.log_wealth = np.zeros((*self.seats.shape, len(self.against)))
        self.answer = np.full(P, -1)
        self.has_lied = np.zeros(P, dtype=bool)
        """Whether the best arm was ever rejected; with slack, by an arm that is worse by epsilon or more."""

    def run(self, *, n_blocks: int) -> None:
        """Play the first pulls (two of every arm, not bet on) and then n_blocks blocks."""
        past = self._pull(np.full((self.n_paths, len(self.instance.X)), 2.0))
        if self.epsilon > 0:
            self.seats = np.argsort(-(self._known(past)[0] @ self.instance.X.T), axis=1, kind="stable")
        told, rest = self._block(past, np.zeros_like(past), np.zeros_like(past))
        for _ in range(n_blocks):
            block, following = told + rest, self._block(past, told, rest)
            leaked = {"own results": block, "later results": sum(following)}.get(self.flaw or "", 0.0)
            known = self._known(past + leaked)
            A_block, b_block = self._sums(block)
            leader = self._settle(*known, A_block, b_block)
            self.log.append((leader, *known, A_block, b_block))
            past, (told, rest) = past + block, following

    def _pull(self, counts: Array) -> Array:
        """The sum of n rewards is drawn at once."""
        noise = np.sqrt(counts) * self.rng.standard_normal(counts.shape)
        return np.stack([counts, counts * self.instance.means + noise])

    def _sums(self, pulls: Array) -> tuple[Array, Array]:
        X = self.instance.X
        return np.einsum("pk,ki,kj->pij", pulls[0], X, X), pulls[1] @ X

    def _known(self, pulls: Array) -> tuple[Array, Array]:
        A, b = self._sums(pulls)
        A_inv = _inverse(A)
        return (A_inv @ b[:, :, None])[:, :, 0], A_inv

    def _leader(self, theta: Array) -> IntArray:
        values, best = theta @ self.instance.X.T, self.instance.best
        if self.epsilon == 0:
            values = np.where(self.log_wealth[:, 0] >= self.price, -np.inf, values)
        elif self.sampler == "spite":
            np.put_along_axis(values, self.seats, self.log_wealth[:, :, self.at_best], axis=1)
        if self.sampler == "spite":
            # The best arm gets its turn only when nobody else is left.
            values[:, best] = np.where(values[:, best] > -np.inf, -1e300, -np.inf)
        return np.argmax(values, axis=1)

    def _block(self, past: Array, told: Array, rest: Array) -> tuple[Array, Array]:
        """What is in when the next block is planned, and what is not: a tenth is spread evenly, or all with slack."""
        X, best = self.instance.X, self.instance.best
        K = len(X)
        theta, A_inv = self._known(past + told + (0.0 if self.is_ahead else rest))
        leader = self._leader(theta)
        is_leader = leader[:, None] == np.arange(K)
        Y = X[leader][:, None, :] - X
        q1 = np.where(is_leader, 1.0, ((Y @ A_inv) * Y).sum(axis=2))
        closeness = np.where(is_leader, np.inf, glr((Y @ theta[:, :, None])[:, :, 0], q1))
        rival = np.argmin(closeness, axis=1)
        length = np.ceil((self.ratio - 1) * (past + told + rest)[0].sum(axis=1))
        helps = np.ones(len(leader), dtype=bool)
        if self.sampler == "spite":
            rival = np.where(leader == best, rival, best)
            if self.is_ahead:
                lean = (Y[:, best, None] @ A_inv @ X.T)[:, 0]
                helps = ((told[1] - told[0] * self.instance.means) * lean).sum(axis=1) >= 0.0
                rest[1] = np.where(helps[:, None], rest[1], self._pull(rest[0])[1])
        length = np.where(helps, length, 50.0 * length)
        share = 0.1 if self.epsilon == 0 else 1.0
        counts = np.zeros((len(leader), K)) + np.ceil(share * length / K)[:, None]
        for arm in (leader, rival):
            counts[self.rows, arm] += np.ceil(0.5 * (1.0 - share) * length)
        first = np.floor(self.rng.random(counts.shape) * counts) if self.is_ahead else counts
        return self._pull(first), self._pull(counts - first)

    def _promote(self, leader: IntArray) -> None:
        place = np.argmax(self.seats == leader[:, None], axis=1)
        V = self.log_wealth if self.flaw == "no minimum" else np.minimum.accumulate(self.log_wealth, axis=1)
        self.log_wealth[self.rows, place] = V[self.rows, place]
        order = np.argsort(self.seats != leader[:, None], axis=1, kind="stable")
        self.seats = np.take_along_axis(self.seats, order, axis=1)
        self.log_wealth = np.take_along_axis(self.log_wealth, order[:, :, None], axis=1)

    def _settle(self, theta: Array, A_inv: Array, A_block: Array, b_block: Array) -> IntArray:
        X, leader = self.instance.X, self._leader(theta)
        if self.epsilon > 0:
            self._promote(np.where(self.answer < 0, leader, self.seats[:, 0]))
        else:
            self.seats = leader[:, None]
        wealth, is_own = self.log_wealth, self.seats[:, :, None] == self.against
        if self.epsilon > 0:
            wealth[is_own] = np.inf
        Y = (X[self.seats][:, :, None] - X[self.against]).reshape(len(leader), -1, X.shape[1])
        mean, cov = shrunk_beliefs(theta, A_inv, X.mean(axis=0))
        m = np.maximum((Y @ mean[:, :, None])[:, :, 0] + self.epsilon, 0.0)
        s2 = ((Y @ cov) * Y).sum(axis=2)
        z, v, inside = block_statistics(Y, A_block, b_block, noise_std=1.0)
        rest = self.price - wealth.reshape(z.shape)
        played = inside & (s2 > 0) & (rest > 0) & (self.answer < 0)[:, None]
        gain = log_returns(z[played] + self.epsilon, v[played], m[played], s2[played], rest[played])
        wealth[played.reshape(wealth.shape)] += gain
        passed = np.minimum.accumulate(wealth, axis=1) >= self.price
        self.has_lied |= (passed[:, :, self.at_best] & self.is_bad[self.seats]).any(axis=1)
        is_over = (passed | is_own).all(axis=2)
        done = is_over.any(axis=1) & (self.answer < 0) & (self.rivals is None)
        self.answer[done] = self.seats[self.rows, np.argmax(is_over, axis=1)][done]
        return leader
