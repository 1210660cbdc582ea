import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import surepick as sp
from examples import own_set
from surepick.testing import ArmSetContract


class TestPairs(ArmSetContract):
    """The example keeps the contract of a set of vectors."""

    def make(self) -> own_set.Pairs:
        """Two small catalogues, one of which lists a row twice."""
        rng = np.random.default_rng(1)
        first = rng.random((9, 2)).round(1)
        return own_set.Pairs(np.vstack([first, first[:1]]), rng.random((7, 3)).round(1))


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_statistic_against_all_pairs(epsilon: float) -> None:
    """Without slack the statistic is that of all pairs, listed; with slack it is never above it."""
    rng = np.random.default_rng(2)
    for _ in range(30):
        pairs = own_set.Pairs(rng.standard_normal((6, 2)), rng.standard_normal((5, 1)))
        theta, F = rng.standard_normal(4), rng.standard_normal((4, 4))
        best = pairs.best(theta)
        listed = np.array([np.concatenate([[1.0], x, y]) for x, y in product(*pairs.parts)])
        y = best - listed[(listed != best).any(axis=1)]
        exact = float((((y @ theta) + epsilon) ** 2 / (2.0 * np.square(y @ F).sum(axis=1))).min())
        found = pairs.confusion(theta, F, epsilon)
        assert found.value <= exact * (1.0 + 1e-9)
        if epsilon == 0.0:
            assert found.value == pytest.approx(exact, rel=1e-9)


def test_constant_feature_is_refused() -> None:
    """A feature that is constant within its catalogue cannot be told from the first entry of every arm."""
    with pytest.raises(sp.ArmsDoNotSpan, match="constant"):
        own_set.Pairs(np.ones((4, 1)), np.arange(3.0)[:, None])


def test_script_says_which_pair() -> None:
    """Run as a script it ends with an answer within its slack."""
    done = subprocess.run([sys.executable, own_set.__file__], capture_output=True, text=True, check=True)
    assert "is the best of the 300 x 400 pairs or loses at most 0.1 to it" in done.stdout
    assert float(done.stdout.split("It loses ")[1].split()[0]) <= 0.1
    assert len(Path(own_set.__file__).read_text("utf-8").splitlines()) <= 110
