"""A real server for tests: uvicorn on a free port, in a thread of its own."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from surepick.server.app import Server, ServerSettings
from surepick.study.storage import open_storage
from surepick.study.tokens import Role, new_token
from tests.waiting import LIMIT, until


@dataclass(frozen=True)
class RunningServer:
    """A server that runs."""

    url: str
    """Without a slash at the end; with the prefix if there is one."""
    storage: str
    """For `load_study` and others that look past the server."""
    server: Server

    @property
    def api(self) -> str:
        """Where the JSON interface is."""
        return f"{self.url}/api/v1"

    def client(self, token: str | None = None, **more: Any) -> httpx.Client:
        """Return a client of httpx whose addresses begin with `api`."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.api, headers=headers, timeout=LIMIT, **more)


def make_token(storage: str, role: str, study: str | None = None, label: str = "") -> str:
    """Create a token in a storage; return its secret."""
    place: Any = open_storage(storage)
    row, secret = new_token(Role(role), study=study, label=label)
    place.add_token(row)
    place.close()
    return secret


@contextmanager
def serving(storage: str, **settings: Any) -> Iterator[RunningServer]:
    """Run a server on a storage until the block ends."""
    # With the protocol named, asyncio sends small answers at once (TCP_NODELAY).
    with socket.socket(proto=socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = Server(ServerSettings(storage=storage, port=port, **settings))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            until(lambda: server.started or not thread.is_alive())
            yield RunningServer(f"http://127.0.0.1:{port}{settings.get('root_path', '')}", storage, server)
        finally:
            server.should_exit = True
            thread.join(LIMIT)
    assert not thread.is_alive(), "the server does not stop"


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Any]:
    """Return `serving` with a file of this test as the storage."""

    def started(**settings: Any) -> Any:
        return serving(settings.pop("storage", str(tmp_path / "lab.db")), **settings)

    return started


@pytest.fixture
def server(start: Callable[..., Any]) -> Iterator[RunningServer]:
    """A server without tokens, on an empty file."""
    with start() as running:
        yield running
