"""The finite set in memory: what it owns, how much memory it takes, and redundant features."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surepick import ArmsDoNotSpan, FiniteArms
from tests.arms.pieces import InPieces

seeds = st.integers(0, 2**32 - 1)


class TestOwnership:
    """The arms own one copy of X that nobody can change."""

    def test_changing_the_input_later_has_no_effect(self) -> None:
        """The user's array stays writable, and what is written there stays there."""
        X = np.random.default_rng(0).standard_normal((4, 2))
        arms, before = FiniteArms(X), X.copy()
        X[:] = 7.0
        np.testing.assert_array_equal(arms.X, before)
        np.testing.assert_array_equal(arms.gather([0, 3]), before[[0, 3]])

    def test_the_arms_cannot_be_written_to(self) -> None:
        """X is read-only, so are the chunks; a gathered copy is the caller's."""
        arms = FiniteArms(np.eye(3))
        with pytest.raises(ValueError, match="read-only"):
            arms.X[0, 0] = 2.0
        with pytest.raises(ValueError, match="read-only"):
            next(arms.chunks())[1][0, 0] = 2.0
        arms.gather([0])[0, 0] = 2.0
        assert arms.X[0, 0] == 1.0

    @pytest.mark.parametrize(
        "given",
        [
            np.asfortranarray(np.arange(6.0).reshape(3, 2)),
            np.arange(12.0).reshape(3, 4)[:, ::2],
            np.arange(6, dtype=np.int8).reshape(3, 2),
            np.arange(6, dtype=np.float32).reshape(3, 2),
            [[0, 1], [2, 3], [4, 5]],
        ],
        ids=["fortran-order", "strided", "int8", "float32", "lists"],
    )
    def test_any_layout_becomes_rows_of_doubles(self, given: Any) -> None:
        """Order, strides and number type of the input leave no trace."""
        X = FiniteArms(given).X
        assert (X.dtype, X.flags.c_contiguous, X.shape) == (np.dtype(np.float64), True, (3, 2))
        np.testing.assert_array_equal(X, np.asarray(given))

    def test_names_default_to_none_and_are_text(self) -> None:
        """Without names there are none; what is given becomes a tuple of text."""
        assert FiniteArms(np.eye(2)).names is None
        assert FiniteArms(np.eye(2), names=np.array([3, 4])).names == ("3", "4")  # type: ignore[arg-type]

    def test_the_representation_says_how_many(self) -> None:
        """`repr` tells the size and not the numbers."""
        assert repr(FiniteArms(np.eye(3))) == "FiniteArms(3 arms, 3 features)"


class TestMemory:
    """No oracle needs more than some chunks and vectors; construction needs one copy."""

    K, D = 390_000, 10  # below the size that several threads share, each with pieces of its own

    def peak(self, action: Callable[[], object]) -> int:
        """Return the bytes allocated at the worst moment of `action`."""
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            action()
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()

    def test_oracles_work_in_chunks(self) -> None:
        """Each oracle on 390,000 arms allocates a few chunks and two K-vectors at most, less than half of X."""
        rng = np.random.default_rng(0)
        arms = FiniteArms(rng.standard_normal((self.K, self.D)))
        theta, F = rng.standard_normal(self.D), np.eye(self.D)
        among = np.ones(self.K, dtype=bool)
        limit = 4 * next(arms.chunks())[1].nbytes + 2 * 8 * self.K
        assert limit < arms.X.nbytes / 2
        questions: dict[str, Callable[[], object]] = {
            "best": lambda: arms.best(theta),
            "top_quadratic": lambda: arms.top_quadratic(F, 1000),
            "rivals": lambda: arms.rivals(0, theta, (F, F), lambda gap, q, r: gap / (q + r), 1000, among),
            "most_confusing": lambda: arms.most_confusing(0, theta, (F, F), lambda gap, q, r: gap / (q + r)),
            "copies": lambda: arms.copies(3),
            "triangle": lambda: InPieces(arms.X, 13_000).triangle(),
        }
        assert {name: peak for name, ask in questions.items() if (peak := self.peak(ask)) > limit} == {}

    def test_construction_makes_one_copy(self) -> None:
        """Building arms allocates X once, plus vectors and flags worth less than another X."""
        X = np.random.default_rng(0).standard_normal((self.K, self.D))
        kept: list[FiniteArms] = []
        assert X.nbytes < self.peak(lambda: kept.append(FiniteArms(X))) < 1.8 * X.nbytes


class TestSpan:
    """Redundant features: refused with a remedy, or dropped on request."""

    @given(seed=seeds, dim=st.integers(1, 6), data=st.data())
    def test_on_span_keeps_rewards_whatever_the_units(self, seed: int, dim: int, data: st.DataObject) -> None:
        """With units from 1e-9 to 1e9 the rank is found, X is recovered column by column, and rewards are equal."""
        rank = data.draw(st.integers(1, dim))
        rng = np.random.default_rng(seed)
        units = 10.0 ** rng.uniform(-9, 9, dim)
        X = rng.standard_normal((20, rank)) @ rng.standard_normal((rank, dim)) * units
        theta = rng.standard_normal(dim) / units
        arms = FiniteArms.on_span(X)
        assert arms.dim == rank
        assert arms.basis.shape == (dim, rank)
        size = np.abs(X).max(axis=0)
        np.testing.assert_allclose(arms.X @ arms.basis.T / size, X / size, atol=1e-9)
        np.testing.assert_allclose(arms.X @ (arms.basis.T @ theta), X @ theta, atol=1e-8)
        np.testing.assert_array_equal(FiniteArms(arms.X).X, arms.X)

    def test_on_span_of_independent_features_changes_nothing(self) -> None:
        """Arms that span already are kept bit for bit, with the identity as basis."""
        X = np.random.default_rng(1).standard_normal((9, 4))
        arms = FiniteArms.on_span(X)
        np.testing.assert_array_equal(arms.X, X)
        np.testing.assert_array_equal(arms.basis, np.eye(4))

    def test_a_zero_column_is_named_and_dropped(self) -> None:
        """The error names the feature that is always zero; `on_span` leaves it out and theta's entry is ignored."""
        X = np.array([[1.0, 0.0, 2.0], [3.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
        with pytest.raises(ArmsDoNotSpan, match=r"span R\^3 but have rank 2 \(always zero: x1\).*on_span"):
            FiniteArms(X)
        arms = FiniteArms.on_span(X)
        assert arms.feature_names == ("x0", "x2")
        np.testing.assert_array_equal(arms.X, X[:, [0, 2]])
        np.testing.assert_allclose(arms.basis.T @ [5.0, 100.0, 7.0], [5.0, 7.0])

    def test_a_constant_column_beside_an_intercept_is_redundant(self) -> None:
        """Two constants are one feature; `on_span` keeps one and adds up their effects."""
        X = np.array([[2.0, 1.0], [2.0, 4.0], [2.0, -3.0]])
        with pytest.raises(ArmsDoNotSpan, match=r"rank 2"):
            FiniteArms(X, intercept=True)
        arms = FiniteArms.on_span(X, intercept=True)
        assert arms.dim == 2
        theta = np.array([10.0, 1.0, 0.5])
        np.testing.assert_allclose(arms.X @ (arms.basis.T @ theta), [12.5, 14.0, 10.5])

    def test_a_feature_in_tiny_units_is_not_a_zero_one(self) -> None:
        """A feature measured in units 1e-14 beside ordinary ones spans, alone and beside a redundant feature."""
        rng = np.random.default_rng(2)
        X = rng.standard_normal((10, 3)) * [1.0, 1.0, 1e-14]
        assert FiniteArms(X).dim == 3
        arms = FiniteArms.on_span(np.column_stack([X, X[:, 0] + X[:, 1]]))
        assert arms.dim == 3
        assert "x2" in arms.feature_names

    def test_on_span_keeps_copies_names_and_row_numbers(self) -> None:
        """Duplicates stay duplicates bit for bit, and names stay with their rows."""
        rng = np.random.default_rng(4)
        X = rng.standard_normal((60, 3))
        X[[7, 50, 59]] = X[3]
        X = np.column_stack([X, X.sum(axis=1)])
        arms = FiniteArms.on_span(X, names=[f"arm {i}" for i in range(60)])
        assert arms.copies(50).tolist() == [3, 7, 50, 59]
        assert arms.names is not None
        assert arms.names[50] == "arm 50"

    @pytest.mark.parametrize("n_arms", [2, 3, 4])
    def test_fewer_arms_than_features_cannot_span(self, n_arms: int) -> None:
        """The error gives the number of features, the rank and the remedy, and the remedy works."""
        X = np.random.default_rng(n_arms).standard_normal((n_arms, 5))
        with pytest.raises(ArmsDoNotSpan, match=rf"span R\^5 but have rank {n_arms}; .*FiniteArms.on_span"):
            FiniteArms(X)
        assert FiniteArms.on_span(X).dim == n_arms

    def test_one_arm_in_five_thousand_may_carry_a_direction(self) -> None:
        """A direction that a single arm measures, and weakly, still counts for the span."""
        X = np.column_stack([np.random.default_rng(6).standard_normal((5000, 2)), np.zeros(5000)])
        X[4321, 2] = 1e-9
        assert FiniteArms(X).dim == 3
