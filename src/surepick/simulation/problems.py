"""Problems of the literature and random problems, each reproducible from its arguments.

Notation: X (K, d) arms; Z (M, d) candidates, the arms themselves unless said otherwise; theta (d,) the true
parameter; pulling arm x pays theta'x plus noise of standard deviation `noise_std`.

A generator that draws takes `seed` by keyword and uses `np.random.default_rng(seed)` alone: same arguments,
same problem.
"""

import itertools
import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surepick.arms.base import VectorSet
from surepick.arms.ellipsoid import Ellipsoid
from surepick.arms.finite import FiniteArms
from surepick.arms.hypercube import Hypercube
from surepick.arms.sphere import Sphere
from surepick.arms.tables.read import read_arms
from surepick.arms.top_k import TopK
from surepick.core.checks import (
    check_count,
    check_epsilon,
    check_matrix,
    check_noise_std,
    check_noise_stds,
    check_number,
    check_rewards,
    check_seed,
    check_vector,
)
from surepick.core.design import characteristic_time
from surepick.errors import InvalidInput
from surepick.simulation.pools import PoolProblem as PoolProblem  # noqa: PLC0414 (public here too)
from surepick.simulation.pools import pool as pool  # noqa: PLC0414

Array = NDArray[np.float64]

N_DRAWS = 1000
"""Instances to draw before giving up on a difficulty."""

ManyArmsVariant = Literal["as-run", "normal-std-0.09", "normal-var-0.09"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """Arms with the truth, theta and the noise level, which an experimenter does not know.

    A subclass that overrides `pull` draws its own rewards, with any noise and any means, and `loss` if means are not
    linear. `simulate` then measures by `pull` alone.

    Attributes:
        X: arms (K, d), one per row; read-only.
        theta: true parameter (d,); read-only.
        noise_std: standard deviation of the Gaussian noise of one pull, or one for each arm (K,).
        name: the generator and its arguments, or your own label.
        candidates: possible answers (M, d), if other than the arms; read-only. None means the arms.
    """

    X: Array
    theta: Array
    name: str
    noise_std: Any = 1.0
    candidates: Array | None = None

    def __post_init__(self) -> None:
        # Check, then copy in the given memory order, which may decide the last bit of a product.
        dim = check_matrix("X", self.X).shape[1]
        check_vector("theta", self.theta, dim)
        if self.candidates is not None:
            check_matrix("candidates", self.candidates, n_columns=dim)
            _set(self, candidates=_frozen(self.candidates))
        _set(self, X=_frozen(self.X), theta=_frozen(self.theta), noise_std=self._checked_noise())
        check_rewards(self.answers, self.theta)

    def _checked_noise(self) -> float | Array:
        if not np.iterable(self.noise_std) or isinstance(self.noise_std, str | bytes):
            return check_noise_std(self.noise_std)
        stds = check_noise_stds(self.noise_std)
        if len(stds) != len(self.X):
            needed = f"one number, or one for each of {len(self.X)} arms"
            raise InvalidInput(f"`noise_std` must be {needed}, got {len(stds)} numbers.")
        return stds

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self.X.shape[0])

    @property
    def dim(self) -> int:
        """Number of features d."""
        return int(self.X.shape[1])

    @property
    def answers(self) -> Array:
        """Possible answers as rows: the candidates if given, else the arms."""
        return self.X if self.candidates is None else self.candidates

    @property
    def means(self) -> Array:
        """Mean reward of each answer (M,)."""
        return np.asarray(self.answers @ self.theta)

    @cached_property
    def best(self) -> int:
        """Row of `answers` with the largest theta'z (the first of several)."""
        return int(np.argmax(self.answers @ self.theta))

    @cached_property
    def gaps(self) -> Array:
        """Loss of each answer against the best, (M,); zero at `best`."""
        values = self.answers @ self.theta
        return _frozen(values[self.best] - values)

    @property
    def min_gap(self) -> float:
        """Smallest loss among the answers other than `best`; zero when the best is not unique."""
        if len(self.answers) < 2:
            raise InvalidInput("`min_gap` needs at least two answers to compare, got 1; add arms or candidates.")
        return float(np.delete(self.gaps, self.best).min())

    def loss(self, answer: int | Sequence[int]) -> float:
        """Return the loss of an answer against the best; exactly 0 for a copy of the best.

        Of a list of m answers, how far the worst of them is behind the m-th best.
        """
        if not isinstance(answer, int | np.integer):
            values = self.answers @ self.theta
            return max(0.0, float(np.sort(values)[-len(answer)] - values[list(answer)].min()))
        is_copy = np.array_equal(self.answers[answer], self.answers[self.best])
        return 0.0 if is_copy else float(self.gaps[answer])

    def pull(self, arm: int, rng: np.random.Generator) -> float:
        """Draw the reward of one pull of row `arm` of X."""
        level = self.noise_std if isinstance(self.noise_std, float) else self.noise_std[arm]
        return float(self.X[arm] @ self.theta + level * rng.standard_normal())


@dataclass(frozen=True, eq=False, kw_only=True)
class VectorProblem:
    """A problem on a set of vectors, where answers that lose at most epsilon are right.

    Attributes:
        vectors: the arms, which are also the answers.
        theta: true parameter (d,); read-only.
        epsilon: slack, which the experimenter knows; 0 only if the set needs no slack.
        name: the generator and its arguments.
        noise_std: standard deviation of the Gaussian noise of one pull.
    """

    vectors: VectorSet
    theta: Array
    epsilon: float
    name: str
    noise_std: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.vectors, VectorSet):
            raise InvalidInput(
                f"`vectors` must be a set of vectors such as Sphere(3), got a {type(self.vectors).__name__}; "
                "listed arms make a `Problem`."
            )
        theta = _frozen(check_vector("theta", self.theta, self.dim))
        check_rewards(np.eye(self.dim), theta)
        _set(self, theta=theta, epsilon=check_epsilon(self.epsilon), noise_std=check_noise_std(self.noise_std))

    @property
    def dim(self) -> int:
        """Number of features d."""
        return self.vectors.dim

    def mean(self, arm: Array) -> float:
        """Mean reward of an arm."""
        return float(self.theta @ arm)

    def loss(self, answer: Array) -> float:
        """Return the loss of an answer against the best arm."""
        return self.mean(self.vectors.best(self.theta)) - self.mean(answer)

    def lower_bound(self, delta: float) -> float:
        """Return a lower bound on the expected pulls of any method; NaN for a set without a known bound."""
        if isinstance(self.vectors, Hypercube | TopK) and not self.epsilon:
            return self.vectors.lower_bound(self.theta, delta, self.noise_std)
        if not isinstance(self.vectors, Sphere):
            return math.nan
        return self.vectors.lower_bound(self.theta, epsilon=self.epsilon, delta=delta, noise_std=self.noise_std)


def many_arms(n_arms: int, *, seed: int = 0, variant: ManyArmsVariant = "as-run") -> Problem:
    """A cluster of `n_arms - 2` nearly equal arms at 45 degrees, the best arm e1, and one informative arm.

    Only the cluster competes with e1, and the arm at 135 degrees is the one that tells them apart, so most
    arms should never be pulled. Row order: cluster, e1, informative arm; hence `best` is `n_arms - 2`.

    Args:
        n_arms: number of arms, at least 3.
        seed: of the cluster's angles.
        variant: "as-run" draws angles 0.78 + 0.1 U(0, 1) and uses (-0.707, 0.707), which reproduces the
            published tables; the two "normal" variants read the printed N(0, 0.09) as a standard deviation or
            as a variance around pi/4. With the variance reading some arms nearly tie with e1.

    Reference: Fiez et al. (2019); Jedra and Proutiere (2020), section 5.
    """
    n_arms, seed = check_count("n_arms", n_arms, least=3), check_seed(seed)
    rng = np.random.default_rng(seed)
    center, informative = math.pi / 4, [math.cos(3 * math.pi / 4), math.sin(3 * math.pi / 4)]
    match variant:
        case "as-run":
            center, spread, informative = 0.78, 0.1 * rng.random(n_arms - 2), [-0.707, 0.707]
        case "normal-std-0.09":
            spread = 0.09 * rng.standard_normal(n_arms - 2)
        case "normal-var-0.09":
            spread = 0.3 * rng.standard_normal(n_arms - 2)
        case _:
            raise InvalidInput(f'`variant` must be "as-run", "normal-std-0.09" or "normal-var-0.09", got {variant!r}.')
    cluster = np.column_stack([np.cos(center + spread), np.sin(center + spread)])
    return Problem(
        X=np.vstack([cluster, [1.0, 0.0], informative]),
        theta=np.array([1.0, 0.0]),
        name=f"many-arms K={n_arms} {variant} seed={seed}",
    )


def soare(dim: int, angle: float = 0.1, *, scale: float = 2.0) -> Problem:
    """The basis plus one arm at a small angle from the best, with theta = scale * e1.

    Pulling the two rivals says little; the second basis vector, a poor arm, separates them. Best is row 0,
    the smallest gap scale * (1 - cos(angle)).

    Reference: Soare, Lazaric and Munos (2014).
    """
    dim = check_count("dim", dim, least=2)
    angle = check_number("angle", angle, needed="an angle in radians")
    scale = _checked_length("scale", scale)
    basis = np.eye(dim)
    arms = np.vstack([basis, math.cos(angle) * basis[0] + math.sin(angle) * basis[1]])
    return Problem(X=arms, theta=scale * basis[0], name=f"soare d={dim} angle={angle:g} scale={scale:g}")


def soare_unequal(dim: int, angle: float = 0.1, *, scale: float = 2.0, quiet: float = 0.2) -> Problem:
    """The arms of `soare` with noise of variance x'Sigma x, Sigma = diag(1, quiet^2, ..., quiet^2); ours.

    A pull of the best arm has noise of standard deviation 1, and one of every other basis vector `quiet`, so the arm
    that separates the two rivals is quiet too.
    """
    plain = soare(dim, angle, scale=scale)
    quiet = check_number("quiet", quiet, needed="a number above 0", allowed=lambda quiet: quiet > 0.0)
    stds = np.sqrt(np.square(plain.X) @ np.array([1.0, *[quiet**2] * (dim - 1)]))
    return replace(plain, noise_std=stds, name=f"{plain.name.replace('soare', 'soare-unequal')} quiet={quiet:g}")


def unit_basis(means: ArrayLike) -> Problem:
    """The classical bandit without structure: arm i is the i-th basis vector and pays means[i]."""
    try:
        n_arms = len(means)  # type: ignore[arg-type]
    except TypeError:  # a single number has no length
        n_arms = 1
    if n_arms < 2:
        raise InvalidInput(f"`means` must be at least two numbers, got {reprlib.repr(means)}; give one for each arm.")
    theta = check_vector("means", means, n_arms)
    return Problem(X=np.eye(theta.size), theta=theta, name=f"unit-basis d={theta.size}")


def transductive(dim: int) -> Problem:
    """Answers that are not the arms: the arms are the basis of twice the dimension, theta = e1.

    The 2 * dim candidates are e_j and cos(0.1) e_j + sin(0.1) e_{dim + j} for j = 1..dim; the best is row 0.

    Reference: Fiez et al. (2019).
    """
    dim = check_count("dim", dim, least=1)
    basis = np.eye(2 * dim)
    tilted = math.cos(0.1) * basis[:dim] + math.sin(0.1) * basis[dim:]
    return Problem(X=basis, theta=basis[0], candidates=np.vstack([basis[:dim], tilted]), name=f"transductive d={dim}")


def sphere(
    dim: int, n_arms: int, *, seed: int = 0, closest_pair: float | None = None, times: tuple[float, float] | None = None
) -> Problem:
    """Arms drawn uniformly on the unit sphere.

    Args:
        dim: number of features.
        n_arms: number of arms.
        seed: of the arms and of theta.
        closest_pair: None draws theta uniformly on the sphere of radius 2. A number s in [0, 1) takes the two
            closest arms x, y and theta = x + s (y - x), the hard version of the literature (s = 0.01 there).
            Finding the pair compares all of them in O(K^2 d) time and O(K d) memory.
        times: redraw until the characteristic time is between these two numbers, so that the instance is neither
            trivial nor hopeless.

    Reference: Tao, Blanco and Zhou (2018).
    """
    dim = check_count("dim", dim, least=1)
    n_arms = check_count("n_arms", n_arms, least=1 if closest_pair is None else 2)
    seed = check_seed(seed)
    if closest_pair is not None:
        needed = "a number s with 0 <= s < 1, or None"
        closest_pair = check_number(
            "closest_pair", closest_pair, needed=needed, allowed=lambda s: 0.0 <= s < 1.0, advice="0.01 is usual"
        )
    rng = np.random.default_rng(seed)
    low, high = (0.0, math.inf) if times is None else check_vector("times", times, 2)
    for _ in range(N_DRAWS):
        arms = _unit_rows(rng.standard_normal((n_arms, dim)))
        if closest_pair is None:
            theta = 2.0 * _unit_rows(rng.standard_normal((1, dim)))[0]
        else:
            first, second = _closest_pair(arms)
            theta = arms[first] + closest_pair * (arms[second] - arms[first])
        if times is None or low < characteristic_time(FiniteArms(arms), theta, tol=1e-2).value < high:
            break
    else:
        raise InvalidInput(f"`times` must be two numbers, got {times}; no instance is between them: widen the range.")
    rule = "" if closest_pair is None else f" closest-pair={closest_pair:g}"
    return Problem(X=arms, theta=theta, name=f"sphere d={dim} K={n_arms}{rule} seed={seed}")


def sphere_set(dim: int, *, norm: float = 1.0, epsilon: float = 0.1) -> VectorProblem:
    """All unit vectors as arms, theta along (1, ..., 1) with the given norm; an answer may lose epsilon.

    In contrast, `sphere` has finitely many arms.

    Reference: Jedra and Proutiere (2020), section on continuous arms.
    """
    arms, norm = Sphere(dim), _checked_length("norm", norm)
    problem = _on_set(arms, np.full(arms.dim, norm / math.sqrt(arms.dim)), epsilon)
    return replace(problem, name=f"sphere-set d={arms.dim} norm={norm:g} epsilon={problem.epsilon:g}")


def hypercube_set(theta: ArrayLike, *, epsilon: float = 0.0) -> VectorProblem:
    """All vectors of signs as arms; theta has the effect of each feature, set low or high."""
    return _on_set(Hypercube(np.size(theta)), theta, epsilon)


def top_k_set(theta: ArrayLike, k: int, *, epsilon: float = 0.0) -> VectorProblem:
    """All choices of k elements as arms; theta has the mean reward of each element."""
    return _on_set(TopK(np.size(theta), k), theta, epsilon)


def ellipsoid_set(center: ArrayLike, axes: ArrayLike, theta: ArrayLike, *, epsilon: float = 0.1) -> VectorProblem:
    """All vectors center + axes u with |u| <= 1 as arms."""
    return _on_set(Ellipsoid(center, axes), theta, epsilon)


def _on_set(vectors: VectorSet, theta: ArrayLike, epsilon: float) -> VectorProblem:
    return VectorProblem(vectors=vectors, theta=np.asarray(theta), epsilon=epsilon, name=vectors.description)


def listed(arms: ArrayLike, theta: ArrayLike) -> Problem:
    """Arms and theta as given."""
    return Problem(X=np.asarray(arms), theta=np.asarray(theta), name="listed")


def from_file(
    path: str | Path,
    *,
    rewards: str | None = None,
    theta: ArrayLike | None = None,
    noise_std: float | None = None,
    label: str | None = None,
    **options: Any,
) -> Problem:
    """Arms from a table (CSV, Excel, Parquet or .npy), with theta or with a column of rewards.

    Args:
        path: the file; rows are arms, see `surepick.read_arms`.
        rewards: the column with one measured reward for each arm. theta is its least-squares fit on the features, and
            `noise_std` the scatter around the fit unless given. So the problem is linear, and as hard as the data say.
        theta: the parameter, instead of `rewards`.
        noise_std: standard deviation of one pull; 1 beside theta.
        label: name of the problem; the name of the file unless given.
        options: options of `surepick.read_arms`, such as `features` or `drop`.
    """
    if (rewards is None) == (theta is None):
        given = "both" if theta is not None else "neither"
        raise InvalidInput(f"one of `rewards`, a column, and `theta`, a list of numbers, is needed, got {given}.")
    name = Path(path).stem if label is None else label
    if rewards is None:
        arms = read_arms(path, on_span=True, **options).X
        return Problem(X=arms, theta=np.asarray(theta), noise_std=1.0 if noise_std is None else noise_std, name=name)
    try:
        means = read_arms(path, features=[rewards], intercept=False).X[:, 0]
    except InvalidInput as error:
        raise InvalidInput(str(error).replace("(`features`)", "(`rewards`)")) from error
    drop = options.pop("drop", ())
    arms = read_arms(path, drop=[*([drop] if isinstance(drop, str) else drop), rewards], on_span=True, **options).X
    fitted: Array = np.asarray(np.linalg.lstsq(arms, means, rcond=None)[0], dtype=np.float64)
    n_spare = len(arms) - arms.shape[1]
    if noise_std is None and n_spare < 1:
        raise InvalidInput(
            f"the scatter of `rewards` needs more arms than features, got {len(arms)} arms and {arms.shape[1]} "
            "features; give `noise_std`."
        )
    scatter = float(np.sqrt(np.square(means - arms @ fitted).sum() / max(n_spare, 1)))
    return Problem(X=arms, theta=fitted, noise_std=scatter if noise_std is None else noise_std, name=name)


def random_linear(n_arms: int = 50, dim: int = 20, *, seed: int = 0) -> Problem:
    """The first dim/2 basis vectors as competitors and random unit arms that are clearly worse.

    theta starts with 1, then 0.9 on the next fifth of `dim`, 0.8 up to the middle, and U(-1, 0) on the second
    half. The other arms are uniform in the cube, normalised, and redrawn while they pay more than 1/2. With
    the defaults this is the instance of the reference up to its random numbers; the best arm is row 0.

    Reference: Tirinzoni and Degenne (2022).
    """
    dim = check_count("dim", dim, least=4)
    n_arms, seed = check_count("n_arms", n_arms, least=1), check_seed(seed)
    if n_arms < dim:
        needed = f"at least dim = {dim} so that the arms can span"
        raise InvalidInput(f"`n_arms` must be {needed}, got {n_arms}; take more arms or fewer features.")
    half = dim // 2
    rng = np.random.default_rng(seed)
    theta = np.full(dim, 0.8)
    theta[0] = 1.0
    theta[1 : 1 + dim // 5] = 0.9
    theta[half:] = rng.uniform(-1.0, 0.0, size=dim - half)
    arms = np.eye(dim)[:half]
    while len(arms) < n_arms:
        draws = _unit_rows(rng.uniform(-1.0, 1.0, size=(n_arms, dim)))
        arms = np.vstack([arms, draws[draws @ theta <= 0.5]])
    return Problem(X=arms[:n_arms], theta=theta, name=f"random-linear K={n_arms} d={dim} seed={seed}")


def multivariate(n_factors: int, *, seed: int = 0) -> Problem:
    """Multivariate testing: 2^n_factors page versions with main effects and pairwise interactions.

    Features of a version: 1, the n_factors settings as -1/+1, and for every pair of factors +1 if they agree
    and -1 if not; d = 1 + D + D(D-1)/2. Coefficients are integers uniform on -10..9 divided by 100, the first
    interaction halved, redrawn until the best version leads by more than 1e-5.

    Reference: Fiez et al. (2019), as in their public code.
    """
    n_factors, seed = check_count("n_factors", n_factors, least=2), check_seed(seed)
    if n_factors > 16:
        raise InvalidInput(f"`n_factors` must be at most 16, got {n_factors}; take fewer: it gives 2^n_factors arms.")
    rng = np.random.default_rng(seed)
    settings = np.array(list(itertools.product([-1.0, 1.0], repeat=n_factors)))
    pairs = [settings[:, i] * settings[:, j] for i, j in itertools.combinations(range(n_factors), 2)]
    arms = np.column_stack([np.ones(len(settings)), settings, *pairs])
    while True:
        theta = rng.integers(-10, 10, size=(arms.shape[1],)) / 100.0
        theta[1 + n_factors] /= 2.0
        second, first = np.sort(arms @ theta)[-2:]
        if first - second > 1e-5:
            return Problem(X=arms, theta=theta, name=f"multivariate factors={n_factors} seed={seed}")


def _checked_length(name: str, value: object) -> float:
    """Return a length as a float; 0 is allowed and makes all arms tie."""
    needed = "a length of at least 0"
    return check_number(name, value, needed=needed, allowed=lambda length: length >= 0.0, advice="drop the sign")


def _set(problem: Problem | VectorProblem, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(problem, name, value)


def _frozen(values: ArrayLike) -> Array:
    """Return a read-only copy, so that no run can change a shared problem."""
    copy = np.array(values, dtype=np.float64)
    copy.setflags(write=False)
    return copy


def _unit_rows(rows: Array) -> Array:
    norms: Array = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / norms


def _closest_pair(rows: Array) -> tuple[int, int]:
    """Return the two nearest rows, the earlier one first."""
    best = (math.inf, 0, 1)
    for i in range(len(rows) - 1):
        distances = np.linalg.norm(rows[i + 1 :] - rows[i], axis=1)
        j = int(np.argmin(distances))
        best = min(best, (float(distances[j]), i, i + 1 + j))
    return best[1], best[2]
