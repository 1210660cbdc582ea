"""A run as it happens: leader, evidence against its target, pulls so far and pulls to come."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from surepick.learning.learner import Decision

BAR_WIDTH = 32


@contextmanager
def live_view(console: Console, title: str, label: Callable[[Any], str] = str) -> Iterator[Callable[..., None]]:
    """Yield a function that refreshes the view after a pull; without a terminal it does nothing."""
    with Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:

        def show(decision: Decision, *, arm: Any, remaining: float | None = None) -> None:
            """Show where things stand after a pull of `arm`; `remaining` pulls are expected, None if nobody says."""
            if live is not None:
                live.update(_panel(decision, arm, remaining, title, label), refresh=True)

        yield show


def arm_label(arm: Any, label: Callable[[Any], str] = str) -> str:
    """What an arm is called."""
    return "none yet" if arm is None else label(arm)


def state_line(decision: Decision, label: Callable[[Any], str]) -> str:
    """Where things stand, in one line."""
    pulls = "1 pull" if decision.n_pulls == 1 else f"{decision.n_pulls} pulls"
    leader = arm_label(decision.best, label)
    return f"{pulls}, leader {leader}, evidence {_evidence(decision):.2f} of {decision.target:.2f}"


def _evidence(decision: Decision) -> float:
    return max(decision.evidence, 0.0) if math.isfinite(decision.evidence) else 0.0


def _panel(
    decision: Decision, arm: Any, remaining: float | None, title: str, label: Callable[[Any], str]
) -> RenderableType:
    evidence = _evidence(decision)
    done = decision.target if decision.stopped else min(evidence, decision.target)
    bar = Table.grid(padding=(0, 1))
    filled = ProgressBar(total=max(decision.target, 1e-9), completed=done, width=BAR_WIDTH)
    bar.add_row(filled, f"{evidence:.2f} of {decision.target:.2f}")
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim")
    rows.add_column(min_width=BAR_WIDTH + 16)
    rows.add_row("last pull", f"arm {arm_label(arm, label)}")
    rows.add_row("leader", arm_label(decision.best, label), style="bold")
    rows.add_row("evidence", bar)
    rows.add_row("pulls", str(decision.n_pulls))
    if decision.stopped:
        rows.add_row("remaining", "none, it is decided")
    elif remaining is not None:
        rows.add_row("remaining", f"about {math.ceil(remaining)}" if math.isfinite(remaining) else "not known yet")
    return Panel(rows, title=title, title_align="left", expand=False, padding=(0, 1))
