"""Replace the outputs that pages show by what their code prints now.

Run it from the root of a clone after a change of what is printed on purpose, for all pages or for some:

    python -m tools.record_docs [docs/noise.md ...]

Blocks run as in `tests/docs/test_examples.py`. Where as many words are printed as shown, words are replaced one by one,
so that breaks of lines and `...` stay. Else the whole output is replaced, and a line here says so: look at it, and at
the sentences around every output that changed, which this tool leaves alone.
"""

import io
import os
import re
import sys
import tempfile
import textwrap
from contextlib import chdir, redirect_stdout
from pathlib import Path

from tests.docs.test_examples import BLOCK, WITH_CODE, check_output, typed

WIDTH = 90


def updated(shown: str, printed: str) -> str:
    """Return what a page is to show in the place of an output that is out of date."""
    printed = printed.replace("\ufeff", "")
    if len(shown.split()) == len(printed.split()):
        return _by_words(shown, printed)
    old, new = ([line for line in text.splitlines() if line.strip()] for text in (shown, printed))
    if len(old) == len(new):
        return "".join([f"{_line(*pair)}\n" for pair in zip(old, new, strict=True)])
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
    return "".join([f"{textwrap.fill(line, WIDTH) if len(line) > WIDTH else line}\n" for line in lines])


def _by_words(shown: str, printed: str) -> str:
    words = iter(printed.split())
    return re.sub(r"\S+", lambda word: _kept(word[0], next(words)), shown)


def _kept(old: str, new: str) -> str:
    return old if "..." in old else new


def _line(shown: str, printed: str) -> str:
    """Return a line anew; from its dots on it stays."""
    if is_current(shown, printed):
        return shown
    head, dots, rest = shown.partition("...")
    n = len(head.split())
    if dots and n <= len(printed.split()):
        return _by_words(head, " ".join(printed.split()[:n])) + dots + rest
    return printed.rstrip()


def is_current(shown: str, printed: str) -> bool:
    """Whether an output is as the page shows it."""
    try:
        check_output("", shown, printed)
    except AssertionError:
        return False
    return True


class Recorder:
    """Runs the blocks of one page, and writes the outputs anew.

    Args:
        page: its path.
    """

    def __init__(self, page: Path) -> None:
        self._page, self._namespace, self._printed = page, {"__name__": "__main__"}, ""

    def block(self, match: re.Match[str]) -> str:
        """Run a block, and return it as the page is to have it."""
        kind, text = match[1], match[2]
        if kind == "python":
            out = io.StringIO()
            with redirect_stdout(out):
                exec(compile(text, str(self._page), "exec"), self._namespace)  # noqa: S102 - the page's own code
            self._printed = out.getvalue()
        elif kind == "output":
            text = self._output(text, self._printed)
        else:
            parts = re.split(r"^(?=\$ )", text, flags=re.MULTILINE)
            text = "".join([self._command(part) if part.startswith("$ ") else part for part in parts])
        return f"```{kind}\n{text}```"

    def _command(self, part: str) -> str:
        head = re.match(r"\$ (?:.*\\\n)*.*\n?", part)
        assert head is not None
        return head[0] + self._output(part[head.end() :], typed(head[0][2:].replace("\\\n", " ")))

    def _output(self, shown: str, printed: str) -> str:
        if is_current(shown, printed):
            return shown
        found = updated(shown, printed)
        is_whole = len(shown.split()) != len(printed.split())
        print(f"{self._page.name}: {'replaced as a whole' if is_whole else 'some words'}", file=sys.stderr)
        return found


def main(pages: list[str]) -> None:
    """Write pages anew."""
    for page in [Path(name).resolve() for name in pages] or WITH_CODE:
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            sys.path.insert(0, folder)
            text = page.read_text("utf-8")
            page.write_text(BLOCK.sub(Recorder(page).block, text), "utf-8")
            sys.path.remove(folder)


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    sys.stdin = io.StringIO()
    main(sys.argv[1:])
