"""Arms as oracles: the questions every algorithm asks of a set of arms, and the finite set in memory.

Notation: X (K, d) the arms as rows; theta (d,); F (d, k) a factor, so that |F'x|^2 is a quadratic form.
Everything whose cost grows with K is an oracle here, answered by passes over chunks of rows; no oracle builds
a K x K or K x K x d array. Arms are named by their row number in the X that was given, also when X has
duplicate rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, final, runtime_checkable

import numpy as np

from surepick.core.checks import check_matrix
from surepick.core.features import feature_table
from surepick.core.linalg import (
    Array,
    BoolArray,
    IntArray,
    in_threads,
    independent_columns,
    one_blas_thread,
    tall_qr,
)
from surepick.core.rows import Smallest, first_copies, row_chunks, square_norms
from surepick.core.vectors import VectorSet
from surepick.errors import ArmsDoNotSpan, InvalidInput

# Below this many rows, fetching them by number beats a pass over all arms.
GATHER_ROWS = 4096
# From so many numbers on, a pass is worth several threads.
THREADED = 4_000_000

T = TypeVar("T")

PairScore = Callable[..., Array]
"""Maps gaps (n,) and one array (n,) per factor to a score (n,); the smallest score wins."""


@final
@dataclass(frozen=True, slots=True)
class Rivals:
    """The arms that score lowest against a leader, lowest first."""

    index: IntArray
    score: Array
    gap: Array
    smallest_gap: float
    """Smallest gap over all rivals, whether returned or not: how far the leader is ahead."""


@final
@dataclass(frozen=True, slots=True)
class Rival:
    """The single arm that scores lowest against a leader."""

    index: int
    score: float
    gap: float
    smallest_gap: float


@final
@dataclass(frozen=True, slots=True)
class PairForms:
    """Linear and quadratic forms of y = leader - arm, for some arms."""

    index: IntArray
    """Row numbers (n,) of the arms, increasing."""
    products: list[Array]
    """One u'y (n,) per vector u."""
    squares: list[Array]
    """One |F'y|^2 (n,) per factor F."""


@runtime_checkable
class ArmSet(Protocol):
    """What an algorithm may ask of its arms."""

    @property
    def n_arms(self) -> int:
        """Number of rows K, duplicates included."""
        ...

    @property
    def dim(self) -> int:
        """Number of features d."""
        ...

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the arms with these row numbers, (n, d)."""
        ...

    def copies(self, arm: int) -> IntArray:
        """Return the rows equal to this one, itself included, in increasing order."""
        ...

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first row number, rows) over all arms in order."""
        ...

    def triangle(self) -> Array:
        """Return R (d, d), upper triangular with R'R = X'X, accurate even where X'X is not."""
        ...

    def best(self, theta: Array, among: BoolArray | None = None) -> int:
        """Return the arm with the largest theta'x; of equals, the lowest row number. `among`: look at these alone."""
        ...

    def top_quadratic(self, F: Array, n: int) -> tuple[IntArray, Array]:
        """Return the n arms with the largest |F'x|^2 and these values, largest first."""
        ...

    def rivals(
        self,
        leader: int,
        theta: Array,
        factors: Sequence[Array],
        score: PairScore,
        n: int,
        among: BoolArray | None = None,
    ) -> Rivals:
        """Return the n arms other than `leader` with the smallest score(gap, |F_1'y|^2, |F_2'y|^2, ...).

        Here y = leader - arm and gap = theta'y. Copies of the leader are not rivals. `among` restricts the
        rivals to a subset of rows.
        """
        ...

    def most_confusing(self, leader: int, theta: Array, factors: Sequence[Array], score: PairScore) -> Rival:
        """Return the arm other than `leader` with the smallest score, see `rivals`."""
        ...

    def pair_forms(
        self,
        leader: int,
        vectors: Sequence[Array],
        factors: Sequence[Array],
        among: BoolArray,
        work: Callable[[PairForms], T],
    ) -> Iterator[T]:
        """Yield work(forms of y = leader - arm) for all arms of `among`, piece by piece in increasing order.

        Several threads may be at work on different pieces.
        """
        ...


class RowOracles(ABC):
    """The oracles of any set whose arms can be visited as chunks of rows.

    A subclass provides `n_arms`, `dim`, `gather`, `chunks` and `copies`.
    """

    n_arms: int
    dim: int

    @abstractmethod
    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the arms with these row numbers, (n, d)."""

    @abstractmethod
    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first row number, rows) over all arms in order."""

    @abstractmethod
    def copies(self, arm: int) -> IntArray:
        """Return the rows equal to this one, itself included, in increasing order."""

    def triangle(self) -> Array:
        """Return R (d, d), upper triangular with R'R = X'X, accurate even where X'X is not."""
        return tall_qr(self.chunks(), self.dim)

    def _each(self, work: Callable[[IntArray, Array], T], among: BoolArray | None = None) -> Iterator[T]:
        """Yield work(row numbers, rows) of the arms in `among` (None: all), in order, at most a chunk at a time.

        Several threads share a large set.
        """
        if among is not None and np.count_nonzero(among) <= GATHER_ROWS:
            index = np.flatnonzero(among)
            return iter([work(index, self.gather(index))] if len(index) else [])
        pieces = ((start, rows) for start, rows in self.chunks() if _any_of(among, start, len(rows)))

        def on_piece(piece: tuple[int, Array]) -> T:
            start, rows = piece
            if among is None or (counts := among[start : start + len(rows)]).all():
                return work(np.arange(start, start + len(rows)), rows)
            inside = np.flatnonzero(counts)
            return work(start + inside, rows[inside])

        return in_threads(on_piece, pieces) if self.n_arms * self.dim >= THREADED else map(on_piece, pieces)

    @one_blas_thread
    def best(self, theta: Array, among: BoolArray | None = None) -> int:
        """Return the arm with the largest theta'x; of equals, the lowest row number. `among`: look at these alone."""
        smallest = Smallest(1)
        for index, values in self._each(lambda index, rows: (index, rows @ theta), among):
            smallest.add(index, -values)
        # BLAS may round equal rows differently, depending on where in the chunk they are.
        copies = self.copies(int(smallest.merged()[0][0]))
        return int(copies[0] if among is None else copies[among[copies]][0])

    @one_blas_thread
    def top_quadratic(self, F: Array, n: int) -> tuple[IntArray, Array]:
        """Return the n arms with the largest |F'x|^2 and these values, largest first."""
        smallest = Smallest(n)
        for index, squares in self._each(lambda index, rows: (index, square_norms(rows @ F))):
            smallest.add(index, -squares)
        index, score = smallest.merged()
        return index, -score

    def pair_forms(
        self,
        leader: int,
        vectors: Sequence[Array],
        factors: Sequence[Array],
        among: BoolArray,
        work: Callable[[PairForms], T],
    ) -> Iterator[T]:
        """Yield work(forms of y = leader - arm) for all arms of `among`, see `ArmSet.pair_forms`."""
        x = self.gather([leader])[0]
        together = np.hstack(factors) if factors else np.empty((self.dim, 0))
        ends = np.cumsum([F.shape[1] for F in factors], dtype=np.int64)

        def on_rows(index: IntArray, rows: Array) -> T:
            # The difference first, then the products: the gap of two nearly equal arms keeps its digits.
            y = x - rows
            products = [y @ u for u in vectors]
            mapped = y @ together  # one product for all factors
            squares = [square_norms(mapped[:, end - F.shape[1] : end]) for F, end in zip(factors, ends, strict=True)]
            return work(PairForms(index, products, squares))

        return self._each(on_rows, among)

    @one_blas_thread
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
        x = self.gather([leader])[0]
        others = np.ones(self.n_arms, dtype=bool) if among is None else among.copy()
        others[self.copies(leader)] = False
        smallest, least_gap = Smallest(n), np.inf

        def scored(forms: PairForms) -> tuple[float, IntArray, Array]:
            gap = forms.products[0]
            return float(gap.min()), forms.index, np.asarray(score(gap, *forms.squares), dtype=np.float64)

        for gap, index, scores in self.pair_forms(leader, [theta], factors, others, scored):
            least_gap = min(least_gap, gap)
            smallest.add(index, scores)
        index, scores = smallest.merged()
        return Rivals(index, scores, (x - self.gather(index)) @ theta, least_gap)

    def most_confusing(self, leader: int, theta: Array, factors: Sequence[Array], score: PairScore) -> Rival:
        """Return the arm other than `leader` with the smallest score, see `ArmSet.rivals`."""
        found = self.rivals(leader, theta, factors, score, 1)
        if not len(found.index):
            raise InvalidInput("no rival of the leader has a finite score; the arms need at least two different rows.")
        index = int(self.copies(int(found.index[0]))[0])  # see `best`
        return Rival(index, float(found.score[0]), float(found.gap[0]), found.smallest_gap)


def _any_of(among: BoolArray | None, start: int, n: int) -> bool:
    return among is None or bool(among[start : start + n].any())


@final
class RowSubset(RowOracles):
    """Some rows of a set under new numbers 0, 1, ...: what is left to look at when most rows are out."""

    def __init__(self, rows: Array) -> None:
        self._rows = rows
        self.n_arms, self.dim = rows.shape

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these new numbers, (n, d)."""
        gathered: Array = self._rows[np.asarray(index, dtype=np.int64)]
        return gathered

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first new number, rows) in order."""
        yield from row_chunks(self._rows)

    def copies(self, arm: int) -> IntArray:
        """Return the row itself: copies are left out when a subset is taken."""
        return np.array([arm], dtype=np.int64)


@final
class FiniteArms(RowOracles):
    """Arms held in memory as the rows of one (K, d) array.

    Args:
        X: the arms: an array, nested lists, or a data frame (pandas or polars). In a data frame numeric and
            boolean columns are used as they are; a column of text or categories becomes one 0/1 column per
            level except the first in sorted order, which is the reference level.
        names: one name per arm; default: the labels of a data frame's index if it has any, else row numbers.
        intercept: put a constant 1 in front of the features. Default: only if a column of text was encoded,
            because then the reference level needs a value of its own.

    The array is copied once and never changed. Exact duplicates are one arm with several row numbers: the
    lowest stands for all of them, `copies` lists them.

    Raises:
        InvalidInput: not a table of finite numbers, fewer than two different arms, bad names.
        ArmsDoNotSpan: the rows leave a direction unmeasured; `FiniteArms.on_span(X)` drops such directions.
    """

    def __init__(self, X: Any, names: Sequence[str] | None = None, *, intercept: bool | None = None) -> None:
        table = feature_table(X, intercept=intercept)
        self._fill(table.X, table.feature_names, table.row_names if names is None else names)
        self._check_span()

    @classmethod
    def on_span(cls, X: Any, names: Sequence[str] | None = None, *, intercept: bool | None = None) -> Self:
        """Build arms from as many features of X as are linearly independent, dropping zero and redundant ones.

        `arms.basis` (d, rank) says how the features of X follow from those kept: X = arms.X @ arms.basis.T, and a
        theta of all features reads `arms.basis.T @ theta` in the kept ones. Rewards, and so answers, do not change.
        """
        arms = cls.rows_only(X, names, intercept=intercept)
        kept = independent_columns(arms._triangle)
        scale = np.abs(arms._triangle).max(axis=0)
        scale[scale == 0] = 1.0
        # Scaled columns, so that a feature in small units keeps its digits beside one in large units.
        R = arms._triangle / scale
        basis = np.linalg.lstsq(R[:, kept], R, rcond=None)[0].T * (scale[:, None] / scale[kept])
        basis[kept] = np.eye(len(kept))
        spanned = cls.__new__(cls)
        spanned._fill(check_matrix("arms", arms.X[:, kept]), [arms.feature_names[j] for j in kept], arms.names)
        spanned.basis = basis
        return spanned

    @classmethod
    def rows_only(
        cls,
        X: Any,
        names: Sequence[str] | None = None,
        *,
        intercept: bool | None = None,
        least: int = 2,
        argument: str = "arms",
    ) -> Self:
        """Build a set that need not span: candidates that are compared, or directions, but never measured.

        `argument` is what error texts call X.
        """
        table = feature_table(X, intercept=intercept, argument=argument)
        rows = cls.__new__(cls)
        rows._fill(table.X, table.feature_names, table.row_names if names is None else names, least=least)
        return rows

    def _fill(
        self, X: Array, feature_names: Sequence[str] | None, names: Sequence[str] | None, *, least: int = 2
    ) -> None:
        X.flags.writeable = False
        self.X = X
        self.n_arms, self.dim = X.shape
        if self.n_arms < least:
            raise InvalidInput(f"at least two arms are needed, got {self.n_arms}; add arms, one is no choice.")
        self.feature_names = tuple(feature_names or (f"x{j}" for j in range(self.dim)))
        self.names = _checked_names(names, self.n_arms)
        self.basis: Array = np.eye(self.dim)
        self._first_copy = first_copies(X)
        if least > 1 and self._first_copy is not None and not self._first_copy.any():
            raise InvalidInput(
                f"at least two different arms are needed, got {self.n_arms} copies of one; add features that differ."
            )
        self._triangle = tall_qr(self.chunks(), self.dim)

    def _check_span(self) -> None:
        used = np.asarray(self.X.any(axis=0))
        empty = [self.feature_names[j] for j in np.flatnonzero(~used)]
        rank = len(independent_columns(self._triangle))
        if empty or rank < self.dim:
            why = f" (always zero: {', '.join(empty)})" if empty else ""
            raise ArmsDoNotSpan(
                f"arms must span R^{self.dim} but have rank {rank}{why}; drop redundant features, or let "
                "`FiniteArms.on_span(X)` do it."
            )

    def __len__(self) -> int:
        return self.n_arms

    def __repr__(self) -> str:
        return f"FiniteArms({self.n_arms} arms, {self.dim} features)"

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the arms with these row numbers, (n, d)."""
        rows: Array = self.X[np.asarray(index, dtype=np.int64)]
        return rows

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first row number, rows) over all arms in order."""
        yield from row_chunks(self.X)

    def copies(self, arm: int) -> IntArray:
        """Return the rows equal to this one, itself included, in increasing order."""
        if self._first_copy is None:
            return np.array([arm], dtype=np.int64)
        return np.flatnonzero(self._first_copy == self._first_copy[arm]).astype(np.int64)

    def representative(self, arm: int) -> int:
        """Return the lowest row number among the copies of this arm."""
        return arm if self._first_copy is None else int(self._first_copy[arm])

    def triangle(self) -> Array:
        """Return R (d, d), upper triangular with R'R = X'X, accurate even where X'X is not."""
        return self._triangle


def _checked_names(names: Sequence[str] | None, n_arms: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise InvalidInput(
            f"`names` must be a list of {n_arms} names, got the single text {names!r}; pass one per arm."
        )
    try:
        labels = tuple(str(name) for name in names)
    except TypeError as error:
        raise InvalidInput(f"`names` must be a list of {n_arms} names, got {names!r}; pass one per arm.") from error
    if len(labels) != n_arms:
        raise InvalidInput(
            f"`names` must have one name per arm: {n_arms} arms, got {len(labels)} names; add or remove some."
        )
    if len(set(labels)) != n_arms:
        seen: set[str] = set()
        twice = next(label for label in labels if label in seen or seen.add(label))  # type: ignore[func-returns-value]
        raise InvalidInput(
            f"`names` must be different for different arms, got {twice!r} more than once; pass other `names` (they "
            "replace a data frame's index)."
        )
    return labels


def as_arms(arms: Any) -> ArmSet:
    """Return an arm set as it is; anything else becomes `FiniteArms`."""
    if isinstance(arms, VectorSet):
        raise InvalidInput(
            f"a list of arms is needed here, got {arms.description}, whose arms cannot be listed; ask the set itself, "
            "for instance its `characteristic_time` or `lower_bound`."
        )
    return arms if isinstance(arms, ArmSet) else FiniteArms(arms)
