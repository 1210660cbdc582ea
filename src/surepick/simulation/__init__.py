"""Problems with a known answer, and many seeded runs of an algorithm on them."""

from surepick.simulation.parallel import simulate
from surepick.simulation.problems import Problem
from surepick.simulation.runs import Runs

__all__ = ["Problem", "Runs", "simulate"]
