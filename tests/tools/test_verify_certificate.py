import ast
import contextlib
import copy
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.learning.settlement import Settlement
from tests.study.small_log import Event, Notebook, Row, as_csv, chained, signed
from tools import verify_certificate

FILE = Path(verify_certificate.__file__)
AGREES = 3
"""Exit code: what is checked agrees, and the certificate has sentences that are not checked."""
# What a log says beside the truth: nobody's verdict depends on it.
REMARKS = {"at", "by", "reason", "until", "version", "identity", "lease", "features"}


def verified(folder: Path, certificate: Event, rows: list[Row] | str) -> tuple[int, str]:
    """Return the exit code and what is printed for a certificate and a log, given by rows or as the text of a file."""
    (folder / "certificate.json").write_text(json.dumps(certificate), encoding="utf-8")
    with (folder / "log.csv").open("w", encoding="utf-8", newline="") as file:
        file.write(rows if isinstance(rows, str) else as_csv(rows))
    return checked(folder / "certificate.json", folder / "log.csv")


def checked(certificate: Path, log: Path) -> tuple[int, str]:
    """Run the verifier on two files, in this process."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = verify_certificate.main([str(certificate), str(log)])
    return code, said.getvalue()


def problem(seed: int, *, n_arms: int, dim: int, condition: float = 1.0) -> tuple[Any, Any, Any]:
    """Return arms, their parameter, and a source of noise."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n_arms, dim)), rng.normal(size=dim)
    T = np.diag(np.geomspace(1.0, condition, dim)) @ np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    return X @ T, np.linalg.solve(T, w), rng


def measured(theta: Any, rng: np.random.Generator, noise_std: float = 1.0) -> Any:
    """Return a function that measures an arm."""
    return lambda x: float(x @ theta + noise_std * rng.normal())


def until_stopped(notebook: Notebook, n_workers: int = 1, most: int = 600) -> None:
    """Measure with workers that come back in any order."""
    rng, pending = np.random.default_rng(0), [ask for ask in notebook.pending if notebook.answers(ask) is not None]
    for _ in range(most):
        if notebook.said is not None:
            break
        pending += notebook.ask(n_workers - len(pending)) if len(pending) < n_workers else []
        notebook.tell(pending.pop(int(rng.integers(len(pending)))))


def adventure(seed: int, most: int = 1000) -> Notebook:
    """Return a study in which everything happens that can.

    It ends soon after its answer, which takes up to 300 results: arms that are rounded differently on another processor
    lead to other asks.
    """
    rng = np.random.default_rng(seed)
    dim = 2 + seed % 7
    X, theta, _ = problem(seed, n_arms=dim + int(rng.integers(1, 12)), dim=dim, condition=[1.0, 1e3, 1e6][seed % 3])
    X = np.vstack([X, X[:2]])  # copies
    gap = float(np.ptp(np.partition(X[:-2] @ theta, -2)[-2:]))
    names = [f"arm {i}" for i in range(len(X))] if seed % 2 else None
    notebook = Notebook(X, measured(theta, rng, gap), names, delta=0.1, noise_std=[None, gap][seed // 2 % 2], seed=seed)
    for _ in range(int(rng.integers(0, 7 * dim)) * (seed % 3 == 0)):
        notebook.tell(arm=int(rng.integers(len(X))))
    pending, late, n_workers = list[int](), list[int](), 1 + seed % 5
    n_more, n_changes = 12, 3
    while len(notebook.results) < most and n_more:
        n_more -= notebook.said is not None
        if n_more == 6 and notebook.said is not None and not (notebook.waiting or notebook.learner.n_planned):
            notebook.audit(5)
        pending += notebook.ask(n_workers - len(pending)) if len(pending) < n_workers else []
        ask = pending.pop(int(rng.integers(len(pending))))
        number, (_, _, arm) = notebook.answers(ask), notebook.asks[ask]
        if number is not None and rng.random() < 0.08 and not notebook.learner.state.ledger._asks[number].has_failed:
            notebook.fail(ask, expires=bool(rng.random() < 0.5))
            late.append(ask)
        elif number is not None or notebook.is_free(arm):
            notebook.tell(ask)
        if late and rng.random() < 0.1:
            ask = late.pop()
            number, (_, _, arm) = notebook.answers(ask), notebook.asks[ask]
            is_waiting = any(other == number for other, _ in notebook.waiting)
            if (number is not None or notebook.is_free(arm)) and not is_waiting:
                notebook.tell(ask)
        arm = int(rng.integers(len(X)))
        if notebook.is_free(arm) and rng.random() < 0.05:
            notebook.tell(arm=arm)
        if n_changes and rng.random() < 0.05 and len(notebook.results) > 3:
            n_changes -= 1
            change(notebook, int(rng.integers(1, len(notebook.results) + 1)), rng, gap)
    return notebook


def change(notebook: Notebook, measurement: int, rng: np.random.Generator, size: float) -> None:
    """Void, correct or restore a measurement."""
    if notebook.results[measurement - 1]["void"]:
        notebook.restore(measurement)
    elif rng.random() < 0.5:
        notebook.void(measurement)
    else:
        notebook.correct(measurement, notebook.results[measurement - 1]["value"] + size * rng.normal())


@cache
def short() -> Notebook:
    """Return a short study with every kind of event but `reopened` and `audited`, stopped for good."""
    X, theta, rng = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5], [0.3, 0.9]], np.array([1.5, 0.0]), np.random.default_rng(1)
    notebook = Notebook(X, measured(theta, rng, 0.8), ["a", "b", "c", "d"], delta=0.1, noise_std=0.8, seed=5)
    for arm in (0, 1, 2, 3) * 3:
        notebook.tell(arm=arm)
    ask, other = notebook.ask(2)
    notebook.fail(ask)
    notebook.tell(other)
    notebook.fail(notebook.ask()[0], expires=True)
    until_stopped(notebook, n_workers=2)
    assert notebook.said is not None
    value = notebook.results[-1]["value"]
    notebook.correct(len(notebook.results), value - 9.0)
    notebook.correct(len(notebook.results), value)
    notebook.void(2)
    until_stopped(notebook)
    notebook.restore(2)
    notebook.void(5)
    until_stopped(notebook)
    kinds = {event["kind"] for event in notebook.events}
    assert kinds >= {"planned", "asked", "told", "failed", "expired", "voided", "corrected", "restored", "resumed"}
    assert notebook.said is not None
    return notebook


def leaves(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all values that hold no others."""
    if isinstance(value, dict | list) and value:
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, *path, key)
    else:
        yield path


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    """Return a copy with another value at the end of the path."""
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    old = inner[path[-1]]
    if isinstance(old, bool) or old is None or isinstance(old, dict | list):
        inner[path[-1]] = 7
    elif isinstance(old, str):
        inner[path[-1]] = f"{old}."
    else:
        inner[path[-1]] = old + 1 if isinstance(old, int) else old + max(abs(old), 1.0) * 1e-3
    return value


def test_needs_numpy_alone() -> None:
    """The file imports numpy and the standard library."""
    text = FILE.read_text(encoding="utf-8")
    names = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert {str(name).partition(".")[0] for name in names} - sys.stdlib_module_names == {"numpy"}


def test_runs_as_a_file_of_its_own(tmp_path: Path) -> None:
    """A copy of the file, far from the package, says in words what agrees, and by exit codes what does not."""
    rows, certificate = chained(short().events), short().certificate()
    assert verified(tmp_path, certificate, rows)[0] == AGREES
    shutil.copy(FILE, tmp_path / "verify_certificate.py")

    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-W", "error", "verify_certificate.py", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
        assert not done.stderr
        return done.returncode, done.stdout

    code, said = run("certificate.json", "log.csv")
    assert code == AGREES
    assert "assumptions, guarantee" in said.splitlines()[-1]
    (tmp_path / "forged.json").write_text(json.dumps(certificate | {"n_pulls": 1}), encoding="utf-8")
    assert run("forged.json", "log.csv")[0] == 1
    assert run("certificate.json", "nowhere.csv")[0] == 2


def test_reads_a_log_as_json(tmp_path: Path) -> None:
    """A log may be a JSON file, and is checked as well there."""
    rows = chained(short().events)
    verified(tmp_path, short().certificate(), rows)
    log: list[dict[str, Any]] = [{"n": int(n), "hash": digest, "event": text} for n, digest, text in rows]
    (tmp_path / "log.json").write_text(json.dumps({"log": log}), encoding="utf-8")
    assert checked(tmp_path / "certificate.json", tmp_path / "log.json")[0] == AGREES
    log[5]["event"] = log[5]["event"].replace("0", "1", 1)
    (tmp_path / "log.json").write_text(json.dumps({"log": log}), encoding="utf-8")
    assert checked(tmp_path / "certificate.json", tmp_path / "log.json")[0] == 1


@pytest.mark.parametrize("seed", range(12))
def test_agrees_with_the_learner(tmp_path: Path, seed: int) -> None:
    """Evidence and the moment of the stop are recomputed, whatever happened on the way."""
    notebook = adventure(seed)
    assert notebook.said is not None
    assert verified(tmp_path, notebook.certificate(), chained(notebook.events))[0] == AGREES


def test_an_edition_of_the_future_is_not_covered(tmp_path: Path) -> None:
    """Editions 1 and 2 make the same bets."""
    X, theta, rng = problem(3, n_arms=6, dim=3)
    notebook = Notebook(X, measured(4 * theta, rng), noise_std=None, edition=1)
    until_stopped(notebook, most=120)
    assert verified(tmp_path, notebook.certificate(), chained(notebook.events))[0] == AGREES
    notebook.events[0]["options"]["edition"] = 3
    rows = chained(notebook.events)
    assert verified(tmp_path, signed(notebook.certificate(), rows), rows)[0] == 2


def test_a_drift_is_noise_in_random_order(tmp_path: Path) -> None:
    """A standard deviation of sqrt(0.8^2 + 0.9^2/2), and without the drift the evidence is another."""
    X, theta, rng = problem(3, n_arms=6, dim=3)
    ones = np.column_stack([np.ones(6), X])
    exact = measured(2 * theta, rng, 0.8)
    notebook = Notebook(ones, lambda x: exact(x[1:]), noise_std=0.8, drift=0.9)
    until_stopped(notebook, most=300)
    assert notebook.said is not None
    code, said = verified(tmp_path, notebook.certificate(), chained(notebook.events))
    assert (code, "the random order of blocks; all else agrees" in said) == (AGREES, True)
    notebook.events[0]["options"]["drift"] = 0.5
    rows = chained(notebook.events)
    assert verified(tmp_path, signed(notebook.certificate(), rows), rows)[0] == 1


@pytest.mark.parametrize("step", [0.2, 1.0, 2.0, 20.0])
@pytest.mark.parametrize("seed", range(2))
def test_agrees_on_rounded_readings(tmp_path: Path, step: float, seed: int) -> None:
    """Steps below and above the noise, and all readings equal: evidence is what the rule makes of them."""
    X, theta, rng = problem(seed, n_arms=6, dim=3)
    means = X @ theta
    theta = theta * 4.0 / float(np.ptp(np.partition(means, -2)[-2:]))  # the lead is four times the noise
    exact = measured(theta, rng)
    notebook = Notebook(X, lambda x: round(exact(x) / step) * step, noise_std=None, seed=seed)
    until_stopped(notebook, n_workers=1 + seed, most=120)
    code, said = verified(tmp_path, notebook.certificate(), chained(notebook.events))
    assert code == AGREES, said


def test_agrees_that_repeated_readings_are_no_evidence(tmp_path: Path) -> None:
    """A cache behind the measurement: no verdict, for either of the two."""
    X, theta, rng = problem(3, n_arms=5, dim=3)
    kept: dict[bytes, float] = {}
    exact = measured(theta, rng)
    notebook = Notebook(X, lambda x: kept.setdefault(x.tobytes(), exact(x)), noise_std=None)
    until_stopped(notebook, most=60)
    assert notebook.said is None
    assert verified(tmp_path, notebook.certificate(), chained(notebook.events))[0] == AGREES


@pytest.mark.parametrize("noise_std", [None, 1.0])
def test_starts_from_earlier_results(tmp_path: Path, noise_std: float | None) -> None:
    """Many earlier results are enough by themselves, with known and with unknown noise, unless they are void."""
    X, theta, rng = problem(5, n_arms=5, dim=3)
    notebook = Notebook(X, measured(4 * theta, rng), noise_std=noise_std)
    for _ in range(130):
        notebook.tell(arm=int(rng.integers(5)))
    notebook.ask(2)
    assert [event["kind"] for event in notebook.events[-3:]] == ["planned", "asked", "stopped"]
    assert verified(tmp_path, notebook.certificate(), chained(notebook.events))[0] == AGREES
    for measurement in range(130, 15, -1):
        if notebook.said is not None:
            notebook.void(measurement)
    assert notebook.said is None
    assert verified(tmp_path, notebook.certificate(), chained(notebook.events))[0] == AGREES


@pytest.mark.parametrize("noise_std", [None, 1.0])
def test_checks_a_study_of_the_package(tmp_path: Path, noise_std: float | None) -> None:
    """A study's own certificate and its exported log agree, and no longer do when the verdict names another arm."""
    X, theta, rng = problem(1, n_arms=5, dim=3)
    study = sp.create_study("own", arms=X, noise_std=noise_std, storage="memory:")
    study.tell_earlier((int(arm), float(X[arm] @ theta + rng.normal())) for arm in rng.integers(5, size=20))
    study.fail(study.ask()[0].id, reason="dropped")
    study.void(3, reason="mislabelled")
    while not study.stopped:
        for ask in study.ask(2):
            study.tell(ask.id, float(np.dot(ask.features, theta) + rng.normal()))
    certificate = study.certificate()
    study.export("csv", tmp_path / "log.csv")
    (tmp_path / "certificate.json").write_text(json.dumps(certificate), encoding="utf-8")
    assert checked(tmp_path / "certificate.json", tmp_path / "log.csv")[0] == AGREES
    best = [(certificate["best"][0] + 1) % 5]
    rows = chained([event | ({"best": best} if event["kind"] == "stopped" else {}) for event in study.log])
    assert verified(tmp_path, signed(certificate | {"best": best}, rows), rows)[0] == 1


@pytest.mark.parametrize("noise_std", [1.0, None])
@pytest.mark.parametrize("has_constant", [True, False])
def test_regresses_offsets_out_of_the_bets(tmp_path: Path, noise_std: float | None, has_constant: bool) -> None:
    """With groups="offset", two factors and a void result; the same log without its labels has another verdict."""
    X, theta, rng = problem(3, n_arms=5, dim=3)
    X[:, 0] = 1.0 if has_constant else X[:, 0]
    study = sp.create_study("own", arms=X, storage="memory:", groups="offset", noise_std=noise_std)
    high = 4.0 * rng.normal(size=(2, 200))
    while not study.stopped and len(study.measurements) < 400:
        turn = len(study.measurements) // 6
        for ask in study.ask(6, group={"day": turn // 2, "bench": turn % 2}):
            study.tell(ask, float(X[ask.arm] @ theta + high[0, turn // 2] + high[1, turn % 2] + rng.normal()))
        if turn == 4:
            study.void(5, reason="mislabelled")
    assert study.stopped
    certificate, events = study.certificate(), study.log
    code, said = verified(tmp_path, certificate, chained(events))
    assert code == AGREES, said
    for event in events:
        event.pop("group", None)
    code, said = verified(tmp_path, certificate, chained(events))
    assert code == 1, said


def test_follows_labels_of_groups(tmp_path: Path) -> None:
    """Labels are counted in the certificate; a result with another label than its ask is seen."""
    X, theta, rng = problem(1, n_arms=5, dim=3)
    study = sp.create_study("own", arms=X, storage="memory:", group_by="worker")
    study.tell_earlier([(0, 0.5, {"day": 0}), (1, 0.4)])
    while not study.stopped:
        for ask in study.ask(2, group={"day": 1 + len(study.measurements) // 10}):
            study.tell(ask.id, float(np.dot(ask.features, theta) + rng.normal()), worker="bob")
    study.void(1, reason="mislabelled")
    certificate, events = study.certificate(), study.log
    assert sum(certificate["groups"]["day"].values()) == len(study.measurements) - 2
    assert certificate["groups"]["worker"]["bob"] == len(study.measurements) - 2
    assert verified(tmp_path, certificate, chained(events))[0] == AGREES
    forged = copy.deepcopy(certificate)
    forged["groups"]["day"]["1"] += 1
    code, said = verified(tmp_path, signed(forged, chained(events)), chained(events))
    assert (code, "groups is" in said) == (1, True)
    told = next(event for event in events if event["kind"] == "told" and event["ask"] is not None)
    told["group"] = {**told["group"], "day": "9"}
    code, said = verified(tmp_path, signed(certificate, chained(events)), chained(events))
    assert (code, "another group than that of its ask" in said) == (1, True)


@pytest.mark.parametrize("noise_std", [None, 1.0])
def test_earlier_results_start_no_wealth_where_they_are_guidance(tmp_path: Path, noise_std: float | None) -> None:
    """The verdict of a study in which they guide agrees, and no longer does where they are said to be evidence."""
    X, theta, rng = problem(3, n_arms=5, dim=3)
    notebook = Notebook(X, measured(theta, rng), noise_std=noise_std, earlier="guidance")
    for arm in range(60):
        notebook.tell(arm=arm % 5)
    until_stopped(notebook)
    assert notebook.said is not None
    certificate = notebook.certificate() | {"all_eras_delta": 0.05}
    rows = chained(notebook.events)
    assert verified(tmp_path, signed(certificate, rows), rows)[0] == AGREES
    assert verified(tmp_path, signed(certificate | {"all_eras_delta": 0.1}, rows), rows)[0] == 1
    events = copy.deepcopy(notebook.events)
    events[0]["options"]["earlier"] = certificate["options"]["earlier"] = "evidence"
    rows = chained(events)
    assert verified(tmp_path, signed(certificate, rows), rows)[0] == 1


def test_follows_a_study_into_its_next_era(tmp_path: Path) -> None:
    """After arms have joined and retired, results of those still there guide the bets, and are no evidence."""
    X, theta, rng = problem(7, n_arms=6, dim=3)
    names = [f"arm {i}" for i in range(6)]
    notebook = Notebook(X, measured(theta, rng), names, noise_std=1.0)
    until_stopped(notebook, n_workers=3)
    assert notebook.said is not None
    late = notebook.pending[0]
    retired = next(arm for arm in range(6) if arm not in (notebook.said, notebook.asks[late][2]))
    notebook.reopen(rng.normal(size=(1, 3)), ["new"], [retired], noise_std=1.0)
    notebook.tell(late)
    notebook.tell(arm=retired)
    until_stopped(notebook, n_workers=2, most=3000)
    assert notebook.said is not None
    notebook.void(2)
    notebook.correct(4, 0.1)
    assert verified(tmp_path, notebook.certificate(), chained(notebook.events))[0] == AGREES


def test_takes_a_study_without_a_verdict(tmp_path: Path) -> None:
    """Before a verdict there is none to claim."""
    X, theta, rng = problem(1, n_arms=5, dim=3)
    notebook = Notebook(X, measured(theta, rng), noise_std=1.0)
    until_stopped(notebook, most=20)
    certificate, rows = notebook.certificate(), chained(notebook.events)
    assert verified(tmp_path, certificate, rows)[0] == AGREES
    assert verified(tmp_path, signed(certificate | {"best": [0], "evidence": 4.0}, rows), rows)[0] == 1


def study_of_the_package(seed: int = 3, **options: Any) -> sp.Study:
    """One with four workers that has its verdict, on the way through an interval."""
    X, theta, rng = problem(seed, n_arms=6, dim=3)
    measure = measured(theta, rng, 0.3)
    study = sp.create_study("own", arms=X, storage="memory:", author="ann", **options)
    go_on(study, measure)
    return study


def go_on(study: sp.Study, measure: Any) -> None:
    """Measure until it stops, four at a time."""
    while not study.stopped:
        for ask in study.ask(4):
            study.tell(ask.id, measure(np.array(ask.features)))


@pytest.mark.parametrize("noise_std", [None, 0.3])
def test_an_audit_gives_up_what_was_planned(tmp_path: Path, noise_std: float | None) -> None:
    """Check pulls have the numbers of asks that were planned and not made; also after some of an interval were."""
    n_cut = 0
    for seed in range(6):
        study = study_of_the_package(seed, noise_std=noise_std)
        n_cut += study.n_planned > 0
        if seed % 2:
            study.audit(9)  # given up as well: none is asked for when another number is chosen
        study.audit(5)
        for ask in study.ask(5):
            study.tell(ask.id, float(np.array(ask.features).sum()), questions=False)
        assert (study.n_planned, study.result().n_checks) == (0, 5)
        assert verified(tmp_path, study.certificate(), as_rows(study))[0] == AGREES
    assert n_cut


def test_an_era_in_which_all_arms_stay(tmp_path: Path) -> None:
    """Another risk alone begins one too."""
    _, theta, rng = problem(4, n_arms=6, dim=3)
    study = study_of_the_package(4)
    study.reopen(reason="stricter", delta=0.01)
    go_on(study, measured(theta, rng, 0.3))
    assert verified(tmp_path, study.certificate(), as_rows(study))[0] == AGREES


def test_what_came_after_the_certificate_is_not_its_business(tmp_path: Path) -> None:
    """The same as `surepick verify` says."""
    study = study_of_the_package()
    certificate = study.certificate()
    study.tell(arm=0, value=0.5)
    assert verified(tmp_path, certificate, as_rows(study))[0] == AGREES


def as_rows(study: sp.Study) -> list[Row]:
    """The log as tests of the verifier have it."""
    return [(str(row.n), row.hash, row.text) for row in study.rows()]


def test_files_of_something_else_are_no_traceback(tmp_path: Path) -> None:
    """Whatever is wrong, there is one line, and none of it is the file."""
    certificate, rows = short().certificate(), chained(short().events)
    (tmp_path / "log.csv").write_text(as_csv(rows), encoding="utf-8")
    forged: Any
    for forged in ({**certificate, "evidence": 10**400}, {**certificate, "evidence": None}, [], "x" * 10_000):
        (tmp_path / "certificate.json").write_text(json.dumps(forged), encoding="utf-8")
        done = run("certificate.json", "log.csv", folder=tmp_path)
        assert done.returncode in (1, 2)
        assert (done.stderr, done.stdout.count("\n")) == ("", 1)
        assert len(done.stdout) < 600
    assert "python verify_certificate.py certificate.json log.csv" in run(folder=tmp_path).stdout


def run(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run the file as a colleague would."""
    command = [sys.executable, str(FILE), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0.1},
        {"m": 2},
        {"misfit": 0.01},
        {"reward_range": [-50.0, 50.0], "noise_std": None},
        {"noise": "per-arm", "noise_std": None},
        {"noise": "symmetric", "noise_std": None},
        {"noise_std": [1.0, 1.0, 1.0, 1.0]},
        {"model": "unstructured"},
        {"stopping": "evidence"},
    ],
)
def test_says_what_it_does_not_cover(tmp_path: Path, options: dict[str, Any]) -> None:
    """Other rules, and what changes the bets, are refused and not passed over."""
    X, theta, rng = problem(1, n_arms=4, dim=2)
    X[:, 0] = 1.0  # a drift needs a constant
    notebook = Notebook(X, measured(theta, rng), **({"noise_std": 1.0} | options))
    until_stopped(notebook, most=8)
    code, said = verified(tmp_path, notebook.certificate(), chained(notebook.events))
    assert code == 2
    assert "surepick verify" in said


def test_exit_code_0_means_that_every_entry_was_checked(tmp_path: Path) -> None:
    """A claim in words that the file cannot check, true or false, never ends with 0, and is named."""
    study = study_of_the_package()
    certificate, rows = study.certificate(), as_rows(study)
    for claim in (certificate["claim"], "arm 5 is the best of all"):
        code, said = verified(tmp_path, signed(certificate | {"claim": claim, "version": "0.9.9"}, rows), rows)
        assert (code, "NOT CHECKED:" in said, " claim," in said) == (AGREES, True, True)
    unchecked = said.partition("NOT CHECKED: ")[2].partition(";")[0].split(", ")
    assert "registrations" not in unchecked
    core = {key: value for key, value in certificate.items() if key not in unchecked}
    assert verified(tmp_path, signed(core, rows), rows)[0] == 0
    forged = core | {"registrations": ["0" * 64]}
    assert verified(tmp_path, signed(forged, rows), rows)[0] == 1


def test_copies_and_anchors_change_no_verdict(tmp_path: Path) -> None:
    """Events that keep a fork or a proof are in the chain of hashes, and the bets pass over them."""
    study = study_of_the_package()
    sp.copy_study("own", "copy", storage=study.storage)
    study.reopen(reason="stricter", delta=0.01)
    study.ask()
    rows = chained([*study.log, {"n": study.head[0] + 1, "at": "", "by": "", "kind": "anchored", "event": 1}])
    certificate = signed(study.certificate(), rows)
    assert verified(tmp_path, certificate, rows)[0] == AGREES


def test_sees_every_change_of_a_certificate(tmp_path: Path) -> None:
    """No field can be changed; those that follow from the log not even by who writes a new digest."""
    certificate, rows = short().certificate(), chained(short().events)
    for path in leaves(certificate):
        forged = changed(certificate, path)
        assert verified(tmp_path, forged, rows)[0] == 1, path
        if path[0] not in ("guarantee", "assumptions", "digest", "log"):
            assert verified(tmp_path, signed(forged, rows), rows)[0] not in (0, AGREES), path


def test_sees_every_change_of_a_log(tmp_path: Path) -> None:
    """No field of an event can be changed, with the old hashes or with new ones."""
    certificate, events, rows = short().certificate(), short().events, chained(short().events)
    for i in range(0, len(events), 3):
        for path in leaves(events[i]):
            new = chained([*events[:i], changed(events[i], path), *events[i + 1 :]])
            assert verified(tmp_path, certificate, new)[0] == 1, (i, path)
            if i % 2:
                old = [*rows[:i], (rows[i][0], rows[i][1], new[i][2]), *rows[i + 1 :]]
                assert verified(tmp_path, certificate, old)[0] == 1, (i, path)


def test_sees_forgeries_whose_verdict_does_not_follow(tmp_path: Path) -> None:
    """Who changes an event, all hashes and the certificate is seen, unless the verdict still follows."""
    certificate, events = short().certificate(), short().events
    for i, event in enumerate(events):
        is_replaced = event["kind"] == "corrected" and events[i + 1]["kind"] == "corrected"
        for path in leaves(event):
            # The level enters the bets only where it makes the estimate likelier.
            if path[-1] in REMARKS or "level" in path or is_replaced:
                continue
            rows = chained([*events[:i], changed(event, path), *events[i + 1 :]])
            assert verified(tmp_path, signed(certificate, rows), rows)[0] not in (0, AGREES), (i, path)


def test_sees_events_that_are_lost_or_swapped(tmp_path: Path) -> None:
    """A dropped tail, a missing event and two events in another order are seen."""
    certificate, events, rows = short().certificate(), short().events, chained(short().events)
    for n in range(1, len(rows), 4):
        assert verified(tmp_path, certificate, rows[:n])[0] == 1
        assert verified(tmp_path, certificate, [*rows[: n - 1], *rows[n:]])[0] == 1
        assert verified(tmp_path, certificate, [*rows[: n - 1], rows[n], rows[n - 1], *rows[n + 1 :]])[0] == 1
    # A tail without the verdict, and a certificate for it.
    last = max(i for i, event in enumerate(events) if event["kind"] == "stopped")
    assert verified(tmp_path, signed(certificate, rows[:last]), rows[:last])[0] == 1


def test_sees_a_verdict_that_is_said_too_late(tmp_path: Path) -> None:
    """A verdict belongs right behind the result that completed its block: nobody may wait for a better one."""
    X, theta, rng = problem(1, n_arms=5, dim=3)
    notebook = Notebook(X, measured(3 * theta, rng), noise_std=1.0)
    until_stopped(notebook)
    notebook.tell(notebook.ask()[0])
    events = copy.deepcopy(notebook.events)
    assert [event["kind"] for event in events[-3:]] == ["stopped", "asked", "told"]
    assert verified(tmp_path, notebook.certificate(), chained(events))[0] == AGREES
    late = [*events[:-3], *events[-2:], events[-3] | {"pulls": events[-3]["pulls"] + 1}]
    rows = chained([event | {"n": n} for n, event in enumerate(late, start=1)])
    code, said = verified(tmp_path, signed(notebook.certificate(), rows), rows)
    assert code == 1
    assert f"event {len(late) - 1} is not due" in said


def test_sees_a_flipped_bit_anywhere(tmp_path: Path) -> None:
    """One bit of the file is enough, wherever it is."""
    certificate, whole = short().certificate(), as_csv(chained(short().events)).encode()
    (tmp_path / "certificate.json").write_text(json.dumps(certificate), encoding="utf-8")
    places = [*range(40), *range(40, len(whole), len(whole) // 150), *range(len(whole) - 40, len(whole))]
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << (place % 8)
        (tmp_path / "log.csv").write_bytes(bytes(flipped))
        assert checked(tmp_path / "certificate.json", tmp_path / "log.csv")[0] not in (0, AGREES), place


def test_an_interval_that_an_audit_has_cut_is_not_bet_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its length may depend on its own results; seen where a correction takes the verdict back, and it goes on."""
    judged, closed = list[bool](), list[bool]()
    real_judge, real_close = Settlement._block, Settlement._close

    def judge(known: Settlement, interval: Any, *pulls: Any) -> Any:
        judged.append(interval.is_cut)
        return real_judge(known, interval, *pulls)

    def close(known: Settlement, interval: Any, n_places: float) -> None:
        closed.append(interval.is_cut and not known.stopped)
        real_close(known, interval, n_places)

    monkeypatch.setattr(Settlement, "_block", judge)
    monkeypatch.setattr(Settlement, "_close", close)
    for seed in range(2):
        X, theta, rng = problem(seed, n_arms=6, dim=3)
        measure = measured(theta, rng, 0.3)
        study = sp.create_study("own", arms=X, storage="memory:", author="ann", noise_std=[None, 0.3][seed % 2])
        while not (study.stopped and study.n_planned):  # a verdict in the middle of an interval
            if study.stopped:
                study.reopen(reason="a test")
            for ask in study.ask(3):
                study.tell(ask.id, measure(np.array(ask.features)))
        study.audit(4)
        for ask in study.ask(4):
            study.tell(ask.id, measure(np.array(ask.features)))
        for one in study.measurements[:6]:
            study.correct(one.id, one.told + float(rng.normal(0.0, 1.0)), reason="a test")
        go_on(study, measure)
        assert verified(tmp_path, study.certificate(), as_rows(study))[0] == AGREES
    assert any(closed), "there was none"
    assert not any(judged)


CALLED: dict[str, dict[str, Any]] = {
    "a threshold": {"threshold": 70, "epsilon": 0.3},
    "few wrong calls, noise known": {"threshold": 70, "epsilon": 0.3, "calls": "fdr", "noise_std": 1.0},
    "a control by name": {"control": "alloy 3", "margin": 0.5, "epsilon": 0.3},
    "none meets it": {"threshold": 90},
    "some are open": {"threshold": 70, "budget": 40},
}


@pytest.mark.parametrize("case", CALLED)
def test_calls_are_made_again(case: str, tmp_path: Path) -> None:
    """Every call, the evidence and the verdict follow from the log, a correction included; a changed call does not."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(12), rng.normal(size=(12, 3))])
    arms, means = sp.FiniteArms(X, names=[f"alloy {row}" for row in range(12)]), X @ [69.0, 2.0, 1.0, -1.0]
    study = sp.create_study("alloys", arms=arms, storage="memory:", **CALLED[case])
    while not study.stopped and (asks := study.ask(4)):
        for ask in asks:
            study.tell(ask.id, float(means[ask.arm] + rng.normal()))
        if study.status.n_pulls == 12:
            study.correct(3, float(means[study.state.measurements[2].arm]), reason="mistyped")
    certificate = study.certificate()
    study.export("csv", tmp_path / "study.csv")
    log = (tmp_path / "study.csv").read_text("utf-8")
    code, said = verified(tmp_path, certificate, log)
    assert code == AGREES, said
    assert "calls" not in said
    wrong = copy.deepcopy(certificate)
    wrong["calls"]["alloy 0"] = "met" if wrong["calls"]["alloy 0"] != "met" else "failed"
    head = certificate["log"]
    code, said = verified(tmp_path, signed(wrong, [("", head["hash"], "")] * head["events"]), log)
    assert code == verify_certificate.DISAGREES
    assert "certificate: calls is" in said
