"""Studies of many kinds in one database, every kind of event among them, and a result file.

    python -m tests.golden.study record     # writes deeds.json: what these deeds leave in this version
    python -m tests.golden.study check      # does the same again and compares; exit code 1 if anything differs

`studies.db` and `result.json` are of release 0.2.0, and `studies.json` is what that release said of them: later
versions open them and say the same.
"""

import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import surepick as sp
from tests.golden.cli import Shell, masked
from tests.golden.instances import command

FOLDER = Path(__file__).parent
RECORDS, DATABASE, RESULT = FOLDER / "studies.json", FOLDER / "studies.db", FOLDER / "result.json"
DEEDS = FOLDER / "deeds.json"

KINDS = {
    "created", "planned", "asked", "told", "failed", "expired", "voided", "corrected", "restored", "audited", "stopped",
    "resumed", "reopened", "copied", "anchored",
}  # fmt: skip
"""Every kind of event there is."""

NAMES = ["elm", "oak", "ash", "fir"]
ROWS = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.7], [-0.5, 0.9]])
THETA = np.array([0.7, 0.6])
"""Means 0.7, 0.6, 0.98 and 0.19: the third arm is best."""

Given = Mapping[str, Any]
OTHERS: dict[str, Given] = {
    "unknown noise": {},
    "levels given": {"noise_std": [0.1, 0.2, 0.1, 0.3]},
    "per arm": {"noise": "per-arm"},
    "symmetric": {"noise": "symmetric"},
    "bounded": {"reward_range": (-1.0, 3.0)},
    "binary": {"rewards": "binary"},
    "two best": {"m": 2, "noise_std": 0.2},
    "costs": {"costs": [1.0, 2.0, 1.5, 0.5], "budget": 40.0, "noise_std": 0.2},
    "slack": {"epsilon": 0.05, "noise_std": 0.2, "stopping": "evidence"},
    "misfit": {"misfit": 0.01, "noise_std": 0.2},
    "slack and misfit": {"epsilon": 0.05, "misfit": 0.01, "noise_std": 0.2},
    "unstructured": {"model": "unstructured", "stopping": "pairwise", "noise_std": 0.2},
    "candidates": {"candidates": [[0.9, 0.8], [0.2, 1.1], [1.2, -0.1]], "noise_std": 0.2},
    "rage": {"algorithm": "rage", "noise_std": 0.2},
    "tracking": {"tracking": "current", "schedule": "doubling", "noise_std": 0.2},
    "earlier evidence": {"earlier": "evidence", "noise_std": 0.2},
}
"""Options of studies to which nothing out of the ordinary happens."""


class Hand:
    """Measures for one study."""

    def __init__(self, study: sp.Study, *, is_binary: bool = False) -> None:
        self.study, self.is_binary, self.rng = study, is_binary, np.random.default_rng(5)

    def value(self, features: Any) -> float:
        """Measure; the products are added exactly."""
        mean = math.fsum(float(x) * float(t) for x, t in zip(features, np.resize(THETA, len(features)), strict=True))
        value = mean + 0.15 * float(self.rng.standard_normal())
        return float(value > 0.6) if self.is_binary else value

    def tell(self, ask: sp.StudyAsk, **how: Any) -> None:
        """Answer an ask."""
        self.study.tell(ask.id, self.value(ask.features), **how)

    def go_on(self, most: int) -> None:
        """Ask and tell until the study has stopped, but no more than this often."""
        for _ in range(most):
            asks = [] if self.study.stopped else self.study.ask(4, worker="bob")
            for ask in asks:
                self.tell(ask, worker="bob")
            if not asks:
                return


def _eventful(storage: str, key: Path) -> None:
    """A study to which everything happens."""
    arms = sp.FiniteArms(ROWS, names=NAMES)
    with sp.create_study("eventful", arms=arms, noise_std=0.2, storage=storage, lease="1d", author="ann") as study:
        hand = Hand(study)
        study.tell_earlier([("elm", 0.71), ("oak", 0.52), ("ash", 1.03)])
        first, *others = study.ask(5, worker="bob")
        study.fail(first.id, reason="dropped")
        for ask in others:
            hand.tell(ask)
        (lost,) = study.ask(1, worker="eve", lease=0.1)
        time.sleep(0.2)
        for ask in study.ask(2, worker="ann"):
            hand.tell(ask, key=f"k{ask.id}")
        hand.tell(lost)
        study.tell(arm="fir", value=[0.21, 0.17])
        study.void(4, reason="mislabelled")
        study.restore(4, reason="it was not")
        study.correct(5, 0.61, reason="comma")
        # The corrected value brings a verdict, which falls with it; another one comes with further results.
        study.correct(5, -0.01, reason="no comma")
        hand.go_on(40)
        study.audit(3)
        for ask in study.ask(3, worker="ann"):
            hand.tell(ask)
        study.anchor(key=key)
        anew: dict[str, Any] = {"keep_evidence": False}  # as all eras once began
        study.reopen(reason="new stock", join={"yew": [0.5, 0.1], "box": [0.1, 0.5]}, retire=["oak"], **anew)
        hand.go_on(40)
        study.reopen(reason="surer", delta=0.001, **anew)
        for ask in study.ask(3, worker="ann", lease=None)[:2]:  # what stays open does so for ever
            study.tell(ask.id, 0.5)
    sp.copy_study("eventful", "copy", storage=storage, author="ann").close()


def live(storage: str, key: Path) -> None:
    """Fill a database with studies."""
    _eventful(storage, key)
    for name, given in OTHERS.items():
        arms = sp.FiniteArms(ROWS, names=NAMES)
        with sp.create_study(name, arms=arms, delta=0.1, storage=storage, author="ann", **given) as study:
            if name == "earlier evidence":
                study.tell_earlier([(NAMES[n % 4], 0.9 * (n % 4 == 2) + 0.01 * (n * 7 % 11)) for n in range(16)])
            Hand(study, is_binary=name == "binary").go_on(8)
    for name, vectors in (("cube", sp.Hypercube(3)), ("sphere", sp.Sphere(2)), ("choices", sp.TopK(4, 2))):
        own: dict[str, Any] = {"arms": vectors, "noise_std": 0.2, "epsilon": 0.3, "storage": storage, "author": "ann"}
        with sp.create_study(name, **own) as study:
            Hand(study).go_on(6)


def said(folder: Path) -> dict[str, Any]:
    """What the command line makes of each study in `studies.db` there, and the texts of its events."""
    found: dict[str, Any] = {}
    with chdir(folder):
        shell = Shell(folder)
        _, names = shell.type("list", "--storage", "studies.db", "--format", "json")
        for name in (each["name"] for each in json.loads(names)):
            where = ("--storage", "studies.db", "--study", name)
            for words in ("status", "best", "pending", "measurements"):
                code, out = shell.type(words, *where, "--format", "json")
                found[f"{name}: {words}"] = {"code": code, "json": masked(json.loads(out), str(folder))}
            shell.type("certificate", "--out", "certificate.json", *where)
            shell.type("export", "log.json", *where)
            code, out = shell.type("verify", "certificate.json", "--log", "log.json", "--format", "json")
            checked = json.loads(out)
            found[f"{name}: verify"] = {"code": code, "ok": checked["ok"], "problems": checked["problems"]}
            found[f"{name}: certificate"] = _certificate(
                json.loads(Path("certificate.json").read_text(encoding="utf-8"))
            )
            found[f"{name}: events"] = events(json.loads(Path("log.json").read_text(encoding="utf-8")))
    return found


def _certificate(certificate: Any) -> Any:
    """The same without what differs from run to run."""
    return {name: "<digest>" if name == "digest" else masked(each) for name, each in certificate.items()}


def events(log: Any) -> list[Any]:
    """The events of an exported log, masked; their texts are canonical JSON."""
    made = []
    for row in log["log"]:
        event = json.loads(row["event"])
        assert row["event"] == json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        made.append(masked(event))
    return made


def result() -> sp.Result:
    """A result with names, costs and several winners."""
    rng = np.random.default_rng(5)
    means = [math.fsum(row * THETA) for row in ROWS]
    arms = sp.FiniteArms(ROWS, names=NAMES)
    return sp.identify(
        arms,
        lambda arm: means[arm] + 0.15 * float(rng.standard_normal()),
        m=2,
        costs=[1.0, 2.0, 1.5, 0.5],
        noise_std=0.2,
    )


def shown(one: sp.Result) -> dict[str, Any]:
    """What a result says."""
    names = ("best", "best_name", "n_pulls", "cost", "stopped", "evidence", "p_value", "guarantee", "model_check", "m")
    told = {name: getattr(one, name) for name in (*names, "delta", "epsilon_bound", "stopping")}
    lists = {"theta": np.asarray(one.theta).tolist(), "history": [list(pair) for pair in one.history]}
    return dict(masked(json.loads(json.dumps({**told, **lists}))))


def script(folder: Path) -> dict[str, Any]:
    """Do everything in a folder; return what it has left there."""
    key = folder / "key.pem"
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    key.write_bytes(private.private_bytes(pem, form, serialization.NoEncryption()))
    live(str(folder / "studies.db"), key)
    saved = result()
    saved.save(folder / "result.json")
    kept = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return {**said(folder), "result": shown(saved), "result file": masked(kept)}


def _checked() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return script(Path(folder))


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:], DEEDS, _checked))
