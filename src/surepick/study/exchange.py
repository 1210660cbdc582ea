"""Files of a study: export of the log and of the measurements, import of earlier results."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from surepick._files import replacing
from surepick._texts import safe_cell, told_cell
from surepick.arms.tables.columns import read_column, text_of
from surepick.arms.tables.sources import COLUMN_FILES, Table, open_table, refusing
from surepick.errors import InvalidInput, SurepickError
from surepick.study.events import Row, canonical
from surepick.study.state import Measurement, State

if TYPE_CHECKING:
    from surepick.study.study import Study


What = Literal["log", "measurements"]
SUFFIXES = (".csv", ".parquet", ".json")
VALUE_TITLES, ARM_TITLES = ("value", "reward", "result"), ("arm", "name", "id")


def export(study: "Study", path: Path, what: What = "log") -> None:
    """Write the log or the measurements to a CSV, Parquet or JSON file, as its ending says; whole or not at all."""
    if what not in ("log", "measurements"):
        raise InvalidInput(f'`what` must be "log" or "measurements", got {what!r}.')
    records = log_records(study.rows()) if what == "log" else measurement_rows(study.state)
    with refusing("cannot write", path), replacing(_checked(path)) as draft:
        match path.suffix.lower():
            case ".csv":
                draft.write_text(_csv(records), encoding="utf-8", newline="")
            case ".json":
                draft.write_text(json.dumps({what: records}, ensure_ascii=False) + "\n", encoding="utf-8")
            case _:
                pa, parquet = _pyarrow()
                parquet.write_table(pa.Table.from_pylist(records), draft)


def log_records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the log as a table: number, hash, and the hashed text of each event."""
    return [{"n": row.n, "hash": row.hash, "event": row.text} for row in rows]


def measurement_rows(state: State) -> list[dict[str, Any]]:
    """Return the measurements as a table; `value` is the result that counts, empty if it is void."""
    return [
        {
            "measurement": one.id,
            # All digits of a vector, so that the file can be imported.
            "arm": f"({', '.join(map(repr, one.arm))})" if isinstance(one.arm, tuple) else state.roster.label(one.arm),
            "value": one.value,
            "told": one.told,
            "void": one.is_void,
            "ask": one.ask,
            "worker": one.by,
            "time": one.at,
            "changes": "; ".join(f"{change.kind}: {change.reason}" for change in one.changes),
        }
        for one in state.measurements
    ]


def read_log(path: Path) -> list[Row]:
    """Read a log that `export` wrote.

    Raises:
        InvalidInput: the file is not such a log.
    """
    with refusing("cannot read", path):
        match _checked(path).suffix.lower():
            case ".csv":
                csv.field_size_limit(2**31 - 1)
                with path.open(encoding="utf-8", newline="") as file:
                    titles, *cells = csv.reader(file, strict=True)
                    records: list[Any] = [once_each([*zip(titles, row, strict=True)]) for row in cells]
            case ".json":
                document = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=once_each)
                records = document["log"] if isinstance(document, dict) and "log" in document else []
            case _:
                records = _pyarrow()[1].read_table(path).to_pylist()
        # No further columns: a reader could take them for a part of the log, and no hash covers them.
        is_log = all(isinstance(one, dict) and one.keys() == {"n", "hash", "event"} for one in records)
        if not is_log or [str(one["n"]) for one in records] != [str(n) for n in range(1, len(records) + 1)]:
            raise InvalidInput(
                f"{path} must be a log with the columns n, hash and event, all events from 1 on, as `surepick export` "
                "writes it."
            )
        return [Row(n, str(one["event"]), str(one["hash"])) for n, one in enumerate(records, start=1)]


def once_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object whose keys are all different: of two equal keys a reader sees one, a program the other."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise InvalidInput("a key stands there twice.")
    return table


def import_results(study: "Study", path: Path, *, worker: str | None = None) -> list[Measurement]:
    """Tell a study the earlier results in a CSV, Excel, Parquet or Arrow file with a column of arms and one of values.

    All results are told, or none. The lines must be in the order of measuring (docs/study.md). Results that were told
    before, by a file of any name or by `tell_earlier`, are not told again. Rows that `export` marks as void are left
    out.
    """
    table = _without_void(open_table(path))
    titles = {str(title).lower(): title for title in table.columns}
    arm = next((titles[title] for title in ARM_TITLES if title in titles), None)
    value = next((titles[title] for title in VALUE_TITLES if title in titles), None)
    if arm is None or value is None:
        raise InvalidInput(f"{path} must have the columns arm and value, got {', '.join(map(str, table.columns))}.")
    if not table.n_rows:
        raise InvalidInput(f"{path} has no results; it needs one in every line below the titles.")
    numbers, pairs = read_column(table, value).numbers, []
    if numbers is None:
        raise InvalidInput(f"{path}: column {value!r} must hold numbers, got {text_of(table[value][0])!r}.")
    for row, (label, number) in enumerate(zip(table[arm], numbers.tolist(), strict=True)):
        try:
            name = text_of(label).strip()
            plain = name if path.suffix.lower() in COLUMN_FILES else told_cell(name)
            pairs.append((study.arm(plain if plain in study.state.roster.rows_by_name else name), number))
        except InvalidInput as error:
            raise table.refusal(row, str(error)) from error
    if told := study.state.told_together(pairs):
        return told
    key = f"{path.name} {sha256(canonical({'': pairs}).encode()).hexdigest()}"
    return study.tell_earlier(pairs, worker=worker, key=key)


def _without_void(table: Table) -> Table:
    """Return the rows of a table that its column `void` does not mark."""
    if "void" not in table.cells:
        return table
    kept = [row for row, cell in enumerate(table["void"]) if str(cell).lower() != "true"]
    cells = {title: [column[row] for row in kept] for title, column in table.cells.items()}
    return replace(table, cells=cells, place=lambda row: table.place(kept[row]))


def _checked(path: Path) -> Path:
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"a table must be a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file, got {path.name!r}.")
    return path


def _csv(records: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    if records:
        writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: safe_cell(cell) if isinstance(cell, str) else cell for name, cell in record.items()}
            for record in records
        )
    return text.getvalue()


def _pyarrow() -> tuple[Any, Any]:
    """Return the optional package, and its module for Parquet."""
    try:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise SurepickError("Parquet files need pyarrow; install it with: pip install 'surepick[files]'.") from error
    return pa, parquet
