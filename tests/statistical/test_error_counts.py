import math

import numpy as np
import pytest
from scipy.stats import binom

from surepick.arms.finite import FiniteArms
from surepick.core.betting import Wealth
from surepick.core.evidence import Mixture
from surepick.core.thresholds import PAPER_APPENDIX, PAPER_MAIN, PAPER_REMARK
from tests.blocks import block_of
from tests.statistical.paths import (
    DELTA,
    FALSE_ALARM,
    N_PATHS,
    Blocks,
    Instance,
    Rule,
    Sampler,
    error_limit,
    evidence_rule,
    one_look,
    pairwise_rule,
    paper_rule,
    tally,
)

pytestmark = pytest.mark.statistical

# The best arm lies between two others and leads by 0.02 (noise 1): luck on either side misleads.
BETWEEN_TWO = Instance.arc(lead=0.02)
BETWEEN_FOUR = Instance.arc(lead=0.02, n_sides=2)
THREE_MEANS = Instance.basis([0.02, 0.0, 0.0])
HORIZON = 600


def test_the_limit_has_the_false_alarm_probability_it_states() -> None:
    """A rule that errs with probability delta exceeds the limit once in a million; no smaller limit does."""
    for n, delta in ((N_PATHS, DELTA), (2000, DELTA), (60, 0.1), (30, 0.05)):
        limit = error_limit(n, delta)
        assert binom.sf(limit, n, delta) <= FALSE_ALARM < binom.sf(limit - 1, n, delta)


def check(instance: Instance, sampler: Sampler, rules: dict[str, Rule], *, epsilon: float = 0.0) -> dict[str, int]:
    """Every rule passes the gate, on paths on which log(1/delta) alone fails it; return the errors."""
    counted = tally(instance, sampler, rules | {"one look": one_look}, horizon=HORIZON, seed=11, epsilon=epsilon)
    errors = {name: int(result.has_lied.sum()) for name, result in counted.items()}
    assert all(errors[name] <= error_limit() for name in rules), errors
    assert errors["one look"] > error_limit(), errors
    return errors


def proved_rules(instance: Instance) -> dict[str, Rule]:
    """The evidence rule and those of the paper."""
    return {
        "evidence": evidence_rule(Mixture.default()),
        "evidence, one kappa": evidence_rule(Mixture.single(16.0)),
        **{preset.name: paper_rule(preset, instance) for preset in (PAPER_MAIN, PAPER_APPENDIX, PAPER_REMARK)},
    }


def test_the_evidence_rule_and_the_paper_rules_keep_delta() -> None:
    """On a near-tie, sampled adaptively."""
    errors = check(BETWEEN_TWO, "challenger", proved_rules(BETWEEN_TWO))
    assert errors["evidence"] >= 100, "the instance has become too easy to say anything"


def test_rules_keep_delta_against_a_sampler_that_knows_the_truth() -> None:
    """Three features, five arms, sampling that serves the luckiest wrong arm."""
    check(BETWEEN_FOUR, "spite", proved_rules(BETWEEN_FOUR))


@pytest.mark.parametrize("sampler", ["challenger", "spite"])
def test_the_pairwise_rule_keeps_delta(sampler: Sampler) -> None:
    """As many arms as features, for a small and a larger kappa."""
    check(THREE_MEANS, sampler, {f"kappa {kappa}": pairwise_rule(kappa=kappa) for kappa in (4.0, 16.0)})


def test_the_evidence_rule_with_slack_is_rarely_more_than_the_slack_away() -> None:
    """With epsilon just below the best arm's lead, every other arm is a wrong answer."""
    rules = {"evidence": evidence_rule(Mixture.default(), epsilon=0.02)}
    check(Instance.arc(lead=0.025), "challenger", rules, epsilon=0.02)


@pytest.mark.parametrize("sampler", ["challenger", "spite"])
@pytest.mark.parametrize(
    ("instance", "epsilon"),
    [
        (BETWEEN_TWO, 0.0),
        (BETWEEN_FOUR, 0.0),
        (THREE_MEANS, 0.0),
        (Instance.arc(lead=0.025), 0.02),
        (Instance.basis([0.11, 0.0, 0.0]), 0.1),
    ],
)
def test_the_betting_rule_keeps_delta(instance: Instance, epsilon: float, sampler: Sampler) -> None:
    """Blocks fixed in advance, with adaptive designs and leaders: the best arm is rejected rarely enough."""
    blocks = Blocks(instance, sampler, seed=15, epsilon=epsilon)
    blocks.run(n_blocks=45)
    assert 0 < blocks.has_lied.sum() <= error_limit()


@pytest.mark.parametrize("sampler", ["challenger", "spite"])
def test_the_gate_sees_a_price_for_twice_the_risk(sampler: Sampler) -> None:
    """The same counts fail when wealth 1/(2 delta) is taken for enough."""
    blocks = Blocks(BETWEEN_TWO, sampler, seed=15, delta=2 * DELTA)
    blocks.run(n_blocks=45)
    assert blocks.has_lied.sum() > error_limit()


@pytest.mark.parametrize("instance", [BETWEEN_TWO, THREE_MEANS])
def test_the_gate_sees_bets_placed_with_the_results_of_their_own_block(instance: Instance) -> None:
    """The same counts fail when leader and bets know the results they are settled with."""
    blocks = Blocks(instance, "challenger", seed=15, is_peeking=True)
    blocks.run(n_blocks=45)
    assert blocks.has_lied.sum() > error_limit()


@pytest.mark.parametrize("sampler", ["challenger", "spite"])
@pytest.mark.parametrize(
    ("instance", "epsilon"), [(THREE_MEANS, 0.0), (BETWEEN_FOUR, 0.0), (Instance.basis([0.11, 0, 0]), 0.1)]
)
def test_counted_paths_are_those_of_the_rule_itself(instance: Instance, epsilon: float, sampler: Sampler) -> None:
    """Block by block, the vectorised bookkeeping agrees with the state object that learners use."""
    blocks = Blocks(instance, sampler, seed=16, epsilon=epsilon, n_paths=40)
    blocks.run(n_blocks=45)
    arms = FiniteArms(instance.X)
    n_stopped = 0
    for path in range(40):
        wealth = Wealth(arms, delta=DELTA, epsilon=epsilon)
        for leader, theta, A_inv, A, b in blocks.log:
            if wealth.stopped:
                break
            if sampler == "challenger":
                assert wealth.leading(theta[path]) == leader[path]
            wealth.place(int(leader[path]), theta=theta[path], A_inv=A_inv[path])
            wealth.settle(block_of(A[path], b[path], theta[path], A_inv[path]))
        n_stopped += wealth.stopped
        assert (-1 if wealth.answer is None else wealth.answer) == blocks.answer[path]
        for book in range(arms.n_arms if epsilon > 0 else 1):
            j = int(blocks.share[path, book])
            if epsilon == 0 or j > 0:
                share = math.log(j * (j + 1)) if epsilon > 0 else 0.0
                expected = blocks.log_wealth[path, book] - share
                np.testing.assert_allclose(wealth.log_wealth(book), expected, rtol=1e-8, atol=1e-10)
    assert n_stopped > 0 or sampler == "spite" or instance is BETWEEN_FOUR
