"""Room in the object store, as one process asks the node for it.

::

    Segments.write ── no credit left ──► store_ask ──────► node ── grants, or says "disk" ──► store_grant
    Segments.view ─── no such file ────► store_restore ──► node ── brings it back ──────────► store_restored
    Segments.unlink ─ no such file ────► store_freed ────► node removes the spilled copy
    store fills ────── store_collect ──► gc.collect in a thread of its own
    node is short ──── store_trim ─────► Segments.trim ── what is free and what is in use ──► store_trimmed

Owns the questions that are under way. The asking thread waits on a lock while the thread that reads the sockets handles
the answer; it must not hold the owner's lock. It does not give its CPU back meanwhile, as a `get` would: room comes
from spilling, which needs no worker.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
from collections.abc import Callable
from typing import Any

from sundog import notices
from sundog.exceptions import ObjectStoreFullError, RaySystemError
from sundog.owner import interrupts
from sundog.owner.basics import Basics
from sundog.owner.control import Control
from sundog.store.segments import RESTORED
from sundog.wire.control import (
    StoreAsk,
    StoreCollect,
    StoreFreed,
    StoreGrant,
    StoreNotice,
    StoreRestore,
    StoreRestored,
    StoreTrim,
    StoreTrimmed,
)

_KEY = b"room"


class Room:
    """The node's store as one owner sees it."""

    def __init__(self, basics: Basics, control: Control, limit_bytes: int) -> None:
        self.basics = basics
        self.control = control
        self.limit_bytes = limit_bytes
        self._numbers = itertools.count(1)
        # number of the request -> bytes requested, and bytes to reserve
        self._asked: dict[int, tuple[int, int]] = {}
        self._answers: dict[int, Any] = {}
        self._got = 0  # all bytes that the node has granted
        basics.segments.live_within(limit_bytes, self)

    # ------------------------------------------------------------------ asking (any thread, not locked)
    def obtain(self, missing: int, aside: int) -> bool:
        """Ask for credit.

        Raises:
            ObjectStoreFullError: there is no room, and falling back to disk is switched off.
        """

        def question(number: int) -> StoreAsk:
            credit = self.basics.segments.credit
            return StoreAsk(number, missing, credit.left + credit.reserved, self._got)

        verdict, text = self._ask(question, (missing, aside))
        if verdict == "full" and text:
            raise ObjectStoreFullError(text, size_bytes=missing, limit_bytes=self.limit_bytes)
        if verdict == "full":
            raise ObjectStoreFullError(
                f"There is no room for {missing:,} bytes more in the object store ({self.limit_bytes:,} bytes): all "
                "its objects are in use or cannot be spilled, and store_fallback_to_disk is off. Free refs that you no "
                "longer need, or give the store more with init(object_store_memory=…). "
                "See: sundog.util.state.list_objects()",
                size_bytes=missing,
                limit_bytes=self.limit_bytes,
            )
        return bool(verdict == "granted")

    def restore(self, name: str, *, directly: bool) -> tuple[str, int] | None:
        """Restore a spilled object; returns where it is then, None if it is nowhere.

        Raises:
            RaySystemError: it was spilled to a place that does not answer.
        """
        place = self._ask(lambda number: StoreRestore(number, name, directly), (0, 0))
        if place == RESTORED:
            return self.basics.segments.restored_path(name), 0
        if place is not None and len(place) == 1:
            raise RaySystemError(
                f"The object in segment {name} was spilled, and cannot be restored from {place[0]}. "
                "The object is not lost: read it again when that place can be read. See: the node's log"
            )
        return place  # type: ignore[no-any-return]

    def freed(self, name: str) -> None:
        """An object is free whose file the node has moved."""
        if self.basics.closed is None:
            self.control.send(StoreFreed(name))

    def _ask(self, question: Callable[[int], StoreAsk | StoreRestore], sums: tuple[int, int]) -> Any:
        basics = self.basics
        if basics.lock._is_owned():  # type: ignore[attr-defined]
            raise RaySystemError(
                "Space in the store was requested under the owner's lock, where the answer cannot arrive."
            )
        number = next(self._numbers)
        key = _KEY + number.to_bytes(8, "little")
        gate = threading.Lock()
        gate.acquire()

        def open_gate(_: bytes) -> None:
            with contextlib.suppress(RuntimeError):
                gate.release()

        with basics.lock:
            basics.check_open()
            self._asked[number] = sums
            basics.waiters[key] = [open_gate]
            self.control.send(question(number))
        try:
            while True:
                basics.reactor.wait_in(gate.acquire)
                if number in self._answers or basics.closed is not None:
                    break
                if interrupts.due():
                    interrupts.heed()
            with basics.lock:
                if number not in self._answers:
                    basics.check_open()
                return self._answers.pop(number)
        except BaseException:
            self._abandon(number, key, sums)
            raise

    def _abandon(self, number: int, key: bytes, sums: tuple[int, int]) -> None:
        """No thread waits any more: the bytes that were reserved for them become plain credit."""
        with self.basics.lock:
            self.basics.waiters.pop(key, None)
            self._asked.pop(number, None)
            answer = self._answers.pop(number, None)
            if answer is not None and answer[0] == "granted":
                self.basics.segments.credit.granted(sums[0], -sums[1])

    # ------------------------------------------------------------------ the node's words (locked)
    def granted(self, message: StoreGrant) -> None:
        """Credit; or a word that there is none."""
        _, number, verdict, amount, text = message
        missing, aside = self._asked.get(number, (0, 0))
        if verdict == "granted":
            self._got += amount
            self.basics.segments.credit.granted(amount - missing, aside)
        self._answer(number, (verdict, text))

    def restored(self, message: StoreRestored) -> None:
        """The node reports where a restored object is."""
        self._answer(message.number, message.place)

    def _answer(self, number: int, answer: object) -> None:
        if self._asked.pop(number, None) is not None:
            self._answers[number] = answer
            self.basics.objects.announce(_KEY + number.to_bytes(8, "little"))

    def trim(self, message: StoreTrim) -> None:
        """Return what is not needed, and say what is looked at."""
        segments = self.basics.segments
        if self.basics.ops:
            self.basics.objects.drain()  # a view that has just died may free its object
        live, writing, free, used = segments.trim()
        reserved = segments.credit.surrender()
        self.control.send(StoreTrimmed(message.round, reserved, self._got, live, writing, free, used))

    def collect(self, _message: StoreCollect) -> None:
        """Collect garbage, in a thread of its own: finalizers of the program run there, and may call `get`."""
        # no thread can be started: the collector runs when the program triggers it
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=self._collect, daemon=True, name="sundog-collect").start()

    def _collect(self) -> None:
        gc.collect()
        with self.basics.lock:
            if self.basics.closed is None:
                self.basics.objects.drain()

    def notice(self, message: StoreNotice) -> None:
        """Show a line of the node's."""
        text = message.text
        warning = text.removeprefix("WARNING: ")
        if warning != text:
            self.basics.deliveries.bring(notices.warn, warning)
        else:
            self.basics.deliveries.bring(notices.note, text)
