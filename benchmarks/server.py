"""A server with long logs, under load, and killed: CPU of a page, results a second, and that nothing is lost.

Run `python -m benchmarks server [part ...]`, parts as in `PARTS`. All clients are one process, on the second core of a
machine with two. A request costs them about a quarter of what it costs the server, so it is the server that is
measured; `load` prints the CPU of both.
"""

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import uvloop

from benchmarks.study_common import NAME, PLACES, check, endless, place, value_of
from surepick.study.admin import copy_study
from surepick.study.storage import open_storage
from surepick.study.study import Study

LENGTHS = (1_000, 10_000, 100_000)
"""Events of a log."""
N_GETS = 200
N_CLIENTS, SECONDS = 200, 60.0
N_KILLS, N_UNDER_FIRE = 20, 50
HOST = "127.0.0.1"
PATIENCE = 120.0
"""Seconds until a request that is not answered counts as an error."""
MEGABYTE = 1024.0**2

# Changes of the server, as Python that is run before it starts.
ALONE = "from surepick.server import studies; studies.MOST_TOGETHER = 1"
"""One commit for each request."""
SLOW_COMMIT = 0.005
SLOW = f"""import time
from surepick.study.storage.sql import SqlStorage
quick = SqlStorage._commit
SqlStorage._commit = lambda *given: (time.sleep({SLOW_COMMIT}), quick(*given))[1]"""
"""Commits as a disk without a cache of its own takes them."""


# ---- the server


@dataclass
class ServerProcess:
    """`surepick serve` in a process of its own."""

    url: str
    """Of the storage."""
    port: int
    change: str = ""
    """Python that is run before the server starts."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        program = f"{self.change}\nfrom surepick.__main__ import main\nmain()"
        command = [sys.executable, "-c", program, "serve", "--storage", self.url, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 (our own program)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(OSError), socket.create_connection((HOST, self.port), 1.0):
                return
            time.sleep(0.02)
        raise RuntimeError(f"the server does not answer at port {self.port}")

    def kill(self) -> None:
        """End the server without any notice."""
        self.process.kill()
        self.process.wait(PATIENCE)

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> float:
        """Bytes in use."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))


def free_port() -> int:
    """Return a port that no program listens at."""
    with socket.create_server((HOST, 0)) as one:
        return int(one.getsockname()[1])


# ---- clients


class Refused(Exception):
    """The server answered with an error."""


class Client(asyncio.Protocol):
    """One connection that is kept, over which one request at a time is sent."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.transport: asyncio.Transport | None = None
        self._received = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request; return its answer as JSON.

        Raises:
            Refused: the answer is an error.
            OSError, EOFError: there is no server, or it went away.
        """
        loop = asyncio.get_running_loop()
        if self.transport is None:
            self.transport, _ = await loop.create_connection(lambda: self, HOST, self.port)
        content = b"" if body is None else json.dumps(body).encode()
        more = "".join([f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()])
        head = f"{method} /api/v1/studies/{NAME}{path} HTTP/1.1\r\nHost: {HOST}:{self.port}\r\n{more}"
        head += f"Content-Length: {len(content)}\r\nContent-Type: application/json\r\n\r\n"
        self._received, self._answer = b"", loop.create_future()
        try:
            self.transport.write(head.encode() + content)
            async with asyncio.timeout(PATIENCE):
                status, answer = await self._answer
        except BaseException:
            self.close()
            raise
        if status >= 400:
            raise Refused(status, answer.decode())
        return json.loads(answer) if answer else None

    def data_received(self, data: bytes) -> None:
        """Take in a part of an answer."""
        self._received += data
        head, end, content = self._received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0)
        if end and len(content) >= length and self._answer is not None and not self._answer.done():
            self._answer.set_result((int(head.split(maxsplit=2)[1]), content))

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request that waits."""
        self.transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc if isinstance(exc, OSError) else EOFError())

    def close(self) -> None:
        """Let go of the connection; the next request makes another."""
        if self.transport is not None:
            self.transport.abort()
        self.transport = None

    async def insist(self, *request: Any, **headers: str) -> Any:
        """Send a request until it is answered, while the server comes and goes."""
        while True:
            try:
                return await self.send(*request, **headers)
            except (OSError, EOFError):
                await asyncio.sleep(random.uniform(0.01, 0.1))  # noqa: S311 (not a secret)


@dataclass
class Tally:
    """What clients have seen."""

    acknowledged: dict[int, float] = field(default_factory=dict)
    """Values by ask that the server has confirmed."""
    asks: list[float] = field(default_factory=list)
    tells: list[float] = field(default_factory=list)
    """Seconds of every request."""
    errors: list[str] = field(default_factory=list)


async def work(worker: str, port: int, tally: Tally, goes_on: Callable[[], bool]) -> None:
    """Ask, measure and tell until there is nothing more to do; sends again what was not answered, under its key."""
    client = Client(port)
    try:
        while goes_on():
            began = time.perf_counter()
            for one in (await client.insist("POST", "/asks", {"n": 1, "worker": worker}))["asks"]:
                asked = time.perf_counter()
                value = value_of(one["id"], one["arm"])
                said = {"value": value, "worker": worker}
                await client.insist("POST", f"/asks/{one['id']}/result", said, Idempotency_Key=f"{worker} {one['id']}")
                tally.acknowledged[one["id"]] = value
                tally.asks.append(asked - began)
                tally.tells.append(time.perf_counter() - asked)
    except (Refused, TimeoutError) as error:
        tally.errors.append(f"{worker}: {error!r}")
    finally:
        client.close()


async def all_work(port: int, n_clients: int, goes_on: Callable[[], bool]) -> Tally:
    """Let many clients work at once."""
    tally = Tally()
    await asyncio.gather(*(work(f"client {n}", port, tally, goes_on) for n in range(n_clients)))
    return tally


async def follow(port: int, events: list[tuple[int, str]], is_over: Callable[[], bool]) -> None:
    """Read the stream of events, and come back with the number of the last one whenever it ends."""
    while not is_over():
        with suppress(OSError, EOFError, TimeoutError):
            reader, writer = await asyncio.open_connection(HOST, port)
            with closing(writer):
                last = events[-1][0] if events else 0
                head = f"GET /api/v1/studies/{NAME}/events HTTP/1.1\r\nHost: {HOST}:{port}\r\nLast-Event-ID: {last}"
                writer.write(f"{head}\r\n\r\n".encode())
                await _read_stream(reader, events, is_over)
        await asyncio.sleep(0.05)


async def _read_stream(
    reader: asyncio.StreamReader, events: list[tuple[int, str]], is_over: Callable[[], bool]
) -> None:
    """Take in events until the stream ends or all is over; an event that is cut off does not count."""
    fields: dict[str, str] = {}
    while not is_over():
        try:
            line = await asyncio.wait_for(reader.readline(), 0.2)
        except TimeoutError:
            continue
        if not line.endswith(b"\n"):
            raise EOFError
        name, _, text = line.decode().rstrip("\r\n").partition(": ")
        if text:
            fields[name] = text
        elif "data" in fields:
            events.append((int(fields["id"]), fields["data"]))
            fields = {}


# ---- a page of a long log


def snapshot(lengths: Sequence[int] = LENGTHS, n_gets: int = N_GETS) -> None:
    """Print the CPU of the server for a GET of the study: again, and after a result."""
    study = endless("memory:")
    for n_events in lengths:
        _lengthen(study, n_events)
        with place("sqlite") as url:
            copy_study(NAME, NAME, storage=study.storage, to_storage=url).storage.close()
            with ServerProcess(url, free_port()) as server:
                again, told, both = asyncio.run(_gets(server, n_gets))
        print(
            f"{n_events:,} events: CPU of a GET {again * 1e3:.2f} ms if nothing has changed, "
            f"{(both - told) * 1e3:.2f} ms after a result (ask and tell: {told * 1e3:.2f} ms)",
            flush=True,
        )


def _lengthen(study: Study, n_events: int) -> None:
    """Tell results until the log is that long."""
    while study.head[0] < n_events:
        asks = study.ask(200, worker="w")
        study.together([partial(study.tell, ask.id, value_of(ask.id, ask.arm), warn=False) for ask in asks])


async def _gets(server: ServerProcess, n: int) -> tuple[float, float, float]:
    """CPU seconds of a GET, of an ask and a tell, and of all three."""
    client = Client(server.port)

    async def pull() -> None:
        (one,) = (await client.send("POST", "/asks", {"n": 1, "worker": "w"}))["asks"]
        await client.send("POST", f"/asks/{one['id']}/result", {"value": value_of(one["id"], one["arm"])})

    async def spent(*, pulls: bool, gets: bool) -> float:
        start = server.cpu
        for _ in range(n):
            if pulls:
                await pull()
            if gets:
                await client.send("GET", "")
        return (server.cpu - start) / n

    try:
        await client.send("GET", "")  # loads it
        await pull()
        await client.send("GET", "")
        return (
            await spent(pulls=False, gets=True),
            await spent(pulls=True, gets=False),
            await spent(pulls=True, gets=True),
        )
    finally:
        client.close()


# ---- load


@dataclass(frozen=True)
class Loaded:
    """What a server has done under load."""

    tally: Tally
    seconds: float
    cpu: float
    cpu_of_clients: float
    memory: tuple[float, ...]
    """Bytes, ten times over the run."""
    n_events: int

    @property
    def rate(self) -> float:
        """Results a second."""
        return len(self.tally.tells) / self.seconds

    def __str__(self) -> str:
        asks, tells = (
            np.percentile(np.array(times or [np.nan]) * 1e3, [50, 99]) for times in (self.tally.asks, self.tally.tells)
        )
        memory = ", ".join(f"{bytes_ / MEGABYTE:.0f}" for bytes_ in self.memory)
        return (
            f"{self.rate:.0f} results a second ({len(self.tally.tells):,} in {self.seconds:.0f} s), "
            f"{len(self.tally.errors)} errors; tell p50 {tells[0]:.0f} ms, p99 {tells[1]:.0f} ms; "
            f"ask p50 {asks[0]:.0f} ms, p99 {asks[1]:.0f} ms; CPU of the server {self.cpu / self.seconds:.0%}, "
            f"{self.cpu / max(len(self.tally.tells), 1) * 1e3:.2f} ms a result, "
            f"of all clients {self.cpu_of_clients / self.seconds:.0%}; "
            f"{self.n_events:,} events; MB of memory: {memory}"
        )


def put_load(url: str, n_clients: int, seconds: float, change: str = "") -> Loaded:
    """Let clients ask and tell on a server with an empty study, and check its log after that."""
    with closing(open_storage(url)) as storage:
        endless(storage)
    with ServerProcess(url, free_port(), change) as server:
        first = uvloop.run(all_work(server.port, 1, iter((True, False)).__next__))  # the study is loaded now
        start, cpu, own, memory = time.monotonic(), server.cpu, time.process_time(), list[float]()

        def goes_on() -> bool:
            spent = time.monotonic() - start
            if spent >= seconds * (len(memory) + 1) / 10.0:
                memory.append(server.memory)
            return spent < seconds

        tally = uvloop.run(all_work(server.port, n_clients, goes_on))
        tally.acknowledged |= first.acknowledged
        spent, cpu, own = time.monotonic() - start, server.cpu - cpu, time.process_time() - own
    found = check(url, acknowledged=tally.acknowledged)
    assert found.n_told == len(tally.acknowledged), f"{found.n_told} told, {len(tally.acknowledged)} acknowledged"
    return Loaded(tally, spent, cpu, own, tuple(memory), found.n_events)


def load(n_clients: int = N_CLIENTS, seconds: float = SECONDS) -> None:
    """Print how many results a second a server takes, with a commit for many requests and with one for each."""
    cases = [(kind, kind, "") for kind in PLACES]
    for name, kind, change in [*cases, (f"sqlite, a commit takes {SLOW_COMMIT * 1e3:.0f} ms more", "sqlite", SLOW)]:
        rates = []
        for how, more in (("group commit", ""), ("one commit a request", ALONE)):
            with place(kind) as url:
                loaded = put_load(url, n_clients, seconds, f"{change}\n{more}")
            rates.append(loaded.rate)
            print(f"{name}, {n_clients} clients, {how}: {loaded}", *loaded.tally.errors[:5], sep="\n  ", flush=True)
        print(f"{name}: {rates[0] / rates[1]:.1f} times as many as with one commit a request", flush=True)
    for kind in PLACES:
        with place(kind) as url:
            together, alone = _without_http(url, n_clients)
        print(f"{kind}, without HTTP: {together:.0f} results a second together, {alone:.0f} with a commit for each")


def _without_http(url: str, n: int) -> tuple[float, float]:
    """Results a second of a study in this process: n in one transaction, and one by one."""
    study, rates = endless(url), []
    for size in (n, 1):
        asks = study.ask(10 * n)
        tells = [partial(study.tell, ask.id, value_of(ask.id, ask.arm), warn=False) for ask in asks]
        start = time.perf_counter()
        for first in range(0, len(tells), size):
            study.together(tells[first : first + size])
        rates.append(len(tells) / (time.perf_counter() - start))
    study.storage.close()
    return rates[0], rates[1]


# ---- kill


def under_fire(url: str, n_clients: int, n_kills: int) -> tuple[Tally, int]:
    """Kill and start a server under load; clients end by themselves. Returns what they saw, and the number of events.

    Raises:
        AssertionError: a result that was acknowledged is lost or doubled, or the stream misses an event.
    """
    with closing(open_storage(url)) as storage:
        endless(storage)
    with ServerProcess(url, free_port()) as server:
        tally, events = asyncio.run(_under_fire(server, n_clients, n_kills))
    found = check(url, acknowledged=tally.acknowledged)
    assert found.n_told == len(tally.acknowledged), f"{found.n_told} told, {len(tally.acknowledged)} acknowledged"
    with closing(open_storage(url)) as storage:
        rows = [(row.n, json.loads(row.text)) for row in storage.read(NAME)]
    assert [(n, json.loads(text)) for n, text in events] == rows, f"{len(events)} of {len(rows)} events in the stream"
    return tally, found.n_events


async def _under_fire(server: ServerProcess, n_clients: int, n_kills: int) -> tuple[Tally, list[tuple[int, str]]]:
    kills_left, events, tally = n_kills, list[tuple[int, str]](), Tally()
    n_read: int | None = None

    async def kill() -> None:
        nonlocal kills_left
        while kills_left:
            n_before = len(tally.tells)
            while len(tally.tells) < n_before + n_clients:  # all have begun again
                await asyncio.sleep(0.01)
            await asyncio.sleep(random.uniform(0.0, 0.2))  # noqa: S311 (in the midst of anything)
            server.kill()
            await asyncio.to_thread(server.start)
            kills_left -= 1

    workers = [work(f"client {n}", server.port, tally, lambda: kills_left > 0) for n in range(n_clients)]
    stream = asyncio.create_task(follow(server.port, events, lambda: n_read is not None and len(events) >= n_read))
    await asyncio.gather(kill(), *workers)
    client = Client(server.port)
    n_read = (await client.insist("GET", ""))["head"]["n"]
    client.close()
    await asyncio.wait_for(stream, PATIENCE)
    return tally, events


def kill(n_clients: int = N_UNDER_FIRE, n_kills: int = N_KILLS) -> None:
    """Print what a server that is killed and started again and again has kept."""
    for kind in PLACES:
        with place(kind) as url:
            start = time.monotonic()
            tally, n_events = under_fire(url, n_clients, n_kills)
        longest = max(tally.tells, default=0.0)
        print(
            f"{kind}: {n_kills} kills in {time.monotonic() - start:.0f} s, {n_clients} clients, "
            f"{len(tally.acknowledged):,} results acknowledged, none lost, none doubled, {len(tally.errors)} errors, "
            f"{n_events:,} events in the stream, none missed; longest tell {longest:.1f} s",
            flush=True,
        )


PARTS: dict[str, Callable[[], None]] = {"snapshot": snapshot, "load": load, "kill": kill}


def main(*parts: str) -> None:
    """Run these parts, or all."""
    for name in parts or PARTS:
        print(f"-- {name}", flush=True)
        PARTS[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
