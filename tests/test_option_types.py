"""The keywords that type checkers know are the options that there are."""

from __future__ import annotations

from sundog import option_types, options
from sundog.plain import fields


def names(kind: type) -> set[str]:
    return {each.name for each in fields(kind)} - {"num_returns"}


def keywords(kind: type) -> set[str]:
    return set(kind.__annotations__)


def test_a_task_has_the_options_that_its_keywords_name() -> None:
    assert keywords(option_types.TaskKeywords) | {"max_calls"} == names(options.TaskOptions)


def test_an_actor_has_the_options_that_its_keywords_name() -> None:
    assert keywords(option_types.ActorKeywords) | {"concurrency_groups"} == names(options.ActorOptions)


def test_a_method_has_the_options_that_its_keywords_name() -> None:
    assert keywords(option_types.MethodKeywords) == names(options.MethodOptions)


def test_the_decorator_takes_every_option_of_tasks_and_actors() -> None:
    assert keywords(option_types.RemoteKeywords) == names(options.TaskOptions) | names(options.ActorOptions)
