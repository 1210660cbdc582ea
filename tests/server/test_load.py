"""A real server under load and under kills: nothing that was acknowledged is lost or doubled, no event is missed."""

import json
from contextlib import closing
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.server import ALONE, put_load, under_fire
from benchmarks.study_common import NAME
from surepick.study.storage import open_storage


def n_commits(url: str) -> int:
    """The commits of a log: calls that share one are a microsecond apart."""
    with closing(open_storage(url)) as storage:
        times = [datetime.fromisoformat(json.loads(row.text)["at"]) for row in storage.read(NAME)]
    return 1 + sum(after - before > timedelta(microseconds=1) for before, after in pairwise(times))


@pytest.mark.parametrize("change", ["", ALONE], ids=["group commit", "one commit a request"])
def test_many_clients_share_commits(tmp_path: Path, change: str) -> None:
    """Without an error; `put_load` checks the log. A server that commits each request by itself is noticed."""
    url = str(tmp_path / "lab.db")
    loaded = put_load(url, n_clients=20, seconds=1.5, change=change)
    assert loaded.tally.errors == []
    n_requests = 2 * len(loaded.tally.tells)
    assert n_requests >= 40
    assert (n_commits(url) > 0.9 * n_requests) is (change == ALONE)


def test_a_server_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Clients send again under the same key and end by themselves, and a stream goes on after its last event."""
    tally, n_events = under_fire(str(tmp_path / "lab.db"), n_clients=20, n_kills=3)
    assert tally.errors == []
    assert n_events > len(tally.acknowledged) >= 60
