"""The betting rule: the words that logs keep, and the largest misfit that a verdict bears."""

import numpy as np
import pytest

from benchmarks.bet_variants import PlainBetting
from surepick.core.checks import written
from surepick.stopping.betting import Betting, largest_margin


def test_the_rule_is_written_as_logs_of_before_have_it() -> None:
    """The identity in the first event holds these words; other sizes of bets have words of their own."""
    assert written(Betting()) == "Betting(sizes='shrunk', name='betting', guarantee='proved')"
    assert written(PlainBetting()) == "PlainBetting(sizes='plain', name='betting-plain', guarantee='proved')"


@pytest.mark.parametrize(
    ("true", "found"), [(0.37, 0.37), (5.0, 5.0), (0.0, 0.0), (-1.0, None), (np.inf, np.inf), (1e7, np.inf)]
)
def test_the_largest_margin(true: float, found: float | None) -> None:
    """From below, to a thousandth of where it was looked for, with few replays; none if nothing holds."""
    asked = []

    def replay(eta: float) -> bool:
        asked.append(eta)
        return eta <= true

    margin = largest_margin(replay, 2.0)
    assert margin == pytest.approx(found, abs=1e-2)
    assert margin is None or margin <= true or true == 1e7
    assert len(asked) <= 22


def test_a_margin_is_never_below_what_was_allowed_for() -> None:
    """Also where the search would end a little below it."""
    assert largest_margin(lambda eta: eta <= 0.3, 1.0, least=0.3) == 0.3
