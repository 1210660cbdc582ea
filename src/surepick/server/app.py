"""The application: settings, limits, headers, errors as problem+json, health and metrics."""

import asyncio
import logging
import re
import reprlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, final

import uvicorn
from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from surepick._texts import to_json
from surepick._version import __version__
from surepick.errors import Conflict, InvalidInput, NoSuchStudy, StorageError, StudyExists, SurepickError
from surepick.server import api, new_study, pages
from surepick.server.studies import OpenStudies, TooBusy
from surepick.server.tokens import Tokens, check_origin, header
from surepick.study.storage import open_storage
from surepick.study.storage.base import ServerStorage

LOGGER = logging.getLogger("surepick.server")
health = APIRouter()
STATUS = {404: NoSuchStudy, 409: StudyExists | Conflict, 429: TooBusy, 503: StorageError, 422: SurepickError}
"""With its errors; the first that fits."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""Of every answer that has no others of these names."""
RULES = {"missing": "is needed", "extra_forbidden": "is no field here", "model_attributes_type": "must be an object"}
"""For errors of pydantic whose words name parts of a program."""
SAFE, UPLOADS, FREE = ("GET", "HEAD", "OPTIONS"), ("/new", "/api/v1/studies"), ("/sign-in", "/sign-out")
"""Methods that change nothing, paths of tables of arms, and paths of forms that need no token."""
METHODS = (*SAFE, "POST", "PUT", "PATCH", "DELETE")
MOST_ADDRESSES = 10_000
"""Addresses whose requests are counted; then counting begins anew."""


@final
@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Settings of a server."""

    storage: str
    """Path of an SQLite file, or the address of a PostgreSQL database."""
    host: str = "127.0.0.1"
    port: int = 8080
    root_path: str = ""
    """Prefix of all addresses behind a proxy, such as /lab."""
    longest_body: int = 1_000_000
    """Bytes of a request."""
    longest_upload: int = 5_000_000
    """Bytes of a table of arms."""
    queue: int = 1_000
    """Requests that wait for the writer of one study."""
    rate: int = 20_000
    """Requests a second from one address; 0: no limit."""
    slowest: float = 30.0
    """Seconds that a client may take to send a request."""


def create_app(settings: ServerSettings) -> FastAPI:
    """Return the application on a storage."""
    storage = open_storage(settings.storage)
    if not isinstance(storage, ServerStorage):
        raise InvalidInput(f"a server keeps studies in a file or a database, got {storage.address}.")
    studies = OpenStudies(storage, queue=settings.queue)
    more: Any = {"lifespan": lambda _: studies, "docs_url": None, "redoc_url": None}  # docs load scripts from elsewhere
    app = FastAPI(title="surepick", version=__version__, openapi_url="/api/v1/openapi.json", **more)
    app.state.settings, app.state.studies, app.state.tokens = settings, studies, Tokens(storage.tokens)
    app.state.registry = CollectorRegistry()
    for error in (SurepickError, StarletteHTTPException, RequestValidationError, Exception):
        app.add_exception_handler(error, _answer_error)
    for router in (api.router, health, pages.router, new_study.router):
        app.include_router(router)
    return app


# ---- health


@health.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}


@health.get("/readyz", responses=api.problems(503))
def readyz(request: Request) -> dict[str, str]:
    """Say that the storage answers."""
    request.app.state.studies.storage.names()
    return {"status": "ok"}


@health.get("/metrics", response_class=PlainTextResponse, responses=api.problems(401, 403))
async def metrics(request: Request, who: api.Reader) -> Response:
    """Return numbers of requests and their times by route, for Prometheus; no study is named."""
    return PlainTextResponse(generate_latest(request.app.state.registry))


# ---- errors


async def _answer_error(request: Request, error: Exception) -> Response:
    """Answer an error: to a program as problem+json (RFC 9457), to a browser as a page."""
    status, detail, headers = _said(error)
    detail = request.app.state.studies.public(detail)
    path = request.scope["path"].removeprefix(request.scope["root_path"])
    if not path.startswith("/api/") and path not in ("/readyz", "/metrics"):
        return await pages.error_page(request, status, detail)
    name = type(error).__name__ if isinstance(error, SurepickError) else "InvalidInput"
    kind = "about:blank" if isinstance(error, StarletteHTTPException) or status == 500 else f"urn:surepick:{name}"
    body = {"type": kind, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    again = {"Retry-After": "1"} if status in (429, 503) else {}
    return Response(to_json(body), status, {**again, **(headers or {})}, "application/problem+json")


def _said(error: Exception) -> tuple[int, str, Any]:
    """Return status, sentence and headers of an error."""
    match error:
        case StarletteHTTPException():
            return error.status_code, str(error.detail), error.headers
        case RequestValidationError():
            first = error.errors()[0]
            return 400 if first["type"] == "json_invalid" else 422, _malformed(first, error.body), None
        case SurepickError():
            return next(status for status, kind in STATUS.items() if isinstance(error, kind)), str(error), None
    return 500, "the server failed; its log says more.", None


def _malformed(error: Mapping[str, Any], here: Any) -> str:
    """Say what is wrong with a request: the first error that pydantic finds in the body `here`, or beside it."""
    (part, *way), said, place = error["loc"], str(error["msg"]), ""
    if error["type"] == "json_invalid":
        return f"the body must be JSON: {error['ctx']['error']} (character {way[0]})."
    for step in way:
        is_there = step in here if isinstance(here, dict) else isinstance(here, list) and isinstance(step, int)
        if is_there or part != "body" or (error["type"] == "missing" and step == way[-1]):  # others name a type
            place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else str(step)
            here = here[step] if is_there else None
    rule = RULES.get(error["type"]) or re.sub("^(Input|[A-Z][a-z]+) should ", "must ", said)
    got = "" if error["type"] in RULES else f", got {reprlib.repr(error['input'])}"
    return f"{place[:200] or 'the body'} {rule[:500]}{got}."


# ---- limits


async def _receive_again(content: bytes) -> Message:
    return {"type": "http.request", "body": content}


@final
class Guard:
    """Checks every request before its route sees it, and adds headers to every answer.

    Asks and results of asks, nearly all requests there are, go to their routes from here: FastAPI takes several times
    as long to read a request as it takes to answer it.
    """

    def __init__(self, app: FastAPI) -> None:
        self.app: ASGIApp = app
        self.settings, self.tokens = app.state.settings, app.state.tokens
        named: Any = {"labelnames": ("method", "route", "status"), "registry": app.state.registry}
        seconds = Histogram("surepick_request_seconds", "Seconds to answer.", **named)
        self._seconds = lru_cache(1_000)(seconds.labels)
        self._second, self._counts = 0, dict[str, int]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, status = time.perf_counter(), 0
        self._route(scope)

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in HEADERS if one[0] not in present)]
            await send(message)

        try:
            await self._answer(Request(scope, receive), send_guarded)
        except ClientDisconnect:
            LOGGER.info("a client has gone before it had sent its request")
        except Exception as error:
            if not isinstance(error, SurepickError | HTTPException):
                LOGGER.exception("%s failed", scope["method"])
            if status not in (0, 500):
                raise  # the answer has begun
            if not status:
                await (await _answer_error(Request(scope, receive), error))(scope, receive, send_guarded)
        finally:
            route = getattr(scope.get("route"), "path_format", "other")  # with no name of a study in it
            method = scope["method"] if scope["method"] in METHODS else "other"  # a client may make up any number
            self._seconds(method, route, status or 500).observe(time.perf_counter() - began)

    async def _answer(self, request: Request, send: Send) -> None:
        scope, receive, answer = request.scope, request.receive, self.app
        self._count(scope["client"][0] if scope["client"] else "")
        if request.method not in SAFE:
            content = await self._checked(request)
            receive = partial(_receive_again, content)
            if request.method == "POST" and (hot := api.HOT.fullmatch(scope["path"], len(self.settings.root_path))):
                answer = await api.answer_hot(request, content, *hot.groups()) or self.app
        await answer(scope, receive, send)

    def _route(self, scope: Scope) -> None:
        """Let routes see the path as it was sent, so that a name may have a slash; with the prefix, sent or not."""
        prefix, sent = self.settings.root_path, scope["raw_path"].decode("latin-1")
        scope["app"], scope["root_path"] = self.app, prefix
        scope["path"] = sent if sent.startswith(f"{prefix}/") else f"{prefix}{sent}"

    async def _checked(self, request: Request) -> bytes:
        """Check origin, token and type of a request that changes something; return its body."""
        check_origin(request)
        path = request.scope["path"].removeprefix(self.settings.root_path)
        is_api, is_upload = path.startswith("/api/"), path in UPLOADS
        if path not in FREE:
            request.scope["identity"] = await self.tokens.identify(request)  # before its body is read
        kind = header(request, b"content-type").partition(";")[0].strip().lower()
        has_body = header(request, b"content-length", "0") != "0" or header(request, b"transfer-encoding") != ""
        if has_body and is_api and kind != "application/json":
            raise HTTPException(415, f"a body must be JSON, got {kind[:100]!r}; send Content-Type: application/json.")
        longest, content = self.settings.longest_upload if is_upload else self.settings.longest_body, bytearray()
        try:
            async with asyncio.timeout(self.settings.slowest):
                async for part in request.stream():
                    content += part
                    if len(content) > longest:
                        raise HTTPException(413, f"a request must have at most {longest:,} bytes; send less.")
        except TimeoutError:
            said = f"a request must arrive within {self.settings.slowest:.3g} seconds; send it again."
            raise HTTPException(408, said) from None
        return bytes(content)

    def _count(self, address: str) -> None:
        """Refuse an address that sends too many requests within a second."""
        if (now := int(time.monotonic())) != self._second or len(self._counts) > MOST_ADDRESSES:
            self._second, self._counts = now, {}
        self._counts[address] = self._counts.get(address, 0) + 1
        if 0 < (rate := self.settings.rate) < self._counts[address]:
            raise HTTPException(429, f"more than {rate:,} requests a second came from your address; wait.")


@final
class Server(uvicorn.Server):
    """A server that ends open streams when it stops, and closes connections that send no request.

    Args:
        settings: of the server.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.app = create_app(settings)
        # No access log: addresses have names of studies.
        quiet: Any = {"access_log": False, "log_level": "warning", "server_header": False, "ws": "none"}
        quiet |= {"host": settings.host, "port": settings.port, "timeout_graceful_shutdown": 10}
        super().__init__(uvicorn.Config(Guard(self.app), **quiet))
        self._ticks, self._known = max(round(10 * settings.slowest), 1), dict[Any, Any]()

    async def on_tick(self, counter: int) -> bool:
        """Close connections that have sent no request since the last look; called ten times a second."""
        if counter % self._ticks == 0:
            connections: Any = self.server_state.connections
            before, self._known = self._known, {one: one.cycle for one in connections}
            for one, request in self._known.items():
                if before.get(one, self) is request:
                    one.shutdown()  # unless it is being answered
        return await super().on_tick(counter)

    async def shutdown(self, sockets: Any = None) -> None:
        """Stop."""
        self.app.state.studies.stop()
        await super().shutdown(sockets)
