"""Rows that the node gathers from every process, and what becomes of those who do not answer."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.node.requests import Requests
from sundog.util.state.api import list_objects
from sundog.util.state.exception import RayStateApiException
from sundog.util.state.source import StateSource
from sundog.wire.control import Described, Rpc
from sundog.wire.requests import ListRows
from tests.node.fakes import FakeNode, FakeProcess


def make_process(number: int) -> Any:
    return FakeProcess(bytes([number]), pid=100 + number)


class Gathering:
    """A node with three processes, of which the first asks for objects."""

    def __init__(self) -> None:
        self.processes = [make_process(number) for number in range(3)]
        node: Any = FakeNode()
        for each in self.processes:
            node.join(each)
        self.later = node.loop.timers
        self.requests = Requests(node)
        self.requests.handle(self.processes[0], Rpc(7, ListRows.kind, ListRows("objects")[1:]))
        self.token = self.processes[1].line.sent[0][1]

    def answer(self) -> Any:
        found = [message for message in self.processes[0].line.sent if message[0] == "answer"]
        assert len(found) == 1
        assert found[0][1:3] == (7, True)
        return found[0][3]

    def tell(self, *numbers: int) -> None:
        for number in numbers:
            message = Described(self.token, [{"object_id": number}])
            self.requests.described(self.processes[number], message)


def test_the_answer_comes_with_the_last_row_and_once() -> None:
    gathering = Gathering()
    gathering.tell(0, 1, 2)
    for late in gathering.later:
        late()
    rows, silent = gathering.answer()
    assert [row["object_id"] for row in rows] == [0, 1, 2]
    assert silent == []


def test_who_does_not_answer_in_time_is_named() -> None:
    gathering = Gathering()
    gathering.tell(0, 2)
    for late in gathering.later:
        late()
    rows, silent = gathering.answer()
    assert [row["object_id"] for row in rows] == [0, 2]
    assert silent == [101]


def test_nobody_waits_for_the_dead() -> None:
    gathering = Gathering()
    gathering.tell(0, 1)
    gathering.requests.process_died(gathering.processes[2].process_id)
    rows, silent = gathering.answer()
    assert len(rows) == 2
    assert silent == []


def test_a_list_with_gaps_is_refused_or_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def ask(_request: object) -> Any:
        return [{"object_id": "ab"}], [41, 42]

    with_gaps = StateSource(ask, "no session")
    monkeypatch.setattr("sundog.util.state.questions.find_source", lambda address: with_gaps)
    with pytest.raises(RayStateApiException, match=r"2 processes .*41, 42"):
        list_objects()
    assert [row.object_id for row in list_objects(raise_on_missing_output=False)] == ["ab"]
    assert "41, 42" in caplog.text
