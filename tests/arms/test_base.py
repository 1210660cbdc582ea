"""Oracles against brute force, whatever the chunks; duplicates, spans, digits and memory of finite arms."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Self

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from surepick import FiniteArms, InvalidInput
from surepick.arms.base import ArmSet
from surepick.core.linalg import first_copies
from surepick.types import Array, BoolArray
from tests.arms.pieces import InPieces
from tests.families import FAMILIES, Family, spanning

seeds = st.integers(0, 2**32 - 1)


def grid_problem(seed: int, n_arms: int, dim: int) -> tuple[Array, Array, Array, Array]:
    """Return X, theta and two factors of small integers: exact in floating point, full of ties and duplicates."""
    rng = np.random.default_rng(seed)
    shapes: tuple[tuple[int, ...], ...] = ((n_arms, dim), (dim,), (dim, dim), (dim, 2))
    X, theta, F, G = (rng.integers(-2, 3, shape).astype(float) for shape in shapes)
    return X, theta, F, G


def both_ways(X: Array, step: int) -> tuple[ArmSet, ArmSet]:
    """Return the arms under test and the same rows in chunks of `step`."""
    return FiniteArms.rows_only(X, least=1), InPieces(X, step)


def pair_score(gap: Array, first: Array, second: Array) -> Array:
    """A score that is exact on integers and uses all its arguments."""
    return 3.0 * gap - first + 2.0 * second


class TestOraclesEqualBruteForce:
    """Every oracle against a loop over all arms, exactly, for any chunk size."""

    @given(seed=seeds, n_arms=st.integers(1, 40), dim=st.integers(1, 4), step=st.integers(1, 41))
    @example(seed=0, n_arms=40, dim=1, step=7)
    def test_best_is_the_lowest_row_among_the_largest_rewards(
        self, seed: int, n_arms: int, dim: int, step: int
    ) -> None:
        """The best arm has the largest reward, and no lower row has the same."""
        X, theta, _, _ = grid_problem(seed, n_arms, dim)
        rewards = [sum(a * b for a, b in zip(x, theta, strict=True)) for x in X.tolist()]
        for arms in both_ways(X, step):
            assert arms.best(theta) == rewards.index(max(rewards))

    @given(seed=seeds, n_arms=st.integers(1, 40), dim=st.integers(1, 4), step=st.integers(1, 41), n=st.integers(1, 50))
    def test_top_quadratic_sorts_by_value_then_by_row(
        self, seed: int, n_arms: int, dim: int, step: int, n: int
    ) -> None:
        """The n largest values come first, ties by row number; all arms when n exceeds their number."""
        X, _, F, _ = grid_problem(seed, n_arms, dim)
        values = [float(sum((x @ f) ** 2 for f in F.T)) for x in X]
        expected = sorted(range(n_arms), key=lambda i: (-values[i], i))[:n]
        for arms in both_ways(X, step):
            index, found = arms.top_quadratic(F, n)
            assert index.tolist() == expected
            assert found.tolist() == [values[i] for i in expected]

    @given(
        seed=seeds,
        n_arms=st.integers(1, 40),
        dim=st.integers(1, 4),
        step=st.integers(1, 41),
        n=st.integers(1, 50),
        restricted=st.booleans(),
    )
    def test_rivals_sort_by_score_then_by_row_and_leave_out_the_leader(
        self, seed: int, n_arms: int, dim: int, step: int, n: int, restricted: bool
    ) -> None:
        """Rivals are the n lowest scores among rows that differ from the leader and are allowed."""
        X, theta, F, G = grid_problem(seed, n_arms, dim)
        rng = np.random.default_rng(seed + 1)
        leader = int(rng.integers(n_arms))
        among: BoolArray | None = rng.random(n_arms) < 0.5 if restricted else None
        gaps, scores = {}, {}
        for i in range(n_arms):
            y = X[leader] - X[i]
            if y.any() and (among is None or among[i]):
                gaps[i] = float(y @ theta)
                scores[i] = 3.0 * gaps[i] - float(np.sum((y @ F) ** 2)) + 2.0 * float(np.sum((y @ G) ** 2))
        expected = sorted(scores, key=lambda i: (scores[i], i))[:n]
        for arms in both_ways(X, step):
            found = arms.rivals(leader, theta, (F, G), pair_score, n, among)
            assert found.index.tolist() == expected
            assert found.score.tolist() == [scores[i] for i in expected]
            assert found.gap.tolist() == [gaps[i] for i in expected]
            assert found.smallest_gap == min(gaps.values(), default=np.inf)

    @given(seed=seeds, n_arms=st.integers(2, 40), dim=st.integers(1, 4), step=st.integers(1, 41))
    def test_the_most_confusing_arm_is_the_first_rival(self, seed: int, n_arms: int, dim: int, step: int) -> None:
        """One rival asked for alone is the first of many, and the lowest row among its copies."""
        X, theta, F, G = grid_problem(seed, n_arms, dim)
        X[0] = X[1] + 1.0  # at least two different arms
        for arms in both_ways(X, step):
            first, many = (
                arms.most_confusing(1, theta, (F, G), pair_score),
                arms.rivals(1, theta, (F, G), pair_score, n_arms),
            )
            assert (first.index, first.score, first.gap) == (many.index[0], many.score[0], many.gap[0])
            assert first.smallest_gap == many.gap.min()

    @given(seed=seeds, n_arms=st.integers(1, 40), dim=st.integers(1, 3))
    def test_copies_and_representatives_are_those_of_a_double_loop(self, seed: int, n_arms: int, dim: int) -> None:
        """Copies are the equal rows in order, and the representative is the first of them."""
        X = grid_problem(seed, n_arms, dim)[0]
        arms = FiniteArms.rows_only(X, least=1)
        for i in range(n_arms):
            expected = [j for j in range(n_arms) if X[j].tolist() == X[i].tolist()]
            assert arms.copies(i).tolist() == expected
            assert arms.representative(i) == expected[0]

    @given(seed=seeds, n_arms=st.integers(1, 40), dim=st.integers(1, 5), step=st.integers(1, 41))
    def test_the_triangle_is_square_upper_and_has_the_same_products(
        self, seed: int, n_arms: int, dim: int, step: int
    ) -> None:
        """R is (d, d) upper triangular with R'R = X'X, also for fewer arms than features."""
        X = grid_problem(seed, n_arms, dim)[0]
        for arms in both_ways(X, step):
            R = arms.triangle()
            assert R.shape == (dim, dim)
            assert not np.tril(R, -1).any()
            np.testing.assert_allclose(R.T @ R, X.T @ X, atol=1e-12 * n_arms)

    @pytest.mark.parametrize(
        "index", [[], [4, 0, 4], np.array([2]), (1, 3)], ids=["none", "repeated", "array", "tuple"]
    )
    def test_gather_returns_the_rows_asked_for(self, index: Sequence[int]) -> None:
        """Rows come in the order asked for, any number of times, as an (n, d) table."""
        X = np.random.default_rng(0).standard_normal((5, 3))
        rows = FiniteArms(X).gather(index)
        np.testing.assert_array_equal(rows, X[list(index)].reshape(-1, 3))

    @pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
    def test_real_valued_arms_agree_to_rounding(self, family: Family) -> None:
        """On every family of arms the oracles find the values of a direct computation, in chunks of 13 rows too."""
        rng = np.random.default_rng(7)
        X = spanning(family, rng, 300, 4)
        theta, F = rng.standard_normal(4), rng.standard_normal((4, 4))
        for arms in (FiniteArms(X), InPieces(X, 13)):
            rewards, quads = X @ theta, ((X @ F) ** 2).sum(axis=1)
            leader = arms.best(theta)
            assert rewards[leader] == pytest.approx(rewards.max(), rel=1e-12)
            index, values = arms.top_quadratic(F, 20)
            np.testing.assert_allclose(values, np.sort(quads)[::-1][:20], rtol=1e-12)
            np.testing.assert_allclose(values, quads[index], rtol=1e-12)
            others = np.flatnonzero((X != X[leader]).any(axis=1))
            y = X[leader] - X[others]
            scores = (y @ theta) ** 2 / ((y @ F) ** 2).sum(axis=1)
            found = arms.most_confusing(leader, theta, (F,), lambda gap, quad: gap * gap / quad)
            assert found.score == pytest.approx(scores.min(), rel=1e-10)
            assert scores[others.tolist().index(found.index)] == pytest.approx(found.score, rel=1e-10)


class TestManyArms:
    """What only shows with more arms than fit one chunk."""

    K = 280_001  # three chunks at d = 2

    def arms_with_ties_across_chunks(self) -> tuple[Array, FiniteArms]:
        """Return rows of small integers, so that ties are exact, and arms of several chunks."""
        X = np.random.default_rng(3).integers(-4, 5, (self.K, 2)).astype(float)
        X[:3] = [[-1.0, 0.0], [0.0, -1.0], [0.0, 0.0]]
        arms = FiniteArms(X)
        assert len(list(arms.chunks())) > 2
        return X, arms

    def test_ties_across_chunks_go_to_the_lowest_row(self) -> None:
        """Thousands of tied rows in several chunks are listed from the lowest row number upwards."""
        X, arms = self.arms_with_ties_across_chunks()
        theta = np.array([1.0, 2.0])
        rewards = X @ theta
        assert arms.best(theta) == np.flatnonzero(rewards == rewards.max())[0]
        quads = (X * X).sum(axis=1)
        assert (quads == quads.max()).sum() > 2000
        np.testing.assert_array_equal(
            arms.top_quadratic(np.eye(2), 2000)[0], np.flatnonzero(quads == quads.max())[:2000]
        )
        leader = arms.best(theta)
        gaps = rewards[leader] - rewards
        gaps[(X == X[leader]).all(axis=1)] = np.inf
        found = arms.rivals(leader, theta, (), lambda gap: gap, 3000)
        np.testing.assert_array_equal(found.index, np.lexsort((np.arange(self.K), gaps))[:3000])

    def test_a_subset_restricts_rivals_in_every_chunk(self) -> None:
        """`among` is aligned with row numbers, not with positions in a chunk."""
        _, arms = self.arms_with_ties_across_chunks()
        wanted = np.array([2, 70_000, 139_999])
        among = np.zeros(self.K, dtype=bool)
        among[wanted] = True
        found = arms.rivals(1, np.ones(2), (), lambda gap: 0.0 * gap, 10, among)
        np.testing.assert_array_equal(found.index, [i for i in wanted if i not in arms.copies(1)])

    @pytest.mark.parametrize("threads_from", [1, 10**12], ids=["in threads", "in turn"])
    @pytest.mark.parametrize("n_wanted", [3, 10_000, 279_000])
    def test_pair_forms_and_the_best_of_a_subset_equal_brute_force(
        self, n_wanted: int, threads_from: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Few rows fetched by number, many picked from chunks: every wanted row once, in order, with its own forms."""
        monkeypatch.setattr("surepick.arms.base.THREADED", threads_from)
        X, arms = self.arms_with_ties_across_chunks()
        rng = np.random.default_rng(n_wanted)
        wanted = np.sort(rng.choice(self.K, n_wanted, replace=False))
        among = np.zeros(self.K, dtype=bool)
        among[wanted] = True
        u, F = np.array([1.0, 2.0]), np.array([[1.0, 3.0, 0.0], [2.0, -1.0, 1.0]])
        pieces = list(arms.pair_forms(5, [u, -u], [F, np.eye(2)], among, lambda forms: forms))
        y = X[5] - X[wanted]
        np.testing.assert_array_equal(np.concatenate([piece.index for piece in pieces]), wanted)
        for j, expected in enumerate([y @ u, -y @ u]):
            np.testing.assert_array_equal(np.concatenate([piece.products[j] for piece in pieces]), expected)
        for j, expected in enumerate([((y @ F) ** 2).sum(axis=1), (y * y).sum(axis=1)]):
            # Two forms of a large table share axes, which are no longer whole numbers.
            np.testing.assert_allclose(np.concatenate([piece.squares[j] for piece in pieces]), expected, rtol=1e-12)
        assert arms.best(u, among) == wanted[np.argmax(X[wanted] @ u)]

    def test_nothing_allowed_means_no_rivals(self) -> None:
        """An empty subset yields empty arrays and an infinite smallest gap."""
        found = FiniteArms(np.eye(3)).rivals(
            0, np.ones(3), (np.eye(3),), lambda gap, _: gap, 2, np.zeros(3, dtype=bool)
        )
        assert (len(found.index), len(found.score), len(found.gap), found.smallest_gap) == (0, 0, 0, np.inf)


class TestScores:
    """Scores that are not plain numbers."""

    @pytest.mark.parametrize("n", [1, 3])
    @pytest.mark.parametrize("worthless", [np.nan, np.inf], ids=["nan", "inf"])
    def test_a_worthless_score_never_enters(self, n: int, worthless: float) -> None:
        """NaN and +inf scores are passed over, wherever they stand."""
        X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
        for step in (1, 2, 5):
            found = InPieces(X, step).rivals(
                0, np.array([-1.0]), (), lambda gap: np.where(gap % 2 == 1, worthless, gap), n
            )
            assert found.index.tolist() == [2, 4][:n]

    def test_without_any_finite_score_there_is_no_most_confusing_arm(self) -> None:
        """The error says that a finite score was needed."""
        with pytest.raises(InvalidInput, match=r"no rival .* finite score"):
            FiniteArms(np.eye(2)).most_confusing(0, np.ones(2), (), lambda gap: np.full_like(gap, np.inf))

    def test_a_score_may_return_its_own_argument(self) -> None:
        """Returning the gap array itself does not spoil the smallest gap or the leader's exclusion."""
        X = np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.0, 1.0]])
        found = FiniteArms(X).rivals(0, np.array([1.0, 0.0]), (), lambda gap: gap, 4)
        assert (found.index.tolist(), found.gap.tolist(), found.smallest_gap) == ([2, 3], [0.5, 1.0], 0.5)

    def test_a_score_may_return_an_array_that_is_not_its_own(self) -> None:
        """What the score returns is not written to, so a read-only constant will do."""
        found = FiniteArms(np.eye(3)).rivals(1, np.ones(3), (), lambda gap: np.broadcast_to(0.0, gap.shape), 3)
        assert found.index.tolist() == [0, 2]

    def test_scores_of_the_leader_and_its_copies_divide_nothing_by_zero(self) -> None:
        """A score that divides by the gap or the form raises no warning for rows that are no rivals."""
        X = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0], [3.0, 1.0]])
        among = np.array([True, True, False, True])
        found = FiniteArms(X).rivals(0, np.array([1.0, 0.0]), (np.eye(2),), lambda gap, q: 1.0 / q / gap**2, 3, among)
        assert found.index.tolist() == [3]


class TestDuplicates:
    """Exact duplicates are one arm with several row numbers."""

    X = np.array([[3.0, 1.0], [0.0, 1.0], [3.0, 1.0], [2.0, -1.0], [0.0, 1.0], [3.0, 1.0]])

    def test_indices_are_those_of_the_input(self) -> None:
        """Nothing is renumbered: every row keeps its number, its vector and its count."""
        arms = FiniteArms(self.X, names=list("abcdef"))
        assert (arms.n_arms, len(arms), arms.names) == (6, 6, ("a", "b", "c", "d", "e", "f"))
        np.testing.assert_array_equal(arms.gather([5, 4, 3]), self.X[[5, 4, 3]])

    def test_rivals_skip_every_copy_of_the_leader(self) -> None:
        """Whichever copy leads, its aliases are not rivals and the smallest gap is that to another arm."""
        arms = FiniteArms(self.X)
        for leader in (0, 2, 5):
            found = arms.rivals(leader, np.array([1.0, 0.0]), (), lambda gap: gap, 6)
            assert (found.index.tolist(), found.smallest_gap) == ([3, 1, 4], 1.0)

    def test_the_best_of_a_subset_is_in_it_even_if_a_lower_copy_is_not(self) -> None:
        """A copy outside the subset does not answer for the one inside."""
        arms = FiniteArms([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        assert arms.best(np.array([1.0, 0.0]), np.array([False, True, True])) == 1

    def test_copies_share_one_representative_and_distinct_arms_are_their_own(self) -> None:
        """Aliases are listed in order for each of them."""
        arms = FiniteArms(self.X)
        assert [arms.representative(i) for i in range(6)] == [0, 1, 0, 3, 1, 0]
        assert [arms.copies(i).tolist() for i in (5, 4, 3)] == [[0, 2, 5], [1, 4], [3]]

    def test_negative_zero_equals_zero(self) -> None:
        """Rows that compare equal are copies although the sign bit of a zero differs."""
        arms = FiniteArms([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0], [1.0, -0.0]])
        assert [arms.representative(i) for i in range(4)] == [0, 1, 0, 1]
        assert not np.signbit(arms.X).any()

    def test_nearly_equal_rows_are_different_arms(self) -> None:
        """One unit in the last place is a difference."""
        arms = FiniteArms([[1.0, 0.0], [np.nextafter(1.0, 2.0), 0.0], [0.0, 1.0]])
        assert [arms.copies(i).tolist() for i in range(3)] == [[0], [1], [2]]

    def test_colliding_hashes_do_not_merge_arms(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Rows are compared in full: with a hash that ignores all bits only equal rows are copies."""
        monkeypatch.setattr(np, "uint64", _Blind)
        X = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [0.0, 0.0]])
        first = first_copies(X)
        assert first is not None
        assert first.tolist() == [0, 1, 0, 3]

    def test_the_best_arm_is_the_lowest_copy_however_blas_rounds(self) -> None:
        """Products of equal rows may differ in the last bit with their place in a block; the answer does not."""
        rng = np.random.default_rng(0)
        for _ in range(400):
            dim = int(rng.integers(2, 30))
            X = rng.standard_normal((int(rng.integers(2 * dim + 9, 200)), dim))
            theta, F = rng.standard_normal(dim), rng.standard_normal((dim, dim))
            best, other = (int(i) for i in np.argsort(-X @ theta)[:2])
            X[rng.integers(0, len(X), 3)] = X[best]
            X[rng.integers(0, len(X), 3)] = X[other]
            arms = FiniteArms(X)
            leader = arms.best(theta)
            assert leader == arms.representative(leader)
            rival = arms.most_confusing(leader, theta, (F,), lambda gap, quad: gap * gap / quad).index
            assert rival == arms.representative(rival)


class _Blind(np.uint64):
    """A multiplier that maps every hash to zero."""

    def __new__(cls, _value: int) -> Self:
        return super().__new__(cls, 0)


class TestDigits:
    """Numbers stay accurate where a naive computation loses them."""

    @given(seed=seeds, exponent=st.integers(-14, -2))
    def test_the_gap_of_nearly_equal_arms_keeps_its_digits(self, seed: int, exponent: int) -> None:
        """Arms that differ by 1e-12 in one feature have a gap right to 15 digits, not to 4."""
        rng = np.random.default_rng(seed)
        dim = 5
        X = np.vstack([rng.standard_normal((6, dim)), np.eye(dim)])
        X[1] = X[0]
        X[1, 2] -= 10.0**exponent
        theta = rng.standard_normal(dim)
        exact = sum((Fraction(t) * (Fraction(a) - Fraction(b)) for t, a, b in zip(theta, X[0], X[1], strict=True)))
        near = np.arange(len(X)) == 1
        F = rng.standard_normal((dim, dim))
        found = FiniteArms(X).rivals(0, theta, (F,), lambda gap, quad: gap / quad, 1, near)
        square = float((Fraction(X[0, 2]) - Fraction(X[1, 2])) ** 2) * (F[2] @ F[2])
        for gap in (found.gap[0], found.smallest_gap, found.score[0] * square):
            assert gap == pytest.approx(float(exact), rel=1e-14, abs=0.0)

    @given(seed=seeds, power=st.sampled_from([-1000, -520, -60, 0, 60, 500, 1000]))
    def test_units_do_not_matter(self, seed: int, power: int) -> None:
        """Features times any power of two have the same span, copies and best arm, and triangle times that power."""
        X = np.random.default_rng(seed).standard_normal((12, 3))
        X[5] = X[2]
        theta = np.random.default_rng(seed + 1).standard_normal(3)
        plain, scaled = FiniteArms(X), FiniteArms(np.ldexp(X, power))
        assert scaled.best(theta) == plain.best(theta)
        assert scaled.copies(5).tolist() == [2, 5]
        np.testing.assert_allclose(np.ldexp(scaled.triangle(), -power), plain.triangle(), rtol=1e-12, atol=1e-14)

    @given(seed=seeds)
    def test_each_feature_has_its_own_unit(self, seed: int) -> None:
        """Columns in units from 1e-150 to 1e150 span as if they were all of one size."""
        rng = np.random.default_rng(seed)
        arms = FiniteArms(rng.standard_normal((20, 4)) * 10.0 ** rng.uniform(-150, 150, 4))
        assert arms.dim == 4

    def test_the_triangle_does_not_square_the_condition_number(self) -> None:
        """Features whose Gram matrix is singular in double precision keep a triangle right to 1e-6."""
        rng = np.random.default_rng(5)
        X = rng.standard_normal((500, 1)) + np.column_stack([np.zeros(500), 1e-9 * rng.standard_normal(500)])
        smallest = np.linalg.svd(FiniteArms(X).triangle(), compute_uv=False)[1]
        assert smallest == pytest.approx(np.linalg.svd(X, compute_uv=False)[1], rel=1e-6)
