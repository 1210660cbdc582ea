"""Small operations on rows: pieces that fit the cache, norms, hashes, copies, and the smallest scores over pieces."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import final

import numpy as np
from numpy.typing import NDArray

from surepick.core.linalg import Array, IntArray


def row_chunks(rows: Array) -> Iterator[tuple[int, Array]]:
    """Yield (start, rows[start : ...]) in pieces of about 2 MB: less and threads wait, more falls out of the cache.

    Of narrow rows it is less: what is computed for each row takes dozens of numbers, however short the row is.
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


def first_copies(X: Array) -> IntArray | None:
    """Return for each row the lowest row number that equals it bit for bit, or None if all rows differ."""
    # Hash rows in 64-bit integers (a handful of K-vectors), then compare only rows whose hashes agree.
    code = np.empty(len(X), dtype=np.uint64)
    for start, rows in row_chunks(X):
        code[start : start + len(rows)] = row_codes(rows)
    ranked = np.sort(code)  # several times faster than the order itself, which is needed only if two agree
    if not (ranked[1:] == ranked[:-1]).any():
        return None
    order = np.argsort(code, kind="stable")
    same = np.flatnonzero(code[order[1:]] == code[order[:-1]])
    first = np.arange(len(X), dtype=np.int64)
    groups: dict[bytes, int] = {}
    for row in np.unique(np.concatenate([order[same], order[same + 1]])):
        first[row] = groups.setdefault(X[row].tobytes(), int(row))
    return first if (first != np.arange(len(X))).any() else None
