"""An actor in its worker: constructed, served, ended.

Owns the switch from a plain worker to an actor's: which kind of serving its methods need. `construct`
and `terminate` come from the reader thread; the constructor itself runs in the main thread.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog import event_facts, events
from sundog.exceptions import AsyncioActorExit, RayTaskError
from sundog.owner import context
from sundog.owner.core import Owner
from sundog.owner.failures import note_error
from sundog.owner.objects import CopyLost
from sundog.serialize.fingerprint import fingerprint
from sundog.serialize.pack import pack
from sundog.signatures import is_coroutine
from sundog.wire import lanes as wire
from sundog.wire.control import ActorFailed, ActorReady, ConstructActor, TerminateActor
from sundog.worker import exits, large_code, stdio
from sundog.worker.executor import Executor
from sundog.worker.serving import Serving
from sundog.worker.setup import apply_lease, note_lease

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sundog.wire.dicts import Registration
    from sundog.wire.lanes import Extra

_TEXT_MAX = 8192


class ActorLife:
    """The one actor that a worker may become."""

    def __init__(self, owner: Owner, executor: Executor, serving: Serving) -> None:
        self.owner = owner
        self.executor = executor
        self.serving = serving
        # tracing sets it: called with the actor's class
        self.loaded_class: Callable[[type], None] | None = None

    def run(self) -> str:
        """Serve until the end, in the way that the actor needs; returns why it ended."""
        while True:
            before = self.serving
            reason: str | None = before.run()
            if self.serving is before:
                return reason or ""

    def stop(self, reason: str) -> None:
        """The node asks this process to end after its present task."""
        self.serving.stopping = reason or "stopped"
        self.serving.wake()

    def terminate(self, message: TerminateActor) -> None:
        """The actor is to end: after its pending calls (graceful), or now."""
        if not message.graceful:
            os._exit(0)
        self.serving.finish_then_stop("its last handle went out of scope")

    # ------------------------------------------------------------------ construction
    def construct(self, message: ConstructActor) -> None:
        """Become an actor (called by the reader; the work is done in the main thread)."""
        _, actor_id, incarnation, spec = message
        self.executor.actor_id = actor_id  # lanes opened after this one belong to callers of the actor
        self.serving.construct = lambda: self._construct(actor_id, incarnation, spec)
        self.serving.wake()

    def _become(self, actor_id: bytes, incarnation: int, spec: Registration) -> None:
        """From now on this process is the process of an actor."""
        facts, executor, owner = context.facts, self.executor, self.owner
        apply_lease(spec["setup"])
        note_lease(owner.ring, spec["setup"])
        owner.ring.become_actor(actor_id)
        facts.actor_id, facts.actor_name = actor_id, spec["name"]
        facts.was_reconstructed = incarnation > 0
        facts.actor_class = spec["class_name"]
        facts.packed_handle = spec["handle"]
        executor.title.become(spec["class_name"])
        executor.actor_id = actor_id
        executor.gates.actor_limit = spec["unread_max"]
        executor.actor_retry = spec.get("retry_exceptions", False)
        executor.inspection.become_actor(spec.get("inspect"))

    def _construction_failed(
        self, actor_id: bytes, incarnation: int, spec: Registration, error: BaseException
    ) -> None:
        """The constructor raised: tell the node, and end this process."""
        self.executor.inspection.construction_failed(spec, actor_id, incarnation, error)
        stored = RayTaskError.from_exception(
            error,
            function_name=f"{spec['class_name']}.__init__",
            pid=os.getpid(),
            task_id=actor_id.hex(),
            skip_frames_of=(),
        )
        note_error(self.owner.ring, actor_id, incarnation, stored)
        meta, _, _ = pack(stored, 1 << 62)
        self.serving.stopping = "its constructor failed"
        self.owner.control.send(ActorFailed(actor_id, incarnation, meta, str(stored)[:_TEXT_MAX]))

    def _construct(self, actor_id: bytes, incarnation: int, spec: Registration) -> None:
        executor, owner = self.executor, self.owner
        self._become(actor_id, incarnation, spec)
        received: list[bytes] = []
        start = owner.wall_s()
        creator: bytes = spec["owner"]
        token = context.running.set((actor_id, f"{spec['class_name']}.__init__", incarnation, creator))
        owner.ring.started(actor_id, start, owner.ring.name(f"{spec['class_name']}.__init__"))
        cls = None

        def record(flags: int) -> None:
            """Before the node hears how it ended: who is told so may ask for the record at once."""
            self._record(spec, actor_id, incarnation, cls, start, flags)

        try:
            if self.serving.watch.changed() and owner.config.reload_changed_modules:
                # No user code has run here yet, so importing again has the same effect as a new process.
                self.serving.watch.forget()
            cls = large_code.load(spec["blob"], spec["class_name"], owner.ring, pickle.loads)
            if self.loaded_class is not None:
                self.loaded_class(cls)
            positional, named = self._arguments(actor_id, spec["args"], spec["extra"] or {}, received)
            concurrent = self._choose_serving(cls, spec)
            self.serving.current = actor_id
            executor.named = (actor_id, "__init__")
            executor.title.seen("__init__")
            executor.actor = self._instance(cls, positional, named, concurrent)
            del positional, named
            if executor.exit_after is not None:
                raise SystemExit  # the constructor called exit_actor() and caught the exception
        except (SystemExit, AsyncioActorExit) as error:
            record(events.FAILED)
            if executor.exit_after is None:
                ended = error if isinstance(error, SystemExit) else SystemExit(0)
                executor.exit_code = exits.exit_code(ended)
                executor.exit_after = exits.told(ended, "its constructor")
            executor.actor = None
            self.serving.stopping = executor.exit_after
        except BaseException as error:
            record(events.FAILED)
            self._construction_failed(actor_id, incarnation, spec, error)
        else:
            executor.inspection.capsules.constructed(spec)
            shown = self._note_actor(actor_id, concurrent is not None)
            with owner.lock:
                owner.objects.drain()
                held = owner.refs.still_held(creator, received)
                owner.objects.carry_out()
            record(0)
            if concurrent is not None:
                self._hand_over(concurrent)
            owner.control.send(ActorReady(actor_id, incarnation, held, shown))
        finally:
            if stdio.holding:
                stdio.end_lines()
            context.running.reset(token)
            self.serving.current = None
            executor.title.seen("")

    def _record(
        self,
        spec: Registration,
        actor_id: bytes,
        incarnation: int,
        cls: type | None,
        start: float,
        flags: int,
    ) -> None:
        owner = self.owner
        name = owner.ring.name(f"{spec['class_name']}.__init__", fingerprint(cls))
        submit_s, end, extra = spec.get("submit_s", start), owner.wall_s(), spec["extra"]
        flags |= events.HIDDEN if spec.get("hidden") else 0
        self.executor.meter.write(events.CREATE, actor_id, name, submit_s, start, end, flags, incarnation)
        values = extra.get(wire.EXTRA_VALUES) if extra else None
        event_facts.moved(owner.ring, actor_id, incarnation, spec["args"], values, 0, end)

    def _note_actor(self, actor_id: bytes, concurrent: bool) -> str:
        """Note what all calls of this actor have in common; gives its `repr` if its class defines one, else ""."""
        facts = context.facts
        shown = own_repr(self.executor.actor)
        if shown or concurrent or facts.actor_name:
            self.owner.ring.note(
                "actor", actor=actor_id.hex(), repr=shown, name=facts.actor_name, concurrent=concurrent
            )
        return shown

    @staticmethod
    def _instance(
        cls: type[object], positional: Iterable[object], named: dict[str, object], concurrent: object
    ) -> object:
        """The user's constructor; alone, for signals that come while it runs may raise in it (`owner/moments.py`).

        That of an asyncio actor runs inside its loop, so it may start tasks there; a coroutine is awaited to its end.
        """
        loop = getattr(concurrent, "loop", None)
        if loop is not None or is_coroutine(cls.__init__):
            from sundog.worker.async_start import make_in_loop

            return make_in_loop(cls, positional, named, loop)
        return cls(*positional, **named)

    def _hand_over(self, concurrent: Serving) -> None:
        """Have the calls served by another from now on; locked, as the reader may be bringing the actor's end."""
        owner = self.owner
        with owner.lock:
            before = self.serving
            concurrent.adopt(before)
            if before.stopping is not None:
                concurrent.finish_then_stop(before.stopping)  # the last handle died during the constructor
            before.stopping = "replaced"
            self.serving = concurrent
            owner.before_block, owner.after_block = concurrent.before_block, concurrent.after_block

    def _arguments(
        self, actor_id: bytes, args: object, extra: Extra, received: list[bytes]
    ) -> tuple[tuple[object, ...] | list[object], dict[str, object]]:
        """The constructor's arguments. One whose copy is gone is waited for here: its task runs again."""
        anew: list[bytes] = []
        try:
            while True:
                try:
                    return self.executor.arguments(args, extra, received)
                except CopyLost as lost:
                    self.serving.current = actor_id  # a wait returns the CPU, which the awaited task may need
                    value = self.owner.lineage.next_copy(lost)
                    anew.append(lost.oid)
                    values = [
                        (oid, value[:4]) if oid == lost.oid else (oid, old)
                        for oid, old in extra[wire.EXTRA_VALUES]
                    ]
                    extra = {**extra, wire.EXTRA_VALUES: values}
        finally:
            self.owner.ops.extend(anew)

    def _choose_serving(self, cls: type, spec: Registration) -> Serving | None:
        """None for a sequential actor; else what serves an asyncio or a threaded one."""
        groups: dict[str, int] = dict(spec.get("concurrency_groups") or {})
        limit: int | None = spec.get("max_concurrency")
        from sundog.owner.evidence import is_async_class

        if is_async_class(cls):
            size = 1000 if limit is None else limit
            if groups:
                from sundog.worker.async_groups import GroupedServing

                return GroupedServing(self.owner, self.executor, size, groups, cls)
            from sundog.worker.async_actor import AsyncServing

            return AsyncServing(self.owner, self.executor, size, groups, cls)
        if groups or (limit or 1) > 1:
            from sundog.worker.threaded_actor import ThreadedServing

            return ThreadedServing(self.owner, self.executor, limit or 1, groups, cls)
        return None


def own_repr(actor: object) -> str:
    """What an actor calls itself: its `repr`, if its class defines one that works; else ""."""
    if actor is None or getattr(type(actor), "__repr__", None) is object.__repr__:
        return ""
    try:
        return repr(actor)
    except Exception:
        return ""
