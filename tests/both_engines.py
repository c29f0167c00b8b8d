"""Which of our integration tests also run on a Ray cluster, unmodified: `make test-ray`.

Owns the list: files, and in each the tests that do not make sense there, with the reason. `tests/conftest.py` reads
it when SUNDOG_ENGINE is ray; `tests/on_ray.py` starts the cluster.
"""

from __future__ import annotations

import contextlib
import os
from types import ModuleType
from typing import Any

import pytest

ON_RAY = os.environ.get("SUNDOG_ENGINE") == "ray"

_WORDS = "the text of this error is Ray's own"
_STORE = "looks into sundog's own object store"
_PROCESS = "is about sundog's own processes"
_OTHER = "Ray behaves otherwise here"
_OWN = "needs a cluster of its own"
_AWAITS = "Ray's shutdown() does not end an await"
_ONE_ORDER = "Ray keeps one order for all groups of an actor"
_RING = "is about a queue in shared memory, which an actor of Ray's does not share"
_SESSION = "programs join a session that `sundog start` has started"
_LAST_ERROR = "a task that Ray cancels between two attempts fails with the error of the attempt before"
_NO_CLOSE = "generators of Ray cannot be closed"

FILES: dict[str, dict[str, str]] = {
    "tests/integration/test_tasks.py": {
        "test_a_custom_resource_is_needed_and_given_back": _OWN,
        "test_a_wrong_number_of_results_fails_every_ref": _WORDS,
        "test_an_actor_is_never_placed_in_a_process_that_max_calls_is_about_to_end": _PROCESS,
        "test_max_calls_replaces_the_process": _PROCESS,
        "test_retries_run_out_with_the_cause_of_the_last_crash": _WORDS,
    },
    "tests/integration/test_objects.py": {
        "test_a_large_argument_beside_a_ref_is_freed_and_the_ref_is_not": _STORE,
        "test_a_nested_object_goes_with_the_one_that_contains_it": _STORE,
        "test_a_ref_pickled_by_hand_keeps_its_object": _OTHER,
        "test_every_attempt_of_a_task_reads_a_ref_that_the_last_one_let_go": _PROCESS,
        "test_hundreds_of_refs_in_one_object_are_counted_one_for_one": _STORE,
        "test_large_arguments_are_freed_after_their_task": _STORE,
        "test_large_strings_and_bytes_survive_both_ways": _OTHER,
        "test_memory_is_reused_when_the_last_ref_goes": _STORE,
        "test_refs_in_actor_state_keep_their_objects": _STORE,
        "test_refs_of_a_value_that_cannot_be_unpickled_are_not_held_for_ever": _WORDS,
        "test_results_dropped_before_they_exist_are_freed": _STORE,
        "test_results_dropped_unread_are_freed": _STORE,
    },
    "tests/integration/test_calling_forms.py": {
        "test_a_decorator_of_the_call_runs_where_the_call_is_made": _OTHER,
        "test_a_method_of_a_handle_has_the_users_signature_and_docstring": _OTHER,
        "test_arguments_are_checked_against_what_is_really_called": _OTHER,
    },
    "tests/integration/worker/test_async_actor.py": {
        "test_a_crash_of_an_async_actor_fails_all_that_runs_there_and_a_restart_tries_it_again": _OTHER,
        "test_an_unknown_group_is_an_error_of_the_call_and_not_the_end_of_the_actor": _OTHER,
        "test_calls_begin_in_order_whether_they_are_quick_wait_or_hold_the_loop": _OTHER,
        "test_calls_of_one_caller_begin_in_order": _OTHER,
        "test_concurrency_groups_have_limits_of_their_own": _OTHER,
        "test_exit_actor_in_a_coroutine_fails_what_else_does_not_end_in_time": _OTHER,
        "test_exit_actor_in_a_task_that_a_coroutine_started_unwinds_both": _WORDS,
    },
    "tests/integration/owner/test_generators.py": {
        "test_a_generator_tells_how_far_it_is": "generators of Ray do not tell their task",
        "test_a_generator_cannot_be_sent_to_another_process": _WORDS,
        "test_a_generator_nobody_wants_any_more_is_stopped[close]": _NO_CLOSE,
        "test_a_closed_generator_leaves_nothing_in_the_owners_tables": _NO_CLOSE,
        "test_an_endless_generator_can_be_taken_from_and_closed": _NO_CLOSE,
        "test_wait_refuses_the_same_generator_twice": _WORDS,
        "test_generators_end_with_their_session": "a generator of Ray raises AttributeError after the end",
        "test_nothing_is_sent_into_a_streaming_task": _WORDS,
    },
    "tests/integration/test_get_and_wait.py": {
        "test_get_raises_the_first_error_in_order": "Ray raises the error that came first in time",
        "test_wait_returns_no_more_than_num_returns": "Ray's wait does not keep the order of what is ready",
    },
    "tests/integration/test_actors.py": {
        "test_methods_return_several_refs_by_decorator_and_by_options": _OTHER,
        "test_the_runtimes_own_methods_answer_on_every_actor": _WORDS,
        "test_an_actor_ends_with_its_last_handle_though_its_last_call_was_never_made": _PROCESS,
    },
    "tests/integration/test_named_actors.py": {
        "test_a_handle_found_by_name_does_not_keep_the_actor": _WORDS,
        "test_an_actor_that_crashed_keeps_its_name_while_a_handle_is_held": _WORDS,
        "test_a_detached_actor_is_shared_by_drivers_one_after_the_other": _SESSION,
        "test_a_detached_actor_has_tasks_actors_and_restarts_after_its_driver_has_left": _SESSION,
        "test_two_drivers_share_a_detached_actor_at_the_same_time": _SESSION,
        "test_an_actor_that_is_not_detached_ends_with_its_driver": _SESSION,
        "test_drivers_without_a_namespace_do_not_see_each_others_names": _SESSION,
        "test_what_a_detached_actor_has_started_goes_on_when_the_program_ends": _SESSION,
    },
    "tests/integration/test_call_order.py": {
        "test_order_is_kept_in_a_concurrency_group_and_not_between_groups": _ONE_ORDER,
    },
    "tests/integration/test_retries.py": {
        "test_each_attempt_that_raised_has_a_record_of_its_own": "Ray tells no asyncio call which attempt it is",
        "test_a_crash_names_the_attempt_that_was_the_last": _WORDS,
        "test_a_task_that_waits_for_its_next_attempt_is_cancelled": _LAST_ERROR,
        "test_an_actor_that_dies_in_its_constructor_does_not_restart_in_a_rush": _WORDS,
    },
    "tests/integration/worker/test_threaded_actor.py": {
        "test_a_full_group_does_not_hold_up_the_others": _ONE_ORDER,
        "test_an_unknown_group_is_an_error_of_the_call": _OTHER,
        "test_an_unknown_group_is_an_error_on_an_actor_without_groups_too": _OTHER,
        "test_a_call_that_waits_for_a_thread_can_be_cancelled": _OTHER,
        "test_exit_actor_in_a_thread_ends_the_actor_though_other_calls_do_not_end": _OTHER,
        "test_an_actor_that_cannot_answer_a_call_ends_instead_of_leaving_it_unanswered": _PROCESS,
    },
    "tests/integration/util/test_queue.py": {
        "test_small_items_of_a_queue_in_use_need_no_call": _RING,
        "test_coroutines_alone_open_the_ring_too": _RING,
        "test_a_queue_in_use_still_travels_and_its_actor_still_answers": _RING,
        "test_large_items_and_refs_keep_their_order_and_refs_are_freed": _RING,
        "test_more_than_the_ring_holds_comes_out_in_order": _RING,
        "test_two_and_two_processes_hand_over_each_item_once": _RING,
        "test_consumers_that_are_killed_take_at_most_what_they_held": _RING,
        "test_a_queue_whose_actor_was_killed_says_so": _RING,
        "test_a_get_that_waits_ends_with_the_actor": _RING,
        "test_a_get_that_waits_can_be_cancelled_and_takes_nothing": _RING,
        "test_coroutines_and_threads_share_a_queue_in_use": _RING,
        "test_ctrl_c_ends_a_get_that_waits_and_the_next_item_is_not_lost": _RING,
        "test_ctrl_c_ends_a_put_that_waits_and_its_item_does_not_come_later": _RING,
        "test_a_coroutine_that_gives_up_its_get_leaves_the_next_item_to_others": _RING,
        "test_a_handler_that_raises_at_any_moment_of_a_get_loses_no_later_item": _RING,
    },
    "tests/integration/util/test_actor_pool.py": {},
    "tests/integration/util/test_actor_group.py": {},
    "tests/integration/experimental/test_internal_kv.py": {
        "test_without_a_session_there_is_no_table": "the setting SUNDOG_ENGINE starts one here",
    },
    "tests/integration/test_awaits.py": {
        "test_one_loop_after_the_other_leaves_no_descriptor_and_replies_are_read_between_them": _PROCESS,
        "test_a_get_works_while_the_loop_that_read_last_is_closed_and_another_one_runs": _PROCESS,
        "test_the_loop_that_results_are_for_reads_them_although_another_one_waits_longer": _PROCESS,
        "test_an_await_that_is_given_up_frees_its_object_and_an_ended_session_ends_all_awaits": _AWAITS,
    },
}

failures: list[str] = []  # of the test that runs
_THERE = ("num_cpus", "object_store_memory", "log_to_driver")  # of init(): the cluster has its own


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the list; those that do not make sense on Ray are skipped, with the reason."""
    kept, left = [], []
    for item in items:
        path = item.location[0]
        if path not in FILES and not path.startswith("tests/ray_engine/"):
            left.append(item)
            continue
        reasons = FILES.get(path, {})
        why = reasons.get(item.name) or reasons.get(item.name.partition("[")[0])
        if why is not None:
            item.add_marker(pytest.mark.skip(reason=why))
        kept.append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def clean(sundog: ModuleType) -> None:
    """End what a test left: actors with a name, which the next one may want; all of it if the test failed."""
    if not sundog.is_initialized():
        return
    if failures:
        failures.clear()
        sundog.shutdown()  # its tasks and actors end with the job
        return
    for name in sundog.util.list_named_actors():
        with contextlib.suppress(ValueError):
            sundog.kill(sundog.get_actor(name))


def connect(sundog: ModuleType, arguments: dict[str, Any]) -> ModuleType:
    """The driver of all tests: one connection, for each new one has to start workers of its own."""
    rest = {name: value for name, value in arguments.items() if name not in _THERE}
    if rest and sundog.is_initialized():
        sundog.shutdown()
    if not sundog.is_initialized():
        sundog.init(**{"address": os.environ["RAY_ADDRESS"], "namespace": "tests", **rest})
    return sundog
