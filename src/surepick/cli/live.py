"""A run as it happens: leader and rival, how sure that is, pulls so far and pulls to come."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, final

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from surepick._texts import shown
from surepick.learning.explain import facts, near_tie
from surepick.learning.identify import Progress
from surepick.learning.snapshot import Snapshot

BAR_WIDTH = 32


OPTION = "--epsilon "


@contextmanager
def live_view(console: Console, title: str, label: Callable[[Any], str] = str) -> Iterator[Callable[..., None]]:
    """Yield a function that refreshes the view after a pull; without a terminal it does nothing."""
    with Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:

        def show(look: Callable[[], Snapshot], *, arm: Any) -> None:
            """Show what is known after a pull of `arm`."""
            if live is not None:
                live.update(_panel(look(), arm, title, label), refresh=True)

        yield show


@final
class NearTies:
    """Announces a near tie when it shows, and again when the pulls have doubled.

    Args:
        label: what arms are called.
    """

    def __init__(self, label: Callable[[Any], str]) -> None:
        self._label = label
        self._due = 0
        """From so many pulls on it is looked at again: that takes two passes over all arms."""

    def news(self, progress: Progress) -> str:
        """Return what is to be announced after a pull, mostly nothing."""
        n = progress.n_pulls
        if n < self._due:
            return ""
        near = near_tie(progress.snapshot, self._label, epsilon_is=OPTION)
        self._due = 2 * n if near else n + n // 8 + 1
        return f"Near tie with {near}." if near else ""


def _panel(now: Snapshot, arm: Any, title: str, label: Callable[[Any], str]) -> RenderableType:
    said = {"last pull": f"arm {label(arm)}", **facts(now, label, epsilon_is=OPTION), "pulls": f"{now.n_pulls:,}"}
    if now.stopped:
        said["remaining"] = "none, it is decided"
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim")
    rows.add_column(min_width=BAR_WIDTH + 16)
    for word, text in said.items():
        cell: RenderableType = text
        if word == "confidence":
            cell = Table.grid(padding=(0, 1))
            cell.add_row(ProgressBar(total=1.0, completed=now.share, width=BAR_WIDTH), text)
        rows.add_row(word, cell, style="bold" if word in ("leader", "leaders", "best") else None)
    return Panel(rows, title=Text(shown(title)), title_align="left", expand=False, padding=(0, 1))
