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
