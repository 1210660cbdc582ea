import itertools

import numpy as np
import pytest
from scipy.stats import binom

from surepick.arms.finite import FiniteArms
from surepick.core.betting.wealth import BaseWealth, EpsilonWealth, Wealth
from surepick.core.evidence import Mixture
from tests.blocks import block_of
from tests.statistical.paths import (
    BETTING_CASES,
    BETWEEN_FOUR,
    BETWEEN_TWO,
    DELTA,
    FALSE_ALARM,
    HORIZON,
    N_BLOCKS,
    N_PATHS,
    THREE_MEANS,
    TIE,
    Blocks,
    Instance,
    Rule,
    Sampler,
    error_limit,
    errors_of,
    evidence_rule,
    is_settled,
    one_look,
    pairwise_rule,
    proved_rules,
)

pytestmark = pytest.mark.statistical


def test_the_limit_has_the_false_alarm_probability_it_states() -> None:
    """A rule that errs with probability delta exceeds the limit once in a million; no smaller limit does.

    On `N_PATHS` paths one that errs with probability .36 instead of .3 exceeds it in 999 of 1000 gates.
    """
    for n, delta in ((N_PATHS, DELTA), (4000, DELTA), (60, 0.1), (30, 0.05)):
        limit = error_limit(n, delta)
        assert binom.sf(limit, n, delta) <= FALSE_ALARM < binom.sf(limit - 1, n, delta)
    assert binom.sf(error_limit(), N_PATHS, 0.36) > 0.999


def test_a_verdict_is_settled_when_no_run_that_is_left_can_change_it() -> None:
    """Neither sooner nor later: against all ways in which five runs may end."""
    for limit, n_done in itertools.product(range(5), range(6)):
        for n_wrong in range(n_done + 1):
            verdicts = {n_wrong + more > limit for more in range(5 - n_done + 1)}
            assert is_settled(n_wrong, n_done, 5, limit) == (len(verdicts) == 1)


def check(instance: Instance, sampler: Sampler, rules: dict[str, Rule], *, epsilon: float = 0.0) -> dict[str, int]:
    """Every rule passes the gate, on paths on which log(1/delta) alone fails it; return the errors."""
    errors = errors_of(instance, sampler, rules | {"one look": one_look}, horizon=HORIZON, seed=11, epsilon=epsilon)
    assert all(errors[name] <= error_limit() for name in rules), errors
    assert errors["one look"] > error_limit(), errors
    return errors


def test_the_evidence_rule_and_the_paper_rules_keep_delta() -> None:
    """On a near-tie, sampled adaptively."""
    errors = check(BETWEEN_TWO, "challenger", proved_rules(BETWEEN_TWO))
    assert errors["evidence"] >= 0.025 * N_PATHS, "the instance has become too easy to say anything"


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
@pytest.mark.parametrize(("instance", "epsilon"), BETTING_CASES)
def test_the_betting_rule_keeps_delta(instance: Instance, epsilon: float, sampler: Sampler) -> None:
    """Near and exact ties, losses of exactly epsilon; adaptive designs and leaders: wrong rarely enough."""
    blocks = Blocks(instance, sampler, seed=15, epsilon=epsilon)
    blocks.run(n_blocks=N_BLOCKS)
    assert 0 < blocks.has_lied.sum() <= error_limit()


def test_the_gate_sees_bets_placed_with_the_results_of_their_own_block() -> None:
    """The same counts fail when leader and bets know the results they are settled with."""
    blocks = Blocks(BETWEEN_TWO, "challenger", seed=15, flaw="own results")
    blocks.run(n_blocks=N_BLOCKS)
    assert blocks.has_lied.sum() > error_limit()


@pytest.mark.parametrize("sampler", ["challenger", "spite"])
def test_blocks_planned_before_the_last_one_is_in_keep_delta(sampler: Sampler) -> None:
    """A random part of a block decides arms and length of the next, and which measurements are given up and redone."""
    blocks = Blocks(TIE, sampler, seed=16, is_ahead=True, ratio=2.0)
    blocks.run(n_blocks=40)
    assert 0 < blocks.has_lied.sum() <= error_limit()


def test_the_gate_sees_blocks_settled_out_of_order() -> None:
    """Bets that know the next block know how long it is, and so what part of their own block said."""
    blocks = Blocks(TIE, "spite", seed=16, is_ahead=True, ratio=2.0, flaw="later results")
    blocks.run(n_blocks=40)
    assert blocks.has_lied.sum() > error_limit()


@pytest.mark.parametrize("n_arms", [3, 8])
def test_seats_keep_delta_and_the_gate_sees_a_missing_minimum(n_arms: int) -> None:
    """All arms but one lose exactly epsilon, and the richest of them is always promoted."""
    instance = Instance.basis([0.0] + [-0.1] * (n_arms - 1))
    counts = {}
    for flaw in (None, "no minimum") if n_arms == 8 else (None,):
        blocks = Blocks(instance, "spite", seed=17, epsilon=0.1, rivals=[0], flaw=flaw)
        blocks.run(n_blocks=40)
        counts[flaw] = int(blocks.has_lied.sum())
    assert 0 < counts.pop(None) <= error_limit()
    assert all(n > error_limit() for n in counts.values())


@pytest.mark.parametrize("sampler", ["challenger", "spite"])
@pytest.mark.parametrize(
    ("instance", "epsilon"), [(THREE_MEANS, 0.0), (BETWEEN_FOUR, 0.0), (Instance.basis([0.11, 0, 0]), 0.1)]
)
def test_counted_paths_are_those_of_the_rule_itself(
    instance: Instance, epsilon: float, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Block by block, the vectorised bookkeeping agrees with the state object that learners use."""
    blocks = Blocks(instance, sampler, seed=16, epsilon=epsilon, n_paths=40)
    blocks.run(n_blocks=45)
    accounts, level = (EpsilonWealth if epsilon > 0 else Wealth), instance.X.mean(axis=0)
    n_stopped = 0
    for path in range(40):
        wealth: BaseWealth = accounts(FiniteArms(instance.X), delta=DELTA, noise_std=1.0, epsilon=epsilon, level=level)
        for leader, theta, A_inv, A, b in blocks.log:
            if wealth.answer is not None:
                break
            if sampler == "challenger":
                assert wealth.leading(theta[path]) == leader[path]
            monkeypatch.setattr(wealth, "leading", lambda _, leads=int(leader[path]): leads)
            wealth.settle(block_of(A[path], b[path], theta[path], A_inv[path]))
            monkeypatch.undo()
        n_stopped += wealth.answer is not None
        assert (-1 if wealth.answer is None else wealth.answer) == blocks.answer[path]
        for place, u in enumerate(blocks.seats[path]):
            expected = blocks.log_wealth[path, : place + 1].min(axis=0)
            expected[u] = np.inf
            np.testing.assert_allclose(wealth.log_wealth(u), expected, rtol=1e-8, atol=1e-10)
    assert n_stopped > 0 or sampler == "spite" or instance is BETWEEN_FOUR
