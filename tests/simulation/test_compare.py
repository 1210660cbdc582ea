from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from surepick.errors import InvalidInput, SurepickError
from surepick.simulation.compare import Comparison, compare
from surepick.simulation.store import cell_columns, schema
from tests.simulation.tiny import tiny

RNG = np.random.default_rng(11)
PULLS = RNG.integers(50, 150, size=40).tolist()


def table(
    path: Path,
    n_pulls: Sequence[int] = PULLS,
    *,
    wrong: Sequence[int] = (),
    seed: int = 7,
    label: str = "uniform",
    runs: Sequence[int] | None = None,
) -> Path:
    """Write a table of one cell whose runs are as given."""
    common = columns(seed, label)
    numbers = range(len(n_pulls)) if runs is None else runs
    rows = [
        {
            **common,
            "run": run,
            "n_pulls": n,
            "cost": n,
            "stopped": True,
            "correct": run not in wrong,
            "support": 3,
            "design_support": 2.5,
            "seconds": 0.5,
            "evidence": 1.0,
            "target": 1.0,
            "lower_bound": 1.0,
            "version": "0",
        }
        for run, n in zip(numbers, n_pulls, strict=True)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema()), path)
    return path


@cache
def columns(seed: int, label: str) -> dict[str, Any]:
    """What the rows of the first cell have in common."""
    changes = ("seed = 7", f"seed = {seed}"), ('label = "uniform"', f'label = "{label}"')
    return cell_columns(tiny(*changes).cells()[0])


def only(comparison: Comparison) -> Any:
    """Verdict, p-values and pairing of a single cell."""
    (cell,) = comparison.cells
    return cell.verdict, cell.p_pulls, cell.p_errors, cell.is_paired


def test_equal_tables_are_identical(tmp_path: Path) -> None:
    """Nothing is tested where nothing differs, also where one table has more runs."""
    same = compare(table(tmp_path / "a"), table(tmp_path / "b", [*PULLS, 1, 2, 3]))
    assert only(same)[0] == "identical"
    assert (same.n_tests, same.n_changed) == (0, 0)
    assert same.cells[0].first == same.cells[0].second  # of the runs that both have
    assert same.cells[0].first.n_runs == 40


def test_runs_of_one_seed_are_compared_in_pairs(tmp_path: Path) -> None:
    """Three pulls more in nine of ten runs are far below the spread between runs, yet no chance in pairs."""
    more = [n + 3 * (i % 10 > 0) for i, n in enumerate(PULLS)]
    found = compare(table(tmp_path / "a"), table(tmp_path / "b", more))
    expected = 2 * stats.ttest_rel(more, PULLS).pvalue
    verdict, p_pulls, p_errors, is_paired = only(found)
    assert (verdict, is_paired, p_errors) == ("changed", True, 1.0)
    assert p_pulls == pytest.approx(expected)
    assert found.n_tests == 2
    other = compare(table(tmp_path / "a"), table(tmp_path / "b", more, seed=8))
    assert only(other)[::3] == ("noise", False)


def test_welch_finds_a_difference_between_seeds(tmp_path: Path) -> None:
    """Half as many pulls again; the squared standard errors of both tables add up, be they of different size."""
    a, b = np.array(PULLS[:12]), np.array([3 * n // 2 for n in PULLS])
    found = compare(table(tmp_path / "a", a.tolist()), table(tmp_path / "b", b.tolist(), seed=8))
    squares = np.array([a.var(ddof=1) / 12, b.var(ddof=1) / 40])
    t, df = (b.mean() - a.mean()) / np.sqrt(squares.sum()), squares.sum() ** 2 / (squares**2 / [11, 39]).sum()
    assert only(found)[:2] == ("changed", pytest.approx(2 * 2 * stats.t.sf(t, df), rel=1e-9))


def test_wrong_answers_are_counted_exactly(tmp_path: Path) -> None:
    """In pairs the sign test of the runs that changed sides, else Fisher's test; each times two tests."""
    paired = compare(table(tmp_path / "a", wrong=[0, 10]), table(tmp_path / "b", wrong=range(10)))
    assert only(paired)[2] == pytest.approx(2 * 2 * (1 + 10) * 0.5**10)  # at most one of the ten that changed
    assert only(paired)[0] == "changed"
    apart = compare(table(tmp_path / "a", wrong=[0]), table(tmp_path / "b", wrong=range(10), seed=8))
    assert only(apart)[2] == pytest.approx(2 * stats.fisher_exact(np.array([[1, 39], [10, 30]])).pvalue)
    assert only(apart)[0] == "changed"


def test_constant_differences_are_no_certainty_in_few_runs(tmp_path: Path) -> None:
    """Without spread a t test would be sure after two runs; how often chance gives equal signs is not."""
    pairs = compare(table(tmp_path / "a", [5, 9]), table(tmp_path / "b", [6, 10]))
    assert only(pairs)[:2] == ("noise", 1.0)  # 2 * 2^-1
    pairs = compare(table(tmp_path / "a", [5] * 9), table(tmp_path / "b", [6] * 9))
    assert only(pairs)[:2] == ("changed", pytest.approx(2 * 2.0**-8))
    apart = compare(table(tmp_path / "a", [5] * 4), table(tmp_path / "b", [6] * 4, seed=8))
    assert only(apart)[:2] == ("noise", pytest.approx(4 / 70))
    level = compare(table(tmp_path / "a", [5] * 4), table(tmp_path / "b", [5] * 4, seed=8))
    assert only(level)[:2] == ("noise", 1.0)


def test_single_runs_tell_nothing(tmp_path: Path) -> None:
    """One run that differs is neither noise nor a change."""
    assert only(compare(table(tmp_path / "a", [5]), table(tmp_path / "b", [6])))[0] == "too few runs"
    assert only(compare(table(tmp_path / "a", [5]), table(tmp_path / "b", [6], seed=8)))[0] == "too few runs"


def test_disjoint_runs_of_one_seed_are_not_pairs(tmp_path: Path) -> None:
    """Runs 0..39 and 40..79 of a seed are independent samples."""
    found = compare(table(tmp_path / "a"), table(tmp_path / "b", PULLS, runs=range(40, 80)))
    assert only(found) == ("noise", 1.0, 1.0, False)


def test_false_alarms_keep_their_level(tmp_path: Path) -> None:
    """Of 200 comparisons of equal distributions more than 22 alarms have probability below 1e-3 (binomial, 5 %)."""
    rng = np.random.default_rng(0)
    n_alarms = 0
    for _ in range(200):
        a, b = (table(tmp_path / name, rng.integers(50, 150, 20).tolist(), seed=s) for name, s in (("a", 1), ("b", 2)))
        n_alarms += compare(a, b).n_changed
    assert stats.binom.sf(22, 200, 0.05) < 1e-3
    assert n_alarms <= 22


def test_cells_of_one_table_are_named(tmp_path: Path) -> None:
    """What only one of them has; nothing in common is refused."""
    with pytest.raises(InvalidInput, match="have no cell in common"):
        compare(table(tmp_path / "a"), table(tmp_path / "b", label="other"))
    both = pa.concat_tables([pq.read_table(tmp_path / "a"), pq.read_table(tmp_path / "b")])
    keys = [*["x"] * 40, *["y"] * 40]
    pq.write_table(both.set_column(0, schema().field("key"), pa.array(keys)), tmp_path / "c")
    found = compare(tmp_path / "a", tmp_path / "c")
    assert found.only_second == ("other on unit_basis(means=[3.0, 0.0, 0.0]) at delta 0.1",)
    assert found.only_first == ()


def test_two_kinds_of_runs_of_a_cell_are_refused(tmp_path: Path) -> None:
    """A folder swept before and after an option was changed has both; which to compare is not to be guessed."""
    both = pa.concat_tables([pq.read_table(table(tmp_path / "a")), pq.read_table(table(tmp_path / "b", seed=8))])
    pq.write_table(both, tmp_path / "c")
    with pytest.raises(InvalidInput, match="has two kinds of runs of uniform on unit_basis"):
        compare(tmp_path / "a", tmp_path / "c")


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    """Missing, cut off, flipped bits, other columns."""
    good = table(tmp_path / "a")
    with pytest.raises(SurepickError, match="there is no"):
        compare(good, tmp_path / "none")
    data = bytearray(good.read_bytes())
    (tmp_path / "cut").write_bytes(data[:100])
    with pytest.raises(SurepickError, match="is damaged or no Parquet file"):
        compare(good, tmp_path / "cut")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other")
    with pytest.raises(SurepickError, match="is not a table of runs"):
        compare(good, tmp_path / "other")


def test_two_tables_of_arms_are_two_problems(tmp_path: Path) -> None:
    """Their names tell them apart; a table of before has no names and is compared as it was."""
    one = pq.read_table(table(tmp_path / "one"))
    names = pa.array(["a.csv"] * len(PULLS)), pa.array(["b.csv"] * len(PULLS))
    keys = pa.array(["0"] * len(PULLS)), pa.array(["1"] * len(PULLS))
    places = [one.schema.get_field_index(name) for name in ("key", "label")]
    parts = [
        one.set_column(places[0], schema().field("key"), key).set_column(places[1], schema().field("label"), name)
        for key, name in zip(keys, names, strict=True)
    ]
    pq.write_table(pa.concat_tables(parts), tmp_path / "both")
    found = compare(tmp_path / "both", tmp_path / "both")
    assert [(cell.label, cell.verdict) for cell in found.cells] == [("a.csv", "identical"), ("b.csv", "identical")]
    pq.write_table(one.drop_columns(["label", "cost"]), tmp_path / "old")
    assert only(compare(tmp_path / "old", tmp_path / "one"))[0] == "identical"
