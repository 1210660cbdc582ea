"""Result: intervals and their coverage, the table of arms, plain words, the file format."""

import json
import math
import os
import pickle
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from surepick.arms.finite import FiniteArms
from surepick.arms.views import WhitenedArms, whiten
from surepick.core.design import optimal_design
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture
from surepick.errors import InvalidInput, SurepickError
from surepick.learning.estimates import Estimates, estimates_of
from surepick.learning.events import History
from surepick.learning.result import Result
from surepick.types import Array


def fitted(white: WhitenedArms, pulls: list[int], rewards: Array) -> LeastSquares:
    """Return least squares, in whitened coordinates, fed with these pulls."""
    estimate = LeastSquares(white.dim)
    for arm, reward in zip(pulls, rewards.tolist(), strict=True):
        estimate.update(white.gather([arm])[0], reward, arm)
    return estimate


LOG = (
    ("start", "a learner"),
    ("ask", (1,)),
    ("tell", 1, 1.0 / 3.0),
    ("tell", 0, -0.0),
    ("fail", 1),
    ("ask", (1,)),
    ("tell", 1, 5e-324),
)


COLUMNS = ["estimate", "low", "high", "rank", "behind", "behind_low", "behind_high", "likely_low", "likely_high"]


def example(**changes: Any) -> Result:
    """Return a small result made by hand, with one third in it so that rounding would show."""
    third = 1.0 / 3.0
    values: dict[str, Any] = {
        "best": 1,
        "best_name": "oak",
        "n_pulls": 3,
        "counts": {0: 1, 1: 2},
        "stopped": True,
        "interrupted": False,
        "evidence": 3.0 + third,
        "threshold": math.log(20.0),
        "epsilon_bound": third,
        "remaining": 0.0,
        "theta": np.array([third, 2.0]),
        "guarantee": "proved",
        "rule": "betting",
        "noise_std": 0.9,
        "noise_interval": (0.4, 2.5),
        "noise_contradicted": False,
        "delta": 0.05,
        "epsilon": 0.0,
        "given_noise_std": 1.0,
        "algorithm": "lazy-track-and-stop",
        "seed": 2**80 + 1,
        "history": History(LOG),
        "arms": Estimates(("elm", "oak"), np.array([third, 2.0]), np.array([0.1, 1.5]), np.array([0.6, 2.5])),
        "candidates": None,
    }
    return Result(**(values | changes))


def no_leader(**changes: Any) -> Result:
    """Return a result of one pull, before the arms span: infinities and NaN wherever they can be."""
    unknown = Estimates(None, np.full(2, np.nan), np.full(2, -np.inf), np.full(2, np.inf))
    values: dict[str, Any] = {
        "best": None,
        "best_name": None,
        "n_pulls": 1,
        "counts": {0: 1},
        "stopped": False,
        "evidence": 0.0,
        "epsilon_bound": math.inf,
        "remaining": math.inf,
        "theta": None,
        "noise_std": math.nan,
        "history": History([("start", "a learner"), ("tell", 0, 1.0)]),
        "arms": unknown,
    }
    return example(**(values | changes))


@pytest.mark.parametrize("seed", range(3))
def test_intervals_are_those_of_the_formula(seed: int) -> None:
    """Low and high agree with the formula written out in the user's own coordinates, V the G-optimal information."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 4)) * [1.0, 100.0, 0.01, 1.0]
    pulls = rng.integers(30, size=50).tolist()
    rewards = X[pulls] @ [1.0, 0.02, 30.0, -1.0] + 0.5 * rng.standard_normal(50)
    white = whiten(FiniteArms(X))
    found = estimates_of(white, fitted(white, pulls, rewards), delta=0.1, noise_std=0.5)

    g_optimal = optimal_design(X, tol=1e-6)
    V = (X[g_optimal.support].T * g_optimal.weights) @ X[g_optimal.support]
    A = X[pulls].T @ X[pulls]
    theta = np.linalg.solve(A, X[pulls].T @ rewards)
    mixture = Mixture.default()
    squares = []
    for kappa, weight in zip(mixture.kappas, mixture.weights, strict=True):
        beta = (
            math.log(1 / 0.1)
            - math.log(weight)
            + 0.5 * math.log(np.linalg.det(np.eye(4) + np.linalg.solve(V, A) / kappa))
        )
        W = np.linalg.solve(A, A + kappa * V) @ np.linalg.inv(A)
        squares.append(2 * 0.5**2 * beta * np.einsum("ij,jk,ik->i", X, W, X))
    width = np.sqrt(np.min(squares, axis=0))
    np.testing.assert_allclose(found.estimate, X @ theta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.high - found.estimate, width, rtol=1e-4)
    np.testing.assert_allclose(found.estimate - found.low, width, rtol=1e-4)


def test_intervals_do_not_depend_on_the_units_of_the_features() -> None:
    """An invertible change of features leaves estimates and intervals alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    M = rng.standard_normal((3, 3)) * [1e-3, 1.0, 1e3]
    pulls, rewards = rng.integers(40, size=30).tolist(), rng.standard_normal(30)
    tables = []
    for rows in (X, X @ M):
        white = whiten(FiniteArms(rows))
        tables.append(estimates_of(white, fitted(white, pulls, rewards), delta=0.05, noise_std=1.0))
    np.testing.assert_allclose(tables[0].low, tables[1].low, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tables[0].high, tables[1].high, rtol=1e-5, atol=1e-6)


@pytest.mark.statistical
def test_all_intervals_hold_at_many_times() -> None:
    """Greedy pulls in 200 runs: runs in which any interval ever misses stay within the binomial limit at delta = 0.2.

    If the claim holds the test fails with probability below 1e-6. The intervals are not vacuous either: about at most
    three times as wide as those for one arm at one time fixed in advance.
    """
    delta, n_runs, n_rounds = 0.2, 200, 60
    X = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.7], [-0.5, 0.9], [0.9, -0.6]])
    white = whiten(FiniteArms(X))
    rows = white.gather(range(5))
    theta = np.array([0.5, 0.45])
    n_missed = 0
    for run in range(n_runs):
        rng = np.random.default_rng(run)
        estimate = LeastSquares(2)
        is_missed = False
        for t in range(n_rounds):
            # Only what looks good is pulled: the sampling that biases estimates the most.
            arm = t if t < 2 else int(np.argmax(rows @ estimate.theta))
            estimate.update(rows[arm], float(X[arm] @ theta + rng.standard_normal()), arm)
            if estimate.has_theta and (t < 6 or t % 6 == 5):
                table = estimates_of(white, estimate, delta=delta, noise_std=1.0)
                is_missed |= bool(((X @ theta < table.low) | (X @ theta > table.high)).any())
        n_missed += is_missed
    assert n_missed <= stats.binom.ppf(1 - 1e-6, n_runs, delta)
    q1 = np.einsum("ij,jk,ik->i", rows, estimate.A_inv, rows)
    fixed = stats.norm.ppf(1 - delta / 2) * np.sqrt(q1)
    assert ((table.high - table.low) / 2 <= 3.0 * fixed).all()


def test_before_the_arms_span_nothing_is_claimed() -> None:
    """Without an estimate the intervals are the whole line."""
    white = whiten(FiniteArms(np.eye(3)))
    table = estimates_of(white, fitted(white, [0, 1], np.ones(2)), delta=0.05, noise_std=1.0)
    assert np.isnan(table.estimate).all()
    assert (table.low == -np.inf).all()
    assert (table.high == np.inf).all()
    assert table.rank().tolist() == [1, 2, 3]


def test_copies_of_an_arm_have_one_estimate() -> None:
    """Equal rows get equal numbers wherever they stand, and the lower row number ranks first."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((601, 7))
    X[[100, 333, 600]] = X[17]
    white = whiten(FiniteArms(X))
    table = estimates_of(white, fitted(white, list(range(50)), rng.standard_normal(50)), delta=0.05, noise_std=1.0)
    assert len(set(table.estimate[[17, 100, 333, 600]].tolist())) == 1
    ranks = table.rank()[[17, 100, 333, 600]]
    assert np.array_equal(ranks, ranks[0] + np.arange(4))
    assert np.array_equal(np.sort(table.rank()), np.arange(1, 602))


def test_frame_lists_every_arm() -> None:
    """The frame has one row per arm in the given order, pulls included."""
    frame = example().to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["arm", "name", "pulls", *COLUMNS[:4], "measured", *COLUMNS[4:]]
    assert frame["name"].tolist() == ["elm", "oak"]
    assert frame["pulls"].tolist() == [1, 2]
    assert frame["rank"].tolist() == [2, 1]
    assert no_leader().to_frame()["name"].tolist() == ["0", "1"]


def test_frame_of_candidates() -> None:
    """Candidates have a table of their own, without pulls; if there are none it is the arms' table."""
    rows = Estimates(("x", "y", "z"), np.arange(3.0), np.arange(3.0) - 1, np.arange(3.0) + 1)
    frame = example(candidates=rows).to_frame("candidates")
    assert list(frame.columns) == ["candidate", "name", *COLUMNS]
    assert frame["name"].tolist() == ["x", "y", "z"]
    assert list(example().to_frame("candidates").columns) == list(example().to_frame().columns)
    with pytest.raises(InvalidInput, match="`of` must be"):
        example().to_frame("everything")  # type: ignore[arg-type]


def test_frame_without_pandas_is_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pandas is missing the same columns come as a dict of arrays."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    columns = example().to_frame()
    assert isinstance(columns, dict)
    assert columns["estimate"].tolist() == [1.0 / 3.0, 2.0]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            example(),
            ["oak (arm 1) is the best of 2 arms, after 3 pulls", "at most 5 % (proved, betting rule)", "linear"],
        ),
        (example(epsilon=0.25), ["is the best of 2 arms or loses at most 0.25 to it"]),
        (example(delta=1e-9), ["at most 1e-09 (proved"]),
        (example(best_name=None), ["Arm 1 is the best"]),
        (example(guarantee="heuristic", rule="heuristic"), ["should be at most about 5 %, but that is not proved"]),
        (example(guarantee="published", rule="gaussian-pairs"), ["is at most 5 % by a published proof"]),
        (example(guarantee="none", rule="budget"), ["without any guarantee (budget rule)"]),
        (
            example(stopped=False, evidence=1.2, remaining=40.2),
            [
                "Not decided (3 pulls). Leader oak.",
                "Stop now: oak is at most 0.34 below the best.",
                "about 41 more pulls.",
            ],
        ),
        (example(stopped=False, interrupted=True), ["Interrupted after 3 pulls. Not decided. Leader oak."]),
        (example(stopped=False, interrupted=True, best_name=None), ["Leader oak."]),
        (example(stopped=False, epsilon_bound=math.inf, remaining=math.nan), ["how many cannot be said yet"]),
        (no_leader(), ["No leader yet: 1 pull of 1 arm cannot show"]),
        (no_leader(interrupted=True), ["Interrupted after 1 pull. No leader yet"]),
        (
            example(noise_contradicted=True, guarantee="withdrawn", noise_std=2.5),
            ["scatter around the fit by 2.5 where noise_std = 1"],
        ),
        (
            example(candidates=Estimates(None, np.zeros(7), np.zeros(7), np.zeros(7)), best_name=None),
            ["Candidate 1 is the best of 7 candidates"],
        ),
    ],
)
def test_explanation_in_plain_words(result: Result, said: list[str]) -> None:
    """The sentence names the answer, the risk, the pulls, the rule and the assumptions, and what is missing."""
    text = result.explain()
    for words in said:
        assert words in text
    assert text.endswith(".")
    assert "nan" not in text
    assert "inf" not in text
    assert str(result) == text


def test_risk_is_not_stated_as_valid_when_the_noise_contradicts_it() -> None:
    """The usual assumptions are not repeated where the rewards speak against them."""
    assert "This assumes" in example().explain()
    assert "This assumes" not in example(noise_contradicted=True, guarantee="withdrawn").explain()


def test_result_cannot_be_changed() -> None:
    """Fields are frozen and arrays read-only; a frame's numbers are the caller's own."""
    result = example()
    with pytest.raises(FrozenInstanceError):
        result.best = 0  # type: ignore[misc]
    assert result.theta is not None
    with pytest.raises(ValueError, match="read-only"):
        result.theta[0] = 1.0
    result.to_columns()["estimate"][0] = 9.0
    assert result == example()


def test_equality_is_by_value() -> None:
    """Results with the same content are equal, NaN included; one different bit makes them differ."""
    assert no_leader() == no_leader()
    assert example() != example(evidence=math.nextafter(example().evidence, 9.0))
    assert example() != "a result"
    with pytest.raises(TypeError, match="unhashable"):
        hash(example())


@pytest.mark.parametrize(
    "result",
    [
        example(),
        no_leader(),
        example(candidates=Estimates(None, np.zeros(3), np.zeros(3), np.zeros(3)), evidence=math.inf),
        example(best_name='a "quoted" \N{SNOWMAN}\n', interrupted=True),
    ],
)
def test_file_gives_back_the_same_result(result: Result, tmp_path: Path) -> None:
    """Saving and loading changes no bit, and the file is plain JSON that any program reads."""
    path = tmp_path / "result.json"
    result.save(path)
    loaded = Result.load(path)
    assert loaded == result
    assert type(loaded.arms.estimate) is np.ndarray
    assert loaded.counts == result.counts
    assert loaded.history == result.history
    assert [math.copysign(1.0, value) for _, value in loaded.history] == [
        math.copysign(1.0, value) for _, value in result.history
    ]
    json.loads(path.read_text("utf-8"), parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


@given(values=st.lists(st.floats(), min_size=1, max_size=20))
def test_plain_form_keeps_every_double(values: list[float]) -> None:
    """Any doubles, NaN and infinities included, survive the way through JSON text bit for bit."""
    column = np.array(values)
    before = example(arms=Estimates(None, column.copy(), column.copy(), column.copy()), counts={})
    after = Result.from_dict(json.loads(json.dumps(before.to_dict(), allow_nan=False)))
    assert np.array_equal(after.arms.estimate, column, equal_nan=True)
    assert np.array_equal(np.signbit(after.arms.low), np.signbit(np.where(np.isnan(column), 0.0, column)))


def test_pickle_gives_back_the_same_result() -> None:
    """A result can be sent between processes."""
    assert pickle.loads(pickle.dumps(example())) == example()


def test_places_where_no_file_can_be_are_named(tmp_path: Path) -> None:
    """By the name that was given, not by that of a draft."""
    for path in (tmp_path, tmp_path / "nowhere" / "result.json"):
        with pytest.raises(InvalidInput, match=path.name):
            example().save(path)
    with pytest.raises(InvalidInput, match="to_dict"):
        Result.from_dict({})
    (tmp_path / "deep.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(InvalidInput, match=r"deep\.json"):
        Result.load(tmp_path / "deep.json")


def test_failed_save_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If writing fails half-way, the earlier file is untouched and no draft is left behind."""
    path = tmp_path / "result.json"
    example().save(path)

    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    inode = path.stat().st_ino
    with pytest.raises(OSError, match="no space left"):
        example(best=0, best_name="elm").save(path)
    assert Result.load(path) == example()
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]
    monkeypatch.undo()
    with path.open() as reader:  # keeps the earlier file alive, so that its number is not given out again
        example(best=0, best_name="elm").save(path)
        assert path.stat().st_ino != inode, "a reader must never see a file that is being written"
        assert "oak" in reader.read()
    assert Result.load(path).best_name == "elm"


def test_saved_file_has_ordinary_permissions(tmp_path: Path) -> None:
    """The file can be read by whoever could read any other new file, as text paths and links work."""
    plain, saved = tmp_path / "plain", tmp_path / "saved"
    plain.write_text("")
    (tmp_path / "link").symlink_to(saved)
    example().save(str(tmp_path / "link"))
    assert saved.stat().st_mode == plain.stat().st_mode
    assert (tmp_path / "link").is_symlink()
    assert Result.load(str(saved)) == example()


def damaged(kind: str, text: str) -> bytes:
    """Return the content of a file after some mishap."""
    if kind == "version":
        return text.replace('"version":5', '"version":1').encode()
    if kind == "digit":
        return text.replace('"n_pulls":3', '"n_pulls":4').encode()
    if kind == "constant":
        return text.replace('"n_pulls":3', '"n_pulls":NaN').encode()
    if kind == "short":
        return text[: len(text) // 2].encode()
    return {"empty": b"", "binary": b"\xff\xfe\x00", "other": b'{"a": 1}', "list": b"[1, 2]"}[kind]


def test_file_of_the_version_before_is_read() -> None:
    """What it lacks is not known; words, table and page do without, and saved again it is a file of this version."""
    old = Result.load(Path(__file__).with_name("result-version-3.json"))
    assert (old.best_name, old.n_pulls, old.stopped) == ("oak", 8, False)
    assert math.isnan(old.p_value)
    assert (old.survivors, old.feature_names, old.theta_margin) == (None, None, None)
    assert old.path == ()
    assert "Not decided (8 pulls). Leader oak." in old.explain()
    assert np.isnan(old.to_columns()["behind"]).all()
    assert Result.from_dict(old.to_dict()) == old
    newer = Result.load(Path(__file__).with_name("result-version-4.json"))
    assert (newer.best, newer.n_undecidable) == ([2, 0], 0)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("short", "damaged or something else"),
        ("empty", "damaged or something else"),
        ("binary", "damaged or something else"),
        ("constant", "damaged or something else"),
        ("digit", "changed or damaged afterwards"),
        ("other", "holds something else"),
        ("list", "holds something else"),
        ("version", "got version 1"),
    ],
)
def test_damaged_file_is_refused(kind: str, said: str, tmp_path: Path) -> None:
    """A file that is cut off, changed or something else is refused with its path and a way out."""
    path = tmp_path / "result.json"
    example().save(path)
    path.write_bytes(damaged(kind, path.read_text("utf-8")))
    with pytest.raises(SurepickError, match=said) as caught:
        Result.load(path)
    assert str(path) in str(caught.value)


def test_missing_file_is_an_ordinary_error(tmp_path: Path) -> None:
    """A file that does not exist is reported as such."""
    with pytest.raises(FileNotFoundError):
        Result.load(tmp_path / "nothing.json")


def test_incomplete_content_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole file that lacks a field is refused with the field's name."""
    content = example().to_dict()
    del content["evidence"]
    monkeypatch.setattr(Result, "to_dict", lambda _: content)
    replace(example()).save(tmp_path / "result.json")
    with pytest.raises(InvalidInput, match="evidence"):
        Result.load(tmp_path / "result.json")
