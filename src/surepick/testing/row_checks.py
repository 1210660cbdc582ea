"""Checks of a set of rows: every oracle against brute force over its rows.

The checks of vectors use `factor_of` and `must_refuse` too.
"""

from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

from surepick.arms.base import ArmSet, PairForms, PairScore, Rivals
from surepick.core.evidence import glr
from surepick.core.linalg import square_norms
from surepick.errors import InvalidInput
from surepick.types import Array, BoolArray, IntArray


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
        self.theta = self._separating(rng)

    def _separating(self, rng: np.random.Generator) -> Array:
        """Return, of some random parameters, the one whose best row is furthest ahead, compared with the spread."""

        def lead(theta: Array) -> float:
            values = self.rows @ theta
            others = values[self.groups != self.groups[np.argmax(values)]]
            return float((values.max() - others.max()) / np.ptp(values))

        theta: Array = max(rng.standard_normal((200, self.arms.dim)), key=lead)
        return theta / np.ptp(self.rows @ theta)

    def mean_of(self, arm: int) -> float:
        """Return the mean reward of a row."""
        return float(self.rows[arm] @ self.theta)

    def best_mean(self) -> float:
        """Return the mean reward of the best row, by brute force."""
        return float((self.rows @ self.theta).max())

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
