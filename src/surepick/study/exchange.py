"""Files of a study: sheets of asks to fill in, export of log and measurements, import of earlier results."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from surepick._files import replacing
from surepick._texts import safe_cell, shown, told_cell
from surepick.arms.tables.columns import is_missing, read_column, text_of
from surepick.arms.tables.sources import (
    COLUMN_FILES,
    EXCEL,
    Table,
    is_grouped,
    open_table,
    parse_number,
    refusing,
    without_unit,
)
from surepick.errors import BadLines, Conflict, InvalidInput, SurepickError, listed, what_was_meant
from surepick.learning.groups import GroupLabel, check_fixed, group_label
from surepick.study.events import Row, canonical
from surepick.study.requests import check_value, find_ask
from surepick.study.state import AskRecord, Measurement, State

if TYPE_CHECKING:
    from surepick.study.requests import StudyAsk
    from surepick.study.study import Study


What = Literal["log", "measurements"]
OF_LOGS = (".csv", ".parquet", ".json")
SUFFIXES = (*OF_LOGS, ".xlsx")
OF_SHEET = ("ask", "arm", "value", "comment")
"""Columns of a sheet of asks, beside the recipe."""
MOST_LINES = 20
"""Bad lines of a sheet that an error explains; of further ones it gives the places."""
GROUP_TITLES = ("group", "day", "date", "bench", "plate", "batch", "operator", "instrument", "worker", "item")
"""Titles of columns that may say where and when a value was measured; which ones do, is asked."""
VALUE_TITLES, ARM_TITLES = ("value", "reward", "result"), ("arm", "name", "id")


def export(study: "Study", path: Path, what: What = "log") -> None:
    """Write the log or the measurements to a CSV, Parquet or JSON file, as its ending says; whole or not at all.

    An Excel file holds measurements alone: the text of an event may be too long for a cell.
    """
    if what not in ("log", "measurements"):
        raise InvalidInput(f'`what` must be "log" or "measurements", got {what!r}.')
    if what == "log" and path.suffix.lower() in EXCEL:
        raise InvalidInput(f'an Excel file can hold what="measurements", got {what!r}; write the log to a .csv file.')
    records = log_records(study.rows()) if what == "log" else measurement_rows(study.state)
    with refusing("cannot write", path), replacing(_checked(path)) as draft:
        match path.suffix.lower():
            case ".csv":
                draft.write_text(_csv(records), encoding="utf-8", newline="")
            case ".json":
                draft.write_text(json.dumps({what: records}, ensure_ascii=False) + "\n", encoding="utf-8")
            case ".xlsx":
                titles = list(records[0]) if records else list(OF_EXPORT)
                _write_excel(draft, [titles, *(list(record.values()) for record in records)])
            case _:
                pa, parquet = _pyarrow()
                parquet.write_table(pa.Table.from_pylist(records), draft)


def log_records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the log as a table: number, hash, and the hashed text of each event."""
    return [{"n": row.n, "hash": row.hash, "event": row.text} for row in rows]


OF_EXPORT = ("measurement", "arm", "value", "told", "void", "ask", "worker", "time", "changes")
"""Columns of exported measurements; a column for each factor of their labels follows."""


def measurement_rows(state: State) -> list[dict[str, Any]]:
    """Return the measurements as a table; `value` is the result that counts, empty if it is void."""
    factors = _factor_titles([one.group for one in state.measurements], OF_EXPORT)
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
            **{title: dict(one.group).get(factor) for factor, title in factors.items()},
        }
        for one in state.measurements
    ]


def _factor_titles(labels: Sequence[GroupLabel], taken: Sequence[str]) -> dict[str, str]:
    """Return a title for each factor of labels, other than those that are taken."""
    factors = sorted({factor for label in labels for factor, _ in label})
    return {one: f"{one} (group)" if one.lower() in taken else one for one in factors}


def read_log(path: Path) -> list[Row]:
    """Read a log that `export` wrote.

    Raises:
        InvalidInput: the file is not such a log.
    """
    with refusing("cannot read", path):
        match _checked(path, OF_LOGS).suffix.lower():
            case ".csv":
                csv.field_size_limit(2**31 - 1)
                with path.open(encoding="utf-8", newline="") as file, _refusing_spreadsheets(path):
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
                "writes it; a spreadsheet program saves another one, so export it again."
            )
        return [Row(n, str(one["event"]), str(one["hash"])) for n, one in enumerate(records, start=1)]


@contextmanager
def _refusing_spreadsheets(path: Path) -> Iterator[None]:
    """Say what has probably happened to a file that has other letters or quotes than `export` writes."""
    try:
        yield
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(
            f"cannot read {path}: {error}. A spreadsheet program may have saved it; export the log again."
        ) from error


def once_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object whose keys are all different: of two equal keys a reader sees one, a program the other."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise InvalidInput("a key occurs twice.")
    return table


def import_results(
    study: "Study",
    path: Path,
    *,
    worker: str | None = None,
    group: Any = None,
    group_columns: Sequence[str] = (),
    option_column: str | None = None,
    value_column: str | None = None,
) -> list[Measurement]:
    """Tell a study the earlier results in a CSV, Excel, Parquet or Arrow file with a column of arms and one of values.

    All results are told, or none. The lines must be in the order of measuring (docs/study.md). Results that were told
    before, by a file of any name or by `tell_earlier`, are not told again. Rows that `export` marks as void are left
    out. Rows of the study's own export are in the study already, and only rows that were added to it are told. `group`
    and `group_columns` say where and when the values were measured, as for `Study.tell_file`. `option_column` and
    `value_column` are the columns of arms and values; default: one headed arm, name or id, and one headed value, reward
    or result.
    """
    table = _without_void(open_table(path))
    titles = {str(title).lower(): title for title in table.columns}
    if titles.keys() >= set(OF_SHEET) and "measurement" not in titles:
        raise InvalidInput(
            f"{path} is a sheet of asks, whose values would count as no evidence here; tell them by `surepick tell "
            "--file` (`Study.tell_file`)."
        )
    arm, value = _columns_of_results(table, titles, option_column, value_column)
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
    own, labels = _exported(study.state, table), _labels_in(table, group_label(group), group_columns)
    results = [(*pair, labels(row)) for row, pair in enumerate(pairs) if row not in own]
    pairs = [pair for row, pair in enumerate(pairs) if row not in own]
    if not pairs:
        return list(own.values())
    if told := study.state.told_together(pairs):
        return told
    key = f"{path.name} {sha256(canonical({'': pairs}).encode()).hexdigest()}"
    return study.tell_earlier(results, worker=worker, key=key)


def _columns_of_results(
    table: Table, titles: Mapping[str, str], option_column: str | None, value_column: str | None
) -> tuple[str, str]:
    """Return the columns of arms and values: those that are named, or the usual ones."""
    for option, wanted in (("option_column", option_column), ("value_column", value_column)):
        if wanted is not None and wanted not in table.cells:
            meant = what_was_meant(wanted, table.columns, "columns")
            raise InvalidInput(f"{table.title} has no column {wanted!r} (`{option}`); {meant}")
    arm = option_column or next((titles[title] for title in ARM_TITLES if title in titles), None)
    value = value_column or next((titles[title] for title in VALUE_TITLES if title in titles), None)
    if arm is None or value is None:
        raise InvalidInput(
            f"{table.title} must have the columns arm and value, got {', '.join(map(str, table.columns))}; name others "
            "by `option_column` and `value_column`."
        )
    return arm, value


def _exported(state: State, table: Table) -> dict[int, Measurement]:
    """Return the rows that are measurements of this very study: same number, value and time."""
    if not {"measurement", "told", "time"} <= table.cells.keys():
        return {}
    found = {}
    for row, (id_, told, time) in enumerate(zip(table["measurement"], table["told"], table["time"], strict=True)):
        number = parse_number(text_of(id_))
        if number is None or not number.is_integer() or not 1 <= number <= len(state.measurements):
            continue
        one = state.measurements[int(number) - 1]
        if (parse_number(text_of(told)), text_of(time)) == (one.told, one.at):
            found[row] = one
    return found


def _without_void(table: Table) -> Table:
    """Return the rows of a table that its column `void` does not mark."""
    if "void" not in table.cells:
        return table
    kept = [row for row, cell in enumerate(table["void"]) if str(cell).lower() not in ("true", "wahr")]
    cells = {title: [column[row] for row in kept] for title, column in table.cells.items()}
    return replace(table, cells=cells, place=lambda row: table.place(kept[row]))


# ---- sheets: asks go out, values come in


def sheet_of(asks: "Sequence[StudyAsk]") -> list[list[Any]]:
    """Return a table to fill in: titles, and for each ask its number, the arm, the recipe, and two empty cells.

    Before the empty cells are the labels of the asks, a column for each factor.
    """
    recipes = [one.recipe or {f"entry {j}": x for j, x in enumerate(_entries(one.arm), start=1)} for one in asks]
    columns = dict.fromkeys(title for recipe in recipes for title in recipe)
    shown = [f"{title} (recipe)" if title.lower() in OF_SHEET else title for title in columns]
    factors = _factor_titles([tuple(one.group.items()) for one in asks], [*OF_SHEET, *map(str.lower, shown)])
    rows = [
        [one.id, one.name, *map(each.get, columns), *map(one.group.get, factors), None, None]
        for one, each in zip(asks, recipes, strict=True)
    ]
    return [[*OF_SHEET[:2], *shown, *factors.values(), *OF_SHEET[2:]], *rows]


def _entries(arm: Any) -> tuple[float, ...]:
    return arm if isinstance(arm, tuple) else ()


def write_sheet(asks: "Sequence[StudyAsk]", path: Path, *, has_commas: bool = False) -> None:
    """Write a sheet of asks to a .csv or .xlsx file; whole or not at all.

    Args:
        asks: to be answered.
        path: of the file.
        has_commas: whether a .csv file gets decimal commas, and semicolons between its columns. Where spreadsheet
            programs write such files, they read 13.2 as a date.
    """
    if path.suffix.lower() not in (".csv", ".xlsx"):
        raise InvalidInput(f"a sheet of asks must be a .csv or .xlsx file, got {path.name!r}.")
    with refusing("cannot write", path), replacing(path) as draft:
        if path.suffix.lower() == ".xlsx":
            _write_excel(draft, sheet_of(asks))
        else:
            # With the mark by which Excel recognises the encoding.
            draft.write_text(sheet_text(asks, has_commas=has_commas), encoding="utf-8-sig", newline="")


def check_replaceable(state: State, path: Path) -> None:
    """Refuse to write over a file that is no sheet of asks, or that has values which are not told yet."""
    if not path.exists():
        return
    try:
        values = sheet_values(state, open_table(path))
    except SurepickError as error:
        raise InvalidInput(
            f"{path} exists already and is not a sheet of asks of this study; choose another file."
        ) from error
    if any(not one.results for one, *_ in values):
        raise InvalidInput(f"{path} has values that are not told yet; tell them by `tell --file`, or choose another.")


def sheet_text(asks: "Sequence[StudyAsk]", *, has_commas: bool = False) -> str:
    """Return a sheet of asks as CSV; `has_commas` as for `write_sheet`."""
    titles, *rows = sheet_of(asks)
    if not has_commas:
        return _csv([dict(zip(titles, row, strict=True)) for row in rows], titles)
    rows = [[f"{cell:.15g}".replace(".", ",") if isinstance(cell, float) else cell for cell in row] for row in rows]
    return _csv([dict(zip(titles, row, strict=True)) for row in rows], titles, delimiter=";")


def sheet_values(
    state: State, table: Table, group: GroupLabel = (), columns: Sequence[str] = ()
) -> list[tuple[AskRecord, float, GroupLabel]]:
    """Return the values of a sheet of asks that is filled in, wholly or in part; empty cells are not measured yet.

    Values may have decimal commas. All columns but ask, arm and value are ignored, and those that are named as columns
    of groups. Values that were told before are among those returned.

    Args:
        state: of the study.
        table: the sheet.
        group: label of all values.
        columns: titles of the columns that have further factors of the label.

    Raises:
        BadLines: names every bad line.
    """
    titles = {str(title).strip().lower(): title for title in table.columns}
    if not {"ask", "value"} <= titles.keys():
        raise InvalidInput(
            f"{table.title} must have the columns ask and value, as `surepick ask --output` writes them, got "
            f"{', '.join(map(str, table.columns))}."
        )
    asks, values = _blanked(table[titles["ask"]]), _blanked(table[titles["value"]])
    arms = _blanked(table[titles["arm"]]) if "arm" in titles else [""] * table.n_rows
    has_commas = any("," in value for value in values if isinstance(value, str))
    labels = _labels_in(table, group, columns)
    found: dict[int, tuple[AskRecord, float, GroupLabel]] = {}
    places, problems = dict[int, str](), list[tuple[str, str]]()
    for row, cell in enumerate(values):
        if cell == "":
            continue
        try:
            one = _ask_in(state, text_of(asks[row]), text_of(arms[row]))
            if places.setdefault(one.id, table.place(row)) != table.place(row):
                raise InvalidInput(f"ask {one.id} has a value in {places[one.id]} too")
            if isinstance(cell, str):
                value = _value_in(cell, one.id, takes_grouped=table.takes_grouped, has_commas=has_commas)
            else:
                value = check_value(state, cell)
            _check_result(state, one, value, label := labels(row))
            found[one.id] = one, value, check_fixed(f"ask {one.id}", one.group, label) if label else one.group
        except InvalidInput as error:
            problems.append((table.place(row), str(error).rstrip(".")))
    if problems:
        said = [f"{place}: {problem}" for place, problem in problems[:MOST_LINES]]
        more = [f"and {', '.join(place for place, _ in problems[MOST_LINES:])}"] if len(problems) > MOST_LINES else []
        raise BadLines(table.title, [*said, *more])
    return list(found.values())


def changed_columns(state: State, table: Table) -> list[str]:
    """Return the titles of columns of a sheet whose cells are not those of the asks; values and comments aside.

    A result that stands in another column than value is found by this.
    """
    records = _asks_of_rows(state, table)
    factors = {factor for one in state.attempts.values() for factor, _ in one.group}
    found = []
    for title in table.columns:
        name = str(title).strip()
        if name.lower() in OF_SHEET or name.removesuffix(" (group)") in factors or name.lower() in GROUP_TITLES:
            continue
        column = name.removesuffix(" (recipe)")
        for one, cell in zip(records, _blanked(table[title]), strict=True):
            asked = "" if one is None else state.roster.recipe(one.arm).get(column, "")
            if one is not None and not _is_same(cell, "" if asked is None else asked):
                found.append(name)
                break
    return found


def asks_in(state: State, table: Table) -> list[AskRecord]:
    """Return the asks of a sheet."""
    return [one for one in _asks_of_rows(state, table) if one is not None]


def _asks_of_rows(state: State, table: Table) -> list[AskRecord | None]:
    titles = {str(title).strip().lower(): title for title in table.columns}
    numbers = [parse_number(text_of(cell)) for cell in _blanked(table[titles["ask"]])]
    return [state.attempts.get(-1 if number is None else int(number)) for number in numbers]


def _is_same(cell: Any, asked: Any) -> bool:
    texts = text_of(cell), text_of(asked)
    numbers = [parse_number(text.replace(",", ".")) for text in texts]
    return told_cell(texts[0]) == texts[1] or (None not in numbers and math.isclose(*numbers, rel_tol=1e-9))  # type: ignore[arg-type]


def _labels_in(table: Table, group: GroupLabel, columns: Sequence[str]) -> Callable[[int], GroupLabel]:
    """Return a function from a row of a table to the label that the columns of these titles give it."""
    titles = {str(title).strip(): title for title in table.columns}
    for title in columns:
        if title not in titles:
            raise InvalidInput(f"{table.title} has no column {title!r}; {what_was_meant(title, titles, 'columns')}")
    cells = {title.removesuffix(" (group)"): _blanked(table[titles[title]]) for title in columns}

    def label(row: int) -> GroupLabel:
        levels = [(title, column[row]) for title, column in cells.items() if column[row] != ""]
        return group_label([*group, *levels])

    return label


def unread_columns(state: State, table: Table, columns: Sequence[str] = ()) -> list[str]:
    """Return the titles of columns of a file that look like labels, are not read, and are not of a recipe or an ask.

    Args:
        state: of the study.
        table: a sheet of asks, or earlier results.
        columns: titles that are read as labels.
    """
    of_recipe = {title.lower() for title in (state.roster.recipe(0) if state.roster.is_enumerable else ())}
    known = {factor for one in state.attempts.values() for factor, _ in one.group}
    titles = [str(title).strip() for title in table.columns]
    of_recipe |= {*OF_EXPORT} if "measurement" in titles else set()
    named = [one for one in titles if one.lower() in GROUP_TITLES and one.lower() not in of_recipe]
    return [one for one in named if one not in {*columns, *known} and any(map(_is_filled, table[one]))]


def unread_words(titles: Sequence[str], how: str = "") -> str:
    """Say how to read columns that look like labels: by `how`, or in Python."""
    found = f"columns {listed(titles)} are" if len(titles) > 1 else f"column {titles[0]} is"
    return (
        f"The {found} not read. To label values with the day, bench or plate that stands there, tell a file with "
        f"{how or f'group_columns={list(titles)}'}. A label comes with its value and cannot be added later."
    )


def _is_filled(cell: Any) -> bool:
    return not (is_missing(cell) or (isinstance(cell, str) and not cell.strip()))


def _blanked(cells: Any) -> list[Any]:
    """Return cells without blanks around texts; "" for a missing one."""
    return ["" if is_missing(cell) else cell.strip() if isinstance(cell, str) else cell for cell in cells]


def _ask_in(state: State, number: str, arm: str) -> AskRecord:
    """Return the ask of a line, if it is of the arm that stands there, or if none does."""
    value = parse_number(number)
    if value is None or not value.is_integer():
        raise InvalidInput(f"a value needs the number of its ask, got {number!r}")
    one = find_ask(state, int(value))
    name = state.roster.label(one.arm)
    if arm and name not in (arm, told_cell(arm)):
        raise InvalidInput(f"ask {one.id} is of arm {name}, and the line says {arm}")
    return one


def _value_in(text: str, ask: int, *, takes_grouped: bool, has_commas: bool) -> float:
    value = parse_number(text.replace(",", ".") if takes_grouped and text.count(",") == 1 else text)
    is_unclear = is_grouped(text) and (not takes_grouped if "," in text else has_commas)
    if is_unclear:
        plain = text.replace(",", "").replace(".", "")
        raise InvalidInput(f"{text!r} could be {text.replace(',', '.')} or {plain}; write one of them")
    if value is None:
        raise InvalidInput(
            f"a measured value must be a number, got {text!r}{without_unit(text)}; leave the cell of a lost "
            f"measurement empty, and use `fail` for ask {ask}"
        )
    return value


def _check_result(state: State, one: AskRecord, value: float, label: GroupLabel) -> None:
    """Refuse a value that the noise model does not allow, or another value or label than was told before."""
    if state.roster.is_present(one.arm) and (why := state.learner.noise_model.refusal(value, state.number_of(one.arm))):
        raise InvalidInput(f"the value {why}")
    if not one.results:
        return
    first = state.measurement(one.results[0])
    if value not in (first.told, first.last):
        raise Conflict(
            f"ask {one.id} has the result {first.last:.12g} already (measurement {first.id}), got {value:.12g}; if the "
            f"first was mistyped, use `correct` for measurement {first.id}"
        )
    if not {*label} <= {*first.group}:
        raise Conflict(f"ask {one.id} has its result (measurement {first.id}); the label that was told first stays")


def _write_excel(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    """Write a table to an Excel file: titles in bold that stay in view, no cell a formula."""
    try:
        import openpyxl  # noqa: PLC0415 - optional, and slow to import
        from openpyxl.styles import Font  # noqa: PLC0415
        from openpyxl.utils import get_column_letter  # noqa: PLC0415
    except ImportError as error:
        raise SurepickError("Excel files need openpyxl; install surepick[tables], or write a .csv file.") from error
    book = openpyxl.Workbook()
    sheet = book.active
    for place, row in enumerate(rows, start=1):
        for column, value in enumerate(row, start=1):
            cell = sheet.cell(place, column)
            if isinstance(value, str):
                cell.value, cell.data_type = shown(value), "s"  # = would begin a formula
            elif value is not None:
                cell.value = value
            cell.font = Font(bold=place == 1)
    for column, cells in enumerate(zip(*rows, strict=True), start=1):
        width = max(len(str("" if cell is None else cell)) for cell in cells)
        sheet.column_dimensions[get_column_letter(column)].width = min(max(width + 2, 10), 40)
    sheet.freeze_panes = "A2"
    book.save(path)


def _checked(path: Path, suffixes: Sequence[str] = SUFFIXES) -> Path:
    if path.suffix.lower() not in suffixes:
        raise InvalidInput(f"a table must be a {', '.join(suffixes[:-1])} or {suffixes[-1]} file, got {path.name!r}.")
    return path


def _csv(records: Sequence[Mapping[str, Any]], titles: Sequence[str] = (), *, delimiter: str = ",") -> str:
    text = io.StringIO()
    if records or titles:
        writer = csv.DictWriter(text, list(titles or records[0]), lineterminator="\n", delimiter=delimiter)
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
