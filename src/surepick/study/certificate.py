"""The certificate of a study: what is claimed, what it rests on, and which log it follows from.

It is a function of the log alone, so whoever has the log can make it again and compare: `verify`. Numbers that are
worked out are compared up to rounding, which differs between machines; what is copied from the log, and the log itself
by its hash, to the letter.
`standalone.py` does the same for the default rule in one file that imports none of this package.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

from surepick._version import __version__
from surepick.errors import InvalidInput, SurepickError
from surepick.learning import words
from surepick.learning.result import Result
from surepick.study.events import Kind, Row, canonical, check_chain
from surepick.study.fields import check_asked
from surepick.study.state import ROUNDING, State, described
from surepick.study.status import status_of

FORMAT = "surepick certificate 1"
COPIED = ("options", "changes", "voids", "corrections", "counts", "log", "verdicts")
"""Entries that are copied from the log, and not worked out."""
OF_CHANGES = (
    "Which measurements are void or corrected has nothing to do with the noise of their own interval or of later ones; "
    "in particular none was chosen because of its value."
)
OF_LEASES = "Whether an ask was given up, or ran out of its lease, does not depend on the value that it would have had."
OF_ERAS = (
    "The claim is about the arms of the present era, which began with event {event}. What was measured before guided "
    "its plans and bets and is no evidence, so arms and options could be chosen after a look at it."
)


def certificate_of(state: State, last_hash: str) -> dict[str, Any]:
    """Return the certificate of the study that the events up to this hash add up to."""
    learner, status = state.learner, status_of(state)
    result = learner.result()
    verdict = state.verdict
    content = {
        "format": FORMAT,
        "version": __version__,
        "name": state.name,
        "log": {"events": state.n_events, "hash": last_hash},
        "stopped": state.stopped,
        "best": [] if verdict is None else [_plain(key) for key in verdict.best],
        "best_names": [] if verdict is None else [state.roster.key_label(key) for key in verdict.best],
        "guarantee": status.guarantee if state.stopped else "none",
        "claim": named(result.explain(), result),
        "delta": learner.delta,
        "evidence": None if verdict is None else verdict.evidence,
        "threshold": status.threshold,
        "p_value": result.p_value,
        "runner_up": {
            "name": status.rival_name,
            "behind": status.lead,
            "low": status.lead_low,
            "high": status.lead_high,
        },
        "epsilon_bound": result.epsilon_bound,
        "misfit_margin": result.misfit_margin,
        "noise_std": result.noise_std,
        "noise_interval": list(result.noise_interval),
        "model_check": result.model_check,
        "n_checks": result.n_checks,
        "assumptions": [list(one) for one in words.assumptions(result)],
        "conditions": list(_conditions(state)),
        "arms_digest": state.roster.digest,
        "n_arms": status.n_arms,
        "rule": status.stopping,
        "options": state.options,
        "n_pulls": status.n_pulls,
        "counts": {
            state.roster.label(state.key_of(number)): n for number, n in sorted(learner.estimate.counts.items())
        },
        "voids": [one.id for one in state.measurements if one.is_void],
        "corrections": [one.id for one in state.measurements if one.is_corrected],
        "changes": [
            {"measurement": one.id, "told": one.told, **change._asdict()}
            for one in state.measurements
            for change in one.changes
        ],
        "verdicts": [
            {
                "event": each.event,
                "at": each.at,
                "best": [state.roster.key_label(key) for key in each.best],
                "taken_back": each.taken_back,
            }
            for each in state.verdicts
        ],
        "era": state.era,
    }
    content = _plain(content)
    return {**content, "digest": digest_of(content)}


def named(said: str, result: Result) -> str:
    """Return a sentence in which arms go by their names alone: a learner's number is not the study's."""
    if result.best_name is None or isinstance(result.best, list):
        return said
    return said.replace(f"{result.best_name} (arm {result.best})", str(result.best_name), 1)


def digest_of(certificate: Mapping[str, Any]) -> str:
    """Return the hash of a certificate's content."""
    content = {name: value for name, value in certificate.items() if name not in ("digest", "signature")}
    return sha256(canonical(content).encode()).hexdigest()


def _conditions(state: State) -> Iterator[str]:
    """Say what the claim rests on because of what happened on the way."""
    if any(one.changes for one in state.measurements):
        yield OF_CHANGES
    if any(one.is_again for one in state.attempts.values()):
        yield OF_LEASES
    if state.era > 1:
        yield OF_ERAS.format(event=state.eras[-1]["n"])


def _plain(value: Any) -> Any:
    """Return what JSON can hold; a number that is not finite says nothing, and becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value.value if isinstance(value, Kind) else value


@final
@dataclass(slots=True)
class Report:
    """What a check found."""

    problems: list[str] = field(default_factory=list)
    """What does not agree; none of it may be believed then."""
    notes: list[str] = field(default_factory=list)
    claim: str = ""
    """What follows from the log, in the words of this version."""

    @property
    def ok(self) -> bool:
        """Whether everything agrees."""
        return not self.problems


def verify(
    certificate: Mapping[str, Any],
    rows: Sequence[Row],
    *,
    public_key: Path | None = None,
    arms: Path | None = None,
    trust: bool = False,
) -> Report:
    """Work everything out again from the log, and compare.

    Args:
        certificate: as `Study.certificate` returns it.
        rows: the log, as `surepick.study.tables.read_log` reads it.
        public_key: of who must have signed, an Ed25519 key in PEM; None: anybody, or nobody.
        arms: your copy of the file of arms, if the log has them in a file.
        trust: do whatever the log asks for, however long it takes, and open the files that it names.
    """
    known = None if public_key is None else _public_key(public_key)
    report = Report()
    try:
        if certificate.get("format") != FORMAT:
            raise InvalidInput(f"a certificate must have the format {FORMAT!r}, got {certificate.get('format')!r}.")
        if certificate.get("digest") != digest_of(certificate):
            report.problems.append("the certificate was changed: its content does not have the digest it names")
        _check_signature(certificate, known, report)
        check_chain(rows)
        certified = rows[: certificate["log"]["events"]]
        if len(certified) < certificate["log"]["events"]:
            raise InvalidInput(
                f"the certificate is of {certificate['log']['events']} events, and the log has {len(rows)}; export all "
                "of it."
            )
        if certified[-1].hash != certificate["log"]["hash"]:
            raise InvalidInput(f"the certificate is of another log: event {len(certified)} has another hash there.")
        _note_later(rows[len(certified) :], report)
        state = _replayed(certified, report, arms=arms, trust=trust)
        _compare(certificate, certificate_of(state, certified[-1].hash), report)
    except Exception as error:  # noqa: BLE001 (a forged log can go wrong in any way; that is what is to be said)
        said = str(error) if isinstance(error, SurepickError) else f"not what such files hold: {error!r}"
        report.problems.append(said.rstrip("."))
    return report


def _note_later(rows: Sequence[Row], report: Report) -> None:
    """Note what came after the certificate: it may have taken the claim back."""
    if not rows:
        return
    kinds = {json.loads(row.text)["kind"] for row in rows}
    listed = [kind for kind in ("resumed", "reopened", "voided", "corrected") if kind in kinds]
    more = f" ({', '.join(listed)} among them: ask for a new certificate)" if listed else ""
    report.notes.append(
        f"the log has {words.counted(len(rows), 'later event')}, of which the certificate says nothing{more}"
    )


def _compare(certificate: Mapping[str, Any], again: Mapping[str, Any], report: Report) -> None:
    """Compare a certificate with what follows from the log."""
    report.claim = str(again["claim"])
    version = certificate.get("version")
    if not isinstance(version, str):
        report.problems.append(f"version: must be a text, got {version!r}")
    elif version != __version__:
        report.notes.append(f"made by version {version}; where sentences are worded otherwise, both are shown")
    for name in sorted({*again, *certificate} - {"digest", "signature", "version"}):
        if name not in again or name not in certificate:
            report.problems.append(f"{name}: {'missing' if name in again else 'nothing that a certificate has'}")
        elif not _agree(certificate[name], again[name], is_copied=name in COPIED):
            said, found = (canonical({"": value})[4:-1][:200] for value in (certificate[name], again[name]))
            # Another version may have other words for the same.
            is_worded = version != __version__ and name in ("claim", "assumptions", "conditions")
            where = report.notes if is_worded else report.problems
            where.append(f"{name}: the certificate says {said}, from the log follows {found}")


def _replayed(rows: Sequence[Row], report: Report, *, arms: Path | None, trust: bool) -> State:
    """Return what the log adds up to; every plan and every verdict is made again and compared."""
    events = [json.loads(row.text) for row in rows]
    for row, event in zip(rows, events, strict=True):
        if canonical(event) != row.text or event.get("n") != row.n:
            raise InvalidInput(f"event {row.n} is not written as events are.")
    report.notes += check_asked(events, arms=arms, trusts=trust)
    state = State(events[0], checks=True)
    _check_description(state, events[0], report)
    for event in events[1:]:
        due = _verdict_due(state)
        if due is not None and event["kind"] != due:
            report.problems.append(f"event {event['n']} stands where the study was {due}, which the log does not say")
            break  # all after it is another story
        state.apply(event)
        if event["kind"] == Kind.REOPENED:
            _check_description(state, event, report)
    else:
        if _verdict_due(state) is not None:
            report.problems.append("the verdict that follows from the log is not in the log")
    for each in state.verdicts:
        back = ", taken back after a correction" if each.taken_back else ""
        report.notes.append(
            f"verdict of event {each.event}: {', '.join(state.roster.key_label(key) for key in each.best)}{back}"
        )
    report.problems += state.differences
    if state.n_plans_differing:
        report.notes.append(
            f"{state.n_plans_differing} plans are not those that this machine would have made; that harms no proof"
        )
    return state


def _verdict_due(state: State) -> Kind | None:
    """Return what must be the next event, if a verdict has to be given or taken back."""
    return next((kind for kind, _ in state.verdict_news(after_correction=True)), None)


def _check_description(state: State, event: Mapping[str, Any], report: Report) -> None:
    """Check what the first event of an era says of its learner, by which bets are checked elsewhere."""
    own = _plain(described(state.learner))
    if event.get("version") == __version__ and not _agree({name: event.get(name) for name in own}, own):
        report.problems.append(f"event {event['n']} describes another learner than its arms and options make")


def _agree(one: Any, other: Any, *, is_copied: bool = False) -> bool:
    """Whether what was said is what was found: floats up to rounding, unless they are copies."""
    if type(one) is float and type(other) is float and not is_copied:
        return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=0.0 if other else ROUNDING)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_agree(one[key], other[key], is_copied=is_copied) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _agree(*pair, is_copied=is_copied) for pair in zip(one, other, strict=True)
        )
    return type(one) is type(other) and bool(one == other)


def is_encrypted(key: Path) -> bool:
    """Whether a private key in a PEM file needs a password."""
    try:
        return b"ENCRYPTED" in key.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{key} must be an Ed25519 private key in PEM: {error.strerror}.") from error


def sign(certificate: Mapping[str, Any], key: Path, *, password: str | None = None) -> dict[str, Any]:
    """Return the certificate with a signature of its digest by an Ed25519 private key in a PEM file.

    Such a key is made by `openssl genpkey -algorithm ed25519 -out key.pem`, with `-aes256` under a password.

    Raises:
        InvalidInput: not such a key, or not its password.
    """
    _check_can_sign()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 (optional)
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    locked = is_encrypted(key)
    if locked and not password:
        raise InvalidInput(f"{key} is encrypted; give its password (SUREPICK_KEY_PASSWORD at the command line).")
    try:
        private = load_pem_private_key(key.read_bytes(), password=password.encode() if locked and password else None)
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"{key} cannot be opened with this password; check it, and that the file is an Ed25519 private key in PEM."
            if locked
            else f"{key} must be an Ed25519 private key in PEM: {error}."
        ) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise InvalidInput(f"{key} must be an Ed25519 key, got one of another kind.")
    signature = {
        "public_key": private.public_key().public_bytes_raw().hex(),
        "value": private.sign(str(certificate["digest"]).encode()).hex(),
    }
    return {**certificate, "signature": signature}


def _check_can_sign() -> None:
    if find_spec("cryptography") is None:
        raise SurepickError("signatures need cryptography; install it with: pip install 'surepick[sign]'.")


def _public_key(path: Path) -> bytes:
    """Read an Ed25519 public key."""
    _check_can_sign()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 (optional)
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} must be an Ed25519 public key in PEM: {error}.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput(f"{path} must be an Ed25519 key, got one of another kind.")
    return key.public_bytes_raw()


def _check_signature(certificate: Mapping[str, Any], known: bytes | None, report: Report) -> None:
    if "signature" not in certificate:
        (report.notes if known is None else report.problems).append("the certificate is not signed")
        return
    _check_can_sign()
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 (optional)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    signature = certificate["signature"]
    if signature.keys() != {"public_key", "value"}:
        report.problems.append("a signature has a public_key and a value, and nothing else")
    signer = bytes.fromhex(signature["public_key"])
    try:
        Ed25519PublicKey.from_public_bytes(signer).verify(
            bytes.fromhex(signature["value"]), str(certificate["digest"]).encode()
        )
    except InvalidSignature:
        report.problems.append("the signature is not of this certificate")
        return
    if known is None:
        report.notes.append(f"signed by the key {signer.hex()}; compare it with the one you know")
    elif known != signer:
        report.problems.append(f"signed by another key, {signer.hex()}")
    else:
        report.notes.append("signed by the owner of the public key that was given")
