"""Results that nobody holds any more while their task still runs: the worker need not store them.

Owns which running tasks have asked. A task with several results may be told `refs = f.remote()` and keep one of them:
without this, the worker writes all of them to the store, spills what does not fit, and frees them after the last::

    worker: the first large result of a task with several   AskUnwanted(task) ─► owner
    owner: those that are free already                      Unwanted(task, indexes) ─► worker
    owner: each that becomes free later                     Unwanted(task, [index]) ─► worker

The worker waits for no answer: what it stores in vain is freed when the task ends. Runs under the owner's lock.
"""

from __future__ import annotations

from sundog.ids import index_of, result_id, task_of
from sundog.owner.basics import Basics
from sundog.owner.peers import Peers
from sundog.wire.peers import AskUnwanted, Unwanted


class UnwantedResults:
    """Tells workers which results of their tasks will not be read."""

    def __init__(self, basics: Basics, peers: Peers) -> None:
        self.basics = basics
        self.peers = peers
        self._askers: dict[bytes, bytes] = {}  # a running task -> the worker that asked

    def asked(self, process: bytes, message: AskUnwanted) -> None:
        """A worker is about to store results of a task of this process."""
        basics = self.basics
        table = basics.table
        self._askers = {task: worker for task, worker in self._askers.items() if task in table}
        task = table.get(message.task_id)
        if task is None or not isinstance(task.fn.returns, int):
            return
        if task.rebuilding is not None:
            return  # what was free when the task ran first may be needed again
        basics.objects.drain()
        self._askers[task.id] = process
        free = [i for i in range(1, task.fn.returns + 1) if result_id(task.id, i) in basics.freed_early]
        if free:
            self.peers.send(process, Unwanted(task.id, free))

    def freed(self, oid: bytes) -> None:
        """The last ref to a result died before the result was ready."""
        worker = self._askers.get(task_of(oid))
        if worker is not None:
            self.peers.send(worker, Unwanted(task_of(oid), [index_of(oid)]))
