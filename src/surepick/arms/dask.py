"""Arms on a cluster: the rows stay in the blocks of a Dask array, and only summaries come back.

Notation: X (K, d) the array, cut into blocks of rows. Each oracle is one task per block and a tree of tasks that merge
their answers, so that what reaches the client does not grow with K: a few row numbers, scores, and d x d triangles. The
learner stays on the client. Dask moves the data, recomputes blocks that were lost with a worker, and sends scores,
which are Python closures, with cloudpickle.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar, final

import dask
import dask.array
import numpy as np
from numpy.typing import NDArray

from surepick.arms.base import (
    ArmSet,
    Arrays,
    PairForms,
    PairScore,
    Place,
    Rivals,
    RowScore,
    RowSubset,
    check_choice,
    check_finite,
    check_span,
    first_not_finite,
    first_of,
    lowest,
    lowest_against,
)
from surepick.arms.mapped import RowCache, doubles
from surepick.core.linalg import row_chunks, row_digest, square_norms, tall_qr
from surepick.errors import InvalidInput
from surepick.types import Array, BoolArray, IntArray

T = TypeVar("T")

# Answers merged by one task.
FAN_IN = 16
# More rows than this are no summary.
MOST_ROWS = 65_536


@final
class DaskArms(ArmSet):
    """Arms in the rows of a Dask array, on the workers of a cluster or wherever Dask computes.

    Args:
        dask_array: (K, d) numbers. Its blocks should be cut along the rows alone and hold 10 to 200 MB each; columns
            that are cut too are joined.

    With a current `distributed.Client` the array is persisted on the workers, once, and every question goes to them;
    blocks lost with a worker are computed again by Dask, so what the array is made from must still be there. Without a
    client Dask's default scheduler computes here, from the start for every question unless the array was persisted.

    Stop by `stopping="evidence"`: betting would have to send numbers for every arm after every block. Algorithms
    that look at all rows refuse to run.

    Raises:
        InvalidInput: not a two-dimensional array of finite numbers, or fewer than two different arms.
        ArmsDoNotSpan: the rows leave a direction unmeasured.

    Examples:
        >>> import dask.array as da
        >>> arms = DaskArms(da.from_array(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]]), chunks=(2, 2)))
        >>> arms.n_arms, arms.dim, arms.best(np.array([1.0, 0.9]))
        (3, 2, 2)
    """

    is_local = False

    def __init__(self, dask_array: Any) -> None:
        array = _checked(dask_array).map_blocks(doubles, dtype=np.float64)
        self._array = array.persist() if _has_client() else array
        sizes = self._array.chunks[0]
        self.n_arms, self.dim = map(int, self._array.shape)
        self._ends: IntArray = np.cumsum(sizes, dtype=np.int64)
        self._starts = self._ends - sizes
        self._blocks: list[Any] = self._array.to_delayed().ravel().tolist()
        self.feature_names = tuple(f"x{j}" for j in range(self.dim))
        self._recent = RowCache(self._fetch, self.dim)
        self._known_copies: dict[int, IntArray] = {}
        check_choice(self.n_arms)
        look = self._asked(_examined, _both_examined)
        check_finite("`dask_array`", look.bad, range(self.dim))
        check_choice(self.n_arms, is_constant=look.is_constant)
        self._triangle = look.triangle
        check_span(look.triangle, self.feature_names, advice="drop redundant features: {enough} are enough")

    def times(self, factors: Array) -> "DaskArms":
        """Return the arms with every row multiplied by a number of its own (K,), on the cluster."""
        column = dask.array.from_array(factors[:, None], chunks=(self._array.chunks[0], 1))
        return DaskArms(self._array * column)

    def __len__(self) -> int:
        return self.n_arms

    def __repr__(self) -> str:
        return f"DaskArms({self.n_arms} arms, {self.dim} features, {len(self._blocks)} blocks)"

    def _asked(self, question: Callable[..., T], merge: Callable[[list[T]], T], among: BoolArray | None = None) -> T:
        """Return the merged answers of question(rows, first row number, which of them) on every block."""
        ask, join = dask.delayed(question, pure=False), dask.delayed(merge, pure=False)
        pieces = [
            (block, start, None if among is None else among[start:end])
            for block, start, end in zip(self._blocks, self._starts.tolist(), self._ends.tolist(), strict=True)
            if end > start
        ]
        tasks = [ask(*piece) for piece in pieces if piece[2] is None or piece[2].any()] or [ask(*pieces[0])]
        while len(tasks) > 1:
            tasks = [join(tasks[first : first + FAN_IN]) for first in range(0, len(tasks), FAN_IN)]
        answer: T = dask.compute(*tasks)[0]
        return answer

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the arms with these row numbers, (n, d); only few, since they leave the cluster."""
        if len(index) > MOST_ROWS:
            raise InvalidInput(
                f"at most {MOST_ROWS} rows are fetched from a cluster at a time, got {len(index)}; use an algorithm "
                "and options that do not look at all rows, such as lazy-track-and-stop without elimination."
            )
        return self._recent.gather(index)

    def _fetch(self, index: IntArray) -> Array:
        if len(index) and not 0 <= index[0] <= index[-1] < self.n_arms:
            raise InvalidInput(f"row numbers must be between 0 and {self.n_arms - 1}, got {index.tolist()[:10]}.")
        blocks = np.searchsorted(self._ends, index, side="right")
        tasks = [self._blocks[n][index[blocks == n] - self._starts[n]] for n in np.unique(blocks)]
        return np.concatenate([np.empty((0, self.dim)), *dask.compute(*tasks)])

    def copies(self, arm: int) -> IntArray:
        """Return the rows equal to this one, itself included, in increasing order; a pass when first asked."""
        if arm not in self._known_copies:
            self._known_copies[arm] = self._asked(partial(_equal_to, self.gather([arm])[0]), np.concatenate)
        return self._known_copies[arm]

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Refuse: the rows stay on the cluster."""
        self._refuse("visiting all rows", "use an algorithm that does not, such as lazy-track-and-stop")

    def pair_forms(
        self, leader: int, vectors: Arrays, factors: Arrays, among: BoolArray, work: Callable[[PairForms], T]
    ) -> Iterator[T]:
        """Refuse: numbers for every arm would leave the cluster."""
        self._refuse("betting or elimination", 'pass stopping="evidence" and elimination=False')

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise InvalidInput(f"{what} would send numbers for each of {self.n_arms} arms from the cluster; {instead}.")

    def triangle(self) -> Array:
        """Return R (d, d), upper triangular with R'R = X'X, accurate even where X'X is not."""
        return self._triangle

    def digest(self) -> bytes:
        """Return a hash of all rows in order; it depends on how the array is cut into blocks."""
        return hashlib.sha256(self._asked(_digested, np.concatenate)).digest()

    def best(self, theta: Array, among: BoolArray | None = None) -> int:
        """Return the arm with the largest theta'x; of equals, the lowest row number. `among`: look at these alone."""
        index, _ = self._lowest(lambda rows: -(rows @ theta), 1, among)
        return first_of(self.copies(int(index[0])), among)

    def top_quadratic(self, F: Array, n: int) -> tuple[IntArray, Array]:
        """Return the n arms with the largest |F'x|^2 and these values, largest first."""
        index, score = self._lowest(lambda rows: -square_norms(rows @ F), n)
        return index, -score

    def _lowest(self, score: RowScore, n: int, among: BoolArray | None = None) -> tuple[IntArray, Array]:
        def question(rows: Array, start: int, counts: BoolArray | None) -> tuple[IntArray, Array]:
            index, scores = lowest(RowSubset(rows), score, n, counts)
            return start + index, scores

        return self._asked(question, lambda parts: _smallest(parts, n), among)

    def rivals(
        self, leader: int, theta: Array, factors: Arrays, score: PairScore, n: int, among: BoolArray | None = None
    ) -> Rivals:
        """Return the n arms other than `leader` with the smallest score, see `ArmSet.rivals`."""
        x = self.gather([leader])[0]

        def question(rows: Array, start: int, counts: BoolArray | None) -> Rivals:
            others = np.ones(len(rows), dtype=bool) if counts is None else counts.copy()
            others[_equal_to(x, rows, 0, None)] = False
            found = lowest_against(RowSubset(rows), x, theta, factors, score, n, others)
            return replace(found, index=start + found.index)

        def merge(parts: list[Rivals]) -> Rivals:
            index, scores, gap = _smallest([(part.index, part.score, part.gap) for part in parts], n)
            return Rivals(index, scores, gap, min(part.smallest_gap for part in parts))

        return self._asked(question, merge, among)


def _checked(array: Any) -> Any:
    """Return the array with known sizes and whole rows in every block."""
    if not all(hasattr(array, name) for name in ("map_blocks", "rechunk", "chunks", "to_delayed")):
        raise InvalidInput(
            f"`dask_array` must be a Dask array, got a {type(array).__name__}; `dask.array.from_array` makes one."
        )
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidInput(f"`dask_array` must have one row per arm, got shape {array.shape}; pass (K, d).")
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"`dask_array` must hold real numbers, got {array.dtype}; convert it with `astype(float)`.")
    if np.isnan(array.shape[0]):
        array = array.compute_chunk_sizes()
    return array.rechunk({1: -1})


def _has_client() -> bool:
    if "distributed" in sys.modules:  # else there is no client
        from distributed import default_client  # noqa: PLC0415 - optional

        with suppress(ValueError):
            return bool(default_client())
    return False


# The functions below run on the workers, as do the closures above: questions to a block of rows, and merges of answers.


class _Examined(NamedTuple):
    """Results of one pass over some rows."""

    bad: Place | None
    """The first number that is not finite."""
    triangle: Array
    first: Array
    is_constant: bool
    """Whether all rows equal `first`."""


def _examined(rows: Array, start: int, _among: None) -> _Examined:
    found = (first_not_finite(start + begin, piece) for begin, piece in row_chunks(rows))
    bad = next((place for place in found if place is not None), None)
    dim = rows.shape[1]
    triangle = tall_qr(row_chunks(rows), dim) if bad is None else np.zeros((dim, dim))
    is_constant = all(bool((piece == rows[0]).all()) for _, piece in row_chunks(rows))
    return _Examined(bad, triangle, rows[0].copy(), is_constant)


def _both_examined(looks: list[_Examined]) -> _Examined:
    bad, triangles, firsts, are_constant = zip(*looks, strict=True)
    return _Examined(
        bad=next((place for place in bad if place is not None), None),
        triangle=tall_qr([(0, np.vstack(triangles))], len(firsts[0])),
        first=firsts[0],
        is_constant=all(are_constant) and all(np.array_equal(first, firsts[0]) for first in firsts),
    )


def _digested(rows: Array, _start: int, _among: None) -> NDArray[np.uint8]:
    return np.frombuffer(row_digest([rows]), dtype=np.uint8)


def _equal_to(x: Array, rows: Array, start: int, _among: None) -> IntArray:
    parts = [start + begin + np.flatnonzero((piece == x).all(axis=1)) for begin, piece in row_chunks(rows)]
    return np.concatenate(parts).astype(np.int64)


def _smallest(parts: list[tuple[Any, ...]], n: int) -> tuple[Any, ...]:
    """Return the entries of the n smallest scores; a part is row numbers, scores, and further arrays per row."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort(columns[:2])[:n]
    return tuple(column[order] for column in columns)
