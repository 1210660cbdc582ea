"""Logs of strangers: what they may ask of the machine that checks them."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import surepick as sp
from surepick.errors import CorruptLog, InvalidInput
from surepick.study.certificate import digest_of, sign, verify
from surepick.study.events import FIELDS, Row, canonical, rows_of
from surepick.study.state import State
from tests.study.kinds import NAMES, ROWS

Json = dict[str, Any]


def small() -> tuple[Json, list[Json]]:
    """A certificate of a study with a few results, and its events."""
    study = sp.create_study("s", arms=sp.FiniteArms(ROWS, names=NAMES), noise_std=0.2, storage="memory:")
    for ask in study.ask(3, worker="bob"):
        study.tell(ask.id, 0.5, worker="bob")
    return study.certificate(), study.log


def checked(certificate: Json, events: list[Json], **how: Any) -> tuple[list[str], list[str]]:
    """What is found where log and certificate were forged together."""
    rows: list[Row] = rows_of([canonical(event) for event in events])
    forged = {**certificate, "log": {"events": len(rows), "hash": rows[-1].hash}}
    report = verify({**forged, "digest": digest_of(forged)}, rows, **how)
    return report.problems, report.notes


@pytest.mark.parametrize(
    ("arms", "said"),
    [
        ({"kind": "hypercube", "dim": 5_000}, "arms of the kind 'hypercube' with 5000 dimensions"),
        ({"kind": "top-k", "dim": 4_000, "k": 2_000}, "arms of the kind 'top-k' with 4000 dimensions"),
        ({"kind": "sphere", "dim": 20_000}, "arms of the kind 'sphere' with 20000 dimensions"),
        ({"kind": "sphere", "dim": "20000"}, "arms of the kind 'sphere' with '20000' dimensions"),
        ({"kind": "ellipsoid", "center": [0.0] * 501, "axes": []}, "'ellipsoid' with 501 dimensions"),
        ({"kind": "finite", "rows": [[0.0] * 2_001] * 2, "names": None, "features": []}, "with 2,001 features"),
        ({"kind": "finite", "rows": [[0.0] * 2_000] + [[0.0]] * 99, "names": None, "features": []}, "the same number"),
    ],
)
def test_a_small_log_cannot_ask_for_hours(arms: Json, said: str) -> None:
    """A set of vectors with many dimensions is refused at once, as arms and as candidates."""
    certificate, events = small()
    for role in ("arms", "candidates"):
        began = time.process_time()
        problems, _ = checked(certificate, [{**events[0], role: arms}, *events[1:]])
        assert time.process_time() - began < 2.0
        (problem,) = problems
        assert said.replace("arms of", f"{role} of") in problem
        assert "`trust`" in problem or "the same number" in problem


@pytest.mark.parametrize(
    ("where", "change", "said"),
    [
        (0, {"options": {"m": 10**9}}, "seeks 1000000000 of"),
        (0, {"options": {"own": {"n": 10**9}}}, "has the option n = 1000000000"),
        (1, {"parts": 10**9}, "plans 1000000000 parts"),
    ],
)
def test_numbers_of_an_event_are_bounded(where: int, change: Json, said: str) -> None:
    """Options of an algorithm, the number of arms sought, and the parts of a plan."""
    certificate, events = small()
    assert events[where]["kind"] == ("created", "planned")[where]
    change = {name: {**events[where][name], **new} if name == "options" else new for name, new in change.items()}
    events[where] = {**events[where], **change}
    problems, _ = checked(certificate, events)
    assert said in problems[0]


def test_trust_lifts_the_limits() -> None:
    """What is refused of a stranger is worked out for a friend."""
    study = sp.create_study("cube", arms=sp.Hypercube(501), noise_std=1.0, storage="memory:")
    certificate, rows = study.certificate(), study.rows()
    assert not verify(certificate, rows).ok
    assert verify(certificate, rows, trust=True).ok


def test_every_event_has_its_fields_and_no_others() -> None:
    """A field that is missing is named; one that is not known was written by a later version."""
    certificate, events = small()
    assert {event["kind"] for event in events} == {"created", "planned", "asked", "told"}
    for place, event in enumerate(events):
        needed, more = FIELDS[event["kind"]]
        assert needed <= event.keys() <= needed | more
        for name in needed - {"n", "kind"}:
            short = {field: value for field, value in event.items() if field != name}
            problems, _ = checked(certificate, [*events[:place], short, *events[place + 1 :]])
            assert f"event {place + 1} ({event['kind']}) must have the field {name!r}" in problems[0]
        problems, _ = checked(certificate, [*events[:place], {**event, "zeal": 1}, *events[place + 1 :]])
        assert f"event {place + 1} ({event['kind']}) has the field 'zeal'" in problems[0]
        assert "written by a later version" in problems[0]


def test_a_study_that_lacks_a_field_says_so() -> None:
    """Where a log is taken in, too: no event ends in a KeyError."""
    _, events = small()
    for place, event in enumerate(events):
        for name in FIELDS[event["kind"]][0] - {"n", "kind", "by", "at", "identity", "rule", "coordinates", "version"}:
            short = {field: value for field, value in event.items() if field != name}
            with pytest.raises(CorruptLog, match=f"must have the field '{name}'"):
                _taken_in([*events[:place], short])


def _taken_in(events: list[Json]) -> None:
    state = State(events[0])
    for event in events[1:]:
        state.apply(event)


class TestFilesOfArms:
    """A log that names a file of arms."""

    @pytest.fixture
    def of_file(self, tmp_path: Path) -> tuple[Path, Json, list[Json]]:
        """The file, a certificate, and the events."""
        path = tmp_path / "arms.npy"
        np.save(path, np.array(ROWS))
        study = sp.create_study("file", arms=sp.MappedArms(path), noise_std=0.2, storage="memory:")
        return path, study.certificate(), study.log

    def test_is_opened_where_the_verifier_says(self, of_file: tuple[Path, Json, list[Json]]) -> None:
        """Not the path of the log: the copy that is given, which is noted and must have the same rows."""
        path, certificate, events = of_file
        problems, _ = checked(certificate, events)
        assert "give your copy by `arms`" in problems[0]
        copy = path.with_name("copy.npy")
        path.rename(copy)
        problems, notes = checked(certificate, events, arms=copy)
        assert (problems, f"the arms were read from {copy}" in notes[-1] or f"{copy}" in " ".join(notes)) == ([], True)
        np.save(copy, np.array(ROWS) * 2)
        problems, _ = checked(certificate, events, arms=copy)
        assert "was changed since" in problems[0]

    def test_leads_nowhere_else(
        self, of_file: tuple[Path, Json, list[Json]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """A pipe, a device, a file of others: without --trust none is even looked at, and with it no pipe is opened."""
        _, certificate, events = of_file
        pipe = tmp_path / "pipe.npy"
        os.mkfifo(pipe)
        looked = watched(monkeypatch)
        for path in (str(pipe), "/dev/zero", "/etc/passwd", r"\\server\share\arms.npy"):
            forged = [{**events[0], "arms": {**events[0]["arms"], "path": path}}, *events[1:]]
            problems, _ = checked(certificate, forged)
            assert "give your copy by `arms`" in problems[0]
        assert not looked
        forged = [{**events[0], "arms": {**events[0]["arms"], "path": str(pipe)}}, *events[1:]]
        problems, _ = checked(certificate, forged, trust=True)
        assert "must be one file" in problems[0]


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every path of which the status is asked from now on."""
    looked: list[str] = []
    stat: Callable[..., os.stat_result] = Path.stat

    def noted(self: Path, **how: Any) -> os.stat_result:
        looked.append(str(self))
        return stat(self, **how)

    monkeypatch.setattr(Path, "stat", noted)
    return looked


def test_a_certificate_is_signed_with_an_encrypted_key(tmp_path: Path) -> None:
    """With its password; without one, or with another, a sentence says what is needed."""
    private, path = Ed25519PrivateKey.generate(), tmp_path / "key.pem"
    path.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    certificate, events = small()
    rows = rows_of([canonical(event) for event in events])
    with pytest.raises(InvalidInput, match="is encrypted; give its password"):
        sign(certificate, path)
    with pytest.raises(InvalidInput, match="cannot be opened with this password"):
        sign(certificate, path, password="wrong")
    signed = sign(certificate, path, password="secret")
    assert signed["signature"]["signatures"][0]["keyid"] == private.public_key().public_bytes_raw().hex()
    assert verify(json.loads(json.dumps(signed)), rows).ok
