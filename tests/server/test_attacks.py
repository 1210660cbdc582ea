"""Attacks by strangers and by holders of tokens: each of these once took memory or time from all others."""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from surepick.reporting import study_view
from surepick.server import api, studies
from surepick.study.admin import create_study, load_study
from surepick.study.study import Study
from tests.server.conftest import RunningServer, make_token
from tests.waiting import LIMIT, until

ROWS = [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]]


def _connected(server: RunningServer, sent: str = "") -> socket.socket:
    """Return a connection on which something was sent already."""
    address = urlsplit(server.url)
    connection = socket.create_connection((address.hostname, address.port or 0), timeout=LIMIT)
    connection.sendall(sent.encode())
    return connection


def _create(server: RunningServer, *names: str) -> None:
    for name in names:
        create_study(name, arms=ROWS, noise_std=1.0, storage=server.storage, author="x").close()


# ---- memory


def test_strange_methods_leave_no_trace_in_the_metrics(server: RunningServer) -> None:
    """Else each one that a client makes up costs kilobytes for ever, and needs no token."""
    with httpx.Client(base_url=server.url) as client:
        client.request("PROPFIND", "/healthz")
        known = client.get("/metrics").text
    assert "PROPFIND" not in known
    assert 'method="other"' in known


def test_a_stream_takes_a_long_log_piece_by_piece(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not read holds a piece in memory, not the whole log."""
    _create(server, "tea")
    study, n = load_study("tea", server.storage), 3 * api.AT_A_TIME
    study.tell(arm=0, value=[0.5] * n)
    pieces, read = list[int](), Study.events_after

    def events_after(self: Study, n: int, limit: int | None = None) -> Any:
        rows = read(self, n, limit)
        pieces.append(len(rows))
        return rows

    monkeypatch.setattr(Study, "events_after", events_after)
    with server.client() as client, client.stream("GET", "/studies/tea/events?after=0") as stream:
        ids = (int(line.removeprefix("id:")) for line in stream.iter_lines() if line.startswith("id:"))
        assert [next(ids) for _ in range(n + 1)] == list(range(1, n + 2))
    assert max(pieces) == api.AT_A_TIME
    study.close()


def test_a_page_of_the_log_reads_no_more_than_it_shows(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first page of a long log is as cheap as the last."""
    _create(server, "tea")
    study = load_study("tea", server.storage)
    study.tell(arm=0, value=[0.5] * 200)
    place = server.server.app.state.studies.storage
    limits, read = list[Any](), place.read

    def noted(name: str, after: int = 0, limit: int | None = None) -> Any:
        limits.append(limit)
        return read(name, after, limit)

    httpx.get(f"{server.url}/studies/tea/log").raise_for_status()  # the study is open from here on
    monkeypatch.setattr(place, "read", noted)
    text = httpx.get(f"{server.url}/studies/tea/log?events=3").text
    assert "event 2" in text or ">2<" in text
    assert study_view.N_ROWS in limits
    study.close()


def test_a_small_file_does_not_become_gigabytes(server: RunningServer) -> None:
    """A category has a feature for each of its words: a table of half a megabyte had a hundred million numbers."""
    lines = "".join(f"n{n},a{n % 1_500},b{n % 1_400}\n" for n in range(3_000))
    for do in ("", "create"):
        sent = {"file": ("recipes.csv", f"name,oil,salt\n{lines}")}
        text = httpx.post(f"{server.url}/new", files=sent, data={"do": do}, timeout=LIMIT).text
        assert "got 2,900 features (one for each word of a category) of 3,000 arms" in text
    assert httpx.get(f"{server.api}/studies").json()["studies"] == []


# ---- time


def test_downloads_of_one_study_keep_no_other_waiting(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are asked for; those beyond a number are sent back."""
    _create(server, "tea", "soup")
    monkeypatch.setattr(studies, "MOST_DOWNLOADS", 50)
    goes_on = threading.Event()
    monkeypatch.setattr(Study, "certificate", lambda _: {"waited": goes_on.wait(LIMIT)})
    with ThreadPoolExecutor(60) as pool, server.client() as client:
        client.get("/studies/tea").raise_for_status()
        answers = [pool.submit(client.get, "/studies/tea/certificate") for _ in range(60)]
        until(lambda: sum(one.done() for one in answers) == 9)  # one is being made, 50 wait
        try:
            for path in ("/studies/soup", "/studies/tea", "/studies"):
                assert client.get(path, timeout=30.0).status_code == 200
            assert httpx.get(f"{server.url}/readyz").status_code == 200
        finally:
            goes_on.set()
        statuses = sorted(one.result().status_code for one in answers)
    assert statuses == [200] * 51 + [429] * 9


def test_a_log_that_loads_slowly_keeps_no_other_waiting(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded once for all who ask at the same time."""
    _create(server, "tea", "soup")
    goes_on, loaded, begin = threading.Event(), list[str](), Study.__init__

    def slow(self: Study, storage: Any, name: str, **more: Any) -> None:
        loaded.append(name)
        if name == "tea":
            goes_on.wait(LIMIT)
        begin(self, storage, name, **more)

    monkeypatch.setattr(Study, "__init__", slow)
    with ThreadPoolExecutor(5) as pool, server.client() as client:
        answers = [pool.submit(client.get, "/studies/tea") for _ in range(5)]
        until(lambda: loaded)
        try:
            assert client.get("/studies/soup", timeout=30.0).status_code == 200
            assert client.delete("/studies/soup", timeout=30.0).status_code == 204
        finally:
            goes_on.set()
        assert [one.result().status_code for one in answers] == [200] * 5
    assert loaded.count("tea") == 1


def test_a_study_that_is_made_while_others_look_for_it(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its maker gets its record, not the answer to a question from before."""
    goes_on, asked, begin = threading.Event(), list[str](), Study.__init__

    def slow(self: Study, storage: Any, name: str, **more: Any) -> None:
        asked.append(name)
        try:
            begin(self, storage, name, **more)
        finally:
            if len(asked) == 1:
                goes_on.wait(LIMIT)

    monkeypatch.setattr(Study, "__init__", slow)
    with ThreadPoolExecutor(2) as pool, server.client() as client:
        early = pool.submit(client.get, "/studies/tea")
        until(lambda: asked)
        body = {"name": "tea", "arms": {"rows": ROWS}, "options": {"noise_std": 1.0}}
        made = pool.submit(client.post, "/studies", json=body)
        until(lambda: "tea" in server.server.app.state.studies.storage.names())
        goes_on.set()
        assert (early.result().status_code, made.result().status_code) == (404, 201)


# ---- connections


@pytest.mark.parametrize("sent", ["", "G", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_connection_without_a_request_is_closed(start: Callable[..., Any], sent: str) -> None:
    """Else a stranger holds all connections that the server can have."""
    with start(slowest=0.2) as running, _connected(running, sent) as connection:
        assert connection.recv(1) == b""


def test_a_body_that_comes_too_slowly_is_refused(start: Callable[..., Any]) -> None:
    """The client hears why, and the connection is closed."""
    head = "POST /api/v1/studies HTTP/1.1\r\nHost: localhost\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    with start(slowest=0.2) as running, _connected(running, head) as connection:
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"within 0.2 seconds" in answer


@pytest.mark.parametrize(
    "path",
    ["/api/v1/studies", "/api/v1/studies/tea/asks", "/api/v1/studies/tea/asks/1/result", "/new", "/studies/tea"],
)
def test_a_body_without_a_token_is_not_read(start: Callable[..., Any], path: str) -> None:
    """A stranger is refused before anything of the body has come."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n"
    with start() as running:
        make_token(running.storage, "tell")
        with _connected(running, head) as connection:
            assert connection.recv(65_536).startswith(b"HTTP/1.1 401")


def test_a_stream_stays_open_however_long(start: Callable[..., Any]) -> None:
    """It has sent its request, and is being answered."""
    with start(slowest=0.1) as running, running.client() as client:
        _create(running, "tea")
        with client.stream("GET", "/studies/tea/events?after=0") as stream:
            lines = stream.iter_lines()
            next(lines)
            with _connected(running) as other:
                assert other.recv(1) == b""  # by now the server has looked twice
            study = load_study("tea", running.storage)
            study.tell(arm=0, value=1.0)
            assert any('"told"' in line for line in lines if line.startswith("data"))
            study.close()


# ---- who is let in


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-IP", "Forwarded", "Via", "X-Forwarded-Host"])
def test_a_proxy_needs_tokens(server: RunningServer, header: str) -> None:
    """A server without tokens would be open to all who reach the proxy, if that says `Host: 127.0.0.1`."""
    assert httpx.get(f"{server.api}/studies").status_code == 200
    assert httpx.get(f"{server.api}/studies", headers={header: "127.0.0.1"}).status_code == 403
