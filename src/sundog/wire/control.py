"""The control protocol: every message between a driver or worker and the node.

::

    driver, worker ──ToNode──► node ──FromNode──► driver, worker

Owns the rows; the class of a row says which program sends it to which, its docstring what it says. Questions that the
node answers are in `requests.py`, messages between processes in `peers.py`, those of the zygote in `zygote.py`, the
lanes in `lanes.py`. Each program has one literal table from row to handler: `node/messages.py`, `owner/messages.py`
with `engines/messages.py` (driver) or `worker/messages.py`, and `worker/zygote.py`. docs/protocol.md is made from these
classes and tables (``python -m tests.docs.protocol``). A change of a row raises `versions.PROTOCOL`. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sundog.wire.row import Row

if TYPE_CHECKING:
    from sundog.job_spec import JobSpec
    from sundog.plain import JsonObject
    from sundog.state.lease_spec import LeaseSpec
    from sundog.state.wait_facts import Report
    from sundog.wire.cause import Cause
    from sundog.wire.dicts import Registration, SessionFacts
    from sundog.wire.pauses import Pause, Trigger
    from sundog.wire.profiles import ProfileSpec


class ToNode(Row):
    """From a driver, a worker or a command to the node."""


class FromNode(Row):
    """From the node to a driver or worker."""


# ---------------------------------------------------------------------- driver, worker → node: coming and going
class Hello(ToNode):
    """A driver introduces itself: ids, import path, environment, what to preload; one that joins adds its versions."""

    process_id: bytes
    pid: int
    job_id: bytes | None  # None: the node chooses one
    job: JobSpec
    entrypoint: str
    log_to_driver: bool
    versions: JsonObject | None  # None: it started this session, with its own Python
    preload: list[tuple[str, str]]
    loaded: list[str]  # packages that it has loaded
    script: bool = False  # its own file defines what workers will need the pickler for
    announces: bool = False  # it says what its workers will import (`Imported`); they are forked after that


class Bye(ToNode):
    """A driver leaves in good order and wants the last of its workers' output."""


class Env(ToNode):
    """A runtime environment, under the key by which leases will ask for it."""

    env_key: str
    runtime_env: JsonObject
    prepared: bytes


class Leaving(ToNode):
    """A worker ends by itself, and why; not intended: by SIGTERM, or with an exit code that tells of a failure."""

    reason: str
    intended: bool


class Stale(ToNode):
    """A worker has imported modules that were edited since: it serves no new lease."""

    names: str


class Imported(ToNode):
    """Modules of packages, each with its folder: a worker has imported them, or the workers of this driver will."""

    modules: list[tuple[str, str]]


class StartFailed(ToNode):
    """A worker ended before it could serve, and why (the system allows no thread)."""

    text: str


class SetupFailed(ToNode):
    """A worker could not set up its runtime environment (pip runs there, before any task)."""

    text: str
    facts: JsonObject


class ExitOk(ToNode):
    """Answer to `may_exit`."""

    free: bool


class ActOk(ToNode):
    """Answer to `may_act`."""

    free: bool


# ---------------------------------------------------------------------- driver, worker → node: leases and lanes
class WantLeases(ToNode):
    """How many leases of a shape the sender could use beside those whose grants it has read (0 withdraws)."""

    key: int
    spec: LeaseSpec
    leases: int
    functions: tuple[str, ...]  # for these among others
    last_grant: int  # its number; the node takes off what it has granted since


class Release(ToNode):
    """A lease is given back, and whether its worker may serve another."""

    lease: int
    reusable: bool


class RunningTold(ToNode):
    """Answer to `tell_running`: on which worker which task runs, and how often it may be tried again."""

    token: int
    rows: list[tuple[bytes, bytes, str, int]]


class OpenLane(ToNode, fds=1):
    """The worker's end of a lane, to be passed on."""

    worker: bytes


class OpenPeer(ToNode, fds=1):
    """One end of a channel to another process, to be passed on."""

    process: bytes


class KillWorker(ToNode):
    """A task there was cancelled with force, or outlived its timeout."""

    worker: bytes
    reason: str


class Blocked(ToNode):
    """A worker waits in a `get`: its CPU is free meanwhile."""


class Unblocked(ToNode):
    """A worker continues."""


class Stalled(ToNode):
    """How many gets and waits of this process have been blocked for long ([deadlocks](deadlocks.md))."""

    waits: int


class WaitsTold(ToNode):
    """Answer to `tell_waits`: long waits with their stacks, what runs in which slot, where tasks are."""

    number: int
    report: Report


class Paused(ToNode):
    """A task stands in a debugger ([debug](howto/debug.md)), or a user came to its prompt or left it."""

    pause: Pause


class Resumed(ToNode):
    """A task that stood in a debugger continues."""

    pause_id: str


# ---------------------------------------------------------------------- driver, worker → node: actors and groups
class ActorRegister(ToNode):
    """An unnamed actor exists (a named one asks by `register_named`, for its name may be taken)."""

    actor_id: bytes
    options: Registration


class ActorStart(ToNode):
    """The arguments of an actor's constructor are ready."""

    actor_id: bytes
    args: object
    extra: dict[str, object] | None


class ActorFail(ToNode):
    """The arguments of an actor's constructor failed."""

    actor_id: bytes
    error: bytes


class OpenActorLane(ToNode, fds=1):
    """A caller's lane; the node keeps it until the actor has a worker."""

    actor_id: bytes
    incarnation: int


class ActorReady(ToNode):
    """From the worker: constructed; which refs it still holds, and what the actor calls itself."""

    actor_id: bytes
    incarnation: int
    held: list[bytes]
    shown: str


class ActorFailed(ToNode):
    """From the worker: the constructor raised; its error, pickled and in words."""

    actor_id: bytes
    incarnation: int
    error: bytes
    text: str


class ActorScope(ToNode):
    """The last handle is gone."""

    actor_id: bytes


class ActorKill(ToNode):
    """`kill(actor)`."""

    actor_id: bytes
    no_restart: bool


class ActorExit(ToNode):
    """From the worker: an intended end (`exit_actor`, scope), after its last replies."""

    actor_id: bytes
    reason: str


class PgRemove(ToNode):
    """A placement group is to go; what runs in it ends."""

    pg_id: bytes


# ---------------------------------------------------------------------- driver, worker → node: the store
class StoreAsk(ToNode):
    """Credit is spent: this many bytes more are needed."""

    number: int
    missing_bytes: int
    left_bytes: int
    got_bytes: int


class StoreRestore(ToNode):
    """The file of an object is not there: bring it back."""

    number: int
    name: str
    directly: bool


class StoreFreed(ToNode):
    """An object is free whose file was not there."""

    name: str


class StoreTrimmed(ToNode):
    """Answer to `store_trim`: credit kept, segments in use, being written, free, and when each was read."""

    round: int
    reserved_bytes: int
    got_bytes: int
    live: list[str]
    writing: list[str]
    free: list[str]
    used: dict[str, float]


# ---------------------------------------------------------------------- driver, worker → node: questions
class Described(ToNode):
    """Answer to `describe`."""

    number: int
    rows: list[JsonObject]


class Looked(ToNode):
    """Answer to `look`."""

    token: int
    row: object  # of `wire/looks.py`; a sentence if it could not be made


class Rpc(ToNode):
    """A [request](#requests): its number, its kind and its fields. Commands send these too."""

    number: int
    verb: str
    args: tuple[object, ...]


# ---------------------------------------------------------------------- node → driver, worker: coming and going
class Welcome(FromNode):
    """To a driver that joins: session, job id, namespace, and the settings that the session was started with."""

    session: SessionFacts
    job_id: bytes
    namespace: str
    settings: dict[str, object]


class Refused(FromNode):
    """To a driver that cannot join (other Python, other sundog): the sentence for its user."""

    text: str


class Goodbye(FromNode):
    """To a driver that leaves: that was the last of your workers' output, close your end."""


class NodesChanged(FromNode):
    """To all owners: the session has this many nodes now. Objects may have copies on any of them."""

    nodes: int


class Died(FromNode):
    """To all processes that dealt with it: a process is gone, with its `Cause`."""

    process: bytes
    cause: Cause


class Answer(FromNode):
    """To the process that asked: the answer to a request (`ok`), or its error."""

    number: int
    ok: bool
    value: Any  # the answer, or the error to raise


class Describe(FromNode):
    """Tell your objects or unfinished tasks, for the state API."""

    number: int
    what: str  # "objects" or "tasks"


class Look(FromNode):
    """Tell what you are doing now: stacks, pulse, references (`wire/looks.py`)."""

    token: int
    question: str
    arguments: tuple[object, ...]


# ---------------------------------------------------------------------- node → owner: leases and actors
class LeaseGranted(FromNode):
    """A worker is yours: lease, worker, pid, ids of accelerators by their kind, the number of this grant."""

    key: int
    lease: int
    worker: bytes
    pid: int
    accelerators: tuple[tuple[str, tuple[int, ...]], ...]
    number: int


class ReturnLease(FromNode):
    """A request starves: send nothing more there, give the lease back when what runs has ended."""

    lease: int


class TellRunning(FromNode):
    """Memory is short and a worker must end: what runs on your workers?"""

    token: int


class LeaseInfeasible(FromNode):
    """A request for leases fits no node."""

    key: int
    resources: dict[str, float]
    reason: str


class ActorInfeasible(FromNode):
    """An actor fits no node."""

    class_name: str
    resources: dict[str, float]
    reason: str


class EnvFailed(FromNode):
    """A runtime environment cannot be set up."""

    env_key: str
    text: str
    facts: JsonObject


class PeerOpened(FromNode, fds=1):
    """Another process opens a channel."""

    process: bytes


class ActorChanged(FromNode):
    """To callers: an actor's state changed: worker, incarnation, cause, pid."""

    actor_id: bytes
    state: str
    worker: bytes | None
    incarnation: int
    cause: object
    pid: int


class ActorCreated(FromNode):
    """To the creator: the actor is up (its arguments may go), and which refs it still holds."""

    actor_id: bytes
    worker: bytes
    held: list[bytes]


class ActorDead(FromNode):
    """To the creator: the actor has ended permanently, and whether it keeps its name while handles are held."""

    actor_id: bytes
    keeps_name: bool


class TellWaits(FromNode):
    """Tell your long waits, and where these tasks of yours are."""

    number: int
    tasks: tuple[bytes, ...]


class Deadlock(FromNode):
    """This wait can never end: raise in it, with the cycle."""

    serial: int
    links: list[JsonObject]


class StartProfile(FromNode):
    """Measure yourself from now on ([profile](howto/profile.md))."""

    spec: ProfileSpec


class StopProfile(FromNode):
    """No longer: write what you found."""

    profile_id: str


class PauseCounts(FromNode):
    """To all: how many tasks stand in a debugger, and how many of them have a user. Meanwhile no bound on time ends."""

    paused: int
    attached: int


# ---------------------------------------------------------------------- node → driver: for its user
class Notice(FromNode):
    """A warning for the user: workers ended for lack of memory."""

    text: str


class WarnOnce(FromNode):
    """Something to show once for each subject, such as that descriptors run short."""

    subject: str
    text: str


class LogLines(FromNode):
    """Lines that workers printed (a `LogBatch` of `node/logs.py`, as a tuple)."""

    batch: tuple[object, ...]


class PauseNotice(FromNode):
    """A line for the terminal: where a task stands in a debugger, and how to attach."""

    text: str


class StoreNotice(FromNode):
    """A line for the terminal: spilling began, the disk is nearly full."""

    text: str


# ---------------------------------------------------------------------- node → driver, worker: the store
class StoreGrant(FromNode):
    """To the process that asked: credit ("granted"), or: the store has no room ("disk", "full")."""

    number: int
    verdict: str
    amount_bytes: int
    text: str = ""  # why, if the limit of its job is the reason


class StoreRestored(FromNode):
    """To the process that asked: where the object is, that it is lost (None), or why it cannot be fetched now."""

    number: int
    place: object


class StoreCollect(FromNode):
    """The store fills: collect garbage, which may hold the last refs to objects."""


class StoreTrim(FromNode):
    """The store is short: return what you do not need, say what you look at."""

    round: int


class StoreUnsent(FromNode):
    """Spilled results that a dead worker made: remove those that no reply named."""

    names: list[str]


# ---------------------------------------------------------------------- node → worker
class LaneOpened(FromNode, fds=1):
    """An owner's lane."""

    owner: bytes


class ConstructActor(FromNode):
    """Become this actor."""

    actor_id: bytes
    incarnation: int
    spec: Registration


class TerminateActor(FromNode):
    """End: after the calls you have, or now."""

    graceful: bool


class SetTriggers(FromNode):
    """Breakpoints that were set from outside, all of them."""

    triggers: tuple[Trigger, ...]


class SetCaptures(FromNode):
    """Functions and methods of which every run leaves a capsule ([replay](howto/replay.md)), all of them."""

    names: tuple[str, ...]


class MayExit(FromNode):
    """You are idle: does another process need what you own?"""


class MayAct(FromNode):
    """You have run tasks and could become an actor: does another process need what you own?"""


class StopServing(FromNode):
    """End after what you do now."""

    reason: str
