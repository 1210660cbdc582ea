import os
import pickle
import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import surepick as sp
from surepick.arms.base import ArmSet
from surepick.arms.dask import DaskArms
from surepick.arms.finite import FiniteArms
from surepick.types import Array
from tests.waiting import LIMIT

CUTS = [(400, 3), (137, 2), ((0, 1, 999, 0), (3,)), (1000, 1)]


def planted(n_arms: int, dim: int, seed: int) -> tuple[Array, Array]:
    """Random rows of norm .7, the first of norm 1 along theta; some rows occur several times."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_arms, dim))
    X *= 0.7 / np.linalg.norm(X, axis=1)[:, None]
    theta = rng.standard_normal(dim)
    X[0] = theta / np.linalg.norm(theta)
    X[n_arms // 2] = X[0]
    X[7] = X[n_arms - 1] = X[3]
    X[11, 1] = -0.0
    return X, 4.0 * X[0]


def by_ratio(gap: Array, square: Array) -> Array:
    """A score as algorithms use them."""
    return gap * gap / square


@pytest.mark.parametrize("cut", CUTS)
def test_oracles_are_those_in_memory(cut: Any) -> None:
    """Every answer, with and without a restriction to some rows, however the array is cut, without a cluster."""
    X, theta = planted(1000, 3, seed=1)
    ours, theirs = DaskArms(da.from_array(X, chunks=cut)), FiniteArms(X)
    assert isinstance(ours, ArmSet)
    assert not ours.is_local
    assert (ours.n_arms, ours.dim, len(ours), ours.feature_names) == (1000, 3, 1000, theirs.feature_names)
    for arm in (0, 3, 5, 7, 999):
        assert np.array_equal(ours.copies(arm), theirs.copies(arm))
    index = [999, 0, 400, 399, 0]
    assert ours.gather(index).tobytes() == theirs.gather(index).tobytes()
    assert ours.gather([]).shape == (0, 3)
    R, S = ours.triangle(), theirs.triangle()
    assert np.array_equal(R, np.triu(R))
    assert np.allclose(R.T @ R, S.T @ S, rtol=1e-13, atol=1e-13)
    F = np.diag([1.0, 2.0, 3.0])
    for found, expected in zip(ours.top_quadratic(F, 20), theirs.top_quadratic(F, 20), strict=True):
        assert np.allclose(found, expected, rtol=1e-14)
    some = np.random.default_rng(2).random(1000) < 0.1
    for among in (None, some):
        assert ours.best(-theta, among) == theirs.best(-theta, among)
        one, two = (arms.rivals(0, theta, [F], by_ratio, 30, among) for arms in (ours, theirs))
        assert np.array_equal(one.index, two.index)
        assert np.allclose(one.score, two.score, rtol=1e-13)
        assert np.allclose(one.gap, two.gap, rtol=1e-13)
        assert np.isclose(one.smallest_gap, two.smallest_gap, rtol=1e-13)
    assert ours.best(theta) == 0
    assert ours.most_confusing(0, theta, [F], by_ratio).index == theirs.most_confusing(0, theta, [F], by_ratio).index
    nobody = np.zeros(1000, dtype=bool)
    assert not len(ours.rivals(0, theta, [F], by_ratio, 3, nobody).index)


def test_sizes_that_dask_does_not_know_are_looked_up() -> None:
    """A filtered array knows its number of rows only when asked."""
    X, theta = planted(1000, 3, seed=1)
    array = da.from_array(X, chunks=(300, 3))
    arms = DaskArms(array[array[:, 0] > 0.0])
    kept = X[X[:, 0] > 0.0]
    assert arms.n_arms == len(kept)
    assert arms.best(theta) == FiniteArms(kept).best(theta)


def test_whole_numbers_become_doubles() -> None:
    """An array of integers is used as numbers."""
    arms = DaskArms(da.from_array(np.array([[1, 0], [0, 1], [1, 1]]), chunks=(2, 2)))
    assert arms.gather([2]).dtype == np.float64


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (np.ones(4), "one row per arm"),
        (np.ones((3, 0)), "one row per arm"),
        (np.array([["a"], ["b"]]), "real numbers"),
        (np.ones((1, 2)), "at least two arms"),
        (np.ones((5, 2)), "5 copies of one"),
        (np.array([[1.0, 2.0], [0.0, 1.0], [3.0, np.nan]]), "nan in row 2, column 1"),
        (np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]), r"R\^2 but have rank 1 \(always zero: x1\)"),
        (np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]), r"R\^2 but have rank 1;"),
    ],
)
def test_arrays_that_are_no_arms_are_refused(rows: np.ndarray, said: str) -> None:
    """Shape, kind, values and span, also when the fault is in a later block."""
    with pytest.raises(sp.InvalidInput, match=said):
        DaskArms(da.from_array(rows, chunks=2 if rows.ndim == 1 else (2, 1)))


def test_what_would_move_all_rows_is_refused() -> None:
    """The errors say what to do instead."""
    X, theta = planted(70_000, 2, seed=1)
    arms = DaskArms(da.from_array(X, chunks=(20_000, 2)))
    with pytest.raises(sp.InvalidInput, match="lazy-track-and-stop"):
        arms.chunks()
    with pytest.raises(sp.InvalidInput, match='stopping="evidence"'):
        arms.pair_forms(0, [theta], [], np.ones(70_000, dtype=bool), lambda forms: forms)
    with pytest.raises(sp.InvalidInput, match="at most 65536 rows"):
        arms.gather(np.arange(70_000))
    with pytest.raises(sp.InvalidInput, match="between 0 and 69999"):
        arms.gather([70_000])
    with pytest.raises(sp.InvalidInput, match="must be a Dask array, got a ndarray"):
        DaskArms(X)


def test_identify_stops_by_evidence_and_makes_no_table_of_all_arms() -> None:
    """The default settings suit a cluster: the same pulls as in memory by the plain evidence rule."""
    X, theta = planted(3000, 3, seed=9)
    plain = {"stopping": "evidence", "elimination": False}
    results = []
    for arms, options in ((DaskArms(da.from_array(X, chunks=(1000, 3))), {}), (X, plain)):
        rng, means = np.random.default_rng(3), X @ theta
        results.append(sp.identify(arms, partial(_noisy, means, rng), **options))  # type: ignore[arg-type]
    ours, theirs = results
    assert (ours.best, ours.stopping, ours.guarantee) == (0, "evidence", "proved")
    assert ours.history == theirs.history
    assert len(ours.arms) == len({0, *ours.counts})
    assert np.isclose(ours.epsilon_bound, theirs.epsilon_bound, rtol=1e-9)


def _noisy(means: Array, rng: np.random.Generator, arm: int) -> float:
    return float(means[arm] + rng.standard_normal())


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two worker processes on this machine."""
    # Another process may have a cluster of its own at the same time.
    any_port = "127.0.0.1:0"
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=any_port) as cluster, Client(cluster) as own:
        yield own


def pulls_until_decided(
    arms: ArmSet, X: Array, theta: Array, after: Callable[[int], object] = int
) -> tuple[list[int], int | None]:
    """Identify, and return every arm that was pulled and the answer; `after` is called after each pull."""
    rng, means = np.random.default_rng(3), X @ theta
    learner = sp.create_learner(
        "lazy-track-and-stop", arms, seed=2, stopping="evidence", elimination=False, noise_std=1.0
    )
    pulled: list[int] = []
    while not learner.stopped:
        pulled += learner.next_arms()
        learner.tell(pulled[-1], float(means[pulled[-1]] + rng.standard_normal()))
        after(len(pulled))
    return pulled, learner.decision.best


def test_a_cluster_gives_the_pulls_of_memory_also_when_a_worker_dies(client: Client) -> None:
    """Once undisturbed; once with a worker killed half way, whose rows Dask computes again."""
    X, theta = planted(20_000, 4, seed=5)
    pulled, best = pulls_until_decided(FiniteArms(X), X, theta)
    assert best == 0
    array = da.from_array(X, chunks=(5000, 2))
    assert pulls_until_decided(DaskArms(array), X, theta) == (pulled, best)

    before = client.run(os.getpid)

    def kill(n_pulls: int) -> None:
        if n_pulls == len(pulled) // 2:
            os.kill(next(iter(before.values())), signal.SIGKILL)

    assert pulls_until_decided(DaskArms(array), X, theta, kill) == (pulled, best)
    client.wait_for_workers(2, timeout=LIMIT)
    assert set(client.run(os.getpid).values()) != set(before.values())


def test_only_summaries_leave_the_cluster(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked, the bytes that reach the client are few, and as many for ten times as many rows."""
    received: list[int] = []
    gather = client.gather

    def counted(*args: Any, **options: Any) -> Any:
        result = gather(*args, **options)
        received.append(len(pickle.dumps(result)))
        return result

    monkeypatch.setattr(client, "gather", counted)
    F = np.diag([1.0, 2.0, 3.0, 4.0])
    bytes_of: dict[int, list[int]] = {}
    for n_arms in (20_000, 200_000):
        X, theta = planted(n_arms, 4, seed=6)
        # Ten times the rows in ten times the blocks: a list of one answer per block would show.
        array = da.from_array(X, chunks=(10_000, 4))
        received.clear()
        arms = DaskArms(array)
        totals = [sum(received)]
        questions: list[Callable[[], object]] = [
            lambda: arms.best(theta),  # noqa: B023 - asked before the next turn
            lambda: arms.copies(3),  # noqa: B023
            lambda: arms.top_quadratic(F, 10),  # noqa: B023
            lambda: arms.rivals(0, theta, [F, F], lambda gap, one, two: gap / (one + two), 10),  # noqa: B023
            lambda: arms.most_confusing(0, theta, [F], by_ratio),  # noqa: B023
            lambda: arms.gather([n_arms - 1, 5]),  # noqa: B023
            lambda: sp.create_learner("lazy-track-and-stop", arms, stopping="evidence", noise_std=1.0),  # noqa: B023
        ]
        for ask in questions:
            received.clear()
            ask()
            totals.append(sum(received))
        assert all(totals)
        assert max(totals[:-1]) < 3000
        bytes_of[n_arms] = totals
        received.clear()
        array.compute()
        assert sum(received) >= X.nbytes  # rows that cross are seen
    assert bytes_of[200_000][:-1] == bytes_of[20_000][:-1]
    # Designs keep a few thousand promising rows at hand, among however many.
    assert bytes_of[200_000][-1] < X.nbytes / 10
