"""Limits of jobs within the object store: whose objects go, who waits for whom, what is counted."""

from __future__ import annotations

from sundog.state.store_quotas import Quotas, StoreHolder
from sundog.state.store_steps import Granted, RoomRefused, Seen, Spill
from tests.state.test_store import MB, A, B, full_round, make, name_of, only


def test_a_job_at_its_limit_spills_its_own_objects_and_no_others() -> None:
    store = make()
    store.quotas.set_limit("train", 4 * MB)
    store.quotas.joined(A, "train")
    files = {name_of(A, number): Seen(MB, 1.0 + number) for number in range(4)}
    files |= {name_of(B, number): Seen(8 * MB, 0.0) for number in range(3)}  # older, and of another job
    steps = store.ask(A, 1, 4 * MB, 0, 0, 10.0)
    store.quotas.counted(files, {}, {})
    assert only(steps, Granted), "the first request finds the job's room untouched"
    steps = store.ask(A, 2, 2 * MB, 0, 4 * MB, 11.0)
    (spill,) = only(full_round(store, steps, files, 11.0), Spill)
    assert isinstance(spill, Spill)
    assert spill.names == [name_of(A, 0), name_of(A, 1)], "its oldest, as many as it lacks"
    assert store.quotas.pressed == {"train"}
    store.spilled(spill.job, "disk", [(name, 0, MB) for name in spill.names])
    (granted,) = only(store.released(spill.job, 12.0), Granted)
    assert granted == Granted(A, 2, 2 * MB), "and nothing to spare: the job has no more room"


def test_a_job_at_its_limit_holds_up_nobody() -> None:
    store = make()
    store.quotas.set_limit("train", MB)
    store.quotas.joined(A, "train")
    files = {name_of(A, 0): Seen(MB, 1.0)}
    full_round(store, store.ask(A, 1, MB // 2, 0, 0, 5.0), files, 5.0, live=files)
    (granted,) = only(store.ask(B, 7, MB, 0, 0, 6.0), Granted)
    assert isinstance(granted, Granted) and granted.process == B


def test_what_cannot_be_moved_makes_the_job_use_the_disk_or_fail_by_its_name() -> None:
    for fallback in (True, False):
        store = make(fallback=fallback)
        store.quotas.set_limit("train", MB)
        store.quotas.joined(A, "train")
        files = {name_of(A, 0): Seen(MB, 1.0)}
        store.quotas.counted(files, {}, {})
        steps = full_round(store, store.ask(A, 1, MB, 0, 0, 5.0), files, 5.0, live=files)
        steps = steps or full_round(
            store, store.tick(5.0 + store.grace_s), files, 5.1 + store.grace_s, live=files
        )
        assert only(steps, RoomRefused) == [RoomRefused(A, 1, not fallback, "train")]
    assert store.ask(A, 2, 2 * MB, 0, 0, 9.0)[0] == RoomRefused(A, 2, True, "train"), (
        "more than it may ever have"
    )


def test_room_is_counted_by_owner_and_returned_when_the_job_is_over() -> None:
    quotas = Quotas()
    assert not quotas and quotas.fits("", 1 << 60) and quotas.spare("", 0, 7) == 7
    quotas.set_limit("train", 10 * MB)
    quotas.joined(A, "train")
    made_elsewhere = name_of(A, 1, maker=B)
    quotas.counted(
        {made_elsewhere: Seen(3 * MB, 0.0), name_of(B, 1): Seen(MB, 0.0)}, {A: MB}, {name_of(A, 2): MB}
    )
    assert quotas.room("train") == 5 * MB
    assert quotas.used("train") == 3 * MB and quotas.holders("train") == [StoreHolder(A, 3 * MB)]
    assert quotas.shortages([("train", 6 * MB), ("", 99 * MB)]) == {"train": MB}
    assert quotas.spare("train", MB, 64 * MB) == MB
    quotas.set_limit("train", 12 * MB)
    assert quotas.room("train") == 7 * MB
    quotas.left(A)
    assert quotas.of_object(made_elsewhere) == ""
    quotas.drop("train")
    assert not quotas and quotas.room("train") is None
