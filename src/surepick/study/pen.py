"""The pen: who has it writes the next events of a study, all with the same time and author."""

from collections.abc import Mapping
from typing import Any, final

from surepick.study import clock
from surepick.study.events import Kind, Row, canonical, chained
from surepick.study.state import State
from surepick.study.storage import Writer


@final
class Pen:
    """Lets events happen to a state, and hands them to a storage.

    Args:
        state: by all events so far.
        writer: of the storage, within its transaction.
        last_hash: of the last event so far.
        by: author.
    """

    def __init__(self, state: State, writer: Writer, last_hash: str, by: str) -> None:
        self.state, self.hash, self.by = state, last_hash, by
        self.now = writer.now
        self.at = clock.written(self.now)
        self.is_ahead = False
        """Whether the state may know more than the log did when the pen was taken up."""
        self._writer, self._rows = writer, list[Row]()

    def write(self, kind: Kind, **fields: Any) -> None:
        """Let an event happen."""
        event = self._event(kind, fields)
        text = canonical(event)
        self.state.apply(event, chained(self.hash, text))
        self.is_ahead = True
        self._add(text)

    def note(self, kind: Kind, **fields: Any) -> Mapping[str, Any]:
        """Write down an event that has happened to the state already, when `is_ahead` was set."""
        event = self._event(kind, fields)
        self.state.n_events += 1
        self._add(canonical(event))
        return event

    def note_verdict(self, *, after_correction: bool = False) -> None:
        """Write down a verdict, or that there is none any more, if that is news."""
        for kind, fields in self.state.verdict_news(after_correction=after_correction):
            self.write(kind, **fields)

    def _event(self, kind: Kind, fields: dict[str, Any]) -> dict[str, Any]:
        return {"n": self.state.n_events + 1, "at": self.at, "by": self.by, "kind": kind.value, **fields}

    def _add(self, text: str) -> None:
        self.hash = chained(self.hash, text)
        self._rows.append(Row(self.state.n_events, text, self.hash))

    def end(self) -> None:
        """Hand everything to the storage."""
        if self._rows:
            self._writer.append(self._rows)
