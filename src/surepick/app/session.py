"""Identification on the user's own arms: reads them, measures by command or by prompt, and shows what was learnt."""

import hashlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from surepick.app.armfile import ArmFile, read_arms, read_history
from surepick.app.console import Code, Format, misuse, print_error, results, stages
from surepick.app.formats import to_csv, to_json
from surepick.app.live import live_view, state_line
from surepick.app.measure import Command, Label, Logged, Prompt, Source
from surepick.app.vectorset import ChosenSet
from surepick.errors import PullFailed, Skipped, SurepickError
from surepick.learning.identify import Progress, identify
from surepick.learning.result import Result

N_SHOWN = 10
"""Arms in the table of a result."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user asked for."""

    arms: Path | ChosenSet
    pull: str | None
    delta: float
    noise_std: float
    epsilon: float
    seed: int
    max_pulls: int | None
    name_column: str | None
    intercept: bool
    on_span: bool
    history: Path | None
    log: Path | None
    save: Path | None
    output: Format


def run_session(request: Request) -> Code:
    """Measure until the best arm is known, and print the result."""
    _check_targets(request)
    file = _arms_of(request)
    earlier = [] if request.history is None else read_history(request.history, file)
    console = stages(request.output)
    label = file.label
    source: Source = Prompt(console, label) if request.pull is None else Command(request.pull, label)
    log = None if request.log is None else Logged(source, request.log, label, _belongs_to(request, file, earlier))
    console.print(f"arms: {file.describe()}", soft_wrap=True)
    if earlier:
        console.print(f"history: {len(earlier)} earlier measurements", soft_wrap=True)
    if log is not None and log.cut_off is not None:
        console.print(
            f"log: the last line of {request.log} was cut off and is dropped, got {log.cut_off!r}", soft_wrap=True
        )
    if log is not None and log.n_known:
        console.print(f"log: {log.n_known} measurements of {request.log} are taken over", soft_wrap=True)
    if request.pull is None:
        console.print("Enter each measured value; nothing to leave one out, q to stop.")
    try:
        result, failure = _identified(request, file, earlier, log or source, console)
    finally:
        if log is not None:
            log.close()
    return _finish(request, result, failure, label)


def _check_targets(request: Request) -> None:
    """Refuse to write where nothing can be written, or over what is read."""
    arms = {"--ellipsoid": request.arms.file} if isinstance(request.arms, ChosenSet) else {"--arms": request.arms}
    named = {"--save": request.save, "--log": request.log, "--history": request.history, **arms}
    given = {option: path for option, path in named.items() if path is not None}
    for option in ("--save", "--log"):
        path = given.get(option)
        if path is None:
            continue
        if not path.absolute().parent.is_dir():
            raise misuse(f"cannot write {path}: there is no folder {path.parent}.")
        if path.exists() and not path.is_file():
            raise misuse(f"{option} must name a regular file or a new one, and {path} is a folder, device or the like.")
        for other, taken in given.items():
            if other != option and _is_same_file(path, taken):
                raise misuse(f"{option} and {other} name the same file, {path}; give {option} another name.")


def _is_same_file(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def _arms_of(request: Request) -> ArmFile | ChosenSet:
    if isinstance(request.arms, ChosenSet):
        return request.arms
    return read_arms(
        request.arms, name_column=request.name_column, intercept=request.intercept, on_span=request.on_span
    )


def _identified(
    request: Request, file: ArmFile | ChosenSet, history: list[tuple[Any, float]], source: Source, console: Console
) -> tuple[Result, str | None]:
    """The result, and why it is not complete if a measurement failed."""
    with _one_line_warnings(), live_view(console, _title(file, request), file.label) as show:

        def on_pull(progress: Progress) -> None:
            if request.pull is None and not (isinstance(source, Logged) and source.is_repeating):
                console.print(state_line(progress.decision, file.label), style="dim", soft_wrap=True)
            elif request.pull is not None:
                show(progress.decision, arm=progress.arm)

        def pull(arm: Any) -> float:
            value = source(arm)
            if value is None:
                raise Skipped
            return value

        try:
            result = identify(
                file.arms,
                pull,
                delta=request.delta,
                noise_std=request.noise_std,
                epsilon=request.epsilon,
                seed=request.seed,
                max_pulls=request.max_pulls,
                history=history,
                on_pull=on_pull,
            )
        except PullFailed as error:
            return error.result, str(error.__cause__ or error).rstrip(".")
        return result, None


def _finish(request: Request, result: Result, failure: str | None, label: Label) -> Code:
    # Saved before it is printed, since a closed pipe ends the printing; a full disk is reported after it.
    trouble = _trouble_saving(request.save, result)
    if request.output is Format.JSON:
        sys.stdout.write(to_json({**result.to_dict(), "explanation": result.explain()}) + "\n")
    elif request.output is Format.CSV:
        columns = result.to_columns()
        sys.stdout.write(to_csv([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]))
    else:
        _print_table(results(), request, result, label, is_saved=request.save is not None and trouble is None)
    sys.stdout.flush()
    if trouble is not None:
        print_error(f"the result above could not be saved to {request.save}: {trouble}")
    if failure is not None:
        print_error(f"{failure}; what was learnt from {result.n_pulls} pulls is above")
    if failure is not None or trouble is not None:
        return Code.FAILURE
    return Code.OK if result.stopped else Code.NOT_STOPPED


def _trouble_saving(path: Path | None, result: Result) -> str | None:
    """Save the result; the reason if that fails."""
    if path is None:
        return None
    try:
        result.save(path)
    except (OSError, SurepickError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def _print_table(console: Console, request: Request, result: Result, label: Label, *, is_saved: bool) -> None:
    console.print()
    console.print(result.explain(), soft_wrap=not console.is_terminal, style="bold")
    if result.theta is not None:
        rows = result.arms
        order = np.argsort(-rows.estimate, kind="stable")[:N_SHOWN].tolist()
        title = f"{N_SHOWN} of {len(rows)} arms" if len(rows) > N_SHOWN else None
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
        table.add_column("rank", justify="right")
        table.add_column("arm", overflow="fold")
        table.add_column("estimate", justify="right")
        table.add_column(f"{100 * (1 - request.delta):g} % interval", justify="right")
        table.add_column("pulls", justify="right")
        for rank, row in enumerate(order, start=1):
            arm = row if rows.listed is None else rows.listed[row]
            table.add_row(
                str(rank),
                label(arm),
                f"{rows.estimate[row]:.4g}",
                f"{rows.low[row]:.4g} to {rows.high[row]:.4g}",
                str(result.counts.get(arm, 0)),
            )
        console.print(table)
    for line in _next_steps(request, result, is_saved=is_saved):
        console.print(line, soft_wrap=True)


def _next_steps(request: Request, result: Result, *, is_saved: bool) -> Iterator[str]:
    if is_saved:
        yield f"Saved to {request.save}; surepick.Result.load reads it."
    if result.stopped:
        if request.save is None:
            yield "Next: --save result.json keeps this result, --format json or csv writes it for other programs."
    elif request.log is not None:
        yield f"Next: the same command with --log {request.log} goes on exactly here."
    else:
        yield "Next: with --log pulls.csv every measurement is kept, and the same command goes on where it was."


def _title(file: ArmFile | ChosenSet, request: Request) -> str:
    return file.arms.description if isinstance(file, ChosenSet) else str(request.arms)


def _belongs_to(request: Request, file: ArmFile | ChosenSet, history: list[tuple[Any, float]]) -> str:
    """Everything that the order of the asks and the validity of the answer depend on."""
    content = hashlib.sha256(file.fingerprint())
    content.update(repr(history).encode())
    return (
        f"surepick run arms={content.hexdigest()[:12]} delta={request.delta!r} noise_std={request.noise_std!r} "
        f"epsilon={request.epsilon!r} seed={request.seed}"
    )


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print_error(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield
