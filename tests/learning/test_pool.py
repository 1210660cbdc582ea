"""A pool: every item once, of all arms that are left, in an order that follows from the seed."""

from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput
from surepick.learning.assumptions import assumptions
from surepick.learning.learner import Learner
from surepick.learning.result import Result

K, M = 5, 60
TABLE = (np.random.default_rng(1).random((K, M)) < np.linspace(0.4, 0.8, K)[:, None]).astype(float)
BEST = int(TABLE.sum(axis=1).argmax())
GIVEN: dict[str, Any] = {"rewards": "binary", "seed": 3}


def learner(**options: Any) -> Learner:
    """A learner of the pool above."""
    return Learner("lazy-track-and-stop", np.eye(K), **GIVEN | {"pool": M} | options)


def run(one: Learner, n: int = 1) -> list[tuple[Any, Any]]:
    """Ask in batches and tell the table; return the cells that were asked for."""
    cells: list[tuple[Any, Any]] = []
    while asks := one.next_asks(n):
        cells += [(ask.arm, ask.item) for ask in asks]
        for ask in asks:
            one.tell(ask.arm, TABLE[ask.arm, ask.item], ask=ask.number)
    return cells


def test_identify_asks_each_item_once_of_all_that_are_left() -> None:
    """Identify asks each item once of all that are left."""
    cells: list[tuple[int, int]] = []

    def score(*cell: int) -> float:
        prompt, question = cell
        cells.append((prompt, question))
        return float(TABLE[prompt, question])

    result = sp.identify(np.eye(K), score, pool=M, **GIVEN)
    assert result.best == BEST
    assert (result.stopped, result.guarantee, result.pool) == (True, "proved", M)
    assert len({*cells}) == len(cells)
    asked = [(item, {arm for arm, _ in own}) for item, own in groupby(cells, key=lambda cell: cell[1])]
    assert asked[0][1] == {*range(K)}
    assert all(later <= earlier for (_, earlier), (_, later) in pairwise(asked))
    assert [item for item, _ in asked] != sorted(item for item, _ in asked)
    assert "on the 60 items of the pool" in result.explain()
    assert "one fixed score on each of the 60 items" in result.explain()
    assert any("order" in one.text for one in assumptions(result))
    assert np.isneginf(result.interval[0])  # no interval is proved for a table
    again = sp.identify(np.eye(K), score, pool=M, history=result.history, **GIVEN)
    assert again.history.log == result.history.log


def test_order_follows_from_the_seed_and_names_are_passed_on(tmp_path: Path) -> None:
    """Order follows from the seed and names are passed on."""
    names = [f"question {item}" for item in range(M)]
    seen: list[Any] = []

    def score(*cell: Any) -> float:
        prompt, question = cell
        seen.append(question)
        return float(TABLE[prompt, names.index(question)])

    result = sp.identify(np.eye(K), score, **GIVEN | {"pool": names})
    cells = run(learner())
    assert seen == [names[item] for _, item in cells]
    assert cells != run(learner(seed=4))
    result.save(tmp_path / "result.json")
    assert Result.load(tmp_path / "result.json").explain() == result.explain()
    assert learner(pool=names).identity != learner(pool=names[::-1]).identity


def test_batches_that_overlap_decide_by_the_same_bets() -> None:
    """Batches that overlap decide by the same bets."""
    alone, together = learner(), learner()
    run(alone)
    cells = run(together, 23)
    assert len({*cells}) == len(cells)
    assert together.stopped
    assert together.decision.best == alone.decision.best
    again = learner()
    again.replay(together.log)
    assert again.decision == together.decision


def test_the_whole_table_is_exact_and_nothing_is_asked_after_it() -> None:
    """The whole table is exact and nothing is asked after it."""
    scores = np.tile([[1.0, 0.0], [0.0, 1.0]], 3)
    scores[1, 1], scores[0, 1] = 1.0, 1.0
    one = Learner("lazy-track-and-stop", np.eye(2), **GIVEN | {"pool": 6, "delta": 1e-6})
    n = 0
    while asks := one.next_asks(3):
        n += len(asks)
        for ask in asks:
            one.tell(ask.arm, scores[ask.arm, ask.item], ask=ask.number)
    assert n == 12
    assert one.stopped
    assert one.decision.best == 0
    assert one.next_arms(2) == []


def test_an_ask_that_failed_is_made_again_on_its_item() -> None:
    """An ask that failed is made again on its item."""
    one = learner()
    first, *_ = one.next_asks(K)
    one.fail(first.arm, ask=first.number)
    *_, again = one.next_asks(1)
    assert (again.number, again.arm, again.item) == (first.number, first.arm, first.item)


def test_results_without_an_ask_and_other_items_are_refused() -> None:
    """Results without an ask and other items are refused."""
    one = learner()
    with pytest.raises(InvalidInput, match="takes the scores that it asks for"):
        one.tell(0, 1.0)
    (ask,) = one.next_asks()
    one.tell(ask.arm, 1.0, group={"item": ask.item, "day": 3})
    with pytest.raises(InvalidInput, match="takes the scores that it asks for"):
        one.tell(ask.arm, 1.0)
    (ask,) = one.next_asks(group="day 4")
    assert dict(ask.group) == {"group": "day 4", "item": str(ask.item)}
    with pytest.raises(InvalidInput, match="was asked for the group"):
        one.tell(ask.arm, 1.0, ask=ask.number, group={"item": "no such item"})
    with pytest.raises(InvalidInput, match="leave the item out"):
        one.next_arms(group={"item": 7})
    with pytest.raises(InvalidInput, match="0 or 1"):
        one.tell(ask.arm, 0.5, ask=ask.number)


def test_void_counts_at_its_worst_and_a_correction_replays() -> None:
    """Void counts at its worst and a correction replays."""
    one, plain = learner(), learner()
    for each in (one, plain):
        for ask in each.next_asks(10 * K):
            each.tell(ask.arm, TABLE[ask.arm, ask.item], ask=ask.number)
    leader = one.decision.best
    n = next(n for n, (arm, _) in enumerate(one.history) if arm == leader)
    one.void(n)
    assert one.decision.evidence < plain.decision.evidence
    one.restore(n)
    assert one.decision == plain.decision
    for first in range(K):  # the whole first item is lost
        one.void(first)
    assert one.decision.evidence < plain.decision.evidence
    run(one)
    assert one.stopped
    assert one.decision.best == BEST


def test_an_arm_that_a_correction_brings_back_is_not_excluded_by_items_that_it_missed() -> None:
    """An arm that a correction brings back is not excluded by items that it missed."""
    one = Learner("lazy-track-and-stop", np.eye(2), **GIVEN | {"pool": 40})
    wrong = []
    while asks := one.next_asks():
        for ask in asks:
            wrong.append(ask.arm == 0)
            one.tell(ask.arm, 1.0 if ask.arm == 0 else 0.0, ask=ask.number)
    assert one.decision.best == 0
    for n in np.flatnonzero(wrong)[:-1]:
        one.correct(int(n), 0.0)
    assert not one.stopped
    for ask in one.next_asks(200):
        one.tell(ask.arm, 1.0, ask=ask.number)
    assert one.decision.best in (0, 1)


def test_a_budget_is_spent_on_whole_items() -> None:
    """A budget is spent on whole items."""
    one = learner(budget=3 * K + 2)
    cells = run(one, 4)
    assert len(cells) == 3 * K
    assert not one.stopped
    assert one.snapshot.near_tie is None
    assert one.expected_remaining() <= K * M


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pool": 1}, "number of items"),
        ({"pool": "forty"}, "number of items"),
        ({"pool": 2.5}, "number of items"),
        ({"pool": ["a", "a"]}, "name each item once"),
        ({"pool": ["a"]}, "2 to 1,000,000"),
        ({"rewards": None}, "needs scores with bounds"),
        ({"rewards": None, "noise_std": 0.5}, "needs scores with bounds"),
        ({"threshold": 0.5}, "`threshold` must be left out"),
        ({"control": 0}, "`control` must be left out"),
        ({"groups": "offset"}, "`groups` must be left out"),
        ({"epsilon": 0.1}, "`epsilon` must be left out"),
        ({"m": 2}, "`m` must be left out"),
        ({"stopping": "evidence"}, "`stopping` must be left out"),
        ({"variant": "paper"}, "`variant` must be left out"),
    ],
)
def test_refusals(options: dict[str, Any], said: str) -> None:
    """Options that do not go with a pool are refused with what to do."""
    with pytest.raises(InvalidInput, match=said):
        learner(**options)


def test_other_algorithms_and_check_pulls_are_refused() -> None:
    """Other algorithms and check pulls are refused."""
    with pytest.raises(InvalidInput, match="`pool` cannot be given to rage"):
        Learner("rage", np.eye(K), pool=M, **GIVEN)
    with pytest.raises(InvalidInput, match="a pool has none"):
        sp.identify(np.eye(K), lambda *_: 0.0, pool=M, audit=3, **GIVEN)
