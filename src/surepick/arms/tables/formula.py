"""Formulas that are safe to evaluate: columns, numbers, Wilkinson's operators, and a fixed list of functions.

The library formulaic evaluates Python, so a formula from a stranger could run any program. `check_formula` first parses
the formula without evaluating it, refuses every piece that is not listed, and bounds the number of features.
"""

import ast
import keyword
import re
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from surepick.errors import InvalidInput, what_was_meant

ELEMENTWISE: Mapping[str, Any] = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "sqrt": np.sqrt, "abs": np.abs, "sin": np.sin, "cos": np.cos, "tan": np.tan,
}  # fmt: skip
"""Functions of numbers; `np.log` is `log`."""
_SPLINE = ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound", "extrapolation")
OPTIONS: Mapping[str, tuple[str, ...]] = {
    **{f"{before}{name}": () for before in ("", "np.") for name in ELEMENTWISE},
    "I": (),
    "center": (),
    "scale": ("center", "scale", "ddof"),
    "standardize": ("center", "rescale", "ddof"),
    "poly": ("degree", "raw"),
    "bs": _SPLINE,
    **dict.fromkeys(("cr", "cs", "cc"), ("df", "knots", "lower_bound", "upper_bound", "extrapolation")),
    "C": ("contrasts", "levels", "spans_intercept"),
}
"""Functions of columns, and their options."""
CONTRASTS: Mapping[str, tuple[str, ...]] = {
    **{f"contr.{name}": ("base",) for name in ("treatment", "SAS")},
    **{f"contr.{name}": () for name in ("sum", "helmert", "diff", "poly")},
    "Treatment": ("reference",),
    **dict.fromkeys(("Sum", "Helmert", "Diff", "Poly"), ()),
}
"""Functions that the second argument of C may call, and their options."""
LONGEST = 10_000
"""Most characters of a formula."""
HIGHEST = 20
"""Highest degree of a polynomial or a power, and most degrees of freedom of a spline."""
MOST_KNOTS = 50
MOST_FEATURES = 5_000
"""Most features, by a bound that counts products more than once, as formulaic forms them."""
MOST_NUMBERS = 20_000_000
"""Most numbers in the table of features: 160 MB."""

_WORD = re.compile(r"`([^`]*)`|(?<![\w.])([.\w]+)(?![\w.(])")
"""A name in backticks, or a word without a parenthesis after it."""
_PLAIN_TEXT = re.compile(r"[^\"'`\\()\[\]{}]*")
"""Of a level. formulaic writes calls into texts of its own, where a quotation mark would end them."""


class Values(NamedTuple):
    """The values of a column."""

    n_different: int
    is_number: bool

    @property
    def n_features(self) -> int:
        """Most features that the column alone makes."""
        return 1 if self.is_number else max(self.n_different, 1)


def check_formula(formula: str, columns: Mapping[str, Values], n_rows: int) -> None:
    """Refuse a formula that does more than make features of columns, or makes too many features.

    Args:
        formula: the formula.
        columns: columns of the table, by name.
        n_rows: number of rows of the table.

    Raises:
        InvalidInput: the formula is not allowed; the error names the piece.
    """
    if len(formula) > LONGEST:
        raise InvalidInput(
            f"a formula must have at most {LONGEST:,} characters, got {len(formula):,}; use fewer terms."
        )
    try:
        checker = _Checker(formula, formula, columns)
        size = checker.size(checker.tree)
    except RecursionError as error:
        raise _refusal(formula, "it has too many operators in one function") from error
    if size * n_rows > MOST_NUMBERS:
        raise InvalidInput(
            f"the formula {formula!r} makes up to {size:,} features for {n_rows:,} arms, and {MOST_NUMBERS:,} numbers "
            "are the most; name fewer products, or columns with fewer levels."
        )


def check_call(text: str, columns: Mapping[str, Values], formula: str) -> None:
    """Refuse a call that formulaic is about to evaluate, unless every piece of the call is allowed."""
    checker = _Checker(text, formula, columns)
    if not isinstance(checker.tree, ast.Call):
        raise _refusal(formula, f"{text[:60]!r} is not a call of a function")
    checker.features(checker.tree)


class _Checker:
    """Parses a formula, or a call in a formula, as Python and checks the tree; evaluates nothing.

    A formula is Python but for names in backticks, `:` and `^`. Names that Python cannot read become placeholders; `:`
    becomes `@`, which binds less, so that the number of features is never underestimated; `^` becomes `** +`, which is
    refused inside functions, where formulaic would compute an exclusive or.

    Args:
        text: the text to check.
        formula: the formula that contains the text.
        columns: columns of the table, by name.
    """

    def __init__(self, text: str, formula: str, columns: Mapping[str, Values]) -> None:
        self._formula, self._columns = formula, columns
        self._names: dict[str, str] = {}
        self._bare: set[str] = set()  # placeholders of names without backticks
        self.tree = self._parsed(text)

    def _parsed(self, text: str) -> ast.expr:
        if re.search(r"quoted_[0-9]+_", text):
            raise _refusal(self._formula, "names such as 'quoted_0_' are used inside; write it in backticks")
        code = re.sub(r"\s", " ", _WORD.sub(self._placed, text))
        for mark in re.findall(r"[~|@]", re.sub(r"\"[^\"]*\"|'[^']*'", "", code)):
            if mark == "@":
                raise _refusal(self._formula, "'@' is not an operator of formulas")
            raise InvalidInput(f"the formula must have the features alone, got {self._formula!r}; leave out ~ and |.")
        code = code.replace("^", "** +").replace(":", "@").replace("#", "$")  # a comment would hide the rest
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "2or x" is refused below, in our own words
                return ast.parse(code.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            why = f" ({error.msg})" if isinstance(error, SyntaxError) else ""
            raise _refusal(self._formula, f"{text[:60]!r} cannot be read{why}") from error

    def _placed(self, found: re.Match[str]) -> str:
        """Return a placeholder for a name in backticks, or for a column name that Python cannot parse."""
        quoted, word = found.groups()
        if quoted is None:
            is_python = word.isascii() and word.isidentifier() and not keyword.iskeyword(word)
            if is_python or word not in self._columns or word.replace(".", "", 1).isdecimal():
                return str(word)
        elif not _PLAIN_TEXT.fullmatch(re.sub(r"[()\[\]]", "", quoted)):
            raise _refusal(self._formula, f"the column {quoted!r} has quotation marks or the like; rename it")
        placeholder = f"quoted_{len(self._names)}_"
        self._names[placeholder] = word if quoted is None else quoted
        self._bare |= {placeholder} if quoted is None else set()
        return placeholder

    def size(self, node: ast.expr) -> int:
        """Return the most features that a part of a formula can make."""
        total = 0
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):  # no recursion: sums are long
            total += self.size(node.right)
            node = node.left
        match node:
            case ast.Name(id=name):
                total += self._column(name).n_features
            case ast.Constant(value=value) if type(value) in (int, float):
                total += 1
            case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
                total += self.size(operand)
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
                one, other = self.size(left), self.size(right)
                total += one + other + one * other
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                total += self.size(left) * self.size(right)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                total += self.size(left) ** self._power(right)
            case ast.Call():
                total += self.features(node)
            case _:
                raise self._refusal(node, "is neither a column, a number nor a function")
        if total > MOST_FEATURES:
            raise _refusal(self._formula, f"its products make more than {MOST_FEATURES:,} features; name fewer of them")
        return total

    def _power(self, node: ast.expr) -> int:
        number = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd) else node
        value = number.value if isinstance(number, ast.Constant) else None
        if type(value) is not int or not 1 <= value <= HIGHEST:
            raise self._refusal(node, f"is a power, which must be a whole number from 1 to {HIGHEST}")
        return value

    def _column(self, name: str) -> Values:
        column = self._names.get(name, name)
        if column not in self._columns:
            meant = what_was_meant(column, self._columns, "columns")
            raise InvalidInput(
                f"the formula {_short(self._formula)!r} names {column!r}, which is not a column; {meant}"
            )
        return self._columns[column]

    def features(self, call: ast.Call) -> int:
        name = self._function(call, OPTIONS)
        if not call.args:
            raise self._refusal(call, "needs a column as its first argument")
        columns = self._columns_of(call.args[0])
        if not columns:
            raise self._refusal(call, "names no column")
        if name == "C":
            named = [option.value for option in call.keywords if option.arg == "contrasts"]
            for contrast in [*call.args[1:], *named]:
                if not isinstance(contrast, ast.Call):
                    raise self._refusal(contrast, f"is none of the contrasts {', '.join(CONTRASTS)}")
                self._function(contrast, CONTRASTS)
                for value in [*contrast.args, *(option.value for option in contrast.keywords)]:
                    self._literal(value)
            options = [option.value for option in call.keywords if option.arg != "contrasts"]
            return sum(column.n_different for column in columns) + sum(map(self._literal, options))
        options = [*call.args[1:], *(option.value for option in call.keywords)]
        if options and not OPTIONS[name]:
            raise self._refusal(options[0], f"is one argument too many for {name}")
        largest = [self._option(name, place, value) for place, value in enumerate(call.args[1:])]
        largest += [self._option(name, option.arg, option.value) for option in call.keywords]
        return 1 if not OPTIONS[name] else 1 + HIGHEST + sum(largest)

    def _function(self, call: ast.Call, known: Mapping[str, tuple[str, ...]]) -> str:
        """Return the name of the called function; refuse unknown functions and options."""
        func = call.func
        name = func.id if isinstance(func, ast.Name) else ""
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
            name = f"{func.value.id}.{func.attr}"
        if name not in known:
            allowed = ", ".join(_shown(known))
            raise self._refusal(func, f"is not a function that a formula may call; these are {allowed}")
        for option in call.keywords:
            if option.arg not in known[name]:
                allowed = ", ".join(known[name]) or "none"
                raise self._refusal(
                    option.value, f"is given to {name} as {option.arg or '**'}; its options are {allowed}"
                )
        return name

    def _columns_of(self, node: ast.expr) -> list[Values]:
        """Return the columns of an expression of columns, numbers and functions of numbers."""
        match node:
            case ast.Name(id=name):
                if name in self._bare:
                    raise _refusal(self._formula, f"{self._names[name]!r} in a function must be in backticks")
                return [self._column(name)]
            case ast.Constant(value=int() | float()):
                self._literal(node)
                return []
            case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
                return self._columns_of(operand)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                self._check_power(right)
                if not (columns := self._columns_of(left)):
                    raise self._refusal(node, "is a power of a number; write the number itself")
                return columns
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
                return [*self._columns_of(left), *self._columns_of(right)]
            case ast.Call(args=[argument], keywords=[]):
                name = self._function(node, OPTIONS)
                if OPTIONS[name] and name not in ("scale", "standardize"):
                    raise self._refusal(node, "must stand by itself, and not in another function")
                return self._columns_of(argument)
        raise self._refusal(node, "is neither a column nor a number, nor a function of one")

    def _check_power(self, node: ast.expr) -> None:
        number = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
        value = number.value if isinstance(number, ast.Constant) else None
        if type(value) not in (int, float) or not value <= HIGHEST:  # type: ignore[operator]
            raise self._refusal(node, f"is a power, which must be a number of at most {HIGHEST}")

    def _option(self, name: str, option: int | str | None, node: ast.expr) -> int:
        """Check an option, named or positional; return the most features that the option can add."""
        if isinstance(option, int):
            if option >= len(OPTIONS[name]):
                raise self._refusal(node, f"is one argument too many for {name}")
            option = OPTIONS[name][option]
        size = self._literal(node)
        if option in ("degree", "df") and not (
            isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value <= HIGHEST
        ):
            raise self._refusal(node, f"is the {option} of {name}, which must be a whole number of at most {HIGHEST}")
        return size

    def _literal(self, node: ast.expr) -> int:
        """Check that an option is a number, a text, true, false, none, or a list of these; return its length."""
        match node:
            case ast.Constant(value=None | bool() | float()):
                return 0
            case ast.Constant(value=int() as number) if abs(number) <= 10**18:
                return 0
            case ast.Constant(value=str() as text) if _PLAIN_TEXT.fullmatch(text) and text.isprintable():
                return 0
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float()) as operand):
                return self._literal(operand)
            case ast.List(elts=entries) | ast.Tuple(elts=entries) if len(entries) <= MOST_KNOTS:
                for entry in entries:
                    if isinstance(entry, ast.List | ast.Tuple):
                        raise self._refusal(entry, "is a list in a list")
                    self._literal(entry)
                return len(entries)
        raise self._refusal(node, f"must be a number, a plain text, or a list of at most {MOST_KNOTS} of them")

    def _refusal(self, node: ast.expr, why: str) -> InvalidInput:
        text = ast.unparse(node).replace("@", ":").replace("** +", "^")
        for placeholder, column in self._names.items():
            text = text.replace(placeholder, f"`{column}`")
        return _refusal(self._formula, f"{text[:60]!r} {why}")


def _shown(known: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [name for name in known if not name.startswith("np.")]


def _refusal(formula: str, why: str) -> InvalidInput:
    allowed = "A formula may have columns, numbers, + - * / : ** ^ ( ), and functions of columns such as log(x)."
    return InvalidInput(f"the formula {_short(formula)!r} cannot be used: {why}. {allowed}")


def _short(formula: str) -> str:
    return formula if len(formula) <= 200 else f"{formula[:197]}..."
