"""The contract of a set of arms, of rows or of vectors, as tests to inherit.

Every answer is checked against brute force: a set of rows is compared with all of its rows (`RowChecks`), a set of
vectors with its own arms (`VectorChecks`). Notation: that of `arms.base`.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

from surepick.arms.base import ArmSet, HardestRival, PairForms, PairScore, Rivals, VectorSet
from surepick.core.evidence import glr
from surepick.core.linalg import independent_columns, square_norms, triangular, upper_inverse
from surepick.errors import InvalidInput
from surepick.testing.algorithms import Trial, clear, replays, right_answer
from surepick.types import Array, BoolArray, IntArray


class ArmSetContract:
    """The contract of a set of arms: subclass it in a test file and define `make`; pytest finds the tests.

    The set may hold rows (`surepick.arms.base.ArmSet`) or vectors (`surepick.arms.base.VectorSet`). The tests compare
    every answer with brute force: over all rows, so make a set of at most a few thousand; or over the arms of some
    rounds and the best arms of random parameters. All random numbers are seeded, so a set that passes once passes
    always. Each test is a method without arguments and needs no test framework.

    Attributes:
        epsilon: slack in the questions to sets of vectors; about the scale on which arms of the set differ when
            parameters have length 1 in coordinates where a round has identity information per pull.
        tolerance: relative error that answers may have.
        max_pulls: pulls within which an identification must stop.

    Examples:
        >>> import surepick as sp
        >>> class TestCube(ArmSetContract):
        ...     def make(self):
        ...         return sp.Hypercube(3)
        >>> TestCube().test_best_arm()
    """

    epsilon: float = 0.25
    tolerance: float = 1e-6
    max_pulls: int = 20_000

    def make(self) -> Any:
        """Return the set. Every test calls `make` anew, and each call must return an equal set."""
        raise NotImplementedError("define `make` in your subclass: it returns the set to be tested")

    def _checks(self) -> "RowChecks | VectorChecks":
        made = self.make()
        if isinstance(made, VectorSet):
            return VectorChecks(made, self.make(), epsilon=self.epsilon, tolerance=self.tolerance)
        lacking = _lacking(made, ArmSet)
        assert not lacking, (
            f"{type(made).__name__} is not a set of arms: a set of rows needs {lacking} as well, a set of vectors "
            f"{_lacking(made, VectorSet)}"
        )
        return RowChecks(made, self.make(), tolerance=self.tolerance)

    def _trial(self, checks: "RowChecks | VectorChecks", epsilon: float | None = None) -> Trial:
        slack = checks.epsilon if epsilon is None else epsilon
        return Trial("lazy-track-and-stop", self.make, checks.theta, checks.noise_std, slack)

    def test_arms_as_written(self) -> None:
        """Rows: gather, chunks and copies agree. Vectors: every arm handed out is an arm, and stays as it is."""
        self._checks().arms_as_written()

    def test_rounds_span(self) -> None:
        """Rows: the triangle is that of all rows. Vectors: each round spans, and depends on number and seed alone."""
        self._checks().span()

    def test_best_arm(self) -> None:
        """No arm is better than the best; ties always go to the same arm, in a list of rows to the first."""
        self._checks().best()

    def test_most_confusing_arm(self) -> None:
        """No arm is harder to tell from the best than the set says."""
        self._checks().most_confusing()

    def test_units(self) -> None:
        """Other units of rewards and of information change the numbers as they should, and no answer."""
        self._checks().units()

    def test_extreme_estimates(self) -> None:
        """An estimate of zero and information that is hardly there in some direction are answered with numbers."""
        self._checks().extremes()

    def test_refusals(self) -> None:
        """The set refuses vectors that are no arms with `InvalidInput`, and epsilon = 0 if it needs slack."""
        checks = self._checks()
        checks.refusals()
        learner = self._trial(checks).learner(delta=0.1)
        must_refuse(lambda: learner.tell("no arm", 0.0), "tell('no arm', 0.0)")
        if checks.needs_slack:
            slackless = self._trial(checks, epsilon=0.0)
            must_refuse(lambda: slackless.learner(delta=0.1), "a learner with epsilon = 0")

    def test_log_replays(self) -> None:
        """A learner rebuilt from the log of another asks for the same arms and decides the same, bit for bit."""
        replays(self._trial(self._checks()))

    def test_identification(self) -> None:
        """With little noise an identification ends, and its answer is within epsilon of the best."""
        right_answer(self._trial(self._checks()), self.max_pulls)


def _lacking(made: object, protocol: type) -> str:
    """Return the names of the members that an object would need to have as well."""
    names = sorted(name for name in {*vars(protocol), *protocol.__annotations__} if not name.startswith("_"))
    return ", ".join(name for name in names if not hasattr(made, name))


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


@final
class RowChecks:
    """Checks of a set of rows.

    Args:
        arms: the set.
        twin: another instance of the same set.
        tolerance: relative error that answers may have.
    """

    noise_std, epsilon, needs_slack = 0.1, 0.0, False

    def __init__(self, arms: ArmSet, twin: ArmSet, *, tolerance: float) -> None:
        self.arms, self.twin, self.tolerance = arms, twin, tolerance
        self.rows = arms.gather(np.arange(arms.n_arms))
        assert self.rows.shape == (arms.n_arms, arms.dim), (
            f"gather of all {arms.n_arms} rows returned shape {self.rows.shape}, must be {(arms.n_arms, arms.dim)}"
        )
        assert np.isfinite(self.rows).all(), "rows must be finite numbers"
        self.is_distributed = not arms.is_local
        self.size = float(np.abs(self.rows).max())
        rng = np.random.default_rng(1)
        self.groups = np.unique(self.rows, axis=0, return_inverse=True)[1].reshape(-1)
        """A number per row, the same for equal rows."""
        self.copied = np.flatnonzero(np.bincount(self.groups)[self.groups] > 1)
        self.some: BoolArray = rng.random(arms.n_arms) < 0.5
        self.some[int(rng.integers(arms.n_arms))] = True
        self.theta = clear(self.rows, rng)

    def _copies(self, arm: int) -> IntArray:
        return np.flatnonzero(self.groups == self.groups[arm])

    def arms_as_written(self) -> None:
        """Check gather, copies and chunks."""
        n, dim = self.arms.n_arms, self.arms.dim
        assert self.rows.dtype == np.float64, f"rows must be float64, got {self.rows.dtype}"
        index = [n - 1, 0, n - 1, n // 2, 0]
        assert np.array_equal(self.arms.gather(index), self.rows[index]), f"gather({index}) returned other rows"
        assert self.arms.gather([]).shape == (0, dim), f"gather([]) must have shape (0, {dim})"
        assert np.array_equal(self.twin.gather(np.arange(n)), self.rows), "`make` must give the same rows every time"
        for arm in {*range(min(n, 20)), n - 1}:
            copies = self.arms.copies(arm)
            assert np.array_equal(copies, self._copies(arm)), (
                f"copies({arm}) returned {copies.tolist()}, the equal rows are {self._copies(arm).tolist()}"
            )
        if not self.is_distributed:
            expected = 0
            for start, rows in self.arms.chunks():
                assert start == expected, f"a chunk begins at row {start}, must go on at {expected}"
                assert np.array_equal(rows, self.rows[start : start + len(rows)]), f"the chunk at {start} is wrong"
                expected += len(rows)
            assert expected == n, f"chunks cover {expected} of {n} rows"

    def span(self) -> None:
        """Check the triangle and the largest quadratic forms."""
        triangle, dim = self.arms.triangle(), self.arms.dim
        assert triangle.shape == (dim, dim)
        assert np.array_equal(triangle, np.triu(triangle)), "the triangle must be upper triangular"
        scale = np.linalg.norm(self.rows, axis=0)
        assert (scale > 0.0).all(), "a feature is zero in every row"
        off = (triangle.T @ triangle - self.rows.T @ self.rows) / np.outer(scale, scale)
        assert np.abs(off).max() < 1e-9, f"triangle' triangle differs from X'X by {np.abs(off).max():g}, relatively"
        assert np.linalg.matrix_rank(self.rows / scale) == dim, "the rows do not span"
        for condition in (1.0, 100.0):
            factor = factor_of(dim, condition=condition, rng=np.random.default_rng(2))
            values = square_norms(self.rows @ factor)
            for n in (1, 3, self.arms.n_arms):
                index, found = self.arms.top_quadratic(factor, n)
                n_found = min(n, self.arms.n_arms)
                assert len(set(index.tolist())) == n_found, f"top_quadratic must return {n_found} different rows"
                self._close(found, values[index], "values of top_quadratic")
                self._close(found, np.sort(values)[::-1][:n_found], "the largest values of top_quadratic")

    def best(self) -> None:
        """Check the best row, also among some and where rows tie."""
        rng = np.random.default_rng(3)
        # Parameters with one entry, and zero: products are exact, so equal rows tie exactly.
        exact = [np.zeros(self.arms.dim), *np.eye(self.arms.dim), *-np.eye(self.arms.dim)]
        for theta in [*exact, *rng.standard_normal((20, self.arms.dim))]:
            values = self.rows @ theta
            for among in (None, self.some):
                allowed = np.ones(self.arms.n_arms, dtype=bool) if among is None else among
                found, most = self.arms.best(theta, among), float(values[allowed].max())
                assert allowed[found], f"best returned row {found}, which is not among those allowed"
                room = 1e-12 * self.size * float(np.abs(theta).sum())
                assert values[found] >= most - room, f"best returned row {found}, another is {most - values[found]:g}"
                if np.count_nonzero(theta) <= 1:
                    lowest = int(np.flatnonzero(allowed & (values == most))[0])
                    assert found == lowest, f"rows {lowest} and {found} tie; best must return the lower number"
        # Of copies, which BLAS may round differently, the first: they lead where all that is better is left out.
        for arm in self.copied[:5]:
            theta = rng.standard_normal(self.arms.dim)
            values, copies = self.rows @ theta, self._copies(arm)
            allowed = values < values[arm] - 1e-9 * float(np.abs(values).max())
            allowed[copies[-2:]] = True
            found = self.arms.best(theta, allowed)
            assert found == copies[-2], f"best returned row {found}, the first of the best rows is {copies[-2]}"

    def most_confusing(self) -> None:
        """Check rivals, the single rival, and the forms of all pairs."""
        for leader, theta, factors, score in self._questions():
            others = self.groups != self.groups[leader]
            gap, expected = self._scores(leader, theta, factors, score)
            for among in (None, self.some):
                allowed = others if among is None else others & among
                for n in (1, 4, self.arms.n_arms):
                    found = self.arms.rivals(leader, theta, factors, score, n, among)
                    self._check_rivals(found, expected, gap, allowed, n)
            single = self.arms.most_confusing(leader, theta, factors, score)
            assert others[single.index], f"row {single.index} is a copy of the leader {leader}, not its rival"
            self._close(single.score, expected.min(), "the score of most_confusing")
            self._close(expected[single.index], expected.min(), "the score of the row that most_confusing returned")
            assert single.index == self._copies(single.index)[0], "most_confusing must return the first of equal rows"
            if not self.is_distributed:
                self._check_pair_forms(leader, theta, factors)

    def _check_rivals(self, found: Rivals, expected: Array, gap: Array, allowed: BoolArray, n: int) -> None:
        n_found = min(n, int(allowed.sum()))
        assert len(set(found.index.tolist())) == len(found.index) == n_found, f"rivals must return {n_found} rows"
        if not n_found:
            return
        assert allowed[found.index].all(), "rivals returned a copy of the leader, or a row that is not allowed"
        self._close(found.score, np.sort(expected[allowed])[:n_found], "the lowest scores of rivals")
        self._close(found.score, expected[found.index], "the scores of the rows that rivals returned")
        room = self.tolerance * float(np.abs(gap).max())
        assert np.allclose(found.gap, gap[found.index], rtol=self.tolerance, atol=room), "gaps of rivals are wrong"
        least = float(gap[allowed].min())
        assert abs(found.smallest_gap - least) <= room, f"smallest_gap is {found.smallest_gap:g}, must be {least:g}"

    def _check_pair_forms(self, leader: int, theta: Array, factors: list[Array]) -> None:
        vectors = [theta, np.ones(self.arms.dim)]
        forms: list[PairForms] = list(self.arms.pair_forms(leader, vectors, factors, self.some, lambda form: form))
        index = np.concatenate([np.empty(0, dtype=np.int64), *(form.index for form in forms)])
        assert np.array_equal(index, np.flatnonzero(self.some)), "pair_forms must visit the rows asked for, in order"
        for form in forms:
            y = self.rows[leader] - self.rows[form.index]
            for got, product in zip(form.products, [y @ vector for vector in vectors], strict=True):
                assert np.allclose(got, product, atol=1e-9 * float(np.abs(product).max())), "a product is wrong"
            for got, square in zip(form.squares, [square_norms(y @ factor) for factor in factors], strict=True):
                assert np.allclose(got, square, atol=1e-9 * float(square.max())), "a square is wrong"

    def units(self) -> None:
        """Check that scaling theta and factors scales scores, and leaves the answers."""
        for leader, theta, factors, _ in self._questions():
            doubled = [factors[0], factors[-1]]
            one = self.arms.most_confusing(leader, theta, doubled, _two_forms)
            two = self.arms.most_confusing(leader, 8.0 * theta, [4.0 * factor for factor in doubled], _two_forms)
            assert self.arms.best(theta) == self.arms.best(8.0 * theta), "best depends on the unit of rewards"
            assert one.index == two.index, f"row {one.index} is hardest, but in other units row {two.index}"
            self._close(two.score, 2.0 * one.score, "the score in other units")

    def extremes(self) -> None:
        """Check an estimate of zero and factors of condition number 1e8."""
        factor = factor_of(self.arms.dim, condition=1e8, rng=np.random.default_rng(4))
        for theta in (np.zeros(self.arms.dim), self.theta):
            leader = self.arms.best(theta)
            found = self.arms.most_confusing(leader, theta, [factor], _one_form)
            assert np.isfinite(found.score), f"the score is {found.score}"
            self._close(found.score, self._scores(leader, theta, [factor], _one_form)[1].min(), "the score")

    def refusals(self) -> None:
        """Check nothing: the learner refuses wrong row numbers."""

    def _questions(self) -> Iterator[tuple[int, Array, list[Array], PairScore]]:
        """Yield leaders with theta, one or two factors, and a score of them."""
        rng = np.random.default_rng(5)
        dim = self.arms.dim
        for condition in (1.0, 30.0):
            theta = rng.standard_normal(dim) / self.size
            factors = [factor_of(dim, condition=condition, rng=rng) for _ in range(2)]
            yield self.arms.best(theta), theta, factors[:1], _one_form
            yield int(rng.integers(self.arms.n_arms)), theta, factors, _two_forms
        if len(self.copied):
            yield int(self.copied[0]), theta, factors[:1], _distance

    def _scores(self, leader: int, theta: Array, factors: list[Array], score: PairScore) -> tuple[Array, Array]:
        """Return gap and score of every row, by brute force; copies of the leader score infinity."""
        y = self.rows[leader] - self.rows
        gap, others = y @ theta, self.groups != self.groups[leader]
        scores = np.full(len(y), np.inf)
        scores[others] = score(gap[others], *[square_norms(y[others] @ factor) for factor in factors])
        return gap, scores

    def _close(self, found: Any, expected: Any, what: str) -> None:
        room = self.tolerance * float(np.abs(expected).max(initial=0.0))
        assert np.allclose(found, expected, rtol=self.tolerance, atol=1e-3 * room), (
            f"{what}: got {np.asarray(found).tolist()}, must be {np.asarray(expected).tolist()}"
        )


def _one_form(gap: Array, square: Array) -> Array:
    with np.errstate(divide="ignore"):  # a set may wrongly ask about copies of the leader
        return glr(gap, square, 0.5)


def _distance(gap: Array, square: Array) -> Array:
    """Return a score that is lowest, 0, for copies of the leader, which must not be scored."""
    return np.abs(gap) + square


def _two_forms(gap: Array, first: Array, second: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        score: Array = gap / np.sqrt(first + second)
    return score


@final
class VectorChecks:
    """Checks of a set of vectors.

    Parameters and factors are drawn in whitened coordinates, where the first round has identity information per pull,
    so that they suit a set in any units.

    Args:
        vectors: the set.
        twin: another instance of the same set.
        epsilon: slack.
        tolerance: relative error that answers may have.
    """

    noise_std = 0.2

    def __init__(self, vectors: VectorSet, twin: VectorSet, *, epsilon: float, tolerance: float) -> None:
        self.vectors, self.twin, self.epsilon, self.tolerance = vectors, twin, epsilon, tolerance
        self.dim, self.needs_slack = vectors.dim, vectors.needs_slack
        first = self._round(0, 0)
        self.back = triangular(first / math.sqrt(len(first)))
        self.map = upper_inverse(self.back)
        rng = np.random.default_rng(1)
        self.thetas = [self._unit(rng.standard_normal(self.dim)) for _ in range(8)]
        self.theta = self.thetas[0]
        wide = [self._unit(theta) for theta in rng.standard_normal((100, self.dim))]
        rounds = [arm for number in range(3) for arm in self._round(number, seed=number)]
        self.arms = np.array([*rounds, *map(vectors.best, wide), *map(vectors.best, self.thetas)])
        """Arms to compare every answer with."""
        self.size = float(np.abs(self.arms).max())

    def _unit(self, direction: Array) -> Array:
        """Return a parameter of length 1 in whitened coordinates."""
        return self.map @ (direction / np.linalg.norm(direction))

    def _round(self, number: int, seed: int) -> Array:
        arms = self.vectors.cycle(number, seed)
        assert arms.shape[1:] == (self.dim,), f"cycle({number}, {seed}) must be (n, {self.dim}), got {arms.shape}"
        assert np.isfinite(arms).all(), f"cycle({number}, {seed}) must be finite"
        assert len(independent_columns(triangular(arms))) == self.dim, (
            f"the {len(arms)} arms of cycle({number}, {seed}) do not span R^{self.dim}: each round must by itself"
        )
        return arms

    def arms_as_written(self) -> None:
        """Check that `checked` takes the arms of rounds unchanged, and its own answers too."""
        assert isinstance(self.vectors.description, str)
        assert self.vectors.description, "`description` must say what the set is called"
        for number, seed in ((0, 0), (1, 0), (2, 7)):
            for arm in self._round(number, seed):
                for written in (arm, arm.tolist(), tuple(arm.tolist())):
                    kept = self.vectors.checked(written)
                    assert kept.dtype == np.float64, f"checked must return float64, got {kept.dtype}"
                    assert np.array_equal(kept, arm), (
                        f"checked must return an arm of a round as it is: {arm.tolist()} became {kept.tolist()}"
                    )
        for arm in self.arms:
            once = self.vectors.checked(arm)
            assert np.allclose(once, arm, rtol=1e-9, atol=1e-9 * self.size), f"checked moved {arm} to {once}"
            assert np.array_equal(self.vectors.checked(once), once), f"checked changed its own answer {once.tolist()}"

    def span(self) -> None:
        """Check that rounds span and follow from number and seed."""
        for number, seed in ((0, 0), (1, 0), (5, 3), (40, 2**31)):
            arms = self._round(number, seed)
            assert np.array_equal(self.vectors.cycle(number, seed), arms), "the same round came out differently"
            assert np.array_equal(self.twin.cycle(number, seed), arms), "an equal set has another round"

    def best(self) -> None:
        """Check that no arm at hand is better than the best."""
        for theta in self._some_thetas():
            best = self.vectors.best(theta)
            assert best.shape == (self.dim,), f"best must return a vector of {self.dim}, got shape {best.shape}"
            assert np.array_equal(self.vectors.best(theta), best), "the same theta got another best arm"
            assert np.array_equal(self.twin.best(theta), best), "an equal set has another best arm"
            values = self.arms @ theta
            better = float(values.max()) - float(best @ theta)
            assert better <= 1e-9 * self.size * float(np.abs(theta).sum()), (
                f"best returned {best.tolist()}, but {self.arms[np.argmax(values)].tolist()} is better by {better:g}"
            )

    def most_confusing(self) -> None:
        """Check that the statistic is below the ratio of every arm at hand, and is attained if it says so."""
        for theta, factor, epsilon in self._questions(self._some_thetas(), (1.0, 20.0, 1e3), seed=2):
            found = self._bounded(theta, factor, epsilon)
            if found.is_exact:
                ratio = float(self._ratios(theta, factor, epsilon, found.rival[None])[0])
                assert math.isclose(ratio, found.value, rel_tol=self.tolerance, abs_tol=1e-12), (
                    f"the statistic is {found.value:g} and called exact, but the rival has {ratio:g}"
                )

    def units(self) -> None:
        """Check how the statistic scales, and that more slack never makes it smaller."""
        rng = np.random.default_rng(3)
        for theta in self.thetas:
            factor = self.map @ factor_of(self.dim, condition=20.0, rng=rng)
            for epsilon in self._slacks():
                value = self.vectors.confusion(theta, factor, epsilon).value
                louder = self.vectors.confusion(8.0 * theta, factor, 8.0 * epsilon).value
                vaguer = self.vectors.confusion(theta, 8.0 * factor, epsilon).value
                for what, other in (("theta and epsilon", louder / 64.0), ("F", vaguer * 64.0)):
                    assert math.isclose(value, other, rel_tol=self.tolerance, abs_tol=1e-12), (
                        f"with {what} times 8 the statistic, {value:g}, became {other:g} where it should stay"
                    )
            values = [self.vectors.confusion(theta, factor, epsilon).value for epsilon in self._slacks()]
            for less, more in itertools.pairwise(values):
                assert less <= more * (1.0 + self.tolerance), f"more slack made the statistic smaller: {values}"

    def extremes(self) -> None:
        """Check an estimate of zero, and factors of condition number 1e8."""
        for theta, factor, epsilon in self._questions([np.zeros(self.dim), *self.thetas[:4]], (1.0, 1e8), seed=4):
            found = self._bounded(theta, factor, epsilon)
            assert found.rival.shape == (self.dim,), "the rival must be a vector of the set"
            assert np.isfinite(found.rival).all(), f"the rival {found.rival} is not finite"

    def refusals(self) -> None:
        """Check that the set refuses vectors that are no arms, and epsilon = 0 if it needs slack."""
        arm = self.arms[0].tolist()
        holes = [math.nan, *arm[1:]]
        for wrong in ([*arm, 1.0], arm[:-1], [arm], [], holes, [math.inf, *arm[1:]], "arm", ["a"] * self.dim, None):
            must_refuse(lambda wrong=wrong: self.vectors.checked(wrong), f"checked({wrong!r})")  # type: ignore[misc]
        must_refuse(lambda: self.vectors.checked([1e6 * self.size + 1.0] * self.dim), "an arm far outside the set")
        if self.needs_slack:
            must_refuse(lambda: self.vectors.confusion(self.theta, self.map, 0.0), "confusion with epsilon = 0")

    def _some_thetas(self) -> list[Array]:
        """Return random parameters, and some with zeros, under which arms may tie."""
        return [*self.thetas, *np.eye(self.dim)[:3], -np.eye(self.dim)[0]]

    def _questions(
        self, thetas: list[Array], conditions: tuple[float, ...], *, seed: int
    ) -> Iterator[tuple[Array, Array, float]]:
        """Yield every theta with factors of these condition numbers and every slack."""
        rng = np.random.default_rng(seed)
        for theta, condition in itertools.product(thetas, conditions):
            factor = self.map @ factor_of(self.dim, condition=condition, rng=rng)
            yield from ((theta, factor, epsilon) for epsilon in self._slacks())

    def _slacks(self) -> list[float]:
        slacks = [0.01 * self.epsilon, 0.3 * self.epsilon, self.epsilon, 8.0 * self.epsilon]
        return slacks if self.needs_slack else [0.0, *slacks]

    def _bounded(self, theta: Array, factor: Array, epsilon: float) -> HardestRival:
        """Return the statistic after a look at every arm at hand."""
        found = self.vectors.confusion(theta, factor, epsilon)
        assert math.isfinite(found.value), f"the statistic is {found.value}, must be finite"
        assert found.value >= 0.0, f"the statistic is {found.value}, must be at least 0"
        ratios = self._ratios(theta, factor, epsilon, np.vstack([self.arms, found.rival]))
        least = int(np.argmin(ratios))
        assert found.value <= ratios[least] * (1.0 + self.tolerance) + 1e-12, (
            f"the statistic is {found.value:g} with epsilon = {epsilon:g}, but the arm "
            f"{np.vstack([self.arms, found.rival])[least].tolist()} has {ratios[least]:g}: it must be a lower bound"
        )
        return found

    def _ratios(self, theta: Array, factor: Array, epsilon: float, arms: Array) -> Array:
        """Return (theta'(a - b) + epsilon)^2 / (2 |F'(a - b)|^2) of arms b; infinite for a itself."""
        y = self.vectors.best(theta) - arms
        is_other = np.abs(y).max(axis=1) > 1e-9 * self.size
        ratios = np.full(len(arms), np.inf)
        reach = np.maximum(y[is_other] @ theta + epsilon, 0.0)
        ratios[is_other] = np.square(reach) / (2.0 * np.square(y[is_other] @ factor).sum(axis=1))
        return ratios
