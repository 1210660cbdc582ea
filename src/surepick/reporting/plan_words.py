"""The words of the page of a new study: options that its fields say, its plan, and sentences of the library.

The library names options as Python spells them; the page has fields and roles of columns instead.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from surepick.arms.tables.by_role import ONCE, ROLES
from surepick.errors import InvalidInput
from surepick.learning.spec import Spec
from surepick.reporting.html import Cell, Table
from surepick.reporting.study_words import typed_number

if TYPE_CHECKING:
    from surepick.arms.tables.read import TableArms
    from surepick.planning.plan import Plan

FIELDS = {
    "delta": "how sure",
    "drop": ROLES["out"],
    "epsilon": "loss",
    "gap": "lead",
    "m": "how many",
    "noise_std": "scatter",
    "reward_range": "smallest and largest",
}
"""Options, and the fields of the page that set them."""
SET = {"drop": ROLES["out"], **{option: ROLES[role] for role, option in ONCE.items()}}
"""Options that name a column, and the role of that column."""
RULES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (", or let `on_span` do it", lambda _: ""),
    (r': sheet="[^"]*"', lambda _: ' in the field "Sheet"'),
    (rf'\b({"|".join(SET)})="([^"]*)"', lambda found: f'the role "{SET[found[1]]}" for {found[2]!r}'),
    (r"\b(say another|list columns as) `\w+`", lambda _: "change roles"),
    (r"`(\w+)`", lambda found: f'"{FIELDS.get(found[1], found[1])}"'),
)


def in_page(text: str) -> str:
    """Return a sentence of the library in the words of the page."""
    for pattern, said in RULES:
        text = re.sub(pattern, said, text)
    return text


def options_of(form: Mapping[str, str], arms: "TableArms") -> dict[str, Any]:
    """Return the options of a study that the fields say, and the table of its arms.

    Raises:
        InvalidInput: a field has no number, or no study can have such options.
    """
    sure, many = number_in(form, "how sure"), number_in(form, "how many")
    if not 0.0 < sure < 100.0:
        raise InvalidInput(f'"how sure" must lie between 0 and 100 percent, such as 95, got {form["how sure"]!r}.')
    given: dict[str, Any] = {"noise_std": arms.noise_std, "costs": arms.costs}
    if form["kind"] == "pass":
        given["rewards"] = "binary"
    elif form["kind"] == "range":
        given["reward_range"] = (number_in(form, "smallest"), number_in(form, "largest"))
    given["budget"] = number_in(form, "budget") if form["budget"] else None
    given |= {"delta": round(1.0 - sure / 100.0, 12), "epsilon": number_in(form, "loss")}
    given["m"] = int(many) if many.is_integer() else many
    known = {name: value for name, value in given.items() if value is not None}
    Spec.of(options=known)  # to refuse at once what cannot be
    return known


def number_in(form: Mapping[str, str], field: str) -> float:
    """Return the number in a field."""
    return typed_number(form[field], f'"{field}"')


class PlanView(NamedTuple):
    """A plan as a page shows it."""

    words: str
    table: Table
    """The plan among those for other risks and losses."""


def plan_view(plan: "Plan", options: Mapping[str, Any]) -> PlanView:
    """Return a plan in words and as a table; `options` are those of the study."""
    words, budget = in_page(plan.explain()), options.get("budget")
    if budget is not None and budget < (plan.pulls if plan.cost is None else plan.cost):
        words += f" Your budget of {budget:g} is below that: the study will probably end without a verdict."
    plans = {(one.delta, one.epsilon): one for one in (*plan.by_risk, *plan.by_slack)}
    headers = ["How sure", "Loss", "Measurements", "In 8 of 10 runs", *(["Cost"] if plan.cost is not None else [])]
    rows = [[Cell(text) for text in _row(one)] for one in plans.values()]
    return PlanView(words, Table("Plans", headers, 1, rows, first=list(plans).index((plan.delta, plan.epsilon))))


def _row(plan: "Plan") -> list[str]:
    sure, span = f"{100.0 * (1.0 - plan.delta):.6g} %", f"{_count(plan.low)} to {_count(plan.high)}"
    cost = [] if plan.cost is None else [_count(plan.cost)]
    return [sure, f"{plan.epsilon:.3g}", _count(plan.pulls), span, *cost]


def _count(number: float) -> str:
    return f"{float(f'{number:.2g}'):,.0f}" if math.isfinite(number) else "-"
