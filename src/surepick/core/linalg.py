"""Numerical helpers: one BLAS thread, triangular factors, spanning rows, passes over rows, and one quadrature.

Notation: rows (n, d) some arms; R (d, d) upper triangular with R'R = rows'rows.
"""

import hashlib
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, wraps
from importlib import import_module
from typing import ParamSpec, TypeVar, final

import numpy as np
import scipy  # its parts load on first use: half of the time that `import surepick` would take
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from surepick.errors import InvalidInput
from surepick.types import Array, BoolArray, IntArray

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


def inverse(A: Array) -> Array:
    """Return A^-1 for symmetric positive definite A."""
    return solve_cholesky(cholesky(A), np.eye(len(A)))


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


def row_chunks(rows: Array) -> Iterator[tuple[int, Array]]:
    """Yield (start, rows[start : ...]) in pieces of about 2 MB: less and threads wait, more falls out of the cache.

    Pieces of narrow rows are smaller: each row needs dozens of numbers, however short it is.
    """
    step = min(2**14, max(256, 2**18 // rows.shape[1]))
    for start in range(0, len(rows), step):
        yield start, rows[start : start + step]


def row_digest(pieces: Iterable[Array]) -> bytes:
    """Return the SHA-256 of rows of doubles, in order."""
    content = hashlib.sha256()
    for rows in pieces:
        content.update(np.ascontiguousarray(rows).data)
    return content.digest()


def square_norms(rows: Array) -> Array:
    """Return the squared Euclidean norm of each row."""
    norms: Array = np.einsum("ij,ij->i", rows, rows)
    return norms


@final
class Smallest:
    """Running n smallest (score, row) over chunks; of equal scores the lower row number is kept."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._parts: list[tuple[IntArray, Array]] = []
        self._n_waiting = 0
        self._limit = np.inf

    def add(self, rows: IntArray, score: Array) -> None:
        """Take in the scores of these rows, whose numbers increase from call to call; NaN and +inf never enter."""
        if self.n == 1:
            # No copy of the chunk's scores for the commonest question.
            i = int(np.argmin(score))
            if np.isnan(score[i]):  # argmin takes NaN for the smallest
                i = int(np.argmin(np.where(np.isnan(score), np.inf, score)))
            kept = np.array([i]) if score[i] < self._limit else np.empty(0, dtype=np.int64)
        else:
            kept = np.flatnonzero(score < self._limit)
        if len(kept):
            self._parts.append((rows[kept], score[kept]))
            self._n_waiting += len(kept)
            # Sorting is put off until it pays: each merge lowers the limit that lets later rows in.
            if self.n == 1 or self._n_waiting > 4 * self.n + 4096:
                self.merged()

    def merged(self) -> tuple[IntArray, Array]:
        """Return (rows, scores), smallest first."""
        if not self._parts:
            return np.empty(0, dtype=np.int64), np.empty(0)
        index, score = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        order = np.lexsort((index, score))[: self.n]
        index, score = index[order], score[order]
        self._parts, self._n_waiting = [(index, score)], 0
        if len(score) == self.n:
            self._limit = float(score[-1])
        return index, score


def row_codes(rows: Array) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row; equal rows have equal hashes."""
    codes = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.view(np.uint64).T:
        codes ^= column
        codes *= np.uint64(0x9E3779B97F4A7C15)
        codes ^= codes >> np.uint64(29)
    return codes


# Quadrature: nodes on [-1, 1]; at the ends the integrand is below e^-DROP of its largest value.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
DROP = 40.0


def log_chi_mean(p: int, al: Array, be: Array) -> Array:
    """Log of E[exp((1 - al) t^2/2 + be t)] for t the length of p standard normals; al > 0 and be (T,).

    The integrand t^k exp(-al t^2/2 + be t), k = p - 1, is log-concave. Away from its mode m its logarithm falls by
    al (t - m)^2/2 + k (h - log(1 + h)), h = t/m - 1 (at m = 0 by al t^2/2 - be t), which bounds where it matters.
    """
    k = p - 1
    root = np.sqrt(be * be + 4.0 * al * k)
    left = right = np.sqrt(2.0 * DROP / al)
    if k:
        mode = np.where(be > 0, (be + root) / (2.0 * al), 2.0 * k / (root + np.abs(be)))
        q = DROP / k
        left = np.minimum(left, mode * math.sqrt(2.0 * q))
        right = np.minimum(right, mode * (q + math.sqrt(q * (q + 2.0))))
    else:
        mode = np.maximum(be, 0.0) / al
        right = np.minimum(right, DROP / np.maximum(-be, DROP / right))
    low, high = np.maximum(mode - left, 0.0), mode + right
    half = 0.5 * (high - low)[:, None]
    t = low[:, None] + half * (1.0 + NODES)
    log_f = scipy.special.xlogy(k, t) - 0.5 * al[:, None] * t * t + be[:, None] * t
    log_norm = (0.5 * p - 1.0) * math.log(2.0) + math.lgamma(0.5 * p)
    top = log_f.max(axis=1)
    sums = (np.exp(log_f - top[:, None]) * WEIGHTS).sum(axis=1)
    return np.asarray(top + np.log(half[:, 0] * sums) - log_norm)
