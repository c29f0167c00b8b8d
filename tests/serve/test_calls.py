"""One request on its way: waiting, with a replica, moved to another, cancelled."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast

import pytest

from sundog.serve.calls import MOVED, Call
from sundog.serve.exceptions import RequestCancelledError
from sundog.serve.rows import Rejection, RequestMetadata


class Router:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.retried: list[object] = []
        self.forgotten: list[object] = []

    def retry(self, call: Call, stage: Future[object]) -> None:
        self.retried.append(stage)

    def forget(self, call: Call) -> None:
        self.forgotten.append(call)


class NotBegun(Exception):
    """A replica died before it began the request."""

    may_have_run = False


def made() -> tuple[Call, Router]:
    router = Router()
    return Call(cast(Any, router), RequestMetadata("id-1", "internal"), (1,), {}), router


def test_a_reader_of_an_earlier_stage_is_told_that_the_request_has_moved() -> None:
    call, router = made()
    waits, answer = call.wait(), Future[object]()
    call.sent(cast(Any, "replica"), None, None, answer)
    assert waits.result(0) is MOVED and call.current is answer
    assert call.was_refused(waits, MOVED) and router.retried == []


def test_a_refused_request_goes_to_the_router_again() -> None:
    call, router = made()
    stage = call.wait()
    assert call.was_refused(stage, Rejection(5, False)) and router.retried == [stage]
    assert not call.was_refused(stage, "an answer")


def test_only_a_request_that_has_not_begun_goes_elsewhere_when_its_replica_dies() -> None:
    call, router = made()
    stage = call.wait()
    assert not call.may_go_elsewhere(stage, RuntimeError()) and router.retried == []
    assert call.may_go_elsewhere(stage, NotBegun()) and router.retried == [stage]


def test_a_request_that_is_cancelled_while_it_waits_ends_with_an_error() -> None:
    call, router = made()
    stage = call.wait()
    call.cancel()
    call.cancel()
    assert router.forgotten == [call]
    with pytest.raises(RequestCancelledError, match="id-1"):
        stage.result(0)
    assert not call.may_go_elsewhere(stage, NotBegun())


def test_a_request_can_fail_before_anybody_waits_for_it() -> None:
    call, _ = made()
    call.fail(ValueError("no replica"))
    assert call.current is not None and isinstance(call.current.exception(0), ValueError)
