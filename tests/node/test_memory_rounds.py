"""One monitor's hands: which workers it may touch, and whose answers it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from sundog.machine import Reading
from sundog.node.memory_rounds import Rounds
from sundog.state.memory import FREEZE, HELPLESS, THAW, End, Monitor, Retire
from sundog.wire.control import RunningTold
from tests.node.fakes import FakeProcess, FakeWorkers


@dataclass
class _Lease:
    """A lease that a worker serves."""

    worker: bytes
    owner: bytes = b"o"
    blocked: bool = False


class _Leases:
    """A lease for each worker; a retired worker is the step to take."""

    def __init__(self, workers: list[bytes]) -> None:
        self.rows = [_Lease(worker) for worker in workers]

    def held(self, _now: float) -> list[_Lease]:
        return self.rows

    def retire_worker(self, worker: bytes) -> list[bytes]:
        return [worker]


class _Tenancy:
    """Two tenants with a job each."""

    def of(self, job: bytes) -> str:
        return {b"1": "train", b"2": "serve"}[job]


class _Node:
    """Two jobs with a worker each, none of which is a process."""

    def __init__(self) -> None:
        jobs = {b"w1": b"1", b"w2": b"2"}
        self.processes = {
            worker: FakeProcess(worker, kind="worker", job_id=job) for worker, job in jobs.items()
        }
        self.tenancy = _Tenancy()
        self.leases = _Leases(list(jobs))
        self.retired: list[bytes] = []
        self.do = self.retired.extend
        self.workers = FakeWorkers()

    def now(self) -> float:
        return 0.0


def _rounds(node: Any, tenant: str, ended: list[End], helpless: list[str]) -> Rounds:
    return Rounds(
        node,
        Monitor(1.0),
        read=lambda: Reading(1, 1, "here"),
        look=lambda: None,
        end=ended.append,
        helpless=lambda: helpless.append("helpless"),
        tenant=tenant,
    )


def test_the_monitor_of_a_job_has_its_own_workers_and_others_have_all() -> None:
    node = cast(Any, _Node())
    for tenant, expected in (("train", [b"w1"]), ("serve", [b"w2"]), ("", [b"w1", b"w2"])):
        assert [row.worker for row in _rounds(node, tenant, [], [])._held()] == expected


def test_steps_are_carried_out_and_answers_to_other_questions_are_ignored() -> None:
    node, ended, helpless = _Node(), list[End](), list[str]()
    rounds = _rounds(node, "train", ended, helpless)
    end = End(b"w1", 7, "it is the newest", "free")
    rounds.do([FREEZE, Retire((b"w2",)), end, HELPLESS, THAW])
    assert (node.retired, ended, helpless) == ([b"w2"], [end], ["helpless"])
    rounds.runs(cast(Any, None), RunningTold(5, [(b"w1", b"t", "grow", 1)]))
    assert rounds.told == {}
