"""Wrong answers in badly organised labs and under attacks, counted in thousands of runs: the long form of the tests.

Run `python -m benchmarks.errors [runs]`; with 2,000 runs per pair about an hour on two cores. Single tables, in a few
minutes each: `python -m benchmarks errors late`, `... errors screened` (earlier results), `... errors readings`
(rounded and repeated readings), `... errors shape` (noise that is not normal, and what is said of it).

First table: every algorithm under each rule whose label is a proof, at delta = .3, in the labs of
`tests.statistical.reference_implementation` (batches, disorder, failures, unsolicited results, resumption) in turn; on
the arc, where nearly every answer is wrong, or, for published rules, on two arms at which these stop. Second table:
attacks beside the same runs without them. Limits are exact binomial, false alarm 1e-6 each. The last column of the
first table is the sum of the errors of blocks under the betting rule, over what it exceeds in size about once in a
million (`chaos.Spied`).
Third table: confidence intervals and the bound on the loss under delays that depend on values, which the betting rule
allows; beside the same formulas with all results told so far in the place of a prefix of the asks.
"""

import math
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np

import surepick as sp
from surepick.core.noise import noise_to_assume
from surepick.errors import Skipped
from surepick.learning.estimates import estimates_of
from surepick.learning.result import Result
from surepick.types import IntArray
from tests.statistical.reference_implementation import (
    ARC,
    Habits,
    Setting,
    Tally,
    count,
    error_limit,
    normal_limit,
    trials,
)
from tests.statistical.test_readings import cache, curve, doses
from tests.statistical.test_readings import count as count_readings
from tests.tasks import AnyLearner

N_RUNS = 2000
N_JOBS = 2
BATCH = 25
HORIZONS = {"betting": 60, "evidence": 60, "published": 400}
N_STEERED, STEERED_HORIZON = 300, 1500  # a steered block gains little, so it takes many
LATE_DELTA, LATE_ASKS, LATE_BY = 0.2, 320, 220


class Quitting:
    """A `pull` on the arc that skips the rest of a block if the first arm of it does not speak for a wrong one.

    It knows the schedule, blocks of four results, and relents after a few attempts: else the block would never end.
    """

    def __init__(self, run: int, *, is_quitting: bool) -> None:
        self.rng, self.is_quitting = np.random.default_rng([run, 5]), is_quitting
        self.results: list[tuple[int, float]] = []
        self._begin()

    def _begin(self) -> None:
        t = len(self.results)
        self.ends, self.first, self.total, self.patience = t + (2 if t < 2 else max(4 - t % 4, 2)), -1, 0.0, 8
        A = sum((np.outer(ARC.X[arm], ARC.X[arm]) for arm, _ in self.results), np.zeros((2, 2)))
        self.theta = self.lean = np.zeros(2)
        if np.linalg.matrix_rank(A) == 2:
            self.theta = np.linalg.solve(A, sum((r * ARC.X[arm] for arm, r in self.results), np.zeros(2)))
            self.lean = np.linalg.solve(A, ARC.X[1 if self.theta[1] > 0.0 else 2] - ARC.X[0])

    def __call__(self, arm: int) -> float:
        """Measure, or give up."""
        self.first = arm if self.first < 0 else self.first
        if self.is_quitting and arm != self.first and self.total < 0.0 and self.patience > 0:
            self.patience -= 1
            raise Skipped
        reward = float(ARC.X[arm] @ ARC.theta + self.rng.standard_normal())
        self.results.append((arm, reward))
        if arm == self.first:
            self.total += (reward - float(ARC.X[arm] @ self.theta)) * float(ARC.X[arm] @ self.lean)
        if len(self.results) == self.ends:
            self._begin()
        return reward


def sessions(name: str, run: int, *, is_quitting: bool, n_sessions: int, n_pulls: int) -> Result:
    """Identify in several calls, each going on with the history of the one before."""
    pull, history = Quitting(run, is_quitting=is_quitting), None
    for _ in range(n_sessions):
        result = sp.identify(
            ARC.X,
            pull,
            algorithm=name,
            stopping="betting",
            schedule="periodic:4",
            delta=0.3,
            seed=run,
            max_pulls=n_pulls,
            history=history,
            noise_std=1.0,
        )
        history = result.history
        if result.stopped:
            break
    return result


def count_sessions(name: str, runs: range, **how: Any) -> Tally:
    """Count wrong answers of `sessions`."""
    total = Tally()
    for run in runs:
        result = sessions(name, run, **how)
        total += Tally(result.stopped and result.best != 0, result.stopped, 1)
    return total


def count_steered(selection: str, runs: range, *, is_steering: bool) -> Tally:
    """Count wrong answers of `steered`."""
    total = Tally()
    for run in runs:
        learner = steered(selection, run, is_steering=is_steering)
        total += Tally(learner.stopped and learner.decision.best != 0, learner.stopped, 1)
    return total


def steered(selection: str, run: int, *, is_steering: bool) -> sp.Learner:
    """Run top-two in a lab that reports every reward, chooses every arm before its reward, and steers blocks.

    In blocks of twelve it wants the wrong leader first. If that does not do well, it wants nothing else, so that the
    block says nothing about the pair; else the other arm, so that the block counts. Unsolicited results between asks
    were to bring that about: pulls in proportion make up for those of one arm with asks of the other, draws by counts
    follow them.
    """
    means, rng = np.array([0.02, 0.0]), np.random.default_rng([run, 7])
    learner: sp.Learner = AnyLearner(
        "top-two",
        np.eye(2),
        selection=selection,
        stopping="betting",
        g_mix=0.0,
        exploration=0.0,
        schedule="periodic:12",
        delta=0.1,
        seed=run,
        noise_std=1.0,
    )

    def tell(arm: int) -> float:
        reward = float(means[arm] + rng.standard_normal())
        learner.tell(arm, reward)
        return reward

    for arm in learner.next_arms(2):
        tell(arm)
    while not learner.stopped and learner.estimate.n_pulls < STEERED_HORIZON:
        length, theta = max(12 - learner.estimate.n_pulls % 12, 2), learner.theta
        total, chosen = 0.0, [0, 0]
        for place in range(length):
            if is_steering and theta[1] > theta[0] and place > 0:
                wanted = 1 if place < length // 2 or total < 0.0 else 0
                ahead = [learner.counts[arm] + chosen[arm] for arm in (0, 1)]
                if selection == "ratio":
                    for _ in range(ahead[wanted] - ahead[1 - wanted] + 1):
                        tell(1 - wanted)
                else:
                    tell(wanted)
                    tell(wanted)
            (arm,) = learner.next_arms(1)
            reward = tell(arm)
            chosen[arm] += 1
            total += (reward - float(theta[1])) * (arm == 1)
            if learner.stopped:
                break
    return learner


def late(run: int, noise_std: float | None, *, is_late: bool) -> list[bool]:
    """Measure two arms in a lab where the good values of the better arm come in 220 asks later than the others.

    Returns:
        Whether some interval ever missed, as a result shows it and by the same formula from all results told so far;
        and the same two of the bound on the loss.
    """
    means, rng = np.array([0.3, 0.0]), np.random.default_rng([run, 11])
    learner = sp.create_learner(
        "uniform",
        np.eye(2),
        stopping="betting",
        schedule="periodic:40",
        delta=LATE_DELTA,
        seed=run,
        noise_std=noise_std,
    )
    held: deque[tuple[sp.Ask, float]] = deque()
    found = np.zeros(4, dtype=bool)
    while learner.n_asked < LATE_ASKS:
        for ask in learner.next_asks(20):
            reward = float(means[ask.arm] + rng.standard_normal())
            if is_late and ask.arm == 0 and reward > means[0]:
                held.append((ask, reward))
            else:
                learner.tell(ask.arm, reward, ask=ask.number)
        while held and held[0][0].number < learner.n_asked - LATE_BY:
            ask, reward = held.popleft()
            learner.tell(ask.arm, reward, ask=ask.number)
        if learner.n_asked % 40 == 0:
            shown, told = learner.result(), learner.estimate
            tables = shown.arms, estimates_of(learner.unscaled, told, delta=LATE_DELTA, noise_std=noise_std)
            noise, delta = noise_to_assume(told, noise_std, LATE_DELTA)
            bounds = [shown.epsilon_bound, math.inf]
            if math.isfinite(noise):
                bounds[1] = learner.candidates.largest_loss(shown.best, told, delta=delta, noise_std=noise)
            found[:2] |= [bool(((means < one.low) | (means > one.high)).any()) for one in tables]
            found[2:] |= means.max() - means[shown.best] > bounds
    return found.tolist()


def count_late(noise_std: float | None, runs: range, *, is_late: bool) -> IntArray:
    """Count in how many runs `late` found each of its four errors."""
    found: IntArray = np.sum([late(run, noise_std, is_late=is_late) for run in runs], axis=0)
    return found


def screened(run: int, *, n_options: int = 200, earlier: Literal["evidence", "guidance"] = "guidance") -> Result:
    """Measure equal options twenty times each, and identify the better of the two that look worst and best.

    Their results go along as `history`. Arms were chosen after a look at them; the answer is wrong if it is the one
    that looked best, which is worse than the other by a millionth of the noise.
    """
    rng = np.random.default_rng([run, 61])
    results = rng.standard_normal((20, n_options))
    totals = results.sum(axis=0)
    kept = results[:, [int(np.argmin(totals)), int(np.argmax(totals))]]
    history = [(arm, float(reward)) for row in kept for arm, reward in enumerate(row)]
    return sp.identify(
        np.eye(2),
        lambda arm: float(rng.standard_normal()) - 1e-6 * arm,
        noise_std=1.0,
        history=history,
        earlier=earlier,
        max_pulls=40,
        seed=run,
    )


def count_screened(runs: range, *, n_options: int = 200, earlier: Literal["evidence", "guidance"]) -> Tally:
    """Count wrong answers of `screened`."""
    total = Tally()
    for run in runs:
        result = screened(run, n_options=n_options, earlier=earlier)
        total += Tally(result.stopped and result.best != 0, result.stopped, 1)
    return total


def screened_table(n_runs: int) -> None:
    """Print wrong answers after screening, by what the results of the screening are said to be."""
    print(f"wrong (answers) in {n_runs} runs, delta 0.05, limit {error_limit(n_runs, 0.05)}")
    kinds: tuple[Literal["evidence", "guidance"], ...] = ("guidance", "evidence")
    for earlier in kinds:
        tally = count_screened(range(n_runs), earlier=earlier)
        print(f"200 options screened, two passed on as {earlier}: {tally.wrong} ({tally.stopped})", flush=True)


def _counted(work: Callable[..., Any], key: Any, runs: range) -> tuple[Any, Any]:
    return key, work(runs=runs)


def _chaos(setting: Setting, habits: Habits, runs: range) -> tuple[Tally, list[float]]:
    errors: list[float] = []
    return count(setting, habits, runs, errors), errors


def in_batches(work: dict[Any, tuple[Callable[..., Any], range]]) -> Iterator[tuple[Any, Any]]:
    """Yield (key, counted) of all batches of runs, in any order."""
    from joblib import Parallel, delayed, parallel_config  # noqa: PLC0415 - `make bench` of others needs none

    tasks = [
        delayed(_counted)(what, key, runs[start : start + BATCH])
        for key, (what, runs) in work.items()
        for start in range(0, len(runs), BATCH)
    ]
    with parallel_config(backend="loky", inner_max_num_threads=1):
        yield from Parallel(n_jobs=N_JOBS, return_as="generator_unordered")(tasks)


def chaos_table(n_runs: int) -> None:
    """Print wrong answers (answers) per algorithm and rule."""
    work: dict[Any, tuple[Callable[..., Any], range]] = {}
    tallies: dict[tuple[str, str], Tally] = {}
    for rule, horizon in HORIZONS.items():
        for place, (setting, habits) in enumerate(trials(rule, horizon=horizon)):
            n = len(range(place % 3, n_runs, 3))  # three labs share the runs of an algorithm
            first = 100_000 * place
            key = rule, setting.algorithm, habits.name
            work[key] = partial(_chaos, setting, habits), range(first, first + n)
            tallies[setting.algorithm, rule] = Tally()
    errors: dict[str, list[float]] = {}
    for (rule, name, _), (tally, found) in in_batches(work):
        tallies[name, rule] += tally
        if rule == "betting":
            errors.setdefault(name, []).extend(found)
    print(f"wrong (answers) in {n_runs} runs, delta .3, limit {error_limit(n_runs)}")
    print(f"{'algorithm':20s}" + "".join(f"{rule:>16s}" for rule in HORIZONS) + f"{'blocks':>10s}{'sum/limit':>11s}")
    for name in sp.algorithms.names():
        cells = [tallies.get((name, rule)) for rule in HORIZONS]
        shown = ["-" if cell is None else f"{cell.wrong} ({cell.stopped})" for cell in cells]
        own = errors[name]
        print(
            f"{name:20s}" + "".join(f"{cell:>16s}" for cell in shown) + f"{len(own):10d}"
            f"{sum(own) / normal_limit(len(own)):11.2f}",
            flush=True,
        )


def attack_table(n_runs: int) -> None:
    """Print wrong answers with and without each attack."""
    n_fewer, n_steered = max(n_runs // 4, 1), min(N_STEERED, n_runs)
    work: dict[Any, tuple[Callable[..., Any], range]] = {}
    for name in ("rage", "lazy-track-and-stop"):
        for label, n_sessions, n_pulls in (("one session", 1, 300), ("16 sessions", 16, 19)):
            for is_quitting in (False, True):
                counted = partial(count_sessions, name, is_quitting=is_quitting, n_sessions=n_sessions, n_pulls=n_pulls)
                work[f"rest of a block given up, {name}, {label}", is_quitting, 0.3] = counted, range(n_fewer)
    for selection in ("ratio", "ids"):
        for is_steering in (False, True):
            key = f"blocks steered, top-two {selection}", is_steering, 0.1
            work[key] = partial(count_steered, selection, is_steering=is_steering), range(n_steered)
    tallies: dict[Any, Tally] = {}
    for key, tally in in_batches(work):
        tallies[key] = tallies.get(key, Tally()) + tally
    print(f"\n{'attack':58s}{'delta':>6s}{'runs':>6s}{'limit':>6s}{'without':>12s}{'with it':>12s}")
    for label, is_on, delta in work:
        if is_on:
            continue
        cells = [tallies[label, attacked, delta] for attacked in (False, True)]
        shown = "".join(f"{f'{cell.wrong} ({cell.stopped})':>12s}" for cell in cells)
        print(f"{label:58s}{delta:6.1f}{cells[0].runs:6d}{error_limit(cells[0].runs, delta):6d}{shown}", flush=True)


def late_table(n_runs: int) -> None:
    """Print how often intervals miss and bounds on the loss are wrong if good values come late."""
    work: dict[Any, tuple[Callable[..., Any], range]] = {
        (noise_std, is_late): (partial(count_late, noise_std, is_late=is_late), range(n_runs))
        for noise_std in (1.0, None)
        for is_late in (False, True)
    }
    counts = dict.fromkeys(work, np.zeros(4, dtype=int))
    for key, counted in in_batches(work):
        counts[key] = counts[key] + counted
    print(f"\nof {n_runs} runs, delta {LATE_DELTA:g}, limit {error_limit(n_runs, LATE_DELTA)}")
    print(f"{'good values':14s}{'noise':>8s}{'missed':>8s}{'wrong':>8s}{'all told: missed':>18s}{'wrong':>8s}")
    for (noise_std, is_late), (missed, all_missed, wrong, all_wrong) in counts.items():
        label, noise = "late" if is_late else "in order", "learnt" if noise_std is None else "given"
        print(f"{label:14s}{noise:>8s}{missed:8d}{wrong:8d}{all_missed:18d}{all_wrong:8d}", flush=True)


def readings_table(n_runs: int) -> None:
    """Print wrong answers on coarse, equal and repeated readings."""
    cases = {"doses in one cell": doses, "curve, noise a tenth of a digit": curve, "cache": cache}
    work: dict[Any, tuple[Callable[..., Any], range]] = {
        (label, noise): (partial(count_readings, case, noise=noise), range(n_runs))
        for label, case in cases.items()
        for noise in ("same", "per-arm")
    }
    tallies = dict.fromkeys(work, Tally())
    for key, tally in in_batches(work):
        tallies[key] += tally
    print(f"\nwrong (answers labelled proved) of {n_runs} runs, delta 0.05, limit {error_limit(n_runs, 0.05)}")
    for (label, noise), tally in tallies.items():
        print(f"{label:34s}{noise:>9s}{tally.wrong:7d} ({tally.stopped})", flush=True)


Law = Callable[[np.random.Generator, int], float]
"""Noise of one measurement of an arm, of mean 0 and standard deviation about 1."""


def _log_normal(rng: np.random.Generator, _: int) -> float:
    return float(rng.lognormal() - math.exp(0.5)) / math.sqrt((math.e - 1.0) * math.e)


def _zero_inflated(rng: np.random.Generator, _: int) -> float:
    return float(rng.exponential() * (rng.random() < 0.2) - 0.2) / 0.6


LAWS: dict[str, Law] = {
    "normal": lambda rng, _: float(rng.standard_normal()),
    "t, 3 degrees of freedom": lambda rng, _: float(rng.standard_t(3)) / math.sqrt(3.0),
    "Laplace": lambda rng, _: float(rng.laplace()) / math.sqrt(2.0),
    "uniform": lambda rng, _: float(rng.uniform(-1.0, 1.0)) * math.sqrt(3.0),
    "5 % outliers, 10 times as far": lambda rng, _: (
        float(rng.standard_normal()) * (10.0 if rng.random() < 0.05 else 1.0) / math.sqrt(5.95)
    ),
    "exponential": lambda rng, _: float(rng.exponential()) - 1.0,
    "exponential, negative": lambda rng, _: 1.0 - float(rng.exponential()),
    "log-normal": _log_normal,
    "log-normal, negative": lambda rng, arm: -_log_normal(rng, arm),
    "80 % zeros, else exponential": _zero_inflated,
    "80 % zeros, negative": lambda rng, arm: -_zero_inflated(rng, arm),
    "third arm 5 times as noisy": lambda rng, arm: float(rng.standard_normal()) * (5.0 if arm == 2 else 1.0),
    "normal, readings rounded to 1": lambda rng, _: float(rng.standard_normal()),
}
DOSES = np.array([[1.0], [2.0], [3.0]]), np.array([-0.002])
"""Three doses as one feature without a constant; the smallest is best by a hair: nearly every answer is wrong."""
FIELD = np.array([[1.0, 0.0], [0.0, 1.0], [math.cos(0.1), math.sin(0.1)]]), np.array([1.0, 0.0])
"""Two axes and an arm between them, close to the best, the first."""
SHAPE_PULLS = 150


def count_shapes(X: np.ndarray, theta: np.ndarray, law: Law, runs: range, places: int = 15) -> Counter[str]:
    """Count runs without noise_std that stop at an arm other than the first, and the labels of all runs."""
    seen: Counter[str] = Counter()
    for run in runs:
        rng = np.random.default_rng([run, 17])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = sp.identify(
                X,
                lambda arm, rng=rng: round(float(X[arm] @ theta) + law(rng, arm), places),  # type: ignore[misc]
                delta=0.1,
                seed=run,
                max_pulls=SHAPE_PULLS,
            )
        is_wrong = result.stopped and result.best != 0
        is_few = "cannot be seen from" in result.explain()
        is_proved = is_wrong and result.guarantee == "proved"
        seen.update(wrong=is_wrong, cautioned=is_proved and is_few, unnoticed=is_proved and not is_few)
        seen.update(doubtful=result.guarantee == "doubtful", withdrawn=result.guarantee == "withdrawn")
    return seen


def shape_table(n_runs: int = N_RUNS) -> None:
    """Print for each law of the noise, in percent of the runs, how many are wrong, and what was said of them.

    Cautioned: called proved, with the words that so few residuals show nothing of the noise. Unnoticed: without.
    """
    columns = ("wrong", "unnoticed", "cautioned", "doubtful", "withdrawn")
    places = {name: 0 if "rounded" in name else 15 for name in LAWS}
    work: dict[Any, tuple[Callable[..., Any], range]] = {
        (name, where): (partial(count_shapes, *problem, law, places=places[name]), range(n_runs))
        for name, law in LAWS.items()
        for where, problem in (("doses", DOSES), ("field", FIELD))
    }
    counts: dict[Any, Counter[str]] = {key: Counter() for key in work}
    for key, counted in in_batches(work):
        counts[key].update(counted)
    print(f"percent of {n_runs} runs, delta = 0.1, noise unknown, given up after {SHAPE_PULLS} pulls")
    print(f"{'':39s}" + "".join(f"{column:>10s}" for column in columns))
    for (name, where), seen in counts.items():
        cells = "".join(f"{100 * seen[column] / n_runs:10.1f}" for column in columns)
        print(f"{name:32s}{where:>7s}{cells}", flush=True)


PARTS: Mapping[str, Callable[[int], None]] = {
    "readings": readings_table,
    "shape": shape_table,
    "chaos": chaos_table,
    "attacks": attack_table,
    "late": late_table,
    "screened": screened_table,
}


def main(*chosen: str) -> None:
    """Print these tables, or all; a number says how many runs."""
    n_runs = next((int(one) for one in chosen if one.isdigit()), N_RUNS)
    for name in [one for one in chosen if one in PARTS] or PARTS:
        PARTS[name](n_runs)


if __name__ == "__main__":
    main(*sys.argv[1:])
