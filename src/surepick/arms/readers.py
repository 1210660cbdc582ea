"""Readers: rows of numbers from a file, block by block or by row number, never the whole file at once.

Each reader refuses a file it cannot use with `InvalidInput`; what the libraries underneath raise about damaged files
(OSError, ValueError, ...) passes through and is given the file's name by whoever opened the reader.

Rows fetched lately: an algorithm asks for the same few arms again and again.

Leaders, rivals and the arms of a design come back at every step. Where one row costs decoding a whole group of a file,
or a round trip to a cluster, remembering single rows saves more than remembering groups would.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

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
        """Yield all rows in order, at most so many at a time."""
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
        """Yield all rows in order, at most so many at a time."""
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
        """Yield all rows in order, at most so many at a time."""
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
