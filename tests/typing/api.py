"""The public API as a caller's type checker sees it; mypy reads this file, pytest runs it.

`assert_type` fails in mypy when a type becomes wider or narrower; an ignored error fails when it is no longer one.
"""

from typing import TYPE_CHECKING, assert_type

import numpy as np
from numpy.typing import NDArray

import surepick as sp
from surepick.arms.base import ArmSet
from surepick.arms.views import WhitenedArms, whiten

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def arms_from_a_table() -> sp.FiniteArms:
    """They are finite arms that know what became of the columns."""
    arms = sp.read_arms({"u": [1, 2, 4], "v": [0, 1, 1]}, drop="v")
    assert_type(arms, sp.TableArms)
    assert_type(arms.noise_std, Floats | None)
    assert_type(str(arms.roles), str)
    return arms


def arms_from_anything() -> sp.FiniteArms:
    """Arrays, lists and named arms build the same class."""
    assert_type(sp.FiniteArms([[1, 0], [0, 1]]), sp.FiniteArms)
    assert_type(sp.FiniteArms.on_span([[1.0, 1.0], [2.0, 2.0]]), sp.FiniteArms)
    assert_type(sp.FiniteArms.rows_only([[1.0, 1.0]], least=1), sp.FiniteArms)
    arms = sp.FiniteArms(np.eye(3), names=["a", "b", "c"], intercept=False)
    assert_type(arms.n_arms, int)
    assert_type(arms.dim, int)
    assert_type(arms.X, Floats)
    assert_type(arms.names, tuple[str, ...] | None)
    assert_type(arms.feature_names, tuple[str, ...])
    return arms


def questions(arms: ArmSet) -> int:
    """Every arm set answers the oracles, whatever its class."""
    theta, factor = np.ones(arms.dim), np.eye(arms.dim)
    assert_type(arms.best(theta), int)
    assert_type(arms.top_quadratic(factor, 2), tuple[Integers, Floats])
    rival = arms.most_confusing(0, theta, [factor], lambda gap, square: gap + square)
    assert_type(rival.score, float)
    assert_type(arms.gather([0, 1]), Floats)
    return assert_type(rival.index, int)


def designs(arms: sp.FiniteArms) -> sp.Design:
    """Designs and their methods."""
    design = sp.characteristic_time(arms, [1.0, 0.5, 0.0], candidates=None, tol=1e-3)
    assert_type(design, sp.Design)
    assert_type(sp.optimal_design(arms, directions=[[1.0, -1.0, 0.0]], tol=1e-3, warm_start=None), sp.Design)
    assert_type(design.value, float)
    assert_type(design.lower_bound, float)
    assert_type(design.gap, float)
    assert_type(design.support, Integers)
    assert_type(design.weights, Floats)
    assert_type(design.theta, Floats | None)
    assert_type(design.verify(arms), bool)
    assert_type(design.round(100), Integers)
    assert_type(sp.lower_bound(arms, [1.0, 0.5, 0.0], delta=0.05, noise_std=1.0), float)
    return assert_type(design.require(gap=1e-2), sp.Design)


def plans(arms: sp.FiniteArms) -> sp.Plan:
    """Plans and noise."""
    plan = sp.plan(arms, theta=[1.0, 0.5, 0.0], noise_std=1.0, costs=[1.0, 1.0, 2.0])
    assert_type(plan.pulls, float)
    assert_type(plan.cost, float | None)
    assert_type(plan.at(delta=0.1), sp.Plan)
    assert_type(plan.by_slack, tuple[sp.Plan, ...])
    assert_type(sp.noise_from_replicates({"a": [1.0, 2.0]}).interval, tuple[float, float])
    return plan


def errors() -> None:
    """One base class for all errors, and ValueError for bad arguments."""
    bad_argument: type[ValueError] = sp.InvalidInput
    assert issubclass(bad_argument, sp.SurepickError)
    narrower: tuple[type[sp.InvalidInput], ...] = (sp.ArmsDoNotSpan, sp.TiedArms)
    others: tuple[type[sp.SurepickError], ...] = (sp.NotCertified, sp.NotEnoughData)
    assert not set(narrower) & set(others)


if TYPE_CHECKING:

    def mistakes(arms: sp.FiniteArms, design: sp.Design) -> None:
        """What a type checker must refuse."""
        sp.FiniteArms(np.eye(2), names=3)  # type: ignore[arg-type]
        sp.FiniteArms(np.eye(2), None, None)  # type: ignore[call-arg]
        sp.optimal_design(arms, None, "fine")  # type: ignore[arg-type]
        sp.characteristic_time(arms)  # type: ignore[call-arg]
        sp.lower_bound(arms, [1.0], risk=0.1)  # type: ignore[call-arg]
        design.value = 1.0  # type: ignore[misc]
        design.round("many")  # type: ignore[arg-type]


def everything() -> None:
    """Run what can be run, so that the file is true at run time too."""
    arms = arms_from_anything()
    whitened = whiten(arms)
    assert_type(whitened, WhitenedArms)
    assert questions(arms) == questions(whitened)
    assert designs(arms).verify(arms)
    assert plans(arms).is_possible
    errors()
