"""Capsules of the tasks and calls of a worker: what `capsules.capture` needs, gathered where it is at hand.

Owns the way from a task on the wire to a capsule in the session's folder. Of a call it keeps how the actor was
constructed, as long as that is small; the state of the actor only if it was asked for (`capsule=True`), for that is
pickled before every call. Runs in the thread of the task; `capsules` is imported at the first one.
"""

from __future__ import annotations

import io
import os
import time
from typing import TYPE_CHECKING

from sundog.owner import context
from sundog.serialize.fingerprint import fingerprint
from sundog.serialize.pack import pack_function, unpack_with
from sundog.wire import lanes as wire

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from sundog.capsules.capture import CapsulePace, Packer, Randomness
    from sundog.capsules.rows import Header, Outcome, Packed
    from sundog.wire.dicts import Registration
    from sundog.wire.lanes import Extra
    from sundog.worker.answers import AnswerLane
    from sundog.worker.executor import Executor

CONSTRUCTION_MAX_BYTES = 1 << 20


class Before:
    """What was noted before a run."""

    __slots__ = ("actor_state", "randomness")

    def __init__(self, randomness: Randomness, actor_state: bytes) -> None:
        self.randomness = randomness
        self.actor_state = actor_state


class Capsules:
    """Makes the capsules of one worker."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.construction: Registration | None = None  # what the actor was created from, if that is small
        self._pace: CapsulePace | None = None

    def constructed(self, spec: Registration) -> None:
        """Remember how the actor was made."""
        args = spec["args"]
        size = len(spec["blob"]) + (len(args) if type(args) is bytes else 0)
        values = (spec["extra"] or {}).get(wire.EXTRA_VALUES) or ()
        # Arguments in shared memory are released when the constructor has returned.
        is_elsewhere = (args is not None and type(args) is not bytes) or any(value[2] for _, value in values)
        size += sum(len(value[1]) for _, value in values)
        self.construction = None if is_elsewhere or size > CONSTRUCTION_MAX_BYTES else spec

    def note_before(self) -> Before:
        """Record the state before a run, because the user asked for capsules of this function."""
        from sundog.capsules.capture import note_randomness

        state = b""
        if self._executor.actor is not None:
            state = _bounded_pickle(self._executor.actor, self._executor.owner.config.capsule_max_bytes)
        return Before(note_randomness(), state)

    def failed(
        self, lane: AnswerLane, item: wire.Item, name: str, outcome: Outcome, before: Before | None
    ) -> None:
        """Keep a failed run, unless there have been very many."""
        from sundog.capsules import capture

        if self._pace is None:
            self._pace = capture.CapsulePace()
        if before is not None or self._pace.allows(name):
            self.keep(lane, item, name, outcome, before)

    def keep(
        self, lane: AnswerLane, item: wire.Item, name: str, outcome: Outcome, before: Before | None
    ) -> None:
        """Write the capsule of a run."""
        from sundog.capsules import capture, rows

        executor, config = self._executor, self._executor.owner.config
        _, what, args, _, extra = item
        session = executor.owner.control.session
        packer = capture.Packer(
            config.capsule_max_bytes,
            lambda location, _oid: executor.owner.segments.view(location, None),
            session["shm_root"],
        )
        function, blob, method = self._code(lane, what)
        if blob is None:
            return
        made = self.construction if method else None
        contents = rows.Contents(
            function=blob,
            method=method,
            args=packer.arguments(args),
            values=_values(packer, extra),
            nested=self._nested(packer, args),
            constructor_args=packer.arguments(made["args"]) if made else None,
            constructor_values=_values(packer, made["extra"]) if made else (),
            actor_state=before.actor_state if before is not None else b"",
            random_state=before.randomness.python if before is not None else None,
            numpy_state=before.randomness.numpy if before is not None else None,
            **capture.surroundings(),
        )
        header = self._header(item, name, function, method, outcome, self._returns(lane, what))._replace(
            state="" if not method else "before" if contents.actor_state else "constructed",
            randomness=before is not None,
            absent=tuple(packer.absent),
        )
        capture.keep(session["path"], header, contents, config.capsule_quota_bytes, config.capsule_keep)

    def keep_construction(
        self, spec: Registration, actor_id: bytes, attempt: int, error: BaseException
    ) -> None:
        """Write the capsule of a constructor that raised."""
        item = (
            actor_id,
            "__init__",
            spec["args"],
            0.0,
            {**(spec["extra"] or {}), wire.EXTRA_ATTEMPT: attempt},
        )
        self.constructed(spec)
        if self.construction is not None:
            from sundog.capsules import capture

            self.keep(None, item, f"{spec['class_name']}.__init__", capture.outcome_of_error(error), None)  # type: ignore[arg-type]

    def _code(self, lane: AnswerLane, what: int | str) -> tuple[object, bytes | None, str]:
        """The function, its pickle, and the method's name; an empty pickle if it cannot be pickled."""
        if isinstance(what, int):
            fn = lane.fns.get(what)
            if fn is None or fn.function is None:
                return None, None, ""
            return fn.function, fn.blob or pack_function(fn.function)[0], ""
        if self.construction is None or what.startswith("__ray_"):
            return None, None, what
        cls = type(self._executor.actor) if self._executor.actor is not None else None
        return getattr(cls, what, None), self.construction["blob"], what

    def _nested(self, packer: Packer, args: object) -> dict[bytes, Packed]:
        """Values of refs inside the arguments, as far as this process has them."""
        if type(args) is not bytes or b"rebuild" not in args:
            return {}
        oids: list[bytes] = []
        unpack_with(args, None, lambda oid, _site=None: oids.append(oid))
        found = {}
        for oid in oids:
            value = self._executor.owner.ready.get(oid)
            if isinstance(value, bytes):
                found[oid] = packer.value(value, None, oid)
            elif value is not None and value[0] == wire.OK:
                found[oid] = packer.value(value[1], value[2], oid)
        return found

    def _returns(self, lane: AnswerLane, what: int | str) -> int | str:
        """The num_returns of a task that was submitted without this option."""
        fn = lane.fns.get(what) if isinstance(what, int) else None
        return fn.returns if fn is not None else 1

    def _header(
        self, item: wire.Item, name: str, function: object, method: str, outcome: Outcome, returns: int | str
    ) -> Header:
        from sundog.capsules import capture
        from sundog.capsules.rows import NAMED_RAY, Header

        extra = item[4] or {}
        own = f"{context.facts.actor_class}.{method}" if method else getattr(function, "__qualname__", name)
        return Header(
            task_id=item[0].hex(),
            attempt=extra.get(wire.EXTRA_ATTEMPT, 0),
            name=f"{context.facts.actor_class}.{name}" if method and "." not in name else name,
            kind="constructor" if method == "__init__" else "call" if method else "task",
            function=own,
            source=capture.source_of(function),
            code=fingerprint(function),
            outcome=outcome,
            made_s=time.time(),
            session=str(self._executor.owner.control.session["name"]),
            pid=os.getpid(),
            versions=capture.versions(),
            options={
                "num_returns": str(extra.get(wire.EXTRA_RETURNS, returns)),
                **_resources(),
                **({NAMED_RAY: "sundog"} if capture.is_named_ray() else {}),
            },
        )


def _values(packer: Packer, extra: Extra | None) -> tuple[Packed, ...]:
    found = (extra or {}).get(wire.EXTRA_VALUES) or ()
    return tuple(packer.value(value[1], value[2], oid) for oid, value in found)


def _resources() -> dict[str, str]:
    held = context.facts.resources
    return {name: f"{amount:g}" for name, amount in held.items()}


class _BoundedBytes(io.BytesIO):
    """Accepts so many bytes and no more."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._left = max_bytes

    def write(self, data: ReadableBuffer, /) -> int:
        self._left -= memoryview(data).nbytes
        if self._left < 0:
            raise OverflowError("too large")
        return super().write(data)


def _bounded_pickle(value: object, max_bytes: int) -> bytes:
    """The pickle of a value; b"" if it cannot be pickled, or its pickle is longer."""
    import cloudpickle

    file = _BoundedBytes(max_bytes)
    try:
        cloudpickle.Pickler(file, 5).dump(value)
    except Exception:
        return b""
    return file.getvalue()
