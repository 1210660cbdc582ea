"""What a formula may say: columns, numbers, the operators of Wilkinson and Rogers, and a fixed list of functions.

The library formulaic evaluates Python, so a formula from a stranger could run any program. `check_formula` reads the
formula first, without evaluating anything, and refuses every other piece. It also bounds the number of features.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
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
"""What the second argument of C may call."""
LONGEST = 10_000
"""Characters of a formula."""
DEEPEST = 50
"""Parentheses in parentheses."""
HIGHEST = 20
"""Degree of a polynomial or a power, and degrees of freedom of a spline."""
MOST_KNOTS = 50
MOST_FEATURES = 5_000
"""By a bound that counts products more than once, as formulaic forms them."""
MOST_NUMBERS = 20_000_000
"""In the table of features: 160 MB."""

_TOKEN = re.compile(r"\s*(?:(?P<name>[.\w]+)|`(?P<quoted>[^`]*)`|(?P<mark>\*\*|[-+*/:^()])|(?P<odd>\S))")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")
_PLAIN_TEXT = re.compile(r"[^\"'`\\()\[\]{}]*")
"""Of a level. formulaic writes calls into texts of its own, where a quotation mark would end them."""


class Values(NamedTuple):
    """What is in a column."""

    n_different: int
    is_number: bool

    @property
    def n_features(self) -> int:
        """The most features that the column makes by itself."""
        return 1 if self.is_number else max(self.n_different, 1)


class _Token(NamedTuple):
    kind: str
    text: str


class _Reader:
    """Reads a formula from left to right; each method returns the number of features that its part can make.

    Args:
        formula: the text.
        columns: of the table, by name.
    """

    def __init__(self, formula: str, columns: Mapping[str, Values]) -> None:
        self._formula, self._columns, self._depth = formula, columns, 0
        self._tokens = [*self._split(), _Token("end", "the end")]
        self._place = 0

    def size(self) -> int:
        size = self._sum()
        if self._next.kind != "end":
            raise self._refusal(f"{self._next.text!r} stands where an operator (+ - * / : ** ^) must stand")
        return size

    def _split(self) -> Iterator[_Token]:
        text, place = self._formula, 0
        while found := _TOKEN.match(text, place):
            place = found.end()
            name, quoted, mark = found["name"], found["quoted"], found["mark"]
            if found["odd"] is not None:
                raise self._mark_refusal(found["odd"])
            if mark is not None:
                yield _Token("mark", mark)
            elif quoted is not None or (name in self._columns and not text.startswith("(", place)):
                yield _Token("column", quoted if name is None else name)
            elif _NUMBER.fullmatch(name):
                yield _Token("number", name)
            elif text[place:].lstrip().startswith("("):
                start, place = found.start("name"), self._end_of_call(text.index("(", place))
                yield _Token("call", text[start:place])
            else:
                yield _Token("column", name)

    def _mark_refusal(self, mark: str) -> InvalidInput:
        if mark in "~|":
            return InvalidInput(f"the formula must have the features alone, got {self._formula!r}; leave out ~ and |.")
        return self._refusal(f"{mark!r} has no meaning in it")

    def _end_of_call(self, place: int) -> int:
        """Return where the parenthesis that opens here is closed. A name in backticks may have one of its own."""
        open_now: list[str] = []
        for at in range(place, len(self._formula)):
            mark = self._formula[at]
            if open_now and mark == open_now[-1]:
                open_now.pop()
                if not open_now:
                    return at + 1
            elif mark in "([`" and open_now[-1:] != ["`"]:
                open_now.append({"(": ")", "[": "]"}.get(mark, mark))
                if len(open_now) > DEEPEST:
                    raise self._refusal(f"it has more than {DEEPEST} parentheses in parentheses")
        raise self._refusal(f"{self._formula[place:][:40]!r} is not closed")

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self, *marks: str) -> str | None:
        if self._next.kind != "mark" or self._next.text not in marks:
            return None
        self._place += 1
        return self._tokens[self._place - 1].text

    # What binds least comes first: + and -, then * and /, then :, then ** and ^.

    def _sum(self) -> int:
        while self._take("+", "-"):
            pass
        size = self._product()
        while self._take("+", "-"):
            while self._take("+", "-"):
                pass
            size = self._bounded(size + self._product())
        return size

    def _product(self) -> int:
        size = self._interaction()
        while self._take("*", "/"):
            other = self._interaction()
            size = self._bounded(size + other + size * other)
        return size

    def _interaction(self) -> int:
        size = self._power()
        while self._take(":"):
            size = self._bounded(size * self._power())
        return size

    def _power(self) -> int:
        size = self._part()
        if self._take("**", "^") is None:
            return size
        power = self._next
        if power.kind != "number" or power.text not in {str(n) for n in range(1, HIGHEST + 1)}:
            raise self._refusal(f"a power must be a whole number from 1 to {HIGHEST}, got {power.text[:40]!r}")
        self._place += 1
        if self._next.text in ("**", "^"):
            raise self._refusal("a power of a power has no meaning")
        return self._bounded(size ** int(power.text))

    def _part(self) -> int:
        token = self._next
        self._place += 1
        if token.kind == "number":
            return 1
        if token.kind == "column":
            if token.text not in self._columns:
                raise _unknown(self._formula, token.text, self._columns)
            return self._columns[token.text].n_features
        if token.kind == "call":
            return check_call(token.text, self._columns, self._formula)
        if token.text != "(":
            raise self._refusal(f"{token.text!r} stands where a column, a number or a function must stand")
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._refusal(f"it has more than {DEEPEST} parentheses in parentheses")
        size = self._sum()
        self._depth -= 1
        if self._take(")") is None:
            raise self._refusal(f"{self._next.text!r} stands where ')' or an operator must stand")
        return size

    def _bounded(self, size: int) -> int:
        if size > MOST_FEATURES:
            raise self._refusal(f"its products make more than {MOST_FEATURES:,} features; name fewer of them")
        return size

    def _refusal(self, why: str) -> InvalidInput:
        return _refusal(self._formula, why)


def check_formula(formula: str, columns: Mapping[str, Values], n_rows: int) -> None:
    """Refuse a formula that could do anything but make features of columns, or that makes too many.

    Args:
        formula: the text.
        columns: of the table, by name.
        n_rows: of the table.

    Raises:
        InvalidInput: the sentence names the piece, and what is allowed.
    """
    if len(formula) > LONGEST:
        raise InvalidInput(
            f"a formula must have at most {LONGEST:,} characters, got {len(formula):,}; use fewer terms."
        )
    try:
        size = _Reader(formula, columns).size()
    except RecursionError as error:
        raise _refusal(formula, "it has too many operators in one function") from error
    if size * n_rows > MOST_NUMBERS:
        raise InvalidInput(
            f"the formula {formula!r} makes up to {size:,} features for {n_rows:,} arms, and {MOST_NUMBERS:,} numbers "
            "are the most; name fewer products, or columns with fewer levels."
        )


def check_call(text: str, columns: Mapping[str, Values], formula: str) -> int:
    """Check a call of a function in a formula; return the number of features that it can make."""
    quoted: list[str] = []

    def named(found: re.Match[str]) -> str:
        quoted.append(found[1])
        return f"quoted_{len(quoted) - 1}_"

    if re.search(r"quoted_[0-9]+_", text):
        raise _refusal(formula, "names such as 'quoted_0_' are used inside; write it in backticks")
    code = re.sub(r"`([^`]*)`", named, text)
    if odd := [name for name in quoted if not _PLAIN_TEXT.fullmatch(re.sub(r"[()\[\]]", "", name))]:
        raise _refusal(formula, f"the column {odd[0]!r} has quotation marks or the like; rename it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "2or x" is refused below, in our own words
            tree = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _refusal(formula, f"{text[:60]!r} cannot be read") from error
    names = {f"quoted_{place}_": name for place, name in enumerate(quoted)}
    if not isinstance(tree, ast.Call):
        raise _refusal(formula, f"{text[:60]!r} is no call of a function")
    return _Call(formula, columns, names).features(tree)


class _Call:
    """Checks a call of a function."""

    def __init__(self, formula: str, columns: Mapping[str, Values], names: Mapping[str, str]) -> None:
        self._formula, self._columns, self._names = formula, columns, names

    def features(self, call: ast.Call) -> int:
        name = self._function(call, OPTIONS)
        if not call.args:
            raise self._refusal(call, "needs a column as its first argument")
        columns = self._columns_of(call.args[0])
        if not columns:
            raise self._refusal(call, "names no column")
        if name == "C":
            for contrast in [
                *call.args[1:],
                *(keyword.value for keyword in call.keywords if keyword.arg == "contrasts"),
            ]:
                if not isinstance(contrast, ast.Call):
                    raise self._refusal(contrast, f"is none of the contrasts {', '.join(CONTRASTS)}")
                self._function(contrast, CONTRASTS)
                for value in [*contrast.args, *(keyword.value for keyword in contrast.keywords)]:
                    self._literal(value)
            options = [keyword.value for keyword in call.keywords if keyword.arg != "contrasts"]
            return sum(self._columns[column].n_different for column in columns) + sum(map(self._literal, options))
        options = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
        if options and not OPTIONS[name]:
            raise self._refusal(options[0], f"is one argument too many for {name}")
        largest = [self._option(name, place, value) for place, value in enumerate(call.args[1:])]
        largest += [self._option(name, keyword.arg, keyword.value) for keyword in call.keywords]
        return 1 if not OPTIONS[name] else 1 + HIGHEST + sum(largest)

    def _function(self, call: ast.Call, known: Mapping[str, tuple[str, ...]]) -> str:
        """Return the name of the function that is called, with options that it has."""
        func = call.func
        name = func.id if isinstance(func, ast.Name) else ""
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
            name = f"{func.value.id}.{func.attr}"
        if name not in known:
            raise self._refusal(func, f"is no function that a formula may call; these are {', '.join(_shown(known))}")
        for keyword in call.keywords:
            if keyword.arg not in known[name]:
                allowed = ", ".join(known[name]) or "none"
                raise self._refusal(
                    keyword.value, f"is given to {name} as {keyword.arg or '**'}; its options are {allowed}"
                )
        return name

    def _columns_of(self, node: ast.expr) -> list[str]:
        """Return the columns of an expression of columns, numbers and functions of numbers."""
        match node:
            case ast.Name(id=name):
                column = self._names.get(name, name)
                if column not in self._columns:
                    raise _unknown(self._formula, column, self._columns)
                return [column]
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
        """Check an option, named or by its place; return the number of features that it can add."""
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
        """Check that an option is a number, a text, true or false, none, or a list of such; return its length."""
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
        return _refusal(self._formula, f"{ast.unparse(node)[:60]!r} {why}")


def _shown(known: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [name for name in known if not name.startswith("np.")]


def _refusal(formula: str, why: str) -> InvalidInput:
    allowed = "A formula may have columns, numbers, + - * / : ** ^ ( ), and functions of columns such as log(x)."
    return InvalidInput(f"the formula {_short(formula)!r} cannot be used: {why}. {allowed}")


def _unknown(formula: str, name: str, columns: Mapping[str, Values]) -> InvalidInput:
    meant = what_was_meant(name, columns, "columns")
    return InvalidInput(f"the formula {_short(formula)!r} names {name!r}, which is no column; {meant}")


def _short(formula: str) -> str:
    return formula if len(formula) <= 200 else f"{formula[:197]}..."
