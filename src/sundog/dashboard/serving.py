"""Serve as the page shows it: what its controller has told, with numbers from metrics and from the board of queues.

::

    serve/status.json (what runs) ────┐
    serve/board (queue lengths) ──────┼──► ServeWatch.look ──► ServePicture: applications, deployments, replicas
    metrics (requests, errors, times) ┘

Owns the rows of that picture, and rates between two looks. Asks no process, so it works on ended sessions too. A file
of another kind, or half of one, is a picture without rows. Runs in the head process, in a thread that looks.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from sundog.observe import serve_files
from sundog.observe.metric_files import Series
from sundog.observe.serve_files import on_board
from sundog.plain import NamedTuple, field, plain

if TYPE_CHECKING:
    from typing import Literal, TypedDict

    from sundog.observe.serve_files import ToldApplication, ToldDeployment, ToldReplica

    class ShownApplication(TypedDict):
        """A row of the table of applications."""

        application: str
        status: str | None
        route: str | None
        deployed: float | None
        deployments: int
        message: str

    class ShownRevision(TypedDict):
        """A row of the table of what was deployed when."""

        application: str
        number: int | None
        at: float | None
        what: str | None
        outcome: str | None
        versions: str
        is_current: bool

    class ShownDeployment(TypedDict):
        """A row of the table of deployments. None is a number that is not known."""

        application: str
        deployment: str
        status: str | None
        message: str
        running: int
        wanted: int
        autoscales: bool
        version: str
        rollout: str
        share_new: float
        rate: float | None
        error_rate: float | None
        requests: int
        errors: int
        p50_ms: float | None
        p95_ms: float | None
        waiting: int | None
        ongoing: int | None
        most: int

    class ShownReplica(TypedDict):
        """A row of the table of replicas."""

        key: str | None
        replica: str | None
        deployment: str
        state: str | None
        version: str
        pid: int | None
        actor_id: str | None
        worker_id: str | None
        since: float | None
        ongoing: int | None
        requests: int
        errors: int
        mean_ms: float | None
        p95_ms: float | None
        log: str | None


_Told = TypeVar("_Told", bound=Mapping[str, object])

REQUESTS = "serve_deployment_request_counter"
ERRORS = "serve_deployment_error_counter"
LATENCY = "serve_deployment_processing_latency_ms"
_WINDOW_S = 15.0


@plain(frozen=True)
class Numbers:
    """What was counted so far: of a deployment, or of one replica."""

    done: float = 0.0
    errors: float = 0.0
    total_ms: float = 0.0
    buckets: tuple[float, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def requests(self) -> float:
        """Requests that have ended, well or not."""
        return self.done + self.errors

    def since(self, before: Numbers) -> Numbers:
        """What came after an earlier look."""
        buckets = self.buckets
        if len(before.buckets) == len(buckets):
            buckets = tuple(max(0.0, a - b) for a, b in zip(buckets, before.buckets))
        return Numbers(
            max(0.0, self.done - before.done),
            max(0.0, self.errors - before.errors),
            max(0.0, self.total_ms - before.total_ms),
            buckets,
            self.bounds,
        )

    def percentile_ms(self, share: float) -> float | None:
        """The time within which a share of the requests ended, as well as the buckets tell; None without requests.

        >>> Numbers(4.0, 0.0, 0.0, (2.0, 2.0, 0.0), (10.0, 20.0)).percentile_ms(0.75)
        15.0
        """
        count = sum(self.buckets)
        if not count:
            return None
        wanted, low = share * count, 0.0
        for index, (until, here) in enumerate(zip(accumulate(self.buckets), self.buckets)):
            high = self.bounds[index] if index < len(self.bounds) else low
            if until >= wanted and here:
                return low + (high - low) * (wanted - (until - here)) / here
            low = high
        return low


class ServeSample(NamedTuple):
    """The numbers of one look."""

    at_s: float
    deployments: dict[tuple[str, str], Numbers]


@plain(frozen=True)
class ServePicture:
    """Serve at one moment; rows for tables."""

    at_s: float = 0.0  # when the controller told it
    is_over: bool = False
    address: str = ""
    applications: list[ShownApplication] = field(default_factory=list)
    deployments: list[ShownDeployment] = field(default_factory=list)
    replicas: list[ShownReplica] = field(default_factory=list)
    revisions: list[ShownRevision] = field(default_factory=list)

    def total(self, key: Literal["requests", "errors", "rate", "ongoing", "waiting"]) -> float:
        """A number of all deployments together."""
        return sum(row[key] or 0 for row in self.deployments)


class ServeWatch:
    """Serve in one session. One thread at a time.

    Args:
        session_path: the session's folder.
    """

    def __init__(self, session_path: str) -> None:
        self._path = session_path
        self._samples: deque[ServeSample] = deque(maxlen=64)

    def look(self, series: Iterable[Series], is_live: bool, now: float | None = None) -> ServePicture | None:
        """How it is now; None where Serve never ran."""
        told = serve_files.status(self._path)
        if told is None:
            return None
        now = time.time() if now is None else now
        by_replica = numbers_of(series)
        sample = ServeSample(now, _by_deployment(by_replica))
        while self._samples and now - self._samples[0].at_s > _WINDOW_S:
            self._samples.popleft()
        before = self._samples[0] if self._samples else None
        self._samples.append(sample)
        is_over = bool(told.get("is_over"))
        runs = is_live and not is_over
        board = serve_files.board(self._path) if runs else b""
        found = ServePicture(
            float(told.get("at_s") or 0.0), is_over, f"http://{told.get('host')}:{told.get('port')}"
        )
        for app, row in _items(told.get("applications")):
            found.applications.append(_application(app, row))
            found.revisions.extend(_revisions(app, row))
            for name, each in _items(row.get("deployments")):
                mine = sample.deployments.get((app, name), Numbers())
                span_s = now - before.at_s if before is not None and runs else 0.0
                recent = mine.since(before.deployments.get((app, name), Numbers())) if before else mine
                found.deployments.append(_deployment(app, name, each, mine, recent, span_s, board))
                for replica in _rows(each.get("replicas")):
                    key = (app, name, str(replica.get("id")))
                    numbers = by_replica.get(key, Numbers())
                    found.replicas.append(_replica(app, name, each, replica, numbers, board))
        return found


# ---------------------------------------------------------------------- what was told
def _items(value: Mapping[str, _Told] | None) -> list[tuple[str, _Told]]:
    if not isinstance(value, Mapping):
        return []
    return [(str(name), row) for name, row in value.items() if isinstance(row, Mapping)]


def _rows(value: list[_Told] | None) -> list[_Told]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


# ---------------------------------------------------------------------- the numbers
def numbers_of(series: Iterable[Series]) -> dict[tuple[str, str, str], Numbers]:
    """What each replica has counted, by application, deployment and replica; routes are added up."""
    found: dict[tuple[str, str, str], Numbers] = {}
    for each in series:
        if each.key.name not in (REQUESTS, ERRORS, LATENCY):
            continue
        tags = dict(each.key.tags)
        key = (tags.get("application", ""), tags.get("deployment", ""), tags.get("replica", ""))
        if each.key.name == REQUESTS:
            more = Numbers(done=each.values[0])
        elif each.key.name == ERRORS:
            more = Numbers(errors=each.values[0])
        else:
            more = Numbers(total_ms=each.values[0], buckets=each.values[1:], bounds=each.key.boundaries)
        found[key] = _sum([found[key], more]) if key in found else more
    return found


def _by_deployment(replicas: dict[tuple[str, str, str], Numbers]) -> dict[tuple[str, str], Numbers]:
    groups: dict[tuple[str, str], list[Numbers]] = {}
    for (app, name, _), numbers in replicas.items():
        groups.setdefault((app, name), []).append(numbers)
    return {key: _sum(rows) for key, rows in groups.items()}


def _sum(rows: Sequence[Numbers]) -> Numbers:
    bounds = next((each.bounds for each in rows if each.bounds), ())
    alike = [each.buckets for each in rows if each.bounds == bounds and each.buckets]
    return Numbers(
        sum(each.done for each in rows),
        sum(each.errors for each in rows),
        sum(each.total_ms for each in rows),
        tuple(sum(counts) for counts in zip(*alike)),
        bounds,
    )


# ---------------------------------------------------------------------- the rows
def _application(app: str, row: ToldApplication) -> ShownApplication:
    return {
        "application": app,
        "status": row.get("status"),
        "route": row.get("route_prefix"),
        "deployed": row.get("deployed_s"),
        "deployments": len(_items(row.get("deployments"))),
        "message": row.get("message") or "",
    }


def _revisions(app: str, row: ToldApplication) -> list[ShownRevision]:
    rows = _rows(row.get("revisions"))
    return [
        {
            "application": app,
            "number": each.get("number"),
            "at": each.get("at_s"),
            "what": each.get("what"),
            "outcome": each.get("outcome"),
            "versions": ", ".join(
                f"{name} {short_version(version)}" for name, version in (each.get("versions") or {}).items()
            ),
            "is_current": index == len(rows) - 1,
        }
        for index, each in enumerate(rows)
    ]


def _deployment(
    app: str,
    name: str,
    row: ToldDeployment,
    numbers: Numbers,
    recent: Numbers,
    span_s: float,
    board: bytes,
) -> ShownDeployment:
    replicas = _rows(row.get("replicas"))
    version, wanted = str(row.get("version") or ""), int(row.get("wanted") or 0)
    runs = [each for each in replicas if each.get("state") in ("RUNNING", "UPDATING")]
    new = [each for each in runs if each.get("version") == version]
    old = [each for each in replicas if each.get("version") != version and each.get("state") != "STOPPING"]
    ongoing = [on_board(board, each.get("board_row")) for each in replicas]
    timed = recent if sum(recent.buckets) else numbers
    return {
        "application": app,
        "deployment": name,
        "status": row.get("status"),
        "message": row.get("message") or "",
        "running": len(runs),
        "wanted": wanted,
        "autoscales": bool(row.get("autoscales")),
        "version": version,
        "rollout": rollout(row, len(new), len(old)),
        "share_new": len(new) / wanted if wanted else 0.0,
        "rate": recent.requests / span_s if span_s > 0 else None,
        "error_rate": recent.errors / span_s if span_s > 0 else None,
        "requests": round(numbers.requests),
        "errors": round(numbers.errors),
        "p50_ms": timed.percentile_ms(0.5),
        "p95_ms": timed.percentile_ms(0.95),
        "waiting": on_board(board, row.get("queue_row")),
        "ongoing": sum(each for each in ongoing if each is not None) if board else None,
        "most": len(runs) * int(row.get("max_ongoing") or 0),
    }


def rollout(row: ToldDeployment, new: int, old: int) -> str:
    """How far an update is, in words; "" while there is none.

    >>> rollout({"version": "b2", "wanted": 3, "previous": "a1"}, 1, 2)
    'b2 replaces a1: 1 of 3 are new, 2 old'
    >>> rollout({"version": "b2", "wanted": 4, "canary": 0.25}, 1, 4)
    'canary b2 gets 25 % of the requests: 1 new, 4 old'
    """
    version, wanted = short_version(row.get("version")), row.get("wanted")
    if row.get("rolled_back"):
        return f"rolled back: {row['rolled_back']}"
    if not old:
        return ""
    if share := row.get("canary"):
        return f"canary {version} gets {float(share):.0%} of the requests: {new} new, {old} old".replace(
            "%", " %"
        )
    before = f" replaces {short_version(row['previous'])}" if row.get("previous") else ""
    return f"{version}{before}: {new} of {wanted} are new, {old} old"


def short_version(version: object) -> str:
    """A version for people: a user's own as it is, a hash in its first letters."""
    text = str(version or "")
    return text if len(text) <= 12 else text[:8]


def _replica(
    app: str, name: str, row: ToldDeployment, replica: ToldReplica, numbers: Numbers, board: bytes
) -> ShownReplica:
    return {
        "key": replica.get("id"),
        "replica": replica.get("id"),
        "deployment": f"{app} / {name}",
        "state": replica.get("state"),
        "version": short_version(replica.get("version"))
        + ("" if replica.get("version") == row.get("version") else " (old)"),
        "pid": replica.get("pid"),
        "actor_id": replica.get("actor_id"),
        "worker_id": replica.get("worker_id"),
        "since": replica.get("since_s"),
        "ongoing": on_board(board, replica.get("board_row")),
        "requests": round(numbers.requests),
        "errors": round(numbers.errors),
        "mean_ms": numbers.total_ms / numbers.requests if numbers.requests else None,
        "p95_ms": numbers.percentile_ms(0.95),
        "log": replica.get("log"),
    }
