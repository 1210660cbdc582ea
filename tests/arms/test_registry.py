"""The table of vector sets: every name leads to its class, and back by way of JSON and text."""

import numpy as np
import pytest

import surepick as sp
from surepick.arms import VECTOR_SETS
from surepick.arms.base import NamedSet
from surepick.arms.registry import claimed_dim, read_arms, set_of_option, write_arms
from surepick.cli.options import SetOptions, key_of
from surepick.cli.studies.study_file import StudyFile
from surepick.errors import CorruptLog

SETS = [sp.Sphere(3), sp.Ellipsoid(np.zeros(2), np.eye(2)), sp.Hypercube(4), sp.TopK(5, 2)]


def test_every_set_of_the_table_is_here() -> None:
    """And on the command line, and in study.toml."""
    assert [one.kind for one in SETS] == [*VECTOR_SETS]
    assert {f"--{kind}" for kind in VECTOR_SETS} == {*SetOptions().values()}
    assert {key_of(kind) for kind in VECTOR_SETS} <= {*StudyFile.model_fields}


@pytest.mark.parametrize("arms", SETS, ids=lambda one: one.kind)
def test_a_set_is_read_as_it_was_written(arms: NamedSet) -> None:
    """By its kind and parameters, without a class named anywhere else."""
    written = write_arms(arms)
    again = read_arms(written)
    assert isinstance(again, NamedSet)
    assert type(again) is type(arms)
    assert write_arms(again) == written
    assert claimed_dim(written) == again.dim


def test_text_and_log_that_name_a_set() -> None:
    """A kind that is not in the table is refused."""
    assert write_arms(set_of_option("--top-k", "5,2")) == write_arms(sp.TopK(5, 2))
    assert claimed_dim({"kind": "torus", "dim": 3}) == 0
    with pytest.raises(CorruptLog, match="of a kind that this version knows"):
        read_arms({"kind": "torus", "dim": 3})
