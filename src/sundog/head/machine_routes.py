"""Routes for the machine and its processes, in the forms of Ray's dashboard: nodes, actors, stacks, profiles.

::

    GET /nodes?view=summary|hostNameList · /nodes/{id} · /logical/actors · /logical/actors/{id}
    GET /worker/traceback?pid= · /worker/cpu_profile?pid=&duration= · /memory_profile?pid=&duration=
    GET /api/prometheus/sd

Owns the forms. A profile is taken by the process itself and read from the session's folder; it takes as long as it was
asked to, on a thread. Runs in the head process' event loop.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING

import psutil
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from sundog.observe import stacks
from sundog.util.state.questions import ask

if TYPE_CHECKING:
    from sundog.head.desk import HeadDesk
    from sundog.plain import JsonObject
    from sundog.profiling.rows import Profile

_PROFILE_MAX_S = 300.0


def fetched(text: str, **data: object) -> Response:
    """An answer in the form of Ray's dashboard."""
    return JSONResponse({"result": True, "msg": text, "data": data})


def failed(status: int, text: str) -> Response:
    """A refusal in the same form."""
    return JSONResponse({"result": False, "msg": text, "data": {}}, status_code=status)


class MachineRoutes:
    """The handlers, for one session."""

    def __init__(self, desk: HeadDesk) -> None:
        self.desk = desk

    def routes(self) -> list[BaseRoute]:
        """The routes of this part."""
        return [
            Route("/nodes", self.nodes),
            Route("/nodes/{node_id}", self.node),
            Route("/logical/actors", self.actors),
            Route("/logical/actors/{actor_id}", self.actor),
            Route("/worker/traceback", self.traceback),
            Route("/worker/cpu_profile", self.cpu_profile),
            Route("/memory_profile", self.memory_profile),
            Route("/api/prometheus/sd", self.discovery),
        ]

    def _rows(self, kind: str) -> list[JsonObject]:
        return ask(kind, True, self.desk.address, False)

    # ------------------------------------------------------------------ nodes
    async def nodes(self, request: Request) -> Response:
        view = request.query_params.get("view", "")
        rows = await self.desk.blocking(self._rows, "nodes")
        if view == "summary":
            found = [_node(row) for row in rows]
            logical = {row["node_id"]: _in_words(row.get("resources_total") or {}) for row in rows}
            return fetched("Node summary fetched.", summary=found, nodeLogicalResources=logical)
        if view.lower() == "hostnamelist":
            alive = any(row["state"] == "ALIVE" for row in rows)
            return fetched(
                "Node hostname list fetched.", hostNameList=[socket.gethostname()] if alive else []
            )
        return failed(400, f"There is no view {view!r} of nodes: summary, hostNameList.")

    async def node(self, request: Request) -> Response:
        wanted = request.path_params["node_id"]
        rows = await self.desk.blocking(self._rows, "nodes")
        for row in rows:
            if row["node_id"] == wanted:
                workers = await self.desk.blocking(self._rows, "workers")
                own = [each for each in workers if each["node_id"] == wanted and each["is_alive"]]
                return fetched("Node details fetched.", detail={**_node(row), "workers": own})
        return failed(404, f"There is no node {wanted}.")

    # ------------------------------------------------------------------ actors
    async def actors(self, request: Request) -> Response:
        rows = await self.desk.blocking(self._rows, "actors")
        wanted = request.query_params.get("ids")
        only = set(wanted.split(",")) if wanted else None
        found = {row["actor_id"]: _actor(row) for row in rows if only is None or row["actor_id"] in only}
        return fetched("All actors fetched.", actors=found)

    async def actor(self, request: Request) -> Response:
        wanted = request.path_params["actor_id"]
        for row in await self.desk.blocking(self._rows, "actors"):
            if row["actor_id"] == wanted:
                return fetched("Actor details fetched.", detail=_actor(row))
        return failed(404, f"There is no actor {wanted}.")

    # ------------------------------------------------------------------ processes
    async def traceback(self, request: Request) -> Response:
        """The stack of one process."""
        pid = _number(request, "pid")
        seen = await self.desk.blocking(self._stack, pid)
        if seen is None:
            return PlainTextResponse(f"No process of this session has pid {pid}.", 404)
        return PlainTextResponse(seen)

    def _stack(self, pid: int) -> str | None:
        row = next((each for each in self._rows("workers") if each["pid"] == pid and each["is_alive"]), None)
        if row is None:
            return None
        session = self.desk.session
        groups = stacks.fold(stacks.collect(session.ask, session.path, (row["worker_id"],)), everything=True)
        wall_s = time.time()
        return "\n\n".join("\n".join([stacks.heading(group, wall_s), *group.lines]) for group in groups)

    async def cpu_profile(self, request: Request) -> Response:
        """A flame graph of one process, as a page; `format=speedscope` gives speedscope's JSON, `raw` a table."""
        from sundog.profiling import flame, merge

        profile = await self._profile(request, "cpu")
        if isinstance(profile, Response):
            return profile
        form = request.query_params.get("format", "flamegraph")
        if form == "speedscope":
            return JSONResponse(flame.speedscope(profile))
        if form == "raw":
            return PlainTextResponse(merge.table(profile))
        return HTMLResponse(flame.page(profile))

    async def memory_profile(self, request: Request) -> Response:
        """What one process allocated, by line."""
        from sundog.profiling import merge

        profile = await self._profile(request, "memory")
        return profile if isinstance(profile, Response) else PlainTextResponse(merge.table(profile))

    async def _profile(self, request: Request, kind: str) -> Profile | PlainTextResponse:
        from sundog.profiling.session import RunningProfile

        pid = _number(request, "pid")
        seconds = min(float(request.query_params.get("duration", "5")), _PROFILE_MAX_S)
        session = self.desk.session
        running = await self.desk.blocking(
            RunningProfile, session.ask, session.path, kind, f"pid {pid}", [pid], limit_s=seconds + 60.0
        )
        if not running.pids:
            return PlainTextResponse(f"No process of this session has pid {pid}.", 404)
        await asyncio.sleep(seconds)
        return await self.desk.blocking(running.end)

    async def discovery(self, _request: Request) -> Response:
        """Where Prometheus finds the metrics of this session."""
        target = self.desk.info.url.removeprefix("http://")
        labels = {"job": "ray", "SessionName": self.desk.session.name}
        return JSONResponse([{"targets": [target], "labels": labels}], headers={"cache-control": "no-store"})


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    if not text.isdigit():
        raise ValueError(f"{name} must be a number, not {text!r}.")
    return int(text)


def _node(row: JsonObject) -> JsonObject:
    """A node in the form of Ray's dashboard; its figures are this machine's."""
    memory = psutil.virtual_memory()
    disk = psutil.disk_usage("/")
    return {
        "now": time.time(),
        "hostname": socket.gethostname(),
        "ip": row.get("node_ip", "127.0.0.1"),
        "cpu": psutil.cpu_percent(None),
        "cpus": [psutil.cpu_count(), psutil.cpu_count(logical=False)],
        "mem": [memory.total, memory.available, memory.percent, memory.used],
        "bootTime": psutil.boot_time(),
        "loadAvg": [
            list(psutil.getloadavg()),
            [each / (psutil.cpu_count() or 1) for each in psutil.getloadavg()],
        ],
        "disk": {"/": {"total": disk.total, "used": disk.used, "free": disk.free, "percent": disk.percent}},
        "raylet": {
            "nodeId": row["node_id"],
            "nodeManagerAddress": row.get("node_ip", "127.0.0.1"),
            "nodeManagerHostname": socket.gethostname(),
            "state": row["state"],
            "stateMessage": row.get("state_message"),
            "isHeadNode": row.get("is_head_node"),
            "resourcesTotal": row.get("resources_total") or {},
            "labels": row.get("labels") or {},
            "startTimeMs": row.get("start_time_ms"),
            "endTimeMs": row.get("end_time_ms"),
        },
    }


def _actor(row: JsonObject) -> dict[str, object]:
    """An actor in the form of Ray's dashboard."""
    return {
        "actorId": row["actor_id"],
        "jobId": row.get("job_id"),
        "actorClass": row.get("class_name"),
        "className": row.get("class_name"),
        "state": row.get("state"),
        "name": row.get("name") or "",
        "rayNamespace": row.get("ray_namespace"),
        "isDetached": row.get("is_detached"),
        "pid": row.get("pid"),
        "numRestarts": str(row.get("num_restarts", 0)),
        "requiredResources": row.get("required_resources") or {},
        "placementGroupId": row.get("placement_group_id"),
        "reprName": row.get("repr_name") or "",
        "callSite": row.get("call_site") or "",
        "exitDetail": str(row.get("death_cause") or "-"),
        "address": {"nodeId": row.get("node_id"), "ipAddress": "127.0.0.1"},
    }


def _in_words(resources: dict[str, float]) -> str:
    return "\n".join(
        f"{amount:g} {name}" for name, amount in resources.items() if not name.startswith("node:")
    )


def routes(desk: HeadDesk) -> list[BaseRoute]:
    """The routes of this part."""
    return MachineRoutes(desk).routes()
