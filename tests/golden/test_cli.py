"""What the commands wrote is what they write."""

import json

from tests.golden.cli import RECORDS, masked, script
from tests.golden.instances import differences, read


def test_the_commands_leave_what_they_left() -> None:
    """Exit codes, JSON and files of the whole script are those recorded, but for times, hashes and paths."""
    assert list(differences(json.loads(json.dumps(script())), read(RECORDS))) == []


def test_a_mask_hides_what_differs_from_run_to_run() -> None:
    """Times, hashes, ids of forks and the folder go; numbers and names stay."""
    said = {"at": "2026-11-17T12:00:00.000001Z", "hash": "ab" * 32, "fork": "0123456789abcdef", "file": "/x/y.csv"}
    hidden = {"at": "<time>", "hash": "<hash>", "fork": "<fork>", "file": "<folder>/y.csv"}
    assert masked({**said, "n": 3, "name": "E"}, "/x") == {**hidden, "n": 3, "name": "E"}
