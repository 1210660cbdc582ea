import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from examples import tiny
from surepick.simulation import problems
from surepick.simulation.problems import Problem

SOURCE = Path(tiny.__file__)


def identify(problem: Problem, seed: int) -> tuple[int, np.ndarray, np.ndarray, list[int]]:
    """Run tiny on a problem; returns its answer, counts, estimate and the sequence of arms it pulled."""
    rng = np.random.default_rng(seed)
    sequence: list[int] = []

    def pull(arm: int) -> float:
        sequence.append(arm)
        return problem.pull(arm, rng)

    best, counts, theta = tiny.identify(problem.X, pull, 0.05, problem.noise_std, rng=rng)
    return best, counts, theta, sequence


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "problem",
    [
        problems.many_arms(60, seed=1),
        problems.soare(4, 0.4),
        problems.unit_basis([0.0, 1.0, 0.4]),
        problems.transductive(2),
    ],
    ids=lambda p: p.name,
)
def test_finds_the_best_arm(problem: Problem, seed: int) -> None:
    """On small problems with clear gaps the answer is right and every pull is accounted for."""
    best, counts, _, sequence = identify(problem, seed)
    # Tiny answers among the arms it measures; for the transductive problem that is again the first one.
    assert best == int(np.argmax(problem.X @ problem.theta))
    np.testing.assert_array_equal(counts, np.bincount(sequence, minlength=problem.n_arms))


def test_pulls_follow_from_the_generator() -> None:
    """The same generator gives the same pulls and another one gives others."""
    problem = problems.many_arms(30, seed=0)
    first, again, other = (identify(problem, seed)[3] for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_most_arms_are_never_pulled() -> None:
    """Tracking only the support of the designs leaves nearly all of 300 arms untouched."""
    counts = identify(problems.many_arms(300, seed=0), 0)[1]
    assert np.count_nonzero(counts) <= 15


def test_noise_level_enters_once() -> None:
    """Scaling rewards and noise by ten leaves every pull as it was."""
    problem = problems.soare(3, 0.5)
    louder = Problem(X=problem.X, theta=10 * problem.theta, noise_std=10.0, name="louder")
    assert identify(problem, 2)[3] == identify(louder, 2)[3]


def test_design_approaches_the_closed_form() -> None:
    """Frank-Wolfe reaches Soare's closed-form value 1/T* within two percent in two dimensions."""
    angle, scale = 0.5, 1.0
    problem = problems.soare(2, angle, scale=scale)
    w = tiny.optimal_design(problem.X, problem.theta, start=np.array([0.5, 0.5, 0.0]))
    _, _, value = tiny.closest_rival(problem.X, problem.theta, tiny.information(problem.X, w))
    characteristic_time = 2 * ((1 - np.cos(angle) + np.sin(angle)) / (scale * (1 - np.cos(angle)))) ** 2
    assert w.sum() == pytest.approx(1.0)
    assert 0.98 <= value * characteristic_time <= 1.0 + 1e-9


def test_arms_must_span() -> None:
    """Arms in a plane of three dimensions are refused with their rank."""
    flat = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    with pytest.raises(ValueError, match="rank 2"):
        tiny.identify(flat, lambda _: 0.0, 0.05, rng=np.random.default_rng(0))


def test_file_is_short_and_imports_numpy_alone() -> None:
    """The file stays within 120 lines and has one import."""
    text = SOURCE.read_text(encoding="utf-8")
    imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert len(text.splitlines()) <= 120
    assert [ast.unparse(node) for node in imported] == ["import numpy as np"]


def test_script_prints_the_right_answer() -> None:
    """Run as a script it names arm 98, the best of its instance."""
    done = subprocess.run([sys.executable, str(SOURCE)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("arm 98 is best")
