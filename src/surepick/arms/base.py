"""Sets of arms: the questions that algorithms ask, and their answers for any set of rows.

**Rows** (`ArmSet`). X (K, d) the arms as rows; theta (d,); F (d, k) a factor, so that |F'x|^2 is a quadratic form.
Every question whose cost grows with K is an oracle here, answered by passes over chunks of rows; no oracle builds a
K x K or K x K x d array. The name of an arm is its row number in the X that you pass, also when X has duplicate rows.

**Vectors** (`VectorSet`): sets with infinitely many arms, or too many to number. theta (d,) the estimate, A (d, d) its
information; F (d, k) with F F' = A^-1, k >= d, so that |F'y|^2 = y'A^-1 y; a the best arm under theta, b another arm,
epsilon >= 0 the slack. The statistic of such a set is

    Z' = inf over arms b other than a of  (theta'(a - b) + epsilon)^2 / (2 |F'(a - b)|^2),

half the squared distance, in the norm of A, from theta to the parameters under which a loses epsilon to some arm. Z'
does not contain noise_std: the noise variance belongs into the threshold. Any lower bound on Z' may replace Z': the
answer then comes later, never wrong more often.

**Checks** of rows, in memory, in a file or on a cluster alike. R (d, d) upper triangular with R'R = X'X.
"""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeVar, final, runtime_checkable

import numpy as np

from surepick.core.checks import check_vector
from surepick.core.evidence import glr
from surepick.core.linalg import (
    Smallest,
    in_threads,
    independent_columns,
    one_blas_thread,
    row_chunks,
    row_codes,
    row_digest,
    shared_axes,
    square_norms,
    tall_qr,
)
from surepick.errors import ArmsDoNotSpan, InvalidInput
from surepick.types import Arm, Array, BoolArray, IntArray

# A table of fewer than SMALL numbers is passed over in pieces of PIECE rows. The results of a piece then fit the memory
# that the C library keeps for reuse; a larger array goes back to the system after each use, and getting its pages again
# takes longer than the arithmetic. The library keeps more once larger arrays have come and gone, as in a pass over a
# larger table: there whole chunks, and fewer calls, are faster.
SMALL, PIECE = 500_000, 2048
# Up to this many rows, fetching them by number beats a pass over all arms.
GATHER_ROWS = PIECE
# Numbers in a table from which on a pass is worth several threads.
THREADED = 4_000_000

T = TypeVar("T")

Arrays = Sequence[Array]
"""Vectors u (d,) or factors F (d, k) of the forms u'y or |F'y|^2."""
RowScore = Callable[[Array], Array]
"""Maps rows (n, d) to a score (n,); the smallest score wins."""
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
    """Smallest gap over all rivals, returned or not: the lead."""


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
    """A list of arms as algorithms see it.

    A subclass provides `n_arms`, `dim`, `gather`, `chunks` and `copies`; passes over the chunks answer the rest. Any
    other class with all of these members is a set of arms as well.
    """

    n_arms: int
    """Number of rows K, duplicates included."""
    dim: int
    """Number of features d."""
    names: tuple[str, ...] | None = None
    """The arms' names, if they have any."""
    is_local: bool = True
    """Whether the algorithm's process can keep a number for every arm."""

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
        """Return a hash of all rows in order, whatever the chunks: sets with equal hashes have equal arms."""
        return row_digest(rows for _, rows in self.chunks())

    def best(self, theta: Array, among: BoolArray | None = None) -> int:
        """Return the arm with the largest theta'x; of equals, the lowest row number. `among`: look at these alone."""
        index, _ = lowest(self, lambda rows: rows @ -theta, 1, among)
        return first_of(self.copies(int(index[0])), among)

    def top_quadratic(self, F: Array, n: int) -> tuple[IntArray, Array]:
        """Return the n arms with the largest |F'x|^2 and these values, largest first."""
        transposed = np.ascontiguousarray(F.T)
        index, score = lowest(self, lambda rows: -square_norms((transposed @ rows.T).T), n)
        return index, -score

    def pair_forms(
        self, leader: int, vectors: Arrays, factors: Arrays, among: BoolArray, work: Callable[[PairForms], T]
    ) -> Iterator[T]:
        """Yield work(forms of y = leader - arm) for all arms of `among`, piece by piece in increasing order.

        Several threads may be at work on different pieces.
        """
        return _each(self, _with_forms(self, self.gather([leader])[0], vectors, factors, work), among)

    def rivals(
        self, leader: int, theta: Array, factors: Arrays, score: PairScore, n: int, among: BoolArray | None = None
    ) -> Rivals:
        """Return the n arms other than `leader` with the smallest score(gap, |F_1'y|^2, |F_2'y|^2, ...).

        Here y = leader - arm and gap = theta'y. Copies of the leader are not rivals. `among` restricts the
        rivals to a subset of rows.
        """
        others = self.is_rival([leader], among)
        return lowest_against(self, self.gather([leader])[0], theta, factors, score, n, others)

    def is_rival(self, leaders: Iterable[int], among: BoolArray | None = None) -> BoolArray:
        """Return a fresh mask (K,): which arms of `among` are neither leaders nor copies of one."""
        others = np.ones(self.n_arms, dtype=bool) if among is None else among.copy()
        for leader in leaders:
            others[self.copies(leader)] = False
        return others

    def most_confusing(self, leader: int, theta: Array, factors: Arrays, score: PairScore) -> Rival:
        """Return the arm other than `leader` with the smallest score, see `rivals`."""
        found = self.rivals(leader, theta, factors, score, 1)
        if not len(found.index):
            raise InvalidInput("no rival of the leader has a finite score; the arms need at least two different rows.")
        index = first_of(self.copies(int(found.index[0])))
        return Rival(index, float(found.score[0]), float(found.gap[0]), found.smallest_gap)


def first_of(copies: IntArray, among: BoolArray | None = None) -> int:
    """Return the arm that stands for its copies: BLAS may round equal rows differently, so any may have won."""
    return int(copies[0] if among is None else copies[among[copies]][0])


def _each(arms: ArmSet, work: Callable[[IntArray, Array], T], among: BoolArray | None) -> Iterator[T]:
    """Yield work(row numbers, rows) of the arms in `among` (None: all), in order, at most a chunk at a time.

    Several threads share a large set.
    """
    if among is not None and np.count_nonzero(among) <= GATHER_ROWS:
        index = np.flatnonzero(among)
        return iter([work(index, arms.gather(index))] if len(index) else [])

    def on_piece(piece: tuple[int, Array]) -> T:
        start, rows = piece
        if among is None or (counts := among[start : start + len(rows)]).all():
            return work(np.arange(start, start + len(rows)), rows)
        inside = np.flatnonzero(counts)
        return work(start + inside, rows.take(inside, axis=0))  # rows[inside] takes twice to eight times as long

    size = arms.n_arms * arms.dim
    pieces = _cut(arms.chunks()) if size < SMALL else arms.chunks()
    if among is not None:
        pieces = ((start, rows) for start, rows in pieces if among[start : start + len(rows)].any())
    return in_threads(on_piece, pieces) if size >= THREADED else map(on_piece, pieces)


def _cut(chunks: Iterable[tuple[int, Array]]) -> Iterator[tuple[int, Array]]:
    """Yield the chunks in pieces of at most `PIECE` rows."""
    for first, rows in chunks:
        for start in range(0, len(rows), PIECE):
            yield first + start, rows[start : start + PIECE]


@one_blas_thread
def lowest(arms: ArmSet, score: RowScore, n: int, among: BoolArray | None = None) -> tuple[IntArray, Array]:
    """Return the n arms of `among` whose rows have the smallest score, and these scores, smallest first."""
    smallest = Smallest(n)

    def scored(index: IntArray, rows: Array) -> tuple[IntArray, Array]:
        scores = score(rows)
        return index, scores if among is None else np.where(among[index], scores, np.inf)

    # A score costs little beside fetching its row: unless few rows count, all are scored.
    is_dense = among is None or np.count_nonzero(among) > arms.n_arms // 4
    for index, scores in _each(arms, scored, None if is_dense else among):
        smallest.add(index, scores)
    return smallest.merged()


def _with_forms(
    arms: ArmSet, x: Array, vectors: Arrays, factors: Arrays, work: Callable[[PairForms], T]
) -> Callable[[IntArray, Array], T]:
    """Return the function that maps row numbers and rows to work(forms of y = x - row), see `ArmSet.pair_forms`."""
    together = np.hstack(factors).T.copy() if factors else np.empty((0, len(x)))
    ends = np.cumsum([F.shape[1] for F in factors], dtype=np.int64)
    weights = None
    if len(factors) == 2 and arms.n_arms * arms.dim >= SMALL and np.isfinite(together).all():
        together, weights = shared_axes(*factors)  # halves the product, which is most of the work

    def forms_of(index: IntArray, rows: Array) -> PairForms:
        # The difference first, then the products: the gap of two nearly equal arms keeps its digits.
        y = x - rows
        products = [y @ u for u in vectors]
        mapped = together @ y.T  # one product for all factors; long rows, so that their squares add up fast
        if weights is not None:
            mapped *= mapped
            return PairForms(index, products, list(weights @ mapped))
        parts = (mapped[end - F.shape[1] : end] for F, end in zip(factors, ends, strict=True))
        return PairForms(index, products, [np.einsum("ij,ij->j", part, part) for part in parts])

    return lambda index, rows: work(forms_of(index, rows))  # by then the temporary arrays of `forms_of` are free again


@one_blas_thread
def lowest_against(
    arms: ArmSet, x: Array, theta: Array, factors: Arrays, score: PairScore, n: int, others: BoolArray
) -> Rivals:
    """Return the n arms of `others` with the smallest score against x (d,), see `ArmSet.rivals`."""
    smallest, least_gap = Smallest(n), np.inf

    def scored(forms: PairForms) -> tuple[float, IntArray, Array]:
        gap = forms.products[0]
        return float(gap.min()), forms.index, np.asarray(score(gap, *forms.squares), dtype=np.float64)

    for gap, index, scores in _each(arms, _with_forms(arms, x, [theta], factors, scored), others):
        least_gap = min(least_gap, gap)
        smallest.add(index, scores)
    index, scores = smallest.merged()
    return Rivals(index, scores, (x - arms.gather(index)) @ theta, least_gap)


@final
class RowSubset(ArmSet):
    """Some rows of a set under new numbers 0, 1, ..., when most rows are out."""

    def __init__(self, rows: Array) -> None:
        self._rows = rows
        self.n_arms, self.dim = rows.shape

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these new numbers, (n, d)."""
        return self._rows.take(np.asarray(index, dtype=np.int64), axis=0)

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first new number, rows) in order."""
        yield from row_chunks(self._rows)

    def copies(self, arm: int) -> IntArray:
        """Return the row itself: copies are left out when a subset is taken."""
        return np.array([arm], dtype=np.int64)


@final
@dataclass(frozen=True, slots=True)
class HardestRival:
    """The statistic Z' of a set, or a lower bound on it."""

    value: float
    is_exact: bool
    """Whether `value` is Z' itself to rounding."""
    rival: Array
    """An arm (d,) that attains it, or about; for plots and explanations alone."""


@runtime_checkable
class VectorSet(Protocol):
    """A set of vectors that answers questions by formula."""

    @property
    def dim(self) -> int:
        """Number of features d."""

    @property
    def description(self) -> str:
        """The name of the set in sentences, such as "the unit sphere in R^3"."""

    @property
    def needs_slack(self) -> bool:
        """Whether the set needs epsilon > 0, because arms can be arbitrarily close to the best one."""

    def best(self, theta: Array) -> Array:
        """Return an arm (d,) with the largest theta'a; always the same one for the same theta."""

    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """Return Z' or a lower bound on it; epsilon = 0 only if the set does not need slack."""

    def cycle(self, number: int, seed: int) -> Array:
        """Return the arms (n, d) of one round of a fixed design, number = 0, 1, 2, ...; each round alone spans R^d."""

    def checked(self, arm: Arm) -> Array:
        """Return the arm as a float vector (d,), exactly as the set writes it.

        Raises:
            InvalidInput: it is not an arm of this set.
        """


class NamedSet:
    """Base class of the vector sets that a log or the command line can name.

    A subclass sets `kind` and `parameters`, and adds a line to `surepick.arms.VECTOR_SETS`.
    """

    __slots__ = ()
    kind: ClassVar[str]
    """The name of the set in logs, and without the dashes of its option on the command line."""
    parameters: ClassVar[tuple[str, ...]] = ("dim",)
    """Arguments of the constructor, which are attributes too; numbers or arrays."""

    def to_json(self) -> dict[str, Any]:
        """Return kind and parameters as JSON has them."""
        values = {name: np.asarray(getattr(self, name)).tolist() for name in self.parameters}
        return {"kind": self.kind, **values}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """Return the set that `to_json` has written."""
        build: Callable[..., Self] = cls
        return build(*(written[name] for name in cls.parameters))

    @classmethod
    def json_dim(cls, written: Mapping[str, Any]) -> Any:
        """Return the number of features that a log claims, before anything is built: a stranger may have written it."""
        first = written.get(cls.parameters[0])
        return len(first) if isinstance(first, list) else first

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the set that the command line spells as --kind TEXT.

        Raises:
            InvalidInput: the text spells no such set.
        """
        build: Callable[..., Self] = cls
        return build(int(text))


def least_statistic(y: Array, theta: Array, F: Array, epsilon: float) -> tuple[float, int]:
    """Return the smallest (theta'y + epsilon)^2 / (2 |F'y|^2) over the rows of y (n, d), and which row has it."""
    values = glr(y @ theta, square_norms(y @ F), epsilon)
    i = int(np.argmin(values))
    return float(values[i]), i


def check_entries(arm: Arm, dim: int, allowed: tuple[float, float], needed: str, advice: str) -> Array:
    """Return the arm as a float vector (d,) that has the two allowed entries only; `needed` names them in errors."""
    vector = check_vector("arm", arm, dim)
    wrong = np.flatnonzero(~np.isin(vector, allowed))
    if wrong.size:
        i = int(wrong[0])
        raise InvalidInput(f"`arm` must have entries {needed} only, got {vector[i]:g} at position {i}; {advice}.")
    return vector


Place = tuple[int, int, float]
"""Row, column and value of a number."""


def first_not_finite(start: int, rows: Array) -> Place | None:
    """Return the first number that is not finite, in rows numbered from `start` on; None if there is none."""
    finite = np.isfinite(rows)
    if finite.all():
        return None
    i, j = (int(place[0]) for place in np.nonzero(~finite))
    return start + i, j, float(rows[i, j])


def check_finite(what: str, bad: Place | None, column_names: Sequence[object]) -> None:
    """Refuse a number that is not finite."""
    if bad is not None:
        row, column, value = bad
        raise InvalidInput(
            f"{what} must be finite, got {value} in row {row}, column {column_names[column]}; fill or drop such rows."
        )


def check_choice(n_arms: int, *, is_constant: bool = False, where: str = "") -> None:
    """Refuse arms that leave no choice: fewer than two, or copies of one."""
    if n_arms < 2:
        raise InvalidInput(f"at least two arms are needed, got {n_arms}{where}; add arms.")
    if is_constant:
        raise InvalidInput(
            f"at least two different arms are needed, got {n_arms} copies of one{where}; add features that differ."
        )


def check_span(R: Array, feature_names: Sequence[str], *, advice: str, where: str = "") -> None:
    """Refuse arms that leave a direction unmeasured; `advice` may name features that are `{enough}`."""
    kept, dim = independent_columns(R), len(feature_names)
    if len(kept) < dim:
        empty = [name for name, column in zip(feature_names, R.T, strict=True) if not column.any()]
        why = f" (always zero: {', '.join(empty)})" if empty else ""
        enough = ", ".join(feature_names[j] for j in kept)
        raise ArmsDoNotSpan(
            f"arms must span R^{dim} but have rank {len(kept)}{why}{where}; {advice.format(enough=enough)}."
        )


Groups = tuple[tuple[int, ...], ...]


def duplicate_groups(arms: ArmSet) -> Groups:
    """Return the groups of rows that are equal, by their first. One pass over the rows, and a hash of each."""
    codes = np.concatenate([row_codes(np.ascontiguousarray(chunk)) for _, chunk in arms.chunks()])
    ranked = np.sort(codes)  # several times faster than the order itself, which is needed only if two agree
    if not (ranked[1:] == ranked[:-1]).any():
        return ()
    _, place, n_rows = np.unique(codes, return_inverse=True, return_counts=True)
    seen = np.flatnonzero(n_rows[place] > 1)
    groups: dict[bytes, list[int]] = defaultdict(list)  # by the rows: different ones may have the same hash
    for start in range(0, len(seen), GATHER_ROWS):
        piece = seen[start : start + GATHER_ROWS]
        for row, x in zip(piece.tolist(), arms.gather(piece), strict=True):
            groups[x.tobytes()].append(row)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def same_features(labels: Sequence[str]) -> str:
    """Return a sentence on arms with equal features."""
    *others, last = labels
    return f"{', '.join(others)} and {last} have the same features and cannot be told apart by this model"


def recipe_of(written: Mapping[str, Any], key: int, features: Sequence[float]) -> dict[str, Any]:
    """Return an arm as its table has it: every column, with levels in words.

    In logs of earlier versions, and of arms that came without a table, features are all that is known: a level that has
    no feature of its own cannot be named.
    """
    columns: Sequence[Any] = (written.get("table") or {"columns": ()})["columns"]
    known = {column["title"]: column["cells"][key] for column in columns}
    if any(cell is not None for cell in known.values()):
        return known
    names = written.get("features") or [f"feature {place}" for place, _ in enumerate(features, start=1)]
    known = {}
    for name, value in zip(map(str, names), features, strict=True):
        column, equals, level = name.partition("=")
        if equals and ":" not in name and value in (0.0, 1.0):
            known |= {column: level} if value else {}
        elif name != "constant":
            known[name] = value
    return known
