"""A study with a pool: asks, sheets and the certificate name the item, and the log replays."""

from pathlib import Path

import numpy as np
import pytest

from surepick import FiniteArms, InvalidInput, Study, create_study, load_study
from surepick.study.certificate import verify
from surepick.study.exchange import sheet_text

K, M = 4, 40
TABLE = (np.random.default_rng(5).random((K, M)) < np.linspace(0.3, 0.9, K)[:, None]).astype(float)
NAMES, ITEMS = [f"prompt {arm}" for arm in range(K)], [f"q{item}" for item in range(M)]


def made(storage: str | Path = "memory:", pool: int | list[str] = M, **options: str) -> Study:
    """Return a study of prompts."""
    arms = FiniteArms(np.eye(K), names=NAMES)
    given = {"rewards": "binary", "author": "ann", **options}
    return create_study("prompts", arms=arms, pool=pool, storage=storage, **given)  # type: ignore[arg-type]


def test_asks_name_the_item(tmp_path: Path) -> None:
    """Asks name the item."""
    study = made(tmp_path / "lab.db", ITEMS)
    asks = study.ask(K + 1, worker="ann")
    assert len({ask.item for ask in asks[:K]}) == 1
    assert asks[0].item in ITEMS
    assert asks[K].item != asks[0].item
    assert asks[0].reason.startswith("each item of the pool")
    assert asks[0].item in sheet_text(asks)
    for ask in asks:
        (told,) = study.tell(ask.id, TABLE[ask.arm, ITEMS.index(str(ask.item))])
        assert dict(told.group) == {"item": ask.item}
    with pytest.raises(InvalidInput, match="leave it out"):
        study.ask(item="q7")
    with pytest.raises(InvalidInput, match="takes the scores that it asks for"):
        study.tell(arm="prompt 0", value=1.0)
    (lost,) = study.ask(1, worker="ben")
    study.fail(lost.id, reason="no answer")
    again = study.ask(K, worker="cem")
    assert (lost.arm, lost.item) in [(ask.arm, ask.item) for ask in again]


def test_optimize_calls_with_the_item_and_the_certificate_holds(tmp_path: Path) -> None:
    """Optimize calls with the item and the certificate holds."""
    study = made(tmp_path / "lab.db", group_by="worker")
    study.optimize(lambda arm, item: TABLE[arm, item], n_jobs=3)
    assert study.best == int(TABLE.sum(axis=1).argmax())
    cells = [(one.arm, dict(one.group)["item"]) for one in study.measurements]
    assert len({*cells}) == len(cells)
    again = load_study("prompts", tmp_path / "lab.db")
    assert again.learner.decision == study.learner.decision
    certificate = study.certificate()
    assert verify(certificate, again.rows()).ok
    assert certificate["options"]["pool"] == M
    first = study.measurements[0]
    study.correct(first.id, 1.0 - float(first.value or 0.0), reason="typing error")
    assert load_study("prompts", tmp_path / "lab.db").learner.decision == study.learner.decision


def test_the_last_item_ends_the_asks() -> None:
    """The last item ends the asks."""
    study = made(pool=3)
    asks = study.ask(100)
    assert len(asks) == 3 * K
    for ask in asks:
        study.tell(ask.id, 1.0)
    assert study.stopped
    assert study.ask() == []


def test_a_pool_stays_as_it_is() -> None:
    """A pool stays as it is."""
    study = made()
    study.ask(K)
    for changes in ({"pool": 2 * M}, {"budget": 3.0 * M}, {"delta": 0.01}):
        with pytest.raises(InvalidInput, match="a study of a pool has one era"):
            study.reopen(reason="more questions", **changes)
