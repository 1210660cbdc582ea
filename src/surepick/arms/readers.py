"""Readers: rows of numbers from a file, block by block or by row number, never the whole file at once.

Each reader refuses a file it cannot use with `InvalidInput`; what the libraries underneath raise about damaged files
(OSError, ValueError, ...) passes through and is given the file's name by whoever opened the reader.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from surepick.arms.recent import RecentRows
from surepick.core.linalg import Array, IntArray
from surepick.errors import InvalidInput, SurepickError

SIGNED_ZERO = np.iinfo(np.int64).min
"""The bits of -0.0."""


class Reader(ABC):
    """Rows (K, d) in a file, as doubles in C order in which 0.0 has no sign."""

    n_rows: int
    feature_names: tuple[str, ...]
    is_plain = False
    """Whether the file holds such doubles itself and can be handed out without a copy; known after one pass."""

    @abstractmethod
    def blocks(self, at_most: int) -> Iterator[Array]:
        """Yield all rows in order, at most so many at a time."""

    @abstractmethod
    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these numbers, (n, d)."""


def open_reader(path: Path, *, is_plain: bool = False) -> Reader:
    """Return a reader for this file, chosen by its suffix; `is_plain` as an earlier reader of it found."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return NpyReader(path, is_plain=is_plain)
    if suffix == ".parquet":
        return ParquetReader(path)
    if suffix in (".arrow", ".feather"):
        return ArrowReader(path)
    raise InvalidInput(
        f"arms can be read from .npy, .parquet, .arrow and .feather files, got {str(path)!r}; convert it, or load it "
        "and pass the table itself."
    )


def _doubles(block: Any) -> Array:
    with np.errstate(over="ignore"):  # what a double cannot hold becomes inf, which is refused with its place
        rows: Array = np.add(block, 0.0, dtype=np.float64, order="C")
    return rows


@final
class NpyReader(Reader):
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
            yield rows if self.is_plain else _doubles(rows)
        self.is_plain = self._may_be_plain and not has_signed_zero

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these numbers, (n, d)."""
        rows = self._table[np.asarray(index, dtype=np.int64)]
        return rows if self.is_plain else _doubles(rows)


class _ColumnReader(Reader):
    """What Parquet and Arrow files share: named columns, and groups of rows that can be read one at a time."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow as pa  # noqa: PLC0415 - optional, and slow to import
        except ImportError as error:
            raise SurepickError(
                f"reading {path.suffix} files needs pyarrow; install surepick[files], or save the arms as .npy."
            ) from error
        self._pa, self._path = pa, path
        self._ends = np.zeros(0, dtype=np.int64)  # row number after the last row of each group

    def _ready(self, schema: Any, group_sizes: Sequence[int]) -> None:
        self.feature_names = _feature_names(self._path, schema)
        self._ends = np.cumsum(group_sizes, dtype=np.int64)
        self.n_rows = int(self._ends[-1]) if len(self._ends) else 0
        self._recent = RecentRows(self._fetch, len(self.feature_names))

    @abstractmethod
    def _batches(self, group: int, at_most: int) -> Iterator[Any]:
        """Yield the record batches of a group."""

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
            for batch in self._batches(group, at_most):
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
            for batch in self._batches(int(group), 65_536):
                here = wanted[(wanted >= first) & (wanted < first + batch.num_rows)] - first
                if len(here):
                    found.append(self._doubles(batch.take(self._pa.array(here))))
                first += batch.num_rows
        return np.concatenate(found)


@final
class ParquetReader(_ColumnReader):
    """A Parquet file, read by row groups; a large group is decoded batch by batch."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        import pyarrow.parquet as pq  # noqa: PLC0415 - optional, and slow to import

        # A buffer of its own per column instead of whole column chunks: a group may be as large as the file.
        self._file = pq.ParquetFile(path, buffer_size=2**18, pre_buffer=False, page_checksum_verification=True)
        meta = self._file.metadata
        self._ready(self._file.schema_arrow, [meta.row_group(i).num_rows for i in range(meta.num_row_groups)])

    def _batches(self, group: int, at_most: int) -> Iterator[Any]:
        columns = list(self.feature_names)
        yield from self._file.iter_batches(at_most, row_groups=[group], columns=columns, use_threads=False)


@final
class ArrowReader(_ColumnReader):
    """An Arrow IPC file (Feather version 2) as a memory map; compressed ones are unpacked a record batch at a time."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file = self._pa.ipc.open_file(self._pa.memory_map(str(path)))
        n = self._file.num_record_batches
        self._ready(self._file.schema, [self._file.get_batch(i).num_rows for i in range(n)])

    def _batches(self, group: int, at_most: int) -> Iterator[Any]:
        yield self._file.get_batch(group)


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
