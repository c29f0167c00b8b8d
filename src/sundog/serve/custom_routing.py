"""Carries out what a custom request router chooses.

Owns the router object and the retries: when no chosen replica has room, the router is asked again after a pause
that grows. In the loop of the process (`client.py`).
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

from sundog.serve.request_router import PendingRequest, ReplicaResult, RunningReplica

if TYPE_CHECKING:
    from sundog.serve.calls import Call
    from sundog.serve.config import RequestRouterConfig
    from sundog.serve.replica_view import Replica
    from sundog.serve.request_router import RequestRouter
    from sundog.serve.router import Router


class CustomRouting:
    """One deployment's custom router in this process."""

    def __init__(self, router: Router, config: RequestRouterConfig) -> None:
        self.router, self.config = router, config
        self.object: RequestRouter | None = None
        self._error: Exception | None = None
        try:
            self.object = config.get_request_router_class()(deployment_id=router.deployment)
            self.object.initialize_state(**config.request_router_kwargs)
        except Exception as error:
            self._error = error
        self._rows: dict[object, RunningReplica] = {}

    def refresh(self, replicas: list[Replica]) -> None:
        """The replicas have changed."""
        self._rows = {each.id: RunningReplica(each, self.router.busy) for each in replicas}
        if self.object is not None:
            self.object.update_replicas(list(self._rows.values()))

    async def route(self, call: Call) -> None:
        """Ask the router until a replica with room is found, and send the request there."""
        if self._error is not None:
            self.router.forget(call)
            call.fail(self._error)
            return
        pending = PendingRequest(list(call.args), dict(call.kwargs), call.meta)
        pause = self.config.initial_backoff_s
        try:
            while call.current is not None and not call.current.done():
                replica = await self._choose(pending)
                if replica is not None:
                    self._send(call, pending, replica)
                    return
                await asyncio.sleep(min(pause, self.config.max_backoff_s))
                pause *= self.config.backoff_multiplier
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.router.forget(call)
            call.fail(error)

    async def _choose(self, pending: PendingRequest) -> Replica | None:
        rows = [row for row in self._rows.values() if not row._replica.is_gone]
        if not rows:
            return None
        assert self.object is not None
        found = self.object.choose_replicas(rows, pending)
        groups = await found if inspect.isawaitable(found) else found  # a plain method will do
        router = self.router
        for group in groups or ():
            for row in sorted(group, key=lambda each: each.queue_len):
                replica: Replica = row._replica
                with router.lock:
                    if not replica.is_gone and router.busy(replica) < replica.limit:
                        router._count(replica, 1)
                        return replica
        return None

    def _send(self, call: Call, pending: PendingRequest, replica: Replica) -> None:
        router = self.router
        with router.lock:
            if call in router.pending:
                router.pending.remove(call)
            router._mark_queue()
        call.waiting_on = None
        assert self.object is not None
        self.object.on_send_request(replica.id)
        router.send(call, replica)
        self.object.on_request_routed(pending, replica.id, ReplicaResult(call.ref))

    def completed(self, call: Call, replica: Replica) -> None:
        """A request has ended; from the thread that learnt of it."""
        client = self.router.client
        client.soon(self._tell, call, replica)

    def _tell(self, call: Call, replica: Replica) -> None:
        if self.object is not None:
            self.object.on_request_completed(replica.id, call.meta.internal_request_id)
            if replica.is_gone:
                self.object.on_replica_actor_died(replica.id)
