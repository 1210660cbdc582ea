"""Who may do what: roles, tokens, the cookie of the dashboard, and which requests of browsers are refused.

A storage without tokens is open to this machine, and to no other.
"""

import asyncio
import hmac
import ipaddress
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final
from urllib.parse import urlsplit

from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool

from surepick.study.storage.base import TokenRow, no_such_study
from surepick.study.tokens import Role, digest_of

COOKIE = "surepick_token"
FRESH = 1.0
"""Seconds for which tokens are kept in memory: a token that is revoked ends after this time at the latest."""
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
OF_PROXIES = frozenset((b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via"))
"""Headers by which a proxy shows: other machines may be behind it."""
A_YEAR = 365 * 86_400


@final
@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who sends a request."""

    role: Role
    study: str | None = None
    """The only study that is visible; None: all."""
    label: str = ""
    by_cookie: bool = False
    """Whether a browser has signed in."""
    token: str | None = None
    """Id of the token; None where the storage has no tokens."""

    @property
    def author(self) -> str:
        """Named in the log where a request names no worker."""
        return self.label or ("dashboard" if self.by_cookie else "api")

    def sees(self, name: str) -> bool:
        """Return whether a study of this name is visible."""
        return self.study is None or self.study == name


@final
class Tokens:
    """The tokens of a storage.

    Args:
        read: returns all tokens of the storage, those revoked included.
    """

    def __init__(self, read: Callable[[], list[TokenRow]]) -> None:
        self._read = read
        self._known, self._read_at = list[TokenRow](), -FRESH
        self._reading: asyncio.Task[None] | None = None

    async def _rows(self) -> list[TokenRow]:
        if time.monotonic() - self._read_at >= FRESH:
            # One reads for all who wait: hundreds of requests would read at once, every second.
            self._reading = self._reading or asyncio.create_task(self._read_again())
            await asyncio.shield(self._reading)
        return self._known

    async def _read_again(self) -> None:
        began = time.monotonic()
        try:
            self._known, self._read_at = await run_in_threadpool(self._read), began
        finally:
            self._reading = None

    async def identify(self, request: Request) -> Identity:
        """Return who sends a request.

        Raises:
            HTTPException: 401 without a token that holds; 403 from elsewhere while there are no tokens.
        """
        if not await self._rows():
            _check_local(request)
            return Identity(role=Role.ADMIN)
        scheme, _, given = header(request, b"authorization").partition(" ")
        secret = given.strip() if scheme.lower() == "bearer" else ""
        return await self.of_secret(secret or request.cookies.get(COOKIE, ""), by_cookie=not secret)

    async def of_secret(self, secret: str, *, by_cookie: bool = True) -> Identity:
        """Return who has a secret.

        Raises:
            HTTPException: 401, there is no such token, or it is revoked.
        """
        digest, known = digest_of(secret), await self._rows()
        found = [row for row in known if hmac.compare_digest(row.digest, digest) and row.revoked_at is None]
        if not found:
            said = "the token is unknown or revoked; make one for the --storage of this server: surepick token create."
            if not secret:
                said = "this server needs a token; send it as `Authorization: Bearer ...`, or sign in."
            raise HTTPException(401, said, {"WWW-Authenticate": "Bearer"})
        row = found[0]
        return Identity(role=Role(row.role), study=row.study, label=row.label, token=row.id, by_cookie=by_cookie)

    async def holds(self, identity: Identity) -> bool:
        """Return whether an identity is still allowed: its token is not revoked."""
        rows = await self._rows()
        if identity.token is None:
            return not rows
        return any(row.id == identity.token and row.revoked_at is None for row in rows)


def header(request: Request, name: bytes, absent: str = "") -> str:
    """Return the first header of a name; `request.headers` goes through all of them for every question."""
    known: dict[bytes, bytes] | None = request.scope.get("headers by name")
    if known is None:
        known = request.scope["headers by name"] = dict(reversed(request.scope["headers"]))
    return known[name].decode("latin-1") if name in known else absent


@lru_cache(1_000)
def is_loopback(host: str) -> bool:
    """Return whether an address or name of a host is that of this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _check_local(request: Request) -> None:
    """Refuse other machines, and names that a stranger's page gave to this machine (DNS rebinding)."""
    host, client = header(request, b"host"), request.scope["client"]
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    is_local = name in LOCAL_NAMES and client is not None and is_loopback(client[0])
    if not is_local or not OF_PROXIES.isdisjoint(request.scope["headers by name"]):
        raise HTTPException(
            403, "a server without tokens serves localhost alone; create one for its --storage: surepick token create."
        )


def check_origin(request: Request) -> None:
    """Refuse a request that changes something and comes from a page of another site.

    Raises:
        HTTPException: 403.
    """
    site, origin = header(request, b"sec-fetch-site", "none"), header(request, b"origin")
    is_own = not origin or urlsplit(origin).netloc == header(request, b"host")
    if site not in ("same-origin", "none") or not is_own:
        raise HTTPException(403, "a page of another site sent this request; open this server's own page and try again.")


def check_role(identity: Identity, role: Role) -> None:
    """Refuse a request that the role of its sender does not allow.

    Raises:
        HTTPException: 403.
    """
    if not identity.role.includes(role):
        raise HTTPException(403, f"this needs a token of the role {role}, got one of {identity.role}.")


def requires(role: Role) -> Callable[[Request], Awaitable[Identity]]:
    """Return a dependency: who sends the request, if that role and the study of the path are allowed.

    A study that the token does not show is answered like one that does not exist.
    """

    async def identified(request: Request) -> Identity:
        identity: Identity = request.scope.get("identity") or await request.app.state.tokens.identify(request)
        if (name := request.path_params.get("name")) is not None and not identity.sees(name):
            raise no_such_study(name, [identity.study or ""], "this server")
        check_role(identity, role)
        return identity

    return identified


def cookie_options(request: Request) -> dict[str, Any]:
    """Return the options of the cookie by which a browser stays signed in."""
    path = request.app.state.settings.root_path or "/"
    return {"path": path, "secure": request.url.scheme == "https", "httponly": True, "samesite": "strict"}
