"""What Serve tells readers that do not ask it: one file of plain JSON, for the page, also after the session's end.

::

    controller ── when a row has changed ──► <session>/serve/status.json ──► dashboard/serving.py

Owns the file and its fields. The head process reads it, which joins no session and unpickles nothing. The file says
what is there; how much they do is in the metrics, and how many requests wait is on the board. The last applications
stay in it when Serve is shut down. In the controller's loop.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from sundog.observe.serve_files import STATUS
from sundog.serve.config import share_of
from sundog.serve.plan import DeploymentPlan, ReplicaRow

if TYPE_CHECKING:
    from sundog.observe.serve_files import Told, ToldApplication, ToldDeployment, ToldReplica
    from sundog.serve.applications import Applications

_TEXT_MAX = 4000


class Teller:
    """Writes the file when it would say something else.

    Args:
        folder: Serve's own folder in the session.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, STATUS)
        self._told: Told = {}
        self._is_over = False

    def tell(self, apps: Applications) -> None:
        """Write how it is now, if that is news."""
        if self._is_over:
            return
        http = apps.core.options.http
        rows = {name: _application(apps, name) for name in apps.specs}
        told: Told = {
            "is_over": False,
            "host": http.host,
            "port": apps.core.proxies.port,
            "applications": rows,
        }
        if told != self._told:
            self._write(told)

    def end(self, apps: Applications) -> None:
        """Serve is shut down: write that, and leave what ran until now."""
        self.tell(apps)
        self._is_over = True
        self._write({**self._told, "is_over": True})

    def _write(self, told: Told) -> None:
        """Replace the file. A full disk is no reason to stop serving: the file is written when there is room again."""
        temporary = f"{self._path}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
                json.dump({"at_s": time.time(), **told}, file)
            os.replace(temporary, self._path)
        except OSError:
            return
        self._told = told


def _application(apps: Applications, name: str) -> ToldApplication:
    spec = apps.specs[name]
    state = apps.states.get(name)
    return {
        "status": state[0].value if state is not None else "DEPLOYING",
        "message": state[1][:_TEXT_MAX] if state is not None else "",
        "route_prefix": spec.route_prefix,
        "ingress": spec.ingress,
        "deployed_s": apps.deployed_s.get(name, 0.0),
        "revisions": [
            {
                "number": row.number,
                "at_s": row.at_s,
                "what": row.what,
                "outcome": row.outcome,
                "versions": row.versions,
            }
            for row, _ in apps.history.get(name, ())
        ],
        "deployments": {
            plan.id.name: _deployment(apps, plan)
            for plan in apps.core.plans.values()
            if plan.id.app_name == name
        },
    }


def _deployment(apps: Applications, plan: DeploymentPlan) -> ToldDeployment:
    target = plan.target
    canary = share_of(target.config.rolling_update_config.canary) if target is not None else None
    return {
        "status": plan.status.value,
        "trigger": plan.trigger.value,
        "message": plan.message[:_TEXT_MAX],
        "wanted": target.num_replicas if target is not None else 0,
        "version": target.version if target is not None else "",
        "previous": plan.previous.version if plan.previous is not None else "",
        "rolled_back": plan.rolled_back[:_TEXT_MAX],
        "canary": canary if not plan.is_promoted else None,
        "autoscales": target is not None and target.config.autoscaling_config is not None,
        "max_ongoing": target.config.max_ongoing_requests if target is not None else 0,
        "queue_row": apps.core.queue_rows.get(plan.id, -1),
        "replicas": [_replica(apps, row) for row in plan.replicas.values()],
    }


def _replica(apps: Applications, row: ReplicaRow) -> ToldReplica:
    living = apps.core.replicas.living.get(row.id.unique_id)
    facts = living.facts if living is not None else None
    return {
        "id": row.id.unique_id,
        "state": row.state.value,
        "version": row.version,
        "since_s": row.started_s,
        "board_row": living.board_row if living is not None else -1,
        "pid": facts.pid if facts is not None else None,
        "actor_id": facts.actor_id if facts is not None else None,
        "worker_id": facts.worker_id if facts is not None else None,
        "log": os.path.basename(facts.log_path) if facts is not None else None,
    }
