"""A recorded run as a graph: what each program did in order, what each task took, which task waited for which.

Owns the rows between reading, simulator and findings, and how a changed run is made of a recorded one. Times are
seconds since the run began. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy

from sundog.plain import field, plain

COMPUTE, SUBMIT, WAIT = "compute", "submit", "wait"
INIT = "init()"  # the site of the time that init() itself took
TASK, CALL, CREATE = 1, 2, 3  # as in `events`


@plain()
class Op:
    """One step of a program: time of its own, a submission, or a wait for tasks.

    `need` is how many of `nodes` must have ended for a wait to end; 0 means all.
    """

    kind: str
    seconds: float = 0.0
    node: int = -1
    nodes: tuple[int, ...] = ()
    need: int = 0
    site: str = ""
    at_s: float = 0.0  # when it began
    waited_s: float = 0.0  # of a wait, as measured
    is_wait: bool = False  # `wait`, not `get`
    refs: int = 0  # how many refs a get or wait was given
    calls: int = 1  # how many gets were folded into this one
    wake_s: float = -1.0  # from the end of what it waited for to its own end; -1: not known


@plain()
class RunNode:
    """A task, call or constructor with all its attempts, or several small ones of a kind that were folded into one."""

    key: int
    task_id: bytes
    name: str
    kind: int
    owner: bytes
    number: int
    last_number: int
    submit_s: float
    start_s: float
    end_s: float
    work_s: float  # run time of its attempts, without waits in get
    cpu_s: float
    peak_bytes: int
    process: int  # where it ended
    actor: bytes = b""
    site: str = ""  # where it was submitted
    count: int = 1
    attempts: int = 1
    wasted_s: float = 0.0  # time of attempts that failed and were retried
    failed: bool = False
    lost: bool = False
    deps: tuple[int, ...] = ()
    delay_s: float = 0.0  # between its last dependency and its submission, in an asyncio program
    pause_s: float = 0.0  # between its attempts
    program: list[Op] | None = None  # what it did, if it submitted or waited itself
    resources: Mapping[str, float] = field(default_factory=dict)
    lag_s: float = 0.0  # from the moment at which it could start until it started
    is_first: bool = False  # the first in its worker
    code: str = ""
    runs: tuple[
        tuple[float, float, int], ...
    ] = ()  # start, end, process of each attempt, if there were several

    def ran(self) -> tuple[tuple[float, float, int], ...]:
        """Start, end and process of each attempt."""
        return self.runs or ((self.start_s, self.end_s, self.process),)

    @property
    def load(self) -> float:
        """How many cores it kept busy while it worked."""
        return self.cpu_s / self.work_s if self.work_s > 1e-9 else 0.0


@plain()
class Program:
    """A driver: what it did, in order."""

    process: int
    begin_s: float
    end_s: float
    ops: list[Op]
    load: float = 0.0  # the share of its own time in which it used a core
    joined_s: float = 0.0  # when init() had returned; 0: unknown
    crowded: float = -1.0  # the share of its own time in which other processes had the cores; -1: unknown


@plain()
class Copy:
    """A large argument that was passed by value: copied for one call."""

    node: int
    owner: bytes
    seconds: float
    size_bytes: int
    mark: int
    site: str
    at_s: float


@plain()
class LargeFunction:
    """A function that is large because it captured large values: it is pickled once for each definition."""

    name: str
    size_bytes: int
    seconds: float
    at_s: float


@plain(frozen=True)
class FunctionLoad:
    """A process unpickled a large function or class."""

    name: str
    process: int
    seconds: float
    at_s: float
    imported: int = 0  # modules, meanwhile


@plain(frozen=True)
class Costs:
    """What the runtime itself took, in this run: medians of what was measured."""

    boot_s: float = 0.02  # until a new worker has begun its first task
    first_s: float = 0.02  # until the first task of all has begun
    idle_s: float = 0.0003  # from submission to start if a worker is idle
    busy_s: float = 0.00002  # between two tasks of a worker that already has the second one
    call_s: float = 0.00002  # the same for an actor
    wake_s: float = 0.0002  # from the end of a task to the end of the get that waited for it
    create_s: float = 0.05  # until the constructor of an actor begins
    submit_s: float = 0.00005  # of the driver, for each submission
    ready_s: float = 0.0  # when the first worker of the session was there, as far as the run shows
    node_s: float = 0.0  # when the node was there, and could start workers; 0: unknown, or from the start
    boot_cpu_s: float = 0.0  # processor time of a new worker besides `boot_s`, if the run shows no such start


@plain()
class Run:
    """A run of a program, from its records."""

    name: str
    length_s: float
    began_s: float  # since 1970
    cpus: float  # what may run at a time
    cores: int  # of the machine
    memory_bytes: int
    nodes: list[RunNode]
    programs: list[Program]
    copies: list[Copy]
    functions: list[LargeFunction]
    costs: Costs
    concurrent: frozenset[bytes] = frozenset()  # actors that may run several calls at a time
    held: frozenset[bytes] = (
        frozenset()
    )  # of these, actors whose calls ran one at a time although more were queued
    replicas: Mapping[bytes, str] = field(
        default_factory=dict
    )  # actors that serve requests: application#deployment
    busy: Mapping[int, float] = field(default_factory=dict)  # of a core, what each process used on average
    spills: list[tuple[float, float, int, str]] = field(default_factory=list)  # at, seconds, bytes, kind
    puts: list[tuple[float, float, int, str]] = field(default_factory=list)  # from, to, bytes, where
    processes: Mapping[int, tuple[bytes, int, str]] = field(default_factory=dict)  # process: id, pid, role
    entrypoint: str = ""
    loads: list[FunctionLoad] = field(default_factory=list)
    resources: Mapping[str, float] = field(default_factory=dict)
    merged: int = 1  # how many small tasks were folded into one at most
    tasks: int = 0  # in all
    missed: int = 0  # events that belong to no row
    base_bytes: int = 0  # memory beside that of tasks: the most that the object store held
    memory_limit: int = 0  # above which the monitor kills; 0: never
    largest_site: str = ""  # the line that put most bytes
    threads: Mapping[str, int] = field(default_factory=dict)  # most threads of a process, by function
    warm: Mapping[str, float] = field(default_factory=dict)  # what the first task in a worker took longer
    others: float = 0.0  # the share of all cores that other programs used during the run
    power: float = 0.0  # the number of cores that this run gets when it wants all of them; 0: unknown

    # ------------------------------------------------------------------ changing
    def changed(
        self,
        nodes: Iterable[RunNode] = (),
        *,
        programs: Sequence[Program] | None = None,
        added: Iterable[RunNode] = (),
        **fields: object,
    ) -> Run:
        """A copy with some nodes replaced (by key) or added, other programs, other figures."""
        other = copy(self)
        other.nodes = list(self.nodes)
        for node in nodes:
            other.nodes[node.key] = node
        other.nodes.extend(added)
        if programs is not None:
            other.programs = list(programs)
        for name, value in fields.items():
            setattr(other, name, value)
        return other

    def with_ops(self, owner: Program | RunNode, ops: list[Op]) -> Run:
        """A copy in which a driver or a task does something else."""
        if isinstance(owner, Program):
            programs = [_doing(each, ops) if each is owner else each for each in self.programs]
            return self.changed(programs=programs)
        return self.changed([with_(owner, program=ops)])

    def owners(self) -> Iterable[tuple[Program | RunNode, list[Op]]]:
        """Drivers and tasks that have a program of their own."""
        for program in self.programs:
            yield program, program.ops
        for node in self.nodes:
            if node.program is not None:
                yield node, node.program

    def with_each_program(self, change: Callable[[list[Op]], list[Op]]) -> Run:
        """A copy in which every driver and every task that has a program does what `change` says."""
        programs = [_doing(each, change(each.ops)) for each in self.programs]
        nodes = [with_(node, program=change(node.program)) for node in self.nodes if node.program is not None]
        return self.changed(nodes, programs=programs)


def _doing(program: Program, ops: list[Op]) -> Program:
    other = copy(program)
    other.ops = ops
    return other


def with_(node: RunNode, **fields: object) -> RunNode:
    """A copy of a node with some fields changed."""
    other = copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def op_with(op: Op, **fields: object) -> Op:
    """A copy of a step with some fields changed."""
    other = copy(op)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def ops_with_ready_results(nodes: Sequence[RunNode], program: Program) -> list[Op]:
    """The steps of a driver, which also waits for results that were ready when it took them.

    A get of what is ready leaves no record. In a changed run such a result may be ready later, and the driver has to
    wait for it. What it took: behind its last wait, every task that it has submitted and that had ended by then; and
    behind a wait after which it submits more, all tasks of a round, if all of them had ended by then.
    """
    ops = program.ops
    waits = [position for position, op in enumerate(ops) if op.kind == WAIT and op.nodes]
    last = waits[-1] if waits else len(ops) - 1
    until = max((op.at_s + op.waited_s for op in ops if op.kind == WAIT), default=0.0) or program.end_s
    out: list[Op] = []
    sent: list[int] = []
    round_: list[int] = []  # sent since nothing was under way
    reach = 0.0
    for position, op in enumerate(ops):
        out.append(op)
        if op.kind == SUBMIT:
            sent.append(op.node)
            round_.append(op.node)
            reach = max(reach, nodes[op.node].end_s)
        taken: list[int] = []
        if position == last:
            taken = [key for key in sent if 0 <= nodes[key].end_s <= until]
        elif op.kind == WAIT and op.nodes and reach <= op.at_s + op.waited_s:
            taken, round_ = round_, []
        if taken and not (op.kind == WAIT and not op.need and set(taken) <= set(op.nodes)):
            out.append(Op(WAIT, nodes=tuple(taken), wake_s=0.0))
    return out
