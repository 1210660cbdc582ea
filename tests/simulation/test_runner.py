import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import surepick as sp
from surepick.arms.finite import FiniteArms
from surepick.core.design import lower_bound
from surepick.errors import InvalidInput
from surepick.learning.noise_models import Symmetric
from surepick.simulation import Problem, Runs, problems, simulate
from surepick.simulation.run import Job, _normals, run_once, run_seeds
from surepick.simulation.runs import _weights_of, brief

EASY = problems.unit_basis([1.0, 0.2, 0.0])


def drawn(seed: int) -> Problem:
    """A small problem of its own for every run."""
    return problems.many_arms(30, seed=seed)


def same(first: Runs, second: Runs) -> bool:
    """Whether everything but the time is equal."""
    columns = first.to_columns(), second.to_columns()
    return all(np.array_equal(columns[0][name], columns[1][name]) for name in columns[0] if name != "seconds")


def test_runs_do_not_depend_on_the_number_of_processes() -> None:
    """One process and two give the same runs, for redrawn problems and with bounds."""
    alone = simulate(drawn, n_runs=6, seed=3, bounds=True)
    together = simulate(drawn, n_runs=6, seed=3, bounds=True, n_jobs=2)
    assert same(alone, together)


def test_run_i_depends_on_the_seed_and_i_only() -> None:
    """Fewer runs are the first ones, and single runs can be repeated."""
    runs = simulate(drawn, n_runs=5, seed=1)
    assert simulate(drawn, n_runs=3, seed=1).n_pulls.tolist() == runs.n_pulls[:3].tolist()
    again = simulate(drawn, seed=1, only=[4, 2])
    assert again.index.tolist() == [4, 2]
    assert again.n_pulls.tolist() == runs.n_pulls[[4, 2]].tolist()
    assert simulate(drawn, n_runs=5, seed=2).n_pulls.tolist() != runs.n_pulls.tolist()


def test_instance_noise_and_learner_have_seeds_of_their_own() -> None:
    """No two of the seeds of two runs agree."""
    first, second = run_seeds(0, 0), run_seeds(0, 1)
    states = [int(seeds.noise.generate_state(1)[0]) for seeds in (first, second)]
    assert len({first.instance, first.learner, second.instance, second.learner, *states}) == 6
    assert run_seeds(0, 1)[::2] == second[::2]


def test_noise_is_one_stream_whatever_the_chunks() -> None:
    """The noise of pull t is the t-th normal of the run's generator."""
    stream = _normals(np.random.default_rng(run_seeds(5, 0).noise))
    drawn_noise = [next(stream) for _ in range(1000)]
    # Spawning a generator does not change the sequence it starts from.
    expected = np.random.default_rng(run_seeds(5, 0).noise).standard_normal(1000)
    np.testing.assert_array_equal(drawn_noise, expected)


def test_runs_that_do_not_stop_are_counted() -> None:
    """A run that reaches max_pulls is there with that many pulls, neither stopped nor correct nor an error."""
    runs = simulate(problems.soare(2, 0.01), n_runs=3, max_pulls=40)
    assert runs.n_pulls.tolist() == [40, 40, 40]
    assert not runs.stopped.any()
    assert not runs.correct.any()
    assert (runs.n_runs, runs.n_unfinished, runs.n_errors) == (3, 3, 0)
    assert "3 of 3 did not stop within 40 pulls" in runs.summary()


def test_ratio_uses_each_runs_own_bound() -> None:
    """The bound of a run is that of the instance it drew."""
    runs = simulate(drawn, n_runs=2, seed=7, bounds=True)
    problem = drawn(run_seeds(7, 1).instance)
    assert runs.lower_bound is not None
    assert runs.lower_bound[1] == pytest.approx(lower_bound(FiniteArms(problem.X), problem.theta, 0.05), rel=1e-9)
    np.testing.assert_allclose(runs.ratio, runs.n_pulls / runs.lower_bound)
    with pytest.raises(InvalidInput, match="bounds=True"):
        _ = simulate(EASY, n_runs=1).ratio


def test_answers_are_judged_by_their_gap() -> None:
    """The best row and a copy of it lose nothing, others what they pay less."""
    problem = Problem(X=np.array([[1.0, 0], [0, 1], [1, 0], [0.95, 0]]), theta=np.array([1.0, 0]), name="copies")
    assert [problem.loss(answer) for answer in range(4)] == pytest.approx([0.0, 1.0, 0.0, 0.05])


def test_epsilon_reaches_the_learner_and_the_judgement() -> None:
    """With slack a near-tie is decided quickly, and the answer counts as correct."""
    near_tie = problems.unit_basis([1.0, 0.99, 0.0])
    runs = simulate(near_tie, n_runs=5, epsilon=0.9, max_pulls=2000)
    assert runs.stopped.all()
    assert runs.correct.all()


def test_transductive_answers_are_rows_of_the_candidates() -> None:
    """Where the answers are not the arms, correct means the best candidate."""
    runs = simulate(problems.transductive(2), n_runs=3, seed=1)
    assert runs.correct.all()


def test_algorithm_options_and_names_are_passed_on() -> None:
    """Options reach the algorithm; unknown names and options are refused before the first run."""
    runs = simulate(EASY, n_runs=2, stopping="evidence")
    assert runs.options == {"stopping": "evidence"}
    with pytest.raises(InvalidInput, match="must be one of"):
        simulate(EASY, "no-such", n_runs=2)


@pytest.mark.parametrize(
    "noise", [{"noise": "per-arm"}, {"noise": "symmetric"}, {"reward_range": (-1.0, 2.0)}, {"rewards": "binary"}]
)
def test_every_noise_model_can_be_simulated(noise: dict) -> None:
    """The learner takes all rewards that are drawn: between bounds they are lo or hi."""
    runs = simulate(problems.unit_basis([1.0, 0.0]), n_runs=2, seed=4, max_pulls=400, **noise)
    assert runs.options == noise
    assert not runs.n_errors
    assert runs.stopped.all()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"n_runs": 0}, "n_runs"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"delta": 1.0}, "delta"),
        ({"seed": -1}, "seed"),
        ({"max_pulls": 0}, "max_pulls"),
        ({"only": []}, "only"),
        ({"only": [1, 1]}, "only"),
        ({"only": [0.7]}, "only"),
        ({"only": [-1]}, "only"),
        ({"only": "01"}, "only"),
        ({"only": ["a"]}, "only"),
        ({"only": 5}, "only"),
        ({"only": np.array(5)}, "only"),
        ({"only": {0: 1}}, "only"),
        ({"epsilon": 0.1, "bounds": True, "m": 2}, "bounds"),
        ({"epsilon": "a", "bounds": True}, "epsilon"),
        ({"bounds": "no"}, "bounds"),
        ({"progress": "yes"}, "progress"),
        ({"algorithm": None}, "algorithm"),
        ({"noise_std": -2.0}, "noise_std"),
        ({"noise_std": "unknown"}, "noise_std"),
        ({"audit": -1}, "audit"),
        ({"algorithm": sp.algorithms.Rage}, r"got the class Rage; write `Rage\(\)`"),
        ({"algorithm": sp.algorithms.Rage(), "constants": "printed"}, "pass it to Rage"),
        ({"candidates": np.eye(3)}, "candidates.*the problem brings"),
        ({"arms": np.eye(3)}, "arms.*the problem brings"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict, complaint: str) -> None:
    """What cannot be used is named."""
    with pytest.raises(InvalidInput, match=complaint):
        simulate(EASY, **arguments)


class Coins(Problem):
    """A problem whose rewards are 0 or 1."""

    def pull(self, arm: int, rng: np.random.Generator) -> float:
        """Toss the coin of an arm."""
        return float(rng.random() < self.X[arm] @ self.theta)


class Measured:
    """A problem that is no `Problem`: means that are not linear, and noise of its own."""

    X, name = np.eye(3), "measured"

    def pull(self, arm: int, rng: np.random.Generator) -> float:
        """Draw a reward."""
        return (1.0, 0.4, 0.1)[arm] + float(rng.uniform(-0.2, 0.2))

    def loss(self, answer: int) -> float:
        """Return the loss of an answer."""
        return (0.0, 0.6, 0.9)[answer]


def test_a_problem_draws_its_own_rewards() -> None:
    """`pull` was ignored before: rewards were always normal."""
    coins = Coins(X=np.eye(2), theta=np.array([0.9, 0.2]), name="coins")
    runs = simulate(coins, n_runs=3, rewards="binary")  # refuses all but 0 and 1
    assert runs.correct.all()
    with pytest.raises(InvalidInput, match="0 or 1"):
        simulate(Measured(), n_runs=1, rewards="binary")  # type: ignore[arg-type]
    assert simulate(Measured(), n_runs=3, n_jobs=2).correct.all()  # type: ignore[arg-type]
    assert simulate(lambda _: Measured(), n_runs=1).correct.all()  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidInput, match="bounds"):
        simulate(Measured(), n_runs=1, bounds=True)  # type: ignore[arg-type]


def test_the_noise_is_told_or_learnt_or_wrong() -> None:
    """By default the problem's own; None is the default of `identify`; a number is passed on."""
    known = simulate(EASY, n_runs=20, seed=2)
    learnt = simulate(EASY, n_runs=20, seed=2, noise_std=None)
    assert learnt.options == {"noise_std": None}
    assert known.mean < learnt.mean  # of the same noise; seed and runs are fixed
    assert simulate(EASY, n_runs=5, seed=2, noise_std=3.0).mean > 3.0 * known.mean
    assert simulate(EASY, n_runs=20, seed=2, noise_std=1.0).n_pulls.tolist() == known.n_pulls.tolist()


def test_noise_that_differs_between_arms_is_drawn_so() -> None:
    """Known or not; the quiet arm alone would be decided at once."""
    loud = Problem(X=np.eye(2), theta=np.array([1.0, 0.0]), name="loud", noise_std=np.array([0.1, 2.0]))
    for noise in ({}, {"noise": "per-arm"}):
        runs = simulate(loud, n_runs=3, seed=1, **noise)  # type: ignore[arg-type]
        assert runs.correct.all()
        assert runs.mean > 20
    assert loud.pull(0, np.random.default_rng(0)) == pytest.approx(1.0 + 0.1 * np.random.default_rng(0).normal())
    with pytest.raises(InvalidInput, match="one for each of 2 arms, got 3"):
        Problem(X=np.eye(2), theta=np.array([1.0, 0.0]), name="odd", noise_std=[1.0, 1.0, 1.0])


def test_answers_of_several_arms_are_judged_as_sets() -> None:
    """With m = 2 every run ended in a TypeError before."""
    problem = problems.unit_basis([1.0, 0.9, 0.2, 0.0])
    assert [problem.loss(answer) for answer in ([0, 1], [1, 0], [0, 2])] == pytest.approx([0.0, 0.0, 0.7])
    runs = simulate(problem, n_runs=3, seed=1, m=2, bounds=True)
    assert runs.lower_bound is not None
    assert runs.lower_bound[0] == lower_bound(problem.X, problem.theta, m=2)
    assert runs.stopped.all()
    assert runs.correct.all()


def test_check_pulls_and_costs_are_simulated() -> None:
    """Check pulls count; an answer that they withdraw is not one."""
    plain, checked = simulate(EASY, n_runs=3), simulate(EASY, n_runs=3, audit=30)
    assert (checked.n_pulls - plain.n_pulls >= 30).all()
    assert checked.correct.all()

    class Bent(Problem):
        def pull(self, arm: int, rng: np.random.Generator) -> float:
            return float((0.0, 1.0, 1.8)[arm] + 0.05 * rng.standard_normal())

    line = Bent(X=np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]]), theta=np.array([0.0, 0.9]), name="bent")
    withdrawn = simulate(line, n_runs=2, audit=60, noise_std=0.05, max_pulls=500)
    assert withdrawn.n_unfinished == 2
    cheap = simulate(EASY, n_runs=3, costs=[1.0, 1.0, 5.0])
    assert cheap.cost is not None
    assert (cheap.cost > cheap.n_pulls).all()


def test_groups_with_offsets_are_simulated_beside_their_own_bound() -> None:
    """A block is a group; the bound of single pulls was 35 times below that of groups of any size."""
    problem = problems.soare(2, angle=0.3)
    runs = simulate(problem, n_runs=4, seed=1, groups="offset", bounds=True)
    assert runs.correct.all()
    assert runs.lower_bound is not None
    assert runs.lower_bound[0] == lower_bound(problem.X, problem.theta, groups="offset")
    assert 1.0 < runs.ratio.mean() < 5.0
    checked = simulate(problem, n_runs=4, seed=1, groups="offset", audit=12)
    assert (checked.n_pulls - runs.n_pulls >= 12).all()
    watched = simulate(problem, n_runs=2, seed=1, groups="watch", bounds=True)
    assert watched.lower_bound is not None
    assert watched.lower_bound[0] == lower_bound(problem.X, problem.theta)


def test_lower_bounds_are_for_normal_noise() -> None:
    """Coins came out at half of a "lower bound" that is for normal noise of standard deviation 1."""
    coins = Coins(X=np.eye(2), theta=np.array([0.9, 0.2]), name="coins")
    others: list[dict[str, Any]] = [
        {"rewards": "binary"},
        {"reward_range": (0.0, 1.0)},
        {"noise": "symmetric"},
        {"noise": Symmetric()},
    ]
    for noise in others:
        with pytest.raises(InvalidInput, match="`bounds` needs normal noise"):
            simulate(coins, n_runs=1, bounds=True, **noise)
    normal: list[dict[str, Any]] = [{"noise": "per-arm"}, {"noise": "any"}, {"drift": 0.1}]
    for noise in normal:
        runs = simulate(EASY, n_runs=1, max_pulls=20, bounds=True, **noise)
        assert runs.lower_bound is not None
        assert runs.lower_bound[0] == lower_bound(EASY.X, EASY.theta)


def test_algorithms_may_be_objects() -> None:
    """As in `identify`; the name is that of its class in the table of algorithms."""
    runs = simulate(EASY, sp.algorithms.Rage(constants="printed"), n_runs=2, seed=1)
    assert runs.algorithm == "rage"
    assert runs.n_pulls.tolist() == simulate(EASY, "rage", constants="printed", n_runs=2, seed=1).n_pulls.tolist()


def test_matrices_are_shown_by_their_size() -> None:
    """A table or a long list in the options does not fill the summary."""
    assert brief([[1.0, 2.0]] * 9) == "9 x 2 numbers"
    assert brief([0.5] * 100) == "100 values"
    assert brief([[1.0], [2.0, 3.0]]) == "2 rows"
    assert (brief([1.0, 0.5]), brief("betting"), brief(None)) == ("[1.0, 0.5]", "betting", "None")
    runs = simulate(problems.unit_basis(np.arange(20.0)), n_runs=1, costs=np.ones(20))
    assert "costs=20 values" in runs.summary()


def test_means_outside_the_bounds_of_rewards_are_refused_by_name() -> None:
    """They were taken for the bound before, silently, and another arm could be best."""
    odd = problems.unit_basis([1.3, 0.2, -0.1])
    with pytest.raises(InvalidInput, match=r"must lie between 0 and 1, .*, got -0.1 to 1.3 for arms 0 and 2 of"):
        simulate(odd, n_runs=1, rewards="binary")
    with pytest.raises(InvalidInput, match=r"got 1.3 for arm 0 of"):
        simulate(odd, n_runs=1, reward_range=(-0.5, 1.0))
    ends = problems.unit_basis([0.1 + 0.2 + 0.7, 0.5, 0.0])  # rounding puts no mean outside
    assert simulate(ends, n_runs=1, rewards="binary").n_errors == 0


def test_ties_are_refused_where_no_run_would_end() -> None:
    """Unless epsilon, a number of pulls or a budget ends the runs; copies of the best are no tie."""
    tied = Problem(X=np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), theta=np.array([1.0, 0.5]), name="tied")
    for problem, options in ((tied, {}), (lambda _: tied, {}), (problems.unit_basis([1.0, 0.5, 0.5]), {"m": 2})):
        with pytest.raises(InvalidInput, match="are equally good, so a run would never end; give `epsilon`"):
            simulate(problem, n_runs=1, **options)  # type: ignore[arg-type]
    assert simulate(tied, n_runs=1, max_pulls=50).n_unfinished == 1
    assert simulate(tied, n_runs=1, budget=20).n_pulls.tolist() == [20]
    assert simulate(tied, n_runs=1, epsilon=0.5).n_errors == 0
    copied = Problem(X=np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), theta=np.array([1.0, 0.2]), name="copied")
    assert simulate(copied, n_runs=1).n_errors == 0


@pytest.mark.parametrize("problem", [None, np.eye(2), "soare", lambda _: None, lambda _: np.eye(2)])
def test_what_is_no_problem_is_refused(problem: object) -> None:
    """A thing that is no problem, or a function that draws none, is named as such."""
    with pytest.raises(InvalidInput, match=r"`problem` must be a .*(NoneType|ndarray|str)"):
        simulate(problem, n_runs=1)  # type: ignore[arg-type]


def test_an_error_in_another_process_arrives_with_its_run() -> None:
    """A failing problem ends the simulation; the note names the run to repeat."""

    def failing(seed: int) -> Problem:
        raise ZeroDivisionError(seed)

    with pytest.raises(ZeroDivisionError) as caught:
        simulate(failing, n_runs=4, n_jobs=2)
    assert "simulate(..., only=[" in "".join(caught.value.__notes__)


def test_progress_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    """A function hears of every run; without a terminal True writes plain lines to standard error."""
    heard: list[tuple[int, int]] = []
    simulate(EASY, n_runs=3, progress=lambda done, total: heard.append((done, total)))
    assert heard == [(1, 3), (2, 3), (3, 3)]
    simulate(EASY, n_runs=4, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == "lazy-track-and-stop: 4 of 4 runs"
    assert "\x1b" not in err


def runs_of(n_pulls: list[int], *, stopped: list[bool], correct: list[bool]) -> Runs:
    """Made-up runs, to check the statistics by hand."""
    n = len(n_pulls)
    return Runs(
        problem="made up",
        is_redrawn=False,
        algorithm="none",
        options={},
        delta=0.05,
        epsilon=0.0,
        seed=0,
        max_pulls=99,
        index=np.arange(n),
        n_pulls=np.array(n_pulls),
        stopped=np.array(stopped),
        correct=np.array(correct),
        seconds=np.full(n, 0.5),
        support=np.full(n, 2),
    )


def test_statistics_are_those_of_the_textbook() -> None:
    """Mean, standard error, median, quantiles and error rate of four runs."""
    runs = runs_of([10, 20, 30, 99], stopped=[True, True, True, False], correct=[True, True, False, False])
    assert runs.mean == 39.75
    assert runs.se == pytest.approx(np.std([10, 20, 30, 99], ddof=1) / 2)
    assert runs.median == 25.0
    np.testing.assert_allclose(runs.quantiles((0.0, 1.0)), [10, 99])
    assert (runs.n_errors, runs.error_rate) == (1, 0.25)
    assert len(runs) == 4
    assert repr(runs) == runs.summary()
    assert np.isnan(runs_of([10], stopped=[True], correct=[True]).se)


@pytest.mark.parametrize(("n_errors", "n_runs"), [(0, 20), (3, 20), (20, 20)])
def test_error_interval_is_exact(n_errors: int, n_runs: int) -> None:
    """At the ends of the Clopper-Pearson interval the observed count is as extreme as 2.5 % allow."""
    wrong = [i < n_errors for i in range(n_runs)]
    runs = runs_of([1] * n_runs, stopped=[True] * n_runs, correct=[not w for w in wrong])
    low, high = runs.error_interval()
    assert low <= n_errors / n_runs <= high
    assert low == 0.0 if n_errors == 0 else binom.sf(n_errors - 1, n_runs, low) == pytest.approx(0.025)
    assert high == 1.0 if n_errors == n_runs else binom.cdf(n_errors, n_runs, high) == pytest.approx(0.025)


def test_frame_has_a_row_per_run() -> None:
    """The data frame holds the columns, in order."""
    runs = simulate(EASY, n_runs=3, bounds=True)
    frame = runs.to_frame()
    assert list(frame.columns) == [
        "run", "n_pulls", "stopped", "correct", "support", "seconds", "lower_bound", "ratio",
    ]  # fmt: skip
    assert frame["n_pulls"].tolist() == runs.n_pulls.tolist()


def test_one_process_needs_neither_joblib_nor_rich() -> None:
    """A simulation in one process, with its progress, runs on numpy and scipy alone."""
    script = """
import sys
for name in ("joblib", "rich", "pandas", "matplotlib", "typer"):
    sys.modules[name] = None
from surepick.simulation import problems, simulate
runs = simulate(problems.unit_basis([1.0, 0.0]), n_runs=2, progress=True)
assert isinstance(runs.to_frame(), dict)
try:
    simulate(problems.unit_basis([1.0, 0.0]), n_runs=2, n_jobs=2)
except Exception as error:
    assert "joblib" in str(error), error
else:
    raise SystemExit("two processes without joblib")
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_traces_say_the_way_of_a_run() -> None:
    """On a grid of times; the runs are those without traces, and shares tend to the design."""
    plain = simulate(EASY, n_runs=2, seed=3, delta=1e-6)
    runs = simulate(EASY, n_runs=2, seed=3, delta=1e-6, trace=True, n_jobs=2)
    assert same(plain, runs)
    assert plain.traces == ()
    for trace, n_pulls in zip(runs.traces, runs.n_pulls, strict=True):
        assert trace.times[-1] == n_pulls == trace.counts[-1].sum()
        assert (np.diff(trace.times) > 0).all()
        assert len(trace.times) < 60 < n_pulls
        assert trace.counts.shape == (len(trace.times), 3)
        assert trace.evidence[-1] >= np.log(1e6)
        assert trace.support.tolist() == [int((row > 0).sum()) for row in trace.counts]
        assert np.isnan(trace.weights[0]).all()  # no design before the first estimate
        assert trace.weights[-1].sum() == pytest.approx(1.0)
        assert trace.design_support[-1] == (trace.weights[-1] > 0).sum()
    design = sp.characteristic_time(EASY.X, EASY.theta)
    weights = dict(zip(design.support.tolist(), design.weights.tolist(), strict=True))
    assert abs(runs.traces[0].shares[-1] - [weights.get(arm, 0.0) for arm in range(3)]).max() < 0.2
    canvas = runs.plot_shares(weights, run=1)
    assert len(canvas.axes[0].lines) == 3 + len(weights) + 1  # and the entry of the legend
    with pytest.raises(InvalidInput, match="trace=True"):
        plain.plot_shares()
    with pytest.raises(InvalidInput, match="`run` must be below the number of traces, 2, got 2"):
        runs.plot_shares(run=2)
    assert re.fullmatch(r"Trace\(\d+ pulls at \d+ times, 3 arms, evidence [\d.]+\)", repr(runs.traces[0]))
    with pytest.raises(InvalidInput, match="`trace` needs a list of arms"):
        simulate(problems.sphere_set(2), n_runs=1, trace=True)


def test_designs_are_recorded_where_there_are_any() -> None:
    """The weights of a fixed design, of phases and through blocks of repetitions; arms in turn follow none."""
    cases: list[tuple[str, dict[str, Any]]] = [
        ("g-static", {}),
        ("rage", {}),
        ("lazy-track-and-stop", {"noise": "per-arm"}),
    ]
    fixed, phased, repeated = (
        simulate(EASY, name, n_runs=1, seed=3, trace=True, **options).traces[0] for name, options in cases
    )
    design = sp.optimal_design(EASY.X)
    np.testing.assert_allclose(fixed.weights[-1][design.support], design.weights, atol=0.02)
    assert (fixed.weights[-1] == fixed.weights[0]).all()
    assert phased.weights[-1].sum() == repeated.weights[-1].sum() == pytest.approx(1.0)
    in_turn = simulate(EASY, "uniform", n_runs=1, seed=3, trace=True).traces[0]
    assert np.isnan(in_turn.weights).all()
    assert np.isnan(in_turn.design_support).all()


def test_designs_of_the_many_arms_have_two_arms() -> None:
    """As published without averaging, 2.04: the optimal design has two arms, and a design near it one more."""
    options: dict[str, Any] = {"variant": "paper", "stopping": "paper-appendix", "tracking": "current"}
    exact, usual = (
        np.mean([run_once(job, run).design_support for run in range(12)])
        for job in (
            Job(lambda seed: problems.many_arms(1000, seed=seed), seed=160, options={**options, **more})
            for more in ({"design_gap": 1e-6}, {})
        )
    )
    assert 2.0 <= exact < 2.15
    assert 2.9 < usual <= 3.0
    with pytest.raises(InvalidInput, match="`design_gap` must be a relative gap"):
        simulate(EASY, design_gap=0.0, n_runs=1)


def test_a_budget_that_ended_the_runs_is_named() -> None:
    """Not `max_pulls`, which no run reached; runs without an answer are no errors, and the text says that."""
    runs = simulate(problems.soare(2, angle=0.05), "uniform", n_runs=3, budget=20)
    assert (runs.n_unfinished, runs.n_errors, runs.n_pulls.max()) == (3, 0, 20)
    assert "3 of 3 did not stop within the budget of 20 and have no answer; the mean counts" in runs.summary()


def test_shares_stand_beside_a_design_or_weights() -> None:
    """A design, an array and a dict give the same dashed lines; anything else is refused in a sentence."""
    design = sp.characteristic_time(problems.soare(2).X, problems.soare(2).theta)
    full = np.zeros(3)
    full[design.support] = design.weights
    as_dict = dict(zip(design.support.tolist(), design.weights.tolist(), strict=True))
    assert {arm: w for arm, w in _weights_of(full, 3).items() if w} == _weights_of(design, 3) == as_dict
    assert _weights_of(None, 3) == {}
    for wrong in ([0.5, 0.5], "abc"):
        with pytest.raises(InvalidInput, match="a weight for each of the 3 arms"):
            _weights_of(wrong, 3)
