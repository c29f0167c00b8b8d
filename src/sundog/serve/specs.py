"""What a driver hands the controller, and what the controller keeps on disk.

Owns the rows and the file. The file is in the session's folder, which belongs to this user alone; user code in it
stays pickled: the controller never loads it. Runs in the driver and the controller.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sundog.plain import NamedTuple
from sundog.serve.config import HTTPOptions, ProxyLocation
from sundog.serve.deployment import DeploymentConfig
from sundog.serve.plan import DeploymentTarget, ReplicaRow
from sundog.serve.rows import DeploymentID
from sundog.serve.schema import APIType, LoggingConfig

if TYPE_CHECKING:
    from sundog.plain import JsonObject
    from sundog.serve.config import AutoscalingPolicy
    from sundog.serve.rows import DeploymentStatus


@dataclass
class DeploymentSpec:
    """One deployment to run."""

    name: str
    config: DeploymentConfig
    code: bytes
    process: JsonObject
    version: str
    downstream: list[str] = field(default_factory=list)  # the deployments that it is bound to


@dataclass
class AppSpec:
    """One application to run."""

    name: str
    route_prefix: str | None
    ingress: str
    deployments: list[DeploymentSpec]
    logging: LoggingConfig | None = None
    source: APIType = APIType.IMPERATIVE
    config: JsonObject | None = None  # as the user's YAML has it
    external_scaler: bool = False
    autoscaling_policy: AutoscalingPolicy | None = None


@dataclass
class ServeOptions:
    """How Serve itself runs."""

    http: HTTPOptions = field(default_factory=HTTPOptions)
    location: ProxyLocation = ProxyLocation.HeadOnly
    logging: LoggingConfig = field(default_factory=LoggingConfig)


class Revision(NamedTuple):
    """One deploy of an application, in its history."""

    number: int
    at_s: float
    what: str  # deploy, rollback
    outcome: str
    versions: dict[str, str]
    is_current: bool = False


@dataclass
class KeptDeployment:
    """A deployment on disk."""

    id: DeploymentID
    target: DeploymentTarget | None
    previous: DeploymentTarget | None
    replicas: list[ReplicaRow]
    board: dict[str, int]
    queue_row: int
    status: DeploymentStatus
    message: str
    has_run: bool
    is_promoted: bool
    is_deleting: bool


@dataclass
class KeptApp:
    """An application on disk."""

    spec: AppSpec
    deployed_s: float
    history: list[tuple[Revision, AppSpec]]
    is_deleting: bool


@dataclass
class Kept:
    """All that a controller must know to continue."""

    options: ServeOptions
    port: int
    columns: dict[str, tuple[int, int]]
    apps: list[KeptApp]
    deployments: list[KeptDeployment]


class SpecStore:
    """The file, and the code of versions beside it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        os.makedirs(folder, mode=0o700, exist_ok=True)

    def put_code(self, code: bytes) -> str:
        """Keep the code of a version; returns its name."""
        key = hashlib.sha256(code).hexdigest()[:32]
        path = self._path(f"code-{key}")
        if not os.path.exists(path):
            self._write(path, code)
        return key

    def code(self, key: str) -> bytes:
        """The code of a version."""
        with open(self._path(f"code-{key}"), "rb") as file:
            return file.read()

    def save(self, kept: Kept) -> None:
        """Replace the file as a whole, so that a reader finds the old one or the new one."""
        self._write(self._path("state"), pickle.dumps(kept, 5))

    def load(self) -> Kept | None:
        """What an earlier controller of this session kept; None if there was none."""
        try:
            with open(self._path("state"), "rb") as file:
                found: Kept = pickle.load(file)
        except FileNotFoundError:
            return None
        return found

    def clear(self) -> None:
        """Serve is shut down: keep nothing."""
        for name in (
            "state",
            "board",
            *(each for each in os.listdir(self.folder) if each.startswith("code-")),
        ):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(name))

    def board_path(self) -> str:
        """Where the queue lengths are."""
        return self._path("board")

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _write(self, path: str, data: bytes) -> None:
        temporary = f"{path}.new"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
