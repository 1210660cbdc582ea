"""Tools for agents (Model Context Protocol): ask, tell, fail, status, best, plan and certificate of a study."""

import json
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, final

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

from surepick._texts import to_json
from surepick._version import __version__
from surepick.errors import CorruptLog, SurepickError
from surepick.learning.explain import verdict
from surepick.learning.progress import left_to_do, state_line
from surepick.reporting.study_words import typed_group
from surepick.study.admin import load_study
from surepick.study.study import Study
from surepick.study.views import OF_OUTLOOK, OF_PLAN, ask_record

INSTRUCTIONS = """A study finds the best of many options (arms) from noisy, costly measurements, with a guarantee.
Repeat: `ask` for what to measure, have it measured, `tell` the value, until the state is "stopped". Then `best` is the
answer, and `certificate` says what is proved and what it assumes. Tell every value that was measured, and no other: a
value that is made up or left out makes the proof worthless. If a measurement gave no value, `fail` its ask."""
WRITES, READS = ("ask", "tell", "fail"), ("status", "best", "plan", "certificate")
OF_STATUS = ("name", "state", "best_name", "n_pulls", "n_pending", "guarantee", "model_check", "delta", "n_arms")
OF_ASK = {"id": "ask", "name": "arm", "recipe": "recipe", "reason": "reason", "group": "group"}
OF_CERTIFICATE = ("claim", "guarantee", "best_names", "n_pulls", "assumptions", "conditions", "limits", "digest")

Json = dict[str, Any]
Name = Annotated[str | None, "Name of the study; may be left out if there is only one."]
Worker = Annotated[str, "Who measures. A worker that asks again gets its open asks back first."]
AskId = Annotated[int, "Number of the ask."]
Count = Annotated[int, "How many measurements."]
Value = Annotated[float, "The measured value."]
Group = Annotated[str, 'Where and when it is measured, if that may matter: "day 3", or "day=3, bench=B".']


def create_mcp(storage: str, study: str | None = None) -> FastMCP:
    """Return the tools for the studies of a storage or a server.

    Args:
        storage: as for `load_study`.
        study: name of the study that calls without a name are about.
    """
    app, tools = FastMCP("surepick", INSTRUCTIONS, version=__version__), _Tools(storage, study)
    for name in (*WRITES, *READS):
        app.tool(tools.saying_why(getattr(tools, name)), annotations={"readOnlyHint": name in READS})
    return app


@final
class _Tools:
    """The tools; the first line of each docstring is what an agent reads."""

    def __init__(self, storage: str, study: str | None) -> None:
        self._storage, self._study = storage, study
        self._open = dict[str | None, Study]()

    def _opened(self, name: str | None) -> Study:
        name = name or self._study
        if name not in self._open:
            self._open[name] = load_study(name, self._storage, author="agent")
        return self._open[name]

    def saying_why(self, tool: Callable[..., Any]) -> Callable[..., Any]:
        """Return a tool whose errors are sentences for the agent, and whose numbers are finite or null."""

        @wraps(tool)
        def called(*given: Any, **named: Any) -> Any:
            try:
                return json.loads(to_json(tool(*given, **named)))
            except SurepickError as error:
                if isinstance(error, CorruptLog):
                    self._open.clear()  # the study may have been made anew
                raise ToolError(str(error)) from error

        return called

    def ask(self, n: Count = 1, worker: Worker = "agent", study: Name = None, group: Group = "") -> list[Json]:
        """Ask what to measure next: arms, with recipe and reason. An empty list: nothing is to be measured now."""
        asks = self._opened(study).ask(n, worker=worker, group=typed_group(group))
        return [{OF_ASK[key]: value for key, value in ask_record(one).items() if key in OF_ASK} for one in asks]

    def tell(self, ask: AskId, value: Value, worker: Worker = "agent", study: Name = None, group: Group = "") -> Json:
        """Tell the measured value of an ask. Remarks question a value that looks mistyped; it is kept all the same."""
        told = self._opened(study).tell(ask, value, worker=worker, group=typed_group(group), warn=False)
        return {"measurement": told[0].id, "remarks": told.remarks, **self.status(study)}

    def fail(self, ask: AskId, reason: str, worker: Worker = "agent", study: Name = None) -> Json:
        """Give up an ask whose measurement gave no value. A value that was seen must be told."""
        self._opened(study).fail(ask, reason=reason, worker=worker)
        return self.status(study)

    def status(self, study: Name = None) -> Json:
        """Say how a study stands: who leads, how many measurements there are, and its state."""
        now = self._opened(study).snapshot
        return {"summary": state_line(now.learner, now.label), **now.record(OF_STATUS)}

    def best(self, study: Name = None) -> Json:
        """Return the best arm: the answer once stopped, before that the leader. Estimates are not proved."""
        of, now = self._opened(study), self._opened(study).snapshot
        known = {"answer": verdict(of.result(), numbers=False), "stopped": now.status.stopped}
        known |= now.record(("best_name", "guarantee", "confidence", "epsilon_bound"))
        if now.status.calls is not None:
            known["calls"] = now.status.calls
        return {**known, "estimates": now.record(OF_OUTLOOK)}

    def plan(self, study: Name = None) -> Json:
        """Estimate how many measurements are still needed: remaining, with 80 % between remaining_low and _high."""
        now = self._opened(study).snapshot
        summary = "the study has stopped" if now.status.stopped else left_to_do(now.learner)
        return {"summary": summary, **now.record(OF_PLAN)}

    def certificate(self, study: Name = None) -> Json:
        """Return claim, assumptions and hash of the certificate; `surepick certificate --out` writes all of it."""
        made = self._opened(study).certificate()
        return {name: made[name] for name in OF_CERTIFICATE}
