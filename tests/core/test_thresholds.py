"""Thresholds: each preset against a computation of its own, and the mixture grid against reference values."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from surepick.core.evidence import Mixture
from surepick.core.thresholds import MIX_GRID, PAPER_APPENDIX, PAPER_MAIN, PAPER_REMARK, THRESHOLDS, mix_grid_threshold


@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.integers(1, 6),
    delta=st.floats(1e-12, 0.5),
    noise_std=st.floats(0.1, 10.0),
    c=st.floats(1e-3, 10.0),
)
def test_every_preset_is_the_formula_of_the_paper(
    seed: int, dim: int, delta: float, noise_std: float, c: float
) -> None:
    """Computed from the eigenvalues of A in plain floats."""
    rng = np.random.default_rng(seed)
    t = dim + int(rng.integers(1, 500))
    X = rng.standard_normal((t, dim))
    eigenvalues = np.linalg.eigvalsh(X.T @ X)

    def beta(u: float, risk: float) -> float:
        log_ratio = 0.5 * sum(math.log(value / (u * c) + 1.0) for value in eigenvalues) - math.log(risk)
        return (1.0 + u) * noise_std * noise_std * log_ratio

    common: dict[str, Any] = {"n_pulls": t, "dim": dim, "delta": delta, "noise_std": noise_std}

    def logdet(u: float) -> float:
        return float(np.linalg.slogdet(np.eye(dim) + X.T @ X / (u * c))[1])

    main = float(PAPER_MAIN(logdet=logdet(1.0), **common))
    assert main == pytest.approx(beta(1.0, 6.0 * delta / (math.pi**2 * t**2)), rel=1e-9)
    appendix = float(PAPER_APPENDIX(logdet=logdet(0.1), **common))
    assert appendix == pytest.approx(beta(0.1, delta), rel=1e-9)
    growth = (t + 1) ** 0.5 if dim == 1 else t ** (dim / 2)
    remark = float(PAPER_REMARK(logdet=0.0, **common))
    assert remark == pytest.approx(2.0 * noise_std**2 * math.log(growth / delta), rel=1e-9)
    heuristic = float(THRESHOLDS["heuristic"](logdet=0.0, **common))
    assert heuristic == pytest.approx(noise_std**2 * math.log((1.0 + math.log(t)) / delta), rel=1e-9)
    log_t = float(THRESHOLDS["log-t"](logdet=0.0, **common))
    assert log_t == pytest.approx(noise_std**2 * math.log((1.0 + t) / delta), rel=1e-9)


@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(1, 6), n_extra=st.integers(0, 200))
def test_the_simple_form_is_never_below_the_determinant_it_replaces(seed: int, dim: int, n_extra: int) -> None:
    """With u = 1 and c the largest squared norm, as its proof asks."""
    rng = np.random.default_rng(seed)
    t = max(dim, 1) + n_extra
    X = rng.standard_normal((t, dim))
    c = float((X * X).sum(axis=1).max())
    exact = 2.0 * (0.5 * np.linalg.slogdet(np.eye(dim) + X.T @ X / c)[1] + math.log(20.0))
    simple = float(PAPER_REMARK(n_pulls=t, dim=dim, logdet=0.0, delta=0.05, noise_std=1.0))
    assert simple >= exact - 1e-9


def test_presets_are_named_and_labelled() -> None:
    """The paper's rules are proved and need a floor under A, the heuristics are neither."""
    assert set(THRESHOLDS) == {"paper-main", "paper-appendix", "paper-remark", "heuristic", "log-t"}
    for name, preset in THRESHOLDS.items():
        assert preset.name == name
        assert preset.guarantee == ("proved" if name.startswith("paper") else "heuristic")
        assert preset.needs_floor == name.startswith("paper")


def test_thresholds_broadcast_over_paths() -> None:
    """Many rounds or paths at once give the values of one at a time."""
    t = np.array([10, 100, 1000])
    logdet = np.array([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]])
    for preset in THRESHOLDS.values():
        options: dict[str, Any] = {"dim": 3, "delta": 0.1, "noise_std": 2.0}
        together = np.broadcast_to(preset(n_pulls=t, logdet=logdet, **options), (2, 3))
        for i in range(2):
            for j in range(3):
                single = preset(n_pulls=int(t[j]), logdet=float(logdet[i, j]), **options)
                assert together[i, j] == pytest.approx(float(single), rel=1e-14)


REFERENCE = {
    # (d, delta): thresholds for A = n I, noise_std 1, at n = 1, 10, 100, 1000, 10000.
    (2, 0.05): [11.798783, 7.764739, 7.457092, 7.435256, 7.443830],
    (5, 0.05): [13.869730, 11.016924, 11.009996, 11.007677, 11.021841],
    (20, 0.05): [24.212991, 24.061593, 23.765189, 24.033082, 24.091480],
    (5, 0.01): [17.225184, 13.191319, 13.150220, 13.132824, 13.151554],
}


@pytest.mark.parametrize(("dim", "delta"), list(REFERENCE))
def test_mixture_grid_reproduces_its_reference_values(dim: int, delta: float) -> None:
    """The evidence mixture, for A a multiple of the identity, is the MIX-GRID threshold."""
    n = 10.0 ** np.arange(5)
    logdets = dim * np.log1p(n[:, None] / MIX_GRID.scales)
    values = mix_grid_threshold(logdets, n, delta=delta, noise_std=1.0)
    np.testing.assert_allclose(values, REFERENCE[dim, delta], rtol=0, atol=1e-6)
    np.testing.assert_allclose(mix_grid_threshold(logdets, n, delta=delta, noise_std=3.0), 9.0 * values, rtol=1e-12)


@pytest.mark.parametrize("delta", [0.5, 0.01, 1e-12, 1e-200])
@pytest.mark.parametrize("ratios", [[1.0, 1.0], [1.0, 3.0, 50.0], [1.0, 1e4, 1e8]])
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e9])
def test_mixture_grid_is_the_root_of_its_equation(delta: float, ratios: list[float], unit: float) -> None:
    """Against a bracketing root finder, for a general A and a grid in its units."""
    eigenvalues, grid = 30.0 * unit * np.array(ratios), Mixture.uniform(unit * MIX_GRID.scales)
    logdets = np.log1p(eigenvalues[:, None] / grid.scales).sum(axis=0)
    slopes = eigenvalues[0] / (eigenvalues[0] + grid.scales)

    def excess(xi: float) -> float:
        return float(np.logaddexp.reduce(-math.log(10.0) - 0.5 * logdets + xi * slopes)) + math.log(delta)

    expected = 4.0 * float(optimize.brentq(excess, 0.0, 1e4, xtol=1e-12, rtol=1e-14))
    value = float(mix_grid_threshold(logdets, eigenvalues[0], delta=delta, noise_std=2.0, mixture=grid))
    assert value == pytest.approx(expected, rel=1e-11)


SINGLE = {
    # (d, delta): regulariser 1 alone, for A = n I at the same n.
    (2, 0.05): [7.377759, 5.932990, 7.686961, 9.914392, 12.207393],
    (5, 0.05): [9.457200, 9.889518, 14.678869, 20.287887, 26.024435],
    (20, 0.05): [19.854408, 29.672154, 49.638407, 72.155363, 95.109646],
    (5, 0.01): [12.676076, 11.659899, 16.304401, 21.898934, 27.634034],
}


@pytest.mark.parametrize(("dim", "delta"), list(SINGLE))
def test_grid_of_one_reproduces_its_reference_values(dim: int, delta: float) -> None:
    """It has a closed form: (1 + kappa/lambda_min) (logdet/2 + log(1/delta))."""
    n = 10.0 ** np.arange(5)
    logdets = dim * np.log1p(n[:, None])
    values = mix_grid_threshold(logdets, n, delta=delta, noise_std=1.0, mixture=Mixture.uniform(1.0))
    np.testing.assert_allclose(values, SINGLE[dim, delta], rtol=0, atol=1e-6)
    np.testing.assert_allclose(values, (1.0 + 1.0 / n) * (0.5 * logdets[:, 0] - math.log(delta)), rtol=1e-12)


def test_grid_costs_at_most_its_weight() -> None:
    """Never above what any one of its regularisers would ask for at a tenth of the risk."""
    logdets = 4.0 * np.log1p(500.0 / MIX_GRID.scales)
    value = float(mix_grid_threshold(logdets, 500.0, delta=0.05, noise_std=1.0))
    assert value < ((1.0 + MIX_GRID.scales / 500.0) * (0.5 * logdets - math.log(0.005))).min()
