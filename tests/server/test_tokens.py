"""Who may do what: every route, by every role, without a token, with a revoked one, and with one of another study."""

import asyncio
import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import Request

from surepick.errors import StorageError
from surepick.server.tokens import Identity, Tokens, header
from surepick.study.admin import create_study, load_study
from surepick.study.storage import open_storage
from surepick.study.storage.base import TokenRow
from tests.server.conftest import RunningServer, make_token
from tests.waiting import LIMIT, until

ROWS = [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]]
STUDY = "/api/v1/studies/{name}"
TABLE: dict[tuple[str, str], tuple[str | None, Any]] = {
    ("POST", "/api/v1/studies"): ("admin", {"name": "tea", "arms": {"rows": ROWS}, "load_if_exists": True}),
    ("GET", "/api/v1/studies"): ("read", None),
    ("GET", STUDY): ("read", None),
    ("POST", f"{STUDY}/asks"): ("tell", {"n": 1}),
    ("GET", f"{STUDY}/asks"): ("read", None),
    ("POST", f"{STUDY}/asks/{{ask_id}}/result"): ("tell", {"value": 1.0}),
    ("POST", f"{STUDY}/asks/{{ask_id}}/fail"): ("tell", {}),
    ("POST", f"{STUDY}/measurements"): ("tell", {"results": [{"arm": 0, "value": 1.0}]}),
    ("GET", f"{STUDY}/measurements"): ("read", None),
    ("POST", f"{STUDY}/measurements/{{measurement}}/{{change}}"): ("tell", {"reason": "spilt"}),
    ("POST", f"{STUDY}/audit"): ("admin", {}),
    ("POST", f"{STUDY}/reopen"): ("admin", {"reason": "more", "changes": {"delta": 0.01}}),
    ("GET", f"{STUDY}/log"): ("read", None),
    ("GET", f"{STUDY}/export"): ("read", None),
    ("GET", f"{STUDY}/report"): ("read", None),
    ("GET", f"{STUDY}/certificate"): ("read", None),
    ("GET", f"{STUDY}/events"): ("read", None),
    ("GET", "/healthz"): (None, None),
    ("GET", "/readyz"): (None, None),
    ("GET", "/metrics"): ("read", None),
    ("DELETE", STUDY): ("admin", None),
}
"""The role that each route needs, and a body; the last one ends the study."""
ROLES = ["read", "tell", "admin"]


@pytest.fixture
def guarded(start: Callable[..., Any]) -> Iterator[tuple[RunningServer, dict[str, str]]]:
    """A server with a study, and tokens by what they are for."""
    with start() as running:
        create_study("tea", arms=ROWS, noise_std=1.0, storage=running.storage).close()
        create_study("soup", arms=ROWS, noise_std=1.0, storage=running.storage).close()
        secrets = {role: make_token(running.storage, role, label=f"{role}er") for role in ROLES}
        secrets |= {f"{role} of tea": make_token(running.storage, role, "tea") for role in ROLES}
        secrets["revoked"] = make_token(running.storage, "admin", label="gone")
        secrets["admin of soup"] = make_token(running.storage, "admin", "soup")
        place: Any = open_storage(running.storage)
        place.revoke_token(next(row.id for row in place.tokens() if row.label == "gone"), "2026-01-01T00:00:00Z")
        place.close()
        until(lambda: httpx.get(f"{running.api}/studies").status_code == 401)
        yield running, secrets


def _status(client: httpx.Client, method: str, path: str, body: Any, secret: str | None) -> int:
    path = path.format(name="tea", ask_id=1, measurement=1, change="void")
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    with client.stream(method, path, json=body, headers=headers) as response:
        return response.status_code


def test_every_route_by_every_role(guarded: tuple[RunningServer, dict[str, str]]) -> None:
    """A route that is not in the table fails this test, and so does one that lets too many in."""
    running, secrets = guarded
    document = running.server.app.openapi()["paths"]
    routes = {(method.upper(), path) for path, methods in document.items() for method in methods}
    assert {route for route in routes if "/api/" in route[1]} == {route for route in TABLE if "/api/" in route[1]}
    client = httpx.Client(base_url=running.url)
    for (method, path), (role, body) in TABLE.items():
        of_study = "{name}" in path
        for who, secret in [("nobody", None), ("a stranger", "spk_no"), *secrets.items()]:
            status = _status(client, method, path, body, secret)
            said = f"{method} {path} by {who}: {status}"
            if role is None:
                assert status == 200, said
            elif who in ("nobody", "a stranger", "revoked"):
                assert status == 401, said
            elif who == "admin of soup" and of_study:
                assert status == 404, said
            elif (who == "admin of soup" and method == "POST") or ROLES.index(who.split()[0]) < ROLES.index(role):
                assert status == 403, said
            elif (method, path) != ("DELETE", STUDY):
                assert status in (200, 201, 204, 409, 422), said
            else:
                assert status in (204, 404), said
    client.close()


def test_errors_of_http_have_no_type_of_their_own(guarded: tuple[RunningServer, dict[str, str]]) -> None:
    """As docs/server.md says; a study that does not exist has one. Metrics need a token, health does not."""
    running, secrets = guarded
    reader = next(secret for who, secret in secrets.items() if who.startswith("read"))
    with running.client() as stranger, running.client(reader) as client:
        answers = [
            stranger.get("/studies"),
            client.post("/studies/tea/asks", json={}),
            client.get("/nothing"),
            client.put("/studies"),
            client.get("/studies/none"),
        ]
        metrics = [one.get(f"{running.url}/metrics").status_code for one in (stranger, client)]
        assert stranger.get(f"{running.url}/readyz").status_code == 200
    assert [answer.status_code for answer in answers] == [401, 403, 404, 405, 404]
    assert [answer.json()["type"] for answer in answers] == 4 * ["about:blank"] + ["urn:surepick:NoSuchStudy"]
    assert metrics == [401, 200]


def test_a_token_of_one_study_shows_no_other(guarded: tuple[RunningServer, dict[str, str]]) -> None:
    """Lists and errors have the names of visible studies alone."""
    running, secrets = guarded
    with running.client(secrets["admin of soup"]) as client:
        assert [one["name"] for one in client.get("/studies").json()["studies"]] == ["soup"]
        for name in ("tea", "no such"):
            problem = client.get(f"/studies/{name}").json()
            assert problem["detail"] == f"there is no study {name!r} in this server; the studies are soup."


def test_tokens_are_read_once_for_all_requests_that_wait() -> None:
    """Hundreds of clients do not read the storage hundreds of times a second; after an error the next request tries."""
    outcomes: list[Any] = [StorageError("the disk is gone"), [], []]
    n_read, goes_on = 0, threading.Event()

    def read() -> list[TokenRow]:
        nonlocal n_read
        n_read += 1
        goes_on.wait(LIMIT)
        if isinstance(found := outcomes[n_read - 1], StorageError):
            raise found
        return list(found)

    async def ask_often() -> None:
        tokens = Tokens(read)
        for expected in (StorageError, Identity):
            goes_on.clear()
            waiting = [asyncio.create_task(tokens.identify(a_request())) for _ in range(100)]
            while not n_read:
                await asyncio.sleep(0)
            goes_on.set()
            found = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(one) for one in found} == {expected}
        assert n_read == 2

    asyncio.run(ask_often())


def a_request() -> Request:
    """Return a request of this machine."""
    return Request({"type": "http", "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1)})


def test_of_two_headers_the_first_counts() -> None:
    """As elsewhere: a second one cannot pass for the name of this machine."""
    headers = [(b"host", b"evil.example"), (b"host", b"localhost")]
    request = Request({"type": "http", "headers": headers, "client": ("127.0.0.1", 1)})
    assert header(request, b"host") == request.headers["host"] == "evil.example"


def test_a_revoked_token_ends_at_once(guarded: tuple[RunningServer, dict[str, str]]) -> None:
    """Within a second, for requests and for a stream that is open."""
    running, secrets = guarded
    with running.client(secrets["tell"]) as client, client.stream("GET", "/studies/tea/events?after=0") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("data")
        place: Any = open_storage(running.storage)
        place.revoke_token(next(row.id for row in place.tokens() if row.label == "teller"), "2026-01-01T00:00:00Z")
        until(lambda: client.get("/studies").status_code == 401)
        study = load_study("tea", place)
        study.tell(arm=0, value=1.0)
        assert [line for line in lines if line.startswith("data")] == []  # the stream ends, and says nothing more
        place.close()


def test_the_author_is_the_label_of_the_token(guarded: tuple[RunningServer, dict[str, str]]) -> None:
    """Unless a request names a worker."""
    running, secrets = guarded
    with running.client(secrets["tell"]) as client:
        for more in ({}, {"worker": "ann"}):
            body = {"results": [{"arm": 0, "value": 1.0}], **more}
            client.post("/studies/tea/measurements", json=body).raise_for_status()
        told = client.get("/studies/tea/measurements").json()["measurements"]
    assert [one["author"] for one in told] == ["teller", "ann"]


def test_the_storage_has_no_secret(guarded: tuple[RunningServer, dict[str, str]]) -> None:
    """It has the SHA-256 of each; 256 bits are in a token."""
    running, secrets = guarded
    with sqlite3.connect(running.storage) as database:
        kept = "\n".join(database.iterdump())
    database.close()
    for secret in secrets.values():
        assert len(secret.removeprefix("spk_")) == 43
        assert secret not in kept
        assert hashlib.sha256(secret.encode()).hexdigest() in kept


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_without_tokens_only_names_of_this_machine_are_served(server: RunningServer, host: str) -> None:
    """A page of a stranger may give its own name to this machine (DNS rebinding)."""
    port = server.url.rpartition(":")[2]
    assert httpx.get(f"{server.api}/studies", headers={"Host": host}).status_code == 403
    for own in ("localhost", f"localhost:{port}", "[::1]", f"[::1]:{port}", "127.0.0.1"):
        assert httpx.get(f"{server.api}/studies", headers={"Host": own}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
    ],
)
def test_pages_of_other_sites_change_nothing(server: RunningServer, headers: dict[str, str], status: int) -> None:
    """A browser says which site a request comes from; programs say nothing."""
    create_study("tea", arms=ROWS, noise_std=1.0, storage=server.storage).close()
    said = {"Host": "localhost", **headers}
    assert httpx.post(f"{server.api}/studies/tea/asks", json={}, headers=said).status_code == status


def test_a_signed_in_browser_is_known_by_its_cookie(guarded: tuple[RunningServer, dict[str, str]]) -> None:
    """And is named dashboard in the log if its token has no label."""
    running, secrets = guarded
    with running.client(cookies={"surepick_token": secrets["tell of tea"]}) as client:
        body = {"results": [{"arm": 0, "value": 1.0}]}
        told = client.post("/studies/tea/measurements", json=body).json()["measurements"]
        assert told[0]["author"] == "dashboard"
