"""Arms in a file: the oracles of a set in memory, answered by passes over the file.

Notation: X (K, d) the rows of the file. Memory: a few pieces of about 2 MB, and one hash (8 bytes) per row while the
set is built, kept only if some rows have copies. Every piece handed to the arithmetic holds the rows that `FiniteArms`
would take together, however the file is read: sums are rounded in the same way, and so every answer is the same bit for
bit, also where arms are tied.

Readers yield rows block by block or by row number, never the whole file at once. A reader refuses an unusable file
with `InvalidInput`; errors of the libraries underneath (OSError, ValueError, ...) pass through, and `MappedArms` adds
the name of the file. `RowCache` keeps rows that were fetched lately: leaders, rivals and the arms of a design come back
at every step, and one row costs decoding a group of the file, or a round trip to a cluster.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from surepick.arms.base import GATHER_ROWS, ArmSet, check_choice, check_finite, check_span, first_not_finite
from surepick.arms.finite import in_span
from surepick.core.checks import check_count
from surepick.core.linalg import row_chunks, row_codes, tall_qr
from surepick.errors import InvalidInput, SurepickError
from surepick.types import Array, IntArray

AT_MOST = 16_384


@final
class RowCache:
    """Rows by number, fetched once while they are in use.

    Args:
        fetch: returns the rows (n, d) of increasing, different row numbers.
        dim: number of features d.
    """

    def __init__(self, fetch: Callable[[IntArray], Array], dim: int) -> None:
        self._fetch, self._dim = fetch, dim
        self._rows: dict[int, Array] = {}

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these numbers, in this order, (n, d)."""
        numbers = np.asarray(index, dtype=np.int64)
        wanted = np.unique(numbers)
        if len(wanted) > AT_MOST:
            return self._fetch(wanted).take(np.searchsorted(wanted, numbers), axis=0)
        known = self._rows
        missing = [row for row in wanted.tolist() if row not in known]
        if missing:
            fetched = self._fetch(np.array(missing, dtype=np.int64))
            # Copies: a view would keep alive the block it was cut from. And a new dict in one step: another thread sees
            # the old or the new one, never half of it.
            known = known | {row: x.copy() for row, x in zip(missing, fetched, strict=True)}
            self._rows = dict(list(known.items())[-AT_MOST:])
        return np.array([known[row] for row in numbers.tolist()]).reshape(len(numbers), self._dim)


SIGNED_ZERO = np.iinfo(np.int64).min
"""The bits of -0.0."""


def doubles(block: Any) -> Array:
    """Return rows as doubles in C order in which 0.0 has no sign."""
    with np.errstate(over="ignore"):  # what a double cannot hold becomes inf, which is refused with its place
        rows: Array = np.add(np.asarray(block), 0.0, dtype=np.float64, order="C")
    return rows


@final
class NpyReader:
    """A `.npy` file as a memory map: the system pages rows in and out, and no copy is made of plain doubles."""

    def __init__(self, path: Path, *, is_plain: bool) -> None:
        # Not `np.load`, which would also open archives and pickles under this name.
        table = np.asarray(np.lib.format.open_memmap(path, mode="r"))
        if table.ndim != 2:
            raise InvalidInput(
                f"{str(path)!r} must hold one row per arm, got shape {table.shape}; save a (K, d) array."
            )
        if table.dtype.kind not in "biuf":
            raise InvalidInput(f"{str(path)!r} must hold real numbers, got {table.dtype}; save an array of numbers.")
        self._table = table
        self.is_plain = is_plain
        self._may_be_plain = table.dtype == np.float64 and table.dtype.isnative and table.flags.c_contiguous
        self.n_rows = len(table)
        self.feature_names = tuple(f"x{j}" for j in range(table.shape[1]))

    def blocks(self, at_most: int) -> Iterator[Array]:
        """Yield all rows in order, at most `at_most` at a time."""
        has_signed_zero = False
        for start in range(0, self.n_rows, at_most):
            rows = self._table[start : start + at_most]
            if self._may_be_plain and not self.is_plain:
                has_signed_zero = has_signed_zero or bool((rows.view(np.int64) == SIGNED_ZERO).any())
            yield rows if self.is_plain else doubles(rows)
        self.is_plain = self._may_be_plain and not has_signed_zero

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these numbers, (n, d)."""
        rows = self._table[np.asarray(index, dtype=np.int64)]
        return rows if self.is_plain else doubles(rows)


@final
class ColumnReader:
    """A file with named columns, and groups of rows that can be read one at a time.

    Parquet is read by row groups, and a large group is decoded batch by batch. Arrow IPC (Feather version 2) is mapped
    into memory; compressed files are unpacked a record batch at a time.
    """

    is_plain = False

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow as pa  # noqa: PLC0415 - optional, and slow to import
        except ImportError as error:
            raise SurepickError(
                f"reading {path.suffix} files needs pyarrow; install surepick[files], or save the arms as .npy."
            ) from error
        self._pa = pa
        self._batches, schema, group_sizes = (_parquet if path.suffix.lower() == ".parquet" else _arrow)(path)
        self.feature_names = _feature_names(path, schema)
        self._ends = np.cumsum(group_sizes, dtype=np.int64)  # row number after the last row of each group
        self.n_rows = sum(group_sizes)
        self._recent = RowCache(self._fetch, len(self.feature_names))

    def _doubles(self, batch: Any) -> Array:
        rows = np.empty((batch.num_rows, len(self.feature_names)))
        for j, name in enumerate(self.feature_names):
            column = batch.column(name).cast(self._pa.float64(), safe=False)
            rows[:, j] = column.to_numpy(zero_copy_only=False)  # a missing value becomes NaN
        rows += 0.0
        return rows

    def blocks(self, at_most: int) -> Iterator[Array]:
        """Yield all rows in order, at most `at_most` at a time."""
        for group in range(len(self._ends)):
            for batch in self._batches(group, at_most, self.feature_names):
                for start in range(0, batch.num_rows, at_most):
                    yield self._doubles(batch.slice(start, at_most))

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these numbers, (n, d)."""
        return self._recent.gather(index)

    def _fetch(self, index: IntArray) -> Array:
        """Return rows of increasing numbers; only their groups are read."""
        found = [np.empty((0, len(self.feature_names)))]
        groups = np.searchsorted(self._ends, index, side="right")
        for group in np.unique(groups):
            start = int(self._ends[group - 1]) if group else 0
            wanted = index[groups == group] - start
            first = 0
            for batch in self._batches(int(group), 65_536, self.feature_names):
                here = wanted[(wanted >= first) & (wanted < first + batch.num_rows)] - first
                if len(here):
                    found.append(self._doubles(batch.take(self._pa.array(here))))
                first += batch.num_rows
        return np.concatenate(found)


@final
class ConstantFirst:
    """Another reader's rows with a 1 in front of each."""

    is_plain = False

    def __init__(self, rows: NpyReader | ColumnReader) -> None:
        self._rows = rows
        self.n_rows, self.feature_names = rows.n_rows, ("constant", *rows.feature_names)

    def blocks(self, at_most: int) -> Iterator[Array]:
        """Yield all rows in order, at most `at_most` at a time."""
        return map(_after_one, self._rows.blocks(at_most))

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these numbers, (n, d)."""
        return _after_one(self._rows.gather(index))


def _after_one(rows: Array) -> Array:
    return np.column_stack([np.ones(len(rows)), rows])


Batches = Callable[[int, int, Sequence[str]], Iterable[Any]]
"""Maps the number of a group, rows at a time and columns to the record batches of the group."""


def _parquet(path: Path) -> tuple[Batches, Any, list[int]]:
    """Return the batches of a Parquet file, its schema, and the rows of each group."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - optional, and slow to import

    # A buffer of its own per column instead of whole column chunks: a group may be as large as the file.
    file = pq.ParquetFile(path, buffer_size=2**18, pre_buffer=False, page_checksum_verification=True)

    def batches(group: int, at_most: int, columns: Sequence[str]) -> Any:
        return file.iter_batches(at_most, row_groups=[group], columns=list(columns), use_threads=False)

    meta = file.metadata
    return batches, file.schema_arrow, [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]


def _arrow(path: Path) -> tuple[Batches, Any, list[int]]:
    """Return the batches of an Arrow file, its schema, and the rows of each of them."""
    import pyarrow as pa  # noqa: PLC0415 - optional, and slow to import

    file = pa.ipc.open_file(pa.memory_map(str(path)))
    sizes = [file.get_batch(i).num_rows for i in range(file.num_record_batches)]
    return lambda group, _at_most, _columns: [file.get_batch(group)], file.schema, sizes


def _feature_names(path: Path, schema: Any) -> tuple[str, ...]:
    """Return the columns that hold numbers; refuse others. A data frame's index is no feature."""
    from pyarrow import types  # noqa: PLC0415 - optional, and slow to import

    # pandas writes an index that is more than row numbers as a column and notes its name.
    index = {name for name in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)}
    fields = [field for field in schema if field.name not in index]
    for field in fields:
        kind = field.type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)):
            raise InvalidInput(
                f"{str(path)!r} must hold numbers alone, got {kind} in column {field.name!r}; encode or drop it."
            )
    names = tuple(field.name for field in fields)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidInput(f"{str(path)!r} must have columns with different names, got {twice[0]!r} twice; rename one.")
    return names


Reader = NpyReader | ColumnReader | ConstantFirst
"""Rows (K, d) in a file as `doubles`; `is_plain`: the file holds such itself, to be handed out without a copy."""


def open_reader(path: Path, *, is_plain: bool = False) -> NpyReader | ColumnReader:
    """Return a reader for this file, chosen by its suffix; `is_plain` as an earlier reader of it found."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return NpyReader(path, is_plain=is_plain)
    if suffix in (".parquet", ".arrow", ".feather"):
        return ColumnReader(path)
    raise InvalidInput(
        f"arms can be read from .npy, .parquet, .arrow and .feather files, got {str(path)!r}; convert it, or load it "
        "and pass the table itself."
    )


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
        """Check in one pass that rows are finite and differ, and compute their triangle and hashes."""
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
        """Turn errors of libraries about a damaged file into one that names the file."""
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
    """Return size and time of the last write, which a change of the file changes."""
    try:
        state = path.stat()
    except FileNotFoundError as error:
        raise InvalidInput(f"there is no file {str(path)!r}; check the path.") from error
    if not path.is_file():
        raise InvalidInput(f"{str(path)!r} must be one file, got a directory; pass a file in it.")
    return state.st_size, state.st_mtime_ns
