"""A learner's view of its arms: whitened coordinates, scaled rows, and the task they belong to.

Two kinds of set have one view: rows with numbers (`WhitenedArms`), and vectors that get a number when they are first
named (`NumberedVectors`). Inside a learner an arm is its number; users see the arm that `arm_of` returns.

**Whitening**: the coordinates in which the G-optimal design has identity information. T (d, d) the map, white rows =
rows @ T, white theta = T^-1 theta. In these coordinates no result depends on how you scaled or mixed the features, and
A = n I after n pulls of the G-optimal design. The arms are not copied: the view maps the arguments of every oracle
instead of the rows.

**Scaled rows.** Measuring x with standard deviation s is as informative as measuring x/s with standard deviation 1
(docs/guarantee.md, Theorem 25). Only measured rows are scaled, never compared ones.

**Loss bounds.** `largest_loss_bound` finds the rival to which the leader may lose most, in one pass. Whitened
coordinates, in which V = I; A (d, d) the information; y = leader - rival, gap = theta'y, q1 = y'A^-1 y,
q2 = y'A^-2 y; the default mixture of `core.evidence`, which has the bound for one rival.
"""

import math
import reprlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar, final

import numpy as np

from surepick.arms.base import ArmSet, Arrays, PairForms, PairScore, Rivals, VectorSet
from surepick.arms.finite import FiniteArms, as_arms
from surepick.arms.numbered import NumberedVectors
from surepick.core.checks import check_count, check_distinct, check_features, check_vector
from surepick.core.design import Design, optimal_design
from surepick.core.design.generation import frame_of, spanning_arms
from surepick.core.design.solve import as_candidates
from surepick.core.design.targets import Target
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import SMALLEST_SQUARE, Mixture, log_sum_exp
from surepick.core.linalg import inverse_factor, triangular, upper_inverse
from surepick.errors import InvalidInput, nearest
from surepick.types import Array, BoolArray, IntArray

MIXTURE = Mixture.default()


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
    """Return the rival with the largest upper confidence bound on the leader's loss to it, and the bound.

    All bounds hold together, at all times, with probability 1 - delta, if theta and A are those of the results so far;
    they are below 0 for every rival exactly when the evidence rule stops. The leader may be any candidate, also one
    that does not have the largest estimate. One pass over the candidates. The rival is -1 and the bound -inf if the
    leader has no rivals left.
    """
    least_certain = partial(negative_bounds, logdets=MIXTURE.logdets(A), delta=delta, noise_std=noise_std)
    factor = inverse_factor(A)
    found: Rivals = candidates.rivals(leader, theta, [factor, factor @ factor.T], least_certain, 1, among)
    return (int(found.index[0]), -float(found.score[0])) if len(found.index) else (-1, -np.inf)


def negative_bounds(gap: Array, q1: Array, q2: Array, *, logdets: Array, delta: float, noise_std: float) -> Array:
    """Return minus the loss bounds (n,): exact at the smallest, elsewhere a number that is not below it.

    A single term of the mixture gives a cheap upper bound on the loss bound. The rival with the largest gets its exact
    one, by plain numbers, faster on a single rival than arrays. Of those whose cheap bound beats it, one look at their
    evidence there tells which have the larger exact bound: usually none. The next of them is computed, until none is.
    """
    target = math.log(1.0 / delta)
    priors = MIXTURE.log_weights - 0.5 * logdets
    slopes = 0.5 / noise_std**2 / np.maximum(q1 + MIXTURE.scales[:, None] * q2, SMALLEST_SQUARE)
    z = ((target - priors)[:, None] / slopes).min(axis=0)
    score: Array = gap - np.sqrt(z)
    terms, first, best = priors.tolist(), int(np.argmin(score)), math.inf
    while True:
        root = _root(terms, slopes[:, first].tolist(), target, float(z[first]))
        score[first] = gap[first] - math.sqrt(root)
        best = min(best, float(score[first]))
        rest = np.flatnonzero(score < best)
        if not len(rest):
            return score
        reach = np.maximum(gap[rest] - best, 0.0)
        is_larger = log_sum_exp(priors[:, None] + slopes[:, rest] * (reach * reach)) < target
        score[rest[~is_larger]] = np.inf
        if not is_larger.any():
            return score
        first = int(np.argmin(score))


def _root(priors: list[float], slopes: list[float], target: float, z: float) -> float:
    """Return where logsumexp_j (priors_j + slopes_j z) = target, by Newton's steps from the right (`loss_bound`)."""
    for _ in range(100):
        terms = [prior + slope * z for prior, slope in zip(priors, slopes, strict=True)]
        top = max(terms)
        shares = [math.exp(term - top) for term in terms]
        total = sum(shares)
        rise = sum([share * slope for share, slope in zip(shares, slopes, strict=True)])
        step = (top + math.log(total) - target) * total / rise
        z -= max(step, 0.0)
        if step <= 1e-14 * z:
            break
    return z


@final
class ScaledArms(ArmSet):
    """A view of arms in which every row is multiplied by a positive number of its own.

    Args:
        arms: the arms.
        factor: maps row numbers (n,) and rows (n, d) to their factors (n,).
    """

    def __init__(self, arms: ArmSet, factor: Callable[[IntArray, Array], Array]) -> None:
        self._arms, self._factor = arms, factor
        self.n_arms, self.dim = arms.n_arms, arms.dim
        self.names, self.is_local = arms.names, arms.is_local

    def _scaled(self, index: IntArray, rows: Array) -> Array:
        return rows * self._factor(index, rows)[:, None]

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these numbers, (n, d)."""
        return self._scaled(np.asarray(index, dtype=np.int64), self._arms.gather(index))

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first row number, rows) in order."""
        for start, rows in self._arms.chunks():
            yield start, self._scaled(np.arange(start, start + len(rows)), rows)

    def copies(self, arm: int) -> IntArray:
        """Return the copies of this arm that have its factor."""
        copies = self._arms.copies(arm)
        factors = self._factor(copies, self._arms.gather(copies))
        same: IntArray = copies[factors == factors[copies == arm]]
        return same


def divided(arms: ArmSet, stds: Array) -> ArmSet:
    """Return the arms with every row divided by a number of its own (K,)."""
    if hasattr(arms, "times"):  # rows that stay where they are
        there: ArmSet = arms.times(1.0 / stds)
        return there
    return ScaledArms(arms, lambda index, _: 1.0 / stds[index])


T = TypeVar("T")

# How many arms show whether the features hold a constant, and how far from 1 rounding may take it.
N_SAMPLED, CONSTANT_TOL = 64, 1e-6
# Numbers in a table of arms above which passes over it take most of the time.
LARGE = 2_000_000


@final
class WhitenedArms(ArmSet):
    """A view of rows in whitened coordinates, answering the same oracles as the rows themselves.

    Args:
        arms: the rows to look at: the arms, or candidates with the same features.
        back: R (d, d) upper triangular with R'R = the information matrix that becomes the identity.
        design: the G-optimal design of the arms.
        stds: standard deviations (K,) that the rows were divided by, if arms differ in noise.
    """

    def __init__(self, arms: ArmSet, back: Array, design: Design, stds: Array | None = None) -> None:
        self.arms, self.back, self.design, self.stds = arms, back, design, stds
        self.n_arms, self.dim = arms.n_arms, arms.dim
        self.map = upper_inverse(back)
        self.names, self.is_local = arms.names, arms.is_local
        self.is_enumerable = True
        self.description = f"{self.n_arms} arms"

    def view_of(self, candidates: ArmSet) -> "WhitenedArms":
        """Return other rows with the same features in the same coordinates.

        Raises:
            InvalidInput: different rows are too close together to be compared, see `core.checks`.
        """
        check_distinct("candidates", candidates, self.back)
        return WhitenedArms(candidates, self.back, self.design)

    def number_of(self, arm: object) -> int:
        """Return the row number of the user's arm: a row number, or a name."""
        if type(arm) is int and 0 <= arm < self.n_arms:
            return arm
        if isinstance(arm, str) and self.names is not None:
            if arm not in self._numbers:
                raise InvalidInput(
                    f"`arm` must name an arm, got {arm!r}; use one of the arms' names, such as "
                    f"{nearest(arm, self.names) or self.names[0]!r}."
                )
            return self._numbers[arm]
        with suppress(InvalidInput):
            number = check_count("arm", arm, least=0)
            if number < self.n_arms:
                return number
        why = " (the arms have no names)" if isinstance(arm, str) else ""
        raise InvalidInput(
            f"`arm` must be a row number between 0 and {self.n_arms - 1}{why}, got {reprlib.repr(arm)}; correct it."
        )

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names or ())}

    def arm_of(self, number: int) -> int:
        """Return the user's name of this arm: its row number."""
        return number

    key_of = arm_of

    def theta_to_user(self, theta: Array) -> Array:
        """Return a whitened parameter in the user's coordinates."""
        return self.map @ theta

    def theta_from_user(self, theta: Array) -> Array:
        """Return a parameter of the user's coordinates in whitened ones."""
        return self.back @ theta

    def from_user(self, A: Array) -> Array:
        """Return an information matrix of the user's coordinates in whitened ones."""
        with np.errstate(over="ignore", invalid="ignore"):  # the factorisation refuses an overflow
            return self.map.T @ A @ self.map

    def metric(self) -> Array:
        """Return the identity information of the user's coordinates in whitened ones."""
        return self.map.T @ self.map

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the arms with these row numbers, (n, d)."""
        return self.arms.gather(index) @ self.map

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first row number, rows) over all arms in order."""
        for start, rows in self.arms.chunks():
            yield start, rows @ self.map

    def triangle(self) -> Array:
        """Return R (d, d), upper triangular with R'R = X'X."""
        return triangular(self.arms.triangle() @ self.map)

    def digest(self) -> bytes:
        """Return the hash of the arms as they were given."""
        return self.arms.digest()

    @cached_property
    def level(self) -> Array:
        """The direction u (d,) of a common level of all arms: least squares of x'u = 1 by the G-optimal design."""
        support, weights = self.design.support, self.design.weights
        # Their information is the identity; a row that was divided has the level of one over the divisor.
        level: Array = (weights if self.stds is None else weights / self.stds[support]) @ self.gather(support)
        # Arms around 0 have no level, and bets on its rounding would be random. Arms are of size sqrt(d).
        return level if np.linalg.norm(level) > 1e-9 * self.dim**0.5 else np.zeros(self.dim)

    def identity(self) -> str:
        """Return the identity of these rows: a hash."""
        return self.digest().hex()

    def copies(self, arm: int) -> IntArray:
        """Return the rows equal to this one, itself included, in increasing order."""
        return self.arms.copies(arm)

    def best(self, theta: Array, among: BoolArray | None = None) -> int:
        """Return the arm with the largest theta'x; of equals, the lowest row number. `among`: look at these alone."""
        return self.arms.best(self.map @ theta, among)

    def top_quadratic(self, F: Array, n: int) -> tuple[IntArray, Array]:
        """Return the n arms with the largest |F'x|^2 and these values, largest first."""
        return self.arms.top_quadratic(self.map @ F, n)

    def rivals(
        self, leader: int, theta: Array, factors: Arrays, score: PairScore, n: int, among: BoolArray | None = None
    ) -> Rivals:
        """Return the n arms other than `leader` with the smallest score, see `ArmSet.rivals`."""
        return self.arms.rivals(leader, self.map @ theta, [self.map @ F for F in factors], score, n, among)

    def largest_loss(
        self, leader: int, estimate: LeastSquares, *, delta: float, noise_std: float, among: BoolArray | None = None
    ) -> float:
        """Return an upper bound on the leader's loss, with probability 1 - delta for all times together; one scan.

        `among`: the rivals that count.
        """
        _, bound = largest_loss_bound(
            self, leader, estimate.theta, estimate.A, delta=delta, noise_std=noise_std, among=among
        )
        return max(0.0, bound)

    def pair_forms(
        self, leader: int, vectors: Arrays, factors: Arrays, among: BoolArray, work: Callable[[PairForms], T]
    ) -> Iterator[T]:
        """Yield work(forms of y = leader - arm) for all arms of `among`, see `ArmSet.pair_forms`."""
        vectors, factors = [self.map @ u for u in vectors], [self.map @ F for F in factors]
        return self.arms.pair_forms(leader, vectors, factors, among, work)


def whiten(arms: ArmSet, stds: Array | None = None) -> WhitenedArms:
    """Return the arms in coordinates where their G-optimal design has identity information.

    Args:
        arms: the rows.
        stds: standard deviations (K,) of the noise of each, by which rows, and their rewards, are divided.

    Raises:
        InvalidInput: features are too large or too small, or different arms too close together, see `core.checks`.
    """
    if stds is not None:
        arms = divided(arms, stds)
        check_features(arms.triangle())
    # Any regular design gives valid coordinates; over a large table a closer one costs passes and gains nothing.
    design = optimal_design(arms, tol=1e-4 if arms.n_arms * arms.dim <= LARGE else 1e-2)
    # R'R = A(w) by QR, which does not square the condition number.
    back = triangular(np.sqrt(design.weights)[:, None] * arms.gather(design.support))
    check_distinct("arms", arms, back)
    return WhitenedArms(arms, back, design, stds)


ArmView = WhitenedArms | NumberedVectors
"""Arms in whitened coordinates; a learner uses the members that both share unless it asks for rows or vectors."""


@final
@dataclass(frozen=True, kw_only=True)
class Task:
    """The task of an algorithm and its stopping rule."""

    arms: ArmView
    """The arms that may be measured."""
    candidates: ArmView
    """The arms that are compared: the same object as `arms`, unless candidates were given."""
    delta: float
    given_noise_std: float | None
    """Sub-Gaussian scale of the noise; None: Gaussian noise of one unknown level."""
    epsilon: float
    seed: int
    reward_range: tuple[float, float] | None = None
    """Smallest and largest possible reward, if rewards have bounds; then `noise_std` is half their distance."""
    misfit: float = 0.0
    """Largest distance of an arm's mean from its linear fit."""
    m: int = 1
    """Number of best arms sought."""
    costs: Array | None = None
    """Cost of a pull of each arm (K,); None: equal costs."""
    noise: str = "same"
    """Name of the noise model."""
    needs_bets: bool = False
    """Whether only rules that bet on blocks have a proof for the noise."""
    needs_order: bool = False
    """Whether the proof needs blocks that are asked in random order."""
    model: str = "linear"
    """Or "unstructured": every arm has a mean of its own."""
    batch: int | None = None
    """Pulls of every block; None: as many as the sampler plans."""
    spends_all: bool = False
    """Whether sampling goes on after a proof, until the budget is spent."""
    budget: int | None = None
    """Pulls that may be made; None: no limit, or arms differ in what they cost."""
    has_offsets: bool = False
    """Whether every group of measurements, a day or a bench, may read high or low."""
    drift: float = 0.0
    """Largest distance of two readings of one arm within a block that a drift causes."""
    edition: int = 1
    """Which arms are asked where options leave it open, see `learning.spec.EDITION`."""
    target: Target | None = None
    """What candidates are held against; None: the best is sought."""
    pool: int | None = None
    """Items of the table of scores, each asked of all arms once; None: rewards come from no table."""

    @property
    def noise_std(self) -> float:
        """The scale of the noise, for rules and samplers that need one."""
        if self.given_noise_std is None:
            raise InvalidInput(
                "`noise_std` must be given here, got None: `task.noise_std` was read, and the noise is learnt. A "
                "sampler of your own can take `surepick.core.noise.noise_estimate(context.estimate)` instead."
            )
        return self.given_noise_std

    @property
    def rows(self) -> WhitenedArms:
        """The arms as rows that have numbers."""
        return as_rows(self.arms)

    @property
    def rivals(self) -> WhitenedArms:
        """The candidates as rows that have numbers."""
        return as_rows(self.candidates)

    @property
    def vectors(self) -> NumberedVectors:
        """The candidates as vectors that get numbers when they are named."""
        if not isinstance(self.candidates, NumberedVectors):
            raise InvalidInput(f"a set of vectors such as a sphere is needed, got {self.candidates.description}.")
        return self.candidates

    def priced(self, arms: ArmSet) -> ArmSet:
        """Return the arms as designs see them: rows per unit of cost (docs/guarantee.md, Theorem 33)."""
        return arms if self.costs is None else divided(arms, np.sqrt(self.costs))

    @cached_property
    def spanning(self) -> IntArray:
        """Numbers of d arms of large volume for their cost, increasing; practical variants pull these first."""
        priced = self.priced(self.rows)
        return spanning_arms(priced, frame_of(priced))


def has_constant(view: ArmView, *, checks_all: bool = False) -> bool:
    """Return whether some combination of the features is 1 for every arm.

    Args:
        view: the arms.
        checks_all: whether to look at every arm; else a few dozen have to do.
    """
    if not isinstance(view, WhitenedArms):
        return False
    spread = np.linspace(0, view.n_arms - 1, min(view.n_arms, N_SAMPLED)).astype(np.int64)
    seen = np.union1d(view.design.support, spread)
    rows = view.gather(seen) * (1.0 if view.stds is None else view.stds[seen, None])
    level = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0]
    if not np.abs(rows @ level - 1.0).max() < CONSTANT_TOL:
        return False
    return not checks_all or all(np.abs(chunk @ level - 1.0).max() < CONSTANT_TOL for _, chunk in view.chunks())


def as_rows(view: ArmView) -> WhitenedArms:
    """Return the view, if its arms are rows."""
    if not isinstance(view, WhitenedArms):
        raise InvalidInput(f'a list of arms is needed, got {view.description}; use "lazy-track-and-stop".')
    return view


# One mean per arm: a square matrix of that size, and pulls of every arm.
MOST_MEANS = 2_000


def arms_given(arms: Any, model: str, candidates: Any) -> ArmSet | VectorSet:
    """Return the set of arms; one feature each if the model is "unstructured"."""
    given: ArmSet | VectorSet = arms if isinstance(arms, VectorSet) else as_arms(arms)
    if model == "linear":
        return given
    if model != "unstructured":
        raise InvalidInput(f'`model` must be "linear" or "unstructured", got {model!r}.')
    if isinstance(given, VectorSet) or given.n_arms > MOST_MEANS or candidates is not None:
        raise InvalidInput(
            f'model="unstructured" is for a list of at most {MOST_MEANS:,} arms without other candidates; use "linear".'
        )
    return FiniteArms(np.eye(given.n_arms), names=given.names)


def views(
    arms: ArmSet | VectorSet, candidates: Any, seed: int, stds: Array | None = None
) -> tuple[ArmView, ArmView, ArmView]:
    """Return what a learner sees, all in the same coordinates: measured arms, arms as given, and candidates.

    The measured arms are divided by their noise if that differs; else the first two are the same object. The third is
    the second, unless something else is compared.

    Args:
        arms: what may be measured.
        candidates: what is compared; None: the arms.
        seed: of the rounds of a set of vectors.
        stds: the noise of every arm (K,), if it is given arm by arm.
    """
    n_arms = None if isinstance(arms, VectorSet) else arms.n_arms
    if stds is not None and n_arms != len(stds):
        needed = "one number" if isinstance(arms, VectorSet) else f"one number, or one for each of {n_arms} arms"
        raise InvalidInput(f"`noise_std` must be {needed}, got {len(stds)} of them.")
    if isinstance(arms, VectorSet):
        if candidates is not None:
            raise InvalidInput(
                f"`candidates` go with a list of arms, got them with {arms.description}; leave them out."
            )
        vectors = NumberedVectors(arms, seed)
        return vectors, vectors, vectors
    white = whiten(arms, stds)
    own = white if stds is None else white.view_of(arms)
    if isinstance(candidates, VectorSet):
        return white, own, NumberedVectors(candidates, seed, back=white.back)
    rows = own if candidates is None else white.view_of(as_candidates("candidates", candidates, arms))
    if len(rows.copies(0)) == rows.n_arms:
        raise InvalidInput("`candidates` must have at least two different rows, got one; add rows.")
    return white, own, rows


def costs_given(costs: Any, arms: ArmSet | VectorSet) -> Array | None:
    """Return what a pull of each arm costs (K,), checked; None if all cost the same."""
    if costs is None:
        return None
    if isinstance(arms, VectorSet):
        raise InvalidInput(f"`costs` go with a list of arms, got them with {arms.description}; leave them out.")
    prices = check_vector("costs", costs, arms.n_arms)
    if not (prices > 0.0).all():
        raise InvalidInput(
            f"`costs` must be positive, got {prices.min():g} for arm {int(np.argmin(prices))}; give an arm that costs "
            "next to nothing a small cost."
        )
    return prices
