"""Tokens by which a server knows who sends a request: their roles, and new ones.

A token is 256 random bits. The storage keeps its SHA-256 alone, so a copy of the database lets no one in.
"""

import hashlib
import secrets
from enum import StrEnum
from typing import TYPE_CHECKING

from surepick._texts import check_line
from surepick.errors import InvalidInput

if TYPE_CHECKING:
    from surepick.study.storage.base import TokenRow

PREFIX = "spk_"
"""By which programs that look for leaked secrets recognise a token."""
LONGEST_LABEL = 100


class Role(StrEnum):
    """What a token allows; each role includes those before."""

    READ = "read"
    TELL = "tell"
    ADMIN = "admin"

    def includes(self, other: "Role") -> bool:
        """Return whether this role allows what another one allows."""
        return _ROLES.index(self) >= _ROLES.index(other)


_ROLES = tuple(Role)


def new_token(role: Role, *, study: str | None = None, label: str = "") -> "tuple[TokenRow, str]":
    """Return a new token as the storage keeps it, and its secret, which is nowhere else."""
    from surepick.study.events import now, written  # noqa: PLC0415 (`--help` stays quick)
    from surepick.study.storage.base import TokenRow  # noqa: PLC0415

    if len(check_line("the label of a token", label)) > LONGEST_LABEL:
        raise InvalidInput(
            f"the label of a token must have at most {LONGEST_LABEL} characters, got {len(label)}; shorten it."
        )
    secret = PREFIX + secrets.token_urlsafe(32)
    return TokenRow(secrets.token_hex(4), digest_of(secret), role, study, label, written(now()), None), secret


def digest_of(secret: str) -> str:
    """Return the hash by which a storage keeps a token."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
