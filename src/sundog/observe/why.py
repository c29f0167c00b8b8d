"""Why something is as it is: one causal chain for a task, actor, worker, object or job, down to its first cause.

::

    facts (observe/why_facts.py: index, and a question to the node) ──explain──► Story: what, because, because, do this

Owns the reasoning and the words. Refuses: files, sockets, clocks: facts in, a story out. A step is only told if a fact
says so; what is not known is said to be unknown. Pure; runs wherever it is called.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from sundog.plain import JsonMapping, field, plain

_SLOW_FACTOR = 3.0
_SLOW_LEAST_S = 0.05
_CHAIN_MAX = 12
_TEXT_MAX = 300
_ERROR = re.compile(
    r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Iteration|Warning)\b"
)  # at the beginning of a line
_HEAD = re.compile(r"Traceback\b|sundog::|File ")  # of a traceback


@plain(frozen=True)
class Usual:
    """What calls of a function take that have ended."""

    count: int
    mean_s: float
    p95_s: float
    queued_mean_s: float = 0.0


@plain(frozen=True)
class ProcessEnd:
    """How a process ended, as the node recorded it."""

    worker_id: str
    pid: int
    exit_type: str
    detail: str
    last_task: str = ""
    last_line: str = ""
    facts: JsonMapping = field(default_factory=dict)


@plain(frozen=True)
class Attempt:
    """One run of a task that ended."""

    number: int
    state: str
    error_type: str = ""
    message: str = ""
    pid: int = 0
    seconds: float = 0.0
    end: ProcessEnd | None = None
    node: str = ""  # the node on which it ran and which was lost later, with the reason


@plain(frozen=True)
class ActorFacts:
    """What is known of an actor."""

    actor_id: str
    class_name: str
    state: str
    name: str = ""
    pid: int = 0
    restarts: int = 0
    cause: str = ""
    creation: TaskFacts | None = None
    end: ProcessEnd | None = None
    call_site: str = ""
    pending_why: str = ""
    calls: int = 0  # calls that have not ended
    runs: Sequence[str] = ()  # the calls that run, in words
    answered: int = 0
    failed: int = 0


@plain(frozen=True)
class TaskFacts:
    """What is known of a task."""

    task_id: str
    name: str
    state: str
    now_s: float
    submit_s: float = 0.0
    start_s: float = 0.0
    end_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    pid: int = 0
    call_site: str = ""
    line: str = ""
    line_age_s: float = 0.0
    blocked: str = ""  # what the running task itself waits for
    awaits: TaskFacts | None = None  # the task that makes it
    blocked_s: float = 0.0  # how long it was in get and wait, of one that has ended
    attempts: Sequence[Attempt] = ()
    phases: Sequence[tuple[str, float]] = ()
    usual: Usual | None = None
    missing: Sequence[TaskFacts] = ()  # the tasks that make the arguments it waits for
    missing_puts: Sequence[str] = ()
    shortage: str = ""  # why its resources are not granted
    infeasible: bool = False
    holders: Sequence[str] = ()
    origin: TaskFacts | None = None  # the task whose error this is
    actor: ActorFacts | None = None
    # the step of a runtime environment that is running while the task waits for a worker
    environment: str = ""
    session_end: str = ""  # why the session ended, if its driver did not end it


@plain(frozen=True)
class ObjectFacts:
    """What is known of an object."""

    object_id: str
    maker: TaskFacts | None = None
    call_site: str = ""
    size_bytes: int = 0
    put_by: str = ""
    holders: Sequence[str] = ()
    spilled: str = ""


@plain(frozen=True)
class JobFacts:
    """What is known of a job."""

    job_id: str
    status: str
    entrypoint: str
    pid: int
    seconds: float
    message: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    worst: TaskFacts | None = None


@plain(frozen=True)
class Story:
    """An answer: what it is about, its state, why, and what to do next."""

    subject: str
    verdict: str
    because: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


class Telling(ABC):
    """Facts that have a module and a story of their own."""

    @abstractmethod
    def story(self) -> Story:
        """What they tell."""


Facts = TaskFacts | ActorFacts | ObjectFacts | JobFacts | Telling | ProcessEnd


def explain(facts: Facts) -> Story:
    """The story of anything that facts are known of."""
    if isinstance(facts, TaskFacts):
        return explain_task(facts)
    if isinstance(facts, ActorFacts):
        return explain_actor(facts)
    if isinstance(facts, ObjectFacts):
        return explain_object(facts)
    if isinstance(facts, JobFacts):
        return explain_job(facts)
    if isinstance(facts, Telling):
        return facts.story()
    return explain_end(facts)


# ---------------------------------------------------------------------- tasks
def explain_task(facts: TaskFacts) -> Story:
    """Why a task waits, runs long, was slow, or failed."""
    subject = f"task {facts.name}() {facts.task_id}"
    where = (f"it was submitted at {facts.call_site}",) if facts.call_site else ()
    if facts.state in ("FINISHED", "FAILED"):
        if facts.state == "FAILED":
            chain, next_ = _failed(facts)
            return Story(subject, f"failed{_after(facts)}", (*chain, *where), next_)
        chain = _slow(facts)
        verdict = f"finished in {_s(facts.end_s - facts.start_s)}" + (", slower than usual" if chain else "")
        return Story(
            subject, verdict, (*(chain or _normal(facts)), *where), (f"sundog get tasks {facts.task_id}",)
        )
    if facts.state.startswith("RUNNING"):
        return Story(
            subject,
            f"has run for {_s(facts.now_s - facts.start_s)}",
            (*_running(facts), *where),
            _look(facts),
        )
    chain = _pending(facts)
    waited = _s(facts.now_s - facts.submit_s)
    return Story(subject, f"has waited for {waited}", (*chain, *where), _next_of_pending(facts))


def _pending(facts: TaskFacts, depth: int = 0) -> tuple[str, ...]:
    """What a task that has not begun waits for, and what that waits for."""
    if facts.infeasible:
        return (f"it can never run: {facts.shortage.removeprefix('infeasible: ')}",)
    if facts.state == "PENDING_ARGS_AVAIL":
        steps: list[str] = []
        for maker in facts.missing[:3]:
            steps.append(f"its argument, the result of {maker.name}() {maker.task_id}, is not ready")
            if depth < _CHAIN_MAX:
                steps += _state_of(maker, depth + 1)
        steps += [
            f"its argument {each} is not ready: the owner of the object has not reported it"
            for each in facts.missing_puts
        ]
        more = len(facts.missing) - 3
        if more > 0:
            steps.append(f"{more} more arguments are missing")
        return tuple(steps) or ("its arguments are not ready; the records do not tell which",)
    if facts.actor is not None:
        return _waits_for_actor(facts.actor)
    steps = []
    if facts.shortage:
        steps.append(f"it waits for a worker: {facts.shortage}")
    elif facts.environment:
        steps.append(f"a worker makes a runtime environment: {facts.environment}")
    elif facts.state == "SUBMITTED_TO_WORKER":
        steps.append(f"it was sent to the worker with pid {facts.pid}, which runs something before it")
    else:
        steps.append("it waits for a worker; nothing says that resources are short, so it is about to begin")
    steps += [f"held by {holder}" for holder in facts.holders[:5]]
    return tuple(steps)


def _state_of(maker: TaskFacts, depth: int) -> list[str]:
    if maker.state.startswith("RUNNING"):
        return [
            f"{maker.name}() has run for {_s(maker.now_s - maker.start_s)} in pid {maker.pid}",
            *_running(maker, depth),
        ]
    if maker.state == "FAILED":
        return [f"{maker.name}() failed", *_failed(maker, depth)[0]]
    if maker.state == "FINISHED":
        return [f"{maker.name}() has finished: its value is being sent"]
    return list(_pending(maker, depth))


def _waits_for_actor(actor: ActorFacts) -> tuple[str, ...]:
    label = f"actor {actor.class_name} {actor.actor_id}"
    if actor.state == "ALIVE":
        calls = f", which has {actor.calls} calls before it" if actor.calls else ", which runs another call"
        return (f"it waits for its turn at {label} (pid {actor.pid}){calls}",)
    story = explain_actor(actor)
    return (f"it waits for {label}, which {story.verdict}", *story.because)


def _running(facts: TaskFacts, depth: int = 0) -> tuple[str, ...]:
    steps: list[str] = []
    if facts.line and not facts.blocked:
        age = f", seen {_s(facts.line_age_s)} ago" if facts.line_age_s > 1.0 else ""
        steps.append(f"it is at {facts.line}{age}")
    usual, so_far = facts.usual, facts.now_s - facts.start_s
    if usual is not None and usual.count:
        if so_far > max(_SLOW_FACTOR * usual.p95_s, _SLOW_LEAST_S):
            steps.append(
                f"it is a straggler: {usual.count} calls of {facts.name}() took {_s(usual.mean_s)} on average, 95 % of "
                f"them at most {_s(usual.p95_s)}"
            )
        else:
            steps.append(f"that is usual: {usual.count} calls took {_s(usual.mean_s)} on average")
    else:
        steps.append(f"no other call of {facts.name}() has ended, so there is no usual time to compare with")
    if facts.blocked:
        steps.append(f"it waits itself: {facts.blocked}")
        if facts.awaits is not None and depth < _CHAIN_MAX:
            steps.append(f"that is the result of {facts.awaits.name}() {facts.awaits.task_id}")
            steps += _state_of(facts.awaits, depth + 1)
    return tuple(steps)


def _slow(facts: TaskFacts) -> tuple[str, ...]:
    """Where the time of a finished task went, if it took longer than its like."""
    usual, took = facts.usual, facts.end_s - facts.start_s
    if usual is None or usual.count < 3:
        return ()
    steps = []
    # Without the call itself: among few calls, one slow call determines the mean.
    mean_s = max(0.0, (usual.mean_s * usual.count - took) / (usual.count - 1))
    if took > max(_SLOW_FACTOR * mean_s, _SLOW_LEAST_S):
        steps.append(
            f"it ran {_s(took)}; the other {usual.count - 1} calls of {facts.name}() took {_s(mean_s)} on average"
        )
        busy = facts.cpu_s / took if took else 0.0
        if facts.blocked_s > 0.5 * took:
            steps.append(f"it waited {_s(facts.blocked_s)} of that in get() and wait() for others")
        elif busy < 0.5:
            steps.append(
                f"it used the processor for {_s(facts.cpu_s)} of that: the other time it waited or slept"
            )
        else:
            steps.append(
                f"it used the processor for {_s(facts.cpu_s)} of that: it had more to compute than the others"
            )
    queued = facts.start_s - facts.submit_s
    if queued > max(_SLOW_FACTOR * usual.queued_mean_s, 1.0) and queued > took:
        steps.append(f"before it ran it waited {_s(queued)}, where {_s(usual.queued_mean_s)} is usual")
        steps += [
            f"of these {_s(seconds)} for {what}" for what, seconds in facts.phases if seconds > 0.1 * queued
        ]
    return tuple(steps)


def _normal(facts: TaskFacts) -> tuple[str, ...]:
    steps = [
        f"it waited {_s(facts.start_s - facts.submit_s)} before it ran, in the process with pid {facts.pid}"
    ]
    steps += [f"of these {_s(seconds)} for {what}" for what, seconds in facts.phases if seconds > 1e-3]
    if facts.blocked_s > 1e-3:
        steps.append(f"while it ran it waited {_s(facts.blocked_s)} in get() and wait()")
    steps.append(f"it used {_s(facts.cpu_s)} of processor time and at most {facts.peak_bytes / 1e6:.0f} MB")
    if len(facts.attempts) > 1:
        steps += [_attempt(each) for each in facts.attempts[:-1]]
    return tuple(steps)


def _failed(facts: TaskFacts, depth: int = 0) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The chain of a failure down to its first cause, and what to do."""
    if facts.origin is not None and depth < _CHAIN_MAX:
        chain, next_ = _failed(facts.origin, depth + 1)
        origin = f"its argument failed: the result of {facts.origin.name}() {facts.origin.task_id}"
        return (origin, *chain), next_
    steps = []
    if len(facts.attempts) > 1:
        steps.append(f"it ran {len(facts.attempts)} times, and the last attempt failed too")
        steps += [_attempt(each) for each in facts.attempts[:-1]]
    last = facts.attempts[-1] if facts.attempts else None
    if last is None:
        return (*steps, "the records have nothing else about this task"), (
            f"sundog logs task {facts.task_id}",
        )
    if last.end is not None and last.error_type in (
        "WORKER_DIED",
        "OUT_OF_MEMORY",
        "ACTOR_DIED",
        "ACTOR_UNAVAILABLE",
    ):
        steps.append(f"its process (pid {last.end.pid}) ended while it ran: {_first(last.end.detail)}")
        steps += _evidence(last.end)
        return tuple(steps), _next_of_end(last.end, facts.task_id)
    if facts.actor is not None and last.error_type in ("ACTOR_DIED", "ACTOR_UNAVAILABLE"):
        story = explain_actor(facts.actor)
        steps.append(f"its actor {facts.actor.class_name} {facts.actor.actor_id} {story.verdict}")
        return (*steps, *story.because), story.next
    steps.append(
        f"{last.error_type or 'it failed'}: {_first(last.message)}" if last.message else last.error_type
    )
    if facts.session_end and "when its session ended" in last.message:
        steps.append(facts.session_end)
    if last.error_type == "RUNTIME_ENV_SETUP_FAILED":
        steps += _said(last.message)
    if last.error_type == "TASK_EXECUTION_EXCEPTION":
        place = _place(last.message)
        if place:
            steps.append(f"raised at {place}")
        return tuple(steps), (f"sundog get tasks {facts.task_id}", f"sundog logs task {facts.task_id} --err")
    if facts.line:
        steps.append(f"its code was last seen at {facts.line}")
    return tuple(steps), (f"sundog get tasks {facts.task_id}",)


def _said(message: str) -> list[str]:
    """What the program that makes an environment said of its failure, and where all of it is.

    >>> _said("pip failed:\\n  Looking in …\\n  ERROR: No such package\\nThe whole log: /tmp/a.log")
    ['ERROR: No such package', 'The whole log: /tmp/a.log']
    """
    lines = [line.strip() for line in message.splitlines()[1:] if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "fatal"))]
    said = errors[-1:] or [line for line in lines if not line.startswith("The whole log")][-1:]
    return [
        each[:_TEXT_MAX] for each in (*said, *(line for line in lines if line.startswith("The whole log")))
    ]


def _attempt(each: Attempt) -> str:
    why = _first(each.end.detail) if each.end is not None else _first(each.message)
    if each.node and each.state == "FINISHED":
        return f"attempt {each.number} ran on {each.node}: its result was lost with it, and was made again"
    if each.node:
        why = f"it ran on {each.node}" + (f"; {why}" if why else "")
    return f"attempt {each.number} ended after {_s(each.seconds)}: {each.error_type or each.state}" + (
        f" ({why})" if why else ""
    )


def _next_of_pending(facts: TaskFacts) -> tuple[str, ...]:
    if facts.infeasible:
        return (
            "ask for less in @remote(...), or start the session with more (init(num_cpus=…, resources=…))",
        )
    if facts.missing:
        return (f"sundog why {facts.missing[0].task_id}",)
    return ("sundog status",)


def _look(facts: TaskFacts) -> tuple[str, ...]:
    return (f"sundog stack {facts.pid}", f"sundog logs task {facts.task_id}")


# ---------------------------------------------------------------------- processes and actors
def explain_end(end: ProcessEnd) -> Story:
    """Why a process ended."""
    steps = [_first(end.detail), *_evidence(end)]
    if end.last_task:
        steps.append(f"the task that it had begun last: {end.last_task}")
    return Story(
        f"process {end.worker_id} (pid {end.pid})",
        f"ended: {end.exit_type}",
        tuple(steps),
        _next_of_end(end, ""),
    )


def _evidence(end: ProcessEnd) -> list[str]:
    steps = []
    used, total = end.facts.get("used_bytes"), end.facts.get("total_bytes")
    if used and total:
        steps.append(f"memory stood at {used / 1e9:.1f} of {total / 1e9:.1f} GB")
    if end.facts.get("own_bytes"):
        steps.append(f"the process itself had {end.facts['own_bytes'] / 1e9:.2f} GB")
    if end.last_line and end.last_line not in end.detail:
        steps.append(f"its code was last seen at {end.last_line}")
    return steps


def _next_of_end(end: ProcessEnd, task_id: str) -> tuple[str, ...]:
    found = (
        f"sundog stack {end.pid}" if end.exit_type == "RUNNING" else f"sundog logs worker {end.pid} --err",
    )
    if end.exit_type == "NODE_OUT_OF_MEMORY":
        return ("give the task memory=… so that fewer run at a time, or use less memory in it", *found)
    return (*((f"sundog get tasks {task_id}",) if task_id else ()), *found)


def explain_actor(actor: ActorFacts) -> Story:
    """Why an actor is not there, or how it is."""
    subject = f"actor {actor.class_name} {actor.actor_id}" + (f" named {actor.name!r}" if actor.name else "")
    where = (f"it was created at {actor.call_site}",) if actor.call_site else ()
    again = (f"it was restarted {actor.restarts} times before",) if actor.restarts else ()
    if actor.state == "DEAD":
        steps = [_first(actor.cause) or "why it died was not recorded"]
        if actor.end is not None:
            steps += [step for step in _evidence(actor.end) if step not in steps]
        if actor.creation is not None and actor.creation.state == "FAILED":
            steps += ["its constructor failed", *_failed(actor.creation)[0]]
        next_ = (f"sundog logs actor {actor.actor_id} --err",)
        return Story(subject, "is dead", (*steps, *again, *where), next_)
    if actor.state == "ALIVE":
        steps = _occupied(actor)
        verdict = f"lives in pid {actor.pid}"
        return Story(subject, verdict, (*steps, *again, *where), (f"sundog stack {actor.pid}",))
    words = {
        "DEPENDENCIES_UNREADY": "waits for the arguments of its constructor",
        "PENDING_CREATION": "waits for a worker, or its constructor runs",
        "RESTARTING": "is restarted",
    }
    steps = [actor.pending_why] if actor.pending_why else []
    if actor.creation is not None and actor.creation.state.startswith("RUNNING"):
        steps += ["its constructor runs", *_running(actor.creation)]
    return Story(subject, words.get(actor.state, actor.state), (*steps, *again, *where), ("sundog status",))


def _occupied(actor: ActorFacts) -> list[str]:
    """What an actor that lives does, has done, and has before it."""
    steps = [f"it runs {each}" for each in actor.runs[:5]] or ["it is idle"]
    waiting = actor.calls - len(actor.runs)
    if waiting > 0:
        steps.append(f"calls that wait for their turn: {waiting}")
    steps.append(
        f"calls that it has answered: {actor.answered}"
        + (f", failed: {actor.failed}" if actor.failed else "")
    )
    return steps


# ---------------------------------------------------------------------- objects and jobs
def explain_object(facts: ObjectFacts) -> Story:
    """Where an object came from, and why it is not there or still there."""
    subject = f"object {facts.object_id}"
    steps = [f"held by {holder}" for holder in facts.holders[:5]]
    if facts.spilled:
        steps.append(facts.spilled)
    size = f", {facts.size_bytes / 1e6:.1f} MB" if facts.size_bytes > 0 else ""
    if facts.maker is not None:
        story = explain_task(facts.maker)
        verdict = f"is the result of {facts.maker.name}(), which {story.verdict}{size}"
        return Story(subject, verdict, (*story.because, *steps), story.next)
    if facts.put_by:
        if facts.call_site:
            steps.insert(0, f"it was put at {facts.call_site}")
        return Story(subject, f"was put by {facts.put_by}{size}", tuple(steps), ("sundog memory --why",))
    return Story(
        subject,
        "is not in the records: small objects from put() are not recorded",
        tuple(steps),
        ("sundog memory",),
    )


def explain_job(facts: JobFacts) -> Story:
    """How a job stands, and its worst trouble."""
    counts = ", ".join(f"{count} {state}" for state, count in sorted(facts.counts.items()))
    steps = [f"its tasks: {counts}" if counts else "it has run no tasks"]
    if facts.message:
        steps.append(facts.message)
    next_: tuple[str, ...] = (f"sundog list tasks -f job_id={facts.job_id} -f state=FAILED",)
    if facts.worst is not None:
        story = explain_task(facts.worst)
        steps += [f"{story.subject} {story.verdict}", *story.because]
        next_ = (f"sundog why {facts.worst.task_id}", *next_)
    verdict = f"{facts.status.lower()}, {_s(facts.seconds)} ({facts.entrypoint}, pid {facts.pid})"
    return Story(f"job {facts.job_id}", verdict, tuple(steps), next_)


# ---------------------------------------------------------------------- words
def _after(facts: TaskFacts) -> str:
    took = facts.end_s - facts.start_s
    return f" after {_s(took)}" if facts.start_s and took > 0 else ""


def _s(seconds: float) -> str:
    """A duration for people.

    >>> _s(0.0042), _s(75.0)
    ('4.2 ms', '1 min 15 s')
    """
    if seconds < 1e-3:
        return f"{max(0.0, seconds) * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def _first(text: str) -> str:
    """What an error says in one line: the line of a traceback that names the error, the first of anything else.

    >>> _first('Traceback:\\n  File "a.py", line 1\\n    f()\\nValueError: no\\nSee: sundog status')
    'ValueError: no'
    >>> _first('f() ran too long. Its code was here:\\n  File "a.py", line 1\\n    g()\\nWhy: sundog why 1')
    'f() ran too long. Its code was here:'
    """
    lines = [line.rstrip() for line in (text or "").splitlines() if line.strip()]
    if not lines:
        return ""
    frames = [number for number, line in enumerate(lines) if line.lstrip().startswith("File ")]
    chosen = lines[0].strip()
    # An error of sundog's own begins with a sentence; the frames below it are a stack that it shows.
    if frames and _HEAD.match(chosen):
        errors = [line.strip() for line in lines if _ERROR.match(line.strip())]
        chosen = errors[-1] if errors else lines[-1].strip()
    return chosen if len(chosen) <= _TEXT_MAX else chosen[: _TEXT_MAX - 1] + "…"


def _place(text: str) -> str:
    """The last line of code that a traceback names."""
    found = [line.strip() for line in (text or "").splitlines() if line.strip().startswith("File ")]
    return found[-1].removeprefix("File ").replace('"', "") if found else ""
