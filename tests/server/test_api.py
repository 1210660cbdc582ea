"""The JSON interface, by a real server."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from surepick.server import api
from surepick.study.admin import load_study
from surepick.study.certificate import verify
from surepick.study.exchange import read_log
from surepick.study.study import Study
from tests.server.conftest import RunningServer
from tests.waiting import until

ARMS = {"rows": [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]], "names": ["A", "B", "C"]}


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of a server with one study."""
    with server.client() as made:
        body = {"name": "tea", "arms": ARMS, "options": {"noise_std": 1.0}}
        assert made.post("/studies", json=body).status_code == 201
        yield made


def test_ask_and_tell(client: httpx.Client, server: RunningServer) -> None:
    """What is told over HTTP is in the log, and told again it is not told twice."""
    asked = client.post("/studies/tea/asks", json={"n": 2, "worker": "ann"}).json()["asks"]
    assert [one["id"] for one in asked] == [1, 2]
    assert client.post("/studies/tea/asks", json={"n": 2, "worker": "ann"}).json()["asks"] == asked
    assert client.get("/studies/tea/asks").json()["asks"] == asked
    for _ in range(2):
        told = client.post("/studies/tea/asks/1/result", json={"value": 1.5, "worker": "ann"}).json()
        assert [(one["id"], one["value"], one["author"]) for one in told["measurements"]] == [(1, 1.5, "ann")]
    refused = client.post("/studies/tea/asks/1/result", json={"value": 2.5, "worker": "ann"})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:surepick:Conflict")
    assert refused.json()["detail"].startswith("ask 1 has the result 1.5 already")
    assert client.post("/studies/tea/asks/2/fail", json={"reason": "spilt"}).status_code == 204
    study = load_study("tea", server.storage)
    assert [one.told for one in study.measurements] == [1.5]
    study.close()


def test_a_key_makes_a_request_repeatable(client: httpx.Client) -> None:
    """A result without an ask is told once, however often it is sent."""
    headers = {"Idempotency-Key": "run 7"}
    body: Any = {"results": [{"arm": "A", "value": 1.0}]}
    first, again = (client.post("/studies/tea/measurements", json=body, headers=headers).json() for _ in range(2))
    assert first == again
    body["results"][0]["value"] = 2.0
    assert client.post("/studies/tea/measurements", json=body, headers=headers).status_code == 409
    assert len(client.get("/studies/tea/measurements").json()["measurements"]) == 1


HOT_REQUESTS: list[tuple[str, str | bytes, dict[str, str]]] = [
    ("tea/asks", '{"n": 2, "worker": "ann"}', {}),
    ("tea/asks", "{}", {}),
    ("tea/asks/1/result", '{"value": 3, "worker": "ann"}', {"Idempotency-Key": "k"}),
    ("tea/asks/2/result", '{"values": [1.5, 2.5]}', {}),
    ("tea/asks/2/result", '{"values": [1.5, 3.5]}', {}),
    ("tea/asks/99/result", '{"value": 1.0}', {}),
    ("tea/asks/0/result", '{"value": 1.0}', {}),
    ("tea/asks/one/result", '{"value": 1.0}', {}),
    ("tea/asks/3/result", '{"value": 1.0}', {"Idempotency-Key": "k" * 201}),
    ("tea/asks/3/result", "{}", {}),
    ("tea/asks/3/result", "", {}),
    ("tea/asks/3/result", '{"value": 1', {}),
    ("tea/asks/3/result", '{"value": "1"}', {}),
    ("tea/asks/3/result", '{"value": NaN}', {}),
    ("tea/asks/3/result", '{"value": 1e999}', {}),
    ("tea/asks/3/result", '{"value": 1.0, "unit": "g"}', {}),
    ("tea/asks/3/result", b'{"worker": "\xff"}', {}),
    ("tea/asks", '{"worker": "\\ud800"}', {}),
    ("tea/asks", '{"n": 0}', {}),
    ("tea/asks", "[]", {}),
    ("tea/asks", "{}", {"Content-Type": "text/plain"}),
    ("tee/asks", "{}", {}),
    ("tee/asks", "[]", {}),
    (f"{'t' * 1_001}/asks", "{}", {}),
]


def test_asks_and_results_are_answered_as_fastapi_does(
    tmp_path: Path, start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go around it: same answers, same refusals, same names in the metrics; and most of them do go around."""
    found, n_hot = [], 0
    answer_hot = api.answer_hot

    async def counted(*given: Any) -> Any:
        nonlocal n_hot
        made = await answer_hot(*given)
        n_hot += made is not None
        return made

    for name in ("hot", "FastAPI"):
        monkeypatch.setattr(api, "answer_hot", counted)
        with start(storage=str(tmp_path / f"{name}.db")) as running, running.client() as client:
            client.post("/studies", json={"name": "tea", "arms": ARMS, "options": {"seed": 1}}).raise_for_status()
            answers = [
                client.post(f"/studies/{path}", content=body, headers={"Content-Type": "application/json", **headers})
                for path, body, headers in HOT_REQUESTS
            ]
            routes = re.findall(r"_count(\{.*asks.*) ", httpx.get(f"{running.url}/metrics").text)
        times = r'"20\d\d-[^"]*Z"'
        found.append(([(one.status_code, re.sub(times, "", one.text)) for one in answers], sorted(routes)))
        monkeypatch.setattr(api, "HOT", re.compile("none"))
    assert found[0] == found[1]
    assert n_hot == sum(status == 200 for status, _ in found[0][0]) == 4


@pytest.mark.parametrize("path", ["asks", "measurements"])
def test_a_failure_of_the_server_is_no_detail_of_the_answer(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    """The log has the details, once."""
    monkeypatch.setattr(Study, "together", lambda *_: [RuntimeError("secret")])
    answer = client.post(
        f"/studies/tea/{path}", json={"results": [{"arm": "A", "value": 1.0}]} if path[0] == "m" else {}
    )
    assert (answer.status_code, answer.json()["detail"]) == (500, "the server failed; its log says more.")
    assert answer.headers["content-security-policy"]
    assert [record.message for record in caplog.records if record.name == "surepick.server"] == ["POST failed"]


def test_a_value_that_stands_apart_is_recorded_with_a_remark(client: httpx.Client) -> None:
    """The remark is the question of `Study.tell`; no warning is printed by the server."""
    for value in (1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1.01):
        body = {"results": [{"arm": "A", "value": value}]}
        assert client.post("/studies/tea/measurements", json=body).json()["remarks"] == []
    told = client.post("/studies/tea/measurements", json={"results": [{"arm": "A", "value": 101.0}]}).json()
    assert told["measurements"][0]["value"] == 101.0
    assert len(told["remarks"]) == 1


def test_corrections(client: httpx.Client) -> None:
    """Void, restore and correct name a measurement and say why; the answer is the study after it."""
    client.post("/studies/tea/measurements", json={"results": [{"arm": "A", "value": 1.0}]})
    place = "/studies/tea/measurements/1"
    assert client.post(f"{place}/void", json={"reason": "spilt"}).json()["n_void"] == 1
    assert client.post(f"{place}/restore", json={"reason": "it was not"}).json()["n_void"] == 0
    assert client.post(f"{place}/correct", json={"reason": "typo", "value": 1.5}).json()["n_corrected"] == 1
    (one,) = client.get("/studies/tea/measurements").json()["measurements"]
    assert (one["value"], one["told"]) == (1.5, 1.0)
    assert one["changes"] == ["voided: spilt", "restored: it was not", "corrected: typo"]
    for change, body in (("correct", {"reason": "why"}), ("void", {"reason": "why", "value": 1.0}), ("void", {})):
        assert client.post(f"{place}/{change}", json=body).status_code == 422
    assert client.post("/studies/tea/measurements/7/void", json={"reason": "why"}).status_code == 422


def test_earlier_results_are_told_as_a_list(client: httpx.Client) -> None:
    """All or none; the same list twice is refused."""
    body: Any = {"results": [{"arm": "A", "value": 1.0}, {"arm": 1, "value": 0.5}]}
    assert client.post("/studies/tea/measurements", json={**body, "earlier": False}).status_code == 422
    assert len(client.post("/studies/tea/measurements", json=body).json()["measurements"]) == 2
    assert client.post("/studies/tea/measurements", json=body).status_code == 409
    body["results"][1]["arm"] = "D"
    assert client.post("/studies/tea/measurements", json=body).status_code == 422
    assert len(client.get("/studies/tea/measurements").json()["measurements"]) == 2


def test_from_the_first_ask_to_a_certificate_that_holds(client: httpx.Client, tmp_path: Any) -> None:
    """Until the verdict; then an audit, a new era, and files that can be checked."""
    assert client.post("/studies/tea/audit", json={}).status_code == 422
    while asked := client.post("/studies/tea/asks", json={"n": 20, "worker": "ann"}).json()["asks"]:
        for one in asked:
            client.post(f"/studies/tea/asks/{one['id']}/result", json={"value": [4.0, 0.0, 2.0][one["arm"]]})
    now = client.get("/studies/tea").json()
    assert (now["state"], now["best_name"], now["remaining"]) == ("stopped", "A", 0.0)
    log = tmp_path / "log.csv"
    log.write_bytes(client.get("/studies/tea/export").content)
    assert verify(client.get("/studies/tea/certificate").json(), read_log(log)).ok
    for kind, begins in (("xlsx", b"PK"), ("parquet", b"PAR1"), ("json", b'{"log"')):
        assert client.get("/studies/tea/export", params={"format": kind}).content.startswith(begins)
    assert client.get("/studies/tea/export", params={"format": "xlsx", "what": "log"}).status_code == 422
    page = client.get("/studies/tea/report")
    assert "tea-certificate.json" in page.text
    assert page.headers["Content-Disposition"] == "attachment; filename*=UTF-8''tea-report.html"
    assert "<!doctype html>" in page.text
    assert "Who measured" in page.text
    assert "Estimate (mg)" in client.get("/studies/tea/report", params={"unit": "mg"}).text
    assert client.get("/studies/tea/report", params={"unit": "m" * 21}).status_code == 422
    assert client.post("/studies/tea/audit", json={"n": 3}).json() == {"n": 3}
    reopened = client.post("/studies/tea/reopen", json={"reason": "surer", "changes": {"delta": 0.01}}).json()
    assert (reopened["era"], reopened["delta"]) == (2, 0.01)


def test_pages_of_lists(client: httpx.Client, server: RunningServer) -> None:
    """A cursor goes through all studies, measurements and events once."""
    for name in ("coffee", "juice"):
        client.post("/studies", json={"name": name, "arms": ARMS}).raise_for_status()
    results = [{"arm": "A", "value": value} for value in range(5)]
    client.post("/studies/tea/measurements", json={"results": results}).raise_for_status()

    def paged(path: str, key: str) -> list[Any]:
        found, after = list[Any](), dict[str, Any]()
        while True:
            page = client.get(path, params={"limit": 2, **after}).json()
            found += page[key]
            if page["next"] is None:
                return found
            after = {"after": page["next"]}

    assert [one["name"] for one in paged("/studies", "studies")] == ["coffee", "juice", "tea"]
    assert [one["value"] for one in paged("/studies/tea/measurements", "measurements")] == [0, 1, 2, 3, 4]
    study = load_study("tea", server.storage)
    rows = paged("/studies/tea/log", "rows")
    assert [(row["n"], row["text"], row["hash"]) for row in rows] == study.rows()
    study.close()
    assert client.get("/studies/tea/log", params={"after": 99}).status_code == 422


def test_the_etag_is_the_hash_of_the_last_event(client: httpx.Client, server: RunningServer) -> None:
    """A client that knows the study gets no body; written by another process, it is another study."""
    first = client.get("/studies/tea")
    etag = first.headers["ETag"]
    assert etag == f'"{first.json()["head"]["hash"]}"'
    assert client.get("/studies/tea", headers={"If-None-Match": etag}).status_code == 304
    study = load_study("tea", server.storage)
    study.tell(arm="A", value=1.0)
    second = client.get("/studies/tea", headers={"If-None-Match": etag})
    assert (second.status_code, second.json()["n_pulls"]) == (200, 1)
    assert second.headers["ETag"] == f'"{study.head[1]}"'
    study.close()


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", "ä?#&;", "/studies", " ", "<script>", "x" * 200, "log"])
def test_a_name_may_have_any_character(server: RunningServer, name: str) -> None:
    """As long as it is a name; it is sent as the part of an address."""
    with server.client() as client:
        made = client.post("/studies", json={"name": name, "arms": ARMS})
        if not name.strip():
            assert made.status_code == 422
            return
        assert made.json()["name"] == name
        shown = client.get(str(httpx.URL(server.api).join(f"/api/v1/{made.headers['Location']}")))
        assert shown.json()["name"] == name


def test_every_answer_has_the_headers_that_keep_browsers_safe(client: httpx.Client) -> None:
    """Pages, data and errors alike."""
    for path in ("/studies/tea", "/studies/none", "/studies/tea/report", "/openapi.json"):
        headers = client.get(path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
        assert "server" not in headers


def test_errors_do_not_say_where_the_storage_is(client: httpx.Client) -> None:
    """The sentence of the exception, without the path."""
    detail = client.get("/studies/te").json()["detail"]
    assert detail == "there is no study 'te' on this server; did you mean 'tea'? The studies are tea."


def _n_waiting(server: RunningServer) -> int:
    return len(server.server.app.state.studies._open["tea"].waiting)


def test_results_that_wait_are_written_together(
    client: httpx.Client, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one commit is made, requests wait, and share the next; each gets its own answer, after the commit."""
    sizes, go_on, together = list[int](), threading.Event(), Study.together

    def counted(study: Study, calls: Any) -> Any:
        sizes.append(len(calls))
        go_on.wait()
        return together(study, calls)

    monkeypatch.setattr(Study, "together", counted)

    def told(n: int) -> httpx.Response:
        arm = "A" if n % 5 else "none of them"
        return client.post("/studies/tea/measurements", json={"results": [{"arm": arm, "value": float(n)}]})

    with ThreadPoolExecutor(20) as pool:
        answers = pool.map(told, range(20))
        until(lambda: len(sizes) == 1 and _n_waiting(server) == 20 - sizes[0])
        assert client.get("/studies/tea/measurements").json()["measurements"] == []  # reading goes on
        go_on.set()
        found = list(answers)
    assert sizes == [sizes[0], 20 - sizes[0]]
    assert [answer.status_code for answer in found] == [200 if n % 5 else 422 for n in range(20)]
    values = [answer.json()["measurements"][0]["value"] for answer in found if answer.status_code == 200]
    assert values == [float(n) for n in range(20) if n % 5]
    assert len(client.get("/studies/tea/measurements").json()["measurements"]) == 16


def test_too_many_waiting_requests_are_sent_back(start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """429 with Retry-After; those that were taken are written."""
    go_on, together = threading.Event(), Study.together
    with start(queue=2) as running, running.client() as client, ThreadPoolExecutor(8) as pool:
        client.post("/studies", json={"name": "tea", "arms": ARMS}).raise_for_status()
        monkeypatch.setattr(Study, "together", lambda study, calls: (go_on.wait(), together(study, calls))[1])

        def told(n: int) -> httpx.Response:
            return client.post("/studies/tea/measurements", json={"results": [{"arm": "A", "value": float(n)}]})

        waiting = [pool.submit(told, 0)]
        studies = running.server.app.state.studies
        until(lambda: _n_waiting(running) == 0 and waiting[0].running() and studies._open["tea"].writer is not None)
        waiting += [pool.submit(told, n) for n in (1, 2)]
        until(lambda: _n_waiting(running) == 2)
        refused = told(3)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert refused.json()["detail"].startswith("2 requests wait for study 'tea' already")
        go_on.set()
        assert [one.result().status_code for one in waiting] == [200, 200, 200]


def test_an_address_that_sends_too_much_is_told_to_wait(start: Callable[..., Any]) -> None:
    """429 with Retry-After, until the second is over."""
    with start(rate=5) as running, running.client() as client:
        until(lambda: client.get("/studies").status_code == 429)
        until(lambda: client.get("/studies").status_code == 200)


def test_health_and_metrics(client: httpx.Client, server: RunningServer) -> None:
    """Numbers are by routes, and name no study."""
    client.get("/studies/tea")
    assert httpx.get(f"{server.url}/healthz").json() == httpx.get(f"{server.url}/readyz").json() == {"status": "ok"}
    text = httpx.get(f"{server.url}/metrics").text
    assert 'surepick_request_seconds_count{method="GET",route="/api/v1/studies/{name}",status="200"} 1.0' in text
    assert "tea" not in text


def test_arms_of_every_kind(server: RunningServer) -> None:
    """A table with its columns, and sets of vectors; what is missing is named."""
    table = {"columns": [{"title": "leaf", "cells": ["green", "black", "white"]}]}
    kinds: dict[str, Any] = {
        "table": {**ARMS, "features": ["sun", "rain"], "table": table},
        "sphere": {"kind": "sphere", "dim": 3},
        "hypercube": {"kind": "hypercube", "dim": 3},
        "top-k": {"kind": "top-k", "dim": 4, "k": 2},
        "ellipsoid": {"kind": "ellipsoid", "center": [0.0, 0.0], "axes": [[1.0, 0.0], [0.0, 2.0]]},
    }
    with server.client() as client:
        for name, arms in kinds.items():
            body = {"name": name, "arms": arms, "options": {"epsilon": 0.5, "noise_std": 1.0}}
            made = client.post("/studies", json=body)
            assert made.status_code == 201, made.text
        asked = client.post("/studies/table/asks", json={}).json()["asks"]
        assert asked[0]["recipe"] == {"leaf": "green"}
        for arms in (
            {"kind": "top-k", "dim": 4},
            {**ARMS, "features": ["sun"]},
            {**ARMS, "names": ["A"]},
            {**ARMS, "table": {"columns": [{"title": "leaf", "cells": ["green"]}]}},
        ):
            assert client.post("/studies", json={"name": "x", "arms": arms}).status_code == 422


def test_a_study_is_created_once(client: httpx.Client) -> None:
    """Unless it is to be loaded if it exists, and is the same."""
    body = {"name": "tea", "arms": ARMS, "options": {"noise_std": 1.0}}
    assert client.post("/studies", json=body).status_code == 409
    assert client.post("/studies", json={**body, "load_if_exists": True}).status_code == 201
    other = {**body, "load_if_exists": True, "options": {"noise_std": 2.0}}
    refused = client.post("/studies", json=other)
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:surepick:StudyExists")


def test_the_document_is_complete(server: RunningServer) -> None:
    """Every route has a sentence and a schema for errors, and nothing refers to what is not there."""
    text = httpx.get(f"{server.api}/openapi.json").text
    document = json.loads(text)
    routes = [route for path, methods in document["paths"].items() if "/api/" in path for route in methods.values()]
    assert all(route["description"] for route in routes)
    problem = routes[0]["responses"]["401"]["content"]["application/problem+json"]["schema"]
    assert {*problem["required"]} == {"type", "title", "status", "detail"}
    assert {*re.findall(r"#/components/schemas/(\w+)", text)} <= document["components"]["schemas"].keys()
