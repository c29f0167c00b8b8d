"""Runs made by hand, for the tests of the doctor: what each step takes is written down, the rest follows."""

from __future__ import annotations

from sundog.advice.run import CALL, COMPUTE, CREATE, SUBMIT, TASK, WAIT, Costs, Op, Program, Run, RunNode

FREE = Costs(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class Script:
    """A driver's program: steps are added in order, its clock goes along."""

    def __init__(self, cpus: float = 4, cores: int = 4) -> None:
        self.cpus, self.cores = cpus, cores
        self.nodes: list[RunNode] = []
        self.ops: list[Op] = []
        self.now = 0.0

    def node(self, name: str, work_s: float, *, start_s: float | None = None, **fields: object) -> RunNode:
        """A task that is not submitted by the driver itself."""
        key = len(self.nodes)
        start = self.now if start_s is None else start_s
        node = RunNode(
            key, key.to_bytes(16, "little"), name, TASK, b"driver..", key, key, self.now, start, start + work_s,
            work_s, 0.0, 0, key % int(self.cpus) + 1, resources={"CPU": 1.0},
        )  # fmt: skip
        for field, value in fields.items():
            setattr(node, field, value)
        self.nodes.append(node)
        return node

    def submit(
        self, name: str, work_s: float, *, site: str = "", start_s: float | None = None, **fields: object
    ) -> RunNode:
        """Submit a task; it starts now unless told otherwise."""
        node = self.node(name, work_s, start_s=start_s, site=site, **fields)
        self.ops.append(Op(SUBMIT, node=node.key, site=site, at_s=self.now))
        return node

    def create(self, name: str, actor: bytes, site: str = "") -> RunNode:
        """Make an actor."""
        return self.submit(f"{name}.__init__", 0.0, site=site, kind=CREATE, actor=actor, resources={})

    def call(
        self, name: str, work_s: float, actor: bytes, *, site: str = "", start_s: float | None = None
    ) -> RunNode:
        """Call an actor."""
        return self.submit(name, work_s, site=site, start_s=start_s, kind=CALL, actor=actor, resources={})

    def get(self, *nodes: RunNode, site: str = "", wait: bool = False, need: int = 0) -> None:
        """Wait until they have ended."""
        ends = sorted(node.end_s for node in nodes)
        end = max(self.now, ends[need - 1] if need else ends[-1])
        keys = tuple(node.key for node in nodes)
        self.ops.append(
            Op(WAIT, 0.0, -1, keys, need, site, self.now, end - self.now, wait, len(nodes), 1, 0.0)
        )
        self.now = end

    def compute(self, seconds: float) -> None:
        """The driver works itself."""
        self.ops.append(Op(COMPUTE, seconds, at_s=self.now))
        self.now += seconds

    def run(self, **fields: object) -> Run:
        """The run that this was."""
        run = Run(
            "session_test", self.now, 0.0, self.cpus, self.cores, 1 << 34, self.nodes,
            [Program(0, 0.0, self.now, self.ops)], [], [], FREE, tasks=len(self.nodes),
        )  # fmt: skip
        for field, value in fields.items():
            setattr(run, field, value)
        return run


def serial_gets(count: int, work_s: float, site: str, gap_s: float = 0.0) -> Script:
    """submit, get, submit, get."""
    script = Script()
    for _ in range(count):
        node = script.submit("work", work_s, site=site)
        script.get(node, site=site)
        if gap_s:
            script.compute(gap_s)
    return script
