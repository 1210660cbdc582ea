"""Problems with a known answer, for simulations and tests."""

from surepick.simulation.problems import Problem

__all__ = ["Problem"]
