"""The folder of an experiment: `sweep` does the missing runs and saves each run as soon as it is finished.

    experiment.toml     the experiment, and beside it the files of its plug-ins
    runs.sqlite         every finished run, once
    runs.parquet        the table of the experiment's runs: sorted by cell in its order, then by run

Each batch of runs is one transaction, so a killed process loses only the runs in progress. After a power cut the last
finished runs may be missing too. When a sweep ends, it rewrites the table from the SQLite file in one step; if a sweep
is killed, the next one does so. If the SQLite file is missing, the runs of the table are imported. Every run has a
checksum. Rows are read and written in chunks, so memory does not grow with the number of runs. Runs of cells that the
experiment no longer has, such as those of a plug-in before its file was changed, stay in the SQLite file and are not in
the table: it can be grouped by label. Without pyarrow there is no table; reports read the SQLite file.
"""

import math
import sqlite3
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from itertools import chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Self, final

import numpy as np

from surepick._files import replacing
from surepick._version import __version__
from surepick.core.checks import check_count
from surepick.errors import InvalidInput, SurepickError
from surepick.simulation.experiment import Cell, Experiment, attached_files, canonical_json
from surepick.simulation.jobs import check_cells, job_of, told_of
from surepick.simulation.parallel import Show, dispatch, text_of
from surepick.simulation.run import run_once

GROUP = 8192
"""Rows read or written at once."""

EXPERIMENT, TABLE, DATABASE = "experiment.toml", "runs.parquet", "runs.sqlite"

Row = Mapping[str, Any]

_OF_CELL = {
    "key": str, "experiment": str, "problem": str, "arguments": str, "algorithm": str, "options": str, "delta": float,
    "seed": int,
}  # fmt: skip
_OF_RUN = {
    "key": str, "run": int, "n_pulls": int, "stopped": bool, "correct": bool, "support": int, "seconds": float,
    "evidence": float, "target": float, "lower_bound": float, "version": str,
}  # fmt: skip
_COLUMNS = {"key": str, "run": int} | _OF_CELL | _OF_RUN
LABEL = "label"
"""The column of the table with the name of the problem in reports."""
_ADDED = ("design_support", "cost")
"""Columns of runs that those of before do not have: the arms in a design, and the cost."""
_BEFORE: Mapping[str, Any] = {LABEL: "", **dict.fromkeys(_ADDED, math.nan)}
"""What stands in the place of later columns in tables of before."""
_LATER = {name: type(value) for name, value in _BEFORE.items()}


def schema() -> Any:
    """Return the columns of the table."""
    pa = _arrow()
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    columns = {**_COLUMNS, **_LATER}
    return pa.schema([pa.field(name, kinds[kind], nullable=False) for name, kind in columns.items()])


def cell_columns(cell: Cell) -> dict[str, Any]:
    """Return the columns that all rows of a cell share."""
    return {
        "key": cell.key,
        "experiment": cell.experiment,
        "problem": cell.problem.name,
        "arguments": canonical_json(cell.arguments),
        "algorithm": cell.algorithm.label,
        "options": canonical_json(cell.algorithm.options),
        "delta": cell.delta,
        "seed": cell.seed,
        LABEL: cell.shown,
    }


@final
class Store:
    """The folder of an experiment, open for one process that adds runs; use it in a `with` statement.

    Args:
        folder: the folder; created if missing.
        experiment: must have the same name as the experiment in the folder; its cells may differ.

    Raises:
        InvalidInput: the folder belongs to another experiment, or has runs without an experiment.
        SurepickError: another process writes to the folder, or a file is damaged. No run has changed then.
    """

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        if (folder / TABLE).exists():
            _arrow()  # or the table would fall behind
        self.folder = folder
        _check_owner(folder, experiment)  # before the first file is written to the folder
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack, _clear_errors(folder / DATABASE):
            self._db = sqlite3.connect(folder / DATABASE, timeout=0.0, isolation_level=None)
            stack.callback(self._db.close)
            # The lock ends with the process, even if the process is killed.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            if self._db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            with self._transaction():
                cells = [cell_columns(cell) for cell in experiment.cells()]
                self._labels = {cell["key"]: cell[LABEL] for cell in cells}
                self._set_up(cells)
                _check_owner(folder, experiment)
                if _save_experiment(folder, experiment):  # labels of problems may be new
                    self._is_settled = False
            stack.pop_all()

    def _set_up(self, cells: Sequence[Row]) -> None:
        is_new = not self._db.execute("SELECT 1 FROM sqlite_master").fetchone()
        if not is_new and not (self.folder / EXPERIMENT).exists():
            raise _without_experiment(self.folder)
        if is_new:
            self._db.execute(f"CREATE TABLE cells ({', '.join(_OF_CELL)}, place, PRIMARY KEY (key))")
            columns = ", ".join((*_OF_RUN, "crc", *_ADDED))
            self._db.execute(f"CREATE TABLE runs ({columns}, PRIMARY KEY (key, run)) WITHOUT ROWID")
            for table in _groups(self.folder / TABLE) if (self.folder / TABLE).exists() else ():
                rows = [{**_BEFORE, **row} for row in table.to_pylist()]
                self._insert("cells", [(*(row[name] for name in _OF_CELL), None) for row in rows])
                self._insert("runs", map(_checked, rows))
        self._db.execute("CREATE TABLE IF NOT EXISTS sweeps (n_runs)")
        for name in [name for name in _ADDED if name not in _names_of_runs(self._db)]:
            self._db.execute(f"ALTER TABLE runs ADD COLUMN {name}")
        placed = "SELECT * FROM cells WHERE place IS NOT NULL ORDER BY place"
        before = self._db.execute(placed).fetchall()
        self._db.execute("UPDATE cells SET place = NULL")
        self._insert("cells", [(*(cell[name] for name in _OF_CELL), place) for place, cell in enumerate(cells)])
        if self._db.execute(placed).fetchall() != before:
            self._is_settled = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.export()
        finally:
            self._db.close()

    @property
    def _is_settled(self) -> bool:
        """Whether the table has all runs."""
        return not self._db.execute("PRAGMA user_version").fetchone()[0]

    @_is_settled.setter
    def _is_settled(self, value: bool) -> None:
        self._db.execute(f"PRAGMA user_version = {int(not value)}")

    def want(self, n_runs: int) -> None:
        """Note how many runs of each cell are to be made, so that a report can say how many are missing."""
        with self._transaction():
            self._db.execute("DELETE FROM sweeps")
            self._db.execute("INSERT INTO sweeps VALUES (?)", (n_runs,))

    def missing(self, key: str, n_runs: int) -> Any:
        """Return the numbers below n_runs of the missing runs of a cell, as an array."""
        is_missing = np.ones(n_runs, dtype=np.bool_)
        for (run,) in self._db.execute("SELECT run FROM runs WHERE key = ? AND run < ?", (key, n_runs)):
            is_missing[run] = False
        return np.flatnonzero(is_missing)

    def append(self, rows: Iterable[Row]) -> None:
        """Save finished runs, all or none; a row has the columns that its cell does not share."""
        with _clear_errors(self.folder / DATABASE), self._transaction():
            self._insert("runs", map(_checked, rows))
            self._is_settled = False

    def export(self) -> None:
        """Write the table, unless it is complete."""
        if not _has_arrow():
            return
        pa = _arrow()
        with _clear_errors(self.folder / DATABASE):
            has_runs = self._db.execute("SELECT 1 FROM runs").fetchone() is not None
            if not has_runs or (self._is_settled and _is_of_now(self.folder / TABLE)):
                return
            with (
                replacing(self.folder / TABLE, is_only_writer=True) as path,
                pa.parquet.ParquetWriter(path, schema(), compression="zstd", write_page_checksum=True) as writer,
            ):
                for rows in _saved(self._db):
                    labelled = [{**row, LABEL: self._labels[row["key"]]} for row in rows]
                    writer.write_table(pa.Table.from_pylist(labelled, schema=schema()))
            self._is_settled = True
        pa.default_memory_pool().release_unused()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:  # commits, or rolls back after an error
            yield

    def _insert(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        # A cell is replaced, because its texts may be new; a saved run stays.
        verb, n = ("REPLACE", len(_OF_CELL)) if table == "cells" else ("IGNORE", len(_OF_RUN) + len(_ADDED))
        self._db.executemany(f"INSERT OR {verb} INTO {table} VALUES (?{', ?' * n})", rows)  # noqa: S608


def _checked(row: Row) -> tuple[Any, ...]:
    """Return a run as a row of the database, with its checksum."""
    values = tuple(kind(row[name]) for name, kind in _OF_RUN.items())
    added = [float(row.get(name, math.nan)) for name in _ADDED]
    summed = *values, *(one for one in added if not math.isnan(one))  # runs of before have none, and keep their sums
    return *values, zlib.crc32(repr(summed).encode()), *added


def _restored(row: tuple[Any, ...]) -> dict[str, Any]:
    """Return a row of the database as a run."""
    try:
        found = {
            name: math.nan if value is None else kind(value)  # SQLite has no NaN
            for (name, kind), value in zip({**_COLUMNS, **dict.fromkeys(_ADDED, float)}.items(), row, strict=False)
        }
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError from error
    if _checked(found)[len(_OF_RUN)] != row[-1]:
        raise sqlite3.DatabaseError
    return found


def _saved(db: sqlite3.Connection) -> Iterator[list[dict[str, Any]]]:
    """Yield the runs of the experiment in the order of the table, in chunks."""
    names = ", ".join(f"{'cells' if name in _OF_CELL else 'runs'}.{name}" for name in _COLUMNS)
    has = _names_of_runs(db)
    added = ", ".join(name if name in has else "NULL" for name in _ADDED)
    found = db.execute(
        f"SELECT {names}, {added}, crc FROM cells JOIN runs USING (key) WHERE place IS NOT NULL ORDER BY place, run"  # noqa: S608
    )
    while rows := [_restored(row) for row in found.fetchmany(GROUP)]:
        yield rows


def _names_of_runs(db: sqlite3.Connection) -> set[str]:
    """Return the names of the columns of runs."""
    return {name for _, name, *_ in db.execute("PRAGMA table_info(runs)")}


def settle(folder: Path, experiment: Experiment) -> None:
    """Write the table if a killed process left it incomplete."""
    with Store(folder, experiment):
        pass


def _fits(found: Any) -> bool:
    """Return whether these columns are those of a table of runs, of now or of before."""
    pa = _arrow()
    kept = [field for field in schema() if field.name not in _BEFORE or field.name in found.names]
    return bool(found.equals(pa.schema(kept)))


def _is_of_now(path: Path) -> bool:
    """Return whether a table exists and has all columns."""
    if not path.exists():
        return False
    pa = _arrow()
    try:
        found = pa.parquet.read_schema(path)
        return bool(found.equals(schema())) or not _fits(found)
    except (OSError, pa.ArrowException):  # the reader of a damaged table says so
        return True


def check_table(path: Path) -> Any:
    """Open a table of runs.

    Raises:
        SurepickError: the file is missing, damaged, or not a table of runs.
    """
    pa = _arrow()
    try:
        file = pa.parquet.ParquetFile(path, page_checksum_verification=True)
    except FileNotFoundError as error:
        raise SurepickError(f"there is no {path}; sweep the experiment first.") from error
    except (OSError, pa.ArrowException) as error:
        raise damaged(path) from error
    if not _fits(file.schema_arrow):
        file.close()
        raise SurepickError(f"{path} is not a table of runs: its columns are {', '.join(file.schema_arrow.names)}.")
    return file


def wanted_runs(folder: Path) -> int:
    """Return how many runs of each cell the last sweep was to make; 0 if that is not known."""
    if not (folder / DATABASE).exists():
        return 0
    try:
        with closing(sqlite3.connect(folder / DATABASE)) as db:
            found = db.execute("SELECT n_runs FROM sweeps").fetchone()
    except sqlite3.DatabaseError:  # of before, or damaged, which other readers say
        return 0
    return 0 if found is None else int(found[0])


def file_of_runs(table: Path) -> Path:
    """Return the file to read runs from: the table, or the SQLite file if pyarrow is missing and no table exists."""
    database = table.parent / DATABASE
    return database if not _has_arrow() and not table.exists() and database.exists() else table


def read_cells(path: Path, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the key and these columns of each cell, as arrays; memory holds at most a cell and a row group.

    The label of a problem is "" in a table of before, and in the SQLite file; arms of designs and costs of before are
    NaN.
    """
    file = file_of_runs(path)
    if file.name == DATABASE:
        yield from _saved_cells(file, names)
        return
    for key, pieces in groupby(_pieces(path, names), key=itemgetter(0)):
        tables = [table for _, table in pieces]
        has = [name for name in names if name in tables[0].column_names]
        found = {name: np.concatenate([table[name].to_numpy() for table in tables]) for name in has}
        yield key, found | {name: np.full(sum(map(len, tables)), _BEFORE[name]) for name in names if name not in has}


def _saved_cells(path: Path, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield from the SQLite file what `read_cells` yields from the table."""
    kinds = {name: object if kind is str else kind for name, kind in {**_COLUMNS, **_LATER}.items()}
    with _clear_errors(path), closing(sqlite3.connect(path)) as db:
        for key, found in groupby(chain.from_iterable(_saved(db)), key=itemgetter("key")):
            rows = list(found)
            yield key, {name: np.array([row.get(name, "") for row in rows], dtype=kinds[name]) for name in names}


def _pieces(path: Path, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the key of a cell and its rows within one row group."""
    for table in _groups(path, ["key", *names]):
        keys = table["key"].to_numpy()
        edges = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)]
        yield from ((str(keys[start]), table.slice(start, end - start)) for start, end in pairwise(edges))


def _groups(path: Path, names: Sequence[str] | None = None) -> Iterator[Any]:
    """Yield the row groups of a table."""
    with check_table(path) as file:
        wanted = None if names is None else [name for name in names if name in file.schema_arrow.names]
        try:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number, columns=wanted, use_threads=False)
        except (OSError, _arrow().ArrowException) as error:
            raise damaged(path) from error


def damaged(path: Path) -> SurepickError:
    """Return the error for a file that cannot be read."""
    kind, other = ("SQLite", TABLE) if path.name == DATABASE else ("Parquet", DATABASE)
    remedy = f"move it away; surepick makes it again from {other} if that file exists"
    return SurepickError(f"{path} is damaged or no {kind} file; {remedy}.")


def _without_experiment(folder: Path) -> InvalidInput:
    return InvalidInput(f"{folder} has runs but no {EXPERIMENT} to describe them; choose another folder.")


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        text = str(error)
        if "locked" in text:
            text = f"another process writes to {path.parent}; wait for it or choose another folder."
        elif isinstance(error, sqlite3.OperationalError) and "decode" not in text:
            text = f"cannot write {path}: {text}; runs saved before are still there."
        else:
            raise damaged(path) from error
        raise SurepickError(text) from error


def _check_owner(folder: Path, experiment: Experiment) -> None:
    """Refuse a folder that belongs to another experiment."""
    path = folder / EXPERIMENT
    if not path.exists():
        if (folder / TABLE).exists():
            raise _without_experiment(folder)
        return
    try:
        name = tomllib.loads(path.read_text("utf-8")).get("name")
    except (OSError, ValueError) as error:
        raise SurepickError(f"{path} is damaged; restore the file, or move it away.") from error
    if name != experiment.name:
        mine = f"belongs to the experiment {name!r}, got {experiment.name!r}"
        raise InvalidInput(f"{folder} {mine}; choose another folder.")


def _save_experiment(folder: Path, experiment: Experiment) -> bool:
    """Write the plug-ins, the tables and the experiment; return False if the folder has them already."""
    is_new = False
    for name, content in {**attached_files(experiment), EXPERIMENT: experiment.text.encode()}.items():
        file = folder / name
        if not file.exists() or file.read_bytes() != content:
            is_new = True
            with replacing(file, is_only_writer=True) as path:
                path.write_bytes(content)
    return is_new


def _has_arrow() -> bool:
    return find_spec("pyarrow") is not None


def _arrow() -> Any:
    try:
        import pyarrow.parquet  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise SurepickError("a table of runs needs pyarrow; install surepick[bench].") from error
    return pyarrow


class Failure(NamedTuple):
    """A run that ended in an error."""

    cell: str
    run: int
    error: str


class SweepResult(NamedTuple):
    """The result of a sweep."""

    n_before: int
    """Runs that existed before the sweep."""
    n_done: int
    failures: list[Failure]
    """The failure with the lowest run number of each cell, ordered by error text; `n_failed` counts all failures."""
    n_failed: int


def sweep(
    experiment: Experiment,
    folder: Path,
    *,
    n_runs: int,
    n_jobs: int = 1,
    dask: str | None = None,
    progress: Show = lambda _: None,
) -> SweepResult:
    """Do the missing runs among 0..n_runs-1 of every cell, and save each run as soon as it is finished.

    Args:
        experiment: the experiment to run.
        folder: folder of the runs.
        n_runs: runs of each cell.
        n_jobs: processes, also of a local Dask cluster; 1 is this one, -1 one per core.
        dask: address of a Dask scheduler such as "tcp://host:8786", or "local" for a cluster on this machine.
        progress: called at the start and after each batch.

    A run that ends in an error is reported and not saved; the other runs go on. After Ctrl-C, the next call resumes
    this sweep.

    Raises:
        InvalidInput: an algorithm cannot be composed as described, or `dask` is not an address; no run has started.
        SurepickError: processes or machines were lost, or a file of the folder is damaged.
    """
    check_count("n_runs", n_runs, least=1)
    cells = experiment.cells()
    with Store(folder, experiment) as store:
        store.want(n_runs)
        missing = [store.missing(cell.key, n_runs) for cell in cells]
        n_missing = sum(map(len, missing))
        lowest: dict[str, Failure] = {}
        n_failed = 0
        if n_missing:
            check_cells(cells)
        with closing(dispatch(_rows, cells, missing, progress, n_jobs=n_jobs, dask=dask)) as results:
            for done in results:
                is_lost = isinstance(done.result, BaseException)
                cell = str(cells[done.number])
                lost = [Failure(cell, run, text_of(done.result)) for run in done.runs] if is_lost else []
                rows, failures = ([], lost) if is_lost else done.result
                store.append(rows)
                n_failed += len(failures)
                for failure in failures:
                    lowest[cell] = min(failure, lowest.get(cell, failure))
    return SweepResult(len(cells) * n_runs - n_missing, n_missing - n_failed, sorted(lowest.values()), n_failed)


def _rows(cell: Cell, runs: list[int]) -> tuple[list[Row], list[Failure]]:
    """Do some runs of a cell; return finished and failed runs separately."""
    rows: list[Row] = []
    failures: list[Failure] = []
    for run in runs:
        try:
            found = run_once(job_of(cell), run)
        except Exception as error:  # noqa: BLE001 (the other runs go on)
            failures.append(Failure(str(cell), run, told_of(cell, error)))
        else:
            rows.append({**found._asdict(), "key": cell.key, "run": run, "version": __version__})
    return rows, failures
