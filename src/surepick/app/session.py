"""Identification on the user's own arms: reads them, measures by command or by prompt, and shows what was learnt."""

import hashlib
import math
import shlex
import sys
import warnings
from collections.abc import Container, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from surepick.app.armfile import ArmFile, read_history
from surepick.app.console import Code, Format, print_error, results, stages
from surepick.app.formats import to_csv, to_json
from surepick.app.live import live_view, state_line
from surepick.app.measure import Logged, Source, Values, by_command, by_prompt
from surepick.app.vectorset import ChosenSet
from surepick.arms.tables.sources import reason
from surepick.core.checks import check_reward_range
from surepick.errors import InvalidInput, PullFailed, Skipped, SurepickError
from surepick.learning.identify import Progress, identify
from surepick.learning.result import Result

N_SHOWN = 10
"""Arms in the table of a result."""


@final
@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for."""

    arms: ArmFile | ChosenSet
    settings: Mapping[str, Any]
    """What `identify` is told besides."""
    pull: str | None
    history: Path | None
    log: Path | None
    save: Path | None
    report: Path | None
    output: Format


def check_targets(written: Mapping[str, Path | None], read: Mapping[str, Path | None]) -> None:
    """Refuse to write where nothing can be written, or over what is read; files by the options that name them."""
    for option, path in written.items():
        if path is None:
            continue
        if not path.absolute().parent.is_dir():
            raise InvalidInput(f"cannot write {path}: there is no folder {path.parent}.")
        if path.exists() and not path.is_file():
            raise InvalidInput(
                f"{option} must name a regular file or a new one, and {path} is a folder, device or the like."
            )
        for other, taken in {**written, **read}.items():
            if other != option and taken is not None and _is_same_file(path, taken):
                raise InvalidInput(f"{option} and {other} name the same file, {path}; give {option} another name.")


def _is_same_file(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def run_session(request: Request) -> Code:
    """Measure until the best arm is known, and print the result."""
    own = request.arms
    earlier = [] if request.history is None else read_history(request.history, own)
    console = stages(request.output)
    values = _values(request.settings)
    if request.pull is None:
        source = by_prompt(console, own.label, values)
    else:
        source = by_command(request.pull, own.label, values)
    log = None if request.log is None else Logged(source, request.log, own.label, _belongs_to(request, earlier))
    with nullcontext() if log is None else closing(log):
        console.print(f"arms: {own.describe(request.settings['model'])}", soft_wrap=True)
        if earlier:
            console.print(f"history: {len(earlier)} earlier measurements", soft_wrap=True)
        for line in [] if log is None else log.notes():
            console.print(f"log: {line}", soft_wrap=True)
        if request.pull is None:
            console.print("Enter each measured value; nothing to leave one out, q to stop.")
        result, failure = _identified(request, earlier, log or source, console)
    return _finish(request, result, failure)


def _values(settings: Mapping[str, Any]) -> Values:
    """Return which numbers may be measured; bounds that are none are refused where they are used."""
    if settings.get("rewards") is not None:
        return Values("0 or 1", lambda value: value in (0.0, 1.0))
    if settings.get("reward_range") is None:
        return Values()
    lo, hi = check_reward_range(settings["reward_range"])
    return Values(f"number between {lo:g} and {hi:g}", lambda value: lo <= value <= hi)


def _identified(
    request: Request, history: list[tuple[Any, float]], source: Source, console: Console
) -> tuple[Result, str | None]:
    """The result, and why it is not complete if a measurement failed."""
    own = request.arms
    with _one_line_warnings(), live_view(console, own.title, own.label) as show:

        def on_pull(progress: Progress) -> None:
            if request.pull is not None:
                show(lambda: progress.standing, arm=progress.arm)
            elif not (isinstance(source, Logged) and source.is_repeating):
                console.print(state_line(progress.standing, own.label), style="dim", soft_wrap=True)

        def pull(arm: Any) -> float:
            value = source(arm)
            if value is None:
                raise Skipped
            return value

        try:
            return identify(own.arms, pull, history=history, on_pull=on_pull, **request.settings), None
        except PullFailed as error:
            return error.result, str(error.__cause__ or error).rstrip(".")


def _finish(request: Request, result: Result, failure: str | None) -> Code:
    # Written before it is printed, since a closed pipe ends the printing; a full disk is reported after it.
    trouble = dict(_not_written(request, result))
    if request.output is Format.JSON:
        sys.stdout.write(to_json({**result.to_dict(), "explanation": result.explain()}) + "\n")
    elif request.output is Format.CSV:
        columns = result.to_columns()
        sys.stdout.write(to_csv([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]))
    else:
        _print_table(results(), request, result, written={request.save, request.report} - trouble.keys())
    sys.stdout.flush()
    for path, why in trouble.items():
        print_error(f"the result above could not be saved to {path}: {why}")
    if failure is not None:
        print_error(f"{failure}; what was learnt from {result.n_pulls} pulls is above")
    if failure is not None or trouble:
        return Code.FAILURE
    if result.guarantee == "withdrawn":
        return Code.WITHDRAWN
    return Code.OK if result.stopped else Code.NOT_STOPPED


def _not_written(request: Request, result: Result) -> Iterator[tuple[Path, str]]:
    """Write the files that were asked for; which could not be written, and why."""
    command = shlex.join(["surepick", *sys.argv[1:]])
    for path, write in ((request.save, result.save), (request.report, partial(result.report, command=command))):
        try:
            if path is not None:
                write(path)
        except (OSError, SurepickError) as error:
            assert path is not None
            yield path, reason(error)


def _print_table(console: Console, request: Request, result: Result, *, written: Container[Path | None]) -> None:
    console.print()
    console.print(result.explain(), soft_wrap=not console.is_terminal, style="bold")
    if result.theta is not None:
        rows = result.arms
        # Arms with the same features are one line.
        hidden = {row for group in rows.alike for row in group[1:]}
        order = [row for row in np.argsort(-rows.estimate, kind="stable").tolist() if row not in hidden]
        title = f"{N_SHOWN} of {len(rows)} arms" if len(order) > N_SHOWN else None
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
        for header in ("rank", "arm", "estimate", f"{100 * (1 - result.delta):g} % interval", "pulls"):
            table.add_column(header, justify="left" if header == "arm" else "right", overflow="fold")
        for rank, row in enumerate(order[:N_SHOWN], start=1):
            mean, low, high = rows.estimate[row], rows.low[row], rows.high[row]
            arms = [rows.keys[one] for one in rows.group_of(row)]
            pulls = sum(result.counts.get(arm, 0) for arm in arms)
            interval = f"{low:.4g} to {high:.4g}" if math.isfinite(high) else "-"
            table.add_row(
                str(rank),
                _together([request.arms.label(arm) for arm in arms[:N_SHOWN]], len(arms)),
                f"{mean:.4g}",
                interval,
                str(pulls),
            )
        console.print(table)
    for line in _next_steps(request, result, written):
        console.print(line, soft_wrap=True)


def _together(labels: list[str], n_arms: int) -> str:
    """Arms with the same features, as one."""
    more = [f"{n_arms - len(labels)} more"] if n_arms > len(labels) else []
    return " = ".join([*labels, *more])


def _next_steps(request: Request, result: Result, written: Container[Path | None]) -> Iterator[str]:
    if request.save is not None and request.save in written:
        yield f"Saved to {request.save}; surepick.Result.load reads it."
    if request.report is not None and request.report in written:
        yield f"Page: {request.report}; any browser shows and prints it."
    if result.guarantee == "withdrawn":
        yield "Next: look at what does not fit; the answer above must not be used."
    elif result.stopped:
        if result.model == "linear" and not result.n_checks and isinstance(request.arms, ArmFile):
            yield "Next: --audit auto tests the model by check pulls before you rely on the answer."
        if request.save is None:
            yield "Next: --save result.json keeps this result, --report result.html makes a page of it."
    elif request.log is not None:
        yield f"Next: the same command with --log {request.log} goes on exactly here."
    else:
        yield "Next: with --log pulls.csv every measurement is kept, and the same command goes on where it was."


def _belongs_to(request: Request, history: list[tuple[Any, float]]) -> str:
    """Everything that the order of the asks and the validity of the answer depend on."""
    content = hashlib.sha256(request.arms.fingerprint() + repr(history).encode())
    told = dict(request.settings)
    if isinstance(told["noise_std"], np.ndarray):
        content.update(told["noise_std"].tobytes())
        told["noise_std"] = "of each arm"
    others = [name for name in ("reward_range", "rewards") if told.get(name) is not None]
    others += ["noise"] if told.get("noise", "same") != "same" else []
    off = ["misfit"] if told.get("misfit") else []
    names = ("delta", "noise_std", *others, "epsilon", *off, "model", "seed")
    settings = " ".join(f"{name}={told[name]!r}" for name in names)
    return f"surepick run arms={content.hexdigest()[:12]} {settings}"


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print_error(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield
