"""The layout of ids: who owns what can be read from an id alone."""

from __future__ import annotations

from sundog import ids

ME = bytes(range(8))


def test_the_ids_of_an_owner_begin_with_its_process_and_never_repeat() -> None:
    maker = ids.IdMaker(ME, job=3)
    made = [maker.task() for _ in range(100)] + [maker.put()[: ids.TASK_BYTES] for _ in range(100)]

    assert len(set(made)) == 200
    assert {ids.owner_of(each) for each in made} == {ME}
    assert {len(each) for each in made} == {ids.TASK_BYTES}


def test_the_last_four_bytes_of_a_task_are_its_job() -> None:
    assert ids.IdMaker(ME, job=7).task()[-4:] == (7).to_bytes(4, "little")


def test_later_tasks_have_larger_numbers_across_tasks_and_puts() -> None:
    maker = ids.IdMaker(ME)
    first, put, second = maker.task(), maker.put(), maker.task()

    assert ids.number_of(first) < ids.number_of(ids.task_of(put)) < ids.number_of(second)


def test_an_object_tells_its_task_and_which_result_it_is() -> None:
    task = ids.IdMaker(ME).task()
    third = ids.result_id(task, 3)

    assert (ids.task_of(third), ids.index_of(third)) == (task, 3)
    assert ids.result_id(task, 1) == task + ids.RESULT_SUFFIX
    assert ids.index_of(ids.IdMaker(ME).put()) == 0
