"""What Serve tells in its file: only news, and what ran last when it is shut down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from sundog.serve.deployment import DeploymentConfig
from sundog.serve.plan import DeploymentPlan, DeploymentTarget
from sundog.serve.rows import DeploymentID
from sundog.serve.schema import ApplicationStatus
from sundog.serve.specs import AppSpec, Revision, ServeOptions
from sundog.serve.telling import Teller


class _Proxies:
    port = 8000


class _Replicas:
    """No replica lives yet."""

    def __init__(self) -> None:
        self.living: dict[str, object] = {}


class _Core:
    """The controller with one plan."""

    def __init__(self, plan: DeploymentPlan) -> None:
        self.options, self.proxies, self.replicas = ServeOptions(), _Proxies(), _Replicas()
        self.plans = {plan.id: plan}
        self.queue_rows = {plan.id: 4}


class _Applications:
    """One application, which is being deployed."""

    def __init__(self, core: _Core) -> None:
        self.core = core
        spec = AppSpec("shop", "/", "Price", [])
        self.specs = {"shop": spec}
        self.states = {"shop": (ApplicationStatus.DEPLOYING, "soon")}
        self.deployed_s: dict[str, float] = {}
        revision = Revision(1, 1.0, "deploy", "deploying", {"Price": "v1"})
        self.history = {"shop": [(revision, spec)]}


def applications() -> Any:
    plan = DeploymentPlan(DeploymentID("Price", "shop"), lambda: "abc")
    plan.deploy(DeploymentTarget("v1", DeploymentConfig(), 1))
    plan.step(0.0)
    return _Applications(_Core(plan))


def test_a_file_says_who_is_there_and_is_written_when_that_changes(tmp_path: Path) -> None:
    apps, teller, file = cast(Any, applications()), Teller(str(tmp_path)), tmp_path / "status.json"
    teller.tell(apps)
    told = json.loads(file.read_text())
    row = told["applications"]["shop"]["deployments"]["Price"]
    assert (row["version"], row["queue_row"], row["replicas"][0]["state"]) == ("v1", 4, "STARTING")
    assert file.stat().st_mode & 0o777 == 0o600
    file.unlink()
    teller.tell(apps)
    assert not file.exists(), "nothing is new"
    apps.core.plans[DeploymentID("Price", "shop")].started("abc", 1.0)
    teller.tell(apps)
    assert json.loads(file.read_text())["applications"]["shop"]["deployments"]["Price"]["replicas"][0][
        "state"
    ] == ("RUNNING")


def test_what_ran_last_stays_when_serve_is_shut_down(tmp_path: Path) -> None:
    apps, teller = applications(), Teller(str(tmp_path))
    teller.end(apps)
    apps.specs.clear()
    teller.tell(apps)
    told = json.loads((tmp_path / "status.json").read_text())
    assert told["is_over"] and "shop" in told["applications"]


def test_a_folder_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    Teller(str(tmp_path / "gone")).tell(applications())
