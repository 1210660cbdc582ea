"""Numerical helpers against NumPy, and what they promise about rank, spread and threads."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from threadpoolctl import threadpool_info

from surepick.core.linalg import (
    cholesky,
    independent_columns,
    inverse_factor,
    largest,
    one_blas_thread,
    pivoted_rows,
    shared_axes,
    solve_cholesky,
    solve_lower,
    spread_rows,
    tall_qr,
    triangular,
    upper_inverse,
)

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, dim=st.integers(1, 8))
def test_the_lapack_shortcuts_equal_numpy(seed: int, dim: int) -> None:
    """Cholesky factor, triangular solves and inverse agree with the checked routines and leave their input alone."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((dim, dim)) + 3.0 * np.eye(dim)
    A, B = root @ root.T, rng.standard_normal((dim, 3))
    before = A.copy()
    L = cholesky(A)
    np.testing.assert_array_equal(A, before)
    np.testing.assert_allclose(L, np.linalg.cholesky(A), atol=1e-12 * np.abs(A).max())
    tolerance = 1e-12 * np.linalg.cond(A)
    np.testing.assert_allclose(solve_lower(L, B), np.linalg.solve(L, B), atol=tolerance)
    np.testing.assert_allclose(A @ solve_cholesky(L, B[:, 0]), B[:, 0], atol=tolerance)
    np.testing.assert_allclose(L.T @ upper_inverse(L.T), np.eye(dim), atol=tolerance)
    F = inverse_factor(A)
    np.testing.assert_allclose(A @ F @ F.T, np.eye(dim), atol=tolerance)


@given(seed=seeds, dim=st.integers(1, 8), rank=st.integers(1, 8), size=st.sampled_from([0.0, 1e-100, 1.0, 1e100]))
def test_two_quadratic_forms_share_axes(seed: int, dim: int, rank: int, size: float) -> None:
    """Also if features are in different units, one form is singular or zero, or they are of very different size."""
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.uniform(-6, 6, dim)
    F, G = units[:, None] * rng.standard_normal((dim, dim)), units[:, None] * rng.standard_normal((dim, rank))
    G *= size
    B, weights = shared_axes(F, G)
    assert (weights >= 0.0).all()
    y = rng.standard_normal((dim, 20)) / units[:, None]
    for part, found in zip((F, G), np.sqrt(weights @ (B @ y) ** 2), strict=True):
        expected = np.linalg.norm(part.T @ y, axis=0)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * expected.max(initial=0.0))


@pytest.mark.parametrize(
    "A",
    [np.diag([1.0, 0.0]), np.diag([1.0, -1.0]), np.ones((2, 2)) - 1e-3 * np.eye(2)],
    ids=["singular", "indefinite", "slightly-indefinite"],
)
def test_a_matrix_that_is_not_positive_definite_has_no_cholesky_factor(A: np.ndarray) -> None:
    """Instead of a factor full of NaN there is an error."""
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        cholesky(A)


def test_a_singular_triangle_has_no_inverse() -> None:
    """A zero on the diagonal is an error, not infinity."""
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        upper_inverse(np.array([[1.0, 2.0], [0.0, 0.0]]))


@given(seed=seeds, n_rows=st.integers(1, 30), dim=st.integers(1, 6), step=st.integers(1, 31))
def test_qr_by_chunks_equals_qr_at_once(seed: int, n_rows: int, dim: int, step: int) -> None:
    """Whatever the chunks, R is square, upper triangular, and equal up to the signs of its rows."""
    rows = np.random.default_rng(seed).standard_normal((n_rows, dim))
    R = tall_qr(((i, rows[i : i + step]) for i in range(0, n_rows, step)), dim)
    assert R.shape == (dim, dim)
    assert not np.tril(R, -1).any()
    whole = triangular(rows)
    np.testing.assert_allclose(np.abs(R[: len(whole)]), np.abs(whole), atol=1e-12)
    np.testing.assert_allclose(R.T @ R, rows.T @ rows, atol=1e-12)


def test_qr_in_several_internal_pieces_uses_every_row() -> None:
    """A chunk longer than one internal piece loses no rows, not even the last."""
    rows = np.random.default_rng(0).standard_normal((5001, 3))
    rows[-1] = 1e3
    R = tall_qr([(0, rows[:3000]), (3000, rows[3000:])], 3)
    np.testing.assert_allclose(R.T @ R, rows.T @ rows, rtol=1e-11)


@given(seed=seeds, dim=st.integers(1, 7), data=st.data())
def test_independent_columns_are_a_basis_in_any_units(seed: int, dim: int, data: st.DataObject) -> None:
    """As many columns as the rank, independent of each other, whatever the units of each."""
    rank = data.draw(st.integers(0, dim))
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, rank)) @ rng.standard_normal((rank, dim))
    kept = independent_columns(triangular(X * 10.0 ** rng.uniform(-200, 200, dim)))
    assert len(kept) == rank
    assert (np.diff(kept) > 0).all()
    assert rank == 0 or np.linalg.matrix_rank(X[:, kept]) == rank


@pytest.mark.parametrize(("difference", "rank"), [(1e-9, 2), (1e-12, 2), (1e-15, 1), (0.0, 1)])
def test_columns_that_agree_to_fourteen_digits_are_one(difference: float, rank: int) -> None:
    """A difference of 1e-12 between two features is data, one of 1e-15 is rounding."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(50)
    X = np.column_stack([x, x + difference * rng.standard_normal(50)])
    assert len(independent_columns(triangular(X))) == rank


@given(seed=seeds, n_rows=st.integers(1, 20), dim=st.integers(1, 6))
def test_pivoted_rows_span_what_the_rows_span(seed: int, n_rows: int, dim: int) -> None:
    """The chosen rows are different, start with the longest, and the last pivot tells whether they span R^d."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, dim))
    if seed % 2:
        rows[:, -1] = rows[:, 0]
    chosen, pivot = pivoted_rows(rows)
    rank = np.linalg.matrix_rank(rows)
    assert len(set(chosen.tolist())) == len(chosen) == min(n_rows, dim)
    assert chosen[0] == np.argmax((rows * rows).sum(axis=1))
    assert np.linalg.matrix_rank(rows[chosen]) == rank
    assert (pivot > 1e-12) == (rank == dim)


def test_zero_rows_do_not_span() -> None:
    """All-zero rows have a relative last pivot of zero, not NaN."""
    assert pivoted_rows(np.zeros((4, 2)))[1] == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_rounding_does_not_decide_which_of_equally_long_rows_is_taken(seed: int) -> None:
    """Rows that tie are taken in their order, although every processor rounds them differently."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    rows = np.vstack([basis, -basis, basis[::-1]]) * (1.0 + 4e-16 * rng.standard_normal((12, 1)))
    assert sorted(pivoted_rows(rows)[0].tolist()) == [0, 1, 2, 3]


@given(seed=seeds, n_rows=st.integers(0, 25), at_most=st.integers(0, 10), cosine=st.sampled_from([0.5, 0.9, 0.99]))
def test_spread_rows_equal_a_greedy_loop(seed: int, n_rows: int, at_most: int, cosine: float) -> None:
    """Rows are taken in order, skipping zero rows and those nearly parallel (or opposite) to one already there."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, (n_rows, 3)).astype(float) + 1e-3 * rng.standard_normal((n_rows, 3))
    rows[rng.random(n_rows) < 0.1] = 0.0

    def parallel(a: np.ndarray, b: np.ndarray) -> bool:
        return bool(abs(a @ b) > cosine * np.linalg.norm(a) * np.linalg.norm(b))

    taken: list[int] = []
    for i, row in enumerate(rows):
        if len(taken) < at_most and row.any() and not any(parallel(row, rows[j]) for j in taken):
            taken.append(i)
    assert spread_rows(rows, at_most=at_most, cosine=cosine).tolist() == taken


@given(values=arrays.arrays(np.float64, st.integers(0, 30), elements=st.floats(-3, 3)), n=st.integers(0, 40))
def test_largest_lists_the_largest_values_in_falling_order(values: np.ndarray, n: int) -> None:
    """Positions are different and their values are the n largest, all of them when there are fewer."""
    found = largest(values, n)
    assert len(set(found.tolist())) == len(found)
    np.testing.assert_array_equal(values[found], np.sort(values)[::-1][:n])


def blas_threads() -> set[int]:
    """Return how many threads the loaded BLAS libraries may use."""
    return {int(library["num_threads"]) for library in threadpool_info() if library["user_api"] == "blas"}


class TestOneBlasThread:
    """The decorator limits BLAS inside the call and only there."""

    def test_inside_there_is_one_thread_and_outside_as_before(self) -> None:
        """Also inside a nested call, and after it returns to the outer one."""
        before = blas_threads()
        seen: list[set[int]] = []

        @one_blas_thread
        def inner() -> None:
            seen.append(blas_threads())

        @one_blas_thread
        def outer() -> None:
            inner()
            seen.append(blas_threads())

        outer()
        inner()
        assert seen == [{1}, {1}, {1}]
        assert blas_threads() == before

    def test_an_error_restores_the_threads(self) -> None:
        """A failing call leaves no limit behind, and the next call is limited again."""
        before = blas_threads()

        @one_blas_thread
        def fails(message: str) -> set[int]:
            """Say what was seen."""
            if message:
                raise RuntimeError(message)
            return blas_threads()

        with pytest.raises(RuntimeError, match="on purpose"):
            fails("on purpose")
        assert blas_threads() == before
        assert fails("") == {1}
        assert (fails.__name__, fails.__doc__) == ("fails", "Say what was seen.")

    def test_each_python_thread_sets_its_own_limit(self) -> None:
        """A call in another thread does not rely on this one still being inside."""
        seen: list[set[int]] = []

        @one_blas_thread
        def look() -> None:
            seen.append(blas_threads())

        @one_blas_thread
        def start() -> None:
            worker = threading.Thread(target=look)
            worker.start()
            worker.join()

        start()
        assert seen == [{1}]


def test_every_blas_is_limited_also_those_that_load_later() -> None:
    """SciPy brings its own BLAS, which loads on first use."""
    script = """
import threadpoolctl
from surepick.core.linalg import one_blas_thread

@one_blas_thread
def threads():
    libraries = threadpoolctl.threadpool_info()
    return [(lib["filepath"], lib["num_threads"]) for lib in libraries if lib["user_api"] == "blas"]

threads()
import scipy.linalg, scipy.optimize, scipy.stats
found = threads()
assert found and all(n == 1 for _, n in found), found
"""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


@pytest.mark.skipif(sys.platform != "linux" or (os.cpu_count() or 1) < 2, reason="needs OpenBLAS and two processors")
@pytest.mark.parametrize("waking_call", [False, True], ids=["as it is", "with a call that wakes"])
def test_identify_wakes_no_blas_thread(waking_call: bool) -> None:
    """Once woken, even by a 2x2 system, a thread spins for 50 ms; that CPU time is not the calling thread's."""
    script = """
import time
import numpy as np
import scipy.linalg
import surepick as sp
from surepick.core.estimate import LeastSquares

def spent_by_others(arms, theta, **options):
    rng = np.random.default_rng(0)
    means = None if isinstance(arms, sp.Sphere) else arms @ theta
    def pull(arm):
        return float(arm @ theta if means is None else means[arm]) + 0.3 * rng.standard_normal()
    process, thread = time.process_time(), time.thread_time()
    sp.identify(arms, pull, noise_std=0.3, **options)
    time.sleep(0.1)
    process, thread = time.process_time() - process, time.thread_time() - thread
    return (process - thread - 0.01) / process

if WAKING_CALL:
    update = LeastSquares.update
    def waking(self, *pull):
        if self.n_pulls >= 5:  # again and again: on a busy machine the others get little of the time
            scipy.linalg.solve_triangular(np.eye(2), np.eye(2))
        update(self, *pull)
    LeastSquares.update = waking
plane, sphere = sp.problems.many_arms(500, seed=0), sp.problems.sphere(10, 100, seed=0)
shares = [
    spent_by_others(plane.X, plane.theta),
    spent_by_others(sphere.X, sphere.theta, max_pulls=300),
    spent_by_others(sp.Sphere(4), np.array([0.6, 0.8, 0.1, 0.05]), epsilon=0.1),
]
print(max(shares) > 0.05)
"""
    done = subprocess.run(
        [sys.executable, "-c", script.replace("WAKING_CALL", repr(waking_call))],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "2"},
    )
    assert done.stdout == f"{waking_call}\n"
