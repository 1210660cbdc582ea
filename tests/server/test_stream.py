"""Streams of events: in order, none missed, resumed, and ended."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from surepick.study.admin import create_study, delete_study, load_study
from tests.server.conftest import RunningServer
from tests.waiting import until

ROWS = [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]]


class Listener(threading.Thread):
    """Reads a stream to its end."""

    def __init__(self, server: RunningServer, **more: Any) -> None:
        super().__init__()
        self.server, self.more = server, more
        self.seen = list[int]()
        self.is_open = False

    def run(self) -> None:
        """Read."""
        with self.server.client() as client, client.stream("GET", "/studies/tea/events", **self.more) as response:
            self.is_open = response.status_code == 200
            self.seen.extend(int(line[4:]) for line in response.iter_lines() if line.startswith("id: "))

    def __iter__(self) -> Iterator[int]:
        return iter(self.seen)


@contextmanager
def listening(server: RunningServer, **more: Any) -> Iterator[Listener]:
    """Listen until the server ends the stream."""
    listener = Listener(server, **more)
    listener.start()
    until(lambda: listener.is_open)
    yield listener


@pytest.fixture
def tea(server: RunningServer) -> RunningServer:
    """A server with a study."""
    create_study("tea", arms=ROWS, noise_std=1.0, storage=server.storage).close()
    return server


def test_events_come_in_order_and_resume(tea: RunningServer) -> None:
    """After its last event a stream goes on where it ended, by the number that a browser sends back."""
    with (
        tea.client() as client,
        listening(tea, params={"after": 0}) as first,
        listening(tea, headers={"Last-Event-ID": "1"}, params={"after": 0}) as second,
    ):
        for value in range(20):
            body = {"results": [{"arm": 0, "value": value}]}
            client.post("/studies/tea/measurements", json=body).raise_for_status()
        until(lambda: len(first.seen) == 21 and len(second.seen) == 20)
        assert [*first] == list(range(1, 22))
        assert [*second] == list(range(2, 22))
        tea.server.should_exit = True
        first.join()
        second.join()


def test_events_of_another_process_come_too(tea: RunningServer) -> None:
    """Written to the file behind the server's back, as the command line does."""
    with listening(tea, params={"after": 1}) as listener:
        study = load_study("tea", tea.storage)
        study.tell(arm=0, value=1.0)
        until(lambda: listener.seen == [2])
        study.close()
        tea.server.should_exit = True
        listener.join()


def test_two_servers_on_one_database_hear_of_each_other(start: Callable[..., Any], postgres_url: str) -> None:
    """What is told to one server is heard at the other."""
    create_study("tea", arms=ROWS, noise_std=1.0, storage=postgres_url).close()
    with (
        start(storage=postgres_url) as one,
        start(storage=postgres_url) as other,
        listening(other, params={"after": 1}) as listener,
        one.client() as client,
    ):
        body = {"results": [{"arm": 0, "value": 1.0}]}
        client.post("/studies/tea/measurements", json=body).raise_for_status()
        until(lambda: listener.seen == [2])
        other.server.should_exit = True
        listener.join()


def test_a_stream_ends_when_its_study_is_deleted(tea: RunningServer) -> None:
    """By the server, or by another process; then there is no such study, also if a new one has its name."""
    with listening(tea) as listener:
        httpx.delete(f"{tea.api}/studies/tea").raise_for_status()
        listener.join()
    assert httpx.get(f"{tea.api}/studies/tea/events").status_code == 404
    create_study("tea", arms=ROWS, noise_std=1.0, storage=tea.storage).close()
    with listening(tea) as listener:
        delete_study("tea", tea.storage)
        listener.join()
    assert httpx.get(f"{tea.api}/studies/tea").status_code == 404
    create_study("tea", arms=ROWS, noise_std=2.0, storage=tea.storage).close()
    assert httpx.get(f"{tea.api}/studies/tea").json()["n_events"] == 1
