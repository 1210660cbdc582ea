"""The client of a surepick server: the methods of `Study` by HTTP, for robots and programs without mathematics.

Both clients share every method as a coroutine. In a `Client` it never suspends, since requests and pauses block, and
so runs to its end like a function.

A request that fails on its way is sent again, and nothing happens twice: a result is recognised by its ask or by the
key that the client gives it, and a worker that asks again gets its open asks back. A correction, an audit and the like
are not sent again if the server may have done them (`OutcomeUnknown`).
"""

import asyncio
import json
import os
import random
import re
import secrets
import socket
import threading
import time
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing, closing, suppress
from copy import copy
from datetime import timedelta
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar, overload
from urllib.parse import quote

from surepick import errors
from surepick._files import file_name, replacing
from surepick._version import __version__
from surepick.errors import CorruptLog, EntryWarning, InvalidInput, OutcomeUnknown, StorageError, SurepickError

try:
    import httpx
except ModuleNotFoundError as error:
    raise SurepickError("a client of a server needs httpx; pip install 'surepick[client]'.") from error

OF_TOKEN, OF_HTTP = "SUREPICK_TOKEN", "SUREPICK_ALLOW_HTTP"
PATIENCE, FIRST_PATIENCE = 60.0, 5.0
"""Seconds until a client gives up; less as long as the server has never answered: the address may be wrong."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
STREAM_TIMEOUT = 60.0
"""Seconds without a sign of life, of which a server gives one every 15, until a stream is begun anew."""
OWN_LEASE = "own"
"""The lease that the study was created with."""
BUSY, BROKEN = (429, 503), (502, 504)
"""Statuses of a server that has done nothing, and of a proxy whose server may have done what was asked."""
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

T = TypeVar("T")
P = ParamSpec("P")


class Record(dict[str, Any]):
    """A record of the server, whose fields are attributes as well: `ask["id"]` is `ask.id`."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"the record has no field {name!r}; it has {', '.join(self)}")


class Told(list[Record]):
    """The measurements of one tell, and what the server remarks about their values."""

    remarks: tuple[str, ...] = ()


class _Method(Generic[P, T]):
    """A method of both clients: a coroutine function in an `AsyncClient`, a function in a `Client`."""

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._method, self.__doc__ = method, method.__doc__

    @overload
    def __get__(self, client: "Client", owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        if client is None:
            return self._method  # for `help`
        method: Any = self._method.__get__(client)
        return wraps(method)(lambda *given, **named: _run(method(*given, **named))) if owner is Client else method


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a method of `Client` waits for an event loop")


class _Methods:
    """The methods of both clients; `Client` has the arguments."""

    _kind: Any
    _do: Callable[..., Any]
    """Sends a request, as `httpx.Client.send` does, and reads a refusal."""
    _sleep: Callable[[float], Any]
    _texts: Callable[[Any], Any]
    """Yields the parts of an answer as they come."""

    def __init__(
        self,
        url: str,
        study: str | None = None,
        *,
        token: str | None = None,
        worker: str | None = None,
        patience: float | None = None,
        timeout: float = 30.0,
        allow_http: bool = False,
    ) -> None:
        token = (token or os.environ.get(OF_TOKEN, "")).strip()
        self.url = _checked(url, token, allow_http=allow_http or bool(os.environ.get(OF_HTTP)))
        self.study, self.worker = study, worker or f"{socket.gethostname()}:{secrets.token_hex(4)}"
        self.patience, self.has_answered = patience, threading.Event()  # one for all clients of `of`
        headers = {"User-Agent": f"surepick/{__version__}", **({"Authorization": f"Bearer {token}"} if token else {})}
        self._http = self._kind(base_url=f"{self.url}/api/v1/", headers=headers, timeout=timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, study={self.study!r})"

    def of(self, study: str) -> Self:
        """Return a client for another study of the same server, on the same connections."""
        other = copy(self)
        other.study = study
        return other

    def _path(self, part: str = "") -> str:
        """Return the path of a study, or of a part of it; dots are quoted as well, since .. leads upwards."""
        if self.study is None:
            raise InvalidInput('the client must know which study; Client(url, "NAME"), or client.of("NAME").')
        return f"studies/{quote(self.study, safe='').replace('.', '%2E')}{part and '/'}{part}"

    async def _send(
        self, method: str, path: str, body: Any = None, *, again: bool = True, key: str | None = None, **how: Any
    ) -> Any:
        """Send a request until it is answered.

        Args:
            method: of HTTP.
            path: below that of the interface.
            body: of the request.
            again: whether the request may be sent again if the server may have done what it asks.
            key: by which the server recognises a request that is sent again.
            how: further arguments of `httpx.Client.build_request`; `stream`: whether the answer is read as it comes.
        """
        stream, headers = how.pop("stream", False), how.pop("headers", {})
        if body is not None:
            how["content"], headers["Content-Type"] = _json(body), "application/json"
        if key is not None:  # a header takes plain and short texts
            headers["Idempotency-Key"] = key if re.fullmatch("[ -~]{1,200}", key) else sha256(key.encode()).hexdigest()
        since, pause = time.monotonic(), SHORTEST_PAUSE
        while True:
            try:
                answer = await self._do(self._http.build_request(method, path, headers=headers, **how), stream=stream)
                self.has_answered.set()
            except httpx.TransportError as error:
                answer = error
            if getattr(answer, "is_success", False):
                return answer
            await self._sleep(self._pause(answer, since, pause, again=again))
            pause = min(2.0 * pause, LONGEST_PAUSE)

    def _pause(self, answer: Any, since: float, pause: float, *, again: bool) -> float:
        """Return the seconds to wait before the next attempt.

        Args:
            answer: a refusal, or an error of the network.
            since: when the first attempt was made.
            pause: least seconds to wait.
            again: as for `_send`.

        Raises:
            SurepickError: there is no use in waiting; of the class and with the sentence of the server.
        """
        status, found = getattr(answer, "status_code", 0), _refusal(answer, self.url)
        if status not in (0, *BUSY, *BROKEN) or isinstance(found, CorruptLog):
            raise found
        is_undone = isinstance(answer, NEVER_SENT) or (status in BUSY and not isinstance(found, OutcomeUnknown))
        if not (again or is_undone):
            raise OutcomeUnknown(
                f"the connection to {self.url} was lost before the answer came, so this has happened, or not; look "
                "into the log of the study, and do it again if it has not."
            ) from found
        asked_for = answer.headers.get("Retry-After", "") if status else ""
        pause = max(pause, float(asked_for) if asked_for.isdecimal() else 0.0)
        usual = PATIENCE if self.has_answered.is_set() else FIRST_PATIENCE
        if time.monotonic() + pause > since + (usual if self.patience is None else self.patience):
            raise found
        return pause * random.uniform(1.0, 1.5)  # noqa: S311 (so that many clients come back one by one)

    async def _get(self, part: str = "") -> Any:
        return _content(await self._send("GET", self._path(part)))

    async def _post(
        self, part: str, *, worker: str | None, again: bool = False, key: str | None = None, **body: Any
    ) -> Any:
        body["worker"] = worker or self.worker
        return _content(await self._send("POST", self._path(part), body, again=again, key=key))

    async def _pages(self, items: str, path: str, after: Any) -> list[Record]:
        """Return all items of a list that comes in pages."""
        found = list[Record]()
        while after is not None:
            page = _content(await self._send("GET", path, params={"after": after, "limit": 10_000}))
            found += page[items]
            after = page["next"]
        return found

    async def _download(self, path: str | Path, part: str, **params: Any) -> Path:
        answer = await self._send("GET", self._path(part), params=params)
        with replacing(Path(path)) as draft:
            draft.write_bytes(answer.content)
        return Path(path)

    # ---- studies

    @_Method
    async def studies(self) -> list[Record]:
        """Return the studies that the token may see, under the names of `surepick list --format json`."""
        return await self._pages("studies", "studies", "")

    @_Method
    async def create(self, /, name: str, arms: Mapping[str, Any], **options: Any) -> Record:
        """Begin a study, and return its status; `client.of(name)` asks and tells.

        Args:
            name: of the study.
            arms: {"kind": "finite", "rows": [[0.2, 1.0], ...], "names": ["A", ...], "features": ["salt", ...]}. Tables,
                data frames and other sets go by `create_study(storage=url)`.
            options: as for `create_study`, `lease`, `group_by` and `candidates` (in the form of `arms`) among them; and
                `worker`.
        """
        of_study = ("candidates", "lease", "worker", "group_by")
        own: dict[str, Any] = {one: options.pop(one) for one in of_study if one in options}
        body = {"name": name, "arms": arms, "worker": self.worker, **own, "options": options}
        return Record(_content(await self._send("POST", "studies", body, again=False)))

    @_Method
    async def delete(self) -> None:
        """Remove the study and all its events, for good."""
        await self._send("DELETE", self._path(), again=False)

    # ---- asks and results

    @_Method
    async def ask(
        self, n: int = 1, *, worker: str | None = None, lease: Any = OWN_LEASE, group: Any = None
    ) -> list[Record]:
        """Return the next asks: the open asks of this worker first, fewer than n if the budget ends.

        `group` says where and when they will be measured: "day 3", or {"day": 3, "bench": "B"}.
        """
        lease = lease.total_seconds() if isinstance(lease, timedelta) else lease
        return list((await self._post("asks", n=n, worker=worker, again=True, lease=lease, group=group))["asks"])

    @_Method
    async def pending(self) -> list[Record]:
        """Return the open asks of all workers, the oldest first."""
        return list((await self._get("asks"))["asks"])

    @_Method
    async def fail(self, ask: int | Record, *, reason: str = "", worker: str | None = None) -> None:
        """Give up an ask: another worker gets it. A value that was seen must be told."""
        await self._post(f"asks/{getattr(ask, 'id', ask)}/fail", reason=reason, worker=worker, again=True)

    @_Method
    async def tell(
        self,
        ask: int | Record | None = None,
        value: float | Iterable[float] | None = None,
        *,
        arm: Any = None,
        worker: str | None = None,
        key: str | None = None,
        group: Any = None,
        warn: bool = True,
    ) -> Told:
        """Take in a result, or several of one arm; when this returns, they are on the disk of the server.

        Args:
            ask: which ask it answers.
            value: what was measured; several values in the order of measuring.
            arm: instead of `ask`: name, row number or vector.
            worker: who measured.
            key: a name for what is told, by which it is recognised if it is told again.
            group: where and when it was measured, as for `ask`; an ask with a label keeps that label.
            warn: whether remarks of the server about the values become an `EntryWarning`.
        """
        if (ask is None) is (arm is None):
            raise InvalidInput("`tell` needs an ask or an arm, got " + ("neither." if ask is None else "both."))
        values: Any = list(value) if isinstance(value, Iterable) and not hasattr(value, "encode") else [value]
        if ask is not None:  # by which a result is recognised that comes twice
            path, said = f"asks/{getattr(ask, 'id', ask)}/result", dict[str, Any](values=values, group=group)
        else:
            key, results = key or secrets.token_hex(16), [{"arm": arm, "value": one, "group": group} for one in values]
            path, said = "measurements", {"results": results, "earlier": False}
        answer = await self._post(path, **said, worker=worker, key=key, again=True)
        told = Told(answer["measurements"])
        told.remarks = tuple(answer["remarks"])
        for text in told.remarks if warn else ():
            warnings.warn(text, EntryWarning, stacklevel=4)
        return told

    @_Method
    async def tell_earlier(
        self, pairs: Iterable[tuple[Any, ...]], *, worker: str | None = None, key: str | None = None
    ) -> Told:
        """Take in unsolicited results, (arm, value) or (arm, value, group), all or none, in the order of measuring.

        They guide plans and bets, and are no evidence (docs/study.md). The same list counts once, unless it is told
        with another key.
        """
        said = {"results": [dict(zip(("arm", "value", "group"), one, strict=False)) for one in pairs], "earlier": True}
        key = key or sha256(_json(said)).hexdigest()
        return Told((await self._post("measurements", **said, worker=worker, key=key, again=True))["measurements"])

    @_Method
    async def void(self, measurement: int, *, reason: str, worker: str | None = None) -> None:
        """Take a measurement back, for any reason but its value."""
        await self._post(f"measurements/{measurement}/void", reason=reason, worker=worker)

    @_Method
    async def correct(self, measurement: int, value: float, *, reason: str, worker: str | None = None) -> None:
        """Replace the value of a measurement that was told wrong."""
        await self._post(f"measurements/{measurement}/correct", value=value, reason=reason, worker=worker)

    @_Method
    async def restore(self, measurement: int, *, reason: str, worker: str | None = None) -> None:
        """Let a measurement that is void count again."""
        await self._post(f"measurements/{measurement}/restore", reason=reason, worker=worker)

    # ---- after the verdict

    @_Method
    async def audit(self, n: int | Literal["auto"] = "auto", *, worker: str | None = None) -> int:
        """Plan check pulls of the model after the verdict; return how many."""
        return int((await self._post("audit", n=n, worker=worker))["n"])

    @_Method
    async def reopen(self, /, *, reason: str, worker: str | None = None, **changes: Any) -> None:
        """Go on after a verdict, or with other arms or options: arguments as for `Study.reopen`."""
        own = {name: changes.pop(name) for name in ("join", "retire", "keep_evidence") if name in changes}
        await self._post("reopen", reason=reason, **own, changes=changes, worker=worker)

    # ---- what is known

    @_Method
    async def status(self) -> Record:
        """Return the study at this moment, under the names of `surepick status --format json`, and its `head`."""
        return Record(await self._get())

    @_Method
    async def measurements(self) -> list[Record]:
        """Return all measurements, those void included."""
        return await self._pages("measurements", self._path("measurements"), 0)

    @_Method
    async def certificate(self) -> Record:
        """Return the certificate: claim, assumptions, and the hash of the log."""
        return Record(await self._get("certificate"))

    @_Method
    async def rows(self, after: int = 0) -> list[Record]:
        """Return the log after an event as it is kept: `n`, `text` and `hash` of each event."""
        return await self._pages("rows", self._path("log"), after)

    @_Method
    async def log(self, after: int = 0) -> list[Record]:
        """Return the events after one."""
        return [json.loads(one.text, object_hook=Record) for one in await self._pages("rows", self._path("log"), after)]

    @_Method
    async def export(self, kind: str, path: str | Path | None = None, *, what: str | None = None) -> Path:
        """Write the log with its hashes, or the measurements, to a file; return where. See `Study.export`."""
        what = what or ("measurements" if kind == "xlsx" else "log")
        named = f"{file_name(self.study or '')}-{what}.{kind}"
        return await self._download(path or named, "export", format=kind, what=what)

    @_Method
    async def report(self, path: str | Path) -> Path:
        """Write a page about the study to an .html file; return where."""
        return await self._download(path, "report")

    async def _events(self, after: int) -> AsyncGenerator[Record]:
        while True:
            headers, text = {"Last-Event-ID": str(after), "Accept": "text/event-stream"}, ""
            answer = await self._send("GET", self._path("events"), headers=headers, timeout=STREAM_TIMEOUT, stream=True)
            with suppress(httpx.TransportError):  # then the next connection goes on
                async with aclosing(self._texts(answer)) as parts:
                    async for part in parts:
                        *blocks, text = (text + part).split("\n\n")
                        for block in blocks:
                            said = dict(re.findall("^(id|data): (.*)$", block, re.MULTILINE))
                            if "id" in said:
                                after = int(said["id"])
                                yield json.loads(said["data"], object_hook=Record)
            await self._sleep(SHORTEST_PAUSE)


class Client(_Methods, AbstractContextManager["Client"]):
    """A study on a server, by HTTP; several threads may share one.

    Args:
        url: of the server, such as "http://127.0.0.1:8080", with the prefix of a proxy if it has one.
        study: name of the study that the methods are about; `of` returns a client for another one.
        token: that the server knows you by; default: the environment variable SUREPICK_TOKEN.
        worker: your name in the log, by which you get your open asks back; default: a name that is new each time.
        patience: seconds for which a request is repeated while the server cannot be reached or is busy; default: 60,
            and 5 until it has answered once.
        timeout: seconds to wait for one answer.
        allow_http: whether a token may go unencrypted over http:// to another machine; the environment variable
            SUREPICK_ALLOW_HTTP=1 allows it too.
    """

    _kind = httpx.Client

    async def _do(self, request: httpx.Request, **more: Any) -> Any:
        answer = self._http.send(request, **more)
        if not answer.is_success:
            answer.read()
        return answer

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _texts(self, answer: httpx.Response) -> AsyncIterator[str]:
        with closing(answer):
            for text in answer.iter_text():
                yield text

    def events(self, after: int = 0) -> Iterator[Record]:
        """Yield the events after one, and then each new one as it happens, without end.

        A connection that is lost is made anew, and no event is missed or doubled.
        """
        events = self._events(after)
        try:
            while True:
                yield _run(events.__anext__())
        finally:
            _run(events.aclose())

    def close(self) -> None:
        """Close the connections. `with` does so at the end."""
        self._http.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Methods, AbstractAsyncContextManager["AsyncClient"]):
    """A study on a server, by HTTP, in an event loop: arguments and methods of `Client`, with await."""

    _kind = httpx.AsyncClient

    async def _do(self, request: httpx.Request, **more: Any) -> Any:
        answer = await self._http.send(request, **more)
        if not answer.is_success:
            await answer.aread()
        return answer

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _texts(self, answer: httpx.Response) -> AsyncIterator[str]:
        async with aclosing(answer):
            async for text in answer.aiter_text():
                yield text

    def events(self, after: int = 0) -> AsyncIterator[Record]:
        """Yield the events after one, and then each new one as it happens, as `Client.events` does."""
        return self._events(after)

    async def close(self) -> None:
        """Close the connections. `async with` does so at the end."""
        await self._http.aclose()

    async def __aexit__(self, *_: object) -> None:
        await self.close()


# ---- requests and answers


def _checked(url: str, token: str, *, allow_http: bool) -> str:
    """Return the address of a server; a token goes unencrypted to this machine alone, and no error shows a secret."""
    found = re.fullmatch(r"(?i)(https?)://(\[[^]]+\]|[^/?#@:\s[\]]+)(:\d+)?(/[^?#\s]*)?", str(url))
    if found is None:
        raise InvalidInput("the address of a server must be like http://127.0.0.1:8080, and have no password in it.")
    if not re.fullmatch("[!-~]*", token):
        raise InvalidInput("a token must be one word of plain letters and digits, as `surepick token create` shows it.")
    is_here = re.fullmatch(r"localhost|127(\.\d+){3}|\[::1\]", found[2]) is not None
    if token and found[1].lower() == "http" and not (is_here or allow_http):
        raise InvalidInput(
            f"a token for {found[2]} must go encrypted, but http:// encrypts nothing; use https://. In a network that "
            f"you trust, allow http:// by allow_http=True or {OF_HTTP}=1."
        )
    return found[0].rstrip("/")


def _json(body: dict[str, Any]) -> bytes:
    """Return the text of a request; numbers and arrays of NumPy are numbers and lists."""
    try:
        return json.dumps(body, allow_nan=False, default=lambda one: one.tolist()).encode()
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"a request must consist of texts and finite numbers; {error}.") from None


def _content(answer: httpx.Response) -> Any:
    """Return the JSON of an answer."""
    try:
        return answer.json(object_hook=Record) if answer.content else None
    except ValueError as error:
        raise StorageError(f"{answer.url} does not answer as a surepick server does; check the address.") from error


def _refusal(answer: Any, url: str) -> SurepickError:
    """Return the error that a server has raised, by its class and sentence; or that there was no answer."""
    if isinstance(answer, httpx.TransportError):
        said = str(answer) or type(answer).__name__
        return StorageError(f"there is no answer from {url} ({said}); check the address, and whether the server runs.")
    kind: Any = StorageError if answer.status_code in (*BUSY, *BROKEN) else SurepickError
    said = f"{url} answers {answer.status_code} {answer.reason_phrase}; check the address."
    with suppress(ValueError, KeyError, TypeError, AttributeError):  # of another server
        problem = answer.json()
        named = getattr(errors, problem["type"].rpartition(":")[2], None)
        kind = named if isinstance(named, type) and issubclass(named, SurepickError) else kind
        said = said if problem["detail"] == answer.reason_phrase else str(problem["detail"])
    said += f" Here a token is an argument of the client, or in {OF_TOKEN}." if answer.status_code == 401 else ""
    return kind(said)  # type: ignore[no-any-return]
