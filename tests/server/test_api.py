"""The JSON interface, by a real server."""

from collections.abc import Iterator

import httpx
import pytest

from surepick.study.admin import load_study
from tests.server.conftest import RunningServer

ARMS = {"rows": [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]], "names": ["A", "B", "C"]}


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of a server with one study."""
    with server.client() as made:
        body = {"name": "tea", "arms": ARMS, "options": {"noise_std": 1.0}}
        assert made.post("/studies", json=body).status_code == 201
        yield made


def test_ask_and_tell(client: httpx.Client, server: RunningServer) -> None:
    """What is told over HTTP is in the log."""
    asked = client.post("/studies/tea/asks", json={"n": 2, "worker": "ann"}).json()["asks"]
    assert len(asked) == 2
    told = client.post(f"/studies/tea/asks/{asked[0]['id']}/result", json={"value": 1.5, "worker": "ann"}).json()
    assert told["measurements"][0]["value"] == 1.5
    study = load_study("tea", server.storage)
    assert [one.told for one in study.measurements] == [1.5]
    assert client.get("/studies/tea").json()["n_pulls"] == 1
