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
from surepick.learning.explain import (
    confidence_words,
    counted,
    joined,
    lead_words,
    leaders_words,
    left_to_do,
    near_tie_words,
    rival_words,
    stopping_now,
)
from surepick.learning.identify import Progress
from surepick.learning.snapshot import Standing

BAR_WIDTH = 32


OPTION = "--epsilon "


@contextmanager
def live_view(console: Console, title: str, label: Callable[[Any], str] = str) -> Iterator[Callable[..., None]]:
    """Yield a function that refreshes the view after a pull; without a terminal it does nothing."""
    with Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:

        def show(look: Callable[[], Standing], *, arm: Any) -> None:
            """Show where things stand after a pull of `arm`."""
            if live is not None:
                live.update(_panel(look(), arm, title, label), refresh=True)

        yield show


def arm_label(arm: Any, label: Callable[[Any], str] = str) -> str:
    """What an arm is called."""
    return "none yet" if arm is None else label(arm)


def state_line(standing: Standing, label: Callable[[Any], str]) -> str:
    """Where things stand, in one line."""
    pulls = counted(standing.n_pulls, "pull")
    if standing.leader is None:
        return f"{pulls}, no leader yet"
    rival = rival_words(standing, label, before=", rival ")
    leads = leaders_words(standing, label).replace("Leader", "leader", 1)
    return f"{pulls}, {leads}{rival}; confidence {confidence_words(standing)}"


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
        near = near_tie_words(progress.standing, self._label, epsilon_is=OPTION)
        self._due = 2 * n if near else n + n // 8 + 1
        return f"Near tie with {near}." if near else ""


def _panel(standing: Standing, arm: Any, title: str, label: Callable[[Any], str]) -> RenderableType:
    bar = Table.grid(padding=(0, 1))
    bar.add_row(ProgressBar(total=1.0, completed=standing.share, width=BAR_WIDTH), confidence_words(standing))
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim")
    rows.add_column(min_width=BAR_WIDTH + 16)
    rows.add_row("last pull", f"arm {arm_label(arm, label)}")
    named = arm_label(None) if standing.leader is None else joined([label(leader) for leader in standing.leaders])
    rows.add_row("leaders" if standing.ahead else "leader", named, style="bold")
    if standing.rival is not None:
        rows.add_row("rival", label(standing.rival))
        rows.add_row("ahead by", lead_words(standing))
    rows.add_row("confidence", bar)
    rows.add_row("pulls", f"{standing.n_pulls:,}")
    if standing.stopped:
        rows.add_row("remaining", "none, it is decided")
    elif standing.leader is not None and standing.guarantee != "withdrawn":
        if cost := stopping_now(standing, label(standing.leader)):
            rows.add_row("stop now", cost)
        rows.add_row("remaining", left_to_do(standing))
    if near := near_tie_words(standing, label, epsilon_is=OPTION):
        rows.add_row("near tie", near)
    return Panel(rows, title=Text(shown(title)), title_align="left", expand=False, padding=(0, 1))
