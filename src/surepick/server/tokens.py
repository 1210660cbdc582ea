"""Who may do what: roles, tokens, the cookie of the dashboard, and which requests of browsers are refused.

A token is 256 random bits. The storage keeps its SHA-256 alone, so a copy of the database lets no one in. A storage
without tokens is open to this machine, and to no other.
"""

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, final
from urllib.parse import urlsplit

from fastapi import HTTPException, Request, Response
from starlette.concurrency import run_in_threadpool

from surepick._texts import check_line
from surepick.errors import InvalidInput, NoSuchStudy
from surepick.study.events import now, written
from surepick.study.storage.base import TokenRow, no_such_study

COOKIE = "surepick_token"
PREFIX = "spk_"
"""By which programs that look for leaked secrets recognise a token."""
FRESH = 1.0
"""Seconds for which tokens are kept in memory: a token that is revoked ends after this time at the latest."""
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
OF_PROXIES = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers by which a proxy shows: other machines may be behind it."""
A_YEAR = 365 * 86_400


class Role(IntEnum):
    """What a token allows; each role includes those before."""

    READ = 1
    TELL = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """As the storage and the command line write it."""
        return self.name.lower()


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


def new_token(role: Role, *, study: str | None = None, label: str = "") -> tuple[TokenRow, str]:
    """Return a new token as the storage keeps it, and its secret, which is nowhere else."""
    if len(check_line("the label of a token", label)) > 100:
        raise InvalidInput(f"the label of a token must have at most 100 characters, got {len(label)}; shorten it.")
    secret = PREFIX + secrets.token_urlsafe(32)
    at = written(now())
    return TokenRow(secrets.token_hex(4), _digest(secret), role.word, study, label, at, None), secret


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


@final
class Tokens:
    """The tokens of a storage.

    Args:
        read: returns all tokens of the storage, those revoked included.
    """

    def __init__(self, read: Callable[[], list[TokenRow]]) -> None:
        self._read = read
        self._known = list[TokenRow]()
        self._read_at = -FRESH

    async def _rows(self) -> list[TokenRow]:
        if time.monotonic() - self._read_at >= FRESH:
            now = time.monotonic()
            self._known, self._read_at = await run_in_threadpool(self._read), now
        return self._known

    async def identify(self, request: Request) -> Identity:
        """Return who sends a request.

        Raises:
            HTTPException: 401 without a token that holds; 403 from elsewhere while there are no tokens.
        """
        rows = await self._rows()
        if not rows:
            _check_local(request)
            return Identity(role=Role.ADMIN)
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        secret = given.strip() if scheme.lower() == "bearer" else None
        cookie = request.cookies.get(COOKIE)
        return self._identity(rows, secret or cookie, by_cookie=not secret)

    async def of_secret(self, secret: str) -> Identity:
        """Return who has a secret, for signing in.

        Raises:
            HTTPException: 401, there is no such token, or it is revoked.
        """
        return self._identity(await self._rows(), secret, by_cookie=True)

    async def holds(self, identity: Identity) -> bool:
        """Return whether an identity is still allowed: its token is not revoked."""
        rows = await self._rows()
        return not rows if identity.token is None else any(_is_valid(row) and row.id == identity.token for row in rows)

    def _identity(self, rows: list[TokenRow], secret: str | None, *, by_cookie: bool) -> Identity:
        if not secret:
            raise _unknown("this server needs a token; send it as `Authorization: Bearer ...`, or sign in.")
        digest = _digest(secret)
        found = [row for row in rows if hmac.compare_digest(row.digest, digest)]
        if not found or not _is_valid(found[0]):
            raise _unknown("the token is unknown or revoked; create one by `surepick token create`.")
        (row,) = found
        role = Role[row.role.upper()]
        return Identity(role=role, study=row.study, label=row.label, by_cookie=by_cookie, token=row.id)


def _is_valid(row: TokenRow) -> bool:
    return row.revoked_at is None


def _unknown(detail: str) -> HTTPException:
    return HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})


def is_loopback(host: str) -> bool:
    """Return whether an address or name of a host is that of this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _check_local(request: Request) -> None:
    """Refuse other machines, and names that a stranger's page gave to this machine (DNS rebinding)."""
    host = request.headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    is_local = name in LOCAL_NAMES and request.client is not None and is_loopback(request.client.host)
    if not is_local or any(header in request.headers for header in OF_PROXIES):
        raise HTTPException(
            403, "a server without tokens serves this machine as localhost alone; create one: surepick token create."
        )


def check_origin(request: Request) -> None:
    """Refuse a request that changes something and comes from a page of another site.

    Raises:
        HTTPException: 403.
    """
    site = request.headers.get("sec-fetch-site", "none")
    origin = request.headers.get("origin")
    own = request.headers.get("host", "")
    if site not in ("same-origin", "none") or (origin is not None and urlsplit(origin).netloc != own):
        raise HTTPException(403, "a page of another site sent this request; open this server's own page and try again.")


def requires(role: Role) -> Callable[[Request], Awaitable[Identity]]:
    """Return a dependency: who sends the request, if that role and the study of the path are allowed."""

    async def identified(request: Request) -> Identity:
        identity: Identity = await request.app.state.tokens.identify(request)
        name = request.path_params.get("name")
        if name is not None and not identity.sees(name):
            raise hidden(name, identity)
        if identity.role < role:
            raise HTTPException(403, f"this needs a token of the role {role.word}, got one of {identity.role.word}.")
        return identity

    return identified


def hidden(name: str, identity: Identity) -> NoSuchStudy:
    """Return the error for a study that a token does not show: the same as for one that does not exist."""
    return no_such_study(name, [identity.study or ""], "this server")


def set_cookie(request: Request, response: Response, secret: str) -> None:
    """Let a browser stay signed in."""
    response.set_cookie(COOKIE, secret, max_age=A_YEAR, **_of_cookie(request))


def clear_cookie(request: Request, response: Response) -> None:
    """Sign a browser out."""
    response.delete_cookie(COOKIE, **_of_cookie(request))


def _of_cookie(request: Request) -> dict[str, Any]:
    path = request.app.state.settings.root_path or "/"
    return {"path": path, "secure": request.url.scheme == "https", "httponly": True, "samesite": "strict"}
