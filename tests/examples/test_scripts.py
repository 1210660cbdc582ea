"""The examples that are scripts: they end well and say what they found."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("certified_design.py", "verified: True"),
        ("three_best.py", "The 3 best of 8 mixtures are (0, 1, 4), after 73 measurements (proved)."),
        ("plates.py", "recipe L (arm 11) is the best of 16 arms, after 288 pulls: the probability of a wrong answer"),
        ("own_algorithm.py", "Arm 1 is the best, says evidence after"),
        ("own_set.py", "is the best of the 300 x 400 pairs or loses at most 0.1 to it"),
        ("own_noise.py", "Arm 2 is the best of 3 arms, after 78 pulls"),
        ("own_rule.py", "after 65 pulls: without any guarantee (precision rule)"),
        ("prompts.py", "1,703 calls, where the whole table takes 9,600."),
    ],
)
def test_an_example_says_what_it_found(script: str, said: str) -> None:
    """A seeded run of the script as a reader would start it."""
    done = subprocess.run([sys.executable, str(EXAMPLES / script)], capture_output=True, text=True, check=True)
    assert said in done.stdout
