"""What processes tell about themselves when a command asks: stacks, a pulse, references, retention paths.

Owns: values only, and the names of the questions. A process makes these rows in `owner/looks.py`, the node carries them
(`node/looks.py`), `observe/` and the command line show them. Refuses: judging, formatting.

::

    command ──rpc look(question, arguments)──► node ──look──► every process
    command ◄──answer (rows, silent)────────── node ◄─looked── each, by a thread of its own
"""

from __future__ import annotations

from sundog.plain import NamedTuple

# The questions.
STACKS = "stacks"
PULSE = "pulse"
MEMORY = "memory"
RETENTION = "retention"
CANCEL = "cancel"  # the one that changes something: a user asks the owner of a task to cancel it


class Who(NamedTuple):
    """A process of the session, as the node knows it."""

    pid: int
    process_id: str
    kind: str  # driver | worker
    state: str  # driver, starting, idle, leased, actor, stopping
    job_id: str
    started_s: float
    actor_id: str = ""
    actor_class: str = ""
    actor_name: str = ""
    entrypoint: str = ""  # of a driver: its command line


class StackFrame(NamedTuple):
    """One frame of a stack."""

    function: str
    file: str
    line: int
    ours: bool = False  # of sundog's own code


class RunningCall(NamedTuple):
    """A task or call that runs in a process."""

    task_id: str
    name: str
    start_s: float
    attempt: int = 0


class Stack(NamedTuple):
    """Where one thread, or one task of an event loop, is; the most recent call first."""

    name: str
    frames: tuple[StackFrame, ...]
    call: RunningCall | None = None
    ours: bool = False  # a thread that sundog started for itself
    omitted: int = 0  # frames in the middle of a deep recursion that are left out
    waits_for: str = ""  # of an asyncio task: what it awaits at the end of its chain
    loop: bool = False  # an asyncio task, not a thread


class ProcessStacks(NamedTuple):
    """All stacks of one process."""

    threads: tuple[Stack, ...]
    tasks: tuple[Stack, ...] = ()  # of event loops
    calls: tuple[RunningCall, ...] = ()  # what runs there, whichever thread or loop it is in
    tasks_omitted: int = 0


class WaitingTasks(NamedTuple):
    """Tasks of one function that a process submitted and that have not ended, by what they wait for."""

    name: str
    arguments: int
    worker: int
    sent: int  # tasks that a worker has: running there, or in its queue
    retries: tuple[int, int, int] = (0, 0, 0)  # of these three, how many are not their task's first attempt


class Pulse(NamedTuple):
    """What one process does now: the calls that run in it, and its own tasks that have not ended."""

    calls: tuple[RunningCall, ...]
    waiting: tuple[WaitingTasks, ...]
    nested: int = 0  # children that run in the process of the waiting task, nested


class Reference(NamedTuple):
    """One process's hold on one object."""

    object_id: str
    size_bytes: int  # -1: not known
    kind: str  # LOCAL_REFERENCE, PINNED_IN_MEMORY, USED_BY_PENDING_TASK, CAPTURED_IN_OBJECT, ACTOR_HANDLE
    status: str  # of the task that makes it: FINISHED, SUBMITTED_TO_WORKER, …; NIL: the object is another process's
    attempt: int
    call_site: str
    segment: str  # the file in shared memory that holds it; "" for a value in the memory of its owner
    local: int  # references counted in this process
    since_s: float  # when it was made, or its task was submitted; 0.0: not known here
    borrowers: tuple[str, ...] = ()  # processes that hold it too, as its owner knows


class Total(NamedTuple):
    """All references of one kind in one process."""

    kind: str
    references: int
    size_bytes: int


class MemoryReport(NamedTuple):
    """What one process holds: the largest references, and the sums over all of them."""

    references: tuple[Reference, ...]
    totals: tuple[Total, ...]
    omitted: int = 0


class Retention(NamedTuple):
    """Why one process holds an object: from the ref, or the bytes that are read in place, to what keeps it alive."""

    object_id: str
    paths: tuple[
        tuple[str, ...], ...
    ]  # each is a path in words: the held object, its holder, and so on to the root
    complete: bool  # False: the search ended at its limit
