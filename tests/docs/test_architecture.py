"""The table of modules in docs/architecture.md says what the modules say.

Run this file as a script to print the rows the table should have.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "surepick"
ROW = re.compile(r"^\| `(surepick[\w.]*)` \| (.+?) \|$", re.MULTILINE)


def documented() -> dict[str, str]:
    """Module name and purpose of every row of the table."""
    rows: list[tuple[str, str]] = ROW.findall((ROOT / "docs" / "architecture.md").read_text("utf-8"))
    assert len(dict(rows)) == len(rows), "a module appears twice in the table"
    return dict(rows)


def actual() -> dict[str, str]:
    """Module name and first docstring line of every module of the package."""
    purposes = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ["surepick", *path.relative_to(PACKAGE).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8")))
        purposes[name] = (docstring or "").split("\n")[0]
    return purposes


def test_every_module_opens_with_its_purpose() -> None:
    """Every module has a docstring whose first line is one sentence."""
    assert [name for name, purpose in actual().items() if not purpose.endswith(".")] == []


def test_table_lists_every_module_with_its_purpose() -> None:
    """The table has one row per module, and each row is the first line of the module's docstring."""
    assert documented() == actual()


if __name__ == "__main__":
    print("\n".join(f"| `{name}` | {purpose} |" for name, purpose in sorted(actual().items())))  # noqa: T201
