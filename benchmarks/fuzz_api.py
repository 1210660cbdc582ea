"""Thousands of random requests to a real server, made from its OpenAPI document: none may fail, all must be documented.

Run it: `python -m benchmarks.fuzz_api [examples]`, with that number of requests for each operation (default 200).
"""

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from surepick.learning.spec import DEFAULTS
from surepick.server.app import Server, ServerSettings

STUDY = {
    "name": "tea",
    "arms": {"rows": [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]], "names": ["green", "black", "white"]},
    "options": {"noise_std": 1.0, "seed": 1},
    "load_if_exists": True,
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers()
    | st.text(max_size=9)
    | st.just([0.0, 1.0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
OPTIONS = st.dictionaries(st.sampled_from([*DEFAULTS, "variant", "tracking", "own"]), VALUES, max_size=2)
"""Options of a task with values of any kind."""


def fuzz(url: str, examples: int, *, seed: int | None = None) -> dict[str, int]:
    """Send random requests to every operation; return how many, by operation.

    Args:
        url: of the API, without a token.
        examples: requests for each operation.
        seed: draws the same requests again.

    Raises:
        AssertionError: an answer is an error of the server, or is not in the document.
    """
    import schemathesis  # noqa: PLC0415 (slow to load, and only tests install it)

    schema: Any = schemathesis.openapi.from_url(f"{url}/openapi.json")
    counts = {}
    for found in schema.get_all_operations():
        operation = found.ok()
        if not operation.path.endswith("/events"):  # a stream does not end
            counts[operation.label] = _fuzz(operation, url, examples, seed)
    return counts


def _fuzz(operation: Any, url: str, examples: int, seed: int | None) -> int:
    """Send requests to one operation; half of them about a study that exists."""
    from schemathesis.checks import not_a_server_error  # noqa: PLC0415 (as above)
    from schemathesis.specs.openapi import checks  # noqa: PLC0415

    documented = (checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance)
    n = 0
    httpx.post(f"{url}/studies", json=STUDY).raise_for_status()
    httpx.post(f"{url}/studies/tea/asks", json={"n": 3}).raise_for_status()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=seed is None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), name=st.sampled_from(["tea", None]), number=st.integers(1, 4), options=OPTIONS)
    def send(case: Any, name: str | None, number: int, options: dict[str, Any]) -> None:
        nonlocal n
        n += 1
        if name and operation.label == "POST /api/v1/studies":
            case.body = {**STUDY, "name": f"study {n}", "options": options}
        elif name and operation.label.endswith("/reopen"):
            case.body = {"reason": "other options", "changes": options}
        known = {"name": name, "ask_id": number, "measurement": number} if name else {}
        case.path_parameters |= {key: value for key, value in known.items() if key in case.path_parameters}
        case.call_and_validate(checks=[not_a_server_error, *documented])

    if seed is not None:
        seeded(seed)(send)
    try:
        send()
    except Unsatisfiable:
        assert n, operation.label
    return n


@contextmanager
def serving() -> Iterator[str]:
    """Run a server on a temporary file; yield the address of its API."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(ServerSettings(storage=str(Path(folder) / "lab.db"), port=0))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            thread.join(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/api/v1"
        server.should_exit = True
        thread.join()


def main() -> None:
    """Send the requests, and print how many."""
    with serving() as address:
        sent = fuzz(address, int(sys.argv[-1]) if sys.argv[-1].isdecimal() else 200, seed=0)
    for label, count in sent.items():
        print(f"{count:6,}  {label}")
    print(f"{sum(sent.values()):6,}  requests, no failure")


if __name__ == "__main__":
    main()
