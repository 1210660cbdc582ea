"""The certificate of a study: the claim, its assumptions, and the log that it follows from.

A certificate is a function of the log alone. `verify` computes the certificate again from the log and compares:
computed numbers up to rounding, which differs between machines; entries copied from the log exactly; the log by its
hash.
`tools/verify_certificate.py` does the same for the default rule, without this package.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, final

from surepick._texts import counted
from surepick._version import __version__
from surepick.errors import InvalidInput, SurepickError
from surepick.learning.assumptions import assumptions
from surepick.learning.events import n_earlier
from surepick.learning.explain import explain
from surepick.learning.learner import GUIDED
from surepick.study.eras import Era, described
from surepick.study.events import Kind, Row, canonical, check_asked, check_chain
from surepick.study.reopening import risk_of
from surepick.study.signatures import check_anchor, envelope_of, read_public_key, signer_of
from surepick.study.state import ROUNDING, AskState, State
from surepick.study.views import snapshot_of

FORMAT = "surepick certificate 2"
FIRST_FORMAT = "surepick certificate 1"
SINCE_FORMAT_2 = ("registrations", "limits", "forks", "anchors", "retired", "lost", "n_earlier", "all_eras_delta")
"""Entries that certificates of the first format do not have."""
IN_FORMAT_1 = {
    ", with reasons of their own.": ".",
    " has no gap.": " has no lost, corrected or void result.",
}
"""Endings of sentences in the first format, and their words of today."""
WORDED = ("claim", "assumptions", "conditions", "limits")
"""Entries that are sentences: another version may word them differently."""
COPIED = (
    *("options", "changes", "voids", "corrections", "counts", "log", "verdicts"),
    *("registrations", "forks", "anchors", "retired", "lost"),
)
"""Entries that are copied from the log, and not computed."""
OF_CHANGES = (
    "Which measurements are void or corrected has nothing to do with the noise of their own block or of later ones; "
    "in particular none was chosen because of its value."
)
OF_LEASES = "Whether an ask was given up, or ran out of its lease, does not depend on the value that it would have had."
OF_ERAS = (
    "The claim is about the arms of the present era, which began with event {event}. What was measured before guided "
    "its plans and bets and is no evidence, so arms and options could be chosen after a look at it."
)
OF_KEPT_ERAS = (
    "The claim is about the arms of the present era, which began with event {event}. {results} of before then stay "
    "evidence, by a proof that lets you choose the change after a look at them."
)
IF_JOINED = (
    "Arms that have joined were not chosen by the noise of these results; if they were, the risk of this verdict is "
    "that of all eras together."
)
OF_EARLIER = (
    "{results} told before the first ask and counted as evidence. Whether some earlier results were left out cannot be "
    "seen, nor whether they are in the order in which they were measured."
)
IF_EARLIER = (
    "Arms, candidates and every option were fixed before the first of the {n} results was seen that were told before "
    "the first ask; each of their arms was chosen from results before it; none is left out; in the order of measuring."
)
OF_UNASKED = (
    "{results} told without an ask and counted as evidence. Whether some such results were left out cannot be seen."
)
OF_COPY = (
    "This log is a fork: a copy of study {study}, made after event {event} (fork id {fork}). What was measured in the "
    "original since, or in other copies, cannot be seen. The claim holds if this copy was not chosen by its results."
)
OF_ORIGINAL = (
    "{copies} made of this log ({forks}). What was measured there cannot be seen. The claim holds if this log was not "
    "chosen among them by its results."
)
OF_OFFSETS = (
    "Offsets of the groups ({factors}) were regressed out of every block: a group may read high or low as a whole. "
    "Every measurement has the label of its own group, and which group that is has nothing to do with the noise of its "
    "block."
)
MOST_NAMED = 4
"""Forks that a sentence names; the entry `forks` has all of them."""
MOST_SHOWN = 200
"""Letters of two entries that differ and are both shown."""
OF_LOST = (
    "{asks} given up without a result, {without} of them without a reason. Whether a value had been seen before cannot "
    "be seen."
)


def certificate_of(state: State, last_hash: str) -> dict[str, Any]:
    """Return the certificate of a study, given its state after the event with this hash."""
    learner = state.learner
    status = snapshot_of(state, state.name, (state.n_events, last_hash)).status
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
        "claim": explain(result, numbers=False, estimates=False),
        "delta": learner.delta,
        "all_eras_delta": risk_of(state.eras, state.now),
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
        **({} if status.calls is None else {"calls": status.calls}),
        "assumptions": [list(one) for one in assumptions(result)],
        "conditions": list(_conditions(state)),
        "limits": list(_limits(state)),
        **_witnesses(state),
        "lost": _lost(state),
        "n_earlier": state.n_earlier,
        "arms_digest": state.roster.digest,
        "n_arms": status.n_arms,
        "rule": status.stopping,
        "options": state.options,
        "n_pulls": status.n_pulls,
        "counts": {
            state.roster.label(state.key_of(number)): n for number, n in sorted(learner.estimate.counts.items())
        },
        **_groups(state),
        **_changes(state),
        "era": state.era,
    }
    content = _plain(content)
    return {**content, "digest": digest_of(content)}


def _witnesses(state: State) -> dict[str, Any]:
    """Return the entries on registrations, copies, kept hashes and retired arms."""
    return {
        "registrations": state.registrations,
        "forks": [
            {"event": one["n"], **{name: one[name] for name in ("fork", "study", "is_copy", "at", "by")}}
            for one in state.forks
        ],
        "anchors": [
            {"kept": one["n"], **{name: one[name] for name in one if name not in ("n", "kind", "by")}}
            for one in state.anchors
        ],
        "retired": [
            {"arm": state.roster.label(key), "event": era["n"], "reason": era["reason"]}
            for era in state.eras[1:]
            for key in era["retired"]
        ],
    }


def _changes(state: State) -> dict[str, Any]:
    """Return the entries on values that were changed, and on all verdicts."""
    return {
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
    }


def all_eras_words(certificate: Mapping[str, Any]) -> str:
    """Return a sentence with the error probability over all eras of a study (docs/guarantee.md, Theorem 8)."""
    return f"risk of all {certificate['era']} eras together: {certificate['all_eras_delta']:.6g}"


def digest_of(certificate: Mapping[str, Any]) -> str:
    """Return the hash of a certificate's content."""
    content = {name: value for name, value in certificate.items() if name not in ("digest", "signature")}
    return sha256(canonical(content).encode()).hexdigest()


def _conditions(state: State) -> Iterator[str]:
    """Yield the conditions that the history of the study adds to the claim."""
    if any(one.changes for one in state.measurements):
        yield OF_CHANGES
    if any(one.is_again for one in state.attempts.values()):
        yield OF_LEASES
    if state.options.get("groups") == "offset" and (groups := _groups(state)):
        yield OF_OFFSETS.format(factors=", ".join(groups["groups"]))
    first = _first_evidence(state)
    n = 0 if first is None else n_earlier(first.learner.log)
    if first is not None and n and first.options.get("earlier") == "evidence":
        yield IF_EARLIER.format(n=n)
    if state.now.kept is not None:
        yield OF_KEPT_ERAS.format(event=state.eras[-1]["n"], results=counted(state.now.kept.n_evidence, "result"))
        if any(event["joined"] for event in state.eras[1:]):
            yield IF_JOINED
    elif state.era > 1:
        yield OF_ERAS.format(event=state.eras[-1]["n"])


def _first_evidence(state: State) -> Era | None:
    """Return the first era of the study if its results are evidence in the present one."""
    era = state.now
    while era.kept is not None:
        era = era.kept
    return era if era.numbers is None else None


def _limits(state: State) -> Iterator[str]:
    """Yield what the log cannot show, given the history of the study."""
    n_earlier, n_unasked = state.n_earlier, sum(one.ask is None for one in state.measurements)
    if state.learner.rule.counts_every_result:
        if n_unasked:
            yield OF_UNASKED.format(results=_were(n_unasked, "result"))
    elif n_earlier and (first := _first_evidence(state)) is not None and first.learner.earlier == "evidence":
        yield OF_EARLIER.format(results=_were(n_earlier, "earlier result"))
    if copies := [one for one in state.forks if one["is_copy"]]:
        one, often = copies[-1], "" if len(copies) == 1 else f" It is a copy of a copy, {len(copies)} times in all."
        yield OF_COPY.format(study=one["study"], event=one["n"] - 1, fork=one["fork"]) + often
    if made := [f"fork id {one['fork']} after event {one['n'] - 1}" for one in state.forks if not one["is_copy"]]:
        listed = [*made[:MOST_NAMED], *([f"{len(made) - MOST_NAMED} more"] if len(made) > MOST_NAMED else [])]
        yield OF_ORIGINAL.format(copies=_were(len(made), "copy", "copies"), forks=", ".join(listed))
    if lost := _lost(state):
        failed, expired, without = (sum(one[key] for one in lost) for key in ("failed", "expired", "without_reason"))
        yield OF_LOST.format(asks=_were(failed + expired, "ask"), without=without + expired)


def _were(n: int, one: str, several: str = "") -> str:
    return f"1 {one} was" if n == 1 else f"{n:,} {several or f'{one}s'} were"


def _groups(state: State) -> dict[str, dict[str, Counter[str]]]:
    """Return the entry that counts measurements by factor and level of their labels; none if none has a label."""
    labels = [one.group for one in state.measurements if one.value is not None and state.roster.is_present(one.arm)]
    found: dict[str, Counter[str]] = {}
    for factor, level in sorted(pair for label in labels for pair in label):
        found.setdefault(factor, Counter())[level] += 1
    return {"groups": found} if found else {}


def _lost(state: State) -> list[dict[str, Any]]:
    """Return for each arm how many asks failed, with their reasons, and how many expired."""
    lost: dict[str, dict[str, Any]] = {}
    for one in state.attempts.values():
        if one.state in (AskState.FAILED, AskState.EXPIRED):
            arm = state.roster.label(one.arm)
            row = lost.setdefault(
                arm, {"arm": arm, "failed": 0, "without_reason": 0, "reasons": Counter[str](), "expired": 0}
            )
            row[one.state.value] += 1
            if one.reason.strip():
                row["reasons"][one.reason] += 1
            elif one.state is AskState.FAILED:
                row["without_reason"] += 1
    return list(lost.values())


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold; numbers that are not finite become null."""
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
    """The outcome of a check."""

    problems: list[str] = field(default_factory=list)
    """Disagreements. If there is one, do not believe the certificate."""
    unchecked: list[str] = field(default_factory=list)
    """Entries that this version cannot check: sentences that another version worded."""
    notes: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    """What the log cannot show, given the history of the study."""
    claim: str = ""
    """The claim that follows from the log, in the words of this version."""
    registrations: list[str] = field(default_factory=list)
    """The hash of the first event of each era."""
    anchors: list[dict[str, Any]] = field(default_factory=list)
    """Signatures and time stamps of heads, as in the certificate."""

    @property
    def outcome(self) -> Literal["ok", "not ok", "unchecked"]:
        """The result of the check in one word."""
        return "not ok" if self.problems else "unchecked" if self.unchecked else "ok"

    @property
    def ok(self) -> bool:
        """Whether every entry was checked and agrees."""
        return self.outcome == "ok"


def verify(
    certificate: Mapping[str, Any],
    rows: Sequence[Row],
    *,
    public_key: Path | None = None,
    arms: Path | None = None,
    trust: bool = False,
) -> Report:
    """Compute a certificate again from its log, and compare.

    Args:
        certificate: as `Study.certificate` returns it.
        rows: the log, as `surepick.study.exchange.read_log` returns it.
        public_key: file with the signer's Ed25519 public key in PEM; None accepts any signer, or none.
        arms: your copy of the file of arms, if the log names one.
        trust: lift the limits on what a log may ask for, and open the files that it names.
    """
    known = None if public_key is None else read_public_key(public_key)
    report = Report()
    try:
        written = certificate.get("format")
        if written not in (FORMAT, FIRST_FORMAT):
            if re.fullmatch(r"surepick certificate \d+", str(written)):
                report.unchecked.append(f"format: the certificate is a {written!r}, known are {FORMAT!r} and before")
                return report
            raise InvalidInput(f"a certificate must have the format {FORMAT!r}, got {written!r}.")
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
        again = certificate_of(state, certified[-1].hash)
        report.anchors = again["anchors"]
        _compare(certificate, again, report)
    except Exception as error:  # noqa: BLE001 (a forged log can go wrong in any way)
        said = str(error) if isinstance(error, SurepickError) else f"not what such files hold: {error!r}"
        report.problems.append(said.rstrip("."))
    return report


def _note_later(rows: Sequence[Row], report: Report) -> None:
    """Note events after the certificate, which may have withdrawn the claim."""
    if not rows:
        return
    kinds = {json.loads(row.text)["kind"] for row in rows}
    listed = [kind for kind in ("resumed", "reopened", "voided", "corrected") if kind in kinds]
    more = f" ({', '.join(listed)} among them: ask for a new certificate)" if listed else ""
    report.notes.append(f"the log has {counted(len(rows), 'later event')}, of which the certificate says nothing{more}")


def _compare(certificate: Mapping[str, Any], again: Mapping[str, Any], report: Report) -> None:
    """Compare a certificate with the one that follows from the log."""
    report.claim = str(again["claim"])
    if again["era"] > 1:
        report.notes.append(all_eras_words(again))
    version = certificate.get("version")
    if not isinstance(version, str):
        report.problems.append(f"version: must be a text, got {version!r}")
    elif version != __version__:
        report.notes.append(f"made by version {version}, checked by version {__version__}")
    if certificate["format"] == FIRST_FORMAT:
        certificate, again = _of_first_format(certificate, again)
    for name in sorted({*again, *certificate} - {"digest", "signature", "version"}):
        if name not in again or name not in certificate:
            report.problems.append(f"{name}: {'missing' if name in again else 'nothing that a certificate has'}")
        elif not _agree(certificate[name], again[name], is_copied=name in COPIED):
            is_worded = version != __version__ and name in WORDED
            where = report.unchecked if is_worded else report.problems
            said, found = _short(certificate[name]), _short(again[name])
            differs = f"the certificate says {said}, from the log follows {found}"
            where.append(f"{name}: {differs if said and found else 'the certificate has other entries than the log'}")


def _short(value: Any) -> str:
    """Return an entry of a certificate as JSON, a long text with its beginning alone; "" for any other long entry."""
    if isinstance(value, str) and len(value) > MOST_SHOWN:
        value = f"{value[:MOST_SHOWN]}..."
    text = canonical({"": value})[4:-1]
    return text if isinstance(value, str) or len(text) <= MOST_SHOWN else ""


def _of_first_format(
    certificate: Mapping[str, Any], again: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return a certificate of the first format in the words of today, and one of today without the newer entries."""
    said = [list(one) for one in certificate["assumptions"]]
    for one in said:
        for before, now in IN_FORMAT_1.items():
            one[-1] = one[-1].removesuffix(before) + now if one[-1].endswith(before) else one[-1]
    again = {name: value for name, value in again.items() if name not in SINCE_FORMAT_2}
    return {**certificate, "assumptions": said}, {**again, "format": FIRST_FORMAT}


def _replayed(rows: Sequence[Row], report: Report, *, arms: Path | None, trust: bool) -> State:
    """Return the state after all events; make every plan and every verdict again, and compare."""
    events = [json.loads(row.text) for row in rows]
    for row, event in zip(rows, events, strict=True):
        if canonical(event) != row.text or event.get("n") != row.n:
            raise InvalidInput(f"event {row.n} is not written as events are.")
    report.notes += check_asked(events, arms=arms, trusts=trust)
    state = State(events[0], rows[0].hash, checks=True)
    _check_description(state, events[0], report)
    for row, event in zip(rows[1:], events[1:], strict=True):
        due = _verdict_due(state)
        if due is not None and event["kind"] != due:
            report.problems.append(f"event {event['n']} stands where the study was {due}, which the log does not say")
            break  # later events build on the missing one
        state.apply(event, row.hash)
        if event["kind"] == Kind.REOPENED:
            _check_description(state, event, report)
        elif event["kind"] == Kind.ANCHORED:
            _check_head(rows[: event["n"] - 1], event, report)
    else:
        if _verdict_due(state) is not None:
            report.problems.append("the verdict that follows from the log is not in the log")
    for each in state.verdicts:
        back = ", taken back after a correction" if each.taken_back else ""
        report.notes.append(
            f"verdict of event {each.event}: {', '.join(state.roster.key_label(key) for key in each.best)}{back}"
        )
    _note_what_is_seen(state, report)
    report.problems += state.differences
    _note_plans(state, report)
    return state


def _note_plans(state: State, report: Report) -> None:
    """Note plans that are not this machine's, and orders of blocks that it cannot draw again."""
    if n := state.n_plans_differing:
        differ = "1 plan is not the one" if n == 1 else f"{n} plans are not those"
        harmless = "" if state.learner.task.needs_order else "; that harms no proof"
        report.notes.append(f"{differ} that this machine would have made{harmless}")
    if n := state.n_orders_unknown:
        blocks = "1 block has" if n == 1 else f"{n} blocks have"
        report.unchecked.append(
            f"order: {blocks} other arms than this machine would have planned, and the proof rests on their random "
            "order, which cannot be checked then"
        )


def _check_head(rows: Sequence[Row], event: Mapping[str, Any], report: Report) -> None:
    """Check that an anchor is about an earlier head of the log."""
    n = event["event"]
    try:
        if type(n) is not int or not 1 <= n <= len(rows) or rows[n - 1].hash != event["hash"]:
            raise InvalidInput("there is no such head before it")
        report.notes.append(f"anchor of event {event['n']} for the head after event {n}: {check_anchor(event)}")
    except InvalidInput as error:
        report.problems.append(f"event {event['n']} is an anchor for event {n}: {error}")


def _note_what_is_seen(state: State, report: Report) -> None:
    """Note choices that the log shows and the claim does not mention, and what the log cannot show."""
    report.registrations = state.registrations
    for number, (event, digest) in enumerate(zip(state.eras, state.registrations, strict=True), start=1):
        of_era = "" if number == 1 else f" of era {number}"
        report.notes.append(
            f"registration digest{of_era} {digest} (event {event['n']}, {event['at']} by the writer's clock); compare "
            "it with the one that was given to you before the first ask"
        )
    if changed := [one for one in state.measurements if one.changes]:
        named = [f"{one.id} ({one.changes[-1].kind.value}: {one.changes[-1].reason})" for one in changed[:MOST_NAMED]]
        more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
        report.notes.append(f"void, corrected or restored: measurement {', '.join(named)}{more}")
    for era in state.eras[1:]:
        if names := [state.roster.label(key) for key in era["retired"]]:
            report.notes.append(f"retired by event {era['n']}: {', '.join(names)} ({era['reason']})")
    said = []
    for one in _lost(state):
        why = [f"{n} for {reason!r}" for reason, n in one["reasons"].items()]
        why += [f"{one['without_reason']} without a reason"] if one["without_reason"] else []
        how = [f"{one['failed']} failed ({', '.join(why)})"] if one["failed"] else []
        how += [f"{one['expired']} expired"] if one["expired"] else []
        said.append(f"{one['arm']} {' and '.join(how)}")
    if said:
        report.notes.append(f"asks without a result: {'; '.join(said)}")
    report.limits = list(_limits(state))


def _verdict_due(state: State) -> Kind | None:
    """Return the kind of the next event, if a verdict has to be given or withdrawn."""
    return next((kind for kind, _ in state.verdict_news(after_correction=True)), None)


def _check_description(state: State, event: Mapping[str, Any], report: Report) -> None:
    """Check the description of the learner in the first event of an era, which other verifiers rely on."""
    own = _plain(described(state.learner, state.roster))
    said = {name: event.get(name) for name in own}
    # The options of the era say how earlier results count; older logs repeat that in the identity.
    own["identity"], said["identity"] = (str(one["identity"]).replace(GUIDED, "") for one in (own, said))
    if event.get("version") == __version__ and not _agree(said, own):
        report.problems.append(f"event {event['n']} describes another learner than its arms and options make")


def _agree(one: Any, other: Any, *, is_copied: bool = False) -> bool:
    """Whether two values agree: floats up to rounding, unless they are copies."""
    if type(one) is float and type(other) is float and not is_copied:
        return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=0.0 if other else ROUNDING)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_agree(one[key], other[key], is_copied=is_copied) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _agree(*pair, is_copied=is_copied) for pair in zip(one, other, strict=True)
        )
    return type(one) is type(other) and bool(one == other)


def sign(certificate: Mapping[str, Any], key: Path, *, password: str | None = None) -> dict[str, Any]:
    """Return a certificate with a signature of its digest, in a DSSE envelope.

    Args:
        certificate: as `Study.certificate` returns it.
        key: Ed25519 private key in PEM, as `openssl genpkey -algorithm ed25519 -out key.pem` writes it.
        password: of the key, if it is encrypted (`-aes256`).

    Raises:
        InvalidInput: not such a key, or not its password.
    """
    return {**certificate, "signature": envelope_of(str(certificate["digest"]), key, password)}


def _check_signature(certificate: Mapping[str, Any], known: str | None, report: Report) -> None:
    if "signature" not in certificate:
        (report.notes if known is None else report.problems).append("the certificate is not signed")
        return
    signer = signer_of(certificate["signature"], str(certificate["digest"]))
    if signer is None:
        report.problems.append("the signature is not of this certificate")
    elif known is None:
        report.notes.append(f"signed by the key {signer}; compare it with the one you know")
    elif known != signer:
        report.problems.append(f"signed by another key, {signer}")
    else:
        report.notes.append("signed by the owner of the public key that was given")
