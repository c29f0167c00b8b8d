"""A node that answers late: programs wait for as long as the setting says, and not for ever."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from sundog.exceptions import GetTimeoutError
from tests.integration.gates import await_true

Start = Callable[..., ModuleType]


def test_a_question_that_a_slow_node_does_not_answer_in_time_raises(ray_session: Start) -> None:
    ray = ray_session(
        num_cpus=1,
        _system_config={
            "gcs_server_request_timeout_seconds": 1,
            "testing_asio_delay_us": "ActorInfo.ListNamedActors=600000000:600000000",
        },
    )
    with pytest.raises(GetTimeoutError, match="list_named_actors"):
        ray.util.list_named_actors()

    def is_listed() -> bool:
        try:
            [row] = ray.nodes()
        except GetTimeoutError:  # on an overloaded machine, where the second of this session is too short
            return False
        return bool(row["Alive"])

    await_true(is_listed, "the node answers other questions")
