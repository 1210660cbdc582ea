"""Short runs of every algorithm, rule, noise model, arm set and option, with what each of them asked and concluded.

    python -m tests.golden.instances record     # writes asked.json
    python -m tests.golden.instances check      # compares with it; exit code 1 if anything differs

Only the public interface is used, so the records hold across any change of the modules behind it. They hold on every
processor too: no instance has exact ties that rounding could break either way, and numbers are compared to 1e-6.
"""

import json
import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import surepick as sp
from benchmarks.bet_variants import CappedBetting, PlainBetting

Record = dict[str, Any]
Instance = Callable[[], Record]

RECORDS = Path(__file__).parent / "asked.json"
TOLERANCE = 1e-6
"""Relative difference of two numbers that count as equal; below it absolute, for numbers next to 0."""

ROWS = np.array(
    [[0.9, 0.1, 0.2], [0.1, 0.8, 0.3], [0.2, 0.25, 1.0], [0.7, 0.6, 0.1], [0.35, 0.3, 0.4], [-0.5, 0.45, 0.6]]
)
THETA = np.array([0.9, 0.35, 0.15])
"""Means 0.875, 0.415, 0.4175, 0.855, 0.48 and -0.2025: the first arm leads the fourth by little."""
EASY = np.array([1.2, -0.4, -0.2])
"""Means 1.0, -0.26, -0.06, 0.58, 0.22 and -0.9."""
BASIS = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.8, 0.0, 0.0], [0.0, 0.0, 1.2, 0.0], [0.0, 0.0, 0.0, 0.9]])
BASIS_THETA = np.array([0.9, 0.35, 0.15, 0.4])
"""As many arms as features, for what can do with no other; means 0.9, 0.28, 0.18 and 0.36."""
LEVELS = [0.1, 0.2, 0.15, 0.25, 0.3, 0.12]
COSTS = [1.0, 2.0, 1.5, 0.7, 3.0, 1.2]
OTHERS = np.array([[0.6, 0.7, 0.2], [0.95, 0.05, 0.15], [0.3, 0.9, 0.35], [0.1, 0.2, 0.9]])
"""Candidates that are never measured."""
NOISES: dict[str, Record] = {
    "unknown": {},
    "known": {"noise_std": 0.2},
    "levels": {"noise_std": LEVELS},
    "per-arm": {"noise": "per-arm"},
    "symmetric": {"noise": "symmetric"},
    "bounded": {"reward_range": (-2.0, 3.0)},
    "binary": {"rewards": "binary"},
}
VECTORS: dict[str, Any] = {
    "sphere": lambda: sp.Sphere(3),
    "ellipsoid": lambda: sp.Ellipsoid([0.3, -0.2, 0.5], [[1.0, 0.2, 0.0], [0.0, 0.8, 0.1], [0.0, 0.0, 0.6]]),
    "hypercube": lambda: sp.Hypercube(3),
    "top-k": lambda: sp.TopK(4, 2),
}
VECTOR_THETA = {"sphere": THETA, "ellipsoid": THETA, "hypercube": THETA, "top-k": np.array([0.9, 0.2, 0.6, 0.05])}


NOTHING: Mapping[str, Any] = {}
USUAL: Record = {"seed": 3, "edition": 1}
"""Records of edition 1 are of releases before edition 2, which logs of theirs still go by."""


class Bench:
    """Measures arms with noise from a seed of its own, and remembers which were asked.

    Args:
        rows: features of the arms; None where an arm is a vector.
        theta: the mean of an arm is its product with this.
        options: of the learner; they say what a reward may be.
        digits: to which readings are rounded.
        law: of the noise: "normal", "heavy" in the tails, or "skewed".
        bend: how much the third arm pays beyond its features.
    """

    def __init__(
        self,
        rows: Any,
        theta: Any,
        options: Mapping[str, Any],
        *,
        digits: int | None = None,
        law: str = "normal",
        bend: float = 0.0,
    ) -> None:
        self.rows, self.theta, self.digits = rows, np.asarray(theta, dtype=float), digits
        self.is_binary = options.get("rewards") == "binary"
        self.is_bounded = "reward_range" in options
        self.law, self.bend = law, bend
        self.rng = np.random.default_rng(1)
        self.asked: list[Any] = []

    def pull(self, arm: Any) -> float:
        """Measure an arm that was asked for."""
        self.note(arm)
        return self.value(arm)

    def note(self, arm: Any) -> None:
        """Remember an ask: the row number, or the vector to six digits."""
        self.asked.append([round(float(x), 6) + 0.0 for x in arm] if np.ndim(arm) else int(arm))

    def value(self, arm: Any) -> float:
        """Measure an arm; the products are added exactly, so the value is the same on every processor."""
        features = arm if self.rows is None else self.rows[arm]
        mean = math.fsum(float(x) * float(t) for x, t in zip(features, self.theta, strict=True))
        z = float(self.rng.standard_normal())
        z = {"normal": z, "heavy": z**3, "skewed": z * z - 1.0}[self.law]
        if self.rows is not None and arm == 2:
            mean += self.bend
        if self.is_binary:
            return float(0.5 * mean + 0.3 * z > 0.3)
        value = mean + 0.2 * z
        if self.is_bounded:
            value = min(max(value, -2.0), 3.0)
        return value if self.digits is None else round(value, self.digits)

    def record(self, result: sp.Result) -> Record:
        """What is kept of a run."""
        return {
            "asked": sha256(json.dumps(self.asked).encode()).hexdigest(),
            "n_asked": len(self.asked),
            "n_pulls": result.n_pulls,
            "best": _plain(result.best),
            "stopped": result.stopped,
            "guarantee": result.guarantee,
            "model_check": result.model_check,
            "survivors": _plain(result.survivors),
            "evidence": _plain(result.evidence),
            "p_value": _plain(result.p_value),
            "epsilon_bound": _plain(result.epsilon_bound),
            "noise_std": _plain(result.noise_std),
            "cost": _plain(result.cost),
        }


def _plain(value: Any) -> Any:
    """A value as JSON has it: numbers to six significant digits, the infinite ones as texts."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(each) for each in value]
    number = float(value)
    # Six digits and two to spare: a sixth digit on the edge must not fail a comparison at 1e-6.
    return float(f"{number:.8g}") + 0.0 if math.isfinite(number) else str(number)


def _refused(error: sp.SurepickError) -> Record:
    return {"refused": type(error).__name__}


# ---- kinds of runs


def identify(
    arms: Any = None, *, theta: Any = THETA, rows: Any = ROWS, bench: Mapping[str, Any] = NOTHING, **given: Any
) -> Record:
    """Run `sp.identify` on a bench with these traits; a refusal is a record too."""
    lab = Bench(rows, theta, given, **bench)
    given = {"max_pulls": 150, **USUAL, **given}
    try:
        return lab.record(sp.identify(ROWS if arms is None else arms, lab.pull, **given))
    except sp.InvalidInput as error:
        return _refused(error)


def batches(
    size: int, *, algorithm: str = "lazy-track-and-stop", rows: Any = ROWS, n: int = 120, **given: Any
) -> Record:
    """Ask for several arms at once and tell them in order."""
    bench = Bench(rows, BASIS_THETA if rows is BASIS else THETA, given)
    learner = sp.create_learner(algorithm, rows, **USUAL | given)
    while not learner.stopped and len(bench.asked) < n:
        for arm in (asked := learner.next_arms(size)):
            bench.note(arm)
        for arm in asked:
            learner.tell(arm, bench.value(arm))
    return bench.record(learner.result())


def delayed(lag: int, *, shuffled: bool, n: int = 120, **given: Any) -> Record:
    """Keep asks open, and answer them late: in order, or in an order drawn anew each time, named by their numbers."""
    rows, theta = (BASIS, BASIS_THETA) if given.get("stopping") == "pairwise" else (ROWS, THETA)
    bench, order = Bench(rows, theta, given), np.random.default_rng(8)
    learner = sp.create_learner("lazy-track-and-stop", rows, **USUAL | given)
    waiting: list[Any] = []
    while not learner.stopped and len(bench.asked) < n:
        for ask in learner.next_asks(3):
            bench.note(ask.arm)
            waiting.append(ask)
        while len(waiting) > lag:
            ask = waiting.pop(int(order.integers(len(waiting))) if shuffled else 0)
            learner.tell(ask.arm, bench.value(ask.arm), ask=ask.number)
    return bench.record(learner.result())


def troubled(what: str, *, n: int = 120, **given: Any) -> Record:
    """Let every seventh pull meet trouble: a failure, a void, corrected or restored result, or one never asked for."""
    rows, theta = (BASIS, BASIS_THETA) if given.get("stopping") == "pairwise" else (ROWS, THETA)
    bench = Bench(rows, theta, given)
    learner = sp.create_learner("lazy-track-and-stop", rows, **USUAL | given)
    try:
        while not learner.stopped and len(bench.asked) < n:
            (ask,) = learner.next_asks(1)
            bench.note(ask.arm)
            is_due = len(bench.asked) % 7 == 0
            if what == "fail" and is_due:
                learner.fail(ask.arm, ask=ask.number)
                continue
            learner.tell(ask.arm, bench.value(ask.arm), ask=ask.number)
            told = len(learner.state.results) - 1
            if is_due and what in ("void", "restore"):
                learner.void(told - 3, reason="spilt")
            if is_due and what == "restore":
                learner.restore(told - 3, reason="it was not")
            if is_due and what == "correct":
                learner.correct(told - 3, bench.value(ask.arm), reason="comma")
            if is_due and what == "unasked":
                learner.tell(told % len(rows), bench.value(told % len(rows)), ask="none")
        again = sp.create_learner("lazy-track-and-stop", rows, **USUAL | given)
        again.replay(learner.log)
    except sp.InvalidInput as error:
        return _refused(error)
    return {**bench.record(learner.result()), "replayed": _plain(again.result().evidence)}


def audited(n: int, **given: Any) -> Record:
    """Stop, and check the model afterwards, by the learner itself."""
    bench = Bench(ROWS, EASY, given)
    learner = sp.create_learner("lazy-track-and-stop", ROWS, **USUAL | given)
    while not learner.stopped and len(bench.asked) < 300:
        (arm,) = learner.next_arms(1)
        learner.tell(arm, bench.pull(arm))
    planned = learner.audit(n) if learner.stopped else 0
    for _ in range(len(learner.state.checks)):
        (arm,) = learner.next_arms(1)
        learner.tell(arm, bench.pull(arm))
    return {**bench.record(learner.result()), "checks": _plain(np.size(planned)), "n_checks": learner.reader.n_checks}


def repeated(**given: Any) -> Record:
    """Read a cache: an arm gives the same number every time."""
    bench = Bench(ROWS, THETA, given)
    values = [0.31415, 0.271828, 0.141421, 0.57721, 0.16180, 0.69314]

    def pull(arm: int) -> float:
        bench.note(arm)
        return values[arm]

    return bench.record(sp.identify(ROWS, pull, max_pulls=120, **USUAL | given))


def stepwise(**given: Any) -> Record:
    """Go on from the history of a first call."""
    bench = Bench(ROWS, THETA, given)
    first = sp.identify(ROWS, bench.pull, max_pulls=40, **USUAL | given)
    return bench.record(sp.identify(ROWS, bench.pull, max_pulls=80, history=first.history, **USUAL | given))


def guided(earlier: str, n: int = 24, **given: Any) -> Record:
    """Begin with results from before, all arms in turn."""
    bench = Bench(ROWS, THETA, given)
    pairs = [(arm % len(ROWS), bench.value(arm % len(ROWS))) for arm in range(n)]
    try:
        result = sp.identify(ROWS, bench.pull, max_pulls=100, history=pairs, earlier=earlier, **USUAL | given)  # type: ignore[arg-type]
    except sp.InvalidInput as error:
        return _refused(error)
    return bench.record(result)


def mapped(**given: Any) -> Record:
    """Leave the arms in a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arms.npy"
        np.save(path, ROWS)
        return identify(sp.MappedArms(path), **given)


def on_cluster(**given: Any) -> Record:
    """Leave the arms to Dask."""
    import dask.array  # noqa: PLC0415 (a second, for one instance)

    return identify(sp.DaskArms(dask.array.from_array(ROWS, chunks=(2, 3))), **given)


def table(**how: Any) -> Record:
    """Read the arms from a table with a text column."""
    lines = ["paint,gloss,drying,base"]
    lines += [
        f"{name},{0.9 - 0.13 * n},{0.2 + 0.11 * (n * n % 7)},{'oil' if n % 3 else 'water'}"
        for n, name in enumerate("ABCDEFGH")
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "paints.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        arms = sp.read_arms(path, **how)
    rows = np.array([[0.9 - 0.13 * n, 0.2 + 0.11 * (n * n % 7), float(n % 3 > 0)] for n in range(8)])
    return {**identify(arms, rows=rows, noise_std=0.2), "features": _plain(list(arms.feature_names))}


def on_vectors(name: str, **given: Any) -> Record:
    """Search a set of vectors."""
    return identify(VECTORS[name](), rows=None, theta=VECTOR_THETA[name], **given)


def vector_batches(name: str, size: int, **given: Any) -> Record:
    """Ask for several vectors at once, and answer the last first."""
    bench = Bench(None, VECTOR_THETA[name], given)
    learner = sp.create_learner("lazy-track-and-stop", VECTORS[name](), **USUAL | given)
    while not learner.stopped and len(bench.asked) < 90:
        asks = learner.next_asks(size)
        for ask in asks:
            bench.note(ask.arm)
        for ask in reversed(asks):
            learner.tell(ask.arm, bench.value(ask.arm), ask=ask.number)
    return bench.record(learner.result())


def simulated(problem: str, algorithm: str) -> Record:
    """Simulate a few runs in this process."""
    made: dict[str, Callable[[], Any]] = {
        "soare": lambda: sp.problems.soare(2, 0.7),
        "sphere": lambda: sp.problems.sphere_set(2, epsilon=0.8),
    }
    runs = sp.simulate(made[problem](), algorithm, delta=0.2, n_runs=3, seed=5, n_jobs=1, edition=1)
    return {"n_pulls": _plain(runs.n_pulls), "correct": _plain(runs.correct)}


def of_design(design: sp.Design) -> Record:
    """What is kept of a design: its weights to three decimals, as it is solved to a tolerance."""
    weights = {int(row): round(float(weight), 3) for row, weight in zip(design.support, design.weights, strict=True)}
    return {
        "value": float(f"{design.value:.4g}"),
        "weights": {str(row): weight for row, weight in sorted(weights.items()) if weight >= 0.02},
    }


def planned(**given: Any) -> Record:
    """Plan an experiment."""
    made = sp.plan(ROWS, **given)
    return {name: _plain(getattr(made, name)) for name in ("pulls", "low", "high", "lower_bound", "cost")}


def replicates() -> Record:
    """Learn the noise from replicates."""
    bench = Bench(ROWS, THETA, {})
    made = sp.noise_from_replicates([(arm, bench.value(arm)) for arm in range(4) for _ in range(5)])
    return {
        "noise_std": _plain(made.noise_std),
        "interval": _plain(made.interval),
        "per_arm": _plain([each.noise_std for each in made.per_arm.values()]),
    }


# ---- the table


BOUNDS: dict[str, Record] = {
    "alba": {"reward_bound": 2.0},
    "h-rage": {"least_noise_std": 0.15},
    "lingame": {"norm_bound": 2.0},
    "lingame-c": {"norm_bound": 2.0},
    "lingape": {"norm_bound": 2.0},
    "lingifa": {"norm_bound": 2.0},
    "mislid": {"reward_bound": 2.0},
}
"""What published constants need to be told."""


def _algorithms() -> Iterator[tuple[str, Instance]]:
    """Every algorithm, in both variants, on three problems, with three noise models."""
    for name in sp.algorithms.names():
        for variant in ("practical", "paper"):
            own: Record = {
                "algorithm": name,
                "variant": variant,
                **(BOUNDS.get(name, {}) if variant == "paper" else {}),
            }
            for label, theta in (("close", THETA), ("easy", EASY)):
                given = {**own, "theta": theta, "noise_std": 0.2}
                yield f"{name}/{variant}/{label}", _run(name, given)
            yield f"{name}/{variant}/unknown noise", _run(name, {**own, "max_pulls": 60})
            yield f"{name}/{variant}/bounded", _run(name, {**own, "reward_range": (-2.0, 3.0), "max_pulls": 60})
        rows = BASIS if name == "track-and-stop" else ROWS
        yield f"{name}/batches", _call(batches, 5, algorithm=name, rows=rows, n=60, noise_std=0.2, **_oracle(name))
        yield f"{name}/slack", _run(name, {"algorithm": name, "epsilon": 0.2, "noise_std": 0.2})
        yield f"{name}/costs", _run(name, {"algorithm": name, "costs": COSTS, "noise_std": 0.2, "max_pulls": 60})


def _oracle(name: str) -> Record:
    return {"theta": THETA} if name == "xy-oracle" else {}


def _run(name: str, given: Record) -> Instance:
    """A run of `identify`; the Oracle is an object, since its own option has the name of the problem's."""
    if name == "track-and-stop":
        costs = {"costs": COSTS[:4]} if "costs" in given else {}
        theta = BASIS_THETA if given.get("theta") is not EASY else BASIS_THETA * 2.0
        return lambda: identify(BASIS, rows=BASIS, **{**given, "theta": theta, **costs})
    if name != "xy-oracle":
        return lambda: identify(**given)
    variant = given.get("variant", "practical")
    rest = {key: value for key, value in given.items() if key not in ("algorithm", "variant")}
    theta = rest.get("theta", THETA)
    return lambda: identify(algorithm=sp.algorithms.XYOracle(variant=variant, theta=theta), **rest)


def _call(kind: Callable[..., Record], *args: Any, **given: Any) -> Instance:
    return lambda: kind(*args, **given)


def _rules() -> Iterator[tuple[str, Instance]]:
    """Every stopping rule, with samplers that plan ahead and one that does not; on every set of vectors."""
    betting, *others = sp.stopping.names()
    rules: list[Any] = [betting, PlainBetting(), CappedBetting(), *others]
    for rule in rules:
        label = getattr(rule, "name", rule)
        for name in ("lazy-track-and-stop", "g-static", "lingape", "top-two"):
            yield f"rule {label}/{name}", _call(identify, theta=EASY, algorithm=name, stopping=rule, noise_std=0.2)
        yield f"rule {label}/unknown noise", _call(identify, theta=EASY, stopping=rule, max_pulls=60)
        yield f"rule {label}/unstructured", _call(identify, stopping=rule, model="unstructured", noise_std=0.2)
    for rule in sp.stopping.names(vectors=True):
        for kind in VECTORS:
            yield f"rule {rule}/{kind}", _call(on_vectors, kind, stopping=rule, noise_std=0.2, epsilon=0.3)
    yield (
        "rule per-coordinate/hypercube, exact",
        _call(on_vectors, "hypercube", stopping="per-coordinate", noise_std=0.2),
    )
    for label, each in (("30", "pairwise"), ("10", sp.stopping.Pairwise(kappa=10.0))):
        for name in ("lazy-track-and-stop", "track-and-stop", "top-two", "uniform"):
            given: Record = {"algorithm": name, "stopping": each, "noise_std": 0.2}
            yield f"rule pairwise {label}/{name}, basis", _call(identify, BASIS, rows=BASIS, theta=BASIS_THETA, **given)
    own: dict[str, Any] = {
        "betting plain": PlainBetting(),
        "betting capped": CappedBetting(),
        "evidence that eliminates": sp.stopping.Evidence(elimination=True),
        "evidence, full scan": sp.stopping.Evidence(full_scan=True),
        "evidence, spaced": sp.stopping.Evidence(spacing=0.2),
        "GLR with c": sp.stopping.GLR(threshold="paper-main", c=0.5),
    }
    for label, each in own.items():
        yield f"rule object/{label}", _call(identify, theta=EASY, stopping=each, noise_std=0.2)


def _noises() -> Iterator[tuple[str, Instance]]:
    """Every noise model, with each of the options that change the mathematics."""
    options: dict[str, Record] = {
        "plain": {},
        "easy": {"theta": EASY, "max_pulls": 250},
        "m=2": {"m": 2},
        "slack": {"epsilon": 0.15},
        "costs": {"costs": COSTS},
        "budget": {"budget": 45},
        "costs and budget": {"costs": COSTS, "budget": 60.0},
        "misfit": {"misfit": 0.02},
        "candidates": {"candidates": OTHERS},
        "unstructured": {"model": "unstructured"},
        "evidence": {"stopping": "evidence"},
        "audit": {"theta": EASY, "audit": 6, "max_pulls": 250},
        "rounded": {"bench": {"digits": 2}},
        "coarse": {"bench": {"digits": 0}},
        "heavy tails": {"bench": {"law": "heavy"}, "max_pulls": 200},
        "skewed": {"bench": {"law": "skewed"}, "max_pulls": 90},
        "bent": {"bench": {"bend": 0.8}, "max_pulls": 200},
    }
    for noise, given in NOISES.items():
        for label, more in options.items():
            yield f"noise {noise}/{label}", _call(identify, **{"max_pulls": 110, **given, **more})


def _protocols() -> Iterator[tuple[str, Instance]]:
    """Every way in which results come in, for every noise model."""
    for noise, given in NOISES.items():
        yield f"protocol {noise}/batches of 4", _call(batches, 4, **given)
        yield f"protocol {noise}/late", _call(delayed, 5, shuffled=False, **given)
        if noise != "binary":  # there the leaders are level in the end
            yield f"protocol {noise}/out of order", _call(delayed, 9, shuffled=True, **given)
        for what in ("fail", "void", "restore", "correct", "unasked"):
            yield f"protocol {noise}/{what}", _call(troubled, what, **given)
        yield f"protocol {noise}/history", _call(stepwise, **given)
        for earlier in ("guidance", "evidence"):
            yield f"protocol {noise}/earlier {earlier}", _call(guided, earlier, **given)
    for rule in ("evidence", "pairwise", "heuristic"):
        for what in ("void", "correct"):
            yield f"protocol {rule}/{what}", _call(troubled, what, noise_std=0.2, stopping=rule)
        yield f"protocol {rule}/out of order", _call(delayed, 9, shuffled=True, noise_std=0.2, stopping=rule)
        yield f"protocol {rule}/earlier", _call(guided, "evidence", noise_std=0.2, stopping=rule)
    for n in (4, 9):
        yield f"protocol audit {n}", _call(audited, n, noise_std=0.2)
    yield "protocol audit auto", _call(identify, theta=EASY, audit="auto", noise_std=0.2)
    yield "protocol repeated/unknown", repeated
    yield "protocol repeated/known", _call(repeated, noise_std=0.2)


def _options() -> Iterator[tuple[str, Instance]]:
    """The options of each algorithm, one at a time."""
    lazy: dict[str, Record] = {
        "tracking current": {"tracking": "current"},
        **{f"schedule {each}": {"schedule": each} for each in ("doubling", "geometric:1.2", "periodic:20", "every")},
        "schedule listed": {"schedule": [5, 12, 30, 60, 100]},
        "exploration_set pivoted": {"exploration_set": "pivoted", "variant": "paper"},
        "exploration_set random": {"exploration_set": "random", "variant": "paper"},
        "exploration": {"exploration": 0.3},
        "g_mix": {"g_mix": 0.4},
        "elimination": {"elimination": True, "stopping": "evidence"},
        "regularizer": {"regularizer": np.diag([2.0, 1.0, 3.0]), "stopping": "evidence"},
        "delta": {"delta": 0.001},
        "seed": {"seed": 11, "exploration_set": "random"},
    }
    for label, given in lazy.items():
        yield f"option lazy/{label}", _call(identify, **{"noise_std": 0.2, **given})
    others: dict[str, tuple[str, Record]] = {
        "top-two/thompson": ("top-two", {"leader": "thompson"}),
        "top-two/penalised": ("top-two", {"challenger": "transport-penalised"}),
        "top-two/resample": ("top-two", {"challenger": "resample"}),
        **{f"top-two/{each}": ("top-two", {"selection": each}) for each in ("ratio", "ids", "coin", "evidence-greedy")},
        "lingape/ratio": ("lingape", {"selection": "ratio"}),
        "lingape/largest-norm": ("lingape", {"width": "largest-norm", "norm_bound": 2.0, "variant": "paper"}),
        "lingape/ridge": ("lingape", {"ridge": 3.0, "norm_bound": 2.0, "variant": "paper"}),
        "lingame/log-t": ("lingame", {"optimism": "log-t"}),
        "lingame/none": ("lingame", {"optimism": "none"}),
        "lingame-c/paper": ("lingame-c", {"optimism": "paper", "norm_bound": 2.0}),
        "rage/printed": ("rage", {"constants": "printed", "variant": "paper"}),
        "rage/slack": ("rage", {"rounding_slack": 0.3, "variant": "paper"}),
        "h-rage/pilot": ("h-rage", {"least_noise_std": 0.15, "pilot": 0.5, "variant": "paper"}),
        "h-rage/per-arm": ("h-rage", {"noise": "per-arm", "noise_std": None}),
        "xy-adaptive/alpha": ("xy-adaptive", {"alpha": 0.4, "variant": "paper"}),
        "explore-verify/risk": ("explore-verify", {"exploration_risk": 0.3, "variant": "paper"}),
        "alba/bound": ("alba", {"reward_bound": 2.0, "variant": "paper"}),
        "g-static/m=2": ("g-static", {"m": 2}),
        "m-lingape/m=2": ("m-lingape", {"m": 2}),
        "m-lingape/paper, m=2": ("m-lingape", {"m": 2, "variant": "paper"}),
        "lingifa/m=2": ("lingifa", {"m": 2}),
        "lingifa/paper, m=2": ("lingifa", {"m": 2, "variant": "paper", "norm_bound": 2.0}),
        "mislid/m=2": ("mislid", {"m": 2}),
        "mislid/misfit": ("mislid", {"misfit": 0.02}),
        "mislid/misfit, m=2": ("mislid", {"m": 2, "misfit": 0.02}),
        "uniform/m=3": ("uniform", {"m": 3}),
    }
    for tracking in ("C", "D"):
        given = {"algorithm": "track-and-stop", "tracking": tracking, "noise_std": 0.2}
        yield f"option track-and-stop/{tracking}", _call(identify, BASIS, rows=BASIS, theta=BASIS_THETA, **given)
    for label, (name, given) in others.items():
        yield f"option {label}", _call(identify, theta=EASY, algorithm=name, **{"noise_std": 0.2, **given})


def _sets() -> Iterator[tuple[str, Instance]]:
    """Every arm set."""
    for label, given in (
        ("known", {"noise_std": 0.2}),
        ("unknown", {}),
        ("rage", {"algorithm": "rage", "noise_std": 0.2}),
    ):
        yield f"set mapped/{label}", _call(mapped, **given)
    yield "set dask/known", _call(on_cluster, noise_std=0.2, max_pulls=60)
    yield "set names/known", lambda: identify(sp.FiniteArms(ROWS, names=list("abcdef")), noise_std=0.2)
    yield (
        "set double rows",
        lambda: identify(np.vstack([ROWS, ROWS[1:2]]), rows=np.vstack([ROWS, ROWS[1:2]]), noise_std=0.2),
    )
    flat = np.hstack([ROWS, ROWS[:, :1] + ROWS[:, 1:2]])
    yield "set on span", lambda: identify(sp.FiniteArms.on_span(flat), noise_std=0.2)
    for label, how in (("plain", {}), ("interactions", {"interactions": True}), ("dropped", {"drop": ["base"]})):
        yield f"set table/{label}", _call(table, **how)
    for kind in VECTORS:
        for noise in ("unknown", "known", "bounded"):
            for label, more in (
                ("slack", {"epsilon": 0.3}),
                ("exact", {}),
                ("paper", {"epsilon": 0.3, "variant": "paper"}),
            ):
                given = {**NOISES[noise], **more}
                yield f"set {kind}/{noise}, {label}", _call(on_vectors, kind, max_pulls=100, **given)
        yield f"set {kind}/rounds", _call(on_vectors, kind, algorithm="rounds", noise_std=0.2, epsilon=0.3)
        yield f"set {kind}/tangent", _call(on_vectors, kind, design="tangent", noise_std=0.2, epsilon=0.3)
        yield f"set {kind}/batches", _call(vector_batches, kind, 4, noise_std=0.2, epsilon=0.3)
        yield f"set {kind}/budget", _call(on_vectors, kind, budget=40, noise_std=0.2, epsilon=0.1)


def _calls() -> Iterator[tuple[str, Instance]]:
    """Designs, plans, simulations, and the noise of replicates."""
    yield "call characteristic_time", lambda: of_design(sp.characteristic_time(ROWS, THETA))
    yield (
        "call characteristic_time/candidates",
        lambda: of_design(sp.characteristic_time(ROWS, THETA, candidates=OTHERS)),
    )
    yield "call optimal_design", lambda: of_design(sp.optimal_design(ROWS))
    yield (
        "call optimal_design/directions",
        lambda: of_design(sp.optimal_design(ROWS, directions=OTHERS[1:] - OTHERS[0])),
    )
    yield "call lower_bound", lambda: {"value": float(f"{sp.lower_bound(ROWS, THETA, noise_std=0.2):.4g}")}
    yield "call plan", _call(planned, theta=THETA, noise_std=0.2)
    yield "call plan/costs", _call(planned, theta=THETA, noise_std=0.2, costs=COSTS)
    yield "call noise_from_replicates", replicates
    for problem, name in (("soare", "lazy-track-and-stop"), ("soare", "rage"), ("sphere", "lazy-track-and-stop")):
        yield f"call simulate/{problem}, {name}", _call(simulated, problem, name)


def _editions() -> Iterator[tuple[str, Instance]]:
    """Edition 2, whose blocks are asked in random order."""
    now: Record = {"edition": 2, "max_pulls": 110}
    for noise, given in NOISES.items():
        yield f"edition 2/{noise}", _call(identify, **now, **given)
        yield f"edition 2/{noise}, batches of 4", _call(batches, 4, edition=2, **given)
    others: dict[str, Record] = {"budget": {"budget": 45}, "slack": {"epsilon": 0.15}, "paper": {"variant": "paper"}}
    for label, more in others.items():
        yield f"edition 2/{label}", _call(identify, noise_std=0.2, **now, **more)
    for name in ("rage", "top-two", "uniform"):
        yield f"edition 2/{name}", _call(identify, algorithm=name, stopping="betting", noise_std=0.2, **now)


def _instances() -> dict[str, Instance]:
    parts = (_algorithms(), _rules(), _noises(), _protocols(), _options(), _sets(), _calls(), _editions())
    made: dict[str, Instance] = {}
    for name, run in (pair for part in parts for pair in part):
        assert name not in made, name
        made[name] = run
    return made


INSTANCES = _instances()
"""Every instance by its name."""


def run(name: str) -> Record:
    """Run an instance; what it warns of is in its record."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return INSTANCES[name]()


# ---- keeping and comparing


def differences(found: Any, kept: Any, place: str = "") -> Iterator[str]:
    """Yield a line for every place where the two differ; numbers with a fraction may by a millionth."""
    if isinstance(found, dict) and isinstance(kept, dict):
        for name in sorted({*found, *kept}, key=str):
            here = f"{place}.{name}" if place else str(name)
            if name in found and name in kept:
                yield from differences(found[name], kept[name], here)
            else:
                yield f"{here}: {'missing' if name in kept else 'new'}"
    elif isinstance(found, list) and isinstance(kept, list) and len(found) == len(kept):
        for n, (one, other) in enumerate(zip(found, kept, strict=True)):
            yield from differences(one, other, f"{place}[{n}]")
    elif isinstance(found, float) and isinstance(kept, int | float) and not isinstance(kept, bool):
        if not math.isclose(found, kept, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield f"{place}: {found!r} in place of {kept!r}"
    elif found != kept:
        yield f"{place}: {found!r} in place of {kept!r}"


def read(path: Path) -> Any:
    """What was recorded."""
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, records: Mapping[str, Any]) -> None:
    """Keep records, one in a line."""
    lines = (f"{json.dumps(name)}: {json.dumps(each, allow_nan=False)}" for name, each in records.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def command(arguments: Iterable[str], path: Path, found: Callable[[], Mapping[str, Any]]) -> int:
    """Record or check, as a script that was started with these arguments; return its exit code."""
    match list(arguments):
        case ["record"]:
            write(path, found())
            return 0
        case ["check"]:
            lines = list(differences(json.loads(json.dumps(found())), read(path)))
            sys.stdout.write("".join(f"{line}\n" for line in lines) + f"{len(lines)} differences\n")
            return int(bool(lines))
    sys.stderr.write("give one word: record or check\n")
    return 2


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:], RECORDS, lambda: {name: run(name) for name in INSTANCES}))
