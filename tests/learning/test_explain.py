"""Words on the screen: in every state they say nothing odd and do not contradict each other."""

import io
import math
import re
import warnings
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import surepick as sp
from surepick.cli.output import EPSILON_IS, live_panel
from surepick.learning.explain import (
    confidence,
    label_of,
    lead_words,
    near_tie,
    sentences,
    state_line,
    stopping_now,
)
from surepick.learning.snapshot import NearTie, Snapshot

X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.4, 0.4, 0.1], [0.5, 0.2, 0.6]])
NAMES = ["F-18", "F-04", "F-07", "F-11", "F-23"]


def found(n: int | None, theta: Any, scale: float = 0.3, **options: Any) -> sp.Result:
    """Return what n pulls with Gaussian noise of this scale say."""
    rng = np.random.default_rng(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.NoiseWarning)
        arms = sp.FiniteArms(X, names=NAMES)
        return sp.identify(arms, lambda arm: X[arm] @ theta + scale * rng.standard_normal(), max_pulls=n, **options)


CLEAR, TIE = [1.0, 0.5, 0.2], [1.0, 0.9999, 0.2]
STATES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "before span": ({"n": 2, "theta": CLEAR}, ["No leader yet: 2 pulls"]),
    "just spanned, noise unknown": ({"n": 4, "theta": CLEAR}, ["Not decided (4 pulls). Leader ", "too early to say"]),
    "leading": ({"n": 20, "theta": CLEAR, "noise_std": 0.3}, ["Leader F-18, runner-up ", "Stop now: F-18 is at most"]),
    "leading, noise unknown": ({"n": 40, "theta": TIE}, ["Not decided (40 pulls)", "To be sure: "]),
    "near tie": ({"n": 80, "theta": TIE, "noise_std": 0.3}, ["Near tie with F-", "with epsilon = "]),
    "decided": (
        {"n": None, "theta": CLEAR, "noise_std": 0.3},
        ["F-18 (arm 0) is the best of 5 arms", "It is ahead of "],
    ),
    "decided, noise unknown": ({"n": None, "theta": CLEAR}, ["F-18 (arm 0) is the best of 5 arms"]),
    "slack": ({"n": None, "theta": TIE, "epsilon": 0.2}, ["or loses at most 0.2 to it"]),
    "slack, leading": ({"n": 12, "theta": TIE, "epsilon": 0.2, "noise_std": 0.3}, ["Not decided (12 pulls)"]),
    "budget": ({"n": 9, "theta": CLEAR, "scale": 1.0, "noise_std": 1.0}, ["Not decided (9 pulls)"]),
    "withdrawn": ({"n": 200, "theta": CLEAR, "scale": 3.0, "noise_std": 0.3}, ["No answer can be defended"]),
    "another rule": ({"n": 30, "theta": CLEAR, "noise_std": 0.3, "stopping": "heuristic"}, ["F-18"]),
    "levels of their own": ({"n": 60, "theta": TIE, "noise": "per-arm"}, ["Leader F-"]),
    "a law of their own": ({"n": 60, "theta": TIE, "noise": "symmetric"}, ["Leader F-"]),
    "a misfit allowed for": ({"n": 40, "theta": CLEAR, "noise_std": 0.3, "misfit": 0.2}, ["Not decided (40 pulls)"]),
}


def texts(result: sp.Result) -> list[str]:
    """Return all that is shown about a result: its explanation, the line after a prompt, and the live view."""
    label = label_of(result)
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(live_panel(result, 0, "run", label))
    assert isinstance(console.file, io.StringIO)
    return [result.explain(), state_line(result, label), console.file.getvalue()]


@pytest.mark.parametrize("state", STATES)
def test_no_state_has_odd_words(state: str) -> None:
    """No nats, no NaN and no infinities, percents between 0 and 100, no bound that bounds nothing, no contradiction."""
    options, expected = STATES[state]
    result = found(**options)
    for words in expected:
        assert words in result.explain()
    for text in texts(result):
        assert not re.search(r"\bnats?\b|\bnan\b|\binf\b|evidence is|-0\.?0* |e[+-]\d\d", text), text
        for share in re.findall(r"(-?[\d.]+) %", text):
            assert 0.0 <= float(share) <= 100.0
        assert "at most 0 below" not in text
        assert ("is the best of" in text) <= result.stopped
        assert not ("Not decided" in text and result.stopped)
    for bounds in re.findall(r"ahead by (-?[\d.]+) \(95 %: (-?[\d.]+) to (-?[\d.]+)[;)]", result.explain()):
        lead, low, high = map(float, bounds)
        assert 0.0 <= lead
        assert low <= lead <= high
        if not result.stopped:
            below = re.search(r"at most ([\d.]+) below the best", result.explain())
            assert below is None or float(below[1]) >= -low  # the rival's interval allows no larger loss


def test_the_sentence_of_the_undecided() -> None:
    """Who leads, whom, by how much; what stopping now costs; how much is left to do; all rounded to the safe side."""
    values: dict[str, Any] = {"n_pulls": 100, "stopped": False, "threshold": 3.0, "delta": 0.05, "best": 0, "rival": 1}
    values |= {"guarantee": "proved", "p_value": 0.88}
    standing = Snapshot(**values, lead=0.27, interval=(-0.1, 0.64), epsilon_bound=0.1, remaining=10.3)
    said = sentences(standing, lambda arm: NAMES[arm])
    assert " ".join(said) == (
        "Leader F-18, runner-up F-04: ahead by 0.27 (95 %: -0.10 to 0.64). Proved so far: 12 %; needed 95 %. Stop now: "
        "F-18 is at most 0.10 below the best. To be sure: about 11 more pulls."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lead": 0.003, "interval": (-0.3672, 0.3732)}, "0.003 (95 %: -0.368 to 0.374)"),
        ({"lead": 27.0, "interval": (-10.2, 64.2)}, "27 (95 %: -11 to 65)"),
        ({"lead": 0.0, "interval": (-1.0, 1.0), "delta": 0.01}, "0.0 (99 %: -1.0 to 1.0)"),
        ({"lead": 0.123456}, "0.123"),
    ],
)
def test_leads_are_rounded_outwards(changes: dict[str, Any], words: str) -> None:
    """Two digits of the width, the lead visible, bounds never tighter than they are."""
    assert lead_words(Snapshot(**({"n_pulls": 1, "threshold": 3.0, "delta": 0.05} | changes))) == words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"p_value": 1.0}, "0 %; needed 95 %"),
        ({"p_value": 0.0501}, "94 %; needed 95 %"),
        ({"p_value": 0.00101, "delta": 0.001}, "99.8 %; needed 99.9 %"),
        ({"p_value": 0.02, "stopped": True}, "98 %"),
        ({"p_value": math.nan, "evidence": 1.2, "rule": "log-t"}, "40 % of what the log-t rule asks for"),
        ({"p_value": math.nan, "stopped": True, "guarantee": "proved"}, "95 %"),
        ({"guarantee": "withdrawn"}, "withdrawn, the rewards contradict what it rests on"),
    ],
)
def test_confidence_is_a_percentage_that_arrives_only_at_the_end(changes: dict[str, Any], words: str) -> None:
    """Rounded down, so that 95 % is shown when it is reached."""
    values: dict[str, Any] = {"n_pulls": 1, "threshold": 3.0, "delta": 0.05}
    assert confidence(Snapshot(**(values | changes))) == words


def test_stopping_now_within_epsilon_or_with_nothing_to_lose() -> None:
    """Bounds that would do already are said to, instead of contradicting "not decided"."""
    values: dict[str, Any] = {
        "n_pulls": 1,
        "stopped": False,
        "threshold": 3.0,
        "delta": 0.05,
        "best": 0,
        "rule": "betting",
    }
    allowed = stopping_now(Snapshot(**values, epsilon_bound=0.05, epsilon=0.1), "F-18")
    assert allowed == "F-18 is at most 0.050 below the best, which epsilon = 0.1 allows"
    sure = stopping_now(Snapshot(**values, epsilon_bound=0.0), "F-18")
    assert sure == "F-18 is the best by its intervals, though the betting rule has not decided"
    assert stopping_now(Snapshot(**values), "F-18") == ""


def test_near_tie_on_the_command_line_names_the_option() -> None:
    """An option that can be typed; the line after every value does not repeat it."""
    standing = Snapshot(
        n_pulls=9, threshold=3.0, best=0, rival=1, lead=0.01, delta=0.05, p_value=1.0, near_tie=NearTie(1, 0.1, 40)
    )
    near = near_tie(standing, lambda arm: NAMES[arm], epsilon_is=EPSILON_IS)
    assert near == "F-04: with --epsilon 0.1 about 40 more pulls"
    assert "near tie" not in state_line(standing, lambda arm: NAMES[arm])
