"""Thresholds that see A through its smallest eigenvalue: reference values and the equation they solve."""

import math

import numpy as np
import pytest
from scipy import optimize

from surepick.core.mix_grid import GRID_SCALES, mix_grid_threshold, mix_threshold

REFERENCE = {
    # (d, delta): grid and single regulariser 1, for A = n I at n = 1, 10, 100, 1000, 10000.
    (2, 0.05): (
        [11.798783, 7.764739, 7.457092, 7.435256, 7.443830],
        [7.377759, 5.932990, 7.686961, 9.914392, 12.207393],
    ),
    (5, 0.05): (
        [13.869730, 11.016924, 11.009996, 11.007677, 11.021841],
        [9.457200, 9.889518, 14.678869, 20.287887, 26.024435],
    ),
    (20, 0.05): (
        [24.212991, 24.061593, 23.765189, 24.033082, 24.091480],
        [19.854408, 29.672154, 49.638407, 72.155363, 95.109646],
    ),
    (5, 0.01): (
        [17.225184, 13.191319, 13.150220, 13.132824, 13.151554],
        [12.676076, 11.659899, 16.304401, 21.898934, 27.634034],
    ),
}


@pytest.mark.parametrize(("dim", "delta"), list(REFERENCE))
def test_reference_values(dim: int, delta: float) -> None:
    """To 1e-6; the grid of one scale is the single regulariser."""
    for n, grid, single in zip(10.0 ** np.arange(5), *REFERENCE[dim, delta], strict=True):
        log_dets = dim * np.log1p(n / GRID_SCALES)
        assert mix_grid_threshold(log_dets, n, GRID_SCALES, delta) == pytest.approx(grid, abs=1e-6)
        value = mix_threshold(dim * math.log1p(n), n, 1.0, delta)
        assert value == pytest.approx(single, abs=1e-6)
        assert mix_grid_threshold(log_dets[:1], n, GRID_SCALES[:1], delta) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("delta", [0.5, 0.01, 1e-12, 1e-200])
@pytest.mark.parametrize("ratios", [[1.0, 1.0], [1.0, 3.0, 50.0], [1.0, 1e4, 1e8]])
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e9])
def test_grid_is_the_root_of_its_equation(delta: float, ratios: list[float], unit: float) -> None:
    """Against a bracketing root finder, with the grid in the units of the first cycle."""
    eigenvalues, scales = 30.0 * unit * np.array(ratios), unit * GRID_SCALES
    log_dets = np.log1p(eigenvalues[:, None] / scales).sum(axis=0)
    slopes = eigenvalues[0] / (eigenvalues[0] + scales)

    def excess(xi: float) -> float:
        return float(np.logaddexp.reduce(-math.log(10.0) - 0.5 * log_dets + xi * slopes)) + math.log(delta)

    expected = float(optimize.brentq(excess, 0.0, 1e4, xtol=1e-12, rtol=1e-14))
    assert mix_grid_threshold(log_dets, float(eigenvalues[0]), scales, delta) == pytest.approx(expected, rel=1e-11)


def test_grid_costs_at_most_its_weight() -> None:
    """Never above what any one of its regularisers would ask for at a tenth of the risk."""
    log_dets = 4.0 * np.log1p(500.0 / GRID_SCALES)
    value = mix_grid_threshold(log_dets, 500.0, GRID_SCALES, 0.05)
    each = [mix_threshold(float(v), 500.0, float(k), 0.005) for v, k in zip(log_dets, GRID_SCALES, strict=True)]
    assert value < min(each)
