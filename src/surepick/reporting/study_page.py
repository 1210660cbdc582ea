"""The page of a study: its result, its author and dates, its workers, and the changes of measurements."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surepick.arms.base import recipe_of
from surepick.reporting.html import Cell, Table
from surepick.reporting.result_page import NOTHING, Given, fitting, page_of, write_page

if TYPE_CHECKING:
    from surepick.study.eras import ArmCatalog
    from surepick.study.state import State
    from surepick.study.study import Study


def write_study_page(
    study: "Study",
    path: Path,
    *,
    title: str = "",
    unit: str = "",
    notes: Sequence[str] = (),
    steps: Sequence[tuple[str, str]] = (),
) -> None:
    """Write the page of a study: its result, its author and dates, its workers, and the changes of measurements.

    Args:
        study: the study.
        path: file to write.
        title: title of the page; default: the name of the study.
        unit: unit of the measured values, such as "kg".
        notes: further sentences below the verdict.
        steps: steps to check the result, each a sentence and code.
    """
    with study.held():
        result, recipes, state = study.result(), study.recipes, study.state
        first = state.eras[0]
        facts = [("Study created", _date(first["at"])), ("Author", first["by"] or NOTHING)]
        if state.measurements:
            facts.append(("Last measurement", _date(state.measurements[-1].at)))
        given = Given(facts, [_workers(state), _changes(state)])
        page = page_of(
            result,
            title=title or study.name,
            command=None,
            steps=steps,
            recipes=recipes,
            notes=notes,
            unit=unit,
            find_recipe=partial(_recipe_in, state.catalog),
            given=given,
        )
    write_page(page, path)


def _recipe_in(catalog: "ArmCatalog", row: int) -> Mapping[str, Any]:
    """Return the recipe of a candidate that the learner of a study names by its own row number."""
    if catalog.candidates is None:
        return catalog.recipe(catalog.candidate_key(row))
    rows = catalog.candidates.get("rows")
    return {} if rows is None else recipe_of({"features": catalog.written.get("features")}, row, rows[row])


def _date(time: str) -> str:
    """Return a time of the log to the minute. Pages travel, so times are not local."""
    return f"{time[:10]} {time[11:16]}\u00a0UTC"


def _workers(state: "State") -> Table:
    """Return the table of workers with the counts of their measurements."""
    told: dict[str, list[Any]] = {}
    for one in state.measurements:
        told.setdefault(one.by, []).append(one)
    rows = []
    for worker, some in sorted(told.items(), key=lambda pair: -len(pair[1])):
        counts = (len(some), sum(one.is_void for one in some), sum(one.is_corrected for one in some))
        cells = [worker or NOTHING, *(f"{n:,}" for n in counts), _date(some[0].at), _date(some[-1].at)]
        rows.append([Cell(text) for text in cells])
    headers = ["Worker", "Measurements", "Of these void", "Of these corrected", "First", "Last"]
    return fitting(Table("Who measured", headers, 1, rows), "the log has all")


def _changes(state: "State") -> Table:
    """Return the table of measurements that were made void, corrected or restored, with the reasons."""
    rows = []
    for one in state.measurements:
        before = f"{one.told:.12g}"
        for change in one.changes:
            value = "void" if change.value is None else f"{change.kind.value}: {change.value:.12g}"
            cells = (str(one.id), state.catalog.label(one.arm), before, value, change.reason)
            rows.append([Cell(text) for text in (*cells, change.by or NOTHING, _date(change.at))])
            before = "void" if change.value is None else f"{change.value:.12g}"
    headers = ["No.", "Arm", "Before", "Since the change", "Reason", "By", "When"]
    table = Table("Void and corrected measurements", headers, len(headers) + 1, rows)
    return fitting(table, "the log has all")
