"""Features made from columns: products, squares, and Wilkinson formulas."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, final

import numpy as np

from surepick.arms.tables.columns import Column, Levels
from surepick.arms.tables.formula import ELEMENTWISE, Values, check_call, check_formula
from surepick.arms.tables.sources import Table
from surepick.core.checks import LARGEST
from surepick.errors import InvalidInput, SurepickError, what_was_meant
from surepick.types import Array

_CONTROL = re.compile(r"\x1b\[[0-9;]*m|[⧛⧚]")


@final
@dataclass(slots=True)
class Terms:
    """Features by name, in order, and the features left out."""

    features: dict[str, Array] = field(default_factory=dict)
    products: list[str] = field(default_factory=list)
    squares: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    """Columns used as numbers."""
    categories: dict[str, Levels] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    """Columns without a feature, each with the reason."""

    def add(self, name: str, values: Array) -> None:
        """Add a feature; refuse values that are too large to square."""
        if name in self.features:
            raise InvalidInput(f"two features are called {name!r}; rename a column, or a level of one.")
        if not np.isfinite(values).all() or np.abs(values).max() > LARGEST:
            row = int(np.argmin(np.isfinite(values) & (np.abs(values) <= LARGEST)))
            raise InvalidInput(
                f"feature {name!r} must be finite and at most {LARGEST:g} in size, got {values[row]:g} for arm {row}; "
                "use other units, or leave it out."
            )
        self.features[name] = values


def terms_of(columns: Sequence[Column], *, interactions: bool, quadratic: bool, intercept: bool | None) -> Terms:
    """Return the columns, then products of two columns, named temp:time, then squares of numbers, named temp^2."""
    terms = Terms()
    for column in columns:
        for name, values in column.encoded():
            terms.add(name, values)
        if column.numbers is None and column.is_constant:
            terms.dropped[column.title] = f"{column.texts[0]} in every row"
        elif column.numbers is not None:
            terms.numbers.append(column.title)
        else:
            terms.categories[column.title] = Levels(column.levels[0], column.levels[1:])
    varied = [column for column in columns if not column.is_constant]
    if interactions:
        _multiply(terms, varied)
    for column in varied if quadratic else ():
        if column.numbers is None:
            continue
        name, values = f"{column.title}^2", np.unique(column.numbers)
        if values.tolist() == [0.0, 1.0]:
            terms.left_out.append(f"{name}: {column.title} is 0 or 1, so its square is itself")
        elif len(values) == 2 and intercept is not False:
            terms.left_out.append(f"{name}: {column.title} has two values, so its square follows from it")
        else:
            terms.squares.append(name)
            terms.add(name, column.numbers**2)
    return terms


def _multiply(terms: Terms, columns: Sequence[Column]) -> None:
    for one, other in combinations(columns, 2):
        for name, values in one.encoded():
            for other_name, other_values in other.encoded():
                product = values * other_values
                if product.any():
                    terms.products.append(f"{name}:{other_name}")
                    terms.add(f"{name}:{other_name}", product)
                else:
                    terms.left_out.append(f"{name}:{other_name}: no arm has both")


def named_in(formula: str, titles: Sequence[str]) -> list[str]:
    """Return the columns that a formula names, as plain words or in backticks."""
    return [
        title
        for title in titles
        if f"`{title}`" in formula or re.search(rf"(?<![\w.`]){re.escape(title)}(?![\w`]|\s*\()", formula)
    ]


def formula_terms(
    formula: str,
    columns: Sequence[Column],
    table: Table,
    *,
    trusts: bool = False,
    new: Sequence[Column] | None = None,
) -> Terms:
    """Return the features of a formula such as "temp * catalyst + C(solvent)", evaluated by the library formulaic.

    formulaic evaluates Python: unless `trusts`, `check_formula` first refuses everything that is not listed. With `new`
    columns, the features are theirs: centres, polynomials and levels stay those of `columns`.
    """
    try:
        import formulaic  # noqa: PLC0415 - optional, and slow to import
        import pandas as pd  # noqa: PLC0415
    except ImportError as error:
        raise SurepickError("a formula needs formulaic and pandas; install surepick[tables].") from error
    known = {title: Values(0, is_number=True) for title in table.cells} | {
        column.title: Values(len(np.unique(np.array(column.texts or column.numbers))), column.numbers is not None)
        for column in columns
    }
    if not trusts:
        check_formula(formula, known, table.n_rows)
    frame = pd.DataFrame(_cells(columns), index=range(table.n_rows))
    try:
        read = formulaic.Formula(formula)
        if not isinstance(read, formulaic.SimpleFormula):
            raise InvalidInput(f"the formula must have the features alone, got {formula!r}; leave out ~ and |.")
        if not trusts:
            _check_factors(read, known, formula)
        # No other context: a formula refers to its columns, not to variables in scope.
        context = {name: function for name, function in ELEMENTWISE.items() if name not in known}
        with np.errstate(all="ignore"):  # non-finite numbers are refused below, with their place
            matrix = formulaic.model_matrix(read, frame, context=context, na_action="ignore", output="pandas")
            if new is not None:
                matrix = matrix.model_spec.get_model_matrix(pd.DataFrame(_cells(new)), context=context)
    except (formulaic.errors.FormulaicError, ArithmeticError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(_said(formula, _CONTROL.sub("", str(error)), list(table.cells))) from error
    factors = matrix.model_spec.encoder_state
    categories = {
        factor: {str(level): _level(level) for level in state["categories"]}
        for factor, (kind, state) in factors.items()
        if kind.value == "categorical"
    }
    terms = Terms()
    for name in matrix.columns:
        terms.add(_readable(name, categories), np.asarray(matrix[name], dtype=np.float64))
    parts = {part for name in terms.features for part in name.split(":")}
    for factor, levels in categories.items():
        own = tuple(level for level in levels.values() if f"{factor}={level}" in parts)
        terms.categories[factor] = Levels(next((level for level in levels.values() if level not in own), None), own)
    numeric = [column.title for column in columns if column.numbers is not None]
    terms.numbers += [title for factor in factors if factor not in categories for title in named_in(factor, numeric)]
    return terms


def _cells(columns: Sequence[Column]) -> dict[str, Any]:
    return {column.title: list(column.texts) or column.numbers for column in columns}


def _check_factors(read: Any, known: Mapping[str, Values], formula: str) -> None:
    """Check the parse of formulaic: every piece that formulaic will evaluate must be allowed."""
    for factor in {factor for term in read for factor in term.factors}:
        method = factor.eval_method.value
        if method == "python":
            check_call(factor.expr, known, formula)
        elif method != "literal" and factor.expr not in known:
            raise InvalidInput(f"the formula {formula!r} names {factor.expr!r}, which is not a column; name columns.")


def _readable(name: str, categories: Mapping[str, Mapping[str, str]]) -> str:
    """Return the name in this package: constant for Intercept, catalyst=b for catalyst[T.b] or catalyst[b]."""
    if name == "Intercept":
        return "constant"
    for factor, levels in categories.items():
        for written, level in levels.items():
            theirs = rf"{re.escape(factor)}\[(?:T\.)?{re.escape(written)}\]"
            ours = f"{factor}={level}".replace("\\", r"\\")
            name = re.sub(rf"(^|(?<=:)){theirs}", ours, name)
    return name


def _level(level: object) -> str:
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)


def _said(formula: str, why: str, titles: Sequence[str]) -> str:
    unknown = re.search(r"`([^`]*)` is not present", why)
    if unknown is None:
        return f"the formula {formula!r} cannot be used: {' '.join(why.split())}"
    meant = what_was_meant(unknown[1], titles, "columns")
    return f"the formula {formula!r} names {unknown[1]!r}, which is not a column; {meant}"
