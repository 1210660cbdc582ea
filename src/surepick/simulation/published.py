"""The numbers printed in the paper for the many-arms problem, to compare ours with.

Jedra and Proutiere (2020), delta = 0.05. Tables 1 and 2 differ in the constants of the stopping rule only: section 5
uses u = 1 and beta(6 delta / (pi t)^2, t), appendix A uses u = 0.1 and beta(delta, t).

What the paper does not say and is inferred here: the columns it heads "Std" are read as standard errors, because runs
repeated with its constants have standard errors of that size; the means are multiples of 1/20, which suggests 20 runs;
and the arms are those of `problems.many_arms(variant="as-run")`, the one variant on which its figures come out.
"""

from typing import NamedTuple

N_ARMS = (1000, 2500, 5000, 7500, 10_000)
"""The numbers of arms K in the tables."""

DELTA = 0.05


class Mean(NamedTuple):
    """A mean over runs, and the column "Std" beside it, read as its standard error."""

    mean: float
    se: float


TABLE_1 = {
    1000: Mean(1409.0, 57.0),
    2500: Mean(1404.0, 57.0),
    5000: Mean(1401.0, 86.0),
    7500: Mean(1434.0, 78.0),
}
"""Pulls of Lazy Track-and-Stop by K, section 5; the table ends at K = 7500."""

TABLE_1_NO_AVERAGING = {
    1000: Mean(1206.55, 42.2),
    2500: Mean(1253.6, 47.7),
    5000: Mean(1247.05, 81.07),
    7500: Mean(1296.55, 76.78),
}
"""The same, tracking the current allocation instead of the average."""

TABLE_2 = {
    1000: Mean(424.5, 29.1),
    2500: Mean(458.15, 28.1),
    5000: Mean(434.65, 32.51),
    7500: Mean(448.0, 36.9),
    10_000: Mean(452.85, 31.6),
}
"""Pulls of Lazy Track-and-Stop by K, appendix A."""

TABLE_2_NO_AVERAGING = {
    1000: Mean(424.5, 29.1),
    2500: Mean(455.95, 28.3),
    5000: Mean(433.6, 32.6),
    7500: Mean(447.45, 36.8),
    10_000: Mean(452.95, 31.6),
}
"""The same, tracking the current allocation instead of the average."""

RAGE = {
    1000: Mean(1148.45, 49.82),
    2500: Mean(1440.75, 149.24),
    5000: Mean(1540.3, 158.9),
    7500: Mean(1598.0, 164.6),
    10_000: Mean(1479.4, 52.0),
}
"""Pulls of RAGE by K, tables 1 and 2."""

ORACLE = {
    1000: Mean(476.45, 40.74),
    2500: Mean(492.15, 43.88),
    5000: Mean(515.6, 47.64),
    7500: Mean(547.65, 45.77),
    10_000: Mean(564.85, 46.9),
}
"""Pulls of the XY-oracle, which knows theta, by K, tables 1 and 2."""

SECONDS = {
    1000: Mean(13.62, 0.5),
    2500: Mean(90.25, 2.9),
    5000: Mean(940.97, 40.4),
    7500: Mean(1340.83, 61.5),
    10_000: Mean(1893.73, 79.9),
}
"""Run time of Lazy Track-and-Stop by K, table 3; Python on a desktop computer of 2020."""

SUPPORT = {
    1000: Mean(5.37, 0.25),
    2500: Mean(5.72, 0.20),
    5000: Mean(5.41, 0.20),
    7500: Mean(5.34, 0.20),
    10_000: Mean(5.26, 0.21),
}
"""Different arms pulled by Lazy Track-and-Stop by K, table 4."""
