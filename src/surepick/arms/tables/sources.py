"""Sources of tables: CSV, Excel, Parquet, Arrow and `.npy` files and data frames, read as columns of cells."""

import csv
import io
import math
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final
from xml.parsers import expat

import numpy as np

from surepick._texts import counted
from surepick.errors import InvalidInput, SurepickError, listed
from surepick.types import Array

_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")


_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?:([.,])\d{3})(?:\1\d{3})*")


_GROUPED_AND_CUT = re.compile(r"[+-]?\d{1,3}(?:(?:,\d{3})+\.\d+|(?:\.\d{3})+,\d+)")


_DATE = re.compile(
    r"(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}([./])\d{1,2}\1(?:\d{4}|\d{2}))(?:[ T]\d{1,2}:\d{2}.*)?"
    r"|\d{1,2}:\d{2}(?::\d{2}|(?::\d{2})? ?[apAP][mM])"  # 1:20 alone may be a ratio
)


def parse_number(text: str) -> float | None:
    """Return a finite number, also with a decimal comma; None for other text, and for the ambiguous 1,500."""
    text = text.strip()
    value = _float(text)
    if value is None and has_decimal_comma(text) and not is_grouped(text):
        value = _float(text.replace(",", "."))
    return value if value is not None and math.isfinite(value) else None


def without_unit(text: str) -> str:
    """Return the advice on a cell that begins with a number and is none, such as "18,2 MPa"; "" for other text."""
    return "; leave out the unit" if re.match(r"[+-]?\d", text.strip()) else ""


def plain_numbers(cells: Sequence[str]) -> Array | None:
    """Return the cells as numbers with decimal points, NaN and infinities included; None if a cell is not a number."""
    values = [_float(cell) for cell in cells]
    return None if None in values else np.array(values, dtype=np.float64)


def has_decimal_comma(text: str) -> bool:
    """Return whether a text is a number with a decimal comma, such as 74,5."""
    return _COMMA.fullmatch(text) is not None


def is_grouped(text: str) -> bool:
    """Return whether a text may have a thousands separator, such as 1,500 or 1.500."""
    return _GROUPED.fullmatch(text) is not None


def is_like_a_number(text: str) -> bool:
    """Return whether a text looks like a number."""
    if _float(text) is not None:
        return True
    return has_decimal_comma(text) or is_grouped(text) or _GROUPED_AND_CUT.fullmatch(text) is not None


def is_date(text: str) -> bool:
    """Return whether a text is a date, such as 2026-03-01 or 1.3.2026, with or without a time, or a time of day."""
    return _DATE.fullmatch(text) is not None


def _float(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)  # Python reads 1_2 as 12; in a table 1_2 is a label
    except ValueError:
        return None


COLUMN_FILES = (".parquet", ".arrow", ".feather")
NO_TABLES = (".py", ".ipynb", ".toml", ".json", ".db", ".html", ".pdf", ".docx")
EXCEL = (".xlsx", ".xlsm")
LARGEST_UNPACKED = 200_000_000
"""Most bytes of an unpacked Excel file."""
MOST_PARTS = 10_000
"""Most parts of an Excel file, which is an archive."""
READ_WHOLE = ("styles.xml", "workbook.xml", "[content_types].xml", ".rels")
"""Parts of an Excel file that the library holds as a tree; these may have a tenth of the bytes."""
MOST_CELLS = 10_000_000
"""Of a sheet."""
LOOKED_AT = 20_000
"""Characters of a CSV file that are read to find its separator."""
_MARKS = {",": "", ";": "semicolons between the columns", "\t": "tabs between the columns"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns of cells, with the place of each row for errors."""

    title: str
    """The name of the table in errors: the file, or "the data frame"."""
    cells: Mapping[str, Any]
    """Cells by column name: an array of numbers, or a list of any values; None and NaN are missing."""
    place: Callable[[int], str] = "row {}".format
    """The place of a row, such as "line 5", as an editor or a spreadsheet counts."""
    notes: tuple[str, ...] = ()
    """Recognised properties of the file, such as "semicolons between the columns"."""
    names: Sequence[str] | None = None
    """Names of the rows from outside the columns: the index of a data frame."""
    categories: frozenset[str] = frozenset()
    """Columns declared as categories."""
    has_titles: bool = True
    """Whether the columns have names of their own."""
    is_typed: bool = False
    """Whether text that looks like a number is read as a number: yes for spreadsheets; data frames have types."""
    takes_grouped: bool = False
    """Whether 1,500 is 1.5: yes where columns are not separated by commas."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns, as a data frame has them."""
        return list(self.cells)

    def __getitem__(self, title: str) -> Any:
        return self.cells[title]

    def __len__(self) -> int:
        return self.n_rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.cells.values()), ()))

    def places(self, rows: Sequence[int]) -> str:
        """Return the places of rows, such as "lines 5 and 9"."""
        if len(rows) == 1:
            return self.place(rows[0])
        words, numbers = zip(*(self.place(row).split(" ", 1) for row in rows), strict=True)
        return f"{words[0]}s {listed(numbers, most=6, room=80)}"

    def refusal(self, row: int, what: str) -> InvalidInput:
        """Return an error about a row that names its place."""
        return InvalidInput(f"{self.title} {self.place(row)}: {what}")


@final
class Problems:
    """Errors in the cells of a table, said all at once. Cells with the same error are said together."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._found: dict[tuple[str, str], dict[int, str]] = {}
        self.first = ""
        """Sentences to say before all others."""

    def add(self, row: int, what: str, advice: str, got: object = None) -> None:
        """Add an error about a row.

        Args:
            row: its number.
            what: what is wrong; it ends before what came.
            advice: the end of the sentence, what to do about it.
            got: what came.
        """
        self._found.setdefault((what, advice), {})[row] = "" if got is None else str(got)

    @property
    def rows(self) -> set[int]:
        """Numbers of the rows with an error."""
        return {row for found in self._found.values() for row in found}

    def check(self) -> None:
        """Raise all of them.

        Raises:
            InvalidInput: there are some.
        """
        if said := " ".join(filter(None, [self.first, self._of_cells()])):
            raise InvalidInput(said)

    def _of_cells(self) -> str:
        if not self._found:
            return ""
        said = []
        for (what, _), cells in sorted(self._found.items(), key=lambda one: min(one[1])):
            got = listed([*dict.fromkeys(cells.values())], most=4, room=80)
            said.append(f"{self._table.places(sorted(cells))}: {what}{f' {got}' if got else ''}")
        if len(said) == 1:
            ((_, advice),) = self._found
            return f"{self._table.title} {said[0]}{advice}"
        n = sum(map(len, self._found.values()))
        return (
            f"{self._table.title} has {n:,} cells to change. {listed(said, between='; ', last='; ', room=360)}. Change "
            "them, or leave out their rows or columns (`drop`)."
        )


@contextmanager
def refusing(what: str, path: Path) -> Iterator[None]:
    """Turn failures with a file into `InvalidInput` with the reason; `what` begins the text, such as "cannot read"."""
    try:
        yield
    except (OSError, ValueError, EOFError, OverflowError, RecursionError, csv.Error) as error:
        if isinstance(error, SurepickError):
            raise
        raise InvalidInput(f"{what} {path}: {reason(error)}.") from error


def reason(error: Exception) -> str:
    """Return the reason of a failure in a few words."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def open_table(source: Any, *, sheet: str | None = None, title: str = "the data frame") -> Table:
    """Read a file, by its suffix, or a data frame, which is called `title` in errors; a `Table` stays as it is."""
    if isinstance(source, Table):
        return source
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        suffix = path.suffix.lower()
        if sheet is not None and suffix not in EXCEL:
            raise InvalidInput(f"`sheet` is for Excel files, got {path}; leave it out.")
        if suffix in EXCEL:
            return _read_excel(path, sheet)
        if suffix == ".xls":
            raise InvalidInput(f"{path} is in the Excel format of before 2007; save it as .xlsx or .csv.")
        if suffix in NO_TABLES:
            raise InvalidInput(f"{path} is not a table; a table is a .csv, .xlsx, .parquet, .arrow or .npy file.")
        if suffix in COLUMN_FILES:
            return _read_columns(path)
        return _read_npy(path) if suffix == ".npy" else read_csv(path)
    if sheet is not None:
        raise InvalidInput("`sheet` is for Excel files, got a data frame; leave it out.")
    return _from_frame(source, title)


def read_csv(path: Path) -> Table:
    """Read a CSV file; blank lines and comment lines (#) above the header are skipped."""
    with refusing("cannot read", path):
        text, notes = _decoded(path.read_bytes())
        mark = _mark_of(text[:LOOKED_AT])
        rows = _rows(text, mark)
    if len(rows) < 2:
        raise InvalidInput(
            f"{path} must have a header line and at least one line below it, got {counted(len(rows), 'line')}."
        )
    notes += [_MARKS[mark]] if mark != "," else []
    return _from_lines(str(path), rows, "line", notes, takes_grouped=mark != ",")


def _decoded(content: bytes) -> tuple[str, list[str]]:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16"), ["UTF-16"]
    if b"\0" in content:
        raise ValueError("it is no text")
    notes = ["a byte order mark"] if content.startswith(b"\xef\xbb\xbf") else []
    try:
        return content.decode("utf-8-sig"), notes
    except UnicodeDecodeError:
        try:
            return content.decode("cp1252"), ["Latin-1 letters"]  # the Windows variant, with the euro sign
        except UnicodeDecodeError:
            return content.decode("latin-1"), ["Latin-1 letters"]


def _mark_of(text: str) -> str:
    """Return the separator: the mark that makes the most header cells; of equals, one that cuts no cell in two."""
    best, score = ",", (0, False)
    for mark in _MARKS:
        rows = _rows(text, mark) or [(0, [])]
        width = len(rows[0][1])
        this = width, all(len(cells) == width for _, cells in rows[:-1])  # the last row may be cut off
        best, score = (mark, this) if this > score else (best, score)
    return best


def _rows(text: str, mark: str) -> list[tuple[int, list[str]]]:
    """Return lines with their numbers, without blank lines and without comments on top."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
    rows, line = [], 1  # a cell in quotation marks may go over several lines: its row has the number of the first
    for cells in reader:
        rows.append((line, [cell.strip() for cell in cells]))
        line = reader.line_num + 1
    rows = [(line, cells) for line, cells in rows if _is_filled(cells)]
    while rows and rows[0][1][0].startswith("#"):
        rows.pop(0)
    return rows


def _from_lines(
    title: str, rows: Sequence[tuple[int, Sequence[Any]]], word: str, notes: Sequence[str], *, takes_grouped: bool
) -> Table:
    """Return a table whose first row has the names of the columns; `word` names a row, such as line."""
    header = ["" if cell is None else str(cell).strip() for cell in rows[0][1]]
    body = rows[1:]
    while header and not header[-1] and not any(_is_filled(cells[len(header) - 1 :]) for _, cells in body):
        header.pop()  # empty columns of a spreadsheet
    _check_header(f"{title} {word} {rows[0][0]}", header)
    if any(parse_number(name) is not None for name in header):
        raise InvalidInput(f"{title} has numbers in its header line; put the names of the columns there.")
    uneven = [(line, cells) for line, cells in body if len(cells) < len(header) or _is_filled(cells[len(header) :])]
    if uneven:
        said = [f"{word} {line}: {len(header)} cells are needed, got {len(cells)}" for line, cells in uneven]
        raise InvalidInput(f"{title} {listed(said, between='; ', last='; ', most=6)}.")
    lines = [line for line, _ in body]
    return Table(
        title=title,
        cells={name: [cells[place] for _, cells in body] for place, name in enumerate(header)},
        place=lambda row: f"{word} {lines[row]}",
        notes=tuple(notes),
        is_typed=True,
        takes_grouped=takes_grouped,
    )


def _check_header(where: str, header: Sequence[str]) -> None:
    """Refuse a line of titles with gaps or with the same title twice."""
    if gaps := [str(place) for place, name in enumerate(header, start=1) if not name]:
        is_title = len(header) - len(gaps) == 1
        advice = "if it is a title above the table, delete it" if is_title else "give each a name"
        raise InvalidInput(
            f"{where} must have the names of the columns, and has none for column {listed(gaps)}; {advice}."
        )
    if twice := [repr(name) for name, n in Counter(header).items() if n > 1]:
        raise InvalidInput(
            f"{where} must have a different name for every column, got {listed(twice)} twice; rename one."
        )


def _read_excel(path: Path, wanted: str | None) -> Table:
    try:
        import openpyxl  # noqa: PLC0415 - optional, and slow to import
    except ImportError as error:
        raise SurepickError(f"reading {path} needs openpyxl; install surepick[tables], or save it as .csv.") from error
    with refusing("cannot read", path):
        _check_archive(path)
    try:
        with closing(openpyxl.load_workbook(path, read_only=True, data_only=True)) as book:
            sheets = {sheet.title: _filled_rows(sheet) for sheet in book.worksheets}
    except SurepickError as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error
    except Exception as error:  # a damaged file can raise any error in the library
        raise InvalidInput(
            f"cannot read {path}: it is not an Excel file, or it is damaged ({type(error).__name__})."
        ) from error
    filled = [title for title, rows in sheets.items() if rows]
    listed = ", ".join(map(repr, filled))
    if wanted is not None and wanted not in sheets:
        raise InvalidInput(f"{path} has no sheet {wanted!r}; its sheets are {listed}.")
    if wanted is None and len(filled) > 1:
        raise InvalidInput(f'{path} has the sheets {listed}; say which has the arms: sheet="{filled[0]}".')
    sheet = wanted or next(iter(filled), "")
    rows = sheets.get(sheet, [])
    if len(rows) < 2:
        raise InvalidInput(f"{path} must have a header row and at least one row below it, got {len(rows)} rows.")
    return _from_lines(str(path), rows, "row", [f"sheet {sheet!r}"], takes_grouped=False)


def _check_archive(path: Path) -> None:
    """Refuse an Excel file that would take too much memory, by the sizes of its parts in the archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            if any(part.flag_bits & 1 for part in parts):
                raise InvalidInput(f"cannot read {path}: it is encrypted; save it without a password.")
            head = sum(part.file_size for part in parts if part.filename.lower().endswith(READ_WHOLE))
            whole = sum(part.file_size for part in parts)
            if len(parts) > MOST_PARTS or whole > LARGEST_UNPACKED or head > LARGEST_UNPACKED / 10:
                raise InvalidInput(
                    f"cannot read {path}: unpacked it has {whole:,} bytes in {len(parts):,} parts, which is too much; "
                    "save the sheet with the arms as .csv."
                )
            for part in parts:
                if part.filename.lower().endswith((".xml", ".rels")) and _defines_entities(archive, part):
                    raise InvalidInput(
                        f"cannot read {path}: {part.filename!r} defines entities, which Excel never does."
                    )
    except (zipfile.BadZipFile, expat.ExpatError, NotImplementedError, RuntimeError) as error:
        raise InvalidInput(f"cannot read {path}: it is not an Excel file, or it is damaged.") from error


def _defines_entities(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> bool:
    """Return whether a part has a document type; nested entities can expand to gigabytes."""
    met: list[str] = []
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = lambda *_: met.append("entities")
    parser.StartElementHandler = lambda *_: met.append("element")
    with archive.open(part) as file:
        while not met and (text := file.read(1000)):
            parser.Parse(text)
    return "entities" in met


def _filled_rows(sheet: Any) -> list[tuple[int, list[Any]]]:
    sheet.reset_dimensions()  # the stated size may be wrong, and the library would add empty cells
    filled, n_cells = [], 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        cells = [cell.strip() if isinstance(cell, str) else cell for cell in row]
        n_cells += len(cells) + 1
        if n_cells > MOST_CELLS:
            raise InvalidInput(
                f"sheet {sheet.title!r} has more than {MOST_CELLS:,} cells, empty ones included; save it as .csv."
            )
        if _is_filled(cells):
            filled.append((number, cells))
    width = max((len(cells) for _, cells in filled), default=0)
    if len(filled) * width > MOST_CELLS:
        raise InvalidInput(f"sheet {sheet.title!r} has {len(filled):,} rows and {width:,} columns; save it as .csv.")
    return [(number, cells + [None] * (width - len(cells))) for number, cells in filled]


def _is_filled(cells: Sequence[Any]) -> bool:
    return any(cell is not None and cell != "" for cell in cells)


def _read_columns(path: Path) -> Table:
    """Read a whole Parquet or Arrow file; an index written by pandas names the rows."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - optional, and slow to import
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise SurepickError(f"reading {path.suffix} files needs pyarrow; install surepick[files].") from error
    with refusing("cannot read", path):
        if path.suffix.lower() == ".parquet":
            table = pq.ParquetFile(path).read()
        else:
            with pa.memory_map(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
    return _from_arrow(table, str(path))


def _from_arrow(table: Any, title: str) -> Table:
    stored = (table.schema.pandas_metadata or {}).get("index_columns", [])
    index = [name for name in stored if isinstance(name, str)]
    titles = [name for name in table.column_names if name not in index]
    _check_different(title, titles)
    names = [str(label) for label in table.column(index[0]).to_pylist()] if len(index) == 1 else None
    return Table(
        title=title,
        cells={name: _arrow_cells(table.column(name)) for name in titles},
        names=names,
        categories=frozenset(name for name in titles if str(table.schema.field(name).type).startswith("dictionary")),
    )


def _arrow_cells(column: Any) -> Any:
    kind = str(column.type)
    if column.null_count == 0 and kind.startswith(("int", "uint", "float", "double", "halffloat", "bool")):
        return column.to_numpy()
    return column.to_pylist()


def _read_npy(path: Path) -> Table:
    with refusing("cannot read", path):
        rows = np.load(path, allow_pickle=False)
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype.kind not in "biuf":
        raise InvalidInput(f"{path} must hold a (K, d) array of numbers, one row per arm; save such an array.")
    cells = {f"x{j}": column for j, column in enumerate(rows.T)}
    return Table(title=str(path), cells=cells, has_titles=False)


def _from_frame(frame: Any, title: str) -> Table:
    """Read pandas, polars and Arrow tables, and mappings of columns."""
    if hasattr(frame, "column_names") and hasattr(frame, "schema"):
        return _from_arrow(frame, "the table")
    if isinstance(frame, Mapping):
        titles = list(frame)
    elif hasattr(frame, "columns"):
        titles = list(frame.columns)
    else:
        raise InvalidInput(
            f"arms are read from a file or a data frame, got a {type(frame).__name__}; for an array use FiniteArms."
        )
    _check_different(title, [str(each) for each in titles])
    columns = {str(each): frame[each] for each in titles}
    cells = {each: _frame_cells(column) for each, column in columns.items()}
    lengths = set(map(len, cells.values()))
    if len(lengths) > 1:
        raise InvalidInput("the columns must have the same length; give each one cell per arm.")
    if lengths in (set(), {0}):
        raise InvalidInput(f"{title} must have at least one column and one row, got an empty one; add arms.")
    names = _row_names(frame)
    return Table(
        title=title,
        cells=cells,
        place=lambda row: f"row {row}" if names is None else f"row {row} ({names[row]})",
        names=names,
        categories=frozenset(each for each, column in columns.items() if _is_category(column)),
    )


def _is_category(series: Any) -> bool:
    # pandas calls it `category`, polars `Categorical` or `Enum`; the categories themselves may be numbers.
    return str(getattr(series, "dtype", "")).lower().startswith(("categor", "enum"))


def _row_names(source: Any) -> Sequence[str] | None:
    """Return the labels of a data frame's index, if it says more than row numbers."""
    index = getattr(source, "index", None)
    if index is None or callable(index):  # polars has none
        return None
    if type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1):
        return None  # a default pandas index only repeats the row numbers
    return [str(label) for label in index]


def _frame_cells(column: Any) -> Any:
    if _is_category(column):
        return np.asarray(column).tolist()
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return values
    # pandas 2 stores dates and durations in nanoseconds, which become integers; in seconds they become Python's own.
    if values.dtype.kind in "mM":
        values = values.astype("timedelta64[s]" if values.dtype.kind == "m" else "datetime64[s]")
    return values.tolist()


def _check_different(title: str, names: Sequence[str]) -> None:
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise InvalidInput(f"{title} must have columns with different names, got {twice[0]!r} twice; rename one.")
