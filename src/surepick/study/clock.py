"""Times in the log, and how long a lease lasts.

Times are written in one form, in UTC, so that comparing texts compares times. Nothing that is decided depends on them:
that a lease has run out is an event of its own, and a clock that jumps makes it come too early or too late, no more.
`Leases` keeps it from coming too early wherever a process has seen the ask being made.
"""

import math
import re
import time
from collections.abc import Container
from datetime import UTC, datetime, timedelta
from typing import Any, final

from surepick.errors import InvalidInput

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_LEASE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw]?)\s*")
_LONGEST = timedelta(days=36_500)


def now() -> datetime:
    """The time by this machine's clock."""
    return datetime.now(UTC)


def elapsed() -> float:
    """Seconds since some moment, by a clock that cannot be set; with the time that the system slept, if it can say."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def written(moment: datetime) -> str:
    """A time as the log has it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


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


@final
class Leases:
    """How long a process has known of asks, so that it ends no lease that cannot have run out.

    A wrong clock says that leases are over which are not. So a process that saw an ask being made also measures how
    long ago that was. Of asks from before it began to follow the log, a process has nothing but their times to go by.
    """

    def __init__(self) -> None:
        self._looked: float | None = None
        self._n_known = 0
        self._since: dict[int, float] = {}

    def look(self, n_asks: int) -> None:
        """Take note that there are `n_asks` asks by now: new ones were made after the look before."""
        if self._looked is not None:
            self._since |= dict.fromkeys(range(self._n_known + 1, n_asks + 1), self._looked)
        self._n_known, self._looked = n_asks, elapsed()

    def may_be_over(self, ask: int, at: str, until: str) -> bool:
        """Whether a lease that was given at one time until another can have run out."""
        length = datetime.fromisoformat(until) - datetime.fromisoformat(at)
        return elapsed() - self._since.get(ask, -math.inf) >= length.total_seconds()

    def keep(self, asks: Container[int]) -> None:
        """Forget all other asks."""
        self._since = {ask: since for ask, since in self._since.items() if ask in asks}
