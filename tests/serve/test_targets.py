"""What the controller tells routers of a deployment."""

from __future__ import annotations

import pickle

from sundog.serve.targets import DeploymentTargets


def test_targets_do_not_share_their_lists() -> None:
    one, other = DeploymentTargets(), DeploymentTargets()
    one.replicas.append(None)  # type: ignore[arg-type]
    assert other.replicas == [] and other.max_queued_requests == -1 and other.exists


def test_targets_travel_whole() -> None:
    told = DeploymentTargets(is_available=False, board_row=3, autoscales=True)
    assert pickle.loads(pickle.dumps(told)) == told
