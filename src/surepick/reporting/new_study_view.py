"""The page of a new study: its fields, the arms and options that they say, its plan, and sentences of the library.

The library names options as Python spells them; the page has fields and roles of columns instead.
"""

import base64
import math
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from surepick._texts import joined
from surepick.arms.tables.by_role import ONCE, ROLES, column_roles, read_by_role, table_of_upload
from surepick.errors import InvalidInput
from surepick.learning.spec import DEFAULTS, IN_PLAN, Spec
from surepick.planning.plan import plan
from surepick.reporting.html import Cell, Table
from surepick.reporting.study_words import typed_number
from surepick.study.events import MOST_FEATURES

if TYPE_CHECKING:
    from surepick.arms.tables.read import TableArms
    from surepick.planning.plan import Plan

MOST_PLANNED = 2_000
"""Arms of a plan that takes seconds."""
MOST_NUMBERS = 1_000_000
"""Features of all arms together."""

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


class OptionField(NamedTuple):
    """An option that few studies need, in plain words; its field is called like the option."""

    label: str
    note: str
    choices: Mapping[str, str] = {}
    """Of an option that is one of several words: what each word means."""


MORE: Mapping[str, OptionField] = {
    "threshold": OptionField(
        "Threshold, if every arm is judged by a value",
        "Each arm is called met (its mean is above this value) or failed. No best arm is looked for.",
    ),
    "control": OptionField(
        "Control, if every arm is compared with one",
        "Name of that arm, such as the recipe in use. Each other arm is called met (its mean is above that of the "
        "control) or failed.",
    ),
    "margin": OptionField(
        "Margin beside a control", "An arm that is worse than the control by at most this counts as met."
    ),
    "calls": OptionField(
        "Calls: what the risk is about",
        "Only with a threshold or a control. With fdr a small share of the calls may be wrong, "
        "which saves measurements.",
        {"all": "all: hardly any call is wrong", "fdr": "fdr: few calls are wrong"},
    ),
    "groups": OptionField(
        "Groups, such as days, benches or plates",
        "Watch: a group that reads high or low is named. Offset: groups may read high or low, and the answer does not "
        "depend on it. You say the group when you ask, or when you record a value.",
        {"watch": "watch: name odd groups", "offset": "offset: allow odd groups"},
    ),
    "batch": OptionField(
        "Batch, if arms are measured together", "Measurements on one plate or in one run, such as 96."
    ),
    "rounds": OptionField("Rounds, beside a batch", "The most batches. They take the place of the budget."),
    "pool": OptionField(
        "Pool: number of items, such as questions",
        "Every arm has one fixed score on each item, and the best has the largest mean over all. Scores are pass or "
        "fail, or numbers between bounds.",
    ),
    "noise": OptionField(
        "Noise, where the scatter is learnt",
        "Weaker assumptions take more measurements. Leave this as it is for pass or fail, and for bounds.",
        {
            "same": "same: normal, as large for every arm",
            "per-arm": "per-arm: normal, larger for some arms",
            "symmetric": "symmetric: high and low are as likely, also with outliers",
            "any": "any: the same for all arms",
        },
    ),
    "drift": OptionField(
        "Drift within a block",
        "How far readings of one arm may wander while a block is measured. The scatter must be known.",
    ),
    "goal": OptionField(
        "Goal: what ends the study",
        "The study ends with a proved answer, or with a spent budget. A spent budget answers with the best estimate.",
        {"confidence": "confidence: a proved answer", "fixed-budget": "fixed-budget: a spent budget"},
    ),
}
"""Options behind a fold of the page, by name."""
CHOSEN = {name: DEFAULTS[name] if field.choices else "" for name, field in MORE.items()}
"""What these fields say at first."""
AT_FIRST = {"kind": "number", "how many": "1", "how sure": "95", "loss": "0", **CHOSEN}
FORM = (*AT_FIRST, "name", "sheet", "smallest", "largest", "budget", "lead", "scatter", "known", "title", "draft", "do")
"""Fields of the form; errors call them by these names."""
SET = {"drop": ROLES["out"], **{option: ROLES[role] for role, option in ONCE.items()}}
"""Options that name a column, and the role of that column."""
RULES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (", or let `on_span` do it", lambda _: ""),
    (
        "; give `noise_std` beside it, and leave out .*",
        lambda _: '; fill in "scatter", tick the box below it, and choose "a number with noise" as the measurement.',
    ),
    (r': sheet="[^"]*"', lambda _: ' in the field "Sheet"'),
    (rf'\b({"|".join(SET)})="([^"]*)"', lambda found: f'the role "{SET[found[1]]}" for {found[2]!r}'),
    (r"\b(say another|list columns as) `\w+`", lambda _: "change roles"),
    (r"`(\w+)`", lambda found: f'"{FIELDS.get(found[1], found[1])}"'),
)
LABELS = {"lead": '"Lead of the best over the next"', "scatter": '"Scatter of one measurement"'}
"""Fields that a plan needs, by the labels of the page."""


def in_page(text: str) -> str:
    """Return a sentence of the library in the words of the page."""
    for pattern, said in RULES:
        text = re.sub(pattern, said, text)
    return text


def form_view(sent: Mapping[str, str]) -> dict[str, Any]:
    """Return what the page shows of a form before its table is read."""
    form = {**dict.fromkeys(FORM, ""), **AT_FIRST, **sent}
    is_set = any(form[name] != at_first for name, at_first in CHOSEN.items())
    known: dict[str, Any] = {"form": form, "problem": "", "columns": [], "arms": "", "announced": [], "plan": None}
    return known | {"more": MORE, "is_set": is_set, "is_guessed": False}


def understood(view: dict[str, Any], roles: Mapping[str, str]) -> "tuple[TableArms, dict[str, Any]]":
    """Return arms and options of the study; `view` gets what is known, also if an error ends this.

    Args:
        view: of the form.
        roles: that a person chose, by the titles of their columns; roles of other columns are left out.
    """
    form = view["form"]
    if form["title"] and not form["draft"]:
        raise InvalidInput(f"{form['title']} is empty; choose a file with one line for each arm.")
    if not form["draft"]:
        raise InvalidInput("choose a file: a table with one line for each arm, as CSV or Excel.")
    try:
        content = base64.b64decode(form["draft"], validate=True)
    except ValueError:
        raise InvalidInput("the file was changed on its way; choose it again.") from None
    form["name"] = form["name"] or PurePath(form["title"]).stem
    table = table_of_upload(form["title"], content, form["sheet"] or None)
    titles = [" ".join(title.split()) for title in table.cells]
    is_same = roles.keys() == {*titles}
    view["is_guessed"] = bool(roles) and not is_same
    view["columns"] = column_roles(table, [roles[title] for title in titles] if is_same else [])
    with warnings.catch_warnings(action="ignore"):  # which are for a terminal
        arms = read_by_role(table, view["columns"], MOST_FEATURES, MOST_NUMBERS)
    view["arms"] = arms.roles.head
    view["announced"] = [(word, [in_page(text) for text in texts]) for word, texts in arms.roles.entries]
    return arms, options_of(form, arms)


def planned(arms: "TableArms", options: Mapping[str, Any], form: Mapping[str, str]) -> "PlanView":
    """Return the plan for a guess of the lead."""
    if arms.n_arms > MOST_PLANNED:
        raise InvalidInput(
            f"a plan is for at most {MOST_PLANNED:,} arms here; use `surepick plan`, or leave the lead empty."
        )
    if calls := [name for name in ("threshold", "control") if name in options]:
        raise InvalidInput(
            f'"lead" is a guess for a search of the best arm, and "{calls[0]}" asks for calls; leave "lead" empty, or '
            f"plan by `surepick plan --{calls[0]}` with results of before (--pilot)."
        )
    if "pool" in options:
        raise InvalidInput(
            'a "pool" has no plan: its number of items depends on the correlation of the scores; leave "lead" empty.'
        )
    known = {name: value for name, value in options.items() if name in IN_PLAN}
    needs_scatter = not known.keys() & {"rewards", "reward_range", "noise_std"}
    if missing := [name for name, is_due in (("lead", True), ("scatter", needs_scatter)) if is_due and not form[name]]:
        raise InvalidInput(f"a plan needs a guess in {joined([LABELS[name] for name in missing])}.")
    if needs_scatter:
        known["noise_std"] = number_in(form, "scatter")
    with warnings.catch_warnings(action="ignore"):
        return plan_view(plan(arms, gap=number_in(form, "lead"), **known), options)


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
    if form["known"] and arms.noise_std is None:
        given["noise_std"] = number_in(form, "scatter")
    given |= {name: _typed(form, name) for name, at_first in CHOSEN.items() if form[name] not in ("", at_first)}
    given |= {"delta": round(1.0 - sure / 100.0, 12), "epsilon": number_in(form, "loss")}
    given["m"] = int(many) if many.is_integer() else many
    known = {name: value for name, value in given.items() if value is not None}
    Spec.of(options=known)  # to refuse at once what cannot be
    return known


def _typed(form: Mapping[str, str], option: str) -> Any:
    """Return the value of an option as its type in `Spec` has it: a text, or a number."""
    kind = Spec.__annotations__[option]
    if MORE[option].choices or str in get_args(kind):
        return form[option]
    number = number_in(form, option)
    return int(number) if "int" in str(kind) and number.is_integer() else number


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
    if left := [name for name in MORE if name in options and name not in IN_PLAN]:
        words += f" The plan is made without {joined(left)}, which may take more or fewer measurements."
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
