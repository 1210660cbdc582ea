"""`read_arms`: read arms from a table, for Python and for the command line."""

import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, cast, final

import numpy as np

from surepick._texts import check_line, control_in
from surepick.arms.base import Groups, duplicate_groups
from surepick.arms.finite import FeatureTable, FiniteArms, with_constant
from surepick.arms.tables.columns import (
    Column,
    Roles,
    check_describes,
    check_points,
    filled_cells,
    mixture_slips,
    purpose_of,
    quoted,
    read_column,
    repeated,
    seems_a_name,
    shifted_points,
    text_of,
)
from surepick.arms.tables.joining import NAME_HEADERS, read_joining, written_table
from surepick.arms.tables.sources import Problems, Table, open_table
from surepick.arms.tables.terms import Terms, formula_terms, named_in, terms_of
from surepick.errors import ArmsDoNotSpan, InvalidInput, TableWarning, listed, what_was_meant
from surepick.types import Array

# Weights below this share of the largest are rounding.
NEGLIGIBLE = 1e-7


def redundant_features(R: Array, names: Sequence[str]) -> dict[str, str]:
    """Return the features that follow from earlier ones, each with the reason.

    Args:
        R: (d, d) upper triangular with R'R = X'X.
        names: names of the features.
    """
    scale = np.abs(R).max(axis=0)
    columns = R / np.where(scale > 0.0, scale, 1.0)
    found: dict[str, str] = {}
    before: list[int] = []
    basis = np.empty((len(R), 0))  # orthonormal, of the columns before
    for j, name in enumerate(names):
        if scale[j] == 0.0:
            found[name] = "is always 0"
            continue
        rest = columns[:, j]
        for _ in range(2):  # twice, to remove rounding errors
            rest = rest - basis @ (basis.T @ rest)
        size = np.linalg.norm(rest)
        # As in `independent_columns`: features that agree to 14 digits are the same.
        if size > 100 * len(names) * np.finfo(float).eps * np.linalg.norm(columns[:, j]):
            basis = np.column_stack([basis, rest / size])
            before.append(j)
        else:
            weights = np.linalg.lstsq(columns[:, before], columns[:, j], rcond=None)[0] * scale[j] / scale[before]
            found[name] = _said(parts_of(weights, [names[k] for k in before], scale[before]))
    return found


def parts_of(weights: Array, names: Sequence[str], scale: Array) -> list[tuple[str, float]]:
    """Return the features that a combination needs, with their weights; `scale` has the sizes of the features."""
    size = np.abs(weights) * scale
    return [(names[k], float(weights[k])) for k in np.flatnonzero(size > NEGLIGIBLE * size.max()).tolist()]


def _said(parts: Sequence[tuple[str, float]]) -> str:
    if len(parts) > 1:
        return f"follows from {listed([name for name, _ in parts])}"
    ((other, factor),) = parts
    return f"is a copy of {other}" if abs(factor - 1.0) < NEGLIGIBLE else f"is {factor:.6g} times {other}"


class TableArms(FiniteArms):  # type: ignore[misc]  # behaves as FiniteArms in every method
    """Arms read from a table: `FiniteArms` with the roles of its columns."""

    roles: Roles
    """The role of every column; print it before you measure."""
    noise_std: Array | None = None
    """The noise of each arm, if a column has it: `identify(arms, pull, noise_std=arms.noise_std)`."""
    costs: Array | None = None
    """The cost of a pull of each arm, if a column has it: `identify(arms, pull, costs=arms.costs)`."""
    table: dict[str, Any] | None = None
    """The original columns, as a study keeps them; None if all of them are features under their own names."""


def read_arms(  # noqa: PLR0913 (every argument is an option of its own)
    source: Any,
    *,
    name_column: str | None = None,
    features: str | Iterable[str] | None = None,
    drop: str | Iterable[str] | None = None,
    interactions: bool = False,
    quadratic: bool = False,
    formula: str | None = None,
    intercept: bool | None = None,
    on_span: bool = False,
    noise_column: str | None = None,
    cost_column: str | None = None,
    sheet: str | None = None,
    trust_formula: bool = False,
    like: "TableArms | None" = None,
) -> TableArms:
    """Read arms from a table, one row for each, and describe the role of every column.

    Numbers are used as they are. A column of text or categories becomes one 0/1 column per level except the first in
    sorted order, the reference. `print(arms.roles)` shows all roles, as the command line does before it measures.
    Semicolons or tabs between columns, decimal commas, Latin-1 and a byte order mark are recognised, and listed there.

    Args:
        source: a CSV file with a header line, an Excel (`.xlsx`), Parquet, Arrow or `.npy` file, or a data frame
            (pandas, polars, Arrow, or a mapping of columns).
        name_column: the column with the arms' names. Default: the index of a data frame, if it has one; else a column
            headed name, arm or id; else the first column of text in which no two rows agree; else rows are numbered.
        features: the only columns to use.
        drop: columns to leave out.
        interactions: add the product of any two columns, named `temp:time`.
        quadratic: add the square of every column of numbers, named `temp^2`, unless the column has only two values.
        formula: features by a Wilkinson formula such as `"temp * catalyst + C(solvent)"`, read by the library formulaic
            (`surepick[tables]`), instead of the four options above. It has a constant unless it says `0 +`.
            It may call log, exp, sqrt, C, poly, bs and a few more functions; all others are refused.
        intercept: whether to put a constant 1 in front. Default: yes, unless some combination of the columns is
            constant; a `.npy` file is used as it is.
        on_span: whether to leave out features that follow from others, instead of refusing them.
        noise_column: the column with the noise of each arm, as `noise_std`; not a feature.
        cost_column: the column with the cost of a pull of each arm, as `costs`; not a feature.
        sheet: the sheet of an Excel file, if several have cells.
        trust_formula: allow any Python that formulaic evaluates. The formula can then run any program: use this option
            with your own formulas only.
        like: arms that were read before, whose rules hold: the same features, levels and formula. Unknown levels are
            refused. `name_column` and `sheet` are the only other options. The arms may be few: candidates, or arms that
            join a study.

    Returns:
        `FiniteArms` with names, feature names, `roles`, `noise_std` and `costs`, for `identify` and `Learner`.

    Raises:
        InvalidInput: the table cannot be used; the error names the cell.
        ArmsDoNotSpan: some features follow from others; the error names them.

    Examples:
        >>> arms = read_arms({"name": ["A", "B", "C", "D"], "temp": [60, 80, 80, 60], "solvent": ["W", "E", "W", "E"]})
        >>> arms.names, arms.feature_names
        (('A', 'B', 'C', 'D'), ('constant', 'temp', 'solvent=W'))
        >>> print(arms.roles)
        4 arms, 3 features, from the data frame
          constant    added: no combination of the columns is the same in every row
          numbers     temp
          categories  solvent: E (reference), W
          names       column 'name'
    """
    if like is not None:
        written = {"features": like.feature_names, "names": like.names, "table": like.table}
        return cast("TableArms", read_joining(source, written, name_column=name_column, sheet=sheet))
    table = open_table(source, sheet=sheet)
    expands = {"interactions": interactions or None, "quadratic": quadratic or None}
    _check_options(formula, {"features": features, "drop": drop, **expands, "intercept": intercept})
    aside = {"noise_column": noise_column, "cost_column": cost_column}
    read = _read(table, _Told(name_column, aside, _titles(table, features), _titles(table, drop) or [], formula))
    if formula is not None:
        terms, intercept = formula_terms(formula, read.columns, table, trusts=trust_formula), False
    else:
        # A .npy file is used as it is: its author decides on a constant.
        intercept = False if intercept is None and not table.has_titles else intercept
        terms = terms_of(read.columns, interactions=interactions, quadratic=quadratic, intercept=intercept)
    arms, redundant = _built(table, terms, read, intercept=intercept, on_span=on_span)
    for option, column in read.aside.items():
        setattr(arms, "noise_std" if option == "noise_column" else "costs", column.numbers)
    label = str if arms.names is None else arms.names.__getitem__
    alike = duplicate_groups(arms)
    with_commas = [column.title for column in [*read.columns, *read.aside.values()] if column.has_commas]
    commas = ", ".join(map(quoted, with_commas))
    arms.roles = Roles(
        source=table.title,
        notes=(*table.notes, f"decimal commas in {commas}") if commas else table.notes,
        n_arms=arms.n_arms,
        feature_names=arms.feature_names,
        constant=_constant(arms, read.columns, formula=formula, intercept=intercept),
        formula=formula,
        numbers=tuple(dict.fromkeys(terms.numbers)),
        categories=terms.categories,
        products=tuple(name for name in terms.products if name in arms.feature_names),
        squares=tuple(name for name in terms.squares if name in arms.feature_names),
        left_out=(*terms.left_out, *redundant),
        names=read.choice.naming(table),
        noise=noise_column,
        cost=cost_column,
        dropped=tuple(f"{quoted(title)} ({why})" for title, why in (read.choice.dropped | terms.dropped).items()),
        not_used=read.not_used(),
        attention=(
            *(text for column in read.columns for text in column.attention()),
            *shifted_points(table, read.columns),
            *filter(None, [mixture_slips(table, read.columns)]),
            *_saturated(arms, alike),
            *read.hints(),
        ),
        alike=tuple(tuple(map(label, group)) for group in alike),
    )
    shown = without_numbers(table, _titles(table, drop) or [])
    arms.table = written_table(shown, read.columns, read.choice.name_column, arms.feature_names, formula)
    return arms


def without_numbers(table: Table, dropped: Sequence[str]) -> Table:
    """Return a table without those of the dropped columns that are no part of a recipe: numbers, such as old results.

    Text is shown to the bench as a note, and so are prices, dates and running numbers.
    """
    hidden = {title for title in dropped if purpose_of(table, title) is None and _has_numbers_alone(table, title)}
    return replace(table, cells={title: cells for title, cells in table.cells.items() if title not in hidden})


def _has_numbers_alone(table: Table, title: str) -> bool:
    problems = Problems(table)
    is_number = read_column(table, title, problems).numbers is not None
    return is_number and not any(str(table.cells[title][row] or "").strip() for row in problems.rows)


def guessed_columns(table: Table) -> tuple[str | None, dict[str, str]]:
    """Return the column that `read_arms` takes for names, and the columns that it leaves out, each with the reason."""
    choice = _choice(table, _Told())
    return choice.name_column, choice.dropped


def frame_features(frame: Any, *, intercept: bool | None, argument: str, names: Sequence[str] | None) -> FeatureTable:
    """Read the features of a data frame as `read_arms` does, and warn of columns that it takes for no feature."""
    table = open_table(frame, title="the data frame" if argument == "arms" else f"`{argument}`")
    table = table if names is None else replace(table, names=names)  # they replace an index
    read = _read(table, _Told())
    if not_used := read.not_used():
        warnings.warn(f"{not_used}{OF_READ_ARMS}", TableWarning, stacklevel=_level_of_call())
    terms = terms_of(read.columns, interactions=False, quadratic=False, intercept=intercept)
    return with_constant(_checked_features(table, terms, read.choice), intercept=intercept, row_names=read.names)


def read_frame(frame: Any) -> "TableArms":
    """Read the arms of a data frame, and warn of columns that are taken for no feature."""
    arms = read_arms(frame)
    if not_used := arms.roles.not_used:
        warnings.warn(f"{not_used}{OF_READ_ARMS}", TableWarning, stacklevel=_level_of_call())
    return arms


def read_candidates(frame: Any, arms: Any, *, title: str) -> Any:
    """Read candidates by the rules of arms that were read from a table; names are read if there are some."""
    table, first = open_table(frame, title=title), arms.table
    usual = (*NAME_HEADERS, "" if first is None or first["names"] is None else first["names"].lower())
    has_names = table.names is not None or any(column.lower() in usual for column in table.columns)
    written = {"features": arms.feature_names, "names": () if has_names else None, "table": first}
    return read_joining(frame, written, title=title)


def _level_of_call() -> int:
    """Return the `stacklevel` of the user's call, for a warning in the function that asks."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals["__name__"].split(".")[0] in ("surepick", "contextlib"):
        level, frame = level + 1, frame.f_back
    return level


OF_READ_ARMS = " Read the data frame by `read_arms` for that."


class _Told(NamedTuple):
    """What the user says about the columns."""

    name_column: str | None = None
    aside: Mapping[str, str | None] = MappingProxyType({})
    """The columns of noise and cost, by option."""
    features: list[str] | None = None
    drop: Sequence[str] = ()
    formula: str | None = None


@final
@dataclass(frozen=True, slots=True)
class _Choice:
    """The role of each column."""

    name_column: str | None
    features: list[str]
    dropped: dict[str, str]
    """Unused columns, each with the reason."""
    taken_for: dict[str, str]
    """Those that surepick left out by itself, and the purpose of each."""

    def naming(self, table: Table) -> str:
        """Return the source of the names as text."""
        if self.name_column is not None:
            return f"column {self.name_column!r}"
        return "row numbers, from 0 on" if table.names is None else "the index of the data frame"


@final
@dataclass(frozen=True, slots=True)
class _Read:
    """Columns of a table, read and checked."""

    choice: _Choice
    names: Sequence[str] | None
    columns: list[Column]
    aside: dict[str, Column]
    """The columns of noise and cost, by option."""

    def hints(self) -> list[str]:
        """Return how to use columns that surepick left out by itself."""
        return [f"To use a dropped column, {self._advice}"] if self.choice.taken_for else []

    def not_used(self) -> str:
        """Name the columns that surepick left out by itself; "" if there are none."""
        columns = [f"{quoted(title)} ({purpose})" for title, purpose in self.choice.taken_for.items()]
        return f"Not used as features: {listed(columns)}. To use one, {self._advice}" if columns else ""

    @property
    def _advice(self) -> str:
        prices = [title for title, purpose in self.choice.taken_for.items() if purpose == "price"]
        pays = f' A price of each pull is cost_column="{prices[0]}".' if prices else ""
        return f"list all that you want as `features`.{pays}"


def _read(table: Table, told: _Told) -> _Read:
    """Choose the roles of the columns and read them; all bad cells are said at once, equal names first."""
    choice = _choice(table, told)
    problems = Problems(table)
    names = _names(table, choice.name_column, problems, is_told=choice.name_column == told.name_column)
    columns = [read_column(table, title, problems) for title in choice.features]
    if problems.first:
        problems.check()
    numbers = {option: _numbers(table, title, problems) for option, title in told.aside.items() if title is not None}
    check_points(table, [*columns, *numbers.values()], problems)
    problems.check()
    for column in columns:
        check_describes(table, column, is_asked_for=told.features is not None or told.formula is not None)
    return _Read(choice, names, columns, numbers)


def _names(table: Table, name_column: str | None, problems: Problems, *, is_told: bool) -> Sequence[str] | None:
    """Return the names of the arms; equal ones are the first of the problems. `is_told`: the user named the column."""
    if name_column is None:
        names: dict[int, str] = dict(enumerate(table.names or ()))
        where, other = "the index of the data frame names", "set another index"
    else:
        names = {row: text_of(cell) for row, cell in filled_cells(table, name_column, problems).items()}
        where = f"column {name_column!r} {'names' if is_told else 'seems to name'}"
        other = "say another `name_column`"
    if twice := repeated(names, table):
        problems.first = (
            f"{table.title}: {where} the arms, so no two rows may agree: {twice}. Change one of them, leave out a row "
            f"that is there twice, or {other}."
        )
    for row, name in names.items():
        if (bad := control_in(name)) is not None:
            problems.add(row, "a name must be a line of text, got", "; leave that out.", f"{name!r} with {bad!r}")
    return [*names.values()] if names else None


def _choice(table: Table, told: _Told) -> _Choice:
    name_column, aside, features, drop, formula = told
    for option, title in {"name_column": name_column, **aside}.items():
        _check_title(table, option, title)
    for title in features or drop:
        _check_title(table, "features" if features else "drop", title)
    if formula is not None:
        features = named_in(formula, list(table.cells))
    spoken_for = {*(features or ()), *drop, *aside.values()}
    if name_column in spoken_for - {None}:
        raise InvalidInput(f"column {name_column!r} cannot name the arms and have another role; leave one of them out.")
    free = [title for title in table.cells if title not in spoken_for and title != name_column]
    taken_for = {title: purpose for title in free if table.has_titles and (purpose := purpose_of(table, title))}
    if name_column is None and table.names is None:
        name_column = _name_column(table, free, taken_for, is_told=features is not None)
        taken_for.pop(name_column or "", None)
    rest = [title for title in table.cells if title not in (name_column, *aside.values())]
    if features is None:
        reasons = {title: f"looks like a {purpose}" for title, purpose in taken_for.items()}
        reasons |= dict.fromkeys(drop, "as you said")
        dropped = {title: reasons[title] for title in rest if title in reasons}
    else:
        why = "not in the formula" if formula is not None else "not among the features"
        dropped, taken_for = {title: why for title in rest if title not in features}, {}
    return _Choice(name_column, [title for title in rest if title not in dropped], dropped, taken_for)


def _name_column(table: Table, free: Sequence[str], taken_for: Mapping[str, str], *, is_told: bool) -> str | None:
    """Return the column that names the arms: by its header, else text with few repetitions or none, or a numbering.

    `is_told`: the user listed the features, so that a column with repetitions is none of the user's concern.
    """
    headed = [title for title in free if title.lower() in NAME_HEADERS]
    texts = [title for title in free if title not in taken_for and seems_a_name(table, title)]
    numbered = [title for title, purpose in taken_for.items() if purpose == "numbering"]
    unique = [title for title in texts if len(set(table.cells[title])) == table.n_rows]
    return next(iter([*headed, *unique, *([] if is_told else texts), *numbered]), None)


def _check_options(formula: str | None, others: Mapping[str, Any]) -> None:
    given = [option for option, value in others.items() if value is not None]
    if formula is not None and given:
        raise InvalidInput(
            f"a formula says by itself which features there are, so `{given[0]}` cannot go with it; write it "
            "into the formula."
        )
    if others["features"] is not None and others["drop"] is not None:
        raise InvalidInput("`features` are all that is used, so `drop` cannot go with them.")


def _titles(table: Table, titles: str | Iterable[str] | None) -> Any:
    """Return the columns that an option lists: a list, or a text with commas; the names of columns may have commas."""
    if not isinstance(titles, str):
        return titles if titles is None else [str(title) for title in titles]
    found, parts = [], titles.split(",")
    while parts:
        longest = (n for n in range(len(parts), 0, -1) if ",".join(parts[:n]).strip() in table.cells)
        n = next(longest, 1)
        found.append(",".join(parts[:n]).strip())
        parts = parts[n:]
    return found


def _check_title(table: Table, option: str, title: str | None) -> None:
    if title is None or title in table.cells:
        return
    meant = what_was_meant(title, table.cells, "columns")
    raise InvalidInput(f"{table.title} has no column {title!r} (`{option}`); {meant}")


def _checked_features(table: Table, terms: Terms, choice: _Choice) -> dict[str, Array]:
    for name in terms.features:
        check_line(f"{table.title}: the name of a feature", name)
    if not terms.features:
        roles = ({} if choice.name_column is None else {choice.name_column: "names the arms"}) | choice.dropped
        used = [f"{title!r} {why}" for title, why in (roles | terms.dropped).items()]
        left = f": column {listed(used)}" if used else ""
        raise InvalidInput(
            f"{table.title} has no feature columns{left}. Add one column of numbers or text for each property of an "
            "arm, or list columns as `features`."
        )
    return terms.features


def _built(
    table: Table, terms: Terms, read: _Read, *, intercept: bool | None, on_span: bool
) -> tuple[TableArms, list[str]]:
    """Return the arms, and the features left out because they follow from others."""
    rows = with_constant(_checked_features(table, terms, read.choice), intercept=intercept, row_names=read.names)
    try:
        return TableArms(rows), []
    except ArmsDoNotSpan as error:
        whole = FiniteArms.rows_only(rows)
        redundant = redundant_features(whole.triangle(), whole.feature_names)
        said = [f"{name} {how}" for name, how in redundant.items()]
        if on_span:
            kept = {name: values for name, values in terms.features.items() if name not in redundant}
            rows = with_constant(kept, intercept=whole.has_added_constant, row_names=read.names)
            return cast("TableArms", TableArms.on_span(rows)), said
        raise ArmsDoNotSpan(
            f"{table.title}: {whole.n_arms} arms cannot tell {whole.dim} features apart: "
            f"{listed(said, between='; ', last='; ') if said else str(error).partition(';')[0]}. Leave such features "
            "out, or let `on_span` do it."
        ) from error


def _numbers(table: Table, title: str, problems: Problems) -> Column:
    column = read_column(table, title, problems)
    if column.numbers is None:
        raise table.refusal(0, f"column {title!r} must be a number in every row, got {table.cells[title][0]!r}.")
    return column


def _constant(arms: TableArms, columns: Sequence[Column], *, formula: str | None, intercept: bool | None) -> str:
    """Return as text whether there is a constant, and why."""
    has_constant = arms.feature_names[0] == "constant"
    if formula is not None:
        return "by the formula" if has_constant else "none, by the formula"
    if intercept is not None:
        return "added, as you said" if intercept else "none"
    for column in columns:
        if column.numbers is not None and column.is_constant and column.numbers[0] != 0.0:
            return f"column {column.title!r}, which is {column.numbers[0]:g} in every row"
    if has_constant:
        return "added: no combination of the columns is the same in every row"
    scale = np.abs(arms.X).max(axis=0)
    weights = np.linalg.lstsq(arms.X / scale, np.ones(arms.n_arms), rcond=None)[0] / scale
    parts = [name for name, _ in parts_of(weights, arms.feature_names, scale)]
    return f"not added: a combination of {listed(parts)} is the same in every row"


def _saturated(arms: TableArms, alike: Groups) -> list[str]:
    n_different = arms.n_arms - sum(len(group) - 1 for group in alike)
    if arms.dim < n_different:
        return []
    counts = f"{arms.dim} features for {n_different} different arms"
    return [f"{counts}: no arm tells anything about another; use fewer features."]
