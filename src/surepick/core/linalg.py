"""Small numerical helpers: one BLAS thread, tall QR by chunks, spanning rows, non-collinear rows.

Notation: rows (n, d) some arms; R (d, d) upper triangular with R'R = rows'rows.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, wraps
from importlib import import_module
from typing import ParamSpec, TypeVar

import numpy as np
import scipy  # its parts load on first use: half of the time that `import surepick` would take
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from surepick.errors import InvalidInput

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


@cache
def _blas() -> ThreadpoolController:
    # Looking up the loaded BLAS takes milliseconds, limiting it microseconds: look once, when SciPy's is there too.
    import_module("scipy.linalg")
    return ThreadpoolController().select(user_api="blas")


_caller = threading.local()  # `limited` while this Python thread is inside a limited function


def one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` with BLAS on one thread: on matrices of our size more threads cost 10-25x CPU time.

    Once woken, a further thread also spins for 50 ms, in case of more work.
    """

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        if getattr(_caller, "limited", False):
            return function(*args, **kwargs)
        _caller.limited = True
        try:
            if all(library.num_threads == 1 for library in _blas().lib_controllers):
                return function(*args, **kwargs)  # limiting takes 50 microseconds and would change nothing
            with _blas().limit(limits=1):
                return function(*args, **kwargs)
        finally:
            _caller.limited = False

    return limited


def in_threads(work: Callable[[S], T], pieces: Iterable[S]) -> Iterator[T]:
    """Yield work(piece) in order, a few pieces at once: NumPy lets go of Python's lock."""
    n_threads = min(4, os.cpu_count() or 1)
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        for piece in pieces:
            waiting.append(pool.submit(work, piece))
            if len(waiting) > 2 * n_threads:  # no more pieces in memory than that
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def cholesky(A: Array) -> Array:
    """Return lower triangular L with L L' = A, straight from LAPACK: SciPy's checks cost more than a small A does.

    Raises:
        np.linalg.LinAlgError: A is not positive definite to rounding.
    """
    L: Array
    L, info = scipy.linalg.lapack.dpotrf(A, lower=1, clean=1)
    if info:
        raise np.linalg.LinAlgError("matrix is not positive definite")
    return L


def solve_lower(L: Array, B: Array) -> Array:
    """Return L^-1 B for lower triangular L."""
    solved: Array = scipy.linalg.lapack.dtrtrs(L, B, lower=1)[0]
    return solved


def solve_cholesky(L: Array, b: Array) -> Array:
    """Return (L L')^-1 b for lower triangular L."""
    solved: Array = scipy.linalg.lapack.dpotrs(L, b, lower=1)[0]
    return solved


def upper_inverse(R: Array) -> Array:
    """Return R^-1 for upper triangular R."""
    inverse: Array
    inverse, info = scipy.linalg.lapack.dtrtri(R)
    if info:
        raise np.linalg.LinAlgError("triangular matrix is singular")
    return inverse


def inverse_factor(A: Array) -> Array:
    """Return F with F F' = A^-1, upper triangular: |F'y|^2 = y'A^-1 y."""
    return upper_inverse(cholesky(A).T)


def shared_axes(F: Array, G: Array) -> tuple[Array, Array]:
    """Return B (d, d) and weights (2, d): |F'y|^2 and |G'y|^2 are sums of (B y)^2 with the first and second weights.

    Two quadratic forms share axes, and one product with y does for both. By QR of the two together and the singular
    vectors of one part (the generalised singular value decomposition): nothing is inverted.
    """
    f, g = (float(np.abs(part).max()) or 1.0 for part in (F, G))
    Q, R = np.linalg.qr(np.hstack([F / f, G / g]).T)
    axes = np.linalg.svd(Q[: F.shape[1]])[2]
    of_F, of_G = np.split(Q @ axes.T, [F.shape[1]])
    return axes @ R, np.array([((f * of_F) ** 2).sum(axis=0), ((g * of_G) ** 2).sum(axis=0)])


def triangular(rows: Array) -> Array:
    """Return upper triangular R with R'R = rows'rows, by QR: the condition number is not squared."""
    upper = scipy.linalg.lapack.dgeqrf(rows)[0][: rows.shape[1]]
    return np.where(_triangle(*upper.shape), upper, 0.0)


@cache
def _triangle(n_rows: int, n_columns: int) -> BoolArray:
    """Return where an upper triangular matrix may differ from zero."""
    return np.triu(np.ones((n_rows, n_columns), dtype=bool))


@one_blas_thread
def tall_qr(chunks: Iterable[tuple[int, Array]], dim: int) -> Array:
    """Return the triangular factor R of all rows, one chunk in memory at a time.

    Householder QR of [R; chunk] after each chunk: unlike a Cholesky factor of rows'rows it does not square
    the condition number.

    Raises:
        InvalidInput: the length of a column overflows.
    """
    step = 1024  # rows: larger pieces fall out of the cache and take twice the time
    R = np.zeros((0, dim))
    for _, rows in chunks:
        for start in range(0, len(rows), step):
            R = triangular(np.vstack([R, rows[start : start + step]]))
    if not np.isfinite(R).all():
        raise InvalidInput("features must be below 1e300 in size, got some whose length is no double; use other units.")
    return np.vstack([R, np.zeros((dim - len(R), dim))])  # fewer rows than columns: R is square all the same


def independent_columns(R: Array) -> IntArray:
    """Return a largest set of linearly independent columns, increasing; their units do not matter."""
    scale = np.abs(R).max(axis=0)  # not the norm: squares of very small or large numbers leave the range
    used = np.flatnonzero(scale)
    if not used.size:
        return used.astype(np.int64)
    triangle, order = scipy.linalg.qr(R[:, used] / scale[used], mode="r", pivoting=True)
    pivots = np.abs(np.diagonal(triangle))
    # 100 d eps: columns that agree to 14 digits are the same feature as far as double precision can say.
    rank = int((pivots > 100 * used.size * np.finfo(float).eps * pivots[0]).sum())
    return np.sort(used[order[:rank]]).astype(np.int64)


def pivoted_rows(rows: Array) -> tuple[IntArray, float]:
    """Return at most d rows of greedily largest volume and the last pivot relative to the first.

    A last pivot at rounding level means that `rows` do not span. Of rows that tie the first is taken.
    """
    # Whitened arms often tie exactly, and BLAS rounds differently on each kind of processor. A millionth more length
    # for earlier rows decides ties the same way everywhere, and costs a millionth of the volume.
    favour = 1.0 + 1e-6 * np.linspace(1.0, 0.0, len(rows))
    R, order, _, _, _ = scipy.linalg.lapack.dgeqp3((rows * favour[:, None]).T)
    n = min(rows.shape)
    pivots = np.abs(np.diagonal(R))[:n]
    full = n == rows.shape[1] and pivots[0] > 0
    return (order[:n] - 1).astype(np.int64), float(pivots[-1] / pivots[0]) if full else 0.0


def spread_rows(rows: Array, *, at_most: int, cosine: float) -> IntArray:
    """Return positions of rows, earlier ones first, that are pairwise far from parallel.

    A row is passed over when it is zero or its |cos| with one already taken exceeds `cosine`.
    """
    norms = np.sqrt((rows * rows).sum(axis=1))
    unit = rows / np.where(norms > 0, norms, 1.0)[:, None]
    blocked = norms == 0
    taken: list[int] = []
    while len(taken) < at_most and not blocked.all():
        i = int(np.argmin(blocked))  # the first row that is still free
        taken.append(i)
        blocked |= np.abs(unit @ unit[i]) > cosine
        blocked[i] = True
    return np.array(taken, dtype=np.int64)


def largest(values: Array, n: int) -> IntArray:
    """Return positions of the n largest values, largest first."""
    top = np.argpartition(-values, n)[:n] if n < len(values) else np.arange(len(values))
    return top[np.argsort(-values[top], kind="stable")]
