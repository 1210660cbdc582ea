"""Studies of many kinds for tests: small enough to stop after a few dozen pulls."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import surepick as sp

NAMES = ["elm", "oak", "ash", "fir"]
ROWS = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.7], [-0.5, 0.9]])
THETA = np.array([0.7, 0.6])
"""Means 0.7, 0.6, 0.98 and 0.19: the third arm is best."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of study, and how its arms answer."""

    options: dict[str, Any] = field(default_factory=dict)
    arms: Any = None
    noise_std: float = 0.15
    values: str = "real"
    """Or "binary", or "bounded"."""

    @property
    def given(self) -> dict[str, Any]:
        """What `create_study` is given."""
        arms = sp.FiniteArms(ROWS, names=NAMES) if self.arms is None else self.arms
        return {"arms": arms, "noise_std": 0.2, "delta": 0.1, **self.options}

    def value(self, features: tuple[float, ...], z: float) -> float:
        """Return what a measurement gives, for a standard normal number."""
        theta = np.resize(THETA, len(features))
        mean = float(np.dot(features, theta))
        match self.values:
            case "binary":
                return float(mean + 0.3 * z > 0.5)
            case "bounded":
                return float(np.clip(mean + self.noise_std * z, -1.0, 2.0))
        return mean + self.noise_std * z


KINDS = {
    "usual": Kind(),
    "unknown noise": Kind({"noise_std": None}),
    "per arm": Kind({"noise_std": None, "noise": "per-arm"}),
    "symmetric": Kind({"noise_std": None, "noise": "symmetric"}),
    "one noise each": Kind({"noise_std": [0.1, 0.2, 0.1, 0.3]}),
    "two best": Kind({"m": 2}),
    "costs": Kind({"costs": [1.0, 2.0, 1.5, 0.5], "budget": 60.0}),
    "small budget": Kind({"budget": 9.0}, noise_std=0.5),
    "slack": Kind({"epsilon": 0.05}),
    "misfit": Kind({"misfit": 0.01}),
    "evidence": Kind({"stopping": "evidence"}),
    "pairwise": Kind({"stopping": "pairwise", "model": "unstructured"}),
    "rage": Kind({"algorithm": "rage"}),
    "static": Kind({"algorithm": "g-static"}),
    "binary": Kind({"noise_std": None, "rewards": "binary"}, values="binary"),
    "bounded": Kind({"noise_std": None, "reward_range": (-1.0, 2.0)}, values="bounded"),
    "sphere": Kind({"epsilon": 0.3}, arms=sp.Sphere(2)),
    "candidates": Kind({"candidates": np.array([[1.0, 1.0], [0.5, -0.5], [0.1, 0.3]])}),
    "unnamed": Kind(arms=ROWS.tolist()),
    "means": Kind({"model": "unstructured"}),
    "gaps": Kind({"algorithm": "lingape"}),
    "top two": Kind({"algorithm": "top-two"}),
}
