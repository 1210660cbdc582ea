import functools
import itertools
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather

import surepick as sp
from benchmarks import mapped as benchmark
from surepick.arms import mapped as module
from surepick.arms import mapped as recent
from surepick.arms.finite import FiniteArms
from surepick.arms.mapped import MappedArms, _recut
from surepick.types import Array, IntArray

FORMATS = (".npy", ".parquet", ".arrow", ".feather")


def table_of(X: Array) -> pa.Table:
    """Columns x0, x1, ..."""
    return pa.table({f"x{j}": X[:, j] for j in range(X.shape[1])})


def written(folder: Path, X: Array, suffix: str = ".npy", name: str = "arms", group: int = 700) -> Path:
    """Write X to a file of several groups of rows."""
    path = folder / f"{name}{suffix}"
    if suffix == ".npy":
        np.save(path, X)
    elif suffix == ".parquet":
        pq.write_table(table_of(X), path, row_group_size=group)
    else:
        compression = "lz4" if suffix == ".feather" else "uncompressed"
        feather.write_feather(table_of(X), path, compression=compression, chunksize=group)
    return path


def planted(n_arms: int, dim: int, seed: int) -> tuple[Array, Array]:
    """Random unit rows, the first along theta, a little shorter rows elsewhere; some rows occur several times."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_arms, dim))
    X *= 0.8 / np.linalg.norm(X, axis=1)[:, None]
    theta = rng.standard_normal(dim)
    X[0] = theta / np.linalg.norm(theta)
    X[n_arms // 2] = X[0]
    X[7] = X[n_arms - 1] = X[3]
    X[11, 1] = -0.0
    return X, 5.0 * X[0]


def reward_of(X: Array, theta: Array) -> Callable[[int], float]:
    """Noise of standard deviation 1, the same sequence for every call."""
    rng = np.random.default_rng(5)
    means = X @ theta
    return lambda arm: float(means[arm] + rng.standard_normal())


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_columns_with_names_get_a_constant_as_a_data_frame_does(tmp_path: Path, suffix: str) -> None:
    """The same rows, names and pulls; in another process too."""
    X, theta = planted(3_000, 3, seed=2)
    arms = MappedArms(written(tmp_path, X, suffix), chunk_rows=500)
    frame = FiniteArms(pd.DataFrame({f"x{j}": X[:, j] for j in range(3)}))
    assert arms.has_added_constant
    assert arms.feature_names == frame.feature_names == ("constant", "x0", "x1", "x2")
    ours, theirs = (sp.identify(one, reward_of(X, theta), seed=3) for one in (pickle.loads(pickle.dumps(arms)), frame))
    assert (ours.best, ours.n_pulls, ours.counts) == (theirs.best, theirs.n_pulls, theirs.counts)
    np.testing.assert_array_equal(arms.gather([5, 0]), frame.gather([5, 0]))


def test_a_constant_is_added_only_where_it_is_missing(tmp_path: Path) -> None:
    """Shares that add up to one hold it; a single row in which they do not, after 25,000 in which they do, shows it."""
    shares = np.random.default_rng(1).dirichlet(np.ones(3), size=25_000)
    arms = MappedArms(written(tmp_path, shares, ".parquet"))
    assert (arms.dim, arms.has_added_constant) == (3, False)
    assert MappedArms(written(tmp_path, shares[:, :2])).dim == 2  # .npy: whoever made it knows
    assert MappedArms(written(tmp_path, shares[:, :2]), intercept=True).dim == 3
    shares[-1] *= 1.01
    odd = MappedArms(written(tmp_path, shares, ".parquet", name="odd"))
    assert (odd.dim, odd.has_added_constant) == (4, True)


@pytest.mark.parametrize(
    ("suffix", "chunk_rows"),
    [(".npy", None), (".npy", 1000), (".npy", 7777), (".parquet", 1000), (".arrow", 20_001)],
)
def test_an_identification_is_the_same_as_in_memory(tmp_path: Path, suffix: str, chunk_rows: int | None) -> None:
    """20,000 arms: the whole result, every pull, estimate and interval, is that of the rows in memory, bit for bit."""
    X, theta = planted(20_000, 5, seed=1)
    arms = MappedArms(written(tmp_path, X, suffix, group=6000), chunk_rows=chunk_rows, intercept=False)
    assert sp.identify(arms, reward_of(X, theta), seed=3, noise_std=1.0) == in_memory()


@functools.cache
def in_memory() -> sp.Result:
    """The identification that those of files are compared with."""
    X, theta = planted(20_000, 5, seed=1)
    result = sp.identify(X, reward_of(X, theta), seed=3, noise_std=1.0)
    assert result.best == 0
    assert result.stopped
    return result


@pytest.mark.parametrize("chunk_rows", [None, 501])
def test_tied_arms_and_several_pieces_round_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_rows: int | None
) -> None:
    """A grid is full of ties, which rounding decides; many pieces must be cut as those in memory are."""
    X = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=7)))
    monkeypatch.setattr("surepick.arms.finite.row_chunks", chunks_of_300)
    monkeypatch.setattr(module, "row_chunks", chunks_of_300)
    theta = np.array([1.9, 1.8, 1.7, 1.6, -1.8, 1.9, 1.7])
    ours = MappedArms(written(tmp_path, X), chunk_rows=chunk_rows)
    assert [len(rows) for _, rows in ours.chunks()] == [300] * 7 + [87]
    for algorithm in ("lazy-track-and-stop", "lingape"):
        results = [sp.identify(arms, reward_of(X, theta), algorithm=algorithm, noise_std=1.0) for arms in (X, ours)]
        assert results[0] == results[1]


def chunks_of_300(rows: Array) -> Iterator[tuple[int, Array]]:
    """As `row_chunks`, with pieces so small that a small set has many."""
    for start in range(0, len(rows), 300):
        yield start, rows[start : start + 300]


def test_learner_with_candidates_in_a_file(tmp_path: Path) -> None:
    """Candidates in a file, which need not span, are compared like candidates in memory."""
    rng = np.random.default_rng(2)
    arms = np.eye(3)
    Z = np.column_stack([rng.standard_normal((5000, 2)), np.zeros(5000)])
    pulls = []
    for candidates in (Z, MappedArms.rows_only(written(tmp_path, Z, ".parquet"), chunk_rows=999)):
        learner, reward = (
            sp.create_learner("lazy-track-and-stop", arms, candidates=candidates, seed=4, noise_std=1.0),
            None,
        )
        reward = reward_of(arms, np.array([1.0, 0.5, 3.0]))
        while not learner.stopped and learner.estimate.n_pulls < 1500:
            arm = learner.next_arms()[0]
            learner.tell(arm, reward(arm))
        pulls.append((learner.log, learner.decision))
    assert pulls[0] == pulls[1]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("chunk_rows", [None, 13, 5000])
def test_rows_copies_and_triangle_are_those_in_memory(tmp_path: Path, suffix: str, chunk_rows: int | None) -> None:
    """The parts of every oracle, for all formats and sizes of reading."""
    X, theta = planted(2100, 4, seed=3)
    ours, theirs = MappedArms(written(tmp_path, X, suffix), chunk_rows=chunk_rows, intercept=False), FiniteArms(X)
    assert (ours.n_arms, ours.dim, len(ours)) == (2100, 4, 2100)
    assert ours.feature_names == theirs.feature_names
    assert ours.names is None
    for (start, rows), (first, expected) in zip(ours.chunks(), theirs.chunks(), strict=True):
        assert start == first
        assert rows.tobytes() == expected.tobytes()  # also the sign of zero
    assert np.array_equal(ours.triangle(), theirs.triangle())
    for arm in (0, 3, 7, 8, 1050, 2099):
        assert np.array_equal(ours.copies(arm), theirs.copies(arm))
    index = [2099, 0, 700, 699, 3, 3]
    assert np.array_equal(ours.gather(index), X[index])
    assert ours.gather([]).shape == (0, 4)
    with pytest.raises(sp.InvalidInput, match="between 0 and 2099"):
        ours.gather([2100])
    assert ours.best(theta) == 0
    assert np.array_equal(ours.top_quadratic(np.eye(4), 5)[0], theirs.top_quadratic(np.eye(4), 5)[0])


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "i4", "u1", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_other_numbers_and_fortran_order_are_read_as_doubles(tmp_path: Path, dtype: str, order: str) -> None:
    """Whatever numpy writes as numbers is read; values are those of `astype(float)`."""
    rng = np.random.default_rng(4)
    X = np.asarray(rng.integers(0, 2, (400, 3)), dtype=dtype, order=order)  # type: ignore[call-overload]
    path = tmp_path / "arms.npy"
    np.save(path, X)
    arms = MappedArms(path)
    assert np.array_equal(np.vstack([rows for _, rows in arms.chunks()]), X.astype(float))
    assert np.array_equal(arms.gather([5, 2]), X[[5, 2]].astype(float))
    assert np.array_equal(arms.copies(9), FiniteArms(X).copies(9))


def test_columns_of_many_kinds_and_an_index_of_pandas(tmp_path: Path) -> None:
    """Numeric and boolean columns are features; an index that pandas wrote along is not."""
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [True, False, True], "c": [0.5, 0.5, 1.5]}, index=[10, 20, 31])
    frame["a"] = frame["a"].astype("int16")
    frame["c"] = frame["c"].astype("float32")
    path = tmp_path / "arms.parquet"
    frame.to_parquet(path)
    arms = MappedArms(path)
    assert arms.feature_names == ("a", "b", "c")
    assert np.array_equal(arms.gather([0, 1, 2]), [[1, 1, 0.5], [2, 0, 0.5], [3, 1, 1.5]])


@given(
    sizes=st.lists(st.integers(0, 7), max_size=12),
    step=st.integers(1, 9),
)
def test_recut_keeps_every_row_in_order(sizes: list[int], step: int) -> None:
    """Blocks of any sizes become pieces of `step` rows, the last one excepted."""
    X = np.arange(float(sum(sizes)))[:, None]
    ends = np.cumsum(sizes, dtype=int)
    pieces = list(_recut((X[end - n : end] for n, end in zip(sizes, ends, strict=True)), step))
    assert [start for start, _ in pieces] == list(range(0, len(X), step))
    assert all(len(rows) == step for _, rows in pieces[:-1])
    assert np.array_equal(np.concatenate([np.empty((0, 1)), *(rows for _, rows in pieces)]), X)


def test_gathering_again_reads_nothing_and_forgets_the_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows asked for lately are at hand; at most so many of them are kept."""
    monkeypatch.setattr(recent, "AT_MOST", 50)
    X, _ = planted(2100, 4, seed=3)
    arms = MappedArms(written(tmp_path, X, ".parquet"), intercept=False)
    fetched: list[list[int]] = []
    rows, fetch = arms._reader._recent, arms._reader._fetch  # type: ignore[union-attr]

    def counted(index: IntArray) -> Array:
        fetched.append(index.tolist())
        return fetch(index)

    monkeypatch.setattr(rows, "_fetch", counted)
    for index in ([5, 4], [4, 5, 6], list(range(100, 149)), [5], list(range(60))):
        assert np.array_equal(arms.gather(index), X[index])
    assert fetched == [[4, 5], [6], list(range(100, 149)), [5], list(range(60))]
    assert len(rows._rows) <= 50


def test_equal_hashes_of_different_rows_are_no_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes only find candidates; rows decide."""
    X, _ = planted(300, 3, seed=6)
    monkeypatch.setattr(module, "row_codes", lambda rows: np.zeros(len(rows), dtype=np.uint64))
    arms, theirs = MappedArms(written(tmp_path, X)), FiniteArms(X)
    for arm in (0, 1, 3, 150):
        assert np.array_equal(arms.copies(arm), theirs.copies(arm))


def test_a_pickle_holds_no_rows_and_opens_the_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process, wherever it runs, goes on with the same file."""
    X, theta = planted(3000, 4, seed=3)
    monkeypatch.chdir(tmp_path)
    for suffix in FORMATS:
        arms = MappedArms(os.path.basename(written(tmp_path, X, suffix)), intercept=False)  # noqa: PTH119 - a relative path
        packed = pickle.dumps(arms)
        assert len(packed) < 2000
        monkeypatch.chdir("/")
        again = pickle.loads(packed)
        assert again.best(theta) == 0
        assert np.array_equal(again.copies(7), [3, 7, 2999])
        assert np.array_equal(again.triangle(), arms.triangle())
        assert again.feature_names == arms.feature_names
        monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_that_changes_is_noticed_at_the_next_look(tmp_path: Path, suffix: str) -> None:
    """Other content, another time or no file at all: no later answer mixes two files."""
    X, theta = planted(2100, 4, seed=3)
    path = written(tmp_path, X, suffix)
    arms = MappedArms(path)
    packed = pickle.dumps(arms)
    passing = arms.chunks()
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    said = r"arms\.\w+' was changed after the arms were built.*build the set again"
    with pytest.raises(sp.InvalidInput, match=said):
        arms.best(theta)
    with pytest.raises(sp.InvalidInput, match=said):
        arms.gather([0])
    with pytest.raises(sp.InvalidInput, match=said):
        next(passing)
    with pytest.raises(sp.InvalidInput, match=said):
        pickle.loads(packed)
    path.unlink()
    with pytest.raises(sp.InvalidInput, match="there is no file"):
        arms.best(theta)


def test_a_change_in_the_middle_of_an_identification_loses_no_reward(tmp_path: Path) -> None:
    """The error of `identify` carries what was measured before."""
    X, theta = planted(2100, 4, seed=3)
    path = written(tmp_path, X)
    reward = reward_of(X, theta)

    def pull(arm: int) -> float:
        pull.n += 1  # type: ignore[attr-defined]
        if pull.n == 12:  # type: ignore[attr-defined]
            np.save(path, X[::-1])
        return reward(arm)

    pull.n = 0  # type: ignore[attr-defined]
    with pytest.raises(sp.SurepickError, match="was changed"):
        sp.identify(MappedArms(path), pull, noise_std=1.0)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_named_by_place(tmp_path: Path, suffix: str, value: float) -> None:
    """File, row and column of the first bad number."""
    X, _ = planted(2100, 4, seed=3)
    X[1777, 2] = value
    with pytest.raises(sp.InvalidInput, match=rf"arms\{suffix}'.*got {value} in row 1777, column x2"):
        MappedArms(written(tmp_path, X, suffix), chunk_rows=100)


def test_a_missing_value_is_named_by_place(tmp_path: Path) -> None:
    """A null of a column of whole numbers is no number either."""
    path = tmp_path / "arms.parquet"
    pq.write_table(pa.table({"dose": [1, 2, None], "flag": [True, False, True]}), path)
    with pytest.raises(sp.InvalidInput, match=r"arms\.parquet'.*nan in row 2, column dose"):
        MappedArms(path)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    """Cut off, overwritten, empty or something else: an error that says which file, never a wrong answer."""
    X, _ = planted(2100, 4, seed=3)
    for suffix in FORMATS:
        whole = written(tmp_path, X, suffix).read_bytes()
        contents = {
            "cut": whole[: len(whole) // 2],
            "short": whole[:7],
            "empty": b"",
            "text": b"a,b\n1,2\n" * 50,
            "head": bytes(64) + whole[64:] if suffix == ".npy" else bytes(8) + whole[8:-8] + bytes(8),
        }
        for name, content in contents.items():
            path = tmp_path / f"{name}{suffix}"
            path.write_bytes(content)
            with pytest.raises(sp.InvalidInput, match=rf"{name}\{suffix}"):
                MappedArms(path)


def test_a_parquet_file_with_checksums_tells_on_changed_numbers(tmp_path: Path) -> None:
    """Where the writer has put checksums in, they are compared."""
    X, _ = planted(2100, 4, seed=3)
    path = tmp_path / "arms.parquet"
    pq.write_table(table_of(X), path, write_page_checksum=True, use_dictionary=False)
    assert MappedArms(path).n_arms == 2100
    whole = path.read_bytes()
    place = len(whole) // 3
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(sp.InvalidInput, match=r"arms\.parquet"):
        MappedArms(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (np.ones(5), "one row per arm, got shape"),
        (np.ones((2, 2, 2)), "one row per arm, got shape"),
        (np.array([["a", "b"]]), "real numbers"),
        (np.ones((2, 2), dtype=complex), "real numbers"),
        (np.zeros((0, 3)), "is empty|damaged"),
        (np.zeros((3, 0)), "is empty|damaged"),
        (np.ones((1, 2)), "at least two arms"),
        (np.ones((4, 2)), "4 copies of one"),
    ],
)
def test_arrays_that_are_no_arms_are_refused(tmp_path: Path, content: np.ndarray, said: str) -> None:
    """Shape, kind, too few and too alike."""
    path = tmp_path / "arms.npy"
    np.save(path, content)
    with pytest.raises(sp.InvalidInput, match=said) as caught:
        MappedArms(path)
    assert "arms.npy" in str(caught.value)


def test_columns_that_are_no_features_are_refused(tmp_path: Path) -> None:
    """Text names its column; so do two columns of one name."""
    for path, write in ((tmp_path / "a.parquet", pq.write_table), (tmp_path / "a.arrow", feather.write_feather)):
        write(pa.table({"dose": [1.0, 2.0], "colour": ["red", "blue"]}), path)
        with pytest.raises(sp.InvalidInput, match=rf"{path.name}'.*string in column 'colour'"):
            MappedArms(path)
    pq.write_table(pa.table([[1.0, 2.0], [2.0, 3.0]], names=["a", "a"]), tmp_path / "b.parquet")
    with pytest.raises(sp.InvalidInput, match="'a' twice"):
        MappedArms(tmp_path / "b.parquet")
    pq.write_table(pa.table({"a": pa.array([], pa.float64())}), tmp_path / "c.parquet")
    with pytest.raises(sp.InvalidInput, match=r"c\.parquet.*is empty"):
        MappedArms(tmp_path / "c.parquet")


def test_arms_that_do_not_span_are_refused_unless_only_compared(tmp_path: Path) -> None:
    """The rank, the empty column and a sufficient choice of features are named."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((50, 4))
    X[:, 1] = 0.0
    X[:, 3] = X[:, 0] - X[:, 2]
    path = written(tmp_path, X)
    with pytest.raises(sp.ArmsDoNotSpan, match=r"R\^4 but have rank 2 \(always zero: x1\).*are enough"):
        MappedArms(path)
    assert MappedArms.rows_only(path).n_arms == 50


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    """A missing file, a directory, another format, a number."""
    (tmp_path / "arms.parquet").mkdir()
    (tmp_path / "arms.csv").write_text("a,b\n1,2\n")
    cases = {"none.npy": "there is no file", "arms.parquet": "got a directory", "arms.csv": r"\.npy, \.parquet"}
    for name, said in cases.items():
        with pytest.raises(sp.InvalidInput, match=said):
            MappedArms(str(tmp_path / name))
    with pytest.raises(sp.InvalidInput, match="path of a file"):
        MappedArms(3)  # type: ignore[arg-type]
    with pytest.raises(sp.InvalidInput, match="`chunk_rows`"):
        MappedArms(written(tmp_path, np.eye(3)), chunk_rows=0)


def test_many_arms_in_a_file_take_little_memory(tmp_path: Path) -> None:
    """400,000 arms, d = 20, in a file of 64 MB; its pages are not counted, a copy of them would be."""
    path = tmp_path / "arms.npy"
    benchmark.write_planted(path, 400_000)
    found = benchmark.measured_alone(path)
    print({name: round(value, 3) for name, value in found.items()})  # noqa: T201 - the time, for who asks with -rP
    assert found["best"] == 0
    assert found["peak_mb"] < 130
