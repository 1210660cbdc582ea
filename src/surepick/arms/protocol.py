"""Arms as oracles: the questions every algorithm asks of a set of arms, answered for any set of rows.

Notation: X (K, d) the arms as rows; theta (d,); F (d, k) a factor, so that |F'x|^2 is a quadratic form.
Everything whose cost grows with K is an oracle here, answered by passes over chunks of rows; no oracle builds
a K x K or K x K x d array. Arms are named by their row number in the X that was given, also when X has
duplicate rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, final, runtime_checkable

import numpy as np

from surepick.core.linalg import (
    Array,
    BoolArray,
    IntArray,
    in_threads,
    one_blas_thread,
    tall_qr,
)
from surepick.core.rows import Smallest, row_chunks, row_digest, square_norms
from surepick.errors import InvalidInput

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

    @property
    def names(self) -> tuple[str, ...] | None:
        """The arms' names, if they have any."""
        ...

    @property
    def keeps_numbers(self) -> bool:
        """Whether a number for every arm can be kept where the algorithm runs."""
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

    def digest(self) -> bytes:
        """Return a hash of all rows in order: two sets with the same one are the same arms."""
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
    names: tuple[str, ...] | None = None
    keeps_numbers: bool = True

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

    def digest(self) -> bytes:
        """Return a hash of all rows in order, whatever the chunks; one pass."""
        return row_digest(rows for _, rows in self.chunks())

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
