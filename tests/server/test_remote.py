"""Studies on a server as `create_study`, `load_study` and the command line use them, against a real server."""

import asyncio
import io
import json
import os
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.cli.main import main
from surepick.cli.studies import COMMANDS
from surepick.errors import CorruptLog, InvalidInput, NoSuchStudy, StorageError, StudyExists
from surepick.study.admin import copy_study, create_study, delete_study, list_studies, load_study
from surepick.study.certificate import verify
from surepick.study.remote import HttpStorage, RemoteStudy
from surepick.study.storage import open_storage
from surepick.study.study import Study
from tests.server.conftest import RunningServer, make_token, serving
from tests.study.kinds import KINDS, ROWS
from tests.study.tree_study import finish, means, new

VOLATILE = ("at", "until", "key")


def happened(study: Study) -> list[dict[str, Any]]:
    """The events of a study without times, and without the keys by which requests are recognised."""
    return [{name: value for name, value in event.items() if name not in VOLATILE} for event in study.log]


# ---- as in Python


@pytest.mark.filterwarnings("ignore::surepick.EntryWarning")  # one noise for all arms makes values odd
def test_a_study_on_a_server_is_the_study_elsewhere(server: RunningServer) -> None:
    """The same calls make the same events, for every kind of study, and the same status."""
    rng = np.random.default_rng(0)
    for name, kind in KINDS.items():
        both = [create_study(name, **kind.given, storage=at, author="ann") for at in (server.url, "memory:")]
        assert isinstance(both[0], RemoteStudy)
        for _ in range(3):
            z = rng.standard_normal()
            for study in both:
                for ask in study.ask(3, worker="bob"):
                    study.tell(ask, kind.value(ask.features, z), worker="bob")
        assert happened(both[0]) == happened(both[1]) == happened(load_study(name, server.storage)), name
        remote, local = (study.snapshot.record() for study in both)
        for volatile in ("registrations", "stopped_at"):
            del remote[volatile], local[volatile]
        assert repr(remote) == repr(local), name  # NaN is NaN


def test_calls_of_all_kinds(server: RunningServer, tmp_path: Path) -> None:
    """Unnamed asks are new ones, results by arm answer them, sheets, corrections, audit, another era."""
    remote, local = (new(storage=at, author="ann") for at in (server.url, "memory:"))
    for study in (remote, local):
        (first,), (second,) = study.ask(1), study.ask(1)
        assert first.id != second.id
        study.tell(arm=second.name, value=[means(second.arm), 0.4])
        study.fail(first, reason="spilt")
        sheet = tmp_path / "sheet.csv"
        asks = study.ask(3, worker="bob", lease="2h")
        sheet.write_text("ask,value\n" + "".join(f"{one.id},{means(one.arm)}\n" for one in asks))
        assert len(study.tell_file(sheet, worker="bob")) == 3
        assert len(study.tell_file(sheet, worker="bob")) == 3
        study.tell_earlier([("elm", 0.7), (1, 0.6)])
        study.void(2, reason="spilt")
        study.restore(2, reason="not spilt")
        study.correct(1, 0.61, reason="typo")
        finish(study, worker="bob")
        assert study.audit(3) == 3
        finish(study, worker="bob")
        study.reopen(reason="one more tree", join={"yew": [0.9, 0.9]}, retire=["fir"], delta=0.01)
        finish(study, lambda arm: 1.2 if arm == 4 else means(arm), worker="bob")
    names = re.compile(r"ann:[0-9a-f]{8}")
    assert json.loads(names.sub("ann", json.dumps(happened(remote)))) == happened(local)
    assert (remote.best_name, remote.stopped, remote.remaining()) == ("yew", True, 0.0)
    assert verify(remote.certificate(), remote.rows()).ok
    assert remote.export("csv", tmp_path / "log.csv").exists()
    remote.result().report(tmp_path / "page.html")


def test_a_value_that_looks_mistyped_is_questioned(server: RunningServer) -> None:
    """As elsewhere: a warning, or a remark, or nothing."""
    study = new(storage=server.url)
    for ask in study.ask(8):
        study.tell(ask, means(ask.arm))
    with pytest.warns(sp.EntryWarning, match="mistyped"):
        study.tell(arm="oak", value=600.0)
    assert len(study.tell(arm="oak", value=-70_000.0, warn=False).remarks) == 1
    assert study.tell(arm="oak", value=8e6, questions=False).remarks == ()
    with pytest.raises(InvalidInput, match="must be one measured number, got nan"):
        study.tell(arm="oak", value=float("nan"))
    with pytest.raises(InvalidInput, match="there is no arm 'okk'; did you mean 'oak'"):
        study.tell(arm="okk", value=1.0)


def test_a_function_measures(server: RunningServer) -> None:
    """`optimize` and `optimize_async`, by several jobs; pass or fail too."""
    study = new(storage=server.url)
    study.optimize(means, n_jobs=2)
    assert study.stopped

    async def measured(arm: int) -> float:
        return means(arm)

    other = new("others", storage=server.url)
    asyncio.run(other.optimize_async(measured, n_jobs=2))
    assert other.best_name == study.best_name == "ash"
    with pytest.raises(InvalidInput, match="recorded as 1; this looks like pass/fail"):
        new("flags", storage=server.url, noise_std=None).optimize(lambda _: True)


def test_studies_by_name(server: RunningServer) -> None:
    """Create, go on, list, delete; and what must not be overwritten is not."""
    study = new(storage=server.url)
    assert list_studies(server.url) == ["trees"]
    assert repr(study) == f"Study('trees' in {server.url})"
    assert load_study(storage=server.url).name == "trees"
    assert new(storage=server.url, load_if_exists=True).head == study.head
    with pytest.raises(StudyExists, match=r"of other arms or options \(noise_std=0.2 instead of noise_std=0.3\)"):
        new(storage=server.url, load_if_exists=True, noise_std=0.3)
    with pytest.raises(StudyExists, match="already"):
        new(storage=server.url)
    with pytest.raises(NoSuchStudy, match="did you mean 'trees'"):
        load_study("tree", server.url)
    finish(study)
    delete_study("trees", server.url)
    assert list_studies(server.url) == []
    new(storage=server.url, noise_std=0.3)
    with pytest.raises(CorruptLog, match="made anew"):  # whose log is shorter
        _ = study.status


def test_another_process_opens_the_same_study(server: RunningServer) -> None:
    """By a pickle, and after a fork: with connections of its own."""
    study = new(storage=server.url)
    again = pickle.loads(pickle.dumps(study))
    assert isinstance(again, RemoteStudy)
    assert again.head == study.head
    child = os.fork()
    if not child:  # nothing of pytest's may run here
        os._exit(0 if study.ask(1, worker="child") and study.n_planned is not None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert [one.by for one in study.state.open.values()] == ["child"]


def test_what_a_server_cannot_do_is_said(server: RunningServer, tmp_path: Path) -> None:
    """Copies and anchors are made where the file is; files of arms stay on their machine. Nothing is half done."""
    study, elsewhere = new(storage=server.url), new(storage=tmp_path / "own.db")
    for refused in (
        lambda: copy_study("trees", "copy", storage=server.url, to_storage=tmp_path / "other.db"),
        lambda: copy_study("trees", "copy", storage=elsewhere.storage, to_storage=server.url),
        lambda: study.anchor(key=tmp_path / "key.pem"),
        lambda: study.together([lambda: study.ask(1)]),
    ):
        with pytest.raises(StorageError, match="do it where the server's studies are kept"):
            refused()
    assert len(study.log) == len(elsewhere.log) == 1
    np.save(tmp_path / "arms.npy", ROWS)
    with pytest.raises(InvalidInput, match="kind"):
        create_study("file", arms=sp.MappedArms(tmp_path / "arms.npy"), storage=server.url)
    assert list_studies(server.url) == ["trees"]
    with pytest.raises(StorageError, match="no answer"):
        HttpStorage("http://127.0.0.1:9", patience=0.1).names()


def test_a_log_that_was_changed_is_noticed(server: RunningServer) -> None:
    """Who follows the log checks its hashes, and need not trust the server."""
    new(storage=server.url)
    storage = HttpStorage(server.url)
    (row,) = storage.read("trees")
    storage.read = lambda *_: [row._replace(text=row.text.replace("elm", "ulm"))]  # type: ignore[method-assign]
    with pytest.raises(CorruptLog, match="event 1 has the hash"):
        RemoteStudy(storage, "trees")
    storage.close()


def test_a_token_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For studies of Python too; what the token does not allow is said."""
    file = str(tmp_path / "lab.db")
    new(storage=file)
    reads, tells = (make_token(file, role, label="ann") for role in ("read", "tell"))
    with serving(file) as server:
        monkeypatch.setenv("SUREPICK_TOKEN", reads)
        study = load_study("trees", server.url)
        with pytest.raises(sp.SurepickError, match="needs a token of the role tell"):
            study.ask(1)
        assert study.status.state == "new"
        other = HttpStorage(server.url, token=tells)
        assert load_study("trees", other).ask(1)[0].id == 1
        assert reads not in f"{study!r}{study.storage!r}{other!r}"
        assert len(load_study("trees", pickle.loads(pickle.dumps(other))).ask(1)) == 1


# ---- on the command line

PAINTS = "paint,gloss,drying\nA,1.0,0.2\nB,0.1,1.0\nC,0.7,0.7\nD,0.3,0.4\nE,0.9,0.9\n"
LINES = [
    (["create", "paints.csv", "--noise-std", "0.3"], 0, r"Study paints is in http.*: the best arm.*Next: surepick ask"),
    (
        ["create", "paints.csv"],
        2,
        "there is a study 'paints' in http.* already, with its arms as they were; go on with it",
    ),
    (["list"], 0, r"paints +nothing is asked yet"),
    (["ask", "-n", "2"], 0, r"gloss.*Next: surepick tell 1 VALUE"),
    (["tell", "1", "0.5"], 0, r"measurement 1, answers ask 1"),
    (["tell", "A", "0.6"], 0, "measurement 2"),
    (["tell", "Aa", "0.6"], 2, "there is no arm 'Aa'; did you mean 'A'"),
    (["ask", "-n", "3", "--output", "sheet.csv"], 0, "sheet.csv"),
    (["tell", "--file", "sheet.csv"], 0, "has no value yet"),
    (["fail", "2", "--reason", "spilt"], 0, "is given up"),
    (["pending"], 0, "ask"),
    (["measurements"], 0, "0.5"),
    (["void", "1", "--reason", "spilt"], 0, "is void"),
    (["restore", "1", "--reason", "not"], 0, "counts again"),
    (["correct", "1", "0.55", "--reason", "typo"], 0, "is 0.55, not 0.5"),
    (["import", "earlier.csv"], 0, "2 results of earlier.csv are in study paints"),
    (["import", "earlier.csv"], 0, "told before: nothing changed"),
    (["status"], 0, "paints, "),
    (["status", "--format", "json"], 0, '"n_pulls": 4'),
    (["plan"], 0, "4 pulls so far"),
    (["best"], 3, "Next: surepick ask"),
    (["audit"], 2, "verdict"),
    (["reopen", "--delta", "0.01", "--dry-run"], 0, "evidence"),
    (["reopen", "--delta", "0.01", "--reason", "less risk"], 0, "is open again"),
    (["report", "page.html"], 0, "Page: page.html"),
    (["export", "log.csv"], 0, "events of study paints are in log.csv"),
    (["certificate", "--out", "certificate.json"], 3, "The certificate is in certificate.json"),
    (["verify", "certificate.json", "--log", "log.csv"], 0, "follows from the log"),
    (["anchor"], 0, "The head is event"),
    (["anchor", "--token", "certificate.json"], 1, "do it where the server's studies are kept"),
    (["copy", "paints", "copy"], 1, "do it where the server's studies are kept"),
    (["list"], 0, r"paints +measuring"),
    (["delete", "paints"], 2, "add --yes"),
    (["delete", "paints", "--yes"], 0, "Study paints is deleted"),
    (["list"], 0, "no study"),
]


def test_every_command_works_against_a_server(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or refuses with a sentence; the address is in SUREPICK_STORAGE, and no file appears."""
    assert {words[0] for words, _, _ in LINES} == {*COMMANDS, "plan"}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    monkeypatch.setenv("SUREPICK_STORAGE", server.url)
    Path("paints.csv").write_text(PAINTS)
    Path("earlier.csv").write_text("arm,value\nB,0.5\nC,0.7\n")
    for words, code, said in LINES:
        capsys.readouterr()
        found = main(words)
        shown = "".join(capsys.readouterr())
        assert (found, bool(re.search(said, shown, re.DOTALL))) == (code, True), f"{words}: {found}\n{shown}"
    assert not Path("surepick.db").exists()


def test_the_address_as_an_option(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next command that is shown has the address; a watch ends with the verdict; a wrong address is said soon."""
    monkeypatch.chdir(tmp_path)
    study = new(storage=server.url)
    assert main(["ask", "--storage", server.url]) == 0
    assert f"Next: surepick tell 1 VALUE --storage {server.url}" in capsys.readouterr().out
    study.tell(1, means(study.pending[0].arm))
    finish(study)
    assert main(["status", "--watch", "--storage", server.url]) == 0
    assert "ash is the best" in capsys.readouterr().out
    assert main(["status", "--storage", "http://127.0.0.1:9"]) == 1
    assert "no answer from http://127.0.0.1:9" in capsys.readouterr().err
    assert main(["status", "--storage", "http://ann:secret@127.0.0.1:9"]) == 2
    assert "secret" not in capsys.readouterr().err


def test_addresses_of_servers() -> None:
    """Any case and spaces around it; an unknown scheme names the forms there are."""
    assert open_storage(" HTTP://127.0.0.1:9/ ").address == "HTTP://127.0.0.1:9"
    with pytest.raises(StorageError, match='"http://host:8080" for a server'):
        open_storage("ftp://127.0.0.1:9")
