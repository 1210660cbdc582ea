"""The page of a result, one HTML file for screens, phones and paper, and its figures."""

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from surepick._files import replacing
from surepick._texts import about, between, counted, fixed, percent, places_of
from surepick._version import __version__
from surepick.errors import InvalidInput
from surepick.learning.assumptions import assumptions
from surepick.learning.calls import arms_called, target_words
from surepick.learning.explain import label_of, unmeasured, verdict
from surepick.learning.groups import label_text
from surepick.learning.progress import confidence, sentences, wide_words
from surepick.reporting.html import Cell, Table, check_ready, template
from surepick.reporting.result_figures import (
    Figure,
    figures_of,
    has_likely,
    leading,
    names_of,
    places_in,
    planned_pulls,
    typical,
)

if TYPE_CHECKING:
    from surepick.learning.estimates import Estimates
    from surepick.learning.result import Result


@final
@dataclass(frozen=True, kw_only=True)
class Page:
    """The content of a page: texts, tables and figures."""

    title: str
    state: str
    """State of the result, in a word or two."""
    tone: str
    """Colour of the state: "good", "open" or "bad"."""
    verdict: str
    words: str = ""
    """What an arm and a pull are."""
    details: list[str] = field(default_factory=list)
    """Sentences below the verdict."""
    facts: list[tuple[str, str]] = field(default_factory=list)
    top: list[Table] = field(default_factory=list)
    """Tables above the figures."""
    tables: list[Table] = field(default_factory=list)
    """Tables below the figures."""
    figures: list[Figure] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
    """Steps to reproduce the result, each a sentence and code."""
    settings: list[tuple[str, str]] = field(default_factory=list)
    """The exact settings, folded."""
    foot: str = ""


def write_page(page: Page, path: Path) -> None:
    """Write a page to a file atomically."""
    check_ready()
    text = template("result.html").render(page=page)
    with replacing(path) as draft:
        draft.write_text(text.rstrip() + "\n", encoding="utf-8", newline="\n")


NOTHING = "-"
MOST_ROWS, MOST_BYTES, FEW_BYTES, BYTES_OF_CELL = 1_000, 300_000, 75_000, 25
"""Most rows of a table, most bytes of a large and of a small one, and bytes of an empty cell: a page of 100,000 arms
has at most 1 MB."""
MOST_WINNERS = 6
"""Most winners side by side."""
LONGEST_UNIT = 20
"""Most letters of a unit."""
ARM_IS = "An arm is one of the options that are compared. A pull is one measurement of one arm."
CHECK_IS = "A check pull is a measurement after the verdict that tests the model."


class Given(NamedTuple):
    """What the page of a study shows beside its result."""

    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()


NO_STUDY = Given()


def page_of(  # noqa: PLR0913 (each is a part of the page)
    result: "Result",
    *,
    title: str | None,
    command: str | None,
    steps: Sequence[tuple[str, str]] | None = None,
    recipes: Mapping[str, Mapping[str, Any]] | None = None,
    notes: Sequence[str] = (),
    unit: str = "",
    find_recipe: Callable[[int], Mapping[str, Any]] | None = None,
    given: Given = NO_STUDY,
) -> Page:
    """Return the content of the page of a result.

    Args:
        result: the result.
        title: title of the page; None: the question that the result answers.
        command: the command that made the result, if any.
        steps: steps to reproduce the result, each a sentence and code; default: a call of `identify`.
        recipes: by the names of arms, the columns that describe each.
        notes: further sentences below the verdict.
        unit: unit of the rewards, such as "kg"; "": none is shown.
        find_recipe: returns the columns that describe a row of `result.compared`; for winners not in `recipes`.
        given: facts and tables of a study.

    Raises:
        InvalidInput: the unit is no short text on one line.
    """
    if len(unit) > LONGEST_UNIT or not unit.isprintable():
        raise InvalidInput(
            f'`unit` must be at most {LONGEST_UNIT} letters on one line, such as "kg", got {unit!r}; shorten it.'
        )
    state, tone = _state(result)
    # A study has row numbers of its own.
    said = [verdict(result, numbers=recipes is None), *sentences(result, label_of(result)), unmeasured(result)]
    said = [sentence for sentence in said if sentence]
    if state == "Withdrawn":  # a headline, then the reason
        headline, _, reason = said[0].partition(": ")
        said[:1] = [f"{headline}.", reason[:1].upper() + reason[1:] if result.best_name is None else reason]
    # Before the verdict, the first lines also name the leader.
    n_first = 1 if result.stopped or state == "Withdrawn" else 2
    winners = _winners(result, recipes or {}, find_recipe)
    return Page(
        title=title or _question(result),
        state=state,
        tone=tone,
        verdict=" ".join(said[:n_first]),
        words=f"{ARM_IS} {CHECK_IS}" if result.n_checks else ARM_IS,
        details=[*said[n_first:], *notes],
        facts=[*_facts(result, unit), *given.facts],
        top=_filled([_consists_of(result, winners), versus(result, unit)]),
        tables=_filled([*_tables(result, unit), *given.tables, _recipes(recipes or {}, list(winners))]),
        figures=figures_of(result, unit),
        steps=_steps(result, command) if steps is None else list(steps),
        settings=_settings(result),
        foot=f"Written on {datetime.now(UTC):%Y-%m-%d} by surepick {__version__}.",
    )


def _filled(tables: Sequence[Table]) -> list[Table]:
    return [table for table in tables if table.rows]


def fitting(table: Table, where: str, most: int = FEW_BYTES) -> Table:
    """Return a table with as many of its rows as a page has room for, and a note on where the others are."""
    size, n_kept = 0, 0
    for row in table.rows[:MOST_ROWS]:
        size += sum(BYTES_OF_CELL + len(html.escape(cell.text + cell.detail).encode()) for cell in row)
        if size > most:
            break
        n_kept += 1
    return _shortened(table, n_kept, len(table.rows), where)


def _state(result: "Result") -> tuple[str, str]:
    if result.guarantee == "withdrawn":
        return "Withdrawn", "bad"
    if result.guarantee == "doubtful" and result.stopped:
        return "Decided, in doubt", "open"
    if result.stopped:
        return ("Decided", "good") if result.guarantee != "none" else ("Decided, without guarantee", "open")
    return "Interrupted, not decided" if result.interrupted else "Not decided", "open"


def _question(result: "Result") -> str:
    if result.arm_set or result.compared.listed is not None:
        return f"Which arm of {result.arm_set or 'all'} is the best?"
    total = counted(len(result.compared), "arm" if result.candidates is None else "candidate")
    if result.calls is not None:
        return f"Which of {total} {target_words(result, label_of(result))}?"
    return f"Which of {total} is the best?" if result.m == 1 else f"Which are the {result.m} best of {total}?"


def _facts(result: "Result", unit: str) -> list[tuple[str, str]]:
    checks = f" and {counted(result.n_checks, 'check pull')}" if result.n_checks else ""
    measured = f"{len(result.counts):,}"
    if result.arms.listed is None:
        measured += f" of {len(result.arms):,}"
    cost = [("Cost", f"{result.cost:,.6g}")] if result.has_costs else []
    facts = [
        ("Pulls", f"{result.n_pulls - result.n_checks:,}{checks}"),
        *cost,
        ("Arms measured", measured),
        *_likely(result),
        (
            "Proved" if result.guarantee == "proved" and not result.is_foreign_rule else "Confidence",
            _confidence(result),
        ),
        ("Accepted risk (delta)", percent(result.delta)),
    ]
    facts += [*_limits(result)]
    if result.epsilon > 0.0:
        facts.append(("Accepted loss (epsilon)", f"{result.epsilon:g} {unit}".rstrip()))
    if result.calls is not None:
        facts += [(call.capitalize(), f"{len(arms_called(result, call)):,}") for call in ("met", "failed", "open")]
    elif result.survivors is not None and not result.stopped and result.guarantee not in ("doubtful", "withdrawn"):
        facts.append(("Not excluded", f"{len(result.survivors):,} of {len(result.compared):,}"))
    if not math.isnan(result.noise_std):
        is_share = isinstance(result.given_noise_std, np.ndarray)  # of the levels given
        noise = f"{result.noise_std:.3g}{' times the given' if is_share else f' {unit}'.rstrip()}"
        facts.append(("Noise of one measurement", noise))
    return [*facts, *([("Unit of all values", unit)] if unit else [])]


def _limits(result: "Result") -> Iterator[tuple[str, str]]:
    """Yield how much may be measured, and what is allowed for."""
    is_all = ", all to be measured" if result.goal == "fixed-budget" else ""
    if result.batch is not None:
        most = "" if result.rounds is None else f"at most {result.rounds:,} "
        yield "Batches", f"{most}of {result.batch:,}{is_all}"
    elif result.budget is not None:
        yield "Budget", f"{result.budget:,.6g}{is_all}"
    if result.pool is not None:
        yield "Items of the pool", f"{result.pool:,}"
    if result.has_offsets:
        yield "Groups", "offsets allowed for"


def _likely(result: "Result") -> list[tuple[str, str]]:
    """Return the probability that the leader is the best, an estimate, before the verdict."""
    outlook = result.outlook
    if outlook is None or math.isnan(outlook.probability):
        return []
    best = "best" if result.m == 1 else f"the {result.m} best"
    return [(f"Estimate: {best} with", about(outlook.probability))]


def _confidence(result: "Result") -> str:
    if result.guarantee == "withdrawn":
        return "withdrawn"
    return NOTHING if result.best is None else confidence(result)


def _leaders(result: "Result") -> str:
    """Return the word for the answers: winners once there is a verdict that holds."""
    return "winner" if result.stopped and result.guarantee != "none" else "leader"


def _winners(
    result: "Result", recipes: Mapping[str, Mapping[str, Any]], find: Callable[[int], Mapping[str, Any]] | None
) -> dict[str, Mapping[str, Any]]:
    """Return the recipes of the winners or leaders, by name; none of a result that is withdrawn."""
    if isinstance(result.best, np.ndarray) and result.guarantee != "withdrawn":
        names = result.feature_names or [f"entry {j}" for j in range(1, len(result.best) + 1)]
        return {"Value": dict(zip(names, result.best.tolist(), strict=True))}
    names, rows = names_of(result, result.compared), leading(result)
    found = {names[row]: recipes.get(names[row]) or (find(row) if find else {}) for row in rows}
    return {name: recipe for name, recipe in found.items() if recipe}


def _consists_of(result: "Result", winners: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the table of all that describes the winners."""
    n, word = len(winners), _leaders(result)
    title = f"What the {word} consists of" if n == 1 else f"What the {n} {word}s consist of"
    if result.calls is not None:
        title = f"What the {counted(n, 'arm')} called met {'consists' if n == 1 else 'consist'} of"
    if n > MOST_WINNERS:
        return Table(title, [], 1, [])
    columns = dict.fromkeys(title for recipe in winners.values() for title in recipe)
    rows = [[Cell(column), *(Cell(_said(recipe.get(column))) for recipe in winners.values())] for column in columns]
    is_named = result.compared.names is not None or bool(result.arm_set)
    noun = "" if is_named else "arm " if result.candidates is None else "candidate "
    headers = ["Column", *(f"{noun}{name}" for name in winners)]
    return fitting(Table(title, headers, n + 2, rows), "your table has all")


def _tables(result: "Result", unit: str) -> list[Table]:
    listed = [_ranking(result, result.compared, unit)]
    if result.candidates is not None:
        listed.append(_ranking(result, result.arms, unit))
    return [*listed, coefficients(result), groups_of(result, unit), resting_on(result)]


def _in(unit: str) -> str:
    return f" ({unit})" if unit else ""


def versus(result: "Result", unit: str = "") -> Table:
    """Return the table of the leader, the runner-up and the candidate hardest to exclude, if that is another one.

    Of several leaders, the last is compared with the first arm that is left out: the closest pair.
    """
    rows, pulls = result.compared, planned_pulls(result)
    is_likely = has_likely(result)
    likely_low, likely_high = (rows.likely_low, rows.likely_high) if is_likely else (None, None)
    headers = ["Place", "Arm", f"Estimate{_in(unit)}", *["Likely"] * is_likely, "Interval", "Pulls"]
    leader, rival, title = "Leader", "Runner-up", "Leader against runner-up"
    if result.m > 1:
        leader, rival = f"Last of the {result.m} {_leaders(result)}s", "First left out"
        title = f"The last of the {result.m} {_leaders(result)}s against the first arm left out"
    table = Table(title, headers, 2, [])
    if result.rival is None:
        return table
    label, places = label_of(result), places_in(rows)
    listed = [(leader, result.leader), (rival, result.rival)]
    if result.hardest not in (None, result.rival):
        listed.append(("Hardest to exclude", result.hardest))
    for kind, arm in listed:
        cells = [kind, label(arm), fixed(rows.estimate[arm], places)]
        if likely_low is not None and likely_high is not None:
            cells.append(between(likely_low[arm], likely_high[arm], places))
        cells.append(between(rows.low[arm], rows.high[arm], places) or NOTHING)
        cells.append(f"{pulls[arm]:,}" if result.candidates is None else NOTHING)
        table.rows.append([Cell(text) for text in cells])
    table.rows.append([*_lead_cells(result, f"Lead over the {rival.lower()}"), Cell("")])
    return table._replace(note=f"{_of_intervals(result)} {LIKELY_IS if is_likely else ''}".strip())


def _lead_cells(result: "Result", kind: str) -> list[Cell]:
    """Return the row of the lead; where the verdict says more than the interval, the verdict is above the interval."""
    is_likely = has_likely(result)
    high = result.likely_lead[1] if is_likely else result.interval[1]
    places = places_of(result.lead, high - result.lead)
    likely = [Cell(between(*result.likely_lead, places) or NOTHING)] if is_likely else []
    ends = between(*result.interval, places_of(result.lead, result.interval[1] - result.lead)) or NOTHING
    least = f"{-result.epsilon:g} or more" if result.epsilon > 0.0 else "more than 0"
    interval = Cell(least, f"all together: {ends}") if wide_words(result) else Cell(ends)
    return [Cell(kind), Cell(""), Cell(fixed(result.lead, places)), *likely, interval]


LIKELY_IS = '"Likely": 95 % interval of this mean alone at this time alone, an estimate and not a guarantee.'


def _of_intervals(result: "Result") -> str:
    """Return a note on the meaning of the confidence intervals, or on why there are none."""
    if not math.isfinite(result.interval[1]):
        if result.noise != "same" or result.allowed_misfit > 0.0:
            return "There are no intervals for noise of an unknown law or of many levels, nor with a drift or a misfit."
        if result.pool is not None or result.has_offsets:
            return f"There are no intervals {'in a pool' if result.pool is not None else 'beside offsets of groups'}."
        needs = " The verdict does not need them." if result.stopped else ""
        return f"No intervals hold for all arms and all times together: too few pulls to bound the noise.{needs}"
    if why := wide_words(result):
        below = f"below {-result.epsilon:g}" if result.epsilon > 0.0 else "of 0 or less"
        return f"{why} The verdict excludes leads {below}."
    return f"Intervals hold for all arms and all times together, at {percent(1.0 - result.delta)} confidence."


def _ranking(result: "Result", rows: "Estimates", unit: str) -> Table:
    """Return the table of all arms, ranked by their estimates; a result that is withdrawn has no ranks."""
    is_arms, columns = rows is result.arms, result.to_columns("arms" if rows is result.arms else "candidates")
    ranking = _Ranking(result, rows, columns)
    order = np.argsort(columns["rank"], kind="stable")
    if not ranking.is_ranked:
        order = np.argsort(-columns["pulls"], kind="stable") if is_arms else np.arange(len(rows))
    body = [ranking.row(row) for row in order[:MOST_ROWS].tolist()]
    title = ("All arms" if rows.listed is None else "Arms measured") if is_arms else "All candidates"
    marked = [row for row in leading(result) if ranking.has_leader]
    first = min(int(columns["rank"][row]) - 1 for row in marked) if marked else None
    table = Table(title, ranking.headers(unit), 2, body, ranking.note(), first=first, key=1, n_marked=len(marked))
    most = MOST_BYTES if result.candidates is None else MOST_BYTES // 2  # two such tables
    return _shortened(fitting(table, "", most), None, len(rows), "the result's `to_frame` has all")


class _Ranking:
    """The cells of a table of arms or candidates."""

    def __init__(self, result: "Result", rows: "Estimates", columns: Mapping[str, Any]) -> None:
        self.result, self.rows, self.columns, self.is_arms = result, rows, columns, rows is result.arms
        is_withdrawn = result.guarantee == "withdrawn"
        self.has_leader = rows.margin is not None and result.best is not None and not is_withdrawn
        self.calls = {} if result.calls is None or is_withdrawn or rows is not result.compared else result.calls
        self.has_leader &= result.calls is None
        self.names, self.measured, self.places = names_of(result, rows), result.measured(), places_in(rows)
        self.is_fitted = bool(np.isfinite(rows.estimate).any())
        if not self.is_fitted:
            self.places = places_of(max(map(abs, self.measured.values()), default=0.0), math.inf)
        self.is_ranked = self.is_fitted and not is_withdrawn
        behind = columns["behind"]
        self.of_behind = places_of(float(np.nanmax(behind, initial=0.0)), typical(columns["behind_high"] - behind))
        self.best = set(leading(result)) if self.has_leader else set()
        self.is_likely = bool(np.isfinite(columns["likely_low"]).any())
        self.pulls = planned_pulls(result)

    def headers(self, unit: str) -> list[str]:
        behind_whom = "Behind the leader" if self.result.m == 1 else f"Behind the last {_leaders(self.result)}"
        headers = ["Rank", "Arm" if self.is_arms else "Candidate", f"Estimate{_in(unit)}", *["Likely"] * self.is_likely]
        headers += [behind_whom] * self.has_leader + ["Call"] * bool(self.calls)
        headers += [f"Measured mean{_in(unit)}", "Pulls"] * self.is_arms
        return [*headers, *["Check pulls"] * (self.is_arms and self.result.n_checks > 0)]

    def row(self, row: int) -> list[Cell]:
        rows, columns, places = self.rows, self.columns, self.places
        cells = [Cell(str(columns["rank"][row]) if self.is_ranked else NOTHING), Cell(self.names[row])]
        cells.append(Cell(_known(rows.estimate[row], places), between(rows.low[row], rows.high[row], places)))
        if self.is_likely:
            cells.append(Cell(between(columns["likely_low"][row], columns["likely_high"][row], places)))
        if row in self.best:
            cells.append(Cell(NOTHING))
        elif self.has_leader:
            ends = between(columns["behind_low"][row], columns["behind_high"][row], self.of_behind)
            cells.append(Cell(fixed(columns["behind"][row], self.of_behind), ends))
        if self.calls:
            cells.append(Cell(self.calls.get(row, "control")))
        return cells + self._pulled(rows.keys[row]) if self.is_arms else cells

    def _pulled(self, arm: Any) -> list[Cell]:
        never = "predicted" if self.is_fitted else NOTHING
        mean = fixed(self.measured[arm], self.places) if arm in self.measured else never
        n_checks = self.result.counts.get(arm, 0) - self.pulls[arm]
        checks = [Cell(f"{n_checks:,}")] if self.result.n_checks else []
        return [Cell(mean), Cell(f"{self.pulls[arm]:,}"), *checks]

    def note(self) -> str:
        said = ["Small: intervals that hold for all arms and all times together."] * bool(
            np.isfinite(self.rows.high).any()
        )
        if self.result.guarantee == "withdrawn":
            said.append(
                "The answer is withdrawn. Arms have no ranks, because the rewards contradict the assumptions of the "
                "estimates."
            )
        said += [LIKELY_IS] * self.is_likely
        said += ["Calls are proved by bets, which say more than these intervals."] * bool(self.calls)
        if self.is_arms and self.is_fitted and len(self.measured) < len(self.rows):
            said.append('"Predicted": never measured; the estimate follows from the features.')
        if self.is_arms and self.result.has_offsets:
            said.append("Measured means are as they were read, offsets of the groups included; estimates are without.")
        return " ".join(said)


def _recipes(recipes: Mapping[str, Mapping[str, Any]], winners: Sequence[str]) -> Table:
    """Return the table of the arms as their own table describes them, the winners first."""
    columns = dict.fromkeys(title for recipe in recipes.values() for title in recipe)
    marked = [name for name in winners if name in recipes]
    names = list(dict.fromkeys([*marked, *recipes]))
    shown = ((name, recipes[name]) for name in names[:MOST_ROWS])
    rows = [[Cell(name), *(Cell(_said(recipe.get(title))) for title in columns)] for name, recipe in shown]
    # As words that are no sentences: a table of sentences has wide columns.
    first = 0 if marked else None
    table = Table("Recipes", ["Arm", *columns], len(columns) + 2, rows, first=first, n_marked=len(marked))
    return _shortened(fitting(table, "", MOST_BYTES), None, len(names), "your table has all")


def _shortened(table: Table, n_kept: int | None, n_all: int, where: str) -> Table:
    """Return a table with its first rows, and a sentence about those that it has no room for."""
    rows = table.rows[:n_kept]
    left_out = f"The first {len(rows):,} of {n_all:,} rows; {where}." if where and len(rows) < n_all else ""
    return table._replace(rows=rows, note=f"{table.note} {left_out}".strip())


def _said(cell: Any) -> str:
    """Return a cell of a recipe as people read it; an empty one is a dash."""
    return NOTHING if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def coefficients(result: "Result") -> Table:
    """Return the table of the effects of the features, per unit."""
    table = Table("Coefficients", ["Feature", "Coefficient", "Interval"], 1, [])
    if result.theta is None or result.model != "linear":
        return table
    margins = np.full(len(result.theta), np.inf) if result.theta_margin is None else result.theta_margin
    names = result.feature_names or tuple(f"x{j}" for j in range(len(result.theta)))
    for name, value, margin in zip(names, result.theta.tolist(), margins.tolist(), strict=True):
        places = places_of(value, margin)
        interval = between(value - margin, value + margin, places) or NOTHING
        table.rows.append([Cell(name), Cell(fixed(value, places)), Cell(interval)])
    if not np.isfinite(margins).any():
        table = table._replace(headers=table.headers[:2], rows=[row[:2] for row in table.rows])
    said = (
        "A coefficient is the gain in mean reward from one unit more of a feature, with the other features unchanged."
    )
    if result.feature_names and "constant" not in result.feature_names:
        said += " Parts of a mixture cannot change alone: there only the differences of coefficients count."
    return table._replace(note=said)


def groups_of(result: "Result", unit: str = "") -> Table:
    """Return the table of days, benches, plates or items: how much higher each reads, by estimate."""
    rows, has_notes = [], any(one.note for one in result.groups)
    for one in result.groups:
        places = places_of(one.offset, one.half_width)
        offset = fixed(one.offset, places) if math.isfinite(one.offset) else NOTHING
        likely = between(one.offset - one.half_width, one.offset + one.half_width, places) or NOTHING
        words = [label_text(one.label), *[one.note] * has_notes]
        rows.append([Cell(text) for text in (*words, f"{one.n:,}", offset, likely)])
    title, reads, what = "Groups", "Reads higher by", "a group reads than the mean of all groups of its kind"
    if result.pool is not None:
        title, reads, what = "Items", "Scores higher by", "an item scores than the mean of all items asked"
    headers = [title[:-1], *["Remark"] * has_notes, "Pulls", f"{reads}{_in(unit)}", "Likely"]
    table = Table(title, headers, 1 + has_notes, rows)
    note = f"Estimates, no guarantee: how much higher {what}."
    return fitting(table._replace(note=note), "the log has all")


def resting_on(result: "Result") -> Table:
    """Return the table of assumptions, and how each was checked."""
    rows = [[Cell(one.text), Cell(one.checked)] for one in assumptions(result)]
    return Table("Assumptions, and how each was checked", ["Assumption", "Checked"], 2, rows)


def _steps(result: "Result", command: str | None) -> list[tuple[str, str]]:
    """Return the steps to reproduce the result."""
    given, is_listed = result.given_noise_std, isinstance(result.given_noise_std, np.ndarray)
    if result.drift and isinstance(given, float):  # the level of bets has the drift in it
        given = float(f"{math.sqrt(given**2 - 0.5 * result.drift**2):.12g}")
    options = {name: repr(getattr(result, name)) for name in ("delta", "epsilon", "seed", "algorithm", "model")}
    if result.reward_range is not None:
        options["reward_range"] = repr(result.reward_range)
    elif given is not None:
        options["noise_std"] = "..." if is_listed else repr(given)  # one for each arm
    more = {
        "m": result.m if result.m > 1 else None,
        "pool": result.pool,
        "audit": result.n_checks or None,
        "noise": result.noise if result.noise not in ("same", "drift") else None,
        "drift": result.drift or None,
        "groups": "offset" if result.has_offsets else None,
        "budget": result.budget if result.batch is None else None,
        "batch": result.batch,
        "rounds": result.rounds,
        "goal": result.goal if result.goal != "confidence" else None,
        "misfit": result.allowed_misfit or None,
        **_target_options(result),
    }
    options |= {name: repr(value) for name, value in more.items() if value is not None}
    options |= {"costs": "..."} if result.has_costs else {}
    listed = ", ".join(f"{name}={value}" for name, value in options.items())
    again = (
        'earlier = sp.Result.load("result.json")\n'
        "same = sp.identify(arms, measure, max_pulls=0, history=earlier.history, ...)  # the options above\n"
        "assert same.best == earlier.best"
    )
    steps = [
        ("The command that made this page:", command or ""),
        (
            f"With surepick {__version__}, the same arms and the same rewards, this gives the same pulls:",
            f"import surepick as sp\n\nresult = sp.identify(arms, measure, {listed})",
        ),
        ("From a saved result, every decision is worked out again from the rewards, without measuring:", again),
    ]
    return [(words, code) for words, code in steps if code]


def _target_options(result: "Result") -> dict[str, Any]:
    """Return `threshold`, `control`, `margin` and `calls` as they were given."""
    target = result.specification
    if target is None:
        return {}
    names = result.compared.names
    given: dict[str, Any] = {"threshold": target.value}
    if target.control is not None:
        given = {"control": target.control if names is None else names[target.control], "margin": -target.value or None}
    return {**given, "calls": target.calls if target.calls != "all" else None}


def _settings(result: "Result") -> list[tuple[str, str]]:
    """Return the exact settings: for people who check the result, not for those who read it."""
    identity = str(result.history.log[0][1]) if result.history.log else ""
    listed = {"Stopping rule": result.rule, "Algorithm": result.algorithm, "Seed": str(result.seed)}
    return [(name, value) for name, value in {**listed, "Identity": identity}.items() if value]


def _known(value: float, places: int) -> str:
    return fixed(value, places) if math.isfinite(value) else NOTHING
