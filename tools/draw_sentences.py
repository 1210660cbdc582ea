"""Draw sentences at random from README, docs and error messages, to read them aloud: `draw_sentences.py SEED [N]`.

Code, tables, formulas and headings are left out. An expression in a message is shown in braces, as in its f-string.
"""

import ast
import random
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = (
    r"^```.*?^```$|<!--.*?-->|<[^>]*>|\$\$.*?\$\$",  # blocks, comments, tags, formulas
    r"^\s*(?:[|#:{]|\([\w-]+\)=).*$",  # tables, headings, targets
)


def in_page(page: Path) -> list[str]:
    """Return the sentences of a Markdown file."""
    text = page.read_text("utf-8")
    for pattern in LEFT_OUT:
        text = re.sub(pattern, "\n\n", text, flags=re.DOTALL | re.MULTILINE if "`" in pattern else re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    paragraphs = re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", text, flags=re.MULTILINE)
    return [
        sentence
        for paragraph in paragraphs
        for sentence in re.split(r"(?<=[.?!]) (?=[A-Z*`$(\"]|surepick\b)", " ".join(paragraph.split()))
        if len(sentence.split()) > 3
    ]


def in_module(module: Path) -> list[str]:
    """Return the messages of the errors that a module raises."""
    found = []
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            text = node.exc.args[0]
            if isinstance(text, ast.JoinedStr | ast.Constant):
                found.append(ast.unparse(text))
    return [message for message in found if len(message.split()) > 3]


def sentences() -> list[str]:
    """Return every sentence with its file."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    modules = sorted((ROOT / "src").rglob("*.py"))
    found = [(path, in_page(path)) for path in pages] + [(path, in_module(path)) for path in modules]
    return [f"{path.relative_to(ROOT)}: {sentence}" for path, texts in found for sentence in texts]


def main() -> None:
    """Print the draw."""
    seed, n = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20
    for number, sentence in enumerate(random.Random(seed).sample(sentences(), n), 1):  # noqa: S311 (no secret)
        print(f"{number}. {sentence}")


if __name__ == "__main__":
    main()
