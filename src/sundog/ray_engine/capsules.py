"""Capsules of calls that failed on a Ray cluster, to be run again on the driver's machine.

Owns the making of a capsule in a worker, beside its ring, and its way into the session's folder: there the task's id
is whole. The format is that of the local engine (`sundog.capsules`), so `sundog replay` takes it as any other. Runs
in workers, in the thread of the call, and in the driver at the end.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog import trust
from sundog.capsules import capture
from sundog.capsules.rows import MAGIC, SUFFIX, Contents, Header, Outcome, Packed, write
from sundog.config import Config
from sundog.events import CALL, CREATE
from sundog.serialize.fingerprint import fingerprint
from sundog.serialize.pack import pack_function

if TYPE_CHECKING:
    from sundog.ray_engine.runs import RunningShim

_CONSTRUCTION_MAX = 1 << 20
_pace = capture.CapsulePace()
_constructed: dict[int, tuple[tuple[object, ...], dict[str, object]]] = {}


def constructed(execution: RunningShim) -> None:
    """An actor was made here: remember how, for the capsules of its calls."""
    _, args, kwargs = execution.call
    _constructed[id(args[0])] = (args[1:], kwargs)


def failed(folder: str, execution: RunningShim, error: BaseException, config: Config) -> None:
    """Keep a call that failed, unless there have been very many."""
    wanted = dict(execution.own).get("capsule")
    if wanted or (config.capsule_on_failure and _pace.allows(execution.name)):
        keep_run(folder, execution, capture.outcome_of_error(error), config)


def keep_run(folder: str, execution: RunningShim, outcome: Outcome, config: Config) -> None:
    """Write the capsule of a run beside the ring of its worker.

    Raises:
        Exception: the arguments cannot be pickled, or the disk is full. The caller continues without a capsule.
    """
    function, args, kwargs = execution.call
    method, target, made = "", function, None
    if execution.kind in (CALL, CREATE):
        actor, args = args[0], args[1:]
        method, target = execution.name.rpartition(".")[2], type(actor).__mro__[1]
        made = _constructed.get(id(actor)) if execution.kind == CALL else None
    contents = Contents(
        function=pack_function(target)[0],
        method=method,
        args=_packed(args, kwargs, config.capsule_max_bytes),
        values=(),
        nested={},
        constructor_args=_packed(*made, _CONSTRUCTION_MAX) if made is not None else None,
        constructor_values=(),
        actor_state=b"",
        random_state=None,
        numpy_state=None,
        **capture.surroundings(),
    )
    kind = {CALL: "call", CREATE: "constructor"}.get(execution.kind, "task")
    header = Header(
        task_id=execution.task.hex(),
        attempt=execution.attempt,
        name=execution.name,
        kind=kind,
        function=execution.name if method else getattr(function, "__qualname__", execution.name),
        source=capture.source_of(function),
        code=fingerprint(function),
        outcome=outcome,
        made_s=time.time(),
        session="",
        pid=os.getpid(),
        versions=capture.versions(),
        options={},
        state="constructed" if kind == "call" else "",
    )
    os.makedirs(f"{folder}/capsules", 0o700, exist_ok=True)
    write(f"{folder}/capsules/{header.task_id}-{header.attempt}{SUFFIX}", header, contents)


def _packed(args: tuple[object, ...], kwargs: dict[str, object], max_bytes: int) -> Packed:
    import cloudpickle

    data = cloudpickle.dumps([args, kwargs], 5)
    if len(data) > max_bytes:
        raise OverflowError("the arguments are larger than capsule_max_bytes")
    return Packed(data)


def keep(session_path: str, data: bytes, whole_id: Callable[[str], str]) -> str:
    """Write a capsule of a worker into the session's folder, under the whole id of its task; returns its path."""
    length = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    start = len(MAGIC) + 8
    fields = json.loads(data[start : start + length])
    fields["task_id"] = whole_id(fields["task_id"][16:])
    fields["session"] = os.path.basename(session_path)
    head = json.dumps(fields).encode()
    folder = f"{session_path}/capsules"
    trust.make_folder(folder)
    path = f"{folder}/{fields['task_id']}-{fields['attempt']}{SUFFIX}"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(MAGIC + len(head).to_bytes(8, "little") + head + data[start + length :])
    return path
