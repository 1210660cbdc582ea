"""Makes the golden files: a database of the first schema, and what a study in it must say for ever.

    python -m tests.study.golden.make

Run once, when revision 1 of the tables was released; what later versions write is not what is to be tested. Kept as
well: `certificates-1.json`, certificates of the first format for the ends of its three eras; `stamp.tsr`, a time stamp
(RFC 3161) by OpenSSL of the SHA-256 hash of "abc"; `earlier-study.json`, a log with its certificate, and
`earlier-result.json`, as `Result.save` wrote it: of the time when results told before the first ask were evidence, and
nothing else could be said of a study's.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.study.admin import load_study
from surepick.study.storage import open_storage
from surepick.study.study import Study
from tests.study.kinds import KINDS
from tests.study.test_certificate import lived

FOLDER = Path(__file__).parent
DATABASE, SQL, ANSWERS = FOLDER / "revision-1.db", FOLDER / "revision-1.sql", FOLDER / "answers.json"
EARLIER = FOLDER / "earlier-study.json"

TABLES = """\
CREATE TABLE surepick_version (version_num VARCHAR(32) PRIMARY KEY);
INSERT INTO surepick_version VALUES ('1');
CREATE TABLE studies (id SERIAL PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE events (
    study INTEGER NOT NULL REFERENCES studies (id), n INTEGER NOT NULL, text TEXT NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (study, n)
);
INSERT INTO studies (name) VALUES ('lived');
"""


def answers(study: Study) -> dict[str, Any]:
    """What every version must make of the log."""
    state = study.state
    return {
        "head": list(study.head),
        "kinds": sorted({event["kind"] for event in study.log}),
        "state": study.status.state,
        "best": study.best_name,
        "n_pulls": study.status.n_pulls,
        "era": state.era,
        "theta": study.learner.theta.tolist(),
        "verdicts": [[each.event, list(each.best), each.evidence, each.n_pulls] for each in state.verdicts],
        "evidence": study.learner.decision.evidence,
        "measurements": [[one.id, one.arm, one.told, one.value] for one in study.measurements],
        "pending": [[ask.id, ask.name] for ask in study.pending],
    }


def make() -> None:
    """Write all three files."""
    DATABASE.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as monkeypatch:
        study = lived(monkeypatch)
        study.reopen(reason="new stock", join=sp.FiniteArms(np.eye(2) * 0.5, names=["yew", "box"]), retire=["oak"])
        rng = np.random.default_rng(7)
        while not study.stopped:
            for ask in study.ask(4, worker="bob"):
                study.tell(ask.id, KINDS["usual"].value(ask.features, float(rng.standard_normal())))
        study.reopen(reason="surer", delta=0.001)
        for ask in study.ask(3)[:2]:
            study.tell(ask.id, 0.5)
    with closing(open_storage(DATABASE)) as storage:
        storage.create("lived", study.rows())
        ANSWERS.write_text(json.dumps(answers(load_study("lived", storage)), indent=1) + "\n", encoding="utf-8")
    with closing(sqlite3.connect(DATABASE)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
    rows = [(row.n, row.text.replace("'", "''"), row.hash) for row in study.rows()]
    values = ",\n".join(f"(1, {n}, '{text}', '{digest}')" for n, text, digest in rows)
    SQL.write_text(f"{TABLES}INSERT INTO events VALUES\n{values};\n", encoding="utf-8")


if __name__ == "__main__":
    make()
