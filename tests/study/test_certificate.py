"""Certificates: what is changed in one, or in the log it rests on, is found."""

import base64
import copy
import csv
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import surepick as sp
from surepick.errors import InvalidInput
from surepick.study.admin import create_study
from surepick.study.certificate import certificate_of, digest_of, sign, verify
from surepick.study.events import Row, canonical, rows_of
from surepick.study.exchange import read_log
from surepick.study.state import State
from surepick.study.storage import open_storage
from surepick.study.study import Study
from tests.study.kinds import KINDS, NAMES, ROWS
from tests.study.storages import set_time

Json = dict[str, Any]

FREE = {"at", "by", "until", "key", "lease", "version", "features", "names", "name", "reason"}
"""What somebody wrote down and nothing follows from: who forges log and certificate together may change it. Only a
signature helps against that, or to know the hash of the log from elsewhere."""


def lived(monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study to which everything has happened."""
    time = [datetime(2026, 11, 17, 12, tzinfo=UTC)]
    set_time(monkeypatch, lambda: time[0])
    rng = np.random.default_rng(5)
    arms = sp.FiniteArms(ROWS, names=NAMES)
    study = create_study("lived", arms=arms, noise_std=0.2, storage="memory:", lease="1h", author="ann")
    study.tell_earlier([("elm", 0.7), ("oak", 0.5), ("ash", 1.0)])
    usual = KINDS["usual"]

    def tell(ask: Any, **how: Any) -> None:
        study.tell(ask.id, usual.value(ask.features, float(rng.standard_normal())), **how)

    first, lost, *others = study.ask(6, worker="bob")
    study.fail(first.id, reason="dropped")
    for ask in others:
        tell(ask)
    time[0] += timedelta(hours=2)
    for ask in study.ask(2, worker="ann"):
        tell(ask, key=f"k{ask.id}")
    tell(lost)
    study.void(4, reason="mislabelled")
    study.restore(4, reason="it was not")
    study.correct(5, 0.6, reason="comma")
    while not study.stopped:
        for ask in study.ask(4):
            tell(ask)
    study.void(2, reason="spilt")
    while not study.stopped:
        for ask in study.ask(4):
            tell(ask)
    study.audit(3)
    for ask in study.ask(3):
        tell(ask)
    return study


@pytest.fixture(scope="module")
def study() -> Study:
    """A study to which everything has happened; to be looked at."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return lived(monkeypatch)


def test_the_risks_of_all_eras_add_up() -> None:
    """Every era has a delta of its own; the certificate has their sum, and a check says it and misses it."""
    study = create_study("again", arms=sp.FiniteArms(ROWS, names=NAMES), noise_std=0.2, storage="memory:")
    assert study.certificate()["all_eras_delta"] == 0.05
    study.reopen(reason="more", delta=0.07)
    study.reopen(reason="and more", delta=0.03)
    certificate = study.certificate()
    assert certificate["all_eras_delta"] == pytest.approx(0.15)
    report = verify(certificate, study.rows())
    assert (report.problems, "risk of all 3 eras together: 0.15" in report.notes) == ([], True)
    wrong: tuple[tuple[Json, str], ...] = (({"all_eras_delta": 0.03}, "the certificate says 0.03"), ({}, "missing"))
    for change, said in wrong:
        other = {name: value for name, value in certificate.items() if name != "all_eras_delta"} | change
        (found,) = verify({**other, "digest": digest_of(other)}, study.rows()).problems
        assert found.startswith(f"all_eras_delta: {said}")


@pytest.mark.parametrize("changes", [{"stopping": "evidence", "budget": 500.0}, {"delta": 0.01}])
def test_a_later_era_of_before_says_guidance_also_where_nothing_was_measured(changes: Json) -> None:
    """Its first event named the learner so whatever the rule; the log is read as it was meant."""
    own = {"stopping": changes["stopping"]} if "stopping" in changes else {}
    study = create_study("old", arms=sp.FiniteArms(ROWS, names=NAMES), noise_std=0.2, storage="memory:", **own)
    study.reopen(reason="more", **{name: value for name, value in changes.items() if name not in own})
    events = study.log
    events[-1]["identity"] = events[-1]["identity"].replace(", seed=", ", earlier=guidance, seed=")
    rows = rows_of([canonical(event) for event in events])
    certificate = certificate_of(study.state, rows[-1].hash) | {"registrations": [rows[0].hash, rows[-1].hash]}
    assert verify({**certificate, "digest": digest_of(certificate)}, rows).problems == []
    events[-1]["identity"] = events[-1]["identity"].replace("noise_std=0.2", "noise_std=0.1")
    rows = rows_of([canonical(event) for event in events])
    assert "describes another learner" in str(verify(certificate_of(study.state, rows[-1].hash), rows).problems)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a document that is no list and no table, and to lists and tables that are empty."""
    entries: Any = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    if not entries or value in ({}, []):
        yield path
        return
    for key, entry in entries:
        yield from leaves(entry, (*path, key))


def otherwise(value: Any) -> Any:
    """Another value, as like the first as can be."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 1.001 + 1e-3
        case str():
            return f"{value}x"
        case None:
            return 1
    return [1] if isinstance(value, list) else {"x": 1}


def changed(document: Any, path: tuple[Any, ...], change: Callable[[Any], Any] = otherwise) -> Any:
    """A copy of a document with one entry changed."""
    new = copy.deepcopy(document)
    place = new
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = change(place[path[-1]])
    return new


def sealed(certificate: Json, rows: list[Row] | None = None) -> Json:
    """The certificate with the hash of that log, and the digest that its content has."""
    log = certificate["log"] if rows is None else {"events": len(rows), "hash": rows[-1].hash}
    new = {**certificate, "log": log}
    return {**new, "digest": digest_of(new)}


def events_of(study: Study) -> list[Json]:
    """The log as documents."""
    return [json.loads(row.text) for row in study.rows()]


def rechained(events: list[Json]) -> list[Row]:
    """The log as rows, with hashes that follow."""
    return rows_of([canonical(event) for event in events])


def is_found(certificate: Any, rows: list[Row]) -> bool:
    """Whether a check finds something wrong."""
    return not verify(certificate, rows).ok


def test_a_certificate_agrees_with_its_log(study: Study) -> None:
    """What nobody changed is found to agree, also after a way through JSON; all that can happen has happened."""
    certificate = json.loads(json.dumps(study.certificate()))
    found = verify(certificate, study.rows())
    assert (found.ok, found.claim) == (True, certificate["claim"])
    kinds = {event["kind"] for event in events_of(study)}
    assert kinds == {
        "created", "planned", "asked", "told", "failed", "expired", "voided", "corrected", "restored", "stopped",
        "resumed", "audited",
    }  # fmt: skip
    assert certificate["stopped"]
    assert certificate["best_names"] == ["ash"]
    assert certificate["voids"] == [2]
    assert certificate["corrections"] == [5]
    assert len(certificate["conditions"]) == 2


def test_every_entry_of_a_certificate_is_checked(study: Study) -> None:
    """Another value of any entry is found: by the digest, and if that is made to fit, by the log."""
    certificate, rows = study.certificate(), study.rows()
    # One of each: the last of a list.
    paths = {tuple(key for key in path if isinstance(key, str)): path for path in leaves(certificate)}
    del paths["digest",]
    assert len(paths) > 50
    for path in paths.values():
        forged = changed(certificate, path)
        assert forged["digest"] != digest_of(forged), path
        report = verify(sealed(forged), rows)
        # Another version may have other words, so that a check by this one shows both, and goes on.
        assert report.notes != [] if path == ("version",) else not report.ok, path
    assert is_found(changed(certificate, ("digest",)), rows)
    assert is_found(changed(certificate, ("delta",)), rows)


def test_entries_that_are_missing_or_too_many_are_found(study: Study) -> None:
    """A certificate has all its entries, and no others."""
    certificate, rows = study.certificate(), study.rows()
    for name in list(certificate)[::4]:
        assert is_found({key: value for key, value in certificate.items() if key != name}, rows) or name == "version"
    assert is_found(sealed({**certificate, "seal": "gold"}), rows)
    wrong: Any
    for wrong in ({}, {"format": "x"}, {**certificate, "format": None}, {**certificate, "best": float("nan")}, [], "x"):
        assert is_found(wrong, rows)


def test_a_claim_under_the_name_of_another_version_is_shown_beside_what_follows(study: Study) -> None:
    """Sentences of another version cannot be compared to the letter; both are shown, and numbers are compared."""
    certificate, rows = study.certificate(), study.rows()
    report = verify(sealed({**certificate, "version": "9.9", "claim": "fir is best"}), rows)
    assert report.outcome == "unchecked"
    assert any("fir is best" in sentence and "ash" in sentence for sentence in report.unchecked)
    assert is_found(sealed({**certificate, "version": "9.9", "best_names": ["fir"]}), rows)


def anew(study: Study, keep: Callable[[Json], bool]) -> tuple[Json, list[Row]]:
    """Certificate and log of a forger who leaves events out, and writes all else so that it seems to follow."""
    events = [{**event, "n": n} for n, event in enumerate(filter(keep, events_of(study)), start=1)]
    state = State(events[0])
    for event in events[1:]:
        state.apply(event)
    rows = rechained(events)
    return certificate_of(state, rows[-1].hash), rows


def test_a_verdict_that_was_left_out_is_missed(study: Study) -> None:
    """Also one that was taken back: whoever reads the certificate is to know of it."""
    n_stopped = [event["n"] for event in events_of(study) if event["kind"] == "stopped"]
    n_resumed = [event["n"] for event in events_of(study) if event["kind"] == "resumed"]
    certificate, rows = anew(study, lambda event: event["n"] not in (n_stopped[0], n_resumed[0]))
    assert "stands where the study was stopped" in " ".join(verify(certificate, rows).problems)


def test_a_log_without_its_plans_is_refused(study: Study) -> None:
    """That arms were fixed before their results is what bets rest on."""
    events = [event for event in events_of(study) if event["kind"] != "planned"]
    rows = rechained([{**event, "n": n} for n, event in enumerate(events, start=1)])
    assert "asks for unplanned arms" in verify(sealed(study.certificate(), rows), rows).problems[0]


def test_what_came_later_is_said(study: Study) -> None:
    """That nothing is known of it, that a claim was taken back, and that it is whole."""
    certificate, rows = study.certificate(), study.rows()
    other = copy_of(study)
    other.void(1, reason="spilt")
    assert "voided among them: ask for a new certificate" in " ".join(verify(certificate, other.rows()).notes)
    assert is_found(certificate, [*rows, Row(len(rows) + 1, "{}", "zz")])


def copy_of(study: Study) -> Study:
    """The same study elsewhere."""
    storage = open_storage("memory:")
    storage.create(study.name, study.rows())
    return sp.load_study(study.name, storage)


def test_what_is_copied_is_compared_to_the_letter(study: Study) -> None:
    """Rounding excuses what is worked out, and nothing else; and a small number is not as good as nought."""
    certificate, rows = study.certificate(), study.rows()
    for path, value in (
        (("options", "delta"), 0.05 * (1 + 1e-9)),
        (("options", "seed"), 0.0),
        (("n_pulls",), float(certificate["n_pulls"])),
        (("changes", 2, "value"), 0.6 * (1 + 1e-9)),
        (("p_value",), 1e-300),
        (("evidence",), 10**400),
    ):
        assert is_found(sealed(changed(certificate, path, lambda _, to=value: to)), rows), path  # type: ignore[misc]
    near = changed(certificate, ("evidence",), lambda evidence: evidence * (1 + 1e-9))
    assert not is_found(sealed(near), rows)


def test_the_learner_of_a_later_era_is_the_one_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others take coordinates and rule of the bets from there."""
    study = lived(monkeypatch)
    study.reopen(reason="stricter", delta=0.01)
    for entry, other in (("rule", "evidence"), ("coordinates", None), ("identity", "?")):
        events = events_of(study)
        events[-1][entry] = other
        rows = rechained(events)
        assert "describes another learner" in verify(sealed(study.certificate(), rows), rows).problems[0]


def test_a_log_that_a_spreadsheet_saved_is_refused_with_a_remedy(study: Study, tmp_path: Path) -> None:
    """Other letters, or semicolons and other quotes."""
    log = tmp_path / "log.csv"
    study.export("csv", log)
    rows = [*csv.reader(log.read_text(encoding="utf-8").splitlines())]
    with log.open("w", encoding="cp1252", newline="") as file:
        csv.writer(file, delimiter=";").writerows([*rows, ["Härter"]])
    with pytest.raises(InvalidInput, match=r"spreadsheet program may have saved it; export the log again\.$"):
        read_log(log)
    with log.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=";").writerows(rows)
    with pytest.raises(InvalidInput, match=r"export (the log|it) again\.$"):
        read_log(log)


def test_nothing_is_hidden_beside_what_is_checked(study: Study, tmp_path: Path) -> None:
    """A key twice, a column more, a signer beside the signature."""
    log = tmp_path / "log.csv"
    study.export("csv", log)
    lines = log.read_text().splitlines()
    for hidden in (
        "\n".join([f"{lines[0]},event", *(f"{line},forged" for line in lines[1:])]),
        "\n".join([f"{lines[0]},more", *(f"{line},1" for line in lines[1:])]),
        "\n".join([lines[0], f"0{lines[1]}", *lines[2:]]),
    ):
        log.write_text(hidden)
        with pytest.raises(InvalidInput, match=r"must be a log with the columns|occurs twice"):
            read_log(log)
    document = tmp_path / "log.json"
    study.export("json", document)
    document.write_text('{"log": [], ' + document.read_text()[1:])
    with pytest.raises(InvalidInput, match="occurs twice"):
        read_log(document)


def test_every_entry_of_every_event_is_in_the_chain(study: Study) -> None:
    """Another value of any entry of any event breaks the chain of hashes."""
    certificate, rows = study.certificate(), study.rows()
    for place, event in enumerate(events_of(study)):
        for path in leaves(event):
            text = canonical(changed(event, path))
            forged = [*rows[:place], Row(place + 1, text, rows[place].hash), *rows[place + 1 :]]
            assert "hash" in verify(certificate, forged).problems[0]


def test_a_forged_chain_is_not_the_one_of_the_certificate(study: Study) -> None:
    """Hashes that are made to fit end in another hash than the certificate has."""
    certificate, events = study.certificate(), events_of(study)
    for place in range(0, len(events), 12):
        forged = rechained([*events[:place], {**events[place], "by": "eve"}, *events[place + 1 :]])
        assert is_found(certificate, forged)


def test_a_forged_log_does_not_bear_its_certificate(study: Study) -> None:
    """Log, hashes and the hash in the certificate forged together: what follows from the log is another certificate.

    Not found is another value of what nothing follows from, `FREE`: names, times, leases, reasons for giving up.
    """
    certificate, events = study.certificate(), events_of(study)
    # One of each entry of each kind of event: its first place in its last event.
    spots = {}
    for place, event in enumerate(events):
        for path in reversed(list(leaves(event))):
            spots[event["kind"], *(key for key in path if isinstance(key, str))] = place, path
    missed = set()
    for what, (place, path) in spots.items():
        rows = rechained([*events[:place], changed(events[place], path), *events[place + 1 :]])
        if not is_found(sealed(certificate, rows), rows):
            missed.add(what)
    assert {what for what in missed if what[-1] not in FREE} == set()


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_new_certificate_of_a_forged_verdict_is_refused(study: Study, *, is_sealed: bool) -> None:
    """Who writes another answer, or other evidence, into the log and certifies it anew is found out."""
    events = events_of(study)
    place = max(n for n, event in enumerate(events) if event["kind"] == "stopped")
    for forgery in ({"best": [3]}, {"evidence": 50.0}, {"threshold": 1.0}, {"pulls": 1}):
        forged = [*events[:place], {**events[place], **forgery}, *events[place + 1 :]]
        rows, state = rechained(forged), State(forged[0])
        for event in forged[1:]:
            state.apply(event)
        certificate = certificate_of(state, rows[-1].hash) if is_sealed else sealed(study.certificate(), rows)
        assert is_found(certificate, rows), forgery


def test_events_that_are_swapped_dropped_or_doubled_are_found(study: Study) -> None:
    """With the hashes they have, and with hashes and numbers that are made to fit."""
    certificate, rows, events = study.certificate(), study.rows(), events_of(study)
    for n in range(1, len(rows) - 1):
        assert is_found(certificate, [*rows[:n], rows[n + 1], rows[n], *rows[n + 2 :]])
        assert is_found(certificate, [*rows[:n], *rows[n + 1 :]])
        assert is_found(certificate, [*rows[:n], rows[n], *rows[n:]])
        assert is_found(certificate, rows[:n])
    for n in range(1, len(rows) - 1, 12):
        numbered = [{**e, "n": i} for i, e in enumerate([*events[:n], *events[n + 1 :]], 1)]
        assert is_found(sealed(certificate, rechained(numbered)), rechained(numbered))
    for n in (1, 10, len(rows) - 1):
        assert is_found(sealed(certificate, rows[:n]), rows[:n])
    assert is_found(certificate, [])


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_one_bit_of_an_exported_log_is_found(study: Study, tmp_path: Path, kind: Any) -> None:
    """Whichever bit of the file is flipped, it cannot be read any more, or does not agree."""
    certificate = study.certificate()
    path = study.export(kind, tmp_path / f"log.{kind}")
    assert verify(certificate, read_log(path)).ok
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    spots = {*range(40), *range(len(content) - 20, len(content)), *rng.integers(0, len(content), 150).tolist()}
    for spot in sorted(spots):
        flipped = bytearray(content)
        flipped[spot] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(bytes(flipped))
        try:
            rows = read_log(path)
        except InvalidInput:
            continue
        # White space between the entries of a JSON document, or after a line, is nothing.
        assert rows == study.rows() or is_found(certificate, rows), spot


def test_signatures_are_checked(study: Study, tmp_path: Path) -> None:
    """A signature is of this certificate and by this key, or it is refused; a forger has no key."""
    certificate, rows = study.certificate(), study.rows()
    keys = {}
    for name in ("own", "other"):
        private = Ed25519PrivateKey.generate()
        form = serialization.PrivateFormat.PKCS8
        pem = private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        (tmp_path / f"{name}.pem").write_bytes(pem)
        public = private.public_key()
        pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{name}.pub").write_bytes(pem)
        keys[name] = tmp_path / f"{name}.pem", tmp_path / f"{name}.pub"
    own, other = keys["own"], keys["other"]
    signed = sign(certificate, own[0])
    assert verify(signed, rows).ok
    assert verify(signed, rows, public_key=own[1]).ok
    assert "another key" in verify(signed, rows, public_key=other[1]).problems[0]
    assert "not signed" in verify(certificate, rows, public_key=own[1]).problems[0]
    for path in (("payload",), ("payloadType",), ("signatures", 0, "sig"), ("signatures", 0, "keyid")):
        assert is_found(changed(signed, ("signature", *path), _flip), rows), path
    no_base64 = changed(signed, ("signature", "signatures", 0, "sig"), lambda _: "zz!")
    assert "must be a DSSE envelope" in verify(no_base64, rows).problems[0]
    more: Any
    for more in ({"value": "zz"}, {"signatures": []}, {"signatures": 2 * signed["signature"]["signatures"]}):
        assert is_found({**signed, "signature": signed["signature"] | more}, rows), more
    nothing: Any
    for nothing in (None, {}, [], "x", 7):
        assert is_found({**signed, "signature": nothing}, rows)
    # The whole forged by somebody else, who cannot sign for the owner.
    events = events_of(study)
    events[3]["by"] = "eve"
    forged = sealed(certificate, rechained(events))
    assert verify(forged, rechained(events)).ok
    assert is_found({**forged, "signature": signed["signature"]}, rechained(events))
    assert not verify(sign(forged, other[0]), rechained(events), public_key=own[1]).ok
    with pytest.raises(InvalidInput, match="private key in PEM"):
        sign(certificate, own[1])
    with pytest.raises(InvalidInput, match="private key in PEM"):
        sign(certificate, tmp_path / "none.pem")
    with pytest.raises(InvalidInput, match="public key in PEM"):  # says nothing about the certificate
        verify(signed, rows, public_key=own[0])


def test_a_signature_is_an_envelope_that_other_tools_read(study: Study, tmp_path: Path) -> None:
    """By the specification of DSSE alone: type, payload, and the signature over their encoding."""
    certificate, private = study.certificate(), Ed25519PrivateKey.generate()
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "key.pem").write_bytes(pem)
    envelope = sign(certificate, tmp_path / "key.pem")["signature"]
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    assert payload.decode() == certificate["digest"]
    encoded = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    ((keyid, sig),) = [(one["keyid"], one["sig"]) for one in envelope["signatures"]]
    assert keyid == private.public_key().public_bytes_raw().hex()
    private.public_key().verify(base64.b64decode(sig), encoded)


def test_a_signature_of_the_first_version_is_checked(study: Study) -> None:
    """It was over the bare digest, with key and value in hex."""
    certificate, private = study.certificate(), Ed25519PrivateKey.generate()
    value = private.sign(certificate["digest"].encode())
    signature = {"public_key": private.public_key().public_bytes_raw().hex(), "value": value.hex()}
    signed = {**certificate, "signature": signature}
    assert verify(signed, study.rows()).ok
    assert "not of this certificate" in verify(changed(signed, ("signature", "value"), _flip), study.rows()).problems[0]
    for wrong in ({"public_key": _flip(signature["public_key"])}, {"value": "zz"}, {"signer": "eve"}):
        assert is_found({**signed, "signature": signature | wrong}, study.rows()), wrong


def _flip(text: str) -> str:
    return ("1" if text[0] != "1" else "2") + text[1:]


@pytest.mark.parametrize(
    "name", ["unknown noise", "symmetric", "two best", "slack", "binary", "costs", "sphere", "means"]
)
def test_studies_of_every_kind_have_certificates(name: str) -> None:
    """Several winners, slack, bounded rewards, costs, vectors: each certificate agrees with its log, and no other."""
    kind, rng = KINDS[name], np.random.default_rng(2)
    study = create_study(name, **kind.given, storage="memory:")
    while not study.stopped and (asks := study.ask(6)):
        for ask in asks:
            study.tell(ask.id, kind.value(ask.features, float(rng.standard_normal())))
    study.void(3, reason="spilt")
    certificate = json.loads(json.dumps(study.certificate()))
    assert verify(certificate, study.rows()).problems == []
    assert is_found(sealed({**certificate, "p_value": 0.5, "evidence": 99.0}), study.rows())


def test_a_certificate_is_about_its_era(monkeypatch: pytest.MonkeyPatch) -> None:
    """After arms joined the claim is about those, and says since which event."""
    study = lived(monkeypatch)
    study.reopen(reason="a new one", join=sp.FiniteArms(np.array([[0.9, 0.1], [0.2, 0.3]]), names=["yew", "box"]))
    rng = np.random.default_rng(3)
    before = study.certificate()
    assert verify(before, study.rows()).problems == []
    assert not before["stopped"]
    assert before["best"] == []
    while not study.stopped:
        for ask in study.ask(5):
            study.tell(ask.id, KINDS["usual"].value(ask.features, float(rng.standard_normal())))
    certificate = study.certificate()
    assert verify(certificate, study.rows()).problems == []
    assert certificate["era"] == 2
    assert len(certificate["verdicts"]) >= 2
    assert any("present era" in condition for condition in certificate["conditions"])
    assert certificate["arms_digest"] != before["digest"]
    assert is_found(certificate, study.rows()[:-1])


def test_a_log_of_a_later_version_is_not_believed(study: Study) -> None:
    """An event of a kind that this version does not know is a reason not to agree."""
    events = [*events_of(study), {"n": len(study.rows()) + 1, "at": "", "by": "", "kind": "blessed"}]
    rows = rechained(events)
    assert "later version" in verify(sealed(study.certificate(), rows), rows).problems[0]


def test_the_table_of_the_log_is_read_as_it_was_written(study: Study, tmp_path: Path) -> None:
    """CSV, Parquet and JSON give the same rows; other tables are refused in words."""
    for kind in ("csv", "parquet", "json"):
        path = study.export(kind, tmp_path / f"log.{kind}")
        assert read_log(path) == study.rows()
    with (tmp_path / "other.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b"], [1, 2]])
    for name in ("other.csv", "none.csv", "log.txt"):
        with pytest.raises(InvalidInput):
            read_log(tmp_path / name)


def in_order(options: Json, order: Callable[..., list[int]] | None) -> Study:
    """A study that asks for its blocks in this order; None: in the usual one."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if order is not None:
            monkeypatch.setattr("surepick.learning.blocks.shuffled", order)
        study = create_study("ordered", arms=np.eye(3), storage="memory:", **options)
        for n in range(60):
            for ask in study.ask(1):
                study.tell(ask.id, 0.1 * (n % 7), questions=False)
    return study


def by_number(arms: list[int], *_: int, **__: bool) -> list[int]:
    """Sort the arms of a block."""
    return sorted(arms)


def by_another(arms: list[int], *_: int, **__: bool) -> list[int]:
    """Plan one other arm than the algorithm, and sort them."""
    return sorted([(arms[0] + 1) % 3, *arms[1:]])


IN_ORDER: list[Json] = [{"noise": "any"}, {"noise_std": 0.5, "drift": 0.3, "model": "unstructured"}]


@pytest.mark.parametrize("options", IN_ORDER)
def test_a_proof_by_random_order_needs_that_order(options: Json) -> None:
    """A log with blocks in another order than the seed's shows no proof; for other proofs the order does not matter."""
    study = in_order(options, None)
    assert verify(study.certificate(), study.rows()).ok
    study = in_order(options, by_number)
    found = verify(study.certificate(), study.rows())
    assert found.outcome == "not ok"
    assert "in another order than the random one of its seed" in found.problems[0]
    study = in_order({}, by_number)
    found = verify(study.certificate(), study.rows())
    assert found.ok
    assert any("that harms no proof" in note for note in found.notes)


@pytest.mark.parametrize("options", IN_ORDER)
def test_the_order_of_other_arms_cannot_be_checked(options: Json) -> None:
    """A machine that rounds differently may plan other arms."""
    study = in_order(options, by_another)
    found = verify(study.certificate(), study.rows())
    assert "rests on their random order, which cannot be checked" in " ".join([*found.unchecked, *found.problems])
    assert not any("harms no proof" in note for note in found.notes)


def test_repetitions_have_the_same_arms() -> None:
    """Results of a repetition are told by the arms of the first one."""
    study = create_study("repeated", arms=np.eye(3), noise="per-arm", storage="memory:")
    study.tell_earlier([(arm, 0.1 * n) for n in range(4) for arm in range(3)])
    study.ask(1)
    events = [json.loads(row.text) for row in study.rows()]
    planned = next(event for event in events if event["kind"] == "planned")
    assert planned["parts"] >= 3
    planned["arms"][-1] = (planned["arms"][-1] + 1) % 3
    state = State(events[0])
    for event in events[1 : planned["n"] - 1]:
        state.apply(event)
    with pytest.raises(sp.errors.CorruptLog, match="plans repetitions with different arms"):
        state.apply(planned)
