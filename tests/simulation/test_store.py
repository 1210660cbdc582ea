import json
import math
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from surepick.errors import InvalidInput, SurepickError
from surepick.simulation import store as module
from surepick.simulation.experiment import Experiment
from surepick.simulation.store import TABLE, Store, read_cells, schema, settle
from tests.simulation.tiny import tiny

EXPERIMENT = tiny()
CELLS = EXPERIMENT.cells()


def row(cell: int, run: int, n_pulls: int = 5, of: Experiment = EXPERIMENT) -> dict[str, Any]:
    """A made-up run."""
    return {
        "key": of.cells()[cell].key,
        "run": run,
        "n_pulls": n_pulls,
        "stopped": True,
        "correct": run % 2 == 0,
        "support": 3,
        "seconds": 0.1,
        "evidence": 1.0 / 3.0,
        "target": 2.0,
        "lower_bound": math.nan,
        "version": "0",
        "design_support": 2.5,
        "cost": 2.5 * n_pulls,
    }


def kept(folder: Path, of: Experiment = EXPERIMENT) -> list[tuple[int, int, int]]:
    """What the table holds: number of the cell (99 for cells of the past), run and pulls, in its order."""
    table = pq.read_table(folder / "runs.parquet")
    numbers = {cell.key: number for number, cell in enumerate(of.cells())}
    columns = (table[name].to_pylist() for name in ("key", "run", "n_pulls"))
    return [(numbers.get(key, 99), run, n_pulls) for key, run, n_pulls in zip(*columns, strict=True)]


def leave(folder: Path, *rows: dict[str, Any]) -> None:
    """Leave rows that are not in the table, as a killed process does."""
    left = Store(folder, EXPERIMENT)
    left.append(rows)
    left._db.close()


def test_rows_are_sorted_whatever_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By cell in the order of the experiment and by run, written in several pieces."""
    monkeypatch.setattr(module, "GROUP", 4)
    order = [(cell, run) for run in (3, 0, 7, 5, 1, 6, 2, 4) for cell in (2, 0, 3, 1)]
    with Store(tmp_path, EXPERIMENT) as store:
        for cell, run in order:
            store.append([row(cell, run)])
    assert kept(tmp_path) == [(cell, run, 5) for cell, run in sorted(order)]
    assert {path.name for path in tmp_path.iterdir()} == {"experiment.toml", "runs.parquet", "runs.sqlite"}
    assert pq.ParquetFile(tmp_path / "runs.parquet").num_row_groups > 2


def test_columns_are_as_documented(tmp_path: Path) -> None:
    """Names, types, and the values that come from the cell; floats come back bit for bit, NaN too."""
    with Store(tmp_path, EXPERIMENT) as store:
        store.append([row(1, 0)])
    table = pq.read_table(tmp_path / "runs.parquet")
    assert {field.name: str(field.type) for field in table.schema} == {
        "key": "string", "run": "int64", "experiment": "string", "problem": "string", "arguments": "string",
        "algorithm": "string", "options": "string", "delta": "double", "seed": "int64", "n_pulls": "int64",
        "stopped": "bool", "correct": "bool", "support": "int64", "seconds": "double", "evidence": "double",
        "target": "double", "lower_bound": "double", "version": "string",
        "label": "string", "design_support": "double", "cost": "double",
    }  # fmt: skip
    (found,) = table.to_pylist()
    assert math.isnan(found.pop("lower_bound"))
    assert found.pop("evidence") == 1.0 / 3.0
    assert (found["experiment"], found["problem"], found["algorithm"]) == ("tiny", "unit_basis", "evidence")
    assert json.loads(found["arguments"]) == {"means": [3.0, 0.0, 0.0]}
    assert json.loads(found["options"]) == {"stopping": "evidence"}
    assert (found["delta"], found["seed"]) == (0.1, 7)


def test_missing_runs_are_those_that_were_never_kept(tmp_path: Path) -> None:
    """After a clean end, and after a kill before the table was written; the next end writes it."""
    with Store(tmp_path, EXPERIMENT) as store:
        store.append([row(0, 0), row(0, 2)])
    leave(tmp_path, row(0, 3), row(1, 1))
    assert kept(tmp_path) == [(0, 0, 5), (0, 2, 5)]
    with Store(tmp_path, EXPERIMENT) as store:
        missing = [store.missing(cell.key, 5).tolist() for cell in CELLS[:3]]
        assert missing == [[1, 4], [0, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert kept(tmp_path) == [(0, 0, 5), (0, 2, 5), (0, 3, 5), (1, 1, 5)]


def test_a_run_is_kept_once(tmp_path: Path) -> None:
    """The first of two; a table half written by a killed process is written over."""
    leave(tmp_path, row(0, 0), row(1, 0), row(0, 0, 6))
    leave(tmp_path, row(1, 0, 7))
    (tmp_path / ".runs.parquet.new").write_bytes(b"half a table")
    settle(tmp_path, EXPERIMENT)
    assert kept(tmp_path) == [(0, 0, 5), (1, 0, 5)]


def test_a_batch_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    """A row that lacks a column takes its batch with it, and nothing else."""
    with Store(tmp_path, EXPERIMENT) as store:
        store.append([row(0, 0)])
        with pytest.raises(KeyError):
            store.append([row(0, 1), {"key": CELLS[0].key, "run": 2}])
    assert kept(tmp_path) == [(0, 0, 5)]


@pytest.mark.parametrize("where", ["start", "page", "value", "cut"])
def test_damage_is_named_and_the_table_stays(tmp_path: Path, where: str) -> None:
    """Flipped bits in the head, in a page, in a number alone, and a file that was cut; the table makes good for it."""
    with Store(tmp_path, EXPERIMENT) as store:
        store.append([row(cell, run, n_pulls=10**6 + run) for cell in range(4) for run in range(50)])
    table, database = tmp_path / "runs.parquet", tmp_path / "runs.sqlite"
    before, data = table.read_bytes(), bytearray(database.read_bytes())
    if where == "cut":
        del data[len(data) // 2 :]
    else:
        value = data.index((10**6 + 7).to_bytes(3, "big"))
        for i in {"start": range(16), "page": range(8192, 8292), "value": [value + 1]}[where]:
            data[i] ^= 0x0F
    database.write_bytes(data)
    with (
        pytest.raises(SurepickError, match=r"runs\.sqlite is damaged or no SQLite file"),
        Store(tmp_path, EXPERIMENT) as store,
    ):
        store.append([row(0, 60)])
    assert table.read_bytes() == before
    assert not list(tmp_path.glob(".*"))
    database.unlink()  # what the sentence says to do
    settle(tmp_path, EXPERIMENT)
    assert len(kept(tmp_path)) == 200


@pytest.mark.parametrize("where", ["start", "middle", "late", "end", "cut"])
def test_a_damaged_table_is_not_taken_over(tmp_path: Path, where: str) -> None:
    """Flipped bits anywhere, data pages included, and a table that was cut off; with the database it is made again."""
    with Store(tmp_path, EXPERIMENT) as store:
        store.append([row(cell, run, n_pulls=run * run) for cell in range(4) for run in range(50)])
    table, database = tmp_path / "runs.parquet", tmp_path / "runs.sqlite"
    before, data = database.read_bytes(), bytearray(table.read_bytes())
    if where == "cut":
        del data[len(data) // 2 :]
    else:
        # The pages of the first columns, of others, and the description of the file.
        n_pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        place = {"start": 60, "middle": 400, "late": n_pages - 80, "end": len(data) - 40}[where]
        for i in range(place, place + 20):
            data[i] ^= 0xFF
    table.write_bytes(data)
    database.unlink()
    with pytest.raises(SurepickError, match=r"runs\.parquet is damaged or no Parquet file; move it away"):
        Store(tmp_path, EXPERIMENT)
    assert table.read_bytes() == bytes(data)
    table.unlink()
    database.write_bytes(before)
    settle(tmp_path, EXPERIMENT)
    assert len(kept(tmp_path)) == 200


def test_another_table_is_refused(tmp_path: Path) -> None:
    """A Parquet file with other columns is not a table of runs."""
    settle(tmp_path, EXPERIMENT)
    (tmp_path / "runs.sqlite").unlink()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "runs.parquet")
    with pytest.raises(SurepickError, match="is not a table of runs: its columns are a"):
        Store(tmp_path, EXPERIMENT)


def test_a_folder_belongs_to_one_experiment(tmp_path: Path) -> None:
    """Another name is refused, and so are runs of nobody; a folder of other files is not touched."""
    with Store(tmp_path, EXPERIMENT) as store:
        store.append([row(0, 0)])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InvalidInput, match="belongs to the experiment 'tiny', got 'other'"):
        Store(tmp_path, tiny(('name = "tiny"', 'name = "other"')))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "experiment.toml").write_text("name = ")
    with pytest.raises(SurepickError, match=r"experiment\.toml is damaged"):
        Store(tmp_path, EXPERIMENT)
    (tmp_path / "experiment.toml").unlink()
    for name in ("runs.parquet", "runs.sqlite"):
        with pytest.raises(InvalidInput, match=r"has runs but no experiment\.toml"):
            Store(tmp_path, EXPERIMENT)
        (tmp_path / name).unlink()
    settle(tmp_path, EXPERIMENT)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """A second writer is refused while the first is at work."""
    with Store(tmp_path, EXPERIMENT), pytest.raises(SurepickError, match="another process writes to"):
        Store(tmp_path, EXPERIMENT)
    settle(tmp_path, EXPERIMENT)


def test_a_changed_experiment_keeps_its_runs(tmp_path: Path) -> None:
    """Other order, other labels, a cell less and a cell more: the table has the cells of now, and nothing is lost."""
    with Store(tmp_path, EXPERIMENT) as store:
        store.append([row(cell, run) for cell in range(4) for run in range(2)])
    changed = tiny(
        ("[[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]]", "[[2.0, 1.0, 0.0], [5.0, 0.0, 0.0]]"), ('"evidence"\nname', '"e"\nname')
    )
    with Store(tmp_path, changed) as store:
        assert sum(len(store.missing(cell.key, 2)) for cell in changed.cells()) == 4
    assert kept(tmp_path, changed) == [(0, 0, 5), (0, 1, 5), (1, 0, 5), (1, 1, 5)]
    labels = pq.read_table(tmp_path / "runs.parquet")["algorithm"].to_pylist()
    assert labels[:4] == ["uniform", "uniform", "e", "e"]
    assert (tmp_path / "experiment.toml").read_text() == changed.text
    settle(tmp_path, EXPERIMENT)  # and back
    assert kept(tmp_path) == [(cell, run, 5) for cell in range(4) for run in range(2)]


def test_the_table_has_the_names_of_problems(tmp_path: Path) -> None:
    """A new label rewrites the table; a table of before is rewritten, and can be read until then."""
    path = tmp_path / TABLE

    def names() -> dict[str, None]:
        return dict.fromkeys(pq.read_table(path)["label"].to_pylist())

    with Store(tmp_path, EXPERIMENT) as store:
        store.append([row(cell, 0) for cell in range(4)])
    assert list(names()) == ["unit_basis, means [3.0, 0.0, 0.0]", "unit_basis, means [2.0, 1.0, 0.0]"]
    settle(tmp_path, tiny(('name = "unit_basis"', 'name = "unit_basis"\nlabel = "first {means[0]}"')))
    assert list(names()) == ["first 3.0", "first 2.0"]
    labels = [columns["label"].tolist() for _, columns in read_cells(path, ["run", "label"])]
    assert labels == [["first 3.0"]] * 2 + [["first 2.0"]] * 2
    pq.write_table(pq.read_table(path).drop_columns(["label", "cost"]), path)
    assert [columns["label"].tolist() for _, columns in read_cells(path, ["run", "label"])] == [[""]] * 4
    settle(tmp_path, tiny(('name = "unit_basis"', 'name = "unit_basis"\nlabel = "first {means[0]}"')))
    assert list(names()) == ["first 3.0", "first 2.0"]


def test_runs_of_before_lack_later_columns(tmp_path: Path) -> None:
    """A folder without them goes on with them: old runs stay, checksums and all, and have NaN there."""
    path, database, later = tmp_path / TABLE, tmp_path / "runs.sqlite", ["design_support", "cost"]

    def kept() -> str:
        (columns,) = (columns for _, columns in read_cells(path, ["run", *later]))
        return repr([columns[name].tolist() for name in later])

    old = row(0, 0) | dict.fromkeys(later, math.nan)  # its checksum is that of before
    with Store(tmp_path, EXPERIMENT) as store:
        store.append([old])
        for name in later:
            store._db.execute(f"ALTER TABLE runs DROP COLUMN {name}")
        store._is_settled = True
    pq.write_table(pq.read_table(path).drop_columns(later), path)
    assert kept() == "[[nan], [nan]]"
    with Store(tmp_path, EXPERIMENT) as store:
        store.append([row(0, 1)])
    assert kept() == "[[nan, 2.5], [nan, 12.5]]"
    database.unlink()  # the table alone, of before: its runs are taken over
    pq.write_table(pq.read_table(path).drop_columns([*later, "label"]), path)
    settle(tmp_path, EXPERIMENT)
    assert kept() == "[[nan, nan], [nan, nan]]"


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither runs that find no room nor a table that cannot be written harm what is there."""
    with Store(tmp_path, EXPERIMENT) as store:
        store.append([row(0, 0)])
        n_pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {n_pages}")
        with pytest.raises(SurepickError, match=r"cannot write .*runs\.sqlite: database or disk is full"):
            store.append([row(0, run) for run in range(1, 999)])
        store.append([row(0, 1)])

        def no_room(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(pq, "ParquetWriter", no_room)
        with pytest.raises(OSError, match="No space"):
            store.export()
        monkeypatch.undo()
    assert kept(tmp_path) == [(0, 0, 5), (0, 1, 5)]


def test_schema_needs_pyarrow_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package one sentence says what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SurepickError, match=r"needs pyarrow; install surepick\[bench\]"):
        schema()


def test_without_pyarrow_reports_read_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make run` needs no pyarrow: the same cells come back; with pyarrow the table is written from the same runs."""
    names = ["run", "n_pulls", "correct", "lower_bound", "version"]

    def read() -> list[tuple[str, dict[str, list[object]]]]:
        found = read_cells(tmp_path / TABLE, names)
        return [(key, {name: values.tolist() for name, values in columns.items()}) for key, columns in found]

    with monkeypatch.context() as missing:
        missing.setitem(sys.modules, "pyarrow", None)
        with Store(tmp_path, EXPERIMENT) as store:
            store.append([row(1, 0), row(0, 1), row(0, 0)])
        assert not (tmp_path / TABLE).exists()
        before = read()
        kinds = [columns["correct"].dtype.kind for _, columns in read_cells(tmp_path / TABLE, names)]
    assert [columns["run"] for _, columns in before] == [[0, 1], [0]]
    assert kinds == ["b", "b"]  # a report negates this column
    settle(tmp_path, EXPERIMENT)
    assert (tmp_path / TABLE).exists()
    assert repr(read()) == repr(before)  # a lower bound may be NaN


def test_a_table_does_not_fall_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that has a table takes no further runs without pyarrow."""
    with Store(tmp_path, EXPERIMENT) as store:
        store.append([row(0, 0)])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SurepickError, match=r"needs pyarrow; install surepick\[bench\]"):
        Store(tmp_path, EXPERIMENT)
