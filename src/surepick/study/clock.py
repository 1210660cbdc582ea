"""Times in the log, and how long a lease lasts.

Times are written in one form, in UTC, so that comparing texts compares times. Nothing that is decided depends on them:
that a lease has run out is an event of its own, and a clock that jumps makes it come too early or too late, no more.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from surepick.errors import InvalidInput

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_LEASE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw]?)\s*")
_LONGEST = timedelta(days=36_500)


def now() -> datetime:
    """The time by this machine's clock."""
    return datetime.now(UTC)


def written(time: datetime) -> str:
    """A time as the log has it."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def lease_length(lease: Any) -> timedelta | None:
    """Return how long a lease lasts: "90s", "30m", "2h", "3d", "1w", seconds, or None for ever."""
    if lease is None or (isinstance(lease, str) and lease.lower() == "none"):
        return None
    if isinstance(lease, str) and (match := _LEASE.fullmatch(lease)) is not None:
        lease = float(match[1]) * _SECONDS[match[2]]
    if isinstance(lease, int | float) and lease is not True and lease <= 1e10:  # NaN is not
        lease = timedelta(seconds=lease)
    if not isinstance(lease, timedelta) or not timedelta(0) < lease <= _LONGEST:
        raise InvalidInput(
            '`lease` must be a positive time such as "30m", "2h" or "3d", a number of seconds, or none for ever, got '
            f"{lease!r}."
        )
    return lease
