"""What the benchmarks of studies share: places to keep them in, a study that never stops, and a check of its log."""

import json
import multiprocessing
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from surepick.study.admin import Address, create_study, load_study
from surepick.study.events import check_chain
from surepick.study.storage import open_storage
from surepick.study.study import Study
from tests.postgres import Server

SEED = 1800
NAME = "load"
PLACES = ("sqlite", "postgres")

# Processes that are forks of one that has loaded everything and opened nothing: a fresh interpreter would take as long
# to load as to do all its work.
FORKS = multiprocessing.get_context("forkserver")
PRELOADED = ["benchmarks.__main__", "benchmarks.study", "psycopg"]

# Durable, as a server is when nobody has touched its settings.
_SAFE = {"fsync": "on", "max_connections": "100", "shared_buffers": "128MB"}


@contextmanager
def place(kind: str) -> Iterator[str]:
    """The address of an empty SQLite file, or of an empty database of a PostgreSQL server started for it."""
    folder = Path(tempfile.mkdtemp(prefix="surepick-bench-"))
    try:
        if kind == "sqlite":
            yield str(folder / "lab.db")
            return
        server = Server(folder)
        server.create()
        server.start(**_SAFE)
        try:
            server.sql("CREATE DATABASE lab")
            yield server.url("lab")
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def second_place(url: str, name: str) -> str:
    """The address of another database beside this one: another file, or an empty database of the same server."""
    if not url.startswith("postgres"):
        return f"{url}.{name}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return re.sub(r"/[^/?]*(?=\?|$)", f"/{name}", url, count=1)


@cache
def twenty_arms() -> np.ndarray[Any, np.dtype[np.float64]]:
    """Twenty arms with five features, of which the first two are equally good: a study of them does not end."""
    X = np.random.default_rng(SEED).standard_normal((20, 5)) * 0.3
    X[:2] = np.eye(5)[1:3]
    X[:2, 0] = 1.0
    return X


def value_of(ask: int, arm: int) -> float:
    """What is measured for an ask, the same whoever measures it: (first feature of the arm) + noise of std 1."""
    return float(twenty_arms()[arm, 0] + np.random.default_rng([SEED, ask]).standard_normal())


def endless(url: Address, name: str = NAME, *, lease: Any = None, seed: int = SEED) -> Study:
    """Make a study that goes on whatever is told (but for one in a million)."""
    return create_study(
        name, arms=twenty_arms(), noise_std=1.0, delta=1e-6, seed=seed, storage=url, lease=lease, author="benchmark"
    )


@dataclass(frozen=True)
class Found:
    """What the log of a study says, when all of it is in order."""

    n_events: int
    n_asked: int
    n_told: int
    n_expired: int
    n_open: int
    n_asked_again: int
    """Asks whose number had been asked before."""
    again_told: int
    """Those of them that have a result; who was asked again may die too, and a result may come after its lease."""
    n_unanswered: int
    """Numbers that were asked for and have no result by any attempt."""


def check(
    url: str, name: str = NAME, *, acknowledged: Mapping[int, float] | None = None, beside: Collection[str] = ()
) -> Found:
    """Check a log against what its workers know: chain, ids, values, nothing lost, nothing twice; loads it as well.

    Args:
        url: where it is.
        name: of the study.
        acknowledged: values by ask that workers were told to be safe; None: any.
        beside: other studies that are there.
    """
    with closing(open_storage(url)) as storage:
        assert set(storage.names()) == {name, *beside}, f"found the studies {storage.names()}"
        rows = storage.read(name)
        study = load_study(name, storage)
        assert study.head == (rows[-1].n, rows[-1].hash)
        measurements, n_open = study.measurements, len(study.state.open)
    check_chain(rows)
    asks: dict[int, tuple[int, int]] = {}
    told: dict[int, float] = {}
    n_expired, numbers, again, measured = 0, Counter[int](), set[int](), 0
    for row in rows:
        event = json.loads(row.text)
        match event["kind"]:
            case "asked":
                for id_, (number, arm) in enumerate(event["asks"], event["ask"]):
                    assert id_ == len(asks) + 1, f"ask {id_} came after ask {len(asks)}"
                    asks[id_] = number, arm
                    numbers[number] += 1
                    if numbers[number] > 1:
                        again.add(id_)
            case "told":
                measured += 1
                assert event["measurement"] == measured
                assert event["ask"] not in told, f"ask {event['ask']} has two results"
                assert event["arm"] == asks[event["ask"]][1]
                assert event["value"] == value_of(event["ask"], event["arm"])
                told[event["ask"]] = event["value"]
            case "expired":
                n_expired += len(event["asks"])
    lost = {} if acknowledged is None else {ask: v for ask, v in acknowledged.items() if told.get(ask) != v}
    assert not lost, f"acknowledged and lost: {lost}"
    assert [one.told for one in measurements] == list(told.values())
    answered = {number for id_, (number, _) in asks.items() if id_ in told}
    again_told, n_unanswered = len(again & told.keys()), len(numbers.keys() - answered)
    return Found(len(rows), len(asks), measured, n_expired, n_open, len(again), again_told, n_unanswered)
