"""What some algorithms, or their published rules, have to be told: true of the problem, and not more than that."""

from typing import Any

import numpy as np

from surepick.simulation.problems import Problem


def knowledge(name: str, problem: Problem, *, variant: str = "practical") -> dict[str, Any]:
    """Return the options without which this algorithm does not run in this variant."""
    if name == "xy-oracle":
        return {"theta": problem.theta}
    if variant != "paper":
        return {}
    if name in ("lingape", "lingame", "lingame-c", "lingifa"):
        return {"norm_bound": float(np.linalg.norm(problem.theta))}
    if name in ("alba", "mislid"):
        return {"reward_bound": float(np.abs(problem.X @ problem.theta).max())}
    if name == "h-rage":
        return {"least_noise_std": 0.5 * float(np.min(problem.noise_std))}
    return {}
