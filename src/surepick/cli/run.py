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

from surepick.arms.tables.sources import reason
from surepick.cli.arm_files import ArmFile, ChosenSet, read_history
from surepick.cli.live import NearTies, live_view
from surepick.cli.measure import Correction, Logged, Source, Values, by_command, by_prompt
from surepick.cli.output import Code, Format, one_line_warnings, print_error, results, stages, to_csv, to_json
from surepick.core.betting.block import LARGEST_REWARD
from surepick.core.checks import LARGEST
from surepick.errors import InvalidInput, PullFailed, Skipped, SurepickError
from surepick.learning.explain import state_line
from surepick.learning.identify import Progress, identify
from surepick.learning.result import Result
from surepick.learning.validation import Rewards

N_SHOWN = 10
"""Arms in the table of a result."""
UNSAID: Mapping[str, Any] = {
    "noise": "same",
    "misfit": 0.0,
    "m": 1,
    "algorithm": "lazy-track-and-stop",
    "earlier": "evidence",  # as it was in logs of before
    **dict.fromkeys(("reward_range", "rewards", "costs", "budget")),
}
"""Settings that the first line of a log leaves out."""


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


def check_targets(written: Mapping[str, Path | None], read: Mapping[str, Path | None], *, suffix: str = "") -> None:
    """Refuse to write where nothing can be written, or over what is read; files by the options that name them.

    With `suffix`, the names of what is written must end so.
    """
    for option, path in written.items():
        if path is None:
            continue
        if suffix and path.suffix.lower() != suffix:
            raise InvalidInput(f"{option} must be a {suffix} file, got {path}; give it that ending.")
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
    told: list[tuple[Any, float]] = []
    if request.pull is None:
        source = by_prompt(console, own.label, told, values)
    else:
        source = by_command(request.pull, own.label, values, say=partial(console.print, soft_wrap=True))
    log = None if request.log is None else Logged(source, request.log, own.label, _belongs_to(request, earlier))
    with nullcontext() if log is None else closing(log):
        console.print(f"arms: {own.describe(request.settings['model'])}", soft_wrap=True)
        if earlier:
            is_evidence = request.settings["earlier"] == "evidence"
            kind = "evidence" if is_evidence else "guidance for plans and bets, no evidence"
            console.print(f"history: {len(earlier)} earlier measurements, {kind}", soft_wrap=True)
        for line in [] if log is None else log.notes():
            console.print(f"log: {line}", soft_wrap=True)
        if request.pull is None:
            console.print(
                "Enter each measured value; nothing to leave one out, undo to correct the last one, q to stop."
            )
        result, failure = _identified(request, _Talk(request, log or source, told, len(earlier), console), earlier)
    return _finish(request, result, failure)


def _values(settings: Mapping[str, Any]) -> Values:
    """Return which numbers may be measured."""
    rewards = Rewards.of(*(settings[name] for name in ("noise_std", "reward_range", "rewards", "noise")))

    def allowed(arm: Any, value: float) -> bool:
        try:
            rewards.checked("value", value, arm)
        except InvalidInput:
            return False
        return True

    if rewards.is_binary:
        return Values("0 or 1", allowed=allowed)
    if rewards.reward_range is not None:
        lo, hi = rewards.reward_range
        return Values(f"number between {lo:g} and {hi:g}", allowed=allowed)
    most = f"{LARGEST:g}" if rewards.noise_std is None else f"{LARGEST_REWARD:g} times --noise-std"
    return Values("number", f"of at most {most} in size", allowed)


def _identified(request: Request, talk: "_Talk", history: list[tuple[Any, float]]) -> tuple[Result, str | None]:
    """The result, and why it is not complete if a measurement failed."""
    own = request.arms
    with _every_warning(), live_view(talk.console, own.title, own.label) as show:

        def on_pull(progress: Progress) -> None:
            talk.hear(progress)
            if request.pull is not None:
                show(lambda: progress.snapshot, arm=progress.arm)

        try:
            return identify(own.arms, talk.ask, history=history, on_pull=on_pull, **request.settings), None
        except PullFailed as error:
            return error.result, str(error.__cause__ or error).rstrip(".")


@final
class _Talk:
    """What is said between the source of values and `identify`."""

    def __init__(
        self, request: Request, source: Source, told: list[tuple[Any, float]], n_earlier: int, console: Console
    ) -> None:
        self._is_asked, self._label = request.pull is None, request.arms.label
        self._source, self._told, self._n_earlier, self.console = source, told, n_earlier, console
        self._progress: Progress | None = None
        self._is_decided = False
        self._near_ties = NearTies(self._label)

    def ask(self, arm: Any) -> float:
        """Return the reward of an arm; before it, corrections of earlier ones."""
        while isinstance(answer := self._source(arm), Correction):
            was_decided = self._is_decided
            self._correct(answer)
            if self._is_decided and not was_decided:
                raise Skipped  # there is nothing more to be measured
        if answer is None:
            raise Skipped
        self._told.append((arm, answer))
        return answer

    def hear(self, progress: Progress) -> None:
        """Say where things stand after a pull, unless that was said before; let the value that decides be corrected."""
        self._progress = progress
        was_decided, self._is_decided = self._is_decided, progress.decision.stopped
        if self._is_decided and not was_decided and (self._is_repeating or self._can_confirm):
            answer = self._source(None)
            if isinstance(answer, Correction):
                self._correct(answer)
            return
        self._say_standing()

    @property
    def _is_repeating(self) -> bool:
        return isinstance(self._source, Logged) and self._source.is_repeating

    @property
    def _can_confirm(self) -> bool:
        """A script that runs out of values is not asked whether it means the last."""
        return self._is_asked and self.console.is_terminal

    def _correct(self, correction: Correction) -> None:
        """Correct a value, and say what follows."""
        assert self._progress is not None  # there is no value before the first
        arm, before = self._told[correction.n]
        try:
            decision = self._progress.correct(self._n_earlier + correction.n, correction.value, reason="undo")
        except InvalidInput as error:
            self.console.print(f"not corrected: {error}", soft_wrap=True)
            return
        self._is_decided = decision.stopped
        self._told[correction.n] = arm, correction.value
        if not self._is_repeating:
            self.console.print(f"corrected: {self._label(arm)} is {correction.value:.12g}, not {before:.12g}")
        self._say_standing()

    def _say_standing(self) -> None:
        progress = self._progress
        assert progress is not None
        if self._is_repeating:
            return
        if self._is_asked:
            self.console.print(state_line(progress.snapshot, self._label), style="dim", soft_wrap=True)
        if (self._is_asked or not self.console.is_terminal) and (near := self._near_ties.news(progress)):
            self.console.print(near, soft_wrap=True)


def _finish(request: Request, result: Result, failure: str | None) -> Code:
    # Written before it is printed, since a closed pipe ends the printing; a full disk is reported after it.
    trouble = dict(_not_written(request, result))
    if request.output is Format.JSON:
        sys.stdout.write(to_json({**result.to_dict(), "explanation": result.explain()}) + "\n")
    elif request.output is Format.CSV:
        columns = result.to_columns()
        sys.stdout.write(to_csv([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]))
    else:
        _print_table(results(), request, result)
        written, is_cut_off = {request.save, request.report} - trouble.keys(), result.interrupted or failure is not None
        for line in _next_steps(request, result, written, is_cut_off=is_cut_off):
            results().print(line, soft_wrap=True)
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


def _print_table(console: Console, request: Request, result: Result) -> None:
    console.print()
    console.print(result.explain(), soft_wrap=not console.is_terminal, style="bold")
    if result.theta is not None:
        rows = result.arms
        # Arms with the same features are one line.
        hidden = {row for group in rows.alike for row in group[1:]}
        order = [row for row in np.argsort(-rows.estimate, kind="stable").tolist() if row not in hidden]
        title = f"{N_SHOWN} of {len(rows)} arms" if len(order) > N_SHOWN else None
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
        has_intervals = bool(np.isfinite(rows.high).any())  # not while a noise that is learnt may be of any size
        interval = [f"{100 * (1 - result.delta):g} % interval"] if has_intervals else []
        for header in ("rank", "arm", "estimate", *interval, "pulls"):
            table.add_column(header, justify="left" if header == "arm" else "right", overflow="fold")
        for rank, row in enumerate(order[:N_SHOWN], start=1):
            mean, low, high = rows.estimate[row], rows.low[row], rows.high[row]
            arms = [rows.keys[one] for one in rows.group_of(row)]
            pulls = sum(result.counts.get(arm, 0) for arm in arms)
            bounds = f"{low:.4g} to {high:.4g}" if math.isfinite(high) else "-"
            named = _together([request.arms.label(arm) for arm in arms[:N_SHOWN]], len(arms))
            table.add_row(str(rank), named, f"{mean:.4g}", *([bounds] if has_intervals else []), str(pulls))
        console.print(table)


def _together(labels: list[str], n_arms: int) -> str:
    """Arms with the same features, as one."""
    more = [f"{n_arms - len(labels)} more"] if n_arms > len(labels) else []
    return " = ".join([*labels, *more])


def _next_steps(
    request: Request, result: Result, written: Container[Path | None], *, is_cut_off: bool
) -> Iterator[str]:
    if request.save is not None and request.save in written:
        yield f"Saved to {request.save}; surepick.Result.load reads it."
    if request.report is not None and request.report in written:
        yield f"Page: {request.report}; any browser shows and prints it."
    if result.guarantee == "withdrawn":
        yield "Next: look at what does not fit; the answer above must not be used."
    elif result.guarantee == "doubtful" and result.stopped:
        yield "Next: do what the sentence above says of the noise before you rely on the answer."
    elif result.stopped:
        if result.model == "linear" and not result.n_checks and isinstance(request.arms, ArmFile):
            yield "Next: --audit auto tests the model by check pulls before you rely on the answer."
        keeps = ["--save result.json keeps this result"] if request.save is None else []
        keeps += ["--report result.html makes a page of it"] if request.report is None else []
        if keeps:
            yield f"Next: {', '.join(keeps)}."
    else:
        yield f"Next: {_how_to_go_on(request, result.stopping, is_cut_off=is_cut_off)}"


def _how_to_go_on(request: Request, stopping: str, *, is_cut_off: bool) -> str:
    """Say what leads from an experiment without a verdict to one with."""
    log, max_pulls = request.log, request.settings["max_pulls"]
    if not is_cut_off and max_pulls is None:  # then it was the budget that ended it
        kept = "what --log FILE kept" if log is None else str(log)
        said = f"the budget is spent. To go on, pass {kept} as --history, with a new --budget and a new --log"
        if stopping.startswith("betting"):
            return f"{said}: what was measured guides the new run, which has a risk of its own."
        return f"{said}, and with --earlier evidence if all else stays as it was: what was measured counts."
    if log is None:
        return "with --log pulls.csv every measurement is kept, and the same command goes on where it was."
    limit = "" if is_cut_off else " and a larger --max-pulls, or none,"
    return f"the same command with --log {log}{limit} goes on exactly here."


def _belongs_to(request: Request, history: list[tuple[Any, float]]) -> str:
    """Everything that the order of the asks and the validity of the answer depend on."""
    content = hashlib.sha256(request.arms.fingerprint() + repr(history).encode())
    unused = ("audit", "max_pulls") if history else ("audit", "max_pulls", "earlier")
    told = {name: value for name, value in request.settings.items() if name not in unused}
    for name in ("noise_std", "costs"):
        if isinstance(told[name], np.ndarray):
            content.update(told[name].tobytes())
            told[name] = "of each arm"
    settings = " ".join(f"{name}={value!r}" for name, value in told.items() if value != UNSAID.get(name, math.nan))
    return f"surepick run arms={content.hexdigest()[:12]} {settings}"


@contextmanager
def _every_warning() -> Iterator[None]:
    with one_line_warnings():
        warnings.simplefilter("always")
        yield
