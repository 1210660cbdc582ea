"""A study in miniature, for tests of the stand-alone verifier: drives a learner and writes the events of its log."""

import csv
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

import surepick as sp
from surepick.arms.views import as_rows
from surepick.types import AskNumber

Event = dict[str, Any]
Row = tuple[str, str, str]

USUAL = {"delta": 0.05, "noise_std": None, "noise": "same", "reward_range": None, "rewards": None, "epsilon": 0.0}
USUAL |= {
    "misfit": 0.0,
    "drift": 0.0,
    "m": 1,
    "costs": None,
    "budget": None,
    "model": "linear",
    "seed": 0,
    "edition": 2,
}


def canonical(value: Any) -> str:
    """Return the one text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def chained(events: Sequence[Event]) -> list[Row]:
    """Return the rows n, hash, event of a log with these events."""
    rows, last = [], "0" * 64
    for n, event in enumerate(events, start=1):
        text = canonical(event)
        last = hashlib.sha256(f"{last}\n{text}".encode()).hexdigest()
        rows.append((str(n), last, text))
    return rows


def as_csv(rows: Sequence[Row]) -> str:
    """Return a log as a file."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["n", "hash", "event"])
    writer.writerows(rows)
    return file.getvalue()


def signed(certificate: Event, rows: Sequence[Row]) -> Event:
    """Return the certificate with the length and hash of this log, and its own digest."""
    body = {**certificate, "log": {"events": len(rows), "hash": rows[-1][1]}}
    body.pop("digest", None)
    return {**body, "digest": hashlib.sha256(canonical(body).encode()).hexdigest()}


class Notebook:
    """The events of one study, written while a learner is at work; asks and measurements are numbered from 1."""

    def __init__(
        self, X: Any, measure: Callable[[Any], float], names: Sequence[str] | None = None, **options: Any
    ) -> None:
        self.events: list[Event] = []
        self.measure = measure
        self.asks: dict[int, tuple[int, int, int]] = {}  # id: era, number and arm
        self.results: list[dict[str, Any]] = []
        self.era, self.gone = 0, set[int]()
        arms = {"kind": "finite", "rows": np.array(X, dtype=float).tolist(), "names": names, "features": None}
        self._begin("created", X, names, options, name="a study, ünnamed", version="0", lease=None, arms=arms)

    def _begin(self, kind: str, X: Any, names: Sequence[str] | None, options: dict[str, Any], **fields: Any) -> None:
        """Begin an era, with the arms of `here` among all rows."""
        self.X, self.names, self.era = np.array(X, dtype=float), names, self.era + 1
        self.here = [arm for arm in range(len(self.X)) if arm not in self.gone]
        # A study of before the option had them as evidence, in its first era.
        self.options = {**USUAL, **options, "algorithm": "lazy-track-and-stop"}
        earlier: Literal["evidence", "guidance"] = options.get("earlier", "evidence") if self.era == 1 else "guidance"
        own = {name: value for name, value in options.items() if name != "earlier"}
        self.learner = sp.create_learner("lazy-track-and-stop", self.X[self.here], earlier=earlier, **own)
        self.waiting: list[tuple[int, int]] = []  # number and arm: planned, or failed, and to be asked
        self.n_failed = self.n_numbers = 0
        self.said: int | None = None
        white = as_rows(self.learner.measured_arms)
        self.write(
            kind,
            options=self.options,
            identity=self.learner.identity,
            rule=self.learner.rule.name,
            coordinates={"back": white.back.tolist(), "level": white.level.tolist()},
            **fields,
        )

    def reopen(self, join: Any, names: Sequence[str], retire: Sequence[int], **options: Any) -> None:
        """Begin an era; what is known of arms that are still there is told first, and is no evidence."""
        self.gone |= set(retire)
        joined = {"rows": np.array(join).tolist(), "names": names}
        arms = [*self.X, *join], [*(self.names or ()), *names]
        self._begin("reopened", *arms, options, joined=joined, retired=list(retire), reason="arms join and retire")
        for result in self.results:
            result["number"] = None
            if result["arm"] not in self.gone and not result["void"]:
                self._learn(result)

    def _learn(self, result: dict[str, Any], number: int | None = None) -> None:
        result["number"] = sum(event[0] == "tell" for event in self.learner.log)
        self.learner.tell(self.here.index(result["arm"]), result["value"], ask=number)

    def write(self, kind: str, **fields: Any) -> None:
        """Add an event."""
        n = len(self.events) + 1
        at = f"2026-11-17T11:{n // 60 % 60:02d}:{n % 60:02d}.000000Z"
        self.events.append({"n": n, "at": at, "by": "", "kind": kind, **fields})

    def _draw(self) -> None:
        """Plan an interval, take back an ask that failed, or make one that belongs to no interval."""
        is_planned = not self.learner.stopped
        asks = self.learner.next_asks(1)
        if asks[0].number < self.n_numbers:
            self.n_failed -= 1
        elif is_planned:
            left = self.learner.n_planned - self.n_failed
            asks += self.learner.next_asks(left) if left else []
            self.write("planned", first=asks[0].number, arms=[self.here[ask.arm] for ask in asks], parts=1)
        self.n_numbers = max(self.n_numbers, asks[-1].number + 1)
        self.waiting += [(ask.number, self.here[ask.arm]) for ask in asks]

    def ask(self, n: int = 1) -> list[int]:
        """Return the ids of n asks."""
        while len(self.waiting) < n:
            self._draw()
        first = len(self.asks) + 1
        given, self.waiting = self.waiting[:n], self.waiting[n:]
        self.asks |= {first + i: (self.era, *ask) for i, ask in enumerate(given)}
        self.write("asked", ask=first, asks=[list(ask) for ask in given], until=None)
        self._settle()
        return list(range(first, first + n))

    def answers(self, ask: int) -> AskNumber | None:
        """Return the number whose place a result of this ask fills; None if it is unsolicited."""
        era, number = self.asks[ask][0], AskNumber(self.asks[ask][1])
        return number if era == self.era and number in self.learner.state.ledger._asks else None

    @property
    def pending(self) -> list[int]:
        """The asks that are neither told nor failed, or were told by another attempt."""
        over = {event["ask"] for event in self.events if event["kind"] in ("told", "failed")}
        over |= {ask for event in self.events if event["kind"] == "expired" for ask in event["asks"]}
        return [ask for ask in self.asks if ask not in over]

    def is_free(self, arm: int) -> bool:
        """Return whether the learner takes a result of the arm that names no ask for unsolicited."""
        return arm in self.gone or self.here.index(arm) not in self.learner.state.ledger._of_arm

    def tell(self, ask: int | None = None, arm: int | None = None, value: float | None = None) -> None:
        """Tell the result of an ask, or an unsolicited one."""
        number = None if ask is None else self.answers(ask)
        arm = self.asks[ask][2] if ask is not None else arm
        assert arm is not None
        assert number is not None or self.is_free(arm)
        if number is not None and self.learner.state.ledger._asks[number].has_failed:
            self.n_failed -= 1
        value = self.measure(self.X[arm]) if value is None else value
        result = {"arm": arm, "value": value, "void": False, "corrected": False, "number": None}
        if arm not in self.gone:
            self._learn(result, number)
        self.results.append(result)
        self.write("told", measurement=len(self.results), ask=ask, arm=arm, value=value)
        self._settle()

    def fail(self, ask: int, *, expires: bool = False) -> None:
        """Give up an ask."""
        _, number, arm = self.asks[ask]
        self.learner.fail(self.here.index(arm), ask=number)
        self.n_failed += 1
        if expires:
            self.write("expired", asks=[ask])
        else:
            self.write("failed", ask=ask, reason="dropped")

    def void(self, measurement: int) -> None:
        """Take a result back."""
        result = self.results[measurement - 1]
        result["void"] = True
        if result["number"] is not None:
            self.learner.void(result["number"])
        self.write("voided", measurement=measurement, reason="mislabelled")
        self._settle()

    def correct(self, measurement: int, value: float) -> None:
        """Give a result another value."""
        result = self.results[measurement - 1]
        result |= {"value": value, "corrected": True}
        if result["number"] is not None:
            self.learner.correct(result["number"], value)
        self.write("corrected", measurement=measurement, value=value, reason="a slip")
        self._settle()

    def restore(self, measurement: int) -> None:
        """Take back that a result is void."""
        result = self.results[measurement - 1]
        result["void"] = False
        if result["number"] is not None:
            self.learner.restore(result["number"])
        self.write("restored", measurement=measurement, reason="found again")
        self._settle()

    def audit(self, n: int) -> None:
        """Plan check pulls."""
        self.learner.audit(n)
        asks = self.learner.next_asks(n)
        self.write("audited", first=asks[0].number, arms=[self.here[ask.arm] for ask in asks])
        self.n_numbers = asks[-1].number + 1
        self.waiting += [(ask.number, self.here[ask.arm]) for ask in asks]

    def _settle(self) -> None:
        decision = self.learner.decision
        now = self.here[decision.best] if decision.stopped and decision.best is not None else None
        if now != self.said and self.said is not None:
            self.write("resumed", reason="corrected")
        if now != self.said and now is not None:
            evidence, threshold, pulls = decision.evidence, decision.target, decision.n_pulls
            self.write("stopped", best=[now], evidence=evidence, threshold=threshold, pulls=pulls)
        self.said = now

    def certificate(self) -> Event:
        """Return what the study claims."""
        decision = self.learner.decision
        called = self.names or [str(arm) for arm in range(len(self.X))]
        results = list(enumerate(self.results, start=1))
        certificate = {
            "name": self.events[0]["name"],
            "arms_digest": hashlib.sha256(self.X[self.here].astype("<f8").tobytes()).hexdigest(),
            "options": self.options,
            "best": [] if self.said is None else [self.said],
            "evidence": decision.evidence if decision.stopped else None,
            "threshold": decision.target,
            "n_pulls": decision.n_pulls,
            "counts": {called[self.here[arm]]: n for arm, n in sorted(self.learner.counts.items())},
            "voids": [n for n, result in results if result["void"]],
            "corrections": [n for n, result in results if result["corrected"] and not result["void"]],
            "delta": self.options["delta"],
            "stopped": self.said is not None,
            "best_names": [] if self.said is None else [called[self.said]],
            "era": self.era,
            "guarantee": decision.guarantee,
            "assumptions": {"noise": "assumed"},
        }
        return signed(certificate, chained(self.events))
