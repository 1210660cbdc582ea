"""What a certificate shows of choices that the log alone would not, and what it says that it cannot show."""

import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import surepick as sp
from surepick.errors import InvalidInput
from surepick.study.certificate import FIRST_FORMAT, WORDED, Report, verify
from surepick.study.events import Row
from surepick.study.signatures import check_anchor, openssl_command, read_stamp
from surepick.study.study import Study
from tests.study.golden.make import DATABASE, FOLDER
from tests.study.kinds import KINDS, NAMES, ROWS
from tests.study.test_certificate import events_of, rechained, sealed

RESPONSE = (FOLDER / "stamp.tsr").read_bytes()
"""The answer of an authority to `openssl ts -query` for the SHA-256 hash of "abc"."""
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def begun(**options: Any) -> Study:
    """A study of trees."""
    arms = sp.FiniteArms(ROWS, names=NAMES)
    return sp.create_study("trees", arms=arms, storage="memory:", **{"noise_std": 0.2, **options})


def go_on(study: Study, seed: int = 0) -> Study:
    """Measure until it has stopped."""
    rng = np.random.default_rng(seed)
    while not study.stopped:
        for ask in study.pending or study.ask(4):
            study.tell(ask.id, KINDS["usual"].value(ask.features, float(rng.standard_normal())))
    return study


def checked(study: Study) -> tuple[dict[str, Any], Report]:
    """The certificate of a study after a way through JSON, and what a check finds, which is no problem."""
    certificate = json.loads(json.dumps(study.certificate()))
    report = verify(certificate, study.rows())
    assert report.problems == report.unchecked == []
    return certificate, report


def test_the_registration_digest_is_the_hash_of_the_first_event_of_each_era() -> None:
    """Status, certificate and check show it; other arms or options under the same log have another one."""
    study = begun()
    first = study.rows()[0].hash
    assert study.status.registrations == [first]
    go_on(study).reopen(reason="stricter", delta=0.01)
    second = study.rows()[-1].hash
    certificate, report = checked(go_on(study))
    assert certificate["registrations"] == report.registrations == study.status.registrations == [first, second]
    assert sum(digest in note for digest in (first, second) for note in report.notes) == 2
    assert sp.load_study("trees", study.storage).status.registrations == [first, second]
    events = events_of(study)
    events[0]["by"] = "eve"
    forged = rechained(events)
    assert "registrations: the certificate says" in " ".join(verify(sealed(certificate, forged), forged).problems)


def test_a_copy_is_seen_in_both_logs() -> None:
    """Whoever goes on with one of several copies has a certificate that says so, and so has the original."""
    study = begun()
    copies = [sp.copy_study("trees", f"try {n}", storage=study.storage) for n in range(3)]
    ids = [one.state.forks[-1]["fork"] for one in copies]
    certificate, report = checked(go_on(copies[2]))
    assert [one["is_copy"] for one in certificate["forks"]] == [False, False, True]
    assert [one["fork"] for one in certificate["forks"]] == ids
    said = " ".join(report.limits)
    assert f"This log is a fork: a copy of study trees, made after event 3 (fork id {ids[2]})" in said
    assert "2 copies were made of this log" in said
    kept, report = checked(go_on(study))
    assert [one["is_copy"] for one in kept["forks"]] == [False] * 3
    assert report.limits == kept["limits"]
    assert any("3 copies were made" in limit for limit in kept["limits"])
    again = [sp.copy_study(name, f"again {name}", storage=study.storage) for name in ("trees", "try 0")]
    sp.copy_study("trees", "try 4", storage=study.storage)
    (said,) = checked(study)[1].limits
    assert said.startswith("5 copies were made of this log (")
    assert ", 1 more). What was measured there" in said
    assert "a copy of a copy, 2 times in all" in checked(again[1])[1].limits[0]
    forged = sealed({**certificate, "forks": [], "limits": []})
    assert len(verify(forged, copies[2].rows()).problems) == 2


def test_a_damaged_log_is_not_copied_and_not_marked(tmp_path: Path) -> None:
    """What was changed by hand is refused before either log gets an event."""
    path = tmp_path / "lab.db"
    with sp.create_study("one", arms=ROWS, storage=path) as study:
        study.tell(arm=0, value=0.5)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE events SET text = replace(text, '0.5', '0.6') WHERE n = 2")
    with pytest.raises(sp.SurepickError, match="event 2 has the hash"):
        sp.copy_study("one", "two", storage=path)
    assert sp.list_studies(path) == ["one"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (2,)


def test_earlier_results_that_were_left_out_cannot_be_seen() -> None:
    """The number of those that are evidence is said, and that others may be missing; guidance needs no such words."""
    study = begun(earlier="evidence")
    study.tell_earlier([("elm", 0.7), ("oak", 0.5), ("ash", 1.0)])
    study.ask(1)
    study.tell(arm="fir", value=0.1)
    certificate, report = checked(study)
    assert certificate["n_earlier"] == 3
    assert certificate["limits"][0].startswith("3 earlier results were told before the first ask")
    assert "Whether some earlier results were left out cannot be seen" in " ".join(report.limits)
    study.fail(study.pending[0])
    study.reopen(reason="stricter", delta=0.01)
    earlier, limit = checked(study)[0]["limits"]  # what was evidence stays evidence
    assert earlier.startswith("3 earlier results were told before the first ask")
    assert limit.startswith("1 ask was given up without a result, 1 of them without a reason.")
    other = begun(stopping="evidence")
    other.ask(1)
    other.tell(arm="fir", value=0.1)
    assert checked(other)[0]["limits"][0].startswith("1 result was told without an ask")


def test_asks_without_a_result_and_retired_arms_are_named() -> None:
    """Each arm with its reasons and with how many failures have none; and every arm that has left, with why."""
    study = begun()
    asks = study.ask(12)
    arm = asks[0].name
    own = [ask for ask in asks if ask.name == arm]
    assert len(own) >= 2
    for ask, reason in zip(own, ("dropped", "", *["dropped"] * len(own)), strict=False):
        study.fail(ask.id, reason=reason)
    study.fail(next(ask.id for ask in asks if ask.name != arm))
    gone = next(name for name in NAMES if name not in ("ash", arm))
    study.reopen(reason="sold out", retire=[gone])
    certificate, report = checked(study)
    (row,) = (row for row in certificate["lost"] if row["arm"] == arm)
    assert (row["failed"], row["without_reason"], row["reasons"]) == (len(own), 1, {"dropped": len(own) - 1})
    assert sum(row["failed"] + row["expired"] for row in certificate["lost"]) == len(asks)
    assert certificate["retired"] == [{"arm": gone, "event": study.head[0], "reason": "sold out"}]
    said = " ".join(report.notes)
    assert f"retired by event {study.head[0]}: {gone} (sold out)" in said
    assert f"{arm} {len(own)} failed ({len(own) - 1} for 'dropped', 1 without a reason)" in said
    assert "of their own" not in json.dumps(certificate)


def test_a_result_that_comes_after_all_is_not_lost() -> None:
    """An ask that failed and has a result since is no gap."""
    study = begun()
    (ask,) = study.ask(1)
    study.fail(ask.id, reason="late")
    assert len(checked(study)[0]["lost"]) == 1
    study.tell(ask.id, 0.5)
    assert checked(study)[0]["lost"] == []


def test_what_another_version_says_in_other_words_is_not_checked() -> None:
    """A third outcome, neither ok nor refuted; a number that is wrong is wrong under every version."""
    study = go_on(begun())
    certificate, rows = study.certificate(), study.rows()
    forgeries: list[dict[str, Any]] = [
        {"claim": "fir is best"}, {"conditions": ["x"]}, {"assumptions": []}, {"limits": ["x"]}
    ]  # fmt: skip
    for forged in forgeries:
        report = verify(sealed({**certificate, "version": "0.9.9", **forged}), rows)
        assert (report.outcome, report.ok, report.problems) == ("unchecked", False, [])
        assert verify(sealed({**certificate, **forged}), rows).outcome == "not ok"
    assert verify(sealed({**certificate, "version": "0.9.9"}), rows).outcome == "ok"
    assert verify(sealed({**certificate, "version": "0.9.9", "best_names": ["fir"]}), rows).outcome == "not ok"
    later = verify(sealed({**certificate, "format": "surepick certificate 9"}), rows)
    assert (later.outcome, "surepick certificate 9" in later.unchecked[0]) == ("unchecked", True)


def test_certificates_of_the_first_format_are_still_checked() -> None:
    """They agree with their log as they did, and a change of any entry is found."""
    with closing(sqlite3.connect(f"file:{DATABASE}?mode=ro&immutable=1", uri=True)) as connection:
        rows = [Row(*row) for row in connection.execute("SELECT n, text, hash FROM events ORDER BY n")]
    kept = json.loads((FOLDER / "certificates-1.json").read_text(encoding="utf-8"))
    assert {certificate["format"] for certificate in kept} == {FIRST_FORMAT}
    for certificate in kept:
        report = verify(certificate, rows)
        assert report.problems == []
        worded = tuple(f"{name}: the certificate " for name in WORDED)
        assert all(text.startswith(worded) for text in report.unchecked)  # in the words of another version
        assert report.registrations[0] == rows[0].hash
        forged = json.loads(json.dumps(certificate).replace("Every reward is", "Every fair reward is"))
        assert verify(sealed(forged), rows).outcome == "unchecked"  # words of another version
        for name in certificate.keys() - {"digest", "version"}:
            less = {key: value for key, value in certificate.items() if key != name}
            assert not verify(less if name == "log" else sealed(less), rows).ok, name
        assert not verify(sealed({**certificate, "forks": []}), rows).ok


def key_file(folder: Path) -> Path:
    """A private key."""
    plain = serialization.NoEncryption()
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
    )
    (folder / "key.pem").write_bytes(pem)
    return folder / "key.pem"


def test_a_time_stamp_is_read() -> None:
    """Hash and time of what an authority has sent, a response or its token alone; other bytes are refused."""
    for stamp in (RESPONSE, RESPONSE[9:]):
        assert read_stamp(stamp).hash == ABC
        assert read_stamp(stamp).at.startswith("2026-11-18T03:")
        command = openssl_command({"token": base64.b64encode(stamp).decode(), "hash": ABC}, "a.tsr")
        assert ("-token_in" in command) is (stamp is not RESPONSE)
        assert f"-digest {ABC} -in a.tsr" in command
    late = RESPONSE.replace(b"\x18\x0f2026", b"\x18\x0f9999").replace(b"\x18\x0f999911", b"\x18\x0f999999")
    for other in (b"", b"abc", RESPONSE[:80], RESPONSE + bytes(70_000), late):
        with pytest.raises(InvalidInput):
            read_stamp(other)


def test_anchors_are_of_heads_of_the_log(tmp_path: Path) -> None:
    """A signature or a time stamp stands in the log, and a check says of which head; forged ones are found."""
    study, key = begun(), key_file(tmp_path)
    head = study.head
    study.ask(2)
    with pytest.raises(InvalidInput, match="must be of the hash of an event"):
        study.anchor(token=RESPONSE)
    with pytest.raises(InvalidInput, match="neither"):
        study.anchor()
    stamp = RESPONSE.replace(bytes.fromhex(ABC), bytes.fromhex(head[1]))
    stamped, signed = study.anchor(token=stamp), study.anchor(key=key)
    assert (stamped["event"], stamped["hash"]) == head
    assert signed["event"] == stamped["n"] == 4
    certificate, report = checked(go_on(study))
    assert [one["kept"] for one in certificate["anchors"]] == [4, 5]
    said = " ".join(report.notes)
    assert "anchor of event 4 for the head after event 1: time stamp of 2026-11-18T03:" in said
    assert "anchor of event 5 for the head after event 4: signed by the key" in said
    events = events_of(study)
    other = {**signed["signature"], "value": "00" * 64}
    for n, forgery in (
        (3, {"event": 2}), (3, {"hash": ABC}), (3, {"event": 0}), (3, {"event": 9}), (3, {"token": "abc"}),
        (4, {"event": 3}), (4, {"signature": other}), (4, {"event": True}), (4, {"token": stamped["token"]}),
    ):  # fmt: skip
        rows = rechained([*events[:n], {**events[n], **forgery}, *events[n + 1 :]])
        assert f"event {n + 1} is an anchor" in " ".join(verify(sealed(certificate, rows), rows).problems), forgery
    with pytest.raises(InvalidInput, match="time stamp or a signature"):
        check_anchor({"event": 1, "hash": ABC})
