"""`surepick run`: measures your arms by a command or a prompt until the best is known. It is a loop over a study.

The study lives in the file of `--log`, or in memory without one. After an interruption, a run loads its study and
resumes.
"""

import math
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from surepick._files import lock
from surepick._texts import between, fixed, places_of
from surepick.arms.tables.sources import is_grouped, parse_number, reason
from surepick.cli.arm_files import ArmFile, ChosenSet, read_history
from surepick.cli.hints import in_shell
from surepick.cli.output import (
    EPSILON_IS,
    Code,
    Format,
    LiveView,
    live_view,
    new_table,
    one_line_warnings,
    print_error,
    print_roles,
    results,
    stages,
    write,
)
from surepick.cli.studies import who_am_i
from surepick.cli.studies.ask_tell import asked_again
from surepick.core.checks import check_count
from surepick.errors import EntryWarning, InvalidInput, StorageError, SurepickError
from surepick.learning.identify import ENOUGH_REPEATS, SKIPPED_IN_A_ROW, contradiction
from surepick.learning.model import check_audit
from surepick.learning.progress import near_tie, state_line
from surepick.learning.questions import binary_words
from surepick.learning.result import Result
from surepick.learning.spec import Spec
from surepick.reporting.study_words import MISTYPED
from surepick.study.admin import create_study, difference, load_study
from surepick.study.requests import turned_binary
from surepick.study.state import Measurement
from surepick.study.study import Study, StudyAsk

if TYPE_CHECKING:
    from rich.console import Console

N_SHOWN = 10
"""Arms in the table of a result."""
TRY_LATER = 75
"""Exit code of a command that has no value this time: EX_TEMPFAIL of sysexits.h."""

Label = Callable[[Any], str]
"""The name of an arm, for people and for commands."""


class MeasurementFailed(Exception):
    """The measurement failed; the text says why."""


class Correction(NamedTuple):
    """A measurement that was entered wrong, and its right value."""

    of: Measurement
    value: float


Answer = float | Correction | None
"""The reward, the correction of an earlier one, or None to skip this measurement."""
Source = Callable[[Any], Answer]
"""Measures an arm; called with None after the value that decides, which it may correct."""


# ---- ways to measure


def by_command(template: str, label: Label, say: Callable[[str], object] = lambda _text: None) -> Source:
    """Run a command for each measurement, without a shell; the command prints one number.

    `{arm}` stands for the name and `{index}` for the row number, anywhere in an argument. Both stand for the entries of
    a vector, which has no row number. Exit code 75, or no output, skips the measurement.
    """
    try:
        template_parts = shlex.split(template)
    except ValueError as error:
        raise InvalidInput(f"--pull cannot be read: {error} in {template!r}.") from error
    if not any("{arm}" in part or "{index}" in part for part in template_parts):
        raise InvalidInput(f"--pull must say where the arm goes, as {{arm}} or {{index}}, got {template!r}.")

    def measure(arm: Any) -> float | None:
        index = str(arm) if isinstance(arm, int) else label(arm)
        command = [_filled(part, label(arm), index) for part in template_parts]
        printed, why = _run(command)
        if not printed:
            say(f"{_skipped(label(arm))} ({why})")
            return None
        # People may write 74,5 and are asked again for 1,500; a program would fail at some of its values only.
        value = None if "," in printed else parse_number(printed)
        if value is None:
            pointed = "; write it with a decimal point" if "," in printed else ""
            raise MeasurementFailed(
                f"{shlex.join(command)!r} must print one number for {label(arm)}, got {printed[:60]!r}{pointed}"
            )
        return value

    return measure


def _run(command: list[str]) -> tuple[str, str]:
    """Return the output of a command; if empty, with the reason."""
    try:
        done = subprocess.run(  # noqa: S603 (the user's own command, and no shell reads it)
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise MeasurementFailed(f"cannot run {shlex.join(command)!r}: {error.strerror}") from error
    last = (done.stderr.strip().splitlines() or ["it printed no reason"])[-1]
    if done.returncode == TRY_LATER:
        return "", f"exit code {TRY_LATER}: {last}"
    if done.returncode:
        raise MeasurementFailed(f"{shlex.join(command)!r} ended with exit code {done.returncode}: {last}")
    return done.stdout.strip(), "the command printed nothing"


def _filled(part: str, name: str, index: str) -> str:
    """Fill one argument in a single pass: a name that contains "{index}" stays as it is."""
    return name.join(piece.replace("{index}", index) for piece in part.split("{arm}"))


def by_prompt(console: "Console", label: Label, told: Callable[[], list[Measurement]]) -> Source:
    """Ask the user. Nothing entered skips the measurement, q or the end of input ends the session.

    Args:
        console: where to ask.
        label: the name of an arm.
        told: returns the measurements so far. `undo` asks for the last one again, and `undo` once more for the one
            before it.
    """
    explained = set[str]()

    def measure(arm: Any) -> Answer:
        before = told()
        place = len(before)  # of the value that is asked for
        while True:
            again = before[place] if place < len(before) else None
            answer = _answer(console, _question(label, arm, again))
            if answer == "q" and arm is not None:
                raise KeyboardInterrupt
            if answer in ("q", ""):
                if again is None:
                    return None
                place = len(before)
            elif answer == "undo":
                if place == 0:
                    console.print("There is no value to take back.")
                place = max(place - 1, 0)
            elif arm is None and again is None:
                console.print(f"{answer!r} is not asked for; enter nothing to accept the last value, or undo.")
            elif (value := _entered(console, answer, explained, is_new=again is None)) is not None:
                return value if again is None else Correction(again, value)

    return measure


def _entered(console: "Console", answer: str, explained: set[str], *, is_new: bool) -> float | None:
    """Return the number entered; print why there is none, and once how a comma is read."""
    value = parse_number(answer)
    if value is None:
        otherwise = "nothing to skip it, undo to correct the last one" if is_new else "nothing to keep it"
        console.print(f"{answer!r} {_wrong(answer)}; enter one, {otherwise}, or q to stop.")
    elif "," in answer and not explained:
        console.print(f"{answer} is read as {value:.12g}.")
        explained.add(",")
    return value


def _skipped(name: str) -> str:
    return f"skipped: {name}, asked for again later"


def _answer(console: "Console", question: str) -> str:
    """Return the text entered; "q" also for quit and for the end of input."""
    try:
        answer = console.input(question).strip()
    except EOFError:
        console.print()
        return "q"
    word = answer.lower()
    return "q" if word in ("q", "quit") else word if word == "undo" else answer


def _question(label: Label, arm: Any, again: Measurement | None) -> str:
    if again is not None:
        return f"{label(again.arm)} again, instead of {again.last:.12g} -> "
    return (
        "The last value decides. Enter accepts it, undo corrects it -> " if arm is None else f"measure {label(arm)} -> "
    )


def _wrong(answer: str) -> str:
    if is_grouped(answer) and answer.count(",") == 1:
        return f"could be {answer.replace(',', '.')} or {answer.replace(',', '')}"
    return "is no number"


# ---- the session


@final
@dataclass(frozen=True, slots=True)
class Request:
    """The options of a run."""

    arms: ArmFile | ChosenSet
    settings: Mapping[str, Any]
    """Options of the study."""
    pull: str | None
    audit: int | str
    max_pulls: int | None
    history: Path | None
    log: Path | None
    save: Path | None
    report: Path | None
    output: Format


def run_session(request: Request) -> Code:
    """Measure until the best arm is known, and print the result."""
    own, console = request.arms, stages(request.output)
    _check(request)
    earlier = [] if request.history is None else read_history(request.history, own.arm)
    with ExitStack() as stack:
        study = stack.enter_context(_opened(request))
        session = _Session(request, study, console)
        if earlier:  # before a line is printed: it may be refused
            study.tell_earlier(earlier, key="history")
        print_roles(console, f"arms: {own.describe(request.settings['model'])}")
        if earlier:
            is_evidence = request.settings["earlier"] == "evidence"
            kind = "evidence" if is_evidence else "guidance for plans and bets, no evidence"
            console.print(f"history: {len(earlier)} earlier measurements, {kind}", soft_wrap=True)
        if told := session.told():
            console.print(f"log: {len(told)} measurements of {request.log} are taken over", soft_wrap=True)
        if request.pull is None:
            console.print("Enter each measured value; nothing to skip one, undo to correct the last one, q to stop.")
        result, failure = session.run()
    return _finish(request, result, failure)


def _check(request: Request) -> None:
    """Check the options before the first measurement."""
    if request.max_pulls is not None:
        check_count("max_pulls", request.max_pulls, least=0)
    if request.audit:
        spec = Spec.of(options=request.settings)
        check_audit(spec.noise_model, request.arms.arms, spec.pool)
    if request.log is not None and request.log.suffix.lower() == ".csv":
        raise InvalidInput(
            f"--log must be a study file such as log.db, got {request.log}; pass a .csv log of an earlier version as "
            "--history, or to a study by surepick import."
        )


@contextmanager
def _opened(request: Request) -> Iterator[Study]:
    """The study of the log, begun or loaded; in memory without a log."""
    own, log = request.arms, request.log
    begin = partial(create_study, own.name, arms=own.arms, **request.settings, author=who_am_i())
    if log is None:
        yield begin(storage="memory:")
        return
    is_new = not log.exists() or not log.stat().st_size
    study = begin(storage=log) if is_new else load_study(storage=log, author=who_am_i())
    with closing(study.storage), log.open("rb") as file:
        if not lock(file.fileno()):
            raise InvalidInput(f"another session writes to {log}; wait for its end, or choose another --log.")
        if not is_new:
            _check_same(study, begin(storage="memory:"), log)
        yield study


def _check_same(study: Study, wanted: Study, log: Path) -> None:
    """Refuse to go on with a study of other arms or options."""
    if differ := difference(study.state, wanted.state):
        raise InvalidInput(
            f"{log} was written for other arms or options ({differ}); use another --log, or surepick reopen to change "
            "the study."
        )


@final
class _Session:
    """Measures the asks of a study until the study has an answer."""

    def __init__(self, request: Request, study: Study, console: "Console") -> None:
        self._request, self._study, self._console = request, study, console
        self._label, self._is_asked = request.arms.label, request.pull is None
        if request.pull is None:
            self._source = by_prompt(console, self._label, self.told)
        else:
            self._source = by_command(request.pull, self._label, partial(console.print, soft_wrap=True))
        self._warned = set[type[Warning]]()
        self._next_look = 0
        """Number of pulls from which on the session looks for a near tie: a look takes two passes over all arms."""
        self._untold: tuple[StudyAsk, float] | None = None
        """A value on its way to the study."""

    def told(self) -> list[Measurement]:
        """Measurements that were asked for and count."""
        return [one for one in self._study.measurements if one.ask is not None and not one.is_void]

    def run(self) -> tuple[Result, str | None]:
        """Return the result, and the reason if a measurement failed."""
        failure, interrupted = None, False
        with one_line_warnings():
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", EntryWarning)  # said in the words of the command line
            try:
                self._warn()
                with live_view(self._console, self._request.arms.title, self._label) as view:
                    self._measure(view)
            except MeasurementFailed as error:
                failure = str(error)
            except KeyboardInterrupt:
                interrupted = True
                if self._untold is not None:
                    self._study.tell(*self._untold)  # told twice it counts once
            self._warn()
        return self._study.learner.result(interrupted=interrupted), failure

    def _measure(self, view: LiveView) -> None:
        """Measure until the study asks for nothing more."""
        n_skipped = 0
        for ask in self._asks():
            with view.waiting():
                answer = self._source(ask.arm)
            if isinstance(answer, Correction):
                self._correct(answer)
            elif answer is None:
                self._study.fail(ask, reason="skipped")
                n_skipped += 1
                if self._is_asked:
                    self._console.print(_skipped(ask.name))
                if n_skipped == SKIPPED_IN_A_ROW:
                    raise MeasurementFailed(
                        f"{n_skipped:,} measurements in a row were skipped, the last of {ask.name}; leave out an arm "
                        "that cannot be measured"
                    )
            elif self._tell(ask, answer, view):
                n_skipped = 0
                if self._is_hopeless():
                    return

    def _asks(self) -> Iterator[StudyAsk]:
        """Yield asks one by one until the verdict and its check pulls, `max_pulls`, or the end of the budget."""
        study, limit = self._study, math.inf if self._request.max_pulls is None else self._request.max_pulls
        while True:
            state, was_stopped = study.state, study.stopped
            mine = [one for one in state.open.values() if one.by == study.author]
            if not was_stopped and len(state.attempts) - len(mine) >= limit:
                return
            if was_stopped and not state.learner.state.ledger.is_checking:
                for one in mine:
                    study.fail(one.id, reason="decided")
                if not self._request.audit or state.learner.reader.n_checks:
                    return
                study.audit(self._request.audit)  # type: ignore[arg-type]  # a number or "auto"
            asks = study.ask(1, worker=study.author)
            if not asks and study.stopped is was_stopped:
                return
            yield from asks

    def _tell(self, ask: StudyAsk, value: float, view: LiveView) -> bool:
        """Tell a value and print the state of the run; return whether the study took the value."""
        was_stopped, self._untold = self._study.stopped, (ask, value)
        n_before = len(self._study.measurements)
        try:
            told = self._study.tell(ask, value, questions=False)
        except InvalidInput as error:
            self._untold = None
            why = str(error).partition(". ")[0].rstrip(".").replace("`reward`", "the value")
            if not self._is_asked:
                raise MeasurementFailed(f"the command printed {value:.12g} for {ask.name}: {why}") from error
            self._console.print(in_shell(f"not recorded: {why}"), soft_wrap=True)
            return False
        except StorageError as error:
            text = str(error).rstrip(".")
            raise MeasurementFailed(f"{text}; the last value, {value!r} for {ask.name}, is not in the log") from error
        self._untold = None
        if turned_binary(self._study.state, n_before):
            print_error(f"warning: {binary_words('--binary, with another --log')}")
        if self._is_asked:
            self._question(told[0])
        else:
            view.show(lambda: self._study.learner.snapshot, arm=ask.arm)
        # A script that runs out of values is not asked whether it means the last.
        decides = self._study.stopped and not was_stopped
        answer = self._source(None) if decides and self._is_asked and self._console.is_terminal else None
        if isinstance(answer, Correction):
            self._correct(answer)
        else:
            self._say_standing()
        return True

    def _question(self, told: Measurement) -> None:
        """Ask about a value that stands far apart; a script cannot answer, and reads the question as an error."""
        found = self._study.question(told.id)
        if found is None:
            return
        if not self._console.is_terminal:
            print_error(found.words(f"surepick correct {told.id} {found.right} --reason mistyped, or undo"))
            return
        value = asked_again(found, partial(self._console.input, markup=False))
        if value is not None:
            self._study.correct(told.id, value, reason=MISTYPED)
            self._console.print(f"corrected: {self._label(told.arm)} is {value:.12g}, not {found.value:.12g}")

    def _correct(self, correction: Correction) -> None:
        """Correct a value, and print the state of the run."""
        of, before = correction.of, correction.of.last
        try:
            self._study.correct(of.id, correction.value, reason="undo")
        except InvalidInput as error:
            self._console.print(in_shell(f"not corrected: {error}"), soft_wrap=True)
            return
        self._console.print(f"corrected: {self._label(of.arm)} is {correction.value:.12g}, not {before:.12g}")
        self._say_standing()

    def _say_standing(self) -> None:
        """Print the state of the run, and a near tie when it shows and again when the pulls have doubled."""
        learner = self._study.learner
        if self._is_asked:
            self._console.print(state_line(learner.snapshot, self._label), style="dim", soft_wrap=True)
        n = learner.estimate.n_pulls
        if n < self._next_look or (self._console.is_terminal and not self._is_asked):
            return
        near = near_tie(learner.snapshot, self._label, epsilon_is=EPSILON_IS)
        self._next_look = 2 * n if near else n + n // 8 + 1
        if near:
            self._console.print(f"Near tie with {near}.", soft_wrap=True)

    def _is_hopeless(self) -> bool:
        """Check the assumptions when the pulls are a power of two; return whether no number of pulls will decide."""
        n = self._study.learner.estimate.n_pulls
        if n & (n - 1):
            return False
        self._warn(is_end=False)
        return n >= ENOUGH_REPEATS and self._study.learner.reader.repeats

    def _warn(self, *, is_end: bool = True) -> None:
        """Warn once of each assumption that the rewards contradict."""
        found = contradiction(self._study.learner, is_end=is_end)
        if found is not None and found[0] not in self._warned:
            self._warned.add(found[0])
            warnings.warn(found[1], found[0], stacklevel=1)


# ---- the result


def _finish(request: Request, result: Result, failure: str | None) -> Code:
    # Written before it is printed, since a closed pipe ends the printing; a full disk is reported after it.
    trouble = dict(_not_written(request, result))
    if request.output is Format.TABLE:
        _print_table(results(), request, result)
        written, is_cut_off = {request.save, request.report} - trouble.keys(), result.interrupted or failure is not None
        for line in _next_steps(request, result, written, is_cut_off=is_cut_off):
            results().print(line, soft_wrap=True)
    else:
        columns = result.to_columns()
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        rows = [{**row, "arm": str(row["arm"])} for row in rows]
        write(request.output, {**result.to_dict(), "explanation": result.explain()}, rows)
    sys.stdout.flush()
    for path, why in trouble.items():
        print_error(f"the result above could not be saved to {path}: {why}")
    if failure is not None:
        print_error(f"{failure}; the state after {result.n_pulls} pulls is above")
    if failure is not None or trouble:
        return Code.FAILURE
    if result.guarantee == "withdrawn":
        return Code.WITHDRAWN
    return Code.OK if result.stopped else Code.NOT_STOPPED


def _not_written(request: Request, result: Result) -> Iterator[tuple[Path, str]]:
    """Write the files of --save and --report; yield each that could not be written, and the reason."""
    command = shlex.join(["surepick", *sys.argv[1:]])
    for path, write_to in ((request.save, result.save), (request.report, partial(result.report, command=command))):
        try:
            if path is not None:
                write_to(path)
        except (OSError, SurepickError) as error:
            assert path is not None
            yield path, reason(error)


def _print_table(console: "Console", request: Request, result: Result) -> None:
    console.print()
    console.print(in_shell(result.explain()), soft_wrap=not console.is_terminal, style="bold")
    if result.theta is None:
        return
    rows = result.arms
    # Arms with the same features are one line.
    hidden = {row for group in rows.alike for row in group[1:]}
    order = [row for row in np.argsort(-rows.estimate, kind="stable").tolist() if row not in hidden]
    has_intervals = bool(np.isfinite(rows.high).any())  # not while a noise that is learnt may be of any size
    interval = [f"{100 * (1 - result.delta):g} % interval"] if has_intervals else []
    calls = [] if result.calls is None or result.guarantee == "withdrawn" else ["call"]
    table = new_table(["rank", "arm", "estimate", *interval, "pulls", *calls], left=["arm", "call"])
    table.title, table.title_justify = f"{N_SHOWN} of {len(rows)} arms" if len(order) > N_SHOWN else None, "left"
    half = rows.high - rows.estimate
    width = float(np.median(half[np.isfinite(half)])) if has_intervals else math.inf
    places = places_of(float(np.abs(rows.estimate).max()), width)
    for rank, row in enumerate(order[:N_SHOWN], start=1):
        arms = [rows.keys[one] for one in rows.group_of(row)]
        pulls = sum(result.counts.get(arm, 0) for arm in arms)
        bounds = between(rows.low[row], rows.high[row], places) or "-"
        more = [f"{len(arms) - N_SHOWN} more"] if len(arms) > N_SHOWN else []
        named = " = ".join([*map(request.arms.label, arms[:N_SHOWN]), *more])
        cells = [str(rank), named, fixed(rows.estimate[row], places), *([bounds] if has_intervals else []), str(pulls)]
        table.add_row(*cells, *((result.calls or {}).get(row, "control") for _ in calls))
    console.print(table)


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
        yield "Next: follow the advice above on the noise before you rely on the answer."
    elif not result.stopped:
        yield f"Next: {_how_to_go_on(request, is_cut_off=is_cut_off)}"
    else:
        if result.model == "linear" and not result.n_checks and isinstance(request.arms, ArmFile):
            yield "Next: --audit auto tests the model by check pulls before you rely on the answer."
        keeps = ["--save result.json keeps this result"] if request.save is None else []
        keeps += ["--report result.html makes a page of it"] if request.report is None else []
        if keeps:
            yield f"Next: {', '.join(keeps)}."


def _how_to_go_on(request: Request, *, is_cut_off: bool) -> str:
    """Return the next step towards a verdict."""
    log = request.log
    if log is None:
        return "with --log log.db every measurement is kept, and the same command goes on where it was."
    if not is_cut_off and request.max_pulls is None:  # then it was the budget that ended it
        more = "--budget" if request.settings.get("rounds") is None else "--rounds"
        reopen = shlex.join(["surepick", "reopen", "--storage", str(log), more, "MORE", "--reason", "WHY"])
        return f"the budget is spent. To go on: {reopen}, then the same command with that {more}."
    limit = "" if is_cut_off else " and a larger --max-pulls, or none,"
    return f"the same command with --log {log}{limit} goes on exactly here."
