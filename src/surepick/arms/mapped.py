"""Arms in a file: the oracles of a set in memory, answered by passes over the file.

Notation: X (K, d) the rows of the file. Memory: a few pieces of about 2 MB, and one hash (8 bytes) per row while the
set is built, kept only if some rows have copies. Every piece handed to the arithmetic holds the rows that `FiniteArms`
would take together, however the file is read: sums are rounded in the same way, and so every answer is the same bit for
bit, also where arms are tied.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from surepick.arms.base import GATHER_ROWS, ArmSet, check_choice, check_finite, check_span, first_not_finite
from surepick.arms.features import in_span
from surepick.arms.readers import ColumnReader, ConstantFirst, Reader, open_reader
from surepick.core.checks import check_count
from surepick.core.linalg import row_chunks, row_codes, tall_qr
from surepick.errors import InvalidInput, SurepickError
from surepick.types import Array, IntArray

# Answers of `copies` kept at hand: those of the leader and its rivals are asked for again and again.
KNOWN_COPIES = 16
# Rows read at a time to see whether there is a constant among the columns.
LOOKED_AT = 10_000


@final
class MappedArms(ArmSet):
    """Arms in a file, one per row, read piece by piece and never loaded whole.

    Args:
        path: a `.npy` file with a (K, d) array of numbers (C order is fastest), a Parquet file (`.parquet`), or an
            Arrow IPC file (`.arrow`, `.feather`). In the latter two each column is a feature and must hold numbers;
            the index of a pandas data frame is left out.
        chunk_rows: rows to read at a time; default: about 2 MB of them. Answers do not depend on it.
        intercept: put a constant 1 in front of the features. Default: in front of columns with names (Parquet, Arrow),
            unless some combination of them is constant; a `.npy` is taken as it is.

    Identifications give the same pulls and the same answer as `FiniteArms` of the same rows. Arms are named by their
    row number. A pickle holds the path and a summary, no rows, so another process can go on with the same file.

    The file must stay as it is while the set is in use. A change of its size or time is noticed at the next pass; a
    mapped `.npy` or Arrow file that is cut off in the middle of one can end the process.

    Raises:
        InvalidInput: the file is damaged, empty, no table of finite numbers, holds fewer than two different arms, or
            was changed since.
        ArmsDoNotSpan: the rows leave a direction unmeasured.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = Path(folder.name, "arms.npy")
        >>> np.save(path, np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]]))
        >>> arms = MappedArms(path)
        >>> arms.n_arms, arms.dim, arms.best(np.array([1.0, 0.9]))
        (3, 2, 2)
        >>> folder.cleanup()
    """

    def __init__(
        self, path: str | os.PathLike[str], *, chunk_rows: int | None = None, intercept: bool | None = None
    ) -> None:
        self._build(path, chunk_rows, intercept=intercept)
        advice = "drop redundant features: {enough} are enough"
        check_span(self._triangle, self.feature_names, advice=advice, where=f" in {str(self.path)!r}")

    @classmethod
    def rows_only(cls, path: str | os.PathLike[str], *, chunk_rows: int | None = None) -> Self:
        """Build a set that need not span, without a constant: candidates that are compared but never measured."""
        rows = cls.__new__(cls)
        rows._build(path, chunk_rows, intercept=False)  # noqa: SLF001 - a constructor fills its own instance
        return rows

    def _build(self, path: str | os.PathLike[str], chunk_rows: int | None, *, intercept: bool | None) -> None:
        if not isinstance(path, str | os.PathLike):
            raise InvalidInput(f"`path` must be the path of a file, got a {type(path).__name__}; pass a path.")
        # Absolute, so that a process with another working directory finds it.
        self.path = Path(path).absolute()
        self._seen = _state_of(self.path)
        self._chunk_rows = None if chunk_rows is None else check_count("chunk_rows", chunk_rows, least=1)
        with self._naming_the_file():
            reader = open_reader(self.path)
            self.n_arms = reader.n_rows
            if self.n_arms == 0 or not reader.feature_names:
                raise InvalidInput(f"{str(self.path)!r} must hold at least one row and one column; it is empty.")
            if intercept is None:
                intercept = isinstance(reader, ColumnReader) and _lacks_constant(reader)
        self.has_added_constant = intercept
        """Whether a constant was put in front of the features of the file."""
        self._reader: Reader = ConstantFirst(reader) if intercept else reader
        self.feature_names = self._reader.feature_names
        self.dim = len(self.feature_names)
        self._known_copies: dict[int, IntArray] = {}
        self._examine()

    def _examine(self) -> None:
        """Look at every row once: is it finite, what does it span, does it occur twice."""
        codes = np.zeros(self.n_arms, dtype=np.uint64)

        def examined() -> Iterator[tuple[int, Array]]:
            for start, rows in self.chunks():
                check_finite(repr(str(self.path)), first_not_finite(start, rows), self.feature_names)
                codes[start : start + len(rows)] = row_codes(rows)
                yield start, rows

        self._triangle = tall_qr(examined(), self.dim)
        ranked = np.sort(codes)  # several times faster than the order itself
        self._has_copies = bool((ranked[1:] == ranked[:-1]).any())
        self._codes: NDArray[np.uint64] | None = codes if self._has_copies else None
        is_constant = self._has_copies and len(self.copies(0)) == self.n_arms
        check_choice(self.n_arms, is_constant=is_constant, where=f" in {str(self.path)!r}")

    def __len__(self) -> int:
        return self.n_arms

    def __repr__(self) -> str:
        return f"MappedArms({str(self.path)!r}: {self.n_arms} arms, {self.dim} features)"

    def __getstate__(self) -> dict[str, Any]:
        # Hashes are computed again where they are needed; they take a pass, and here they would take 8 K bytes.
        state = {**self.__dict__, "_codes": None, "_known_copies": {}, "_is_plain": self._reader.is_plain}
        del state["_reader"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._check_unchanged()
        with self._naming_the_file():
            reader = open_reader(self.path, is_plain=self.__dict__.pop("_is_plain"))
        self._reader = ConstantFirst(reader) if self.has_added_constant else reader

    @contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        """Turn what libraries say about a damaged file into an error that says which file it was."""
        try:
            yield
        except SurepickError:
            raise
        except (OSError, ValueError, EOFError, NotImplementedError, KeyError) as error:
            raise InvalidInput(
                f"{str(self.path)!r} must be a whole {self.path.suffix} file, but it is damaged or something else "
                f"({type(error).__name__}: {error}); use a copy."
            ) from error

    def _check_unchanged(self) -> None:
        if _state_of(self.path) != self._seen:
            raise InvalidInput(
                f"{str(self.path)!r} was changed after the arms were built from it, so earlier answers may not hold; "
                "build the set again, and write new arms to another file."
            )

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the arms with these row numbers, (n, d)."""
        numbers = np.asarray(index, dtype=np.int64)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.n_arms:
            raise InvalidInput(f"row numbers must be between 0 and {self.n_arms - 1}, got {numbers.tolist()[:10]}.")
        self._check_unchanged()
        with self._naming_the_file():
            return self._reader.gather(numbers)

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first row number, rows) over all arms in order."""
        # The pieces of a set in memory, read off an array of that shape that takes no memory.
        step = len(next(row_chunks(np.broadcast_to(0.0, (self.n_arms, self.dim))))[1])
        n_seen = 0
        for start, rows in _recut(self._blocks(self._chunk_rows or step), step):
            n_seen += len(rows)
            yield start, rows
        if n_seen != self.n_arms:
            raise InvalidInput(
                f"{str(self.path)!r} must hold {self.n_arms} rows as its head says, got {n_seen}; use a copy."
            )

    def _blocks(self, at_most: int) -> Iterator[Array]:
        blocks = self._reader.blocks(at_most)
        while True:
            self._check_unchanged()
            with self._naming_the_file():
                block = next(blocks, None)
            if block is None:
                return
            yield block

    def triangle(self) -> Array:
        """Return R (d, d), upper triangular with R'R = X'X, accurate even where X'X is not."""
        return self._triangle

    def copies(self, arm: int) -> IntArray:
        """Return the rows equal to this one, itself included, in increasing order."""
        if not self._has_copies:
            return np.array([arm], dtype=np.int64)
        known = self._known_copies
        if arm not in known:
            latest = list(known.items())[1 - KNOWN_COPIES :]
            known = self._known_copies = dict([*latest, (arm, self._find_copies(arm))])
        return known[arm]

    def _find_copies(self, arm: int) -> IntArray:
        if self._codes is None:
            self._codes = np.concatenate([row_codes(rows) for _, rows in self.chunks()])
        alike = np.flatnonzero(self._codes == self._codes[arm])
        x = self.gather([arm])
        # Rows with the same hash are almost surely equal, but only almost.
        pieces = [alike[start : start + GATHER_ROWS] for start in range(0, len(alike), GATHER_ROWS)]
        return np.concatenate([piece[(self.gather(piece) == x).all(axis=1)] for piece in pieces])


def _lacks_constant(reader: ColumnReader) -> bool:
    """Return whether no combination of the columns is 1 in every row; the first rows can all but always tell."""
    blocks = reader.blocks(LOOKED_AT)
    first = next(blocks)
    if not in_span(first, np.ones(len(first))):
        return True
    dim = first.shape[1]
    pieces = (np.column_stack([rows, np.ones(len(rows))]) for rows in chain([first], blocks))
    R = tall_qr(((0, rows) for rows in pieces), dim + 1)
    return not in_span(R[:, :dim], R[:, dim])


def _recut(blocks: Iterable[Array], step: int) -> Iterator[tuple[int, Array]]:
    """Yield (first row number, rows) in pieces of `step` rows, whatever the sizes of the blocks."""
    start, n, waiting = 0, 0, list[Array]()
    for whole in blocks:
        block = whole
        while len(block):
            part, block = block[: step - n], block[step - n :]
            waiting.append(part)
            n += len(part)
            if n == step:
                yield start, part if len(waiting) == 1 else np.concatenate(waiting)
                start, n, waiting = start + step, 0, []
    if waiting:
        yield start, waiting[0] if len(waiting) == 1 else np.concatenate(waiting)


def _state_of(path: Path) -> tuple[int, int]:
    """Return what a change of the file would change: size and time of the last write."""
    try:
        state = path.stat()
    except FileNotFoundError as error:
        raise InvalidInput(f"there is no file {str(path)!r}; check the path.") from error
    if not path.is_file():
        raise InvalidInput(f"{str(path)!r} must be one file, got a directory; pass a file in it.")
    return state.st_size, state.st_mtime_ns
