"""Arms on a cluster: the rows stay in the blocks of a Dask array, and only summaries come back.

Notation: X (K, d) the array, cut into blocks of rows. Each oracle is one task per block and a tree of tasks that merge
their answers, so that what reaches the client does not grow with K: a few row numbers, scores, and d x d triangles. The
learner stays on the client. Dask moves the data, recomputes blocks that were lost with a worker, and sends scores,
which are Python closures, with cloudpickle.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, TypeVar, final

import dask
import numpy as np
from numpy.typing import NDArray

from surepick.arms.protocol import ArmSet, PairForms, PairScore, Rivals, RowSubset, first_of, lowest, lowest_against
from surepick.arms.readers import doubles
from surepick.arms.recent import RecentRows
from surepick.arms.refusals import Place, check_choice, check_finite, check_span, first_not_finite
from surepick.core.linalg import Array, BoolArray, IntArray, tall_qr
from surepick.core.rows import row_chunks, row_digest, square_norms
from surepick.errors import InvalidInput

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

    Stop by `stopping="evidence"`: betting would have to send numbers for every arm after every interval. Algorithms
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

    keeps_numbers = False

    def __init__(self, dask_array: Any) -> None:
        array = _checked(dask_array).map_blocks(doubles, dtype=np.float64)
        self._array = array.persist() if _has_client() else array
        sizes = self._array.chunks[0]
        self.n_arms, self.dim = map(int, self._array.shape)
        self._ends: IntArray = np.cumsum(sizes, dtype=np.int64)
        self._starts = self._ends - sizes
        self._blocks: list[Any] = self._array.to_delayed().ravel().tolist()
        self.feature_names = tuple(f"x{j}" for j in range(self.dim))
        self._recent = RecentRows(self._fetch, self.dim)
        self._known_copies: dict[int, IntArray] = {}
        self._examine()

    def _examine(self) -> None:
        check_choice(self.n_arms)
        look = self._asked(_examined, _both_examined)
        check_finite("`dask_array`", look.bad, range(self.dim))
        check_choice(self.n_arms, is_constant=look.is_constant)
        self._triangle = look.triangle
        check_span(look.triangle, self.feature_names, advice="drop redundant features: {enough} are enough")

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
        self,
        leader: int,
        vectors: Sequence[Array],
        factors: Sequence[Array],
        among: BoolArray,
        work: Callable[[PairForms], T],
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
        question = partial(_lowest_of, lambda rows: -(rows @ theta), 1)
        index, _ = self._asked(question, partial(_smallest, n=1), among)
        return first_of(self.copies(int(index[0])), among)

    def top_quadratic(self, F: Array, n: int) -> tuple[IntArray, Array]:
        """Return the n arms with the largest |F'x|^2 and these values, largest first."""
        question = partial(_lowest_of, lambda rows: -square_norms(rows @ F), n)
        index, score = self._asked(question, partial(_smallest, n=n))
        return index, -score

    def rivals(
        self,
        leader: int,
        theta: Array,
        factors: Sequence[Array],
        score: PairScore,
        n: int,
        among: BoolArray | None = None,
    ) -> Rivals:
        """Return the n arms other than `leader` with the smallest score, see `ArmSet.rivals`."""
        question = partial(_rivals_of, self.gather([leader])[0], theta, list(factors), score, n)
        found: Rivals = self._asked(question, partial(_lowest_rivals, n=n), among)
        return found


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
    if "distributed" not in sys.modules:  # then nobody has made one
        return False
    from distributed import default_client  # noqa: PLC0415 - optional

    try:
        default_client()
    except ValueError:
        return False
    return True


# What follows runs on the workers: questions to one block of rows, and what joins their answers.


@final
@dataclass(frozen=True, slots=True)
class _Examined:
    """What one look at some rows says about them."""

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
    first = looks[0].first
    stacked = np.vstack([look.triangle for look in looks])
    return _Examined(
        bad=next((look.bad for look in looks if look.bad is not None), None),
        triangle=tall_qr([(0, stacked)], len(first)),
        first=first,
        is_constant=all(look.is_constant and np.array_equal(look.first, first) for look in looks),
    )


def _digested(rows: Array, _start: int, _among: None) -> NDArray[np.uint8]:
    return np.frombuffer(row_digest([rows]), dtype=np.uint8)


def _equal_to(x: Array, rows: Array, start: int, _among: None) -> IntArray:
    parts = [start + begin + np.flatnonzero((piece == x).all(axis=1)) for begin, piece in row_chunks(rows)]
    return np.concatenate(parts).astype(np.int64)


def _lowest_of(
    score: Callable[[Array], Array], n: int, rows: Array, start: int, among: BoolArray | None
) -> tuple[IntArray, Array]:
    index, scores = lowest(RowSubset(rows), score, n, among)
    return start + index, scores


def _rivals_of(
    x: Array,
    theta: Array,
    factors: list[Array],
    score: PairScore,
    n: int,
    rows: Array,
    start: int,
    among: BoolArray | None,
) -> Rivals:
    others = np.ones(len(rows), dtype=bool) if among is None else among.copy()
    others[_equal_to(x, rows, 0, None)] = False
    found = lowest_against(RowSubset(rows), x, theta, factors, score, n, others)
    return replace(found, index=start + found.index)


def _smallest(parts: list[tuple[Any, ...]], n: int) -> tuple[Any, ...]:
    """Return what belongs to the n smallest scores; a part is row numbers, scores, and what else there is per row."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort(columns[:2])[:n]
    return tuple(column[order] for column in columns)


def _lowest_rivals(parts: list[Rivals], n: int) -> Rivals:
    index, score, gap = _smallest([(part.index, part.score, part.gap) for part in parts], n)
    return Rivals(index, score, gap, min(part.smallest_gap for part in parts))
