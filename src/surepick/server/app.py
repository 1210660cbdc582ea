"""The application: settings, limits, headers, errors as problem+json, health and metrics."""

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from importlib import import_module
from importlib.util import find_spec
from typing import Any, final

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from surepick._version import __version__
from surepick.errors import Conflict, InvalidInput, NoSuchStudy, StorageError, StudyExists, SurepickError
from surepick.server import api
from surepick.server.studies import OpenStudies, TooBusy, to_json
from surepick.server.tokens import Role, Tokens, check_origin, requires
from surepick.study.storage import open_storage
from surepick.study.storage.base import ServerStorage

LOGGER = logging.getLogger("surepick.server")
STATUS: dict[type[Exception], int] = {
    NoSuchStudy: 404,
    StudyExists: 409,
    Conflict: 409,
    InvalidInput: 422,
    TooBusy: 429,
    StorageError: 503,
    SurepickError: 422,
}
"""By class of error; the first that fits."""
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}
SAFE = ("GET", "HEAD", "OPTIONS")
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
    rate: int = 5_000
    """Requests a second from one address; 0: no limit."""


def create_app(settings: ServerSettings) -> FastAPI:
    """Return the application on a storage."""
    storage = open_storage(settings.storage)
    if not isinstance(storage, ServerStorage):
        raise InvalidInput(f"a server keeps studies in a file or a database, got {storage.address}.")
    studies = OpenStudies(storage, queue=settings.queue)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        studies.start()
        yield
        await studies.close()

    app = FastAPI(
        title="surepick",
        version=__version__,
        description="Studies: find the best of many options from noisy, costly measurements, with a guarantee.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
    )
    app.state.settings, app.state.studies = settings, studies
    app.state.tokens = Tokens(storage.tokens)
    app.state.metrics = Metrics(studies)
    app.add_middleware(Guard, settings=settings, metrics=app.state.metrics)
    for error in (SurepickError, StarletteHTTPException, RequestValidationError):
        app.add_exception_handler(error, _answer_error)
    app.include_router(api.router)
    _add_health(app)
    for module in ("pages", "new_study"):
        if find_spec(f"surepick.server.{module}") is not None:
            found = import_module(f"surepick.server.{module}")
            app.include_router(found.router)
            app.state.error_page = getattr(found, "error_page", getattr(app.state, "error_page", None))
    return app


def _add_health(app: FastAPI) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Say that the process answers."""
        return {"status": "ok"}

    @app.get("/readyz", responses=api.problems(503))
    def readyz(request: Request) -> dict[str, str]:
        """Say that the storage answers."""
        request.app.state.studies.storage.names()
        return {"status": "ok"}

    of_metrics: Any = {"response_class": PlainTextResponse, "responses": api.problems(401, 403)}

    @app.get("/metrics", dependencies=[Depends(requires(Role.READ))], **of_metrics)
    async def metrics(request: Request) -> Response:
        """Return numbers about the server, for Prometheus."""
        return PlainTextResponse(generate_latest(request.app.state.metrics.registry))


@final
class Metrics:
    """Numbers about a server, for Prometheus."""

    def __init__(self, studies: OpenStudies) -> None:
        self.registry = CollectorRegistry()
        known = ["method", "route", "status"]
        self.requests = Counter("surepick_requests", "Requests answered.", known, registry=self.registry)
        self.seconds = Histogram("surepick_seconds", "Seconds until the answer.", ["route"], registry=self.registry)
        waiting = Gauge("surepick_waiting", "Requests that wait to be written.", registry=self.registry)
        waiting.set_function(lambda: studies.n_waiting)
        listening = Gauge("surepick_listening", "Streams that are open.", registry=self.registry)
        listening.set_function(lambda: studies.n_listening)

    def count(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request by its route, which contains no name."""
        route = getattr(scope.get("route"), "path_format", "other")
        self.requests.labels(scope["method"], route, status).inc()
        self.seconds.labels(route).observe(seconds)


# ---- errors


def problem(status: int, detail: str, *, kind: str = "", headers: Any = None) -> Response:
    """Return an error as problem+json (RFC 9457)."""
    title = HTTPStatus(status).phrase
    body = {"type": f"urn:surepick:{kind}" if kind else "about:blank", "title": title, "status": status}
    more = {"Retry-After": "1"} if status in (429, 503) else {}
    return Response(
        to_json({**body, "detail": detail}), status, {**more, **(headers or {})}, "application/problem+json"
    )


async def _answer_error(request: Request, error: Exception) -> Response:
    """Answer an error: to a program as problem+json, to a browser as a page."""
    status, detail, headers = _said(error)
    address = request.app.state.studies.storage.address
    detail = detail.replace(f"in {address}", "on this server").replace(address, "this server")
    page = getattr(request.app.state, "error_page", None)
    if page is not None and not request.scope["path"].startswith(f"{request.scope['root_path']}/api/"):
        answered: Response = await page(request, status, detail)
        return answered
    is_of_study = isinstance(error, SurepickError)
    kind = type(error).__name__ if is_of_study else "InvalidInput" if status in (400, 422) else ""
    return problem(status, detail, kind=kind, headers=headers)


def _said(error: Exception) -> tuple[int, str, Any]:
    """Return status, sentence and headers of an error."""
    match error:
        case StarletteHTTPException():
            return error.status_code, str(error.detail), error.headers
        case RequestValidationError():
            first = error.errors()[0]
            is_malformed = first["type"] == "json_invalid"
            place = ".".join(map(str, first["loc"]))
            return 400 if is_malformed else 422, f"{place[:200]}: {first['msg'][:500]}.", None
    return next(status for kind, status in STATUS.items() if isinstance(error, kind)), str(error), None


# ---- limits


@final
class Guard:
    """Checks every request before its route sees it, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self._second, self._counts = 0, dict[str, int]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        self._route(scope)

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name.lower() for name, _ in message["headers"]}
                more = {**HEADERS, "cache-control": "no-store"}
                fresh = [(name.encode(), text.encode()) for name, text in more.items() if name.encode() not in present]
                message = {**message, "headers": [*message["headers"], *fresh]}
            await send(message)

        try:
            receive = await self._checked(Request(scope, receive))
            await self.app(scope, receive, send_guarded)
        except HTTPException as error:
            await (await _answer_error(Request(scope, receive), error))(scope, receive, send_guarded)
        except Exception:
            LOGGER.exception("%s failed", scope["method"])
            if status != 500:
                raise  # the answer has begun
            await problem(500, "the server failed; its log says more.")(scope, receive, send_guarded)
        finally:
            self.metrics.count(scope, status, time.perf_counter() - began)

    def _route(self, scope: Scope) -> None:
        """Let routes see the path as it was sent, so that a name may have a slash; with the prefix, sent or not."""
        prefix, sent = self.settings.root_path, scope["raw_path"].decode("latin-1")
        scope["root_path"] = prefix
        scope["path"] = sent if sent.startswith(f"{prefix}/") else f"{prefix}{sent}"

    async def _checked(self, request: Request) -> Receive:
        """Check rate, origin, type and length; return the body."""
        self._count(request.client.host if request.client else "")
        if request.method in SAFE:
            return request.receive
        check_origin(request)
        path = request.scope["path"].removeprefix(self.settings.root_path)
        is_upload = path in ("/new", "/api/v1/studies") or path.startswith("/new/")
        body = await self._body(request, self.settings.longest_upload if is_upload else self.settings.longest_body)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and path.startswith("/api/") and kind != "application/json":
            raise HTTPException(415, f"a body must be JSON, got {kind[:100]!r}; send Content-Type: application/json.")

        async def received() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        return _then(received, request.receive)

    async def _body(self, request: Request, longest: int) -> bytes:
        parts, length = list[bytes](), 0
        async for part in request.stream():
            length += len(part)
            if length > longest:
                raise HTTPException(413, f"a request must have at most {longest:,} bytes; send less at a time.")
            parts.append(part)
        return b"".join(parts)

    def _count(self, address: str) -> None:
        """Refuse an address that sends too many requests within a second."""
        now = int(time.monotonic())
        if now != self._second or len(self._counts) > MOST_ADDRESSES:
            self._second, self._counts = now, {}
        self._counts[address] = self._counts.get(address, 0) + 1
        if 0 < self.settings.rate < self._counts[address]:
            raise HTTPException(
                429, f"more than {self.settings.rate:,} requests a second came from your address; wait."
            )


def _then(first: Receive, rest: Receive) -> Receive:
    """Receive one message, then the others: that the client has gone."""
    is_first = True

    async def receive() -> Message:
        nonlocal is_first
        if is_first:
            is_first = False
            return await first()
        return await rest()

    return receive


@final
class Server(uvicorn.Server):
    """A server that ends open streams when it stops, and so does not wait for them.

    Args:
        settings: of the server.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.app = create_app(settings)
        address: dict[str, Any] = {"host": settings.host, "port": settings.port}
        # No access log: the address of a page has names of studies.
        quiet: dict[str, Any] = {"access_log": False, "log_level": "warning", "server_header": False}
        super().__init__(uvicorn.Config(self.app, **address, **quiet, timeout_graceful_shutdown=10))

    async def shutdown(self, sockets: Any = None) -> None:
        """Stop."""
        self.app.state.studies.stop()
        await super().shutdown(sockets)
