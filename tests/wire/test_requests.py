"""Requests to the node: each travels as it is, and each has a handler there."""

from __future__ import annotations

import inspect
import pickle

from sundog.wire import requests
from sundog.wire.requests import ListRows, PgCreate, Request
from sundog.wire.row import read


def _all_requests() -> list[type[Request[object]]]:
    found = [each for _, each in inspect.getmembers(requests, inspect.isclass)]
    return [each for each in found if issubclass(each, Request) and each is not Request]


def test_a_request_survives_the_wire() -> None:
    asked = PgCreate([{"CPU": 1.0}], "PACK", "name", None, None, "space", b"", "")
    arrived = read(PgCreate, pickle.loads(pickle.dumps(tuple(asked))))
    assert arrived == asked and arrived.strategy == "PACK"


def test_fields_with_a_default_may_be_left_out() -> None:
    assert ListRows("actors").patience_s == 10.0


def test_every_request_says_what_it_is_for() -> None:
    found = _all_requests()
    assert len(found) > 20
    assert [each.__name__ for each in found if not (each.__doc__ or "").strip()] == []


def test_a_question_is_written_with_the_type_of_its_answer_and_is_a_plain_class_at_run_time() -> None:
    assert Request[int] is Request
