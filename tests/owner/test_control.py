"""The line to the node: requests, answers, large messages without room, and a node that is gone."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sundog.config import Config
from sundog.exceptions import GetTimeoutError, LocalRayletDiedError, RaySystemError
from sundog.net.packets import NoRoom
from sundog.owner.control import Control
from sundog.owner.rows import Fn, Shape, Task
from sundog.state.lease_spec import LeaseSpec
from sundog.wire.control import Answer, Goodbye, Notice, PeerOpened, Rpc, WantLeases
from sundog.wire.requests import Nodes, Status
from sundog.wire.row import Table, on
from tests.owner.fakes import OTHER, make_owner


class FakeNode:
    """The socket to the node: what was sent on it, and what it brings; an exception in place of a message is raised."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.refusals: list[OSError] = []
        self.comes: list[Any] = []

    def send(self, message: Any, _fds: tuple[int, ...] = ()) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.sent.append(message)

    def receive(self) -> Any:
        if not self.comes:
            raise BlockingIOError
        found = self.comes.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    def fileno(self) -> int:
        return 99


class FakeGetting:
    """Blocks by asking the test's node for an answer."""

    def __init__(self) -> None:
        self.timeouts: list[float | None] = []
        self.answer: Callable[[], None] = lambda: None

    def block_until(self, done: Callable[[], bool], _key: bytes, timeout_s: float | None) -> bool:
        self.timeouts.append(timeout_s)
        self.answer()
        return done()


@pytest.fixture
def control(tmp_path: Path) -> Any:
    owner = make_owner(Config(gcs_server_request_timeout_seconds=60))
    owner.node = FakeNode()
    made: Any = Control(owner, {"path": str(tmp_path), "shm_root": "/nowhere", "name": "s1"})
    made.getting = FakeGetting()
    return made


def _answers(control: Any, ok: bool, value: object, number: int = 1) -> None:
    control.getting.answer = lambda: control.answered(Answer(number, ok, value))


def test_an_answer_goes_to_the_request_with_its_number(control: Any) -> None:
    _answers(control, True, {"cpus": 4})
    assert control.request(Status()) == {"cpus": 4}
    assert control.basics.node.sent == [Rpc(1, "status", ())]
    assert control._answers == {} and control._asked == set()


def test_an_answer_that_nobody_waits_for_any_more_is_dropped(control: Any) -> None:
    control.answered(Answer(77, True, "late"))
    assert control._answers == {}


def test_an_error_of_the_node_is_raised_and_plain_text_becomes_one(control: Any) -> None:
    _answers(control, False, ValueError("no such actor"))
    with pytest.raises(ValueError, match=r"no such actor"):
        control.request(Status())
    _answers(control, False, "it is closing", number=2)
    with pytest.raises(RaySystemError, match=r"it is closing"):
        control.request(Status())


def test_only_requests_that_are_answered_at_once_are_bounded_by_the_setting(control: Any) -> None:
    for number, question in enumerate((Nodes(), Status()), 1):
        _answers(control, True, [], number)
        control.request(question)
    assert control.getting.timeouts == [60, None]


def test_a_node_that_does_not_answer_in_time_is_named_with_what_was_asked(control: Any) -> None:
    with pytest.raises(GetTimeoutError, match=r"did not answer 'status' within 0.5 s.*sundog status"):
        control.request(Status(), timeout_s=0.5)
    assert control._asked == set()


def test_an_ended_session_is_not_asked(control: Any) -> None:
    control.basics.closed = RaySystemError("over")
    with pytest.raises(RaySystemError, match=r"over"):
        control.request(Status())
    assert control.basics.node.sent == []


def test_a_message_without_room_is_sent_again_and_given_up_with_advice(
    control: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    full = NoRoom(errno.ENOSPC, "No space left on device")
    control.basics.node.refusals = [full, full]
    control.send(Notice("large"))
    assert control.basics.node.sent == [Notice("large")] and len(slept) == 2
    control.basics.node.refusals = [full] * 1000
    with pytest.raises(
        RaySystemError, match=r"'notice' cannot be sent to the node. No space left on device. Free refs"
    ):
        control.send(Notice("large"))


def test_words_to_a_node_that_is_gone_are_lost_but_a_request_says_so(control: Any) -> None:
    control.basics.node.refusals = [OSError(errno.EPIPE, "gone")]
    control.send(Notice("x"))
    control.basics.node.refusals = [OSError(errno.EPIPE, "gone")]
    with pytest.raises(LocalRayletDiedError, match=r"of session s1 is gone"):
        control.request(Status())


def test_the_error_of_a_lost_node_shows_the_end_of_its_log(control: Any, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    assert "which ends with" not in str(control.lost_error())
    (tmp_path / "logs" / "node.log").write_text("x" * 5000 + "\nMemoryError\n")
    text = str(control.lost_error())
    assert text.endswith("MemoryError") and len(text) < 3000
    assert "Call sundog.shutdown() and sundog.init()" in text


def test_messages_are_handled_in_order_until_none_is_left(control: Any) -> None:
    heard: list[str] = []
    control.table = Table(on(Notice, lambda message: heard.append(message.text)))
    control.basics.node.comes = [((*Notice("a"),), ()), ((*Notice("b"),), ())]
    control.read()
    assert heard == ["a", "b"]


def test_descriptors_of_a_message_that_nobody_handles_are_closed(control: Any) -> None:
    read_end, write_end = os.pipe()
    control.basics.node.comes = [((*PeerOpened(OTHER),), (read_end,))]
    control.read()
    with pytest.raises(OSError, match=r"Bad file descriptor"):
        os.fstat(read_end)
    os.close(write_end)


@pytest.mark.parametrize("end", [None, ConnectionResetError()])
def test_the_end_of_the_socket_is_told_once_and_no_longer_read(control: Any, end: object) -> None:
    lost: list[bool] = []
    control.on_lost = lambda: lost.append(True)
    control.basics.reactor.add(99, control.read)
    control.basics.node.comes = [end, ((*Goodbye(),), ())]
    control.read()
    assert lost == [True] and 99 not in control.basics.reactor.readers


def test_a_want_names_the_first_and_the_last_function_that_wait(control: Any) -> None:
    shape = Shape(5, LeaseSpec(resources=(("CPU", 1.0),), env_key=""), {})
    shape.queue.extend(Task(b"t", Fn(0, name), None, 0.0) for name in ("first", "middle", "last"))
    control.want(shape, 3)
    control.want(shape, 0)
    [three, none] = control.basics.node.sent
    assert isinstance(three, WantLeases) and sorted(three.functions) == ["first", "last"]
    assert (three.leases, none.leases, none.functions) == (3, 0, ())


def test_a_want_says_which_grant_was_read_last(control: Any) -> None:
    shape = Shape(5, LeaseSpec(resources=(("CPU", 1.0),), env_key=""), {})
    control.want(shape, 3)
    control.last_grant = 12
    control.want(shape, 2)
    assert [want.last_grant for want in control.basics.node.sent] == [0, 12]
