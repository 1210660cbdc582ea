"""Commands that read a study: status, best, the pulls left to do; and its page, certificate and anchors."""

import base64
import getpass
import json
import os
import shlex
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surepick._texts import shown
from surepick._version import __version__
from surepick.cli.options import Output, says
from surepick.cli.output import Code, Format, check_targets, results, stages, to_json
from surepick.cli.studies import StudyOptions, command, printing
from surepick.cli.studies.ask_tell import how_on, say_how_on, say_if_withdrawn
from surepick.errors import InvalidInput
from surepick.reporting.study_words import steps_to_check
from surepick.study.views import OF_BEST, OF_PLAN

if TYPE_CHECKING:
    from surepick.study.study import Study


OF_KEY = "SUREPICK_KEY_PASSWORD"
N_SHOWN = 4
"""How many problems of a certificate are printed."""
OUTCOMES = {
    "ok": "All of it follows from the log{within}. {claim}",
    "not ok": "Do not rely on this certificate with this log.",
    "unchecked": "This version cannot check all of the certificate{elsewhere}. The log proves this: {claim}",
}
"""The last line of a check."""


@command
def status(
    *,
    watch: Annotated[bool, says("Show the status again until the study has stopped; Ctrl-C ends.", "--watch")] = False,
    every: Annotated[float, says("Seconds between two updates of --watch.", min=0.1)] = 2.0,
    where: StudyOptions,
    output: Output = Format.TABLE,
) -> int:
    """Show the state of a study."""
    if watch and output is not Format.TABLE:
        raise InvalidInput(f"--watch is for people, got --format {output.value}; leave out one of them.")
    with where.loaded() as study:
        if watch:
            _watch(study, every)
            return Code.OK
        with study.held():
            if output is Format.TABLE:
                results().print(printing.status_table(study))
                say_if_withdrawn(study, where)
                if study.status.state == "spent":
                    say_how_on(study, where)
            else:
                record = study.snapshot.record()
                _write(output, record, **{name: record.pop(name) for name in ("groups",) if name in record})
            study.keep_summary()
    return Code.OK


def _write(output: Format, record: dict[str, Any], **more: Any) -> None:
    """Write a record as JSON, with more entries than fit into a table, or as a line of CSV."""
    printing.write(output, {**record, **more}, [record])


def _watch(study: "Study", every: float) -> None:
    """Show a study after each change: in place on a terminal, else in a new line."""
    from rich.live import Live  # noqa: PLC0415 (loaded once something is shown)

    console, seen = results(), (0, "")
    is_live = console.is_terminal
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) if is_live else nullcontext() as live:
        while True:
            head = study.head
            with study.held():
                if head != seen and live is not None:
                    live.update(printing.status_table(study), refresh=True)
                elif head != seen:
                    printing.say(printing.standing_line(study))
                    sys.stdout.flush()
                seen = head
                if study.status.state in ("stopped", "withdrawn", "spent"):
                    return
            sleep(every)


@command
def best(*, where: StudyOptions, output: Output = Format.TABLE) -> int:
    """Show the best arm. Exit code 3 if the study is not decided yet, 4 if the answer is withdrawn."""
    with where.loaded() as study, study.held():
        if output is Format.TABLE:
            for line in printing.best_lines(study):
                printing.say(line)
            if not study.stopped:
                say_how_on(study, where)
        else:
            calls = study.status.calls
            more = {"explanation": study.result().explain(), **({} if calls is None else {"calls": calls})}
            _write(output, study.snapshot.record(OF_BEST), **more)
        return printing.code_of(study)


def _notes(study: "Study", where: StudyOptions) -> list[str]:
    """Return how to go on, for the page of a study that will have no answer by itself; its readers measure nothing."""
    match study.status.state:
        case "spent":
            return ["The budget is spent.", *how_on(study, where)]
        case "withdrawn":
            return [*how_on(study, where)]
    return []


def left(where: StudyOptions, output: Format) -> int:
    """Show the pulls left to do: `surepick plan` of a study."""
    with where.loaded() as study, study.held():
        if output is Format.TABLE:
            printing.say(printing.plan_words(study))
        else:
            _write(output, study.snapshot.record(OF_PLAN))
    return Code.OK


@command
def report(
    path: Annotated[Path, typer.Argument(metavar="FILE.html", help="File to write.")],
    *,
    title: Annotated[str, says("Title of the page (default: the name of the study).")] = "",
    unit: Annotated[str, says('Unit of the measured values, such as "kg".')] = "",
    where: StudyOptions,
) -> int:
    """Write a page about the study. One .html file, which any browser shows and prints."""
    from surepick.reporting.html import check_ready  # noqa: PLC0415

    check_targets({"FILE": path}, {"--storage": where.file}, suffix=".html")
    check_ready()
    from surepick.reporting.study_page import write_study_page  # noqa: PLC0415 (loads the mathematics)

    with where.loaded() as study:
        again = "\n".join(
            where.next(words, study) for words in ("certificate --out certificate.json", "export log.csv")
        )
        write_study_page(
            study,
            path,
            title=title,
            unit=unit,
            notes=_notes(study, where),
            steps=steps_to_check(study.head, commands=again),
        )
        printing.say(f"Page: {path}; any browser shows and prints it.")
    return Code.OK


@command
def certificate(
    *,
    out: Annotated[Path | None, says("Write it to this .json file (default: to the screen).")] = None,
    sign: Annotated[
        Path | None,
        says(f"Sign it with this Ed25519 private key, a .pem file; its password is asked for, or in {OF_KEY}."),
    ] = None,
    where: StudyOptions,
) -> int:
    """Write a certificate that others can check. Exit codes as for best."""
    from surepick.study.certificate import all_eras_words  # noqa: PLC0415
    from surepick.study.certificate import sign as sign_by  # noqa: PLC0415

    check_targets({"--out": out}, {"--storage": where.file, "--sign": sign}, suffix=".json")
    with where.loaded() as study:
        made = study.certificate()
        if sign is not None:
            made = sign_by(made, sign, password=_password(sign))
        text = f"{to_json(made)}\n"
        if out is None:
            results().file.write(text)
            return printing.code_of(study)
        from surepick._files import replacing  # noqa: PLC0415
        from surepick.arms.tables.sources import refusing  # noqa: PLC0415

        with refusing("cannot write", out), replacing(out) as draft:
            draft.write_text(text, encoding="utf-8")
        printing.say(printing.standing_line(study))
        if made["era"] > 1:
            printing.say(f"The {all_eras_words(made)}.")
        if printing.code_of(study) is Code.NOT_STOPPED:
            printing.say("There is no verdict yet: the certificate says how far the proof is, and names no best arm.")
        printing.say(f"The certificate is in {out}. Anyone with this file and the log can check it:")
        printing.say(f"  {where.next('export log.csv', study)}")
        printing.say(f"  {shlex.join(['surepick', 'verify', str(out), '--log', 'log.csv'])}")
        return printing.code_of(study)


def _password(key: Path) -> str | None:
    """Return the password of a private key, if it has one: from the environment, or as it is typed."""
    from surepick.study.signatures import is_encrypted  # noqa: PLC0415 (`--help` stays quick)

    if not is_encrypted(key):
        return None
    password = os.environ.get(OF_KEY)
    if password is None and sys.stdin.isatty():
        return getpass.getpass(f"Password of {shown(str(key))}: ")
    if not password:
        raise InvalidInput(f"{key} is encrypted; set {OF_KEY} to its password where it cannot be asked for.")
    return password


@command
def verify(
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="As surepick certificate writes it.")],
    *,
    log: Annotated[
        Path | None, says("The log, as surepick export writes it: .csv, .parquet or .json (needed).")
    ] = None,
    public_key: Annotated[Path | None, says("Public key of the signer that you expect, a .pem file.")] = None,
    tokens: Annotated[Path | None, says("Write the time stamps of the log to this folder, for openssl.")] = None,
    arms: Annotated[Path | None, says("Your copy of the file of arms, if the log has them in a file.")] = None,
    trust: Annotated[
        bool,
        says(
            "Trust the log: do all that it asks for, however long, and read the files that it names.",
            "--trust",
        ),
    ] = False,
    output: Output = Format.TABLE,
) -> int:
    """Check a certificate against the log. No study is needed. Exit code 5 if this version cannot check all of it."""
    from surepick.arms.tables.sources import refusing  # noqa: PLC0415 (`--help` stays quick)
    from surepick.study.certificate import verify as checked  # noqa: PLC0415
    from surepick.study.exchange import once_each, read_log  # noqa: PLC0415

    if log is None:
        raise InvalidInput("--log must be the log of the study; surepick export log.csv writes it, then --log log.csv.")
    said: Any = None
    with refusing("cannot read", certificate), suppress(json.JSONDecodeError):
        said = json.loads(certificate.read_text(encoding="utf-8"), object_pairs_hook=once_each)
    if not isinstance(said, dict):
        raise InvalidInput(
            f"{certificate} must be a certificate, as surepick certificate --out writes it; the log comes after --log: "
            "surepick verify CERTIFICATE.json --log LOG.csv."
        )
    found = checked(said, read_log(log), public_key=public_key, arms=arms, trust=trust)
    if output is not Format.TABLE:
        names = ("ok", "outcome", "problems", "unchecked", "notes", "limits", "claim", "registrations")
        record = {name: getattr(found, name) for name in names}
        printing.write(output, record, [record])
    else:
        n_more = len(found.problems) - N_SHOWN
        problems = [*found.problems[:N_SHOWN], *([f"{n_more} more, see --format json"] if n_more > 0 else [])]
        for word, said_of in (("Wrong", problems), ("Not checked", found.unchecked), ("Note", found.notes)):
            for sentence in said_of:
                printing.say(f"{word}: {sentence.rstrip('.')}.")
        for limit in found.limits:
            printing.say(f"Limit: {limit}")
        within = ", within the limits above" if found.limits else ""
        elsewhere = "" if said.get("version") == __version__ else f": use version {said.get('version')}"
        printing.say(OUTCOMES[found.outcome].format(claim=found.claim, elsewhere=elsewhere, within=within))
    if tokens is not None:
        _write_tokens(found.anchors, tokens, output)
    return {"ok": Code.OK, "not ok": Code.FAILURE, "unchecked": Code.UNCHECKED}[found.outcome]


def _write_tokens(anchors: list[dict[str, Any]], folder: Path, output: Format) -> None:
    """Write time stamps to files, and print the command that checks each."""
    from surepick.arms.tables.sources import refusing  # noqa: PLC0415 (`--help` stays quick)
    from surepick.study.signatures import openssl_command  # noqa: PLC0415

    for anchor in anchors:
        if "token" in anchor:
            file = folder / f"event-{anchor['kept']}.tsr"
            with refusing("cannot write", file):
                folder.mkdir(parents=True, exist_ok=True)
                file.write_bytes(base64.b64decode(anchor["token"]))
            stages(output).print(openssl_command(anchor, shlex.quote(str(file))), soft_wrap=True)


@command
def anchor(
    *,
    token: Annotated[Path | None, says("Keep this RFC 3161 time stamp of a head, a file of the authority.")] = None,
    sign: Annotated[Path | None, says("Sign the head with this Ed25519 private key, a .pem file.")] = None,
    where: StudyOptions,
) -> int:
    """Keep proof in the log that its events existed by now. Without options, print the hash to be time-stamped."""
    from surepick.arms.tables.sources import refusing  # noqa: PLC0415 (`--help` stays quick)

    with where.loaded() as study:
        if token is None and sign is None:
            n, digest = study.head
            printing.say(f"The head is event {n}, hash {digest}. Ask an authority for a time stamp of it:")
            printing.say(f"  openssl ts -query -digest {digest} -sha256 -cert -out head.tsq")
            printing.say(f"Send head.tsq, then keep its answer: {where.next('anchor --token answer.tsr', study)}")
            return Code.OK
        content = None
        if token is not None:
            with refusing("cannot read", token):
                content = token.read_bytes()
        password = None if sign is None else _password(sign)
        kept = study.anchor(token=content, key=sign, password=password, worker=where.who)
        printing.say(f"Event {kept['n']} anchors the log up to event {kept['event']} (hash {kept['hash']}).")
    return Code.OK
