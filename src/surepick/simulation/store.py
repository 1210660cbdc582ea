"""Where the runs of an experiment are kept: a sorted table, and a journal of what is not in it yet.

A folder of results holds

    experiment.toml     the experiment as it was swept last; beside it the files of its plug-ins
    runs.parquet        one row per run, see `schema`: by cell in the order of the experiment, then by run
    journal.jsonl       rows not in the table yet, one JSON object per line

A finished run is a line at the end of the journal. When the journal has `MERGE_AT` lines, and at the end, its rows are
merged into a new table, which replaces the old one in one step; then the journal is emptied. So a process killed at any
moment loses the runs it was doing and nothing else: a torn last line is cut, and rows that are in the table already
(killed between the two steps) are dropped. After a power cut the last second of runs may be missing too.

Table and journal are read and written in pieces: memory does not grow with the number of runs, but for one byte each to
know which are done. Rows of cells that the experiment does not have any more are kept, behind the others.
"""

import json
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from surepick.errors import InvalidInput, SurepickError
from surepick.files import lock, replacing
from surepick.simulation.experiment import Cell, Experiment, canonical_json

MERGE_AT = 4000
"""Lines of the journal from which on they are merged into the table."""
GROUP = 8192
"""Rows that are read or written at once."""
SYNC_SECONDS = 1.0
"""How long lines may stay in the memory of the operating system."""

EXPERIMENT, TABLE, JOURNAL = "experiment.toml", "runs.parquet", "journal.jsonl"

Row = dict[str, Any]

# Column to its type and what it is in Python.
_COLUMNS: dict[str, tuple[str, type]] = {
    "key": ("string", str),
    "run": ("int64", int),
    "experiment": ("string", str),
    "problem": ("string", str),
    "arguments": ("string", str),
    "algorithm": ("string", str),
    "options": ("string", str),
    "delta": ("float64", float),
    "seed": ("int64", int),
    "n_pulls": ("int64", int),
    "stopped": ("bool_", bool),
    "correct": ("bool_", bool),
    "support": ("int64", int),
    "seconds": ("float64", float),
    "evidence": ("float64", float),
    "target": ("float64", float),
    "lower_bound": ("float64", float),
    "version": ("string", str),
}


def schema() -> Any:
    """The columns of the table."""
    pa = _arrow()
    return pa.schema([pa.field(name, getattr(pa, kind)(), nullable=False) for name, (kind, _) in _COLUMNS.items()])


def cell_columns(cell: Cell) -> Row:
    """What the rows of a cell have in common."""
    return {
        "key": cell.key,
        "experiment": cell.experiment,
        "problem": cell.problem.name,
        "arguments": canonical_json(cell.arguments),
        "algorithm": cell.algorithm.label,
        "options": canonical_json(cell.algorithm.options),
        "delta": cell.delta,
        "seed": cell.seed,
    }


@final
class Store:
    """The folder of an experiment, open for one process that adds runs; to be used in a `with` block.

    Args:
        folder: made if there is none.
        experiment: must have the name of the one in the folder; may have other cells than before.

    Raises:
        InvalidInput: the folder belongs to something else.
        SurepickError: another process writes there, or a file is damaged; nothing was changed then.
    """

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        _arrow()
        self.folder = folder
        self._cells = {cell.key: cell_columns(cell) for cell in experiment.cells()}
        self._done = {key: bytearray() for key in self._cells}
        self._pending: list[Row] = []
        _check_owner(folder, experiment)  # before anything is written to somebody else's folder
        folder.mkdir(parents=True, exist_ok=True)
        self._journal = _open_alone(folder / JOURNAL)
        try:
            for _, table in _groups(folder / TABLE, ["key", "run"]):
                for key, run in zip(table["key"].to_pylist(), table["run"].to_pylist(), strict=True):
                    self._mark(key, run)
            self._read_journal()
            self._is_settled = not self._pending
            if not _check_owner(folder, experiment):
                # The table first: killed in between, the next process finds the old experiment and sorts again.
                if (folder / TABLE).exists():
                    self._is_settled = False
                    self.merge()
                _save_experiment(folder, experiment)
        except BaseException:
            os.close(self._journal)
            raise
        self._synced_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.merge()
        finally:
            os.close(self._journal)

    def missing(self, key: str, n_runs: int) -> Iterator[int]:
        """Numbers below n_runs of the runs a cell does not have yet."""
        done = self._done[key]
        return (run for run in range(n_runs) if run >= len(done) or not done[run])

    def n_missing(self, n_runs: int) -> int:
        """How many runs all cells together lack."""
        return sum(n_runs - sum(done[:n_runs]) for done in self._done.values())

    def append(self, rows: Iterable[Row]) -> None:
        """Keep finished runs: each has `key`, `run` and what is not common to its cell."""
        lines = b""
        for row in rows:
            full = {**self._cells[row["key"]], **row}
            lines += json.dumps({name: full[name] for name in _COLUMNS}).encode() + b"\n"
            self._pending.append(full)
            self._mark(full["key"], full["run"])
        self._is_settled = self._is_settled and not lines
        view = memoryview(lines)
        while view:  # a full disk may take a part first
            view = view[os.write(self._journal, view) :]
        if time.monotonic() - self._synced_at > SYNC_SECONDS:
            os.fsync(self._journal)
            self._synced_at = time.monotonic()
        if len(self._pending) >= MERGE_AT:
            self.merge()

    def merge(self) -> None:
        """Bring everything into the table."""
        if self._is_settled:
            return
        os.fsync(self._journal)
        with replacing(self.folder / TABLE, is_only_writer=True) as path:
            self._write_table(path)
        os.ftruncate(self._journal, 0)
        os.fsync(self._journal)
        self._pending.clear()
        self._is_settled = True
        _arrow().default_memory_pool().release_unused()

    def _mark(self, key: str, run: int) -> None:
        done = self._done.get(key)
        if done is not None:
            if run >= len(done):
                done.extend(bytes(run + 1 - len(done)))
            done[run] = 1

    def _read_journal(self) -> None:
        """Take over the journal; cut a line that was being written when its process was killed."""
        path = self.folder / JOURNAL
        with path.open("rb") as file:
            end = 0
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    break
                row = _parsed(line)
                if row is None:
                    raise SurepickError(
                        f"line {number} of {path} is damaged; delete it to do its run again, or move the file away."
                    )
                end += len(line)
                self._pending.append(row)
                self._mark(row["key"], row["run"])
        os.ftruncate(self._journal, end)

    def _write_table(self, path: Path) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 (optional)

        old = self.folder / TABLE
        places: dict[str, list[int]] = {}  # key to the groups that hold rows of it
        for number, table in _groups(old, ["key"]):
            for key in table["key"].unique().to_pylist():
                places.setdefault(key, []).append(number)
        new: dict[str, list[Row]] = {}
        for row in self._pending:
            new.setdefault(row["key"], []).append(row)
        others = sorted({*places, *new} - set(self._cells))
        with pq.ParquetWriter(path, schema(), compression="zstd", write_page_checksum=True) as writer:
            for piece in _regrouped(self._merged([*self._cells, *others], places, new, _GroupReader(old))):
                writer.write_table(piece)

    def _merged(
        self, keys: Sequence[str], places: dict[str, list[int]], new: dict[str, list[Row]], read: Callable[[int], Any]
    ) -> Iterator[Any]:
        """Tables whose rows are sorted, one after the other."""
        pa = _arrow()
        for key in keys:
            rows = sorted(new.get(key, []), key=lambda row: int(row["run"]))
            for number in places.get(key, []):
                table = read(number)
                table = table.filter(pa.compute.equal(table["key"], key))
                last = table["run"][-1].as_py()
                n_before = sum(row["run"] <= last for row in rows)
                yield self._joined(table, rows[:n_before])
                rows = rows[n_before:]
            if rows:
                yield self._joined(schema().empty_table(), rows)

    def _joined(self, table: Any, rows: list[Row]) -> Any:
        """Old and new rows of one cell, each run once, under the texts the cell has now."""
        pa = _arrow()
        if rows:
            table = pa.concat_tables([table, pa.Table.from_pylist(rows, schema=schema())])
            # The first of two equal runs, which is the one from the table.
            table = table.take(np.unique(table["run"].to_numpy(), return_index=True)[1])
        common = self._cells.get(table["key"][0].as_py(), {})
        for name in ("experiment", "algorithm"):
            if name in common:
                column = pa.array([common[name]] * len(table), pa.string())
                table = table.set_column(table.schema.get_field_index(name), schema().field(name), column)
        return table


def settle(folder: Path, experiment: Experiment) -> None:
    """Bring what a killed process has left in the journal into the table."""
    with Store(folder, experiment):
        pass


def check_table(path: Path) -> Any:
    """Open a table of runs.

    Raises:
        SurepickError: there is none, it is damaged, or it holds something else.
    """
    pa = _arrow()
    import pyarrow.parquet as pq  # noqa: PLC0415 (optional)

    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
    except FileNotFoundError as error:
        raise SurepickError(f"there is no {path}; sweep the experiment first.") from error
    except (OSError, pa.ArrowException) as error:
        raise SurepickError(f"{path} is damaged or no Parquet file; move it away to do its runs again.") from error
    if not file.schema_arrow.equals(schema()):
        file.close()
        raise SurepickError(f"{path} is no table of runs: its columns are {', '.join(file.schema_arrow.names)}.")
    return file


@final
class _GroupReader:
    """Reads groups of a table; neighbouring cells share one, so the last one is kept."""

    def __init__(self, path: Path) -> None:
        self._path, self._number, self._table = path, -1, None

    def __call__(self, number: int) -> Any:
        if number != self._number:
            self._table = next(table for _, table in _groups(self._path, None, [number]))
            self._number = number
        return self._table


def _groups(path: Path, columns: list[str] | None, numbers: Iterable[int] | None = None) -> Iterator[tuple[int, Any]]:
    """Read groups of rows one by one; none if there is no table."""
    if not path.exists():
        return
    pa = _arrow()
    with check_table(path) as file:
        for number in range(file.num_row_groups) if numbers is None else numbers:
            try:
                yield number, file.read_row_group(number, columns=columns, use_threads=False)
            except (OSError, pa.ArrowException) as error:
                raise SurepickError(f"{path} is damaged; move it away to do its runs again.") from error


def _regrouped(tables: Iterable[Any]) -> Iterator[Any]:
    """The same rows in larger tables."""
    pa = _arrow()
    waiting: list[Any] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= GROUP:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def _parsed(line: bytes) -> Row | None:
    """A line of the journal; None if it is damaged."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    is_row = isinstance(row, dict) and list(row) == list(_COLUMNS)
    return row if is_row and all(type(row[name]) is kind for name, (_, kind) in _COLUMNS.items()) else None


def _check_owner(folder: Path, experiment: Experiment) -> bool:
    """Whether the folder has exactly this experiment already; refuses folders of something else."""
    path = folder / EXPERIMENT
    if not path.exists():
        journal = folder / JOURNAL
        if (folder / TABLE).exists() or (journal.exists() and journal.stat().st_size > 0):
            raise InvalidInput(f"{folder} has runs but no {EXPERIMENT} that says of what; choose another folder.")
        return False
    try:
        text = path.read_text("utf-8")
        name = tomllib.loads(text).get("name")
    except (OSError, ValueError) as error:
        raise SurepickError(f"{path} is damaged; put the experiment there again, or move it away.") from error
    if name != experiment.name:
        raise InvalidInput(
            f"{folder} belongs to the experiment {name!r}, got {experiment.name!r}; choose another folder."
        )
    sources = {folder / spec.plugin.file.name: spec.plugin.source for spec in experiment.algorithms if spec.plugin}
    return text == experiment.text and all(
        file.exists() and file.read_text("utf-8") == source for file, source in sources.items()
    )


def _save_experiment(folder: Path, experiment: Experiment) -> None:
    for spec in experiment.algorithms:
        if spec.plugin is not None:
            with replacing(folder / spec.plugin.file.name, is_only_writer=True) as path:
                path.write_text(spec.plugin.source, "utf-8")
    with replacing(folder / EXPERIMENT, is_only_writer=True) as path:
        path.write_text(experiment.text, "utf-8")


def _open_alone(path: Path) -> int:
    """Open the journal for appending."""
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    if not lock(handle):
        os.close(handle)
        raise SurepickError(f"another process writes to {path.parent}; wait for it or choose another folder.")
    return handle


def _arrow() -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415 (optional)
        import pyarrow.compute  # noqa: PLC0415
    except ImportError as error:
        raise SurepickError("keeping runs needs pyarrow; install surepick[bench].") from error
    return pa
