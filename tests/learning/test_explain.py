"""Words on the screen: in every state they say nothing odd and do not contradict each other."""

import io
import math
import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import surepick as sp
from surepick.cli.output import EPSILON_IS, live_panel
from surepick.learning.explain import explain, label_of
from surepick.learning.outlook import Ahead, Outlook
from surepick.learning.progress import (
    confidence,
    estimate_words,
    facts,
    lead_words,
    near_tie,
    next_words,
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
    "near tie": ({"n": 80, "theta": TIE, "noise_std": 0.3, "seed": 5}, ["Near tie with F-", "with epsilon = "]),
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
        ({"guarantee": "withdrawn"}, "withdrawn, the rewards contradict its assumptions"),
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
    share = {**values, "reward_range": (0.0, 1.0)}  # a bound of 1 or more says nothing about shares
    assert stopping_now(Snapshot(**share, epsilon_bound=1.35), "F-18") == ""
    assert stopping_now(Snapshot(**share, epsilon_bound=0.9), "F-18") == "F-18 is at most 0.90 below the best"


def test_near_tie_on_the_command_line_names_the_option() -> None:
    """An option that can be typed; the line after every value does not repeat it."""
    standing = Snapshot(
        n_pulls=9, threshold=3.0, best=0, rival=1, lead=0.01, delta=0.05, p_value=1.0, near_tie=NearTie(1, 0.1, 40)
    )
    near = near_tie(standing, lambda arm: NAMES[arm], epsilon_is=EPSILON_IS)
    assert near == "F-04: with --epsilon 0.1 about 40 more pulls"
    assert "near tie" not in state_line(standing, lambda arm: NAMES[arm])


def test_runner_up_and_hardest_to_exclude_are_two_lines() -> None:
    """The second by estimate is named with the lead; the one with least evidence against it, in a line of its own."""
    values: dict[str, Any] = {"n_pulls": 30, "threshold": 3.0, "delta": 0.05, "best": 0, "guarantee": "proved"}
    now = Snapshot(**values, rival=1, hardest=2, lead=0.2, p_value=1.0, remaining=20.0)
    said = sentences(now, lambda arm: NAMES[arm])
    assert said[:2] == ["Leader F-18, runner-up F-04: ahead by 0.200.", f"Hardest to exclude: {NAMES[2]}."]
    entries = facts(now, lambda arm: NAMES[arm], epsilon_is="epsilon = ")
    assert (entries["runner-up"], entries["hardest to exclude"]) == ("F-04", NAMES[2])
    assert entries["proved"] == "0 %; needed 95 %"
    assert "confidence" not in entries


def test_the_hardest_to_exclude_is_the_one_that_asks_name() -> None:
    """Decision and snapshot agree; before any bet, when all have equal evidence, it is the runner-up."""
    early, later = found(12, CLEAR, scale=1.0), found(60, TIE, scale=1.0)
    assert early.hardest in (None, early.rival)
    assert later.hardest is not None
    rng = np.random.default_rng(4)
    learner = sp.create_learner("lazy-track-and-stop", X)
    for _ in range(60):
        arm = learner.next_arms(1)[0]
        learner.tell(arm, float(X[arm] @ TIE + rng.standard_normal()))
    assert learner.decision.rival == learner.snapshot.hardest


@pytest.mark.parametrize(
    ("changes", "words", "line"),
    [
        (
            {},
            (
                "It is ahead of every other by more than 0; the estimated lead over F-04 is 0.43. The interval of this "
                "lead (95 %: -0.21 to 1.07) is wider than the verdict needs, because intervals hold for all arms and "
                "all times together."
            ),
            "more than 0 (verdict), about 0.43 (estimate)",
        ),
        (
            {"epsilon": 0.1},
            "No other is ahead of it by more than 0.1; the estimated lead over F-04 is 0.43.",
            "about 0.43 (estimate); no other is ahead by more than 0.1 (verdict)",
        ),
        ({"guarantee": "heuristic"}, "It is ahead of F-04 by 0.43 (95 %: -0.21", "0.43 (95 %: -0.21 to 1.07)"),
        ({"interval": (0.1, 0.76)}, "It is ahead of F-04 by 0.43 (95 %: 0.10 to 0.76).", "0.43 (95 %: 0.10 to 0.76)"),
    ],
)
def test_a_verdict_says_more_than_an_interval_that_contains_zero(
    changes: dict[str, Any], words: str, line: str
) -> None:
    """What the verdict implies comes first, and the wide interval has its reason; only if the verdict is proved."""
    values: dict[str, Any] = {"n_pulls": 30, "threshold": 3.0, "delta": 0.05, "best": 0, "guarantee": "proved"}
    values |= {"stopped": True, "rival": 1, "lead": 0.43, "interval": (-0.21, 1.07)} | changes
    (said,) = sentences(Snapshot(**values), lambda arm: NAMES[arm])
    assert said.startswith(words)
    assert lead_words(Snapshot(**values)) == line


def test_a_winner_that_was_never_measured_is_named() -> None:
    """In `explain`, with how to confirm it; not if it was measured, and not before the verdict."""
    rng = np.random.default_rng(0)
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])
    result = sp.identify(rows, lambda arm: float(rows[arm] @ [1.0, 1.0] + 0.05 * rng.standard_normal()), noise_std=0.05)
    if result.counts.get(result.best):
        result = replace(result, counts={arm: n for arm, n in result.counts.items() if arm != result.best})
    assert f"arm {result.best} was never measured: its mean follows from the features." in result.explain()
    assert "(audit)" in result.explain()
    assert "never measured" not in replace(result, counts={0: 1, 1: 1, 2: 1}).explain()
    assert "never measured" not in found(9, CLEAR, scale=1.0).explain()


def test_certificates_hold_no_estimates() -> None:
    """The claim of an undecided study says what is proved, and nothing that depends on draws."""
    claim = explain(found(20, CLEAR, seed=1), estimates=False)
    assert "Estimate" not in claim
    assert "To be sure" not in claim
    assert "Proved so far: " in claim


def outlook_snapshot(probability: float, loss: float, *later: float, **changes: Any) -> Snapshot:
    """Return a snapshot with an outlook of these numbers; `later` are the probabilities after 10, 20 and 50 pulls."""
    ahead = tuple(Ahead(n, chance, loss) for n, chance in zip((10, 20, 50), later, strict=False))
    outlook = Outlook(probability=probability, within=0.9, loss=loss, likely_loss=0.3, ahead=ahead)
    values: dict[str, Any] = {"n_pulls": 20, "threshold": 3.0, "delta": 0.05, "best": 0, "rival": 1, "lead": 2.0}
    return Snapshot(**values | changes, _find_outlook=lambda: outlook)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (
            outlook_snapshot(0.6, 0.25),
            "best with about 60 %, within 0.30 of the best with about 95 %; stopping now loses ",
        ),
        (outlook_snapshot(0.94, 0.25), "best with about 95 %; stopping now loses about 0.25 on average"),
        (outlook_snapshot(0.6, 0.0001), "stopping now loses next to nothing on average"),
        (
            outlook_snapshot(0.6, 0.25, m=3, best=[2, 3, 0]),
            "the 3 best with about 60 %, within 0.30 of the best left out",
        ),
        (outlook_snapshot(math.nan, 0.25, epsilon=0.1), "within epsilon = 0.1 of the best with about 90 %"),
    ],
)
def test_the_estimate_says_nothing_twice(now: Snapshot, words: str) -> None:
    """No bound at 95 % beside a probability of 95 %, no loss of 0.0001 beside a lead of 2, and words for m best."""
    short, long = (estimate_words(now, NAMES.__getitem__, is_short=is_short) for is_short in (True, False))
    assert words in short
    assert f" {'are' if now.m > 1 else 'is'} {short.partition(';')[0]}" in long


def test_more_measurements_that_buy_nothing_are_one_sentence() -> None:
    """Equal probabilities are said once; several leaders are the m best."""
    rising = outlook_snapshot(0.6, 0.25, 0.6, 0.7, 0.8, m=3, best=[2, 3, 0])
    assert next_words(rising).startswith("the leaders are the 3 best with about 60 % after 10 (loses 0.25), about 70 %")
    flat = next_words(outlook_snapshot(0.6, 0.25, 0.6, 0.6, 0.6))
    assert flat == "the leader is best with about 60 % after 10, 20 and 50 alike (loses 0.25, 0.25, 0.25)"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"interval": (-1.8, 2.1)}, "0.15 (95 %: -1.8 to 2.1; likely -0.03 to 0.32)"),
        ({"interval": (-1.8, 2.1), "reward_range": (0.0, 1.0)}, "0.15 (likely -0.03 to 0.32)"),
        ({"interval": (-0.7, 1.1), "reward_range": (0.0, 1.0)}, "0.15 (95 %: -0.70 to 1.10; likely -0.03 to 0.32)"),
    ],
)
def test_a_lead_has_the_digits_of_its_own_interval(changes: dict[str, Any], words: str) -> None:
    """A wide interval takes no digit from the estimate, and one that any two means obey is not shown."""
    values: dict[str, Any] = {"n_pulls": 60, "threshold": 3.0, "delta": 0.05, "lead": 0.1453}
    now = Snapshot(**values | changes, likely_lead=(-0.0284, 0.319))
    assert lead_words(now) == words
    assert "likely" not in lead_words(now, estimates=False)


def test_a_bound_that_the_range_of_rewards_implies_is_not_said() -> None:
    """Pass rates never differ by more than 1."""
    values: dict[str, Any] = {"n_pulls": 20, "threshold": 3.0, "delta": 0.05, "best": 0, "reward_range": (0.0, 1.0)}
    assert stopping_now(Snapshot(**values, epsilon_bound=1.9), "A") == ""
    assert stopping_now(Snapshot(**values, epsilon_bound=0.7), "A") == "A is at most 0.70 below the best"


def test_intervals_of_means_stay_in_the_range_of_rewards() -> None:
    """Both kinds, also where the fitted mean lies outside the range."""
    rows = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    learner = sp.Learner("lazy-track-and-stop", rows, rewards="binary", earlier="evidence")
    for n in range(120):  # pass rates of 0.1, 0.9 and 0.9, so 1.7 is predicted for the last
        learner.tell(n % 3, float((n // 3 % 10 == 0) is (n % 3 == 0)))
    result = learner.result()
    columns = result.to_columns()
    assert (columns["estimate"] > 1.0).any()
    for low, high in (("low", "high"), ("likely_low", "likely_high")):
        assert (columns[low] >= 0.0).all()
        assert (columns[high] <= 1.0).all()
        assert (columns[low] <= columns[high]).all()
    assert result.plot_estimates() is not None


def test_no_leader_yet_without_a_model_asks_for_a_pull_of_each_arm() -> None:
    """Arms without a model have no effects of features; the status says why there is no leader, and no 0 %."""
    arms, rng = sp.FiniteArms(np.eye(3)), np.random.default_rng(0)
    result = sp.identify(arms, lambda _: rng.standard_normal(), model="unstructured", max_pulls=2)
    assert result.explain() == (
        "No leader yet: 2 pulls of 2 arms leave arms that were never measured. Each needs a pull."
    )
    said = facts(result, label_of(result), epsilon_is=EPSILON_IS)
    assert said == {"leader": "none yet: 2 pulls leave arms that were never measured"}


def test_a_certificate_says_nothing_that_is_likely() -> None:
    """A claim has proved numbers alone, also in the words about the lead."""
    result = found(40, TIE)
    assert "likely" in explain(result)
    assert "likely" not in explain(result, estimates=False)


def test_a_cost_is_of_the_pulls_that_it_is_said_of() -> None:
    """Check pulls after the verdict cost too: the sentence of the verdict names how many pulls the cost is of."""
    rng, arms = np.random.default_rng(0), [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    means = [1.0, 0.0, 0.5]
    result = sp.identify(
        arms, lambda arm: means[arm] + 0.1 * rng.standard_normal(), noise_std=0.1, costs=[1.0, 2.0, 3.0], audit=4
    )
    assert result.n_until_verdict == result.n_pulls - 4
    assert f"(all {result.n_pulls} cost {result.cost:.4g})" in result.explain()
