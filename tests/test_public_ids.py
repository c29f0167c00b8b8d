"""Ids as users see them: made, compared, taken apart, pickled."""

from __future__ import annotations

import pickle

import pytest

from sundog import public_ids
from sundog.public_ids import ActorID, JobID, NodeID, TaskID


@pytest.mark.parametrize("kind", [ActorID, JobID, NodeID, TaskID])
def test_an_id_survives_hex_bytes_and_pickle(kind: type[public_ids.BaseID]) -> None:
    one = kind.from_random()

    assert (
        kind.from_hex(one.hex()) == kind.from_binary(one.binary()) == pickle.loads(pickle.dumps(one)) == one
    )
    assert len(one.binary()) == kind.size()
    assert not one.is_nil() and kind.nil().is_nil()


def test_ids_of_two_kinds_are_never_equal() -> None:
    assert NodeID(bytes(28)) != public_ids.WorkerID(bytes(28))
    assert len({NodeID(bytes(28)), public_ids.WorkerID(bytes(28))}) == 2


def test_an_id_of_the_wrong_length_or_of_text_is_refused() -> None:
    with pytest.raises(ValueError, match="length"):
        NodeID(b"short")
    with pytest.raises(TypeError, match="from_hex"):
        NodeID("00" * 28)  # type: ignore[arg-type]


def test_a_task_tells_its_job() -> None:
    job = JobID.from_int(5)

    assert job.int() == 5
    assert TaskID(bytes(12) + job.binary()).job_id() == job
