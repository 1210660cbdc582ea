"""Certificates that were tampered with: `verify` accepts none that claims more than the truth, and never raises.

The truth comes from `benchmarks.certificate`, which shares no code with what is tested: rational arithmetic and a conic
solver. `python -m benchmarks certificate` looks at 10,000 mutants of each certificate.

What makes these tests fail: the code before them, which raised for malformed content, accepted negative lower bounds
and granted a slack of 7e-15 times the condition number, 10 % at 1e13; inner products in plain double precision; leaving
out the rows that a pass only bounds; taking theta_j'y_j = 1 on trust.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

import surepick as sp
from benchmarks.certificate import Case, Truth, boldness, cases, mapped, mutant, survey, truth_of
from surepick.core.design import certificate
from surepick.errors import NotCertified

N_MUTANTS = 1000
SLACK = 1e-7
"""Ten times what `verify` grants to value and bound, and the error of the conic solver."""
NAN, INF = float("nan"), float("inf")
CASES = list(cases())


@cache
def known(name: str) -> Truth:
    """The truth about one of the instances."""
    return truth_of(cases()[name].X, cases()[name].design)


@pytest.mark.parametrize("name", CASES)
def test_honest_designs_verify_and_the_truth_lies_between_their_bounds(name: str) -> None:
    """A conic solver's optimum is between lower bound and value, and the value is that of the weights."""
    X, design = cases()[name]
    assert design.verify(X)
    assert boldness(design, known(name)) <= SLACK
    assert known(name).optimum <= design.value * (1 + SLACK)
    assert design.gap <= (1e-2 if name in {"condition 1e13", "random, loose"} else 1e-4)


@pytest.mark.parametrize("name", CASES)
def test_no_accepted_mutant_claims_more_than_the_truth(name: str) -> None:
    """Up to three changes of any field at once: accepted or not, no exception, and never a gap below the true one."""
    found = survey(cases()[name], N_MUTANTS, CASES.index(name))
    assert found.n_accepted > N_MUTANTS // 50  # some changes do no harm; a `verify` that refuses everything is no use
    assert found.boldest <= SLACK


@pytest.mark.parametrize("n_precise", [1, 1000])
@pytest.mark.parametrize("name", CASES)
def test_what_a_mutant_proves_is_true(name: str, n_precise: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """New code: claims restated to the last digit that can be proved hold, also when most rows are only bounded."""
    monkeypatch.setattr(certificate, "N_PRECISE", n_precise)
    monkeypatch.setattr(certificate, "MOST_PRECISE", n_precise)
    X, design = cases()[name]
    arms, rng, n_proved = sp.FiniteArms(X), np.random.default_rng(5), 0
    for _ in range(60):
        changed = replace(mutant(rng, design), theta=design.theta, candidates=design.candidates)
        restated = changed.restated(arms)
        if restated.gap < INF and restated is not changed:
            n_proved += 1
            assert restated.verify(arms)
            assert boldness(restated, known(name)) <= SLACK
    assert n_proved > 3


ILL = cases()["condition 1e13"]
PLAIN = cases()["random"]


@pytest.mark.parametrize("factor", [1.1, 1.01, 1.0001, 1 + 1e-7])
@pytest.mark.parametrize("name", CASES)
def test_a_raised_bound_or_a_lowered_value_is_refused(name: str, factor: float) -> None:
    """However ill-conditioned the features: the slack does not grow with their condition."""
    (X, design), truth = cases()[name], known(name)
    assert not replace(design, value=2 * design.value, lower_bound=truth.optimum * factor).verify(X)
    assert not replace(design, value=truth.value(design) / factor, lower_bound=design.lower_bound / 2).verify(X)


@pytest.mark.parametrize("cond", [1e9, 1e11, 1e12, 1e13])
@pytest.mark.parametrize("seed", range(4))
def test_the_solver_claims_what_holds_for_ill_conditioned_features(cond: float, seed: int) -> None:
    """The claimed gap covers the true one, at most a few percent, where the solver's rounding is a thousandth."""
    X, design = mapped(cond, seed)
    assert design.verify(X)
    assert boldness(design, truth_of(X, design)) <= SLACK
    assert design.gap <= 1e-4 + 1e-14 * cond


@pytest.mark.parametrize("lead", [1e-6, 1e-9, 1e-11])
def test_the_solver_claims_what_holds_for_near_ties(lead: float) -> None:
    """A gap that cancels to few digits does not make the claims wrong."""
    X, theta = PLAIN.X, PLAIN.design.theta
    assert theta is not None
    first, second = np.argsort(X @ theta)[:-3:-1]
    y = X[first] - X[second]
    design = sp.characteristic_time(X, theta - (theta @ y - lead) * y / (y @ y), tol=1e-8)
    assert design.verify(X)
    assert boldness(design, truth_of(X, design)) <= SLACK
    assert design.gap <= 1e-7


def uniform(case: Case) -> dict[str, Any]:
    """Weights far from optimal."""
    n = len(case.X)
    return {"support": np.arange(n), "weights": np.full(n, 1 / n), "value": 100 * case.design.value}


NONSENSE: dict[str, dict[str, Any]] = {
    "negative bound": {"lower_bound": -PLAIN.design.lower_bound},
    "negative bound of bad weights": {"lower_bound": -1.0, **uniform(PLAIN)},
    "no bound": {"lower_bound": 0.0},
    "tiny bound": {"lower_bound": 5e-324, "value": -1.0},
    "bound above value": {"lower_bound": 1.001 * PLAIN.design.value},
    "negative claims": {"value": -PLAIN.design.value, "lower_bound": -PLAIN.design.lower_bound},
    "value nan": {"value": NAN},
    "bound nan": {"lower_bound": NAN},
    "value inf": {"value": INF},
    "both inf": {"value": INF, "lower_bound": INF},
    "value none": {"value": None},
    "bound text": {"lower_bound": "1"},
    "value complex": {"value": 1j},
    "value a list": {"value": [1.0]},
    "value an array": {"value": np.array([PLAIN.design.value] * 2)},
    "value too large an int": {"value": 10**400},
    "value true": {"value": True, "lower_bound": True},
    "weights short": {"weights": PLAIN.design.weights[1:]},
    "weights empty": {"weights": np.empty(0), "support": np.empty(0, dtype=np.int64)},
    "weights nan": {"weights": PLAIN.design.weights * NAN},
    "weights too heavy": {"weights": 2 * PLAIN.design.weights},
    "weights a little too heavy": {"weights": (1 + 1e-9) * PLAIN.design.weights},
    "weights negative": {"weights": -PLAIN.design.weights},
    "weights none": {"weights": None},
    "weights text": {"weights": np.array(["a"] * len(PLAIN.design.weights))},
    "weights objects": {"weights": PLAIN.design.weights.astype(object)},
    "weights a scalar": {"weights": np.array(1.0)},
    "support negative": {"support": PLAIN.design.support - 5},
    "support twice": {"support": np.full_like(PLAIN.design.support, 2)},
    "support wraps": {"support": np.array([100, -128, 101][: len(PLAIN.design.support)], dtype=np.int8)},
    "support floats": {"support": PLAIN.design.support + 0.5},
    "support none": {"support": None},
    "support a table": {"support": PLAIN.design.support[None]},
    "multipliers zero": {"multipliers": PLAIN.design.multipliers * 0.0},
    "multipliers negative": {"multipliers": -PLAIN.design.multipliers},
    "multipliers short": {"multipliers": PLAIN.design.multipliers[1:]},
    "multipliers none": {"multipliers": None},
    "alternatives short": {"alternatives": PLAIN.design.alternatives[1:]},
    "alternatives flat": {"alternatives": PLAIN.design.alternatives.ravel()},
    "alternatives inf": {"alternatives": PLAIN.design.alternatives * INF},
    "hardest none": {"hardest": None},
    "hardest negative": {"hardest": -1 - PLAIN.design.hardest},
}
UNRELATED: dict[str, dict[str, Any]] = {
    "no alternatives": {
        "hardest": np.empty(0, dtype=np.int64),
        "multipliers": np.empty(0),
        "alternatives": np.empty((0, 3)),
    },
    "alternatives narrow": {"alternatives": PLAIN.design.alternatives[:, 1:]},
    "all alternatives zero": {"alternatives": PLAIN.design.alternatives * 0.0},
    "alternatives huge": {"alternatives": PLAIN.design.alternatives * 1e300},
    "alternatives tiny": {"alternatives": PLAIN.design.alternatives * 1e-300},
    "hardest out of range": {"hardest": PLAIN.design.hardest + 10**6},
    "hardest the best itself": {
        "hardest": np.full_like(PLAIN.design.hardest, np.argmax(PLAIN.X @ np.asarray(PLAIN.design.theta)))
    },
    "support out of range": {"support": PLAIN.design.support + 10**6},
    "too few arms": {"support": PLAIN.design.support[:1], "weights": np.ones(1)},
    "theta nan": {"theta": np.full(3, NAN)},
    "theta zero": {"theta": np.zeros(3)},
    "theta huge": {"theta": np.full(3, 1e308)},
    "rewards without a sum": {
        "theta": np.array([1e308, 1e308, 0.0]),
        "candidates": sp.FiniteArms.rows_only(np.tile([[10.0, -10.0, 0.0], [-10.0, 10.0, 0.0]], (5, 1))),
    },
    "theta short": {"theta": np.ones(2)},
    "theta text": {"theta": "theta"},
    "theta objects": {"theta": np.array([None] * 3)},
    "theta gone": {"theta": None},
    "candidates of another shape": {"candidates": sp.FiniteArms(np.eye(4))},
    "candidates all alike": {"candidates": sp.FiniteArms.rows_only(np.ones((1, 3)), least=1)},
    "candidates a table": {"candidates": PLAIN.X},
    "candidates text": {"candidates": "arms.csv"},
}


@pytest.mark.parametrize("changes", [*NONSENSE.values(), *UNRELATED.values()], ids=[*NONSENSE, *UNRELATED])
def test_a_design_with_impossible_content_is_refused_without_an_exception(changes: dict[str, Any]) -> None:
    """Wrong lengths, types, signs and ranges give False."""
    assert replace(PLAIN.design, **changes).verify(PLAIN.X) is False


@pytest.mark.parametrize("changes", NONSENSE.values(), ids=NONSENSE)
def test_nothing_is_certified_by_a_design_whose_own_numbers_are_impossible(changes: dict[str, Any]) -> None:
    """Without any arms to compare with: the gap is infinite, and whoever requires one is told."""
    design = replace(PLAIN.design, **changes)
    assert design.gap == INF
    with pytest.raises(NotCertified, match=r"within 0.0001 of .* proved to be within inf;"):
        design.require(1e-4)


@pytest.mark.parametrize(
    "arms",
    [
        *(PLAIN.X[:5], PLAIN.X[:2], PLAIN.X[:1], PLAIN.X[:, :2], np.eye(4), PLAIN.X[0]),
        *(1e200 * PLAIN.X, 1e-200 * PLAIN.X, 0 * PLAIN.X, NAN * PLAIN.X, None, "arms.csv"),
    ],
    ids=["fewer", "two", "one", "narrow", "wide", "a vector", "huge", "tiny", "zero", "nan", "none", "text"],
)
def test_other_arms_are_refused_without_an_exception(arms: Any) -> None:
    """A certificate says nothing about arms of another shape, nor about what is no set of arms."""
    assert PLAIN.design.verify(arms) is False


def test_a_design_may_be_worse_than_its_claims_by_the_slack_alone() -> None:
    """Claims that are too modest verify; the gap is then larger than need be, never smaller."""
    X, design = PLAIN
    modest = replace(design, value=1.5 * design.value, lower_bound=0.5 * design.lower_bound)
    assert modest.verify(X)
    assert modest.gap == pytest.approx(3 * (1 + design.gap) - 1)


def test_inner_products_err_by_less_than_their_bound() -> None:
    """New code: with up to thirty digits cancelled, the error is below the bound, and the bound is small."""
    rng = np.random.default_rng(6)
    for _ in range(300):
        d = int(rng.integers(2, 12))
        a, b = (rng.standard_normal(d) * 10.0 ** rng.uniform(-15, 15, d) for _ in range(2))
        b[-1] -= float(sum(Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True)) / Fraction(a[-1]))
        rest = a * 2.0**-53 * rng.uniform(-1, 1, d)
        true = sum((Fraction(x) + Fraction(r)) * Fraction(y) for x, r, y in zip(a, rest, b, strict=True))
        dot, error = certificate._dot(a, b, rest)
        assert abs(Fraction(float(dot)) - true) <= Fraction(float(error))
        assert error <= 1e-14 * abs(float(true)) + 1e-28 * np.abs(a) @ np.abs(b)


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_a_pass_cannot_tell_apart_are_all_bounded(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """New code: where arms differ by less than a pass rounds, computing one of them precisely proves less, not more."""
    X = np.vstack([mapped(1e13, seed).X * (1 + 1e-4 * k) for k in range(5)])
    arms, theta = sp.FiniteArms(X), mapped(1e13, seed).design.theta
    for design in (sp.optimal_design(arms, X[::-1]), sp.characteristic_time(arms, theta, X[:10])):
        proved = []
        for first, most in ((1000, 1000), (1, 1000), (1, 1)):
            monkeypatch.setattr(certificate, "N_PRECISE", first)
            monkeypatch.setattr(certificate, "MOST_PRECISE", most)
            proved.append(design._recomputed(arms))
        (value, bound), grown, (weaker_value, weaker_bound) = proved
        assert grown == pytest.approx((value, bound), rel=2e-10)
        assert value * (1 - 1e-12) <= weaker_value
        assert weaker_bound <= bound * (1 + 1e-12)


def test_passes_err_by_less_than_their_bound() -> None:
    """New code: |F'x| of rows and of differences, in double precision, against rational arithmetic."""
    exact = np.vectorize(Fraction, otypes=[object])
    F = np.linalg.inv(np.linalg.qr(ILL.X).R)
    limit = certificate._pass_error(sp.FiniteArms(ILL.X), F)
    for rows, true in ((ILL.X, exact(ILL.X)), (ILL.X[0] - ILL.X, exact(ILL.X)[0] - exact(ILL.X))):
        lost = np.linalg.norm(rows @ F, axis=1) - np.linalg.norm((true @ exact(F)).astype(float), axis=1)
        assert 1e-6 < np.abs(lost).max() <= limit
