"""Channels between processes: two of them in this one, over real socket pairs, with their messages carried by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from sundog.exceptions import OwnerDiedError
from sundog.owner import messages
from sundog.owner.peers import Peers
from sundog.wire.cause import Cause
from sundog.wire.control import OpenPeer, PeerOpened
from sundog.wire.lanes import OK
from sundog.wire.peers import AskValue, Borrow, CancelTold, TellValue, Unborrow, ValuePending
from sundog.wire.row import Table, on
from tests.owner.fakes import ME, OTHER, make_owner, new_id
from tests.shortages import no_descriptor_free

assert messages  # the tables that a real owner has


class Around:
    """What objects ask of the owner, as far as peers answer it."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def send_word(self, process: bytes, word: tuple[object, ...]) -> None:
        self.site.peers.send(process, word)

    def ask_owner(self, oid: bytes) -> None:
        self.site.peers.want(oid)

    def forget_borrowed(self, oid: bytes) -> None:
        self.site.peers.forget(oid)

    def nobody_asks(self, oid: bytes) -> None:
        self.site.peers.nobody_asks(oid)

    def not_made(self, oid: bytes) -> None:
        pass

    def lineage_freed(self, oid: bytes) -> None:
        pass

    def comes(self, oid: bytes) -> bool:
        return oid in self.site.coming

    def unknown(self, oid: bytes) -> BaseException:
        return LookupError(oid.hex())

    def arguments_ready(self, task: Any) -> None:
        pass


class Site:
    """One process, with as much of an owner as peers need."""

    def __init__(self, me: bytes) -> None:
        self.owner = owner = make_owner(me=me)
        self.coming: set[bytes] = set()
        self.heard: list[Any] = []
        self.peers = owner.peers = Peers(owner, owner.control)
        self.peers.actors = owner.actors
        owner.objects.around = Around(self)
        self.peers.table = Table(
            on(AskValue, self.peers.asked),
            on(ValuePending, self.peers.pending),
            on(TellValue, self.peers.value_told),
            on(Borrow, self.peers.counted),
            on(Unborrow, self.peers.counted),
            on(CancelTold, lambda process, message: self.heard.append((process, message))),
        )

    def read(self) -> None:
        for handler in list(self.owner.reactor.readers.values()):
            handler()


class Pair:
    """Two processes, and the node between them."""

    def __init__(self) -> None:
        self.me, self.other = Site(ME), Site(OTHER)

    def carry(self) -> None:
        """Deliver all that was sent, and open channels as the node does."""
        for _ in range(4):
            for site, target in ((self.me, self.other), (self.other, self.me)):
                control = site.owner.control
                while control.sent:
                    assert isinstance(control.sent.pop(0), OpenPeer)
                    target.peers.opened(PeerOpened(site.owner.me), control.fds.pop(0))
                target.read()
                site.read()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.me.peers.close()
    made.other.peers.close()


def test_a_channel_is_opened_on_first_use_and_used_again(pair: Pair) -> None:
    pair.me.peers.send(OTHER, CancelTold(1))
    assert pair.me.owner.control.sent == [OpenPeer(OTHER)]
    pair.carry()
    pair.me.peers.send(OTHER, CancelTold(2))
    assert pair.me.owner.control.sent == []
    pair.carry()
    assert pair.other.heard == [(ME, CancelTold(1)), (ME, CancelTold(2))]


def test_a_message_to_this_process_needs_no_socket(pair: Pair) -> None:
    pair.me.peers.send(ME, CancelTold(1))
    assert pair.me.heard == [(ME, CancelTold(1))] and pair.me.owner.control.sent == []


def test_a_borrowed_object_is_asked_for_and_comes_when_it_is_ready(pair: Pair) -> None:
    oid = new_id(OTHER)
    pair.other.coming.add(oid)
    pair.me.owner.refs.hold(oid)
    pair.me.owner.before_block = lambda: None  # a worker, which lends its CPU
    pair.me.peers.want(oid)
    pair.me.peers.want(oid)
    assert pair.me.peers.unanswered == {oid}
    pair.carry()
    assert pair.me.peers.unanswered == set(), "its owner said that it is not ready"
    pair.other.owner.objects.store(oid, (OK, b"value", None, None, None))
    pair.carry()
    assert pair.me.owner.ready == {oid: b"value"}


def test_an_object_that_nobody_holds_any_more_is_not_kept_when_it_comes(pair: Pair) -> None:
    oid = new_id(OTHER)
    pair.other.owner.objects.store(oid, (OK, b"value", None, None, None))
    pair.me.peers.want(oid)
    pair.carry()
    assert pair.me.owner.ready == {}


def test_what_a_dead_process_owned_is_an_error_and_it_is_told_nothing_more(pair: Pair) -> None:
    oid = new_id(OTHER)
    pair.me.owner.refs.hold(oid)
    pair.other.coming.add(oid)
    pair.me.peers.want(oid)
    pair.carry()
    pair.me.peers.process_died(OTHER, Cause(reason="it was killed"))
    with pytest.raises(OwnerDiedError, match="it was killed"):
        pair.me.owner.objects.load(oid)
    pair.me.peers.send(OTHER, CancelTold(1))
    pair.carry()
    assert pair.other.heard == []


def test_what_the_socket_does_not_take_waits_in_order(pair: Pair) -> None:
    sent = 0
    pair.me.peers.send(OTHER, CancelTold(0))
    pair.carry()
    pair.other.heard.clear()
    while not any(pair.me.owner.reactor.writers.values()):
        sent += 1
        pair.me.peers.send(OTHER, CancelTold(sent))
    pair.me.peers.send(OTHER, CancelTold(sent + 1))
    while len(pair.other.heard) < sent + 1:
        pair.other.read()
        for writer in list(pair.me.owner.reactor.writers.values()):
            if writer is not None:
                writer()
    assert [message.number for _, message in pair.other.heard] == list(range(1, sent + 2))


def test_messages_wait_in_order_for_a_channel_that_needs_a_descriptor(pair: Pair) -> None:
    with no_descriptor_free():
        pair.me.peers.send(OTHER, CancelTold(1))
        pair.me.peers.send(OTHER, CancelTold(2))
    assert pair.me.owner.control.sent == [] and pair.me.owner.actors.shortages == 1
    [again] = pair.me.owner.agenda.due
    again()
    pair.carry()
    assert pair.other.heard == [(ME, CancelTold(1)), (ME, CancelTold(2))]


def test_what_was_asked_on_a_channel_that_the_living_owner_could_not_take_is_asked_again(pair: Pair) -> None:
    oid = new_id(OTHER)
    pair.other.owner.objects.store(oid, (OK, b"v", None, None, None))
    pair.me.owner.refs.hold(oid)
    pair.me.peers.want(oid)
    pair.me.owner.control.sent.clear()
    os.close(pair.me.owner.control.fds.pop())  # as the kernel does when the receiver has no descriptor free
    pair.me.read()
    [again] = pair.me.owner.agenda.due
    again()
    pair.carry()
    assert pair.me.owner.ready == {oid: b"v"}
