"""Random requests from the OpenAPI document: no error of the server, no answer that the document does not have."""

import json
from typing import Any

import httpx
import pytest

from benchmarks.fuzz_api import fuzz
from tests.server.conftest import RunningServer


def test_random_requests_get_documented_answers(server: RunningServer) -> None:
    """A few hundred here, thousands by `python -m benchmarks.fuzz_api`."""
    counts = fuzz(server.api, 9)
    assert len(counts) >= 19
    assert sum(counts.values()) > 150


def _send(server: RunningServer, path: str, content: bytes | str, kind: str = "application/json") -> httpx.Response:
    response = httpx.post(f"{server.api}{path}", content=content, headers={"Content-Type": kind})
    problem = response.json()
    assert response.headers["Content-Type"] == "application/problem+json"
    assert problem["status"] == response.status_code
    assert len(problem["detail"]) < 2_000
    return response


DEEP = "[" * 100_000
HUGE = "1" + "0" * 5_000


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ("", 422),
        ("{", 400),
        ("[]", 422),
        ('{"name": "tea", "name": 3}', 422),
        ('{"name": "x", "arms": {"rows": [[NaN, 1.0], [0.0, 1.0]]}}', 422),
        ('{"name": "x", "arms": {"rows": [[1e999, 1.0], [0.0, 1.0]]}}', 422),
        (f'{{"name": "x", "arms": {{"rows": [[{HUGE}, 1.0], [0.0, 1.0]]}}}}', 400),
        (f'{{"name": "x", "arms": {{"rows": [[{HUGE[:500]}, 1.0], [0.0, 1.0]]}}}}', 422),
        (f'{{"name": "x", "arms": {DEEP}', 400),
        ('{"name": "x", "arms": {"rows": [[1.0], [0.0, 1.0]]}}', 422),
        ('{"name": "x", "arms": {"rows": []}}', 422),
        ('{"name": "x", "arms": {"kind": "sphere", "dim": 100000000}}', 422),
        ('{"name": "x", "arms": {"kind": "file", "path": "/etc/passwd"}}', 422),
        ('{"name": "..", "arms": {"rows": [[1.0, 0.0], [0.0, 1.0]]}}', 422),
        ('{"name": "a\\nb", "arms": {"rows": [[1.0, 0.0], [0.0, 1.0]]}}', 422),
        ('{"name": "x", "arms": {"rows": [[1, 0], [0, 1]]}, "options": {"storage": "/tmp/x.db"}}', 422),
        ('{"name": "x", "arms": {"rows": [[1, 0], [0, 1]]}, "options": {"delta": [[1], 2]}}', 422),
        ('{"name": "x", "arms": {"rows": [[1, 0], [0, 1]]}, "options": {"no": 1}}', 422),
        ('{"name": "x", "arms": {"rows": [[1, 0], [0, 1]]}, "options": {"delta": 2}}', 422),
        (json.dumps({"name": "x" * 10_000, "arms": {"rows": [[1, 0], [0, 1]]}}), 422),
        (json.dumps({"name": "x" * 10_000_000, "arms": {"rows": [[1, 0], [0, 1]]}}), 413),
        (b"\xff\xfe{", 400),
    ],
)
def test_a_bad_body_gets_a_sentence(server: RunningServer, content: bytes | str, status: int) -> None:
    """4xx, and nothing is created."""
    response = _send(server, "/studies", content)
    assert response.status_code == status, response.text
    assert httpx.get(f"{server.api}/studies").json()["studies"] == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "the body must be an object."),
        ({"name": "x"}, "arms is needed."),
        ({"name": "x", "arms": {"rows": [[1.0, "a"], [0.0, 1.0]]}}, "arms.rows[0][1] must be a valid number, got 'a'."),
        ({"name": "x", "arms": {"rows": [[1.0]], "more": 1}}, "arms.more is no field here."),
        ({"name": "", "arms": {"rows": [[1.0]]}}, "name must have at least 1 character, got ''."),
    ],
)
def test_the_sentence_names_the_place(server: RunningServer, body: Any, said: str) -> None:
    """As the sender knows it, without words of the program that checks."""
    assert _send(server, "/studies", json.dumps(body)).json()["detail"] == said


def test_a_body_without_a_length_is_limited_too(server: RunningServer) -> None:
    """Chunk by chunk."""

    def chunks() -> Any:
        for _ in range(200):
            yield b" " * 50_000

    headers = {"Content-Type": "application/json"}
    assert httpx.post(f"{server.api}/studies", content=chunks(), headers=headers).status_code == 413


def test_a_form_is_no_json(server: RunningServer) -> None:
    """A page of another site can send forms, and no JSON."""
    assert _send(server, "/studies", "name=tea", "application/x-www-form-urlencoded").status_code == 415
    assert _send(server, "/studies", '{"name": "tea"}', "text/plain").status_code == 415
