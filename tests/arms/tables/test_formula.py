"""Formulas: what they may say, and that nothing else is ever evaluated."""

import ast
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import formulaic.materializers.base as materializers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surepick import read_arms
from surepick.cli.studies.study_file import read_study_file
from surepick.errors import InvalidInput

TABLE = {
    "name": list("ABCDEFGH"),
    "temp": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 9.0],
    "time in s": [1.0, 5.0, 3.0, 4.0, 2.0, 6.0, 7.0, 8.0],
    "cat": list("abcabcab"),
}


@pytest.mark.parametrize(
    ("formula", "features"),
    [
        ("temp * cat", ("constant", "temp", "cat=b", "cat=c", "temp:cat=b", "temp:cat=c")),
        ("(temp + cat)^2", ("constant", "temp", "cat=b", "cat=c", "temp:cat=b", "temp:cat=c")),
        ("0 + sqrt(temp) + `time in s`", ("sqrt(temp)", "time in s")),
        ("np.log(temp + 1) - 1", ("np.log(temp + 1)",)),
        ("I(temp ** 2 / `time in s`)", ("constant", "I(temp ** 2 / `time in s`)")),
        ("poly(temp, degree=2)", ("constant", "poly(temp, degree=2)[1]", "poly(temp, degree=2)[2]")),
        ("bs(temp, df=3)", ("constant", *(f"bs(temp, df=3)[{n}]" for n in (1, 2, 3)))),
        (
            'C(cat, Treatment("b"))',
            ("constant", *(f"C(cat, Treatment('b'))={level}" for level in "ac")),
        ),
        ("log(scale(temp) + 3):cat", ("constant", *(f"log(scale(temp) + 3):cat={level}" for level in "abc"))),
    ],
)
def test_what_a_formula_may_say(formula: str, features: tuple[str, ...]) -> None:
    """Columns, also in backticks, operators, powers, contrasts, and the listed functions keep their meaning."""
    assert read_arms(TABLE, formula=formula).feature_names == features


@pytest.mark.parametrize(
    ("formula", "piece"),
    [
        ("I(().__class__.__base__.__subclasses__())", "().__class__.__base__.__subclasses__"),
        ("I(__import__('os').system('touch {made}'))", "__import__('os').system"),
        ("{{__import__('os').system('touch {made}')}}", "{{__import__('os').system"),
        ("np.load('x')", "np.load"),
        ("temp.to_csv('{made}')", "temp.to_csv"),
        ("temp[0]", "'temp[0]'"),
        ("I([x for x in temp])", "[x for x in temp]"),
        ("I((lambda: temp)())", "lambda"),
        ("I(temp if temp else 1)", "temp if temp else 1"),
        ("I(f'{{temp}}')", "f'{{temp}}'"),
        ("log(temp, out=temp)", "out"),
        ("C(cat, _state=temp)", "_state"),
        ("I(**temp)", "**"),
        ("Q('temp')", "'Q'"),
        ("C(cat, contr.treatment('b\"+temp'))", "plain text"),
        ("log(temp)(1)", "'log(temp)'"),
        ("log(temp).real", "'log(temp).real'"),
        ("temp %in% cat", "'temp %in% cat' cannot be read"),
        ("log(temp", "never closed"),
        ("", "'' cannot be read"),
    ],
)
def test_anything_else_is_refused_before_it_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, formula: str, piece: str
) -> None:
    """The sentence names the piece; in a study.toml nothing can allow it, and formulaic sees none of it."""
    made = tmp_path / "made"
    text, piece = formula.replace("{{", "\0").replace("{made}", str(made)).replace("\0", "{"), piece.replace("{{", "{")
    text = text.replace("}}", "}")
    monkeypatch.setattr("formulaic.Formula", lambda *_: pytest.fail("formulaic was called"))
    with pytest.raises(InvalidInput, match=re.escape(piece.replace("}}", "}"))):
        read_arms(TABLE, formula=text)
    assert not made.exists()
    (tmp_path / "study.toml").write_text("arms = 'arms.csv'\ntrust_formula = true\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="no key 'trust_formula'"):
        read_study_file(tmp_path / "study.toml")


def test_python_may_trust_a_formula() -> None:
    """What formulaic can evaluate is evaluated if the caller says so."""
    assert read_arms(TABLE, formula="I(temp.clip(2, 5))", trust_formula=True).dim == 2


@pytest.mark.parametrize(
    "formula",
    [
        "poly(temp, 100000)",
        "bs(temp, df=100000)",
        "temp**9**9**9",
        "I(temp**9**9**9)",
        "I(9**9**9 * temp)",
        "I(((9**9)**9 * temp))",
        "(temp + cat + `time in s`)**20",
        "*".join(["cat"] * 40),
        "(temp + `time in s`)**18",
        "(temp + 1 + `time in s` + temp:`time in s`)**9",
        "temp**" + "9" * 9000,
        "I(" + "-" * 9000 + "temp)",
        "I(" + "+".join(["temp"] * 1500) + ")",
        "(" * 4000 + "temp" + ")" * 4000,
        "+".join(["temp"] * 4000),
    ],
)
def test_a_formula_that_asks_for_too_much_is_refused_at_once(formula: str) -> None:
    """Neither time nor memory: a sentence within a second."""
    began = time.process_time()
    with pytest.raises(InvalidInput) as refused:
        read_arms(TABLE, formula=formula)
    assert time.process_time() - began < 1.0
    assert len(str(refused.value)) < 1_000


PIECES = (
    *("temp", "cat", "`time in s`", "1", "0", "2", "20", "0.5", "x", "__import__", "os", "'os'", '"a"', "np", "contr"),
    *(
        ".",
        "__class__",
        "+",
        "-",
        "*",
        "/",
        ":",
        "**",
        "^",
        "(",
        ")",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "=",
        ":=",
        "%",
    ),
    *("log(", "C(", "I(", "poly(", "bs(", "Treatment(", "contr.treatment(", "np.log(", "lambda", " ", "`", "\\", "df="),
    *(
        "degree=",
        "_state=",
        "levels=",
        "eval(",
        "~",
        "|",
        "@",
        "if",
        "else",
        "for",
        "in",
        "\n",
        "#",
        ";",
        "f'",
        "'",
        '"',
    ),
)
GOOD = st.recursive(
    st.sampled_from(["temp", "cat", "`time in s`", "1", "C(cat)", "poly(temp, 2)", "log(temp + 1)", "I(temp ** 2)"]),
    lambda inner: (
        st.builds("{}{}{}".format, inner, st.sampled_from(["+", " * ", ":", "/", " - "]), inner)
        | st.builds("({})".format, inner)
    ),
    max_leaves=5,
)
ALLOWED = (
    *(ast.Expression, ast.Call, ast.Name, ast.Load, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop),
    *(ast.keyword, ast.List, ast.Tuple),
)
CALLED = re.compile(r"(np\.)?(log|exp|sqrt|abs|sin|cos)\w*|C|I|poly|bs|center|scale|contr\.treatment|Treatment")


@settings(max_examples=300, deadline=None)
@given(st.one_of(GOOD, st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.text(max_size=20)))
def test_no_accepted_formula_evaluates_anything_outside_the_list(formula: str) -> None:
    """Whatever reaches the evaluation of formulaic is made of columns, literals, arithmetic and listed calls."""
    seen: list[str] = []

    def watched(expression: str, *rest: Any, **more: Any) -> Any:
        seen.append(expression)
        return stateful_eval(expression, *rest, **more)

    stateful_eval = materializers.stateful_eval
    materializers.stateful_eval = watched
    try:
        with suppress(InvalidInput):  # refused, by us or by formulaic
            read_arms(TABLE, formula=formula, on_span=True)
    finally:
        materializers.stateful_eval = stateful_eval
    for expression in seen:
        for node in ast.walk(ast.parse(re.sub(r"`[^`]*`", "column", expression), mode="eval")):
            called = node.func if isinstance(node, ast.Call) else None
            assert called is None or CALLED.fullmatch(ast.unparse(called)), formula
            is_function = isinstance(node, ast.Attribute) and CALLED.fullmatch(ast.unparse(node))
            assert is_function or isinstance(node, ALLOWED), formula
